"""What all elements of a robot together do in one state."""

from collections.abc import Mapping, Sequence
from operator import add

from tiburon.actuation.element import Action, Element
from tiburon.errors import ShapeError
from tiburon.model import Model
from tiburon.spatial import Scalar

__all__ = ["Driving", "summed_wrenches"]


class Driving:
    """What all elements together do in one state."""

    __slots__ = ("force", "outputs", "rates", "wrenches")

    def __init__(self, force: Sequence[Scalar]) -> None:
        self.force = list(force)
        """Joint force [N or N m], nv scalars."""
        self.wrenches: list[tuple[str, Sequence[Scalar]]] = []
        """Frames and the wrenches on them, frame axes [N m, N]."""
        self.rates: list[Scalar] = []
        """Rates of the inner states of elements."""
        self.outputs: dict[str, Scalar] = {}
        """What elements report."""

    def take(self, model: Model, element: Element, action: Action, states: int) -> None:
        """Add what one element does."""
        force = action.joint_force
        if isinstance(force, Mapping):
            for joint, values in force.items():
                where = model.slice(joint, of="v")
                count = where.stop - where.start
                _fits(element, f"forces at joint {joint!r}", count, values)
                for place, value in zip(range(where.start, where.stop), values, strict=True):
                    self.force[place] = self.force[place] + value
        elif force is not None:
            _fits(element, "joint forces", model.nv, force)
            self.force = list(map(add, self.force, force))
        for frame, wrench in (action.wrenches or {}).items():
            _fits(element, f"wrench on {frame!r}", 6, wrench)
            self.wrenches.append((frame, wrench))
        _fits(element, "rates", states, action.rates)
        self.rates += action.rates
        self.outputs.update(action.outputs or {})


def _fits(element: Element, what: str, expected: int, values: Sequence[Scalar]) -> None:
    if len(values) != expected:
        given = len(values)
        raise ShapeError(f"element {element.name!r}: {what}", f"{expected} numbers", f"{given}")


def summed_wrenches(
    wrenches: Sequence[tuple[str, Sequence[Scalar]]],
) -> dict[str, Sequence[Scalar]]:
    """Return one wrench per frame."""
    found: dict[str, Sequence[Scalar]] = {}
    for frame, wrench in wrenches:
        known = found.get(frame)
        found[frame] = wrench if known is None else tuple(map(add, known, wrench))
    return found
