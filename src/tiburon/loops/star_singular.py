"""Singular arms of a star: their tip forces and the acceleration of the reference member.

An arm is singular if its joints cannot move its tip in all directions that its grasp resists: it
is stretched out, two of its axes coincide, or it has too few joints (McMillan 1994, chapter 4). Its
Lambda_k does not exist. With the regular arms in Lambda_* (eq. 4.4) and the acceleration a_* that
they alone would give the reference member, the forces f of s singular arms solve (eq. 4.20)

    [delta_kl Lambda_k^-1 + J_k Lambda_*^-1 J_l^T] f_l = x_k - J_k a_*

which is eq. 4.9 for s = 1 and the pair 4.16, 4.17 for s = 2; J_k is the motion of tip k with the
reference member, x_k its open acceleration. The matrix is W^T W with

    W = [ G_1            ]
        [      ...       ]      G_k = D^-1/2 L^-T J^T of arm k, Lambda_k^-1 = G_k^T G_k
        [            G_s ]
        [ B_1  ...   B_s ]      B_k = D_*^-1/2 L_*^-T J_k^T, with factors of Lambda_*

so that W y = f with W^T y = x - J a_* needs no product of it: an orthogonal factorization with
pivoting decides the rank (`tiburon.loops.metric`), yields the shortest forces, and does not square
the condition number. Its cost grows as s^3: singular arms are moved to the first places, and code
for one, for two, and for all arms runs where it is needed.

Existence and uniqueness. W loses rank if and only if some forces v_k, not all zero, that no joint
of their arm feels (G_k v_k = 0) sum to zero on the reference member (the source names two arms;
three with dependent directions do as well). The right-hand side then still is in the range, and the
acceleration is unique. Of the forces, those of least norm are returned, or those of the source,
which eliminates with full pivoting and sets free components to zero (L1103): as it solves for the
first singular arm by all others, they belong to these.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.loops.metric import TreeMetric
from tiburon.loops.star import StarLayout
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import OrthogonalFactor, factor_orthogonal
from tiburon.trace.regions import where_needed, while_loop

REDUNDANT_FORCES = ("shortest", "zero")
"""How forces are chosen that the motion does not determine: of least norm, or with free components
zero."""


class SingularMessage(NamedTuple):
    """What an arm sends where it is singular."""

    is_singular: Scalar
    """1 if it is, else 0."""

    G: list[list[Scalar]]
    """Columns of G_k, one per constraint, with one entry per own variable."""

    J: list[list[Scalar]]
    """Rows of J_k, one per constraint, with one entry per border variable of the arm."""

    x: list[Scalar]
    """Open acceleration along each constraint, with the sign of the right-hand side."""


class SingularAnswer(NamedTuple):
    """What a singular arm receives."""

    f: list[Scalar]
    """Force along each of its constraints [N or N m]."""

    y: list[Scalar]
    """G_k f_k, one per own variable."""


class SingularMotion(NamedTuple):
    """Motion of a star with singular arms."""

    vd: list[Scalar]
    """Acceleration of the reference member's variables."""

    answers: list[SingularAnswer]
    lost: Scalar
    """Number of constraints that are redundant."""

    ratio: Scalar
    """Smallest over largest singular value of W, estimated."""


Slots = list[tuple[list[list[Scalar]], list[list[Scalar]], list[Scalar]]]
"""G by columns, B by columns, and right-hand side of each place for a singular arm."""


def singular_motion(
    shape: StarLayout,
    entries: Scalars,
    vd: Scalars,
    messages: Sequence[SingularMessage],
    cut: Scalar,
    redundant_forces: str = "shortest",
) -> SingularMotion:
    """Solve for the forces of singular arms and the acceleration of the reference member.

    Args:
        shape: Layout of the star.
        entries: Factors of Lambda_*, of a full matrix.
        vd: Acceleration a_* without the forces of singular arms.
        messages: One per arm, in order; those of regular arms count as zero.
        cut: Relative singular value below which a constraint is redundant.
        redundant_forces: One of `REDUNDANT_FORCES`.
    """
    size = len(vd)
    metric = TreeMetric.from_factor(tuple(range(-1, size - 1)), entries)
    roots = [np.sqrt(x) for x in metric.inverse_D]
    slots: Slots = []
    for arm, sent in zip(shape.arms, messages, strict=True):
        on = sent.is_singular
        lowered = [metric.solve_transpose(dict(zip(arm.at, row, strict=True))) for row in sent.J]
        B = [
            [on * (row[i] * roots[i]) if i in row else 0.0 for i in range(size)] for row in lowered
        ]
        missing = [
            on * (x - sum((a * vd[i] for a, i in zip(row, arm.at, strict=True)), start=0.0))
            for x, row in zip(sent.x, sent.J, strict=True)
        ]
        slots.append(([[on * x for x in column] for column in sent.G], B, missing))
    widest = max(len(slot[2]) for slot in slots)
    longest = max(len(slot[0][0]) if slot[0] else 0 for slot in slots)
    padded = [_padded(slot, longest, widest, size) for slot in slots]
    flags = [sent.is_singular for sent in messages]
    count: Scalar = sum(flags, start=0.0)
    before = [sum(flags[:k], start=0.0) for k in range(len(flags))]

    def solved(
        places: int,
    ) -> tuple[list[Scalar], list[list[Scalar]], list[list[Scalar]], Any, Any]:
        """Solve with singular arms in some first places; return y_r, f, y, rank and ratio."""
        moved = padded if places == len(slots) else _gathered(padded, flags, before, places)
        free: list[list[Scalar]] | None = None
        if redundant_forces == "zero":
            # all but those of the first singular arm
            first: list[Scalar] = [
                np.where(np.abs(k) < 0.5, flag, 0.0) for flag, k in zip(flags, before, strict=True)
            ]
            if places < len(slots):
                first = [1.0 if k == 0 else 0.0 for k in range(places)]
            free = [[1.0 - one] * widest for one in first]
        y_r, f, y, rank, ratio = _factored(moved, longest, widest, size, cut, free)
        if places < len(slots):
            f, y = (_scattered(x, flags, before) for x in (f, y))
        return y_r, f, y, rank, ratio

    found: Any = (
        [0.0] * size,
        [[0.0] * widest for _ in slots],
        [[0.0] * longest for _ in slots],
        0.0,
        1.0,
    )
    sizes = sorted({min(1, len(slots)), min(2, len(slots)), len(slots)})
    for least, places in zip([0, *sizes], sizes, strict=False):
        needed = (count > least + 0.5) & (count < places + 0.5)
        found = where_needed(needed, _solver(solved, places), found)
    y_r, f, y, rank, ratio = found
    change = metric.solve_lower([root * x for root, x in zip(roots, y_r, strict=True)])
    answers = [
        SingularAnswer(f[k][: len(slot[2])], y[k][: len(slot[0][0]) if slot[0] else 0])
        for k, slot in enumerate(slots)
    ]
    wanted = sum(
        (flag * float(len(slot[2])) for flag, slot in zip(flags, slots, strict=True)), start=0.0
    )
    return SingularMotion(
        [a + b for a, b in zip(vd, change, strict=True)], answers, wanted - rank, ratio
    )


def _solver(solve: Callable[[int], Any], places: int) -> Callable[[], Any]:
    return lambda: solve(places)


def _padded(
    slot: tuple[list[list[Scalar]], list[list[Scalar]], list[Scalar]],
    longest: int,
    widest: int,
    size: int,
) -> tuple[list[list[Scalar]], list[list[Scalar]], list[Scalar]]:
    """Fill an arm up with zeros to the size of the largest."""
    G, B, missing = slot
    lacking = widest - len(missing)
    columns = [[*column, *[0.0] * (longest - len(column))] for column in G]
    columns += [[0.0] * longest for _ in range(lacking)]
    return columns, B + [[0.0] * size for _ in range(lacking)], missing + [0.0] * lacking


def _gathered(padded: Slots, flags: Scalars, before: Scalars, places: int) -> Slots:
    """Return the first singular arms alone."""
    found: Slots = []
    for place in range(places):
        here = [
            flag * np.where(np.abs(k - place) < 0.5, 1.0, 0.0)
            for flag, k in zip(flags, before, strict=True)
        ]
        G, B, missing = padded[0]
        total = (
            [[here[0] * x for x in column] for column in G],
            [[here[0] * x for x in column] for column in B],
            [here[0] * x for x in missing],
        )
        for mark, (G, B, missing) in zip(here[1:], padded[1:], strict=True):
            total = (
                [
                    [t + mark * x for t, x in zip(a, b, strict=True)]
                    for a, b in zip(total[0], G, strict=True)
                ],
                [
                    [t + mark * x for t, x in zip(a, b, strict=True)]
                    for a, b in zip(total[1], B, strict=True)
                ],
                [t + mark * x for t, x in zip(total[2], missing, strict=True)],
            )
        found.append(total)
    return found


def _scattered(values: Sequence[Scalars], flags: Scalars, before: Scalars) -> list[list[Scalar]]:
    """Return values of the first places to the arms they belong to."""
    found = []
    for flag, k in zip(flags, before, strict=True):
        total: list[Scalar] = [0.0] * len(values[0])
        for place, value in enumerate(values):
            mark = flag * np.where(np.abs(k - place) < 0.5, 1.0, 0.0)
            total = [t + mark * x for t, x in zip(total, value, strict=True)]
        found.append(total)
    return found


def _factored(
    slots: Slots, longest: int, widest: int, size: int, cut: Scalar, free: Sequence[Scalars] | None
) -> tuple[list[Scalar], list[list[Scalar]], list[list[Scalar]], Scalar, Scalar]:
    """Factor W and solve; return y_r, f, y, rank and ratio.

    Args:
        slots: G, B and right-hand side of each place.
        longest: Own variables of each place.
        widest: Constraints of each place.
        size: Variables of the reference member.
        cut: Relative singular value below which a constraint is redundant.
        free: 1 for forces that may be set to zero, 0 for others; None for the shortest forces.
    """
    columns: list[list[Scalar]] = []
    right: list[Scalar] = []
    for place, (G, B, missing) in enumerate(slots):
        for own, shared in zip(G, B, strict=True):
            above, below = place * longest, (len(slots) - place - 1) * longest
            columns.append([*[0.0] * above, *own, *[0.0] * below, *shared])
        right += missing
    W = [list(row) for row in zip(*columns, strict=True)]
    factor = factor_orthogonal(as_traced(W), cut=cut)
    y = factor.solve_transpose(as_traced(right))
    f = list(factor.solve(y))
    if free is not None:
        f = free_components_zero(factor, f, [x for row in free for x in row])
    y = list(y)
    return (
        y[len(slots) * longest :],
        [f[widest * k : widest * (k + 1)] for k in range(len(slots))],
        [y[longest * k : longest * (k + 1)] for k in range(len(slots))],
        factor.rank,
        factor.ratio,
    )


def free_components_zero(factor: OrthogonalFactor, x: Scalars, free: Scalars) -> list[Scalar]:
    """Return another solution of A x = b, with as many components zero as A lacks rank.

    Of the projector on the null space the largest diagonal element is the pivot: that component of
    x is the freest one, and moving along its column makes it zero. The rest of the projector loses
    a rank with every step.

    Args:
        factor: Factor of A.
        x: A solution.
        free: 1 for components that may be chosen, 0 for others; every null vector that vanishes in
            all chosen ones must be zero.
    """
    size = len(x)
    unit = np.eye(size)
    seen = as_traced(factor.project_rows(as_traced(unit))).tolist()
    null = [[float(unit[i, j]) - seen[i][j] for j in range(size)] for i in range(size)]
    missing = size - factor.rank

    def step(state: Any) -> Any:
        values, P, left = state
        best: Scalar = 0.0
        for k in range(size):
            best = np.maximum(best, free[k] * P[k][k])
        marks: list[Scalar] = []
        found: Scalar = 0.0
        for k in range(size):
            # the first of equal ones
            mark = np.where(free[k] * P[k][k] >= best, 1.0 - found, 0.0)
            marks.append(mark)
            found = found + mark
        pivot = sum((m * P[k][k] for k, m in enumerate(marks)), start=0.0)
        inverse = np.where(pivot > 0.0, 1.0, 0.0) / np.where(pivot > 0.0, pivot, 1.0)
        column = [sum((m * P[i][k] for k, m in enumerate(marks)), start=0.0) for i in range(size)]
        own = sum((m * values[k] for k, m in enumerate(marks)), start=0.0) * inverse
        kept = [1.0 - m for m in marks]
        values = [
            (value - own * part) * on for value, part, on in zip(values, column, kept, strict=True)
        ]
        rest = [
            [
                (P[i][k] - column[i] * (inverse * column[k])) * (kept[i] * kept[k])
                for k in range(size)
            ]
            for i in range(size)
        ]
        return values, rest, left - 1.0

    start = (list(x), null, missing + 0.0)
    return list(while_loop(lambda state: state[2] > 0.5, step, start, size).state[0])
