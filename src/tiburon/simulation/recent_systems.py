"""Systems of runs that differ in their states only: put together once.

Who starts thousands of short runs of one robot waits for what is made anew for each; what follows
from the robot and its surroundings alone need not be. Each thread has systems of its own: while a
function of a system is traced, its numbers are bound to it.
"""

import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from tiburon.actuation.defaults import PASSIVES, elements_of
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.errors import OptionError
from tiburon.model import Model, Water, World
from tiburon.results.header import Column, state_columns
from tiburon.simulation.step import StepSource
from tiburon.simulation.system import System

if TYPE_CHECKING:
    from tiburon.native.code import Source

__all__ = ["Surrounded", "known_columns", "known_step", "recent_kernel", "remembered", "surrounded"]

MOST = 16
"""Systems that are kept."""


class Surrounded:
    """A robot in its surroundings, with what its own data says about forces."""

    def __init__(
        self,
        model: Model,
        world: World | None,
        fluid: Water | None,
        passive: bool | str,
        limits: bool,
    ) -> None:
        """Put them together; `simulate` tells what the arguments are."""
        # held: others are told apart from them by where they lie
        self.given = (model, world, fluid)
        self.world = world_with(world, fluid) or DEFAULT_WORLD
        self.elements = elements_of(model, self.world, passive=passive, limits=limits)

    @cached_property
    def system(self) -> System:
        """What moves without further forces, commanded from outside."""
        found = System(self.given[0], self.world, self.elements)
        _notes[found] = _Notes()
        return found


class _Bare:
    """A robot in its surroundings without elements, moved by joint forces alone."""

    def __init__(
        self, model: Model, world: World | None, fluid: Water | None, around: World
    ) -> None:
        # held: others are told apart by their addresses
        self.given = (model, world, fluid)
        self.system = System(model, around)
        _notes[self.system] = _Notes()


class _Notes:
    """What is known of a system that does not change."""

    def __init__(self) -> None:
        self.steps: dict[tuple[str, bool], Callable[..., Any]] = {}
        self.columns: tuple[Column, ...] | None = None
        self.values: dict[Any, Any] = {}


_notes: WeakKeyDictionary[System, _Notes] = WeakKeyDictionary()


class _Recent(threading.local):
    """What was put together lately, by where its parts lie; first in, first out."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}


_recent = _Recent()


def surrounded(
    model: Model, world: World | None, fluid: Water | None, passive: bool | str, limits: bool
) -> Surrounded:
    """Return a robot in its surroundings, put together lately or now."""
    if not isinstance(passive, (bool, np.bool_, str)):
        raise OptionError("passive", PASSIVES, passive)
    if isinstance(model, Model):
        model.check_unchanged()
    # user code is traced as it is now
    traced = [
        around.traced_key() if isinstance(around, (World, Water)) else None
        for around in (world, fluid)
    ]
    key = (id(model), id(world), id(fluid), passive, bool(limits), *traced)
    found: Surrounded = _known(key, lambda: Surrounded(model, world, fluid, passive, limits))
    return found


def bare_system(model: Model, world: World | None, fluid: Water | None, around: World) -> System:
    """Return a robot without elements in its surroundings, put together lately or now.

    Args:
        model: The robot.
        world: Surroundings as they were given, or None.
        fluid: Water as it was given, or None.
        around: Both together.
    """
    model.check_unchanged()
    key = (id(model), id(world), id(fluid), around.traced_key())
    found: System = _known(key, lambda: _Bare(model, world, fluid, around)).system
    return found


def _known(key: Any, make: Callable[[], Any]) -> Any:
    known = _recent.known
    found = known.get(key)
    if found is None:
        found = known[key] = make()
        if len(known) > MOST:
            del known[next(iter(known))]
    return found


def known_step(source: StepSource) -> Callable[..., Any]:
    """Return the kernel of a step, made lately or now."""
    notes = _notes.get(source.system) if source.watch is None else None
    name = (source.method, source.plain)
    found = None if notes is None else notes.steps.get(name)
    if found is None:
        found = recent_kernel(source, source.system.parameters())
        if notes is not None:
            notes.steps[name] = found
    return found


def remembered(system: System, key: Any, make: Callable[[], Any]) -> Any:
    """Return what follows from a system alone, made once for one that several runs share."""
    notes = _notes.get(system)
    if notes is None:
        return make()
    found = notes.values.get(key)
    if found is None:
        found = notes.values[key] = make()
    return found


def known_columns(system: System) -> tuple[Column, ...]:
    """Return the columns of all runs of a system."""
    notes = _notes.get(system)
    if notes is not None and notes.columns is not None:
        return notes.columns
    columns = state_columns(system.model, system.x_names, system.command_names)
    if notes is not None:
        notes.columns = columns
    return columns


_RECENT: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {}
"""Kernels made lately, by the key of their code, with the numbers they are bound to."""

MOST_RECENT = 32


def recent_kernel(source: "Source", numbers: dict[str, Any]) -> Callable[..., Any]:
    """Return the kernel of a loop or step; one made lately for the same system is taken again.

    To bind a kernel takes as long as hundreds of steps of a small robot.
    """
    from tiburon.native.kernel import make_kernel

    key = source.key
    known = _RECENT.pop(key, None)
    if known is None or known[0] != numbers:
        known = (numbers, make_kernel(source, numbers))
    # last in, last out
    _RECENT[key] = known
    if len(_RECENT) > MOST_RECENT:
        # a list, and without complaint: another thread may do the same at this moment
        oldest, *_ = list(_RECENT)
        _RECENT.pop(oldest, None)
    return known[1]
