"""A step as the integrator took it, with the forces of the last one, before its end corrects it."""

from typing import TYPE_CHECKING, Any, NamedTuple

from tiburon.spatial import Scalar, Scalars

if TYPE_CHECKING:
    from tiburon.simulation.system import System


class IntegratorStep(NamedTuple):
    """What the problem at the end of a step (`step_end.py`) is posed with."""

    system: "System"
    """The robot."""

    manifold: Any
    """Its positions."""

    start: tuple[Scalars, Scalars]
    """Configuration and velocities with inner states at the start of the step."""

    after: tuple[Scalars, Scalars]
    """The same at its end, under the mean forces of the last step."""

    u: Scalars
    """Held values."""

    h: Scalar
    """Length of the step [s]."""

    time: Scalar
    """Time at its start [s]."""

    p: Scalars
    """Run-time parameters of the elements."""

    explicit: bool = True
    """Whether accelerations at the stages were those with added armatures."""

    few: bool = True
    """Whether contact points of few bodies are chosen: derivatives are those of all."""

    @property
    def v(self) -> Scalars:
        """Joint velocity at the start [m/s or rad/s]."""
        return self.start[1][: self.system.model.nv]

    @property
    def v1(self) -> Scalars:
        """Joint velocity at the end [m/s or rad/s]."""
        return self.after[1][: self.system.model.nv]

    @property
    def z(self) -> Scalars:
        """Discrete states."""
        return tuple(self.u[self.system.discrete])
