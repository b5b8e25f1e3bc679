"""At which point, and in which axes, the motion of a frame is told.

A frame is carried by a body. The linear part of the body's motion differs from point to point, so
every function that gives one takes `at=` and `axes=`; this file gives them one meaning.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from tiburon.algorithms.center_of_mass import mass_point, mass_velocity
from tiburon.algorithms.kinematics import Place, frame_options
from tiburon.algorithms.tape_calls import scalars
from tiburon.errors import OptionError
from tiburon.functions.library import INERTIA, Options
from tiburon.model import Plan
from tiburon.spatial import Motion, Scalar, Vec3
from tiburon.spatial.vec3 import (
    ZERO3,
    add_matrix_vector,
    matrix_vector,
    negate,
    subtract,
    transpose_vector,
)
from tiburon.trace.program import Input

__all__ = [
    "AXES",
    "PARAMETERS",
    "POINTS",
    "Reference",
    "expressed",
    "point_in_world",
    "point_inputs",
    "point_options",
    "references",
    "told_options",
]

AXES = ("world", "frame")
"""In which axes motions may be told."""

POINTS = ("frame", "world", "com")
"""Where the linear part may be taken, beside a given point."""

_GIVEN = "point"

PARAMETERS = (INERTIA,)
"""The center of mass depends on inertial numbers."""


class Reference(NamedTuple):
    """The point at which the motion of one frame is told."""

    offset: Vec3
    """From the frame's origin to the point, frame axes [m]."""

    rate: Vec3 | None
    """Velocity of the point in the world, frame axes [m/s]; None if it moves with the frame."""


def told_options(
    frames: str | Sequence[str] | None, at: str | ArrayLike, axes: str
) -> tuple[Options, tuple[Any, ...]]:
    """Check `at` and `axes`; return the options of code, and the arguments a given point adds."""
    if axes not in AXES:
        raise OptionError("axes", AXES, axes)
    if isinstance(at, str):
        if at not in POINTS:
            raise OptionError("at", (*POINTS, "three numbers"), at)
        return (*frame_options(frames), *point_options(at, axes)), ()
    return (*frame_options(frames), *point_options(_GIVEN, axes)), (at,)


def point_options(at: str, axes: str) -> Options:
    """Return the options that differ from the default: at the frame's origin, in world axes."""
    found: Options = ()
    if at != "frame":
        found += (("at", at),)
    if axes != "world":
        found += (("axes", axes),)
    return found


def point_inputs(options: Options) -> list[Input]:
    """Return the input of a given point, if there is one."""
    if dict(options).get("at") != _GIVEN:
        return []
    return [Input("at", (3,), described="3 (a point in the frame's axes)")]


def references(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar] | None,
    places: Sequence[Place],
    options: Options,
    given: Sequence[Any],
) -> tuple[Reference, ...]:
    """Find the point at which the motion of each frame is told.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity, nv scalars; None where nobody asks for the point's own velocity.
        places: The frames in the world.
        options: From `told_options`.
        given: Arrays of `point_inputs`.
    """
    at = dict(options).get("at", "frame")
    if at == "frame":
        return tuple(Reference(ZERO3, None) for _ in places)
    if at == _GIVEN:
        x, y, z = scalars(given[0])
        return tuple(Reference((x, y, z), None) for _ in places)
    if at == "world":
        return tuple(Reference(negate(transpose_vector(f.R, f.p)), ZERO3) for f in places)
    mass, c = mass_point(plan, q)
    rate = ZERO3 if v is None else mass_velocity(plan, q, v, mass)
    return tuple(
        Reference(transpose_vector(f.R, subtract(c, f.p)), transpose_vector(f.R, rate))
        for f in places
    )


def expressed(m: Motion, place: Place, options: Options) -> Motion:
    """Return a motion given in frame axes in the axes asked for; the point stays."""
    if dict(options).get("axes", "world") == "frame":
        return m
    return Motion(matrix_vector(place.R, m.angular), matrix_vector(place.R, m.linear))


def point_in_world(place: Place, reference: Reference) -> Vec3:
    """Return the point itself, world axes [m]."""
    return add_matrix_vector(place.p, place.R, reference.offset)
