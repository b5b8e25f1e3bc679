"""A native loop over a kernel whose outputs are the inputs of its next call.

The steps of a simulation are such calls: each reads the row before it and writes its own row where
it finally stays. The loop is machine code, so that no Python runs between two steps. A batch is
processed in blocks of cases: what one step of a block wrote is still in the nearest cache when the
next step reads it.

Addresses of inputs and outputs come from a table with one line per call. The table repeats: after
its last line it starts again from the first, each address increased by its own stride.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tiburon.arrays import NDArray
from tiburon.native.code import MIN_THREAD_WORK, Code
from tiburon.native.engine import LoadedCode, host, load_module
from tiburon.native.layout import object_layout
from tiburon.native.pool import default_threads, run_in_parts

BLOCK_BYTES = 200_000
"""Bytes that one step of a block of cases may read and write: they stay in a near cache."""

# %place is the next line of the table, %turn the number of times the table was repeated
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

# a job lists, 8 bytes each: code, lines, strides, inputs, width, period
_JOB = """
  %kernel_at = getelementptr i64, ptr %job, i64 0
  %kernel = load ptr, ptr %kernel_at
  %table_at = getelementptr i64, ptr %job, i64 1
  %table = load ptr, ptr %table_at
  %rises_at = getelementptr i64, ptr %job, i64 2
  %rises = load ptr, ptr %rises_at
  %inputs_at = getelementptr i64, ptr %job, i64 3
  %inputs = load i64, ptr %inputs_at
  %width_at = getelementptr i64, ptr %job, i64 4
  %width = load i64, ptr %width_at
  %period_at = getelementptr i64, ptr %job, i64 5
  %period = load i64, ptr %period_at
  %place_first = urem i64 %begin_call, %period
  %turn_first = udiv i64 %begin_call, %period
  %given = alloca i64, i64 %width, align 16
  %made = getelementptr i64, ptr %given, i64 %inputs
"""

_ASSEMBLY = f"""
define i64 @loop_of_one(ptr %job, i64 %begin_call, i64 %end_call) {{
entry:
{_JOB}
  br label %head
head:
  %call = phi i64 [ %begin_call, %entry ], [ %next, %ready ]
  %place = phi i64 [ %place_first, %entry ], [ %place_next, %ready ]
  %turn = phi i64 [ %turn_first, %entry ], [ %turn_next, %ready ]
  %more = icmp slt i64 %call, %end_call
  br i1 %more, label %body, label %done
body:
{_NEXT_ADDRESSES}
  %status = call i32 %kernel(ptr %given, ptr %made)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %head, label %done
done:
  ret i64 %call
}}

define i64 @loop_of_many(ptr %job, i64 %begin_call, i64 %end_call, ptr %steps_in,
                         ptr %steps_out, i64 %begin, i64 %end, i64 %block) {{
entry:
{_JOB}
  br label %outer
outer:
  %first = phi i64 [ %begin, %entry ], [ %last, %after ]
  %fewest = phi i64 [ %end_call, %entry ], [ %call, %after ]
  %left = icmp slt i64 %first, %end
  br i1 %left, label %start, label %done
start:
  %beyond = add i64 %first, %block
  %last = call i64 @llvm.smin.i64(i64 %beyond, i64 %end)
  br label %head
head:
  %call = phi i64 [ %begin_call, %start ], [ %next, %ready ]
  %place = phi i64 [ %place_first, %start ], [ %place_next, %ready ]
  %turn = phi i64 [ %turn_first, %start ], [ %turn_next, %ready ]
  %more = icmp slt i64 %call, %fewest
  br i1 %more, label %body, label %after
body:
{_NEXT_ADDRESSES}
  %status = call i32 %kernel(ptr %given, ptr %steps_in, ptr %made, ptr %steps_out,
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

_INTEGER = ctypes.c_longlong
_LOOP_OF_ONE = ctypes.CFUNCTYPE(_INTEGER, *[_INTEGER] * 3)
_LOOP_OF_MANY = ctypes.CFUNCTYPE(_INTEGER, *[_INTEGER] * 8)


@functools.cache
def _loops() -> tuple[LoadedCode, Callable[..., int], Callable[..., int]]:
    """Return the two loops; the first entry keeps their code."""
    loaded = load_module("row loop", _ASSEMBLY)
    one = _LOOP_OF_ONE(loaded.address("loop_of_one"))
    return loaded, one, _LOOP_OF_MANY(loaded.address("loop_of_many"))


def loop_address() -> int:
    """Return the address of the loop over one case: ``loop(job, begin, end)``."""
    loaded, *_ = _loops()
    return loaded.address("loop_of_one")


def address_of(array: NDArray[Any]) -> int:
    """Return the address of the first element; `array.ctypes.data` is the same, but slow."""
    layout = object_layout()
    if layout is None:
        return int(array.ctypes.data)
    return ctypes.c_int64.from_address(id(array) + layout.data).value


class AddressTable(NamedTuple):
    """Addresses of inputs and outputs for consecutive calls."""

    lines: NDArray[np.int64]
    """Inputs, then outputs, of the first calls, shape (period, width)."""

    strides: NDArray[np.int64]
    """Increase of each address when the table repeats [bytes], of the same shape."""


class Job(NamedTuple):
    """Calls of a kernel, as the native loop takes them."""

    fields: NDArray[np.int64]
    """Fields that machine code reads."""

    address: int
    """Address of the fields."""

    table: AddressTable
    """Kept as long as its addresses are in use."""

    @classmethod
    def of(cls, address: int, table: AddressTable, inputs: int) -> Job:
        """Return the calls of a function, of which a line of the table has some inputs."""
        lines, strides = table
        listed = [address, address_of(lines), address_of(strides), inputs, *lines.shape[::-1]]
        fields = np.array(listed, dtype=np.int64)
        return cls(fields, address_of(fields), table)


class CheckedLoop:
    """Runs a kernel many times in a row from Python: without machine code, or to compare with it.

    Attributes:
        names: Names of the inputs, parameters included, in the order of a line of the table.
        output_names: Names of the outputs, which follow them.
        width: Length of a line.
    """

    def __init__(self, code: Any) -> None:
        """Take the code of a kernel, or what evaluates its graph."""
        self._code = code
        signature = code.signature
        self.names = [item.name for item in signature.inputs]
        self.output_names = [output.name for output in signature.outputs]
        self._inputs = len(signature.inputs)
        self.width = self._inputs + len(signature.outputs)
        self._out_steps = np.array(
            [int(np.prod(output.shape)) for output in signature.outputs], dtype=np.int64
        )

    def guess_seconds(self, cases: int | None) -> float:
        """Estimate the time of one call, for one case or for a batch [s]."""
        return 1.0

    def job(
        self, table: AddressTable, cases: int, *, batch: bool, earlier: Job | None = None
    ) -> Job:
        """Return the calls of a table: for `run_many` if they are those of a batch, else `run_one`.

        Args:
            table: Where calls read and write.
            cases: How many all calls together compute, about.
            batch: Whether each call computes many cases.
            earlier: Calls of the same table, which are over; None if there were none.
        """
        return Job.of(0, table, self._inputs)

    def renew(self, job: Job, cases: int) -> None:
        """Take optimized code for the calls of a batch once it is there, quick code until then.

        Args:
            job: Calls, which do not pass on lane-blocked rows.
            cases: How many they compute next.
        """

    def blocked_job(self, table: Callable[[int], AddressTable], cases: int) -> Job:
        """Return the calls of a batch, which may pass on lane-blocked rows.

        Args:
            table: Returns where calls read and write, for the lanes of lane-blocked rows; for 0
                there are none. Their addresses are one more than where they are.
            cases: How many all calls together compute, about.
        """
        return Job.of(0, table(0), self._inputs)

    def run_one(self, job: Job, begin: int, end: int) -> int:
        """Compute one case again and again.

        Args:
            job: Calls with contiguous float64 arrays. They take optimized code once it is there.
            begin: Number of the first call.
            end: Number of the call before which to stop.

        Returns:
            Number of the call that met a non-finite value; `end` if none did.
        """
        return self._checked(job, begin, end, np.zeros(self._inputs, dtype=np.int64), ())

    def run_many(
        self,
        job: Job,
        begin: int,
        end: int,
        steps: NDArray[np.int64],
        cases: int,
        threads: int | None,
    ) -> int:
        """Compute a batch again and again.

        Args:
            job: Calls; the cases of an output follow each other.
            begin: Number of the first call.
            end: Number of the call before which to stop.
            steps: For each input the distance from one case to the next [elements].
            cases: How many there are.
            threads: Cores to use at most; None for as many as pay off.

        Returns:
            Number of the first call in which any case met a non-finite value; `end` if none did.
            Up to that call all rows are written; buffers may hold later results.
        """
        return self._checked(job, begin, end, steps, (cases,))

    def _checked(
        self, job: Job, begin: int, end: int, steps: NDArray[np.int64], batch: tuple[int, ...]
    ) -> int:
        signature, (lines, strides) = self._code.signature, job.table
        items = (*signature.inputs, *signature.outputs)
        distances = [*steps.tolist(), *self._out_steps.tolist()]
        for call in range(begin, end):
            turn, place = divmod(call, len(lines))
            line = (lines[place] + turn * strides[place]).tolist()
            arrays = [
                _array_at(address, item.shape, distance, batch)
                for address, item, distance in zip(line, items, distances, strict=True)
            ]
            given = [np.ascontiguousarray(array) for array in arrays[: self._inputs]]
            found = [np.empty_like(array) for array in arrays[self._inputs :]]
            if self._code.run(given, batch, found, None):
                return call
            for array, values in zip(arrays[self._inputs :], found, strict=True):
                array[...] = values
        return end


def _array_at(
    address: int, shape: tuple[int, ...], distance: int, batch: tuple[int, ...]
) -> NDArray[Any]:
    """Return the values at an address, for one case or, if cases are apart, for a batch."""
    size = int(np.prod(shape))
    batch = batch if distance else ()
    count = size + distance * (batch[0] - 1 if batch else 0)
    flat = np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))
    strides = [8 * int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    return as_strided(flat, (*batch, *shape), (*[8 * distance] * len(batch), *strides))


class RowLoop(CheckedLoop):
    """Runs the code of a kernel many times in a row, in machine code."""

    def __init__(self, code: Code) -> None:
        """Take the code of a kernel."""
        super().__init__(code)
        # time of one case in one call of a batch, 0 until it was measured [s]
        self._seconds = 0.0
        # whether calls of one case take quick code, and are timed
        self._is_quick = True
        _, self._of_one, self._of_many = _loops()

    def guess_seconds(self, cases: int | None) -> float:
        """Estimate the time of one call, for one case or for a batch [s]."""
        pace = self._seconds or self._code.guess_seconds()
        return pace * (host().lanes if cases is None else cases)

    def job(
        self, table: AddressTable, cases: int, *, batch: bool, earlier: Job | None = None
    ) -> Job:
        """Return the calls of a table."""
        function = self._code.many if batch else self._code.one
        address = function.address_for(cases, wait=True)
        if earlier is None:
            return Job.of(address, table, self._inputs)
        earlier.fields[0] = address
        return earlier

    def renew(self, job: Job, cases: int) -> None:
        """Take optimized code for the calls of a batch once it is there, quick code until then."""
        job.fields[0] = self._code.many.address_for(cases, wait=False)

    def blocked_job(self, table: Callable[[int], AddressTable], cases: int) -> Job:
        """Return the calls of a batch, which may pass on lane-blocked rows."""
        function = self._code.many
        address = function.address_for(cases, wait=True)
        return Job.of(address, table(function.blocked_lanes(address)), self._inputs)

    def run_one(self, job: Job, begin: int, end: int) -> int:
        """Compute one case again and again."""
        if not self._is_quick:
            return self._of_one(job.address, begin, end)
        one = self._code.one
        self._is_quick = not one.is_optimized
        job.fields[0] = one.address_for(0, wait=False)
        start = time.perf_counter()
        reached = self._of_one(job.address, begin, end)
        one.time_calls(reached - begin, time.perf_counter() - start)
        return reached

    def run_many(
        self,
        job: Job,
        begin: int,
        end: int,
        steps: NDArray[np.int64],
        cases: int,
        threads: int | None,
    ) -> int:
        """Compute a batch again and again."""
        row = int(steps.sum() + self._out_steps.sum())
        lanes = host().lanes
        block = max(lanes, BLOCK_BYTES // (8 * max(row, 1)) // lanes * lanes)
        reached: list[int] = []

        def part(first: int, last: int) -> int:
            began = time.perf_counter()
            tables = steps.ctypes.data, self._out_steps.ctypes.data
            found = self._of_many(job.address, begin, end, *tables, first, last, block)
            reached.append(found)
            taken = time.perf_counter() - began
            computed = max(found - begin, 1) * (last - first)
            self._seconds = taken / computed
            self._code.many.time_calls(computed, taken)
            return 0

        seconds = self._seconds or self._code.guess_seconds()
        useful = int((end - begin) * cases * seconds / MIN_THREAD_WORK)
        if useful > 1:
            useful = min(useful, default_threads() if threads is None else threads)
        run_in_parts(part, cases, threads=useful, granule=lanes)
        return min(reached)
