"""Robots of the zoo with all their drag, thrusters off, dropped into still water: the energy of vehicle and water grows while they enter.

Right: drag only takes energy away, so the sum of all increases is 0. Same cause as water_06 (rate of the added mass). rexrov from 2 m: 22 kJ are created on top of 25.6 kJ.
"""
import numpy as np
import tiburon as tb

TOLERANCE = 0.005  # sum of all increases relative to the kinetic energy at entry
worst = 0.0
for name, height in (("bluerov2_heavy", 1.0), ("rexrov", 2.0)):
    robot, sea = tb.load(name), tb.Water(1025.0, surface=0.0)
    q = robot.neutral()
    q[6] = height
    run = tb.simulate(robot.without_passive().without_limits(), 3.0, q=q, fluid=sea, method=tb.RK4(dt=5e-4), record=tb.Record(dt=0.002))
    E = np.array([float(tb.kinetic_energy(robot, a, b, fluid=sea) + tb.potential_energy(robot, a, fluid=sea)) for a, b in zip(run.q, run.v)])
    K = max(float(tb.kinetic_energy(robot, a, b)) for a, b in zip(run.q, run.v))
    created = float(np.maximum(np.diff(E), 0).sum())
    worst = max(worst, created / K)
    print(f"{name} from {height:g} m: largest kinetic energy {K:.0f} J, energy created while entering {created:.1f} J")
print(f"energy created: up to {100 * worst:.0f} % of the kinetic energy; right: 0 (tolerance {100 * TOLERANCE:g} %)")
raise SystemExit(int(worst > TOLERANCE))
