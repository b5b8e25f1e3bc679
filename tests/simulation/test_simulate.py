"""`simulate`: controllers of all kinds, batches, bits that do not depend on how a run is cut."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.robots import double_pendulum, pendulum, rover
from tests.simulation.samples import pendulum_closed_form
from tiburon.errors import DomainError, ModelError, ShapeError, UnknownNameError

START = {"q": [0.9, -0.4], "v": [0.7, -1.6]}


@tb.traced
def spring(state):
    """Pull both joints back."""
    return -8.0 * state.q - 0.9 * state.v


def python_spring(state):
    """Do the same without being traced."""
    return -8.0 * state.q - 0.9 * state.v


@pytest.fixture(scope="module")
def model():
    return double_pendulum()


def test_a_pendulum_follows_its_closed_form():
    """A pendulum as its elliptic functions say, at the error of RK4 with 1 ms."""
    run = tb.simulate(pendulum(), 1.0, v=[2.9], record=tb.Record(dt=0.25))
    for time, q, v in zip(run.time, run.q, run.v, strict=True):
        # h^4 times a sixth derivative of order 1e4, 1 s
        np.testing.assert_allclose([q[0], v[0]], pendulum_closed_form(2.9, time), atol=1e-10)


def test_simulate_takes_the_steps_of_integrate_rk4():
    """Without elements and controllers both take the same steps."""
    model = rover()
    q, v = model.random_state(np.random.default_rng(5))
    run = tb.simulate(
        model.without_passive().without_limits(),
        0.05,
        q=q,
        v=v,
        record=tb.Record(every=1),
        method=tb.RK4(),
    )
    reference = tb.integrate_rk4(model, q, v, dt=1e-3, steps=50)
    # two programs round in different places; 50 steps
    np.testing.assert_allclose(run.q, reference.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(run.v, reference.v, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(run.time, reference.time)


@pytest.mark.parametrize(
    ("method", "control_dt"), [("rk4", 0.02), ("b2pc5", None), ("b2pc5", 0.02), ("dopri5", None)]
)
def test_recording_changes_no_bit(model, method, control_dt):
    """Every step, every seventh, or only the ends: the same motion and commands."""
    control = spring if control_dt is None else tb.Sampled(spring, dt=control_dt)
    options = {**START, "control": control, "method": integrator(method)}
    fine = tb.simulate(model, 0.2, **options, record=tb.Record(every=1))
    for every in (7, 200):
        coarse = tb.simulate(model, 0.2, **options, record=tb.Record(every=every))
        places = np.minimum(np.arange(0, 200 + every, every), 200)
        np.testing.assert_array_equal(coarse.time, fine.time[places])
        np.testing.assert_array_equal(coarse.q, fine.q[places])
        np.testing.assert_array_equal(coarse.u, fine.u[places])


def test_wall_clock_time_changes_no_bit(model, monkeypatch):
    """A machine a thousand times slower returns to Python after every step."""
    options = {**START, "control": spring, "record": tb.Record(every=9)}
    quick = tb.simulate(model, 0.2, **options)
    monkeypatch.setattr("tiburon.simulation.engine.CHUNK_SECONDS", 1e-9)
    slow = tb.simulate(model, 0.2, **options)
    np.testing.assert_array_equal(quick.q, slow.q)
    np.testing.assert_array_equal(quick.u, slow.u)


def test_a_traced_controller_acts_at_every_stage(model):
    """Its motion is that of the robot with springs and dampers in its joints."""
    passive = tb.JointPassive(stiffness=8.0, damping=0.9)
    bodies = [
        tb.Body(
            body.name,
            parent=body.parent,
            joint=tb.Revolute(
                body.joint.name, axis=body.joint.axis, pose=body.joint.pose, passive=passive
            ),
            inertia=body.inertia,
        )
        for body in model.bodies
    ]
    sprung = tb.simulate(tb.Model("sprung", bodies), 0.5, **START)
    run = tb.simulate(model, 0.5, **START, control=spring)
    # rounding of forces that are summed in another order, over 500 steps
    np.testing.assert_allclose(run.q, sprung.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.u, -8.0 * run.q - 0.9 * run.v, rtol=1e-14)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_sampled_controllers_are_the_same_in_python_and_traced(model, method):
    """Held commands: what a function does natively it does when called; rounding apart."""
    options = {**START, "record": tb.Record(dt=0.005), "method": integrator(method)}
    native = tb.simulate(model, 0.5, **options, control=tb.Sampled(spring, dt=0.02))
    called = tb.simulate(model, 0.5, **options, control=tb.Sampled(python_spring, dt=0.02))
    np.testing.assert_allclose(called.q, native.q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(called.u, native.u, rtol=0, atol=1e-10)
    # held in between
    np.testing.assert_array_equal(called.u[0], called.u[3])
    assert (called.u[3] != called.u[4]).all()


@pytest.mark.parametrize(
    "options",
    [{}, {"record": tb.Record(every=1)}, {"record": tb.Record(every=3)}, {"sensors": "joint"}],
)
def test_all_ways_of_calling_a_controller_agree(model, options):
    """The short way for one robot, the general way, and a batch of one take the same steps."""
    if "sensors" in options:
        options = {"sensors": [tb.JointSensor("joints")], "record": tb.Record(every=1)}
    plain = {key: value for key, value in options.items() if key != "sensors"}
    short = tb.simulate(model, 0.3, **START, control=python_spring, **plain)
    batch = {name: [values] for name, values in START.items()}
    general = tb.simulate(model, 0.3, **batch, control=python_spring, **options)
    np.testing.assert_array_equal(general.q[:, 0], short.q)
    np.testing.assert_array_equal(general.u[:, 0], short.u)
    times = []

    def listening(state):
        times.append(state.time)
        return python_spring(state)

    tb.simulate(model, 0.3, **START, control=listening, **plain)
    np.testing.assert_allclose(times, np.arange(31) * 0.01, rtol=0, atol=1e-15)


def test_a_controller_with_states_of_its_own(model):
    """An integral that holds a constant load: its state is the time integral of the error."""

    @tb.traced
    class Integrator:
        state_names = ("shoulder.integral",)
        initial_state = (0.25,)

        def __call__(self, state):
            force = -30.0 * state.q[0] - 6.0 * state.v[0] - 20.0 * state.own[0]
            return {"shoulder": force}, [state.q[0]]

    run = tb.simulate(model, 0.4, **START, control=Integrator(), record=tb.Record(every=1))
    assert run.data["internal_state"].coords["state"].values.tolist() == ["shoulder.integral"]
    # Simpson's rule on the recorded motion, error h^4
    h, q = 1e-3, run.q[:, 0]
    integral = 0.25 + h / 3 * (q[0] + q[-1] + 4 * q[1:-1:2].sum() + 2 * q[2:-1:2].sum())
    np.testing.assert_allclose(run.x[-1, 0], integral, rtol=0, atol=1e-11)


@pytest.mark.parametrize("method", ["rk4", "dopri5", "rosenbrock"])
def test_cases_of_a_batch_move_as_they_do_alone(model, method):
    """Different starts, masses and commands; adaptive ones with steps of their own."""
    rng = np.random.default_rng(11)
    q, v = rng.standard_normal((2, 6, 2))
    mass = 1.0 * rng.uniform(0.8, 1.3, 6)
    name = f"{model.bodies[-1].name}.mass"
    command = rng.standard_normal((6, 2))
    numbers = {name: mass}
    batch = tb.simulate(
        model, 0.2, q=q, v=v, command=command, parameters=numbers, method=integrator(method)
    )
    for case in range(6):
        alone = tb.simulate(
            model,
            0.2,
            q=q[case],
            v=v[case],
            command=command[case],
            parameters={name: mass[case]},
            method=integrator(method),
        )
        np.testing.assert_array_equal(batch.q[:, case], alone.q)
        np.testing.assert_array_equal(batch.v[:, case], alone.v)
    heavier = tb.simulate(model, 0.2, q=q[0], v=v[0], command=command[0], method=integrator(method))
    assert np.abs(heavier.q[-1] - batch.q[-1, 0]).max() > 1e-4


def test_batches_keep_their_shape(model):
    """Two dimensions of cases, one of which comes from the velocities alone."""
    q = np.zeros((3, 1, 2))
    v = np.random.default_rng(3).standard_normal((4, 2))
    run = tb.simulate(model, 0.05, q=q, v=v)
    assert run.q.shape == (6, 3, 4, 2)
    np.testing.assert_array_equal(run.q[:, 0], run.q[:, 2])
    assert run.status.shape == (3, 4)


def test_commands_of_a_joint_of_several_degrees_of_freedom_are_not_cases():
    """Three moments of one ball are one case; with cases they lead."""
    inertia = tb.Inertia(1.0, (0.0, 0.02, -0.1), (0.1, 0.2, 0.25))
    ball = tb.Model("ball", [tb.Body("arm", joint=tb.Spherical("ball"), inertia=inertia)])
    moments = np.array([0.3, -0.2, 0.1])
    one = tb.simulate(ball, 0.02, command={"ball": moments})
    assert one.batch == ()
    rows = np.outer([1.0, 2.0], moments)
    two = tb.simulate(ball, 0.02, command={"ball": rows})
    np.testing.assert_array_equal(two.u[-1], rows)
    np.testing.assert_array_equal(two.v[:, 0], one.v)
    with pytest.raises(tb.ShapeError, match=r"cases that broadcast, got ball \(2,\), ball.wx"):
        tb.simulate(ball, 0.02, command={"ball": rows, "ball.wx": np.ones(3)})


def test_commands_by_joint_and_by_name(model):
    """A dict, an array, and what is held meanwhile mean the same."""
    held = tb.simulate(model, 0.1, command={"elbow": 0.3})
    array = tb.simulate(model, 0.1, command=[0.0, 0.3])
    called = tb.simulate(model, 0.1, control=lambda state: {"elbow": [0.3]})
    np.testing.assert_array_equal(held.q, array.q)
    np.testing.assert_array_equal(held.q, called.q)


def test_a_state_reports_joints_by_name(model):
    """Positions, velocities and continuous states are available by name."""
    seen = []

    def control(state):
        seen.append((state.position("elbow"), state.velocity("shoulder"), state.model.name))
        return {}

    tb.simulate(model, 0.01, **START, control=control)
    assert seen[0] == (np.array([-0.4]), np.array([0.7]), "double_pendulum")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"duration": 0.00015}, DomainError, "whole number of steps"),
        ({"duration": -1.0}, DomainError, "at least 0 s"),
        (
            {"method": "rk5"},
            DomainError,
            r"method: expected an integrator, .* write method=tb\.RK4\(dt=",
        ),
        ({"method": "dopri5"}, DomainError, r"write method=tb\.DormandPrince\(dt=1e-3\)"),
        ({"method": tb.Dop853}, DomainError, r"write method=tb\.Dop853\(dt=1e-3\)"),
        ({"q": [0.0]}, ShapeError, "q: expected 2"),
        ({"record": "energy"}, DomainError, r"write record=tb\.Record\(quantities=\['ene"),
        ({"record": "run.zarr"}, DomainError, r"write record=tb\.Record\(store='run.zarr'\)"),
        (
            {"record": 10},
            DomainError,
            r"record: expected a Record, .* record=tb\.Record\(every=10\)",
        ),
        ({"control": 3.0}, ModelError, "control: expected a function"),
        ({"control": lambda state: {"wrist": 1.0}}, UnknownNameError, "unknown command 'wrist'"),
        ({"control": lambda state: [1.0]}, ShapeError, "2 joint forces"),
        ({"control": tb.Sampled(spring, dt=0.0123)}, DomainError, "Sampled: dt"),
        ({"parameters": {"mass": [1.0]}}, tb.UnknownNameError, "unknown parameter 'mass'"),
        ({"parameters": {"inertia": [1.0]}}, tb.ModelError, "inertia"),
        ({"q": np.zeros((3, 2)), "v": np.zeros((2, 2))}, ShapeError, "broadcast"),
    ],
)
def test_bad_input_is_refused_before_any_step(model, options, error, words):
    """Each message names the argument and what was expected."""
    with pytest.raises(error, match=words):
        tb.simulate(model, **{"duration": 0.1, **options})


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_tolerance_of_zero_is_refused(name):
    with pytest.raises(tb.DomainError, match=name):
        tb.DormandPrince(**{name: 0.0})
