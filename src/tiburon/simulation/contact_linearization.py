"""A step with rigid contact to first order, by the implicit function theorem.

Contacts keep their modes: a point that sticks goes on sticking, one that slides goes on sliding,
one that is open stays so. A contact that is held closed throughout the step stays closed; one that
closes within it does so earlier or later. No contact forces of a step before act: the method leads
to q_1 and v_1 without contact (`rk4_changes`); what impulses make of these is differentiated part
by part and multiplied onto that (`ContactChain`). Restitution is left to `step_derivative.py`.

Symbols: as in `tiburon.contact.rigid` and `tiburon.trace.primitives.contact_chain`.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES
from tiburon.actuation.contact_models import ContactModel, contact_elements
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.derivatives.inverse_dynamics import (
    ForceVectors,
    force_matrices,
    force_vectors,
    state_terms,
)
from tiburon.algorithms.derivatives.local_forces import LocalForce, Matrix6
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.pair_products import before_products
from tiburon.algorithms.root_frame import Place
from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.algorithms.traversal import each
from tiburon.arrays import ArrayLike, NDArray
from tiburon.contact.candidates import (
    Candidate,
    number_count,
    numbers_of,
    refuse_meshes,
    surfaces_of,
)
from tiburon.contact.rigid import (
    MOST_SWEEPS,
    Closing,
    Compliance,
    ContactProblem,
    PointState,
    closing_of,
    compliance_of,
    contact_problem,
)
from tiburon.contact.row_changes import RowChanges, folded, row_changes
from tiburon.contact.rows import ContactRow, PointRows, contact_rows
from tiburon.errors import ModelError
from tiburon.functions.keywords import DYNAMICS_CALL, DynamicsCall
from tiburon.functions.library import LibraryFunction, depends_on_time, inputs_of
from tiburon.functions.parameters import surfaces_by_name
from tiburon.loops.metric import TreeMetric
from tiburon.model import Joint, Model, Plan, PlanBody, World
from tiburon.model.plan import WORLD_BODY
from tiburon.simulation.contact_modes import contact_modes
from tiburon.simulation.contact_start import contact_states
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.linearization import (
    ContactLinearization,
    Rk4Changes,
    joint_move,
    rk4_changes,
    rotating_joints,
    stage_derivatives,
)
from tiburon.simulation.step_derivative import step_derivative_kernel
from tiburon.simulation.system import System
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3, add_cross, dot
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import values_and_tangents
from tiburon.trace.primitives.contact_chain import ContactChain
from tiburon.trace.primitives.contact_phases import (
    ContactMatrix,
    ContactPhases,
    contact_phases,
    for_contacts,
)
from tiburon.trace.primitives.friction_derivative import FrictionResponse
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.program import Input
from tiburon.trace.regions import function
from tiburon.trace.value import Value

__all__ = ["StepChanges", "contacts_of", "linearize_contact", "step_changes", "step_kernel_of"]

Array = NDArray[np.float64]

IMPULSE_RESIDUAL = 1e-10
"""Residual of the impulses at which a step is linearized, relative to the largest impulse: smaller
than that of runs, since derivatives of points that slide magnify it a hundredfold."""


class _RotatingJoint:
    """A joint whose variables do not simply add: its blocks at the end of a step."""

    def __init__(self, manifold: Manifold, joint: Joint, q: slice, v: slice) -> None:
        self.q, self.v, self.joint, self._manifold = q, v, joint, manifold
        self._place = manifold.first_like(joint.name)
        self._moved = joint_move(manifold, joint)
        self._ahead = manifold.function(("ahead", self._place), self._reexpressed)
        self._last = manifold.function(("last", self._place), self._arrived)

    def _reexpressed(self, v: Scalars, q: Scalars, end: Scalars) -> list[list[Scalar]]:
        """Return the derivatives of the velocity at the start in the axes of the end.

        By the velocity, and by both positions; a row of scalars each.
        """
        n, m, joint = self.joint.nv, self.joint.nq, self.joint

        def call(given: list[Any]) -> tuple[Sequence[Any], list[list[Any]]]:
            rate, first, last = (tuple(x) for x in (given[:n], given[n : n + m], given[n + m :]))
            found = self._manifold.reexpress_joint(self._place, rate, first, last)
            units = np.eye(n).tolist()
            none: list[Any] = [0.0] * m
            directions = [[*unit, *none, *none] for unit in units]
            still: list[Any] = [0.0] * n
            for unit in units:
                directions.append([*still, *joint.position_rate(first, unit), *none])
            for unit in units:
                directions.append([*still, *none, *joint.position_rate(last, unit)])
            return found, directions

        _, tangents = values_and_tangents(call, [*v, *q, *end])
        return [_block(tangents[k : k + n]) for k in (0, n, 2 * n)]

    def _arrived(self, after: Scalars, shift: Scalars, q: Scalars, h: Scalar) -> list[list[Scalar]]:
        """Return the derivatives of the velocity at the end, by that before and by the shift."""
        n, joint = self.joint.nv, self.joint

        def call(given: list[Any]) -> tuple[Sequence[Any], list[list[float]]]:
            end = joint.normalize(joint.move(q, [h * x for x in given[n:]]))
            rate = tuple(given[:n])
            found = self._manifold.reexpress_joint(self._place, rate, q, tuple(end))
            return found, np.eye(2 * n).tolist()

        _, tangents = values_and_tangents(call, [*after, *shift])
        return [_block(tangents[k : k + n]) for k in (0, n)]

    def start(self, v: Scalars, q: Scalars, end: Scalars) -> list[list[Scalar]]:
        """Return the derivatives of v_0 by velocity and position at the start, and by q_1."""
        found: list[list[Scalar]] = self._ahead(v[self.v], q[self.q], end[self.q])
        return found

    def blocks(self, q: Scalars, shift: Scalars, after: Scalars, h: Scalar) -> list[Scalar]:
        """Return all blocks in the order of `BLOCKS`, for the variables of the whole robot."""
        own = tuple(shift[self.v])
        moved = self._moved(q[self.q], tuple(h * x for x in own))
        last = self._last(after[self.v], own, q[self.q], h)
        return [*moved.by_start, *(h * x for x in moved.by_step), *last[0], *last[1]]


def _block(columns: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    """Return columns as a matrix, row by row."""
    return [x for row in zip(*columns, strict=True) for x in row]


class StepChanges(NamedTuple):
    """A step with contact, to first order."""

    rows: Sequence[Scalar]
    """Changes of position (as a step) and velocity with those at the start and with the joint
    force: 2 nv rows of 3 nv scalars."""

    modes: list[Scalar]
    """Of each contact point: 0 open, 1 sticking, 2 sliding."""

    margin: list[Scalar]
    """Of each contact point: relative distance to another mode, from 0 to 1."""

    residual: Scalar
    """Of the impulses, relative to the largest."""


class _Balance:
    """Balance of momentum of a tree at q_1."""

    def __init__(self, plan: Plan, q: Scalars, metric: TreeMetric | None) -> None:
        self._plan, self._q = plan, q
        if metric is None:
            factor = FactorTree(expanded_parents(plan))
            mass = chosen_mass_elements(plan, JointVector(q), factor.layout.elements())
            metric = TreeMetric.from_factor(expanded_parents(plan), factor.apply(mass))
        self.metric = metric
        # traced once for all impulses
        self._vectors = before_products(plan)(self._force_vectors)

    def _force_vectors(self, q: Sequence[Scalar], w: Sequence[Scalar]) -> ForceVectors:
        """Return what the derivative of H w consists of."""
        plan, still = self._plan, JointVector((0.0,) * self._plan.nv)
        position, change = JointVector(q), JointVector(w)
        terms = state_terms(plan, position, still, ZERO3)
        local = partial(_added_forces, plan) if any(b.added for b in plan.bodies) else None
        return force_vectors(plan, position, still, change, terms, local=local)

    def changes(self, w: Sequence[Scalar], of_force: list[list[Scalar]]) -> list[Scalar]:
        """Return the derivative of H w - J^T f by position, at constant w and impulses.

        Args:
            w: Change of velocity that balances the impulses, nv scalars.
            of_force: Derivative of J^T f.

        Returns:
            The matrix, row by row.
        """
        found, _ = force_matrices(self._plan, self._vectors(list(self._q), list(w)))
        taken = (x for row in of_force for x in row)
        return [a - b for a, b in zip(scalars(as_traced(found)), taken, strict=True)]


def _added_forces(
    plan: Plan,
    places: Sequence[Place],
    velocities: Sequence[Motion],
    accelerations: Sequence[Motion],
) -> tuple[LocalForce, ...]:
    """Return the forces of added inertias, which are fixed in their bodies, at zero velocity."""

    def force(body: PlanBody, place: Place, acc: Motion) -> LocalForce:
        if body.added is None:
            return LocalForce.zero()
        A: ArticulatedInertia = body.added.rotated(place.R).shifted(place.o)
        F: Force = A.apply(acc)
        return LocalForce(F, A, Matrix6.zero(), Matrix6.zero())

    return each(plan, force, range(len(plan.bodies)), places, accelerations)


class _Contacts(NamedTuple):
    """The contacts of a step and what the chain takes of them."""

    compliance: Compliance
    matrix: ContactMatrix
    problem: ContactProblem
    phases: ContactPhases
    J: list[list[Scalar]]
    """Rows of all points at q_1."""

    J0: list[list[Scalar]]
    """Normal rows at the start."""

    slopes: list[list[list[Scalar]]]
    """Derivatives of bound, approach and share of each point by the gap at the start, the gap at
    q_1, and the normal velocities there at v_1 and at v_0."""

    @property
    def points(self) -> int:
        """Number of points."""
        return len(self.J0)

    def velocities(self, v: Sequence[Scalar]) -> list[Scalar]:
        """Return the relative velocities of all points for joint velocities."""
        given = []
        for k in range(self.points):
            rows = self.J[3 * k : 3 * k + 3]
            support = [i for i, column in enumerate(zip(*rows, strict=True)) if _some(column)]
            own = [v[i] for i in support]
            given.append((own, *([row[i] for i in support] for row in rows)))
        return [x for found in for_contacts(_rates_along, given) for x in found]

    def packed(
        self,
        changes: RowChanges,
        begun: tuple[list[list[Scalar]], ...],
        h: Scalar,
    ) -> tuple[list[list[int]], list[Scalar]]:
        """Return the supports of all points, and their `ROWS` over them.

        Args:
            changes: Changes of the rows with q_1, for v+, v_1, v_0 and s.
            begun: Changes of the normal velocities at v_0 with the velocity and the position at
                the start, and with q_1 besides that of the rows.
            h: Length of the step [s].
        """
        supports, given = [], []
        for k, start in enumerate(self.J0):
            after, moments = (rows[2 * k : 2 * k + 2] for rows in changes.tangential)
            normal = [rows[k] for rows in changes.normal]
            J, of_begun = self.J[3 * k : 3 * k + 3], [rows[k] for rows in begun]
            rows = [*J, start, *after, *moments, *normal, *of_begun]
            support = [i for i, column in enumerate(zip(*rows, strict=True)) if _some(column)]
            supports.append(support)
            bound, approach, share = self.slopes[k]
            # a sudden share of 1 is a bound
            sudden = self.phases.sudden[k]
            weights = (
                0.5 * self.problem.closing[k].share * np.where(sudden < 1.0, 1.0, 0.0),
                0.5 + 0.5 * sudden,
            )
            lasting = [
                weights[0] * a + weights[1] * b for a, b in zip(approach, share, strict=True)
            ]
            given.append(([h], bound, lasting, *([row[i] for i in support] for row in rows)))
        return supports, [x for found in for_contacts(_point_rows, given) for x in found]


def _point_rows(
    h: list[Scalar],
    bound: list[Scalar],
    lasting: list[Scalar],
    *rows: list[Scalar],
) -> list[Scalar]:
    """Return the `ROWS` of a point from its derivatives, over its support."""
    J1, J2, Jn, J0, T1, T2, M1, M2, after, steady, begun, shifted, by_v, by_q, by_q1 = rows
    ends = [a + b for a, b in zip(begun, by_q1, strict=True)]
    with_q1 = [
        [
            slope[1] * a + slope[2] * b + slope[3] * c
            for a, b, c in zip(Jn, steady, ends, strict=True)
        ]
        for slope in (bound, lasting)
    ]
    bound_q1 = [a + b - c for a, b, c in zip(with_q1[0], after, steady, strict=True)]
    gap = [x / h[0] + y for x, y in zip(Jn, shifted, strict=True)]
    with_v1 = [[slope[2] * x for x in Jn] for slope in (bound, lasting)]
    with_q = [
        [slope[0] * a + slope[3] * b for a, b in zip(J0, by_q, strict=True)]
        for slope in (bound, lasting)
    ]
    with_v = [[slope[3] * x for x in by_v] for slope in (bound, lasting)]
    found = [T1, T2, bound_q1, with_q1[1], M1, M2, gap, J1, J2, *with_v1, *with_q, *with_v]
    return [x for row in found for x in row]


def _along(row: Sequence[Scalar], v: Sequence[Scalar]) -> Scalar:
    return sum((a * b for a, b in zip(row, v, strict=True)), 0.0)


def _rates_along(v: list[Scalar], *rows: list[Scalar]) -> list[Scalar]:
    return [_along(row, v) for row in rows]


def _some(values: Sequence[Scalar]) -> bool:
    """Return whether some value is not the constant zero."""
    return any((x.graph.constant_of(x.node) if isinstance(x, Value) else x) != 0.0 for x in values)


def step_changes(
    around: Setting,
    q: Scalars,
    v: Scalars,
    h: Scalar,
    z: Scalars,
    candidates: Sequence[Candidate],
    p: Scalars,
    step: Rk4Changes,
    manifold: Manifold,
) -> StepChanges:
    """Differentiate the end of a step with rigid contact of a tree, without restitution.

    Args:
        around: What acts on the robot.
        q: Configuration at the start [m or rad], nq scalars.
        v: Joint velocity there [m/s or rad/s], nv scalars.
        h: Length of the step [s].
        z: Discrete states of the contact points.
        candidates: The shapes that may touch.
        p: Their run-time parameters.
        step: The step without contact.
        manifold: The positions.
    """
    n, q1, v1 = around.model.nv, step.q, step.v
    rotating = [_RotatingJoint(manifold, *one) for one in rotating_joints(around.model, manifold)]
    v0 = manifold.reexpress(v, q, q1)
    plan = around.at(JointVector(q1), JointVector(v1), *around.now).plan
    contacts = _contacts(plan, (q, q1), (v1, v0), h, z, candidates, p)
    phases, compliance = contacts.phases, contacts.compliance
    change, shift = compliance.response(phases.final.y), compliance.response(phases.z)
    after = tuple(a + b for a, b in zip(v1, change, strict=True))

    # impulses on the mean velocity, with those that close gaps
    timed = [a + b for a, b in zip(phases.moments.p, phases.closing.p, strict=True)]
    # of moments: velocities without impulses over the time that they last
    weights = [(0.0, x, 0.0, 1.0) for x in phases.lasting]
    changes = row_changes(
        plan, q1, candidates, p, [after, v1, v0, shift], [phases.final.p, timed], weights
    )
    balance = _Balance(plan, q1, compliance.metric)
    unbalanced = [
        balance.changes(x, force) for x, force in zip((change, shift), changes.force, strict=True)
    ]
    columns = [
        [j for j in range(n) if _some([part[i * n + j] for part in unbalanced])] for i in range(n)
    ]
    starts = [(one.v, one.start(v, q, q1)) for one in rotating]
    supports, rows = contacts.packed(changes, _begun(contacts.J[2::3], starts), h)
    matrix = contacts.matrix
    chain = ContactChain(
        expanded_parents(plan),
        supports,
        [(one.v.start, one.joint.nv) for one in rotating],
        columns,
        FrictionResponse(matrix.size, matrix.supports),
    )
    closing = zip(phases.closing.p[2::3], phases.closing.least, strict=True)
    closed = [np.where(normal > least, 1.0, 0.0) for normal, least in closing]
    found = chain.apply(
        [
            h,
            *step.rows,
            *balance.metric.entries,
            *balance.metric.roots,
            *(part[i * n + j] for part in unbalanced for i in range(n) for j in columns[i]),
            *rows,
            *(x for one in rotating for x in one.blocks(q1, shift, after, h)),
            *phases.final.arguments(matrix),
            *(x for pair in zip(phases.lasting, closed, strict=True) for x in pair),
            np.where(phases.lands, 1.0, 0.0),
            *(x for part in phases.moments._replace(mu=[]) for x in part),
        ]
    )
    u = contacts.velocities(after)
    modes, margin = contact_modes(contacts.problem, phases.final.p, phases.final.least, u, h)
    return StepChanges(found, modes, margin, phases.report[0])


def _begun(
    normals: list[list[Scalar]], starts: list[tuple[slice, list[list[Scalar]]]]
) -> tuple[list[list[Scalar]], ...]:
    """Return the changes of J_n v_0 by velocity and position at the start, and by q_1.

    Args:
        normals: Normal rows at q_1.
        starts: For each joint whose variables do not simply add its variables, and the derivatives
            of v_0.
    """
    every: tuple[list[list[Scalar]], ...] = ([], [], [])
    for normal in normals:
        zeros: list[Scalar] = [0.0] * len(normal)
        found = [list(normal), zeros, list(zeros)]
        for own, blocks in starts:
            size = own.stop - own.start
            for row, block in zip(found, blocks, strict=True):
                columns = (block[k::size] for k in range(size))
                row[own] = [_along(normal[own], column) for column in columns]
        for rows, row in zip(every, found, strict=True):
            rows.append(row)
    return every


def _contacts(
    plan: Plan,
    positions: tuple[Scalars, Scalars],
    velocities: tuple[Scalars, Scalars],
    h: Scalar,
    z: Scalars,
    candidates: Sequence[Candidate],
    p: Scalars,
) -> _Contacts:
    """Solve the contact problems of a step.

    Args:
        plan: Layout of the model.
        positions: At the start of the step, and q_1.
        velocities: v_1 and v_0.
        h: Length of the step [s].
        z: Discrete states of the contact points.
        candidates: The shapes that may touch.
        p: Their run-time parameters.
    """
    v1, v0 = velocities
    before, points = (contact_rows(plan, q, candidates, p) for q in positions)
    gaps = [point.geometry.gap for point in before]
    points = [point._replace(start=one.axes[2]) for point, one in zip(points, before, strict=True)]
    compliance = compliance_of(plan, positions[1], points)
    states = [PointState(tuple(z[4 * k : 4 * k + 3]), z[4 * k + 3]) for k in range(len(points))]
    surfaces = surfaces_of(candidates, p, [point.geometry for point in points])
    problem = contact_problem(gaps, points, surfaces, states, v1, v1, v0, h)
    supports = compliance.supports
    matrix = ContactMatrix(compliance.size, supports, compliance.entries(supports))
    phases = contact_phases(
        matrix,
        problem.b,
        problem.mu,
        [one.approach for one in problem.closing],
        [one.share for one in problem.closing],
        None,
        problem.ends,
        problem.guess,
        h=h,
        tolerance=IMPULSE_RESIDUAL,
        most=MOST_SWEEPS,
    )
    J = _dense_rows(points, plan.nv, slice(3))
    closing_changes = function(_closing_changes)
    slopes = [
        closing_changes(
            gap,
            point.geometry.gap,
            problem.after[k],
            _along(J[3 * k + 2], v0),
            h,
            problem.guess[3 * k + 2],
        )
        for k, (gap, point) in enumerate(zip(gaps, points, strict=True))
    ]
    return _Contacts(
        compliance,
        matrix,
        problem,
        phases,
        J,
        _dense_rows(before, plan.nv, slice(2, 3)),
        slopes,
    )


def _closing_changes(
    gap: Scalar, ahead: Scalar, after: Scalar, begun: Scalar, h: Scalar, pushed: Scalar
) -> list[list[Scalar]]:
    """Return the derivatives of bound, approach and share by the first four arguments."""

    def call(given: list[Any]) -> tuple[Closing, list[list[float]]]:
        gap, ahead, after, begun = given
        return closing_of(gap, ahead, after, after, begun, h, pushed > 0.0), np.eye(4).tolist()

    _, tangents = values_and_tangents(call, [gap, ahead, after, begun])
    return [[tangent[i] for tangent in tangents] for i in range(3)]


def _dense_rows(points: Sequence[PointRows], size: int, axes: slice) -> list[list[Scalar]]:
    """Return the rows of all points along some of their axes; bodies with many share code."""
    along_axes = folded(_carried_rows)
    rows: list[ContactRow] = []
    for key, members in itertools.groupby(points, lambda one: one.carrier and one.carrier.key):
        some = list(members)
        carrier = some[0].carrier
        if key is None or carrier is None:
            rows += [row for point in some for row in list(point.rows)[axes]]
            continue
        arms = [carrier.arm(point.geometry.point) for point in some]
        found = along_axes(
            list(carrier.columns.values()), arms, [point.axes[axes] for point in some]
        )
        rows += [dict(zip(carrier.columns, row, strict=True)) for row in found]
    return [[row.get(i, 0.0) for i in range(size)] for row in rows]


def _carried_rows(
    columns: list[Motion], arms: list[Vec3], axes: list[Sequence[Vec3]]
) -> list[list[Scalar]]:
    """Return the velocities of points of a body along axes that joint axes cause."""
    found = []
    for arm, own in zip(arms, axes, strict=True):
        linear = [add_cross(column.linear, column.angular, arm) for column in columns]
        found += [[dot(axis, x) for x in linear] for axis in own]
    return found


def _run(
    around: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    dt: Sequence[Scalar],
    z: Sequence[Scalar],
    p: Sequence[Scalar],
) -> Any:
    """Return the linear model of a step, with contact or in flight."""
    n, h, q, v = around.model.nv, dt[0], tuple(q), tuple(v)
    candidates, manifold = dict(around.options)["candidates"], Manifold(around.model)
    step = rk4_changes(around, q, v, h, stage_derivatives(around, tuple(tau)), manifold)
    found = step_changes(around, q, v, h, tuple(z), candidates, tuple(p), step, manifold)
    whole = as_traced(found.rows).reshape(2 * n, 3 * n)
    return {
        "A": whole[:, : 2 * n],
        "B": whole[:, 2 * n :],
        "modes": as_traced(found.modes),
        "margin": as_traced(found.margin),
        "residual": found.residual,
    }


def _inputs(model: Model, options: Options) -> list[Input]:
    candidates: tuple[Candidate, ...] = dict(options)["candidates"]
    points = sum(candidate.point_count for candidate in candidates)
    return [
        *inputs_of("q", "v", "tau", Input("dt", ()))(model, options),
        Input("contact_state", (4 * points,)),
        Input("surfaces", (number_count(candidates),)),
    ]


_STEP: LibraryFunction[Any] = LibraryFunction(
    "linearize_contact_step", _inputs, _run, make=lambda *found: found, keywords=DYNAMICS_CALL
)


class ContactsOf(NamedTuple):
    """Contacts of a robot with its world, as the kernel takes them."""

    names: tuple[str, ...]
    """Names of the contact points."""

    form: tuple[Candidate, ...]
    """The shapes that may touch, without dimensions and materials."""

    numbers: Array
    """Those dimensions and materials."""

    candidates: tuple[Candidate, ...]
    """The shapes with both."""

    start: Array
    """Initial states of the contact points."""

    system: System | None
    """Where the step of a run itself is differentiated: with restitution, torsional and rolling
    friction, loops, prescribed motion, hulls at a free surface, and shapes of two bodies that both
    move or may cross each other within a step."""

    @property
    def options(self) -> Options:
        """What the code of a kernel depends on."""
        return (("candidates", self.form),)


SURFACE = ("static_friction", "kinetic_friction")
"""Coefficients of surfaces that enter a step without restitution."""

CONTACTS = "linearized contacts"
"""What models remember: the contacts of the last world, and which of them were requested."""


def contacts_of(model: Model, world: World, contact: ContactModel | None) -> ContactsOf | None:
    """Return the rigid contacts of a robot with its world; None for none.

    Raises:
        ModelError: If contact is not rigid, or the robot has loops.
    """
    known = model.derived.get(CONTACTS)
    if known is not None and known[0] is world and known[1] == contact:
        kept: ContactsOf | None = known[2]
        return kept
    elements = contact_elements(model, world, contact)
    found = None
    if elements:
        (element,) = elements
        if not isinstance(element, RigidContactElement):
            raise ModelError(
                f"linearize of model {model.name!r}: expected rigid contact, got "
                f"{type(element).__name__}; write contact=tb.RigidContact(), or contact=None"
            )
        refuse_meshes(element.candidates, "linearize")
        names = element.point_names
        start = element.initial_discrete_state(model)[: len(POINT_STATES) * len(names)]
        form = tuple(candidate.form() for candidate in element.candidates)
        at_surface = world.fluid is not None and world.fluid.surface is not None
        shapes = any(
            candidate.can_be_crossed or _moves_both(model.plan, candidate)
            for candidate in element.candidates
        )
        bounces = any(
            material.restitution > 0.0
            for one in element.candidates
            for material in (one.material, *(patch.material for patch in one.patches))
        )
        turns = any(any(one.turning) for one in element.candidates)
        whole = model.loops or at_surface or shapes or bounces or turns
        whole = whole or depends_on_time(model, world)
        precise = replace(element, tolerance=IMPULSE_RESIDUAL)
        found = ContactsOf(
            names,
            form,
            np.array(numbers_of(element.candidates)),
            element.candidates,
            np.array(start, np.float64),
            System(model, world, [precise], steps=True) if whole else None,
        )
    model.derived[CONTACTS] = (world, contact, found)
    return found


def _moves_both(plan: Plan, candidate: Candidate) -> bool:
    """Return whether both bodies of a candidate move: a third may hold one as they collide."""
    parts = (candidate.first, candidate.second)
    return all(plan.frame(part.body).body != WORLD_BODY for part in parts)


def step_kernel_of(model: Model, world: World, contacts: ContactsOf) -> Callable[..., Any]:
    """Return the kernel of q, v, tau, dt, contact states and numbers that `linearize` calls."""
    return _STEP.kernel(model, world, contacts.options)


def linearize_contact(
    model: Model,
    contacts: ContactsOf,
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike, ArrayLike | None],
    conditions: DynamicsCall,
) -> ContactLinearization:
    """Return the linear model of a step with contact; see `linearize`.

    Args:
        model: The robot.
        contacts: Its contacts.
        arrays: Configuration, velocity, joint force, step, and states of the contact points.
        conditions: Shared keywords.
    """
    *state, z = arrays
    if z is None:
        q, v = arrays[:2]
        time = conditions.get("time")
        z = contact_states(model, contacts.candidates, contacts.start, q, v, time)
    if contacts.system is not None:
        return _linearize_system(contacts.system, contacts.names, (*state, z), conditions)
    numbers, parameters = contacts.numbers, conditions.get("parameters")
    if parameters is not None:
        around = world_with(conditions.get("world"), conditions.get("fluid")) or DEFAULT_WORLD
        surfaces = surfaces_by_name(
            "linearize", SURFACE, model, around, contacts.candidates, parameters
        )
        numbers, conditions = surfaces.numbers, {**conditions, "parameters": surfaces.others}
    given = (*state, z, numbers)
    found = _STEP.call(model, given, conditions, contacts.options)
    flagged = conditions.get("errors") == "flag"
    A, B, modes, margin, residual = found[0] if flagged else found
    near = ContactLinearization(A, B, modes, margin, residual, contacts.names)
    return (near, found[1]) if flagged else near  # type: ignore[return-value]


def _linearize_system(
    system: System,
    names: tuple[str, ...],
    arrays: tuple[ArrayLike, ...],
    conditions: DynamicsCall,
) -> ContactLinearization:
    """Return the linear model of a step by differentiating the step of a run."""
    for name, value in conditions.items():
        if name not in ("world", "fluid", "time") and value is not None:
            raise ModelError(
                f"linearize of model {system.model.name!r}: steps with contact of robots with "
                "restitution, torsional or rolling friction, loops, prescribed motion, hulls at a "
                f"free surface or shapes that touch each other take no {name}=; leave it out, or "
                "pass contact=None"
            )
    q, v, tau, dt, z = arrays
    shape = np.shape(z)
    own = np.zeros((*shape[:-1], len(system.z_names)))
    own[..., : shape[-1]] = z
    time = conditions.get("time")
    kernel = step_derivative_kernel(system)
    A, B, modes, margin, residual = kernel(q, v, tau, dt, own, 0.0 if time is None else time)
    return ContactLinearization(A, B, modes, margin, residual, names)
