"""A terminal shows what is compiled when that takes long; nothing else does."""

import io
import threading
import types

import pytest

from tiburon.native import code


class Terminal(io.StringIO):
    """A terminal, or a file; signals when something is written to it."""

    def __init__(self, terminal=True):
        super().__init__()
        self.terminal, self.written = terminal, threading.Event()

    def isatty(self):
        return self.terminal

    def flush(self):
        self.written.set()


MODEL = types.SimpleNamespace(name="quadruped", nv=18)
SOURCE = types.SimpleNamespace(name="linearize", model=MODEL)
TEXT = "compiling linearize for quadruped, 18 DoF ..."


@pytest.mark.parametrize(
    ("stream", "wait", "shown"),
    [
        (Terminal(), 0.01, TEXT + "\r" + " " * len(TEXT) + "\r"),
        (Terminal(), 60.0, ""),
        (Terminal(terminal=False), 0.01, ""),
    ],
    ids=["long, terminal", "short, terminal", "long, file"],
)
def test_only_long_compilations_on_a_terminal_are_shown(monkeypatch, stream, wait, shown):
    """One line, erased when the compilation ends."""
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(code, "LONG_WAIT", wait)
    with code._announced(SOURCE):
        stream.written.wait(60.0 if shown else 0.1)
    assert stream.getvalue() == shown


def test_the_line_is_erased_after_an_error(monkeypatch):
    """A failed compilation leaves no line behind, and its error passes."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(RuntimeError), code._announced(types.SimpleNamespace(name="f")):
        raise RuntimeError
    assert terminal.getvalue() == ""
