"""No public callable answers a wrong argument with an error that is not ours, or a nameless one."""

import zlib

import pytest

import tiburon as tb
from tests.contracts.bad_arguments import (
    BAD,
    Count,
    callables,
    complaints,
    method_complaints,
    methods,
    property_complaints,
    unmarked,
)

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


COUNT = Count()
"""Of all callables that this process has tried."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_all_wrong_arguments_are_named_in_errors(name, capsys):
    """Every value for every argument of every callable; counts are printed."""
    found = list(complaints(name, PUBLIC[name], count=COUNT))
    COUNT.add(found)
    if name == max(PUBLIC):
        with capsys.disabled():
            print(f"\ncallables: {COUNT}")  # noqa: T201
    assert not found, "\n".join(map(str, found))


def _own_methods():
    """Return every method once: what classes inherit is that of their base."""
    found = {getattr(getattr(tb, name), key): (name, key) for name, key in reversed([*methods()])}
    return sorted(found.values())


def test_all_public_methods_are_marked():
    """A class that is exported without `@public` would raise errors of Python."""
    assert not unmarked()


def test_wrong_arguments_of_methods_are_named_in_errors():
    """Two values for every argument of every method; others for other methods."""
    labels, found = sorted(BAD), []
    for name, key in _own_methods():
        start = zlib.crc32(f"{name}.{key}".encode())
        few = {labels[(start + 7 * k) % len(labels)]: None for k in range(2)}
        found += method_complaints(name, key, {label: BAD[label] for label in few})
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
def test_all_wrong_arguments_of_methods_are_named_in_errors(capsys):
    """Every value for every argument of every method, and pairs of them; counts are printed."""
    count, found = Count(), []
    for name, key in _own_methods():
        one = list(method_complaints(name, key, count=count, pairs=40))
        count.add(one)
        found += one
    with capsys.disabled():
        print(f"\nmethods: {count}")  # noqa: T201
    assert not found, "\n".join(map(str, found))


def test_properties_raise_only_errors_of_this_package():
    """Whatever can be read of an instance is there, or the error says why it is not."""
    names = sorted({name for name, _ in methods()})
    found = [one for name in names for one in property_complaints(name)]
    assert not found, "\n".join(map(str, found))


def test_probe_of_methods_finds_foreign_errors(monkeypatch):
    """The probe of methods can fail, and counts how."""
    monkeypatch.setattr(tb.Trajectory, "get", lambda self, name: name.casefold())
    count = Count()
    found = list(method_complaints("Trajectory", "get", count=count))
    count.add(found)
    assert "AttributeError" in str(found[0])
    assert count.calls == len(BAD)
    assert count.foreign == len(found) > 10


def test_errors_of_methods_of_users_classes_stay_theirs():
    """A subclass of ours that raises in its own code is not blamed on arguments."""

    class Faulty(tb.Harmonic):
        def at(self, time):
            return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        Faulty(0.1, 1.0).at(0.5)


def test_values_of_the_right_kind_that_do_not_fit_are_named_with_the_cause():
    """An error deep inside becomes one of ours; what was raised there is chained."""
    with pytest.raises(tb.TiburonError, match=r"TendonCoupling\.check: joints") as caught:
        tb.TendonCoupling("tendon", ("elbow",), (0.1,)).check({})
    assert isinstance(caught.value.__cause__, KeyError)


def test_messages_are_short():
    """Names and files of any length leave a message short; its start and end stay."""
    error = tb.ModelError("a" * 5000 + "end", name="x")
    assert len(str(error)) <= 1500
    assert str(error).endswith("end")


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
