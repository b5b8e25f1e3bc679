"""Gains and targets are run-time numbers: others compile nothing, and cases have their own."""

import numpy as np
import pytest

import tiburon as tb
from tests.control.test_joint_control import PATH, arm
from tests.tolerances import assert_close
from tiburon.actuation.defaults import elements_of
from tiburon.native import code
from tiburon.simulation.control_calls import decide
from tiburon.simulation.system import System

ROV = "bluerov2_heavy"


OTHER = tb.JointPath.through([0.1, 0.2, 0.7, 1.5, 2.0], np.eye(5)[:, :3], kind="quintic")
"""A path with other way points, and more of them."""


def route(far):
    """A path of a vehicle that turns on its way."""
    half = np.sqrt(0.5)
    turns = [(1.0, 0.0, 0.0, 0.0), (half, 0.0, 0.0, half), (1.0, 0.0, 0.0, 0.0)]
    places = [(0.0, 0.0, 0.0), (far, 0.0, -0.5), (0.0, far, -1.0)]
    return tb.CartesianPath.through((0.0, 1.0, 1.0 + far), places, turns)


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
        "pd on a path": (tb.PD(PATH, 80.0, 9.0), tb.PD(OTHER, 60.0, 9.0)),
        "torque on a path": (
            tb.ComputedTorque.critical(PATH, 8.0),
            tb.ComputedTorque.critical(OTHER, 5.0),
        ),
        "pid": (tb.PID(0.1, 80.0, 9.0, 5.0), tb.PID(0.0, 8.0, 0.9, 2.0)),
        "pid with a limit": (
            tb.PID(0.1, 80.0, 9.0, 5.0, limit=3.0),
            tb.PID(0.0, 8.0, 0.9, 2.0, limit=0.5),
        ),
        "computed torque": (
            tb.ComputedTorque.critical(0.2, 8.0),
            tb.ComputedTorque.critical(-0.1, 5.0),
        ),
        "weight": (tb.GravityCompensation(fraction=1.0), tb.GravityCompensation(fraction=0.7)),
        "station": tuple(keep),
        "station with other thrusters": tuple(
            tb.StationKeeping.of(
                rov, frequency=0.5, allocation=tb.ThrusterAllocation.of(rov, costs=costs)
            )
            for costs in (1.0, range(1, 1 + len(rov.thrusters)))
        ),
        "station on a path": tuple(
            tb.StationKeeping.of(rov, frequency=k, target=route(far))
            for k, far in ((0.5, 1.0), (0.8, 2.0))
        ),
        "both": (
            tb.CombinedControl((tb.GravityCompensation(), tb.PD(0.1, 80.0, 9.0))),
            tb.CombinedControl((tb.GravityCompensation(fraction=0.5), tb.PD(0.0, 8.0, 7.0))),
        ),
    }


PAIRS = pairs()


@pytest.mark.parametrize("kind", PAIRS)
def test_changed_parameters_share_code(kind):
    """Keys are equal, numbers are not, and each controller decides with its own."""
    model = tb.load(ROV) if kind.startswith("station") else arm()
    systems = [System(model, None, elements_of(model), control) for control in PAIRS[kind]]
    assert systems[0].key == systems[1].key
    numbers = [np.array(system.control_numbers()) for system in systems]
    assert numbers[0].shape == numbers[1].shape
    assert not np.array_equal(*numbers)
    random = np.random.default_rng(5)
    q = model.integrate(model.neutral(), 0.3 * random.standard_normal(model.nv))
    v = 0.2 * random.standard_normal(model.nv)
    u = [0.0] * len(systems[0].command_names)
    decided = [decide(s, q.tolist(), v.tolist(), s.x0.tolist(), u, 0.3)[0] for s in systems]
    assert not np.allclose(*decided)


def test_changed_structure_has_its_own_code():
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


def test_a_new_path_compiles_nothing(monkeypatch):
    """Way points, their number, times and gains are data: the second run finds its code in memory.

    Runs along tables agree with the path itself, evaluated on floats.
    """
    made = []
    load = code._Function._load
    monkeypatch.setattr(
        code._Function, "_load", lambda self, stages: made.append(stages) or load(self, stages)
    )
    model, q = arm(), np.zeros(3)
    for k, path in enumerate((PATH, OTHER)):
        control = tb.ComputedTorque.critical(path, 20.0 + k)
        run = tb.simulate(model, 0.5, q=q, control=control)
        if k == 0:
            made.clear()
    assert not made
    error = run.q - np.asarray(path.at(run.time).position)
    # e'' + 2 w e' + w^2 e = 0 from the state at the start, by rk4 at 1 ms
    rate = -np.asarray(path.at(0.0).velocity)
    w, t = 21.0, run.time[:, None]
    expected = (error[0] + (rate + w * error[0]) * t) * np.exp(-w * t)
    np.testing.assert_allclose(error, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("orientations", [None, (0.0, 1.0, 0.0, 0.0), "turns"])
def test_tables_of_paths_hold_the_paths(orientations):
    """Read by handle, a table gives what its path gives, to rounding, also beyond its ends."""
    if orientations == "turns":
        path = route(1.5)
    else:
        path = tb.CartesianPath.through([0.5, 1, 2], np.eye(3), orientations)
    tables = path.tables()
    handles = [x for table in tables for x in table.handle]
    for time in (-1.0, 0.0, 0.7, 1.0, 1.3, 2.0, 5.0):
        for found, expected in zip(path.at(time, handles), path.at(time), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@pytest.fixture(scope="module")
def pendulum():
    return tb.load("double_pendulum")


def test_cases_of_a_batch_have_their_own_gains(pendulum, tmp_path):
    """To the bit what runs alone give; kept by files, and by runs that continue."""
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


def test_user_function_may_have_parameters(pendulum):
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


def test_nested_controller_keeps_its_own_parameters(pendulum):
    """Parameters passed by the loop belong to the called controller only."""
    inner = tb.PD(0.2, 30.0, 4.0)

    @tb.traced
    def outer(state):
        return {name: 1.0 * x for name, x in inner(state).items()}

    outer.parameters = (1e6, 1e6, 1e6)
    run = tb.simulate(pendulum, 0.2, control=outer)
    alone = tb.simulate(pendulum, 0.2, control=inner)
    assert_close(run.q, alone.q)


def test_user_classes_are_keyed_by_their_graph_also_when_nested():
    """A derived controller inherits the key of its base, not its own."""

    def derived(gain):
        @tb.traced
        class Derived(tb.PD):
            def __call__(self, state):
                return {"wrist": gain * np.sin(state.time)}

        return Derived(0.0, 80.0, 9.0)

    for wrap in (lambda one: one, lambda one: tb.CombinedControl((one, tb.PD(0.1, 80.0, 9.0)))):
        keys = [System(arm(), control=wrap(derived(gain))).key for gain in (1.0, 5.0)]
        assert keys[0] != keys[1]
