"""Mobility in words: constraints by what they forbid, and what a robot can do in a sentence."""

from typing import TYPE_CHECKING

from tiburon.model import JointCoupling, Model, TracedClosure
from tiburon.model.closing import Advance, Measure, Offset, Tilt, Turn
from tiburon.spatial import Vec3

if TYPE_CHECKING:
    from tiburon.loops.mobility import Mobility

__all__ = ["constraint_words", "mobility_words"]

MOST_NAMES = 8
"""Joints that a sentence lists."""


def constraint_words(model: Model) -> tuple[str, ...]:
    """Return what each constraint forbids, such as "closure: offset along x".

    Axes are those of the frame in which the loop's joint stands.

    Args:
        model: The robot.

    Returns:
        One phrase per constraint, in the order of `constraint_residual`.
    """
    found = []
    for loop in model.loops:
        if isinstance(loop, JointCoupling):
            found.append(f"{loop.name}: tie of {loop.joint}")
        elif isinstance(loop, TracedClosure):
            found += [f"{loop.name}: {word}" for word in loop.constraint_labels]
        else:
            found += [f"{loop.name}: {_forbidden(measure)}" for measure in loop.joint.closing()]
    return tuple(found)


def _forbidden(measure: Measure) -> str:
    if isinstance(measure, Offset):
        return f"offset along {_axis(measure.axis)}"
    if isinstance(measure, Turn):
        return f"turn about {_axis(measure.axis)}"
    if isinstance(measure, Tilt):
        return f"lean along {_axis(measure.along)}"
    if isinstance(measure, Advance):
        return f"advance along {_axis(measure.axis)}"
    return type(measure).__name__.lower()


def _axis(axis: Vec3) -> str:
    """Return a coordinate axis by its letter, any other by its numbers."""
    for letter, x in zip("xyz", axis, strict=True):
        if abs(x) == 1.0:
            return letter
    return "(" + ", ".join(f"{x:.3g}" for x in axis) + ")"


def mobility_words(found: "Mobility") -> str:
    """Return what a robot can do in one or two sentences."""
    counted = "1 loop equation" if found.equations == 1 else f"{found.equations} loop equations"
    words = f"{counted}, {len(found.redundant)} redundant, mobility {found.mobility}"
    if found.is_singular:
        words += f" (singular pose: {found.regular_mobility} beside it)"
    if found.counted_mobility != found.mobility:
        words += f" (by counting {found.counted_mobility})"
    return f"{words}: {_drive_words(found)}"


def _drive_words(found: "Mobility") -> str:
    if found.mobility == 0:
        return "nothing is left to move"
    if not found.driven:
        if found.mobility == 1:
            return f"any one of {_listed(found.candidates)} can drive it"
        return f"{found.mobility} motors can drive it, at {_listed(found.candidates)}"
    names = _listed(found.driven)
    if found.loose_mobility:
        count = (
            "1 freedom is" if found.loose_mobility == 1 else f"{found.loose_mobility} freedoms are"
        )
        return f"{names} cannot drive it alone, {count} left to {_listed(found.loose)}"
    verb = "can drive it" if len(found.driven) > 1 else "can drive it alone"
    if found.redundancy:
        verb += f", {found.redundancy} more than needed"
    return f"{names} {verb}"


def _listed(names: tuple[str, ...]) -> str:
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
