"""Conversions of states to and from the orders of other codes; none of them is imported."""

from tiburon.model.conversions.converter import JointValues
from tiburon.model.conversions.fossen import (
    from_fossen,
    matrix_from_fossen,
    matrix_to_fossen,
    six_vector_from_fossen,
    six_vector_to_fossen,
    to_fossen,
)
from tiburon.model.conversions.mujoco import (
    from_mujoco,
    motion_from_mujoco,
    motion_to_mujoco,
    to_mujoco,
    wrench_from_mujoco,
    wrench_to_mujoco,
)
from tiburon.model.conversions.pinocchio import (
    from_pinocchio,
    six_vector_from_pinocchio,
    six_vector_to_pinocchio,
    to_pinocchio,
)

__all__ = [
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
]
