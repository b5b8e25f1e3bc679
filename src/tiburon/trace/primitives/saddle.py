"""Sparse saddle-point systems of equations of motion and constraints, by K = L D L^T.

K = [[H, J^T], [J, 0]] with H positive definite is eliminated in a given order without pivot search:
unknowns of H have positive pivots, those of constraints negative ones as long as each is eliminated
after enough of the unknowns that it constrains (such orders are found once, see
`tiburon.loops.augmented`). Zeros remain unless the order causes fill-in; stored entries and updates
are listed in tables at code generation (Duff, Erisman and Reid 2017, Direct Methods for Sparse
Matrices, chapters 5 and 7).

A redundant constraint has no pivot of its own. If the pivot of a constraint falls below a fraction
of the terms it is the sum of, its row is dropped and its unknown is zero. `worst` is the smallest
such fraction, so that callers can use another method; `least` is the smallest pivot that was kept.

Derivatives. A factor is a handle, as in `tiburon.trace.primitives.spd`: x = K^-1 b implies
dx = K^-1 (db - dK x).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.trace.primitives.primitive import (
    Factorization,
    Machine,
    Memory,
    SymmetricSolve,
)
from tiburon.trace.primitives.spd import LOST_PIVOT

ABSENT_PIVOT = 1e300
"""Size of pivots of constraints that do not exist."""


class SaddlePattern:
    """Where the entries of K are, before and after elimination.

    Attributes:
        size: Number of unknowns.
        bound: How many of them, the last ones, are those of constraints.
        entries: Row and column of each given entry, row >= column.
        order: Unknowns in the order of elimination.
        columns: By place in the order, the unknowns below the diagonal in that column of L.
        starts: Place of the first entry of each column of L among all; one more for the end.
        places: Place of an entry among those of L and D, by the pair of unknowns.
    """

    def __init__(
        self, size: int, bound: int, entries: Sequence[tuple[int, int]], order: Sequence[int]
    ) -> None:
        """Find the fill-in.

        Args:
            size: Number of unknowns.
            bound: How many of them, the last ones, are those of constraints.
            entries: Row and column of each entry that is not structurally zero, row >= column.
            order: Unknowns in the order of elimination.
        """
        self.size, self.bound = size, bound
        self.entries = tuple(entries)
        self.order = tuple(order)
        rank = {k: place for place, k in enumerate(self.order)}
        below: list[set[int]] = [set() for _ in range(size)]
        for i, j in self.entries:
            if i != j:
                first, second = (i, j) if rank[i] < rank[j] else (j, i)
                below[first].add(second)
        self.columns: list[list[int]] = []
        self.starts = [0]
        for k in self.order:
            rows = sorted(below[k], key=rank.__getitem__)
            for place, i in enumerate(rows):
                below[i].update(rows[place + 1 :])
            self.columns.append(rows)
            self.starts.append(self.starts[-1] + len(rows))
        self.places: dict[tuple[int, int], int] = {}
        for place, k in enumerate(self.order):
            self.places[k, k] = self.starts[-1] + k
            for offset, i in enumerate(self.columns[place]):
                self.places[i, k] = self.places[k, i] = self.starts[place] + offset

    @property
    def stored(self) -> int:
        """Number of entries of L and D together."""
        return self.starts[-1] + self.size

    @property
    def work(self) -> int:
        """Multiplications of factoring and of solving once, about."""
        return sum(len(rows) * (len(rows) + 1) // 2 + 2 * len(rows) for rows in self.columns)

    def is_bound(self, unknown: int) -> bool:
        """Return whether an unknown is that of a constraint."""
        return unknown >= self.size - self.bound

    def form(self) -> list[int]:
        """Return integers that distinguish patterns."""
        return [self.size, self.bound, *self.order, *(x for pair in self.entries for x in pair)]


class FactorSaddle(Factorization):
    """Factor: entries of K, the size of each constraint, and the share at which its pivot is lost.

    The factor holds L column by column, then 1/D by unknown, then `worst` and `least`.
    """

    def __init__(self, pattern: SaddlePattern) -> None:
        super().__init__("factor_saddle", *pattern.form())
        self.pattern = pattern
        self.argument_count = len(pattern.entries) + pattern.bound + 1
        self.result_count = pattern.stored + 2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Eliminate column by column, updating all that remains."""
        pattern = self.pattern
        below, worst_place = pattern.starts[-1], pattern.stored
        zero, one = m.constant(0.0), m.constant(1.0)
        lost = m.load(given, len(pattern.entries) + pattern.bound)
        for place in m.loop(0, pattern.stored):
            m.store(found, place, zero)
        homes = m.table([pattern.places[pair] for pair in pattern.entries])
        for place in m.loop(0, len(pattern.entries)):
            m.store(found, m.lookup(homes, place), m.load(given, place))
        # magnitude of the terms of each pivot; given for constraints: if one is eliminated before
        # joints that it constrains, those before it may contribute rounding errors only
        formed = m.memory(pattern.size)
        free = pattern.size - pattern.bound
        for k in m.loop(0, free):
            m.store(formed, k, m.load(found, below + k))
        for k in m.loop(0, pattern.bound):
            size = m.load(given, k + len(pattern.entries))
            m.store(formed, k + free, m.sub_product(one, size, zero))
        m.store(found, worst_place, one)
        m.store(found, worst_place + 1, m.constant(ABSENT_PIVOT))
        order, starts = m.table(pattern.order), m.table(pattern.starts)
        targets, target_rows, bound, bound_starts = self._tables()
        targets, target_rows = m.table(targets), m.table(target_rows)
        bound, bound_starts = m.table(bound), m.table(bound_starts)
        for run in self._runs():
            for place in m.loop(run.start, run.stop):
                k = m.lookup(order, place)
                pivot = m.load(found, below + k)
                if run.bound:
                    inverse = self._bound_inverse(m, found, formed, k, pivot, lost)
                else:
                    kept = m.less(m.mul(m.constant(LOST_PIVOT), m.load(formed, k)), pivot)
                    inverse = m.div(
                        one,
                        m.require(
                            kept,
                            pivot,
                            "a positive definite mass matrix; check masses and inertias",
                        ),
                    )
                m.store(found, below + k, inverse)
                start = m.lookup(starts, place)
                count = m.lookup(starts, place + 1) - start
                # from the last row up: entries above are then still those of L D
                for a in m.loop(0, count, down=True):
                    entry = m.mul(m.load(found, start + a), inverse)
                    row = m.lookup(target_rows, start + a)
                    for b in m.loop(0, a + 1):
                        target = m.lookup(targets, row + b)
                        other, old = m.load(found, start + b), m.load(found, target)
                        m.store(found, target, m.sub_product(entry, other, old))
                    m.store(found, start + a, entry)
                if not run.bound:
                    first = m.lookup(bound_starts, place)
                    for item in m.loop(first, m.lookup(bound_starts, place + 1)):
                        i = m.lookup(bound, item)
                        value, before = m.load(found, below + i), m.load(formed, i)
                        m.store(formed, i, m.choose(m.less(value, before), value, before))

    def _bound_inverse(
        self, m: Machine, found: Memory, formed: Memory, k: Any, pivot: Any, lost: Any
    ) -> Any:
        """Return 1/D of a constraint, zero if its pivot is lost; remember the worst share."""
        zero, one = m.constant(0.0), m.constant(1.0)
        worst_place = self.pattern.stored
        whole = m.load(formed, k)
        empty = m.less_equal(zero, whole)
        share = m.div(m.choose(empty, zero, pivot), m.choose(empty, one, whole))
        worst = m.load(found, worst_place)
        m.store(found, worst_place, m.choose(m.less(share, worst), share, worst))
        gone = m.less_equal(share, lost)
        size = m.sub_product(one, pivot, zero)
        kept, least = m.choose(gone, m.constant(ABSENT_PIVOT), size), m.load(found, worst_place + 1)
        m.store(found, worst_place + 1, m.choose(m.less(kept, least), kept, least))
        return m.div(m.choose(gone, zero, one), m.choose(gone, one, pivot))

    def _runs(self) -> list[_Run]:
        """Return stretches of the order that hold unknowns of one kind."""
        runs: list[_Run] = []
        for place, k in enumerate(self.pattern.order):
            bound = self.pattern.is_bound(k)
            if runs and runs[-1].bound == bound:
                runs[-1].stop = place + 1
            else:
                runs.append(_Run(place, place + 1, bound))
        return runs

    def _tables(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Return where updates go, and which constraints each column helps to form."""
        pattern = self.pattern
        targets: list[int] = []
        rows: list[int] = []
        bound: list[int] = []
        bound_starts = [0]
        for column in pattern.columns:
            for a, i in enumerate(column):
                rows.append(len(targets))
                targets += [pattern.places[i, j] for j in column[: a + 1]]
            bound += [i for i in column if pattern.is_bound(i)]
            bound_starts.append(len(bound))
        return targets, rows, bound, bound_starts

    @property
    def matrix_size(self) -> int:
        """Number of entries of K."""
        return len(self.pattern.entries)


class _Run:
    """Places in the order from start to stop, all unknowns of constraints or none."""

    __slots__ = ("bound", "start", "stop")

    def __init__(self, start: int, stop: int, bound: bool) -> None:
        self.start, self.stop, self.bound = start, stop, bound


class SolveSaddle(SymmetricSolve):
    """Solve: a factor without its last two values, and a vector, to the solution."""

    def __init__(self, pattern: SaddlePattern) -> None:
        super().__init__("solve_saddle", *pattern.form())
        self.pattern = pattern
        self.stored, self.entries = pattern.stored, pattern.entries
        self.argument_count, self.result_count = pattern.stored + pattern.size, pattern.size

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Substitute with L in order, multiply by 1/D, substitute with L^T in reverse."""
        pattern = self.pattern
        below, size = pattern.starts[-1], pattern.size
        order, starts = m.table(pattern.order), m.table(pattern.starts)
        rows = m.table([i for column in pattern.columns for i in column])
        for k in m.loop(0, size):
            m.store(found, k, m.load(given, pattern.stored + k))
        for place in m.loop(0, size):
            known = m.load(found, m.lookup(order, place))
            for entry in m.loop(m.lookup(starts, place), m.lookup(starts, place + 1)):
                i = m.lookup(rows, entry)
                old = m.load(found, i)
                m.store(found, i, m.sub_product(m.load(given, entry), known, old))
        for place in m.loop(0, size, down=True):
            k = m.lookup(order, place)
            m.store(found, k, m.mul(m.load(found, k), m.load(given, below + k)))
            for entry in m.loop(m.lookup(starts, place), m.lookup(starts, place + 1)):
                known = m.load(found, m.lookup(rows, entry))
                old = m.load(found, k)
                m.store(found, k, m.sub_product(m.load(given, entry), known, old))


class SaddleFactor:
    """A factored system.

    Attributes:
        pattern: Positions of its entries.
        worst: Smallest pivot of a constraint relative to its terms: the squared sine of the angle
            between it and the constraints before it, in the metric of the unknowns before it.
        least: Smallest pivot of a constraint that was kept; very large if none was.
    """

    def __init__(
        self,
        pattern: SaddlePattern,
        entries: Sequence[Any],
        lost: Any,
        *,
        inline: bool,
        sizes: Sequence[Any] | None = None,
    ) -> None:
        """Factor.

        Args:
            pattern: Positions of the entries.
            entries: Their values, in the order of `pattern.entries`.
            lost: Fraction of its terms below which the pivot of a constraint is dropped.
            inline: Whether to inline the operations in the graph instead of calling.
            sizes: Expected magnitude of the pivot of each constraint; by default the contribution
                of the unknowns before it.
        """
        self.pattern = pattern
        self._inline = inline
        given = [*entries, *([0.0] * pattern.bound if sizes is None else sizes), lost]
        *self._numbers, self.worst, self.least = FactorSaddle(pattern).apply(given, inline=inline)

    def solve(self, right: Sequence[Any]) -> list[Any]:
        """Return the solution for one right-hand side."""
        return SolveSaddle(self.pattern).apply([*self._numbers, *right], inline=self._inline)

    def kept(self) -> list[Any]:
        """Return 1/D of each constraint: zero where its pivot was lost."""
        pattern = self.pattern
        return self._numbers[pattern.stored - pattern.bound : pattern.stored]
