"""Structured six-dimensional (spatial) algebra; knows no robots.

Motions, forces, inertias and the transforms between frames, as small immutable values of scalars.
A scalar is a float or a traced value: the same lines compute numbers, or record how to.
Everything is in SI units, angular part first, in the axes and about the origin of one frame.
"""

from tiburon.spatial.acceleration import (
    centripetal_matrix,
    classical_acceleration_at,
    classical_to_spatial,
    rate_matrix,
    spatial_acceleration_from_point,
    spatial_to_classical,
)
from tiburon.spatial.articulated import ArticulatedInertia
from tiburon.spatial.exponential import (
    left_jacobian,
    left_jacobian_inverse_product,
    left_jacobian_product,
    matrix_to_rotation_vector,
    quaternion_exp,
    quaternion_log,
    rotation_vector_to_matrix,
)
from tiburon.spatial.factors import AxisRotation, Factor, Rotation, Translation
from tiburon.spatial.inertia import RigidInertia
from tiburon.spatial.invariants import linear_invariant_rates, linear_invariants, turn_error
from tiburon.spatial.rotations import (
    Quaternion,
    axis_angle_to_matrix,
    axis_angle_to_quaternion,
    axis_rotation_matrix,
    check_rotation,
    matrix_to_quaternion,
    matrix_to_roll_pitch_yaw,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_normalize,
    quaternion_rate,
    quaternion_rotate,
    quaternion_square,
    quaternion_to_matrix,
    roll_pitch_yaw_to_matrix,
    roll_pitch_yaw_to_quaternion,
)
from tiburon.spatial.screws import (
    Screw,
    decompose,
    free_motion,
    line_motion,
    prismatic_axis,
    revolute_axis,
    screw_axis,
    screw_unit_force,
)
from tiburon.spatial.subspace import (
    InertiaDyads,
    constrained_inverse_inertia,
    inertia_dyads,
    inertia_orthogonal_basis,
    orthogonal_complement,
    reciprocal_basis,
    resolve,
    subspace_matrix,
)
from tiburon.spatial.transform import Transform
from tiburon.spatial.vec3 import Mat3, Scalar, Sym3, Vec3
from tiburon.spatial.vectors import Force, Motion

__all__ = [
    "ArticulatedInertia",
    "AxisRotation",
    "Factor",
    "Force",
    "InertiaDyads",
    "Mat3",
    "Motion",
    "Quaternion",
    "RigidInertia",
    "Rotation",
    "Scalar",
    "Screw",
    "Sym3",
    "Transform",
    "Translation",
    "Vec3",
    "axis_angle_to_matrix",
    "axis_angle_to_quaternion",
    "axis_rotation_matrix",
    "centripetal_matrix",
    "check_rotation",
    "classical_acceleration_at",
    "classical_to_spatial",
    "constrained_inverse_inertia",
    "decompose",
    "free_motion",
    "inertia_dyads",
    "inertia_orthogonal_basis",
    "left_jacobian",
    "left_jacobian_inverse_product",
    "left_jacobian_product",
    "line_motion",
    "linear_invariant_rates",
    "linear_invariants",
    "matrix_to_quaternion",
    "matrix_to_roll_pitch_yaw",
    "matrix_to_rotation_vector",
    "orthogonal_complement",
    "prismatic_axis",
    "quaternion_conjugate",
    "quaternion_exp",
    "quaternion_log",
    "quaternion_multiply",
    "quaternion_normalize",
    "quaternion_rate",
    "quaternion_rotate",
    "quaternion_square",
    "quaternion_to_matrix",
    "rate_matrix",
    "reciprocal_basis",
    "resolve",
    "revolute_axis",
    "roll_pitch_yaw_to_matrix",
    "roll_pitch_yaw_to_quaternion",
    "rotation_vector_to_matrix",
    "screw_axis",
    "screw_unit_force",
    "spatial_acceleration_from_point",
    "spatial_to_classical",
    "subspace_matrix",
    "turn_error",
]
