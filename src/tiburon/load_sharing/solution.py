"""Solution of a load-sharing problem: the quadratic program, forces and margins.

Objectives that do not determine all forces are completed by two small terms, in this order: the
least torque norm, then the least forces; and by the squares of the equations' residuals, which are
zero on all solutions.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.contact.rows import ContactRow, along, in_world
from tiburon.load_sharing.limits.contact import LARGEST, FrictionCone, FrictionPyramid
from tiburon.load_sharing.limits.limit import Limit, RunTime
from tiburon.load_sharing.limits.step import StepLimit
from tiburon.load_sharing.limits.torque import TorqueLimit
from tiburon.load_sharing.objectives.objective import Objective, Square, squares_of
from tiburon.load_sharing.objectives.torque_norm import TorqueNorm
from tiburon.load_sharing.problem import (
    Layout,
    Problem,
    Pyramids,
    QuadraticProgram,
    dense,
)
from tiburon.load_sharing.relaxation import DIRECTION, MOTION, Level, relaxed
from tiburon.model import Model
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.quadratic import NOT_CONVEX, OPTIMAL, QPSolution, solve_qp
from tiburon.trace.regions import where_needed

AT_LIMITS = 5.0
"""Status of a solution with active limits."""

TORQUE_TIE, FORCE_TIE = 1e-7, 1e-12
"""Weights of the least torque norm and of the least forces relative to the objective, where that is
not definite. Rounding of the objective, some 1e-16 of it, disturbs the first by 1e-9 and the second
by 1e-4."""


class Limits(NamedTuple):
    """Which limits a problem has, in the order of their rows; cones come last."""

    parts: tuple[Limit, ...]
    """The limits."""

    relax: tuple[tuple[str, ...], ...] = ()
    """Names of what may be violated where there is no solution, level by level, the first level
    most; see `levels_of`."""

    @property
    def sides(self) -> int | None:
        """Sides of friction pyramids; None for exact cones."""
        found = [part.sides for part in self.parts if isinstance(part, FrictionPyramid)]
        return found[0] if found else None

    @property
    def torques(self) -> tuple[int, ...]:
        """Driven velocity variables with limits."""
        return () if self.torque is None else self.torque.indices

    @property
    def torque(self) -> TorqueLimit | None:
        """The limit of driven joint forces."""
        found = [part for part in self.parts if isinstance(part, TorqueLimit)]
        return found[0] if found else None

    @property
    def steps(self) -> str | None:
        """What may change by a bounded amount from step to step: "forces", "torques" or None."""
        found = [part.what for part in self.parts if isinstance(part, StepLimit)]
        return found[0] if found else None

    def form(self) -> "Limits":
        """Return the limits with neutral run-time parameters: what code depends on."""
        return self._replace(parts=tuple(part.form() for part in self.parts))

    def with_pyramids(self, sides: int, *, inscribed: bool) -> "Limits":
        """Return the same limits with pyramids in place of exact cones."""
        pyramid = FrictionPyramid(sides, inscribed)
        rest = tuple(part for part in self.parts if not isinstance(part, FrictionCone))
        cone = ": friction cone"
        levels = tuple(
            tuple(
                side
                for name in level
                for side in (
                    [f"{name.removesuffix(cone)}: friction side {k}" for k in range(sides)]
                    if name.endswith(cone)
                    else [name]
                )
            )
            for level in self.relax
        )
        return self._replace(parts=(rest[0], pyramid, *rest[1:]), relax=levels)

    def with_steps(self, what: str | None) -> "Limits":
        """Return the same limits with bounded changes of "forces" or "torques", or with none."""
        rest = [part for part in self.parts if not isinstance(part, StepLimit)]
        if what is not None:
            end = len(rest) - sum(isinstance(part, FrictionCone) for part in rest)
            rest.insert(end, StepLimit(what))
        return self._replace(parts=tuple(rest))

    def parameters(self, model: Model, layout: Layout) -> tuple[float, ...]:
        """Return the run-time parameters of all limits."""
        return tuple(x for part in self.parts for x in part.parameters(model, layout))

    def own(self, model: Model, layout: Layout, p: Scalars) -> list[tuple[Limit, Scalars]]:
        """Return each limit with its run-time parameters."""
        found: list[tuple[Limit, Scalars]] = []
        at = 0
        for part in self.parts:
            count = len(part.parameters(model, layout))
            found.append((part, p[at : at + count]))
            at += count
        return found


def row_names(model: Model, layout: Layout, limits: Limits) -> tuple[str, ...]:
    """Return the names of the inequalities, cones last."""
    return tuple(name for part in limits.parts for name in part.names(model, layout))


def levels_of(model: Model, layout: Layout, limits: Limits) -> tuple[Level, ...]:
    """Return which equations and limits may be violated, level by level.

    Names are those of equations, of limits or of their elements, `MOTION` for all equations or
    `DIRECTION` for all of them in proportion. What is named twice belongs to the first level.
    """
    equations = [model.v_names[i] for i in layout.undriven]
    rows = row_names(model, layout, limits)
    elements = [name.partition(": ")[0] for name in rows]
    taken: set[tuple[str, int]] = set()
    found = []
    for names in limits.relax:
        own: dict[str, list[int]] = {"equation": [], "limit": []}
        for name in names:
            keys = [("equation", i) for i, x in enumerate(equations) if name in (MOTION, x)]
            keys += [("limit", i) for i, x in enumerate(rows) if name in (x, elements[i])]
            for key in keys:
                if key not in taken:
                    own[key[0]].append(key[1])
                    taken.add(key)
        found.append(Level(tuple(own["equation"]), tuple(own["limit"]), DIRECTION in names))
    return tuple(found)


def torque_bounds(
    problem: Problem, limits: Limits, p: Scalars, failed: Scalars
) -> list[tuple[Scalar, Scalar]]:
    """Return smallest and largest force of each limited joint in one state [N or N m]."""
    for part, own in limits.own(problem.model, problem.layout, p):
        if isinstance(part, TorqueLimit):
            return part.bounds(problem, own, failed)
    return []


def program_of(
    problem: Problem,
    objective: Objective,
    limits: Limits,
    p: Scalars,
    limit_values: Scalars,
    now: RunTime,
) -> QuadraticProgram:
    """Return a problem with its limits and objective as a quadratic program."""
    before = now.before
    layout = problem.layout
    problem = problem._replace(auxiliary=objective.auxiliary)
    n = problem.size
    W, c = _quadratic(squares_of(objective, problem, p, before), n)
    largest: Scalar = 0.0
    for i in range(n):
        largest = np.maximum(largest, W[i][i])
    if not objective.is_definite:
        largest = np.where(largest > 0.0, largest, 1.0)
        V, d = _quadratic(TorqueNorm().squares(problem, (), before), n)
        biggest: Scalar = 1e-300
        for i in range(n):
            biggest = np.maximum(biggest, V[i][i])
        weight = TORQUE_TIE * largest / biggest
        # joint wrenches among the unknowns are determined by equations
        least = FORCE_TIE if problem.system is None else FORCE_TIE * FORCE_TIE
        for i in range(n):
            _add(W, c, i, V[i], d[i], weight)
            W[i][i] = W[i].get(i, 0.0) + least * largest
        if problem.system is None:
            # zero on all solutions: what equations determine need not be determined by W
            V, d = _quadratic(_residuals(problem, largest), n)
            for i in range(n):
                _add(W, c, i, V[i], d[i], 1.0)
    # groups that do not touch stay at zero
    for k, group in enumerate(layout.groups):
        for i in group.places:
            W[i][i] = W[i][i] + (1.0 - problem.touching[k]) * largest
            c[i] = problem.touching[k] * c[i]
            for j in list(W[i]):
                if j != i and j in group.places:
                    W[i][j] = problem.touching[k] * W[i][j]
    rows: list[ContactRow] = []
    right: list[Scalar] = []
    pyramids = None
    for part, own in limits.own(problem.model, layout, limit_values):
        if isinstance(part, FrictionPyramid):
            pyramids = Pyramids(len(rows), part.sides, *part.pyramids(problem))
        for limit in part.rows(problem, own, now):
            rows.append(limit.row)
            right.append(limit.right)
    normals = [
        (k, group.normal) for k, group in enumerate(layout.groups) if group.normal is not None
    ]
    cones = normals if limits.sides is None else []
    return QuadraticProgram(
        W,
        c,
        *problem.equations,
        rows,
        right,
        [(normal - 2, normal - 1, normal) for _, normal in cones],
        [problem.friction[k] for k, _ in cones],
        pyramids,
    )


def matrices(program: QuadraticProgram) -> dict[str, Any]:
    """Return a quadratic program as dense arrays, by name."""
    n = len(program.c)
    return {
        "W": dense(program.W, n),
        "c": as_traced(program.c),
        "A1": dense(program.A1 or [{}], n),
        "b1": as_traced(program.b1 or [0.0]),
        "A2": dense(program.A2 or [{}], n),
        "b2": as_traced(program.b2 or [0.0]),
        "mu": as_traced(program.mu or [0.0]),
    }


def shared(
    problem: Problem,
    program: QuadraticProgram,
    limits: Limits,
    bounds: Sequence[tuple[Scalar, Scalar]],
    prefer: Scalars,
) -> dict[str, Any]:
    """Return the shared load by name; see `tiburon.functions.load_sharing.LoadShare`.

    Args:
        problem: The problem in one state.
        program: Its quadratic program.
        limits: Structure of the inequalities.
        bounds: Smallest and largest force of each limited joint [N or N m].
        prefer: Multipliers of the inequalities of the step before.
    """
    layout = problem.layout
    if limits.relax:
        found = _relaxed(problem, program, limits, prefer)
    else:
        found = _solved(problem, program, prefer)
    shortfall = [
        b - along(row, list(found.x)) for row, b in zip(program.A1, program.b1, strict=True)
    ]
    x = list(found.x)[: layout.size]
    tau: list[Scalar] = [0.0] * len(problem.needed)
    for index in layout.driven:
        row, offset = problem.torque(index)
        tau[index] = offset + along(row, x)
    forces = [
        in_world(point, [-y for y in x[group.first : group.first + 3]])
        for point, group in zip(problem.points, layout.groups, strict=False)
    ]
    margins = []
    for k, group in enumerate(layout.groups):
        if group.normal is None:
            continue
        t1, t2, normal = x[group.normal - 2 : group.normal + 1]
        margins.append(problem.friction[k] * normal - np.sqrt(t1 * t1 + t2 * t2))
    # rows that define an unknown of the objective are no limits
    active = found.active
    for k, name in enumerate(row_names(problem.model, layout, limits)):
        if name.startswith(f"{LARGEST}: "):
            active = active - np.where(found.inequality_multipliers[k] > 0.0, 1.0, 0.0)
    spare = []
    for index, (low, high) in zip(limits.torques, bounds, strict=True):
        spare.append(np.minimum(tau[index] - low, high - tau[index]))
    return {
        "tau": as_traced(tau),
        "x": as_traced(x),
        "forces": as_traced(forces or [0.0]),
        "friction_margins": as_traced(margins or [0.0]),
        "torque_margins": as_traced(spare or [0.0]),
        "torque_bounds": as_traced([list(pair) for pair in bounds] or [0.0]),
        "multipliers": as_traced([*found.inequality_multipliers, *found.cone_multipliers] or [0.0]),
        "equation_multipliers": as_traced(list(found.equation_multipliers) or [0.0]),
        "shortfall": as_traced(shortfall or [0.0]),
        "status": np.where((found.status < 0.5) & (active > 0.5), AT_LIMITS, found.status),
        "iterations": found.iterations,
        "slacks": as_traced(_slacks(program, list(found.x)) or [0.0]),
    }


def _slacks(program: QuadraticProgram, x: Scalars) -> list[Scalar]:
    """Return by how much each limit is kept: A2 x - b2, and mu x_n - |x_t| of cones.

    Sides of pyramids that the solver finds itself are left out: forces determine them.
    """
    found = [along(row, x) - b for row, b in zip(program.A2, program.b2, strict=True)]
    if program.pyramids is not None:
        del found[program.pyramids.first : program.pyramids.first + program.pyramids.total]
    for (i, j, normal), mu in zip(program.cones, program.mu, strict=True):
        found.append(mu * x[normal] - np.sqrt(x[i] * x[i] + x[j] * x[j]))
    return found


def _solved(problem: Problem, program: QuadraticProgram, prefer: Scalars) -> QPSolution:
    """Solve a program."""
    n = len(program.c)
    pyramids = program.pyramids
    A2, b2, hints = list(program.A2), list(program.b2), list(prefer)
    cones, mu = program.cones, program.mu
    if pyramids is not None:
        # the solver finds the most violated side of a pyramid itself
        own = slice(pyramids.first, pyramids.first + pyramids.total)
        hints = [*hints[: own.start], *hints[own.stop :], *hints[own]]
        del A2[own], b2[own]
        cones, mu = pyramids.places, pyramids.mu
    found = solve_qp(
        dense(program.W, n),
        as_traced(program.c),
        dense(program.A1, n) if program.A1 else None,
        as_traced(program.b1) if program.A1 else None,
        dense(A2, n) if A2 else None,
        as_traced(b2) if A2 else None,
        cones=cones,
        mu=as_traced(mu) if cones else (),
        prefer=as_traced(hints),
        sides=None if pyramids is None else pyramids.sides,
    )
    if pyramids is None:
        return found
    rows, first = list(found.inequality_multipliers), pyramids.first
    rows[first:first] = list(found.cone_multipliers)
    return found._replace(
        inequality_multipliers=as_traced(rows), cone_multipliers=found.cone_multipliers[:0]
    )


def _relaxed(
    problem: Problem, program: QuadraticProgram, limits: Limits, prefer: Scalars
) -> QPSolution:
    """Solve a program; where it has no solution, give up what the limits say, level by level.

    Missing generalized forces count by their squares over apparent masses: a unit of energy per
    time squared, whatever their units. The objective decides what that leaves open.
    """
    found = _solved(problem, program, prefer)
    levels = levels_of(problem.model, problem.layout, limits)

    def nearest() -> QPSolution:
        solution = relaxed(program, levels, problem.masses, prefer)
        # where what must hold contradicts itself, the Farkas vector of the whole problem stays
        none = (solution.status > OPTIMAL) & (solution.status < NOT_CONVEX)
        parts = zip(found, solution, strict=True)
        return QPSolution(*(_either(none, old, new) for old, new in parts))

    none = (found.status > OPTIMAL) & (found.status < NOT_CONVEX)
    chosen: QPSolution = where_needed(none, nearest, found)
    return chosen


def _either(condition: Any, yes: Any, no: Any) -> Any:
    """Return one of two values or rows of values."""
    return np.where(condition, yes, no) if np.size(yes) else yes


def _quadratic(squares: Sequence[Square], n: int) -> tuple[list[dict[int, Scalar]], list[Scalar]]:
    """Return W and c of a sum of squares; W by rows, without structural zeros."""
    W: list[dict[int, Scalar]] = [{i: 0.0} for i in range(n)]
    c: list[Scalar] = [0.0] * n
    for weight, row, offset in squares:
        for i, a in row.items():
            scaled = weight * a
            c[i] = c[i] + scaled * offset
            for j, b in row.items():
                W[i][j] = W[i].get(j, 0.0) + scaled * b
    return W, c


def _residuals(problem: Problem, weight: Scalar) -> list[Square]:
    """Return the squares of the residuals of the equations, each row scaled to length 1."""
    found = []
    for row, b in zip(*problem.equations, strict=True):
        size: Scalar = 0.0
        for x in row.values():
            size = size + x * x
        found.append(Square(np.where(size > 0.0, weight / np.maximum(size, 1e-300), 0.0), row, -b))
    return found


def _add(
    W: list[dict[int, Scalar]],
    c: list[Scalar],
    i: int,
    row: dict[int, Scalar],
    linear: Scalar,
    weight: Scalar,
) -> None:
    """Add a row of another quadratic function, with a weight."""
    for j, x in row.items():
        W[i][j] = W[i].get(j, 0.0) + weight * x
    c[i] = c[i] + weight * linear
