"""Contact forces at the level of accelerations: the complementarity problem and its solution.

Symbols (Featherstone 1987, sections 9.6 and 9.7):
    n, n'       unit normal of a contact from the first to the second body, and its rate
    J           Jacobian of the relative velocities at the contact points
    F           generalized unit forces along the normals, F = J_n^T         (9.43, 9.47)
    H, u        mass matrix; velocity-product part of the relative acceleration
    f, w        normal forces [N] and relative normal accelerations [m/s^2]
    C, d        C = F^T H^-1 F, d = F^T vd + u, vd accelerations without contact (9.52, 9.53)

    f >= 0,  w = C f + d >= 0,  f w = 0 for each contact                     (9.50, 9.51)

The book adds both inequalities to one, which holds only where the product is zero exactly and adds
forces to accelerations; here they are separate, with a tolerance each. Loops are eliminated first
(L2861): H^-1 leaves out motions that they do not allow, and vd respects them. Accelerations of
joints without contact hold gravity as a force, so that the world is at rest.

C is positive semidefinite, and definite where normals are independent. Accelerations are unique,
forces need not be: those of least norm are returned, with the rank. There is no solution where
curvature lets bodies press on each other however large forces are (`certificate`).

Each solver is a file: `brute_force`, `pruned`, `heuristic`, `pivoting`. They find which contacts
carry force; `completed` computes forces, accelerations and modes from that.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.forward import METHODS
from tiburon.algorithms.kinematics import WORLD_PLACE, Place, body_motions
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.argument_checks import check_finite
from tiburon.arrays import ArrayLike, NDArray
from tiburon.contact.candidates import Candidate, parameter_count
from tiburon.contact.certificate import RANK_CUT
from tiburon.contact.rigid import Compliance, compliance_of
from tiburon.contact.rows import (
    ContactRow,
    PointRows,
    along,
    contact_geometry,
    contact_rows,
    in_frame,
    part_place,
)
from tiburon.errors import DomainError, ShapeError
from tiburon.loops.constraints import Switches
from tiburon.loops.methods import constrained_motion
from tiburon.loops.metric import MIN_CUT
from tiburon.model import Plan
from tiburon.model.contact_kinds import nonnegative_least_squares
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import (
    ZERO3,
    Mat3,
    add_cross,
    cross,
    dot,
    matrix_vector,
    subtract,
    transpose,
)
from tiburon.trace.derivative import values_and_tangents

Array = NDArray[np.float64]

MODES = ("separated", "breaking", "remaining", "inactive")
"""States of a contact (Featherstone 1987, section 9.6.1): it has separated; it touches and its
normal acceleration separates it; it carries force; it touches without force."""

RELATIVE_TOLERANCE = 1e-9
"""Default tolerances of forces and accelerations, relative to the largest."""


# -- from a robot to C and d ----------------------------------------------------------------------


class ContactAccelerations(NamedTuple):
    """How contact points of a robot accelerate, as a function of contact forces.

    Three rows per point: two tangents, then the normal. With forces p on the second bodies, in the
    same rows, relative accelerations are A A^T p + free.
    """

    points: list[PointRows]
    """Geometry, axes and Jacobian of each contact point."""

    velocity: list[Scalar]
    """Relative velocity J v [m/s]."""

    free: list[Scalar]
    """Relative acceleration without contact forces [m/s^2]: for normals the second derivative of
    the gap, for tangents that of the relative velocity of the bodies where they touch."""

    compliance: Compliance
    """A = J H^-1/2 as sparse rows; H^-1 J^T p is its response to A^T p."""

    terms: list[Scalar]
    """Sum of the magnitudes of the terms of `free` [m/s^2]: its rounding is in proportion to them,
    and all that is left of bodies that fall together."""


def free_acceleration(
    setting: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    switches: Switches | None = None,
) -> tuple[Scalar, ...]:
    """Compute joint accelerations without contact, with loops closed.

    Args:
        setting: The robot and its surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        switches: Which loops are closed; all by default.
    """
    if setting.model.loops:
        return constrained_motion(setting, q, v, tau, switches=switches).vd
    method = METHODS["articulated"]
    return method(setting.plan, q, v, tau, setting.gravity, setting.external)


def contact_accelerations(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar],
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
    loops: Sequence[ContactRow] = (),
    cut: Scalar = MIN_CUT,
) -> ContactAccelerations:
    """Compute the acceleration problem of all contact points, touching or not (9.43-9.53).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration without contact, with loops closed [m/s^2 or rad/s^2], nv scalars.
        candidates: The shapes that may touch.
        p: Their run-time parameters.
        loops: Jacobian of the loop constraints.
        cut: Length, relative to the longest, below which a loop constraint is redundant.
    """
    points = contact_rows(plan, q, candidates, p)
    bias, bias_terms = _velocity_products(plan, q, v, candidates, p, points)
    rows = [row for point in points for row in point.rows]
    magnitudes = [np.abs(x) for x in vd]
    return ContactAccelerations(
        points,
        [x for point in points for x in point.velocity(v)],
        [along(row, vd) + u for row, u in zip(rows, bias, strict=True)],
        compliance_of(plan, q, points, loops, cut),
        [
            along({i: np.abs(x) for i, x in row.items()}, magnitudes) + u
            for row, u in zip(rows, bias_terms, strict=True)
        ],
    )


class _BodyMotion(NamedTuple):
    """Motion of a body without joint accelerations, world axes."""

    place: Place
    angular: Vec3
    """Angular velocity [rad/s]."""
    linear: Vec3
    """Velocity of its origin [m/s]."""
    angular_rate: Vec3
    """Angular acceleration [rad/s^2]."""
    linear_rate: Vec3
    """Spatial acceleration at its origin: of the velocity at that fixed point [m/s^2]."""

    def velocity(self, point: Vec3) -> Vec3:
        """Return the velocity of the body at a point [m/s]."""
        return add_cross(self.linear, self.angular, subtract(point, self.place.p))

    def rate(self, point: Vec3, point_rate: Vec3) -> Vec3:
        """Return the rate of the velocity of the body at a moving point [m/s^2]."""
        fixed = add_cross(self.linear_rate, self.angular_rate, subtract(point, self.place.p))
        return add_cross(fixed, self.angular, point_rate)


_AT_REST = _BodyMotion(WORLD_PLACE, ZERO3, ZERO3, ZERO3, ZERO3)


def _velocity_products(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
    points: Sequence[PointRows],
) -> tuple[list[Scalar], list[Scalar]]:
    """Compute u: relative accelerations at zero joint acceleration, three per contact point.

    The point where bodies touch moves over both, and the normal turns. Their rates are derivatives
    of the geometry along the motion of the shapes; curvature enters through them (see also
    `normal_rate`). For bodies that roll, the rate of the velocity at the moving point is zero
    while that of material points is not.

    Returns:
        The accelerations, and the sums of the magnitudes of their terms [m/s^2].
    """
    position = JointVector(q)
    places = contact_geometry(plan, q, candidates, p)[1]
    motions = body_motions(plan, position, JointVector(v), None)

    def motion(name: str) -> _BodyMotion:
        body = plan.frame(name).body
        if body == WORLD_BODY:
            return _AT_REST
        R = places[body].R
        (w, pd), (wd, a) = ((part.angular, part.linear) for part in motions[body])
        return _BodyMotion(places[body], *(matrix_vector(R, x) for x in (w, pd, wd, a)))

    found: list[Scalar] = []
    terms: list[Scalar] = []
    start = 0
    remaining = iter(points)
    handle = p[parameter_count(candidates) :]
    for candidate in candidates:
        own = p[start : start + len(candidate.parameters())]
        start += len(own)
        first, second = (motion(part.body) for part in (candidate.first, candidate.second))
        for point_rate, normal_rate in _geometry_rates(
            plan, places, candidate, (own, handle), first, second
        ):
            rows = next(remaining)
            x = rows.geometry.point
            rates = second.rate(x, point_rate), first.rate(x, point_rate)
            velocity = subtract(second.velocity(x), first.velocity(x))
            one, two, normal = in_frame(rows, subtract(*rates))
            turning = dot(normal_rate, velocity)
            found += [one, two, normal + turning]
            a, b, c = (
                np.abs(x) + np.abs(y)
                for x, y in zip(*(in_frame(rows, rate) for rate in rates), strict=True)
            )
            terms += [a, b, c + np.abs(turning)]
    return found, terms


def _geometry_rates(
    plan: Plan,
    places: Sequence[Place],
    candidate: Candidate,
    numbers: tuple[Sequence[Scalar], Sequence[Scalar]],
    first: _BodyMotion,
    second: _BodyMotion,
) -> list[tuple[Vec3, Vec3]]:
    """Compute the velocities of contact points and normals of two moving shapes [m/s, 1/s]."""
    arguments: list[Scalar] = []
    rates: list[Scalar] = []
    for part, moving in ((candidate.first, first), (candidate.second, second)):
        place = part_place(plan, places, part)
        turning = transpose(
            tuple(cross(moving.angular, column) for column in transpose(place.R))  # type: ignore[arg-type]
        )
        for R, position in ((place.R, place.p), (turning, moving.velocity(place.p))):
            into = arguments if R is place.R else rates
            into += [*R[0], *R[1], *R[2], *position]

    def geometry(x: list[Scalar]) -> tuple[list[Scalar], list[list[Scalar]]]:
        poses = [_pose(x[:12]), _pose(x[12:])]
        found = candidate.geometry(poses, *numbers)
        return [y for one in found for y in (*one.point, *one.normal)], [rates]

    _, (tangents,) = values_and_tangents(geometry, arguments)
    return [
        (
            (tangents[k], tangents[k + 1], tangents[k + 2]),
            (tangents[k + 3], tangents[k + 4], tangents[k + 5]),
        )
        for k in range(0, len(tangents), 6)
    ]


def _pose(x: Sequence[Scalar]) -> tuple[Mat3, Vec3]:
    R = ((x[0], x[1], x[2]), (x[3], x[4], x[5]), (x[6], x[7], x[8]))
    return R, (x[9], x[10], x[11])


# -- solutions ------------------------------------------------------------------------------------


class Tolerances(NamedTuple):
    """When forces and accelerations count as zero."""

    force: float
    """[N], or [N s] for impulses."""

    acceleration: float
    """[m/s^2], or [m/s] for impulses."""


class ContactForces(NamedTuple):
    """Solution of a contact problem without friction."""

    forces: Array
    """Normal force of each contact [N]; of least norm where forces are not unique."""

    accelerations: Array
    """Relative normal acceleration of each contact [m/s^2]."""

    modes: tuple[str, ...]
    """Mode of each contact, one of `MODES`."""

    rank: int
    """Rank of C over the contacts that do not break: as many combinations of forces are unique."""

    is_unique: bool
    """Whether there is only one choice of forces."""

    patterns: int
    """Patterns of contacts that the solver has tried; pivots for `pivoting`."""

    residual: float
    """Largest |min(C_ii f_i, w_i)|, relative to the largest |d_i|."""


def checked_problem(C: ArrayLike, d: ArrayLike) -> tuple[Array, Array]:
    """Return C and d as arrays.

    Raises:
        ShapeError: If they are not a square matrix and a vector that fits.
        NonFiniteError: If an entry is not finite.
        DomainError: If C is not symmetric.
    """
    matrix, vector = np.asarray(C, dtype=np.float64), np.asarray(d, dtype=np.float64)
    count = len(vector) if vector.ndim == 1 else -1
    if matrix.shape != (count, count):
        raise ShapeError(
            "C", f"{count} x {count}, as d has {count} entries", " x ".join(map(str, matrix.shape))
        )
    for name, array in (("C", matrix), ("d", vector)):
        check_finite(name, array)
    size = float(np.abs(matrix).max(initial=0.0))
    if float(np.abs(matrix - matrix.T).max(initial=0.0)) > 1e-9 * size:
        raise DomainError("C", "a symmetric matrix", "one that is not", advice="use C = F^T H^-1 F")
    return 0.5 * (matrix + matrix.T), vector


def smallest_eigenvalue(C: Array) -> float:
    """Return the smallest eigenvalue of a matrix scaled to a unit diagonal.

    1 for an empty matrix, 0 if an entry of the diagonal is not positive.
    """
    diagonal = np.diag(C)
    if not np.all(diagonal > 0.0):
        return 0.0
    scale = 1.0 / np.sqrt(diagonal)
    return float(np.linalg.eigvalsh(C * np.outer(scale, scale)).min(initial=1.0))


def tolerances_for(
    C: Array, d: Array, forces: Array | None = None, given: Tolerances | None = None
) -> Tolerances:
    """Return tolerances: given ones, or `RELATIVE_TOLERANCE` of the largest values."""
    if given is not None:
        return given
    largest = float(np.abs(d).max(initial=0.0))
    if forces is None:
        stiffest = float(np.diag(C).max(initial=0.0))
        force = largest / stiffest if stiffest > 0.0 else 0.0
    else:
        force = float(np.abs(forces).max(initial=0.0))
    return Tolerances(RELATIVE_TOLERANCE * force, RELATIVE_TOLERANCE * largest)


def is_solution(C: Array, d: Array, forces: Array, tolerances: Tolerances) -> bool:
    """Return whether forces satisfy all conditions, each within its own tolerance."""
    w = C @ forces + d
    return bool(
        np.all(forces >= -tolerances.force)
        and np.all(w >= -tolerances.acceleration)
        and np.all((np.abs(forces) <= tolerances.force) | (np.abs(w) <= tolerances.acceleration))
    )


def contact_modes(
    forces: Array,
    accelerations: Array,
    tolerances: Tolerances,
    velocities: Array | None = None,
    velocity_tolerance: float = 0.0,
) -> tuple[str, ...]:
    """Return the mode of each contact, one of `MODES`.

    Args:
        forces: Normal forces [N].
        accelerations: Relative normal accelerations [m/s^2].
        tolerances: When they count as zero.
        velocities: Relative normal velocities [m/s]; zero by default.
        velocity_tolerance: Velocity up to which a contact has not separated [m/s].
    """
    speeds = np.zeros_like(forces) if velocities is None else velocities
    return tuple(
        "separated"
        if speed > velocity_tolerance
        else "remaining"
        if force > tolerances.force
        else "breaking"
        if acceleration > tolerances.acceleration
        else "inactive"
        for force, acceleration, speed in zip(forces, accelerations, speeds, strict=True)
    )


def completed(
    C: Array, d: Array, support: Sequence[int], patterns: int, given: Tolerances | None = None
) -> ContactForces:
    """Compute forces, accelerations and modes from the contacts that may carry force.

    Args:
        C: Inverse inertia at the contacts [1/kg].
        d: Relative normal accelerations without contact forces [m/s^2].
        support: Contacts with non-zero forces in one solution; others may be among them.
        patterns: Patterns that were tried to find them.
        given: Tolerances; relative ones by default.
    """
    count = len(d)
    forces = np.zeros(count)
    carried = np.array(sorted(support), dtype=np.intp)
    if len(carried):
        forces[carried] = _least_squares(C[np.ix_(carried, carried)], -d[carried])
    tolerances = tolerances_for(C, d, forces, given)
    w = C @ forces + d
    active = np.flatnonzero((np.abs(w) <= tolerances.acceleration) | np.isin(range(count), carried))
    forces = np.zeros(count)
    rank, is_unique = 0, True
    if len(active):
        found = _least_forces(C[np.ix_(active, active)], -d[active], tolerances.force)
        forces[active], rank, is_unique = found
    w = C @ forces + d
    largest = float(np.abs(d).max(initial=0.0))
    error = float(np.abs(np.minimum(np.diag(C) * forces, w)).max(initial=0.0))
    return ContactForces(
        forces,
        w,
        contact_modes(forces, w, tolerances),
        rank,
        is_unique,
        patterns,
        error / largest if largest > 0.0 else error,
    )


def _spectrum(C: Array) -> tuple[Array, Array, Array]:
    """Return a scaling to unit diagonal, eigenvalues and eigenvectors of the scaled matrix."""
    diagonal = np.diag(C)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    values, vectors = np.linalg.eigh(C * np.outer(scale, scale))
    return scale, values, vectors


def _least_squares(C: Array, b: Array) -> Array:
    """Return a solution of C x = b for a positive semidefinite matrix."""
    scale, values, vectors = _spectrum(C)
    kept = values > RANK_CUT * max(1.0, float(values.max(initial=0.0)))
    V = vectors[:, kept]
    x: Array = scale * (V @ ((V.T @ (scale * b)) / values[kept]))
    # one step of refinement
    x = x + scale * (V @ ((V.T @ (scale * (b - C @ x))) / values[kept]))
    return x


def _least_forces(C: Array, b: Array, tolerance: float) -> tuple[Array, int, bool]:
    """Return the non-negative solution of C f = b of least norm, the rank, and if it is unique."""
    count = len(b)
    scale, values, vectors = _spectrum(C)
    kept = values > RANK_CUT * max(1.0, float(values.max(initial=0.0)))
    rank = int(kept.sum())
    f = _least_squares(C, b)
    if rank == count:
        return np.where(f > 0.0, f, 0.0), rank, True
    # null space of C: scaled null vectors, and contacts without any normal
    null = scale[:, None] * vectors[:, ~kept]
    null = np.where((scale == 0.0)[:, None], vectors[:, ~kept], null)
    N = np.linalg.qr(null)[0]
    f = f - N @ (N.T @ f)
    size = float(np.abs(f).max(initial=0.0))
    if size > 0.0 and float(f.min()) < -tolerance:
        # least distance problem min |z| with N z >= -f (Lawson and Hanson 1974, chapter 23)
        E = np.vstack([N.T, -f[None, :] / size])
        target = np.zeros(len(E))
        target[-1] = 1.0
        r = E @ nonnegative_least_squares(E, target) - target
        f = f + N @ (-size * r[:-1] / r[-1])
    f = np.where(f > tolerance, f, 0.0)
    return f, rank, _is_only_choice(N, f <= tolerance)


def _is_only_choice(N: Array, zero: NDArray[np.bool_]) -> bool:
    """Return whether no combination of null vectors keeps zero forces non-negative.

    By Stiemke's theorem that is so where N restricted to zero forces has independent columns and
    some positive combination of its rows is zero.
    """
    rows = N[zero]
    if len(rows) < N.shape[1] or np.linalg.matrix_rank(rows, tol=1e-9) < N.shape[1]:
        return False
    total = rows.sum(axis=0)
    x = nonnegative_least_squares(rows.T, -total)
    return float(np.linalg.norm(rows.T @ x + total)) <= 1e-9
