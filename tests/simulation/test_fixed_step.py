"""The kernel behind fixed steps: the same code on floats, interpreted and native; what it holds."""

import pickle

import numpy as np
import pytest

import tiburon as tb
from tests.robots import ROBOTS, kicked, rover
from tests.tolerances import assert_close
from tiburon.simulation.fixed_step import FixedStepSource, fixed_step_kernel, take_steps
from tiburon.simulation.integrators.rk4 import rk4_step
from tiburon.trace import interpret
from tiburon.trace.callee import Region

# a few steps of dt = 0.01 grow the rounding of accelerations of order 100 hardly at all
ROUNDING = 1e-11

NAMES = ["pendulum", "cart_pendulum", "top", "balloon", "forest", "rover"]


def on_floats(model, q, v, tau, dt, counts):
    found = take_steps(model, rk4_step, q.tolist(), v.tolist(), tau.tolist(), dt, counts)
    return np.array(found[0]), np.array(found[1])


@pytest.mark.parametrize("name", NAMES)
def test_floats_interpreter_and_native_code_agree(name):
    """One source, three ways to run it."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 1)
    counts = np.array([1.0, 0.0, 3.0])
    floats = on_floats(model, q, v, tau, 0.01, counts.tolist())
    source = FixedStepSource(model, tb.World(), "rk4", len(counts))
    arguments = {"q": q, "v": v, "tau": tau, "dt": 0.01, "counts": counts}
    interpreted = interpret(source.program(), arguments | source.parameters())
    native = fixed_step_kernel(model, tb.World(), "rk4", len(counts))(
        q, v, tau, np.array(0.01), counts
    )
    for expected, other, fast in zip(floats, interpreted, native, strict=True):
        assert_close(other, expected, ROUNDING)
        assert_close(fast, expected, ROUNDING)
        # no steps before the second state: it is the first
        np.testing.assert_array_equal(fast[0], fast[1])


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
    program = FixedStepSource(rover(), tb.World(), "rk4", 1).program()
    calls = [r for r in regions_of(program.graph, program.roots) if r.name == "acceleration"]
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
        FixedStepSource(arm(mass), world, "rk4", 8).key
        for mass in (1.0, 2.5)
        for world in (tb.World(), moon)
    }
    assert len(keys) == 1
    assert FixedStepSource(arm(1.0), tb.World(gravity=(1, 0, -9)), "rk4", 8).key not in keys
    assert FixedStepSource(arm(1.0), moon, "rk4", 1).key not in keys
    falls = [
        tb.integrate_rk4(arm(2.0), [0.5], [0.0], dt=0.01, steps=10, world=world).v[-1, 0]
        for world in (tb.World(), moon)
    ]
    # released at rest the pendulum gains speed in proportion to gravity, up to (w t)^2 = 2 %
    assert falls[1] / falls[0] == pytest.approx(1.62 / 9.81, rel=0.03)


def test_kernels_travel_between_processes():
    """A pickled kernel computes the same bits."""
    model = rover()
    q, v, tau = kicked(model, 2)
    kernel = fixed_step_kernel(model, tb.World(), "rk4", 1)
    copy = pickle.loads(pickle.dumps(kernel))
    arguments = (q, v, tau, np.array(0.01), np.array([5.0]))
    for expected, found in zip(kernel(*arguments), copy(*arguments), strict=True):
        np.testing.assert_array_equal(found, expected)
