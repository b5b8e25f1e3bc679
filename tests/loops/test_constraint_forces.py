"""Names, axes and signs of constraint forces are those of the documentation."""

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting

X, Y, Z = np.eye(3)


@pytest.fixture(scope="module", autouse=True)
def interpreted():
    """Formulas are tested here, not their code."""
    with interpreting():
        yield


NONE = np.zeros(3)


def force(axis):
    return np.concatenate([NONE, axis])


def couple(axis):
    return np.concatenate([axis, NONE])


TABLE = {
    "spherical": (tb.Spherical("j"), [force(X), force(Y), force(Z)]),
    "revolute": (tb.Revolute("j"), [force(X), force(Y), force(Z), couple(X), couple(Y)]),
    "universal": (tb.Universal("j"), [force(X), force(Y), force(Z), couple(-Z)]),
    "cylindrical": (tb.Cylindrical("j"), [force(-Y), force(X), couple(X), couple(Y)]),
    "prismatic": (tb.Prismatic("j"), [couple(X), couple(Y), couple(Z), force(-Y), force(X)]),
    "screw": (
        tb.Screw("j", pitch=0.2),
        [force(-Y), force(X), couple(X), couple(Y), force(Z) - 0.2 * couple(Z)],
    ),
    "planar": (tb.Planar("j"), [force(Z), couple(Y), couple(-X)]),
    "fixed": (
        tb.Fixed("j"),
        [couple(X), couple(Y), couple(Z), force(X), force(Y), force(Z)],
    ),
}
"""The rows of the table of closing joints in docs/loops.md, as wrenches [n; f]."""


@pytest.mark.parametrize("kind", TABLE)
def test_constraint_forces_add_up_to_the_wrench_on_the_second_place(kind):
    """A body pushed in all directions, held by the joint that closes the loop alone."""
    joint, directions = TABLE[kind]
    inertia = tb.Inertia(2.0, (0.1, -0.2, 0.3), (0.1, 0.2, 0.25))
    body = tb.Body("body", joint=tb.Free("base"), inertia=inertia)
    model = tb.Model("held", [body], loops=[tb.LoopClosure("loop", "world", "body", joint)])
    assert tb.constraint_names(model) == tuple(f"loop.{k}" for k in range(len(directions)))
    tau = np.array([1.0, -2.0, 3.0, 4.0, -5.0, 6.0])
    q, v = model.neutral(), np.zeros(6)
    found = tb.loop_dynamics(model, q, v, tau).constraint_force
    assert np.abs(found).min() > 1e-3
    (wrench,) = tb.loop_reactions(model, q, v, tau).loop
    np.testing.assert_allclose(found @ np.array(directions), wrench, atol=1e-9)
    # the other way round, the opposite wrench acts on the first place
    turned = tb.Model("held", [body], loops=[tb.LoopClosure("loop", "body", "world", joint)])
    opposite = tb.loop_dynamics(turned, q, v, tau).constraint_force
    np.testing.assert_allclose(opposite @ np.array(directions), -wrench, atol=1e-9)


def test_a_hanging_body_is_carried():
    """The weight, upward, on the second place."""
    body = tb.Body("body", joint=tb.Free("base"), inertia=tb.Inertia.sphere(2.0, 0.1))
    loop = tb.LoopClosure("hook", "world", "body", tb.Spherical("ball"))
    model = tb.Model("hanging", [body], loops=[loop])
    found = tb.loop_dynamics(model, model.neutral(), np.zeros(6), np.zeros(6))
    np.testing.assert_allclose(found.constraint_force, [0.0, 0.0, 2.0 * 9.81], atol=1e-12)
