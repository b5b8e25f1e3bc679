"""Contacts as joints of closed loops: what friction binds and breakaway frees.

A contact that does not break is a joint (Nahon 1991, section 2.3): without friction a point keeps 5
degrees of freedom, with friction that sticks 3, a soft finger 2. As a closure it holds the gap at
zero, and slip and spin of the bodies where they touch; the contact point may roll over both. A
`LoopSwitch` closes it at touch-down and opens it at breakaway, in one run.

Normals that cannot separate (`dependence`) are such joints whatever forces act; other closures hold
on to bodies that would separate, so that their normal force has to be watched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from tiburon.contact.candidates import Candidate, Part
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.pairs import pair
from tiburon.contact.geometry.vectors import perpendicular
from tiburon.errors import ModelError
from tiburon.model import WORLD, Pose, TracedClosure
from tiburon.model.closure import FrameMotion, FramePose
from tiburon.model.contact_kinds import ContactKind
from tiburon.model.joints import Joint
from tiburon.model.value_checks import check_name
from tiburon.record import record
from tiburon.spatial import Vec3
from tiburon.spatial.vec3 import add_cross, cross, dot, subtract


@record
class ContactClosure(TracedClosure):
    """Two shapes that stay in contact at one point."""

    name: str
    """Unique among the closures of a model."""

    first: Part
    """The first shape."""

    second: Part
    """The second shape."""

    contact: ContactKind
    """Kind of contact, "point" or "soft finger", with friction or without."""

    point: int = 0
    """Which of the contact points of the two shapes."""

    kind: ClassVar[str] = "contact"

    def __post_init__(self) -> None:
        check_name(self.name, "loop")
        if self.contact.constrained != ("fz",):
            raise ModelError(
                f"loop {self.name!r}: shapes touch in points, got a {self.contact.name} contact; "
                "close several points, or a LoopClosure with a joint of that kind",
                name=self.name,
            )

    @property
    def ends(self) -> tuple[tuple[str, Pose], ...]:
        """The bodies of both shapes, with the axes of the shapes."""
        return ((self.first.body, self.first.pose), (self.second.body, self.second.pose))

    @property
    def seen_joints(self) -> tuple[str, ...]:
        """No joints."""
        return ()

    @property
    def position_count(self) -> int:
        """One: the gap."""
        return 1

    @property
    def velocity_count(self) -> int:
        """Two for slip, one for spin, where friction binds them."""
        return len(self.contact.frictional)

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """Labels of the constraints."""
        words = {"fx": "slip along x", "fy": "slip along y", "nz": "spin"}
        return ("gap", *(words[label] for label in self.contact.frictional))

    def _touch(self, *ends: FramePose | FrameMotion) -> ContactGeometry:
        shapes = zip(ends, (self.first, self.second), strict=True)
        placed = [
            Placed(
                tuple(tuple(end.R[i, j] for j in range(3)) for i in range(3)),  # type: ignore[arg-type]
                (end.p[0], end.p[1], end.p[2]),
                part.size,
            )
            for end, part in shapes
        ]
        element = f"loop {self.name!r}"
        return pair(self.first.kind, self.second.kind, element).function(*placed)[self.point]

    def position_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return the gap [m]."""
        return (self._touch(*seen).gap,)

    def velocity_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return slip [m/s] and spin [rad/s] of the second body relative to the first."""
        touch = self._touch(*seen)
        n = touch.normal
        one = perpendicular(n)
        w = [(end.w[0], end.w[1], end.w[2]) for end in seen]
        moving: list[Vec3] = []
        for end, turning in zip(seen, w, strict=True):
            arm = subtract(touch.point, (end.p[0], end.p[1], end.p[2]))
            moving.append(add_cross((end.v[0], end.v[1], end.v[2]), turning, arm))
        slip = subtract(moving[1], moving[0])
        found = {"fx": dot(one, slip), "fy": dot(cross(n, one), slip)}
        found["nz"] = dot(n, subtract(w[1], w[0]))
        return tuple(found[label] for label in self.contact.frictional)

    def check(self, joints: Mapping[str, Joint]) -> None:
        """Accept any joints: none is used."""

    def renamed(self, prefix: str) -> Self:
        """Return the closure with a prefix before all names but the world's."""
        parts = [
            replace(part, body=part.body if part.body == WORLD else prefix + part.body)
            for part in (self.first, self.second)
        ]
        return replace(self, name=prefix + self.name, first=parts[0], second=parts[1])

    def moved(self, ends: Sequence[tuple[str, Pose]]) -> Self:
        """Return the closure with other ends."""
        parts = [
            replace(part, body=body, pose=pose)
            for part, (body, pose) in zip((self.first, self.second), ends, strict=True)
        ]
        return replace(self, first=parts[0], second=parts[1])


def contact_closure_of(
    candidate: Candidate, kind: ContactKind, name: str | None = None, point: int = 0
) -> ContactClosure:
    """Return a contact of two shapes as a closure.

    Args:
        candidate: The two shapes.
        kind: "point" or "soft finger", with friction or without.
        name: Name of the closure; that of the contact point by default.
        point: Which of their contact points.

    Raises:
        ModelError: If a shape is a height field, or the kind is not a point.
    """
    for part in (candidate.first, candidate.second):
        if "height field" in part.kind:
            raise ModelError(
                f"contact {candidate.name!r}: closures need simple shapes, got a {part.kind}; put "
                "a box or plane where the contact is"
            )
    own = candidate.point_names[point] if name is None else name
    return ContactClosure(own, candidate.first, candidate.second, kind, point)
