"""No public callable answers a wrong argument with an error that is not ours, or a nameless one."""

import zlib

import pytest

from tests.contracts.bad_arguments import BAD, callables, complaints

PUBLIC = dict(callables())


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Work in an empty folder: some values are good names of files to write."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_wrong_arguments_are_named_in_errors(name):
    """A few values for every argument of every callable; others for other callables."""
    labels = sorted(BAD)
    start = zlib.crc32(name.encode())
    few = {labels[(start + 7 * k) % len(labels)]: None for k in range(3)}
    found = list(complaints(name, PUBLIC[name], {label: BAD[label] for label in few}))
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_all_wrong_arguments_are_named_in_errors(name):
    """Every value for every argument of every callable."""
    found = list(complaints(name, PUBLIC[name]))
    assert not found, "\n".join(map(str, found))


def test_probe_finds_foreign_errors_and_messages_without_names():
    """The probe can fail: a function that checks nothing, and one whose message says nothing."""

    def careless(name: str) -> None:
        name.casefold()

    def mute(name: str) -> None:
        from tiburon.errors import ModelError

        if not isinstance(name, str):
            raise ModelError("that will not do")

    assert "AttributeError" in str(next(complaints("careless", careless)))
    assert "does not name the argument" in str(next(complaints("mute", mute)))
