"""Motion of all joints from that of motors or platform, against closed forms and differences."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import piston, piston_position
from tests.loops.test_stabilization import moving_state
from tiburon.spatial import matrix_to_quaternion

# digest of Khan 2002, section 3.3: pose of the platform at some times of his motion
KHAN_POSES = {
    0.75: (4.0451542476, 0.7259450797, 0.2278750509),
    1.5: (4.6013179702, 0.6925895259, 0.1891610059),
    2.25: (5.2547048091, 0.6239639582, 0.1328757848),
}


def khan_angles(t):
    """Angles, rates and accelerations of the motors in the motion of Khan 2002, section 4.2."""
    w = 2.0 * np.pi / 3.0
    s, sd, sdd = w * t - np.sin(w * t), w - w * np.cos(w * t), w * w * np.sin(w * t)
    share = np.array([1.0 / 6.0, 1.0 / 6.0, 1.0 / 12.0])
    start = np.array([np.pi / 3.0, 4.0 * np.pi / 3.0, 11.0 * np.pi / 6.0])
    return start + share * s, share * sd, share * sdd


def platform_of(model, q):
    """Return angle and position of the platform's center in the plane, as Khan measures them."""
    R, p = tb.forward_kinematics(model, q, "center")
    return np.arctan2(R[2, 0], R[0, 0]), p[0], p[2]


def test_platform_of_khan_follows_his_motors():
    """Displacement analysis along the motion of section 3.3, each time from the one before."""
    model = tb.load("planar_3rrr")
    q = model.poses["home"]
    for t in np.arange(0.25, 2.26, 0.25):
        q = tb.loop_motion(model, q, khan_angles(t)[0]).q
        if t in KHAN_POSES:
            angle, x, y = platform_of(model, q)
            expected = KHAN_POSES[t]
            assert np.angle(np.exp(1j * (angle - expected[0]))) == pytest.approx(0.0, abs=1e-9)
            # ten digits are printed
            np.testing.assert_allclose((x, y), expected[1:], atol=1e-10)


def test_rates_and_accelerations_are_derivatives_of_positions():
    """Central differences of the displacement analysis, fourth order."""
    model = tb.load("planar_3rrr")
    near = tb.loop_motion(model, model.poses["home"], khan_angles(0.6)[0]).q
    at = lambda t: tb.loop_motion(model, near, *khan_angles(t))  # noqa: E731
    h, t = 2e-3, 0.7
    q = {k: at(t + k * h).q for k in (-2, -1, 0, 1, 2)}
    v = (8.0 * (q[1] - q[-1]) - (q[2] - q[-2])) / (12.0 * h)
    vd = (16.0 * (q[1] + q[-1]) - (q[2] + q[-2]) - 30.0 * q[0]) / (12.0 * h * h)
    found = at(t)
    np.testing.assert_allclose(found.v, v, atol=1e-9)
    # rounding over h^2
    np.testing.assert_allclose(found.vd, vd, atol=1e-7)


def test_piston_follows_its_crank():
    """Closed form of crank and rod."""
    model = piston()
    angle = 0.9
    found = tb.loop_motion(model, piston_position(0.7), [angle], [2.0], joints="crank")
    np.testing.assert_allclose(found.q, piston_position(angle), atol=1e-12)
    h = 1e-4
    slope = (piston_position(angle + h) - piston_position(angle - h)) / (2.0 * h)
    np.testing.assert_allclose(found.v, 2.0 * slope, atol=1e-7)


@pytest.mark.parametrize("name", ["stewart", "delta", "planar_3rrr", "five_bar"])
def test_motion_is_recovered_from_motors(name):
    """A motion that keeps loops closed is determined by its motors' part."""
    model = tb.load(name)
    q, v = moving_state(model)
    vd = tb.forward_dynamics(model, q, v, np.ones(model.nv))
    names = list(model.actuated_joint_names)
    places, rates = model.indices(names, of="q"), model.indices(names, of="v")
    near = np.array(model.integrate(q, 0.02 * np.random.default_rng(1).normal(size=model.nv)))
    found = tb.loop_motion(model, near, q[places], v[rates], vd[rates])
    assert found.residual < 1e-12
    # errors of the state times the condition of the legs
    np.testing.assert_allclose(found.q, q, atol=1e-9)
    np.testing.assert_allclose(found.v, v, atol=1e-9)
    np.testing.assert_allclose(found.vd, vd, atol=1e-8 * (1.0 + np.abs(vd).max()))


@pytest.mark.parametrize("name", ["stewart", "planar_3rrr"])
def test_motion_is_recovered_from_the_platform(name):
    model = tb.load(name)
    q, v = moving_state(model)
    vd = tb.forward_dynamics(model, q, v, np.ones(model.nv))
    R, p = tb.forward_kinematics(model, q, "platform")
    pose = np.concatenate([matrix_to_quaternion(R), p])
    twist = tb.frame_velocity(model, q, v, "platform", axes="frame")
    rate = tb.frame_acceleration(model, q, v, vd, "platform", axes="frame", kind="spatial")
    near = np.array(model.integrate(q, 0.02 * np.random.default_rng(2).normal(size=model.nv)))
    found = tb.loop_motion(model, near, pose, twist, rate, platform="platform")
    np.testing.assert_allclose(found.q, q, atol=1e-9)
    np.testing.assert_allclose(found.v, v, atol=1e-9)
    np.testing.assert_allclose(found.vd, vd, atol=1e-8 * (1.0 + np.abs(vd).max()))


def test_batches_have_the_bits_of_single_cases():
    model = tb.load("planar_3rrr")
    q = model.poses["home"]
    given = [np.array([khan_angles(t)[k] for t in (0.1, 0.3, 0.5)]) for k in range(3)]
    many = tb.loop_motion(model, q, *given)
    for k in range(3):
        one = tb.loop_motion(model, q, *(x[k] for x in given))
        for name in ("q", "v", "vd", "residual", "ratio", "steps"):
            assert np.array_equal(getattr(many, name)[k], getattr(one, name)), name


def test_inside_a_traced_function():
    model = tb.load("planar_3rrr")
    q = model.poses["home"]

    def rates(model, q, angles, speeds):
        return tb.loop_motion(model, q, angles, speeds).v

    angles, speeds, _ = khan_angles(0.3)
    kernel = tb.compile(rates, model, shapes={"angles": 3, "speeds": 3})
    np.testing.assert_allclose(
        kernel(q, angles, speeds), tb.loop_motion(model, q, angles, speeds).v, atol=1e-12
    )


def test_singular_configurations_are_refused_with_the_direction():
    """A rod leans most where its crank stands upright: its lean then says nothing of the crank."""
    model = piston()
    at = [piston_position(1.0), piston_position(0.5 * np.pi)]
    with pytest.raises(tb.DomainError, match="in case 1 that can still move along") as caught:
        tb.loop_motion(model, at, joints="small end", velocity=[0.0])
    assert "crank: 1" in str(caught.value)
    assert "big end: -1" in str(caught.value)
    assert "small end:" not in str(caught.value)


def test_too_few_joints_are_refused_with_the_direction():
    model = tb.load("planar_3rrr")
    with pytest.raises(tb.DomainError, match="can still move along"):
        tb.loop_motion(model, model.poses["home"], joints=["theta_1", "theta_2"])


def test_dependent_rates_are_refused():
    model = tb.load("four_bar")
    q, _ = moving_state(model)
    names = list(model.joint_names)
    with pytest.raises(tb.DomainError, match="open them"):
        tb.loop_motion(model, q, velocity=[1.0] * len(names), joints=names)


def test_motions_that_legs_do_not_permit_are_refused():
    """A planar platform cannot leave its plane."""
    model = tb.load("planar_3rrr")
    with pytest.raises(tb.DomainError, match="legs do not permit"):
        tb.loop_motion(
            model, model.poses["home"], platform="platform", velocity=[0.0, 0.1, 0.0, 0.0, 0.0, 0.0]
        )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"joints": ()}, "joints="),
        ({"joints": ("theta_1", "theta_1")}, "different joints"),
        ({"joints": "theta_9"}, "theta_9"),
        ({"platform": "center", "joints": "theta_1"}, "joints with platform"),
        ({"platform": "table"}, "table"),
        ({"platform": "world"}, "a body that moves"),
        ({"position": (1.0, 2.0)}, "position"),
        ({"position": (9.0, -9.0, 4.0)}, "position"),
    ],
)
def test_bad_requests_name_the_argument(change, named):
    model = tb.load("planar_3rrr")
    with pytest.raises(tb.TiburonError, match=named):
        tb.loop_motion(model, model.poses["home"], **change)


def test_trees_and_rolling_are_refused():
    with pytest.raises(tb.ModelError, match="robots with loops"):
        tb.loop_motion(tb.load("panda"), np.zeros(7))
    disc = tb.load("rolling_disc")
    with pytest.raises(tb.ModelError, match="constrains velocities"):
        tb.loop_motion(disc, disc.neutral(), disc.neutral(), joints=disc.joint_names)


def test_motion_follows_a_path_of_the_platform():
    """Rates by central differences of positions; a path that turns while it moves."""
    model = tb.load("stewart")
    q = tb.assemble(model).q
    R, p = tb.forward_kinematics(model, q, "platform")
    start = tb.Pose(R, p)
    end = start @ tb.Pose.from_rpy((0.03, 0.02, 0.04), (0.1, -0.05, 0.15))
    path = tb.CartesianPath.through(
        [0.0, 1.0],
        [start.translation, end.translation],
        [matrix_to_quaternion(x.rotation) for x in (start, end)],
    )
    now, h = 0.4, 1e-4
    at = path.at(now + h * np.array([-1.0, 0.0, 1.0]))
    moved = tb.loop_motion(model, q, at.pose, at.twist, at.twist_rate, platform="platform")
    before, here, after = moved.q
    np.testing.assert_allclose(
        model.difference(before, after) / (2.0 * h), moved.v[1], rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose((moved.v[2] - moved.v[0]) / (2.0 * h), moved.vd[1], atol=1e-6)
    assert np.abs(moved.vd[1]).max() > 0.05

    def joints(model, q, time):
        at = path.at(time)
        found = tb.loop_motion(model, q, at.pose, at.twist, at.twist_rate, platform="platform")
        return found.q, found.v, found.vd

    kernel = tb.compile(joints, model, shapes={"time": ()})
    for traced, value in zip(kernel(q, now), (here, moved.v[1], moved.vd[1]), strict=True):
        np.testing.assert_allclose(traced, value, atol=1e-11)
