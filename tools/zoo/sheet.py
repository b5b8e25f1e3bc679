"""One robot of the zoo, with the comments that stand in its file."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

import tiburon as tb

WIDTH = 100
"""Longest line of a comment."""

TABLES = (
    *("body", "frame", "loop", "thruster", "contact", "actuator", "spring", "cylinder", "cable"),
)
"""Kinds of tables a note can stand before."""


@dataclass(frozen=True)
class Sheet:
    """A model and where its numbers come from."""

    model: tb.Model
    """The robot."""

    sources: str
    """Where the numbers come from, for the head of the file; empty lines part paragraphs."""

    notes: Mapping[str, str] = field(default_factory=dict)
    """Comments that stand before the part of that name."""

    world: tb.World | None = None
    """The surroundings it is meant for, where it needs some."""


def write_text(sheet: Sheet) -> str:
    """Return the native file of a robot, with its comments.

    Args:
        sheet: The robot and its comments.

    Raises:
        ValueError: If a note names no part.
    """
    from tiburon.formats.native_write import native_text

    lines: list[str] = [*comment(sheet.sources), ""]
    written: set[str] = set()
    text = native_text(sheet.model, world=sheet.world).splitlines()
    for number, line in enumerate(text):
        if line.strip("[]") in TABLES and line.startswith("[[") and number + 1 < len(text):
            name = text[number + 1].partition("=")[2].strip().strip('"')
            if name in sheet.notes and name not in written:
                lines += comment(sheet.notes[name])
                written.add(name)
        lines.append(line)
    missing = set(sheet.notes) - written
    if missing:
        raise ValueError(f"{sheet.model.name}: notes on parts that do not exist: {sorted(missing)}")
    return "\n".join(lines).rstrip() + "\n"


def comment(text: str) -> list[str]:
    """Return a text as lines of comments; empty lines part its paragraphs."""
    lines: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        wrapped = textwrap.wrap(" ".join(paragraph.split()), WIDTH - 2, break_on_hyphens=False)
        lines += ["#"] * bool(lines) + [f"# {line}" for line in wrapped]
    return lines
