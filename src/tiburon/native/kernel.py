"""Compiled kernels: Python callables that run a traced program natively.

A kernel is a Python builtin. Called with float64 arrays of one case it runs at once; everything
else (lists, other number types, batches, `out=`, per-case parameters, errors) takes the checked
path in this file.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from tiburon.errors import DomainError, NonFiniteError, OptionError, ShapeError
from tiburon.native.arguments import Array, as_floats, batch_shape
from tiburon.native.code import Code, code_for
from tiburon.native.failure import explain_failure, failed_cases
from tiburon.native.layout import object_layout
from tiburon.native.plain_batch import PlainBatch
from tiburon.native.result_arrays import checked_targets, deliver
from tiburon.native.signature import Result
from tiburon.native.source import ProgramSource, Source
from tiburon.native.trampoline import AddressTable, make_builtin
from tiburon.native.trampoline_assembly import Form
from tiburon.trace.program import Input, Program

if TYPE_CHECKING:
    from tiburon.native.interpreted import InterpretedCode
    from tiburon.native.row_loop import RowLoop

__all__ = ["Kernel", "ProgramSource", "Source", "make_kernel"]


class NamedNumbers(Protocol):
    """What stands behind the parameters of a kernel: numbers that callers know by other names."""

    def rows(self, given: Any) -> Mapping[str, Any]:
        """Return values of parameter inputs for values by the callers' names."""

    def refusal(self, table: str) -> Exception | None:
        """Return what to raise for a parameter input by itself; None if it may be given."""


def make_kernel(
    source: Source,
    parameters: Mapping[str, Any] | None = None,
    numbers: NamedNumbers | None = None,
) -> Callable[..., Any]:
    """Compile a program, or find it compiled, and bind its parameters.

    Args:
        source: Where the program comes from.
        parameters: Value of each parameter input, by name.
        numbers: Tells what values by other names, given as ``parameters={...}``, come to; None
            where callers give parameter inputs themselves.

    Returns:
        A callable. Its arguments are the program's, for one case or with leading batch
        dimensions; keywords: `out`, `errors` ("raise" or "flag"), `threads`, and any parameter
        by name, also one row per case. `callable.__self__` tells about it.
    """
    return Kernel(source, parameters or {}, numbers).builtin()


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
        numbers: NamedNumbers | None = None,
        code: Code | InterpretedCode | None = None,
    ) -> None:
        self._source = source
        self._numbers = numbers
        self._code = code_for(source) if code is None else code
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
                raise _non_finite(item, value)
            value.flags.writeable = False
            self.parameters[item.name] = value
        self._builtin: Callable[..., Any] | None = None
        layout = object_layout()
        self._row_loop: RowLoop | None = None
        self._plain: PlainBatch | None = None
        if isinstance(self._code, Code) and layout is not None:
            self._plain = PlainBatch(self._code, self.parameters, layout)

    def __repr__(self) -> str:
        listed = ", ".join(f"{i.name}{list(i.shape)}" for i in self.inputs)
        return f"<tiburon kernel {self.name}({listed})>"

    def __reduce__(self) -> Any:
        """Pickle as its source and parameters; the other side compiles or finds the code."""
        return Kernel, (self._source, dict(self.parameters), self._numbers)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What callers pass, in order."""
        return self._code.signature.arguments

    @property
    def outputs(self) -> tuple[Result, ...]:
        """What callers get, in order."""
        return self._code.signature.outputs

    @property
    def source(self) -> Source:
        """Where the program comes from."""
        return self._source

    def row_loop(self) -> RowLoop:
        """Return the native loop around it; there must be machine code."""
        if self._row_loop is None:
            from tiburon.native.row_loop import RowLoop

            assert isinstance(self._code, Code)
            self._row_loop = RowLoop(self._code)
        return self._row_loop

    def program(self) -> Program:
        """Trace the program again, or return it."""
        return self._source.program()

    def with_parameters(self, **parameters: Any) -> Callable[..., Any]:
        """Return the same kernel with other parameter values; nothing is compiled.

        Args:
            **parameters: Values of parameter inputs; or ``parameters={...}`` as calls take it.
        """
        given = {**self.parameters, **self._by_input(parameters)}
        return Kernel(self._source, given, self._numbers, self._code).builtin()

    def _by_input(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return keywords with values by name replaced by those of parameter inputs."""
        numbers = self._numbers
        if numbers is None:
            return named
        for name in named:
            refused = numbers.refusal(name) if name in self.parameters else None
            if refused is not None:
                raise refused
        if "parameters" not in named:
            return named
        rest = {name: value for name, value in named.items() if name != "parameters"}
        found = {} if named["parameters"] is None else numbers.rows(named["parameters"])
        return rest | {name: rows for name, rows in found.items() if name in self.parameters}

    def __getattr__(self, name: str) -> Any:
        # a pickled builtin asks its `__self__` for the attribute of its own name
        if "name" in self.__dict__ and name == self._builtin_name():
            return self.builtin()
        raise AttributeError(f"a tiburon kernel has no attribute {name!r}")

    def builtin(self) -> Callable[..., Any]:
        """Return the callable: a builtin, or the checked path where none can be made."""
        if self._builtin is None:
            self._builtin = self._make_builtin() or self.evaluate
        return self._builtin

    def _make_builtin(self) -> Callable[..., Any] | None:
        address = self._code.one_address
        if address is None:
            return None
        signature = self._code.signature
        slots = range(len(signature.inputs))
        form = Form(
            argument_dims=tuple(len(item.shape) for item in signature.arguments),
            argument_slots=tuple(k for k in slots if not signature.inputs[k].parameter),
            parameter_slots=tuple(k for k in slots if signature.inputs[k].parameter),
            result_dims=tuple(len(result.shape) for result in signature.outputs),
            single=signature.single,
        )
        return make_builtin(
            self,
            name=self._builtin_name(),
            doc=self._doc(),
            kernel_address=address,
            form=form,
            argument_shapes=[item.shape for item in signature.arguments],
            parameters=list(self.parameters.values()),
            result_shapes=[result.shape for result in signature.outputs],
            fallback=self.evaluate,
        )

    def _builtin_name(self) -> str:
        """Return the name, or `name_` if it means something else on the builtin's `__self__`."""
        taken = hasattr(AddressTable, self.name) or hasattr(type(self), self.name)
        return f"{self.name}_" if taken or self.name in self.__dict__ else self.name

    def _doc(self) -> str:
        """Describe the kernel; the first line is what `inspect.signature` reads."""
        lines: list[str] = []
        names = [item.name for item in self.inputs]
        if all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
            listed = ["*", "out=None", "errors='raise'", "threads=None"]
            more = ["**parameters"] if self.parameters else []
            more = more if self._numbers is None else ["time=None", "parameters=None"]
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
        """Run the kernel on anything NumPy can read, one case or a batch.

        Args:
            *arguments: The program's arguments, shape (..., *shape of one case); leading
                dimensions broadcast.
            out: Array (or tuple of arrays) to write the result to.
            errors: What non-finite numbers do: "raise", or "flag" to return a pair: the result
                with NaN in each failed case, and a bool array that marks them.
            threads: Cores to use at most; by default as many as are worth it.
            **named: Arguments by name, and parameters that replace the bound ones, also one row
                per case; of kernels of robots ``parameters={...}``, values by name.

        Returns:
            The result, or a tuple of results.
        """
        if errors not in ("raise", "flag"):
            raise OptionError("errors", ("raise", "flag"), errors)
        limit = None if threads is None else _thread_limit(threads)
        if self._plain is not None and errors == "raise" and not named:
            plain = self._plain.run(arguments, out, limit)
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
                raise explain_failure(self.name, self.program, signature, arrays, failed)
            for result in results:
                result[failed] = np.nan
        answer = self._deliver(out, results)
        if errors == "raise":
            return answer
        return answer, np.zeros(batch, dtype=bool) if failed is None else failed

    def _collect(self, arguments: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        """Match positional and named values with inputs."""
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
        """Make the arrays that native code writes, or use those the caller gave."""
        shapes = [batch + result.shape for result in self.outputs]
        if out is None:
            return [np.empty(shape) for shape in shapes]
        chosen: list[Array] = []
        for target in checked_targets(out, shapes, self._code.signature.single):
            plain = target.dtype == np.float64 and target.flags.c_contiguous
            # an input that is also an output would change under the kernel's hands
            apart = not any(np.may_share_memory(target, other) for other in arrays)
            usable = plain and apart and target.flags.aligned
            chosen.append(target if usable else np.empty(target.shape))
        return chosen

    def _deliver(self, out: Any, results: list[Array]) -> Any:
        single = self._code.signature.single
        if out is not None:
            deliver((out,) if single else out, results)
            return out
        # one number is a number, as NumPy has it
        answers = tuple(result[()] for result in results)
        return answers[0] if single else answers


def _thread_limit(threads: Any) -> int:
    if not isinstance(threads, (int, np.integer)) or threads < 1:
        raise DomainError("threads", "a whole number of at least 1", repr(threads))
    return int(threads)


def _leading(shape: tuple[int, ...]) -> str:
    return f"({', '.join(['...', *map(str, shape)])})"


def _non_finite(item: Input, value: Array) -> NonFiniteError:
    place = tuple(int(k) for k in np.argwhere(~np.isfinite(value))[0])
    index = (place[0] if len(place) == 1 else place) if place else None
    return NonFiniteError(item.name, index, float(value[place]))
