"""A loop that opens and closes during a run: a latch, a gripper, a release."""

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.errors import ModelError, UnknownNameError
from tiburon.loops.constraints import loop_rows
from tiburon.model import JointCoupling, Model
from tiburon.record import record

__all__ = ["LoopSwitch"]


@record
class LoopSwitch(Element):
    """Lets a loop of the robot be opened and closed during a run, without compiling anything.

    Whether it is closed is an inner state, `"<loop> closed"`, 1 or 0; what each of its constraints
    holds on to are further ones. Actions of events change them with `latch` and `release`.

    Example:
        A weight that a gripper lets go after a second::

            drop = tb.TimeEvent("drop", 1.0, action=lambda state: tb.release(state, "grip"))
            tb.simulate(crane, 2.0, forces=[tb.LoopSwitch("hand", "grip")], events=[drop])
    """

    name: str
    """Unique among the elements of a run."""

    loop: str
    """Name of the loop, one of `model.loops`."""

    closed: bool = True
    """Whether it is closed at the start."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return whether it is closed, and what its constraints hold on to [m or rad]."""
        held = (f"{self.loop} held {k}" for k in range(len(loop_rows(model, self.loop))))
        return (f"{self.loop} closed", *held)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return a loop closed where its joint has its place, or open."""
        return (float(self.closed), *(0.0,) * len(loop_rows(model, self.loop)))

    def check(self, model: Model) -> None:
        """Refuse loops that are not there."""
        known = {loop.name: loop for loop in model.loops}
        if self.loop not in known:
            raise UnknownNameError("loop", self.loop, known, where=f"model {model.name!r}")
        if isinstance(known[self.loop], JointCoupling):
            raise ModelError(
                f"element {self.name!r}: expected a loop that a joint closes, got the coupling "
                f"{self.loop!r}",
                name=self.loop,
            )

    def act(self, now: ElementContext) -> Action:
        """Stay as it is; the dynamics of loops reads the states."""
        return Action(rates=(0.0,) * len(now.x))
