"""Motors and the joints they drive."""

import math

from tiburon.errors import ModelError, shown
from tiburon.model.thruster import limit_pair
from tiburon.model.value_checks import check_name, number
from tiburon.record import record


@record
class Motor:
    """Parameters of a direct-current motor (Nahon 1991, eqs. 6.44 to 6.47).

    voltage = R i + L di/dt + B w and K i = J dw/dt + c w + sign(w) f + load, all at the motor's own
    shaft. Torque and back-EMF constants are equal in SI units, unless the manufacturer states
    otherwise.
    """

    resistance: float
    """R [ohm]."""

    torque_constant: float
    """K [N m/A]."""

    back_emf_constant: float | None = None
    """B [V s/rad]; that of `torque_constant` if None."""

    inductance: float = 0.0
    """L [H]."""

    damping: float = 0.0
    """c, viscous friction at the shaft [N m s/rad]."""

    friction: float = 0.0
    """f, Coulomb friction at the shaft [N m]."""

    brush_drop: float = 0.0
    """Voltage lost at the brushes [V]."""

    voltage_limit: float = math.inf
    """Largest voltage in either direction [V]."""

    current_limit: float = math.inf
    """Largest current in either direction [A]."""

    def __post_init__(self) -> None:
        element = "motor"
        for quantity in ("resistance", "inductance", "damping", "friction", "brush_drop"):
            value = number(getattr(self, quantity), element, quantity, least=0.0)
            object.__setattr__(self, quantity, value)
        for quantity in ("torque_constant", "back_emf_constant"):
            if getattr(self, quantity) is not None:
                value = number(getattr(self, quantity), element, quantity)
                object.__setattr__(self, quantity, value)
        for quantity in ("voltage_limit", "current_limit"):
            given = getattr(self, quantity)
            value = number(given, element, quantity, least=0.0, infinite=True)
            object.__setattr__(self, quantity, value)


@record
class Actuator:
    """An actuator of a joint; immutable, compares by value.

    `rotor_inertia` is data of the motor. Dynamics uses the joint's `armature` (ratio squared times
    the rotor inertia), or a `rotor` body.

    Example:
        ``Actuator("elbow motor", "elbow", ratio=100, rotor_inertia=2e-4, force_limits=(-60, 60))``
    """

    name: str
    """Unique among the actuators of a model."""

    joint: str
    """Name of the joint it drives."""

    ratio: float = 1.0
    """Gear ratio: motor angle per joint angle (or displacement); signed."""

    force_limits: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest force at the joint [N m or N]."""

    speed_limit: float = math.inf
    """Largest joint speed in either direction [rad/s or m/s]."""

    rotor_inertia: float = 0.0
    """Inertia of the rotor about its own axis, before the gear [kg m^2]."""

    motor: Motor | None = None
    """Electrical parameters, where known."""

    def __post_init__(self) -> None:
        check_name(self.name, "actuator")
        element = f"actuator {self.name!r}"
        check_name(self.joint, f"{element}: joint")
        object.__setattr__(self, "ratio", number(self.ratio, element, "ratio", self.name))
        if self.ratio == 0.0:
            raise ModelError(
                f"{element}: ratio must not be zero, got 0; use 1 for a motor without a gear",
                name=self.name,
            )
        pair = limit_pair(self.force_limits, element, "force_limits", self.name)
        object.__setattr__(self, "force_limits", pair)
        for quantity, infinite in [("speed_limit", True), ("rotor_inertia", False)]:
            given = getattr(self, quantity)
            value = number(given, element, quantity, self.name, least=0.0, infinite=infinite)
            object.__setattr__(self, quantity, value)
        motor: object = self.motor
        if motor is not None and not isinstance(motor, Motor):
            raise ModelError(
                f"{element}: motor must be a Motor, "
                f"got {shown(motor)}; write Motor(resistance=..., "
                "torque_constant=...)",
                name=self.name,
            )
