"""What a stranger may get wrong in `simulate`: each gives an error that names it, or an outcome."""

import numpy as np
import pytest

import tiburon as tb

MODEL = tb.load("pendulum")
(NAME,) = MODEL.v_names


def start(duration=0.1, **options):
    return tb.simulate(MODEL, duration, **{"execution": tb.Execution(progress=False), **options})


WRONG = {
    "q of another size": ({"q": [1.0, 2.0]}, tb.ShapeError, "q: expected 1"),
    "q with NaN": ({"q": [np.nan]}, tb.NonFiniteError, "q: every value must be finite, got nan"),
    "q as text": ({"q": "home"}, tb.ShapeError, "q: expected 1 .* got 'home'"),
    "no cases": ({"q": np.zeros((0, 1))}, tb.ShapeError, "a case or more"),
    "cases that differ": (
        {"q": np.zeros((3, 1)), "v": np.zeros((2, 1))},
        tb.ShapeError,
        "leading dimensions that broadcast",
    ),
    "negative duration": ({"duration": -1.0}, tb.DomainError, "duration: expected at least 0 s"),
    "endless duration": ({"duration": 1e300}, tb.DomainError, "duration: expected at most 9.01e"),
    "half a step": (
        {"duration": 0.1005},
        tb.DomainError,
        "duration: .* 100.5 steps; take a dt of ",
    ),
    "rows without room": (
        {"duration": 1e12},
        tb.DomainError,
        "record: expected rows that fit in memory",
    ),
    "rows between steps": (
        {"record": tb.Record(dt=1e-4)},
        tb.DomainError,
        "Record: dt: .* 0.1 steps",
    ),
    "an unknown quantity": (
        {"record": tb.Record(quantities="energies")},
        tb.UnknownNameError,
        "mean 'energy'",
    ),
    "a name as method": (
        {"method": "rosenbrock"},
        tb.DomainError,
        r"write method=tb\.Rosenbrock\(dt",
    ),
    "control that is no function": ({"control": 3}, tb.ModelError, "a function of the state"),
    "a class as control": ({"control": tb.PD}, tb.ModelError, r"such as PD\(\.\.\.\)"),
    "control between steps": (
        {"control": tb.Sampled(lambda state: -state.q, dt=1e-4)},
        tb.DomainError,
        "Sampled: dt",
    ),
    "an unknown command": ({"command": {"x": 1.0}}, tb.UnknownNameError, "unknown command 'x'"),
    "a command with NaN": ({"command": {NAME: np.nan}}, tb.NonFiniteError, "command"),
    "a command as text": ({"command": {NAME: "a"}}, tb.ShapeError, "command: expected numbers"),
    "one number as command": ({"command": 1.0}, tb.ShapeError, "command: expected 1 joint"),
    "a force that is none": ({"elements": [1.0]}, tb.ModelError, "elements: expected an element"),
    "a force alone": (
        {"elements": tb.JointForceSchedule("s", NAME, [0.0], [1.0])},
        tb.ModelError,
        r"elements=\[\.\.\.\]",
    ),
    "a sensor that is none": ({"sensors": [1]}, tb.ModelError, "sensors: expected Sensor, got 1"),
    "a sensor alone": ({"sensors": tb.JointSensor("a")}, tb.ModelError, r"sensors=\[\.\.\.\]"),
    "an event that is none": ({"events": [1]}, tb.ModelError, "events: expected Event"),
    "an unknown parameter": ({"parameters": {"mass": [1]}}, tb.UnknownNameError, "'mass'"),
    "a parameter of a case with NaN": (
        {"parameters": {"world.gravity": [[0, 0, -9.81], [0, 0, np.nan]]}},
        tb.NonFiniteError,
        r"parameters\['world.gravity'\]: .* got nan at index \(1, 2\)",
    ),
    "a parameter as text": ({"parameters": {"world.gravity": "a"}}, tb.ShapeError, "'world.gra"),
    "threads alone": ({"execution": 2}, tb.DomainError, r"write execution=tb\.Execution\(threads"),
    "contact as text": (
        {"contact": "rigid"},
        tb.ModelError,
        r"write contact=tb\.RigidContact\(\)$",
    ),
    "two models of contact": (
        {"contact": [tb.RigidContact(), tb.ExactContact()]},
        tb.ModelError,
        "contact: expected one model of contact, got a list",
    ),
    "two integrators": (
        {"method": [tb.RK4(), tb.Euler()]},
        tb.DomainError,
        r"expected one integrator, got .*; write method=tb\.RK4\(dt=1e-3\)",
    ),
    "two loop methods": (
        {"loops": (tb.Projection(), tb.Penalty(1.0))},
        tb.ModelError,
        "expected one loop method",
    ),
    "contact among elements": (
        {"elements": [tb.RigidContact()]},
        tb.ModelError,
        r"elements: expected no model of contact; write contact=tb\.RigidContact",
    ),
    "an integrator as a loop method": (
        {"loops": tb.RK4()},
        tb.ModelError,
        r"loops: expected a loop method, got RK4",
    ),
    "a class of loop methods": ({"loops": tb.DeNOC}, tb.ModelError, r"write loops=tb\.DeNOC\(\)$"),
    "pairs that do not exist": (
        {"contact": tb.RigidContact(pairs=[("nose", "world")])},
        tb.UnknownNameError,
        "unknown body 'nose'",
    ),
    "a pair that is none": (
        {"contact": tb.RigidContact(pairs=["nose"])},
        tb.ModelError,
        r"write pairs=\[\('finger', 'block'\)",
    ),
    "contact as a flag": ({"contact": False}, tb.ModelError, "write contact=None$"),
    "a class of contact": (
        {"contact": tb.RigidContact},
        tb.ModelError,
        r"write contact=tb\.RigidContact\(\)$",
    ),
    "loops as text": ({"loops": "denoc"}, tb.ModelError, r"write loops=tb\.DeNOC\(\)$"),
    "no loop method": ({"loops": None}, tb.ModelError, r"write loops=tb\.Projection\(\)"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_inputs_are_reported(what):
    """The message names the argument, what was expected and what was given."""
    options, error, text = WRONG[what]
    with pytest.raises(error, match=text):
        start(**options)


def test_invalid_progress_argument_is_reported():
    with pytest.raises(tb.OptionError, match="progress: expected True or False"):
        tb.simulate(MODEL, 0.1, execution=tb.Execution(progress="yes"))


ANSWERS = {
    "nothing": (lambda state: None, "control: expected 1 joint forces, got None"),
    "one number": (lambda state: 1.0, "control: expected 1 joint forces, got 1.0"),
    "too many": (lambda state: np.zeros(3), r"got shape \(3,\)"),
    "text": (lambda state: ["a"], r"got \['a'\]"),
    "an unknown name": (lambda state: {"x": 1.0}, "unknown command 'x'"),
    "text by name": (lambda state: {NAME: "x"}, f"command '{NAME}': expected 1 number, got 'x'"),
    "nothing by name": (lambda state: {NAME: None}, "expected 1 number, got None"),
    "two by name": (lambda state: {NAME: [1.0, 2.0]}, "expected 1 number, got 2"),
    "cases for one robot": (lambda state: np.zeros((4, 1)), r"got shape \(4, 1\)"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_invalid_controller_outputs_are_reported(what):
    """When they come, with what was expected."""
    control, text = ANSWERS[what]
    with pytest.raises(tb.TiburonError, match=text):
        start(control=control)


def test_controller_outputs_of_wrong_batch_size_are_reported():
    with pytest.raises(tb.ShapeError, match=r"for each of \(3,\) cases, got shape \(2, 1\)"):
        start(q=np.zeros((3, 1)), control=lambda state: np.zeros((2, 1)))


def test_non_finite_controller_outputs_end_the_run():
    """An outcome that says which command, at the last good state."""
    run = start(control=lambda state: [np.nan if state.time > 0.045 else 0.0])
    assert run.outcome.status == "diverged"
    assert run.outcome.quantity == f"command {NAME!r}"
    assert run.outcome.time == pytest.approx(0.05)
    assert np.isfinite(run.q).all()


def test_zero_duration_and_huge_steps_have_outcomes():
    """No time gives one row; steps far too long diverge, which is reported."""
    assert start(0.0).q.shape == (1, 1)
    run = start(1e3, method=tb.RK4(dt=10.0), v=[5.0])
    assert run.outcome.status in ("diverged", "finished")
    assert np.isfinite(run.q).all()
