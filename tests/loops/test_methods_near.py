"""Methods 1 and 2 on random mechanisms next to singular: pins a small distance apart.

Two bodies that are pinned twice cannot turn against each other; the nearer the pins, the harder
rotation is to hold: the ratio of singular values goes with their distance, and the forces with its
inverse. Nothing may be squared on the way.
"""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import dense_constraints
from tests.loops.random_mechanisms import _closed_here, random_mechanism
from tests.loops.test_methods import dense, motion

RANDOM = np.random.default_rng(37)

EPSILON = np.finfo(float).eps


def pinned_beside(kind, distance, seed):
    """A random mechanism whose first two legs are tied once more, a distance beside their pin."""
    model, q = random_mechanism(kind, np.random.default_rng([seed, 7]))
    planar = kind in ("planar", "redundant")
    size = 4 if planar else 3
    first, second = f"a{size - 1}", f"b{size - 1}"
    pin = _closed_here(model.without_loops(), q, first, second, "beside", planar)
    own, other = pin.joint.pose, pin.second_pose
    # along x of the first body, as the second body sees it
    R = np.array(other.rotation) @ np.array(own.rotation).T
    step = np.array([distance, 0.0, 0.0])
    at = tb.Pose(own.rotation, np.array(own.translation) + step)
    there = tb.Pose(other.rotation, np.array(other.translation) + R @ step)
    tie = replace(pin, joint=replace(pin.joint, pose=at), second_pose=there)
    return tb.Model("pinned beside", model.bodies, loops=[*model.loops, tie]), q


@pytest.mark.parametrize("kind", ["planar", "spatial", "redundant", "floating"])
@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-5, 1e-6])
def test_methods_agree_with_dense_algebra_next_to_singular(kind, distance):
    for seed in range(2):
        model, q = pinned_beside(kind, distance, seed)
        held = dense_constraints(model, q)
        assert np.abs(held.value).max() < 1e-14
        v = RANDOM.standard_normal(model.nv)
        v = v - np.linalg.pinv(held.J, rcond=1e-10) @ (held.J @ v)
        tau = RANDOM.standard_normal(model.nv)
        expected, forces, ratio, rank = dense(model, q, v, tau)
        assert 1e-8 < ratio < distance
        # below a ratio of 1e-6 dense algebra in doubles keeps no more itself
        kept = max(1e-9, 30.0 * EPSILON / ratio)
        for method in ("augmented", "handles"):
            found = motion(model, q, v, tau, method)
            np.testing.assert_allclose(
                found.vd, expected, atol=kept * np.abs(expected).max(), err_msg=method
            )
            np.testing.assert_allclose(
                found.multipliers, forces, atol=kept * np.abs(forces).max(), err_msg=method
            )
            assert found.rank == rank
            assert ratio / 3.0 < float(found.ratio) < 3.0 * ratio
