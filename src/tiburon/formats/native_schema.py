"""The native format: which table of a file holds which data of a model.

Reader and writer share these records, so that what is written can be read. Keys of a file are the
names of the fields, unless a record says otherwise; values equal to the default are left out.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any

from tiburon.model.attachments import (
    HydraulicCylinder,
    LinearThrust,
    Motor,
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
"""What the first key of a file says."""

VERSION = 1
"""Version of the schema; files of later versions are refused."""


@dataclass(frozen=True)
class Record:
    """How the data of one class stands in a table."""

    make: type
    """The class."""

    numbers: tuple[str, ...] = ()
    """Fields that are numbers or lists of numbers."""

    texts: tuple[str, ...] = ()
    """Fields that are strings."""

    placed: bool = False
    """Whether it has a pose, written as position and rotation."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Keys in files by field, where they differ."""

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Default values by field; fields without one must be given."""
        return {item.name: item.default for item in fields(self.make)}

    def key(self, name: str) -> str:
        """Return the key of a field."""
        return self.renamed.get(name, name)

    def required(self, name: str) -> bool:
        """Whether a field must be given."""
        item = next(item for item in fields(self.make) if item.name == name)
        return item.default is MISSING and item.default_factory is MISSING


INERTIA = Record(Inertia, ("mass", "com", "tensor"), renamed={"com": "center_of_mass"})
LIMITS = Record(JointLimits, ("lower", "upper", "velocity", "force"))
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
"""Joints by the word for their kind; name, place and data beside these are common to all."""

LOOPS = {
    "blade": Record(Blade, (), ("name", "first", "second")),
    "rolling_disc": Record(RollingDisc, ("radius", "axis"), ("name", "first", "second")),
    "tendon": Record(TendonCoupling, ("arms", "leader_arms", "coefficients"), ("name",)),
}
"""Closures that no joint makes, by the word for their kind; poses and lists of names are beside."""

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
        CylinderDrag,
        ("radius", "length", "start", "axis", "side_coefficient", "end_coefficients"),
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
"""Fields of a thruster that are numbers, beside its limits."""

PAIRS = ("command_limits", "thrust_limits")
"""Limits of a thruster: two numbers each."""

ACTUATOR = ("ratio", "force_limits", "speed_limit", "rotor_inertia")
"""Fields of an actuator that are numbers."""

SPRING = Record(
    Spring,
    ("stiffness", "damping", "rest_length", "first_point", "second_point"),
    ("name", "first", "second"),
)
"""A spring; "rope" beside these is true or false."""

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
"""Matrices of a submerged body beside its added mass."""

ANY_FLUID = "any"
"""Reference density of matrices that do not depend on the density of the fluid."""


def word_of(records: Mapping[str, Record], value: object) -> str | None:
    """Return the word for the kind of a value; None if the format has none."""
    for word, record in records.items():
        # subclasses are users' own, with code that no file can hold
        if type(value) is record.make:
            return word
    return None
