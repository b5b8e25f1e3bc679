"""Writing XML: elements as text, indented, with everything escaped."""

import re
from collections.abc import Mapping

from tiburon.errors import ModelFileError

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\n": "&#10;",
    "\r": "&#13;",
    "\t": "&#9;",
}


class XmlText:
    """Lines of an XML file in the making."""

    def __init__(self, file: str) -> None:
        """Begin a file.

        Args:
            file: Name of the file, for messages.
        """
        self._file = file
        self._lines = ['<?xml version="1.0" encoding="utf-8"?>']
        self._open: list[str] = []

    def comment(self, text: str) -> None:
        """Add a comment; pairs of dashes, which would end it, are drawn apart."""
        plain = self._checked(text).replace("--", "- -").strip()
        # a dash at the end would touch the closing ones
        self._line(f"<!-- {plain} -->")

    def start(self, tag: str, /, **attributes: str | float) -> None:
        """Open an element that holds others."""
        self._line(f"<{tag}{self._written(attributes)}>")
        self._open.append(tag)

    def end(self) -> None:
        """Close the element opened last."""
        tag = self._open.pop()
        self._line(f"</{tag}>")

    def leaf(self, tag: str, text: str = "", /, **attributes: str | float) -> None:
        """Add an element that holds no others."""
        head = f"{tag}{self._written(attributes)}"
        body = self._escaped(text)
        self._line(f"<{head}>{body}</{tag}>" if body else f"<{head}/>")

    def text(self) -> str:
        """Return the file."""
        return "\n".join(self._lines) + "\n"

    def _line(self, text: str) -> None:
        self._lines.append("  " * len(self._open) + text)

    def _written(self, attributes: Mapping[str, str | float]) -> str:
        return "".join(
            f' {name}="{self._escaped(x) if isinstance(x, str) else repr(float(x))}"'
            for name, x in attributes.items()
        )

    def _escaped(self, text: str) -> str:
        return "".join(_ESCAPES.get(c, c) for c in self._checked(text))

    def _checked(self, text: str) -> str:
        found = _FORBIDDEN.search(text)
        if found is not None:
            raise ModelFileError(
                self._file,
                f"XML cannot hold the character {found.group()!r} of {text[:40]!r}; rename it",
            )
        return text
