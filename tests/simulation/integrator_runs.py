"""Systems to integrate, and equal steps of any method on floats."""

import numpy as np

import tiburon as tb
from tests.robots import kicked, pendulum, top
from tests.simulation.samples import symmetric_top
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.methods import METHODS
from tiburon.trace.array import as_traced
from tiburon.trace.program import current_graph

LAG = 0.15
"""Time in which the inner states of `lagging` follow their commands [s]."""


def array(values):
    """Return scalars as an array, of floats or of traced values."""
    return np.array(values, dtype=float) if current_graph() is None else as_traced(list(values))


class Plant:
    """A robot with inner states, as integrators see it."""

    def __init__(self, model, q, w, force=None, *, world=None, timed=False):
        """Remember a system and the state it starts from.

        Args:
            model: The robot.
            q: Position at the start.
            w: Velocities and inner states at the start.
            force: Gives joint forces and the rates of inner states for q, v, x and time.
            world: Surroundings.
            timed: Whether the robot itself depends on time.
        """
        self.model, self.manifold = model, Manifold(model)
        self.q, self.w = tuple(map(float, q)), tuple(map(float, w))
        self.world, self.timed, self._force = world, timed, force
        self.evaluations = 0

    def rates(self, q, w, time=0.0):
        """Return how fast w changes; a time is taken whether or not it matters."""
        self.evaluations += 1
        nv = self.model.nv
        v, x = w[:nv], w[nv:]
        tau, rates = ((0.0,) * nv, ()) if self._force is None else self._force(q, v, x, time)
        when = {"time": array(time) if current_graph() is None else time} if self.timed else {}
        vd = tb.forward_dynamics(
            self.model, array(q), array(v), array(tau), world=self.world, **when
        )
        return (*vd.tolist(), *rates)

    def run(self, name, count, duration=1.0, every=None):
        """Take equal steps on floats; give the last state, or every so many with the first."""
        method = METHODS[name] if isinstance(name, str) else name
        h = duration / count
        q, w = self.q, self.w
        memory = method.start(self.manifold, self.rates, q, w, h, 0.0)
        states = [(q, w)]
        for step in range(count):
            q, w, memory = method.advance(self.manifold, self.rates, q, w, memory, h, step * h)
            if every is not None and (step + 1) % every == 0:
                states.append((q, w))
        return (q, w) if every is None else states

    def distance(self, state, other):
        """Return the largest difference of two states, positions along the manifold."""
        apart = self.manifold.displacement(tuple(map(float, other[0])), tuple(map(float, state[0])))
        change = np.subtract(state[1], other[1])
        return max(np.abs([x for step in apart for x in step]).max(), np.abs(change).max())


def tumbling():
    """Return a body with three different moments of inertia that tumbles without weight."""
    model = top()
    q, v, _ = kicked(model, 5)
    return Plant(model, q, 3.0 * v, world=tb.World(gravity=(0.0, 0.0, 0.0)))


def symmetric_tumbling():
    """Return a tumbling body whose motion has a closed form."""
    model = symmetric_top()
    q, v, _ = kicked(model, 5)
    return Plant(model, q, 3.0 * v, world=tb.World(gravity=(0.0, 0.0, 0.0)))


def spherical_pendulum():
    """Return a rod with a spin on a ball joint, in gravity."""
    bob = tb.Inertia(1.3, (0.05, 0.0, -0.5), (0.04, 0.03, 0.02))
    model = tb.Model("ball", [tb.Body("rod", joint=tb.Spherical("pivot"), inertia=bob)])
    q, v, _ = kicked(model, 3)
    return Plant(model, q, 2.0 * v)


def rolling():
    """Return a ball with its center of mass off the middle, rolling down a slope."""
    joint = tb.RollingSphere("contact", 0.3, pose=tb.Pose.from_rpy((0.0, 0.2, 0.0)))
    ball = tb.Inertia(1.7, (0.05, -0.1, 0.08), (0.06, 0.06, 0.06))
    model = tb.Model("slope", [tb.Body("ball", joint=joint, inertia=ball)])
    q, v, _ = kicked(model, 2)
    return Plant(model, q, 2.0 * v)


def lagging():
    """Return a floating base with a link; thrusts follow commands that oscillate, with a lag."""
    base = tb.Body(
        "base", joint=tb.Free("float"), inertia=tb.Inertia(4.0, (0.02, 0.0, 0.05), (0.2, 0.3, 0.4))
    )
    hinge = tb.Revolute("hinge", axis=(0, 1, 0), pose=tb.Pose(translation=(0.3, 0.0, 0.1)))
    link = tb.Body(
        "link", "base", joint=hinge, inertia=tb.Inertia(1.0, (0.0, 0.1, -0.3), (0.1, 0.1, 0.02))
    )
    model = tb.Model("lagging", [base, link])
    q, v, _ = kicked(model, 4)

    def force(q, v, x, time):
        commands = (8.0 * np.sin(3.0 * time), 5.0 * np.cos(2.0 * time) - 2.0 * v[6])
        rates = tuple((c - own) / LAG for c, own in zip(commands, x, strict=True))
        return (0.3 * x[1], 0.0, 0.0, x[0], 0.0, 0.5 * x[0], x[1] - 0.4 * v[6]), rates

    return Plant(model, q, (*v, 1.0, -2.0), force)


def driven():
    """Return a pendulum on a pivot that time shakes."""
    swing = tb.Harmonic(amplitude=0.3, frequency=0.8, phase=0.4)
    pivot = tb.Driven("pivot", tb.Prismatic("x", (1, 0, 0)), swing, carried=tb.Spherical("ball"))
    bob = tb.Inertia(1.0, (0.0, 0.1, -0.5), (0.06, 0.05, 0.01))
    model = tb.Model("shaken", [tb.Body("rod", joint=pivot, inertia=bob)])
    q, v, _ = kicked(model, 7)
    return Plant(model, q, v, timed=True)


def swinging():
    """Return a pendulum at a wide swing."""
    return Plant(pendulum(), (0.4,), (3.0,))


PLANTS = {
    "tumbling": tumbling,
    "spherical_pendulum": spherical_pendulum,
    "rolling": rolling,
    "lagging": lagging,
    "driven": driven,
}
