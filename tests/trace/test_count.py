"""Operation counts of functions that can be counted by hand."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.trace.test_derivative import Bare
from tiburon.errors import TraceError, UnknownNameError
from tiburon.reproduce import chains
from tiburon.trace import OperationCount, Value, count, jacobian, trace
from tiburon.trace.count import _known_beforehand
from tiburon.trace.lower import lower


def counted(function, **shapes):
    return count(trace(function, shapes))


def test_matrix_times_vector():
    """A 3x3 product has 9 multiplications and 6 additions."""
    found = counted(lambda M, x: M @ x, M=(3, 3), x=(3,))
    assert found == OperationCount(multiplications=9, additions=6)


def test_cross_product():
    """Six multiplications, three differences."""
    found = counted(lambda a, b: np.cross(a, b), a=(3,), b=(3,))
    assert found == OperationCount(multiplications=6, additions=3)


def test_rotation_about_an_axis_costs_four_and_two():
    """Zeros and ones of the matrix cost nothing: Featherstone's 4 multiplications, 2 additions."""

    def rotate(angle, x):
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ x

    found = counted(rotate, angle=(), x=(3,))
    assert found == OperationCount(multiplications=4, additions=2, sine_cosine_pairs=1)


def test_one_angle_is_one_pair():
    """Sine and cosine of one angle count once, of another angle again, alone as a pair."""
    found = counted(lambda a: np.sin(a[0]) + np.cos(a[0]) + np.sin(a[1]), a=(2,))
    assert (found.sine_cosine_pairs, found.additions) == (2, 2)


def test_single_division_counts_as_division():
    """One division by a thing needs no reciprocal."""
    assert counted(lambda a: a[0] / a[1], a=(2,)) == OperationCount(divisions=1)


def test_divisions_by_one_value_share_its_reciprocal():
    """Three divisions by d: one reciprocal and three products."""
    found = counted(lambda a, d: a / d, a=(3,), d=())
    assert found == OperationCount(divisions=1, multiplications=3)


def test_shared_reciprocal_is_counted_once():
    """1/d beside a/d is the shared reciprocal itself."""
    found = counted(lambda a, d: [1.0 / d, a / d], a=(), d=())
    assert found == OperationCount(divisions=1, multiplications=1)


def test_negations_and_selections():
    """A sign that fits no sum is a negation; comparison and choice are selections."""
    found = counted(
        lambda a: [-a[0], np.where(a[0] < a[1], a[0], 0.0), np.minimum(a[0], a[1])], a=(2,)
    )
    assert found == OperationCount(negations=1, selections=3)


def test_other_functions_are_named():
    """Square roots have their own place, the rest goes by name."""
    found = counted(lambda a: np.sqrt(a[0]) + np.exp(a[0]) * np.exp(a[1]) + np.abs(a[1]), a=(2,))
    assert found == OperationCount(
        multiplications=1, additions=2, square_roots=1, functions={"exp": 2, "abs": 1}
    )


def test_dead_and_repeated_operations_are_not_counted():
    """What no result needs, and what is already there, costs nothing."""

    def wasteful(a):
        np.sin(a[0] * 17.0)
        return a[0] * a[1] + a[1] * a[0]

    assert counted(wasteful, a=(2,)) == OperationCount(multiplications=1, additions=1)


def test_count_equals_the_instructions_that_run():
    """Lowered code has as many divisions, and as many products and sums, fused ones as both."""
    program = jacobian(
        trace(lambda x: np.sin(x[0]) * x[1] / (x[2] + x[0]) - x[1] / x[2], {"x": (3,)}),
        values=True,
    )
    found = count(program)
    instructions = lower(program.graph, program.roots)
    ops = [instruction.op for instruction in instructions]
    fused = sum(op.startswith("fused") for op in ops)
    assert found.divisions == ops.count("div") + ops.count("reciprocal")
    assert found.additions == ops.count("add") + ops.count("sub") + fused
    # a product that several sums use is fused into each of them: the count holds it once
    assert found.multiplications <= ops.count("mul") + fused


def test_counts_add_and_multiply():
    """A sum of counts counts both; n times a count counts n repetitions."""
    one = OperationCount(multiplications=2, functions={"exp": 1})
    two = OperationCount(multiplications=3, additions=1, functions={"exp": 1, "log": 2})
    both = one + two
    assert both == OperationCount(5, 1, functions={"exp": 2, "log": 2})
    assert both * 3 == 3 * both == both + both + both
    assert one + OperationCount() == one
    assert both.total == 10


def test_counts_are_values():
    """Counts compare, hash, pickle and do not change."""
    one = OperationCount(multiplications=2, functions={"log": 1, "exp": 1})
    same = OperationCount(multiplications=2, functions={"exp": 1, "log": 1})
    assert {one, same} == {one}
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError):
        one.functions["exp"] = 5


def test_count_has_a_readable_repr():
    """Kinds that do not occur are left out."""
    found = OperationCount(2, 1, sine_cosine_pairs=1, functions={"exp": 3})
    assert str(found) == "2 multiplications, 1 additions, 1 sine cosine pairs, 3 exp"
    assert str(OperationCount()) == "no operations"


class Doubling(Bare):
    """A callee that knows its cost."""

    name = "doubling"
    key = 777

    def count(self):
        return OperationCount(additions=1)


def calls(callee):
    def function(x):
        (first,) = x.graph.call(callee, [x.node])
        (second,) = x.graph.call(callee, [first])
        return Value(x.graph, second) * x

    return trace(function, {"x": ()})


def test_every_call_of_a_function_is_counted():
    """A callee called twice costs twice what it says."""
    assert count(calls(Doubling())) == OperationCount(multiplications=1, additions=2)


def test_a_callee_without_count_is_named():
    """The error says which callee and what its class lacks."""
    with pytest.raises(TraceError, match=r"bare: has no operation count.*count\(\)"):
        count(calls(Bare()))


def test_constant_expressions_cost_nothing():
    """Constants meet each other beforehand; meeting anything else costs as usual."""

    def f(x, m, d):
        return [m * d + x, m / d, x / d, m / x, np.sqrt(m) * x]

    program = trace(f, {"x": (), "m": (), "d": ()})
    every = OperationCount(multiplications=4, additions=1, divisions=2, square_roots=1)
    assert count(program) == every
    # m d, m / d, 1 / d and the root are known: left are the sum, x (1 / d), m / x and one product
    rest = OperationCount(multiplications=2, additions=1, divisions=1)
    assert count(program, constants=("m", "d")) == rest


def test_constants_must_be_inputs():
    """A misspelled constant would silently change the count."""
    program = trace(lambda mass: mass * 2.0, {"mass": ()})
    with pytest.raises(UnknownNameError, match="did you mean 'mass'"):
        count(program, constants=("mas",))


def test_instructions_repeat_products_that_several_sums_use(monkeypatch):
    """As the page of operation counts says, for inverse dynamics of six joints."""
    taken = []
    monkeypatch.setattr(chains, "count", lambda *given: taken.append(given) or count(*given))
    counted = chains.inverse_dynamics.__wrapped__(6)
    ((program, constants),) = taken
    graph = program.graph
    places = {k for k, item in enumerate(program.inputs) if item.name in constants}
    known = _known_beforehand(graph, graph.live(program.roots), places)
    ops = [one.op for one in lower(graph, program.roots) if one.target not in known]
    fused = sum(op.startswith("fused") for op in ops)
    found = (fused + ops.count("mul"), fused + ops.count("add") + ops.count("sub"))
    page = (Path(__file__).parents[2] / "docs" / "coverage.md").read_text()
    distinct = f"{counted.multiplications} + {counted.additions} distinct operations"
    assert distinct in page
    assert f"{found[0]} + {found[1]} in its instructions" in page
    assert found[1] == counted.additions
