"""Arrays of traced values that behave like NumPy arrays.

`TracedArray` is an ndarray of dtype object whose elements are floats and `Value`s. NumPy's
elementwise functions and array functions are redirected here, so the same lines of an algorithm
run on floats and on traced values. Functions that cannot be traced raise an error with a remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.errors import TraceError
from tiburon.trace import value as scalar
from tiburon.trace.value import Value


class TracedArray(np.ndarray[Any, Any]):
    """An array whose elements are floats and traced values."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Send every elementwise NumPy function to the traced one."""
        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Send every NumPy array function to the traced one."""
        return apply_function(func, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        """Index by constants only: a traced index has no value yet."""
        _refuse_traced_index(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, item: Any) -> None:
        """Assign in place; the index must not be traced."""
        _refuse_traced_index(index)
        super().__setitem__(index, item)


def _refuse_traced_index(index: Any) -> None:
    parts = index if isinstance(index, tuple) else (index,)
    for part in parts:
        traced = isinstance(part, Value)
        if isinstance(part, TracedArray):
            traced = any(isinstance(x, Value) for x in part.flat)
        if traced:
            raise TraceError(
                "indexing by a traced value: the shape or place of the result would depend on the "
                "data; keep all elements and choose with numpy.where(condition, a, b)",
                function="indexing",
            )


def as_traced(values: Any) -> TracedArray:
    """Return nested floats and traced values as a `TracedArray`, as a view if possible."""
    if isinstance(values, TracedArray):
        return values
    if isinstance(values, Value):
        array = np.empty((), dtype=object)
        array[()] = values
        return array.view(TracedArray)
    if isinstance(values, np.ndarray):
        refuse_unusable("array", values)
        return values.astype(object).view(TracedArray)
    return np.array(values, dtype=object).view(TracedArray)


def _plain(value: Any) -> Any:
    """Strip the subclass, so that NumPy's own object loops run."""
    if isinstance(value, TracedArray):
        return value.view(np.ndarray)
    if isinstance(value, Value):
        return as_traced(value).view(np.ndarray)
    return value


def _wrap(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_wrap(part) for part in result)
    if isinstance(result, list):
        return [_wrap(part) for part in result]
    if isinstance(result, np.ndarray) and result.dtype == object:
        return result[()] if result.ndim == 0 else result.view(TracedArray)
    return result


# elementwise functions


def _one(op: str) -> Callable[..., Any]:
    return lambda a: scalar.unary(op, a)


def _two(op: str) -> Callable[..., Any]:
    return lambda a, b: scalar.binary(op, a, b)


def _truth(a: Any) -> Any:
    return a if isinstance(a, Value) else bool(a)


_ELEMENTWISE: dict[Any, Callable[..., Any]] = {
    np.add: lambda a, b: a + b,
    np.subtract: lambda a, b: a - b,
    np.multiply: lambda a, b: a * b,
    np.true_divide: lambda a, b: a / b,
    np.negative: lambda a: -a,
    np.positive: lambda a: a,
    np.power: lambda a, b: a**b,
    np.float_power: lambda a, b: a**b,
    np.square: lambda a: a * a,
    np.reciprocal: lambda a: 1.0 / a,
    np.absolute: abs,
    np.fabs: abs,
    np.sign: _one("sign"),
    np.floor: _one("floor"),
    np.ceil: lambda a: -scalar.unary("floor", -a),
    np.floor_divide: lambda a, b: scalar.unary("floor", a / b),
    np.remainder: lambda a, b: a - b * scalar.unary("floor", a / b),
    np.sqrt: _one("sqrt"),
    np.sin: _one("sin"),
    np.cos: _one("cos"),
    np.tan: _one("tan"),
    np.arcsin: _one("asin"),
    np.arccos: _one("acos"),
    np.arctan: _one("atan"),
    np.arctan2: _two("atan2"),
    np.hypot: _two("hypot"),
    np.exp: _one("exp"),
    np.expm1: _one("expm1"),
    np.log: _one("log"),
    np.sinh: _one("sinh"),
    np.cosh: _one("cosh"),
    np.tanh: _one("tanh"),
    np.minimum: _two("min"),
    np.maximum: _two("max"),
    np.less: lambda a, b: a < b,
    np.less_equal: lambda a, b: a <= b,
    np.greater: lambda a, b: a > b,
    np.greater_equal: lambda a, b: a >= b,
    np.equal: lambda a, b: a == b,
    np.not_equal: lambda a, b: a != b,
    np.logical_and: lambda a, b: _truth(a) & _truth(b),
    np.logical_or: lambda a, b: _truth(a) | _truth(b),
    np.logical_not: lambda a: ~a if isinstance(a, Value) else not a,
    np.logical_xor: lambda a, b: _truth(a) != _truth(b),
    np.bitwise_and: lambda a, b: a & b,
    np.bitwise_or: lambda a, b: a | b,
    np.invert: lambda a: ~a if isinstance(a, Value) else not a,
    np.deg2rad: lambda a: a * (np.pi / 180.0),
    np.radians: lambda a: a * (np.pi / 180.0),
    np.rad2deg: lambda a: a * (180.0 / np.pi),
    np.degrees: lambda a: a * (180.0 / np.pi),
}
# result of an empty reduction; None raises for empty input but allows several axes
_IDENTITIES: dict[Any, Any] = {
    np.add: 0.0,
    np.multiply: 1.0,
    np.logical_and: True,
    np.logical_or: False,
    np.minimum: None,
    np.maximum: None,
}


def _loop(ufunc: Any) -> Any:
    function = _ELEMENTWISE[ufunc]
    if ufunc in _IDENTITIES:
        return np.frompyfunc(function, ufunc.nin, ufunc.nout, identity=_IDENTITIES[ufunc])
    return np.frompyfunc(function, ufunc.nin, ufunc.nout)


_LOOPS = {ufunc: _loop(ufunc) for ufunc in _ELEMENTWISE}


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a NumPy elementwise function on traced inputs."""
    out = kwargs.pop("out", None)
    if ufunc is np.matmul and method == "__call__":
        plain = [np.asarray(_plain(value)).astype(object) for value in inputs]
        result = np.matmul(*plain)
    else:
        loop = _LOOPS.get(ufunc)
        if loop is None or method not in ("__call__", "reduce", "accumulate", "outer"):
            name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            raise TraceError(
                f"numpy.{name} is not supported on traced values; write it with the elementwise "
                "functions listed in docs/engine.md (arithmetic, where, minimum, sqrt, sin, ...)",
                function=f"numpy.{name}",
            )
        kwargs.pop("dtype", None)
        result = getattr(loop, method)(*[_plain(value) for value in inputs], **kwargs)
    if out is not None:
        target = out[0]
        if not isinstance(target, TracedArray):
            raise TraceError(
                f"numpy.{ufunc.__name__} cannot write traced values into a float array; make the "
                "array with numpy.zeros(shape, like=traced) or numpy.zeros_like(traced)",
                function=f"numpy.{ufunc.__name__}",
            )
        target[...] = result
        return target
    return _wrap(np.asarray(result, dtype=object) if isinstance(result, Value) else result)


# array functions


def _where(condition: Any, a: Any = None, b: Any = None) -> Any:
    if a is None or b is None:
        raise TraceError(
            "numpy.where(condition) without choices gives a shape that depends on the data; "
            "call numpy.where(condition, a, b)",
            function="numpy.where",
        )
    return _wrap(np.frompyfunc(scalar.where, 3, 1)(_plain(condition), _plain(a), _plain(b)))


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **kwargs: Any) -> Any:
    low = kwargs.pop("min", a_min)
    high = kwargs.pop("max", a_max)
    result = a
    if low is not None:
        result = apply_ufunc(np.maximum, "__call__", (result, low), {})
    if high is not None:
        result = apply_ufunc(np.minimum, "__call__", (result, high), {})
    return result


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 2) or (axis is None and np.ndim(x) > 1 and ord == 2):
        raise TraceError(
            "numpy.linalg.norm is traced for the Euclidean length only; write other norms out",
            function="numpy.linalg.norm",
        )
    squares = apply_ufunc(np.multiply, "__call__", (x, x), {})
    total = np.sum(_plain(squares), axis=axis, keepdims=keepdims)
    return apply_ufunc(np.sqrt, "__call__", (total,), {}) if np.ndim(total) else _root(total)


def _root(total: Any) -> Any:
    return scalar.unary("sqrt", total[()] if isinstance(total, np.ndarray) else total)


def _filled(value: float | None) -> Callable[..., TracedArray]:
    def make(shape: Any, fill_value: float = 0.0, dtype: Any = None, **_: Any) -> Any:
        _refuse_traced_index(shape)
        content = fill_value if value is None else value
        array = np.empty(shape, dtype=object)
        array[...] = content
        return array.view(TracedArray)

    return make


def _filled_like(value: float | None) -> Callable[..., TracedArray]:
    def make(a: Any, fill_value: float = 0.0, dtype: Any = None, **_: Any) -> Any:
        return _filled(value)(np.shape(_plain(a)), fill_value)

    return make


def _array(values: Any, dtype: Any = None, **_: Any) -> TracedArray:
    return as_traced(values).copy()


def _cross(a: Any, b: Any, axis: int = -1) -> Any:
    x, y = np.moveaxis(_plain(a), axis, 0), np.moveaxis(_plain(b), axis, 0)
    parts = [x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]]
    return _wrap(np.moveaxis(np.array(parts, dtype=object), 0, axis))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.linalg.norm: _norm,
    np.cross: _cross,
    np.zeros: _filled(0.0),
    np.empty: _filled(0.0),
    np.ones: _filled(1.0),
    np.full: _filled(None),
    np.zeros_like: _filled_like(0.0),
    np.empty_like: _filled_like(0.0),
    np.ones_like: _filled_like(1.0),
    np.full_like: _filled_like(None),
    np.array: _array,
    np.asarray: _array,
}

# functions that only move elements, or that NumPy's own object loops compute with + and *
_STRUCTURAL = frozenset(
    {
        np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack, np.block,
        np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims,
        np.broadcast_to, np.broadcast_arrays, np.atleast_1d, np.atleast_2d, np.copy, np.roll,
        np.flip, np.fliplr, np.flipud, np.repeat, np.tile, np.split, np.array_split, np.append,
        np.delete, np.insert, np.take, np.diag, np.diagonal, np.triu, np.tril, np.rot90, np.outer,
        np.dot, np.vdot, np.inner, np.tensordot, np.einsum, np.kron, np.trace, np.sum, np.prod,
        np.cumsum, np.cumprod, np.mean, np.shape, np.ndim, np.size, np.diff, np.pad,
    }
)  # fmt: skip
_REDUCTIONS = {
    np.max: np.maximum,
    np.min: np.minimum,
    np.any: np.logical_or,
    np.all: np.logical_and,
}


def _plain_deep(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_plain_deep(part) for part in value)
    return _plain(value)


def apply_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a NumPy array function on traced inputs."""
    kwargs.pop("like", None)
    special = _FUNCTIONS.get(func)
    if special is not None:
        return special(*args, **kwargs)
    name = getattr(func, "__name__", str(func))
    module = getattr(func, "__module__", "numpy")
    if func in _STRUCTURAL:
        plain = {key: _plain_deep(part) for key, part in kwargs.items()}
        try:
            return _wrap(func(*[_plain_deep(part) for part in args], **plain))
        except TypeError as error:
            raise TraceError(
                f"{module}.{name} failed on traced values ({error}); sizes, axes and indices must "
                "be Python integers: choose by data with numpy.where(condition, a, b)",
                function=f"{module}.{name}",
            ) from error
    if func in _REDUCTIONS:
        axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
        keepdims = bool(kwargs.get("keepdims", False))
        array = _plain(as_traced(args[0]))
        return _wrap(_LOOPS[_REDUCTIONS[func]].reduce(array, axis=axis, keepdims=keepdims))
    raise TraceError(
        f"{module}.{name} is not supported on traced values; write it with elementwise functions "
        "and others that docs/engine.md lists, or use the primitives of tiburon.trace (solve_spd, "
        "solve_tree, factor_orthogonal, norm)",
        function=f"{module}.{name}",
    )
