"""The gallery shows every robot that ships, in small pictures."""

from pathlib import Path

from tiburon import zoo

GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"

LARGEST = 30_000
"""Bytes of one picture."""


def test_every_robot_has_a_page_with_picture_command_and_replay():
    index = (GALLERY / "index.md").read_text()
    for name in zoo.names():
        text = (GALLERY / f"{name}.md").read_text()
        picture = GALLERY / "pictures" / f"{name}.webp"
        assert f"pictures/{name}.webp" in text
        assert f"--html {name}.html" in text
        assert f'"replays/{name}.html"' in text
        assert 1000 < picture.stat().st_size <= LARGEST, name
        assert picture.read_bytes()[8:12] == b"WEBP", name
        assert f"({name}.md)" in index


def test_every_page_states_the_sources_of_values():
    """The first words of the head of the robot's file stand on its page."""
    for name in zoo.names():
        first = zoo.path(name).read_text().splitlines()[0].strip('#" ')
        words = first.split()[:5]
        text = (GALLERY / f"{name}.md").read_text().replace("\\", "")
        sources = text.partition("## Sources of its values")[2].replace("\n", " ")
        assert " ".join(words) in sources, name


def test_pages_of_removed_robots_are_removed():
    pages = {page.stem for page in GALLERY.glob("*.md")} - {"index"}
    assert pages == set(zoo.names())
