"""Checks of a robot's contacts: geometry, momentum, weight, and bits of runs with rigid contact."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tiburon.actuation.contact_models import RigidContact
from tiburon.arrays import Array, NDArray
from tiburon.checks.model_check import FAILED, SKIPPED, Finding, judged
from tiburon.contact.candidates import Candidate, candidates_of
from tiburon.control.standing import hold_stance
from tiburon.errors import DomainError, ModelError
from tiburon.functions.contact import contacts_among, lift_out
from tiburon.functions.kinematics import momentum
from tiburon.model import WORLD, Ground, Model, World
from tiburon.results.quantities import values_of
from tiburon.results.record import Record
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.execution import Execution
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.simulate import simulate

MAX_POINTS = 64
"""Most contact points whose runs are checked: more take long to compile."""

MAX_GAP = 1e3
"""Gap above which shapes are out of each other's reach [m]."""

STEP = 1e-6
"""Time of finite differences of gaps [s]."""

GAP_TOLERANCE = 1e-5
"""Largest difference between the rate of a gap and its finite difference, relative to the speed of
the fastest point: rounding of gaps of some meters is 1e-9 of them, curvature of the motion below
that. Points that change their corner within the step are left out."""

MOMENTUM_TOLERANCE = 1e-3
"""Largest difference between momentum and the impulse of forces, relative to the momentum that
passes: impulses act in the configuration at the end of each step, an error of order 2 in the length
of the step, or of order 1 where velocities jump."""

STEPS = (1e-3, 1.25e-4)
"""Lengths of steps [s]; momentum is judged with the second where the first leaves too large an
error."""

WEIGHT_TOLERANCE = 1e-2
"""Largest difference between the mean contact force of a robot at rest and its weight, relative:
held joints still swing a little."""

FALL, REST = 0.1, 1.0
"""Simulated times of the fall and of the rest [s]."""


def contact_checks(
    model: Model, start: Array, world: World, seed: int
) -> Iterator[tuple[str, Callable[[], list[Finding]]]]:
    """Yield the checks of contact of a robot in a world with ground.

    Args:
        model: The robot.
        start: Configuration about which it is checked [m or rad], shape (nq,).
        world: Surroundings with ground.
        seed: Seed of the random states.
    """
    try:
        candidates = candidates_of(model, world)
    except ModelError as error:
        text = f"not applicable: {error}"
        yield "contact", lambda: [Finding("contact", SKIPPED, text)]
        return
    if not candidates:
        yield "contact", lambda: [Finding("contact", SKIPPED, "nothing can touch")]
        return
    random = np.random.default_rng(seed)
    kick = 0.5 * random.standard_normal(model.nv)
    if not model.loops:
        yield "contact geometry", lambda: [_geometry(model, candidates, start, kick)]
    count = sum(candidate.point_count for candidate in candidates)
    if count > MAX_POINTS:
        text = f"{count} contact points take long to compile; up to {MAX_POINTS} are checked"
        yield "contact runs", lambda: [Finding("contact runs", SKIPPED, text)]
        return
    yield "contact runs", lambda: list(_runs(model, candidates, start, kick, world))


def _geometry(
    model: Model, candidates: tuple[Candidate, ...], start: Array, kick: Array
) -> Finding:
    """Check normals and relative velocities against finite differences of gaps."""
    name = "contact geometry"
    states = np.asarray(model.integrate(start, 0.1 * kick))
    before, here, after = (
        contacts_among(model, candidates, model.integrate(states, h * kick), kick)
        for h in (-STEP, 0.0, STEP)
    )
    assert here.velocity is not None
    rate = np.sum(here.velocity * here.normal, axis=-1)
    near = np.abs(here.gap) < MAX_GAP
    # a corner or facet that changes within the step has no rate
    smooth = np.linalg.norm(after.normal - before.normal, axis=-1) < 1e-3
    smooth &= np.linalg.norm(after.point - before.point, axis=-1) < 1e-3
    used = near & smooth
    if not used.any():
        return Finding(name, SKIPPED, "no contact is in reach")
    speed = float(np.linalg.norm(here.velocity[used], axis=-1).max()) + 1e-12
    found = (after.gap - before.gap)[used] / (2.0 * STEP)
    error = float(np.abs(found - rate[used]).max()) / speed
    unit = float(np.abs(np.linalg.norm(here.normal[used], axis=-1) - 1.0).max())
    text = f"rates of {int(used.sum())} gaps and their normals against finite differences"
    return judged(name, max(error, unit), GAP_TOLERANCE, text)


def _runs(
    model: Model, candidates: tuple[Candidate, ...], start: Array, kick: Array, world: World
) -> Iterator[Finding]:
    """Yield findings about runs with contact: a fall, a rest, bits of batches."""
    place, reason = _without_penetration(model, start, world)
    if place is None:
        yield Finding("contact runs", SKIPPED, reason)
        return
    v = 0.4 * kick
    if model.loops:
        v = np.zeros(model.nv)

    def fall(q: Array, v: Array, dt: float = STEPS[0]) -> Trajectory:
        quiet = Execution(progress=False)
        settings = partial(
            simulate, model, FALL, world=world, contact=RigidContact(), execution=quiet
        )
        return settings(q=q, v=v, method=RK4(dt=dt), record=Record(every=1))

    run = fall(place, v)
    if run.outcome.status != "finished":
        yield Finding("contact runs", FAILED, f"the run ended early: {run.outcome.message}")
        return
    summary = run.contact_summary()
    yield judged(
        "contact impulses",
        summary.residual,
        1e-6,
        f"residual of the impulses over {FALL:g} s, relative to the largest of each step",
    )
    momentum_found = _momentum(model, candidates, run, world)
    if momentum_found.verdict == FAILED:
        momentum_found = _momentum(model, candidates, fall(place, v, STEPS[1]), world)
    yield momentum_found
    yield _bits(run, fall(np.tile(place, (3, 1)), np.stack([v, 0.5 * v, np.zeros_like(v)])))
    yield from _weight(model, candidates, place, world)


def _without_penetration(model: Model, start: Array, world: World) -> tuple[Array | None, str]:
    """Return a configuration from which a run may start, or the reason that there is none."""
    touching = contacts_among(model, candidates_of(model, world), start)
    if np.all(touching.gap >= 0.0):
        return start, ""
    if model.loops:
        return None, "the pose is in the ground; name one that is not with --pose"
    try:
        return np.asarray(lift_out(model, start, world=world)), ""
    except DomainError as error:
        return None, f"the pose cannot be moved out of the ground: {error}"


def _momentum(
    model: Model, candidates: tuple[Candidate, ...], run: Trajectory, world: World
) -> Finding:
    """Check that weight and recorded contact forces change the linear momentum."""
    name = "contact momentum"
    roots = [body.joint.kind for body in model.bodies if body.parent == WORLD]
    if any(kind != "free" for kind in roots):
        return Finding(name, SKIPPED, "joints to the world exchange momentum with it")
    # between two bodies of the robot forces cancel; those of the ground act on the first
    force = values_of(run, "contact_force")[1:][:, _grounded(candidates)]
    h = np.asarray(momentum(model, run.q, run.v))[:, 3:]
    dt = np.diff(run.time)[:, None]
    weight = model.total_mass * np.array(world.gravity)
    impulse = np.cumsum(dt * (force.sum(axis=1) + weight), axis=0)
    passed = float(np.sum(dt[:, 0] * np.linalg.norm(force, axis=-1).sum(axis=1)))
    scale = passed + model.total_mass * float(np.linalg.norm(world.gravity)) * FALL
    error = float(np.abs(h[1:] - h[0] - impulse).max()) / scale
    text = f"momentum against the impulse of weight and contact forces over {FALL:g} s"
    text += f", steps of {1e3 * dt[0, 0]:.3g} ms"
    return judged(name, error, MOMENTUM_TOLERANCE, text)


def _grounded(candidates: tuple[Candidate, ...]) -> NDArray[np.bool_]:
    """Return which contact points are with the ground."""
    return np.array([c.second.body == WORLD for c in candidates for _ in range(c.point_count)])


def _bits(one: Trajectory, many: Trajectory) -> Finding:
    """Check that the first case of a batch has the bits of the run alone."""
    differences = [
        float(np.abs(alone - together[:, 0]).max(initial=0.0))
        for alone, together in ((one.q, many.q), (one.z, many.z))
    ]
    text = "positions and contact forces of one robot and of a batch, bit for bit"
    return judged("contact in batches", max(differences), 0.0, text)


def _weight(
    model: Model, candidates: tuple[Candidate, ...], place: Array, world: World
) -> Iterator[Finding]:
    """Yield whether a robot that rests in a pose on the ground is carried by it."""
    name = "weight at rest"
    here = contacts_among(model, candidates, place)
    on_ground = _grounded(candidates)
    if model.loops or not np.any((np.abs(here.gap) < 1e-6) & on_ground):
        yield Finding(name, SKIPPED, "the pose does not stand on the ground; name one with --pose")
        return
    if any(body.joint.kind != "free" for body in model.bodies if body.parent == WORLD):
        yield Finding(name, SKIPPED, "joints to the world carry a part of the weight")
        return
    run = simulate(
        model,
        REST,
        q=place,
        world=world,
        contact=RigidContact(),
        control=hold_stance(model, place),
        record=Record(every=1),
        execution=Execution(progress=False),
    )
    if run.outcome.status != "finished":
        yield Finding(name, FAILED, f"the run ended early: {run.outcome.message}")
        return
    later = run.time[1:] > 0.5 * REST
    force = values_of(run, "contact_force")[1:][:, on_ground].sum(axis=1)
    weight = model.total_mass * np.array(world.gravity)
    h = np.asarray(momentum(model, run.q, run.v))[:, 3:]
    span = float(run.time[-1]) - 0.5 * REST
    # what has not come to rest yet, or slides down a slope, is accelerated
    accelerated = (h[-1] - h[int(np.argmax(later))]) / span
    error = float(np.linalg.norm(force[later].mean(axis=0) + weight - accelerated))
    text = f"mean contact force of {np.linalg.norm(weight):.4g} N of weight, joints held"
    yield judged(name, error / float(np.linalg.norm(weight)), WEIGHT_TOLERANCE, text)


def default_world() -> World:
    """Return the world of robots that come without one: level ground with friction 0.8."""
    return World(ground=Ground(static_friction=0.8))
