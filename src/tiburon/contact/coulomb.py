"""Impulses with Coulomb friction to rounding, by a nonsmooth Newton method; for one case on floats.

The laws of contact are the zeros of the natural map (Alart and Curnier 1991). With u = W p + b,
a step r = 1 / W_kk per contact and q_n = max(p_0, p_n - r u_n),

    F_n = p_n - q_n,    F_t = p_t - (p_t - r u_t limited to length mu q_n)

Newton's method on it converges quadratically where modes are right. Where it does not, friction
grows from zero in steps that adapt, each solved from the one before; without friction the problem
is that of `pivoting`. Sweeps over contacts (`FrictionGaussSeidel`) are faster and run in batches,
but stall where contacts depend on each other. Where both fail, Newton's method starts at random
impulses inside the cones; the same ones in every call.

Symbols: p impulses, u velocities, b those without impulses: two tangents and the normal of each
contact; W = A A^T; mu friction; p_0 least normal impulse.
"""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.contact.pivoting import solve_pivoting
from tiburon.errors import SecondOrderCollisionError

Array = NDArray[np.float64]

NEWTON_TOLERANCE = 1e-13
"""Residual, relative to the largest impulse, at which Newton's method ends."""

ACCEPTED_RESIDUAL = 1e-10
"""Residual that is accepted where rounding leaves no better one."""

NEWTON_STEPS = 40
"""Steps of one run of Newton's method."""

MAX_STALLED_STEPS = 6
"""Steps without progress after which it ends."""

MAX_HALVINGS = 12
"""Halvings of a step that does not reduce the residual."""

MAX_STARTS = 30
"""Starts of Newton's method at most, random ones last."""

MAX_ATTEMPTED_CONTACTS = 12
"""Contacts up to which all of these attempts are made; more would take too long."""

SMALLEST_GROWTH = 1e-3
"""Share of the friction by which it grows at least."""

RANK_CUT = 1e-11
"""Singular value, relative to the largest, below which a direction is left alone."""


REMOTE_VELOCITY = 1e8
"""Normal velocity from which on a contact takes no part [m/s]."""


class CoulombSolution(NamedTuple):
    """Impulses of contacts with friction."""

    p: Array
    """Two tangents and the normal of each contact [N s], shape (n, 3)."""

    residual: float
    """Largest residual of the natural map, relative to the size of impulses."""

    worst: int
    """Contact with that residual."""


class _Problem(NamedTuple):
    W: Array
    b: Array
    mu: Array
    least: Array
    step: Array
    """r of each contact, shape (n,)."""
    size: float
    """Size of impulses [N s]."""


def _problem(W: Array, b: Array, mu: Array, least: Array) -> _Problem:
    diagonal = np.diag(W).reshape(-1, 3).max(axis=1)
    step = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
    near = np.abs(b.reshape(-1, 3)[:, 2]) < REMOTE_VELOCITY
    reach = np.abs(b.reshape(-1, 3)).max(axis=1) * step
    size = max(float(reach[near].max(initial=0.0)), float(least.max(initial=0.0)))
    return _Problem(W, b, mu, least, step, size)


def _map(problem: _Problem, p: Array) -> tuple[Array, Array]:
    """Return the natural map and its generalized Jacobian."""
    W, b, mu, least, step, _ = problem
    u = W @ p + b
    count = len(mu)
    F, J = np.empty(3 * count), np.zeros((3 * count, 3 * count))
    unit = np.eye(3 * count)
    for k in range(count):
        t, n, r = slice(3 * k, 3 * k + 2), 3 * k + 2, step[k]
        pushed = p[n] - r * u[n]
        closed = pushed > least[k]
        normal = pushed if closed else least[k]
        slope = unit[n] - r * W[n] if closed else np.zeros(3 * count)
        F[n] = p[n] - normal
        J[n] = unit[n] - slope
        z, dz = p[t] - r * u[t], unit[t] - r * W[t]
        length, limit = float(np.hypot(*z)), mu[k] * normal
        if length <= limit:
            F[t] = p[t] - z
            J[t] = unit[t] - dz
            continue
        way = z / length
        F[t] = p[t] - limit * way
        across = np.array([-way[1], way[0]])
        turned = np.outer(across, across @ dz) * (limit / length)
        J[t] = unit[t] - np.outer(way, mu[k] * slope) - turned
    return F, J


def _newton(problem: _Problem, p: Array) -> tuple[Array, float]:
    """Return impulses near given ones, and their residual."""
    F, J = _map(problem, p)
    error = float(np.abs(F).max(initial=0.0))
    best, least, waiting = p, error, 0
    for _ in range(NEWTON_STEPS):
        if error <= NEWTON_TOLERANCE * problem.size or waiting > MAX_STALLED_STEPS:
            break
        change = -np.linalg.lstsq(J, F, rcond=RANK_CUT)[0]
        length, moved = 1.0, False
        for _ in range(MAX_HALVINGS):
            tried = p + length * change
            F_tried, J_tried = _map(problem, tried)
            error_tried = float(np.linalg.norm(F_tried))
            if error_tried < (1.0 - 1e-4 * length) * float(np.linalg.norm(F)):
                moved = True
                break
            length *= 0.5
        if not moved:
            # kinks: one full step may lead to the right modes
            tried = p + change
            F_tried, J_tried = _map(problem, tried)
        p, F, J = tried, F_tried, J_tried
        error = float(np.abs(F).max(initial=0.0))
        waiting = 0 if error < 0.9 * least else waiting + 1
        if error < least:
            best, least = p, error
    return best, least


def solve_coulomb(
    W: Array, b: Array, mu: Array, least: Array, start: Array | None = None
) -> CoulombSolution:
    """Solve for the impulses of contacts with friction.

    Args:
        W: Compliance [1/kg], positive semidefinite, shape (3 n, 3 n).
        b: Velocities without impulses [m/s], shape (3 n,).
        mu: Friction of each contact, shape (n,).
        least: Least normal impulse of each contact [N s], shape (n,).
        start: Impulses to start from [N s], shape (n, 3); those without friction by default.
    """
    count = len(mu)
    # contacts that take no part would spoil the scale of the others
    near = np.flatnonzero((b.reshape(-1, 3)[:, 2] < REMOTE_VELOCITY) | (least > 0.0))
    found = np.zeros((count, 3))
    if not len(near):
        return CoulombSolution(found, 0.0, 0)
    places = (3 * near[:, None] + np.arange(3)).reshape(-1)
    problem = _problem(W[np.ix_(places, places)], b[places], mu[near], least[near])
    if problem.size == 0.0:
        return CoulombSolution(found, 0.0, 0)
    tried = []
    if start is not None:
        tried.append(_newton(problem, start[near].reshape(-1)))
    if not tried or tried[0][1] > ACCEPTED_RESIDUAL * problem.size:
        tried.append(_continued(problem))
    rng = np.random.default_rng(len(near))
    starts = MAX_STARTS if len(near) <= MAX_ATTEMPTED_CONTACTS else 0
    while (
        len(tried) < starts and min(error for _, error in tried) > ACCEPTED_RESIDUAL * problem.size
    ):
        tried.append(_newton(problem, _scattered(problem, tried[-1][0], rng)))
    p, error = min(tried, key=lambda one: one[1])
    found[near] = p.reshape(-1, 3)
    worst = int(np.abs(_map(problem, p)[0]).argmax()) // 3
    return CoulombSolution(found, error / problem.size, int(near[worst]))


def _continued(problem: _Problem) -> tuple[Array, float]:
    """Return impulses found by letting friction grow, and their residual."""
    p = _smooth(problem)
    share, growth = 0.0, 1.0
    smallest = SMALLEST_GROWTH if len(problem.mu) <= MAX_ATTEMPTED_CONTACTS else 0.1
    while share < 1.0 and growth >= smallest:
        ahead = min(1.0, share + growth)
        moved, error = _newton(problem._replace(mu=ahead * problem.mu), p)
        if error <= ACCEPTED_RESIDUAL * problem.size:
            p, share, growth = moved, ahead, 2.0 * growth
        else:
            growth *= 0.5
    return _newton(problem, p)


def _scattered(problem: _Problem, p: Array, rng: np.random.Generator) -> Array:
    """Return random impulses inside the cones, of the size of given ones."""
    count = len(problem.mu)
    size = np.maximum(np.abs(p.reshape(-1, 3)[:, 2]).max(), problem.size)
    normal = problem.least + size * rng.uniform(0.0, 1.0, count) * (rng.random(count) < 0.7)
    angle, share = rng.uniform(0.0, 2.0 * np.pi, count), rng.uniform(0.0, 1.0, count)
    length = share * problem.mu * normal
    return np.stack([length * np.cos(angle), length * np.sin(angle), normal], axis=1).reshape(-1)


def _smooth(problem: _Problem) -> Array:
    """Return the impulses without friction."""
    W, b, _, least, _, _ = problem
    normals = np.arange(2, len(b), 3)
    C = W[np.ix_(normals, normals)]
    p = np.zeros(len(b))
    try:
        p[normals] = least + solve_pivoting(C, b[normals] + C @ least).forces
    except SecondOrderCollisionError:
        # rounding of dependent contacts; velocities always have a solution
        p[normals] = least
    return p
