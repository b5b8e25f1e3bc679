"""Long outputs and arguments, wherever their numbers come from: calls, inputs, constants."""

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits
from tiburon.trace import function, interpret, trace

SIZE = 240
RANDOM = np.random.default_rng(71)


@function
def doubled(x):
    """Give so many results that they are moved by loops."""
    return [2.0 * a for a in x]


@function
def shifted(x):
    """Take so many arguments that they are moved by loops."""
    return [a + 1.0 for a in x]


def in_order(x):
    return doubled(list(x))


def backward(x):
    return doubled(list(x))[::-1]


def rows_between_zeros(x):
    """Many runs, too many for a loop each, on a ground of zeros with some ones."""
    found = doubled(list(x))
    rows = [[*found[k : k + 8], *(0.0,) * 11, 1.0] for k in range(0, SIZE, 8)]
    return [a for row in rows for a in row]


def blocks_between_constants(x):
    """Few runs and few stretches of two constants; each gets its own loop."""
    found = doubled(list(x))
    return [*found[:80], *(0.0,) * 30, *found[160:], *(0.5,) * 100, *found[80:100], *x[:20]]


def two_constants_in_turn(x):
    """The rarer constant in many stretches must not cover the one that came before it."""
    found = doubled(list(x))
    often = [*(0.5,) * 400]
    rarely = [a for k in range(0, 200, 5) for a in (*(0.25,) * 9, found[k])]
    return [*often, *rarely, *found]


def handed_on(x):
    """Arguments of a call: results out of order, inputs and constants among them."""
    found = doubled(list(x))
    return shifted([*found[1::2], 0.0, *found[::2], *(0.25,) * 20, *x[5:40]])


@pytest.mark.parametrize(
    "call",
    [
        in_order,
        backward,
        rows_between_zeros,
        blocks_between_constants,
        two_constants_in_turn,
        handed_on,
    ],
    ids=lambda call: call.__name__,
)
def test_transposed_and_copied_elements_keep_their_places(call):
    """In one case and in any number of lanes; against the interpreter, which moves nothing."""
    x = RANDOM.standard_normal((5, SIZE))
    program = trace(call, {"x": (SIZE,)})
    found = assert_same_bits(program, x)
    # products with 2 and sums with 1 are rounded the same way everywhere
    assert np.array_equal(found, interpret(program, [x]))
