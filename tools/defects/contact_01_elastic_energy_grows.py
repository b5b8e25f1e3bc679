"""Rigid steps: a spinning box that bounces elastically (restitution 1) on frictionless ground gains energy systematically at the default step.

Right: an elastic, frictionless impact conserves energy, and so does flight; the event-driven mode (contact="exact") keeps it to 1e-12.
The error is of first order in dt. With restitution below 1 the loss hides it, and no outcome mentions it.
"""
import numpy as np
import tiburon as tb

TOLERANCE = 0.01  # median relative change of energy in 10 s at the default step
rng = np.random.default_rng(0)
n = 40
size = (0.4, 0.3, 0.2)
box = tb.Model("block", [tb.Body("block", joint=tb.Free("block"), inertia=tb.Inertia.box(2.0, size), shapes=(tb.Shape(tb.BoxShape(size)),))])
world = tb.World(ground=tb.Ground(restitution=1.0))
q = np.zeros((n, 7))
u = rng.normal(size=(n, 4))
q[:, :4] = u / np.linalg.norm(u, axis=1)[:, None]
q[:, 6] = 0.8
v = rng.normal(size=(n, 6)) * np.array([8, 8, 8, 1, 1, 1])
run = tb.simulate(box, 10.0, q=q, v=v, world=world, record=tb.Record(dt=0.1, quantities=["energy"]))
ratio = run.data["total_energy"].values
ratio = ratio[-1] / ratio[0]
one = tb.simulate(box, 2.0, q=q[0], v=v[0], world=world, contact=tb.ExactContact(), record=tb.Record(dt=0.1, quantities=["energy"]))
e = one.data["total_energy"].values
print(f"event-driven, one case: E(2 s)/E(0) - 1 = {e[-1] / e[0] - 1:.1e}")
print("rigid steps: E(10 s)/E(0), quantiles 0, 5, 50, 95, 100 %:", np.quantile(ratio, [0, 0.05, 0.5, 0.95, 1]).round(4))
change = float(np.median(ratio)) - 1
wrong = abs(change) > TOLERANCE
print(f"median change of energy {100 * change:+.2f} % in 10 s, {(ratio > 1).sum()} of {n} cases gained; right: 0 (tolerance {100 * TOLERANCE:.0f} %)")
raise SystemExit(int(wrong))
