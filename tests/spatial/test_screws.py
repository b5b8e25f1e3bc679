"""Screws, joint axes and accelerations (rows A3-A5, A10)."""

import numpy as np
import pytest

from tests.spatial.dense import (
    assert_close,
    random_force,
    random_motion,
    random_rotation,
    random_transform,
)
from tiburon.spatial import (
    Force,
    Motion,
    RigidInertia,
    Transform,
    axis_angle_to_matrix,
    classical_acceleration_at,
    classical_to_spatial,
    decompose,
    free_motion,
    line_motion,
    matrix_to_rotation_vector,
    prismatic_axis,
    revolute_axis,
    screw_axis,
    screw_unit_force,
    spatial_acceleration_from_point,
    spatial_to_classical,
)


@pytest.fixture
def rng():
    """Return a seeded source of random numbers."""
    return np.random.default_rng(23)


@pytest.mark.parametrize("random", [random_motion, random_force])
def test_a_vector_is_the_sum_of_a_line_and_a_parallel_free_vector(random, rng):
    """A3: a = [a; a_O - rho a] + [0; rho a], the line part passing through the axis point."""
    vector, a = random(rng)
    screw = decompose(vector)
    assert_close((screw.line + screw.free).array, a)
    line, free = (a[:3], a[3:]) if isinstance(vector, Motion) else (a[3:], a[:3])
    assert screw.pitch == pytest.approx(line @ free / (line @ line))
    # a line vector has its two parts at right angles and vanishes nowhere on the axis
    first, second = np.split(screw.line.array, 2)
    assert first @ second == pytest.approx(0.0, abs=1e-14)
    assert np.dot(screw.point, line) == pytest.approx(0.0, abs=1e-14)
    assert_close(np.cross(screw.point, line), free - screw.pitch * line)


@pytest.mark.parametrize("random", [random_motion, random_force])
def test_pitch_and_axis_do_not_depend_on_the_frame(random, rng):
    """A3: the pitch is the same and the axis is the same line after any transform."""
    (vector, _), (X, _) = random(rng), random_transform(rng)
    moved = X.motion(vector) if isinstance(vector, Motion) else X.force(vector)
    here, there = decompose(vector), decompose(moved)
    assert there.pitch == pytest.approx(here.pitch, rel=1e-11)
    point, direction = np.array(X.point(here.point)), np.array(there.point)
    line = there.line.angular if isinstance(vector, Motion) else there.line.force
    # both points lie on one line along the moved direction
    assert_close(np.cross(point - direction, line), np.zeros(3), 1e-11)


def test_points_of_the_axis_move_along_it(rng):
    """A3: on the screw axis the velocity of a body is pitch times angular velocity."""
    v, _ = random_motion(rng)
    screw = decompose(v)
    assert_close(v.at_point(screw.point), screw.pitch * np.array(v.angular))


def test_line_and_free_motions(rng):
    """A3: building a screw from its axis and pitch, and taking it apart again."""
    omega, point, pitch = rng.normal(size=3), rng.normal(size=3), 0.4
    m = line_motion(omega, point, pitch)
    assert decompose(m).pitch == pytest.approx(pitch)
    assert_close(m.at_point(point), pitch * omega)
    assert_close(free_motion((1, 2, 3)).array, [0, 0, 0, 1, 2, 3])


def displaced(kind, axis, point, pitch, q):
    """Return the pose matrix and origin of a body moved by q along a joint axis."""
    R = np.eye(3) if kind == "prismatic" else np.array(axis_angle_to_matrix(axis, q))
    slide = {"revolute": 0.0, "prismatic": 1.0, "screw": pitch}[kind]
    return R, point - R @ point + slide * q * axis


@pytest.mark.parametrize("kind", ["revolute", "prismatic", "screw"])
def test_relative_velocity_is_the_joint_axis_times_the_rate(kind, rng):
    """A4: v = s qdot for each kind, against differences of the displacement."""
    axis, point, pitch = rng.normal(size=3), rng.normal(size=3), 0.3
    axis /= np.linalg.norm(axis)
    s = {
        "revolute": revolute_axis(axis, point),
        "prismatic": prismatic_axis(axis),
        "screw": screw_axis(axis, pitch, point),
    }[kind]
    q, h = 0.8, 1e-5
    (Rm, pm), (_, p), (Rp, pp) = (displaced(kind, axis, point, pitch, x) for x in (q - h, q, q + h))
    omega = np.array(matrix_to_rotation_vector(Rp @ Rm.T)) / (2 * h)
    # world velocity of the body point at the world origin
    linear = (pp - pm) / (2 * h) + np.cross(p, omega)
    # differences: truncation h^2, rounding 1e-16 / h
    assert_close(s.array, np.concatenate([omega, linear]), 1e-9)


def test_unit_screw_force_does_unit_work(rng):
    """The force rho/(1+rho^2) with the couple 1/(1+rho^2) does 1 J on the unit screw."""
    axis, point = random_rotation(rng)[0], rng.normal(size=3)
    f, s = screw_unit_force(axis, 0.7, point), screw_axis(axis, 0.7, point)
    assert f.dot(s) == pytest.approx(1.0)
    assert np.linalg.norm(f.force) == pytest.approx(0.7 / 1.49)


def test_velocity_of_a_chain_is_the_jacobian_times_the_rates(rng):
    """A5: v_n = [s_1 ... s_n] qdot in world axes, against differences of the pose."""
    moves = [random_transform(rng, ("translation", "rotation"))[0] for _ in range(3)]
    q, rates, h = rng.normal(size=3), rng.normal(size=3), 1e-5

    def chain(angles):
        """Return tip-from-world, and the world-fixed axis of every joint."""
        X, axes = Transform.identity(), []
        for move, angle in zip(moves, angles, strict=True):
            X = X.then(move)
            axes.append(X.motion_to_parent(revolute_axis((0.0, 0.0, 1.0))))
            X = X.then(Transform.axis_rotation(2, angle))
        return X, axes

    (X, axes), (ahead, _), (behind, _) = (chain(q + rates * t) for t in (0.0, h, -h))
    velocity = sum((s * float(rate) for s, rate in zip(axes, rates, strict=True)), Motion.zero())
    R = [np.array(x.rotation).T for x in (behind, ahead)]
    omega = np.array(matrix_to_rotation_vector(R[1] @ R[0].T)) / (2 * h)
    tip = (np.array(ahead.translation) - np.array(behind.translation)) / (2 * h)
    linear = tip + np.cross(X.translation, omega)
    assert_close(velocity.array, np.concatenate([omega, linear]), 1e-8)


def test_steady_rotation_has_no_spatial_acceleration():
    """A10: m = 2 kg at 0.5 m turning at 3 rad/s needs 9 N towards the axis, all of it v x* I v."""
    mass, radius, rate = 2.0, 0.5, 3.0
    body = RigidInertia.from_mass(mass, (radius, 0.0, 0.0), [0.1, 0.2, 0.3])
    v = Motion((0.0, 0.0, rate), (0.0, 0.0, 0.0))
    force = body.apply(Motion.zero()) + body.bias(v)
    assert_close(force.array, [0, 0, 0, -9.0, 0, 0])
    classical = classical_acceleration_at((radius, 0.0, 0.0), Motion.zero(), v)
    assert_close(classical, [-rate * rate * radius, 0.0, 0.0])


def test_spatial_and_classical_accelerations_are_inverse(rng):
    """A10: they differ by omega x v and nothing else."""
    (a, _), (v, _) = random_motion(rng), random_motion(rng)
    classical = spatial_to_classical(a, v)
    assert_close(classical.linear, np.add(a.linear, np.cross(v.angular, v.linear)))
    assert_close(classical_to_spatial(classical, v).array, a.array)
    assert_close(classical.linear, classical_acceleration_at((0, 0, 0), a, v))


def test_spatial_acceleration_from_any_point_is_the_same(rng):
    """A10: eq. 2.29 gives one answer, whichever body point the data come from."""
    (a, _), (v, _) = random_motion(rng), random_motion(rng)
    for r in rng.normal(size=(3, 3)):
        found = spatial_acceleration_from_point(
            r, v.at_point(r), classical_acceleration_at(r, a, v), v.angular, a.angular
        )
        assert_close(found.array, a.array)


def test_classical_acceleration_is_the_second_derivative_of_a_point():
    """A10: against differences of a body in known motion, p(t) = t^2, turning about z."""
    w, r = 1.3, np.array([0.4, -0.2, 0.7])

    def position(t):
        return (
            np.array([t * t, 0.5 * t, 0.0]) + np.array(axis_angle_to_matrix((0, 0, 1), w * t)) @ r
        )

    t, h = 0.6, 1e-4
    origin, rate = np.array([t * t, 0.5 * t, 0.0]), np.array([2 * t, 0.5, 0.0])
    # spatial velocity and acceleration at the world origin, by hand
    omega = np.array([0.0, 0.0, w])
    v = Motion(tuple(omega), tuple(rate + np.cross(origin, omega)))
    a = Motion((0.0, 0.0, 0.0), tuple(np.array([2.0, 0.0, 0.0]) + np.cross(rate, omega)))
    second = (position(t + h) - 2 * position(t) + position(t - h)) / (h * h)
    # second differences: truncation h^2 / 12, rounding 4e-16 / h^2
    assert_close(classical_acceleration_at(position(t), a, v), second, 2e-7)


def test_force_screw_of_a_pure_force_has_no_pitch(rng):
    """A2, A3: a force along a line has pitch zero, and its axis is that line."""
    f, p = rng.normal(size=3), rng.normal(size=3)
    screw = decompose(Force.at_point(f, p))
    assert screw.pitch == pytest.approx(0.0, abs=1e-15)
    assert_close(np.cross(np.array(screw.point) - p, f), np.zeros(3))
