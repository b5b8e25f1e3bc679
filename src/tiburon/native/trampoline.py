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

from tiburon.native import cache
from tiburon.native.engine import LoadedCode, compile_module
from tiburon.native.layout import CONTIGUOUS_ALIGNED, FLOAT64_NUMBER, Layout, object_layout

_FASTCALL_KEYWORDS = 0x0080 | 0x0002

# places of the table's fixed part
_KERNEL, _FALLBACK, _ARRAY_TYPE, _FLOAT64, _ARRAY_NEW = range(5)
_VECTORCALL, _DECREF, _TUPLE_NEW, _TUPLE_SET, _FIXED_END = range(5, 10)


class _Text:
    """A few lines of LLVM assembly with fresh names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def emit(self, instruction: str) -> str:
        self._count += 1
        self.lines.append(f"  %x{self._count} = {instruction}")
        return f"%x{self._count}"

    def load(self, kind: str, base: str, offset: int) -> str:
        place = self.emit(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.emit(f"load {kind}, ptr {place}, align {4 if kind == 'i32' else 8}")

    def go_on_if(self, condition: str, label: str) -> None:
        self.lines += [f"  br i1 {condition}, label %{label}, label %slow", f"{label}:"]


def _assembly(
    argument_dims: Sequence[int], parameter_count: int, result_dims: Sequence[int], single: bool
) -> str:
    """Write the trampoline for given numbers of dimensions of arguments and results."""
    layout = object_layout()
    assert layout is not None
    text = _Text()
    arguments, results = len(argument_dims), len(result_dims)
    table = text.load("ptr", "%self", layout.data)
    words = text.emit("icmp eq ptr %names, null")
    count = text.emit(f"icmp eq i64 %count, {arguments}")
    text.go_on_if(text.emit(f"and i1 {words}, {count}"), "arguments")
    array_type = text.load("ptr", table, 8 * _ARRAY_TYPE)
    float64 = text.load("ptr", table, 8 * _FLOAT64)
    place = _FIXED_END
    for number, nd in enumerate(argument_dims):
        array = text.load("ptr", "%args", 8 * number)
        kind = text.load("ptr", array, layout.type)
        text.go_on_if(text.emit(f"icmp eq ptr {kind}, {array_type}"), f"array{number}")
        descr = text.load("ptr", array, layout.descr)
        flags = text.load("i32", array, layout.flags)
        masked = text.emit(f"and i32 {flags}, {CONTIGUOUS_ALIGNED}")
        dimensions = text.load("i32", array, layout.nd)
        fits = text.emit(f"icmp eq ptr {descr}, {float64}")
        for condition in (
            text.emit(f"icmp eq i32 {masked}, {CONTIGUOUS_ALIGNED}"),
            text.emit(f"icmp eq i32 {dimensions}, {nd}"),
        ):
            fits = text.emit(f"and i1 {fits}, {condition}")
        text.go_on_if(fits, f"shape{number}")
        if nd:
            dims = text.load("ptr", array, layout.dims)
            for axis in range(nd):
                given = text.load("i64", dims, 8 * axis)
                wanted = text.load("i64", table, 8 * place)
                text.go_on_if(text.emit(f"icmp eq i64 {given}, {wanted}"), f"axis{number}_{axis}")
                place += 1
        data = text.load("ptr", array, layout.data)
        slot = text.emit(f"getelementptr ptr, ptr %inputs, i64 {number}")
        text.lines.append(f"  store ptr {data}, ptr {slot}, align 8")
    for number in range(parameter_count):
        data = text.load("ptr", table, 8 * place)
        slot = text.emit(f"getelementptr ptr, ptr %inputs, i64 {arguments + number}")
        text.lines.append(f"  store ptr {data}, ptr {slot}, align 8")
        place += 1
    array_new = text.load("ptr", table, 8 * _ARRAY_NEW)
    made: list[str] = []
    for number, nd in enumerate(result_dims):
        dims = text.emit(f"getelementptr i8, ptr {table}, i64 {8 * place}")
        place += nd
        result = text.emit(
            f"call ptr {array_new}(ptr {array_type}, i32 {nd}, ptr {dims}, i32 {FLOAT64_NUMBER}, "
            "ptr null, ptr null, i32 0, i32 0, ptr null)"
        )
        text.go_on_if(text.emit(f"icmp ne ptr {result}, null"), f"made{number}")
        data = text.load("ptr", result, layout.data)
        slot = text.emit(f"getelementptr ptr, ptr %outputs, i64 {number}")
        text.lines.append(f"  store ptr {data}, ptr {slot}, align 8")
        made.append(result)
    kernel = text.load("ptr", table, 8 * _KERNEL)
    status = text.emit(f"call i32 {kernel}(ptr %inputs, ptr %outputs)")
    good = text.emit(f"icmp eq i32 {status}, 0")
    text.lines += [f"  br i1 {good}, label %deliver, label %discard", "deliver:"]
    if single:
        text.lines.append(f"  ret ptr {made[0]}")
    else:
        tuple_new = text.load("ptr", table, 8 * _TUPLE_NEW)
        tuple_set = text.load("ptr", table, 8 * _TUPLE_SET)
        bundle = text.emit(f"call ptr {tuple_new}(i64 {results})")
        for number, result in enumerate(made):
            text.emit(f"call i32 {tuple_set}(ptr {bundle}, i64 {number}, ptr {result})")
        text.lines.append(f"  ret ptr {bundle}")
    text.lines.append("discard:")
    decref = text.load("ptr", table, 8 * _DECREF)
    text.lines += [f"  call void {decref}(ptr {result})" for result in made]
    text.lines += ["  br label %slow", "slow:"]
    slow_table = text.load("ptr", "%self", layout.data)
    vectorcall = text.load("ptr", slow_table, 8 * _VECTORCALL)
    fallback = text.load("ptr", slow_table, 8 * _FALLBACK)
    answer = text.emit(f"call ptr {vectorcall}(ptr {fallback}, ptr %args, i64 %count, ptr %names)")
    return "\n".join(
        [
            "define ptr @trampoline(ptr %self, ptr %args, i64 %count, ptr %names) {",
            "entry:",
            f"  %inputs = alloca [{arguments + parameter_count + 1} x ptr], align 16",
            f"  %outputs = alloca [{results + 1} x ptr], align 16",
            *text.lines,
            f"  ret ptr {answer}",
            "}",
            "",
        ]
    )


@functools.cache
def _trampoline(
    argument_dims: tuple[int, ...], parameter_count: int, result_dims: tuple[int, ...], single: bool
) -> LoadedCode:
    layout = object_layout()
    key = cache.entry_key(
        "trampoline",
        repr((argument_dims, parameter_count, result_dims, single)),
        repr((layout.type, layout.data, layout.descr) if layout else None),
    )
    entry = cache.load_entry(key)
    if entry is None:
        code = compile_module(_assembly(argument_dims, parameter_count, result_dims, single))
        cache.store_entry(key, {"name": "trampoline"}, code)
    else:
        code = entry[1]
    return LoadedCode(code)


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

    owner: Any
    _keep: tuple[Any, ...]

    def __array_finalize__(self, other: Any) -> None:
        """Leave views of the table without an owner: only the original belongs to a kernel."""

    def __getattr__(self, name: str) -> Any:
        """Pass questions on to the kernel."""
        if name in ("owner", "_keep"):
            raise AttributeError(name)
        return getattr(self.owner, name)

    def __reduce__(self) -> Any:
        """Pickle as the kernel it belongs to."""
        return _table_of, (self.owner,)

    def __repr__(self) -> str:
        return repr(self.owner)

    __str__ = __repr__


def _table_of(owner: Any) -> Any:
    return owner.builtin().__self__


def make_builtin(
    owner: Any,
    *,
    name: str,
    doc: str,
    kernel_address: int,
    argument_shapes: Sequence[tuple[int, ...]],
    parameters: Sequence[NDArray[np.float64]],
    result_shapes: Sequence[tuple[int, ...]],
    single: bool,
    fallback: Callable[..., Any],
) -> Callable[..., Any] | None:
    """Make a Python builtin that calls a kernel.

    Args:
        owner: What `builtin.__self__` speaks for; must have the attribute `name` give the builtin.
        name: Name of the builtin.
        doc: Its documentation.
        kernel_address: Address of the kernel's function `one`.
        argument_shapes: Shape of each argument.
        parameters: Arrays bound to the kernel's inputs after the arguments; kept alive.
        result_shapes: Shape of each result.
        single: Return the only result itself rather than a tuple.
        fallback: Called with the same arguments for everything that is not plain.

    Returns:
        The builtin, or None if this interpreter's layout is unknown.
    """
    layout = object_layout()
    if layout is None:
        return None
    code = _trampoline(
        tuple(map(len, argument_shapes)), len(parameters), tuple(map(len, result_shapes)), single
    )
    numbers = _fixed_part(layout, kernel_address, fallback)
    numbers += [size for shape in argument_shapes for size in shape]
    numbers += [array.ctypes.data for array in parameters]
    numbers += [size for shape in result_shapes for size in shape]
    table = np.array(numbers, dtype=np.int64).view(AddressTable)
    table.flags.writeable = False
    method = _MethodDef(name.encode(), code.address("trampoline"), _FASTCALL_KEYWORDS, doc.encode())
    table.owner = owner
    table._keep = (code, fallback, tuple(parameters), method)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    builtin: Callable[..., Any] = create(ctypes.addressof(method), table, None)
    return builtin


def _fixed_part(layout: Layout, kernel: int, fallback: Callable[..., Any]) -> list[int]:
    fixed = {
        _KERNEL: kernel,
        _FALLBACK: id(fallback),
        _ARRAY_TYPE: layout.array_type,
        _FLOAT64: layout.float64,
        _ARRAY_NEW: layout.array_new,
        _VECTORCALL: layout.vectorcall,
        _DECREF: layout.decref,
        _TUPLE_NEW: layout.tuple_new,
        _TUPLE_SET: layout.tuple_set,
    }
    return [fixed[place] for place in range(_FIXED_END)]
