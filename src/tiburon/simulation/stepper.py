"""Native calls that take steps: one robot, or many cases of it, each with its own clock."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import DomainError, NonFiniteError
from tiburon.simulation.events import Watch
from tiburon.simulation.loop import LoopSource, memory_form
from tiburon.simulation.run_parameters import bind_parameters
from tiburon.simulation.system import System

if TYPE_CHECKING:
    from tiburon.native.source import Source

__all__ = ["SLOTS", "Advance", "FixedStepper", "recent_kernel"]

Array = NDArray[np.float64]

SLOTS = 32
"""States one native call can give when it runs one case: a call costs as much as some steps."""

QUICK_SECONDS = 1e-3
"""Calls of one case that last no longer take the kernel's quick way in.

Longer calls take the way that lets other threads of Python run meanwhile; it costs some 40 us.
"""


class Advance(NamedTuple):
    """What a native call gives; cases are the second dimension of states and held."""

    states: Array
    """(*q, *v, *x) after each count of steps, shape (slots, cases, numbers)."""

    held: Array
    """What is held from then on, shape (slots, cases, numbers); the last entry stands for all
    where nothing is sampled inside the call."""

    failed: NDArray[np.bool_]
    """Cases that met a number that is not finite, shape (cases,)."""

    met: Array
    """Events that stopped a case: 1 or 0, shape (cases, events)."""

    taken: Array
    """Steps each case has taken, shape (cases,)."""


class FixedStepper:
    """Steps of equal length, for a number of cases that may shrink.

    Attributes:
        system: What moves.
        slots: How many states one call can give.
    """

    def __init__(
        self,
        system: System,
        method: str,
        watch: Watch | None,
        parameters: Mapping[str, Any],
        cases: int | None,
        threads: int | None,
        slots: int | None = None,
        *,
        plain: bool = False,
    ) -> None:
        """Compile the loop, or find it compiled.

        Args:
            system: What moves.
            method: Name of the integrator.
            watch: Events to look for; None for none.
            parameters: Run-time numbers that replace those of model, world and elements, shape
                (numbers,), or (cases, numbers) where they differ from case to case.
            cases: Size of the batch; None for one robot.
            threads: Cores to use at most.
            slots: States that one call can give; by default what suits.
            plain: Whether steps are taken without memory, as parts of steps are.
        """
        self.system = system
        self.slots = slots or (1 if cases is not None or watch is not None else SLOTS)
        source = LoopSource(system, method, self.slots, watch, plain)
        remembers = source.integrator.has_memory
        memory = memory_form(system, source.integrator)[0] if remembers else 0
        self.carried = system.drive_size + memory
        """Numbers carried from call to call: what is held, and what the method remembers."""
        self._source, self._parameters, self._cases = source, parameters, cases
        if parameters:
            # what does not fit is told before anything else happens
            _ = self._bound
        self._one = cases is None
        self._options: dict[str, Any] = {} if threads is None else {"threads": threads}
        self._watched, self._events = watch is not None, 0 if watch is None else len(watch)
        self._carries = system.held or remembers

    @cached_property
    def _bound(self) -> tuple[Callable[..., Any], dict[str, Array]]:
        """The kernel, made when first needed, and the numbers that differ from case to case."""
        kernel = recent_kernel(self._source, self.system.parameters())
        return bind_parameters(kernel, self._parameters, self._cases)

    @property
    def kernel(self) -> Callable[..., Any]:
        """The loop, compiled."""
        return self._bound[0]

    def run(
        self,
        state: Array,
        u: Array,
        clock: Array,
        cases: NDArray[np.intp] | None = None,
        seconds: float = np.inf,
        sides: Array | None = None,
    ) -> Advance:
        """Take steps.

        Args:
            state: Where to start, shape (cases, numbers).
            u: What is held, shape (cases, numbers).
            clock: Numbers of a `Clock` and counts, shape (numbers,), or (cases, numbers).
            cases: Which cases these are, where they are not all.
            seconds: How long the call is expected to last.
            sides: Sides of zero that events are on at the start, shape (cases, events); by default
                those of their values.

        Returns:
            States, held numbers, failures and events.
        """
        if sides is None and self._watched:
            sides = np.zeros((len(state), self._events))
        if self._one:
            one = () if sides is None else (sides[0],)
            return self._run_one((state[0], u[0], clock.reshape(-1), *one), seconds)
        kernel, rows = self._bound
        if cases is not None:
            rows = {k: v[cases] for k, v in rows.items()}
        many = () if sides is None else (sides,)
        found, failed = kernel(state, u, clock, *many, errors="flag", **rows, **self._options)
        return self._advance(found, failed, u, 0)

    def _run_one(self, given: tuple[Array, ...], seconds: float) -> Advance:
        u = given[1]
        if seconds <= QUICK_SECONDS:
            try:
                found = self.kernel(*given)
                return self._advance(found, np.zeros(1, dtype=bool), u[None], 1)
            except (DomainError, NonFiniteError):
                pass
        found, failed = self.kernel(*given, errors="flag")
        return self._advance(found, failed.reshape(1), u[None], 1)

    def _advance(self, found: Any, failed: Any, u: Array, lone: int) -> Advance:
        """Sort the results of a call; `lone` tells that there is no dimension of cases."""
        parts = list(found) if isinstance(found, tuple) else [found]

        def rows(array: Array) -> Array:
            return array[:, None] if lone else np.moveaxis(array, -2, 0)

        states = rows(parts.pop(0))
        held = rows(parts.pop(0)) if self._carries else u[None]
        cases = len(failed)
        met, taken = np.zeros((cases, 0)), np.zeros(cases)
        if self._watched:
            met, taken = parts[0].reshape(cases, -1), np.reshape(parts[1], cases)
        return Advance(states, held, failed, met, taken)


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
