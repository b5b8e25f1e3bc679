"""What a call node calls: a region (function, loop) or a primitive (solver, factorization)."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Callee(Protocol):
    """Something that turns a fixed number of floats into a fixed number of floats.

    Callees are compared by identity or by `key`: equal keys must mean equal behavior.
    """

    @property
    def name(self) -> str:
        """Short name for dumps and error messages."""

    @property
    def key(self) -> int:
        """Structural key, the same in every process."""

    @property
    def argument_count(self) -> int:
        """Number of floats it takes."""

    @property
    def result_count(self) -> int:
        """Number of floats it gives."""

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the results on floats, or on arrays of one float per case."""
