"""Damaged URDF and SDF files: a model or a clear error, never anything else, and soon."""

import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiburon as tb
from tests.formats.mutations import mutated
from tiburon.formats.sdf_read import read_sdf
from tiburon.formats.urdf_read import read_urdf

DATA = Path(__file__).parents[1] / "data"
READERS = {".urdf": read_urdf, ".sdf": read_sdf}
FILES = sorted(p for p in DATA.iterdir() if p.suffix in READERS)
CONTENTS = {path: path.read_bytes() for path in FILES}

LONGEST = 2.0
"""Seconds that a damaged small file may take: a hundred times what a sound one does."""


def check(path, content, folder):
    """Read a content as a file: the result is a model, or an error that names file and cure."""
    target = folder / f"damaged{path.suffix}"
    target.write_bytes(content)
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.ModelWarning)
            found = READERS[path.suffix](target)
    except tb.ModelFileError as error:
        found = error
    assert time.process_time() - begin < LONGEST
    if isinstance(found, tb.ModelFileError):
        assert found.file == str(target)
        assert len(str(found)) < 2000
        assert ";" in found.problem
    else:
        assert isinstance(found, tb.Model)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder for damaged files."""
    return tmp_path_factory.mktemp("damaged")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_undamaged_file_is_read(path):
    """Otherwise damages would only find the first error."""
    assert READERS[path.suffix](path).nv > 0


@settings(max_examples=300)
@given(st.sampled_from(FILES), st.integers(0, 2**32 - 1))
def test_damaged_files_give_a_model_or_a_clear_error(folder, path, seed):
    """A few hundred damages of the two files written for the tests."""
    check(path, mutated(CONTENTS[path], seed), folder)


@settings(max_examples=100)
@given(st.sampled_from(sorted(READERS)), st.binary(max_size=300))
def test_any_bytes_give_a_model_or_a_clear_error(folder, suffix, content):
    """What is no file of any kind."""
    check(Path(f"any{suffix}"), content, folder)


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from(
            [
                *('<link name="a"/>', '<link name="b"/>', "<link>", "</link>", "<inertial>"),
                *('<joint name="j" type="revolute">', "</joint>", '<parent link="a"/>'),
                *('<child link="b"/>', "<parent>a</parent>", "<child>b</child>", "</inertial>"),
                *('<mimic joint="j"/>', '<origin xyz="1 0 0" rpy="0 1 0"/>', "<pose>1 2</pose>"),
                *('<frame name="f" attached_to="f"/>', '<model name="n">', "</model>"),
                *("<axis><xyz>0 0 1</xyz></axis>", '<axis xyz="0 0 1"/>', '<mass value="1"/>'),
                *("<mass>1</mass>", '<inertia ixx="1" iyy="1" izz="1"/>', "<static>1</static>"),
            ]
        ),
        max_size=25,
    ),
    st.sampled_from(sorted(READERS)),
)
def test_many_elements_give_a_model_or_a_clear_error(folder, parts, suffix):
    """Elements of both formats in any order, opened and closed at random."""
    inside = "".join(parts)
    text = {
        ".urdf": f'<robot name="r">{inside}</robot>',
        ".sdf": f'<sdf version="1.9"><model name="m">{inside}</model></sdf>',
    }[suffix]
    check(Path(f"heap{suffix}"), text.encode(), folder)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(st.sampled_from(FILES), st.integers(0, 2**32 - 1))
def test_ten_thousand_damaged_files(folder, path, seed):
    """The same at length."""
    check(path, mutated(CONTENTS[path], seed), folder)
