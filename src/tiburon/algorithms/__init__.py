"""Algorithms of rigid-body dynamics, one file each, written over the drivers of `sweep`."""

from tiburon.algorithms.aba import forward_dynamics
from tiburon.algorithms.compilation import compile
from tiburon.algorithms.crba import mass_matrix
from tiburon.algorithms.energy import kinetic_energy, potential_energy
from tiburon.algorithms.kinematics import forward_kinematics
from tiburon.algorithms.rnea import inverse_dynamics

__all__ = [
    "compile",
    "forward_dynamics",
    "forward_kinematics",
    "inverse_dynamics",
    "kinetic_energy",
    "mass_matrix",
    "potential_energy",
]
