"""Every method of dynamics with loops under all that can act, against dense linear algebra.

Water with added mass and drag, pushes and inertias from outside, armatures, gears in the tree and
rotors that spin in other links: on random closed mechanisms, each alone and all together.
"""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import allowed, dense_constraints
from tests.loops.random_mechanisms import random_mechanism
from tiburon.algorithms.binding import surroundings
from tiburon.algorithms.conditions import Setting
from tiburon.algorithms.crba import crba
from tiburon.algorithms.external import with_given_inertias
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.coupled_metric import CoupledMetric
from tiburon.loops.methods import METHODS, constrained_motion

RANDOM = np.random.default_rng(34)

TOLERANCE = 1e-9
"""Between methods, relative: round-off over a squared ratio of singular values of 1e-3."""


def rebuilt(model, bodies):
    return tb.Model(model.name, bodies, loops=model.loops)


def with_armatures(model):
    bodies = [
        replace(body, joint=replace(body.joint, armature=0.1 + 0.05 * k))
        if body.joint.nv == 1
        else body
        for k, body in enumerate(model.bodies)
    ]
    return rebuilt(model, bodies)


def with_gears(model):
    """Rotors in three links, spun by joints elsewhere: their variables meet at links and world."""
    leaders = [body for body in model.bodies if body.joint.nv == 1]
    first, last = leaders[0], leaders[-1]
    base, tip = model.bodies[0].name, model.bodies[-1].name
    across = tb.Pose.from_rpy((0.4, 0.2, -0.3), (0.1, 0.0, 0.05))
    rotors = [
        tb.rotor("r0", base, last.joint, ratio=-7.0, inertia=2e-3, mass=0.1, pose=across),
        tb.rotor("r1", last.name, last.joint, ratio=5.0, inertia=3e-3, mass=0.2, pose=across),
        tb.rotor("r2", tip, first.joint, ratio=3.0, inertia=4e-3, mass=0.15, pose=across),
    ]
    return rebuilt(model, [*model.bodies, *rotors])


def with_water(model):
    A = 0.1 * RANDOM.standard_normal((6, 6))
    fluid = tb.BodyFluid(
        volume=5e-4,
        center_of_buoyancy=(0.05, 0.0, 0.02),
        added_mass=0.1 * np.eye(6) + A @ A.T,
        linear_damping=(0.3,) * 6,
    )
    return rebuilt(model, [replace(body, fluid=fluid) for body in model.bodies])


def setting(model, method, world, options, arrays):
    """Return what a function of dynamics runs under, on floats."""
    plan, gravity, water = surroundings(model, world)
    chosen = (("method", method), *options)
    plan = with_given_inertias(plan, chosen, arrays)
    return Setting(model, chosen, arrays, plan, gravity, water)


def dense(around, q, v, tau):
    """Solve the augmented system of a setting densely."""
    model, zero = around.model, JointVector([0.0] * around.plan.nv)
    H = np.array(crba(around.plan, q), dtype=float)
    C = np.array(rnea(around.plan, q, v, zero, around.gravity, around.external), dtype=float)
    held = dense_constraints(model, list(q), list(v))
    L = np.linalg.cholesky(H)
    G = np.linalg.solve(L, held.J.T)
    s = np.linalg.svd(G, compute_uv=False)
    s = s[s > 1e-10 * s[0]]
    free = np.linalg.solve(H, np.array(tau) - C)
    y = np.linalg.pinv(G.T, rcond=1e-10) @ (-held.bias - held.J @ free)
    return free + np.linalg.solve(L.T, y), np.linalg.pinv(G, rcond=1e-10) @ y, s[-1] / s[0]


CONDITIONS = {
    "armatures": (with_armatures,),
    "gears": (with_gears,),
    "gears with armatures": (with_gears, with_armatures),
    "water": (with_water,),
    "pushes": (),
    "all": (with_gears, with_armatures, with_water),
}


@pytest.mark.parametrize("kind", ["planar", "spatial", "redundant", "floating"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_methods_agree_under_all_conditions(kind, condition):
    bare, q = random_mechanism(kind, np.random.default_rng([3, len(kind)]))
    model = bare
    for change in CONDITIONS[condition]:
        model = change(model)
    world = tb.World(fluid=tb.Water() if condition in ("water", "all") else None)
    options, arrays = (), ()
    if condition in ("pushes", "all"):
        options = (("external_force", ("a1", "b2")), ("external_axes", "frame"))
        arrays = (RANDOM.standard_normal(6), RANDOM.standard_normal(6))
    v = allowed(model, q, RANDOM.standard_normal(model.nv))
    tau = RANDOM.standard_normal(model.nv)
    state = [JointVector(list(x)) for x in (q, v, tau)]
    here = setting(model, "augmented", world, options, arrays).at(*state[:2])
    expected, forces, ratio = dense(here, *state)
    assert ratio > 1e-3
    # each condition matters
    plain = setting(bare, "augmented", tb.World(), (), ()).at(*state[:2])
    assert np.abs(dense(plain, *state)[0] - expected).max() > 1e-3
    for method in METHODS:
        around = setting(model, method, world, options, arrays).at(*state[:2])
        found = constrained_motion(around, *state)
        np.testing.assert_allclose(
            found.vd, expected, atol=TOLERANCE * np.abs(expected).max(), err_msg=method
        )
        # repeated constraints share their forces only as far as proximal passes come
        loose = 1e-5 if method == "proximal" else TOLERANCE
        np.testing.assert_allclose(
            found.multipliers, forces, atol=loose * np.abs(forces).max(), err_msg=method
        )


@pytest.mark.parametrize("kind", ["planar", "spatial", "floating"])
def test_shared_variables_factor_the_mass_matrix(kind):
    """f^T H^-1 f = sum of squared shares over D, and L^-1 D^-1 L^-T f is H^-1 f."""
    model = with_armatures(with_gears(random_mechanism(kind, np.random.default_rng(8))[0]))
    q = model.integrate(model.neutral(), 0.7 * RANDOM.standard_normal(model.nv))
    metric = CoupledMetric(model.plan, JointVector(q))
    H = np.array(crba(model.plan, JointVector(q)), dtype=float)
    D = 1.0 / np.array(metric.softness)
    np.testing.assert_allclose(np.prod(D), np.linalg.det(H), rtol=1e-10)
    for _ in range(3):
        force = RANDOM.standard_normal(model.nv)
        shares = metric.lowered(dict(enumerate(force)))
        rates = np.array([shares.get(i, 0.0) for i in range(model.nv)]) / D
        expected = np.linalg.solve(H, force)
        # round-off of a mass matrix of condition some thousands
        np.testing.assert_allclose(metric.raised(rates), expected, atol=1e-10 * abs(expected).max())
        np.testing.assert_allclose(rates @ (D * rates), force @ expected, rtol=1e-10)


def test_gears_take_handles_natively():
    """A four-bar whose crank spins a flywheel in the coupler: both methods, compiled."""
    whole = tb.load("four_bar")
    wheel = tb.rotor("wheel", "coupler", "input", ratio=-4.0, inertia=2e-3, mass=0.1)
    model = tb.Model("geared", [*whole.bodies, wheel], loops=whole.loops)
    q = np.array(whole.poses["home"])
    v = tb.project_velocity(model, q, np.array([1.5, 0.0, 0.0]))
    tau = RANDOM.standard_normal(3)
    reference = tb.forward_dynamics(model, q, v, tau)
    found = tb.forward_dynamics(model, q, v, tau, method="handles")
    np.testing.assert_allclose(found, reference, atol=1e-10 * np.abs(reference).max())
    assert np.abs(tb.forward_dynamics(whole, q, v, tau) - reference).max() > 1e-2
