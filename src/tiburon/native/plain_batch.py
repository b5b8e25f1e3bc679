"""The short way for plain batches: rows of float64 in, rows of float64 out, nothing else asked.

Everything that does not fit is left to the checked path of `Kernel.evaluate`, which also finds the
words for what is wrong. All that this saves is time: a few microseconds a call instead of many.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.native.arguments import Array
from tiburon.native.code import Code
from tiburon.native.layout import Layout

_FLOAT64 = np.dtype(np.float64)


def _is_plain(array: Any) -> bool:
    if type(array) is not np.ndarray or array.dtype is not _FLOAT64:
        return False
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned)


class PlainBatch:
    """Runs a kernel's code on batches with one leading dimension."""

    def __init__(self, code: Code, parameters: Mapping[str, Array], layout: Layout) -> None:
        signature = code.signature
        self._code = code
        self._data = layout.data
        # the table holds their addresses
        self._parameters = tuple(parameters.values())
        # one table: input addresses, input strides, output addresses, output strides
        inputs, outputs = len(signature.inputs), len(signature.outputs)
        template = [0] * (2 * inputs + 2 * outputs)
        self._arguments: list[tuple[int, tuple[int, ...], int]] = []
        for slot, item in enumerate(signature.inputs):
            if item.parameter:
                template[slot] = parameters[item.name].ctypes.data
            else:
                self._arguments.append((slot, item.shape, item.size))
        self._results: list[tuple[int, tuple[int, ...]]] = []
        for place, result in enumerate(signature.outputs):
            slot = 2 * inputs + place
            self._results.append((slot, result.shape))
            template[slot + outputs] = int(np.prod(result.shape, dtype=int))
        self._single = signature.single
        self._template = template
        self._inputs = inputs
        self._table = ctypes.c_int64 * len(template)
        self._parts = [8 * k for k in (0, inputs, 2 * inputs, 2 * inputs + outputs)]

    def run(
        self, arguments: Sequence[Any], out: Any, threads: int | None
    ) -> Array | tuple[Array, ...] | None:
        """Compute a batch.

        Args:
            arguments: What the caller passed by place.
            out: Array or tuple of arrays to write to, or None for new ones.
            threads: Cores to use at most; None for as many as are worth it.

        Returns:
            What the kernel returns, or None if this is no plain batch or a number is not finite.
        """
        if len(arguments) != len(self._arguments):
            return None
        numbers = self._template.copy()
        cases = 0
        for array, (slot, shape, size) in zip(arguments, self._arguments, strict=True):
            if not _is_plain(array):
                return None
            lead = array.shape
            if lead == shape:
                # one case for all: stride 0
                pass
            elif lead[1:] == shape and lead[0] and cases in (0, lead[0]):
                cases = lead[0]
                numbers[self._inputs + slot] = size
            else:
                return None
            numbers[slot] = self._address(array)
        if not cases:
            return None
        results = self._given_results(out, cases, arguments)
        if results is None:
            return None
        for (slot, _), result in zip(self._results, results, strict=True):
            numbers[slot] = self._address(result)
        table = self._table(*numbers)
        start = ctypes.addressof(table)
        addresses = [start + part for part in self._parts]
        if self._code.run_many(addresses, cases, threads):
            return None
        return results[0] if self._single else results

    def _given_results(
        self, out: Any, cases: int, arguments: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Make the arrays to write, or take the caller's if nothing else lies in their memory."""
        if out is None:
            return tuple([np.empty((cases, *shape)) for _, shape in self._results])
        given = (out,) if self._single else out
        if type(given) is not tuple or len(given) != len(self._results):
            return None
        taken = list(arguments)
        for array, (_, shape) in zip(given, self._results, strict=True):
            if not _is_plain(array) or not array.flags.writeable or array.shape != (cases, *shape):
                return None
            if any(np.may_share_memory(array, other) for other in taken):
                return None
            taken.append(array)
        return given

    def _address(self, array: Array) -> int:
        """Return where an array's numbers lie; `array.ctypes.data` says the same, slowly."""
        return ctypes.c_int64.from_address(id(array) + self._data).value
