"""Inextensible tendons over several joints: couplings of weighted sums of joint positions."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.joints.joint import Joint
from tiburon.model.pose import Pose
from tiburon.model.traced_closure import TracedClosure
from tiburon.model.value_checks import check_name, check_names, finite_array
from tiburon.record import field, record

__all__ = ["TendonCoupling"]


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
                f"{count}; "
                "name the leaders or leave the others out",
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
