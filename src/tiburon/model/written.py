"""What users wrote into a robot: joints, paths and closures of their own.

A model never changes, and compiled code of it is kept. What users wrote may change: an array that
a function closes over, a global that it reads. It is traced when the model is built, which tells it
from all others, and again whenever the model is used: what does something else then is refused.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tiburon.errors import ModelError
from tiburon.model.body import Body
from tiburon.model.closure import Closure, LoopClosure
from tiburon.model.closure_program import residual_key, seen_joints
from tiburon.model.joints import Joint
from tiburon.model.joints.written import as_laid_out, joint_graph
from tiburon.model.traced_closure import TracedClosure
from tiburon.trace.declared import is_declared

__all__ = ["Written", "check_unchanged", "laid_out", "written_parts"]


class Written(NamedTuple):
    """Something that users wrote."""

    element: str
    """What it is called in messages."""

    tell: Callable[[], object]
    """Traces it, and returns what tells it from others."""

    told: object
    """What that was when the model was built."""


def laid_out(bodies: Iterable[Body]) -> dict[str, Joint]:
    """Return the joints that stand in a plan, by name."""
    return {body.joint.name: as_laid_out(body.joint) for body in bodies}


def written_parts(
    joints: Mapping[str, Joint], loops: Sequence[Closure], own: Mapping[str, Joint]
) -> tuple[Written, ...]:
    """Return what users wrote.

    Args:
        joints: Joints as they stand in the plan, by name.
        loops: What closes loops.
        own: Joints as their user built them, by name.
    """
    found = [
        Written(f"joint {name!r}", _joint(own[name]), joint.structure())
        for name, joint in joints.items()
        if joint is not own[name]
    ]
    for loop in loops:
        if isinstance(loop, LoopClosure):
            if not is_declared(loop.joint):
                tell = _joint(loop.joint)
                found.append(Written(f"loop {loop.name!r}", tell, tell()))
        elif isinstance(loop, TracedClosure) and not is_declared(loop):
            tell = _closure(loop, own)
            found.append(Written(f"loop {loop.name!r}", tell, tell()))
    return tuple(found)


def _joint(joint: Joint) -> Callable[[], object]:
    return lambda: joint_graph(joint)


def _closure(loop: TracedClosure, joints: Mapping[str, Joint]) -> Callable[[], object]:
    return lambda: residual_key(loop, seen_joints(loop, joints))


def check_unchanged(model: str, written: Iterable[Written]) -> None:
    """Raise if something that users wrote does something else than when the model was built."""
    for part in written:
        if part.tell() != part.told:
            raise ModelError(
                f"{part.element}: what you wrote gives other results than when model {model!r} was "
                "built, from which its code is compiled: an array, a global or an attribute that "
                "it reads has changed; build a new model from it",
                name=part.element,
            )
