"""Dynamics of a robot that is cut into parts, exactly: what a part sends, and how parts are joined.

A cut at a joint goes through the link that carries it: the link is split into pieces with shares of
its inertia, one stays with its part, the other becomes the floating base of the part beyond the
joint. Both pieces are the same rigid body, so every cut is a weld, whatever the joint, its rotor
and its bias: position and velocity of the base follow from the joints before it, and only its
acceleration is unknown. Any split of the inertia gives the same motion.

Accelerations are classical and relative to free fall. Of a floating part they depend on the angular
velocity of its base and on nothing else of its motion.

What a part computes alone, with H = L^T D L of its tree and rows J at its handles (bodies at which
it was cut) and in the constraints of loops:

    G = D^-1/2 L^-T J^T = Q R,      y = D^-1/2 L^-T (tau - C),      a = bias + G^T y

It sends R and a, with r rows r(r+1)/2 + r numbers: 27 for one handle, 90 for two. R^T R is Phi, the
inverse inertia of its handles (Featherstone 1987, section 9.5), in the same number of values but
without squaring the condition number.

Two parts are joined as in the divide-and-conquer algorithm (Featherstone 1999), in factors. With
the columns N of a weld, a_1 - a_2 = 0, and the columns G of the rows that remain,

    [N G] = Q [R_n  G_1]        R_n^T y_1 = a_2 - a_1,      a' = a + G_1^T y_1
              [ 0   R' ]

R' and a' are what the joined parts would send. Forces follow on the way back: R_n w = y_1 - G_1 f.
Constraints of loops add their rows when parts are joined and are solved last, with the rank decided
in the metric of the mass matrix as for the undivided robot (`tiburon.loops.metric`).

Which parts are joined when belongs to the cuts: a tree of depth about log2 of the number of parts.
Inside a part the recursions are those of the whole robot, since pure divide and conquer wastes
small machines (Critchley, Anderson and Binani 2009).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.aba import velocity_terms
from tiburon.algorithms.bias import bias
from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.rnea import base_acceleration
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.algorithms.traversal import outward, to_root
from tiburon.functions.kernel_source import INLINED_BODIES
from tiburon.loops.constraints import Constraints, Row, add_to_rows, transmitter
from tiburon.loops.like_parts import Apart, plan_apart
from tiburon.loops.metric import (
    MIN_CUT,
    ArticulatedMetric,
    Metric,
    TreeMetric,
    rank_cut,
    tree_factor,
)
from tiburon.loops.parts import Exchanged, Kept, PartMethod, Round, part_function, run
from tiburon.loops.star import part_of
from tiburon.model import Model, Plan, PlanBody
from tiburon.model.joints import Free
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Motion, Scalar, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.primitives.triangle import triangle_size, triangular_factor
from tiburon.trace.regions import where_needed

BASE_Q = Free("base").neutral()
"""Pose of a floating base: that of its own axes."""

BASE = len(BASE_Q), Free.nv
"""Position and velocity variables of a floating base."""

Scalars = tuple[Scalar, ...]

Key = tuple[str, int]
"""Rows of a part: ("handle", body), six; ("base", part), six; ("loop", row), one."""


class CutPart(NamedTuple):
    """One part of a robot: a tree, on the world or on a piece of a link of another part."""

    name: str
    number: int
    bodies: tuple[int, ...]
    """Its plan bodies, parents first."""

    base: int | None
    """Plan body of another part of which a piece is its floating base; None on the world."""

    path: tuple[int, ...]
    """Plan bodies from the world to the base, itself included."""

    keys: tuple[Key, ...]
    """Its rows, in the order of its message."""

    q: tuple[int, ...]
    v: tuple[int, ...]
    """Variables of its bodies in the robot's."""

    path_q: tuple[int, ...]
    path_v: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(_width(key) for key in self.keys)

    @property
    def variables(self) -> int:
        """Velocity variables of its tree, with those of its base."""
        return len(self.v) + (0 if self.base is None else BASE[1])


class Joined(NamedTuple):
    """Two parts, or groups of parts, that are joined; leaves of the tree are parts."""

    left: "Joined | int"
    right: "Joined | int"
    weld: tuple[Key, Key] | None
    """Handle in the left group and base in the right one; None to join without a weld."""

    keys: tuple[Key, ...]
    """Rows that remain."""


class CutLayout(NamedTuple):
    """All parts of a robot and the order in which they are joined."""

    parts: tuple[CutPart, ...]
    tree: Joined | int
    live: tuple[int, ...]
    """Constraints of loops with an entry."""

    shares: tuple[tuple[int, float], ...]
    """Plan bodies that were cut, and the share of its inertia that each of their pieces has."""


def _width(key: Key) -> int:
    return 1 if key[0] == "loop" else 6


def message_numbers(part: CutPart) -> int:
    """Return how many numbers a part sends: its factor and its accelerations."""
    return triangle_size(part.variables, part.rows) + part.rows


class Cut(NamedTuple):
    """What is fixed about a part while a kernel is traced."""

    part: CutPart
    plan: Plan
    """Its tree, with a floating base before its other bodies."""

    path: Plan
    gravity: Vec3
    external: tuple[Force, ...] | None

    def apart(self) -> Apart | None:
        """Take the part apart, so that like parts share code; None for large ones, on tapes."""
        if _large(self.plan) or _large(self.path):
            return None
        own, path = plan_apart(self.plan), plan_apart(self.path)
        keys = tuple(
            (kind, None if kind == "loop" else _place(self.part, (kind, k)))
            for kind, k in self.part.keys
        )
        form = (self.part.base is None, keys, self.external is None, own.form, path.form)
        external = () if self.external is None else self.external
        count = len(own.numbers)

        def make(numbers: Any) -> Cut:
            forces = None if self.external is None else tuple(numbers[-1])
            return self._replace(
                plan=own.make(numbers[:count])[0],
                path=path.make(numbers[count:-1])[0],
                external=forces,
            )

        return Apart(form, (*own.numbers, *path.numbers, external), make)


class CutState(NamedTuple):
    """What a part knows of the state."""

    q: list[Scalar]
    v: list[Scalar]
    tau: list[Scalar]
    path_q: list[Scalar]
    path_v: list[Scalar]
    loops: list[dict[str, Scalar]]
    """Rows of the constraints of loops, by own variable."""


class Message(NamedTuple):
    """What a part sends."""

    R: list[list[Scalar]]
    """Rows of R, from the diagonal on."""

    a: list[Scalar]
    """Acceleration of each row without forces at handles [rad/s^2, m/s^2]."""


class Factored(NamedTuple):
    """What a part keeps until it knows the forces at its handles."""

    factors: Kept
    """Of its metric."""

    pushed: list[Scalar]
    """L^-T (tau - C)."""


def part_plan(plan: Plan, part: CutPart, shares: Sequence[tuple[int, float]]) -> Plan:
    """Return the tree of a part."""
    own = frozenset(part.bodies)
    found = part_of(plan, part.bodies, own, part.q, part.v)
    split = dict(shares)
    bodies = []
    for old, body in zip(part.bodies, found.bodies, strict=True):
        kept = replace(body, inertia=body.inertia * split[old]) if old in split else body
        bodies.append(kept)
    if part.base is None:
        return replace(found, bodies=tuple(bodies))
    nq, nv = BASE
    roots = tuple(body.index + 1 for body in bodies if body.parent == WORLD_BODY)
    cut = plan.bodies[part.base]
    base = PlanBody(
        index=0,
        name=f"{cut.name} at {part.name}",
        parent=WORLD_BODY,
        children=roots,
        q=slice(0, nq),
        v=slice(0, nv),
        joint=Free("base"),
        placement=Transform.identity(),
        inertia=cut.inertia * split[part.base],
    )
    moved = [
        replace(
            body,
            index=body.index + 1,
            parent=body.parent + 1,
            children=tuple(k + 1 for k in body.children),
            q=_shifted(body.q, nq),
            v=_shifted(body.v, nv),
        )
        for body in bodies
    ]
    whole = (base, *moved)
    return Plan(plan.name, found.nq + nq, found.nv + nv, whole, {}, (), plan.time)


def _shifted(old: slice, by: int) -> slice:
    return old if old.start == old.stop else slice(old.start + by, old.stop + by)


# -- what a part computes alone -------------------------------------------------------------------


class _Turning(NamedTuple):
    """Angular velocity, and classical acceleration relative to free fall at zero vd, of a body."""

    w: Vec3
    a: Motion


def _turned(plan: Plan, q: JointVector, v: JointVector, root: Motion) -> tuple[_Turning, ...]:
    """Compute angular velocities and accelerations at zero joint acceleration."""

    def visit(body: PlanBody, parent: _Turning) -> _Turning:
        X, w, z, c = velocity_terms(body, q, v, parent.w)
        return _Turning(w, X.motion(parent.a + Motion(ZERO3, z)) + c)

    return outward(plan, visit, _Turning(ZERO3, root))


def _base_turning(path: Plan, path_q: Sequence[Scalar], path_v: Sequence[Scalar]) -> Vec3:
    """Compute the angular velocity of the last body of a path, in its axes."""
    q, v = JointVector(list(path_q)), JointVector(list(path_v))

    def visit(body: PlanBody, parent: Vec3) -> Vec3:
        X = body.transform(q[body.q])
        return add(X.direction(parent), body.joint.velocity(q[body.q], v[body.v]).angular)

    with taping(_large(path)):
        return outward(path, visit, ZERO3)[-1]


_UNITS = tuple(Force.from_array([float(i == k) for i in range(6)]) for k in range(6))


def _handle_columns(metric: Metric, plan: Plan, q: JointVector, body: int) -> list[Row]:
    """Return L^-T J^T of unit forces on a body, in its frame."""
    if isinstance(metric, ArticulatedMetric):
        return metric.columns(body, _UNITS)
    return [metric.solve_transpose(row) for row in _handle_rows(plan, q, body, _UNITS)]


def _handle_rows(plan: Plan, q: JointVector, body: int, forces: tuple[Force, ...]) -> list[Row]:
    """Return the joint forces of forces on a body, in its frame."""
    rows: list[Row] = [{} for _ in forces]
    for passed, projected in to_root(plan, plan.bodies[body], transmitter(q), forces):
        add_to_rows(rows, passed, projected)
    return rows


def _metric(plan: Plan, q: JointVector, factors: Any = None) -> tuple[Metric, Any]:
    """Return the factored mass matrix of a part, and its factors as functions pass them on."""
    if not plan.has_couplings:
        found = ArticulatedMetric(plan, q, factors)
        return found, found.factors
    parents = expanded_parents(plan)
    if factors is None:
        wanted = FactorTree(parents).layout.elements()
        factors = tree_factor(parents, chosen_mass_elements(plan, q, wanted))
    return TreeMetric.from_factor(parents, factors), factors


def _large(plan: Plan) -> Plan | None:
    return plan if len(plan.bodies) > INLINED_BODIES else None


def _on_tape(plan: Plan, call: Callable[..., Any], *fixed: Any) -> Callable[..., Any]:
    """Return a function of a recursion over a plan; of a large one a function of its own.

    Large ones are many calls of few functions. With anything else beside them these would be code
    of their own each, which takes long to compile, instead of a tape.
    """
    if _large(plan):
        return part_function(call, *fixed)
    return partial(call, *fixed)


def _positions(cut: Cut, state: CutState) -> JointVector:
    return JointVector([*(() if cut.part.base is None else BASE_Q), *state.q])


def open_part(cut: Cut, state: CutState, _: None) -> tuple[Message, Factored]:
    """Compute a part without forces at its handles."""
    part, plan = cut.part, cut.plan
    floats = part.base is not None
    q = _positions(cut, state)
    v, tau, gravity, root = list(state.v), list(state.tau), cut.gravity, Motion.zero()
    if floats:
        turning = _on_tape(cut.path, _base_turning, cut.path)(state.path_q, state.path_v)
        v, tau = [*turning, 0.0, 0.0, 0.0, *v], [0.0] * BASE[1] + tau
        gravity = ZERO3
    else:
        root = base_acceleration(gravity)
    passes = _on_tape(plan, _passes, cut, gravity, root)
    G, a, inverse, kept, factors = passes(list(q), v, tau, state.loops)
    place = 0
    for key in part.keys:
        if not _is_scaled(plan, key):
            for k in range(place, place + _width(key)):
                G[k], a[k] = _scaled(G[k], a[k], inverse, kept)
        place += _width(key)
    matrix = [[column.get(i, 0.0) for column in G] for i in range(plan.nv)]
    # the rows of a base come first, and its columns are triangular already
    ready = BASE[1] if floats else 0
    R = [row[i:] for i, row in enumerate(matrix[:ready])]
    if len(G) > ready:
        R += triangular_factor([row[ready:] for row in matrix[ready:]])
    return Message(R, a), Factored(factors, kept)


def _passes(
    cut: Cut,
    gravity: Vec3,
    root: Motion,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    loops: Sequence[dict[str, Scalar]],
) -> tuple[list[Row], list[Scalar], list[Scalar], list[Scalar], Kept]:
    """Return what the recursions over a part find.

    These are columns G and accelerations a of its rows, D^-1, L^-T (tau - C), and the factors of
    its metric; columns L^-T J^T and accelerations without joint accelerations for rows that are not
    scaled yet (`_is_scaled`).
    """
    part, plan = cut.part, cut.plan
    at, moving_at = JointVector(list(q)), JointVector(list(v))
    columns: list[Row] = []
    biases: list[Scalar] = []
    with taping(_large(plan)):
        C = bias(plan, at, moving_at, gravity, cut.external)
        metric, factors = _metric(plan, at)
        moving = _turned(plan, at, moving_at, root)
        left = iter(loops)
        for key in part.keys:
            if key[0] == "loop":
                columns.append(metric.solve_transpose(_own_row(part, next(left))))
                biases.append(0.0)
                continue
            body = _place(part, key)
            columns += _handle_columns(metric, plan, at, body)
            biases += list(moving[body].a)
        inverse = list(metric.inverse_D)
        free = {i: t - c for i, (t, c) in enumerate(zip(tau, C, strict=True))}
        pushed = metric.solve_transpose(free)
        kept = [pushed.get(i, 0.0) for i in range(plan.nv)]
        place = 0
        for key in part.keys:
            if _is_scaled(plan, key):
                rows = slice(place, place + _width(key))
                columns[rows], biases[rows] = _scaled_on_path(
                    plan, _place(part, key), columns[rows], biases[rows], inverse, kept
                )
            place += _width(key)
    return columns, biases, inverse, kept, Kept.of(factors)


def _is_scaled(plan: Plan, key: Key) -> bool:
    """Return whether visits of bodies scale the columns of some rows: those of one path."""
    return key[0] != "loop" and not plan.has_couplings


def _scaled(
    column: Row, known: Scalar, inverse: Sequence[Scalar], pushed: Sequence[Scalar]
) -> tuple[Row, Scalar]:
    """Return D^-1/2 times a column, and the acceleration of its row."""
    roots = {i: np.sqrt(inverse[i]) for i in sorted(column)}
    scaled = {i: column[i] * root for i, root in roots.items()}
    return scaled, sum((x * (pushed[i] * roots[i]) for i, x in scaled.items()), start=known)


def _scaled_on_path(
    plan: Plan,
    start: int,
    columns: Sequence[Row],
    known: Sequence[Scalar],
    inverse: Sequence[Scalar],
    pushed: Sequence[Scalar],
) -> tuple[list[Row], list[Scalar]]:
    """Return what `_scaled` does for the columns of a handle, body by body on its path."""

    def scale(
        body: PlanBody, a: Scalars, entries: tuple[Scalars, ...], inverse: Scalars, pushed: Scalars
    ) -> tuple[tuple[tuple[Scalars, ...], Scalars], Scalars]:
        scaled: list[Scalars] = []
        for row, d, u in zip(entries, inverse, pushed, strict=True):
            root = np.sqrt(d)
            alone = u * root
            scaled.append(tuple(x * root for x in row))
            a = tuple(total + x * alone for total, x in zip(a, scaled[-1], strict=True))
        return (tuple(scaled), a), a

    def of_bodies(values: Callable[[int], Any]) -> list[tuple[Any, ...]]:
        return [tuple(map(values, range(body.v.start, body.v.stop))) for body in plan.bodies]

    own = (
        of_bodies(lambda i: tuple(column.get(i, 0.0) for column in columns)),
        of_bodies(lambda i: inverse[i]),
        of_bodies(lambda i: pushed[i]),
    )
    ways = to_root(plan, plan.bodies[start], scale, tuple(known), *own)
    found: list[Row] = [{} for _ in columns]
    for body, (rows, _) in ways:
        for i, row in enumerate(rows, start=body.v.start):
            for column, x in zip(found, row, strict=True):
                column[i] = x
    _, (_, total) = ways[-1]
    return found, list(total)


def _place(part: CutPart, key: Key) -> int:
    """Return the body of a handle in the plan of a part."""
    if key[0] == "base":
        return 0
    return part.bodies.index(key[1]) + (part.base is not None)


def _own_row(part: CutPart, row: dict[str, Scalar]) -> Row:
    """Return the row of a loop by variable of the plan of a part."""
    offset = 0 if part.base is None else BASE[1]
    return {int(i) + offset: x for i, x in row.items()}


def moved_part(
    cut: Cut, state: tuple[CutState, Factored], forces: Sequence[Scalar]
) -> list[Scalar]:
    """Return the joint accelerations of a part with forces at its handles."""
    own, factored = state
    part, plan = cut.part, cut.plan
    q = _positions(cut, own)
    left, loops = iter(forces), iter(own.loops)
    pushes: Row = {}
    at: dict[int, Force] = {}
    for key in part.keys:
        if key[0] == "loop":
            force = next(left)
            for i, x in _own_row(part, next(loops)).items():
                pushes[i] = pushes[i] + x * force if i in pushes else x * force
            continue
        at[_place(part, key)] = Force.from_array([next(left) for _ in range(6)])
    with taping(_large(plan)):
        metric, _ = _metric(plan, q, factored.factors.value)
        if isinstance(metric, ArticulatedMetric):
            change = metric.solve_transpose(pushes, at)
        else:
            for body, f in at.items():
                (row,) = _handle_rows(plan, q, body, (f,))
                for i, x in row.items():
                    pushes[i] = pushes[i] + x if i in pushes else x
            change = metric.solve_transpose(pushes)
        total = [
            (x + change[i] if i in change else x) * d
            for i, (x, d) in enumerate(zip(factored.pushed, metric.inverse_D, strict=True))
        ]
        vd = metric.solve_lower(total)
    return list(vd[0 if part.base is None else BASE[1] :])


# -- how parts are joined -------------------------------------------------------------------------


class _Group(NamedTuple):
    """What parts that have been joined would send."""

    R: list[list[Scalar]]
    """Rows of R, complete."""

    a: dict[Key, list[Scalar]]
    places: dict[Key, int]
    """Column of the first row of each key."""


class _Weld(NamedTuple):
    """What is kept of a weld until its force is found."""

    R: list[list[Scalar]]
    G: list[list[Scalar]]
    y: list[Scalar]


def _group(part: CutPart, message: Message) -> _Group:
    places, start = {}, 0
    a = {}
    for key in part.keys:
        places[key] = start
        a[key] = list(message.a[start : start + _width(key)])
        start += _width(key)
    R = [[0.0] * i + list(row) for i, row in enumerate(message.R)]
    return _Group(R, a, places)


def _columns(group: _Group, row: Sequence[Scalar], key: Key) -> list[Scalar]:
    if key not in group.places:
        return [0.0] * _width(key)
    start = group.places[key]
    return list(row[start : start + _width(key)])


def combine(left: _Group, right: _Group, node: Joined) -> tuple[_Group, _Weld | None]:
    """Join two groups of parts; see `PartMethod.combine`."""
    welded = 6
    rows: list[list[Scalar]] = []
    for group, sign, side in ((left, 1.0, 0), (right, -1.0, 1)):
        for row in group.R:
            line: list[Scalar] = []
            if node.weld is not None:
                line += [sign * x for x in _columns(group, row, node.weld[side])]
            for key in node.keys:
                line += _columns(group, row, key)
            rows.append(line)
    a: dict[Key, list[Scalar]] = {}
    places: dict[Key, int] = {}
    start = 0
    for key in node.keys:
        known = [group.a[key] for group in (left, right) if key in group.a]
        a[key] = list(known[0])
        if len(known) > 1:
            a[key] = [x + y for x, y in zip(*known, strict=True)]
        places[key] = start
        start += _width(key)
    if node.weld is None:
        # nothing is eliminated, and rows are factored where something is
        return _Group(rows, a, places), None
    found = [[0.0] * i + row for i, row in enumerate(triangular_factor(rows))]
    left_over = [row[welded:] for row in found[welded:]]
    R_n = [row[:welded] for row in found[:welded]]
    G_1 = [row[welded:] for row in found[:welded]]
    y: list[Scalar] = []
    gaps = zip(right.a[node.weld[1]], left.a[node.weld[0]], strict=True)
    for i, (x, z) in enumerate(gaps):
        rest = x - z
        for k in range(i):
            rest = rest - R_n[k][i] * y[k]
        y.append(rest / R_n[i][i])
    for key in node.keys:
        first = places[key]
        a[key] = [
            sum((G_1[k][first + j] * y[k] for k in range(welded)), start=x)
            for j, x in enumerate(a[key])
        ]
    return _Group(left_over, a, places), _Weld(R_n, G_1, y)


CERTAIN_RANK_SINE = 1e-6
"""Squared sine between constraints above which their rank is certain, as for arms of a star
(`tiburon.loops.star_dynamics`): a triangular factor without pivoting then loses three digits at
most."""

MIN_COLUMN_SQUARE = 1e-10
"""Squared length of a column, relative to the longest, below which its rank is in doubt."""


def _solved_loops(
    G: list[list[Scalar]], missing: Sequence[Scalar], cut: Scalar
) -> tuple[list[Scalar], Scalar, Scalar]:
    """Return the forces along constraints, their rank and the ratio of their singular values."""
    count = len(missing)

    def pivoted() -> tuple[list[Scalar], Scalar, Scalar]:
        factor = factor_orthogonal(as_traced(G), cut=cut)
        y = factor.solve_transpose(as_traced(list(missing)))
        return list(factor.solve(as_traced(list(y)))), factor.rank, factor.ratio

    if len(G) < count:
        return pivoted()
    R = triangular_factor(G)
    squares = [sum((R[k][i - k] * R[k][i - k] for k in range(i + 1)), 0.0) for i in range(count)]
    longest: Scalar = 0.0
    for square in squares:
        longest = np.maximum(longest, square)
    least = np.maximum(CERTAIN_RANK_SINE, (10.0 * cut) ** 2)
    doubtful: Any = False
    sine: Scalar = 1.0
    for row, square in zip(R, squares, strict=True):
        length = np.maximum(square, MIN_COLUMN_SQUARE * longest)
        good = row[0] * row[0] > least * length
        doubtful = doubtful | ~good
        sine = np.minimum(sine, row[0] * row[0] / np.maximum(longest, MIN_DIVISOR))
    y: list[Scalar] = []
    for i in range(count):
        rest = missing[i] - sum((R[k][i - k] * y[k] for k in range(i)), start=0.0)
        y.append(rest / np.where(doubtful, 1.0, R[i][0]))
    forces: list[Scalar] = [0.0] * count
    for i in range(count - 1, -1, -1):
        rest = y[i] - sum((R[i][k - i] * forces[k] for k in range(i + 1, count)), start=0.0)
        forces[i] = rest / np.where(doubtful, 1.0, R[i][0])
    quick = (forces, float(count), np.sqrt(sine))
    found, rank, ratio = where_needed(doubtful, pivoted, quick)
    return list(found), rank, ratio


MIN_DIVISOR = 1e-300
"""Lower bound of lengths in divisions."""


class CutCenter(NamedTuple):
    """What is known of the loops, and what is found for them."""

    rhs: list[Scalar]
    """Wanted second derivative of each live constraint, J vd."""

    cut: Scalar
    multipliers: list[Scalar]
    rank: Scalar = 0.0
    ratio: Scalar = 1.0


def assemble(
    layout: CutLayout, center: CutCenter, messages: Sequence[Message]
) -> tuple[list[list[Scalar]], CutCenter]:
    """Join all parts, solve for loops, and return the forces at the handles of each part."""
    welds: dict[int, _Weld | None] = {}

    def up(node: Joined | int) -> _Group:
        if isinstance(node, int):
            return _group(layout.parts[node], messages[node])
        group, welds[id(node)] = combine(up(node.left), up(node.right), node)
        return group

    whole = up(layout.tree)
    forces: dict[Key, list[Scalar]] = {}
    if layout.live:
        keys: list[Key] = [("loop", k) for k in layout.live]
        missing = [want - whole.a[key][0] for want, key in zip(center.rhs, keys, strict=True)]
        order = [whole.places[key] for key in keys]
        # joined parts without welds have more rows than needed
        G = [[row[j] for j in order] for row in whole.R]
        found, rank, ratio = _solved_loops(G, missing, center.cut)
        center = center._replace(multipliers=found, rank=rank, ratio=ratio)
        forces = {key: [x] for key, x in zip(keys, found, strict=True)}
    answers: list[list[Scalar]] = [[] for _ in layout.parts]

    def down(node: Joined | int, known: dict[Key, list[Scalar]]) -> None:
        if isinstance(node, int):
            keys = layout.parts[node].keys
            answers[node] = [x for key in keys for x in known[key]]
            return
        here, there = dict(known), dict(known)
        weld = welds[id(node)]
        if node.weld is not None:
            assert weld is not None
            flat = [x for key in node.keys for x in known[key]]
            w: list[Scalar] = [0.0] * 6
            for i in range(5, -1, -1):
                rest = weld.y[i] - sum(
                    (g * f for g, f in zip(weld.G[i], flat, strict=True)), start=0.0
                )
                for k in range(i + 1, 6):
                    rest = rest - weld.R[i][k] * w[k]
                w[i] = rest / weld.R[i][i]
            handle, base = node.weld
            known_here = here.get(handle)
            here[handle] = (
                w if known_here is None else [x + z for x, z in zip(known_here, w, strict=True)]
            )
            there[base] = [-x for x in w]
        down(node.left, here)
        down(node.right, there)

    down(layout.tree, forces)
    return answers, center


def cut_method(layout: CutLayout, cuts: Sequence[Cut]) -> PartMethod:
    """Return the dynamics of a robot in parts as rounds."""

    def local(cut: Cut, state: CutState, answer: None) -> tuple[Message, Any]:
        message, kept = open_part(cut, state, answer)
        return message, (state, kept)

    def solve(center: CutCenter, messages: Sequence[Message]) -> Any:
        return assemble(layout, center, messages)

    return PartMethod("cut", tuple(cuts), (Round("handles", local, solve),), moved_part, combine)


def cut_motion(
    layout: CutLayout,
    model: Model,
    here: Setting,
    state: tuple[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]],
    terms: Constraints | None = None,
    min_cut: float = MIN_CUT,
    exchange: Exchanged | None = None,
) -> tuple[list[Scalar], list[Scalar], CutCenter]:
    """Compute joint accelerations and constraint forces of a robot in parts.

    Args:
        layout: Its parts.
        model: The robot.
        here: Surroundings in this state.
        state: Configuration, velocity and joint force.
        terms: Constraints of its loops; None for a tree, or if loops are held by joint forces.
        min_cut: Smallest rank cut; see `rank_cut`.
        exchange: How messages of other processes arrive; none by default.
    """
    q, v, tau = state
    cuts, states = [], []
    for part in layout.parts:
        external = None
        if here.external is not None:
            base = () if part.base is None else (Force.zero(),)
            external = (*base, *(here.external[k] for k in part.bodies))
        plan = part_plan(here.plan, part, layout.shares)
        path = part_of(here.plan, part.path, frozenset(), part.path_q, part.path_v)
        cuts.append(Cut(part, plan, path, here.gravity, external))
        place = {old: new for new, old in enumerate(part.v)}
        loops = []
        if terms is not None:
            for kind, which in part.keys:
                if kind == "loop":
                    row = terms.jacobian[which]
                    loops.append({str(place[i]): x for i, x in sorted(row.items()) if i in place})
        states.append(
            CutState(
                [q[i] for i in part.q],
                [v[i] for i in part.v],
                [tau[i] for i in part.v],
                [q[i] for i in part.path_q],
                [v[i] for i in part.path_v],
                loops,
            )
        )
    center = CutCenter([], min_cut, [])
    if terms is not None:
        rhs = [-terms.bias[k] for k in layout.live]
        center = CutCenter(rhs, rank_cut(model, terms.value, min_cut), [0.0] * len(rhs))
    with taping(None):
        found = run(cut_method(layout, cuts), center, states, exchange=exchange)
    vd: list[Scalar] = [0.0] * model.nv
    for part, own_vd in zip(layout.parts, found.results, strict=True):
        for i, x in zip(part.v, own_vd, strict=True):
            vd[i] = x
    forces: list[Scalar] = [0.0] * (0 if terms is None else len(terms.jacobian))
    for k, x in zip(layout.live, found.center.multipliers, strict=False):
        forces[k] = x
    return vd, forces, found.center
