"""Velocities, accelerations and Jacobians of frames against dense matrices and differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiburon as tb
from tests.algorithms.on_floats import on_floats
from tests.oracles import absolute, frames
from tests.robots import ROBOTS, kicked
from tests.strategies import few_examples, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.functions.kinematics import point_options

POINT = (0.2, -0.3, 0.4)
POINTS = ("frame", "world", "com", POINT)
AXES = ("world", "frame")

points, axes_of = st.sampled_from(POINTS), st.sampled_from(AXES)


def floats(function, model, frame, at, axes, *arrays):
    """Run a public function on floats with `at` and `axes`."""
    options, point = point_options(frame, at, axes)
    return on_floats(function, model, *arrays, *[np.array(p) for p in point], options=options)


def speed_scale(J, v):
    """Return how large the terms are that a velocity adds up."""
    return max(1.0, float((np.abs(J) @ np.abs(v)).max()))


@few_examples
@given(models(), seeds, points, axes_of)
def test_jacobians_are_the_columns_of_dense_matrices(model, seed, at, axes):
    """On any tree, at any point, in both axes."""
    q, *_ = state(model, seed)
    for name in model.frame_names:
        expected = frames.frame_jacobian(model, q, name, at, axes)
        assert_close(floats("frame_jacobian", model, name, at, axes, q), expected)


@few_examples
@given(models(), seeds, points, axes_of)
def test_velocity_equals_jacobian_times_v(model, seed, at, axes):
    """Two recursions: outward in body coordinates, and columns in the world."""
    q, v, *_ = state(model, seed)
    J = floats("frame_jacobian", model, "tip", at, axes, q)
    velocity = floats("frame_velocity", model, "tip", at, axes, q, v)
    assert_close(velocity, J @ v, ALGEBRA, speed_scale(J, v))


@few_examples
@given(models(), seeds, points, axes_of)
def test_spatial_and_classical_accelerations_equal_dense_ones(model, seed, at, axes):
    """The spatial acceleration moves like a motion; the classical one adds omega x v."""
    q, v, vd, _ = state(model, seed)
    acceleration = frames.spatial_acceleration(model, q, v, vd, "tip")
    expected = frames.told(model, q, "tip", acceleration, at, axes)
    velocity = frames.frame_jacobian(model, q, "tip", at, axes) @ v
    options, point = point_options("tip", at, axes)
    arrays = (q, v, vd, *[np.array(p) for p in point])
    spatial = on_floats(
        "frame_acceleration", model, *arrays, options=(*options, ("kind", "spatial"))
    )
    classical = on_floats("frame_acceleration", model, *arrays, options=options)
    # centripetal terms of up to (sum of rates)^2 times distances of up to about ten meters
    scale = 10.0 * (1.0 + float(np.abs(v).sum())) ** 2 + float(np.abs(vd).sum())
    assert_close(spatial, expected, ALGEBRA, scale)
    expected[3:] += np.cross(velocity[:3], velocity[3:])
    assert_close(classical, expected, ALGEBRA, scale)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("at", POINTS, ids=str)
@pytest.mark.parametrize("name", ["balloon", "orrery", "screw_chain", "gantry"])
def test_jacobian_bias_is_the_rate_of_the_jacobian_times_v(name, at, axes):
    """Jdot v against central differences of J along the motion, for every point and axes."""
    model = ROBOTS[name]
    q, v, _ = kicked(model, 5)
    v = v / max(1.0, float(np.linalg.norm(v)))
    h = DIFFERENCE_STEP
    after, before = (
        floats("frame_jacobian", model, "tip", at, axes, model.integrate(q, sign * h * v))
        for sign in (1.0, -1.0)
    )
    rate = (after - before) / (2.0 * h)
    bias = floats("frame_jacobian_bias", model, "tip", at, axes, q, v)
    assert_close(bias, rate @ v, DIFFERENCE, max(1.0, float(np.abs(rate).max())))


def test_jacobian_bias_is_classical_in_world_axes_and_spatial_in_frame_axes():
    """At the frame's origin the rate of J v is an acceleration users know."""
    model = ROBOTS["balloon"]
    q, v, vd = kicked(model, 6)
    for axes, kind in (("world", "classical"), ("frame", "spatial")):
        J = tb.frame_jacobian(model, q, "tip", axes=axes)
        bias = tb.frame_jacobian_bias(model, q, v, "tip", axes=axes)
        expected = tb.frame_acceleration(model, q, v, vd, "tip", axes=axes, kind=kind)
        assert_close(J @ vd + bias, expected)


def test_acceleration_is_the_second_derivative_of_position():
    """The classical acceleration against second differences of the frame's origin."""
    model = ROBOTS["odd_arm"]
    q, v, vd = kicked(model, 7)
    # truncation h^2 / 12 of the fourth derivative, rounding 4e-16 / h^2: both near 1e-8 at 2e-4
    h = 2e-4
    positions = [
        absolute.frame_pose(model, q + s * h * v + 0.5 * (s * h) ** 2 * vd, "tip")[:3, 3]
        for s in (-1.0, 0.0, 1.0)
    ]
    second = (positions[0] - 2.0 * positions[1] + positions[2]) / h**2
    acceleration = tb.frame_acceleration(model, q, v, vd, "tip")
    # the fourth derivative of a motion with rates near 3 rad/s is a hundred times the second
    assert_close(acceleration[3:], second, 1e-6, float((1.0 + np.abs(v).sum()) ** 2))


def test_several_frames_and_batches_are_loops_over_one():
    """Shapes: frames before the six numbers, batch dimensions first."""
    model = ROBOTS["quadruped"]
    q, v, vd = kicked(model, 8, (2, 3))
    names = model.frame_names[1:4]
    J = tb.frame_jacobian(model, q, names)
    assert J.shape == (2, 3, 3, 6, model.nv)
    assert tb.frame_velocity(model, q, v, names).shape == (2, 3, 3, 6)
    assert tb.frame_acceleration(model, q, v, vd).shape == (2, 3, len(model.frame_names) - 1, 6)
    for number, name in enumerate(names):
        one = tb.frame_jacobian(model, q[1, 2], name)
        assert_close(J[1, 2, number], one)
    point = np.random.default_rng(1).standard_normal((2, 3, 3))
    told = tb.frame_velocity(model, q, v, names[0], at=point)
    assert_close(told[1, 2], tb.frame_velocity(model, q[1, 2], v[1, 2], names[0], at=point[1, 2]))


def test_the_world_does_not_move():
    """Its Jacobian has no entries, its velocity is zero wherever one looks."""
    model = ROBOTS["panda"]
    q, v, vd = kicked(model, 9)
    assert not tb.frame_jacobian(model, q, "world", at="com").any()
    assert not tb.frame_velocity(model, q, v, "world", at="com").any()
    assert not tb.frame_acceleration(model, q, v, vd, "world", kind="spatial").any()


def test_functions_run_inside_traced_functions():
    """A user's kernel may use a Jacobian at a traced point."""
    model = ROBOTS["panda"]
    q, v, _ = kicked(model, 10)
    hand = model.frame_names[-1]

    def power(robot, q, v, point, force):
        J = tb.frame_jacobian(robot, q, hand, at=point)
        return (J @ v) @ force

    kernel = tb.compile(power, model, shapes={"point": 3, "force": 6})
    force = np.arange(6.0)
    expected = tb.frame_velocity(model, q, v, hand, at=POINT) @ force
    assert_close(kernel(q, v, POINT, force), expected)


def test_kernels_are_compiled_by_name():
    """`tb.compile` knows the functions of frames, alone and with dynamics."""
    model = ROBOTS["panda"]
    q, v, tau = kicked(model, 11)
    hand = model.frame_names[-1]
    kernel = tb.compile([tb.frame_jacobian, tb.forward_dynamics], model, frames=hand)
    J, vd = kernel(q, v, tau)
    assert_close(J, tb.frame_jacobian(model, q, hand))
    assert_close(vd, tb.forward_dynamics(model, q, v, tau))
    center = tb.compile(tb.center_of_mass, model)
    assert_close(center(q), tb.center_of_mass(model, q))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"at": "elbow"}, "at: expected 'frame' or 'world' or 'com' or 'three numbers'"),
        ({"axes": "body"}, "axes: expected 'world' or 'frame', got 'body'"),
    ],
)
def test_unknown_points_and_axes_are_refused(keywords, message):
    """The message lists what there is."""
    model = ROBOTS["pendulum"]
    with pytest.raises(tb.OptionError, match=message):
        tb.frame_jacobian(model, [0.1], "rod", **keywords)
    with pytest.raises(tb.OptionError, match="kind: expected 'classical' or 'spatial'"):
        tb.frame_acceleration(model, [0.1], [0.2], [0.3], "rod", kind="body")
    with pytest.raises(tb.UnknownNameError, match="did you mean 'rod'"):
        tb.frame_velocity(model, [0.1], [0.2], "rods")
