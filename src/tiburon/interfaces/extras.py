"""Optional packages: imported when they are needed, with the command that installs them."""

from importlib import import_module
from typing import Any

from tiburon.errors import MissingExtraError


def needed(package: str, extra: str, purpose: str) -> Any:
    """Import an optional package.

    Args:
        package: Its name.
        extra: The extra of this package that installs it.
        purpose: What needs it, for the message.

    Raises:
        MissingExtraError: If it is not installed.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != package.partition(".")[0]:
            raise
        raise MissingExtraError(package, extra, purpose) from None
