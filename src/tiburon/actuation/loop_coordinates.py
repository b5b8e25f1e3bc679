"""Independent velocities of a run with loops: the constant rows W that select them."""

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.model import Model
from tiburon.record import record


@record
class LoopCoordinates(Element):
    """Holds the rows W of `simulate(loop_method=Embedding(...))` as states.

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
