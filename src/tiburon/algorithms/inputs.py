"""What most public functions take: positions and velocity-sized arrays, by their usual names."""

from collections.abc import Callable, Sequence

from tiburon.algorithms.external import external_inputs
from tiburon.algorithms.library import Options
from tiburon.model import Model
from tiburon.trace.program import Input

__all__ = ["inputs_of"]


def inputs_of(*names: str, external: bool = False) -> Callable[[Model, Options], Sequence[Input]]:
    """Return the function that tells a library function's inputs.

    Args:
        names: "q" for nq numbers; any other name, such as "v" or "tau", for nv numbers.
        external: Whether forces from outside follow, one per frame that the options name.
    """

    def inputs(model: Model, options: Options) -> list[Input]:
        sizes = {"q": (model.nq, model.describe_q())}
        velocity = (model.nv, model.describe_v())
        found = []
        for name in names:
            size, described = sizes.get(name, velocity)
            found.append(Input(name, (size,), described=described))
        return [*found, *external_inputs(model, options)] if external else found

    return inputs
