"""Constraints of loops: closed exactly where the joint allows it, with the right rates."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import closed, dense_constraints

RANDOM = np.random.default_rng(8)

KINDS = {
    "fixed": tb.Fixed("tie"),
    "revolute": tb.Revolute("tie", (0.6, 0.0, 0.8)),
    "prismatic": tb.Prismatic("tie", (0.0, 0.6, 0.8)),
    "cylindrical": tb.Cylindrical("tie", (0.6, 0.8, 0.0)),
    "screw": tb.Screw("tie", (0.6, 0.0, -0.8), pitch=0.3, lead=0.2),
    "universal": tb.Universal("tie", (0.6, 0.8, 0.0), (0.0, 0.6, 0.8)),
    "spherical": tb.Spherical("tie"),
    "planar": tb.Planar("tie", (0.48, 0.6, 0.64)),
}

STEP = 1e-6
"""Of central differences: their error is some 1e-10 for motions of order one."""


def random_pose():
    return tb.Pose.from_rpy(RANDOM.uniform(-1, 1, 3), RANDOM.uniform(-0.5, 0.5, 3))


def two_floating_bodies(joint):
    """Two free bodies tied by a joint between places away from their origins."""
    inertia = tb.Inertia(1.3, (0.1, -0.2, 0.05), (0.2, 0.01, 0.02, 0.3, -0.03, 0.25))
    bodies = [tb.Body(n, joint=tb.Free(f"{n} float"), inertia=inertia) for n in ("one", "two")]
    tie = replace(joint, pose=random_pose())
    loop = tb.LoopClosure("tie loop", "one", "two", tie, random_pose())
    return tb.Model("pair", bodies, loops=[loop])


@pytest.mark.parametrize("kind", KINDS)
def test_pose_allowed_by_the_joint_has_zero_residual(kind):
    model = two_floating_bodies(KINDS[kind])
    (loop,) = model.loops
    q = model.neutral()
    own = np.array(loop.joint.random(RANDOM))
    first = loop.joint.pose.transform
    moved = first.then(loop.joint.transform(own.tolist()))
    second = moved.then(loop.second_pose.transform.inverse())
    # the first body stands in the world
    q[7:11] = _quaternion(np.array(second.rotation).T)
    q[11:14] = second.translation
    assert np.abs(dense_constraints(model, q).value).max() < 1e-13


def _quaternion(R):
    w = np.sqrt(max(0.0, 1.0 + np.trace(R))) / 2.0
    vector = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    return np.array([w, *vector / (4.0 * w)])


@pytest.mark.parametrize("kind", KINDS)
def test_constraint_rows_equal_the_motions_that_a_joint_forbids(kind):
    joint = KINDS[kind]
    model = two_floating_bodies(joint)
    q = model.integrate(model.neutral(), RANDOM.standard_normal(model.nv))
    J = dense_constraints(model, q).J
    assert np.linalg.matrix_rank(J) == J.shape[0] == 6 - joint.nv


@pytest.mark.parametrize("kind", KINDS)
def test_jacobian_and_bias_are_rates_of_the_values(kind):
    model = two_floating_bodies(KINDS[kind])
    v = RANDOM.standard_normal(model.nv)
    # turns and threads have exact rows only where they are closed: start from a closed place
    q = closed(model, model.integrate(model.neutral(), 0.5 * RANDOM.standard_normal(model.nv)))
    ahead, behind = (model.integrate(q, s * STEP * v) for s in (1.0, -1.0))
    here = dense_constraints(model, q, v)
    rate = (dense_constraints(model, ahead).value - dense_constraints(model, behind).value) / (
        2.0 * STEP
    )
    np.testing.assert_allclose(here.J @ v, rate, atol=1e-8)
    J_ahead, J_behind = (dense_constraints(model, x).J for x in (ahead, behind))
    np.testing.assert_allclose(here.bias, (J_ahead - J_behind) @ v / (2.0 * STEP), atol=1e-8)


def test_constraint_rows_of_common_ancestors_vanish():
    """What carries both ends of a loop does not appear in its rows."""
    model = tb.load("strandbeest")
    q = model.integrate(model.neutral(), 0.2 * RANDOM.standard_normal(model.nv))
    J = dense_constraints(model, q).J
    assert np.all(J[:, :6] == 0.0)
