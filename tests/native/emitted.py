"""Turn code written against the instruction protocol into functions over NumPy arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.native.lanes import load
from tiburon.native.c_source import CTarget
from tiburon.native.engine import host
from tiburon.native.llvm import LlvmTarget
from tiburon.native.target import Ref, Target
from tiburon.native.x86.instruction import InstructionRecorder, live_instructions
from tiburon.native.x86.register_allocation import REGISTERS, allocate_registers, frame_operand
from tiburon.native.x86.schedule import schedule_for_registers

Writer = Callable[..., "Ref | tuple[Ref, ...]"]
"""Takes a target and the references of the arguments; returns one reference or several."""

COMPILER = shutil.which("cc")


def _results(written: Ref | tuple[Ref, ...]) -> tuple[Ref, ...]:
    return written if isinstance(written, tuple) else (written,)


class Emitted:
    """A compiled function: arrays of one length in, an array of shape (results, length) out."""

    def __init__(
        self, address: int, owner: object, *, arity: int, results: int, lanes: int
    ) -> None:
        self._call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_int64)(address)
        self._owner = owner  # keeps the machine code alive
        self._arity, self._results, self._lanes = arity, results, lanes

    def __call__(self, *arguments: Sequence[float] | np.ndarray) -> np.ndarray:
        assert len(arguments) == self._arity
        length = len(arguments[0])
        blocks = -(-length // self._lanes)
        # blocked layout [block][argument][lane], the tail filled with ones
        given = np.ones((blocks, self._lanes, self._arity))
        given.reshape(-1, self._arity)[:length] = np.stack(arguments, axis=-1)
        given = np.ascontiguousarray(given.transpose(0, 2, 1))
        found = np.empty((blocks, self._results, self._lanes))
        self._call(given.ctypes.data, found.ctypes.data, blocks)
        return found.transpose(1, 0, 2).reshape(self._results, -1)[:, :length].copy()


def llvm_text(write: Writer, *, arity: int, lanes: int, fused: bool = True) -> tuple[str, int]:
    """Give a module with a loop `k(given, found, blocks)` around the code; count its results."""
    t = LlvmTarget(lanes, fused=fused)
    kind, align = t.float_type, 8
    loads = [
        line
        for j in range(arity)
        for line in (
            f"  %pa{j} = getelementptr {kind}, ptr %rowa, i64 {j}",
            f"  %a{j} = load {kind}, ptr %pa{j}, align {align}",
        )
    ]
    results = _results(write(t, *[f"%a{j}" for j in range(arity)]))
    stores = [
        line
        for j, ref in enumerate(results)
        for line in (
            f"  %pr{j} = getelementptr {kind}, ptr %rowr, i64 {j}",
            f"  store {kind} {ref}, ptr %pr{j}, align {align}",
        )
    ]
    lines = [
        *t.declarations(),
        "define void @k(ptr noalias %given, ptr noalias %found, i64 %blocks) {",
        "entry:",
        "  br label %head",
        "head:",
        "  %b = phi i64 [ 0, %entry ], [ %next, %body ]",
        "  %more = icmp slt i64 %b, %blocks",
        "  br i1 %more, label %body, label %done",
        "body:",
        f"  %rowa = getelementptr [{arity} x {kind}], ptr %given, i64 %b",
        f"  %rowr = getelementptr [{len(results)} x {kind}], ptr %found, i64 %b",
        *loads,
        *t.lines,
        *stores,
        "  %next = add i64 %b, 1",
        "  br label %head",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n", len(results)


def compile_llvm(write: Writer, *, arity: int, lanes: int, fused: bool = True) -> Emitted:
    """Compile through LLVM for the host, in the tiers of `run_lanes`."""
    text, results = llvm_text(write, arity=arity, lanes=lanes, fused=fused)
    loaded = load(text, quick=lanes != host().lanes)
    return Emitted(loaded.address("k"), loaded, arity=arity, results=results, lanes=lanes)


def compile_x86(write: Writer, *, arity: int) -> Emitted:
    """Compile through the x86 code generator, 4 lanes."""
    recorder = InstructionRecorder()
    # each result is a value of its own, also if it is a constant
    written = [recorder.copy(ref) for ref in _results(write(recorder, *_names(arity)))]
    results = len(written)
    homes = {name: frame_operand(results + j) for j, name in enumerate(_names(arity))}
    homes |= {f"c{j}": f"{32 * j}(%rdx)" for j in range(len(recorder.constants))}
    ordered = schedule_for_registers(
        live_instructions(recorder.instructions, set(written)), set(written), REGISTERS
    )
    places = {ref: frame_operand(j) for j, ref in enumerate(written)}
    assembled = allocate_registers(ordered, homes, places, results + arity)
    text, kind = "\\0A".join(assembled.lines), "<4 x double>"
    changed = ",".join(f"~{{ymm{k}}}" for k in range(REGISTERS))
    table = ", ".join(f"<4 x i64> splat (i64 {pattern})" for pattern in recorder.constants)
    # arguments lie anywhere, what the assembly reads is aligned
    loads = [
        line
        for j in range(arity)
        for line in (
            f"  %pa{j} = getelementptr {kind}, ptr %rowa, i64 {j}",
            f"  %a{j} = load {kind}, ptr %pa{j}, align 8",
            f"  %ps{j} = getelementptr {kind}, ptr %work, i64 {results + j}",
            f"  store {kind} %a{j}, ptr %ps{j}, align 32",
        )
    ]
    copies = [
        line
        for j in range(results)
        for line in (
            f"  %pw{j} = getelementptr {kind}, ptr %work, i64 {j}",
            f"  %w{j} = load {kind}, ptr %pw{j}, align 32",
            f"  %pr{j} = getelementptr {kind}, ptr %rowr, i64 {j}",
            f"  store {kind} %w{j}, ptr %pr{j}, align 8",
        )
    ]
    lines = [
        f"@constants = global [{len(recorder.constants)} x <4 x i64>] [{table}], align 64",
        "define void @k(ptr %given, ptr %found, i64 %blocks) {",
        "entry:",
        f"  %work = alloca [{assembled.slots} x {kind}], align 64",
        "  br label %head",
        "head:",
        "  %b = phi i64 [ 0, %entry ], [ %next, %body ]",
        "  %more = icmp slt i64 %b, %blocks",
        "  br i1 %more, label %body, label %done",
        "body:",
        f"  %rowa = getelementptr [{arity} x {kind}], ptr %given, i64 %b",
        f"  %rowr = getelementptr [{results} x {kind}], ptr %found, i64 %b",
        *loads,
        f'  call void asm sideeffect "{text}", "{{di}},{{dx}},{changed},~{{memory}}"'
        "(ptr %work, ptr @constants)",
        *copies,
        "  %next = add i64 %b, 1",
        "  br label %head",
        "done:",
        "  ret void",
        "}",
    ]
    loaded = load("\n".join(lines) + "\n", optimize=False)
    return Emitted(loaded.address("k"), loaded, arity=arity, results=results, lanes=4)


def _names(arity: int) -> list[Ref]:
    return [f"a{j}" for j in range(arity)]


def compile_c(write: Writer, folder: Path, *, arity: int, fused: bool = True) -> Emitted:
    """Compile through the C compiler of the host into a shared library in `folder`."""
    return compile_all_c({"k": (write, arity, fused)}, folder)["k"]


def compile_all_c(
    writers: Mapping[str, tuple[Writer, int, bool]], folder: Path
) -> dict[str, Emitted]:
    """Compile functions by name (with arity, and whether products are fused) into one library."""
    assert COMPILER is not None
    lines, counts = [CTarget().prelude()], {}
    for name, (write, arity, fused) in writers.items():
        t: Target = CTarget(fused=fused)
        results = _results(write(t, *[f"a{j}" for j in range(arity)]))
        counts[name] = len(results)
        lines += [
            f"void {name}(const double *given, double *found, int64_t blocks) {{",
            "  for (int64_t b = 0; b < blocks; ++b) {",
            *[f"    const double a{j} = given[b * {arity} + {j}];" for j in range(arity)],
            *t.lines,
            *[f"    found[b * {len(results)} + {j}] = {ref};" for j, ref in enumerate(results)],
            "  }",
            "}",
        ]
    source, library = folder / "k.c", folder / "k.so"
    source.write_text("\n".join(lines) + "\n")
    options = [
        "-std=c99",
        "-O2",
        "-Wall",
        "-Werror",
        "-Wno-unused-variable",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
    ]
    subprocess.run(
        [COMPILER, *options, "-o", str(library), str(source), "-lm"],
        check=True,
        capture_output=True,
    )
    loaded = ctypes.CDLL(str(library))
    found = {}
    for name, (_, arity, _) in writers.items():
        address = ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value
        assert address is not None
        found[name] = Emitted(address, loaded, arity=arity, results=counts[name], lanes=1)
    return found
