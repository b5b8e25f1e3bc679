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

Velocities of joints with quaternions are no rates of coordinates; v stands for them in all of this.

Symbols: A constraint Jacobian (J elsewhere), c constraint residual, sigma decay rate, H, C mass
matrix and bias force, W constant rows, z independent velocities.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tiburon.algorithms.joint_space import expanded_parents, joint_space_terms
from tiburon.algorithms.setting import Setting
from tiburon.loops.constraints import Constraints, Row, jacobian_pattern
from tiburon.loops.metric import ConstrainedMotion, rank_cut, scattered
from tiburon.model import Model
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import OrthogonalFactor, factor_orthogonal
from tiburon.trace.primitives.spd import factor_spd
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.value import require

__all__ = ["LOST_COORDINATES", "Complement", "embedded_motion", "reduced_acceleration"]

MIN_CONDITION = 1e-9
"""Relative singular value of A P below which W determines no velocities."""

LOST_COORDINATES = (
    "independent velocities that determine all others: the mechanism is in a singular "
    "configuration; start elsewhere, or leave loop_method out"
)
"""Expectation that a state violates in which no choice of W helps."""

Rows = Sequence[Sequence[Scalar]]


class Complement:
    """R and T of the constraints in one configuration, for constant rows W.

    Attributes:
        live: Indices of constraints whose row of A is not structurally zero.
        A: Their rows.
        W: Rows of W.
        reduced: Factored A P.
    """

    def __init__(self, model: Model, terms: Constraints, W: Rows, cut: float) -> None:
        """Factor A P.

        Args:
            model: The robot.
            terms: Its constraints in this state.
            W: Orthonormal rows, one per degree of freedom, each with nv scalars.
            cut: Smallest relative singular value of independent constraints.
        """
        self.live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
        self.A: list[Row] = [terms.jacobian[k] for k in self.live]
        self.W = [list(row) for row in W]
        self._size, self._count = model.nv, len(terms.value)
        # A W^T, then A P = A - A W^T W
        self._seen = [[_product(row, w) for w in self.W] for row in self.A]
        matrix = []
        for row, seen in zip(self.A, self._seen, strict=True):
            own = [row.get(i, 0.0) for i in range(model.nv)]
            for part, w in zip(seen, self.W, strict=True):
                own = [x - part * y for x, y in zip(own, w, strict=True)]
            matrix.append(own)
        self.reduced: OrthogonalFactor = factor_orthogonal(
            as_traced(matrix), cut=rank_cut(model, terms.value, cut)
        )

    @property
    def is_basis(self) -> Any:
        """Whether A and W together determine all velocities."""
        full = self.reduced.rank > self._size - len(self.W) - 0.5
        return full & (self.reduced.ratio > MIN_CONDITION)

    def R(self, values: Sequence[Scalar]) -> list[Scalar]:
        """Return R times values of all constraints, nv scalars."""
        found = list(self.reduced.solve(as_traced([values[k] for k in self.live])))
        return [require(self.is_basis, x, LOST_COORDINATES) for x in found]

    def T(self) -> list[list[Scalar]]:
        """Return the columns of T, one per row of W, each with nv scalars."""
        found = []
        for k, w in enumerate(self.W):
            turned = self.reduced.solve(as_traced([seen[k] for seen in self._seen]))
            found.append([x - y for x, y in zip(w, turned, strict=True)])
        return found

    def velocity(self, terms: Constraints, v: Sequence[Scalar], sigma: float) -> list[Scalar]:
        """Return the velocity with z = W v and residuals that decay: T z - sigma R c."""
        wanted = [-(sigma * c + _product(row, v)) for c, row in self._rows(terms)]
        return [x + y for x, y in zip(v, self._spread(wanted), strict=True)]

    def gamma(self, terms: Constraints, sigma: float) -> list[Scalar]:
        """Return R (-sigma A - Adot) v, the acceleration with zd = 0."""
        moving = zip(terms.rate, terms.bias, strict=True)
        return self.R([-(sigma * rate + bias) for rate, bias in moving])

    def multipliers(self, needed: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the constraint forces of least norm with joint forces A^T lambda."""
        inside = list(needed)
        for w in self.W:
            part = sum((x * y for x, y in zip(w, needed, strict=True)), start=0.0)
            inside = [x - part * y for x, y in zip(inside, w, strict=True)]
        forces = list(self.reduced.solve_transpose(as_traced(inside)))
        return scattered(forces, self.live, self._count)

    def _rows(self, terms: Constraints) -> list[tuple[Scalar, Row]]:
        return [(terms.value[k], row) for k, row in zip(self.live, self.A, strict=True)]

    def _spread(self, live: Sequence[Scalar]) -> list[Scalar]:
        return self.R(scattered(live, self.live, self._count))


def _product(row: Row, x: Sequence[Scalar]) -> Scalar:
    return sum((entry * x[i] for i, entry in row.items()), start=0.0)


class Reduced(NamedTuple):
    """Motion in independent accelerations."""

    zd: list[Scalar]
    """Independent accelerations."""

    vd: list[Scalar]
    """Joint acceleration [m/s^2 or rad/s^2], nv scalars."""

    needed: list[Scalar]
    """Joint forces of the tree for this motion minus those applied: what loops carry [N or N m]."""


def reduced_acceleration(
    around: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    T: Rows,
    gamma: Sequence[Scalar],
) -> Reduced:
    """Solve T^T H T zd = T^T (tau - C - H gamma) (Khan 2002, eq. 2.18).

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        T: Columns that span the permitted motions, each with nv scalars.
        gamma: Acceleration with zd = 0, nv scalars.
    """
    plan = around.plan
    mass, C = joint_space_terms(plan, q, v, around.gravity, around.external)
    places = FactorTree(expanded_parents(plan)).layout.elements()

    def times(x: Sequence[Scalar]) -> list[Scalar]:
        """Return H x."""
        found: list[Scalar] = [0.0] * plan.nv
        for (i, j), h in zip(places, mass, strict=True):
            found[i] = found[i] + h * x[j]
            if i != j:
                found[j] = found[j] + h * x[i]
        return found

    held = [t - c - h for t, c, h in zip(tau, C, times(gamma), strict=True)]
    zd: list[Scalar] = []
    vd = list(gamma)
    carried = [-x for x in held]
    if T:
        moved = [times(column) for column in T]
        inertia = [[_dot(column, other) for other in moved] for column in T]
        right = [_dot(column, held) for column in T]
        zd = list(factor_spd(as_traced(inertia)).solve(as_traced(right)))
        for rate, column, inert in zip(zd, T, moved, strict=True):
            vd = [x + rate * y for x, y in zip(vd, column, strict=True)]
            carried = [x + rate * y for x, y in zip(carried, inert, strict=True)]
    return Reduced(zd, vd, carried)


def _dot(x: Sequence[Scalar], y: Sequence[Scalar]) -> Scalar:
    return sum((a * b for a, b in zip(x, y, strict=True)), start=0.0)


def embedded_motion(
    around: Setting,
    terms: Constraints,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    W: Rows,
    sigma: float,
    cut: float,
) -> ConstrainedMotion:
    """Compute accelerations and constraint forces in independent velocities.

    Args:
        around: Surroundings in this state.
        terms: Constraints in this state, at the velocity v.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity from `Complement.velocity` [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        W: Orthonormal rows, one per degree of freedom.
        sigma: Decay rate of residuals [1/s].
        cut: Smallest relative singular value of independent constraints.
    """
    basis = Complement(around.model, terms, W, cut)
    found = reduced_acceleration(around, q, v, tau, basis.T(), basis.gamma(terms, sigma))
    reduced = basis.reduced
    return ConstrainedMotion(
        tuple(found.vd),
        basis.multipliers(found.needed),
        lambda: (reduced.rank, reduced.ratio),
    )
