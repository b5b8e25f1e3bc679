"""Derivatives of graphs: against complex steps, differences, and each other."""

import numpy as np
import pytest
from hypothesis import given

from tests.tolerances import assert_close
from tests.trace.random_functions import INPUTS, REAL, SMOOTH, build, points, steps
from tiburon.errors import OptionError, TraceError
from tiburon.trace import (
    Input,
    count,
    diagnose,
    forward_derivative,
    interpret,
    jacobian,
    require,
    reverse_derivative,
    sparsity,
    trace,
)
from tiburon.trace.derivative import values_and_tangents
from tiburon.trace.differentiation import RULES, SELECTIONS
from tiburon.trace.graph import BOOL_FUNCTIONS, FLOAT_FUNCTIONS
from tiburon.trace.regions import function

# a complex step has no subtraction, so both sides carry rounding errors only; 14 steps of slopes
# below a few units
ROUND_OFF = 1e-11
# central differences with step h: error h^2/6 f''' + eps/h; h = eps^(1/3) balances them at ~4e-11,
# times third derivatives of up to some hundreds in second derivatives of random functions
STEP = np.finfo(float).eps ** (1 / 3)
DIFFERENCE = 1e-7


MODES = ("forward", "reverse")


def complex_step(function, x):
    """Return the Jacobian, exact to rounding: f(x + ih) = f + ih f', no difference is taken."""
    h = 1e-30
    columns = []
    for place in range(len(x)):
        moved = np.array(x, dtype=complex)
        moved[place] += 1j * h
        columns.append(np.imag(np.array(function(moved), dtype=complex)) / h)
    return np.stack(columns, axis=-1)


def central_difference(function, x):
    """Return the Jacobian by central differences."""
    columns = []
    for place in range(len(x)):
        moved = np.zeros(len(x))
        moved[place] = STEP
        columns.append((function(x + moved) - function(x - moved)) / (2 * STEP))
    return np.stack(columns, axis=-1)


# every operation


def test_every_operation_has_a_rule():
    """The table has an entry, of the right length, for each operation of the graph."""
    known = {*FLOAT_FUNCTIONS, *BOOL_FUNCTIONS, "where", "require"}
    assert known | {"const", "truth", "input", "capture"} == set(RULES) | SELECTIONS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_smooth_operation_equals_complex_step(name, mode):
    """Each rule, by both arguments, gives the exact derivative."""
    function = build([(name, 0, 1)])
    program = jacobian(trace(function, {"x": (INPUTS,)}), mode=mode)
    for x in points(4):
        expected = complex_step(function, x)
        np.testing.assert_allclose(interpret(program, [x]), expected, rtol=0, atol=ROUND_OFF)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(REAL))
def test_kinked_operation_equals_central_difference(name, mode):
    """Away from kinks and jumps the derivative is the ordinary one."""
    function = build([(name, 0, 1)])
    program = jacobian(trace(function, {"x": (INPUTS,)}), mode=mode)
    for x in points(4):
        expected = central_difference(lambda p: np.array(function(p), dtype=float), x)
        np.testing.assert_allclose(interpret(program, [x]), expected, rtol=0, atol=DIFFERENCE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("function", "point", "expected"),
    [
        (lambda x: np.abs(x[0]), [0.0], [0.0]),
        (lambda x: np.hypot(x[0], x[1]), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: np.sign(x[0]) * x[1], [-2.0, 3.0], [0.0, -1.0]),
        (lambda x: np.floor(x[0]) * x[1], [2.5, 3.0], [0.0, 2.0]),
        (lambda x: np.clip(x[0], -1.0, 1.0), [3.0], [0.0]),
        (lambda x: np.clip(x[0], -1.0, 1.0), [0.5], [1.0]),
        (lambda x: np.where(x[0] > 0.0, 1.0 / x[0], x[1]), [0.0, 1.0], [0.0, 1.0]),
        (lambda x: (x[0] < x[1]) * 2.0, [1.0, 2.0], [0.0, 0.0]),
        (lambda x: x[0] ** x[1], [0.0, 2.0], [0.0, 0.0]),
        (lambda x: x[0] ** x[1], [-2.0, 3.0], [12.0, np.nan]),
        (lambda x: x[0] ** 2.5, [4.0], [20.0]),
        (lambda x: np.arctan2(x[0], x[1]), [3.0, -4.0], [-4.0 / 25.0, -3.0 / 25.0]),
    ],
)
def test_derivative_at_special_points(function, point, expected, mode):
    """Kinks give the middle or one side, poles of branches not taken do no harm."""
    program = jacobian(trace(function, {"x": (len(point),)}), mode=mode)
    np.testing.assert_allclose(interpret(program, [point]), expected, rtol=1e-15)


@pytest.mark.parametrize("choose", [np.minimum, np.maximum])
def test_equal_arguments_give_the_derivative_of_one(choose):
    """At a tie the derivative is that of one argument, the same in both modes."""
    program = trace(lambda x: choose(x[0], x[1]), {"x": (2,)})
    found = [interpret(jacobian(program, mode=mode), [[1.0, 1.0]]) for mode in MODES]
    np.testing.assert_array_equal(found[0], found[1])
    assert sorted(found[0]) == [0.0, 1.0]


def sinc(x):
    """Return sin(x)/x by a series near 0, as rotations do."""
    return np.where(x * x < 1e-4, 1.0 - x * x / 6.0, np.sin(x) / x)


@pytest.mark.parametrize("mode", MODES)
def test_branch_not_taken_does_not_affect_the_derivative(mode):
    """At 0 the quotient is NaN and its slope infinite, but the series is taken."""
    program = trace(lambda x: sinc(x[0]) * x[1] + sinc(x[1]), {"x": (2,)})
    found = interpret(jacobian(program, mode=mode), [[0.0, 2.0]])
    # (cos 2)/2 - (sin 2)/4
    expected = [0.0, 1.0 + np.cos(2.0) / 2.0 - np.sin(2.0) / 4.0]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_nested_choices_take_the_derivative_of_the_branch_taken(mode):
    """Conditions combine: each of four branches, two of them poles at the point."""

    def nested(x):
        inner = np.where(x[1] > 0.0, x[0] * x[1], 1.0 / (x[0] - x[0] * x[0]))
        return np.where(x[0] > 0.5, inner, np.where(x[1] > 0.0, np.sqrt(x[0]), x[0] * 3.0))

    program = jacobian(trace(nested, {"x": (2,)}), mode=mode)
    np.testing.assert_allclose(interpret(program, [[1.0, 2.0]]), [2.0, 1.0])
    np.testing.assert_allclose(interpret(program, [[2.0, -1.0]]), [0.75, 0.0])
    np.testing.assert_allclose(interpret(program, [[0.25, 2.0]]), [1.0, 0.0])
    np.testing.assert_allclose(interpret(program, [[0.0, -1.0]]), [3.0, 0.0])


# whole functions


@given(steps(SMOOTH))
def test_jacobian_of_random_function_equals_complex_step(chosen):
    """The Jacobian is exact whatever the graph."""
    function = build(chosen)
    program = jacobian(trace(function, {"x": (INPUTS,)}))
    for x in points(2):
        expected = complex_step(function, x)
        np.testing.assert_allclose(interpret(program, [x]), expected, rtol=0, atol=ROUND_OFF)


@given(steps({**SMOOTH, **REAL}))
def test_forward_reverse_and_jacobian_agree(chosen):
    """J t, w J and J are the same derivative, with every operation in play."""
    program = trace(build(chosen), {"x": (INPUTS,)})
    x = points(1)[0]
    rng = np.random.default_rng(3)
    t, w = rng.normal(size=INPUTS), rng.normal(size=4)
    by_columns = interpret(jacobian(program, mode="forward"), [x])
    by_rows = interpret(jacobian(program, mode="reverse"), [x])
    np.testing.assert_allclose(by_rows, by_columns, rtol=0, atol=ROUND_OFF)
    along = interpret(forward_derivative(program), [x, t])
    np.testing.assert_allclose(along, by_columns @ t, rtol=0, atol=ROUND_OFF)
    against = interpret(reverse_derivative(program), [x, w])
    np.testing.assert_allclose(against, w @ by_columns, rtol=0, atol=ROUND_OFF)


@given(steps({**SMOOTH, **REAL}))
def test_entries_outside_the_pattern_are_zero(chosen):
    """The sparsity pattern misses nothing: where it says no, the entry is the constant 0."""
    program = trace(build(chosen), {"x": (INPUTS,)})
    pattern = sparsity(program)
    for mode in MODES:
        derived = jacobian(program, mode=mode)
        nodes = np.array(derived.roots).reshape(pattern.shape)
        zeros = np.array([[derived.graph.constant_of(n) == 0.0 for n in row] for row in nodes])
        assert zeros[~pattern].all()


@given(steps(SMOOTH, most=8))
def test_second_derivatives_equal_differences_of_first(chosen):
    """A derivative is a program again: differentiated twice it is the symmetric Hessian."""
    program = trace(build(chosen), {"x": (INPUTS,)})
    first = jacobian(program)
    second = jacobian(first)
    x = points(1)[0]
    found = interpret(second, [x])
    expected = central_difference(lambda p: interpret(first, [p]), x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=DIFFERENCE)
    np.testing.assert_allclose(found, np.swapaxes(found, -1, -2), rtol=0, atol=ROUND_OFF)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("values", [False, True])
def test_a_loop_over_directions_gives_the_same_jacobian(mode, values, monkeypatch):
    """Large programs call one sweep in a loop; here a small one with two inputs and outputs."""

    def function(x, y, p):
        return {"a": np.sin(x) * y[0] + p * x, "b": x[0] * y[1] ** 2}

    inputs = [Input("x", (3,)), Input("y", (2,)), Input("p", (), parameter=True)]
    program = trace(function, inputs)
    given = [np.array([0.3, -0.7, 1.1]), np.array([0.4, 1.7]), 2.5]
    for of in (None, "b"):
        plain = interpret(jacobian(program, of=of, mode=mode, values=values), given)
        with monkeypatch.context() as change:
            change.setattr("tiburon.trace.derivative.MOST_NODES", 0)
            derived = jacobian(program, of=of, mode=mode, values=values)
        looped = interpret(derived, given)
        for a, b in zip(plain, looped, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-15, atol=1e-16)


def test_hessian_as_forward_over_reverse_equals_jacobian_twice():
    """Modes mix: the direction of a gradient is a row of the Hessian."""
    program = trace(lambda x: np.sin(x[0] * x[1]) / (2.0 + x[2] * x[0]), {"x": (3,)})
    hessian = interpret(jacobian(jacobian(program)), [POINT])
    gradient = reverse_derivative(program)
    direction = forward_derivative(gradient, by="x")
    t = np.array([0.3, -0.5, 0.7])
    found = interpret(direction, [POINT, 1.0, t])
    # a dozen operations on numbers near 1
    np.testing.assert_allclose(found, hessian @ t, rtol=0, atol=1e-14)


POINT = np.array([0.4, -1.1, 0.6])


# programs


def two_link(q, v, mass):
    """Energy-like terms with two results, of which one ignores v."""
    height = np.array([np.cos(q[0]), np.cos(q[0] + q[1])])
    return {"kinetic": 0.5 * mass * (v @ v) * height[1], "height": height}


@pytest.fixture
def links():
    inputs = [Input("q", (2,)), Input("v", (2,)), Input("mass", (), parameter=True)]
    return trace(two_link, inputs)


def test_outputs_and_inputs_are_selected_by_name_or_index(links):
    """One output per pair, outputs slowest; parameters only on request."""
    every = jacobian(links)
    names = [(output.name, output.shape) for output in every.outputs]
    assert names == [
        ("dkinetic_dq", (2,)),
        ("dkinetic_dv", (2,)),
        ("dheight_dq", (2, 2)),
        ("dheight_dv", (2, 2)),
    ]
    assert every.inputs == links.inputs
    one = jacobian(links, of="kinetic", by="mass")
    assert (one.single, one.outputs[0].shape) == (True, ())
    assert jacobian(links, of=0, by=2).key == one.key
    several = jacobian(links, of=["height"], by=["v", "q"])
    assert [output.name for output in several.outputs] == ["dheight_dv", "dheight_dq"]


def test_derivative_program_can_return_values_first(links):
    """Results and derivatives in one program share their work."""
    q, v = np.array([0.3, 0.9]), np.array([1.5, -0.4])
    both = jacobian(links, of="kinetic", by="q", values=True)
    kinetic, height, slope = interpret(both, [q, v, 2.0])
    expected = interpret(links, [q, v, 2.0])
    np.testing.assert_array_equal(kinetic, expected[0])
    np.testing.assert_array_equal(height, expected[1])
    # d/dq of 0.5 m v.v cos(q0 + q1)
    assert slope == pytest.approx([-np.sin(1.2) * (v @ v)] * 2, rel=1e-15)
    assert count(both).sine_cosine_pairs == count(links).sine_cosine_pairs == 2


def test_directions_and_weights_are_extra_inputs(links):
    """Names say which input or output they belong to."""
    forward = forward_derivative(links, by="q")
    assert [item.name for item in forward.inputs] == ["q", "v", "mass", "q_tangent"]
    assert [output.name for output in forward.outputs] == ["kinetic_tangent", "height_tangent"]
    reverse = reverse_derivative(links, of="height")
    assert [item.name for item in reverse.inputs] == ["q", "v", "mass", "height_adjoint"]
    assert [output.name for output in reverse.outputs] == ["q_adjoint", "v_adjoint"]


def test_differentiation_does_not_modify_the_program(links):
    """Derivatives grow a copy: a program may be shared between threads."""
    size, key = len(links.graph), links.key
    jacobian(links)
    forward_derivative(links)
    reverse_derivative(links)
    assert (len(links.graph), links.key) == (size, key)


def test_pattern_of_a_banded_function():
    """Only neighbors depend on each other, and the cost follows the pattern."""

    def chain(x):
        return np.array([np.sin(x[k]) * x[k + 1] for k in range(19)])

    program = trace(chain, {"x": (20,)})
    pattern = sparsity(program)
    expected = np.eye(19, 20, dtype=bool) | np.eye(19, 20, k=1, dtype=bool)
    np.testing.assert_array_equal(pattern, expected)
    derived = jacobian(program)
    # one product cos(x) x' per row; the other entry is the sine itself
    assert count(derived).multiplications == 19
    assert count(derived).additions == 0


def test_auto_takes_the_cheaper_mode():
    """Many inputs and one result: reverse; one input and many results: forward."""

    def gradient_like(x):
        total = x[0]
        for k in range(1, 12):
            total = np.sin(total) * x[k]
        return total

    def curve_like(t):
        return np.array([np.sin(k * t) * np.exp(t) for k in range(1, 12)])

    narrow = trace(gradient_like, {"x": (12,)})
    wide = trace(curve_like, {"t": ()})
    for program, best in ((narrow, "reverse"), (wide, "forward")):
        assert jacobian(program).key == jacobian(program, mode=best).key
    assert count(jacobian(narrow)).total < count(jacobian(narrow, mode="forward")).total


def test_few_directions_through_a_long_callee_are_derived_forward():
    """Whatever the number of arguments: a sweep per direction, not one per result."""

    @function
    def long(x):
        for _ in range(20):
            x = [np.sin(a) * b for a, b in zip(x, [*x[1:], x[0]], strict=True)]
        return x[:12]

    def results(x):
        return [np.sin(np.sin(np.sin(y))) for y in long(x)]

    def call(given):
        # the third argument changes, or all of them
        return results(given), [[float(k == 2) for k in range(30)], [1.0] * 30]

    x = np.linspace(0.5, 1.5, 30)
    program = trace(lambda x: np.array(values_and_tangents(call, list(x))[1], like=x), {"x": (30,)})
    values = trace(lambda x: np.array(results(list(x)), like=x), {"x": (30,)})
    # in two directions: a cosine, products and a sum for each sine and product
    assert count(program).total < 10 * count(values).total
    found = interpret(program, {"x": x})
    for tangents, direction in zip(found, call(list(x))[1], strict=True):
        ends = [interpret(values, {"x": x + s * STEP * np.array(direction)}) for s in (1.0, -1.0)]
        assert_close(tangents, (ends[0] - ends[1]) / (2.0 * STEP), DIFFERENCE)


def test_the_derivative_shares_nodes_with_the_values():
    """The rate of sin(x) y / z needs the sine, cosine and reciprocal once."""
    program = trace(lambda x, y, z: np.sin(x) * y / z, {"x": (), "y": (), "z": ()})
    total = count(jacobian(program, values=True))
    assert total.sine_cosine_pairs == 1
    assert total.divisions == 1


def test_a_failed_requirement_shows_in_the_derivative():
    """The derivative of a requirement is required too, and says the same."""
    program = trace(lambda x: 2.0 * require(x > 0.0, x, "a positive number"), {"x": ()})
    for mode in MODES:
        derived = jacobian(program, mode=mode)
        assert interpret(derived, [3.0]) == 2.0
        assert diagnose(derived, [-3.0]).message == "a positive number"


def test_unknown_options_raise_an_error(links):
    """Wrong names list the right ones."""
    with pytest.raises(TraceError, match="no input 'w'; it has q, v, mass"):
        jacobian(links, by="w")
    with pytest.raises(TraceError, match="no output 7; it has kinetic, height"):
        jacobian(links, of=7)
    with pytest.raises(OptionError, match="mode: expected 'auto' or 'forward' or 'reverse'"):
        jacobian(links, mode="sideways")


class Bare:
    """A callee without derivative, count or body."""

    name = "bare"
    key = 12345
    argument_count = 1
    result_count = 1

    def evaluate(self, arguments):
        return [arguments[0] * 2.0]


class Cube(Bare):
    """A callee x -> x^3 with derivative rules."""

    name = "cube"
    key = 12346

    def evaluate(self, arguments):
        return [arguments[0] ** 3]

    def _slope(self, graph, args):
        return graph.mul(graph.const(3.0), graph.mul(args[0], args[0]))

    def tangent(self, graph, args, results, tangents):
        return [graph.mul(self._slope(graph, args), tangents[0])]

    def adjoint(self, graph, args, results, adjoints):
        return [graph.mul(self._slope(graph, args), adjoints[0])]


def calling(callee):
    def function(x):
        from tiburon.trace import Value

        (node,) = x.graph.call(callee, [(x * 2.0).node])
        return Value(x.graph, node) + x

    return trace(function, {"x": ()})


@pytest.mark.parametrize("mode", MODES)
def test_callee_defines_its_derivative_rule(mode):
    """d/dx of (2x)^3 + x at x = 0.5 is 24 x^2 + 1 = 7; twice: 48 x = 24."""
    first = jacobian(calling(Cube()), mode=mode)
    assert interpret(first, [0.5]) == 7.0
    assert interpret(jacobian(first, mode=mode), [0.5]) == 24.0


@pytest.mark.parametrize("mode", MODES)
def test_callee_without_derivative_rule_raises(mode):
    """The error says which callee and what its class lacks."""
    with pytest.raises(TraceError, match=r"bare: has no derivative rule.*tangent\(\)") as caught:
        jacobian(calling(Bare()), mode=mode)
    assert caught.value.function == "bare"
