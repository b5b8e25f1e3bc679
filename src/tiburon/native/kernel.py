"""Compiled kernels: Python callables that run a traced program natively.

A kernel is a Python builtin whose trampoline handles float64 arrays of one case directly, also with
keywords and `out=`. Contiguous float64 batches take `PlainBatch`. All other calls (lists, other
dtypes, broadcasting, per-case parameters, errors) take the checked path `Kernel.evaluate`.
"""

from __future__ import annotations

import ctypes
import keyword
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from tiburon.argument_checks import at_least
from tiburon.arrays import NDArray
from tiburon.errors import (
    CompileError,
    DomainError,
    ModelError,
    NonFiniteError,
    OptionError,
    ShapeError,
    TiburonError,
    shown,
)
from tiburon.native.arguments import (
    Array,
    Result,
    Signature,
    as_floats,
    batch_shape,
    checked_targets,
    deliver,
)
from tiburon.native.code import QUICK_CASES, Code, Part, ProgramSource, Source, code_for
from tiburon.native.layout import Layout, object_layout
from tiburon.native.result_memory import allocate_results
from tiburon.native.trampoline import UNLIMITED, AddressTable, Form, make_builtin
from tiburon.trace.diagnose import diagnose
from tiburon.trace.program import Input, Program

if TYPE_CHECKING:
    from tiburon.native.code import InterpretedCode
    from tiburon.native.row_loop import CheckedLoop
    from tiburon.trace.derivative import Choice

__all__ = ["Kernel", "NativeKernel", "ProgramSource", "Source", "kernel_of", "make_kernel"]


CALLS_BEFORE_TIMING = 20
"""Calls of quickly compiled code after which it is timed, to replace it by the time it has run."""

CALLS_BETWEEN_CHECKS = 1000
"""Most calls of quickly compiled code after which it looks again for optimized code."""

CHECK_INTERVAL = 0.02
"""Time that those calls take at most [s]."""


class NativeKernel(NamedTuple):
    """Machine code of a kernel, for callers outside of Python; docs/engine.md has the contract."""

    one: int
    """Address of ``int one(const double *const *in, double *const *out)``: one case. `in` has one
    address per input, parameters included, `out` one per output."""

    many: int
    """Address of ``int many(in, const int64_t *in_strides, out, const int64_t *out_strides,
    int64_t begin, int64_t end)``: the cases from `begin` to before `end`. Strides are distances
    from case to case in doubles; 0 for an input that all cases share."""

    inputs: tuple[Input, ...]
    """Inputs in order, parameters included."""

    outputs: tuple[Result, ...]
    """Outputs in order."""

    parameters: dict[str, int]
    """Address of the bound value of each parameter, by name."""

    keep: Any
    """Owner of code and parameters: addresses are valid as long as it exists."""


class NamedParameters(Protocol):
    """Parameters by the names that callers use, such as the mass of a link."""

    def rows(self, given: Any) -> Mapping[str, Any]:
        """Return the values of parameter inputs for values by the callers' names."""

    def refusal(self, table: str) -> Exception | None:
        """Return the error to raise for a parameter input given directly; None if it is allowed."""


def make_kernel(
    source: Source,
    parameters: Mapping[str, Any] | None = None,
    named_parameters: NamedParameters | None = None,
    *,
    part: Part = "one",
    first: Part = "one",
    cases: int = 0,
) -> Callable[..., Any]:
    """Compile a program, or load it from the cache, and bind its parameters.

    Args:
        source: The source of the program.
        parameters: Value of each parameter input, by name.
        named_parameters: Converts values by the callers' names, passed as ``parameters={...}``, to
            parameter inputs; None if callers pass parameter inputs directly.
        part: "many" for a kernel that is called with batches only: it takes the checked path, and
            the function for one case is compiled when it is first needed.
        first: The function that the first call needs; the other one is compiled when it is needed.
        cases: How many are going to be computed, if that is known: for many, code is optimized.

    Returns:
        A callable. Its arguments are the program's, for one case or with leading batch
        dimensions; keywords: `out`, `errors` ("raise" or "flag"), `threads`, and any parameter
        by name, also one row per case. `callable.__self__` has the kernel's attributes.
    """
    code = code_for(source, part if part == "many" else first, cases)
    kernel = Kernel(source, parameters or {}, named_parameters, code, part, first)
    return kernel.builtin()


class Kernel:
    """A compiled program with its parameters bound.

    Attributes:
        name: Name of the program.
        parameters: Bound value of each parameter, read-only.
    """

    def __init__(
        self,
        source: Source,
        parameters: Mapping[str, Any],
        named_parameters: NamedParameters | None = None,
        code: Code | InterpretedCode | None = None,
        part: Part = "one",
        first: Part = "one",
    ) -> None:
        self._source = source
        self._named_parameters = named_parameters
        self._part, self._first = part, part if part == "many" else first
        self._code = code_for(source, self._first) if code is None else code
        self.name = source.name
        signature = self._code.signature
        wanted = {item.name for item in signature.parameters}
        for given in parameters:
            if given not in wanted:
                raise OptionError(f"{self.name}: parameter", sorted(wanted), given)
        self.parameters: dict[str, Array] = {}
        for item in signature.parameters:
            if item.name not in parameters:
                raise ShapeError(f"{self.name}: parameter {item.name}", item.shape, "nothing")
            value = np.array(as_floats(item, parameters[item.name]), order="C", copy=True)
            if value.shape != item.shape:
                advice = "pass values that differ from case to case when calling"
                raise ShapeError(item.name, item.shape, value.shape, advice=advice)
            if not np.isfinite(value).all():
                place = tuple(int(k) for k in np.argwhere(~np.isfinite(value))[0])
                index = (place[0] if len(place) == 1 else place) if place else None
                raise NonFiniteError(item.name, index, float(value[place]))
            value.flags.writeable = False
            self.parameters[item.name] = value
        self._along: dict[tuple[str, ...], Kernel] = {}
        self._builtin: Callable[..., Any] | None = None
        # the table of a builtin with quickly compiled code
        self._counted: AddressTable | None = None
        # calls of it since they were counted last
        self._calls = 0
        layout = object_layout()
        self._row_loop: CheckedLoop | None = None
        self._plain: PlainBatch | None = None
        if isinstance(self._code, Code) and layout is not None:
            self._plain = PlainBatch(self._code, self.parameters, layout)

    def __repr__(self) -> str:
        listed = ", ".join(f"{i.name}{list(i.shape)}" for i in self.inputs)
        return f"<tiburon kernel {self.name}({listed})>"

    def __reduce__(self) -> Any:
        """Pickle as source and parameters; unpickling compiles the code or loads it."""
        bound = dict(self.parameters)
        return Kernel, (
            self._source,
            bound,
            self._named_parameters,
            None,
            self._part,
            self._first,
        )

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Arguments, in order."""
        return self._code.signature.arguments

    @property
    def outputs(self) -> tuple[Result, ...]:
        """Results, in order."""
        return self._code.signature.outputs

    @property
    def source(self) -> Source:
        """Source of the program."""
        return self._source

    def row_loop(self) -> CheckedLoop:
        """Return the loop around the kernel: native, if there is machine code."""
        if self._row_loop is None:
            from tiburon.native.row_loop import CheckedLoop, RowLoop

            code = self._code
            self._row_loop = RowLoop(code) if isinstance(code, Code) else CheckedLoop(code)
        return self._row_loop

    def program(self) -> Program:
        """Trace the program again, or return it."""
        return self._source.program()

    def native(self, part: Part | None = None) -> NativeKernel:
        """Return the addresses of optimized machine code and of the parameters.

        Args:
            part: "one" or "many" if only that function is needed: the address of the other is 0.

        Raises:
            CompileError: If programs are interpreted.
        """
        code = self._code
        if not isinstance(code, Code):
            raise CompileError(
                f"kernel {self.name!r}: machine code needs llvmlite, and this process interprets "
                "programs; install llvmlite, and unset TIBURON_ENGINE"
            )
        bound = {name: int(values.ctypes.data) for name, values in self.parameters.items()}
        signature = code.signature
        one = code.one_address if part in (None, "one") else 0
        addresses = one, code.many.address() if part in (None, "many") else 0
        return NativeKernel(*addresses, signature.inputs, signature.outputs, bound, self)

    def forward(
        self, *, of: Choice = None, by: Choice = None, values: bool = False
    ) -> Callable[..., Any]:
        """Return the kernel of the results' change along a direction of the arguments.

        Args:
            of: Results, as `tiburon.trace.forward_derivative` takes them.
            by: Arguments, likewise.
            values: Whether to return the results first.
        """
        return self._derived(self.derivative("forward_derivative", of, by, values))

    def reverse(
        self, *, of: Choice = None, by: Choice = None, values: bool = False
    ) -> Callable[..., Any]:
        """Return the kernel of a weighted sum of results, differentiated by the arguments.

        The options are those of `forward`.
        """
        return self._derived(self.derivative("reverse_derivative", of, by, values))

    def jacobian(
        self, *, of: Choice = None, by: Choice = None, values: bool = False
    ) -> Callable[..., Any]:
        """Return the kernel of all derivatives, by an algorithm of its own where there is one.

        Dynamics of robots whose velocities are rates of positions are differentiated by recursion,
        which takes about half of the time. The options are those of `forward`.
        """
        return self._derived(self.derivative("jacobian", of, by, values))

    def derivative(
        self, kind: str, of: Choice = None, by: Choice = None, values: bool = False
    ) -> Program:
        """Return the program of `jacobian`, or of another function of `trace.derivative`."""
        from tiburon.trace import derivative

        own = getattr(self._source, kind, None)
        program: Program | None = own(values=values) if own and of is by is None else None
        if program is None:
            program = getattr(derivative, kind)(self.program(), of=of, by=by, values=values)
        return program

    def _derived(self, program: Program) -> Callable[..., Any]:
        """Return a kernel of another program with the same parameters."""
        source = ProgramSource(program)
        return Kernel(source, self.parameters, self._named_parameters, part=self._part).builtin()

    def along(self, tables: tuple[str, ...]) -> Kernel:
        """Return the kernel, for batches, of the results' change along a direction of parameters.

        Args:
            tables: Names of parameter inputs; a direction of each follows the arguments.
        """
        if tables not in self._along:
            from tiburon.trace.derivative import forward_derivative

            program = forward_derivative(self.program(), by=list(tables))
            self._along[tables] = Kernel(ProgramSource(program), self.parameters, part="many")
        return self._along[tables]

    def with_parameters(self, **parameters: Any) -> Callable[..., Any]:
        """Return the same kernel with other parameter values; nothing is compiled.

        Args:
            **parameters: Values of parameter inputs, or ``parameters={...}`` as in calls.
        """
        given = {**self.parameters, **self._by_input(parameters)}
        kernel = Kernel(
            self._source, given, self._named_parameters, self._code, self._part, self._first
        )
        return kernel.builtin()

    def _by_input(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return keywords with ``parameters={...}`` replaced by parameter inputs."""
        named_parameters = self._named_parameters
        if named_parameters is None:
            return named
        for name in named:
            error = named_parameters.refusal(name) if name in self.parameters else None
            if error is not None:
                raise error
        if "parameters" not in named:
            return named
        rest = {name: value for name, value in named.items() if name != "parameters"}
        given = named["parameters"]
        found = {} if given is None else named_parameters.rows(given)
        return rest | {name: rows for name, rows in found.items() if name in self.parameters}

    def __getattr__(self, name: str) -> Any:
        # pickle looks up a builtin as an attribute of its `__self__`
        if "name" in self.__dict__ and name == self._builtin_name():
            return self.builtin()
        raise AttributeError(f"a tiburon kernel has no attribute {name!r}")

    def builtin(self) -> Callable[..., Any]:
        """Return the callable: a builtin, or the checked path if the object layout is unknown."""
        if self._builtin is None:
            self._builtin = self._make_builtin() or self.evaluate
        return self._builtin

    def _make_builtin(self) -> Callable[..., Any] | None:
        code = self._code
        if self._part != "one" or not isinstance(code, Code):
            return None
        self._calls = min(QUICK_CASES, CALLS_BEFORE_TIMING)
        # asked first: optimized code may arrive at any time
        optimized = code.one.is_optimized
        # where batches come first, the fallback compiles the function for one case
        wanted = self._first == "one" or code.one.is_loaded
        address = code.one.first_address() if wanted else 0
        signature = self._code.signature
        slots = range(len(signature.inputs))
        form = Form(
            argument_dims=tuple(len(item.shape) for item in signature.arguments),
            argument_slots=tuple(k for k in slots if not signature.inputs[k].parameter),
            parameter_slots=tuple(k for k in slots if signature.inputs[k].parameter),
            result_dims=tuple(len(result.shape) for result in signature.outputs),
            single=signature.single,
        )
        builtin = make_builtin(
            self,
            name=self._builtin_name(),
            doc=self._doc(),
            kernel_address=address,
            calls=UNLIMITED if optimized else self._calls if wanted else 0,
            form=form,
            argument_names=[item.name for item in signature.arguments],
            argument_shapes=[item.shape for item in signature.arguments],
            parameters=list(self.parameters.values()),
            result_shapes=[result.shape for result in signature.outputs],
            fallback=self.evaluate,
        )
        if builtin is not None and not optimized:
            self._counted = builtin.__self__  # type: ignore[attr-defined]
        return builtin

    def _builtin_name(self) -> str:
        """Return the name, or `name_` if `__self__` has another attribute of that name."""
        taken = hasattr(AddressTable, self.name) or hasattr(type(self), self.name)
        return f"{self.name}_" if taken or self.name in self.__dict__ else self.name

    def _doc(self) -> str:
        """Return the docstring; `inspect.signature` reads its first line."""
        lines: list[str] = []
        names = [item.name for item in self.inputs]
        if all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
            listed = ["*", "out=None", "errors='raise'", "threads=None"]
            more = ["**parameters"] if self.parameters else []
            if self._named_parameters is not None:
                more = ["time=0.0"] if "time" in self.parameters else []
                more.append("parameters=None")
            lines += [f"{self._builtin_name()}({', '.join([*names, *listed, *more])})", "--", ""]
        lines += [f"Compiled {self.name}; one case, or leading batch dimensions.", ""]
        lines += [f"{i.name}: shape {_leading(i.shape)}" for i in self.inputs]
        lines += [f"parameter {name}: shape {v.shape}" for name, v in self.parameters.items()]
        lines += [
            f"returns {o.name or 'an array'}: shape {_leading(o.shape)}" for o in self.outputs
        ]
        return "\n".join(lines)

    # the checked path

    def evaluate(
        self,
        *arguments: Any,
        out: Any = None,
        errors: Literal["raise", "flag"] = "raise",
        threads: int | None = None,
        **named: Any,
    ) -> Any:
        """Run the kernel on array-like arguments, one case or a batch.

        Args:
            *arguments: The program's arguments, shape (..., *shape of one case); leading
                dimensions broadcast.
            out: Array (or tuple of arrays) for the result.
            errors: "raise" an error for non-finite values, or "flag" to return a pair: the result
                with NaN in each failed case, and a bool array that marks failed cases.
            threads: Maximum number of threads; by default as many as are worthwhile.
            **named: Arguments by name, and parameters that replace the bound ones, also one row
                per case; for kernels of robots also ``parameters={...}``, values by name.

        Returns:
            The result, or a tuple of results.
        """
        if errors not in ("raise", "flag"):
            raise OptionError("errors", ("raise", "flag"), errors)
        if self._counted is not None and self._counted.calls_left() <= 0:
            self._replace_quick_code(self._counted)
        limit = None if threads is None else at_least("threads", threads, 1)
        if self._plain is not None and errors == "raise":
            ordered = arguments if not named else self._in_order(arguments, named)
            plain = None if ordered is None else self._plain.run(ordered, out, limit)
            if plain is not None:
                return plain
        signature = self._code.signature
        given = self._collect(arguments, self._by_input(named))
        arrays = [as_floats(item, given[item.name]) for item in signature.inputs]
        batch = batch_shape(signature.inputs, arrays)
        results = self._results(out, batch, arrays)
        status = 0 if 0 in batch else self._code.run(arrays, batch, results, limit)
        failed = None
        if status:
            failed = failed_cases(signature, arrays, batch, results)
            if failed.any() and errors == "raise":
                raise explain_failure(self._source, signature, arrays, failed)
            for result in results:
                result[failed] = np.nan
        answer = self._deliver(out, results)
        if errors == "raise":
            return answer
        return answer, np.zeros(batch, dtype=bool) if failed is None else failed

    def _replace_quick_code(self, table: AddressTable) -> None:
        """Take optimized code if it is there, else have it compiled and look again later."""
        code = self._code
        assert isinstance(code, Code)
        if code.one.is_optimized:
            table.set_kernel(code.one_address, UNLIMITED)
            self._counted = None
        elif not table.has_kernel():
            # batches alone need none
            if code.one.is_loaded:
                table.set_kernel(code.one.first_address(), self._calls)
        else:
            code.one.count_calls(self._calls)
            # this call is timed; unless others were, the next one decides
            self._calls = 1
            left: int | None
            if code.one.is_due():
                code.one.optimize_in_background()
                left = min(CALLS_BETWEEN_CHECKS, code.one.calls_within(CHECK_INTERVAL))
            else:
                left = code.one.calls_left()
            if left is not None:
                self._calls = left
                table.set_kernel(code.one.first_address(), left)

    def _in_order(self, arguments: Sequence[Any], named: dict[str, Any]) -> Sequence[Any] | None:
        """Return arguments in order if keywords are exactly those that are missing, else None."""
        missing = [item.name for item in self.inputs[len(arguments) :]]
        if len(missing) != len(named) or not all(name in named for name in missing):
            return None
        return [*arguments, *[named[name] for name in missing]]

    def _collect(self, arguments: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        """Match positional and keyword arguments with inputs."""
        names = [item.name for item in self.inputs]
        if len(arguments) > len(names):
            expected = f"{len(names)} arguments ({', '.join(names)})"
            raise ShapeError(self.name, expected, f"{len(arguments)}")
        given: dict[str, Any] = dict(self.parameters)
        for name, value in named.items():
            if name not in names and name not in self.parameters:
                known = [*names, *self.parameters, "out", "errors", "threads"]
                raise OptionError(f"{self.name}: keyword", known, name)
            given[name] = value
        for name, value in zip(names, arguments, strict=False):
            if name in named:
                raise ShapeError(self.name, f"one value for {name}", "two, by place and by name")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise ShapeError(
                self.name, f"arguments {', '.join(names)}", f"nothing for {', '.join(missing)}"
            )
        return given

    def _results(self, out: Any, batch: tuple[int, ...], arrays: Sequence[Array]) -> list[Array]:
        """Create the result arrays, or use those of `out=` where native code can write."""
        shapes = [batch + result.shape for result in self.outputs]
        if out is None:
            return [allocate_results(shape) for shape in shapes]
        chosen: list[Array] = []
        for target in checked_targets(out, shapes, self._code.signature.single):
            plain = target.dtype == np.float64 and target.flags.c_contiguous
            # the kernel would overwrite inputs that it still reads
            apart = not any(np.may_share_memory(target, other) for other in arrays)
            usable = plain and apart and target.flags.aligned
            chosen.append(target if usable else np.empty(target.shape))
        return chosen

    def _deliver(self, out: Any, results: list[Array]) -> Any:
        single = self._code.signature.single
        if out is not None:
            deliver((out,) if single else out, results)
            return out
        # results without dimensions are scalars, as in NumPy
        answers = tuple(result[()] for result in results)
        return answers[0] if single else answers


def kernel_of(kernel: Any) -> Kernel:
    """Return the owner of a callable that `make_kernel` returned.

    Raises:
        ModelError: If it is none.
    """
    owner = getattr(kernel, "__self__", None)
    found = getattr(owner, "owner", owner)
    if not isinstance(found, Kernel):
        raise ModelError(
            f"kernel: expected one that tiburon.compile made, got {shown(kernel)}; write "
            "tiburon.compile(function, model)"
        )
    return found


def _leading(shape: tuple[int, ...]) -> str:
    return f"({', '.join(['...', *map(str, shape)])})"


_FLOAT64 = np.dtype(np.float64)


def _is_plain(array: Any) -> bool:
    if type(array) is not np.ndarray or array.dtype is not _FLOAT64:
        return False
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned)


class PlainBatch:
    """The fast path for contiguous float64 batches of arguments with equal leading dimensions.

    Everything else takes the checked path of `Kernel.evaluate`, which also raises the errors. A
    call takes a few microseconds instead of some 50.
    """

    def __init__(self, code: Code, parameters: Mapping[str, Array], layout: Layout) -> None:
        signature = code.signature
        self._code = code
        self._data = layout.data
        # keeps the arrays alive whose addresses are in the table
        self._parameters = tuple(parameters.values())
        # one table: input addresses, input strides, output addresses, output strides
        inputs, outputs = len(signature.inputs), len(signature.outputs)
        template = [0] * (2 * inputs + 2 * outputs)
        self._arguments: list[tuple[int, tuple[int, ...], int]] = []
        for slot, item in enumerate(signature.inputs):
            if item.parameter:
                template[slot] = parameters[item.name].ctypes.data
            else:
                self._arguments.append((slot, item.shape, item.size))
        self._results: list[tuple[int, tuple[int, ...]]] = []
        for place, result in enumerate(signature.outputs):
            slot = 2 * inputs + place
            self._results.append((slot, result.shape))
            template[slot + outputs] = int(np.prod(result.shape, dtype=int))
        self._single = signature.single
        self._template = template
        self._inputs = inputs
        self._table = ctypes.c_int64 * len(template)
        self._parts = [8 * k for k in (0, inputs, 2 * inputs, 2 * inputs + outputs)]

    def run(
        self, arguments: Sequence[Any], out: Any, threads: int | None
    ) -> Array | tuple[Array, ...] | None:
        """Compute a batch.

        Args:
            arguments: Positional arguments.
            out: Array or tuple of arrays for the results, or None for new ones.
            threads: Maximum number of threads; None for as many as are worthwhile.

        Returns:
            The kernel's result, or None if the fast path does not apply or a value is not finite.
        """
        if len(arguments) != len(self._arguments):
            return None
        table_values = self._template.copy()
        batch: tuple[int, ...] = ()
        for array, (slot, shape, size) in zip(arguments, self._arguments, strict=True):
            if not _is_plain(array):
                return None
            given = array.shape
            # one case is broadcast: stride 0
            if given != shape:
                lead = given[: len(given) - len(shape)]
                if lead + shape != given or batch not in ((), lead):
                    return None
                batch = lead
                table_values[self._inputs + slot] = size
            table_values[slot] = self._address(array)
        cases = prod(batch) if batch else 0
        if not cases:
            return None
        results = self._given_results(out, batch, arguments)
        if results is None:
            return None
        for (slot, _), result in zip(self._results, results, strict=True):
            table_values[slot] = self._address(result)
        table = self._table(*table_values)
        start = ctypes.addressof(table)
        addresses = [start + part for part in self._parts]
        if self._code.run_many(addresses, cases, threads):
            return None
        return results[0] if self._single else results

    def _given_results(
        self, out: Any, batch: tuple[int, ...], arguments: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Create the result arrays, or return those of `out=` if they overlap nothing."""
        if out is None:
            return tuple([allocate_results((*batch, *shape)) for _, shape in self._results])
        given = (out,) if self._single else out
        if type(given) is not tuple or len(given) != len(self._results):
            return None
        taken = list(arguments)
        for array, (_, shape) in zip(given, self._results, strict=True):
            if not _is_plain(array) or not array.flags.writeable or array.shape != (*batch, *shape):
                return None
            if any(np.may_share_memory(array, other) for other in taken):
                return None
            taken.append(array)
        return given

    def _address(self, array: Array) -> int:
        """Return the address of an array's data; `array.ctypes.data` takes longer."""
        return ctypes.c_int64.from_address(id(array) + self._data).value


def failed_cases(
    signature: Signature, arrays: Sequence[Array], batch: tuple[int, ...], results: Sequence[Array]
) -> NDArray[np.bool_]:
    """Mark the cases with a non-finite input or result.

    Args:
        signature: Signature of the kernel.
        arrays: Its inputs, each of shape (..., *shape of one case).
        batch: Shape of the cases.
        results: Its outputs, of shape (*batch, *shape of one case).

    Returns:
        Bool array of shape `batch`.
    """
    failed = np.zeros(batch, dtype=bool)
    shapes = [item.shape for item in signature.inputs]
    shapes += [result.shape for result in signature.outputs]
    for shape, array in zip(shapes, [*arrays, *results], strict=True):
        axes = tuple(range(array.ndim - len(shape), array.ndim))
        failed |= ~np.isfinite(array).all(axis=axes)
    return failed


def explain_failure(
    source: Source, signature: Signature, arrays: Sequence[Array], failed: NDArray[np.bool_]
) -> TiburonError:
    """Return the error for the first failed case.

    Args:
        source: Source of the kernel: may explain the failure itself by ``explain(inputs, where)``,
            else its program is diagnosed, if all inputs are finite.
        signature: Signature of the kernel.
        arrays: Its inputs.
        failed: Which cases failed; at least one.

    Returns:
        The error to raise.
    """
    for item, array in zip(signature.inputs, arrays, strict=True):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            # the index in the array as the caller passed it
            place = tuple(int(k) for k in bad[0])
            index = (place[0] if len(place) == 1 else place) if place else None
            return NonFiniteError(item.name, index, float(array[place]))
    batch = failed.shape
    case = tuple(int(k) for k in np.argwhere(failed)[0]) if batch else ()
    inputs = {
        item.name: np.broadcast_to(array, batch + item.shape)[case]
        for item, array in zip(signature.inputs, arrays, strict=True)
    }
    where = f" in case {case[0] if len(case) == 1 else case}" if case else ""
    explain = getattr(source, "explain", None)
    known: TiburonError | None = explain(inputs, where) if explain else None
    if known is not None:
        return known
    cause = diagnose(source.program(), inputs)
    count = int(failed.sum())
    more = f" ({count} of {failed.size} cases failed)" if batch and count > 1 else ""
    reason = cause.message if cause else "a result beyond the range of float64"
    return DomainError(
        source.name,
        "a finite result",
        f"none{where}{more}: {reason}",
        advice="check the inputs and the model" + (", or pass errors='flag'" if batch else ""),
    )
