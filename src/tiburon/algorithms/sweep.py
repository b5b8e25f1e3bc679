"""The drivers: the only places where algorithms loop over bodies.

An algorithm hands a driver a visit, a function of one body and some values that returns values. A
visit never writes into anything shared: what it learns it returns, and the driver carries the
returned values to the next body. The driver therefore decides how visits run, one after the other
on floats, inlined into one graph, or as steps of a loop, and the algorithm does not change.

Values per body travel as sequences in the order of `Plan.bodies`, parents first.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY

__all__ = ["inward", "outward", "pairs", "to_root"]


class Addable(Protocol):
    """A value that adds to others of its kind."""

    def __add__(self, other: Self, /) -> Self:
        """Return the sum."""


Value = TypeVar("Value")
Sum = TypeVar("Sum", bound=Addable)
Kept = TypeVar("Kept")


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
        values.append(visit(body, parent, *[x[body.index] for x in own]))
    return tuple(values)


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
    totals = list(start)
    kept: list[Any] = [None] * len(totals)
    for body in reversed(plan.bodies):
        index = body.index
        kept[index], handed_on = visit(body, totals[index], *[x[index] for x in own])
        if body.parent != WORLD_BODY:
            totals[body.parent] = totals[body.parent] + handed_on
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
        result, value = visit(body, value, *[x[index] for x in own])
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
