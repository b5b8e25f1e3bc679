"""Motors, actuators and rotors of joints.

Symbols (Nahon 1991, eqs. 6.44 to 6.47):
    u       voltage at the terminals [V]
    i, R    current and resistance of the winding [A, ohm]
    K, B    torque per current, voltage per speed [N m/A, V s/rad]
    w, n    speed of the rotor, gear ratio (rotor motion per joint motion)
    c, f    viscous and Coulomb friction at the rotor [N m s/rad, N m]

A supply limits voltage and current. At a steady current the largest torque falls with the speed of
the rotor, because its back-EMF leaves less of the voltage to the winding:

    u = R i + B w + brushes      torque = K i - c w - f sign w
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelError, shown
from tiburon.model.body import Body
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Coupled, Joint, Revolute
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, check_name, convert, finite_array, limit_pair, number
from tiburon.record import record
from tiburon.spatial import Scalar

COMMANDS = FORCE, VOLTAGE = ("force", "voltage")
"""What actuators are commanded by."""

SPEED_FADE_FRACTION = 0.1
"""Fraction of the speed limit over which the driving force of an ideal actuator fades to zero."""


def clipped(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
    """Return x within limits; None for no limit."""
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def supply_limits(
    emf: Scalar, reach: Scalar | None, most: Scalar | None
) -> tuple[Scalar | None, Scalar | None]:
    """Return the smallest and largest voltage that a driver applies [V]; None for no limit.

    Args:
        emf: Back-EMF B w [V].
        reach: Voltage over winding and brushes at the current limit [V]; None without a limit.
        most: Largest voltage in either direction [V]; None without a limit.
    """
    if reach is None:
        return (None, None) if most is None else (-most, most)
    low, high = emf - reach, emf + reach
    if most is None:
        return low, high
    return clipped(low, -most, most), clipped(high, -most, most)


def steady_current(u: Scalar, emf: Scalar, R: Scalar, drop: Scalar | None) -> Scalar:
    """Return the current of a winding after its inductance has settled [A].

    Args:
        u: Voltage at the terminals [V].
        emf: Back-EMF B w [V].
        R: Resistance [ohm].
        drop: Voltage lost at the brushes [V]; None for none.
    """
    left = u - emf
    if drop is not None:
        left = left - clipped(left, -drop, drop)
    return left / R


def voltage_of_torque(
    torque: Scalar, w: Scalar, rubbing: Scalar, R: Scalar, K: Scalar, B: Scalar, drop: Scalar
) -> Scalar:
    """Return the voltage with which a motor gives a torque at its shaft, in the steady state [V].

    Args:
        torque: At the shaft, without what friction takes [N m].
        w: Speed of the rotor [rad/s].
        rubbing: Torque that friction takes [N m].
        R: Resistance [ohm].
        K: Torque per current [N m/A].
        B: Voltage per speed [V s/rad].
        drop: Voltage lost at the brushes [V].
    """
    i = (torque + rubbing) / K
    return R * i + B * w + drop * np.sign(i)


def torque_range(
    w: Scalar,
    R: Scalar,
    K: Scalar,
    B: Scalar,
    c: Scalar,
    f: Scalar,
    drop: Scalar | None,
    most: Scalar | None,
    limit: Scalar | None,
) -> tuple[Scalar, Scalar]:
    """Return the smallest and largest steady torque of a motor at its shaft [N m].

    Args:
        w: Speed of the rotor [rad/s].
        R: Resistance [ohm].
        K: Torque per current [N m/A].
        B: Voltage per speed [V s/rad].
        c: Viscous friction [N m s/rad].
        f: Coulomb friction [N m].
        drop: Voltage lost at the brushes [V]; None for none.
        most: Largest voltage [V]; None for no limit.
        limit: Largest current [A]; None for no limit.
    """
    emf = B * w
    reach = None if limit is None else R * limit + (0.0 if drop is None else drop)
    ends = supply_limits(emf, reach, most)
    rubbing = c * w + f * np.sign(w)
    a, b = (
        side * math.inf if u is None else K * steady_current(u, emf, R, drop) - rubbing
        for u, side in zip(ends, (-1.0, 1.0), strict=True)
    )
    # the torque constant may be negative
    return np.minimum(a, b), np.maximum(a, b)


def speed_fade(v: Scalar, most: Scalar) -> Scalar:
    """Return the share of the force along the motion that is left near a speed limit, 0 to 1.

    Args:
        v: Joint velocity [rad/s or m/s].
        most: Speed limit, same unit.
    """
    return clipped((1.0 - np.abs(v) / most) / SPEED_FADE_FRACTION, 0.0, 1.0)


@public
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
        quantities = ("resistance", "inductance", "damping", "friction", "brush_drop")
        convert(self, number, element, *quantities, least=0.0)
        constants = ("torque_constant", "back_emf_constant")
        convert(self, number, element, *(x for x in constants if getattr(self, x) is not None))
        limits = ("voltage_limit", "current_limit")
        convert(self, number, element, *limits, least=0.0, infinite=True)

    @property
    def back_emf(self) -> float:
        """Voltage per speed [V s/rad], whether given or not."""
        own = self.back_emf_constant
        return self.torque_constant if own is None else own

    @property
    def is_limited(self) -> bool:
        """Whether its voltage or current is limited."""
        return math.isfinite(min(self.voltage_limit, self.current_limit))

    def torque_limits(self, speed: Any) -> tuple[Any, Any]:
        """Return the smallest and largest steady torque at a speed of the shaft [N m].

        Voltage and current limits bound the current, back-EMF and friction take their part.

        Args:
            speed: Speed of the rotor [rad/s], a number or an array of any shape; or traced.

        Raises:
            ModelError: If the motor has limits and no resistance.
        """
        if not self.resistance and self.is_limited:
            raise ModelError(
                "motor: torque limits need a resistance, got 0 ohm; give Motor(resistance=...)"
            )
        most, limit = (
            x if math.isfinite(x) else None for x in (self.voltage_limit, self.current_limit)
        )
        R, K, B = self.resistance, self.torque_constant, self.back_emf
        fixed = (R, K, B, self.damping, self.friction)
        return torque_range(speed, *fixed, self.brush_drop or None, most, limit)


@public
@record
class Servo:
    """Feedback inside an actuator, as of position and velocity servos.

    joint force = gain * command + bias - stiffness * q - damping * v, with the command within
    `command_limits` and the force within the limits of the actuator. By default the command is the
    position that the joint is to take, or its velocity if there is no stiffness.

    Steps of runs that do not resolve a servo take it implicitly, at their end.

    Example:
        ``Actuator("elbow", "elbow", servo=Servo(stiffness=200, damping=10))``
    """

    stiffness: float = 0.0
    """Force per displacement of the joint [N/m or N m/rad]."""

    damping: float = 0.0
    """Force per velocity of the joint [N s/m or N m s/rad]."""

    gain: float | None = None
    """Force per command [N or N m, per unit of the command]; by default the stiffness, or the
    damping without stiffness."""

    bias: float = 0.0
    """Constant force [N or N m]."""

    command_limits: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest command."""

    set_points: Mapping[str, float] | tuple[tuple[str, float], ...] = ()
    """Commands by the name of a pose of the robot: those of runs that start in this pose."""

    def __post_init__(self) -> None:
        element = "servo"
        convert(self, number, element, "stiffness", "damping", least=0.0)
        convert(self, number, element, "bias", *(() if self.gain is None else ("gain",)))
        convert(self, limit_pair, element, "command_limits")
        points: Any = self.set_points
        if not isinstance(points, (Mapping, tuple)):
            raise ModelError(
                f"servo: set_points must be commands by pose, got {shown(points)}; write "
                "set_points={'home': 0.3}"
            )
        pairs = points.items() if isinstance(points, Mapping) else points
        found = tuple((check_name(n, "servo: pose"), number(x, element, n)) for n, x in pairs)
        object.__setattr__(self, "set_points", found)

    @property
    def force_gain(self) -> float:
        """Force per command [N or N m, per unit of the command], whether given or not."""
        return (self.stiffness or self.damping) if self.gain is None else self.gain

    def command_of(self, force: Any, q: Any, v: Any) -> Any:
        """Return the command at which a servo within its limits exerts a force.

        Args:
            force: Joint force [N or N m], a number or an array; or traced.
            q: Joint position [m or rad].
            v: Joint velocity [m/s or rad/s].
        """
        load = self.stiffness * q + self.damping * v
        return (force - self.bias + load) / self.force_gain


@public
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

    command: str | None = None
    """What is commanded: the "force" at the joint [N m or N] or the "voltage" of the motor [V]; by
    default the voltage where there is a motor. The drive of a motor that is commanded by force
    controls the current without lag: the joint gets that force, friction of the motor included,
    as far as voltage and current suffice."""

    servo: Servo | None = None
    """Feedback inside the actuator, whose command is then the set point."""

    def __post_init__(self) -> None:
        check_name(self.name, "actuator")
        element = f"actuator {self.name!r}"
        check_name(self.joint, f"{element}: joint")
        convert(self, number, element, "ratio", name=self.name)
        if self.ratio == 0.0:
            raise ModelError(
                f"{element}: ratio must not be zero, got 0; use 1 for a motor without a gear",
                name=self.name,
            )
        convert(self, limit_pair, element, "force_limits", name=self.name)
        convert(self, number, element, "speed_limit", name=self.name, least=0.0, infinite=True)
        convert(self, number, element, "rotor_inertia", name=self.name, least=0.0)
        motor: object = self.motor
        if motor is not None and not isinstance(motor, Motor):
            raise ModelError(
                f"{element}: motor must be a Motor, got {shown(motor)}; write "
                "Motor(resistance=..., torque_constant=...)",
                name=self.name,
            )
        if self.command not in (*COMMANDS, None):
            raise ModelError(
                f"{element}: command must be 'force', 'voltage' or None, got {shown(self.command)}",
                name=self.name,
            )
        if self.command == VOLTAGE and motor is None:
            raise ModelError(
                f"{element}: a voltage is the command of a motor, got none; give it motor=Motor("
                "...), or command='force'",
                name=self.name,
            )
        servo: object = self.servo
        if servo is not None and not isinstance(servo, Servo):
            raise ModelError(
                f"{element}: servo must be a Servo, got {shown(servo)}; write Servo(stiffness=..., "
                "damping=...)",
                name=self.name,
            )
        if servo is not None and (motor is not None or self.command is not None):
            raise ModelError(
                f"{element}: expected a servo without motor and command, as its command is the set "
                "point; leave motor= and command= out",
                name=self.name,
            )
        if servo is not None and math.isfinite(self.force_limits[0]) != math.isfinite(
            self.force_limits[1]
        ):
            raise ModelError(
                f"{element}: expected two finite force_limits of a servo or none, got "
                f"{self.force_limits}; give both",
                name=self.name,
            )
        if servo is not None and math.isfinite(self.speed_limit):
            raise ModelError(
                f"{element}: speed_limit is for actuators that forces command, got one with a "
                "servo; limit its force_limits or command_limits",
                name=self.name,
            )

    @property
    def takes_force(self) -> bool:
        """Whether its command is a force."""
        return self.servo is None and not self.takes_voltage

    @property
    def takes_voltage(self) -> bool:
        """Whether its command is a voltage, not a force."""
        return self.motor is not None and self.command != FORCE

    def force_limits_at(self, velocity: Any) -> tuple[Any, Any]:
        """Return the smallest and largest force at a joint velocity [N m or N].

        `force_limits`, and within them those of the motor at this speed; if the command is a force,
        that along the motion fades to zero over the last tenth below `speed_limit`, as in
        simulations.

        Args:
            velocity: Joint velocity [rad/s or m/s], a number or an array of any shape; or traced.
        """
        low, high = self.force_limits
        ends: list[Any] = [low, high]
        if self.motor is not None:
            a, b = self.motor.torque_limits(self.ratio * velocity)
            ends = [self.ratio * a, self.ratio * b]
            if self.ratio < 0.0:
                ends.reverse()
            ends = [clipped(end, low, high) for end in ends]
        if self.takes_voltage or not math.isfinite(self.speed_limit):
            return ends[0], ends[1]
        left = speed_fade(velocity, self.speed_limit)
        supplied = self.motor is not None and self.motor.is_limited
        for k, side in enumerate((-1.0, 1.0)):
            if supplied or math.isfinite(self.force_limits[k]):
                ends[k] = np.where(ends[k] * velocity > 0.0, left * ends[k], ends[k])
            else:
                spent = (side * velocity > 0.0) & (left <= 0.0)
                ends[k] = np.where(spent, 0.0, ends[k])
        return ends[0], ends[1]


@public
def rotor(
    name: str,
    housing: str,
    drives: Joint | str,
    *,
    ratio: float,
    inertia: float,
    mass: float,
    axis: Vec3 = (0.0, 0.0, 1.0),
    pose: Pose | None = None,
    transverse: float | None = None,
) -> Body:
    """Build the rotor of a motor as a body of the robot.

    It rotates by `ratio` times the position of the driven joint, relative to the housing. It adds
    its inertia times ratio^2 to the joint, its inertia to the housing, and gyroscopic moments. Its
    mass is that of the rotor alone, which must not be part of the housing's.

    Args:
        name: Name of the body; its joint has the suffix "_spin".
        housing: Name of the body that carries the motor.
        drives: The joint it drives, or its name.
        ratio: Gear ratio, rotor angle per joint angle (or displacement); negative for opposite
            directions.
        inertia: Moment of inertia about its axis [kg m^2].
        mass: Mass [kg].
        axis: Unit axis of the spin, in axes of `pose`.
        pose: Center of the rotor in the housing's frame.
        transverse: Moment of inertia about a transverse axis [kg m^2]; by default half of
            `inertia`, that of a thin disk.

    Returns:
        A body to list in a model.

    Example:
        ``rotor("elbow_rotor", "upper_arm", "elbow", ratio=100, inertia=2e-5, mass=0.1)``
    """
    check_name(name, "rotor")
    element = f"rotor {name!r}"
    check_name(housing, f"{element}: housing")
    if not isinstance(drives, Joint):
        check_name(drives, f"{element}: drives")
    along, across = (
        float(finite_array(value, (), element, what, name))
        for value, what in ((inertia, "inertia"), (transverse or 0.5 * inertia, "transverse"))
    )
    if along <= 0.0 or across < 0.5 * along:
        raise ModelError(
            f"{element}: inertia must be positive and transverse at least half of it, got "
            f"{along:g} and {across:g} kg m^2; no body of revolution has less",
            name=name,
        )
    leader = drives if isinstance(drives, str) else drives.name
    spin = Revolute(f"{name}_spin", axis)
    x, y, z = spin.axis
    # body of revolution: I = across 1 + (along - across) a a^T
    more = along - across
    tensor = (
        across + more * x * x,
        more * x * y,
        more * x * z,
        across + more * y * y,
        more * y * z,
        across + more * z * z,
    )
    joint = Coupled(f"{name}_spin", spin, leader, ratio, pose=pose or Pose())
    return Body(name, housing, joint=joint, inertia=Inertia(mass, (0.0, 0.0, 0.0), tensor))
