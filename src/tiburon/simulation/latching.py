"""What actions of events do to switched loops: close them, with an impulse, or open them."""

from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.errors import DomainError, ShapeError, UnknownNameError
from tiburon.loops.constraints import loop_rows
from tiburon.simulation.state import State

__all__ = ["latch", "release"]


@public
def latch(state: State, loop: str, *, here: bool = True) -> State:
    """Close a switched loop in a state; velocities that would open it go, as by an impulse.

    For actions of events, which return what this returns.

    Args:
        state: One case, as actions get it; a `LoopSwitch` of the loop is among the forces.
        loop: Name of the loop.
        here: Whether the loop holds on to where its two places are now, as a hand does; else they
            are moved to where its joint puts them, as a latch does that snaps in from near.

    Returns:
        The state, changed in place: the nearest velocity in the metric of the mass matrix.

    Raises:
        UnknownNameError: If no switch has this loop.
        DomainError: If the loop cannot be closed from here.

    Example:
        ``tb.Event("touch", distance, action=lambda state: tb.latch(state, "grip"))``
    """
    place = _place(state, loop)
    system, x = state.system, np.array(state.x, dtype=np.float64)
    rows = loop_rows(system.model, loop)
    q, v, time = _scalars(state.q), _scalars(state.v), np.float64(state.time)
    gaps = np.array([float(gap) for gap in system.gaps(q, time)])[rows.start : rows.stop]
    x[place] = 1.0
    x[place + 1 : place + 1 + len(rows)] = gaps if here else 0.0
    after, w, gap = system.settle(q, (*v, *_scalars(x)), time)
    if not gap <= system.most_open:
        raise DomainError(
            f"latch: loop {loop!r}",
            "places near enough to be closed in a few steps",
            f"a gap of {np.abs(gaps).max():.3g} m or rad",
            advice="latch it nearer to its joint, or with here=True",
        )
    nv = system.model.nv
    state.q, state.v, state.x = np.array(after), np.array(w[:nv]), x
    return state


@public
def release(state: State, loop: str) -> State:
    """Open a switched loop in a state; nothing else changes.

    Args:
        state: One case, as actions of events get it.
        loop: Name of the loop.

    Returns:
        The state, changed in place.

    Raises:
        UnknownNameError: If no switch has this loop.
    """
    place = _place(state, loop)
    state.x = np.array(state.x, dtype=np.float64)
    state.x[place] = 0.0
    return state


def _place(state: State, loop: str) -> int:
    """Return where the states of a switch begin."""
    known = state.system.switch_places
    if loop not in known:
        raise UnknownNameError(
            "switched loop", loop, known, where="this run", listing="forces=[LoopSwitch(...)]"
        )
    if np.ndim(state.q) != 1:
        raise ShapeError("state", "one case", f"shape {np.shape(state.q)}")
    return known[loop]


def _scalars(values: Any) -> tuple[Any, ...]:
    return tuple(np.float64(x) for x in values)
