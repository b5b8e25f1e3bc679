"""XML from strangers: lines and names in messages, nothing expanded or fetched, bounded size."""

import os
import time
from itertools import pairwise

import pytest

import tiburon as tb
from tiburon.formats import limits, xml_tree
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.xml_tree import parse_xml


def parse(text, **options):
    """Parse a text as the content of a file."""
    content = text if isinstance(text, bytes) else text.encode()
    return parse_xml(content, Budget("robot.xml", **options))


def test_elements_have_their_lines_and_names():
    """A message leads from the file to the line and the element."""
    root = parse('<a>\n<b name="x"/>\n<c>\n 1 2 </c></a>')
    b, c = root.children
    assert (b.line, c.line, c.text.split()) == (2, 3, ["1", "2"])
    with pytest.raises(tb.ModelFileError, match=r"^robot.xml, line 2: b 'x': expected the attr"):
        b.attribute("size")
    with pytest.raises(tb.ModelFileError) as caught:
        root.need("d")
    assert (caught.value.file, caught.value.line, caught.value.element) == ("robot.xml", 1, "<a>")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not well-formed"),
        ("<a>", "not well-formed"),
        ("<a><b></a></b>", "mismatched tag"),
        ('<a x="1" x="2"/>', "duplicate attribute"),
        ("no xml at all", "not well-formed"),
        (b"<a>\xff\xfe\xff</a>", "not well-formed"),
        ('<?xml version="1.0" encoding="no-such"?><a/>', "encoding"),
        ('<?xml version="1.0" encoding="utf-7"?><a/>', "encoding|not well-formed"),
        ('<?xml version="1.0" encoding="shift_jis"?><a/>', "encoding|not well-formed"),
    ],
)
def test_text_that_is_not_xml_is_reported(text, message):
    """A broken text or encoding is an error of the file, never one of the parser."""
    with pytest.raises(tb.ModelFileError, match=message):
        parse(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_common_encodings_are_read(encoding):
    """Names outside ASCII survive in the encodings that files have."""
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    text = f'<?xml version="1.0" encoding="{name}"?><a name="Gelenk Größe"/>'
    assert parse(text.encode(encoding)).attribute("name") == "Gelenk Größe"


BOMB = (
    '<!DOCTYPE r [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {y} "{f"&{x};" * 10}">' for x, y in pairwise("abcdefghi"))
    + "]><r>&i;</r>"
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>&x;</r>',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "http://127.0.0.1/x.dtd"> %p;]><r/>',
        '<!DOCTYPE r [<!NOTATION n SYSTEM "n"><!ENTITY x SYSTEM "e" NDATA n>]><r/>',
    ],
)
def test_entities_are_refused_where_they_are_declared(text):
    """Bombs and references to other files end in a sentence with the cure."""
    begin = time.process_time()
    with pytest.raises(
        tb.ModelFileError, match="entities and external references are not supported"
    ):
        parse(text)
    assert time.process_time() - begin < 1.0


def test_an_external_dtd_is_not_fetched(tmp_path):
    """A document type that names another file is passed over without opening it."""
    pipe = tmp_path / "never-opened"
    os.mkfifo(pipe)
    root = parse(f'<!DOCTYPE r SYSTEM "file://{pipe}"><r/>')
    assert root.tag == "r"


def test_comments_may_hold_hyphens():
    """XML forbids two in a row, programs do not; attributes keep theirs."""
    root = parse("<r><!-- a -- b --->\n<a name='-- a --'/>\n<!----></r>")
    assert [child.attributes["name"] for child in root.children] == ["-- a --"]
    assert root.children[0].line == 2
    with pytest.raises(tb.ModelFileError, match="not well-formed"):
        parse("<r><!-- a -- b </r>")


def test_a_declaration_may_follow_blank_lines():
    root = parse('\n \n<?xml version="1.0" encoding="utf-8"?>\n<r>\n<a/></r>')
    assert (root.line, root.children[0].line) == (4, 5)


def test_text_of_attributes_opens_no_comment():
    """What one parser takes for a comment, no other may take for elements."""
    with pytest.raises(tb.ModelFileError, match="not well-formed"):
        parse("""<r><a name="<!--"/><b name="-->"/></r>""")


def test_undeclared_prefixes_are_names():
    """Files of old simulators use undeclared prefixes."""
    assert parse("<r><sensor:ray/></r>").children[0].tag == "sensor:ray"


def test_nesting_is_bounded():
    """Deep nesting is refused, not followed."""
    deep = xml_tree.MAX_NESTING + 1
    with pytest.raises(tb.ModelFileError, match="nested"):
        parse("<a>" * deep + "</a>" * deep)
    fine = xml_tree.MAX_NESTING
    assert parse("<a>" * fine + "</a>" * fine).tag == "a"


def test_unused_content_is_skipped():
    """The element itself stays, what follows it too, and its depth still counts."""
    root = parse_xml(
        b"<r><x a='1'>text<x><y/></x></x><z>2</z></r>", Budget("robot.xml"), skip={"x"}
    )
    x, z = root.children
    assert (x.attributes, x.children, x.text) == ({"a": "1"}, [], "")
    assert (z.tag, z.text) == ("z", "2")
    deep = b"<r><x>" + b"<a>" * 300 + b"</a>" * 300 + b"</x></r>"
    with pytest.raises(tb.ModelFileError, match="nested"):
        parse_xml(deep, Budget("robot.xml"), skip={"x"})


def test_elements_are_counted(monkeypatch):
    """A file of millions of elements does not fill the memory."""
    monkeypatch.setattr(xml_tree, "MAX_ELEMENTS", 5000)
    with pytest.raises(tb.ModelFileError, match="5000 elements"):
        parse("<a>" + "<b/>" * 10_000 + "</a>")


def test_attributes_are_counted(monkeypatch):
    monkeypatch.setattr(xml_tree, "MAX_ATTRIBUTES", 3)
    assert parse('<a b="1" c="2"/>').tag == "a"
    with pytest.raises(tb.ModelFileError, match="may have 3 attributes, got more"):
        parse('<a b="1" c="2"><d e="3" f="4"/></a>')


def test_undeclared_encodings_are_reported_as_such():
    with pytest.raises(tb.ModelFileError, match="save it as UTF-8, or declare its encoding"):
        parse('<robot name="kühn"/>'.encode("latin-1"))


def test_reading_time_is_limited():
    """A file that takes too long is given up."""
    with pytest.raises(tb.ModelFileError, match="at most 10 s of processor time"):
        parse("<a>" + "<b/>" * 10_000 + "</a>", seconds=-1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2", "3 numbers, got '1 2'"),
        ("1 2 x", "3 numbers"),
        ("1,5 2 3", "with a decimal point"),
        ("1_0 2 3", "3 numbers"),
        ("1 2 nan", "finite"),
        ("1 2 1e999", "finite"),
        ("${width} 2 3", "xacro"),
    ],
)
def test_numbers_are_finite_and_as_many_as_needed(text, message):
    """What is no list of numbers is quoted in the message."""
    with pytest.raises(tb.ModelFileError, match=message):
        parse(f'<a size="{text}"/>').numbers("size", 3)


def test_only_regular_files_below_the_size_limit_are_read(tmp_path, monkeypatch):
    """Folders, pipes, missing and huge files are refused at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, message in [
        (tmp_path / "missing", "no such file"),
        (tmp_path, "cannot be read|something else"),
        (pipe, "something else"),
        (tmp_path / "a\0b", "cannot be read"),
    ]:
        with pytest.raises(tb.ModelFileError, match=message):
            read_bytes(path)
    large = tmp_path / "large"
    large.write_bytes(b"x" * 1001)
    monkeypatch.setattr(limits, "FILE_BYTES", 1000)
    with pytest.raises(tb.ModelFileError, match="MB"):
        read_bytes(large, most=1000)
