"""Elements that hold states of loops during a run.

`LoopSwitch` opens and closes a loop: latches, grippers, releases. `LoopCoordinates` holds the
constant rows W that select independent velocities.
"""

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.arguments import public
from tiburon.errors import ModelError, UnknownNameError
from tiburon.loops.constraints import loop_rows
from tiburon.model import JointCoupling, Model
from tiburon.record import record


@public
@record
class LoopSwitch(Element):
    """Opens and closes a loop of the robot during a run, without recompiling.

    Its states are `"<loop> closed"`, 1 or 0, and the set point `"<loop> offset k"` of each
    constraint. Actions of events change them with `latch` and `release`.

    Example:
        A gripper that releases a weight after 1 s::

            drop = tb.TimeEvent("drop", 1.0, action=lambda state: tb.release(state, "grip"))
            tb.simulate(crane, 2.0, elements=[tb.LoopSwitch("hand", "grip")], events=[drop])
    """

    name: str
    """Unique among the elements of a run."""

    loop: str
    """Name of the loop, one of `model.loops`."""

    closed: bool = True
    """Whether it is closed initially."""

    @property
    def switched_loop(self) -> str:  # type: ignore[override]
        """Name of the loop."""
        return self.loop

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the switch state, and the set points of the constraints [m or rad]."""
        offsets = (f"{self.loop} offset {k}" for k in range(len(loop_rows(model, self.loop))))
        return (f"{self.loop} closed", *offsets)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return 1 or 0, and zero set points."""
        return (float(self.closed), *(0.0,) * len(loop_rows(model, self.loop)))

    def check(self, model: Model) -> None:
        """Raise an error if the loop does not exist, or is a joint coupling."""
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
        """Keep the states constant; the constrained dynamics reads them."""
        return Action(rates=(0.0,) * len(now.x))


@record
class LoopCoordinates(Element):
    """Holds the rows W of `simulate(loops=Embedding(...))` as states.

    W selects the independent velocities z = W v and stays constant until others are selected.
    `simulate` adds this element by itself.
    """

    name: str
    """Unique among the elements of a run."""

    count: int
    """Number of independent velocities: degrees of freedom of the mechanism."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the condition of W when it was selected, then its entries by rows."""
        entries = (
            f"{self.name} {row + 1} of {name}"
            for row in range(self.count)
            for name in model.v_names
        )
        return (f"{self.name} condition", *entries)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return zeros: a run selects W at its start."""
        return (0.0,) * (1 + self.count * model.nv)

    def check(self, model: Model) -> None:
        """Accept every robot; the run checks that it has loops."""

    def act(self, now: ElementContext) -> Action:
        """Keep the states constant; the dynamics of the loops reads them."""
        return Action(rates=(0.0,) * len(now.x))
