"""Limits on MJCF files, checked before MuJoCo reads them.

MuJoCo opens every file that an MJCF file names and builds every element that it counts. The file
and those it includes are therefore read here first: every file named must lie in a known folder,
wherever MuJoCo might look for it.

A few lines may expand to millions of elements: `replicate`, and files attached to files that were
attached before. MuJoCo builds them all, in time proportional to the square of their number. They
are therefore counted first, without building anything.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tiburon.errors import ModelFileError
from tiburon.formats.limits import DEPTH, FILE_BYTES, LINKS, Budget, read_bytes
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.regular_file import open_regular_file

__all__ = [
    "ASSET_BYTES",
    "ENCODINGS",
    "FIELD_POINTS",
    "FINENESS",
    "NESTED_FILES",
    "USER_NUMBERS",
    "FileCounts",
    "check_counts",
    "check_files",
]

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


NESTED_FILES = 1_000
"""Most files included by one another."""

ASSET_BYTES = 8 * FILE_BYTES
"""Largest sum of all meshes and height fields [bytes]."""

FIELD_POINTS = 1_000_000
"""Most points of a height field."""

FINENESS = 1_000
"""Largest parameter of a mesh that MuJoCo makes itself."""

ENCODINGS = ("utf-8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "windows-1252")
"""Encodings in which both readers see the same names; MuJoCo reads UTF-8 whatever a file says."""

_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*encoding\s*=\s*["']([^"']*)["']""")

USER_NUMBERS = 1_000
"""Most numbers of the user's own on each part."""

_INCLUDING = ("include", "model")
"""Elements whose file is MJCF again."""

_FOLDERS = ("assetdir", "meshdir", "texturedir")
"""Attributes of <compiler> that say where other files are."""

_NEVER_EMPTY = ("anchor",)
"""Attributes that end MuJoCo's reader without an error of its own if they are empty."""

_NO_NUMBERS = ("nan", "inf", "infinity")

_TEXTS = ("name", "class", "childclass", "data", "model", "file")
"""Attributes that may be any word."""

_PICTURES = ("texture", "skin")
"""Elements that cost nothing and open no file: they are removed before MuJoCo compiles."""


def check_files(path: Path, package_paths: Iterable[str | Path], budget: Budget) -> None:
    """Raise `ModelFileError` if a file, or one it includes, names or multiplies too much.

    Args:
        path: The model's file.
        package_paths: Folders beside its own that may be read.
        budget: Clock and counts.
    """
    _Guard(path, package_paths, budget).check()


class _Guard:
    """Walks through a file and all it includes."""

    def __init__(self, path: Path, package_paths: Iterable[str | Path], budget: Budget) -> None:
        self.budget = budget
        self.main = path
        self.allowed = [path.parent.resolve(), *(Path(p).resolve() for p in package_paths)]
        self.folders: set[str] = {""}
        self.named: list[tuple[XmlElement, str, Path]] = []
        self.counts: dict[Path, FileCounts] = {}

    def check(self) -> None:
        waiting = [self.main]
        while waiting:
            path = waiting.pop()
            resolved = path.resolve()
            if resolved in self.counts:
                continue
            content = read_bytes(path)
            declared = _ENCODING.match(content.removeprefix(b"\xef\xbb\xbf"))
            root = parse_xml(content, self.budget, str(path), nesting=DEPTH)
            if declared and declared[1].decode("ascii", "replace").lower() not in ENCODINGS:
                root.fail(f"MuJoCo reads UTF-8, got {declared[1][:40]!r}; save the file as UTF-8")
            self.counts[resolved] = FileCounts(root)
            if len(self.counts) > NESTED_FILES:
                root.fail(f"a model may include {NESTED_FILES} files, got more; join some")
            waiting += self._walk(root, path, self.counts[resolved])
        check_counts(self.main.resolve(), self.counts)
        self._check_assets()

    def _walk(self, root: XmlElement, path: Path, counts: FileCounts) -> list[Path]:
        """Check and count what one file holds; return the files it includes or may attach."""
        included: list[Path] = []
        # each element with how many copies of it there will be
        waiting = [(root, 1)]
        while waiting:
            element, copies = waiting.pop()
            copies *= self._copies(element)
            counts.add(element, copies)
            _check_values(element)
            if element.tag == "compiler":
                self.folders.update(
                    element.attributes[name] for name in _FOLDERS if name in element.attributes
                )
            for name in _file_attributes(element):
                if element.tag in _INCLUDING:
                    places = self._places(element, name, path)
                    included += places
                    resolved = [place.resolve() for place in places]
                    if element.tag == "model":
                        called = element.attributes.get("name", "")
                        counts.models += [(called, place) for place in resolved]
                    else:
                        counts.included += resolved
                elif element.tag not in _PICTURES:
                    self.named.append((element, name, path))
            waiting += [(child, copies) for child in element.children]
        return included

    def _copies(self, element: XmlElement) -> int:
        """Return how many parts an element makes of each part inside it."""
        if element.tag in ("replicate", "composite", "flexcomp"):
            product = 1
            for word in element.attributes.get("count", "1").split():
                product *= max(1, _whole(word, element))
            return product
        if element.tag == "hfield":
            sides = [
                _whole(element.attributes.get(name, "1"), element) for name in ("nrow", "ncol")
            ]
            if math.prod(max(1, side) for side in sides) > FIELD_POINTS:
                element.fail(f"a field may have {FIELD_POINTS} points, got more; make it coarser")
        if element.tag == "size":
            for name, word in element.attributes.items():
                if name.startswith("nuser_") and _whole(word, element) > USER_NUMBERS:
                    element.fail(f"{name} may be {USER_NUMBERS}, got {word[:40]!r}; lower it")
        if element.tag == "mesh":
            for word in element.attributes.get("params", "").split():
                if _whole(word, element) > FINENESS:
                    element.fail(f"params must be below {FINENESS}, got {word[:40]!r}; lower it")
        return 1

    def _places(self, element: XmlElement, name: str, path: Path) -> list[Path]:
        """Return where an included file is, among all places where MuJoCo might look."""
        places = self._candidates(element, name, path, {""})
        found = [place for place in places if place.is_file()]
        if not found:
            element.fail(
                f"there is no file {element.attributes[name]!r} beside the model; check the name"
            )
        return found

    def _candidates(
        self, element: XmlElement, name: str, path: Path, folders: set[str]
    ) -> list[Path]:
        """Return every path a name may stand for, all of them in known folders.

        Raises:
            ModelFileError: If one of those that exist is elsewhere.
        """
        file = element.attributes[name].replace("\\", "/")
        bases = {self.main.parent, path.parent}
        try:
            places = {base / folder / file for base in bases for folder in folders}
            # MuJoCo may be told to strip folders from names
            places |= {base / folder / Path(file).name for base in bases for folder in folders}
            known = [place for place in sorted(places) if os.path.lexists(place)]
            outside = [place for place in known if not self._is_allowed(place.resolve())]
        except (OSError, ValueError, RuntimeError) as error:
            element.fail(f"{file[:60]!r} is no path ({error}); correct the name of the file")
        if outside:
            element.fail(
                "files may lie in the folder of the model or in package_paths, got "
                f"{file!r}, which leads elsewhere; load the model with package_paths=[...] naming "
                "a folder that holds it"
            )
        return known

    def _is_allowed(self, resolved: Path) -> bool:
        return any(resolved.is_relative_to(folder) for folder in self.allowed)

    def _check_assets(self) -> None:
        """Check where meshes and height fields are, and how large together."""
        sizes: dict[Path, int] = {}
        for element, name, path in self.named:
            for place in self._candidates(element, name, path, self.folders):
                if place.is_dir() or not place.exists():
                    continue
                try:
                    # MuJoCo opens whatever has that name, and would wait for ever on a pipe
                    with open_regular_file(place, "a mesh or height field") as file:
                        sizes[place] = os.fstat(file.fileno()).st_size
                except ModelFileError as error:
                    element.fail(f"{name}={element.attributes[name][:80]!r}: {error.problem}")
            self.budget.check_time()
            if sum(sizes.values()) > ASSET_BYTES:
                element.fail(
                    f"meshes may have {ASSET_BYTES // 2**20} MB together, got more; make them "
                    "coarser"
                )


def _check_values(element: XmlElement) -> None:
    """Refuse blanks, which MuJoCo does not survive, and numbers that are none, which it takes."""
    for name, value in element.attributes.items():
        words = value.split()
        if not words and (value or name in _NEVER_EMPTY):
            element.fail(f"{name} must have a value, got none; write one, or remove {name}")
        if name not in _TEXTS and any(word.lower().lstrip("+-") in _NO_NUMBERS for word in words):
            element.fail(f"{name} must be finite, got {value[:60]!r}; correct the number")


def _file_attributes(element: XmlElement) -> Iterator[str]:
    """Iterate over the attributes that name a file: file, fileup, filedown, ..."""
    return (name for name, value in element.attributes.items() if name.startswith("file") and value)


def _whole(word: str, element: XmlElement) -> int:
    """Return a whole number; what is none is left to MuJoCo to refuse."""
    try:
        number = float(word)
    except ValueError:
        return 1
    if not abs(number) < 1e9:
        element.fail(f"counts must be moderate, got {word[:40]!r}; lower it")
    return int(number)
