"""A strandbeest walks on the beach: twelve legs on one crankshaft, 36 loops, sand below."""

import numpy as np

import tiburon as tb
from tiburon.demos.demo import Demonstration, attitude, contact_facts, contact_figure, walk_figure

CRANK_SPEED = 2.5
"""Of the crankshaft [rad/s]."""

STEP = 2e-3
"""Of the integrator [s]."""


def strandbeest(duration: float | None = None) -> Demonstration:
    """Let the strandbeest walk on sand: compliant ground.

    Args:
        duration: Simulated time [s]; 6 by default.
    """
    length = 6.0 if duration is None else duration
    beast = tb.load("strandbeest")
    sand = tb.Ground(
        static_friction=0.8, kinetic_friction=0.7, normal_stiffness=8e3, normal_damping=150.0
    )
    shaft = beast.slice("crankshaft", of="v").start

    @tb.traced
    def wind(state):  # type: ignore[no-untyped-def]
        force = [0.0] * beast.nv
        speed = CRANK_SPEED * np.clip(state.time, 0.0, 1.0)
        force[shaft] = np.clip(60.0 * (speed - state.v[shaft]), -60.0, 60.0)
        return force

    run = tb.simulate(
        beast, length, world=tb.World(ground=sand), control=wind, dt=STEP, progress=False
    )
    feet = [point.name for point in beast.contacts]
    way = run.q[-1, 4:7] - run.q[0, 4:7]
    roll, pitch, _ = (np.degrees(np.abs(angle).max()) for angle in attitude(run.q))
    turns = run.q[-1, beast.slice("crankshaft").start] / (2.0 * np.pi)
    residual = float(np.abs(tb.constraint_residual(beast, run.q[::20])).max())
    title = "A strandbeest walks on sand"
    facts = (
        f"walked {way[0]:.2f} m in {length:.4g} s with {turns:.1f} turns of its crankshaft",
        f"leaned by {roll:.1f} degrees sideways, {pitch:.1f} degrees fore and aft at most",
        f"its 36 loops stay closed within {residual:.1e} m",
        *contact_facts(run, feet),
    )
    figures = {
        "walk.png": walk_figure(run, title),
        "contacts.png": contact_figure(run, feet, title),
    }
    return Demonstration(run, facts, figures, title)
