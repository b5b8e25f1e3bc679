"""Derivative of a step with rigid contact, relative to the step: the standing quadruped.

The peer is the step itself, so that the ratio is the share of the derivative's time that a step
takes. Before times are compared, A and B are compared with central differences of the step, along
directions that keep the feet on the ground.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

SIZE = 256
"""States in a batch: 1944 results each, 4 MB together."""

STEP = 1e-3
FRICTION = 0.8
DIFFERENCE, ACCURACY = 1e-7, 1e-4
"""Of central differences, whose error is that of impulses of 12 digits over the difference."""

MUST, AIM = 1.0 / 6.0, 1.0 / 4.0
NOTE = (
    "derivative of a contact step: A and B by 54 directions, 1944 numbers, of the step that "
    "`simulate` takes with `method='rk4'`; both sides write into arrays that exist"
)


def run(duration: float) -> Iterator[Figure]:
    """Measure one robot, and a batch on one thread.

    Args:
        duration: Time to spend on each side [s].
    """
    import tiburon as tb

    model = tb.load("quadruped")
    world = tb.World(ground=tb.Ground(static_friction=FRICTION))
    stand = np.array(model.poses["stand"])

    @tb.traced
    def hold(state: Any) -> Any:
        rows = zip(stand[7:].tolist(), state.q[7:], state.v[6:], strict=True)
        return [0.0] * 6 + [100.0 * (a - q) - 3.0 * v for a, q, v in rows]

    options = {
        "world": world,
        "execution": tb.Execution(progress=False),
    }
    rest = tb.simulate(
        model.without_passive().without_limits(), 1.0, q=stand, control=hold, **options
    )
    q, v, z = rest.q[-1], rest.v[-1], rest.z[-1]
    tau = np.concatenate([np.zeros(6), 100.0 * (stand[7:] - q[7:])])
    points = 4 * len(model.contacts)
    step, derivative = _kernels(model, world)
    _compare(model, world, step, q, v, tau, z)

    yield _single(step, derivative, (q, v, tau, z), points, duration)
    generator = np.random.default_rng(3)
    many = np.broadcast_to(q, (SIZE, model.nq)).copy()
    rates = v + 0.02 * generator.standard_normal((SIZE, model.nv))
    held = np.zeros((SIZE, model.nv + len(z)))
    held[:, : model.nv], held[:, model.nv :] = tau, z
    clock = np.array([0.0, STEP, STEP, 0.0])
    ends = step(many, rates, held, clock)
    found = derivative(many, rates, tau, z[:points])

    def steps() -> None:
        step(many, rates, held, clock, threads=1, out=ends)

    def derivatives() -> None:
        derivative(many, rates, tau, z[:points], threads=1, out=found)

    times = measure({"ours": derivatives, "step": steps}, duration=duration)
    yield Figure(
        f"derivative of a contact step, quadruped, {SIZE} cases, one thread",
        times["ours"].per(SIZE),
        "the step",
        times["step"].per(SIZE),
        MUST,
        AIM,
        note=NOTE,
    )


def _single(step: Any, derivative: Any, state: Any, points: int, duration: float) -> Figure:
    """Measure calls for one robot: position, velocity, joint force and contact states."""
    q, v, tau, z = state
    rate = v + 0.02 * np.random.default_rng(3).standard_normal(len(v))
    held, clock = np.concatenate([tau, z]), np.array([0.0, STEP, STEP, 0.0])
    own = np.ascontiguousarray(z[:points])
    ends = step(q, rate, held, clock)
    found = tuple(np.array(one) for one in derivative(q, rate, tau, own))
    times = measure(
        {
            "ours": lambda: derivative(q, rate, tau, own, out=found),
            "step": lambda: step(q, rate, held, clock, out=ends),
        },
        duration=duration,
    )
    return Figure(
        "derivative of a contact step, quadruped, one robot",
        times["ours"],
        "the step",
        times["step"],
        MUST,
        AIM,
        note=NOTE,
    )


def _kernels(model: Any, world: Any) -> tuple[Any, Any]:
    """Return the kernels of a step, and of its derivative."""
    from tiburon.actuation.contact_models import RigidContact
    from tiburon.actuation.rigid_contact import RigidContactElement
    from tiburon.simulation.contact_linearization import contacts_of, step_kernel_of
    from tiburon.simulation.step import StepSource, step_kernel
    from tiburon.simulation.system import System

    system = System(model, world, [RigidContactElement.of(model, world)], steps=True)
    step = step_kernel(StepSource(system, "rk4"))
    contacts = contacts_of(model, world, RigidContact())
    kernel = step_kernel_of(model, world, contacts)

    length = np.array(STEP)

    def derivative(q: Any, v: Any, tau: Any, z: Any, **delivery: Any) -> Any:
        return kernel(q, v, tau, length, z, contacts.numbers, **delivery)

    return step, derivative


def _compare(model: Any, world: Any, step: Any, q: Any, v: Any, tau: Any, z: Any) -> None:
    """Compare A and B with differences of the step along directions that keep feet down."""
    import tiburon as tb

    n, points = model.nv, 4 * len(model.contacts)
    near = tb.linearize(model, q, v, tau, dt=STEP, world=world, contact_state=z[:points])
    columns = []
    for sign in (1.0, -1.0):
        moved = np.asarray(model.integrate(q, sign * 1e-6 * np.eye(n)))
        columns.append(tb.contacts(model, moved, world=world).gap)
    rows = ((columns[0] - columns[1]) / 2e-6).T
    _, _, basis = np.linalg.svd(rows)
    # at rest, velocities and forces along the same directions keep gaps closed
    free = basis[len(rows) :]
    zero = np.zeros_like(free)
    along = np.concatenate(
        [
            np.concatenate([free, zero, zero], axis=1),
            np.concatenate([zero, free, zero], axis=1),
            np.concatenate([np.zeros((n, 2 * n)), np.eye(n)], axis=1),
        ]
    )
    # without a guess, sweeps see all of a small change
    start = np.where(np.arange(len(z)) % 4 == 3, z, 0.0)
    start[points:] = 0.0
    held = np.zeros((len(along), n + len(z)))
    held[:, n:] = start
    clock = np.array([0.0, STEP, STEP, 0.0])
    sides = []
    for sign in (1.0, -1.0):
        dq, dv, dtau = np.split(sign * DIFFERENCE * along, 3, axis=1)
        held[:, :n] = tau + dtau
        ends = step(np.asarray(model.integrate(q, dq)), v + dv, held, clock)
        sides.append(ends[:2])
    change = np.concatenate(
        [model.difference(sides[1][0], sides[0][0]), sides[0][1] - sides[1][1]], axis=1
    )
    expected = change / (2.0 * DIFFERENCE)
    got = along @ np.concatenate([near.A, near.B], axis=1).T
    check_equal("A and B", got, expected, ACCURACY)


MEASUREMENT = Measurement(
    "contact-derivative", "Derivative of a step with rigid contact", run, place=23
)
