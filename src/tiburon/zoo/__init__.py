"""Robots included in the package: native files and generators, each value with its source.

`tiburon.load("puma560")` returns one; `tiburon models` lists all of them.
"""

from typing import TYPE_CHECKING

from tiburon.lazy import load_on_use
from tiburon.zoo.index import generate, names, path

if TYPE_CHECKING:
    from tiburon.zoo.chains import chain as chain
    from tiburon.zoo.four_bars import n_four_bar as n_four_bar
    from tiburon.zoo.jansen import strandbeest as strandbeest

__all__ = ["chain", "generate", "n_four_bar", "names", "path", "strandbeest"]

__getattr__ = load_on_use(
    globals(),
    {
        "tiburon.zoo.chains": ("chain",),
        "tiburon.zoo.four_bars": ("n_four_bar",),
        "tiburon.zoo.jansen": ("strandbeest",),
    },
)
