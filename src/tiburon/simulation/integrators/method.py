"""What a method of integration is to the loops that run it."""

from collections.abc import Callable
from typing import Any

from tiburon.record import record
from tiburon.simulation.integrators.manifold import Scalars
from tiburon.simulation.integrators.pair import Pair

__all__ = ["Method"]


def _no_memory(*_: Any) -> tuple[()]:
    return ()


@record
class Method:
    """A method of integration; the package's own text says how loops call it."""

    name: str
    """Name in `tb.simulate(method=...)`."""

    order: int
    """How the error falls with the step: with this power."""

    evaluations: int
    """Evaluations of the dynamics in one step."""

    step: Callable[..., tuple[Scalars, Scalars]]
    """One step without memory: ``step(manifold, acceleration, q, w, h, *time) -> (q, w)``."""

    pair: Pair | None = None
    """The method with an error estimate, for steps that adapt; None if it has none."""

    starts: Callable[..., Any] | None = None
    """``(manifold, acceleration, q, w, h, *time) -> memory`` of a multi-step method."""

    advances: Callable[..., Any] | None = None
    """``(manifold, acceleration, q, w, memory, h, *time) -> (q, w, memory)`` of such a method."""

    is_implicit: bool = False
    """Whether steps need the Jacobian of the rates, and take `ImplicitRates`."""

    keeps_inertia: bool = False
    """Whether steps keep mass matrix and bias force, and ask for `KeptRates`."""

    @property
    def adaptive(self) -> bool:
        """Whether steps can adapt to a tolerance."""
        return self.pair is not None

    @property
    def has_memory(self) -> bool:
        """Whether steps depend on those before: a multi-step method."""
        return self.advances is not None

    @property
    def start(self) -> Callable[..., Any]:
        """What gives the memory before the first of equal steps."""
        return self.starts or _no_memory

    def advance(
        self,
        manifold: Any,
        acceleration: Any,
        q: Scalars,
        w: Scalars,
        memory: Any,
        h: Any,
        *time: Any,
    ) -> tuple[Scalars, Scalars, Any]:
        """Take one of equal steps.

        Args:
            manifold: Positions of the robot.
            acceleration: Gives the rate of w for q, w and, if one is given, the time.
            q: Position [m or rad], nq scalars.
            w: Velocities [m/s or rad/s] and further states.
            memory: From `start` or the step before.
            h: Step [s].
            *time: Time at the start of the step [s], where the motion depends on it.

        Returns:
            Position and w one step later, and the memory to go on with.
        """
        if self.advances is None:
            return *self.step(manifold, acceleration, q, w, h, *time), ()
        found: tuple[Scalars, Scalars, Any]
        found = self.advances(manifold, acceleration, q, w, memory, h, *time)
        return found
