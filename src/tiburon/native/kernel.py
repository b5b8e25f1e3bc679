"""Compiled kernels: Python callables that run a traced program natively.

A kernel is a Python builtin. Called with float64 arrays of one case it runs at once; everything
else (lists, other number types, batches, `out=`, per-case parameters, errors) takes the checked
path in this file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import DomainError, NonFiniteError, OptionError, ShapeError
from tiburon.native.arguments import Array, as_floats, as_rows, batch_shape, pointers
from tiburon.native.code import Code, ProgramSource, Result, Source, code_for
from tiburon.native.engine import host
from tiburon.native.pool import default_threads, run_in_parts
from tiburon.native.trampoline import make_builtin
from tiburon.trace.diagnose import diagnose
from tiburon.trace.program import Input, Program

__all__ = ["Kernel", "ProgramSource", "Source", "make_kernel"]

WORTH_A_THREAD = 150e-6
"""Work per core below which threads cost more than they save [s]."""


def make_kernel(source: Source, parameters: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Compile a program, or find it compiled, and bind its parameters.

    Args:
        source: Where the program comes from.
        parameters: Value of each parameter input, by name.

    Returns:
        A callable. Its arguments are the program's, for one case or with leading batch
        dimensions; keywords: `out`, `errors` ("raise" or "flag"), `threads`, and any parameter
        by name, also one row per case. `callable.__self__` tells about it.
    """
    return Kernel(source, parameters or {}).builtin()


class Kernel:
    """A compiled program with its parameters bound.

    Attributes:
        name: Name of the program.
        parameters: Bound value of each parameter, read-only.
    """

    def __init__(self, source: Source, parameters: Mapping[str, Any]) -> None:
        self._source = source
        self._code: Code = code_for(source)
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
            value = np.ascontiguousarray(as_floats(item, parameters[item.name])).copy()
            if value.shape != item.shape:
                raise ShapeError(item.name, item.shape, value.shape)
            if not np.isfinite(value).all():
                raise NonFiniteError(item.name, int(np.argmin(np.isfinite(value))))
            value.flags.writeable = False
            self.parameters[item.name] = value
        self._seconds = 0.0
        self._builtin: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        listed = ", ".join(f"{i.name}{list(i.shape)}" for i in self.inputs)
        return f"<tiburon kernel {self.name}({listed})>"

    def __reduce__(self) -> Any:
        """Pickle as its source and parameters; the other side compiles or finds the code."""
        return Kernel, (self._source, dict(self.parameters))

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

    def program(self) -> Program:
        """Trace the program again, or return it."""
        return self._source.program()

    def with_parameters(self, **parameters: Any) -> Callable[..., Any]:
        """Return the same kernel with other parameter values; nothing is compiled."""
        return Kernel(self._source, {**self.parameters, **parameters}).builtin()

    def __getattr__(self, name: str) -> Any:
        # a pickled builtin asks its `__self__` for the attribute of its own name
        if name == self.__dict__.get("name"):
            return self.builtin()
        raise AttributeError(f"a tiburon kernel has no attribute {name!r}")

    def builtin(self) -> Callable[..., Any]:
        """Return the callable: a builtin, or the checked path where none can be made."""
        if self._builtin is None:
            signature = self._code.signature
            made = make_builtin(
                self,
                name=self.name,
                doc=self._doc(),
                kernel_address=self._code.one_address,
                argument_shapes=[item.shape for item in signature.arguments],
                parameters=list(self.parameters.values()),
                result_shapes=[result.shape for result in signature.outputs],
                single=signature.single,
                fallback=self.evaluate,
            )
            self._builtin = made or self.evaluate
        return self._builtin

    def _doc(self) -> str:
        arguments = ", ".join(item.name for item in self.inputs)
        lines = [f"{self.name}({arguments}, *, out=None, errors='raise', threads=None)", "--", ""]
        lines += [f"Compiled {self.name}; one case, or leading batch dimensions.", ""]
        lines += [f"{i.name}: shape (..., {', '.join(map(str, i.shape))})" for i in self.inputs]
        lines += [f"parameter {name}: shape {v.shape}" for name, v in self.parameters.items()]
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
                per case.

        Returns:
            The result, or a tuple of results.
        """
        if errors not in ("raise", "flag"):
            raise OptionError("errors", ("raise", "flag"), errors)
        signature = self._code.signature
        given = self._collect(arguments, named)
        items = signature.inputs
        arrays = [as_floats(item, given[item.name]) for item in items]
        batch = batch_shape(items, arrays)
        results = self._results(out, batch, arrays)
        status = self._run(items, arrays, batch, results, threads) if 0 not in batch else 0
        failed = None
        if status:
            failed = self._failed_cases(items, arrays, batch, results)
            if failed.any() and errors == "raise":
                self._raise(items, arrays, batch, failed)
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
        outputs = self.outputs
        if out is None:
            return [np.empty(batch + result.shape) for result in outputs]
        targets = self._targets(out)
        chosen = []
        for result, target in zip(outputs, targets, strict=True):
            expected = batch + result.shape
            if not isinstance(target, np.ndarray) or target.shape != expected:
                raise ShapeError("out", f"an array of shape {expected}", _kind_of(target))
            if target.dtype.kind != "f" or not target.flags.writeable:
                raise ShapeError("out", "a writable array of floats", _kind_of(target))
            plain = target.dtype == np.float64 and target.flags.c_contiguous
            apart = not any(np.may_share_memory(target, array) for array in arrays)
            # an input that is also an output would change under the kernel's hands
            chosen.append(target if plain and apart else np.empty(expected))
        return chosen

    def _targets(self, out: Any) -> Sequence[Any]:
        if self._code.signature.single:
            return (out,)
        if not isinstance(out, (tuple, list)) or len(out) != len(self.outputs):
            raise ShapeError("out", f"a tuple of {len(self.outputs)} arrays", _kind_of(out))
        return out

    def _deliver(self, out: Any, results: list[Array]) -> Any:
        if out is not None:
            for target, result in zip(self._targets(out), results, strict=True):
                if target is not result:
                    target[...] = result
            return out
        return results[0] if self._code.signature.single else tuple(results)

    def _run(
        self,
        items: Sequence[Input],
        arrays: Sequence[Array],
        batch: tuple[int, ...],
        results: list[Array],
        threads: int | None,
    ) -> int:
        if batch == ():
            contiguous = [np.ascontiguousarray(array) for array in arrays]
            tables = pointers(contiguous), pointers(results)
            return self._code.one(*[table.ctypes.data for table in tables])
        rows = [as_rows(item, array, batch) for item, array in zip(items, arrays, strict=True)]
        count = int(np.prod(batch))
        steps = np.array([step for _, step in rows], dtype=np.int64)
        jumps = np.array([int(np.prod(o.shape, dtype=int)) for o in self.outputs], dtype=np.int64)
        tables = pointers([row for row, _ in rows]), steps, pointers(results), jumps
        addresses = [table.ctypes.data for table in tables]
        many = self._code.many
        seconds = self._seconds or self._code.guess_seconds()
        limit = default_threads() if threads is None else threads
        if limit < 1:
            raise ShapeError("threads", "1 or more", threads or 0)
        useful = max(1, int(count * seconds / WORTH_A_THREAD))
        if min(limit, useful) > 1:
            return run_in_parts(
                lambda begin, end: many(*addresses, begin, end),
                count,
                threads=min(limit, useful),
                granule=host().lanes,
            )
        start = time.perf_counter()
        status = many(*addresses, 0, count)
        if count >= 16 * host().lanes:
            self._seconds = (time.perf_counter() - start) / count
        return status

    # failures

    def _failed_cases(
        self,
        items: Sequence[Input],
        arrays: Sequence[Array],
        batch: tuple[int, ...],
        results: list[Array],
    ) -> NDArray[np.bool_]:
        """Mark the cases that read or gave a non-finite number."""
        failed = np.zeros(batch, dtype=bool)
        shapes = [item.shape for item in items] + [result.shape for result in self.outputs]
        for shape, array in zip(shapes, [*arrays, *results], strict=True):
            axes = tuple(range(array.ndim - len(shape), array.ndim))
            failed |= ~np.isfinite(array).all(axis=axes)
        return failed

    def _raise(
        self,
        items: Sequence[Input],
        arrays: Sequence[Array],
        batch: tuple[int, ...],
        failed: NDArray[np.bool_],
    ) -> None:
        """Explain the first failed case."""
        case = tuple(int(k) for k in np.argwhere(failed)[0]) if batch else ()
        inputs = {}
        for item, array in zip(items, arrays, strict=True):
            full = np.broadcast_to(array, batch + item.shape)
            inputs[item.name] = full[case]
            bad = np.argwhere(~np.isfinite(inputs[item.name]))
            if len(bad):
                index = tuple(int(k) for k in bad[0])
                value = float(inputs[item.name][index])
                place = case + index
                raise NonFiniteError(item.name, place[0] if len(place) == 1 else place, value)
        cause = diagnose(self.program(), inputs)
        where = f" in case {case[0] if len(case) == 1 else case}" if case else ""
        count = int(failed.sum())
        more = f" ({count} of {failed.size} cases failed)" if batch and count > 1 else ""
        reason = cause.message if cause else "a result beyond the range of float64"
        raise DomainError(
            self.name,
            "a finite result",
            f"none{where}{more}: {reason}",
            advice="check the inputs and the model" + (", or pass errors='flag'" if batch else ""),
        )


def _kind_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"shape {value.shape} of type {value.dtype}"
    return type(value).__name__
