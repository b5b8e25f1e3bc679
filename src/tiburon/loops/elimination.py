"""In which order unknowns of a robot with loops are best eliminated.

Few neighbors first (least degree, Tinney and Walker 1967) keeps zeros: legs go before the body they
carry, and the forces of a leg's own loops right after its joints. A constraint may only go when the
joints before it hold it up: its pivot must be there. That depends on numbers; a generic position
tells. What a special pose spoils is noticed at run time (`tiburon.trace.primitives.saddle`), and
solved with pivoting. Mechanisms too large for that take a safe order: a constraint waits for all
joints it binds, and then loses its pivot only where it repeats others.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.joint_space import freedom_parents
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.loops.constraints import constraints, entries_in_use
from tiburon.model import Model
from tiburon.trace.primitives.saddle import SaddlePattern
from tiburon.trace.primitives.tree import FactorTree

__all__ = ["LoopPattern", "loop_pattern"]

LARGEST = 4096
"""Freedoms times live constraints up to which the careful way is there to be taken."""

HELD_UP = 1e-3
"""Pivot of a constraint, relative to what formed it, at which it may be eliminated."""


class LoopPattern:
    """Which entries the equations of a robot with loops have, and how to eliminate them.

    Attributes:
        saddle: The pattern of [[H, J^T], [J, 0]]; unknowns are joint accelerations, then the
            negative forces of live constraints.
        live: Constraints that can bind anything, by number.
        mass: Row and column of each entry of H that is stored.
        is_large: Whether the mechanism is too large to be solved with pivoting.
        shortest: Of large ones, the pattern of [[1, J], [J^T, 0]]; unknowns are the forces of live
            constraints, then one number per joint acceleration.
    """

    def __init__(self, model: Model) -> None:
        """Find pattern and order.

        Args:
            model: The robot.
        """
        nv, used = model.nv, entries_in_use(model)
        self.live = tuple(k for k, columns in enumerate(used) if columns)
        self.mass = tuple(FactorTree(freedom_parents(model.plan)).layout.elements())
        self.bound = tuple((n, j) for n, k in enumerate(self.live) for j in sorted(used[k]))
        entries = [*self.mass, *((nv + n, j) for n, j in self.bound)]
        count = len(self.live)
        self.is_large = nv * count > LARGEST
        numbers = self._numbers(model)
        order = _order(nv, count, entries, numbers, safe=self.is_large)
        self.saddle = SaddlePattern(nv + count, count, entries, order)
        self.shortest: SaddlePattern | None = None
        if self.is_large:
            forces = [(n, n) for n in range(count)] + [(count + j, n) for n, j in self.bound]
            sizes = [1.0] * count + numbers[len(self.mass) :]
            order = _order(count, nv, forces, sizes, safe=True)
            self.shortest = SaddlePattern(nv + count, nv, forces, order)

    def _numbers(self, model: Model) -> list[float]:
        """Return the entries at a generic position."""
        rng = np.random.default_rng(11)
        q = JointVector([x for joint in model.joints for x in joint.random(rng)])
        with taping(None):
            H = mass_elements(model.plan, q)
            rows = constraints(model, model.plan, q).jacobian
        mass = [float(H[i * model.nv + j]) for i, j in self.mass]
        return [*mass, *(float(rows[self.live[n]][j]) for n, j in self.bound)]


@lru_cache(maxsize=64)
def loop_pattern(model: Model) -> LoopPattern:
    """Return the pattern of a robot with loops."""
    return LoopPattern(model)


def _order(
    free: int,
    bound: int,
    entries: Sequence[tuple[int, int]],
    numbers: Sequence[float],
    *,
    safe: bool,
) -> list[int]:
    """Return unknowns by least degree, constraints only where their pivots hold up.

    Args:
        free: Number of joint variables.
        bound: Number of constraints.
        entries: Row and column of each entry.
        numbers: The entries at a generic position.
        safe: Whether constraints wait for all joints they bind; numbers then do not matter.
    """
    size = free + bound
    rows: list[dict[int, float]] = [{} for _ in range(size)]
    diagonal, formed = [0.0] * size, [0.0] * size
    waits_for: list[set[int]] = [set() for _ in range(size)]
    for (i, j), x in zip(entries, numbers, strict=True):
        if i == j:
            diagonal[i] = formed[i] = x
        else:
            rows[i][j] = rows[j][i] = x
            if safe and i >= free:
                waits_for[i].add(j)
    left = set(range(size))
    order: list[int] = []
    while left:
        if safe:
            # with all its joints gone, a constraint has no pivot only where it repeats others
            ready = [k for k in left if k < free or not waits_for[k] & left]
        else:
            ready = [k for k in left if k < free or -diagonal[k] > HELD_UP * formed[k] > 0.0]
        # constraints that are not held up repeat others: they go last, and are left out
        k = min(ready or left, key=lambda k: (len(rows[k]), k))
        left.remove(k)
        order.append(k)
        column = rows[k]
        for i in column:
            del rows[i][k]
        if not ready:
            continue
        inverse = 0.0 if safe else 1.0 / diagonal[k]
        for i, x in column.items():
            for j, y in column.items():
                if j < i:
                    change = x * y * inverse
                    rows[i][j] = rows[j][i] = rows[i].get(j, 0.0) - change
            diagonal[i] -= x * x * inverse
            formed[i] = max(formed[i], abs(diagonal[i]))
    return order
