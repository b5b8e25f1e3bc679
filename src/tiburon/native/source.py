"""Where kernels come from."""

from __future__ import annotations

import functools
from typing import Protocol

from tiburon.record import record
from tiburon.trace.program import Program


class Source(Protocol):
    """Where a kernel comes from; picklable, so that kernels travel between processes."""

    @property
    def name(self) -> str:
        """Name of the kernel."""

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is; finding it does not need tracing."""

    def program(self) -> Program:
        """Trace the program."""

    def retrace(self) -> None:
        """Trace user code as it is now, so that `key` belongs to what it computes now."""


@record(slots=False)
class ProgramSource:
    """A program that was traced already, such as a user's function."""

    traced: Program

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.traced.name

    @functools.cached_property
    def key(self) -> str:
        """Digest of the graph."""
        from tiburon.trace.digest import program_digest

        return f"graph {program_digest(self.traced)}"

    def program(self) -> Program:
        """Return the program."""
        return self.traced

    def retrace(self) -> None:
        """Do nothing: the program is traced already."""
