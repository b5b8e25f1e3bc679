"""User-defined constraints: one function of frames and joints."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from tiburon.argument_checks import check_signature
from tiburon.errors import ModelError, OptionError, TraceError, shown
from tiburon.model.body import WORLD
from tiburon.model.joints.joint import Joint
from tiburon.model.joints.orientation import random_quaternion
from tiburon.model.pose import Pose
from tiburon.model.traced_closure import (
    MOTION_SIZE,
    ClosureProgram,
    Seen,
    TracedClosure,
    closure_program,
    seen_joints,
)
from tiburon.model.value_checks import check_name, check_names
from tiburon.record import field, record
from tiburon.spatial import quaternion_to_matrix

__all__ = ["ConstraintFunction"]

LEVELS = ("position", "velocity")

RANDOM_TRIALS = 16
"""Number of random arguments at which a function is tested."""

REST_TOLERANCE = 1e-12
"""Largest velocity residual at rest, due to rounding [m/s or rad/s]."""


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
                f"{element}: function must be callable, "
                f"got {shown(given)}; write a function of frames "
                "and joints that returns residuals",
                name=self.name,
            )
        if getattr(given, "__hash__", None) is None:
            raise ModelError(
                f"{element}: function must be hashable, because it is traced once, got "
                f"{shown(given)}; give "
                "its class a __hash__, or wrap it in a function",
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
        for quantity in ("frames", "joints"):
            names = check_names(getattr(self, quantity), element, quantity)
            object.__setattr__(self, quantity, names)
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
        return self.function(*seen)

    def velocity_residuals(self, *seen: Any) -> Any:
        """Return the velocity residuals."""
        return self.function(*seen)

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
            f"{got}; "
            "return sums of velocities times functions of positions",
            name=closure.name,
        )
