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
from tiburon.interfaces.c_library import FLAGS, TARGETS, compile_c, native_target
from tiburon.interfaces.extras import needed
from tiburon.interfaces.framework_function import KernelFunction, compiled_kernel
from tiburon.model import Model
from tiburon.native import cache
from tiburon.native.arguments import Result
from tiburon.native.c_source import programs_c_source
from tiburon.native.kernel import Kernel
from tiburon.trace.derivative import forward_derivative
from tiburon.trace.program import Input, Program
from tiburon.trace.walk import Backend, walk
from tiburon.written_file import write_file

EXTRA = "casadi"


@public
def to_casadi(
    function: Callable[..., Any],
    model: Model | None = None,
    *,
    symbolic: bool = False,
    second: bool = False,
    **options: Any,
) -> Any:
    """Return a function of CasADi that computes what `compile` computes, with its Jacobian.

    It is compiled C, with the bits of the kernel: symbols of CasADi (MX) pass through it, and
    solvers find its Jacobian. Without `second` IPOPT needs
    ``{"ipopt.hessian_approximation": "limited-memory"}``. Parameters of the robot are constants.

    Args:
        function: A function of this package, one of your own, or a kernel of `compile`; arrays of
            one case, vectors or numbers.
        model: The robot, if it needs one.
        symbolic: Whether to write the function as expressions (SX) instead, which need no compiler
            and have derivatives of any order, but take some thirty times longer to evaluate.
        second: Whether to compile exact second derivatives, too: Hessians of weighted sums of
            results, as IPOPT uses them, by our forward derivative of the reverse one.
        **options: Further keywords of `compile`.

    Returns:
        A `casadi.Function` with the names of the kernel's arguments and results.

    Raises:
        MissingExtraError: If CasADi or ziglang is not installed.
        ShapeError: If an argument or a result is a matrix.
        TraceError: If a loop ends by its data, which expressions cannot represent.

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
    if second and not all(_rows(item) for item in items):
        raise ShapeError(kernel.name, "arguments and results that are not empty", "an empty one")
    name = KernelFunction.of(kernel).name
    library = _library(kernel, name, second)
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


def _library(kernel: Kernel, name: str, second: bool) -> Path:
    """Return the library of a kernel and its derivatives, compiled once."""
    rows = [_rows(item) for item in kernel.inputs]
    results = [_rows(item) for item in kernel.outputs]
    count = len(rows)
    every = list(range(count))
    # CasADi passes the results, which derivatives do not need
    passed, blocks = [*rows, *results], [(a, b) for a in results for b in rows]
    program = kernel.program()
    slope = kernel.derivative("jacobian")
    texts = [
        _entry(name, kernel, program, rows, [(size, 1) for size in results], every),
        _entry(f"jac_{name}", kernel, slope, passed, blocks, every),
    ]
    if second:
        reverse = kernel.derivative("reverse_derivative")
        curve = forward_derivative(reverse)
        weights = [*rows, *results, *results]
        taken = [*every, *range(count + len(results), len(weights))]
        sums = [(size, 1) for size in rows]
        texts.append(_entry(f"adj1_{name}", kernel, reverse, weights, sums, taken))
        texts.append(_second(f"jac_adj1_{name}", kernel, curve, rows, results))
    target = native_target()
    key = cache.digest_key("c library", target, *FLAGS, *texts)
    # a library must stay as long as CasADi may call it: until the process ends
    library = Path(_folder()) / f"{key}{TARGETS[target].suffix}"
    if not library.exists():
        entry = cache.load_entry(key)
        if entry is None:
            compile_c(texts, library, target)
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
    kernel: Kernel,
    program: Program,
    inputs: Sequence[int],
    outputs: Sequence[tuple[int, int]],
    taken: Sequence[int],
) -> str:
    """Write the file of a program: its code and the functions that CasADi looks for.

    Matrices of CasADi are stored by columns, ours by rows: derivatives are transposed.

    Args:
        symbol: Name for CasADi.
        kernel: The kernel, which has the parameters.
        program: The program that is called, the kernel's own or a derivative.
        inputs: Sizes of what CasADi passes.
        outputs: Rows and columns of each result.
        taken: Which of the inputs the program takes, in order.
    """
    sizes = [rows * columns for rows, columns in outputs]
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    given = _given(symbol, program, taken)
    lines = [
        *_form(symbol, kernel, program, inputs, outputs, starts[-1]),
        f"    const double *in[] = {{{', '.join(given)}}};",
        f"    double *out[] = {{{', '.join(f'w + {start}' for start in starts[:-1])}}};",
        f"    const int status = {symbol}_values(in, out);",
        "    (void)iw; (void)m; (void)zero;",
    ]
    for k, (rows, columns) in enumerate(outputs):
        lines.append(
            f"    if (res[{k}]) for (int r = 0; r < {rows}; ++r) for (int c = 0; c < {columns}; "
            f"++c) res[{k}][c * {rows} + r] = out[{k}][r * {columns} + c];"
        )
    return "\n".join([*lines, "    return status;", "}", ""])


def _given(symbol: str, program: Program, taken: Sequence[int]) -> list[str]:
    """Return the addresses of a program's arguments: parameters, and what CasADi passes."""
    places = iter(taken)
    found = []
    for item in program.inputs:
        if item.parameter:
            found.append(f"{symbol}_values_{item.name}")
        else:
            place = next(places)
            found.append(f"arg[{place}] ? arg[{place}] : zero")
    return found


def _form(
    symbol: str,
    kernel: Kernel,
    program: Program,
    inputs: Sequence[int],
    outputs: Sequence[tuple[int, int]],
    work: int,
) -> list[str]:
    """Write a program, what CasADi asks about its function, and the head of that function.

    A negative number of columns means so many without entries.
    """
    zeros = max(inputs, default=1)
    patterns, names = [], []
    for k, (rows, columns) in enumerate(outputs):
        numbers = [rows, columns, 1]
        if columns < 0:
            # compressed columns: no entry in any of them
            numbers = [rows, -columns, *[0] * (1 - columns)]
        names.append(f"{symbol}_out{k}")
        listed = ", ".join(map(str, numbers))
        patterns.append(f"static const long long {names[-1]}[] = {{{listed}}};")
    return [
        programs_c_source({f"{symbol}_values": program}, kernel.parameters),
        _HEAD,
        f"static const long long {symbol}_in[][3] = {{{_listed([(size, 1) for size in inputs])}}};",
        *patterns,
        f"static const long long *const {symbol}_out[] = {{{', '.join(names)}}};",
        f"TB_SYMBOL long long {symbol}_n_in(void) {{ return {len(inputs)}; }}",
        f"TB_SYMBOL long long {symbol}_n_out(void) {{ return {len(outputs)}; }}",
        f"TB_SYMBOL const long long *{symbol}_sparsity_in(long long i)",
        f"{{ return {symbol}_in[i]; }}",
        f"TB_SYMBOL const long long *{symbol}_sparsity_out(long long i)",
        f"{{ return {symbol}_out[i]; }}",
        f"TB_SYMBOL int {symbol}_work(long long *a, long long *r, long long *iw, long long *w)",
        f"{{ *a = {len(inputs)}; *r = {len(outputs)}; *iw = 0; *w = {work}; return 0; }}",
        f"TB_SYMBOL int {symbol}(",
        "    const double **arg, double **res, long long *iw, double *w, int m)",
        "{",
        f"    static const double zero[{zeros}];",
    ]


def _second(
    symbol: str, kernel: Kernel, program: Program, rows: Sequence[int], results: Sequence[int]
) -> str:
    """Write the file of the Jacobian of a reverse derivative: one call per direction.

    CasADi passes arguments, results, weights and the reverse derivative itself; what is asked for
    are changes of the reverse derivative along arguments and weights.
    """
    count, made = len(rows), len(results)
    inputs = [*rows, *results, *results, *rows]
    directions = [*rows, *results]
    total = sum(directions)
    weights = range(count + made, count + 2 * made)
    # a direction takes the room before the changes that it makes
    starts = np.cumsum([0, *directions])[:-1].tolist()
    changed = (total + np.cumsum([0, *rows])[:-1]).tolist()
    given = _given(symbol, program, [*range(count), *weights, *[0] * (count + made)])
    tangents = [f"w + {start}" for start in starts]
    given[-len(tangents) :] = tangents
    outputs: list[tuple[int, int]] = []
    for a in rows:
        outputs += [(a, b) for b in rows]
        outputs += [(a, -b) for b in results]
        outputs += [(a, b) for b in results]
    columns = count + 2 * made
    moving = [*range(count), *weights]
    lines = [
        *_form(symbol, kernel, program, inputs, outputs, total + sum(rows)),
        f"    const double *in[] = {{{', '.join(given)}}};",
        f"    double *out[] = {{{', '.join(f'w + {start}' for start in changed)}}};",
        "    int status = 0;",
        "    (void)iw; (void)m; (void)zero;",
        f"    for (int k = 0; k < {total}; ++k) w[k] = 0.0;",
    ]
    for size, start, place in zip(directions, starts, moving, strict=True):
        lines += [
            f"    for (int c = 0; c < {size}; ++c) {{",
            f"        w[{start} + c] = 1.0;",
            f"        status |= {symbol}_values(in, out);",
            f"        w[{start} + c] = 0.0;",
        ]
        for k, a in enumerate(rows):
            at = f"res[{k * columns + place}]"
            lines.append(
                f"        if ({at}) for (int r = 0; r < {a}; ++r) {at}[c * {a} + r] = out[{k}][r];"
            )
        lines.append("    }")
    return "\n".join([*lines, "    return status;", "}", ""])


def _listed(shapes: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{{{rows}, {columns}, 1}}" for rows, columns in shapes)
