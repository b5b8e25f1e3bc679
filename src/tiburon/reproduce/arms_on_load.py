"""Arms that hold a load: operation counts of McMillan 1994, chapters 2 and 4, with our kernels.

m chains of N revolute joints in modified Denavit-Hartenberg frames hold a load rigidly; a constant
set of the same parameters leads from each tip to the load frame, which lies at the mass center
along principal axes (sections 2.3 and 2.4). As in `chains`, lengths and inertias are general
constants.

The steps are those of Table 1, with three differences that save operations. Tip Jacobians are
computed in axes of the load, so that no inertia need be moved there (84M + 86A an arm). Only
forward substitutions with the factor of H are needed: J H^-1 J^T = Y^T D^-1 Y. And the inverse of a
symmetric matrix is formed from its factor. As in the source, a' = a - g is carried instead of a;
the load's acceleration gets g back with a plus.

Symbols: H, J, Y = L^-1 J^T, L, D factors of H; Lambda inertia of an arm at the load's origin; x
acceleration that the load's point of the arm would have alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from tiburon.algorithms.crba import crba
from tiburon.algorithms.rnea import base_acceleration, rnea
from tiburon.algorithms.setting import Setting
from tiburon.loops.dual_arm import (
    SymmetricFactor,
    add_vectors,
    dot,
    method_one,
    method_two,
    subtract_vectors,
    symmetric,
    times,
)
from tiburon.loops.metric import MIN_CUT
from tiburon.loops.parts import run
from tiburon.loops.star import layout
from tiburon.loops.star_dynamics import assembled, star_center, star_method, star_parts, star_states
from tiburon.model import Model, Plan
from tiburon.reproduce.chains import CONSTANTS, chain_model, cost_of, mdh
from tiburon.reproduce.published import Cost
from tiburon.spatial import AxisRotation, Scalar, Scalars, Transform, Vec3, rate_matrix
from tiburon.spatial.vec3 import ZERO3, add, add_cross, add_matrix_vector, cross
from tiburon.trace.array import as_traced
from tiburon.trace.count import count
from tiburon.trace.program import trace

Matrix = list[list[Scalar]]

LOAD_CONSTANTS = (*CONSTANTS, "grasp")
"""Inputs of the counted programs that are constant."""


# -- one arm ---------------------------------------------------------------------------------------


class ArmMessage(NamedTuple):
    """Message of an arm to the load: 27 values."""

    inertia: Matrix
    """Lambda at the load's origin, in its axes."""

    force: list[Scalar]
    """Lambda x."""


class ArmKept(NamedTuple):
    """What an arm keeps for its own accelerations."""

    factor: SymmetricFactor
    y: list[Scalar]
    """L^-1 (tau - C)."""

    Y: Matrix
    """Columns L^-1 J^T."""

    message: ArmMessage


def jacobian_columns(plan: Plan, q: Scalars, tip: Transform) -> list[list[Scalar]]:
    """Return the columns of the Jacobian at the frame that `tip` leads to, in its axes."""
    rows: list[Vec3] = [tip.direction_to_parent(axis) for axis in _AXES]
    # the load's origin in the frame of a link
    r = tip.point_to_parent(ZERO3)
    columns: list[list[Scalar]] = []
    for body in reversed(plan.bodies):
        angular = [row[2] for row in rows]
        # of the unit rotation about z: z x r in axes of the load
        linear = [row[1] * r[0] - row[0] * r[1] for row in rows]
        columns.append([*angular, *linear])
        if body is not plan.bodies[0]:
            X = body.transform(q[body.q])
            rows = [X.direction_to_parent(row) for row in rows]
            r = X.point_to_parent(r)
    return columns[::-1]


_AXES: tuple[Vec3, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def tip_acceleration(
    plan: Plan, q: Scalars, v: Scalars, gravity: Vec3, tip: Transform
) -> list[Scalar]:
    """Return a' of the load's point of the last link at zero joint acceleration, axes of the load.

    A by-product of the bias force: the same recursion as in `rnea` (2.24).
    """
    w, wd, a = ZERO3, ZERO3, base_acceleration(gravity).linear
    Omega = rate_matrix(w, wd)
    for body in plan.bodies:
        X, position, rate = body.transform(q[body.q]), q[body.q], v[body.v]
        vJ = body.joint.velocity(position, rate)
        aJ = body.joint.motion(position, [0.0] * len(rate)) + body.joint.bias(position, rate)
        carried = X.direction(w)
        w = add(carried, vJ.angular)
        wd = add(add_cross(X.direction(wd), w, vJ.angular), aJ.angular)
        a = X.direction(add_matrix_vector(a, Omega, X.translation))
        a = add(add_cross(a, add(w, carried), vJ.linear), aJ.linear)
        Omega = rate_matrix(w, wd)
    r = tip.point_to_parent(ZERO3)
    return [*tip.direction(wd), *tip.direction(add_matrix_vector(a, Omega, r))]


def arm_message(
    plan: Plan, q: Scalars, v: Scalars, tau: Scalars, gravity: Vec3, tip: Transform
) -> tuple[ArmMessage, ArmKept]:
    """Compute an arm alone (open-chain dynamics of Table 1).

    Args:
        plan: The arm, a serial chain.
        q: Its configuration.
        v: Its joint velocity.
        tau: Its joint forces.
        gravity: In axes of its base [m/s^2].
        tip: From the frame of its last link to the load's.
    """
    alone = open_arm(plan, q, v, tau, gravity, tip)
    inertia = SymmetricFactor.of(alone.inverse).inverted()
    message = ArmMessage(inertia, times(inertia, alone.x))
    return message, ArmKept(alone.factor, alone.y, alone.Y, message)


class OpenArm(NamedTuple):
    """An arm alone."""

    factor: SymmetricFactor
    y: list[Scalar]
    Y: Matrix
    inverse: Matrix
    """Lambda^-1 at the load's origin, singular where the arm is."""

    x: list[Scalar]
    """Acceleration a' of the load's point of the arm without tip force."""


def open_arm(
    plan: Plan, q: Scalars, v: Scalars, tau: Scalars, gravity: Vec3, tip: Transform
) -> OpenArm:
    """Return what an arm does without the load; arguments as for `arm_message`."""
    n = len(plan.bodies)
    factor = SymmetricFactor.of(crba(plan, q))
    C = rnea(plan, q, v, [0.0] * n, gravity)
    columns = jacobian_columns(plan, q, tip)
    Y = [factor.forward([column[k] for column in columns]) for k in range(6)]
    y = factor.forward(subtract_vectors(tau, C))
    scaled = [factor.scale(row) for row in Y]
    inverse = symmetric(lambda i, j: dot(scaled[i], Y[j]))
    x = add_vectors(times(scaled, y), tip_acceleration(plan, q, v, gravity, tip))
    return OpenArm(factor, y, Y, inverse, x)


class LoadMotion(NamedTuple):
    """The load: moments of inertia, mass, angular velocity, gravity, in its own axes."""

    moments: Scalars
    mass: Scalar
    w: Scalars
    gravity: Scalars


def load_acceleration(load: LoadMotion, messages: Sequence[ArmMessage]) -> list[Scalar]:
    """Return a' of the load (2.21)."""
    inertia = messages[0].inertia
    force = messages[0].force
    for message in messages[1:]:
        inertia = symmetric(
            lambda i, j, A=inertia, B=message.inertia: A[i][j] + B[i][j]  # type: ignore[misc]
        )
        force = add_vectors(force, message.force)
    own = [*load.moments, *[load.mass] * 3]
    total = symmetric(lambda i, j: inertia[i][j] + own[i] if i == j else inertia[i][j])
    momentum = [a * b for a, b in zip(load.moments, load.w, strict=True)]
    turning = cross(tuple(load.w), tuple(momentum))
    return SymmetricFactor.of(total).solve([*subtract_vectors(force[:3], turning), *force[3:]])


def arm_accelerations(kept: ArmKept, a: Scalars) -> tuple[list[Scalar], list[Scalar]]:
    """Return joint accelerations and the force on the load of an arm (2.16), (2.2)."""
    f = subtract_vectors(kept.message.force, times(kept.message.inertia, a))
    left = [y - dot([row[i] for row in kept.Y], f) for i, y in enumerate(kept.y)]
    return kept.factor.backward(kept.factor.scale(left)), f


# -- counts ----------------------------------------------------------------------------------------


def _general(plan: Plan, lengths: Sequence[Scalars]) -> Plan:
    """Return a chain with variable lengths; the first joint is in the base frame."""
    bodies = list(plan.bodies)
    for place, (a, c, s, d) in enumerate(lengths, start=1):
        bodies[place] = replace(bodies[place], placement=mdh(a, c, s, d))
    return replace(plan, bodies=tuple(bodies))


def _grasp(x: Scalars) -> Transform:
    """Return the constant transform from tip to load (2.26)."""
    a, c, s, d, c_2, s_2 = x
    return mdh(a, c, s, d).then(Transform((AxisRotation(2, c_2, s_2),)))


def _counted(run: Callable[..., Any], n: int, **more: tuple[int, ...]) -> Cost:
    """Count a function of (plan, q, v, u, gravity, tip, *more) on a chain of n links."""
    model = chain_model(n)

    def function(
        q: Any, v: Any, u: Any, inertia: Any, lengths: Any, gravity: Any, grasp: Any, *rest: Any
    ) -> Any:
        plan = _general(model.plan.with_parameters(inertia.tolist()), lengths.tolist())
        x, y, z = gravity.tolist()
        tip = _grasp(grasp.tolist())
        return run(plan, q.tolist(), v.tolist(), u.tolist(), (x, y, z), tip, *rest)

    inputs = {
        "q": (n,),
        "v": (n,),
        "u": (n,),
        "inertia": (len(model.plan.parameter_names),),
        "lengths": (n - 1, 4),
        "gravity": (3,),
        "grasp": (6,),
        **more,
    }
    return cost_of(count(trace(function, inputs), LOAD_CONSTANTS))


@cache
def mass_matrix_and_jacobian(n: int) -> Cost:
    """Count H and J of one arm, J at its tip (Lilly and Orin's method III)."""

    def run(plan: Plan, q: Any, v: Any, u: Any, gravity: Vec3, tip: Transform) -> Any:
        columns = jacobian_columns(plan, q, Transform.identity())
        return [*(x for row in crba(plan, q) for x in row), *(x for c in columns for x in c)]

    return _counted(run, n)


@cache
def one_arm(n: int) -> Cost:
    """Count all that one arm computes, before and after the load."""

    def run(
        plan: Plan, q: Any, v: Any, u: Any, gravity: Vec3, tip: Transform, a: Any
    ) -> list[Scalar]:
        message, kept = arm_message(plan, q, v, u, gravity, tip)
        vd, f = arm_accelerations(kept, a.tolist())
        lower = [message.inertia[i][j] for i in range(6) for j in range(i + 1)]
        return [*lower, *message.force, *vd, *f]

    return _counted(run, n, a=(6,))


@cache
def load_alone(arms: int) -> Cost:
    """Count what the load computes from the messages of its arms."""

    def function(messages: Any, w: Any, angles: Any, inertia: Any, gravity: Any) -> Any:
        values = messages.tolist()
        read = []
        for row in values:
            entries = iter(row)
            A = symmetric(lambda i, j, e=entries: next(e))  # type: ignore[misc]
            read.append(ArmMessage(A, list(entries)))
        s_ph, c_ph, s_th, c_th = angles.tolist()
        g = gravity[0]
        # Euler angles: three planar rotations of a vector along z, as in section 2.4
        falling = (-(g * s_th), (g * c_th) * s_ph, (g * c_th) * c_ph)
        load = LoadMotion(inertia.tolist()[:3], inertia[3], w.tolist(), falling)
        a = load_acceleration(load, read)
        return as_traced([*a[:3], *add_vectors(a[3:], falling), *a[3:]])

    inputs = {"messages": (arms, 27), "w": (3,), "angles": (4,), "inertia": (4,), "gravity": (1,)}
    return cost_of(count(trace(function, inputs), ("inertia", "gravity")))


def closed_chain(arms: int, n: int) -> Cost:
    """Count accelerations of m arms and their load (McMillan 1994, Table 2)."""
    arm, load = one_arm(n), load_alone(arms)
    return Cost(
        arms * arm.multiplications + load.multiplications, arms * arm.additions + load.additions
    )


def star_cost(model: Model) -> Cost:
    """Count accelerations and forces of a star as `loop_dynamics` computes them.

    The branch without singular arms; comparisons are not counted. Lengths and places are those of
    the model, so that its zeros count for nothing.
    """

    def function(q: Any, v: Any, tau: Any, inertia: Any, gravity: Any) -> Any:
        x, y, z = gravity.tolist()
        plan = model.plan.with_parameters(inertia.tolist())
        around = Setting(model, (), (), plan, (x, y, z))
        state = q.tolist(), v.tolist(), tau.tolist()
        shape = layout(model)
        arms = star_parts(around, shape, MIN_CUT, None)
        center = star_center(around, shape, *state)
        found = run(star_method(shape, arms), center, star_states(shape, *state), inline=True)
        vd, forces = assembled(model, shape, found.center.vd, found.results)
        return as_traced([*vd, *forces])

    inputs = {
        "q": (model.nq,),
        "v": (model.nv,),
        "tau": (model.nv,),
        "inertia": (len(model.plan.parameter_names),),
        "gravity": (3,),
    }
    return cost_of(count(trace(function, inputs), ("inertia", "gravity")))


def _dual(method: Callable[..., Any]) -> Cost:
    def function(inverses: Any, x: Any, load: Any, c: Any) -> Any:
        matrices = []
        for row in inverses.tolist():
            entries = iter(row)
            matrices.append(symmetric(lambda i, j, e=entries: next(e)))  # type: ignore[misc]
        a, forces = method(matrices, x.tolist(), load.tolist(), c.tolist())
        return as_traced([*a, *forces[0], *forces[1]])

    inputs = {"inverses": (2, 21), "x": (2, 6), "load": (6,), "c": (6,)}
    return cost_of(count(trace(function, inputs), ("load",)))


@cache
def dual_arm_first() -> Cost:
    """Count method I of the dual arm (Table 8)."""
    return _dual(method_one)


@cache
def dual_arm_second() -> Cost:
    """Count method II of the dual arm where null spaces are apart (Table 9)."""
    return _dual(partial(method_two, apart=True))
