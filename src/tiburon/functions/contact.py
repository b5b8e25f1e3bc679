"""Contact for users: gaps of a configuration, impact, and how to leave a penetration."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD, at_time
from tiburon.argument_checks import choice, is_number, positive, vector
from tiburon.arguments import caller_level, public
from tiburon.arrays import Array, ArrayLike
from tiburon.contact.candidates import (
    Candidate,
    candidates_of,
    driven_joints,
    kept,
    number_count,
    numbers_of,
    refuse_meshes,
    refuse_prescribed,
)
from tiburon.contact.geometry.contact_geometry import NO_CONTACT
from tiburon.errors import DomainError, ModelError, ModelWarning, UnknownNameError, shown
from tiburon.functions.keywords import MODEL_CALL, WORLD_CALL
from tiburon.functions.library import (
    GEOMETRY,
    INERTIA,
    LibraryFunction,
    check_places,
    closure_options,
    inputs_of,
    library_function,
)
from tiburon.functions.parameters import (
    CaseRows,
    dynamics_parameters,
    geometry_of,
    lead_of,
    model_of_case,
    surfaces_by_name,
    vary,
)
from tiburon.model import WORLD, ContactPair, Model, TracedClosure, World
from tiburon.model.configuration import as_batch
from tiburon.model.contact_kinds import contact_kind
from tiburon.model.parameters import PLACEMENT, Parameter, plain, read_values, with_value
from tiburon.spatial import Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

if TYPE_CHECKING:
    from tiburon.contact.meshes import LocatedPairs

Pairs = Sequence[tuple[str, str]]

TOUCHING_GAP = 1e-7
"""Gap up to which shapes touch [m]: rounding of configurations typed with seven digits."""

AT_REST = 1e-7
"""Relative speed up to which contact points neither slip nor separate [m/s]: rounding of velocities
typed with seven digits."""

ORDERS = ("simultaneous", "sequential")
"""Whether contacts of a collision are compressed together or one after the other."""

STALLED_RESIDUAL = 1e-12
"""Residual of impulses from which on a collision is solved again, to rounding."""

MOST_NATIVE = 64
"""Contact points up to which collisions are compiled; more are solved on floats, one by one."""

REPORTED_RESIDUAL = 1e-8
"""Residual of impulses that is reported."""

COLLISION = ("kinetic_friction", "restitution")
"""Coefficients of surfaces that enter a collision."""

LOOPS_CLOSED = 1e-9
"""Residual of loops that are closed [m or rad]."""

MOST_LIFTED = 200
"""Contact points that are all part of the motion out of penetration at most."""

LIFT_REACH = 4.0
"""Gaps of those that are part of it among more, relative to the deepest penetration."""

MOST_MOTION = 10.0
"""Motion of a joint in one step out of penetration at most [m or rad], and per depth beyond 1 m."""

MOST_LIFTS = 50
"""Steps of `lift_out` at most."""


class StuckError(DomainError):
    """Shapes that overlap and that no motion takes apart.

    Attributes:
        bodies: Pairs of bodies that are stuck in each other.
        apart: The robot without contacts of these pairs, where a run may start with it instead.
    """

    bodies: frozenset[frozenset[str]] = frozenset()
    apart: Model | None = None


class Contacts(NamedTuple):
    """Candidate contacts of a robot in one configuration or many."""

    names: tuple[str, ...]
    """Name of each contact point."""

    gap: Array
    """Signed distance [m], shape (..., points); negative where shapes overlap, 1e9 where a pair has
    fewer points in this configuration."""

    point: Array
    """Midpoint of the closest points, world axes [m], shape (..., points, 3)."""

    normal: Array
    """Unit normal from the first to the second shape, world axes, shape (..., points, 3)."""

    velocity: Array | None = None
    """Velocity of the second body relative to the first, world axes [m/s], shape (..., points, 3);
    None where no joint velocity is given."""


class Impact(NamedTuple):
    """What a collision does."""

    names: tuple[str, ...]
    """Name of each contact point."""

    v: Array
    """Joint velocity after it [m/s or rad/s], shape (..., nv)."""

    impulses: Array
    """Impulse on the first body of each point, world axes [N s], shape (..., points, 3)."""

    energy_change: Array
    """Change of the kinetic energy [J], shape (...); never positive. With prescribed motion, what
    contacts dissipate, which drives may have supplied."""

    touching: Array
    """Whether each point still touches after it, shape (..., points)."""

    restitution: Array
    """Coefficient that acted at each point, shape (..., points). Smaller than the given one where
    friction and different coefficients would have created energy."""

    rounds: Array
    """Collisions in a row, shape (...): rebuilt sets of contacts, or single contacts."""

    residual: Array
    """Largest change of an impulse in the last sweep of the solver, relative to the largest, or
    approach that is left relative to the fastest, whichever is larger; shape (...)."""


def _inputs(*names: str) -> Any:
    """Return a function of model and options that returns the input arrays."""
    usual = inputs_of(*names)

    def inputs(model: Model, options: Options) -> list[Input]:
        candidates: tuple[Candidate, ...] = dict(options)["candidates"]
        return [*usual(model, options), Input("surfaces", (number_count(candidates),))]

    return inputs


@library_function("contact_geometry", _inputs("q"), parameters=(), keywords=MODEL_CALL)
def _geometry(setting: Setting, q: Scalars, p: Scalars) -> Any:
    from tiburon.contact.rows import contact_geometry

    found, _ = contact_geometry(setting.plan, q, dict(setting.options)["candidates"], p)
    return {
        "gap": as_traced([one.gap for one in found]),
        "point": as_traced([x for one in found for x in one.point]).reshape(-1, 3),
        "normal": as_traced([x for one in found for x in one.normal]).reshape(-1, 3),
    }


def _points(model: Model, options: Options) -> list[Input]:
    count = sum(candidate.point_count for candidate in dict(options)["candidates"])
    return [*inputs_of("q", "v")(model, options), Input("points", (3 * count,))]


@library_function("contact_motion", _points, parameters=(), keywords=MODEL_CALL)
def _motion(setting: Setting, q: Scalars, v: Scalars, x: Scalars) -> Any:
    """Return relative velocities at contact points, which `contact_geometry` found."""
    from tiburon.algorithms.kinematics import body_places
    from tiburon.algorithms.tape_calls import JointVector
    from tiburon.contact.rows import relative_velocities

    plan, candidates = setting.plan, dict(setting.options)["candidates"]
    points = [(x[k], x[k + 1], x[k + 2]) for k in range(0, len(x), 3)]
    places = body_places(plan, JointVector(q))
    found = relative_velocities(plan, q, v, candidates, points, places)
    return as_traced([each for one in found for each in one]).reshape(-1, 3)


@library_function("contact_approach", _inputs("q", "v"), parameters=(INERTIA,), keywords=WORLD_CALL)
def _approach(setting: Setting, q: Scalars, v: Scalars, p: Scalars) -> Any:
    """Return gaps, normal velocities, and the rows of A along the normals."""
    from tiburon.contact.impact import loops_at
    from tiburon.contact.rigid import compliance_of
    from tiburon.contact.rows import contact_rows

    points = contact_rows(setting.plan, q, dict(setting.options)["candidates"], p)
    compliance = compliance_of(setting.plan, q, points, *loops_at(setting, q))
    rows = [[row.get(i, 0.0) for i in range(compliance.size)] for row in compliance.rows[2::3]]
    return {
        "gap": as_traced([point.geometry.gap for point in points]),
        "speed": as_traced([point.velocity(v)[2] for point in points]),
        "rows": as_traced([x for row in rows for x in row]).reshape(len(points), -1),
    }


def _of_points(name: str, *names: str) -> Any:
    """Return a function of model and options: one input has a value for each point."""

    def inputs(model: Model, options: Options) -> list[Input]:
        *arrays, surfaces = _inputs(*names)(model, options)
        points = sum(candidate.point_count for candidate in dict(options)["candidates"])
        return [*arrays, Input(name, (points,)), surfaces]

    return inputs


@library_function(
    "contact_lift", _of_points("left_out", "q"), parameters=(INERTIA,), keywords=MODEL_CALL
)
def _lift(setting: Setting, q: Scalars, left_out: Scalars, p: Scalars) -> Any:
    from tiburon.contact.impact import lifting

    return lifting(setting, q, dict(setting.options)["candidates"], left_out, p)._asdict()


@library_function(
    "contact_impact",
    _of_points("restitution", "q", "v"),
    parameters=(INERTIA,),
    keywords=WORLD_CALL,
)
def _collide(setting: Setting, q: Scalars, v: Scalars, restitution: Scalars, p: Scalars) -> Any:
    from tiburon.contact.impact import collide

    options = dict(setting.options)
    return collide(
        setting, q, v, options["candidates"], restitution, p, TOUCHING_GAP, options["order"]
    )


def _called(
    function: LibraryFunction[Any],
    model: Model,
    candidates: Sequence[Candidate],
    *arrays: Any,
    time: ArrayLike | None = None,
    geometry: CaseRows | None = None,
) -> Any:
    """Call a function of contacts: dimensions and materials are arguments, the rest is code."""
    own = np.array(numbers_of(candidates))
    numbers = located(model, candidates, own, arrays[0], time, geometry)
    return function.call(model, (*arrays, numbers), _given(time, geometry), _form(candidates))


def _form(candidates: Sequence[Candidate]) -> Options:
    """Return the option of functions of contacts: candidates without their numbers."""
    return (("candidates", kept(candidates).forms),)


def _given(time: ArrayLike | None, geometry: CaseRows | None) -> Any:
    """Return time and placements, where they are given, as keywords of calls."""
    given = {"time": time, "parameters": geometry}
    return {name: value for name, value in given.items() if value is not None}


def located(
    model: Model,
    candidates: Sequence[Candidate],
    numbers: Array,
    q: ArrayLike,
    time: ArrayLike | None = None,
    geometry: CaseRows | None = None,
    *,
    pairs: "LocatedPairs | None" = None,
    cases: Sequence[int] | None = None,
) -> Array:
    """Return the numbers of candidates with contacts of meshes located in a configuration.

    Args:
        model: The robot.
        candidates: The shapes that may touch.
        numbers: As `numbers_of` lists them, with or without leading dimensions of cases.
        q: Position [m or rad], shape (..., nq).
        time: When [s], shape (...).
        geometry: Placements that replace those of the robot.
        pairs: What is known of the pairs from earlier calls of a run.
        cases: Numbers of the cases there.

    Returns:
        The same array without meshes, else one with leading dimensions of all cases.
    """
    if not kept(candidates).are_located:
        return numbers
    from tiburon.functions.kinematics import forward_kinematics

    position = as_batch(q, model.nq, "q", model.describe_q())
    times = np.zeros(()) if time is None else np.asarray(time, dtype=np.float64)
    moved = () if geometry is None else geometry[GEOMETRY].shape[:-1]
    lead = np.broadcast_shapes(position.shape[:-1], times.shape, numbers.shape[:-1], moved)
    position = np.broadcast_to(position, (*lead, model.nq))
    names = _located_bodies(candidates)
    memory = located_pairs(candidates) if pairs is None else pairs
    given = _given(None if time is None else times, geometry)
    R, p = forward_kinematics(model, position, names, **given)
    found = np.broadcast_to(numbers, (*lead, numbers.shape[-1])).copy()
    for number, case in enumerate(np.ndindex(*lead)):
        turned = np.concatenate([R[case], np.eye(3)[None]])
        origins = np.concatenate([p[case], np.zeros((1, 3))])
        known = None if cases is None else cases[number]
        memory.fill(found[case], turned, origins, known)
    return found


def located_pairs(candidates: Sequence[Candidate]) -> "LocatedPairs":
    """Return what is known of pairs whose contacts are located, for the steps of a run."""
    from tiburon.contact.meshes import LocatedPairs

    return LocatedPairs(candidates, [*_located_bodies(candidates), WORLD])


def _located_bodies(candidates: Sequence[Candidate]) -> list[str]:
    """Return the bodies whose contacts are located, but for the world."""
    parts = (part for one in candidates for part in (one.first, one.second) if one.is_located)
    return sorted({part.body for part in parts} - {WORLD})


def _some(
    model: Model, world: World | None, pairs: Pairs | None, *, timed: bool = False
) -> tuple[Candidate, ...]:
    check_places(model, world)
    if not timed:
        refuse_prescribed(model, "this function of contacts")
    found = candidates_of(model, world or DEFAULT_WORLD, pairs)
    if not found:
        raise ModelError(
            f"model {model.name!r}: expected shapes that may touch, got none; give the world a "
            "Ground, and the robot contact points or collision shapes"
        )
    return found


def _names(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    return kept(candidates).point_names


@public
def contacts(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    world: World | None = None,
    pairs: Pairs | None = None,
    time: ArrayLike | None = None,
) -> Contacts:
    """List the contact points of a configuration: gaps, points and normals, touching or not.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv), for relative velocities.
        world: Surroundings with the ground.
        pairs: Names of two bodies each that may touch, "world" for the ground; by default the
            contact points of the robot, or the collision shapes of a tree without any, and the
            ground, and collision shapes of different trees.
        time: When [s], shape (...), where driven joints move; zero by default.

    Raises:
        ModelError: If nothing can touch.

    Example:
        ``tb.contacts(dog, dog.poses["stand"], world=tb.World(ground=tb.Ground())).gap``
    """
    candidates = _some(model, world, pairs, timed=True)
    return contacts_among(model, candidates, q, v, time=time)


def contacts_among(
    model: Model,
    candidates: Sequence[Candidate],
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    time: ArrayLike | None = None,
    geometry: CaseRows | None = None,
) -> Contacts:
    """Return the contact points of given candidates; see `contacts`.

    Args:
        model: The robot.
        candidates: The shapes that may touch.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        time: When [s], shape (...).
        geometry: Placements that replace those of the robot.
    """
    found = _called(_geometry, model, candidates, q, time=time, geometry=geometry)
    here = Contacts(_names(candidates), *found)
    if v is None:
        return here
    points = here.point.reshape(*here.point.shape[:-2], -1)
    given = _given(time, geometry)
    velocity = _motion.call(model, (q, v, points), given, _form(candidates))
    return here._replace(velocity=velocity)


POSE_TOLERANCE = 1e-6
"""Distance up to which a start is a named configuration [m or rad]."""


def clear_start(
    model: Model,
    q: Array,
    world: World,
    pairs: Pairs | None,
    time: float = 0.0,
    rows: Mapping[str, Array] | None = None,
) -> Array:
    """Return the positions in which runs start, without penetration.

    Robot files of programs with soft contact start with shapes that overlap. Cases that start in a
    named configuration of the robot are lifted out, with a warning; others are refused.

    Args:
        model: The robot.
        q: Position [m or rad], shape (cases, nq).
        world: Surroundings.
        pairs: As `contacts` takes them.
        time: When [s].
        rows: Tables of run-time parameters, of which those of the geometry count.

    Raises:
        DomainError: If shapes overlap by more than `TOUCHING_GAP`; the message names them.
    """
    candidates = _some(model, world, pairs, timed=True)
    geometry = geometry_of(rows)
    found = contacts_among(model, candidates, q, time=time, geometry=geometry)
    deep = np.flatnonzero((found.gap < -TOUCHING_GAP).any(axis=-1))
    if not len(deep) or geometry is not None or not _are_named(model, q[deep]):
        check_overlap(found, "start")
        return q
    lifted = np.array(q)
    when = time if model.plan.depends_on_time else None
    reached: set[int] = set()
    stuck: StuckError | None = None
    while True:
        bodies = frozenset() if stuck is None else stuck.bodies
        try:
            lifted[deep] = _lifted(model, candidates, q[deep], when, bodies, reached)
            break
        except StuckError as error:
            if pairs is not None or error.bodies <= bodies:
                raise
            stuck = stuck or error
            stuck.bodies = bodies | error.bodies
    if stuck is not None:
        stuck.apart = _without_contacts(model, stuck.bodies)
        raise stuck
    case, point = np.unravel_index(int(np.argmin(found.gap)), found.gap.shape)
    moved = np.abs(model.difference(q[case], lifted[case]))
    where = f" in {len(deep)} of {len(q)} cases" if len(q) > 1 else ""
    warnings.warn(
        f"model {model.name!r}: shapes overlapped at the start{where}, {found.names[int(point)]!r} "
        f"most, by {-float(found.gap[case, point]):.3g} m, and were lifted out: "
        f"{model.v_names[int(np.argmax(moved))]!r} moved most, by {moved.max():.3g} m or rad; pass "
        "q= to choose where the robot starts",
        ModelWarning,
        stacklevel=caller_level(),
    )
    return lifted


def warn_of_turning(candidates: Sequence[Candidate], what: str) -> None:
    """Warn of torsional and rolling friction that a function leaves out, by its name."""
    names = [repr(candidate.name) for candidate in candidates if any(candidate.turning)]
    if names:
        listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        warnings.warn(
            f"{what}: torsional and rolling friction of {len(names)} contacts was left out: "
            f"{listed}; runs with rigid contact have it",
            ModelWarning,
            stacklevel=caller_level(),
        )


def _without_contacts(model: Model, bodies: Iterable[frozenset[str]]) -> Model:
    """Return a robot some of whose bodies do not touch."""
    carriers = {frame.name: frame.body for frame in model.frames}
    wanted = {frozenset(carriers.get(name, name) for name in pair) for pair in bodies}
    kept = (x for x in model.contact_pairs if frozenset((x.first, x.second)) not in wanted)
    left_out = (ContactPair(min(pair), max(pair), touches=False) for pair in wanted)
    return model._changed(model._parts._replace(contact_pairs=(*kept, *left_out)), None)


def _are_named(model: Model, q: Array) -> bool:
    """Return whether all positions are named configurations of a robot, or closed near them."""
    if any(getattr(loop, "may_start_open", False) for loop in model.loops):
        return True
    named = [np.array(pose, dtype=np.float64) for pose in (model.neutral(), *model.poses.values())]
    return all(
        any(np.abs(model.difference(pose, row)).max() <= POSE_TOLERANCE for pose in named)
        for row in q
    )


def check_overlap(here: Contacts, element: str) -> None:
    """Refuse shapes that overlap by more than `TOUCHING_GAP`.

    Raises:
        DomainError: With the contact, its depth and the case.
    """
    if not here.gap.size or here.gap.min() >= -TOUCHING_GAP:
        return
    *case, point = np.unravel_index(int(np.argmin(here.gap)), here.gap.shape)
    at = f" in case {', '.join(str(int(k)) for k in case)}" if case else ""
    raise DomainError(
        f"{element}: contact {here.names[point]!r}",
        "shapes that touch at most",
        f"a penetration of {-float(here.gap.min()):.3g} m{at}",
        advice="move the robot, or use q=tb.lift_out(model, q, world=world)",
    )


@public
def lift_out(
    model: Model,
    q: ArrayLike,
    *,
    world: World | None = None,
    pairs: Pairs | None = None,
    time: ArrayLike | None = None,
) -> Array:
    """Move a configuration out of penetration by the least motion in the mass metric.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        world: Surroundings with the ground.
        pairs: As in `contacts`.
        time: When [s], shape (...), where driven joints move; zero by default.

    Returns:
        A position without penetration beyond rounding, shape (..., nq).

    Raises:
        DomainError: If penetrations are left: shapes enclose each other, or loops do not close.
        ModelError: If nothing can touch.
    """
    candidates = _some(model, world, pairs, timed=True)
    found: Array = as_batch(q, model.nq, "q", model.describe_q()).copy()
    return _lifted(model, candidates, found, time)


def _lifted(
    model: Model,
    candidates: Sequence[Candidate],
    found: Array,
    time: ArrayLike | None,
    apart: frozenset[frozenset[str]] = frozenset(),
    reached: set[int] | None = None,
) -> Array:
    """Return positions without penetration; see `lift_out`.

    Args:
        model: The robot.
        candidates: The shapes that may touch.
        found: Positions [m or rad].
        time: When [s].
        apart: Pairs of bodies whose contacts are left out.
        reached: Receives the candidates that motions reach, all of which are part of the next.
    """
    lifted = set() if reached is None else reached
    owners = np.repeat(np.arange(len(candidates)), [one.point_count for one in candidates])
    stuck = [frozenset((one.first.body, one.second.body)) in apart for one in candidates]
    left_out = np.where(np.array(stuck)[owners], NO_CONTACT, 0.0)
    for _ in range(MOST_LIFTS):
        gap = contacts_among(model, candidates, found, time=time).gap + left_out
        if np.all(gap >= -1e-12):
            return found
        # of very many contacts those that the motion may close, and those of the motions before
        lifted |= _within_reach(candidates, gap)
        near, among = candidates, np.isin(owners, sorted(lifted))
        if len(lifted) < len(candidates):
            near = tuple(candidates[k] for k in sorted(lifted))
        ignored = np.broadcast_to(left_out[among], (*found.shape[:-1], int(among.sum())))
        step, possible, enclosing = _called(_lift, model, near, found, ignored, time=time)
        # what opens contacts that are nearly opposed is no motion nearby
        bound = MOST_MOTION * max(1.0, -float(gap.min()))
        small = np.abs(step).max(axis=-1) <= bound
        _check_lift(near, np.asarray(possible) * small, np.asarray(enclosing))
        found = np.asarray(model.integrate(found, step))
        if model.loops:
            found = _closed(model, found, time)
    gap = contacts_among(model, candidates, found, time=time).gap + left_out
    worst = int(np.argmin(gap.reshape(-1, len(owners)).min(axis=0)))
    error = StuckError(
        f"contact {_names(candidates)[worst]!r}",
        "a configuration without penetration nearby",
        f"a depth of {-float(gap.min()):.3g} m after {MOST_LIFTS} steps",
    )
    error.bodies = _bodies_of(candidates, (worst,))
    raise error


def _within_reach(candidates: Sequence[Candidate], gap: Array) -> set[int]:
    """Return the candidates that are part of a motion out of penetration: all but of very many.

    Of these those whose gap is at most `LIFT_REACH` times the deepest penetration.
    """
    points = [one.point_count for one in candidates]
    if sum(points) <= MOST_LIFTED:
        return set(range(len(candidates)))
    least = gap.reshape(-1, sum(points)).min(axis=0)
    owners = np.repeat(np.arange(len(candidates)), points)
    return set(owners[least <= -LIFT_REACH * least.min()].tolist())


def _check_lift(candidates: Sequence[Candidate], possible: Array, enclosing: Array) -> None:
    """Refuse contacts that cannot be opened together.

    Raises:
        DomainError: With the contacts that oppose each other, and the case.
    """
    if possible.all():
        return
    case = tuple(np.argwhere(possible < 0.5)[0].tolist())
    at = f" in case {', '.join(map(str, case))}" if case else ""
    weights = enclosing[case]
    among = np.flatnonzero(weights > 1e-6 * weights.max())
    names = _names(candidates)
    listed = ", ".join(repr(names[k]) for k in among[:6]) + ", ..." * (len(among) > 6)
    error = StuckError(
        f"contact {names[int(np.argmax(weights))]!r}",
        "a configuration without penetration nearby",
        f"contacts that no motion opens together{at}: {listed}",
        advice="move the robot, or leave bodies out with pairs=",
    )
    error.bodies = _bodies_of(candidates, among.tolist())
    raise error


def _bodies_of(candidates: Sequence[Candidate], points: Sequence[int]) -> frozenset[frozenset[str]]:
    """Return the pairs of bodies of some contact points."""
    of = [one for one in candidates for _ in range(one.point_count)]
    return frozenset(frozenset((of[k].first.body, of[k].second.body)) for k in points)


def _closed(model: Model, q: Array, time: ArrayLike | None) -> Array:
    """Close the loops of a robot near a configuration.

    Raises:
        DomainError: If they stay open.
    """
    from tiburon.functions.closed_loops import project_configuration

    found = (
        project_configuration(model, q)
        if time is None
        else project_configuration(model, q, time=time)
    )
    residual = float(np.max(found.residual))
    if not residual <= LOOPS_CLOSED:
        raise DomainError(
            "q",
            "a configuration with closed loops",
            f"one that stays open by {residual:.3g} m or rad when it is lifted",
            advice="close its loops with assemble first",
        )
    return np.asarray(found.q)


@public
def impact(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    *,
    world: World | None = None,
    pairs: Pairs | None = None,
    restitution: float | Mapping[str, float] | None = None,
    order: str = "simultaneous",
    parameters: Mapping[str, ArrayLike] | None = None,
    time: ArrayLike | None = None,
    closure: bool | None = None,
) -> Impact:
    """Compute a collision: velocities and impulses after contacts have closed.

    Two phases, compression and decompression by Poisson's law, with friction on the exact cone
    (Featherstone 1987, section 9.9). Contacts that separate are left out; where one of them
    approaches afterwards, the collision continues. Loops stay closed.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq), in which shapes touch.
        v: Joint velocity before [m/s or rad/s], shape (..., nv).
        world: Surroundings with the ground.
        pairs: As in `contacts`.
        restitution: Coefficient of all contacts, 0 to 1, or by name of a contact or contact point;
            that of their materials by default.
        order: "simultaneous", all contacts are compressed together; "sequential", one after the
            other, the fastest first. Rigid bodies cannot decide it, and results differ.
        parameters: Values by name in place of those of robot, water and surfaces, such as
            "ball.mass" or "ground.kinetic_friction", one or one per case; see `tiburon.parameters`.
        time: When [s], shape (...), where driven joints move; zero by default.
        closure: Whether to refuse states with open loops, and velocities that open them; see
            `forward_dynamics`.

    Raises:
        ModelError: If nothing can touch, or a parameter does not enter.
        UnknownNameError: If there is no contact of that name.
        DomainError: If a coefficient is not between 0 and 1, or shapes overlap.
        SecondOrderCollisionError: If prescribed motion presses contacts together however large
            their impulses are; the message names joint and contacts.

    Warns:
        ModelWarning: If friction and different coefficients would have created energy; it names
            the contacts, and `restitution` of the result holds what acted. If surfaces have
            torsional or rolling friction, which is left out.

    Example:
        ``tb.impact(ball, q, v, world=floor, restitution=0.9).v``
    """
    candidates = _some(model, world, pairs, timed=True)
    warn_of_turning(candidates, "impact")
    choice("order", order, ORDERS)
    names = _names(candidates)
    given = _coefficients(candidates, restitution)
    words = COLLISION if restitution is None else ("kinetic_friction",)
    numbers, others = surfaces_by_name(
        "impact", words, model, world or DEFAULT_WORLD, candidates, parameters
    )
    if closure_options(model, closure):
        from tiburon.functions.closed_loops import check_closed

        check_closed(model, q, v, time=time, parameters=others)
    # water moves with the robot; all else of a world does not enter
    around = World(fluid=world.fluid) if world is not None and world.fluid is not None else None
    call = _Collision(model, around, candidates, order, numbers, others, time)
    moved, geometry = call.placed
    call = call._replace(numbers=located(moved, candidates, numbers, q, time, geometry))
    check_overlap(contacts_among(moved, candidates, q, time=time, geometry=geometry), "impact")
    compute = call.native if len(names) <= MOST_NATIVE else call.unsolved
    parts = compute(q, v, given)
    call.solve_exactly(parts, q, v, given)
    call.refuse_contradictions(parts, q, v)
    _report_collision(names, parts)
    found: dict[str, Any] = {**parts, "touching": parts["touching"] > 0.5}
    return Impact(names, *(found[name] for name in Impact._fields[1:]))


_COLLISION = (
    "v",
    "impulses",
    "energy_change",
    "touching",
    "restitution",
    "factor",
    "rounds",
    "worst",
    "residual",
)
"""Results of `collide`, in order."""


class _Collision(NamedTuple):
    """A collision of a robot, as kernels and functions on floats compute it."""

    model: Model
    around: World | None
    candidates: tuple[Candidate, ...]
    order: str
    numbers: Array
    """Dimensions and surfaces of the candidates, with leading dimensions of cases or none."""
    others: Mapping[str, Any] | None
    """Parameters of robot and water by name."""
    time: ArrayLike | None
    """When [s], where driven joints move."""

    def options(self, candidates: Sequence[Candidate]) -> Options:
        """Return the options of code for some candidates."""
        form = tuple(candidate.form() for candidate in candidates)
        return (("candidates", form), ("order", self.order))

    def native(self, q: ArrayLike, v: ArrayLike, given: Array) -> dict[str, Array]:
        """Return the results of all cases, by sweeps over the contacts."""
        arrays = (q, v, given, self.numbers)
        where: Any = {} if self.around is None else {"world": self.around}
        if self.others is not None:
            where["parameters"] = self.others
        if self.time is not None:
            where["time"] = self.time
        found = _collide.call(self.model, arrays, where, self.options(self.candidates))
        return {name: np.array(x) for name, x in zip(_COLLISION, found, strict=True)}

    def unsolved(self, q: ArrayLike, v: ArrayLike, given: Array) -> dict[str, Array]:
        """Return results without impulses, with an infinite residual."""
        moved, geometry = self.placed
        gap = contacts_among(moved, self.candidates, q, time=self.time, geometry=geometry).gap
        leads = (gap.shape[:-1], np.shape(v)[:-1], self.numbers.shape[:-1], lead_of(self.varied))
        cases = np.broadcast_shapes(*leads)
        shape = (*cases, gap.shape[-1])
        after = np.broadcast_to(np.asarray(v, dtype=np.float64), (*cases, self.model.nv)).copy()
        return {
            "v": after,
            "impulses": np.zeros((*shape, 3)),
            "energy_change": np.zeros(cases),
            "touching": np.broadcast_to(gap <= TOUCHING_GAP, shape).astype(np.float64),
            "restitution": np.broadcast_to(np.maximum(given, 0.0), shape).copy(),
            "factor": np.ones(cases),
            "rounds": np.zeros(cases),
            "worst": np.zeros(cases),
            "residual": np.full(cases, np.inf),
        }

    @property
    def varied(self) -> dict[Parameter, Array]:
        """Parameters of robot and water that are given by name."""
        if self.others is None:
            return {}
        known = dynamics_parameters(self.model, self.around or DEFAULT_WORLD)
        return {known[name]: array for name, array in read_values(known, self.others).items()}

    @property
    def placed(self) -> tuple[Model, CaseRows | None]:
        """The robot with its geometry at run time, and that geometry; None where it is its own."""
        given = {item.name: x for item, x in self.varied.items() if item.part == PLACEMENT}
        if not given:
            return self.model, None
        found = vary(self.model, None, given)
        return found.model, geometry_of(found.rows)

    def _of_case(
        self, case: tuple[Any, ...], cases: tuple[int, ...]
    ) -> tuple[Model, World | None, Array]:
        """Return robot, water, and dimensions and surfaces of the candidates, of one case."""
        model, around, varied = self.model, self.around, self.varied
        numbers = np.broadcast_to(self.numbers, (*cases, self.numbers.shape[-1]))[case]
        values = {
            item: plain(np.broadcast_to(array, (*cases, *item.shape))[case])
            for item, array in varied.items()
        }
        own = {item: x for item, x in values.items() if item.part not in ("gravity", "fluid")}
        if own:
            model = model_of_case(model, own)
        for item, value in values.items():
            if item.part == "fluid" and around is not None:
                around = replace(around, fluid=with_value(around.fluid, item.path, value))
        return model, around, numbers

    def solve_exactly(
        self, parts: dict[str, Array], q: ArrayLike, v: ArrayLike, given: Array
    ) -> None:
        """Solve cases one by one, to rounding, where sweeps over the contacts have stalled."""
        for case, position, velocity, time in self._cases(
            parts["residual"], STALLED_RESIDUAL, q, v
        ):
            whole = self._of_case(case, parts["residual"].shape)
            gap = self._gaps(whole, position, time)
            with at_time(time):
                self._solve_case(parts, case, position, velocity, given, whole, gap)

    def _gaps(self, whole: tuple[Model, World | None, Array], q: Array, time: float) -> Array:
        """Return the gap of every contact point of one case [m]."""
        model, _, numbers = whole
        form = self.options(self.candidates)[:1]
        if self.placed[1] is None:
            when: Any = {"time": time} if model.plan.depends_on_time else {}
            found = _geometry.call(model, (q, numbers), when, form)[0]
        else:
            # code has the geometry of the robot itself
            with at_time(time):
                found = _geometry.run(model, None, form, q, numbers)["gap"]
        return np.asarray(found, dtype=np.float64)

    def _cases(
        self, residual: Array, above: float, q: ArrayLike, v: ArrayLike
    ) -> Iterator[tuple[tuple[Any, ...], Array, Array, float]]:
        """Yield cases with a residual above some value: their place, q, v and time."""
        cases, model = residual.shape, self.model
        every_q, every_v = (
            np.broadcast_to(np.asarray(x, dtype=np.float64), (*cases, size))
            for x, size in ((q, model.nq), (v, model.nv))
        )
        when = 0.0 if self.time is None or not model.plan.depends_on_time else self.time
        times = np.broadcast_to(np.asarray(when, dtype=np.float64), cases)
        # also true for what is not a number
        for case in zip(*np.nonzero(np.atleast_1d(~(residual <= above))), strict=True):
            place = case if cases else ()
            yield place, every_q[place], every_v[place], float(times[place])

    def refuse_contradictions(self, parts: dict[str, Array], q: ArrayLike, v: ArrayLike) -> None:
        """Refuse bodies that prescribed motion presses together.

        Raises:
            SecondOrderCollisionError: With the contacts and the joints.
        """
        from tiburon.contact.certificate import contradiction

        names, options = _names(self.candidates), self.options(self.candidates)
        for case, position, velocity, time in self._cases(
            parts["residual"], REPORTED_RESIDUAL, q, v
        ):
            model, around, numbers = self._of_case(case, parts["residual"].shape)
            with at_time(time):
                found = _approach.run(model, around, options, position, velocity, numbers)
            gap, speed, rows = (np.asarray(found[name], dtype=np.float64) for name in found)
            # contacts that separate take no part
            closed = np.flatnonzero((gap <= TOUCHING_GAP) & (speed <= AT_REST))
            normals = rows[closed]
            error = contradiction(
                normals @ normals.T,
                speed[closed],
                [names[k] for k in closed],
                partial(driven_joints, model, self.candidates),
                impulses=True,
            )
            if error is not None:
                raise error

    def _solve_case(
        self,
        parts: dict[str, Array],
        case: tuple[Any, ...],
        q: Array,
        v: Array,
        given: Array,
        whole: tuple[Model, World | None, Array],
        gap: Array,
    ) -> None:
        """Solve one case, with those candidates that touch."""
        model, around, every = whole
        numbers: list[float] = []
        at = 0
        chosen: list[Candidate] = []
        points: list[int] = []
        start = 0
        for candidate in self.candidates:
            own = range(start, start + candidate.point_count)
            start = own.stop
            mine = every[at : at + len(candidate.parameters())]
            at += len(mine)
            if gap[own].min() <= TOUCHING_GAP:
                chosen.append(candidate)
                points += own
                numbers += mine.tolist()
        if not chosen:
            parts["residual"][case] = 0.0
            return
        if number_count(chosen) > len(numbers):
            # handles of tables: heights of uneven ground, vertices of hulls
            numbers += every[at:].tolist()
        options = self.options(chosen)
        found = _collide.run(model, around, options, q, v, given[points], np.array(numbers))
        if not found["residual"] < parts["residual"][case]:
            return
        parts["impulses"][case] = 0.0
        for name in ("impulses", "touching", "restitution"):
            parts[name][case][points] = np.asarray(found[name], dtype=np.float64)
        for name in ("v", "energy_change", "factor", "rounds", "residual"):
            parts[name][case] = np.asarray(found[name], dtype=np.float64)
        parts["worst"][case] = points[int(found["worst"])]


def _coefficient(argument: str, value: object) -> float:
    """Return a coefficient of restitution.

    Raises:
        DomainError: If it is not between 0 and 1.
    """
    if not is_number(value) or not 0.0 <= float(value) <= 1.0:  # type: ignore[arg-type]
        raise DomainError(
            argument, "a number from 0 to 1", shown(value), advice="0 for contacts that stay closed"
        )
    return float(value)  # type: ignore[arg-type]


def _coefficients(
    candidates: Sequence[Candidate], restitution: float | Mapping[str, float] | None
) -> Array:
    """Return the coefficient of each contact point, -1 where that of the material counts."""
    names = _names(candidates)
    if restitution is None:
        return np.full(len(names), -1.0)
    if not isinstance(restitution, Mapping):
        return np.full(len(names), _coefficient("restitution", restitution))
    found = np.full(len(names), -1.0)
    points = {name: [k] for k, name in enumerate(names)}
    start = 0
    for candidate in candidates:
        points[candidate.name] = list(range(start, start + candidate.point_count))
        start += candidate.point_count
    # names of single points after those of whole contacts, which they refine
    for name in sorted(restitution, key=lambda name: name in names):
        if name not in points:
            raise UnknownNameError("contact", name, points, where=f"{len(names)} contact points")
        value = _coefficient(f"restitution of {name!r}", restitution[name])
        found[points[name]] = value
    return found


def _report_collision(names: Sequence[str], parts: Mapping[str, Array]) -> None:
    """Warn of contacts whose decompression was reduced, and of cases that are not solved."""
    factor, residual = parts["factor"], parts["residual"]
    pushed = (np.abs(parts["impulses"]).max(axis=-1) > 0.0) & (parts["restitution"] > 0.0)
    reduced = (pushed & (factor < 1.0)[..., None]).reshape(-1, len(names))
    if reduced.any():
        listed = ", ".join(repr(names[k]) for k in np.flatnonzero(reduced.any(axis=0)).tolist())
        warnings.warn(
            f"impact: contacts {listed}: different coefficients of restitution with friction would "
            f"create energy in {int(reduced.any(axis=1).sum())} of {len(reduced)} cases; "
            f"decompression is reduced to as little as {float(factor.min()):.3g} of what was asked "
            "for; give them one coefficient",
            ModelWarning,
            stacklevel=4,
        )
    if residual.max(initial=0.0) > REPORTED_RESIDUAL:
        case = int(residual.argmax())
        point = names[int(parts["worst"].reshape(-1)[case])]
        warnings.warn(
            f"impact: contact {point!r}: impulses of {int((residual > REPORTED_RESIDUAL).sum())} "
            f"of {residual.size} cases satisfy the laws of contact to {float(residual.max()):.3g} "
            "of the largest only; check their `residual`, or reduce the friction",
            ModelWarning,
            stacklevel=4,
        )


# -- dependent contacts, contacts as joints -------------------------------------------------------


class DependentContacts(NamedTuple):
    """A minimal set of contacts whose normals depend on each other."""

    contacts: tuple[str, ...]
    """Names of the contact points."""

    weights: tuple[float, ...]
    """Weights with which their unit normals sum to zero; the largest is 1 in size."""

    kind: str
    """"unbreakable" (all weights of one sign: the contacts act as a joint), "redundant" (one of the
    other sign: the others never let that contact approach), or "indeterminate"."""

    redundant: str | None
    """The contact that the others make redundant, for that kind."""


class ContactDependence(NamedTuple):
    """Dependence of the normals of contacts that touch."""

    names: tuple[str, ...]
    """Names of the contact points that touch."""

    rank: int
    """Number of independent normals."""

    sets: tuple[DependentContacts, ...]
    """Minimal dependent sets; none are listed for more than 14 contacts."""

    redundant: tuple[str, ...]
    """Contacts that can be left out together without changing motions or resultants."""

    unbreakable: tuple[tuple[str, ...], ...]
    """Groups of contacts that cannot separate whatever forces act; see `contact_closure`."""


@public
def contact_dependence(
    model: Model,
    q: ArrayLike,
    *,
    world: World | None = None,
    pairs: Pairs | None = None,
    tolerance: float = 1e-9,
) -> ContactDependence:
    """Analyze which contacts are redundant, and which cannot separate.

    Normals of contacts that touch are compared in the metric of the mass matrix, with loops
    eliminated (Featherstone 1987, section 9.8.2).

    Args:
        model: The robot.
        q: Position [m or rad], shape (nq,).
        world: Surroundings with the ground.
        pairs: As in `contacts`.
        tolerance: Length below which a combination of unit normals counts as zero.

    Raises:
        ModelError: If nothing can touch.

    Example:
        ``tb.contact_dependence(table, q, world=floor).rank``
    """
    from tiburon.contact.dependence import analyze_dependence

    candidates = _some(model, world, pairs)
    tolerance = positive("tolerance", tolerance)
    place = vector("q", q, model.nq)
    gap = contacts_among(model, candidates, place).gap
    owners = np.repeat(np.arange(len(candidates)), [one.point_count for one in candidates])
    some = [candidates[k] for k in sorted(set(owners[gap <= TOUCHING_GAP].tolist()))]
    names: tuple[str, ...] = ()
    rows = np.zeros((0, model.nv))
    if some:
        # candidates that touch, on floats: all of them would be long code
        numbers = located(model, some, np.array(numbers_of(some)), place)
        options = (("candidates", tuple(one.form() for one in some)),)
        here = _approach.run(model, None, options, place, np.zeros(model.nv), numbers)
        closed = np.flatnonzero(np.asarray(here["gap"]) <= TOUCHING_GAP).tolist()
        names = tuple(_names(some)[k] for k in closed)
        rows = np.asarray(here["rows"], dtype=np.float64)[closed]
    found = analyze_dependence(rows, tolerance)

    def named(indices: Iterable[int]) -> tuple[str, ...]:
        return tuple(names[k] for k in indices)

    return ContactDependence(
        names,
        found.rank,
        tuple(
            DependentContacts(
                named(one.contacts),
                one.weights,
                one.kind,
                None if one.redundant is None else names[one.redundant],
            )
            for one in found.sets
        ),
        named(found.redundant),
        tuple(named(group) for group in found.unbreakable),
    )


@public
def contact_closure(
    model: Model,
    contact: str,
    *,
    world: World | None = None,
    pairs: Pairs | None = None,
    kind: str = "point",
    friction: bool = False,
    name: str | None = None,
) -> TracedClosure:
    """Return a contact as a joint that closes a loop: touch-down, grasp, what friction binds.

    The gap stays zero, and with friction the bodies do not slip where they touch, though the
    contact point may roll over both: 5 degrees of freedom, with friction 3, for a soft finger 2
    (Nahon 1991, section 2.3). Add it to a robot with `model.with_loops`, and a `LoopSwitch` closes
    and opens it during a run. Contacts that cannot separate (`contact_dependence`) are such joints
    at any time; others are held though they would pull.

    Args:
        model: The robot.
        contact: Name of a contact point, as `contacts` lists it.
        world: Surroundings with the ground.
        pairs: As in `contacts`.
        kind: "point" or "soft finger", which always has friction.
        friction: Whether friction binds.
        name: Name of the closure; that of the contact by default.

    Raises:
        UnknownNameError: If there is no such contact.
        ModelError: If one of the shapes is uneven ground.

    Example:
        ``model.with_loops(tb.contact_closure(model, "foot", world=floor, friction=True))``
    """
    from tiburon.contact.closures import contact_closure_of

    candidates = _some(model, world, pairs)
    choice("kind", kind, ("point", "soft finger"))
    choice("friction", friction, (True, False))
    refuse_meshes(candidates, "contact_closure", hulls=True)
    for candidate in candidates:
        if contact in candidate.point_names:
            point = candidate.point_names.index(contact)
            of = contact_kind(kind, friction=friction)
            return contact_closure_of(candidate, of, name or contact, point)
    raise UnknownNameError("contact", contact, _names(candidates), where=f"model {model.name!r}")
