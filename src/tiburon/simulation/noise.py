"""Random numbers that depend on what they are for, not on when they are drawn.

The n-th number of a stream is a hash of n (SplitMix64: Steele, Lea and Flood 2014, "Fast splittable
pseudorandom number generators"), so that any part of it can be had alone and in any order.
"""

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["normal_noise", "uniform_bits"]

Words = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1
_PARTS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST = 31
_UNIT = 2.0**-53


def _mixed(words: Words) -> Words:
    """Return words in which every bit depends on every bit of those given."""
    for shift, factor in _PARTS:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(_LAST))


def _mixed_number(word: int) -> int:
    """Return `_mixed` of one word."""
    word &= _WORD
    for shift, factor in _PARTS:
        word = (word ^ (word >> shift)) * factor & _WORD
    return word ^ (word >> _LAST)


def uniform_bits(seed: int, stream: str, counts: Sequence[int], places: Words) -> Words:
    """Return 64 random bits for each place of some members of a stream.

    Args:
        seed: Chosen by the user.
        stream: Name of what the numbers are for.
        counts: Which members of the stream.
        places: Numbers of the places; equal places get equal bits.

    Returns:
        Shape (counts, *places).
    """
    begin = _mixed_number((seed & _WORD) * _GOLDEN + zlib.crc32(stream.encode()) + 1)
    starts = [_mixed_number(begin * _GOLDEN + count + 1) for count in counts]
    starting = np.array(starts, dtype=np.uint64).reshape(-1, *[1] * places.ndim)
    with np.errstate(over="ignore"):
        return _mixed(_mixed(places * np.uint64(_GOLDEN) + starting))


def normal_noise(
    seed: int, stream: str, counts: Sequence[int], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return independent normal numbers of mean 0 and deviation 1 (Box and Muller 1958).

    Args:
        seed: Chosen by the user.
        stream: Name of what the numbers are for.
        counts: Which members of the stream: numbers of samples.
        shape: (..., channels): cases lead. The numbers of a case do not depend on how many there
            are, nor on which other samples are drawn with them.

    Returns:
        Shape (counts, *shape).
    """
    channels = shape[-1] if shape else 1
    cases = int(np.prod(shape[:-1], dtype=int))
    # channels and cases have bits of their own, two words for each number
    case = np.arange(cases, dtype=np.uint64)[:, None] << np.uint64(20)
    place = np.add(case, np.arange(2 * channels, dtype=np.uint64), dtype=np.uint64)
    bits = uniform_bits(seed, stream, counts, place)
    unit = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIT
    size = np.sqrt(-2.0 * np.log(unit[..., :channels]))
    found = np.asarray(size * np.cos(2.0 * np.pi * unit[..., channels:]))
    return found.reshape(len(counts), *shape)
