"""Which motors to use: sets of driven joints, ranked by how well they hold a robot.

With more motors than freedoms, those left passive must not leave a freedom loose. Each choice is
ranked by kappa(J_u); the more motors hold, the smaller it is (Nahon 1991, section 3.5).
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.errors import DomainError, ModelError
from tiburon.loops.mobility import driven_joints, mobility, position_of
from tiburon.loops.mobility_jacobian import condition, cycle_jacobian
from tiburon.loops.topology import topology
from tiburon.model import Model
from tiburon.record import record

__all__ = ["MotorSet", "motor_sets"]

MOST_SETS = 20_000
"""Choices that are all looked at; beyond, motors are given up one by one."""

AT_ONCE = 2_000
"""Matrices decomposed together, which bounds the memory."""


@record
class MotorSet:
    """Some joints as the only ones driven."""

    joints: tuple[str, ...]
    """Their names."""

    condition: float
    """kappa(J_u) with all others passive: 1 at best, infinite where a freedom is loose."""


@public
def motor_sets(
    model: Model,
    q: ArrayLike | None = None,
    *,
    driven: Iterable[str] | None = None,
    size: int | None = None,
    length: float = 1.0,
) -> tuple[MotorSet, ...]:
    """Rank the sets of motors that could drive a robot at a pose, the best first.

    All choices are compared while there are at most 20 000 of them; beyond that, motors are given
    up one by one, each time the one that is missed least, and only the last set is returned.

    Args:
        model: The robot.
        q: Position with closed loops [m or rad], shape (nq,); as in `mobility`.
        driven: Names of joints of one freedom to choose from; by default those that actuators and
            cylinders drive.
        size: How many to choose; by default as many as there are freedoms.
        length: Unit of length [m]: kappa depends on it.

    Raises:
        ModelError: If even all of them leave a freedom loose; the message names the joints that
            still move.
        DomainError: If `size` is more than there are.

    Example:
        ``best = tb.motor_sets(tb.load("planar_walker"))[0].joints``
    """
    at = position_of(model, q)
    names = driven_joints(model) if driven is None else tuple(driven)
    for name in names:
        if model.joint(name).nv != 1:
            raise ModelError(
                f"joint {name!r}: motor sets are made of joints of one freedom, got a "
                f"{model.joint(name).kind} joint with {model.joint(name).nv}; leave it out",
                name=name,
            )
    found = mobility(model, at, driven=names)
    if found.loose_mobility:
        raise ModelError(
            f"model {model.name!r}: the driven joints ({', '.join(names) or 'none'}) cannot drive "
            f"its {found.mobility} degrees of freedom, {found.loose_mobility} are left to "
            f"{', '.join(found.loose)}; drive one of these too",
            name=found.loose[0],
        )
    count = found.mobility if size is None else size
    if not 0 < count <= len(names):
        raise DomainError("size", f"1 to {len(names)} motors", f"{count}")
    cycles = cycle_jacobian(model, topology(model), at, positive("length", length, "m"))
    own = {name: cycles.names.index(name) for name in names}
    passive = [k for k, name in enumerate(cycles.names) if name not in own]
    if math.comb(len(names), count) > MOST_SETS:
        return (_given_up(cycles.matrix, passive, own, count),)
    choices = list(combinations(names, count))
    rated = _rated(cycles.matrix, passive, own, choices)
    order = np.argsort(rated, kind="stable")
    return tuple(MotorSet(choices[k], float(rated[k])) for k in order)


def _rated(
    matrix: NDArray[np.float64],
    passive: Sequence[int],
    own: dict[str, int],
    choices: Sequence[tuple[str, ...]],
) -> NDArray[np.float64]:
    """Return kappa(J_u) of each choice."""
    rated = []
    for start in range(0, len(choices), AT_ONCE):
        left = [
            [*passive, *(k for name, k in own.items() if name not in chosen)]
            for chosen in map(set, choices[start : start + AT_ONCE])
        ]
        # columns of each choice side by side, choices in front
        picked = np.moveaxis(matrix[:, np.array(left, dtype=np.intp)], 0, 1)
        rated.append(condition(picked))
    return np.concatenate(rated)


def _given_up(
    matrix: NDArray[np.float64], passive: list[int], own: dict[str, int], count: int
) -> MotorSet:
    """Return the set that is left when motors are given up one by one."""
    chosen = tuple(own)
    rate = float(condition(matrix[:, passive]))
    while len(chosen) > count:
        choices = [tuple(x for x in chosen if x != name) for name in chosen]
        rated = _rated(matrix, passive, own, choices)
        best = int(np.argmin(rated))
        chosen, rate = choices[best], float(rated[best])
    return MotorSet(chosen, rate)
