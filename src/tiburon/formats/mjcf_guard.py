"""What an MJCF file may make MuJoCo do: checked before MuJoCo sees it.

MuJoCo opens what a file names and builds what it counts. So the file and those it includes are read
here first: every file named must lie in a known folder, wherever MuJoCo might look for it, and
elements that multiply others must stay in bounds.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tiburon.errors import ModelFileError
from tiburon.formats.limits import DEPTH, FILE_BYTES, Budget, read_bytes
from tiburon.formats.mjcf_copies import FileCounts, check_counts
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.regular_file import open_regular_file

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
