"""Loops that open and close during a run: latches, grasps, releases.

Each constraint of a switched loop is multiplied by 1 while the loop is closed and by 0 while it is
open, so that opening and closing compile nothing. A loop may also close where it happens to be: its
gaps at that moment are then what it holds on to.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tiburon.loops.constraints import Constraints, constraint_names
from tiburon.model import Model
from tiburon.spatial import Scalar

__all__ = ["Switches", "loop_rows", "switched", "switches_of"]


class Switches(NamedTuple):
    """The state of all loops, one entry per constraint."""

    closed: tuple[Scalar, ...]
    """1 where a constraint holds, 0 where its loop is open."""

    offset: tuple[Scalar, ...]
    """Value that it holds on to [m or rad]."""


def loop_rows(model: Model, loop: str) -> range:
    """Return which constraints are those of a loop."""
    names = [name.rpartition(".")[0] for name in constraint_names(model)]
    return range(names.index(loop), names.index(loop) + names.count(loop))


def switches_of(model: Model, given: Mapping[str, Sequence[Scalar]]) -> Switches:
    """Return the state of all loops.

    Args:
        model: The robot.
        given: By name of a loop that is switched, 1 or 0 for closed or open, then what each of its
            constraints holds on to [m or rad]; all others are closed.
    """
    count = len(constraint_names(model))
    closed: list[Scalar] = [1.0] * count
    offset: list[Scalar] = [0.0] * count
    for loop, (is_closed, *held) in given.items():
        for row, value in zip(loop_rows(model, loop), held, strict=True):
            closed[row], offset[row] = is_closed, value
    return Switches(tuple(closed), tuple(offset))


def switched(held: Constraints, switches: Switches | None) -> Constraints:
    """Return constraints of which those of open loops are zero."""
    if switches is None:
        return held
    on, off = switches
    return Constraints(
        tuple(c * (x - e) for c, x, e in zip(on, held.value, off, strict=True)),
        tuple({i: c * x for i, x in row.items()} for c, row in zip(on, held.jacobian, strict=True)),
        tuple(c * x for c, x in zip(on, held.rate, strict=True)),
        tuple(c * x for c, x in zip(on, held.bias, strict=True)),
    )
