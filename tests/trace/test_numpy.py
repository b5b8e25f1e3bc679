"""NumPy on traced values: every supported function means what it means on floats."""

import re
from pathlib import Path

import numpy as np
import pytest

import tiburon.trace
from tiburon.trace import array, interpret, trace
from tiburon.trace import array as traced_array

A = np.array([0.3, -0.7, 0.45])
B = np.array([-0.2, 0.6, 0.9])
M = np.array([[0.4, -1.2, 0.8], [1.5, 0.2, -0.3], [0.7, -0.9, 1.1]])

# numpy function -> the call to compare, on vectors a, b (3,) and a matrix M (3, 3)
ELEMENTWISE = {
    np.add: lambda a, b, M: a + b + 2.0,
    np.subtract: lambda a, b, M: 1.0 - a - b,
    np.multiply: lambda a, b, M: a * b * 3,
    np.true_divide: lambda a, b, M: a / b + 1.0 / a,
    np.negative: lambda a, b, M: -a,
    np.positive: lambda a, b, M: +a,
    np.power: lambda a, b, M: (a * a) ** b,
    np.float_power: lambda a, b, M: np.float_power(a * a, 1.5),
    np.square: lambda a, b, M: np.square(a),
    np.reciprocal: lambda a, b, M: np.reciprocal(a),
    np.absolute: lambda a, b, M: np.abs(a) + abs(b),
    np.fabs: lambda a, b, M: np.fabs(a),
    np.sign: lambda a, b, M: np.sign(a),
    np.floor: lambda a, b, M: np.floor(5 * a),
    np.ceil: lambda a, b, M: np.ceil(5 * a),
    np.floor_divide: lambda a, b, M: a // 0.25,
    np.remainder: lambda a, b, M: a % 0.25,
    np.sqrt: lambda a, b, M: np.sqrt(a * a + 1.0),
    np.sin: lambda a, b, M: np.sin(a),
    np.cos: lambda a, b, M: np.cos(a),
    np.tan: lambda a, b, M: np.tan(a),
    np.arcsin: lambda a, b, M: np.arcsin(a),
    np.arccos: lambda a, b, M: np.arccos(a),
    np.arctan: lambda a, b, M: np.arctan(a),
    np.arctan2: lambda a, b, M: np.arctan2(a, b),
    np.hypot: lambda a, b, M: np.hypot(a, b),
    np.exp: lambda a, b, M: np.exp(a),
    np.expm1: lambda a, b, M: np.expm1(a),
    np.log: lambda a, b, M: np.log(a * a),
    np.sinh: lambda a, b, M: np.sinh(a),
    np.cosh: lambda a, b, M: np.cosh(a),
    np.tanh: lambda a, b, M: np.tanh(a),
    np.minimum: lambda a, b, M: np.minimum(a, b),
    np.maximum: lambda a, b, M: np.maximum(a, 0.1),
    np.less: lambda a, b, M: np.where(a < b, a, b),
    np.less_equal: lambda a, b, M: np.where(a <= 0.3, a, b),
    np.greater: lambda a, b, M: np.where(a > b, 1.0, b),
    np.greater_equal: lambda a, b, M: np.where(a >= 0.3, 1.0, b),
    np.equal: lambda a, b, M: np.where(a == 0.45, 1.0, b),
    np.not_equal: lambda a, b, M: np.where(a != 0.45, 1.0, b),
    np.logical_and: lambda a, b, M: np.where(np.logical_and(a < b, a < 0), 1.0, 2.0),
    np.logical_or: lambda a, b, M: np.where(np.logical_or(a < b, a < 0), 1.0, 2.0),
    np.logical_not: lambda a, b, M: np.where(np.logical_not(a < b), 1.0, 2.0),
    np.logical_xor: lambda a, b, M: np.where(np.logical_xor(a < b, a < 0), 1.0, 2.0),
    np.bitwise_and: lambda a, b, M: np.where((a < b) & (a < 0), 1.0, 2.0),
    np.bitwise_or: lambda a, b, M: np.where((a < b) | (a < 0), 1.0, 2.0),
    np.invert: lambda a, b, M: np.where(~(a < b), 1.0, 2.0),
    np.deg2rad: lambda a, b, M: np.deg2rad(a),
    np.radians: lambda a, b, M: np.radians(a),
    np.rad2deg: lambda a, b, M: np.rad2deg(a),
    np.degrees: lambda a, b, M: np.degrees(a),
}

FUNCTIONS = {
    np.where: lambda a, b, M: np.where(M > 0.0, a, b[:, None]),
    np.clip: lambda a, b, M: np.clip(M, -0.5, 0.5) + np.clip(a, b, None),
    np.linalg.norm: lambda a, b, M: np.linalg.norm(M, axis=1) + np.linalg.norm(a),
    np.cross: lambda a, b, M: np.cross(a, b) + np.cross(M, a),
    np.zeros: lambda a, b, M: np.zeros(3, like=a) + a,
    np.empty: lambda a, b, M: np.empty((2, 3), like=a) * 0.0 + a,
    np.ones: lambda a, b, M: np.ones((2, 3), like=a) * a,
    np.full: lambda a, b, M: np.full((2, 3), 0.7, like=a) * a,
    np.zeros_like: lambda a, b, M: np.zeros_like(M) + a,
    np.empty_like: lambda a, b, M: np.empty_like(M) * 0.0 + a,
    np.ones_like: lambda a, b, M: np.ones_like(M) - a,
    np.full_like: lambda a, b, M: np.full_like(M, 2.5) - a,
    np.array: lambda a, b, M: np.array([a, b], like=a),
    np.asarray: lambda a, b, M: np.asarray([a[0], b[1]], like=a),
    np.concatenate: lambda a, b, M: np.concatenate([a, b]),
    np.stack: lambda a, b, M: np.stack([a, b], axis=1),
    np.hstack: lambda a, b, M: np.hstack([a, b]),
    np.vstack: lambda a, b, M: np.vstack([a, M]),
    np.dstack: lambda a, b, M: np.dstack([a, b]),
    np.column_stack: lambda a, b, M: np.column_stack([a, M]),
    np.block: lambda a, b, M: np.block([[M, M], [a, b]]),
    np.reshape: lambda a, b, M: np.reshape(M, (1, 9)),
    np.ravel: lambda a, b, M: np.ravel(M),
    np.transpose: lambda a, b, M: np.transpose(M) + M.T,
    np.swapaxes: lambda a, b, M: np.swapaxes(M, 0, 1),
    np.moveaxis: lambda a, b, M: np.moveaxis(M, 0, 1),
    np.squeeze: lambda a, b, M: np.squeeze(a[None]),
    np.expand_dims: lambda a, b, M: np.expand_dims(a, 1),
    np.broadcast_to: lambda a, b, M: np.broadcast_to(a, (2, 3)),
    np.broadcast_arrays: lambda a, b, M: np.broadcast_arrays(a, M)[0],
    np.atleast_1d: lambda a, b, M: np.atleast_1d(a),
    np.atleast_2d: lambda a, b, M: np.atleast_2d(a),
    np.copy: lambda a, b, M: np.copy(a),
    np.roll: lambda a, b, M: np.roll(a, 1),
    np.flip: lambda a, b, M: np.flip(a),
    np.fliplr: lambda a, b, M: np.fliplr(M),
    np.flipud: lambda a, b, M: np.flipud(M),
    np.repeat: lambda a, b, M: np.repeat(a, 2),
    np.tile: lambda a, b, M: np.tile(a, 2),
    np.split: lambda a, b, M: np.split(M, 3)[1],
    np.array_split: lambda a, b, M: np.array_split(a, 2)[0],
    np.append: lambda a, b, M: np.append(a, b),
    np.delete: lambda a, b, M: np.delete(a, 1),
    np.insert: lambda a, b, M: np.insert(a, 1, 9.0),
    np.take: lambda a, b, M: np.take(a, [2, 0]),
    np.diag: lambda a, b, M: np.diag(a) + np.diag(np.diag(M)),
    np.diagonal: lambda a, b, M: np.diagonal(M),
    np.triu: lambda a, b, M: np.triu(M),
    np.tril: lambda a, b, M: np.tril(M, -1),
    np.rot90: lambda a, b, M: np.rot90(M),
    np.outer: lambda a, b, M: np.outer(a, b),
    np.dot: lambda a, b, M: np.dot(M, a),
    np.vdot: lambda a, b, M: np.vdot(a, b),
    np.inner: lambda a, b, M: np.inner(a, b),
    np.tensordot: lambda a, b, M: np.tensordot(M, M, axes=(0, 1)),
    np.einsum: lambda a, b, M: np.einsum("ij,j,i->i", M, a, b),
    np.kron: lambda a, b, M: np.kron(a, b),
    np.trace: lambda a, b, M: np.trace(M),
    np.sum: lambda a, b, M: np.sum(M, axis=1) + M.sum(),
    np.prod: lambda a, b, M: np.prod(a),
    np.cumsum: lambda a, b, M: np.cumsum(a),
    np.cumprod: lambda a, b, M: np.cumprod(a),
    np.mean: lambda a, b, M: np.mean(M, axis=0),
    np.diff: lambda a, b, M: np.diff(a),
    np.pad: lambda a, b, M: np.pad(a, 1),
    np.max: lambda a, b, M: np.max(M, axis=1) + np.max(a),
    np.min: lambda a, b, M: np.min(M, axis=0) + np.min(a),
    np.any: lambda a, b, M: np.where(np.any(M > 1.4, axis=1), a, b),
    np.all: lambda a, b, M: np.where(np.all(M > -1.0, axis=1), a, b),
    np.shape: lambda a, b, M: a * np.shape(M)[0],
    np.ndim: lambda a, b, M: a * np.ndim(M),
    np.size: lambda a, b, M: a * np.size(M),
}

OPERATORS = {
    "M @ a": lambda a, b, M: M @ a,
    "a @ b": lambda a, b, M: a @ b,
    "M.T @ M": lambda a, b, M: M.T @ M,
    "float matrix @ traced": lambda a, b, M: np.eye(3) @ a,
    "traced @ float matrix": lambda a, b, M: a @ np.eye(3),
    "float array + traced": lambda a, b, M: np.array([1.0, 2.0, 3.0]) + a,
    "float array * traced scalar": lambda a, b, M: np.array([1.0, 2.0, 3.0]) * a[0],
    "traced scalar * float array": lambda a, b, M: a[0] * np.array([1.0, 2.0, 3.0]),
    "float array - traced scalar": lambda a, b, M: np.array([1.0, 2.0, 3.0]) - a[0],
    "numpy float * traced scalar": lambda a, b, M: np.float64(2.0) * a[0],
    "in place": lambda a, b, M: _in_place(a, b),
    "item assignment": lambda a, b, M: _item_assignment(a, M),
    "slices": lambda a, b, M: M[1:, ::2] + a[-1],
    "index arrays": lambda a, b, M: a[[2, 0, 0]],
    "masks": lambda a, b, M: a[np.array([True, False, True])],
    "negative and whole powers": lambda a, b, M: a**-2 + b**3 + 2.0**a,
    "list of numbers": lambda a, b, M: [a[0], 1.0, b[2]],
    "methods": lambda a, b, M: M.reshape(9)[:3] + M.ravel()[3:6] + M.flatten()[6:] + a.copy(),
    "reduce": lambda a, b, M: np.add.reduce(M, axis=0) + np.maximum.reduce(a),
    "outer ufunc": lambda a, b, M: np.subtract.outer(a, b),
    "truth as number": lambda a, b, M: (a > b) * 2.0 + a,
    "scalar functions": lambda a, b, M: [
        np.sin(a[0]),
        np.hypot(a[1], b[0]),
        np.where(a[0] > 0, 1, 2),
    ],
    "several axes": lambda a, b, M: np.max(M, axis=(0, 1)) + np.sum(M) - np.min(M) + a,
    "kept axes": lambda a, b, M: M - np.max(M, axis=1, keepdims=True) + np.mean(M),
    "empty sum": lambda a, b, M: np.sum(a[:0]) + np.prod(a[:0]) + a,
    "out": lambda a, b, M: np.add(a, b, out=np.zeros_like(a)),
}


def _in_place(a, b):
    a = a.copy()
    a += b
    a[1] *= 2.0
    return a


def _item_assignment(a, M):
    result = np.zeros((3, 3), like=a)
    result[0] = a
    result[1:, 1:] = M[:2, :2]
    result[2, 0] = a[0] * a[1]
    return result


# sums in another order and divisions folded to products: a few rounding errors of numbers near 1
TOLERANCE = 4e-15


def agree(function):
    program = trace(function, {"a": (3,), "b": (3,), "M": (3, 3)})
    found = interpret(program, (A, B, M))
    expected = np.asarray(function(A, B, M), dtype=float)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert np.ptp(expected) > 0.0 or expected.size < 3, "a constant result would prove little"


@pytest.mark.parametrize("function", ELEMENTWISE, ids=lambda f: f.__name__)
def test_elementwise_function(function):
    """Traced and interpreted, an elementwise function gives what it gives on floats."""
    agree(ELEMENTWISE[function])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_array_function(function):
    """Traced and interpreted, an array function gives what it gives on floats."""
    agree(FUNCTIONS[function])


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name):
    """Operators, indexing and methods of arrays work on traced values as on floats."""
    agree(OPERATORS[name])


def test_every_supported_function_is_compared():
    """Whatever is added to the tables of the traced array gets a comparison here."""
    supported = (
        set(traced_array._ELEMENTWISE)
        | set(traced_array._FUNCTIONS)
        | set(traced_array._STRUCTURAL)
        | set(traced_array._REDUCTIONS)
    )
    assert supported == set(ELEMENTWISE) | set(FUNCTIONS)


def listed(page, heading):
    """Return the names in code of one section of a page."""
    section = page.split(f"### {heading}\n")[1].split("\n### ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return set(re.findall(r"`([\w.]+)", "\n".join(rows)))


def test_the_page_that_errors_refer_to_lists_all_functions():
    """Those of traced arrays and the primitives of linear algebra, and no other."""
    page = (Path(__file__).parents[2] / "docs" / "engine.md").read_text()
    names = listed(page, "Functions of traced values")
    ufuncs = {ufunc.__name__ for ufunc in array._ELEMENTWISE} | {"matmul"}
    # remainder, true_divide and absolute have other names, too
    ufuncs = {{"divide": "true_divide"}.get(name, name) for name in ufuncs}
    functions = {*array._FUNCTIONS, *array._STRUCTURAL, *array._REDUCTIONS}
    others = {f.__name__ for f in functions} - {"norm", "amax", "amin"} | {"linalg.norm"}
    others |= {f.__name__.removeprefix("a") for f in functions if f.__name__ in ("amax", "amin")}
    primitives = {
        *("solve_spd", "factor_spd", "solve_tree", "factor_tree", "solve_tree_columns"),
        *("invert_tree", "solve_least_squares", "factor_orthogonal", "solve_qp", "norm"),
    }
    assert all(hasattr(tiburon.trace, name) for name in primitives)
    words = {"reduce", "accumulate", "abs", "like", "parents", "solve"}
    assert names - words == ufuncs | others | primitives
