"""The drivers: the only places where algorithms loop over bodies.

An algorithm hands a driver a visit, a function of one body and some values that returns values. A
visit never writes into anything shared: what it learns it returns, and the driver carries the
returned values to the next body. The driver therefore decides how visits run, one after the other
on floats, inlined into one graph, or as steps of a loop, and the algorithm does not change.

Values per body travel as sequences in the order of `Plan.bodies`, parents first.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

from tiburon.algorithms.tape_calls import recorder
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar

__all__ = [
    "ancestors",
    "by_velocity",
    "each",
    "inward",
    "outward",
    "pairs",
    "to_root",
    "with_armature",
]


class Addable(Protocol):
    """A value that adds to others of its kind."""

    def __add__(self, other: Self, /) -> Self:
        """Return the sum."""


Value = TypeVar("Value")
Sum = TypeVar("Sum", bound=Addable)
Kept = TypeVar("Kept")


def _visit(visit: Callable[..., Any], body: PlanBody, *values: Any) -> Any:
    """Run a visit, or record it as a step."""
    steps = recorder()
    return visit(body, *values) if steps is None else steps.run(visit, body, values)


def outward(
    plan: Plan, visit: Callable[..., Value], root: Value, *own: Sequence[Any]
) -> tuple[Value, ...]:
    """Visit every body after its parent.

    Args:
        plan: The bodies.
        visit: Called as ``visit(body, value of the parent, *own values)``; returns the value of the
            body.
        root: Value of the world, parent of the first bodies.
        own: More values, one per body each.

    Returns:
        The value of each body.
    """
    values: list[Value] = []
    for body in plan.bodies:
        parent = root if body.parent == WORLD_BODY else values[body.parent]
        values.append(_visit(visit, body, parent, *[x[body.index] for x in own]))
    return tuple(values)


def each(
    plan: Plan, visit: Callable[..., Value], bodies: Sequence[int], *own: Sequence[Any]
) -> tuple[Value, ...]:
    """Visit some bodies, a body as often as it is listed; no visit needs another.

    Args:
        plan: The bodies.
        visit: Called as ``visit(body, *own values)``.
        bodies: Indices of the bodies to visit.
        own: Values, one per visit each.

    Returns:
        What each visit returned.
    """
    return tuple(
        _visit(visit, plan.bodies[index], *[x[number] for x in own])
        for number, index in enumerate(bodies)
    )


def inward(
    plan: Plan,
    visit: Callable[..., tuple[Kept, Sum]],
    start: Sequence[Sum],
    *own: Sequence[Any],
) -> tuple[Kept, ...]:
    """Visit every body before its parent, adding up what children hand on.

    Args:
        plan: The bodies.
        visit: Called as ``visit(body, total, *own values)``, the total being the body's start value
            plus what all its children handed on; returns what to keep and what to hand on.
        start: Value each body begins with; values add with ``+``.
        own: More values, one per body each.

    Returns:
        What the visit of each body kept.
    """

    def add_and_visit(
        body: PlanBody, total: Sum, handed_on: tuple[Sum, ...], *values: Any
    ) -> tuple[Kept, Sum]:
        for part in handed_on:
            total = total + part
        return visit(body, total, *values)

    # the sums are part of the visit, so that a step holds them
    add_and_visit.__name__ = visit.__name__
    received: list[list[Sum]] = [[] for _ in plan.bodies]
    kept: list[Any] = [None] * len(plan.bodies)
    for body in reversed(plan.bodies):
        index = body.index
        values = [x[index] for x in own]
        kept[index], handed_on = _visit(
            add_and_visit, body, start[index], tuple(received[index]), *values
        )
        if body.parent != WORLD_BODY:
            received[body.parent].append(handed_on)
    return tuple(kept)


def to_root(
    plan: Plan,
    start: PlanBody,
    visit: Callable[..., tuple[Kept, Value]],
    value: Value,
    *own: Sequence[Any],
) -> tuple[tuple[PlanBody, Kept], ...]:
    """Carry a value from one body over all its ancestors.

    Args:
        plan: The bodies.
        start: The first body visited.
        visit: Called as ``visit(body, value, *own values)``; returns what to keep and the value to
            carry on to the parent.
        value: Value at the first body.
        own: More values, one per body each.

    Returns:
        Each body visited, `start` first, with what its visit kept.
    """
    kept: list[tuple[PlanBody, Kept]] = []
    index = start.index
    while index != WORLD_BODY:
        body = plan.bodies[index]
        result, value = _visit(visit, body, value, *[x[index] for x in own])
        kept.append((body, result))
        index = body.parent
    return tuple(kept)


def pairs(
    plan: Plan,
    visit: Callable[..., tuple[Kept, Value]],
    start: Sequence[Value],
    *own: Sequence[Any],
) -> tuple[tuple[PlanBody, PlanBody, Kept], ...]:
    """Carry a value from every body to the root: one visit per body and ancestor.

    Bodies on different branches make no pair, so that what branches do not share costs nothing.

    Args:
        plan: The bodies.
        visit: As for `to_root`.
        start: Value each body begins its walk with.
        own: More values, one per body each, of the body visited.

    Returns:
        Body, ancestor (the body itself included) and what the visit of the ancestor kept.
    """
    return tuple(
        (body, ancestor, kept)
        for body in plan.bodies
        for ancestor, kept in to_root(plan, body, visit, start[body.index], *own)
    )


def by_velocity(plan: Plan, parts: Sequence[Sequence[Scalar]]) -> tuple[Scalar, ...]:
    """Put the numbers of all joints in the order of v; those of joints that share one add up.

    Args:
        plan: Layout of the model.
        parts: For each plan body, one number per velocity variable of its joint.

    Returns:
        nv scalars.
    """
    if not plan.has_couplings:
        return tuple(x for part in parts for x in part)
    total: list[Scalar] = [0.0] * plan.nv
    for body, part in zip(plan.bodies, parts, strict=True):
        for place, x in enumerate(part, start=body.v.start):
            total[place] = total[place] + x
    return tuple(total)


def with_armature(plan: Plan, H: Sequence[Sequence[Scalar]]) -> tuple[tuple[Scalar, ...], ...]:
    """Add what joints feel beyond the bodies they move to the diagonal of the mass matrix.

    Args:
        plan: Layout of the model.
        H: Rows of the mass matrix of the bodies, nv times nv scalars.
    """
    rows = [list(row) for row in H]
    for body in plan.bodies:
        for k, own in enumerate(body.armature or (), start=body.v.start):
            rows[k][k] = rows[k][k] + own
    return tuple(map(tuple, rows))


def ancestors(plan: Plan, body: int) -> frozenset[int]:
    """Return the indices of a plan body and all that carry it; nothing for the world."""
    found = set()
    while body != WORLD_BODY:
        found.add(body)
        body = plan.bodies[body].parent
    return frozenset(found)


Rates = tuple[tuple[Scalar, ...], ...]
"""Per direction, the rate that each force gives it."""
