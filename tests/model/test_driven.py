"""Driven joints: motion prescribed by time, alone or under a joint's own degrees of freedom."""

from dataclasses import dataclass

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import ROUNDING, random_inertia, random_pose, skew
from tests.running import OnFloats
from tests.strategies import GRAVITY
from tests.tolerances import SOLVE, assert_close

TILTED = tuple((np.array([1.0, -2.0, 2.0]) / 3.0).tolist())
SWING = tb.Harmonic(amplitude=0.4, frequency=0.6, phase=0.3, mean=-0.2)
SPEED_UP = tb.Polynomial((0.1, -0.7, 0.5, 0.2))
MOUNT = tb.Pose.from_rpy((0.3, -0.5, 0.8), (0.2, -0.1, 0.4))


@dataclass(frozen=True)
class Settling(tb.Path):
    """A path of one's own: an exponential approach."""

    height: float

    def at(self, time):
        decay = self.height * np.exp(-time)
        return self.height - decay, decay, -decay


JOINTS = [
    tb.Driven("turntable", tb.Revolute("t", TILTED), SPEED_UP),
    tb.Driven("shaker", tb.Prismatic("s", TILTED), SWING, carried=tb.Revolute("pin", (0, 1, 0))),
    tb.Driven("thread", tb.Screw("n", TILTED, 0.2, pitch=0.3), SWING, carried=tb.Free("drone")),
    tb.Driven(
        "table",
        tb.Planar("xy", TILTED),
        (SWING, SPEED_UP, Settling(0.9)),
        carried=tb.Universal("gimbal", pose=MOUNT),
    ),
    tb.Driven(
        "cardan", tb.Universal("u"), (SPEED_UP, SWING), carried=tb.RollingSphere("ball", 0.3)
    ),
]
each_joint = pytest.mark.parametrize("joint", JOINTS, ids=lambda joint: joint.name)

H = 1e-5  # central differences: h^2 = 1e-10 of truncation, 1e-16/h = 1e-11 of rounding
NOW = 0.7


def matrix_at(joint, q, time):
    X = joint.at(time).transform(q)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = np.array(X.rotation).T, X.translation
    return T


def moved(joint, q, v, t):
    return joint.integrate(q, [t * x for x in v])


def numbers(joint, seed):
    rng = np.random.default_rng(seed)
    return joint.random(rng), tuple(rng.standard_normal(joint.nv).tolist())


@each_joint
def test_velocity_is_the_rate_of_the_transform_in_time_and_position(joint):
    """T^-1 dT/dt, with q moving at v while the drive moves on."""
    q, v = numbers(joint, 1)
    ahead, behind = (matrix_at(joint, moved(joint, q, v, t), NOW + t) for t in (H, -H))
    rate = np.linalg.inv(matrix_at(joint, q, NOW)) @ (ahead - behind) / (2 * H)
    velocity = joint.at(NOW).velocity(q, v)
    np.testing.assert_allclose(rate[:3, :3], skew(velocity.angular), rtol=0, atol=1e-8)
    np.testing.assert_allclose(rate[:3, 3], velocity.linear, rtol=0, atol=1e-8)


@each_joint
def test_bias_is_the_rate_of_the_velocity_at_constant_joint_velocity(joint):
    """d(S v + xi)/dt seen from the body."""
    q, v = numbers(joint, 2)
    ahead, behind = (
        np.array(joint.at(NOW + t).velocity(moved(joint, q, v, t), v).array) for t in (H, -H)
    )
    bias = joint.at(NOW).bias(q, v).array
    # rates of rates: a hundred times the velocity at most
    np.testing.assert_allclose(bias, (ahead - behind) / (2 * H), rtol=0, atol=1e-7)


@pytest.mark.parametrize("path", [SWING, SPEED_UP, Settling(0.4)], ids=lambda p: type(p).__name__)
def test_rates_of_paths_equal_differences(path):
    ahead, behind = (np.array(path.at(NOW + t)) for t in (H, -H))
    difference = (ahead - behind) / (2 * H)
    np.testing.assert_allclose(path.at(NOW)[1:], difference[:2], rtol=0, atol=1e-8)


def machine(driven):
    """Return an arm on a drive, or the same arm on a hinge free to move."""
    rng = np.random.default_rng(5)
    shoulder, wrist = random_pose(rng), random_pose(rng)
    first, second, third = (random_inertia(rng) for _ in range(3))
    hinge = tb.Revolute("motor", TILTED)
    base = tb.Driven("base", hinge, SWING, pose=shoulder) if driven else hinge
    if not driven:
        base = tb.Revolute("base", TILTED, pose=shoulder)
    return tb.Model(
        "machine",
        [
            tb.Body("turret", joint=base, inertia=first),
            tb.Body("arm", "turret", joint=tb.Universal("elbow", pose=wrist), inertia=second),
            tb.Body("hand", "arm", joint=tb.Prismatic("slide", (0, 1, 0)), inertia=third),
        ],
        [tb.Frame("tip", "hand", random_pose(rng))],
    )


def states(seed=6):
    """Return state of the driven machine, and the same state of the free one."""
    rng = np.random.default_rng(seed)
    driven = machine(True)
    q, v = driven.random_state(rng)
    x, xd, xdd = SWING.at(NOW)
    return driven, q, v, rng.standard_normal(driven.nv), np.array([x, *q]), np.array([xd, *v]), xdd


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("method", ["articulated", "composite"])
def test_prescribed_motion_is_hybrid_dynamics_with_known_acceleration(method):
    """The rest moves as if the hinge obeyed the path (Featherstone 1987, sec. 7.4.4, 7.5.2)."""
    driven, q, v, tau, q_all, v_all, xdd = states()
    free = OnFloats(machine(False), GRAVITY)
    M, C = free.mass_matrix(q_all), free.inverse_dynamics(q_all, v_all, np.zeros(4))
    expected = np.linalg.solve(M[1:, 1:], tau - C[1:] - M[1:, 0] * xdd)
    world = tb.World(gravity=GRAVITY)
    found = tb.forward_dynamics(driven, q, v, tau, time=NOW, world=world, method=method)
    scale = np.abs(expected).max() * np.linalg.cond(M)
    assert_close(found, expected, SOLVE, scale)
    back = tb.inverse_dynamics(driven, q, v, found, time=NOW, world=world)
    assert_close(back, tau, ROUNDING, scale)
    assert_close(tb.mass_matrix(driven, q, time=NOW), M[1:, 1:])


@pytest.mark.usefixtures("interpreted")
def test_energies_and_poses_equal_those_of_the_free_robot_at_that_time():
    driven, q, v, _, q_all, v_all, _ = states()
    free = machine(False)
    assert tb.kinetic_energy(driven, q, v, time=NOW) == pytest.approx(
        tb.kinetic_energy(free, q_all, v_all), rel=ROUNDING
    )
    assert tb.potential_energy(driven, q, time=NOW) == pytest.approx(
        tb.potential_energy(free, q_all), rel=ROUNDING
    )
    for ours, theirs in zip(
        tb.forward_kinematics(driven, q, "tip", time=NOW),
        tb.forward_kinematics(free, q_all, "tip"),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(
        tb.frame_velocity(driven, q, v, "tip", time=NOW),
        tb.frame_velocity(free, q_all, v_all, "tip"),
        rtol=0,
        atol=10 * ROUNDING,
    )


def test_times_may_be_a_batch_and_reach_compiled_functions():
    driven, q, v, tau, *_ = states()
    times = np.array([0.0, 0.3, NOW])
    batch = tb.forward_dynamics(driven, q, v, tau, time=times)
    assert batch.shape == (3, driven.nv)
    assert np.abs(batch[0] - batch[2]).max() > 0.1
    for time, expected in zip(times, batch, strict=True):
        assert (tb.forward_dynamics(driven, q, v, tau, time=time) == expected).all()
    assert (tb.forward_dynamics(driven, q, v, tau) == batch[0]).all()
    kernel = tb.compile(tb.forward_dynamics, driven)
    assert (kernel(q, v, tau, time=times) == batch).all()

    def later(model, q, v, tau):
        now = tb.forward_dynamics(model, q, v, tau)
        return now, tb.forward_dynamics(model, q, v, tau, time=NOW)

    now, fixed = tb.compile(later, driven)(q, v, tau, time=times)
    np.testing.assert_allclose(now, batch, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fixed, batch[[2, 2, 2]], rtol=0, atol=1e-9)


def test_time_is_ignored_where_nothing_depends_on_it():
    free = machine(False)
    q, v = free.random_state(1)
    a, b = (tb.forward_dynamics(free, q, v, 0 * v, time=t) for t in (0.0, [5.0]))
    assert (a == b).all()


def test_elevator_adds_to_gravity():
    """A cabin that accelerates upward makes everything in it heavier (Featherstone, sec. 7.5)."""
    rng = np.random.default_rng(3)
    inertia, upward = random_inertia(rng), 2.5
    lift = tb.Driven(
        "lift",
        tb.Prismatic("rail"),
        tb.Polynomial((1.0, -3.0, 0.5 * upward)),
        carried=tb.Spherical("hook"),
    )
    moving = tb.Model("moving", [tb.Body("load", joint=lift, inertia=inertia)])
    still = tb.Model("still", [tb.Body("load", joint=tb.Spherical("hook"), inertia=inertia)])
    q, v = still.random_state(rng)
    heavy = tb.World(gravity=(0.0, 0.0, -9.81 - upward))
    expected = tb.forward_dynamics(still, q, v, 0 * v, world=heavy)
    found = tb.forward_dynamics(moving, q, v, 0 * v, time=0.4)
    assert_close(found, expected, 100 * ROUNDING)


def test_prescribed_joint_moves_without_further_degrees_of_freedom():
    """No q, no v: kinematics follows time alone."""
    arm = tb.Driven("arm", tb.Revolute("t"), tb.Polynomial((0.0, 2.0)))
    hand = tb.Frame("hand", "bar", tb.Pose(translation=(1.0, 0.0, 0.0)))
    model = tb.Model("clock", [tb.Body("bar", joint=arm, inertia=tb.Inertia.sphere(1, 1))], [hand])
    assert (model.nq, model.nv) == (0, 0)
    _, p = tb.forward_kinematics(model, [], "hand", time=np.array([0.0, 0.5]))
    np.testing.assert_allclose(p[1], (np.cos(1.0), np.sin(1.0), 0.0), rtol=0, atol=ROUNDING)
    assert tb.kinetic_energy(model, [], [], time=1.0) == pytest.approx(0.5 * 0.4 * 4.0)


def test_paths_with_other_data_or_code_get_their_own_kernels():
    @dataclass(frozen=True)
    class Settling(tb.Path):
        height: float

        def at(self, time):
            return self.height * time, self.height + 0.0 * time, 0.0 * time

    def key(path):
        joint = tb.Driven("d", tb.Prismatic("p"), path)
        model = tb.Model("m", [tb.Body("b", joint=joint, inertia=tb.Inertia.sphere(1, 1))])
        return model.structure_key()

    outside = globals()["Settling"]
    assert len({key(outside(0.5)), key(outside(0.6)), key(Settling(0.5)), key(SWING)}) == 4
    assert key(outside(0.5)) == key(outside(0.5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tb.Driven("d", tb.Spherical("s"), (SWING,) * 4),
            "the velocities of a drive must be the rates of its positions, got a spherical joint",
        ),
        (
            lambda: tb.Driven("d", tb.Planar("s"), SWING),
            "path must be one Path for each of 3 position variables of 's'",
        ),
        (lambda: tb.Driven("d", tb.Revolute("s"), np.sin), "path must be one Path"),
        (
            lambda: tb.Driven("d", tb.Revolute("s", pose=MOUNT), SWING),
            "the drive 's' must have no pose",
        ),
        (
            lambda: tb.Driven("d", tb.Revolute("s"), SWING, carried=JOINTS[0]),
            "drive and carried must not be driven joints",
        ),
    ],
)
def test_invalid_prescribed_motions_are_refused(make, message):
    with pytest.raises(tb.ModelError) as caught:
        make()
    assert f"joint 'd': {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.Harmonic(np.nan, 1.0), "harmonic path: amplitude must be finite"),
        (lambda: tb.Polynomial(()), "polynomial path: coefficients must be a sequence"),
        (lambda: tb.Polynomial(3.0), "polynomial path: coefficients must be a sequence"),
    ],
)
def test_bad_paths_are_refused(make, message):
    with pytest.raises(tb.ModelError, match=message):
        make()
