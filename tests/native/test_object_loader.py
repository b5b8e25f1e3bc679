"""Cached machine code runs without LLVM: the same bits, in pages that are never both W and X."""

import ctypes
import gc
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from tests.native.programs import PROGRAMS, bits, cases, parameters_of
from tiburon import operating_system
from tiburon.native import engine, object_loader
from tiburon.native.code import forget_codes
from tiburon.native.engine import LoadedCode, compile_module
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.object_loader import map_object

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="other systems load everything with LLVM",
)

PLAIN = """
@numbers = internal constant [2 x double] [double 1.5, double 2.5], align 64
@counter = internal global i64 40, align 8

define internal double @pick(i64 %k) noinline {
  %p = getelementptr [2 x double], ptr @numbers, i64 0, i64 %k
  %x = load double, ptr %p
  ret double %x
}

define double @run(i64 %k) {
  %x = call double @pick(i64 %k)
  ret double %x
}

define i64 @count() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  ret i64 %new
}
"""


def pages(address):
    """Return the permissions of the page at an address, None if nothing is mapped there."""
    with open("/proc/self/maps") as file:
        for line in file:
            span, permissions = line.split()[:2]
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= address < last:
                return permissions
    return None


# the same results


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_mapped_code_gives_the_bits_of_code_loaded_by_llvm(name, monkeypatch):
    """One case and many, for every kind of program."""
    x, y = cases(37)
    results = []
    for loader in (map_object, lambda code: None):
        forget_codes()
        monkeypatch.setattr(engine, "map_object", loader)
        kernel = make_kernel(ProgramSource(PROGRAMS[name]), parameters_of(name))
        one = kernel.__self__.owner._code.one
        held = (one._optimized or one._quick)._held
        assert isinstance(held, object_loader.MappedObject) == (loader is map_object)
        results.append((bits(kernel(x, y)), bits(kernel(x[0], y[0]))))
    forget_codes()
    assert results[0] == results[1]


def test_code_constants_and_variables_find_each_other():
    """Calls, reads and writes across sections."""
    mapped = map_object(compile_module(PLAIN, optimize=False))
    assert set(mapped.addresses) >= {"run", "count"}
    run = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(mapped.addresses["run"])
    count = ctypes.CFUNCTYPE(ctypes.c_int64)(mapped.addresses["count"])
    assert [run(0), run(1)] == [1.5, 2.5]
    assert [count(), count()] == [41, 42]


SCRIPT = """
import builtins, sys
import numpy as np
import tiburon as tb
ordinary = builtins.__import__
def refuse(name, *rest, **named):
    if name.partition(".")[0] == "llvmlite" and {refused}:
        raise AssertionError("imported llvmlite")
    return ordinary(name, *rest, **named)
builtins.__import__ = refuse
model = tb.load("double_pendulum")
q = np.linspace(-1.0, 1.0, 40).reshape(20, 2)
one = tb.forward_dynamics(model, q[3], q[4], q[5])
many = tb.forward_dynamics(model, q, q, q)
print(one.tobytes().hex(), many.tobytes().hex(), "llvmlite" in sys.modules)
"""


def test_cached_kernels_run_without_importing_llvm(tmp_path):
    """The first process compiles; the second runs the same bits and imports no compiler."""
    found = []
    for refused in (False, True):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(refused=refused)],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "TIBURON_CACHE_DIR": str(tmp_path / "kernels"),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found[0][:2] == found[1][:2]
    assert [words[2] for words in found] == ["True", "False"]


# pages


def test_no_page_is_writable_and_executable():
    """Code may be run, constants read, variables written; nothing may be both W and X."""
    mapped = map_object(compile_module(PLAIN, optimize=False))
    start = mapped.addresses["run"] & ~4095
    found = [pages(start + 4096 * k) for k in range(3)]
    assert found == ["r-xp", "r--p", "rw-p"]


def test_pages_are_freed_with_the_code():
    """Unreferenced code is unmapped."""
    mapped = map_object(compile_module(PLAIN, optimize=False))
    address = mapped.addresses["run"]
    assert pages(address) == "r-xp"
    del mapped
    gc.collect()
    assert pages(address) != "r-xp"


def test_loader_falls_back_where_memory_cannot_be_executable(monkeypatch):
    """Some systems refuse executable pages; nothing is left mapped then."""

    class Refusing:
        def __init__(self, system):
            self.mmap, self.munmap = system.mmap, system.munmap

        def mprotect(self, *_):
            return -1

    refusing = Refusing(operating_system._pages_library())
    monkeypatch.setattr(operating_system, "_pages_library", lambda: refusing)
    assert map_object(compile_module(PLAIN, optimize=False)) is None


# what needs a real linker

OTHERS = {
    "symbol of a library": """
        declare double @sin(double)
        define double @run(double %x) {
          %y = call double @sin(double %x)
          ret double %y
        }""",
    "absolute address": """
        @where = global ptr @run
        define double @run(double %x) {
          %p = load ptr, ptr @where
          %y = fadd double %x, 0.0
          ret double %y
        }""",
    "variable of a thread": """
        @own = internal thread_local global double 0.5
        define double @run(double %x) {
          %y = load double, ptr @own
          ret double %y
        }""",
}


@pytest.mark.parametrize("name", OTHERS)
def test_objects_with_other_relocations_are_loaded_by_llvm(name):
    """Nothing is run with a relocation that was not made."""
    assert map_object(compile_module(OTHERS[name], optimize=False)) is None


def test_llvm_loads_code_that_the_small_loader_refuses():
    """The fallback runs."""
    loaded = LoadedCode(compile_module(OTHERS["absolute address"], optimize=False))
    run = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.address("run"))
    assert run(0.0) == 0.0


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, 0x7E), (4, 1), (5, 2), (16, 2), (18, 183)],
    ids=["magic", "32 bits", "big endian", "executable file", "another processor"],
)
def test_object_files_of_other_formats_are_loaded_by_llvm(place, value):
    """Only relocatable objects of this processor are mapped."""
    code = bytearray(compile_module(PLAIN, optimize=False))
    code[place] = value
    assert map_object(bytes(code)) is None


def test_other_systems_use_llvm(monkeypatch):
    """The layout of object files is known for one system only."""
    code = compile_module(PLAIN, optimize=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert map_object(code) is None


def test_cut_and_damaged_objects_never_raise():
    """The cache refuses damaged files before; here they are at worst not run."""
    code = compile_module(PLAIN, optimize=False)
    for size in range(0, len(code), 7):
        assert map_object(code[:size]) is None
    random = np.random.default_rng(3)
    for _ in range(500):
        damaged = bytearray(code)
        damaged[random.integers(len(code))] ^= 1 << int(random.integers(8))
        map_object(bytes(damaged))
