"""A mechanism in subsystems that exchange their states once a step (Khan 2002, methods I and II).

Subsystems are trees that only loops connect: the dyads and the platform of a planar manipulator
for instance. Each integrates its own positions and velocities, and sends its state. Whatever else
it needs, it computes from the states it receives, redundantly, so that nothing is exchanged between
the evaluations of a step (L318, L523-527).

Penalty (2.9), (2.10)
    A subsystem needs the states of those it shares loops with. It computes the forces of these
    loops, and the accelerations of its own joints.

Embedding (2.24)-(2.27)
    A subsystem sends its positions and its share of the independent velocities z, and needs those
    of all others. It computes the whole mechanism, and integrates its share of z: the sum of all
    shares counts.

Symbols: q, v configuration and velocity, z independent velocities, W their rows (`complement`), k,
d stiffness and damping.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tiburon.algorithms.aba import aba
from tiburon.algorithms.forward import METHODS
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.errors import ModelError
from tiburon.loops.complement import Complement, reduced_acceleration
from tiburon.loops.constraints import constraints, jacobian_pattern, loop_constraints, loop_rows
from tiburon.loops.parts import PartMethod, Round, ordered_sum
from tiburon.loops.stabilization import Penalty
from tiburon.loops.star import part_of
from tiburon.model import Model, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar, Scalars

Around = Callable[[JointVector, JointVector], Setting]
"""Returns the surroundings of a state of the whole robot; those of a body depend on it alone."""


class Subsystem(NamedTuple):
    """A part of a robot that integrates its own positions."""

    name: str

    positions: tuple[int, ...]
    """Its position variables."""

    velocities: tuple[int, ...]
    """Its velocity variables."""


def subsystems(model: Model) -> tuple[Subsystem, ...]:
    """Return the trees of a robot that only loops connect, each named after its first body."""
    plan = model.plan
    root: dict[int, int] = {}
    leader: dict[int, int] = {}
    for body in plan.bodies:
        own = body.index if body.parent == WORLD_BODY else root[body.parent]
        root[body.index] = own
        for i in range(body.v.start, body.v.stop):
            # coupled joints share variables
            first = leader.setdefault(i, own)
            if first != own:
                root = {k: first if tree == own else tree for k, tree in root.items()}
                own = first
    found = []
    for tree in dict.fromkeys(root[body.index] for body in plan.bodies):
        bodies = [body for body in plan.bodies if root[body.index] == tree]
        positions, velocities = (
            sorted({i for body in bodies for i in _range(getattr(body, of))}) for of in ("q", "v")
        )
        found.append(Subsystem(plan.bodies[tree].name, tuple(positions), tuple(velocities)))
    return tuple(found)


def _range(part: slice) -> range:
    return range(part.start, part.stop)


# -- penalty ---------------------------------------------------------------------------------------


class PenaltyState(NamedTuple):
    """What a subsystem sends: its state."""

    q: list[Scalar]
    """Its positions [m or rad]."""

    v: list[Scalar]
    """Its velocities [m/s or rad/s]."""


class Held(NamedTuple):
    """A subsystem under the forces of its loops."""

    vd: list[Scalar]
    """Accelerations of its joints [m/s^2 or rad/s^2]."""

    forces: dict[str, list[Scalar]]
    """Force along each constraint of each of its loops [N or N m]."""


def penalty_method(
    model: Model, parts: Sequence[Subsystem], around: Around, penalty: Penalty, tau: Scalars
) -> PartMethod:
    """Return penalty forces as one exchange of states (Khan 2002, eqs. 2.9 and 2.10).

    A part starts with its `PenaltyState`, and receives those of the parts it shares loops with, in
    the order of `neighbors`; its result is `Held`. The center needs nothing.

    Args:
        model: The robot.
        parts: All parts, with all variables: trees that only loops connect, or several together.
        around: Returns the surroundings of a state.
        penalty: Stiffness and damping of loops.
        tau: Joint force [N or N m], nv scalars.

    Raises:
        ModelError: If a joint of one part carries bodies of another.
    """
    for tree in subsystems(model):
        own = [part.name for part in parts if set(part.velocities) & set(tree.velocities)]
        if len(own) > 1:
            raise ModelError(
                f"part {own[1]!r}: expected parts that only loops connect for a penalty method, "
                f"got joints of the tree of {tree.name!r}, some of which belong to {own[0]!r}; "
                "close a loop between them, or join both parts",
                name=own[1],
            )
    near = neighbors(model, parts)

    def send(_: Subsystem, own: PenaltyState, __: Any) -> tuple[PenaltyState, PenaltyState]:
        return own, own

    def pass_on(_: Any, messages: Sequence[PenaltyState]) -> tuple[list[Any], Any]:
        return [[messages[k] for k in others] for others in near], ()

    def held(part: Subsystem, own: PenaltyState, answer: Sequence[PenaltyState]) -> Held:
        states = zip(near[list(parts).index(part)], answer, strict=True)
        known = [(part, own), *((parts[k], state) for k, state in states)]
        q, v = JointVector([float(x) for x in model.neutral()]), JointVector([0.0] * model.nv)
        for one, state in known:
            for places, to, values in ((one.positions, q, state.q), (one.velocities, v, state.v)):
                for i, x in zip(places, values, strict=True):
                    to[i] = x
        here = around(q, v)
        forces: dict[str, list[Scalar]] = {}
        force = {i: tau[i] for i in part.velocities}
        with taping(None):
            for loop in _loops_of(model, part.velocities):
                terms = loop_constraints(model, here.plan, [loop], q, v)
                forces[loop] = penalty.forces(terms)
                for row, push in zip(terms.jacobian, forces[loop], strict=True):
                    for i in row.keys() & force.keys():
                        force[i] = force[i] + row[i] * push
            vd = _tree_accelerations(here, part, own, list(force.values()))
        return Held(vd, forces)

    return PartMethod("penalty", tuple(parts), (Round("states", send, pass_on),), held)


def _loops_of(model: Model, variables: Iterable[int]) -> list[str]:
    """Return the loops that variables move."""
    used, own = jacobian_pattern(model), set(variables)
    return [
        loop.name
        for loop in model.loops
        if any(used[row] & own for row in loop_rows(model, loop.name))
    ]


def neighbors(model: Model, parts: Sequence[Subsystem]) -> list[list[int]]:
    """Return, for each part, the places of all parts that it shares loops with."""
    loops = [set(_loops_of(model, part.velocities)) for part in parts]
    return [
        [k for k in range(len(parts)) if k != n and loops[k] & loops[n]] for n in range(len(parts))
    ]


def _tree_accelerations(
    here: Setting, part: Subsystem, own: PenaltyState, force: Scalars
) -> list[Scalar]:
    """Return the accelerations of a part as a tree under joint forces."""
    plan: Plan = here.plan
    inside = set(part.velocities)
    bodies = [body.index for body in plan.bodies if inside & set(_range(body.v))]
    alone = part_of(plan, bodies, frozenset(bodies), part.positions, part.velocities)
    external = None if here.external is None else [here.external[k] for k in bodies]
    solve = METHODS["crba"] if alone.has_couplings else aba
    q, v, tau = (JointVector(x) for x in (own.q, own.v, force))
    return list(solve(alone, q, v, tau, here.gravity, external))


# -- embedding -------------------------------------------------------------------------------------


class EmbeddedState(NamedTuple):
    """What a part sends: its positions, and its share of the independent velocities."""

    q: list[Scalar]
    """Its positions [m or rad]."""

    z: list[Scalar]
    """Its share of the independent velocities; the sum of all counts (2.26)."""


class PartRates(NamedTuple):
    """What a part integrates."""

    v: list[Scalar]
    """Velocities of its joints [m/s or rad/s]."""

    zd: list[Scalar]
    """Rate of its share of the independent velocities."""


def embedding_method(
    parts: Sequence[Subsystem],
    around: Around,
    W: Sequence[Scalars],
    tau: Scalars,
    sigma: float,
) -> PartMethod:
    """Return embedding as one exchange of states (Khan 2002, eqs. 2.24-2.27).

    Parts send their states once; each then evaluates the whole system by itself, redundantly, so
    that nothing is exchanged between evaluations of a step (L318, L523-527). A part starts with its
    `EmbeddedState`, the center needs nothing.

    Args:
        parts: All parts, with all variables.
        around: Returns the surroundings of a state.
        W: Orthonormal rows, one per degree of freedom.
        tau: Joint force [N or N m], nv scalars.
        sigma: Decay rate of residuals [1/s].
    """

    def send(_: Subsystem, own: EmbeddedState, __: Any) -> tuple[EmbeddedState, Any]:
        return own, ()

    def gather(_: Any, messages: Sequence[EmbeddedState]) -> tuple[list[Any], Any]:
        q: list[Scalar] = [0.0] * sum(len(part.positions) for part in parts)
        for part, message in zip(parts, messages, strict=True):
            for i, x in zip(part.positions, message.q, strict=True):
                q[i] = x
        z = ordered_sum([message.z for message in messages], [0.0] * len(W))
        return [(q, z)] * len(messages), z

    def rates(part: Subsystem, _: Any, answer: Any) -> PartRates:
        position, z = answer
        position = JointVector(position)
        still = JointVector([0.0] * sum(len(one.velocities) for one in parts))
        model, plan = around(position, still).model, around(position, still).plan
        terms = constraints(model, plan, position)
        basis = Complement(model, terms, W)
        selected: list[Scalar] = [0.0] * plan.nv
        for rate, w in zip(z, W, strict=True):
            selected = [x + rate * y for x, y in zip(selected, w, strict=True)]
        v = JointVector(basis.velocity(terms, selected, sigma))
        moving = constraints(model, plan, position, v)
        found = reduced_acceleration(
            around(position, v),
            position,
            v,
            tau,
            basis.T(),
            basis.gamma(moving, sigma),
            [one.velocities for one in parts],
        )
        own = [v[i] for i in part.velocities]
        return PartRates(own, found.shares[list(parts).index(part)])

    return PartMethod("embedding", tuple(parts), (Round("states", send, gather),), rates)
