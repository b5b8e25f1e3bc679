"""Read models from the native format."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tiburon.formats import native_schema as schema
from tiburon.formats.assembly import lenient_body, lenient_model
from tiburon.formats.findings import Findings
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.native_parts import (
    read_actuator,
    read_contact,
    read_cylinder,
    read_dh,
    read_fluid,
    read_joint,
    read_loop,
    read_pose,
    read_record,
    read_shape,
    read_spring,
    read_thruster,
)
from tiburon.formats.toml_table import Table, parse_toml
from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.inertia import Inertia
from tiburon.model.model import Model

POSITIONS = 2_000_000
"""Most positions of single joints in all poses: a pose of few words stands for all joints."""


def read_native(path: str | Path, package_paths: Iterable[str | Path] = ()) -> Model:
    """Read a robot from a native file.

    Args:
        path: The file.
        package_paths: Folders beside the file's own in which meshes may lie.

    Raises:
        ModelFileError: If the file cannot be read or makes no robot; names file, line and element.

    Warns:
        ModelWarning: If an inertia is kept that no real body can have, or nothing resists a joint.
    """
    folders = [os.path.realpath(folder) for folder in (Path(path).parent, *package_paths)]
    return model_from_native(read_bytes(Path(path)), Budget(str(path)), folders)


def model_from_native(content: bytes, budget: Budget, folders: Iterable[str] = ()) -> Model:
    """Read a robot from the bytes of a native file.

    Args:
        content: The bytes.
        budget: Clock and counts, and the name of the file.
        folders: Real paths of the folders in which meshes may lie, that of the file first.
    """
    root = parse_toml(content, budget)
    _check_version(root)
    findings = Findings(budget.file)
    meshes = tuple(folders)
    bodies: list[Body] = []
    frames: list[Frame] = []
    dh = root.table("dh")
    if dh is not None:
        bodies, frames = read_dh(dh)
    tables = root.tables("body")
    budget.check_links(len(tables) + len(bodies))
    for table in tables:
        budget.check_time()
        bodies.append(_read_body(table, meshes, findings))
    _check_depth(bodies, budget)
    for table in root.tables("frame"):
        place = read_pose(table)
        frames.append(table.build(Frame, table.text("name"), table.text("body"), place))
        table.finish()
    lists = {
        key + "s": [read(table) for table in root.tables(key)]
        for key, read in (
            ("loop", read_loop),
            ("thruster", read_thruster),
            ("contact", read_contact),
            ("actuator", read_actuator),
            ("spring", read_spring),
            ("cylinder", read_cylinder),
        )
    }
    poses = _read_poses(root, len(bodies))
    name, about = root.text("name"), root.text("about", "")
    root.finish()
    parts = {"frames": frames, "poses": poses, "about": about, **lists}
    model = lenient_model(budget.file, name, bodies, findings=findings, **parts)
    budget.check_time()
    findings.warn()
    return model


def _check_version(root: Table) -> None:
    """Refuse files of another kind or of a later version."""
    root.seen.update(("format", "version"))
    if root.data.get("format") != schema.FORMAT:
        given = repr(root.data.get("format"))[:60]
        root.fail(
            f"a native robot file must say format = {schema.FORMAT!r}, got {given}; add the line, "
            "or load another file",
            "format",
        )
    version = root.data.get("version")
    if type(version) is not int or version < 1:
        root.fail(
            f"version must be a whole number, got {version!r}; write version = {schema.VERSION}",
            "version",
        )
    if version > schema.VERSION:
        root.fail(
            f"version must be at most {schema.VERSION}, got {version}; update the package to "
            "read it",
            "version",
        )


def _read_body(table: Table, folders: tuple[str, ...], findings: Findings) -> Body:
    joint = read_joint(table.need("joint"))
    inertia_table = table.table("inertia")
    inertia = Inertia()
    if inertia_table is not None:
        inertia = read_record(schema.INERTIA, inertia_table)
    fluid_table = table.table("fluid")
    fluid = None if fluid_table is None else read_fluid(fluid_table)
    shapes = tuple(read_shape(shape, folders) for shape in table.tables("shape"))
    name, parent = table.text("name"), table.text("parent", WORLD)
    table.finish()
    # other readers keep inertias that no real body can have; so must the file they are saved in
    return lenient_body(table, name, parent, joint, inertia, shapes, fluid, findings=findings)


def _check_depth(bodies: list[Body], budget: Budget) -> None:
    """Refuse a tree that is absurdly deep; cycles and unknown parents are the model's to refuse."""
    parents = {body.name: body.parent for body in bodies}
    depths: dict[str, int] = {WORLD: 0}
    for name in parents:
        path: dict[str, None] = {}
        current = name
        while current not in depths and current in parents and current not in path:
            path[current] = None
            current = parents[current]
        depth = depths.get(current, 0)
        for passed in reversed(path):
            depth += 1
            depths[passed] = depth
            budget.check_depth(depth, passed)


def _read_poses(root: Table, bodies: int) -> Mapping[str, Any]:
    table = root.table("poses")
    if table is None:
        return {}
    if len(table.data) * bodies > POSITIONS:
        table.fail(
            f"poses times bodies may be {POSITIONS}, got {len(table.data)} poses of {bodies} "
            "bodies; keep trajectories in files of their own"
        )
    poses: dict[str, Any] = {}
    for name, value in table.data.items():
        if isinstance(value, dict):
            inner = table.table(name)
            assert inner is not None
            poses[name] = {joint: inner.numbers(joint) for joint in value}
        else:
            poses[name] = table.numbers(name)
    return poses
