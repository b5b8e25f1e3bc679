"""Links and joints of a robot as points and lines of a graph.

Bodies that are welded together are one link. Lines know how many freedoms d the part they belong to
can give its links, which the Chebyshev-Gruebler count needs: 6 in space, 3 in a plane or about a
point, 4 where all turns have one direction (Nahon 1991, eq. 2.2 has 6 and 3).
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiburon.loops.topology_screws import joint_screws
from tiburon.model import LoopClosure, Model
from tiburon.model.body import WORLD
from tiburon.record import record

if TYPE_CHECKING:
    import networkx

__all__ = ["JointLine", "graph_of", "joint_lines", "links_of"]

Array = NDArray[np.float64]

POSITIONS = 3
"""Random positions that tell which motions the joints of a part can give."""

RANK = 1e-8
"""Singular value, relative to the largest, that rounding alone explains."""


@record
class JointLine:
    """A joint as a line of the graph of links."""

    name: str
    """Of the joint; for one that closes a loop, of the loop."""

    first: str
    """The link it stands on, by its first body."""

    second: str
    """The link it moves."""

    freedoms: int
    """How many velocity variables it has; a joint that follows another has none."""

    is_cut: bool
    """Whether it closes a loop instead of holding a body of the tree."""

    is_powered: bool
    """Whether an actuator or a cylinder drives it."""

    part: int = -1
    """Number of the closed part it belongs to; -1 where it is in no cycle."""

    dimension: int = 0
    """Freedoms that links of this part can have among each other: 6, 3 in a plane."""

    @property
    def is_placeholder(self) -> bool:
        """Whether it forbids nothing that the others of its part could do: it counts only."""
        return self.part >= 0 and self.freedoms >= self.dimension


def links_of(model: Model) -> tuple[dict[str, str], tuple[tuple[str, ...], ...]]:
    """Return the link of each body and frame, and the bodies of each link, the world's first.

    Args:
        model: The robot.

    Returns:
        By name of body, frame or "world", the name of the first body of its link; and all links.
    """
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
    # bodies with mass name their link, rather than those that only carry a frame
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
    """Return all joints between different links.

    Args:
        model: The robot.
        link_of: From `links_of`.
    """
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
    """Return the graph of links and joints, joints by their names as keys.

    Args:
        lines: The joints.
        without: Joints to leave out; their links stay.
    """
    import networkx

    graph: networkx.MultiGraph[str] = networkx.MultiGraph()
    for line in lines:
        graph.add_nodes_from([line.first, line.second])
        if line.name not in without:
            graph.add_edge(line.first, line.second, key=line.name)
    return graph


def _with_parts(model: Model, lines: list[JointLine]) -> tuple[JointLine, ...]:
    """Return the lines with the closed part they belong to and the freedoms it knows.

    Parts are what no single link holds together. Screws of their joints, seen from one of their
    links at random positions, span all motions they can ever give.
    """
    parts = _closed_parts(lines)
    if not parts:
        return tuple(lines)
    rng = np.random.default_rng(3)
    spans: list[list[Array]] = [[] for _ in parts]
    by_name = {line.name: line for line in lines}
    for _ in range(POSITIONS):
        at = joint_screws(model, model.random_state(rng, limits=False)[0], rng)
        for span, part in zip(spans, parts, strict=True):
            root = by_name[part[0]].first
            binding = [at.of[name].columns for name in part if by_name[name].freedoms < 6]
            span.extend(at.seen_from(root, S) for S in binding if S.size)
    numbered: dict[str, tuple[int, int]] = {}
    for number, (span, part) in enumerate(zip(spans, parts, strict=True)):
        size = _rank(np.hstack(span)) if span else 0
        numbered.update(dict.fromkeys(part, (number, size)))
    return tuple(
        replace(line, part=numbered[line.name][0], dimension=numbered[line.name][1])
        if line.name in numbered
        else line
        for line in lines
    )


def _closed_parts(lines: list[JointLine]) -> list[tuple[str, ...]]:
    """Return the joints of each part that holds a cycle, in the order of the lines."""
    import networkx

    # joints as points of their own, so that two joints between the same links stay two
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
    """Return how many columns are independent; each is scaled to length 1 first."""
    lengths = np.linalg.norm(columns, axis=0)
    scaled = columns[:, lengths > 0.0] / lengths[lengths > 0.0]
    return int(np.linalg.matrix_rank(scaled, rtol=RANK)) if scaled.size else 0
