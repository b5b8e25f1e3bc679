"""Environment files of DynaMechs: gravity, ground and water."""

from collections.abc import Iterable
from pathlib import Path

from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.dynamechs_blocks import Block, parse_blocks
from tiburon.formats.lenient import Findings
from tiburon.formats.limits import Budget, read_bytes
from tiburon.model import Ground, GroundGrid, Water, World

GRID_POINTS = 1_000_000
"""Most heights of uneven ground."""

_GROUND = {
    "planar_stiffness": "Ground_Planar_Spring_Constant",
    "normal_stiffness": "Ground_Normal_Spring_Constant",
    "planar_damping": "Ground_Planar_Damper_Constant",
    "normal_damping": "Ground_Normal_Damper_Constant",
    "static_friction": "Ground_Static_Friction_Coeff",
    "kinetic_friction": "Ground_Kinetic_Friction_Coeff",
}
"""Our numbers of the ground, and their labels."""


def read_dynamechs_world(path: Path, package_paths: Iterable[str | Path] = ()) -> World:
    """Read the surroundings from a DynaMechs environment file.

    Args:
        path: The file.
        package_paths: Folders beside the file's own in which the heights of the ground may lie.

    Raises:
        ModelFileError: If the file cannot be read; the message names file, line and cure.

    Warns:
        ModelWarning: If a label is unknown.
    """
    budget = Budget(str(path))
    block = parse_blocks(read_bytes(path), budget)
    findings = Findings(budget.file)
    x, y, z = block.numbers("Gravity_Vector", 3)
    try:
        ground = _ground(block, path, package_paths)
        fluid = Water(density) if (density := block.number("Fluid_Density", 0.0)) else None
        world = World(gravity=(x, y, z), ground=ground, fluid=fluid)
    except ModelFileError:
        raise
    except ModelError as error:
        raise ModelFileError(budget.file, str(error)) from error
    if ground is not None and ground.kinetic_friction > ground.static_friction:
        findings.add("kinetic friction is larger than static friction; are they swapped?")
    for label, line in block.unused():
        findings.add(f"skipped the unknown label {label!r}", line)
    findings.warn()
    return world


def _ground(block: Block, path: Path, package_paths: Iterable[str | Path]) -> Ground | None:
    numbers = {ours: block.number(label, 0.0) for ours, label in _GROUND.items()}
    grid = None
    if block.has("Terrain_Data_Filename"):
        grid = _grid(block, path, package_paths)
    if grid is None and not any(block.has(label) for label in _GROUND.values()):
        return None
    return Ground(grid=grid, **numbers)


def _grid(block: Block, path: Path, package_paths: Iterable[str | Path]) -> GroundGrid | None:
    """Read the heights from their own file: how many along x and y, their distance, then rows."""
    label = "Terrain_Data_Filename"
    name, line = block.text(label), block.labels[label].line
    if not name:
        return None
    folders = [path.parent.resolve(), *(Path(p).resolve() for p in package_paths)]
    try:
        # a name may count from a folder given beside the file's own
        places = [(folder / name.replace("\\", "/")).resolve() for folder in folders]
        inside = [p for p in places if any(p.is_relative_to(f) for f in folders)]
        found = next((p for p in inside if p.is_file()), None)
    except (OSError, ValueError, RuntimeError) as error:
        block.fail(f"{label} {name[:60]!r} is no path ({error}); correct it", line)
    if found is None:
        block.fail(
            f"{label} must name a file in the folder of this one or in package_paths, got "
            f"{name!r}; load it with package_paths=[...] naming a folder that holds it",
            line,
        )
    budget = Budget(str(found))
    words = read_bytes(found).split()
    try:
        rows, columns = int(words[0]), int(words[1])
        if rows < 0 or columns < 0 or rows * columns > GRID_POINTS:
            raise ModelFileError(
                budget.file,
                f"a ground may have {GRID_POINTS} heights, got {rows} x {columns}; make it coarser",
                line=1,
            )
        spacing, *heights = (float(word) for word in words[2 : 3 + rows * columns])
    except (ValueError, IndexError) as error:
        raise ModelFileError(
            budget.file,
            "expected two counts, a distance and the heights, all numbers; correct the file",
        ) from error
    if len(heights) != rows * columns:
        raise ModelFileError(
            budget.file,
            f"expected {rows} x {columns} heights, got {len(heights)}; add what is missing",
        )
    table = tuple(tuple(heights[i : i + columns]) for i in range(0, len(heights), columns or 1))
    try:
        return GroundGrid((spacing, spacing), table)
    except ModelError as error:
        raise ModelFileError(budget.file, str(error)) from error
