"""Gains and targets are run-time numbers: others compile nothing, and cases have their own."""

import numpy as np
import pytest

import tiburon as tb
from tests.control.test_joint_control import PATH, arm
from tests.tolerances import assert_close
from tiburon.actuation.defaults import elements_of
from tiburon.simulation.system import System

ROV = "bluerov2_heavy"


def pairs():
    """Two controllers of each kind with other numbers in the same form."""
    rov = tb.load(ROV)
    keep = [
        tb.StationKeeping.of(rov, frequency=k, target=(1, 0, 0, 0, x, 0, -2.0))
        for k, x in ((0.5, 0.0), (0.8, 1.0))
    ]
    three = (3.0, 4.0, 5.0)
    return {
        "pd": (tb.PD(0.1, 80.0, 9.0), tb.PD(0.3, 20.0, 4.0)),
        "pd of rows": (tb.PD((0, 0, 1), three, 2.0), tb.PD((1, 0, 0), (9, 9, 9), 1.0)),
        "pd by name": (tb.PD({"wrist": 0.4}, 1.0, 2.0), tb.PD({"wrist": -0.4}, 3.0, 1.0)),
        "pd on a path": (tb.PD(PATH, 80.0, 9.0), tb.PD(PATH, 60.0, 9.0)),
        "pid": (tb.PID(0.1, 80.0, 9.0, 5.0), tb.PID(0.0, 8.0, 0.9, 2.0)),
        "pid with a limit": (
            tb.PID(0.1, 80.0, 9.0, 5.0, limit=3.0),
            tb.PID(0.0, 8.0, 0.9, 2.0, limit=0.5),
        ),
        "computed torque": (
            tb.ComputedTorque.critical(0.2, 8.0),
            tb.ComputedTorque.critical(-0.1, 5.0),
        ),
        "weight": (tb.GravityCompensation(share=1.0), tb.GravityCompensation(share=0.7)),
        "station": tuple(keep),
        "both": (
            tb.CombinedControl((tb.GravityCompensation(), tb.PD(0.1, 80.0, 9.0))),
            tb.CombinedControl((tb.GravityCompensation(share=0.5), tb.PD(0.0, 8.0, 7.0))),
        ),
    }


PAIRS = pairs()


@pytest.mark.parametrize("kind", PAIRS)
def test_other_numbers_are_the_same_code(kind):
    """Keys are equal, numbers are not, and each controller decides with its own."""
    model = tb.load(ROV) if kind == "station" else arm()
    systems = [System(model, None, elements_of(model), control) for control in PAIRS[kind]]
    assert systems[0].key == systems[1].key
    numbers = [np.array(system.control_numbers()) for system in systems]
    assert numbers[0].shape == numbers[1].shape
    assert not np.array_equal(*numbers)
    random = np.random.default_rng(5)
    q = model.integrate(model.neutral(), 0.3 * random.standard_normal(model.nv))
    v = 0.2 * random.standard_normal(model.nv)
    u = [0.0] * len(systems[0].command_names)
    decided = [s.decide(q.tolist(), v.tolist(), s.x0.tolist(), u, 0.3)[0] for s in systems]
    assert not np.allclose(*decided)


def test_other_forms_are_other_code():
    """One number for all joints is not one for each; limits and paths are not numbers."""
    forms = [
        tb.PD(0.1, 80.0, 9.0),
        tb.PD(0.1, (80.0, 80.0, 80.0), 9.0),
        tb.PD((0.1, 0.1, 0.1), 80.0, 9.0),
        tb.PD({"wrist": 0.1}, 80.0, 9.0),
        tb.PD(PATH, 80.0, 9.0),
        tb.PID(0.1, 80.0, 9.0, 1.0),
        tb.PID(0.1, 80.0, 9.0, 1.0, limit=5.0),
    ]
    keys = [System(arm(), control=control).key for control in forms]
    assert len(set(keys)) == len(keys)


@pytest.fixture(scope="module")
def pendulum():
    return tb.load("double_pendulum")


def test_cases_of_a_batch_have_their_own_gains(pendulum, tmp_path):
    """To the bit what runs alone give; kept by files, and by runs that go on."""
    many = [tb.PD(0.1 * k, 20.0 + 10.0 * k, 3.0) for k in range(5)]
    gains = {
        "control.target": 0.1 * np.arange(5.0),
        "control.stiffness": 20.0 + 10.0 * np.arange(5.0),
    }
    run = tb.simulate(pendulum, 0.4, control=many[0], parameters=gains)
    assert run.q.shape == (41, 5, 2)
    for k, control in enumerate(many):
        alone = tb.simulate(pendulum, 0.4, control=control)
        assert np.array_equal(run.q[:, k], alone.q)
        assert np.array_equal(run.u[:, k], alone.u)
    half = tb.simulate(pendulum, 0.2, control=many[0], parameters=gains)
    half.save(tmp_path / "half.zarr")
    again = tb.load_run(tmp_path / "half.zarr").resume(0.2)
    assert np.array_equal(again.q, run.q)


def test_a_function_of_the_user_may_have_numbers_too(pendulum):
    """Listed as `parameters`, found as `state.p`."""

    @tb.traced
    def spring(state):
        return -state.p[0] * state.q - state.p[1] * state.v

    spring.parameters = (20.0, 3.0)
    stiff = np.array([[20.0, 3.0], [60.0, 5.0]])
    named = {"control.parameters": stiff}
    run = tb.simulate(pendulum, 0.2, q=[0.3, 0.1], control=spring, parameters=named)
    for k, (stiffness, damping) in enumerate(stiff):
        like = tb.PD(0.0, stiffness, damping)
        alone = tb.simulate(pendulum, 0.2, q=[0.3, 0.1], control=like)
        # k (0 - q) + d (0 - v) and -k q - d v differ by rounding
        assert_close(run.q[:, k], alone.q)
    with pytest.raises(tb.ShapeError, match=r"control\.parameters"):
        tb.simulate(pendulum, 0.1, control=spring, parameters={"control.parameters": [1.0] * 3})
    with pytest.raises(tb.UnknownNameError, match=r"unknown parameter 'control\.parameters'"):
        tb.simulate(pendulum, 0.1, parameters={"control.parameters": [1.0]})


def test_a_controller_within_another_keeps_its_own_numbers(pendulum):
    """What the loop hands over belongs to the controller that it calls, and to nobody else."""
    inner = tb.PD(0.2, 30.0, 4.0)

    @tb.traced
    def outer(state):
        return {name: 1.0 * x for name, x in inner(state).items()}

    outer.parameters = (1e6, 1e6, 1e6)
    run = tb.simulate(pendulum, 0.2, control=outer)
    alone = tb.simulate(pendulum, 0.2, control=inner)
    assert_close(run.q, alone.q)


def test_what_users_derive_is_known_by_its_graph_also_inside_others():
    """A derived controller inherits what tells the code of its base, not of its own."""

    def derived(gain):
        @tb.traced
        class Derived(tb.PD):
            def __call__(self, state):
                return {"wrist": gain * np.sin(state.time)}

        return Derived(0.0, 80.0, 9.0)

    for wrap in (lambda one: one, lambda one: tb.CombinedControl((one, tb.PD(0.1, 80.0, 9.0)))):
        keys = [System(arm(), control=wrap(derived(gain))).key for gain in (1.0, 5.0)]
        assert keys[0] != keys[1]
