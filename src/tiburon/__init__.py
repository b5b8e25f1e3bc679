"""Robot dynamics on land and under water: written once in Python, run as native code.

Public names are listed in one table and loaded when first used, so that importing the package
costs next to nothing and never starts the compiler or a plotting library.
"""

from importlib import import_module
from typing import Any

# public name -> the module that defines it
_EXPORTS: dict[str, str] = {}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use (PEP 562)."""
    if name == "__version__":
        from tiburon.version import installed_version

        value: Any = installed_version()
    elif name in _EXPORTS:
        value = getattr(import_module(_EXPORTS[name]), name)
    else:
        raise AttributeError(f"module 'tiburon' has no attribute {name!r}")
    # later uses find the name directly
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not, for completion."""
    return sorted({*globals(), *__all__})
