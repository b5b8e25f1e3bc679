"""A platform on legs: which bodies and joints of a mechanism form which leg.

Bodies that take part in loops form a graph whose edges are joints, those of the tree and those that
close loops; a free joint only provides coordinates, unless a loop is closed by way of it, as by the
hulls of two floating robots. If two bodies, the base and the platform, are left out, paths remain:
the legs (Khan 2002, section 3.1, with three of them in a plane). The base is the world or a body
that moves. Any spanning tree will do: the platform may hang on one leg or have a free joint, and
each leg may be cut at either end or in the middle.

Velocity variables are independent (driven) or dependent (passive). Motors are independent where
they can be; in mechanisms with fewer motors than degrees of freedom further joints are, and of
redundant motors some are dependent. Which are independent may also be left open
(`selectable_legs`): all variables of the legs are then candidates, those of a free joint of the
platform too, which is a leg of its own.

Branches, joints outside the loops, are independent and belong to the leg that carries them, or to
the platform. So are the joints of a moving base.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import body_places, jacobian_columns
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.algorithms.traversal import ancestors
from tiburon.arrays import Array
from tiburon.errors import ModelError
from tiburon.loops.augmented import closed_configurations, closed_from, live_jacobian
from tiburon.loops.complement_basis import grouped_pivots, reduced_rows
from tiburon.loops.constraints import (
    constraints,
    is_velocity_constraint,
    loop_rows,
)
from tiburon.loops.cut_joints import about, joint_screws
from tiburon.model import LoopClosure, Model, Plan
from tiburon.model.model import per_model
from tiburon.model.plan import WORLD_BODY

RANK_TOLERANCE = 1e-8
"""Relative singular value that counts as rounding error."""

MIN_SAMPLES = 3
"""Closed configurations that determine the motions a platform can have; with fewer, random ones."""

SEARCHED_STARTS, SEARCHING_STEPS = 8, 16
"""Random configurations from which loops are closed, and Newton steps from each, where they do not
close around the pose "home"."""


class Leg(NamedTuple):
    """A path of joints from the base to the platform; or bodies that the platform carries."""

    name: str
    """Name of its joint at the base; "platform" for bodies that it carries."""

    joints: tuple[str, ...]
    """Its joints and the loop that cuts it, from the base to the platform."""

    loop: str | None
    """The loop that cuts it; None if the platform hangs on it."""

    near: int
    """Plan body at the end of its part on the side of the base, where it is cut."""

    far: int
    """Plan body at the end of its part on the side of the platform, where it is cut."""

    turned: bool
    """Whether the second body of the loop is on the side of the base."""

    driven: tuple[int, ...]
    """Independent velocity variables, also those of branches that it carries."""

    passive: tuple[int, ...]
    """Dependent velocity variables, from the platform to the base."""

    bodies: tuple[int, ...] = ()
    """Its plan bodies, with those of branches that it carries; never the platform."""

    is_carrier: bool = False
    """Whether it is the free joint of the platform, which stands on the world."""

    @property
    def variables(self) -> tuple[int, ...]:
        """All its velocity variables, driven ones first."""
        return (*self.driven, *self.passive)


class PlatformOnLegs(NamedTuple):
    """The parts of a mechanism with a platform on legs."""

    platform: int
    """Plan body of the platform."""

    legs: tuple[Leg, ...]
    """The legs; branches on the platform or on the base come last, if there are any."""

    carrier: tuple[int, ...]
    """Velocity variables of a free joint that carries the platform; empty if it hangs on a leg."""

    basis: tuple[tuple[float, ...], ...]
    """Orthonormal twists that the platform can have relative to the base, in axes of the base at
    `point`: d rows of 6; all six if the base moves."""

    point: tuple[float, float, float]
    """Fixed point of the base at which twists are taken, in its axes [m]: the platform in its home
    pose."""

    base: int = WORLD_BODY
    """Plan body of the base."""

    moving: tuple[int, ...] = ()
    """Velocity variables of the joints that carry the base; empty if it is the world."""

    @property
    def independent(self) -> tuple[int, ...]:
        """Independent velocity variables, in the order of the legs."""
        return tuple(i for leg in self.legs for i in leg.driven)


class _Edge(NamedTuple):
    name: str
    first: int
    second: int
    is_cut: bool


def platform_on_legs(model: Model, platform: str | None = None) -> PlatformOnLegs:
    """Return the parts of a platform on legs, with motors as independent joints.

    Args:
        model: The robot.
        platform: Name of the platform; found by default.

    Raises:
        ModelError: If the robot is something else; the message names the element.
    """
    return _found(model, platform)


def selectable_legs(model: Model, platform: str | None = None) -> PlatformOnLegs:
    """Return the same with all variables of the legs passive, but for branches and the base.

    Which of them are independent is then decided for each state.
    """
    return _selectable(model, platform)


@per_model
def _found(model: Model, platform: str | None) -> PlatformOnLegs:
    return legs_of(model, platform)


@per_model
def _selectable(model: Model, platform: str | None) -> PlatformOnLegs:
    return legs_of(model, platform, driven=(), with_carrier=True)


def legs_of(
    model: Model,
    platform: str | None = None,
    driven: Iterable[int] | None = None,
    *,
    with_carrier: bool = False,
) -> PlatformOnLegs:
    """Find platform and legs.

    Args:
        model: The robot.
        platform: Name of the platform; found by default.
        driven: Velocity variables that are driven, however many, all others being passive; by
            default as many as there are degrees of freedom, motors first.
        with_carrier: Whether a free joint of the platform is a leg; by default only where some of
            its variables are independent, as of a bar that spins between two balls.
    """
    _refuse(model)
    with taping(None):
        plan = model.plan
        graph = _graph(model, plan, platform)
        carrier = graph.carrier(plan)
        if driven is None:
            driven = _independent(model, carrier, graph.moving(plan))
            with_carrier = bool(set(carrier) & set(driven))
        return _assembled(model, plan, graph, tuple(driven), with_carrier)


def _refuse(model: Model) -> None:
    """Refuse what is not a platform on legs for other reasons than its graph."""
    where = f"model {model.name!r}: expected a platform on legs"
    if not model.loops:
        raise ModelError(f"{where}, got a tree; use forward_dynamics or inverse_dynamics")
    if model.plan.geometry is not None:
        raise ModelError(
            f"{where} whose geometry is constant, got {model.plan.geometry.names[0]!r} as a "
            "run-time parameter; use method='augmented', or build the robot with "
            "tb.with_parameters(model, values)",
            name=model.name,
        )
    for loop in model.loops:
        rows = loop_rows(model, loop.name)
        if any(is_velocity_constraint(model)[k] for k in rows):
            raise ModelError(
                f"loop {loop.name!r}: constrains velocities, which method 'denoc' does not take; "
                "use method='augmented', or simulate with Embedding(...) or projections",
                name=loop.name,
            )
        if not isinstance(loop, LoopClosure):
            raise ModelError(
                f"loop {loop.name!r}: expected a joint at an end of a leg, got a "
                f"{type(loop).__name__}; use method='augmented'",
                name=loop.name,
            )
    for body in model.bodies:
        if body.joint.follows is not None:
            raise ModelError(
                f"joint {body.joint.name!r}: follows {body.joint.follows!r}, which method 'denoc' "
                "does not take; use method='augmented'",
                name=body.joint.name,
            )


class _Graph(NamedTuple):
    """Closed part of a mechanism between base and platform."""

    edges: tuple[_Edge, ...]
    base: int
    top: int

    def carrier(self, plan: Plan) -> tuple[int, ...]:
        """Return the velocity variables of a free joint that carries the platform."""
        body = plan.bodies[self.top]
        return tuple(range(body.v.start, body.v.stop)) if body.joint.kind == "free" else ()

    def moving(self, plan: Plan) -> tuple[int, ...]:
        """Return the velocity variables of the joints between the world and the base."""
        bodies = [plan.bodies[k] for k in sorted(ancestors(plan, self.base))]
        return tuple(i for body in bodies for i in range(body.v.start, body.v.stop))


def _graph(model: Model, plan: Plan, platform: str | None) -> _Graph:
    """Return the edges of the closed part, its base and its platform."""
    edges, loose = _closed_part(model, _edges(model, plan))
    if loose:
        # loops between floating bodies, whose free joints take part
        edges, loose = _closed_part(model, _edges(model, plan, floating=True))
    if loose:
        raise ModelError(
            f"loop {loose[0]!r}: closes no cycle of joints; use method='augmented'",
            name=loose[0],
        )
    base = _base(plan, edges, platform)
    top = _platform(plan, edges, base, platform)
    # a free joint of the platform only provides coordinates
    own = plan.bodies[top].joint
    edges = [edge for edge in edges if own.kind != "free" or edge.name != own.name]
    _refuse_floating_legs(plan, edges, base, top)
    return _Graph(tuple(edges), base, top)


def _edges(model: Model, plan: Plan, *, floating: bool = False) -> list[_Edge]:
    """Return the joints between plan bodies, those that close loops last; free ones if asked."""
    found = [
        _Edge(body.joint.name, body.parent, body.index, False)
        for body in plan.bodies
        if floating or body.joint.kind != "free"
    ]
    for loop in model.loops:
        assert isinstance(loop, LoopClosure)
        first, second = (plan.frame(name).body for name in (loop.first, loop.second))
        found.append(_Edge(loop.name, first, second, True))
    return found


def _closed_part(model: Model, edges: Sequence[_Edge]) -> tuple[list[_Edge], list[str]]:
    """Return the edges that belong to cycles, and loops that close none; refuse several parts."""
    import networkx

    # joints as vertices, so that two joints between the same bodies stay distinct
    graph: networkx.Graph[tuple[str, object]] = networkx.Graph()
    for edge in edges:
        for end in (edge.first, edge.second):
            graph.add_edge(("joint", edge.name), ("body", end))
    parts = [
        {name for kind, name in part if kind == "joint"}
        for part in networkx.biconnected_components(graph)
        if len(part) > 2
    ]
    if len(parts) > 1:
        names = [next(e.name for e in edges if e.is_cut and e.name in part) for part in parts]
        raise ModelError(
            f"model {model.name!r}: expected one platform on legs, got {len(parts)} closed parts, "
            f"with loops {', '.join(map(repr, names))}; use method='augmented'",
            name=names[0],
        )
    kept = [edge for edge in edges if parts and edge.name in parts[0]]
    return kept, [edge.name for edge in edges if edge.is_cut and edge not in kept]


def _base(plan: Plan, edges: Sequence[_Edge], platform: str | None) -> int:
    """Return the base: the world, or the moving body that carries the legs."""
    degrees = _degrees(edges)
    if WORLD_BODY in degrees:
        return WORLD_BODY
    inside = {edge.second for edge in edges if not edge.is_cut}
    # the bodies whose own joints are outside of the loops; a free one may carry the platform
    roots = [body for body in degrees if body not in inside]
    meeting = [body for body, count in degrees.items() if count > 2]
    given = None if platform is None else plan.frame(platform).body
    candidates = [k for k in roots if k != given and (k in meeting or not meeting)] or roots
    return min(candidates, key=lambda k: (plan.bodies[k].joint.kind == "free", k))


def _degrees(edges: Sequence[_Edge]) -> dict[int, int]:
    found: dict[int, int] = {}
    for edge in edges:
        for end in (edge.first, edge.second):
            found[end] = found.get(end, 0) + 1
    return found


def _platform(plan: Plan, edges: Sequence[_Edge], base: int, platform: str | None) -> int:
    """Return the platform: the body on which several legs meet."""
    degrees = _degrees(edges)
    meeting = [body for body, count in degrees.items() if count > 2 and body != base]
    given = None if platform is None else plan.frame(platform).body
    if given is not None and (given not in degrees or given == base):
        raise ModelError(
            f"body {platform!r}: expected a platform on legs, got "
            f"{'the base of the legs' if given == base else 'a body outside of loops'}",
            name=platform,
        )
    if len(meeting) > 1 or (meeting and given not in (None, meeting[0])):
        names = [plan.bodies[body].name for body in meeting]
        raise ModelError(
            f"body {names[-1]!r}: expected one platform on which legs meet, got {len(meeting)} "
            f"bodies with three joints or more in loops ({', '.join(names[:4])}); use "
            "method='augmented'",
            name=names[-1],
        )
    if given is not None:
        return given
    if meeting:
        return meeting[0]
    # a single loop: the body in the middle, one with a free joint outside of it first
    inside = {edge.second for edge in edges if not edge.is_cut}
    free = [k for k in degrees if k not in (base, WORLD_BODY) and k not in inside]
    candidates = free or [body for body in degrees if body != base]

    def imbalance(body: int) -> int:
        lengths = [len(path) for path in _paths(edges, base, body)]
        return max(lengths) - min(lengths)

    return min(candidates, key=lambda body: (imbalance(body), body))


def _refuse_floating_legs(plan: Plan, edges: Sequence[_Edge], base: int, top: int) -> None:
    """Refuse legs of which a part neither stands on the base nor hangs on the platform."""
    inside = {edge.second for edge in edges if not edge.is_cut}
    for index in _degrees(edges):
        if index in inside or index in (base, WORLD_BODY):
            continue
        body = plan.bodies[index]
        if index == top and body.joint.kind == "free" and body.parent == WORLD_BODY:
            continue
        raise ModelError(
            f"body {body.name!r}: expected a leg that stands on the base or hangs on the "
            f"platform, got a part of one that joint {body.joint.name!r} carries; recut the robot",
            name=body.name,
        )


def _paths(edges: Sequence[_Edge], base: int, top: int) -> list[list[tuple[_Edge, int, int]]]:
    """Return the paths from the base to the platform: edges with their ends in that direction."""
    at: dict[int, list[_Edge]] = {}
    for edge in edges:
        at.setdefault(edge.first, []).append(edge)
        at.setdefault(edge.second, []).append(edge)
    paths = []
    for first in at[base]:
        path: list[tuple[_Edge, int, int]] = []
        edge, here = first, base
        while True:
            there = edge.second if edge.first == here else edge.first
            path.append((edge, here, there))
            if there == top:
                break
            edge = next(other for other in at[there] if other is not edge)
            here = there
        paths.append(path)
    return paths


def _assembled(
    model: Model, plan: Plan, graph: _Graph, driven: Sequence[int], with_carrier: bool
) -> PlatformOnLegs:
    """Return the legs with their variables."""
    top, carrier, moving = graph.top, graph.carrier(plan), graph.moving(plan)
    variables = {body.index: range(body.v.start, body.v.stop) for body in plan.bodies}
    on_legs: dict[int, int] = {}
    legs: list[Leg] = []
    for path in _paths(graph.edges, graph.base, top):
        own: list[int] = []
        for edge, _, _ in path:
            if not edge.is_cut:
                on_legs[edge.second] = len(legs)
                own += variables[edge.second]
        legs.append(_divided(_leg(path, top), own, driven))
    if with_carrier and carrier:
        name = plan.bodies[top].joint.name
        alone = Leg(name, (name,), None, top, top, False, (), (), is_carrier=True)
        legs.append(_divided(alone, carrier, driven))
    legs = _with_branches(plan, legs, on_legs, set(carrier), top)
    is_spatial = bool(moving) or (with_carrier and bool(carrier))
    point, basis = _reach(model, plan, graph, () if is_spatial else legs)
    carrier = () if with_carrier else carrier
    return PlatformOnLegs(top, tuple(legs), carrier, basis, point, graph.base, moving)


def _leg(path: Sequence[tuple[_Edge, int, int]], top: int) -> Leg:
    """Return a leg without variables."""
    names = tuple(edge.name for edge, _, _ in path)
    cuts = [step for step in path if step[0].is_cut]
    if len(cuts) > 1:
        raise ModelError(
            f"loop {cuts[1][0].name!r}: expected legs that are cut once, got one that "
            f"{cuts[0][0].name!r} cuts, too; recut the robot",
            name=cuts[1][0].name,
        )
    if not cuts:
        return Leg(names[0], names, None, top, top, False, (), ())
    edge, near, far = cuts[0]
    return Leg(names[0], names, edge.name, near, far, edge.second == near, (), ())


def _divided(leg: Leg, own: Sequence[int], driven: Sequence[int]) -> Leg:
    """Give a leg its variables, driven and passive ones."""
    return leg._replace(
        driven=tuple(i for i in own if i in driven),
        passive=tuple(i for i in reversed(own) if i not in driven),
    )


def _with_branches(
    plan: Plan, legs: list[Leg], on_legs: dict[int, int], carrier: set[int], top: int
) -> list[Leg]:
    """Give bodies outside the loops to the legs that carry them, all others to one of theirs."""
    home = dict(on_legs)
    known = {i for leg in legs for i in leg.variables} | carrier
    rest = Leg("platform", (), None, top, top, False, (), ())
    for body in plan.bodies:
        if body.index not in home and body.parent in home:
            home[body.index] = home[body.parent]
        own = tuple(i for i in range(body.v.start, body.v.stop) if i not in known)
        bodies = () if body.index == top else (body.index,)
        number = home.get(body.index)
        leg = rest if number is None else legs[number]
        leg = leg._replace(driven=(*leg.driven, *own), bodies=(*leg.bodies, *bodies))
        if number is None:
            rest = leg
        else:
            legs[number] = leg
    return [*legs, rest] if rest.bodies else legs


def _reach(
    model: Model, plan: Plan, graph: _Graph, legs: Sequence[Leg]
) -> tuple[tuple[float, float, float], tuple[tuple[float, ...], ...]]:
    """Return the home position of the platform on its base, and twists that legs can give it.

    Without legs all twists.
    """
    home = JointVector([float(x) for x in model.poses.get("home", model.neutral())])
    places = body_places(plan, home)
    at = np.array([float(x) for x in places[graph.top].p])
    if graph.base != WORLD_BODY:
        R, p = (np.array(x, dtype=np.float64) for x in places[graph.base])
        at = R.T @ (at - p)
    point = (float(at[0]), float(at[1]), float(at[2]))
    basis = np.eye(6)
    if legs:
        columns = np.array(_motions(model, plan, graph.top, legs, point))
        _, sizes, V = np.linalg.svd(columns)
        rank = int(np.sum(sizes > RANK_TOLERANCE * sizes[0]))
        basis = basis if rank == 6 else _sparse_basis(V[:rank])
    return point, tuple(tuple(float(a) for a in row) for row in basis)


def _motions(
    model: Model, plan: Plan, top: int, legs: Sequence[Leg], point: tuple[float, float, float]
) -> list[list[float]]:
    """Return twists of all joints of legs, in several configurations."""
    # where loops are closed, planar mechanisms stay in their plane
    samples = [_polished(model, q) for q, _ in closed_configurations(model)]
    rng = None
    if len(samples) < MIN_SAMPLES:
        rng = np.random.default_rng(3)
        samples = [_anywhere(model, rng) for _ in range(MIN_SAMPLES)]
    columns: list[list[float]] = []
    for sample in samples:
        q = JointVector([float(a) for a in sample])
        places = body_places(plan, q)
        of_cuts = joint_screws(model, sample, rng).of
        for leg in legs:
            for body in (leg.near, leg.far, top) if leg.joints else ():
                found = jacobian_columns(plan, q, places, body, point)
                inside = set(leg.variables)
                columns += [[*m.angular, *m.linear] for i, m in found.items() if i in inside]
            if leg.loop is not None:
                columns += about(of_cuts[leg.loop].columns, np.array(point)).T.tolist()
    return columns


def _anywhere(model: Model, rng: np.random.Generator) -> Array:
    """Return a random configuration, whose loops are open."""
    return np.array([a for joint in model.joints for a in joint.random(rng)])


def _polished(model: Model, q: Sequence[float]) -> Array:
    """Close loops to rounding: their error would be one of the motions found."""
    found = np.array(q)
    for _ in range(2):
        terms = constraints(model, model.plan, JointVector([float(x) for x in found]))
        J = np.array([[row.get(i, 0.0) for i in range(model.nv)] for row in terms.jacobian])
        step = np.linalg.lstsq(J, -np.array(terms.value, dtype=np.float64), rcond=RANK_TOLERANCE)[0]
        found = np.array(model.integrate(found, step))
    return found


def _sparse_basis(rows: Array) -> Array:
    """Return an orthonormal basis of the same space with as many zeros as elimination gives."""
    reduced, _ = reduced_rows(rows)
    for k in range(len(reduced)):
        for other in range(k):
            reduced[k] = reduced[k] - (reduced[k] @ reduced[other]) * reduced[other]
        reduced[k] = reduced[k] / np.linalg.norm(reduced[k])
    return reduced


def _independent(model: Model, carrier: Sequence[int], moving: Sequence[int]) -> tuple[int, ...]:
    """Return independent velocity variables; those of the base are among them.

    Motors are independent where they can be. Dependent variables are pivots of the constraint
    Jacobian at a closed configuration: first those of a free joint of the platform, then among
    joints without motor, free ones first, then among motors that are redundant.
    """
    motors = {i for name in model.actuated_joint_names for i in _places(model, name)}
    free = {i for joint in model.joints if joint.kind == "free" for i in _places(model, joint.name)}
    others = [i for i in range(model.nv) if i not in (*carrier, *moving)]
    passive = [i for i in others if i not in motors]
    groups = (
        carrier,
        [i for i in passive if i in free],
        [i for i in passive if i not in free],
        [i for i in others if i in motors],
    )
    rank, J = _best_jacobian(model)
    dependent = grouped_pivots(J, rank, groups)
    return tuple(i for i in range(model.nv) if i not in dependent)


def _best_jacobian(model: Model) -> tuple[int, Array]:
    """Return rank and Jacobian of the constraints, where most of them are independent.

    At closed configurations; at random ones if none is found, where mechanisms that move only by
    their special geometry have more independent constraints.
    """
    found = [J for _, J in closed_configurations(model)] or _searched_jacobians(model)
    ranks = [int(np.linalg.matrix_rank(J, RANK_TOLERANCE * max(1.0, abs(J).max()))) for J in found]
    best = int(np.argmax(ranks))
    return ranks[best], found[best]


def _searched_jacobians(model: Model) -> list[Array]:
    """Return Jacobians where loops close from random configurations; there if none does."""
    rng = np.random.default_rng(5)
    starts = [_anywhere(model, rng) for _ in range(SEARCHED_STARTS)]
    closed = [closed_from(model, start, SEARCHING_STEPS) for start in starts]
    found = [one[1] for one in closed if one is not None]
    return found or [live_jacobian(model, start)[0] for start in starts[:MIN_SAMPLES]]


def _places(model: Model, joint: str) -> range:
    own = model.slice(joint, of="v")
    return range(own.start, own.stop)
