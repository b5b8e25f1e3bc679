"""Steps that keep mass matrix and bias force: exact where these do not change, late otherwise."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import kicked, rover
from tests.simulation.samples import fitted_order
from tests.tolerances import assert_close
from tiburon.actuation.element import Action, Element
from tiburon.algorithms.setting import Setting, forces_on_bodies
from tiburon.algorithms.surroundings import surroundings
from tiburon.errors import DomainError
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.record import record
from tiburon.simulation.integrators.kept_inertia import (
    KeptSystem,
    keep_inertia,
    kept_terms,
    solve_kept,
)
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.system import System
from tiburon.trace.program import Input, trace
from tiburon.trace.regions import function, while_loop


class Rates:
    """A robot under stiff position control at its hinges, as loops that keep inertia see it."""

    def __init__(self, model, gain=0.0, damping=0.0):
        self.model = model
        self.around = Setting(model, (), (), *surroundings(model, tb.World()))
        self.gain, self.damping = gain, damping
        self.prepared = 0

    def force(self, q, v):
        n = len(v)
        pull = [self.gain * x for x in q[-n:]] if self.gain else [0.0] * n
        return [-p - self.damping * x for p, x in zip(pull, v, strict=True)]

    def prepare(self, q, w, *time):
        self.prepared += 1
        return kept_terms(self.around.at(q, w), q, w)

    def given(self, kept, q, w, *time):
        return solve_kept(self.around, kept, q, self.force(q, w))

    def __call__(self, q, w, *time):
        return self.given(self.prepare(q, w), q, w)

    def run(self, method, q, w, count, duration):
        manifold, h = Manifold(self.model), duration / count
        q, w = tuple(q.tolist()), tuple(w.tolist())
        memory = method.start(manifold, self, q, w, h, 0.0)
        for step in range(count):
            q, w, memory = method.advance(manifold, self, q, w, memory, h, step * h)
        return np.array([*q, *w])


def test_terms_of_the_same_state_give_its_accelerations():
    """Kept for no time at all, they are the equation of motion; forces on bodies add to it."""
    model = rover()
    q, v, tau = kicked(model, 3)
    here = Setting(model, (), (), *surroundings(model, tb.World()))
    kept = kept_terms(here.at(q.tolist(), v.tolist()), q.tolist(), v.tolist())
    expected = tb.forward_dynamics(model, q, v, tau)
    assert_close(solve_kept(here, kept, q.tolist(), tau.tolist()), expected, 1e-10)
    name = model.bodies[-1].name
    wrench = np.random.default_rng(2).standard_normal(6)
    pushes = forces_on_bodies(here.plan, q.tolist(), {name: wrench.tolist()}, "frame")
    expected = tb.forward_dynamics(model, q, v, tau, external_force={name: wrench})
    found = solve_kept(here, kept, q.tolist(), tau.tolist(), pushes)
    assert_close(found, expected, 1e-10)


def test_euler_steps_that_renew_at_each_step_are_plain_euler_steps():
    """One evaluation a step, at its start: nothing is late."""
    model = rover()
    q, v, _ = kicked(model, 1)
    rates = Rates(model)
    kept = rates.run(keep_inertia(METHODS["euler"], 1), q, v, 8, 0.08)
    plain = rates.run(METHODS["euler"], q, v, 8, 0.08)
    np.testing.assert_allclose(kept, plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_terms_are_renewed_every_so_many_steps(steps):
    """Ten steps need a mass matrix at the start and whenever it has served long enough."""
    model = rover()
    q, v, _ = kicked(model, 1)
    rates = Rates(model)
    rates.run(keep_inertia(METHODS["rk4"], steps), q, v, 10, 0.01)
    assert rates.prepared == -(-10 // steps)


def test_kept_terms_are_exact_for_constant_inertia_and_bias():
    """Slides along the axes under springs: mass matrix and weight are constant, the order is 4."""
    slide = tb.Prismatic("x", axis=(1, 0, 0))
    model = tb.Model("slide", [tb.Body("b", joint=slide, inertia=tb.Inertia.sphere(2.0, 0.1))])
    rates = Rates(model, gain=50.0)
    q, v, frequency = np.array([0.3]), np.array([-0.4]), 5.0
    exact = 0.3 * np.cos(frequency) - 0.08 * np.sin(frequency)
    method = keep_inertia(METHODS["rk4"], 1000)
    errors = [abs(rates.run(method, q, v, n, 1.0)[0] - exact) for n in (20, 40, 80)]
    assert fitted_order((20, 40, 80), errors) == pytest.approx(4.0, abs=0.2)


def test_error_grows_in_proportion_to_the_time_for_which_terms_are_kept():
    """A floating tree against small steps: half the time, half the error."""
    model = rover()
    q, v, _ = kicked(model, 2)
    rates = Rates(model)
    exact = rates.run(METHODS["rk4"], q, v, 100, 0.1)
    kept = np.array([2, 4, 8])
    errors = [
        np.abs(rates.run(keep_inertia(METHODS["rk4"], int(k)), q, v, 80, 0.1) - exact).max()
        for k in kept
    ]
    # the mean age of the terms is (k h) / 2, of stages inside the step included
    assert fitted_order(1.0 / kept, errors) == pytest.approx(1.0, abs=0.15)


def test_native_code_agrees_with_floats_and_batches_with_single_cases():
    """The branch that renews terms is taken by cases for themselves."""
    model = rover()
    rates, method = Rates(model, damping=0.3), keep_inertia(METHODS["rk4"], 3)
    manifold, h = Manifold(model), 0.01

    def run(q, w, count):
        q, w = tuple(q.tolist()), tuple(w.tolist())

        def step(state):
            done, *state = state
            return (done + 1.0, *method.advance(manifold, rates, *state, h))

        first = (0.0, q, w, method.start(manifold, rates, q, w, h))
        _, q, w, _ = while_loop(lambda s: s[0] < count, step, first, 100).state
        return [*q, *w]

    shapes = {"q": (model.nq,), "w": (model.nv,), "count": ()}
    kernel = make_kernel(ProgramSource(trace(run, shapes)))
    q, v, _ = kicked(model, 4, (5,))
    count = np.array([7.0, 2.0, 3.0, 4.0, 9.0])
    together = kernel(q, v, count)
    for case in range(5):
        np.testing.assert_array_equal(kernel(q[case], v[case], count[case]), together[case])
    expected = rates.run(method, q[0], v[0], 7, 0.07)
    np.testing.assert_allclose(together[0], expected, rtol=0, atol=1e-10)


def test_methods_with_a_memory_and_odd_numbers_of_steps_are_refused():
    """The message says what would do."""
    with pytest.raises(DomainError, match="one-step method"):
        keep_inertia(METHODS["b1pc5"], 4)
    with pytest.raises(DomainError, match="1 or more"):
        keep_inertia(METHODS["rk4"], 0)


@record
class _Jet(Element):
    """A thrust along x of a frame that follows its command with a lag."""

    name: str
    frame: str

    def state_names(self, model):
        return (f"{self.name}.thrust",)

    def command_names(self, model):
        return (self.name,)

    def act(self, now):
        (thrust,), (command,) = now.x, now.u
        push = (0.0, 0.0, 0.0, thrust, 0.0, 0.0)
        return Action(wrenches={self.frame: push}, rates=((command - thrust) / 0.1,))


def test_a_system_with_fresh_terms_has_its_own_rates():
    """Elements that push on frames, inner states and a controller: all act as in the system."""
    model = rover()

    @tb.traced
    def control(state):
        return {"one": 3.0 - state.v[0], "two": 2.0 * state.time}

    frames = [body.name for body in model.bodies][-2:]
    jets = [_Jet(name, frame) for name, frame in zip(("one", "two"), frames, strict=True)]
    system = System(model, tb.World(), jets, control)
    q, v, _ = kicked(model, 6)
    state = tuple(q.tolist()), (*v.tolist(), 0.7, -1.2)
    rates = KeptSystem(system).under((0.0,) * system.drive_size)
    found = rates.given(rates.prepare(*state, 0.4), *state, 0.4)
    expected = system.rates(*state, (0.0,) * system.drive_size, 0.4)
    assert_close(found, expected, 1e-10)


KEPT_ERRORS = {1: 2.2e-3, 2: 4.2e-3, 4: 8.4e-3, 8: 1.9e-2, 16: 4.1e-2, 32: 7.9e-2}
"""Steps of 1 ms for which terms are kept, and the largest error of a joint angle [rad]."""


@pytest.mark.slow
def test_errors_of_the_documented_table():
    """An arm swings under critically damped joint control at 30 rad/s; docs/integrators.md."""
    arm = tb.load("panda")
    inertia = np.diag(tb.mass_matrix(arm, np.zeros(arm.nq)))
    goal = np.array([0.5, -0.4, 0.3, -1.6, 0.2, 1.4, 0.1, 0.02])

    @tb.traced
    def control(state):
        return inertia * (900.0 * (goal - state.q) - 60.0 * state.v)

    system = System(arm, tb.World(), (), control)
    held = (0.0,) * system.drive_size

    def angles(method, rates, h):
        def run(given):
            manifold = Manifold(arm)
            q, w = tuple(given["q"].tolist()), tuple(given["w"].tolist())
            first = method.start(manifold, rates, q, w, h, 0.0)

            def step(state):
                done, *state = state
                return (done + 1.0, *method.advance(manifold, rates, *state, h, done * h))

            start = (0.0, q, w, first)
            _, q, w, _ = while_loop(lambda s: s[0] < given["n"], step, start, 10**6).state
            return list(q)

        inputs = [Input("q", (arm.nq,)), Input("w", (arm.nv,)), Input("n", ())]
        program = system.trace(run, inputs, "kept")
        kernel = make_kernel(ProgramSource(program), system.parameters())
        rest = np.zeros(arm.nq), np.zeros(arm.nv)
        times = 0.01 * np.arange(1, 51)
        return np.array([kernel(*rest, np.array(np.round(time / h))) for time in times])

    plain = function(lambda q, w, time: system.rates(q, w, held, time, ()))
    exact = angles(METHODS["rk4"], plain, 1e-4)
    for steps, expected in KEPT_ERRORS.items():
        rates = KeptSystem(system, ()).under(held)
        found = angles(METHODS[f"rk4_keeping_{steps}"], rates, 1e-3)
        # the table prints two digits
        assert np.abs(found - exact).max() == pytest.approx(expected, rel=0.05)
