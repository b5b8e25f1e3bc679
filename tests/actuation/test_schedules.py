"""Forces by table and by function; what a robot's own data makes of it; agreement of all ways."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import FREE, Steps, moment, slider, stepper
from tests.model.samples import random_tree
from tiburon.actuation.defaults import as_elements, elements_of
from tiburon.simulation.system import System
from tiburon.trace import Table, read_rows
from tiburon.trace.interpret import interpret

RANDOM = np.random.default_rng()


def test_table_is_interpolated_linearly_or_held():
    """Between rows a line or the earlier row; beyond its ends the nearest row."""
    times, forces = (0.0, 1.0, 3.0), (2.0, 4.0, -2.0)
    block = slider()
    expected = {
        "linear": ((-1.0, 2.0), (0.0, 2.0), (0.5, 3.0), (1.0, 4.0), (2.0, 1.0), (9.0, -2.0)),
        "hold": ((-1.0, 2.0), (0.5, 2.0), (1.0, 4.0), (2.999, 4.0), (3.0, -2.0), (9.0, -2.0)),
    }
    for between, rows in expected.items():
        element = tb.JointForceSchedule("s", "x", times, forces, between)
        for time, force in rows:
            action = element.act(moment(element, block, [0.0], [0.0], time=time))
            assert action.joint_force["x"][0] == pytest.approx(force, abs=1e-14)


def test_force_ramp_gives_the_closed_form_motion():
    """Force a t: x = a t^3 / (6 m), exact for a method of order 4."""
    block = slider(2.0)
    _, run = stepper(block, [tb.JointForceSchedule("s", "x", (0.0, 1.0), (0.0, 3.0))])
    assert run([0.0, 0.0], dt=1e-2, count=100)[0] == pytest.approx(3.0 / 12.0, rel=1e-12)


def test_wrenches_in_world_axes_are_turned_into_the_frame():
    """The same force on a random robot, given in world and in frame axes."""
    model = random_tree(4)
    q, v = model.random_state(4)
    name = model.body_names[-1]
    R, _ = tb.forward_kinematics(model, q, name)
    wrench = RANDOM.normal(size=6)
    element = tb.WrenchSchedule("w", name, (0.0,), (tuple(wrench),), axes="world")
    found = element.act(moment(element, model, q, v)).wrenches[name]
    assert np.allclose(found, [*(R.T @ wrench[:3]), *(R.T @ wrench[3:])], rtol=0.0, atol=1e-13)


def test_long_tables_are_data_beside_the_code():
    """A million rows push as their integral says; another table compiles nothing."""
    block = slider(2.0)
    times = np.linspace(0.0, 1.0, 1_000_001)
    long = tb.JointForceSchedule("s", "x", times, 3.0 * times)
    _, run = stepper(block, [long])
    # lines between rows that lie on one line: the ramp of the test above
    assert run([0.0, 0.0], dt=1e-2, count=100)[0] == pytest.approx(3.0 / 12.0, rel=1e-12)
    assert long.parameters() == ()
    other = tb.JointForceSchedule("s", "x", 2.0 * times, 1.0 - times)
    assert other != long
    assert System(block, None, [long]).key == System(block, None, [other]).key
    with pytest.raises(tb.UnknownNameError, match="unknown parameter 'tables'"):
        tb.simulate(block, 0.1, elements=[long], parameters={"tables": np.zeros(3)})


def test_long_and_short_tables_give_the_same(tmp_path):
    """Thinned out to short ones, along lines and in steps; saved, loaded and resumed."""
    block = slider(2.0)
    times = np.cumsum(RANDOM.uniform(0.5, 1.5, 32)) / 40.0
    forces = RANDOM.standard_normal(32)
    # more rows on the same lines, or repeating the row before
    middle = 0.5 * (times[1:] + times[:-1])
    order = np.argsort(np.concatenate([times, middle]))
    for between in ("linear", "hold"):
        between_rows = 0.5 * (forces[1:] + forces[:-1]) if between == "linear" else forces[:-1]
        rows = np.concatenate([forces, between_rows])[order]
        short = tb.JointForceSchedule("s", "x", times, forces, between)
        long = tb.JointForceSchedule(
            "s", "x", np.concatenate([times, middle])[order], rows, between
        )
        assert isinstance(short.times, tuple)
        assert not isinstance(long.times, tuple)
        a, b = (tb.simulate(block, 1.0, elements=[s], world=FREE) for s in (short, long))
        # two ways to write a line, over 4000 evaluations
        np.testing.assert_allclose(a.q, b.q, rtol=0, atol=1e-12)
        half = tb.simulate(block, 0.5, elements=[long], world=FREE)
        half.save(tmp_path / f"{between}.zarr")
        assert np.array_equal(tb.load_run(tmp_path / f"{between}.zarr").resume(0.5).q, b.q)


def test_force_pulse_changes_momentum_by_its_impulse():
    """A held pulse in world axes on a free body that tumbles: m dv = f dt."""
    solid = tb.Inertia(2.0, (0.1, 0.0, 0.2), (0.2, 0, 0, 0.3, 0, 0.4))
    model = tb.Model("rock", [tb.Body("rock", joint=tb.Free("float"), inertia=solid)])
    push = tb.WrenchSchedule(
        "kick",
        "rock",
        times=(0.0, 0.5),
        wrenches=((0, 0, 0, 3, -1, 2), (0,) * 6),
        axes="world",
        interpolation="hold",
    )
    _, run = stepper(model, [push])
    q, v = model.random_state(1)
    end = run([*q, *v], dt=1e-3, count=800)
    momenta = [tb.momentum(model, s[:7], s[7:])[3:] for s in (np.concatenate([q, v]), end)]
    # the step that ends at the corner meets the row behind it: steps end there
    assert momenta[1] - momenta[0] == pytest.approx([1.5, -0.5, 1.0], abs=2e-3)


def test_a_function_of_the_user_acts_like_the_element_it_imitates():
    """A damper with a state, commands, numbers and outputs, all from one function."""

    def lagging(now):
        (f,) = now.x
        target = -now.p[0] * now.joint_velocity("x")[0] + now.u[0]
        return tb.Action({"x": (f,)}, rates=((target - f) / now.p[1],), outputs={"lag.f": f})

    element = tb.ForceFunction(
        "lag",
        lagging,
        states={"f": 0.5},
        commands=("push",),
        outputs=("lag.f",),
        parameter_values=(3.0, 0.2),
    )
    block = slider(2.0)
    system, run = stepper(block, [element])
    assert (system.x_names, system.command_names) == (("lag.f",), ("x", "push"))
    assert np.array_equal(system.x0, [0.5])
    end = run([0.0, 1.0, 0.5], {"push": 0.7}, dt=1e-3, count=500)
    A = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.5], [0.0, -15.0, -5.0]])
    b = np.array([0.0, 0.0, 3.5])
    from scipy.linalg import expm

    whole = expm(0.5 * np.block([[A, b[:, None]], [np.zeros((1, 4))]]))
    assert end == pytest.approx(whole[:3] @ [0.0, 1.0, 0.5, 1.0], rel=1e-9)


def test_force_functions_may_return_several_types():
    """Forces by joint name, one number each, or nv joint forces, or nothing."""
    block = slider()
    for answer, expected in (({"x": 2.0}, {"x": (2.0,)}), ([2.0], (2.0,)), (None, None)):
        element = tb.ForceFunction("f", lambda now, answer=answer: answer)
        assert element.act(moment(element, block, [0.0], [0.0])).joint_force == expected
    wrong = tb.ForceFunction("f", lambda now: 3.0)
    with pytest.raises(tb.ShapeError, match="force function 'f': expected an Action"):
        wrong.act(moment(wrong, block, [0.0], [0.0]))


def test_different_functions_have_different_keys():
    """What users wrote is known by what it does, not by its name."""
    block = slider()

    def system(factor):
        return System(block, FREE, [tb.ForceFunction("f", lambda now: {"x": factor * now.v[0]})])

    assert system(2.0).key == system(2.0).key != system(3.0).key


def everything():
    """Return an arm with one of each kind of element."""
    arm = tb.Model.from_dh(
        "arm",
        [
            tb.DHLink(
                a=0.4, alpha=0.3, inertia=tb.Inertia(1.0, (0.2, 0, 0), (0.02, 0, 0, 0.02, 0, 0.02))
            )
        ]
        * 3,
        convention="classic",
        tool=tb.Pose(translation=(0.1, 0.0, 0.0)),
    )
    names = arm.joint_names
    from tiburon.model.composition import changed

    data = {
        "limits": tb.JointLimits(-0.2, 0.3),
        "passive": tb.JointPassive(damping=0.2, friction=0.3, stiffness=2.0, rest=0.1),
    }
    bodies = [changed(b, joint=changed(b.joint, **data)) for b in arm.bodies]
    motor = tb.Motor(0.8, 0.05, inductance=2e-3, brush_drop=0.2, current_limit=9.0)
    model = tb.Model(
        "arm",
        bodies,
        arm.frames,
        actuators=[
            tb.Actuator("plain", names[0], force_limits=(-3.0, 4.0), speed_limit=2.0),
            tb.Actuator("motor", names[1], ratio=30.0, motor=motor),
        ],
        thrusters=[
            tb.Thruster("jet", "tool", (0, 0.1, 0), (1, 0, 0), time_constant=0.2, torque_ratio=0.1)
        ],
    )
    more = as_elements(
        [
            tb.Spring("coil", "world", "tool", stiffness=20.0, damping=1.0, rest_length=0.3),
            tb.HydraulicCylinder(
                "ram",
                first="world",
                second="tool",
                valve_gain=1e-8,
                cap_area=1e-5,
                rod_area=1e-5,
                retracted_length=0.4,
                stroke=1.0,
            ),
            tb.StickSlip("rub", names[2], friction=0.4),
            tb.WrenchSchedule("gust", "tool", (0.0, 1.0), RANDOM.normal(size=(2, 6)), "world"),
            tb.ForceFunction("own", lambda now: {names[2]: -np.sin(now.q[2]) + now.time}),
        ]
    )
    return model, (*elements_of(model), *more)


def test_all_ways_of_running_agree():
    """Floats, graph, native code and native batches give the same steps of one of each kind."""
    model, elements = everything()
    system, run = stepper(model, elements, tb.World())
    rng = np.random.default_rng(7)
    cases = 6
    q, v = model.random_state(rng, (cases,))
    q = 0.4 * q
    state = np.concatenate([q, v, np.tile(system.x0, (cases, 1))], axis=1)
    u = rng.normal(size=(cases, len(system.command_names)))
    commands = [dict(zip(system.command_names, row, strict=True)) for row in u]
    singles = np.array([run(s, c, dt=1e-3, count=5) for s, c in zip(state, commands, strict=True)])
    # batch of native code: equal bits
    from tiburon.native.kernel import make_kernel

    kernel = make_kernel(Steps(system), system.parameters())
    batch = kernel(state, u, np.full(cases, 1e-3), np.full(cases, 5.0))
    assert np.array_equal(batch, singles)
    # the graph on NumPy: without fused operations
    program = Steps(system).program()
    given = {"s": state, "u": u, "dt": np.full(cases, 1e-3), "n": np.full(cases, 5.0)}
    values = {k: np.asarray(x, dtype=float) for k, x in system.parameters().items()}
    found = interpret(program, {**given, **values})
    assert np.allclose(found, singles, rtol=1e-9, atol=1e-9 * np.abs(singles).max(axis=0))
    # one evaluation on floats
    nq = model.nq
    rates = system.rates(tuple(state[0, :nq]), tuple(state[0, nq:]), tuple(u[0]), 0.0)
    h = 1e-7
    after = run(state[0], commands[0], dt=h, count=1)
    slope = (after[nq:] - state[0, nq:]) / h
    # rounding of pressures of 8e6 over 1e-7 s, and the curvature of what is stiff
    assert np.allclose(slope, rates, rtol=1e-3, atol=1e-6 * np.abs(np.array(rates)).max())


def test_elements_come_in_the_order_of_the_model():
    """Actuators, thrusters, then passive forces and stops."""
    model, _ = everything()
    assert [e.name for e in elements_of(model)] == ["plain", "motor", "jet", "passive", "limits"]
    off = elements_of(model.without_passive().without_limits())
    assert [e.name for e in off] == ["plain", "motor", "jet"]
    with pytest.raises(tb.OptionError, match="without_passive: expected 'damping' or"):
        model.without_passive("stiction")


def test_wrong_tables_and_parts_are_refused():
    """Messages name the element and say what to do."""
    with pytest.raises(tb.ModelError, match="'s': times must rise"):
        tb.JointForceSchedule("s", "x", (0.0, 0.0), (1.0, 2.0))
    with pytest.raises(tb.ModelError, match="wrenches must be 2 x 6 numbers"):
        tb.WrenchSchedule("s", "x", (0.0, 1.0), ((0.0,) * 5,) * 2)
    with pytest.raises(tb.ModelError, match="times must be one or more, got none"):
        tb.JointForceSchedule("s", "x", (), ())
    with pytest.raises(tb.ModelError, match=r"got 1 s after 400 s \(row 401\)"):
        tb.JointForceSchedule("s", "x", [*range(401), 1.0], range(402))
    with pytest.raises(tb.OptionError, match="interpolation: expected 'linear' or 'hold'"):
        tb.JointForceSchedule("s", "x", (0.0,), (1.0,), "spline")
    with pytest.raises(tb.ModelError, match="joint 'x' has 1 degrees of freedom, got rows of 2"):
        tb.JointForceSchedule("s", "x", (0.0,), ((1.0, 2.0),)).check(slider())
    with pytest.raises(tb.ModelError, match="elements: expected an element, a Spring"):
        as_elements([math.sin])


class Tide(tb.Element):
    """An element of a user with a table of its own, read at the position of the block."""

    name = "tide"

    def __init__(self, places, forces):
        self.table = Table(places, forces)

    def tables(self):
        return (self.table,)

    def structure(self):
        return self.table.form

    def act(self, now):
        return tb.Action({"x": read_rows(self.table.form, now.tables, now.q[0], line=True)})


def test_elements_of_users_have_tables_too():
    """A spring by table, of a thousand rows on a line: the swing of its stiffness."""
    block = slider(2.0)
    places = np.linspace(-2.0, 2.0, 1001)
    run = tb.simulate(block, 1.0, q=[0.7], elements=[Tide(places, -8.0 * places)], world=FREE)
    # w = sqrt(k / m) = 2 rad/s; rk4 leaves (w dt)^4 / 120 per radian
    np.testing.assert_allclose(run.q[:, 0], 0.7 * np.cos(2.0 * run.time), rtol=0, atol=1e-11)
