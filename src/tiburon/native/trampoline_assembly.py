"""The machine code of a trampoline, as LLVM assembly.

The code depends on the numbers of arguments, results and dimensions only. Everything else stands
in a table of 8-byte numbers: first the fixed part below, then the sizes of each argument, the
addresses of the parameters, and the sizes of each result.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tiburon.native.layout import CONTIGUOUS_ALIGNED, FLOAT64_NUMBER, Layout
from tiburon.record import record


class Place(enum.IntEnum):
    """Where each number of the table's fixed part stands."""

    KERNEL = 0
    FALLBACK = 1
    ARRAY_TYPE = 2
    FLOAT64 = 3
    FLOAT_TYPE = 4
    NUMBER_TYPE = 5
    ARRAY_NEW = 6
    NUMBER_NEW = 7
    VECTORCALL = 8
    DECREF = 9
    TUPLE_NEW = 10
    TUPLE_SET = 11
    END = 12


@record
class Form:
    """What decides the code of a trampoline.

    Attributes:
        argument_dims: Number of dimensions of each argument.
        argument_slots: Place of each argument among the kernel's inputs.
        parameter_slots: Place of each parameter among the kernel's inputs.
        result_dims: Number of dimensions of each result.
        single: Whether the only result is returned by itself.
    """

    argument_dims: tuple[int, ...]
    argument_slots: tuple[int, ...]
    parameter_slots: tuple[int, ...]
    result_dims: tuple[int, ...]
    single: bool


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

    def store_pointer(self, value: str, table: str, place: int) -> None:
        slot = self.emit(f"getelementptr ptr, ptr {table}, i64 {place}")
        self.lines.append(f"  store ptr {value}, ptr {slot}, align 8")

    def go_on_if(self, condition: str, label: str, otherwise: str = "slow") -> None:
        self.lines += [f"  br i1 {condition}, label %{label}, label %{otherwise}", f"{label}:"]


class _Writer:
    """The parts of one trampoline, written in order."""

    def __init__(self, layout: Layout, form: Form) -> None:
        self.layout = layout
        self.form = form
        self.text = _Text()
        # blocks for objects that cannot be made, which stand after everything else
        self.failures: list[str] = []
        self.place = int(Place.END)
        self.table = self.text.load("ptr", "%self", layout.data)
        self.array_type = self.fixed(Place.ARRAY_TYPE)
        self.float64 = self.fixed(Place.FLOAT64)

    def fixed(self, place: Place) -> str:
        """Read an address from the table's fixed part."""
        return self.text.load("ptr", self.table, 8 * place)

    def write(self) -> str:
        """Write the whole function."""
        text, form = self.text, self.form
        no_names = text.emit("icmp eq ptr %names, null")
        right_count = text.emit(f"icmp eq i64 %count, {len(form.argument_dims)}")
        text.go_on_if(text.emit(f"and i1 {no_names}, {right_count}"), "arguments")
        for number, nd in enumerate(form.argument_dims):
            data = self.argument(number, nd)
            text.store_pointer(data, "%inputs", form.argument_slots[number])
        for slot in form.parameter_slots:
            text.store_pointer(text.load("ptr", self.table, 8 * self.place), "%inputs", slot)
            self.place += 1
        arrays = self.make_arrays()
        kernel = self.fixed(Place.KERNEL)
        status = text.emit(f"call i32 {kernel}(ptr %inputs, ptr %outputs)")
        text.go_on_if(text.emit(f"icmp eq i32 {status}, 0"), "deliver", "discard")
        self.deliver(arrays)
        text.lines.append("discard:")
        text.lines += self.drop(arrays.values())
        text.lines += ["  br label %slow", "slow:"]
        vectorcall, fallback = self.fixed(Place.VECTORCALL), self.fixed(Place.FALLBACK)
        answer = text.emit(
            f"call ptr {vectorcall}(ptr {fallback}, ptr %args, i64 %count, ptr %names)"
        )
        inputs = len(form.argument_slots) + len(form.parameter_slots)
        results = len(form.result_dims)
        return "\n".join(
            [
                "define ptr @trampoline(ptr %self, ptr %args, i64 %count, ptr %names) {",
                "entry:",
                f"  %inputs = alloca [{inputs + 1} x ptr], align 16",
                f"  %outputs = alloca [{results + 1} x ptr], align 16",
                f"  %numbers = alloca [{results + 1} x double], align 16",
                *text.lines,
                f"  ret ptr {answer}",
                *self.failures,
                "}",
                "",
            ]
        )

    def argument(self, number: int, nd: int) -> str:
        """Check one argument and give the address of its numbers; any doubt leads to %slow."""
        text, layout = self.text, self.layout
        given = text.load("ptr", "%args", 8 * number)
        kind = text.load("ptr", given, layout.type)
        is_array = text.emit(f"icmp eq ptr {kind}, {self.array_type}")
        text.go_on_if(is_array, f"array{number}", "slow" if nd else f"plain{number}")
        flags = text.load("i32", given, layout.flags)
        masked = text.emit(f"and i32 {flags}, {CONTIGUOUS_ALIGNED}")
        dimensions = text.load("i32", given, layout.nd)
        fits = text.emit(f"icmp eq ptr {text.load('ptr', given, layout.descr)}, {self.float64}")
        for condition in (
            text.emit(f"icmp eq i32 {masked}, {CONTIGUOUS_ALIGNED}"),
            text.emit(f"icmp eq i32 {dimensions}, {nd}"),
        ):
            fits = text.emit(f"and i1 {fits}, {condition}")
        text.go_on_if(fits, f"shape{number}")
        if nd:
            sizes = text.load("ptr", given, layout.dims)
            for axis in range(nd):
                size = text.load("i64", sizes, 8 * axis)
                wanted = text.load("i64", self.table, 8 * self.place)
                text.go_on_if(text.emit(f"icmp eq i64 {size}, {wanted}"), f"axis{number}_{axis}")
                self.place += 1
            return text.load("ptr", given, layout.data)
        return self.lone_number(given, kind, number, text.load("ptr", given, layout.data))

    def lone_number(self, given: str, kind: str, number: int, data: str) -> str:
        """Let a Python float or a NumPy float64 stand for an array without dimensions."""
        text = self.text
        text.lines += [f"  br label %known{number}", f"plain{number}:"]
        python = text.emit(f"icmp eq ptr {kind}, {self.fixed(Place.FLOAT_TYPE)}")
        numpy = text.emit(f"icmp eq ptr {kind}, {self.fixed(Place.NUMBER_TYPE)}")
        text.go_on_if(text.emit(f"or i1 {python}, {numpy}"), f"number{number}")
        value = text.emit(f"getelementptr i8, ptr {given}, i64 {self.layout.number}")
        text.lines += [f"  br label %known{number}", f"known{number}:"]
        return text.emit(f"phi ptr [ {data}, %shape{number} ], [ {value}, %number{number} ]")

    def make_arrays(self) -> dict[int, str]:
        """Make the result arrays; results without dimensions are written to the stack first."""
        text = self.text
        made: dict[int, str] = {}
        for number, nd in enumerate(self.form.result_dims):
            if nd == 0:
                place = text.emit(f"getelementptr double, ptr %numbers, i64 {number}")
                text.store_pointer(place, "%outputs", number)
                continue
            sizes = text.emit(f"getelementptr i8, ptr {self.table}, i64 {8 * self.place}")
            self.place += nd
            array = text.emit(
                f"call ptr {self.fixed(Place.ARRAY_NEW)}(ptr {self.array_type}, i32 {nd}, "
                f"ptr {sizes}, i32 {FLOAT64_NUMBER}, ptr null, ptr null, i32 0, i32 0, ptr null)"
            )
            self.go_on_if_made(array, f"array_made{number}", made.values())
            text.store_pointer(text.load("ptr", array, self.layout.data), "%outputs", number)
            made[number] = array
        return made

    def deliver(self, arrays: dict[int, str]) -> None:
        """Return the results."""
        text = self.text
        made = dict(arrays)
        for number, nd in enumerate(self.form.result_dims):
            if nd == 0:
                place = text.emit(f"getelementptr double, ptr %numbers, i64 {number}")
                new = self.fixed(Place.NUMBER_NEW)
                value = text.emit(f"call ptr {new}(ptr {place}, ptr {self.float64}, ptr null)")
                self.go_on_if_made(value, f"number_made{number}", made.values())
                made[number] = value
        if self.form.single:
            text.lines.append(f"  ret ptr {made[0]}")
            return
        bundle = text.emit(f"call ptr {self.fixed(Place.TUPLE_NEW)}(i64 {len(made)})")
        self.go_on_if_made(bundle, "bundle_made", made.values())
        tuple_set = self.fixed(Place.TUPLE_SET)
        for number in range(len(made)):
            text.emit(f"call i32 {tuple_set}(ptr {bundle}, i64 {number}, ptr {made[number]})")
        text.lines.append(f"  ret ptr {bundle}")

    def go_on_if_made(self, made: str, label: str, earlier: Iterable[str]) -> None:
        """Go on if an object was made; otherwise drop the earlier ones and let Python raise."""
        text = self.text
        text.go_on_if(text.emit(f"icmp ne ptr {made}, null"), label, f"no_{label}")
        self.failures += [f"no_{label}:", *self.drop(earlier), "  ret ptr null"]

    def drop(self, objects: Iterable[str]) -> list[str]:
        """Give the lines that release objects."""
        text = self.text
        before, text.lines = text.lines, []
        decref = self.fixed(Place.DECREF)
        lines = [*text.lines, *[f"  call void {decref}(ptr {item})" for item in objects]]
        text.lines = before
        return lines


def trampoline_assembly(layout: Layout, form: Form) -> str:
    """Write a module with the function `trampoline`.

    Args:
        layout: Where CPython and NumPy keep what it reads.
        form: Numbers of arguments, results and dimensions.

    Returns:
        LLVM assembly.
    """
    return _Writer(layout, form).write()
