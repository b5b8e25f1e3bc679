"""Sampled controllers are called once per sample, however a run is split and recorded."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator

MODEL = tb.load("pendulum")
(NAME,) = MODEL.v_names


def ramp(state):
    """Count its calls, in its own command."""
    return {NAME: state.u[..., 0] + 1.0}


@tb.traced
def inside(state):
    return {NAME: state.u[0] + 1.0}


def run(control, duration=0.5, **options):
    return tb.simulate(
        MODEL,
        duration,
        control=tb.Sampled(control, dt=0.01),
        execution=tb.Execution(progress=False),
        **options,
    )


@pytest.mark.parametrize("record_dt", [0.01, 0.05, 0.001])
@pytest.mark.parametrize("start", [np.zeros(1), np.zeros((2, 1))])
def test_sampled_controller_counts_its_calls(record_dt, start):
    """One more at every hundredth of a second, natively as in Python."""
    native = run(inside, q=start, record=tb.Record(dt=record_dt))
    expected = 1.0 + np.floor(native.time / 0.01 + 1e-6)
    assert np.array_equal(native.u.reshape(len(expected), -1)[:, 0], expected)
    python = run(ramp, q=start, record=tb.Record(dt=record_dt))
    assert np.array_equal(native.u, python.u)
    assert np.array_equal(native.q, python.q)


@pytest.mark.parametrize(
    ("method", "control"),
    [
        *(("rk4", inside), ("rk4", ramp), ("dopri5", inside), ("b2pc5", ramp)),
        *(
            pytest.param(*choice, marks=pytest.mark.slow)
            for choice in (("dopri5", ramp), ("b2pc5", inside))
        ),
    ],
)
def test_resumed_run_does_not_sample_the_controller_again(control, method, tmp_path):
    """At the step where it was cut the command is known."""
    whole = run(control, method=integrator(method))
    half = run(control, 0.2, method=integrator(method))
    half.save(tmp_path / "half.zarr")
    later = tb.load_run(tmp_path / "half.zarr").resume(0.3, control=control)
    assert np.array_equal(later.u, whole.u)
    assert np.array_equal(later.q, whole.q)


def test_events_do_not_sample_the_controller_again():
    """Events without action change nothing; actions keep the sample times."""

    @tb.traced
    def late(state):
        return state.time - 0.0955

    plain = run(inside)
    told = run(inside, events=[tb.Event("late", late)])
    assert [event.name for event in told.events] == ["late"]
    assert np.array_equal(told.u, plain.u)
    kick = tb.Event("late", late, action=lambda state: {"v": state.v + 0.1})
    for control in (inside, ramp):
        acted = run(control, events=[kick])
        assert np.array_equal(acted.u, plain.u)
        assert not np.array_equal(acted.q, plain.q)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_commands_may_be_a_list_of_numbers_and_traced_values(method):
    """Sampled commands hold between samples: the mass moves by half the acceleration a second."""
    body = tb.Body(
        "mass",
        "world",
        joint=tb.Cylindrical("slide", axis=(1, 0, 0)),
        inertia=tb.Inertia(2.0, (0, 0, 0), np.eye(3)),
    )

    @tb.traced
    def push(state):
        return [0, 4.0 + 0.0 * state.q[0]]

    model = tb.Model("mass", [body])
    moved = tb.simulate(model, 1.0, control=tb.Sampled(push, dt=0.1), method=integrator(method))
    assert abs(moved.q[-1, 1] - 1.0) < 1e-9
