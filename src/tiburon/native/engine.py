"""The compiler and the loader: assembly text to machine code to addresses.

Modules always go through object code in memory, fresh or from the cache, so both behave alike. LLVM
compiles; it loads only what `object_loader` does not: cached code runs without importing it.
Code and its constants lie in one contiguous block, so that the short addresses of the small code
model always reach; that saves one instruction per constant.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tiburon.errors import CompileError, TiburonWarning
from tiburon.native.object_loader import map_object
from tiburon.operating_system import at_fork, is_linux, processor_description
from tiburon.record import record

_lock = threading.RLock()
# llvmlite's own lock while a fork is under way
_held_for_fork: list[Any] = []


def _before_fork() -> None:
    """Wait until no thread is inside LLVM: a child would find it locked, or half done."""
    _lock.acquire()
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    # what llvmlite frees by itself it frees under its own lock only
    inner = getattr(library, "_lock", None)
    if inner is not None:
        inner.__enter__()
        _held_for_fork.append(inner)


def _after_fork() -> None:
    while _held_for_fork:
        _held_for_fork.pop().__exit__(None, None, None)
    _lock.release()


at_fork(before=_before_fork, in_parent=_after_fork, in_child=_after_fork)


@record
class Host:
    """The machine that code is made for.

    Attributes:
        triple: LLVM's name of architecture and system.
        cpu: LLVM's name of the processor.
        features: Its instruction sets, as LLVM spells them.
        lanes: Float64 numbers in one vector.
        fused: Whether it has a fused multiply-add.
    """

    triple: str
    cpu: str
    features: str
    lanes: int
    fused: bool


def llvm_binding() -> Any:
    """Import LLVM.

    Raises:
        ImportError: If llvmlite is not there, or one of several others if it is broken.
    """
    with _lock:
        import llvmlite.binding

        return llvmlite.binding


@functools.cache
def _initialize() -> None:
    llvm = llvm_binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # for the assembly inside of modules
    llvm.initialize_native_asmparser()


@functools.cache
def llvm_stamp() -> str | None:
    """Return what identifies the installed llvmlite without importing it; None if it is missing."""
    from importlib.util import find_spec

    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "_version.py"), "rb") as file:
            return file.read().decode()
    except OSError:
        import llvmlite

        return str(llvmlite.__version__)


@functools.cache
def host() -> Host:
    """Describe this machine: as LLVM described it first, or does now.

    Raises:
        ImportError: If llvmlite is missing, or one of several others if it is broken.

    Warns:
        TiburonWarning: Once per process, if it has no fused multiply-add.
    """
    from tiburon.native import cache

    stamp, processor = llvm_stamp(), processor_description()
    known = None
    if stamp is not None and processor is not None:
        key = cache.digest_key("host", stamp, processor)
        known = cache.load_link(key)
    if known is None:
        llvm = llvm_binding()
        features = llvm.get_host_cpu_features().flatten()
        known = "\n".join([llvm.get_process_triple(), llvm.get_host_cpu_name(), features])
        if stamp is not None and processor is not None:
            cache.store_link(key, known)
    return _described(*known.split("\n"))


def _described(triple: str, cpu: str, features: str) -> Host:
    there = {name[1:] for name in features.split(",") if name.startswith("+")}
    lanes = 8 if there >= {"avx512f", "avx512dq"} else 4 if "avx2" in there else 2
    # every 64-bit ARM has the fused multiply-add
    fused = "fma" in there or triple.startswith(("aarch64", "arm64"))
    if not fused:
        warnings.warn(
            "this processor has no fused multiply-add: products and sums are rounded one after "
            "the other, so the last bits of results differ from those of processors that have it",
            TiburonWarning,
            stacklevel=3,
        )
    return Host(triple, cpu, features, lanes, fused)


def load_module(
    name: str, assembly: str | Callable[[], str], *, optimize: bool = True, form: str | None = None
) -> LoadedCode:
    """Load a module that is keyed by its own text: from the disk cache, or compiled.

    Its code stays until the process ends. Callers keep one result per process, but threads that ask
    for the first time together get one each, and run it whoever is kept.

    Args:
        name: Name of the entry in the cache.
        assembly: The module as LLVM assembly, or what writes it.
        optimize: As for `compile_module`.
        form: Text that determines the assembly, together with the files of this package: where it
            is known, nothing is written.
    """
    from tiburon.native import cache

    link = None if form is None else cache.link_key("module", name, form, optimize)
    key = None if link is None else cache.load_link(link)
    entry = None if key is None else cache.load_entry(key)
    if entry is not None:
        return _kept(entry[1])
    text = assembly if isinstance(assembly, str) else assembly()
    key = cache.code_key("module", text, optimize)
    entry = cache.load_entry(key)
    if entry is None:
        code = compile_module(text, optimize=optimize)
        cache.store_entry(key, {"name": name}, code)
    else:
        code = entry[1]
    if link is not None:
        cache.store_link(link, key)
    return _kept(code)


_lasting: list[LoadedCode] = []


def _kept(code: bytes) -> LoadedCode:
    """Load code that stays until the process ends."""
    loaded = LoadedCode(code)
    _lasting.append(loaded)
    return loaded


def _compiling_machine(level: int) -> Any:
    _initialize()
    machine = host()
    target = llvm_binding().Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, reloc="pic", codemodel="small"
    )


def _loading_machine() -> Any:
    """Return a machine that code is loaded with: it makes none, and is ready sooner."""
    _initialize()
    target = llvm_binding().Target.from_triple(host().triple)
    return target.create_target_machine(opt=0, reloc="pic", codemodel="small")


SHORT_PASSES = ("sroa", "simplify_cfg", "instruction_combine", "simplify_cfg")
"""Passes of modules of more than `LONG_MODULE` lines, which are mostly straight-line code: the
usual ones take a third of the time of a compilation there, and code is not faster."""

LONG_MODULE = 40_000
"""Lines of assembly for many cases."""

LONGEST_SINGLE = 200_000
"""Lines of assembly for one case: loops over contacts gain more there than straight-line code
takes."""

QUICK_PASSES = ("sroa", "simplify_cfg", "sinking")
"""Passes before quick code generation: loop counters move to registers, and values are computed in
the block that uses them, since its register allocator is slow for values of other blocks."""

SUNK_LINES = (20_000, 58_000)
"""Lines of the longest function that branches from which on quick code generation for one case
needs the last of these passes, and lines of the module up to which it can afford it: the pass
compares each load with all stores after it, which takes a fifth to a third of the time and saves
none in short ones, nor in code for many cases."""


FENCED_LOADS = 64
"""Loads of quick code after which a fence follows, which is no instruction: code generation takes
time that grows with the square of the number of loads between stores."""


def compile_module(assembly: str, *, optimize: bool = True, quick: bool = False) -> bytes:
    """Turn LLVM assembly into object code for this machine.

    Args:
        assembly: A module as text.
        optimize: Improve the module before choosing instructions. Straight-line code for one case
            comes out of the graph as good as it gets: there it only takes time. In batches rows are
            transposed with fewer instructions: 3 to 5 % of the time of forward dynamics.
        quick: Choose instructions and registers the quick way but in functions of many loops and in
            short modules: about a third of the time, for code that runs 1.1 to 2 times as long
            and gives the same bits.

    Returns:
        Object code.

    Raises:
        CompileError: If LLVM refuses the module.
    """
    llvm = llvm_binding()
    level = 2 if optimize else 1
    if quick and optimize and assembly.count("\n") <= BRIEF_LINES:
        level = 1
    elif quick:
        level = 0
        with _lock:
            assembly = _fenced(_with_looped(assembly) if optimize else assembly)
    with _lock:
        # at level 2 instructions are also sorted after registers are chosen: for loops and vectors
        # that pays, scalar straight-line code takes a quarter longer to compile and comes out up to
        # 2 % slower
        machine = _compiling_machine(level)
        try:
            module = llvm.parse_assembly(assembly)
            module.verify()
        except RuntimeError as error:
            raise CompileError(f"LLVM refused the generated code: {error}") from error
        if optimize:
            # in code for one case loops vectorize, and values leave them
            many, lines = "@many(" in assembly, assembly.count("\n")
            most = LONG_MODULE if many else LONGEST_SINGLE
            passes: Sequence[str] = SHORT_PASSES if lines > most else ()
            if quick:
                sunk = not many and lines <= SUNK_LINES[1]
                sunk = sunk and _longest_branching(assembly) >= SUNK_LINES[0]
                passes = QUICK_PASSES if sunk else QUICK_PASSES[:-1]
            _improve(module, machine, passes)
        return bytes(machine.emit_object(module))


BRIEF_LINES = 45_000
"""Lines of a module up to which quick code keeps all values in registers: half a second."""

LOOPED_BRANCHES, LOOPED_LINES = 60, 150_000
"""Branches of a function that calls no others from which on its quick code keeps values in
registers, and lines of all such functions in a module: solvers of contacts, in whose loops a step
spends most of its time, then run twice as fast for a tenth of the time of compilation."""


def _with_looped(assembly: str) -> str:
    """Return a module in which functions of many loops are compiled already, as inline assembly."""
    if not is_linux("x86_64"):
        return assembly
    head, *functions = re.split(r"^(?=define )", assembly, flags=re.MULTILINE)
    looped, rest, others = [], [head], [head]
    for function in functions:
        end = function.index("\n}\n") + 3
        body, after = function[:end], function[end:]
        others.append(after)
        if body.count("\n  br ") < LOOPED_BRANCHES or re.search(r"call [^@\n]*@(?!llvm\.)", body):
            rest.append(function)
            continue
        looped.append(body.replace("define internal", "define", 1))
        signature = body[: body.index(" {\n")].replace("define internal", "declare dso_local", 1)
        rest.append(re.sub(r" %\w+", "", signature) + "\n" + after)
    if not looped or sum(body.count("\n") for body in looped) > LOOPED_LINES:
        return assembly
    text = "".join(looped)
    lines = "".join(others).splitlines()
    kept = [line for line in lines if line.startswith(("declare ", "!"))]
    tables = [line for line in lines if line.startswith("@") and f"{line.split()[0]}," in text]
    # names of their own, beside those of the rest of the module
    kept += [line.replace(" internal ", " private ", 1) for line in tables]
    machine = _compiling_machine(1)
    module = llvm_binding().parse_assembly("\n".join([*kept, text]))
    _improve(module, machine, QUICK_PASSES[:-1])
    code = machine.emit_assembly(module).replace(".L", ".Llooped")
    listed = "".join(
        'module asm "{}"\n'.format(
            line.replace("\\", "\\5C").replace('"', "\\22").replace("\t", " ")
        )
        for line in code.splitlines()
        if line.strip() and not line.lstrip().startswith(_OF_WHOLE_FILES)
    )
    return listed + "".join(rest)


_OF_WHOLE_FILES = (".file", ".ident", ".globl", '.section ".note', ".section .note")
"""Directives of assembly that a part of a module leaves out."""


def _fenced(assembly: str) -> str:
    """Return a module with fences between loads; bits stay the same."""
    first, *rest = assembly.split(" = load ")
    found, count = [first], 0
    for part in rest:
        line, end, others = part.partition("\n")
        count = (count + 1) % FENCED_LOADS
        fence = "" if count else '  fence syncscope("singlethread") seq_cst\n'
        found.append(f"{line}{end}{fence}{others}")
    return " = load ".join(found)


def _longest_branching(assembly: str) -> int:
    """Return the lines of the longest function with several blocks."""
    functions = assembly.split("\ndefine ")[1:]
    return max((text.count("\n") for text in functions if "\n  br " in text), default=0)


def _improve(module: Any, machine: Any, names: Sequence[str] = ()) -> None:
    """Run passes that come before instructions are chosen: those named, or the usual ones."""
    llvm = llvm_binding()
    options = llvm.create_pipeline_tuning_options(speed_level=0 if names else 1)
    options.slp_vectorization = False
    options.loop_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    if names:
        passes = llvm.create_new_module_pass_manager()
        for name in names:
            getattr(passes, f"add_{name}_pass")()
    else:
        passes = builder.getModulePassManager()
    passes.run(module, builder)


def optimized_assembly(assembly: str) -> str:
    """Return a module as instructions are chosen for it: arrays that became values are gone."""
    with _lock:
        machine = _compiling_machine(2)
        module = llvm_binding().parse_assembly(assembly)
        _improve(module, machine)
        return str(module)


LONG_ROW = 64
"""Floats in a row from which on loops transpose it, through an array on the stack."""

BLOCKED_LANES = "blocked_lanes"
"""Function of code for many cases that takes lane-blocked rows; see `many_cases_loop`."""


class LoadedCode:
    """Machine code in memory; it lives as long as this object.

    Attributes:
        code: The object code it was loaded from.
    """

    def __init__(self, code: bytes) -> None:
        self.code = code
        mapped = map_object(code)
        self._held: Any = mapped
        self._find: Callable[[str], int]
        if mapped is not None:
            self._find = lambda name: mapped.addresses.get(name, 0)
            return
        llvm = llvm_binding()
        with _lock:
            # an engine owns its target machine: sharing one between engines is not safe
            module = llvm.parse_assembly("")
            engine = llvm.create_mcjit_compiler(module, _loading_machine(), use_lmm=True)
            try:
                engine.add_object_file(llvm.ObjectFileRef.from_data(code))
                engine.finalize_object()
            except RuntimeError as error:
                raise CompileError(f"object code could not be loaded: {error}") from error
        self._held, self._find = engine, engine.get_function_address

    def find(self, name: str) -> int:
        """Return the address of a function, 0 if the code does not hold it."""
        return int(self._find(name))

    def address(self, name: str) -> int:
        """Return the address of a function.

        Raises:
            CompileError: If the code does not hold it.
        """
        address = self.find(name)
        if not address:
            raise CompileError(f"the compiled code holds no function {name!r}")
        return address
