"""Models of SDF files, nested and included, flattened into one list of links and joints."""

import os
from dataclasses import dataclass
from pathlib import Path

from tiburon.formats.lenient import Findings
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.sdf_frames import (
    MODEL,
    SCOPE,
    SdfFrame,
    SdfFrames,
    pose_reference,
    read_pose,
)
from tiburon.formats.sdf_joints import SdfJoint, check_kind
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.model.body import WORLD

EXTENSIONS = frozenset(("plugin", "sensor", "light", "actor", "gui", "scene"))
"""Elements whose content says nothing about the robot itself."""

INCLUDES = 100
"""Included files in one robot: real ones have a dozen."""

NESTING = 50
"""Models inside one another."""


@dataclass(frozen=True, slots=True)
class _Named:
    """An element with the model it stands in."""

    name: str
    scope: str
    element: XmlElement
    version: tuple[int, int]
    meshes: MeshPaths


class SdfScope:
    """Collects everything a file says, under whole names."""

    def __init__(self, budget: Budget, meshes: MeshPaths, findings: Findings) -> None:
        """Start empty.

        Args:
            budget: Clock and counts.
            meshes: Finds meshes and included models.
            findings: Collects what was not understood.
        """
        self.budget = budget
        self.findings = findings
        self.frames = SdfFrames(budget)
        self.links: dict[str, _Named] = {}
        self.joints: list[SdfJoint] = []
        self.places: dict[str, XmlElement] = {}
        self.is_static = False
        self._meshes = meshes
        self._joint_elements: list[_Named] = []
        self._includes = 0

    def read_top(self, model: XmlElement, version: tuple[int, int]) -> None:
        """Read the top model and everything in it."""
        self.is_static = flag_of(model, "static")
        self._read(model, "", version, self._meshes, 0)
        canonical = model.attributes.get("canonical_link", "").strip()
        self.frames.canonical = canonical or next(iter(self.links), "")
        for named in self._joint_elements:
            self._read_joint(named)

    def _read(
        self,
        model: XmlElement,
        scope: str,
        version: tuple[int, int],
        meshes: MeshPaths,
        depth: int,
    ) -> None:
        """Read the links, frames, joints and models inside a model."""
        self.budget.check_time()
        if depth > NESTING:
            model.fail(f"models may be nested {NESTING} deep, got more; write them flatter")
        for child in model.children:
            if child.tag == "include":
                self._read_include(child, scope, depth)
                continue
            if child.tag not in ("link", "frame", "joint", "model"):
                continue
            name = scope + child.attribute("name")
            reference = pose_reference(child)
            if child.tag == "link":
                frame = SdfFrame(child, read_pose(child), scope + (reference or MODEL), name)
                self.frames.add(name, frame, link=True)
                self.links[name] = _Named(name, scope, child, version, meshes)
            elif child.tag == "frame":
                attached = scope + (child.attributes.get("attached_to", "").strip() or MODEL)
                relative = scope + reference if reference else attached
                self.frames.add(name, SdfFrame(child, read_pose(child), relative, attached))
                self.places[name] = child
            elif child.tag == "joint":
                end = child.need("child").text.strip()
                relative = scope + (reference or end)
                self.frames.add(name, SdfFrame(child, read_pose(child), relative, scope + end))
                self._joint_elements.append(_Named(name, scope, child, version, meshes))
            else:
                placed = child.attributes.get("placement_frame", "").strip()
                self._add_model(child, child, name, scope, placed)
                self._read(child, name + SCOPE, version, meshes, depth + 1)

    def _add_model(
        self, placing: XmlElement, model: XmlElement, name: str, scope: str, placed: str
    ) -> None:
        """Add the frame of a nested model, which its first link carries."""
        reference = pose_reference(placing)
        inside = name + SCOPE
        canonical = model.attributes.get("canonical_link", "").strip()
        if not canonical:
            first = next(model.all("link"), None) or next(model.all("model"), None)
            canonical = first.attributes.get("name", "") if first is not None else ""
        frame = SdfFrame(
            placing,
            read_pose(placing),
            scope + (reference or MODEL),
            inside + canonical,
            inside + placed if placed and placed != MODEL else "",
        )
        self.frames.add(inside + MODEL, frame)

    def _read_include(self, include: XmlElement, scope: str, depth: int) -> None:
        """Read a model kept in another file, inside the folders that may be read."""
        self._includes += 1
        if self._includes > INCLUDES:
            include.fail(
                f"a file may include {INCLUDES} others, got more; does one include itself?"
            )
        if include.attributes.get("merge", "false").strip() in ("true", "1"):
            include.fail("merged includes are not read; write the links where they belong")
        uri = include.need("uri").text.strip()
        path = self._meshes.find_model(uri, include)
        root = parse_xml(read_bytes(Path(path)), self.budget, path, skip=EXTENSIONS)
        models = list(root.all("model"))
        if root.tag != "sdf" or len(models) != 1:
            root.fail(f"an included file must hold one <model>, got {len(models)}; correct it")
        model = models[0]
        own_name = include.find("name")
        own = own_name.text.strip() if own_name is not None else ""
        name = scope + (own or model.attribute("name"))
        placed = include.find("placement_frame")
        placement = placed.text.strip() if placed is not None else ""
        if not placement:
            placement = model.attributes.get("placement_frame", "").strip()
        # a pose beside the include takes the place of the model's own
        placing = include if include.find("pose") is not None else model
        self._add_model(placing, model, name, scope, placement)
        meshes = MeshPaths(os.path.dirname(path), [self._meshes.folder, *self._meshes.packages])
        self._read(model, name + SCOPE, read_version(root), meshes, depth + 1)

    def _read_joint(self, named: _Named) -> None:
        """Add a joint once all frames it may name are known."""
        element = named.element
        kind = check_kind(element)
        parent, child = (element.need(side) for side in ("parent", "child"))
        ends = []
        for end in (parent, child):
            name = end.text.strip()
            if not name:
                end.fail("expected the name of a link or frame, got none; write it")
            if name == WORLD:
                # also in nested models, whose joints to the world are joints to the world
                ends.append(WORLD)
                continue
            ends.append(self.frames.link_of(self.frames.resolve(named.scope + name, end), end))
        if ends[1] == WORLD:
            child.fail("the world cannot be the child of a joint; let it be the parent")
        if ends[0] == ends[1]:
            element.fail(f"a joint must tie two links, got {ends[0]!r} twice; name another")
        self.joints.append(
            SdfJoint(named.name, named.scope, kind, element, ends[0], ends[1], named.version)
        )


def read_version(root: XmlElement) -> tuple[int, int]:
    """Return the version of the format a file says it is written in."""
    text = root.attribute("version")
    parts = text.split(".")
    if len(parts) > 3 or not all(p.isascii() and p.isdigit() and len(p) < 4 for p in parts):
        root.fail(f"version must be two numbers such as 1.9, got {text[:20]!r}; correct it")
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0


def flag_of(element: XmlElement, tag: str) -> bool:
    """Return whether a child element says true."""
    child = element.find(tag)
    return child is not None and child.text.strip() in ("true", "1")
