"""Hydrodynamic numbers of links in DynaMechs files (McMillan, Orin and McGhee 1995).

Six-by-six matrices have angular rows first, about the link's origin. Drag acts on a cylinder along
one of the link's axes, strip by strip across it and by the area of its ends along it.
"""

from tiburon.formats.dynamechs_blocks import Block
from tiburon.model import BodyFluid, CylinderDrag, added_mass_from
from tiburon.model.numbers import Vec3

AXES: tuple[Vec3, Vec3, Vec3] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
"""Axes of a link by their number in the file."""


def read_fluid(block: Block) -> BodyFluid | None:
    """Return the hydrodynamic fields, which only files for water have."""
    if not any(block.has(label) for label in ("Volume", "Added_Mass", "Drag_Axis")):
        return None
    added = block.numbers("Added_Mass", 36) if block.has("Added_Mass") else [0.0] * 36
    x, y, z = (
        block.numbers("Center_of_Buoyancy", 3) if block.has("Center_of_Buoyancy") else (0.0,) * 3
    )
    matrix = added_mass_from([added[i : i + 6] for i in range(0, 36, 6)], order="angular-first")
    drag, quadratic = _drag(block)
    return BodyFluid(
        volume=block.number("Volume", 0.0),
        center_of_buoyancy=(x, y, z),
        added_mass=matrix if any(added) else None,  # type: ignore[arg-type]
        drag=drag,
        quadratic_damping=quadratic,  # type: ignore[arg-type]
        # the density is in another file, and DynaMechs takes the matrix as it stands in any fluid
        reference_density=None,
    )


def _drag(block: Block) -> tuple[tuple[CylinderDrag, ...], tuple[float, ...] | None]:
    """Return the cylinder on which drag acts, or the coefficients of old files that have none."""
    if not block.has("Drag_Axis"):
        return (), None
    axis = block.whole("Drag_Axis")
    if axis == -1:
        return (), tuple(block.numbers("Drag_Coefficients", 6))
    if axis not in (0, 1, 2):
        block.fail(f"Drag_Axis must be 0, 1 or 2 for x, y, z, got {axis}; correct it")
    low, high = block.numbers("Cylinder_Bounds", 2)
    radius, coefficient = block.number("Cylinder_Radius"), block.number("Drag_Coefficient")
    if coefficient == 0.0:
        return (), None
    x, y, z = (low * u for u in AXES[axis])
    cylinder = CylinderDrag(
        radius, high - low, (x, y, z), AXES[axis], coefficient, (coefficient, coefficient)
    )
    return (cylinder,), None
