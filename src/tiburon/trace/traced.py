"""`traced`: marks functions that may be traced, and so run inside native loops."""

from collections.abc import Callable
from typing import Any, TypeVar

from tiburon.arguments import public
from tiburon.trace.declared import is_declared

__all__ = ["has_structure", "is_traced", "traced"]

Function = TypeVar("Function", bound=Callable[..., Any])

MARK = "__tiburon_traced__"


@public
def traced(function: Function) -> Function:
    """Mark a function that native loops may inline; direct calls are unaffected.

    Such a function uses only arithmetic and NumPy functions on its values, no `if` on them, and is
    deterministic: it runs once on traced values, and its graph is compiled into the loop.

    Args:
        function: A function, or a class whose instances are called.

    Returns:
        The same function.

    Example:
        A controller that runs at every stage of the integrator::

            @tb.traced
            def control(state):
                return 40.0 * (target - state.q) - 6.0 * state.v
    """
    setattr(function, MARK, True)
    return function


def is_traced(function: object) -> bool:
    """Return whether a function, or the class of an object, was marked with `traced`."""
    return bool(getattr(function, MARK, False))


def has_structure(thing: object) -> bool:
    """Return whether the code of an object depends only on its `structure`.

    This holds for declared objects. User code is keyed by its graph: a class derived from one of
    this package, or one that holds a function, inherits a `structure` that does not determine it.
    """
    return is_declared(thing) and hasattr(thing, "structure")
