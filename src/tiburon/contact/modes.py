"""Modes and forces of contacts with friction at the level of accelerations, for one state.

Each closed contact point breaks, sticks or slides (Featherstone 1987, section 9.6.1, with Coulomb's
law added):

    breaking   f = 0, normal acceleration >= 0
    sticking   relative acceleration = 0, f inside the cone of static friction; at rest only
    sliding    normal acceleration = 0, f on the cone of kinetic friction against the slip, or at
               rest against the acceleration, where the contact cannot stick

A pattern of modes makes the equations linear, except for the directions in which contacts at rest
begin to slide. A guess of the pattern is solved and checked first; then, as long as there are not
too many, all other patterns, for Coulomb's law can have several answers or none (Painleve).

Symbols:
    G       compliance at the contact points: change of relative acceleration per force [1/kg]
    d       relative acceleration without contact forces [m/s^2]
    f, a    forces [N] and relative accelerations a = d + G f, two tangents and the normal per point
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.contact.pivoting import solve_pivoting

Array = NDArray[np.float64]

BREAKING, STICKING, SLIDING = 0, 1, 2
"""Modes of a closed contact point."""

MOST_PATTERNS = 1024
"""Patterns of modes that are all tried; beyond, only the guess is."""

ROUNDING = 1e-12
"""Share of the terms of an acceleration below which their sum is rounding."""

MIN_FORCE = 1e-140
"""Force whose square is still a number [N]: without gravity forces at rest are none at all."""

RANK_CUT = 1e-10
"""Singular values of a pattern's equations below this part of the largest are zero."""

SEARCH_STEPS, NEWTON_STEPS = 12, 12
"""Iterations for the directions of contacts that begin to slide, at most."""

SCANNED_ANGLES = 24
"""Angles at which the direction of one contact that begins to slide is looked for."""


class ContactProblem(NamedTuple):
    """Closed contact points of a robot in one state; two tangents and the normal of each."""

    G: Array
    """Compliance [1/kg], shape (3 n, 3 n)."""

    d: Array
    """Relative acceleration without contact forces [m/s^2], shape (3 n,)."""

    slip: Array
    """Slip velocity [m/s], shape (n, 2); zero for points at rest."""

    static_friction: Array
    """Shape (n,)."""

    kinetic_friction: Array
    """Shape (n,)."""

    spent: NDArray[np.bool_] | None = None
    """Points at rest whose static friction is known to be used up: these stick only with other
    forces that leave some; None for none."""

    force_tolerance: float = 1e-9
    """Relative to the largest force: forces count as zero below it."""

    acceleration_tolerance: float = 1e-9
    """Relative to the largest acceleration without forces."""

    terms: float = 0.0
    """Size of the terms whose sum d is [m/s^2]: of bodies that fall together only rounding is left
    of them."""

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.slip)

    @property
    def moving(self) -> NDArray[np.bool_]:
        """Whether each point slips, or could not stick."""
        found: NDArray[np.bool_] = (self.slip != 0.0).any(axis=1) | (self.static_friction == 0.0)
        return found

    @property
    def least_acceleration(self) -> float:
        """Acceleration up to which there is none [m/s^2]."""
        largest = float(np.abs(self.d).max(initial=0.0))
        return max(self.acceleration_tolerance * largest, ROUNDING * self.terms, 1e-300)

    def least_force(self, f: Array) -> float:
        """Return the force up to which there is none, among given ones [N]."""
        largest = float(np.abs(f).max(initial=0.0))
        stiffest = float(np.diag(self.G).max(initial=0.0))
        rounding = ROUNDING * self.terms / stiffest if stiffest > 0.0 else 0.0
        return max(self.force_tolerance * largest, rounding, 1e-300)


class ModeSolution(NamedTuple):
    """Forces of one pattern of modes that satisfy all conditions."""

    modes: tuple[int, ...]
    f: Array
    """Forces along the axes of each point [N], shape (n, 3)."""

    a: Array
    """Relative accelerations [m/s^2], shape (n, 3)."""

    rank: int
    """Rank of the equations of the pattern."""

    unknowns: int
    """Force components that the pattern leaves open; more than the rank if they are not unique."""


class Solutions(NamedTuple):
    """All answers that were found."""

    found: list[ModeSolution]
    """With different accelerations, that of the guess first."""

    complete: bool
    """Whether all patterns were tried, so that no solution means that there is none."""


def solve_modes(
    problem: ContactProblem,
    guess: Array,
    slips: NDArray[np.bool_] | None = None,
    *,
    all_patterns: bool = True,
) -> Solutions:
    """Return the answers of a contact problem.

    Args:
        problem: The closed contact points.
        guess: Forces of a guess [N], shape (n, 3): those of a short time step.
        slips: Points at rest that slip in the guess; by default those with all of their static
            friction in use.
        all_patterns: Whether to look for further answers after the guess has turned out right.

    Raises:
        SecondOrderCollisionError: If there is no friction, and no solution either.
    """
    found: list[ModeSolution] = []
    if not problem.size:
        return Solutions([ModeSolution((), np.zeros((0, 3)), np.zeros((0, 3)), 0, 0)], True)
    if not (problem.static_friction.any() or problem.kinetic_friction.any()):
        return Solutions([_smooth(problem)], True)
    first = _guessed(problem, guess, slips)
    for pattern in first:
        solved = _solved(problem, pattern, guess)
        if solved is not None:
            found.append(solved)
            break
    options = [(BREAKING, SLIDING) if m else (BREAKING, STICKING, SLIDING) for m in problem.moving]
    number = int(np.prod([float(len(one)) for one in options]))
    if number > MOST_PATTERNS:
        return Solutions(found, False)
    if found and not all_patterns:
        return Solutions(found, False)
    sticking_first: Iterator[tuple[int, ...]] = itertools.product(*(one[::-1] for one in options))
    stuck: list[tuple[int, ...]] = [one.modes for one in found]
    for pattern in sorted(sticking_first, key=lambda one: sum(m == SLIDING for m in one)):
        # what can stick does not begin to slide
        if any(_only_starts(problem, pattern, known) for known in stuck):
            continue
        solved = _solved(problem, pattern, None)
        if solved is None:
            continue
        stuck.append(solved.modes)
        if all(_differ(problem, solved, known) for known in found):
            found.append(solved)
    # directions of several contacts that begin to slide are searched, not all found
    at_rest = int(np.sum(~problem.moving))
    return Solutions(found, bool(found) or at_rest < 2)


def _smooth(problem: ContactProblem) -> ModeSolution:
    """Return the solution without friction, whose accelerations are unique."""
    normals = np.arange(2, 3 * problem.size, 3)
    solved = solve_pivoting(problem.G[np.ix_(normals, normals)], problem.d[normals])
    f = np.zeros((problem.size, 3))
    f[:, 2] = solved.forces
    a = (problem.d + problem.G @ f.reshape(-1)).reshape(-1, 3)
    modes = tuple(SLIDING if force > 0.0 else BREAKING for force in solved.forces)
    closed = sum(mode != "breaking" for mode in solved.modes)
    return ModeSolution(modes, f, a, solved.rank, closed)


def _only_starts(problem: ContactProblem, pattern: tuple[int, ...], known: tuple[int, ...]) -> bool:
    """Return whether a pattern differs from a known one by resting contacts that start to slide."""
    pairs = list(zip(pattern, known, problem.moving, strict=True))
    return all(a == b or (not m and (a, b) == (SLIDING, STICKING)) for a, b, m in pairs)


def _differ(problem: ContactProblem, one: ModeSolution, other: ModeSolution) -> bool:
    """Return whether two answers have different accelerations."""
    change = problem.G @ (one.f - other.f).reshape(-1)
    # accelerations of the robot are alike if those of all contacts and their power are
    power = (one.f - other.f).reshape(-1) @ change
    scale = max(float(np.abs(problem.d).max(initial=0.0)), 1e3 * problem.least_acceleration)
    size = max(np.abs(one.f).max(initial=0.0), np.abs(other.f).max(initial=0.0))
    return bool(power > 1e-7 * size * scale + 1e-300 or np.abs(change).max() > 1e-6 * scale)


def _guessed(
    problem: ContactProblem, guess: Array, slips: NDArray[np.bool_] | None
) -> list[tuple[int, ...]]:
    """Return patterns that forces of a short time step suggest."""
    largest = np.abs(guess).max(initial=0.0)
    closed = guess[:, 2] > 1e-7 * largest
    tangential = np.hypot(guess[:, 0], guess[:, 1])
    sticks = ~problem.moving & (
        tangential <= problem.static_friction * guess[:, 2] * (1.0 - 1e-7) + 1e-300
    )
    if slips is not None:
        sticks &= ~slips
    loose = tuple(
        int(np.where(c, STICKING if s else SLIDING, BREAKING))
        for c, s in zip(closed, sticks, strict=True)
    )
    # forces of many contacts are not unique: points on the cone may stick
    firm = tuple(
        STICKING if c and not m else int(SLIDING if c else BREAKING)
        for c, m in zip(closed, problem.moving, strict=True)
    )
    touching = tuple(SLIDING if m else STICKING for m in problem.moving)
    return list(dict.fromkeys((firm, loose, touching)))


class _Frame(NamedTuple):
    """Equations of a pattern: a[held] = 0 for f = columns @ y."""

    held: Array
    columns: Array


def _frame(problem: ContactProblem, pattern: Sequence[int], directions: Array) -> _Frame:
    """Return the equations of a pattern; directions are those of slip, shape (n, 2)."""
    held: list[int] = []
    columns: list[Array] = []
    for k, mode in enumerate(pattern):
        if mode == STICKING:
            held += [3 * k, 3 * k + 1, 3 * k + 2]
            columns += list(np.eye(3 * problem.size)[3 * k : 3 * k + 3])
        elif mode == SLIDING:
            held.append(3 * k + 2)
            column = np.zeros(3 * problem.size)
            column[3 * k : 3 * k + 2] = -problem.kinetic_friction[k] * directions[k]
            column[3 * k + 2] = 1.0
            columns.append(column)
    shape = len(columns), 3 * problem.size
    return _Frame(np.array(held, dtype=np.intp), np.array(columns).reshape(shape).T)


def _forces(
    problem: ContactProblem, frame: _Frame, start: Array | None
) -> tuple[Array, int, float]:
    """Return forces nearest to a start that satisfy the equations, their rank, and what is left."""
    if not len(frame.held):
        return np.zeros(3 * problem.size), 0, 0.0
    M = problem.G[frame.held] @ frame.columns
    y = np.zeros(M.shape[1])
    if start is not None:
        y = np.linalg.lstsq(frame.columns, start.reshape(-1), rcond=None)[0]
    rest = -problem.d[frame.held] - M @ y
    change, _, rank, _ = np.linalg.lstsq(M, rest, rcond=RANK_CUT)
    y = y + change
    # one step of refinement
    rest = -problem.d[frame.held] - M @ y
    y = y + np.linalg.lstsq(M, rest, rcond=RANK_CUT)[0]
    left = float(np.abs(problem.d[frame.held] + M @ y).max())
    return frame.columns @ y, int(rank), left


def _solved(
    problem: ContactProblem, pattern: tuple[int, ...], guess: Array | None
) -> ModeSolution | None:
    """Return the forces of a pattern if they satisfy all conditions, else None."""
    moving = problem.moving
    starting = [k for k, mode in enumerate(pattern) if mode == SLIDING and not moving[k]]
    speed = np.hypot(problem.slip[:, 0], problem.slip[:, 1])
    directions = problem.slip / np.where(speed > 0.0, speed, 1.0)[:, None]
    if not starting:
        frame = _frame(problem, pattern, directions)
        for start in (None, guess) if guess is not None else (None,):
            solved = _checked(problem, pattern, frame, *_forces(problem, frame, start))
            if solved is not None:
                return solved
        forces, rank, left = _forces(problem, frame, None)
        if STICKING not in pattern or rank == frame.columns.shape[1]:
            return None
        # forces of least norm leave the cone: others with the same accelerations may not
        forces = centered_forces(problem, pattern, forces.reshape(-1, 3), 1.0).reshape(-1)
        return _checked(problem, pattern, frame, forces, rank, left)
    for turned in _directions(problem, pattern, directions, starting, guess):
        frame = _frame(problem, pattern, turned)
        solved = _checked(problem, pattern, frame, *_forces(problem, frame, None))
        if solved is not None:
            return solved
    return None


def _directions(
    problem: ContactProblem,
    pattern: tuple[int, ...],
    directions: Array,
    starting: Sequence[int],
    guess: Array | None,
) -> Iterator[Array]:
    """Yield directions of slip, with which contacts at rest accelerate against their friction.

    One contact that begins to slide has few of them, which a scan over all angles finds. Several
    have those near a guess, or that a fixed-point iteration finds.

    Args:
        problem: The contact problem.
        pattern: Mode of each point.
        directions: Directions of slip of points that move, shape (n, 2).
        starting: Points that begin to slide.
        guess: Forces of a guess [N], or None.
    """
    frame = _frame(problem, pattern, directions)
    # columns of sliding contacts come one by one, those of sticking ones by threes
    ends = np.cumsum([{BREAKING: 0, STICKING: 3, SLIDING: 1}[mode] for mode in pattern])
    places = ends[list(starting)] - 1
    tangents = 3 * np.array(starting)[:, None] + np.arange(2)
    slipping = -problem.kinetic_friction[list(starting)][:, None]
    columns, rest = frame.columns.copy(), -problem.d[frame.held]

    def accelerations(angles: Array) -> Array:
        units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        columns[tangents, places[:, None]] = slipping * units
        M = problem.G[frame.held] @ columns
        try:
            y = np.linalg.solve(M, rest)
        except np.linalg.LinAlgError:
            y = np.linalg.lstsq(M, rest, rcond=RANK_CUT)[0]
        found: Array = problem.d[tangents] + problem.G[tangents] @ (columns @ y)
        return found

    def off(angles: Array) -> Array:
        a = accelerations(angles)
        return _turn(np.arctan2(a[:, 1], a[:, 0]) - angles)

    def across(angle: float) -> float:
        """Return the acceleration of the one contact across a direction: zero along it."""
        a = accelerations(np.array([angle]))[0]
        return float(np.cos(angle) * a[1] - np.sin(angle) * a[0])

    def solved(angles: Array) -> Array | None:
        """Return directions by Newton's method with differences."""
        for _ in range(NEWTON_STEPS):
            here = off(angles)
            if np.abs(here).max() < 1e-13:
                break
            slope = np.empty((len(angles), len(angles)))
            for k, unit in enumerate(np.eye(len(angles))):
                slope[:, k] = _turn(off(angles + 1e-7 * unit) - here) / 1e-7
            step = np.linalg.lstsq(slope, -here, rcond=None)[0]
            angles = angles + np.clip(step, -0.3, 0.3)
        if np.abs(off(angles)).max() > 1e-9:
            return None
        turned = directions.copy()
        turned[list(starting)] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return turned

    def starts() -> Iterator[Array]:
        if guess is not None:
            yield np.arctan2(-guess[list(starting), 1], -guess[list(starting), 0])
        if len(starting) == 1:
            for low in np.linspace(0.0, 2.0 * np.pi, SCANNED_ANGLES, endpoint=False):
                root = _root(across, float(low), float(low) + 2.0 * np.pi / SCANNED_ANGLES)
                if root is not None:
                    yield np.array([root])
            return
        free = problem.d.reshape(-1, 3)[list(starting)]
        for turn in (0.0, np.pi):
            angles = np.arctan2(free[:, 1], free[:, 0]) + turn
            for _ in range(SEARCH_STEPS):
                here = off(angles)
                if np.abs(here).max() < 0.05:
                    yield angles
                    break
                angles = angles + 0.8 * here

    for angles in starts():
        found = solved(angles)
        if found is not None:
            yield found


def _root(value: Callable[[float], float], low: float, high: float) -> float | None:
    """Return a zero between two places by false position (Illinois), or None if signs agree."""
    a, b = value(low), value(high)
    if a * b > 0.0 or not np.isfinite(a * b):
        return None
    for _ in range(60):
        middle = high - b * (high - low) / (b - a) if b != a else 0.5 * (low + high)
        c = value(middle)
        if c == 0.0 or high - low < 1e-15 * (1.0 + abs(high)):
            return middle
        if (c > 0.0) == (b > 0.0):
            high, b, a = middle, c, 0.5 * a
        else:
            low, a, b = middle, c, 0.5 * b
    return 0.5 * (low + high)


def _turn(angles: Array) -> Array:
    """Return angles between -pi and pi [rad]."""
    return (angles + np.pi) % (2.0 * np.pi) - np.pi


def _checked(
    problem: ContactProblem,
    pattern: tuple[int, ...],
    frame: _Frame,
    forces: Array,
    rank: int,
    left: float,
) -> ModeSolution | None:
    """Return a solution if forces and accelerations satisfy all conditions, else None."""
    f = forces.reshape(-1, 3)
    a = (problem.d + problem.G @ forces).reshape(-1, 3)
    least_force, least_acceleration = problem.least_force(f), problem.least_acceleration
    if left > least_acceleration or not np.isfinite(forces).all():
        return None
    for k, mode in enumerate(pattern):
        tangential = float(np.hypot(f[k, 0], f[k, 1]))
        if mode == BREAKING:
            fine = a[k, 2] >= -least_acceleration
        elif mode == STICKING:
            spent = problem.spent is not None and bool(problem.spent[k])
            allowed = -10.0 * least_force if spent else least_force
            fine = f[k, 2] >= -least_force and (
                tangential <= problem.static_friction[k] * f[k, 2] + allowed
            )
        else:
            fine = f[k, 2] >= -least_force
            if not problem.moving[k]:
                fine = fine and f[k, :2] @ a[k, :2] <= least_force * least_acceleration
        if not fine:
            return None
    return ModeSolution(pattern, f, a, rank, frame.columns.shape[1])


def centered_forces(
    problem: ContactProblem, pattern: Sequence[int], forces: Array, margin: float
) -> Array:
    """Return forces of sticking contacts that are not unique, away from the limits of friction.

    Of all forces with the same accelerations, those with nearly the most friction left: Newton's
    method minimizes a smooth maximum of |f_t| / mu - f_n along the directions that no acceleration
    sees.

    Args:
        problem: The contact problem.
        pattern: Mode of each point.
        forces: Forces along the axes of each point [N], shape (n, 3).
        margin: Share of static friction below which forces may be used.
    """
    held = [k for k, mode in enumerate(pattern) if mode == STICKING]
    places = np.array([3 * k + i for k in held for i in range(3)], dtype=np.intp)
    f = forces.copy()
    if not len(places) or _usage(f[held].reshape(-1), problem.static_friction[held]) < margin:
        return f
    _, s, V = np.linalg.svd(problem.G[:, places])
    null = V[int(np.sum(s > RANK_CUT * s[0])) :]
    mu = problem.static_friction[held]
    if not len(null) or (mu <= 0.0).any():
        return f
    y = f.reshape(-1)[places]
    size = float(np.abs(y).max())
    if size < MIN_FORCE:
        return f
    best, least = y, _usage(y, mu)
    z = np.zeros(len(null))
    # smooth maximum of the ratios, sharper and sharper
    for sharpness in (4.0, 16.0, 64.0, 256.0):
        for _ in range(30):
            value, slope, bend = _soft_usage(y + null.T @ z, mu, null, sharpness, size)
            step = np.linalg.lstsq(bend, -slope, rcond=1e-12)[0]
            length = 1.0
            while length > 1e-6:
                trial = z + length * step
                if _soft_usage(y + null.T @ trial, mu, null, sharpness, size)[0] < value:
                    break
                length *= 0.5
            else:
                break
            z = z + length * step
            usage = _usage(y + null.T @ z, mu)
            if usage < least:
                best, least = y + null.T @ z, usage
            if least <= margin or np.abs(length * step).max() < 1e-9 * size:
                break
        if least <= margin:
            break
    flat = f.reshape(-1)
    flat[places] = best
    return flat.reshape(-1, 3)


def _usage(y: Array, mu: Array) -> float:
    """Return the largest share of the static limit that tangential forces take."""
    f = y.reshape(-1, 3)
    with np.errstate(all="ignore"):
        ratio = np.hypot(f[:, 0], f[:, 1]) / (mu * f[:, 2])
    return float(np.where(f[:, 2] > 0.0, ratio, np.inf).max())


def _soft_usage(
    y: Array, mu: Array, null: Array, sharpness: float, size: float
) -> tuple[float, Array, Array]:
    """Return a smooth maximum of |f_t| - mu f_n over the mean normal force, slope and bend."""
    f = y.reshape(-1, 3)
    n = len(f)
    reach = np.sqrt(f[:, 0] ** 2 + f[:, 1] ** 2 + (1e-6 * size) ** 2)
    g = sharpness * (reach / mu - f[:, 2]) / size
    top = g.max()
    e = np.exp(g - top)
    value = top + np.log(e.sum())
    weight = e / e.sum()
    rows = np.zeros((n, 3 * n))
    bends = np.zeros((3 * n, 3 * n))
    factor = sharpness / size
    for k in range(n):
        t = f[k, :2] / reach[k]
        rows[k, 3 * k : 3 * k + 2] = factor * t / mu[k]
        rows[k, 3 * k + 2] = -factor
        block = factor / mu[k] * (np.eye(2) - np.outer(t, t)) / reach[k]
        bends[3 * k : 3 * k + 2, 3 * k : 3 * k + 2] = weight[k] * block
    slope = weight @ rows
    curved = rows.T @ (weight[:, None] * rows) - np.outer(slope, slope) + bends
    bend = null @ curved @ null.T
    return float(value), null @ slope, bend + 1e-12 * np.eye(len(bend)) * np.abs(bend).max()
