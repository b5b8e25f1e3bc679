"""Joints: motion, sub-space, articulated step and integration belong together, kind by kind."""

import numpy as np
import pytest

from tests.model.samples import ROUNDING, random_axis, random_inertia, skew
from tiburon.algorithms.aba import accelerate_joint, eliminate_joint
from tiburon.errors import ModelError, ModelWarning
from tiburon.model import Fixed, Free, Pose, Prismatic, Revolute
from tiburon.model.joints import Cylindrical, Planar, RollingSphere, Screw, Spherical, Universal
from tiburon.spatial import Force, Motion

TILTED = tuple((np.array([1.0, -2.0, 2.0]) / 3.0).tolist())
ASKEW = tuple((np.array([-6.0, 2.0, 3.0]) / 7.0).tolist())

JOINTS = [
    Revolute("x", (1, 0, 0)),
    Revolute("minus_y", (0, -1, 0)),
    Revolute("z_offset", (0, 0, 1), 0.4),
    Revolute("quarter", (0, 0, 1), -np.pi / 2),
    Revolute("tilted", TILTED, 2.0),
    Prismatic("slide_x", (1, 0, 0)),
    Prismatic("slide_minus_z", (0, 0, -1), 0.3),
    Prismatic("slide_tilted", TILTED),
    Screw("thread_y", (0, 1, 0), pitch=0.3),
    Screw("left_thread_minus_z", (0, 0, -1), -0.4, pitch=-0.2, lead=0.1),
    Screw("thread_tilted", TILTED, 1.1, pitch=0.7),
    Cylindrical("sleeve_x", (1, 0, 0)),
    Cylindrical("sleeve_tilted", TILTED),
    Universal("cross_xy"),
    Universal("cross_minus_z_x", (0, 0, -1), (1, 0, 0)),
    Universal("cross_oblique", TILTED, ASKEW),
    Spherical("ball"),
    Planar("table"),
    Planar("wall", (0, -1, 0)),
    Planar("slope", TILTED),
    RollingSphere("marble", radius=0.3),
    Free("free"),
    Fixed("fixed"),
]

CONSTANT = ("revolute", "prismatic", "screw", "cylindrical", "spherical", "free", "fixed")
"""Kinds whose sub-space does not depend on the position."""

each_joint = pytest.mark.parametrize("joint", JOINTS, ids=lambda joint: joint.name)


def matrix_of(joint, q):
    """Return the homogeneous matrix of the body frame in the joint frame."""
    X = joint.transform(q)
    T = np.eye(4)
    T[:3, :3] = np.array(X.rotation).T
    T[:3, 3] = X.translation
    return T


def random_numbers(joint, seed):
    rng = np.random.default_rng(seed)
    return joint.random(rng), tuple(rng.standard_normal(joint.nv).tolist()), rng


@each_joint
def test_sizes_names_and_columns_agree(joint):
    assert len(joint.neutral()) == len(joint.q_names()) == joint.nq
    assert len(joint.v_names()) == joint.nv
    q = joint.random(np.random.default_rng(0))
    assert len(q) == joint.nq
    assert len(joint.subspace(q)) == joint.nv


@each_joint
def test_motion_is_the_rate_of_the_transform(joint):
    """T(t + h) = T(t) exp(h v), so T^-1 dT/dt is the body velocity in matrix form."""
    q, v, _ = random_numbers(joint, 1)
    h = 1e-5  # central differences: h^2 = 1e-10 of truncation, 1e-16/h = 1e-11 of rounding
    ahead = matrix_of(joint, joint.integrate(q, [h * x for x in v]))
    behind = matrix_of(joint, joint.integrate(q, [-h * x for x in v]))
    rate = np.linalg.inv(matrix_of(joint, q)) @ (ahead - behind) / (2 * h)
    motion = joint.velocity(q, v)
    np.testing.assert_allclose(rate[:3, :3], skew(motion.angular), rtol=0, atol=1e-8)
    np.testing.assert_allclose(rate[:3, 3], motion.linear, rtol=0, atol=1e-8)


@each_joint
def test_motion_is_the_subspace_times_velocity(joint):
    q, v, _ = random_numbers(joint, 2)
    expected = sum(
        (np.array(S.array) * x for S, x in zip(joint.subspace(q), v, strict=True)), np.zeros(6)
    )
    np.testing.assert_allclose(joint.motion(q, v).array, expected, rtol=0, atol=ROUNDING)


@each_joint
def test_projection_is_power_per_velocity(joint):
    """Power of a force on the body = joint forces times joint velocities."""
    q, v, rng = random_numbers(joint, 3)
    force = Force.from_array(rng.standard_normal(6))
    power = sum(tau * x for tau, x in zip(joint.project(q, force), v, strict=True))
    assert power == pytest.approx(joint.motion(q, v).dot(force), abs=ROUNDING)


@each_joint
def test_bias_is_zero_where_columns_are_constant(joint):
    q, v, rng = random_numbers(joint, 4)
    columns = [S.array.tolist() for S in joint.subspace(q)]
    moved = [S.array.tolist() for S in joint.subspace(joint.random(rng))]
    assert (columns == moved) == (joint.kind in CONSTANT)
    assert (tuple(joint.bias(q, v)) == (0.0,) * 6) == (joint.kind in CONSTANT)


@each_joint
def test_bias_is_the_rate_of_the_subspace_times_velocity(joint):
    """Sdot v by central differences of the columns along the motion."""
    q, v, _ = random_numbers(joint, 5)
    h = 1e-5  # central differences: h^2 = 1e-10 of truncation, 1e-16/h = 1e-11 of rounding
    ahead, behind = (joint.motion(joint.integrate(q, [t * x for x in v]), v).array for t in (h, -h))
    rate = (np.array(ahead) - np.array(behind)) / (2 * h)
    np.testing.assert_allclose(joint.bias(q, v).array, rate, rtol=0, atol=1e-8)


@each_joint
def test_integrate_undoes_difference_and_difference_undoes_integrate(joint):
    for seed in range(5):
        q0, v, rng = random_numbers(joint, seed)
        v = [0.5 * x for x in v]  # turns by less than pi, where the way back is unique
        # rolling reaches only some places in one step
        rolls = joint.kind == "rolling sphere"
        q1 = joint.integrate(q0, rng.uniform(-1, 1, 3)) if rolls else joint.random(rng)
        reached = joint.integrate(q0, joint.difference(q0, q1))
        np.testing.assert_allclose(
            matrix_of(joint, reached), matrix_of(joint, q1), rtol=0, atol=ROUNDING
        )
        np.testing.assert_allclose(
            joint.difference(q0, joint.integrate(q0, v)), v, rtol=0, atol=10 * ROUNDING
        )


@each_joint
def test_move_undoes_displacement(joint):
    """Any two positions, also those that one step of rolling does not connect."""
    for seed in range(5):
        q0, _, rng = random_numbers(joint, seed)
        q1 = joint.random(rng)
        reached = joint.move(q0, joint.displacement(q0, q1))
        np.testing.assert_allclose(
            matrix_of(joint, reached), matrix_of(joint, q1), rtol=0, atol=ROUNDING
        )


@each_joint
def test_two_half_steps_equal_one_step(joint):
    """A constant body velocity is a one-parameter group."""
    q, v, _ = random_numbers(joint, 6)
    half = [0.5 * x for x in v]
    twice = joint.integrate(joint.integrate(q, half), half)
    np.testing.assert_allclose(
        matrix_of(joint, twice), matrix_of(joint, joint.integrate(q, v)), rtol=0, atol=ROUNDING
    )


@each_joint
def test_articulated_step_is_that_of_dense_algebra(joint):
    """Featherstone 1987, eqs. 7.16-7.19, in 6 x 6 matrices."""
    q, tau, rng = random_numbers(joint, 7)
    inertia = random_inertia(rng).rigid.articulated() + random_inertia(rng).rigid
    IA, pA, c, a = inertia.matrix(), *rng.standard_normal((3, 6))
    Ia, pa, carry = eliminate_joint(joint, q, inertia, Force.from_array(pA), tau)
    pa = Ia.apply(Motion.from_array(c), start=pa)
    qdd, acceleration = accelerate_joint(joint, q, carry, Motion.from_array(a))
    S = np.array([s.array for s in joint.subspace(q)]).reshape(joint.nv, 6).T
    U = IA @ S
    D = np.linalg.inv(S.T @ U)
    u = np.array(tau) - S.T @ pA
    Ia_dense = IA - U @ D @ U.T
    # inertias differ by factors of about 100, so that inverting D costs two digits
    loose = 100 * ROUNDING
    np.testing.assert_allclose(Ia.matrix(), Ia_dense, rtol=0, atol=loose)
    np.testing.assert_allclose(pa.array, pA + Ia_dense @ c + U @ D @ u, rtol=0, atol=loose)
    qdd_dense = D @ (u - U.T @ a)
    scale = max(1.0, np.abs(qdd_dense).max(initial=0.0))
    np.testing.assert_allclose(qdd, qdd_dense, rtol=0, atol=loose * scale)
    np.testing.assert_allclose(acceleration.array, a + S @ qdd_dense, rtol=0, atol=loose * scale)


def test_free_joint_transmits_no_inertia():
    rng = np.random.default_rng(8)
    inertia = random_inertia(rng).rigid.articulated()
    tau = tuple(rng.standard_normal(6).tolist())
    c = Motion.from_array(rng.standard_normal(6))
    joint = Free("free")
    pA = Force.from_array(rng.standard_normal(6))
    Ia, pa, _ = eliminate_joint(joint, joint.random(rng), inertia, pA, tau)
    pa = Ia.apply(c, start=pa)
    np.testing.assert_allclose(Ia.matrix(), np.zeros((6, 6)), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(pa.array, tau, rtol=0, atol=ROUNDING)


def test_free_position_is_quaternion_then_origin_in_joint_axes():
    """A quarter turn about z and a move of (1, 2, 3)."""
    half = np.sqrt(0.5)
    T = matrix_of(Free("free"), (half, 0, 0, half, 1, 2, 3))
    expected = [[0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]
    np.testing.assert_allclose(T, expected, rtol=0, atol=ROUNDING)


def test_free_integration_follows_the_screw():
    """Half a turn about z at radius 1: forward speed pi in unit time ends 2 m to the left."""
    end = Free("free").integrate((1, 0, 0, 0, 0, 0, 0), (0, 0, np.pi, np.pi, 0, 0))
    np.testing.assert_allclose(end, (0, 0, 0, 1, 0, 2, 0), rtol=0, atol=ROUNDING)


def test_free_quaternion_may_have_any_length_and_normalize_removes_it():
    q = Free("free").random(np.random.default_rng(9))
    long = (*(3.0 * np.array(q[:4])), *q[4:])
    joint = Free("free")
    np.testing.assert_allclose(matrix_of(joint, long), matrix_of(joint, q), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(joint.normalize(long), q, rtol=0, atol=ROUNDING)
    dv = joint.difference(long, q)
    np.testing.assert_allclose(dv, np.zeros(6), rtol=0, atol=ROUNDING)


def test_revolute_turns_right_handed_by_q_plus_offset():
    joint = Revolute("hinge", (0, 0, 1), np.pi / 2)
    T = matrix_of(joint, (0.0,))
    assert T[:2, 0].tolist() == [0.0, 1.0]  # exactly: quarter turns of the offset are not rounded
    angle = 0.3
    np.testing.assert_allclose(
        matrix_of(joint, (angle,))[:2, 0], [-np.sin(angle), np.cos(angle)], rtol=0, atol=ROUNDING
    )


def test_nearly_unit_axis_is_normalized_with_a_warning_naming_the_joint():
    with pytest.warns(ModelWarning, match=r"joint 'elbow': axis has length 0\.9994 .*normalized"):
        joint = Revolute("elbow", (0, 0.9994, 0))
    assert joint.axis == (0.0, 1.0, 0.0)


def test_axis_typed_with_ten_digits_is_normalized_silently(recwarn):
    axis = random_axis(np.random.default_rng(1))
    joint = Revolute("elbow", np.round(axis, 10))
    assert np.linalg.norm(joint.axis) == pytest.approx(1.0, abs=4e-16)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Revolute("elbow", (0, 0.7, 0.7)),
            "axis must have length 1 within 0.001, got 0.98",
        ),
        (lambda: Revolute("elbow", (0, 0, 0)), "axis must have length 1 within 0.001, got 0 "),
        (lambda: Revolute("elbow", (0, 1)), "axis must be 3 numbers, got shape (2,)"),
        (lambda: Prismatic("elbow", (0, np.nan, 0)), "axis must be finite"),
        (lambda: Prismatic("elbow", offset=np.inf), "offset must be finite, got inf"),
        (
            lambda: Universal("elbow", (0, 0, 1), (0, 0, -1)),
            "axis and second_axis must have different directions, got [0.0, 0.0, 1.0]",
        ),
        (lambda: Universal("elbow", (0, 0, 1), (0, 2, 0)), "second_axis must have length 1"),
        (lambda: Screw("elbow", pitch=np.nan), "pitch must be finite, got nan"),
        (lambda: Planar("elbow", (1, 1, 0)), "axis must have length 1 within 0.001, got 1.41"),
        (lambda: Cylindrical("elbow", (1, 1)), "axis must be 3 numbers"),
        (lambda: RollingSphere("elbow", radius=0), "radius must be positive, got 0 m"),
        (lambda: Free("elbow", pose=(0, 0, 1)), "pose must be a Pose, got (0, 0, 1)"),
    ],
)
def test_invalid_joint_is_refused(make, message):
    with pytest.raises(ModelError) as caught:
        make()
    assert f"joint 'elbow': {message}" in str(caught.value)
    assert caught.value.name == "elbow"


@pytest.mark.parametrize("name", ["", "  ", 3, None])
def test_joint_needs_a_name(name):
    with pytest.raises(ModelError, match="joint: the name must be a non-empty string"):
        Fixed(name)


def test_joints_compare_by_value():
    pose = Pose(translation=(1, 2, 3))
    assert Revolute("a", [0, 0, 1], pose=pose) == Revolute("a", (0.0, 0.0, 1.0), pose=pose)
    assert hash(Revolute("a")) == hash(Revolute("a"))
    assert Revolute("a") != Prismatic("a")
    assert Revolute("a") != Revolute("a", offset=0.1)


@each_joint
def test_bracket_is_the_commutator_of_two_steps(joint):
    """The step a, then b, is a + b + [a, b] / 2 up to third order."""
    q, _, rng = random_numbers(joint, 9)
    size = len(joint.step(q, (0.0,) * joint.nv))
    a, b = rng.standard_normal((2, size))
    h = 1e-4  # third order: 1e-12, against a bracket of h^2 = 1e-8
    there = joint.move(joint.move(q, (h * a).tolist()), (h * b).tolist())
    half = 0.5 * h * h * np.array(joint.bracket(a.tolist(), b.tolist()))
    at_once = joint.move(q, (h * (a + b) + half).tolist())
    np.testing.assert_allclose(
        matrix_of(joint, at_once), matrix_of(joint, there), rtol=0, atol=2e-11
    )


@each_joint
def test_integrate_is_a_move_by_the_step_of_a_velocity(joint):
    q, v, _ = random_numbers(joint, 10)
    np.testing.assert_allclose(
        joint.integrate(q, v), joint.move(q, joint.step(q, v)), rtol=0, atol=ROUNDING
    )


@pytest.mark.parametrize("joint", [j for j in JOINTS if j.kind == "screw"], ids=lambda j: j.name)
def test_unit_force_of_a_screw_is_a_force_and_a_couple_along_it_that_do_unit_work(joint):
    """Force rho / (1 + rho^2) and couple 1 / (1 + rho^2) (Featherstone 1987, section 7.3)."""
    force, rho = joint.unit_force(), joint.pitch
    assert joint.project((0.3,), force)[0] == pytest.approx(1.0, rel=ROUNDING)
    share = 1.0 / (1.0 + rho * rho)
    np.testing.assert_allclose(force.force, rho * share * np.array(joint.axis), atol=ROUNDING)
    np.testing.assert_allclose(force.moment, share * np.array(joint.axis), atol=ROUNDING)


def test_screw_advances_by_pitch_per_radian():
    joint = Screw("thread", (0, 0, 1), pitch=0.01)
    T = matrix_of(joint, (2 * np.pi,))
    np.testing.assert_allclose(T[:3, 3], (0, 0, 0.02 * np.pi), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(T[:3, :3], np.eye(3), rtol=0, atol=ROUNDING)


def test_universal_turns_the_second_axis_with_the_first():
    """A quarter turn about x carries the second axis, y, to z: then turning about it moves x."""
    T = matrix_of(Universal("cross"), (np.pi / 2, np.pi / 2))
    np.testing.assert_allclose(T[:3, 1], (0, 0, 1), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(T[:3, 0], (0, 1, 0), rtol=0, atol=ROUNDING)


def test_planar_moves_along_axes_of_the_joint_frame():
    T = matrix_of(Planar("table"), (1.0, 2.0, np.pi / 2))
    np.testing.assert_allclose(T[:3, 3], (1, 2, 0), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(T[:3, 0], (0, 1, 0), rtol=0, atol=ROUNDING)


@each_joint
def test_canonical_axes_give_the_same_motion(joint):
    """The joint in its own axes, turned back, moves the body as before; axes are then simple."""
    axes, simple = joint.canonical()
    Q = np.eye(4)
    Q[:3, :3] = axes
    for seed in range(3):
        q, v, _ = random_numbers(joint, seed)
        T = Q @ matrix_of(simple, q) @ Q.T
        np.testing.assert_allclose(T, matrix_of(joint, q), rtol=0, atol=ROUNDING)
        turned = simple.motion(q, v)
        found = [Q[:3, :3] @ turned.angular, Q[:3, :3] @ turned.linear]
        np.testing.assert_allclose(np.ravel(found), joint.motion(q, v).array, atol=ROUNDING)
    if joint.kind in ("cylindrical", "planar"):
        assert sorted(map(abs, simple.axis)) == [0.0, 0.0, 1.0]
    if joint.kind == "universal":
        assert sorted(map(abs, simple.second_axis)) == [0.0, 0.0, 1.0]
        assert 0.0 in simple.axis
