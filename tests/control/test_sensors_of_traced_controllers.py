"""Controllers inside native loops that read sensors: the bits of a controller in Python."""

import numpy as np
import pytest

import tiburon as tb
from tests.control.test_sensors_in_runs import ENCODERS, GYRO, START, swing
from tests.tolerances import assert_close


def answer(state):
    """Decide from what sensors say alone, by products with powers of two, which do not round."""
    encoders, gyro = state.sensors["encoders"], state.sensors["gyro"]
    return {"shoulder": -4.0 * encoders[..., 0], "elbow": -0.03125 * gyro[..., 3]}


@tb.traced
def inside(state):
    return answer(state)


def outside(state):
    return answer(state)


def same(run, other):
    for name in ("q", "v", "u"):
        assert np.array_equal(getattr(run, name), getattr(other, name)), name
    assert np.array_equal(run.array("sensor"), other.array("sensor"))


@pytest.mark.parametrize("control_dt", [0.01, 0.02, 0.002])
def test_sampled_traced_controllers_read_the_same_values_as_those_in_python(control_dt):
    """Noise, delay and readings that depend on commands: one robot, and cases of a batch."""
    python = swing(control=tb.Sampled(outside, dt=control_dt))
    assert np.ptp(python.u[:, 1]) > 0.05
    native = swing(control=tb.Sampled(inside, dt=control_dt))
    same(native, python)
    if control_dt == 0.01:
        q = np.array([START, START + 0.1, START - 0.2])
        many = swing(q=q, control=tb.Sampled(inside, dt=control_dt))
        same(many, swing(q=q, control=tb.Sampled(outside, dt=control_dt)))
        assert np.array_equal(many.q[:, 0], native.q)


def test_readings_are_held_between_samples_at_every_stage():
    """A controller of sensor readings changes only at their samples, every 5 ms here."""
    native = swing(control=inside)
    python = swing(control=tb.Sampled(outside, dt=0.005))
    assert np.array_equal(native.q[-1], python.q[-1])
    # with the controller inside, the acceleration that sensors see is rounded elsewhere
    assert_close(native.array("sensor"), python.array("sensor"))
    # commands are recorded as sensors make them
    assert np.array_equal(native.u[:, 0], -4.0 * native.array("sensor")[:, 0])


def test_adaptive_steps_end_at_sensor_samples():
    """To the bit, as with a controller in Python at that rate."""
    options = {"method": tb.DormandPrince(dt=1e-3)}
    held, called = tb.Sampled(inside, dt=0.005), tb.Sampled(outside, dt=0.005)
    same(swing(0.1, control=held, **options), swing(0.1, control=called, **options))
    stages = swing(0.1, control=inside, method=tb.DormandPrince())
    assert np.array_equal(stages.q[-1], swing(0.1, control=called, **options).q[-1])


@pytest.mark.parametrize("control", [inside, outside])
@pytest.mark.parametrize("control_dt", [0.01, None])
def test_resumed_run_has_the_same_readings(control, control_dt, tmp_path):
    """Words on their way, and words that depend on the commands of the moment, survive a file."""
    sampled = control if control_dt is None else tb.Sampled(control, dt=control_dt)
    whole = swing(control=sampled)
    first = swing(0.2, control=sampled)
    first.save(tmp_path / "half.zarr")
    later = tb.load_run(tmp_path / "half.zarr").resume(
        0.2, sensors=[ENCODERS, GYRO], control=control
    )
    same(later, whole)


def test_unknown_sensors_are_reported():
    """By name, traced or in Python; the nearest name first."""
    for control in (inside, outside):
        with pytest.raises(tb.ModelError, match="'encoders', got one without sensors"):
            swing(0.1, sensors=(), control=control)
        with pytest.raises(tb.UnknownNameError, match="unknown sensor 'gyro'"):
            swing(0.1, sensors=[ENCODERS], control=control)
