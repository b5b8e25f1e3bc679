"""Contact normals that depend on each other: which forces are redundant or indeterminate.

Let a_i f_i sum to zero over a minimal set of contacts, f_i being the generalized unit force of
contact i (Featherstone 1987, section 9.8.2, L2995-3003):

    all a_i of one sign         no motion separates any of them: the contacts act as a joint
    one a_i of the other sign   that contact is redundant: the others never let it approach
    one contact, f_i = 0        redundant: no motion of the robot moves it
    several of each sign        forces are indeterminate, as those of a table with four legs

Rank and redundancy are invariant; lengths and angles are those of the metric of the rows given, for
which rows of F^T H^-1/2 (`complementarity`) are the natural choice.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import NonFiniteError, ShapeError
from tiburon.model.contact_kinds import independent_normals, nonnegative_least_squares

Array = NDArray[np.float64]

KINDS = ("unbreakable", "redundant", "indeterminate")
"""What a minimal dependent set of contacts means."""

MOST_LISTED = 14
"""Contacts up to which all minimal sets are listed; their number grows exponentially."""


class DependentSet(NamedTuple):
    """A minimal set of contacts whose normals depend on each other."""

    contacts: tuple[int, ...]
    """Indices of the contacts."""

    weights: tuple[float, ...]
    """a_i of the contacts, for unit normals; the largest is 1 in size, the first positive."""

    kind: str
    """One of `KINDS`."""

    redundant: int | None
    """The contact that the others make redundant, for that kind."""


class Dependence(NamedTuple):
    """Dependence of contact normals."""

    rank: int
    """Number of independent normals."""

    sets: tuple[DependentSet, ...]
    """Minimal dependent sets, smaller ones first; none are listed for more than `MOST_LISTED`
    contacts."""

    redundant: tuple[int, ...]
    """Contacts that can be left out together without changing motions or resultants."""

    unbreakable: tuple[tuple[int, ...], ...]
    """Groups of contacts that cannot separate whatever forces act: joints for the loop room."""


def analyze_dependence(normals: ArrayLike, tolerance: float = 1e-9) -> Dependence:
    """Analyze how contact normals depend on each other.

    Args:
        normals: Generalized unit forces of the contacts, one row each, shape (n, m).
        tolerance: Length below which a combination of unit normals counts as zero.

    Raises:
        ShapeError: If the normals are not a matrix.
        NonFiniteError: If an entry is not finite.
    """
    rows = np.asarray(normals, dtype=np.float64)
    if rows.ndim != 2:
        raise ShapeError("normals", "one row per contact", rows.shape)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        raise NonFiniteError("normals", tuple(bad[0].tolist()), float(rows[tuple(bad[0])]))
    count = len(rows)
    if not count:
        return Dependence(0, (), (), ())
    lengths = np.linalg.norm(rows, axis=1)
    longest = float(lengths.max(initial=0.0))
    zero = lengths <= tolerance * longest
    unit = rows / np.where(zero, 1.0, lengths)[:, None]
    unit[zero] = 0.0
    values = np.linalg.svd(unit, compute_uv=False)
    rank = int((values > tolerance * max(1.0, float(values.max(initial=0.0)))).sum())
    kept = independent_normals(unit.T, tolerance) if longest > 0.0 else ()
    return Dependence(
        rank,
        _minimal_sets(unit, zero, rank, tolerance) if count <= MOST_LISTED else (),
        tuple(k for k in range(count) if k not in kept),
        _unbreakable(unit, zero, tolerance),
    )


def _minimal_sets(
    unit: Array, zero: NDArray[np.bool_], rank: int, tolerance: float
) -> tuple[DependentSet, ...]:
    """Return all minimal dependent sets."""
    found = [DependentSet((k,), (1.0,), "redundant", k) for k in np.flatnonzero(zero).tolist()]
    known = [frozenset(one.contacts) for one in found]
    moving = np.flatnonzero(~zero).tolist()
    for size in range(2, min(rank + 1, len(moving)) + 1):
        for chosen in combinations(moving, size):
            if any(one <= set(chosen) for one in known):
                continue
            _, values, vectors = np.linalg.svd(unit[list(chosen)].T)
            smallest = values[size - 1] if len(values) == size else 0.0
            if smallest > tolerance:
                continue
            weights = vectors[size - 1]
            weights = weights / np.copysign(np.abs(weights).max(), weights[0])
            known.append(frozenset(chosen))
            found.append(_classified(chosen, weights))
    return tuple(found)


def _classified(contacts: tuple[int, ...], weights: Array) -> DependentSet:
    given = tuple(weights.tolist())
    positive, negative = int((weights > 0.0).sum()), int((weights < 0.0).sum())
    if negative == 0:
        return DependentSet(contacts, given, "unbreakable", None)
    if 1 in (positive, negative):
        odd = (weights > 0.0) if positive == 1 else (weights < 0.0)
        return DependentSet(contacts, given, "redundant", contacts[int(odd.argmax())])
    return DependentSet(contacts, given, "indeterminate", None)


def _unbreakable(
    unit: Array, zero: NDArray[np.bool_], tolerance: float
) -> tuple[tuple[int, ...], ...]:
    """Return groups of contacts whose unit normals sum to zero with positive weights."""
    moving = np.flatnonzero(~zero).tolist()
    groups: list[set[int]] = []
    for k in moving:
        others = [i for i in moving if i != k]
        if not others:
            continue
        x = nonnegative_least_squares(unit[others].T, -unit[k])
        if float(np.linalg.norm(unit[others].T @ x + unit[k])) > tolerance:
            continue
        own = {k} | {i for i, weight in zip(others, x, strict=True) if weight > tolerance}
        for group in [group for group in groups if group & own]:
            own |= group
            groups.remove(group)
        groups.append(own)
    return tuple(sorted(tuple(sorted(group)) for group in groups))
