"""Sensors: readings against closed forms, noise by its statistics, delays to the step."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.control.sensors import (
    DepthSensor,
    ForceTorqueSensor,
    InertialSensor,
    JointSensor,
    PoseSensor,
    VelocityLog,
)
from tiburon.simulation.sensing import Sensing
from tiburon.simulation.system import System

G = 9.81


def stone(mass=2.0):
    body = tb.Body(
        "stone",
        joint=tb.Free("base"),
        inertia=tb.Inertia(mass, (0.02, -0.01, 0.03), (0.1, 0.12, 0.15)),
        fluid=tb.BodyFluid(0.7 * mass / 1025.0),
    )
    chip = tb.Frame(
        "chip", "stone", tb.Pose.from_quaternion((0.8, 0.1, -0.5, 0.2), (0.3, 0.1, -0.2))
    )
    return tb.Model("stone", [body], [chip])


def turntable(radius):
    disk = tb.Body(
        "disk",
        joint=tb.Revolute("axle", axis=(0, 0, 1)),
        inertia=tb.Inertia(3.0, (0, 0, 0), (1.0, 1.0, 1.0)),
    )
    rim = tb.Frame("rim", "disk", tb.Pose(translation=(radius, 0, 0)))
    return tb.Model("turntable", [disk], [rim])


def arm():
    upper = tb.Body(
        "upper",
        joint=tb.Revolute("shoulder", axis=(0, 1, 0)),
        inertia=tb.Inertia(1.5, (0.2, 0, 0.05), (0.02, 0.03, 0.03)),
    )
    tool = tb.Body(
        "tool",
        "upper",
        joint=tb.Revolute("wrist", axis=(1, 0, 0), pose=tb.Pose(translation=(0.4, 0, 0))),
        inertia=tb.Inertia(0.8, (0.1, 0.02, 0.0), (0.004, 0.005, 0.006)),
    )
    tip = tb.Frame("tip", "tool", tb.Pose.from_quaternion((0.9, 0.0, 0.4, 0.1), (0.25, 0, 0)))
    return tb.Model("arm", [upper, tool], [tip])


def ideal(model, sensor, q, v, tau=None, time=0.0, **world):
    system = System(model, tb.World(**world) if world else None)
    sensing = Sensing(system, [sensor], 1e-3)
    u = np.zeros(model.nv) if tau is None else np.asarray(tau, dtype=float)
    return sensing.ideal(np.asarray(q, dtype=float), np.asarray(v, dtype=float), u, time)


def test_imu_measures_specific_force():
    """Held still, the proper acceleration is g upward; falling, it is nothing."""
    model = stone()
    q = model.integrate(model.neutral(), [0.4, -0.3, 0.8, 1.0, 2.0, 3.0])
    still = np.zeros(6)
    held = tb.inverse_dynamics(model, q, still, still)
    R, _ = tb.forward_kinematics(model, q, "chip")
    reading = ideal(model, InertialSensor("imu", "chip"), q, still, held)
    assert_close(reading, [0, 0, 0, *(R.T @ [0, 0, G])])
    falling = ideal(model, InertialSensor("imu", "chip"), q, still)
    assert_close(falling, np.zeros(6))


def test_imu_on_a_turntable_measures_centripetal_acceleration():
    """On the rim at rate w: -w^2 r along the spoke, r times the angular acceleration, g up."""
    r, w, torque = 0.7, 3.0, 2.0
    model = turntable(r)
    reading = ideal(model, InertialSensor("imu", "rim"), [1.1], [w], [torque])
    # moment of inertia 1 about the axle
    assert_close(reading, [0, 0, w, -(w**2) * r, torque * r, G])


def test_imu_acceleration_is_the_second_derivative_of_position():
    """Any motion in space: rotate back the differences of velocity, less gravity."""
    model = stone()
    rng = np.random.default_rng(3)
    q, v = model.random_state(rng)
    tau = rng.normal(size=6)
    h = 1e-4
    ends = [tb.integrate_rk4(model, q, v, tau, dt=sign * h, steps=1) for sign in (1.0, -1.0)]
    speed = [tb.frame_velocity(model, run.q[-1], run.v[-1], "chip") for run in ends]
    R, _ = tb.forward_kinematics(model, q, "chip")
    acceleration = (speed[0] - speed[1])[3:] / (2.0 * h)
    reading = ideal(model, InertialSensor("imu", "chip"), q, v, tau)
    # differences: h^2 times third derivatives of some ten to hundred
    assert_close(reading[3:], R.T @ (acceleration - [0, 0, -G]), 1e-5)
    assert_close(reading[:3], R.T @ tb.frame_velocity(model, q, v, "chip")[:3])


def test_depth_pose_and_logs_in_a_current():
    """Heights, places, velocity over ground and through the water, in the sensor's axes."""
    model = stone()
    q, v = model.random_state(np.random.default_rng(5))
    R, p = tb.forward_kinematics(model, q, "chip")
    current = np.array([0.4, -0.2, 0.1])
    sea = tb.Water(1025.0, tuple(current), surface=2.5)
    world = {"fluid": sea}
    model = tb.Model(
        "stone",
        [
            tb.Body(
                "stone",
                joint=tb.Free("base"),
                inertia=model.body("stone").inertia,
                shapes=(tb.Shape(tb.SphereShape(0.05)),),
                fluid=model.body("stone").fluid,
            )
        ],
        [
            tb.Frame(
                "chip", "stone", tb.Pose.from_quaternion((0.8, 0.1, -0.5, 0.2), (0.3, 0.1, -0.2))
            )
        ],
    )
    assert_close(ideal(model, DepthSensor("d", "chip"), q, v, **world), [2.5 - p[2]])
    assert_close(ideal(model, DepthSensor("d", "chip"), q, v), [-p[2]])
    found = ideal(model, PoseSensor("p", "chip"), q, v)
    assert_close(found[:3], p)
    assert_close(tb.Pose.from_quaternion(found[3:]).rotation, R)
    ground = R.T @ tb.frame_velocity(model, q, v, "chip")[3:]
    assert_close(ideal(model, VelocityLog("l", "chip"), q, v, **world), ground)
    through = ideal(model, VelocityLog("l", "chip", "water"), q, v, **world)
    assert_close(through, ground - R.T @ current)


def test_wrist_force_sensor_measures_the_tool_weight():
    """The joint transmits what moves the tool: m (a - g) of its center of mass."""
    model = arm()
    rng = np.random.default_rng(8)
    q, v = model.random_state(rng)
    tau = rng.normal(size=2)
    vd = tb.forward_dynamics(model, q, v, tau)
    reading = ideal(model, ForceTorqueSensor("ft", "tool"), q, v, tau)
    R, _ = tb.forward_kinematics(model, q, "tool")
    com = np.array([0.1, 0.02, 0.0])
    a = tb.frame_acceleration(model, q, v, vd, "tool", at=com)[3:]
    force = 0.8 * R.T @ (a - [0, 0, -G])
    assert_close(reading[3:], force, 1e-11)
    # about the wrist's own axis the motor's torque
    assert_close(reading[0], tau[1], 1e-11)
    at_tip = ideal(model, ForceTorqueSensor("ft", "tool", "tip"), q, v, tau)
    tip = tb.Pose.from_quaternion((0.9, 0.0, 0.4, 0.1), (0.25, 0, 0))
    turn, place = np.array(tip.rotation), np.array(tip.translation)
    assert_close(at_tip[3:], turn.T @ force, 1e-11)
    assert_close(at_tip[:3], turn.T @ (reading[:3] - np.cross(place, force)), 1e-11)


def test_encoders_report_positions_and_velocities_by_name():
    model = arm()
    sensor = JointSensor("encoders", ("wrist",))
    assert sensor.channel_names(model) == ("q.wrist", "v.wrist")
    assert_close(ideal(model, sensor, [0.3, -0.4], [1.0, 2.0]), [-0.4, 2.0])
    assert JointSensor("all", velocity=False).channel_names(model) == ("q.shoulder", "q.wrist")


def run(sensors, steps, q=(0.3, -0.4), v=(1.0, 2.0), cases=(), dt=1e-3, by=1):
    """Look at a state that moves in proportion to time; return what was reported at each stop."""
    model = arm()
    sensing = Sensing(System(model), sensors, dt, cases)
    u = np.zeros((*cases, 2))
    rows = []
    for step in range(0, steps, sensing.every * by):
        position = np.broadcast_to(np.array(q) + step, (*cases, 2))
        rate = np.broadcast_to(np.array(v), (*cases, 2))
        sensing.look(step, position, rate, u, np.broadcast_to(step * dt, cases))
        rows.append(sensing.row.copy())
    return np.array(rows), sensing


def test_delays_and_rates_are_exact_to_the_step():
    """Told at step n: what was seen at the last sample that is a delay old; at first, the start."""
    period, delay = 4, 6
    sensor = JointSensor("e", ("shoulder",), velocity=False, rate=1e3 / period, delay=delay * 1e-3)
    told, sensing = run([sensor], 40)
    assert sensing.every == 2
    for row, step in zip(told, range(0, 40, 2), strict=True):
        sampled = max(0, (step - delay) // period * period)
        assert row[0] == 0.3 + sampled
        assert sensing.channel_names == ("e.q.shoulder",)


def test_noise_has_the_given_deviation_and_is_white():
    """Mean 0, deviation s, no correlation between samples, channels or cases: 4 sigma bounds."""
    noise = (0.1, 0.5)
    sensor = JointSensor("e", velocity=False, noise=noise, rate=1e3, seed=11)
    cases = 40
    told, _ = run([sensor], 250, cases=(cases,))
    errors = told - (np.array([0.3, -0.4]) + np.arange(250)[:, None, None])
    scaled = errors / noise
    n = 250 * cases
    bound = 4.0 / np.sqrt(n)
    assert np.abs(scaled.mean(axis=(0, 1))).max() < bound
    assert np.abs((scaled**2).mean(axis=(0, 1)) - 1.0).max() < bound * np.sqrt(2.0)
    assert np.abs((scaled**4).mean(axis=(0, 1)) - 3.0).max() < bound * np.sqrt(96.0)
    assert np.abs((scaled[1:] * scaled[:-1]).mean()) < bound
    assert np.abs((scaled[:, 1:] * scaled[:, :-1]).mean()) < bound
    assert np.abs((scaled[..., 0] * scaled[..., 1]).mean()) < bound
    # sizes are independent as well, not only signs: squares less 1 have deviation sqrt(2)
    sizes = scaled**2 - 1.0
    for a, b in (
        (sizes[1:], sizes[:-1]),
        (sizes[:, 1:], sizes[:, :-1]),
        (sizes[..., 0], sizes[..., 1]),
        (sizes[:, 1:, 0], sizes[:, :-1, 1]),
    ):
        assert np.abs((a * b).mean()) < 2.0 * 4.0 / np.sqrt(a.size)


def test_noise_depends_on_seed_sensor_and_sample_alone():
    """Not on the number of cases, nor on what else is sampled; another seed or name is another."""
    sensor = JointSensor("e", velocity=False, noise=0.1, rate=500.0, seed=3)
    other = InertialSensor("imu", "tip", noise=0.2, rate=1e3)
    alone, _ = run([sensor], 20)
    beside, _ = run([sensor, other], 20)
    many, _ = run([sensor], 20, cases=(3,))
    assert np.array_equal(alone, beside[::2, :2])
    assert np.array_equal(alone, many[:, 0])
    assert not np.any(alone == many[:, 1])
    for changed in (
        JointSensor("e", velocity=False, noise=0.1, rate=500.0, seed=4),
        JointSensor("f", velocity=False, noise=0.1, rate=500.0, seed=3),
    ):
        assert not np.any(run([changed], 20)[0] == alone)


def test_bias_adds_and_resolution_rounds():
    sensor = JointSensor("e", velocity=False, bias=(0.05, -0.01), resolution=0.25)
    told, _ = run([sensor], 1)
    assert_close(told[0], [0.25, -0.5])


def test_checkpoints_keep_delayed_readings():
    """A second set of sensors that continues from the memory of the first gives the same bits."""
    sensor = JointSensor("e", noise=0.1, rate=250.0, delay=0.01)
    whole, _ = run([sensor], 60)
    half, sensing = run([sensor], 30)
    later = Sensing(System(arm()), [sensor], 1e-3)
    later.restore(sensing.memory())
    rows = [*half]
    for step in range(30, 60, later.every):
        state = np.array([0.3, -0.4]) + step
        later.look(step, state, np.array([1.0, 2.0]), np.zeros(2), step * 1e-3)
        rows.append(later.row.copy())
    assert np.array_equal(np.array(rows), whole)
    assert np.array_equal(later.latest["e"], whole[-1])


@pytest.mark.parametrize(
    ("sensor", "error", "text"),
    [
        (
            JointSensor("e", rate=300.0),
            tb.DomainError,
            "period: expected a multiple of the 0.001 s",
        ),
        (JointSensor("e", delay=-1.0), tb.DomainError, "delay: expected a time of at least 0 s"),
        (JointSensor("e", noise=(1.0, 2.0)), tb.ModelError, "noise must be one number or 4"),
        (InertialSensor("i", "tipp"), tb.UnknownNameError, "tip"),
        (VelocityLog("l", "tip", "air"), tb.OptionError, "relative_to"),
        (ForceTorqueSensor("f", "tool", "upper"), tb.ModelError, "fixed to body 'tool'"),
    ],
)
def test_invalid_arguments_are_refused(sensor, error, text):
    with pytest.raises(error, match=text):
        Sensing(System(arm()), [sensor], 1e-3)
