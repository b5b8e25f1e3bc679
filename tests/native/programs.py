"""Programs that kernels are tested with, and ways to run them below the Python interface."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import pytest

from tests.native.lanes import load
from tiburon.native.engine import host
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.trace import Input, trace
from tiburon.trace.primitives.spd import solve_spd
from tiburon.trace.regions import fixed_loop, function, while_loop
from tiburon.trace.regions.lanes import lanes


def arithmetic(x, y):
    """Products, fused sums, shared and single divisions, roots, signs, constants."""
    a = x[:3] * y + x[1] * x[2] - 0.3 * y
    b = (a @ y - x[3] * x[4]) / (2.5 + x[0] * x[0])
    shared = 1.5 + np.abs(y[1])
    c = np.array([x[0] / shared, y[2] / shared, -x[4] / (3.0 + y[0] * y[0])], like=x)
    length = np.sqrt(x @ x + y @ y)
    return np.array([*a, b, *c, length, b - length * c[1], x[2], 0.25, 7.0], like=x)


def elementary(x, y):
    """Every elementary function there is, each inside its domain."""
    u, w = x[0] / (1.0 + np.abs(x[0])), 1.0 + y[0] * y[0]
    return np.array(
        [
            np.sin(3.0 * x[0]) + np.cos(y[1]),
            np.cos(40.0 * x[1]),
            np.tan(x[2]),
            np.arcsin(u),
            np.arccos(u),
            np.arctan(5.0 * x[3]),
            np.arctan2(x[0], y[1]),
            np.exp(x[1]),
            np.expm1(0.1 * y[2]),
            np.log(w),
            np.sinh(x[2]),
            np.cosh(y[1]),
            np.tanh(x[4]),
            w ** x[3],
            np.hypot(x[1], y[0]),
            np.sqrt(w),
            np.sin(np.cos(x[4])),
        ],
        like=x,
    )


def choices(x, y):
    """Choices, extremes, jumps and truth values; both sides of each are met by random numbers."""
    high = np.maximum(x[:3], y)
    low = np.minimum(x[2:], y)
    chosen = np.where(x[:3] < y, high * 2.0, low - x[4])
    mixed = np.where((x[0] <= y[0]) & ~(x[1] > 0.4) | (y[2] == x[2]), x[3] * y[1], 0.7)
    steps = np.array([np.sign(x[1]), np.floor(3.0 * y[0]), np.abs(y[2])], like=x)
    return np.array([*high, *low, *chosen, mixed, *steps, np.clip(x[0], -0.5, 0.5)], like=x)


def pendulums(x, y, masses, gravity):
    """A chain of pendulums in a plane: mass matrix, elimination, accelerations [rad/s^2].

    Lagrange's equations of point masses on rods of length 1 with absolute angles: element (i, j)
    of the mass matrix is the mass beyond both times cos(angle i - angle j).
    """
    angles = np.array([x[0], x[1], x[2], y[0]], like=x)
    rates = np.array([x[3], x[4], y[1], y[2]], like=x)
    n = 4
    beyond = [masses[max(i, j) :].sum() for i in range(n) for j in range(n)]
    M = [[beyond[n * i + j] * np.cos(angles[i] - angles[j]) for j in range(n)] for i in range(n)]
    b = [
        -gravity * beyond[n * i + i] * np.sin(angles[i])
        - sum(
            beyond[n * i + j] * rates[j] * rates[j] * np.sin(angles[i] - angles[j])
            for j in range(n)
            if j != i
        )
        for i in range(n)
    ]
    for k in range(n):
        for i in range(k + 1, n):
            factor = M[i][k] / M[k][k]
            M[i] = [M[i][j] - factor * M[k][j] for j in range(n)]
            b[i] = b[i] - factor * b[k]
    solution = [0.0] * n
    for k in reversed(range(n)):
        rest = b[k] - sum(M[k][j] * solution[j] for j in range(k + 1, n))
        solution[k] = rest / M[k][k]
    return np.array(solution, like=x), 0.5 * (rates * rates).sum()


def regions(x, y):
    """Functions, loops and a solver; cases leave the while loop after different counts."""
    wave = function(lambda a: np.sin(a) * a + 0.5)
    target = 1.0 + x @ x
    state, count, _ = while_loop(
        lambda s: np.abs(s * s - target) > 1e-10 * target,
        lambda s: 0.5 * (s + target / s),
        0.0 * x[0] + 30.0,
        60,
    )
    decay = fixed_loop(7, lambda k, s: 0.5 * s + k * y, wave(y) - wave(x[2:]))
    matrix = np.outer(y, y) + np.eye(3) * (2.0 + x[0] * x[0])
    return np.array([state, count, *decay, *solve_spd(matrix, x[:3])], like=x)


def side_by_side(x, y):
    """Calls in lanes: a function, loops and a solver in them, calls in lanes inside, fed on."""
    wave = function(lambda a: np.sin(a) * y[0] + x[0])
    scale = 1.0 + y @ y

    def call(a, weight, b):
        matrix = np.outer(b, b) + np.eye(2) * (2.0 + a * a)
        root = while_loop(
            lambda s: np.abs(s * s - scale * weight) > 1e-10,
            lambda s: 0.5 * (s + scale * weight / s),
            30.0 + 0.0 * a,
            60,
        )
        pair = lanes(lambda c: wave(c) * scale, [(a,), (b[0] * weight,)])
        return np.array([root.state, root.count, *solve_spd(matrix, b), *pair], like=a)

    sets = [(x[k], 0.3 * (k + 1.0), np.array([x[k - 1], y[k % 3]], like=x)) for k in range(5)]
    found = lanes(call, sets)
    after = lanes(lambda r: r[0] * r[2] - r[4], [(r,) for r in found])
    return np.array([*(value for r in found for value in r), *after], like=x)


INPUTS = (Input("x", (5,)), Input("y", (3,)))
PENDULUM_PARAMETERS = {"masses": np.array([1.5, 0.7, 0.4, 1.1]), "gravity": 9.81}

PROGRAMS = {
    "arithmetic": trace(arithmetic, INPUTS),
    "elementary": trace(elementary, INPUTS),
    "choices": trace(choices, INPUTS),
    "regions": trace(regions, INPUTS),
    "side_by_side": trace(side_by_side, INPUTS),
    "pendulums": trace(
        pendulums,
        [*INPUTS, Input("masses", (4,), parameter=True), Input("gravity", (), parameter=True)],
    ),
}


def parameters_of(name):
    """Give what the parameters of a program are bound to."""
    return PENDULUM_PARAMETERS if name == "pendulums" else {}


@functools.cache
def kernel(name):
    """Give the native kernel of one of the programs, compiled once, whatever a test has set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TIBURON_ENGINE", raising=False)
        return make_kernel(ProgramSource(PROGRAMS[name]), parameters_of(name))


def compiled(function, inputs, **parameters):
    """Trace and compile a function."""
    return make_kernel(ProgramSource(trace(function, inputs)), parameters)


@functools.cache
def scale_kernel():
    """Give a kernel of a matrix, a vector and a number, called `function`."""

    def function(A, b, c):
        return A @ b * c + b

    return compiled(function, {"A": (3, 3), "b": (3,), "c": ()})


SCALE_NUMBERS = (
    np.random.default_rng(3).normal(size=(3, 3)),
    np.random.default_rng(4).normal(size=3),
    1.75,
)
"""One case of its arguments."""


def scaled(A, b, c):
    """Compute the same with NumPy, also for batches."""
    return (np.asarray(A) @ np.asarray(b)[..., None])[..., 0] * np.asarray(c)[..., None] + b


def cases(count, seed=7):
    """Give so many random pairs of x and y."""
    generator = np.random.default_rng(seed)
    return generator.normal(0.0, 1.2, (count, 5)), generator.normal(0.0, 1.2, (count, 3))


def bits(results):
    """Give the bit patterns of one array or several, with their shapes."""
    arrays = results if isinstance(results, tuple) else (results,)
    return [(np.shape(a), np.ascontiguousarray(a).view(np.int64).tolist()) for a in arrays]


def _table(arrays):
    return np.array([array.ctypes.data for array in arrays], dtype=np.int64)


def run_one(name, x, y, *, vector_lanes, fused, order):
    """Compile a program for one case with given settings and run it on each case in turn."""
    program = PROGRAMS[name]
    text = module_for_one(program, vector_lanes=vector_lanes, fused=fused, order=order)
    loaded = load(text, quick=vector_lanes == 4)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)(loaded.address("one"))
    bound = [np.array(value, dtype=float) for value in parameters_of(name).values()]
    results = [np.zeros((len(x), *output.shape)) for output in program.outputs]
    for k in range(len(x)):
        rows = [np.ascontiguousarray(x[k]), np.ascontiguousarray(y[k]), *bound]
        given, made = _table(rows), _table([result[k : k + 1] for result in results])
        assert call(given.ctypes.data, made.ctypes.data) == 0
    return tuple(results)


def run_many(name, x, y, *, lanes, fused=None, order="traced", begin=0, end=None):
    """Compile a program for so many lanes and run it on the cases begin..end-1."""
    program = PROGRAMS[name]
    fused = host().fused if fused is None else fused
    text = module_for_many(program, lanes=lanes, fused=fused, order=order)
    # both tiers of code, as in `run_lanes`
    loaded = load(text, quick=lanes != host().lanes)
    call = ctypes.CFUNCTYPE(
        ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_longlong, ctypes.c_longlong
    )(loaded.address("many"))
    bound = [np.array(value, dtype=float) for value in parameters_of(name).values()]
    results = [np.zeros((len(x), *output.shape)) for output in program.outputs]
    steps = np.array([5, 3, *[0 for _ in bound]], dtype=np.int64)
    jumps = np.array([np.prod(o.shape, dtype=int) for o in program.outputs], dtype=np.int64)
    tables = _table([x, y, *bound]), steps, _table(results), jumps
    status = call(*[t.ctypes.data for t in tables], begin, len(x) if end is None else end)
    assert status == 0
    return tuple(results)
