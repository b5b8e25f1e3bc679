"""Matrices with one entry per pair of a joint axis and an ancestor's.

With all vectors in one frame, an entry is the scalar product of a vector of the one axis and a
vector of the other. This is the last step of the mass matrix, the Coriolis matrix, the regressor
and the derivatives of dynamics of large models; all steps before it are linear in the number of
bodies. Entries of coupled joints, which share a variable, are added at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.algorithms.tape_calls import recorder, taping
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.primitives.row_products import ZERO, Kind, Piece, RowProducts
from tiburon.trace.program import current_graph
from tiburon.trace.regions import function
from tiburon.trace.value import Value

Vectors = Sequence[Scalars]
"""For each component, the values of all joint axes, bodies in the order of the plan."""

FEW_DOF = 12
"""Degrees of freedom up to which forces are propagated from body to body instead."""

FEW_PRODUCTS = 2500
"""Products up to which they are inlined in the graph, where products with zero cost nothing."""

MAX_INLINED_BODIES = 16
"""Bodies up to which visits are inlined before products."""

ABOVE, BELOW, DIAGONAL = 0, 1, 2


def has_few_pairs(plan: Plan) -> bool:
    """Return whether propagation from body to body takes fewer operations than a common frame."""
    return recorder() is None and sum(map(len, _dof_ranges(plan))) <= FEW_DOF


def is_taped(plan: Plan) -> bool:
    """Return whether visits before products are recorded on a tape."""
    large = current_graph() is not None and len(plan.bodies) > MAX_INLINED_BODIES
    return recorder() is not None or large


def before_products(
    plan: Plan, *, always: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the function that computes the vectors: for large models a region on a tape.

    Args:
        plan: Layout of the model.
        always: Whether to use a tape for small models, too.
    """

    def decorate(call: Callable[..., Any]) -> Callable[..., Any]:
        if not (is_taped(plan) or (always and current_graph() is not None)):
            return call
        region = function(call)

        def taped(*arguments: Any) -> Any:
            if recorder() is not None:
                return region(*arguments)
            with taping(plan):
                return region(*arguments)

        return taped

    return decorate


def components(vectors: Sequence[Scalars], size: int) -> list[list[Scalar]]:
    """Transpose vectors of a given size into one row per component."""
    rows: list[list[Scalar]] = [[] for _ in range(size)]
    for vector in vectors:
        for row, x in zip(rows, vector, strict=True):
            row.append(x)
    return rows


def joint_matrix(
    plan: Plan,
    above: Sequence[tuple[Vectors, Vectors]],
    below: Sequence[tuple[Vectors, Vectors]],
    *,
    own_block: int | None = None,
    diagonal: Scalars | None = None,
) -> list[Scalar]:
    """Multiply the vectors of all pairs of an axis and an ancestor's axis.

    Args:
        plan: Layout of the model.
        above: Pairs of vectors, of ancestor j and of descendant k, whose products add up to entry
            (j, k). The longer of two vectors is truncated.
        below: The same for entry (k, j): of k, and of j.
        own_block: `ABOVE` or `BELOW` for the entries of two axes of one body; by default each on
            its side of the diagonal, for symmetric matrices.
        diagonal: Added to the diagonal, one value per axis; nothing by default.

    Returns:
        The matrix, nv times nv scalars, row by row; zero between branches.
    """
    ranges = _dof_ranges(plan)
    spans = [(own[0], own[-1] + 1) if own else (0, 0) for own in ranges]
    size = sum(map(len, ranges))
    carriers, carried = _relatives(plan)
    pieces: list[Piece] = []
    for body, own in enumerate(ranges):
        marks = [ZERO] * size
        for other in carriers[body]:
            marks[slice(*spans[other])] = [BELOW] * len(ranges[other])
        for other in carried[body]:
            marks[slice(*spans[other])] = [ABOVE] * len(ranges[other])
        for row in own:
            for column in own:
                side = BELOW if column <= row else ABOVE
                marks[column] = side if own_block is None else own_block
            if diagonal is not None:
                marks[row] = DIAGONAL
            pieces += [Piece(row, *run, row * size + run[0]) for run in _runs(marks)]
    kinds = [above, below]
    if diagonal is not None:
        on_it = kinds[BELOW if own_block is None else own_block]
        kinds.append([*on_it, ([diagonal], [[1.0] * size])])
    entries = _multiplied(kinds, pieces)
    return _gathered(plan, entries, plan.nv if plan.has_couplings else None)


def tree_matrix(
    elements: Sequence[tuple[int, int]],
    vectors: tuple[Vectors, Vectors],
    diagonal: Scalars | None = None,
) -> list[Scalar]:
    """Compute selected entries of a product matrix, in the order of `elements`.

    Args:
        elements: Row and column of each entry.
        vectors: Vectors of the rows, and of the columns.
        diagonal: Added to the diagonal, one value per axis; nothing by default.
    """
    pieces: list[Piece] = []
    for place, (row, column) in enumerate(elements):
        kind = 1 if diagonal is not None and row == column else 0
        last = pieces[-1] if pieces else None
        if last is not None and (last.row, last.stop, last.kind) == (row, column, kind):
            pieces[-1] = last._replace(stop=column + 1)
        else:
            pieces.append(Piece(row, column, column + 1, kind, place))
    kinds = [[vectors]]
    if diagonal is not None:
        kinds.append([vectors, ([diagonal], [[1.0] * len(diagonal)])])
    return _multiplied(kinds, pieces)


def load_matrix(plan: Plan, S: Vectors, loads: Vectors, bodies: Sequence[int]) -> list[Scalar]:
    """Project forces on bodies on all joint axes that carry them.

    Args:
        plan: Layout of the model.
        S: Joint axes.
        loads: For each component of a force, the values of all columns, equally many per body.
        bodies: The plan body of each group of columns; forces on the world have no effect.

    Returns:
        Joint forces, nv rows of one column per force, row by row.
    """
    ranges = _dof_ranges(plan)
    columns = len(loads[0])
    width = columns // len(bodies)
    carriers, _ = _relatives(plan)
    reach: list[set[int]] = [set() for _ in plan.bodies]
    for group, body in enumerate(bodies):
        if body != WORLD_BODY:
            for carrier in (body, *carriers[body]):
                reach[carrier].add(group)
    pieces: list[Piece] = []
    for body, own in enumerate(ranges):
        marks = [ABOVE if group in reach[body] else ZERO for group in range(len(bodies))]
        runs = [(a * width, b * width, kind) for a, b, kind in _runs(marks)]
        for row in own:
            pieces += [Piece(row, *run, row * columns + run[0]) for run in runs]
    entries = _multiplied([[(S, loads)]], pieces)
    return _gathered_rows(plan, entries, columns)


def _multiplied(
    kinds: Sequence[Sequence[tuple[Vectors, Vectors]]], pieces: Sequence[Piece]
) -> list[Any]:
    """Compute the entries of all pieces, skipping zero vectors."""
    places: dict[int, int] = {}
    arrays: list[Vectors] = []

    def kind_of(pairs: Sequence[tuple[Vectors, Vectors]]) -> Kind:
        found = []
        for pair in pairs:
            if any(_is_zero(vectors) for vectors in pair):
                continue
            for vectors in pair:
                if id(vectors) not in places:
                    places[id(vectors)] = len(arrays)
                    arrays.append(vectors)
            found.append((places[id(pair[0])], places[id(pair[1])]))
        return found

    made = [kind_of(pairs) for pairs in kinds]
    pieces = [x._replace(kind=x.kind if made[x.kind] else ZERO) for x in pieces]
    sizes = [(len(rows), len(rows[0])) for rows in arrays]
    values = [x for rows in arrays for row in rows for x in row]
    products = RowProducts(sizes, made, pieces)
    few = products.count().multiplications <= FEW_PRODUCTS
    return products.apply(values, inline=few)


def _is_zero(vectors: Vectors) -> bool:
    """Return whether all components are constant zeros of the graph."""
    return all(
        (x.graph.constant_of(x.node) if isinstance(x, Value) else x) == 0.0
        for row in vectors
        for x in row
    )


def _dof_ranges(plan: Plan) -> list[range]:
    """Return the range of each body's axes among those of all bodies."""
    found: list[range] = []
    count = 0
    for body in plan.bodies:
        found.append(range(count, count + body.v.stop - body.v.start))
        count = found[-1].stop
    return found


def _relatives(plan: Plan) -> tuple[list[list[int]], list[list[int]]]:
    """Return the ancestors and the descendants of each body."""
    carriers: list[list[int]] = []
    carried: list[list[int]] = [[] for _ in plan.bodies]
    for body in plan.bodies:
        above = [] if body.parent == WORLD_BODY else [*carriers[body.parent], body.parent]
        carriers.append(above)
        for other in above:
            carried[other].append(body.index)
    return carriers, carried


def _runs(marks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return start, end and mark of each run of equal marks."""
    runs: list[tuple[int, int, int]] = []
    for place, mark in enumerate(marks):
        if runs and runs[-1][2] == mark:
            runs[-1] = (runs[-1][0], place + 1, mark)
        else:
            runs.append((place, place + 1, mark))
    return runs


def _gathered(plan: Plan, entries: list[Any], size: int | None) -> list[Any]:
    """Add rows and columns of axes that share a variable (coupled joints)."""
    if size is None:
        return entries
    rows = _gathered_rows(plan, entries, sum(map(len, _dof_ranges(plan))))
    count = len(rows) // plan.nv
    turned = [rows[row * count + column] for column in range(count) for row in range(plan.nv)]
    found = _gathered_rows(plan, turned, plan.nv)
    return [found[column * plan.nv + row] for row in range(plan.nv) for column in range(plan.nv)]


def _gathered_rows(plan: Plan, entries: list[Any], columns: int) -> list[Any]:
    """Add rows of axes that share a variable (coupled joints)."""
    if not plan.has_couplings:
        return entries
    found: list[Any] = [0.0] * (plan.nv * columns)
    for body, own in zip(plan.bodies, _dof_ranges(plan), strict=True):
        for row, variable in zip(own, range(body.v.start, body.v.stop), strict=True):
            for k in range(columns):
                place = variable * columns + k
                found[place] = found[place] + entries[row * columns + k]
    return found
