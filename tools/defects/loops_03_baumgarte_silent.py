"""Baumgarte stabilization through a singular pose (Sarrus linkage, flat) leaves its motion in silence.

Right: energy is conserved; projection (default) and Embedding pass the same pose with 1e-8, or the run says what happened. docs/numbers.md: "If the
rank differs between recorded rows ... run.outcome.message reports it". Baumgarte(10, 10) changes the energy by half of the largest kinetic energy,
outcome "finished", no message; gains of 50 and 200 give 1.5e-10.
"""
import numpy as np
import tiburon as tb

TOLERANCE = 1e-3  # change of energy relative to the largest kinetic energy
rng = np.random.default_rng(3)


def inertia():
    m, d = rng.uniform(0.3, 4), rng.uniform(0.05, 0.3, 3)
    axis = rng.normal(size=3)
    K = np.cross(np.eye(3), axis / np.linalg.norm(axis))
    t = rng.uniform(-2, 2)
    Q = np.eye(3) + np.sin(t) * K + (1 - np.cos(t)) * K @ K
    com = tuple(rng.uniform(-0.2, 0.2, 3))
    I = Q @ np.diag(m * np.array([d[1] ** 2 + d[2] ** 2, d[0] ** 2 + d[2] ** 2, d[0] ** 2 + d[1] ** 2]) / 3) @ Q.T
    return tb.Inertia(float(m), com, (I[0, 0], I[0, 1], I[0, 2], I[1, 1], I[1, 2], I[2, 2]))


h = rng.uniform(0.3, 0.8)
x = np.sqrt(1 - h * h)
hinges = [((0, 1, 0), (1, 0, 0)), ((0, 1, 0), (1 + x, 0, h)), ((0, 1, 0), (1, 0, 2 * h)), ((1, 0, 0), (0, 1, 2 * h)), ((1, 0, 0), (0, 1 + x, h)), ((1, 0, 0), (0, 1, 0))]
bodies, before = [], np.zeros(3)
for k, (axis, point) in enumerate(hinges[:-1]):
    step = tuple(np.array(point, float) - before)
    before = np.array(point, float)
    bodies.append(tb.Body(f"b{k}", f"b{k - 1}" if k else "world", joint=tb.Revolute(f"j{k}", axis, pose=tb.Pose(translation=step)), inertia=inertia()))
axis, point = hinges[-1]
closure = tb.LoopClosure("last", "b4", "world", tb.Revolute("last", axis, pose=tb.Pose(translation=tuple(np.array(point, float) - before))), tb.Pose(translation=point))
sarrus = tb.Model("sarrus", bodies, loops=[closure])
q = np.zeros(5)
v = np.asarray(tb.project_velocity(sarrus, q, 0.5 * rng.normal(size=5)))
wrong = False
for method in (tb.Projection(), tb.Embedding("gauss"), tb.Baumgarte(10.0, 10.0)):
    run = tb.simulate(sarrus, 5.0, q=q, v=v, loops=method, record=tb.Record(dt=0.02))
    kinetic = np.array([float(tb.kinetic_energy(sarrus, a, b)) for a, b in zip(run.q, run.v)])
    energy = kinetic + [float(tb.potential_energy(sarrus, a)) for a in run.q]
    change = np.abs(energy - energy[0]).max() / kinetic.max()
    message = str(run.outcome.message)
    silent = run.outcome.ok and "rank" not in message and "singular" not in message
    wrong |= change > TOLERANCE and silent
    print(f"{'projection' if isinstance(method, tb.Projection) else type(method).__name__}: {run.outcome}, message {message!r}, change of energy / largest kinetic energy {change:.1e}")
print(f"Baumgarte changes the energy by {change:.2g} of the largest kinetic energy{', in silence' if silent else ', and says so'}; right: 0, or a message (tolerance {TOLERANCE:g})")
raise SystemExit(int(wrong))
