"""A step with rigid contact to first order, by the implicit function theorem.

Contacts keep their modes: a point that sticks goes on sticking, one that slides goes on sliding,
one that is open stays so. A contact that is held closed throughout the step stays closed; one that
closes within it does so earlier or later. The parts of the step (`System.touch`, `rigid_step`) are
differentiated one by one and multiplied (`ContactChain`).

Symbols: as in `tiburon.contact.rigid` and `tiburon.trace.primitives.contact_chain`.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES
from tiburon.actuation.contact_models import ContactModel, contact_elements
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.derivatives.dynamics import (
    AccelerationTerms,
    acceleration_terms,
    solved_derivatives,
)
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
    Surface,
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
from tiburon.simulation.contact_modes import contact_modes
from tiburon.simulation.contact_start import contact_states
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.linearization import (
    ContactLinearization,
    joint_move,
    rk4_changes,
    rotating_joints,
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
from tiburon.trace.regions import function, where_needed
from tiburon.trace.value import Value

__all__ = ["StepChanges", "contacts_of", "linearize_contact", "step_changes", "step_kernel_of"]

Array = NDArray[np.float64]

IMPULSE_RESIDUAL = 1e-10
"""Residual of the impulses at which a step is linearized, relative to the largest impulse: smaller
than that of runs, since derivatives of points that slide magnify it a hundredfold."""


class _RotatingJoint:
    """A joint whose variables do not simply add: its blocks of the chain."""

    def __init__(self, manifold: Manifold, joint: Joint, q: slice, v: slice) -> None:
        self.q, self.v, self.joint, self._manifold = q, v, joint, manifold
        self._place = manifold.first_like(joint.name)
        self.moved = joint_move(manifold, joint)
        self.free = manifold.function(("free", self._place), self._free)
        self.last = manifold.function(("last", self._place), self._last)

    def _free(self, q: Scalars, v: Scalars, vd: Scalars, h: Scalar) -> list[list[Scalar]]:
        """Return the derivatives of the velocity at the end without contact, by v and by vd."""
        n, joint, manifold, place = self.joint.nv, self.joint, self._manifold, self._place

        def call(given: list[Any]) -> tuple[Sequence[Any], list[list[float]]]:
            rate, change = tuple(given[:n]), tuple(given[n:])
            middle = tuple(joint.move(q, [0.5 * h * x for x in rate]))
            ahead = tuple(joint.move(q, [h * x for x in rate]))
            hidden = manifold.convective_joint(place, rate)
            step = tuple(h * (a + b) for a, b in zip(change, hidden, strict=True))
            start = manifold.reexpress_joint(place, rate, q, ahead)
            later = manifold.reexpress_joint(place, step, middle, ahead)
            return [a + b for a, b in zip(start, later, strict=True)], np.eye(2 * n).tolist()

        _, tangents = values_and_tangents(call, [*v, *vd])
        return [_block(tangents[k : k + n]) for k in (0, n)]

    def _last(
        self, q: Scalars, v: Scalars, mean: Scalars, after: Scalars, h: Scalar
    ) -> list[list[Scalar]]:
        """Return the derivatives of the velocity at the end, by v, the mean velocity and v+."""
        n, joint, manifold, place = self.joint.nv, self.joint, self._manifold, self._place

        def call(given: list[Any]) -> tuple[Sequence[Any], list[list[float]]]:
            ahead = tuple(joint.move(q, [h * x for x in given[:n]]))
            end = joint.normalize(joint.move(q, [h * x for x in given[n : 2 * n]]))
            found = manifold.reexpress_joint(place, tuple(given[2 * n :]), ahead, tuple(end))
            return found, np.eye(3 * n).tolist()

        _, tangents = values_and_tangents(call, [*v, *mean, *after])
        return [_block(tangents[k : k + n]) for k in (0, n, 2 * n)]

    def blocks(
        self, q: Scalars, v: Scalars, vd: Scalars, mean: Scalars, after: Scalars, h: Scalar
    ) -> list[Scalar]:
        """Return all blocks in the order of `BLOCKS`, for the variables of the whole robot."""
        own, rate, (i, j) = q[self.q], v[self.v], (self.q, self.v)
        found: list[Scalar] = []
        for duration in (0.5 * h, h):
            moved = self.moved(own, tuple(duration * x for x in rate))
            found += [*moved.by_start, *(duration * x for x in moved.by_step)]
        for block in self.free(own, rate, vd[j], h):
            found += block
        arrived = self.moved(own, tuple(h * x for x in mean[j]))
        found += [*arrived.by_start, *(h * x for x in arrived.by_step)]
        for block in self.last(q[i], rate, mean[j], after[j], h):
            found += block
        return found


def _block(columns: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    """Return columns as a matrix, row by row."""
    return [x for row in zip(*columns, strict=True) for x in row]


class StepChanges(NamedTuple):
    """A step with contact, to first order."""

    A: Any
    """Change with x = [dq, v], shape (2 nv, 2 nv)."""

    B: Any
    """Change with the joint forces, shape (2 nv, nv)."""

    touched: Scalar
    """Whether there were impulses; without them the step is another one."""

    modes: list[Scalar]
    """Of each contact point: 0 open, 1 sticking, 2 sliding."""

    margin: list[Scalar]
    """Of each contact point: relative distance to another mode, from 0 to 1."""

    residual: Scalar
    """Of the impulses, relative to the largest."""


class _Balance:
    """Balance of momentum of a tree at the end of a step of constant velocity."""

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
    surfaces: list[Surface]
    matrix: ContactMatrix
    problem: ContactProblem
    phases: ContactPhases
    J: list[list[Scalar]]
    """Rows of all points at the end of a step of constant velocity."""

    J0: list[list[Scalar]]
    """Normal rows at the start."""

    slopes: list[Scalar]
    """Derivatives of bound, approach and share of each point."""

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

    def packed(self, changes: RowChanges) -> tuple[list[list[int]], list[Scalar]]:
        """Return the supports of all points, and their `ROWS` over them."""
        supports, found = [], []
        for k, start in enumerate(self.J0):
            after, moments = (rows[2 * k : 2 * k + 2] for rows in changes.tangential)
            normal = [rows[k] for rows in changes.normal]
            rows = [*self.J[3 * k : 3 * k + 3], start, *after, *normal, *moments]
            support = [i for i, column in enumerate(zip(*rows, strict=True)) if _some(column)]
            supports.append(support)
            found += [row[i] for row in rows for i in support]
        return supports, found


def _rates_along(v: list[Scalar], *rows: list[Scalar]) -> list[Scalar]:
    return [sum((a * b for a, b in zip(row, v, strict=True)), 0.0) for row in rows]


def _some(values: Sequence[Scalar]) -> bool:
    """Return whether some value is not the constant zero."""
    return any((x.graph.constant_of(x.node) if isinstance(x, Value) else x) != 0.0 for x in values)


def _stage_functions(
    around: Setting, tau: Scalars
) -> tuple[Callable[..., AccelerationTerms], Callable[..., list[list[Scalar]]]]:
    """Return `acceleration_terms` of a tree, and `solved_derivatives`, each traced once.

    Both are functions of position, velocity and time.
    """
    arrays = tuple(tuple(scalars(array)) for array in around.arrays)

    @function
    def terms(q: Scalars, v: Scalars, tau: Scalars, arrays: Any, *time: Scalar) -> Any:
        inside = around._replace(arrays=arrays, external=None)
        position, rate, force = map(JointVector, (q, v, tau))
        return turned(acceleration_terms(inside.at(position, rate, *time), position, rate, force))

    def turned(found: AccelerationTerms) -> AccelerationTerms:
        # columns one after the other, as the chain takes them: they are copied as they are
        n = around.model.nv
        by_q, by_v = ([x for j in range(n) for x in part[j::n]] for part in found[2:])
        return found._replace(by_q=by_q, by_v=by_v)

    @function
    def derivatives(q: Scalars, v: Scalars, tau: Scalars, arrays: Any, *time: Scalar) -> Any:
        found = solved_derivatives(around, turned(terms(q, v, tau, arrays, *time)))
        return [list(scalars(x)) for x in found]

    def terms_at(q: Scalars, v: Scalars, *time: Scalar) -> AccelerationTerms:
        return turned(terms(tuple(q), tuple(v), tau, arrays, *time))

    def derivatives_at(q: Scalars, v: Scalars, *time: Scalar) -> list[list[Scalar]]:
        found: list[list[Scalar]] = derivatives(tuple(q), tuple(v), tau, arrays, *time)
        return found

    return terms_at, derivatives_at


def step_changes(
    around: Setting,
    q: Scalars,
    v: Scalars,
    h: Scalar,
    z: Scalars,
    candidates: Sequence[Candidate],
    p: Scalars,
    terms: Callable[..., AccelerationTerms],
    manifold: Manifold,
    *,
    bounces: bool,
) -> StepChanges:
    """Differentiate a step with rigid contact of a tree.

    Args:
        around: What acts on the robot.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        h: Length of the step [s].
        z: Discrete states of the contact points.
        candidates: The shapes that may touch.
        p: Their run-time parameters.
        terms: Takes position, velocity and time; see `_stage_functions`.
        manifold: The positions.
        bounces: Whether some surface has a coefficient of restitution.
    """
    n = around.model.nv
    rotating = [_RotatingJoint(manifold, *one) for one in rotating_joints(around.model, manifold)]
    middle, ahead = manifold.displaced(q, v, 0.5 * h), manifold.displaced(q, v, h)
    resting = terms(middle, v, *(time + 0.5 * h for time in around.now))
    vd = tuple(resting.vd)
    v_free = manifold.velocity_ahead(q, middle, ahead, v, vd, h)
    plan = around.at(JointVector(ahead), JointVector(v), *around.now).plan
    contacts = _contacts(plan, q, ahead, v, v_free, h, z, candidates, p, bounces=bounces)
    phases, compliance = contacts.phases, contacts.compliance
    after = _sum(v_free, compliance.response(phases.final.y))
    halfway = tuple(0.5 * (a + b) for a, b in zip(v, v_free, strict=True))
    mean = _sum(halfway, compliance.response(phases.z))
    blocks = [x for one in rotating for x in one.blocks(q, v, vd, mean, after, h)]
    places = [(one.v.start, one.joint.nv) for one in rotating]
    balance = _Balance(plan, ahead, compliance.metric)

    # impulses on the mean velocity, with those that close gaps
    acting = [a + b for a, b in zip(phases.moments.p, phases.closing.p, strict=True)]
    # of moments: velocities without impulses over the time that they last
    weights = [(0.0, x - 0.5, -0.5, 1.0) for x in phases.lasting]
    changes = row_changes(
        plan, ahead, candidates, p, [after, v_free, v, mean], [phases.final.p, acting], weights
    )
    unbalanced = [
        balance.changes(_difference(after, v_free), changes.force[0]),
        balance.changes(_difference(mean, halfway), changes.force[1]),
    ]
    supports, rows = contacts.packed(changes)

    def compressed() -> list[Scalar]:
        first = phases.compression
        reached = _sum(v_free, compliance.response(first.y))
        own = row_changes(plan, ahead, candidates, p, [reached], [first.p])
        left = balance.changes(_difference(reached, v_free), own.force[0])
        differences = [
            one[i] - other[i]
            for k, (one, other) in enumerate(
                zip(own.by_contact(), changes.by_contact(), strict=True)
            )
            for i in supports[k // 3]
        ]
        return [*differences, *(left[i] for i in chain.places)]

    matrix = contacts.matrix
    chain = ContactChain(
        expanded_parents(plan),
        supports,
        places,
        [i for i, x in enumerate(blocks) if not _some([x])],
        [j for j in range(n) if _some(resting.by_q[j::n])],
        [i for i, column in enumerate(zip(*unbalanced, strict=True)) if _some(column)],
        FrictionResponse(matrix.size, matrix.supports),
        bounces=bounces,
    )
    first: list[Scalar] = []
    if bounces:
        # without restitution, decompression changes nothing
        first = where_needed(phases.returns, compressed, [0.0] * chain.compression_count)
        first = [*first, *(x for part in phases.compression[2:] for x in part)]
    whole = chain.apply(
        [
            h,
            *(resting.by_q[i * n + j] for j in chain.positions for i in chain.related[j]),
            *(
                x
                for j, rows in enumerate(chain.related)
                for x in (resting.by_v[i * n + j] for i in rows)
            ),
            *resting.factor,
            *balance.metric.entries,
            *balance.metric.roots,
            *(part[i] for part in unbalanced for i in chain.places),
            *rows,
            *contacts.slopes,
            *blocks,
            *phases.final.arguments(matrix),
            *_shares(contacts, bounces=bounces),
            np.where(phases.lands, 1.0, 0.0),
            *(x for part in phases.moments._replace(mu=[]) for x in part),
            *first,
        ]
    )
    A, B = (as_traced(part).reshape(2 * n, -1) for part in (whole[: 4 * n * n], whole[4 * n * n :]))
    u = contacts.velocities(after)
    modes, margin = contact_modes(contacts.problem, phases.final.p, phases.final.least, u, h)
    touched = _largest(phases.final.p) > 0.0
    return StepChanges(A, B, touched, modes, margin, phases.report[0])


def _contacts(
    plan: Plan,
    q: Scalars,
    ahead: Scalars,
    v: Scalars,
    v_free: Scalars,
    h: Scalar,
    z: Scalars,
    candidates: Sequence[Candidate],
    p: Scalars,
    *,
    bounces: bool,
) -> _Contacts:
    """Solve the contact problems of a step; arguments as in `step_changes`."""
    before, points = (contact_rows(plan, at, candidates, p) for at in (q, ahead))
    gaps = [point.geometry.gap for point in before]
    compliance = compliance_of(plan, ahead, points)
    states = [PointState(tuple(z[4 * k : 4 * k + 3]), z[4 * k + 3]) for k in range(len(points))]
    surfaces = surfaces_of(candidates, p, [point.geometry for point in points])
    problem = contact_problem(gaps, points, surfaces, states, v, v_free, h)
    supports = compliance.supports
    matrix = ContactMatrix(compliance.size, supports, compliance.entries(supports))
    phases = contact_phases(
        matrix,
        problem.b,
        problem.mu,
        [one.approach for one in problem.closing],
        [one.share for one in problem.closing],
        [surface.restitution for surface in surfaces] if bounces else None,
        problem.ends,
        problem.guess,
        h=h,
        tolerance=IMPULSE_RESIDUAL,
        most=MOST_SWEEPS,
    )
    closing_changes = function(_closing_changes)
    slopes = [
        x
        for gap, point, steady, speed in zip(
            gaps, points, problem.steady, problem.after, strict=True
        )
        for x in closing_changes(gap, point.geometry.gap, steady, speed, h)
    ]
    return _Contacts(
        compliance,
        surfaces,
        matrix,
        problem,
        phases,
        _dense_rows(points, plan.nv, slice(3)),
        _dense_rows(before, plan.nv, slice(2, 3)),
        slopes,
    )


def _closing_changes(
    gap: Scalar, ahead: Scalar, steady: Scalar, after: Scalar, h: Scalar
) -> list[Scalar]:
    """Return the derivatives of bound, approach and share by the first four arguments."""

    def call(given: list[Any]) -> tuple[Closing, list[list[float]]]:
        return closing_of(given[0], given[1], given[2], given[3], h), np.eye(4).tolist()

    _, tangents = values_and_tangents(call, [gap, ahead, steady, after])
    return [tangent[i] for i in range(3) for tangent in tangents]


def _shares(contacts: _Contacts, *, bounces: bool) -> list[Scalar]:
    """Return for each contact what the chain takes of its impulse, in the order of `SHARES`."""
    phases, shift = contacts.phases, contacts.phases.closing
    found: list[Scalar] = []
    for k, (surface, one) in enumerate(
        zip(contacts.surfaces, contacts.problem.closing, strict=True)
    ):
        normal, sudden = phases.final.p[3 * k + 2], phases.sudden[k]
        closed = np.where(shift.p[3 * k + 2] > shift.least[k], 1.0, 0.0)
        found += [phases.lasting[k], one.share, sudden, closed]
        if not bounces:
            continue
        # a sudden share of 1 is a bound
        counts = phases.returns & (sudden < 1.0) & (normal > 0.0)
        over = np.where(counts, 1.0 / np.where(counts, normal, 1.0), 0.0)
        factor = np.where(phases.returns, 1.0 + surface.restitution, 0.0)
        found += [
            np.where(phases.returns, 0.0, 1.0),
            over,
            -sudden * over,
            np.where(phases.final.least[k] > 0.0, 1.0, 0.0),
            factor * phases.compression.p[3 * k + 2],
            factor * one.approach,
        ]
    return found


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


def _sum(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalars:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _difference(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalars:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def _largest(values: Sequence[Scalar]) -> Scalar:
    found: Scalar = 0.0
    for value in values:
        found = np.maximum(found, np.abs(value))
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
    options = dict(around.options)
    candidates, bounces = options["candidates"], options["bounces"]
    n, h = around.model.nv, dt[0]
    q, v = tuple(q), tuple(v)
    terms, derivatives = _stage_functions(around, tuple(tau))
    manifold = Manifold(around.model)
    found = step_changes(
        around, q, v, h, tuple(z), candidates, tuple(p), terms, manifold, bounces=bounces
    )

    def free() -> list[Scalar]:
        step = rk4_changes(around, q, v, h, derivatives, manifold)
        return [*scalars(step["A"]), *scalars(step["B"])]

    flies = np.where(found.touched, 0.0, 1.0) > 0.5
    flat = where_needed(flies, free, [*scalars(found.A), *scalars(found.B)])
    return {
        "A": as_traced(flat[: 4 * n * n]).reshape(2 * n, 2 * n),
        "B": as_traced(flat[4 * n * n :]).reshape(2 * n, n),
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
    """Where the step of a run itself is differentiated: with loops, prescribed motion, hulls at a
    free surface, and shapes that may cross each other within a step."""

    def options(self, parameters: Any = None) -> Options:
        """Return what the code of a kernel depends on.

        Args:
            parameters: Values by name that are given in a call.
        """
        bounces = any(
            material.restitution > 0.0
            for one in self.candidates
            for material in (one.material, *(patch.material for patch in one.patches))
        )
        named = any(str(name).endswith(".restitution") for name in parameters or ())
        return (("bounces", bounces or named), ("candidates", self.form))


SURFACE = ("static_friction", "kinetic_friction", "restitution")
"""Coefficients of surfaces that enter a step."""

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
        crossed = any(candidate.can_be_crossed for candidate in element.candidates)
        general = model.loops or at_surface or crossed or depends_on_time(model, world)
        found = ContactsOf(
            names,
            form,
            np.array(numbers_of(element.candidates)),
            element.candidates,
            np.array(start, np.float64),
            System(model, world, elements, steps=True) if general else None,
        )
    model.derived[CONTACTS] = (world, contact, found)
    return found


def step_kernel_of(model: Model, world: World, contacts: ContactsOf) -> Callable[..., Any]:
    """Return the kernel of q, v, tau, dt, contact states and numbers that `linearize` calls."""
    return _STEP.kernel(model, world, contacts.options())


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
    found = _STEP.call(model, given, conditions, contacts.options(parameters))
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
                "loops, prescribed motion, hulls at a free surface or shapes that touch each other "
                f"take no {name}=; leave it out, or pass contact=None"
            )
    q, v, tau, dt, z = arrays
    shape = np.shape(z)
    own = np.zeros((*shape[:-1], len(system.z_names)))
    own[..., : shape[-1]] = z
    time = conditions.get("time")
    kernel = step_derivative_kernel(system)
    A, B, modes, margin, residual = kernel(q, v, tau, dt, own, 0.0 if time is None else time)
    return ContactLinearization(A, B, modes, margin, residual, names)
