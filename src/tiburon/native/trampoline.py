"""The way from Python into a kernel, emitted as machine code: no extension module, no compiler.

A trampoline is the C function behind a Python builtin (METH_FASTCALL | METH_KEYWORDS). It takes
float64 arrays of exactly the expected shape, makes the output arrays, calls the kernel and returns.
Anything else (lists, other types, batches, keywords, a status that is not 0) goes to a Python
function given at creation.

Every address is read from a table that the builtin's `__self__` (an array) holds. The machine code
itself depends on the numbers of arguments, results and dimensions only, so few trampolines exist
and they are cached like kernels.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.native.engine import LoadedCode, load_module
from tiburon.native.layout import Layout, object_layout
from tiburon.native.trampoline_assembly import Form, Place, trampoline_assembly

_FASTCALL_KEYWORDS = 0x0080 | 0x0002


@functools.cache
def _trampoline(form: Form) -> LoadedCode:
    layout = object_layout()
    assert layout is not None
    return load_module("trampoline", trampoline_assembly(layout, form))


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class AddressTable(np.ndarray[Any, Any]):
    """The `__self__` of a builtin kernel: addresses and sizes that its trampoline reads.

    Everything else one may ask a kernel (`inputs`, `outputs`, `parameters`, ...) is passed on to
    the object it was made for.
    """

    # views of the table have none: only the original belongs to a kernel
    owner: Any = None
    _keep: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        """Pass questions on to the kernel."""
        return getattr(self.owner, name)

    def __reduce__(self) -> Any:
        """Pickle as the kernel it belongs to."""
        return _table_of, (self.owner,)

    def __repr__(self) -> str:
        return repr(self.owner)

    __str__ = __repr__


def _table_of(owner: Any) -> Any:
    return owner.builtin().__self__


@functools.cache
def _method(name: str, doc: str, address: int) -> _MethodDef:
    """Make what CPython calls a method definition.

    They are kept for good: a builtin that the garbage collector takes apart together with its
    `__self__` still looks at its definition. Kernels that differ in parameters only share one.
    """
    return _MethodDef(name.encode(), address, _FASTCALL_KEYWORDS, doc.encode())


def make_builtin(
    owner: Any,
    *,
    name: str,
    doc: str,
    kernel_address: int,
    form: Form,
    argument_shapes: Sequence[tuple[int, ...]],
    parameters: Sequence[NDArray[np.float64]],
    result_shapes: Sequence[tuple[int, ...]],
    fallback: Callable[..., Any],
) -> Callable[..., Any] | None:
    """Make a Python builtin that calls a kernel.

    Args:
        owner: What `builtin.__self__` speaks for; its attribute `name` must be the builtin.
        name: Name of the builtin.
        doc: Its documentation.
        kernel_address: Address of the kernel's function `one`.
        form: What decides the code of its trampoline.
        argument_shapes: Shape of each argument.
        parameters: Arrays bound to the kernel's other inputs; kept alive.
        result_shapes: Shape of each result.
        fallback: Called with the same arguments for everything that is not plain.

    Returns:
        The builtin, or None if this interpreter's layout is unknown.
    """
    layout = object_layout()
    if layout is None:
        return None
    code = _trampoline(form)
    numbers = _fixed_part(layout, kernel_address, fallback)
    numbers += [size for shape in argument_shapes for size in shape]
    numbers += [array.ctypes.data for array in parameters]
    numbers += [size for shape in result_shapes for size in shape]
    table = np.array(numbers, dtype=np.int64).view(AddressTable)
    table.flags.writeable = False
    method = _method(name, doc, code.address("trampoline"))
    table.owner = owner
    table._keep = (code, fallback, tuple(parameters))
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    builtin: Callable[..., Any] = create(ctypes.addressof(method), table, None)
    return builtin


def _fixed_part(layout: Layout, kernel: int, fallback: Callable[..., Any]) -> list[int]:
    fixed = {
        Place.KERNEL: kernel,
        Place.FALLBACK: id(fallback),
        Place.ARRAY_TYPE: layout.array_type,
        Place.FLOAT64: layout.float64,
        Place.FLOAT_TYPE: layout.float_type,
        Place.NUMBER_TYPE: layout.number_type,
        Place.ARRAY_NEW: layout.array_new,
        Place.NUMBER_NEW: layout.number_new,
        Place.VECTORCALL: layout.vectorcall,
        Place.DECREF: layout.decref,
        Place.TUPLE_NEW: layout.tuple_new,
        Place.TUPLE_SET: layout.tuple_set,
    }
    return [fixed[Place(place)] for place in range(Place.END)]
