"""Forces from outside: given at named frames, used by the algorithms at plan bodies."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.sweep import outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.errors import OptionError, ShapeError, shown
from tiburon.functions.library import Options
from tiburon.model import Model, Plan, PlanBody
from tiburon.model.plan import WORLD_BODY, PlanFrame
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, cross, matrix_vector, transpose
from tiburon.trace.program import Input

__all__ = [
    "AXES",
    "check_by_name",
    "external_inputs",
    "external_options",
    "force_of_inertia",
    "forces_of_options",
    "forces_on_bodies",
    "given_forces",
    "inertia_options",
    "inertias_by_body",
    "with_given_inertias",
]

AXES = ("frame", "world")
"""In which axes external forces may be given."""

WRITE = "write external_force={'hand': (nx, ny, nz, fx, fy, fz)}"
WRITE_INERTIA = "write external_inertia={'hand': a 6 x 6 matrix}"


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


def check_by_name(argument: str, given: object) -> None:
    """Raise an error unless a call gives forces, or inertias, by name of a body or frame."""
    if given is None:
        return
    of_forces = argument == "external_force"
    expected = f"{'forces' if of_forces else 'matrices'} by name of a body or frame"
    advice = WRITE if of_forces else WRITE_INERTIA
    if not isinstance(given, Mapping):
        raise ShapeError(argument, expected, shown(given), advice=advice)
    for name in given:
        if not isinstance(name, str):
            raise ShapeError(argument, expected, f"the name {shown(name)}", advice=advice)


def external_inputs(model: Model, options: Options) -> list[Input]:
    """Return one input per frame that a force acts on.

    Raises:
        UnknownNameError: If the model has no such frame.
    """
    names = dict(options).get("external_force", ())
    for name in names:
        model.plan.frame(name)
    described = "6 (moment and force at the frame's origin)"
    forces = [Input(f"external_force[{name!r}]", (6,), described=described) for name in names]
    more = dict(options).get("external_inertia", ())
    for name in more:
        model.plan.frame(name)
    return [*forces, *(Input(f"external_inertia[{name!r}]", (6, 6)) for name in more)]


def inertia_options(external_inertia: Mapping[str, Any] | Sequence[str] | None) -> Options:
    """Return the options of code that takes inertias at some frames."""
    given: object = external_inertia
    if not (given is None or isinstance(given, (tuple, Mapping))):
        raise ShapeError(
            "external_inertia",
            "matrices by name of a body or frame",
            f"{given!r}",
            advice=WRITE_INERTIA,
        )
    names = tuple(external_inertia or ())
    return (("external_inertia", names),) if names else ()


class _GivenInertia(NamedTuple):
    """A force that goes with the acceleration of a frame."""

    frame: PlanFrame
    inertia: ArticulatedInertia


def _inertias(plan: Plan, options: Options, arrays: Sequence[Any]) -> list[_GivenInertia]:
    """Return the given inertias, from the arrays of `external_inputs`."""
    choices = dict(options)
    names = choices.get("external_inertia", ())
    found = []
    for name, matrix in zip(names, arrays[len(choices.get("external_force", ())) :], strict=True):
        frame, numbers = plan.frame(name), scalars(matrix)
        # the world does not accelerate
        if frame.body != WORLD_BODY:
            rows = [numbers[6 * i : 6 * i + 6] for i in range(6)]
            found.append(_GivenInertia(frame, ArticulatedInertia.from_rows(rows)))
    return found


def with_given_inertias(plan: Plan, options: Options, arrays: Sequence[Any]) -> Plan:
    """Return the plan with given inertias in what its bodies feel."""
    added = [body.added for body in plan.bodies]
    inertias = _inertias(plan, options, arrays)
    for frame, inertia in inertias:
        known, felt = added[frame.body], frame.transform.inertia_to_parent(inertia)
        added[frame.body] = felt if known is None else known + felt
    return plan.in_water(added) if inertias else plan


BodyInertias = tuple[tuple[Transform, ArticulatedInertia], ...]
"""Inertias given at frames of one plan body, with the maps of motion to these frames."""


def inertias_by_body(
    plan: Plan, options: Options, arrays: Sequence[Any]
) -> tuple[BodyInertias, ...]:
    """Return the given inertias of each plan body."""
    found: list[BodyInertias] = [() for _ in plan.bodies]
    for frame, inertia in _inertias(plan, options, arrays):
        found[frame.body] = (*found[frame.body], (frame.transform, inertia))
    return tuple(found)


def force_of_inertia(X: Transform, inertia: ArticulatedInertia, w: Vec3, g: Vec3) -> Force:
    """Return the share of -A a of a given inertia that body accelerations do not cover.

    Args:
        X: Map of motion from the plan frame to the frame of the inertia.
        inertia: A.
        w: Angular velocity, plan axes [rad/s].
        g: Acceleration of free fall, plan axes [m/s^2].
    """
    a = X.direction(add(g, cross(w, cross(w, X.translation))))
    return X.force_to_parent(-inertia.apply(Motion(ZERO3, a)))


class _Turning(NamedTuple):
    """Angular velocity of a body, and gravity in its axes."""

    w: Vec3
    g: Vec3


def _forces_of_inertias(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    gravity: Vec3,
    inertias: Sequence[_GivenInertia],
) -> list[tuple[int, Force]]:
    """Return what is left of -A a where the acceleration of bodies has taken its share.

    Recursions work with accelerations less that of free fall, at the origins of plan frames; a
    point beyond moves on a circle around them.
    """

    def turn(body: PlanBody, parent: _Turning) -> _Turning:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        return _Turning(add(X.direction(parent.w), vJ.angular), X.direction(parent.g))

    turning = outward(plan, turn, _Turning(ZERO3, gravity))
    found = []
    for frame, inertia in inertias:
        force = force_of_inertia(frame.transform, inertia, *turning[frame.body])
        found.append((frame.body, force))
    return found


def given_forces(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    gravity: Vec3,
    options: Options,
    arrays: Sequence[Any],
) -> tuple[Force, ...] | None:
    """Return the force on each plan body, from the arrays of `external_inputs`."""
    found = forces_of_options(plan, q, options, arrays)
    inertias = _inertias(plan, options, arrays)
    if not inertias:
        return found
    forces = list(found or (Force.zero() for _ in plan.bodies))
    for body, f in _forces_of_inertias(plan, q, v, gravity, inertias):
        forces[body] = forces[body] + f
    return tuple(forces)


def forces_of_options(
    plan: Plan, q: Sequence[Scalar], options: Options, arrays: Sequence[Any]
) -> tuple[Force, ...] | None:
    """Return the given force on each plan body, without those of given inertias."""
    choices = dict(options)
    names = choices.get("external_force", ())
    given = {name: scalars(x) for name, x in zip(names, arrays[: len(names)], strict=True)}
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
