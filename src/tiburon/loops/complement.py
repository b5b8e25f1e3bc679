"""Orthogonal complement of the constraints: dynamics in independent velocities (embedding).

Constant rows W select independent velocities z = W v (Khan 2002, section 2.3 and appendix A). With

    [R T] = [A; W]^-1,     A R = 1, A T = 0, W R = 0, W T = 1

configuration and z are the states of a run:

    v    = T z - sigma R c                              (2.12), (2.13)
    vd   = T zd + gamma,    gamma = R (-sigma A - Adot) v
    zd   = (T^T H T)^-1 T^T (tau - C - H gamma)         (2.18)

A residual c then decays as exp(-sigma t). The source prints gamma with the pseudo-inverse of A
in place of R (2.22), which is right only for a basis that is transported in parallel: for constant
W it must be R. W is boolean (coordinate partitioning), or the transposed basis N of the null space
of A at one configuration (Kim and Vanderploeg 1986); rows of W are orthonormal either way, so that

    R = (A P)^+,    P = 1 - W^T W,    T = W^T - R A W^T

holds for redundant constraints, too, whose z stays exact.

Velocities of joints with quaternions are not rates of coordinates; v stands for them throughout.

Symbols: A constraint Jacobian (J elsewhere), c constraint residual, sigma decay rate, H, C mass
matrix and bias force, W constant rows, z independent velocities.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.joint_space import expanded_parents, joint_space_terms
from tiburon.algorithms.setting import Setting
from tiburon.loops.constraints import Constraints, Row, jacobian_pattern
from tiburon.loops.metric import MIN_CUT, max_abs, scattered
from tiburon.loops.parts import ordered_sum
from tiburon.model import Model
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.frozen import frozen
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.singular import singular_values
from tiburon.trace.primitives.spd import factor_spd
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.value import require

MIN_CONDITION = 1e-6
"""Condition of A P below which W determines no velocities: nine digits remain at this one."""

RELATIVE_SHIFT = 2.0**-46
"""Added to the diagonal of A P A^T, relative to that of A A^T: rounding error makes no pivot
negative."""

MIN_TANGENT = 1e-16
"""Squared tangent between rows of W and permitted motions that is rounding error."""

LOST_COORDINATES = (
    "independent velocities that determine all others: the mechanism is in a singular "
    "configuration; start elsewhere, or write loops=tb.Projection()"
)
"""Expectation that a state violates in which no choice of W helps."""

Rows = Sequence[Scalars]


class Complement:
    """R and T of the constraints in one configuration, for constant rows W.

    Attributes:
        live: Indices of constraints whose row of A is not structurally zero.
        A: Their rows.
        W: Rows of W.
        condition: Smallest over largest length of an independent constraint across the motions that
            W does not select, estimated; zero where W selects no basis.
    """

    def __init__(self, model: Model, terms: Constraints, W: Rows) -> None:
        """Factor the constraints.

        Args:
            model: The robot.
            terms: Its constraints in this state.
            W: Orthonormal rows, one per degree of freedom, each with nv scalars.
        """
        self.live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
        self.A: list[Row] = [terms.jacobian[k] for k in self.live]
        self.W = [list(row) for row in W]
        self._size, self._count = model.nv, len(terms.value)
        # A W^T
        self._seen = [[_product(row, w) for w in self.W] for row in self.A]
        rank = model.nv - len(self.W)
        if len(self.live) == rank:
            self._pseudo: _Gram | _Orthogonal = _Gram(self)
        else:
            self._pseudo = _Orthogonal(self, rank)
        self.condition = self._pseudo.condition

    def coordinate_condition(self) -> Scalar:
        """Return 1 / kappa of [N; W], with N an orthonormal basis of the constraints, or 0.

        T^T T is 1 + (R A W^T)^T (R A W^T). The largest singular value of T is 1 / sin(theta), with
        theta the smallest angle between constraints and rows of W; kappa is
        (1 + cos(theta)) / sin(theta), however long the rows of A are and however close to each
        other. Zero where they are no basis.
        """
        if not self.W:
            return np.where(self.is_basis, 1.0, 0.0)
        gram = self._pseudo.gram()
        for i in range(len(gram)):
            gram[i][i] = gram[i][i] + 1.0
        largest = max_abs(list(singular_values([[frozen(x) for x in row] for row in gram])))
        # the norm of Frobenius stands for the derivative, which events need in sign and order
        norm = np.sqrt(sum((x * x for row in gram for x in row), start=0.0))
        square = np.maximum(largest * norm / frozen(norm), 1.0)
        kappa = np.sqrt(square) + np.sqrt(np.maximum(square - 1.0, MIN_TANGENT))
        return np.where(self.is_basis, 1.0 / kappa, 0.0)

    @property
    def is_basis(self) -> Any:
        """Whether A and W together determine all velocities."""
        return self.condition > MIN_CONDITION

    def across(self, x: Scalars) -> list[Scalar]:
        """Return P x, the part of a vector that W does not select."""
        found = list(x)
        for w in self.W:
            part = sum((a * b for a, b in zip(w, x, strict=True)), start=0.0)
            found = [a - part * b for a, b in zip(found, w, strict=True)]
        return found

    def R(self, values: Scalars) -> list[Scalar]:
        """Return R times values of all constraints, nv scalars."""
        found = self._pseudo.solve([values[k] for k in self.live])
        return [require(self.is_basis, x, LOST_COORDINATES) for x in found]

    def T(self) -> list[list[Scalar]]:
        """Return the columns of T, one per row of W, each with nv scalars."""
        found = []
        for k, w in enumerate(self.W):
            turned = self._pseudo.solve([seen[k] for seen in self._seen])
            found.append([x - y for x, y in zip(w, turned, strict=True)])
        return found

    def velocity(self, terms: Constraints, v: Scalars, sigma: float) -> list[Scalar]:
        """Return the velocity with z = W v and residuals that decay: T z - sigma R c."""
        rows = zip(self.live, self.A, strict=True)
        wanted = [-(sigma * terms.value[k] + _product(row, v)) for k, row in rows]
        change = self.R(scattered(wanted, self.live, self._count))
        return [x + y for x, y in zip(v, change, strict=True)]

    def gamma(self, terms: Constraints, sigma: float) -> list[Scalar]:
        """Return R (-sigma A - Adot) v, the acceleration with zd = 0."""
        moving = zip(terms.rate, terms.bias, strict=True)
        return self.R([-(sigma * rate + bias) for rate, bias in moving])

    def multipliers(self, needed: Scalars) -> tuple[Scalar, ...]:
        """Return the constraint forces of least norm with joint forces A^T lambda."""
        return scattered(self._pseudo.solve_transpose(needed), self.live, self._count)

    @property
    def rank(self) -> Scalar:
        """Number of independent constraints."""
        return self._pseudo.rank


class _Gram:
    """(A P)^+ of independent constraints by A P A^T, with iterative refinement.

    The condition number is squared in the factor, not in the result: one step of refinement with A
    itself leaves the error of rounding as long as the condition is above 1e-6.
    """

    def __init__(self, of: Complement) -> None:
        self._of = of
        self.rank = float(len(of.A))
        gram, lengths = [], []
        for i, (row, seen) in enumerate(zip(of.A, of._seen, strict=True)):
            entries: list[Scalar] = []
            for other, past in zip(of.A[: i + 1], of._seen, strict=False):
                shared = sum((x * other[k] for k, x in row.items() if k in other), start=0.0)
                entries.append(
                    shared - sum((x * y for x, y in zip(seen, past, strict=True)), start=0.0)
                )
            lengths.append(sum((x * x for x in row.values()), start=0.0))
            # positive definite in all configurations; `condition` decides
            entries[i] = entries[i] + RELATIVE_SHIFT * lengths[i]
            gram.append(entries)
        size = len(gram)
        full = [[gram[max(i, j)][min(i, j)] for j in range(size)] for i in range(size)]
        self._factor = factor_spd(as_traced(full))
        least: Scalar = 1.0
        for pivot, length in zip(self._factor.pivots, lengths, strict=True):
            least = np.minimum(least, pivot / length)
        self.condition = np.sqrt(np.maximum(least - 2.0 * RELATIVE_SHIFT, 0.0))

    def solve(self, b: Scalars) -> list[Scalar]:
        """Return the vector x of P with A x = b."""
        found = self._step(b)
        left = [y - _product(row, found) for y, row in zip(b, self._of.A, strict=True)]
        return [x + y for x, y in zip(found, self._step(left), strict=True)]

    def _step(self, b: Scalars) -> list[Scalar]:
        return self._of.across(self._spread(list(self._factor.solve(as_traced(list(b))))))

    def solve_transpose(self, needed: Scalars) -> list[Scalar]:
        """Return the vector y with P A^T y = P needed."""

        def step(force: Scalars) -> list[Scalar]:
            across = self._of.across(force)
            seen = [_product(row, across) for row in self._of.A]
            return list(self._factor.solve(as_traced(seen)))

        found = step(needed)
        left = [x - y for x, y in zip(needed, self._spread(found), strict=True)]
        return [x + y for x, y in zip(found, step(left), strict=True)]

    def gram(self) -> list[list[Scalar]]:
        """Return (R A W^T)^T (R A W^T) = (A W^T)^T (A P A^T)^-1 A W^T, without refinement."""
        seen = self._of._seen
        solved = self._factor.solve(as_traced(seen)).tolist()
        return _products(seen, solved)

    def _spread(self, y: Scalars) -> list[Scalar]:
        """Return A^T y."""
        found: list[Scalar] = [0.0] * self._of._size
        for force, row in zip(y, self._of.A, strict=True):
            for i, x in row.items():
                found[i] = found[i] + x * force
        return found


class _Orthogonal:
    """(A P)^+ of constraints of which some are redundant, by an orthogonal factorization.

    A P has as many independent columns as W leaves velocities, also off the manifold, where
    redundant rows become independent by about the residual: the cut need not grow with it, and rows
    that W makes short are kept.
    """

    def __init__(self, of: Complement, rank: int) -> None:
        self._of = of
        matrix = []
        for row, seen in zip(of.A, of._seen, strict=True):
            own = [row.get(i, 0.0) for i in range(of._size)]
            for part, w in zip(seen, of.W, strict=True):
                own = [x - part * y for x, y in zip(own, w, strict=True)]
            matrix.append(own)
        self._factor = factor_orthogonal(as_traced(matrix), cut=MIN_CUT)
        self.rank = self._factor.rank
        self.condition = np.where(self.rank > rank - 0.5, self._factor.ratio, 0.0)

    def solve(self, b: Scalars) -> list[Scalar]:
        """Return the vector x of P with the least |A x - b|."""
        # of short rows rounding is along W, too
        return self._of.across(list(self._factor.solve(as_traced(list(b)))))

    def gram(self) -> list[list[Scalar]]:
        """Return (R A W^T)^T (R A W^T)."""
        columns = self._factor.solve(as_traced(self._of._seen)).tolist()
        return _products(columns, columns)

    def solve_transpose(self, needed: Scalars) -> list[Scalar]:
        """Return the shortest vector y with P A^T y = P needed."""
        return list(self._factor.solve_transpose(as_traced(self._of.across(needed))))


def _products(X: Rows, Y: Rows) -> list[list[Scalar]]:
    """Return X^T Y of matrices by rows, if it is symmetric: its lower part on both sides."""
    columns, others = (list(zip(*matrix, strict=True)) for matrix in (X, Y))
    size = len(columns)
    lower = [[_dot(columns[i], others[j]) for j in range(i + 1)] for i in range(size)]
    return [[lower[max(i, j)][min(i, j)] for j in range(size)] for i in range(size)]


def _product(row: Row, x: Scalars) -> Scalar:
    return sum((entry * x[i] for i, entry in row.items()), start=0.0)


class Reduced(NamedTuple):
    """Motion in independent accelerations."""

    zd: list[Scalar]
    """Independent accelerations."""

    shares: list[list[Scalar]]
    """What each part of the robot contributes to them; their sum, in this order, is zd."""

    vd: list[Scalar]
    """Joint acceleration [m/s^2 or rad/s^2], nv scalars."""

    needed: list[Scalar]
    """Joint forces of the tree for this motion minus those applied: what loops carry [N or N m]."""


def reduced_acceleration(
    around: Setting,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    T: Rows,
    gamma: Scalars,
    parts: Sequence[Sequence[int]] = (),
) -> Reduced:
    """Solve T^T H T zd = T^T (tau - C - H gamma) (Khan 2002, eq. 2.18).

    The right-hand side is a sum over joints, and so are the accelerations: parts of the robot may
    integrate their shares, whose sum counts (2.24)-(2.26).

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        T: Columns that span the permitted motions, each with nv scalars.
        gamma: Acceleration with zd = 0, nv scalars.
        parts: Velocity variables of each part; the whole robot as one by default.
    """
    plan = around.plan
    mass, C = joint_space_terms(plan, q, v, around.gravity, around.external)
    places = FactorTree(expanded_parents(plan)).layout.elements()

    def times(x: Scalars) -> list[Scalar]:
        """Return H x."""
        found: list[Scalar] = [0.0] * plan.nv
        for (i, j), h in zip(places, mass, strict=True):
            found[i] = found[i] + h * x[j]
            if i != j:
                found[j] = found[j] + h * x[i]
        return found

    held = [t - c - h for t, c, h in zip(tau, C, times(gamma), strict=True)]
    zd: list[Scalar] = [0.0] * len(T)
    shares: list[list[Scalar]] = []
    vd = list(gamma)
    carried = [-x for x in held]
    if T:
        moved = [times(column) for column in T]
        inertia = [[_dot(column, other) for other in moved] for column in T]
        factor = factor_spd(as_traced(inertia))
        for own in parts or (range(plan.nv),):
            right = [sum((column[i] * held[i] for i in own), start=0.0) for column in T]
            shares.append(list(factor.solve(as_traced(right))))
        zd = shares[0] if len(shares) == 1 else ordered_sum(shares, zd)
        for rate, column, inert in zip(zd, T, moved, strict=True):
            vd = [x + rate * y for x, y in zip(vd, column, strict=True)]
            carried = [x + rate * y for x, y in zip(carried, inert, strict=True)]
    return Reduced(zd, shares, vd, carried)


def _dot(x: Scalars, y: Scalars) -> Scalar:
    return sum((a * b for a, b in zip(x, y, strict=True)), start=0.0)
