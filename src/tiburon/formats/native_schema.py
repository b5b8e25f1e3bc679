"""Schema of the native format: the table of a file for each class of a model.

Reader and writer share these records, so that written files can be read. Keys of a file are the
names of the fields unless a record renames them; default values are omitted.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any

from tiburon.model.actuator import Motor, Servo
from tiburon.model.attachments import (
    Cable,
    HydraulicCylinder,
    LinearThrust,
    QuadraticThrust,
    Spring,
    TableThrust,
)
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    MeshShape,
    PlaneShape,
    SphereShape,
)
from tiburon.model.body_fluid import (
    BoxDrag,
    CylinderDrag,
    EllipsoidDrag,
    Fin,
    SphereDrag,
    TableFoil,
    ThinFoil,
)
from tiburon.model.closure_kinds import Blade, RollingDisc, TendonCoupling
from tiburon.model.inertia import Inertia
from tiburon.model.joints import (
    Coupled,
    Cylindrical,
    Driven,
    Fixed,
    Free,
    Harmonic,
    Planar,
    Polynomial,
    Prismatic,
    Revolute,
    RollingSphere,
    Screw,
    Spherical,
    Universal,
)
from tiburon.model.joints.joint import JointLimits, JointPassive

FORMAT = "tiburon-model"
"""Value of the key "format"."""

VERSION = 1
"""Version of the schema; files of later versions raise an error."""


@dataclass(frozen=True)
class Record:
    """Mapping of the fields of a class to a table."""

    make: type
    """The class."""

    numbers: tuple[str, ...] = ()
    """Numeric fields, scalars or lists."""

    texts: tuple[str, ...] = ()
    """Fields that are strings."""

    placed: bool = False
    """Whether there is a pose, written as position and rotation."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Keys by field, where they differ."""

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Default values by field; fields without a default are required."""
        return {item.name: item.default for item in fields(self.make)}

    def key(self, name: str) -> str:
        """Return the key of a field."""
        return self.renamed.get(name, name)

    def required(self, name: str) -> bool:
        """Return whether a field is required."""
        item = next(item for item in fields(self.make) if item.name == name)
        return item.default is MISSING and item.default_factory is MISSING


INERTIA = Record(Inertia, ("mass", "com", "tensor"), renamed={"com": "center_of_mass"})
LIMITS = Record(JointLimits, ("lower", "upper", "velocity", "force", "restitution"))
PASSIVE = Record(JointPassive, ("damping", "friction", "stiffness", "rest"))
MOTOR = Record(
    Motor,
    (
        "resistance",
        "torque_constant",
        "back_emf_constant",
        "inductance",
        "damping",
        "friction",
        "brush_drop",
        "voltage_limit",
        "current_limit",
    ),
)

JOINTS = {
    "revolute": Record(Revolute, ("axis", "offset")),
    "prismatic": Record(Prismatic, ("axis", "offset")),
    "screw": Record(Screw, ("axis", "offset", "pitch", "lead")),
    "cylindrical": Record(Cylindrical, ("axis",)),
    "universal": Record(Universal, ("axis", "second_axis")),
    "spherical": Record(Spherical),
    "planar": Record(Planar, ("axis",)),
    "free": Record(Free),
    "fixed": Record(Fixed),
    "rolling_sphere": Record(RollingSphere, ("radius",)),
    "coupled": Record(Coupled, ("ratio", "offset"), ("leader",)),
    "driven": Record(Driven),
}
"""Joints by kind; name, pose, limits and friction are common to all."""

LOOPS = {
    "blade": Record(Blade, (), ("name", "first", "second")),
    "rolling_disc": Record(RollingDisc, ("radius", "axis"), ("name", "first", "second")),
    "tendon": Record(TendonCoupling, ("arms", "leader_arms", "coefficients"), ("name",)),
}
"""Closures other than joints by kind; poses and lists of names are added."""

PATHS = {
    "harmonic": Record(Harmonic, ("amplitude", "frequency", "phase", "mean")),
    "polynomial": Record(Polynomial, ("coefficients",)),
}

GEOMETRIES = {
    "box": Record(BoxShape, ("size",)),
    "sphere": Record(SphereShape, ("radius",)),
    "cylinder": Record(CylinderShape, ("radius", "length")),
    "capsule": Record(CapsuleShape, ("radius", "length")),
    "ellipsoid": Record(EllipsoidShape, ("radii",)),
    "plane": Record(PlaneShape),
    "mesh": Record(MeshShape, ("scale",), ("path",)),
}

DRAGS = {
    "cylinder": Record(
        CylinderDrag, ("radius", "length", "start", "axis", "side_coefficient", "end_coefficients")
    ),
    "box": Record(BoxDrag, ("size", "coefficients"), placed=True),
    "ellipsoid": Record(EllipsoidDrag, ("radii", "coefficients"), placed=True),
    "sphere": Record(SphereDrag, ("radius", "coefficient", "center")),
}

FIN = Record(
    Fin, ("area", "aspect_ratio", "position", "span", "chord", "deflection"), texts=("name",)
)

FOILS = {
    "thin": Record(
        ThinFoil, ("lift_slope", "drag_coefficient", "efficiency", "stall", "plate_coefficient")
    ),
    "table": Record(TableFoil, ("angles", "lift", "drag")),
}

CURVES = {
    "linear": Record(LinearThrust, ("gain", "dead_band")),
    "quadratic": Record(QuadraticThrust, ("forward", "backward", "dead_band")),
    "table": Record(TableThrust, ("commands", "forces")),
}

THRUSTER = ("position", "direction", "time_constant", "torque_ratio")
"""Numeric fields of a thruster, except limits."""

PAIRS = ("command_limits", "thrust_limits")
"""Limits of a thruster, pairs of numbers."""

ACTUATOR = ("ratio", "force_limits", "speed_limit", "rotor_inertia")
"""Numeric fields of an actuator."""

SERVO = Record(Servo, ("stiffness", "damping", "gain", "bias", "command_limits"))
"""Feedback of an actuator; the table "set_points" is added."""

SPRING = Record(
    Spring,
    ("stiffness", "damping", "rest_length", "first_point", "second_point"),
    ("name", "first", "second"),
)
"""A spring; the boolean "rope" is added."""

CABLE = Record(
    Cable, ("first_point", "second_point", "tension_limits"), ("name", "first", "second")
)

CYLINDER = Record(
    HydraulicCylinder,
    (
        "cap_area",
        "rod_area",
        "stroke",
        "retracted_length",
        "supply_pressure",
        "tank_pressure",
        "valve_gain",
        "valve_time",
        "bulk_modulus",
        "dead_volume",
        "leakage",
        "damping",
        "relief_pressure",
        "first_point",
        "second_point",
    ),
    ("name", "first", "second", "joint"),
)

DAMPINGS = ("linear_damping", "quadratic_damping")
"""Damping matrices of a submerged body."""

ANY_FLUID = "any"
"""Reference density of matrices that do not scale with density."""


def kind_of(records: Mapping[str, Record], value: object) -> str | None:
    """Return the kind of a value; None if the format does not support it."""
    for word, record in records.items():
        # subclasses are user code, which a file cannot contain
        if type(value) is record.make:
            return word
    return None
