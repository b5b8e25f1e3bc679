"""Derivatives of contact impulses: central differences of the solver itself."""

import numpy as np
import pytest

from tests.contact.test_friction_solver import TOLERANCE, Problem
from tests.native.lanes import LANES, run_lanes, run_one
from tiburon.errors import TraceError
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import forward_derivative, jacobian, reverse_derivative
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.friction_derivative import FrictionResponse
from tiburon.trace.program import Input, trace

STEP = 1e-6
"""Of central differences; the solver stops at 12 digits, so that errors are about 1e-6."""


def program_of(problem):
    """Return the solver as a program of all its arguments but the start of the sweeps."""
    solver = problem.primitive
    n = 3 * problem.contacts

    def run(given):
        found = solver.apply([*given.tolist()] + [0.0] * n + [TOLERANCE])
        return {
            "p": as_traced(found[:n]),
            "y": as_traced(found[n : n + problem.columns]),
            "alpha": as_traced(found[n + problem.columns : -3]),
        }

    return trace(run, [Input("x", (solver.argument_count - n - 1,))], name="impulses")


def differences(problem, x, direction):
    """Return central differences of p, y and alpha along a direction, and whether modes stay."""
    n = 3 * problem.contacts
    moved = [x + sign * STEP * direction for sign in (1.0, -1.0)]
    sides = [np.array(problem.primitive.apply([*at, *[0.0] * n, TOLERANCE])[:-3]) for at in moved]
    open_now = [
        side[2:n:3] <= at[-problem.contacts :] for side, at in zip(sides, moved, strict=True)
    ]
    slides = [side[n + problem.columns :] > 0 for side in sides]
    same = all(np.array_equal(*pair) for pair in (open_now, slides))
    return (sides[0] - sides[1]) / (2 * STEP), same


def problems():
    """Yield problems with points that are open, stick and slide, some with a least impulse."""
    for seed in range(8):
        problem = Problem(seed, contacts=2 + seed % 3, columns=14)
        problem.mu[0] = 5.0 if seed % 2 else problem.mu[0]
        if seed % 3 == 0:
            p, _, _ = problem.solve()
            problem.least = np.where(p[2::3] > 0, 1.7 * p[2::3], 0.0)
            problem.least[-1] = 0.0
        if seed in (2, 5):
            problem.mu[:2] = 0.0
        yield seed, problem


@pytest.mark.parametrize(("seed", "problem"), list(problems()))
def test_tangents_equal_central_differences(seed, problem):
    """The implicit function theorem against differences of solved problems, in all modes."""
    program = program_of(problem)
    x = np.array(problem.arguments[: -3 * problem.contacts - 1])
    derivative = forward_derivative(program)
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=x.shape)
    # friction and least impulses that are absent have one-sided derivatives only
    at_mu = len(x) - 2 * problem.contacts
    direction[at_mu:][x[at_mu:] == 0.0] = 0.0
    found = interpret(derivative, {"x": x, "x_tangent": direction})
    expected, same = differences(problem, x, direction)
    assert same
    got = np.concatenate(found)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(got, expected, atol=3e-5 * scale, rtol=0)


def test_problems_have_all_modes():
    """The problems above contain every mode, so that each rule is seen."""
    modes = set()
    for _, problem in problems():
        p, _, found = problem.solve()
        alpha = np.array(found[-3 - problem.contacts : -3])
        for k in range(problem.contacts):
            normal, least = p[3 * k + 2], problem.least[k]
            kind = "touches" if normal > least else "least" if least > 0 else "open"
            slides = "smooth" if problem.mu[k] == 0 else "slides" if alpha[k] > 0 else "sticks"
            modes.add(kind if kind == "open" else (kind, slides))
    assert modes >= {
        "open",
        ("touches", "sticks"),
        ("touches", "slides"),
        ("least", "sticks"),
        ("least", "slides"),
        ("touches", "smooth"),
    }


@pytest.mark.parametrize("seed", [0, 3])
def test_adjoint_is_the_transposed_tangent(seed):
    """Both modes give one Jacobian, to rounding."""
    problem = dict(problems())[seed]
    program = program_of(problem)
    x = np.array(problem.arguments[: -3 * problem.contacts - 1])
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=x.shape)
    forward = interpret(forward_derivative(program), {"x": x, "x_tangent": direction})
    weights = [rng.normal(size=part.shape) for part in forward]
    back = interpret(reverse_derivative(program), [x, *weights])
    left = sum(np.dot(a, b) for a, b in zip(weights, forward, strict=True))
    assert np.dot(np.asarray(back), direction) == pytest.approx(left, rel=1e-10)


def test_indeterminate_impulses_have_determinate_velocities():
    """Four corners of a block stick: dy follows differences, though dp need not."""
    corners = [(x, y, -0.1) for x in (0.3, -0.3) for y in (0.2, -0.2)]
    problem = Problem(0, contacts=4, columns=6)
    problem.supports = [list(range(6))] * 4
    rows = []
    for c in corners:
        for axis in np.eye(3):
            rows.append([*np.cross(c, axis), *axis])
    problem.A = np.array(rows)
    v = np.array([0.01, -0.02, 0.03, 0.02, 0.01, -1.0])
    problem.b = problem.A @ v
    problem.mu = np.full(4, 0.9)
    program = program_of(problem)
    x = np.array(problem.arguments[:-13])
    direction = np.zeros_like(x)
    # a change of the motion, which all corners see: the problem stays consistent
    direction[72:84] = problem.A @ np.array([0.3, -0.2, 0.5, 0.1, 0.7, -0.4])
    dp, dy, _ = interpret(forward_derivative(program), {"x": x, "x_tangent": direction})
    expected, same = differences(problem, x, direction)
    assert same
    np.testing.assert_allclose(dy, expected[12:18], atol=1e-5)
    assert np.all(np.isfinite(dp))
    np.testing.assert_allclose(problem.A.T @ dp, dy, atol=1e-9)


def test_response_equals_single_tangents():
    """The matrices that share a factorization agree with the rule for one direction."""
    problem = dict(problems())[3]
    solver, n, size = problem.primitive, 3 * problem.contacts, problem.columns
    x = problem.arguments[: -n - 1]
    found = solver.apply([*x, *[0.0] * n, TOLERANCE])[:-3]
    rng = np.random.default_rng(1)
    r, least = rng.normal(size=n), rng.normal(size=problem.contacts)
    flat = np.array(FrictionResponse(size, problem.supports).apply([*x, *found]))
    by_b, by_least = flat[: n * n].reshape(n, n), flat[n * n :].reshape(n, -1)
    direction = np.zeros(len(x))
    direction[-5 * problem.contacts : -2 * problem.contacts] = r
    direction[-problem.contacts :] = least
    derivative = forward_derivative(program_of(problem), of="p")
    one = interpret(derivative, {"x": np.array(x), "x_tangent": direction})
    np.testing.assert_allclose(by_b @ r + by_least @ least, one, rtol=1e-12, atol=1e-12)


def test_lanes_agree_in_bits():
    """Cases in different modes share the lanes of a vector without a trace."""
    problem = Problem(3, contacts=3, columns=9)
    program = jacobian(program_of(problem), of="y", mode="reverse")
    rng = np.random.default_rng(4)
    x = np.array(problem.arguments[:-10]) * rng.uniform(0.7, 1.3, size=(11, 1))
    x[:, -15:-6] += rng.normal(size=(11, 9))
    single = run_one(program, x)
    assert np.isfinite(single).all()
    for lanes in LANES:
        assert np.array_equal(run_lanes(program, x, lanes), single)


def test_second_derivatives_are_refused():
    """There is no silent zero."""
    problem = Problem(0, contacts=2, columns=6)
    once = forward_derivative(program_of(problem), of="y")
    with pytest.raises(TraceError, match="differentiate once"):
        forward_derivative(once, by="x")
