"""Which quantity left all numbers first, where a run diverged."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import DomainError, NonFiniteError
from tiburon.loops.start import open_loops
from tiburon.simulation.integrators.manifold import Manifold, Scalars
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.system import System

__all__ = ["Cause", "first_to_diverge"]

Array = NDArray[np.float64]


GROWTH = 100.0
"""How much states may grow within a step before commands are no longer blamed."""


class Cause(NamedTuple):
    """What diverged first."""

    quantity: str
    """In words, with its name."""

    body: str | None
    """The body that moves with it; None for inner states."""


class _StopError(Exception):
    """Ends the step that is looked into."""


def first_to_diverge(
    system: System,
    method: str,
    state: Array,
    held: Array,
    time: float,
    dt: float,
    *,
    thorough: bool = True,
) -> Cause:
    """Take the step that failed once more, on floats, and see what fails first.

    Where all rates become meaningless at once, as they do when squares of velocities leave the
    numbers, the largest of the states is blamed.

    Args:
        system: What moves.
        method: Name of the integrator.
        state: The last good state (*q, *v, *x).
        held: What is held.
        time: When [s].
        dt: Length of the step [s].
        thorough: Whether to take the step; else the largest of the states is blamed at once.
    """
    model = system.model
    nq = model.nq
    for name, value in zip(system.command_names, held, strict=False):
        if not np.isfinite(value):
            return Cause(f"command {name!r}", None)
    largest = int(np.argmax(np.abs(state[nq:]))) if len(state) > nq else 0
    if not thorough:
        return _cause(system, largest)
    found: list[int] = []
    lost: list[str] = []
    blamed: list[Cause] = []
    size = float(np.abs(state[nq:]).max(initial=0.0))

    def rates(q: Scalars, w: Scalars, *now: Any) -> Scalars:
        # a command that is not finite because the motion has exploded before is not the cause
        calm = all(abs(x) <= GROWTH * (1.0 + size) for x in w)
        told = _bad_command(system, q, w, held, *(now or (time,))) if calm else None
        if told is not None:
            blamed.append(told)
            raise _StopError
        given = tuple(system.rates(q, w, tuple(np.float64(x) for x in held), *(now or (time,))))
        bad = [k for k, x in enumerate(given) if not np.isfinite(x)]
        if bad:
            lost.extend(_without_gap(system, q, w, *(now or (time,))))
            worst = np.array([abs(x) for x in w])
            if len(bad) == len(given) and np.isfinite(worst).all():
                bad = [int(np.argmax(worst))]
            found.append(bad[0])
            raise _StopError
        return given

    q, w = (tuple(np.float64(x) for x in part) for part in (state[:nq], state[nq:]))
    try:
        with np.errstate(all="ignore"):
            after = METHODS[method].step(
                Manifold(model), rates, q, w, np.float64(dt), np.float64(time)
            )
            opened = _opened(system, *after, time + dt)
            if opened is None and system.held:
                # a sampled controller is asked at the end of a step
                opened = _bad_command(system, *after, held, time + dt)
    except _StopError:
        if blamed:
            return blamed[0]
        return Cause(f"gap of loop {lost[0]!r}", None) if lost else _cause(system, found[0])
    except (ArithmeticError, ValueError, TypeError, RuntimeError, LookupError):
        # the step cannot be taken on plain floats: the largest state must do
        opened = None
    if opened is not None:
        return opened
    return _cause(system, largest)


def _bad_command(system: System, q: Scalars, w: Scalars, held: Array, time: Any) -> Cause | None:
    """Return which command a traced controller gives that is not finite in a finite state."""
    if system.control is None or not all(np.isfinite(x) for x in (*q, *w)):
        return None
    u = tuple(np.float64(x) for x in held)
    try:
        commands = system.hold(q, w, u, np.float64(time))[: len(system.command_names)]
    except (DomainError, NonFiniteError) as error:
        return Cause(f"command of the controller ({str(error).split(';')[0]})", None)
    for name, value in zip(system.command_names, commands, strict=True):
        if not np.isfinite(value):
            return Cause(f"command {name!r}", None)
    return None


def _opened(system: System, q: Scalars, w: Scalars, time: float) -> Cause | None:
    """Return which loop a step opened for good, if any."""
    model = system.model
    if not model.loops:
        return None
    settled, _, gap = system.settle(q, w, np.float64(time))
    if gap <= system.most_open:
        return None
    gaps = system.gaps(settled, np.float64(time), w[model.nv :])
    names = open_loops(model, gaps, system.most_open)
    return Cause(f"gap of loop {names[0]!r}", None)


def _without_gap(system: System, q: Scalars, w: Scalars, time: Any) -> list[str]:
    """Return the loops whose gaps are no numbers, as of a disc that has come to lie flat."""
    model = system.model
    if not model.loops:
        return []
    return open_loops(model, system.gaps(q, np.float64(time), w[model.nv :]), np.inf)


def _cause(system: System, place: int) -> Cause:
    """Name a component of (*v, *x)."""
    model = system.model
    if place >= model.nv:
        return Cause(f"inner state {system.x_names[place - model.nv]!r}", None)
    for body in model.bodies:
        where = model.slice(body.joint.name, of="v")
        if where.start <= place < where.stop:
            name = model.v_names[place]
            return Cause(f"velocity {name!r} of body {body.name!r}", body.name)
    return Cause(f"velocity {model.v_names[place]!r}", None)
