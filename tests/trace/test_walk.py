"""The visitor of exporters: functions, loops and primitives expanded into any tool's operations."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.native.kernel import kernel_of
from tiburon.trace import Backend, interpret, trace, walk
from tiburon.trace.interpret import _UFUNCS
from tiburon.trace.regions import fixed_loop, function, where_needed, while_loop


class Floats(Backend):
    """Plain floats, operation by operation; counts them."""

    def __init__(self):
        self.count = 0

    def operation(self, op, args):
        self.count += 1
        with np.errstate(all="ignore"):
            return _UFUNCS[op](*args)


def walked(program, arrays):
    backend = Floats()
    found = walk(program, backend, [np.ravel(array).tolist() for array in arrays])
    return backend.count, [
        np.reshape(values, output.shape)
        for values, output in zip(found, program.outputs, strict=True)
    ]


@pytest.mark.parametrize("name", ["panda", "quadruped", "four_bar", "planar_3rrr"])
def test_a_walk_computes_what_the_interpreter_does(name):
    """Robots with closed loops call factorizations, branches of trees lanes: all are expanded."""
    model = tb.load(name)
    kernel = kernel_of(tb.compile(tb.forward_dynamics, model))
    program = kernel.program()
    q = tb.assemble(model).q if model.loops else model.neutral()
    v, tau = np.random.default_rng(0).standard_normal((2, model.nv))
    v = 0.1 * v if model.loops else v
    arrays = [{"q": q, "v": v, "tau": tau, **kernel.parameters}[i.name] for i in program.inputs]
    count, (found,) = walked(program, arrays)
    expected = interpret(program, arrays)
    assert count > 100
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)


def test_functions_and_loops_are_expanded():
    @function
    def inner(a, b):
        return a * b + np.sin(a)

    def run(x, y):
        total = fixed_loop(5, lambda k, s: (s[0] + inner(s[0], y) / (1.0 + k),), (x,))[0]
        root = while_loop(lambda s: np.abs(s[0] * s[0] - y) > 1e-9, _newton(y), (y,), 30)
        rare = where_needed(x > 0.0, lambda: np.exp(x), y)
        return [total, root.state[0], root.count, rare]

    program = trace(run, {"x": (), "y": ()})
    for x, y in ((0.3, 2.0), (-0.4, 7.0)):
        _, (found,) = walked(program, [x, y])
        np.testing.assert_allclose(found, interpret(program, [x, y]), rtol=1e-13)
        np.testing.assert_allclose(found[1], np.sqrt(y), rtol=1e-9)


def _newton(y):
    return lambda s: (0.5 * (s[0] + y / s[0]),)


def test_expressions_may_be_text():
    class Text(Backend):
        def operation(self, op, args):
            return f"{op}({', '.join(map(str, args))})"

    program = trace(lambda x: 2.0 * np.cos(x[0]) + x[1], {"x": (2,)})
    ((text,),) = walk(program, Text(), [["a", "b"]])
    assert text == "add(b, mul(cos(a), 2.0))"


def test_wrong_sizes_and_endless_loops_are_refused():
    program = trace(lambda x: x[0] + x[1], {"x": (2,)})
    with pytest.raises(tb.ShapeError, match="x: 2"):
        walk(program, Floats(), [[1.0]])
    loop = trace(
        lambda y: while_loop(lambda s: s[0] > 1.0, lambda s: (0.5 * s[0],), (y,), 1000).state[0],
        {"y": ()},
    )
    with pytest.raises(tb.TraceError, match="cannot be written as an expression"):
        walk(loop, Floats(), [[3.0]])


def test_other_programs_and_backends_are_refused_by_name():
    program = trace(lambda x: 2.0 * x, {"x": ()})
    with pytest.raises(tb.ArgumentError, match="program must be a Program"):
        walk(tb.compile(tb.mass_matrix, tb.load("pendulum")), Floats(), [[1.0]])
    with pytest.raises(tb.ArgumentError, match="backend must be a Backend"):
        walk(program, None, [[1.0]])
