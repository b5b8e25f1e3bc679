"""Systems that several runs share: robots in their surroundings, built before or now.

Runs of the same robot share systems, and with them kernels. Each thread has its own: run-time
parameters are bound to a system while one of its functions is traced.
"""

import threading
from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from tiburon.actuation.defaults import elements_of
from tiburon.actuation.element import Element
from tiburon.actuation.joint_laws import LawChoice
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.loops.loop_method import LoopMethod
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import Model, Water, World
from tiburon.simulation.system import System
from tiburon.trace.declared import Identical, by_identity, is_declared

SYSTEMS = 16
"""Robots in surroundings that each thread remembers, and systems of each."""


class Surrounded:
    """A robot in its surroundings, with the elements of its own data and the systems built of it.

    Attributes:
        world: The surroundings.
        elements: Elements that the robot's own data describe.
    """

    def __init__(
        self,
        model: Model,
        world: World | None,
        fluid: Water | None,
        laws: Sequence[LawChoice] | None = (),
    ) -> None:
        """Collect the elements; arguments as of `simulate`.

        `laws` are those of joints that act at the ends of steps; None for no elements at all.
        """
        # kept alive: the key of this object holds their addresses
        self.given = (model, world, fluid)
        self.world = world_with(world, fluid) or DEFAULT_WORLD
        self.elements: tuple[Element, ...] = ()
        if laws is not None:
            self.elements = elements_of(model, laws=laws)
        self._fixed = len(self.elements) if all(map(is_declared, self.elements)) else 0
        self._systems: dict[Any, tuple[System, Hashable]] = {}

    def system(
        self,
        extra: Sequence[Element] = (),
        control: Any = None,
        *,
        held: bool = False,
        sensed: Sequence[tuple[str, int]] = (),
        loops: LoopMethod = PROJECTION,
    ) -> System:
        """Return the system with further elements and a traced controller, built before or now.

        A system is shared as long as elements and controller are the same, or equal records of this
        package, and neither their data nor the graph of their user code has changed.
        """
        key: Any = None
        if extra or control is not None or loops is not PROJECTION:
            parts = tuple(map(_identity, (*extra, control)))
            key = (parts, held, tuple(sensed), _identity(loops))
        found, known = self._systems.get(key, (None, None))
        if found is not None and (key is None or found.code.fingerprint(found) == known):
            return found
        found = System(
            self.given[0],
            self.world,
            (*self.elements, *extra),
            control,
            held=held,
            sensed=sensed,
            loops=loops,
            steps=True,
        )
        found.fixed = self._fixed
        known = None if key is None else found.code.fingerprint(found)
        put_latest(self._systems, key, (found, known))
        return found


def _identity(part: Any) -> Hashable:
    """Return a key of an element or controller: equal records of this package are one."""
    if is_dataclass(part) and type(part).__module__.startswith("tiburon."):
        found = (type(part), *[by_identity(getattr(part, item.name)) for item in fields(part)])
        try:
            hash(found)
        except TypeError:
            pass
        else:
            return found
    return Identical(part)


class _Recent(threading.local):
    """Robots in surroundings by the addresses of their parts; the oldest is dropped first."""

    def __init__(self) -> None:
        self.known: dict[Any, Surrounded] = {}


_recent = _Recent()


def put_latest(known: dict[Any, Any], key: Any, value: Any) -> None:
    """Put an entry last into a table of at most `SYSTEMS`; the first is dropped."""
    known.pop(key, None)
    known[key] = value
    if len(known) > SYSTEMS:
        del known[next(iter(known))]


def surrounded(
    model: Model,
    world: World | None,
    fluid: Water | None,
    laws: tuple[LawChoice, ...] | None = (),
) -> Surrounded:
    """Return a robot in its surroundings, built before or now; arguments as of `Surrounded`."""
    if isinstance(model, Model):
        model.check_unchanged()
    key: tuple[Hashable, ...] = (id(model), id(world), id(fluid), laws)
    for around in (world, fluid):
        # user code of the surroundings is traced again
        if isinstance(around, (World, Water)):
            key = (*key, around.traced_key())
    found = _recent.known.get(key)
    if found is None:
        found = Surrounded(model, world, fluid, laws)
        put_latest(_recent.known, key, found)
    return found
