"""Controllers of joints: closed forms of what they do, and equal commands traced and in Python."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.control.combined import CombinedControl
from tiburon.control.computed_torque import ComputedTorque, GravityCompensation
from tiburon.control.joint_path import JointPath
from tiburon.control.pd import PD, PID
from tiburon.simulation.control_calls import decide
from tiburon.simulation.state import State
from tiburon.simulation.system import System
from tiburon.trace import Input, interpret

G = 9.81


def arm():
    """Two links with a slide between them: inertia and weight that change with the position."""
    upper = tb.Body(
        "upper",
        joint=tb.Revolute("shoulder", axis=(0, 1, 0)),
        inertia=tb.Inertia(2.0, (0.3, 0.02, 0.0), (0.02, 0.08, 0.07)),
    )
    rail = tb.Body(
        "rail",
        "upper",
        joint=tb.Prismatic("slide", axis=(1, 0, 0), pose=tb.Pose(translation=(0.2, 0, 0.1))),
        inertia=tb.Inertia(0.7, (0.1, 0, 0.05), (0.01, 0.02, 0.02)),
    )
    hand = tb.Body(
        "hand",
        "rail",
        joint=tb.Revolute("wrist", axis=(0, 0, 1), pose=tb.Pose(translation=(0.3, 0, 0))),
        inertia=tb.Inertia(0.5, (0.1, 0.03, 0.0), (0.002, 0.003, 0.004)),
    )
    return tb.Model("arm", [upper, rail, hand])


def ball():
    body = tb.Body(
        "ball",
        joint=tb.Spherical("socket"),
        inertia=tb.Inertia(1.0, (0.05, 0.0, -0.3), (0.02, 0.03, 0.04)),
    )
    return tb.Model("ball", [body])


DAMPING = (25.0, 40.0, 0.5)
"""Above critical for the arm, and slow enough for steps of 2 ms."""

PATH = JointPath.through(
    [0.0, 0.6, 1.5], [(0.1, 0.2, -0.3), (0.5, -0.1, 0.4), (-0.2, 0.3, 0.1)], kind="quintic"
)

CONTROLLERS = {
    "pd": PD((0.2, -0.1, 0.4), (80.0, 200.0, 20.0), (9.0, 20.0, 2.0)),
    "pd by name": PD({"wrist": 0.4, "shoulder": -0.3}, 50.0, 5.0),
    "pd on a path": PD(PATH, 80.0, 9.0),
    "pid": PID(0.1, 80.0, 9.0, 30.0, limit=12.0),
    "computed torque": ComputedTorque.critical(PATH, 9.0),
    "part of the joints": ComputedTorque((0.3, 0.2), 90.0, 15.0, joints=("wrist", "slide")),
    "weight": GravityCompensation(),
    "both": CombinedControl((GravityCompensation(), PID(0.1, 8.0, 9.0, 3.0), PD(PATH, 2.0, 1.0))),
}


def answer(control, system, time, q, v, own):
    """Return all commands and rates of a controller called as Python."""
    count = len(system.own_names)
    state = State(system, time, q, v, own, np.zeros((*q.shape[:-1], len(system.command_names))))
    state.own = own if count else None
    given = control(state)
    given, rates = given if count else (given, np.zeros((*q.shape[:-1], 0)))
    row = np.zeros((*q.shape[:-1], len(system.command_names)))
    system.commands.write(row, given)
    return row, rates


@pytest.mark.parametrize("name", CONTROLLERS)
def test_commands_are_the_same_traced_and_in_python_for_one_and_many(name):
    """The graph, a call with floats and a call with cases agree to rounding."""
    control, model = CONTROLLERS[name], arm()
    system = System(model, None, (), control)
    own = len(system.own_names)
    rng = np.random.default_rng(2)
    q, v = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    x, time = 0.3 * rng.normal(size=(5, own)), rng.uniform(-0.2, 1.8, 5)
    many = answer(control, system, time, q, v, x)

    def run(given):
        u, rates, _ = decide(
            system,
            *(given[k].tolist() for k in ("q", "v")),
            given["x"].tolist() if own else [],
            [0.0] * len(system.command_names),
            given["time"],
        )
        return [*u, *rates]

    inputs = [Input("q", (3,)), Input("v", (3,)), Input("x", (own,)), Input("time", ())]
    program = system.trace(run, inputs, "control")
    for k in range(5):
        one = answer(control, system, time[k], q[k], v[k], x[k])
        assert_close(one[0], many[0][k])
        assert_close(one[1], many[1][k])
        given = {"q": q[k], "v": v[k], "x": x[k], "time": time[k], **system.parameters()}
        found = interpret(program, [given[item.name] for item in program.inputs])
        assert_close(found, [*one[0], *one[1]])


def test_proportional_control_rests_with_its_static_error():
    """PD under gravity: the steady error is load / stiffness, with the load at that place."""
    model, k = arm(), np.array([90.0, 200.0, 5.0])
    run = tb.simulate(model, 12.0, control=PD(0.0, k, DAMPING), method=tb.RK4(dt=2e-3))
    rest = run.q[-1]
    load = tb.gravity_force(model, rest)
    # what remains of the motion after many time constants
    assert_close(-k * rest, load, 1e-8)
    assert np.abs(rest).max() > 0.05


def test_integral_control_removes_the_error():
    model, integral = arm(), np.array([120.0, 200.0, 4.0])
    control = PID(0.2, (90.0, 200.0, 5.0), DAMPING, integral)
    run = tb.simulate(model, 14.0, control=control, method=tb.RK4(dt=2e-3))
    assert_close(run.q[-1], [0.2, 0.2, 0.2], 1e-6)
    # the integral bears the load
    assert_close(integral * run.x[-1], tb.gravity_force(model, run.q[-1]), 1e-4)


def test_integral_has_anti_windup():
    """A load beyond the limit: without waiting the integral would grow with time."""
    model = arm()
    weak = PID(
        0.0, (90.0, 200.0, 5.0), DAMPING, 120.0, joints=("shoulder", "slide", "wrist"), limit=3.0
    )
    run = tb.simulate(model, 4.0, control=weak, method=tb.RK4(dt=2e-3))
    # the shoulder falls; what it collected before the limit was reached is all it has
    assert run.q[-1][0] > 0.5
    assert abs(run.x[-1][0]) < 0.1
    assert np.abs(run.u).max() <= 3.0


def test_computed_torque_gives_linear_error_dynamics():
    """d2e/dt2 + 2 w de/dt + w^2 e = 0: e = (e0 + (de0 + w e0) t) exp(-w t), for every joint."""
    model, w = arm(), 7.0
    start = PATH.at(0.0)
    e0, d0 = np.array([0.2, -0.1, 0.3]), np.array([-0.5, 0.2, 0.4])
    run = tb.simulate(
        model,
        1.5,
        q=start.position - e0,
        v=start.velocity - d0,
        control=ComputedTorque.critical(PATH, w),
        method=tb.RK4(dt=1e-3),
    )
    t = run.time[:, None]
    expected = (e0 + (d0 + w * e0) * t) * np.exp(-w * t)
    # steps of RK4: (w dt)^4 of the error, and the path's sixth derivative
    assert_close(PATH.at(run.time).position - run.q, expected, 1e-8)


def test_computed_torque_uses_its_model():
    """With a wrong model the weight it misses stays as an error."""
    model = arm()
    wrong = ComputedTorque.critical(0.0, 8.0, world=tb.World(gravity=(0.0, 0.0, -5.0)))
    run = tb.simulate(model, 6.0, control=wrong, method=tb.RK4(dt=2e-3))
    H = tb.mass_matrix(model, run.q[-1])
    missing = (G - 5.0) / G * tb.gravity_force(model, run.q[-1])
    assert_close(-64.0 * H @ run.q[-1], missing, 1e-6)


def test_gravity_compensated_arm_stays():
    model = arm()
    q = np.array([0.3, -0.1, 0.5])
    run = tb.simulate(model, 1.0, q=q, control=GravityCompensation())
    assert_close(run.q[-1], q, 1e-10)
    loose = tb.simulate(model, 1.0, q=q)
    assert np.abs(loose.q[-1] - q).max() > 0.5


@pytest.mark.parametrize("fluid", [None, tb.Water()], ids=["dry", "wet"])
def test_gravity_compensated_closed_loop_robot_stays(fluid):
    """The crank's motor alone bears all links, in water less what they displace."""
    bar = tb.load("four_bar")
    wet = tb.BodyFluid(volume=2e-4, center_of_buoyancy=(0.1, 0.0, 0.0))
    model = bar.with_fluids({body.name: wet for body in bar.bodies})
    home = np.array(model.poses["home"])
    run = tb.simulate(model, 0.5, q=home, fluid=fluid, control=GravityCompensation())
    assert_close(run.q[-1], home, 1e-9)
    loose = tb.simulate(model, 0.5, q=home, fluid=fluid)
    assert np.abs(loose.q[-1] - home).max() > 0.1


def test_currents_are_not_compensated_with_loops():
    bar = tb.load("four_bar")
    wet = tb.BodyFluid(volume=2e-4, drag=(tb.SphereDrag(0.1),))
    model = bar.with_fluids({body.name: wet for body in bar.bodies})
    q, v = np.array(model.poses["home"]), np.zeros(model.nv)
    still, moving = (
        tb.inverse_dynamics(model, q, v, v, fluid=tb.Water(current=current))
        for current in ((0.0, 0.0, 0.0), (2.0, 0.0, 1.0))
    )
    assert np.abs(moving - still).max() > 0.1
    world = tb.World(fluid=tb.Water(current=(2.0, 0.0, 1.0)))
    control = GravityCompensation()
    system = System(model, world, (), control)
    borne, _ = answer(control, system, 0.0, q, v, np.zeros(0))
    names = list(system.command_names)
    assert_close([borne[names.index(name)] for name in model.v_names], still)


def test_joints_with_quaternions_take_the_shorter_rotation():
    """A ball joint under PD in space comes to rest at its target, whichever sign that has."""
    model = ball()
    target = np.array([0.6, 0.0, 0.48, 0.64])
    space = tb.World(gravity=(0, 0, 0))
    for sign in (1.0, -1.0):
        control = PD(sign * target, 12.0, 3.0)
        run = tb.simulate(model, 8.0, control=control, world=space, method=tb.RK4(dt=2e-3))
        assert_close(np.abs(run.q[-1] @ target), 1.0, 1e-10)


def test_python_and_native_sampled_control_agree():
    """The same controller held for a millisecond, called in Python: the same bits of motion."""
    model, control = arm(), CONTROLLERS["pd on a path"]
    q = PATH.at(0.0).position
    native = tb.simulate(
        model, 0.2, q=q, control=tb.Sampled(control, dt=1e-3), record=tb.Record(every=10)
    )
    python = tb.simulate(
        model,
        0.2,
        q=q,
        control=tb.Sampled(lambda state: control(state), dt=1e-3),
        record=tb.Record(every=10),
    )
    # native code fuses multiplications and additions
    assert_close(native.q, python.q, 1e-12)


def test_forces_may_go_through_actuators():
    model = tb.Model(
        "driven",
        arm().bodies,
        actuators=tuple(
            tb.Actuator(f"{name} motor", name, force_limits=(-3.0, 3.0))
            for name in ("shoulder", "slide", "wrist")
        ),
    )
    run = tb.simulate(model, 0.1, control=PD(1.0, 90.0, 2.0, through="actuators"))
    names = list(run.system.system.command_names)
    asked = run.u[0][[names.index(f"{n} motor") for n in ("shoulder", "slide", "wrist")]]
    assert_close(asked, [90.0] * 3)
    with pytest.raises(tb.ModelError, match="expected one actuator"):
        tb.simulate(arm(), 0.1, control=PD(1.0, 90.0, 2.0, through="actuators"))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: PD(0.0, -1.0, 0.0), tb.DomainError, "stiffness"),
        (lambda: PD(0.0, np.inf, 0.0), tb.DomainError, "stiffness"),
        (lambda: tb.PID(0.0, 1.0, 0.0, 1.0, limit=np.nan), tb.DomainError, "limit"),
        (lambda: tb.ComputedTorque(0.0, 1.0, np.nan), tb.DomainError, "ComputedTorque: damping"),
        (lambda: PD({"wrist": np.nan}, 1.0, 0.0), tb.DomainError, "target: expected finite"),
        (lambda: run_once(PD((0.0, 0.1), 1.0, 0.0)), tb.ShapeError, "3 positions"),
        (lambda: run_once(PD(0.0, (1.0, 2.0), 0.0)), tb.ShapeError, "stiffness"),
        (lambda: run_once(PD(0.0, 1.0, 0.0, joints=("rist",))), tb.UnknownNameError, "wrist"),
        (lambda: run_once(PD(0.0, 1.0, 0.0, through="air")), tb.OptionError, "through"),
    ],
)
def test_invalid_arguments_are_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


def run_once(control):
    model = arm()
    system = System(model)
    return answer(control, system, 0.0, np.zeros(3), np.zeros(3), np.zeros(0))
