"""The motion of a robot as an ordinary differential equation, in coordinates about one position.

Positions near q are move(q, theta): exponential coordinates theta, zero at q itself. Together with
w they are one vector y = (theta, w) that obeys y' = f(y, t). What textbooks say about vectors then
holds for robots: a method keeps its order, its error estimate and its interpolation on rotations
too (Munthe-Kaas 1999, "High order Runge-Kutta methods on manifolds").
"""

from collections.abc import Callable, Sequence

from tiburon.simulation.integrators.manifold import Manifold, Scalars, Steps
from tiburon.spatial import Scalar
from tiburon.trace.regions import function

__all__ = ["Acceleration", "Chart", "combine"]

Acceleration = Callable[..., Scalars]
"""Gives the rate of w for q and w, and for the time [s] where one is given."""

LARGE = 96
"""Numbers beyond which a sum of vectors is a function of its own: quicker to compile."""


class Chart:
    """Coordinates about one position; works on floats and on traced values alike."""

    def __init__(self, manifold: Manifold, acceleration: Acceleration, q: Scalars) -> None:
        """Put the origin of coordinates at a position.

        Args:
            manifold: Positions of the robot.
            acceleration: Gives the rate of w.
            q: The position [m or rad], nq scalars.
        """
        self.manifold = manifold
        self.acceleration = acceleration
        self.q = q
        self.position_count = sum(manifold.step_counts)
        """How many of the coordinates are steps of position."""
        # exponentials of all stages are a function of their own: quicker to compile
        self._rates = function(self._computed) if any(manifold.turning) else self._computed

    def start(self, w: Scalars) -> Scalars:
        """Return the coordinates of the state with position q."""
        return (*(0.0,) * self.position_count, *w)

    def steps(self, y: Scalars) -> Steps:
        """Return the part of coordinates that moves positions, joint by joint."""
        found, place = [], 0
        for count in self.manifold.step_counts:
            found.append(tuple(y[place : place + count]))
            place += count
        return tuple(found)

    def state(self, y: Scalars) -> tuple[Scalars, Scalars]:
        """Return position and w at some coordinates, quaternions of length 1."""
        manifold = self.manifold
        q = manifold.normalize(manifold.move(self.q, self.steps(y)))
        return q, tuple(y[self.position_count :])

    def rates(self, y: Scalars, *time: Scalar) -> Scalars:
        """Return how fast coordinates change."""
        found: Scalars = self._rates(tuple(self.q), tuple(y), *time)
        return found

    def _computed(self, origin: Scalars, y: Scalars, *time: Scalar) -> Scalars:
        theta, w = self.steps(y), tuple(y[self.position_count :])
        q = self.manifold.move(origin, theta)
        return self.rates_of(theta, q, w, self.acceleration(q, w, *time))

    def rates_of(self, theta: Steps, q: Scalars, w: Scalars, rate: Scalars) -> Scalars:
        """Return how fast coordinates change where the rate of w is known.

        Args:
            theta: Steps from the origin of coordinates.
            q: The position they lead to.
            w: Velocities and further states there.
            rate: How fast w changes there.
        """
        turned = self.manifold.coordinate_rate(theta, self.manifold.rate(q, w))
        return (*(x for step in turned for x in step), *rate)

    def rates_at_start(self, w: Scalars, rate: Scalars) -> Scalars:
        """Return how fast coordinates change at their origin, where the rate of w is known."""
        return (*(x for step in self.manifold.rate(self.q, w) for x in step), *rate)


def combine(y: Scalars, h: Scalar, factors: Sequence[float], rates: Sequence[Scalars]) -> Scalars:
    """Return y + h (factors[0] rates[0] + factors[1] rates[1] + ...), leaving out zeros."""
    kept = [(factor, k) for factor, k in zip(factors, rates, strict=False) if factor != 0.0]
    if not kept:
        return tuple(y)
    used = tuple(factor for factor, _ in kept)

    def summed(y: Scalars, h: Scalar, rates: tuple[Scalars, ...]) -> Scalars:
        return tuple(a + h * _weighted(used, ks) for a, *ks in zip(y, *rates, strict=True))

    # thousands of sums in a row would take long to compile
    run = function(summed) if len(y) > LARGE else summed
    found: Scalars = run(tuple(y), h, tuple(k for _, k in kept))
    return found


def _weighted(factors: Sequence[float], values: Sequence[Scalar]) -> Scalar:
    total: Scalar = factors[0] * values[0]
    for factor, value in zip(factors[1:], values[1:], strict=True):
        total = total + factor * value
    return total
