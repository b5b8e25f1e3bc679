"""User code in a robot: user-defined joints, paths and closures.

Models are immutable and their kernels are cached. User code may change: an array that a function
closes over, a global that it reads. It is traced when the model is built, and the graph is its key.
It is traced again whenever the model is used; if the graph differs, an error is raised. Subclasses
of data classes may not override anything.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tiburon.errors import ModelError
from tiburon.model.body import Body
from tiburon.model.closure import (
    Closure,
    LoopClosure,
    TracedClosure,
    closure_program,
    residual_key,
    seen_joints,
    trace_closure,
)
from tiburon.model.joints.joint import Joint
from tiburon.model.joints.user_joint import as_laid_out, joint_graph
from tiburon.trace.declared import is_declared, replaced_names, undeclared_in


def refuse_replaced(thing: object, element: str, instead: str) -> None:
    """Raise if a user's subclass overrides methods or fields of a data class.

    Args:
        thing: An instance of a class of this package, or of one derived from it.
        element: Its name, for the message.
        instead: The remedy.
    """
    names = replaced_names(thing)
    if names:
        raise ModelError(
            f"{element}: {type(thing).__name__} overrides {', '.join(names[:4])} of its base "
            f"class, which compiled code would ignore; {instead}"
        )


def refuse_replaced_inside(part: object, element: str) -> None:
    """Raise if a part of a robot, or data that it holds, overrides methods or fields.

    Joints are exempt: users may define them.
    """
    for thing in undeclared_in(part, apart=Joint):
        refuse_replaced(thing, element, "add to it, but override nothing")


class UserPart(NamedTuple):
    """A part of a robot with user code."""

    element: str
    """Name for messages."""

    trace: Callable[[], object]
    """Traces the part and returns its key."""

    key: object
    """The key when the model was built."""


class UserParts:
    """All parts of a robot with user code.

    Attributes:
        joints: The joints of its plan, by name. parts: Those with user code.
        key: Their keys.
    """

    __slots__ = ("joints", "key", "parts")

    def __init__(self, bodies: Sequence[Body], loops: Sequence[Closure]) -> None:
        """Find and trace the parts.

        Raises:
            ModelError: If a closure differs from its trace for another model.
        """
        own = {body.joint.name: body.joint for body in bodies}
        self.joints = {name: as_laid_out(joint) for name, joint in own.items()}
        self.parts = tuple(_user_parts(self.joints, loops, own))
        self.key = tuple(part.key for part in self.parts)

    def hash_with(self, values: Hashable, parts: Hashable) -> int:
        """Return the hash of a model of these parts."""
        try:
            return hash((values, self.key, parts))
        except TypeError:
            # user code may hold arrays, which are not hashable
            return hash((values, self.key))

    def check_unchanged(self, model: str) -> None:
        """Raise if a part differs from its trace when the model was built."""
        for part in self.parts:
            if part.trace() != part.key:
                raise ModelError(
                    f"{part.element}: your code computes something else than when model "
                    f"{model!r} was built and compiled: an array, a global or an attribute that "
                    "it reads has changed; create the part again and build a new model",
                    name=part.element,
                )


def _user_parts(
    joints: Mapping[str, Joint], loops: Sequence[Closure], own: Mapping[str, Joint]
) -> Iterator[UserPart]:
    for name, joint in joints.items():
        if joint is not own[name]:
            yield UserPart(f"joint {name!r}", _joint(own[name]), joint.structure())
    for loop in loops:
        if isinstance(loop, LoopClosure):
            if is_declared(loop.joint):
                continue
            trace = _joint(loop.joint)
        elif isinstance(loop, TracedClosure) and not is_declared(loop):
            _check_same(loop, seen_joints(loop, own))
            trace = _closure(loop, own)
        else:
            continue
        yield UserPart(f"loop {loop.name!r}", trace, trace())


def _joint(joint: Joint) -> Callable[[], object]:
    return lambda: joint_graph(joint)


def _closure(loop: TracedClosure, joints: Mapping[str, Joint]) -> Callable[[], object]:
    return lambda: residual_key(loop, seen_joints(loop, joints))


def _check_same(loop: TracedClosure, joints: tuple[Joint, ...]) -> None:
    """Raise if a closure differs from its first trace, for another model."""
    known, now = closure_program(loop, joints), trace_closure(loop, joints)
    if now.program.key != known.program.key:
        raise ModelError(
            f"loop {loop.name!r}: its function computes other residuals than before, but a "
            "closure is traced once; create a new closure",
            name=loop.name,
        )
