"""What a joint does by itself: friction and springs."""

from tiburon.model.joint_limits import PerFreedom
from tiburon.model.numbers import per_freedom
from tiburon.record import record


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
