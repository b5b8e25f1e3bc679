"""Natural frequencies, damping and mode shapes of a robot at an equilibrium."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.conditions import Conditions, takes_conditions
from tiburon.model import Model
from tiburon.simulation.eigenmodes import EigenModes, eigen_modes
from tiburon.simulation.equilibrium import SmallMotion, settle
from tiburon.simulation.mode import Mode, Modes

__all__ = ["modes"]

Array = NDArray[np.float64]

NEGLIGIBLE = 1e-12
"""Parts of a shape below this fraction of its largest are rounding."""


@takes_conditions
def modes(
    model: Model,
    q: ArrayLike | None = None,
    *,
    v: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    solve: bool = True,
    tolerance: float = 1e-9,
    slowest: float = 1e-6,
    **conditions: Unpack[Conditions],
) -> Modes:
    """Find an equilibrium, and frequencies, damping and shapes of small motions about it.

    Args:
        model: The robot; its joints must have as many velocities as freedoms of position.
        q: Position to start from [m or rad], shape (nq,); the neutral one by default.
        v: Velocity that is kept [m/s or rad/s], shape (nv,): a steady motion; at rest by default.
        tau: Joint forces that are held [N or N m], shape (nv,); none by default.
        solve: Whether to move to the nearest equilibrium; otherwise q is taken as it is, and
            `Modes.residual` tells what accelerates there.
        tolerance: Largest force missing at an equilibrium, relative to the weight of the robot and
            at least 1 N.
        slowest: Frequencies below this fraction of the highest count as zero.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`.

    Returns:
        The equilibrium and its modes, a sequence that prints as a table.

    Raises:
        DomainError: If there is no equilibrium near the start.
        ModelError: If a joint rolls.

    Example:
        ``print(tb.modes(tb.load("double_pendulum")))``
    """
    motion = SmallMotion(model, v, tau, conditions)
    position = np.array(model.neutral() if q is None else q, dtype=np.float64)
    if solve:
        position = settle(motion, position, tolerance)
    A = motion.matrix(position)
    found = eigen_modes(A, motion.mass(position), slowest)
    return Modes(
        model,
        position,
        motion.v,
        np.zeros(0),
        motion.rates(position)[: model.nv],
        A,
        _members(found, model.nv),
        found.zeros,
    )


def _members(found: EigenModes, nv: int) -> tuple[Mode, ...]:
    values = [*np.zeros(len(found.free)), *found.values]
    vectors = [*found.free.astype(np.complex128), *found.vectors]
    return tuple(_mode(complex(a), z, nv) for a, z in zip(values, vectors, strict=True))


def _mode(value: complex, vector: NDArray[np.complex128], nv: int) -> Mode:
    steps, states = vector[:nv], vector[2 * nv :]
    moving = steps if np.abs(steps).max(initial=0.0) > NEGLIGIBLE else states
    whole = vector / moving[int(np.argmax(np.abs(moving)))]
    parts = (
        np.where(np.abs(x) > NEGLIGIBLE * np.abs(x).max(initial=0.0), x, 0.0)
        for x in (whole.real, whole.imag)
    )
    real, imaginary = parts
    whole = real + 1j * imaginary
    return Mode(value, whole[:nv], whole[2 * nv :])
