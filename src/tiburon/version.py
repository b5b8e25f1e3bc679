"""The version of the installed distribution; its only home is pyproject.toml."""

from functools import cache
from time import time_ns

LOADED_NS = time_ns()
"""When the package began to load [ns since 1970]: files changed later may not be what runs."""


@cache
def installed_version() -> str:
    """Read the version from the metadata of the installed distribution.

    Returns:
        The version, such as "0.1.0"; "0+source" where the package runs from a source tree that was
        never installed.
    """
    # importing the metadata reader costs more than the rest of the package together
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tiburon")
    except PackageNotFoundError:
        return "0+source"
