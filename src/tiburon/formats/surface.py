"""Surfaces of collision shapes in XML files: friction along two directions, and restitution.

Other programs give friction per direction (mu, mu2: a pyramid); here friction is the same in all
directions, so that the smaller coefficient counts. Values that make no sense are left out with a
warning: they must not prevent loading a robot.
"""

from tiburon.errors import ModelError
from tiburon.formats.lenient import Findings
from tiburon.formats.limits import MAX_MAGNITUDE
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.contact_kinds import ContactMaterial

DEFAULT_FRICTION = 1.0
"""Friction of SDF surfaces that do not state it."""


def coefficient(holder: XmlElement | None, tag: str, findings: Findings) -> float | None:
    """Return the number in a child element, as text or as its attribute "value"; None if none."""
    child = None if holder is None else holder.find(tag)
    if child is None or holder is None:
        return None
    text = child.text.strip() or child.attributes.get("value", "").strip()
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= MAX_MAGNITUDE or "_" in text:
        findings.add(
            f"{holder.describe()}: {tag} must be a number of at least 0, got {text[:40]!r}; it was "
            "left out",
            child.line,
        )
        return None
    return value


def surface_material(
    element: XmlElement,
    first: float | None,
    second: float | None,
    restitution: float | None,
    findings: Findings,
    turning: tuple[float, float] = (0.0, 0.0),
) -> ContactMaterial | None:
    """Return the material of a surface with friction along two directions; None without any.

    `turning` are torsional and rolling friction [m].
    """
    spin, roll = turning
    given = [mu for mu in (first, second) if mu is not None]
    if not given and restitution is None and not any(turning):
        return None
    if len(set(given)) > 1:
        findings.add(
            f"{element.describe()}: friction {max(given):g} and {min(given):g} along two "
            "directions; it is the same in all directions here, the smaller one was kept",
            element.line,
        )
    friction = min(given) if given else DEFAULT_FRICTION
    try:
        return ContactMaterial(
            friction,
            restitution=restitution or 0.0,
            torsional_friction=spin,
            rolling_friction=roll,
        )
    except ModelError as error:
        findings.add(f"{element.describe()}: {error}; its surface was left out", element.line)
        return None
