"""What a factor A = Q T Z^T is good for: the pseudo-inverse, its transpose, two projections.

Derivative, at constant rank (Golub and Pereyra 1973), with P = A^+:

    dP     = -P dA P + P P^T dA^T (1 - A P) + (1 - P A) dA^T P^T P
    d(A P) = (1 - A P) dA P + transpose
    d(P A) = P dA (1 - P A) + transpose
"""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.trace.graph import Graph
from tiburon.trace.primitives.machine import Index, Machine, Memory
from tiburon.trace.primitives.orthogonal import factor_size
from tiburon.trace.primitives.primitive import Primitive, dot, is_zero_row

__all__ = ["ApplyOrthogonal"]

_NAMES = {"P": "solve", "T": "solve_transpose", "R": "project_range", "W": "project_rows"}

# each term: sign, what is applied after, whether dA is transposed, what is applied before;
# P = A^+, T = A^+ transposed, r = 1 - A A^+, w = 1 - A^+ A, applied from right to left
_CHANGES: dict[str, tuple[tuple[int, str, bool, str], ...]] = {
    "P": ((-1, "P", False, "P"), (1, "PT", True, "r"), (1, "w", True, "TP")),
    "T": ((-1, "T", True, "T"), (1, "r", False, "PT"), (1, "TP", False, "w")),
    "R": ((1, "r", False, "P"), (1, "T", True, "r")),
    "W": ((1, "P", False, "w"), (1, "w", True, "T")),
}
_TRANSPOSED = {"P": "T", "T": "P", "R": "R", "W": "W", "r": "r", "w": "w"}


class ApplyOrthogonal(Primitive):
    """Apply a factor to a vector.

    Attributes:
        mode: "P" for A^+ b, "T" for its transpose, "R" for A A^+ b, "W" for A^+ A c.
    """

    def __init__(self, rows: int, columns: int, mode: str) -> None:
        super().__init__(f"orthogonal_{_NAMES[mode]}", rows, columns)
        self.rows, self.columns, self.mode = rows, columns, mode
        self.small = min(rows, columns)
        self.factor_size = factor_size(rows, columns)

    @property
    def length(self) -> int:
        """Length of the vector it is applied to."""
        return self.rows if self.mode in "PR" else self.columns

    @property
    def argument_count(self) -> int:
        """Number of floats it takes."""
        return self.factor_size + self.length

    @property
    def result_count(self) -> int:
        """Number of floats it gives."""
        return self.columns if self.mode in "PW" else self.rows

    def _place(self, in_range: bool, i: Index, k: Index) -> Index:
        """Place of element i of column k of Q or of Z."""
        if in_range:
            return i * self.small + k
        return k * self.columns + i + self.small * (self.rows + self.small)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Go to the coordinates of Q or Z, solve with the triangle, come back by Z or Q."""
        small, mode, zero = self.small, self.mode, m.constant(0.0)
        triangle = self.rows * small
        y = m.memory(small)
        for k in m.loop(0, small):
            m.store(y, k, zero)
        for i in m.loop(0, self.length):
            value = m.load(given, i + self.factor_size)
            for k in m.loop(0, small):
                entry = m.load(given, self._place(mode in "PR", i, k))
                m.store(y, k, m.add_product(entry, value, m.load(y, k)))
        if mode == "P":
            for k in m.loop(0, small):
                known = m.mul(m.load(y, k), m.load(given, k * small + k + triangle))
                m.store(y, k, known)
                for i in m.loop(k + 1, small):
                    entry = m.load(given, i * small + k + triangle)
                    m.store(y, i, m.sub_product(entry, known, m.load(y, i)))
        elif mode == "T":
            for k in m.loop(0, small, down=True):
                known = m.mul(m.load(y, k), m.load(given, k * small + k + triangle))
                m.store(y, k, known)
                for i in m.loop(0, k):
                    entry = m.load(given, k * small + i + triangle)
                    m.store(y, i, m.sub_product(entry, known, m.load(y, i)))
        for i in m.loop(0, self.result_count):
            m.store(found, i, zero)
        for k in m.loop(0, small):
            value = m.load(y, k)
            for i in m.loop(0, self.result_count):
                entry = m.load(given, self._place(mode in "TR", i, k))
                m.store(found, i, m.add_product(entry, value, m.load(found, i)))

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the operator times the vector's tangent plus its own change times the vector."""
        factor, vector = args[: self.factor_size], args[self.factor_size :]
        total = self._applied(graph, factor, self.mode, tangents[self.factor_size :])
        change = tangents[: self.rows * self.columns]
        for sign, after, transposed, before in _CHANGES[self.mode]:
            inner = self._applied(graph, factor, before, vector)
            moved = self._times(graph, change, inner, transposed)
            part = self._applied(graph, factor, after, moved)
            combine = graph.add if sign > 0 else graph.sub
            total = [combine(a, b) for a, b in zip(total, part, strict=True)]
        return total

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoints of matrix (in place of the factor) and vector."""
        factor, vector = args[: self.factor_size], args[self.factor_size :]
        zero = graph.const(0.0)
        matrix = [zero] * (self.rows * self.columns)
        for sign, after, transposed, before in _CHANGES[self.mode]:
            mirrored = "".join(_TRANSPOSED[op] for op in reversed(after))
            left = self._applied(graph, factor, mirrored, adjoints)
            right = self._applied(graph, factor, before, vector)
            if transposed:
                left, right = right, left
            combine = graph.add if sign > 0 else graph.sub
            for i in range(self.rows):
                for j in range(self.columns):
                    place = i * self.columns + j
                    matrix[place] = combine(matrix[place], graph.mul(left[i], right[j]))
        padding = [zero] * (self.factor_size - len(matrix))
        back = self._applied(graph, factor, _TRANSPOSED[self.mode], adjoints)
        return [*matrix, *padding, *back]

    def _applied(
        self, graph: Graph, factor: list[int], operators: str, vector: Sequence[int]
    ) -> list[int]:
        """Apply operators to a vector, the last one first."""
        found = list(vector)
        for operator in reversed(operators):
            projection = operator.upper() if operator in "rw" else operator
            if is_zero_row(graph, found):
                length = ApplyOrthogonal(self.rows, self.columns, projection).result_count
                found = [graph.const(0.0)] * length
                continue
            callee = ApplyOrthogonal(self.rows, self.columns, projection)
            images = graph.call(callee, [*factor, *found])
            if operator in "rw":
                images = [graph.sub(a, b) for a, b in zip(found, images, strict=True)]
            found = images
        return found

    def _times(
        self, graph: Graph, change: list[int], vector: list[int], transposed: bool
    ) -> list[int]:
        rows, columns = self.rows, self.columns
        if transposed:
            return [
                dot(graph, [(change[i * columns + j], vector[i]) for i in range(rows)])
                for j in range(columns)
            ]
        return [
            dot(graph, [(change[i * columns + j], vector[j]) for j in range(columns)])
            for i in range(rows)
        ]
