"""Robots with loops on the command line: closed, also where their files leave them open."""

import sys
from typing import TYPE_CHECKING

from tiburon.cli.run_options import start_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tiburon.model import Model

MOST_LISTED = 6
"""Joints, and loops, of one sentence."""

MOVED = 1e-6
"""How far a joint must have moved to be told of [m or rad]."""


def closed_start(
    model: "Model", pose: str | None, q: str | None, *, must_close: bool = True
) -> "NDArray[np.float64]":
    """Return the position that words ask for, assembled where its loops are open.

    How far joints were moved for that is printed to the standard error.

    Args:
        model: The robot.
        pose: A named position, as in `start_of`.
        q: Numbers that replace those of the pose; joints that are named in it stay there.
        must_close: False takes an open position where no closed one is found, and tells the gaps.

    Raises:
        LoopError: If loops cannot be closed, with the gap that is left of each.
    """
    import tiburon as tb

    start = start_of(model, pose, q)
    held = _named_joints(model, q)
    try:
        position, words = assembled(model, start, held)
    except tb.LoopError as error:
        if must_close:
            raise
        position, words = start, f"{error}; shown as it is: {_open_words(model, start)}"
    if words:
        print(f"note: {words}", file=sys.stderr)
    return position


def assembled(
    model: "Model", q: "NDArray[np.float64]", held: tuple[str, ...] = ()
) -> "tuple[NDArray[np.float64], str]":
    """Return a position with closed loops, and what was done to find it.

    Args:
        model: The robot, with loops or without.
        q: Where to begin [m or rad], shape (nq,).
        held: Names of joints that stay there.

    Returns:
        The position, and a sentence; the position given and no sentence where all loops of it are
        closed, to the digits that files have.

    Raises:
        LoopError: If loops cannot be closed.
    """
    from tiburon.loops.assembly import assemble, is_closed
    from tiburon.loops.start import NEARLY

    if not model.loops or is_closed(model, q, NEARLY):
        return q, ""
    found = assemble(model, q, hold=held).q
    kept = f", with {', '.join(held)} held" if held else ""
    return found, (
        f"{_open_words(model, q)} in the position given; assembled by moving "
        f"{_moved_words(model, q, found)}{kept}"
    )


def _open_words(model: "Model", q: "NDArray[np.float64]") -> str:
    """Return which loops are open and by how much, widest first."""
    from tiburon.loops.mobility import loop_rows
    from tiburon.loops.start import NEARLY, gap_names

    gaps, _ = loop_rows(model, q)
    wide: dict[str, float] = {}
    for name, gap in zip(gap_names(model), gaps, strict=True):
        wide[name] = max(wide.get(name, 0.0), abs(float(gap)))
    listed = sorted(((gap, name) for name, gap in wide.items() if gap > NEARLY), reverse=True)
    if not listed:
        return "a joint that closes a loop fits only head to tail"
    told = ", ".join(f"{name!r} by {gap:.3g}" for gap, name in listed[:MOST_LISTED])
    more = f" and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
    return f"loops are open ({told}{more} [m or rad])"


def _moved_words(
    model: "Model", before: "NDArray[np.float64]", after: "NDArray[np.float64]"
) -> str:
    """Return how far joints were moved, farthest first."""
    from tiburon.simulation.units import velocity_units

    steps = model.difference(before, after).tolist()
    units = (unit.removesuffix("/s") for unit in velocity_units(model))
    moved = [
        (abs(step), f"{name} by {step:+.3g} {unit}")
        for name, step, unit in zip(model.v_names, steps, units, strict=True)
        if abs(step) > MOVED
    ]
    moved.sort(key=lambda entry: -entry[0])
    more = f", and {len(moved) - MOST_LISTED} more" if len(moved) > MOST_LISTED else ""
    return ", ".join(text for _, text in moved[:MOST_LISTED]) + more


def _named_joints(model: "Model", q: str | None) -> tuple[str, ...]:
    """Return the joints that an option names, as "elbow=0.5" does; numbers alone name none."""
    named = {entry.partition("=")[0].strip() for entry in (q or "").split(",") if "=" in entry}
    return tuple(
        joint.name
        for joint in model.joints
        if named.intersection(model.q_names[model.slice(joint.name, of="q")])
    )
