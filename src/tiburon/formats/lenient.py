"""Tolerant construction of bodies and models from files, with one warning per file.

Many robot files in use have physically impossible inertias: moments copied in the wrong axes,
rounded to zero, or left at a default. Their mass matrices are usually still positive definite, and
every other code loads them. Such inertias are kept and reported when read from a file, and are
errors when built in Python.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tiburon.arguments import caller_level
from tiburon.errors import ModelError, ModelFileError, ModelWarning
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.body import Body, Shape
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.composition import changed
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Joint
from tiburon.model.model import Model
from tiburon.record import record

if TYPE_CHECKING:
    from tiburon.formats.toml_table import Table

MAX_SHOWN = 5
"""Most findings listed in a warning."""


class Findings:
    """Warnings about a file, collected while it is read."""

    def __init__(self, file: str) -> None:
        """Start without findings.

        Args:
            file: Name of the file, the prefix of the warning.
        """
        self.file = file
        self.sentences: list[str] = []

    def add(self, sentence: str, line: int | None = None) -> None:
        """Add a sentence, with its line if known."""
        self.sentences.append(sentence if line is None else f"line {line}: {sentence}")

    def warn(self) -> None:
        """Raise one `ModelWarning` for all findings, if any."""
        if not self.sentences:
            return
        shown = "\n  ".join(self.sentences[:MAX_SHOWN])
        more = len(self.sentences) - MAX_SHOWN
        rest = f"\n  and {more} more" if more > 0 else ""
        text = f"{self.file}:\n  {shown}{rest}"
        warnings.warn(text, ModelWarning, stacklevel=caller_level())


@record
class FilePart:
    """An element of a file, for messages."""

    file: str
    """Name of the file."""

    line: int | None
    """Line number counted from 1, if known."""

    element: str
    """Description, such as "body 'arm'"."""

    def fail(self, message: str) -> NoReturn:
        """Raise `ModelFileError` naming file, line and element."""
        raise ModelFileError(self.file, message, line=self.line, element=self.element)


def lenient_body(
    element: "XmlElement | FilePart | Table",
    name: str,
    parent: str,
    joint: Joint,
    inertia: Inertia,
    shapes: Sequence[Shape] = (),
    fluid: BodyFluid | None = None,
    *,
    findings: Findings,
) -> Body:
    """Return a body; a physically impossible inertia is kept with a warning.

    Args:
        element: Element of the body in the file.
        name: Its name.
        parent: Its parent body, or "world".
        joint: Joint to its parent.
        inertia: Inertia of the file; a negative mass is an error.
        shapes: Visual and collision geometry.
        fluid: Hydrodynamic coefficients.
        findings: Collects warnings.
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
    """Return a model from the elements of a file; `parts` are other keywords of `Model`."""
    try:
        model = Model(name, bodies, movable=False, **parts)
    except ModelError as error:
        raise ModelFileError(file, str(error), name=error.name) from error
    if model.immovable_joint_names:
        listed = ", ".join(repr(joint) for joint in model.immovable_joint_names[:4])
        more = len(model.immovable_joint_names) - 4
        findings.add(
            f"no inertia resists the motion of joint {listed}"
            + (f" and {more} more" if more > 0 else "")
            + ", so forward dynamics is undefined; add inertia to the bodies they move, or lock "
            "them"
        )
    return model
