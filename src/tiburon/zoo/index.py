"""Names of the robots of the zoo, and the file that defines each."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tiburon.errors import UnknownNameError

if TYPE_CHECKING:
    from tiburon.model.model import Model

DIRECTORY = Path(__file__).parent
"""Folder of native files, each named after its robot, and of generators."""

GENERATED: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "chain_10": ("chains", "chain", (10,)),
    "chain_100": ("chains", "chain", (100,)),
    "n_four_bar_2": ("four_bars", "n_four_bar", (2,)),
    "n_four_bar_40": ("four_bars", "n_four_bar", (40,)),
    "strandbeest": ("jansen", "strandbeest", ()),
}
"""Robots built by a function: module of this package, function, arguments."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all robots of the zoo, sorted."""
    return tuple(sorted([*GENERATED, *(file.stem for file in DIRECTORY.glob("*.toml"))]))


def path(name: str) -> Path:
    """Return the file that defines a robot: a native file (.toml), or its generator (.py).

    Args:
        name: One of `names`.

    Raises:
        UnknownNameError: If no robot has this name; the message suggests the nearest one.
    """
    if name not in names():
        raise UnknownNameError("robot", name, names(), listing="`tiburon models`")
    if name in GENERATED:
        return DIRECTORY / f"{GENERATED[name][0]}.py"
    return DIRECTORY / f"{name}.toml"


def generate(name: str) -> "Model":
    """Build a robot that has a generator.

    Args:
        name: A key of `GENERATED`.
    """
    module, function, arguments = GENERATED[name]
    model: Model = getattr(import_module(f"tiburon.zoo.{module}"), function)(*arguments)
    return model
