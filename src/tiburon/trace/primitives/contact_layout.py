"""Rows of contact points in the metric of the mass matrix, as solvers read them.

Symbols:
    A       three rows per contact point, two tangents and the normal: its Jacobian times H^-1/2
    B       six rows of a body: its angular velocity, then the velocity of a point of it, by the
            same metric; world axes
    E       what the velocity of a contact point is in terms of those of its body: A = E B

A contact point has three rows of its own, or it belongs to a group: points of one body that touches
the world. Such a group has the six rows of its body, and each point its arm from the point to which
B refers; a pad of nine points has 6 rows instead of 27, and sweeps over its points exchange six
numbers. Where the normal is the z axis of the world, the axes of the points are those of B.

Of a robot with many points that may touch, those that are active follow in slots: points with rows
of their own over all velocities, of which a number known at run time is used. Points that resist
turning have several contacts in a slot, and columns that no other slot has, which come last.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

OWN, LEVEL, TURNED = 0, 1, 2
"""Forms of groups: one point with rows of its own; points whose axes are those of the world;
points with axes of their own."""

_WIDTHS = {OWN: 0, LEVEL: 3, TURNED: 12}

MOST_RUNS = {OWN: 8, LEVEL: 4, TURNED: 4}
"""Runs of groups of one form, each of one size, up to which each has code of its own: loops of
known length, and over several groups at once. Of a humanoid, such code would be long: the sizes of
its bodies differ by the joints before them."""

SIZES = 6
"""Integers of a group in `Run.sizes`."""


Counts = tuple[int, int, int, int]


class PointGroup(NamedTuple):
    """Contact points that share rows."""

    form: int
    """`OWN`, `LEVEL` or `TURNED`."""

    points: int
    """Number of points, one after the other."""

    support: tuple[int, ...]
    """Columns where rows are not zero."""

    @property
    def rows(self) -> int:
        """Rows of B, or of A for a point with rows of its own."""
        return 3 if self.form == OWN else 6

    @property
    def width(self) -> int:
        """Numbers of each point: its arm, and its axes where they are its own."""
        return _WIDTHS[self.form]

    @property
    def counts(self) -> Counts:
        """Points, entries, numbers and columns."""
        columns = len(self.support)
        return self.points, self.rows * columns, self.points * self.width, columns


class Run(NamedTuple):
    """Groups that follow each other and differ in numbers only, or also in size."""

    group: PointGroup
    """The first of them."""

    length: int
    """Number of groups."""

    columns: tuple[int, ...]
    """Their supports, one after the other."""

    first: int
    """Number of the first group."""

    point: int
    """Number of the first point."""

    entry: int
    """Place of its first row among the entries of all groups."""

    number: int
    """Place of the first number of its points among those of all points."""

    column: int
    """Columns of the supports of all groups before."""

    sizes: tuple[int, ...]
    """Where groups differ in size, `SIZES` integers of each: its points and columns, then points,
    entries, numbers and columns of the groups of the run before it. Empty where they do not."""

    in_slots: bool = False
    """Whether they are slots, of which some are used."""

    is_alike: bool = False
    """Whether all have the columns of the first, which alone are listed."""


class ContactLayout:
    """Where rows of contact points are among the arguments of a primitive.

    Attributes:
        groups: Points that share rows.
        contacts: Number of points.
        entries: Number of entries of the rows of all groups, which come first.
        numbers: Arms and axes of all points, which follow.
        supports: For each point the columns where its rows are not zero.
        slots: Number of slots, which are the last groups.
        couplings: Number of columns that make normal impulses equal, of friction against turning:
            no velocities.
    """

    def __init__(self, groups: Sequence[PointGroup], slots: int = 0, couplings: int = 0) -> None:
        """Lay out groups in order, slots last; `couplings` are those beside the slots."""
        self.groups = tuple(groups)
        self.slots = slots
        self.couplings = couplings + self.own_columns
        self.contacts = sum(group.points for group in groups)
        self.entries = sum(group.rows * len(group.support) for group in groups)
        self.numbers = sum(group.points * group.width for group in groups)
        self.supports = tuple(group.support for group in groups for _ in range(group.points))

    @classmethod
    def of(cls, supports: Sequence[Sequence[int]]) -> ContactLayout:
        """Return the layout of points with rows of their own."""
        return cls([PointGroup(OWN, 1, tuple(support)) for support in supports])

    @functools.cached_property
    def own_columns(self) -> int:
        """Number of columns that one slot has alone."""
        supports = {group.support for group in self.groups[len(self.groups) - self.slots :]}
        shared = set.intersection(*map(set, supports)) if supports else set()
        return len({i for support in supports for i in support} - shared)

    def form(self) -> list[int]:
        """Return integers that determine the layout."""
        heads = [x for g in self.groups for x in (g.form, g.points, len(g.support))]
        supports = [x for g in self.groups for x in g.support]
        couplings = [self.couplings] if self.couplings else []
        return [len(self.groups), self.slots, *heads, *supports, *couplings]

    def runs(self) -> Iterator[Run]:
        """Return the groups in runs of the same form and size; of one form where these are many."""
        fixed = len(self.groups) - self.slots
        alike = self._divided(lambda g: (g.form, g.points, len(g.support)))
        counts = Counter(members[0].form for members in alike)
        many = {form for form, count in counts.items() if count > MOST_RUNS[form]}
        if many:
            alike = self._divided(
                lambda g: (g.form, *(() if g.form in many else (g.points, len(g.support))))
            )
        first, before = 0, (0, 0, 0, 0)
        if self.slots:
            alike.append(list(self.groups[fixed:]))
        for members in alike:
            in_slots = first >= fixed
            is_alike = in_slots and not self.own_columns
            listed = members[:1] if is_alike else members
            columns = tuple(x for member in listed for x in member.support)
            totals = list(itertools.accumulate((one.counts for one in members), _sum))
            sizes: list[int] = []
            if len({one.counts for one in members}) > 1:
                for one, ahead in zip(members, [(0, 0, 0, 0), *totals], strict=False):
                    sizes += [one.points, len(one.support), *ahead]
            of = Run(members[0], len(members), columns, first, *before, tuple(sizes))
            yield of._replace(in_slots=in_slots, is_alike=is_alike)
            first, before = first + len(members), _sum(before, totals[-1])

    def _divided(self, key: Callable[[PointGroup], Any]) -> list[list[PointGroup]]:
        """Return groups but slots that follow each other and have the same key together."""
        fixed = self.groups[: len(self.groups) - self.slots]
        return [list(members) for _, members in itertools.groupby(fixed, key)]

    def own_rows(self, given: Sequence[Any]) -> list[Any]:
        """Return the rows A of all points over their supports, one after the other.

        Args:
            given: Entries of all groups, then numbers of all points.
        """
        found: list[Any] = []
        entry, number = 0, self.entries
        for group in self.groups:
            length = len(group.support)
            B = [list(given[entry + r * length :][:length]) for r in range(group.rows)]
            entry += group.rows * length
            if group.form == OWN:
                found += [x for row in B for x in row]
                continue
            for _ in range(group.points):
                own = given[number : number + group.width]
                number += group.width
                columns = [at_point(own, column) for column in zip(*B, strict=True)]
                found += [column[axis] for axis in range(3) for column in columns]
        return found


def _sum(a: Counts, b: Counts) -> Counts:
    """Return the sums of two rows of counts."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


def at_point(own: Sequence[Any], w: Sequence[Any]) -> list[Any]:
    """Return the velocity of a point along its axes, for scalars.

    Args:
        own: Its arm, then its axes if they are not those of the world.
        w: Angular velocity of its body, then the velocity of the point of reference.
    """
    (x, y, z), (a, b, c) = w[:3], own[:3]
    u = [w[3] + y * c - z * b, w[4] + z * a - x * c, w[5] + x * b - y * a]
    if len(own) == 3:
        return u
    axes = [own[3 + 3 * k : 6 + 3 * k] for k in range(3)]
    return [sum((s * t for s, t in zip(axis, u, strict=True)), 0.0) for axis in axes]
