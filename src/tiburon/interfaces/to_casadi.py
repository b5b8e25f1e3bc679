"""Functions of CasADi from traced functions: compiled C with its Jacobian, or expressions."""

import atexit
import functools
import operator
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelFileError, ShapeError
from tiburon.interfaces.c_library import TARGETS, compile_c, native_target
from tiburon.interfaces.extras import needed
from tiburon.interfaces.framework_function import KernelFunction, compiled_kernel
from tiburon.model import Model
from tiburon.native import cache
from tiburon.native.arguments import Result
from tiburon.native.c_source import c_source
from tiburon.native.kernel import Kernel
from tiburon.trace.program import Input
from tiburon.trace.walk import Backend, walk
from tiburon.written_file import write_file

__all__ = ["to_casadi"]

EXTRA = "casadi"


@public
def to_casadi(
    function: Callable[..., Any],
    model: Model | None = None,
    *,
    symbolic: bool = False,
    **options: Any,
) -> Any:
    """Return a function of CasADi that computes what `compile` computes, with its Jacobian.

    It is compiled C, with the bits of the kernel: symbols of CasADi (MX) pass through it, and
    solvers find its Jacobian. Second derivatives are not given; IPOPT needs
    ``{"ipopt.hessian_approximation": "limited-memory"}``. Numbers of the robot are constants.

    Args:
        function: A function of this package, one of your own, or a kernel of `compile`; arrays of
            one case, vectors or numbers.
        model: The robot, if it needs one.
        symbolic: Whether to write the function as expressions (SX) instead, which need no compiler
            and have derivatives of any order, but take some thirty times longer to evaluate.
        **options: Further keywords of `compile`.

    Returns:
        A `casadi.Function` with the names of the kernel's arguments and results.

    Raises:
        MissingExtraError: If CasADi or ziglang is not installed.
        ShapeError: If an argument or a result is a matrix.
        TraceError: If a loop ends by its data, which expressions cannot say.

    Example:
        ``dynamics = tb.to_casadi(tb.forward_dynamics, arm)``, then ``dynamics(q, v, tau)``.
    """
    kernel = compiled_kernel(function, model, options)
    casadi = needed("casadi", EXTRA, "to_casadi")
    items: list[Input | Result] = [*kernel.inputs, *kernel.outputs]
    for item in items:
        if len(item.shape) > 1:
            raise ShapeError(
                f"{kernel.name}: {item.name or 'result'}",
                "a vector or a number",
                f"shape {item.shape}",
                advice="compile a function of your own that passes matrices as vectors",
            )
    titles = [item.name or "result" for item in kernel.outputs]
    inputs = [item.name for item in kernel.inputs]
    if symbolic:
        return _expressions(casadi, kernel, inputs, titles)
    needed("ziglang", EXTRA, "to_casadi")
    name = KernelFunction.of(kernel).name
    library = _library(kernel, name)
    found = casadi.external(name, str(library))
    symbols = [casadi.MX.sym(item.name, _rows(item)) for item in kernel.inputs]
    results = found.call(symbols)
    return casadi.Function(kernel.name, symbols, results, inputs, titles)


class _Expressions(Backend):
    """Expressions of CasADi."""

    def __init__(self, casadi: Any) -> None:
        self._sx = casadi.SX
        plain = "sqrt sin cos tan asin acos atan atan2 exp expm1 log sinh cosh tanh sign floor"
        self._functions: dict[str, Callable[..., Any]] = {
            **{name: getattr(casadi, name) for name in (*plain.split(), "hypot")},
            "abs": casadi.fabs,
            "pow": casadi.power,
            "min": casadi.fmin,
            "max": casadi.fmax,
            "and": casadi.logic_and,
            "or": casadi.logic_or,
            "not": casadi.logic_not,
            "where": casadi.if_else,
            "require": lambda condition, value: casadi.if_else(condition, value, np.nan),
            "add": operator.add,
            "sub": operator.sub,
            "mul": operator.mul,
            "div": operator.truediv,
            "neg": operator.neg,
            "copy": operator.pos,
            "less": operator.lt,
            "less_equal": operator.le,
            "equal": operator.eq,
        }

    def constant(self, value: Any) -> Any:
        """Return a constant expression."""
        return self._sx(float(value))

    def operation(self, op: str, args: list[Any]) -> Any:
        """Return the expression of an operation."""
        return self._functions[op](*args)


def _expressions(casadi: Any, kernel: Kernel, inputs: list[str], titles: list[str]) -> Any:
    """Return a kernel as a function of expressions."""
    program = kernel.program()
    symbols = {item.name: casadi.SX.sym(item.name, _rows(item)) for item in kernel.inputs}
    given = [
        [casadi.SX(float(x)) for x in np.ravel(kernel.parameters[item.name])]
        if item.parameter
        else [symbols[item.name][k] for k in range(item.size)]
        for item in program.inputs
    ]
    found = walk(program, _Expressions(casadi), given)
    results = [casadi.vertcat(*values) for values in found]
    return casadi.Function(kernel.name, list(symbols.values()), results, inputs, titles)


def _rows(item: Input | Result) -> int:
    return int(np.prod(item.shape, dtype=int))


def _library(kernel: Kernel, name: str) -> Path:
    """Return the library of a kernel and its Jacobian, compiled once."""
    jacobian: Any = kernel.jacobian()
    files = c_source(
        [kernel.builtin(), jacobian], name=[f"{name}_value", f"{name}_slope"], header=True
    )
    own = jacobian.__self__
    rows = [_rows(item) for item in kernel.inputs]
    results = [_rows(item) for item in kernel.outputs]
    values = _entry(name, f"{name}_value", kernel, rows, [(size, 1) for size in results])
    # CasADi passes the results, which derivatives do not need
    blocks = [(a, b) for a in results for b in rows]
    slopes = _entry(f"jac_{name}", f"{name}_slope", own, [*rows, *results], blocks)
    text = "\n".join([files.source, _HEAD, values, slopes])
    target = native_target()
    key = cache.digest_key("c library", target, text)
    # a library must stay as long as CasADi may call it: until the process ends
    library = Path(_folder()) / f"{key}{TARGETS[target].suffix}"
    if not library.exists():
        entry = cache.load_entry(key)
        if entry is None:
            compile_c([text], library, target)
            cache.store_entry(key, {"name": f"{kernel.name} (C library)"}, library.read_bytes())
        else:
            write_file(library, entry[1], ModelFileError)
    return library


@functools.cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="tiburon-casadi-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_HEAD = """
#ifdef _WIN32
#define TB_SYMBOL __declspec(dllexport)
#else
#define TB_SYMBOL __attribute__((visibility("default")))
#endif
"""


def _entry(
    symbol: str,
    function: str,
    kernel: Any,
    inputs: Sequence[int],
    outputs: Sequence[tuple[int, int]],
) -> str:
    """Write the functions that CasADi looks for in a library.

    Matrices of CasADi are stored by columns, ours by rows: derivatives are transposed.

    Args:
        symbol: Name for CasADi.
        function: Name of the C function of the kernel.
        kernel: The kernel.
        inputs: Sizes of what CasADi passes; the kernel takes the first ones.
        outputs: Rows and columns of each result.
    """
    signature = kernel._code.signature
    sizes = [rows * columns for rows, columns in outputs]
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    zeros = max(inputs, default=1)
    given, place = [], 0
    for item in signature.inputs:
        if item.parameter:
            given.append(f"{function}_{item.name}")
        else:
            given.append(f"arg[{place}] ? arg[{place}] : zero")
            place += 1
    lines = [
        f"static const long long {symbol}_in[][3] = {{{_listed([(size, 1) for size in inputs])}}};",
        f"static const long long {symbol}_out[][3] = {{{_listed(outputs)}}};",
        f"TB_SYMBOL long long {symbol}_n_in(void) {{ return {len(inputs)}; }}",
        f"TB_SYMBOL long long {symbol}_n_out(void) {{ return {len(outputs)}; }}",
        f"TB_SYMBOL const long long *{symbol}_sparsity_in(long long i)",
        f"{{ return {symbol}_in[i]; }}",
        f"TB_SYMBOL const long long *{symbol}_sparsity_out(long long i)",
        f"{{ return {symbol}_out[i]; }}",
        f"TB_SYMBOL int {symbol}_work(long long *a, long long *r, long long *iw, long long *w)",
        f"{{ *a = {len(inputs)}; *r = {len(outputs)}; *iw = 0; *w = {starts[-1]}; return 0; }}",
        f"TB_SYMBOL int {symbol}(",
        "    const double **arg, double **res, long long *iw, double *w, int m)",
        "{",
        f"    static const double zero[{zeros}];",
        f"    const double *in[] = {{{', '.join(given)}}};",
        f"    double *out[] = {{{', '.join(f'w + {start}' for start in starts[:-1])}}};",
        f"    const int status = {function}(in, out);",
        "    (void)iw; (void)m; (void)zero;",
    ]
    for k, (rows, columns) in enumerate(outputs):
        lines.append(
            f"    if (res[{k}]) for (int r = 0; r < {rows}; ++r) for (int c = 0; c < {columns}; "
            f"++c) res[{k}][c * {rows} + r] = out[{k}][r * {columns} + c];"
        )
    return "\n".join([*lines, "    return status;", "}", ""])


def _listed(shapes: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{{{rows}, {columns}, 1}}" for rows, columns in shapes)
