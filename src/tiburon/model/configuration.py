"""Positions and velocities of a whole model as arrays, one state or a batch.

A joint's functions work elementwise on scalars, so a batch is served by handing them columns.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.argument_checks import refuse_unusable
from tiburon.errors import DomainError, NonFiniteError, ShapeError
from tiburon.model.joints import Joint
from tiburon.model.position_limits import position_limits, velocity_limits, within_limits
from tiburon.spatial import Scalar

Array = NDArray[np.float64]


def neutral(joints: Sequence[Joint]) -> Array:
    """Return the position at which every joint is unmoved, shape (nq,)."""
    return np.array([x for joint in joints for x in joint.neutral()], dtype=np.float64)


def random_state(
    joints: Sequence[Joint],
    rng: "np.random.Generator",
    shape: tuple[int, ...],
    *,
    limits: bool = True,
) -> tuple[Array, Array]:
    """Return random positions and velocities.

    Args:
        joints: In the order of the model.
        rng: Source of randomness.
        shape: Leading (batch) dimensions.
        limits: Whether to stay within the limits of the joints.

    Returns:
        q with shape (..., nq) and v with shape (..., nv), velocities standard normal; those beyond
        a speed limit are drawn again, uniform within it.
    """
    nq = sum(joint.nq for joint in joints)
    nv = sum(joint.nv for joint in joints)
    count = int(np.prod(shape, dtype=np.int64))
    q = np.array(
        [[x for joint in joints for x in joint.random(rng)] for _ in range(count)],
        dtype=np.float64,
    )
    q, v = q.reshape(*shape, nq), rng.standard_normal((*shape, nv))
    if limits and any(joint.limits is not None for joint in joints):
        q = within_limits(q, position_limits(joints), rng)
        fastest = velocity_limits(joints)
        # infinite limits draw nothing again
        again = rng.uniform(-1.0, 1.0, v.shape) * np.where(np.isfinite(fastest), fastest, 0.0)
        v = np.where(np.abs(v) > fastest, again, v)
    return q, v


def as_batch(value: ArrayLike, size: int, argument: str, expected: str) -> Array:
    """Return finite float64 numbers with the given last dimension.

    Args:
        value: Anything NumPy can read.
        size: Length of the last dimension.
        argument: Name of the argument, for messages.
        expected: That length in words, for messages.
    """
    refuse_unusable(argument, value)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            argument, expected, f"{value!r}", advice="pass plain numbers of equal lengths"
        ) from error
    if array.ndim == 0 or array.shape[-1] != size:
        given = array.shape[-1] if array.ndim == 1 else f"shape {array.shape}"
        raise ShapeError(argument, expected, given, advice="batch dimensions lead")
    finite = np.isfinite(array)
    if not finite.all():
        index = tuple(np.argwhere(~finite)[0].tolist())
        bad = float(array[index])
        raise NonFiniteError(argument, index[0] if array.ndim == 1 else index, bad)
    return array


def over_joints(
    joints: Sequence[Joint],
    function: Callable[..., Sequence[Scalar]],
    *arguments: tuple[Array, str],
) -> Array:
    """Apply a function of one joint's numbers to all joints of a batch.

    Args:
        joints: In the order of the model.
        function: Takes a joint and its slices; returns the joint's numbers.
        arguments: Arrays, each with "q" or "v" for how it is sliced.

    Raises:
        DomainError: If a joint has no answer: a quaternion of length zero is no orientation.
    """
    shape = np.broadcast_shapes(*(array.shape[:-1] for array, _ in arguments))
    columns: list[Any] = []
    start = {"q": 0, "v": 0}
    for joint in joints:
        size = {"q": joint.nq, "v": joint.nv}
        slices = [[array[..., start[of] + i] for i in range(size[of])] for array, of in arguments]
        # what has no answer is told below, by name
        with np.errstate(divide="ignore", invalid="ignore"):
            values = function(joint, *slices)
        if not all(np.isfinite(x).all() for x in values):
            raise DomainError(
                f"position of joint {joint.name!r}",
                "a quaternion with a length near 1",
                "one that is no orientation",
                advice="check the order of the numbers; model.q_names lists them",
            )
        columns.extend(np.broadcast_to(x, shape) for x in values)
        start["q"] += joint.nq
        start["v"] += joint.nv
    if not columns:
        return np.zeros((*shape, 0))
    return np.stack(columns, axis=-1).astype(np.float64, copy=False)
