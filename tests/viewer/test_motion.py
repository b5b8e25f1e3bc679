"""Recorded rows as frames of a motion: which times are kept, and what is shown between rows."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.viewer.motion import Track, frame_times, sample_motion
from tiburon.viewer.scene import scene_of
from tiburon.viewer.surroundings import bounds_of, surroundings, view_rotation

INTERPOLATED = 2e-4
"""A chord of an arc of 0.02 rad is off by its square over eight; bodies are a few meters away."""


def arm():
    return tb.load("panda")


def test_sparse_rows_are_kept_and_dense_rows_decimated():
    """The page never has more frames than rows, nor more than requested."""
    model = arm()
    q = model.neutral()

    def times(rows, duration, fps=30.0, most=6000):
        time = np.linspace(0.0, duration, rows)
        return frame_times([Track(model, time, np.tile(q, (rows, 1)))], fps, most)

    np.testing.assert_array_equal(times(11, 2.0), np.linspace(0.0, 2.0, 11))
    assert len(times(2001, 2.0)) == 61
    assert len(times(2001, 2.0, fps=10.0)) == 21
    assert len(times(2001, 2.0, most=7)) == 7
    assert times(2001, 2.0)[-1] == 2.0
    assert len(frame_times([Track(model, None, q)], 30.0, 100)) == 1


def test_interpolated_frames_follow_the_motion():
    """Interpolated poses are those of the kinematics, as well as chords follow arcs."""
    model = arm()
    q0, v = model.random_state(4)
    rows = np.linspace(1.0, 2.0, 101)

    def path(t):
        return model.integrate(q0, v * (t[:, None] - 1.0))

    times = np.linspace(1.0, 2.0, 34)
    motion = sample_motion(Track(model, rows, path(rows)), times, 1)
    _, p = tb.forward_kinematics(model, path(times), model.body_names)
    np.testing.assert_allclose(motion.poses[:, 0, :, 4:], p, atol=INTERPOLATED)
    np.testing.assert_allclose(np.linalg.norm(motion.poses[..., :4], axis=-1), 1.0, atol=1e-12)


def test_a_case_that_ended_is_hidden_from_then_on():
    """Rows of NaN give poses of NaN, and the last good row is still shown."""
    model = arm()
    rng = np.random.default_rng(1)
    q, _ = model.random_state(rng, (6, 2))
    q[3:, 1] = np.nan
    rows = np.arange(6.0)
    motion = sample_motion(Track(model, rows, q), rows, 2)
    assert np.isfinite(motion.poses[:, 0]).all()
    assert np.isfinite(motion.poses[:3, 1]).all()
    assert np.isnan(motion.poses[3:, 1]).all()


def test_last_of_several_rows_at_one_time_is_shown():
    """Events write two rows at one time: what came of them counts."""
    model = tb.load("pendulum")
    rows = np.array([0.0, 1.0, 1.0, 2.0])
    q = np.array([[0.0], [0.1], [0.5], [0.6]])
    times = frame_times([Track(model, rows, q)], 30.0, 100)
    np.testing.assert_array_equal(times, [0.0, 1.0, 2.0])
    motion = sample_motion(Track(model, rows, q), times, 1)
    expected = sample_motion(Track(model, None, np.array([0.5])), np.zeros(1), 1)
    np.testing.assert_allclose(motion.poses[1], expected.poses[0], atol=1e-15)


def test_cases_shown_are_evenly_selected():
    """First and last are among them."""
    model = tb.load("pendulum")
    q = np.linspace(0.0, 1.0, 101)[None, :, None] * np.ones((2, 1, 1))
    motion = sample_motion(Track(model, np.array([0.0, 1.0]), q), np.array([0.0, 1.0]), 5)
    angles = 2.0 * np.arccos(np.abs(motion.poses[0, :, 0, 0]))
    np.testing.assert_allclose(angles, [0.0, 0.25, 0.5, 0.75, 1.0], atol=1e-7)


def test_prescribed_joints_are_drawn_at_their_time():
    """A driven joint has no number in q: its position follows from the time of each row."""
    wheel = tb.Body(
        "wheel",
        joint=tb.Driven(
            "wheel drive", tb.Revolute("axle", (0, 0, 1)), (tb.Polynomial((0.0, 0.5)),)
        ),
        inertia=tb.Inertia.box(1.0, (1, 1, 1)),
    )
    swing = tb.Body(
        "rod", "wheel", joint=tb.Revolute("pin", (0, 1, 0)), inertia=tb.Inertia.box(1.0, (1, 1, 1))
    )
    model = tb.Model("driven", [wheel, swing])
    rows = np.array([0.0, 1.0, 2.0])
    motion = sample_motion(Track(model, rows, np.zeros((3, model.nq))), rows, 1)
    np.testing.assert_allclose(motion.poses[:, 0, 0, 3], np.sin([0.0, 0.25, 0.5]), atol=1e-12)


@pytest.mark.parametrize("gravity", [(0, 0, -9.81), (0, 0, 9.81), (0, -9.81, 0), (3.0, 1.0, -2.0)])
def test_vertical_direction_does_not_depend_on_gravity(gravity):
    """The page turns the world until gravity pulls down its third axis."""
    R = view_rotation(tb.World(gravity=gravity))
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(R) == pytest.approx(1.0)
    np.testing.assert_allclose(
        R @ np.array(gravity), [0.0, 0.0, -np.linalg.norm(gravity)], atol=1e-12
    )


def test_the_floor_is_under_the_robot():
    """Given ground is kept; hanging robots get a floor they do not touch; space has none."""
    from tiburon.viewer.packing import Packer

    def floor(name, world):
        model = tb.load(name)
        q = np.array(model.poses.get("stand", model.neutral()))
        motion = sample_motion(Track(model, None, q), np.zeros(1), 1)
        scene = scene_of(model)
        bounds = bounds_of([scene], [motion], slice(None))
        found = surroundings(world, bounds, scene.size, np.zeros(1), Packer())
        return found, bounds

    standing, _ = floor("quadruped", tb.World())
    assert standing["floor"] == 0.0
    hanging, bounds = floor("double_pendulum", tb.World())
    assert hanging["floor"] < bounds.low[2] < -1.9
    given, _ = floor("double_pendulum", tb.World(ground=tb.Ground(height=-7.0)))
    assert given["floor"] == -7.0
    space, _ = floor("space_arm", tb.World(gravity=(0, 0, 0)))
    assert space["floor"] is None
    assert space["space"]
    sea, bounds = floor("tiburon_titan", tb.World(fluid=tb.Water(surface=3.0)))
    assert sea["floor"] < bounds.low[2]
    assert sea["water"]["surface"] == 3.0
    assert sea["water"]["current"] is None
