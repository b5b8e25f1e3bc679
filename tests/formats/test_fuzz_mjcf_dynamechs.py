"""Damaged MJCF and DynaMechs files: a model or a clear error, never anything else, and soon."""

import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiburon as tb
from tests.formats.mutations import mutated
from tests.formats.text_mutations import mutated_text
from tiburon.formats.dynamechs_read import read_dynamechs, read_dynamechs_world

DATA = Path(__file__).parents[1] / "data"
DYNAMECHS = {path: path.read_bytes() for path in sorted((DATA / "dynamechs").glob("*.dm"))}
SURROUNDINGS = {
    name: (DATA / "dynamechs" / name).read_bytes() for name in ("seabed.env", "seabed.dat")
}
MJCF = (DATA / "mjcf" / "diver.xml").read_bytes()

LONGEST = 2.0
"""Seconds of computing that a damaged small file may take: a hundred times a sound one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder for damaged files."""
    return tmp_path_factory.mktemp("damaged")


@pytest.fixture(scope="module")
def read_mjcf():
    """Return the reader of MJCF, where MuJoCo is installed."""
    pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")
    from tiburon.formats.mjcf_read import read_mjcf

    return read_mjcf


def check(read, target, kind=tb.Model):
    """Read a file: the result is a model, or an error that names file and cure."""
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.ModelWarning)
            found = read(target)
    except tb.ModelFileError as error:
        found = error
    assert time.process_time() - begin < LONGEST
    if isinstance(found, tb.ModelFileError):
        assert found.file.startswith(str(target.parent))
        assert len(str(found)) < 2000
        assert ";" in found.problem
    else:
        assert isinstance(found, kind)


def check_dynamechs(folder, content):
    target = folder / "damaged.dm"
    target.write_bytes(content)
    check(read_dynamechs, target)


def check_surroundings(folder, seed, damaged):
    for name, content in SURROUNDINGS.items():
        (folder / name).write_bytes(mutated_text(content, seed) if name == damaged else content)
    check(read_dynamechs_world, folder / "seabed.env", tb.World)


def check_mjcf(read_mjcf, folder, content):
    target = folder / "damaged.xml"
    target.write_bytes(content)
    check(read_mjcf, target)


@pytest.mark.filterwarnings("ignore:[^@]*the control law of 1 servos")
def test_undamaged_files_are_read(read_mjcf):
    """Otherwise damages would only find the first error."""
    model = read_mjcf(DATA / "mjcf" / "diver.xml")
    assert (model.nv, len(model.loops), len(model.thrusters)) == (16, 2, 2)


@settings(max_examples=300)
@given(st.sampled_from(sorted(DYNAMECHS)), st.integers(0, 2**32 - 1))
def test_damaged_dynamechs_files_give_a_model_or_a_clear_error(folder, path, seed):
    check_dynamechs(folder, mutated_text(DYNAMECHS[path], seed))


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(SURROUNDINGS)))
def test_damaged_surroundings_give_a_world_or_a_clear_error(folder, seed, damaged):
    check_surroundings(folder, seed, damaged)


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_clear_error(folder, content):
    """What is no file of any kind."""
    check_dynamechs(folder, content)


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_damaged_mjcf_files_give_a_model_or_a_clear_error(read_mjcf, folder, seed):
    check_mjcf(read_mjcf, folder, mutated(MJCF, seed))


@pytest.mark.slow
@settings(max_examples=10_000)
@given(st.sampled_from(sorted(DYNAMECHS)), st.integers(0, 2**32 - 1))
def test_ten_thousand_damaged_dynamechs_files(folder, path, seed):
    """The same at length."""
    check_dynamechs(folder, mutated_text(DYNAMECHS[path], seed))


@pytest.mark.slow
@settings(max_examples=10_000)
@given(st.integers(0, 2**32 - 1))
def test_ten_thousand_damaged_mjcf_files(read_mjcf, folder, seed):
    """The same at length."""
    check_mjcf(read_mjcf, folder, mutated(MJCF, seed))
