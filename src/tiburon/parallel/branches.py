"""Trees in branches: legs on a trunk, each leg a part, by the articulated-body recursion itself.

Two stages are serial (McMillan 1994, D14 of its digest): the angular velocity of the trunk, which
all processes compute, and its acceleration. In between

    each leg    velocities, then its articulated inertia and bias force as the trunk carries them,
                27 numbers (inward pass of `tiburon.algorithms.aba`);
    the trunk   everything that is no leg, with the sum of these: its acceleration;
    each leg    its joint accelerations (outward pass).

Nothing is computed that the undivided recursion does not compute. Cuts anywhere (`cut`) need the
inverse inertia of handles instead, since both of their sides are unknown.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tiburon.algorithms.aba import Accelerating, Articulated, Carry, Moving, moving_from, passes
from tiburon.algorithms.rnea import base_acceleration
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.algorithms.traversal import inward, outward
from tiburon.functions.kernel_source import INLINED_BODIES
from tiburon.loops.like_parts import Apart, plan_apart
from tiburon.loops.parts import Exchanged, Kept, PartMethod, Round, part_function, run
from tiburon.loops.star import part_of
from tiburon.model import Model, Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3

BRANCH_NUMBERS = 27
"""Numbers that a branch sends: a symmetric 6x6 matrix and a force."""


class Share(NamedTuple):
    """Some bodies of a robot, and their variables."""

    name: str
    bodies: tuple[int, ...]
    q: tuple[int, ...]
    v: tuple[int, ...]

    def plan_of(self, plan: Plan) -> Plan:
        """Return the part of the robot's plan."""
        return part_of(plan, self.bodies, frozenset(self.bodies), self.q, self.v)

    def forces_of(self, external: Sequence[Force] | None) -> tuple[Force, ...] | None:
        """Return the external forces on its bodies."""
        return None if external is None else tuple(external[k] for k in self.bodies)


class BranchLayout(NamedTuple):
    """A tree as a trunk and branches."""

    branches: tuple[Share, ...]
    center: Share
    """All other bodies."""

    trunk: int
    """The body that carries all branches, by its place in the center."""


def branch_layout(model: Model, roots: Sequence[int]) -> BranchLayout | None:
    """Return a tree in branches with given first bodies; None if they cannot be computed so."""
    plan = model.plan
    carriers = {plan.bodies[k].parent for k in roots}
    if len(carriers) != 1 or WORLD_BODY in carriers or plan.has_couplings or model.loops:
        return None
    owner: dict[int, int] = {}
    for body in plan.bodies:
        if body.index in roots:
            owner[body.index] = roots.index(body.index)
        elif body.parent in owner:
            owner[body.index] = owner[body.parent]
    groups = [[k for k, n in owner.items() if n == number] for number in range(len(roots))]
    rest = [body.index for body in plan.bodies if body.index not in owner]
    if max(map(len, (*groups, rest))) > INLINED_BODIES:
        # on tapes, which cuts have
        return None
    (carrier,) = carriers
    return BranchLayout(
        tuple(_share(plan, group) for group in groups), _share(plan, rest), rest.index(carrier)
    )


def _share(plan: Plan, bodies: Sequence[int]) -> Share:
    def variables(of: str) -> tuple[int, ...]:
        slices = (getattr(plan.bodies[k], of) for k in bodies)
        return tuple(i for one in slices for i in range(one.start, one.stop))

    return Share(plan.bodies[bodies[0]].name, tuple(bodies), variables("q"), variables("v"))


class Branch(NamedTuple):
    """What is fixed about a branch while a kernel is traced."""

    plan: Plan
    external: tuple[Force, ...] | None

    def apart(self) -> Apart:
        """Take the branch apart, so that like branches share code."""
        whole = plan_apart(self.plan)
        external = () if self.external is None else self.external

        def make(numbers: Any) -> Branch:
            forces = None if self.external is None else tuple(numbers[-1])
            return Branch(whole.make(numbers[:-1])[0], forces)

        return Apart((self.external is None, whole.form), (*whole.numbers, external), make)


class BranchState(NamedTuple):
    """State of a branch."""

    q: list[Scalar]
    v: list[Scalar]
    tau: list[Scalar]
    turning: Vec3
    """Angular velocity of the trunk, in its axes [rad/s]."""


class Opened(NamedTuple):
    """What a branch keeps until it knows the acceleration of the trunk."""

    q: list[Scalar]
    passed: Kept
    """What the first two passes found."""


def open_branch(branch: Branch, state: BranchState, _: None) -> tuple[list[Scalar], Opened]:
    """Return the articulated inertia and bias force that the trunk carries."""
    plan, vectors = branch.plan, (JointVector(x) for x in state[:3])
    motion, release, _accelerate = passes(*vectors)
    external = branch.external or (None,) * len(plan.bodies)
    moving = outward(plan, motion, moving_from(state.turning), external)
    sent: list[Articulated] = []

    def release_and_send(
        body: PlanBody, total: Articulated, own: Moving
    ) -> tuple[Carry, Callable[[], Articulated]]:
        carry, to_parent = release(body, total, own)
        if body.parent == WORLD_BODY:
            sent.append(to_parent())
        return carry, to_parent

    carries = inward(plan, release_and_send, [own.alone for own in moving], moving)
    (found,) = sent
    IA = found.IA
    message = [*IA.A, *(x for row in IA.B for x in row), *IA.M, *found.pA]
    return message, Opened(state.q, Kept.of((moving, carries)))


def _received(message: Scalars) -> Articulated:
    """Return what a branch sent."""
    x = list(message)
    B: Any = tuple(tuple(x[6 + 3 * i : 9 + 3 * i]) for i in range(3))
    A: Any = tuple(x[:6])
    M: Any = tuple(x[15:21])
    return Articulated(ArticulatedInertia(A, B, M), Force.from_array(x[21:]))


def moved_branch(branch: Branch, state: Opened, answer: Scalars) -> list[Scalar]:
    """Return the joint accelerations of a branch under an acceleration of the trunk."""
    q = JointVector(state.q)
    accelerate = passes(q, q, q).accelerate
    trunk = Accelerating((), Motion.from_array(list(answer)))
    moving, carries = state.passed.value
    found = outward(branch.plan, accelerate, trunk, moving, carries)
    return [x for visit in found for x in visit.qdd]


def branch_motion(
    layout: BranchLayout,
    here: Setting,
    state: tuple[Scalars, Scalars, Scalars],
    exchange: Exchanged | None = None,
) -> list[Scalar]:
    """Compute joint accelerations of a tree in branches.

    Args:
        layout: Its branches.
        here: Surroundings in this state.
        state: Configuration, velocity and joint force.
        exchange: How messages of other processes arrive; none by default.
    """
    center, trunk = layout.center, layout.trunk
    plan, forces = center.plan_of(here.plan), center.forces_of(here.external)
    external = forces or (None,) * len(plan.bodies)

    def moving_of(state: Sequence[Scalars]) -> tuple[Any, tuple[Moving, ...]]:
        steps = passes(*(JointVector(list(x)) for x in state))
        return steps, outward(plan, steps.motion, moving_from(ZERO3), external)

    def turning(*state: Scalars) -> Vec3:
        return moving_of(state)[1][trunk].w

    def solve(
        known: Sequence[Scalars], messages: Sequence[Scalars]
    ) -> tuple[list[list[Scalar]], list[Scalar]]:
        (_, release, accelerate), moving = moving_of(known)
        starts = [own.alone for own in moving]
        for message in messages:
            starts[trunk] = starts[trunk] + _received(message)
        carries = inward(plan, release, starts, moving)
        root = Accelerating((), base_acceleration(here.gravity))
        found = outward(plan, accelerate, root, moving, carries)
        vd = [x for visit in found for x in visit.qdd]
        return [list(found[trunk].a) for _ in messages], vd

    def taken(share: Share) -> list[list[Scalar]]:
        q, v, tau = state
        return [[q[i] for i in share.q], [v[i] for i in share.v], [tau[i] for i in share.v]]

    parts = tuple(
        Branch(share.plan_of(here.plan), share.forces_of(here.external))
        for share in layout.branches
    )
    method = PartMethod("branch", parts, (Round("carried", open_branch, solve),), moved_branch)
    with taping(None):
        own = taken(center)
        w = part_function(turning, name="trunk_turning")(*own)
        taken_by = [taken(share) for share in layout.branches]
        states = [BranchState(q, v, tau, w) for q, v, tau in taken_by]
        found = run(method, own, states, exchange=exchange)
    vd: list[Scalar] = [0.0] * here.plan.nv
    for share, result in zip(
        (center, *layout.branches), (found.center, *found.results), strict=True
    ):
        for i, x in zip(share.v, result, strict=True):
            vd[i] = x
    return vd
