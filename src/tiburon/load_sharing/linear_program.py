"""Linear programs of load sharing: three forms, and the linear objectives of the literature.

    minimize c^T x  subject to  A1 x = b1,  A2 x >= b2                              (5.25), (6.1)

| form | unknowns | equations | inequalities | |
|---|---|---|---|---|
| original | 2 n, x = x+ - x- | m | all | (5.26) |
| compact primal | 2 r, x = x0 + N (y+ - y-) | 0 | all | (5.22) |
| compact dual | one multiplier per inequality | r | 0 | (5.23) |

Nahon 1991, sections 5.4.1 and 6.1. Linear programs have vertices as solutions: they jump where
their data change continuously, and may have many (section 5.2.2), which quadratic programs have
not. They are kept for comparison and for objectives that are linear by nature. SciPy's HiGHS solves
them: ``pip install 'tiburon[lp]'``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import choice
from tiburon.arrays import Array
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.load_sharing.elimination import null_basis
from tiburon.record import record

ORIGINAL, COMPACT_PRIMAL, COMPACT_DUAL = "original", "compact primal", "compact dual"

FORMS = (ORIGINAL, COMPACT_PRIMAL, COMPACT_DUAL)

OPTIMUM_TOLERANCE = 1e-9
"""Difference from the optimum, relative to the data, within which a point counts as optimal."""


class LinearProgram(NamedTuple):
    """A linear program: minimize c^T x with A1 x = b1 and A2 x >= b2."""

    c: Array
    A1: Array
    b1: Array
    A2: Array
    b2: Array


class LinearSolution(NamedTuple):
    """Solution of a linear program."""

    x: Array
    """Unknowns; NaN without solution."""

    value: float
    """Value of the objective; NaN without solution."""

    multipliers: Array
    """Multiplier of each inequality, not negative."""

    status: str
    """"optimal", "infeasible" or "unbounded"."""

    size: tuple[int, int, int]
    """Unknowns, equations and inequalities of the program that was solved."""


def _linprog() -> Any:
    try:
        from scipy.optimize import linprog
    except ModuleNotFoundError:
        raise ModelError(
            "linear programs of load sharing need SciPy, which is not installed: "
            "pip install 'tiburon[lp]'"
        ) from None
    return linprog


def solve_linear(program: LinearProgram, form: str = COMPACT_DUAL) -> LinearSolution:
    """Solve a linear program.

    Args:
        program: What to minimize, and subject to what.
        form: "original", "compact primal" or "compact dual": the same value, but other vertices
            where there are several.

    Raises:
        DomainError: If the equations contradict each other.
    """
    choice("form", form, FORMS)
    c, A1, b1, A2, b2 = _checked(program)
    if form == ORIGINAL:
        return _original(c, A1, b1, A2, b2)
    x0, N = null_basis(A1, b1)
    if form == COMPACT_PRIMAL:
        found = _original(N.T @ c, np.zeros((0, N.shape[1])), np.zeros(0), A2 @ N, b2 - A2 @ x0)
        x = x0 + N @ found.x
        return found._replace(x=x, value=found.value + float(c @ x0))
    return _dual(c, x0, N, A2, b2)


def _checked(program: LinearProgram) -> LinearProgram:
    arrays = [np.asarray(array, dtype=np.float64) for array in program]
    n, m1, m2 = arrays[0].size, arrays[2].size, arrays[4].size
    shapes = ((n,), (m1, n), (m1,), (m2, n), (m2,))
    for name, array, shape in zip(LinearProgram._fields, arrays, shapes, strict=True):
        if array.shape != shape:
            raise ShapeError(name, shape, array.shape)
        if not np.all(np.isfinite(array)):
            raise DomainError(name, "finite values", "a value that is not finite")
    return LinearProgram(*arrays)


def _original(c: Array, A1: Array, b1: Array, A2: Array, b2: Array) -> LinearSolution:
    """Solve with free variables as differences of two that are not negative."""
    n = len(c)
    found = _linprog()(
        np.concatenate([c, -c]),
        A_ub=np.hstack([-A2, A2]) if len(b2) else None,
        b_ub=-b2 if len(b2) else None,
        A_eq=np.hstack([A1, -A1]) if len(b1) else None,
        b_eq=b1 if len(b1) else None,
        bounds=(0, None),
        method="highs",
    )
    size = (2 * n, len(b1), len(b2))
    status = _status(found.status)
    if status != "optimal":
        return LinearSolution(
            np.full(n, np.nan), float("nan"), np.full(len(b2), np.nan), status, size
        )
    multipliers = -np.asarray(found.ineqlin.marginals) if len(b2) else np.zeros(0)
    return LinearSolution(found.x[:n] - found.x[n:], float(found.fun), multipliers, status, size)


def _dual(c: Array, x0: Array, N: Array, A2: Array, b2: Array) -> LinearSolution:
    """Maximize (b2 - A2 x0)^T lam with N^T A2^T lam = N^T c and lam >= 0."""
    rest = b2 - A2 @ x0
    r = N.shape[1]
    found = _linprog()(
        -rest,
        A_eq=(A2 @ N).T if r else None,
        b_eq=N.T @ c if r else None,
        bounds=(0, None),
        method="highs",
    )
    size = (len(b2), r, 0)
    # the dual is unbounded where the primal is infeasible, and the other way round
    status = {"infeasible": "unbounded", "unbounded": "infeasible"}.get(
        _status(found.status), "optimal"
    )
    if status != "optimal":
        if status == "unbounded" and _original(0.0 * c, *_rows(N, x0), A2, b2).status != "optimal":
            status = "infeasible"
        nothing = np.full(len(b2), np.nan)
        return LinearSolution(np.full(len(c), np.nan), float("nan"), nothing, status, size)
    # the simplex multipliers of the equations are the unknowns of the primal
    y = -np.asarray(found.eqlin.marginals) if r else np.zeros(0)
    x = x0 + N @ y
    return LinearSolution(x, float(c @ x), np.asarray(found.x), status, size)


def _rows(N: Array, x0: Array) -> tuple[Array, Array]:
    """Return equations with the solutions x0 + N y."""
    rows = np.linalg.svd(N.T)[2][N.shape[1] :] if N.shape[1] else np.eye(len(x0))
    return rows, rows @ x0


def _status(code: int) -> str:
    return {0: "optimal", 2: "infeasible", 3: "unbounded", 4: "infeasible"}.get(code, "unfinished")


def optimal_ranges(program: LinearProgram) -> tuple[Array, Array]:
    """Return the smallest and largest value of each unknown among all optima.

    A linear program has one optimum exactly if they are equal.

    Raises:
        DomainError: If there is no optimum.
    """
    c, A1, b1, A2, b2 = _checked(program)
    best = _original(c, A1, b1, A2, b2)
    if best.status != "optimal":
        raise DomainError("program", "one that has an optimum", best.status)
    slack = OPTIMUM_TOLERANCE * max(1.0, abs(best.value))
    rows, right = np.vstack([A2, -c]), np.append(b2, -best.value - slack)
    low, high = np.zeros(len(c)), np.zeros(len(c))
    for k in range(len(c)):
        axis = np.eye(len(c))[k]
        for ends, sign in ((low, 1.0), (high, -1.0)):
            found = _original(sign * axis, A1, b1, rows, right)
            ends[k] = -sign * np.inf if found.status == "unbounded" else sign * found.value
    return low, high


# -- objectives ------------------------------------------------------------------------------------


class LinearData(NamedTuple):
    """Data of a problem that linear objectives use."""

    A1: Array
    b1: Array
    A2: Array
    b2: Array

    normals: tuple[int, ...]
    """Places of the normal forces."""

    friction: tuple[int, ...] = ()
    """Rows of A2 that are sides of friction pyramids."""

    tangents: tuple[int, ...] = ()
    """Places of the tangential forces."""

    efforts: tuple[int, ...] = ()
    """Places of the efforts of actuators, where they are unknowns."""


class LinearObjective:
    """A linear objective; subclasses are records."""

    __slots__ = ()

    def program(self, data: LinearData) -> LinearProgram:
        """Return its linear program; unknowns of its own come after those of the problem."""
        raise TypeError(f"{type(self).__name__} does not define its program")


def _widened(data: LinearData, count: int = 1) -> tuple[Array, Array]:
    """Return A1 and A2 with columns for unknowns of the objective."""
    return (
        np.hstack([data.A1, np.zeros((len(data.b1), count))]),
        np.hstack([data.A2, np.zeros((len(data.b2), count))]),
    )


def _needs(what: Sequence[int], name: str, objective: object, advice: str) -> None:
    if not len(what):
        raise ModelError(
            f"objective {type(objective).__name__}: expected a problem with {name}, got none; "
            f"{advice}"
        )


@record
class SumOfNormals(LinearObjective):
    """Least sum of the normal forces: "minimum effort" of Cheng and Orin."""

    def program(self, data: LinearData) -> LinearProgram:
        """Return the sum of the normal forces."""
        _needs(data.normals, "normal forces", self, "share a load among contacts")
        c = np.zeros(data.A1.shape[1])
        c[list(data.normals)] = 1.0
        return LinearProgram(c, data.A1, data.b1, data.A2, data.b2)


@record
class LargestNormal(LinearObjective):
    """Least largest normal force: "load balance" of Cheng and Orin, with (6.3)."""

    sum_weight: float = 0.0
    """Weight of the sum of the normal forces beside the largest one."""

    def program(self, data: LinearData) -> LinearProgram:
        """Return the largest normal force as one more unknown."""
        _needs(data.normals, "normal forces", self, "share a load among contacts")
        A1, A2 = _widened(data)
        n = data.A1.shape[1]
        above = np.zeros((len(data.normals), n + 1))
        above[range(len(data.normals)), data.normals] = -1.0
        above[:, n] = 1.0
        c = np.zeros(n + 1)
        c[n] = 1.0
        c[list(data.normals)] = self.sum_weight
        return LinearProgram(
            c, A1, data.b1, np.vstack([A2, above]), np.append(data.b2, np.zeros(len(above)))
        )


def _margin(data: LinearData, rows: Sequence[int], normalized: bool) -> LinearProgram:
    """Return the program that maximizes the least residual of some inequalities.

    The residual is one number d for all of these rows: as many entries as there are inequalities.
    """
    A1, A2 = _widened(data)
    n = data.A1.shape[1]
    b2 = data.b2.copy()
    if normalized:
        _, N = null_basis(data.A1, data.b1)
        sizes = np.linalg.norm(data.A2 @ N, axis=1)
        # rows that sharing does not change have no distance
        sizes = np.where(sizes > 1e-12 * max(sizes.max(initial=0.0), 1e-300), sizes, np.inf)
    else:
        sizes = np.ones(len(b2))
    A2[list(rows), n] = -np.where(np.isfinite(sizes[list(rows)]), sizes[list(rows)], 0.0)
    c = np.zeros(n + 1)
    c[n] = -1.0
    return LinearProgram(c, A1, data.b1, A2, b2)


@record
class LargestResidual(LinearObjective):
    """Largest least residual of all inequalities, as Kerr and Roth (6.6)."""

    normalized: bool = True
    """Whether residuals are distances (6.7), (6.8); else they depend on the scale of each row."""

    def program(self, data: LinearData) -> LinearProgram:
        """Return the least residual as one more unknown, to be maximized."""
        _needs(data.b2.tolist(), "inequalities", self, "give it friction or limits")
        return _margin(data, range(len(data.b2)), self.normalized)


@record
class FrictionMargin(LinearObjective):
    """Largest least residual of friction: "safety margin" of Cheng and Orin."""

    normalized: bool = True
    """Whether residuals are distances."""

    def program(self, data: LinearData) -> LinearProgram:
        """Return the least residual of friction as one more unknown, to be maximized."""
        _needs(data.friction, "friction pyramids", self, "pass sides= to LoadSharing.of")
        return _margin(data, data.friction, self.normalized)


@record
class SteadyLateralForces(LinearObjective):
    """Load balance with signs of lateral forces kept: "temporal continuity" of Cheng and Orin."""

    signs: tuple[float, ...]
    """1 or -1 for each tangential force; 0 leaves one free."""

    def program(self, data: LinearData) -> LinearProgram:
        """Return the program of load balance with a row per sign."""
        _needs(data.tangents, "tangential forces", self, "share a load among contacts")
        if len(self.signs) != len(data.tangents):
            raise ShapeError("signs", f"({len(data.tangents)},)", (len(self.signs),))
        base = LargestNormal().program(data)
        rows = [
            sign * np.eye(len(base.c))[place]
            for place, sign in zip(data.tangents, self.signs, strict=True)
            if sign
        ]
        A2 = np.vstack([base.A2, *rows]) if rows else base.A2
        return base._replace(A2=A2, b2=np.append(base.b2, np.zeros(len(rows))))


@record
class LoadAndEffort(LinearObjective):
    """Largest normal force and power of motors with worm gears, as Orin and Oh (6.2), (6.3)."""

    weight: float
    """Weight rho of the largest normal force."""

    costs: tuple[float, ...]
    """c + Theta d of each effort, in the order of the driven joints [W/(N m) or W/N]."""

    def program(self, data: LinearData) -> LinearProgram:
        """Return the largest normal force as one more unknown, and the cost of the efforts."""
        _needs(data.efforts, "efforts", self, "take formulation='superposition'")
        if len(self.costs) != len(data.efforts):
            raise ShapeError("costs", f"({len(data.efforts)},)", (len(self.costs),))
        base = LargestNormal().program(data)
        c = self.weight * base.c
        c[list(data.efforts)] = self.costs
        return base._replace(c=c)


@record
class LargestEffort(LinearObjective):
    """Least largest effort of an actuator, in units of its scale."""

    scales: tuple[float, ...] | None = None
    """What counts as 1 of each effort, such as its limit [N m or N]; 1 by default."""

    def program(self, data: LinearData) -> LinearProgram:
        """Return the largest absolute effort as one more unknown."""
        _needs(data.efforts, "efforts", self, "take formulation='superposition'")
        k = len(data.efforts)
        scales = np.ones(k) if self.scales is None else np.asarray(self.scales, dtype=np.float64)
        if scales.shape != (k,) or not np.all(scales > 0.0):
            raise DomainError("scales", f"{k} positive numbers", f"{self.scales}")
        A1, A2 = _widened(data)
        n = data.A1.shape[1]
        rows = np.zeros((2 * k, n + 1))
        for i, place in enumerate(data.efforts):
            rows[2 * i, place], rows[2 * i + 1, place] = -1.0, 1.0
            rows[2 * i : 2 * i + 2, n] = scales[i]
        c = np.zeros(n + 1)
        c[n] = 1.0
        return LinearProgram(
            c, A1, data.b1, np.vstack([A2, rows]), np.append(data.b2, np.zeros(2 * k))
        )
