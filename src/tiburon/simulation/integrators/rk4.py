"""The classical Runge-Kutta method of order 4, on the manifold of positions.

Symbols:
    k1..k4  rates of position at the four stages, as steps per second
    a1..a4  accelerations at the four stages: the rates of velocity
    h       step [s]
"""

from collections.abc import Callable
from typing import ClassVar

from tiburon.arguments import public
from tiburon.record import field, record
from tiburon.simulation.integrators.integrator import DEFAULT_DT, FixedIntegrator
from tiburon.simulation.integrators.manifold import Manifold, Steps
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.regions import function


@public
@record
class RK4(FixedIntegrator):
    """The classical Runge-Kutta method of order 4 with equal steps; the default.

    Example:
        ``tb.simulate(arm, 0.1, method=tb.RK4(dt=1e-3))``
    """

    name: ClassVar[str] = "rk4"

    dt: float = DEFAULT_DT
    """Step [s]."""

    keep_inertia: int | None = field(default=None, kw_only=True)
    """Number of steps that share the factored mass matrix and the bias force; None to compute both
    at every stage."""


MAX_INLINED_POSITIONS = 64
"""Position variables beyond which the sums of a stage are a function of their own."""


def rk4_step(
    manifold: Manifold,
    acceleration: Callable[..., Scalars],
    q: Scalars,
    v: Scalars,
    h: Scalar,
    time: Scalar | None = None,
) -> tuple[Scalars, Scalars]:
    """Take one step of order 4.

    Runge-Kutta-Munthe-Kaas with the classical coefficients: every stage starts again from q and
    moves along one exponential, so positions never leave their manifold. Rotations do not commute;
    the series that corrects for it is reduced to two brackets without loss of order (Munthe-Kaas
    and Owren 1999, "Computations in a free Lie algebra"; Celledoni, Marthinsen and Owren 2014, "An
    introduction to Lie group integrators"). Those sources let velocities act from the left, in
    world axes; ours are in body axes and act from the right, which turns the sign of the brackets.
    Where steps add, as at hinges and slides, brackets vanish and this is the textbook method.
    Velocities are vectors and need no correction.

    The exponential keeps the length of a quaternion up to rounding; it is set to 1 after each step
    so that rounding cannot add up.

    Args:
        manifold: Positions of the robot.
        acceleration: Returns the time derivative of v, nv scalars, for q and v, and for the time
            [s] if one is given.
        q: Configuration [m or rad], nq scalars.
        v: Velocity [m/s or rad/s], nv scalars.
        h: Step [s].
        time: Time at the start of the step [s], where the motion depends on it.

    Returns:
        Position and velocity one step later.
    """
    half = 0.5 * h
    start, middle, end = ((),) * 3 if time is None else ((time,), (time + half,), (time + h,))

    def moved(q: Scalars, v: Scalars, k: Steps, a: Scalars, h: Scalar) -> tuple[Scalars, Scalars]:
        return manifold.move(q, _each(lambda x: _scaled(h, x), k)), _add(v, h, a)

    def moved_again(
        q: Scalars, v: Scalars, k1: Steps, k2: Steps, a: Scalars, half: Scalar
    ) -> tuple[Scalars, Scalars]:
        # h k2 / 2 + [h k1, h k2] / 8
        step = _each(
            lambda x, turn: _add(_scaled(half, x), half * half * 0.5, turn),
            k2,
            manifold.bracket(k1, k2),
        )
        return manifold.move(q, step), _add(v, half, a)

    def arrived(
        q: Scalars, v: Scalars, k: tuple[Steps, ...], a: tuple[Scalars, ...], h: Scalar
    ) -> tuple[Scalars, Scalars]:
        half, sixth = 0.5 * h, h / 6.0
        # h (k1 + 2 k2 + 2 k3 + k4) / 6 + [h k1, h k4] / 12
        whole = _each(
            lambda turn, *stages: _add(_scaled(sixth, _weighted(*stages)), sixth * half, turn),
            manifold.bracket(k[0], k[3]),
            *k,
        )
        q = manifold.normalize(manifold.move(q, whole))
        return q, _add(v, sixth, _weighted(*a))

    if len(q) > MAX_INLINED_POSITIONS:
        # functions of their own: thousands of sums in a row would take long to compile
        moved, moved_again = function(moved), function(moved_again)
        arrived = function(arrived)
    k1, a1 = manifold.rate(q, v), acceleration(q, v, *start)
    q2, v2 = moved(q, v, k1, a1, half)
    k2, a2 = manifold.rate(q2, v2), acceleration(q2, v2, *middle)
    q3, v3 = moved_again(q, v, k1, k2, a2, half)
    k3, a3 = manifold.rate(q3, v3), acceleration(q3, v3, *middle)
    q4, v4 = moved(q, v, k3, a3, h)
    k4, a4 = manifold.rate(q4, v4), acceleration(q4, v4, *end)
    return arrived(q, v, (k1, k2, k3, k4), (a1, a2, a3, a4), h)


def _each(function: Callable[..., Scalars], *steps: Steps) -> Steps:
    """Apply a function to the steps of each joint."""
    return tuple(function(*own) for own in zip(*steps, strict=True))


def _add(x: Scalars, factor: Scalar, y: Scalars) -> Scalars:
    """Return x + factor y."""
    return tuple(a + factor * b for a, b in zip(x, y, strict=True))


def _scaled(factor: Scalar, x: Scalars) -> Scalars:
    """Return factor x."""
    return tuple(factor * a for a in x)


def _weighted(*stages: Scalars) -> Scalars:
    """Return x1 + 2 x2 + 2 x3 + x4."""
    return tuple(a + 2.0 * (b + c) + d for a, b, c, d in zip(*stages, strict=True))
