"""Structured six-dimensional (spatial) algebra, without robots.

Motions, forces, inertias and the transforms between frames, as small immutable values of scalars.
A scalar is a float or a traced value: the same lines compute floats or build a graph.
Everything is in SI units, angular part first, in the axes and about the origin of one frame.
"""

from tiburon.spatial.inertia import ArticulatedInertia, RigidInertia
from tiburon.spatial.rotations import (
    Quaternion,
    axis_angle_to_matrix,
    axis_angle_to_quaternion,
    axis_rotation_matrix,
    left_jacobian_inverse_product,
    left_jacobian_product,
    linear_invariant_rates,
    linear_invariants,
    matrix_to_quaternion,
    matrix_to_rotation_vector,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_multiply,
    quaternion_normalize,
    quaternion_rate,
    quaternion_rotate,
    quaternion_square,
    quaternion_to_matrix,
    quaternion_to_roll_pitch_yaw,
    roll_pitch_yaw_to_quaternion,
    rotation_vector_to_matrix,
    turn_error,
)
from tiburon.spatial.subspace import (
    InertiaDyads,
    Screw,
    constrained_inverse_inertia,
    decompose,
    free_motion,
    inertia_dyads,
    inertia_orthogonal_basis,
    line_motion,
    orthogonal_complement,
    prismatic_axis,
    reciprocal_basis,
    resolve,
    revolute_axis,
    screw_axis,
    screw_unit_force,
    subspace_matrix,
)
from tiburon.spatial.transform import AxisRotation, Factor, Rotation, Transform, Translation
from tiburon.spatial.vec3 import Mat3, Scalar, Scalars, Sym3, Vec3
from tiburon.spatial.vectors import (
    Force,
    Motion,
    centripetal_matrix,
    classical_acceleration_at,
    classical_to_spatial,
    rate_matrix,
    spatial_acceleration_from_point,
    spatial_to_classical,
)
