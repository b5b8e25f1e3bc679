"""Thrusters: wrenches of commands, with a first-order lag as a state."""

from collections.abc import Hashable

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.hydro.thrust import thrust_of, thrust_parameters, thrust_structure, thruster_wrench
from tiburon.model import Model, Thruster
from tiburon.record import record
from tiburon.spatial import Scalar


@record
class ThrusterDrive(Element):
    """Force element of a `Thruster`: the command is in the unit of its curve.

    With a time constant T the thrust is a state, d thrust / dt = (steady thrust - thrust) / T.
    Curve, limits and T are run-time parameters; position and direction are compiled in.
    """

    name: str
    """Unique among the elements of a run; also the name of its command."""

    thruster: Thruster
    """Data of the thruster."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the thrust [N] if it has a time constant."""
        return (f"{self.name}.thrust",) if self._lagging else ()

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the thrust [N] if it is not a state."""
        return () if self._lagging else (f"{self.name}.thrust",)

    def parameters(self) -> tuple[float, ...]:
        """Return the time constant if any, then limits and curve."""
        lag = (self.thruster.time_constant,) if self._lagging else ()
        return (*lag, *thrust_parameters(self.thruster))

    def structure(self) -> Hashable:
        """Return its location, whether it has a time constant, and the form of curve and limits."""
        t = self.thruster
        place = (t.body, t.position, t.direction, t.torque_ratio)
        return (*place, self._lagging, thrust_structure(t))

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        model.plan.frame(self.thruster.body)

    def act(self, now: ElementContext) -> Action:
        """Compute the wrench on the body, and the rate of the thrust."""
        lag, law = (now.p[:1], now.p[1:]) if self._lagging else ((), now.p)
        steady = thrust_of(self.thruster, now.u[0], law)
        thrust, rates = steady, tuple[Scalar, ...]()
        outputs = {f"{self.name}.thrust": thrust}
        if self._lagging:
            (thrust,), (T,) = now.x, lag
            rates, outputs = ((steady - thrust) / T,), {}
        wrench = thruster_wrench(self.thruster, thrust)
        return Action(wrenches={self.thruster.body: tuple(wrench)}, rates=rates, outputs=outputs)

    @property
    def _lagging(self) -> bool:
        return self.thruster.time_constant > 0.0
