"""Loop closures written as functions: tendons, blades and rolling discs, user-defined constraints.

Blades and rolling discs touch a plane at one point: the xy plane of a frame on the first body,
whose z axis is the normal on the side of the second. Both bodies may move. The height above the
plane is a holonomic constraint; directions in the plane are non-holonomic constraints on the
velocity of the body's material point at the contact, relative to the plane (Featherstone 1987,
section 7.4.4).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tiburon.argument_checks import check_signature
from tiburon.arguments import public
from tiburon.errors import ArgumentError, ModelError, OptionError, TraceError, shown
from tiburon.model.body import WORLD
from tiburon.model.closure import (
    MOTION_SIZE,
    ClosureProgram,
    FrameMotion,
    FramePose,
    Seen,
    TracedClosure,
    closure_program,
    seen_joints,
)
from tiburon.model.joints.joint import Joint
from tiburon.model.joints.quaternion import random_quaternion
from tiburon.model.pose import Pose
from tiburon.model.value_checks import (
    check_name,
    check_names,
    check_places,
    convert,
    finite_array,
    number,
    unit_vector,
)
from tiburon.record import field, record
from tiburon.spatial import Scalar, Vec3, quaternion_to_matrix
from tiburon.spatial.vec3 import ZERO3, add, cross, dot, scale, subtract, vec3


@public
@record
class TendonCoupling(TracedClosure):
    """A coupling of weighted sums of joint positions, as by cables over pulleys; compares by value.

    r1 q1 + r2 q2 + ... = c0 + c1 x + c2 x^2 + ..., x being the weighted sum of the leaders. For two
    joints, `JointCoupling` is equivalent.

    Example:
        A differential, the sum of two joint angles held at 0.3 rad::

            TendonCoupling("cable", ("left", "right"), (1.0, 1.0), coefficients=(0.3,))
    """

    name: str
    """Unique among the closures of a model."""

    joints: tuple[str, ...]
    """Names of the joints it runs over; each has one degree of freedom."""

    arms: tuple[float, ...]
    """r1, r2, ...: moment arms of the tendon at each joint [m/rad, or dimensionless]."""

    leaders: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of the leading joints; none for a constant sum."""

    leader_arms: tuple[float, ...] = field(default=(), kw_only=True)
    """Moment arms of the leaders."""

    coefficients: tuple[float, ...] = field(default=(0.0,), kw_only=True)
    """c0, c1, ...; c0 alone where there are no leaders, at least c0 and c1 where there are."""

    may_start_open: bool = field(default=False, kw_only=True)
    """Whether runs may start with it open, as in `LoopClosure`."""

    kind: ClassVar[str] = "tendon"

    def __post_init__(self) -> None:
        check_name(self.name, "loop")
        element = f"loop {self.name!r}"
        for names, arms in (("joints", "arms"), ("leaders", "leader_arms")):
            listed = check_names(getattr(self, names), element, names)
            if len(set(listed)) < len(listed):
                twice = next(name for name in listed if listed.count(name) > 1)
                raise ModelError(
                    f"{element}: {names} must be different, got {twice!r} twice; add up its arms",
                    name=self.name,
                )
            if names == "joints" and not listed:
                raise ModelError(f"{element}: joints must be one or more, got none", name=self.name)
            if np.size(getattr(self, arms)) != len(listed):
                raise ModelError(
                    f"{element}: {arms} must be {len(listed)} values, one for each of {names}, "
                    f"got {shown(getattr(self, arms))}",
                    name=self.name,
                )
            numbers = finite_array(getattr(self, arms), (len(listed),), element, arms, self.name)
            object.__setattr__(self, names, listed)
            object.__setattr__(self, arms, tuple(numbers.tolist()))
        if not any(self.arms):
            raise ModelError(
                f"{element}: must run over a joint; give joints with arms other than zero",
                name=self.name,
            )
        count = max(1, np.size(self.coefficients))
        numbers = finite_array(self.coefficients, (count,), element, "coefficients", self.name)
        object.__setattr__(self, "coefficients", tuple(numbers.tolist()))
        if not self.leaders and count != 1:
            raise ModelError(
                f"{element}: a tendon without leaders has one coefficient, its length, got "
                f"{count}; name the leaders or leave the others out",
                name=self.name,
            )
        if self.leaders and (count == 1 or not any(self.leader_arms)):
            missing = "coefficients=(c0, c1)" if count == 1 else "leader_arms other than zero"
            raise ModelError(
                f"{element}: leaders {', '.join(self.leaders)} would have no effect; give "
                f"{missing}, or leave them out",
                name=self.name,
            )

    @property
    def ends(self) -> tuple[tuple[str, Pose], ...]:
        """No frames."""
        return ()

    @property
    def seen_joints(self) -> tuple[str, ...]:
        """The joints it depends on, leaders included, without repetition."""
        return tuple(dict.fromkeys((*self.joints, *self.leaders)))

    @property
    def position_count(self) -> int:
        """One: the length."""
        return 1

    @property
    def velocity_count(self) -> int:
        """None."""
        return 0

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """Labels of the constraints."""
        return (f"stretch over {', '.join(self.joints)}",)

    def position_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return the length residual [m or rad]."""
        at = {name: joint.q[0] for name, joint in zip(self.seen_joints, seen, strict=True)}
        x = sum((r * at[n] for n, r in zip(self.leaders, self.leader_arms, strict=True)), start=0.0)
        length = sum((r * at[n] for n, r in zip(self.joints, self.arms, strict=True)), start=0.0)
        allowed: Any = 0.0
        for c in reversed(self.coefficients):
            allowed = allowed * x + c
        return (length - allowed,)

    def velocity_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return nothing: it is holonomic."""
        return ()

    def check(self, joints: Mapping[str, Joint]) -> None:
        """Raise unless every joint has exactly one variable."""
        for name in self.seen_joints:
            joint = joints[name]
            if joint.nv != 1 or joint.nq != 1:
                raise ModelError(
                    f"loop {self.name!r}: a tendon runs over joints with exactly one variable, "
                    f"got the {joint.kind} joint {name!r}; name the joint it follows, or use "
                    "a ConstraintFunction",
                    name=self.name,
                )

    def renamed(self, prefix: str) -> Self:
        """Return the closure with a prefix before all names."""
        return self._with(
            name=prefix + self.name,
            joints=tuple(prefix + name for name in self.joints),
            leaders=tuple(prefix + name for name in self.leaders),
        )

    def moved(self, ends: Sequence[tuple[str, Pose]]) -> Self:
        """Return itself: there are no ends."""
        return self

    def _with(self, **values: Any) -> Self:
        return type(self)(**{item.name: getattr(self, item.name) for item in fields(self)} | values)


MIN_SQUARED_SINE = 1e-6
"""Squared sine between a direction and the normal below which its projection is undefined."""


class Touch(NamedTuple):
    """Contact of a body with a plane, world axes."""

    normal: Vec3
    """Normal of the plane, toward the body."""

    lever: Vec3
    """Vector from the origin of the body's frame to the contact point [m]."""

    height: Scalar
    """Height of the contact point above the plane [m]."""

    directions: tuple[Vec3, ...]
    """Directions in the plane without slip."""


@public
@record
class SurfaceContact(TracedClosure):
    """A body that touches a plane at one point without slip along some directions."""

    name: str
    """Unique among the closures of a model."""

    first: str
    """Name of a body or frame, or "world", that carries the plane."""

    second: str
    """Name of the body or frame that touches it."""

    pose: Pose = field(default_factory=Pose, kw_only=True)
    """The frame whose xy plane is touched, in axes of the first."""

    second_pose: Pose = field(default_factory=Pose, kw_only=True)
    """The frame that touches, in axes of the second."""

    def __post_init__(self) -> None:
        check_places(self.name, self.first, self.second)
        element = f"loop {self.name!r}"
        for quantity in ("pose", "second_pose"):
            given = getattr(self, quantity)
            if not isinstance(given, Pose):
                raise ModelError(
                    f"{element}: {quantity} must be a Pose, got {shown(given)}; write "
                    "Pose(translation=(x, y, z))",
                    name=self.name,
                )

    @abstractmethod
    def touch(self, plane: FramePose | FrameMotion, body: FramePose | FrameMotion) -> Touch:
        """Return the contact of the body with the plane."""

    @property
    def ends(self) -> tuple[tuple[str, Pose], ...]:
        """The plane, and the frame in contact with it."""
        return ((self.first, self.pose), (self.second, self.second_pose))

    @property
    def seen_joints(self) -> tuple[str, ...]:
        """No joints."""
        return ()

    @property
    def position_count(self) -> int:
        """One: the height."""
        return 1

    def position_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return the height of the contact point [m]."""
        return (self.touch(*seen).height,)

    def velocity_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return the slip velocity of the contact point along each direction [m/s]."""
        plane, body = seen
        touch = self.touch(plane, body)
        against = slip(plane, body, touch.lever)
        return tuple(dot(direction, against) for direction in touch.directions)

    def check(self, joints: Mapping[str, Joint]) -> None:
        """Accept any joints: none is used."""

    def renamed(self, prefix: str) -> Self:
        """Return the closure with a prefix before all names but the world's."""
        first, second = (x if x == WORLD else prefix + x for x in (self.first, self.second))
        return self._with(name=prefix + self.name, first=first, second=second)

    def moved(self, ends: Sequence[tuple[str, Pose]]) -> Self:
        """Return the closure with other ends."""
        (first, pose), (second, second_pose) = ends
        return self._with(first=first, pose=pose, second=second, second_pose=second_pose)

    def _with(self, **values: Any) -> Self:
        return type(self)(**{item.name: getattr(self, item.name) for item in fields(self)} | values)


def column(frame: FramePose | FrameMotion, k: int) -> Vec3:
    """Return an axis of a frame in world axes."""
    return (frame.R[0, k], frame.R[1, k], frame.R[2, k])


def slip(plane: FrameMotion, body: FrameMotion, lever: Vec3) -> Vec3:
    """Return the velocity of a body's material point relative to the plane [m/s].

    Args:
        plane: Moves with the plane.
        body: Moves with the body.
        lever: From the origin of the body's frame to the point, world axes [m].
    """
    apart = add(subtract(vec3(body.p, "p"), vec3(plane.p, "p")), lever)
    of_body = add(vec3(body.v, "v"), cross(vec3(body.w, "w"), lever))
    of_plane = add(vec3(plane.v, "v"), cross(vec3(plane.w, "w"), apart))
    return subtract(of_body, of_plane)


@public
@record
class Blade(SurfaceContact):
    """An edge that touches a plane at one point and does not slip sideways there.

    The point is the origin of the second frame, the edge its x axis; it may slide along the edge,
    yaw, roll and pitch. The plane is the xy plane of the first frame. The height and one velocity
    are constrained; in planar robots the height constraint is redundant. An edge normal to the
    plane has no heading and raises an error.

    Example:
        Chaplygin's sleigh: ``Blade("runner", "world", "sleigh")`` on a body with a planar joint
    """

    kind: ClassVar[str] = "blade"

    @property
    def velocity_count(self) -> int:
        """One: lateral."""
        return 1

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """Labels of the constraints."""
        return ("offset along z", "slip across the edge")

    def touch(self, plane: FramePose | FrameMotion, body: FramePose | FrameMotion) -> Touch:
        """Return the contact at the body frame's origin, with the lateral direction."""
        from tiburon.trace.value import require

        normal, edge = column(plane, 2), column(body, 0)
        across = cross(normal, edge)
        square = dot(across, across)
        expected = f"loop {self.name!r}: its edge must lie along the plane, but is normal to it"
        sine = np.sqrt(require(square >= MIN_SQUARED_SINE, square, expected))
        apart = subtract(vec3(body.p, "p"), vec3(plane.p, "p"))
        return Touch(normal, ZERO3, dot(normal, apart), (scale(across, 1.0 / sine),))


@public
@record
class RollingDisc(SurfaceContact):
    """A thin disc that rolls without slip on a plane and may tilt; contact is at its lowest point.

    Its center is the origin of the second frame. The plane is the xy plane of the first frame. The
    height and two velocities are constrained, longitudinal and lateral; their forces are the
    traction and the lateral force of a wheel. A disc that lies flat has no unique contact point and
    raises an error.

    Example:
        ``RollingDisc("tire", "world", "wheel", radius=0.3, axis=(0, 1, 0))``
    """

    radius: float = field(default=1.0, kw_only=True)
    """Radius [m]."""

    axis: Vec3 = field(default=(0.0, 1.0, 0.0), kw_only=True)
    """Axis of the disc, in the second frame; normalized."""

    kind: ClassVar[str] = "rolling disc"

    def __post_init__(self) -> None:
        SurfaceContact.__post_init__(self)
        element = f"loop {self.name!r}"
        radius = number(self.radius, element, "radius", self.name)
        if radius <= 0.0:
            raise ModelError(
                f"{element}: radius must be positive, got {radius:g} m", name=self.name
            )
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "axis", unit_vector(self.axis, element, "axis", self.name))

    @property
    def velocity_count(self) -> int:
        """Two: longitudinal and lateral."""
        return 2

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """Labels of the constraints."""
        return ("offset along z", "slip along the heading", "slip across the heading")

    def touch(self, plane: FramePose | FrameMotion, body: FramePose | FrameMotion) -> Touch:
        """Return the contact at the lowest point of the rim.

        With a the axis and z the normal, a x z is the heading of the disc, and the center is radius
        ``|a x z|`` above the plane; the lever is the direction of steepest descent in the disc.
        """
        from tiburon.trace.value import require

        z = column(plane, 2)
        x, y, w = self.axis
        a = add(
            add(scale(column(body, 0), x), scale(column(body, 1), y)), scale(column(body, 2), w)
        )
        heading = cross(a, z)
        square = dot(heading, heading)
        expected = f"loop {self.name!r}: its disc must roll on its rim, but lies flat on the plane"
        sine = np.sqrt(require(square >= MIN_SQUARED_SINE, square, expected))
        heading = scale(heading, 1.0 / sine)
        down = cross(a, heading)
        apart = subtract(vec3(body.p, "p"), vec3(plane.p, "p"))
        return Touch(
            z,
            scale(down, self.radius),
            dot(z, apart) - self.radius * sine,
            (heading, cross(z, heading)),
        )


LEVELS = ("position", "velocity")

RANDOM_TRIALS = 16
"""Number of random arguments at which a function is tested."""

REST_TOLERANCE = 1e-12
"""Largest velocity residual at rest, due to rounding [m/s or rad/s]."""


@public
@record
class ConstraintFunction(TracedClosure):
    """A constraint whose residuals are computed by a function; all vanish while it holds.

    The function takes one argument for each frame and then one for each joint that is named: a
    frame has axes `R` and origin `p` in the world, a joint its variables `q`. It uses arithmetic
    and NumPy functions, no `if` on a value, and is deterministic. Jacobian and bias come from its
    graph. Use meters and radians for residuals: loops count as closed at 1e-12.

    With `level="velocity"` it is non-holonomic, like wheels and blades: frames then have `w`
    and `v` too (angular velocity, and velocity of the origin, world axes), joints `v`, and the
    residuals are linear in them.

    Example:
        A bead on a wire of the shape y = sin x::

            def on_wire(bead):
                x, y, z = bead.p
                return y - np.sin(x), z

            tb.ConstraintFunction("wire", on_wire, frames="bead", count=2)
    """

    name: str
    """Unique among the closures of a model."""

    function: Callable[..., Any]
    """Returns the residuals: one scalar, or `count` of them."""

    frames: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of bodies or frames, or "world", that it depends on."""

    joints: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of joints that it depends on."""

    count: int = field(default=1, kw_only=True)
    """Number of residuals."""

    level: str = field(default="position", kw_only=True)
    """"position" (holonomic) or "velocity" (non-holonomic)."""

    units: tuple[str, ...] = field(default=(), kw_only=True)
    """Units of the residuals, for messages; none, or one each."""

    poses: tuple[Pose, ...] = field(default=(), kw_only=True)
    """Poses of the frames passed to the function, in axes of the named ones; none, or one each."""

    kind: ClassVar[str] = "function"

    def __post_init__(self) -> None:
        check_name(self.name, "loop")
        element = f"loop {self.name!r}"
        given: object = self.function
        if not callable(given):
            raise ModelError(
                f"{element}: function must be callable, got {shown(given)}; write a function of "
                "frames and joints that returns residuals",
                name=self.name,
            )
        if getattr(given, "__hash__", None) is None:
            raise ModelError(
                f"{element}: function must be hashable, because it is traced once, got "
                f"{shown(given)}; give its class a __hash__, or wrap it in a function",
                name=self.name,
            )
        if self.level not in LEVELS:
            raise OptionError("level", LEVELS, self.level)
        count: object = self.count
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise ModelError(
                f"{element}: count must be the number of residuals, at least 1, "
                f"got {shown(self.count)}",
                name=self.name,
            )
        object.__setattr__(self, "count", int(count))
        convert(self, check_names, element, "frames", "joints")
        if not self.frames and not self.joints:
            raise ModelError(
                f"{element}: must depend on something; give frames= or joints=", name=self.name
            )
        advice = "give it one argument for each frame, then one for each joint"
        seen = (*self.frames, *self.joints)
        check_signature(given, f"{element}: function", seen, advice=advice)
        for quantity in ("frames", "joints"):
            names = getattr(self, quantity)
            if len(set(names)) < len(names) and not self.poses:
                twice = next(name for name in names if names.count(name) > 1)
                raise ModelError(
                    f"{element}: {quantity} must be different, got {twice!r} twice; name it once "
                    "and use it twice",
                    name=self.name,
                )
        self._check_lengths(element)

    def _check_lengths(self, element: str) -> None:
        one: object = self.poses
        poses = (one,) if isinstance(one, Pose) else tuple(self.poses)
        object.__setattr__(self, "poses", poses)
        if poses and (
            len(poses) != len(self.frames) or not all(isinstance(pose, Pose) for pose in poses)
        ):
            raise ModelError(
                f"{element}: poses must be one Pose for each of {len(self.frames)} frames, got "
                f"{self.poses!r}",
                name=self.name,
            )
        given: object = self.units
        units = (given,) if isinstance(given, str) else given
        if not isinstance(units, Sequence) or not all(isinstance(unit, str) for unit in units):
            units = None
        if units is None or len(units) not in (0, self.count):
            got = repr(given) if units is None else str(len(units))
            raise ModelError(
                f"{element}: units must be one for each of {self.count} residuals, got {got}",
                name=self.name,
            )
        object.__setattr__(self, "units", tuple(units))

    @property
    def ends(self) -> tuple[tuple[str, Pose], ...]:
        """The frames it depends on, each with a pose in its axes."""
        poses = self.poses or (Pose(),) * len(self.frames)
        return tuple(zip(self.frames, poses, strict=True))

    @property
    def seen_joints(self) -> tuple[str, ...]:
        """Names of the joints it depends on."""
        return self.joints

    @property
    def position_count(self) -> int:
        """Number of position residuals."""
        return self.count if self.level == "position" else 0

    @property
    def velocity_count(self) -> int:
        """Number of velocity residuals."""
        return self.count if self.level == "velocity" else 0

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """Labels of the residuals."""
        units = [f" [{unit}]" for unit in self.units] or [""] * self.count
        return tuple(f"residual {k}{unit}" for k, unit in enumerate(units))

    def position_residuals(self, *seen: Any) -> Any:
        """Return the position residuals."""
        self._check_seen("position_residuals", seen)
        return self.function(*seen)

    def velocity_residuals(self, *seen: Any) -> Any:
        """Return the velocity residuals."""
        self._check_seen("velocity_residuals", seen)
        return self.function(*seen)

    def _check_seen(self, where: str, seen: tuple[Any, ...]) -> None:
        """Raise unless there is a frame for each of `frames` and a joint for each of `joints`."""
        wanted = ["R"] * len(self.frames) + ["q"] * len(self.joints)
        if len(seen) != len(wanted) or not all(map(hasattr, seen, wanted)):
            raise ArgumentError(
                f"ConstraintFunction.{where}",
                "seen",
                f"{len(self.frames)} frames with R and p, then {len(self.joints)} joints with q",
                shown(seen),
            )

    def check(self, joints: Mapping[str, Joint]) -> None:
        """Raise if a named joint cannot be constrained."""
        for name in self.joints:
            joint = joints[name]
            if joint.follows is not None or joint.nv == 0:
                why = "never moves" if joint.follows is None else f"follows {joint.follows!r}"
                raise ModelError(
                    f"loop {self.name!r}: can only depend on joints with their own variables, got "
                    f"the {joint.kind} joint {name!r}, which {why}; name another, or a frame",
                    name=self.name,
                )
        _check_function(self, seen_joints(self, joints))

    def renamed(self, prefix: str) -> Self:
        """Return the constraint with a prefix before all names but the world's."""
        frames = tuple(name if name == WORLD else prefix + name for name in self.frames)
        joints = tuple(prefix + name for name in self.joints)
        return self._with(name=prefix + self.name, frames=frames, joints=joints)

    def moved(self, ends: Sequence[tuple[str, Pose]]) -> Self:
        """Return the constraint with other frames, one for each."""
        return self._with(
            frames=tuple(name for name, _ in ends), poses=tuple(pose for _, pose in ends)
        )

    def _with(self, **values: Any) -> Self:
        kept = ("name", "function", "frames", "joints", "count", "level", "units", "poses")
        return type(self)(**{key: getattr(self, key) for key in kept} | values)


def _check_function(closure: ConstraintFunction, joints: tuple[Joint, ...]) -> None:
    """Raise if a function cannot be traced, is constant, or is never finite."""
    element = f"loop {closure.name!r}"
    try:
        found = closure_program(closure, joints)
    except ModelError:
        raise
    except TraceError as error:
        raise ModelError(
            f"{element}: its function cannot be traced: {error}; use arithmetic and NumPy "
            "functions on its arguments, and no if on a value",
            name=closure.name,
        ) from error
    except Exception as error:
        seen = ", ".join((*closure.frames, *closure.joints))
        level = "" if closure.level == "velocity" else '; velocities need level="velocity"'
        raise ModelError(
            f"{element}: its function failed on {seen}: {type(error).__name__}: {error}; it takes "
            f"one argument for each frame, with R and p, then one for each joint, with q{level}",
            name=closure.name,
        ) from error
    idle = [k for k, row in enumerate(found.pattern()) if not any(row)]
    if idle:
        raise ModelError(
            f"{element}: residual {idle[0]} does not depend on any of its arguments; leave it out",
            name=closure.name,
        )
    if closure.level == "velocity":
        _check_linear(closure, found, _tries(closure, joints, found))


def _tries(
    closure: ConstraintFunction, joints: Iterable[Joint], found: ClosureProgram
) -> Iterable[Seen]:
    """Yield random arguments at rest: frames within some meters, joints anywhere."""
    rng = np.random.default_rng(13)
    rest = (0.0,) * found.width
    for _ in range(RANDOM_TRIALS):
        x: list[float] = []
        for _ in closure.frames:
            R = quaternion_to_matrix(random_quaternion(rng))
            x += [float(entry) for row in R for entry in row]
            x += rng.standard_normal(3).tolist()
        for joint in joints:
            x += joint.random(rng)
        yield Seen(x, rest, (0.0,) * (MOTION_SIZE * len(closure.frames)))


def _check_linear(
    closure: ConstraintFunction, found: ClosureProgram, tried: Iterable[Seen]
) -> None:
    """Raise unless velocity residuals are linear: constant derivatives, zero at rest."""
    bends = found.reads("gradient", 1)
    drift = 0.0
    for seen in tried:
        left = np.abs(found.evaluate("rate", seen))
        drift = max(drift, float(left[np.isfinite(left)].max(initial=0.0)))
    if bends or drift > REST_TOLERANCE:
        got = "derivatives that depend on the velocity" if bends else f"{drift:.3g} at rest"
        raise ModelError(
            f"loop {closure.name!r}: velocity residuals must be linear in the velocities, got "
            f"{got}; return sums of velocities times functions of positions",
            name=closure.name,
        )
