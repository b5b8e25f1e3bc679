"""`integrate_rk4`: records, progress and errors."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import kicked, pendulum, rover
from tests.simulation.samples import WEIGHTLESS, symmetric_top
from tiburon.errors import DomainError, NonFiniteError, ShapeError
from tiburon.simulation import engine as engine_module


@pytest.fixture(scope="module")
def model():
    return pendulum()


def test_times_are_multiples_of_the_step(model):
    """No time drifts: each is a count times dt."""
    run = tb.integrate_rk4(model, [0.1], [0.2], dt=0.01, steps=25, record_every=10)
    np.testing.assert_array_equal(run.time, np.array([0, 10, 20, 25]) * 0.01)
    assert run.q.shape == run.v.shape == (4, 1)
    assert len(run) == 4
    assert repr(run) == "<StateRecord: 4 states over 0.25 s>"


def test_the_first_state_is_the_one_given(model):
    """Without steps there is nothing else."""
    run = tb.integrate_rk4(model, [0.1], [0.2], dt=0.01, steps=0)
    assert run.time.tolist() == [0.0]
    assert run.q.tolist() == [[0.1]]
    assert run.v.tolist() == [[0.2]]


def test_a_constant_joint_force_shifts_the_equilibrium(model):
    """At tau = m g l sin(q) the pendulum rests, without the force it falls."""
    angle = 0.4
    tau = 1.3 * 9.81 * 0.7 * np.sin(angle)
    held = tb.integrate_rk4(model, [angle], [0.0], [tau], dt=1e-2, steps=100)
    # rounding of the balance, grown over one second
    np.testing.assert_allclose(held.q, angle, rtol=0, atol=1e-13)
    assert tb.integrate_rk4(model, [angle], [0.0], dt=1e-2, steps=10).q[-1] < angle


def test_the_world_is_used(model):
    """Without gravity a pendulum turns at a constant rate."""
    run = tb.integrate_rk4(model, [0.1], [2.0], dt=0.01, steps=50, world=WEIGHTLESS)
    # 50 sums of numbers near 1
    np.testing.assert_allclose(run.q[:, 0], 0.1 + 2.0 * run.time, rtol=0, atol=50 * 2.3e-16)


def test_leading_dimensions_broadcast(model):
    """One position, several velocities, several forces: a table of runs."""
    v, tau = np.array([[0.0], [1.0]]), np.linspace(0.0, 1.0, 3).reshape(3, 1, 1)
    run = tb.integrate_rk4(model, [0.1], v, tau, dt=0.01, steps=4, record_every=2)
    assert run.q.shape == (3, 3, 2, 1)
    assert repr(run) == "<StateRecord: 3 states of 3 x 2 cases over 0.04 s>"
    alone = tb.integrate_rk4(model, [0.1], [1.0], [0.5], dt=0.01, steps=4, record_every=2)
    np.testing.assert_array_equal(run.q[:, 1, 1], alone.q)


def test_empty_batch_is_recorded(model):
    run = tb.integrate_rk4(model, np.empty((0, 1)), np.empty((0, 1)), dt=0.01, steps=5)
    assert run.q.shape == (6, 0, 1)


def test_progress_rises_and_ends_with_all_steps(model, monkeypatch):
    """The clock sets how often; the last call comes always."""
    calls = []
    tb.integrate_rk4(model, [0.1], [0.2], dt=0.01, steps=7, progress=lambda *c: calls.append(c))
    assert calls[-1] == (7, 7)
    monkeypatch.setattr(engine_module, "CHUNK_SECONDS", 0.0)
    calls.clear()
    tb.integrate_rk4(model, [0.1], [0.2], dt=0.01, steps=30, progress=lambda *c: calls.append(c))
    done = [count for count, _ in calls]
    assert done == sorted(set(done))
    # steps one by one after the first call
    assert len(done) == 1 + 30 - engine_module.FIRST_STEPS


def test_long_runs_return_to_python_regularly(model):
    """A second of work is interrupted by the clock, not done in one piece."""
    times = []

    def stop(done, total):
        times.append(done)
        if len(times) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tb.integrate_rk4(
            model, [0.1], [0.2], dt=1e-6, steps=10**9, record_every=10**8, progress=stop
        )
    assert times[-1] < 10**8


def test_input_arrays_are_not_modified(model):
    q, v, tau = np.array([0.1]), np.array([0.2]), np.array([0.3])
    run = tb.integrate_rk4(model, q, v, tau, dt=0.01, steps=3)
    assert (q[0], v[0], tau[0]) == (0.1, 0.2, 0.3)
    assert not np.shares_memory(run.q, q)


def test_wrong_sizes_raise_an_error():
    """The message says which array, and what its numbers are."""
    with pytest.raises(ShapeError, match=r"q: expected 10 \(7 base \+ 3 joints\), got 9"):
        tb.integrate_rk4(rover(), np.zeros(9), np.zeros(9), dt=0.1, steps=1)
    with pytest.raises(ShapeError, match=r"tau: expected 1 \(1 joint\), got 2"):
        tb.integrate_rk4(pendulum(), [0.0], [0.0], [1.0, 2.0], dt=0.1, steps=1)
    with pytest.raises(ShapeError, match=r"q, v, tau: expected leading dimensions that broadcast"):
        tb.integrate_rk4(pendulum(), np.zeros((2, 1)), np.zeros((3, 1)), dt=0.1, steps=1)
    with pytest.raises(ShapeError, match="dt: expected 1 number, got 2"):
        tb.integrate_rk4(pendulum(), [0.0], [0.0], dt=[0.1, 0.2], steps=1)


def test_non_finite_arguments_raise_an_error(model):
    with pytest.raises(NonFiniteError, match="v: every value must be finite, got nan at index 0"):
        tb.integrate_rk4(model, [0.0], [np.nan], dt=0.1, steps=1)
    with pytest.raises(NonFiniteError, match="dt: every value must be finite, got inf"):
        tb.integrate_rk4(model, [0.0], [0.0], dt=np.inf, steps=1)


@pytest.mark.parametrize(
    ("argument", "value", "least"),
    [("steps", -1, 0), ("steps", 1.5, 0), ("record_every", 0, 1), ("record_every", "two", 1)],
)
def test_counts_must_be_whole_and_large_enough(model, argument, value, least):
    counts = {"steps": 3, "record_every": 1} | {argument: value}
    expected = f"{argument}: expected a whole number of at least {least}, got"
    with pytest.raises(DomainError, match=expected):
        tb.integrate_rk4(model, [0.0], [0.0], dt=0.1, **counts)


@pytest.mark.parametrize("record_every", [1, 1000])
def test_a_motion_that_diverges_is_an_error_with_its_time(record_every):
    """Far too large a step: the failing step is found, whichever way the run was cut up."""
    model = rover()
    q, v, tau = kicked(model, 9)
    messages = []
    for shape in ((), (4,)):
        with pytest.raises(DomainError, match="motion: expected finite positions") as caught:
            tb.integrate_rk4(
                model,
                np.broadcast_to(q, (*shape, model.nq)),
                50.0 * v,
                tau,
                dt=0.2,
                steps=1000,
                record_every=record_every,
            )
        assert "take a smaller dt" in str(caught.value)
        messages.append(str(caught.value).partition(", got in step ")[2].partition(" s on")[0])
    # "step, from time": the same for one case and a batch of equal cases
    assert messages[0] == messages[1]
    step, time = messages[0].split(", from time ")
    assert float(time) == pytest.approx((int(step) - 1) * 0.2)


def test_quaternion_of_small_norm_is_refused():
    """A wrong slice is not silently taken for an orientation."""
    with pytest.raises(DomainError, match=r"in step 1, .* quaternion of joint 'float'"):
        tb.integrate_rk4(symmetric_top(), np.zeros(7) + 0.1, np.ones(6), dt=0.01, steps=3)
