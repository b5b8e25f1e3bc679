"""The structured algorithms against dense 6x6 ones in world coordinates."""

import numpy as np
import pytest
from hypothesis import given

from tests.oracles import absolute
from tests.robots import ROBOTS
from tests.running import WAYS, OnFloats
from tests.strategies import GRAVITY, few_examples, models, seeds, state
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tiburon.algorithms.kinematics import frame_places


def force_scale(model, q, v, vd):
    """Return how large the terms are that inverse dynamics adds up."""
    scale = np.abs(absolute.crba(model, q)) @ np.abs(vd) + np.abs(
        absolute.rnea(model, q, v, 0.0 * vd, GRAVITY)
    )
    return max(1.0, float(scale.max()))


def check_all(model, seed, way):
    """Compare every algorithm with its oracle in one state."""
    q, v, vd, tau = state(model, seed)
    ours = way(model, GRAVITY)
    H = absolute.crba(model, q)
    assert_close(ours.mass_matrix(q), H)
    expected = absolute.rnea(model, q, v, vd, GRAVITY)
    assert_close(ours.inverse_dynamics(q, v, vd), expected, scale=force_scale(model, q, v, vd))
    expected = absolute.aba(model, q, v, tau, GRAVITY)
    scale = max(1.0, float(np.abs(expected).max())) * np.linalg.cond(H)
    assert_close(ours.forward_dynamics(q, v, tau), expected, SOLVE, scale)
    assert_close(ours.kinetic_energy(q, v), absolute.kinetic_energy(model, q, v))
    weight = 10.0 * model.total_mass
    expected = absolute.potential_energy(model, q, GRAVITY)
    assert_close(ours.potential_energy(q), expected, ALGEBRA, max(1.0, weight))


@few_examples
@given(models(), seeds)
def test_algorithms_equal_dense_oracles_on_random_trees(model, seed):
    """RNEA, CRBA, ABA and the energies agree with their dense forms on any tree."""
    check_all(model, seed, OnFloats)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", ROBOTS)
def test_algorithms_equal_dense_oracles_on_the_fixed_robots(name, way):
    """The same on the fixed list, on floats and on the graph."""
    check_all(ROBOTS[name], 7, way)


@few_examples
@given(models(), seeds)
def test_frames_are_where_homogeneous_matrices_put_them(model, seed):
    """Every named frame has the pose that multiplying 4x4 matrices gives."""
    q, *_ = state(model, seed)
    for name, place in zip(
        model.frame_names, frame_places(model.plan, q.tolist(), model.frame_names), strict=True
    ):
        pose = absolute.frame_pose(model, q, name)
        assert_close(place.R, pose[:3, :3])
        assert_close(place.p, pose[:3, 3])


@pytest.mark.parametrize("axes", ["frame", "world"])
@few_examples
@given(models(), seeds)
def test_external_forces_equal_dense_oracles(axes, model, seed):
    """A force at a body and one at a frame act as they do in world coordinates."""
    q, v, vd, tau = state(model, seed)
    rng = np.random.default_rng(seed)
    external = {name: rng.standard_normal(6) for name in ("body0", "tip", "world")}
    ours = OnFloats(model, GRAVITY)
    expected = absolute.rnea(model, q, v, vd, GRAVITY, external, axes)
    actual = ours.inverse_dynamics(q, v, vd, external, axes)
    assert_close(actual, expected, scale=10.0 + force_scale(model, q, v, vd))
    expected = absolute.aba(model, q, v, tau, GRAVITY, external, axes)
    scale = max(1.0, float(np.abs(expected).max())) * np.linalg.cond(absolute.crba(model, q))
    assert_close(ours.forward_dynamics(q, v, tau, external, axes), expected, SOLVE, scale)
