"""Cycles, poles and paths of a graph of links and joints (Nahon 1991, sections 2.1 and 2.2)."""

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import networkx

__all__ = ["Chains", "Cycle", "chains", "cycle_basis"]

Cycle = tuple[tuple[str, int], ...]
"""Joints of a cycle in order; 1 where passed from first link to second, -1 the other way."""

MOST_SHORTEST = 24
"""Cycles up to which the shortest are searched, which takes the cube of their number."""


class Chains(NamedTuple):
    """What class a graph is of, and the paths it consists of."""

    kind: str
    poles: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    """Joints of each path between the two poles."""
    open_paths: tuple[tuple[str, ...], ...]
    """Joints of each path that hangs from a pole."""


def chains(
    graph: "networkx.MultiGraph[str]", root: str, poles: tuple[str, str] | None = None
) -> Chains:
    """Classify a graph and split it into parallel and star chains where it can be split.

    Args:
        graph: Links as points, joints as lines keyed by name.
        root: The link that poles are counted from where it is one of them.
        poles: Two links that paths are to join, where degrees do not tell.

    Returns:
        The class (definitions 2.13 to 2.17), and poles and paths (definitions 2.18, 2.19), which
        stay empty where the graph is neither a parallel chain nor a star nor both.
    """
    core = _core(graph)
    kind = _kind(graph, core)
    poles_found = _poles(graph, core, root) if poles is None else poles
    if not poles_found:
        return Chains(kind, (), (), ())
    paths: list[tuple[str, ...]] = []
    open_paths: list[tuple[str, ...]] = []
    for number, pole in enumerate(poles_found):
        others = set(poles_found) - {pole}
        for joint, link in _lines_at(graph, pole):
            walked, end = _walk(graph, pole, joint, link, set(poles_found))
            if walked is None:
                return Chains(kind, (), (), ())
            if end in others and number == 0:
                paths.append(walked)
            elif end not in poles_found:
                open_paths.append(walked)
    found = sum(map(len, paths)) + sum(map(len, open_paths))
    if found != graph.number_of_edges():
        return Chains(kind, (), (), ())
    # by name, so that the order does not depend on which joints close loops
    paths.sort(key=lambda path: [_by_number(name) for name in path])
    return Chains(kind, poles_found, tuple(paths), tuple(open_paths))


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return a key that puts leg_2 before leg_10."""
    return [(word, int(part or 0)) for word, part in re.findall(r"(\D*)(\d*)", name)]


def _kind(graph: "networkx.MultiGraph[str]", core: "networkx.MultiGraph[str]") -> str:
    """Return simple or complex, and open, closed or hybrid."""
    degrees = [degree for _, degree in graph.degree()]
    word = "simple" if max(degrees, default=0) <= 2 else "complex"
    if core.number_of_edges() == 0:
        return f"{word} open"
    return f"{word} hybrid" if 1 in degrees else f"{word} closed"


def _core(graph: "networkx.MultiGraph[str]") -> "networkx.MultiGraph[str]":
    """Return what is left when open ends are taken off one by one."""
    core = graph.copy()
    ends = [node for node, degree in core.degree() if degree <= 1]
    while ends:
        core.remove_nodes_from(ends)
        ends = [node for node, degree in core.degree() if degree <= 1]
    return core


def _poles(
    graph: "networkx.MultiGraph[str]", core: "networkx.MultiGraph[str]", root: str
) -> tuple[str, ...]:
    """Return the links that paths start from, as far as their numbers of joints tell."""
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
    # a path from a pole back to itself joins nothing
    return (None if link == start and before == start else tuple(walked)), link


def cycle_basis(
    graph: "networkx.MultiGraph[str]", found: Chains, ends: dict[str, tuple[str, str]]
) -> tuple[Cycle, ...]:
    """Return independent cycles: neighboring paths of a parallel chain, else short ones.

    Args:
        graph: Links as points, joints as lines keyed by name.
        found: Its paths.
        ends: First and second link of each joint.
    """
    if len(found.poles) == 2:
        start = found.poles[0]
        ways = [_signed(path, start, ends) for path in found.paths]
        return tuple(
            (*one, *((name, -sign) for name, sign in reversed(other)))
            for one, other in pairwise(ways)
        )
    return tuple(_signed(cycle, None, ends) for cycle in _short_cycles(graph))


def _signed(path: tuple[str, ...], start: str | None, ends: dict[str, tuple[str, str]]) -> Cycle:
    """Return joints in order with the sense in which each is passed."""
    if start is None:
        # a cycle starts at the link its last joint and its first share
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

    # joints as points of their own, so that two joints between the same links make a cycle
    apart: networkx.Graph[tuple[str, str]] = networkx.Graph()
    for one, other, key in graph.edges(keys=True):
        apart.add_edge(("link", one), ("joint", key))
        apart.add_edge(("joint", key), ("link", other))
    count = apart.number_of_edges() - apart.number_of_nodes()
    count += networkx.number_connected_components(apart) if apart.number_of_nodes() else 0
    if not count:
        return []
    search = networkx.minimum_cycle_basis if count <= MOST_SHORTEST else networkx.cycle_basis
    return [tuple(name for kind, name in cycle if kind == "joint") for cycle in search(apart)]
