"""Robot models: bodies, joints, frames, loops, actuators, and the world around them."""

from tiburon.model.actuator import Actuator, Motor, Servo, rotor
from tiburon.model.attachments import LinearThrust, QuadraticThrust, TableThrust, Thruster
from tiburon.model.body import (
    WORLD,
    Body,
    BoxShape,
    CapsuleShape,
    ContactPair,
    ContactPoint,
    CylinderShape,
    EllipsoidShape,
    Frame,
    MeshShape,
    PlaneShape,
    Shape,
    SphereShape,
)
from tiburon.model.body_fluid import (
    BodyFluid,
    BoxDrag,
    CylinderDrag,
    EllipsoidDrag,
    Fin,
    SphereDrag,
    TableFoil,
    ThinFoil,
    added_mass_from,
)
from tiburon.model.closure import JointCoupling, LoopClosure, TracedClosure
from tiburon.model.inertia import Inertia
from tiburon.model.joint_actuation import JointActuation, actuation_report, joint_actuation
from tiburon.model.joints import Coupled, Fixed, Free, Joint, Prismatic, Revolute
from tiburon.model.joints.joint import JointLimits, JointPassive
from tiburon.model.model import Model
from tiburon.model.plan import Plan, PlanBody, PlanFrame
from tiburon.model.pose import Pose
from tiburon.model.water import Water
from tiburon.model.world import Ground, GroundGrid, GroundPatch, World

__all__ = [
    "WORLD",
    "Actuator",
    "Body",
    "BodyFluid",
    "BoxDrag",
    "BoxShape",
    "CapsuleShape",
    "ContactPair",
    "ContactPoint",
    "Coupled",
    "CylinderDrag",
    "CylinderShape",
    "EllipsoidDrag",
    "EllipsoidShape",
    "Fin",
    "Fixed",
    "Frame",
    "Free",
    "Ground",
    "GroundGrid",
    "GroundPatch",
    "Inertia",
    "Joint",
    "JointActuation",
    "JointCoupling",
    "JointLimits",
    "JointPassive",
    "LinearThrust",
    "LoopClosure",
    "MeshShape",
    "Model",
    "Motor",
    "Plan",
    "PlanBody",
    "PlanFrame",
    "PlaneShape",
    "Pose",
    "Prismatic",
    "QuadraticThrust",
    "Revolute",
    "Servo",
    "Shape",
    "SphereDrag",
    "SphereShape",
    "TableFoil",
    "TableThrust",
    "ThinFoil",
    "Thruster",
    "TracedClosure",
    "Water",
    "World",
    "actuation_report",
    "added_mass_from",
    "joint_actuation",
    "rotor",
]
