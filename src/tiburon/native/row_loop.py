"""The native loop over calls of a kernel whose results are the inputs of the next call.

The steps of a simulation are such calls: each writes its row of the result array and reads the
previous row. The loop is machine code, without Python between two steps. Batches are processed in
blocks of cases: the next step finds the results of the previous one in the L2 cache.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.native.code import WORTH_A_THREAD, Code
from tiburon.native.engine import LoadedCode, host, load_module
from tiburon.native.layout import object_layout
from tiburon.native.pool import default_threads, run_in_parts

__all__ = ["BLOCK_BYTES", "Calls", "RowLoop", "address_of"]

BLOCK_BYTES = 200_000
"""Data that one step of a block of cases reads and writes: a part of the L2 cache [bytes]."""

# %place is the current row of the address table, %turn how often the table was completed
_NEXT_ADDRESSES = """
  %line = mul i64 %place, %width
  %lines = getelementptr i64, ptr %table, i64 %line
  %line_rises = getelementptr i64, ptr %rises, i64 %line
  br label %fill
fill:
  %k = phi i64 [ 0, %body ], [ %k_next, %fill ]
  %base_at = getelementptr i64, ptr %lines, i64 %k
  %rise_at = getelementptr i64, ptr %line_rises, i64 %k
  %base = load i64, ptr %base_at
  %rise = load i64, ptr %rise_at
  %risen = mul i64 %rise, %turn
  %address = add i64 %base, %risen
  %slot = getelementptr i64, ptr %given, i64 %k
  store i64 %address, ptr %slot
  %k_next = add i64 %k, 1
  %filled = icmp eq i64 %k_next, %width
  br i1 %filled, label %ready, label %fill
ready:
  %next = add i64 %call, 1
  %place_up = add i64 %place, 1
  %used_up = icmp eq i64 %place_up, %period
  %place_next = select i1 %used_up, i64 0, i64 %place_up
  %turn_up = zext i1 %used_up to i64
  %turn_next = add i64 %turn, %turn_up
"""

_ASSEMBLY = f"""
define i64 @loop_of_one(ptr %one, ptr %table, ptr %rises, i64 %inputs, i64 %width, i64 %period,
                        i64 %calls) {{
entry:
  %given = alloca i64, i64 %width, align 16
  %made = getelementptr i64, ptr %given, i64 %inputs
  br label %head
head:
  %call = phi i64 [ 0, %entry ], [ %next, %ready ]
  %place = phi i64 [ 0, %entry ], [ %place_next, %ready ]
  %turn = phi i64 [ 0, %entry ], [ %turn_next, %ready ]
  %more = icmp slt i64 %call, %calls
  br i1 %more, label %body, label %done
body:
{_NEXT_ADDRESSES}
  %status = call i32 %one(ptr %given, ptr %made)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %head, label %done
done:
  ret i64 %call
}}

define i64 @loop_of_many(ptr %many, ptr %table, ptr %rises, i64 %inputs, i64 %width, i64 %period,
                         i64 %calls, ptr %steps_in, ptr %steps_out, i64 %begin, i64 %end,
                         i64 %block) {{
entry:
  %given = alloca i64, i64 %width, align 16
  %made = getelementptr i64, ptr %given, i64 %inputs
  br label %outer
outer:
  %first = phi i64 [ %begin, %entry ], [ %last, %after ]
  %fewest = phi i64 [ %calls, %entry ], [ %call, %after ]
  %left = icmp slt i64 %first, %end
  br i1 %left, label %start, label %done
start:
  %beyond = add i64 %first, %block
  %last = call i64 @llvm.smin.i64(i64 %beyond, i64 %end)
  br label %head
head:
  %call = phi i64 [ 0, %start ], [ %next, %ready ]
  %place = phi i64 [ 0, %start ], [ %place_next, %ready ]
  %turn = phi i64 [ 0, %start ], [ %turn_next, %ready ]
  %more = icmp slt i64 %call, %fewest
  br i1 %more, label %body, label %after
body:
{_NEXT_ADDRESSES}
  %status = call i32 %many(ptr %given, ptr %steps_in, ptr %made, ptr %steps_out,
                           i64 %first, i64 %last)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %head, label %after
after:
  br label %outer
done:
  ret i64 %fewest
}}

declare i64 @llvm.smin.i64(i64, i64)
"""

_INTEGER, _POINTER = ctypes.c_longlong, ctypes.c_void_p
_LOOP_OF_ONE = ctypes.CFUNCTYPE(_INTEGER, *[_POINTER] * 3, *[_INTEGER] * 4)
_LOOP_OF_MANY = ctypes.CFUNCTYPE(
    _INTEGER, *[_POINTER] * 3, *[_INTEGER] * 4, *[_POINTER] * 2, *[_INTEGER] * 3
)


@functools.cache
def _loops() -> tuple[LoadedCode, Callable[..., int], Callable[..., int]]:
    """Return the two loops; the first entry keeps their code."""
    loaded = load_module("row loop", _ASSEMBLY)
    one = _LOOP_OF_ONE(loaded.address("loop_of_one"))
    return loaded, one, _LOOP_OF_MANY(loaded.address("loop_of_many"))


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's data; `array.ctypes.data` takes longer."""
    layout = object_layout()
    if layout is None:
        return int(array.ctypes.data)
    return ctypes.c_int64.from_address(id(array) + layout.data).value


class Calls(NamedTuple):
    """Consecutive calls of a kernel."""

    table: NDArray[np.int64]
    """Addresses of inputs and outputs of the first calls, shape (period, width)."""

    rises: NDArray[np.int64]
    """Increment of each address per pass over the table [bytes], shape (period, width)."""

    number: int
    """Number of calls."""


class RowLoop:
    """Runs the code of a kernel in a native loop."""

    def __init__(self, code: Code) -> None:
        """Wrap the code of a kernel."""
        self._code = code
        signature = code.signature
        self.names = [item.name for item in signature.inputs]
        self.inputs = len(signature.inputs)
        self.width = self.inputs + len(signature.outputs)
        self._out_steps = np.array(
            [int(np.prod(output.shape)) for output in signature.outputs], dtype=np.int64
        )
        # time per case and call in a batch, 0 until measured [s]
        self._seconds = 0.0
        self._many: int | None = None
        _, self._of_one, self._of_many = _loops()

    def guess_seconds(self, cases: int | None) -> float:
        """Estimate the time of one call, for one case or for a batch [s]."""
        pace = self._seconds or self._code.guess_seconds()
        return pace * (host().lanes if cases is None else cases)

    def run_one(self, calls: Calls) -> int:
        """Run the calls for one case.

        Args:
            calls: Addresses of inputs and outputs: contiguous float64 arrays of one case.

        Returns:
            Number of calls before the first one with a non-finite value.
        """
        return self._of_one(self._code.one_address, *self._listed(calls))

    def _listed(self, calls: Calls) -> tuple[int, ...]:
        table, rises, number = calls
        return (
            address_of(table),
            address_of(rises),
            self.inputs,
            self.width,
            len(table),
            number,
        )

    def run_many(
        self,
        calls: Calls,
        steps: NDArray[np.int64],
        cases: int,
        threads: int | None,
    ) -> int:
        """Run the calls for a batch.

        Args:
            calls: Addresses of inputs and outputs; rows of outputs are contiguous.
            steps: Stride from one case to the next for each input, in floats.
            cases: Number of cases.
            threads: Maximum number of threads; None for as many as are worthwhile.

        Returns:
            Number of calls before the first one with a non-finite value in any case.
        """
        row = int(steps.sum() + self._out_steps.sum())
        lanes = host().lanes
        block = max(lanes, BLOCK_BYTES // (8 * max(row, 1)) // lanes * lanes)
        listed, good = self._listed(calls), []
        many = self._many = self._many or self._code.many_address

        def part(begin: int, end: int) -> int:
            began = time.perf_counter()
            found = self._of_many(
                many,
                *listed,
                steps.ctypes.data,
                self._out_steps.ctypes.data,
                begin,
                end,
                block,
            )
            good.append(found)
            self._seconds = (time.perf_counter() - began) / (max(found, 1) * (end - begin))
            return 0

        seconds = self._seconds or self._code.guess_seconds()
        useful = int(calls.number * cases * seconds / WORTH_A_THREAD)
        if useful > 1:
            useful = min(useful, default_threads() if threads is None else threads)
        run_in_parts(part, cases, threads=useful, granule=lanes)
        return min(good)
