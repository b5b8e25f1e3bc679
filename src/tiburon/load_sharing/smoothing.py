"""Continuity in time: forces that do not jump where contacts are made and broken.

The optimum of a load-sharing problem jumps when a contact joins or leaves, though the motion is
continuous. Three schemes keep forces or joint torques continuous (Nahon 1991):

    blending        output moves toward the new optimum at a bounded rate           (4.43)-(4.45)
    step limits     |x - x^-| <= D as further limits; may have no solution          (4.56)-(4.61)
    penalty         W + rho(t) 1, c - rho(t) x^-, rho from rho0 to 0 in a time T    (6.58)-(6.62)

x^- are the values of the step before. Blended vectors satisfy the equations only while these stay
the same: blending is for machines that stand still, and is refused while the motion changes. The
printed (4.45c) lacks its time step. The penalty always has a solution, and is the default.

`smoothed_forces` solves a sequence of problems, one per step of time; `smallest_step` finds the
smallest step limit under which all of them have a solution. Controllers in loops use the same
schemes through `tiburon.control.load_sharing_control`.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import choice, is_number, is_numeric, positive
from tiburon.arrays import Array
from tiburon.errors import DomainError, ShapeError, shown
from tiburon.load_sharing.named import Places, check_names, named_values, spread
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.quadratic import OPTIMAL, solve_qp

QUANTITIES = ("forces", "torques")
"""What may be kept continuous: unknown forces, or driven joint torques."""

UNBOUNDED = 1e30
"""Step limit where there is none [N or N m]."""

STILL_CHANGE = 1e-9
"""Change of the equations, relative to their largest entry, up to which a machine stands still."""

LIGHT_WEIGHT = 1e-10
"""Weight of single changes relative to that of their largest one, where that is to be least."""

ACTIVE_MULTIPLIER = 1e-9
"""Multiplier relative to the largest above which a limit is active."""


@record
class Blending:
    """Forces move toward the new optimum along a straight line at a bounded rate (4.45).

    For machines that stand still: refused while the motion changes.
    """

    max_rate: float = 200.0
    """Largest rate of the norm of all forces or torques [N/s or N m/s]."""

    on: str = "forces"
    """What is kept continuous: "forces" or "torques"."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_rate", positive("max_rate", self.max_rate, "N/s or N m/s"))
        choice("on", self.on, QUANTITIES)


@record
class StepBound:
    """Forces change by no more than a bound from step to step (4.57), (4.60).

    Too small a bound leaves no solution: `smallest_step` finds the least one.
    """

    max_step: Any = 20.0
    """Largest change of each component from step to step [N or N m]: one number, one per component,
    or by name; others are not bounded then."""

    on: str = "forces"
    """What is kept continuous: "forces" or "torques"."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_step", component_values("max_step", self.max_step))
        choice("on", self.on, QUANTITIES)


@record
class SmoothingPenalty:
    """Squares of changes from step to step are penalized after each change of contacts (6.60).

    The weight falls linearly to zero. There is always a solution. Where nothing else binds, the
    first step is the jump over 1 + weight.
    """

    weight: Any = 10.0
    """rho at the change, relative to the weight 1 of `InternalForce`: one number, one per component
    (6.60), or by name; others are not penalized then."""

    duration: float = 0.5
    """Time in which it falls to zero [s]."""

    on: str = "forces"
    """What is kept continuous: "forces" or "torques"."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", component_values("weight", self.weight))
        object.__setattr__(self, "duration", positive("duration", self.duration, "s"))
        choice("on", self.on, QUANTITIES)

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: weights and duration."""
        return *component_numbers(self.weight), self.duration

    def structure(self) -> Hashable:
        """Return what is kept continuous and weighted, which compiled code depends on."""
        return self.on, component_form(self.weight)


Scheme = Blending | StepBound | SmoothingPenalty


def component_values(argument: str, given: Any) -> Any:
    """Return one positive value, a tuple of one per component, or of pairs of a name and a row.

    Rows have one value, as fields of controllers have.

    Args:
        argument: Name of the argument.
        given: A number, a sequence of numbers, or numbers by name.
    """
    if is_number(given):
        return positive(argument, given, "N or N m" if argument == "max_step" else "")
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    named = isinstance(pairs, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
    )
    if named and pairs:
        rows = [(name, x[0] if isinstance(x, tuple) and len(x) == 1 else x) for name, x in pairs]
        return tuple((name, (x,)) for name, x in named_values(argument, rows))
    values = np.asarray(given, dtype=np.float64) if is_numeric(given) else np.zeros(0)
    if values.ndim != 1 or not len(values) or not np.all((values > 0.0) & np.isfinite(values)):
        raise DomainError(
            argument, "a finite number above 0, one per component, or by name", shown(given)
        )
    return tuple(values.tolist())


def component_numbers(values: Any) -> tuple[Any, ...]:
    """Return what `component_values` made as numbers in order, floats or traced."""
    if not isinstance(values, tuple):
        return (values,)
    return tuple(x[1][0] if isinstance(x, tuple) else x for x in values)


def component_form(values: Any) -> Hashable:
    """Return what code depends on: None for one number, their count, or names."""
    if not isinstance(values, tuple):
        return None
    return tuple(x[0] for x in values) if isinstance(values[0], tuple) else len(values)


def per_component(
    argument: str, form: Hashable, p: Scalars, places: Places, size: int, default: Scalar
) -> list[Scalar]:
    """Return one value per component.

    Args:
        argument: Name of the argument, for messages.
        form: From `component_form`.
        p: From `component_numbers`, floats or traced.
        places: Places of components by name.
        size: Number of components.
        default: Value of those that are not named.

    Raises:
        ShapeError: If there are as many values as there are not components.
        UnknownNameError: If a name stands for nothing.
    """
    if form is None:
        return [p[0]] * size
    if isinstance(form, tuple):
        check_names(form, places, "contact, force or driven joint", argument)
        return spread(list(zip(form, p, strict=True)), places, size, default)
    if len(p) != size:
        raise ShapeError(argument, f"({size},), one per component", f"({len(p)},)")
    return list(p)


def blended(x: Scalars, goal: Scalars, max_rate: Scalar, dt: Scalar) -> list[Any]:
    """Return forces one step nearer to a goal: at most max_rate dt in norm (4.45).

    Args:
        x: Forces of the step before; scalars, floats or traced.
        goal: Optimal forces.
        max_rate: Largest rate of the norm of all forces [N/s].
        dt: Time step [s].
    """
    change = [b - a for a, b in zip(x, goal, strict=True)]
    square: Scalar = 0.0
    for one in change:
        square = square + one * one
    distance = np.sqrt(square)
    share = np.minimum(1.0, dt * max_rate / np.maximum(distance, 1e-300))
    return [a + share * b for a, b in zip(x, change, strict=True)]


def ramp(weight: Scalar, since: Scalar, duration: Scalar) -> Scalar:
    """Return a weight that falls linearly to zero [1].

    Args:
        weight: At the start.
        since: Time since the start [s]; negative for no change so far.
        duration: Time in which it falls to zero [s].
    """
    left = 1.0 - since / duration
    return weight * np.where(since < 0.0, 0.0, np.maximum(left, 0.0))


class ForcePrograms(NamedTuple):
    """Load-sharing problems of consecutive times: min c x + x W x / 2, A1 x = b1, A2 x >= b2.

    `LoadProblem` of a batch of states has these fields.
    """

    W: Array
    """Quadratic terms, shape (times, n, n)."""

    c: Array
    """Linear terms, shape (times, n)."""

    A1: Array
    """Equations, shape (times, equations, n)."""

    b1: Array
    """Their right-hand sides, shape (times, equations)."""

    A2: Array
    """Limits, shape (times, limits, n)."""

    b2: Array
    """Their right-hand sides, shape (times, limits)."""

    rows: Array | None = None
    """Rows of what is kept continuous, shape (times, m, n): the forces x themselves by default."""

    offset: Array | None = None
    """Constant part of it, shape (times, m); zero by default."""

    names: tuple[str, ...] = ()
    """Names of what is kept continuous, such as `LoadSharing.names`: schemes may refer to them, or
    to the part before the last dot."""


class SmoothedForces(NamedTuple):
    """Forces of consecutive times."""

    x: Array
    """Forces [N, N m], shape (times, n); NaN from the first time without solution on."""

    kept: Array
    """What is kept continuous: forces or torques, shape (times, m)."""

    steps: Array
    """Largest change of a component of it since the time before [N or N m], shape (times,)."""

    active: Array
    """Number of active limits, shape (times,)."""

    failed: int | None
    """First time without solution; None if there is none."""

    least: float | None
    """Smallest change that would have a solution at that time [N or N m]."""


def smoothed_forces(
    programs: ForcePrograms,
    scheme: Scheme | None = None,
    *,
    dt: float,
    changes: Sequence[int] = (),
    start: int = 0,
) -> SmoothedForces:
    """Solve consecutive problems so that forces do not jump.

    Args:
        programs: Problems, one per time.
        scheme: Blending, step limits or penalty; None to solve each problem by itself.
        dt: Time step [s].
        changes: Times at which contacts change, as indices: the penalty starts there.
        start: Time from which step limits hold, as an index.

    Raises:
        DomainError: If forces are to be blended while the motion changes.
        ShapeError: If the shapes do not fit.
    """
    dt = positive("dt", dt, "s")
    times, n = _checked(programs)
    rows, offset = _kept(programs)
    if isinstance(scheme, Blending):
        _refuse_motion(programs, changes)
    x = np.full((times, n), np.nan)
    kept = np.full((times, rows.shape[1]), np.nan)
    steps, active = np.zeros(times), np.zeros(times)
    since = -1.0
    m = rows.shape[1]
    own = _own_values(scheme, programs.names, m)
    solve = _kernel(n, programs.A1.shape[1], programs.A2.shape[1] + 2 * m)
    for k in range(times):
        since = 0.0 if k in changes else since + dt if since >= 0.0 else since
        weight, bound = np.zeros(m), np.full(m, UNBOUNDED)
        if isinstance(scheme, SmoothingPenalty) and k:
            weight = float(ramp(1.0, since, scheme.duration)) * own
        if isinstance(scheme, StepBound) and k and k >= start:
            bound = own
        last = kept[k - 1] if k else np.zeros(m)
        W, c, A1, b1, A2, b2 = (part[k] for part in programs[:6])
        S, s = rows[k], offset[k] - last
        found, y, status = solve(
            W + S.T @ (weight[:, None] * S),
            c + S.T @ (weight * s),
            A1,
            b1,
            np.vstack([A2, S, -S]),
            np.concatenate([b2, -bound - s, s - bound]),
        )
        if status != OPTIMAL:
            least = least_step(A1, b1, A2, b2, S, s)
            return SmoothedForces(x, kept, steps, active, k, least)
        if isinstance(scheme, Blending) and changes and k >= min(changes):
            found = np.array(blended(list(x[k - 1]), list(found), scheme.max_rate, dt))
        x[k], active[k] = (
            found,
            np.sum(y[len(b1) :] > ACTIVE_MULTIPLIER * np.abs(y).max(initial=1e-300)),
        )
        kept[k] = rows[k] @ found + offset[k]
        if k:
            steps[k] = np.abs(kept[k] - last).max(initial=0.0)
    return SmoothedForces(x, kept, steps, active, None, None)


def smallest_step(
    programs: ForcePrograms,
    *,
    dt: float,
    changes: Sequence[int] = (),
    start: int = 0,
    on: str = "forces",
    tolerance: float = 1e-6,
) -> float:
    """Return the smallest step limit under which consecutive problems have solutions [N or N m].

    Each time is solved without knowledge of later ones, as a controller does; a bound below which
    some later time has no solution is found by bisection.

    Args:
        programs: Problems, one per time.
        dt: Time step [s].
        changes: Times at which contacts change, as indices.
        start: Time from which step limits hold, as an index.
        on: What is limited: "forces", or "torques" where `programs.rows` are those of torques.
        tolerance: Of the result, relative.

    Raises:
        DomainError: If a problem has no solution even without step limits.
    """

    def run(bound: float) -> SmoothedForces:
        return smoothed_forces(programs, StepBound(bound, on), dt=dt, changes=changes, start=start)

    free = smoothed_forces(programs, None, dt=dt, changes=changes)
    if free.failed is not None:
        raise DomainError(
            "programs",
            "problems with a solution without step limits",
            f"none at time {free.failed}",
            advice="lift another limit",
        )
    low, high = 0.0, float(free.steps[max(start, 1) :].max(initial=0.0))
    if high == 0.0:
        return 0.0
    # a limit just above the largest step of the free solution changes nothing
    high *= 1.0 + 1e-9
    while high - low > tolerance * high:
        middle = 0.5 * (low + high)
        if run(middle).failed is None:
            high = middle
        else:
            low = middle
    return high


def least_step(
    A1: Array, b1: Array, A2: Array, b2: Array, rows: Array, offset: Array
) -> float | None:
    """Return the least largest change of rows x + offset that equations and limits allow.

    None if they contradict each other.

    Args:
        A1: Equations, shape (equations, n).
        b1: Their right-hand sides.
        A2: Limits, shape (limits, n).
        b2: Their right-hand sides.
        rows: Rows of what changes, shape (m, n).
        offset: Constant part less the values of the step before, shape (m,).
    """
    n, m = A1.shape[1], len(rows)
    # least largest change d: |rows x + offset| <= d, by a quadratic program with light forces
    W = np.zeros((n + 1, n + 1))
    W[:n, :n] = LIGHT_WEIGHT * (rows.T @ rows + 1e-6 * np.eye(n))
    W[n, n] = 1.0
    c = np.concatenate([LIGHT_WEIGHT * rows.T @ offset, [0.0]])
    bound = np.ones((m, 1))
    limits = np.block(
        [[A2, np.zeros((len(A2), 1))], [rows, bound], [-rows, bound], [np.zeros((1, n)), 1.0]]
    )
    right = np.concatenate([b2, -offset, offset, [0.0]])
    equations = np.hstack([A1, np.zeros((len(A1), 1))])
    found = solve_qp(W, c, equations, b1, limits, right)
    if found.status != OPTIMAL:
        return None
    return float(np.abs(rows @ np.asarray(found.x)[:n] + offset).max(initial=0.0))


def _own_values(scheme: Scheme | None, names: Sequence[str], size: int) -> Array:
    """Return the weight or bound of each component; zeros for schemes without."""
    if not isinstance(scheme, (StepBound, SmoothingPenalty)):
        return np.zeros(size)
    penalty = isinstance(scheme, SmoothingPenalty)
    argument, default = ("weight", 0.0) if penalty else ("max_step", UNBOUNDED)
    value = getattr(scheme, argument)
    places: dict[str, tuple[int, ...]] = {}
    for k, name in enumerate(names):
        for word in dict.fromkeys((name, name.rpartition(".")[0] or name)):
            places[word] = (*places.get(word, ()), k)
    form = component_form(value)
    return np.array(per_component(argument, form, component_numbers(value), places, size, default))


def _kept(programs: ForcePrograms) -> tuple[Array, Array]:
    """Return rows and constant part of what is kept continuous."""
    times, n = programs.c.shape
    if programs.rows is None:
        return np.broadcast_to(np.eye(n), (times, n, n)), np.zeros((times, n))
    rows = np.asarray(programs.rows, dtype=np.float64)
    offset = np.zeros(rows.shape[:2]) if programs.offset is None else programs.offset
    return rows, offset


def _checked(programs: ForcePrograms) -> tuple[int, int]:
    """Return the number of times and of forces."""
    if np.ndim(programs.c) != 2:
        raise ShapeError("c", "(times, forces)", np.shape(programs.c))
    times, n = np.shape(programs.c)
    expected: dict[str, tuple[Any, ...]] = {
        "W": (times, n, n),
        "A1": (times, None, n),
        "b1": (times, None),
        "A2": (times, None, n),
        "b2": (times, None),
    }
    for name, shape in expected.items():
        given = np.shape(getattr(programs, name))
        if len(given) != len(shape) or any(
            want not in (None, got) for want, got in zip(shape, given, strict=True)
        ):
            raise ShapeError(name, f"{shape}".replace("None", "rows"), given)
    return times, n


def _refuse_motion(programs: ForcePrograms, changes: Sequence[int]) -> None:
    """Refuse to blend where the equations change while forces are blended."""
    first = min(changes, default=len(programs.c))
    for name in ("A1", "b1"):
        part = np.asarray(getattr(programs, name))[first:]
        if len(part) and np.abs(part - part[:1]).max() > STILL_CHANGE * max(
            np.abs(part).max(), 1e-300
        ):
            raise DomainError(
                "scheme",
                "a machine that stands still while forces are blended",
                f"{name} that changes after time {first}",
                advice="take SmoothingPenalty(), which works while the machine moves",
            )


def _kernel(n: int, equations: int, limits: int) -> Any:
    """Return a kernel that solves one quadratic program."""
    from tiburon.native.kernel import ProgramSource, make_kernel
    from tiburon.trace import Input, trace

    def solve(W: Any, c: Any, A1: Any, b1: Any, A2: Any, b2: Any) -> Any:
        found = solve_qp(W, c, A1, b1, A2, b2)
        y = (*found.equation_multipliers, *found.inequality_multipliers)
        return {"x": found.x, "multipliers": as_traced(list(y)), "status": found.status}

    inputs = [
        Input("W", (n, n)),
        Input("c", (n,)),
        Input("A1", (equations, n)),
        Input("b1", (equations,)),
        Input("A2", (limits, n)),
        Input("b2", (limits,)),
    ]
    return make_kernel(ProgramSource(trace(solve, inputs, name="quadratic program")))
