"""What a kernel takes and gives."""

from __future__ import annotations

from typing import Any

from tiburon.record import record
from tiburon.trace.program import Input, Program


@record
class Result:
    """Name and shape of one array a kernel gives."""

    name: str
    shape: tuple[int, ...]


@record
class Signature:
    """What a kernel takes and gives; kept with the code, so that no tracing is needed.

    Attributes:
        inputs: Arguments and parameters, in the order native code reads them.
        outputs: Results.
        single: Whether the only result is returned by itself.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Result, ...]
    single: bool

    @property
    def arguments(self) -> tuple[Input, ...]:
        """What callers pass."""
        return tuple(item for item in self.inputs if not item.parameter)

    @property
    def parameters(self) -> tuple[Input, ...]:
        """What is bound to the kernel."""
        return tuple(item for item in self.inputs if item.parameter)

    @classmethod
    def of(cls, program: Program) -> Signature:
        """Read the signature off a program."""
        results = tuple(Result(output.name, output.shape) for output in program.outputs)
        return cls(program.inputs, results, program.single)

    def to_header(self) -> dict[str, Any]:
        """Return the signature as plain data."""
        return {
            "inputs": [[i.name, list(i.shape), i.parameter, i.described] for i in self.inputs],
            "outputs": [[o.name, list(o.shape)] for o in self.outputs],
            "single": self.single,
        }

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Signature:
        """Read the signature from plain data."""
        inputs = tuple(Input(n, tuple(s), bool(p), d) for n, s, p, d in header["inputs"])
        outputs = tuple(Result(n, tuple(s)) for n, s in header["outputs"])
        return cls(inputs, outputs, bool(header["single"]))
