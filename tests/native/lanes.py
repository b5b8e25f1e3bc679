"""Run a program of one input below the Python interface, in any number of lanes."""

from __future__ import annotations

import ctypes
import functools

import llvmlite.binding as llvm
import numpy as np
import pytest

from tiburon.native.engine import LoadedCode, compile_module, host
from tiburon.native.llvm_module import module_for_many, module_for_one

LANES = (1, 2, 4, 8)

needs_avx2 = pytest.mark.skipif(
    not (
        llvm.get_process_triple().startswith("x86_64")
        and llvm.get_host_cpu_features().get("avx2")
        and llvm.get_host_cpu_features().get("fma")
    ),
    reason="the x86 generator needs AVX2 and FMA; hosts with AVX-512 run its code, too",
)


@functools.lru_cache(maxsize=64)
def load(text, *, optimize=True, quick=False):
    """Compile and load a module, once for tests that call it again."""
    return LoadedCode(compile_module(text, optimize=optimize, quick=quick))


def _pointers(arrays):
    return np.array([array.ctypes.data for array in arrays], dtype=np.int64)


def run_one(program, x, *, fused=True, x86=False):
    """Compile for one case and run each row of x; give one row of all results each."""
    return run_text(program, module_for_one(program, vector_lanes=4, fused=fused, x86=x86), x)


def run_text(program, text, x):
    """Run the code of one case, given as a module, for each row of x."""
    # passes run where kernels run them
    loaded = load(text, optimize=program.has_calls)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)(loaded.address("one"))
    results = [np.zeros((len(x), len(output.nodes))) for output in program.outputs]
    for k, row in enumerate(np.ascontiguousarray(x)):
        given, found = _pointers([row]), _pointers([result[k] for result in results])
        call(given.ctypes.data, found.ctypes.data)
    return np.concatenate(results, axis=1)


def run_lanes(program, x, lanes, *, fused=True, x86=False):
    """Compile for so many lanes and run all rows of x; give one row of all results each.

    Vectors of this machine are optimized, as in long runs; all others are compiled quickly, so that
    the bits of both tiers are compared.
    """
    quick = not x86 and lanes != host().lanes
    loaded = load(module_for_many(program, lanes=lanes, fused=fused, x86=x86), quick=quick)
    kinds = [*[ctypes.c_void_p] * 4, *[ctypes.c_longlong] * 2]
    call = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(loaded.address("many"))
    x = np.ascontiguousarray(x)
    results = [np.zeros((len(x), len(output.nodes))) for output in program.outputs]
    steps = np.array([x.shape[1]], dtype=np.int64)
    jumps = np.array([result.shape[1] for result in results], dtype=np.int64)
    tables = _pointers([x]), steps, _pointers(results), jumps
    call(*[table.ctypes.data for table in tables], 0, len(x))
    return np.concatenate(results, axis=1)


def assert_same_bits(program, x, *, fused=True, widths=None):
    """One case at a time and any number of lanes give the same bits; return them.

    The numbers of lanes are those that this machine runs by default: code without vectors, the
    narrow vectors of quick code, and its own vectors.
    """
    expected = run_one(program, x, fused=fused)
    for lanes in widths or sorted({1, 2, host().lanes}):
        found = run_lanes(program, x, lanes, fused=fused)
        differing = np.flatnonzero((found.view(np.int64) != expected.view(np.int64)).any(axis=1))
        # every NaN is as good as another
        differing = [k for k in differing if not np.array_equal(found[k], expected[k], True)]
        assert not differing, f"{lanes} lanes differ in cases {differing}"
    return expected
