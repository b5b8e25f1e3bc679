"""Functions that users write and that take other arguments than they are called with."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.errors import ModelError, ShapeError

ARM = "double_pendulum"
STATE = r"expected a function of \(state\), got one of \(q, v\); write def "


def run(**keywords):
    """Start a short run."""
    return tb.simulate(tb.load(ARM), 0.01, **keywords)


class Wrong(tb.Sensor):
    """A sensor whose measure takes too much."""

    name, rate, noise, bias, delay, seed = "eye", 100.0, 0.0, 0.0, 0.0, 0

    def channel_names(self, model):
        """Return one channel."""
        return ("x",)

    def measure(self, q, v):
        """Return nothing."""
        return (0.0,)


WRONG = {
    "control": (lambda: run(control=lambda q, v: None), "control: " + STATE + "control"),
    "traced control": (lambda: run(control=tb.traced(lambda q, v: q)), "control: " + STATE),
    "expression": (
        lambda: tb.Event("low", tb.traced(lambda q, v: q[0])),
        "event 'low': expression: " + STATE + "expression",
    ),
    "action": (
        lambda: tb.Event("low", tb.traced(lambda s: s.q[0]), action=lambda q, v: None),
        "event 'low': action: " + STATE + "action",
    ),
    "action of a time": (
        lambda: tb.TimeEvent("late", 1.0, action=lambda q, v: None),
        "event 'late': action: " + STATE,
    ),
    "no function": (
        lambda: tb.TimeEvent("late", 1.0, action=3),
        "event 'late': action: expected a function, got int 3",
    ),
    "progress": (
        lambda: run(execution=tb.Execution(progress=lambda share: None)),
        r"progress: expected a function of \(done, total\), got one of \(share\)",
    ),
    "force": (
        lambda: tb.ForceFunction("wind", lambda q, v: {}),
        r"force function 'wind': function: expected a function of \(now\), got one of \(q, v\)",
    ),
    "sensor": (
        lambda: run(sensors=[Wrong()]),
        r"sensor 'eye': measure: expected a function of \(now\), got one of \(q, v\)",
    ),
    "constraint": (
        lambda: tb.ConstraintFunction("wire", lambda bead: 0.0, frames=("bead", "hook"), count=1),
        r"loop 'wire': function: expected a function of \(bead, hook\), got one of \(bead\)",
    ),
    "current": (
        lambda: tb.Water(1000.0, current=lambda time: (0.0, 0.0, 0.0)),
        r"water: current: expected a function of \(time, position\), got one of \(time\)",
    ),
    "compiled": (
        lambda: tb.compile(lambda q, v: q, tb.load(ARM)),
        r"expected a function of \(model, ...\), got one of \(q, v\); write def .*\(model, q, v\)",
    ),
    "compiled text": (
        lambda: tb.compile("forward_dynamics", tb.load(ARM)),
        "compile: expected a function, or a list of functions, got str 'forward_dynamics'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_signature_raises_an_error_with_the_right_one(case):
    """Before anything runs: which function, its arguments, those expected, what to write."""
    attempt, text = WRONG[case]
    with pytest.raises(ModelError, match=text):
        attempt()


def test_compiling_without_the_model_explains_how_to_pass_it():
    """Sizes of q and v are those of a model."""
    with pytest.raises(ShapeError, match=r"argument 'q'.*without a model; write def .*\(model, q"):
        tb.compile(lambda q, v: q)


def test_valid_signatures_of_all_forms_are_accepted():
    """Further arguments with defaults, any number of them, methods and objects that are called."""

    class Controller:
        def __call__(self, state, gain=2.0):
            return -gain * state.v

        def method(self, *given):
            return -given[0].v

    for control in (Controller(), Controller().method, lambda *a, **k: np.zeros(2)):
        assert run(control=control).status == "finished"
    assert tb.compile(lambda x, y=1.0: x + y, shapes={"x": 2})(np.zeros(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("given", ["tip", 5, [1.0, 2.0], ("tip", (0, 0, 0, 0, 0, 1))])
def test_external_forces_that_name_no_frame_are_refused(given):
    """What is expected is a force for each name."""
    arm, q = tb.load(ARM), np.zeros(2)
    for function in (tb.forward_dynamics, tb.inverse_dynamics):
        with pytest.raises(ShapeError, match=r"external_force: expected forces by name.*'hand'"):
            function(arm, q, q, q, external_force=given)


def test_external_forces_by_something_else_than_a_name_are_refused():
    """Numbers of bodies are no names."""
    arm, q = tb.load(ARM), np.zeros(2)
    with pytest.raises(tb.TiburonError, match="external_force"):
        tb.forward_dynamics(arm, q, q, q, external_force={1: np.zeros(6)})
