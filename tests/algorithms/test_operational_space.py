"""Operational-space and apparent inertias against J M^-1 J^T with dense matrices."""

import numpy as np
import pytest
from hypothesis import given

import tiburon as tb
from tests.algorithms.on_floats import on_floats
from tests.oracles import absolute, frames
from tests.robots import ROBOTS, kicked, pendulum
from tests.strategies import few_examples, models, seeds, state
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tiburon.functions.kinematics import point_options


def stacked_jacobian(model, q, names):
    """Return the Jacobians of frames at their origins, world axes, one above the other."""
    return np.vstack([frames.frame_jacobian(model, q, name) for name in names])


def dense_inverse(model, q, names):
    """Return J M^-1 J^T and how much of it rounding may take, relative to ALGEBRA."""
    J, M = stacked_jacobian(model, q, names), absolute.crba(model, q)
    expected = J @ np.linalg.solve(M, J.T)
    scale = max(1.0, float(np.abs(expected).max())) * np.linalg.cond(M)
    return expected, scale


@few_examples
@given(models(), seeds)
def test_inverse_inertias_equal_the_dense_product(model, seed):
    """Factors carried outward, and the two-sided recursion: both are J M^-1 J^T, on any tree."""
    q, *_ = state(model, seed)
    pair = ("tip", model.frame_names[1])
    expected, scale = dense_inverse(model, q, pair)
    options = (("frames", pair),)
    found = on_floats("operational_space_inverse_inertia", model, q, options=options)
    assert_close(found, expected, SOLVE, scale)
    options = (("frame", pair[0]), ("other", pair[1]))
    cross = on_floats("cross_inverse_inertia", model, q, options=options)
    assert_close(cross, expected[:6, 6:], SOLVE, scale)
    options = (("frame", pair[0]), ("other", pair[0]))
    own = on_floats("cross_inverse_inertia", model, q, options=options)
    assert_close(own, expected[:6, :6], SOLVE, scale)


@few_examples
@given(models(), seeds)
def test_apparent_inverse_inertia_is_that_of_the_relative_jacobian(model, seed):
    """Between two links: J_i - J_j at one point (Featherstone 1987, eq. 9.27)."""
    q, *_ = state(model, seed)
    other = model.frame_names[1]
    M = absolute.crba(model, q)
    relative = frames.spatial_jacobian(model, q, "tip") - frames.spatial_jacobian(model, q, other)
    J = frames.told(model, q, "tip", relative, "frame", "world")
    expected = J @ np.linalg.solve(M, J.T)
    # differences of the links' own inverse inertias
    _, scale = dense_inverse(model, q, ("tip", other))
    reach = 1.0 + np.abs(frames.point_of(model, q, "tip", "frame")).max()
    options = (("frame", "tip"), ("other", other))
    found = on_floats("apparent_inverse_inertia", model, q, options=options)
    assert_close(found, expected, SOLVE, scale * (1.0 + reach) ** 2)


@pytest.mark.parametrize("name", ["odd_arm", "forest"])
def test_operational_space_inertia_times_its_inverse_is_one(name):
    """Lambda from factors, the inverse from products, native."""
    model = ROBOTS[name]
    hand = model.frame_names[-1]
    q, *_ = kicked(model, 3, (3,))
    for part, size, axes in (("both", 6, "world"), ("position", 3, "frame")):
        inverse = tb.operational_space_inverse_inertia(model, q, hand, axes=axes, part=part)
        inertia = tb.operational_space_inertia(model, q, hand, axes=axes, part=part)
        product = inertia @ inverse
        condition = float(np.linalg.cond(inverse).max())
        assert_close(product, np.broadcast_to(np.eye(size), product.shape), SOLVE, condition)


@pytest.mark.parametrize("axes", ["world", "frame"])
@pytest.mark.parametrize("at", ["world", "com", (0.2, -0.3, 0.4)], ids=str)
def test_inverse_inertias_are_given_at_points_as_jacobians_are(at, axes):
    """J M^-1 J^T with the Jacobian at the same point and in the same axes."""
    model = ROBOTS["balloon"]
    q, *_ = kicked(model, 9)
    J, M = frames.frame_jacobian(model, q, "tip", at, axes), absolute.crba(model, q)
    expected = J @ np.linalg.solve(M, J.T)
    scale = max(1.0, float(np.abs(expected).max())) * np.linalg.cond(M)
    options, point = point_options("tip", at, axes)
    arrays = (q, *[np.array(p) for p in point])
    found = on_floats("operational_space_inverse_inertia", model, *arrays, options=options)
    assert_close(found, expected, SOLVE, scale)


def test_parts_of_the_inverse_are_its_blocks():
    """Orientation and position are the diagonal blocks of both together."""
    model = ROBOTS["balloon"]
    q, *_ = kicked(model, 8)

    def inverse(part):
        options = (("frames", "tip"), ("axes", "frame"), ("part", part))
        return on_floats("operational_space_inverse_inertia", model, q, options=options)

    whole = inverse("both")
    assert_close(inverse("orientation"), whole[:3, :3])
    assert_close(inverse("position"), whole[3:, 3:])


def test_operational_inertia_of_a_free_body_is_its_own():
    """Nothing hangs on it: the operational-space inertia is the rigid-body inertia."""
    model = ROBOTS["top"]
    q, *_ = kicked(model, 4)
    inertia = tb.operational_space_inertia(model, q, "top", axes="frame")
    assert_close(inertia, model.plan.bodies[0].inertia.matrix())


def test_kinetic_energy_from_the_inertia_of_a_frame_with_full_mobility():
    """With as many directions as joints, 1/2 V Lambda V is all the kinetic energy."""
    model = ROBOTS["odd_arm"]
    q, v, _ = kicked(model, 5)
    V = tb.frame_velocity(model, q, v, "tip")
    Lambda = tb.operational_space_inertia(model, q, "tip")
    energy = tb.kinetic_energy(model, q, v)
    condition = np.linalg.cond(tb.operational_space_inverse_inertia(model, q, "tip"))
    assert_close(0.5 * V @ Lambda @ V, energy, SOLVE, max(1.0, float(energy)) * condition)


def test_cross_inertias_of_exchanged_frames_are_transposes():
    """Reciprocity: what i does to j, j does to i; links on different trees do nothing."""
    model = ROBOTS["forest"]
    q, *_ = kicked(model, 6)
    one = tb.cross_inverse_inertia(model, q, "d", "e")
    assert_close(one, tb.cross_inverse_inertia(model, q, "e", "d").T)
    assert np.abs(one).max() > 0.0
    assert not tb.cross_inverse_inertia(model, q, "b", "e").any()
    assert not tb.cross_inverse_inertia(model, q, "b", "world").any()


def test_force_between_neighbors_moves_their_joint_only():
    """Two links on one hinge separate by turning about it: the relative inverse has rank one."""
    model = ROBOTS["double_pendulum"]
    q, *_ = kicked(model, 7)
    found = tb.apparent_inverse_inertia(model, q, "lower", "upper")
    singular = np.linalg.svd(found, compute_uv=False)
    assert singular[0] > 0.1
    assert_close(singular[1:], np.zeros(5), ALGEBRA, float(singular[0]))
    # and they turn about y through the elbow, the lower link's origin
    assert_close(found[1, 1], found.max())


def test_pendulum_bob_has_infinite_inertia_along_the_rod():
    """Closed form: the bob of a massless rod moves across it with its mass, not along it."""
    mass, length = 1.3, 0.7
    rod = pendulum(length, mass).bodies[0]
    tip = tb.Frame("tip", "rod", tb.Pose(translation=(0.0, 0.0, -length)))
    model = tb.Model("pendulum", [rod], [tip])
    inverse = tb.operational_space_inverse_inertia(
        model, [0.4], "tip", axes="frame", part="position"
    )
    assert_close(inverse, np.diag([1.0 / mass, 0.0, 0.0]))


def test_frames_with_too_few_degrees_of_freedom_are_refused_by_count():
    """Five joints cannot move a hand in six directions, whatever the position."""
    model = ROBOTS["gantry"]
    message = "6 independent directions, got 'tip', moved by 5 joint velocities; pass fewer"
    with pytest.raises(tb.DomainError, match=message):
        tb.operational_space_inertia(model, np.zeros(model.nq), "tip")


def test_singular_positions_are_refused_with_advice():
    """A stretched arm in a plane cannot move along itself."""
    model = ROBOTS["double_pendulum"]
    upper = model.bodies[0]
    lower = model.bodies[1]
    tip = tb.Frame("tip", "lower", tb.Pose(translation=(0.0, 0.0, -0.4)))
    third = tb.Body(
        "slide",
        "lower",
        joint=tb.Prismatic("out", axis=(0, 1, 0), pose=tb.Pose(translation=(0, 0, -0.4))),
        inertia=tb.Inertia(0.5, (0, 0, 0), (0.01, 0.01, 0.01)),
    )
    model = tb.Model("planar", [upper, lower, third], [tip])
    bent = tb.operational_space_inertia(model, [0.3, 0.5, 0.1], "slide", part="position")
    assert np.linalg.eigvalsh(bent).min() > 0.0
    with pytest.raises(tb.DomainError, match="move away from the singular configuration"):
        tb.operational_space_inertia(model, [0.3, 0.0, 0.1], "slide", part="position")
    # the inverse exists, and says which way is blocked
    inverse = tb.operational_space_inverse_inertia(model, [0.3, 0.0, 0.1], "slide", part="position")
    along = np.array([np.sin(0.3), 0.0, np.cos(0.3)])
    assert_close(along @ inverse @ along, 0.0)
    with pytest.raises(tb.OptionError, match="part: expected 'both'"):
        tb.operational_space_inertia(model, [0.3, 0.5, 0.1], "slide", part="angular")
