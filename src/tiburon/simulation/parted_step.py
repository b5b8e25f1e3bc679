"""Steps in parts: up to the instant at which something closes or opens, and on from there.

Within a step forces are smooth, but where bodies collide, or compliant contacts begin and cease to
push. Taken as a whole, such a step is of first order: what a collision changes acts from an instant
that positions know to first order only, with normals and lever arms of another one. A step in which
that happens is taken again in parts, by the same function: up to shortly before the instant,
through it, and on. The energy of a collision is then that of its own instant.

Steps without such an instant are those of that function.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.compliant_contact import CompliantContactElement
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.contact.rigid import IMPACT_SPEED, Impact
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.regions import function, where_needed
from tiburon.trace.structure import flatten, rebuild

MOST_IMPACTS = 5
"""Collisions at different instants at which one step is parted at most."""

IMPACT_WAY = 1e-8
"""What contacts approach in the part of a step that contains their collision [m]: a thousand times
what gaps are exact to."""

IMPACT_SHARE, LONGEST_IMPACT = 1e-4, 1e-7
"""Length of this part at most, relative to the step or absolute [s]."""

MOST_SWITCHES = 4
"""Instants at which compliant contacts switch and one step is parted at most."""

PROBES = 3
"""Steps that locate the instant of a collision."""


class PartEnd(NamedTuple):
    """State at the end of a part of a step."""

    q: Scalars
    """Configuration."""

    w: Scalars
    """Velocities with continuous states."""

    u: Scalars
    """Held values."""

    impact: Impact
    """The first collision with restitution."""


TakenPart = Callable[[Scalars, Scalars, Scalars, Scalar, Scalar], PartEnd]
"""Takes a part of a step from q, w and u, of a length [s], from a time [s] on."""


class _Parts(NamedTuple):
    """A step that is parted at collisions."""

    begun: Scalar
    """Time since the start of the step [s]."""

    here: PartEnd
    """State then."""

    ahead: PartEnd
    """State at the end of the step, if nothing more collides."""

    impulses: Scalars
    """Impulses of contacts so far, in the order of `RigidContactElement.mean_forces` [N s]."""


def past_impacts(
    system: Any,
    taken: TakenPart,
    start: tuple[Scalars, Scalars, Scalars],
    whole: PartEnd,
    h: Scalar,
    time: Scalar,
    most: int = MOST_IMPACTS,
) -> PartEnd:
    """Return the end of a step, parted at the instants of collisions with restitution.

    Args:
        system: The robot, with rigid contact.
        taken: Takes a part of a step.
        start: Configuration, velocities and held values at the start of the step.
        whole: The end of the step as a whole.
        h: Its length [s].
        time: Time at its start [s].
        most: Instants at which it is parted at most.
    """
    rigid = system.find(RigidContactElement)
    element, at_z = rigid.element, rigid.z
    places = range(system.discrete.start + at_z.start, system.discrete.start + at_z.stop)
    longest = np.minimum(np.maximum(IMPACT_SHARE * h, LONGEST_IMPACT), h)

    def forces(end: PartEnd) -> Scalars:
        found: Scalars = element.mean_forces(tuple(end.u[k] for k in places))
        return found

    def collides(parts: _Parts) -> Any:
        return parts.ahead.impact.time < h - parts.begun

    def taken_from(end: PartEnd, duration: Scalar, begun: Scalar) -> PartEnd:
        """Take a part of the step."""
        return taken(end.q, end.w, end.u, duration, time + begun)

    @function
    def past(parts: _Parts) -> _Parts:
        here, begun, rest = parts.here, parts.begun, h - parts.begun
        until, speed = parts.ahead.impact
        for _ in range(PROBES):
            # the path without the collision, which ends at it, or so long that rates are known
            probe = np.minimum(np.maximum(until, longest), rest)
            found = taken_from(here, probe, begun).impact
            until, speed = _chosen(found.time < rest, found, Impact(until, speed))
        impact = np.minimum(IMPACT_WAY / np.maximum(speed, IMPACT_SPEED), longest)
        before = until - 0.5 * impact
        before = np.where(before < impact, 0.0, np.minimum(before, rest))
        first = taken_from(here, np.maximum(before, impact), begun)
        first = _chosen(before > 0.0, first, here)
        # what would remain of a step is part of the collision
        through = np.where(before > 0.0, impact, until + 0.5 * impact)
        through = np.where(rest - before - through < longest, rest - before, through)
        second = taken_from(first, through, begun + before)
        left = rest - before - through
        begun = begun + before + through
        ahead = taken_from(second, np.maximum(left, impact), begun)
        ahead = _chosen(left > 0.0, ahead, second._replace(impact=Impact(rest, 0.0 * h)))
        pushed = zip(parts.impulses, forces(first), forces(second), strict=True)
        impulses = tuple(p + before * a + through * b for p, a, b in pushed)
        return _Parts(begun, second, ahead, impulses)

    def parted() -> PartEnd:
        here = PartEnd(*start, Impact(0.0 * h, 0.0 * h))
        first = _Parts(0.0 * h, here, whole, (0.0 * h,) * len(forces(whole)))
        parts: _Parts = _repeated(collides, past, first, most)
        left = h - parts.begun
        pushed = zip(parts.impulses, forces(parts.ahead), strict=True)
        means = tuple((p + left * force) / h for p, force in pushed)
        u, before = list(parts.ahead.u), tuple(start[2][k] for k in places)
        states = element.with_mean_forces(tuple(u[k] for k in places), means, before)
        for k, state in zip(places, states, strict=True):
            u[k] = state
        return parts.ahead._replace(u=tuple(u))

    found: PartEnd = where_needed(whole.impact.time < h, parted, whole)
    return found


class _Switched(NamedTuple):
    """A step that is parted where compliant contacts begin or cease to push."""

    begun: Scalar
    """Time since the start of the step [s]."""

    here: tuple[Scalars, Scalars, Scalars]
    """Configuration, velocities and held values then."""

    ahead: tuple[Scalars, Scalars, Scalars]
    """The same at the end of the step, if no other contact switches."""


def past_switches(
    system: Any,
    moved: Callable[..., tuple[Scalars, Scalars]],
    start: tuple[Scalars, Scalars, Scalars],
    whole: tuple[Scalars, Scalars, Scalars],
    h: Scalar,
    times: tuple[Scalar, Scalar],
    p: Scalars,
) -> tuple[Scalars, Scalars, Scalars]:
    """Return the end of a step, parted where compliant contacts begin or cease to push.

    Points that do not push at the start of a part stay open up to its end, so that its rates are
    smooth.

    Args:
        system: The robot, with compliant contact.
        moved: Takes a part of a step from q, w and u, of a length [s], from a time [s] on.
        start: Configuration, velocities and held values at the start of the step.
        whole: The same after the step as a whole.
        h: Its length [s].
        times: Time at its start and at its end [s].
        p: Run-time parameters of the elements.
    """
    contact = system.find(CompliantContactElement)
    element, time = contact.element, times[0]
    at = slice(system.discrete.start + contact.z.start, system.discrete.start + contact.z.stop)

    @function
    def updated(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        found: Scalars = system.update(q, w, u, time, p, contact=True)
        return found

    @function
    def levels(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        contexts = system.contexts_at(q, w, u, time, p)
        return tuple(element.levels(next(now for one, now in contexts if one is contact)))

    def switches(parts: _Switched) -> Any:
        found: Any = False
        both = (element.pushes(one[2][at]) for one in (parts.here, parts.ahead))
        for before, after in zip(*both, strict=True):
            found = found | (before != after)
        return found & (parts.begun < h)

    @function
    def past(parts: _Switched) -> _Switched:
        (q, w, u), begun, rest = parts.here, parts.begun, h - parts.begun
        open_u = (*u[: at.start], *element.held_open(u[at]), *u[at.stop :])

        def levels_after(part: Scalar) -> Scalars:
            end = moved(q, w, open_u, part, time + begun)
            found: Scalars = levels(*end, open_u, time + begun + part)
            return found

        first, last = levels(q, w, open_u, time + begun), levels_after(rest)
        one = _first_zero((0.0 * h, first), (rest, last), (rest, last), first, last, rest)
        at_one = levels_after(one)
        two = _first_zero((0.0 * h, first), (rest, last), (one, at_one), first, last, rest)
        at_two = levels_after(two)
        three = _first_zero((0.0 * h, first), (one, at_one), (two, at_two), first, last, rest)
        end = moved(q, w, open_u, three, time + begun)
        here = (*end, updated(*end, u, time + begun + three))
        left = rest - three
        after = moved(*here, left, time + begun + three)
        ahead = (*after, updated(*after, here[2], times[1]))
        found = _Switched(begun + three, here, ahead)
        # nothing that can be located
        located: _Switched = _chosen(three >= rest, parts._replace(begun=h), found)
        return located

    def parted() -> tuple[Scalars, Scalars, Scalars]:
        parts: _Switched = _repeated(switches, past, first, MOST_SWITCHES)
        q, w, _ = parts.ahead
        return q, w, system.update(q, w, parts.here[2], times[1], p)

    first = _Switched(0.0 * h, start, whole)
    found: tuple[Scalars, Scalars, Scalars] = where_needed(switches(first), parted, whole)
    return found


def _repeated(needed: Callable[..., Any], past: Callable[..., Any], parts: Any, most: int) -> Any:
    """Return a step that is parted as long as needed; unlike a loop this has derivatives."""
    if most == 0:
        return parts

    def parted() -> Any:
        return _repeated(needed, past, past(parts), most - 1)

    return where_needed(needed(parts), parted, parts)


def _first_zero(
    a: tuple[Scalar, Scalars],
    b: tuple[Scalar, Scalars],
    c: tuple[Scalar, Scalars],
    first: Scalars,
    last: Scalars,
    rest: Scalar,
) -> Scalar:
    """Return when the first of some levels becomes positive; `rest` if none does.

    By parabolas through three instants, by straight lines where two of them are the same.

    Args:
        a: An instant, and the levels then.
        b: A second one.
        c: A third one, from which on the zero is sought in both directions.
        first: Levels at the start.
        last: Levels at the end.
        rest: When that is.
    """

    def slope(one: Scalar, other: Scalar, rise: Scalar) -> Scalar:
        way = other - one
        some = np.abs(way) > 1e-14 * rest
        return np.where(some, rise / np.where(some, way, 1.0), 0.0)

    found: Scalar = rest
    (s, ys), (t, yt), (r, yr) = a, b, c
    for y0, y1, y2, begins, ends in zip(ys, yt, yr, first, last, strict=True):
        straight = slope(s, t, y1 - y0)
        bent = slope(t, r, y2 - y1)
        bends = slope(s, r, bent - straight)
        # about the third instant
        rise = np.where(np.abs(r - t) > 1e-14 * rest, bent + (r - t) * bends, straight)
        square = rise * rise - 4.0 * bends * y2
        whole = rise + np.sqrt(np.maximum(square, 0.0))
        some = (begins < 0.0) & (ends > 0.0) & (rise > 0.0)
        zero = r - np.where(some, 2.0 * y2 / np.where(some, whole, 1.0), 0.0)
        zero = np.minimum(np.maximum(zero, 0.0), rest)
        found = np.minimum(found, np.where(some, zero, rest))
    return found


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    """Return one of two values of the same structure."""
    (x, structure), (y, _) = flatten(a), flatten(b)
    return rebuild(structure, iter(np.where(condition, p, q) for p, q in zip(x, y, strict=True)))
