"""The digest of a traced program: a key for its machine code, equal in all processes.

It covers all that code generation reads: inputs and outputs with their names and shapes, every live
node with its operation, arguments and constant, the body of every region and the form of every
primitive. The 64-bit keys of nodes serve tracing, which compares them in one process; 128 bits over
the content itself serve a cache that many processes and versions share.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Sequence
from typing import Any

from tiburon.trace.graph import Callee, Graph
from tiburon.trace.program import Program
from tiburon.trace.regions import GraphRegion

try:
    # hashlib would load OpenSSL, which takes 4 ms
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

# the last version that writes equal values as equal bytes: later ones depend on reference counts
_MARSHAL_VERSION = 2
_ROOM = __name__.rpartition(".")[0] + "."
_THIS_PROCESS = os.urandom(16)


def program_digest(program: Program) -> str:
    """Return 32 hexadecimal digits that determine the machine code of a program.

    The names of the program and of its regions are left out: code does not depend on them. Nodes
    count in the order they were traced, which code generation keeps.
    """
    inputs = [(i.name, i.shape, i.parameter, i.described) for i in program.inputs]
    outputs = [(o.name, o.shape) for o in program.outputs]
    body = _body(program.graph, program.roots, (), {})
    return _digest((inputs, outputs, program.single, body)).hex()


def _digest(content: Any) -> bytes:
    return bytes(blake2b(marshal.dumps(content, _MARSHAL_VERSION), digest_size=16).digest())


def _body(
    graph: Graph, roots: Sequence[int], inputs: Sequence[int], known: dict[Any, bytes]
) -> tuple[Any, ...]:
    """Return the live nodes of a graph as plain data, numbered from 0, with roots and inputs."""
    live = graph.live([*roots, *inputs])
    number = {node: place for place, node in enumerate(live)}
    ops, args, payloads = graph.ops, graph.args, graph.payloads
    nodes = []
    for node in live:
        payload = payloads[node]
        if ops[node] == "call":
            payload = _callee_digest(payload, known)
        nodes.append((ops[node], tuple([number[a] for a in args[node]]), payload))
    return nodes, [number[node] for node in roots], [number[node] for node in inputs]


def _callee_digest(callee: Callee, known: dict[Any, bytes]) -> bytes:
    """Return the digest of a region or primitive.

    Args:
        callee: The region or primitive.
        known: Digests of regions so far: most calls of a function share one graph.
    """
    kind = type(callee)
    form: tuple[int, ...] = getattr(callee, "form", ())
    written: tuple[Any, ...] = (kind.__module__, kind.__qualname__, form)
    if not kind.__module__.startswith(_ROOM):
        # it is implemented outside of this package, in files that no stamp covers
        written = (*written, _THIS_PROCESS)
    if not isinstance(callee, GraphRegion):
        return _digest((*written, callee.name, callee.key))
    place = (kind, form, id(callee.graph), callee.inputs, callee.roots)
    if place not in known:
        known[place] = _digest((*written, _body(callee.graph, callee.roots, callee.inputs, known)))
    return known[place]
