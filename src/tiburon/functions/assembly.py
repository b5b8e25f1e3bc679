"""Assembly: configurations with closed loops, from rough guesses, with chosen joints held.

`assemble` takes damped Newton steps from the guess. If these do not converge to a closed
configuration, it starts from random ones near the guess and anywhere, and returns the closed
configuration nearest to the guess. A configuration in which the joint closing a loop would have to
be reversed, which no residual detects, is rejected.

`assembly_branches` finds all assembly modes. With the actuated joints held this is forward
kinematics of a parallel robot, with its platform placed inverse kinematics: legs of three joints
have up to four solutions each, so p legs up to 4^p (Nahon 1991, section 3.1.2). Random starts
continue until they find no new branch. Labels are signs that change only where two branches meet in
a singular configuration: for each leg the sign of the determinant of its Jacobian, then that of the
joints that are not held.

Residual and Jacobian are compiled and evaluated for all starts at once. The steps are those of
`tiburon.algorithms.levenberg_marquardt` (damping proportional to the squared residual, Yamashita
and Fukushima 2001) on the configuration manifold, written over arrays because the number of loops
may be large.

`closed_start` makes initial states of runs: closed, and at rest only in regular configurations.

Symbols: r residual, J its derivative by free joint velocities, lam damping.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.levenberg_marquardt import (
    DAMPING_DECREASE,
    DAMPING_INCREASE,
    INITIAL_DAMPING,
    MAX_DAMPING,
    MIN_DAMPING,
    MIN_REGULARIZATION,
)
from tiburon.argument_checks import at_least
from tiburon.arguments import caller_level, public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import (
    DomainError,
    LoopError,
    ModelError,
    ModelWarning,
    OptionError,
    ShapeError,
    UnknownNameError,
)
from tiburon.functions.closed_loops import (
    constraint_residual,
    loop_jacobian,
    project_configuration,
    project_velocity,
)
from tiburon.functions.kinematics import forward_kinematics, frame_jacobian
from tiburon.functions.mobility import (
    check_disagreement,
    check_weak_constraints,
    closed_nearby,
    constraint_words,
    is_disagreement,
    known_pose,
    nearly_redundant,
    null_space,
)
from tiburon.functions.parameters import CaseRows, geometry_of, with_geometry_of
from tiburon.loops.constraints import (
    Constraints,
    constraint_names,
    constraints,
    is_velocity_constraint,
    jacobian_pattern,
)
from tiburon.loops.cut_joints import about, cut_joint, joint_screws, places_of
from tiburon.loops.projection import CLOSURE_TOLERANCE, MAX_RESIDUAL, START_TOLERANCE
from tiburon.loops.topology import Topology, topology
from tiburon.model import LoopClosure, Model, Pose
from tiburon.model.composition import locked_positions
from tiburon.record import record

MAX_LISTED = 4
"""Most loops that a warning lists."""

LEAST_DECREASE = 1e-9
"""A step that lowers the squared error by less than this part has arrived."""


class Closing(NamedTuple):
    """What is to be brought to zero, and by which joints."""

    model: Model
    free: NDArray[np.intp]
    """Velocity variables that may change."""
    places: Mapping[str, Pose]
    """Frames that are to lie somewhere in the world."""

    def errors(self, q: Array) -> Array:
        """Return residuals of loops, then pose errors of frames [rad, m], shape (n, rows)."""
        found = [constraint_residual(self.model, q)] if self.model.loops else []
        for frame, pose in self.places.items():
            R, p = forward_kinematics(self.model, q, frame)
            E = R @ np.array(pose.rotation).T
            twice = np.sqrt(np.maximum(1.0 + np.trace(E, axis1=-2, axis2=-1), 1e-12))
            vector = np.stack(
                [E[:, 2, 1] - E[:, 1, 2], E[:, 0, 2] - E[:, 2, 0], E[:, 1, 0] - E[:, 0, 1]], axis=-1
            )
            found += [vector / twice[:, None], p - np.array(pose.translation)]
        return np.concatenate(found, axis=-1)

    def rates(self, q: Array) -> Array:
        """Return how the errors change with the free variables, shape (n, rows, free)."""
        found = [loop_jacobian(self.model, q)] if self.model.loops else []
        if found:
            # what binds velocities alone does not bind where a robot may be put
            found[0] = np.where(
                np.array(is_velocity_constraint(self.model))[:, None], 0.0, found[0]
            )
        found += [frame_jacobian(self.model, q, frame) for frame in self.places]
        return np.asarray(np.concatenate(found, axis=-2)[..., self.free])


class Descended(NamedTuple):
    """Where the steps led, one entry per start."""

    q: Array
    errors: Array
    """Shape (n, rows)."""

    @property
    def residual(self) -> Array:
        """Largest error of each [m or rad], shape (n,)."""
        return np.asarray(np.abs(self.errors).max(axis=-1, initial=0.0))


def descend_all(
    closing: Closing, starts: Array, tolerance: float, max_iterations: int
) -> Descended:
    """Lower the errors from many starts, until each is small enough or no step helps.

    Args:
        closing: What is to be closed.
        starts: Positions [m or rad], shape (n, nq).
        tolerance: Largest error that counts as closed [m or rad].
        max_iterations: Most steps.
    """
    model = closing.model
    q = np.array(starts, dtype=np.float64)
    r = closing.errors(q)
    mu = np.full(len(q), INITIAL_DAMPING)
    active = np.abs(r).max(axis=-1, initial=0.0) > tolerance
    for _ in range(max_iterations):
        if not active.any() or not closing.free.size:
            break
        now = np.flatnonzero(active)
        square = (r[now] ** 2).sum(axis=-1)
        step = np.zeros((len(now), model.nv))
        step[:, closing.free] = _damped(closing.rates(q[now]), r[now], mu[now] * square)
        # no joint should turn round and round in one step
        step /= np.maximum(1.0, np.abs(step).max(axis=-1))[:, None]
        trial = model.normalize(model.integrate(q[now], step))
        new = closing.errors(trial)
        new_square = (new**2).sum(axis=-1)
        better = new_square < square
        gained = square - new_square > LEAST_DECREASE * square
        q[now[better]], r[now[better]] = trial[better], new[better]
        mu[now] = np.where(
            better, np.maximum(mu[now] * DAMPING_DECREASE, MIN_DAMPING), mu[now] * DAMPING_INCREASE
        )
        done = np.abs(r[now]).max(axis=-1) <= tolerance
        stuck = (better & ~gained) | (mu[now] > MAX_DAMPING)
        active[now] = ~(done | stuck)
    return Descended(q, r)


def _damped(J: Array, r: Array, lam: Array) -> Array:
    """Return the steps -(J^T J + lam)^-1 J^T r by the smaller of the two matrices."""
    rows, columns = J.shape[-2:]
    wide = rows <= columns
    J_t = np.swapaxes(J, -1, -2)
    gram = J @ J_t if wide else J_t @ J
    damping = lam + MIN_REGULARIZATION * np.trace(gram, axis1=-2, axis2=-1) + 1e-300
    gram = gram + damping[:, None, None] * np.eye(gram.shape[-1])
    right = r if wide else (J_t @ r[..., None])[..., 0]
    solved = np.linalg.solve(gram, right[..., None])
    return -np.asarray(J_t @ solved if wide else solved)[..., 0]


def spread_starts(
    model: Model, guess: Array, free: Sequence[int], count: int, rng: np.random.Generator
) -> Array:
    """Return starts near and far: half of them around a guess, half anywhere, held joints kept.

    Random positions of joints with limits stay within these.
    """
    steps = np.zeros((count, model.nv))
    around = rng.uniform(0.1, 1.5, (count, 1)) * rng.standard_normal((count, len(free)))
    steps[:, list(free)] = around
    starts = model.integrate(np.broadcast_to(guess, (count, model.nq)), steps)
    anywhere, _ = model.random_state(rng, (count - count // 2,))
    own = set(free)
    for joint in model.joints:
        v, q = model.slice(joint.name, of="v"), model.slice(joint.name)
        if joint.follows is not None or not joint.nv or not own.issuperset(range(v.start, v.stop)):
            continue
        starts[count // 2 :, q] = anywhere[:, q]
    return starts


Hold = str | Iterable[str] | Mapping[str, ArrayLike]
"""Joints by name, or their positions by name."""

GIVEN_CLOSED = 1e-9
"""Residual up to which a given configuration counts as closed [m or rad]."""

NEARLY_CLOSED = 1e-3
"""Residual up to which constraints that cannot be closed may be nearly redundant [m or rad]."""

LARGEST_FIT_ERROR = 1e-5
"""How well a joint that closes a loop must fit; head to tail it misses by half a turn."""


@record(eq=False)
class Assembly:
    """Positions with closed loops."""

    q: Array
    """Position [m or rad], shape (..., nq)."""

    residual: Array
    """Largest remaining constraint residual [m or rad], shape (...)."""

    starts: NDArray[np.int64]
    """How many starts it took, shape (...): 1 where the guess itself led there."""


@public
def assemble(
    model: Model,
    guess: ArrayLike | None = None,
    *,
    hold: Hold = (),
    place: Mapping[str, Pose] | None = None,
    starts: int = 64,
    seed: int = 0,
    tolerance: float = 1e-12,
    max_iterations: int = 100,
) -> Assembly:
    """Close the loops of a robot from a rough guess, with chosen joints held.

    The result is the nearest closed position found, not the nearest there is. One guess or a batch
    of them. `Driven` joints stand where they are at time zero.

    Args:
        model: The robot; it has loops.
        guess: Where to start [m or rad], shape (..., nq); by default its pose "home" or "stand" or
            the neutral one.
        hold: Joints that stay where the guess has them, by name, or with their positions
            [m or rad] by name.
        place: Frames that are to lie somewhere, by name: their pose in the world.
        starts: How many starts to try at most: the guess, then some around it and anywhere.
        seed: Of the random starts.
        tolerance: Gap that counts as closed [m or rad].
        max_iterations: Most steps from each start.

    Raises:
        LoopError: If no start led to closed loops; `residuals` has the residual of each loop.

    Example:
        ``q = tb.assemble(linkage, hold={"input": 1.0}).q``
    """
    closing, given = prepared(model, guess, hold, place or {}, starts, tolerance)
    shape = given.shape[:-1]
    rows = given.reshape(-1, model.nq)
    found = descend_all(closing, rows, tolerance, max_iterations)
    q, residual, tried = (
        np.array(found.q),
        np.array(found.residual),
        np.ones(len(rows), dtype=np.int64),
    )
    for k, row in enumerate(rows):
        if residual[k] <= tolerance and not reversed_loops(model, q[k]):
            continue
        if starts == 1:
            raise _cannot_close(closing, found.q[k], found.errors[k], 1, tolerance)
        rng = np.random.default_rng((seed, k))
        again = spread_starts(model, row, closing.free.tolist(), starts - 1, rng)
        more = descend_all(closing, again, tolerance, max_iterations)
        best = _nearest(model, row, more, tolerance)
        if best is None:
            least = int(np.argmin(more.residual))
            _check_redundancy(closing, found.q[k], float(residual[k]))
            _check_redundancy(closing, more.q[least], float(more.residual[least]))
            if more.residual[least] > residual[k]:
                raise _cannot_close(closing, found.q[k], found.errors[k], starts, tolerance)
            raise _cannot_close(closing, more.q[least], more.errors[least], starts, tolerance)
        q[k], residual[k], tried[k] = more.q[best], more.residual[best], best + 2
    return Assembly(q.reshape(given.shape), residual.reshape(shape), tried.reshape(shape))


def is_closed(model: Model, q: ArrayLike, tolerance: float = GIVEN_CLOSED) -> bool:
    """Return whether all loops of a robot are closed at a position.

    Args:
        model: The robot.
        q: Position [m or rad], shape (nq,).
        tolerance: Gap that counts as closed [m or rad].

    Returns:
        Whether no residual is larger, and no joint is assembled in reverse.
    """
    position = model.normalize(q)
    residuals = constraints(model, model.plan, [float(x) for x in position]).value
    # a non-finite value is not closed either
    wide = not all(abs(float(residual)) <= tolerance for residual in residuals)
    return not wide and not reversed_loops(model, position)


def reversed_loops(model: Model, q: Array) -> tuple[str, ...]:
    """Return the loops whose joint is reversed, which no residual detects."""
    places = places_of(model, q)
    closures = [loop for loop in model.loops if isinstance(loop, LoopClosure)]
    return tuple(
        loop.name for loop in closures if cut_joint(loop, places).error > LARGEST_FIT_ERROR
    )


def prepared(
    model: Model,
    guess: ArrayLike | None,
    hold: Hold,
    place: Mapping[str, Pose],
    starts: int,
    tolerance: float,
) -> tuple[Closing, Array]:
    """Check the arguments; return what is to be closed, and guesses of shape (..., nq)."""
    if not model.loops and not place:
        raise ModelError(
            f"model {model.name!r}: assemble is for robots with loops, got none; give it "
            "loops=(LoopClosure(...), ...)"
        )
    if starts < 1:
        raise OptionError("starts", ("an integer of at least 1",), starts)
    if not tolerance > 0.0:
        raise DomainError("tolerance", "a residual above 0 [m, rad]", f"{tolerance!r}")
    for frame in place:
        if frame not in model.frame_names[1:]:
            raise UnknownNameError(
                "body or frame", frame, model.frame_names[1:], where="place",
                listing="model.frame_names",
            )  # fmt: skip
    if guess is None:
        guess = known_pose(model)
    try:
        rows = np.array(model.normalize(guess))
    except ShapeError as error:
        raise ShapeError("guess", error.expected, error.given) from None
    values = hold if isinstance(hold, Mapping) else ()
    names = (hold,) if isinstance(hold, str) else tuple(hold)
    held: set[int] = set()
    for name in names:
        v = model.slice(name, of="v")
        held.update(range(v.start, v.stop))
    if isinstance(values, Mapping):
        positions = locked_positions(values, model.joint, lambda name: model.neutral())
        for name, numbers in positions.items():
            rows[..., model.slice(name)] = model.joint(name).normalize(numbers)
    free = np.array([k for k in range(model.nv) if k not in held], dtype=np.intp)
    return Closing(model, free, dict(place)), rows


def _nearest(model: Model, guess: Array, found: Descended, tolerance: float) -> int | None:
    """Return the closed position nearest to a guess, by its number."""
    far = np.linalg.norm(model.difference(np.broadcast_to(guess, found.q.shape), found.q), axis=-1)
    for k in np.argsort(far, kind="stable").tolist():
        if found.residual[k] <= tolerance and not reversed_loops(model, found.q[k]):
            return int(k)
    return None


def _check_redundancy(closing: Closing, q: Array, residual: float) -> None:
    """Refuse constraints that disagree by little where a start led.

    Raises:
        LoopError: If they do.
    """
    model = closing.model
    if residual <= NEARLY_CLOSED and len(closing.free) == model.nv and not closing.places:
        _, left, J = closed_nearby(model, q)
        if is_disagreement(J, left):
            raise nearly_redundant(model, left)


def _cannot_close(
    closing: Closing, q: Array, errors: Array, starts: int, tolerance: float
) -> LoopError:
    """Return the error about loops that stay open, with the residual of each."""
    model = closing.model
    words = constraint_words(model)
    sizes = np.abs(errors[: len(words)])
    residuals: dict[str, float] = {loop.name: 0.0 for loop in model.loops}
    for name, size in zip((w.split(": ")[0] for w in words), sizes.tolist(), strict=True):
        residuals[name] = max(residuals[name], size)
    where = f"model {model.name!r}"
    if not np.abs(errors).max(initial=0.0) > tolerance:
        names = ", ".join(repr(name) for name in reversed_loops(model, q))
        return LoopError(
            f"{where}: loop {names}: its joint fits only head to tail, after {starts} starts; turn "
            "the axis of one of its frames round",
            residuals,
        )
    in_use = jacobian_pattern(model) if model.loops else ()
    for k, size in enumerate(sizes.tolist()):
        if size > tolerance and not in_use[k]:
            return LoopError(
                f"{where}: loop {words[k].split(': ')[0]!r} cannot close, no joint moves its "
                f"{words[k].split(': ')[1]}, which is {size:.3g}; check poses and axes of both "
                "frames",
                residuals,
            )
    open_loops = sorted(
        (name for name in residuals if residuals[name] > tolerance), key=lambda n: -residuals[n]
    )
    listed = ", ".join(f"{name!r} by {residuals[name]:.3g}" for name in open_loops[:8])
    if not listed:
        listed = f"frames miss their places by {np.abs(errors).max():.3g}"
    else:
        listed = f"stay open at best {listed}"
    return LoopError(
        f"{where}: loops cannot be closed from {starts} start{'s' if starts > 1 else ''}, "
        f"{listed} [m or rad]; check lengths, hold fewer joints, or give a better guess",
        residuals,
    )


# -- branches --------------------------------------------------------------------------------------


STARTS_AT_ONCE = 64
"""Starts that are followed together."""

SAME_BRANCH = 1e-6
"""Distance of body axes and origins below which two positions are one [m and rad]."""

ZERO_DETERMINANT = 1e-9
"""Determinant, relative to the lengths of its columns, that has no sign."""


@record(eq=False)
class AssemblyBranches:
    """All ways to assemble a robot that were found."""

    q: Array
    """Positions [m or rad], shape (branches, nq); hinges between -pi and pi."""

    labels: tuple[str, ...]
    """Signs of each leg, a slash, the sign of the whole, and a number where several share them."""

    hits: tuple[int, ...]
    """How many starts led to each: where every branch has several, probably none is missing."""

    starts: int
    """How many starts were followed."""


@public
def assembly_branches(
    model: Model,
    guess: ArrayLike | None = None,
    *,
    hold: Hold = (),
    place: Mapping[str, Pose] | None = None,
    distinct: str | Iterable[str] | None = None,
    starts: int = 512,
    patience: int = 192,
    seed: int = 0,
    tolerance: float = 1e-11,
    max_iterations: int = 60,
) -> AssemblyBranches:
    """Find all ways to assemble a robot while some joints are held or some frames placed.

    Args:
        model: The robot; it has loops.
        guess: Where held joints take their positions from, and one of the starts, shape (nq,).
        hold: Joints that stay, by name, or with their positions [m or rad] by name.
        place: Frames that are to lie somewhere, by name: their pose in the world.
        distinct: Bodies that distinguish branches, such as a platform whose legs may stand
            either way; by default all.
        starts: Most starts to follow.
        patience: Starts without a new branch after which the search ends.
        seed: Of the random starts.
        tolerance: Gap that counts as closed [m or rad].
        max_iterations: Most steps from each start.

    Raises:
        LoopError: If no start led to closed loops.
        DomainError: If degrees of freedom remain, so that solutions are not isolated.

    Example:
        Forward kinematics of a platform::

            tb.assembly_branches(stewart, hold={name: 0.0 for name in stewart.actuated_joint_names})
    """
    at_least("patience", patience, 1)
    at_least("max_iterations", max_iterations, 1)
    at_least("seed", seed, 0)
    closing, given = prepared(model, guess, hold, place or {}, starts, tolerance)
    row = given.reshape(-1, model.nq)[0]
    named = (distinct,) if isinstance(distinct, str) else distinct
    bodies = model.body_names if named is None else tuple(model.body(x).name for x in named)
    if not bodies:
        raise DomainError("distinct", "one body or more", "none")
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    shapes: list[Array] = []
    hits: list[int] = []
    followed, quiet = 0, 0
    while followed < starts and quiet < patience:
        more = spread_starts(model, row, closing.free.tolist(), STARTS_AT_ONCE, rng)
        if not followed:
            more[0] = row
        followed += STARTS_AT_ONCE
        quiet += STARTS_AT_ONCE
        ended = descend_all(closing, more, tolerance, max_iterations)
        for q in ended.q[ended.residual <= tolerance]:
            shape = _shape(model, q, bodies)
            same = [
                k for k, old in enumerate(shapes) if float(np.abs(old - shape).max()) < SAME_BRANCH
            ]
            if same:
                hits[same[0]] += 1
            elif not reversed_loops(model, q):
                _check_single(closing, q)
                found.append(_unwound(model, q, closing))
                shapes.append(shape)
                hits.append(1)
                quiet = 0
    if not found:
        raise _none(model, row, hold, place)
    labels = _labels(model, closing, found)
    order = sorted(range(len(found)), key=lambda k: (labels[k], tuple(np.round(found[k], 6))))
    return AssemblyBranches(
        np.array([found[k] for k in order]),
        _numbered([labels[k] for k in order]),
        tuple(hits[k] for k in order),
        followed,
    )


def _none(model: Model, row: Array, hold: Hold, place: Mapping[str, Pose] | None) -> LoopError:
    """Return the error about a robot that cannot be assembled at all."""
    try:
        assemble(model, row, hold=hold, place=place)
    except LoopError as error:
        return error
    return LoopError(
        f"model {model.name!r}: no start led to closed loops; allow more starts (starts, patience, "
        "max_iterations) or a larger tolerance",
        {},
    )


def _shape(model: Model, q: Array, bodies: Sequence[str]) -> Array:
    """Return axes and origins of some bodies: positions that look the same are the same."""
    places = places_of(model, q)
    return np.array([[x for row in (*places[n].R, places[n].p) for x in row] for n in bodies])


def _check_single(closing: Closing, q: Array) -> None:
    """Raise if a position belongs to a family of them."""
    loose = null_space(closing.rates(q[None])[0])
    if loose.shape[1]:
        model = closing.model
        names = {model.v_names[closing.free[k]] for k in np.argmax(np.abs(loose), axis=0)}
        raise DomainError(
            "hold",
            "as many joints as the robot has degrees of freedom",
            f"{loose.shape[1]} DoF left",
            advice=f"hold more, such as {', '.join(sorted(names))}",
        )


def _unwound(model: Model, q: Array, closing: Closing) -> Array:
    """Return a position with the angles of free hinges between -pi and pi."""
    found = np.array(q)
    free = set(closing.free.tolist())
    for joint in model.joints:
        v = model.slice(joint.name, of="v")
        own = joint.kind in ("revolute", "universal") and joint.follows is None
        if own and free.issuperset(range(v.start, v.stop)):
            angles = found[model.slice(joint.name)]
            found[model.slice(joint.name)] = np.pi - (np.pi - angles) % (2.0 * np.pi)
    return found


# -- labels ----------------------------------------------------------------------------------------


def _labels(model: Model, closing: Closing, found: list[Array]) -> list[str]:
    """Return signs of legs and of the whole, one string per branch."""
    shape = topology(model)
    basis = _motions(model, shape)
    labels = []
    for q in found:
        at = joint_screws(model, q)
        legs = ""
        for path in shape.paths:
            columns = np.hstack([at.of[name].columns for name in path])
            reference = np.array(at.places[shape.poles[1]].p)
            legs += _sign(basis.T @ _about(columns, reference, basis))
        J = closing.rates(q[None])[0]
        labels.append(f"{legs}/{_whole(J)}")
    return labels


def _about(columns: Array, point: Array, basis: Array) -> Array:
    """Return screws about a point where all of space is open; planes stay as they are."""
    return about(columns, point) if basis.shape[1] == 6 else columns


def _motions(model: Model, shape: Topology) -> Array:
    """Return a basis of the motions that legs can give, shape (6, d); the same for all branches."""
    d = max((line.dimension for line in shape.joints), default=6)
    if d == 6 or not shape.paths:
        return np.eye(6)
    rng = np.random.default_rng(4)
    names = [name for path in shape.paths for name in path]
    some = [joint_screws(model, model.random_state(rng, limits=False)[0], rng).of for _ in range(3)]
    stacked = np.hstack([at[name].columns for at in some for name in names])
    return np.asarray(np.linalg.svd(stacked)[0][:, :d])


def _sign(matrix: Array) -> str:
    """Return the sign of a determinant: "0" where it vanishes, "." where there is none."""
    if matrix.shape[0] != matrix.shape[1]:
        return "."
    size = float(np.prod(np.linalg.norm(matrix, axis=0)))
    value = float(np.linalg.det(matrix))
    return "0" if abs(value) <= ZERO_DETERMINANT * size else ("+" if value > 0.0 else "-")


def _whole(J: Array) -> str:
    """Return the sign of the determinant of the live rows, where they are as many as columns."""
    live = J[np.abs(J).max(axis=1, initial=0.0) > ZERO_DETERMINANT]
    return _sign(live)


def _numbered(labels: list[str]) -> tuple[str, ...]:
    """Return labels with a number behind those that several branches share."""
    found = []
    for k, label in enumerate(labels):
        count = labels.count(label)
        found.append(f"{label} {labels[:k].count(label) + 1}" if count > 1 else label)
    return tuple(found)


RANK_TOLERANCE = 1e-5
"""Singular value of the Jacobian, relative to the largest, that counts as zero at the start."""

PROBE_DISTANCES = (0.01, 0.1, 0.1)
"""How far to look for the rank of poses nearby [m or rad]; singular values grow in proportion."""

LEAST_DISTANCE = 1e-4
"""Distance from which on a pose is another one [m or rad]."""

MOST_STEPS, LONGEST_STEP, LEAST_SINGULAR_VALUE = 40, 0.3, 1e-8
"""Newton steps that look for such a pose, the largest change of a joint in one of them [m or rad],
and the singular value, relative to the largest, that counts as none."""


class Start(NamedTuple):
    """States on the loops."""

    q: Array
    """Position [m or rad], shape (cases, nq)."""

    v: Array
    """Joint velocity [m/s or rad/s], shape (cases, nv)."""


def resting_position(model: Model) -> Array:
    """Return the default initial configuration.

    With loops the pose "home", if it has one; then the pose "initial", in which files of other
    programs start; else the neutral configuration.
    """
    for name in ("home", "initial") if model.loops else ("initial",):
        if name in model.poses:
            return np.array(model.poses[name], dtype=np.float64)
    return np.asarray(model.neutral())


def loop_names(model: Model) -> tuple[str, ...]:
    """Return, for each constraint, the name of its loop."""
    return tuple(name.rpartition(".")[0] for name in constraint_names(model))


def closed_start(
    model: Model,
    q: Array,
    v: Array,
    time: float,
    tolerance: float = 0.0,
    rows: Mapping[str, Array] | None = None,
) -> Start:
    """Check the initial states of a run, and close residuals of rounding.

    Cases in which only loops are open that may start open (`may_start_open`) are assembled, with a
    warning.

    Args:
        model: The robot; it has loops.
        q: Position [m or rad], shape (cases, nq).
        v: Joint velocity [m/s or rad/s], shape (cases, nv).
        time: When [s].
        tolerance: Within which constraints are redundant, as `simulate` takes it.
        rows: Tables of run-time parameters, of which those of the geometry count.

    Raises:
        DomainError: If loops are open, if velocities would open them, or if a case rests exactly
            in a singular configuration, where several motions are possible.
        LoopError: If constraints are nearly redundant, and disagree by more than the tolerance.
    """
    geometry = geometry_of(rows)
    residuals = np.abs(_of_cases(constraint_residual, model, q, time, geometry))
    if geometry is None and not model.plan.depends_on_time:
        wide = _closable(model, residuals, max(START_TOLERANCE, tolerance))
        if len(wide):
            q, v = _assembled_start(model, q, v, residuals, wide)
            residuals = np.abs(_of_cases(constraint_residual, model, q, time, geometry))
    if residuals.max(initial=0.0) > CLOSURE_TOLERANCE:
        found = project_configuration(model, q, time=time, parameters=geometry)
        worst = int(np.argmax(found.residual))
        if found.residual[worst] > max(MAX_RESIDUAL, tolerance) and not model.plan.depends_on_time:
            check_disagreement(with_geometry_of(model, rows, worst), found.q[worst], tolerance)
        _check_residuals(model, residuals, max(START_TOLERANCE, tolerance))
        if np.max(found.residual) > max(START_TOLERANCE, tolerance):
            left = np.abs(constraint_residual(model, found.q, time=time, parameters=geometry))
            _check_residuals(model, left, max(START_TOLERANCE, tolerance))
        # cases that are closed keep their bits
        open_cases = residuals.max(axis=1) > CLOSURE_TOLERANCE
        q = np.where(open_cases[:, None], found.q, q)
    if not model.plan.depends_on_time:
        # a matter of lengths and axes: one case is enough
        check_weak_constraints(with_geometry_of(model, rows, 0), q[0], tolerance)
    if np.any(v) or model.plan.depends_on_time:
        v = _checked_velocity(model, q, v, time, geometry)
    resting = np.flatnonzero(~v.any(axis=1))
    if len(resting):
        _check_rank(model, q[resting], time, geometry_of(rows, resting))
    return Start(q, v)


def _closable(model: Model, residuals: Array, allowed: float) -> NDArray[np.intp]:
    """Return the cases with open loops all of which may start open."""
    soft = {loop.name for loop in model.loops if getattr(loop, "may_start_open", False)}
    if not soft:
        return np.zeros(0, dtype=np.intp)
    is_soft = np.array([name in soft for name in loop_names(model)])
    is_open = residuals > allowed
    found: NDArray[np.intp] = np.flatnonzero(
        is_open.any(axis=1) & ~is_open[:, ~is_soft].any(axis=1)
    )
    return found


def _assembled_start(
    model: Model, q: Array, v: Array, residuals: Array, wide: NDArray[np.intp]
) -> Start:
    """Close the loops of some cases, and report by how much they were open and the robot moved.

    Raises:
        LoopError: If the loops of a case cannot be closed.
    """
    closed = np.array(q)
    closed[wide] = assemble(model, q[wide]).q
    v = np.array(v)
    if np.any(v[wide]):
        v[wide] = project_velocity(model, closed[wide], v[wide])
    moved = np.abs(model.difference(q[wide], closed[wide]))
    case, most = np.unravel_index(int(np.argmax(moved)), moved.shape)
    largest: dict[str, float] = {}
    for name, residual in zip(loop_names(model), residuals[wide].max(axis=0), strict=True):
        largest[name] = max(largest.get(name, 0.0), float(residual))
    listed = sorted(
        ((gap, name) for name, gap in largest.items() if gap > START_TOLERANCE), reverse=True
    )
    listing = ", ".join(f"{name!r} by {gap:.3g}" for gap, name in listed[:MAX_LISTED])
    more = f" and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
    where = f" in {len(wide)} of {len(q)} cases" if len(q) > 1 else ""
    warnings.warn(
        f"model {model.name!r}: loops were open at the start{where} ({listing}{more} [m or rad]) "
        f"and were closed: {model.v_names[int(most)]!r} moved most, by {moved[case, most]:.3g} m "
        "or rad; "
        "pass q=tb.assemble(model, q).q to choose where the robot starts",
        ModelWarning,
        stacklevel=caller_level(),
    )
    return Start(closed, v)


def check_switched_start(
    model: Model,
    q: Array,
    v: Array,
    closed: Array,
    offset: Array,
    time: float,
    tolerance: float = 0.0,
    rows: Mapping[str, Array] | None = None,
) -> None:
    """Check the states at the start of a run whose loops may be open; none of them is changed.

    Args:
        model: The robot; it has loops.
        q: Position [m or rad], shape (cases, nq).
        v: Joint velocity [m/s or rad/s], shape (cases, nv).
        closed: 1 where a constraint holds, 0 where its loop is open, shape (cases, constraints).
        offset: Value that it holds on to [m or rad], shape (cases, constraints).
        time: When [s].
        tolerance: Within which constraints are redundant, as `simulate` takes it.
        rows: Tables of run-time parameters, of which those of the geometry count.

    Raises:
        DomainError: If loops that count as closed are open, or velocities would open them.
    """
    geometry = geometry_of(rows)
    values = _of_cases(constraint_residual, model, q, time, geometry)
    residuals = np.abs(closed * (values - offset))
    _check_residuals(model, residuals, max(START_TOLERANCE, tolerance))
    if model.plan.depends_on_time:
        return
    J = _of_cases(loop_jacobian, model, q, time, geometry)
    rates = np.abs(closed * np.einsum("cij,cj->ci", J, v))
    allowed = max(START_TOLERANCE, tolerance) * (1.0 + np.abs(v).max(axis=1, keepdims=True))
    if np.any(rates > allowed):
        case = int((rates / allowed).max(axis=1).argmax())
        raise _opening(model, rates[case], _of_case(case, len(v)), ", or let the loop start open")


def _of_cases(
    function: Callable[..., Array], model: Model, q: Array, time: float, geometry: CaseRows | None
) -> Array:
    """Evaluate a function for all cases; one case alone compiles no code of batches."""
    if len(q) == 1:
        return function(model, q[0], time=time, parameters=geometry_of(geometry, 0))[None]
    return function(model, q, time=time, parameters=geometry)


def _check_residuals(model: Model, residuals: Array, allowed: float) -> None:
    if residuals.max() > allowed:
        case = int(residuals.max(axis=1).argmax())
        raise _open(model, residuals[case], allowed, _of_case(case, len(residuals)))


def _open(
    model: Model, residuals: Array, allowed: float, where: str, advice: str = ""
) -> DomainError:
    """Return the error of a case whose loops are open."""
    wide: dict[str, float] = {}
    for name, residual in zip(loop_names(model), residuals, strict=True):
        wide[name] = max(wide.get(name, 0.0), float(residual))
    listed = sorted(
        ((residual, name) for name, residual in wide.items() if residual > allowed), reverse=True
    )
    listing = ", ".join(f"loop {name!r} open by {residual:.3g}" for residual, name in listed[:3])
    return DomainError(
        "q",
        f"a position with closed loops, to {allowed:g} m or rad",
        f"{listing} m or rad{where}",
        advice="close them with tb.assemble(model, q), or from nearby with "
        f"tb.project_configuration(model, q){advice}",
    )


def _opening(model: Model, rates: Array, where: str, advice: str = "") -> DomainError:
    """Return the error of a case whose velocity opens loops."""
    row = int(rates.argmax())
    return DomainError(
        "v",
        "a velocity that keeps loops closed",
        f"one that opens loop {loop_names(model)[row]!r} by {rates[row]:.3g} m/s or rad/s{where}",
        advice=f"take tb.project_velocity(model, q, v){advice}",
    )


def open_state(
    model: Model,
    terms: Constraints,
    v: ArrayLike,
    kept: Callable[[], ArrayLike],
    where: str = "",
) -> DomainError | None:
    """Return the error of a state with open loops, or whose velocity opens them; None of others.

    Args:
        model: The robot.
        terms: Its constraints in this state; the Jacobian is not read.
        v: Joint velocity [m/s or rad/s], shape (nv,), or none of it.
        kept: Computes the velocity that `project_velocity` returns.
        where: Case of a batch, in words.
    """
    residuals, rates = (np.abs(np.array(x, dtype=np.float64)) for x in (terms.value, terms.rate))
    advice = ", or pass closure=False to compute with it"
    advice += "; errors='flag' marks such cases" if where else ""
    if residuals.max(initial=0.0) > START_TOLERANCE:
        return _open(model, residuals, START_TOLERANCE, where, advice)
    speed = np.asarray(v, dtype=np.float64)
    if rates.max(initial=0.0) <= START_TOLERANCE * (1.0 + np.abs(speed).max(initial=0.0)):
        return None
    nearest = np.asarray(kept(), dtype=np.float64)
    if not _is_permitted(speed, nearest):
        return _not_permitted(model, speed, nearest, where, advice)
    found = _opening(model, rates, where)
    return DomainError(
        found.argument,
        f"{found.expected}, as dynamics take it",
        f"{found.given}; project_velocity keeps it, since constraints there are redundant up to "
        "rounding",
        advice=f"give lengths and axes with more digits{advice}",
    )


def _not_permitted(
    model: Model, v: Array, kept: Array, where: str, advice: str = ""
) -> DomainError:
    """Return the error of a case whose velocity is not the one that keeps loops closed."""
    place = int(np.abs(kept - v).argmax())
    return DomainError(
        "v",
        "a velocity that keeps loops closed",
        f"{v[place]:.6g} of {model.v_names[place]!r} where {kept[place]:.6g} would{where}",
        advice=f"take tb.project_velocity(model, q, v){advice}",
    )


def _is_permitted(v: Array, kept: Array) -> NDArray[np.bool_]:
    """Return which velocities are those that `project_velocity` returns for them, shape (...)."""
    size = 1.0 + np.abs(v).max(axis=-1, initial=0.0)
    change = np.abs(kept - v).max(axis=-1, initial=0.0)
    return np.asarray(change <= START_TOLERANCE * size)


def _checked_velocity(
    model: Model, q: Array, v: Array, time: float, geometry: CaseRows | None
) -> Array:
    kept = project_velocity(model, q, v, time=time, parameters=geometry)
    change = np.abs(kept - v).max(axis=1)
    # joints that time moves give even a robot at rest a velocity
    wrong = ~_is_permitted(v, kept) & v.any(axis=1)
    if np.any(wrong):
        case = int(np.where(wrong, change / (1.0 + np.abs(v).max(axis=1)), 0.0).argmax())
        raise _not_permitted(model, v[case], kept[case], _of_case(case, len(v)))
    exact = change <= CLOSURE_TOLERANCE * (1.0 + np.abs(v).max(axis=1))
    found: Array = np.where(exact[:, None], v, kept)
    return found


def _check_rank(model: Model, q: Array, time: float, geometry: CaseRows | None) -> None:
    """Refuse poses at which more constraints are redundant than at those nearby."""
    # runs ask more than once, and start where others did
    poses = q.tobytes(), time
    if geometry is None and model.derived.get(_check_rank) == poses:
        return
    live = sum(1 for used in jacobian_pattern(model) if used)
    J = _of_cases(loop_jacobian, model, q, time, geometry)
    ranks = _ranks(J)
    rng = np.random.default_rng(5)
    for case in np.flatnonzero(ranks < live):
        # along what the loops allow to first order, then back onto them
        rows = np.linalg.svd(J[case])[2]
        free = rows[int(ranks[case]) :]
        if not len(free):
            continue
        for size in PROBE_DISTANCES:
            along = rng.standard_normal(len(free)) @ free
            moved = model.integrate(q[case], size / np.abs(along).max() * along)
            own = geometry_of(geometry, case)
            beside = _closed_nearby(model, moved, time, own)
            # back where it was, or nowhere: there is no way to go
            if beside is None or np.abs(model.difference(q[case], beside)).max() < LEAST_DISTANCE:
                continue
            J_beside = loop_jacobian(model, beside, time=time, parameters=own)
            nearby = int(_ranks(J_beside[None])[0])
            if nearby > ranks[case]:
                raise DomainError(
                    "v",
                    "a velocity, for several motions are possible in this singular configuration",
                    f"none: {int(ranks[case])} independent constraints here, {nearby} beside it"
                    f"{_of_case(int(case), len(q))}",
                    advice="give a velocity that keeps loops closed (tb.project_velocity), or "
                    "start beside this pose",
                )
    if geometry is None:
        model.derived[_check_rank] = poses


def _closed_nearby(model: Model, q: Array, time: float, geometry: CaseRows | None) -> Array | None:
    """Bring a position back onto the loops by Newton steps, however slow; None if they do not.

    Near a singular configuration each step reduces the residual by a quarter only, and projections
    leave it unchanged.
    """
    for _ in range(MOST_STEPS):
        try:
            residuals, J = (
                constraint_residual(model, q, time=time, parameters=geometry),
                loop_jacobian(model, q, time=time, parameters=geometry),
            )
        except DomainError:
            # functions of loops may end nearby
            return None
        if np.abs(residuals).max() <= CLOSURE_TOLERANCE:
            return q
        step = np.linalg.lstsq(J, -residuals, rcond=LEAST_SINGULAR_VALUE)[0]
        q = model.integrate(q, step * (LONGEST_STEP / max(LONGEST_STEP, float(np.abs(step).max()))))
    return None


def _ranks(J: Array) -> NDArray[np.intp]:
    s = np.linalg.svd(J, compute_uv=False)
    found: NDArray[np.intp] = np.sum(s > RANK_TOLERANCE * s[:, :1], axis=1)
    return found


def _of_case(case: int, cases: int) -> str:
    return f" in case {case}" if cases > 1 else ""


def open_loops(model: Model, residuals: Iterable[float], limit: float) -> list[str]:
    """Return the names of the loops that are open by more than a limit [m or rad]."""
    wide = (
        name
        for name, residual in zip(loop_names(model), residuals, strict=True)
        if not abs(residual) <= limit
    )
    return list(dict.fromkeys(wide))
