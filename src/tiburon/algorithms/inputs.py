"""What most public functions take: positions and velocity-sized arrays, by their usual names."""

from collections.abc import Callable, Sequence

from tiburon.algorithms.library import Options
from tiburon.model import Model
from tiburon.trace.program import Input

__all__ = ["inputs_of"]


def inputs_of(*names: str | Input) -> Callable[[Model, Options], Sequence[Input]]:
    """Return the function that tells a library function's inputs.

    Args:
        names: "q" for nq numbers; any other name, such as "v" or "tau", for nv numbers; an input
            of another size as it is.
    """

    def inputs(model: Model, options: Options) -> list[Input]:
        sizes = {"q": (model.nq, model.describe_q())}
        velocity = (model.nv, model.describe_v())
        found = []
        for name in names:
            if isinstance(name, Input):
                found.append(name)
                continue
            size, described = sizes.get(name, velocity)
            found.append(Input(name, (size,), described=described))
        return found

    return inputs
