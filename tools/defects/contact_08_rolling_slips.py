"""A ball that rolls without slip (mode "sticking") slips steadily in rigid steps, by about (w h)^2 / 4 of its speed; its spin jumps in the first step.

Right: rolling at constant speed on level ground is an exact solution, the slip is 0. Odometry of small fast wheels is off by this factor.
"""
import numpy as np
import tiburon as tb

TOLERANCE = 1e-6  # slip relative to the rolling speed
r = 0.05
ball = tb.Model("ball", [tb.Body("ball", joint=tb.Free("ball"), inertia=tb.Inertia.sphere(1.0, r), shapes=(tb.Shape(tb.SphereShape(r)),))])
world = tb.World(ground=tb.Ground(static_friction=0.8))
worst = 0.0
for w in (20.0, 100.0, 200.0):
    run = tb.simulate(ball, 1.0, q=[1, 0, 0, 0, 0, 0, r], v=[0, w, 0, w * r, 0, 0], world=world, record=tb.Record(every=1, quantities=["body_velocity"]))
    V = run.data["body_velocity"].values[-1, 0]
    slip = abs(V[3] - r * V[1]) / (w * r)
    worst = max(worst, slip)
    print(f"rolls at {w:.0f} rad/s, 1 ms: slip {slip:.1e} of its speed ((w h)^2/4 = {(w * 1e-3) ** 2 / 4:.1e}), spin {w} -> {V[1]:.4f} rad/s")
print(f"largest relative slip {worst:.1e}; right: 0 (tolerance {TOLERANCE:g})")
raise SystemExit(int(worst > TOLERANCE))
