"""Functions of PyTorch from traced functions: operators on the CPU, with our own derivatives.

Each program becomes one operator of `torch.library`, which reads and writes tensors in place. Its
backward pass is the operator of the reverse derivative, so that gradients of gradients work, too.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.errors import DomainError, ShapeError
from tiburon.interfaces.extras import needed
from tiburon.interfaces.framework_function import KernelFunction, compiled_kernel
from tiburon.model import Model

EXTRA = "torch"


@public
def to_torch(
    function: Callable[..., Any],
    model: Model | None = None,
    *,
    threads: int | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Return a function of PyTorch that computes on the CPU what `compile` computes.

    It takes float64 tensors of one case or with leading batch dimensions, and takes part in
    autograd and `torch.compile`. Parameters of the robot are constants.

    Args:
        function: A function of this package, one of your own, or a kernel of `compile`.
        model: The robot, if it needs one.
        threads: Most threads for a batch; as many as are worthwhile by default.
        **options: Further keywords of `compile`.

    Returns:
        The function; it takes tensors in the order of the kernel.

    Raises:
        MissingExtraError: If PyTorch is not installed.

    Example:
        ``acceleration = tb.to_torch(tb.forward_dynamics, arm)(q, v, tau)``
    """
    if threads is not None:
        threads = at_least("threads", threads, 1)
    kernel = compiled_kernel(function, model, options)
    needed("torch", EXTRA, "to_torch")
    own = _operator(KernelFunction.of(kernel), threads)

    def call(*tensors: Any) -> Any:
        return own.call(*tensors)

    call.__name__ = kernel.name
    call.__doc__ = f"{kernel.name} of tiburon: {', '.join(i.name for i in own.function.inputs)}"
    return call


_OPERATORS: dict[str, "_Operator"] = {}
"""Operators by the name of what they compute: PyTorch knows each name once."""


def _operator(function: KernelFunction, threads: int | None) -> "_Operator":
    key = function.name if threads is None else f"{function.name}_{threads}_threads"
    if key not in _OPERATORS:
        _OPERATORS[key] = _Operator(function, key, threads)
    return _OPERATORS[key]


class _Operator:
    """An operator of PyTorch."""

    def __init__(self, function: KernelFunction, name: str, threads: int | None) -> None:
        torch = needed("torch", EXTRA, "to_torch")
        self._torch, self.function, self._threads = torch, function, threads
        # one result of a dict of one is a tuple in our kernels, and a tensor for the operator
        self._several = len(function.outputs) > 1
        arguments = ", ".join(f"Tensor a{k}" for k in range(len(function.inputs)))
        results = ", ".join(["Tensor"] * len(function.outputs))
        schema = f"({arguments}) -> {f'({results})' if self._several else results}"
        # half the time of an operator that `custom_op` makes: results are never views of arguments
        library, named = torch.library, f"tiburon::{name}"
        library.define(named, schema, tags=torch.Tag.pt2_compliant_tag)
        library.impl(named, "cpu", self._compute)
        library.register_fake(named, self._shaped)
        library.register_autograd(named, self._backward, setup_context=self._save)
        self._own = getattr(torch.ops.tiburon, name).default

    def call(self, *tensors: Any) -> Any:
        """Apply the operator; one result by itself, several as a tuple."""
        self._check(tensors)
        # operators neither pass through transforms of torch.func nor carry tangents of forward
        # mode; functions do
        torch = self._torch
        transformed = (
            torch._C._are_functorch_transforms_active()
            or torch.autograd.forward_ad._current_level >= 0
        )
        found = self.transformable.apply(*tensors) if transformed else self._own(*tensors)
        return self.function.result(found if self._several else (found,))

    def _check(self, tensors: Any) -> None:
        torch = self._torch
        self.function.leads([tuple(getattr(x, "shape", ())) for x in tensors])
        for tensor, item in zip(tensors, self.function.inputs, strict=True):
            if not isinstance(tensor, torch.Tensor):
                kind = type(tensor).__name__
                raise DomainError(item.name, "a tensor", kind, advice="write torch.tensor(...)")
            if tensor.dtype != torch.float64 or tensor.device.type != "cpu":
                given = f"{tensor.dtype} on {tensor.device}"
                raise DomainError(
                    item.name,
                    "a tensor of float64 on the CPU",
                    given,
                    advice='write x.to("cpu", torch.float64)',
                )

    def _room(self, tensors: Any) -> list[Any]:
        leads = self.function.leads([tuple(tensor.shape) for tensor in tensors])
        try:
            lead = np.broadcast_shapes(*leads)
        except ValueError:
            listed = ", ".join(map(str, leads))
            raise ShapeError("batch dimensions", "shapes that broadcast", listed) from None
        return [
            tensors[0].new_empty(lead + output.shape, dtype=self._torch.float64)
            for output in self.function.outputs
        ]

    def _compute(self, *tensors: Any) -> Any:
        given = [tensor.detach().contiguous().numpy() for tensor in tensors]
        found = self.function.evaluate(given, self._threads)
        # values without dimensions are scalars
        made = tuple([self._torch.from_numpy(np.asarray(values)) for values in found])
        return made if self._several else made[0]

    def _shaped(self, *tensors: Any) -> Any:
        made = self._room(tensors)
        return tuple(made) if self._several else made[0]

    def _mapped(self, in_dims: Any, tensors: Any) -> Any:
        """Apply the operator to a mapped dimension, which becomes the first of a batch."""
        sizes = [len(item.shape) for item in self.function.inputs]
        moved = [
            tensor if at is None else tensor.movedim(at, 0)
            for tensor, at in zip(tensors, in_dims, strict=True)
        ]
        # leading dimensions that cases of the map have themselves
        own = [
            tensor.dim() - size - (at is not None)
            for tensor, size, at in zip(moved, sizes, in_dims, strict=True)
        ]
        given = []
        for tensor, count, at in zip(moved, own, in_dims, strict=True):
            if at is not None:
                ones = (1,) * (max(own) - count)
                tensor = tensor.reshape((tensor.shape[0], *ones, *tensor.shape[1:]))
            given.append(tensor)
        found = self.transformable.apply(*given)
        return found, (0,) * len(found) if self._several else 0

    @cached_property
    def transformable(self) -> Any:
        """The operator as a function of autograd that `torch.func` can transform."""
        own = self

        class Transformable(self._torch.autograd.Function):  # type: ignore[name-defined,misc]
            """One program with its derivatives in both modes and its batch."""

            @staticmethod
            def forward(*tensors: Any) -> Any:
                return own._own(*tensors)

            @staticmethod
            def setup_context(context: Any, inputs: Any, output: Any) -> None:
                context.save_for_backward(*inputs)
                context.save_for_forward(*inputs)

            @staticmethod
            def backward(context: Any, *weights: Any) -> Any:
                inputs = context.saved_tensors
                found = own._reverse.transformable.apply(*inputs, *weights)
                return own._gathered(inputs, found)

            @staticmethod
            def jvp(context: Any, *directions: Any) -> Any:
                inputs = context.saved_tensors
                still = [own._torch.zeros_like(x) for x in inputs]
                moving = [y if x is None else x for x, y in zip(directions, still, strict=True)]
                return own._forward.transformable.apply(*inputs, *moving)

            @staticmethod
            def vmap(info: Any, in_dims: Any, *tensors: Any) -> Any:
                return own._mapped(in_dims, tensors)

        return Transformable

    @cached_property
    def _reverse(self) -> "_Operator":
        return _operator(self.function.reverse(), self._threads)

    @cached_property
    def _forward(self) -> "_Operator":
        return _operator(self.function.forward(), self._threads)

    def _save(self, ctx: Any, inputs: Any, output: Any) -> None:
        # PyTorch passes these by name
        ctx.save_for_backward(*inputs)

    def _backward(self, context: Any, *weights: Any) -> Any:
        inputs = context.saved_tensors
        return self._gathered(inputs, self._reverse._own(*inputs, *weights))

    def _gathered(self, inputs: Any, found: Any) -> Any:
        """Return derivatives by arguments; what all cases share gets the sum over them."""
        listed = found if self._reverse._several else (found,)
        pairs = zip(inputs, listed, strict=True)
        return tuple(
            got.sum_to_size(tensor.shape) if got.shape != tensor.shape else got
            for tensor, got in pairs
        )
