"""Robots with loops on the command line: closed, also where their files leave them open."""

import sys
from typing import TYPE_CHECKING

from tiburon.cli.run_options import numbers_by_name, start_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from tiburon.arrays import NDArray
    from tiburon.model import Model

MOST_LISTED = 6
"""Joints, and loops, of one sentence."""

MOVED = 1e-6
"""How far a joint must have moved to be told of [m or rad], or how fast it goes [m/s or rad/s]."""

RANK_TOLERANCE = 1e-9
"""Singular value of constraints, relative to the largest, that counts as zero."""


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
        DomainError: If a loop has no gap there, as that of a disc which lies flat.
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
    except tb.DomainError as error:
        if must_close:
            raise
        position, words = start, f"{error}; shown as it is"
    if words:
        print(f"note: {words}", file=sys.stderr)
    return position


def closed_velocity(
    model: "Model", q: "NDArray[np.float64]", text: str | None
) -> "NDArray[np.float64]":
    """Return the velocity that words ask for; what is not named in it goes along with the loops.

    The slowest such velocity is taken, and printed to the standard error. Numbers of all joints,
    and velocities of robots that time moves, are left as they are.

    Args:
        model: The robot.
        q: Position with closed loops [m or rad], shape (nq,).
        text: "0.1,0.2", or "crank=2" [m/s or rad/s]; None for a robot at rest.

    Raises:
        DomainError: If loops do not let the named joints move so.
    """
    import numpy as np

    import tiburon as tb
    from tiburon.functions.mobility import loop_rows

    v = np.zeros(model.nv)
    if text is None:
        return v
    v = numbers_by_name("--v", text, model.v_names, v)
    named = {entry.partition("=")[0].strip() for entry in text.split(",") if "=" in entry}
    if not model.loops or not named or model.plan.depends_on_time:
        return v
    _, J = loop_rows(model, q)
    free = [k for k, name in enumerate(model.v_names) if name not in named]
    v[free] = np.linalg.lstsq(J[:, free], -J @ v, rcond=RANK_TOLERANCE)[0]
    opening = float(np.abs(J @ v).max(initial=0.0))
    if opening > MOVED * float(np.abs(v).max()):
        raise tb.DomainError(
            "--v",
            "speeds that keep loops closed",
            f"{text}, which opens them by at least {opening:.3g} m/s or rad/s",
            advice="name fewer joints, the others go along",
        )
    words = _listed(model, v, free, " at ", "/s")
    if words:
        print(f"note: to keep loops closed, {words}", file=sys.stderr)
    return v


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
    from tiburon.functions.assembly import START_TOLERANCE, assemble, is_closed

    if not model.loops or is_closed(model, q, START_TOLERANCE):
        return q, ""
    found = assemble(model, q, hold=held).q
    kept = f", with {', '.join(held)} held" if held else ""
    moved = _listed(model, model.difference(q, found), range(model.nv), " by ")
    opened = _open_words(model, q)
    return found, f"{opened} in the position given; assembled by moving {moved}{kept}"


def _open_words(model: "Model", q: "NDArray[np.float64]") -> str:
    """Return which loops are open and by how much, widest first."""
    from tiburon.functions.assembly import START_TOLERANCE, gap_names
    from tiburon.functions.mobility import loop_rows

    gaps, _ = loop_rows(model, q)
    wide: dict[str, float] = {}
    for name, gap in zip(gap_names(model), gaps, strict=True):
        wide[name] = max(wide.get(name, 0.0), abs(float(gap)))
    listed = sorted(
        ((gap, name) for name, gap in wide.items() if gap > START_TOLERANCE), reverse=True
    )
    if not listed:
        return "a joint that closes a loop fits only head to tail"
    told = ", ".join(f"{name!r} by {gap:.3g}" for gap, name in listed[:MOST_LISTED])
    more = f" and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
    return f"loops are open ({told}{more} [m or rad])"


def _listed(
    model: "Model", numbers: "NDArray[np.float64]", which: "Sequence[int]", word: str, per: str = ""
) -> str:
    """Return how far joints go, or how fast, those that go farthest first."""
    from tiburon.results.header import velocity_units

    units = [unit.removesuffix("/s") + per for unit in velocity_units(model)]
    going = [k for k in which if abs(numbers[k]) > MOVED]
    going.sort(key=lambda k: -abs(numbers[k]))
    told = [f"{model.v_names[k]}{word}{numbers[k]:+.3g} {units[k]}" for k in going[:MOST_LISTED]]
    more = f", and {len(going) - MOST_LISTED} more" if len(going) > MOST_LISTED else ""
    return ", ".join(told) + more


def _named_joints(model: "Model", q: str | None) -> tuple[str, ...]:
    """Return the joints that an option names, as "elbow=0.5" does; numbers alone name none."""
    named = {entry.partition("=")[0].strip() for entry in (q or "").split(",") if "=" in entry}
    return tuple(
        joint.name
        for joint in model.joints
        if named.intersection(model.q_names[model.slice(joint.name, of="q")])
    )
