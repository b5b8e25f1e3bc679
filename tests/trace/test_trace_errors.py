"""What cannot be traced is refused by name, with the cure."""

import math

import numpy as np
import pytest

from tiburon.errors import DomainError, TraceError
from tiburon.trace import Input, require, trace

KEPT = []


def _leak(a):
    KEPT.append(a[0])
    return a


REFUSED = {
    "if": (lambda a: a if a[0] > 0.0 else -a, "bool", ["numpy.where", "while_loop"]),
    "and": (lambda a: a * (a[0] > 0.0 and a[1] > 0.0), "bool", ["&"]),
    "not": (lambda a: a * (not a[0]), "bool", ["~"]),
    "while": (lambda a: next(x for x in a if x > 1.0), "bool", ["while_loop"]),
    "chained comparison": (lambda a: a * (0.0 < a[0] < 1.0), "bool", ["&"]),
    "float": (lambda a: math.sin(a[0]), "float", ["NumPy functions"]),
    "int": (lambda a: a[: int(a[0])], "int", ["numpy.floor"]),
    "range": (lambda a: [0.0 for _ in range(a[0])], "indexing", ["numpy.where"]),
    "shape": (lambda a: np.zeros(a[0]), "indexing", ["numpy.where"]),
    "shape like": (lambda a: np.full(a[0], 1.0, like=a), "indexing", ["numpy.where"]),
    "new shape": (lambda a: a.reshape(a[0], 1), "indexing", ["numpy.where"]),
    "repeats": (lambda a: np.repeat(a, a[0]), "numpy.repeat", ["numpy.where"]),
    "traced index": (lambda a: a[a[0]], "indexing", ["numpy.where"]),
    "traced mask": (lambda a: a[a > 0.0], "indexing", ["numpy.where"]),
    "assignment by mask": (lambda a: a.__setitem__(a > 0.0, 1.0), "indexing", ["numpy.where"]),
    "len": (lambda a: len(a[0]), "len", ["one number"]),
    "iteration": (lambda a: list(a[0]), "iteration", ["one number"]),
    "where without choices": (lambda a: np.where(a > 0.0), "numpy.where", ["condition, a, b"]),
    "unsupported elementwise": (lambda a: np.cbrt(a), "numpy.cbrt", ["elementwise"]),
    "unsupported method": (lambda a: np.add.at(a, 0, 1.0), "numpy.add.at", ["elementwise"]),
    "solve": (lambda a: np.linalg.solve(np.diag(a), a), "numpy.linalg.solve", ["solve_spd"]),
    "inverse": (lambda a: np.linalg.inv(np.diag(a)), "numpy.linalg.inv", ["primitives"]),
    "other norm": (lambda a: np.linalg.norm(a, ord=1), "numpy.linalg.norm", ["Euclidean"]),
    "sort": (lambda a: np.sort(a), "numpy.sort", ["elementwise"]),
    "argmax": (lambda a: np.argmax(a), "numpy.argmax", ["elementwise"]),
    "nonzero": (lambda a: np.nonzero(a), "numpy.nonzero", ["elementwise"]),
    "write into floats": (lambda a: np.add(a, 1.0, out=np.zeros(3)), "numpy.add", ["like="]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_untraceable_code_raises_an_error_with_advice(case):
    """The error carries the function's name and the message says what to write instead."""
    function, name, cures = REFUSED[case]
    with pytest.raises(TraceError) as caught:
        trace(function, {"a": (3,)})
    assert caught.value.function == name
    assert name in str(caught.value) or name == "bool"
    for cure in cures:
        assert cure in str(caught.value)


def test_the_traced_function_is_named():
    """Among several functions in one kernel, a reader must know which one to look at."""

    def swing(a):
        return a if a[0] > 0.0 else -a

    with pytest.raises(TraceError) as caught:
        trace(swing, {"a": (3,)})
    assert caught.value.__notes__ == ["while tracing swing"]


def test_branch_on_a_traced_value_is_explained():
    """Python only reports bool(); the message names the statements that call it."""
    with pytest.raises(TraceError, match=r"`if`, `while`, `and`, `or`, `not`"):
        trace(lambda a: 1.0 if a[0] > 0.0 else 2.0, {"a": (1,)})


def test_branches_on_constants_are_traced():
    """What folds to a constant may steer Python: the zero pattern of a model is known."""
    program = trace(lambda a: a if a[0] - a[0] == 0.0 else -a, {"a": (2,)})
    assert [program.graph.ops[node] for node in program.roots] == ["input", "input"]
    assert float(trace(lambda a: a[0] * 0.0 + 2.0, {"a": (1,)}).graph.payloads[-1]) == 2.0


def test_a_value_of_another_trace_is_refused():
    """A value kept from an earlier trace must not slip into a later one."""
    KEPT.clear()
    trace(_leak, {"a": (2,)})
    with pytest.raises(TraceError, match="two different traces"):
        trace(lambda a: a + KEPT[0], {"a": (2,)})
    with pytest.raises(TraceError, match="outside the function or region"):
        trace(lambda a: KEPT[0], {"a": (2,)})


def test_non_numeric_result_is_refused():
    """Returning text or nothing says what may be returned."""
    with pytest.raises(TraceError, match="returned str; it must return numbers"):
        trace(lambda a: "done", {"a": (2,)})
    with pytest.raises(TraceError, match="returned NoneType"):
        trace(lambda a: None, {"a": (2,)})


def test_arithmetic_with_other_types_is_a_type_error():
    """Python's own message appears for text and the like."""
    with pytest.raises(TypeError, match="unsupported operand"):
        trace(lambda a: a[0] + "text", {"a": (2,)})


def test_require_on_floats_raises_at_once():
    """A requirement that is known to fail is a DomainError with the message."""
    assert require(True, 2.0, "a positive number") == 2.0
    with pytest.raises(DomainError, match=r"expected a positive number, got -1\.0"):
        require(False, -1.0, "a positive number")


def test_inputs_may_be_records():
    """Parameters and descriptions travel with the program."""
    inputs = [Input("q", (2,), described="2 joints"), Input("mass", (), parameter=True)]
    program = trace(lambda q, mass: q * mass, inputs)
    assert program.inputs == tuple(inputs)
    assert [item.size for item in program.inputs] == [2, 1]


def test_results_come_as_one_array_a_tuple_or_a_dict():
    """One array is single; tuples and dicts name their parts."""
    inputs = {"a": (2,)}
    one = trace(lambda a: a, inputs)
    pair = trace(lambda a: (a, a[0]), inputs)
    named = trace(lambda a: {"x": a, "y": a[0]}, inputs)
    assert (one.single, pair.single, named.single) == (True, False, False)
    assert [output.name for output in pair.outputs] == ["result0", "result1"]
    assert [(output.name, output.shape) for output in named.outputs] == [("x", (2,)), ("y", ())]


def test_program_keys_distinguish_programs():
    """The key changes with shapes, parameters and the graph, not with the name."""

    def double(a):
        return 2.0 * a

    base = trace(double, {"a": (2,)})
    assert trace(double, {"a": (2,)}, name="other").key == base.key
    assert trace(double, {"a": (3,)}).key != base.key
    assert trace(double, [Input("a", (2,), parameter=True)]).key != base.key
    assert trace(lambda a: 3.0 * a, {"a": (2,)}).key != base.key
    assert trace(lambda a: (2.0 * a,), {"a": (2,)}).key != base.key
