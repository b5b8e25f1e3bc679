"""How water moves: a velocity that depends on time and place.

A current says its velocity alone. How the water accelerates follows by differentiating that along
the path of a water particle (`flow_at`), so that the two can never disagree.
"""

import copy
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from tiburon.spatial import Scalar, Vec3
from tiburon.trace.declared import is_declared

# derivatives are loaded when water moves: robots on land start faster without them
if TYPE_CHECKING:
    from tiburon.trace.program import Program

__all__ = ["Current", "Flow", "flow_at", "traced_key"]


class Current(ABC):
    """A velocity of water as a function of time and place; immutable, compares by value.

    Derive a frozen dataclass for currents of your own. Its fields are numbers, or tuples of
    numbers, that a kernel takes at run time; `velocity` uses `+ - * /` and NumPy functions alone,
    so that it can be traced and differentiated. All else that it reads is compiled in: it is traced
    at every call or run, and compiled again where it has changed.
    """

    @abstractmethod
    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
        """Return the velocity of the water, world axes [m/s].

        Args:
            time: When [s].
            position: Where, world axes [m].
        """

    _every: ClassVar[bool] = False
    """Whether zeros are run-time numbers too; set on the copy that `with_every_number` returns."""

    _origin: ClassVar[object] = None
    """What such a copy was made of."""

    def numbers(self) -> tuple[float, ...]:
        """Return the numbers that a kernel takes at run time: all floats that are not zero."""
        return tuple(x for x in self._floats() if self._every or x != 0.0)

    def with_every_number(self) -> Self:
        """Return the same current with its zeros among `numbers`; it compares equal to this one."""
        result = copy.copy(self)
        object.__setattr__(result, "_every", True)
        object.__setattr__(result, "_origin", self.source)
        return result

    def with_numbers(self, numbers: Sequence[Scalar]) -> Self:
        """Return the same current with other scalars in place of `numbers`."""
        given = iter(numbers)

        def replaced(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(replaced(entry) for entry in value)
            if isinstance(value, Current):
                return filled(value)
            if isinstance(value, float) and (self._every or value != 0.0):
                return next(given)
            return value

        def filled(current: Any) -> Any:
            # the constructor checks floats, and these may be traced
            result = copy.copy(current)
            for field in fields(current):
                object.__setattr__(result, field.name, replaced(getattr(current, field.name)))
            return result

        result: Self = filled(self)
        return result

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on: the formula, without the values of `numbers`."""
        return ("current", _program(self).key)

    @property
    def source(self) -> object:
        """What the formula is in: the current itself, unless it only holds it."""
        return self if self._origin is None else self._origin

    def _floats(self) -> Iterator[float]:
        """Go through all floats of all fields."""

        def go(value: Any) -> Iterator[float]:
            if isinstance(value, tuple):
                for entry in value:
                    yield from go(entry)
            elif isinstance(value, Current):
                yield from value._floats()
            elif isinstance(value, float):
                yield value

        for field in fields(self):  # type: ignore[arg-type]
            yield from go(getattr(self, field.name))


class Flow(NamedTuple):
    """What the water does at one time and place, world axes."""

    velocity: Vec3
    """[m/s]."""

    acceleration: Vec3
    """Of the water particle that is there: the material derivative of velocity [m/s^2]."""


LATELY = 64
"""Users' currents whose graphs are kept."""

_traced: OrderedDict[tuple[int, bool], tuple[object, "Program"]] = OrderedDict()
"""Graphs of users' currents as they were traced last.

By `id` of what is held here, and by whether zeros are run-time numbers.
"""


def traced_key(current: Current) -> int | None:
    """Trace a user's current as it is now; the rest of this call uses that graph.

    Returns:
        Key of the graph; None for currents of this package, whose data are their key.
    """
    return None if is_declared(current) else _retraced(current).key


def _retraced(current: Current) -> "Program":
    program = _traced_now(current)
    source = current.source
    _traced[id(source), current._every] = (source, program)
    if len(_traced) > LATELY:
        _traced.popitem(last=False)
    return program


def _program(current: Current) -> "Program":
    """Return the graph of a current's velocity, and of how that changes."""
    if is_declared(current):
        return _known_program(current, current._every)
    found = _traced.get((id(current.source), current._every))
    return _retraced(current) if found is None else found[1]


@lru_cache(maxsize=64)
def _known_program(current: Current, every: bool) -> "Program":
    # currents that differ in whether zeros are run-time numbers compare equal
    return _traced_now(current)


def _traced_now(current: Current) -> "Program":
    """Trace a current: its velocity from time, position and numbers, and how that changes."""
    from tiburon.trace.derivative import rate_program

    def velocity(time: Scalar, x: Scalar, y: Scalar, z: Scalar, *numbers: Scalar) -> Any:
        return current.with_numbers(numbers).velocity(time, (x, y, z))

    return rate_program(velocity, 4 + len(current.numbers()), type(current).__name__)


def depends_on_place(current: Current) -> bool:
    """Return whether the water moves differently in different places."""
    return bool({1, 2, 3} & _arguments_used(current))


def depends_on_time(current: Current) -> bool:
    """Return whether the velocity at a fixed place changes with time."""
    return 0 in _arguments_used(current)


def _arguments_used(current: Current) -> set[int]:
    program = _program(current)
    graph = program.graph
    live = graph.live(program.outputs[0].nodes)
    return {graph.payloads[node][1] for node in live if graph.ops[node] == "input"}


def flow_at(current: Current, numbers: Sequence[Scalar], time: Scalar, position: Vec3) -> Flow:
    """Return how the water moves at a time and place.

    Args:
        current: The current.
        numbers: Scalars for its `numbers`.
        time: When [s].
        position: Where, world axes [m].
    """
    from tiburon.trace.derivative import rate_along

    # a particle of water moves with the water: its place changes at the velocity found
    v, a = rate_along(
        _program(current),
        (time, *position, *numbers),
        lambda x, y, z: (1.0, x, y, z, *(0.0 for _ in numbers)),
    )
    return Flow((v[0], v[1], v[2]), (a[0], a[1], a[2]))
