"""Tolerant construction of bodies and models from files, with one warning per file.

Many robot files in use have physically impossible inertias: moments copied in the wrong axes,
rounded to zero, or left at a default. Their mass matrices are usually still positive definite, and
every other code loads them. Such inertias are kept and reported when read from a file, and are
errors when built in Python.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from tiburon.arguments import caller_level
from tiburon.errors import ModelError, ModelFileError, ModelWarning
from tiburon.formats.toml_table import Table
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.body import Body, Shape
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.composition import changed
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Joint
from tiburon.model.model import Model
from tiburon.record import record

SHOWN = 5
"""Findings spelled out in the warning."""


class Findings:
    """Sentences about a file that could be read, though something in it is not as it should be."""

    def __init__(self, file: str) -> None:
        """Start without any.

        Args:
            file: Name of the file, which leads the warning.
        """
        self.file = file
        self.sentences: list[str] = []

    def add(self, sentence: str, line: int | None = None) -> None:
        """Note a sentence, with the line it is about where known."""
        self.sentences.append(sentence if line is None else f"line {line}: {sentence}")

    def warn(self) -> None:
        """Give one `ModelWarning` for all that was noted, if anything was."""
        if not self.sentences:
            return
        shown = "\n  ".join(self.sentences[:SHOWN])
        more = len(self.sentences) - SHOWN
        rest = f"\n  and {more} more" if more > 0 else ""
        text = f"{self.file}:\n  {shown}{rest}"
        warnings.warn(text, ModelWarning, stacklevel=caller_level())


@record
class FilePart:
    """A place in a file, for messages."""

    file: str
    """Name of the file."""

    line: int | None
    """Line number counted from 1, where known."""

    element: str
    """What stands there, such as "body 'arm'"."""

    def fail(self, message: str) -> NoReturn:
        """Raise `ModelFileError` naming file, line and element."""
        raise ModelFileError(self.file, message, line=self.line, element=self.element)


def lenient_body(
    element: XmlElement | FilePart | Table,
    name: str,
    parent: str,
    joint: Joint,
    inertia: Inertia,
    shapes: Sequence[Shape] = (),
    fluid: BodyFluid | None = None,
    *,
    findings: Findings,
) -> Body:
    """Return a body whose inertia is noted, not refused, if no real body can have it.

    Args:
        element: Where the body stands in the file.
        name: Its name.
        parent: The body that carries it, or "world".
        joint: How it moves in its parent.
        inertia: As the file has it; a negative mass is refused all the same.
        shapes: What it looks like.
        fluid: What water needs to know of it.
        findings: Collects what is not as it should be.
    """
    try:
        inertia.check(name)
        complaint = None
    except ModelError as error:
        if inertia.mass < 0.0:
            element.fail(str(error))
        complaint = str(error)
    try:
        if complaint is None:
            return Body(
                name, parent, joint=joint, inertia=inertia, shapes=tuple(shapes), fluid=fluid
            )
        findings.add(complaint, element.line)
        body = Body(name, parent, joint=joint, shapes=tuple(shapes), fluid=fluid)
        return changed(body, inertia=inertia)
    except ModelError as error:
        element.fail(str(error))


def lenient_model(
    file: str, name: str, bodies: Iterable[Body], *, findings: Findings, **parts: Any
) -> Model:
    """Return a model from the parts of a file.

    Args:
        file: Name of the file, for messages.
        name: Name of the robot.
        bodies: In any order.
        findings: Collects what is not as it should be.
        parts: Other keywords of `Model`.
    """
    try:
        model = Model(name, bodies, movable=False, **parts)
    except ModelError as error:
        raise ModelFileError(file, str(error), name=error.name) from error
    if model.immovable_joint_names:
        listed = ", ".join(repr(joint) for joint in model.immovable_joint_names[:4])
        more = len(model.immovable_joint_names) - 4
        findings.add(
            f"nothing resists the motion of joint {listed}"
            + (f" and {more} more" if more > 0 else "")
            + ", so forward dynamics has no answer; give the bodies they move an inertia, or lock "
            "them"
        )
    return model
