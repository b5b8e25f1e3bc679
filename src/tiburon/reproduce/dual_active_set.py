"""The dual active set method of Nahon 1991 in plain Python, to measure what the source claims.

Section 5.4.2.5, steps 0 to 11, with the choices that the source discusses: violations normalized or
raw (5.40), start at the optimum of the equations or at that without constraints, and the rule of
the prose or that of the printed listing for the multiplier of an entering constraint. Factors are
computed anew in every step: this counts steps, `tiburon.trace.solve_qp` takes them quickly.
"""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array

VIOLATION_TOLERANCE = 1e-9
"""Violation, relative to the terms of a constraint, above which it enters."""

DEPENDENT_SHARE = 1e-20
"""Square of the independent share of a normal at or below which it depends on the active ones."""


class Steps(NamedTuple):
    """Solution and what it took."""

    x: Array
    multipliers: Array
    """Of the inequalities."""

    status: str
    """"optimal", "infeasible" or "unfinished"."""

    added: int
    """Constraints that entered."""

    dropped: int
    """Constraints that left."""


def dual_active_set(
    W: Array,
    c: Array,
    A1: Array,
    b1: Array,
    A2: Array,
    b2: Array,
    *,
    normalized: bool = True,
    equality_start: bool = True,
    listing: bool = False,
    most: int = 500,
) -> Steps:
    """Solve a strictly convex quadratic program, counting steps.

    Args:
        W: Positive definite.
        c: Linear term.
        A1: Equations A1 x = b1.
        b1: Their right-hand sides.
        A2: Inequalities A2 x >= b2.
        b2: Their right-hand sides.
        normalized: Whether the violation of a row is divided by its length (5.40b).
        equality_start: Whether to start at the optimum of the equations; else they enter one by
            one, in the direction of their violation.
        listing: Whether to overwrite the multiplier of an entering constraint by the last step, as
            the printed listing does, instead of accumulating it.
        most: Most steps.
    """
    inverse = np.linalg.inv(W)
    held = len(b1)
    rows = np.vstack([A1, A2])
    right = np.concatenate([b1, b2])
    signs = np.ones(len(right))
    active = list(range(held)) if equality_start else []
    x: Array = -inverse @ c
    y: Array = np.zeros(len(active))
    if active:
        M = A1 @ inverse @ A1.T
        y = np.asarray(np.linalg.solve(M, b1 - A1 @ x), dtype=np.float64)
        x = x + inverse @ A1.T @ y
    sizes = np.linalg.norm(rows, axis=1) if normalized else np.ones(len(right))
    added = dropped = 0
    for _ in range(most):
        slack = rows @ x - right
        terms = np.abs(rows) @ np.abs(x) + np.abs(right) + 1e-300
        scores = slack / np.maximum(sizes, 1e-300)
        scores[:held] = -np.abs(scores[:held])
        scores[active] = 0.0
        scores[np.abs(slack) <= VIOLATION_TOLERANCE * terms] = np.maximum(
            scores[np.abs(slack) <= VIOLATION_TOLERANCE * terms], 0.0
        )
        # equations that are not held yet come first
        waiting = [k for k in range(held) if k not in active and scores[k] < 0.0]
        p = waiting[0] if waiting else int(np.argmin(scores))
        if scores[p] >= 0.0:
            found = np.zeros(len(right))
            found[active] = y * signs[active]
            return Steps(x, found[held:], "optimal", added, dropped)
        signs[p] = -1.0 if p < held and slack[p] > 0.0 else 1.0
        normal, bound = signs[p] * rows[p], signs[p] * right[p]
        own = 0.0
        while True:
            N = (signs[active, None] * rows[active]).T
            r = (
                np.linalg.solve(N.T @ inverse @ N, N.T @ inverse @ normal)
                if active
                else np.zeros(0)
            )
            z = inverse @ (normal - N @ r)
            along = float(z @ normal)
            choices = [
                (y[k] / r[k], k) for k, place in enumerate(active) if place >= held and r[k] > 1e-14
            ]
            partial, leaving = min(choices, default=(np.inf, -1))
            dependent = along <= DEPENDENT_SHARE * float(normal @ inverse @ normal)
            full = np.inf if dependent else (bound - float(normal @ x)) / along
            step = min(partial, full)
            if not np.isfinite(step):
                return Steps(x, np.full(len(b2), np.nan), "infeasible", added, dropped)
            if not dependent:
                x = x + step * z
            y = y - step * r
            own = step if listing else own + step
            if step == full:
                active.append(p)
                y = np.append(y, own)
                added += 1
                break
            del active[leaving]
            y = np.delete(y, leaving)
            dropped += 1
            if dropped > most:
                return Steps(x, np.full(len(b2), np.nan), "unfinished", added, dropped)
    return Steps(x, np.full(len(b2), np.nan), "unfinished", added, dropped)
