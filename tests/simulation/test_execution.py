"""`Execution` and `Sampled`: how runs are carried out, and when controllers are called."""

import pytest

import tiburon as tb

ROBOT = tb.load("pendulum")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": 0}, "Execution: threads: expected a whole number of at least 1"),
        ({"budget": "1"}, "Execution: budget: expected a number of at least 0"),
        ({"budget": float("nan")}, "Execution: budget"),
        ({"progress": 3}, "Execution: progress: expected True or False or 'a function'"),
        ({"exchange": tb.ThreadExchange()}, "Execution: exchange: expected 'None without part"),
    ],
)
def test_wrong_fields_are_refused(options, words):
    """The message names the field."""
    with pytest.raises((tb.DomainError, tb.OptionError), match=words):
        tb.Execution(**options)


@pytest.mark.parametrize(
    "call",
    [
        lambda given: tb.simulate(ROBOT, 0.01, execution=given),
        lambda given: tb.stepper(ROBOT, method=tb.RK4(dt=0.01), execution=given),
        lambda given: tb.simulate(ROBOT, 0.01).resume(0.01, execution=given),
    ],
)
@pytest.mark.parametrize("given", [2, {"threads": 2}, False])
def test_anything_but_an_execution_is_refused(call, given):
    """The message has the object to write."""
    with pytest.raises(tb.DomainError, match=r"write execution=tb\.Execution\(threads=\.\.\.\)"):
        call(given)


def test_functions_refuse_fields_without_a_meaning_for_them():
    """A stepper has no wall-clock budget, and cases of a resumed run keep their numbers."""
    with pytest.raises(tb.ModelError, match="a stepper takes threads; leave budget out"):
        tb.stepper(ROBOT, method=tb.RK4(dt=0.01), execution=tb.Execution(budget=1.0))
    with pytest.raises(tb.ModelError, match="leave case_numbers out"):
        tb.simulate(ROBOT, 0.01).resume(0.01, execution=tb.Execution(case_numbers=[1]))


def hold(state):
    """Return a spring force."""
    return -2.0 * state.q


def test_periods_of_controllers_are_checked():
    """A period is above zero, a multiple of the step, and that of the start where a run goes on."""
    with pytest.raises(tb.DomainError, match="Sampled: dt: expected a finite number above 0"):
        tb.Sampled(hold, dt=0.0)
    with pytest.raises(tb.DomainError, match="Sampled: controller"):
        tb.Sampled(tb.Sampled(hold, dt=0.01), dt=0.02)
    with pytest.raises(tb.ModelError, match="control: expected a function of the state, got 3"):
        tb.simulate(ROBOT, 0.1, control=tb.Sampled(3, dt=0.01))
    run = tb.simulate(ROBOT, 0.1, control=tb.Sampled(hold, dt=0.02))
    with pytest.raises(tb.ModelError, match=r"period of the start, every 0\.02 s, got 0\.01 s"):
        run.resume(0.1, control=tb.Sampled(hold, dt=0.01))
    assert run.resume(0.1, control=tb.Sampled(hold, dt=0.02)).outcome.ok
