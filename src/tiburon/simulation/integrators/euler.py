"""Euler's methods: explicit, and semi-implicit, which moves positions with the new velocities.

Symbols:
    h       step [s]
    w       velocities v, then further states
"""

from collections.abc import Callable

from tiburon.simulation.integrators.manifold import Manifold
from tiburon.spatial import Scalar, Scalars


def euler_step(
    manifold: Manifold,
    acceleration: Callable[..., Scalars],
    q: Scalars,
    w: Scalars,
    h: Scalar,
    *time: Scalar,
) -> tuple[Scalars, Scalars]:
    """Take one explicit step of order 1, along one exponential.

    Energy of oscillations grows by a factor 1 + (frequency h)^2 a step: for comparison, and for
    strongly damped systems. Arguments and result are those of `method.explicit_step`.
    """
    rate = acceleration(q, w, *time)
    return _moved(manifold, q, w, h), tuple(a + h * b for a, b in zip(w, rate, strict=True))


def semi_implicit_euler_step(
    manifold: Manifold,
    acceleration: Callable[..., Scalars],
    q: Scalars,
    w: Scalars,
    h: Scalar,
    *time: Scalar,
) -> tuple[Scalars, Scalars]:
    """Take one step of order 1: velocities first, then positions with the new velocities.

    Symplectic where forces depend on positions only and the mass matrix is constant (Hairer, Lubich
    and Wanner 2006, "Geometric Numerical Integration", sec. I.1.2): energy of oscillations then
    wavers by about frequency times h and does not drift, up to frequency h = 2. Arguments and
    result are those of `euler_step`.
    """
    rate = acceleration(q, w, *time)
    after = tuple(a + h * b for a, b in zip(w, rate, strict=True))
    return _moved(manifold, q, after, h), after


def _moved(manifold: Manifold, q: Scalars, w: Scalars, h: Scalar) -> Scalars:
    """Return the position after moving for h at the velocities in w."""
    steps = tuple(tuple(h * x for x in step) for step in manifold.rate(q, w))
    return manifold.normalize(manifold.move(q, steps))
