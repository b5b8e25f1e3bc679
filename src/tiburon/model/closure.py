"""Constraints beyond the tree: loop closures, joint couplings, and closures written as functions.

A `TracedClosure` names the frames and joints it depends on, and computes residuals by functions
over NumPy values: of positions (holonomic), and of velocities that it alone constrains
(non-holonomic). The functions are traced once; values, gradients, rates and biases come from their
graphs, so that a closure only defines its residuals.

A frame's R and p change with its twist [w; v], in world axes at its origin. The gradient of a
residual with respect to that twist is a wrench [n; f] there, whose power is the residual's rate:

    dR/dt = w x R,  dp/dt = v,      n = sum over columns of R: column x (gradient by it),  f

The second rate without joint accelerations is the first rate, differentiated once more along the
motion, in which frames accelerate by wd and vd. All of these are nodes of one graph.

Symbols:
    x       R (row by row) and p of each frame, then q of each joint
    y       w and v of each frame, then v of each joint
    z       rates of w and v of each frame without joint accelerations
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelError, shown
from tiburon.model.joints.joint import Joint
from tiburon.model.joints.user_joint import joint_graph
from tiburon.model.pose import Pose
from tiburon.model.value_checks import check_name, check_places, finite_array
from tiburon.record import field, record
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.vec3 import ZERO3, add, cross
from tiburon.trace.declared import Identical, by_identity, is_declared

if TYPE_CHECKING:
    from tiburon.trace.program import Input, Program


class FramePose(NamedTuple):
    """Pose of a frame, as passed to a closure."""

    R: Any
    """Rotation matrix from the frame's axes to world axes, shape (3, 3): its columns are axes."""

    p: Any
    """Origin, world axes [m], shape (3,)."""


class FrameMotion(NamedTuple):
    """Pose and velocity of a frame, as passed to a non-holonomic closure."""

    R: Any
    """Rotation matrix from the frame's axes to world axes, shape (3, 3): its columns are axes."""

    p: Any
    """Origin, world axes [m], shape (3,)."""

    w: Any
    """Angular velocity, world axes [rad/s], shape (3,)."""

    v: Any
    """Velocity of the origin, world axes [m/s], shape (3,)."""


class JointPosition(NamedTuple):
    """Position of a joint, as passed to a closure."""

    q: Any
    """Position variables [m or rad], shape (nq of the joint,)."""


class JointMotion(NamedTuple):
    """Position and velocity of a joint, as passed to a non-holonomic closure."""

    q: Any
    """Position variables [m or rad], shape (nq of the joint,)."""

    v: Any
    """Velocity variables [m/s or rad/s], shape (nv of the joint,)."""


@public
class TracedClosure(ABC):
    """A closure whose residuals are functions of frames and joints."""

    __slots__ = ()

    kind: ClassVar[str]
    """Type name for messages."""

    name: str
    """Unique among the closures of a model."""

    @property
    @abstractmethod
    def ends(self) -> tuple[tuple[str, Pose], ...]:
        """Bodies or frames, or "world", that it depends on, each with a pose in its axes."""

    @property
    @abstractmethod
    def seen_joints(self) -> tuple[str, ...]:
        """Names of the joints it depends on."""

    @property
    @abstractmethod
    def position_count(self) -> int:
        """Number of position residuals."""

    @property
    @abstractmethod
    def velocity_count(self) -> int:
        """Number of velocity residuals."""

    @property
    @abstractmethod
    def constraint_labels(self) -> tuple[str, ...]:
        """Labels of the residuals, position residuals first."""

    @abstractmethod
    def position_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return the position residuals [m or rad].

        Args:
            *seen: A `FramePose` for each end, then a `JointPosition` for each joint.
        """

    @abstractmethod
    def velocity_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return the velocity residuals, linear in velocities [m/s or rad/s].

        Args:
            *seen: A `FrameMotion` for each end, then a `JointMotion` for each joint.
        """

    @abstractmethod
    def check(self, joints: Mapping[str, Joint]) -> None:
        """Raise if a named joint cannot be constrained."""

    @abstractmethod
    def renamed(self, prefix: str) -> Self:
        """Return the closure with a prefix before all names but the world's."""

    @abstractmethod
    def moved(self, ends: Sequence[tuple[str, Pose]]) -> Self:
        """Return the closure with other ends, one for each."""


# derivatives are imported on first use, so that other robots start faster


POSE_SIZE = 12
"""Entries of x per frame."""

BRANCH_FREE = frozenset(
    {"input", "const", "add", "sub", "mul", "div", "neg", "sqrt", "pow", "hypot"}
)
BRANCH_FREE |= {"sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "expm1", "log"}
BRANCH_FREE |= {"sinh", "cosh", "tanh"}
# requirements and their conditions do not select a branch
BRANCH_FREE |= {"require", "truth", "less", "less_equal", "equal", "and", "or", "not"}
"""Operations without branches: their results are zero everywhere or almost nowhere."""

MOTION_SIZE = 6
"""Entries of y, of z and of a gradient per frame."""


class Seen(NamedTuple):
    """Arguments of `closure_program` in one state."""

    x: Scalars
    y: Scalars = ()
    z: Scalars = ()


class ClosureProgram(NamedTuple):
    """The functions of a closure with their derivatives, traced."""

    program: "Program"
    """Takes x, y, z; returns "value", "gradient", "rate" and "bias"."""

    width: int
    """Columns of the gradient: six per frame, then the velocity variables of each joint."""

    joint_columns: tuple[range, ...]
    """Columns of each joint."""

    def evaluate(self, output: str, seen: Seen) -> tuple[Scalar, ...]:
        """Return one of the outputs, row by row, on floats or traced values."""
        from tiburon.trace.derivative import evaluate_nodes

        return evaluate_nodes(self.program, self._nodes(output), *seen)

    def pattern(self) -> tuple[tuple[bool, ...], ...]:
        """Return which entries of the gradient are not identically zero, row by row."""
        graph = self.program.graph
        used = [graph.constant_of(node) != 0.0 for node in self._nodes("gradient")]
        return tuple(
            tuple(used[k : k + self.width]) for k in range(0, len(used), max(1, self.width))
        )

    def reads(self, output: str, argument: int) -> bool:
        """Return whether an output depends on x (0), y (1) or z (2) at all."""
        graph = self.program.graph
        live = graph.live(self._nodes(output))
        return any(graph.ops[n] == "input" and graph.payloads[n][0] == argument for n in live)

    def is_smooth(self, output: str) -> bool:
        """Return whether an output has no branches, so that samples show what is zero."""
        graph = self.program.graph
        return all(graph.ops[node] in BRANCH_FREE for node in graph.live(self._nodes(output)))

    def _nodes(self, output: str) -> tuple[int, ...]:
        return next(found.nodes for found in self.program.outputs if found.name == output)


def seen_joints(closure: TracedClosure, joints: Mapping[str, Joint]) -> tuple[Joint, ...]:
    """Return the joints that a closure depends on."""
    return tuple(joints[name] for name in closure.seen_joints)


def closure_program(closure: TracedClosure, joints: tuple[Joint, ...]) -> ClosureProgram:
    """Trace the functions of a closure, and differentiate them; once for each closure.

    Args:
        closure: The closure; its functions are deterministic.
        joints: The joints it depends on.

    Raises:
        ModelError: If a function returns a wrong number of residuals.
        TraceError: If a function does something that cannot be traced.
    """
    return _known_program(by_identity(closure), tuple(map(by_identity, joints)))


@lru_cache(maxsize=256)
def _known_program(closure: Any, joints: tuple[Any, ...]) -> ClosureProgram:
    return trace_closure(_itself(closure), tuple(map(_itself, joints)))


def _itself(key: Any) -> Any:
    return key.thing if isinstance(key, Identical) else key


def trace_closure(closure: TracedClosure, joints: tuple[Joint, ...]) -> ClosureProgram:
    """Trace a closure as `closure_program` does, without the cache."""
    from tiburon.trace.program import trace

    frames = len(closure.ends)
    inputs = _inputs(closure, joints)
    numbers_y = inputs[1].size

    def run(x: Any, y: Any, z: Any) -> Any:
        return _derived(closure, joints, x.tolist(), y.tolist(), z.tolist())

    program = trace(run, inputs, name=closure.name)
    start = MOTION_SIZE * frames
    columns: list[range] = []
    for joint in joints:
        columns.append(range(start, start + joint.nv))
        start += joint.nv
    return ClosureProgram(program, numbers_y, tuple(columns))


def _inputs(closure: TracedClosure, joints: tuple[Joint, ...]) -> list["Input"]:
    """Return x, y and z."""
    from tiburon.trace.program import Input

    frames = len(closure.ends)
    numbers_x = POSE_SIZE * frames + sum(joint.nq for joint in joints)
    numbers_y = MOTION_SIZE * frames + sum(joint.nv for joint in joints)
    return [Input("x", (numbers_x,)), Input("y", (numbers_y,)), Input("z", (MOTION_SIZE * frames,))]


def residual_key(closure: TracedClosure, joints: tuple[Joint, ...]) -> tuple[object, ...]:
    """Return the current key of the residuals of a closure.

    Derivatives follow from them, and from the rates of the joints' positions.
    """
    from tiburon.trace.program import trace

    frames = len(closure.ends)

    def run(x: Any, y: Any, z: Any) -> Any:
        x, y = x.tolist(), y.tolist()
        poses, motions, positions, speeds = _states(closure, joints, x, y)
        held, bound = _residuals(closure, poses, motions, positions, speeds)
        rates = [j.position_rate(q, v) for j, q, v in zip(joints, positions, speeds, strict=True)]
        return [*held, *bound, *(entry for rate in rates for entry in rate)]

    counts = (frames, closure.position_count, closure.velocity_count)
    return (closure.ends, *counts, trace(run, _inputs(closure, joints), name=closure.name).key)


def _states(
    closure: TracedClosure, joints: tuple[Joint, ...], x: list[Any], y: list[Any]
) -> tuple[list[Any], list[Any], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return poses and motions of frames, positions and velocities of joints."""
    frames = len(closure.ends)
    poses = [tuple(x[POSE_SIZE * k : POSE_SIZE * (k + 1)]) for k in range(frames)]
    motions = [tuple(y[MOTION_SIZE * k : MOTION_SIZE * (k + 1)]) for k in range(frames)]
    positions = _split(x[POSE_SIZE * frames :], [joint.nq for joint in joints])
    speeds = _split(y[MOTION_SIZE * frames :], [joint.nv for joint in joints])
    return poses, motions, positions, speeds


def _derived(
    closure: TracedClosure, joints: tuple[Joint, ...], x: list[Any], y: list[Any], z: list[Any]
) -> dict[str, Any]:
    from tiburon.trace.array import as_traced
    from tiburon.trace.differentiation import push_forward
    from tiburon.trace.program import current_graph
    from tiburon.trace.regions import as_value, float_node

    graph = current_graph()
    assert graph is not None
    frames = len(closure.ends)
    poses, motions, positions, speeds = _states(closure, joints, x, y)
    held, bound = _residuals(closure, poses, motions, positions, speeds)

    rates_x: list[Any] = []
    for pose, motion in zip(poses, motions, strict=True):
        w, v = motion[:3], motion[3:]
        turned = [cross(w, (pose[c], pose[3 + c], pose[6 + c])) for c in range(3)]
        rates_x += [turned[c][r] for r in range(3) for c in range(3)]
        rates_x += v
    for joint, q, speed in zip(joints, positions, speeds, strict=True):
        rates_x += joint.position_rate(q, speed)

    def nodes(values: Sequence[Any]) -> list[int]:
        return [float_node(graph, value) for value in values]

    along_x = dict(zip(nodes(x), nodes(rates_x), strict=True))
    along_y = dict(zip(nodes(y[: MOTION_SIZE * frames]), nodes(z), strict=True))
    first = push_forward(graph, nodes(held), along_x)
    rate = [*first, *nodes(bound)]
    bias = push_forward(graph, rate, along_x | along_y)
    gradient = [
        entry
        for value in held
        for entry in _position_gradient(graph, value, x, poses, joints, positions)
    ]
    gradient += [entry for value in bound for entry in _gradient(graph, value, y)]
    return {
        "value": as_traced([*held, *(0.0 for _ in bound)]),
        "gradient": as_traced(gradient),
        "rate": as_traced([as_value(graph, node) for node in rate]),
        "bias": as_traced([as_value(graph, node) for node in bias]),
    }


def _residuals(
    closure: TracedClosure,
    poses: Sequence[Any],
    motions: Sequence[Any],
    positions: Sequence[Any],
    speeds: Sequence[Any],
) -> tuple[list[Any], list[Any]]:
    """Return the position residuals and the velocity residuals."""
    from tiburon.trace.array import as_traced

    turns = [as_traced(list(pose[:9])).reshape(3, 3) for pose in poses]
    places = [as_traced(list(pose[9:])) for pose in poses]
    angles = [as_traced(list(q)) for q in positions]
    held: list[Any] = []
    bound: list[Any] = []
    if closure.position_count:
        seen: list[Any] = [FramePose(R, p) for R, p in zip(turns, places, strict=True)]
        seen += [JointPosition(q) for q in angles]
        held = _listed(closure, closure.position_residuals(*seen), closure.position_count)
    if closure.velocity_count:
        seen = [
            FrameMotion(R, p, as_traced(list(m[:3])), as_traced(list(m[3:])))
            for R, p, m in zip(turns, places, motions, strict=True)
        ]
        seen += [JointMotion(q, as_traced(list(v))) for q, v in zip(angles, speeds, strict=True)]
        bound = _listed(closure, closure.velocity_residuals(*seen), closure.velocity_count)
    return held, bound


def _listed(closure: TracedClosure, found: Any, count: int) -> list[Any]:
    """Return the result of a function as a list of scalars of the right length."""
    parts = list(found) if isinstance(found, (tuple, list)) else list(np.ravel(found))
    if any(np.ndim(part) for part in parts) or len(parts) != count:
        sizes = sum(int(np.size(part)) for part in parts)
        raise ModelError(
            f"loop {closure.name!r}: its function must return {count} "
            f"residual{'s' if count > 1 else ''}, got {sizes}"
            f"{' in nested arrays' if any(np.ndim(part) for part in parts) else ''}; return a "
            "flat sequence of scalars, or give count=",
            name=closure.name,
        )
    return parts


def _gradient(graph: Any, value: Any, leaves: Sequence[Any]) -> list[Any]:
    """Return the derivatives of a scalar by leaves of the graph."""
    from tiburon.trace.differentiation import pull_back
    from tiburon.trace.regions import as_value, float_node

    nodes = [float_node(graph, leaf) for leaf in leaves]
    found = pull_back(graph, [float_node(graph, value)], [graph.const(1.0)], nodes)
    return [as_value(graph, node) for node in found]


def _position_gradient(
    graph: Any,
    value: Any,
    x: Sequence[Any],
    poses: Sequence[Any],
    joints: Sequence[Joint],
    positions: Sequence[Any],
) -> list[Any]:
    """Return the derivatives of a residual by motions of frames and velocities of joints."""
    by_x = _gradient(graph, value, x)
    row: list[Any] = []
    for k, pose in enumerate(poses):
        by_pose = by_x[POSE_SIZE * k : POSE_SIZE * (k + 1)]
        n: Any = ZERO3
        for c in range(3):
            column = (pose[c], pose[3 + c], pose[6 + c])
            n = add(n, cross(column, (by_pose[c], by_pose[3 + c], by_pose[6 + c])))
        row += [*n, *by_pose[9:]]
    rest = _split(by_x[POSE_SIZE * len(poses) :], [joint.nq for joint in joints])
    for joint, q, by_q in zip(joints, positions, rest, strict=True):
        for i in range(joint.nv):
            unit = tuple(1.0 if j == i else 0.0 for j in range(joint.nv))
            parts = zip(by_q, joint.position_rate(q, unit), strict=True)
            row.append(sum((a * b for a, b in parts), start=0.0))
    return row


def _split(numbers: Sequence[Any], sizes: Sequence[int]) -> list[tuple[Any, ...]]:
    found = []
    start = 0
    for size in sizes:
        found.append(tuple(numbers[start : start + size]))
        start += size
    return found


@record
class LoopClosure:
    """A joint that closes a loop; immutable, compares by value.

    The joint defines how the second frame may move relative to the first. Its pose places the joint
    frame in the first body or frame; `second_pose` places the moved frame in the second.

    Example:
        ``LoopClosure("pin", "coupler tip", "rocker tip", Revolute("pin joint", (0, 0, 1)))``
    """

    name: str
    """Unique among the closures of a model."""

    first: str
    """Name of a body or frame, or "world"."""

    second: str
    """Name of another body or frame, or "world"."""

    joint: Joint
    """Motion of the second relative to the first; its pose is in axes of the first."""

    second_pose: Pose = field(default_factory=Pose)
    """The frame moved by the joint, in axes of the second."""

    may_start_open: bool = field(default=False, kw_only=True)
    """Whether runs may start with the loop open: they close it first, with a warning that says how
    far the robot moved. For files whose constraints are soft, such as equalities of MJCF."""

    def __post_init__(self) -> None:
        check_places(self.name, self.first, self.second)
        element = f"loop {self.name!r}"
        joint: object = self.joint
        if not isinstance(joint, Joint) or joint.depends_on_time or joint.follows is not None:
            raise ModelError(
                f"{element}: joint must be a joint such as Revolute, neither driven nor "
                f"coupled, got {shown(joint)}",
                name=self.name,
            )
        pose: object = self.second_pose
        if not isinstance(pose, Pose):
            raise ModelError(
                f"{element}: second_pose must be a Pose, got {shown(pose)}; write "
                "Pose(translation=(x, y, z))",
                name=self.name,
            )


@record
class JointCoupling:
    """A constraint between the positions of two joints; immutable, compares by value.

    position of `joint` = c0 + c1 x + c2 x^2 + ..., x being the position of `leader`. For a linear
    relation, a `Coupled` joint is equivalent and needs no constraint.
    """

    name: str
    """Unique among the closures of a model."""

    joint: str
    """Name of the constrained joint, with one degree of freedom."""

    leader: str | None = None
    """Name of the leading joint, with one degree of freedom; None for a constant position."""

    coefficients: tuple[float, ...] = (0.0, 1.0)
    """c0, c1, ... [m or rad per power of the leader's unit]."""

    may_start_open: bool = field(default=False, kw_only=True)
    """Whether runs may start with it open, as in `LoopClosure`."""

    def __post_init__(self) -> None:
        check_name(self.name, "loop")
        element = f"loop {self.name!r}"
        check_name(self.joint, f"{element}: joint")
        if self.leader is not None:
            check_name(self.leader, f"{element}: leader")
        if self.joint == self.leader:
            raise ModelError(
                f"{element}: must couple two different joints, got {self.joint!r} twice",
                name=self.name,
            )
        count = max(1, np.size(self.coefficients))
        numbers = finite_array(self.coefficients, (count,), element, "coefficients", self.name)
        object.__setattr__(self, "coefficients", tuple(numbers.tolist()))
        if self.leader is None and len(self.coefficients) != 1:
            raise ModelError(
                f"{element}: a coupling without a leader has one coefficient, its position, got "
                f"{len(self.coefficients)}; name the leader or leave the others out",
                name=self.name,
            )


Closure: TypeAlias = LoopClosure | JointCoupling | TracedClosure


def joints_of(loop: Closure) -> tuple[str, ...]:
    """Return the names of the joints whose variables a closure constrains."""
    if isinstance(loop, JointCoupling):
        return (loop.joint,) if loop.leader is None else (loop.joint, loop.leader)
    return () if isinstance(loop, LoopClosure) else loop.seen_joints


def places_of(loop: Closure) -> tuple[str, ...]:
    """Return the names of the bodies and frames that a closure connects."""
    if isinstance(loop, LoopClosure):
        return (loop.first, loop.second)
    return () if isinstance(loop, JointCoupling) else tuple(name for name, _ in loop.ends)


def structure_of(loop: Closure, joints: Mapping[str, Joint]) -> object:
    """Return what compiled code depends on, as data or as graphs of user code."""
    if isinstance(loop, LoopClosure):
        joint = loop.joint
        how: object = joint if is_declared(joint) else (joint.pose, joint_graph(joint))
        return (loop.name, loop.first, loop.second, how, loop.second_pose)
    if isinstance(loop, JointCoupling):
        return (loop.name, loop.joint, loop.leader, loop.coefficients)
    if is_declared(loop):
        return loop
    found = closure_program(loop, seen_joints(loop, joints))
    counts = (loop.position_count, loop.velocity_count)
    return (loop.name, loop.ends, loop.seen_joints, counts, found.program.key)
