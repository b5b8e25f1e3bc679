"""The complete formulation: every link has its equations, every joint its unknown wrench.

For each link the wrenches of the joints at both of its ends and of contacts and loops balance its
inertial and external forces (Nahon 1991, eqs. 4.5 to 4.14). Unknown are the forces x, the actuator
efforts tau_a, and what each joint transmits beside its efforts.

Symbols:
    d       dimension of the motions that all joints together can produce: 6, or 3 in a plane
    B       basis of these motions, world axes about the world's origin, shape (6, d)
    s       motion subspace of a joint in such a basis of its body, shape (d, nv of the joint)
    T, U    wrenches that do no work on s, and unit efforts: s^T T = 0, s^T U = 1
    phi     what a joint transmits, as far as it does work on B: T lambda + U (tau + friction and
            spring of the joint - armature vd)

        phi_b - sum over children phi_c + sum over x of B^T w x = B^T net force of b

Wrenches that do no work on B, such as those across the plane of a planar mechanism, enter no
equation: a planar mechanism has three equations per link, as in the source.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.arrays import Array
from tiburon.contact.rows import ContactRow
from tiburon.load_sharing.problem import MOMENT, Layout, Problem, System, constraint_kinds
from tiburon.load_sharing.recovery import at_origin, joint_wrenches, unit_loads
from tiburon.loops.constraints import jacobian_pattern
from tiburon.model import Model, PlanBody
from tiburon.model.model import per_model
from tiburon.spatial import Force, Motion, Scalar, Scalars

SAMPLED_CONFIGURATIONS = 3
"""Random configurations that determine which motions the joints can produce."""

RANK_TOLERANCE = 1e-8
"""Relative singular value that counts as rounding error."""


class MotionBasis(NamedTuple):
    """Motions that the joints of a robot can produce."""

    world: tuple[tuple[float, ...], ...]
    """Columns of B: motions in world axes about the world's origin, angular part first."""

    bodies: tuple[tuple[tuple[float, ...], ...], ...]
    """For each plan body the wrenches dual to the same motions in its own frame: d columns."""

    names: tuple[str, ...]
    """What the equation of each motion balances."""

    @property
    def dimension(self) -> int:
        """The dimension d."""
        return len(self.world)


@per_model
def motion_basis(model: Model) -> MotionBasis:
    """Return a basis of the motions of a robot, the same in all configurations.

    Where the motions of the joints are closed under each other (a plane, a fixed point, a plane and
    its normal), their span is the same seen from every body. Otherwise all six are taken.
    """
    plan = model.plan
    rng = np.random.default_rng(11)
    with taping(None):
        states = [
            JointVector([x for joint in model.joints for x in joint.random(rng)])
            for _ in range(SAMPLED_CONFIGURATIONS)
        ]
        placed = [body_places(plan, q) for q in states]
        span = [
            _moved_out(np.array([*s]), place)
            for q, places in zip(states, placed, strict=True)
            for body, place in zip(plan.bodies, places, strict=True)
            for s in body.joint.subspace(q[body.q])
        ]
    B = _structured(np.array(span).T.reshape(6, -1))
    full = np.eye(6)
    for body in plan.bodies:
        seen = [_seen_from(B, places[body.index]) for places in placed]
        if _rank(np.hstack(seen)) > B.shape[1]:
            B = full
            break
    places = placed[0]
    duals = []
    for body in plan.bodies:
        # in space the body's own axes
        own = full if B.shape[1] == 6 else _seen_from(B, places[body.index])
        dual = own @ np.linalg.inv(own.T @ own)
        duals.append(tuple(tuple(map(float, column)) for column in _clean(dual).T))
    columns = tuple(tuple(map(float, column)) for column in B.T)
    return MotionBasis(columns, tuple(duals), tuple(map(_balance_name, columns)))


def _moved_out(s: Array, place: Place) -> Array:
    """Return a motion given in a body's frame about the world's origin, world axes."""
    R, p = (np.array(part, dtype=np.float64) for part in place)
    w = R @ s[:3]
    return np.concatenate([w, R @ s[3:] + np.cross(p, w)])


def _seen_from(B: Array, place: Place) -> Array:
    """Return motions given about the world's origin in a body's frame."""
    R, p = (np.array(part, dtype=np.float64) for part in place)
    w, v = B[:3], B[3:]
    return np.vstack([R.T @ w, R.T @ (v + np.cross(w, p[:, None], axis=0))])


def _rank(columns: Array) -> int:
    sizes = np.linalg.svd(columns, compute_uv=False)
    return int(np.sum(sizes > RANK_TOLERANCE * sizes[0])) if sizes.size and sizes[0] > 0.0 else 0


def _structured(span: Array) -> Array:
    """Return a basis of a span of motions: turns first, then pure translations."""
    if not span.shape[1]:
        return np.eye(6)
    U, sizes, _ = np.linalg.svd(span, full_matrices=False)
    V = U[:, sizes > RANK_TOLERANCE * sizes[0]]
    if V.shape[1] == 6:
        return np.eye(6)
    # translations: combinations without a turn
    _, turning, rows = np.linalg.svd(V[:3], full_matrices=True)
    turns = int(np.sum(turning > RANK_TOLERANCE))
    T = _along_axes((V @ rows[turns:].T)[3:])
    # turns: along coordinate axes where possible, with the least translation
    A = _along_axes((V @ rows[:turns].T)[:3])
    columns = []
    for axis in A.T:
        moving = V @ np.linalg.lstsq(V[:3], axis, rcond=None)[0]
        moving[3:] -= T @ (T.T @ moving[3:])
        columns.append(moving)
    columns += [np.concatenate([np.zeros(3), t]) for t in T.T]
    return _clean(np.array(columns).T)


def _along_axes(columns: Array) -> Array:
    """Return an orthonormal basis of a span in space, of coordinate axes where it holds any."""
    if not columns.size or not np.any(np.abs(columns) > RANK_TOLERANCE):
        return np.zeros((3, 0))
    U, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    U = U[:, sizes > RANK_TOLERANCE * sizes[0]]
    projector = U @ U.T
    found: list[Array] = []
    # coordinate axes first, the ones most contained before others
    for k in np.argsort(-np.diag(projector), kind="stable"):
        rest = projector[:, k] - sum((x * (x @ projector[:, k]) for x in found), np.zeros(3))
        length = float(np.linalg.norm(rest))
        if length > 1e-6 and len(found) < U.shape[1]:
            found.append(rest / length)
    return np.array(found).T


def _clean(columns: Array) -> Array:
    """Return a matrix with rounding errors set to the numbers they stand for."""
    near = np.round(columns)
    return np.where(np.abs(columns - near) < 1e-12, near, columns)


def _balance_name(column: Sequence[float]) -> str:
    """Return what the equation along a motion balances."""
    turns = bool(np.any(np.abs(column[:3])))
    axis = np.array(column[:3] if turns else column[3:])
    kind = "moment" if turns else "force"
    k = int(np.argmax(np.abs(axis)))
    if np.abs(axis).sum() - abs(axis[k]) < 1e-12:
        return f"{kind} {'xyz'[k]}"
    return f"{kind} along ({', '.join(f'{x:.3g}' for x in axis)})"


def unfelt_count(model: Model, layout: Layout) -> int:
    """Return how many components of x no joint can feel.

    Contacts have three forces also where a robot moves in a plane, for their friction; the one
    across the plane loads no joint, and neither do moments other than about its normal.
    """
    basis = np.array(motion_basis(model).world).reshape(-1, 6)
    turning = _rank(basis[:, :3]) if len(basis) else 0
    anywhere = np.array([0.37, -0.83, 0.59])
    moving = _rank(basis[:, 3:] + np.cross(basis[:, :3], anywhere)) if len(basis) else 0
    total = 0
    for group in layout.groups[: layout.points]:
        moments = group.kinds.count(MOMENT)
        total += max(0, len(group.kinds) - moments - moving)
        # a single moment is that about the normal of the contact
        total += (turning < 3) if moments == 1 else max(0, moments - turning)
    felt = jacobian_pattern(model) if model.loops else ()
    start = 0
    for loop, group in zip(model.loops, layout.groups[layout.points :], strict=False):
        total += sum(not felt[start + row] for row in group.rows)
        start += len(constraint_kinds(loop))
    return total


def complete_names(model: Model, layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the unknowns and of the equations."""
    plan, basis = model.plan, motion_basis(model)
    unknowns = [*layout.names, *(f"{model.v_names[i]}: effort" for i in layout.driven)]
    for body in plan.bodies:
        joint = model.body(body.name).joint.name
        own = body.v.stop - body.v.start
        unknowns += [f"{joint}: reaction {k}" for k in range(basis.dimension - own)]
        if body.joint.follows is not None:
            unknowns += [f"{joint}: gear {k}" for k in range(own)]
    rows = [f"{body.name}: {name}" for body in plan.bodies for name in basis.names]
    return tuple(unknowns), tuple(rows)


def complete(problem: Problem) -> System:
    """Return unknowns and equations of the complete formulation of a problem in one state."""
    setting, q, vd = problem.setting, problem.q, problem.vd
    plan, layout = setting.plan, problem.layout
    basis = motion_basis(setting.model)
    d = basis.dimension
    places = body_places(plan, JointVector(q))
    loads = unit_loads(problem, places)
    alone = joint_wrenches(problem, loads, places).constant
    at = layout.size
    torques = {index: at + k for k, index in enumerate(layout.driven)}
    at += len(torques)

    def projected(wrench: Force) -> list[Scalar]:
        """Return B^T w."""
        return [Motion.from_array(column).dot(wrench) for column in basis.world]

    # effort along each velocity variable: what its own joint and its followers must provide
    efforts: list[dict[int, Scalar]] = [{} for _ in range(plan.nv)]
    given: list[Scalar] = [0.0] * plan.nv
    for index, place in torques.items():
        efforts[index][place] = 1.0
    for k, load in enumerate(loads):
        for index, x in load.along.items():
            efforts[index][k] = x
    for body in plan.bodies:
        for index, own in enumerate(body.armature or (), start=body.v.start):
            given[index] = given[index] - own * vd[index]
    for index, own in enumerate(problem.passive or ()):
        given[index] = given[index] + own

    # phi of each joint: rows over the unknowns, and constants
    transmitted: list[tuple[list[ContactRow], list[Scalar]]] = [([], [])] * len(plan.bodies)
    leaders = [body for body in plan.bodies if body.joint.follows is None]
    followers = [body for body in plan.bodies if body.joint.follows is not None]
    reactions: dict[int, tuple[list[list[Scalar]], list[list[Scalar]]]] = {}
    starts: dict[int, int] = {}
    for body in plan.bodies:
        reactions[body.index] = _reactions(body, q, places, basis)
        starts[body.index] = at
        at += len(reactions[body.index][0])
        if body.joint.follows is not None:
            at += body.v.stop - body.v.start
    for body in followers:
        free, units = reactions[body.index]
        first = starts[body.index]
        columns = {first + k: column for k, column in enumerate([*free, *units])}
        for index, place in zip(
            range(body.v.start, body.v.stop), range(first + len(free), at), strict=False
        ):
            efforts[index][place] = -1.0
        transmitted[body.index] = (_as_rows(columns, d), [0.0] * d)
    for body in leaders:
        free, units = reactions[body.index]
        columns = {starts[body.index] + k: column for k, column in enumerate(free)}
        constant: list[Scalar] = [0.0] * d
        for index, unit in zip(range(body.v.start, body.v.stop), units, strict=True):
            constant = [x + given[index] * u for x, u in zip(constant, unit, strict=True)]
            for place, factor in efforts[index].items():
                known = columns.get(place, [0.0] * d)
                columns[place] = [x + factor * u for x, u in zip(known, unit, strict=True)]
        transmitted[body.index] = (_as_rows(columns, d), constant)

    rows: list[ContactRow] = []
    right: list[Scalar] = []
    for body in plan.bodies:
        own, known = transmitted[body.index]
        balance = [dict(row) for row in own]
        net = [f - x for f, x in zip(projected(alone[body.index]), known, strict=True)]
        for child in body.children:
            carried, other = transmitted[child]
            for row, part in zip(balance, carried, strict=True):
                _subtract(row, part)
            net = [a - f + x for a, f, x in zip(net, projected(alone[child]), other, strict=True)]
        for k, load in enumerate(loads):
            for on, wrench in load.wrenches:
                if on == body.index:
                    for row, x in zip(balance, projected(wrench), strict=True):
                        row[k] = row[k] + x if k in row else x
        rows += balance
        right += net
    return System(at, rows, right, torques)


def _reactions(
    body: PlanBody, q: Scalars, places: Sequence[Place], basis: MotionBasis
) -> tuple[list[list[Scalar]], list[list[Scalar]]]:
    """Return T and U of a joint as B^T of wrenches: its reactions, and unit efforts."""
    d = basis.dimension
    dual = [Force.from_array(column) for column in basis.bodies[body.index]]
    S = body.joint.subspace(q[body.q])
    # the dual wrenches read off the components of a motion in the basis of the body
    s = [[motion.dot(wrench) for wrench in dual] for motion in S]
    count = len(s)
    free, units = subspace_duals(s, d)
    reduced = [*free, *units]
    found = []
    for column in reduced:
        wrench = Force.zero()
        for x, one in zip(column, dual, strict=True):
            wrench = wrench + one * x
        out = at_origin(places[body.index], wrench)
        found.append([Motion.from_array(motion).dot(out) for motion in basis.world])
    return found[: d - count], found[d - count :]


def subspace_duals(s: Sequence[Scalars], d: int) -> tuple[list[list[Scalar]], list[list[Scalar]]]:
    """Return T and U of a subspace given by its columns: s^T T = 0, s^T U = 1.

    Args:
        s: Independent columns of d scalars each, floats or traced values.
        d: Dimension.
    """
    Q, R = _householder(s, d)
    count = len(s)
    # U = Q R^-T
    units = []
    for k in range(count):
        column: list[Scalar] = [0.0] * count
        column[k] = 1.0 / R[k][k]
        for i in range(k + 1, count):
            total: Scalar = 0.0
            for j in range(k, i):
                total = total + R[j][i] * column[j]
            column[i] = -total / R[i][i]
        units.append([sum((Q[j][i] * column[j] for j in range(count)), 0.0) for i in range(d)])
    return Q[count:], units


def _householder(
    columns: Sequence[Scalars], d: int
) -> tuple[list[list[Scalar]], list[list[Scalar]]]:
    """Return the columns of Q and the rows of R of a matrix given by its columns.

    Reflections hold in every configuration, unlike a choice of components.
    """
    left = [list(column) for column in columns]
    Q: list[list[Scalar]] = [[1.0 if i == k else 0.0 for i in range(d)] for k in range(d)]
    R: list[list[Scalar]] = [[0.0] * len(columns) for _ in columns]
    for k, column in enumerate(left):
        length = np.sqrt(sum((x * x for x in column[k:]), 0.0))
        sign = np.where(column[k] < 0.0, -1.0, 1.0)
        normal: list[Scalar] = [0.0] * k + list(column[k:])
        normal[k] = normal[k] + sign * length
        size = sum((x * x for x in normal), 0.0)

        def reflected(x: Scalars, normal: Scalars = normal, size: Scalar = size) -> list[Scalar]:
            along = 2.0 * sum((a * b for a, b in zip(normal, x, strict=True)), 0.0) / size
            return [b - along * a for a, b in zip(normal, x, strict=True)]

        for j in range(k, len(left)):
            left[j] = reflected(left[j])
            R[k][j] = left[j][k]
        # columns of Q = H1 H2 ...: rows of the product of reflections in turn
        rows = [reflected([column[i] for column in Q]) for i in range(d)]
        Q = [[row[j] for row in rows] for j in range(d)]
    return Q, R


def _as_rows(columns: dict[int, list[Scalar]], d: int) -> list[ContactRow]:
    """Return the rows of a matrix given by its columns, without zeros."""
    return [
        {
            place: column[i]
            for place, column in columns.items()
            if not (isinstance(column[i], (int, float)) and column[i] == 0.0)
        }
        for i in range(d)
    ]


def _subtract(row: ContactRow, other: ContactRow) -> None:
    for place, x in other.items():
        row[place] = row[place] - x if place in row else -x
