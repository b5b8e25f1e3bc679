"""The same lines on traced values: equal results, known zeros dropped, derivatives finite."""

import numpy as np
import pytest

from tests.spatial.dense import (
    assert_close,
    random_articulated,
    random_motion,
    random_rigid,
    random_rotation,
    random_transform,
)
from tiburon.spatial import (
    ArticulatedInertia,
    AxisRotation,
    Force,
    Motion,
    RigidInertia,
    Rotation,
    Transform,
    Translation,
    axis_angle_to_matrix,
    decompose,
    left_jacobian_inverse_product,
    left_jacobian_product,
    matrix_to_quaternion,
    quaternion_exp,
    quaternion_log,
    quaternion_multiply,
    quaternion_normalize,
    quaternion_to_matrix,
    roll_pitch_yaw_to_quaternion,
)
from tiburon.trace import count, interpret, jacobian, trace


@pytest.fixture
def rng():
    """Return a seeded source of random numbers."""
    return np.random.default_rng(77)


def screwed(pose):
    """Return a transform with every kind of move, from twelve numbers."""
    E = quaternion_to_matrix(pose[:4])
    return Transform(
        (
            Translation((pose[4], pose[5], pose[6])),
            Rotation(E),
            AxisRotation(1, np.cos(pose[7]), np.sin(pose[7])),
            Translation((0.0, pose[8], 0.0)),
        )
    ).then(Transform.modified_dh(pose[9], pose[10], pose[11], 0.4))


def everything(pose, motion, numbers, full):
    """Pass vectors and inertias through a transform and each other."""
    X, v = screwed(pose), Motion.from_array(motion)
    rigid, whole = RigidInertia.from_array(numbers), ArticulatedInertia.from_array(full)
    f = rigid.apply(v) + rigid.bias(v) + v.cross_force(whole.apply(v))
    U = whole.apply(v)
    return {
        "motion": X.motion_to_parent(X.motion(v).cross(v) * 0.3 - v).array,
        "force": X.force(X.force_to_parent(f) + f).array,
        "rigid": X.inertia_to_parent(rigid).array,
        "whole": (X.inertia_to_parent(whole) + rigid).array,
        "reduced": whole.reduce(U, v.dot(U)).matrix(),
        "solved": whole.solve(f).array,
        "matrix": X.inverse().matrix(),
        "cross": v.cross_matrix() @ rigid.inverse(),
        "scalars": np.stack([rigid.kinetic_energy(v), decompose(v).pitch]),
        "point": np.stack(X.point_to_parent(X.direction(v.linear))),
    }


def test_traced_algebra_equals_the_algebra_on_floats(rng):
    """Every type on traced arrays gives the numbers that floats give."""
    inputs = (
        rng.normal(size=12),
        random_motion(rng)[1],
        random_rigid(rng)[0].array,
        random_articulated(rng)[0].array,
    )
    shapes = {"pose": (12,), "motion": (6,), "numbers": (10,), "full": (21,)}
    program = trace(everything, shapes)
    expected = everything(*inputs)
    found = interpret(program, inputs)
    for name, value in zip(expected, found, strict=True):
        # the solve meets condition numbers of about 1e2; everything else is plain rounding
        assert_close(value, expected[name], 1e-11)


def rotations(q, p, phi, a):
    """Use every rotation function meant for traced values."""
    return {
        "matrix": np.stack([np.stack(row) for row in quaternion_to_matrix(q)]),
        "product": np.stack(quaternion_multiply(q, quaternion_normalize(p))),
        "exp": np.stack(quaternion_exp(phi)),
        "log": np.stack(quaternion_log(q)),
        "back": np.stack(matrix_to_quaternion(quaternion_to_matrix(q))),
        "turned": np.stack(axis_angle_to_matrix((0.6, 0.0, 0.8), phi[0])[1]),
        "euler": np.stack(roll_pitch_yaw_to_quaternion(phi[0], phi[1], phi[2])),
        "forth": np.stack(left_jacobian_product(phi, a)),
        "undone": np.stack(left_jacobian_inverse_product(phi, a)),
    }


@pytest.mark.parametrize("size", [0.0, 1e-9, 0.7, 2.5])
def test_traced_rotations_equal_the_rotations_on_floats(size, rng):
    """Selections instead of branches: the same numbers at zero, near it and far from it."""
    q, p = rng.normal(size=(2, 4))
    phi, a = rng.normal(size=(2, 3))
    phi *= size / np.linalg.norm(phi)
    program = trace(rotations, {"q": (4,), "p": (4,), "phi": (3,), "a": (3,)})
    expected = rotations(q, p, phi, a)
    for name, value in zip(expected, interpret(program, (q, p, phi, a)), strict=True):
        assert_close(value, expected[name])


@pytest.mark.parametrize(
    "function",
    [
        lambda phi: np.stack(quaternion_exp(phi)),
        lambda phi: np.stack(left_jacobian_product(phi, (0.3, -0.4, 0.5))),
        lambda phi: np.stack(left_jacobian_inverse_product(phi, (0.3, -0.4, 0.5))),
        lambda phi: np.stack(quaternion_log((1.0, phi[0], phi[1], phi[2]))),
    ],
    ids=["exp", "left jacobian", "its inverse", "log"],
)
@pytest.mark.parametrize("size", [0.0, 1e-12, 0.0099, 0.0101, 1.2])
def test_derivatives_through_both_branches_of_a_selection(function, size):
    """The derivative of a traced rotation is finite at zero and right everywhere."""
    phi = size * np.array([2.0, -3.0, 6.0]) / 7.0
    derivative = interpret(jacobian(trace(function, {"phi": (3,)})), (phi,))
    h = 1e-4
    columns = []
    for e in np.eye(3):
        # five points: truncation h^4, rounding 1e-16 / h
        y = [np.array(function(phi + k * h * e), dtype=float) for k in (-2, -1, 1, 2)]
        columns.append((y[0] - 8 * y[1] + 8 * y[2] - y[3]) / (12 * h))
    assert np.isfinite(derivative).all()
    assert_close(np.reshape(derivative, (-1, 3)), np.stack(columns, axis=1), 1e-9)


@pytest.mark.parametrize("k", range(6))
def test_traced_reduction_has_structural_zeros_along_the_axis(k):
    """I - U U^T / D keeps no operation for row and column k, and none for their zeros later."""

    def reduced(full):
        whole = ArticulatedInertia.from_array(full)
        U = whole.column(k)
        return whole.reduce(U, (*U,)[k]).matrix()

    numbers = random_articulated(np.random.default_rng(k))[0]
    program = trace(reduced, {"full": (21,)})
    # five quotients by one divisor, and the fifteen distinct entries that are left
    assert (count(program).multiplications, count(program).additions) == (20, 15)
    U = numbers.column(k)
    found = interpret(program, (numbers.array,))
    assert_close(found, numbers.reduce(U, (*U,)[k]).matrix())
    # known zeros, not differences of equal numbers
    assert found[k].tolist() == found[:, k].tolist() == [0.0] * 6


def test_right_angle_rotations_need_no_operations():
    """A constant rotation by signed unit axes only renames entries."""
    E = ((0.0, 0.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0))

    def turned(motion, full):
        X = Transform((Rotation(E),))
        whole = ArticulatedInertia.from_array(full)
        return [*X.motion(Motion.from_array(motion)), *X.inertia_to_parent(whole)]

    counted = count(trace(turned, {"motion": (6,), "full": (21,)}))
    assert (counted.multiplications, counted.additions) == (0, 0)


def test_operation_counts_hold_in_the_tracer():
    """The published kernel counts are met by the graph that becomes native code."""
    shapes = {"angle": (), "numbers": (10,), "full": (21,), "vector": (6,)}

    def screw(angle):
        return Transform((AxisRotation(2, np.cos(angle), np.sin(angle)), Translation((0, 0, 0.3))))

    def operations(function, *names):
        counted = count(trace(function, {name: shapes[name] for name in names}))
        assert counted.sine_cosine_pairs == 1
        return counted.multiplications, counted.additions

    def vector(angle, vector):
        return screw(angle).force_to_parent(Force.from_array(vector)).array

    def rigid(angle, numbers):
        return screw(angle).inertia_to_parent(RigidInertia.from_array(numbers)).array

    def whole(angle, full):
        return screw(angle).inertia_to_parent(ArticulatedInertia.from_array(full)).array

    assert operations(vector, "angle", "vector") == (10, 6)
    assert operations(rigid, "angle", "numbers") == (16, 16)
    assert operations(whole, "angle", "full") == (38, 40)


def test_constant_transforms_carry_traced_inertias(rng):
    """Masses may be traced while the placement is known: a body lumped onto its parent."""
    (X, dense), (rigid, matrix) = random_transform(rng), random_rigid(rng)
    program = trace(
        lambda numbers: X.inertia_to_parent(RigidInertia.from_array(numbers)).matrix(),
        {"numbers": (10,)},
    )
    assert_close(interpret(program, (rigid.array,)), dense.T @ matrix @ dense)
    R = random_rotation(rng)
    assert_close(Transform.from_rotation(R.T).matrix()[:3, :3], R.T)
