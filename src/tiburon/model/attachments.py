"""Springs, cables, hydraulic cylinders and thrusters: attachments of bodies and joints."""

import math
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.value_checks import (
    Vec3,
    check_name,
    convert,
    finite_array,
    limit_pair,
    number,
    unit_vector,
    vec3,
)
from tiburon.record import field, record


@record
class Spring:
    """A spring with a damper between two points; immutable, compares by value.

    Its tension is stiffness times (length - rest_length) plus damping times the rate of length; a
    rope has no negative tension. Simulations apply its force; dynamics functions do not.

    Example:
        ``Spring("coil", "world", "slider", stiffness=8e5, damping=4e4, rest_length=0.5)``
    """

    name: str
    """Unique among the springs of a model."""

    first: str
    """Name of the body or frame at one end, or "world"."""

    second: str
    """Name of the body or frame at the other end, or "world"."""

    stiffness: float = 0.0
    """Force per length [N/m]."""

    damping: float = 0.0
    """Force per speed [N s/m]."""

    rest_length: float = 0.0
    """Rest length [m]."""

    first_point: Vec3 = (0.0, 0.0, 0.0)
    """The end in axes of the first frame [m]."""

    second_point: Vec3 = (0.0, 0.0, 0.0)
    """The end in axes of the second frame [m]."""

    rope: bool = False
    """Whether it can only pull: slack below its rest length."""

    def __post_init__(self) -> None:
        check_name(self.name, "spring")
        element = f"spring {self.name!r}"
        check_two_ends(element, self.name, self.first, self.second)
        quantities = ("stiffness", "damping", "rest_length")
        convert(self, number, element, *quantities, name=self.name, least=0.0)
        convert(self, vec3, element, "first_point", "second_point", name=self.name)
        given: object = self.rope
        if not isinstance(given, bool):
            raise ModelError(
                f"{element}: rope must be True or False, got {shown(given)}", name=self.name
            )


def check_two_ends(element: str, name: str, first: object, second: object) -> None:
    """Raise an error unless two ends are names of different frames."""
    for end, given in (("first", first), ("second", second)):
        check_name(given, f"{element}: {end}")
    if first == second:
        raise ModelError(
            f"{element}: its ends must be on two bodies or frames, got {first!r} twice; name the "
            "other one",
            name=name,
        )


@record
class Cable:
    """A cable that a winch winds up, between two points; immutable, compares by value.

    It has no mass, runs straight, and pulls its ends toward each other with the tension that its
    winch is commanded. Cable-driven robots hang on several of them; `LoadSharing` finds tensions
    that produce a motion.

    Example:
        ``Cable("cable_1", "world", "platform", (2, 2, 3), (0.1, 0.1, 0.0), (10.0, 800.0))``
    """

    name: str
    """Unique among the cables of a model."""

    first: str
    """Name of the body or frame at one end, such as that of the winch, or "world"."""

    second: str
    """Name of the body or frame at the other end."""

    first_point: Vec3 = (0.0, 0.0, 0.0)
    """The end in axes of the first frame [m]: where the cable leaves its last pulley."""

    second_point: Vec3 = (0.0, 0.0, 0.0)
    """The end in axes of the second frame [m]."""

    tension_limits: tuple[float, float] = (0.0, math.inf)
    """Smallest and largest tension [N]; the smallest keeps it from sagging."""

    def __post_init__(self) -> None:
        check_name(self.name, "cable")
        element = f"cable {self.name!r}"
        check_two_ends(element, self.name, self.first, self.second)
        convert(self, vec3, element, "first_point", "second_point", name=self.name)
        pair = limit_pair(self.tension_limits, element, "tension_limits", self.name)
        if pair[0] < 0.0:
            raise ModelError(
                f"{element}: tension_limits must be at least 0, got {pair[0]:g} N; a cable only "
                "pulls",
                name=self.name,
            )
        object.__setattr__(self, "tension_limits", pair)


@record
class HydraulicCylinder:
    """A hydraulic cylinder with two chambers and its valve; data only.

    It acts between two points, whose distance grows as it extends, or at a joint with one degree of
    freedom: then the areas are volumes per motion of the joint [m^2, or m^3/rad], and its position
    counts as extension. The command is the opening of the valve, from -1 (retract) to 1 (extend).

    Example:
        A cylinder of 40 mm bore and 25 mm rod on a boom::

            HydraulicCylinder("lift", first="base", second="boom", cap_area=1.257e-3,
                              rod_area=7.66e-4, stroke=0.3, retracted_length=0.5,
                              supply_pressure=16e6, valve_gain=3e-7)
    """

    name: str
    """Unique among the cylinders of a model."""

    first: str | None = None
    """Name of the body or frame at one end, or "world"; None at a joint."""

    second: str | None = None
    """Name of the body or frame at the other end."""

    joint: str | None = None
    """Name of the joint it drives, instead of two ends."""

    cap_area: float = 1e-3
    """Area of the piston on the side whose pressure extends it [m^2]."""

    rod_area: float = 1e-3
    """Area on the side whose pressure retracts it [m^2]; equal to the other for two rods."""

    stroke: float = 0.5
    """Stroke [m or rad]."""

    retracted_length: float = 0.0
    """Distance of the ends, or position of the joint, when fully retracted [m or rad]."""

    supply_pressure: float = 16e6
    """Supply pressure of the pump [Pa]."""

    tank_pressure: float = 0.0
    """Pressure of the tank [Pa]."""

    valve_gain: float = 1e-7
    """Flow through the fully open valve per root of pressure difference [m^3/s/sqrt(Pa)]."""

    valve_time: float = 0.0
    """Time constant of the valve [s]; 0 for an ideal valve."""

    bulk_modulus: float = 1.4e9
    """Effective bulk modulus of oil, lines and walls [Pa]."""

    dead_volume: float = 5e-5
    """Dead volume of each chamber and its line [m^3]."""

    leakage: float = 0.0
    """Leakage past the piston per pressure difference [m^3/s/Pa]."""

    damping: float = 0.0
    """Viscous friction of seals [N s/m or N m s/rad]."""

    relief_pressure: float | None = None
    """Pressure at which a chamber opens to the tank [Pa]; 1.25 of the supply if None."""

    first_point: Vec3 = (0.0, 0.0, 0.0)
    """The end in axes of the first frame [m]."""

    second_point: Vec3 = (0.0, 0.0, 0.0)
    """The end in axes of the second frame [m]."""

    def __post_init__(self) -> None:
        check_name(self.name, "hydraulic cylinder")
        element = f"hydraulic cylinder {self.name!r}"
        if self.joint is not None:
            check_name(self.joint, f"{element}: joint")
            if self.first is not None or self.second is not None:
                raise ModelError(
                    f"{element}: it acts between first and second or at a joint, got both; leave "
                    "one out",
                    name=self.name,
                )
        else:
            check_two_ends(element, self.name, self.first, self.second)
        positive = ("cap_area", "rod_area", "stroke", "bulk_modulus", "dead_volume")
        for quantity in (*positive, "valve_gain", "valve_time", "leakage", "damping"):
            value = number(getattr(self, quantity), element, quantity, self.name, least=0.0)
            if value == 0.0 and quantity in positive:
                raise ModelError(
                    f"{element}: {quantity} must be positive, got 0; check its unit", name=self.name
                )
            object.__setattr__(self, quantity, value)
        quantities = ("retracted_length", "supply_pressure", "tank_pressure")
        convert(self, number, element, *quantities, name=self.name)
        if self.supply_pressure <= max(self.tank_pressure, 0.0):
            raise ModelError(
                f"{element}: supply_pressure must be positive and above tank_pressure, got "
                f"{self.supply_pressure:g} and {self.tank_pressure:g} Pa; check their unit",
                name=self.name,
            )
        relief = self.relief_pressure
        relief = 1.25 * self.supply_pressure if relief is None else relief
        relief = number(relief, element, "relief_pressure", self.name, infinite=True)
        if relief < self.supply_pressure or math.isinf(relief):
            raise ModelError(
                f"{element}: relief_pressure must be finite and at least supply_pressure, got "
                f"{relief:g} Pa; a relief valve must not open below the supply pressure",
                name=self.name,
            )
        object.__setattr__(self, "relief_pressure", relief)
        convert(self, vec3, element, "first_point", "second_point", name=self.name)


@record
class LinearThrust:
    """Thrust proportional to the command."""

    gain: float = 1.0
    """Thrust per unit of command [N]; 1 if the command is the thrust itself."""

    dead_band: tuple[float, float] = (0.0, 0.0)
    """Dead band: commands within give no thrust; others count from the nearer edge."""

    def __post_init__(self) -> None:
        convert(self, number, "linear thrust", "gain")
        convert(self, _dead_band, "linear thrust", "dead_band")


@record
class QuadraticThrust:
    """Thrust c u|u| of a propeller at speed u; c may differ between directions."""

    forward: float
    """c for commands u > 0 [N per squared unit of command]."""

    backward: float | None = None
    """c for commands u < 0; that of `forward` if None."""

    dead_band: tuple[float, float] = (0.0, 0.0)
    """Dead band: commands within give no thrust; others count from the nearer edge."""

    def __post_init__(self) -> None:
        element = "quadratic thrust"
        given = ("forward",) if self.backward is None else ("forward", "backward")
        convert(self, number, element, *given)
        convert(self, _dead_band, element, "dead_band")


@record
class TableThrust:
    """Thrust from a table, interpolated linearly, constant beyond its ends."""

    commands: tuple[float, ...]
    """Commands, increasing."""

    forces: tuple[float, ...]
    """Thrust at each command [N]."""

    def __post_init__(self) -> None:
        element = "table thrust"
        for quantity in ("commands", "forces"):
            given = getattr(self, quantity)
            count = np.size(given)
            value = finite_array(given, (count,), element, quantity).tolist()
            object.__setattr__(self, quantity, tuple(value))
        if len(self.commands) != len(self.forces) or len(self.commands) < 2:
            raise ModelError(
                f"{element}: commands and forces must have equal length, at least two, got "
                f"{len(self.commands)} and {len(self.forces)}; complete the rows"
            )
        if not all(a < b for a, b in pairwise(self.commands)):
            raise ModelError(
                f"{element}: commands must increase, got {list(self.commands)}; sort the rows"
            )


ThrustCurve: TypeAlias = LinearThrust | QuadraticThrust | TableThrust


@record
class Thruster:
    """A propeller or jet on a body; immutable, compares by value.

    Example:
        ``Thruster("port", "hull", (-0.5, 0.2, 0), (1, 0, 0), QuadraticThrust(0.02))``
    """

    name: str
    """Unique among the thrusters of a model."""

    body: str
    """Name of the body or frame it is fixed to."""

    position: Vec3 = (0.0, 0.0, 0.0)
    """Point of force, in axes of that body or frame [m]."""

    direction: Vec3 = (1.0, 0.0, 0.0)
    """Unit vector of the force on the body at positive thrust, same axes."""

    curve: ThrustCurve = field(default_factory=LinearThrust)
    """Thrust for a command."""

    time_constant: float = 0.0
    """Time constant of the first-order lag [s]; 0 for none."""

    torque_ratio: float = 0.0
    """Reaction torque about `direction` per thrust [m]; signed."""

    command_limits: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest command."""

    thrust_limits: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest thrust [N]."""

    def __post_init__(self) -> None:
        check_name(self.name, "thruster")
        element = f"thruster {self.name!r}"
        check_name(self.body, f"{element}: body")
        convert(self, vec3, element, "position", name=self.name)
        convert(self, unit_vector, element, "direction", name=self.name)
        given: object = self.curve
        if not isinstance(given, ThrustCurve):
            raise ModelError(
                f"{element}: curve must be LinearThrust(...), QuadraticThrust(...) or "
                f"TableThrust(...), got {shown(given)}",
                name=self.name,
            )
        convert(self, number, element, "time_constant", name=self.name, least=0.0)
        convert(self, number, element, "torque_ratio", name=self.name)
        convert(self, limit_pair, element, "command_limits", "thrust_limits", name=self.name)


def _dead_band(value: object, element: str, quantity: str) -> tuple[float, float]:
    low, high = limit_pair(value, element, quantity)
    if not low <= 0.0 <= high:
        raise ModelError(
            f"{element}: dead_band must contain zero, got {low:g} to {high:g}; give its lower edge "
            "first"
        )
    return low, high
