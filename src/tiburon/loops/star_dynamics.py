"""Dynamics of stars: each arm alone, then one small system for the reference member.

McMillan 1994, chapter 2, in three steps: open-chain dynamics of each arm (OCD), acceleration of the
reference member (RMA), and the arms again with that acceleration (CCD). Here for any star: arms
stand on the world or on the reference member, and grasps resist any number c of directions. With
own variables k of an arm and variables r of the reference member,

    H_k vd_k + H_kr vd_r - J_k^T f_k = tau_k - C_k
    J_k vd_k + J_kr vd_r             = b_k

H_k = L^T D L gives the columns Y = L^-T J_k^T, y = L^-T (tau_k - C_k) and Y_r = L^-T H_kr. Modified
Gram-Schmidt in the metric D^-1 gives Y = E R with orthogonal columns of squared lengths d in E and
a unit triangle R, so that Lambda_k^-1 = J_k H_k^-1 J_k^T = R^T diag(d) R is never formed, and
nothing is squared where it is decided whether an arm is singular. With

    Z = R^-T J_kr - E^T D^-1 Y_r,       t = R^-T b_k - E^T D^-1 y

an arm sends (McMillan 1994, eq. 2.21 for Y_r = 0, Z^T diag(d)^-1 Z = X^T Lambda_k X)

    A_k = H_rr - Y_r^T D^-1 Y_r + Z^T diag(d)^-1 Z
    g_k = -C_r - Y_r^T D^-1 y  + Z^T diag(d)^-1 t

of which H_rr and C_r are the shares of its own bodies. A grasp that acts in fewer directions than
the reference member moves, a ball for instance, has J_kr = C B with rows B of wrenches that are
constant in axes of the reference member (`Grip`); with U = R^-T C the arm sends U^T diag(d)^-1 U
and U^T diag(d)^-1 t, and the center, which knows B, completes A_k = B^T (...) B.

The reference member solves (A_0 + sum A_k) vd_r = tau_r - C_0 + sum g_k and sends vd_r, and the arm
recovers (eqs. 2.16 and 2.2)

    w = diag(d)^-1 (t - Z vd_r),    f_k = R^-1 w,   vd_k = L^-1 D^-1 (y - Y_r vd_r + E w)

Singular arms
    A_k grows with the inverse of d. If the squared sine between constraints, d relative to the
    squared length of the column before orthogonalization, is s^2, the sum of all A_k loses digits:
    the error of vd_r is about 2^-52 / s^2. Arms below `SINGULAR_SINE_SQUARED` = 1e-6 (s = 1e-3,
    error 2e-10) are singular: they send an A_k without Z, as if they held nothing, and
    `star_singular` solves for their forces.

Light loads
    Grasps may leave the reference member free in some direction, as two balls leave it free to
    spin between them. If its own inertia there is small beside that of the arms, the sum of all
    A_k loses its digits: the error of vd_r is 2^-52 over the pivot relative to its diagonal
    element. Below `WEAK_PIVOT` = 1e-5 the forces of all arms are solved for as if these were
    singular.

Classical accelerations (McMillan 1994) differ from the joint accelerations used here by the bias
b_k alone; gravity enters with C, so that vd_r is the acceleration itself.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.bias import bias
from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.kinematics import body_places
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.algorithms.traversal import to_root
from tiburon.loops.constraints import (
    Constraints,
    Row,
    closure_constraints,
    constraint_count,
    loop_joint_load,
    transmitter,
)
from tiburon.loops.like_parts import Apart, plan_apart
from tiburon.loops.loop_method import LoopMethod
from tiburon.loops.metric import (
    MIN_CUT,
    ConstrainedMotion,
    TreeMetric,
    max_abs,
    rank_cut,
    tree_factor,
)
from tiburon.loops.parts import (
    Exchanged,
    Outcome,
    PartMethod,
    Round,
    ordered_sum,
    part_function,
    run,
)
from tiburon.loops.star import ArmLayout, StarLayout, layout
from tiburon.loops.star_singular import SingularMessage, singular_motion
from tiburon.model import Model, Plan
from tiburon.spatial import Force, Scalar, Scalars, Vec3
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import where_needed

SINGULAR_SINE_SQUARED = 1e-6
"""Squared sine between the constraints of an arm below which it is singular; see above."""

WEAK_PIVOT = 1e-5
"""Pivot of the reference member's system, relative to its diagonal element, below which arms count
as singular; see above."""

MAX_INLINED_VARIABLES = 36
"""Velocity variables of a star up to which the functions of its parts are inlined."""

ZERO_LENGTH_SQUARED = 1e-10
"""Squared length of a column, relative to the longest, below which it counts as zero."""


class Arm(NamedTuple):
    """What is fixed about an arm while a kernel is traced."""

    model: Model
    shape: ArmLayout
    plan: Plan
    gravity: Vec3
    external: Sequence[Force] | None
    min_cut: float
    baumgarte: LoopMethod | None = None
    threshold: float = SINGULAR_SINE_SQUARED
    """Squared sine between its constraints below which the arm counts as singular."""

    is_measured: bool = False
    """Whether `Loaded.closure` is wanted."""

    def among(self, others: Sequence["Arm"]) -> "Arm":
        """Return the arm with all elements of constraints that like arms have."""
        entries = zip(*(arm.shape.entries for arm in others), strict=True)
        union = tuple(frozenset().union(*used) for used in entries)
        return self._replace(shape=self.shape._replace(entries=union))

    def apart(self) -> Apart:
        """Take the arm apart, so that like arms share code."""
        shape = self.shape
        whole = plan_apart(self.plan, shape.loops)
        form = (
            (shape.own, shape.border, shape.border_q, shape.parents, shape.live),
            (shape.hangs, tuple((grip.body, grip.pivots) for grip in shape.grips)),
            self.external is None,
            whole.form,
        )
        external = () if self.external is None else tuple(self.external)

        def make(numbers: Any) -> Arm:
            plan, loops = whole.make(numbers[:-1])
            forces = None if self.external is None else list(numbers[-1])
            return self._replace(shape=shape._replace(loops=loops), plan=plan, external=forces)

        return Apart(form, (*whole.numbers, external), make)


class ArmState(NamedTuple):
    """State of an arm's plan, reference members included; joint forces of the arm's own."""

    q: list[Scalar]
    v: list[Scalar]
    tau: list[Scalar]


class ArmFactor(NamedTuple):
    """An arm's inertia and constraints in one configuration."""

    entries: list[Scalar]
    """Factors of H_k."""

    E: list[Row]
    """Orthogonal columns, by own variable."""

    inverse: list[Scalar]
    """1/d, zero where the arm is singular."""

    R: list[list[Scalar]]
    """R above the diagonal, by columns."""

    Z: list[list[Scalar]]
    """Rows of Z, one entry per border variable."""

    U: list[list[Scalar]]
    """Rows of R^-T C, in the directions in which the arm sends; those of Z without grips."""

    Y_r: list[Row]
    """One column per border variable that carries the arm."""

    is_singular: Scalar
    """1 for a singular arm, 0 for others."""

    least: Scalar
    """Smallest d."""

    longest: Scalar
    """Largest squared length of a column."""

    cut: Scalar
    """Rank cut by the residual of its loops."""

    left: list[list[Scalar]]
    """H_rr - Y_r^T D^-1 Y_r over `ArmLayout.hangs`, lower triangle: A_k if it held nothing."""


class Loaded(NamedTuple):
    """An arm with forces and a right-hand side."""

    factor: ArmFactor
    y: Row
    t: list[Scalar]
    g: list[Scalar]
    """g_k if it held nothing, one per border variable."""

    closure: tuple[Scalar, ...] = ()
    """Largest residual of its loops [m or rad], and its rate [m/s or rad/s], if wanted."""


class Message(NamedTuple):
    """What an arm sends: c(c+1)/2 + c values for c directions, and its condition.

    Directions are those of its grips, or else the border variables; see `ArmLayout.directions`.
    """

    A: list[Scalar]
    """Lower triangle of A_k in these directions, by rows."""

    g: list[Scalar]
    is_singular: Scalar
    least: Scalar
    longest: Scalar


class Center(NamedTuple):
    """State of the reference member."""

    q: list[Scalar]
    """Its configuration."""

    A: list[Scalar]
    """Elements of its mass matrix, lower triangle by rows."""

    force: list[Scalar]
    """Joint forces minus bias forces."""

    entries: list[Scalar]
    """Factors of the sum of all A; empty at first."""

    vd: list[Scalar]
    is_singular: Scalar
    """Number of singular arms."""

    least: Scalar
    longest: Scalar
    is_weak: Scalar
    """1 if the sum of all A has lost the inertia of the reference member, else 0."""


def is_inlined(plan: Plan) -> bool:
    """Return whether a star is small enough for one piece of code."""
    return plan.nv <= MAX_INLINED_VARIABLES


def chain(size: int) -> tuple[int, ...]:
    """Return the expanded parents of a full matrix."""
    return tuple(range(-1, size - 1))


def _weighted(a: Row, b: Row, weights: Scalars) -> Scalar:
    """Return a^T D^-1 b."""
    return sum((a[i] * (weights[i] * b[i]) for i in a if i in b), start=0.0)


# -- what an arm computes alone -------------------------------------------------------------------


def arm_rows(arm: Arm, terms: Constraints) -> tuple[list[Row], list[Row]]:
    """Return J_k by own variable and J_kr by border variable."""
    shape = arm.shape
    own = {i: k for k, i in enumerate(shape.own)}
    border = {i: k for k, i in enumerate(shape.border)}
    mine: list[Row] = []
    theirs: list[Row] = []
    for row, used in zip(shape.live, shape.entries, strict=True):
        entries = {i: x for i, x in terms.jacobian[row].items() if i in used}
        mine.append({own[i]: x for i, x in entries.items() if i in own})
        theirs.append({border[i]: x for i, x in entries.items() if i in border})
    return mine, theirs


def arm_factor(arm: Arm, q: Scalars, terms: Constraints) -> ArmFactor:
    """Factor an arm."""
    shape = arm.shape
    own = FactorTree(shape.parents).layout.elements()
    hung = [shape.border[j] for j in shape.hangs]
    wanted = [(shape.own[i], shape.own[j]) for i, j in own]
    wanted += [(i, j) for i in shape.own for j in hung]
    wanted += [(hung[i], hung[j]) for i in range(len(hung)) for j in range(i + 1)]
    H = dict(zip(wanted, chosen_mass_elements(arm.plan, q, wanted), strict=True))
    entries = tree_factor(shape.parents, [H[shape.own[i], shape.own[j]] for i, j in own])
    metric = TreeMetric.from_factor(shape.parents, entries)
    weights = metric.inverse_D
    J, J_r = arm_rows(arm, terms)
    Y = [metric.solve_transpose(row) for row in J]
    Y_r = [metric.solve_transpose({k: H[i, j] for k, i in enumerate(shape.own)}) for j in hung]
    # modified Gram-Schmidt
    lengths = [_weighted(y, y, weights) for y in Y]
    longest: Scalar = 0.0
    for length in lengths:
        longest = np.maximum(longest, length)
    cut = rank_cut(arm.model, [terms.value[k] for k in shape.live], arm.min_cut)
    certain = np.maximum(arm.threshold, (10.0 * cut) ** 2)
    floor = ZERO_LENGTH_SQUARED * longest
    E = [dict(y) for y in Y]
    R: list[list[Scalar]] = [[] for _ in Y]
    inverse: list[Scalar] = []
    good: Any = True
    least: Scalar = longest
    for i, e in enumerate(E):
        scaled = {k: weights[k] * x for k, x in e.items()}
        d = lengths[0] if i == 0 else sum((scaled[k] * x for k, x in e.items()), start=0.0)
        kept = d > certain * np.maximum(lengths[i], floor)
        inverse.append(np.where(kept, 1.0, 0.0) / np.where(kept, d, 1.0))
        good = good & kept
        least = np.minimum(least, d)
        for j in range(i + 1, len(E)):
            other = E[j]
            part = sum((scaled[k] * other[k] for k in scaled if k in other), start=0.0)
            share = part * inverse[i]
            R[j].append(share)
            for k, x in e.items():
                other[k] = other[k] - share * x if k in other else -(share * x)
    regular = np.where(good, 1.0, 0.0)
    inverse = [x * regular for x in inverse]
    Z = lower_solve(R, [[row.get(j, 0.0) for j in range(len(shape.border))] for row in J_r])
    for column, j in zip(Y_r, shape.hangs, strict=True):
        for line, e in zip(Z, E, strict=True):
            line[j] = line[j] - _weighted(e, column, weights)
    U = lower_solve(R, _in_grips(arm, q)) if shape.grips else Z
    left = [
        [H[hung[i], hung[j]] - _weighted(Y_r[i], Y_r[j], weights) for j in range(i + 1)]
        for i in range(len(hung))
    ]
    return ArmFactor(entries, E, inverse, R, Z, U, Y_r, 1.0 - regular, least, longest, cut, left)


def _in_grips(arm: Arm, q: Scalars) -> list[list[Scalar]]:
    """Return C: wrenches of the arm's constraints on the reference member, by its grips."""
    shape, places = arm.shape, body_places(arm.plan, q)
    found: list[list[Scalar]] = []
    row, column = 0, 0
    for loop, grip in zip(shape.loops, shape.grips, strict=True):
        count = len(loop.joint.loop_constraints())
        for n in range(count):
            if row + n not in shape.live:
                continue
            unit = [1.0 if k == n else 0.0 for k in range(count)]
            load = dict(loop_joint_load(loop, arm.plan, places, unit).on_bodies)[grip.body]
            wrench = (*load.moment, *load.force)
            line: list[Scalar] = [0.0] * shape.directions
            line[column : column + len(grip.pivots)] = [wrench[k] for k in grip.pivots]
            found.append(line)
        row, column = row + count, column + len(grip.pivots)
    return found


def grip_rows(arm: Arm, q: Scalars) -> list[Row]:
    """Return B of an arm's grips, rows by border variable, at a configuration of the center."""
    shape, place = arm.shape, {i: k for k, i in enumerate(arm.shape.border)}
    own = JointVector([0.0] * arm.plan.nq)
    for i, k in zip(shape.border_q, shape.at_q, strict=True):
        own[i] = q[k]
    found: list[Row] = []
    for grip in shape.grips:
        forces = tuple(
            Force((row[0], row[1], row[2]), (row[3], row[4], row[5])) for row in grip.basis
        )
        rows: list[Row] = [{} for _ in forces]
        passed = to_root(arm.plan, arm.plan.bodies[grip.body], transmitter(own), forces)
        for body, projected in passed:
            for line, parts in zip(rows, projected, strict=True):
                for i, part in enumerate(parts, start=body.v.start):
                    line[place[i]] = part + line.get(place[i], 0.0)
        found += rows
    return found


def lower_solve(R: Sequence[Scalars], rows: Sequence[Scalars]) -> Any:
    """Return R^-T times a matrix given by rows."""
    found: list[list[Scalar]] = []
    for shares, row in zip(R, rows, strict=True):
        line = list(row)
        for share, above in zip(shares, found, strict=True):
            line = [x - share * y for x, y in zip(line, above, strict=True)]
        found.append(line)
    return found


def lower_triangle(size: int) -> list[tuple[int, int]]:
    """Return row and column of the elements of a lower triangle, by rows."""
    return [(i, j) for i in range(size) for j in range(i + 1)]


def arm_matrix(arm: Arm, factor: ArmFactor) -> list[Scalar]:
    """Return A_k in the directions in which an arm sends, lower triangle by rows."""
    found: list[Scalar] = []
    for (i, j), start in zip(
        lower_triangle(arm.shape.directions), _open_matrix(arm, factor), strict=True
    ):
        terms = zip(factor.U, factor.inverse, strict=True)
        found.append(sum(((line[i] * d) * line[j] for line, d in terms), start=start))
    return found


def _open_matrix(arm: Arm, factor: ArmFactor) -> list[Scalar]:
    """Return A_k of an arm that holds nothing, lower triangle by rows."""
    place = {j: k for k, j in enumerate(arm.shape.hangs)}
    return [
        factor.left[place[i]][place[j]] if i in place and j in place else 0.0
        for i, j in lower_triangle(arm.shape.directions)
    ]


def arm_load(
    arm: Arm, factor: ArmFactor, free: Scalars, b: Scalars, border: Scalars
) -> tuple[Loaded, list[Scalar]]:
    """Load a factored arm; return it with g_k in the directions in which it sends.

    Args:
        arm: The arm.
        factor: Its factor.
        free: tau_k - C_k, one per own variable.
        b: Right-hand sides of its constraints.
        border: -C_r, the bias forces of its own bodies on the reference member, one per border
            variable.
    """
    metric = TreeMetric.from_factor(arm.shape.parents, factor.entries)
    weights = metric.inverse_D
    y = metric.solve_transpose({k: x for k, x in enumerate(free) if not _is_zero(x)})
    reduced = [line[0] for line in lower_solve(factor.R, [[x] for x in b])]
    t = [x - _weighted(e, y, weights) for x, e in zip(reduced, factor.E, strict=True)]
    alone = list(border)
    for column, j in zip(factor.Y_r, arm.shape.hangs, strict=True):
        alone[j] = alone[j] - _weighted(column, y, weights)
    g = [0.0] * arm.shape.directions if arm.shape.grips else list(alone)
    pushed = [x * d for x, d in zip(t, factor.inverse, strict=True)]
    for line, x in zip(factor.U, pushed, strict=True):
        g = [have + z * x for have, z in zip(g, line, strict=True)]
    return Loaded(factor, y, t, alone), g


def _is_zero(x: Scalar) -> bool:
    return isinstance(x, float) and x == 0.0


def arm_motion(arm: Arm, loaded: Loaded, vd_r: Scalars) -> tuple[list[Scalar], Any]:
    """Return vd_k and f_k of a regular arm under an acceleration of the reference member."""
    factor = loaded.factor
    w: list[Scalar] = []
    for t, line, d in zip(loaded.t, factor.Z, factor.inverse, strict=True):
        w.append((t - sum((z * x for z, x in zip(line, vd_r, strict=True)), start=0.0)) * d)
    total = dict(loaded.y)
    for e, x in zip(factor.E, w, strict=True):
        for k, part in e.items():
            total[k] = total[k] + part * x if k in total else part * x
    forces = list(w)
    for j in range(len(w) - 1, -1, -1):
        for i, share in enumerate(factor.R[j]):
            forces[i] = forces[i] - share * forces[j]
    return arm_acceleration(arm, loaded, total, vd_r), forces


def arm_acceleration(arm: Arm, loaded: Loaded, total: Row, vd_r: Scalars) -> list[Scalar]:
    """Return vd_k = L^-1 D^-1 (total - Y_r vd_r)."""
    metric = TreeMetric.from_factor(arm.shape.parents, loaded.factor.entries)
    for column, j in zip(loaded.factor.Y_r, arm.shape.hangs, strict=True):
        for k, x in column.items():
            part = x * vd_r[j]
            total[k] = total[k] - part if k in total else -part
    weights = metric.inverse_D
    return list(metric.solve_lower([weights[k] * total.get(k, 0.0) for k in range(len(weights))]))


# -- rounds ---------------------------------------------------------------------------------------


def open_arm(arm: Arm, state: ArmState, _: None) -> tuple[Message, Loaded]:
    """Compute an arm with an open tip (OCD)."""
    shape, plan = arm.shape, arm.plan
    q, v = JointVector(state.q), JointVector(state.v)
    terms = closure_constraints(shape.loops, plan, q, v)
    closure = (max_abs(terms.value), max_abs(terms.rate)) if arm.is_measured else ()
    if arm.baumgarte is not None:
        terms = arm.baumgarte.corrected(terms)
    factor = arm_factor(arm, q, terms)
    C = bias(plan, q, v, arm.gravity, arm.external)
    free = [tau - C[i] for tau, i in zip(state.tau, shape.own, strict=True)]
    border = [-C[i] if j in shape.hangs else 0.0 for j, i in enumerate(shape.border)]
    loaded, g = arm_load(arm, factor, free, [-terms.bias[k] for k in shape.live], border)
    A = arm_matrix(arm, factor)
    sent = Message(A, g, factor.is_singular, factor.least, factor.longest)
    return sent, loaded._replace(closure=closure)


def gather(
    shape: StarLayout, arms: Sequence[Arm], center: Center, messages: Sequence[Message]
) -> tuple[list[list[Scalar]], Center]:
    """Solve for the acceleration of the reference member (RMA)."""
    size = len(shape.v)
    completed = [
        completed_message(arm, center.q, sent.A, sent.g)
        for arm, sent in zip(arms, messages, strict=True)
    ]
    A, force = center_sums(shape, completed, center.A, center.force)
    entries = tree_factor(chain(size), A)
    vd = solve_center(entries, force)
    singular: Scalar = 0.0
    least: Scalar = messages[0].least
    longest: Scalar = 0.0
    for sent in messages:
        singular = singular + sent.is_singular
        least, longest = np.minimum(least, sent.least), np.maximum(longest, sent.longest)
    # the smallest pivot relative to its diagonal element
    metric = TreeMetric.from_factor(chain(size), entries)
    weakest: Scalar = 0.0
    for i, inverse in enumerate(metric.inverse_D):
        weakest = np.maximum(weakest, inverse * A[i * (i + 1) // 2 + i])
    weak = np.where(weakest * WEAK_PIVOT > 1.0, 1.0, 0.0)
    found = Center(center.q, A, force, entries, vd, singular, least, longest, weak)
    return [[vd[i] for i in arm.at] for arm in shape.arms], found


def completed_message(arm: Arm, q: Scalars, A: Scalars, g: Scalars) -> tuple[Scalars, Scalars]:
    """Return A_k, lower triangle by rows, and g_k over the border variables of an arm.

    q is that of the center, for which the arm sent; A is empty if it sent forces alone.
    """
    if not arm.shape.grips:
        return A, g
    B = grip_rows(arm, q)
    size = len(arm.shape.border)
    force = [
        sum((row[i] * x for row, x in zip(B, g, strict=True) if i in row), start=0.0)
        for i in range(size)
    ]
    if not A:
        return A, force
    place = {pair: k for k, pair in enumerate(lower_triangle(len(B)))}
    # inertia times rows, by direction
    carried: list[list[Scalar]] = []
    for n in range(len(B)):
        own = [A[place[max(n, m), min(n, m)]] for m in range(len(B))]
        carried.append(
            [
                sum((x * row[i] for x, row in zip(own, B, strict=True) if i in row), start=0.0)
                for i in range(size)
            ]
        )
    matrix = [
        sum((row[i] * x[j] for row, x in zip(B, carried, strict=True) if i in row), start=0.0)
        for i, j in lower_triangle(size)
    ]
    return matrix, force


def center_sums(
    shape: StarLayout, messages: Sequence[tuple[Scalars, Scalars]], A: Scalars, force: Scalars
) -> tuple[list[Scalar], list[Scalar]]:
    """Return A_0 + sum A_k, lower triangle by rows, and the sum of all forces.

    Args:
        shape: Layout of the star.
        messages: A_k and g_k of each arm, from `completed_message`; A_k empty if A is.
        A: A_0, lower triangle by rows; empty for forces alone.
        force: Force of the reference member.
    """
    size = len(shape.v)
    place = {pair: k for k, pair in enumerate(lower_triangle(size))}
    matrices, forces = [], []
    for arm, (A_k, g_k) in zip(shape.arms, messages, strict=True):
        matrix: list[Scalar] = [0.0] * len(A)
        for (i, j), x in zip(lower_triangle(len(arm.at)), A_k, strict=False):
            matrix[place[arm.at[i], arm.at[j]]] = x
        g: list[Scalar] = [0.0] * size
        for i, x in zip(arm.at, g_k, strict=True):
            g[i] = x
        matrices.append(matrix)
        forces.append(g)
    return ordered_sum(matrices, A), ordered_sum(forces, force)


def solve_center(entries: Scalars, force: Scalars) -> list[Scalar]:
    """Solve the system of the reference member with its factors."""
    metric = TreeMetric.from_factor(chain(len(force)), entries)
    y = metric.solve_transpose(dict(enumerate(force)))
    weights = metric.inverse_D
    return list(metric.solve_lower([weights[i] * y[i] for i in range(len(force))]))


def closed_arm(arm: Arm, state: Loaded, answer: Scalars) -> tuple[list[Scalar], Any]:
    """Compute an arm with its tip on the reference member (CCD)."""
    return arm_motion(arm, state, answer)


def star_method(shape: StarLayout, arms: Sequence[Arm]) -> PartMethod:
    """Return the rounds of a star without singular arms."""

    def solve(center: Center, messages: Sequence[Message]) -> tuple[list[list[Scalar]], Center]:
        return gather(shape, arms, center, messages)

    return PartMethod("star", tuple(arms), (Round("open", open_arm, solve),), closed_arm)


def star_parts(
    around: Setting,
    shape: StarLayout,
    min_cut: float = MIN_CUT,
    baumgarte: LoopMethod | None = None,
    threshold: float = SINGULAR_SINE_SQUARED,
) -> tuple[Arm, ...]:
    """Return the arms of a star in given surroundings."""
    return tuple(
        Arm(
            around.model,
            arm,
            arm.plan_of(around.plan),
            around.gravity,
            arm.forces_of(around.external),
            min_cut,
            baumgarte,
            threshold,
            bool(dict(around.options).get("closure")),
        )
        for arm in shape.arms
    )


def star_center(around: Setting, shape: StarLayout, q: Scalars, v: Scalars, tau: Scalars) -> Center:
    """Return the initial state of the reference member: its own inertia and forces."""
    plan = shape.plan_of(around.plan)
    external = None if around.external is None else [around.external[k] for k in shape.bodies]
    own_q, own_v = (JointVector([x[i] for i in of]) for x, of in ((q, shape.q), (v, shape.v)))
    A = chosen_mass_elements(plan, own_q, lower_triangle(plan.nv))
    C = bias(plan, own_q, own_v, around.gravity, external)
    force = [tau[i] - c for i, c in zip(shape.v, C, strict=True)]
    return Center(list(own_q), A, force, [], [], 0.0, 0.0, 0.0, 0.0)


def star_states(shape: StarLayout, q: Scalars, v: Scalars, tau: Scalars) -> list[ArmState]:
    """Return the initial state of each arm."""
    return [
        ArmState([q[i] for i in arm.q], [v[i] for i in arm.v], [tau[arm.v[i]] for i in arm.own])
        for arm in shape.arms
    ]


def star_motion(
    around: Setting,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    *,
    min_cut: float = MIN_CUT,
    baumgarte: LoopMethod | None = None,
    threshold: float = SINGULAR_SINE_SQUARED,
    redundant_forces: str = "shortest",
) -> ConstrainedMotion:
    """Compute accelerations and constraint forces of a star.

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        min_cut: Smallest rank cut; see `rank_cut`.
        baumgarte: Correction of accelerations by which residuals decay; none by default.
        threshold: Squared sine between constraints below which an arm is singular. Above 1 all arms
            are: for two arms that is method II of the dual arm (McMillan 1994, table 7), for every
            pose; 0 treats arms as regular until their rank is in doubt.
        redundant_forces: Which forces of singular arms are returned where the motion does not
            determine them, one of `star_singular.REDUNDANT_FORCES`.

    Raises:
        ModelError: If the mechanism is not a star.
    """
    shape = layout(around.model)
    arms = star_parts(around, shape, min_cut, baumgarte, threshold)
    center, found = _rounds(around, shape, arms, (q, v, tau))
    count = sum(len(arm.rows) for arm in shape.arms)
    vd, forces = assembled(around.model, shape, found.center.vd, found.results)
    flags = [state.factor.is_singular for state in found.states]
    any_singular = _is_any_singular(found)
    vd, forces = where_needed(
        any_singular,
        lambda: _with_singular_arms(around.model, shape, arms, center, found, redundant_forces)[:2],
        (vd, forces),
    )

    def conditioning() -> tuple[Scalar, Scalar]:
        least, longest = found.center.least, found.center.longest
        ratio = np.sqrt(np.maximum(least, MIN_DIVISOR) / np.maximum(longest, MIN_DIVISOR))
        rank, ratio = where_needed(
            any_singular,
            lambda: _with_singular_arms(around.model, shape, arms, center, found, redundant_forces)[
                2:
            ],
            (float(count), ratio),
        )
        return rank, ratio

    closure = None
    if arms[0].is_measured:
        residuals, rates = zip(*(state.closure for state in found.states), strict=True)
        closure = max_abs(residuals), max_abs(rates)
    return ConstrainedMotion(
        tuple(vd), tuple(forces), conditioning, singular_arms=tuple(flags), closure=closure
    )


def _rounds(
    around: Setting,
    shape: StarLayout,
    arms: Sequence[Arm],
    state: tuple[Scalars, Scalars, Scalars],
    exchange: Exchanged | None = None,
) -> tuple[Center, Outcome]:
    """Return what the center knows before all rounds, and the result of these."""
    inline = exchange is None and is_inlined(around.plan)

    def reference_member(*own: Scalars) -> Center:
        return star_center(around, shape, *own)

    # arms are small: a robot of many has no need for a tape
    with taping(None):
        # a function of its own, whose bits do not depend on who computes the arms
        center = part_function(reference_member, inline=inline)(*(list(x) for x in state))
        states = star_states(shape, *state)
        method = star_method(shape, arms)
        return center, run(method, center, states, inline=inline, exchange=exchange)


def _is_any_singular(found: Outcome) -> Any:
    return found.center.is_singular + found.center.is_weak > 0.0


def exchanged_motion(
    around: Setting,
    state: tuple[Scalars, Scalars, Scalars],
    exchange: Exchanged,
    *,
    min_cut: float = MIN_CUT,
    baumgarte: LoopMethod | None = None,
) -> tuple[list[Scalar], list[Scalar], Scalar]:
    """Compute accelerations and constraint forces of a star whose arms several processes compute.

    Arguments as of `star_motion`; messages of other processes arrive by `exchange`.

    Returns:
        Accelerations and forces with the bits of `star_motion`, and 0; or 1 where arms are singular
        and each process has to compute all of them.
    """
    shape = layout(around.model)
    arms = star_parts(around, shape, min_cut, baumgarte)
    _, found = _rounds(around, shape, arms, state, exchange)
    vd, forces = assembled(around.model, shape, found.center.vd, found.results)
    return vd, forces, np.where(_is_any_singular(found), 1.0, 0.0)


MIN_DIVISOR = 1e-300
"""Lower bound of lengths in divisions."""


def assembled(
    model: Model, shape: StarLayout, vd_r: Scalars, results: Sequence[Any]
) -> tuple[list[Scalar], list[Scalar]]:
    """Return accelerations and constraint forces of the whole mechanism from those of parts."""
    vd: list[Scalar] = [0.0] * model.nv
    forces: list[Scalar] = [0.0] * constraint_count(model)
    for i, x in zip(shape.v, vd_r, strict=True):
        vd[i] = x
    for arm, (own, held) in zip(shape.arms, results, strict=True):
        for i, x in zip(arm.own, own, strict=True):
            vd[arm.v[i]] = x
        for row, x in zip(arm.rows, held, strict=True):
            forces[row] = x
    return vd, forces


def singular_message(arm: Arm, state: Loaded, is_singular: Scalar) -> SingularMessage:
    """Return what an arm sends that counts as singular, or not.

    Orthogonal columns are undone: Y = E R, and J_kr - Y^T D^-1 Y_r = R^T Z, b_k - Y^T D^-1 y =
    R^T t. Rows that lost their length have no share in R, so that this is exact up to rounding.
    """
    factor = state.factor
    roots = [
        np.sqrt(x) for x in TreeMetric.from_factor(arm.shape.parents, factor.entries).inverse_D
    ]
    own = range(len(roots))
    G: list[list[Scalar]] = []
    J: list[list[Scalar]] = []
    x: list[Scalar] = []
    for n, shares in enumerate(factor.R):
        column, row, right = dict(factor.E[n]), list(factor.Z[n]), state.t[n]
        for m, share in enumerate(shares):
            for k, part in factor.E[m].items():
                column[k] = column[k] + share * part if k in column else share * part
            row = [a + share * b for a, b in zip(row, factor.Z[m], strict=True)]
            right = right + share * state.t[m]
        G.append([column[k] * roots[k] if k in column else 0.0 for k in own])
        J.append(row)
        x.append(right)
    return SingularMessage(is_singular, G, J, x)


def _with_singular_arms(
    model: Model,
    shape: StarLayout,
    arms: Sequence[Arm],
    start: Center,
    found: Outcome,
    redundant_forces: str,
) -> tuple[list[Scalar], list[Scalar], Scalar, Scalar]:
    """Compute the motion where arms are singular: accelerations, forces, rank and ratio."""
    center = found.center
    is_weak = center.is_weak > 0.0
    singular = [np.maximum(state.factor.is_singular, center.is_weak) for state in found.states]
    messages = [
        singular_message(arm, state, on)
        for arm, state, on in zip(arms, found.states, singular, strict=True)
    ]
    # a light reference member: as if no arm held it
    alone = [
        (_open_matrix(arm, state.factor) if arm.shape.hangs else (), state.g)
        for arm, state in zip(arms, found.states, strict=True)
    ]
    A, force = center_sums(shape, alone, start.A, start.force)
    free = tree_factor(chain(len(force)), A)
    entries = [np.where(is_weak, a, b) for a, b in zip(free, center.entries, strict=True)]
    rest = [
        np.where(is_weak, a, b) for a, b in zip(solve_center(free, force), center.vd, strict=True)
    ]
    cut: Scalar = 0.0
    for state in found.states:
        cut = np.maximum(cut, state.factor.cut)
    solved = singular_motion(shape, entries, rest, messages, cut, redundant_forces)
    results = []
    for arm, state, answer, on in zip(arms, found.states, solved.answers, singular, strict=True):
        vd_r = [solved.vd[i] for i in arm.shape.at]
        regular, forces = arm_motion(arm, state, vd_r)
        if not forces:
            # a branch
            results.append((regular, forces))
            continue
        metric = TreeMetric.from_factor(arm.shape.parents, state.factor.entries)
        total = dict(state.y)
        for k, (x, d) in enumerate(zip(answer.y, metric.inverse_D, strict=True)):
            part = x / np.sqrt(d)
            total[k] = total[k] + part if k in total else part
        bent = arm_acceleration(arm, state, total, vd_r)
        is_singular = on > 0.0
        results.append(
            (
                [np.where(is_singular, a, b) for a, b in zip(bent, regular, strict=True)],
                [np.where(is_singular, a, b) for a, b in zip(answer.f, forces, strict=True)],
            )
        )
    vd, forces = assembled(model, shape, solved.vd, results)
    total_rows = float(sum(len(arm.rows) for arm in shape.arms))
    return vd, forces, total_rows - solved.lost, solved.ratio
