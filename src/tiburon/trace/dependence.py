"""Which results depend on which inputs, without computing a derivative.

Each node carries a bit mask, a Python integer with one bit per input element (or per result, going
the other way), so one sweep over the graph answers for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tiburon.trace.derivative_rules import SELECTIONS, differentiable_arguments
from tiburon.trace.graph import Graph

__all__ = ["cheaper_mode", "dependence", "dependence_masks"]

_WITHOUT_PRODUCT = SELECTIONS | {"add", "sub", "neg", "require", "call", "result"}


def dependence_masks(
    graph: Graph, order: Sequence[int], sources: Mapping[int, int]
) -> dict[int, int]:
    """Return for each node the mask of the sources whose change can change it.

    Args:
        graph: The graph.
        order: The nodes to visit, arguments first.
        sources: Mask of each source node.
    """
    masks: dict[int, int] = {}
    for node in order:
        mask = sources.get(node, 0)
        if not mask:
            for argument in differentiable_arguments(graph, node):
                mask |= masks.get(argument, 0)
        masks[node] = mask
    return masks


def dependence(graph: Graph, roots: Sequence[int], leaves: Sequence[int]) -> NDArray[np.bool_]:
    """Return which roots can change when which leaves change, shape (roots, leaves).

    True does not promise a derivative other than 0 (terms may cancel); False promises 0.
    """
    sources = {leaf: 1 << place for place, leaf in enumerate(leaves)}
    masks = dependence_masks(graph, graph.live(roots), sources)
    pattern = np.zeros((len(roots), len(leaves)), dtype=np.bool_)
    for row, root in enumerate(roots):
        for column in range(len(leaves)):
            pattern[row, column] = bool(masks.get(root, 0) >> column & 1)
    return pattern


def cheaper_mode(
    graph: Graph, roots: Sequence[int], leaves: Sequence[int]
) -> Literal["forward", "reverse"]:
    """Return the mode that gives the whole Jacobian with fewer products and sums.

    Forward mode works once per edge of the graph and leaf behind it, reverse mode once per edge
    and root in front of it. Edges of sums and choices need no product; where k terms meet, k - 1
    sums are needed; a product with the 1 a derivative starts from is none.
    """
    order = graph.live(roots)
    bits = {leaf: 1 << place for place, leaf in enumerate(leaves)}
    behind = dependence_masks(graph, order, bits)
    front = dict.fromkeys(order, 0)
    for place, root in enumerate(roots):
        front[root] |= 1 << place
    starts = set(roots)
    arriving = dict.fromkeys(order, 0)
    forward = reverse = 0
    for node in reversed(order):
        if not behind[node]:
            continue
        # every user has been visited: what arrives here is complete
        rows = front[node].bit_count()
        reverse += max(arriving[node] - rows, 0)
        moving = [a for a in differentiable_arguments(graph, node) if behind[a]]
        terms = sum(behind[a].bit_count() for a in moving)
        forward += max(terms - behind[node].bit_count(), 0)
        products = graph.ops[node] not in _WITHOUT_PRODUCT
        for argument in moving:
            front[argument] |= front[node]
            arriving[argument] += rows
            if products:
                forward += 0 if argument in bits else behind[argument].bit_count()
                reverse += 0 if node in starts and rows == 1 else rows
    return "reverse" if reverse < forward else "forward"
