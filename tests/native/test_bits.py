"""The same state gives the same bits: alone, anywhere in a batch, in any lanes, on any thread."""

import numpy as np
import pytest

from tests.native.programs import PROGRAMS, bits, cases, kernel, run_many, run_one
from tiburon.native import code as code_module
from tiburon.native.engine import host
from tiburon.trace import interpret

LANES = [1, 2, 4, 8]
NAMES = sorted(PROGRAMS)
# one less and one more than every lane count, primes, and a multiple of all
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 97]
# at most 20 additions and functions of a few ulp each stand between input and result
ROUNDING = 1e-12


def one_by_one(name, x, y):
    """Stack the results of single calls."""
    results = [kernel(name)(x[k], y[k]) for k in range(len(x))]
    if isinstance(results[0], tuple):
        return tuple(np.stack(parts) for parts in zip(*results, strict=True))
    return np.stack(results)


def part(results, chosen):
    return tuple(r[chosen] for r in results) if isinstance(results, tuple) else results[chosen]


@pytest.mark.parametrize("name", NAMES)
def test_native_code_agrees_with_the_interpreter(name):
    """Equal bits would be worth nothing if they were wrong."""
    x, y = cases(50)
    found = kernel(name)(x, y)
    expected = interpret(PROGRAMS[name], [x, y, *kernel(name).__self__.parameters.values()])
    for a, b in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", NAMES)
def test_batch_equals_single_calls(name):
    """Whatever is left over after the last full group of lanes."""
    for size in SIZES:
        x, y = cases(size, seed=size)
        assert bits(kernel(name)(x, y)) == bits(one_by_one(name, x, y)), size


@pytest.mark.parametrize("name", NAMES)
def test_bits_do_not_depend_on_the_position_in_a_batch(name):
    """Shifted, reversed, and alone as a batch of one."""
    x, y = cases(23)
    whole = kernel(name)(x, y)
    for shift in range(1, 10):
        assert bits(kernel(name)(x[shift:], y[shift:])) == bits(part(whole, slice(shift, None)))
    backward = kernel(name)(x[::-1], y[::-1])
    assert bits(backward) == bits(part(whole, slice(None, None, -1)))
    for k in (0, 11, 22):
        alone = kernel(name)(x[k : k + 1], y[k : k + 1])
        assert bits(alone) == bits(part(whole, slice(k, k + 1)))


@pytest.mark.parametrize("name", NAMES)
def test_bits_do_not_depend_on_other_cases_of_a_batch(name):
    """A case keeps its bits when all others in its group of lanes change."""
    x, y = cases(8)
    expected = kernel(name)(x, y)
    for k in range(8):
        other_x, other_y = cases(8, seed=100 + k)
        other_x[k], other_y[k] = x[k], y[k]
        found = kernel(name)(other_x, other_y)
        assert bits(part(found, k)) == bits(part(expected, k))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("lanes", LANES)
def test_bits_do_not_depend_on_the_lane_width(name, lanes, fused):
    """1, 2, 4 and 8 lanes, also on hosts whose vectors are narrower or lack fused products."""
    if fused and not host().fused:
        pytest.skip("this processor has no fused multiply-add")
    x, y = cases(19)
    expected = run_one(name, x, y, vector_lanes=2, fused=fused, order="depth_first")
    assert bits(run_many(name, x, y, lanes=lanes, fused=fused)) == bits(expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("vector_lanes", [4, 8])
def test_bits_do_not_depend_on_packed_angles_or_operation_order(name, vector_lanes):
    """Bits do not depend on how many sines share a vector, nor on the order of instructions."""
    x, y = cases(5)
    fused = host().fused
    expected = run_one(name, x, y, vector_lanes=2, fused=fused, order="depth_first")
    found = run_one(name, x, y, vector_lanes=vector_lanes, fused=fused, order="traced")
    assert bits(found) == bits(expected)
    assert bits(run_many(name, x, y, lanes=4, order="depth_first")) == bits(expected)


@pytest.mark.parametrize("name", NAMES)
def test_part_of_a_batch_writes_only_its_own_rows(name):
    """Threads write only the rows they were given."""
    x, y = cases(20)
    whole = run_many(name, x, y, lanes=4)
    some = run_many(name, x, y, lanes=4, begin=3, end=14)
    assert bits(part(some, slice(3, 14))) == bits(part(whole, slice(3, 14)))
    for result in some:
        assert not result[:3].any()
        assert not result[14:].any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_do_not_depend_on_the_number_of_threads(name, threads, monkeypatch):
    """Parts begin elsewhere, results stay the same."""
    x, y = cases(1003)
    expected = one_by_one(name, x, y)
    monkeypatch.setattr(code_module, "MIN_THREAD_WORK", 1e-12)
    used = watch_threads(monkeypatch)
    assert bits(kernel(name)(x, y, threads=threads)) == bits(expected)
    assert used == ([threads] if threads > 1 else [])


def watch_threads(monkeypatch):
    """Give a list that gets the number of parts of every batch that is split."""
    used = []
    run_in_parts = code_module.run_in_parts

    def spy(function, count, *, threads, granule):
        used.append(threads)
        return run_in_parts(function, count, threads=threads, granule=granule)

    monkeypatch.setattr(code_module, "run_in_parts", spy)
    return used


@pytest.mark.parametrize(
    ("count", "cores", "expected"), [(200, 8, []), (310, 8, [2]), (1000, 8, [6]), (1000, 3, [3])]
)
def test_threads_are_used_for_large_batches_only(count, cores, expected, monkeypatch):
    """150 microseconds of work for each; one case is made to count as one microsecond."""
    monkeypatch.setenv("TIBURON_THREADS", str(cores))
    monkeypatch.setattr(kernel("choices").__self__.owner._code, "_seconds", 1e-6)
    used = watch_threads(monkeypatch)
    kernel("choices")(*cases(count))
    assert used == expected


def test_parameters_per_case_give_the_bits_of_bound_parameters():
    """Parameters bound, given for the call, and given for each case are the same numbers."""
    x, y = cases(11)
    chain = kernel("pendulums")
    bound = chain.__self__.parameters
    masses = np.tile(bound["masses"], (11, 1))
    expected = bits(chain(x, y))
    assert bits(chain(x, y, masses=bound["masses"], gravity=9.81)) == expected
    assert bits(chain(x, y, masses=masses)) == expected
    assert bits(chain(x, y, masses=masses, gravity=np.full(11, 9.81))) == expected
    alone = [chain(x[k], y[k], masses=masses[k]) for k in range(11)]
    assert bits(tuple(np.stack(parts) for parts in zip(*alone, strict=True))) == expected


def test_signed_zeros_are_preserved():
    """The border check adds everything up, but changes nothing."""
    x = np.array([[-0.0, 0.0, -0.0, 1.0, -0.0]] * 5)
    y = np.array([[-0.0, 0.0, -0.0]] * 5)
    assert bits(kernel("choices")(x, y)) == bits(one_by_one("choices", x, y))
