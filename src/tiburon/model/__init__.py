"""What a robot is, by name: bodies, joints, frames, and the world around them."""

from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.denavit_hartenberg import DHLink
from tiburon.model.inertia import Inertia
from tiburon.model.joints import (
    Cylindrical,
    Fixed,
    Free,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    RollingSphere,
    Screw,
    Spherical,
    Universal,
)
from tiburon.model.model import Model
from tiburon.model.plan import Plan, PlanBody, PlanFrame
from tiburon.model.pose import Pose
from tiburon.model.world import World

__all__ = [
    "WORLD",
    "Body",
    "Cylindrical",
    "DHLink",
    "Fixed",
    "Frame",
    "Free",
    "Inertia",
    "Joint",
    "Model",
    "Plan",
    "PlanBody",
    "PlanFrame",
    "Planar",
    "Pose",
    "Prismatic",
    "Revolute",
    "RollingSphere",
    "Screw",
    "Spherical",
    "Universal",
    "World",
]
