"""Thrusters: from commands to forces on bodies, with the lag of the propellers as a state."""

from collections.abc import Hashable
from dataclasses import replace

from tiburon.actuation.element import Action, Element, Moment
from tiburon.hydro.thrust import thrust_of, thruster_wrench
from tiburon.model import Model, Thruster
from tiburon.record import record
from tiburon.spatial import Scalar

__all__ = ["ThrusterDrive"]


@record
class ThrusterDrive(Element):
    """A `Thruster` at work: the command is in the unit of its curve.

    Where it has a time constant T, the thrust is a state, d thrust / dt = (steady thrust -
    thrust) / T, and T a run-time number; the rest of its data is compiled in.
    """

    name: str
    """Unique among the elements of a run; that of its command too."""

    thruster: Thruster
    """Its data."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the thrust [N] where it lags."""
        return (f"{self.name}.thrust",) if self._lagging else ()

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the thrust [N] where it is no state."""
        return () if self._lagging else (f"{self.name}.thrust",)

    def parameters(self) -> tuple[float, ...]:
        """Return the time constant where it lags."""
        return (self.thruster.time_constant,) if self._lagging else ()

    def structure(self) -> Hashable:
        """Return its data, but of the time constant only whether there is one."""
        return replace(self.thruster, time_constant=float(self._lagging))

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        model.plan.frame(self.thruster.body)

    def act(self, now: Moment) -> Action:
        """Return the force on the body, and how the thrust changes."""
        steady = thrust_of(self.thruster, now.u[0])
        thrust, rates = steady, tuple[Scalar, ...]()
        outputs = {f"{self.name}.thrust": thrust}
        if self._lagging:
            (thrust,), (T,) = now.x, now.p
            rates, outputs = ((steady - thrust) / T,), {}
        wrench = thruster_wrench(self.thruster, thrust)
        return Action(wrenches={self.thruster.body: tuple(wrench)}, rates=rates, outputs=outputs)

    @property
    def _lagging(self) -> bool:
        return self.thruster.time_constant > 0.0
