"""A value that derivatives take as constant."""

from __future__ import annotations

from typing import Any

from tiburon.trace.primitives.primitive import ConstantPrimitive, Machine, Memory


class Frozen(ConstantPrimitive):
    """Return the argument; its derivative is zero."""

    argument_count = 1
    result_count = 1

    def __init__(self) -> None:
        super().__init__("frozen")

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Copy the value."""
        m.store(found, 0, m.load(given, 0))


def frozen(x: Any) -> Any:
    """Return a scalar, a float or a traced value, that derivatives take as constant."""
    return Frozen().apply([x])[0]
