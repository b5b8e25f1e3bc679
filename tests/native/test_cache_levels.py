"""Two levels of the cache: a link from the structure key to a graph, and code by the graph."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tiburon
from tests.native.programs import bits
from tiburon.native import cache, code, trampoline
from tiburon.native.kernel import make_kernel
from tiburon.trace import trace


class Structured:
    """A source that is keyed without tracing, as algorithms of models are."""

    name = "scaled"

    def __init__(self, key, factor=2.0):
        self.key = key
        self.factor = factor
        self.traced = 0

    def program(self):
        self.traced += 1
        return trace(lambda x: np.sin(x) * self.factor, {"x": (3,)}, name=self.name)

    def retrace(self):
        pass


X = np.array([0.3, -1.2, 2.5])


def run(source, wanted=None):
    """Make a kernel with nothing in memory, and run both of its parts."""
    code.forget_codes()
    kernel = make_kernel(source)
    wanted = np.sin(X) * source.factor if wanted is None else wanted
    single, batch = kernel(X), kernel(np.stack([X, X]))
    np.testing.assert_allclose(single, wanted, rtol=1e-15)
    assert bits(batch[0]) == bits(batch[1]) == bits(single)


@pytest.fixture
def compiled(kernel_directory, monkeypatch):
    """Point the cache to an empty directory; list what is compiled."""
    parts = []
    real = code.compile_module

    def note(*given, **options):
        # kernels of earlier tests may still be optimized in the background
        if threading.current_thread() is threading.main_thread():
            parts.append(given)
        return real(*given, **options)

    monkeypatch.setattr(code, "compile_module", note)
    yield parts
    code.forget_codes()


def test_cached_link_avoids_tracing(compiled):
    """The second process neither traces nor compiles."""
    run(Structured("a"))
    again = Structured("a")
    run(again)
    assert again.traced == 0
    assert len(compiled) == 2


def test_without_a_link_the_graph_finds_the_code(compiled, kernel_directory):
    """Traced once for each part, never compiled; then the link is there."""
    run(Structured("a"))
    for path in kernel_directory.glob("*.link"):
        path.unlink()
    again = Structured("a")
    run(again)
    # the second part finds the link that the first one stored
    assert again.traced == 1
    assert len(compiled) == 2
    third = Structured("a")
    run(third)
    assert third.traced == 0


def test_edits_outside_the_code_generator_do_not_recompile(compiled, monkeypatch):
    """Other stamps of the package, the same content of the generator: links anew, code as it is."""
    run(Structured("a"))
    monkeypatch.setattr(cache, "_package", lambda: b"edited")
    again = Structured("a")
    run(again)
    assert again.traced == 1
    assert len(compiled) == 2


def test_edits_of_the_code_generator_recompile(compiled, monkeypatch):
    """Links fall with the stamps of the package, code with the stamp of the generator."""
    run(Structured("a"))
    monkeypatch.setattr(cache, "_package", lambda: b"edited")
    monkeypatch.setattr(cache, "source_digest", lambda *rooms: "edited")
    run(Structured("a"))
    assert len(compiled) == 4


def test_functions_with_equal_graphs_share_code(compiled, kernel_directory):
    """Whatever they are called and keyed by."""
    run(Structured("a"))
    run(Structured("b"))
    assert len(compiled) == 2
    assert len(list(kernel_directory.glob("*.link"))) == 2


def test_functions_with_other_constants_do_not_share_code(compiled):
    """One bit of one constant is another program."""
    run(Structured("a"))
    run(Structured("b", factor=float(np.nextafter(2.0, 3.0))))
    assert len(compiled) == 4


def test_link_to_missing_code_recompiles(compiled, kernel_directory):
    """Pruning may remove one without the other."""
    run(Structured("a"))
    for path in kernel_directory.glob("*.kernel"):
        path.unlink()
    run(Structured("a"))
    assert len(compiled) == 4
    run(Structured("a"))
    assert len(compiled) == 4


def test_link_to_damaged_code_recompiles(compiled, kernel_directory):
    """A good link does not make bad code good."""
    run(Structured("a"))
    for path in kernel_directory.glob("*.kernel"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    run(Structured("a"))
    assert len(compiled) == 4


def test_a_generator_edited_while_running_stores_nothing(compiled, kernel_directory, monkeypatch):
    """Its code runs, and is not kept as that of files which it was not made from."""
    monkeypatch.setattr(cache, "generator_stamp", lambda: None)
    run(Structured("a"))
    run(Structured("a"))
    assert len(compiled) == 4
    assert not list(kernel_directory.glob("*.link"))
    names = {entry.name for entry in cache.cache_entries()}
    assert names <= {"trampoline"}


def test_a_generator_edited_during_a_compilation_stores_nothing(compiled, monkeypatch):
    """The stamp is looked at again when the code is there."""
    stamps = iter(["before", None, "before", None])
    monkeypatch.setattr(cache, "generator_stamp", lambda: next(stamps))
    run(Structured("a"))
    assert {entry.name for entry in cache.cache_entries()} <= {"trampoline"}


SCRIPT = """
import tiburon as tb
from tiburon.native import code, engine
def refuse(*_, **options): raise SystemExit("compiled again")
if {refused}: code.compile_module = engine.compile_module = refuse
model = tb.load("double_pendulum")
print(tb.__file__, tb.forward_dynamics(model, [0.3, 0.1], [1.0, 2.0], [0.0, 0.5]).tobytes().hex())
"""


def test_processes_share_code_despite_other_modification_times(tmp_path):
    """A copy of the package, its `cli/` edited later: the code of the original is found."""
    original = Path(tiburon.__file__).parent
    copy = tmp_path / "elsewhere" / "tiburon"
    shutil.copytree(original, copy)
    changed = copy / "cli" / "cache.py"
    changed.write_text(changed.read_text() + "\n# edited\n")
    found = []
    for package, refused in ((original, False), (copy, True)):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(refused=refused)],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "TIBURON_CACHE_DIR": str(tmp_path / "kernels"),
                "PYTHONPATH": str(package.parent),
            },
        )
        assert done.returncode == 0, done.stderr
        where, result = done.stdout.split()
        assert Path(where).parent == package
        found.append(result)
    assert found[0] == found[1]


def test_a_known_trampoline_is_not_written_again(kernel_directory, monkeypatch):
    """The form of a call leads to its code; after edits of the package it is written anew."""
    form = trampoline.Form((1, 2), (0, 1), (), (1,), single=True)
    load = trampoline._trampoline.__wrapped__
    load(form)

    def refuse(*_):
        raise AssertionError("written again")

    monkeypatch.setattr(trampoline, "trampoline_assembly", refuse)
    load(form)
    monkeypatch.setattr(cache, "_package", lambda: b"edited")
    with pytest.raises(AssertionError, match="written again"):
        load(form)
