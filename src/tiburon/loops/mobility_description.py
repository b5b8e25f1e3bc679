"""How a robot with loops can move, as plain data: for descriptions of robots."""

import math
from typing import Any

from tiburon.errors import DomainError, LoopError
from tiburon.loops.mobility import mobility
from tiburon.loops.topology import topology
from tiburon.model import Model

__all__ = ["describe_mobility"]


def describe_mobility(model: Model) -> dict[str, Any]:
    """Return class, paths and mobility of a robot, as dictionaries, lists, numbers and strings.

    Args:
        model: The robot; it is looked at in its pose "home" or "stand" or the neutral one, and
            assembled where loops are open there.

    Returns:
        "chain" (its class), "cycles", "poles" and "paths" where it has two poles, "summary", and,
        where it can be assembled, the numbers of `Mobility`; an infinite condition is None.
    """
    shape = topology(model)
    described: dict[str, Any] = {"chain": shape.kind, "cycles": shape.cycle_count}
    if len(shape.poles) == 2:
        described["poles"] = list(shape.poles)
        described["paths"] = [list(path) for path in shape.paths]
    try:
        found = mobility(model)
    except LoopError as error:
        return {**described, "summary": f"it cannot be assembled: {error}"}
    except DomainError as error:
        # an edge on end, a disc that lies flat: other poses have a mobility
        return {**described, "summary": f"how it moves is not known in this pose: {error}"}
    return {
        **described,
        "summary": found.summary,
        "equations": found.equations,
        "redundant": list(found.redundant),
        "mobility": found.mobility,
        "regular_mobility": found.regular_mobility,
        "counted_mobility": found.counted_mobility,
        "driven": list(found.driven),
        "redundancy": found.redundancy,
        "loose": list(found.loose),
        # JSON has no infinity
        "condition": found.condition if math.isfinite(found.condition) else None,
    }
