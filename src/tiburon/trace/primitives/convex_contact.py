"""Where two convex polyhedra touch, or come closest: features and the overlap of two faces.

The signed distance is the largest separation s(n) = min n . (b - a) over all unit normals n and
points a of the first, b of the second body; negative, it is minus the depth of the overlap. Bodies
that are apart have one maximum, and the algorithm of Gilbert, Johnson and Keerthi (1988) finds it.
Bodies that touch or overlap are moved apart along the best normal so far, until they are a share
`MARGIN` of the smaller one apart: the normal of their closest points then has no smaller s, and is
the same at a maximum. Whatever the normal, s of the faces and the pair of edges there is compared
with its own, so that features decide and rounding does not.

Vertices farthest out are found from edge to edge, by what `contact/polyhedra.py` puts into memory.
A face that is nearly across the normal is the reference: the face of the other body that lies on it
is clipped to it, and of the corners of what is left those farthest out in fixed directions of the
reference are contacts. They keep their places from step to step.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from tiburon.trace.primitives.primitive import ConstantPrimitive, Machine, Memory

MARGIN = 1e-7
"""Distance to which bodies that touch are moved apart; the farther, the smaller the steps of
the normal."""

DEPTH_MARGIN = 0.1
"""The same of bodies that overlap, as a part of their depth."""

TOUCHING = 1e-7
"""Distance up to which bodies touch."""

DEEP = 1e-8
"""Depth from which on it is checked whether it is that of a face on another side."""

DOUBTED_SHIFT = 2.0
"""How far bodies are moved apart along the line of their centers for that, per depth."""

SAME = 1e-12
"""Difference of separations that is rounding."""

POINT_PREFERENCE = 1e-11
"""How much farther apart bodies must be along a normal of their points than of their features."""

FIRST_PREFERENCE = 1e-6
"""How much farther apart bodies must be along a face of the second than of the first."""

FACE_PREFERENCE = 1e-3
"""How much less far apart bodies may be along a face that is still clipped: a body that lies on
another keeps its contacts when it tilts a little."""

BORDER = 1e-6
"""How far corners may be beyond the border of a parallel face: those of equal faces are in both."""

PARALLEL_FACES = 1e-6
"""1 minus the cosine of the angle between faces that count as parallel for that."""

SAME_PLACE = 1e-6
"""Distance of contacts that are one."""

NEARER = 1e-9
"""How much nearer than its contacts a face must be for one of the closest points."""

TIED = 1e-9
"""How much farther out a corner must be to take the place of another."""

PARALLEL = 1e-10
"""Squared sine of the angle between edges up to which they are parallel."""

FIRST_ANGLE = 0.3
"""Angle of the first direction in a face [rad]: off the sides of most."""

MAX_PASSES, MAX_ITERATIONS, MAX_STEPS = 16, 60, 1000
"""Normals, iterations for each, and edges to a vertex farthest out, at most."""

MAX_LISTED, MAX_CORNERS = 1024, 32
"""Neighbors or faces of a vertex, and corners of a face, at most."""

FAR = 1e300
"""Larger than any distance."""

FIRST_FACE, SECOND_FACE, EDGES, POINTS = range(1, 5)
"""Kinds of closest features: a face of the first or of the second body, two edges, points."""

MANIFOLD, POINT, CLOSEST = 7, 8, 17
"""Results: whether the first has the face, its normal, and that of the face on it; of each contact
the point of the first and of the second body, whether it exists, and whether its normal is that of
the face on it, over which it is a corner; of the closest features whether they are none
of these, their kind, both points, a normal and two directions."""

Vector = list[Any]


class ConvexContact(ConstantPrimitive):
    """Find the contacts of two polyhedra.

    From the address of their rows, the place of the header of each, rotation and position of the
    second in axes of the first, the size that lengths are compared with, and the distance beyond
    which there are no contacts, to the results listed at `MANIFOLD`. Points and normals are in axes
    of their own body, those of faces from the first toward the second. The normal of closest points
    is in axes of the first; their directions are those of edges, zero for vertices, in axes of
    their own bodies.

    Contacts on a face are none, two (the ends of a first body of two vertices), or those farthest
    out in so many directions.
    """

    def __init__(self, contacts: int) -> None:
        super().__init__("convex_contact", contacts)
        self.contacts = contacts
        self.argument_count = 17
        self.result_count = MANIFOLD + POINT * contacts + CLOSEST

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it reads external memory."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Search the normal, then clip the faces across it."""
        search = _Search(m, given)
        search.run()
        _Clipping(m, search, self.contacts).run(found)


class _Words:
    """Vectors in the words of a machine."""

    def __init__(self, m: Machine) -> None:
        self.m = m
        self.zero, self.one = m.constant(0.0), m.constant(1.0)

    def dot(self, a: Vector, b: Vector) -> Any:
        m = self.m
        return m.add_product(a[2], b[2], m.add_product(a[1], b[1], m.mul(a[0], b[0])))

    def minus(self, a: Any, b: Any) -> Any:
        return self.m.sub_product(self.one, b, a)

    def negative(self, a: Vector) -> Vector:
        return [self.minus(self.zero, x) for x in a]

    def difference(self, a: Vector, b: Vector) -> Vector:
        return [self.minus(x, y) for x, y in zip(a, b, strict=True)]

    def along(self, a: Vector, s: Any, b: Vector) -> Vector:
        """Return a + s b."""
        return [self.m.add_product(s, y, x) for x, y in zip(a, b, strict=True)]

    def scaled(self, a: Vector, s: Any) -> Vector:
        return [self.m.mul(s, x) for x in a]

    def cross(self, a: Vector, b: Vector) -> Vector:
        m = self.m
        return [m.sub_product(a[k], b[j], m.mul(a[j], b[k])) for j, k in ((1, 2), (2, 0), (0, 1))]

    def turned(self, R: Vector, a: Vector) -> Vector:
        return [self.dot(R[3 * i : 3 * i + 3], a) for i in range(3)]

    def turned_back(self, R: Vector, a: Vector) -> Vector:
        return [self.dot(R[i::3], a) for i in range(3)]

    def inverse(self, x: Any) -> Any:
        """Return 1 / x, and 0 of what is not positive."""
        m = self.m
        positive = m.less(self.zero, x)
        return m.choose(positive, m.div(self.one, m.choose(positive, x, self.one)), self.zero)

    def unit(self, a: Vector) -> Vector:
        return self.scaled(a, self.inverse(self.m.sqrt(self.dot(a, a))))

    def choose(self, condition: Any, a: Vector, b: Vector) -> Vector:
        return [self.m.choose(condition, x, y) for x, y in zip(a, b, strict=True)]

    def opposite(self, p: Any) -> Any:
        m = self.m
        return m.less(m.choose(p, self.one, self.zero), m.constant(0.5))

    def number(self, p: Any) -> Any:
        return self.m.choose(p, self.one, self.zero)

    def read(self, memory: Memory, first: Any, size: int = 3) -> Vector:
        return [self.m.load(memory, first + k) for k in range(size)]

    def put(self, memory: Memory, first: Any, values: Vector) -> None:
        for k, value in enumerate(values):
            self.m.store(memory, first + k, value)

    def keep(self, memory: Memory, first: Any, condition: Any, values: Vector) -> None:
        """Write where a condition holds."""
        for k, value in enumerate(values):
            self.m.store(
                memory, first + k, self.m.choose(condition, value, self.m.load(memory, first + k))
            )


FIRST, BETWEEN, LAST, DONE = 0.0, 1.0, 2.0, 3.0
"""Modes of a pass: along the line of centers, along closest points, along the best normal."""

RAW, FACE_A, FACE_B, CROSS = range(4)
"""Directions of a pass: its normal, the faces there, the edges there."""


class _Search(_Words):
    """The search for the normal of largest separation.

    Memory: `tops` has for each body the vertex farthest out so far; `simplex` three points of the
    difference of the bodies, each with the vertices of both, and `weights` their shares of the
    closest point v. `best` has the best normal, its separation, kind and vertices.
    """

    def __init__(self, m: Machine, given: Memory) -> None:
        super().__init__(m)
        self.address = m.load(given, 0)
        self.headers = self.read(given, 1, 2)
        self.R, self.p = self.read(given, 3, 9), self.read(given, 12)
        self.size, self.near = m.load(given, 15), m.load(given, 16)
        self.tops, self.jumps = m.memory(2), m.memory(2)
        for h, header in enumerate(self.headers):
            m.store(self.tops, h, m.fetch(self.address, header))
            m.store(self.jumps, h, m.fetch(self.address, m.add(header, self.one)))
        self.best = m.memory(7)
        self.faces = m.memory(2)
        # of the edges there: a point and the vector to another one, of both bodies
        self.edges = m.memory(12)
        # of the closest points: each of them, and the direction of an edge, of both bodies
        self.points = m.memory(12)
        self.separations, self.exact = m.memory(4), m.memory(1)
        self._edges, self._points = m.memory(12), m.memory(12)
        self._mode, self._passes, self._plain = m.memory(1), m.memory(1), m.memory(1)
        # whether the next pass moves bodies along the line of centers, and whether one has done so
        self._doubted = m.memory(2)
        # separation and tops along the normal of a pass
        self._raw = m.memory(3)
        self._v, self._shift = m.memory(3), m.memory(3)
        self._w, self._tops, self._weights = m.memory(9), m.memory(6), m.memory(3)

    def share(self, x: float) -> Any:
        return self.m.mul(self.m.constant(x), self.size)

    def fetched(self, place: Any, size: int = 3) -> Vector:
        m = self.m
        return [m.fetch(self.address, m.add(place, m.constant(float(k)))) for k in range(size)]

    def second(self, place: Any) -> Vector:
        """Return a vertex of the second body in axes of the first."""
        return [
            self.m.add(x, y)
            for x, y in zip(self.turned(self.R, self.fetched(place)), self.p, strict=True)
        ]

    def ahead(self, h: Any, d: Vector) -> Vector:
        """Return a direction in which a body is to be farthest out, in its axes, from its number.

        Direction d of the first body, -d of the second, in axes of the first.
        """
        back = self.negative(self.turned_back(self.R, d))
        return self.choose(self.is_second(h), back, d)

    def is_second(self, h: Any) -> Any:
        return self.m.less(self.m.constant(0.5), self.m.number(h))

    def climb(self, d: Vector, first: Any, second: Any) -> None:
        """Move the top of each body that is to be from edge to edge as far out as it goes."""
        m = self.m
        going, way, height = m.memory(1), m.memory(3), m.memory(1)
        for h in m.loop(0, 2):
            self.put(way, 0, self.ahead(h, d))
            m.store(going, 0, m.choose(self.is_second(h), self.number(second), self.number(first)))
            active = m.less(m.constant(0.5), m.load(going, 0))
            m.store(height, 0, self.dot(self.fetched(m.load(self.tops, h)), self.read(way, 0)))
            for _ in m.iterate(MAX_STEPS, lambda: m.less(m.constant(0.5), m.load(going, 0))):
                top = m.load(self.tops, h)
                listed = m.fetch(self.address, m.add(top, m.load(self.jumps, h)))
                count = m.fetch(self.address, listed)
                m.store(going, 0, self.zero)
                for i in m.loop(0, m.largest(count, MAX_LISTED)):
                    k = m.add(m.number(i), self.one)
                    k = m.choose(m.less(k, count), k, count)
                    other = m.fetch(self.address, m.add(listed, k))
                    x = self.dot(self.fetched(other), self.read(way, 0))
                    higher = m.both(active, m.less(m.load(height, 0), x))
                    self.keep(height, 0, higher, [x])
                    self.keep(self.tops, h, higher, [other])
                    self.keep(going, 0, higher, [self.one])

    def run(self) -> None:
        m = self.m
        m.store(self._mode, 0, m.constant(FIRST))
        m.store(self._passes, 0, self.zero)
        start = self.unit(self.p)
        is_zero = m.less(self.dot(start, start), m.constant(0.5))
        start = self.choose(is_zero, [self.zero, self.zero, self.one], start)
        self.put(self.best, 0, start)
        self.put(
            self.best, 3, [m.constant(-FAR), m.constant(float(POINTS)), *self.read(self.tops, 0, 2)]
        )
        blank = [
            *((self.edges, 12), (self.points, 12), (self._edges, 12), (self._points, 12)),
            *((self.separations, 4), (self.exact, 1), (self._plain, 1)),
            (self._doubted, 2),
            (self._raw, 3),
            *((self._w, 9), (self._tops, 6), (self._weights, 3)),
        ]
        for memory, size in blank:
            self.put(memory, 0, [self.zero] * size)
        for h in m.loop(0, 2):
            # some face, whatever is found
            link = m.add(m.load(self.tops, h), m.load(self.jumps, h))
            listed = m.fetch(self.address, m.add(link, self.one))
            m.store(self.faces, h, m.fetch(self.address, m.add(listed, self.one)))
        for _ in m.iterate(
            3 * MAX_PASSES, lambda: m.less(m.load(self._mode, 0), m.constant(DONE - 0.5))
        ):
            self._pass()

    def _is(self, mode: float) -> Any:
        m, now = self.m, self.m.load(self._mode, 0)
        return m.both(m.less(m.constant(mode - 0.5), now), m.less(now, m.constant(mode + 0.5)))

    def _pass(self) -> None:
        """Search closest points, or take the normal as it is; then compare it with features."""
        m = self.m
        runs = m.less(m.load(self._mode, 0), m.constant(DONE - 0.5))
        between = self._is(BETWEEN)
        before = m.load(self.best, 3)
        # bodies that are apart stay where they are
        asked = m.less(m.constant(0.5), m.load(self._doubted, 0))
        plain = m.both(between, m.less(self.share(TOUCHING), before))
        self.keep(self._plain, 0, runs, [self.number(plain)])
        n = self.read(self.best, 0)
        depth = m.choose(m.less(before, self.zero), self.minus(self.zero, before), self.zero)
        way = m.add_product(m.constant(1.0 + DEPTH_MARGIN), depth, self.share(MARGIN))
        moved = m.both(between, self.opposite(plain))
        shift = self.scaled(n, m.choose(moved, way, self.zero))
        far = m.mul(m.constant(DOUBTED_SHIFT), depth)
        shift = self.choose(asked, self.scaled(self.unit(self.p), far), shift)
        self.keep(self._shift, 0, runs, shift)
        self.keep(self._v, 0, runs, n)
        self._find_closest(runs, between)
        v = self.read(self._v, 0)
        # separations along v itself are those along its direction times its length
        length = m.sqrt(self.dot(v, v))
        n = self.choose(between, self.scaled(v, self.inverse(length)), n)
        s = m.mul(m.load(self._raw, 0), m.choose(between, self.inverse(length), self.one))
        # of points that coincide there is none
        apart = m.either(self.opposite(between), m.less(self.share(SAME), length))
        s = m.choose(apart, s, m.constant(-FAR))
        self.keep(self._raw, 0, runs, [s])
        directions, valid = m.memory(12), m.memory(4)
        self._propose(runs, n, directions, valid)
        self._compare(runs, directions, valid)
        self._go_on(runs, between, (asked, plain), before)

    def _find_closest(self, runs: Any, between: Any) -> None:
        """Find the closest points of the bodies, the second one moved by `shift`.

        Passes that take the normal as it is end with the vertices farthest out along it.
        """
        m = self.m
        filled, going = m.memory(1), m.memory(1)
        m.store(filled, 0, self.zero)
        m.store(going, 0, self.number(runs))
        for _ in m.iterate(MAX_ITERATIONS, lambda: m.less(m.constant(0.5), m.load(going, 0))):
            active = m.less(m.constant(0.5), m.load(going, 0))
            has = m.less(m.constant(0.5), m.load(filled, 0))
            v = self.read(self._v, 0)
            self.climb(v, active, active)
            tops = self.read(self.tops, 0, 2)
            w = self.difference(self.second(tops[1]), self.fetched(tops[0]))
            self.keep(self._raw, 0, active, [self.dot(v, w), *tops])
            w = [m.add(x, y) for x, y in zip(w, self.read(self._shift, 0), strict=True)]
            square = self.dot(v, v)
            known = m.less_equal(
                self.minus(square, self.dot(v, w)), m.mul(m.constant(1e-15), square)
            )
            for k in range(3):
                a, b = self.read(self._tops, 2 * k, 2)
                same = m.both(m.less_equal(a, tops[0]), m.less_equal(tops[0], a))
                same = m.both(same, m.both(m.less_equal(b, tops[1]), m.less_equal(tops[1], b)))
                known = m.either(known, same)
            known = m.either(self.opposite(between), m.both(has, known))
            m.store(going, 0, self.number(m.both(active, self.opposite(known))))
            for _ in m.iterate(1, lambda: m.less(m.constant(0.5), m.load(going, 0))):
                new = m.less(m.constant(0.5), m.load(going, 0))
                points, weights, nearest, closest = self._nearest(w, tops, has)
                new = m.both(new, m.either(self.opposite(has), m.less(nearest, square)))
                m.store(going, 0, self.number(new))
                for k, (x, own) in enumerate(points):
                    self.keep(self._w, 3 * k, new, x)
                    self.keep(self._tops, 2 * k, new, own)
                    self.keep(self._weights, k, new, [weights[k]])
                self.keep(self._v, 0, new, closest)
                self.keep(filled, 0, new, [self.one])

    def _nearest(self, w: Vector, tops: Vector, has: Any) -> tuple[Any, ...]:
        """Return the part of a simplex with a new point that is nearest to the origin.

        Returns:
            Three points, each with the vertices of both bodies; their weights; the squared distance
            and the nearest point.
        """
        m, zero, one = self.m, self.zero, self.one
        old = [(self.read(self._w, 3 * k), self.read(self._tops, 2 * k, 2)) for k in range(3)]
        edges = [self.difference(x, w) for x, _ in old]
        squares = [self.dot(e, e) for e in edges]
        ways = [self.minus(zero, self.dot(e, w)) for e in edges]
        best = (self.dot(w, w), w, zero, zero, zero, zero)
        # nearest so far: squared distance, point, two weights, and the numbers of two old points
        for k in range(3):
            s = m.mul(ways[k], self.inverse(squares[k]))
            inside = m.both(has, m.both(m.less(zero, s), m.less_equal(s, one)))
            x = self.along(w, s, edges[k])
            best = self._better(
                best, inside, (self.dot(x, x), x, s, zero, m.constant(float(k)), zero)
            )
        for j, k in ((0, 1), (0, 2), (1, 2)):
            mixed = self.dot(edges[j], edges[k])
            normal = self.cross(edges[j], edges[k])
            area = self.dot(normal, normal)
            regular = m.less(m.mul(m.constant(1e-24), m.mul(squares[j], squares[k])), area)
            inverse = self.inverse(area)
            s = m.mul(m.sub_product(mixed, ways[k], m.mul(squares[k], ways[j])), inverse)
            t = m.mul(m.sub_product(mixed, ways[j], m.mul(squares[j], ways[k])), inverse)
            inside = m.both(m.both(has, regular), m.both(m.less(zero, s), m.less(zero, t)))
            inside = m.both(inside, m.less_equal(m.add(s, t), one))
            x = self.along(self.along(w, s, edges[j]), t, edges[k])
            # along the normal, which has no error of the weights
            height = m.mul(self.dot(normal, w), inverse)
            flat = self.scaled(normal, height)
            found = (m.mul(m.mul(height, height), area), flat, s, t)
            best = self._better(best, inside, (*found, m.constant(float(j)), m.constant(float(k))))
        square, x, s, t, j, k = best
        chosen = []
        for number, weight in ((j, s), (k, t)):
            one_of = self._of_old(old, number)
            used = m.less(zero, weight)
            chosen.append((self.choose(used, one_of[0], w), self.choose(used, one_of[1], tops)))
        first = self.minus(self.minus(one, s), t)
        return [(w, tops), *chosen], [first, s, t], square, x

    def _better(self, best: Any, inside: Any, other: Any) -> Any:
        m = self.m
        closer = m.both(inside, m.less(other[0], best[0]))
        found = [
            self.choose(closer, b, a) if isinstance(a, list) else m.choose(closer, b, a)
            for a, b in zip(best, other, strict=True)
        ]
        return tuple(found)

    def _of_old(self, old: Any, number: Any) -> Any:
        m = self.m
        found = old[0]
        for k in (1, 2):
            later = m.less(m.constant(k - 0.5), number)
            found = tuple(self.choose(later, b, a) for a, b in zip(found, old[k], strict=True))
        return found

    def _propose(self, runs: Any, n: Vector, directions: Memory, valid: Memory) -> None:
        """Put normals into memory: n, of a face of each body there, and of the edges there."""
        m = self.m
        first = self._is(FIRST)
        self.put(directions, 3 * RAW, n)
        m.store(valid, RAW, self.one)
        # the vertex of largest weight
        weights = self.read(self._weights, 0)
        heavy = self.read(self._tops, 0, 2)
        most = weights[0]
        for k in (1, 2):
            heavier = m.less(most, weights[k])
            most = m.choose(heavier, weights[k], most)
            heavy = self.choose(heavier, self.read(self._tops, 2 * k, 2), heavy)
        heavy = self.choose(self._is(BETWEEN), heavy, self.read(self.tops, 0, 2))
        corners, axis, score = m.memory(2), m.memory(3), m.memory(1)
        self.put(corners, 0, heavy)
        middle = m.memory(6)
        self.put(middle, 0, self.p)
        self.put(middle, 3, self.negative(self.turned_back(self.R, self.p)))
        for h in m.loop(0, 2):
            # at the start faces that the middle of the other body is farthest above
            self.put(axis, 0, self.choose(first, self.read(middle, h * 3), self.ahead(h, n)))
            m.store(score, 0, m.constant(-FAR))
            link = m.add(m.load(corners, h), m.load(self.jumps, h))
            listed = m.fetch(self.address, m.add(link, self.one))
            count = m.fetch(self.address, listed)
            for i in m.loop(0, m.largest(count, MAX_LISTED)):
                k = m.add(m.number(i), self.one)
                k = m.choose(m.less(k, count), k, count)
                face = m.fetch(self.address, m.add(listed, k))
                *normal, offset = self.fetched(face, 4)
                x = self.minus(
                    self.dot(normal, self.read(axis, 0)), m.choose(first, offset, self.zero)
                )
                better = m.both(runs, m.less(m.load(score, 0), x))
                self.keep(score, 0, better, [x])
                self.keep(self.faces, h, better, [face])
        *normal, offset = self.fetched(m.load(self.faces, 0), 4)
        self.put(directions, 3 * FACE_A, normal)
        m.store(valid, FACE_A, self.number(m.less(offset, m.constant(1e200))))
        *normal, offset = self.fetched(m.load(self.faces, 1), 4)
        self.put(directions, 3 * FACE_B, self.negative(self.turned(self.R, normal)))
        m.store(valid, FACE_B, self.number(m.less(offset, m.constant(1e200))))
        self._propose_edges(runs, n, directions, valid)

    def _propose_edges(self, runs: Any, n: Vector, directions: Memory, valid: Memory) -> None:
        """Put the normal of edges into memory, and what they are, and the closest points."""
        m, zero = self.m, self.zero
        between = m.both(runs, self._is(BETWEEN))
        weights = self.read(self._weights, 0)
        tops = [self.read(self._tops, 2 * k, 2) for k in range(3)]
        ends = [[self.fetched(a), self.second(b)] for a, b in tops]
        edges, points = [], []
        for h in range(2):
            vector = [zero, zero, zero]
            point = self.scaled(ends[0][h], weights[0])
            for k in (1, 2):
                used = m.less(zero, weights[k])
                way = self.difference(ends[k][h], ends[0][h])
                point = self.along(point, weights[k], ends[k][h])
                shorter = m.less(self.dot(vector, vector), self.dot(way, way))
                vector = self.choose(m.both(used, shorter), way, vector)
            edges.append((ends[0][h], vector))
            points.append((point, self.unit(vector)))
        normal = self.cross(edges[0][1], edges[1][1])
        squares = [self.dot(vector, vector) for _, vector in edges]
        square = self.dot(normal, normal)
        crosses = m.less(m.mul(m.constant(PARALLEL), m.mul(*squares)), square)
        normal = self.unit(normal)
        turned = m.less(self.dot(normal, n), zero)
        normal = self.choose(turned, self.negative(normal), normal)
        self.put(directions, 3 * CROSS, normal)
        m.store(valid, CROSS, self.number(m.both(between, crosses)))
        self.keep(self._edges, 0, between, [x for edge in edges for part in edge for x in part])
        self.keep(self._points, 0, between, [x for point in points for part in point for x in part])

    def _compare(self, runs: Any, directions: Memory, valid: Memory) -> None:
        """Keep the normal of largest separation: of features, or of points if that is larger."""
        m = self.m
        order = m.table([FACE_A, FACE_B, CROSS])
        corners = m.memory(3)
        self.put(
            corners, 0, [self._corner(m.load(self.faces, 0)), self._corner(m.load(self.faces, 1))]
        )
        for i in m.loop(0, 3):
            c = m.lookup(order, i)
            d = self.read(directions, c * 3)
            counts = m.both(runs, m.less(m.constant(0.5), m.load(valid, c)))
            # a face is as far out as its corners
            on_first = m.less(m.number(i), m.constant(0.5))
            on_second = m.both(self.opposite(on_first), m.less(m.number(i), m.constant(1.5)))
            self.keep(self.tops, 0, m.both(counts, on_first), [m.load(corners, 0)])
            self.keep(self.tops, 1, m.both(counts, on_second), [m.load(corners, 1)])
            climbs = [m.both(counts, self.opposite(x)) for x in (on_first, on_second)]
            self.climb(d, *climbs)
            tops = self.read(self.tops, 0, 2)
            s = self.dot(d, self.difference(self.second(tops[1]), self.fetched(tops[0])))
            s = m.choose(counts, s, m.constant(-FAR))
            self.keep(self.separations, c, runs, [s])
            self._offer(counts, [*d, s, m.add(m.number(i), self.one), *tops], self.share(SAME))
        s, *tops = self.read(self._raw, 0, 3)
        is_plain = m.less(m.constant(0.5), m.load(self._plain, 0))
        is_points = m.less(m.constant(POINTS - 0.5), m.load(self.best, 4))
        # closest points replace those of another pass, but no features
        room = m.choose(is_plain, self.share(-SAME), self.share(SAME))
        room = m.choose(is_points, room, self.share(POINT_PREFERENCE))
        n = self.read(directions, 3 * RAW)
        better = self._offer(runs, [*n, s, m.constant(float(POINTS)), *tops], room)
        self.keep(self.exact, 0, better, [self.number(is_plain)])

    def _corner(self, face: Any) -> Any:
        """Return the vertex of the first corner of a face."""
        m = self.m
        return m.fetch(self.address, m.add(face, m.constant(9.0)))

    def _offer(self, counts: Any, found: Vector, room: Any) -> Any:
        """Keep a normal whose separation is larger than the best one by more than some room."""
        m = self.m
        better = m.both(counts, m.less(m.add(m.load(self.best, 3), room), found[3]))
        self.keep(self.best, 0, better, found)
        self.keep(self.edges, 0, better, self.read(self._edges, 0, 12))
        self.keep(self.points, 0, better, self.read(self._points, 0, 12))
        return better

    def _go_on(self, runs: Any, between: Any, how: tuple[Any, Any], before: Any) -> None:
        """Choose the next pass: the last one looks for faces across the best normal."""
        m = self.m
        asked, plain = how
        first, last = self._is(FIRST), self._is(LAST)
        passes = m.add(m.load(self._passes, 0), self.one)
        better = m.less(m.add(before, self.share(SAME)), m.load(self.best, 3))
        many = m.less(m.constant(MAX_PASSES - 0.5), passes)
        best = m.load(self.best, 3)
        apart = m.both(plain, m.less(self.share(TOUCHING), best))
        ended = m.both(between, m.either(apart, m.either(self.opposite(better), many)))
        ended = m.either(ended, m.both(first, self._is_settled()))
        # what looks like a deep overlap may be a face on another side of bodies that are apart
        doubt = m.both(
            m.less(best, self.share(-DEEP)), m.less(m.load(self._doubted, 1), m.constant(0.5))
        )
        doubt = m.both(doubt, ended)
        self.keep(self._doubted, 0, runs, [self.number(doubt)])
        self.keep(self._doubted, 1, m.both(runs, doubt), [self.one])
        ended = m.both(ended, self.opposite(doubt))
        # passes along closest points have looked for them
        looked = m.either(last, m.both(between, self.opposite(asked)))
        mode = m.choose(looked, m.constant(DONE), m.constant(LAST))
        mode = m.choose(m.either(last, ended), mode, m.constant(BETWEEN))
        # a plane between them is enough
        mode = m.choose(m.less(self.near, best), m.constant(DONE), mode)
        self.keep(self._mode, 0, runs, [mode])
        self.keep(self._passes, 0, runs, [passes])

    def _is_settled(self) -> Any:
        """Return whether the normal is that of a face which the vertex of the other is over."""
        m = self.m
        kind = m.load(self.best, 4)
        is_face = m.less(kind, m.constant(SECOND_FACE + 0.5))
        on_first = m.less(kind, m.constant(FIRST_FACE + 0.5))
        a, b = self.read(self.best, 5, 2)
        vertex = self.second(b)
        other = self.turned_back(self.R, self.difference(self.fetched(a), self.p))
        x = self.choose(on_first, vertex, other)
        face = m.choose(on_first, *self.read(self.faces, 0, 2))
        depth = m.memory(1)
        m.store(depth, 0, m.constant(FAR))
        count = m.fetch(self.address, m.add(face, m.constant(7.0)))
        for i in m.loop(0, m.largest(count, MAX_CORNERS)):
            *inward, offset = self.fetched(corner_place(m, face, m.number(i), count, 1), 4)
            height = self.minus(self.dot(inward, x), offset)
            m.store(depth, 0, m.choose(m.less(height, m.load(depth, 0)), height, m.load(depth, 0)))
        s = m.load(self.best, 3)
        s = m.choose(m.less(s, self.zero), self.minus(self.zero, s), s)
        return m.both(is_face, m.less(s, m.load(depth, 0)))


def corner_place(m: Machine, face: Any, number: Any, count: Any, first: int) -> Any:
    """Return the place of a number of a corner; the last corner stands for those beyond it."""
    last = m.add(count, m.constant(-1.0))
    number = m.choose(m.less(number, last), number, last)
    return m.add(m.add_product(number, m.constant(5.0), face), m.constant(9.0 + first))


class _Clipping(_Words):
    """The contacts on a face, and the closest features where they are none of them.

    Memory: `kept` has for each contact the point of the other body in axes of the body with the
    face, its height and how far out it is.
    """

    def __init__(self, m: Machine, search: _Search, contacts: int) -> None:
        super().__init__(m)
        self.search, self.contacts = search, contacts
        self.kept = m.memory(6 * contacts) if contacts else None

    def run(self, found: Memory) -> None:
        """Write all results; of bodies that are far apart a normal, and no contacts."""
        m, of = self.m, self.search
        normal = self.read(of.best, 0)
        for k in m.loop(0, MANIFOLD + POINT * self.contacts + CLOSEST):
            m.store(found, k, self.zero)
        self.put(found, 1, [*normal, *normal])
        self.put(found, MANIFOLD + POINT * self.contacts + 8, normal)
        for _ in m.iterate(1, lambda: m.less_equal(m.load(of.best, 3), of.near)):
            self._run(found)

    def _run(self, found: Memory) -> None:
        m, of = self.m, self.search
        best, kind = m.load(of.best, 3), m.load(of.best, 4)
        sides = self.read(of.separations, 0, 4)
        first = m.less_equal(sides[FACE_B], m.add(sides[FACE_A], of.share(FIRST_PREFERENCE)))
        most = m.choose(first, sides[FACE_A], sides[FACE_B])
        is_near = m.less_equal(best, of.near)
        exists = m.less_equal(best, m.add(most, of.share(FACE_PREFERENCE)))
        exists = m.both(is_near, exists)
        nearest: Any = m.constant(FAR)
        if self.contacts:
            nearest = self._clip(found, first, exists)
        flat = m.constant(0.0)
        for k in range(2):
            flat = m.add(flat, m.fetch(of.address, m.add(m.load(of.faces, k), m.constant(8.0))))
        alone = m.less(best, self.minus(nearest, m.add(of.share(NEARER), flat)))
        self._closest(found, kind, m.both(is_near, alone))

    def _clip(self, found: Memory, first: Any, exists: Any) -> Any:
        """Write the contacts on the face; return the least of their heights."""
        m, of, zero, one = self.m, self.search, self.zero, self.one
        size = of.share
        face = m.choose(first, *self.read(of.faces, 0, 2))
        other = m.choose(first, *reversed(self.read(of.faces, 0, 2)))
        # the other body in axes of the one with the face: of the second x = R^T (y - p)
        Q = self.choose(first, of.R, [of.R[3 * j + i] for i in range(3) for j in range(3)])
        t = self.choose(first, of.p, self.negative(self.turned_back(of.R, of.p)))

        def moved(place: Any) -> Vector:
            x = self.turned(Q, of.fetched(place))
            return [m.add(a, b) for a, b in zip(x, t, strict=True)]

        n = of.fetched(face)
        offset = m.fetch(of.address, m.add(face, m.constant(3.0)))
        along = of.fetched(m.add(face, m.constant(4.0)))
        across = self.cross(n, along)
        ways = m.memory(3 * self.contacts)
        corners = [m.fetch(of.address, m.add(x, m.constant(7.0))) for x in (face, other)]
        if self.contacts == 2:
            ends = [
                moved(
                    m.fetch(of.address, corner_place(m, other, m.constant(float(k)), corners[1], 0))
                )
                for k in range(2)
            ]
            way = self.difference(ends[1], ends[0])
            self.put(ways, 0, way)
            self.put(ways, 3, self.negative(way))
        else:
            for k in range(self.contacts):
                angle = FIRST_ANGLE + 2.0 * math.pi * k / self.contacts
                c, s = m.constant(math.cos(angle)), m.constant(math.sin(angle))
                self.put(ways, 3 * k, self.along(self.scaled(along, c), s, across))
        for k in m.loop(0, self.contacts):
            self.put(self.kept, k * 6, [zero, zero, zero, zero, m.constant(-FAR), zero])

        def offer(x: Vector, there: Any, own: Any = zero) -> None:
            height = self.minus(self.dot(n, x), offset)
            for k in m.loop(0, self.contacts):
                out = self.dot(self.read(ways, k * 3), x)
                farther = m.less(m.add(m.load(self.kept, k * 6 + 4), size(TIED)), out)
                self.keep(self.kept, k * 6, m.both(there, farther), [*x, height, out, own])

        normal = self.turned(Q, of.fetched(other))
        slope = self.minus(zero, self.dot(normal, n))
        is_parallel = m.less(m.constant(1.0 - PARALLEL_FACES), slope)
        border_width = m.choose(is_parallel, size(BORDER), size(SAME))
        # ends of the sides of the other face within this one
        clipped = m.memory(2)
        end = m.memory(7)
        for i in m.loop(0, m.largest(corners[1], MAX_CORNERS)):
            real = m.both(exists, m.less(m.number(i), corners[1]))
            following = m.add(m.number(i), one)
            following = m.choose(m.less(following, corners[1]), following, zero)
            a = moved(m.fetch(of.address, corner_place(m, other, m.number(i), corners[1], 0)))
            b = moved(m.fetch(of.address, corner_place(m, other, following, corners[1], 0)))
            side = self.difference(b, a)
            self.put(clipped, 0, [zero, one])
            for j in m.loop(0, m.largest(corners[0], MAX_CORNERS)):
                *inward, border = of.fetched(corner_place(m, face, m.number(j), corners[0], 1), 4)
                inside = m.add(self.minus(self.dot(inward, a), border), border_width)
                rate = self.dot(inward, side)
                enters, leaves = m.less(zero, rate), m.less(rate, zero)
                moves = m.either(enters, leaves)
                at = m.div(self.minus(zero, inside), m.choose(moves, rate, one))
                low, high = self.read(clipped, 0, 2)
                low = m.choose(m.both(enters, m.less(low, at)), at, low)
                high = m.choose(m.both(leaves, m.less(at, high)), at, high)
                outside = m.both(self.opposite(moves), m.less(inside, zero))
                self.put(clipped, 0, [low, m.choose(outside, m.constant(-FAR), high)])
            low, high = self.read(clipped, 0, 2)
            real = m.both(real, m.less_equal(low, high))
            low, high = (m.choose(real, x, zero) for x in (low, high))
            self.put(end, 0, [*self.along(a, low, side), *self.along(a, high, side)])
            for k in m.loop(0, 2):
                offer(self.read(end, k * 3), real)
        # corners of this face within the other
        height = m.add(m.fetch(of.address, m.add(other, m.constant(3.0))), self.dot(normal, t))
        faces_it = m.both(exists, m.less(m.constant(1e-3), slope))
        height, inverse = m.choose(faces_it, height, zero), self.inverse(slope)
        for i in m.loop(0, m.largest(corners[0], MAX_CORNERS)):
            real = m.both(faces_it, m.less(m.number(i), corners[0]))
            y = of.fetched(m.fetch(of.address, corner_place(m, face, m.number(i), corners[0], 0)))
            up = m.mul(self.minus(self.dot(normal, y), height), inverse)
            x = self.along(y, up, n)
            own = self.turned_back(Q, self.difference(x, t))
            m.store(clipped, 0, m.constant(FAR))
            for j in m.loop(0, m.largest(corners[1], MAX_CORNERS)):
                *inward, border = of.fetched(corner_place(m, other, m.number(j), corners[1], 1), 4)
                inside = self.minus(self.dot(inward, own), border)
                m.store(
                    clipped,
                    0,
                    m.choose(m.less(inside, m.load(clipped, 0)), inside, m.load(clipped, 0)),
                )
            real = m.both(real, m.less(border_width, m.load(clipped, 0)))
            # a corner over a parallel face has the normal of that face
            low, high = (
                m.less(m.constant(s * FACE_PREFERENCE), m.mul(up, self.inverse(of.size)))
                for s in (-1.0, 1.0)
            )
            close = m.both(low, self.opposite(high))
            offer(x, real, self.number(m.both(is_parallel, close)))
        return self._put_contacts(found, (first, exists), (n, normal, Q, t))

    def _put_contacts(self, found: Memory, given: tuple[Any, Any], face: tuple[Vector, ...]) -> Any:
        """Write the contacts that are none of those before; return the least height."""
        m, of = self.m, self.search
        (first, exists), (n, normal, Q, t) = given, face
        m.store(found, 0, self.number(first))
        self.put(found, 1, self.choose(first, n, self.negative(n)))
        # in axes of the other body, toward the second one, too
        on_other = self.turned_back(Q, normal)
        self.put(found, 4, self.choose(first, self.negative(on_other), on_other))
        lowest, new = m.memory(1), m.memory(1)
        m.store(lowest, 0, m.constant(FAR))
        for k in m.loop(0, self.contacts):
            x = self.read(self.kept, k * 6)
            height, out, corner = self.read(self.kept, k * 6 + 3, 3)
            there = m.both(exists, m.less(m.constant(-0.5 * FAR), out))
            m.store(new, 0, self.number(there))
            for j in m.loop(0, k):
                way = self.difference(self.read(self.kept, j * 6), x)
                near = m.less(self.dot(way, way), m.mul(of.share(SAME_PLACE), of.share(SAME_PLACE)))
                m.store(new, 0, m.choose(near, self.zero, m.load(new, 0)))
            is_lower = m.both(there, m.less(height, m.load(lowest, 0)))
            m.store(lowest, 0, m.choose(is_lower, height, m.load(lowest, 0)))
            foot = self.along(x, self.minus(self.zero, height), n)
            # below the corner on the other face, along its normal
            is_corner = m.less(m.constant(0.5), corner)
            drop = m.mul(m.mul(height, self.dot(normal, n)), self.number(is_corner))
            x = self.choose(is_corner, self.along(foot, drop, normal), x)
            own = self.turned_back(Q, self.difference(x, t))
            a, b = self.choose(first, foot, own), self.choose(first, own, foot)
            self.put(found, k * POINT + MANIFOLD, [*a, *b, m.load(new, 0), corner])
        return m.load(lowest, 0)

    def _closest(self, found: Memory, kind: Any, alone: Any) -> None:
        """Write the closest features."""
        m, of, zero = self.m, self.search, self.zero
        s = m.load(of.best, 3)
        n = self.read(of.best, 0)
        a, b = of.fetched(m.load(of.best, 5)), of.second(m.load(of.best, 6))
        exact = m.less(m.constant(0.5), m.load(of.exact, 0))
        is_points = m.less(m.constant(POINTS - 0.5), kind)
        # points that are not the closest ones have the normal of a face
        kind = m.choose(
            m.both(is_points, self.opposite(exact)), m.constant(float(FIRST_FACE)), kind
        )
        is_points = m.both(is_points, exact)
        is_edges = m.both(
            m.less(m.constant(EDGES - 0.5), kind), m.less(kind, m.constant(EDGES + 0.5))
        )
        on_second = m.both(
            m.less(m.constant(SECOND_FACE - 0.5), kind), m.less(kind, m.constant(SECOND_FACE + 0.5))
        )
        a, b = (
            self.choose(on_second, a, self.along(b, self.minus(zero, s), n)),
            self.choose(on_second, self.along(a, s, n), b),
        )
        edges = [self.read(of.edges, 3 * k) for k in range(4)]
        points = [self.read(of.points, 3 * k) for k in range(4)]
        # where the lines of both edges come closest
        c = self.cross(edges[1], edges[3])
        between = self.difference(edges[2], edges[0])
        at = m.mul(self.dot(self.cross(between, edges[3]), c), self.inverse(self.dot(c, c)))
        x = self.along(edges[0], at, edges[1])
        a = self.choose(is_edges, x, self.choose(is_points, points[0], a))
        b = self.choose(is_edges, self.along(x, s, n), self.choose(is_points, points[2], b))
        u1 = self.choose(is_edges, self.unit(edges[1]), points[1])
        u2 = self.choose(is_edges, self.unit(edges[3]), points[3])
        own = self.choose(on_second, self.turned_back(of.R, n), n)
        place = MANIFOLD + POINT * self.contacts
        back = self.turned_back(of.R, self.difference(b, of.p))
        self.put(
            found,
            place,
            [self.number(alone), kind, *a, *back, *own, *u1, *self.turned_back(of.R, u2)],
        )
        if not self.contacts:
            self.put(found, 0, [zero, *n, *n])


def convex_contact(
    contacts: int, rows: Sequence[Any], pose: Sequence[Any], size: Any, near: Any
) -> list[Any]:
    """Return the contacts of two polyhedra as `ConvexContact` does; on floats or traced values.

    Args:
        contacts: Contacts on a face.
        rows: Address of the numbers of all polyhedra, and the place of the header of each.
        pose: Rotation by rows and position of the second in axes of the first.
        size: Size that lengths are compared with [m].
        near: Distance from which on there are no contacts [m].
    """
    return ConvexContact(contacts).apply([*rows, *pose, size, near])
