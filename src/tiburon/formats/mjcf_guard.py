"""Limits on MJCF files, checked before MuJoCo reads them.

MuJoCo opens every file that an MJCF file references and builds every replicated element. The file
and its includes are therefore parsed here first: every referenced file must be in a permitted
folder, wherever MuJoCo might search for it.

A few lines may expand to millions of elements, through `replicate` and nested attached files.
MuJoCo builds them in quadratic time. They are therefore counted first, without building anything,
and so are elements as written.

Counts cannot tell how long MuJoCo takes for a mesh or a flexible part. They only tell which files
are small: those without anything of that kind.
"""

import math
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tiburon.errors import ModelFileError
from tiburon.formats.limits import FILE_BYTES, MAX_DEPTH, MAX_LINKS, Budget, read_bytes
from tiburon.formats.permitted_folders import PermittedFolders
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.regular_file import open_regular_file

MAX_ATTACH_DEPTH = 50
"""Deepest nesting of attached models."""

MAX_POSITIONS = 2_000_000
"""Most joint positions in all keyframes."""

MAX_ELEMENTS = 100_000
"""Most elements, written and replicated; MuJoCo needs 10 s for a tenth of them."""

_LINKS = ("body", "composite", "flexcomp")
_JOINTS = ("joint", "freejoint")


@dataclass
class FileCounts:
    """Element counts of one file, with replication."""

    root: XmlElement
    """Its root element."""

    elements: int = 0
    """Elements as written."""

    made: int = 0
    """Elements with replication."""

    links: int = 0
    joints: int = 0
    keys: int = 0

    attached: list[tuple[str, int]] = field(default_factory=list)
    """Name and count of each attached model."""

    included: list[Path] = field(default_factory=list)
    """Resolved paths of included files."""

    models: list[tuple[str, Path]] = field(default_factory=list)
    """Names and resolved paths of models that may be attached."""

    def add(self, element: XmlElement, copies: int) -> None:
        """Count an element with its number of copies."""
        self.elements += 1
        self.made += copies
        self.links += copies if element.tag in _LINKS else 0
        self.joints += copies if element.tag in _JOINTS else 0
        self.keys += copies if element.tag == "key" else 0
        if element.tag == "attach":
            self.attached.append((element.attributes.get("model", ""), copies))
        if self.links > MAX_LINKS or self.made - self.elements > MAX_LINKS:
            _raise_copies(element)


class Total(NamedTuple):
    """Element counts of a file with its includes and attached models."""

    elements: int = 0
    made: int = 0
    links: int = 0
    joints: int = 0
    keys: int = 0

    def plus(self, other: "Total", times: int = 1) -> "Total":
        """Return the sum with a multiple of another total."""
        return Total(*(x + times * y for x, y in zip(self, other, strict=True)))


def check_counts(main: Path, counts: Mapping[Path, FileCounts]) -> Total:
    """Return the counts of a model; raise `ModelFileError` if they exceed the limits.

    Args:
        main: Resolved path of its file.
        counts: Counts of each file by its resolved path.
    """
    total = _Counter(counts).total(main, ())
    root = counts[main].root
    if total.links > MAX_LINKS or total.made - total.elements > MAX_LINKS:
        _raise_copies(root)
    if total.keys * total.joints > MAX_POSITIONS:
        root.fail(
            f"keyframes times joints may be {MAX_POSITIONS}, got {total.keys} keyframes of "
            f"{total.joints} joints; keep trajectories in separate files"
        )
    if total.made > MAX_ELEMENTS:
        root.fail(
            f"a model may have {MAX_ELEMENTS} elements, got {total.made}; split the file, or build "
            "the robot in Python"
        )
    return total


def _raise_copies(element: XmlElement) -> None:
    element.fail(
        f"a robot from a file may have {MAX_LINKS} links and as many replicated elements, got "
        "more; "
        "lower the counts"
    )


class _Counter:
    """Sums the counts of files, each computed once."""

    def __init__(self, counts: Mapping[Path, FileCounts]) -> None:
        self.counts = counts
        self.known: dict[Path, Total] = {}

    def total(self, path: Path, outer: tuple[Path, ...]) -> Total:
        """Return the counts of a file with its includes and attached models.

        `outer` are the files that attach it, outermost first.
        """
        if path in self.known:
            return self.known[path]
        root = self.counts[path].root
        if path in outer:
            root.fail("a model may not attach itself, got a reference to its own file; remove it")
        if len(outer) >= MAX_ATTACH_DEPTH:
            root.fail(f"models may be attached {MAX_ATTACH_DEPTH} deep, got more; join some")
        group = self._group(path)
        models = [
            (name, self.total(file, (*outer, path))) for one in group for name, file in one.models
        ]
        result = Total()
        for one in group:
            result = result.plus(Total(one.elements, one.made, one.links, one.joints, one.keys))
            for name, times in one.attached:
                # an unnamed model has the name in its own file
                named = [total for known, total in models if known == name]
                sizes = named or [total for _, total in models]
                if sizes:
                    # its elements are not written in this file
                    largest = max(sizes, key=lambda total: total.made)._replace(elements=0)
                    result = result.plus(largest, times)
        self.known[path] = result
        return result

    def _group(self, path: Path) -> list[FileCounts]:
        """Return the counts of a file and of all its includes."""
        found: dict[Path, FileCounts] = {}
        waiting = [path]
        while waiting:
            here = waiting.pop()
            if here not in found:
                found[here] = self.counts[here]
                waiting += self.counts[here].included
        return list(found.values())


MAX_FILES = 1_000
"""Most files of one model."""

MAX_ASSET_BYTES = 8 * FILE_BYTES
"""Largest total size of meshes and height fields [bytes]."""

MAX_FIELD_POINTS = 1_000_000
"""Most points of a height field."""

MAX_ALL_FIELD_POINTS = 4_000_000
"""Most points of all height fields."""

MAX_MESH_PARAMETER = 1_000
"""Largest parameter of a mesh generated by MuJoCo."""

ENCODINGS = ("utf-8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "windows-1252")
"""Encodings in which both parsers read the same names; MuJoCo always assumes UTF-8."""

_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*encoding\s*=\s*["']([^"']*)["']""")

MAX_USER_VALUES = 1_000
"""Most user values on each element."""

SMALL_BYTES, SMALL_ELEMENTS, SMALL_LINKS, SMALL_ASSET_BYTES = 500_000, 2_000, 500, 200_000
"""Limits on small models: bytes of all files, elements, links, and bytes of mesh files, counted as
often as they are named. MuJoCo compiles the worst of them in a few seconds: the hull of a mesh with
many points in one plane takes time that is quadratic in them."""

SMALL_TAGS = (
    *("mujoco", "mujocoinclude", "include", "compiler", "lengthrange", "option", "flag", "size"),
    *("statistic", "asset", "mesh", "texture", "material", "layer", "hfield", "worldbody", "body"),
    *("frame", "joint", "freejoint", "geom", "site", "camera", "light", "inertial", "replicate"),
)
"""Elements of small models."""

SMALL_SECTIONS = (
    *("visual", "default", "contact", "equality", "tendon", "actuator", "sensor", "keyframe"),
    "custom",
)
"""Elements whose content is that of small models, apart from plugins."""

SMALL_MESH_ATTRIBUTES = (
    *("name", "class", "content_type", "file", "scale", "refpos", "refquat", "vertex", "normal"),
    *("face", "texcoord", "inertia", "smoothnormal", "maxhullvert", "material"),
)
"""Attributes of meshes of small models; others generate vertices, or trees of distances."""

_INCLUDING = ("include", "model")
"""Elements that reference MJCF files."""

_FOLDERS = ("assetdir", "meshdir", "texturedir")
"""Attributes of <compiler> that name folders."""

_NEVER_EMPTY = ("anchor",)
"""Attributes that crash MuJoCo's parser if they are empty."""

_PNG = b"\x89PNG\r\n\x1a\n"
"""First bytes of a PNG file, whose width and height follow at byte 16."""

_NON_FINITE = ("nan", "inf", "infinity")

_TEXTS = ("name", "class", "childclass", "data", "model", "file")
"""Attributes with arbitrary text."""

_REMOVED = ("texture", "skin")
"""Elements that are removed before MuJoCo compiles, so that they open no file."""


def check_files(
    path: Path,
    package_paths: Iterable[str | Path],
    budget: Budget,
    root: str | Path | None = None,
) -> bool:
    """Raise `ModelFileError` if a file or one of its includes exceeds the limits.

    Args:
        path: The file.
        package_paths: Folders for included files and meshes, in addition to those found.
        budget: Time and size limits.
        root: Folder above the file, as in `PermittedFolders`.

    Returns:
        Whether the model is small: MuJoCo compiles it within a few seconds.
    """
    return _Guard(path, PermittedFolders(path.parent, package_paths, root), budget).check()


class _Guard:
    """Checks a file and all its includes."""

    def __init__(self, path: Path, places: PermittedFolders, budget: Budget) -> None:
        self.budget = budget
        self.main = path
        self.permitted = places
        self.folders: set[str] = {""}
        self.named: list[tuple[XmlElement, str, Path]] = []
        self.counts: dict[Path, FileCounts] = {}
        self.is_small = True
        self.field_points = 0

    def check(self) -> bool:
        waiting, size = [self.main], 0
        while waiting:
            path = waiting.pop()
            resolved = path.resolve()
            if resolved in self.counts:
                continue
            content = read_bytes(path)
            size += len(content)
            declared = _ENCODING.match(content.removeprefix(b"\xef\xbb\xbf"))
            root = parse_xml(content, self.budget, str(path), nesting=MAX_DEPTH, doctype=False)
            if declared and declared[1].decode("ascii", "replace").lower() not in ENCODINGS:
                root.fail(f"MuJoCo reads UTF-8, got {declared[1][:40]!r}; save the file as UTF-8")
            self.counts[resolved] = FileCounts(root)
            if len(self.counts) > MAX_FILES:
                root.fail(f"a model may include {MAX_FILES} files, got more; join some")
            waiting += self._walk(root, path, self.counts[resolved])
        total = check_counts(self.main.resolve(), self.counts)
        assets = self._check_assets()
        return (
            self.is_small
            and size <= SMALL_BYTES
            and total.made <= SMALL_ELEMENTS
            and total.links <= SMALL_LINKS
            and assets <= SMALL_ASSET_BYTES
        )

    def _walk(self, root: XmlElement, path: Path, counts: FileCounts) -> list[Path]:
        """Check and count the elements of one file; return included and attached files."""
        included: list[Path] = []
        # elements with their number of copies, and whether a section holds them
        waiting = [(root, 1, False)]
        while waiting:
            element, copies, is_inside = waiting.pop()
            copies *= self._copies(element)
            counts.add(element, copies)
            _check_values(element)
            self.is_small = self.is_small and _is_small(element, is_inside)
            is_inside = is_inside or element.tag in SMALL_SECTIONS
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
                elif element.tag not in _REMOVED:
                    self.named.append((element, name, path))
            waiting += [(child, copies, is_inside) for child in element.children]
        return included

    def _copies(self, element: XmlElement) -> int:
        """Return the replication count of an element."""
        if element.tag in ("replicate", "composite", "flexcomp"):
            product = 1
            for word in element.attributes.get("count", "1").split():
                product *= max(1, _whole(word, element))
            return product
        if element.tag == "hfield":
            sides = [
                _whole(element.attributes.get(name, "1"), element) for name in ("nrow", "ncol")
            ]
            self._add_field(math.prod(max(1, side) for side in sides), element)
        if element.tag == "size":
            for name, word in element.attributes.items():
                if name.startswith("nuser_") and _whole(word, element) > MAX_USER_VALUES:
                    element.fail(f"{name} may be {MAX_USER_VALUES}, got {word[:40]!r}; lower it")
        if element.tag == "mesh":
            for word in element.attributes.get("params", "").split():
                if _whole(word, element) > MAX_MESH_PARAMETER:
                    element.fail(
                        f"params must be below {MAX_MESH_PARAMETER}, got {word[:40]!r}; lower it"
                    )
        return 1

    def _add_field(self, points: int, element: XmlElement) -> None:
        """Count the points of a height field."""
        if points > MAX_FIELD_POINTS:
            element.fail(f"a field may have {MAX_FIELD_POINTS} points, got more; make it coarser")
        self.field_points += points
        if self.field_points > MAX_ALL_FIELD_POINTS:
            element.fail(
                f"all fields may have {MAX_ALL_FIELD_POINTS} points, got more; make them coarser"
            )

    def _places(self, element: XmlElement, name: str, path: Path) -> list[Path]:
        """Return the paths of an included file that MuJoCo might open."""
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
        """Return all existing candidate paths of a name, in permitted folders.

        Raises:
            ModelFileError: If an existing one is outside the permitted folders.
        """
        file = element.attributes[name].replace("\\", "/")
        bases = {self.main.parent, path.parent}
        try:
            places = {base / folder / file for base in bases for folder in folders}
            # with strippath, MuJoCo ignores the folders of names
            places |= {base / folder / Path(file).name for base in bases for folder in folders}
            known = [place for place in sorted(places) if os.path.lexists(place)]
            outside = [place for place in known if not self.permitted.allows(place.resolve())]
        except (OSError, ValueError, RuntimeError) as error:
            element.fail(f"{file[:60]!r} is not a path ({error}); correct the name of the file")
        if outside:
            element.fail(
                "files must be in the folder of the model, in that of its package, or in "
                f"package_paths, got {file!r}, which is elsewhere; "
                f"{self.permitted.advice(outside[0], 'the model')}"
            )
        return known

    def _check_assets(self) -> int:
        """Check the folders and sizes of meshes and height fields.

        Returns:
            Size of all files [bytes], each as often as it is named.
        """
        sizes: dict[Path, int] = {}
        total = 0
        for element, name, path in self.named:
            largest = 0
            for place in self._candidates(element, name, path, self.folders):
                if place.is_dir() or not place.exists():
                    continue
                try:
                    # MuJoCo would block forever on a pipe
                    with open_regular_file(place, "a mesh or height field") as file:
                        sizes[place] = os.fstat(file.fileno()).st_size
                        start = file.read(24)
                except ModelFileError as error:
                    element.fail(f"{name}={element.attributes[name][:80]!r}: {error.problem}")
                largest = max(largest, sizes[place])
                if element.tag == "hfield" and start.startswith(_PNG):
                    width, height = struct.unpack(">II", start[16:].ljust(8, b"\0"))
                    self._add_field(width * height, element)
            total += largest
            self.budget.check_time()
            if sum(sizes.values()) > MAX_ASSET_BYTES:
                element.fail(
                    f"meshes may have {MAX_ASSET_BYTES // 2**20} MB together, got more; make them "
                    "coarser"
                )
        return total


def _is_small(element: XmlElement, is_inside: bool) -> bool:
    """Return whether an element may be part of a small model."""
    if element.tag == "mesh":
        return set(element.attributes) <= set(SMALL_MESH_ATTRIBUTES)
    if element.tag == "hfield":
        return "file" not in element.attributes
    known = is_inside or element.tag in SMALL_TAGS or element.tag in SMALL_SECTIONS
    return known and element.tag != "plugin"


def _check_values(element: XmlElement) -> None:
    """Raise for blank values, which crash MuJoCo, and non-finite ones, which it accepts."""
    for name, value in element.attributes.items():
        words = value.split()
        if not words and (value or name in _NEVER_EMPTY):
            element.fail(f"{name} must have a value, got none; write one, or remove {name}")
        if name not in _TEXTS and any(word.lower().lstrip("+-") in _NON_FINITE for word in words):
            element.fail(f"{name} must be finite, got {value[:60]!r}; correct the number")


def _file_attributes(element: XmlElement) -> Iterator[str]:
    """Iterate over the attributes with file names: file, fileup, filedown, ..."""
    return (name for name, value in element.attributes.items() if name.startswith("file") and value)


def _whole(word: str, element: XmlElement) -> int:
    """Return an integer; MuJoCo rejects other text."""
    try:
        number = float(word)
    except ValueError:
        return 1
    if not abs(number) < 1e9:
        element.fail(f"counts must be moderate, got {word[:40]!r}; lower it")
    return int(number)
