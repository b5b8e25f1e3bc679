"""Water numbers for a whole robot, from the shapes of its bodies."""

from dataclasses import dataclass, field, replace

from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.hydro.coefficients import estimate_hydrodynamics
from tiburon.model import Body, BodyFluid, Model, Shape
from tiburon.model.value_checks import positive_density

__all__ = ["AddedHydrodynamics", "BodyHydrodynamics", "add_hydrodynamics"]


@dataclass(frozen=True)
class BodyHydrodynamics:
    """What became of one body."""

    body: str
    """Its name."""

    fluid: BodyFluid | None
    """The numbers it has now; None if it has none."""

    quality: dict[str, str] = field(default_factory=dict)
    """By name of the number ("volume", "added_mass", "added_moments", "drag"): "exact", "computed",
    "fitted" or "guessed"; empty where nothing was estimated."""

    reason: str = ""
    """Why nothing was estimated, where that is so."""

    remark: str = ""
    """How numbers of meshes came about, and what had to be mended."""


@dataclass(frozen=True)
class AddedHydrodynamics:
    """A robot ready for water, and how good its numbers are."""

    model: Model
    """The robot with its water numbers."""

    bodies: tuple[BodyHydrodynamics, ...]
    """What became of each body, in the order of the model."""


@public
def add_hydrodynamics(
    model: Model, density: float = 1025.0, *, overwrite: bool = False, panels: int = 1000
) -> AddedHydrodynamics:
    """Give every body of a robot the water numbers of its shapes.

    Collision shapes count where a body has any, else visual ones. Bodies without shapes, or with
    meshes that are not watertight, stay as they are, and the result says so: nothing is left out
    silently.

    Args:
        model: The robot.
        density: Of the water [kg/m^3], positive: the reference density of the estimates.
        overwrite: Whether to estimate also bodies that have water numbers.
        panels: How many to use for the added mass of a mesh, 20 to 4000.

    Raises:
        ModelError: If no body has water numbers afterwards.

    Example:
        ``tb.add_hydrodynamics(tb.load("arm.urdf")).model``
    """
    density = positive_density(density, "water numbers")
    found = tuple(_body_water(body, density, overwrite, panels) for body in model.bodies)
    if not any(entry.fluid for entry in found):
        reasons = "; ".join(f"{entry.body!r}: {entry.reason}" for entry in found[:4])
        raise ModelError(
            f"model {model.name!r}: no body has a shape that water numbers are known for ({reasons}"
            f"{'; ...' if len(found) > 4 else ''}); give bodies boxes, balls, cylinders, capsules, "
            "ellipsoids or watertight meshes, or fluid=BodyFluid(...)"
        )
    estimated = {entry.body: entry.fluid for entry in found if entry.quality}
    return AddedHydrodynamics(model.with_fluids(estimated), found)


def _body_water(body: Body, density: float, overwrite: bool, panels: int) -> BodyHydrodynamics:
    if body.fluid is not None and not overwrite:
        return BodyHydrodynamics(body.name, body.fluid, reason="has numbers of its own")
    shapes = _met_by_water(body.shapes)
    if not shapes:
        return BodyHydrodynamics(body.name, body.fluid, reason="has no shape")
    try:
        estimate = estimate_hydrodynamics(shapes, density, panels=panels)
    except ModelError as error:
        return BodyHydrodynamics(
            body.name, body.fluid, reason=str(error).removeprefix("water numbers: ")
        )
    remark = "; ".join(estimate.remarks)
    fluid = estimate.fluid
    if body.fluid is not None:
        # shapes tell nothing of fins: those a body has stay
        fluid = replace(fluid, fins=body.fluid.fins)
    return BodyHydrodynamics(body.name, fluid, estimate.quality, remark=remark)


def _met_by_water(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Return the shapes that stand for the body: the simpler ones are those for collisions."""
    solid = tuple(shape for shape in shapes if shape.role != "visual")
    return solid or shapes
