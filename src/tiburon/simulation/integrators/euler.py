"""Euler's methods: explicit, and semi-implicit, which moves positions with the new velocities.

Symbols:
    h       step [s]
    w       velocities v, then further states
"""

from collections.abc import Callable
from typing import ClassVar

from tiburon.arguments import public
from tiburon.record import field, record
from tiburon.simulation.integrators.integrator import DEFAULT_DT, FixedIntegrator
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.spatial import Scalar, Scalars


@public
@record
class Euler(FixedIntegrator):
    """Euler's explicit method, of order 1; for comparisons.

    Example:
        ``tb.simulate(arm, 0.1, method=tb.Euler(dt=1e-4))``
    """

    name: ClassVar[str] = "euler"

    dt: float = DEFAULT_DT
    """Step [s]."""

    keep_inertia: int | None = field(default=None, kw_only=True)
    """Number of steps that share the factored mass matrix and the bias force; None to compute both
    at every stage."""


@public
@record
class SemiImplicitEuler(FixedIntegrator):
    """Velocities first, then positions by the new ones; of order 1.

    Example:
        ``tb.simulate(arm, 0.1, method=tb.SemiImplicitEuler(dt=1e-3))``
    """

    name: ClassVar[str] = "semi_implicit_euler"

    dt: float = DEFAULT_DT
    """Step [s]."""

    keep_inertia: int | None = field(default=None, kw_only=True)
    """Number of steps that share the factored mass matrix and the bias force; None to compute both
    at every stage."""


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
