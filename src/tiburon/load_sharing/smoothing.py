"""Continuity in time: forces that do not jump where contacts are made and broken.

The optimum of a load-sharing problem jumps when a contact joins or leaves, though the motion is
continuous. Three schemes keep forces or joint torques continuous (Nahon 1991):

    blending        output moves toward the new optimum at a bounded rate           (4.43)-(4.45)
    step limits     |x - x^-| <= D as further limits; may have no solution          (4.56)-(4.61)
    penalty         W + rho(t) 1, c - rho(t) x^-, rho from rho0 to 0 in a time T    (6.58)-(6.62)

x^- are the values of the step before. Blended vectors satisfy the equations only while these stay
the same: blending is for machines that stand still, and is refused while the motion changes. The
printed (4.45c) lacks its time step. The penalty always has a solution, and is the default.

At a change of contacts, forces before and after must satisfy the new equations, with no force at
an open contact (4.3.1). Forces before the loss of a loaded contact do not: that contact loses its
force at once, whatever the scheme, and others take it over. The penalty smooths what is left of the
jump. Step limits and blending bound it: where a contact is lost with more load than they allow,
there is no solution. Forces of a contact that was unloaded before its end do not jump at all.

`smoothed_forces` solves a sequence of problems, one per step of time; `smallest_step` finds the
smallest step limit under which all of them have a solution. Controllers in loops use the same
schemes through `tiburon.control.load_sharing_control`.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import choice, is_number, is_numeric, positive
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ShapeError, shown
from tiburon.load_sharing.limit_matrix import Cones, cones_of
from tiburon.load_sharing.named import Places, check_names, named_values, spread
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.quadratic import INFEASIBLE, OPTIMAL, solve_qp

QUANTITIES = ("forces", "torques")
"""What may be kept continuous: unknown forces, or driven joint torques."""

UNBOUNDED = 1e30
"""Step limit where there is none [N or N m]."""

STILL_CHANGE = 1e-9
"""Change of the equations, relative to their largest entry, up to which a machine stands still."""

LIGHT_WEIGHT = 1e-10
"""Weight of single changes relative to that of their largest one, where that is to be least."""

ROUNDING = 1e-9
"""Relative excess of a bounded change that counts as rounding."""

ACTIVE_MULTIPLIER = 1e-9
"""Multiplier relative to the largest above which a limit is active."""


@record
class Blending:
    """Forces move toward the new optimum along a straight line at a bounded rate (4.45).

    For machines that stand still: refused while the motion changes. A contact that is lost must
    have been unloaded before: forces start from the nearest ones without it.
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

    Too small a bound leaves no solution: `smallest_step` finds the least one. A contact that is
    lost must have been unloaded to the bound before.
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

    And |x_t| <= mu x_n for exact friction cones. `LoadProblem.programs` returns those of a batch of
    states.
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

    cones: Cones | None = None
    """Places of the two tangents and the normal of each exact friction cone; by default those of
    the plan whose limits are given."""

    mu: Array | None = None
    """Their coefficients, shape (cones,) or (times, cones)."""

    active: Array | None = None
    """1 for each force that takes part, 0 for those of open contacts, which are zero, shape (times,
    n). By default a force that enters no equation at a time, but does at another, takes no part."""


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


class _Program(NamedTuple):
    """The problem of one time, in which forces of open contacts are zero."""

    W: Array
    c: Array
    A1: Array
    b1: Array
    A2: Array
    b2: Array

    S: Array
    """Rows of what is kept continuous."""

    s: Array
    """Constant part of it."""

    cones: Cones
    mu: Array

    open: Array
    """Whether each force is that of an open contact."""


class _Sequence(NamedTuple):
    """Problems of consecutive times, checked."""

    programs: ForcePrograms

    rows: Array
    """Rows of what is kept continuous, shape (times, m, n)."""

    offset: Array
    """Constant part of it, shape (times, m)."""

    cones: Cones
    mu: Array
    """Coefficients of the cones, shape (times, cones)."""

    open: Array
    """Whether each force is that of an open contact, shape (times, n)."""

    def at(self, k: int) -> _Program:
        """Return the problem of a time.

        Forces of open contacts leave equations, limits and what is kept continuous; in the
        objective they stand alone, with zero as optimum.
        """
        W, c, A1, b1, A2, b2 = (np.array(part[k], dtype=np.float64) for part in self.programs[:6])
        S, gone = np.array(self.rows[k]), self.open[k]
        for matrix in (A1, A2, S):
            matrix[:, gone] = 0.0
        weight = np.diag(W).max()
        W[gone, :] = W[:, gone] = 0.0
        W[gone, gone] = weight
        c[gone] = 0.0
        return _Program(
            W, c, A1, b1, A2, b2, S, self.offset[k], self.cones, self.mu[k], np.array(gone)
        )


def smoothed_forces(
    programs: ForcePrograms,
    scheme: Scheme | None = None,
    *,
    dt: float,
    changes: Sequence[int] = (),
    start: int = 0,
) -> SmoothedForces:
    """Solve consecutive problems so that forces do not jump.

    All forces satisfy the equations and limits of their time, with none at an open contact.

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
    sequence = _checked(programs)
    times, m, n = sequence.rows.shape
    if isinstance(scheme, Blending):
        _refuse_motion(programs, changes)
    x = np.full((times, n), np.nan)
    kept = np.full((times, m), np.nan)
    steps, active = np.zeros(times), np.zeros(times)
    since = -1.0
    values = _component_array(scheme, programs.names, m)
    rows = programs.A1.shape[1], programs.A2.shape[1] + 2 * m
    solve = _kernel(n, *rows, sequence.cones)
    for k in range(times):
        since = 0.0 if k in changes else since + dt if since >= 0.0 else since
        weight, bound = np.zeros(m), np.full(m, UNBOUNDED)
        if isinstance(scheme, SmoothingPenalty) and k:
            weight = float(ramp(1.0, since, scheme.duration)) * values
        if isinstance(scheme, StepBound) and k and k >= start:
            bound = values
        last = kept[k - 1] if k else np.zeros(m)
        program = sequence.at(k)
        S, s = program.S, program.s - last
        limits = np.vstack([program.A2, S, -S])
        right = np.concatenate([program.b2, -bound - s, s - bound])

        def optimum(W: Array, c: Array, A2: Array, b2: Array, of: _Program = program) -> Any:
            given = (W, c, of.A1, of.b1, A2, b2)
            return solve(*given, of.mu) if of.cones else solve(*given)

        W, c = program.W + S.T @ (weight[:, None] * S), program.c + S.T @ (weight * s)
        solution, y, status = optimum(W, c, limits, right)
        if status == OPTIMAL and isinstance(scheme, Blending) and changes and k >= min(changes):
            # from the nearest forces that satisfy the new equations, toward their optimum
            before = np.where(program.open, 0.0, x[k - 1]) if k else solution
            nearest, _, status = optimum(*_distance(S, before), limits, right)
            moved = float(np.linalg.norm(S @ nearest + s)) if k else 0.0
            room = scheme.max_rate * dt - moved
            if room < -ROUNDING * scheme.max_rate * dt:
                status = INFEASIBLE
            way = float(np.linalg.norm(S @ (solution - nearest)))
            share = min(1.0, max(room, 0.0) / max(way, 1e-300))
            solution = nearest + share * (solution - nearest)
        if status != OPTIMAL:
            return SmoothedForces(x, kept, steps, active, k, _least_change(program, s))
        x[k] = np.where(program.open, 0.0, solution)
        multipliers = np.abs(y).max(initial=1e-300)
        active[k] = np.sum(y[len(program.b1) :] > ACTIVE_MULTIPLIER * multipliers)
        kept[k] = S @ x[k] + program.s
        if k:
            steps[k] = np.abs(kept[k] - last).max(initial=0.0)
    return SmoothedForces(x, kept, steps, active, None, None)


def _distance(S: Array, x: Array) -> tuple[Array, Array]:
    """Return W and c of the distance from forces x, measured by what is kept continuous."""
    W = S.T @ S
    W += LIGHT_WEIGHT * max(float(np.diag(W).max(initial=0.0)), 1e-300) * np.eye(len(W))
    return W, -W @ x


def _least_change(program: _Program, s: Array) -> float | None:
    """Return the least largest change of what is kept continuous; None if there is no solution."""
    given = program.A1, program.b1, program.A2, program.b2, program.S, s
    return least_step(*given, cones=program.cones, mu=program.mu)


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
    least = tolerance * high
    while high - low > tolerance * high and high > least:
        middle = 0.5 * (low + high)
        if run(middle).failed is None:
            high = middle
        else:
            low = middle
    return high


def least_step(
    A1: Array,
    b1: Array,
    A2: Array,
    b2: Array,
    rows: Array,
    offset: Array,
    *,
    cones: Cones = (),
    mu: ArrayLike = (),
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
        cones: Places of the two tangents and the normal of each exact friction cone.
        mu: Their coefficients, shape (cones,).
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
    found = solve_qp(W, c, equations, b1, limits, right, cones=cones, mu=mu)
    if found.status != OPTIMAL:
        return None
    return float(np.abs(rows @ np.asarray(found.x)[:n] + offset).max(initial=0.0))


def _component_array(scheme: Scheme | None, names: Sequence[str], size: int) -> Array:
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


def _checked(programs: ForcePrograms) -> _Sequence:
    """Return problems whose shapes fit, with their cones and open contacts, or raise."""
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
    for name in ("rows", "active"):
        if getattr(programs, name) is not None:
            expected[name] = (times, None, n) if name == "rows" else (times, n)
    for name, shape in expected.items():
        given = np.shape(getattr(programs, name))
        if len(given) != len(shape) or any(
            want not in (None, got) for want, got in zip(shape, given, strict=True)
        ):
            raise ShapeError(name, f"{shape}".replace("None", "rows"), given)
    if programs.cones is None:
        cones, mu = cones_of(programs.A2)
    else:
        coefficients = () if programs.mu is None else programs.mu
        cones, mu = tuple(programs.cones), np.asarray(coefficients, dtype=np.float64)
    if mu.shape not in ((len(cones),), (times, len(cones))):
        raise ShapeError("mu", f"({len(cones)},) or ({times}, {len(cones)})", mu.shape)
    if any(not 0 <= place < n for cone in cones for place in cone):
        raise DomainError("cones", f"places of forces below {n}", shown(cones))
    rows = np.broadcast_to(np.eye(n), (times, n, n))
    if programs.rows is not None:
        rows = np.asarray(programs.rows, dtype=np.float64)
    offset = np.zeros(rows.shape[:2]) if programs.offset is None else np.asarray(programs.offset)
    return _Sequence(
        programs,
        rows,
        offset,
        cones,
        np.broadcast_to(mu, (times, len(cones))),
        _open_forces(programs),
    )


def _open_forces(programs: ForcePrograms) -> Array:
    """Return whether each force is that of an open contact, shape (times, n).

    Columns of zeros alone do not tell: unknowns of the objective have them at all times.
    """
    if programs.active is not None:
        return np.asarray(np.asarray(programs.active) < 0.5)
    enters = np.asarray(programs.A1).any(axis=1)
    if programs.rows is not None:
        enters = enters | np.asarray(programs.rows).any(axis=1)
    return np.asarray(~enters & enters.any(axis=0))


def _refuse_motion(programs: ForcePrograms, changes: Sequence[int]) -> None:
    """Refuse to blend where the equations change while forces are blended."""
    times = len(programs.c)
    starts = sorted({k for k in changes if k < times})
    for first, end in pairwise([*starts, times]):
        for name in ("A1", "b1"):
            part = np.asarray(getattr(programs, name))[first:end]
            change = np.abs(part - part[:1]).max(initial=0.0)
            if change > STILL_CHANGE * max(np.abs(part).max(initial=0.0), 1e-300):
                raise DomainError(
                    "scheme",
                    "a machine that stands still while forces are blended",
                    f"{name} that changes after time {first}",
                    advice="take SmoothingPenalty(), which works while the machine moves",
                )


def _kernel(n: int, equations: int, limits: int, cones: Cones) -> Any:
    """Return a kernel that solves one quadratic program."""
    from tiburon.native.kernel import ProgramSource, make_kernel
    from tiburon.trace import Input, trace

    def solve(W: Any, c: Any, A1: Any, b1: Any, A2: Any, b2: Any, mu: Any = ()) -> Any:
        found = solve_qp(W, c, A1, b1, A2, b2, cones=cones, mu=mu)
        y = (
            *found.equation_multipliers,
            *found.inequality_multipliers,
            *found.cone_multipliers,
        )
        return {"x": found.x, "multipliers": as_traced(list(y)), "status": found.status}

    inputs = [
        Input("W", (n, n)),
        Input("c", (n,)),
        Input("A1", (equations, n)),
        Input("b1", (equations,)),
        Input("A2", (limits, n)),
        Input("b2", (limits,)),
    ]
    if cones:
        inputs.append(Input("mu", (len(cones),)))
    return make_kernel(ProgramSource(trace(solve, inputs, name="quadratic program")))
