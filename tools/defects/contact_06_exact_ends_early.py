"""Event-driven runs (contact="exact") of ordinary tumbling bodies end with "contacts change without end", some after a "jam" although a force exists.

Right: one box or cylinder on level ground with Coulomb friction has a solution at all times; rigid steps from the same state finish.
At the states called a jam, contact_dynamics finds a solution. See also contact_10.
"""
import numpy as np
import tiburon as tb

shapes = {"box": tb.BoxShape((0.4, 0.3, 0.2)), "cylinder": tb.CylinderShape(0.15, 0.3)}
early = total = 0
for kind, picks in (("cylinder", (4, 5)), ("box", (3, 4))):
    body = tb.Body("b", joint=tb.Free("b"), inertia=tb.Inertia.box(2.0, (0.4, 0.3, 0.2)), shapes=(tb.Shape(shapes[kind]),))
    model = tb.Model("b", [body])
    rng = np.random.default_rng(0)
    for case in range(max(picks) + 1):
        mu = float(rng.choice([0.0, 0.2, 0.5, 1.0]))
        e = float(rng.choice([0.0, 0.0, 0.3, 0.7]))
        u = rng.normal(size=4)
        q = [*(u / np.linalg.norm(u)), 0, 0, 0.4]
        v = rng.normal(size=6) * [4, 4, 4, 1, 1, 1]
        if case not in picks:
            continue
        world = tb.World(ground=tb.Ground(static_friction=mu, restitution=e))
        run = tb.simulate(model, 0.8, q=q, v=v, world=world, contact=tb.ExactContact(), record=tb.Record(dt=0.01))
        steps = tb.simulate(model, 0.8, q=q, v=v, world=world, method=tb.RK4(dt=2.5e-4))
        total += 1
        early += not run.outcome.ok
        events = [(x.name, round(x.time, 4)) for x in run.events[-2:]]
        print(f"{kind}, friction {mu}, restitution {e}: {str(run.outcome)[:110]}; last events {events}; rigid steps: {steps.outcome}")
print(f"{early} of {total} event-driven runs end early; right: 0")
raise SystemExit(int(early > 0))
