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
    JT          Q^T L^-1; its leading rows belong to the active constraints
    R           upper triangle, L^-1 N = Q [R; 0], N the normals of the active constraints
    q           number of active constraints, the equations first
    a, b        the entering constraint a . x >= b, and s = a . x - b its violation
    d, z, r     JT a; direction of x; R^-1 d, direction of the multipliers

The exact friction cone is the limit of its tangent planes: where it is violated, the plane that
touches it in the direction of x_t enters as a constraint of its own. Constraints that differ little
in direction are independent as long as `DEPENDENT` allows.

All cases of a batch run the same instructions; a case's own place in a row is found by comparison,
and parts that no case of a vector needs are skipped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.errors import ShapeError
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.primitive import (
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    Truth,
    array_of,
    is_zero_row,
    nodes_of,
    numbers_of,
    shape_of,
    square_size,
)
from tiburon.trace.value import Value, where

__all__ = [
    "INFEASIBLE",
    "NOT_CONVEX",
    "OPTIMAL",
    "UNFINISHED",
    "DualActiveSet",
    "QPSolution",
    "solve_qp",
]

OPTIMAL, INFEASIBLE, NOT_CONVEX, UNFINISHED = 0.0, 1.0, 2.0, 3.0
"""Values of the status: solved; no x satisfies the constraints; W is not positive definite; the
limit of iterations was reached."""

VIOLATED = 1e-12
"""Violation of a constraint relative to the terms of a . x - b, above which it enters."""

CONTRADICTS = 1e-9
"""Residual of an equation that depends on others, relative to its terms, above which no x
satisfies them all."""

CONE_VIOLATED = 1e-7
"""Violation of a friction cone relative to x_n, above which a tangent plane enters; steps of
Newton's method on the active cones do the rest."""

NEWTON_STEPS = 2
"""Steps of Newton's method on active cones: the first is off by 1e-4, its square is 1e-8, then
rounding."""

NEWTON = 1e-2
"""Length of a step relative to x above which the active cones are not those of the optimum."""

LOCKED = 1e16
"""Factor of the weight of variables that do not move."""

APEX = 1e-4
"""Tangential force relative to the largest at or below which a cone is at its apex."""

DEPENDENT = 1e-20
"""Square of the share of a constraint's normal, in the metric of W^-1, that is independent of the
active ones, at or below which it depends on them."""

LOST_PIVOT = 2.0**-46
"""Ratio of a pivot to its diagonal element below which W is not positive definite."""

PARKED = 0.75
"""Mark of a constraint that is left out until another one enters."""

PREFERRED = 1e12
"""Factor of the squared violation of preferred constraints."""

TREE = 8
"""Scores that are compared in a tree at a time."""

FAR = 1e300
"""Length of a step that nothing bounds."""


class DualActiveSet(Primitive):
    """Solve a quadratic program.

    Arguments: the diagonal blocks of W, each row by row; c; A1 row by row; b1; A2, for each row its
    entries over its support; b2; mu of each cone; preference of each inequality and cone, above 0.5
    for those that were active in a similar problem: they enter first.
    Results: x; multipliers of A1, A2 and the cones (if infeasible, a Farkas vector y with
    y2 >= 0, A^T y = 0, b . y > 0); status; iterations; number of active inequalities.

    Attributes:
        blocks: Sizes of the diagonal blocks of W.
        size: Number of variables.
        equations: Rows of A1.
        supports: For each row of A2 the columns where it is not zero.
        cones: Columns of two tangents and the normal of each friction cone.
        most: Most iterations.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        equations: int,
        supports: Sequence[Sequence[int]],
        cones: Sequence[tuple[int, int, int]] = (),
        most: int | None = None,
    ) -> None:
        size = sum(blocks)
        limit = 10 * (size + len(supports)) + 40 * len(cones) if most is None else most
        lengths = [len(support) for support in supports]
        flat = [column for support in supports for column in support]
        around = [column for cone in cones for column in cone]
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
        )
        self.blocks = tuple(blocks)
        self.size = size
        self.equations = equations
        self.supports = tuple(tuple(support) for support in supports)
        self.cones = tuple(cones)
        self.most = limit
        n, rows, k = size, len(supports), len(cones)
        self._c = sum(block * block for block in blocks)
        self._A1 = self._c + n
        self._b1 = self._A1 + equations * n
        self._A2 = self._b1 + equations
        self._starts = list(itertools.accumulate(lengths, initial=self._A2))
        self._b2 = self._starts[-1]
        self._mu = self._b2 + rows
        self._prefer = self._mu + k
        self.argument_count = self._prefer + rows + k
        self.result_count = n + equations + rows + k + 3

    @property
    def constraints(self) -> int:
        """Number of equations, inequalities and cones."""
        return self.equations + len(self.supports) + len(self.cones)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Start at the optimum of the equations, then let violated constraints enter."""
        work = _Work(m, given, found, self)
        work.start()
        for e in m.loop(0, self.equations):
            work.enter_equation(e)
        for _ in m.iterate(self.most, work.going):
            work.choose_constraint()
            work.step()
        work.finish()

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
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
        for (_, _, j), y, on, dmu in zip(self.cones, at.yc, at.cone_on, change.mu, strict=True):
            linear[j] = linear[j] - on * y * dmu
            right.append(-on * at.x[j] * dmu)
        found = at.solve(linear, right)
        still = [graph.const(0.0)] * 3
        return [*nodes_of(graph, found[: self.size + self.constraints]), *still]

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoints of the arguments: the same equations, transposed."""
        n = self.size
        if is_zero_row(graph, adjoints[: n + self.constraints]):
            return [graph.const(0.0)] * self.argument_count
        at = _Optimum(self, *([Value(graph, x) for x in row] for row in (args, results)))
        given = [Value(graph, node) for node in adjoints[: n + self.constraints]]
        held = [1.0] * self.equations + [*at.on, *at.cone_on]
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
        none = [0.0] * (len(self.supports) + len(self.cones))
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
        ends = itertools.accumulate((n, of.equations, len(of.supports), len(of.cones)), initial=0)
        self.x, self.y1, self.y2, self.yc = (found[a:b] for a, b in itertools.pairwise(ends))
        self.on = [where(y > 0.0, 1.0, 0.0) for y in self.y2]
        """1 for each active inequality."""
        largest: Any = 0.0
        for x in self.x:
            largest = np.maximum(largest, np.abs(x))
        self.largest = largest
        pressed = [where(y > 0.0, 1.0, 0.0) for y in self.yc]
        self.locked = [
            where(self._length(cone) > APEX * largest, 0.0, on)
            for cone, on in zip(of.cones, pressed, strict=True)
        ]
        """1 for each active cone at its apex, where nothing can move."""
        self.cone_on = [on - apex for on, apex in zip(pressed, self.locked, strict=True)]
        """1 for each other active cone."""

    def solve(self, linear: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """Return dx and dy of W' dx + linear = A^T dy, A dx = right."""
        of, n, given = self._of, self._of.size, self._given
        W = dict(zip(of._entries(), given.W, strict=True))
        rows = [{j: given.A1[k * n + j] for j in range(n)} for k in range(of.equations)]
        place = 0
        for support, on in zip(of.supports, self.on, strict=True):
            rows.append({j: on * given.A2[place + k] for k, j in enumerate(support)})
            place += len(support)
        for cone, on, y, mu in zip(of.cones, self.cone_on, self.yc, given.mu, strict=True):
            u, inverse = self._direction(cone)
            rows.append({cone[0]: -on * u[0], cone[1]: -on * u[1], cone[2]: on * mu})
            # curvature of the cone across the direction of x_t
            across = on * y * inverse
            for a, b in itertools.product(range(2), repeat=2):
                bend = across * ((1.0 if a == b else 0.0) - u[a] * u[b])
                key = (cone[a], cone[b])
                W[key] = W[key] + bend if key in W else bend
        for cone, locked in zip(of.cones, self.locked, strict=True):
            for j in cone:
                W[j, j] = W[j, j] * (1.0 + locked * LOCKED)
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

    def improved(self) -> list[Any]:
        """Return x and the multipliers after a step of Newton's method on the active constraints.

        Tangent planes meet a cone to the square root of their tolerance. Cones at their apex, and
        solutions whose step is not small, stay as they are.
        """
        of, n, given = self._of, self._of.size, self._given
        linear, right = self.conditions(given)
        for cone, on, y, mu in zip(of.cones, self.cone_on, self.yc, given.mu, strict=True):
            u, _ = self._direction(cone)
            normal = (-u[0], -u[1], mu)
            for j, a in zip(cone, normal, strict=True):
                linear[j] = linear[j] - on * y * a
            gap = sum(a * self.x[j] for a, j in zip(normal, cone, strict=True))
            right.append(-on * gap)
        for cone, locked in zip(of.cones, self.locked, strict=True):
            for j in cone:
                linear[j] = (1.0 - locked) * linear[j]
        found = self.solve(linear, right)
        step: Any = 0.0
        for x in found[:n]:
            step = np.maximum(step, np.abs(x))
        good = where(step <= NEWTON * self.largest, 1.0, 0.0)
        held = [1.0] * (n + of.equations) + [*self.on, *self.cone_on]
        before = [*self.x, *self.y1, *self.y2, *self.yc]
        changes = found[: len(before)]
        return [a + good * on * b for a, on, b in zip(before, held, changes, strict=True)]


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
    """Multipliers of the tangent planes of each cone, summed."""

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
        shapes["prefer"] = (prefer, (m2 + len(cones),))
    for name, (value, expected) in shapes.items():
        if shape_of(value) != expected:
            raise ShapeError(name, expected, shape_of(value))
    flat = numbers_of(W)
    blocks = _blocks(flat, n)
    ends = list(itertools.accumulate(blocks, initial=0))
    entries = [
        flat[i * n + j]
        for begin, end in itertools.pairwise(ends)
        for i in range(begin, end)
        for j in range(begin, end)
    ]
    rows = numbers_of(A2) if m2 else []
    supports = [[j for j in range(n) if not _is_zero(rows[i * n + j])] for i in range(m2)]
    primitive = DualActiveSet(blocks, m1, supports, cones)
    given = [
        *entries,
        *numbers_of(c),
        *(numbers_of(A1) if m1 else ()),
        *(numbers_of(b1) if m1 else ()),
        *(rows[i * n + j] for i, support in enumerate(supports) for j in support),
        *(numbers_of(b2) if m2 else ()),
        *(numbers_of(mu) if cones else ()),
        *([0.0] * (m2 + len(cones)) if prefer is None else numbers_of(prefer)),
    ]
    found = primitive.apply(given)
    for _ in range(NEWTON_STEPS if cones else 0):
        found = [*_Optimum(primitive, given, found).improved(), *found[-3:]]
    sizes = itertools.accumulate((n, m1, m2, len(cones)), initial=0)
    parts = [array_of(found[a:b], (b - a,)) for a, b in itertools.pairwise(sizes)]
    return QPSolution(*parts, *found[-3:])


def _blocks(flat: Sequence[Any], n: int) -> list[int]:
    """Return the sizes of the diagonal blocks of a matrix, by zeros that are known."""
    sizes, begin, end = [], 0, 0
    for i in range(n):
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
    """Square of the worst violation so far, and below it the square of that normal's length."""
    length: int = 9
    parked: int = 10
    """1 where a constraint is left out until another one enters."""
    total: int = 11


AT = _Entering()


class _Work:
    """Memory of a run of the primitive and the steps of the method."""

    def __init__(self, m: Machine, given: Memory, found: Memory, of: DualActiveSet) -> None:
        self.m, self.given, self.found, self.of = m, given, found, of
        n = self.n = of.size
        self.zero, self.one = m.constant(0.0), m.constant(1.0)
        self.J, self.R = m.memory(n * n), m.memory(n * n)
        self.x, self.a, self.d, self.z, self.r, self.w = (m.memory(n) for _ in range(6))
        self.multipliers, self.who = m.memory(n), m.memory(n)
        self.one_values = m.memory(AT.total)
        parts = -(-(of.constraints - of.equations) // TREE) * TREE
        self.lengths, self.active, self.scores = (m.memory(parts) for _ in range(3))
        self.numbers = max(n, of.constraints, parts) + 1
        self.count = m.memory(self.numbers)

    # single values and conditions

    def get(self, place: int) -> Number:
        return self.m.load(self.one_values, place)

    def put(self, place: int, value: Number) -> None:
        self.m.store(self.one_values, place, value)

    def put_where(self, condition: Truth, place: int, value: Number) -> None:
        self.put(place, self.m.choose(condition, value, self.get(place)))

    def number(self, k: Index) -> Number:
        """Return an index as a float."""
        return self.m.load(self.count, k)

    def going(self) -> Truth:
        """Return whether a case is neither solved nor given up."""
        return self.m.less(self.get(AT.status), self.zero)

    def flag(self, condition: Truth) -> Number:
        return self.m.choose(condition, self.one, self.zero)

    def is_set(self, flag: Number) -> Truth:
        return self.m.less(self.m.constant(0.5), flag)

    def equal(self, a: Number, b: Number) -> Truth:
        """Return whether two whole numbers are equal."""
        apart = self.m.sub_product(self.one, b, a)
        return self.m.less(self.m.mul(apart, apart), self.m.constant(0.25))

    def dot(self, a: Memory, start: Index, b: Memory, count: int, at: Index = 0) -> Number:
        """Return a product of two rows, in two sums that do not wait for each other."""
        m = self.m
        sums = [self.zero, self.zero]
        for j in range(count):
            sums[j % 2] = m.add_product(m.load(a, start + j), m.load(b, at + j), sums[j % 2])
        return m.add(sums[0], sums[1])

    def among(self, k: Index, start: Number) -> Truth:
        """Return whether a place is at or behind a start."""
        return self.m.less_equal(start, self.number(k))

    # the optimum without constraints

    def start(self) -> None:
        """Factor W, invert the factor into JT, and start at x = -W^-1 c."""
        m, n, given = self.m, self.n, self.given
        m.store(self.count, 0, self.zero)
        for k in m.loop(1, self.numbers):
            m.store(self.count, k, m.add(m.load(self.count, k - 1), self.one))
        self.put(AT.status, m.constant(-1.0))
        for place in (AT.q, AT.equations, AT.which, AT.b, AT.multiplier, AT.iterations, AT.parked):
            self.put(place, self.zero)
        self.put(AT.fresh, self.one)
        for place in m.loop(0, n * n):
            m.store(self.J, place, self.zero)
        for first, size, given_at in self.blocks():
            self._invert_block(first, size, given_at)
        # t = L^-1 c, x = -L^-T t
        for i in m.loop(0, n):
            m.store(self.x, i, self.zero)
            m.store(self.a, i, m.load(given, self.of._c + i))
        for first, size, _ in self.blocks():
            for i in m.loop(0, size):
                row = (first + i) * n + first
                t = self.dot(self.J, row, self.a, size, first)
                for j in range(size):
                    old = m.load(self.x, first + j)
                    m.store(self.x, first + j, m.sub_product(t, m.load(self.J, row + j), old))
        for place in m.loop(0, n * n):
            m.store(self.R, place, self.zero)
        for i in m.loop(0, n):
            m.store(self.multipliers, i, self.zero)
            m.store(self.who, i, m.constant(-1.0))
        rows, others = len(self.of.supports), self.of.constraints - self.of.equations
        for i in m.loop(0, others):
            m.store(self.active, i, self.zero)
        for i in range(others, -(-others // TREE) * TREE):
            m.store(self.scores, i, self.zero)
        for k in range(len(self.of.cones)):
            mu = m.load(given, self.of._mu + k)
            inverse = m.div(self.one, m.add_product(mu, mu, self.one))
            m.store(self.lengths, rows + k, inverse)
        for i, entries in self.rows():
            total = self.zero
            for column, entry in entries:
                del column
                total = m.add_product(entry, entry, total)
            some = m.less(self.zero, total)
            inverse = m.div(self.one, m.choose(some, total, self.one))
            m.store(self.lengths, i, m.choose(some, inverse, m.constant(FAR)))

    def blocks(self) -> Iterator[tuple[Index, int, Index]]:
        """Visit the blocks of W: first variable, size, place of the first entry."""
        at, entry = 0, 0
        for size, group in itertools.groupby(self.of.blocks):
            count = len(list(group))
            for k in self.m.loop(0, count):
                yield k * size + at, size, k * (size * size) + entry
            at, entry = at + count * size, entry + count * size * size

    def _invert_block(self, first: Index, size: int, given_at: Index) -> None:
        """Write the inverse Cholesky factor of a block of W into JT."""
        m, n, L = self.m, self.n, self.R
        for i in m.loop(0, size):
            for j in m.loop(0, i + 1):
                m.store(L, i * size + j, m.load(self.given, i * size + j + given_at))
        for k in m.loop(0, size):
            pivot = m.load(L, k * size + k)
            whole = m.load(self.given, k * size + k + given_at)
            bad = m.less_equal(pivot, m.mul(m.constant(LOST_PIVOT), whole))
            bad = m.either(bad, m.less_equal(whole, self.zero))
            self.put_where(bad, AT.status, m.constant(NOT_CONVEX))
            inverse = m.div(self.one, m.sqrt(m.choose(bad, self.one, pivot)))
            m.store(L, k * size + k, inverse)
            for i in m.loop(k + 1, size):
                m.store(L, i * size + k, m.mul(m.load(L, i * size + k), inverse))
            for i in m.loop(k + 1, size):
                entry = m.load(L, i * size + k)
                for j in m.loop(k + 1, i + 1):
                    old = m.load(L, i * size + j)
                    m.store(L, i * size + j, m.sub_product(entry, m.load(L, j * size + k), old))
        for i in m.loop(0, size):
            inverse = m.load(L, i * size + i)
            row = (first + i) * n + first
            m.store(self.J, row + i, inverse)
            for k in m.loop(0, i):
                entry = m.mul(m.load(L, i * size + k), inverse)
                known_at = (first + k) * n + first
                for j in m.loop(0, k + 1):
                    known, old = m.load(self.J, known_at + j), m.load(self.J, row + j)
                    m.store(self.J, row + j, m.sub_product(entry, known, old))

    def rows(self) -> Iterator[tuple[Index, list[tuple[Index, Number]]]]:
        """Visit the rows of A2: place, columns and entries; neighbors of one length in a loop."""
        m, of = self.m, self.of
        begin = 0
        while begin < len(of.supports):
            length, end = len(of.supports[begin]), begin + 1
            while end < len(of.supports) and len(of.supports[end]) == length:
                end += 1
            group = of.supports[begin:end]
            columns = m.table([column for support in group for column in support] or [0])
            start = of._starts[begin]
            for place in m.loop(0, end - begin):
                entries = [
                    (
                        m.lookup(columns, place * length + k),
                        m.load(self.given, place * length + (start + k)),
                    )
                    for k in range(length)
                ]
                yield place + begin, entries
            begin = end

    # constraints that enter

    def enter_equation(self, e: Index) -> None:
        """Make an equation active; one that depends on others must agree with them."""
        m, n = self.m, self.n
        running = self.flag(self.going())
        on = self.is_set(running)
        b = m.load(self.given, e + self.of._b1)
        total = m.mul(b, b)
        for j in range(n):
            a = m.load(self.given, e * n + (self.of._A1 + j))
            m.store(self.a, j, m.choose(on, a, m.load(self.a, j)))
            total = m.add_product(a, a, total)
        total = m.choose(on, total, self.zero)
        # rows of zeros say nothing
        for _ in m.iterate(1, lambda: m.less(self.zero, total)):
            s, size = self.residual(b)
            square, whole = self.directions()
            independent = m.less(m.mul(m.constant(DEPENDENT), whole), square)
            enters = m.choose(on, self.flag(independent), self.zero)
            step = m.div(s, m.choose(independent, square, self.one))
            self.move(m.choose(self.is_set(enters), step, self.zero))
            # a residual that independent equations leave is of no x
            wrong = m.less(m.mul(m.constant(CONTRADICTS * CONTRADICTS), size), m.mul(s, s))
            contradiction = m.choose(independent, self.zero, self.flag(wrong))
            contradiction = m.choose(on, contradiction, self.zero)
            self.put_where(self.is_set(contradiction), AT.status, m.constant(INFEASIBLE))
            sign = m.choose(m.less(s, self.zero), m.constant(-1.0), self.one)
            self.put_where(self.is_set(contradiction), AT.multiplier, sign)
            self.put_where(on, AT.which, self.number(e))
            self.add(self.is_set(enters), square)
            self.put(AT.equations, self.get(AT.q))

    def residual(self, b: Number) -> tuple[Number, Number]:
        """Return b - a . x, and the sum of the squares of its terms."""
        m = self.m
        totals, squares = [b, self.zero], [m.mul(b, b), self.zero]
        for j in range(self.n):
            term = m.mul(m.load(self.a, j), m.load(self.x, j))
            totals[j % 2] = m.sub_product(self.one, term, totals[j % 2])
            squares[j % 2] = m.add_product(term, term, squares[j % 2])
        return m.add(*totals), m.add(*squares)

    def directions(self) -> tuple[Number, Number]:
        """Write d and z; return the squares of the independent part of d and of all of it."""
        m, n, q = self.m, self.n, self.get(AT.q)
        for j in m.loop(0, n):
            m.store(self.z, j, self.zero)
        self.put(AT.best, self.zero)
        self.put(AT.length, self.zero)
        for k in m.loop(0, n):
            d = self.dot(self.J, k * n, self.a, n)
            m.store(self.d, k, d)
            self.put(AT.length, m.add_product(d, d, self.get(AT.length)))
            for _ in m.iterate(1, lambda k=k: self.among(k, q)):  # type: ignore[misc]
                free = m.choose(self.among(k, q), m.load(self.d, k), self.zero)
                self.put(AT.best, m.add_product(free, free, self.get(AT.best)))
                for j in m.loop(0, n, independent=True):
                    old = m.load(self.z, j)
                    m.store(self.z, j, m.add_product(free, m.load(self.J, k * n + j), old))
        return self.get(AT.best), self.get(AT.length)

    def move(self, step: Number) -> None:
        """Move x along z."""
        m = self.m
        for j in m.loop(0, self.n, independent=True):
            m.store(self.x, j, m.add_product(step, m.load(self.z, j), m.load(self.x, j)))

    def add(self, condition: Truth, square: Number) -> None:
        """Make the entering constraint active, where the condition holds, by one reflection."""
        m, n, q = self.m, self.n, self.get(AT.q)
        chosen = self.flag(condition)
        length = m.sqrt(square)
        for _ in m.iterate(1, lambda: self.is_set(chosen)):
            # w = v^T JT with v = d2 + sign |d2| e_q: z, and the row of JT at q
            for j in m.loop(0, n):
                m.store(self.w, j, m.load(self.z, j))
            for k in m.loop(0, n):
                here = self.flag(self.equal(self.number(k), q))
                here = m.choose(self.is_set(chosen), here, self.zero)
                for _ in m.iterate(1, lambda here=here: self.is_set(here)):  # type: ignore[misc]
                    d = m.load(self.d, k)
                    signed = m.choose(m.less(d, self.zero), self._negative(length), length)
                    # v . v / 2 = |d2| (|d2| + |d_q|)
                    half = m.mul(length, m.add(length, self.absolute(d)))
                    sure = self.is_set(here)
                    old = self.get(AT.best)
                    self.put(AT.best, m.choose(sure, m.div(self.one, half), old))
                    shift = m.choose(sure, signed, self.zero)
                    for j in m.loop(0, n, independent=True):
                        row = m.load(self.J, k * n + j)
                        m.store(self.w, j, m.add_product(shift, row, m.load(self.w, j)))
                    m.store(self.d, k, m.choose(sure, m.add(d, signed), d))
                    # column of R
                    for i in m.loop(0, k):
                        entry = m.load(self.R, i * n + k)
                        m.store(self.R, i * n + k, m.choose(sure, m.load(self.d, i), entry))
                    entry = m.load(self.R, k * n + k)
                    m.store(self.R, k * n + k, m.choose(sure, self._negative(signed), entry))
                    entry = m.load(self.multipliers, k)
                    new = self.get(AT.multiplier)
                    m.store(self.multipliers, k, m.choose(sure, new, entry))
                    entry = m.load(self.who, k)
                    m.store(self.who, k, m.choose(sure, self.get(AT.which), entry))
            scale = m.choose(self.is_set(chosen), self.get(AT.best), self.zero)
            for k in m.loop(0, n):
                for _ in m.iterate(1, lambda k=k: self.among(k, q)):  # type: ignore[misc]
                    v = m.mul(m.load(self.d, k), scale)
                    v = m.choose(self.among(k, q), v, self.zero)
                    for j in m.loop(0, n, independent=True):
                        old = m.load(self.J, k * n + j)
                        m.store(self.J, k * n + j, m.sub_product(v, m.load(self.w, j), old))
        self.put(AT.q, m.add(q, chosen))

    # inequalities

    def choose_constraint(self) -> None:
        """Choose the most violated inequality or cone where none is entering; none: solved."""
        m, of = self.m, self.of
        picking = self.flag(self.going())
        picking = m.choose(self.is_set(self.get(AT.fresh)), picking, self.zero)
        for _ in m.iterate(1, lambda: self.is_set(picking)):
            sure = self.is_set(picking)
            for i, entries in self.rows():
                b = m.load(self.given, i + of._b2)
                s, size = b, m.mul(b, b)
                for column, entry in entries:
                    term = m.mul(entry, m.load(self.x, column))
                    s = m.sub_product(self.one, term, s)
                    size = m.add_product(term, term, size)
                self._score(i, s, m.mul(m.constant(VIOLATED * VIOLATED), size))
            for k, cone in enumerate(of.cones):
                x, y, normal = (m.load(self.x, column) for column in cone)
                mu = m.load(self.given, of._mu + k)
                square = m.add_product(x, x, m.mul(y, y))
                s = m.sub_product(mu, normal, m.sqrt(square))
                size = m.add_product(normal, normal, square)
                self._score(len(of.supports) + k, s, m.mul(m.constant(CONE_VIOLATED**2), size))
            self._pick(sure)
            none = m.choose(sure, self.flag(m.less(self.get(AT.which), self.zero)), self.zero)
            self.put_where(self.is_set(none), AT.status, m.constant(OPTIMAL))
            self._fetch(picking)
            self.put_where(sure, AT.multiplier, self.zero)
            self.put_where(sure, AT.fresh, self.zero)

    def _score(self, i: Index, s: Number, bound: Number) -> None:
        """Write how far x is from an inequality or cone, squared; 0 where it holds."""
        m = self.m
        square = m.mul(s, s)
        score = m.mul(square, m.load(self.lengths, i))
        prefer = self.is_set(m.load(self.given, i + self.of._prefer))
        score = m.choose(prefer, m.mul(score, m.constant(PREFERRED)), score)
        violated = m.choose(m.less(self.zero, s), self.flag(m.less(bound, square)), self.zero)
        violated = m.choose(self.is_set(m.load(self.active, i)), self.zero, violated)
        m.store(self.scores, i, m.choose(self.is_set(violated), score, self.zero))

    def _pick(self, sure: Truth) -> None:
        """Choose the largest score, or -1 if all are 0."""
        m, count = self.m, self.of.constraints - self.of.equations
        self.put(AT.best, self.zero)
        self.put(AT.length, m.constant(-1.0))
        for part in m.loop(0, -(-count // TREE)):
            row = [
                (m.load(self.scores, part * TREE + k), self.number(part * TREE + k))
                for k in range(TREE)
            ]
            row.append((self.get(AT.best), self.get(AT.length)))
            while len(row) > 1:
                row = [self._better(row[k : k + 2]) for k in range(0, len(row), 2)]
            self.put(AT.best, row[0][0])
            self.put(AT.length, row[0][1])
        none = m.less_equal(self.get(AT.best), self.zero)
        number = m.add(self.get(AT.length), m.constant(float(self.of.equations)))
        self.put_where(sure, AT.which, m.choose(none, m.constant(-1.0), number))

    def _better(self, pair: Sequence[tuple[Number, Number]]) -> tuple[Number, Number]:
        """Return the pair of score and place with the larger score, the first of equal ones."""
        m, (a, *rest) = self.m, pair
        if not rest:
            return a
        b = rest[0]
        less = m.less(a[0], b[0])
        return m.choose(less, b[0], a[0]), m.choose(less, b[1], a[1])

    def _fetch(self, picking: Number) -> None:
        """Write normal and right-hand side of the chosen constraint."""
        m, of = self.m, self.of
        sure = self.is_set(picking)
        which = self.get(AT.which)
        for j in m.loop(0, self.n):
            m.store(self.a, j, m.choose(sure, self.zero, m.load(self.a, j)))
        self.put_where(sure, AT.b, self.zero)
        for i, entries in self.rows():
            number = m.add(self.number(i), m.constant(float(of.equations)))
            here = m.choose(sure, self.flag(self.equal(which, number)), self.zero)
            for _ in m.iterate(1, lambda here=here: self.is_set(here)):  # type: ignore[misc]
                mine = self.is_set(here)
                for column, entry in entries:
                    old = m.load(self.a, column)
                    m.store(self.a, column, m.choose(mine, entry, old))
                self.put_where(mine, AT.b, m.load(self.given, i + of._b2))
                active = m.load(self.active, i)
                m.store(self.active, i, m.choose(mine, self.one, active))
        for k, cone in enumerate(of.cones):
            number = m.constant(float(of.equations + len(of.supports) + k))
            here = m.choose(sure, self.flag(self.equal(which, number)), self.zero)
            for _ in m.iterate(1, lambda here=here: self.is_set(here)):  # type: ignore[misc]
                mine = self.is_set(here)
                x, y = (m.load(self.x, column) for column in cone[:2])
                length = m.sqrt(m.add_product(x, x, m.mul(y, y)))
                scale = m.div(m.constant(-1.0), m.choose(mine, length, self.one))
                normal = (m.mul(scale, x), m.mul(scale, y), m.load(self.given, of._mu + k))
                for column, entry in zip(cone, normal, strict=True):
                    old = m.load(self.a, column)
                    m.store(self.a, column, m.choose(mine, entry, old))

    def step(self) -> None:
        """Take one step: until the entering constraint holds, or a multiplier vanishes."""
        m, n = self.m, self.n
        running = self.going()
        run = self.flag(running)
        for _ in m.iterate(1, lambda: self.is_set(run)):
            on = self.is_set(run)
            s, size = self.residual(self.get(AT.b))
            square, whole = self.directions()
            independent = m.less(m.mul(m.constant(DEPENDENT), whole), square)
            self._multiplier_direction(self.get(AT.equations))
            # the first active inequality whose multiplier vanishes, and the length until then
            self.put(AT.best, m.constant(FAR))
            self.put(AT.length, m.constant(-1.0))
            first = self.get(AT.equations)
            for k in m.loop(0, n):
                r, number = m.load(self.r, k), self.number(k)
                falls = m.choose(m.less(number, first), self.zero, self.flag(m.less(self.zero, r)))
                ratio = m.div(
                    m.load(self.multipliers, k), m.choose(self.is_set(falls), r, self.one)
                )
                ratio = m.choose(self.is_set(falls), ratio, m.constant(FAR))
                sooner = m.less(ratio, self.get(AT.best))
                self.put_where(sooner, AT.best, ratio)
                self.put_where(sooner, AT.length, number)
            bounded, leaving = self.get(AT.best), self.get(AT.length)
            full = m.div(s, m.choose(independent, square, self.one))
            full = m.choose(independent, full, m.constant(FAR))
            step = m.choose(m.less(bounded, full), bounded, full)
            stuck = m.choose(on, self.flag(m.less_equal(m.constant(FAR), step)), self.zero)
            # rounding violates a constraint that follows from active ones
            bound = m.mul(m.constant(CONTRADICTS * CONTRADICTS), size)
            slight = m.choose(self.is_set(stuck), self.flag(m.less(m.mul(s, s), bound)), self.zero)
            hopeless = m.choose(self.is_set(slight), self.zero, stuck)
            self.put_where(self.is_set(hopeless), AT.status, m.constant(INFEASIBLE))
            self.put_where(self.is_set(hopeless), AT.multiplier, self.one)
            self._mark(slight, self.get(AT.which), m.constant(PARKED))
            self.put_where(self.is_set(slight), AT.parked, self.one)
            self.put_where(self.is_set(slight), AT.fresh, self.one)
            step = m.choose(on, step, self.zero)
            step = m.choose(self.is_set(stuck), self.zero, step)
            self.move(m.choose(independent, step, self.zero))
            for k in m.loop(0, n, independent=True):
                old = m.load(self.multipliers, k)
                m.store(self.multipliers, k, m.sub_product(step, m.load(self.r, k), old))
            self.put_where(on, AT.multiplier, m.add(self.get(AT.multiplier), step))
            enters = m.choose(on, self.flag(m.less_equal(full, bounded)), self.zero)
            enters = m.choose(self.is_set(stuck), self.zero, enters)
            leaves = m.choose(on, self.flag(m.less(bounded, full)), self.zero)
            leaves = m.choose(self.is_set(stuck), self.zero, leaves)
            self.add(self.is_set(enters), square)
            self.put_where(self.is_set(enters), AT.fresh, self.one)
            self._unpark(m.choose(self.is_set(enters), self.get(AT.parked), self.zero))
            self._drop(leaves, leaving)
            self.put(AT.iterations, m.add(self.get(AT.iterations), run))

    def _multiplier_direction(self, first: Number) -> None:
        """Write r = R^-1 d over the active constraints from a place on, 0 elsewhere."""
        m, n, q = self.m, self.n, self.get(AT.q)
        for k in m.loop(0, n):
            inside = m.choose(self.among(k, first), self.flag(m.less(self.number(k), q)), self.zero)
            m.store(self.r, k, m.choose(self.is_set(inside), m.load(self.d, k), self.zero))
        for k in m.loop(0, n, down=True):
            inside = m.choose(self.among(k, first), self.flag(m.less(self.number(k), q)), self.zero)
            for _ in m.iterate(1, lambda inside=inside: self.is_set(inside)):  # type: ignore[misc]
                used = self.is_set(inside)
                pivot = m.choose(used, m.load(self.R, k * n + k), self.one)
                r = m.div(m.load(self.r, k), pivot)
                m.store(self.r, k, r)
                for i in m.loop(0, k):
                    old = m.load(self.r, i)
                    m.store(self.r, i, m.sub_product(m.load(self.R, i * n + k), r, old))

    def _mark(self, condition: Number, which: Number, value: Number) -> None:
        """Note that an inequality is active or no longer so."""
        m = self.m
        for _ in m.iterate(1, lambda: self.is_set(condition)):
            for i in m.loop(0, len(self.of.supports)):
                number = m.add(self.number(i), m.constant(float(self.of.equations)))
                mine = m.choose(
                    self.is_set(condition), self.flag(self.equal(which, number)), self.zero
                )
                old = m.load(self.active, i)
                m.store(self.active, i, m.choose(self.is_set(mine), value, old))

    def _unpark(self, condition: Number) -> None:
        """Look at constraints again that were left out."""
        m = self.m
        for _ in m.iterate(1, lambda: self.is_set(condition)):
            for i in m.loop(0, len(self.of.supports)):
                old = m.load(self.active, i)
                parked = m.choose(
                    self.is_set(condition), self.flag(m.less(old, self.one)), self.zero
                )
                m.store(self.active, i, m.choose(self.is_set(parked), self.zero, old))
            self.put_where(self.is_set(condition), AT.parked, self.zero)

    def _drop(self, condition: Number, leaving: Number) -> None:
        """Remove an active constraint; rotations make R a triangle again."""
        m, n = self.m, self.n
        for _ in m.iterate(1, lambda: self.is_set(condition)):
            q = self.get(AT.q)
            for k in m.loop(0, n):
                gone = m.choose(
                    self.is_set(condition),
                    self.flag(self.equal(self.number(k), leaving)),
                    self.zero,
                )
                for _ in m.iterate(1, lambda gone=gone: self.is_set(gone)):  # type: ignore[misc]
                    self._mark(gone, m.load(self.who, k), self.zero)
            last = m.add(q, m.constant(-1.0))
            for k in m.loop(0, n - 1):
                number = self.number(k)
                moved = m.choose(
                    m.less(number, leaving), self.zero, self.flag(m.less(number, last))
                )
                moved = m.choose(self.is_set(condition), moved, self.zero)
                for _ in m.iterate(1, lambda moved=moved: self.is_set(moved)):  # type: ignore[misc]
                    self._rotate(k, self.is_set(moved))
            # nothing is left at the last place
            for k in m.loop(0, n):
                end = m.choose(
                    self.is_set(condition), self.flag(self.equal(self.number(k), last)), self.zero
                )
                for _ in m.iterate(1, lambda end=end: self.is_set(end)):  # type: ignore[misc]
                    ends = self.is_set(end)
                    for i in m.loop(0, n):
                        old = m.load(self.R, i * n + k)
                        m.store(self.R, i * n + k, m.choose(ends, self.zero, old))
                    for row, value in ((self.multipliers, 0.0), (self.who, -1.0)):
                        m.store(row, k, m.choose(ends, m.constant(value), m.load(row, k)))
            self.put_where(self.is_set(condition), AT.q, last)

    def _rotate(self, k: Index, moved: Truth) -> None:
        """Shift the constraint after k to k, and rotate rows k and k + 1 to a triangle."""
        m, n = self.m, self.n
        for i in m.loop(0, k + 2):
            new, old = m.load(self.R, i * n + k + 1), m.load(self.R, i * n + k)
            m.store(self.R, i * n + k, m.choose(moved, new, old))
        for row in (self.multipliers, self.who):
            m.store(row, k, m.choose(moved, m.load(row, k + 1), m.load(row, k)))
        a, b = m.load(self.R, k * n + k), m.load(self.R, (k + 1) * n + k)
        length = m.sqrt(m.add_product(a, a, m.mul(b, b)))
        some = m.less(self.zero, length)
        inverse = m.div(self.one, m.choose(some, length, self.one))
        c = m.choose(some, m.mul(a, inverse), self.one)
        s = m.choose(some, m.mul(b, inverse), self.zero)
        c, s = m.choose(moved, c, self.one), m.choose(moved, s, self.zero)
        for matrix, start in ((self.R, k), (self.J, 0)):
            for j in m.loop(start, n, independent=True):
                upper, lower = m.load(matrix, k * n + j), m.load(matrix, (k + 1) * n + j)
                m.store(matrix, k * n + j, m.add_product(c, upper, m.mul(s, lower)))
                m.store(matrix, (k + 1) * n + j, m.sub_product(s, upper, m.mul(c, lower)))

    # results

    def finish(self) -> None:
        """Write x, the multipliers of all constraints and the status."""
        m, n, of, found = self.m, self.n, self.of, self.found
        solved = m.either(
            m.less(self.get(AT.status), self.zero), m.less_equal(self.get(AT.status), self.zero)
        )
        # the gradient W x + c; where there is no solution, the entering constraint
        for first, size, given_at in self.blocks():
            for i in m.loop(0, size):
                product = self.dot(self.given, i * size + given_at, self.x, size, first)
                gradient = m.add(m.load(self.given, i + (first + of._c)), product)
                old = m.load(self.a, first + i)
                m.store(self.a, first + i, m.choose(solved, gradient, old))
        for k in m.loop(0, n):
            m.store(self.d, k, self.dot(self.J, k * n, self.a, n))
        self._multiplier_direction(self.zero)
        for k in m.loop(0, of.constraints):
            m.store(found, k + n, self.zero)
        sign = self._negative(self.get(AT.multiplier))
        for k in m.loop(0, n):
            inside = self.flag(m.less(self.number(k), self.get(AT.q)))
            for _ in m.iterate(1, lambda inside=inside: self.is_set(inside)):  # type: ignore[misc]
                r = m.load(self.r, k)
                y = m.choose(solved, r, m.mul(sign, r))
                y = m.choose(self.is_set(inside), y, self.zero)
                self._write_multiplier(m.load(self.who, k), y)
        entering = m.choose(solved, self.zero, self.get(AT.multiplier))
        self._write_multiplier(self.get(AT.which), entering)
        for i in m.loop(0, n):
            m.store(found, i, m.load(self.x, i))
        end = n + of.constraints
        status = self.get(AT.status)
        unfinished = m.less(status, self.zero)
        m.store(found, end, m.choose(unfinished, m.constant(UNFINISHED), status))
        m.store(found, end + 1, self.get(AT.iterations))
        count = m.sub_product(self.one, self.get(AT.equations), self.get(AT.q))
        m.store(found, end + 2, count)

    def _write_multiplier(self, which: Number, y: Number) -> None:
        m = self.m
        for i in m.loop(0, self.of.constraints):
            mine = self.equal(which, self.number(i))
            old = m.load(self.found, i + self.n)
            m.store(self.found, i + self.n, m.choose(mine, m.add(old, y), old))

    def _negative(self, a: Number) -> Number:
        return self.m.sub_product(self.one, a, self.zero)

    def absolute(self, a: Number) -> Number:
        return self.m.choose(self.m.less(a, self.zero), self._negative(a), a)
