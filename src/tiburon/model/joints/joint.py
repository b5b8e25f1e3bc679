"""The joint interface, so that no algorithm depends on joint types; limits, friction, fixed joints.

Symbols (Featherstone 1987, chapters 6 and 7):
    S    motion subspace, one column per velocity variable, in body coordinates
    c    velocity product, v x vJ + Sdot qd
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import ClassVar, Self, TypeAlias

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelError, shown
from tiburon.model.joint_constraints import Measure, Offset, Turn, all_axes
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Matrix3, check_name, convert, matrix3, per_dof
from tiburon.record import field, record
from tiburon.spatial import Force, Motion, Scalar, Scalars, Transform
from tiburon.spatial.vec3 import IDENTITY3

PerDof: TypeAlias = float | tuple[float, ...]
"""One value for all degrees of freedom of a joint, or one each."""


_LEAST = (
    *(("lower", -math.inf), ("upper", -math.inf), ("velocity", 0.0), ("force", 0.0)),
    ("restitution", 0.0),
)
"""Smallest limits allowed."""


@record
class JointLimits:
    """Limits of a joint; immutable, compares by value.

    Each is one value for all degrees of freedom, or one per degree of freedom. Infinity means no
    limit. In joints with a quaternion, `upper` bounds the total rotation angle. Data only: dynamics
    functions do not stop a joint, simulations do.

    Example:
        ``Revolute("elbow", limits=JointLimits(-1.5, 1.5, velocity=3.0, force=60.0))``
    """

    lower: PerDof = -math.inf
    """Smallest position [rad or m]."""

    upper: PerDof = math.inf
    """Largest position [rad or m]."""

    velocity: PerDof = math.inf
    """Largest speed in either direction [rad/s or m/s]."""

    force: PerDof = math.inf
    """Largest joint force in either direction [N m or N]."""

    restitution: PerDof = 0.0
    """Share of its speed with which the joint leaves a limit, from 0 to 1."""

    def __post_init__(self) -> None:
        # not by `convert`: files of large robots have one for each joint
        for quantity, least in _LEAST:
            given = getattr(self, quantity)
            value = per_dof(given, "joint limits", quantity, least=least, infinite=True)
            object.__setattr__(self, quantity, value)
        if np.max(self.restitution, initial=0.0) > 1.0:
            raise ModelError(
                f"joint limits: restitution must be at most 1, got {np.max(self.restitution):g}; "
                "more would add energy at every impact"
            )
        for low, high in zip(*self._pairs(), strict=True):
            if not low <= high:
                raise ModelError(
                    f"joint limits: lower must not exceed upper, got lower {low:g} and upper "
                    f"{high:g}; swap them, or leave both out for a joint without limits"
                )

    def _pairs(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return lower and upper limits of equal length."""
        low = self.lower if isinstance(self.lower, tuple) else (self.lower,)
        high = self.upper if isinstance(self.upper, tuple) else (self.upper,)
        count = max(len(low), len(high))
        low = low * count if len(low) == 1 else low
        high = high * count if len(high) == 1 else high
        if len(low) != len(high):
            raise ModelError(
                f"joint limits: lower and upper must have equal length, got {len(low)} and "
                f"{len(high)}; give one value, or one per degree of freedom"
            )
        return low, high


@record
class JointPassive:
    """Friction and springs of a joint; immutable, compares by value.

    Each is one value for all degrees of freedom, or one per degree of freedom. Data only: dynamics
    functions do not add these forces, simulations do.

    Example:
        ``Revolute("knee", passive=JointPassive(damping=0.1, stiffness=20.0, rest=0.4))``
    """

    damping: PerDof = 0.0
    """Viscous friction, force per velocity [N m s/rad or N s/m]."""

    friction: PerDof = 0.0
    """Coulomb friction, force against any motion [N m or N]."""

    stiffness: PerDof = 0.0
    """Spring, force per displacement from `rest` [N m/rad or N/m]."""

    rest: PerDof = 0.0
    """Rest position of the spring [rad or m], one value or one per variable."""

    def __post_init__(self) -> None:
        convert(self, per_dof, "joint passive", "damping", "friction", "stiffness", least=0.0)
        convert(self, per_dof, "joint passive", "rest")


@public
@record(slots=False)
class Joint(ABC):
    """Motion of a body relative to its parent; immutable, compares by value.

    The joint frame is fixed in the parent body at `pose`. The pose of the body frame in the joint
    frame depends on q alone. Scalars are floats, arrays of floats or traced
    values: every method except `random` accepts all three.
    """

    name: str
    """Unique among the joints of a model."""

    pose: Pose = field(default_factory=Pose, kw_only=True)
    """The joint frame in the parent body frame."""

    limits: JointLimits | None = field(default=None, kw_only=True)
    """Position, velocity and force limits; data that dynamics functions do not apply."""

    passive: JointPassive | None = field(default=None, kw_only=True)
    """Friction and springs; data that dynamics functions do not apply."""

    armature: PerDof = field(default=0.0, kw_only=True)
    """Armature inertia, as of a geared motor [kg m^2 or kg].

    Gear ratio squared times the rotor's inertia; one value, or one per degree of freedom. It adds
    to the diagonal of the mass matrix only: it has no weight and no gyroscopic moment.
    """

    kind: ClassVar[str]
    """Type name for messages and keys."""

    nq: ClassVar[int]
    """Number of position variables."""

    nv: ClassVar[int]
    """Number of velocity variables."""

    reach: ClassVar[float] = 0.0
    """Bound of random positions that are uniform [m or rad]; 0 where they are not."""

    q_parts: ClassVar[tuple[str, ...]] = ()
    """Names of several position variables within the joint."""

    v_parts: ClassVar[tuple[str, ...]] = ()
    """Names of several velocity variables within the joint; those of the positions by default."""

    def __post_init__(self) -> None:
        check_name(self.name, "joint")
        if not isinstance(self.pose, Pose):
            raise ModelError(
                f"joint {self.name!r}: pose must be a Pose, got {shown(self.pose)}; "
                "write Pose(translation=(x, y, z)) or Pose.from_rpy(...)",
                name=self.name,
            )
        plain = isinstance(self.armature, float) and self.armature == 0.0
        if self.limits is not None or self.passive is not None or not plain:
            self.check_data()

    def check_data(self) -> None:
        """Check limits, passive forces and armature against the degrees of freedom of the joint."""
        element = f"joint {self.name!r}"
        for quantity, kind in (("limits", JointLimits), ("passive", JointPassive)):
            given = getattr(self, quantity)
            if given is None:
                continue
            if not isinstance(given, kind):
                raise ModelError(
                    f"{element}: {quantity} must be a {kind.__name__}, got {shown(given)}; write "
                    f"{kind.__name__}(...)",
                    name=self.name,
                )
            for item in fields(given):
                self._check_count(getattr(given, item.name), f"{quantity}.{item.name}")
        armature = per_dof(self.armature, element, "armature", self.name, least=0.0)
        object.__setattr__(self, "armature", armature)
        self._check_count(armature, "armature")
        if self.dof == 0 and armature not in (0.0, ()):
            raise ModelError(
                f"{element}: a {self.kind} joint cannot have an armature, got {armature}; leave it "
                "out",
                name=self.name,
            )

    def _check_count(self, value: PerDof, quantity: str) -> None:
        """Raise unless a quantity is one value, or one per degree of freedom."""
        if not isinstance(value, tuple):
            return
        counts = {self.dof}
        if quantity == "passive.rest":
            counts.add(self.nq)
        if len(value) not in counts:
            raise ModelError(
                f"joint {self.name!r}: {quantity} must be one value or one for each of "
                f"{self.dof} degrees of freedom of a {self.kind} joint, got {len(value)}",
                name=self.name,
            )

    @property
    def dof(self) -> int:
        """Number of degrees of freedom; a coupled joint has one, but no variable."""
        return self.nv if self.follows is None else 1

    @property
    def armatures(self) -> tuple[float, ...]:
        """Its armature, one value per degree of freedom [kg m^2 or kg]."""
        if isinstance(self.armature, tuple):
            return self.armature
        return (self.armature,) * self.dof

    def q_names(self) -> tuple[str, ...]:
        """Return one name per position variable."""
        return tuple(f"{self.name}.{x}" for x in self.q_parts) or (self.name,) * self.nq

    def v_names(self) -> tuple[str, ...]:
        """Return one name per velocity variable."""
        parts = self.v_parts or self.q_parts
        return tuple(f"{self.name}.{x}" for x in parts) or (self.name,) * self.nv

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on: the type and its constants."""
        return (self.kind,)

    def without_offset(self) -> tuple["Joint", tuple[float, ...]]:
        """Return the joint without its offset, and the numbers of the offset for `with_offset`.

        Joints that differ in their offset alone then share code.
        """
        return self, ()

    def no_offset(self) -> tuple[float, ...]:
        """Return the numbers of a zero offset, if the joint type has offsets."""
        return ()

    def with_offset(self, offset: Scalars) -> "Joint":
        """Return the joint, which has no offset, with one.

        Args:
            offset: As `without_offset` returns it, or traced; empty for none.
        """
        return self

    def parameters(self) -> tuple[float, ...]:
        """Return the joint's run-time parameters, such as a pitch.

        Joints that differ in these alone then share code.
        """
        return ()

    def with_parameters(self, numbers: Scalars) -> "Joint":
        """Return the joint with other scalars in place of `parameters`."""
        return self

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of the joint as a loop closure, one per constrained direction.

        Raises:
            ModelError: If this joint type cannot close a loop.
        """
        raise ModelError(
            f"joint {self.name!r}: a {self.kind} joint cannot close a loop; use a revolute, "
            "prismatic, cylindrical, screw, universal, spherical, planar, fixed or rolling joint",
            name=self.name,
        )

    def canonical(self) -> tuple[Matrix3, "Joint"]:
        """Return axes aligned with the joint, and the joint in them; variables are unchanged.

        Returns:
            Rotation whose columns are the axes of both joint frame and body frame, and the same
            joint with its axes along coordinate axes, as far as possible.
        """
        return IDENTITY3, self

    @property
    def depends_on_time(self) -> bool:
        """Whether the joint depends on time."""
        return False

    @property
    def follows(self) -> str | None:
        """Name of the leader of a coupled joint; None for other joints."""
        return None

    @property
    def is_rigid(self) -> bool:
        """Whether the joint is rigid."""
        return self.nv == 0 and not self.depends_on_time

    def at(self, time: Scalar) -> Self:
        """Return the joint at a time [s]: itself, unless it is driven."""
        return self

    def locked(self, q: Sequence[float]) -> "Joint":
        """Return a fixed joint of the same name with the pose of this joint at q."""
        X = self.transform(q)
        # X.rotation maps joint axes to body axes; a pose maps body axes to joint axes
        R = matrix3(np.array(X.rotation, dtype=np.float64).T)
        return Fixed(self.name, pose=self.pose @ Pose(R, X.translation))

    @abstractmethod
    def neutral(self) -> tuple[float, ...]:
        """Return the neutral position (q = 0 or identity rotation)."""

    @abstractmethod
    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return random position variables that cover all orientations."""

    @abstractmethod
    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame (eq. 2.18)."""

    @abstractmethod
    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the columns of S in body coordinates; constant entries are floats."""

    def own_subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the columns of S per unit of the joint's own velocity.

        They are those of S, except of a coupled joint, whose S is per velocity of its leader.
        """
        return self.subspace(q)

    def motion(self, q: Scalars, v: Scalars) -> Motion:
        """Return S v, linear in v: use it for accelerations and unit motions (eq. 7.10)."""
        total = Motion.zero()
        for S, rate in zip(self.subspace(q), v, strict=True):
            total = total + S * rate
        return total

    def velocity(self, q: Scalars, v: Scalars) -> Motion:
        """Return the velocity of the body relative to its parent, vJ.

        S v, plus the prescribed velocity of driven joints (eq. 7.10).
        """
        return self.motion(q, v)

    def subspace_rate(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return the columns of Sdot, as seen from the body: zero where S is constant."""
        return (Motion.zero(),) * self.nv

    def bias(self, q: Scalars, v: Scalars) -> Motion:
        """Return Sdot v in body coordinates (eq. 7.11): zero where S is constant.

        Sdot is the rate of S as seen from the body, so that the acceleration of the body is
        X a_parent + S vd + vel x vJ + bias.
        """
        return Motion.zero()

    def bias_derivative(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return the derivative of Sdot v by position at constant v; zero where S is constant."""
        # a coupled joint has a column but no variable
        return (Motion.zero(),) * len(self.subspace(q))

    def project(self, q: Scalars, f: Force) -> tuple[Scalar, ...]:
        """Return the joint forces S^T f of a force transmitted to the body (eq. 7.14)."""
        return tuple(S.dot(f) for S in self.subspace(q))

    def integrate(self, q: Scalars, dv: Scalars) -> tuple[Scalar, ...]:
        """Return the position after a step dv = v dt of constant body velocity."""
        return tuple(x + dx for x, dx in zip(q, dv, strict=True))

    def position_rate(self, q: Scalars, v: Scalars) -> tuple[Scalar, ...]:
        """Return dq/dt, nq scalars, at a velocity.

        v itself where velocities are rates of positions.
        """
        return tuple(v)

    def velocity_of_rate(self, q: Scalars, qd: Scalars) -> tuple[Scalar, ...]:
        """Return the velocity at which positions change by dq/dt: the inverse of `position_rate`.

        For rolling joints, from the rotation alone.
        """
        return tuple(qd)

    def step(self, q: Scalars, v: Scalars) -> tuple[Scalar, ...]:
        """Return the rate that integrators sum: v itself for holonomic joints.

        For non-holonomic joints (rolling), sums of rates at different positions are not velocities;
        there a step has one entry per position degree of freedom.
        """
        return tuple(v)

    def move(self, q: Scalars, step: Scalars) -> tuple[Scalar, ...]:
        """Return the position after a step, as `integrate` does after the step of a velocity."""
        return self.integrate(q, step)

    def bracket(self, a: Scalars, b: Scalars) -> tuple[Scalar, ...]:
        """Return the commutator of two small steps, as a step.

        To second order, a step a and then b is one step a + b + bracket(a, b) / 2 (Baker, Campbell,
        Hausdorff). Zero where `integrate` is a sum; integrators of high order need it elsewhere.
        """
        return (0.0,) * self.nv

    def difference(self, q0: Scalars, q1: Scalars) -> tuple[Scalar, ...]:
        """Return the step dv with integrate(q0, dv) = q1."""
        return tuple(b - a for a, b in zip(q0, q1, strict=True))

    def displacement(self, q0: Scalars, q1: Scalars) -> tuple[Scalar, ...]:
        """Return the step with move(q0, step) = q1, one entry per position degree of freedom.

        The same as `difference` for holonomic joints.
        """
        return self.difference(q0, q1)

    def normalize(self, q: Scalars) -> tuple[Scalar, ...]:
        """Return the same position with any redundant scale removed."""
        return tuple(q)


def refuse_own_data(joint: Joint, *inner: Joint) -> None:
    """Raise if a nested joint has limits, passive forces or armature."""
    for part in inner:
        if (part.limits, part.passive, part.armature) != (None, None, 0.0):
            raise ModelError(
                f"joint {joint.name!r}: {part.name!r} inside it must have no limits, passive or "
                f"armature; give them to {joint.name!r}",
                name=joint.name,
            )


@public
@record(slots=False)
class Fixed(Joint):
    """A rigid connection: the body stays in the joint frame.

    Example:
        ``Fixed("weld", pose=Pose(translation=(0, 0, 0.1)))``
    """

    kind: ClassVar[str] = "fixed"
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of equal poses."""
        return (*all_axes(Turn), *all_axes(Offset))

    def neutral(self) -> tuple[float, ...]:
        """Return an empty tuple."""
        return ()

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return an empty tuple."""
        return ()

    def transform(self, q: Scalars) -> Transform:
        """Return the identity."""
        return Transform(())

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return an empty tuple."""
        return ()
