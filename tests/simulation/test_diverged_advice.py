"""Runs that diverge because a robot is stiff say what to take instead, and that helps."""

import re

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tiburon.actuation.prescribed import PrescribedMotion
from tiburon.simulation.diagnosis import UNDETERMINED
from tiburon.simulation.equal_steps import _advice


def test_diverged_stiff_robot_advises_an_implicit_method():
    """Springs of the flyball governor, as elements, act at the stages, where steps of 1 ms grow."""
    governor = tb.load("flyball_governor")
    model = tb.Model("governor", governor.bodies, frames=governor.frames, loops=governor.loops)
    springs = {"elements": governor.springs}
    run = tb.simulate(model, 0.02, **springs)
    assert run.outcome.status == "diverged"
    assert "method=tb.Rosenbrock()" in run.outcome.message
    advised = re.search(r"spring' is the fastest there.*take a dt of (\S+) s", run.outcome.message)
    assert advised is not None
    shorter = tb.simulate(model, 0.02, method=tb.RK4(dt=float(advised[1])), **springs)
    assert shorter.outcome.status == "finished"
    helped = tb.simulate(model, 0.02, method=tb.Rosenbrock(), **springs)
    assert helped.outcome.status == "finished"
    exact = tb.simulate(model, 0.02, method=tb.RK4(dt=1e-5), record=tb.Record(dt=1e-3), **springs)
    # of order three, stiff parts at rest: some 1e-6 rad at steps of 1 ms
    np.testing.assert_allclose(helped.q[-1], exact.q[-1], atol=1e-5)


def test_a_controller_with_non_finite_commands_is_reported():
    """Neither another method nor shorter steps would help."""
    model = tb.load("cart_pole")
    run = tb.simulate(
        model, 0.1, control=lambda state: np.full(2, np.nan if state.time > 0.05 else 1.0)
    )
    assert run.outcome.status == "diverged"
    assert "command 'slide' first; check the controller" in run.outcome.message
    assert "Rosenbrock" not in run.outcome.message
    np.testing.assert_allclose(run.outcome.time, 0.06, rtol=1e-12)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
@pytest.mark.parametrize("control_dt", [None, 0.01])
def test_a_traced_controller_that_returns_nan_is_named(method, control_dt):
    """The state is fine: neither the method nor the length of steps is to blame."""

    @tb.traced
    def control(state):
        return {"slide": np.sqrt(0.045 - state.time)}

    model = tb.load("cart_pole")
    sampled = control if control_dt is None else tb.Sampled(control, dt=control_dt)
    run = tb.simulate(model, 0.1, control=sampled, method=integrator(method))
    assert run.outcome.status == "diverged"
    assert "command 'slide' first; check the controller" in run.outcome.message
    assert "Rosenbrock" not in run.outcome.message


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_a_sampled_controller_that_returns_nan_at_the_start_ends_the_run(method):
    """Commands that were held before are not taken in its place."""

    @tb.traced
    def control(state):
        return {"slide": np.log(state.q[0])}

    model = tb.load("cart_pole")
    start = [[-0.1, 0.0], [0.2, 0.0]]
    run = tb.simulate(
        model, 0.02, q=start, control=tb.Sampled(control, dt=0.01), method=integrator(method)
    )
    assert run.status.tolist() == ["diverged", "finished"]
    assert run.outcomes[0].time == 0.0
    assert "command 'slide' first; check the controller" in run.outcomes[0].message


def test_feedback_that_diverges_because_commands_are_held_names_the_sampling_period():
    """Damping of 3 N m s is stable for a shank of 2e-3 kg m^2 at 1 ms, not at 10 ms."""
    inertia = tb.Inertia(0.2, (0.0, 0.0, 0.0), 2e-3 * np.eye(3))
    shank = tb.Model("shank", [tb.Body("shank", joint=tb.Revolute("knee"), inertia=inertia)])

    def hold(state):
        return 150.0 * (0.5 - state.q) - 3.0 * state.v

    # errors grow 14 times in each 10 ms: 1e308 after 2.7 s
    run = tb.simulate(shank, 5.0, q=[0.4], control=hold)
    assert run.outcome.status == "diverged"
    assert "a smaller Sampled.dt (commands are held for 0.01 s)" in run.outcome.message
    helped = tb.simulate(shank, 5.0, q=[0.4], control=tb.Sampled(hold, dt=1e-3))
    assert helped.outcome.status == "finished"
    assert abs(helped.q[-1, 0] - 0.5) < 1e-9
    assert "Sampled.dt" not in tb.simulate(tb.load("flyball_governor"), 0.02).outcome.message


@pytest.mark.parametrize("method", [tb.Embedding("gauss"), tb.DeNOC("minimal")])
def test_methods_that_lost_their_velocities_do_not_advise_themselves(method):
    """Only another method can help in a singular configuration."""
    model = tb.load("planar_3rrr")
    system = tb.System(model, loops=method)
    q = np.array(model.poses["home"])
    found = _advice(system, "rk4", f"independent velocities, {UNDETERMINED}", 1, 1e-3, q, 0.0)
    assert found.endswith("in a singular configuration: write loops=tb.Projection()")


def test_prescribed_joints_of_loops_are_not_advised_an_implicit_method():
    """It is refused with them; without loops it is not."""
    loops = tb.load("four_bar")
    for model, is_advised in ((loops, False), (loops.without_loops(), True)):
        path = tb.Harmonic(0.3, frequency=0.5)
        system = tb.System(model, None, [PrescribedMotion("drive", "input", (path,))])
        q = np.array(loops.poses["home"])
        found = _advice(system, "rk4", "velocity 'input' of body 'crank'", 1, 1e-3, q, 0.0)
        assert ("Rosenbrock" in found) == is_advised
        how = {"prescribed": {"input": path}, "method": tb.Rosenbrock()}
        if is_advised:
            tb.simulate(model, 0.002, **how)
        else:
            with pytest.raises(tb.TiburonError, match="prescribed joints and loops"):
                tb.simulate(model, 0.002, **how)


def held_by_a_spring(stiffness, **options):
    """Return a run of an arm above the ground whose tip hangs on a stiff spring."""
    arm = tb.load("double_pendulum")
    spring = tb.Spring("tether", "world", "tip", stiffness=stiffness, rest_length=0.3)
    options = {"elements": [spring], "execution": tb.Execution(progress=False), **options}
    return tb.simulate(arm, 1.0, q=[0.3, 0.2], **options)


@pytest.mark.parametrize("sampled", [True, False])
def test_the_fastest_element_is_named_and_not_an_innocent_controller(sampled):
    """A soft controller beside a stiff spring; the step that is advised is stable."""

    def soft(state):
        return -4.0 * state.q - state.v

    control = soft if sampled else tb.traced(soft)
    run = held_by_a_spring(1e8, control=control)
    assert run.outcome.status == "diverged"
    assert "Sampled" not in run.outcome.message
    assert "controller" not in run.outcome.message
    found = re.search(
        r"element 'tether' is the fastest there.*take a dt of (\S+) s", str(run.outcome)
    )
    assert found is not None, run.outcome
    stable = held_by_a_spring(1e8, control=control, method=tb.RK4(dt=float(found[1])))
    assert stable.outcome.status == "finished"


def test_a_controller_that_is_held_too_long_is_named():
    """Its gain is stable at every step, not when it is held for ten."""
    run = held_by_a_spring(10.0, control=lambda state: -4e6 * state.q - 6.0 * state.v)
    assert run.outcome.status == "diverged"
    assert "take a smaller Sampled.dt" in run.outcome.message


def test_the_failed_step_is_not_compiled_again_where_nothing_touched(monkeypatch):
    """What the step left says so: diagnosis costs no compilation."""
    hit = []
    monkeypatch.setattr("tiburon.simulation.diagnosis._failure", lambda *_: hit.append(1))
    rope = tb.Spring("rope", "world", "trunk", stiffness=1e9, rest_length=0.1)
    dog, floor = tb.load("quadruped"), tb.World(ground=tb.Ground(height=-50.0))
    run = tb.simulate(
        dog,
        1.0,
        q=dog.poses["stand"],
        world=floor,
        elements=[rope],
        execution=tb.Execution(progress=False),
    )
    assert run.outcome.status == "diverged"
    assert "element 'rope' is the fastest there" in run.outcome.message
    assert not hit


def test_a_joint_beyond_its_stop_is_named():
    arm = tb.load("panda")
    q = np.array(arm.poses["ready"])
    q[1] += 10.0
    name = arm.v_names[1]
    found = _advice(tb.System(arm), "rk4", f"velocity {name!r} of body 'x'", 1, 1e-3, q, 0.0)
    assert found.startswith(f"joint {name!r} is beyond its stop, at ")
