"""Topology of a mechanism: graph of links and joints, cycles, class, poles, mobility count.

Vertices of the graph are links (bodies welded together are one), edges are joints (Nahon 1991,
definitions 2.1 to 2.19). A joint that permits every motion that the joints around it could produce,
such as the free joint of a platform on legs, only provides coordinates: it is not an edge.

Each closed part of the graph has the dimension d of the motions its links can have, which the
Chebyshev-Gruebler count needs: 6 in space, 3 in a plane or about a point, 4 where all rotations
share one direction (Nahon 1991, eq. 2.2 has 6 and 3).

Symbols (Nahon 1991, chapter 2):
    d       degrees of freedom of a link relative to its neighbors
    c       independent cycles: edges minus vertices plus connected parts (eq. 2.1)
    M, C    mobility, connectivity of the two poles
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.errors import UnknownNameError
from tiburon.loops.cut_joints import joint_screws
from tiburon.model import JointCoupling, LoopClosure, Model, TracedClosure
from tiburon.model.body import WORLD
from tiburon.record import record

if TYPE_CHECKING:
    import networkx


SAMPLED_CONFIGURATIONS = 3
"""Random configurations that determine which motions the joints of a part can produce."""

RANK_TOLERANCE = 1e-8
"""Relative singular value that counts as rounding error."""


@record
class JointLine:
    """A joint as an edge of the graph of links."""

    name: str
    """Name of the joint, or of the loop that it closes."""

    first: str
    """The predecessor link, by its first body."""

    second: str
    """The successor link."""

    dof: int
    """Degrees of freedom: number of its velocity variables; a coupled joint has none."""

    is_cut: bool
    """Whether it closes a loop instead of belonging to the tree."""

    is_powered: bool
    """Whether an actuator or a cylinder drives it."""

    part: int = -1
    """Index of the closed part it belongs to; -1 if it is in no cycle."""

    dimension: int = 0
    """Degrees of freedom d of relative motion in this part: 6, or 3 in a plane."""

    @property
    def is_placeholder(self) -> bool:
        """Whether it permits every motion of its part: it provides coordinates only."""
        return self.part >= 0 and self.dof >= self.dimension


def links_of(model: Model) -> tuple[dict[str, str], tuple[tuple[str, ...], ...]]:
    """Return, by name of body, frame or "world", the first body of its link; and all links."""
    import networkx

    home = {frame.name: frame.body for frame in model.frames}
    welds: networkx.Graph[str] = networkx.Graph()
    welds.add_nodes_from([WORLD, *model.body_names])
    for body in model.bodies:
        if body.joint.is_rigid and body.joint.follows is None:
            welds.add_edge(body.parent, body.name)
    for loop in model.loops:
        if isinstance(loop, LoopClosure) and loop.joint.is_rigid:
            welds.add_edge(home.get(loop.first, loop.first), home.get(loop.second, loop.second))
    # a link is named after a body with mass
    massless = {body.name for body in model.bodies if not body.inertia.mass}
    order = {n: (n in massless, k) for k, n in enumerate((WORLD, *model.body_names))}
    links = [
        tuple(sorted(link, key=order.__getitem__)) for link in networkx.connected_components(welds)
    ]
    links.sort(key=lambda link: order[link[0]])
    link_of = {name: link[0] for link in links for name in link}
    link_of.update({frame: link_of[body] for frame, body in home.items()})
    return link_of, tuple(links)


def joint_lines(model: Model, link_of: dict[str, str]) -> tuple[JointLine, ...]:
    """Return all joints between different links; `link_of` is from `links_of`."""
    powered = {actuator.joint for actuator in model.actuators}
    powered |= {cylinder.joint for cylinder in model.cylinders if cylinder.joint is not None}
    found = [
        JointLine(
            body.joint.name,
            link_of[body.parent],
            link_of[body.name],
            body.joint.nv,
            False,
            body.joint.name in powered,
        )
        for body in model.bodies
    ]
    for loop in model.loops:
        if isinstance(loop, LoopClosure):
            ends = link_of[loop.first], link_of[loop.second]
            found.append(JointLine(loop.name, *ends, loop.joint.nv, True, False))
    between = [line for line in found if line.first != line.second]
    return _with_parts(model, between)


def graph_of(
    lines: Iterable[JointLine], without: Collection[str] = ()
) -> "networkx.MultiGraph[str]":
    """Return the graph of links and joints (edge keys are joint names), without some joints."""
    import networkx

    graph: networkx.MultiGraph[str] = networkx.MultiGraph()
    for line in lines:
        graph.add_nodes_from([line.first, line.second])
        if line.name not in without:
            graph.add_edge(line.first, line.second, key=line.name)
    return graph


def _with_parts(model: Model, lines: list[JointLine]) -> tuple[JointLine, ...]:
    """Return the joints with the closed part they belong to and its dimension d.

    Parts are biconnected components. The screws of their joints in random configurations, in the
    frame of one of their links, span all relative motions.
    """
    parts = _closed_parts(lines)
    if not parts:
        return tuple(lines)
    rng = np.random.default_rng(3)
    spans: list[list[Array]] = [[] for _ in parts]
    by_name = {line.name: line for line in lines}
    for _ in range(SAMPLED_CONFIGURATIONS):
        at = joint_screws(model, model.random_state(rng, limits=False)[0], rng)
        for span, part in zip(spans, parts, strict=True):
            root = by_name[part[0]].first
            binding = [at.of[name].columns for name in part if by_name[name].dof < 6]
            span.extend(at.seen_from(root, S) for S in binding if S.size)
    numbered: dict[str, tuple[int, int]] = {}
    for index, (span, part) in enumerate(zip(spans, parts, strict=True)):
        size = _rank(np.hstack(span)) if span else 0
        numbered.update(dict.fromkeys(part, (index, size)))
    return tuple(
        replace(line, part=numbered[line.name][0], dimension=numbered[line.name][1])
        if line.name in numbered
        else line
        for line in lines
    )


def _closed_parts(lines: list[JointLine]) -> list[tuple[str, ...]]:
    """Return the joints of each biconnected component with a cycle, in the order of `lines`."""
    import networkx

    # joints as vertices, so that two joints between the same links stay distinct
    graph: networkx.Graph[tuple[str, str]] = networkx.Graph()
    for line in lines:
        for end in (line.first, line.second):
            graph.add_edge(("joint", line.name), ("link", end))
    order = {line.name: k for k, line in enumerate(lines)}
    found = []
    for part in networkx.biconnected_components(graph):
        joints = sorted((name for kind, name in part if kind == "joint"), key=order.__getitem__)
        if len(part) > 2:
            found.append(tuple(joints))
    return sorted(found, key=lambda part: order[part[0]])


def _rank(columns: Array) -> int:
    """Return the rank of a matrix after normalizing its columns."""
    lengths = np.linalg.norm(columns, axis=0)
    scaled = columns[:, lengths > 0.0] / lengths[lengths > 0.0]
    return int(np.linalg.matrix_rank(scaled, rtol=RANK_TOLERANCE)) if scaled.size else 0


# -- cycles, poles and paths -----------------------------------------------------------------------


Cycle = tuple[tuple[str, int], ...]
"""Joints of a cycle in order; 1 where passed from first link to second, -1 the other way."""

MAX_MINIMAL_CYCLES = 24
"""Number of cycles up to which a minimal basis is computed, at cubic cost."""


class Chains(NamedTuple):
    """Class of a graph, its poles and paths."""

    kind: str
    poles: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    """Joints of each path between the two poles."""
    open_paths: tuple[tuple[str, ...], ...]
    """Joints of each open path from a pole."""


def chains(
    graph: "networkx.MultiGraph[str]", root: str, poles: tuple[str, str] | None = None
) -> Chains:
    """Classify a graph, and split it into parallel and star chains if possible.

    Args:
        graph: Links as vertices, joints as edges keyed by name.
        root: The link that is the first pole if it is one.
        poles: Two links that paths connect, if vertex degrees do not determine them.

    Returns:
        The class (definitions 2.13 to 2.17), and poles and paths (definitions 2.18, 2.19), which
        are empty if the graph is neither a parallel chain nor a star nor both.
    """
    core = _core(graph)
    kind = _kind(graph, core)
    poles_found = _poles(graph, core, root) if poles is None else poles
    if not poles_found:
        return Chains(kind, (), (), ())
    paths: list[tuple[str, ...]] = []
    open_paths: list[tuple[str, ...]] = []
    for index, pole in enumerate(poles_found):
        others = set(poles_found) - {pole}
        for joint, link in _lines_at(graph, pole):
            walked, end = _walk(graph, pole, joint, link, set(poles_found))
            if walked is None:
                return Chains(kind, (), (), ())
            if end in others and index == 0:
                paths.append(walked)
            elif end not in poles_found:
                open_paths.append(walked)
    found = sum(map(len, paths)) + sum(map(len, open_paths))
    if found != graph.number_of_edges():
        return Chains(kind, (), (), ())
    # by name, so that the order does not depend on the spanning tree
    paths.sort(key=lambda path: [_by_number(name) for name in path])
    return Chains(kind, poles_found, tuple(paths), tuple(open_paths))


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return a sort key with leg_2 before leg_10."""
    return [(word, int(part or 0)) for word, part in re.findall(r"(\D*)(\d*)", name)]


def _kind(graph: "networkx.MultiGraph[str]", core: "networkx.MultiGraph[str]") -> str:
    """Return simple or complex, and open, closed or hybrid."""
    degrees = [degree for _, degree in graph.degree()]
    word = "simple" if max(degrees, default=0) <= 2 else "complex"
    if core.number_of_edges() == 0:
        return f"{word} open"
    return f"{word} hybrid" if 1 in degrees else f"{word} closed"


def _core(graph: "networkx.MultiGraph[str]") -> "networkx.MultiGraph[str]":
    """Return the graph without open branches: vertices of degree 1 are removed repeatedly."""
    core = graph.copy()
    ends = [node for node, degree in core.degree() if degree <= 1]
    while ends:
        core.remove_nodes_from(ends)
        ends = [node for node, degree in core.degree() if degree <= 1]
    return core


def _poles(
    graph: "networkx.MultiGraph[str]", core: "networkx.MultiGraph[str]", root: str
) -> tuple[str, ...]:
    """Return the poles as far as vertex degrees determine them."""
    inside = core if core.number_of_edges() else graph
    branching = [node for node, degree in inside.degree() if degree > 2]
    if core.number_of_edges():
        return (
            tuple(sorted(branching, key=lambda node: node != root)) if len(branching) == 2 else ()
        )
    if not graph.number_of_edges() or len(branching) > 1:
        return ()
    if branching:
        return (branching[0],)
    # a serial chain is a star of one path
    ends = [node for node, degree in graph.degree() if degree == 1]
    return (root if root in ends else ends[0],) if ends else ()


def _lines_at(graph: "networkx.MultiGraph[str]", link: str) -> list[tuple[str, str]]:
    """Return the joints at a link, each with the link beyond it."""
    return [(key, other) for _, other, key in graph.edges(link, keys=True)]


def _walk(
    graph: "networkx.MultiGraph[str]", start: str, joint: str, link: str, poles: set[str]
) -> tuple[tuple[str, ...] | None, str]:
    """Follow a path from a pole to the next one, or to its open end; None if it branches."""
    walked = [joint]
    before = start
    while link not in poles:
        onward = [(key, other) for key, other in _lines_at(graph, link) if key != walked[-1]]
        if not onward:
            return tuple(walked), link
        if len(onward) > 1:
            return None, link
        before, (key, link) = link, onward[0]
        walked.append(key)
    # a path from a pole back to itself connects no poles
    return (None if link == start and before == start else tuple(walked)), link


def cycle_basis(
    graph: "networkx.MultiGraph[str]", found: Chains, ends: dict[str, tuple[str, str]]
) -> tuple[Cycle, ...]:
    """Return independent cycles: neighboring paths of a parallel chain, else short cycles."""
    if len(found.poles) == 2:
        start = found.poles[0]
        ways = [_signed(path, start, ends) for path in found.paths]
        return tuple(
            (*one, *((name, -sign) for name, sign in reversed(other)))
            for one, other in pairwise(ways)
        )
    return tuple(_signed(cycle, None, ends) for cycle in _short_cycles(graph))


def _signed(path: tuple[str, ...], start: str | None, ends: dict[str, tuple[str, str]]) -> Cycle:
    """Return joints in order, each with the direction in which it is traversed."""
    if start is None:
        # a cycle starts at the link shared by its last and first joint
        first, last = set(ends[path[0]]), set(ends[path[-1]])
        start = next(iter(sorted(first & last))) if len(path) > 2 else ends[path[0]][0]
    found = []
    link = start
    for name in path:
        first_link, second_link = ends[name]
        forward = link == first_link
        found.append((name, 1 if forward else -1))
        link = second_link if forward else first_link
    return tuple(found)


def _short_cycles(graph: "networkx.MultiGraph[str]") -> list[tuple[str, ...]]:
    """Return the joints of independent cycles, each in order."""
    import networkx

    # joints as vertices, so that two joints between the same links form a cycle
    apart: networkx.Graph[tuple[str, str]] = networkx.Graph()
    for one, other, key in graph.edges(keys=True):
        apart.add_edge(("link", one), ("joint", key))
        apart.add_edge(("joint", key), ("link", other))
    count = apart.number_of_edges() - apart.number_of_nodes()
    count += networkx.number_connected_components(apart) if apart.number_of_nodes() else 0
    if not count:
        return []
    search = networkx.minimum_cycle_basis if count <= MAX_MINIMAL_CYCLES else networkx.cycle_basis
    return [tuple(name for kind, name in cycle if kind == "joint") for cycle in search(apart)]


# -- topology of a robot ---------------------------------------------------------------------------


@public
@record
class Topology:
    """Topology of a robot: links, joints, cycles, class and mobility count."""

    links: tuple[tuple[str, ...], ...]
    """Bodies of each link, the one that names it first; the link of the world first."""

    joints: tuple[JointLine, ...]
    """All joints between different links, including those that close loops."""

    placeholders: tuple[str, ...]
    """Joints without constraints, such as the free joint of a platform on legs."""

    cycles: tuple[Cycle, ...]
    """Independent cycles: joints in order, 1 if traversed from first to second link, else -1."""

    kind: str
    """One of "simple open", "simple closed", "complex open", "complex closed", "complex hybrid"."""

    poles: tuple[str, ...]
    """Two links connected by closed paths, or one with open paths; empty if the robot is neither a
    parallel chain nor a star nor both."""

    paths: tuple[tuple[str, ...], ...]
    """Joints of each path from the first pole to the second."""

    open_paths: tuple[tuple[str, ...], ...]
    """Joints of each open path from a pole, outward."""

    counted_mobility: int
    """Degrees of freedom by the Chebyshev-Gruebler count, for generic lengths (eq. 2.2)."""

    counted_connectivity: int | None
    """Degrees of freedom of one pole relative to the other, by counting (eqs. 2.11, 2.12); None
    unless there are two poles."""

    @property
    def cycle_count(self) -> int:
        """Number of independent cycles (eq. 2.1)."""
        return len(self.cycles)

    def actuated_connectivity(self, driven: Iterable[str]) -> int | None:
        """Return C_a: degrees of freedom between the poles with driven joints locked, by counting.

        Eq. 2.14 with M_a as its first term and d in place of m. None unless there are two poles.
        """
        names = (driven,) if isinstance(driven, str) else tuple(driven)
        for name in names:
            self.joint(name)
        locked = tuple(replace(line, dof=0) if line.name in names else line for line in self.joints)
        return _pole_connectivity(locked, self.poles, self.paths)

    def joint(self, name: str) -> JointLine:
        """Return a joint by its name, or by the name of the loop that it closes."""
        for line in self.joints:
            if line.name == name:
                return line
        raise UnknownNameError("joint", name, [line.name for line in self.joints])

    def graph(self) -> "networkx.MultiGraph[str]":
        """Return the graph: links as vertices, joints with constraints as edges keyed by name."""
        return graph_of(self.joints, self.placeholders)


@public
def topology(model: Model, *, poles: tuple[str, str] | None = None) -> Topology:
    """Analyze the topology of a robot: links, joints, cycles, class and mobility count.

    Args:
        model: The robot.
        poles: Two bodies as poles, if the graph does not determine them, as in a single loop.

    Example:
        ``tb.topology(tb.load("stewart")).kind`` is "complex closed"
    """
    link_of, links = links_of(model)
    lines = joint_lines(model, link_of)
    free = {body.joint.name for body in model.bodies if body.joint.kind == "free"}
    placeholders = tuple(x.name for x in lines if x.is_placeholder or x.name in free)
    graph = graph_of(lines, placeholders)
    if WORLD in graph and graph.degree(WORLD) == 0 and graph.number_of_nodes() > 1:
        # the world carries only a floating base
        graph.remove_node(WORLD)
    pole_links = None if poles is None else _pole_links(model, poles, link_of)
    found = chains(graph, WORLD, pole_links)
    ends = {line.name: (line.first, line.second) for line in lines}
    mobility = _counted_mobility(model, lines)
    return Topology(
        links=links,
        joints=lines,
        placeholders=placeholders,
        cycles=cycle_basis(graph, found, ends),
        kind=found.kind,
        poles=found.poles,
        paths=found.paths,
        open_paths=found.open_paths,
        counted_mobility=mobility,
        counted_connectivity=_pole_connectivity(lines, found.poles, found.paths),
    )


def _pole_links(model: Model, poles: tuple[str, str], link_of: dict[str, str]) -> tuple[str, str]:
    for name in poles:
        if name not in link_of:
            where = f"model {model.name!r}, poles"
            raise UnknownNameError("body or frame", name, link_of, where=where)
    return link_of[poles[0]], link_of[poles[1]]


def _counted_mobility(model: Model, lines: tuple[JointLine, ...]) -> int:
    """Return M: joint degrees of freedom minus d per independent cycle (eqs. 2.1, 2.2).

    Each closed part has its own d, so that planar parts of a spatial robot count as planar. Joint
    couplings and residuals of user functions remove one degree of freedom each.
    """
    total = sum(line.dof for line in lines)
    for loop in model.loops:
        if isinstance(loop, JointCoupling):
            total -= 1
        elif isinstance(loop, TracedClosure):
            total -= loop.position_count + loop.velocity_count
    for index in sorted({line.part for line in lines} - {-1}):
        part = [line for line in lines if line.part == index]
        links = {end for line in part for end in (line.first, line.second)}
        total -= part[0].dimension * (len(part) - len(links) + 1)
    return total


def _pole_connectivity(
    lines: tuple[JointLine, ...], poles: tuple[str, ...], paths: tuple[tuple[str, ...], ...]
) -> int | None:
    """Return C: mobility between the poles without internal mobility of paths (eq. 2.11)."""
    if len(poles) != 2 or not paths:
        return None
    by_name = {line.name: line for line in lines}
    dof = [sum(by_name[name].dof for name in path) for path in paths]
    d = by_name[paths[0][0]].dimension
    mobility = sum(dof) - d * (len(dof) - 1)
    return max(0, min(d, mobility - sum(max(0, f - d) for f in dof)))
