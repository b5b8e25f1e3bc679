"""Linear models of robots on compliant contacts."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.actuation.defaults import contact_elements
from tiburon.simulation.system import System

SURFACE = {"static_friction": 0.8, "normal_stiffness": 1e4, "normal_damping": 40.0}


def test_modes_of_a_mass_on_its_foot_are_those_of_springs():
    """Mass 2 kg: normal and tangential poles of k and b, in all three directions."""
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
    world = tb.World(ground=ground)
    A, B = tb.linearize(model, [0.3, 0.1, -2 * 9.81 / 1e4], [0, 0, 0], [0, 0, 0], world=world)
    k, b = np.diag([3e3, 3e3, 1e4]), np.diag([8.0, 8.0, 40.0])
    np.testing.assert_allclose(
        A, np.block([[np.zeros((3, 3)), np.eye(3)], [-k / 2, -b / 2]]), atol=1e-9
    )
    np.testing.assert_allclose(B[3:], np.eye(3) / 2, atol=1e-12)
    free, _ = tb.linearize(model, [0, 0, 0.1], [0, 0, 0], [0, 0, 0], world=world)
    np.testing.assert_allclose(free[3:], 0.0, atol=1e-12)


def test_a_standing_quadruped_is_differentiated_exactly():
    """Against differences of accelerations at fixed anchors, kicked and slipping."""
    dog = tb.load("quadruped")
    world = tb.World(ground=tb.Ground(**SURFACE))
    generator = np.random.default_rng(4)
    q = np.array(dog.poses["stand"])
    q[6] -= tb.contacts(dog, q, world=world).gap.min() + 3e-3
    q = dog.integrate(q, 0.01 * generator.standard_normal(dog.nv))
    v, tau = (0.05 * generator.standard_normal(dog.nv) for _ in range(2))
    options = {"passive": False, "limits": False, "record_every": 1}
    run = tb.simulate(dog, 2e-3, q=q, v=v, world=world, **options)
    q, v, z = run.q[-1], run.v[-1], run.z[-1]
    assert 0 < np.count_nonzero(z[2:16:4]) <= 4
    system = System(dog, world, contact_elements(dog, world, None), steps=True)

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


def test_steps_and_foreign_forces_are_refused():
    dog = tb.load("quadruped")
    world = tb.World(ground=tb.Ground(**SURFACE))
    q, v = np.array(dog.poses["stand"]), np.zeros(dog.nv)
    with pytest.raises(tb.ModelError, match="leave dt out"):
        tb.linearize(dog, q, v, v, world=world, dt=1e-3)
    with pytest.raises(tb.ModelError, match="external_force"):
        tb.linearize(dog, q, v, v, world=world, external_force={"trunk": np.ones(6)})
    with pytest.raises(tb.ShapeError, match="contact_state"):
        tb.linearize(dog, q, v, v, world=world, contact_state=np.zeros(3))
