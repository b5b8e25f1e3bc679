"""Which step holds which stiffness: a quadruped that stands on compliant ground.

`python -m benchmarks.compliant_table` prints the table of docs/contact.md: for each stiffness, step
and integrator whether the robot comes to rest, how deep its feet sink, what a step costs, and how
many times faster than real time that is, on one core.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import tiburon as tb
from tiburon.simulation.integrators.methods import integrator_named

STIFFNESSES = (1e4, 1e5, 1e6, 1e7)
"""Stiffness of one foot on its ground [N/m]."""

STEPS = (2e-4, 1e-3, 2e-3)
METHODS = ("semi_implicit_euler", "rk4", "rosenbrock")
FOOT_MASS = 0.06
"""Mass that a foot moves [kg]: the inverse of its mobility along the normal."""

DAMPING_RATIO = 0.3
GAINS = (100.0, 3.0)
"""Stiffness and damping of the joints [N m/rad, N m s/rad]."""

DURATION = 4.0
REST = 1e-2
"""Largest joint speed at rest [rad/s]."""

WEIGHT = 0.01
"""How far the sum of the contact forces may be from the weight at rest, relative to it."""


class Cell(NamedTuple):
    """One integrator with one step on one stiffness."""

    verdict: str
    """"rests", "does not rest", "diverges" or "refused"."""

    depth: float = np.nan
    """Deepest point at rest [m]."""

    cost: float = np.nan
    """Processor time of a step [s]."""

    ratio: float = np.nan
    """Simulated time per processor time."""

    def __str__(self) -> str:
        if self.verdict != "rests":
            return self.verdict
        return f"{1e3 * self.depth:.2g} mm, {1e6 * self.cost:.3g} us, {self.ratio:.0f}x"


def rows() -> Iterator[tuple[float, float, list[Cell]]]:
    """Run all combinations; yield stiffness, step, and what each integrator does."""
    dog = tb.load("quadruped")
    stand = np.array(dog.poses["stand"])
    stiffness, damping = GAINS
    targets = [float(x) for x in stand[7:]]

    @tb.traced
    def hold(state: Any) -> Any:
        pairs = zip(targets, state.q[7:], state.v[6:], strict=True)
        return [0.0] * 6 + [stiffness * (a - q) - damping * v for a, q, v in pairs]

    weight = 9.81 * sum(body.inertia.mass for body in dog.bodies)
    for k in STIFFNESSES:
        b = 2.0 * DAMPING_RATIO * (k * FOOT_MASS) ** 0.5
        ground = tb.Ground(static_friction=0.8, normal_stiffness=k, normal_damping=b)
        world = tb.World(ground=ground)
        q = stand.copy()
        q[6] -= tb.contacts(dog, q, world=world).gap.min() + weight / 4 / k
        for dt in STEPS:
            options = {"q": q, "world": world, "control": hold}
            yield k, dt, [_cell(dog, weight, method, dt, options) for method in METHODS]


def _cell(dog: tb.Model, weight: float, method: str, dt: float, options: dict[str, Any]) -> Cell:
    """Let the robot come to rest."""
    options = {
        **options,
        "method": integrator_named(method, dt, adaptive=False),
        "record": tb.Record(dt=DURATION / 10),
        "execution": tb.Execution(progress=False),
        "limits": False,
    }
    try:
        # compiles
        tb.simulate(dog, dt, **{**options, "record": tb.Record(dt=dt)})
    except tb.DomainError:
        return Cell("refused")
    begin = time.process_time()
    run = tb.simulate(dog, DURATION, **options)
    spent = time.process_time() - begin
    if run.status != "finished":
        return Cell("diverges")
    carried = run.z[-1, :16].reshape(4, 4)[:, 2].sum()
    if np.abs(run.v[-1]).max() > REST or abs(carried - weight) > WEIGHT * weight:
        return Cell("does not rest")
    gap = tb.contacts(dog, run.q[-1], world=options["world"]).gap.min()
    steps = round(DURATION / options["dt"])
    return Cell("rests", -float(gap), spent / steps, DURATION / spent)


def main() -> None:
    """Print the table."""
    print("| stiffness | step | semi-implicit Euler | RK4 | Rosenbrock |")
    print("|---|---|---|---|---|")
    for k, dt, cells in rows():
        head = f"1e{round(np.log10(k))} N/m | {1e3 * dt:g} ms"
        print(f"| {head} | {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
