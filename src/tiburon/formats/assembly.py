"""Bodies and models from what files say, with more patience than Python code is given.

Many robots in use have inertias that no real body can have: moments copied in the wrong axes,
rounded to zero, or left at some default. Their mass matrices are none the worse for it, and every
other code loads them. Read from a file they are kept as they are and noted; built in Python they
are errors.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.file_part import FilePart
from tiburon.formats.findings import Findings
from tiburon.formats.toml_table import Table
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.body import Body
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.composition import changed
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Joint
from tiburon.model.model import Model
from tiburon.model.shape import Shape


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
