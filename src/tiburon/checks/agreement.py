"""Algorithms that must agree on one robot: recursions, mass matrix, energy, derivatives."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.checks.finding import FAILED, LOOK, PASSED, SKIPPED, Finding, judged
from tiburon.checks.kicked import Kicked
from tiburon.functions.closed_loops import loop_dynamics, loop_jacobian
from tiburon.functions.derivatives import forward_dynamics_derivatives
from tiburon.functions.dynamics import bias_force, forward_dynamics, inverse_dynamics, mass_matrix
from tiburon.functions.momentum_energy import kinetic_energy
from tiburon.model import Model, World

__all__ = ["agreements", "derivative_agreement"]

Array = NDArray[np.float64]

ROUNDING = 1e-9
"""Largest difference between algorithms, relative to the forces in play: a million roundings, as
mass matrices of robots amplify them."""

STEP = 1e-5
"""Of finite differences [rad, m or their rates]: curvature and rounding leave some 1e-10 of the
largest derivative, corners of drag laws within a step up to 1e-5."""

SLOPES = 2e-5
"""Largest difference between derivatives and finite differences, by the largest derivative, or by
accelerations where those are larger."""

SPREAD = 1e10
"""Eigenvalues of a mass matrix that lie so far apart leave six digits of accelerations."""

LARGEST = 40
"""Degrees of freedom up to which derivatives are checked: beyond, they take minutes to compile."""


def agreements(model: Model, world: World, states: Kicked) -> Iterator[Finding]:
    """Check that recursions and matrices tell the same dynamics.

    Args:
        model: The robot.
        world: Its surroundings.
        states: Where.
    """
    q, v = states
    # matrices and recursions are those of the tree; what closes loops adds its forces
    tree = model.without_loops() if model.loops else model
    random = np.random.default_rng(1)
    H = mass_matrix(tree, q, fluid=world.fluid)
    bias = bias_force(tree, q, v, world=world)
    tau = bias + np.einsum("nij,nj->ni", H, random.standard_normal(v.shape))
    if model.loops:
        answer = loop_dynamics(model, q, v, tau, world=world)
        vd = answer.acceleration
        J = loop_jacobian(model, q)
        push = np.einsum("nci,nc->ni", J, answer.constraint_force)
    else:
        vd = forward_dynamics(model, q, v, tau, world=world)
        push = np.zeros_like(tau)
    sizes = np.abs(np.einsum("nij,nj->ni", np.abs(H), np.abs(vd))) + np.abs(bias) + np.abs(push)
    scale = np.max(sizes, axis=-1) + np.finfo(np.float64).tiny
    needed = inverse_dynamics(tree, q, v, vd, world=world) - push
    yield judged(
        "forward and inverse dynamics",
        _largest(needed - tau, scale),
        ROUNDING,
        "forces that inverse dynamics asks for the accelerations of forward dynamics are those "
        "given",
    )
    rows = np.einsum("nij,nj->ni", H, vd) + bias - push
    yield judged(
        "mass matrix and bias force",
        _largest(rows - tau, scale),
        ROUNDING,
        "H vd + C = tau, by composite bodies and by recursion",
    )
    yield _kinetic(tree, world, states, H)
    yield _positive(H)


def _kinetic(tree: Model, world: World, states: Kicked, H: Array) -> Finding:
    """Check the kinetic energy by the mass matrix against the sum over bodies."""
    name = "kinetic energy"
    if tree.plan.depends_on_time:
        return Finding(name, SKIPPED, "joints driven by time carry energy of their own")
    q, v = states
    kinetic = np.asarray(kinetic_energy(tree, q, v, fluid=world.fluid))
    half = 0.5 * np.einsum("ni,nij,nj->n", v, H, v)
    return judged(
        name,
        float(np.max(np.abs(kinetic - half) / np.maximum(np.abs(kinetic), 1e-300))),
        ROUNDING,
        "v H v / 2 is the sum over bodies",
    )


def _positive(H: Array) -> Finding:
    """Check that motion takes energy, and tell how far apart inertias lie."""
    values = np.linalg.eigvalsh(H)
    least, largest = float(values.min()), float(values.max())
    spread = largest / least if least > 0.0 else float("inf")
    verdict = FAILED if least <= 0.0 else LOOK if spread > SPREAD else PASSED
    text = f"eigenvalues from {least:.3g} to {largest:.3g}, {spread:.2g} apart"
    if verdict == LOOK:
        text += "; so light a link beside so heavy a one costs digits"
    return Finding("mass matrix is positive", verdict, text, spread, SPREAD)


def derivative_agreement(model: Model, world: World, states: Kicked) -> Finding:
    """Check derivatives of forward dynamics against finite differences."""
    name = "derivatives"
    if model.loops:
        return Finding(name, SKIPPED, "the robot has loops")
    if model.nv > LARGEST:
        return Finding(name, SKIPPED, f"{model.nv} degrees of freedom; up to {LARGEST} are checked")
    q, v = states.q[0], states.v[0]
    vd = np.random.default_rng(2).standard_normal(model.nv)
    tau = inverse_dynamics(model, q, v, vd, world=world)
    found: Any = forward_dynamics_derivatives(model, q, v, tau, world=world)
    nv = model.nv
    step = STEP * np.eye(nv)
    by_q = _differences(
        forward_dynamics(model, model.integrate(np.tile(q, (nv, 1)), step), v, tau, world=world),
        forward_dynamics(model, model.integrate(np.tile(q, (nv, 1)), -step), v, tau, world=world),
    )
    by_v = _differences(
        forward_dynamics(model, q, v + step, tau, world=world),
        forward_dynamics(model, q, v - step, tau, world=world),
    )
    # where nothing changes, differences are rounding of the accelerations themselves
    size = float(np.abs(vd).max())
    errors = [
        float(np.abs(ours - theirs).max()) / max(float(np.abs(theirs).max()), size)
        for ours, theirs in ((found.by_q, by_q), (found.by_v, by_v))
    ]
    return judged(
        name, max(errors), SLOPES, "of forward dynamics, against differences of steps of 1e-5"
    )


def _differences(after: Array, before: Array) -> Array:
    """Return central differences, one column per variable."""
    return np.asarray((after - before).T / (2.0 * STEP))


def _largest(errors: Array, scale: Array) -> float:
    return float(np.max(np.abs(errors) / scale[:, None]))
