"""What a robot is, by name: bodies, joints, frames, and the world around them."""

from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.conversions import (
    JointNumbers,
    from_fossen,
    from_mujoco,
    from_pinocchio,
    matrix_from_fossen,
    matrix_to_fossen,
    motion_from_mujoco,
    motion_to_mujoco,
    six_vector_from_fossen,
    six_vector_from_pinocchio,
    six_vector_to_fossen,
    six_vector_to_pinocchio,
    to_fossen,
    to_mujoco,
    to_pinocchio,
    wrench_from_mujoco,
    wrench_to_mujoco,
)
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
    "JointNumbers",
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
    "from_fossen",
    "from_mujoco",
    "from_pinocchio",
    "matrix_from_fossen",
    "matrix_to_fossen",
    "motion_from_mujoco",
    "motion_to_mujoco",
    "six_vector_from_fossen",
    "six_vector_from_pinocchio",
    "six_vector_to_fossen",
    "six_vector_to_pinocchio",
    "to_fossen",
    "to_mujoco",
    "to_pinocchio",
    "wrench_from_mujoco",
    "wrench_to_mujoco",
]
