"""Lumped damping of a body: forces that go with its relative velocity and with its square.

The form of marine vehicle models (Fossen 2011, sec. 6.4): a linear part D x, and a quadratic part
D |x| x in which every component of velocity is weighed with its own size.
"""

from collections.abc import Sequence

import numpy as np

from tiburon.spatial import Force, Motion, Scalar

__all__ = ["damping_force"]

Rows = Sequence[Sequence[Scalar]]


def damping_force(relative: Motion, linear: Rows | None, quadratic: Rows | None) -> Force:
    """Return -(D_1 + D_2 |x|) x for the relative velocity x of a body.

    Args:
        relative: Velocity of the body relative to the fluid, at the origin of the frame in which
            the matrices are given, its axes [rad/s, m/s].
        linear: D_1, six rows of six, angular first; None for none.
        quadratic: D_2 likewise.
    """
    x = tuple(relative)
    total: list[Scalar] = [0.0] * 6
    for matrix, felt in ((linear, x), (quadratic, tuple(np.abs(s) * s for s in x))):
        for i, row in enumerate(matrix or ()):
            for entry, s in zip(row, felt, strict=True):
                total[i] = total[i] - entry * s
    return Force.from_array(total)
