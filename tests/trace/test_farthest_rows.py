"""Support points of point sets beside the code: the same in all ways of running."""

import numpy as np

from tests.tolerances import assert_close
from tiburon.native.c_source import program_c_source
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import Input, interpret, jacobian, trace
from tiburon.trace.primitives.farthest_rows import farthest_rows, slope_below
from tiburon.trace.primitives.primitive import address_of

DIRECTIONS = 5


def program():
    def look(span, directions):
        found = farthest_rows(list(span), directions.reshape(DIRECTIONS, 3))
        return [x for point in found for x in point]

    inputs = [Input("span", (3,)), Input("directions", (3 * DIRECTIONS,))]
    return trace(look, inputs, name="look")


def expected(points, first, count, directions):
    own = points[first : first + count]
    rows = first + np.argmax(directions.reshape(DIRECTIONS, 3) @ own.T, axis=1)
    return np.concatenate([points[rows], rows[:, None]], axis=1).ravel()


def test_farthest_points_are_found_on_floats_in_the_interpreter_and_in_native_code():
    """Ranges of 1 to 40 points, each case its own: cases of one vector differ in number."""
    rng = np.random.default_rng(3)
    points = rng.standard_normal((60, 3))
    spans = [(0, 1), (59, 1), (7, 40), (20, 2), (0, 33), (12, 8)]
    which = rng.integers(0, len(spans), 40)
    handles = np.array([[address_of(points), *spans[k]] for k in which])
    directions = rng.standard_normal((40, 3 * DIRECTIONS))
    answers = np.array(
        [expected(points, *spans[k], d) for k, d in zip(which, directions, strict=True)]
    )
    look = program()
    run = make_kernel(ProgramSource(look))
    assert np.array_equal(run(handles, directions), answers)
    for k in range(40):
        args = (handles[k], directions[k])
        assert np.array_equal(run(*args), answers[k])
        assert np.array_equal(interpret(look, list(args)), answers[k])
        plain = farthest_rows(tuple(args[0]), args[1].reshape(DIRECTIONS, 3))
        assert np.array_equal(np.ravel(plain), answers[k])


def test_the_first_of_equally_far_points_is_taken():
    """Four corners of a square seen from above."""
    points = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, -1.0, 0.0]])
    directions = np.tile([0.0, 0.0, 1.0], DIRECTIONS)
    found = make_kernel(ProgramSource(program()))([address_of(points), 1.0, 3.0], directions)
    assert np.array_equal(found, np.tile([1.0, -1.0, 0.0, 1.0], DIRECTIONS))


def below(span, axes):
    return list(slope_below(list(span), axes.reshape(3, 3)))


def test_the_face_below_is_that_of_the_hull_under_the_lowest_point():
    """Random points seen along random axes; each case of a vector has its own number of them."""
    rng = np.random.default_rng(5)
    points = rng.standard_normal((60, 3))
    spans = [(0, 60), (7, 20), (20, 5), (56, 4)]
    look = trace(below, [Input("span", (3,)), Input("axes", (9,))], name="below")
    run = make_kernel(ProgramSource(look))
    which = rng.integers(0, len(spans), 40)
    handles = np.array([[address_of(points), *spans[k]] for k in which])
    axes = np.linalg.qr(rng.standard_normal((40, 3, 3)))[0].transpose(0, 2, 1)
    slopes = run(handles, axes.reshape(40, 9))
    for k in range(40):
        args = (handles[k], axes[k].ravel())
        assert np.array_equal(run(*args), slopes[k])
        # without fused products
        assert_close(interpret(look, list(args)), slopes[k], 1e-11)
        assert_close(np.array(slope_below(tuple(args[0]), axes[k])), slopes[k], 1e-11)
        first, count = spans[which[k]]
        seen = points[first : first + count] @ axes[k].T
        height = seen[:, 2] - seen[:, :2] @ slopes[k]
        on_face = np.flatnonzero(height - height.min() < 1e-10)
        # a plane below all points, with three of them on it
        assert len(on_face) == 3
        assert np.argmin(seen[:, 2]) in on_face


def test_the_face_below_is_level_where_points_lie_on_it():
    """Also with more points on its edges and inside of it, by rounding above and below it."""
    rng = np.random.default_rng(6)
    flat = rng.uniform(-1.0, 1.0, (30, 3)) * [1.0, 0.7, 1e-16]
    flat[:9, :2] = np.linspace(-1.0, 1.0, 9)[:, None] * [1.0, 0.7]
    points = np.concatenate([flat, rng.uniform([-2, -2, 0.1], 2.0, (30, 3))])
    slopes = slope_below((address_of(points), 0.0, 60.0), np.eye(3))
    # heights are compared to 1e-12
    assert np.abs(slopes).max() < 1e-11


def test_points_are_constant_in_derivatives_and_c_code_exists():
    points = np.random.default_rng(2).standard_normal((9, 3))
    args = [np.array([address_of(points), 0.0, 9.0]), np.arange(3.0 * DIRECTIONS)]
    found = interpret(jacobian(program(), by="directions"), args)
    assert_close(np.asarray(found, dtype=float), np.zeros(np.shape(found)))
    assert "farthest_rows" in program_c_source(program(), name="look")
