"""Algorithms of rigid-body dynamics, one file each, written over the drivers of `sweep`."""

from tiburon.algorithms.bias import bias_force, gravity_force
from tiburon.algorithms.compilation import compile
from tiburon.algorithms.crba import mass_matrix
from tiburon.algorithms.energy import kinetic_energy, potential_energy
from tiburon.algorithms.forward import forward_dynamics
from tiburon.algorithms.joint_space import inverse_mass_matrix, prepare_dynamics
from tiburon.algorithms.kinematics import forward_kinematics
from tiburon.algorithms.rnea import inverse_dynamics

__all__ = [
    "bias_force",
    "compile",
    "forward_dynamics",
    "forward_kinematics",
    "gravity_force",
    "inverse_dynamics",
    "inverse_mass_matrix",
    "kinetic_energy",
    "mass_matrix",
    "potential_energy",
    "prepare_dynamics",
]
