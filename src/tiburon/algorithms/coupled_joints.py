"""Articulated bodies with shared joint variables: gears, mimic joints, rotors.

Symbols (Featherstone 1987, chapter 6; H, F as in chapter 5):
    a       acceleration of the body of a handle
    x       joint accelerations that the subtree shares with other bodies
    IA, pA  inertia and bias force: f = IA a + pA + F x
    F       force on the body per unit of each x
    H, r    generalized force along x: F^T a + H x + r

A joint with its own variables is eliminated at its body. A shared variable stays open until the
last common ancestor of its joints, where its generalized force is complete, and is eliminated
there. Trees without shared variables have no extra cost.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.aba import Eliminated, eliminate_direction
from tiburon.algorithms.traversal import ancestors
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Transform

Rates = tuple[tuple[int, Scalar], ...]
"""Joint accelerations by velocity variable."""


class Freed(NamedTuple):
    """An eliminated direction, with the acceleration rate - W . a - w . x."""

    eliminated: Eliminated
    d: Scalar
    """Inertia along the direction, with those eliminated before it free."""

    open: tuple[int, ...] = ()
    w: tuple[Scalar, ...] = ()

    def met(self, rates: Rates) -> Eliminated:
        """Return the direction with the contribution of the shared variables x."""
        known, rate = dict(rates), self.eliminated.rate
        for variable, w in zip(self.open, self.w, strict=True):
            rate = rate - w * known[variable]
        return self.eliminated._replace(rate=rate)

    def acceleration(self, a: Motion, rates: Rates) -> Scalar:
        """Return the acceleration of a shared variable eliminated at a body with acceleration a."""
        met = self.met(rates)
        return met.rate - a.dot(met.W)


@record
class Handle:
    """Articulated inertia of a subtree with open shared variables; handles add."""

    IA: ArticulatedInertia
    pA: Force

    open: tuple[int, ...] = ()
    """Shared velocity variables that are not yet eliminated, in order."""

    F: tuple[Force, ...] = ()
    H: tuple[tuple[Scalar, ...], ...] = ()
    """Lower triangle of the symmetric matrix, by rows."""

    r: tuple[Scalar, ...] = ()

    @classmethod
    def zero(cls) -> "Handle":
        """Return a zero handle."""
        return cls(ArticulatedInertia.zero(), Force.zero())

    def __add__(self, other: "Handle") -> "Handle":
        IA, pA = self.IA + other.IA, self.pA + other.pA
        if not other.open and not self.open:
            return Handle(IA, pA)
        variables = tuple(sorted({*self.open, *other.open}))
        a, b = self._widened(variables), other._widened(variables)
        return Handle(
            IA,
            pA,
            variables,
            tuple(x + y for x, y in zip(a.F, b.F, strict=True)),
            tuple(
                tuple(x + y for x, y in zip(row, other_row, strict=True))
                for row, other_row in zip(a.H, b.H, strict=True)
            ),
            tuple(x + y for x, y in zip(a.r, b.r, strict=True)),
        )

    def _widened(self, variables: Sequence[int]) -> "Handle":
        """Return the handle with zero rows for further variables."""
        if self.open == tuple(variables):
            return self
        place = {variable: k for k, variable in enumerate(self.open)}

        def entry(i: int, j: int) -> Scalar:
            return self._entry(place[i], place[j]) if i in place and j in place else 0.0

        return Handle(
            self.IA,
            self.pA,
            tuple(variables),
            tuple(self.F[place[k]] if k in place else Force.zero() for k in variables),
            tuple(tuple(entry(i, j) for j in variables[: k + 1]) for k, i in enumerate(variables)),
            tuple(self.r[place[k]] if k in place else 0.0 for k in variables),
        )

    def _entry(self, i: int, j: int) -> Scalar:
        return self.H[i][j] if j <= i else self.H[j][i]

    def free(
        self, S: Motion, tau: Scalar, armature: Scalar | None = None
    ) -> tuple["Handle", Freed]:
        """Eliminate an axis S of the body's own joint with joint force tau."""
        Ia, pa, eliminated = eliminate_direction(self.IA, self.pA, S, tau, armature)
        h = tuple(S.dot(F) for F in self.F)
        d = S.dot(self.IA.apply(S))
        return self._without(Ia, pa, eliminated, d if armature is None else d + armature, h)

    def tie(self, variable: int, S: Motion, armature: Scalar | None = None) -> "Handle":
        """Add a shared variable that moves the body's own joint along S; it becomes open."""
        wide = self
        if variable not in self.open:
            wide = self._widened(sorted((*self.open, variable)))
        j = wide.open.index(variable)
        U = self.IA.apply(S)
        h = [S.dot(F) for F in wide.F]
        F = [f + U if k == j else f for k, f in enumerate(wide.F)]
        H = [list(row) for row in wide.H]
        for k, x in enumerate(h):
            row, column = max(j, k), min(j, k)
            # twice x, if the variable also moves a joint of the subtree
            H[row][column] = H[row][column] + (S.dot(U) + x + x if k == j else x)
        if armature is not None:
            H[j][j] = H[j][j] + armature
        r = [x + S.dot(self.pA) if k == j else x for k, x in enumerate(wide.r)]
        return Handle(self.IA, self.pA, wide.open, tuple(F), tuple(map(tuple, H)), tuple(r))

    def close(self, variable: int, tau: Scalar) -> tuple["Handle", Freed]:
        """Eliminate a shared variable whose joints are all in the subtree, with joint force tau."""
        j = self.open.index(variable)
        rest = [k for k in range(len(self.open)) if k != j]
        left = Handle(
            self.IA,
            self.pA,
            tuple(self.open[k] for k in rest),
            tuple(self.F[k] for k in rest),
            tuple(tuple(self._entry(i, k) for k in rest if k <= i) for i in rest),
            tuple(self.r[k] for k in rest),
        )
        h = tuple(self._entry(j, k) for k in rest)
        U, d, u = self.F[j], self.H[j][j], tau - self.r[j]
        W = Force.from_array([x / d for x in U])
        Ia, pa = self.IA.subtract_products((U,), (W,)), self.pA + W * u
        return left._without(Ia, pa, Eliminated(W, u / d), d, h)

    def _without(
        self,
        Ia: ArticulatedInertia,
        pa: Force,
        eliminated: Eliminated,
        d: Scalar,
        h: tuple[Scalar, ...],
    ) -> tuple["Handle", Freed]:
        """Eliminate a direction from the open rows: d W . a + d xdd + h . x = d rate."""
        w = tuple(x / d for x in h)
        left = Handle(
            Ia,
            pa,
            self.open,
            tuple(F - eliminated.W * x for F, x in zip(self.F, h, strict=True)),
            tuple(
                tuple(x - h[i] * w[k] for k, x in enumerate(row)) for i, row in enumerate(self.H)
            ),
            tuple(r + x * eliminated.rate for r, x in zip(self.r, h, strict=True)),
        )
        return left, Freed(eliminated, d, self.open, w)

    def closed(self, closes: Sequence[tuple[int, Scalar]]) -> tuple["Handle", tuple[Freed, ...]]:
        """Eliminate shared variables in order, with given joint forces."""
        left, found = self, []
        for variable, tau in closes:
            left, freed = left.close(variable, tau)
            found.append(freed)
        return left, tuple(found)

    def released(
        self,
        S: Sequence[Motion],
        tau: Scalars,
        unknown: Sequence[bool],
        closing: "Closing",
        armature: Scalars | None = None,
    ) -> "Released":
        """Eliminate the variables that end at a body: shared ones, and those of its own joint.

        Args:
            S: Columns of the joint's motion subspace, in body coordinates.
            tau: Joint force along each.
            unknown: Whether the acceleration along each is unknown.
            closing: Shared variables that end here.
            armature: Armature inertia of each axis; None if there is none.
        """
        left, beyond = self.closed(closing.beyond)
        freed: list[Freed] = []
        own_inertia = armature or (None,) * len(S)
        for s, force, free, inertia in reversed(
            list(zip(S, tau, unknown, own_inertia, strict=True))
        ):
            if closing.shared:
                left = left.tie(closing.shared[0], s, inertia)
            elif free:
                left, one = left.free(s, force, inertia)
                freed.append(one)
        left, own = left.closed(closing.own)
        return Released(left, beyond, tuple(freed), own)

    def to_parent(self, X: Transform, c: Motion) -> "Handle":
        """Return the handle in the parent's frame; the body accelerates by X a + c."""
        pA = self.pA + self.IA.apply(c)
        return Handle(
            X.inertia_to_parent(self.IA),
            X.force_to_parent(pA),
            self.open,
            tuple(X.force_to_parent(F) for F in self.F),
            self.H,
            tuple(r + c.dot(F) for r, F in zip(self.r, self.F, strict=True)),
        )


class Released(NamedTuple):
    """A body after elimination of its joint, and the eliminated directions."""

    left: Handle
    beyond: tuple[Freed, ...]
    """Shared variables of the subtree, in the order of elimination."""

    freed: tuple[Freed, ...]
    """Directions of its own joint, the last one first."""

    own: tuple[Freed, ...]
    """The shared variable of its own joint."""

    @property
    def directions(self) -> tuple[Freed, ...]:
        """All of them, in the order of elimination."""
        return (*self.beyond, *self.freed, *self.own)


def rates_of(
    closes: Sequence[tuple[int, Scalar]], closed: Sequence[Freed], a: Motion, rates: Rates
) -> Rates:
    """Compute the accelerations of shared variables, the last eliminated first.

    Args:
        closes: The variables, as for `Handle.closed`.
        closed: Its result.
        a: Acceleration of the body where they were eliminated, in its frame.
        rates: Known accelerations, to which they are added.
    """
    for (variable, _), freed in reversed(list(zip(closes, closed, strict=True))):
        rates = (*rates, (variable, freed.acceleration(a, rates)))
    return rates


class Closing(NamedTuple):
    """Shared variables that are eliminated at a body."""

    shared: tuple[int, ...] = ()
    """The variable of its own joint, if that is shared."""

    beyond: tuple[tuple[int, Scalar], ...] = ()
    """Variables of the subtree only, with their joint forces."""

    own: tuple[tuple[int, Scalar], ...] = ()
    """The same for the variable of its own joint."""

    @property
    def variables(self) -> tuple[int, ...]:
        """All variables eliminated at the body."""
        return tuple(variable for variable, _ in (*self.beyond, *self.own))


def closings(
    plan: Plan, tau: Scalars, unknown: Sequence[bool]
) -> tuple[tuple[Closing, ...], Closing]:
    """Return where shared variables are eliminated: at the last common ancestor of their joints.

    Args:
        plan: Layout of the model.
        tau: Joint force [N or N m], nv scalars.
        unknown: Whether the acceleration of each velocity variable is unknown.

    Returns:
        One entry per plan body, and that of the world.
    """
    moved: dict[int, list[int]] = {}
    for body in plan.bodies:
        for variable in range(body.v.start, body.v.stop):
            moved.setdefault(variable, []).append(body.index)
    until: dict[int, int] = {}
    for variable, bodies in moved.items():
        if len(bodies) > 1 and unknown[variable]:
            carriers = frozenset.intersection(*(ancestors(plan, body) for body in bodies))
            # parents come first, so the last common ancestor has the largest index
            until[variable] = max(carriers, default=WORLD_BODY)

    def ending(where: int, variables: range) -> Closing:
        here = [(k, tau[k]) for k, body in until.items() if body == where]
        return Closing(
            tuple(k for k in variables if k in until),
            tuple(pair for pair in here if pair[0] not in variables),
            tuple(pair for pair in here if pair[0] in variables),
        )

    at_bodies = tuple(ending(body.index, range(body.v.start, body.v.stop)) for body in plan.bodies)
    return at_bodies, ending(WORLD_BODY, range(0))
