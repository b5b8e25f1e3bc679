"""Joint kinds, one file each, all answering the same few questions (see `Joint`)."""

from tiburon.model.joints.fixed import Fixed
from tiburon.model.joints.free import Free
from tiburon.model.joints.joint import Carry, Joint
from tiburon.model.joints.prismatic import Prismatic
from tiburon.model.joints.revolute import Revolute

__all__ = ["Carry", "Fixed", "Free", "Joint", "Prismatic", "Revolute"]
