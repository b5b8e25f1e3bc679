"""Sensors inside runs: what controllers see, what is recorded, and what changes no bit."""

import numpy as np
import pytest

import tiburon as tb
from tests.contact_models import CONTACTS
from tests.tolerances import assert_close
from tiburon.simulation.sensing import Sensing

ENCODERS = tb.JointSensor("encoders", rate=200.0, noise=2e-3, delay=0.02, seed=5)
GYRO = tb.InertialSensor("gyro", "lower", rate=100.0)


def pendulum():
    upper = tb.Body(
        "upper",
        joint=tb.Revolute("shoulder", axis=(0, 1, 0)),
        inertia=tb.Inertia(1.0, (0, 0, -0.3), (0.02, 0.02, 0.02)),
    )
    lower = tb.Body(
        "lower",
        "upper",
        joint=tb.Revolute("elbow", axis=(0, 1, 0), pose=tb.Pose(translation=(0, 0, -0.6))),
        inertia=tb.Inertia(0.6, (0, 0, -0.2), (0.01, 0.01, 0.01)),
    )
    return tb.Model("pendulum", [upper, lower])


MODEL = pendulum()
START = np.array([0.7, -0.4])


def swing(duration=0.4, **options):
    options = {
        "method": tb.RK4(dt=1e-3),
        "record": tb.Record(dt=0.005),
        "q": START,
        "sensors": [ENCODERS, GYRO],
        **options,
    }
    return tb.simulate(MODEL, duration, **options)


def test_sensors_do_not_change_the_motion():
    """A run with sensors moves as one without."""
    assert np.array_equal(swing().q, swing(sensors=()).q)


def test_readings_are_delayed():
    """Recorded words against recorded states: exact without noise, and shifted by the delay."""
    quiet = tb.JointSensor("quiet", rate=200.0, delay=0.02)
    run = swing(sensors=[quiet, GYRO])
    told = run.array("sensor")
    state = np.concatenate([run.q, run.v], axis=1)
    lag = round(0.02 / 0.005)
    assert np.array_equal(told[lag:, :4], state[:-lag])
    # until the first sample arrives, readings are those of the start
    assert np.array_equal(told[:lag, :4], np.tile(state[0], (lag, 1)))
    sensing = Sensing(run.system.system, [GYRO], 1e-3)
    ideal = sensing.ideal(run.q[::2], run.v[::2], np.zeros((len(run.q[::2]), 2)), run.time[::2])
    assert_close(told[::2, 4:], ideal)


def test_a_controller_reads_sensors():
    """Held until the next word; the same numbers that are recorded."""
    seen = []

    def control(state):
        seen.append((state.time, state.sensors["encoders"].copy(), state.sensors["gyro"].copy()))
        return -5.0 * state.sensors["encoders"][:2] - 0.5 * state.sensors["encoders"][2:]

    run = swing(control=tb.Sampled(control, dt=0.01))
    told = run.array("sensor")
    # the last row may be reached without another word of the controller
    for time, encoders, gyro in seen:
        row = round(time / 0.005)
        assert np.array_equal(told[row, :4], encoders)
        assert np.array_equal(told[row, 4:], gyro)
    assert len(seen) >= 40


def test_readings_do_not_depend_on_recording_or_batch():
    """Other recording rates, a batch beside, a run in two parts: the same bits."""
    whole = swing()
    rare = swing(record=tb.Record(dt=0.02))
    assert np.array_equal(rare.array("sensor"), whole.array("sensor")[::4])
    batch = swing(q=np.array([START, START + 0.1, START - 0.2]))
    assert np.array_equal(batch.array("sensor")[:, 0], whole.array("sensor"))
    first = swing(0.2)
    both = first.resume(0.2)
    assert np.array_equal(both.array("sensor")[-1], whole.array("sensor")[-1])


def test_readings_are_saved_and_continue(tmp_path):
    """Words that are on their way survive a file."""
    whole = swing()
    swing(0.2).save(tmp_path / "half.zarr")
    later = tb.load_run(tmp_path / "half.zarr").resume(0.2, sensors=[ENCODERS, GYRO])
    assert np.array_equal(later.array("sensor")[-1], whole.array("sensor")[-1])


def test_rates_that_do_not_fit_the_steps_are_refused():
    with pytest.raises(tb.DomainError, match="sensor 'odd': period"):
        swing(sensors=[tb.JointSensor("odd", rate=300.0)])


@pytest.mark.parametrize("contact", ["rigid", "compliant", "exact"])
def test_sensors_feel_the_ground(contact):
    """At rest: proper acceleration is g upward, and a joint carries what is above it."""
    soft = {"normal_stiffness": 2e4, "normal_damping": 200.0} if contact == "compliant" else {}
    world = tb.World(ground=tb.Ground(static_friction=0.8, **soft))
    trunk = tb.Body("trunk", joint=tb.Free("base"), inertia=tb.Inertia.box(1.0, (0.1, 0.1, 0.1)))
    sled = tb.Body(
        "sled",
        "trunk",
        joint=tb.Revolute("waist", (0, 1, 0)),
        inertia=tb.Inertia.box(2.0, (0.3, 0.3, 0.1)),
        shapes=(tb.Shape(tb.BoxShape((0.3, 0.3, 0.1))),),
    )
    model = tb.Model("sled", [trunk, sled])
    sensors = [tb.InertialSensor("imu", "trunk"), tb.ForceTorqueSensor("waist", "sled")]
    start = [1.0, 0, 0, 0, 0, 0, 0.05, 0]
    method = tb.RK4(dt=2e-4)
    if contact == "exact":
        method = tb.Dop853(rtol=1e-12, atol=1e-13, dt=2e-4)
    run = tb.simulate(
        model, 0.5, q=start, world=world, contact=CONTACTS[contact], method=method, sensors=sensors
    )
    imu, waist = run.data["sensor"].values[-1].reshape(2, 6)
    np.testing.assert_allclose(imu, [0, 0, 0, 0, 0, 9.81], atol=1e-4)
    np.testing.assert_allclose(waist, [0, 0, 0, 0, 0, -9.81], atol=1e-4)


@pytest.mark.parametrize(
    "method", [tb.Projection(), tb.Baumgarte(10.0, 10.0), tb.Penalty(1e5), tb.Embedding()]
)
def test_force_torque_sensors_measure_forces_of_loops(method):
    """A free hinge transmits no moment about its axis, also where a loop closes beyond it."""
    bar = tb.load("four_bar")
    run = tb.simulate(
        bar,
        0.02,
        q=bar.poses["home"],
        method=tb.RK4(dt=1e-4),
        loops=method,
        sensors=[tb.ForceTorqueSensor("elbow", "coupler")],
    )
    reading = run.data["sensor"].values[-1]
    assert np.linalg.norm(reading) > 5.0
    np.testing.assert_allclose(reading[:3], np.zeros(3), atol=1e-9)
    # with springs instead of constraints, reactions are those of the springs
    reaction = run.get("joint_reaction").values[-1, 1]
    np.testing.assert_allclose(reading, reaction, atol=1e-9)
