"""Inverse kinematics for users: positions that bring frames where they should be."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.argument_checks import refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError
from tiburon.functions.keywords import MODEL_CALL
from tiburon.functions.library import library_function, refuse_loops
from tiburon.model import Model
from tiburon.model.configuration import PositionLimits, position_limits, within_limits
from tiburon.record import named_line, record
from tiburon.spatial import Scalars
from tiburon.trace.program import Input, current_graph

Limits = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""By joint name, the lowest and highest position [m or rad]."""

UNBOUNDED = 1e300
"""Stands for infinity in kernels, whose inputs are finite."""

ROTATION_TOLERANCE = 1e-6
"""Largest deviation of a target's rotation matrix from orthonormal; smaller ones are repaired."""


@record(slots=False, eq=False)
class FrameTarget:
    """Where a frame should be: its position, its orientation, or both.

    Example:
        ``FrameTarget("hand", position=(0.4, 0.0, 0.3))``
    """

    frame: str
    """Name of the body or frame."""

    position: ArrayLike | None = None
    """Origin of the frame, axes of `relative_to` [m], shape (..., 3); None if it does not count."""

    orientation: ArrayLike | None = None
    """Rotation matrix from the frame's axes to those of `relative_to`, shape (..., 3, 3); None if
    it does not count."""

    relative_to: str = "world"
    """Name of the body or frame in which the target is given; it may move too."""

    def __post_init__(self) -> None:
        if self.position is None and self.orientation is None:
            raise ModelError(
                f"target of frame {self.frame!r}: expected a position, an orientation or both, got "
                "neither; pass position=, orientation=, or leave the target out",
                name=self.frame,
            )


class Range(NamedTuple):
    """How far the position variables of a search may go."""

    limits: PositionLimits
    limited: tuple[tuple[int, int], ...]
    """Where the bounded variables stand in q and v."""

    lower: Array
    upper: Array
    """Their bounds; `UNBOUNDED` where there is one on the other side alone."""

    turned: tuple[int, ...]
    """Where quaternions of limited turns begin in q."""

    turn: Array
    """The largest angles of these turns [rad]."""


def read_limits(model: Model, limits: Limits | bool) -> Range:
    """Return how far position variables may go.

    Args:
        model: The robot.
        limits: True for the limits that joints have, False for none, or limits of some joints by
            name, in place of those they have.
    """
    given: object = limits
    if not isinstance(given, (bool, Mapping)):
        raise OptionError("limits", (True, False, {"joint": ("lowest", "highest")}), given)
    named = {} if isinstance(limits, bool) else limits
    for name in named:
        model.joint(name)
    nowhere = np.full(model.nq, np.inf)
    own = PositionLimits(-nowhere, nowhere, ())
    if limits is not False:
        own = position_limits(model.joints, named)
    bounded = np.isfinite(own.lower) | np.isfinite(own.upper)
    places = []
    for joint in model.joints:
        in_q, in_v = model.slice(joint.name, of="q"), model.slice(joint.name, of="v")
        if joint.follows is None and joint.nq == joint.nv:
            both = zip(range(in_q.start, in_q.stop), range(in_v.start, in_v.stop), strict=True)
            places += [(i, k) for i, k in both if bounded[i]]
    rows = [i for i, _ in places]
    lower, upper = (np.clip(x[rows], -UNBOUNDED, UNBOUNDED) for x in (own.lower, own.upper))
    turned = tuple(start for start, _ in own.turns)
    return Range(own, tuple(places), lower, upper, turned, np.array([x for _, x in own.turns]))


def checked_rotation(given: ArrayLike, frame: str) -> Array:
    """Return rotation matrices with rounding of typed digits removed, or refuse them."""
    argument = f"orientation of the target of frame {frame!r}"
    refuse_unusable(argument, given)
    R = np.asarray(given, dtype=np.float64)
    if R.ndim < 2 or R.shape[-2:] != (3, 3):
        raise ShapeError(argument, "(..., 3, 3)", R.shape, advice="pass rotation matrices")
    for _ in range(2):
        excess = np.swapaxes(R, -1, -2) @ R - np.eye(3)
        # also false for NaN, which the kernel reports with its place
        if np.any(np.abs(excess) > ROTATION_TOLERANCE) or np.any(np.linalg.det(R) < 0.0):
            raise DomainError(
                argument,
                f"rotation matrices, orthonormal within {ROTATION_TOLERANCE:g}",
                f"a deviation of {np.abs(excess).max():.3g}",
                advice="normalize them; a reflection is not a rotation",
            )
        # one step towards the nearest rotation squares the deviation
        R = R - 0.5 * R @ excess
    return R


class InverseKinematicsOutcome(IntEnum):
    """How a search ended."""

    REACHED = 0
    STALLED = 1
    CUT_OFF = 2

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")

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


def _results(*results: Any) -> tuple[Any, ...]:
    return results


@library_function("inverse_kinematics", _inputs, make=_results, parameters=(), keywords=MODEL_CALL)
def _search(setting: Setting, q: Scalars, *arrays: Scalars) -> Any:
    from tiburon.algorithms.inverse_kinematics import search

    return search(setting, q, *arrays)


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
    and targets broadcast. Failure is an outcome, not an error: `outcome` and `error` state how far
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
        DomainError: If a target's orientation is not a rotation, limits cross, or the tolerance is
            negative.

    Example:
        A gripper 10 cm above a part, wherever the part is::

            above = FrameTarget("gripper", position=(0, 0, 0.1), relative_to="part")
            found = inverse_kinematics(arm, q, above, limits={"elbow": (-2.0, 2.0)}, starts=8)
            q = found.q if found.reached else q
    """
    refuse_loops(model, "inverse_kinematics", "assemble(model, q, place={frame: pose})")
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
        return InverseKinematics(*_search.call(model, (q, *arrays), {"time": time}, options))
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
    """Raise if the options of a search are invalid."""
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
    q, outcome, error, shift, turn, iterations = _search.call(
        model, arrays, {"time": time}, options
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
