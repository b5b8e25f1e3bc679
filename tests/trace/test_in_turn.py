"""One function in turn for several sets of arguments: values, sharing, code size, derivatives."""

import numpy as np
import pytest

from tests.tolerances import ALGEBRA, assert_close
from tiburon.errors import TraceError
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.module import write_module
from tiburon.trace import count, diagnose, interpret, jacobian, require, trace
from tiburon.trace.digest import program_digest
from tiburon.trace.regions import where_needed
from tiburon.trace.regions.in_turn import CallsInTurn, in_turn

RANDOM = np.random.default_rng(8)


def calls(program):
    """Regions that a program calls."""
    graph = program.graph
    return [graph.payloads[n] for n in graph.live(program.roots) if graph.ops[n] == "call"]


def met(a, b, weight):
    """A result of two points, only computed where they are near."""
    apart = [x - y for x, y in zip(a, b, strict=True)]
    square = sum(x * x for x in apart)
    moved = lambda: (weight / (1.0 + square), [np.sin(x) * weight for x in apart])  # noqa: E731
    return where_needed(square < 4.0, moved, (0.0, [0.0, 0.0]))


def pairs_of(x, size):
    """All pairs of some points of the plane, each with a weight of its own."""
    points = [(x[2 * k], x[2 * k + 1]) for k in range(size)]
    return [
        (points[i], points[j], 0.5 + i + 2.0 * j) for i in range(size) for j in range(i + 1, size)
    ]


def all_met(x, size=4, each=in_turn):
    """Results of all pairs, times a value that the function reads from around it."""
    outer = x[0] * x[1]

    def one(a, b, weight):
        first, rest = met(a, b, weight)
        return first * outer, rest

    found = each(one, pairs_of(x, size))
    return np.array([value for first, rest in found for value in (first, *rest)], like=x)


def separately(call, arguments):
    """Call a function for each set."""
    return [call(*given) for given in arguments]


@pytest.mark.parametrize("compiled", [False, True])
def test_values_are_those_of_separate_calls(compiled):
    """On floats, interpreted, compiled; batches too, in which some cases of a vector are near."""
    x = RANDOM.normal(size=(13, 8))
    expected = [all_met(row, each=separately) for row in x]
    if compiled:
        kernel = make_kernel(ProgramSource(trace(all_met, {"x": (8,)})))
        assert_close(np.array([kernel(row) for row in x]), expected, ALGEBRA)
        assert_close(kernel(x), expected, ALGEBRA)
        return
    assert_close(interpret(trace(all_met, {"x": (8,)}), [x]), expected, ALGEBRA)


def test_what_calls_share_is_passed_once():
    """Four points of six pairs, and a weight of each pair."""
    program = trace(all_met, {"x": (8,)})
    (region,) = calls(program)
    assert isinstance(region, CallsInTurn)
    # the last point is no first one, and the first no second one
    assert (region.calls, region.shared) == (6, 1)
    assert region.size == 2 * 3 + 2 * 3 + 6
    alone = trace(lambda x: met((x[0], x[1]), (x[2], x[3]), x[4])[1][0], {"x": (5,)})
    assert count(program).divisions == 6 * count(alone).divisions


def test_code_does_not_grow_with_calls():
    """Of 15 and of 120 pairs: the arrays and tables do, instructions move what is passed."""
    lines = []
    for size in (6, 16):
        program = trace(lambda x, size=size: all_met(x, size)[:3], {"x": (2 * size,)})
        for part in ("one", "many"):
            lines.append(write_module(program, part)[0].count("\n"))
    assert lines[2] < 1.5 * lines[0]
    assert lines[3] < 1.5 * lines[1]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_derivatives_are_those_of_separate_calls(mode):
    """Of results that are all different functions of the points."""
    x = RANDOM.normal(size=8)
    plain, looped = (
        jacobian(trace(lambda x, each=each: all_met(x, each=each), {"x": (8,)}), mode=mode)
        for each in (separately, in_turn)
    )
    found = interpret(looped, [x])
    assert_close(found, interpret(plain, [x]), ALGEBRA)
    assert np.abs(found).max() > 0.1


def test_sets_of_another_structure_are_refused():
    """The set is named."""
    with pytest.raises(TraceError, match="set 1 of the arguments of met"):
        trace(
            lambda x: in_turn(met, [((x[0],), (x[1],), 1.0), ((x[0], x[1]), (x[1],), 1.0)])[0][0],
            {"x": (3,)},
        )


def test_digest_depends_on_the_number_of_calls_and_on_what_is_shared():
    """Machine code differs."""

    def program(sets):
        def f(x):
            found = in_turn(lambda a, b: a * b + 1.0, [(x[i], x[j]) for i, j in sets])
            return np.array([found[0], found[1]], like=x)

        return program_digest(trace(f, {"x": (3,)}))

    sets = [(0, 1), (1, 2)], [(0, 1), (1, 0)], [(0, 1), (1, 2), (2, 0)]
    assert len({program(s) for s in sets}) == 3
    assert program(sets[0]) == program(sets[0])


def test_a_failed_requirement_in_one_call_is_reported():
    """Of the second call, with its value."""

    def safe(a):
        return 1.0 / require(a > 0.0, a, "a positive number")

    program = trace(lambda x: np.array(in_turn(safe, [(x[0],), (x[1],)]), like=x), {"x": (2,)})
    assert diagnose(program, [[1.0, 2.0]]) is None
    found = diagnose(program, [[1.0, -2.0]])
    assert (found.kind, found.message) == ("requirement", "a positive number")
    assert found.values == pytest.approx((-2.0,))


def test_constants_and_passed_values_need_no_call():
    """As for functions."""
    call = lambda a, b: (a, 2.0, a * b)  # noqa: E731
    constant = trace(
        lambda x: np.array([r[2] for r in in_turn(call, [(2.0, 3.0), (4.0, 5.0)])], like=x),
        {"x": (1,)},
    )
    assert_close(interpret(constant, [[0.0]]), [6.0, 20.0], ALGEBRA)
    passed = trace(
        lambda x: np.array(
            [y for r in in_turn(call, [(x[0], 3.0), (x[1], 5.0)]) for y in r[:2]], like=x
        ),
        {"x": (2,)},
    )
    assert calls(passed) == []
    assert_close(interpret(passed, [[1.0, 4.0]]), [1.0, 2.0, 4.0, 2.0], ALGEBRA)
