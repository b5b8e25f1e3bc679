"""What every joint kind answers, so that no algorithm asks which kind it is.

Symbols (Featherstone 1987, chapters 6 and 7):
    S    motion sub-space, one column per velocity variable, in body coordinates
    c    velocity product, v x vJ + Sdot qd
    IA   articulated-body inertia, pA its bias force
    Ia   what the joint passes on of IA, pa likewise of pA
    U, d, u, W    I S, S^T I S, tau - S^T p and U/d, one direction at a time
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import ClassVar, Self

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.joint_constraints import Measure
from tiburon.model.joint_properties import JointLimits, JointPassive, PerFreedom
from tiburon.model.joints.elimination import Eliminated, accelerate_direction, eliminate_direction
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Matrix3, check_name, matrix3, per_freedom
from tiburon.record import field, record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform
from tiburon.spatial.vec3 import IDENTITY3

Carry = tuple[Eliminated, ...]
"""What `Joint.release` keeps for `Joint.accelerate`, one entry per velocity variable."""


@record(slots=False)
class Joint(ABC):
    """How one body may move in its parent; immutable, compares by value.

    The joint frame is fixed in the parent body at `pose`. The body frame moves relative to the
    joint frame, by a motion that depends on q alone. Scalars are floats, arrays of floats or traced
    values: every method but `random` runs on all three.
    """

    name: str
    """Unique among the joints of a model."""

    pose: Pose = field(default_factory=Pose, kw_only=True)
    """The joint frame in the parent body frame."""

    limits: JointLimits | None = field(default=None, kw_only=True)
    """How far, fast and hard it may move; data, which dynamics does not apply."""

    passive: JointPassive | None = field(default=None, kw_only=True)
    """Its friction and springs; data, which dynamics does not apply."""

    armature: PerFreedom = field(default=0.0, kw_only=True)
    """Inertia that its motion alone feels, as of a geared motor [kg m^2 or kg].

    Ratio squared times the rotor's inertia; one number, or one per freedom. It adds to the diagonal
    of the mass matrix, and to nothing else: it has no weight, and no gyroscopic moment.
    """

    kind: ClassVar[str]
    """One word for messages and keys."""

    nq: ClassVar[int]
    """Number of position variables."""

    nv: ClassVar[int]
    """Number of velocity variables."""

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
            self._check_data()

    def _check_data(self) -> None:
        """Check limits, passive forces and armature against the freedoms of the joint."""
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
        armature = per_freedom(self.armature, element, "armature", self.name, least=0.0)
        object.__setattr__(self, "armature", armature)
        self._check_count(armature, "armature")
        if self.freedom_count == 0 and armature not in (0.0, ()):
            raise ModelError(
                f"{element}: a {self.kind} joint has no freedom for an armature, got {armature}; "
                "leave it out",
                name=self.name,
            )

    def _check_count(self, value: PerFreedom, quantity: str) -> None:
        """Raise unless a quantity is one number, or one for each freedom."""
        if not isinstance(value, tuple):
            return
        counts = {self.freedom_count}
        if quantity == "passive.rest":
            counts.add(self.nq)
        if len(value) not in counts:
            raise ModelError(
                f"joint {self.name!r}: {quantity} must be one number or one for each of "
                f"{self.freedom_count} freedoms of a {self.kind} joint, got {len(value)}",
                name=self.name,
            )

    @property
    def freedom_count(self) -> int:
        """How many freedoms it has; a joint that follows another has one, though no variable."""
        return self.nv if self.follows is None else 1

    @property
    def armatures(self) -> tuple[float, ...]:
        """Its armature, one number per freedom [kg m^2 or kg]."""
        if isinstance(self.armature, tuple):
            return self.armature
        return (self.armature,) * self.freedom_count

    def q_names(self) -> tuple[str, ...]:
        """Return one name per position variable."""
        return (self.name,) * self.nq

    def v_names(self) -> tuple[str, ...]:
        """Return one name per velocity variable."""
        return (self.name,) * self.nv

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on: the kind and its fixed numbers."""
        return (self.kind,)

    def without_offset(self) -> tuple["Joint", tuple[float, ...]]:
        """Return a joint that many may share, and what to add to the positions of this one.

        Joints that differ in their offset alone then run the same code.
        """
        return self, ()

    def no_offset(self) -> tuple[float, ...]:
        """Return the offset of a joint that has none, if it may have one."""
        return ()

    def numbers(self) -> tuple[float, ...]:
        """Return the joint's own numbers that only enter arithmetic, such as a pitch.

        Joints that differ in these alone then run the same code.
        """
        return ()

    def with_numbers(self, numbers: Sequence[Scalar]) -> "Joint":
        """Return a joint that many may share, with other scalars in place of `numbers`."""
        return self

    def closing(self) -> tuple[Measure, ...]:
        """Return what vanishes while the joint closes a loop, one measure per lost freedom.

        Raises:
            ModelError: If this kind of joint cannot close a loop.
        """
        raise ModelError(
            f"joint {self.name!r}: a {self.kind} joint cannot close a loop; take a revolute, "
            "prismatic, cylindrical, screw, universal, spherical, planar, fixed or rolling joint",
            name=self.name,
        )

    def canonical(self) -> tuple[Matrix3, "Joint"]:
        """Return axes that suit the joint, and the joint in them; variables stay what they are.

        Returns:
            Rotation whose columns are axes for joint frame and body frame alike, and the same joint
            with its own axes along coordinate axes, as far as that can be.
        """
        return IDENTITY3, self

    @property
    def depends_on_time(self) -> bool:
        """Whether time moves the joint."""
        return False

    @property
    def follows(self) -> str | None:
        """Name of the joint whose variables move this one; None if it has its own."""
        return None

    @property
    def is_rigid(self) -> bool:
        """Whether the body never moves in its parent."""
        return self.nv == 0 and not self.depends_on_time

    def at(self, time: Scalar) -> Self:
        """Return the joint at a time [s]: itself, unless time moves it."""
        return self

    def locked(self, q: Sequence[float]) -> "Joint":
        """Return the joint of the same name that holds the body where this one has it at q."""
        # fixed joints are joints themselves, so their file needs this one first
        from tiburon.model.joints.fixed import Fixed

        X = self.transform(q)
        # X.rotation maps joint axes to body axes; a pose says how the body lies in joint axes
        R = matrix3(np.array(X.rotation, dtype=np.float64).T)
        return Fixed(self.name, pose=self.pose @ Pose(R, X.translation))

    @abstractmethod
    def neutral(self) -> tuple[float, ...]:
        """Return the position variables at which the body frame is "unmoved" (q = 0 or no turn)."""

    @abstractmethod
    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return random position variables that cover all orientations."""

    @abstractmethod
    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame (eq. 2.18)."""

    @abstractmethod
    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the columns of S in body coordinates; entries that never change are floats."""

    def motion(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return S v, linear in v: use it for accelerations and unit motions (eq. 7.10)."""
        total = Motion.zero()
        for S, rate in zip(self.subspace(q), v, strict=True):
            total = total + S * rate
        return total

    def velocity(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return the velocity of the body relative to its parent, vJ.

        S v, and what time prescribes where a joint moves by itself (eq. 7.10).
        """
        return self.motion(q, v)

    def subspace_rate(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the columns of Sdot, as seen from the body: zero where S is constant."""
        return (Motion.zero(),) * self.nv

    def bias(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return Sdot v in body coordinates (eq. 7.11): zero where S is constant.

        Sdot is the rate of S as seen from the body, so that the acceleration of the body is
        X a_parent + S vd + vel x vJ + bias.
        """
        return Motion.zero()

    def bias_derivative(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return how Sdot v changes with a step along each freedom, v held; zero as Sdot is."""
        # a joint that follows another has a column though it has no variable of its own
        return (Motion.zero(),) * len(self.subspace(q))

    def project(self, q: Sequence[Scalar], f: Force) -> tuple[Scalar, ...]:
        """Return the joint forces S^T f of a force transmitted to the body (eq. 7.14)."""
        return tuple(S.dot(f) for S in self.subspace(q))

    def release(
        self,
        q: Sequence[Scalar],
        IA: ArticulatedInertia,
        pA: Force,
        c: Motion,
        tau: Sequence[Scalar],
        armature: Sequence[Scalar] | None = None,
    ) -> tuple[ArticulatedInertia, Force, Carry]:
        """Free the joint: find what the parent feels of this body and all beyond it.

        Directions of S are freed one by one, the last first, as a chain of one-freedom joints with
        massless links would be; this is an LDL^T factorization of S^T IA S, with armatures added
        to its diagonal.

        Args:
            q: Position of the joint, nq scalars.
            IA: Articulated-body inertia of the body, with its subtree, in body coordinates.
            pA: Its bias force.
            c: Velocity product of the joint.
            tau: Joint force, nv scalars.
            armature: Inertia that each freedom alone feels, nv scalars; None if there is none.

        Returns:
            Ia, pa and what `accelerate` needs, so that the parent feels Ia a + pa for
            the acceleration a that it alone would give the body (eqs. 6.37-6.40, 7.16-7.19).
        """
        Ia, pa = IA, pA
        carry: list[Eliminated] = []
        columns = self.subspace(q)
        felt = (None,) * len(columns) if armature is None else armature
        for S, force, own in reversed(list(zip(columns, tau, felt, strict=True))):
            try:
                Ia, pa, eliminated = eliminate_direction(Ia, pa, S, force, own)
            except ZeroDivisionError as error:
                raise ModelError(
                    f"joint {self.name!r}: nothing resists its motion, so it has no definite "
                    "acceleration; give what it moves an inertia, or lock it",
                    name=self.name,
                ) from error
            carry.append(eliminated)
        return Ia, Ia.apply(c, start=pa), tuple(carry)

    def accelerate(
        self,
        q: Sequence[Scalar],
        carry: Carry,
        a: Motion,
        armature: Sequence[Scalar] | None = None,
    ) -> tuple[tuple[Scalar, ...], Motion]:
        """Find the joint acceleration.

        Args:
            q: Position of the joint, nq scalars.
            carry: From `release`.
            a: X a_parent + c, the acceleration the body would have at zero joint acceleration.
            armature: As given to `release`.

        Returns:
            The joint acceleration, nv scalars, and the body's acceleration a + S qdd (eq. 6.45).
        """
        qdd: list[Scalar] = []
        columns = self.subspace(q)
        felt = (None,) * len(columns) if armature is None else armature
        for S, eliminated, own in zip(columns, reversed(carry), felt, strict=True):
            rate, a = accelerate_direction(eliminated, a, S, own)
            qdd.append(rate)
        return tuple(qdd), a

    def integrate(self, q: Sequence[Scalar], dv: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the position after a step dv = v dt of constant body velocity."""
        return tuple(x + dx for x, dx in zip(q, dv, strict=True))

    def position_rate(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return dq/dt, nq scalars, at a velocity; a step dv changes q by as much, to first order.

        v itself where velocities are rates of positions.
        """
        return tuple(v)

    def velocity_of_rate(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the velocity at which positions change by dq/dt: the inverse of `position_rate`.

        Where rolling binds velocities, that of the turn alone.
        """
        return tuple(qd)

    def step(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the rate of position as integrators add it up: v itself in holonomic joints.

        Where velocities are bound (rolling), sums of rates taken at different positions are no
        velocity any more; there a step has one number per freedom of position.
        """
        return tuple(v)

    def move(self, q: Sequence[Scalar], step: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the position after a step, as `integrate` does after the step of a velocity."""
        return self.integrate(q, step)

    def bracket(self, a: Sequence[Scalar], b: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return by how much two small steps fail to commute, as a step.

        To second order, a step a and then b is one step a + b + bracket(a, b) / 2 (Baker, Campbell,
        Hausdorff). Zero where `integrate` is a sum; integrators of high order need it elsewhere.
        """
        return (0.0,) * self.nv

    def difference(self, q0: Sequence[Scalar], q1: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the step dv with integrate(q0, dv) = q1."""
        return tuple(b - a for a, b in zip(q0, q1, strict=True))

    def displacement(self, q0: Sequence[Scalar], q1: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the step with move(q0, step) = q1: one number per freedom of position.

        The same as `difference`, but where velocities are bound and fewer than these freedoms.
        """
        return self.difference(q0, q1)

    def normalize(self, q: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the same position with any redundant scale removed."""
        return tuple(q)


def refuse_own_data(joint: Joint, *inner: Joint) -> None:
    """Raise if a joint inside another has limits, passive forces or armature of its own."""
    for part in inner:
        if (part.limits, part.passive, part.armature) != (None, None, 0.0):
            raise ModelError(
                f"joint {joint.name!r}: {part.name!r} inside it must have no limits, passive or "
                f"armature of its own; give them to {joint.name!r}",
                name=joint.name,
            )
