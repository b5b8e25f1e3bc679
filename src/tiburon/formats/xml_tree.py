"""XML from strangers as a plain tree with line numbers, read in bounded time and memory.

Declared entities and external references are refused by the guards of defusedxml, before anything
is expanded or fetched. Names keep their prefixes as written: robot files use prefixes that nobody
declared, and no format read here gives namespaces a meaning.
"""

import math
from collections.abc import Collection, Iterator
from typing import NoReturn
from xml.parsers import expat

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.limits import LARGEST, Budget

NESTING = 200
"""Elements inside one another; real robot files have about ten, and some more in nested models."""

ELEMENTS = 2_000_000
"""Elements in one file: 20 000 links with a hundred each."""

ATTRIBUTES = 2_000_000
"""Attributes in one file; a single element with millions would keep the parser from the clock."""

LONGEST = 10_000
"""Characters of a name; longer ones would drown every message."""

CLOCK_EVERY = 4096
"""Elements between two looks at the clock."""

_INVALID = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]
"""What the parser calls bytes that stand for no character, among other things."""

_GUARDS = DefusedXMLParser()
"""Refuses entities and references; holds nothing of any file."""


class XmlElement:
    """One element: what it is called, what it says, what is inside."""

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
        """Return tag and name, as messages call the element."""
        name = self.attributes.get("name")
        tag = _shorten(self.tag)
        return f"<{tag}>" if name is None else f"{tag} {_shorten(name, 200)!r}"

    def fail(self, message: str) -> NoReturn:
        """Raise `ModelFileError` naming file, line and element."""
        element = self.describe()
        # messages of the model name the element already
        problem = message.removeprefix(f"{element}: ")
        name = self.attributes.get("name")
        raise ModelFileError(self.file, problem, line=self.line, element=element, name=name)

    def blame(self, error: ModelError) -> NoReturn:
        """Raise an error of the model as one of this element; one of a file stays as it is."""
        if isinstance(error, ModelFileError):
            raise error
        try:
            self.fail(str(error))
        except ModelFileError as named:
            raise named from error

    def find(self, tag: str) -> "XmlElement | None":
        """Return the first child of a tag, if there is one."""
        for child in self.children:
            if child.tag == tag:
                return child
        return None

    def all(self, tag: str) -> "Iterator[XmlElement]":
        """Iterate over the children of a tag."""
        return (child for child in self.children if child.tag == tag)

    def need(self, tag: str) -> "XmlElement":
        """Return the first child of a tag, or say that it is missing."""
        child = self.find(tag)
        if child is None:
            self.fail(f"expected a <{tag}> inside, got none; add it")
        return child

    def attribute(self, name: str) -> str:
        """Return an attribute without white space around it, or say that it is missing."""
        value = self.attributes.get(name, "").strip()
        if not value:
            self.fail(f'expected the attribute {name}, got none; write {name}="..."')
        if len(value) > LONGEST:
            self.fail(f"{name} may have {LONGEST} characters, got {len(value)}; shorten it")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Return an attribute that is one finite number; the default where it is not given."""
        text = self.attributes.get(name)
        if text is None and default is not None:
            return default
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not abs(value) <= LARGEST or "_" in (text or ""):
            (value,) = self.parse(self.attribute(name), 1, name)
        return value

    def numbers(self, name: str, count: int) -> list[float] | None:
        """Return an attribute that is several finite numbers; None where it is not given."""
        text = self.attributes.get(name)
        return None if text is None else self.parse(text, count, name)

    def parse(self, text: str, count: int, what: str) -> list[float]:
        """Return the finite numbers of a text, or say what is wrong with it.

        Args:
            text: Numbers separated by white space.
            count: How many there must be.
            what: What they are, for the message.
        """
        words = text.split()
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        if len(values) != count or "_" in text:
            wanted = "a number" if count == 1 else f"{count} numbers"
            hint = "write them apart, with a point for decimals"
            if "${" in text or "$(" in text:
                hint = "this is xacro: expand it first with `xacro robot.xacro > robot.urdf`"
            self.fail(f"{what} must be {wanted}, got {_shorten(text)!r}; {hint}")
        for value in values:
            if not abs(value) <= LARGEST:
                self.fail(
                    f"{what} must be finite and at most {LARGEST:g} in size, got "
                    f"{_shorten(text)!r}; correct the number"
                )
        return values


def parse_xml(
    content: bytes,
    budget: Budget,
    file: str | None = None,
    *,
    nesting: int = NESTING,
    skip: Collection[str] = (),
) -> XmlElement:
    """Return the root element of an XML text.

    Args:
        content: The file's bytes, in any encoding it declares.
        budget: Clock and counts.
        file: Name of the file in messages; that of the budget by default.
        nesting: How deep elements may be nested; some formats put bodies into their parents.
        skip: Tags of elements whose content nobody asks for; they come out empty.

    Raises:
        ModelFileError: If this is no XML, declares entities, or is absurdly deep or large.
    """
    file = budget.file if file is None else file
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.EntityDeclHandler = _GUARDS.defused_entity_decl
    parser.UnparsedEntityDeclHandler = _GUARDS.defused_unparsed_entity_decl
    parser.ExternalEntityRefHandler = _GUARDS.defused_external_entity_ref_handler
    if content.count(b"=") > ATTRIBUTES:
        raise ModelFileError(file, f"a file may have {ATTRIBUTES} attributes, got more; split it")
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
    except DefusedXmlException as error:
        raise ModelFileError(
            file,
            "XML entities and external references are not read, got a declaration of one; write "
            "the text where it is used",
            line=parser.CurrentLineNumber,
        ) from error
    except (LookupError, ValueError) as error:
        # encodings that Python does not know, or that take more than one byte per character
        raise ModelFileError(
            file, f"its encoding cannot be read ({error}); save it as UTF-8", line=1
        ) from error
    assert builder.root is not None  # expat refuses a text without an element
    return builder.root


class _Builder:
    """Receives elements from the parser and hangs them into a tree."""

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
        """Take what the parser finds from now on."""
        self._parser.StartElementHandler = self.start
        self._parser.EndElementHandler = self.end
        self._parser.CharacterDataHandler = self.data

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        element = XmlElement(tag, attributes, self._parser.CurrentLineNumber, self._file)
        self._count += 1
        if self._count % CLOCK_EVERY == 0:
            self._look_at_clock(element)
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
        """Count an element whose content nobody asks for."""
        self._skipped += 1
        self._count += 1
        if self._count % CLOCK_EVERY == 0:
            self._look_at_clock(self._open[-1])
        if len(self._open) + self._skipped > self._nesting:
            self._refuse_depth(self._open[-1])

    def pass_end(self, tag: str) -> None:
        """Listen again once the element that was passed over ends."""
        if self._skipped:
            self._skipped -= 1
        else:
            self._open.pop()
            self.listen()

    def _look_at_clock(self, element: XmlElement) -> None:
        self._budget.check_time()
        if self._count > ELEMENTS:
            element.fail(f"a file may have {ELEMENTS} elements, got more; split it")

    def _refuse_depth(self, element: XmlElement) -> NoReturn:
        element.fail(f"elements may be nested {self._nesting} deep, got more; write it flatter")

    def end(self, tag: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        element = self._open[-1]
        # text between elements is layout
        if not element.children:
            element.text += text


def _is_utf8(content: bytes) -> bool:
    """Return whether bytes are text in the encoding that XML has by default."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _shorten(text: str, most: int = 60) -> str:
    """Return a text short enough for a message."""
    return text if len(text) <= most else text[: most - 3] + "..."
