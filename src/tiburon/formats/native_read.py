"""Reader of the native format: one function per kind of table."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from tiburon.formats import native_schema as schema
from tiburon.formats.lenient import Findings, lenient_body, lenient_model
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.native_schema import Record
from tiburon.formats.toml_table import Table, parse_toml
from tiburon.model.actuator import Actuator, Servo
from tiburon.model.attachments import LinearThrust, Spring, Thruster
from tiburon.model.body import (
    WORLD,
    Body,
    ContactPair,
    ContactPoint,
    Frame,
    MeshShape,
    Shape,
)
from tiburon.model.body_fluid import BodyFluid, Fin, added_mass_from, six_by_six_from
from tiburon.model.closure import Closure, JointCoupling, LoopClosure
from tiburon.model.composition import changed
from tiburon.model.contact_kinds import MATERIAL, ContactMaterial
from tiburon.model.denavit_hartenberg import DHLink, chain_parts
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Fixed, Joint
from tiburon.model.model import Model
from tiburon.model.pose import Pose

MAX_POSITIONS = 2_000_000
"""Most joint positions in all poses: a short pose expands to all joints."""


def read_native(path: str | Path, package_paths: Iterable[str | Path] = ()) -> Model:
    """Read a robot from a native file.

    Args:
        path: The file.
        package_paths: Folders for meshes, in addition to that of the file.

    Raises:
        ModelFileError: If the file is invalid; the message names file, line and element.

    Warns:
        ModelWarning: If an inertia is physically impossible, or a joint has no inertia.
    """
    folders = [os.path.realpath(folder) for folder in (Path(path).parent, *package_paths)]
    return model_from_native(read_bytes(Path(path)), Budget(str(path)), folders)


def model_from_native(content: bytes, budget: Budget, folders: Iterable[str] = ()) -> Model:
    """Read a robot from the bytes of a native file.

    Meshes are in `folders`: real paths, that of the file first.
    """
    root = parse_toml(content, budget)
    check_version(root)
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
            ("cylinder", partial(read_record, schema.CYLINDER)),
            ("cable", partial(read_record, schema.CABLE)),
            ("contact_pair", read_contact_pair),
        )
    }
    poses = _read_poses(root, len(bodies))
    name, about = root.text("name"), root.text("about", "")
    world = root.table("world")
    if world is not None:
        # a robot has no world, but its file must be valid as a whole
        from tiburon.formats.native_world import read_world

        read_world(world)
    root.finish()
    parts = {"frames": frames, "poses": poses, "about": about, **lists}
    model = lenient_model(budget.file, name, bodies, findings=findings, **parts)
    budget.check_time()
    findings.warn()
    return model


def check_version(root: Table) -> None:
    """Raise for native files of another format or of a later version."""
    root.seen.update(("format", "version"))
    if root.data.get("format") != schema.FORMAT:
        given = repr(root.data.get("format"))[:60]
        root.fail(
            f"a native robot file must have format = {schema.FORMAT!r}, got {given}; add the line, "
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
    compensated = table.numbers("gravity_compensation")
    table.finish()
    # other readers keep physically impossible inertias, so files saved from them must load
    body = lenient_body(table, name, parent, joint, inertia, shapes, fluid, findings=findings)
    if compensated is None:
        return body
    checked = table.build(Body, "body", joint=Fixed("fixed"), gravity_compensation=compensated)
    return changed(body, gravity_compensation=checked.gravity_compensation)


def _check_depth(bodies: list[Body], budget: Budget) -> None:
    """Raise for trees that are too deep; `Model` checks for cycles and unknown parents."""
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
    if len(table.data) * bodies > MAX_POSITIONS:
        table.fail(
            f"poses times bodies may be {MAX_POSITIONS}, got {len(table.data)} poses of {bodies} "
            "bodies; keep trajectories in separate files"
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


_ROTATIONS = ("rotation", "rpy", "quaternion", "axis_angle")
"""Keys of rotations."""


def read_values(record: Record, table: Table) -> dict[str, Any]:
    """Return the fields of a record that a table contains."""
    values: dict[str, Any] = {}
    for name in record.texts:
        if record.required(name) or table.has(record.key(name)):
            values[name] = table.text(record.key(name))
    for name in record.numbers:
        given = table.numbers(record.key(name))
        if given is not None:
            values[name] = given
        elif record.required(name):
            table.require(record.key(name))
    if record.placed:
        values["pose"] = read_pose(table)
    return values


def read_record(record: Record, table: Table) -> Any:
    """Return the object that a table describes."""
    values = read_values(record, table)
    table.finish()
    return table.build(record.make, **values)


def read_kinded(records: Mapping[str, Record], table: Table) -> Any:
    """Return the object that a table describes, by its "kind"."""
    return read_record(table.choice("kind", dict(records)), table)


def read_pose(table: Table) -> Pose:
    """Return the pose from a position and a rotation in one of several notations."""
    position = table.numbers("position")
    translation = (0.0, 0.0, 0.0) if position is None else position
    turns = {key: value for key in _ROTATIONS if (value := table.numbers(key)) is not None}
    if len(turns) > 1:
        table.fail(f"a rotation must be given once, got {' and '.join(turns)}; keep one of them")
    if not turns:
        # the default rotation is shared, which marks poses without rotation
        return table.build(Pose, translation=translation)
    ((way, given),) = turns.items()
    if way == "rotation":
        return table.build(Pose, given, translation)
    if way == "rpy":
        return table.build(Pose.from_rpy, given, translation)
    if way == "quaternion":
        return table.build(Pose.from_quaternion, given, translation)
    if not isinstance(given, tuple) or len(given) != 4:
        table.fail(f"axis_angle must be [x, y, z, angle], got {given!r}; give four numbers", way)
    return table.build(Pose.from_axis_angle, given[:3], given[3], translation)


def read_joint(table: Table) -> Joint:
    """Return a joint, with the joints it contains."""
    word = table.text("kind")
    record = table.choice("kind", schema.JOINTS)
    values = read_values(record, table)
    values["pose"] = read_pose(table)
    for key, inner_record in (("limits", schema.LIMITS), ("passive", schema.PASSIVE)):
        inner = table.table(key)
        if inner is not None:
            values[key] = read_record(inner_record, inner)
    armature = table.numbers("armature")
    if armature is not None:
        values["armature"] = armature
    if word == "coupled":
        values["moves"] = read_joint(table.need("moves"))
    if word == "driven":
        values["drive"] = read_joint(table.need("drive"))
        values["path"] = tuple(read_kinded(schema.PATHS, path) for path in table.tables("path"))
        carried = table.table("carried")
        if carried is not None:
            values["carried"] = read_joint(carried)
    name = table.text("name")
    table.finish()
    joint: Joint = table.build(record.make, name, **values)
    return joint


def read_shape(table: Table, folders: tuple[str, ...]) -> Shape:
    """Return a shape; meshes are in `folders`: real paths, that of the file first."""
    record = table.choice("kind", schema.GEOMETRIES)
    values = read_values(record, table)
    if "path" in values and folders:
        values["path"] = _mesh_path(values["path"], folders, table)
    if record.make is MeshShape:
        values["convex"] = read_flag(table, "convex")
    pose, role, color = read_pose(table), table.text("role", "both"), table.numbers("color")
    name, material = table.text("name", ""), read_material(table)
    bits = table.numbers("contact_bits")
    table.finish()
    geometry = table.build(record.make, **values)
    return table.build(Shape, geometry, pose, role, color, name, material, bits)


def _mesh_path(path: str, folders: tuple[str, ...], table: Table) -> str:
    """Return the path of a mesh, or the name as written if there is no such file.

    Paths outside the permitted folders are rejected, also through symbolic links.
    """
    if "\0" in path:
        table.fail("path must be that of a file, got one with a null byte; correct it", "path")
    found = os.path.normpath(os.path.join(folders[0], path))
    exists = os.path.isfile(found)
    if not exists:
        moved = [place for place in _packaged(path, folders[1:]) if os.path.isfile(place)]
        found, exists = (moved[0], True) if moved else (found, False)
    real = os.path.realpath(found) if exists else found
    inside = any(real.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
    if not inside and (exists or not os.path.isabs(path)):
        table.fail(
            "meshes must be in the folder of the robot file or in package_paths, got "
            f"{path[:80]!r}, which is elsewhere; load it with package_paths=[...]",
            "path",
        )
    return found if exists else path


def _packaged(path: str, packages: tuple[str, ...]) -> Iterator[str]:
    """Iterate over candidate paths of a mesh if the robot file was moved without it.

    A package may be the first folder of a path, or any other folder in it.
    """
    names = [name for name in path.replace("\\", "/").split("/") if name not in ("", ".", "..")]
    for package in packages:
        yield os.path.join(package, *names)
        for k in range(len(names) - 1, 0, -1):
            if os.path.basename(package) == names[k - 1]:
                yield os.path.join(package, *names[k:])


def read_fluid(table: Table) -> BodyFluid:
    """Return the hydrodynamic coefficients of a body."""
    values: dict[str, Any] = {}
    for key in ("volume", "center_of_buoyancy"):
        given = table.numbers(key)
        if given is not None:
            values[key] = given
    added = table.table("added_mass")
    if added is not None:
        about, symmetrize = added.numbers("about"), added.get("symmetrize")
        if symmetrize not in (None, True, False):
            added.fail(f"symmetrize must be true or false, got {symmetrize!r}", "symmetrize")
        values["added_mass"] = _matrix6(
            added_mass_from,
            added,
            about=(0.0, 0.0, 0.0) if about is None else about,
            symmetrize=bool(symmetrize),
        )
    for key in schema.DAMPINGS:
        damping = table.table(key)
        if damping is not None:
            values[key] = _matrix6(six_by_six_from, damping)
    if table.has("reference_density"):
        # a word, since TOML has no null value
        given = table.get("reference_density")
        any_fluid = given == schema.ANY_FLUID
        values["reference_density"] = None if any_fluid else table.numbers("reference_density")
    drags = tuple(read_kinded(schema.DRAGS, drag) for drag in table.tables("drag"))
    fins = tuple(_read_fin(fin) for fin in table.tables("fin"))
    table.finish()
    return table.build(BodyFluid, drag=drags, fins=fins, **values)


def _read_fin(table: Table) -> Fin:
    """Return a fin, with its coefficients."""
    values = read_values(schema.FIN, table)
    foil = table.table("foil")
    if foil is not None:
        values["foil"] = read_kinded(schema.FOILS, foil)
    table.finish()
    return table.build(Fin, **values)


def _matrix6(make: Any, table: Table, **options: Any) -> Any:
    """Return a 6 x 6 matrix from a table with its order and axes."""
    order, axes = table.text("order"), table.text("axes")
    table.require("matrix")
    matrix = table.numbers("matrix")
    table.finish()
    return table.build(make, matrix, order=order, axes=axes, **options)


def read_loop(table: Table) -> Closure:
    """Return a loop joint, a coupling of joints, or a contact."""
    kinds = {"joint": "joint", "coupling": "coupling", **{word: word for word in schema.LOOPS}}
    kind = table.choice("kind", kinds, "joint")
    if kind in schema.LOOPS:
        return _traced_loop(schema.LOOPS[kind], table)
    name, may_start_open = table.text("name"), read_flag(table, "may_start_open")
    if kind == "coupling":
        leader = table.text("leader") if table.has("leader") else None
        joint = table.text("joint")
        table.require("coefficients")
        coefficients = table.numbers("coefficients")
        table.finish()
        return table.build(
            JointCoupling, name, joint, leader, coefficients, may_start_open=may_start_open
        )
    first, second = table.text("first"), table.text("second")
    closing = read_joint(table.need("joint"))
    pose = _pose_under("second_pose", table)
    table.finish()
    return table.build(
        LoopClosure, name, first, second, closing, pose, may_start_open=may_start_open
    )


def read_flag(table: Table, key: str) -> bool:
    """Return a boolean, false by default."""
    value = table.get(key)
    if value not in (None, True, False):
        table.fail(f"{key} must be true or false, got {value!r}", key)
    return bool(value)


def _pose_under(key: str, table: Table) -> Pose:
    """Return the pose of an inner table, identity by default."""
    placed = table.table(key)
    if placed is None:
        return Pose()
    pose = read_pose(placed)
    placed.finish()
    return pose


def _traced_loop(record: Record, table: Table) -> Closure:
    """Return a closure that is not a joint."""
    values = read_values(record, table)
    known = {item.name for item in fields(record.make)}
    for key in known & {"pose", "second_pose"}:
        values[key] = _pose_under(key, table)
    if "may_start_open" in known:
        values["may_start_open"] = read_flag(table, "may_start_open")
    if "joints" in known:
        table.require("joints")
        for key in ("joints", "leaders"):
            values[key] = table.texts(key)
    table.finish()
    made: Closure = table.build(record.make, **values)
    return made


def read_thruster(table: Table) -> Thruster:
    """Return a thruster."""
    record = Record(Thruster, (*schema.THRUSTER, *schema.PAIRS), ("name", "body"))
    values = read_values(record, table)
    curve = table.table("curve")
    thrust = LinearThrust() if curve is None else read_kinded(schema.CURVES, curve)
    table.finish()
    return table.build(Thruster, curve=thrust, **values)


def read_contact(table: Table) -> ContactPoint:
    """Return a contact point."""
    values = read_values(Record(ContactPoint, ("position", "radius"), ("name", "body")), table)
    material = read_material(table)
    table.finish()
    return table.build(ContactPoint, material=material, **values)


def read_contact_pair(table: Table) -> ContactPair:
    """Return two bodies that touch, or do not."""
    first, second = table.text("first"), table.text("second")
    touches = table.get("touches")
    if touches not in (None, True, False):
        table.fail(f"touches must be true or false, got {touches!r}", "touches")
    material = read_material(table)
    table.finish()
    return table.build(ContactPair, first, second, touches is not False, material)


def read_material(table: Table) -> ContactMaterial | None:
    """Return the material of a surface, None where the table has none."""
    part = table.table("material")
    if part is None:
        return None
    found: ContactMaterial = read_record(
        Record(ContactMaterial, MATERIAL, ("friction_rule",)), part
    )
    return found


def read_actuator(table: Table) -> Actuator:
    """Return an actuator."""
    values = read_values(Record(Actuator, schema.ACTUATOR, ("name", "joint", "command")), table)
    motor = table.table("motor")
    if motor is not None:
        values["motor"] = read_record(schema.MOTOR, motor)
    servo = table.table("servo")
    if servo is not None:
        values["servo"] = read_servo(servo)
    table.finish()
    return table.build(Actuator, **values)


def read_servo(table: Table) -> Servo:
    """Return the feedback of an actuator."""
    values = read_values(schema.SERVO, table)
    points = table.table("set_points")
    if points is not None:
        values["set_points"] = {pose: points.numbers(pose) for pose in points.data}
        points.finish()
    table.finish()
    return table.build(Servo, **values)


def read_spring(table: Table) -> Spring:
    """Return a spring between two points."""
    values = read_values(schema.SPRING, table)
    rope = table.get("rope")
    if rope not in (None, True, False):
        table.fail(f"rope must be true or false, got {rope!r}", "rope")
    table.finish()
    return table.build(Spring, rope=bool(rope), **values)


def read_dh(table: Table) -> tuple[list[Body], list[Frame]]:
    """Return bodies and frames of a Denavit-Hartenberg table."""
    convention = table.text("convention")
    base, tool = table.table("base"), table.table("tool")
    places = [None if place is None else read_pose(place) for place in (base, tool)]
    for place in (base, tool):
        if place is not None:
            place.finish()
    links = []
    for row in table.tables("link"):
        values = {
            key: given
            for key in ("a", "alpha", "d", "theta")
            if (given := row.numbers(key)) is not None
        }
        for key, field in (("kind", "joint"), ("joint", "joint_name"), ("name", "body_name")):
            if row.has(key):
                values[field] = row.text(key)
        inertia = row.table("inertia")
        if inertia is not None:
            values["inertia"] = read_record(schema.INERTIA, inertia)
        row.finish()
        links.append(row.build(DHLink, **values))
    table.finish()
    return table.build(chain_parts, "dh", links, convention, places[0] or Pose(), places[1])
