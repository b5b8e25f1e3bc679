"""What a reader noticed and repaired: one warning for the whole file."""

import warnings

from tiburon.arguments import caller_level
from tiburon.errors import ModelWarning

SHOWN = 5
"""Findings spelled out in the warning."""


class Findings:
    """Sentences about a file that could be read, though something in it is not as it should be."""

    def __init__(self, file: str) -> None:
        """Start without any.

        Args:
            file: Name of the file, which leads the warning.
        """
        self.file = file
        self.sentences: list[str] = []

    def add(self, sentence: str, line: int | None = None) -> None:
        """Note a sentence, with the line it is about where known."""
        self.sentences.append(sentence if line is None else f"line {line}: {sentence}")

    def warn(self) -> None:
        """Give one `ModelWarning` for all that was noted, if anything was."""
        if not self.sentences:
            return
        shown = "\n  ".join(self.sentences[:SHOWN])
        more = len(self.sentences) - SHOWN
        rest = f"\n  and {more} more" if more > 0 else ""
        text = f"{self.file}:\n  {shown}{rest}"
        warnings.warn(text, ModelWarning, stacklevel=caller_level())
