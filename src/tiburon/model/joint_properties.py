"""Limits, friction and springs of a joint."""

import math
from typing import TypeAlias

from tiburon.errors import ModelError
from tiburon.model.value_checks import per_dof
from tiburon.record import record

PerDof: TypeAlias = float | tuple[float, ...]
"""One value for all degrees of freedom of a joint, or one each."""


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

    def __post_init__(self) -> None:
        for quantity, least in [
            ("lower", -math.inf),
            ("upper", -math.inf),
            ("velocity", 0.0),
            ("force", 0.0),
        ]:
            given = getattr(self, quantity)
            value = per_dof(given, "joint limits", quantity, least=least, infinite=True)
            object.__setattr__(self, quantity, value)
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
        for quantity in ("damping", "friction", "stiffness"):
            value = per_dof(getattr(self, quantity), "joint passive", quantity, least=0.0)
            object.__setattr__(self, quantity, value)
        object.__setattr__(self, "rest", per_dof(self.rest, "joint passive", "rest"))
