"""Initial states of robots with loops: closed, and at rest only in regular configurations."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import DomainError
from tiburon.functions.closed_loops import (
    constraint_residual,
    loop_jacobian,
    project_configuration,
    project_velocity,
)
from tiburon.functions.redundancy import check_disagreement, check_weak_constraints
from tiburon.loops.constraints import constraint_names, jacobian_pattern
from tiburon.loops.projection import CLOSURE_TOLERANCE, MAX_RESIDUAL
from tiburon.model import Model

__all__ = [
    "Start",
    "check_switched_start",
    "closed_start",
    "gap_names",
    "open_loops",
    "resting_position",
]

Array = NDArray[np.float64]

START_TOLERANCE = 1e-6
"""Gaps up to which a start is closed without a word [m or rad]: files give six digits or more."""

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
    """Return the default initial configuration: with loops the pose "home", if it has one."""
    if model.loops and "home" in model.poses:
        return np.array(model.poses["home"], dtype=np.float64)
    return np.asarray(model.neutral())


def gap_names(model: Model) -> tuple[str, ...]:
    """Return, for each constraint, the name of its loop."""
    return tuple(name.rpartition(".")[0] for name in constraint_names(model))


def closed_start(model: Model, q: Array, v: Array, time: float, tolerance: float = 0.0) -> Start:
    """Check the states at the start of a run, and close gaps of rounding.

    Args:
        model: The robot; it has loops.
        q: Position [m or rad], shape (cases, nq).
        v: Joint velocity [m/s or rad/s], shape (cases, nv).
        time: When [s].
        tolerance: Within which constraints are redundant, as `simulate` takes it.

    Raises:
        DomainError: If loops are open, if velocities would open them, or if a case rests exactly
            where its loops let it go several ways.
        LoopError: If constraints are nearly redundant, and disagree by more than the tolerance.
    """
    gaps = np.abs(constraint_residual(model, q, time=time))
    if gaps.max(initial=0.0) > CLOSURE_TOLERANCE:
        found = project_configuration(model, q, time=time)
        worst = int(np.argmax(found.gap))
        if found.gap[worst] > max(MAX_RESIDUAL, tolerance) and not model.plan.depends_on_time:
            check_disagreement(model, found.q[worst], tolerance)
        _check_gaps(model, gaps, max(START_TOLERANCE, tolerance))
        if np.max(found.gap) > max(START_TOLERANCE, tolerance):
            left = np.abs(constraint_residual(model, found.q, time=time))
            _check_gaps(model, left, max(START_TOLERANCE, tolerance))
        # cases that are closed keep their bits
        open_cases = gaps.max(axis=1) > CLOSURE_TOLERANCE
        q = np.where(open_cases[:, None], found.q, q)
    if not model.plan.depends_on_time:
        # a matter of lengths and axes: one case tells
        check_weak_constraints(model, q[0], tolerance)
    if np.any(v) or model.plan.depends_on_time:
        v = _checked_velocity(model, q, v, time)
    resting = np.flatnonzero(~v.any(axis=1))
    if len(resting):
        _check_rank(model, q[resting], time)
    return Start(q, v)


def check_switched_start(
    model: Model,
    q: Array,
    v: Array,
    closed: Array,
    offset: Array,
    time: float,
    tolerance: float = 0.0,
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

    Raises:
        DomainError: If loops that count as closed are open, or velocities would open them.
    """
    gaps = np.abs(closed * (constraint_residual(model, q, time=time) - offset))
    _check_gaps(model, gaps, max(START_TOLERANCE, tolerance))
    if model.plan.depends_on_time:
        return
    rates = np.abs(closed * np.einsum("cij,cj->ci", loop_jacobian(model, q, time=time), v))
    allowed = max(START_TOLERANCE, tolerance) * (1.0 + np.abs(v).max(axis=1, keepdims=True))
    if np.any(rates > allowed):
        case, row = np.unravel_index(int((rates / allowed).argmax()), rates.shape)
        raise DomainError(
            "v",
            "a velocity that keeps loops closed",
            f"one that opens loop {gap_names(model)[row]!r} by {rates[case, row]:.3g} m/s or rad/s"
            f"{_of_case(int(case), len(v))}",
            advice="take tb.project_velocity(model, q, v), or let the loop start open",
        )


def _check_gaps(model: Model, gaps: Array, allowed: float) -> None:
    if gaps.max() <= allowed:
        return
    case = int(gaps.max(axis=1).argmax())
    wide: dict[str, float] = {}
    for name, gap in zip(gap_names(model), gaps[case], strict=True):
        wide[name] = max(wide.get(name, 0.0), float(gap))
    listed = sorted(((gap, name) for name, gap in wide.items() if gap > allowed), reverse=True)
    told = ", ".join(f"loop {name!r} open by {gap:.3g}" for gap, name in listed[:3])
    raise DomainError(
        "q",
        f"a position with closed loops, to {allowed:g} m or rad",
        f"{told} m or rad{_of_case(case, len(gaps))}",
        advice="close them with tb.assemble(model, q), or from nearby with "
        "tb.project_configuration(model, q)",
    )


def _checked_velocity(model: Model, q: Array, v: Array, time: float) -> Array:
    kept = project_velocity(model, q, v, time=time)
    change = np.abs(kept - v).max(axis=1)
    # joints that time moves give even a robot at rest a velocity
    allowed = np.where(v.any(axis=1), START_TOLERANCE * (1.0 + np.abs(v).max(axis=1)), np.inf)
    if np.any(change > allowed):
        case = int((change / allowed).argmax())
        place = int(np.abs(kept[case] - v[case]).argmax())
        raise DomainError(
            "v",
            "a velocity that keeps loops closed",
            f"{v[case, place]:.6g} of {model.v_names[place]!r} where {kept[case, place]:.6g} "
            f"would{_of_case(case, len(v))}",
            advice="take tb.project_velocity(model, q, v)",
        )
    exact = change <= CLOSURE_TOLERANCE * (1.0 + np.abs(v).max(axis=1))
    found: Array = np.where(exact[:, None], v, kept)
    return found


def _check_rank(model: Model, q: Array, time: float) -> None:
    """Refuse poses at which more constraints are redundant than at those nearby."""
    live = sum(1 for used in jacobian_pattern(model) if used)
    J = loop_jacobian(model, q, time=time)
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
            beside = _closed_nearby(model, moved, time)
            # back where it was, or nowhere: there is no way to go
            if beside is None or np.abs(model.difference(q[case], beside)).max() < LEAST_DISTANCE:
                continue
            nearby = int(_ranks(loop_jacobian(model, beside, time=time)[None])[0])
            if nearby > ranks[case]:
                raise DomainError(
                    "v",
                    "a velocity, for this pose is singular and its loops let it go several ways",
                    f"none: {int(ranks[case])} independent constraints here, {nearby} beside it"
                    f"{_of_case(int(case), len(q))}",
                    advice="give a velocity that keeps loops closed (tb.project_velocity), or "
                    "start beside this pose",
                )


def _closed_nearby(model: Model, q: Array, time: float) -> Array | None:
    """Bring a position back onto the loops by Newton steps, however slow; None if they do not.

    Near a singular configuration each step reduces the residual by a quarter only, and projections
    leave it unchanged.
    """
    for _ in range(MOST_STEPS):
        try:
            gaps, J = constraint_residual(model, q, time=time), loop_jacobian(model, q, time=time)
        except DomainError:
            # functions of loops may end nearby
            return None
        if np.abs(gaps).max() <= CLOSURE_TOLERANCE:
            return q
        step = np.linalg.lstsq(J, -gaps, rcond=LEAST_SINGULAR_VALUE)[0]
        q = model.integrate(q, step * (LONGEST_STEP / max(LONGEST_STEP, float(np.abs(step).max()))))
    return None


def _ranks(J: Array) -> NDArray[np.intp]:
    s = np.linalg.svd(J, compute_uv=False)
    found: NDArray[np.intp] = np.sum(s > RANK_TOLERANCE * s[:, :1], axis=1)
    return found


def _of_case(case: int, cases: int) -> str:
    return f" in case {case}" if cases > 1 else ""


def open_loops(model: Model, gaps: Iterable[float], limit: float) -> list[str]:
    """Return the names of the loops that are open by more than a limit [m or rad]."""
    wide = (name for name, gap in zip(gap_names(model), gaps, strict=True) if not abs(gap) <= limit)
    return list(dict.fromkeys(wide))
