"""The kernel of a step: the same code on floats, interpreted and native; what it holds."""

import pickle

import numpy as np
import pytest

import tiburon as tb
from tests.robots import ROBOTS, kicked, rover
from tests.tolerances import assert_close
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.step import Stepping, StepSource, step_kernel
from tiburon.simulation.system import System
from tiburon.trace import interpret
from tiburon.trace.graph import Region

# a few steps of dt = 0.01 barely amplify the rounding of accelerations of order 100
ROUNDING = 1e-11

NAMES = ["pendulum", "cart_pendulum", "top", "balloon", "forest", "rover"]


STEPS = 4


def clock(done):
    return np.array([0.0, 0.01, 0.01, float(done)])


def on_floats(model, q, v, tau):
    step = Stepping(System(model), METHODS["rk4"]).step
    q, v = tuple(q.tolist()), tuple(v.tolist())
    for done in range(STEPS):
        q, v, *_ = step(q, v, (), tuple(tau.tolist()), 0.01, 0.01 * done)
    return np.array(q), np.array(v)


@pytest.mark.parametrize("name", NAMES)
def test_floats_interpreter_and_native_code_agree(name):
    """One source, three ways to run it."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 1)
    floats = on_floats(model, q, v, tau)
    source = StepSource(System(model), "rk4")
    program, kernel = source.program(), step_kernel(source)
    interpreted = native = (q, v)
    for done in range(STEPS):
        given = {"q": interpreted[0], "v": interpreted[1], "u": tau, "clock": clock(done)}
        interpreted = interpret(program, given | source.system.parameters())
        native = kernel(*native, tau, clock(done))
    for expected, other, fast in zip(floats, interpreted, native, strict=True):
        assert_close(other, expected, ROUNDING)
        assert_close(fast, expected, ROUNDING)


def regions_of(graph, roots):
    """Return all calls of regions below some nodes, with the graph each stands in, inmost last."""
    found = []
    for node in graph.live(roots):
        callee = graph.payloads[node]
        if graph.ops[node] == "call" and isinstance(callee, Region):
            found += [callee, *regions_of(callee.graph, callee.roots)]
    return found


def test_the_dynamics_is_called_four_times_a_step_and_held_once():
    """A step does not inline the dynamics: the same region is called at every stage."""
    program = StepSource(System(rover()), "rk4").program()
    calls = [r for r in regions_of(program.graph, program.roots) if r.name == "rates"]
    assert len(calls) == 4
    assert len({region.key for region in calls}) == 1


def test_masses_and_gravity_do_not_change_the_code():
    """Only structure is compiled; numbers are bound to the kernel."""

    def arm(mass):
        rod = tb.Inertia.cylinder(mass, 0.05, 1.0, com=(0, 0, -0.5))
        joint = tb.Revolute("shoulder", axis=(0, 1, 0))
        return tb.Model("arm", [tb.Body("rod", joint=joint, inertia=rod)])

    moon = tb.World(gravity=(0.0, 0.0, -1.62))
    keys = {
        StepSource(System(arm(mass), world), "rk4").key
        for mass in (1.0, 2.5)
        for world in (tb.World(), moon)
    }
    assert len(keys) == 1
    tilted = System(arm(1.0), tb.World(gravity=(1, 0, -9)))
    assert StepSource(tilted, "rk4").key not in keys
    assert StepSource(System(arm(1.0), moon), "euler").key not in keys
    falls = [
        tb.integrate_rk4(arm(2.0), [0.5], [0.0], dt=0.01, steps=10, world=world).v[-1, 0]
        for world in (tb.World(), moon)
    ]
    # released at rest the pendulum gains speed in proportion to gravity, up to (w t)^2 = 2 %
    assert falls[1] / falls[0] == pytest.approx(1.62 / 9.81, rel=0.03)


def test_kernels_can_be_pickled_to_another_process():
    """A pickled kernel computes the same bits, also one whose system has been run."""
    model = rover()
    q, v, tau = kicked(model, 2)
    tb.integrate_rk4(model, q, v, tau, dt=0.01, steps=2)
    kernel = step_kernel(StepSource(System(model), "rk4"))
    copy = pickle.loads(pickle.dumps(kernel))
    arguments = (q, v, tau, clock(5))
    for expected, found in zip(kernel(*arguments), copy(*arguments), strict=True):
        np.testing.assert_array_equal(found, expected)
