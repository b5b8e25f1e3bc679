"""Event-driven: a rod that stands on the ground, falls out of a plane and begins to slip. At stick -> slip the run logs a "jam" and ends.

Right: Coulomb's law has a solution there; contact_dynamics at that state finds exactly one, sliding, with T/N equal to the friction. The paradox of
Painleve needs a coefficient above 4/3 for a uniform rod; the first case here has 0.2. Planar falls work: the 3D transition is taken for a jam.
"""
import numpy as np
import tiburon as tb

L, m = 1.0, 1.0
rod = tb.Model("rod", [tb.Body("rod", joint=tb.Free("rod"), inertia=tb.Inertia(m, (0, 0, 0), (m * L * L / 12, 0, 0, m * L * L / 12, 0, 1e-3)))],
               contacts=[tb.ContactPoint("low", "rod", (0, 0, -L / 2)), tb.ContactPoint("high", "rod", (0, 0, L / 2))])
cases = ((0.2, 0.05), (0.6, 0.6), (0.8, 0.3), (0.8, 0.6), (1.0, 0.05))  # friction, tilt [rad]
bad = 0
for mu, tilt in cases:
    w = np.array([1.5, 0.3, 0.0])  # 1.5 rad/s out of the plane of the fall
    q = [np.cos(tilt / 2), 0, np.sin(tilt / 2), 0, 0, 0, L / 2 * np.cos(tilt)]
    ground = tb.World(ground=tb.Ground(static_friction=mu))
    run = tb.simulate(rod, 1.0, q=q, v=[*w, *np.cross(w, [0, 0, L / 2])], world=ground, contact=tb.ExactContact(), record=tb.Record(dt=0.01))
    if not run.outcome.ok:
        bad += 1
        there = tb.contact_dynamics(rod, run.outcome.q, run.outcome.v, np.zeros(6), world=ground)
        print(f"friction {mu}, tilt {tilt}: {run.outcome.message[:80]}; contact_dynamics there: {there.solutions} solution, T/N {np.hypot(*there.forces[0, :2]) / there.forces[0, 2]:.4f}")
print(f"{bad} of {len(cases)} falls end early; right: 0")
raise SystemExit(int(bad > 0))
