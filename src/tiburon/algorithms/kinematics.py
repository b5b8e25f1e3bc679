"""Poses, velocities, accelerations and Jacobians of frames.

Motions and Jacobians of a frame refer to a point and are expressed in axes, both given by the
options "at" and "axes".

Symbols (Featherstone 1987, chapters 2, 4 and 5):
    X           map of motion from the parent's frame to the body's
    R, p        axes and origin of a body or frame in the world
    vel, acc    spatial velocity and acceleration of a body or frame, in its own axes at its origin
    vJ          velocity of a body relative to its parent
    S           motion subspace of a joint, its columns in body coordinates
    J           Jacobian: motion of a frame = J v
    P           point at which the linear part is taken
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tiburon.algorithms.traversal import outward, path, to_root
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Mat3, Motion, Scalar, Scalars, Transform, Vec3, spatial_to_classical
from tiburon.spatial.vec3 import (
    ZERO3,
    add,
    add_cross,
    add_matrix_vector,
    matrix_vector,
    negate,
    subtract,
    transpose_vector,
)
from tiburon.trace.array import as_traced

if TYPE_CHECKING:
    from tiburon.algorithms.setting import Options, Setting


def chosen_frames(setting: "Setting") -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the frames of a call, and the leading shape of its result."""
    frames = dict(setting.options).get("frames", setting.model.frame_names[1:])
    return ((frames,), ()) if isinstance(frames, str) else (frames, (len(frames),))


class Place(NamedTuple):
    """Pose of a frame in the world."""

    R: Mat3
    """Rotation matrix from the frame's axes to world axes: its columns are the frame's axes."""

    p: Vec3
    """Origin of the frame, world axes [m]."""

    def moved(self, X: Transform) -> "Place":
        """Return the pose of a frame given by a motion transform from this one.

        Featherstone 1987, eq. 2.17: rotations multiply, and origins add in world axes.
        """
        rows = tuple(X.direction(row) for row in self.R)
        (x, y, z), (px, py, pz) = X.translation, self.p
        a, b, c = self.R
        origin = (
            px + a[0] * x + a[1] * y + a[2] * z,
            py + b[0] * x + b[1] * y + b[2] * z,
            pz + c[0] * x + c[1] * y + c[2] * z,
        )
        return Place((rows[0], rows[1], rows[2]), origin)


WORLD_PLACE = Place(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), (0.0, 0.0, 0.0))
"""Pose of the world frame."""


def body_places(
    plan: Plan, q: Scalars, *, lanes: bool = False, world: Place = WORLD_PLACE
) -> tuple[Place, ...]:
    """Compute the pose of every plan body in the world; like branches side by side in lanes."""

    def visit(body: PlanBody, parent: Place) -> Place:
        return parent.moved(body.transform(q[body.q]))

    return outward(plan, visit, world, lanes=lanes)


def body_steps(plan: Plan, q: Scalars) -> tuple[Place, ...]:
    """Compute the axes of every plan body, and its origin from that of its parent, world axes."""

    def visit(body: PlanBody, parent: Place) -> Place:
        return Place(parent.R, ZERO3).moved(body.transform(q[body.q]))

    return outward(plan, visit, WORLD_PLACE)


def frame_places(
    plan: Plan, q: Scalars, frames: Sequence[str], *, world: Place = WORLD_PLACE
) -> tuple[Place, ...]:
    """Compute the poses of bodies or frames (or "world") by name."""
    bodies = body_places(plan, q, world=world)
    found = []
    for name in frames:
        frame = plan.frame(name)
        carrier = world if frame.body == WORLD_BODY else bodies[frame.body]
        found.append(carrier.moved(frame.transform))
    return tuple(found)


def world_from_robot(plan: Plan, q: Scalars, near: int = WORLD_BODY) -> Place:
    """Return the world as seen from a body of the robot: world axes, positions from its origin.

    Differences of positions in the world lose the digits of the distance from its origin. What
    depends on differences alone is computed from poses that start here.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        near: Index of a plan body of the tree; that of the world for any tree. The body is the
            first one of the tree that has mass: x, y and z slides before it may be far away.
    """
    place = WORLD_PLACE
    for index in reversed(_way_to_mass(plan, near)):
        body = plan.bodies[index]
        place = place.moved(body.transform(q[body.q]))
    return Place(WORLD_PLACE.R, negate(place.p))


def _way_to_mass(plan: Plan, near: int) -> list[int]:
    """Return the first body with mass, in the tree of a body or in any, and its ancestors."""
    root = path(plan, near)[-1:]
    for body in plan.bodies:
        way, mass = path(plan, body.index), body.inertia.mass
        # a traced mass is a parameter
        if way[-1:] == (root or way[-1:]) and not (isinstance(mass, float) and mass == 0.0):
            return way
    return []


class Reference(NamedTuple):
    """The point at which the motion of one frame is taken."""

    offset: Vec3
    """From the frame's origin to the point, frame axes [m]."""

    rate: Vec3 | None
    """Velocity of the point in the world, frame axes [m/s]; None if it moves with the frame."""


def references(
    plan: Plan,
    q: Scalars,
    v: Scalars | None,
    places: Sequence[Place],
    options: "Options",
    given: Sequence[Scalars],
) -> tuple[Reference, ...]:
    """Compute the reference point of each frame.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity, nv scalars; None if the point's own velocity is not used.
        places: Poses of the frames, with the world of `seen_from`.
        options: With the choice of the point ("at").
        given: The point, for at="point".
    """
    at = dict(options).get("at", "frame")
    if at == "frame":
        return tuple(Reference(ZERO3, None) for _ in places)
    if at == "point":
        x, y, z = given[0]
        return tuple(Reference((x, y, z), None) for _ in places)
    if at == "world":
        return tuple(Reference(negate(transpose_vector(f.R, f.p)), ZERO3) for f in places)
    from tiburon.algorithms.momentum import mass_point, mass_velocity

    mass, c = mass_point(plan, q, world_from_robot(plan, q))
    rate = ZERO3 if v is None else mass_velocity(plan, q, v, mass)
    return tuple(
        Reference(transpose_vector(f.R, subtract(c, f.p)), transpose_vector(f.R, rate))
        for f in places
    )


def seen_from(plan: Plan, q: Scalars, options: "Options") -> Place:
    """Return the world for motions: its own origin enters those at "world" alone."""
    at_world = dict(options).get("at", "frame") == "world"
    return WORLD_PLACE if at_world else world_from_robot(plan, q)


def expressed(m: Motion, place: Place, options: "Options") -> Motion:
    """Return a motion given in frame axes in the axes of the options; the point stays."""
    if dict(options).get("axes", "world") == "frame":
        return m
    return Motion(matrix_vector(place.R, m.angular), matrix_vector(place.R, m.linear))


class Moving(NamedTuple):
    """Motion of a body or frame, in its own axes at its own origin."""

    vel: Motion
    """Spatial velocity [rad/s, m/s]."""

    acc: Motion
    """Spatial acceleration [rad/s^2, m/s^2], without gravity."""


_REST = Moving(Motion.zero(), Motion.zero())


def body_motions(
    plan: Plan, q: Scalars, v: Scalars, vd: Scalars | None, *, lanes: bool = False
) -> tuple[Moving, ...]:
    """Compute velocity and acceleration of every plan body (Featherstone 1987, 4.11, 4.12, 7.10).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars; zero if None.
        lanes: Whether like branches are computed side by side.
    """

    def visit(body: PlanBody, parent: Moving) -> Moving:
        joint, position, rate = body.joint, q[body.q], v[body.v]
        X = body.transform(position)
        vJ = joint.velocity(position, rate)
        vel = X.motion(parent.vel) + vJ
        acc = X.motion(parent.acc) + vel.cross(vJ) + joint.bias(position, rate)
        return Moving(vel, acc if vd is None else acc + joint.motion(position, vd[body.v]))

    return outward(plan, visit, _REST, lanes=lanes)


def frame_motions(
    plan: Plan, q: Scalars, v: Scalars, vd: Scalars | None, frames: Sequence[str]
) -> tuple[Moving, ...]:
    """Compute the motion of frames by name, frame axes at the origin, as `body_motions` does."""
    bodies = body_motions(plan, q, v, vd)
    found = []
    for name in frames:
        frame = plan.frame(name)
        carrier = _REST if frame.body == WORLD_BODY else bodies[frame.body]
        X = frame.transform
        found.append(Moving(X.motion(carrier.vel), X.motion(carrier.acc)))
    return tuple(found)


def moved_to(m: Motion, offset: Vec3) -> Motion:
    """Return a motion with its linear part at another point, same axes (eq. 2.1)."""
    return Motion(m.angular, m.at_point(offset))


def expressed_motions(
    setting: "Setting", q: Scalars, v: Scalars, vd: Scalars | None, *point: Scalars
) -> Any:
    """Compute velocities of frames, or accelerations if vd is given.

    Args:
        setting: Model, plan and options: frames, point and axes, kind of acceleration.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars; None for velocities.
        *point: The point, for at="point".
    """
    plan, options = setting.plan, setting.options
    names, shape = chosen_frames(setting)
    places = frame_places(plan, q, names, world=seen_from(plan, q, options))
    values: list[Scalar] = []
    for moving, place, reference in zip(
        frame_motions(plan, q, v, vd, names),
        places,
        references(plan, q, None, places, options, point),
        strict=True,
    ):
        motion = moved_to(moving.vel, reference.offset)
        if vd is not None:
            acceleration = moved_to(moving.acc, reference.offset)
            classical = dict(options).get("kind", "classical") == "classical"
            motion = spatial_to_classical(acceleration, motion) if classical else acceleration
        values.extend(expressed(motion, place, options))
    return as_traced(values).reshape(*shape, 6)


def jacobian_columns(
    plan: Plan,
    q: Scalars,
    places: Sequence[Place],
    body: int,
    point: Vec3,
    locked: frozenset[int] = frozenset(),
    *,
    stepwise: bool = False,
) -> dict[int, Motion]:
    """Compute the columns of the Jacobian of a body at a point, by velocity variable.

    Each column is the joint axis S (Featherstone 1987, eq. 4.6; Nahon 1991, eqs. 3.16a and b).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        places: Poses of all plan bodies.
        body: Index of the plan body, or that of the world.
        point: P, world axes [m].
        locked: Indices of plan bodies whose joints are locked.
        stepwise: Whether `places` are those of `body_steps`, and P is seen from the body's origin:
            arms are then sums of steps, which keep their digits far from the world's origin.

    Returns:
        Columns in world axes, by index of the velocity variables that move the body.
    """

    def visit(joined: PlanBody, P: Vec3, place: Place) -> tuple[list[Motion], Vec3]:
        arm = P if stepwise else subtract(P, place.p)
        columns = []
        for S in joined.joint.subspace(q[joined.q]):
            angular = matrix_vector(place.R, S.angular)
            linear = add_cross(matrix_vector(place.R, S.linear), angular, arm)
            columns.append(Motion(angular, linear))
        return columns, add(P, place.p) if stepwise else P

    if body == WORLD_BODY:
        return {}
    found: dict[int, Motion] = {}
    for joined, columns in to_root(plan, plan.bodies[body], visit, point, places):
        if joined.index in locked:
            continue
        for index, column in enumerate(columns, start=joined.v.start):
            # coupled joints share the variable of their leader
            found[index] = found[index] + column if index in found else column
    return found


def expressed_jacobians(setting: "Setting", q: Scalars, *point: Scalars) -> Any:
    """Compute the Jacobians of frames.

    Args:
        setting: Model, plan and options: frames, point and axes.
        q: Configuration [m or rad], nq scalars.
        *point: The point, for at="point".
    """
    plan, options = setting.plan, setting.options
    names, shape = chosen_frames(setting)
    bodies = body_steps(plan, q)
    frames = frame_places(plan, q, names, world=seen_from(plan, q, options))
    in_frame = dict(options).get("axes", "world") == "frame"
    values: list[Scalar] = []
    for name, place, reference in zip(
        names, frames, references(plan, q, None, frames, options, point), strict=True
    ):
        frame = plan.frame(name)
        here = Place(bodies[frame.body].R if frame.body >= 0 else place.R, ZERO3)
        P = add_matrix_vector(here.moved(frame.transform).p, place.R, reference.offset)
        columns = jacobian_columns(plan, q, bodies, frame.body, P, stepwise=True)
        if in_frame:
            columns = {index: _turned(place, column) for index, column in columns.items()}
        dense = [columns.get(index, Motion.zero()) for index in range(plan.nv)]
        values.extend(x for row in zip(*dense, strict=True) for x in row)
    return as_traced(values).reshape(*shape, 6, plan.nv)


def _turned(place: Place, column: Motion) -> Motion:
    """Return a motion given in world axes in frame axes; the point stays."""
    return Motion(
        transpose_vector(place.R, column.angular), transpose_vector(place.R, column.linear)
    )


def expressed_jacobian_biases(setting: "Setting", q: Scalars, v: Scalars, *point: Scalars) -> Any:
    """Compute dJ/dt v of frames.

    Args:
        setting: Model, plan and options: frames, point and axes.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        *point: The point, for at="point".
    """
    plan, options = setting.plan, setting.options
    names, shape = chosen_frames(setting)
    frames = frame_places(plan, q, names, world=seen_from(plan, q, options))
    in_frame = dict(options).get("axes", "world") == "frame"
    values: list[Scalar] = []
    for moving, place, reference in zip(
        frame_motions(plan, q, v, None, names),
        frames,
        references(plan, q, v, frames, options, point),
        strict=True,
    ):
        vel = moved_to(moving.vel, reference.offset)
        acc = moved_to(moving.acc, reference.offset)
        omega = vel.angular
        # v_P = v_O + omega x P: a moving point adds omega x (its velocity)
        drift = vel.linear if reference.rate is None else reference.rate
        # in rotating axes the derivative lacks omega x v_P
        seen = subtract(drift, vel.linear) if in_frame else drift
        rate = Motion(acc.angular, add_cross(acc.linear, omega, seen))
        values.extend(expressed(rate, place, options))
    return as_traced(values).reshape(*shape, 6)
