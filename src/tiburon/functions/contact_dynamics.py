"""Contact forces and joint accelerations of a state, with the mode of every contact point."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Self, Unpack

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.contact.candidates import (
    Candidate,
    candidates_of,
    driven_joints,
    number_count,
    number_places,
    refuse_meshes,
    surfaces_of,
)
from tiburon.contact.certificate import contradiction, refuse
from tiburon.contact.modes import (
    BREAKING,
    SLIDING,
    ContactProblem,
    ModeSolution,
    Solutions,
    solve_modes,
)
from tiburon.errors import DomainError, ModelError, SecondOrderCollisionError, ShapeError
from tiburon.functions.contact import AT_REST, TOUCHING_GAP, Pairs, warn_of_turning
from tiburon.functions.keywords import (
    DYNAMICS_CALL,
    STATE_CALL,
    StateCall,
    takes_conditions,
    unexpected_keyword,
)
from tiburon.functions.library import (
    check_places,
    closure_options,
    inputs_of,
    library_function,
)
from tiburon.functions.parameters import surfaces_by_name
from tiburon.model import Model
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

MOST_POINTS = 64
"""Contact points up to which one kernel computes all of them, touching or not. Of more, which takes
long to compile, gaps are computed first, then the bodies that touch."""

MODES = ("separated", "breaking", "inactive", "remaining", "sticking", "sliding")
"""What a contact point can be doing."""

FRICTION = ("static_friction", "kinetic_friction")
"""Coefficients of surfaces that enter."""

GUESS_STEP = 1e-6
"""Time step whose impulses guess the modes [s]."""

TOLERANCE = 1e-12
"""Residual of the guess, relative to the largest force."""

REMOTE_VELOCITY = 1e9
"""Normal velocity that keeps a contact point out of a problem [m/s]."""


class ContactDynamics(NamedTuple):
    """Contact forces, modes and joint accelerations of one state or many."""

    names: tuple[str, ...]
    """Name of each contact point."""

    modes: Any
    """Mode of each point, an array of strings of shape (..., points): "separated" (open, or moving
    apart), "breaking" (touches, without force, and begins to separate), "inactive" (touches without
    force or acceleration), "remaining" (touches with force, without friction), and with friction
    "sticking" or "sliding"."""

    forces: Array
    """Force on the first body of each point, world axes [N], shape (..., points, 3)."""

    vd: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv); NaN where there is no solution."""

    solutions: Any
    """Which accelerations satisfy all conditions, an array of strings of shape (...): "one";
    "several", where the one with forces nearest to `last` is returned; "none", Painleve's paradox,
    where only an impulse can act; "unknown", where one was found and too many modes are possible to
    look for all others."""

    rank: Array
    """Rank of the equations of the contact forces, shape (...)."""

    unknowns: Array
    """Number of unknown force components, shape (...). Forces are unique where it equals the rank;
    otherwise those of least norm are returned, or, if these leave the friction cone, some that do
    not."""

    residual: Array
    """Largest violation of the conditions on accelerations [m/s^2], shape (...)."""


def _inputs(model: Model, options: Options) -> list[Input]:
    candidates: tuple[Candidate, ...] = dict(options)["candidates"]
    count = number_count(candidates)
    return [*inputs_of("q", "v", "tau")(model, options), Input("surfaces", (count,))]


@library_function("contact_closing", _inputs, keywords=DYNAMICS_CALL, checks_closure=True)
def _closing(setting: Setting, q: Scalars, v: Scalars, tau: Scalars, p: Scalars) -> Any:
    """Return the gap and the normal velocity of every contact point."""
    from tiburon.contact.rows import contact_geometry, relative_velocities
    from tiburon.spatial.vec3 import dot

    plan, candidates = setting.plan, dict(setting.options)["candidates"]
    found, places = contact_geometry(plan, q, candidates, p)
    points = [one.point for one in found]
    velocities = relative_velocities(plan, q, v, candidates, points, places)
    speeds = [dot(one.normal, velocity) for one, velocity in zip(found, velocities, strict=True)]
    return {"gap": as_traced([one.gap for one in found]), "speed": as_traced(speeds)}


@library_function("contact_problem", _inputs, keywords=DYNAMICS_CALL, checks_closure=True)
def _problem(setting: Setting, q: Scalars, v: Scalars, tau: Scalars, p: Scalars) -> Any:
    """Return the contact problem of a state, and the forces of a short time step."""
    from tiburon.contact.complementarity import contact_accelerations, free_acceleration
    from tiburon.contact.rigid import solve_impulses
    from tiburon.loops.constraints import constraints
    from tiburon.loops.metric import MIN_CUT, rank_cut

    candidates = dict(setting.options)["candidates"]
    model, plan = setting.model, setting.plan
    loops: tuple[Any, ...] = ()
    if model.loops:
        held = constraints(model, plan, q)
        loops = held.jacobian, rank_cut(model, held.value, MIN_CUT)
    vd = free_acceleration(setting, q, v, tau)
    points, c, d, compliance, terms = contact_accelerations(plan, q, v, vd, candidates, p, *loops)
    surfaces = surfaces_of(candidates, p, [point.geometry for point in points])
    b: list[Scalar] = []
    mu: list[Scalar] = []
    for k, (point, surface) in enumerate(zip(points, surfaces, strict=True)):
        t1, t2, n = c[3 * k : 3 * k + 3]
        closed = (point.geometry.gap <= TOUCHING_GAP) & (n <= AT_REST)
        moves = t1 * t1 + t2 * t2 > AT_REST * AT_REST
        b += [
            np.where(moves, x, 0.0) + GUESS_STEP * y
            for x, y in zip((t1, t2), d[3 * k :], strict=False)
        ]
        b.append(np.where(closed, GUESS_STEP * d[3 * k + 2], REMOTE_VELOCITY))
        mu.append(np.where(moves, surface.kinetic_friction, surface.static_friction))
    count = len(points)
    none = [0.0] * count
    guess = solve_impulses(compliance, b, mu, none, [0.0] * (3 * count), tolerance=TOLERANCE)
    # what slips has kinetic friction
    slips = [np.where(x > 0.0, 1.0, 0.0) for x in guess.slip]
    mu = [
        np.where(x > 0.5, s.kinetic_friction, m)
        for x, s, m in zip(slips, surfaces, mu, strict=True)
    ]
    guess = solve_impulses(compliance, b, mu, none, guess.p, tolerance=TOLERANCE)
    rows = [[row.get(i, 0.0) for i in range(compliance.size)] for row in compliance.rows]
    responses = [compliance.response(unit) for unit in np.eye(compliance.size).tolist()]
    axes = [x for point in points for axis in point.axes for x in axis]
    return {
        "gap": as_traced([point.geometry.gap for point in points]),
        "axes": as_traced(axes).reshape(count, 3, 3),
        "velocity": as_traced(c).reshape(count, 3),
        "free": as_traced(d).reshape(count, 3),
        "terms": as_traced(terms).reshape(count, 3),
        "rows": as_traced([x for row in rows for x in row]).reshape(3 * count, compliance.size),
        "response": as_traced([x for one in responses for x in one]).reshape(-1, plan.nv),
        "friction": as_traced([x for one in surfaces for x in one[:2]]).reshape(count, 2),
        "vd": as_traced(list(vd)),
        "guess": as_traced([x / GUESS_STEP for x in guess.p]).reshape(count, 3),
        "slips": as_traced(slips),
    }


@public
@takes_conditions
def contact_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    pairs: Pairs | None = None,
    last: ArrayLike | None = None,
    force_tolerance: float = 1e-9,
    acceleration_tolerance: float = 1e-9,
    closure: bool | None = None,
    **conditions: Unpack[StateCall],
) -> ContactDynamics:
    """Compute contact forces with Coulomb friction, the modes of contacts, and accelerations.

    Contacts are rigid and closed where shapes touch without moving apart. Each breaks, sticks or
    slides (Featherstone 1987, sections 9.6 and 9.7, with friction on the exact cone): static
    friction holds contacts at rest, kinetic friction acts against slip. What can stick does.

    One state or a batch: leading dimensions of all arrays broadcast.

    Args:
        model: The robot; its loops are closed.
        q: Configuration [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv), with which no contact closes.
        tau: Joint force [N or N m], shape (..., nv).
        pairs: As in `contacts`.
        last: Forces of an earlier call [N], shape (..., points, 3): of several solutions, the
            nearest to these is returned; by default the one with the least forces.
        force_tolerance: Forces below this part of the largest count as zero.
        acceleration_tolerance: Accelerations below this part of the largest without contact count
            as zero.
        closure: Whether to refuse states with open loops, and velocities that open them; see
            `forward_dynamics`.
        conditions: What acts on the robot, and when: see `Conditions`; `parameters`, also friction
            of the ground and of contacts, such as "ground.static_friction".

    Raises:
        DomainError: If shapes overlap, or approach each other: `impact` computes collisions.
        ModelError: If nothing can touch.
        SecondOrderCollisionError: If contacts press on each other however large their forces are,
            because surfaces curve or prescribed motion leaves no room; the message names them.

    Warns:
        ModelWarning: If surfaces have torsional or rolling friction, which is left out.

    Example:
        ``tb.contact_dynamics(dog, q, v, tau, world=floor).modes``
    """
    if not STATE_CALL.issuperset(conditions):
        raise unexpected_keyword("contact_dynamics", STATE_CALL, conditions)
    world, fluid = conditions.get("world"), conditions.get("fluid")
    check_places(model, world)
    place = world_with(world, fluid) or DEFAULT_WORLD
    candidates = candidates_of(model, place, pairs)
    if not candidates:
        raise ModelError(
            f"model {model.name!r}: expected shapes that may touch, got none; give the world a "
            "Ground, and the robot contact points or collision shapes"
        )
    refuse_meshes(candidates, "contact_dynamics")
    warn_of_turning(candidates, "contact_dynamics")
    tolerances = (
        _share("force_tolerance", force_tolerance),
        _share("acceleration_tolerance", acceleration_tolerance),
    )
    check = closure_options(model, closure)
    given = conditions.pop("parameters", None)
    numbers, others = surfaces_by_name(
        "contact_dynamics", FRICTION, model, place, candidates, given
    )
    if others is not None:
        conditions["parameters"] = others
    names = tuple(name for candidate in candidates for name in candidate.point_names)
    counts = [candidate.point_count for candidate in candidates]
    owner = np.repeat(np.arange(len(candidates)), counts)

    def called(function: Any, some: Sequence[int]) -> Any:
        """Call a function for some of the candidates."""
        options = (("candidates", tuple(candidates[k].form() for k in some)), *check)
        own = np.asarray(numbers)[..., number_places(candidates, some)]
        return function.call(model, (q, v, tau, own), conditions, options)

    every = tuple(range(len(candidates)))
    posed: dict[tuple[int, ...], _Posed] = {}

    def problem_of(some: tuple[int, ...]) -> _Posed:
        if some not in posed:
            posed[some] = _Posed(*(np.asarray(x) for x in called(_problem, some)))
        return posed[some]

    many = len(names) > MOST_POINTS
    if many:
        gap, speed = (np.asarray(x) for x in called(_closing, every))
    else:
        gap, speed = problem_of(every).gap, problem_of(every).velocity[..., 2]
    _check_motion(names, gap, speed)
    batch, count = gap.shape[:-1], len(names)
    before = np.zeros((*batch, count, 3))
    if last is not None:
        earlier = np.asarray(last, dtype=np.float64)
        try:
            before = np.broadcast_to(earlier, before.shape)
        except ValueError:
            raise ShapeError("last", f"{(*batch, count, 3)}", f"{earlier.shape}") from None
    found = ContactDynamics(
        names,
        np.full(gap.shape, "separated", dtype="U9"),
        np.zeros((*batch, count, 3)),
        np.zeros((*batch, model.nv)),
        np.full(batch, "one", dtype="U7"),
        np.zeros(batch, dtype=np.int64),
        np.zeros(batch, dtype=np.int64),
        np.zeros(batch),
    )
    for case in np.ndindex(*batch):
        closed = np.flatnonzero((gap[case] <= TOUCHING_GAP) & (speed[case] <= AT_REST))
        # each case has the code of its own contacts, in a batch and alone
        some = _of_bodies(candidates, owner[closed]) if many else every
        here = problem_of(some).of(case)
        found.vd[case] = here.vd
        if not len(closed):
            continue
        # their places among the points of the candidates that are posed
        at = np.searchsorted(np.flatnonzero(np.isin(owner, some)), closed)
        rows = here.rows.reshape(-1, 3, here.rows.shape[-1])[at].reshape(3 * len(at), -1)
        slip = here.velocity[at, :2]
        moves = np.hypot(slip[:, 0], slip[:, 1]) > AT_REST
        problem = ContactProblem(
            rows @ rows.T,
            here.free[at].reshape(-1),
            np.where(moves[:, None], slip, 0.0),
            here.friction[at, 0],
            here.friction[at, 1],
            None,
            *tolerances,
            float(here.terms[at].max()),
        )
        # forces on the first body in world axes: the negated ones along the axes of a point
        axes = here.axes[at]
        turned = np.einsum("kij,kj->ki", axes, -before[case][closed])
        try:
            answers = solve_modes(problem, here.guess[at], here.slips[at] > 0.5)
        except SecondOrderCollisionError:
            answers = None
        if answers is None or not answers.found:
            C, d = problem.G[2::3, 2::3], problem.d[2::3]
            pressed = [names[k] for k in closed]
            error = contradiction(C, d, pressed, partial(driven_joints, model, candidates))
            if error is not None:
                raise error
        if answers is None:
            raise refuse(C, d, pressed)
        _fill(found, case, closed, problem, answers, turned, axes, rows, here.response)
    return found


class _Posed(NamedTuple):
    """What `_problem` returns, of one state or many; batch dimensions lead."""

    gap: Array
    """[m], shape (points,)."""
    axes: Array
    """Two tangents and the normal of each point, world axes, shape (points, 3, 3)."""
    velocity: Array
    """Relative velocities along them [m/s], shape (points, 3)."""
    free: Array
    """Relative accelerations without contact forces [m/s^2], shape (points, 3)."""
    terms: Array
    """Sums of the magnitudes of their terms [m/s^2]."""
    rows: Array
    """Jacobian in the metric of the mass matrix, J H^-1/2."""
    response: Array
    """H^-1/2, transposed."""
    friction: Array
    """Static and kinetic coefficients, shape (points, 2)."""
    vd: Array
    """Joint accelerations without contact forces [m/s^2 or rad/s^2], shape (nv,)."""
    guess: Array
    """Forces that a short time step finds [N]."""
    slips: Array
    """Whether points slip in that step: 1 or 0."""

    def of(self, case: tuple[int, ...]) -> Self:
        """Return one state of a batch."""
        return self._replace(**{name: x[case] for name, x in self._asdict().items()})


def _of_bodies(candidates: Sequence[Candidate], touching: NDArray[np.intp]) -> tuple[int, ...]:
    """Return the candidates of all pairs of bodies of which one touches; the first of all if none.

    Bodies come and go as a whole: a robot that walks needs less code than with each point apart.
    """

    def bodies(k: int) -> tuple[str, str]:
        return candidates[k].first.body, candidates[k].second.body

    pairs = {bodies(k) for k in touching.tolist()}
    return tuple(k for k in range(len(candidates)) if bodies(k) in pairs) or (0,)


def _fill(
    found: ContactDynamics,
    case: tuple[int, ...],
    closed: NDArray[np.intp],
    problem: ContactProblem,
    answers: Solutions,
    before: Array,
    axes: Array,
    rows: Array,
    response: Array,
) -> None:
    """Store what is found for one state."""
    if not answers.found:
        found.solutions[case] = "none" if answers.complete else "unknown"
        found.vd[case] = np.nan
        found.forces[case][closed] = np.nan
        found.residual[case] = np.nan
        return
    if len(answers.found) > 1:
        found.solutions[case] = "several"
    elif not answers.complete:
        found.solutions[case] = "unknown"
    best = min(answers.found, key=lambda one: float(np.abs(one.f - before).max()))
    found.vd[case] += response.T @ (rows.T @ best.f.reshape(-1))
    found.forces[case][closed] = -np.einsum("kij,ki->kj", axes, best.f)
    found.rank[case], found.unknowns[case] = best.rank, best.unknowns
    found.residual[case] = _violation(problem, best)
    found.modes[case][closed] = _mode_names(problem, best)


def _mode_names(problem: ContactProblem, solution: ModeSolution) -> list[str]:
    """Return the modes of closed points in words."""
    least_force, least_acceleration = problem.least_force(solution.f), problem.least_acceleration
    names = []
    for k, mode in enumerate(solution.modes):
        force, acceleration = solution.f[k, 2], solution.a[k, 2]
        smooth = not (problem.static_friction[k] or problem.kinetic_friction[k])
        if force <= least_force:
            opens = acceleration > least_acceleration
            names.append("breaking" if mode == BREAKING and opens else "inactive")
        elif smooth:
            names.append("remaining")
        else:
            names.append("sliding" if mode == SLIDING else "sticking")
    return names


def _violation(problem: ContactProblem, solution: ModeSolution) -> float:
    """Return the largest violation of the conditions on accelerations [m/s^2]."""
    worst = 0.0
    for mode, a in zip(solution.modes, solution.a, strict=True):
        if mode == BREAKING:
            worst = max(worst, -float(a[2]))
        else:
            worst = max(worst, float(np.abs(a[2:] if mode == SLIDING else a).max()))
    return worst


def _check_motion(names: tuple[str, ...], gap: Array, speed: Array) -> None:
    """Refuse states with penetration or collisions."""

    def check(values: Array, tolerance: float, expected: str, given: str, advice: str) -> None:
        if not values.size or values.min() >= -tolerance:
            return
        *case, point = np.unravel_index(int(np.argmin(values)), values.shape)
        at = f" in case {tuple(map(int, case))}" if case else ""
        given = given.format(-float(values.min()))
        raise DomainError(f"contact {names[point]!r}", expected, f"{given}{at}", advice=advice)

    check(
        gap,
        TOUCHING_GAP,
        "shapes that touch at most",
        "a penetration of {:.3g} m",
        "move the robot, or use q=tb.lift_out(model, q, world=world)",
    )
    check(
        np.where(gap <= TOUCHING_GAP, speed, 0.0),
        AT_REST,
        "shapes that do not approach each other",
        "an approach at {:.3g} m/s",
        "take the velocity after the collision: tb.impact(model, q, v, world=world).v",
    )


def _share(name: str, value: float) -> float:
    number = positive(name, value)
    if number >= 1.0:
        raise DomainError(name, "a number between 0 and 1", f"{value!r}")
    return number
