"""Algorithms of rigid-body dynamics, one file each, written over the drivers of `sweep`."""

from tiburon.algorithms.apparent_inertia import apparent_inverse_inertia, cross_inverse_inertia
from tiburon.algorithms.bias import bias_force, gravity_force
from tiburon.algorithms.center_of_mass import center_of_mass, center_of_mass_jacobian
from tiburon.algorithms.compilation import compile
from tiburon.algorithms.coriolis import coriolis_matrix
from tiburon.algorithms.crba import mass_matrix
from tiburon.algorithms.derivatives import (
    ForwardDynamicsDerivatives,
    InverseDynamicsDerivatives,
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
)
from tiburon.algorithms.energy import kinetic_energy, potential_energy
from tiburon.algorithms.floating_base import floating_base_inverse_dynamics
from tiburon.algorithms.forward import forward_dynamics
from tiburon.algorithms.frame_motion import frame_acceleration, frame_velocity
from tiburon.algorithms.frame_target import FrameTarget
from tiburon.algorithms.hybrid import hybrid_dynamics
from tiburon.algorithms.inverse_kinematics import (
    InverseKinematics,
    InverseKinematicsOutcome,
    inverse_kinematics,
)
from tiburon.algorithms.jacobian import frame_jacobian, frame_jacobian_bias
from tiburon.algorithms.joint_space import inverse_mass_matrix, prepare_dynamics
from tiburon.algorithms.kinematics import forward_kinematics
from tiburon.algorithms.momentum import momentum, momentum_matrix
from tiburon.algorithms.operational_space import (
    operational_space_inertia,
    operational_space_inverse_inertia,
)
from tiburon.algorithms.reactions import joint_reactions
from tiburon.algorithms.regressor import inertial_parameter_names, inertial_parameters, regressor
from tiburon.algorithms.rnea import inverse_dynamics

__all__ = [
    "ForwardDynamicsDerivatives",
    "FrameTarget",
    "InverseDynamicsDerivatives",
    "InverseKinematics",
    "InverseKinematicsOutcome",
    "apparent_inverse_inertia",
    "bias_force",
    "center_of_mass",
    "center_of_mass_jacobian",
    "compile",
    "coriolis_matrix",
    "cross_inverse_inertia",
    "floating_base_inverse_dynamics",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_kinematics",
    "frame_acceleration",
    "frame_jacobian",
    "frame_jacobian_bias",
    "frame_velocity",
    "gravity_force",
    "hybrid_dynamics",
    "inertial_parameter_names",
    "inertial_parameters",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_kinematics",
    "inverse_mass_matrix",
    "joint_reactions",
    "kinetic_energy",
    "mass_matrix",
    "momentum",
    "momentum_matrix",
    "operational_space_inertia",
    "operational_space_inverse_inertia",
    "potential_energy",
    "prepare_dynamics",
    "regressor",
]
