"""Articulated bodies whose joints may share a variable: gears, mimic joints, rotors.

Symbols (Featherstone 1987, chapter 6; H, F as in chapter 5):
    a       acceleration of the body whose handle it is
    x       joint accelerations that bodies beyond it share with bodies elsewhere
    IA, pA  inertia and bias force: the body needs f = IA a + pA + F x
    F       force on the body per unit of each x
    H, r    the forces felt along x: F^T a + H x + r

A joint with variables of its own is eliminated where it stands. A shared variable is felt at many
joints: it stays open on the way inward until the first body that carries them all, where the forces
felt along it are complete, and is eliminated there. Nothing is spent where nothing is shared.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.sweep import ancestors
from tiburon.model import Plan
from tiburon.model.joints.joint import Eliminated, coordinate_axis, eliminate_direction
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform

__all__ = ["Closing", "Freed", "Handle", "Rates", "Released", "closings", "rates_of"]

Rates = tuple[tuple[int, Scalar], ...]
"""Joint accelerations by velocity variable."""


class Freed(NamedTuple):
    """What the outward pass needs of an eliminated direction: it moves by rate - W . a - w . x."""

    eliminated: Eliminated
    d: Scalar
    """Inertia along the direction, those eliminated before it giving way."""

    open: tuple[int, ...] = ()
    w: tuple[Scalar, ...] = ()

    def met(self, rates: Rates) -> Eliminated:
        """Return the direction with what the shared variables x do to it."""
        known, rate = dict(rates), self.eliminated.rate
        for variable, w in zip(self.open, self.w, strict=True):
            rate = rate - w * known[variable]
        return self.eliminated._replace(rate=rate)

    def acceleration(self, a: Motion, rates: Rates) -> Scalar:
        """Return the acceleration of a shared variable, its last body accelerating by a."""
        met = self.met(rates)
        return met.rate - a.dot(met.W)


@record
class Handle:
    """A body with all beyond it, as its joint meets it; handles of several bodies add."""

    IA: ArticulatedInertia
    pA: Force

    open: tuple[int, ...] = ()
    """Shared velocity variables that are not eliminated yet, in order."""

    F: tuple[Force, ...] = ()
    H: tuple[tuple[Scalar, ...], ...] = ()
    """Rows up to the diagonal: H is symmetric and its entries are stored once."""

    r: tuple[Scalar, ...] = ()

    @classmethod
    def zero(cls) -> "Handle":
        """Return the handle of nothing."""
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
        """Return the same handle with rows of zeros for variables that are not open in it."""
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
        """Eliminate a direction S of the body's own joint, along which tau acts."""
        Ia, pa, eliminated = eliminate_direction(self.IA, self.pA, S, tau, armature)
        axis = coordinate_axis(S)
        # along a coordinate axis the direction that was eliminated is the axis, whatever its sign
        s = S if axis is None else S * axis[1]
        h = tuple(s.dot(F) for F in self.F)
        d = s.dot(self.IA.apply(s))
        return self._without(Ia, pa, eliminated, d if armature is None else d + armature, h)

    def tie(self, variable: int, S: Motion, armature: Scalar | None = None) -> "Handle":
        """Let the body's own joint move along S by a shared variable, which becomes open."""
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
            # the variable moves the body through both its joints where one carries the other
            H[row][column] = H[row][column] + (S.dot(U) + x + x if k == j else x)
        if armature is not None:
            H[j][j] = H[j][j] + armature
        r = [x + S.dot(self.pA) if k == j else x for k, x in enumerate(wide.r)]
        return Handle(self.IA, self.pA, wide.open, tuple(F), tuple(map(tuple, H)), tuple(r))

    def close(self, variable: int, tau: Scalar) -> tuple["Handle", Freed]:
        """Eliminate a shared variable, all joints that it moves being beyond: tau acts on it."""
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
        """Take a direction out of the open rows too; it needs d W . a + d xdd + h . x = d rate."""
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
        """Eliminate shared variables under given joint forces, one after the other."""
        left, found = self, []
        for variable, tau in closes:
            left, freed = left.close(variable, tau)
            found.append(freed)
        return left, tuple(found)

    def released(
        self,
        S: Sequence[Motion],
        tau: Sequence[Scalar],
        unknown: Sequence[bool],
        closing: "Closing",
        armature: Sequence[Scalar] | None = None,
    ) -> "Released":
        """Eliminate all that can be at a body: what ends there, and its own joint.

        Args:
            S: Columns of the joint's motion sub-space, in body coordinates.
            tau: Joint force along each.
            unknown: Whether the acceleration along each is to be solved for.
            closing: Shared variables that end here.
            armature: Inertia that each freedom alone feels; None if there is none.
        """
        left, beyond = self.closed(closing.beyond)
        freed: list[Freed] = []
        own_inertia = armature or (None,) * len(S)
        for s, force, free, felt in reversed(list(zip(S, tau, unknown, own_inertia, strict=True))):
            if closing.shared:
                left = left.tie(closing.shared[0], s, felt)
            elif free:
                left, one = left.free(s, force, felt)
                freed.append(one)
        left, own = left.closed(closing.own)
        return Released(left, beyond, tuple(freed), own)

    def handed_on(self, X: Transform, c: Motion) -> "Handle":
        """Return what the parent meets, whose acceleration gives the body X a + c."""
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
    """A body whose joint is free, and the directions that were eliminated."""

    left: Handle
    beyond: tuple[Freed, ...]
    """Shared variables of bodies beyond it, in the order of elimination."""

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
    """Find the rates of shared variables, the last eliminated first, and add them to those known.

    Args:
        closes: The variables, as `Handle.closed` took them.
        closed: What it found.
        a: Acceleration of the body where they were eliminated, in its frame.
        rates: Rates known so far.
    """
    for (variable, _), freed in reversed(list(zip(closes, closed, strict=True))):
        rates = (*rates, (variable, freed.acceleration(a, rates)))
    return rates


class Closing(NamedTuple):
    """Which shared variables end at a body."""

    shared: tuple[int, ...] = ()
    """The variable of its own joint, if that is shared."""

    beyond: tuple[tuple[int, Scalar], ...] = ()
    """Variables of bodies beyond it only, with the joint forces along them."""

    own: tuple[tuple[int, Scalar], ...] = ()
    """The same for the variable of its own joint."""

    @property
    def variables(self) -> tuple[int, ...]:
        """All variables that end at the body."""
        return tuple(variable for variable, _ in (*self.beyond, *self.own))


def closings(
    plan: Plan, tau: Sequence[Scalar], unknown: Sequence[bool]
) -> tuple[tuple[Closing, ...], Closing]:
    """Find where shared variables are eliminated: at the last body that carries all their joints.

    Args:
        plan: Layout of the model.
        tau: Joint force [N or N m], nv scalars.
        unknown: Whether the acceleration of a velocity variable is to be solved for.

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
            # parents come first, so the last body that carries all is the nearest
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
