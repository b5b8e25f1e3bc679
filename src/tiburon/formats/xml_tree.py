"""Untrusted XML as a plain tree with line numbers, parsed in bounded time and memory.

Declared entities and external references are rejected before anything is expanded or fetched, as by
the parsers of defusedxml, which take as long to import as a robot to read. Names keep their
prefixes as written: robot files use undeclared prefixes, and no supported format uses namespaces.
"""

import math
import re
from collections.abc import Collection, Iterator
from typing import NoReturn
from xml.parsers import expat

from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.limits import MAX_MAGNITUDE, Budget

MAX_NESTING = 200
"""Deepest nesting of elements; real robot files have about ten levels."""

MAX_ELEMENTS = 2_000_000
"""Most elements in one file: 20 000 links with a hundred each."""

MAX_ATTRIBUTES = 2_000_000
"""Most attributes in one file; an element with millions would defeat the time limit."""

MAX_NAME = 10_000
"""Most characters of a name, to keep messages readable."""

CLOCK_EVERY = 4096
"""Elements between two checks of the time."""

_MARKUP = re.compile(rb"""<!--.*?-->|<(?!!)(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""", re.DOTALL)
"""Comments, and tags, whose attributes may look like one."""

_LATE_DECLARATION = re.compile(rb"\A(\s+)(<\?xml\s[^>]*>)")
"""The first line after blank ones, where XML forbids and programs accept it."""

_INVALID = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]
"""Error code of the parser for undecodable bytes, among others."""


class _EntityError(Exception):
    """A declaration of an entity, or a reference to something outside of the file."""


def _refuse_entity(*declaration: object) -> NoReturn:
    """Reject an entity or reference; the parser stops at once."""
    raise _EntityError


def _refuse_content(name: str, system: str | None, public: str | None, inside: bool) -> None:
    """Reject a document type with more than a name."""
    if system is not None or public is not None or inside:
        raise _EntityError


def _plain_comment(found: re.Match[bytes]) -> bytes:
    """Return a comment without hyphens, and other markup as it is."""
    markup = found[0]
    if not markup.startswith(b"<!--"):
        return markup
    return b"<!--" + markup[4:-3].replace(b"-", b" ") + b"-->"


class XmlElement:
    """One element: tag, attributes, text and children."""

    __slots__ = ("attributes", "children", "file", "line", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str], line: int, file: str) -> None:
        self.tag = tag
        self.attributes = attributes
        self.line = line
        self.file = file
        self.children: list[XmlElement] = []
        self.text = ""

    def __repr__(self) -> str:
        return f"<XmlElement {self.describe()}, line {self.line}>"

    def describe(self) -> str:
        """Return tag and name for messages."""
        name = self.attributes.get("name")
        tag = _shorten(self.tag)
        return f"<{tag}>" if name is None else f"{tag} {_shorten(name, 200)!r}"

    def fail(self, message: str) -> NoReturn:
        """Raise `ModelFileError` naming file, line and element."""
        element = self.describe()
        # messages of the model already name the element
        problem = message.removeprefix(f"{element}: ")
        name = self.attributes.get("name")
        raise ModelFileError(self.file, problem, line=self.line, element=element, name=name)

    def blame(self, error: ModelError) -> NoReturn:
        """Raise a model error as one about this element; file errors are not changed."""
        if isinstance(error, ModelFileError):
            raise error
        try:
            self.fail(str(error))
        except ModelFileError as named:
            raise named from error

    def find(self, tag: str) -> "XmlElement | None":
        """Return the first child with a tag, if any."""
        for child in self.children:
            if child.tag == tag:
                return child
        return None

    def all(self, tag: str) -> "Iterator[XmlElement]":
        """Iterate over the children with a tag."""
        return (child for child in self.children if child.tag == tag)

    def need(self, tag: str) -> "XmlElement":
        """Return the first child with a tag; raise if it is missing."""
        child = self.find(tag)
        if child is None:
            self.fail(f"expected a <{tag}> inside, got none; add it")
        return child

    def attribute(self, name: str) -> str:
        """Return an attribute stripped of white space; raise if it is missing."""
        value = self.attributes.get(name, "").strip()
        if not value:
            self.fail(f'expected the attribute {name}, got none; write {name}="..."')
        if len(value) > MAX_NAME:
            self.fail(f"{name} may have {MAX_NAME} characters, got {len(value)}; shorten it")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Return an attribute that is one finite number, or the default."""
        text = self.attributes.get(name)
        if text is None and default is not None:
            return default
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not abs(value) <= MAX_MAGNITUDE or "_" in (text or ""):
            (value,) = self.parse(self.attribute(name), 1, name)
        return value

    def numbers(self, name: str, count: int) -> list[float] | None:
        """Return an attribute that is several finite numbers, or None."""
        text = self.attributes.get(name)
        return None if text is None else self.parse(text, count, name)

    def parse(self, text: str, count: int, what: str) -> list[float]:
        """Parse `count` finite numbers, separated by white space; `what` names them in messages."""
        words = text.split()
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        if len(values) != count or "_" in text:
            wanted = "a number" if count == 1 else f"{count} numbers"
            hint = "separate them by spaces, with a decimal point"
            if "${" in text or "$(" in text:
                hint = "this is xacro: name the file .xacro, which is expanded"
            self.fail(f"{what} must be {wanted}, got {_shorten(text)!r}; {hint}")
        for value in values:
            if not abs(value) <= MAX_MAGNITUDE:
                self.fail(
                    f"{what} must be finite and at most {MAX_MAGNITUDE:g} in size, got "
                    f"{_shorten(text)!r}; correct the number"
                )
        return values


def parse_xml(
    content: bytes,
    budget: Budget,
    file: str | None = None,
    *,
    nesting: int = MAX_NESTING,
    skip: Collection[str] = (),
    doctype: bool = True,
) -> XmlElement:
    """Return the root element of an XML text.

    Two hyphens inside of a comment, which XML forbids and most programs accept, are accepted.

    Args:
        content: The file's bytes, in any encoding it declares.
        budget: Time and size limits.
        file: Name of the file in messages; that of the budget by default.
        nesting: Deepest nesting of elements; some formats nest bodies in their parents.
        skip: Tags of elements whose content is skipped.
        doctype: Whether a document type may have content. Other parsers take it for elements.

    Raises:
        ModelFileError: If the XML is malformed, declares entities, or is too deep or large.
    """
    file = budget.file if file is None else file
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.EntityDeclHandler = _refuse_entity
    parser.UnparsedEntityDeclHandler = _refuse_entity
    parser.ExternalEntityRefHandler = _refuse_entity
    if not doctype:
        parser.StartDoctypeDeclHandler = _refuse_content
    content = _LATE_DECLARATION.sub(rb"\2\1", content)
    # up to the last comment, so that none is searched for its end in vain
    end = content.rfind(b"-->") + len(b"-->")
    content = _MARKUP.sub(_plain_comment, content[:end]) + content[end:]
    if content.count(b"=") > MAX_ATTRIBUTES:
        reason = f"a file may have {MAX_ATTRIBUTES} attributes, got more; split it"
        raise ModelFileError(file, reason)
    builder = _Builder(parser, budget, file, nesting, skip)
    builder.listen()
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        cure = "open the file in an editor that checks XML"
        if error.code == _INVALID and not _is_utf8(content):
            cure = "save it as UTF-8, or declare its encoding in the first line"
        raise ModelFileError(
            file,
            f"this is not well-formed XML ({expat.ErrorString(error.code)}); {cure}",
            line=error.lineno,
        ) from error
    except _EntityError as error:
        raise ModelFileError(
            file,
            "XML entities and external references are not supported, got a declaration of one; "
            "write the text where it is used",
            line=parser.CurrentLineNumber,
        ) from error
    except (LookupError, ValueError) as error:
        # unknown or multi-byte encodings
        raise ModelFileError(
            file, f"its encoding cannot be read ({error}); save it as UTF-8", line=1
        ) from error
    assert builder.root is not None  # expat rejects a text without an element
    return builder.root


class _Builder:
    """Builds the tree from the events of the parser."""

    def __init__(
        self,
        parser: expat.XMLParserType,
        budget: Budget,
        file: str,
        nesting: int,
        skip: Collection[str],
    ) -> None:
        self._parser = parser
        self._budget = budget
        self._file = file
        self._nesting = nesting
        self._skip = skip
        self._skipped = 0
        self._count = 0
        self._open: list[XmlElement] = []
        self.root: XmlElement | None = None

    def listen(self) -> None:
        """Install the handlers of the parser."""
        self._parser.StartElementHandler = self.start
        self._parser.EndElementHandler = self.end
        self._parser.CharacterDataHandler = self.data

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        element = XmlElement(tag, attributes, self._parser.CurrentLineNumber, self._file)
        self._count += 1
        if self._count % CLOCK_EVERY == 0:
            self._check_limits(element)
        if self._open:
            self._open[-1].children.append(element)
            if len(self._open) >= self._nesting:
                self._refuse_depth(element)
        else:
            self.root = element
        self._open.append(element)
        if tag in self._skip:
            self._parser.StartElementHandler = self.pass_start
            self._parser.EndElementHandler = self.pass_end
            self._parser.CharacterDataHandler = None

    def pass_start(self, tag: str, attributes: dict[str, str]) -> None:
        """Count a skipped element."""
        self._skipped += 1
        self._count += 1
        if self._count % CLOCK_EVERY == 0:
            self._check_limits(self._open[-1])
        if len(self._open) + self._skipped > self._nesting:
            self._refuse_depth(self._open[-1])

    def pass_end(self, tag: str) -> None:
        """Resume building after a skipped element."""
        if self._skipped:
            self._skipped -= 1
        else:
            self._open.pop()
            self.listen()

    def _check_limits(self, element: XmlElement) -> None:
        self._budget.check_time()
        if self._count > MAX_ELEMENTS:
            element.fail(f"a file may have {MAX_ELEMENTS} elements, got more; split it")

    def _refuse_depth(self, element: XmlElement) -> NoReturn:
        element.fail(f"elements may be nested {self._nesting} deep, got more; flatten it")

    def end(self, tag: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        element = self._open[-1]
        # text between elements is layout
        if not element.children:
            element.text += text


def _is_utf8(content: bytes) -> bool:
    """Return whether bytes are UTF-8, the default encoding of XML."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _shorten(text: str, most: int = 60) -> str:
    """Return a text short enough for a message."""
    return text if len(text) <= most else text[: most - 3] + "..."
