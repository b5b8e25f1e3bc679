"""Joint forces of the whole robot from those of its actuated joints.

Dynamics takes one force per velocity variable. Floating bases and passive joints are not actuated:
the selection matrix of the actuated joints maps their forces to the whole robot, with zeros
elsewhere (the matrix P of Nahon 1991, eq. 3.31).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arrays import NDArray
from tiburon.errors import ModelError, ShapeError
from tiburon.model.configuration import as_batch
from tiburon.model.named_parts import NamedParts
from tiburon.trace.array import as_traced
from tiburon.trace.program import current_graph


def spread(parts: NamedParts, tau: Any, joints: Iterable[str]) -> NDArray[np.float64]:
    """Return the joint forces of a robot from those of some of its joints.

    Args:
        parts: The robot.
        tau: Forces of the joints, concatenated in the order of the names [N or N m], shape
            (..., sum of their nv), or forces by joint name, each of shape (..., nv of the joint) or
            a scalar for a joint with one degree of freedom.
        joints: Names of the joints, where `tau` does not name them.

    Returns:
        Joint force, shape (..., nv); zero at the joints left out.
    """
    if isinstance(tau, Mapping):
        names: Sequence[str] = tuple(tau)
        given = [_force_of(parts, name, tau[name]) for name in names]
    else:
        names = tuple(joints)
        count = len(parts.indices(names, of="v"))
        words = f"{count} (of {_listed(names)})"
        given = [_checked(tau, count, "tau", words)]
    _refuse_twice(parts, names)
    shape = np.broadcast_shapes(*(force.shape[:-1] for force in given))
    total = np.zeros((*shape, parts.nv), like=_anything(given))
    places = parts.indices(names, of="v")
    start = 0
    for force in given:
        stop = start + force.shape[-1]
        total[..., places[start:stop]] = force
        start = stop
    return total


def _force_of(parts: NamedParts, name: str, value: Any) -> NDArray[Any]:
    """Return the force of one joint given by name; a scalar for one degree of freedom."""
    joint = parts.joint(name)
    refuse_unusable(f"tau[{name!r}]", value)
    array = as_traced(value) if current_graph() is not None else np.asarray(value)
    if array.ndim == 0 and joint.nv == 1:
        array = array.reshape(1)
    words = f"{joint.nv} (of the {joint.kind} joint {name!r})"
    return _checked(array, joint.nv, f"tau[{name!r}]", words)


def _checked(value: Any, size: int, argument: str, words: str) -> NDArray[Any]:
    """Return an array, traced while a function is traced, of the right length."""
    if current_graph() is None:
        return as_batch(value, size, argument, words)
    array = as_traced(value)
    if array.ndim == 0 or array.shape[-1] != size:
        given = array.shape[-1] if array.ndim == 1 else f"shape {array.shape}"
        raise ShapeError(argument, words, given)
    return array


def _anything(given: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return an array whose type decides whether zeros are traced."""
    return given[0] if given else np.zeros(0)


def _refuse_twice(parts: NamedParts, names: Sequence[str]) -> None:
    """Raise if a joint is named twice: its forces would overwrite each other."""
    for name in names:
        if names.count(name) > 1:
            raise ModelError(
                f"model {parts.name!r}: joint {name!r} is named {names.count(name)} times among "
                "the actuated joints; name each joint once",
                name=name,
            )


def _listed(names: Sequence[str]) -> str:
    """List a few names and count the rest."""
    if not names:
        return "no joint"
    shown = ", ".join(repr(name) for name in names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more joints"
