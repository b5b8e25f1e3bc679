"""Projection of configurations and velocities onto loops; directions that rounding decides."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.dense import dense_constraints
from tests.loops.test_methods import dense, motion
from tiburon.algorithms.crba import crba
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops import projection

RANDOM = np.random.default_rng(10)


def near_home(model, size):
    home = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
    return model.integrate(home, size * RANDOM.standard_normal(model.nv))


@pytest.mark.parametrize("name", ["four_bar", "stewart", "bricard"])
def test_newton_steps_close_the_loops(name):
    model = tb.load(name)
    q = near_home(model, 1e-3)
    assert np.abs(tb.constraint_residual(model, q)).max() > 1e-5
    found = tb.project_configuration(model, q)
    assert found.steps <= 4
    assert found.residual < 1e-12
    # the gap itself is rounding, and differs between two ways to compute it
    assert abs(np.abs(tb.constraint_residual(model, found.q)).max() - found.residual) < 1e-14
    # as little as it takes: of the order of the gap
    assert np.abs(model.difference(q, found.q)).max() < 0.1


@pytest.mark.parametrize("name", ["four_bar", "stewart", "bricard"])
def test_projected_velocity_satisfies_loops_with_least_energy_change(name):
    model = tb.load(name)
    tree = model.without_loops()
    q = tb.project_configuration(model, near_home(model, 0.01)).q
    v = RANDOM.standard_normal(model.nv)
    kept = tb.project_velocity(model, q, v)
    J, H = tb.loop_jacobian(model, q), tb.mass_matrix(tree, q)
    # Bricard is singular for every pose: its last singular value is what closing left, 1e-6 cut
    assert np.abs(J @ kept).max() < 1e-11
    # what was taken out does no work along what is allowed: orthogonal in the metric of H
    assert abs((v - kept) @ H @ kept) < 1e-11 * (v @ H @ v)
    np.testing.assert_allclose(tb.project_velocity(model, q, kept), kept, atol=1e-12)


def test_residuals_that_cannot_vanish_are_reported():
    """Pivots moved too far apart for the rods to reach: the gap that is left says so."""
    model = tb.load("four_bar")
    away = replace(model.body("rocker").joint, pose=tb.Pose(translation=(5.0, 0.0, 0.0)))
    bodies = [replace(b, joint=away) if b.name == "rocker" else b for b in model.bodies]
    torn = tb.Model("torn", bodies, loops=model.loops)
    found = tb.project_configuration(torn, model.poses["home"])
    # rods of 0.4, 1.1 and 0.9 m between pivots 5 m apart
    assert found.residual > (5.0 - 0.4 - 1.1 - 0.9) / np.sqrt(3.0)
    assert found.steps == 10


@interpreting()
def test_constraint_forces_balance_joint_forces():
    """H vd + C = tau + J^T lambda, with the mass matrix and bias force of the tree."""
    model = tb.load("stewart")
    tree = model.without_loops()
    q = tb.project_configuration(model, near_home(model, 0.01)).q
    v = tb.project_velocity(model, q, RANDOM.standard_normal(model.nv))
    tau = RANDOM.standard_normal(model.nv)
    found = tb.loop_dynamics(model, q, v, tau)
    J = tb.loop_jacobian(model, q)
    left = tb.inverse_dynamics(tree, q, v, found.acceleration)
    np.testing.assert_allclose(left, tau + J.T @ found.constraint_force, atol=1e-11)
    assert found.rank == 18
    assert 0.0 < found.ratio <= 1.0


def test_functions_of_loops_refuse_trees():
    with pytest.raises(tb.ModelError, match="is for robots with loops"):
        tb.constraint_residual(tb.load("panda"), tb.load("panda").neutral())


# -- next to singular configurations ---------------------------------------------------------------


SINGULAR_RANDOM = np.random.default_rng(36)

BRANCH = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
"""How two four-bars lean; at a quarter turn they lie on one line and could go several ways."""

ROUNDING = 1e-13
"""What a step may leave of gaps, far below what counts as closed [rad]."""


def jump(distance):
    """Project a state of the branch with rounding beside its singular pose.

    Returns:
        Largest change of the velocity of some cases, in the metric of the mass matrix.
    """
    model = tb.load("n_four_bar_2")
    found = []
    for _ in range(5):
        off = ROUNDING * SINGULAR_RANDOM.standard_normal(5)
        q, v = JointVector(list((np.pi / 2 - distance) * BRANCH + off)), list(0.7 * BRANCH)
        _, kept, residual = projection.projected_state(model, model.plan, q, v)
        change = np.array(kept) - v
        H = np.array(crba(model.plan, q), dtype=float)
        found.append(np.sqrt(change @ H @ change))
        assert residual < 1e-12
    return max(found)


@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
def test_projection_does_not_rotate_velocities(distance):
    assert jump(distance) < 1e-6


def test_projection_without_rank_threshold_rotates_velocities(monkeypatch):
    """Rounding over the squared distance: the check above can fail."""
    monkeypatch.setattr(projection, "PROJECTION_CUT", 1e-10)
    assert jump(1e-6) > 1e-6


@pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-5])
def test_the_ratio_measures_how_near_a_singular_pose_is(distance):
    """Rows that shrink together are as singular as rows that repeat each other."""
    model = tb.load("n_four_bar_2")
    q, v = (np.pi / 2 - distance) * BRANCH, 0.7 * BRANCH
    _, _, ratio, _ = dense(model, q, v, np.zeros(5))
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    for method in ("augmented", "handles"):
        # an estimate from pivots: right to a small factor
        found = float(motion(model, q, v, np.zeros(5), method).ratio)
        assert ratio / 3.0 < found < 3.0 * ratio, method


@pytest.mark.parametrize("name", ["four_bar", "stewart", "two_pumas"])
def test_held_joints_keep_their_velocity_and_loops_stay_closed(name):
    """Of all velocities that do, the projected one is the nearest in the metric of the mass."""
    robot = tb.load(name)
    q = tb.assemble(robot).q
    rng = np.random.default_rng(4)
    v = rng.normal(size=robot.nv)
    mobility = tb.mobility(robot, q).mobility
    motors = robot.actuated_joint_names[:mobility]
    one = motors[:1]
    found = tb.project_velocity(robot, q, v, hold=one)
    J, M = tb.loop_jacobian(robot, q), tb.mass_matrix(robot.without_loops(), q)
    place = robot.indices(one, of="v")
    assert np.array_equal(found[place], v[place])
    assert np.abs(J @ found).max() < 1e-9
    # the change is M-orthogonal to every motion that holds the joint and keeps loops closed
    rows = np.concatenate([J, np.eye(robot.nv)[place]])
    _, sizes, basis = np.linalg.svd(rows)
    free = basis[int((sizes > 1e-9 * sizes[0]).sum()) :]
    assert np.abs(free @ M @ (found - v)).max(initial=0.0) < 1e-8
    # batches, with the bits of single calls; nothing held is the plain projection
    many = tb.project_velocity(robot, np.stack([q, q]), np.stack([v, v]), hold=one)
    assert np.array_equal(many[1], found)
    plain = tb.project_velocity(robot, q, v, hold=())
    assert np.array_equal(plain, tb.project_velocity(robot, q, v))


def test_velocities_that_open_loops_cannot_be_held():
    robot = tb.load("four_bar")
    q = tb.assemble(robot).q
    with pytest.raises(tb.TiburonError, match="hold fewer joints"):
        tb.project_velocity(robot, q, np.arange(1.0, robot.nv + 1.0), hold=robot.moving_joint_names)
    with pytest.raises(tb.UnknownNameError, match="cranc"):
        tb.project_velocity(robot, q, np.zeros(robot.nv), hold="cranc")
