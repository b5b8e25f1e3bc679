"""Hydraulic cylinders with their valves."""

import math

from tiburon.errors import ModelError
from tiburon.model.spring import check_two_ends
from tiburon.model.value_checks import Vec3, check_name, number, vec3
from tiburon.record import record


@record
class HydraulicCylinder:
    """A hydraulic cylinder with two chambers and its valve; data only.

    It acts between two points, whose distance grows as it extends, or at a joint with one degree of
    freedom:
    then the areas are volumes per motion of the joint [m^2, or m^3/rad], and its position counts as
    extension. The command is the opening of the valve, from -1 (retract) to 1 (extend).

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
        for quantity in ("retracted_length", "supply_pressure", "tank_pressure"):
            value = number(getattr(self, quantity), element, quantity, self.name)
            object.__setattr__(self, quantity, value)
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
        for quantity in ("first_point", "second_point"):
            value3 = vec3(getattr(self, quantity), element, quantity, self.name)
            object.__setattr__(self, quantity, value3)
