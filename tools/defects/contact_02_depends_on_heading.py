"""Rigid steps depend on the heading of the world's axes: turn the whole scene about the vertical by 37 degrees, and tumbling boxes move elsewhere.

Right: gravity, level ground and Coulomb's cone are symmetric about the vertical, so the turned motion is the same to rounding (about 1e-12 m).
Cause seen: `_is_carried` of trace/primitives/contact_step.py compares absolute components along the tangent axes (maximum norm), not
lengths of tangential vectors.
"""
import numpy as np
import tiburon as tb

TOLERANCE = 1e-9  # m, at the first step in which the two motions differ
rng = np.random.default_rng(5)
n = 64
size = (0.4, 0.3, 0.2)
box = tb.Model("block", [tb.Body("block", joint=tb.Free("block"), inertia=tb.Inertia.box(2.0, size), shapes=(tb.Shape(tb.BoxShape(size)),))])
world = tb.World(ground=tb.Ground(static_friction=0.5))
u = rng.normal(size=(n, 4))
u /= np.linalg.norm(u, axis=1)[:, None]
q = np.c_[u, np.zeros((n, 2)), np.full(n, 0.5)]
v = rng.normal(size=(n, 6)) * [3, 3, 3, 1, 1, 1]
a = np.deg2rad(37.0)
c, s = np.cos(a / 2), np.sin(a / 2)
W, X, Y, Z = u.T
turned = q.copy()
turned[:, :4] = np.c_[c * W - s * Z, c * X - s * Y, c * Y + s * X, c * Z + s * W]
R = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
first = tb.simulate(box, 0.6, q=q, v=v, world=world, record=tb.Record(every=1)).q[..., 4:7].copy()
second = tb.simulate(box, 0.6, q=turned, v=v, world=world, record=tb.Record(every=1)).q[..., 4:7].copy()
second[..., :2] = second[..., :2] @ R
d = np.abs(first - second).max(-1)
jumps = [d[int(np.argmax(d[:, k] > TOLERANCE)), k] for k in range(n) if d[:, k].max() > TOLERANCE]
print(f"{len(jumps)} of {n} boxes move elsewhere; largest jump within one step {max(jumps, default=0):.1e} m, after 0.6 s {d[-1].max():.1e} m; right: 0 boxes (tolerance {TOLERANCE:g} m)")
raise SystemExit(int(bool(jumps)))
