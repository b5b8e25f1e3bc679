"""How links and joints of a robot hang together: graph, cycles, class, poles, counts.

Points of the graph are links, lines are joints (Nahon 1991, definitions 2.1 to 2.19). A joint that
leaves its link every motion that the joints around it could give, as the free joint of a platform
on legs, only counts coordinates: it is no line.

Symbols (Nahon 1991, chapter 2):
    d       freedoms a link could have among its neighbors: 6, or 3 in a plane or about a point
    c       independent cycles: lines less points plus connected parts (eq. 2.1)
    M, C    mobility, connectivity of the two poles
"""

from typing import TYPE_CHECKING

from tiburon.arguments import public
from tiburon.errors import UnknownNameError
from tiburon.loops.topology_lines import JointLine, graph_of, joint_lines, links_of
from tiburon.loops.topology_paths import Chains, Cycle, chains, cycle_basis
from tiburon.model import JointCoupling, Model, TracedClosure
from tiburon.model.body import WORLD
from tiburon.record import record

if TYPE_CHECKING:
    import networkx

__all__ = ["JointLine", "Topology", "topology"]


@record
class Topology:
    """How the links and joints of a robot hang together."""

    links: tuple[tuple[str, ...], ...]
    """Bodies of each link, first the one that names it; the world's link first."""

    joints: tuple[JointLine, ...]
    """All joints between different links, those that close loops too."""

    placeholders: tuple[str, ...]
    """Joints that bind nothing, as the free joint of a platform on legs or of a floating base."""

    cycles: tuple[Cycle, ...]
    """Independent cycles: joints in order, 1 where passed from first to second link, else -1."""

    kind: str
    """One of "simple open", "simple closed", "complex open", "complex closed", "complex hybrid"."""

    poles: tuple[str, ...]
    """Two links that closed paths join, or one that open ones hang from; none where it is neither
    a parallel chain nor a star nor both."""

    paths: tuple[tuple[str, ...], ...]
    """Joints of each path from the first pole to the second."""

    open_paths: tuple[tuple[str, ...], ...]
    """Joints of each path that hangs from a pole, outward."""

    counted_mobility: int
    """Freedoms by the Chebyshev-Gruebler count, which knows no special lengths (eq. 2.2)."""

    counted_connectivity: int | None
    """Freedoms of one pole as the other sees it, by counting (eqs. 2.11, 2.12); None unless there
    are two poles."""

    @property
    def cycle_count(self) -> int:
        """Number of independent cycles (eq. 2.1)."""
        return len(self.cycles)

    def joint(self, name: str) -> JointLine:
        """Return a joint by its name, one that closes a loop by the name of the loop."""
        for line in self.joints:
            if line.name == name:
                return line
        raise UnknownNameError("joint", name, [line.name for line in self.joints])

    def graph(self) -> "networkx.MultiGraph[str]":
        """Return the graph: links as points, joints that bind as lines with their names as keys."""
        return graph_of(self.joints, self.placeholders)


@public
def topology(model: Model, *, poles: tuple[str, str] | None = None) -> Topology:
    """Find how the links and joints of a robot hang together.

    Args:
        model: The robot.
        poles: Two bodies that paths are to join, where the graph does not tell: in a single loop
            any two links could be meant.

    Example:
        ``tb.topology(tb.load("stewart")).kind`` is "complex closed"
    """
    link_of, links = links_of(model)
    lines = joint_lines(model, link_of)
    free = {body.joint.name for body in model.bodies if body.joint.kind == "free"}
    placeholders = tuple(x.name for x in lines if x.is_placeholder or x.name in free)
    graph = graph_of(lines, placeholders)
    if WORLD in graph and graph.degree(WORLD) == 0 and graph.number_of_nodes() > 1:
        # the world holds nothing but a floating base
        graph.remove_node(WORLD)
    wanted = None if poles is None else _pole_links(model, poles, link_of)
    found = chains(graph, WORLD, wanted)
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
        counted_connectivity=_pole_connectivity(lines, found),
    )


def _pole_links(model: Model, poles: tuple[str, str], link_of: dict[str, str]) -> tuple[str, str]:
    for name in poles:
        if name not in link_of:
            where = f"model {model.name!r}, poles"
            raise UnknownNameError("body or frame", name, link_of, where=where)
    return link_of[poles[0]], link_of[poles[1]]


def _counted_mobility(model: Model, lines: tuple[JointLine, ...]) -> int:
    """Return M: all joint freedoms less d for each independent cycle (eqs. 2.1, 2.2).

    Each closed part has its own d, so that planar parts of a spatial robot count as planar. Ties
    between joints, and residuals that functions tell, take one freedom each.
    """
    total = sum(line.freedoms for line in lines)
    for loop in model.loops:
        if isinstance(loop, JointCoupling):
            total -= 1
        elif isinstance(loop, TracedClosure):
            total -= loop.position_count + loop.velocity_count
    for number in sorted({line.part for line in lines} - {-1}):
        part = [line for line in lines if line.part == number]
        links = {end for line in part for end in (line.first, line.second)}
        total -= part[0].dimension * (len(part) - len(links) + 1)
    return total


def _pole_connectivity(lines: tuple[JointLine, ...], found: Chains) -> int | None:
    """Return C: freedoms between the poles less those that paths keep to themselves (eq. 2.11)."""
    if len(found.poles) != 2 or not found.paths:
        return None
    by_name = {line.name: line for line in lines}
    freedoms = [sum(by_name[name].freedoms for name in path) for path in found.paths]
    d = by_name[found.paths[0][0]].dimension
    mobility = sum(freedoms) - d * (len(freedoms) - 1)
    return max(0, min(d, mobility - sum(max(0, f - d) for f in freedoms)))
