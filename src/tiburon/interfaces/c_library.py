"""Shared libraries of kernels for this machine and others, by the compiler of the ziglang wheel.

Zig's C compiler cross-compiles from one wheel: no system compiler, no linker and no headers are
needed. Code keeps its bits: arithmetic is neither contracted nor reordered. Libraries of other
systems are linked here, not run.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tiburon.arguments import public
from tiburon.errors import CompileError, ModelFileError, OptionError
from tiburon.interfaces.extras import needed
from tiburon.native.c_source import c_source
from tiburon.operating_system import system_and_processor
from tiburon.written_file import write_file

EXTRA = "c"


class Target(NamedTuple):
    """A system that code is compiled for."""

    triple: str
    """As Zig names it."""

    suffix: str
    """Of shared libraries."""

    processor: str
    """Least processor: one with fused multiply-add, which results depend on."""


TARGETS = {
    "linux-x86_64": Target("x86_64-linux-gnu.2.17", ".so", "x86_64_v3"),
    "linux-aarch64": Target("aarch64-linux-gnu.2.17", ".so", "generic"),
    "windows-x86_64": Target("x86_64-windows-gnu", ".dll", "x86_64_v3"),
    "macos-x86_64": Target("x86_64-macos", ".dylib", "x86_64_v3"),
    "macos-aarch64": Target("aarch64-macos", ".dylib", "baseline"),
}
"""Systems by name; x86-64 needs AVX2 and FMA (processors since about 2013)."""

FLAGS = (
    "-ffp-contract=off",
    "-fno-sanitize=undefined",
    "-g0",
    "-O2",
    *("-fno-vectorize", "-fno-slp-vectorize"),
    *("-mllvm", "-enable-misched=false"),
)
"""How code is compiled: its functions are long and without loops, on which vectorizers and the
scheduler of instructions spend three quarters of the time, and code is not faster."""

SYSTEMS = {"Linux": "linux", "Windows": "windows", "Darwin": "macos"}
PROCESSORS = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def native_target() -> str:
    """Return the name of this machine among `TARGETS`.

    Raises:
        CompileError: If it is none of them.
    """
    system, processor = system_and_processor()
    found = f"{SYSTEMS.get(system, system)}-{PROCESSORS.get(processor, processor)}"
    if found not in TARGETS:
        raise CompileError(
            f"build_library: expected one of {', '.join(TARGETS)}, got this machine, {found}; name "
            "a target, or compile the files of tiburon.c_source"
        )
    return found


@public
def build_library(
    kernel: Callable[..., Any] | Sequence[Callable[..., Any]],
    path: str | Path,
    *,
    name: str | Sequence[str] | None = None,
    targets: str | Sequence[str] | None = None,
) -> dict[str, Path]:
    """Compile kernels into shared libraries that need neither Python nor this package.

    The functions are those of `c_source`, one case and batches; the header is written beside the
    libraries. Compiling for another system takes minutes the first time, then seconds.

    Args:
        kernel: A kernel made by `tiburon.compile`, or a list of them.
        path: Folder for the libraries and the header; made if it is missing.
        name: Name of the C function, or of each; those of the kernels by default. The first is
            that of the files.
        targets: Systems, names of `TARGETS` such as "windows-x86_64"; this machine by default.

    Returns:
        Path of each library, by target. Those of other systems were linked, not run.

    Raises:
        MissingExtraError: If ziglang is not installed.
        CompileError: If the compiler fails.

    Example:
        ``tb.build_library(tb.compile(tb.forward_dynamics, arm), "arm", name="arm_dynamics")``
    """
    files = c_source(kernel, name=name, header=True)
    chosen = (targets,) if isinstance(targets, str) else tuple(targets or (native_target(),))
    for target in chosen:
        if target not in TARGETS:
            raise OptionError("targets", TARGETS, target)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    title = files.names[0]
    write_file(folder / f"{title}.h", files.header, ModelFileError)
    found = {}
    for target in chosen:
        own = folder if len(chosen) == 1 else folder / target
        own.mkdir(exist_ok=True)
        found[target] = own / f"{title}{TARGETS[target].suffix}"
        compile_c([files.source], found[target], target)
    return found


def compile_c(
    sources: Sequence[str],
    library: Path,
    target: str,
    *,
    hidden: bool = False,
    quickly: Callable[[str], bool] = lambda text: False,
) -> None:
    """Compile C files, side by side, into a shared library.

    Args:
        sources: Their texts.
        library: Path of the library.
        target: Name among `TARGETS`.
        hidden: Whether only functions are seen from outside that say so.
        quickly: Returns whether a text is compiled without optimization: in a seventh of the
            time, to code with the same bits that takes up to twice as long; none by default.

    Raises:
        MissingExtraError: If ziglang is not installed.
        CompileError: If the compiler fails; the message has its first lines.
    """
    needed("ziglang", EXTRA, "compiling C")
    system = TARGETS[target]
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", system.triple]
    zig.append(f"-mcpu={system.processor}")
    visible = ["-fvisibility=hidden"] if hidden else []
    mathematics = [] if target.startswith("windows") else ["-lm"]
    with tempfile.TemporaryDirectory() as folder:
        parts, objects = [], []
        for number, text in enumerate(sources):
            write_file(Path(folder) / f"part{number}.c", text, ModelFileError)
            objects.append(f"part{number}.o")
            # zig passes the same level for all of -O1, -O2 and -O3
            level = ["-Xclang", "-O0" if quickly(text) else "-O1"]
            own = ["-std=c99", *FLAGS, *level, "-fPIC", *visible, "-c", f"part{number}.c"]
            parts.append(_started([*zig, *own, "-o", objects[-1]], folder))
        said = [part.communicate()[1] for part in parts]
        if not any(part.returncode for part in parts):
            shared = ["-shared", "-s", "-o", str(Path(library).resolve())]
            parts.append(_started([*zig, *shared, *objects, *mathematics], folder))
            said.append(parts[-1].communicate()[1])
    for part, lines in zip(parts, said, strict=True):
        if part.returncode:
            first = "\n".join(lines.splitlines()[:8])
            raise CompileError(f"compiling for {target} failed: {first}")


def _started(command: list[str], folder: str) -> subprocess.Popen[str]:
    """Start a compiler; those of several files run side by side."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder)
