"""Hybrid dynamics: known forces at some joints, known accelerations at the others.

By articulated bodies, also for coupled joints, or by the mass matrix.

Symbols (Featherstone 1987, section 7.5.2):
    X       motion transform from the parent's frame to the body's
    S       motion subspace of a joint, its columns in body coordinates
    IA, pA  articulated-body inertia and bias force of a subtree
    c       velocity product of a joint, plus its known accelerations
    known   per velocity variable: whether its acceleration is given instead of its force
    H, C'   mass matrix, and joint forces at zero unknown acceleration
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.aba import accelerate_direction
from tiburon.algorithms.coupled_joints import Closing, Handle, Rates, Released, closings, rates_of
from tiburon.algorithms.crba import crba
from tiburon.algorithms.joint_space import expanded_parents, remaining_parents
from tiburon.algorithms.rnea import base_acceleration, rnea
from tiburon.algorithms.tape_calls import JointVector, recorder
from tiburon.algorithms.traversal import by_velocity, inward, outward
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Motion, Scalar, Scalars, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, cross
from tiburon.trace.primitives.spd import INLINE_SIZE
from tiburon.trace.primitives.tree import FactorTree, SolveTree
from tiburon.trace.regions import function

Solution = tuple[tuple[Scalar, ...], tuple[Scalar, ...]]
"""Joint accelerations and joint forces, nv scalars each."""


class _Given(NamedTuple):
    """Given data of a body."""

    known: tuple[bool, ...]
    """Whether the acceleration is known, one per degree of freedom of its joint."""

    closing: Closing
    """Shared variables that are eliminated at the body."""

    fx: Force | None
    """External force on it."""


class _Moving(NamedTuple):
    """Results of the first pass for a body."""

    X: Transform
    vel: Motion
    c: Motion
    alone: Handle


class _Released(NamedTuple):
    """Results of the second pass for a body."""

    whole: Handle
    """The subtree before elimination at the body."""

    joint: Released
    """The body after elimination of its joint, and the eliminated directions."""

    at_parent: Handle
    """The handle in the parent's frame."""


class _Solved(NamedTuple):
    """Results of the last pass for a body."""

    qdd: tuple[Scalar, ...]
    tau: tuple[Scalar, ...]
    a: Motion
    rates: Rates


def hybrid_aba(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    vd: Scalars,
    known: Sequence[bool],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> Solution:
    """Compute unknown accelerations and forces by articulated bodies.

    Featherstone 1987, eqs. 7.36-7.38 for known accelerations, which transmit inertia like a rigid
    connection, and eqs. 6.56-6.65 for the others. O(number of bodies).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars; used where the acceleration is unknown.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars; used where it is known.
        known: Whether the acceleration is known, one per velocity variable.
        gravity: Gravitational acceleration, world axes [m/s^2].
        external: External wrench on each body, in its plan frame [N m, N]; none by default.

    Returns:
        Joint accelerations and joint forces, nv scalars each.
    """

    def directions(body: PlanBody, given: _Given) -> list[tuple[Motion, bool, Scalar, Scalar]]:
        S = body.joint.subspace(q[body.q])
        return list(zip(S, given.known, tau[body.v], vd[body.v], strict=True))

    def motion(body: PlanBody, parent: _Moving, given: _Given) -> _Moving:
        position, rate = q[body.q], v[body.v]
        X = body.transform(position)
        vJ = body.joint.velocity(position, rate)
        vel = X.motion(parent.vel) + vJ
        c = vel.cross(vJ) + body.joint.bias(position, rate)
        for S, known_rate, _, qdd in directions(body, given):
            c = c + S * qdd if known_rate else c
        p = body.inertia.bias(vel)
        if body.added is not None:
            # added mass acts on classical accelerations, the recursion uses spatial ones
            turning = cross(vel.angular, vel.linear)
            p = body.added.apply(Motion(ZERO3, turning), start=p)
        pA = p if given.fx is None else p - given.fx
        return _Moving(X, vel, c, Handle(body.effective_inertia.articulated(), pA))

    def release(
        body: PlanBody, whole: Handle, moving: _Moving, given: _Given
    ) -> tuple[_Released, Handle]:
        S, unknown = body.joint.subspace(q[body.q]), [not x for x in given.known]
        released = whole.released(S, tau[body.v], unknown, given.closing, body.armature)
        at_parent = released.left.to_parent(moving.X, moving.c)
        return _Released(whole, released, at_parent), at_parent

    def solve(
        body: PlanBody, parent: _Solved, moving: _Moving, released: _Released, given: _Given
    ) -> _Solved:
        a = moving.X.motion(parent.a) + moving.c
        closing, whole, joint = given.closing, released.whole, released.joint
        rates = rates_of(closing.own, joint.own, a, parent.rates)
        freed = list(joint.freed)
        qdd: list[Scalar] = []
        own_inertia = body.armature or (None,) * len(given.known)
        for (S, known_rate, _, rate), own in zip(directions(body, given), own_inertia, strict=True):
            if closing.shared:
                rate = dict(rates)[closing.shared[0]]
                a = a + S * rate
            elif not known_rate:
                rate, a = accelerate_direction(freed.pop().met(rates), a, S, own)
            qdd.append(rate)
        rates = rates_of(closing.beyond, joint.beyond, a, rates)
        f = whole.IA.apply(a) + whole.pA
        for variable, F in zip(whole.open, whole.F, strict=True):
            f = f + F * dict(rates)[variable]
        forces: list[Scalar] = []
        for (S, known_rate, _, rate), own in zip(directions(body, given), own_inertia, strict=True):
            needed_force = S.dot(f) if own is None else S.dot(f) + own * rate
            forces.append(needed_force if known_rate else 0.0)
        return _Solved(tuple(qdd), tuple(forces), a, rates)

    closing, at_world = closings(plan, tau, [not x for x in known])
    given = [
        _Given(
            tuple(known[body.v]),
            closing[body.index],
            None if external is None else external[body.index],
        )
        for body in plan.bodies
    ]
    # outward: velocities, and inertia and bias force of each body
    at_rest = _Moving(Transform.identity(), Motion.zero(), Motion.zero(), Handle.zero())
    moving = outward(plan, motion, at_rest, given)
    # inward: eliminate unknown accelerations, shared ones at their last common ancestor
    released = inward(plan, release, [visit.alone for visit in moving], moving, given)
    # variables shared between trees are eliminated at the world
    total, up = Handle.zero(), base_acceleration(gravity)
    for body, kept in zip(plan.bodies, released, strict=True):
        total = total + kept.at_parent if body.parent == WORLD_BODY else total
    rates = rates_of(at_world.beyond, total.closed(at_world.beyond)[1], up, ())
    # outward: accelerations, with gravity as acceleration of the base
    solved = outward(plan, solve, _Solved((), (), up, rates), moving, released, given)
    accelerations, forces = list(vd), list(tau)
    needed = by_velocity(plan, [visit.tau for visit in solved])
    for body, visit in zip(plan.bodies, solved, strict=True):
        accelerations[body.v] = visit.qdd
    for row, given_rate in enumerate(known):
        forces[row] = needed[row] if given_rate else tau[row]
    return tuple(accelerations), tuple(forces)


def coupled_aba(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Scalar, ...]:
    """Compute forward dynamics as `aba` does, for trees with coupled joints."""
    nowhere, unknown = JointVector([0.0] * plan.nv), (False,) * plan.nv
    return hybrid_aba(plan, q, v, tau, nowhere, unknown, gravity, external)[0]


def hybrid_crba(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    vd: Scalars,
    known: Sequence[bool],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> Solution:
    """Compute unknown accelerations and forces by the mass matrix.

    Featherstone 1987, eqs. 7.32-7.34: H_11 vd_1 = tau_1 - C'_1 and tau_2 = H_21 vd_1 + C'_2, where
    C' is the inverse dynamics with unknown accelerations set to zero. Unused columns of H are not
    computed in compiled kernels. Arguments and results are those of `hybrid_aba`.
    """
    unknown = [row for row, given in enumerate(known) if not given]
    rest = [row for row, given in enumerate(known) if given]
    parents = remaining_parents(expanded_parents(plan), unknown)
    factor, inline = FactorTree(parents), len(unknown) <= INLINE_SIZE
    stored = [(unknown[i], unknown[j]) for i, j in factor.layout.elements()]

    def terms(*state: Scalars) -> tuple[list[Scalar], list[list[Scalar]], list[Scalar]]:
        position, rate, partial = map(JointVector, state)
        H = crba(plan, position)
        C = rnea(plan, position, rate, partial, gravity, external)
        rows = [[H[row][column] for column in unknown] for row in rest]
        return [H[i][j] for i, j in stored], rows, list(C)

    if recorder() is not None:
        # on the tape, a separate function before the solver
        terms = function(terms)
    partial = [x if given else 0.0 for x, given in zip(vd, known, strict=True)]
    H11, H21, C = terms(list(q), list(v), partial)
    accelerations, forces = list(vd), list(tau)
    right = [tau[row] - C[row] for row in unknown]
    factored = factor.apply(H11, inline=inline)
    found = SolveTree(parents).apply([*factored, *right], inline=inline)
    for row, x in zip(unknown, found, strict=True):
        accelerations[row] = x
    for row, entries in zip(rest, H21, strict=True):
        total = C[row]
        for entry, x in zip(entries, found, strict=True):
            total = total + entry * x
        forces[row] = total
    return tuple(accelerations), tuple(forces)
