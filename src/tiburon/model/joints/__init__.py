"""Joint types, one file each, with the common interface `Joint`."""

from typing import TYPE_CHECKING

from tiburon.lazy import load_on_use
from tiburon.model.joints.coupled import Coupled
from tiburon.model.joints.fixed import Fixed
from tiburon.model.joints.free import Free
from tiburon.model.joints.joint import Carry, Joint
from tiburon.model.joints.prismatic import Prismatic
from tiburon.model.joints.revolute import Revolute

if TYPE_CHECKING:
    from tiburon.model.joints.cylindrical import Cylindrical
    from tiburon.model.joints.driven import Driven
    from tiburon.model.joints.path import Harmonic, Path, Polynomial
    from tiburon.model.joints.planar import Planar
    from tiburon.model.joints.rolling_sphere import RollingSphere
    from tiburon.model.joints.screw import Screw
    from tiburon.model.joints.spherical import Spherical
    from tiburon.model.joints.universal import Universal
else:
    __getattr__ = load_on_use(
        globals(),
        {
            "tiburon.model.joints.cylindrical": ("Cylindrical",),
            "tiburon.model.joints.driven": ("Driven",),
            "tiburon.model.joints.path": (
                "Harmonic",
                "Path",
                "Polynomial",
            ),
            "tiburon.model.joints.planar": ("Planar",),
            "tiburon.model.joints.rolling_sphere": ("RollingSphere",),
            "tiburon.model.joints.screw": ("Screw",),
            "tiburon.model.joints.spherical": ("Spherical",),
            "tiburon.model.joints.universal": ("Universal",),
        },
    )

__all__ = [
    "Carry",
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
