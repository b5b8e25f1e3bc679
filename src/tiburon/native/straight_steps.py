"""What `emit_instructions` asks of code that is recorded as steps, for one case or for a group."""

from __future__ import annotations

from tiburon.native import elementary
from tiburon.native.steps import StepRecorder
from tiburon.native.target import Ref
from tiburon.trace.lower import Instruction
from tiburon.trace.program import Program


class StraightSteps:
    """A function without calls while its steps are recorded; where inputs lie is for who derives.

    Attributes:
        program: What to compute.
        recorder: The steps of the program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.recorder = StepRecorder()

    def constant(self, value: float) -> Ref:
        """Give the reference of a constant."""
        return self.recorder.const(value)

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Refuse calls, which `is_for_assembly` keeps away."""
        raise AssertionError(f"{self.program.name}: straight-line code without calls expected")

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Record sines and cosines."""
        return [elementary.sin_cos(self.recorder, angle) for angle in angles]
