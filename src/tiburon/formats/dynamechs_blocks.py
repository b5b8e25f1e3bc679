"""The text of DynaMechs files as nested blocks with line numbers.

A file is words, numbers, quoted texts and braces; ``#`` starts a comment. ``Kind {`` opens a block,
any other word is a label, and what follows it are its values::

    RevoluteLink {
        Name            "knee"
        Mass            5.03
        MDH_Parameters  0.375 0.0 0.0 0.0     # a alpha d theta
    }
"""

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from tiburon.errors import ModelFileError
from tiburon.formats.limits import DEPTH, LARGEST, Budget

TOKENS = 5_000_000
"""Most words and numbers in a file: 20 000 links with 250 each."""

CLOCK_EVERY = 4096
"""Tokens between two looks at the clock."""

_TOKEN = re.compile(
    r'(?P<line>\n)|#[^\n]*|"(?P<text>[^"\n]*)"|(?P<brace>[{}])|(?P<word>[^\s{}"]+)|"'
)

_WORD_VALUES = ("Stabilization",)
"""Labels whose value is a word without quotes."""

Value = float | str


class Label(NamedTuple):
    """A label and its values."""

    line: int
    values: list[Value]


class Block:
    """One block: its kind, its labels, and the blocks inside it in their order."""

    __slots__ = ("blocks", "file", "kind", "labels", "line", "used")

    def __init__(self, kind: str, line: int | None, file: str) -> None:
        self.kind = kind
        self.line = line
        self.file = file
        self.labels: dict[str, Label] = {}
        self.blocks: list[Block] = []
        self.used: set[str] = set()

    @property
    def name(self) -> str:
        """Its name; empty if it has none."""
        return self.text("Name") if "Name" in self.labels else ""

    def describe(self) -> str:
        """Return kind and name, as messages call the block."""
        label = self.labels.get("Name")
        given = label.values[0] if label is not None and label.values else ""
        return f"{self.kind} {given!r}" if given else self.kind

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise `ModelFileError` naming file, line and block."""
        raise ModelFileError(
            self.file, message, line=line or self.line, element=self.describe() or None
        )

    def has(self, label: str) -> bool:
        """Return whether a label is given."""
        return label in self.labels

    def numbers(self, label: str, count: int) -> list[float]:
        """Return the numbers of a label, or say that some are missing."""
        values = self._values(label)
        found = [value for value in values if isinstance(value, float)]
        if len(values) != count or len(found) != count:
            wanted = "one number" if count == 1 else f"{count} numbers"
            self.fail(
                f"{label} must have {wanted}, got {len(values)} values; correct the line",
                self.labels[label].line,
            )
        return found

    def number(self, label: str, default: float | None = None) -> float:
        """Return the number of a label; the default where it is not given."""
        if default is not None and label not in self.labels:
            return default
        (value,) = self.numbers(label, 1)
        return value

    def whole(self, label: str, default: int | None = None) -> int:
        """Return the whole number of a label; the default where it is not given."""
        value = self.number(label, None if default is None else float(default))
        if value != int(value):
            self.fail(
                f"{label} must be a whole number, got {value:g}; correct it",
                self.labels[label].line,
            )
        return int(value)

    def text(self, label: str) -> str:
        """Return the text of a label, without quotes."""
        values = self._values(label)
        if len(values) != 1 or not isinstance(values[0], str):
            self.fail(
                f'{label} must have one text in quotes; write {label} "..."',
                self.labels[label].line,
            )
        return values[0]

    def values(self, label: str) -> list[Value]:
        """Return all values of a label; none where it is not given."""
        return self._values(label) if label in self.labels else []

    def unused(self) -> Iterator[tuple[str, int]]:
        """Iterate over labels that nobody asked for, with their lines."""
        return ((name, label.line) for name, label in self.labels.items() if name not in self.used)

    def _values(self, label: str) -> list[Value]:
        self.used.add(label)
        if label not in self.labels:
            self.fail(f"expected {label}, got none; add it")
        return self.labels[label].values


def parse_blocks(content: bytes, budget: Budget, last: tuple[str, ...] = ()) -> Block:
    """Return a file as one block without a kind.

    Args:
        content: The file's bytes.
        budget: Clock and counts.
        last: Kinds of block after which DynaMechs reads no further.

    Raises:
        ModelFileError: If this is no such text, or is absurdly deep or large.
    """
    text = _decoded(content, budget.file)
    root = Block("", None, budget.file)
    open_blocks = [root]
    word: tuple[str, int] | None = None
    label: Label | None = None
    label_name = ""
    line = 1
    for count, token in enumerate(_TOKEN.finditer(text)):
        if count % CLOCK_EVERY == 0:
            budget.check_time()
            if count > TOKENS:
                open_blocks[-1].fail(f"a file may have {TOKENS} words, got more; split it", line)
        kind = token.lastgroup
        if kind == "line":
            line += 1
            continue
        if kind is None:
            if token[0].startswith("#"):
                continue
            open_blocks[-1].fail('a text must end on its line; add the missing quote "', line)
        if kind == "brace" and token[0] == "{":
            if word is None:
                open_blocks[-1].fail("a block must have a kind; write a word before {", line)
            block = Block(*word, budget.file)
            open_blocks[-1].blocks.append(block)
            open_blocks.append(block)
            if len(open_blocks) > DEPTH:
                block.fail(f"blocks may be nested {DEPTH} deep, got more; write it flatter")
            word, label = None, None
            continue
        value: Value | None = token["text"] if kind == "text" else None
        if kind == "word":
            value = _number(token[0], open_blocks[-1], line)
            if value is None and word is not None and word[0] in _WORD_VALUES:
                value = token[0]
        if value is not None:
            if word is not None:
                label_name, label = word[0], Label(word[1], [])
                _add(open_blocks[-1], label_name, label)
                word = None
            if label is None:
                open_blocks[-1].fail(
                    f"{str(value)[:40]!r} belongs to no label; write one before it", line
                )
            label.values.append(value)
            continue
        if word is not None:
            # a label without values
            _add(open_blocks[-1], word[0], Label(word[1], []))
        word, label = None, None
        if kind == "word":
            word = (token[0], line)
            continue
        # a closing brace
        closed = open_blocks.pop()
        if not open_blocks:
            root.fail("there is a } without its {; remove it", line)
        if len(open_blocks) == 1 and closed.kind in last:
            return root
    if len(open_blocks) > 1:
        open_blocks[-1].fail("the file ends inside this block; add the missing }")
    return root


def _add(block: Block, name: str, label: Label) -> None:
    if name in block.labels:
        block.fail(
            f"{name} is given twice, first on line {block.labels[name].line}; remove one",
            label.line,
        )
    block.labels[name] = label


def _number(word: str, block: Block, line: int) -> float | None:
    """Return a word as a number; None if it is none."""
    try:
        number = float(word)
    except ValueError:
        return None
    if "_" in word:
        return None
    if not abs(number) < LARGEST:
        block.fail(
            f"numbers must be finite and below {LARGEST:g}, got {word[:40]}; correct it", line
        )
    return number


def _decoded(content: bytes, file: str) -> str:
    """Return the text of a file; old files have comments in other encodings."""
    if b"\0" in content:
        raise ModelFileError(file, "this is no plain text; save the file as UTF-8", line=1)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
