"""Untrusted TOML as tables with line numbers, parsed in bounded time and memory."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from tiburon.errors import ModelError, ModelFileError, TiburonError, nearest_name
from tiburon.formats.limits import MAX_MAGNITUDE, Budget

Made = TypeVar("Made")

MAX_CHARACTERS = 24_000_000
"""Longest text; the parser reads about ten million characters per second."""

MAX_VALUES = 1_500_000
"""Most values, lines and escapes; the parser reads a few hundred thousand per second."""

MAX_KEY_PARTS = 32
"""Most parts of a dotted key; parsing time is quadratic in them."""

MAX_NESTING = 3
"""Deepest nesting of lists, for matrices."""

_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{MAX_KEY_PARTS}}}")
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]#]+)\]")
_AT_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)")


class TomlSource:
    """The text of a file, for line numbers in messages."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text

    def line_of(self, path: tuple[str | int, ...]) -> int | None:
        """Return the first line of an element, or of the nearest enclosing one with a known line.

        A path is keys and list indices from the root of the file.
        """
        for length in range(len(path), 0, -1):
            line = self._lines.get(path[:length])
            if line is not None:
                return line
        return None

    @cached_property
    def _lines(self) -> dict[tuple[str | int, ...], int]:
        """The first line of each table and key."""
        found: dict[tuple[str | int, ...], int] = {}
        counts: dict[tuple[str | int, ...], int] = {}
        section: tuple[str | int, ...] = ()
        for number, line in enumerate(self.text.split("\n"), start=1):
            header = _HEADER.match(line)
            if header is not None:
                section = self._resolve(header, counts)
                found.setdefault(section, number)
            elif "=" in line:
                key = line.partition("=")[0].strip().strip("\"'")
                found.setdefault((*section, *key.split(".")), number)
        return found

    @staticmethod
    def _resolve(
        header: re.Match[str], counts: dict[tuple[str | int, ...], int]
    ) -> tuple[str | int, ...]:
        """Return the path of a header line, with list indices."""
        keys = [key.strip().strip("\"'") for key in header.group(2).split(".")]
        path: tuple[str | int, ...] = ()
        for position, key in enumerate(keys):
            path = (*path, key)
            if header.group(1) == "[[" and position == len(keys) - 1:
                counts[path] = counts.get(path, -1) + 1
            if path in counts:
                path = (*path, counts[path])
        return path


class Table:
    """One table of a file: its data, its name in messages, and the keys that were read."""

    __slots__ = ("data", "element", "path", "seen", "source")

    def __init__(
        self, source: TomlSource, data: dict[str, Any], path: tuple[str | int, ...], element: str
    ) -> None:
        self.source = source
        self.data = data
        self.path = path
        self.element = element
        self.seen: set[str] = set()

    @property
    def line(self) -> int | None:
        """First line of the table, if known."""
        return self.source.line_of(self.path)

    def fail(self, message: str, key: str | None = None) -> NoReturn:
        """Raise `ModelFileError` naming file, line and element."""
        path = self.path if key is None else (*self.path, key)
        line, element = self.source.line_of(path), self.element or None
        raise ModelFileError(self.source.file, message, line=line, element=element)

    def get(self, key: str) -> Any:
        """Return the value of a key, or None."""
        self.seen.add(key)
        return self.data.get(key)

    def has(self, key: str) -> bool:
        """Return whether the table has a key."""
        self.seen.add(key)
        return key in self.data

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string, or the default."""
        value = self.get(key)
        if value is None:
            if default is None:
                self.require(key)
            else:
                return default
        if not isinstance(value, str):
            self._wrong(key, "a string", value)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, empty by default."""
        value = self.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
            self._wrong(key, "a list of strings", value)
        return tuple(value)

    def numbers(self, key: str) -> Any:
        """Return a number, or lists of numbers as tuples; None by default."""
        value = self.get(key)
        return None if value is None else self._floats(key, value, MAX_NESTING)

    def _floats(self, key: str, value: Any, depth: int) -> Any:
        if type(value) is float and not MAX_MAGNITUDE <= abs(value) < math.inf:
            return value
        if isinstance(value, list) and depth > 0:
            return tuple([self._floats(key, x, depth - 1) for x in value])
        if type(value) is int and abs(value) < MAX_MAGNITUDE:
            return float(value)
        self._wrong(key, f"a number below {MAX_MAGNITUDE:g} or a list of such", value)

    def table(self, key: str, name: str | None = None) -> "Table | None":
        """Return an inner table, if any.

        Args:
            key: Key of the table.
            name: Name in messages; by default the key after this table's own name.
        """
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._wrong(key, "a table", value)
        called = name or (f"{self.element}, {key}" if self.element else key)
        return Table(self.source, value, (*self.path, key), called)

    def need(self, key: str) -> "Table":
        """Return an inner table; raise if it is missing."""
        inner = self.table(key)
        if inner is None:
            self.fail(f"expected the table {key!r}, got none; add it")
        return inner

    def tables(self, key: str) -> "list[Table]":
        """Return the tables listed under a key, named by their key "name"."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._wrong(key, f"a list of tables, each under [[{key}]]", value)
        before = f"{self.element}, " if self.element else ""
        result = []
        for index, item in enumerate(value):
            name = item.get("name")
            called = f"{key} {name!r}" if isinstance(name, str) else f"{key} {index + 1}"
            result.append(Table(self.source, item, (*self.path, key, index), before + called))
        return result

    def choice(self, key: str, choices: dict[str, Made], default: str | None = None) -> Made:
        """Return the choice that a word selects.

        Args:
            key: Key of the word.
            choices: Choices by word.
            default: Default word.
        """
        word = self.text(key, default)
        if word not in choices:
            near = nearest_name(word, choices)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(choices)}"
            self.fail(f"{key} must be a known word, got {word[:60]!r}; {hint}", key)
        return choices[word]

    def require(self, key: str) -> None:
        """Raise if a key is missing."""
        if key not in self.data:
            near = nearest_name(key, [other for other in self.data if other not in self.seen])
            if near is not None:
                self.fail(f"expected the key {key!r}, got {near[:60]!r}; rename it", near)
            self.fail(f"expected the key {key!r}, got none; write {key} = ...")

    def finish(self) -> None:
        """Raise if the table has an unknown key."""
        for key in self.data:
            if key not in self.seen:
                near = nearest_name(key, self.seen)
                hint = (
                    f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(self.seen))}"
                )
                self.fail(f"unknown key {key[:60]!r}; {hint}", key)

    def build(self, make: Callable[..., Made], /, *args: Any, **values: Any) -> Made:
        """Call a constructor; raise its errors as errors about this table."""
        with self.refusals():
            return make(*args, **values)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Convert model errors into errors about this table of the file."""
        try:
            yield
        except ModelFileError:
            raise
        except TiburonError as error:
            name = error.name if isinstance(error, ModelError) else None
            problem = str(error) if ";" in str(error) else f"{error}; correct it"
            raise ModelFileError(
                self.source.file, problem, line=self.line, element=self.element or None, name=name
            ) from error

    def _wrong(self, key: str, expected: str, value: object) -> NoReturn:
        shown = "nothing" if value is None else _shown(value)
        self.fail(f"{key} must be {expected}, got {shown}; correct it", key)


def _shown(value: object) -> str:
    """Return a value in short form for messages."""
    if type(value) is int and abs(value) >= MAX_MAGNITUDE:
        # formatting a huge integer is slow
        return "a larger one"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def parse_toml(content: bytes, budget: Budget) -> Table:
    """Return the root table of a TOML text.

    Raises:
        ModelFileError: If the TOML is malformed, too large or too deep.
    """
    file = budget.file
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ModelFileError(
            file, "TOML must be encoded in UTF-8, got other bytes; save it as UTF-8", line=line
        ) from error
    words = sum(text.count(mark) for mark in (",", "\\", "[")) + 2 * text.count("\n")
    if len(text) > MAX_CHARACTERS or words > MAX_VALUES:
        raise ModelFileError(
            file,
            f"a TOML file may have {MAX_CHARACTERS} characters and about {MAX_VALUES} words, got "
            f"{len(text)} and {words}; build the robot in Python if this is intended",
        )
    long = _LONG_KEY.search(text)
    if long is not None:
        raise ModelFileError(
            file,
            f"a key may have {MAX_KEY_PARTS} parts, got more; write tables one after the other",
            line=text.count("\n", 0, long.start()) + 1,
        )
    # imported on use: XML files do not need it
    import tomllib

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        problem = _AT_LINE.sub("", str(error))
        raise ModelFileError(
            file,
            f"this is not well-formed TOML ({problem}); correct it",
            line=int(found.group(1)) if found else None,
        ) from error
    except RecursionError as error:
        raise ModelFileError(
            file, "lists and tables are nested too deep; correct the file"
        ) from error
    except ValueError as error:
        raise ModelFileError(file, f"contains an invalid value ({error}); correct it") from error
    budget.check_time()
    return Table(TomlSource(file, text), data, (), "")
