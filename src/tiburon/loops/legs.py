"""A platform on legs: which bodies and joints of a mechanism form which leg.

Bodies that take part in loops form a graph whose edges are joints, those of the tree and those that
close loops; a free joint only provides coordinates. If two bodies, the base and the platform, are
left out, paths remain: the legs (Khan 2002, section 3.1, with three of them in a plane). Any
spanning tree will do: the platform may hang on one leg or have a free joint, and each leg may be
cut at either end or in the middle.

Velocity variables are independent (driven) or dependent (passive). Motors are independent where
they can be; in mechanisms with fewer motors than degrees of freedom further joints are, and of
redundant motors some are dependent.

Branches, joints outside the loops, are independent and belong to the leg that carries them, or to
the platform.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import body_places, jacobian_columns
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.arrays import Array
from tiburon.errors import ModelError
from tiburon.loops.augmented import closed_configurations
from tiburon.loops.complement_basis import MIN_PIVOT, reduced_rows
from tiburon.loops.constraints import (
    constraints,
    is_velocity_constraint,
    jacobian_pattern,
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
    """Orthonormal twists that the platform can have, world axes at `point`: d rows of 6."""

    point: tuple[float, float, float]
    """Fixed point at which twists are taken, world axes [m]: the platform in its home pose."""

    constraints: tuple[int, ...] = ()
    """As many constraints as there are dependent variables, which they determine; empty where
    `driven` was given."""

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
    """Return the parts of a platform on legs.

    Args:
        model: The robot.
        platform: Name of the platform; found by default.

    Raises:
        ModelError: If the robot is something else; the message names the element.
    """
    return _found(model) if platform is None else legs_of(model, platform)


@per_model
def _found(model: Model) -> PlatformOnLegs:
    return legs_of(model)


def legs_of(
    model: Model, platform: str | None = None, driven: Iterable[int] | None = None
) -> PlatformOnLegs:
    """Find platform and legs.

    Args:
        model: The robot.
        platform: Name of the platform; found by default.
        driven: Velocity variables that are driven, however many, all others being passive; by
            default as many as there are degrees of freedom, motors first.
    """
    _refuse(model)
    with taping(None):
        plan = model.plan
        edges = _edges(model, plan)
        closed = _closed_part(model, edges)
        base = _base(model, plan, closed)
        top = _platform(plan, closed, base, platform)
        paths = _paths(closed, base, top)
        if driven is not None:
            return _assembled(model, plan, top, paths, tuple(driven))
        chosen, rows = _independent(model)
        found = _assembled(model, plan, top, paths, chosen)
        if set(found.carrier) & set(chosen):
            name = plan.bodies[top].name
            raise ModelError(
                f"body {name!r}: expected a platform that moves as the joints of its legs say, got "
                "one that can move alone in the joints that close its loops, as between two balls; "
                "use method='augmented' or 'star'",
                name=name,
            )
        return found._replace(constraints=rows)


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


def _edges(model: Model, plan: Plan) -> list[_Edge]:
    """Return the joints between plan bodies without free joints, those that close loops last."""
    found = [
        _Edge(body.joint.name, body.parent, body.index, False)
        for body in plan.bodies
        if body.joint.kind != "free"
    ]
    for loop in model.loops:
        assert isinstance(loop, LoopClosure)
        first, second = (plan.frame(name).body for name in (loop.first, loop.second))
        found.append(_Edge(loop.name, first, second, True))
    return found


def _closed_part(model: Model, edges: Sequence[_Edge]) -> list[_Edge]:
    """Return the edges that belong to cycles; refuse several closed parts."""
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
    for edge in edges:
        if edge.is_cut and edge not in kept:
            raise ModelError(
                f"loop {edge.name!r}: closes no cycle of joints; use method='augmented'",
                name=edge.name,
            )
    return kept


def _base(model: Model, plan: Plan, edges: Sequence[_Edge]) -> int:
    """Return the base, which must be the world."""
    nodes = {end for edge in edges for end in (edge.first, edge.second)}
    if WORLD_BODY not in nodes:
        name = plan.bodies[min(nodes)].name
        raise ModelError(
            f"body {name!r}: expected legs that stand on the world, got legs on moving bodies; use "
            "method='augmented' or 'star'",
            name=name,
        )
    return WORLD_BODY


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
    if given is not None and given not in degrees:
        raise ModelError(
            f"body {platform!r}: expected a platform on legs, got a body outside of loops",
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
    # a single loop: the body in the middle, one with a free joint first
    free = [b.index for b in plan.bodies if b.joint.kind == "free" and b.index in degrees]
    candidates = free or [body for body in degrees if body != base]

    def imbalance(body: int) -> int:
        lengths = [len(path) for path in _paths(edges, base, body)]
        return max(lengths) - min(lengths)

    return min(candidates, key=lambda body: (imbalance(body), body))


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
    model: Model,
    plan: Plan,
    top: int,
    paths: Sequence[Sequence[tuple[_Edge, int, int]]],
    driven: Sequence[int],
) -> PlatformOnLegs:
    """Return the legs with their variables."""
    chosen = set(driven)
    variables = {body.index: range(body.v.start, body.v.stop) for body in plan.bodies}
    carrier = tuple(variables[top]) if plan.bodies[top].joint.kind == "free" else ()
    on_legs: dict[int, int] = {}
    legs = []
    for number, path in enumerate(paths):
        cuts = [step for step in path if step[0].is_cut]
        if len(cuts) > 1:
            raise ModelError(
                f"loop {cuts[1][0].name!r}: expected legs that are cut once, got one that "
                f"{cuts[0][0].name!r} cuts, too; recut the robot",
                name=cuts[1][0].name,
            )
        own: list[int] = []
        for edge, _, _ in path:
            if edge.is_cut:
                continue
            body = edge.second
            on_legs[body] = number
            own += [i for i in variables[body] if i not in carrier]
        for _, _, there in path:
            if there != top and plan.bodies[there].joint.kind == "free":
                name = plan.bodies[there].name
                raise ModelError(
                    f"body {name!r}: expected a leg that stands on the base or hangs on the "
                    "platform, got a part of one with a free joint; recut the robot",
                    name=name,
                )
        near, far, turned, loop = top, top, False, None
        if cuts:
            edge, near, far = cuts[0]
            turned, loop = edge.second == near, edge.name
        names = tuple(edge.name for edge, _, _ in path)
        legs.append(
            Leg(
                names[0],
                names,
                loop,
                near,
                far,
                turned,
                tuple(i for i in own if i in chosen),
                tuple(i for i in reversed(own) if i not in chosen),
            )
        )
    legs = _with_branches(plan, legs, on_legs, set(carrier), top)
    point, basis = _reach(model, plan, top, legs)
    return PlatformOnLegs(top, tuple(legs), carrier, basis, point)


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
    model: Model, plan: Plan, top: int, legs: Sequence[Leg]
) -> tuple[tuple[float, float, float], tuple[tuple[float, ...], ...]]:
    """Return the home position of the platform, and twists that legs can give it."""
    home = JointVector([float(x) for x in model.poses.get("home", model.neutral())])
    x, y, z = (float(a) for a in body_places(plan, home)[top].p)
    point = (x, y, z)
    # where loops are closed, planar mechanisms stay in their plane
    samples = [_polished(model, q) for q, _ in closed_configurations(model)]
    rng = None
    if len(samples) < MIN_SAMPLES:
        rng = np.random.default_rng(3)
        samples = [
            np.array([a for joint in model.joints for a in joint.random(rng)])
            for _ in range(MIN_SAMPLES)
        ]
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
    _, sizes, V = np.linalg.svd(np.array(columns))
    rank = int(np.sum(sizes > RANK_TOLERANCE * sizes[0]))
    basis = np.eye(6) if rank == 6 else _sparse_basis(V[:rank])
    return point, tuple(tuple(float(a) for a in row) for row in basis)


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


def _independent(model: Model) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return independent velocity variables, and constraints that determine all others.

    Motors are independent where they can be. Dependent variables are pivots of the constraint
    Jacobian at a closed configuration, first among joints without motor, then among motors that
    are redundant.
    """
    live = tuple(k for k, used in enumerate(jacobian_pattern(model)) if used)
    best: tuple[int, Array] | None = None
    for _, J in closed_configurations(model):
        rank = int(np.linalg.matrix_rank(J, tol=RANK_TOLERANCE * max(1.0, np.abs(J).max())))
        if best is None or rank > best[0]:
            best = (rank, J)
    if best is None:
        raise ModelError(
            f"model {model.name!r}: expected a pose with closed loops, got none; give it a pose "
            "'home' (assemble finds one)"
        )
    rank, J = best
    motors = {i for name in model.actuated_joint_names for i in _places(model, name)}
    free = {i for joint in model.joints if joint.kind == "free" for i in _places(model, joint.name)}
    groups = [
        [i for i in range(model.nv) if i in free],
        [i for i in range(model.nv) if i not in free and i not in motors],
        [i for i in range(model.nv) if i in motors],
    ]
    rest = J.copy()
    dependent: list[int] = []
    rows: list[int] = []
    first = float(np.abs(J).max())
    for group in groups:
        while len(dependent) < rank:
            columns = [i for i in group if i not in dependent]
            if not columns:
                break
            part = np.abs(rest[:, columns])
            i, j = np.unravel_index(int(np.argmax(part)), part.shape)
            if not part[i, j] > np.sqrt(MIN_PIVOT) * first:
                break
            column = columns[int(j)]
            rest = rest - np.outer(rest[:, column] / rest[i, column], rest[i])
            rest[i] = 0.0
            dependent.append(column)
            rows.append(live[int(i)])
    return tuple(i for i in range(model.nv) if i not in dependent), tuple(sorted(rows))


def _places(model: Model, joint: str) -> range:
    own = model.slice(joint, of="v")
    return range(own.start, own.stop)
