"""Inverse kinematics: positions that bring frames where they should be.

The errors are those of `pose_error`, brought to zero by `levenberg_marquardt`; together they are
the Newton iteration of Nahon 1991, eqs. 3.18-3.20, with linear invariants (see
`tiburon.spatial.rotations` for the corrected rates), damped and held within joint limits.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tiburon.algorithms.frame_target import (
    Array,
    FrameTarget,
    Limits,
    checked_rotation,
    read_limits,
)
from tiburon.algorithms.levenberg_marquardt import Bounds, Evaluation, descend
from tiburon.algorithms.pose_error import PoseError, Wanted, pose_errors, touched_velocities
from tiburon.algorithms.surroundings import plan_and_gravity, refuse_loops
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.errors import DomainError, OptionError, ShapeError
from tiburon.functions.library import LibraryFunction, Options, call
from tiburon.model import Model, Plan, World
from tiburon.model.position_limits import within_limits
from tiburon.record import named_line
from tiburon.spatial import Scalar
from tiburon.spatial.rotations import select
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, current_graph

__all__ = [
    "InverseKinematics",
    "InverseKinematicsOutcome",
    "inverse_kinematics",
]


class InverseKinematicsOutcome(IntEnum):
    """How a search ended."""

    REACHED = 0
    STALLED = 1
    CUT_OFF = 2

    @property
    def sentence(self) -> str:
        """What the outcome means."""
        return _SENTENCES[self]


_SENTENCES = {
    InverseKinematicsOutcome.REACHED: "every target is met within the tolerance",
    InverseKinematicsOutcome.STALLED: "no small step brings the frames closer: the targets are out "
    "of reach, held off by limits, or the search is caught in a local minimum; try more starts",
    InverseKinematicsOutcome.CUT_OFF: "the iterations ran out while the frames were still "
    "approaching; allow more",
}


class InverseKinematics(NamedTuple):
    """Positions found, and how good they are; one entry per case."""

    q: Any
    """Position with the smallest error found [m or rad], shape (..., nq)."""

    outcome: Any
    """`InverseKinematicsOutcome` as a number, shape (...)."""

    error: Any
    """Remaining error: root of the sum of squares of all errors of position [m] and orientation
    [2 sin(angle/2), rad for small angles], shape (...)."""

    position_error: Any
    """Largest remaining distance of a frame from its target [m], shape (...)."""

    orientation_error: Any
    """Largest remaining angle of a frame from its target [rad], shape (...)."""

    iterations: Any
    """Evaluations it took from the start that led there, shape (...)."""

    @property
    def reached(self) -> Any:
        """Whether every target is met within the tolerance, shape (...)."""
        return self.outcome == InverseKinematicsOutcome.REACHED

    def __repr__(self) -> str:
        return named_line(self)


def _inputs(model: Model, options: Options) -> list[Input]:
    choices = dict(options)
    found = [Input("q", (model.nq,), described=model.describe_q())]
    for number, (frame, base, position, orientation) in enumerate(choices["targets"]):
        model.plan.frame(frame), model.plan.frame(base)
        if position:
            described = f"3 (position of frame {frame!r})"
            found.append(Input(f"position[{number}]", (3,), described=described))
        if orientation:
            described = f"3 x 3 (rotation matrix of frame {frame!r})"
            found.append(Input(f"orientation[{number}]", (3, 3), described=described))
    size = len(choices["limited"])
    if size:
        found += [Input("lower", (size,)), Input("upper", (size,))]
    if choices.get("turned", ()):
        found.append(Input("turn", (len(choices.get("turned", ())),)))
    return [*found, Input("tolerance", ())]


def _wanted(options: Options, arrays: list[Any]) -> list[Wanted]:
    """Take the arrays of the targets off the front of a list."""
    found = []
    for frame, base, position, orientation in dict(options)["targets"]:
        point = scalars(arrays.pop(0)) if position else None
        x = scalars(arrays.pop(0)) if orientation else None
        rows = None if x is None else ((x[0], x[1], x[2]), (x[3], x[4], x[5]), (x[6], x[7], x[8]))
        where = None if point is None else (point[0], point[1], point[2])
        found.append(Wanted(frame, base, rows, where))
    return found


def _run(model: Model, world: World | None, options: Options, q: Any, *arrays: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    choices = dict(options)
    rest = list(arrays)
    wanted = _wanted(options, rest)
    start = scalars(q)
    free = touched_velocities(pose_errors(plan, start, wanted))
    size = (sum(3 * (o + p) for _, _, p, o in choices["targets"]), len(free))
    limited = choices["limited"]
    lower, upper = (scalars(rest.pop(0)), scalars(rest.pop(0))) if limited else ([], [])
    columns = tuple(free.index(v) if v in free else None for _, v in limited)
    turned = choices.get("turned", ())
    turn_limits = scalars(rest.pop(0)) if turned else ()
    places = tuple(place for place, _ in limited)
    bounds = Bounds(places, columns, tuple(lower), tuple(upper), turned, tuple(turn_limits))

    def evaluate(position: Sequence[Scalar]) -> Evaluation:
        errors = pose_errors(plan, position, wanted)
        rows = [tuple(row.get(k, 0.0) for k in free) for error in errors for row in error.J]
        return Evaluation(
            tuple(x for error in errors for x in error.r), tuple(rows), _total(errors)
        )

    def step(position: Sequence[Scalar], dv: Sequence[Scalar]) -> list[Scalar]:
        return _integrate(plan, position, dict(zip(free, dv, strict=True)))

    (tolerance,) = scalars(rest.pop(0))
    found = descend(evaluate, step, start, bounds, tolerance, choices["max_iterations"], size)
    errors = pose_errors(plan, found.q, wanted)
    error = np.sqrt(found.square)
    cut_off = float(InverseKinematicsOutcome.CUT_OFF)
    failed = select(found.stalled > 0.5, float(InverseKinematicsOutcome.STALLED), cut_off)
    turn, shift = _largest(errors)
    return {
        "q": as_traced(_normalized(plan, found.q)),
        "outcome": select(error <= tolerance, float(InverseKinematicsOutcome.REACHED), failed),
        "error": error,
        "position_error": np.sqrt(shift),
        "orientation_error": 2.0 * np.arcsin(np.minimum(0.5 * np.sqrt(turn), 1.0)),
        "iterations": found.iterations,
    }


def _total(errors: Sequence[PoseError]) -> Scalar:
    total: Scalar = 0.0
    for error in errors:
        total = total + error.turn_square + error.shift_square
    return total


def _largest(errors: Sequence[PoseError]) -> tuple[Scalar, Scalar]:
    turn: Scalar = 0.0
    shift: Scalar = 0.0
    for error in errors:
        turn = np.maximum(turn, error.turn_square)
        shift = np.maximum(shift, error.shift_square)
    return turn, shift


def _integrate(plan: Plan, q: Sequence[Scalar], dv: Mapping[int, Scalar]) -> list[Scalar]:
    """Return the position after a step; joints that no step moves keep their numbers."""
    moved = list(q)
    for body in plan.bodies:
        places = range(body.v.start, body.v.stop)
        if any(k in dv for k in places):
            rates = [dv.get(k, 0.0) for k in places]
            moved[body.q] = body.joint.integrate(q[body.q], rates)
    return moved


def _normalized(plan: Plan, q: Sequence[Scalar]) -> list[Scalar]:
    found = list(q)
    for body in plan.bodies:
        found[body.q] = body.joint.normalize(q[body.q])
    return found


_FUNCTION = LibraryFunction("inverse_kinematics", _inputs, _run, parameters=())


@public
def inverse_kinematics(
    model: Model,
    q: ArrayLike,
    targets: FrameTarget | Sequence[FrameTarget],
    *,
    limits: Limits | bool = True,
    starts: int = 1,
    seed: int = 0,
    tolerance: float = 1e-9,
    max_iterations: int = 100,
    time: ArrayLike | None = None,
) -> InverseKinematics:
    """Find positions that bring frames where they should be.

    Damped Newton steps with quadratic convergence near a solution. Of the many solutions of a
    redundant robot, one near the start is found. One case or a batch: leading dimensions of start
    and targets broadcast. Failure is an outcome, not an error: `outcome` and `error` tell how far
    the best position found is off. Inside a function given to `tiburon.compile` the arrays may be
    traced, one case at a time, with one start.

    Args:
        model: The robot.
        q: Where the search starts [m or rad], shape (..., nq).
        targets: One or several frames with where they should be.
        limits: True for the position limits that the robot's joints have, False for none. Or by
            joint name, the lowest and highest position [m or rad] in place of those the joint has:
            numbers, or one per position variable; of joints with quaternions, and of all that are
            not named, the robot's own limits hold.
        starts: How many starts to try at most: q first, then random positions within the limits,
            for those cases that have not reached their targets.
        seed: Of the random starts, which are the same for all cases.
        tolerance: Remaining `error` that counts as reached [m, rad].
        max_iterations: Most evaluations per start.
        time: When [s], shape (...), where `Driven` joints move by themselves; zero by default.

    Returns:
        Positions, outcomes and remaining errors.

    Raises:
        ModelError: If the robot has loops: `assemble` places its frames.
        UnknownNameError: If the model has no such frame or joint.
        DomainError: If a target's orientation is no rotation, limits cross, or the tolerance is
            negative.

    Example:
        A gripper 10 cm above a part, wherever the part is::

            above = FrameTarget("gripper", position=(0, 0, 0.1), relative_to="part")
            found = inverse_kinematics(arm, q, above, limits={"elbow": (-2.0, 2.0)}, starts=8)
            q = found.q if found.reached else q
    """
    refuse_loops(model, "inverse_kinematics")
    listed = [targets] if isinstance(targets, FrameTarget) else list(targets)
    if not listed:
        raise ShapeError("targets", "at least one FrameTarget", 0)
    _check_choices(listed, {"starts": starts, "max_iterations": max_iterations}, tolerance)
    within = read_limits(model, limits)
    options: Options = (
        (
            "targets",
            tuple(
                (t.frame, t.relative_to, t.position is not None, t.orientation is not None)
                for t in listed
            ),
        ),
        ("limited", within.limited),
        ("turned", within.turned),
        ("max_iterations", int(max_iterations)),
    )
    arrays: list[Any] = []
    traced = current_graph() is not None
    for target in listed:
        if target.position is not None:
            arrays.append(target.position)
        if target.orientation is not None:
            given = target.orientation
            arrays.append(given if traced else checked_rotation(given, target.frame))
    if within.limited:
        arrays += [within.lower, within.upper]
    if within.turned:
        arrays.append(within.turn)
    arrays.append(tolerance)
    if traced:
        if starts != 1:
            raise OptionError("starts (inside a traced function)", (1,), starts)
        return InverseKinematics(**call(_FUNCTION, model, (q, *arrays), None, options, time=time))
    found = _solved(model, (q, *arrays), options, time)
    for number in range(1, starts):
        if bool(np.all(found.reached)):
            break
        rng = np.random.default_rng((seed, number))
        again, _ = model.random_state(rng, limits=False)
        again = within_limits(again, within.limits, rng)
        found = _tried_again(model, found, again, arrays, options, time)
    return found


def _check_choices(
    targets: Sequence[object], counts: Mapping[str, object], tolerance: object
) -> None:
    """Raise if a search is asked for that means nothing."""
    for target in targets:
        if not isinstance(target, FrameTarget):
            raise ShapeError(
                "targets",
                "one FrameTarget or several",
                f"{target!r}",
                advice="write FrameTarget('hand', position=(x, y, z))",
            )
    for name, count in counts.items():
        if not isinstance(count, (int, np.integer)) or count < 1:
            raise OptionError(name, ("an integer of at least 1",), count)
    if isinstance(tolerance, (int, float)) and tolerance < 0.0:
        raise DomainError("tolerance", "an error of at least 0 [m, rad]", f"{tolerance!r}")


def _solved(
    model: Model, arrays: Sequence[Any], options: Options, time: ArrayLike | None
) -> InverseKinematics:
    q, outcome, error, shift, turn, iterations = call(
        _FUNCTION, model, arrays, None, options, time=time
    )
    whole = np.asarray(outcome).astype(np.int64), np.asarray(iterations).astype(np.int64)
    return InverseKinematics(q, whole[0][()], error[()], shift[()], turn[()], whole[1][()])


def _tried_again(
    model: Model,
    found: InverseKinematics,
    start: Array,
    arrays: Sequence[Any],
    options: Options,
    time: ArrayLike | None,
) -> InverseKinematics:
    """Search again from another start where targets are not reached; keep what is better."""
    shape = np.shape(found.outcome)
    missed = ~np.atleast_1d(found.reached)
    cores = [item.shape for item in _inputs(model, options)][1:]

    def selected(x: Any, core: tuple[int, ...] = ()) -> Array:
        whole: Array = np.broadcast_to(np.asarray(x, dtype=np.float64), (*missed.shape, *core))
        return np.asarray(whole[missed])

    some = [selected(x, core) for x, core in zip(arrays, cores, strict=True)]
    starts = np.broadcast_to(start, (int(missed.sum()), model.nq))
    when = None if time is None else selected(time)
    again = _solved(model, (starts, *some), options, when)
    before = [
        np.array(np.reshape(x, (*(shape or (1,)), *np.shape(x)[len(shape) :]))) for x in found
    ]
    better = again.error < before[2][missed]
    rows = tuple(index[better] for index in np.nonzero(missed))
    for old, new in zip(before, again, strict=True):
        old[rows] = new[better]
    return InverseKinematics(*(x if shape else x[0] for x in before))
