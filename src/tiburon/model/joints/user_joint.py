"""User-defined joints, keyed by their traced graph.

A class derived from a joint of this package may override any of its methods. Its type and
parameters then do not determine what it computes, and its frames, offset and parameters must not be
changed as for its base class.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tiburon.model.joint_constraints import RelativeMotion, Slip
from tiburon.model.joints.joint import Joint
from tiburon.model.value_checks import Matrix3
from tiburon.spatial import Force, Scalar, Scalars
from tiburon.spatial.vec3 import IDENTITY3
from tiburon.trace.declared import is_declared, structure_text

# tracing is imported on first use, so that other robots start faster
if TYPE_CHECKING:
    from tiburon.trace.program import Program


class UserJoint:
    """A joint defined by the results of its methods alone.

    It replaces the joint in a plan, where built-in joints are rotated to coordinate axes and share
    code with others of the same structure.
    """

    def __init__(self, joint: Joint, graph: tuple[object, ...] | None = None) -> None:
        self._joint = joint
        self._graph = joint_graph(joint) if graph is None else graph

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._joint, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return UserJoint, (self._joint, self._graph)

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on: the graph of all methods."""
        return self._graph

    def at(self, time: Scalar) -> "UserJoint":
        """Return the joint at a time [s]."""
        return UserJoint(self._joint.at(time), self._graph)

    def canonical(self) -> tuple[Matrix3, "UserJoint"]:
        """Return its own axes: its methods may ignore its axis."""
        return IDENTITY3, self

    def without_offset(self) -> tuple["UserJoint", tuple[float, ...]]:
        """Return the joint and no offset: its methods may not add one."""
        return self, ()

    def no_offset(self) -> tuple[float, ...]:
        """Return no offset."""
        return ()

    def with_offset(self, offset: Scalars) -> "UserJoint":
        """Return the joint, which keeps its own offset."""
        return self

    def parameters(self) -> tuple[float, ...]:
        """Return an empty tuple: its parameters are not known."""
        return ()

    def with_parameters(self, numbers: Scalars) -> "UserJoint":
        """Return the joint."""
        return self


Joint.register(UserJoint)


def as_laid_out(joint: Joint) -> Joint:
    """Return the joint for a plan: itself, unless it has user code."""
    return joint if is_declared(joint) else cast(Joint, UserJoint(joint))


def joint_graph(joint: Joint) -> tuple[object, ...]:
    """Trace all methods of a joint that compiled code may call; return their key.

    Equal results mean equal code, in any process.
    """
    from tiburon.trace.program import Input, trace

    forms: list[object] = []
    dof = joint.nv if joint.follows is None else 1
    positions = joint.nq if joint.follows is None else 1

    def run(time: Any, *arrays: Any) -> Any:
        found: list[Any] = []
        given = _Given(*(tuple(array.tolist()) for array in arrays))
        for name, call in _CALLS.items():
            try:
                leaves: list[Any] = []
                form = _take(call(joint.at(time), given), leaves)
            except Exception as error:
                # a kernel that calls it raises the error
                form, leaves = type(error).__qualname__, []
            forms.append((name, form))
            found += leaves
        return found

    sizes = {"q": positions, "q1": positions, "v": dof, "f": 6, "relative": 24}
    inputs = [Input("time", ()), *(Input(name, (size,)) for name, size in sizes.items())]
    program: Program = trace(run, inputs, name="joint")
    plain = (joint.nq, joint.nv, joint.follows or "", joint.depends_on_time, joint.is_rigid)
    values = [getattr(joint, name, None) for name in _fields_of_code(joint)]
    numbers = structure_text([x if is_declared(x) else None for x in values])
    return ("user", joint.kind, *plain, numbers, tuple(forms), program.key)


def _fields_of_code(joint: Joint) -> list[str]:
    """Return the names of fields that compiled code may read."""
    apart = {item.name for item in fields(Joint)}
    return [item.name for item in fields(joint) if item.name not in apart]


class _Given:
    """Arguments with which joint methods are traced."""

    def __init__(self, *arrays: tuple[Any, ...]) -> None:
        self.q, self.q1, self.v, f, x = arrays
        self.f = Force.from_array(f)
        R, *rest = (x[:3], x[3:6], x[6:9]), *(x[k : k + 3] for k in range(9, 24, 3))
        self.relative = RelativeMotion(R, *rest)


def _loop_constraints(joint: Joint, given: _Given) -> Any:
    at = given.relative
    return [
        (isinstance(one, Slip), one.value(at), one.wrench(at), one.bias(at))
        for one in joint.loop_constraints()
    ]


_CALLS: dict[str, Callable[[Joint, _Given], Any]] = {
    "neutral": lambda j, x: j.neutral(),
    "transform": lambda j, x: j.transform(x.q),
    "subspace": lambda j, x: j.subspace(x.q),
    "own_subspace": lambda j, x: j.own_subspace(x.q),
    "subspace_rate": lambda j, x: j.subspace_rate(x.q, x.v),
    "motion": lambda j, x: j.motion(x.q, x.v),
    "velocity": lambda j, x: j.velocity(x.q, x.v),
    "bias": lambda j, x: j.bias(x.q, x.v),
    "bias_derivative": lambda j, x: j.bias_derivative(x.q, x.v),
    "project": lambda j, x: j.project(x.q, x.f),
    "integrate": lambda j, x: j.integrate(x.q, x.v),
    "position_rate": lambda j, x: j.position_rate(x.q, x.v),
    "velocity_of_rate": lambda j, x: j.velocity_of_rate(x.q, x.q1),
    "step": lambda j, x: j.step(x.q, x.v),
    "move": lambda j, x: j.move(x.q, j.step(x.q, x.v)),
    "bracket": lambda j, x: j.bracket(j.step(x.q, x.v), j.step(x.q1, x.v)),
    "difference": lambda j, x: j.difference(x.q, x.q1),
    "displacement": lambda j, x: j.displacement(x.q, x.q1),
    "normalize": lambda j, x: j.normalize(x.q),
    "loop_constraints": _loop_constraints,
}
"""Every method whose result may enter a kernel, by name."""


def _take(value: Any, leaves: list[Any]) -> object:
    """Extract the scalars of a method's result; return its structure."""
    if isinstance(value, np.ndarray) and value.ndim:
        return _take(list(value), leaves)
    if isinstance(value, (tuple, list)):
        return tuple(_take(part, leaves) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = tuple(_take(getattr(value, item.name), leaves) for item in fields(value))
        return (type(value).__qualname__, *parts)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    leaves.append(value)
    return 0.0
