"""Write models in the native format, which can express every model.

TOML libraries put every element of a list on its own line, or do not support inline tables; here
vectors are on one line, matrices row by row, small tables inline. Values are written by `repr`, so
that they read back to the last bit.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiburon.errors import ModelError
from tiburon.formats import native_schema as schema
from tiburon.formats.native_schema import Record, kind_of
from tiburon.formats.save import SavedMeshes
from tiburon.model.actuator import Actuator
from tiburon.model.attachments import Thruster
from tiburon.model.body import WORLD, Body, MeshShape, Shape
from tiburon.model.body_fluid import BodyFluid, Fin, ThinFoil
from tiburon.model.closure import Closure, JointCoupling, LoopClosure, TracedClosure
from tiburon.model.composition import changed
from tiburon.model.contact_kinds import MATERIAL, ContactMaterial
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Coupled, Driven, Joint
from tiburon.model.model import Model
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Matrix6
from tiburon.model.world import World

_NO_ROTATION = Pose().rotation


def write_native(
    model: Model, path: Path, meshes: SavedMeshes | None = None, world: World | None = None
) -> tuple[str, tuple[str, ...]]:
    """Return the text of a native file, and notes about its meshes.

    Args:
        model: Any model without user-defined paths or joints, which are code.
        path: Path of the file; mesh names are relative to its folder.
        meshes: Names the meshes; by default they are not copied.
        world: The surroundings the robot is meant for, for `load_world`.

    Raises:
        ModelError: If the model contains user code.
    """
    named = SavedMeshes(path) if meshes is None else meshes

    def local(shape: Shape) -> Shape:
        mesh = shape.geometry
        if not isinstance(mesh, MeshShape):
            return shape
        return replace(shape, geometry=replace(mesh, path=named.name(mesh.path)))

    bodies = [
        changed(b, shapes=tuple(map(local, b.shapes))) if b.shapes else b for b in model.bodies
    ]
    return native_text(model, bodies, world), tuple(named.sentences)


def native_text(
    model: Model, bodies: Sequence[Body] | None = None, world: World | None = None
) -> str:
    """Return the text of a native file.

    Args:
        model: Any model without user-defined paths or joints, which are code.
        bodies: Bodies to write instead of the model's own.
        world: The surroundings the robot is meant for.

    Raises:
        ModelError: If the model contains user code.
    """
    document: dict[str, Any] = {
        "format": schema.FORMAT,
        "version": schema.VERSION,
        "name": model.name,
    }
    if model.about:
        document["about"] = model.about
    lists: dict[str, list[dict[str, Any]]] = {
        "body": [_body(body) for body in bodies or model.bodies],
        "frame": [{"name": f.name, "body": f.body, **_pose(f.pose)} for f in model.frames],
        "loop": [_loop(loop) for loop in model.loops],
        "thruster": [_thruster(thruster) for thruster in model.thrusters],
        "contact": [
            {
                "name": c.name,
                "body": c.body,
                "position": list(c.position),
                **({"radius": c.radius} if c.radius else {}),
                **material_table(c.material),
            }
            for c in model.contacts
        ],
        "actuator": [_actuator(actuator) for actuator in model.actuators],
        "spring": [
            {**record_table(schema.SPRING, s), **({"rope": True} if s.rope else {})}
            for s in model.springs
        ],
        "cylinder": [record_table(schema.CYLINDER, cylinder) for cylinder in model.cylinders],
        "cable": [record_table(schema.CABLE, cable) for cable in model.cables],
        "contact_pair": [
            {
                "first": p.first,
                "second": p.second,
                **({} if p.touches else {"touches": False}),
                **material_table(p.material),
            }
            for p in model.contact_pairs
        ],
    }
    document.update({key: tables for key, tables in lists.items() if tables})
    if model.poses:
        document["poses"] = {name: list(q) for name, q in model.poses.items()}
    if world is not None:
        from tiburon.formats.native_world import world_table

        document["world"] = world_table(world)
    return toml_text(document)


def record_table(record: Record, value: object) -> dict[str, Any]:
    """Return the fields of a value that differ from their defaults."""
    table: dict[str, Any] = {}
    for name in (*record.texts, *record.numbers):
        given = getattr(value, name)
        # repr distinguishes 0.0 from -0.0
        if given is not None and repr(given) != repr(record.defaults[name]):
            table[record.key(name)] = given
    if record.placed:
        table.update(_pose(value.pose))  # type: ignore[attr-defined]
    return table


def _kind(records: Mapping[str, Record], value: object, element: str) -> tuple[str, Record]:
    """Return the kind of a value, and its record."""
    word = kind_of(records, value)
    if word is None:
        raise ModelError(
            f"{element}: a {type(value).__name__} is code, which a file cannot contain; build this "
            "robot in Python"
        )
    return word, records[word]


def _kinded(records: Mapping[str, Record], value: object, element: str) -> dict[str, Any]:
    word, record = _kind(records, value, element)
    return {"kind": word, **record_table(record, value)}


def _pose(pose: Pose) -> dict[str, Any]:
    """Return position and rotation matrix, if they are not zero and identity."""
    table: dict[str, Any] = {}
    if any(pose.translation):
        table["position"] = list(pose.translation)
    if pose.rotation != _NO_ROTATION:
        table["rotation"] = [list(row) for row in pose.rotation]
    return table


def _body(body: Body) -> dict[str, Any]:
    table: dict[str, Any] = {"name": body.name}
    if body.parent != WORLD:
        table["parent"] = body.parent
    table["joint"] = _joint(body.joint)
    if body.inertia != Inertia():
        table["inertia"] = record_table(schema.INERTIA, body.inertia)
    if body.gravity_compensation:
        table["gravity_compensation"] = body.gravity_compensation
    if body.fluid is not None:
        table["fluid"] = _fluid(body.fluid, body.name)
    if body.shapes:
        table["shape"] = [_shape(shape, body.name) for shape in body.shapes]
    return table


def _joint(joint: Joint) -> dict[str, Any]:
    element = f"joint {joint.name!r}"
    word, record = _kind(schema.JOINTS, joint, element)
    table: dict[str, Any] = {"kind": word, "name": joint.name, **record_table(record, joint)}
    table.update(_pose(joint.pose))
    if joint.limits is not None:
        table["limits"] = Inline(record_table(schema.LIMITS, joint.limits))
    if joint.passive is not None:
        table["passive"] = Inline(record_table(schema.PASSIVE, joint.passive))
    if joint.armature != 0.0:
        table["armature"] = joint.armature
    if isinstance(joint, Coupled):
        table["moves"] = _joint(joint.moves)
    if isinstance(joint, Driven):
        paths = joint.path if isinstance(joint.path, tuple) else (joint.path,)
        table["drive"] = _joint(joint.drive)
        table["path"] = [Inline(_kinded(schema.PATHS, path, element)) for path in paths]
        table["carried"] = _joint(joint.carried)
    return table


def _shape(shape: Shape, body: str) -> dict[str, Any]:
    table = _kinded(schema.GEOMETRIES, shape.geometry, f"body {body!r}, shape")
    if getattr(shape.geometry, "convex", False):
        table = {**table, "convex": True}
    table.update(_pose(shape.pose))
    if shape.role != "both":
        table["role"] = shape.role
    if shape.color is not None:
        table["color"] = list(shape.color)
    if shape.name:
        table["name"] = shape.name
    if shape.contact_bits is not None:
        table["contact_bits"] = list(shape.contact_bits)
    table.update(material_table(shape.material))
    return table


def material_table(material: ContactMaterial | None) -> dict[str, Any]:
    """Return the table of a surface, nothing where it has no material."""
    if material is None:
        return {}
    # compliance and friction of turning only where there is some
    soft = material.normal_stiffness or material.planar_stiffness
    table: dict[str, Any] = {
        name: value
        for name, value in zip(MATERIAL, material.values, strict=True)
        if name in MATERIAL[:3] or value or (soft and name in MATERIAL[3:-2])
    }
    if material.friction_rule != "smaller":
        table["friction_rule"] = material.friction_rule
    return {"material": table}


def _fluid(fluid: BodyFluid, body: str) -> dict[str, Any]:
    table: dict[str, Any] = {"volume": fluid.volume}
    if any(fluid.center_of_buoyancy):
        table["center_of_buoyancy"] = list(fluid.center_of_buoyancy)
    for name in ("added_mass", *schema.DAMPINGS):
        matrix = getattr(fluid, name)
        if matrix is not None:
            table[name] = {
                "order": "angular-first",
                "axes": "flu",
                "matrix": _diagonal(matrix) or [list(row) for row in matrix],
            }
    if any(name in table for name in ("added_mass", *schema.DAMPINGS)):
        stated = fluid.reference_density
        table["reference_density"] = schema.ANY_FLUID if stated is None else stated
    if fluid.drag:
        element = f"body {body!r}, drag"
        table["drag"] = [_kinded(schema.DRAGS, drag, element) for drag in fluid.drag]
    if fluid.fins:
        table["fin"] = [_fin(fin, body) for fin in fluid.fins]
    return table


def _fin(fin: Fin, body: str) -> dict[str, Any]:
    table = record_table(schema.FIN, fin)
    if fin.foil != ThinFoil():
        table["foil"] = Inline(_kinded(schema.FOILS, fin.foil, f"body {body!r}, foil"))
    return table


def _diagonal(matrix: Matrix6) -> list[float] | None:
    """Return the diagonal of a diagonal matrix, otherwise None."""
    rest = [x for i, row in enumerate(matrix) for j, x in enumerate(row) if i != j]
    # repr distinguishes 0.0 from -0.0
    return [matrix[i][i] for i in range(6)] if all(repr(x) == "0.0" for x in rest) else None


def _loop(loop: Closure) -> dict[str, Any]:
    table = _closed_loop(loop)
    return {**table, "may_start_open": True} if getattr(loop, "may_start_open", False) else table


def _closed_loop(loop: Closure) -> dict[str, Any]:
    if isinstance(loop, JointCoupling):
        table: dict[str, Any] = {"kind": "coupling", "name": loop.name, "joint": loop.joint}
        if loop.leader is not None:
            table["leader"] = loop.leader
        return {**table, "coefficients": list(loop.coefficients)}
    if not isinstance(loop, LoopClosure):
        return _traced_loop(loop)
    table = {"name": loop.name, "first": loop.first, "second": loop.second}
    table["joint"] = _joint(loop.joint)
    if loop.second_pose != Pose():
        table["second_pose"] = _pose(loop.second_pose)
    return table


def _traced_loop(loop: TracedClosure) -> dict[str, Any]:
    word = kind_of(schema.LOOPS, loop)
    if word is None:
        raise ModelError(
            f"loop {loop.name!r}: a function cannot be written to a file; save the robot without "
            "it, and add it again in code",
            name=loop.name,
        )
    table = {"kind": word, **record_table(schema.LOOPS[word], loop)}
    for key in ("joints", "leaders"):
        if names := getattr(loop, key, ()):
            table[key] = list(names)
    for key in ("pose", "second_pose"):
        if getattr(loop, key, Pose()) != Pose():
            table[key] = _pose(getattr(loop, key))
    return table


def _thruster(thruster: Thruster) -> dict[str, Any]:
    record = Record(Thruster, (*schema.THRUSTER, *schema.PAIRS))
    return {
        "name": thruster.name,
        "body": thruster.body,
        **record_table(record, thruster),
        "curve": Inline(_kinded(schema.CURVES, thruster.curve, f"thruster {thruster.name!r}")),
    }


def _actuator(actuator: Actuator) -> dict[str, Any]:
    record = Record(Actuator, schema.ACTUATOR, ("command",))
    table = {"name": actuator.name, "joint": actuator.joint, **record_table(record, actuator)}
    if actuator.motor is not None:
        table["motor"] = Inline(record_table(schema.MOTOR, actuator.motor))
    if actuator.servo is not None:
        servo = record_table(schema.SERVO, actuator.servo)
        if actuator.servo.set_points:
            servo["set_points"] = Inline(dict(actuator.servo.set_points))
        table["servo"] = Inline(servo)
    return table


MAX_COLUMNS = 100
"""Lists beyond this column are split after every item."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPECIAL = re.compile(r'[\x00-\x1f\x7f"\\]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class Inline(dict[str, Any]):
    """A table that is written inline."""


def toml_text(document: Mapping[str, Any]) -> str:
    """Format strings, numbers, lists, tables (dicts) and lists of tables as TOML, in order."""
    lines: list[str] = []
    _write_table(lines, "", document)
    return "\n".join(lines).lstrip("\n") + "\n"


def _write_table(lines: list[str], path: str, table: Mapping[str, Any]) -> None:
    """Write the values of a table, then its inner tables under their own headers."""
    inner = []
    for key, value in table.items():
        if _is_table(value) or _is_tables(value):
            inner.append((key, value))
        else:
            start = f"{_key(key)} = "
            lines.append(start + _value(value, len(start)))
    for key, value in inner:
        name = f"{path}.{_key(key)}" if path else _key(key)
        if _is_table(value):
            lines += [*_gap(path), f"[{name}]"]
            _write_table(lines, name, value)
        else:
            for item in value:
                lines += [*_gap(path), f"[[{name}]]"]
                _write_table(lines, name, item)


def _gap(path: str) -> list[str]:
    """Return an empty line before a table at the root."""
    return [] if path else [""]


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and not isinstance(value, Inline)


def _is_tables(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(map(_is_table, value))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Any, column: int) -> str:
    """Format a value that starts at a column."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _paragraph(value) if "\n" in value else _string(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Inline):
        items = ", ".join(f"{_key(k)} = {_flat(v)}" for k, v in value.items())
        return "{ " + items + " }" if items else "{}"
    return _list(value, column)


def _list(items: Sequence[Any], column: int) -> str:
    text = _flat(items)
    if column + len(text) <= MAX_COLUMNS or len(items) < 2:
        return text
    words = [_flat(item) + "," for item in items]
    rows = textwrap.wrap(" ".join(words), MAX_COLUMNS - 4) if _plain(items) else words
    return "[\n" + "".join(f"    {row}\n" for row in rows) + "]"


def _plain(items: Sequence[Any]) -> bool:
    """Return whether all items are numbers, which may be wrapped at any space."""
    return all(isinstance(item, (int, float)) for item in items)


def _flat(value: Any) -> str:
    """Format a value on one line."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return _value(value, 0)


def _paragraph(text: str) -> str:
    """Format a multi-line string; the first newline belongs to the quotes."""
    lines = [_string(line)[1:-1] for line in text.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""'


def _string(text: str) -> str:
    def escape(match: re.Match[str]) -> str:
        character = match.group()
        return _ESCAPES.get(character, f"\\u{ord(character):04x}")

    return '"' + _SPECIAL.sub(escape, text) + '"'
