"""Values that a function outside of the kernel changes: messages between processes, for instance.

Code gets the address of the function as a float, as it gets those of tables
(`tiburon.trace.primitives.table_rows`); an address of 0 leaves all values as they are. The function
is called in the order of the program, for one case at a time: kernels of batches and exported
source cannot contain such calls.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tiburon.trace.primitives.primitive import ConstantPrimitive, Machine, Memory


class PassOutside(ConstantPrimitive):
    """Hand values to a function and take what it makes of them.

    From the address and the values to as many values; their derivatives are zero.
    """

    def __init__(self, number: int, count: int) -> None:
        super().__init__("pass_outside", number, count)
        self.number, self.result_count = number, count
        self.argument_count = 1 + count

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it calls a function."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Copy the values, then call."""
        for place in m.loop(0, self.result_count):
            m.store(found, place, m.load(given, place + 1))
        for _ in m.iterate(1, lambda: m.less(m.constant(0.0), m.load(given, 0))):
            m.call(m.load(given, 0), found, self.number, self.result_count)


def pass_outside(handle: Any, number: int, values: Sequence[Any]) -> list[Any]:
    """Return values as a function outside returns them.

    Args:
        handle: `OutsideFunction.handle`, 0 for none; a float or a traced value.
        number: Number of the call, by which the function knows what it gets.
        values: Floats or traced values.
    """
    return PassOutside(number, len(values)).apply([handle, *values]) if values else []
