"""What a function of another framework needs of a kernel: its programs, its batch, its identity."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.errors import ShapeError, TiburonError
from tiburon.functions.compilation import compile as compile_function
from tiburon.model import Model
from tiburon.native.arguments import Result
from tiburon.native.cache_file import blake2b
from tiburon.native.kernel import Kernel, ProgramSource, kernel_of
from tiburon.trace.derivative import forward_derivative, reverse_derivative
from tiburon.trace.digest import program_digest
from tiburon.trace.program import Input, Program


def compiled_kernel(function: Any, model: Model | None, options: dict[str, Any]) -> Kernel:
    """Return the kernel of a function, which may be one already.

    Solvers and training leave the loops between their iterations: only `closure=True` checks them.
    """
    owner = getattr(getattr(function, "__self__", None), "owner", None)
    if isinstance(owner, Kernel) and model is None and not options:
        return owner
    return kernel_of(compile_function(function, model, **{"closure": False, **options}))


class KernelFunction:
    """A program with bound parameters, compiled for batches when it is first called.

    Attributes:
        program: The program.
        inputs: Its arguments, without parameters.
        outputs: Its results.
        name: A name that says what it computes: equal names mean equal numbers, in any process.
    """

    def __init__(self, program: Program, parameters: Any) -> None:
        self.program = program
        self._parameters = parameters
        self.inputs: tuple[Input, ...] = tuple(i for i in program.inputs if not i.parameter)
        self.outputs = tuple(Result(o.name, o.shape) for o in program.outputs)
        digest = blake2b(program_digest(program).encode(), digest_size=12)
        for name, values in parameters.items():
            digest.update(name.encode() + np.asarray(values, dtype=np.float64).tobytes())
        self.name = f"tiburon_{digest.hexdigest()}"
        self._kernel: Kernel | None = None

    @classmethod
    def of(cls, kernel: Kernel) -> "KernelFunction":
        """Return the function of a kernel."""
        return cls(kernel.program(), kernel.parameters)

    @property
    def kernel(self) -> Kernel:
        """The kernel, compiled for batches."""
        if self._kernel is None:
            source = ProgramSource(self.program)
            self._kernel = Kernel(source, self._parameters, part="many")
        return self._kernel

    def evaluate(self, arrays: Sequence[Any], threads: int | None) -> Sequence[Any]:
        """Return all results of contiguous arrays, one case or a batch."""
        kernel, single = self.kernel, self.program.single
        if all(x.ndim == len(item.shape) for x, item in zip(arrays, self.inputs, strict=True)):
            # one case is a batch of one, in the same code
            try:
                found = kernel.evaluate(*[x[None] for x in arrays], threads=threads)
                return [x[0] for x in ((found,) if single else found)]
            except TiburonError:
                # errors have the indices of the arguments as they are
                pass
        found = kernel.evaluate(*arrays, threads=threads)
        return (found,) if single else found

    def forward(self) -> "KernelFunction":
        """Return the function of changes along directions of all arguments."""
        names = [item.name for item in self.inputs]
        return KernelFunction(forward_derivative(self.program, by=names), self._parameters)

    def reverse(self) -> "KernelFunction":
        """Return the function of weighted sums differentiated by all arguments."""
        names = [item.name for item in self.inputs]
        return KernelFunction(reverse_derivative(self.program, by=names), self._parameters)

    def leads(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Return the leading dimensions of arguments of some shapes.

        Raises:
            ShapeError: If there are more or fewer arguments, or one does not end in its shape.
        """
        if len(shapes) != len(self.inputs):
            listed = ", ".join(item.name for item in self.inputs)
            expected = f"{len(self.inputs)} arguments ({listed})"
            raise ShapeError(self.program.name, expected, len(shapes))
        found = []
        for shape, item in zip(shapes, self.inputs, strict=True):
            size = len(item.shape)
            if len(shape) < size or tuple(shape[len(shape) - size :]) != item.shape:
                expected = ", ".join(["...", *map(str, item.shape)])
                raise ShapeError(item.name, f"shape ({expected})", tuple(shape))
            found.append(tuple(shape[: len(shape) - size]))
        return found

    def result(self, values: Sequence[Any]) -> Any:
        """Return results as the program gives them: one array by itself, or a tuple."""
        return values[0] if self.program.single else tuple(values)
