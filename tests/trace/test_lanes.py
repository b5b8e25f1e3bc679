"""One function for several sets of arguments: values, sharing, folding, counts, faults."""

import numpy as np
import pytest

from tests.tolerances import ALGEBRA, assert_close
from tiburon.errors import TraceError
from tiburon.trace import count, diagnose, dump, interpret, lanes, require, trace
from tiburon.trace.digest import program_digest
from tiburon.trace.regions.lanes import LanesRegion

RANDOM = np.random.default_rng(8)


def calls(program):
    """Regions that a program calls."""
    graph = program.graph
    return [graph.payloads[n] for n in graph.live(program.roots) if graph.ops[n] == "call"]


def turned(x, by):
    """Turn a vector in a plane, and give its products."""
    c, s = np.cos(by), np.sin(by)
    return {"v": (c * x[0] - s * x[1], s * x[0] + c * x[1]), "p": x[0] * x[1]}


def three(x):
    """Three calls with angles of their own."""
    found = lanes(turned, [((x[k], x[k + 1]), 0.2 * (k + 1.0)) for k in range(3)])
    return np.array([value for f in found for value in (*f["v"], f["p"])], like=x)


def test_values_are_those_of_separate_calls():
    """On floats and on the traced graph; batches too."""
    x = RANDOM.normal(size=(5, 4))
    program = trace(three, {"x": (4,)})
    expected = [
        [
            value
            for k in range(3)
            for value in (lambda f: (*f["v"], f["p"]))(turned(row[k:], 0.2 * (k + 1.0)))
        ]
        for row in x
    ]
    assert_close(np.array([three(row) for row in x]), expected, ALGEBRA)
    assert_close(interpret(program, [x]), expected, ALGEBRA)


def test_all_calls_are_one_region_whose_operations_count_for_each():
    """Three times the operations of one call, and one body in the dump."""
    program = trace(three, {"x": (4,)})
    (region,) = calls(program)
    assert isinstance(region, LanesRegion)
    assert (region.calls, region.result_count) == (3, 9)
    alone = trace(lambda x, by: turned(x, by)["v"] + (turned(x, by)["p"],), {"x": (2,), "by": ()})
    assert count(program) == count(alone) * 3
    assert dump(program).count("region turned") == 1


def test_arguments_that_all_calls_share_are_passed_once_and_constants_fold():
    """A shared zero removes what it multiplies; products of shared values are computed outside."""

    def f(x):
        outside = x[0] * x[1]
        call = lambda a, zero, shared: a * a + zero * np.exp(a) + shared * outside  # noqa: E731
        return np.array(lanes(call, [(x[k], 0.0, x[2]) for k in range(3)]), like=x)

    program = trace(f, {"x": (3,)})
    (region,) = calls(program)
    assert region.shared == 1
    assert region.argument_count == 1 + 3
    assert count(program).multiplications == 3 + 2
    assert "exp" not in dump(program)


def test_no_call_is_made_for_constants_equal_sets_and_passed_values():
    """As for functions; one set of arguments is called directly."""
    call = lambda a, b: (a, 2.0, a * b)  # noqa: E731
    constant = trace(
        lambda x: np.array([r[2] for r in lanes(call, [(2.0, 3.0), (4.0, 5.0)])], like=x),
        {"x": (1,)},
    )
    assert calls(constant) == []
    assert_close(interpret(constant, [[0.0]]), [6.0, 20.0], ALGEBRA)
    passed = trace(
        lambda x: np.array(
            [y for r in lanes(call, [(x[0], 3.0), (x[1], 5.0)]) for y in r[:2]], like=x
        ),
        {"x": (2,)},
    )
    assert calls(passed) == []
    equal = trace(
        lambda x: np.array([r[2] for r in lanes(call, [(x[0], x[1])] * 2)], like=x), {"x": (2,)}
    )
    assert calls(equal) == []
    assert_close(interpret(equal, [[2.0, 3.0]]), [6.0, 6.0], ALGEBRA)
    single = trace(lambda x: lanes(call, [(x[0], x[1])])[0][2], {"x": (2,)})
    assert calls(single) == []
    assert lanes(call, []) == []


def test_sets_of_another_structure_are_refused():
    """The set is named."""
    with pytest.raises(TraceError, match="set 1 of the arguments of turned"):
        trace(
            lambda x: lanes(turned, [((x[0], x[1]), 0.1), ((x[0], x[1], x[2]), 0.2)])[0]["p"],
            {"x": (3,)},
        )


def test_digest_depends_on_the_number_of_calls_and_on_what_is_shared():
    """Machine code differs."""

    def program(sets):
        def f(x):
            found = lanes(lambda a, b: a * b + 1.0, [(x[i], x[j]) for i, j in sets])
            return np.array([found[0], found[1]], like=x)

        return program_digest(trace(f, {"x": (3,)}))

    digests = [program(s) for s in ([(0, 1), (1, 2)], [(0, 1), (1, 1)], [(0, 1), (1, 2), (2, 0)])]
    assert len(set(digests)) == 3
    assert program([(0, 1), (1, 2)]) == digests[0]


def test_a_failed_requirement_in_one_call_is_reported():
    """Of the second call, with its value."""

    def safe(a):
        return 1.0 / require(a > 0.0, a, "a positive number")

    program = trace(lambda x: np.array(lanes(safe, [(x[0],), (x[1],)]), like=x), {"x": (2,)})
    assert diagnose(program, [[1.0, 2.0]]) is None
    found = diagnose(program, [[1.0, -2.0]])
    assert (found.kind, found.message) == ("requirement", "a positive number")
    assert found.values == pytest.approx((-2.0,))
