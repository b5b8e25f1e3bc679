"""Thrusters do not know the water: five meters above the free surface, on land and in any density they give full thrust.

Right: a propeller in air has practically no thrust (rho_air/rho_water, 0.1 %), and thrust is proportional to density. docs/limits.md says nothing about it.
"""
import tiburon as tb

TOLERANCE = 0.02  # thrust in air relative to thrust in water
robot = tb.load("bluerov2_heavy")
names = [t.name for t in robot.thrusters][:4]
surge = {}
for what, options, z in (("deep", dict(fluid=tb.Water(1025.0, surface=0.0)), -20.0), ("5 m above the surface", dict(fluid=tb.Water(1025.0, surface=0.0)), 5.0), ("no water", {}, 0.0)):
    q = robot.neutral()
    q[6] = z
    surge[what] = tb.simulate(robot, 0.02, q=q, command={n: 20.0 for n in names}, method=tb.RK4(dt=1e-3), record=tb.Record(dt=0.02), **options).v[-1, 3]
    print(f"{what}: surge after 20 ms {surge[what]:.5f} m/s")
dry = max(abs(surge["5 m above the surface"]), abs(surge["no water"])) / abs(surge["deep"])
print(f"surge in the air {dry:.2f} times that under water; right: about 0 (tolerance {TOLERANCE:g})")
raise SystemExit(int(dry > TOLERANCE))
