"""Functions of JAX from traced functions: native calls on the CPU, with our own derivatives.

Each program becomes one primitive of JAX. `vmap` makes it a batch of ours, `jvp` is the primitive
of the forward derivative, and the transpose of that is the primitive of the reverse derivative, so
that `grad`, `jacfwd`, `jacrev` and derivatives of any order work inside `jit`.
"""

import ctypes
import re
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.errors import DomainError, ShapeError
from tiburon.interfaces.extras import needed
from tiburon.interfaces.framework_function import KernelFunction, compiled_kernel
from tiburon.interfaces.xla_handler import write_handler
from tiburon.model import Model
from tiburon.native.kernel import Kernel
from tiburon.trace.walk import Backend, walk

EXTRA = "jax"


@public
def to_jax(
    function: Callable[..., Any],
    model: Model | None = None,
    *,
    portable: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """Return a function of JAX that computes on the CPU what `compile` computes.

    It takes float64 arrays of one case or with leading batch dimensions, works inside `jit`, and
    supports `vmap`, `jvp`, `grad` and derivatives of any order. Parameters of the robot are
    constants.
    Values that are not finite raise an error of JAX.

    Args:
        function: A function of this package, one of your own, or a kernel of `compile`.
        model: The robot, if it needs one.
        portable: Whether to write plain operations of `jax.numpy` instead of a call, for devices
            that this package does not compile for; at most `MOST_OPERATIONS`, because XLA's
            compilation grows with their square.
        **options: Further keywords of `compile`.

    Returns:
        The function; it takes arrays in the order of the kernel.

    Raises:
        MissingExtraError: If JAX is not installed.
        DomainError: If this JAX has another interface, 64-bit numbers are off, or a portable
            function has too many operations.

    Example:
        Accelerations, and their derivatives, of a thousand states::

            jax.config.update("jax_enable_x64", True)
            dynamics = tb.to_jax(tb.forward_dynamics, arm)
            by_q = jax.jit(jax.vmap(jax.jacfwd(dynamics)))(q, v, tau)
    """
    kernel = compiled_kernel(function, model, options)
    needed("jax", EXTRA, "to_jax")
    if portable:
        return _portable(kernel)
    own = _operation(KernelFunction.of(kernel))

    def call(*arrays: Any) -> Any:
        return own.function.result(own.bind(*arrays))

    call.__name__ = kernel.name
    call.__doc__ = f"{kernel.name} of tiburon: {', '.join(i.name for i in own.function.inputs)}"
    return call


MOST_OPERATIONS = 1000
"""Operations of a portable function at most: XLA compiles these within seconds on the CPU."""


class _Plain(Backend):
    """Operations of `jax.numpy`, which it counts; without it they are only counted."""

    def __init__(self, jnp: Any = None) -> None:
        self.count = 0
        self._functions: dict[str, Callable[..., Any]] = {}
        if jnp is None:
            return
        same = "sqrt sin cos tan sinh cosh tanh exp expm1 log sign floor hypot where abs"
        named = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
        named |= {"min": "minimum", "max": "maximum", "add": "add", "sub": "subtract"}
        named |= {"mul": "multiply", "div": "divide", "neg": "negative", "copy": "positive"}
        named |= {"less": "less", "less_equal": "less_equal", "equal": "equal", "pow": "power"}
        named |= {"and": "logical_and", "or": "logical_or", "not": "logical_not"}
        named |= {name: name for name in same.split()}
        self._functions = {key: getattr(jnp, name) for key, name in named.items()}
        self._functions["require"] = lambda condition, x: jnp.where(condition, x, jnp.nan)

    def operation(self, op: str, args: list[Any]) -> Any:
        """Return the result of an operation."""
        self.count += 1
        return self._functions[op](*args) if self._functions else None


def _portable(kernel: Kernel) -> Callable[..., Any]:
    """Return a kernel as operations of `jax.numpy` on arrays with leading dimensions."""
    import jax.numpy as jnp

    program = kernel.program()
    function = KernelFunction.of(kernel)
    counted = _Plain()
    walk(program, counted, [[None] * item.size for item in program.inputs])
    if counted.count > MOST_OPERATIONS:
        raise DomainError(
            f"to_jax: portable {kernel.name}",
            f"at most {MOST_OPERATIONS} operations, because XLA takes minutes to compile more",
            f"{counted.count}",
            advice="leave portable out on the CPU, or take a smaller robot",
        )

    def call(*arrays: Any) -> Any:
        leads = function.leads([tuple(np.shape(x)) for x in arrays])
        lead = np.broadcast_shapes(*leads)
        given, own = [], iter(zip(arrays, leads, strict=True))
        for item in program.inputs:
            if item.parameter:
                values = np.ravel(kernel.parameters[item.name])
                given.append([float(x) for x in values])
            else:
                array, before = next(own)
                flat = jnp.reshape(array, (*before, item.size))
                given.append([flat[..., k] for k in range(item.size)])
        found = walk(program, _Plain(jnp), given)
        results = [
            jnp.reshape(
                jnp.stack([jnp.broadcast_to(x, lead) for x in values], axis=-1),
                (*lead, *output.shape),
            )
            for values, output in zip(found, program.outputs, strict=True)
        ]
        return function.result(results)

    call.__name__ = kernel.name
    return call


_OPERATIONS: dict[str, "_Operation"] = {}
"""Primitives by the name of what they compute: functions of equal programs share one."""


def _operation(function: KernelFunction, linear: "_Operation | None" = None) -> "_Operation":
    key = function.name if linear is None else f"{function.name} linear"
    if key not in _OPERATIONS:
        _OPERATIONS[key] = _Operation(function, linear)
    return _OPERATIONS[key]


@cache
def _version() -> tuple[int, int]:
    """Return the version of the foreign function interface of this jaxlib."""
    jax = needed("jax", EXTRA, "to_jax")
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text() if header.exists() else ""
    found = [re.search(rf"#define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    if found[0] is None or found[1] is None or int(found[0][1]) != 0:
        raise DomainError(
            "to_jax",
            "version 0 of XLA's foreign function interface",
            f"jaxlib {jax.lib.__version__ if hasattr(jax.lib, '__version__') else ''} with another",
            advice="pip install 'tiburon[jax]', which pins versions that are tested",
        )
    return int(found[0][1]), int(found[1][1])


class _Operation:
    """A primitive of JAX, with what JAX asks of one."""

    def __init__(self, function: KernelFunction, linear: "_Operation | None") -> None:
        jax = needed("jax", EXTRA, "to_jax")
        from jax.extend.core import Primitive
        from jax.interpreters import ad, batching, mlir

        self.function, self._base = function, linear
        # equal programs as a linear map and as a function are two primitives
        self._primitive = p = Primitive(function.name + ("_linear" if linear else ""))
        p.multiple_results = True
        p.def_impl(jax.jit(p.bind))
        p.def_abstract_eval(self._abstract)
        ad.primitive_jvps[p] = self._jvp
        batching.primitive_batchers[p] = self._batch
        if linear is not None:
            ad.primitive_transposes[p] = self._transpose
        mlir.register_lowering(p, self._lower, platform="cpu")

    # -- calls -------------------------------------------------------------------------------------

    def bind(self, *arrays: Any) -> list[Any]:
        """Apply the primitive to arrays whose batch dimensions broadcast."""
        import jax.numpy as jnp

        given = [jnp.asarray(array) for array in arrays]
        leads = self.function.leads([array.shape for array in given])
        for array, item in zip(given, self.function.inputs, strict=True):
            if array.dtype != np.float64:
                raise DomainError(
                    item.name,
                    "an array of float64",
                    str(array.dtype),
                    advice='call jax.config.update("jax_enable_x64", True) before anything else, '
                    "and pass float64 arrays",
                )
        try:
            lead = np.broadcast_shapes(*leads)
        except ValueError:
            listed = ", ".join(map(str, leads))
            raise ShapeError("batch dimensions", "shapes that broadcast", listed) from None
        # one row for all cases is not repeated
        ready = [
            array if not own else jnp.broadcast_to(array, lead + item.shape)
            for array, own, item in zip(given, leads, self.function.inputs, strict=True)
        ]
        found: list[Any] = self._primitive.bind(*ready)
        return found

    def _abstract(self, *arrays: Any) -> list[Any]:
        from jax.core import ShapedArray

        leads = self.function.leads([array.shape for array in arrays])
        lead = np.broadcast_shapes(*leads)
        return [
            ShapedArray(lead + output.shape, np.dtype(np.float64))
            for output in self.function.outputs
        ]

    @cached_property
    def _target(self) -> str:
        """Name under which XLA knows the handler, registered on first use."""
        import jax

        kernel = self.function.kernel
        code = write_handler(kernel.native("many"), kernel.name, _version())
        pointer = ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address("handler"))
        # XLA keeps the address as long as the process lives
        _KEPT.append((code, kernel, pointer))
        name = self.function.name
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(pointer), platform="cpu", api_version=1)
        return name

    def _lower(self, context: Any, *arrays: Any) -> Any:
        import jax

        return jax.ffi.ffi_lowering(self._target)(context, *arrays)

    # -- derivatives -------------------------------------------------------------------------------

    @cached_property
    def _forward(self) -> "_Operation":
        return _operation(self.function.forward(), self)

    @cached_property
    def _reverse(self) -> "_Operation":
        return _operation(self.function.reverse())

    def _jvp(self, arrays: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        import jax.numpy as jnp
        from jax.interpreters import ad

        ready = [
            jnp.zeros_like(array) if type(tangent) is ad.Zero else tangent
            for array, tangent in zip(arrays, tangents, strict=True)
        ]
        return self.bind(*arrays), self._forward.bind(*arrays, *ready)

    def _transpose(self, weights: Any, *arrays: Any) -> list[Any]:
        import jax.numpy as jnp
        from jax.interpreters import ad

        base = self._base
        assert base is not None
        count = len(base.function.inputs)
        ready = [jnp.zeros(w.aval.shape) if type(w) is ad.Zero else w for w in weights]
        found = base._reverse.bind(*arrays[:count], *ready)
        answers: list[Any] = [None] * count
        for got, place in zip(found, arrays[count:], strict=True):
            shape = place.aval.shape
            # what all cases share gets the sum over them
            extra = tuple(range(got.ndim - len(shape)))
            answers.append(got if got.shape == shape else got.sum(extra))
        return answers

    def _batch(self, arrays: Any, dims: Any) -> tuple[list[Any], list[int]]:
        import jax.numpy as jnp

        items = self.function.inputs
        size = next(a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None)
        moved = []
        for array, dim, item in zip(arrays, dims, items, strict=True):
            if dim is not None:
                moved.append(jnp.moveaxis(array, dim, 0))
            elif array.ndim == len(item.shape):
                moved.append(array)
            else:
                moved.append(jnp.broadcast_to(array[None], (size, *array.shape)))
        # behind the new dimension, arguments without the other ones get them
        deepest = max(a.ndim - len(i.shape) for a, i in zip(moved, items, strict=True))
        ready = []
        for array, item in zip(moved, items, strict=True):
            own = array.ndim - len(item.shape)
            if own in (0, deepest):
                ready.append(array)
            else:
                filled = (array.shape[0], *[1] * (deepest - own), *array.shape[1:])
                ready.append(array.reshape(filled))
        return self.bind(*ready), [0] * len(self.function.outputs)


_KEPT: list[Any] = []
"""Handlers that XLA may call, and what they call."""
