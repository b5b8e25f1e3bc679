"""Mobility and condition numbers of many configurations; accelerations that keep loops closed."""

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tiburon.functions.mobility import singular_values


def closed(name, count, seed=0):
    model = tb.load(name)
    home = np.array(model.poses.get("home", model.neutral()))
    rng = np.random.default_rng(seed)
    guess = model.integrate(
        np.broadcast_to(home, (count, model.nq)), 0.05 * rng.standard_normal((count, model.nv))
    )
    found = tb.project_configuration(model, guess)
    return model, found.q[found.residual < 1e-11], rng


@pytest.mark.parametrize("name", ["four_bar", "five_bar", "planar_3rrr"])
def test_a_map_has_the_ranks_of_single_configurations(name):
    model, q, _ = closed(name, 6)
    for driven in (None, [model.joints[-1].name], []):
        found = tb.mobility_map(model, q.reshape(len(q), 1, -1), driven=driven)
        assert found.mobility.shape == (len(q), 1)
        for k, pose in enumerate(q):
            one = tb.mobility(model, pose, driven=driven)
            assert found.mobility[k, 0] == one.mobility
            assert found.loose_mobility[k, 0] == one.loose_mobility
            assert np.isfinite(found.condition[k, 0]) == np.isfinite(one.condition)


def test_a_flat_four_bar_is_singular():
    """A parallelogram, by its crank angle: mobility 2 where all bars are in line, else 1."""
    bar = tb.Inertia.cylinder(mass=1.0, radius=0.02, length=1.0, axis=0, com=(0.5, 0, 0))

    def link(name, parent, length):
        pose = tb.Pose(translation=(length, 0.0, 0.0))
        joint = tb.Revolute(f"{name}_joint", axis=(0, 0, 1), pose=pose)
        return tb.Body(name, parent, joint=joint, inertia=bar)

    bodies = [link("crank", "world", 0.0), link("coupler", "crank", 1.0)]
    bodies.append(link("rocker", "coupler", 2.0))
    closing = tb.Revolute("closing", axis=(0, 0, 1), pose=tb.Pose(translation=(2.0, 0.0, 0.0)))
    loop = tb.LoopClosure(
        "closing", "world", "rocker", joint=closing, second_pose=tb.Pose(translation=(1, 0, 0))
    )
    model = tb.Model("parallelogram", bodies, loops=[loop])
    angle = np.linspace(0.0, 0.5, 6)
    # rocker parallel to the crank, pointing back to the ground
    q = np.stack([angle, -angle, angle + np.pi], axis=1)
    found = tb.mobility_map(model, q, driven=["crank_joint"])
    assert found.residual.max() < 1e-12
    assert found.mobility.tolist() == [2, 1, 1, 1, 1, 1]
    assert found.smallest[0] < 1e-12
    assert np.isinf(found.condition[0])
    # farther from the singular pose the crank holds the others better
    assert (np.diff(found.condition[1:]) < 0.0).all()
    assert (np.diff(found.smallest) > 0.0).all()


def test_singular_values_near_singular_matrices_keep_their_digits():
    rng = np.random.default_rng(3)
    U, _, Vt = np.linalg.svd(rng.standard_normal((40, 5, 7)), full_matrices=False)
    s = np.array([3.0, 2.0, 1.0, 0.5, 1e-3]) * np.ones((40, 1))
    s[::2, -1] = 1e-10
    found = singular_values(U * s[:, None] @ Vt)
    # squares of ratios above 1e-4 lose 8 digits of 16; the rest is a decomposition
    np.testing.assert_allclose(found, s, rtol=1e-8, atol=1e-14)
    transposed = singular_values(np.swapaxes(U * s[:, None] @ Vt, -1, -2))
    np.testing.assert_allclose(transposed, s, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("name", ["four_bar", "stewart"])
@interpreting()
def test_projected_accelerations_keep_loops_closed(name):
    model, q, rng = closed(name, 3)
    v = tb.project_velocity(model, q, rng.standard_normal((len(q), model.nv)))
    given = rng.standard_normal((len(q), model.nv))
    vd = tb.project_acceleration(model, q, v, given)
    # forward dynamics keeps loops closed: its accelerations stay as they are
    free = tb.forward_dynamics(model, q, v, given)
    np.testing.assert_allclose(
        tb.project_acceleration(model, q, v, free), free, rtol=1e-9, atol=1e-9
    )
    h = 1e-4
    ends = [
        tb.constraint_residual(model, model.integrate(q, sign * h * v + 0.5 * h * h * vd))
        for sign in (1.0, -1.0)
    ]
    second = (ends[0] + ends[1] - 2.0 * tb.constraint_residual(model, q)) / h**2
    # truncation h^2 of fourth derivatives of some hundred, rounding 1e-16 / h^2
    assert np.abs(second).max() < 1e-5
    opened = [
        tb.constraint_residual(model, model.integrate(q, sign * h * v + 0.5 * h * h * given))
        for sign in (1.0, -1.0)
    ]
    assert np.abs((opened[0] + opened[1]) / h**2).max() > 1e-2
    names = model.actuated_joint_names or (model.joints[0].name,)
    held = tb.project_acceleration(model, q, v, given, hold=names)
    places = model.indices(names, of="v")
    assert np.array_equal(held[:, places], given[:, places])


def test_trees_are_refused():
    with pytest.raises(tb.ModelError, match="model must have loops"):
        tb.mobility_map(tb.load("panda"), np.zeros(8))
