"""Limits, friction and springs of a joint."""

import math
from typing import TypeAlias

from tiburon.errors import ModelError
from tiburon.model.value_checks import per_freedom
from tiburon.record import record

PerFreedom: TypeAlias = float | tuple[float, ...]
"""One number for every freedom of a joint, or one number each."""


@record
class JointLimits:
    """Limits of a joint as its maker states them; immutable, compares by value.

    Each is one number, which holds for every freedom, or one number per freedom. Infinity is no
    limit. In joints whose position is a quaternion, `upper` bounds the angle of the whole turn.
    These are data: dynamics does not stop a joint.

    Example:
        ``Revolute("elbow", limits=JointLimits(-1.5, 1.5, velocity=3.0, force=60.0))``
    """

    lower: PerFreedom = -math.inf
    """Smallest position [rad or m]."""

    upper: PerFreedom = math.inf
    """Largest position [rad or m]."""

    velocity: PerFreedom = math.inf
    """Largest speed in either direction [rad/s or m/s]."""

    force: PerFreedom = math.inf
    """Largest joint force in either direction [N m or N]."""

    def __post_init__(self) -> None:
        for quantity, least in [
            ("lower", -math.inf),
            ("upper", -math.inf),
            ("velocity", 0.0),
            ("force", 0.0),
        ]:
            given = getattr(self, quantity)
            value = per_freedom(given, "joint limits", quantity, least=least, infinite=True)
            object.__setattr__(self, quantity, value)
        for low, high in zip(*self._pairs(), strict=True):
            if not low <= high:
                raise ModelError(
                    f"joint limits: lower must not exceed upper, got lower {low:g} and upper "
                    f"{high:g}; swap them, or leave both out for a joint without limits"
                )

    def _pairs(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return lower and upper limits of equal number."""
        low = self.lower if isinstance(self.lower, tuple) else (self.lower,)
        high = self.upper if isinstance(self.upper, tuple) else (self.upper,)
        count = max(len(low), len(high))
        low = low * count if len(low) == 1 else low
        high = high * count if len(high) == 1 else high
        if len(low) != len(high):
            raise ModelError(
                f"joint limits: lower and upper must be equally many, got {len(low)} and "
                f"{len(high)}; give one number, or one per freedom"
            )
        return low, high


@record
class JointPassive:
    """Friction and springs of a joint; immutable, compares by value.

    Each is one number, which holds for every freedom, or one number per freedom. These are data:
    `forward_dynamics` and its kin take the joint force as given and do not add them.

    Example:
        ``Revolute("knee", passive=JointPassive(damping=0.1, stiffness=20.0, rest=0.4))``
    """

    damping: PerFreedom = 0.0
    """Viscous friction, force per velocity [N m s/rad or N s/m]."""

    friction: PerFreedom = 0.0
    """Coulomb friction, force against any motion [N m or N]."""

    stiffness: PerFreedom = 0.0
    """Spring, force per displacement from `rest` [N m/rad or N/m]."""

    rest: PerFreedom = 0.0
    """Position at which the spring pulls nowhere [rad or m], one number or one per variable."""

    def __post_init__(self) -> None:
        for quantity in ("damping", "friction", "stiffness"):
            value = per_freedom(getattr(self, quantity), "joint passive", quantity, least=0.0)
            object.__setattr__(self, quantity, value)
        object.__setattr__(self, "rest", per_freedom(self.rest, "joint passive", "rest"))
