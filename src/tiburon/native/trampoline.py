"""The call path from Python into a kernel, generated as machine code: no extension module needed.

A trampoline is the C function behind a Python builtin (METH_FASTCALL | METH_KEYWORDS). It accepts
float64 arrays of exactly the expected shape, by position or by keyword, creates the result arrays
or takes those given as `out=`, calls the kernel and returns. Any other call (lists, other types,
batches, other keywords, `out=` that overlaps an argument, a non-zero status) goes to a Python
function given at creation, which checks everything and raises the errors.

The machine code depends only on the number of arguments, results and dimensions, so few trampolines
exist, and they are cached like kernels. Addresses, sizes and names are in a table of 8-byte
integers that the builtin's `__self__` (an array) holds: a fixed part, with a countdown of calls,
the sizes of each argument, the addresses of the parameters, the sizes of each result, and the names
of the keywords.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.native.engine import LoadedCode, load_module
from tiburon.native.layout import (
    CONTIGUOUS_ALIGNED,
    FLOAT64_NUMBER,
    WRITEABLE,
    Layout,
    object_layout,
)
from tiburon.record import record

UNLIMITED = 1 << 62
"""Number of calls that is never reached."""

_FASTCALL_KEYWORDS = 0x0080 | 0x0002

OPTION_NAMES = frozenset(("out", "errors", "threads", "parameters"))
"""Keywords of every kernel; an argument of the same name is passed by position only."""


@functools.cache
def _trampoline(form: Form) -> LoadedCode:
    layout = object_layout()
    assert layout is not None
    # all offsets follow from the sizes of two headers
    sizes = (layout.type, layout.tuple_items)
    written = functools.partial(trampoline_assembly, layout, form)
    # optimized, it would take twice the time to compile, and calls as long
    return load_module("trampoline", written, optimize=False, form=f"{sizes} {form!r}")


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class AddressTable(np.ndarray[Any, Any]):
    """The `__self__` of a builtin kernel: addresses and sizes that its trampoline reads.

    All other attributes (`inputs`, `outputs`, `parameters`, ...) are those of the owner.
    """

    # views of the table have no owner: only the original belongs to a kernel
    owner: Any = None
    _keep: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the owner."""
        return getattr(self.owner, name)

    def calls_left(self) -> int:
        """Return after how many calls one goes to the fallback."""
        return int(self[Place.CALLS])

    def has_kernel(self) -> bool:
        """Return whether there is a function to call; without it all calls go to the fallback."""
        return bool(self[Place.KERNEL])

    def set_kernel(self, address: int, calls: int) -> None:
        """Replace the kernel's function, and the number of calls until one goes to the fallback."""
        self.flags.writeable = True
        self[Place.KERNEL], self[Place.CALLS] = address, calls
        self.flags.writeable = False

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
    """Create a CPython method definition.

    Definitions are never freed: a builtin that the garbage collector clears together with its
    `__self__` still reads its definition, also after this cache when the interpreter ends. Kernels
    that differ only in parameters share one.
    """
    found = _MethodDef(name.encode(), address, _FASTCALL_KEYWORDS, doc.encode())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))
    return found


def make_builtin(
    owner: Any,
    *,
    name: str,
    doc: str,
    kernel_address: int,
    calls: int,
    form: Form,
    argument_names: Sequence[str],
    argument_shapes: Sequence[tuple[int, ...]],
    parameters: Sequence[NDArray[np.float64]],
    result_shapes: Sequence[tuple[int, ...]],
    fallback: Callable[..., Any],
) -> Callable[..., Any] | None:
    """Create a Python builtin that calls a kernel.

    Args:
        owner: Object whose attributes `builtin.__self__` shows; its attribute `name` must be the
            builtin.
        name: Name of the builtin.
        doc: Its docstring.
        kernel_address: Address of the kernel's function `one`; 0, with no calls, until it is there.
        calls: Number of calls after which one goes to the fallback; `UNLIMITED` for none.
        form: What the code of its trampoline depends on.
        argument_names: Name of each argument.
        argument_shapes: Shape of each argument.
        parameters: Arrays bound to the kernel's other inputs; kept alive.
        result_shapes: Shape of each result.
        fallback: Called with the same arguments if the trampoline does not accept them.

    Returns:
        The builtin, or None if this interpreter's layout is unknown.
    """
    layout = object_layout()
    if layout is None:
        return None
    code = _trampoline(form)
    # names of keywords in calls are interned, so that comparing addresses suffices
    names = tuple(sys.intern(text) for text in (*argument_names, "out"))
    table_values = _fixed_part(layout, kernel_address, calls, fallback)
    table_values += [size for shape in argument_shapes for size in shape]
    table_values += [array.ctypes.data for array in parameters]
    table_values += [size for shape in result_shapes for size in shape]
    table_values += [0 if text in OPTION_NAMES else id(text) for text in names[:-1]]
    table_values.append(id(names[-1]))
    table = np.array(table_values, dtype=np.int64).view(AddressTable)
    table.flags.writeable = False
    method = _method(name, doc, code.address("trampoline"))
    table.owner = owner
    table._keep = (code, fallback, tuple(parameters), names)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    builtin: Callable[..., Any] = create(ctypes.addressof(method), table, None)
    return builtin


class Place(enum.IntEnum):
    """Index of each address in the fixed part of the table."""

    KERNEL = 0
    FALLBACK = 1
    ARRAY_TYPE = 2
    FLOAT64 = 3
    FLOAT_TYPE = 4
    NUMBER_TYPE = 5
    TUPLE_TYPE = 6
    NONE = 7
    ARRAY_NEW = 8
    NUMBER_NEW = 9
    VECTORCALL = 10
    INCREF = 11
    DECREF = 12
    TUPLE_NEW = 13
    TUPLE_SET = 14
    CALLS = 15
    END = 16


def _fixed_part(layout: Layout, kernel: int, calls: int, fallback: Callable[..., Any]) -> list[int]:
    fixed = {
        Place.KERNEL: kernel,
        Place.FALLBACK: id(fallback),
        Place.ARRAY_TYPE: layout.array_type,
        Place.FLOAT64: layout.float64,
        Place.FLOAT_TYPE: layout.float_type,
        Place.NUMBER_TYPE: layout.number_type,
        Place.TUPLE_TYPE: layout.tuple_type,
        Place.NONE: layout.none,
        Place.ARRAY_NEW: layout.array_new,
        Place.NUMBER_NEW: layout.number_new,
        Place.VECTORCALL: layout.vectorcall,
        Place.INCREF: layout.incref,
        Place.DECREF: layout.decref,
        Place.TUPLE_NEW: layout.tuple_new,
        Place.TUPLE_SET: layout.tuple_set,
        Place.CALLS: calls,
    }
    return [fixed[Place(place)] for place in range(Place.END)]


@record
class Form:
    """What the code of a trampoline depends on.

    Attributes:
        argument_dims: Number of dimensions of each argument.
        argument_slots: Index of each argument among the kernel's inputs.
        parameter_slots: Index of each parameter among the kernel's inputs.
        result_dims: Number of dimensions of each result.
        single: Whether the only result is returned by itself, not in a tuple.
    """

    argument_dims: tuple[int, ...]
    argument_slots: tuple[int, ...]
    parameter_slots: tuple[int, ...]
    result_dims: tuple[int, ...]
    single: bool


@record
class _Block:
    """A block of float64 values in memory: address of its first byte, and its size in bytes."""

    start: str
    size: str


class _Text:
    """Lines of LLVM assembly with fresh names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def emit(self, instruction: str) -> str:
        self._count += 1
        self.lines.append(f"  %x{self._count} = {instruction}")
        return f"%x{self._count}"

    def load(self, kind: str, base: str, offset: int) -> str:
        address = self.emit(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.emit(f"load {kind}, ptr {address}, align {4 if kind == 'i32' else 8}")

    def load_element(self, array: str, index: str) -> str:
        address = self.emit(f"getelementptr ptr, ptr {array}, i64 {index}")
        return self.emit(f"load ptr, ptr {address}, align 8")

    def store_pointer(self, value: str, array: str, index: int | str) -> None:
        address = self.emit(f"getelementptr ptr, ptr {array}, i64 {index}")
        self.lines.append(f"  store ptr {value}, ptr {address}, align 8")

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def branch(self, condition: str, label: str, otherwise: str = "slow") -> None:
        """Continue at a label that starts here if a condition holds, else elsewhere."""
        self.lines.append(f"  br i1 {condition}, label %{label}, label %{otherwise}")
        self.start(label)

    def all_of(self, conditions: Iterable[str]) -> str:
        combined = "true"
        for condition in conditions:
            combined = self.emit(f"and i1 {combined}, {condition}")
        return combined


class _Writer:
    """The parts of one trampoline, written in order."""

    def __init__(self, layout: Layout, form: Form) -> None:
        self.layout = layout
        self.form = form
        self.text = _Text()
        # blocks for objects that cannot be created, after everything else
        self.failures: list[str] = []
        self.table = self.text.load("ptr", "%self", layout.data)
        self.array_type = self.fixed(Place.ARRAY_TYPE)
        self.float64 = self.fixed(Place.FLOAT64)
        # index of the first size of each argument and result in the table
        self.argument_places = self._starts(int(Place.END), form.argument_dims)
        self.parameter_place = int(Place.END) + sum(form.argument_dims)
        first = self.parameter_place + len(form.parameter_slots)
        self.result_places = self._starts(first, form.result_dims)
        self.name_place = first + sum(form.result_dims)

    @staticmethod
    def _starts(first: int, sizes: Sequence[int]) -> list[int]:
        return list(itertools.accumulate(sizes, initial=first))[:-1]

    def fixed(self, place: Place) -> str:
        """Load an address of the table's fixed part."""
        return self.text.load("ptr", self.table, 8 * place)

    def write(self) -> str:
        """Write the whole function."""
        text, form = self.text, self.form
        self.count_call()
        self.match_arguments()
        blocks = []
        for number, nd in enumerate(form.argument_dims):
            block = self.argument(number, nd)
            text.store_pointer(block.start, "%inputs", form.argument_slots[number])
            blocks.append(block)
        for place, slot in enumerate(form.parameter_slots, start=self.parameter_place):
            text.store_pointer(text.load("ptr", self.table, 8 * place), "%inputs", slot)
        text.branch(text.emit("icmp ne ptr %out, null"), "use_given", "make")
        self.use_given_arrays(blocks)
        text.start("make")
        arrays = self.make_arrays()
        text.branch(self.succeeds(), "deliver", "discard")
        self.deliver(arrays)
        text.start("discard")
        text.lines += self.drop(arrays.values())
        text.jump("slow")
        text.start("slow")
        vectorcall, fallback = self.fixed(Place.VECTORCALL), self.fixed(Place.FALLBACK)
        answer = text.emit(
            f"call ptr {vectorcall}(ptr {fallback}, ptr %args, i64 %count, ptr %names)"
        )
        inputs = len(form.argument_slots) + len(form.parameter_slots)
        results = len(form.result_dims)
        return "\n".join(
            [
                # without memset and memcpy, which the code has no way to reach
                "define ptr @trampoline(ptr %self, ptr %args, i64 %count, ptr %names) "
                'nounwind "no-builtins" {',
                "entry:",
                f"  %inputs = alloca [{inputs + 1} x ptr], align 16",
                f"  %outputs = alloca [{results + 1} x ptr], align 16",
                f"  %numbers = alloca [{results + 1} x double], align 16",
                f"  %ordered = alloca [{len(form.argument_dims) + 1} x ptr], align 16",
                *text.lines,
                f"  ret ptr {answer}",
                *self.failures,
                "}",
                "",
            ]
        )

    def count_call(self) -> None:
        """Count down the calls that are left; the last one goes to %slow."""
        text = self.text
        place = text.emit(f"getelementptr i8, ptr {self.table}, i64 {8 * Place.CALLS}")
        left = text.emit(f"sub i64 {text.load('i64', self.table, 8 * Place.CALLS)}, 1")
        text.lines.append(f"  store i64 {left}, ptr {place}, align 8")
        text.branch(text.emit(f"icmp sgt i64 {left}, 0"), "counted")

    def succeeds(self) -> str:
        """Call the kernel; return whether its status is 0."""
        status = self.text.emit(f"call i32 {self.fixed(Place.KERNEL)}(ptr %inputs, ptr %outputs)")
        return self.text.emit(f"icmp eq i32 {status}, 0")

    def match_arguments(self) -> None:
        """Match positional and keyword arguments: sets %given (in order) and %out (or null)."""
        text, count = self.text, len(self.form.argument_dims)
        # without keywords the arguments are in order already
        text.branch(text.emit("icmp eq ptr %names, null"), "positional", "keywords")
        complete = text.emit(f"icmp eq i64 %count, {count}")
        text.lines.append(f"  br i1 {complete}, label %arguments, label %slow")
        text.start("keywords")
        keywords = text.load("i64", "%names", self.layout.tuple_size)
        all_given = text.emit(f"add i64 %count, {keywords}")
        few = text.emit(f"icmp ule i64 %count, {count}")
        fits = text.emit(f"icmp ule i64 {all_given}, {count + 1}")
        text.branch(text.all_of((few, fits)), "order")
        for slot in range(count + 1):
            text.store_pointer("null", "%ordered", slot)
        text.jump("copy")
        # positional arguments first
        text.start("copy")
        text.lines.append("  %j = phi i64 [ 0, %order ], [ %j_next, %copy_one ]")
        text.branch(text.emit("icmp ult i64 %j, %count"), "copy_one", "keyword")
        text.store_pointer(text.load_element("%args", "%j"), "%ordered", "%j")
        text.lines.append("  %j_next = add i64 %j, 1")
        text.jump("copy")
        # then each keyword: find its name in the table
        text.start("keyword")
        text.lines.append("  %k = phi i64 [ 0, %copy ], [ %k_next, %keyword_free ]")
        text.branch(text.emit(f"icmp ult i64 %k, {keywords}"), "keyword_one", "matched")
        items = text.emit(f"getelementptr i8, ptr %names, i64 {self.layout.tuple_items}")
        name = text.load_element(items, "%k")
        text.jump("find")
        text.start("find")
        text.lines.append("  %i = phi i64 [ 0, %keyword_one ], [ %i_next, %find_next ]")
        text.branch(text.emit(f"icmp ule i64 %i, {count}"), "find_one")
        names = text.emit(f"getelementptr i8, ptr {self.table}, i64 {8 * self.name_place}")
        known = text.load_element(names, "%i")
        text.branch(text.emit(f"icmp eq ptr {name}, {known}"), "keyword_known", "find_next")
        earlier = text.load_element("%ordered", "%i")
        text.branch(text.emit(f"icmp eq ptr {earlier}, null"), "keyword_free")
        source = text.emit("add i64 %count, %k")
        text.store_pointer(text.load_element("%args", source), "%ordered", "%i")
        text.lines.append("  %k_next = add i64 %k, 1")
        text.jump("keyword")
        text.start("find_next")
        text.lines.append("  %i_next = add i64 %i, 1")
        text.jump("find")
        # every argument is there; `out=None` means no arrays
        text.start("matched")
        given = [text.load_element("%ordered", str(slot)) for slot in range(count)]
        out = text.load_element("%ordered", str(count))
        no_out = text.emit(f"icmp eq ptr {out}, {self.fixed(Place.NONE)}")
        out = text.emit(f"select i1 {no_out}, ptr null, ptr {out}")
        present = [text.emit(f"icmp ne ptr {value}, null") for value in given]
        text.lines.append(f"  br i1 {text.all_of(present)}, label %arguments, label %slow")
        text.start("arguments")
        text.lines += [
            "  %given = phi ptr [ %args, %positional ], [ %ordered, %matched ]",
            f"  %out = phi ptr [ null, %positional ], [ {out}, %matched ]",
        ]

    def array(self, value: str, nd: int, flags: int, place: int, tag: str) -> str:
        """Check that an object is a float64 array with some flags and shape; return its size.

        Args:
            value: The object; its type is checked before.
            nd: Number of dimensions.
            flags: Flags it must have.
            place: Index of its first size in the table.
            tag: Distinguishes labels.

        Returns:
            Size in bytes.
        """
        text, layout = self.text, self.layout
        masked = text.emit(f"and i32 {text.load('i32', value, layout.flags)}, {flags}")
        conditions = [
            text.emit(f"icmp eq ptr {text.load('ptr', value, layout.descr)}, {self.float64}"),
            text.emit(f"icmp eq i32 {masked}, {flags}"),
            text.emit(f"icmp eq i32 {text.load('i32', value, layout.nd)}, {nd}"),
        ]
        text.branch(text.all_of(conditions), f"shape{tag}")
        size = "8"
        if nd:
            sizes = text.load("ptr", value, layout.dims)
            for axis in range(nd):
                found = text.load("i64", sizes, 8 * axis)
                wanted = text.load("i64", self.table, 8 * (place + axis))
                text.branch(text.emit(f"icmp eq i64 {found}, {wanted}"), f"axis{tag}_{axis}")
                size = text.emit(f"mul i64 {size}, {found}")
        return size

    def argument(self, number: int, nd: int) -> _Block:
        """Check one argument and return its values; any doubt leads to %slow."""
        text, layout = self.text, self.layout
        value = text.load("ptr", "%given", 8 * number)
        kind = text.load("ptr", value, layout.type)
        is_array = text.emit(f"icmp eq ptr {kind}, {self.array_type}")
        text.branch(is_array, f"array{number}", "slow" if nd else f"plain{number}")
        place = self.argument_places[number]
        size = self.array(value, nd, CONTIGUOUS_ALIGNED, place, str(number))
        data = text.load("ptr", value, layout.data)
        if nd:
            return _Block(data, size)
        # a Python float or a NumPy float64 is accepted for an array without dimensions
        text.jump(f"known{number}")
        text.start(f"plain{number}")
        python = text.emit(f"icmp eq ptr {kind}, {self.fixed(Place.FLOAT_TYPE)}")
        numpy = text.emit(f"icmp eq ptr {kind}, {self.fixed(Place.NUMBER_TYPE)}")
        text.branch(text.emit(f"or i1 {python}, {numpy}"), f"number{number}")
        inside = text.emit(f"getelementptr i8, ptr {value}, i64 {layout.number}")
        text.jump(f"known{number}")
        text.start(f"known{number}")
        start = f"phi ptr [ {data}, %shape{number} ], [ {inside}, %number{number} ]"
        return _Block(text.emit(start), "8")

    def use_given_arrays(self, blocks: list[_Block]) -> None:
        """Check the arrays of `out=`, run the kernel on them and return `out`.

        They must be apart from each other and from all arguments; the kernel's own parameters are
        read-only, so no writable array overlaps them.
        """
        text, layout = self.text, self.layout
        targets = ["%out"]
        if not self.form.single:
            kind = text.load("ptr", "%out", layout.type)
            is_tuple = text.emit(f"icmp eq ptr {kind}, {self.fixed(Place.TUPLE_TYPE)}")
            text.branch(is_tuple, "out_tuple")
            count = len(self.form.result_dims)
            length = text.load("i64", "%out", layout.tuple_size)
            text.branch(text.emit(f"icmp eq i64 {length}, {count}"), "out_items")
            targets = [text.load("ptr", "%out", layout.tuple_items + 8 * k) for k in range(count)]
        taken = [(block, self.end(block)) for block in blocks]
        for number, (target, nd) in enumerate(zip(targets, self.form.result_dims, strict=True)):
            kind = text.load("ptr", target, layout.type)
            is_array = text.emit(f"icmp eq ptr {kind}, {self.array_type}")
            text.branch(is_array, f"out_array{number}")
            flags, place = CONTIGUOUS_ALIGNED | WRITEABLE, self.result_places[number]
            size = self.array(target, nd, flags, place, f"_out{number}")
            block = _Block(text.load("ptr", target, layout.data), size)
            end = self.end(block)
            apart = text.all_of([self.are_apart(block, end, *other) for other in taken])
            text.branch(apart, f"out_apart{number}")
            text.store_pointer(block.start, "%outputs", number)
            taken.append((block, end))
        text.branch(self.succeeds(), "return_out")
        text.lines.append(f"  call void {self.fixed(Place.INCREF)}(ptr %out)")
        text.lines.append("  ret ptr %out")

    def end(self, block: _Block) -> str:
        """Return the address behind a block."""
        return self.text.emit(f"getelementptr i8, ptr {block.start}, i64 {block.size}")

    def are_apart(self, one: _Block, end: str, other: _Block, other_end: str) -> str:
        """Return whether two blocks with given ends do not overlap."""
        text = self.text
        before = text.emit(f"icmp ule ptr {end}, {other.start}")
        after = text.emit(f"icmp ule ptr {other_end}, {one.start}")
        return text.emit(f"or i1 {before}, {after}")

    def make_arrays(self) -> dict[int, str]:
        """Create the result arrays; results without dimensions go to the stack first."""
        text = self.text
        made: dict[int, str] = {}
        for number, nd in enumerate(self.form.result_dims):
            if nd == 0:
                address = text.emit(f"getelementptr double, ptr %numbers, i64 {number}")
                text.store_pointer(address, "%outputs", number)
                continue
            place = 8 * self.result_places[number]
            sizes = text.emit(f"getelementptr i8, ptr {self.table}, i64 {place}")
            array = text.emit(
                f"call ptr {self.fixed(Place.ARRAY_NEW)}(ptr {self.array_type}, i32 {nd}, "
                f"ptr {sizes}, i32 {FLOAT64_NUMBER}, ptr null, ptr null, i32 0, i32 0, ptr null)"
            )
            self.branch_if_made(array, f"array_made{number}", made.values())
            text.store_pointer(text.load("ptr", array, self.layout.data), "%outputs", number)
            made[number] = array
        return made

    def deliver(self, arrays: dict[int, str]) -> None:
        """Return the results."""
        text = self.text
        made = dict(arrays)
        for number, nd in enumerate(self.form.result_dims):
            if nd == 0:
                address = text.emit(f"getelementptr double, ptr %numbers, i64 {number}")
                new = self.fixed(Place.NUMBER_NEW)
                value = text.emit(f"call ptr {new}(ptr {address}, ptr {self.float64}, ptr null)")
                self.branch_if_made(value, f"number_made{number}", made.values())
                made[number] = value
        if self.form.single:
            text.lines.append(f"  ret ptr {made[0]}")
            return
        bundle = text.emit(f"call ptr {self.fixed(Place.TUPLE_NEW)}(i64 {len(made)})")
        self.branch_if_made(bundle, "bundle_made", made.values())
        tuple_set = self.fixed(Place.TUPLE_SET)
        for number in range(len(made)):
            text.emit(f"call i32 {tuple_set}(ptr {bundle}, i64 {number}, ptr {made[number]})")
        text.lines.append(f"  ret ptr {bundle}")

    def branch_if_made(self, made: str, label: str, earlier: Iterable[str]) -> None:
        """Continue if an object was created; else release the earlier ones and let Python raise."""
        text = self.text
        text.branch(text.emit(f"icmp ne ptr {made}, null"), label, f"no_{label}")
        self.failures += [f"no_{label}:", *self.drop(earlier), "  ret ptr null"]

    def drop(self, objects: Iterable[str]) -> list[str]:
        """Return the lines that release objects."""
        text = self.text
        before, text.lines = text.lines, []
        decref = self.fixed(Place.DECREF)
        lines = [*text.lines, *[f"  call void {decref}(ptr {item})" for item in objects]]
        text.lines = before
        return lines


def trampoline_assembly(layout: Layout, form: Form) -> str:
    """Write a module with the function `trampoline`.

    Args:
        layout: Offsets and addresses of this interpreter.
        form: Number of arguments, results and dimensions.

    Returns:
        LLVM assembly.
    """
    return _Writer(layout, form).write()
