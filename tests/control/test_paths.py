"""Paths: through their points, derivatives consistent, limits honored, traced as on numbers."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.control.cartesian_path import CartesianPath
from tiburon.control.joint_path import JointPath
from tiburon.spatial import matrix_to_quaternion, quaternion_to_matrix
from tiburon.trace import interpret, trace

TIMES = np.array([0.3, 1.0, 2.2, 2.9])
POINTS = np.array([[0.0, 1.0], [0.7, -0.5], [-0.4, 0.2], [0.5, 0.1]])


def unit(rng):
    quaternion = rng.normal(size=4)
    return quaternion / np.linalg.norm(quaternion)


def paths():
    limits = {"speed": (0.8, 1.1), "acceleration": (2.0, 3.0)}
    return {
        "cubic": JointPath.through(TIMES, POINTS),
        "quintic": JointPath.through(TIMES, POINTS, kind="quintic"),
        "stopping cubic": JointPath.through(TIMES, POINTS, stops=True),
        "stopping quintic": JointPath.through(TIMES, POINTS, kind="quintic", stops=True),
        "moving ends": JointPath.through(
            TIMES, POINTS, start_velocity=(1.0, -2.0), end_velocity=(0.5, 0.0)
        ),
        "trapezoidal": JointPath.trapezoidal(POINTS, start=0.3, **limits),
    }


@pytest.mark.parametrize("name", [n for n in paths() if n != "trapezoidal"])
def test_paths_pass_through_their_points(name):
    path = paths()[name]
    assert_close(path.at(TIMES).position, POINTS)


@pytest.mark.parametrize("name", paths())
def test_velocity_and_acceleration_are_derivatives(name):
    """Central differences between the knots; at knots accelerations of some may jump."""
    path = paths()[name]
    h = DIFFERENCE_STEP
    times = np.linspace(path.pieces.knots[0] + 0.01, path.end - 0.01, 61)
    times = times[np.abs(times[:, None] - path.pieces.knots).min(axis=1) > 2 * h]
    ahead, behind = path.at(times + h), path.at(times - h)
    here = path.at(times)
    size = max(1.0, np.abs(here.acceleration).max()) * 10.0
    assert_close((ahead.position - behind.position) / (2 * h), here.velocity, DIFFERENCE, size)
    assert_close((ahead.velocity - behind.velocity) / (2 * h), here.acceleration, DIFFERENCE, size)


@pytest.mark.parametrize("name", paths())
def test_paths_rest_before_and_after(name):
    path = paths()[name]
    for time, point in ((-1.0, POINTS[0]), (path.end + 0.1, POINTS[-1])):
        sample = path.at(time)
        assert_close(sample.position, point)
        assert not sample.velocity.any()
        assert not sample.acceleration.any()


@pytest.mark.parametrize("name", ["cubic", "quintic"])
def test_splines_are_smooth_at_inner_points(name):
    """Velocity and acceleration are continuous where pieces meet; jumps of rounding only."""
    path = paths()[name]
    for knot in TIMES[1:-1]:
        before, after = path.at(knot - 1e-9), path.at(knot + 1e-9)
        for a, b in zip(before, after, strict=True):
            # slopes below 1e3 over 2e-9 s
            assert_close(a, b, 1e-5)


def test_quintics_begin_and_end_without_acceleration():
    path = paths()["quintic"]
    for time in (TIMES[0], TIMES[-1]):
        assert_close(path.at(time).acceleration, np.zeros(2), 1e-10)
        assert_close(path.at(time).velocity, np.zeros(2), 1e-10)


def test_two_points_give_the_textbook_polynomials():
    """3 s^2 - 2 s^3 and 10 s^3 - 15 s^4 + 6 s^5 (Craig 2005, eqs. 7.11 and 7.18)."""
    s = np.linspace(0.0, 1.0, 11)
    cubic = JointPath.through([0, 2], [0.0, 1.0]).at(2 * s).position[:, 0]
    quintic = JointPath.through([0, 2], [0.0, 1.0], kind="quintic").at(2 * s).position[:, 0]
    assert_close(cubic, 3 * s**2 - 2 * s**3)
    assert_close(quintic, 10 * s**3 - 15 * s**4 + 6 * s**5)


def test_a_trapezoid_reaches_its_limits_and_never_passes_them():
    """Speed and acceleration of some joint at the limit in every part; the time is the least."""
    speed, rate = np.array([0.8, 1.1]), np.array([2.0, 3.0])
    path = JointPath.trapezoidal(POINTS, speed=speed, acceleration=rate)
    times = np.linspace(0.0, path.duration, 4001)
    found = path.at(times)
    assert (np.abs(found.velocity) <= speed * (1.0 + 1e-12)).all()
    assert (np.abs(found.acceleration) <= rate * (1.0 + 1e-12)).all()
    # at each moment some joint speeds up, slows down or cruises as fast as it may
    at_speed = (np.abs(found.velocity) >= speed * (1.0 - 1e-9)).any(axis=1)
    at_rate = (np.abs(found.acceleration) >= rate * (1.0 - 1e-9)).any(axis=1)
    assert (at_speed | at_rate).all()
    # one joint alone: d / v + v / a
    alone = JointPath.trapezoidal([0.0, 2.0], speed=0.5, acceleration=1.0)
    assert alone.duration == pytest.approx(2.0 / 0.5 + 0.5 / 1.0, rel=1e-14)
    # too short to reach its speed: 2 sqrt(d / a)
    short = JointPath.trapezoidal([0.0, 0.1], speed=0.5, acceleration=1.0)
    assert short.duration == pytest.approx(2.0 * np.sqrt(0.1), rel=1e-14)


@pytest.mark.parametrize("name", paths())
def test_traced_paths_give_the_same(name):
    path = paths()[name]
    program = trace(lambda t: dict(zip("pva", path.at(t), strict=True)), {"t": ()})
    times = np.concatenate([[-0.5, path.end + 0.5], path.pieces.knots, np.linspace(0.3, 3.0, 40)])
    for ours, plain in zip(interpret(program, [times]), path.at(times), strict=True):
        # the same operations in the same order
        assert np.array_equal(ours, plain)


def poses(rng):
    return rng.normal(size=(4, 3)), np.array([unit(rng) for _ in range(4)])


@pytest.mark.parametrize("kind", ["cubic", "quintic", "trapezoidal"])
def test_poses_are_met_and_rates_are_derivatives(kind):
    """Orientation by slerp: angular velocity and acceleration against differences of the turn."""
    rng = np.random.default_rng(4)
    positions, orientations = poses(rng)
    if kind == "trapezoidal":
        path = CartesianPath.trapezoidal(
            positions, orientations, speed=0.7, acceleration=1.5, angular_speed=0.9
        )
        assert_close(path.at(path.duration).position, positions[-1])
        times = np.linspace(0.01, path.duration - 0.01, 41)
    else:
        path = CartesianPath.through(TIMES, positions, orientations, kind=kind)
        assert_close(path.at(TIMES).position, positions)
        times = np.linspace(0.31, 2.89, 41)
        met = path.at(TIMES).rotation
        assert_close(met, [quaternion_to_matrix(q) for q in orientations])
    last = path.at(path.knots[-1]).rotation
    assert_close(last, quaternion_to_matrix(orientations[-1]))
    h = DIFFERENCE_STEP
    times = times[np.abs(times[:, None] - path.knots).min(axis=1) > 2 * h]
    ahead, here, behind = (path.at(times + d) for d in (h, 0.0, -h))
    rate = (ahead.rotation - behind.rotation) / (2 * h) @ here.rotation.transpose(0, 2, 1)
    w = np.stack([rate[:, 2, 1], rate[:, 0, 2], rate[:, 1, 0]], axis=1)
    assert_close(w, here.angular_velocity, 1e-7)
    growth = (ahead.angular_velocity - behind.angular_velocity) / (2 * h)
    assert_close(growth, here.angular_acceleration, 1e-7)
    assert_close((ahead.position - behind.position) / (2 * h), here.velocity, 1e-7)
    assert_close((ahead.velocity - behind.velocity) / (2 * h), here.acceleration, 1e-7)
    if kind == "trapezoidal":
        assert np.linalg.norm(here.velocity, axis=1).max() <= 0.7 * (1 + 1e-12)
        assert np.linalg.norm(here.angular_velocity, axis=1).max() <= 0.9 * (1 + 1e-12)


def test_traced_poses_give_the_same():
    positions, orientations = poses(np.random.default_rng(6))
    path = CartesianPath.through(TIMES, positions, orientations)
    names = path.at(0.0)._fields
    program = trace(lambda t: dict(zip(names, path.at(t), strict=True)), {"t": ()})
    times = np.linspace(0.0, 3.0, 33)
    for ours, plain in zip(interpret(program, [times]), path.at(times), strict=True):
        assert_close(ours, plain, 1e-14)


def test_rotation_takes_the_shorter_way_about_a_fixed_axis():
    """Half way along a turn by 2 rad: 1 rad about the same axis."""
    axis = np.array([0.6, 0.0, 0.8])
    end = [np.cos(1.0), *(np.sin(1.0) * axis)]
    path = CartesianPath.through([0, 1], np.array([[0.0] * 3, [1.0] * 3]), [[1, 0, 0, 0], end])
    assert_close(path.at(0.5).quaternion, [np.cos(0.5), *(np.sin(0.5) * axis)])


def test_joints_move_a_frame_along_a_path():
    """Inverse kinematics along a line: the frame follows to the sixth power of the distance."""
    arm = tb.load("panda")
    q = np.array([0.2, 0.3, -0.1, -1.8, 0.2, 1.9, 0.5, 0.02])
    frame = "hand"
    joints = [joint.name for joint in arm.joints if joint.nv][:7]
    R, p = tb.forward_kinematics(arm, q, frame)
    way = CartesianPath.through(
        [0.0, 2.0], [p, p + np.array([0.1, -0.05, 0.08])], matrix_to_quaternion(R)
    )
    errors = []
    for samples in (5, 10):
        path = JointPath.along(way, arm, frame, q, samples=samples, joints=joints)
        times = np.linspace(0.0, 2.0, 23)
        position = np.tile(q, (len(times), 1))
        position[:, :7] = path.at(times).position
        _, found = tb.forward_kinematics(arm, position, frame)
        errors.append(np.abs(found - way.at(times).position).max())
    assert errors[1] < 1e-5
    assert errors[1] < errors[0] / 30.0


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: JointPath.through([0, 0], [1, 2]), tb.DomainError, "rising"),
        (lambda: JointPath.through([0, 1], [1, 2, 3]), tb.ShapeError, "one per time"),
        (lambda: JointPath.through([0, 1], [1, 2], kind="linear"), tb.OptionError, "quintic"),
        (
            lambda: JointPath.trapezoidal([0, 1], speed=0.0, acceleration=1.0),
            tb.DomainError,
            "above 0",
        ),
        (
            lambda: JointPath.trapezoidal([1, 1], speed=1.0, acceleration=1.0),
            tb.DomainError,
            "diff",
        ),
        (
            lambda: CartesianPath.through([0, 1], np.zeros((2, 3)), [1, 1, 0, 0]),
            tb.DomainError,
            "length 1",
        ),
    ],
)
def test_invalid_arguments_are_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()
