"""Visits as calls on a tape: one traced function per class of visits.

Inlining every visit of a large model gives code that takes minutes to compile. Here a visit is
traced once per class: bodies with the same kind of joint, the same pattern of zeros and ones in
their constants, and the same form of arguments. Values that differ within a class (constants, a
joint's pitch or radius, inertial parameters, values of the parent) become arguments of the call.
Bodies with rare patterns share the general class of their joint, in which every value is an
argument; otherwise an irregular tree would have as many classes as bodies. The graph then calls few
functions, which native code runs as a tape: a loop over rows of a table.

Only the drivers of `tiburon.algorithms.traversal` use this module; algorithms do not depend on it.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, SupportsIndex, overload

import numpy as np

from tiburon.errors import TraceError
from tiburon.model import Joint, Plan, PlanBody
from tiburon.record import record
from tiburon.spatial import Rotation, Scalar, Scalars, Transform, Translation
from tiburon.trace.array import as_traced
from tiburon.trace.graph import Graph
from tiburon.trace.program import current_graph, recording
from tiburon.trace.regions import FunctionRegion
from tiburon.trace.value import Value

MIN_CLASS_SIZE = 8
"""Smallest number of bodies with a common pattern for a class of its own."""

_active: ContextVar[StepRecorder | None] = ContextVar("tiburon_steps", default=None)


def recorder() -> StepRecorder | None:
    """Return the recorder of visits in this context; None if visits are inlined."""
    found, graph = _active.get(), current_graph()
    if found is None or graph is None or found.graph is graph:
        return found if graph is not None else None
    return found.inside(graph)


@contextlib.contextmanager
def taping(plan: Plan | None) -> Iterator[None]:
    """Record visits to a plan's bodies as calls in the traced graph.

    Args:
        plan: The bodies; None to inline visits.
    """
    graph = current_graph()
    token = _active.set(StepRecorder(graph, plan) if plan and graph is not None else None)
    try:
        yield
    finally:
        _active.reset(token)


class JointVector(list[Scalar]):
    """Values of all joints, such as q or v; a visit reads those of its body."""

    @overload
    def __getitem__(self, key: SupportsIndex) -> Scalar: ...

    @overload
    def __getitem__(self, key: slice) -> list[Scalar]: ...

    def __getitem__(self, key: Any) -> Any:
        """Return one value, or those of a body; inside a recorded visit these are its arguments."""
        if isinstance(key, Local):
            return key.take(self)
        return super().__getitem__(key)


def scalars(array: Any) -> JointVector:
    """Return the elements of an array, traced or not, as a `JointVector`."""
    return JointVector(as_traced(array).reshape(-1).tolist())


class Local:
    """Stands for the `q` or `v` slice of the body of the traced visit."""

    def __init__(self, name: str, step: Any) -> None:
        self._name = name
        self._step = step

    def take(self, vector: JointVector) -> list[Scalar]:
        """Return the body's values of a vector."""
        found: list[Scalar] = self._step.local(vector, self._name)
        return found


class NoIndex:
    """Stands for the index of a body, on which a recorded visit must not depend."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __index__(self) -> int:
        raise TraceError(
            f"a visit reads body.{self._what}: pass values of a body to the driver as one more "
            "sequence with an entry per body"
        )

    def __eq__(self, other: object) -> bool:
        self.__index__()
        return False

    __hash__ = None  # type: ignore[assignment]


@record
class _Class:
    """The traced function of one class of visits."""

    region: FunctionRegion | None
    vectors: tuple[tuple[JointVector, str, tuple[float | None, ...]], ...]
    captures: tuple[int, ...]
    kept: tuple[int, ...]
    structure: Any
    roots: tuple[tuple[str, Any], ...]


class StepRecorder:
    """Records visits as calls.

    Attributes:
        graph: The graph that the calls are added to.
    """

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph = graph
        self._classes: dict[Any, list[_Class]] = {}
        patterns = [_pattern(body) for body in plan.bodies]
        count = Counter(patterns)
        self._rare = [count[pattern] < MIN_CLASS_SIZE for pattern in patterns]
        self._regions: dict[int, StepRecorder] = {}

    def inside(self, graph: Graph) -> StepRecorder:
        """Return the recorder for a region of the graph, such as the dynamics of an integrator."""
        if id(graph) not in self._regions:
            inner = copy.copy(self)
            inner.graph = graph
            inner._classes = {}
            self._regions[id(graph)] = inner
        return self._regions[id(graph)]

    def run(self, visit: Callable[..., Any], body: PlanBody, values: Sequence[Any]) -> Any:
        """Record one visit.

        Args:
            visit: Called as ``visit(body, *values)``; the same object for all bodies of a pass.
            body: The body visited.
            values: Arguments from the driver.

        Returns:
            The result of the visit, with values of the outer graph.
        """
        joint, offset = body.joint.without_offset()
        rare = self._rare[body.index]
        if rare:
            offset = offset or body.joint.no_offset()
        placement = _general(body.placement) if rare else body.placement
        leaves: list[Any] = list(offset)
        parts = (
            joint.parameters(),
            placement,
            body.inertia,
            body.added,
            body.armature,
            tuple(values),
        )
        structure = flat(parts, leaves, lift_all=rare)
        # in a general class, constants and traced values may occupy the same place
        pattern = None if rare else tuple(isinstance(leaf, Value) for leaf in leaves)
        # the visit itself, since the id of a deleted closure may be reused
        key = (visit, joint_code(joint), len(offset), structure, pattern)
        members = self._classes.setdefault(key, [])
        for known in members:
            if all(
                _constants(vector[getattr(body, name)]) == constants
                for vector, name, constants in known.vectors
            ):
                break
        else:
            known = _Tracing(
                self.graph, visit, body, joint, len(offset), leaves, structure
            ).finish()
            members.append(known)
        return self._call(known, body, leaves)

    def _call(self, known: _Class, body: PlanBody, leaves: list[Any]) -> Any:
        graph = self.graph
        operands = [*leaves]
        for vector, name, _ in known.vectors:
            operands += [x for x in vector[getattr(body, name)] if isinstance(x, Value)]
        nodes = [
            graph.adopt(x.graph, x.node) if isinstance(x, Value) else graph.const(x)
            for x in operands
        ]
        nodes += known.captures
        results: list[int] = []
        if known.region is not None:
            results = graph.call(known.region, [nodes[k] for k in known.kept])
        found: list[Any] = []
        for kind, what in known.roots:
            if kind == "constant":
                found.append(what)
            elif kind == "operand":
                found.append(operands[what])
            else:
                found.append(Value(graph, results[what]))
        return unflat(known.structure, iter(found))


class _Tracing:
    """The tracing of a visit for its class."""

    def __init__(
        self,
        graph: Graph,
        visit: Callable[..., Any],
        body: PlanBody,
        joint: Joint,
        offsets: int,
        leaves: Sequence[Any],
        structure: Any,
    ) -> None:
        self._inner = Graph(graph)
        self._body = body
        self._operands = [self._inner.input(0, k) for k in range(len(leaves))]
        given = [Value(self._inner, node) for node in self._operands]
        parameters, placement, inertia, added, armature, values = unflat(
            structure, iter(given[offsets:])
        )
        self._vectors: list[tuple[JointVector, str, tuple[float | None, ...]]] = []
        self._taken: dict[tuple[int, str], list[Scalar]] = {}
        index: Any = NoIndex("index")
        parent: Any = NoIndex("parent")
        q: Any = Local("q", self)
        v: Any = Local("v", self)
        stand_in = dataclasses.replace(
            body,
            index=index,
            name="",
            parent=parent,
            children=(),
            q=q,
            v=v,
            joint=joint.with_parameters(parameters).with_offset(given[:offsets]),
            placement=placement,
            inertia=inertia,
            added=added,
            armature=armature,
        )
        self._name = getattr(visit, "__name__", "visit")
        self._visit = visit
        self._arguments = (stand_in, *values)

    def local(self, vector: JointVector, name: str) -> list[Scalar]:
        """Return the body's values of a vector as arguments of the visit."""
        key = (id(vector), name)
        if key not in self._taken:
            constants = _constants(vector[getattr(self._body, name)])
            taken: list[Scalar] = []
            for constant in constants:
                if constant is not None:
                    taken.append(constant)
                    continue
                node = self._inner.input(1, len(self._operands))
                self._operands.append(node)
                taken.append(Value(self._inner, node))
            self._vectors.append((vector, name, constants))
            self._taken[key] = taken
        return self._taken[key]

    def finish(self) -> _Class:
        """Trace the visit, and determine which results must be computed."""
        inner = self._inner
        # nested visits are inlined
        token = _active.set(None)
        try:
            with recording(inner):
                result = self._visit(*self._arguments)
                if type(result) is tuple and result and callable(result[-1]):
                    # a value for the parent, which all bodies of the class must have
                    result = (*result[:-1], result[-1]())
        finally:
            _active.reset(token)
        leaves: list[Any] = []
        structure = flat(result, leaves, lift_all=True)
        operand_of = {node: place for place, node in enumerate(self._operands)}
        roots: list[tuple[str, Any]] = []
        computed: dict[int, int] = {}
        for leaf in leaves:
            if not isinstance(leaf, Value):
                roots.append(("constant", leaf))
                continue
            node = leaf.node if leaf.graph is inner else inner.adopt(leaf.graph, leaf.node)
            constant = inner.constant_of(node)
            if constant is not None:
                roots.append(("constant", constant))
            elif node in operand_of:
                roots.append(("operand", operand_of[node]))
            else:
                roots.append(("computed", computed.setdefault(node, len(computed))))
        captures = [inner.node("capture", (), k, k + 1) for k in range(len(inner.captures))]
        inputs = [*self._operands, *captures]
        live = set(inner.live(computed))
        kept = tuple(place for place, node in enumerate(inputs) if node in live)
        region = None
        if computed:
            region = FunctionRegion(self._name, inner, [inputs[k] for k in kept], list(computed))
        return _Class(
            region, tuple(self._vectors), tuple(inner.captures), kept, structure, tuple(roots)
        )


def _pattern(body: PlanBody) -> Any:
    """Return the pattern of a body that determines its class."""
    leaves: list[Any] = []
    joint, offset = body.joint.without_offset()
    own = (joint.parameters(), body.placement, body.inertia, body.added, body.armature)
    structure = flat(own, leaves)
    traced = tuple(isinstance(x, Value) for x in leaves)
    return (joint_code(joint), len(offset), structure, traced)


def joint_code(joint: Joint) -> tuple[object, ...]:
    """Return what the code of a joint depends on, independent of its parameter values."""
    count = len(joint.parameters())
    return joint.with_parameters((0.0,) * count).structure() if count else joint.structure()


def _general(transform: Transform) -> Transform:
    """Return a constant transform in general form: translation, then rotation."""
    return Transform((Translation(transform.translation), Rotation(transform.rotation)))


def _constants(values: Scalars) -> tuple[float | None, ...]:
    """Return the value of each constant, None for traced values."""
    return tuple(None if isinstance(x, Value) else float(x) for x in values)


def flat(value: Any, leaves: list[Any], *, lift_all: bool = False) -> Any:
    """Take a nested value apart into leaves and a hashable form.

    Unlike for regions, records without traced values are flattened too, so that their constants can
    differ within a class.

    Args:
        value: Scalars, and tuples, named tuples, lists and dataclasses of scalars.
        leaves: Receives the scalars.
        lift_all: Whether zeros and ones are leaves, too; else they are part of the form.

    Raises:
        TraceError: If there is something else in it.
    """
    kind = type(value)
    if kind is Value:
        constant = value.graph.constant_of(value.node)
        if constant is None:
            leaves.append(value)
            return None
        kind, value = float, constant
    if kind is float or issubclass(kind, np.floating):
        number = float(value)
        # zeros and ones are structure: they fold
        if not lift_all and number in (0.0, 1.0, -1.0):
            return ("constant", number)
        leaves.append(number)
        return None
    if kind is tuple or kind is list:
        return ("sequence", kind, (), _flat_parts(value, leaves, lift_all))
    names = _record_fields(kind)
    if names is not None:
        parts = [getattr(value, name) for name in names]
        return ("record", kind, names, _flat_parts(parts, leaves, lift_all))
    if issubclass(kind, tuple):
        return ("named", kind, (), _flat_parts(value, leaves, lift_all))
    if value is not None and not isinstance(value, (int, str, type)):
        raise TraceError(
            f"a visit returns {kind.__name__}; expected scalars, and tuples, named tuples, lists "
            "and dataclasses of scalars"
        )
    return ("constant", value)


def _flat_parts(parts: Sequence[Any], leaves: list[Any], lift_all: bool) -> tuple[Any, ...]:
    """Take each of some values apart; return their forms."""
    forms: list[Any] = []
    for part in parts:
        # most parts by far
        if type(part) is Value and part.graph.ops[part.node] != "const":
            leaves.append(part)
            forms.append(None)
        else:
            forms.append(flat(part, leaves, lift_all=lift_all))
    return tuple(forms)


_fields: dict[type, tuple[str, ...] | None] = {}


def _record_fields(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a dataclass, None for other types."""
    if kind not in _fields:
        named = dataclasses.is_dataclass(kind)
        _fields[kind] = tuple(x.name for x in dataclasses.fields(kind)) if named else None
    return _fields[kind]


def unflat(form: Any, leaves: Iterator[Any]) -> Any:
    """Put a nested value together again."""
    if form is None:
        return next(leaves)
    if form[0] == "constant":
        return form[1]
    parts = [unflat(part, leaves) for part in form[3]]
    if form[0] == "record":
        return form[1](**dict(zip(form[2], parts, strict=True)))
    return form[1](*parts) if form[0] == "named" else form[1](parts)
