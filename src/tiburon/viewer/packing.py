"""Packing of arrays for web pages: float32, compressed losslessly.

An array is written as the differences of the bit patterns of consecutive rows, sorted by byte
planes: values that change little become long runs of equal bytes, which deflate compresses well.
Unpacking restores every float32 bitwise; `page/decode.js` does it in the browser.
"""

import base64
import zlib
from typing import Any

import numpy as np

from tiburon.arrays import ArrayLike, NDArray


def pack(table: NDArray[np.float32]) -> bytes:
    """Return the bytes of an array, with consecutive rows subtracted.

    Args:
        table: At least one dimension; rows are along the first.
    """
    rows = np.ascontiguousarray(table, dtype="<f4").view("<u4").reshape(len(table), -1)
    steps = rows.copy()
    # integers modulo 2^32: no rounding
    steps[1:] -= rows[:-1]
    # one row per column of the array, then one plane per byte of its entries
    planes = np.ascontiguousarray(steps.T).view("u1").reshape(-1, 4).T
    return np.ascontiguousarray(planes).tobytes()


def unpack(data: bytes, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the array of a shape from its bytes: the inverse of `pack`."""
    count = int(np.prod(shape))
    planes = np.frombuffer(data, dtype="u1", count=4 * count).reshape(4, count)
    steps = np.ascontiguousarray(planes.T).view("<u4").reshape(-1, shape[0]).T
    rows = np.cumsum(steps, axis=0, dtype=np.uint32)
    return np.ascontiguousarray(rows).view("<f4").reshape(shape)


class Packer:
    """Collects arrays; the page finds them by offset and shape."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, values: ArrayLike) -> dict[str, Any]:
        """Add an array and return its offset and shape."""
        table = np.asarray(values, dtype=np.float32)
        data = pack(table)
        found = {"offset": self._length, "shape": list(table.shape)}
        self._parts.append(data)
        self._length += len(data)
        return found

    def text(self) -> str:
        """Return all arrays, deflated, as base64."""
        return compressed(b"".join(self._parts))


def compressed(data: bytes) -> str:
    """Return bytes, deflated, as base64."""
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")
