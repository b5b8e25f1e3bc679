"""Systems of runs that differ in their states only: put together once.

Who starts thousands of short runs of one robot waits for what is made anew for each; what follows
from the robot and its surroundings alone need not be. Each thread has systems of its own: while a
function of a system is traced, its numbers are bound to it.
"""

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tiburon.actuation.defaults import PASSIVES, elements_of
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.errors import OptionError
from tiburon.model import Model, Water, World
from tiburon.results.header import Column, state_columns
from tiburon.simulation.step_source import StepSource
from tiburon.simulation.stepper import recent_kernel
from tiburon.simulation.system import System

__all__ = ["Surrounded", "known_columns", "known_step", "surrounded"]

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


class _Notes:
    """What is known of a system that does not change."""

    def __init__(self) -> None:
        self.steps: dict[str, Callable[..., Any]] = {}
        self.columns: tuple[Column, ...] | None = None


_notes: WeakKeyDictionary[System, _Notes] = WeakKeyDictionary()


class _Recent(threading.local):
    """What was put together lately, by where its parts lie; first in, first out."""

    def __init__(self) -> None:
        self.known: dict[Any, Surrounded] = {}


_recent = _Recent()


def surrounded(
    model: Model, world: World | None, fluid: Water | None, passive: bool | str, limits: bool
) -> Surrounded:
    """Return a robot in its surroundings, put together lately or now."""
    if not isinstance(passive, (bool, np.bool_, str)):
        raise OptionError("passive", PASSIVES, passive)
    told: list[object] = []
    if isinstance(model, Model):
        model.check_unchanged()
    for around in (world, fluid):
        # user code is traced as it is now
        told.append(around.traced_key() if isinstance(around, (World, Water)) else None)
    key = (id(model), id(world), id(fluid), passive, bool(limits), *told)
    known = _recent.known
    found = known.get(key)
    if found is None:
        found = known[key] = Surrounded(model, world, fluid, passive, limits)
        if len(known) > MOST:
            del known[next(iter(known))]
    return found


def known_step(system: System, method: str) -> Callable[..., Any]:
    """Return the kernel of one step of a system."""
    notes = _notes.get(system)
    found = None if notes is None else notes.steps.get(method)
    if found is None:
        found = recent_kernel(StepSource(system, method), system.parameters())
        if notes is not None:
            notes.steps[method] = found
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
