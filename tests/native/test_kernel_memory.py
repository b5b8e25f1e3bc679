"""Kernels keep what they need, give back what they do not, and survive running out of memory."""

import ctypes
import dataclasses
import gc
import sys
import weakref

import numpy as np
import pytest

from tests.native.programs import bits, cases, compiled, kernel
from tiburon.errors import DomainError, NonFiniteError, ShapeError
from tiburon.native import code as code_module
from tiburon.native import trampoline
from tiburon.native.code import code_for, forget_codes
from tiburon.native.kernel import Kernel, ProgramSource, make_kernel
from tiburon.native.layout import object_layout
from tiburon.native.result_memory import POOLED_BUFFER_BYTES
from tiburon.trace import trace


@pytest.fixture(scope="module")
def several():
    """Give a kernel with array and number results of array and number arguments."""
    return compiled(
        lambda x, c: (x * c, c + 1.0, np.sqrt(x[0]) + 2.0 * x, x[1]), {"x": (3,), "c": ()}
    )


def leaks(action, calls):
    """Tell whether memory grows by a block at every few calls.

    Python's blocks are counted rather than bytes: tables that happen to be made larger while
    calls continue are single blocks, whatever their size. Python also keeps some thousand freed
    objects for later, so only what grows in every one of three rounds is a leak.
    """
    growth = []
    gc.collect()
    # what lives already need not be visited by the collections below
    gc.freeze()
    for _ in range(3):
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(calls):
            action()
        gc.collect()
        growth.append(sys.getallocatedblocks() - before)
    return min(growth) > calls / 4


def test_leak_detection_finds_a_deliberate_leak():
    """One small object for every call is enough."""
    kept = []
    assert leaks(lambda: kept.append(np.ones(1)), 2000)
    assert not leaks(lambda: np.ones(1), 2000)


def test_repeated_calls_do_not_leak(several):
    """Results are the only thing a call leaves behind."""
    x, c = np.ones(3), np.array(2.0)
    counts = [sys.getrefcount(thing) for thing in (x, c, several)]
    assert not leaks(lambda: several(x, c), 5_000)
    assert not leaks(lambda: several(x, 2.0), 5_000)
    assert [sys.getrefcount(thing) for thing in (x, c, several)] == counts


def test_results_have_one_reference(several):
    """Each result dies with the last name for it."""
    x = np.ones(3)
    results = several(x, 2.0)
    # the tuple, the loop, and the question itself
    assert [sys.getrefcount(part) for part in results] == [3] * 4
    assert sys.getrefcount(results) == 2
    alone = weakref.ref(results[0])
    del results
    assert alone() is None


@pytest.mark.parametrize(
    ("x", "error"),
    [
        (np.array([1.0, np.nan, 1.0]), NonFiniteError),
        (np.array([-1.0, 1.0, 1.0]), DomainError),
        (np.ones(4), ShapeError),
    ],
    ids=["input", "result", "shape"],
)
def test_failed_calls_do_not_leak(several, x, error):
    """Arrays made for a call that fails are given back."""

    def fail():
        with pytest.raises(error):
            several(x, 2.0)

    fail()
    count = sys.getrefcount(x)
    assert not leaks(fail, 500)
    assert sys.getrefcount(x) == count


def test_batches_and_conversions_do_not_leak(several):
    """The checked path holds on to nothing either."""
    x = np.ones((5, 3))
    lists = x.tolist()
    out = tuple(part.copy() for part in several(x, 2.0))
    for call in (
        lambda: several(x, 2.0),
        lambda: several(lists, 2),
        lambda: several(x, 2.0, out=out),
        lambda: several(x, c=np.arange(5.0), errors="flag"),
    ):
        assert not leaks(call, 500)


def no_memory():
    return ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value


@pytest.mark.parametrize("function", ["array_new", "number_new", "tuple_new"])
def test_running_out_of_memory_raises_and_leaks_nothing(function, monkeypatch):
    """Whatever cannot be made, all that was made before is given back."""
    broken = dataclasses.replace(object_layout(), **{function: no_memory()})
    monkeypatch.setattr(trampoline, "object_layout", lambda: broken)
    # of quick code some calls take the checked path, which is not broken
    monkeypatch.setenv("TIBURON_COMPILER", "optimized")
    program = trace(lambda x: (2.0 * x, x.sum(), 3.0 * x), {"x": (64,)}, name="starving")
    starving = make_kernel(ProgramSource(program))
    x = np.ones(64)

    def fail():
        with pytest.raises(MemoryError):
            starving(x)

    fail()
    count = sys.getrefcount(x)
    assert not leaks(fail, 500)
    assert sys.getrefcount(x) == count


def test_kernel_is_freed_with_its_last_reference():
    """Kernel, builtin and table refer to each other; the collector takes them apart."""
    x = np.ones(2)
    forget_codes()
    builtin = compiled(lambda x: 2.0 * x, {"x": (2,)})
    builtin(x)
    owner = weakref.ref(builtin.__self__.owner)
    code = weakref.ref(builtin.__self__.owner._code)
    table = weakref.ref(builtin.__self__)
    forget_codes()
    gc.collect()
    assert owner() is not None
    assert code() is not None
    assert builtin(x).tolist() == [2.0, 2.0]
    del builtin
    gc.collect()
    assert owner() is None
    assert table() is None
    assert code() is None


def test_bound_method_keeps_its_kernel_alive():
    """Also for its first batch, compiled after its code was forgotten."""
    x, y = cases(7)
    wanted = bits(kernel("arithmetic")(x, y))
    builtin = make_kernel(kernel("arithmetic").__self__.source)
    forget_codes()
    gc.collect()
    assert bits(builtin(x, y)) == wanted


def test_creating_and_freeing_kernels_does_not_leak():
    """Other parameters over and over take no memory for good."""
    chain = kernel("pendulums")
    x, y = cases(1)

    def renew():
        changed = chain.__self__.with_parameters(gravity=1.5)
        changed(x[0], y[0])

    def living():
        gc.collect()
        return sum(isinstance(thing, Kernel) for thing in gc.get_objects())

    # other tests of the same process may hold kernels of their own
    before = living()
    assert not leaks(renew, 1000)
    assert living() <= before + 1


def test_single_and_batch_code_are_compiled_on_demand():
    """A kernel for batches compiles nothing for one case until it is called with one."""
    forget_codes()
    source = ProgramSource(trace(lambda x: np.sin(x) * 3.0, {"x": (2,)}, name="wave"))
    kernel = make_kernel(source, part="many")
    code = kernel.__self__._code
    assert code.many.size() > 0 == code.one.size()
    x = np.array([[0.1, 0.2], [0.3, 0.4]])
    many = kernel(x)
    assert code.many.size() > 0 == code.one.size()
    np.testing.assert_array_equal(kernel(x[1]), many[1])
    np.testing.assert_array_equal(make_kernel(source)(x[0]), many[0])
    assert min(code.many.size(), code.one.size()) > 0


def test_codes_in_memory_are_bounded(monkeypatch):
    """The code used longest ago is dropped; one in use lives on."""
    monkeypatch.setattr(code_module, "CODES_IN_MEMORY", 3)
    forget_codes()
    sources = [
        ProgramSource(trace(lambda x, k=k: x + k, {"x": ()}, name="shift")) for k in range(2, 7)
    ]
    held = make_kernel(sources[0])
    codes = [weakref.ref(code_for(source)) for source in sources[:3]]
    assert code_for(sources[0]) is codes[0]()
    code_for(sources[3])
    gc.collect()
    # 0 was used again after 1
    assert [code() is not None for code in codes] == [True, False, True]
    code_for(sources[4])
    code_for(sources[1])
    gc.collect()
    assert len(code_module._codes) == 3
    assert [code() is not None for code in codes] == [True, False, False]
    assert held(1.0) == 3.0
    assert make_kernel(sources[2])(1.0) == 5.0


def test_definitions_of_builtins_outlive_the_cache_that_shares_them():
    """When the interpreter ends, caches go before the last kernels, which read their definition."""
    found = trampoline._method("some", "doc", 1)
    known = weakref.ref(found)
    trampoline._method.cache_clear()
    del found
    gc.collect()
    assert known() is not None


def test_batches_reuse_the_memory_of_freed_results_and_of_no_others():
    """Fresh memory would be zeroed page by page at every call; results in use keep their values."""
    double = compiled(lambda x, c: (x * c, x + c), {"x": (8,), "c": ()})
    given = np.linspace(0.0, 1.0, POOLED_BUFFER_BYTES).reshape(-1, 8)
    kept, gone = double(given, 2.0)
    address = gone.ctypes.data
    before = kept.copy()
    del gone
    again, more = double(-given, 2.0)
    assert address in (again.ctypes.data, more.ctypes.data)
    assert not np.may_share_memory(again, more)
    np.testing.assert_array_equal(kept, before)
    np.testing.assert_array_equal(again, -before)
    np.testing.assert_array_equal(more, 2.0 - given)
