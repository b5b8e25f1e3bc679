"""Exact operation counts of a graph, as the tables of the sources compare them.

Only executed operations count: dead nodes cost nothing, and divisions by the same value share its
reciprocal as in `tiburon.trace.lower`. A fused multiply-add counts as a product and a sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType

from tiburon.errors import TraceError, UnknownNameError
from tiburon.record import field, record
from tiburon.trace.graph import CountedCallee, Graph, Nodes, Region
from tiburon.trace.program import Program

_FREE = frozenset({"const", "truth", "input", "capture", "result", "copy"})
_SELECTIONS = frozenset(
    {"where", "require", "min", "max", "less", "less_equal", "equal", "and", "or", "not"}
)


@record
class OperationCount:
    """How many operations of each kind a computation needs.

    Counts add with `+`; `count * n` is the cost of n repetitions.

    Attributes:
        multiplications: Products, those with a shared reciprocal included.
        additions: Sums and differences.
        divisions: Divisions and reciprocals.
        square_roots: Square roots.
        sine_cosine_pairs: Angles of which the sine, the cosine or both are taken.
        negations: Changes of sign that could not be moved into a sum.
        selections: Comparisons, minima, maxima, choices and operations on truth values.
        functions: All other functions (exp, atan2, abs, ...) by name.
    """

    multiplications: int = 0
    additions: int = 0
    divisions: int = 0
    square_roots: int = 0
    sine_cosine_pairs: int = 0
    negations: int = 0
    selections: int = 0
    functions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {name: self.functions[name] for name in sorted(self.functions)}
        # a frozen record must not change through its mapping either
        object.__setattr__(self, "functions", MappingProxyType(kept))

    def __add__(self, other: object) -> OperationCount:
        if not isinstance(other, OperationCount):
            return NotImplemented
        functions = Counter(self.functions)
        functions.update(other.functions)
        sums = {name: getattr(self, name) + getattr(other, name) for name in _PLAIN_FIELDS}
        return OperationCount(functions=functions, **sums)

    def __mul__(self, times: int) -> OperationCount:
        if not isinstance(times, int):
            return NotImplemented
        products = {name: getattr(self, name) * times for name in _PLAIN_FIELDS}
        functions = {name: number * times for name, number in self.functions.items()}
        return OperationCount(functions=functions, **products)

    __rmul__ = __mul__

    def __hash__(self) -> int:
        return hash((*(getattr(self, name) for name in _PLAIN_FIELDS), *self.functions.items()))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by values: the read-only mapping itself cannot travel."""
        values = tuple(getattr(self, name) for name in _PLAIN_FIELDS)
        return OperationCount, (*values, dict(self.functions))

    @property
    def total(self) -> int:
        """All operations, a sine-cosine pair counting as one."""
        plain: list[int] = [getattr(self, name) for name in _PLAIN_FIELDS]
        return sum(plain) + sum(self.functions.values())

    def __str__(self) -> str:
        parts = [
            f"{getattr(self, name)} {name.replace('_', ' ')}"
            for name in _PLAIN_FIELDS
            if getattr(self, name)
        ]
        parts += [f"{number} {name}" for name, number in self.functions.items() if number]
        return ", ".join(parts) or "no operations"


_PLAIN_FIELDS = tuple(item.name for item in fields(OperationCount) if item.name != "functions")


def count(program: Program, constants: Iterable[str] = ()) -> OperationCount:
    """Count the operations of one evaluation of a program.

    A call of a region or primitive counts the operations of its callee; a `while_loop` counts one
    iteration, because the number of iterations depends on the data.

    Args:
        program: The traced program.
        constants: Names of inputs that are known in advance, such as masses and lengths: operations
            on them alone are precomputed and cost nothing.

    Returns:
        The count.
    """
    names = set(constants)
    unknown = names - {item.name for item in program.inputs}
    if unknown:
        raise UnknownNameError(
            "input", min(unknown), [item.name for item in program.inputs], where=program.name
        )
    places = {place for place, item in enumerate(program.inputs) if item.name in names}
    return count_graph(program.graph, program.roots, places)


def count_graph(
    graph: Graph, roots: Iterable[int], constants: Collection[int] = ()
) -> OperationCount:
    """Count the operations some nodes of a graph depend on.

    Args:
        graph: The graph.
        roots: The nodes to compute.
        constants: Places of the inputs that are known beforehand.
    """
    live = graph.live(roots)
    known = _known_beforehand(graph, live, constants)
    counted = [node for node in live if node not in known]
    ops = Counter(graph.ops[node] for node in counted)
    for op in _FREE:
        ops.pop(op, None)
    divisions, products = _divisions(graph, counted, known)
    del ops["div"]
    angles = {graph.args[node][0] for node in counted if graph.ops[node] in ("sin", "cos")}
    del ops["sin"], ops["cos"]
    total = OperationCount(
        multiplications=ops.pop("mul", 0) + products,
        additions=ops.pop("add", 0) + ops.pop("sub", 0),
        divisions=divisions,
        square_roots=ops.pop("sqrt", 0),
        sine_cosine_pairs=len(angles),
        negations=ops.pop("neg", 0),
        selections=sum(ops.pop(op, 0) for op in _SELECTIONS),
        functions={op: number for op, number in ops.items() if op != "call"},
    )
    for node in counted:
        if graph.ops[node] == "call":
            total = total + _count_call(graph.payloads[node])
    return total


def _known_beforehand(graph: Graph, live: Sequence[int], constants: Collection[int]) -> set[int]:
    """Return the nodes that depend on constant inputs alone; none if there are no such inputs."""
    known: set[int] = set()
    if not constants:
        return known
    for node in live:
        op = graph.ops[node]
        if op == "input":
            is_known = graph.payloads[node][0] in constants
        else:
            is_known = op in ("const", "truth") or (
                bool(graph.args[node]) and all(x in known for x in graph.args[node])
            )
        if is_known:
            known.add(node)
    return known


def _divisions(graph: Graph, counted: Nodes, known: set[int]) -> tuple[int, int]:
    """Return divisions and products when divisions by one thing share its reciprocal."""
    numerators: dict[int, list[int]] = {}
    for node in counted:
        if graph.ops[node] == "div":
            numerator, divisor = graph.args[node]
            numerators.setdefault(divisor, []).append(numerator)
    divisions = products = 0
    for divisor, group in numerators.items():
        if divisor in known:
            # the reciprocal, too, is known beforehand
            products += len(group)
            continue
        divisions += 1
        if len(group) > 1:
            products += sum(graph.constant_of(numerator) != 1.0 for numerator in group)
    return divisions, products


def _count_call(callee: object) -> OperationCount:
    if isinstance(callee, CountedCallee):
        return callee.count()
    if isinstance(callee, Region):
        return count_graph(callee.graph, callee.roots)
    name = getattr(callee, "name", type(callee).__name__)
    raise TraceError(
        f"{name}: has no operation count; give its class a method count() -> OperationCount",
        function=str(name),
    )
