"""Positions of a whole robot as a manifold: how steps of velocity move them.

Positions of a floating base are not vectors: its orientation is a rotation. Each joint kind defines
how a step moves its own variables; here these are put side by side for all joints.

Symbols:
    theta   steps away from a fixed position: coordinates of the positions near it
    ad      bracket with theta
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from tiburon.model import Joint, Model
from tiburon.model.joints.quaternion import Free, Spherical
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.rotations import (
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_to_matrix,
    select,
)
from tiburon.spatial.vec3 import matrix_vector
from tiburon.trace.differentiation import push_forward
from tiburon.trace.primitives.primitive import nodes_of
from tiburon.trace.program import current_graph
from tiburon.trace.regions import as_value, function
from tiburon.trace.regions.lanes import lanes

Steps = tuple[Scalars, ...]
"""One step per joint that moves; as long as its velocity, or longer where rolling binds that."""

SMALL_TURN = 1e-4
"""Squared angle below which series replace formulas that divide by it, as in `quaternion_exp`."""


class Manifold:
    """The positions of a robot; works on floats and on traced values alike."""

    def __init__(self, model: Model) -> None:
        """List the joints that move."""
        self._joints: list[tuple[Joint, slice, slice]] = [
            (joint, model.slice(joint.name, of="q"), model.slice(joint.name, of="v"))
            for joint in model.joints
            if joint.nv
        ]
        self.joint_names = tuple(joint.name for joint, _, _ in self._joints)
        """Names of the joints that move."""
        steps = [joint.step(joint.neutral(), (0.0,) * joint.nv) for joint, _, _ in self._joints]
        self.step_counts = tuple(len(step) for step in steps)
        """Numbers in the step of each joint that moves."""
        self.turning = tuple(
            _fails_to_commute(joint, count)
            for (joint, _, _), count in zip(self._joints, self.step_counts, strict=True)
        )
        """Of each joint that moves, whether its steps fail to commute: their first three numbers
        are then a turn."""
        self._functions: dict[Hashable, Callable[..., Any]] = {}

    def function(self, key: Hashable, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call as a function that is traced once for equal keys."""
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = function(call)
        return found

    def rate(self, q: Scalars, v: Scalars) -> Steps:
        """Return the rate of position at a position and velocity, as steps per second."""
        return tuple(joint.step(q[i], v[j]) for joint, i, j in self._joints)

    def move(self, q: Scalars, steps: Steps) -> Scalars:
        """Return positions after steps [m or rad], one per joint that moves."""
        joints = zip(self._joints, steps, strict=True)
        return tuple(x for (joint, i, _), step in joints for x in joint.move(q[i], step))

    def reexpress(self, v: Scalars, before: Scalars, after: Scalars) -> Scalars:
        """Return velocities that are components in body axes in the axes of another position.

        These are the velocities of joints whose positions begin with a quaternion: angular, then
        linear. Others stay as they are.

        Args:
            v: Velocity [m/s or rad/s], nv scalars.
            before: Position whose body axes it is given in, nq scalars.
            after: Position in whose body axes it is returned, nq scalars.
        """
        found: list[Scalar] = list(v)
        given = [(tuple(v[j]), tuple(before[i]), tuple(after[i])) for _, i, j in self._joints]
        turned = self._each_joint(self.reexpress_joint, given)
        for (_, _, j), own in zip(self._joints, turned, strict=True):
            found[j] = own
        return tuple(found)

    def _each_joint(
        self, call: Callable[..., Any], given: Sequence[tuple[Scalars, ...]]
    ) -> list[Any]:
        """Call a function of a joint's place and some numbers for each, turning ones side by side.

        Args:
            call: Takes the place of a joint among those that move, and its numbers.
            given: Numbers of each joint that moves.
        """
        found: dict[int, Any] = {}
        for places in self._like:
            own = [given[place] for place in places]
            found.update(zip(places, lanes(partial(call, places[0]), own), strict=True))
        return [
            found[place] if place in found else call(place, *own) for place, own in enumerate(given)
        ]

    def first_like(self, name: str) -> int:
        """Return the place of the first joint that moves as one does, by the name of that one."""
        place = self.joint_names.index(name)
        return next((places[0] for places in self._like if place in places), place)

    @cached_property
    def _like(self) -> list[list[int]]:
        """Places of ball joints, and of free ones."""
        kinds: dict[type[Joint], list[int]] = {}
        for place, (joint, _, _) in enumerate(self._joints):
            # these have no dimensions; subclasses of the user's own may move otherwise
            if type(joint) in (Free, Spherical):
                kinds.setdefault(type(joint), []).append(place)
        return list(kinds.values())

    @cached_property
    def turns(self) -> frozenset[int]:
        """Velocity variables that are components of angular velocities in body axes."""
        joints = zip(self._joints, self.turning, strict=True)
        return frozenset(
            j.start + k
            for (joint, _, j), turning in joints
            if turning
            for k in range(3)
            if joint.nv in (3, 6)
        )

    def reexpress_joint(self, place: int, v: Scalars, before: Scalars, after: Scalars) -> Scalars:
        """Return the same for one joint, by its place among those that move."""
        if not self.turning[place] or len(v) not in (3, 6):
            return v
        turn = quaternion_multiply(quaternion_conjugate(after[:4]), before[:4])
        R = quaternion_to_matrix(turn)
        found: list[Scalar] = []
        for first in range(0, len(v), 3):
            found += matrix_vector(R, (v[first], v[first + 1], v[first + 2]))
        return tuple(found)

    def displaced(self, q: Scalars, v: Scalars, duration: Scalar) -> Scalars:
        """Return positions after some time at constant velocity, quaternions not normalized."""
        steps = self.rate(q, v)
        given = [
            (tuple(q[i]), tuple(duration * y for y in one))
            for (_, i, _), one in zip(self._joints, steps, strict=True)
        ]
        moved = self._each_joint(lambda place, *own: self._joints[place][0].move(*own), given)
        return tuple(x for one in moved for x in one)

    def bracket(self, a: Steps, b: Steps) -> Steps:
        """Return the Lie bracket of two steps: zero where they simply add."""
        joints = zip(self._joints, a, b, strict=True)
        return tuple(joint.bracket(x, y) for (joint, _, _), x, y in joints)

    def displacement(self, q0: Scalars, q1: Scalars) -> Steps:
        """Return the steps that move positions q0 to q1, turns by at most pi."""
        return tuple(joint.displacement(q0[i], q1[i]) for joint, i, _ in self._joints)

    def coordinate_rate(self, theta: Steps, rates: Steps) -> Steps:
        """Return the rate of theta while positions move(q, theta) change at given rates.

        The inverse of the derivative of the exponential. Rates act from the right, in body axes:
        d theta/dt = (ad / (1 - exp(-ad))) rate = (1 + ad/2 + ad^2/12 - ad^4/720 ...) rate
        (Iserles, Munthe-Kaas, Norsett and Zanna 2000, "Lie-group methods", sec. 2.5). Where steps
        add, the rate itself. Turns are below 2 pi.
        """
        joints = zip(self._joints, self.turning, theta, rates, strict=True)
        return tuple(
            _turned_rate(joint, step, rate) if turning else rate
            for (joint, _, _), turning, step, rate in joints
        )

    def coordinate_changes(self, q: Scalars, v: Scalars) -> tuple[list[Scalars], list[Scalars]]:
        """Return the derivatives of `coordinate_rate` at theta = 0, by theta and by velocity."""
        size = sum(self.step_counts)
        by_theta: list[Scalars] = []
        by_v: list[Scalars] = [(0.0,) * size] * len(v)
        place = 0
        joints = zip(self._joints, self.turning, self.step_counts, strict=True)
        for (joint, i, j), turning, count in joints:
            along = self.function(("change", joint.name), partial(_rate_change, joint, turning))
            own = (tuple(q[i]), (0.0,) * count, tuple(v[j]))
            for k, unit in enumerate(np.eye(count + joint.nv).tolist()):
                column = [0.0] * size
                column[place : place + count] = along(*own, tuple(unit))
                if k < count:
                    by_theta.append(tuple(column))
                else:
                    by_v[j.start + k - count] = tuple(column)
            place += count
        return by_theta, by_v

    def normalize(self, q: Scalars) -> Scalars:
        """Return the same positions with quaternions of length 1."""
        given = [(tuple(q[i]),) for _, i, _ in self._joints]
        found = self._each_joint(lambda place, own: self._joints[place][0].normalize(own), given)
        return tuple(x for one in found for x in one)


class GuidedManifold(Manifold):
    """Positions that move with a velocity computed from the state, not with that in w itself.

    Runs with independent velocities integrate these; all others follow from them and from the
    configuration.
    """

    def __init__(self, model: Model, guide: Callable[..., Any]) -> None:
        """List the joints; `guide` returns position and velocity, and maybe more, for q and w."""
        super().__init__(model)
        self._guide = function(guide)

    def guide(self, q: Scalars, w: Scalars) -> Any:
        """Return what a state determines; computed once."""
        return self._guide(tuple(q), tuple(w))

    def rate(self, q: Scalars, v: Scalars) -> Steps:
        """Return the rate of position in a state, as steps per second; v stands for w."""
        return super().rate(q, self.guide(q, v)[1])


def _rate_change(
    joint: Joint, turning: bool, q: Scalars, theta: Scalars, v: Scalars, direction: Scalars
) -> Scalars:
    """Return how the coordinate rates of a joint change in a direction of (theta, v)."""
    rate = joint.step(joint.move(q, theta), v)
    found = _turned_rate(joint, theta, rate) if turning else rate
    return changes_along(found, (*theta, *v), direction)


def changes_along(found: Scalars, leaves: Scalars, direction: Scalars) -> Scalars:
    """Return the change of traced values while leaves of their graph change in a direction."""
    graph = current_graph()
    assert graph is not None
    tangents = dict(zip(nodes_of(graph, leaves), nodes_of(graph, direction), strict=True))
    changes = push_forward(graph, nodes_of(graph, found), tangents)
    return tuple(as_value(graph, node) for node in changes)


def _fails_to_commute(joint: Joint, count: int) -> bool:
    """Return whether brackets of a joint's steps differ from zero, by two that have no zeros."""
    a = tuple(1.0 + place for place in range(count))
    b = tuple(1.0 / x for x in a)
    return any(joint.bracket(a, b))


def _turned_rate(joint: Joint, theta: Scalars, rate: Scalars) -> Scalars:
    """Return (ad / (1 - exp(-ad))) rate in closed form.

    ad (ad^2 + t^2)^2 = 0 for turns by an angle t, with or without shifts, so that a second and a
    fourth power say what all even powers do. Their factors a and b make the two sides agree at the
    double eigenvalue i t of ad, in value and slope:

        g = (t/2) cot(t/2) = 1 - a t^2 + b t^4,   g' = -2 a t + 4 b t^3
    """
    x, y, z = theta[:3]
    t2 = x * x + y * y + z * z
    small = t2 < SMALL_TURN
    t = np.sqrt(select(small, 1.0, t2))
    s, c = np.sin(0.5 * t), np.cos(0.5 * t)
    g = 0.5 * t * c / s
    # t g' / 2
    slope = 0.5 * g - 0.125 * t * t / (s * s)
    b_far = (1.0 - g + slope) / (t * t * t * t)
    a_far = (2.0 * (1.0 - g) + slope) / (t * t)
    a = select(small, 1 / 12 - t2 * t2 * (1 / 30240 + t2 * (2 / 1209600)), a_far)
    b = select(small, -1 / 720 - t2 * (2 / 30240 + t2 * (3 / 1209600)), b_far)
    first = joint.bracket(theta, rate)
    second = joint.bracket(theta, first)
    fourth = joint.bracket(theta, joint.bracket(theta, second))
    terms = zip(rate, first, second, fourth, strict=True)
    return tuple(k + 0.5 * k1 + a * k2 + b * k4 for k, k1, k2, k4 in terms)


# the motion as an ordinary differential equation, in coordinates about one position

Acceleration = Callable[..., Scalars]
"""Returns the rate of w for q and w, and for the time [s] where one is given."""

MAX_INLINED_TERMS = 96
"""Numbers beyond which a sum of vectors is a function of its own: quicker to compile."""


class Chart:
    """Coordinates about one position; works on floats and on traced values alike."""

    def __init__(self, manifold: Manifold, acceleration: Acceleration, q: Scalars) -> None:
        """Put the origin of coordinates at a position."""
        self.manifold = manifold
        self.acceleration = acceleration
        self.q = q
        self.position_count = sum(manifold.step_counts)
        """How many of the coordinates are steps of position."""
        # exponentials of all stages are a function of their own: quicker to compile
        self._rates = function(self._computed) if any(manifold.turning) else self._computed

    def start(self, w: Scalars) -> Scalars:
        """Return the coordinates of the state with position q."""
        return (*(0.0,) * self.position_count, *w)

    def steps(self, y: Scalars) -> Steps:
        """Return the part of coordinates that moves positions, joint by joint."""
        found, place = [], 0
        for count in self.manifold.step_counts:
            found.append(tuple(y[place : place + count]))
            place += count
        return tuple(found)

    def state(self, y: Scalars) -> tuple[Scalars, Scalars]:
        """Return position and w at some coordinates, quaternions of length 1."""
        manifold = self.manifold
        q = manifold.normalize(manifold.move(self.q, self.steps(y)))
        return q, tuple(y[self.position_count :])

    def rates(self, y: Scalars, *time: Scalar) -> Scalars:
        """Return how fast coordinates change."""
        found: Scalars = self._rates(tuple(self.q), tuple(y), *time)
        return found

    def _computed(self, origin: Scalars, y: Scalars, *time: Scalar) -> Scalars:
        theta, w = self.steps(y), tuple(y[self.position_count :])
        q = self.manifold.move(origin, theta)
        return self.rates_of(theta, q, w, self.acceleration(q, w, *time))

    def rates_of(self, theta: Steps, q: Scalars, w: Scalars, rate: Scalars) -> Scalars:
        """Return the rates of coordinates theta at position q, where the rate of w is known."""
        turned = self.manifold.coordinate_rate(theta, self.manifold.rate(q, w))
        return (*(x for step in turned for x in step), *rate)

    def rates_at_start(self, w: Scalars, rate: Scalars) -> Scalars:
        """Return how fast coordinates change at their origin, where the rate of w is known."""
        return (*(x for step in self.manifold.rate(self.q, w) for x in step), *rate)


def combine(y: Scalars, h: Scalar, factors: Scalars, rates: Sequence[Scalars]) -> Scalars:
    """Return y + h (factors[0] rates[0] + factors[1] rates[1] + ...), leaving out zeros."""
    pairs = zip(factors, rates, strict=False)
    kept = [(a, k) for a, k in pairs if not isinstance(a, float) or a != 0.0]
    if not kept:
        return tuple(y)
    used = tuple(factor for factor, _ in kept)

    def summed(y: Scalars, h: Scalar, rates: tuple[Scalars, ...]) -> Scalars:
        return tuple(a + h * _weighted(used, ks) for a, *ks in zip(y, *rates, strict=True))

    # thousands of sums in a row would take long to compile
    run = function(summed) if len(y) > MAX_INLINED_TERMS else summed
    found: Scalars = run(tuple(y), h, tuple(k for _, k in kept))
    return found


def _weighted(factors: Scalars, values: Scalars) -> Scalar:
    total: Scalar = factors[0] * values[0]
    for factor, value in zip(factors[1:], values[1:], strict=True):
        total = total + factor * value
    return total
