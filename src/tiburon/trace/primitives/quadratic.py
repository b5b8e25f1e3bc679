"""`solve_qp`: strictly convex quadratic programs, by the dual active set method.

    minimize    c^T x + x^T W x / 2
    subject to  A1 x = b1,  A2 x >= b2,  |x_t| <= mu x_n  for friction cones

Goldfarb and Idnani 1983, Mathematical Programming 27; Nahon 1991, section 5.4.2 (the prose: the
multiplier of an entering constraint accumulates over its partial steps, which the printed listing
misses). The method starts at the optimum without inequalities and adds violated ones; every
iterate is optimal for the constraints that are active. Effort grows with the number of active
constraints, not with that of all.

Symbols:
    W = L L^T   Cholesky factor
    N = L Q R   normals of the active constraints: Q orthonormal columns, R an upper triangle
    q           number of active constraints, the equations first
    a, b        the entering constraint a . x >= b, and s = b - a . x its violation
    d, p        Q^T L^-1 a, and L^-1 a - Q d, which is independent of the active constraints
    L^-T p, r   directions of x and, R^-1 d, of the multipliers

Q and R come from the orthogonalization of Gram and Schmidt, repeated where little is left of a
normal (Daniel, Gragg, Kaufman and Stewart 1976): both grow with the active constraints, where the
orthogonal transformations of the source (5.41), (5.42) change a whole matrix with each of them.

The exact friction cone is the limit of its tangent planes: where it is violated, the plane that
touches it in the direction of x_t enters as a constraint of its own. Constraints that differ little
in direction are independent as long as `DEPENDENT_SHARE` allows. Pyramids are treated likewise: the
most violated side is that in the direction of x_t, found by a few turns, and only active sides
count as constraints.

All cases of a batch run the same instructions. Parts that no case of a vector needs are skipped:
blocks of variables that the entering rows do not concern, columns that no case has, rotations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.errors import ShapeError
from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.primitives.primitive import (
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    Table,
    Truth,
    array_of,
    is_zero_row,
    nodes_of,
    numbers_of,
    shape_of,
    square_size,
)
from tiburon.trace.value import Value, where

OPTIMAL, INFEASIBLE, NOT_CONVEX, UNFINISHED = 0.0, 1.0, 2.0, 3.0
"""Values of the status: solved; no x satisfies the constraints; W is not positive definite; the
limit of iterations was reached."""

VIOLATION_TOLERANCE = 1e-12
"""Violation of a constraint relative to the terms of a . x - b, above which it enters."""

CONTRADICTION_TOLERANCE = 1e-9
"""Residual of an equation that depends on others, relative to its terms, above which no x
satisfies them all."""

CONE_VIOLATED = 1e-6
"""Violation of a friction cone relative to x_n, above which a tangent plane enters; steps of
Newton's method on the active cones do the rest."""

ROUNDING = 1e-13
"""Violation of a constraint relative to the largest component of x that counts as none."""

NEWTON_STEPS = 5
"""Most steps of Newton's method on active cones. Planes are off by an angle of 1e-3, the first step
by 1e-6, the second by 1e-12."""

TURN_TOLERANCE = 1e-8
"""Angle by which the force of a cone turns in a step, below which Newton's method ends: about its
square is left."""

FAILED_STEP_VIOLATION = 1e-2
"""Violation of a friction cone relative to its force, above which a step of Newton's method counts
as lost."""

MIN_CUT_SHARE = 0.25
"""Least share of the violation of a cone that a tangent plane cuts off."""

HINT_CUT = 0.9985
"""The same for a side that was active in a similar problem: one that is half a side of 64 off the
force would be replaced by its neighbor."""

NEGATIVE_MULTIPLIER = 1e-9
"""Multiplier relative to the largest, below whose negative a constraint does not stay active."""

LOCKED_WEIGHT = 1e16
"""Factor of the weight of variables that do not move."""

APEX_FORCE = 1e-4
"""Tangential force relative to the largest at or below which a cone is at its apex."""

DEPENDENT_SHARE = 1e-20
"""Square of the share of a constraint's normal, in the metric of W^-1, that is independent of the
active ones, at or below which it depends on them."""

MIN_DIRECTION = 1e-12
"""Direction of a multiplier relative to the largest at or below which a dependent constraint has no
part of its constraint."""

LOST_PIVOT = 2.0**-46
"""Ratio of a pivot to its diagonal element below which W is not positive definite."""

PREFERRED_WEIGHT = 1e12
"""Factor of the squared violation of preferred inequalities."""

PREFERRED_PLANE_WEIGHT = 2.0
"""The same for cones and pyramids, and for inequalities beside pyramids: where friction limits
forces, one that is violated much more goes first, and others that were active may leave."""

REORTHOGONALIZATION_SHARE = 1e-2
"""Square of the share of a normal that is independent of the active ones, below which these are
subtracted once more."""

BLOCK_VARIABLES = 3
"""Variables of small blocks of W that are treated together."""

UNROLLED_BLOCK = 12
"""Size of blocks of W up to which their loops are unrolled."""

LONGEST_PATTERN = 24
"""Rows of A2 after which a pattern is looked for that repeats."""

ROWS_AT_A_TIME = 8
"""Rows of A2 whose violations are computed at a time, if they are alike."""

CONES_AT_A_TIME = 4
"""Cones or pyramids whose violations are computed at a time."""

REGISTERS = 24
"""Sums that stay in registers."""

PARALLEL_SUMS = 4
"""Sums of a product of rows that do not wait for each other."""

UNBOUNDED_STEP = 1e300
"""Length of a step that nothing bounds."""


class DualActiveSet(Primitive):
    """Solve a quadratic program.

    Arguments: the diagonal blocks of W, each row by row; c; A1 row by row; b1; A2, for each row its
    entries over its support; b2; mu of each cone; with `hints` a preference of each inequality and
    cone, above 0.5 for those that were active in a similar problem: they enter first.
    Results: x; multipliers of A1, A2 and the cones (if infeasible, a Farkas vector y with
    y2 >= 0, A^T y = 0, b . y > 0); status; iterations; number of active inequalities.

    Attributes:
        blocks: Sizes of the diagonal blocks of W.
        size: Number of variables.
        equations: Rows of A1.
        supports: For each row of A2 the columns where it is not zero.
        cones: Columns of two tangents and the normal of each friction cone.
        most: Most iterations.
        pyramids: The same of friction pyramids, in place of cones: mu x_n >= c_j x_1 + s_j x_2 with
            the directions of angles 2 pi j / sides.
        sides: Number of their sides.
        hints: Whether preferences are among the arguments.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        equations: int,
        supports: Sequence[Sequence[int]],
        cones: Sequence[tuple[int, int, int]] = (),
        most: int | None = None,
        pyramids: Sequence[tuple[int, int, int]] = (),
        sides: int = 0,
        hints: bool = False,
    ) -> None:
        size = sum(blocks)
        limit = 10 * (size + len(supports)) + 40 * (len(cones) + len(pyramids))
        limit = limit if most is None else most
        lengths = [len(support) for support in supports]
        flat = [column for support in supports for column in support]
        around = [column for cone in (*cones, *pyramids) for column in cone]
        super().__init__(
            "dual_active_set",
            len(blocks),
            *blocks,
            equations,
            limit,
            len(supports),
            *lengths,
            *flat,
            len(cones),
            *around,
            sides,
            int(hints),
        )
        self.blocks = tuple(blocks)
        self.size = size
        self.equations = equations
        self.supports = tuple(tuple(support) for support in supports)
        self.cones = tuple(cones)
        self.pyramids = tuple(pyramids)
        self.sides = sides
        self.hints = hints
        self.most = limit
        n, rows, k = size, len(supports), len(cones) + len(pyramids)
        planes = len(cones) + sides * len(pyramids)
        self._c = sum(block * block for block in blocks)
        self._A1 = self._c + n
        self._b1 = self._A1 + equations * n
        self._A2 = self._b1 + equations
        self._starts = list(itertools.accumulate(lengths, initial=self._A2))
        self._b2 = self._starts[-1]
        self.patterns = _patterns(self.supports)
        self._mu = self._b2 + rows
        self._prefer = self._mu + k
        self.argument_count = self._prefer + (rows + planes if hints else 0)
        self.result_count = n + equations + rows + planes + 3

    @property
    def constraints(self) -> int:
        """Number of equations, inequalities, cones and sides of pyramids."""
        rows = self.equations + len(self.supports)
        return rows + len(self.cones) + self.sides * len(self.pyramids)

    @property
    def directions(self) -> list[tuple[float, float]]:
        """Directions of the sides of a pyramid."""
        return side_directions(self.sides)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Start at the optimum of the equations, then let violated constraints enter."""
        work = _Work(m, given, found, self)
        work.begin()
        # with cones, Newton's method on the active ones follows
        for _ in m.iterate(1 + NEWTON_STEPS * bool(self.cones), lambda: work.is_set(AT.bending)):
            work.start()
            for e in m.loop(0, self.equations):
                work.enter_equation(e)
            if self.cones:
                work.enter_held()
            if work.others:
                for _ in m.iterate(self.most, work.going):
                    work.choose_constraint()
                    work.step()
            else:
                work.put_where(work.going(), AT.status, m.constant(OPTIMAL))
            if self.cones:
                work.judge()
            work.finish()
            work.bend()

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of x and the multipliers, with the active constraints as equations.

        W' dx + dc' = A^T dy and A dx = db', where A holds the equations and the normals of all
        active constraints, W' adds the curvature of active cones, and dc', db' are the changes of
        the optimality conditions at fixed x and y.
        """
        if is_zero_row(graph, tangents):
            return [graph.const(0.0)] * self.result_count
        at = _Optimum(self, *([Value(graph, x) for x in row] for row in (args, results)))
        change = self._split([Value(graph, node) for node in tangents])
        linear, right = at.conditions(change)
        for (_, _, j), y, on, dmu in zip(self.cones, at.yc, at.cone_on, change.mu, strict=False):
            linear[j] = linear[j] - on * y * dmu
            right.append(-on * at.x[j] * dmu)
        for k, (_, _, j) in enumerate(self.pyramids):
            dmu = change.mu[len(self.cones) + k]
            for y, on in at.sides(k):
                linear[j] = linear[j] - on * y * dmu
                right.append(-on * at.x[j] * dmu)
        found = at.solve(linear, right)
        still = [graph.const(0.0)] * 3
        return [*nodes_of(graph, found[: self.size + self.constraints]), *still]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the arguments: the same equations, transposed."""
        n = self.size
        if is_zero_row(graph, adjoints[: n + self.constraints]):
            return [graph.const(0.0)] * self.argument_count
        at = _Optimum(self, *([Value(graph, x) for x in row] for row in (args, results)))
        given = [Value(graph, node) for node in adjoints[: n + self.constraints]]
        held = [1.0] * self.equations + [*at.on, *at.cone_on, *at.side_on]
        right = [-mask * y for mask, y in zip(held, given[n:], strict=True)]
        found = at.solve([-x for x in given[:n]], right)
        # adjoints of dc' and db'
        linear = [-x for x in found[:n]]
        rows = [-mask * y for mask, y in zip(held, found[n : n + self.constraints], strict=True)]
        W = [linear[i] * at.x[j] for i, j in self._entries()]
        A1 = [-y * linear[j] - rows[k] * at.x[j] for k, y in enumerate(at.y1) for j in range(n)]
        first = self.equations
        A2 = [
            -y * linear[j] - rows[first + k] * at.x[j]
            for k, (support, y) in enumerate(zip(self.supports, at.y2, strict=True))
            for j in support
        ]
        first += len(self.supports)
        mu = [
            -on * y * linear[j] - rows[first + k] * at.x[j]
            for k, ((_, _, j), y, on) in enumerate(zip(self.cones, at.yc, at.cone_on, strict=True))
        ]
        first += len(self.cones)
        for k, (_, _, j) in enumerate(self.pyramids):
            total: Any = 0.0
            for place, (y, on) in enumerate(at.sides(k), start=first + k * self.sides):
                total = total - on * y * linear[j] - rows[place] * at.x[j]
            mu.append(total)
        first -= len(self.cones)
        none = [0.0] * (self.argument_count - self._prefer)
        b1, b2 = rows[: self.equations], rows[self.equations : first]
        return nodes_of(graph, [*W, *linear, *A1, *b1, *A2, *b2, *mu, *none])

    def _entries(self) -> list[tuple[int, int]]:
        """Return row and column of each entry of W, in the order of the arguments."""
        ends = itertools.pairwise(itertools.accumulate(self.blocks, initial=0))
        return [(i, j) for a, b in ends for i in range(a, b) for j in range(a, b)]

    def _split(self, values: Sequence[Any]) -> _Arguments:
        """Return the arguments by name."""
        ends = (0, self._c, self._A1, self._b1, self._A2, self._b2, self._mu, self._prefer)
        return _Arguments(*(list(values[a:b]) for a, b in itertools.pairwise(ends)))


class _Arguments(NamedTuple):
    """Arguments of the primitive by name."""

    W: list[Any]
    c: list[Any]
    A1: list[Any]
    b1: list[Any]
    A2: list[Any]
    b2: list[Any]
    mu: list[Any]


class _Optimum:
    """A solution with its active constraints: for derivatives, and Newton's method on cones."""

    def __init__(self, of: DualActiveSet, given: Sequence[Any], found: Sequence[Any]) -> None:
        n = of.size
        self._of = of
        self._given = of._split(given)
        planes = of.sides * len(of.pyramids)
        sizes = (n, of.equations, len(of.supports), len(of.cones), planes)
        ends = itertools.accumulate(sizes, initial=0)
        self.x, self.y1, self.y2, self.yc, self.yp = (
            found[a:b] for a, b in itertools.pairwise(ends)
        )
        self.side_on = [where(y > 0.0, 1.0, 0.0) for y in self.yp]
        """1 for each active side of a pyramid."""
        self.on = [where(y > 0.0, 1.0, 0.0) for y in self.y2]
        """1 for each active inequality."""
        largest: Any = 0.0
        for x in self.x:
            largest = np.maximum(largest, np.abs(x))
        self.largest = largest
        pressed = [where(y > 0.0, 1.0, 0.0) for y in self.yc]
        self.locked = [
            where(self._length(cone) > APEX_FORCE * largest, 0.0, on)
            for cone, on in zip(of.cones, pressed, strict=True)
        ]
        """1 for each active cone at its apex, where nothing can move."""
        self.cone_on = [on - apex for on, apex in zip(pressed, self.locked, strict=True)]
        """1 for each other active cone."""

    def sides(self, k: int) -> list[tuple[Any, Any]]:
        """Return multiplier and mark of each side of a pyramid."""
        count = self._of.sides
        own = slice(k * count, (k + 1) * count)
        return list(zip(self.yp[own], self.side_on[own], strict=True))

    def solve(self, linear: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """Return dx and dy of W' dx + linear = A^T dy, A dx = right."""
        of, n, given = self._of, self._of.size, self._given
        W = dict(zip(of._entries(), given.W, strict=True))
        rows = [{j: given.A1[k * n + j] for j in range(n)} for k in range(of.equations)]
        place = 0
        for support, on in zip(of.supports, self.on, strict=True):
            rows.append({j: on * given.A2[place + k] for k, j in enumerate(support)})
            place += len(support)
        for cone, on, y, mu in zip(of.cones, self.cone_on, self.yc, given.mu, strict=False):
            u, inverse = self._direction(cone)
            rows.append({cone[0]: -on * u[0], cone[1]: -on * u[1], cone[2]: on * mu})
            # curvature of the cone across the direction of x_t
            across = on * y * inverse
            for a, b in itertools.product(range(2), repeat=2):
                bend = across * ((1.0 if a == b else 0.0) - u[a] * u[b])
                key = (cone[a], cone[b])
                W[key] = W[key] + bend if key in W else bend
        for k, (i, j, normal) in enumerate(of.pyramids):
            factor = given.mu[len(of.cones) + k]
            for (_, on), (cosine, sine) in zip(self.sides(k), of.directions, strict=True):
                rows.append({i: -on * cosine, j: -on * sine, normal: on * factor})
        for cone, locked in zip(of.cones, self.locked, strict=True):
            for j in cone:
                W[j, j] = W[j, j] * (1.0 + locked * LOCKED_WEIGHT)
        flat = [W.get((i, j), 0.0) for i in range(n) for j in range(n)]
        blocks = _blocks(flat, n)
        primitive = DualActiveSet(blocks, len(rows), ())
        entries = [flat[i * n + j] for i, j in primitive._entries()]
        dense = [row.get(j, 0.0) for row in rows for j in range(n)]
        return primitive.apply([*entries, *linear, *dense, *right])

    def _direction(self, cone: Sequence[int]) -> tuple[list[Any], Any]:
        """Return the direction of x_t and the reciprocal of its length, 0 at the apex."""
        length = self._length(cone)
        some = length > 0.0
        inverse = where(some, 1.0 / where(some, length, 1.0), 0.0)
        return [self.x[j] * inverse for j in cone[:2]], inverse

    def _length(self, cone: Sequence[int]) -> Any:
        a, b = (self.x[j] for j in cone[:2])
        return np.sqrt(a * a + b * b)

    def conditions(self, data: _Arguments) -> tuple[list[Any], list[Any]]:
        """Return W x + c - A1^T y1 - A2^T y2 and b - A x of active rows, of some data at x and y.

        Without cones. Data may be those of the problem, or their changes.
        """
        of, n = self._of, self._of.size
        linear, right = list(data.c), list(data.b1)
        for (i, j), w in zip(of._entries(), data.W, strict=True):
            linear[i] = linear[i] + w * self.x[j]
        for k, y in enumerate(self.y1):
            for j in range(n):
                entry = data.A1[k * n + j]
                linear[j] = linear[j] - y * entry
                right[k] = right[k] - entry * self.x[j]
        place = 0
        for support, y, on, b in zip(of.supports, self.y2, self.on, data.b2, strict=True):
            total = b
            for j in support:
                entry = data.A2[place]
                linear[j] = linear[j] - y * entry
                total = total - entry * self.x[j]
                place += 1
            right.append(on * total)
        return linear, right


class QPSolution(NamedTuple):
    """Solution of a quadratic program; floats or traced values."""

    x: Any
    """Variables, shape (n,)."""

    equation_multipliers: Any
    """Multipliers y1 of the equations; W x + c = A1^T y1 + A2^T y2 and the forces of the cones."""

    inequality_multipliers: Any
    """Multipliers y2 of the inequalities, not negative.

    Where no x satisfies the constraints, y1 and y2 are a Farkas vector: A1^T y1 + A2^T y2 = 0 with
    b1 . y1 + b2 . y2 > 0.
    """

    cone_multipliers: Any
    """Multipliers of the tangent planes of each cone, summed; or of each side of each pyramid."""

    status: Any
    """`OPTIMAL`, `INFEASIBLE`, `NOT_CONVEX` or `UNFINISHED`."""

    iterations: Any
    """Steps taken."""

    active: Any
    """Number of active inequalities and tangent planes."""


def solve_qp(
    W: Any,
    c: Any,
    A1: Any = None,
    b1: Any = None,
    A2: Any = None,
    b2: Any = None,
    *,
    cones: Sequence[tuple[int, int, int]] = (),
    mu: Any = (),
    prefer: Any = None,
    sides: int | None = None,
) -> QPSolution:
    """Minimize c^T x + x^T W x / 2 subject to A1 x = b1, A2 x >= b2 and |x_t| <= mu x_n.

    Entries of W and A2 that are known to be zero while tracing cost nothing.

    Args:
        W: Symmetric positive definite, shape (n, n).
        c: Linear term, shape (n,).
        A1: Equations, shape (equations, n); none by default.
        b1: Their right-hand sides.
        A2: Inequalities, shape (rows, n); none by default.
        b2: Their right-hand sides.
        cones: Friction cones: places of two tangential and the normal variable of each.
        mu: Coefficient of friction of each cone.
        prefer: Values above 0.5 for inequalities, then cones, that were active in a similar
            problem, such as its multipliers: they enter first, which changes the solution by
            rounding only.
        sides: Number of sides of pyramids in place of cones, c_j x_1 + s_j x_2 <= mu x_n with
            directions at angles 2 pi j / sides; cones by default. `prefer` then has a value for
            each side. Effort hardly grows with their number.

    Raises:
        ShapeError: If the shapes do not fit.
    """
    n = square_size("W", W)
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {"c": (c, (n,)), "mu": (mu, (len(cones),))}
    m1, m2 = (0 if A is None else shape_of(A)[0] for A in (A1, A2))
    for name, A, b, count in (("1", A1, b1, m1), ("2", A2, b2, m2)):
        if A is not None:
            shapes |= {f"A{name}": (A, (count, n)), f"b{name}": (b, (count,))}
    if prefer is not None:
        shapes["prefer"] = (prefer, (m2 + len(cones) * (sides or 1),))
    for name, (value, expected) in shapes.items():
        if shape_of(value) != expected:
            raise ShapeError(name, expected, shape_of(value))
    flat = numbers_of(W)
    blocks = _blocks(flat, n, () if sides else cones)
    ends = list(itertools.accumulate(blocks, initial=0))
    entries = [
        flat[i * n + j]
        for begin, end in itertools.pairwise(ends)
        for i in range(begin, end)
        for j in range(begin, end)
    ]
    rows = numbers_of(A2) if m2 else []
    supports = [[j for j in range(n) if not _is_zero(rows[i * n + j])] for i in range(m2)]
    hints = prefer is not None
    if sides:
        primitive = DualActiveSet(blocks, m1, supports, pyramids=cones, sides=sides, hints=hints)
    else:
        primitive = DualActiveSet(blocks, m1, supports, cones, hints=hints)
    planes = len(cones) * (sides or 1)
    given = [
        *entries,
        *numbers_of(c),
        *(numbers_of(A1) if m1 else ()),
        *(numbers_of(b1) if m1 else ()),
        *(rows[i * n + j] for i, support in enumerate(supports) for j in support),
        *(numbers_of(b2) if m2 else ()),
        *(numbers_of(mu) if cones else ()),
        *(() if prefer is None else numbers_of(prefer)),
    ]
    found = primitive.apply(given)
    sizes = itertools.accumulate((n, m1, m2, planes), initial=0)
    parts = [array_of(found[a:b], (b - a,)) for a, b in itertools.pairwise(sizes)]
    return QPSolution(*parts, *found[-3:])


def side_directions(sides: int) -> list[tuple[float, float]]:
    """Return the directions of the sides of a friction pyramid."""
    angles = 2.0 * np.pi * np.arange(sides) / max(sides, 1)
    return [(float(c), float(s)) for c, s in zip(np.cos(angles), np.sin(angles), strict=True)]


def _blocks(flat: Sequence[Any], n: int, cones: Sequence[tuple[int, int, int]] = ()) -> list[int]:
    """Return the sizes of the diagonal blocks of a matrix, by zeros that are known.

    The two tangents of a cone are in one block: its curvature couples them.
    """
    sizes, begin, end = [], 0, 0
    coupled = {min(cone[:2]): max(cone[:2]) for cone in cones}
    for i in range(n):
        end = max(end, coupled.get(i, 0))
        reach = [
            j for j in range(n) if not (_is_zero(flat[i * n + j]) and _is_zero(flat[j * n + i]))
        ]
        end = max([end, i, *reach])
        if i == end:
            sizes.append(i + 1 - begin)
            begin = end = i + 1
    return sizes


def _is_zero(value: Any) -> bool:
    return not isinstance(value, Value) and value == 0.0


class _Entering(NamedTuple):
    """Places in the memory of single values."""

    q: int = 0
    """Number of active constraints."""
    equations: int = 1
    """Number of independent equations."""
    status: int = 2
    """`OPTIMAL` and the like, or below 0 while running."""
    fresh: int = 3
    """1 where another constraint is to be chosen, 0 where one is entering."""
    which: int = 4
    """The entering constraint: equations first, then inequalities, then cones."""
    b: int = 5
    """Its right-hand side."""
    multiplier: int = 6
    """Its multiplier so far: the sum of all steps since it was chosen."""
    iterations: int = 7
    best: int = 8
    """Score of the most violated constraint so far, and its number."""
    number: int = 9
    parked: int = 10
    """1 where a constraint is left out until another one enters."""
    careful: int = 11
    """1 where the next choice must distinguish violations from rounding in every row."""
    picked: int = 12
    """1 where a constraint was chosen since the last step."""
    s: int = 13
    """b - a . x, and the sum of the squares of its terms."""
    size: int = 14
    square: int = 15
    """Squares of the lengths of p and of L^-1 a."""
    whole: int = 16
    touched: int = 17
    """Number of columns of Q and R that hold something; the same in all cases."""
    weight: int = 18
    """Weight of the squared violation of the entering constraint."""
    first: int = 19
    """Direction of the tangent plane that enters; 0 for rows."""
    second: int = 20
    bending: int = 21
    """1 where Newton's method on cones goes on."""
    held: int = 22
    """Number of constraints that were active in the round before."""
    kept: int = 23
    """1 where a round gave a better solution, which is written."""
    cone: int = 24
    """The cone or pyramid with the most violated plane so far, and that whose plane enters."""
    entering: int = 25
    violation: int = 26
    """Violation of that plane."""
    scale: int = 27
    """Largest square of a component of x without constraints."""
    noise: int = 28
    """Square of the directions of multipliers that are rounding."""
    total: int = 29


AT = _Entering()


class _Part(NamedTuple):
    """Neighboring blocks of W that are treated as one."""

    blocks: tuple[int, ...]
    """Their sizes."""

    @property
    def size(self) -> int:
        """Number of variables."""
        return sum(self.blocks)

    @property
    def entries(self) -> int:
        """Number of entries of W."""
        return sum(size * size for size in self.blocks)


def _parts(blocks: Sequence[int]) -> list[_Part]:
    """Return the blocks of W, small ones together."""
    found: list[_Part] = []
    for size in blocks:
        if found and found[-1].size + size <= BLOCK_VARIABLES:
            found[-1] = _Part((*found[-1].blocks, size))
        else:
            found.append(_Part((size,)))
    return found


class _Rows(NamedTuple):
    """Neighboring rows of A2 in which a pattern repeats, each time some columns further."""

    begin: int
    """First row."""

    period: int
    """Rows of the pattern."""

    repeats: int
    """Repetitions."""

    shift: int
    """Columns from one repetition to the next."""


def _patterns(supports: Sequence[Sequence[int]]) -> list[_Rows]:
    """Return the rows of A2 as repeated patterns."""
    found, begin, rows = [], 0, len(supports)
    while begin < rows:
        best = _Rows(begin, 1, 1, 0)
        for period in range(1, min(LONGEST_PATTERN, (rows - begin) // 2) + 1):
            first, second = supports[begin], supports[begin + period]
            shift = second[0] - first[0] if first and second else 0
            count = 1
            while begin + (count + 1) * period <= rows and all(
                tuple(supports[begin + count * period + k])
                == tuple(column + count * shift for column in supports[begin + k])
                for k in range(period)
            ):
                count += 1
            if count > 1 and count * period > best.repeats * best.period:
                best = _Rows(begin, period, count, shift)
        # short patterns in pairs: their rows are computed side by side
        while best.period < ROWS_AT_A_TIME and best.repeats % 2 == 0:
            best = _Rows(begin, 2 * best.period, best.repeats // 2, 2 * best.shift)
        found.append(best)
        begin += best.period * best.repeats
    return found


class _Work:
    """Memory of a run of the primitive and the steps of the method."""

    def __init__(self, m: Machine, given: Memory, found: Memory, of: DualActiveSet) -> None:
        self.m, self.given, self.found, self.of = m, given, found, of
        n = self.n = of.size
        self.zero, self.one = m.constant(0.0), m.constant(1.0)
        self.L = m.memory(of._c)
        self.Q, self.R = m.memory(n * n), m.memory(n * n)
        self.x, self.p, self.d, self.r = (m.memory(n) for _ in range(4))
        # the last place takes what belongs nowhere
        self.a = m.memory(n + 1)
        self.inverse, self.multipliers, self.who, self.weight = (m.memory(n) for _ in range(4))
        self.W = given
        self.round = (*of.cones, *of.pyramids)
        self.others = len(of.supports) + len(self.round)
        self.weights = m.memory(self.others + 1) if self.others else None
        if self.round:
            # directions of the last tangent planes of all cones, or sides of all pyramids
            self.planes = m.memory(2 * len(self.round) + 2)
        if of.cones:
            self.W = m.memory(of._c)
            # directions of the active planes
            self.first, self.second = m.memory(n), m.memory(n)
            # curvatures of the cones; the active constraints of the round before
            self.bends = m.memory(len(of.cones) + 1)
            self.turned = m.memory(2 * len(of.cones) + 2)
            self.held, self.held_first, self.held_second = (m.memory(n) for _ in range(3))
        self.one_values = m.memory(AT.total)

    # single values and conditions

    def get(self, place: int) -> Number:
        return self.m.load(self.one_values, place)

    def put(self, place: int, value: Number) -> None:
        self.m.store(self.one_values, place, value)

    def put_where(self, condition: Truth, place: int, value: Number) -> None:
        self.put(place, self.m.choose(condition, value, self.get(place)))

    def going(self) -> Truth:
        """Return whether a case is neither solved nor given up."""
        return self.m.less(self.get(AT.status), self.zero)

    def flag(self, condition: Truth) -> Number:
        return self.m.choose(condition, self.one, self.zero)

    def is_set(self, place: int) -> Truth:
        return self.m.less(self.m.constant(0.5), self.get(place))

    def when(self, condition: Truth) -> Iterator[None]:
        """Run the body of a `for` once, if a condition holds in some case."""
        yield from self.m.iterate(1, lambda: condition)

    def top(self) -> Index:
        """Return the largest number of active constraints of all cases."""
        return self.m.largest(self.get(AT.q), self.n)

    def smallest(self, value: Number) -> Index:
        """Return the smallest of a whole number up to n of all cases."""
        m, n = self.m, self.n
        return m.largest(m.sub_product(self.one, value, m.constant(float(n))), n) * -1 + n

    def parts(self) -> Iterator[tuple[Index, _Part, Index]]:
        """Visit the parts of W: first variable, part, place of the first entry."""
        at, entry = 0, 0
        for part, group in itertools.groupby(_parts(self.of.blocks)):
            count = len(list(group))
            for k in self.m.loop(0, count):
                yield k * part.size + at, part, k * part.entries + entry
            at, entry = at + count * part.size, entry + count * part.entries

    @staticmethod
    def blocks(first: Index, part: _Part, entry: Index) -> Iterator[tuple[Index, int, Index]]:
        """Visit the blocks of a part: first variable, size, place of the first entry."""
        for size in part.blocks:
            yield first, size, entry
            first, entry = first + size, entry + size * size

    # the optimum without constraints

    def begin(self) -> None:
        """Set what lasts from round to round."""
        m, of = self.m, self.of
        for place in (AT.iterations, AT.held):
            self.put(place, self.zero)
        for place in (AT.bending, AT.kept):
            self.put(place, self.one)
        for k in range(2 * len(of.cones) + 2 if of.cones else 0):
            m.store(self.turned, k, self.zero)
        if of.cones:
            for k in m.loop(0, of.result_count, independent=True):
                m.store(self.found, k, self.zero)
            for k in m.loop(0, of._c, independent=True):
                m.store(self.W, k, m.load(self.given, k))

    def start(self) -> None:
        """Factor W, invert the factor, and start at x = -W^-1 c."""
        m, of = self.m, self.of
        self.put(AT.status, m.constant(-1.0))
        zero = (AT.q, AT.equations, AT.which, AT.b, AT.multiplier, AT.parked, AT.careful)
        more = (AT.picked, AT.touched, AT.weight, AT.first, AT.second, AT.cone, AT.entering)
        for place in (*zero, *more, AT.violation):
            self.put(place, self.zero)
        self.put(AT.fresh, self.one)
        for first, part, entry in self.parts():
            for begin, size, at in self.blocks(first, part, entry):
                self._invert_block(size, at)
                # x = -L^-T L^-1 c
                for i in range(size):
                    m.store(self.a, begin + i, m.load(self.given, begin + (of._c + i)))
                    m.store(self.x, begin + i, self.zero)
                self._forward(begin, size, at, self.a, self.p)
                self._backward(begin, size, at, m.constant(-1.0))
        self.put(AT.scale, self._largest())
        if self.others:
            m.store(self.weights, self.others, self.zero)
        preferred = PREFERRED_PLANE_WEIGHT if of.pyramids else PREFERRED_WEIGHT
        for group in of.patterns:
            for row, terms in self._visit(group):
                for place, (_, entries) in enumerate(terms):
                    total = self.zero
                    for _, entry in entries:
                        total = m.add_product(entry, entry, total)
                    some = m.less(self.zero, total)
                    inverse = m.div(self.one, m.choose(some, total, self.one))
                    weight = m.choose(some, inverse, m.constant(UNBOUNDED_STEP))
                    self._weigh(row + place, weight, preferred)
        for k in range(2 * len(self.round) + 2 if self.round else 0):
            m.store(self.planes, k, self.zero)
        for k in m.loop(0, len(self.round)):
            mu = m.load(self.given, k + of._mu)
            inverse = m.div(self.one, m.add_product(mu, mu, self.one))
            if of.sides:
                self._weigh_pyramid(k, inverse)
            else:
                self._weigh(k + len(of.supports), inverse, PREFERRED_PLANE_WEIGHT)
        # cases that are done wait
        done = m.less(self.get(AT.bending), m.constant(0.5))
        self.put_where(done, AT.status, m.constant(OPTIMAL))

    def _weigh(self, i: Index, weight: Number, factor: float) -> None:
        """Write the weight of a squared violation, multiplied by a factor if it is preferred."""
        m = self.m
        if not self.of.hints:
            m.store(self.weights, i, weight)
            return
        prefer = m.less(m.constant(0.5), m.load(self.given, i + self.of._prefer))
        m.store(self.weights, i, m.choose(prefer, m.mul(weight, m.constant(factor)), weight))

    def _weigh_pyramid(self, k: Index, weight: Number) -> None:
        """Write the weight of a pyramid, and the direction of the side that is to enter first."""
        m, of, rows = self.m, self.of, len(self.of.supports)
        m.store(self.weights, k + rows, weight)
        if not of.hints:
            return
        side = m.constant(-1.0)
        for j in range(of.sides):
            preferred = m.load(self.given, k * of.sides + (of._prefer + rows + j))
            preferred = m.less(m.constant(0.5), preferred)
            side = m.choose(preferred, m.constant(float(j)), side)
        some = m.less_equal(self.zero, side)
        for _ in self.when(some):
            m.store(
                self.weights,
                k + rows,
                m.choose(some, m.mul(weight, m.constant(PREFERRED_PLANE_WEIGHT)), weight),
            )
            # the direction of a number is that of the powers of two that it consists of
            u = [self.flag(some), self.zero]
            step = 1 << (of.sides - 1).bit_length()
            while step > 1:
                step //= 2
                number = m.constant(float(step))
                c, s = (m.constant(value) for value in of.directions[step % of.sides])
                holds = m.less_equal(number, side)
                side = m.choose(holds, m.sub_product(self.one, number, side), side)
                turned = [
                    m.sub_product(s, u[1], m.mul(c, u[0])),
                    m.add_product(s, u[0], m.mul(c, u[1])),
                ]
                u = [m.choose(holds, new, old) for new, old in zip(turned, u, strict=True)]
            for i in range(2):
                m.store(self.planes, k * 2 + i, u[i])

    def _invert_block(self, size: int, at: Index) -> None:
        """Write the inverse Cholesky factor of a block of W."""
        m = self.m
        loop = range if size <= UNROLLED_BLOCK else m.loop
        C = m.memory(size * size)
        for i in loop(0, size):
            for j in loop(0, i + 1):
                m.store(C, i * size + j, m.load(self.W, at + (i * size + j)))
        for k in loop(0, size):
            pivot = m.load(C, k * size + k)
            whole = m.load(self.W, at + (k * size + k))
            bad = m.less_equal(pivot, m.mul(m.constant(LOST_PIVOT), whole))
            bad = m.either(bad, m.less_equal(whole, self.zero))
            self.put_where(bad, AT.status, m.constant(NOT_CONVEX))
            inverse = m.div(self.one, m.sqrt(m.choose(bad, self.one, pivot)))
            m.store(C, k * size + k, inverse)
            for i in loop(k + 1, size):
                m.store(C, i * size + k, m.mul(m.load(C, i * size + k), inverse))
            for i in loop(k + 1, size):
                entry = m.load(C, i * size + k)
                for j in loop(k + 1, i + 1):
                    old = m.load(C, i * size + j)
                    m.store(C, i * size + j, m.sub_product(entry, m.load(C, j * size + k), old))
        if size > UNROLLED_BLOCK:
            for place in m.loop(0, size * size):
                m.store(self.L, at + place, self.zero)
        for i in loop(0, size):
            inverse = m.load(C, i * size + i)
            for j in loop(0, i):
                m.store(self.L, at + (i * size + j), self.zero)
            for k in loop(0, i):
                entry = m.mul(m.load(C, i * size + k), inverse)
                for j in loop(0, k + 1):
                    known, old = (m.load(self.L, at + (row * size + j)) for row in (k, i))
                    m.store(self.L, at + (i * size + j), m.sub_product(entry, known, old))
            m.store(self.L, at + (i * size + i), inverse)

    def _forward(self, begin: Index, size: int, at: Index, source: Memory, to: Memory) -> None:
        """Write L^-1 times a block of a vector."""
        m = self.m
        values = [m.load(source, begin + j) for j in range(size)]
        for i in range(size) if size <= UNROLLED_BLOCK else m.loop(0, size):
            end = i + 1 if isinstance(i, int) and size <= UNROLLED_BLOCK else size
            sums = [self.zero, self.zero]
            for j in range(end):
                entry = m.load(self.L, at + (i * size + j))
                sums[j % 2] = m.add_product(entry, values[j], sums[j % 2])
            m.store(to, begin + i, m.add(*sums) if end > 1 else sums[0])

    def _backward(self, begin: Index, size: int, at: Index, step: Number) -> None:
        """Move a block of x by a step along L^-T p."""
        m = self.m
        for i in range(size) if size <= UNROLLED_BLOCK else m.loop(0, size):
            t = m.mul(step, m.load(self.p, begin + i))
            small = isinstance(i, int) and size <= UNROLLED_BLOCK
            for j in range(i + 1) if small else m.loop(0, size, independent=True):
                entry, old = m.load(self.L, at + (i * size + j)), m.load(self.x, begin + j)
                m.store(self.x, begin + j, m.add_product(t, entry, old))

    def _visit(
        self, group: _Rows
    ) -> Iterator[tuple[Index, list[tuple[Number, list[tuple[Index, Number]]]]]]:
        """Visit rows of A2, some at a time: the first of them; right-hand sides and entries."""
        m, of = self.m, self.of
        begin, period = group.begin, group.period
        stride = of._starts[begin + period] - of._starts[begin]
        for k in m.loop(0, group.repeats):
            terms = []
            for i in range(begin, begin + period):
                entries = [
                    (
                        k * group.shift + column,
                        m.load(self.given, k * stride + (of._starts[i] + place)),
                    )
                    for place, column in enumerate(of.supports[i])
                ]
                terms.append((m.load(self.given, k * period + (of._b2 + i)), entries))
            yield k * period + begin, terms

    # constraints that enter

    def enter_equation(self, e: Index) -> None:
        """Make an equation active; one that depends on others must agree with them."""
        m, n = self.m, self.n
        on = self.going()
        b = m.load(self.given, e + self.of._b1)
        total = m.mul(b, b)
        for j in range(n):
            a = m.load(self.given, e * n + (self.of._A1 + j))
            m.store(self.a, j, m.choose(on, a, m.load(self.a, j)))
            total = m.add_product(a, a, total)
        total = m.choose(on, total, self.zero)
        # rows of zeros say nothing
        for _ in self.when(m.less(self.zero, total)):
            self.directions(b)
            s, size = self.get(AT.s), self.get(AT.size)
            square, whole = self.get(AT.square), self.get(AT.whole)
            share = m.mul(m.constant(DEPENDENT_SHARE), whole)
            enters = m.both(on, m.less(share, square))
            step = m.div(s, m.choose(enters, square, self.one))
            self.move(m.choose(enters, step, self.zero))
            # a residual that independent equations leave is of no x
            wrong = m.less(
                m.mul(m.constant(CONTRADICTION_TOLERANCE * CONTRADICTION_TOLERANCE), size),
                m.mul(s, s),
            )
            contradiction = m.both(m.both(on, m.less_equal(square, share)), wrong)
            for _ in self.when(contradiction):
                contradiction = m.both(contradiction, m.less(self._rounding(), m.mul(s, s)))
                self.put_where(contradiction, AT.status, m.constant(INFEASIBLE))
                sign = m.choose(m.less(s, self.zero), m.constant(-1.0), self.one)
                self.put_where(contradiction, AT.multiplier, sign)
            self.put_where(on, AT.which, m.number(e))
            self.add(enters)
            self.put(AT.equations, self.get(AT.q))

    def _rounding(self) -> Number:
        """Return the square of what rounding of x leaves of a . x, for the entering constraint.

        Where all forces vanish, that is rounding of the x that the method began with.
        """
        m = self.m
        square = self.zero
        for j in range(self.n):
            a = m.load(self.a, j)
            square = m.add_product(a, a, square)
        now, start = self._largest(), self.get(AT.scale)
        largest = m.choose(m.less(now, start), start, now)
        return m.mul(m.mul(m.constant(ROUNDING * ROUNDING), square), largest)

    def directions(self, b: Number) -> None:
        """Write d = Q^T L^-1 a and p = L^-1 a - Q d; note b - a . x and squares of lengths."""
        m, n = self.m, self.n
        top = self.top()
        self._transform(b, top)
        self._remove(self.d, top)
        self.put(AT.square, self._square())
        whole = m.mul(m.constant(REORTHOGONALIZATION_SHARE), self.get(AT.whole))
        again = m.less(self.get(AT.square), whole)
        for _ in self.when(again):
            # rounding left parts along Q: once more is enough
            for k in m.loop(0, top):
                more = m.choose(again, self.dot(self.Q, k * n, self.p, n), self.zero)
                m.store(self.r, k, more)
                m.store(self.d, k, m.add(m.load(self.d, k), more))
            self._remove(self.r, top)
            self.put(AT.square, self._square())

    def _compliance(self) -> Number:
        """Return the square of the length of p, to rounding of L^-1 a."""
        m, top = self.m, self.top()
        self._transform(self.zero, top)
        self.put(AT.square, self.get(AT.whole))
        for k in m.loop(0, top):
            d = m.load(self.d, k)
            self.put(AT.square, m.sub_product(d, d, self.get(AT.square)))
        square = self.get(AT.square)
        return m.choose(m.less(self.zero, square), square, self.zero)

    def _transform(self, b: Number, top: Index) -> None:
        """Write L^-1 a to p, and d; note b - a . x and the square of the length of L^-1 a."""
        m, n = self.m, self.n
        self.put(AT.s, b)
        self.put(AT.size, m.mul(b, b))
        self.put(AT.whole, self.zero)
        for k in m.loop(0, top, independent=True):
            m.store(self.d, k, self.zero)
        for j in m.loop(0, n, independent=True):
            m.store(self.p, j, self.zero)
        for first, part, entry in self.parts():
            a = [m.load(self.a, first + j) for j in range(part.size)]
            some = self.zero
            for value in a:
                some = m.add_product(value, value, some)
            # most rows concern few variables
            for _ in self.when(m.less(self.zero, some)):
                self._project(first, part, entry, a, top)

    def _project(
        self, first: Index, part: _Part, entry: Index, a: list[Number], top: Index
    ) -> None:
        """Add what a part of a gives to the residual, to L^-1 a and to d."""
        m, n = self.m, self.n
        s, squares, whole = self.get(AT.s), self.get(AT.size), self.get(AT.whole)
        for j, value in enumerate(a):
            x = m.load(self.x, first + j)
            term = m.mul(value, x)
            s = m.sub_product(value, x, s)
            squares = m.add_product(term, term, squares)
        for begin, size, at in self.blocks(first, part, entry):
            self._forward(begin, size, at, self.a, self.p)
        found = [m.load(self.p, first + j) for j in range(part.size)]
        for value in found:
            whole = m.add_product(value, value, whole)
        for place, value in ((AT.s, s), (AT.size, squares), (AT.whole, whole)):
            self.put(place, value)
        for k in m.loop(0, top):
            d = m.load(self.d, k)
            for j, value in enumerate(found):
                d = m.add_product(m.load(self.Q, k * n + first + j), value, d)
            m.store(self.d, k, d)

    def _remove(self, factors: Memory, top: Index) -> None:
        """Subtract multiples of the columns of Q from p."""
        m, n = self.m, self.n
        if not m.is_wide:
            for k in m.loop(0, top):
                factor = m.load(factors, k)
                for j in m.loop(0, n, independent=True):
                    old = m.load(self.p, j)
                    m.store(self.p, j, m.sub_product(factor, m.load(self.Q, k * n + j), old))
            return
        # sums stay in registers
        for first in range(0, n, REGISTERS):
            width = min(REGISTERS, n - first)
            sums = m.memory(width)
            for j in range(width):
                m.store(sums, j, m.load(self.p, first + j))
            for k in m.loop(0, top):
                factor = m.load(factors, k)
                for j in range(width):
                    column = m.load(self.Q, k * n + (first + j))
                    m.store(sums, j, m.sub_product(factor, column, m.load(sums, j)))
            for j in range(width):
                m.store(self.p, first + j, m.load(sums, j))

    def _square(self) -> Number:
        """Return the square of the length of p."""
        return self.dot(self.p, 0, self.p, self.n)

    def dot(self, a: Memory, start: Index, b: Memory, count: int, at: Index = 0) -> Number:
        """Return a product of two rows, in sums that do not wait for each other."""
        m = self.m
        sums = [self.zero] * PARALLEL_SUMS
        for j in range(count):
            k = j % PARALLEL_SUMS
            sums[k] = m.add_product(m.load(a, start + j), m.load(b, at + j), sums[k])
        while len(sums) > 1:
            sums = [m.add(*sums[k : k + 2]) for k in range(0, len(sums), 2)]
        return sums[0]

    def move(self, step: Number) -> None:
        """Move x along L^-T p."""
        for first, part, entry in self.parts():
            for begin, size, at in self.blocks(first, part, entry):
                self._backward(begin, size, at, step)

    def add(self, enters: Truth) -> None:
        """Make the entering constraint active, where the condition holds: p is its column of Q."""
        m, q = self.m, self.get(AT.q)
        length = m.sqrt(m.choose(enters, self.get(AT.square), self.one))
        inverse = m.div(self.one, length)
        # cases in which nothing enters look for no place
        place = m.choose(enters, q, m.constant(-1.0))
        for _ in self.when(enters):
            lowest = self.smallest(m.choose(enters, q, m.constant(float(self.n))))
            for k in m.loop(lowest, m.largest(place, self.n - 1) + 1):
                self._add_column(k, place, length, inverse)
        self.put(AT.q, m.add(q, self.flag(enters)))

    def _add_column(self, k: Index, place: Number, length: Number, inverse: Number) -> None:
        """Write a column of Q and R, in cases whose next column it is."""
        m, n = self.m, self.n
        number = m.number(k)
        mine = self._equal(number, place)
        fresh = m.less_equal(self.get(AT.touched), number)
        for _ in self.when(fresh):
            for j in range(n):
                m.store(self.Q, k * n + j, self.zero)
            for i in m.loop(0, k + 1):
                m.store(self.R, k * n + i, self.zero)
            for row in (self.inverse, *self._moving()[:-1]):
                m.store(row, k, self.zero)
            m.store(self.who, k, m.constant(-1.0))
            self.put(AT.touched, m.add(number, self.one))
        for _ in self.when(mine):
            for j in range(n) if m.is_wide else m.loop(0, n, independent=True):
                unit = m.mul(m.load(self.p, j), inverse)
                m.store(self.Q, k * n + j, m.choose(mine, unit, m.load(self.Q, k * n + j)))
            for i in m.loop(0, k, independent=True):
                old = m.load(self.R, k * n + i)
                m.store(self.R, k * n + i, m.choose(mine, m.load(self.d, i), old))
            news = [
                (self.R, k * n + k, length),
                (self.inverse, k, inverse),
                (self.multipliers, k, self.get(AT.multiplier)),
                (self.who, k, self.get(AT.which)),
                (self.weight, k, self.get(AT.weight)),
            ]
            if self.of.cones:
                news.append((self.first, k, self.get(AT.first)))
                news.append((self.second, k, self.get(AT.second)))
            for row, at, value in news:
                m.store(row, at, m.choose(mine, value, m.load(row, at)))

    def _moving(self) -> list[Memory]:
        """Return what is known of each active constraint; its number last."""
        planes = [self.first, self.second] if self.of.cones else []
        return [self.multipliers, self.weight, *planes, self.who]

    def _equal(self, a: Number, b: Number) -> Truth:
        """Return whether two whole numbers are equal."""
        apart = self.m.sub_product(self.one, b, a)
        return self.m.less(self.m.mul(apart, apart), self.m.constant(0.25))

    # inequalities

    def choose_constraint(self) -> None:
        """Choose the most violated inequality or cone where none is entering; none: solved."""
        m = self.m
        picking = m.both(self.going(), self.is_set(AT.fresh))
        for _ in self.when(picking):
            self._rate(careful=False)
            careful = self.is_set(AT.careful)
            for _ in self.when(careful):
                best, number = self.get(AT.best), self.get(AT.number)
                self._rate(careful=True)
                self.put(AT.best, m.choose(careful, self.get(AT.best), best))
                self.put(AT.number, m.choose(careful, self.get(AT.number), number))
            self.put(AT.careful, self.zero)
            some = m.less(self.zero, self.get(AT.best))
            none = m.both(picking, m.less_equal(self.get(AT.best), self.zero))
            self.put_where(none, AT.status, m.constant(OPTIMAL))
            self._fetch(picking, m.both(picking, some))

    def _rate(self, *, careful: bool) -> None:
        """Find the largest score: the squared violation over the squared length of the normal.

        Args:
            careful: Whether to leave out violations by rounding. Without that, what is chosen may
                be one of them.
        """
        m, of = self.m, self.of
        self.put(AT.best, self.zero)
        self.put(AT.number, self.zero)
        for group in of.patterns:
            for row, terms in self._visit(group):
                scores = []
                for k, (b, entries) in enumerate(terms):
                    s = b
                    for column, entry in entries:
                        s = m.sub_product(entry, m.load(self.x, column), s)
                    score = self._score(row + k, s)
                    if careful:
                        size = m.mul(b, b)
                        for column, entry in entries:
                            term = m.mul(entry, m.load(self.x, column))
                            size = m.add_product(term, term, size)
                        bound = m.mul(m.constant(VIOLATION_TOLERANCE * VIOLATION_TOLERANCE), size)
                        score = m.choose(m.less(bound, m.mul(s, s)), score, self.zero)
                    scores.append((score, m.constant(float(k))))
                self._note(row, scores)
        if self.round:
            self._rate_cones()

    def _rate_cones(self) -> None:
        """Compare the most violated plane of each cone or pyramid with the best so far."""
        m = self.m
        columns = m.table([column for cone in self.round for column in cone])
        rounding = m.mul(m.constant(ROUNDING * ROUNDING), self._largest())
        # some at a time: the search for one side need not wait for that of another
        full, rest = divmod(len(self.round), CONES_AT_A_TIME)
        for k in m.loop(0, full):
            self._rate_some(
                columns, rounding, [k * CONES_AT_A_TIME + i for i in range(CONES_AT_A_TIME)]
            )
        self._rate_some(columns, rounding, [full * CONES_AT_A_TIME + i for i in range(rest)])

    def _rate_some(self, columns: Table, rounding: Number, which: Sequence[Index]) -> None:
        """Compare some cones or pyramids with the best so far."""
        m, of = self.m, self.of
        forces = [[m.load(self.x, m.lookup(columns, k * 3 + i)) for i in range(3)] for k in which]
        lengths = self._lengths([(x, y) for x, y, _ in forces]) if of.sides else []
        for place, (k, (x, y, normal)) in enumerate(zip(which, forces, strict=True)):
            mu = m.load(self.given, k + of._mu)
            square = m.add_product(x, x, m.mul(y, y))
            if of.sides:
                along, limit, tolerance = lengths[place], m.mul(mu, normal), VIOLATION_TOLERANCE
            else:
                along, limit, tolerance = m.sqrt(square), normal, CONE_VIOLATED
            # at the apex nothing but rounding is left
            bound = m.add_product(limit, limit, square)
            bound = m.add_product(m.constant(tolerance * tolerance), bound, rounding)
            self._rate_plane(k, m.sub_product(mu, normal, along), bound)

    def _rate_plane(self, k: Index, s: Number, bound: Number) -> None:
        """Compare the violation of a cone, or of a side of a pyramid, with the best so far."""
        m, of = self.m, self.of
        rows = len(of.supports)
        score = self._score(k + rows, s)
        score = m.choose(m.less(bound, m.mul(s, s)), score, self.zero)
        better = m.less(self.get(AT.best), score)
        self.put_where(better, AT.best, score)
        # which side it is will be looked up where one enters
        self.put_where(better, AT.number, m.number(k * (of.sides or 1) + rows))
        self.put_where(better, AT.cone, m.number(k))
        self.put_where(better, AT.violation, s)

    def _lengths(self, directions: Sequence[tuple[Number, Number]]) -> list[Number]:
        """Return the length of vectors along the sides of a pyramid that are nearest to them.

        As `_sides`, without which sides these are.
        """
        m = self.m
        found = [(x, self._absolute(y)) for x, y in directions]
        steps = self._turns()
        for k, step in enumerate(steps):
            c, s = (m.constant(value) for value in self.of.directions[step])
            pairs, found = found, []
            for along, across in pairs:
                other = m.add_product(c, along, m.mul(s, across))
                nearer = m.less(along, other)
                if k < len(steps) - 1:
                    turned = self._absolute(m.sub_product(s, along, m.mul(c, across)))
                    across = m.choose(nearer, turned, across)
                found.append((m.choose(nearer, other, along), across))
        return [along for along, _ in found]

    def _turns(self) -> list[int]:
        """Return by how many sides to go on, step by step: two thirds of what may be missing."""
        steps, apart = [], 0.5 * self.of.sides
        while apart > 0.5:
            step = max(1, round(2.0 * apart / 3.0))
            steps.append(step)
            apart = max(0.5 * step, apart - step)
        return steps

    def _absolute(self, a: Number) -> Number:
        return self.m.choose(self.m.less(a, self.zero), self._negative(a), a)

    def _sides(self, directions: Sequence[tuple[Number, Number]]) -> list[tuple[Number, ...]]:
        """Return the side of a pyramid nearest to each direction: number, length along it, normal.

        The angle from a side to the direction falls to a third with every step: where another
        side, so many further, is nearer, it takes its place.
        """
        m, sides = self.m, self.of.sides
        found = [(self.zero, x, y, self.one, self.one, self.zero) for x, y in directions]
        for step in self._turns():
            found = [self._nearer(step, *state) for state in found]
        count = m.constant(float(sides))
        nearest = []
        for side, along, _, _, first, second in found:
            side = m.choose(m.less(side, self.zero), m.add(side, count), side)
            side = m.choose(m.less_equal(count, side), m.sub_product(self.one, count, side), side)
            nearest.append((side, along, first, second))
        return nearest

    def _nearer(
        self,
        step: int,
        side: Number,
        along: Number,
        across: Number,
        toward: Number,
        first: Number,
        second: Number,
    ) -> tuple[Number, ...]:
        """Return the nearer of a side and that some further toward a direction.

        Args:
            step: Sides between them.
            side: Number of the side.
            along: Component of the direction along the side.
            across: Component across it.
            toward: 1 or -1: how sides are counted along `across`.
            first: Direction of the side.
            second: Its second component.
        """
        m = self.m
        c, s = (m.constant(value) for value in self.of.directions[step])
        back = m.less(across, self.zero)
        across = self._absolute(across)
        toward = m.choose(back, self._negative(toward), toward)
        other = m.add_product(c, along, m.mul(s, across))
        nearer = m.less(along, other)
        turn = m.mul(s, toward)
        pairs = (
            (m.add_product(m.constant(float(step)), toward, side), side),
            (other, along),
            (m.sub_product(s, along, m.mul(c, across)), across),
            (toward, toward),
            (m.sub_product(turn, second, m.mul(c, first)), first),
            (m.add_product(turn, first, m.mul(c, second)), second),
        )
        return tuple(m.choose(nearer, new, old) for new, old in pairs)

    def _largest(self) -> Number:
        """Return the largest square of a component of x."""
        m = self.m
        largest = self.zero
        for j in range(self.n):
            x = m.load(self.x, j)
            square = m.mul(x, x)
            largest = m.choose(m.less(largest, square), square, largest)
        return largest

    def _score(self, i: Index, s: Number) -> Number:
        """Return the score of a constraint; 0 where it holds or is active."""
        m = self.m
        square = m.choose(m.less(self.zero, s), m.mul(s, s), self.zero)
        return m.mul(square, m.load(self.weights, i))

    def _note(self, first: Index, scores: list[tuple[Number, Number]]) -> None:
        """Compare scores with the best so far; of equal ones the first counts."""
        m = self.m
        while len(scores) > 1:
            scores = [self._better(scores[k : k + 2]) for k in range(0, len(scores), 2)]
        score, place = scores[0]
        better = m.less(self.get(AT.best), score)
        self.put_where(better, AT.best, score)
        self.put_where(better, AT.number, m.add(m.number(first), place))

    def _better(self, pair: Sequence[tuple[Number, Number]]) -> tuple[Number, Number]:
        """Return the pair of score and place with the larger score, the first of equal ones."""
        m, (a, *rest) = self.m, pair
        if not rest:
            return a
        b = rest[0]
        less = m.less(a[0], b[0])
        return m.choose(less, b[0], a[0]), m.choose(less, b[1], a[1])

    def _fetch(self, picking: Truth, some: Truth) -> None:
        """Write normal and right-hand side of the chosen constraint."""
        m, of = self.m, self.of
        rows = len(of.supports)
        number = self.get(AT.number)
        self._fetch_row(some, number)
        if self.round:
            is_plane = m.both(some, m.less_equal(m.constant(float(rows)), number))
            for _ in self.when(is_plane):
                self._fetch_plane(is_plane)
        equations = m.constant(float(of.equations))
        self.put_where(some, AT.which, m.add(self.get(AT.number), equations))
        self.put_where(some, AT.multiplier, self.zero)
        self.put_where(picking, AT.fresh, self.zero)
        self.put_where(some, AT.picked, self.one)

    def _fetch_row(self, some: Truth, number: Number) -> None:
        """Write normal, right-hand side and weight of a row, zeros for a cone; close the row."""
        m, of, n = self.m, self.of, self.n
        rows = len(of.supports)
        for j in range(n) if m.is_wide else m.loop(0, n, independent=True):
            m.store(self.a, j, m.choose(some, self.zero, m.load(self.a, j)))
        if not rows:
            return
        # the row behind the last one stands for none
        is_row = m.both(some, m.less(number, m.constant(float(rows))))
        row = m.index(m.choose(is_row, number, m.constant(float(rows))))
        width = max(map(len, of.supports))
        columns = [[*support, *[n] * (width - len(support))] for support in of.supports]
        table = m.table([column for line in (*columns, [n] * width) for column in line])
        # columns beyond the end of a row take its first entry to no place
        entries = [
            [start + (k if k < len(support) else 0) for k in range(width)]
            for start, support in zip(of._starts, (*of.supports, ()), strict=True)
        ]
        entries[-1] = [0] * width
        source = m.table([entry for line in entries for entry in line])
        for k in range(width):
            entry = m.load(self.given, m.lookup(source, row * width + k))
            m.store(self.a, m.lookup(table, row * width + k), entry)
        b = m.load(self.given, m.index(m.choose(is_row, number, self.zero)) + of._b2)
        self.put_where(some, AT.b, m.choose(is_row, b, self.zero))
        at = m.index(m.choose(is_row, number, m.constant(float(self.others))))
        self.put_where(is_row, AT.weight, m.load(self.weights, at))
        m.store(self.weights, at, self.zero)
        if of.cones:
            self.put_where(some, AT.first, self.zero)
            self.put_where(some, AT.second, self.zero)

    def _fetch_plane(self, mine: Truth) -> None:
        """Write a tangent plane of the chosen cone, or a side of the chosen pyramid.

        The plane in the direction of x_t cuts most off. Where a plane of the cone is active, the
        next one lies between it and that direction, as Newton's method has it: along the tangent x
        would have moved less by the factor 1 / (1 + y |p|^2 / |x_t|), with y the multiplier of the
        cone and |p|^2 the compliance of x along the tangent.
        """
        m, of, n = self.m, self.of, self.n
        count = len(self.round)
        places = [column for cone in self.round for column in cone]
        # the cone behind the last one stands for none
        read, written = m.table([*places, 0, 0, 0]), m.table([*places, n, n, n])
        cone = self.get(AT.cone)
        k = m.index(m.choose(mine, cone, m.constant(float(count))))
        self.put_where(mine, AT.entering, cone)
        self.put_where(mine, AT.b, self.zero)
        weight = m.load(self.weights, k + len(of.supports))
        self.put_where(mine, AT.weight, weight)
        x, y = (m.load(self.x, m.lookup(read, k * 3 + i)) for i in range(2))
        length = m.sqrt(m.add_product(x, x, m.mul(y, y)))
        scale = m.div(self.one, m.choose(m.both(mine, m.less(self.zero, length)), length, self.one))
        u = [m.mul(scale, x), m.mul(scale, y)]
        # planes of this cone have numbers from `first` on
        sides = m.constant(float(of.sides or 1))
        first = m.add_product(cone, sides, m.constant(of.equations + len(of.supports) - 0.5))
        self.put(AT.best, self.zero)
        for slot in m.loop(self.smallest(self.get(AT.equations)), self.top()):
            who = m.load(self.who, slot)
            same = m.both(m.less(first, who), m.less(who, m.add(first, sides)))
            force = m.choose(same, m.load(self.multipliers, slot), self.zero)
            self.put(AT.best, m.add(self.get(AT.best), force))
        bends = m.both(mine, m.less(self.zero, self.get(AT.best)))
        to = [m.lookup(written, k * 3 + i) for i in range(3)]
        self.put(AT.size, self.one)
        for _ in self.when(bends):
            m.store(self.a, to[0], self._negative(u[1]))
            m.store(self.a, to[1], u[0])
            pressed = m.mul(self.get(AT.best), scale)
            bent = m.add_product(pressed, self._compliance(), self.one)
            bent = m.choose(m.less(bent, m.constant(4.0)), bent, m.constant(4.0))
            self.put(AT.size, m.choose(bends, m.div(self.one, bent), self.one))
        mu = m.load(self.given, m.index(m.choose(mine, cone, self.zero)) + of._mu)
        share, least = self.get(AT.size), m.constant(MIN_CUT_SHARE)
        last = [m.load(self.planes, k * 2 + i) for i in range(2)]
        steepest: list[list[Number]] = []
        if of.sides and of.hints:
            # sides that were active in a similar problem go first: the most violated one if it
            # was, else another
            usual = m.div(self.one, m.add_product(mu, mu, self.one))
            middle = m.mul(usual, m.constant(0.5 * (1.0 + PREFERRED_PLANE_WEIGHT)))
            hinted = m.both(mine, m.less(middle, weight))
            steepest = self._planes([u])
            number = m.add(m.add(first, steepest[0][0]), m.constant(0.5 - of.equations))
            place = m.index(m.choose(mine, number, self.zero))
            was_active = m.less(m.constant(0.5), m.load(self.given, place + of._prefer))
            share = m.choose(hinted, m.choose(was_active, self.one, self.zero), share)
            least = m.choose(hinted, m.constant(HINT_CUT), least)
            self.put_where(hinted, AT.weight, usual)
            m.store(self.weights, k + len(of.supports), m.choose(hinted, usual, weight))
        between = [
            m.add_product(share, m.sub_product(self.one, old, new), old)
            for new, old in zip(u, last, strict=True)
        ]
        planes = [*steepest, *self._planes([between] if steepest else [u, between])]
        # the last plane may have left since: what is chosen must cut off a good part
        between = planes[1][1:]
        limit = m.mul(mu, m.load(self.x, m.lookup(read, k * 3 + 2)))
        cut = m.sub_product(self.one, limit, m.add_product(between[0], x, m.mul(between[1], y)))
        shallow = m.less_equal(cut, m.mul(least, self.get(AT.violation)))
        if of.sides:
            # and more than rounding
            size = m.add_product(limit, limit, m.mul(length, length))
            bound = m.mul(m.constant(4.0 * VIOLATION_TOLERANCE**2), size)
            shallow = m.either(shallow, m.less_equal(m.mul(cut, cut), bound))
        side, *u = (m.choose(shallow, *pair) for pair in zip(*planes, strict=True))
        if of.sides:
            number = m.add(m.add(first, side), m.constant(0.5 - of.equations))
            self.put_where(mine, AT.number, number)
        for i, place in enumerate((AT.first, AT.second)):
            self.put_where(mine, place, u[i])
            u[i] = self.get(place)
            m.store(self.planes, k * 2 + i, u[i])
            m.store(self.a, to[i], self._negative(u[i]))
        m.store(self.a, to[2], mu)

    def _planes(self, toward: Sequence[Sequence[Number]]) -> list[list[Number]]:
        """Return tangent planes, or the sides next to them: number of the side, and direction.

        Args:
            toward: Directions, of any length.
        """
        m = self.m
        if self.of.sides:
            return [[side, *u] for side, _, *u in self._sides([(x, y) for x, y in toward])]
        found = []
        for x, y in toward:
            square = m.add_product(x, x, m.mul(y, y))
            scale = m.div(self.one, m.sqrt(m.choose(m.less(self.zero, square), square, self.one)))
            found.append([self.zero, m.mul(scale, x), m.mul(scale, y)])
        return found

    def step(self) -> None:
        """Take one step: until the entering constraint holds, or a multiplier vanishes."""
        m = self.m
        running = self.going()
        for _ in self.when(running):
            self.directions(self.get(AT.b))
            s, size = self.get(AT.s), self.get(AT.size)
            rounding = m.mul(m.constant(VIOLATION_TOLERANCE * VIOLATION_TOLERANCE), size)
            rounding = m.choose(self.is_set(AT.picked), rounding, m.constant(-1.0))
            self.put(AT.picked, self.zero)
            slight = m.both(running, m.less_equal(m.mul(s, s), rounding))
            self._return(slight)
            self._step(m.both(running, m.less(rounding, m.mul(s, s))), s, size)

    def _return(self, slight: Truth) -> None:
        """Return a constraint that was chosen because of rounding; choose again with care."""
        for _ in self.when(slight):
            self._put_weight(slight, self.get(AT.which), self.get(AT.weight))
            self.put_where(slight, AT.fresh, self.one)
            self.put_where(slight, AT.careful, self.one)

    def _put_weight(self, condition: Truth, which: Number, weight: Number) -> None:
        """Write the weight of a constraint; cones keep theirs."""
        m, of = self.m, self.of
        number = m.add(which, m.constant(-float(of.equations)))
        is_row = m.both(condition, m.less(number, m.constant(float(len(of.supports)))))
        at = m.choose(is_row, number, m.constant(float(self.others)))
        m.store(self.weights, m.index(at), weight)

    def _step(self, on: Truth, s: Number, size: Number) -> None:
        m = self.m
        square, whole = self.get(AT.square), self.get(AT.whole)
        independent = m.less(m.mul(m.constant(DEPENDENT_SHARE), whole), square)
        first, last = self.smallest(self.get(AT.equations)), self.top()
        self._multiplier_direction(self.get(AT.equations), first, last)
        # of constraints that a dependent one is made of, rounding is none
        self.put(AT.noise, self.zero)
        dependent = m.both(on, m.less_equal(square, m.mul(m.constant(DEPENDENT_SHARE), whole)))
        for _ in self.when(dependent):
            for k in m.loop(first, last):
                r = m.load(self.r, k)
                part = m.mul(m.constant(MIN_DIRECTION * MIN_DIRECTION), m.mul(r, r))
                part = m.choose(dependent, part, self.zero)
                self.put_where(m.less(self.get(AT.noise), part), AT.noise, part)
        # the first active inequality whose multiplier vanishes, and the length until then
        self.put(AT.best, self.one)
        self.put(AT.size, self.zero)
        self.put(AT.number, m.constant(-1.0))
        for k in m.loop(first, last):
            r, y = m.load(self.r, k), m.load(self.multipliers, k)
            # compare ratios without dividing
            sooner = m.less(m.mul(y, self.get(AT.size)), m.mul(self.get(AT.best), r))
            falls = m.both(m.less(self.zero, r), m.less(self.get(AT.noise), m.mul(r, r)))
            sooner = m.both(sooner, falls)
            self.put_where(sooner, AT.best, y)
            self.put_where(sooner, AT.size, r)
            self.put_where(sooner, AT.number, m.number(k))
        falls = m.less(self.zero, self.get(AT.size))
        bounded = m.div(self.get(AT.best), m.choose(falls, self.get(AT.size), self.one))
        bounded = m.choose(falls, bounded, m.constant(UNBOUNDED_STEP))
        full = m.div(s, m.choose(independent, square, self.one))
        full = m.choose(independent, full, m.constant(UNBOUNDED_STEP))
        step = m.choose(m.less(bounded, full), bounded, full)
        stuck = m.both(on, m.less_equal(m.constant(UNBOUNDED_STEP), step))
        free = m.both(on, m.less(step, m.constant(UNBOUNDED_STEP)))
        for _ in self.when(stuck):
            self._give_up(stuck, s, size)
        step = m.choose(free, step, self.zero)
        self.move(m.choose(independent, step, self.zero))
        for k in m.loop(first, last, independent=True):
            old = m.load(self.multipliers, k)
            m.store(self.multipliers, k, m.sub_product(step, m.load(self.r, k), old))
        self.put(AT.multiplier, m.add(self.get(AT.multiplier), step))
        enters = m.both(free, m.less_equal(full, bounded))
        leaves = m.both(free, m.less(bounded, full))
        leaving = self.get(AT.number)
        self.add(enters)
        self.put_where(enters, AT.fresh, self.one)
        self._unpark(m.both(enters, self.is_set(AT.parked)))
        for _ in self.when(leaves):
            self._drop(leaves, leaving)
        self.put(AT.iterations, m.add(self.get(AT.iterations), self.flag(on)))

    def _give_up(self, stuck: Truth, s: Number, size: Number) -> None:
        """Note that there is no solution; leave out what rounding violates."""
        m = self.m
        bound = m.add_product(
            m.constant(CONTRADICTION_TOLERANCE * CONTRADICTION_TOLERANCE), size, self._rounding()
        )
        # rounding violates a constraint that follows from active ones
        hopeless = m.both(m.less_equal(bound, m.mul(s, s)), self._contradicts())
        hopeless = m.both(stuck, hopeless)
        slight = m.choose(stuck, self.one, self.zero)
        slight = m.less(self.zero, m.choose(hopeless, self.zero, slight))
        self.put_where(hopeless, AT.status, m.constant(INFEASIBLE))
        self.put_where(hopeless, AT.multiplier, self.one)
        self._put_weight(slight, self.get(AT.which), self._negative(self.get(AT.weight)))
        if self.round:
            rows = len(self.of.supports)
            first = m.constant(float(self.of.equations + rows))
            of_plane = m.both(slight, m.less_equal(first, self.get(AT.which)))
            place = m.add(self.get(AT.entering), m.constant(float(rows)))
            place = m.index(m.choose(of_plane, place, m.constant(float(self.others))))
            m.store(self.weights, place, self._negative(self.get(AT.weight)))
        self.put_where(slight, AT.parked, self.one)
        self.put_where(slight, AT.fresh, self.one)

    def _contradicts(self) -> Truth:
        """Return whether active constraints contradict the entering one: b > r . b.

        Right-hand sides tell where x has none but rounding: all of those that vanish agree, and so
        do those that only rounding of r, relative to its largest entry, combines.
        """
        m, of = self.m, self.of
        top = self.top()
        b = self.get(AT.b)
        self._multiplier_direction(self.zero, 0, top)
        self.put(AT.best, b)
        self.put(AT.size, m.mul(b, b))
        self.put(AT.noise, self.one)
        self.put(AT.violation, m.mul(b, b))
        end = m.constant(float(of.equations))
        for k in m.loop(0, top):
            who = m.load(self.who, k)
            own = self.zero
            if of.equations:
                mine = m.both(m.less_equal(self.zero, who), m.less(who, end))
                place = m.index(m.choose(mine, who, self.zero)) + of._b1
                own = m.choose(mine, m.load(self.given, place), own)
            if of.supports:
                last = m.constant(float(of.equations + len(of.supports)))
                mine = m.both(m.less_equal(end, who), m.less(who, last))
                number = m.choose(mine, m.sub_product(self.one, end, who), self.zero)
                own = m.choose(mine, m.load(self.given, m.index(number) + of._b2), own)
            r = m.load(self.r, k)
            term = m.mul(r, own)
            self.put(AT.best, m.sub_product(self.one, term, self.get(AT.best)))
            self.put(AT.size, m.add_product(term, term, self.get(AT.size)))
            self.put(AT.violation, m.add_product(own, own, self.get(AT.violation)))
            square = m.mul(r, r)
            self.put_where(m.less(self.get(AT.noise), square), AT.noise, square)
        gain = self.get(AT.best)
        noise = m.mul(m.constant(MIN_DIRECTION * MIN_DIRECTION), self.get(AT.noise))
        bound = m.add_product(
            m.constant(CONTRADICTION_TOLERANCE * CONTRADICTION_TOLERANCE),
            self.get(AT.size),
            m.mul(noise, self.get(AT.violation)),
        )
        found = m.both(m.less(self.zero, gain), m.less(bound, m.mul(gain, gain)))
        # other cases go on with their own direction
        self._multiplier_direction(
            self.get(AT.equations), self.smallest(self.get(AT.equations)), top
        )
        return found

    def _multiplier_direction(self, start: Number, first: Index, last: Index) -> None:
        """Write r = R^-1 d over the active constraints from a place on, 0 before.

        Args:
            start: The place, in each case.
            first: The smallest of all cases.
            last: Most active constraints of all cases.
        """
        m, n = self.m, self.n
        for k in m.loop(first, last, independent=True):
            m.store(self.r, k, m.load(self.d, k))
        for k in m.loop(first, last, down=True):
            r = m.mul(m.load(self.r, k), m.load(self.inverse, k))
            r = m.choose(m.less_equal(start, m.number(k)), r, self.zero)
            m.store(self.r, k, r)
            for i in m.loop(first, k, independent=True):
                old = m.load(self.r, i)
                m.store(self.r, i, m.sub_product(r, m.load(self.R, k * n + i), old))

    def _unpark(self, condition: Truth) -> None:
        """Look at constraints again that were left out."""
        m = self.m
        for _ in self.when(condition):
            for i in m.loop(0, self.others):
                old = m.load(self.weights, i)
                parked = m.both(condition, m.less(old, self.zero))
                m.store(self.weights, i, m.choose(parked, self._negative(old), old))
            self.put_where(condition, AT.parked, self.zero)

    def _drop(self, leaves: Truth, leaving: Number) -> None:
        """Remove an active constraint; rotations make R a triangle again."""
        m, n = self.m, self.n
        last = m.add(self.get(AT.q), m.constant(-1.0))
        at = m.index(m.choose(leaves, leaving, self.zero))
        self._put_weight(leaves, m.load(self.who, at), m.load(self.weight, at))
        top = self.top()
        for k in m.loop(0, top + -1):
            number = m.number(k)
            moved = m.both(m.less_equal(leaving, number), m.less(number, last))
            moved = m.both(leaves, moved)
            for _ in self.when(moved):
                self._rotate(k, moved, top)
        # nothing is left at the last place
        for k in m.loop(self.smallest(m.choose(leaves, last, m.constant(float(n)))), top):
            end = m.both(leaves, self._equal(m.number(k), last))
            for _ in self.when(end):
                for j in m.loop(0, n, independent=True):
                    old = m.load(self.Q, k * n + j)
                    m.store(self.Q, k * n + j, m.choose(end, self.zero, old))
                for i in m.loop(0, k + 1, independent=True):
                    old = m.load(self.R, k * n + i)
                    m.store(self.R, k * n + i, m.choose(end, self.zero, old))
                for row in (self.inverse, *self._moving()[:-1]):
                    m.store(row, k, m.choose(end, self.zero, m.load(row, k)))
                m.store(self.who, k, m.choose(end, m.constant(-1.0), m.load(self.who, k)))
        self.put_where(leaves, AT.q, last)

    def _rotate(self, k: Index, moved: Truth, top: Index) -> None:
        """Shift the constraint after k to k, and rotate rows k and k + 1 to a triangle."""
        m, n = self.m, self.n
        after = (k + 1) * n
        a, b = m.load(self.R, after + k), m.load(self.R, after + k + 1)
        for i in m.loop(0, k, independent=True):
            old = m.load(self.R, k * n + i)
            m.store(self.R, k * n + i, m.choose(moved, m.load(self.R, after + i), old))
        for row in self._moving():
            m.store(row, k, m.choose(moved, m.load(row, k + 1), m.load(row, k)))
        length = m.sqrt(m.choose(moved, m.add_product(a, a, m.mul(b, b)), self.one))
        some = m.less(self.zero, length)
        inverse = m.div(self.one, m.choose(some, length, self.one))
        m.store(self.R, k * n + k, m.choose(moved, length, m.load(self.R, k * n + k)))
        m.store(self.inverse, k, m.choose(moved, inverse, m.load(self.inverse, k)))
        turns = m.both(moved, some)
        c = m.choose(turns, m.mul(a, inverse), self.one)
        s = m.choose(turns, m.mul(b, inverse), self.zero)
        for j in m.loop(k + 2, top, independent=True):
            self._turn(self.R, j * n + k, j * n + k + 1, c, s)
        for j in m.loop(0, n, independent=True):
            self._turn(self.Q, k * n + j, after + j, c, s)

    def _turn(self, row: Memory, i: Index, j: Index, c: Number, s: Number) -> None:
        """Rotate two numbers."""
        m = self.m
        a, b = m.load(row, i), m.load(row, j)
        m.store(row, i, m.add_product(c, a, m.mul(s, b)))
        m.store(row, j, m.sub_product(s, a, m.mul(c, b)))

    # results

    def finish(self) -> None:
        """Write x, the multipliers of all constraints and the status."""
        m, n, of = self.m, self.n, self.of
        status = self.get(AT.status)
        solved = m.less_equal(status, self.zero)
        asked = m.both(self.is_set(AT.bending), self.is_set(AT.kept))

        def put(place: Index, value: Number) -> None:
            # cases that are done keep what they have
            kept = m.choose(asked, value, m.load(self.found, place)) if of.cones else value
            m.store(self.found, place, kept)

        # the gradient W x + c; where there is no solution, the entering constraint
        for first, part, entry in self.parts():
            for begin, size, at in self.blocks(first, part, entry):
                for i in range(size) if size <= UNROLLED_BLOCK else m.loop(0, size):
                    product = self.dot(self.given, at + i * size, self.x, size, begin)
                    gradient = m.add(m.load(self.given, begin + i + of._c), product)
                    old = m.load(self.a, begin + i)
                    m.store(self.a, begin + i, m.choose(solved, gradient, old))
                self._forward(begin, size, at, self.a, self.p)
        top = self.top()
        for k in m.loop(0, top):
            m.store(self.d, k, self.dot(self.Q, k * n, self.p, n))
        self._multiplier_direction(self.zero, 0, top)
        for k in m.loop(n - 1, n + of.constraints, independent=True):
            put(k, self.zero)
        sign, equations = self._negative(self.get(AT.multiplier)), m.constant(float(of.equations))
        for k in m.loop(0, top):
            r, who = m.load(self.r, k), m.load(self.who, k)
            factor = m.mul(sign, r)
            # rounding of a Farkas vector
            negative = m.both(m.less_equal(equations, who), m.less(factor, self.zero))
            y = m.choose(solved, r, m.choose(negative, self.zero, factor))
            self._add_multiplier(who, m.choose(asked, y, self.zero))
        entering = m.both(asked, m.less(self.zero, status))
        for _ in self.when(entering):
            which = m.choose(entering, self.get(AT.which), m.constant(-1.0))
            self._add_multiplier(which, m.choose(entering, self.get(AT.multiplier), self.zero))
        # places that nothing belongs to are before the first multiplier, where x comes now
        for i in m.loop(0, n, independent=True):
            put(i, m.load(self.x, i))
        end = n + of.constraints
        unfinished = m.less(status, self.zero)
        put(end, m.choose(unfinished, m.constant(UNFINISHED), status))
        put(end + 1, self.get(AT.iterations))
        put(end + 2, m.sub_product(self.one, self.get(AT.equations), self.get(AT.q)))

    def _add_multiplier(self, which: Number, y: Number) -> None:
        """Add to the multiplier of a constraint; -1 for none."""
        m = self.m
        place = m.index(m.add(which, m.constant(float(self.n))))
        m.store(self.found, place, m.add(m.load(self.found, place), y))

    def _negative(self, a: Number) -> Number:
        return self.m.sub_product(self.one, a, self.zero)

    # Newton's method on active cones

    def bend(self) -> None:
        """Prepare the next round: W with the curvature of active cones, and what is active.

        Tangent planes meet a cone to the square root of their tolerance. The optimum on planes in
        the direction of x_t, with y |x_t|^-1 (tau . x)^2 / 2 added to the objective for each active
        cone (tau the tangent), is a step of Newton's method; the added terms vanish at its end.
        """
        m, of, n = self.m, self.of, self.n
        if not of.cones:
            self.put(AT.bending, self.zero)
            return
        on = m.both(self.is_set(AT.bending), self._equal(self.get(AT.status), self.zero))
        self.put(AT.bending, self.flag(m.both(on, m.less(self.get(AT.kept), self.one))))
        largest = self._largest()
        for k in m.loop(0, of._c, independent=True):
            m.store(self.W, k, m.load(self.given, k))
        columns = m.table([column for cone in of.cones for column in cone])
        entries = m.table([place for cone in of.cones for place in self._coupled(*cone[:2])])
        first = n + of.equations + len(of.supports)
        for k in m.loop(0, len(of.cones)):
            x, y = (m.load(self.x, m.lookup(columns, k * 3 + i)) for i in range(2))
            square = m.add_product(x, x, m.mul(y, y))
            force = m.load(self.found, k + first)
            # cones at their apex stay there
            bends = m.less(m.mul(m.constant(APEX_FORCE * APEX_FORCE), largest), square)
            bends = m.both(m.both(on, bends), m.less(self.zero, force))
            inverse = m.div(self.one, m.sqrt(m.choose(bends, square, self.one)))
            bend = m.choose(bends, m.mul(force, inverse), self.zero)
            m.store(self.bends, k, bend)
            u = [m.mul(x, inverse), m.mul(y, inverse)]
            tau = [self._negative(u[1]), u[0]]
            turn = self.zero
            for i in range(2):
                old = m.load(self.turned, k * 2 + i)
                apart = m.sub_product(self.one, old, u[i])
                turn = m.add_product(apart, apart, turn)
                m.store(self.turned, k * 2 + i, m.choose(bends, u[i], old))
            for i, (a, b) in enumerate(itertools.product(tau, repeat=2)):
                place = m.lookup(entries, k * 4 + i)
                old = m.load(self.W, place)
                m.store(self.W, place, m.add_product(bend, m.mul(a, b), old))
            turns = m.both(bends, m.less(m.constant(TURN_TOLERANCE * TURN_TOLERANCE), turn))
            self.put_where(turns, AT.bending, self.one)
        m.store(self.bends, len(of.cones), self.zero)
        self.put(AT.held, self.get(AT.q))
        for k in m.loop(0, self.top()):
            self._hold(k)

    def _coupled(self, i: int, j: int) -> list[int]:
        """Return the places of the entries of W at two variables of a block: ii, ij, ji, jj."""
        begin = entry = 0
        for size in self.of.blocks:
            if begin <= i < begin + size:
                return [
                    entry + (a - begin) * size + (b - begin)
                    for a, b in itertools.product((i, j), repeat=2)
                ]
            begin, entry = begin + size, entry + size * size
        raise AssertionError("a cone of no variable")

    def _hold(self, k: Index) -> None:
        """Note an active constraint for the next round; planes turn to the direction of x_t."""
        m, of = self.m, self.of
        who = m.load(self.who, k)
        cones = m.constant(float(of.equations + len(of.supports)))
        is_cone = m.less_equal(cones, who)
        number = m.sub_product(self.one, cones, who)
        cone = m.index(m.choose(is_cone, number, m.constant(float(len(of.cones)))))
        turns = m.less(self.zero, m.load(self.bends, cone))
        pulls = m.less(m.load(self.multipliers, k), self.zero)
        m.store(self.held, k, m.choose(pulls, m.constant(-1.0), who))
        for i, (row, to) in enumerate(
            ((self.first, self.held_first), (self.second, self.held_second))
        ):
            m.store(to, k, m.choose(turns, m.load(self.turned, cone * 2 + i), m.load(row, k)))

    def enter_held(self) -> None:
        """Make the constraints active that were so in the round before."""
        m = self.m
        for k in m.loop(0, m.largest(self.get(AT.held), self.n)):
            number = m.add(m.load(self.held, k), m.constant(-float(self.of.equations)))
            on = m.both(self.going(), m.less(m.number(k), self.get(AT.held)))
            on = m.both(on, m.less_equal(self.zero, number))
            for _ in self.when(on):
                self._enter(k, on, number)
        # a constraint that pulls does not belong here: the next round goes without it
        self.put(AT.kept, self.one)
        self.put(AT.best, self.zero)
        self.put(AT.size, self.zero)
        for k in m.loop(self.smallest(self.get(AT.equations)), self.top()):
            mine = m.less_equal(self.get(AT.equations), m.number(k))
            y = m.choose(mine, m.load(self.multipliers, k), self.zero)
            self.put_where(m.less(self.get(AT.best), y), AT.best, y)
            self.put_where(m.less(y, self.get(AT.size)), AT.size, y)
        bound = m.mul(m.constant(-NEGATIVE_MULTIPLIER), self.get(AT.best))
        pulls = m.both(self.going(), m.less(self.get(AT.size), bound))
        self.put_where(pulls, AT.kept, self.zero)
        self.put_where(pulls, AT.status, m.constant(OPTIMAL))

    def judge(self) -> None:
        """Give up rounds without solution, or whose planes lost their cones: keep that before."""
        m, of = self.m, self.of
        held = m.less(self.zero, self.get(AT.held))
        status = self.get(AT.status)
        none = m.either(m.less(status, self.zero), m.less(self.zero, status))
        self.put_where(m.both(held, none), AT.bending, self.zero)
        columns = m.table([column for cone in of.cones for column in cone])
        for k in m.loop(0, len(of.cones)):
            x, y, normal = (m.load(self.x, m.lookup(columns, k * 3 + i)) for i in range(3))
            square = m.add_product(x, x, m.mul(y, y))
            s = m.sub_product(m.load(self.given, k + of._mu), normal, m.sqrt(square))
            bound = m.mul(
                m.constant(FAILED_STEP_VIOLATION), m.sqrt(m.add_product(normal, normal, square))
            )
            lost = m.both(held, m.less(bound, s))
            lost = m.both(lost, m.less(self.zero, m.load(self.bends, k)))
            self.put_where(lost, AT.bending, self.zero)

    def _enter(self, k: Index, on: Truth, number: Number) -> None:
        """Make a constraint active, whatever the sign of its multiplier."""
        m, of = self.m, self.of
        count = len(of.cones)
        self._fetch_row(on, number)
        rows = m.constant(float(len(of.supports)))
        is_cone = m.both(on, m.less_equal(rows, number))
        cone = m.choose(is_cone, m.sub_product(self.one, rows, number), m.constant(float(count)))
        place = m.index(cone)
        columns = m.table([*(c for cone in of.cones for c in cone), *[self.n] * 3])
        u = [m.load(row, k) for row in (self.held_first, self.held_second)]
        mu = m.load(self.given, m.index(m.choose(is_cone, cone, self.zero)) + of._mu)
        for i, entry in enumerate((*map(self._negative, u), mu)):
            m.store(self.a, m.lookup(columns, place * 3 + i), entry)
        # its curvature takes the place of more planes
        bends = m.both(is_cone, m.less(self.zero, m.load(self.bends, place)))
        closed = m.choose(bends, number, m.constant(float(self.others)))
        m.store(self.weights, m.index(closed), self.zero)
        self.put_where(is_cone, AT.b, self.zero)
        self.put_where(is_cone, AT.first, u[0])
        self.put_where(is_cone, AT.second, u[1])
        self.put_where(on, AT.which, m.add(number, m.constant(float(of.equations))))
        self.directions(self.get(AT.b))
        share = m.mul(m.constant(DEPENDENT_SHARE), self.get(AT.whole))
        enters = m.both(on, m.less(share, self.get(AT.square)))
        depends = m.both(on, m.less_equal(self.get(AT.square), share))
        self._put_weight(depends, self.get(AT.which), self.get(AT.weight))
        step = m.div(self.get(AT.s), m.choose(enters, self.get(AT.square), self.one))
        step = m.choose(enters, step, self.zero)
        first, last = self.smallest(self.get(AT.equations)), self.top()
        self._multiplier_direction(self.get(AT.equations), first, last)
        self.move(step)
        for i in m.loop(first, last, independent=True):
            old = m.load(self.multipliers, i)
            m.store(self.multipliers, i, m.sub_product(step, m.load(self.r, i), old))
        self.put_where(on, AT.multiplier, step)
        self.add(enters)
