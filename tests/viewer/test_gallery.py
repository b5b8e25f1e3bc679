"""The gallery shows every robot that ships, in small pictures."""

from pathlib import Path

import pytest

from tiburon import zoo

GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"

LARGEST = 30_000
"""Bytes of one picture."""


@pytest.mark.parametrize("name", zoo.names())
def test_every_robot_has_a_page_with_picture_command_and_replay(name):
    text = (GALLERY / f"{name}.md").read_text()
    picture = GALLERY / "pictures" / f"{name}.webp"
    assert f"pictures/{name}.webp" in text
    assert f"--html {name}.html" in text
    assert f'"replays/{name}.html"' in text
    assert 1000 < picture.stat().st_size <= LARGEST
    assert picture.read_bytes()[8:12] == b"WEBP"
    assert f"({name}.md)" in (GALLERY / "index.md").read_text()


@pytest.mark.parametrize("name", zoo.names())
def test_every_page_states_the_sources_of_values(name):
    """The first words of the head of the robot's file stand on its page."""
    first = zoo.path(name).read_text().splitlines()[0].strip('#" ')
    words = first.split()[:5]
    text = (GALLERY / f"{name}.md").read_text().replace("\\", "")
    assert " ".join(words) in text.partition("## Sources of its values")[2].replace("\n", " ")


def test_pages_of_removed_robots_are_removed():
    pages = {page.stem for page in GALLERY.glob("*.md")} - {"index"}
    assert pages == set(zoo.names())
