"""Infeasible load-sharing problems: constraints are violated level by level.

Constraints have levels. Those of no level hold. Of the others the last level has the highest
priority: the sum of squares of its violations is minimized first; with that fixed, the level before
it, and so on. Forces that no level determines minimize the objective (lexicographic least squares).

Symbols:
    s       violations of a level, with weights D: missing generalized forces, exceeded limits
    x       forces
    w       sizes of friction cones, |x_t| <= w with w = mu x_n, larger where they are not in use
    y, z    multipliers of rows, and forces of cones in the optimality conditions of a level
    h       diagonal elements of the level's Hessian over x; where one x is meant, the largest

A level need not determine all forces, and a quadratic program needs a definite objective. Proximal
steps,

    minimize s^T D s / 2 + (x - x_k)^T E (x - x_k) / 2,     E = eps diag(h),   eps small,

converge to an optimum of the level itself, by a factor of about eps each (Rockafellar 1976,
SIAM Journal on Control and Optimization 14). The first finds the active cones. The next replace
these by tangent planes in the direction u of the force, with the curvature of the cone,

    mu x_n - u . x_t >= 0,     |z| / |x_t| (tau . x_t)^2 / 2 added to the objective,

as in Newton's method; u is that of z, which the violations determine well even where they do not
determine the forces.

All optima of a level have the same violations, and satisfy the rows with y > 0 as equations; the
force of a cone with z != 0 lies on the ray of the cone that is orthogonal to z, or vanishes if z is
inside the dual cone. Later levels therefore get equations: the curved boundary of a cone, along
which violations change by the square of a distance, never enters their solutions.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.contact.rows import ContactRow, along
from tiburon.load_sharing.problem import QuadraticProgram, dense
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.quadratic import OPTIMAL, QPSolution, solve_qp
from tiburon.trace.regions import function

RELAXED = 4.0
"""Status of a solution with violations."""

MOTION, DIRECTION = "motion", "direction"
"""Names of all equations: each may be violated, or all in proportion to their right-hand sides."""

FIRST_PROXIMAL = 1e-6
"""eps of the first step of a level."""

LATER_PROXIMAL = 1e-10
"""eps of the steps after it."""

STEPS = 6
"""Steps of a level after the first."""

MIN_TANGENTIAL_FORCE = 1e-3
"""Lower bound of the tangential force in curvatures, relative to the largest force."""

UNBOUNDED_CONE_SIZE = 1e3
"""Size of cones that are not in use, relative to the largest force."""

LEVEL_SLACK = 1e-9
"""Allowance for rounding in limits after a level, relative to the largest force."""

ACTIVE_MULTIPLIER = 1e-9
"""Multiplier relative to that of the whole load above which a constraint is active in all optima of
a level."""

MIN_DIRECTION_PART = 1e-4
"""Tangential part of z, relative to h and the largest force, from which the direction of a cone's
force is taken from it."""

MIN_LOADED_FORCE = 1e-3
"""Tangential force relative to the largest, below which the same holds."""

APEX_SPREAD = 0.999
"""Length of a sum of unit vectors relative to their number, below which a cone is at its apex."""

MIN_HESSIAN = 1e-12
"""Diagonal element of a Hessian relative to the largest, below which it counts as zero."""

MIN_DIVISOR = 1e-300

DETERMINED_WEIGHT = 1e-12
"""Weight of what equations determine, relative to that of a force."""


class Level(NamedTuple):
    """Constraints that are violated together."""

    equations: tuple[int, ...]
    limits: tuple[int, ...]
    """Inequalities, then cones, in one count."""

    proportional: bool = False
    """Whether all equations are violated in proportion to their right-hand sides."""


class _Face(NamedTuple):
    """Conditions that all optima of the levels so far satisfy, as values for the next level."""

    b1: list[Scalar]
    """Right-hand sides of the equations."""

    b2: list[Scalar]
    """Right-hand sides of the inequalities."""

    exceeded: list[Scalar]
    """By how much cones are exceeded."""

    rows: list[Scalar]
    """1 for each inequality that is an equation."""

    rays: list[Scalar]
    """1 for each cone whose force lies on a ray."""

    apexes: list[Scalar]
    """1 for each cone whose force vanishes."""

    u: list[list[Scalar]]
    """Directions of the rays."""


class _TangentPlanes(NamedTuple):
    """Tangent planes that replace active cones in a step."""

    on: list[Scalar]
    """1 for each cone that a plane replaces."""

    u: list[list[Scalar]]
    """Directions of tangency."""

    curvatures: list[Scalar]
    """Curvatures added to the objective, orthogonal to u."""


class _Optimum(NamedTuple):
    """Cones at the optimum of a step."""

    x: list[Scalar]
    """All variables."""

    active: list[Scalar]
    """1 for each active cone."""

    u: list[list[Scalar]]
    """Directions of tangential forces."""

    sizes: list[Scalar]
    """|z_t|."""

    forces: list[Scalar]
    """|x_t|."""

    pressures: list[Scalar]
    """Sums of the multipliers of all planes of a cone."""

    largest: Scalar
    """Largest force."""


class _Place(NamedTuple):
    """Indices of the variables of all stages."""

    forces: int
    """Number of forces."""

    sizes: list[int]
    """Place of w of each cone."""

    equations: dict[int, int]
    """Place of the violation, by equation."""

    limits: dict[int, int]
    """Place of the violation, by inequality and cone in one count."""

    common: int | None
    """Place of the common violation of all equations."""

    total: int


def relaxed(
    program: QuadraticProgram, levels: Sequence[Level], masses: Scalars, prefer: Scalars
) -> QPSolution:
    """Return the forces that violate as little as possible, level by level.

    Args:
        program: The problem; its pyramids count as limits.
        levels: What may be violated; the first level most.
        masses: Apparent mass of each equation: squares of what they lack count by its inverse.
        prefer: Multipliers of a similar problem, as for `solve_qp`.

    Returns:
        The solution, with the status `RELAXED`, or that of the first stage without solution.
        Multipliers are sums over all levels, divided by h, and the objective.
    """
    return _Relaxation(program, levels, masses, prefer).solution()


class _Relaxation:
    """A problem with levels, and its stages: one per level, then the objective."""

    def __init__(
        self, program: QuadraticProgram, levels: Sequence[Level], masses: Scalars, prefer: Scalars
    ) -> None:
        self.of, self.levels, self.prefer = program, levels, prefer
        self.rows = len(program.A2)
        self.place = _places(program, levels)
        self.D = self._weights(masses)
        self.level_of: dict[tuple[str, int], int] = {}
        for number, level in enumerate(levels):
            equations = range(len(program.b1)) if level.proportional else level.equations
            self.level_of |= {("equation", k): number for k in equations}
            self.level_of |= {("limit", k): number for k in level.limits}

    def _weights(self, masses: Scalars) -> dict[int, Scalar]:
        """Return the weight of each violation by its place."""
        of, place = self.of, self.place
        found: dict[int, Scalar] = {}
        self.inverse_masses = [1.0 / mass for mass in masses]
        for k, at in place.equations.items():
            found[at] = self.inverse_masses[k]
        for k, at in place.limits.items():
            found[at] = 1.0
            if k < self.rows:
                square = _sum([x * x for x in of.A2[k].values()])
                found[at] = np.where(square > 0.0, 1.0 / np.maximum(square, MIN_DIVISOR), 1.0)
        if place.common is not None:
            square = _sum([w * b * b for w, b in zip(self.inverse_masses, of.b1, strict=True)])
            found[place.common] = np.where(square > 0.0, square, 1.0)
        return found

    def _curvatures(self, level: Level) -> tuple[Scalar, list[Scalar]]:
        """Return the largest diagonal element of a level's Hessian, and that of each force.

        Forces on which the level does not depend get the largest one.
        """
        of, place = self.of, self.place
        sums: dict[int, Scalar] = {}
        rows = [
            (self.inverse_masses[k], of.A1[k])
            for k in (range(len(of.b1)) if level.proportional else level.equations)
        ]
        for k in level.limits:
            if k < self.rows:
                rows.append((self.D[place.limits[k]], of.A2[k]))
            else:
                i, j, _ = of.cones[k - self.rows]
                rows += [(1.0, {i: 1.0}), (1.0, {j: 1.0})]
        for weight, row in rows:
            for i, x in row.items():
                sums[i] = sums.get(i, 0.0) + weight * x * x
        largest: Scalar = 0.0
        for value in sums.values():
            largest = np.maximum(largest, value)
        largest = np.where(largest > 0.0, largest, 1.0)
        each = [sums.get(i, 0.0) for i in range(place.forces)]
        return largest, [np.where(x > MIN_HESSIAN * largest, x, largest) for x in each]

    def solution(self) -> QPSolution:
        of, place = self.of, self.place
        count = len(of.cones)
        none = [0.0] * count
        face = _Face(
            list(of.b1),
            list(of.b2),
            none,
            [0.0] * self.rows,
            none,
            none,
            [[0.0, 0.0] for _ in of.cones],
        )
        stage = function(self._stage)
        x: list[Scalar] = [0.0] * place.total
        prefer = list(self.prefer)
        status: Scalar = OPTIMAL
        total: list[Scalar] | None = None
        found: Any = None
        before = x
        iterations: Scalar = 0.0
        active: Scalar = 0.0
        # the most important level is the last one
        for number in (*reversed(range(len(self.levels))), -1):
            h, each = 1.0, [1.0] * place.forces
            if number >= 0:
                h, each = self._curvatures(self.levels[number])
            on_level = number >= 0
            tangent = _TangentPlanes([0.0] * count, [[0.0, 0.0] for _ in of.cones], [0.0] * count)
            for k in range(1 + STEPS if on_level else 1):
                eps = [(LATER_PROXIMAL if k else FIRST_PROXIMAL) * x for x in each]
                switches = self._switches(number)
                tried = stage(
                    0.0 if on_level else 1.0, eps, x, *switches, tuple(face), tuple(tangent), prefer
                )
                if k:
                    # rounding may contradict a later step: the one before it counts
                    tried, before = _chosen(tried[4] < 0.5, (tried, x), (found, before))
                else:
                    before = x
                found = tried
                x = list(found[0])
                status = np.where(status > OPTIMAL, status, found[4])
                iterations, active = iterations + found[5], found[6]
                prefer = [np.where(y > 0.0, 1.0, 0.0) for y in found[2]] + [0.0] * count
                if on_level:
                    optimum = self._optimum(number, h, eps, before, found, face)
                    tangent = _tangent_planes(optimum)
            pressed = [a + b for a, b in zip(found[3], found[7], strict=True)]
            y = [v / h for part in (found[1], found[2], pressed) for v in part]
            total = y if total is None else [a + b for a, b in zip(total, y, strict=True)]
            if number >= 0:
                face, x = self._next_face(number, h, optimum, found, face)
        assert total is not None
        equations, limits = len(of.b1), self.rows + count
        status = np.where(status > OPTIMAL, status, RELAXED)
        at, first = len(total) - limits, 3 * count + self.rows
        return QPSolution(
            as_traced(x[: place.forces]),
            as_traced(total[first : first + equations]),
            as_traced(total[at : at + self.rows]),
            as_traced(total[len(total) - count :]),
            status,
            iterations,
            active,
        )

    def _switches(self, number: int) -> tuple[list[float], list[float]]:
        """Return 1 for constraints that take part, and for those that may be violated, at a stage.

        Equations first, then inequalities and cones. Less important levels take no part.
        """
        keys = [("equation", k) for k in range(len(self.of.b1))]
        keys += [("limit", k) for k in range(self.rows + len(self.of.cones))]
        own = [self.level_of.get(key, len(self.levels)) for key in keys]
        return [float(k >= number) for k in own], [float(k == number) for k in own]

    def _equations(
        self, held: Scalars, open_: Scalars, face: _Face, lifts: Scalars
    ) -> tuple[list[ContactRow], list[Scalar]]:
        """Return the equations of a stage; those that do not take part are zero.

        Those of the face first: others may depend on them.
        """
        of, place = self.of, self.place
        m = len(of.b1)
        rows: list[ContactRow] = []
        right: list[Scalar] = []
        for k, (cone, u) in enumerate(zip(of.cones, face.u, strict=True)):
            ray = face.rays[k]
            for i in range(2):
                rows.append({cone[i]: ray, cone[2]: -ray * of.mu[k] * u[i]})
                right.append(ray * u[i] * face.exceeded[k])
            rows.append({cone[2]: face.apexes[k]})
            right.append(0.0)
        for row, b, on in zip(of.A2, face.b2, face.rows, strict=True):
            rows.append({i: on * x for i, x in row.items()})
            right.append(on * b)
        for k, (row, b) in enumerate(zip(of.A1, face.b1, strict=True)):
            found = {i: held[k] * x for i, x in row.items()}
            if k in place.equations:
                found[place.equations[k]] = open_[k]
            if place.common is not None:
                found[place.common] = open_[k] * of.b1[k]
            rows.append(found)
            right.append(held[k] * b)
        for k, at in enumerate(place.sizes):
            on = m + self.rows + k
            own = {at: held[on], of.cones[k][2]: -held[on] * of.mu[k]}
            if self.rows + k in place.limits:
                own[place.limits[self.rows + k]] = -open_[on]
            rows.append(own)
            right.append(held[on] * (face.exceeded[k] + lifts[k]))
        return rows, right

    def _stage(
        self,
        final: Scalar,
        eps: Scalars,
        center: Scalars,
        held: Scalars,
        open_: Scalars,
        given: Sequence[Any],
        planes: Sequence[Any],
        prefer: Scalars,
    ) -> tuple[Any, ...]:
        """Solve one stage: a proximal step of a level, or the objective where `final` is 1."""
        of, place = self.of, self.place
        face, tangent = _Face(*given), _TangentPlanes(*planes)
        near = [(1.0 - final) * x for x in eps]
        W: list[ContactRow] = [{} for _ in range(place.total)]
        c: list[Scalar] = [0.0] * place.total
        for i in range(place.forces):
            W[i] = {j: final * x for j, x in of.W[i].items()}
            W[i][i] = W[i].get(i, 0.0) + near[i]
            c[i] = final * of.c[i] - near[i] * center[i]
        # planes and rays replace cones
        far = UNBOUNDED_CONE_SIZE * self._largest(center)
        lifts = [far * np.maximum(a, b) for a, b in zip(face.rays, tangent.on, strict=True)]
        for k, at in enumerate(place.sizes):
            # equations determine them
            W[at] = {at: near[of.cones[k][2]] + final * DETERMINED_WEIGHT * of.W[0][0]}
            size = of.mu[k] * center[of.cones[k][2]] + face.exceeded[k] + lifts[k]
            c[at] = -W[at][at] * size
        for at, weight in self.D.items():
            W[at] = {at: weight}
        A1, b1 = self._equations(held, open_, face, lifts)
        m = len(of.b1)
        A2: list[ContactRow] = []
        b2: list[Scalar] = []
        for k, (row, b) in enumerate(zip(of.A2, face.b2, strict=True)):
            # rows that are equations, or do not take part, are not inequalities
            on = held[m + k] * (1.0 - face.rows[k])
            own = {i: on * x for i, x in row.items()}
            if k in place.limits:
                own[place.limits[k]] = on * open_[m + k]
            A2.append(own)
            b2.append(on * b)
        for k, (i, j, normal) in enumerate(of.cones):
            on, (a, b), curvature = tangent.on[k], tangent.u[k], tangent.curvatures[k]
            plane = {i: -on * a, j: -on * b, normal: on * of.mu[k]}
            if self.rows + k in place.limits:
                plane[place.limits[self.rows + k]] = on * open_[m + self.rows + k]
            A2.append(plane)
            b2.append(-on * face.exceeded[k])
            for first, second, x in ((i, i, b * b), (i, j, -a * b), (j, i, -a * b), (j, j, a * a)):
                W[first][second] = W[first].get(second, 0.0) + curvature * x
        if place.common is not None:
            A2 += [{place.common: 1.0}, {place.common: -1.0}]
            b2 += [0.0, -1.0]
        found = solve_qp(
            dense(W, place.total),
            as_traced(c),
            dense(A1, place.total) if A1 else None,
            as_traced(b1) if A1 else None,
            dense(A2, place.total) if A2 else None,
            as_traced(b2) if A2 else None,
            cones=[(i, j, at) for (i, j, _), at in zip(of.cones, place.sizes, strict=True)],
            mu=[1.0] * len(of.cones),
            prefer=as_traced(
                [*prefer[: self.rows], *([0.0] * (len(A2) - self.rows)), *prefer[self.rows :]]
            ),
        )
        return (
            list(found.x),
            list(found.equation_multipliers),
            list(found.inequality_multipliers)[: self.rows],
            list(found.cone_multipliers),
            found.status,
            found.iterations,
            found.active,
            list(found.inequality_multipliers)[self.rows : self.rows + len(of.cones)],
        )

    def _optimum(
        self,
        number: int,
        h: Scalar,
        eps: Scalars,
        center: Scalars,
        found: Sequence[Any],
        face: _Face,
    ) -> _Optimum:
        """Return the forces of the cones at the optimum of a step, and which are active."""
        of = self.of
        x, y1, y2, yc = (list(part) for part in found[:4])
        held, open_ = self._switches(number)
        m = len(of.b1)
        largest = self._largest(x)
        # residual of the optimality conditions
        z = [e * (a - b) for e, a, b in zip(eps, x, center, strict=False)]
        z += [0.0] * (len(x) - len(z))
        equations, _ = self._equations(held, open_, face, [0.0] * len(of.cones))
        for row, y in zip(equations, y1, strict=True):
            for i, a in row.items():
                z[i] = z[i] - a * y
        for k, (row, y) in enumerate(zip(of.A2, y2, strict=True)):
            for i, a in row.items():
                z[i] = z[i] - held[m + k] * (1.0 - face.rows[k]) * a * y
        active, sizes, forces = [], [], []
        for k, (i, j, _) in enumerate(of.cones):
            taking = held[m + self.rows + k] * (1.0 - face.rays[k])
            pressed = yc[k] + found[7][k]
            active.append(np.where(pressed > ACTIVE_MULTIPLIER * h * largest, taking, 0.0))
            sizes.append(np.sqrt(z[i] * z[i] + z[j] * z[j]))
            forces.append(np.sqrt(x[i] * x[i] + x[j] * x[j]))
        directions = []
        for k, cone in enumerate(of.cones):
            by_z = (sizes[k] > MIN_DIRECTION_PART * h * largest) | (
                forces[k] < MIN_LOADED_FORCE * largest
            )
            directions.append(
                [
                    np.where(
                        by_z,
                        -z[i] / np.maximum(sizes[k], MIN_DIVISOR),
                        x[i] / np.maximum(forces[k], MIN_DIVISOR),
                    )
                    for i in cone[:2]
                ]
            )
        pressures = [a + b for a, b in zip(yc, found[7], strict=True)]
        return _Optimum(x, active, directions, sizes, forces, pressures, largest)

    def _largest(self, x: Scalars) -> Scalar:
        """Return the largest force."""
        largest: Scalar = 0.0
        for value in x[: self.place.forces]:
            largest = np.maximum(largest, np.abs(value))
        return largest

    def _next_face(
        self, number: int, h: Scalar, at: _Optimum, found: Sequence[Any], face: _Face
    ) -> tuple[_Face, list[Scalar]]:
        """Return the conditions of the following stages, and an optimum that satisfies them."""
        of, place = self.of, self.place
        x, y2 = list(at.x), found[2]
        held, _ = self._switches(number)
        m = len(of.b1)
        lengths = [np.sqrt(_sum([a * a for a in row.values()])) for row in of.A2]
        rows = []
        for k, length in enumerate(lengths):
            new = np.where(y2[k] * length > ACTIVE_MULTIPLIER * h * at.largest, held[m + k], 0.0)
            rows.append(np.maximum(face.rows[k], new))
        rays, apexes, u, exceeded = [], [], [], []
        for k, cone in enumerate(of.cones):
            new = at.active[k]
            vanishes = (at.sizes[k] < APEX_SPREAD * at.pressures[k]) & (
                at.forces[k] < MIN_LOADED_FORCE * at.largest
            )
            own = [np.where(new > 0.5, np.where(vanishes, 0.0, a), b)
                   for a, b in zip(at.u[k], face.u[k], strict=True)]  # fmt: skip
            rays.append(np.maximum(face.rays[k], new))
            apexes.append(np.maximum(face.apexes[k], np.where(vanishes, new, 0.0)))
            u.append(own)
            x[cone[2]] = np.where(apexes[k] > 0.5, 0.0, x[cone[2]])
            extra = place.limits.get(self.rows + k)
            over = face.exceeded[k]
            if extra is not None and held[m + self.rows + k]:
                over = over + x[extra]
            exceeded.append(over)
            for i in range(2):
                on_ray = own[i] * (of.mu[k] * x[cone[2]] + over)
                x[cone[i]] = np.where(rays[k] > 0.5, on_ray, x[cone[i]])
        # right-hand sides that this optimum satisfies to rounding
        b1 = [
            along(row, x) if taking else b
            for row, b, taking in zip(of.A1, face.b1, held, strict=False)
        ]
        b2 = []
        for k, row in enumerate(of.A2):
            here = along(row, x)
            room = LEVEL_SLACK * lengths[k] * at.largest
            kept = np.where(rows[k] > 0.5, here, np.minimum(face.b2[k], here - room))
            b2.append(kept if held[m + k] else face.b2[k])
        return _Face(b1, b2, exceeded, rows, rays, apexes, u), x


def _tangent_planes(at: _Optimum) -> _TangentPlanes:
    """Return planes and curvatures of the active cones for the next step of a level."""
    curvatures = [
        on * size / np.maximum(force, MIN_TANGENTIAL_FORCE * at.largest + MIN_DIVISOR)
        for on, size, force in zip(at.active, at.sizes, at.forces, strict=True)
    ]
    return _TangentPlanes(at.active, at.u, curvatures)


def _places(program: QuadraticProgram, levels: Sequence[Level]) -> _Place:
    """Return the places of the variables: forces, sizes of cones, violations."""
    forces = len(program.c)
    limits = sorted(k for level in levels for k in level.limits)
    equations = sorted(k for level in levels for k in level.equations)
    at = forces + len(program.cones)
    sizes = list(range(forces, at))
    by_equation = {k: at + i for i, k in enumerate(equations)}
    at += len(equations)
    by_limit = {k: at + i for i, k in enumerate(limits)}
    at += len(limits)
    common = None
    if any(level.proportional for level in levels):
        common, at = at, at + 1
    return _Place(forces, sizes, by_equation, by_limit, common, at)


def _chosen(condition: Any, new: Any, old: Any) -> Any:
    """Return one of two equal structures of values."""
    if isinstance(new, (tuple, list)):
        return [_chosen(condition, a, b) for a, b in zip(new, old, strict=True)]
    return np.where(condition, new, old)


def _sum(values: Scalars) -> Scalar:
    total: Scalar = 0.0
    for value in values:
        total = total + value
    return total
