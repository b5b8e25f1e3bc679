"""Joint types, by family, with the common interface `Joint`."""

from typing import TYPE_CHECKING

from tiburon.lazy import load_on_use
from tiburon.model.joints.axial import Prismatic, Revolute, Screw
from tiburon.model.joints.coupled import Coupled
from tiburon.model.joints.joint import Fixed, Joint
from tiburon.model.joints.quaternion import Free, RollingSphere, Spherical

if TYPE_CHECKING:
    from tiburon.model.joints.driven import Driven, Harmonic, Path, Polynomial
    from tiburon.model.joints.multi_axis import Cylindrical, Planar, Universal
else:
    __getattr__ = load_on_use(
        globals(),
        {
            "tiburon.model.joints.driven": ("Driven", "Harmonic", "Path", "Polynomial"),
            "tiburon.model.joints.multi_axis": ("Cylindrical", "Planar", "Universal"),
        },
    )

__all__ = [
    "Coupled",
    "Cylindrical",
    "Driven",
    "Fixed",
    "Free",
    "Harmonic",
    "Joint",
    "Path",
    "Planar",
    "Polynomial",
    "Prismatic",
    "Revolute",
    "RollingSphere",
    "Screw",
    "Spherical",
    "Universal",
]
