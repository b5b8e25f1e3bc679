"""Joint kinds, one file each, all answering the same few questions (see `Joint`)."""

from tiburon.model.joints.coupled import Coupled
from tiburon.model.joints.cylindrical import Cylindrical
from tiburon.model.joints.driven import Driven
from tiburon.model.joints.fixed import Fixed
from tiburon.model.joints.free import Free
from tiburon.model.joints.joint import Carry, Joint
from tiburon.model.joints.path import Harmonic, Path, Polynomial
from tiburon.model.joints.planar import Planar
from tiburon.model.joints.prismatic import Prismatic
from tiburon.model.joints.revolute import Revolute
from tiburon.model.joints.rolling_sphere import RollingSphere
from tiburon.model.joints.screw import Screw
from tiburon.model.joints.spherical import Spherical
from tiburon.model.joints.universal import Universal

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
