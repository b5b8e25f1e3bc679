"""A ball and a block on a sloping plane, off the axes, for closed forms of contact."""

import math

import numpy as np

import tiburon as tb

G = 9.81
HEADING = 0.7
"""Direction of the slope [rad]: off the axes, where pyramids of friction fail."""


def single_body(shape, mass, inertia):
    body = tb.Body(
        "body",
        "world",
        joint=tb.Free("body"),
        inertia=tb.Inertia(mass=mass, com=(0, 0, 0), tensor=np.diag(inertia)),
        shapes=(tb.Shape(shape, role="collision"),),
    )
    return tb.Model("body", [body])


RADIUS = 0.1
BALL = single_body(tb.SphereShape(RADIUS), 1.0, [0.4 * RADIUS**2] * 3)
SIZE = (0.4, 0.3, 0.2)
BLOCK = single_body(
    tb.BoxShape(SIZE),
    2.0,
    [(a * a + b * b) / 6 for a, b in ((0.3, 0.2), (0.4, 0.2), (0.4, 0.3))],
)


def slope(degrees, heading=HEADING, **ground):
    """A plane that slopes: gravity is tilted instead."""
    angle = math.radians(degrees)
    down = np.array([math.cos(heading), math.sin(heading), 0.0])
    gravity = G * math.sin(angle) * down + np.array([0, 0, -G * math.cos(angle)])
    return tb.World(gravity=tuple(gravity), ground=tb.Ground(**ground))


def turned(angle, height):
    """A configuration on the plane, turned about its normal."""
    return np.array([math.cos(angle / 2), 0, 0, math.sin(angle / 2), 0.1, -0.2, height])


def on_shaking_table(amplitude, w):
    """Return a ball on a table whose height follows amplitude sin(w t)."""
    path = tb.Harmonic(amplitude, frequency=w / (2.0 * math.pi))
    table = tb.Body(
        "table",
        "world",
        joint=tb.Driven("table", tb.Prismatic("table", (0, 0, 1)), path),
        inertia=tb.Inertia(1.0, (0, 0, 0), np.eye(3)),
        shapes=(tb.Shape(tb.BoxShape((1.0, 1.0, 0.2)), role="collision"),),
    )
    return tb.Model("shaker", [table, BALL.bodies[0]])
