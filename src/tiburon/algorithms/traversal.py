"""Drivers: the only places where algorithms loop over bodies.

An algorithm passes a driver a visit: a function of one body and some values that returns values and
writes into nothing shared. The driver passes the returned values to the next body and decides how
visits run: on floats, inlined into one graph, or as calls of a tape.

Values per body are sequences in the order of `Plan.bodies`, parents first.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

from tiburon.algorithms.like_branches import LikeBranches, Stage, like_branches, side_by_side
from tiburon.algorithms.tape_calls import flat, recorder
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar, Scalars, Transform


class Addable(Protocol):
    """A value that supports addition."""

    def __add__(self, other: Self, /) -> Self:
        """Return the sum."""


Value = TypeVar("Value")
Sum = TypeVar("Sum", bound=Addable)
Kept = TypeVar("Kept")


def _visit(visit: Callable[..., Any], body: PlanBody, *values: Any) -> Any:
    """Run a visit, or record it on the tape."""
    steps = recorder()
    return visit(body, *values) if steps is None else steps.run(visit, body, values)


def _needed(value: Any) -> Any:
    """Return a value for the parent, which visits may give as a function."""
    return value() if callable(value) else value


def _groups(plan: Plan, lanes: bool) -> dict[int, LikeBranches]:
    """Return groups of like branches by the first body of each; none on a tape."""
    if not lanes or recorder() is not None:
        return {}
    return {group[0][0]: group for group in like_branches(plan)}


def _are_alike(own: Sequence[Sequence[Any]], branches: LikeBranches) -> bool:
    """Return whether the values of like bodies have the same structure."""
    return all(
        len({flat(values[index], [], lift_all=True) for index in bodies}) == 1
        for values in own
        for bodies in zip(*branches, strict=True)
    )


def _inside(plan: Plan, branches: LikeBranches) -> list[int]:
    """Return the place of each body's parent in its branch, -1 outside, by place of the body."""
    branch = branches[0]
    place = {index: k for k, index in enumerate(branch)}
    return [place.get(plan.bodies[index].parent, -1) for index in branch]


def outward(
    plan: Plan, visit: Callable[..., Value], root: Value, *own: Sequence[Any], lanes: bool = False
) -> tuple[Value, ...]:
    """Visit every body after its parent.

    Args:
        plan: The bodies.
        visit: Called as ``visit(body, value of the parent, *own values)``; returns the value of the
            body.
        root: Value of the world, parent of the first bodies.
        own: More values, one per body each.
        lanes: Whether like branches are visited side by side.

    Returns:
        The value of each body.
    """
    groups = _groups(plan, lanes)
    values: dict[int, Value] = {}
    for body in plan.bodies:
        index = body.index
        if index in values:
            continue
        parent = root if body.parent == WORLD_BODY else values[body.parent]
        if index not in groups or not _are_alike(own, groups[index]):
            values[index] = _visit(visit, body, parent, *[x[index] for x in own])
            continue
        branches = groups[index]

        def run(
            stage: Stage, branches: LikeBranches = branches, start: Value = parent
        ) -> list[Any]:
            found: list[Any] = []
            for place, above in enumerate(_inside(plan, branches)):
                given = [stage.numbers([x[b[place]] for b in branches]) for x in own]
                before = start if above < 0 else found[above]
                found.append(visit(stage.body(place), before, *given))
            return found

        for branch, found in zip(branches, side_by_side(plan, branches, run), strict=True):
            values.update(zip(branch, found, strict=True))
    return tuple(values[body.index] for body in plan.bodies)


def joint_transforms(plan: Plan, q: Scalars, *, lanes: bool = False) -> tuple[Transform, ...]:
    """Compute the motion transform from the parent's frame to the body's, for every body.

    Args:
        plan: The bodies.
        q: Configuration [m or rad], nq scalars.
        lanes: Whether like branches are visited side by side.
    """

    def transform(body: PlanBody, _: object) -> Transform:
        return body.transform(q[body.q])

    return outward(plan, transform, Transform.identity(), lanes=lanes)


def each(
    plan: Plan, visit: Callable[..., Value], bodies: Sequence[int], *own: Sequence[Any]
) -> tuple[Value, ...]:
    """Visit listed bodies independently of each other.

    Args:
        plan: The bodies.
        visit: Called as ``visit(body, *own values)``.
        bodies: Indices of the bodies to visit.
        own: Values, one per visit each.

    Returns:
        What each visit returned.
    """
    return tuple(
        _visit(visit, plan.bodies[index], *[x[k] for x in own]) for k, index in enumerate(bodies)
    )


def inward(
    plan: Plan,
    visit: Callable[..., tuple[Kept, Sum | Callable[[], Sum]]],
    start: Sequence[Sum],
    *own: Sequence[Any],
    lanes: bool = False,
) -> tuple[Kept, ...]:
    """Visit every body before its parent, summing the values of its children.

    Args:
        plan: The bodies.
        visit: Called as ``visit(body, total, *own values)``, with total the body's start value plus
            the values of its children; returns what to keep and the value for the parent, or a
            function that returns that value: it is called only if there is a parent.
        start: Value each body begins with; values add with ``+``.
        own: More values, one per body each.
        lanes: Whether like branches are visited side by side.

    Returns:
        What the visit of each body kept.
    """
    groups = {
        max(index for branch in group for index in branch): group
        for group in _groups(plan, lanes).values()
    }

    def add_and_visit(
        body: PlanBody, total: Sum, from_children: tuple[Sum, ...], *values: Any
    ) -> tuple[Kept, Sum | Callable[[], Sum]]:
        for part in from_children:
            total = total + part
        return visit(body, total, *values)

    # the sums are part of the visit, and of its call on the tape
    add_and_visit.__name__ = visit.__name__
    received: list[list[Sum]] = [[] for _ in plan.bodies]
    kept: list[Any] = [None] * len(plan.bodies)
    visited: set[int] = set()
    for body in reversed(plan.bodies):
        index = body.index
        if index in visited:
            continue
        if index in groups:
            branches = groups[index]
            above = plan.bodies[branches[0][0]].parent

            def run(
                stage: Stage, branches: LikeBranches = branches, above: int = above
            ) -> list[Any]:
                inside = _inside(plan, branches)
                sent: list[list[Any]] = [[] for _ in inside]
                found: list[Any] = [None] * len(inside)
                onward: Any = None
                for place in reversed(range(len(inside))):
                    given = [stage.numbers([x[b[place]] for b in branches]) for x in (start, *own)]
                    found[place], onward = add_and_visit(
                        stage.body(place), given[0], tuple(sent[place]), *given[1:]
                    )
                    if inside[place] >= 0:
                        sent[inside[place]].append(_needed(onward))
                return found if above == WORLD_BODY else [*found, _needed(onward)]

            for branch, found in reversed(
                list(zip(branches, side_by_side(plan, branches, run), strict=True))
            ):
                visited.update(branch)
                for place, own_index in enumerate(branch):
                    kept[own_index] = found[place]
                if above != WORLD_BODY:
                    received[above].append(found[-1])
            continue
        values = [x[index] for x in own]
        kept[index], value = _visit(
            add_and_visit, body, start[index], tuple(received[index]), *values
        )
        if body.parent != WORLD_BODY:
            received[body.parent].append(_needed(value))
    return tuple(kept)


def to_root(
    plan: Plan,
    start: PlanBody,
    visit: Callable[..., tuple[Kept, Value | Callable[[], Value]]],
    value: Value,
    *own: Sequence[Any],
    until: frozenset[int] = frozenset(),
) -> tuple[tuple[PlanBody, Kept], ...]:
    """Propagate a value from one body over its ancestors.

    Args:
        plan: The bodies.
        start: The first body visited.
        visit: Called as ``visit(body, value, *own values)``; returns what to keep and the value for
            the parent, or a function that returns that value where it is needed.
        value: Value at the first body.
        own: More values, one per body each.
        until: Indices of ancestors that are not visited, nor those above them.

    Returns:
        Each body visited, `start` first, with what its visit kept.
    """
    kept: list[tuple[PlanBody, Kept]] = []
    index, onward = start.index, value
    while index != WORLD_BODY and index not in until:
        body = plan.bodies[index]
        result, onward = _visit(visit, body, _needed(onward), *[x[index] for x in own])
        kept.append((body, result))
        index = body.parent
    return tuple(kept)


def to_roots(
    plan: Plan,
    starts: Sequence[int],
    visit: Callable[..., tuple[Any, Any]],
    values: Sequence[Any],
    *own: Sequence[Any],
    lanes: bool = False,
) -> list[tuple[tuple[PlanBody, Any], ...]]:
    """Propagate values from several bodies over their ancestors, as `to_root` does for one.

    Args:
        plan: The bodies.
        starts: Indices of the first bodies visited, each once.
        visit: As for `to_root`.
        values: Values at the first bodies.
        own: More values, one per body each.
        lanes: Whether bodies at the same place of like branches start side by side.

    Returns:
        For each start what `to_root` returns.
    """
    given = dict(zip(starts, values, strict=True))
    found: dict[int, tuple[tuple[PlanBody, Any], ...]] = {}
    for branches in _groups(plan, lanes).values():
        for places in zip(*branches, strict=True):
            if not all(index in given for index in places):
                continue
            inside = _inside(plan, branches)
            way = [branches[0].index(places[0])]
            while inside[way[-1]] >= 0:
                way.append(inside[way[-1]])
            above = path(plan, plan.bodies[branches[0][0]].parent)

            def run(
                stage: Stage,
                branches: LikeBranches = branches,
                places: tuple[int, ...] = places,
                way: list[int] = way,
                above: list[int] = above,
            ) -> list[Any]:
                value = stage.numbers([given[index] for index in places])
                kept: list[Any] = []
                for place in way:
                    numbers = [stage.numbers([x[b[place]] for b in branches]) for x in own]
                    result, value = visit(stage.body(place), _needed(value), *numbers)
                    kept.append(result)
                for index in above:
                    result, value = visit(
                        plan.bodies[index], _needed(value), *[x[index] for x in own]
                    )
                    kept.append(result)
                return kept

            results = side_by_side(plan, branches, run)
            for start, branch, kept in zip(places, branches, results, strict=True):
                bodies = [plan.bodies[index] for index in (*(branch[k] for k in way), *above)]
                found[start] = tuple(zip(bodies, kept, strict=True))
    for start in starts:
        if start not in found:
            found[start] = to_root(plan, plan.bodies[start], visit, given[start], *own)
    return [found[start] for start in starts]


def path(plan: Plan, index: int) -> list[int]:
    """Return the indices of a body and its ancestors, the body first; none for the world."""
    found = []
    while index != WORLD_BODY:
        found.append(index)
        index = plan.bodies[index].parent
    return found


def pairs(
    plan: Plan,
    visit: Callable[..., tuple[Kept, Value | Callable[[], Value]]],
    start: Sequence[Value],
    *own: Sequence[Any],
) -> tuple[tuple[PlanBody, PlanBody, Kept], ...]:
    """Propagate a value from every body to the root: one visit per body and ancestor.

    Args:
        plan: The bodies.
        visit: As for `to_root`.
        start: Initial value of each body.
        own: More values, one per body each, of the body visited.

    Returns:
        Body, ancestor (the body itself included) and what the visit of the ancestor kept.
    """
    return tuple(
        (body, ancestor, kept)
        for body in plan.bodies
        for ancestor, kept in to_root(plan, body, visit, start[body.index], *own)
    )


def by_velocity(plan: Plan, parts: Sequence[Scalars]) -> tuple[Scalar, ...]:
    """Assemble values of all joints into nv scalars; those of shared variables are added.

    Args:
        plan: Layout of the model.
        parts: For each plan body, one value per velocity variable of its joint.
    """
    if not plan.has_couplings:
        return tuple(x for part in parts for x in part)
    total: list[Scalar] = [0.0] * plan.nv
    for body, part in zip(plan.bodies, parts, strict=True):
        for place, x in enumerate(part, start=body.v.start):
            total[place] = total[place] + x
    return tuple(total)


def with_armature(plan: Plan, H: Sequence[Scalars]) -> tuple[tuple[Scalar, ...], ...]:
    """Return the rows of a mass matrix H with armatures added to the diagonal."""
    rows = [list(row) for row in H]
    for body in plan.bodies:
        for k, own in enumerate(body.armature or (), start=body.v.start):
            rows[k][k] = rows[k][k] + own
    return tuple(map(tuple, rows))


def with_armature_force(body: PlanBody, tau: tuple[Scalar, ...], vd: Scalars) -> tuple[Scalar, ...]:
    """Return the forces of a joint with those of armatures, which act on the joint only."""
    if body.armature is None:
        return tau
    shares = zip(tau, body.armature, vd[body.v], strict=True)
    return tuple(force + own * rate for force, own, rate in shares)


def ancestors(plan: Plan, body: int) -> frozenset[int]:
    """Return the indices of a plan body and its ancestors; empty for the world."""
    return frozenset(path(plan, body))
