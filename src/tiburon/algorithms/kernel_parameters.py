"""Parameters by name in calls of compiled kernels."""

from typing import Any

import numpy as np

from tiburon.algorithms.call_parameters import CaseRows, at_run_time, dynamics_parameters, lowered
from tiburon.errors import ModelError
from tiburon.model import Model, World
from tiburon.model.parameters import LISTING, ROWS, Parameter, read_values
from tiburon.record import record

__all__ = ["KernelParameters"]


@record
class KernelParameters:
    """Values by name for a kernel that was compiled for some names."""

    model: Model
    """The robot."""

    world: World
    """Its surroundings."""

    names: tuple[str, ...]
    """What the kernel was compiled for."""

    def _known(self) -> dict[str, Parameter]:
        return dynamics_parameters(self.model, self.world)

    def at_run_time(self) -> tuple[Model, World]:
        """Return robot and world of which code takes all that is named at run time."""
        known = self._known()
        # a component stands for the vector it belongs to
        values = read_values(known, dict.fromkeys(self.names, 0.0), reading=False)
        return at_run_time(self.model, self.world, [known[name] for name in values])

    def rows(self, given: Any) -> CaseRows:
        """Return the tables of numbers for values by name."""
        known = self._known()
        values = read_values(known, given)
        declared = read_values(known, dict.fromkeys(self.names, 0.0), reading=False)
        for name in values:
            if name not in declared:
                listed = ", ".join(map(repr, self.names)) or "none"
                raise ModelError(
                    f"parameters[{name!r}]: expected a name that the kernel was compiled for, got "
                    f"one beyond {listed}; compile it with parameters=({name!r}, ...)"
                )
        own = {name: np.array(known[name].value) for name in declared if name not in values}
        return lowered(self.model, self.world, {**own, **values}, known).rows

    def refusal(self, table: str) -> Exception | None:
        """Return what to raise for a table of numbers: its places depend on which are zero."""
        if table not in ROWS:
            return None
        return ModelError(
            f"{table}: expected values by name, got a table of numbers, whose places depend on "
            "which numbers are zero; compile(..., parameters=names) and call with "
            f"parameters={{name: values}} ({LISTING} lists all names)"
        )
