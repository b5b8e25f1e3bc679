"""Linear models of robots on compliant contacts."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.actuation.contact_models import contact_elements
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.step import Stepping
from tiburon.simulation.system import System

SURFACE = {"static_friction": 0.8, "normal_stiffness": 1e4, "normal_damping": 40.0}


def sprung_mass():
    """Return a mass of 2 kg that moves along all axes on a foot, and its world."""
    bodies = [
        tb.Body("x", joint=tb.Prismatic("x", axis=(1, 0, 0))),
        tb.Body("y", "x", joint=tb.Prismatic("y", axis=(0, 1, 0))),
        tb.Body(
            "z",
            "y",
            joint=tb.Prismatic("z", axis=(0, 0, 1)),
            inertia=tb.Inertia(2.0, (0, 0, 0), np.eye(3)),
        ),
    ]
    model = tb.Model("mass", bodies, contacts=[tb.ContactPoint("tip", "z")])
    ground = tb.Ground(planar_stiffness=3e3, planar_damping=8.0, **SURFACE)
    return model, tb.World(ground=ground)


def test_modes_of_a_mass_on_its_foot_are_those_of_springs():
    """Mass 2 kg: normal and tangential poles of k and b, in all three directions."""
    model, world = sprung_mass()
    A, B = tb.linearize(model, [0.3, 0.1, -2 * 9.81 / 1e4], [0, 0, 0], [0, 0, 0], world=world)
    k, b = np.diag([3e3, 3e3, 1e4]), np.diag([8.0, 8.0, 40.0])
    np.testing.assert_allclose(
        A, np.block([[np.zeros((3, 3)), np.eye(3)], [-k / 2, -b / 2]]), atol=1e-9
    )
    np.testing.assert_allclose(B[3:], np.eye(3) / 2, atol=1e-12)
    free, _ = tb.linearize(model, [0, 0, 0.1], [0, 0, 0], [0, 0, 0], world=world)
    np.testing.assert_allclose(free[3:], 0.0, atol=1e-12)


def test_a_step_of_a_mass_on_its_foot_is_the_polynomial_of_the_method():
    """A linear system: one step of order 4 multiplies by the first terms of the exponential."""
    model, world = sprung_mass()
    h, rest, v, tau = 2e-3, [0.3, 0.1, -2 * 9.81 / 1e4], [0.01, -0.02, 0.03], [0.1, 0.2, -0.3]
    A, B = tb.linearize(model, rest, v, tau, world=world)
    terms, power = [np.eye(6)], np.eye(6)
    for k in range(1, 5):
        power = power @ (h * A) / k
        terms.append(power)
    step = tb.linearize(model, rest, v, tau, world=world, dt=h)
    np.testing.assert_allclose(step.A, sum(terms), rtol=1e-10, atol=1e-12)
    forced = sum(term / (k + 1) for k, term in enumerate(terms[:4])) @ B * h
    np.testing.assert_allclose(step.B, forced, rtol=1e-10, atol=1e-14)
    # steps of different lengths, open and closed, in one batch
    high = [0.3, 0.1, 0.2]
    many = tb.linearize(model, [rest, high], v, tau, world=world, dt=[h, 0.5 * h])
    np.testing.assert_array_equal(many.A[0], step.A)
    free = tb.linearize(model, high, v, tau, world=world, dt=0.5 * h, contact=None)
    np.testing.assert_allclose(many.A[1], free.A, atol=1e-14)


def test_a_step_on_anchors_of_a_run_is_that_of_the_run():
    """A slipping ball, turned off its axes, against central differences of the step."""
    body = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia(2.0, (0.01, 0.02, -0.01), (0.01, 0.012, 0.009)),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    model = tb.Model("ball", [body])
    world = tb.World(ground=tb.Ground(**{**SURFACE, "static_friction": 0.3}))
    q = np.array([0.8, 0.2, 0.5, -0.1, 0.2, -0.3, 0.098])
    q[:4] /= np.linalg.norm(q[:4])
    run = tb.simulate(
        model,
        5e-3,
        q=q,
        v=[0.3, 0.5, -0.7, 1.0, 0.4, -0.2],
        world=world,
        record=tb.Record(every=1),
        method=tb.RK4(dt=1e-3),
    )
    q, v, z = run.q[-1], run.v[-1], run.z[-1]
    tau, h = 0.1 * np.arange(6.0), 1e-3
    A, B = tb.linearize(model, q, v, tau, dt=h, world=world, contact_state=z)
    system = System(model, world, contact_elements(model, world, tb.DefaultContact()), steps=True)
    # forces of z are those of one state: the law gives those of its neighbors
    stepping = Stepping(system, METHODS["rk4"], system.numbers(), reuses=False)

    def step(q, v, tau):
        found = stepping.step(tuple(q), tuple(v), (), (*tau, *z), h, 0.0)
        return np.array(found[0]), np.array(found[1])

    center, _ = step(q, v, tau)
    sides = []
    for sign in (1.0, -1.0):
        dq, dv, dtau = np.split(sign * 1e-6 * np.eye(18), 3, axis=1)
        after = [step(*one) for one in zip(model.integrate(q, dq), v + dv, tau + dtau, strict=True)]
        rows = [[*model.difference(center, one), *velocity] for one, velocity in after]
        sides.append(np.array(rows))
    expected = (sides[0] - sides[1]).T / 2e-6
    # differences of 1e-6, of a friction that turns with the slip
    atol = 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(np.concatenate([A, B], axis=1), expected, rtol=0, atol=atol)


def test_a_standing_quadruped_is_differentiated_exactly():
    """Against differences of accelerations at fixed anchors, kicked and slipping."""
    dog = tb.load("quadruped")
    world = tb.World(ground=tb.Ground(**SURFACE))
    generator = np.random.default_rng(4)
    q = np.array(dog.poses["stand"])
    q[6] -= tb.contacts(dog, q, world=world).gap.min() + 3e-3
    q = dog.integrate(q, 0.01 * generator.standard_normal(dog.nv))
    v, tau = (0.05 * generator.standard_normal(dog.nv) for _ in range(2))
    options = {"record": tb.Record(every=1)}
    run = tb.simulate(
        dog.without_passive().without_limits(), 2e-3, q=q, v=v, world=world, **options
    )
    q, v, z = run.q[-1], run.v[-1], run.z[-1]
    assert 0 < np.count_nonzero(z[2:16:4]) <= 4
    system = System(dog, world, contact_elements(dog, world, tb.DefaultContact()), steps=True)

    def rates(step, w):
        moved = dog.integrate(q, step)
        found = system.rates(tuple(moved), tuple(v + w), (*tau, *z), 0.0)
        return np.array(found, dtype=float)

    A, _ = tb.linearize(dog, q, v, tau, world=world, contact_state=z)
    h, zero = 1e-6, np.zeros(dog.nv)
    for k in (0, 4, 6, 8, 17):
        unit = h * np.eye(dog.nv)[k]
        by_q = (rates(unit, zero) - rates(-unit, zero)) / (2 * h)
        by_v = (rates(zero, unit) - rates(zero, -unit)) / (2 * h)
        for found, expected in ((A[18:, k], by_q), (A[18:, 18 + k], by_v)):
            np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(A).max())
    both, _ = tb.linearize(
        dog, np.stack([q, q]), np.stack([v, 0 * v]), tau, world=world, contact_state=z
    )
    np.testing.assert_array_equal(both[0], A)


def test_unsupported_force_elements_are_refused():
    dog = tb.load("quadruped")
    world = tb.World(ground=tb.Ground(**SURFACE))
    q, v = np.array(dog.poses["stand"]), np.zeros(dog.nv)
    with pytest.raises(tb.ModelError, match="external_force"):
        tb.linearize(dog, q, v, v, world=world, external_force={"trunk": np.ones(6)})
    with pytest.raises(tb.ShapeError, match="contact_state"):
        tb.linearize(dog, q, v, v, world=world, contact_state=np.zeros(3))
