"""How much MuJoCo makes of an MJCF file: copies, models attached to models, keyframes.

A few lines may stand for millions of parts: elements that replicate others, and files attached to
files that were attached before. MuJoCo builds them all, in time that goes with the square of their
number. So they are counted first, without building anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tiburon.formats.limits import LINKS
from tiburon.formats.xml_tree import XmlElement

__all__ = ["FileCounts", "check_counts"]

NESTED_MODELS = 50
"""Most models attached to one another in a row."""

POSITIONS = 2_000_000
"""Most positions of single joints in all keyframes."""

_LINKS = ("body", "composite", "flexcomp")
_JOINTS = ("joint", "freejoint")


@dataclass
class FileCounts:
    """What one file holds, each part as often as this file copies it."""

    root: XmlElement
    """Its root element."""

    elements: int = 0
    """Elements as written."""

    made: int = 0
    """Elements with their copies."""

    links: int = 0
    joints: int = 0
    keys: int = 0

    attached: list[tuple[str, int]] = field(default_factory=list)
    """Name of each attached model, and how often."""

    included: list[Path] = field(default_factory=list)
    """Files that take part as if written here; resolved, as are the next."""

    models: list[tuple[str, Path]] = field(default_factory=list)
    """Names and files of models that may be attached."""

    def add(self, element: XmlElement, copies: int) -> None:
        """Count an element that this file makes so many times."""
        self.elements += 1
        self.made += copies
        self.links += copies if element.tag in _LINKS else 0
        self.joints += copies if element.tag in _JOINTS else 0
        self.keys += copies if element.tag == "key" else 0
        if element.tag == "attach":
            self.attached.append((element.attributes.get("model", ""), copies))
        if self.links > LINKS or self.made - self.elements > LINKS:
            _refuse_copies(element)


class Total(NamedTuple):
    """What a file and all that belongs to it come to."""

    elements: int = 0
    made: int = 0
    links: int = 0
    joints: int = 0
    keys: int = 0

    def plus(self, other: "Total", times: int = 1) -> "Total":
        """Return the sum with some times another total."""
        return Total(*(x + times * y for x, y in zip(self, other, strict=True)))


def check_counts(main: Path, counts: Mapping[Path, FileCounts]) -> None:
    """Raise `ModelFileError` if the files of a model make too much of one another.

    Args:
        main: The model's file, resolved.
        counts: What it and all files that it includes or attaches hold.
    """
    total = _Counter(counts).total(main, ())
    root = counts[main].root
    if total.links > LINKS or total.made - total.elements > LINKS:
        _refuse_copies(root)
    if total.keys * total.joints > POSITIONS:
        root.fail(
            f"keyframes times joints may be {POSITIONS}, got {total.keys} keyframes of "
            f"{total.joints} joints; keep trajectories in files of their own"
        )


def _refuse_copies(element: XmlElement) -> None:
    element.fail(
        f"a robot from a file may have {LINKS} links, and as many parts by copying, got more by "
        "counting copies; lower the counts"
    )


class _Counter:
    """Adds up files, each once."""

    def __init__(self, counts: Mapping[Path, FileCounts]) -> None:
        self.counts = counts
        self.known: dict[Path, Total] = {}

    def total(self, path: Path, outer: tuple[Path, ...]) -> Total:
        """Return what a file comes to, with those it includes and attaches.

        Args:
            path: The file.
            outer: The files it is attached to, outermost first.
        """
        if path in self.known:
            return self.known[path]
        root = self.counts[path].root
        if path in outer:
            root.fail("a model may not hold itself, got one that names its own file; remove it")
        if len(outer) >= NESTED_MODELS:
            root.fail(f"models may be attached {NESTED_MODELS} deep, got more; join some")
        group = self._group(path)
        models = [
            (name, self.total(file, (*outer, path))) for one in group for name, file in one.models
        ]
        result = Total()
        for one in group:
            result = result.plus(Total(one.elements, one.made, one.links, one.joints, one.keys))
            for name, times in one.attached:
                # a model without a name of its own is called as its file says
                named = [total for known, total in models if known == name]
                sizes = named or [total for _, total in models]
                if sizes:
                    # nothing of it was written here
                    largest = max(sizes, key=lambda total: total.made)._replace(elements=0)
                    result = result.plus(largest, times)
        self.known[path] = result
        return result

    def _group(self, path: Path) -> list[FileCounts]:
        """Return a file and all that it includes."""
        found: dict[Path, FileCounts] = {}
        waiting = [path]
        while waiting:
            here = waiting.pop()
            if here not in found:
                found[here] = self.counts[here]
                waiting += self.counts[here].included
        return list(found.values())
