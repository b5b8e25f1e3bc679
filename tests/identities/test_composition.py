"""Composed and locked robots on random trees of every joint kind."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tiburon as tb
from tests.model.places import place_of
from tests.model.samples import random_pose
from tests.running import OnFloats
from tests.strategies import GRAVITY, models, seeds, state
from tests.tolerances import SOLVE, assert_close
from tiburon.algorithms.hybrid import hybrid_aba


def scale_of(H, *vectors):
    """Return the size of the numbers that are added up to a joint force."""
    return max(1.0, np.abs(H).max()) * max(10.0, *(float(x @ x) for x in vectors))


@given(models(), seeds, st.data())
def test_locked_joints_equal_joints_held_by_prescribed_zero_motion(model, seed, data):
    """Blocks of H, entries of tau and all frames of the whole robot remain (7.5.2, all known)."""
    names = data.draw(st.lists(st.sampled_from(model.moving_joint_names), unique=True))
    q, v, vd, _ = state(model, seed)
    held = model.indices(names, of="v")
    v[held] = vd[held] = 0.0
    reduced = model.lock(names, q)
    kept = reduced.moving_joint_names
    iq, iv = model.indices(kept), model.indices(kept, of="v")
    whole, part = OnFloats(model, GRAVITY), OnFloats(reduced, GRAVITY)
    H = whole.mass_matrix(q)
    # all joints may be locked; a matrix without rows has lost its second dimension
    ours = part.mass_matrix(q[iq]).reshape(len(iv), len(iv))
    assert_close(ours, H[np.ix_(iv, iv)], scale=max(1.0, np.abs(H).max()))
    tau = whole.inverse_dynamics(q, v, vd)
    ours = part.inverse_dynamics(q[iq], v[iv], vd[iv])
    assert_close(ours, tau[iv], scale=scale_of(H, v, vd))
    for name in model.frame_names:
        for a, b in zip(place_of(reduced, q[iq], name), place_of(model, q, name), strict=True):
            assert_close(a, b, scale=10.0)


@given(models(), seeds, st.data())
def test_locked_robot_agrees_with_hybrid_dynamics(model, seed, data):
    """Known zero accelerations and velocities hold joints as a weld does (7.36-7.38)."""
    names = data.draw(st.lists(st.sampled_from(model.moving_joint_names), unique=True))
    q, v, vd, tau = state(model, seed)
    held = model.indices(names, of="v")
    v[held] = vd[held] = 0.0
    known = np.isin(np.arange(model.nv), held).tolist()
    numbers = [x.tolist() for x in (q, v, tau, vd)]
    whole, _ = hybrid_aba(model.plan, *numbers, known, GRAVITY)
    reduced = model.lock(names, q)
    kept = reduced.moving_joint_names
    iq, iv = model.indices(kept), model.indices(kept, of="v")
    part = OnFloats(reduced, GRAVITY)
    H = part.mass_matrix(q[iq]).reshape(len(iv), len(iv))
    condition = np.linalg.cond(H) if len(iv) else 1.0
    found = part.forward_dynamics(q[iq], v[iv], tau[iv])
    assert_close(found, np.array(whole)[iv], SOLVE * condition)


@given(models(most=4), models(most=4), seeds)
def test_two_robots_in_one_world_are_decoupled(one, two, seed):
    """Attached to the world anywhere, each keeps its inertia and, gravity turned, its forces."""
    pose = random_pose(np.random.default_rng(seed))
    both = one.attach(two, at="world", pose=pose, prefix="second_")
    q, v, vd, _ = state(both, seed)
    nq, nv = one.nq, one.nv
    turned = np.array(pose.rotation).T @ GRAVITY
    whole = OnFloats(both, GRAVITY)
    first, second = OnFloats(one, GRAVITY), OnFloats(two, tuple(turned.tolist()))
    H = whole.mass_matrix(q)
    scale = max(1.0, np.abs(H).max())
    assert_close(H[:nv, :nv], first.mass_matrix(q[:nq]), scale=scale)
    assert_close(H[nv:, nv:], second.mass_matrix(q[nq:]), scale=scale)
    assert (H[:nv, nv:] == 0.0).all()
    tau = whole.inverse_dynamics(q, v, vd)
    scale = scale_of(H, v, vd)
    assert_close(tau[:nv], first.inverse_dynamics(q[:nq], v[:nv], vd[:nv]), scale=scale)
    assert_close(tau[nv:], second.inverse_dynamics(q[nq:], v[nv:], vd[nv:]), scale=scale)


@given(models(most=4), models(most=4), seeds)
def test_attached_robot_depends_only_on_the_motion_of_its_mount(one, two, seed):
    """With the carrier locked, what it carries is a robot on the world at the mount's place."""
    both = one.attach(two, at="tip", prefix="second_")
    q, v, vd, _ = state(both, seed)
    reduced = both.lock(one.moving_joint_names, q)
    R, p = place_of(one, q[: one.nq], "tip")
    nq, nv = one.nq, one.nv
    alone = tb.Model("stand", []).attach(two, at="world", pose=tb.Pose(R, p), prefix="second_")
    assert reduced.moving_joint_names == alone.moving_joint_names
    a, b = OnFloats(reduced, GRAVITY), OnFloats(alone, GRAVITY)
    H = a.mass_matrix(q[nq:])
    assert_close(H, b.mass_matrix(q[nq:]), scale=max(1.0, np.abs(H).max()))
    ours = a.inverse_dynamics(q[nq:], v[nv:], vd[nv:])
    theirs = b.inverse_dynamics(q[nq:], v[nv:], vd[nv:])
    assert_close(ours, theirs, scale=scale_of(H, v, vd))
