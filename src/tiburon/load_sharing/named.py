"""Values of single forces and joint forces by name: weights, targets and step bounds.

A name is that of a contact, loop, thruster or cable, for all its components, or of one component
(`Layout.names`); for joint forces that of a driven joint or of one of its velocity variables.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.argument_checks import is_number
from tiburon.errors import DomainError, ModelError, UnknownNameError, shown
from tiburon.load_sharing.problem import Layout
from tiburon.model import Model

Named = tuple[tuple[str, float], ...]
"""Values by name."""

Places = Mapping[str, tuple[int, ...]]
"""Places of what a name stands for."""

FORCES, TORQUES = "forces", "torques"
"""What is weighted or bounded: unknown forces, or driven joint forces."""


def places_of(what: str, model: Model, layout: Layout) -> dict[str, tuple[int, ...]]:
    """Return the places of unknown forces in x, or of driven joint forces, by all their names.

    Args:
        what: "forces" or "torques"; the latter in the order of `Layout.driven`.
        model: The robot.
        layout: Its unknowns.
    """
    found: dict[str, tuple[int, ...]]
    if what == FORCES:
        found = {name: (k,) for k, name in enumerate(layout.names)}
        return found | {group.name: tuple(group.places) for group in layout.groups}
    order = {index: k for k, index in enumerate(layout.driven)}
    found = {model.v_names[index]: (k,) for index, k in order.items()}
    for joint in model.joints:
        # those of a joint that follows another are that one's
        own = [int(i) for i in model.indices([joint.name], of="v")] if joint.nv else []
        if own and joint.follows is None and set(own) <= order.keys():
            found[joint.name] = tuple(order[i] for i in own)
    return found


def count_of(what: str | None, layout: Layout) -> int:
    """Return the number of unknown forces, or of driven joint forces; 0 for None."""
    return 0 if what is None else layout.size if what == FORCES else len(layout.driven)


def named_values(element: str, given: Any, *, positive: bool = True) -> Named:
    """Return finite values by name, or raise.

    Args:
        element: What they belong to, for messages.
        given: A mapping, or pairs of name and value.
        positive: Whether they must be above 0, or at least 0.
    """
    pairs = given.items() if isinstance(given, Mapping) else given
    try:
        rows = [(name, value) for name, value in pairs]
    except (TypeError, ValueError):
        rows = [(None, None)]
    if any(not isinstance(name, str) for name, _ in rows):
        raise ModelError(
            f"{element}: expected values by name, got {shown(given)}; write {{'name': 2.0}}"
        )
    words = "a finite number above 0" if positive else "a finite number of at least 0"
    for name, value in rows:
        good = is_number(value) and 0.0 <= float(value) < np.inf
        if not good or (positive and float(value) == 0.0):
            raise DomainError(f"{element} of {name!r}", words, shown(value))
    return tuple((name, float(value)) for name, value in rows)


def check_names(names: Iterable[str], places: Places, kind: str, where: str) -> None:
    """Refuse names that stand for nothing, and those that are given twice."""
    seen: set[str] = set()
    for name in names:
        if name not in places:
            raise UnknownNameError(kind, name, list(places), where=where)
        if name in seen:
            raise DomainError(where, "each name once", f"{name!r} twice")
        seen.add(name)


def spread(
    given: Sequence[tuple[str, Any]],
    places: Places,
    size: int,
    default: Any,
    make: Callable[[Any], Any] = lambda x: x,
) -> list[Any]:
    """Return one value per place; what names a single component overrides the whole.

    Args:
        given: Values by name.
        places: Places by name.
        size: Number of places.
        default: Value where no name says another.
        make: Called with each value.
    """
    found = [default] * size
    for name, value in sorted(given, key=lambda pair: -len(places[pair[0]])):
        for k in places[name]:
            found[k] = make(value)
    return found
