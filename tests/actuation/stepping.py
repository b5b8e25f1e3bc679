"""Native runs of elements on small robots, and single states on floats."""

import hashlib

import numpy as np

import tiburon as tb
from tiburon.actuation.element import ElementContext, StateKinematics
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import surroundings
from tiburon.algorithms.tape_calls import scalars
from tiburon.native.kernel import make_kernel
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.rk4 import rk4_step
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.system import System
from tiburon.trace.program import Input
from tiburon.trace.regions import while_loop

FREE = tb.World(gravity=(0.0, 0.0, 0.0))
"""A world without weight."""


class Steps:
    """Where a kernel of steps of order 4 comes from: called with state, commands, dt and count."""

    name = "steps"

    def __init__(self, system):
        self.system = system
        self.key = hashlib.blake2b(f"test steps {system.key}".encode()).hexdigest()

    def inputs(self):
        model, system = self.system.model, self.system
        size = model.nq + model.nv + system.nx
        commands = len(system.command_names)
        return [Input("s", (size,)), Input("u", (commands,)), Input("dt", ()), Input("n", ())]

    def retrace(self):
        """Trace user code as it is now."""
        self.system.retrace()

    def program(self):
        def run(given):
            system, nq = self.system, self.system.model.nq
            s, u = scalars(given["s"]), scalars(given["u"])
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
            manifold, dt = Manifold(system.model), given["dt"]

            def rates(q, w, time):
                return system.rates(q, w, u, time, p)

            def later(state):
                k, q, w = state
                return (k + 1.0, *rk4_step(manifold, rates, q, w, dt, k * dt))

            start = (0.0, tuple(s[:nq]), tuple(s[nq:]))
            _, q, w = while_loop(lambda x: x[0] < given["n"], later, start, 2**53).state
            return [*q, *w]

        return self.system.trace(run, self.inputs(), self.name)


def stepper(model, elements, world=FREE):
    """Return a system, and a function that takes steps of it natively.

    The function takes state (*q, *v, *x), commands by name, dt and the number of steps.
    """
    system = System(model, world, elements)
    kernel = make_kernel(Steps(system), system.parameters())

    def run(state, commands=None, *, dt, count):
        u = np.zeros(len(system.command_names))
        for name, value in (commands or {}).items():
            u[system.command_names.index(name)] = value
        return kernel(np.asarray(state, dtype=float), u, np.array(dt), np.array(float(count)))

    return system, run


def moment(element, model, q, v, x=(), u=(), time=0.0, world=FREE):
    """Return what an element meets in one state on floats."""
    plan, gravity, water = surroundings(model, world)
    around = Setting(model, (), (), plan, gravity, water)
    kinematics = StateKinematics(around, tuple(map(float, q)), tuple(map(float, v)))
    return ElementContext(kinematics, time, tuple(x), tuple(u), element.parameters())


def power(model, q, v, action):
    """Return the power an element gives the robot in a state [W]."""
    total = 0.0
    force = action.joint_force
    if isinstance(force, dict):
        for joint, values in force.items():
            total += float(np.dot(values, np.asarray(v)[model.slice(joint, of="v")]))
    elif force is not None:
        total += float(np.dot(force, v))
    for frame, wrench in (action.wrenches or {}).items():
        if frame != "world":
            velocity = tb.frame_velocity(model, q, v, frame, axes="frame")
            total += float(np.dot(wrench, velocity))
    return total


def slider(mass=2.0, name="x", **joint):
    """Return a block on a straight rail along x."""
    inertia = tb.Inertia(mass, (0, 0, 0), (1, 0, 0, 1, 0, 1))
    return tb.Model(
        "slider", [tb.Body("block", joint=tb.Prismatic(name, (1, 0, 0), **joint), inertia=inertia)]
    )


def wheel(inertia=0.05, name="hinge", **joint):
    """Return a wheel on a hinge about z."""
    solid = tb.Inertia(1.0, (0, 0, 0), (inertia, 0, 0, inertia, 0, inertia))
    return tb.Model("wheel", [tb.Body("wheel", joint=tb.Revolute(name, **joint), inertia=solid)])
