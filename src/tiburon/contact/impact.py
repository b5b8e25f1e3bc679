"""Collisions: impulses that stop an approach, and the least motion out of a penetration.

Symbols:
    v, u        joint velocity; relative velocities at the contact points, u = J v
    A           J H^-1/2; loops are eliminated as in `complementarity` (9.63)
    c, p        impulses of compression, and of compression and decompression
    e, mu       coefficients of restitution and of friction of each contact

Two phases (Featherstone 1987, section 9.9.2, eqs. 9.75-9.83). Compression ends when no contact
approaches: its impulses c solve the contact problem with u before. Decompression returns at least
e c_n at each contact, and more where others press it: p_n >= (1 + e) c_n, complementary to the
velocity after. Friction acts on the exact cone of the total impulse in both phases. Contacts that
separate before are left out, or equal coefficients would not act as one. Where one of them
approaches afterwards, the set of contacts is rebuilt and the collision goes on.

`order` is an assumption that rigid bodies cannot decide: "simultaneous", all contacts are
compressed together; "sequential", one after the other, the fastest first, until none approaches.

Energy. With W = A A^T, the impulses s = (1 + e) c are admissible in the second phase, and those
found dissipate most: p u' <= s u' for the velocities u' after it. Hence the change of energy is at
most

    sum of (1 + e) c u_c  -  (c W c - (e c) W (e c)) / 2

with u_c after compression and c u_c <= 0. For one e it is at most -(1 - e^2) c W c / 2, which is
what it is without friction. With different e and friction it can be positive. Decompression is then
reduced, by one factor on all e, until no energy is created.

Traced, problems are solved by sweeps over the contacts, on floats by Newton's method (`coulomb`):
the same code is fast on many cases, and exact on those where sweeps stall or energy is created.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.arrays import NDArray
from tiburon.contact.candidates import Candidate, surfaces_of
from tiburon.contact.coulomb import solve_coulomb
from tiburon.contact.rigid import Compliance, Impulses, compliance_of, solve_impulses
from tiburon.contact.rows import ContactRow, along, contact_rows, in_world
from tiburon.loops.constraints import constraints
from tiburon.loops.metric import rank_cut
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.quadratic import INFEASIBLE, solve_qp
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.program import current_graph
from tiburon.trace.regions import while_loop

TOLERANCE = 1e-13
"""Residual of the impulses at which solvers end, relative to the largest impulse."""

Array = NDArray[np.float64]

REMOTE_VELOCITY = 1e9
"""Normal velocity that keeps a contact point out of a problem [m/s]."""

STILL_VELOCITY = 1e-10
"""Normal velocity, relative to the largest before, at which a contact does not approach."""

MOST_ROUNDS = 1000
"""Collisions in a row at most, of rebuilt sets or of single contacts."""

MAX_RESIDUAL = 1e-6
"""Residual of a round after which no other follows."""

ENERGY_TOLERANCE = 1e-9
"""Energy, relative to that of the impulses, that the tolerance of the solver may create."""

MIN_DIVISOR = 1e-300
"""Lower bound of velocities in divisions [m/s]."""

ENERGY_CREATED_RESIDUAL = 1.0
"""Residual of traced solutions that create energy."""

MAX_HALVINGS = 45
"""Halvings of the interval of the factor that reduces decompression."""


class _Impulses(NamedTuple):
    """Impulses of one round, or the sum of some."""

    p: list[Scalar]
    """Two tangents and the normal of each point [N s]."""

    y: list[Scalar]
    """A^T p."""

    factor: Scalar
    """Share of the coefficients of restitution that acts."""

    residual: Scalar
    """Of the solver."""

    worst: Scalar
    """Number of the point with the largest residual."""


def collide(
    setting: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    candidates: Sequence[Candidate],
    restitution: Sequence[Scalar],
    p: Sequence[Scalar],
    touching: float,
    order: str = "simultaneous",
) -> dict[str, Any]:
    """Return what a collision does, by name; see `tiburon.functions.contact.Impact`.

    Args:
        setting: The robot.
        q: Position [m or rad], nq scalars.
        v: Joint velocity before [m/s or rad/s], nv scalars.
        candidates: The shapes that may touch.
        restitution: Coefficient of each contact point; that of its material where negative.
        p: Run-time parameters of the candidates.
        touching: Gap up to which they touch [m].
        order: "simultaneous" or "sequential".
    """
    points = contact_rows(setting.plan, q, candidates, p)
    count = len(points)
    compliance = compliance_of(setting.plan, q, points, *loops_at(setting, q))
    surfaces = surfaces_of(candidates, p, [point.geometry for point in points])
    mu = [surface.kinetic_friction for surface in surfaces]
    e = [
        np.where(given >= 0.0, given, surface.restitution)
        for given, surface in zip(restitution, surfaces, strict=True)
    ]
    before = [x for point in points for x in point.velocity(v)]
    closed = [point.geometry.gap <= touching for point in points]
    still: Scalar = 0.0
    for k, one in enumerate(closed):
        still = np.maximum(still, np.where(one, STILL_VELOCITY * np.abs(before[3 * k + 2]), 0.0))

    def velocities(y: Sequence[Scalar]) -> list[Scalar]:
        return [a + along(row, y) for a, row in zip(before, compliance.rows, strict=True)]

    def approaches(state: _Impulses) -> Any:
        u = velocities(state.y)
        found: Any = False
        for k, one in enumerate(closed):
            found = found | (one & (u[3 * k + 2] < -still))
        # after a round that is not solved, further ones would repeat it
        return found & (state.residual <= MAX_RESIDUAL)

    def proceed(state: _Impulses) -> _Impulses:
        u = velocities(state.y)
        chosen = _chosen(closed, u, still, order)
        for k, one in enumerate(chosen):
            u[3 * k + 2] = np.where(one, u[3 * k + 2], REMOTE_VELOCITY)
        found = _round(compliance, u, mu, e)
        return _Impulses(
            [a + b for a, b in zip(state.p, found.p, strict=True)],
            [a + b for a, b in zip(state.y, found.y, strict=True)],
            np.minimum(state.factor, found.factor),
            np.maximum(state.residual, found.residual),
            np.where(found.residual > state.residual, found.worst, state.worst),
        )

    start = _Impulses([0.0] * (3 * count), [0.0] * compliance.size, 1.0, 0.0, 0.0)
    ran = while_loop(approaches, proceed, start, MOST_ROUNDS)
    state = ran.state
    after = [a + b for a, b in zip(v, compliance.response(state.y), strict=True)]
    ends = [x for point in points for x in point.velocity(after)]
    stays = [np.where(one & (ends[3 * k + 2] <= still), 1.0, 0.0) for k, one in enumerate(closed)]
    impulses = [
        in_world(point, [-x for x in state.p[3 * k : 3 * k + 3]]) for k, point in enumerate(points)
    ]
    # approach that is left after the last round, relative to the largest before
    left: Scalar = 0.0
    for k, one in enumerate(closed):
        excess = np.where(one, -ends[3 * k + 2] - still, 0.0)
        left = np.maximum(
            left,
            np.where(excess > 0.0, excess * STILL_VELOCITY / np.maximum(still, MIN_DIVISOR), 0),
        )
    return {
        "v": as_traced(after),
        "impulses": as_traced([x for one in impulses for x in one]).reshape(-1, 3),
        "energy_change": _work(state.p, before, ends),
        "touching": as_traced(stays),
        "restitution": as_traced([state.factor * x for x in e]),
        "factor": state.factor,
        "rounds": ran.count,
        "worst": state.worst,
        "residual": np.maximum(state.residual, left),
    }


def loops_at(setting: Setting, q: Sequence[Scalar]) -> tuple[Any, ...]:
    """Return the Jacobian of the loops and its rank cut; nothing for a tree."""
    if not setting.model.loops:
        return ()
    terms = constraints(setting.model, setting.plan, JointVector(q))
    rows: Sequence[ContactRow] = terms.jacobian
    return rows, rank_cut(setting.model, terms.value)


def _chosen(closed: Sequence[Any], u: Sequence[Scalar], still: Scalar, order: str) -> list[Any]:
    """Return the contacts that take part in a round: all that do not separate, or the fastest."""
    normal = [np.where(one, u[3 * k + 2], REMOTE_VELOCITY) for k, one in enumerate(closed)]
    if order == "simultaneous":
        return [speed <= still for speed in normal]
    fastest: Scalar = REMOTE_VELOCITY
    for speed in normal:
        fastest = np.minimum(fastest, speed)
    found: list[Any] = []
    taken: Scalar = 0.0
    for speed in normal:
        this = np.where((speed <= fastest) & (taken < 0.5), 1.0, 0.0)
        taken = taken + this
        found.append(this > 0.5)
    return found


def _round(
    compliance: Compliance, b: list[Scalar], mu: Sequence[Scalar], restitution: Sequence[Scalar]
) -> _Impulses:
    """Return the impulses of compression and decompression.

    Args:
        compliance: The inverse mass matrix.
        b: Relative velocities before, two tangents and the normal of each point [m/s].
        mu: Coefficient of friction of each point.
        restitution: Coefficient of restitution of each point.
    """
    none = [0.0] * len(mu)
    compressed = _solved(compliance, b, mu, none, [0.0] * len(b))

    def decompressed(factor: Scalar, start: Sequence[Scalar]) -> _Impulses:
        least = [(1.0 + factor * e) * compressed.p[3 * k + 2] for k, e in enumerate(restitution)]
        found = _solved(compliance, b, mu, least, start)
        return _Impulses(found.p, found.y, factor, *_worse(compressed, found))

    def created(found: _Impulses) -> Any:
        ends = [a + along(row, found.y) for a, row in zip(b, compliance.rows, strict=True)]
        size: Scalar = 0.0
        for x in found.y:
            size = size + x * x
        return _work(found.p, b, ends) > ENERGY_TOLERANCE * size

    full = decompressed(1.0, compressed.p)
    if current_graph() is not None:
        # left to the solution on floats
        return full._replace(
            residual=np.where(created(full), ENERGY_CREATED_RESIDUAL, full.residual)
        )
    if not created(full):
        return full
    low, high = 0.0, 1.0
    # without decompression no energy is created
    best = _Impulses(compressed.p, compressed.y, 0.0, compressed.residual, compressed.worst)
    for _ in range(MAX_HALVINGS):
        middle = 0.5 * (low + high)
        tried = decompressed(middle, best.p)
        if created(tried):
            high = middle
        else:
            low, best = middle, tried
    return best


def collision_impulses(
    rows: Array, b: Array, mu: Array, restitution: Array
) -> tuple[Array, float, float]:
    """Return the impulses of one collision on floats, to rounding.

    Args:
        rows: A, three rows per contact point, shape (3 n, nv).
        b: Relative velocities before, two tangents and the normal of each point [m/s], shape
            (3 n,); a normal velocity of `REMOTE_VELOCITY` leaves a point out.
        mu: Friction of each point, shape (n,).
        restitution: Coefficient of restitution of each point, shape (n,).

    Returns:
        Impulses [N s], shape (3 n,); the factor on the coefficients that acted, below 1 where
        friction would have created energy; the residual of the laws of contact.
    """
    compliance = Compliance([dict(enumerate(row)) for row in rows.tolist()], tuple, rows.shape[1])
    found = _round(compliance, b.tolist(), mu.tolist(), restitution.tolist())
    return np.array(found.p), float(found.factor), float(found.residual)


def _solved(
    compliance: Compliance,
    b: Sequence[Scalar],
    mu: Sequence[Scalar],
    least: Sequence[Scalar],
    start: Sequence[Scalar],
) -> Impulses:
    """Solve a contact problem; see `solve_impulses`."""
    if current_graph() is not None:
        return solve_impulses(compliance, b, mu, least, start, tolerance=TOLERANCE)
    A = np.array([[row.get(i, 0.0) for i in range(compliance.size)] for row in compliance.rows])
    found = solve_coulomb(
        A @ A.T,
        np.array(b, dtype=np.float64),
        np.array(mu, dtype=np.float64),
        np.array(least, dtype=np.float64),
        np.array(start, dtype=np.float64).reshape(-1, 3),
    )
    p = found.p.reshape(-1)
    none = [0.0] * len(mu)
    return Impulses(p.tolist(), (A.T @ p).tolist(), none, found.residual, 0.0, float(found.worst))


def _worse(one: Impulses, other: Impulses) -> tuple[Scalar, Scalar]:
    """Return the larger residual and its point."""
    return (
        np.maximum(one.residual, other.residual),
        np.where(one.residual > other.residual, one.worst, other.worst),
    )


def _work(p: Sequence[Scalar], before: Sequence[Scalar], after: Sequence[Scalar]) -> Scalar:
    """Return the change of kinetic energy: impulses times mean velocities [J]."""
    total: Scalar = 0.0
    for impulse, a, b in zip(p, before, after, strict=True):
        # impulses of points that are left out are zero
        total = total + impulse * 0.5 * (a + b)
    return total


class Lifting(NamedTuple):
    """The least motion in the mass metric that opens all gaps to first order."""

    step: Any
    """Displacement [m or rad], shape (nv,)."""

    possible: Scalar
    """1, or 0 where no motion opens all gaps."""

    enclosing: Any
    """For each contact point its weight in the contradiction where there is none."""


def lifting(
    setting: Setting,
    q: Sequence[Scalar],
    candidates: Sequence[Candidate],
    left_out: Sequence[Scalar],
    p: Sequence[Scalar],
) -> Lifting:
    """Return the least motion that opens all gaps; loops stay closed to first order.

    Gaps of points that are left out are larger by a given length.
    """
    plan, n = setting.plan, setting.plan.nv
    points = contact_rows(plan, q, candidates, p)
    elements = FactorTree(expanded_parents(plan)).layout.elements()
    mass = chosen_mass_elements(plan, JointVector(q), elements)
    H: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    for (i, j), x in zip(elements, mass, strict=True):
        H[i][j] = H[j][i] = x
    loops: tuple[Any, Any] = (None, None)
    if setting.model.loops:
        jacobian, cut = loops_at(setting, q)
        columns = as_traced([[row.get(i, 0.0) for row in jacobian] for i in range(n)])
        # what depends on other constraints would lock the robot where loops are slightly open
        independent = factor_orthogonal(columns, cut=cut).project_range(np.eye(n))
        loops = independent, [0.0] * n
    normals = [[point.rows[2].get(i, 0.0) for i in range(n)] for point in points]
    gaps = [-(x.geometry.gap + more) for x, more in zip(points, left_out, strict=True)]
    found = solve_qp(H, [0.0] * n, *loops, normals, gaps)
    possible = np.where(np.abs(found.status - INFEASIBLE) > 0.5, 1.0, 0.0)
    return Lifting(found.x, possible, found.inequality_multipliers)
