"""`integrate_rk4`: the motion of a robot under constant joint forces, without elements."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ShapeError
from tiburon.functions.assembly import closed_start
from tiburon.model import Model, Water, World
from tiburon.model.configuration import as_batch
from tiburon.record import record
from tiburon.results.checkpoint import Checkpoint
from tiburon.simulation import engine
from tiburon.simulation.run import RunSetup, carry_out
from tiburon.simulation.step import Clock, StepSource, step_kernel
from tiburon.simulation.surrounded import surrounded
from tiburon.simulation.system import System

METHOD = "rk4"


@record(eq=False)
class StateRecord:
    """Times, positions and velocities of a run; time is the first dimension.

    The arrays go straight into other functions: ``tb.kinetic_energy(model, run.q, run.v)`` has one
    value for each recorded time, and case.
    """

    time: Array
    """Recorded times, the first being 0 by default [s], shape (n,)."""

    q: Array
    """Positions [m or rad], shape (n, ..., nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (n, ..., nv)."""

    def __len__(self) -> int:
        """Return the number of recorded states."""
        return len(self.time)

    def __repr__(self) -> str:
        batch = self.q.shape[1:-1]
        cases = f" of {' x '.join(map(str, batch))} cases" if batch else ""
        return f"<StateRecord: {len(self)} states{cases} over {self.time[-1]:.6g} s>"


@public
def integrate_rk4(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike | None = None,
    *,
    dt: float,
    steps: int,
    world: World | None = None,
    fluid: Water | None = None,
    time: float = 0.0,
    record_every: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> StateRecord:
    """Integrate the motion of a robot under constant joint forces: Runge-Kutta of order 4.

    Steps run natively and return to Python about every 20 ms, for `progress` and Ctrl-C. How they
    are grouped never changes a bit: neither does `record_every`, nor does continuing from a
    recorded state, nor being one case of a batch.

    Args:
        model: The robot.
        q: Initial configuration [m or rad], shape (..., nq); a quaternion of a length other than 1
            is recorded as given and has length 1 after the first step.
        v: Initial joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force, the same at all times [N or N m], shape (..., nv); none by default.
        dt: Length of a step [s]; negative to go back in time.
        steps: Number of steps.
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
        fluid: The water the robot is in: short for a world of this fluid.
        time: Time at the start [s]; `Driven` joints and water continue from there.
        record_every: Steps between two recorded states. The first and last state are always
            recorded.
        progress: Called about every 20 ms and at the end, with the number of steps done and
            `steps`.

    Returns:
        The recorded times, positions and velocities.

    Raises:
        ShapeError: If an array does not fit the robot.
        NonFiniteError: If an array holds NaN or infinity.
        DomainError: If `dt`, `steps` or `record_every` make no sense, or the motion diverges; the
            message says when.

    Example:
        Ten seconds at 1 ms, a hundred states a second::

            run = tb.integrate_rk4(arm, q, v, dt=1e-3, steps=10_000, record_every=10)
            energy = tb.kinetic_energy(arm, run.q, run.v) + tb.potential_energy(arm, run.q)
    """
    around = world_with(world, fluid, one_case="integrate_rk4") or DEFAULT_WORLD
    batch, position, velocity, force = _start(model, q, v, tau)
    dt = _number("dt", dt)
    steps = at_least("steps", steps, 0)
    record_every = at_least("record_every", record_every, 1)
    begin = _number("time", time)
    if model.loops:
        position, velocity = closed_start(model, position, velocity, begin)
    if not position.size:
        # nothing moves, or there are no cases
        marks = np.minimum(np.arange(0, steps + record_every, record_every), steps)
        shapes = [(len(marks), *batch, count) for count in (model.nq, model.nv)]
        return StateRecord(begin + marks * dt, *(np.zeros(shape) for shape in shapes))
    system = surrounded(model, world, fluid, None).system()
    setup = RunSetup(model, around, (), METHOD, dt, begin, steps, record_every, rtol=1.0, atol=1.0)

    def show(done: float, duration: float) -> None:
        assert progress is not None
        progress(round(done / dt), steps)

    state = np.concatenate([position, velocity], axis=-1)
    run = carry_out(
        setup,
        system,
        batch,
        Checkpoint(0, begin, {"state": state, "held": force}),
        show if progress is not None and steps else False,
        None,
        progress_seconds=engine.CHUNK_SECONDS,
        strict=True,
    )
    if not run.outcome.ok:
        raise _diverged(system, run.outcome, run.outcomes, force, dt, begin)
    return StateRecord(run.time, run.q, run.v)


def _diverged(
    system: System, first: Any, outcomes: Any, force: Array, dt: float, begin: float
) -> DomainError:
    """Return the error of a motion that diverged: when, and why."""
    step = round((first.time - begin) / dt)
    reason = "none: a number beyond the range of float64"
    case = next(k for k, outcome in enumerate(outcomes) if outcome is first)
    clock = np.array(Clock(begin, dt, dt, float(step))[:4])
    try:
        # the step from the last finite state, on the path that diagnoses failures
        step_kernel(StepSource(system, METHOD))(first.q, first.v, force[case], clock)
    except DomainError as error:
        reason = error.given
    return DomainError(
        "motion",
        "finite positions and velocities",
        f"in step {step + 1}, from time {first.time:.6g} s on, {reason}",
        advice="take a smaller dt, or check the state at the start and the forces",
    )


def _start(
    model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike | None
) -> tuple[tuple[int, ...], Array, Array, Array]:
    """Return the shape of the cases, and position, velocity and force of each; checked."""
    arrays = (
        as_batch(q, model.nq, "q", model.describe_q()),
        as_batch(v, model.nv, "v", model.describe_v()),
        as_batch(np.zeros(model.nv) if tau is None else tau, model.nv, "tau", model.describe_v()),
    )
    shapes = [array.shape[:-1] for array in arrays]
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            "q, v, tau",
            "leading dimensions that broadcast",
            ", ".join(map(str, shapes)),
            advice="give every array the same number of cases, or one case",
        ) from None
    # arrays of their own: the caller may change the originals while a run continues
    rows = [
        np.array(np.broadcast_to(x, (*batch, x.shape[-1]))).reshape(math.prod(batch), x.shape[-1])
        for x in arrays
    ]
    return batch, rows[0], rows[1], rows[2]


def _number(argument: str, value: object) -> float:
    """Return one finite number."""
    return float(as_batch(np.reshape(np.asarray(value), (-1,)), 1, argument, "1 number")[0])
