"""The contact problems of one time step, each by itself: what derivatives need.

Compression has no least impulse. The part of it that belongs to a collision is known, or found by
a problem of the speeds of approach alone. Where restitution returns part of it, decompression
solves again with (1 + e) times the impulse of the collision as the least one. Impulses act on the
mean velocity of the step with the share of the step over which they last: these moments obey the
laws of contact themselves where something lands (`contact_step`). What gaps this leaves is removed
by a last problem without friction, in which contacts that are held closed may pull.

Gaps that are closed to rounding need no such problem, but its derivative: a contact that is held
stays closed when the state changes, not where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tiburon.trace.primitives.contact_step import (
    CARRIED_SPEED,
    GAP_TOLERANCE,
    LANDING_SHARE,
    LEAST_HOLD,
    UNBOUNDED,
    split,
)
from tiburon.trace.primitives.friction import FrictionGaussSeidel
from tiburon.trace.regions import where_needed, while_loop
from tiburon.trace.regions.lanes import lanes

Scalar = Any


class ContactMatrix(NamedTuple):
    """The matrix A of contact problems, three rows per contact."""

    size: int
    """Columns."""

    supports: Sequence[Sequence[int]]
    """For each contact the columns where its rows are not zero."""

    entries: Sequence[Scalar]
    """For each contact its three rows over its support."""

    def push(self, p: Sequence[Scalar]) -> list[Scalar]:
        """Return A^T p."""
        y: list[Scalar] = [0.0] * self.size
        for k, (support, rows) in enumerate(self.contacts()):
            for row, f in zip(rows, p[3 * k : 3 * k + 3], strict=True):
                for j, entry in zip(support, row, strict=True):
                    y[j] = y[j] + entry * f
        return y

    def normal_velocities(self, y: Sequence[Scalar]) -> list[Scalar]:
        """Return the normal rows of A y."""
        return for_contacts(
            _along, [(rows[2], [y[j] for j in support]) for support, rows in self.contacts()]
        )

    def velocities(self, y: Sequence[Scalar]) -> list[Scalar]:
        """Return A y."""
        given = [(*rows, [y[j] for j in support]) for support, rows in self.contacts()]
        return [x for three in for_contacts(_along_all, given) for x in three]

    def contacts(self) -> list[tuple[Sequence[int], list[list[Scalar]]]]:
        """Return support and rows of each contact."""
        found, start = [], 0
        for support in self.supports:
            size = len(support)
            starts = range(start, start + 3 * size, size)
            found.append((support, [list(self.entries[at : at + size]) for at in starts]))
            start += 3 * size
        return found


MOST_INLINED = 6
"""Contacts beyond which what is computed for each is called in lanes: quicker to compile."""


def for_contacts(call: Callable[..., Any], given: Sequence[Sequence[Any]]) -> list[Any]:
    """Call a function for each contact, in lanes where their arguments have one structure.

    Args:
        call: Takes the arguments of one contact.
        given: Arguments of each contact.
    """
    alike = len({tuple(len(x) for x in own if isinstance(x, list)) for own in given}) == 1
    if len(given) > MOST_INLINED and alike:
        return lanes(call, given)
    return [call(*own) for own in given]


def _along(row: list[Scalar], y: list[Scalar]) -> Scalar:
    """Return the product of a row with a vector."""
    total: Scalar = 0.0
    for entry, x in zip(row, y, strict=True):
        total = total + entry * x
    return total


def _along_all(*given: list[Scalar]) -> list[Scalar]:
    """Return the products of rows with a vector, which comes last."""
    *rows, y = given
    return [_along(row, y) for row in rows]


class Solution(NamedTuple):
    """A contact problem and its solution, as `friction_derivative` takes them."""

    b: list[Scalar]
    mu: list[Scalar]
    least: list[Scalar]
    p: list[Scalar]
    y: list[Scalar]
    alpha: list[Scalar]

    def arguments(self, matrix: ContactMatrix) -> list[Scalar]:
        """Return the arguments of primitives at the solution."""
        return [*matrix.entries, *(x for part in self for x in part)]


class ContactPhases(NamedTuple):
    """The problems of a step, and what impulses do to its mean velocity."""

    final: Solution
    """Decompression, or compression where restitution returns nothing."""

    sudden: list[Scalar]
    """Share of each impulse that acts at closing."""

    lasting: list[Scalar]
    """Share of the step over which each impulse lasts."""

    lands: Scalar
    """Whether some contact lands, and timed impulses carry contacts away."""

    moments: Solution
    """The problem of the moments of impulses."""

    closing: Solution
    """The problem of remaining gaps."""

    z: list[Scalar]
    """A^T of timed impulses and those that close gaps."""

    report: list[Scalar]
    """Residual, sweeps and worst contact of the impulses."""


def contact_phases(
    matrix: ContactMatrix,
    b: Sequence[Scalar],
    mu: Sequence[Scalar],
    approach: Sequence[Scalar],
    share: Sequence[Scalar],
    restitution: Sequence[Scalar] | None,
    gaps: Sequence[Scalar],
    start: Sequence[Scalar],
    *,
    h: Scalar,
    tolerance: Scalar,
    most: int,
    mean: Sequence[Scalar] = (),
    lags: Sequence[Scalar] = (),
    lag: Scalar = 0.0,
    between: Mapping[int, Any] = MappingProxyType({}),
) -> ContactPhases:
    """Solve the contact problems of a step.

    Args:
        matrix: A.
        b: Relative velocities without impulses, bounds as normal ones, three per contact [m/s].
        mu: Coefficient of friction of each contact.
        approach: Share of the compression impulse that removes the speed of approach.
        share: Time left when each gap closes, relative to the step.
        restitution: Poisson's coefficients; None where they are all zero.
        gaps: Gaps at the end of the step without impulses [m].
        start: Impulses to start from.
        h: Length of the step [s].
        tolerance: Residual at which to end, relative to the largest impulse.
        most: Sweeps of each problem at most.
        mean: What of the forces of the last step acts within this one, r; nothing for none.
        lags: By how much less than half of the step the change of each force acts, where some do.
        lag: The same of r.
        between: Whether contacts are of two bodies that both move, where they may be.
    """
    count = len(mu)
    solver = FrictionGaussSeidel(matrix.size, matrix.supports, most)

    def solved(
        b: Sequence[Scalar], mu: Sequence[Scalar], least: Sequence[Scalar], start: Sequence[Scalar]
    ) -> list[list[Scalar]]:
        found = solver.apply([*matrix.entries, *b, *mu, *least, *start, tolerance])
        return split(found, (3 * count, matrix.size, count, 3))

    none: list[Scalar] = [0.0] * count
    first = solved(b, mu, none, start)
    compression = Solution(list(b), list(mu), none, *first[:3])
    jumps = _jumps(solved, compression, approach, first[0], between)
    returned, returns, least, (p, y, alpha, report) = jumps, False, none, first
    if restitution is not None:
        returned = [(1.0 + e) * jump for e, jump in zip(restitution, jumps, strict=True)]
        extra = [e * jump for e, jump in zip(restitution, jumps, strict=True)]
        least = [np.where(x > 0.0, total, 0.0) for x, total in zip(extra, returned, strict=True)]
        returns = _largest(extra) > 0.0
        p, y, alpha, report = where_needed(returns, lambda: solved(b, mu, least, first[0]), first)
    final = Solution(list(b), list(mu), least, p, y, alpha)
    sudden, lasting, timed = [], [], []
    own = [(returned[k], share[k], list(p[3 * k : 3 * k + 3])) for k in range(count)]
    for jump, part, impulse in for_contacts(_shares, own):
        sudden.append(jump)
        lasting.append(part)
        timed += impulse
    smooth = _largest(jumps) <= 0.0
    for k, own in enumerate(lags):
        late = np.where(smooth, own, 0.0)
        for i in range(3 * k, 3 * k + 3):
            timed[i] = timed[i] - late * p[i]
    pushed = matrix.push(timed)
    if mean:
        late = np.where(smooth & (_largest(p) > 0.0), lag, 0.0)
        pushed = [x + late * y for x, y in zip(pushed, mean, strict=True)]
    lands = (_largest(jumps) > 0.0) & _is_carried(matrix, final, lasting, pushed)
    squares = [sum(x * x for x in p[3 * k : 3 * k + 3]) for k in range(count)]
    threshold = LEAST_HOLD * np.sqrt(_largest(squares))
    held = [
        (p[3 * k + 2] > bound + threshold) & (jumps[k] <= LANDING_SHARE * p[3 * k + 2])
        for k, bound in enumerate(least)
    ]
    moments = _moments(solved, final, lasting, timed, gaps, held, pushed, lands, h)
    z = moments.y
    ends = [gap + h * u for gap, u in zip(gaps, matrix.normal_velocities(z), strict=True)]
    errors = [
        np.where(one, np.abs(end), np.maximum(-end, 0.0))
        for one, end in zip(held, ends, strict=True)
    ]
    rest = [x for end in ends for x in (0.0, 0.0, end / h)]
    bounds = [np.where(one, -UNBOUNDED, 0.0) for one in held]
    nothing: list[Scalar] = [0.0] * (3 * count)

    def closed_gaps() -> list[list[Scalar]]:
        return solved(rest, none, bounds, nothing)[:3]

    still: list[list[Scalar]] = [nothing, [0.0] * matrix.size, none]
    # closed gaps are a fixed point of the problem, whose derivative holds also where it is not run
    once = np.where(_largest(errors) > GAP_TOLERANCE, 1.0, 0.0)
    _, shift = while_loop(
        lambda s: s[0] > 0.5, lambda _: (0.0, closed_gaps()), (once, still), 1
    ).state
    closing = Solution(rest, none, bounds, *shift)
    z = [a + c for a, c in zip(z, closing.y, strict=True)]
    return ContactPhases(final, sudden, lasting, lands, moments, closing, z, report)


def _jumps(
    solved: Callable[..., list[list[Scalar]]],
    compression: Solution,
    approach: Sequence[Scalar],
    p: Sequence[Scalar],
    between: Mapping[int, Any],
) -> list[Scalar]:
    """Return what the collision takes of each normal impulse p; see `contact_step`."""
    normal = list(p[2::3])
    local = [part * x for part, x in zip(approach, normal, strict=True)]
    if not between:
        return local
    lands = [
        (part > LANDING_SHARE) & between[k] if k in between else False
        for k, part in enumerate(approach)
    ]
    coupled = _largest([np.where(one, x, 0.0) for one, x in zip(lands, normal, strict=True)]) > 0.0
    coupled = coupled & (
        _largest([np.where(one, 0.0, x) for one, x in zip(lands, normal, strict=True)]) > 0.0
    )
    b = list(compression.b)
    for k, part in enumerate(approach):
        bound = b[3 * k + 2]
        b[3 * k + 2] = np.where(bound < 0.0, part * bound, bound)

    def collision() -> list[Scalar]:
        found = solved(b, compression.mu, compression.least, list(p))[0][2::3]
        return [
            np.where(one, np.minimum(x, whole), part)
            for one, x, whole, part in zip(lands, found, normal, local, strict=True)
        ]

    jumps: list[Scalar] = where_needed(coupled, collision, local)
    return jumps


def _moments(
    solved: Callable[..., list[list[Scalar]]],
    final: Solution,
    lasting: Sequence[Scalar],
    timed: list[Scalar],
    gaps: Sequence[Scalar],
    held: Sequence[Scalar],
    pushed: list[Scalar],
    lands: Scalar,
    h: Scalar,
) -> Solution:
    """Let impulses of contacts that closed at different instants hold each other."""
    b: list[Scalar] = []
    least: list[Scalar] = []
    for k, (share, gap, stays) in enumerate(zip(lasting, gaps, held, strict=True)):
        room = gap + np.where(stays, 0.0, GAP_TOLERANCE)
        b += [share * final.b[3 * k], share * final.b[3 * k + 1], room / h]
        least.append(np.where(stays, 0.0, timed[3 * k + 2]))
    found = where_needed(
        lands, lambda: solved(b, final.mu, least, timed)[:3], [timed, pushed, final.alpha]
    )
    return Solution(b, final.mu, least, *found)


def _is_carried(
    matrix: ContactMatrix, final: Solution, lasting: Sequence[Scalar], pushed: list[Scalar]
) -> Scalar:
    """Return whether timed impulses carry contacts away; see `ContactStep`."""
    slips, speeds = [], []
    own = [
        (*rows[:2], [pushed[j] for j in support], final.b[3 * k : 3 * k + 3], share)
        for k, ((support, rows), share) in enumerate(zip(matrix.contacts(), lasting, strict=True))
    ]
    for k, (slip, speed) in enumerate(for_contacts(_slip, own)):
        touches = final.p[3 * k + 2] > 0.0
        slips.append(np.where(touches, slip, 0.0))
        speeds.append(np.where(touches, speed, 0.0))
    return _largest(slips) > CARRIED_SPEED**2 * _largest(speeds)


def _slip(
    first: list[Scalar], second: list[Scalar], y: list[Scalar], b: list[Scalar], share: Scalar
) -> tuple[Scalar, Scalar]:
    """Return the squares of the slip of a contact by timed impulses, and of its speed without."""
    along, across = share * b[0] + _along(first, y), share * b[1] + _along(second, y)
    return along * along + across * across, b[0] * b[0] + b[1] * b[1] + b[2] * b[2]


def _shares(
    returned: Scalar, share: Scalar, p: list[Scalar]
) -> tuple[Scalar, Scalar, list[Scalar]]:
    """Return sudden share, lasting share and timed impulse of a contact; see `ContactPhases`."""
    closed = p[2] > 0.0
    ratio = np.where(closed, returned / np.where(closed, p[2], 1.0), 0.0)
    sudden = np.minimum(ratio, 1.0)
    lasting = share * (0.5 + 0.5 * sudden)
    return sudden, lasting, [lasting * x for x in p]


def _largest(values: Sequence[Scalar]) -> Scalar:
    found: Scalar = 0.0
    for value in values:
        found = np.maximum(found, np.abs(value))
    return found
