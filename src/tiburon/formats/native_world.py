"""The table [world] of a native file: the surroundings a robot is meant for.

A robot is loaded without its world; `load_world` reads it from the same file.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.native_read import check_version, read_material, read_values
from tiburon.formats.native_schema import Record
from tiburon.formats.native_write import material_table, record_table
from tiburon.formats.toml_table import Table, parse_toml
from tiburon.model.contact_kinds import MATERIAL
from tiburon.model.water import Water
from tiburon.model.world import Ground, GroundGrid, GroundPatch, World

GRID = Record(GroundGrid, ("spacing", "heights", "origin"))
GROUND = Record(Ground, ("height", *MATERIAL, "contact_bits"), ("friction_rule",))
WATER = Record(Water, ("density", "viscosity", "surface"))
PATCH = Record(GroundPatch, ("lower", "upper"), ("name",))


def read_native_world(path: str | Path, package_paths: Iterable[str | Path] = ()) -> World:
    """Read the world of a native file.

    Args:
        path: The file.
        package_paths: Not used: a world has no meshes.

    Raises:
        ModelFileError: If the file is invalid, or has no world.
    """
    root = parse_toml(read_bytes(Path(path)), Budget(str(path)))
    check_version(root)
    table = root.table("world")
    if table is None:
        raise ModelFileError(
            str(path), "has no table [world]; write World(gravity=..., ground=...) instead"
        )
    return read_world(table)


def read_world(table: Table) -> World:
    """Return the world that a table describes."""
    values: dict[str, Any] = read_values(Record(World, ("gravity",)), table)
    ground = table.table("ground")
    if ground is not None:
        values["ground"] = _read_ground(ground)
    water = table.table("water")
    if water is not None:
        given = read_values(WATER, water)
        current = water.numbers("current")
        if current is not None:
            given["current"] = current
        water.finish()
        values["fluid"] = water.build(Water, **given)
    table.finish()
    return table.build(World, **values)


def _read_ground(table: Table) -> Ground:
    values = read_values(GROUND, table)
    grid = table.table("grid")
    if grid is not None:
        given = read_values(GRID, grid)
        smooth = grid.get("smooth")
        if smooth not in (None, True, False):
            grid.fail(f"smooth must be true or false, got {smooth!r}", "smooth")
        grid.finish()
        values["grid"] = grid.build(GroundGrid, smooth=bool(smooth), **given)
    patches = []
    for patch in table.tables("patch"):
        given = read_values(PATCH, patch)
        given["material"] = read_material(patch)
        patch.finish()
        patches.append(patch.build(GroundPatch, **given))
    values["patches"] = tuple(patches)
    table.finish()
    return table.build(Ground, **values)


def world_table(world: World) -> dict[str, Any]:
    """Return the table of a world.

    Raises:
        ModelError: If its water differs between cases, or its current is code.
    """
    table: dict[str, Any] = {"gravity": list(world.gravity)}
    ground, fluid = world.ground, world.fluid
    if ground is not None:
        table["ground"] = record_table(GROUND, ground)
        if ground.kinetic_friction == ground.static_friction:
            table["ground"].pop("kinetic_friction", None)
        if ground.grid is not None:
            smooth = {"smooth": True} if ground.grid.smooth else {}
            table["ground"]["grid"] = {**record_table(GRID, ground.grid), **smooth}
        if ground.patches:
            table["ground"]["patch"] = [
                {**record_table(PATCH, patch), **material_table(patch.material)}
                for patch in ground.patches
            ]
    if fluid is not None:
        if fluid.cases is not None or not isinstance(fluid.current, tuple):
            raise ModelError(
                "world: a file holds water with a constant current, one for all cases, got "
                f"{fluid.current!r}; build this world in Python"
            )
        if fluid.strips != Water().strips or fluid.split_strips:
            raise ModelError(
                "world: a file holds water with the usual strips of cylinders, got "
                f"{fluid.strips}; build this world in Python"
            )
        table["water"] = {"density": fluid.density, **record_table(WATER, fluid)}
        if any(fluid.current):
            table["water"]["current"] = list(fluid.current)
    return table
