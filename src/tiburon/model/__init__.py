"""Robot models: bodies, joints, frames, loops, actuators, and the world around them."""

from typing import TYPE_CHECKING

from tiburon.lazy import load_on_use
from tiburon.model.actuator import Actuator, Motor
from tiburon.model.body import WORLD, Body, ContactPoint, Frame
from tiburon.model.body_fluid import (
    BodyFluid,
    BoxDrag,
    CylinderDrag,
    EllipsoidDrag,
    SphereDrag,
    added_mass_from,
)
from tiburon.model.closure import JointCoupling, LoopClosure
from tiburon.model.fin import Fin, TableFoil, ThinFoil
from tiburon.model.inertia import Inertia
from tiburon.model.joint_actuation import JointActuation, actuation_report, joint_actuation
from tiburon.model.joint_properties import JointLimits, JointPassive
from tiburon.model.joints import Coupled, Fixed, Free, Joint, Prismatic, Revolute
from tiburon.model.model import Model
from tiburon.model.plan import Plan, PlanBody, PlanFrame
from tiburon.model.pose import Pose
from tiburon.model.rotor import rotor
from tiburon.model.shape import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    MeshShape,
    PlaneShape,
    Shape,
    SphereShape,
)
from tiburon.model.thruster import LinearThrust, QuadraticThrust, TableThrust, Thruster
from tiburon.model.traced_closure import TracedClosure
from tiburon.model.water import Water
from tiburon.model.world import Ground, GroundGrid, World

if TYPE_CHECKING:
    from tiburon.model.constraint_function import ConstraintFunction
    from tiburon.model.conversions import (
        JointValues,
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
    from tiburon.model.joints import (
        Cylindrical,
        Driven,
        Harmonic,
        Path,
        Planar,
        Polynomial,
        RollingSphere,
        Screw,
        Spherical,
        Universal,
    )
    from tiburon.model.surface_contact import Blade, RollingDisc
    from tiburon.model.tendon_coupling import TendonCoupling
else:
    __getattr__ = load_on_use(
        globals(),
        {
            "tiburon.model.surface_contact": ("Blade", "RollingDisc"),
            "tiburon.model.constraint_function": ("ConstraintFunction",),
            "tiburon.model.conversions": (
                "JointValues",
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
            ),
            "tiburon.model.denavit_hartenberg": ("DHLink",),
            "tiburon.model.joints": (
                "Cylindrical",
                "Driven",
                "Harmonic",
                "Path",
                "Planar",
                "Polynomial",
                "RollingSphere",
                "Screw",
                "Spherical",
                "Universal",
            ),
            "tiburon.model.tendon_coupling": ("TendonCoupling",),
        },
    )

__all__ = [
    "WORLD",
    "Actuator",
    "Blade",
    "Body",
    "BodyFluid",
    "BoxDrag",
    "BoxShape",
    "CapsuleShape",
    "ConstraintFunction",
    "ContactPoint",
    "Coupled",
    "CylinderDrag",
    "CylinderShape",
    "Cylindrical",
    "DHLink",
    "Driven",
    "EllipsoidDrag",
    "EllipsoidShape",
    "Fin",
    "Fixed",
    "Frame",
    "Free",
    "Ground",
    "GroundGrid",
    "Harmonic",
    "Inertia",
    "Joint",
    "JointActuation",
    "JointCoupling",
    "JointLimits",
    "JointPassive",
    "JointValues",
    "LinearThrust",
    "LoopClosure",
    "MeshShape",
    "Model",
    "Motor",
    "Path",
    "Plan",
    "PlanBody",
    "PlanFrame",
    "Planar",
    "PlaneShape",
    "Polynomial",
    "Pose",
    "Prismatic",
    "QuadraticThrust",
    "Revolute",
    "RollingDisc",
    "RollingSphere",
    "Screw",
    "Shape",
    "SphereDrag",
    "SphereShape",
    "Spherical",
    "TableFoil",
    "TableThrust",
    "TendonCoupling",
    "ThinFoil",
    "Thruster",
    "TracedClosure",
    "Universal",
    "Water",
    "World",
    "actuation_report",
    "added_mass_from",
    "from_fossen",
    "from_mujoco",
    "from_pinocchio",
    "joint_actuation",
    "matrix_from_fossen",
    "matrix_to_fossen",
    "motion_from_mujoco",
    "motion_to_mujoco",
    "rotor",
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
