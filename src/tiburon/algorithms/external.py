"""Forces from outside: given at named frames, used by the algorithms at plan bodies."""

from collections.abc import Mapping, Sequence
from typing import Any

from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.library import Options, scalars
from tiburon.errors import OptionError, ShapeError
from tiburon.model import Model, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar, Transform
from tiburon.spatial.vec3 import matrix_vector, transpose
from tiburon.trace.program import Input

__all__ = ["AXES", "external_inputs", "external_options", "forces_on_bodies", "given_forces"]

AXES = ("frame", "world")
"""In which axes external forces may be given."""

WRITE = "write external_force={'hand': (nx, ny, nz, fx, fy, fz)}"


def external_options(
    external_force: Mapping[str, Any] | Sequence[str] | str | None, axes: str
) -> Options:
    """Return the options of code that takes forces at some frames, in some axes."""
    if axes not in AXES:
        raise OptionError("external_axes", AXES, axes)
    given: object = external_force
    if not (given is None or isinstance(given, (str, tuple, Mapping))):
        raise ShapeError(
            "external_force", "forces by name of a body or frame", f"{given!r}", advice=WRITE
        )
    names = (external_force,) if isinstance(external_force, str) else tuple(external_force or ())
    return (("external_force", names), ("external_axes", axes)) if names else ()


def external_inputs(model: Model, options: Options) -> list[Input]:
    """Return one input per frame that a force acts on.

    Raises:
        UnknownNameError: If the model has no such frame.
    """
    names = dict(options).get("external_force", ())
    for name in names:
        model.plan.frame(name)
    described = "6 (moment and force at the frame's origin)"
    return [Input(f"external_force[{name!r}]", (6,), described=described) for name in names]


def given_forces(
    plan: Plan, q: Sequence[Scalar], options: Options, wrenches: Sequence[Any]
) -> tuple[Force, ...] | None:
    """Return the force on each plan body, from the arrays of `external_inputs`."""
    choices = dict(options)
    names = choices.get("external_force", ())
    given = {name: scalars(wrench) for name, wrench in zip(names, wrenches, strict=True)}
    return forces_on_bodies(plan, q, given, choices.get("external_axes", "frame"))


def forces_on_bodies(
    plan: Plan, q: Sequence[Scalar], wrenches: Mapping[str, Sequence[Scalar]], axes: str
) -> tuple[Force, ...] | None:
    """Add up the forces on each plan body.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        wrenches: By frame name, [n; f] at the frame's origin [N m, N].
        axes: "frame" if the numbers are in the frame's own axes, "world" if in world axes.

    Returns:
        The force on each plan body in its frame; None if there is no force at all.
    """
    if not wrenches:
        return None
    forces = [Force.zero() for _ in plan.bodies]
    places = frame_places(plan, q, tuple(wrenches)) if axes == "world" else None
    for number, (name, wrench) in enumerate(wrenches.items()):
        frame = plan.frame(name)
        # what acts on the world moves nothing
        if frame.body == WORLD_BODY:
            continue
        force = Force.from_array(tuple(wrench))
        if places is not None:
            R = transpose(places[number].R)
            force = Force(matrix_vector(R, force.moment), matrix_vector(R, force.force))
        to_body: Transform = frame.transform
        forces[frame.body] = forces[frame.body] + to_body.force_to_parent(force)
    return tuple(forces)
