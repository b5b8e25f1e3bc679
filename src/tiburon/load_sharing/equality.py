"""Quadratic programs with equations alone: minimum of c^T x + x^T W x / 2 with A1 x = b1.

Four methods (Nahon 1991): explicit inversion, explicit multipliers, orthogonal
decomposition, and direct substitution, where equations are solved symbolically once per structure
(eq. 5.37):

    [A_a A_b] [x_a; x_b] = b1,   x_a = A_a^-1 (b1 - A_b x_b)

The unknowns x_a are expressed by x_b and substituted into the objective, whose minimum in x_b is a
linear system of order n - m. The source did this with MACSYMA for one topology of a robot; here the
elimination runs on traced values: entries that are zero, or the same in all samples, are constants
of the graph and cost nothing, and the rest becomes machine code.

A partition whose A_a is singular fails: the one the source prints does where the feet of legs 1 and
3 coincide. Every evaluation therefore returns its least pivot relative to its row. Several
partitions are kept, and where the first is nearly singular the best of the others is used.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import DomainError, ShapeError
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.count import OperationCount, count
from tiburon.trace.primitives.spd import solve_spd
from tiburon.trace.program import Program, trace

Row = dict[int, Scalar]

MIN_PIVOT = 1e-9
"""Least pivot relative to its row, below which a partition counts as singular."""

NEARLY_SINGULAR = 1e-3
"""Least pivot relative to its row, below which other partitions are tried."""


class EqualitySolution(NamedTuple):
    """Minimum of c^T x + x^T W x / 2 with A1 x = b1."""

    x: Array
    """Unknowns, shape (n,)."""

    multipliers: Array
    """y with W x + c = A1^T y (5.14), shape (m,)."""


def _checked(W: Array, c: Array, A1: Array, b1: Array) -> tuple[Array, Array, Array, Array]:
    """Return the data of a program as arrays of fitting shapes."""
    given = tuple(np.asarray(array, dtype=np.float64) for array in (W, c, A1, b1))
    n = given[1].size
    m = given[3].size
    for name, array, shape in zip(
        ("W", "c", "A1", "b1"), given, ((n, n), (n,), (m, n), (m,)), strict=True
    ):
        if array.shape != shape:
            raise ShapeError(name, shape, array.shape)
        if not np.all(np.isfinite(array)):
            raise DomainError(name, "finite values", "a value that is not finite")
    if m > n:
        raise ShapeError("A1", f"at most {n} equations, one per unknown", given[2].shape)
    return given[0], given[1], given[2], given[3]


def _cholesky(W: Array) -> Array:
    """Return L of W = L L^T.

    Raises:
        DomainError: If W is not positive definite.
    """
    try:
        return np.asarray(np.linalg.cholesky(W))
    except np.linalg.LinAlgError:
        raise DomainError(
            "W",
            "a positive definite matrix",
            f"a least eigenvalue of {np.linalg.eigvalsh(W)[0]:.3g}",
            advice="add a small multiple of the identity, or eliminate the equations",
        ) from None


def _with_multipliers(W: Array, c: Array, A1: Array, x: Array) -> EqualitySolution:
    """Return a solution with the multipliers that its gradient needs."""
    gradient = W @ x + c
    return EqualitySolution(x, np.asarray(np.linalg.lstsq(A1.T, gradient, rcond=None)[0]))


def solve_by_inversion(W: Array, c: Array, A1: Array, b1: Array) -> EqualitySolution:
    """Minimize c^T x + x^T W x / 2 with A1 x = b1, by explicit inverses.

    x = W^-1 A1^T y - W^-1 c,    y = (A1 W^-1 A1^T)^-1 (b1 + A1 W^-1 c)    (5.14 to 5.16)

    Args:
        W: Symmetric positive definite, shape (n, n).
        c: Linear term, shape (n,).
        A1: Independent equations, shape (m, n).
        b1: Their right-hand sides, shape (m,).
    """
    W, c, A1, b1 = _checked(W, c, A1, b1)
    inverse = np.linalg.inv(W)
    x2 = inverse @ c
    y = np.linalg.inv(A1 @ inverse @ A1.T) @ (b1 + A1 @ x2)
    return EqualitySolution(inverse @ A1.T @ y - x2, y)


def solve_with_multipliers(W: Array, c: Array, A1: Array, b1: Array) -> EqualitySolution:
    """Minimize c^T x + x^T W x / 2 with A1 x = b1, with the multipliers as unknowns.

        [W  -A1^T] [x]   [-c]
        [A1   0  ] [y] = [b1]    (5.35, 5.36)

    Arguments as for `solve_by_inversion`; W need be definite on the null space of A1 only.
    """
    W, c, A1, b1 = _checked(W, c, A1, b1)
    n, m = len(c), len(b1)
    system = np.block([[W, -A1.T], [A1, np.zeros((m, m))]])
    found = np.linalg.solve(system, np.concatenate([-c, b1]))
    return EqualitySolution(found[:n], found[n:])


def solve_orthogonally(W: Array, c: Array, A1: Array, b1: Array) -> EqualitySolution:
    """Minimize c^T x + x^T W x / 2 with A1 x = b1, by an orthogonal decomposition.

        W = L L^T,   L^-1 A1^T = Q [R; 0]    (5.28 to 5.34)
        x = L^-T Q [R^-T b'; 0] - W^-1 c,   b' = b1 + A1 W^-1 c

    m reflections suffice, one per equation. Arguments as for `solve_by_inversion`.
    """
    W, c, A1, b1 = _checked(W, c, A1, b1)
    L = _cholesky(W)
    x2 = np.linalg.solve(L.T, np.linalg.solve(L, c))
    Q, R = np.linalg.qr(np.linalg.solve(L, A1.T))
    y_a = np.linalg.solve(R.T, b1 + A1 @ x2)
    x = np.linalg.solve(L.T, Q @ y_a) - x2
    return EqualitySolution(x, np.linalg.solve(R, y_a))


class Partition(NamedTuple):
    """Which unknowns the equations determine, in the order of elimination."""

    pivots: tuple[tuple[int, int], ...]
    """Equation and unknown of each step."""

    @property
    def determined(self) -> tuple[int, ...]:
        """The unknowns x_a."""
        return tuple(column for _, column in self.pivots)


class Substituted(NamedTuple):
    """Solution by direct substitution."""

    solution: EqualitySolution
    partition: Partition
    """The partition that was used."""

    least_pivot: float
    """Its least pivot relative to its row: 0 where it is singular."""

    tried: int
    """Number of partitions evaluated."""


def partition_of(A1: Array, avoid: Sequence[int] = ()) -> Partition | None:
    """Return the partition of complete pivoting for one matrix, or None if its rank is deficient.

    Args:
        A1: Equations, shape (m, n).
        avoid: Unknowns that are expressed by others only where nothing else is left.
    """
    left = np.array(A1, dtype=np.float64)
    sizes = np.abs(left).max(axis=1, initial=0.0)
    rows, columns = list(range(left.shape[0])), list(range(left.shape[1]))
    found: list[tuple[int, int]] = []
    while rows:
        share = np.abs(left[np.ix_(rows, columns)]) / np.maximum(sizes[rows], 1e-300)[:, None]
        wanted = np.array([column not in avoid for column in columns])
        if np.any(share[:, wanted] > NEARLY_SINGULAR):
            share = np.where(wanted, share, 0.0)
        i, j = np.unravel_index(int(np.argmax(share)), share.shape)
        if share[i, j] <= MIN_PIVOT:
            return None
        row, column = rows.pop(int(i)), columns.pop(int(j))
        found.append((row, column))
        for other in rows:
            left[other] -= left[row] * (left[other, column] / left[row, column])
    return Partition(tuple(found))


@record(slots=False)
class DirectSubstitution:
    """Programs of one structure, solved by substitution; immutable.

    Built by `DirectSubstitution.of` from samples: what is equal in all of them is a constant.
    """

    W: tuple[tuple[float | None, ...], ...]
    """Entries of W that are constants; None for those that vary."""

    A1: tuple[tuple[float | None, ...], ...]
    """Entries of A1 that are constants; None for those that vary."""

    partitions: tuple[Partition, ...]
    """In the order in which they are tried."""

    @classmethod
    def of(cls, W: Array, A1: Array, *, partitions: int = 3) -> "DirectSubstitution":
        """Return the structure of sample problems.

        Args:
            W: Quadratic terms of samples, shape (samples, n, n) or (n, n).
            A1: Equations of samples, shape (samples, m, n) or (m, n). Of a single sample only the
                zeros are constants.
            partitions: Most partitions to keep.

        Raises:
            DomainError: If the equations depend on each other in a sample.
        """
        weights, rows = (np.asarray(a, dtype=np.float64) for a in (W, A1))
        weights = weights[None] if weights.ndim == 2 else weights
        rows = rows[None] if rows.ndim == 2 else rows
        found: list[Partition] = []
        for k, sample in enumerate(rows):
            first = partition_of(sample)
            if first is None:
                raise DomainError(
                    "A1",
                    "independent equations",
                    f"rank {np.linalg.matrix_rank(sample)} of {sample.shape[0]} in sample {k}",
                    advice="leave out the equations that follow from others",
                )
            if not any(set(first.determined) == set(known.determined) for known in found):
                found.append(first)
        # others: one determined unknown after the other left to the objective
        for sample in rows:
            for column in found[0].determined:
                if len(found) >= partitions:
                    break
                other = partition_of(sample, (column,))
                if other is not None and not any(
                    set(other.determined) == set(known.determined) for known in found
                ):
                    found.append(other)
        return cls(_constants(weights), _constants(rows), tuple(found[: max(partitions, 1)]))

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """One traced program per partition: varying entries of W and A1, c and b1 to x."""
        n, m = len(self.W), len(self.A1)
        counts = [sum(x is None for row in rows for x in row) for rows in (self.W, self.A1)]
        inputs = {"W": (max(counts[0], 1),), "c": (n,), "A1": (max(counts[1], 1),), "b1": (m,)}
        return tuple(
            trace(self._traced(partition), inputs, name="direct substitution")
            for partition in self.partitions
        )

    @cached_property
    def _kernels(self) -> tuple[Any, ...]:
        from tiburon.native.kernel import ProgramSource, make_kernel

        return tuple(make_kernel(ProgramSource(program)) for program in self.programs)

    @property
    def counts(self) -> tuple[OperationCount, ...]:
        """Operations of one evaluation of each partition."""
        return tuple(count(program) for program in self.programs)

    def solve(self, W: Array, c: Array, A1: Array, b1: Array) -> Substituted:
        """Minimize c^T x + x^T W x / 2 with A1 x = b1.

        Raises:
            ShapeError: If shapes are not those of the structure.
            DomainError: If the data are not of this structure, or all partitions are singular.
        """
        W, c, A1, b1 = _checked(W, c, A1, b1)
        if (len(c), len(b1)) != (len(self.W), len(self.A1)):
            raise ShapeError("A1", (len(self.A1), len(self.W)), A1.shape)
        given = [_varying(*pair) for pair in (("W", W, self.W), ("A1", A1, self.A1))]
        best: tuple[float, Array, Partition] | None = None
        tried = 0
        for kernel, partition in zip(self._kernels, self.partitions, strict=True):
            x, least = kernel(given[0], c, given[1], b1)
            tried += 1
            if best is None or float(least) > best[0]:
                best = (float(least), np.asarray(x), partition)
            if best[0] >= NEARLY_SINGULAR:
                break
        assert best is not None
        least_pivot, x, partition = best
        if least_pivot <= MIN_PIVOT:
            raise DomainError(
                "A1",
                f"equations that one of {len(self.partitions)} partitions can solve",
                f"a least relative pivot of {least_pivot:.3g}",
                advice="build the structure from samples that include this case",
            )
        return Substituted(_with_multipliers(W, c, A1, x), partition, least_pivot, tried)

    def prepared(self, W: Array, c: Array, A1: Array, b1: Array) -> Callable[[], Any]:
        """Return the first partition's kernel, ready to be called on data of one problem."""
        W, c, A1, b1 = _checked(W, c, A1, b1)
        varying = [_varying(*pair) for pair in (("W", W, self.W), ("A1", A1, self.A1))]
        kernel = self._kernels[0]
        return lambda: kernel(varying[0], c, varying[1], b1)

    def _traced(self, partition: Partition) -> Callable[..., Any]:
        """Return the elimination along a partition as a function of traced values."""

        def eliminated(W: Any, c: Any, A1: Any, b1: Any) -> Any:
            weights = _filled(self.W, list(W))
            rows = _filled(self.A1, list(A1))
            x, least = substituted(weights, list(c), rows, list(b1), partition)
            return {"x": as_traced(x), "least_pivot": least}

        return eliminated


def substituted(
    W: Sequence[Row], c: Scalars, A1: Sequence[Row], b1: Scalars, partition: Partition
) -> tuple[list[Scalar], Scalar]:
    """Return the optimum and the least pivot relative to its row; floats or traced values.

    W and A1 are sparse rows.
    """
    n = len(c)
    rows, right = [dict(row) for row in A1], list(b1)
    sizes = [_largest(row) for row in rows]
    least: Scalar = 1e300
    for i, j in partition.pivots:
        pivot = rows[i][j]
        least = np.minimum(least, np.abs(pivot) / sizes[i])
        # a singular partition must not divide by zero: its result is not used
        inverse = 1.0 / np.where(pivot == 0.0, 1.0, pivot)
        rows[i] = {k: inverse * x for k, x in rows[i].items() if k != j}
        right[i] = inverse * right[i]
        for other, row in enumerate(rows):
            if other == i or j not in row:
                continue
            factor = row.pop(j)
            for k, x in rows[i].items():
                row[k] = row[k] - factor * x if k in row else -(factor * x)
            right[other] = right[other] - factor * right[i]
    # x = x0 + N x_b
    free = [k for k in range(n) if k not in partition.determined]
    x0: list[Scalar] = [0.0] * n
    N: list[Row] = [{} for _ in range(n)]
    for k in free:
        N[k] = {k: 1.0}
    for i, j in partition.pivots:
        x0[j] = right[i]
        N[j] = {k: -x for k, x in rows[i].items()}
    gradient = [c[i] + sum((w * x0[k] for k, w in W[i].items()), 0.0) for i in range(n)]
    if not free:
        return x0, least
    # N^T W N and N^T (c + W x0)
    WN: list[Row] = []
    for i in range(n):
        product: Row = {}
        for k, w in W[i].items():
            for j, x in N[k].items():
                product[j] = product[j] + w * x if j in product else w * x
        WN.append(product)
    place = {k: p for p, k in enumerate(free)}
    H: list[list[Scalar]] = [[0.0] * len(free) for _ in free]
    g: list[Scalar] = [0.0] * len(free)
    for i in range(n):
        for a, x in N[i].items():
            g[place[a]] = g[place[a]] + x * gradient[i]
            for b, y in WN[i].items():
                if place[b] <= place[a]:
                    H[place[a]][place[b]] = H[place[a]][place[b]] + x * y
    for a in range(len(free)):
        for b in range(a):
            H[b][a] = H[a][b]
    y = list(solve_spd(as_traced(H), as_traced([-x for x in g]), inline=True))
    found = [x0[i] + sum((x * y[place[k]] for k, x in N[i].items()), 0.0) for i in range(n)]
    return found, least


def _constants(samples: Array) -> tuple[tuple[float | None, ...], ...]:
    """Return the entries that all samples share; of one sample only the zeros."""
    spread = np.ptp(samples, axis=0)
    first = samples[0]
    same = (spread == 0.0) if len(samples) > 1 else (first == 0.0)
    return tuple(
        tuple(float(x) if fixed else None for x, fixed in zip(row, flags, strict=True))
        for row, flags in zip(first, same, strict=True)
    )


def _varying(name: str, matrix: Array, known: Sequence[Sequence[float | None]]) -> Array:
    """Return the entries that vary, after checking those that must not."""
    found = []
    for i, row in enumerate(known):
        for j, constant in enumerate(row):
            if constant is None:
                found.append(matrix[i, j])
            elif matrix[i, j] != constant:
                raise DomainError(
                    f"{name}[{i}, {j}]",
                    f"{constant:g}, as in all samples of the structure",
                    f"{matrix[i, j]:g}",
                    advice="build the structure from samples in which this entry varies",
                )
    return np.array(found or [0.0])


def _filled(known: Sequence[Sequence[float | None]], values: list[Any]) -> list[Row]:
    """Return sparse rows of constants and varying entries."""
    left = iter(values)
    found: list[Row] = []
    for row in known:
        full = [next(left) if constant is None else constant for constant in row]
        found.append({k: x for k, x in enumerate(full) if not (isinstance(x, float) and x == 0.0)})
    return found


def _largest(row: Row) -> Scalar:
    total: Scalar = 1e-300
    for x in row.values():
        total = np.maximum(total, np.abs(x))
    return total
