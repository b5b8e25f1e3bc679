"""Calls in lanes as machine code: vectors for one case, one after another in batches, same bits."""

import re

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits, needs_avx2, run_lanes, run_one
from tests.native.x86.test_callee import long_body
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.trace import function, interpret, lanes, trace

RANDOM = np.random.default_rng(18)
SIZE = 6


def many_calls(number):
    """A program with so many calls in lanes of a long function, whose results are fed on."""

    def program(x):
        wind = x[0] * x[1]
        inner = function(lambda a, k: long_body([a[0] + k, a[1] * k, *a[2:]], wind, x[3]))
        sets = [([x[(k + j) % SIZE] for j in range(SIZE)], 0.1 * (k + 1.0)) for k in range(number)]
        found = lanes(inner, sets)
        after = lanes(lambda r: [r[0] * r[1] + wind, r[1] - r[5]], [(r,) for r in found])
        return np.array([value for r in (*found, *after) for value in r], like=x)

    return trace(program, {"x": (SIZE,)})


@pytest.mark.parametrize("number", [2, 3, 4, 7])
def test_bits_are_those_of_batches_and_of_calls_one_after_another(number):
    """Numbers of calls that fill vectors, or do not."""
    program, x = many_calls(number), RANDOM.normal(size=(9, SIZE))
    found = assert_same_bits(program, x)
    expected = interpret(program, [x])
    # products and sums of the interpreter are rounded apart
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", [2, 4, 8])
def test_one_case_uses_vectors_of_the_machine(width):
    """Seven calls fill as many vectors as needed; a batch has vectors of cases only."""
    program = many_calls(7)
    text = module_for_one(program, vector_lanes=width, fused=True)
    called = set(re.findall(r"call void @(lanes\d+)_", text))
    assert called == {f"lanes{width}"}
    assert len(re.findall(rf"  call void @lanes{width}_callee\d+\(ptr %arg", text)) == 2 * -(
        -7 // width
    )
    assert "@lanes" not in module_for_many(program, lanes=width, fused=True)


@needs_avx2
@pytest.mark.parametrize("number", [2, 4, 7])
def test_x86_code_has_the_same_bits(number):
    """Long bodies in vectors of four; shared arguments are read from a table of single floats."""
    program, x = many_calls(number), RANDOM.normal(size=(5, SIZE))
    text = module_for_one(program, vector_lanes=4, fused=True, x86=True)
    assert "vbroadcastsd" in text
    expected = run_one(program, x)
    assert run_one(program, x, x86=True).tobytes() == expected.tobytes()
    assert run_lanes(program, x, 4, x86=True).tobytes() == expected.tobytes()
