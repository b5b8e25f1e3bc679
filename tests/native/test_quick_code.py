"""Functions for one case, compiled quickly for the first calls and optimized for many."""

import numpy as np
import pytest

import tiburon as tb
from tests.native.programs import PROGRAMS, bits, cases, parameters_of
from tiburon.errors import OptionError
from tiburon.native import code, kernel
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.module import has_own_generator

pytestmark = pytest.mark.skipif(has_own_generator(), reason="long functions compile quickly anyway")


@pytest.fixture
def quick(monkeypatch, kernel_directory):
    """Compile every function quickly at first, and count only few calls."""
    monkeypatch.setattr(code, "MIN_QUICK_LINES", 0)
    for module in (code, kernel):
        monkeypatch.setattr(module, "QUICK_CALLS", 5)
    monkeypatch.setattr(kernel, "CALLS_BETWEEN_LOOKS", 2)
    code.forget_codes()
    yield
    code.forget_codes()


def made(name):
    """Return a kernel and its code."""
    found = make_kernel(ProgramSource(PROGRAMS[name]), parameters_of(name))
    return found, found.__self__.owner._code


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_quick_code_gives_the_bits_of_optimized_code(name, quick, monkeypatch):
    """One case of every kind of program, with lists and with arrays."""
    x, y = cases(3)
    run, own = made(name)
    assert not own.is_optimized
    first = [bits(run(a, b)) for a, b in zip(x, y, strict=True)]
    first += [bits(run(list(x[0]), list(y[0])))]
    monkeypatch.setenv("TIBURON_COMPILER", "optimized")
    code.forget_codes()
    run, own = made(name)
    assert own.is_optimized
    second = [bits(run(a, b)) for a, b in zip(x, y, strict=True)]
    second += [bits(run(list(x[0]), list(y[0])))]
    assert first == second


def test_quick_code_of_a_robot_gives_the_bits_of_optimized_code(quick, monkeypatch):
    """Derivatives of forward dynamics: primitives, loops and long straight-line code."""
    model = tb.load("panda")
    rng = np.random.default_rng(5)
    state = [rng.standard_normal(size) for size in (model.nq, model.nv, model.nv)]
    quickly = tb.compile(tb.forward_dynamics_derivatives, model)
    assert not quickly.__self__.owner._code.is_optimized
    first = quickly(*state)
    monkeypatch.setenv("TIBURON_COMPILER", "optimized")
    code.forget_codes()
    second = tb.compile(tb.forward_dynamics_derivatives, model)(*state)
    assert [bits(x) for x in first] == [bits(x) for x in second]


def test_optimized_code_replaces_quick_code_that_is_called_often(quick):
    """It is compiled beside the calls, and every kernel of the code takes it later."""
    x, y = (part[0] for part in cases(1))
    run, own = made("elementary")
    other = run.__self__.owner.with_parameters()
    before = run.__self__[0]
    results = [bits(run(x, y)) for _ in range(4)]
    assert own._optimizer is None
    results.append(bits(run(x, y)))
    assert own._optimizer is not None
    own.wait_for_optimizer()
    assert own.is_optimized
    results += [bits(run(x, y)) for _ in range(2)]
    assert run.__self__[0] == own.one_address != before
    results += [bits(other(x, y)) for _ in range(6)]
    assert other.__self__[0] == own.one_address
    assert all(found == results[0] for found in results)


def test_loops_of_many_calls_take_optimized_code(quick):
    """Those of a run are counted before it starts, together with those of earlier runs."""
    own = made("arithmetic")[1]
    first = own.loop_address(3)
    assert not own.is_optimized
    assert own.loop_address(2) == first
    assert own.loop_address(1) == own.one_address != first


def test_the_cache_keeps_both_and_prefers_optimized_code(quick):
    """Another process finds quick code, until optimized code was stored."""
    own = made("arithmetic")[1]
    code.forget_codes()
    other = made("arithmetic")[1]
    assert set(other._loaded) == {"quick"}
    assert other._loaded["quick"].code == own._loaded["quick"].code
    # without the assembly that it was compiled from
    other.optimize_in_background()
    other.wait_for_optimizer()
    assert other.is_optimized
    code.forget_codes()
    assert set(made("arithmetic")[1]._loaded) == {"one"}


def test_short_functions_are_optimized_at_once(kernel_directory):
    """Where that takes some milliseconds, nothing is counted."""
    code.forget_codes()
    run, own = made("arithmetic")
    assert own.is_optimized
    assert run.__self__.calls_left() > 1 << 61


def test_an_unknown_compiler_is_refused(monkeypatch):
    """The message lists those that there are."""
    monkeypatch.setenv("TIBURON_COMPILER", "fast")
    with pytest.raises(OptionError, match=r"tiered.*optimized.*fast"):
        code.quick_code_wanted()
