"""Robot dynamics on land and under water: written once in Python, run as native code.

Public names are listed in `exports.py` and loaded when first used, so that importing the
package costs next to nothing and never starts the compiler or a plotting library.
"""

from importlib import import_module
from sys import modules as _loaded
from typing import TYPE_CHECKING, Any

from tiburon.exports import EXPORTS as _EXPORTS
from tiburon.lazy import garbage_collection_paused as _garbage_collection_paused
from tiburon.version import installed_version as _installed_version

# the same names for type checkers and editors, which do not run `__getattr__`
if TYPE_CHECKING:
    import tiburon.interfaces.gym as gym  # noqa: F401 - a module, beside the table

    __version__: str
    from tiburon.actuation.contact_models import CompliantContact as CompliantContact
    from tiburon.actuation.contact_models import ContactModel as ContactModel
    from tiburon.actuation.contact_models import DefaultContact as DefaultContact
    from tiburon.actuation.contact_models import ExactContact as ExactContact
    from tiburon.actuation.contact_models import RigidContact as RigidContact
    from tiburon.actuation.defaults import elements_of as elements_of
    from tiburon.actuation.element import Action as Action
    from tiburon.actuation.element import Element as Element
    from tiburon.actuation.element import ElementContext as ElementContext
    from tiburon.actuation.force_function import ForceFunction as ForceFunction
    from tiburon.actuation.joint_stops import JointStop as JointStop
    from tiburon.actuation.joint_stops import JointStops as JointStops
    from tiburon.actuation.loop_switch import LoopSwitch as LoopSwitch
    from tiburon.actuation.schedules import JointForceSchedule as JointForceSchedule
    from tiburon.actuation.schedules import WrenchSchedule as WrenchSchedule
    from tiburon.actuation.stick_slip import StickSlip as StickSlip
    from tiburon.checks.energy_flow import EnergyFlow as EnergyFlow
    from tiburon.checks.energy_flow import energy_flow as energy_flow
    from tiburon.checks.model_check import Finding as Finding
    from tiburon.checks.model_check import ModelCheck as ModelCheck
    from tiburon.checks.model_check import check_model as check_model
    from tiburon.contact.compliant import Touch as Touch
    from tiburon.contact.compliant import hunt_crossley_dissipation as hunt_crossley_dissipation
    from tiburon.contact.covers import cover_mesh as cover_mesh
    from tiburon.contact.covers import cover_meshes as cover_meshes
    from tiburon.control.allocation import ThrusterAllocation as ThrusterAllocation
    from tiburon.control.cable_control import CableControl as CableControl
    from tiburon.control.cartesian_path import CartesianPath as CartesianPath
    from tiburon.control.combined import CombinedControl as CombinedControl
    from tiburon.control.computed_torque import ComputedTorque as ComputedTorque
    from tiburon.control.computed_torque import GravityCompensation as GravityCompensation
    from tiburon.control.joint_path import JointPath as JointPath
    from tiburon.control.load_sharing_control import LoadSharingControl as LoadSharingControl
    from tiburon.control.lqr import LinearQuadraticRegulator as LinearQuadraticRegulator
    from tiburon.control.lqr import lqr as lqr
    from tiburon.control.motion_path import GaitPath as GaitPath
    from tiburon.control.motion_path import MotionPath as MotionPath
    from tiburon.control.pd import PD as PD
    from tiburon.control.pd import PID as PID
    from tiburon.control.replay import Replay as Replay
    from tiburon.control.sensors import ContactSensor as ContactSensor
    from tiburon.control.sensors import DepthSensor as DepthSensor
    from tiburon.control.sensors import ForceTorqueSensor as ForceTorqueSensor
    from tiburon.control.sensors import InertialSensor as InertialSensor
    from tiburon.control.sensors import JointSensor as JointSensor
    from tiburon.control.sensors import PoseSensor as PoseSensor
    from tiburon.control.sensors import VelocityLog as VelocityLog
    from tiburon.control.station_keeping import StationKeeping as StationKeeping
    from tiburon.drive.session import Drive as Drive
    from tiburon.errors import ArgumentError as ArgumentError
    from tiburon.errors import CacheWarning as CacheWarning
    from tiburon.errors import CaseError as CaseError
    from tiburon.errors import CompileError as CompileError
    from tiburon.errors import DomainError as DomainError
    from tiburon.errors import LoopError as LoopError
    from tiburon.errors import MissingExtraError as MissingExtraError
    from tiburon.errors import ModelError as ModelError
    from tiburon.errors import ModelFileError as ModelFileError
    from tiburon.errors import ModelWarning as ModelWarning
    from tiburon.errors import NonFiniteError as NonFiniteError
    from tiburon.errors import OptionError as OptionError
    from tiburon.errors import PartnerError as PartnerError
    from tiburon.errors import RunFileError as RunFileError
    from tiburon.errors import SecondOrderCollisionError as SecondOrderCollisionError
    from tiburon.errors import ShapeError as ShapeError
    from tiburon.errors import TiburonError as TiburonError
    from tiburon.errors import TiburonWarning as TiburonWarning
    from tiburon.errors import TraceError as TraceError
    from tiburon.errors import UnknownNameError as UnknownNameError
    from tiburon.formats.description import describe as describe
    from tiburon.formats.load import load as load
    from tiburon.formats.load import load_world as load_world
    from tiburon.formats.save import save as save
    from tiburon.functions.assembly import Assembly as Assembly
    from tiburon.functions.assembly import AssemblyBranches as AssemblyBranches
    from tiburon.functions.assembly import assemble as assemble
    from tiburon.functions.assembly import assembly_branches as assembly_branches
    from tiburon.functions.balancing import FrameBalance as FrameBalance
    from tiburon.functions.balancing import balance_frame as balance_frame
    from tiburon.functions.cables import CableTensions as CableTensions
    from tiburon.functions.cables import cable_tensions as cable_tensions
    from tiburon.functions.cables import structure_matrix as structure_matrix
    from tiburon.functions.closed_loops import LoopDynamics as LoopDynamics
    from tiburon.functions.closed_loops import LoopForces as LoopForces
    from tiburon.functions.closed_loops import LoopReactions as LoopReactions
    from tiburon.functions.closed_loops import ProjectedConfiguration as ProjectedConfiguration
    from tiburon.functions.closed_loops import constraint_residual as constraint_residual
    from tiburon.functions.closed_loops import loop_dynamics as loop_dynamics
    from tiburon.functions.closed_loops import loop_inverse_dynamics as loop_inverse_dynamics
    from tiburon.functions.closed_loops import loop_jacobian as loop_jacobian
    from tiburon.functions.closed_loops import loop_reactions as loop_reactions
    from tiburon.functions.closed_loops import project_acceleration as project_acceleration
    from tiburon.functions.closed_loops import project_configuration as project_configuration
    from tiburon.functions.closed_loops import project_velocity as project_velocity
    from tiburon.functions.compilation import compile as compile
    from tiburon.functions.contact import ContactDependence as ContactDependence
    from tiburon.functions.contact import Contacts as Contacts
    from tiburon.functions.contact import DependentContacts as DependentContacts
    from tiburon.functions.contact import Impact as Impact
    from tiburon.functions.contact import contact_closure as contact_closure
    from tiburon.functions.contact import contact_dependence as contact_dependence
    from tiburon.functions.contact import contacts as contacts
    from tiburon.functions.contact import impact as impact
    from tiburon.functions.contact import lift_out as lift_out
    from tiburon.functions.contact_dynamics import ContactDynamics as ContactDynamics
    from tiburon.functions.contact_dynamics import contact_dynamics as contact_dynamics
    from tiburon.functions.contact_mobility import Feathering as Feathering
    from tiburon.functions.contact_mobility import PhaseMobility as PhaseMobility
    from tiburon.functions.contact_mobility import feathering as feathering
    from tiburon.functions.contact_mobility import gait_mobility as gait_mobility
    from tiburon.functions.derivatives import (
        ForwardDynamicsDerivatives as ForwardDynamicsDerivatives,
    )
    from tiburon.functions.derivatives import InertiaDerivatives as InertiaDerivatives
    from tiburon.functions.derivatives import (
        InverseDynamicsDerivatives as InverseDynamicsDerivatives,
    )
    from tiburon.functions.derivatives import (
        forward_dynamics_derivatives as forward_dynamics_derivatives,
    )
    from tiburon.functions.derivatives import inertia_derivatives as inertia_derivatives
    from tiburon.functions.derivatives import (
        inverse_dynamics_derivatives as inverse_dynamics_derivatives,
    )
    from tiburon.functions.dynamics import bias_force as bias_force
    from tiburon.functions.dynamics import coriolis_matrix as coriolis_matrix
    from tiburon.functions.dynamics import (
        floating_base_inverse_dynamics as floating_base_inverse_dynamics,
    )
    from tiburon.functions.dynamics import forward_dynamics as forward_dynamics
    from tiburon.functions.dynamics import gravity_force as gravity_force
    from tiburon.functions.dynamics import inertial_parameter_names as inertial_parameter_names
    from tiburon.functions.dynamics import inertial_parameters as inertial_parameters
    from tiburon.functions.dynamics import inverse_dynamics as inverse_dynamics
    from tiburon.functions.dynamics import inverse_mass_matrix as inverse_mass_matrix
    from tiburon.functions.dynamics import joint_reactions as joint_reactions
    from tiburon.functions.dynamics import mass_matrix as mass_matrix
    from tiburon.functions.dynamics import prepare_dynamics as prepare_dynamics
    from tiburon.functions.dynamics import regressor as regressor
    from tiburon.functions.fluid_regressor import fluid_regressor as fluid_regressor
    from tiburon.functions.fluid_regressor import (
        hydrodynamic_parameter_names as hydrodynamic_parameter_names,
    )
    from tiburon.functions.fluid_regressor import hydrodynamic_parameters as hydrodynamic_parameters
    from tiburon.functions.free_motion import FreeMotionShare as FreeMotionShare
    from tiburon.functions.free_motion import share_free_motion as share_free_motion
    from tiburon.functions.hybrid_dynamics import hybrid_dynamics as hybrid_dynamics
    from tiburon.functions.inverse_kinematics import FrameTarget as FrameTarget
    from tiburon.functions.inverse_kinematics import InverseKinematics as InverseKinematics
    from tiburon.functions.inverse_kinematics import (
        InverseKinematicsOutcome as InverseKinematicsOutcome,
    )
    from tiburon.functions.inverse_kinematics import inverse_kinematics as inverse_kinematics
    from tiburon.functions.keywords import Conditions as Conditions
    from tiburon.functions.keywords import Delivery as Delivery
    from tiburon.functions.kinematics import center_of_mass as center_of_mass
    from tiburon.functions.kinematics import center_of_mass_jacobian as center_of_mass_jacobian
    from tiburon.functions.kinematics import forward_kinematics as forward_kinematics
    from tiburon.functions.kinematics import frame_acceleration as frame_acceleration
    from tiburon.functions.kinematics import frame_jacobian as frame_jacobian
    from tiburon.functions.kinematics import frame_jacobian_bias as frame_jacobian_bias
    from tiburon.functions.kinematics import frame_velocity as frame_velocity
    from tiburon.functions.kinematics import kinetic_energy as kinetic_energy
    from tiburon.functions.kinematics import momentum as momentum
    from tiburon.functions.kinematics import momentum_matrix as momentum_matrix
    from tiburon.functions.kinematics import potential_energy as potential_energy
    from tiburon.functions.load_sharing import GripLimit as GripLimit
    from tiburon.functions.load_sharing import LoadShare as LoadShare
    from tiburon.functions.load_sharing import LoadSharing as LoadSharing
    from tiburon.functions.load_sharing import share_load as share_load
    from tiburon.functions.loop_motion import LoopMotion as LoopMotion
    from tiburon.functions.loop_motion import loop_motion as loop_motion
    from tiburon.functions.mobility import Mobility as Mobility
    from tiburon.functions.mobility import MobilityMap as MobilityMap
    from tiburon.functions.mobility import MotorSet as MotorSet
    from tiburon.functions.mobility import connectivity as connectivity
    from tiburon.functions.mobility import mobility as mobility
    from tiburon.functions.mobility import mobility_map as mobility_map
    from tiburon.functions.mobility import motor_sets as motor_sets
    from tiburon.functions.operational_space import ApparentInertia as ApparentInertia
    from tiburon.functions.operational_space import apparent_inertia as apparent_inertia
    from tiburon.functions.operational_space import (
        apparent_inverse_inertia as apparent_inverse_inertia,
    )
    from tiburon.functions.operational_space import cross_inverse_inertia as cross_inverse_inertia
    from tiburon.functions.operational_space import (
        operational_space_inertia as operational_space_inertia,
    )
    from tiburon.functions.operational_space import (
        operational_space_inverse_inertia as operational_space_inverse_inertia,
    )
    from tiburon.functions.parameter_derivatives import (
        parameter_derivatives as parameter_derivatives,
    )
    from tiburon.functions.trim import Trim as Trim
    from tiburon.functions.trim import TrimOutcome as TrimOutcome
    from tiburon.functions.trim import trim as trim
    from tiburon.functions.water import CylinderFlow as CylinderFlow
    from tiburon.functions.water import FossenForm as FossenForm
    from tiburon.functions.water import cylinder_flows as cylinder_flows
    from tiburon.functions.water import fin_force as fin_force
    from tiburon.functions.water import fossen_form as fossen_form
    from tiburon.functions.water import steerable_fins as steerable_fins
    from tiburon.functions.water import thrust_after as thrust_after
    from tiburon.functions.water import thruster_force as thruster_force
    from tiburon.functions.water import thruster_force_of_thrust as thruster_force_of_thrust
    from tiburon.functions.wrench_map import WrenchMap as WrenchMap
    from tiburon.functions.wrench_map import wrench_map as wrench_map
    from tiburon.hydro.coefficients import BodyHydrodynamics as BodyHydrodynamics
    from tiburon.hydro.coefficients import HydrodynamicEstimate as HydrodynamicEstimate
    from tiburon.hydro.coefficients import add_hydrodynamics as add_hydrodynamics
    from tiburon.hydro.coefficients import estimate_hydrodynamics as estimate_hydrodynamics
    from tiburon.hydro.coefficients import hydrodynamics_report as hydrodynamics_report
    from tiburon.hydro.mesh import Mesh as Mesh
    from tiburon.hydro.mesh import load_mesh as load_mesh
    from tiburon.hydro.panels import PanelAddedMass as PanelAddedMass
    from tiburon.hydro.panels import panel_added_mass as panel_added_mass
    from tiburon.identification.calibrate import calibrate as calibrate
    from tiburon.identification.identify import Identification as Identification
    from tiburon.identification.identify import identify as identify
    from tiburon.identification.joint_forces import identify_dynamics as identify_dynamics
    from tiburon.identification.measured import MeasuredRun as MeasuredRun
    from tiburon.identification.measured import load_measured as load_measured
    from tiburon.interfaces.c_library import build_library as build_library
    from tiburon.interfaces.fmu import export_fmu as export_fmu
    from tiburon.interfaces.to_casadi import to_casadi as to_casadi
    from tiburon.interfaces.to_jax import to_jax as to_jax
    from tiburon.interfaces.to_torch import to_torch as to_torch
    from tiburon.load_sharing.limits.contact import NormalForceLimit as NormalForceLimit
    from tiburon.load_sharing.limits.joint_wrench import JointWrenchLimit as JointWrenchLimit
    from tiburon.load_sharing.objectives.contact_force import EqualShare as EqualShare
    from tiburon.load_sharing.objectives.contact_force import InternalForce as InternalForce
    from tiburon.load_sharing.objectives.contact_force import (
        LargestNormalForce as LargestNormalForce,
    )
    from tiburon.load_sharing.objectives.contact_force import LoadTarget as LoadTarget
    from tiburon.load_sharing.objectives.motor_loss import MotorLoss as MotorLoss
    from tiburon.load_sharing.objectives.objective import Objective as Objective
    from tiburon.load_sharing.objectives.objective import Square as Square
    from tiburon.load_sharing.objectives.smoothness import Smoothness as Smoothness
    from tiburon.load_sharing.objectives.smoothness import TorqueSmoothness as TorqueSmoothness
    from tiburon.load_sharing.objectives.structure import BendingEnergy as BendingEnergy
    from tiburon.load_sharing.objectives.structure import JointWrenchNorm as JointWrenchNorm
    from tiburon.load_sharing.objectives.structure import StrainEnergy as StrainEnergy
    from tiburon.load_sharing.objectives.torque_norm import TorqueNorm as TorqueNorm
    from tiburon.load_sharing.performance import MotorPower as MotorPower
    from tiburon.load_sharing.performance import PerformanceIndices as PerformanceIndices
    from tiburon.load_sharing.performance import motor_power as motor_power
    from tiburon.load_sharing.performance import performance_indices as performance_indices
    from tiburon.load_sharing.sites import ContactSite as ContactSite
    from tiburon.load_sharing.smoothing import Blending as Blending
    from tiburon.load_sharing.smoothing import SmoothingPenalty as SmoothingPenalty
    from tiburon.load_sharing.smoothing import StepBound as StepBound
    from tiburon.loops.constraints import constraint_names as constraint_names
    from tiburon.loops.driven_cut import drive_cut_joint as drive_cut_joint
    from tiburon.loops.driven_cut import driven_cut_state as driven_cut_state
    from tiburon.loops.loop_method import LoopMethod as LoopMethod
    from tiburon.loops.recut import recut as recut
    from tiburon.loops.recut import recut_state as recut_state
    from tiburon.loops.stabilization import Baumgarte as Baumgarte
    from tiburon.loops.stabilization import DeNOC as DeNOC
    from tiburon.loops.stabilization import Embedding as Embedding
    from tiburon.loops.stabilization import Penalty as Penalty
    from tiburon.loops.stabilization import Projection as Projection
    from tiburon.loops.star import Star as Star
    from tiburon.loops.star import StarArm as StarArm
    from tiburon.loops.star import star as star
    from tiburon.loops.topology import JointLine as JointLine
    from tiburon.loops.topology import Topology as Topology
    from tiburon.loops.topology import topology as topology
    from tiburon.model import Actuator as Actuator
    from tiburon.model import Body as Body
    from tiburon.model import BodyFluid as BodyFluid
    from tiburon.model import BoxDrag as BoxDrag
    from tiburon.model import BoxShape as BoxShape
    from tiburon.model import CapsuleShape as CapsuleShape
    from tiburon.model import ContactPair as ContactPair
    from tiburon.model import ContactPoint as ContactPoint
    from tiburon.model import Coupled as Coupled
    from tiburon.model import CylinderDrag as CylinderDrag
    from tiburon.model import CylinderShape as CylinderShape
    from tiburon.model import EllipsoidDrag as EllipsoidDrag
    from tiburon.model import EllipsoidShape as EllipsoidShape
    from tiburon.model import Fin as Fin
    from tiburon.model import Fixed as Fixed
    from tiburon.model import Frame as Frame
    from tiburon.model import Free as Free
    from tiburon.model import Ground as Ground
    from tiburon.model import GroundGrid as GroundGrid
    from tiburon.model import GroundPatch as GroundPatch
    from tiburon.model import Inertia as Inertia
    from tiburon.model import Joint as Joint
    from tiburon.model import JointActuation as JointActuation
    from tiburon.model import JointCoupling as JointCoupling
    from tiburon.model import JointLimits as JointLimits
    from tiburon.model import JointPassive as JointPassive
    from tiburon.model import LinearThrust as LinearThrust
    from tiburon.model import LoopClosure as LoopClosure
    from tiburon.model import MeshShape as MeshShape
    from tiburon.model import Model as Model
    from tiburon.model import Motor as Motor
    from tiburon.model import PlaneShape as PlaneShape
    from tiburon.model import Pose as Pose
    from tiburon.model import Prismatic as Prismatic
    from tiburon.model import QuadraticThrust as QuadraticThrust
    from tiburon.model import Revolute as Revolute
    from tiburon.model import Servo as Servo
    from tiburon.model import Shape as Shape
    from tiburon.model import SphereDrag as SphereDrag
    from tiburon.model import SphereShape as SphereShape
    from tiburon.model import TableFoil as TableFoil
    from tiburon.model import TableThrust as TableThrust
    from tiburon.model import ThinFoil as ThinFoil
    from tiburon.model import Thruster as Thruster
    from tiburon.model import Water as Water
    from tiburon.model import World as World
    from tiburon.model import actuation_report as actuation_report
    from tiburon.model import added_mass_from as added_mass_from
    from tiburon.model import joint_actuation as joint_actuation
    from tiburon.model import rotor as rotor
    from tiburon.model.attachments import Cable as Cable
    from tiburon.model.attachments import HydraulicCylinder as HydraulicCylinder
    from tiburon.model.attachments import Spring as Spring
    from tiburon.model.closure_kinds import Blade as Blade
    from tiburon.model.closure_kinds import ConstraintFunction as ConstraintFunction
    from tiburon.model.closure_kinds import RollingDisc as RollingDisc
    from tiburon.model.closure_kinds import TendonCoupling as TendonCoupling
    from tiburon.model.contact_kinds import ContactMaterial as ContactMaterial
    from tiburon.model.contact_pads import contact_pad as contact_pad
    from tiburon.model.conversions import JointValues as JointValues
    from tiburon.model.conversions import from_fossen as from_fossen
    from tiburon.model.conversions import from_mujoco as from_mujoco
    from tiburon.model.conversions import from_pinocchio as from_pinocchio
    from tiburon.model.conversions import matrix_from_fossen as matrix_from_fossen
    from tiburon.model.conversions import matrix_to_fossen as matrix_to_fossen
    from tiburon.model.conversions import motion_from_mujoco as motion_from_mujoco
    from tiburon.model.conversions import motion_to_mujoco as motion_to_mujoco
    from tiburon.model.conversions import six_vector_from_fossen as six_vector_from_fossen
    from tiburon.model.conversions import six_vector_from_pinocchio as six_vector_from_pinocchio
    from tiburon.model.conversions import six_vector_to_fossen as six_vector_to_fossen
    from tiburon.model.conversions import six_vector_to_pinocchio as six_vector_to_pinocchio
    from tiburon.model.conversions import to_fossen as to_fossen
    from tiburon.model.conversions import to_mujoco as to_mujoco
    from tiburon.model.conversions import to_pinocchio as to_pinocchio
    from tiburon.model.conversions import wrench_from_mujoco as wrench_from_mujoco
    from tiburon.model.conversions import wrench_to_mujoco as wrench_to_mujoco
    from tiburon.model.currents import Current as Current
    from tiburon.model.currents import CurrentSum as CurrentSum
    from tiburon.model.currents import LinearShear as LinearShear
    from tiburon.model.currents import PowerShear as PowerShear
    from tiburon.model.currents import TableCurrent as TableCurrent
    from tiburon.model.currents import Tide as Tide
    from tiburon.model.currents import UniformCurrent as UniformCurrent
    from tiburon.model.currents import Wave as Wave
    from tiburon.model.currents import Waves as Waves
    from tiburon.model.denavit_hartenberg import DHLink as DHLink
    from tiburon.model.flexible_link import BeamSection as BeamSection
    from tiburon.model.flexible_link import flexible_link as flexible_link
    from tiburon.model.joints import Cylindrical as Cylindrical
    from tiburon.model.joints import Driven as Driven
    from tiburon.model.joints import Harmonic as Harmonic
    from tiburon.model.joints import Path as Path
    from tiburon.model.joints import Planar as Planar
    from tiburon.model.joints import Polynomial as Polynomial
    from tiburon.model.joints import RollingSphere as RollingSphere
    from tiburon.model.joints import Screw as Screw
    from tiburon.model.joints import Spherical as Spherical
    from tiburon.model.joints import Universal as Universal
    from tiburon.model.model_warnings import model_warnings as model_warnings
    from tiburon.model.parameters import Parameter as Parameter
    from tiburon.native.c_source import CFiles as CFiles
    from tiburon.native.c_source import c_source as c_source
    from tiburon.parallel.exchange import ThreadExchange as ThreadExchange
    from tiburon.parallel.mpi_ranks import MPIExchange as MPIExchange
    from tiburon.parallel.partition import Partition as Partition
    from tiburon.parallel.partition import partition as partition
    from tiburon.parallel.session import MessageCount as MessageCount
    from tiburon.parallel.sweep import Study as Study
    from tiburon.parallel.sweep import load_sweep as load_sweep
    from tiburon.parallel.sweep import sweep as sweep
    from tiburon.results.contact_summary import ContactSummary as ContactSummary
    from tiburon.results.contact_summary import DeepestContact as DeepestContact
    from tiburon.results.outcome import EventRecord as EventRecord
    from tiburon.results.outcome import Outcome as Outcome
    from tiburon.results.record import Record as Record
    from tiburon.results.trajectory import Trajectory as Trajectory
    from tiburon.simulation.events import Event as Event
    from tiburon.simulation.events import TimeEvent as TimeEvent
    from tiburon.simulation.events import latch as latch
    from tiburon.simulation.events import release as release
    from tiburon.simulation.execution import Execution as Execution
    from tiburon.simulation.integrate import StateRecord as StateRecord
    from tiburon.simulation.integrate import integrate_rk4 as integrate_rk4
    from tiburon.simulation.integrators.dop853 import Dop853 as Dop853
    from tiburon.simulation.integrators.dopri5 import DormandPrince as DormandPrince
    from tiburon.simulation.integrators.euler import Euler as Euler
    from tiburon.simulation.integrators.euler import SemiImplicitEuler as SemiImplicitEuler
    from tiburon.simulation.integrators.integrator import FixedIntegrator as FixedIntegrator
    from tiburon.simulation.integrators.predictor_corrector import (
        PredictorCorrector as PredictorCorrector,
    )
    from tiburon.simulation.integrators.rk4 import RK4 as RK4
    from tiburon.simulation.integrators.rosenbrock import Rosenbrock as Rosenbrock
    from tiburon.simulation.linearization import ContactLinearization as ContactLinearization
    from tiburon.simulation.linearization import Linearization as Linearization
    from tiburon.simulation.linearization import linearize as linearize
    from tiburon.simulation.modes import Mode as Mode
    from tiburon.simulation.modes import Modes as Modes
    from tiburon.simulation.modes import modes as modes
    from tiburon.simulation.recorded_run import load_run as load_run
    from tiburon.simulation.run_parameters import ParameterTable as ParameterTable
    from tiburon.simulation.run_parameters import parameters as parameters
    from tiburon.simulation.run_parameters import with_parameters as with_parameters
    from tiburon.simulation.sampled import Sampled as Sampled
    from tiburon.simulation.sensing import Sensor as Sensor
    from tiburon.simulation.simulate import simulate as simulate
    from tiburon.simulation.state import State as State
    from tiburon.simulation.stepper import Stepped as Stepped
    from tiburon.simulation.stepper import Stepper as Stepper
    from tiburon.simulation.stepper import StepperState as StepperState
    from tiburon.simulation.stepper import stepper as stepper
    from tiburon.simulation.system import System as System
    from tiburon.trace.declared import traced as traced

__all__ = ["__version__", *_EXPORTS]


# hidden from type checkers, to which it would make every misspelled name look right
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name from its module on first use (PEP 562)."""
        if name == "__version__":
            value: Any = _installed_version()
        elif name == "gym":
            value = import_module("tiburon.interfaces.gym")
        elif name in _EXPORTS:
            module = _EXPORTS[name]
            with _garbage_collection_paused(lasting=module not in _loaded):
                value = getattr(import_module(module), name)
        else:
            raise AttributeError(f"module 'tiburon' has no attribute {name!r}")
        # later uses find the name directly
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names, loaded or not, for completion."""
    return sorted({*globals(), *__all__})
