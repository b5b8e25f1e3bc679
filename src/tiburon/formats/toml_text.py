"""TOML as people write it: vectors on one line, matrices row by row, small tables inline.

The libraries that write TOML put every number of a list on a line of its own, or know nothing of
inline tables. Numbers are written by `repr`, so that they read back to the last bit.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 100
"""Lists that would pass this column are broken after every item."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPECIAL = re.compile(r'[\x00-\x1f\x7f"\\]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class Inline(dict[str, Any]):
    """A table to be written on one line, as a value."""


def toml_text(document: Mapping[str, Any]) -> str:
    """Write a document.

    Args:
        document: Strings, numbers, lists, tables (dicts) and lists of tables, in the order wanted.
    """
    lines: list[str] = []
    _write_table(lines, "", document)
    return "\n".join(lines).lstrip("\n") + "\n"


def _write_table(lines: list[str], path: str, table: Mapping[str, Any]) -> None:
    """Write the values of a table first, then the tables inside it under their own headers."""
    inner = []
    for key, value in table.items():
        if _is_table(value) or _is_tables(value):
            inner.append((key, value))
        else:
            start = f"{_key(key)} = "
            lines.append(start + _value(value, len(start)))
    for key, value in inner:
        name = f"{path}.{_key(key)}" if path else _key(key)
        if _is_table(value):
            lines += [*_gap(path), f"[{name}]"]
            _write_table(lines, name, value)
        else:
            for item in value:
                lines += [*_gap(path), f"[[{name}]]"]
                _write_table(lines, name, item)


def _gap(path: str) -> list[str]:
    """Return an empty line before a table at the root."""
    return [] if path else [""]


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and not isinstance(value, Inline)


def _is_tables(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(map(_is_table, value))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Any, column: int) -> str:
    """Write a value that starts at a column."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _paragraph(value) if "\n" in value else _string(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Inline):
        items = ", ".join(f"{_key(k)} = {_flat(v)}" for k, v in value.items())
        return "{ " + items + " }" if items else "{}"
    return _list(value, column)


def _list(items: Sequence[Any], column: int) -> str:
    text = _flat(items)
    if column + len(text) <= WIDTH or len(items) < 2:
        return text
    words = [_flat(item) + "," for item in items]
    rows = textwrap.wrap(" ".join(words), WIDTH - 4) if _plain(items) else words
    return "[\n" + "".join(f"    {row}\n" for row in rows) + "]"


def _plain(items: Sequence[Any]) -> bool:
    """Whether all items are numbers, whose text may be broken at any space."""
    return all(isinstance(item, (int, float)) for item in items)


def _flat(value: Any) -> str:
    """Write a value on one line."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return _value(value, 0)


def _paragraph(text: str) -> str:
    """Write a string of several lines as such; the first newline belongs to the quotes."""
    lines = [_string(line)[1:-1] for line in text.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""'


def _string(text: str) -> str:
    def escape(match: re.Match[str]) -> str:
        character = match.group()
        return _ESCAPES.get(character, f"\\u{ord(character):04x}")

    return '"' + _SPECIAL.sub(escape, text) + '"'
