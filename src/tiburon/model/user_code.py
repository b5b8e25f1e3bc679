"""What users wrote into a robot: joints, paths and closures of their own.

A model never changes, and compiled code of it is kept. What users wrote may change: an array that
a function closes over, a global that it reads. It is traced when the model is built, which tells it
from all others, and again whenever the model is used: what does something else then is refused.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tiburon.errors import ModelError
from tiburon.model.body import Body
from tiburon.model.closure import Closure, LoopClosure
from tiburon.model.closure_program import (
    closure_program,
    residual_key,
    seen_joints,
    trace_closure,
)
from tiburon.model.joints import Joint
from tiburon.model.joints.user_joint import as_laid_out, joint_graph
from tiburon.model.traced_closure import TracedClosure
from tiburon.trace.declared import is_declared

__all__ = ["Written", "WrittenParts"]


class Written(NamedTuple):
    """Something that users wrote."""

    element: str
    """What it is called in messages."""

    tell: Callable[[], object]
    """Traces it, and returns what tells it from others."""

    told: object
    """What that was when the model was built."""


class WrittenParts:
    """All that users wrote into a robot.

    Attributes:
        joints: The joints that stand in its plan, by name.
        parts: What users wrote.
        told: What tells it from others.
    """

    __slots__ = ("joints", "parts", "told")

    def __init__(self, bodies: Sequence[Body], loops: Sequence[Closure]) -> None:
        """Find and trace what users wrote.

        Raises:
            ModelError: If a closure acts otherwise than when it was traced for another model.
        """
        own = {body.joint.name: body.joint for body in bodies}
        self.joints = {name: as_laid_out(joint) for name, joint in own.items()}
        self.parts = tuple(_written_parts(self.joints, loops, own))
        self.told = tuple(part.told for part in self.parts)

    def hash_with(self, values: Hashable, parts: Hashable) -> int:
        """Return the hash of a model of these parts."""
        try:
            return hash((values, self.told, parts))
        except TypeError:
            # what users wrote may hold arrays, which have no hash
            return hash((values, self.told))

    def check_unchanged(self, model: str) -> None:
        """Raise if something does something else than when the model was built."""
        for part in self.parts:
            if part.tell() != part.told:
                raise ModelError(
                    f"{part.element}: what you wrote gives other results than when model {model!r} "
                    "was built, from which its code is compiled: an array, a global or an "
                    "attribute that it reads has changed; make the part again and build a new "
                    "model",
                    name=part.element,
                )


def _written_parts(
    joints: Mapping[str, Joint], loops: Sequence[Closure], own: Mapping[str, Joint]
) -> Iterator[Written]:
    for name, joint in joints.items():
        if joint is not own[name]:
            yield Written(f"joint {name!r}", _joint(own[name]), joint.structure())
    for loop in loops:
        if isinstance(loop, LoopClosure):
            if is_declared(loop.joint):
                continue
            tell = _joint(loop.joint)
        elif isinstance(loop, TracedClosure) and not is_declared(loop):
            _check_same(loop, seen_joints(loop, own))
            tell = _closure(loop, own)
        else:
            continue
        yield Written(f"loop {loop.name!r}", tell, tell())


def _joint(joint: Joint) -> Callable[[], object]:
    return lambda: joint_graph(joint)


def _closure(loop: TracedClosure, joints: Mapping[str, Joint]) -> Callable[[], object]:
    return lambda: residual_key(loop, seen_joints(loop, joints))


def _check_same(loop: TracedClosure, joints: tuple[Joint, ...]) -> None:
    """Raise if a closure acts otherwise than when it was traced first, for another model."""
    known, now = closure_program(loop, joints), trace_closure(loop, joints)
    if now.program.key != known.program.key:
        raise ModelError(
            f"loop {loop.name!r}: its function gives other residuals than before, but a closure is "
            "traced once; make another closure of it",
            name=loop.name,
        )
