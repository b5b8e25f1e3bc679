"""Code of a program: its source, and machine code from memory, the disk cache or the compiler.

Without a compiler, the NumPy interpreter evaluates programs behind the same interface: if llvmlite
cannot be imported, and on request (TIBURON_ENGINE=interpreter). Its results agree with native code
to rounding, not bit for bit, and take some hundred times longer.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from tiburon.errors import CompileError, OptionError, TiburonError, TiburonWarning, TraceError
from tiburon.lazy import garbage_collection_paused
from tiburon.native import cache
from tiburon.native.arguments import Array, Signature, as_rows, pointers
from tiburon.native.engine import BLOCKED_LANES, LoadedCode, compile_module, host
from tiburon.native.layout import object_layout
from tiburon.native.pool import default_threads, run_in_parts
from tiburon.operating_system import at_fork
from tiburon.record import record
from tiburon.trace.graph import Graph
from tiburon.trace.interpret import interpret
from tiburon.trace.program import Program
from tiburon.trace.regions import GraphRegion


class Source(Protocol):
    """Where a kernel comes from; picklable, so that kernels travel between processes."""

    @property
    def name(self) -> str:
        """Name of the kernel."""

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is; finding it does not need tracing."""

    def program(self) -> Program:
        """Trace the program."""

    def retrace(self) -> None:
        """Trace user code as it is now, so that `key` belongs to what it computes now."""


@record(slots=False)
class ProgramSource:
    """A program that was traced already, such as a user's function."""

    traced: Program

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.traced.name

    @functools.cached_property
    def key(self) -> str:
        """Digest of the graph."""
        from tiburon.trace.digest import program_digest

        return f"graph {program_digest(self.traced)}"

    def program(self) -> Program:
        """Return the program."""
        return self.traced

    def retrace(self) -> None:
        """Do nothing: the program is traced already."""


CODES_IN_MEMORY = 256
"""How many programs' machine code is kept; what a kernel in use holds stays alive regardless."""

LONG_WAIT = 2.0
"""Time of a compilation after which a terminal shows what is compiled [s]."""

MIN_THREAD_WORK = 150e-6
"""Work per core below which threads cost more than they save [s]."""

_ONE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_MANY = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_longlong, ctypes.c_longlong)

# one thread at a time makes a further part of a code
_making = threading.RLock()


Part = Literal["one", "many"]
"""The function for one case, or that for many; each is compiled when it is first needed."""

Stage = Literal["one", "many", "quick one", "quick many"]
"""A part compiled with all optimizations, or quickly."""

QUICK_CASES = 50_000
"""Most cases that quickly compiled code computes before optimized code is compiled. Optimized steps
of robots repay their compilation after 70,000 to 150,000 cases (AVX-512)."""

OPTIMIZING_PACE = 1e-6
"""Time of compiling optimized code per byte of quick code [s]: half to three times this for arms,
legged robots and chains of 1000 links. Code that has run for as long is replaced."""

QUICK_LINES = {"one": (150, 1_000_000), "many": (150, 300_000)}
"""Least and most lines of assembly that are compiled quickly at first, for each part."""

WIDE_LINES = 8000
"""Most lines of quick code for many cases in full vectors. Quick code keeps nearly every value on
the stack, a whole vector each: longer code takes the narrowest vectors."""


class _Origin:
    """Where the code of one program comes from: the disk cache, or the compiler."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._key = source.key

    def obtain(
        self, stages: Sequence[Stage], module: _Module | None, *, announce: bool
    ) -> tuple[Stage, _Module | None, bytes, dict[str, Any]]:
        """Load one of some kinds of code from the disk cache, or compile and store the last.

        Args:
            stages: Kinds of code of one part, best first.
            module: What code of this part was compiled from before.
            announce: Whether to print on a terminal what is compiled.

        Returns:
            Kind, what it was compiled from if it was, object code and header.
        """
        link = cache.link_key(self._key)
        linked = cache.load_link(link)
        found = None if linked is None else _cached(stages, linked)
        if found is not None:
            return found
        announced = _announced(self._source) if announce else contextlib.nullcontext()
        with announced, garbage_collection_paused():
            return self._compile(stages, module, link, linked)

    def _compile(
        self, stages: Sequence[Stage], module: _Module | None, link: str, linked: str | None
    ) -> tuple[Stage, _Module | None, bytes, dict[str, Any]]:
        """Trace the program; find its code by its graph, or compile and store it."""
        stage = stages[-1]
        narrow = None
        if module is None:
            program = self._trace()
            graph = _graph_key(program)
            if graph is not None and graph != linked:
                cache.store_link(link, graph)
                found = _cached(stages, graph)
                if found is not None:
                    return found
            from tiburon.native.module import (
                NARROW_LANES,
                has_own_generator,
                write_module,
                write_narrow_module,
            )

            part = stages[0]
            least, most = QUICK_LINES[part]
            if (
                stage == "quick many"
                and not has_own_generator()
                and host().lanes > NARROW_LANES
                and _is_long(program, 3 * WIDE_LINES // 4)
            ):
                # a third more lines than nodes, or so: wide vectors are written when needed
                narrow = write_narrow_module(program)
                kept: Program | bytes = program
                if narrow.count("\n") > most:
                    narrow, stage = None, part
            else:
                text, lanes = write_module(program, part)
                lines = text.count("\n")
                if has_own_generator() or not least <= lines <= most:
                    stage = part
                elif stage != part and lines > WIDE_LINES and lanes > NARROW_LANES:
                    narrow = write_narrow_module(program)
                kept = zlib.compress(text.encode(), 1)
            header = Signature.of(program).to_header()
            module = _Module(graph, header, kept, program.has_calls)
        quick = stage.startswith("quick")
        assembly = narrow or module.assembly(stages[0])
        # straight-line code gains from it where rows are transposed
        optimize = module.has_calls or stage == "many"
        code = compile_module(assembly, optimize=optimize, quick=quick)
        header = {"name": f"{self._source.name} ({_STAGES[stage]})", **module.header}
        # files edited meanwhile: the version of the generator that wrote the code is unknown
        if module.graph is not None and cache.generator_stamp() is not None:
            cache.store_entry(cache.code_key(stage, module.graph), header, code)
        return stage, module, code, header

    def _trace(self) -> Program:
        """Return the program of the source, which must still be what its key says."""
        program = self._source.program()
        self._source.retrace()
        if self._source.key != self._key:
            raise TraceError(
                f"kernel {self._source.name!r}: your code gives other results than when the "
                "kernel was made: an array, a global or an attribute that it reads has changed; "
                "make the kernel again"
            )
        return program


class _Function:
    """One part of a code.

    A function is compiled twice unless it is short: quickly when it is first called, which takes
    about a fourth of the time for slower code, and with all optimizations once it has run for as
    long as that takes, or computed many cases. The bits of both are the same.
    """

    def __init__(self, origin: _Origin, part: Part) -> None:
        self._origin = origin
        self._part: Part = part
        self._optimized: LoadedCode | None = None
        self._quick: LoadedCode | None = None
        # address of the best code, 0 while there is none
        self._address = 0
        # what quick code was compiled from, until there is optimized code
        self._module: _Module | None = None
        self._optimizer: threading.Thread | None = None
        # what quick code has done: cases, time in all and of one case, and how often it was timed
        self._cases = 0
        self._spent = self._pace = 0.0
        self._timed = 0

    @property
    def is_optimized(self) -> bool:
        """Whether there is optimized code."""
        return self._optimized is not None

    @property
    def is_loaded(self) -> bool:
        """Whether there is code of any kind."""
        return self._address != 0

    def load_first(self, cases: int = 0) -> dict[str, Any]:
        """Load the best code there is, or compile what first calls take; return its header.

        Args:
            cases: How many are going to be computed, if that is known.
        """
        quick: Stage = "quick one" if self._part == "one" else "quick many"
        many = cases > QUICK_CASES or not quick_code_wanted()
        return self._load((self._part,) if many else (self._part, quick))

    def _load(self, stages: Sequence[Stage], *, announce: bool = True) -> dict[str, Any]:
        stage, module, code, header = self._origin.obtain(stages, self._module, announce=announce)
        loaded = LoadedCode(code)
        with _making:
            if stage == self._part:
                loaded = self._optimized = self._optimized or loaded
                self._module = None
            else:
                self._quick, self._module = loaded, module
            self._address = loaded.address(self._part)
        return header

    def address(self) -> int:
        """Return the address of optimized code, compiled when first needed."""
        if self._optimized is None:
            self.wait_for_optimizer()
            with _making:
                if self._optimized is None:
                    self._load((self._part,))
        return self._address

    def first_address(self) -> int:
        """Return the address of optimized code if it is there, else of quick code."""
        if not self._address:
            with _making:
                if not self._address:
                    self.load_first()
        return self._address

    def address_for(self, cases: int, *, wait: bool) -> int:
        """Return the address for some more cases: optimized code if they are many in all.

        Args:
            cases: How many are going to be computed.
            wait: Whether to wait until there is optimized code, where it is needed.
        """
        self._cases += cases
        if self._optimized is None:
            if self._cases > QUICK_CASES and (wait or self._quick is None):
                return self.address()
            if self._quick is not None and self.is_due():
                self.optimize_in_background()
        return self._address or self.first_address()

    def time_calls(self, cases: int, seconds: float) -> None:
        """Note how long some cases took, which were computed just now [s]."""
        if self._optimized is None and cases > 0:
            pace = seconds / cases
            # the first call also reads the code from memory
            self._pace = min(self._pace, pace) if self._timed else pace
            self._timed += 1
            self._spent += seconds

    def count_calls(self, calls: int) -> None:
        """Count calls of one case that were not timed."""
        self._cases += calls
        self._spent += calls * self._pace

    def is_due(self) -> bool:
        """Return whether quick code has run so long that optimized code would repay."""
        return self._cases >= QUICK_CASES or self._spent >= self._budget()

    def _budget(self) -> float:
        """Return how long quick code may run, 0 if there is none [s]."""
        return 0.0 if self._quick is None else OPTIMIZING_PACE * len(self._quick.code)

    def calls_left(self) -> int | None:
        """Return how many calls of one case may follow until it is due; None if none was timed."""
        if self._timed < 2:
            return None
        by_time = (self._budget() - self._spent) / max(self._pace, 1e-9)
        return max(1, min(QUICK_CASES - self._cases, int(by_time)))

    def calls_within(self, seconds: float) -> int:
        """Return how many calls of one case take a time [s], at least 1."""
        return max(1, int(seconds / max(self._pace, 1e-9)))

    def blocked_lanes(self, address: int) -> int:
        """Return the cases of a group of lane-blocked rows, 0 if the code takes none of them.

        Args:
            address: What another method returned.
        """
        for loaded in (self._optimized, self._quick):
            if loaded is not None and loaded.address(self._part) == address:
                found = loaded.find(BLOCKED_LANES)
                return int(ctypes.CFUNCTYPE(ctypes.c_int)(found)()) if found else 0
        return 0

    def optimize_in_background(self) -> None:
        """Start to compile optimized code, unless it is there or on its way."""
        with _making:
            alive = self._optimizer is not None and self._optimizer.is_alive()
            if alive or self.is_optimized:
                return
            # the interpreter waits for it at exit: LLVM must not be torn down under it
            thread = threading.Thread(target=self._optimize, name="tiburon compiler")
            # no new threads while the interpreter shuts down
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._optimizer = thread

    def _optimize(self) -> None:
        # where user code has changed since, quick code stays
        with contextlib.suppress(TiburonError):
            self._load((self._part,), announce=False)

    def wait_for_optimizer(self) -> None:
        """Wait until no optimized code is being compiled."""
        if self._optimizer is not None:
            self._optimizer.join()

    def size(self) -> int:
        """Return the size of optimized code, estimated from quick code; 0 if there is none yet."""
        if self._optimized is not None:
            return len(self._optimized.code)
        return 0 if self._quick is None else len(self._quick.code) // 2


class Code:
    """Machine code of one program.

    Attributes:
        signature: What it takes and gives.
        one: The function for one case.
        many: The function for many cases.
    """

    def __init__(self, source: Source, part: Part = "one", cases: int = 0) -> None:
        """Compile one part, or load it.

        Args:
            source: The source of the program.
            part: The part that is needed first.
            cases: How many it is going to compute, if that is known.
        """
        origin = _Origin(source)
        self.one, self.many = _Function(origin, "one"), _Function(origin, "many")
        # time of one case in a batch, 0 until it was measured [s]
        self._seconds = 0.0
        self._called: dict[int, Callable[..., int]] = {}
        first = self.one if part == "one" else self.many
        self.signature = Signature.from_header(first.load_first(cases))

    @property
    def one_address(self) -> int:
        """Address of the function for one case, optimized."""
        return self.one.address()

    def _call(self, kind: Callable[..., Any], address: int) -> Callable[..., int]:
        """Return the function of Python for an address of machine code."""
        found = self._called.get(address)
        if found is None:
            # measured times are those of other code
            self._seconds = 0.0
            found = self._called[address] = kind(address)
        return found

    def run(
        self,
        arrays: Sequence[Array],
        batch: tuple[int, ...],
        results: Sequence[Array],
        threads: int | None,
    ) -> int:
        """Compute one case or a batch.

        Args:
            arrays: Inputs, each of shape (..., *shape of one case).
            batch: Shape of the cases.
            results: Contiguous arrays to write to, of shape (*batch, *shape of one case).
            threads: Cores to use at most; None for as many as are worth it.

        Returns:
            0, or 1 if an input or a result may hold a number that is not finite.
        """
        if batch == ():
            plain = [np.require(array, requirements=("C", "A")) for array in arrays]
            given, made = pointers(plain), pointers(results)
            one = self._call(_ONE, self.one.first_address())
            start = time.perf_counter()
            status = one(given.ctypes.data, made.ctypes.data)
            self.one.time_calls(1, time.perf_counter() - start)
            # the fast call needs no check of bound parameters, so the function has none
            sound = all(
                np.isfinite(array).all()
                for item, array in zip(self.signature.inputs, arrays, strict=True)
                if item.parameter
            )
            return status if sound else 1
        rows = [as_rows(i, a, batch) for i, a in zip(self.signature.inputs, arrays, strict=True)]
        tables = (
            pointers([row for row, _ in rows]),
            np.array([step for _, step in rows], dtype=np.int64),
            pointers(results),
            np.array([np.prod(o.shape, dtype=int) for o in self.signature.outputs], dtype=np.int64),
        )
        addresses = [table.ctypes.data for table in tables]
        return self.run_many(addresses, int(np.prod(batch)), threads)

    def run_many(self, addresses: Sequence[int], count: int, threads: int | None) -> int:
        """Compute many cases.

        Args:
            addresses: Of the tables that the function for many cases takes.
            count: Number of cases.
            threads: Cores to use at most; None for as many as are worth it.

        Returns:
            0, or 1 if an input or a result may hold a number that is not finite.
        """
        many = self._call(_MANY, self.many.address_for(count, wait=False))
        seconds = self._seconds or self.guess_seconds()
        useful = int(count * seconds / MIN_THREAD_WORK)
        if useful > 1:
            useful = min(useful, default_threads() if threads is None else threads)
        start = time.perf_counter()
        if useful > 1:
            status = run_in_parts(
                lambda begin, end: many(*addresses, begin, end),
                count,
                threads=useful,
                granule=host().lanes,
            )
            self.many.time_calls(count, time.perf_counter() - start)
            return status
        status = many(*addresses, 0, count)
        taken = time.perf_counter() - start
        self.many.time_calls(count, taken)
        if count >= 16 * host().lanes:
            self._seconds = taken / count
        return status

    def guess_seconds(self) -> float:
        """Guess the time of one case in a batch before it was ever measured [s]."""
        # about 6 bytes an instruction, two instructions a cycle at 3 GHz
        size = self.many.size() or self.one.size()
        return size / 6 / 2 / 3e9 / host().lanes


@record
class _Module:
    """What code is compiled from.

    Attributes:
        graph: Key of the graph; None if it is unknown.
        header: The signature, as entries of the disk cache hold it.
        origin: LLVM assembly, compressed, or the program from which it is written when needed.
        has_calls: Whether the program has calls, whose functions LLVM optimizes.
    """

    graph: str | None
    header: dict[str, Any]
    origin: Program | bytes
    has_calls: bool

    def assembly(self, part: Stage) -> str:
        """Return the LLVM assembly of a part."""
        if isinstance(self.origin, bytes):
            return zlib.decompress(self.origin).decode()
        from tiburon.native.module import write_module

        return write_module(self.origin, part).text


def _is_long(program: Program, limit: int) -> bool:
    """Return whether a program has more nodes than a limit, its callees included."""
    graphs: list[tuple[Graph, Sequence[int]]] = [(program.graph, program.roots)]
    seen: set[int] = set()
    count = 0
    while graphs and count <= limit:
        graph, roots = graphs.pop()
        nodes = graph.live(roots)
        count += len(nodes)
        for node in nodes:
            callee = graph.payloads[node] if graph.ops[node] == "call" else None
            if isinstance(callee, GraphRegion) and callee.key not in seen:
                seen.add(callee.key)
                graphs.append((callee.graph, callee.roots))
    return count > limit


_STAGES = {
    "one": "one case",
    "many": "many cases",
    "quick one": "one case, quick",
    "quick many": "many cases, quick",
}


def _cached(
    stages: Sequence[Stage], graph: str
) -> tuple[Stage, _Module | None, bytes, dict[str, Any]] | None:
    """Load the first of some kinds of code that the disk cache holds; None if it holds none."""
    for stage in stages:
        entry = cache.load_entry(cache.code_key(stage, graph))
        if entry is not None:
            return stage, None, entry[1], entry[0]
    return None


@contextlib.contextmanager
def _announced(source: Source) -> Iterator[None]:
    """Report on a terminal what is compiled while it takes longer than `LONG_WAIT`."""
    terminal = sys.stderr
    if terminal is None or not terminal.isatty():
        yield
        return
    model = getattr(source, "model", None) or getattr(
        getattr(source, "system", None), "model", None
    )
    robot = "" if model is None else f" for {model.name}, {model.nv} DoF"
    text = f"compiling {source.name}{robot} ..."
    shown = threading.Event()

    def show() -> None:
        shown.set()
        terminal.write(text)
        terminal.flush()

    timer = threading.Timer(LONG_WAIT, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if shown.is_set():
            terminal.write("\r" + " " * len(text) + "\r")
            terminal.flush()


def _graph_key(program: Program) -> str | None:
    """Return what determines the machine code of a program; None if that is unknown."""
    from tiburon.trace.digest import program_digest

    stamp = cache.generator_stamp() if cache.cache_enabled() else None
    return None if stamp is None else f"{program_digest(program)} {stamp}"


_codes: OrderedDict[str, Code | InterpretedCode] = OrderedDict()
_codes_lock = threading.Lock()


def code_for(source: Source, part: Part = "one", cases: int = 0) -> Code | InterpretedCode:
    """Return the code of a program; compile it on first use.

    Args:
        source: The source of the program.
        part: The part that is needed first; the other one is compiled when it is needed.
        cases: How many it is going to compute, if that is known.
    """
    native = native_code_wanted()
    key = f"{'native' if native else 'interpreted'} {source.key}"
    with _codes_lock:
        found = _codes.get(key)
        if found is not None:
            _codes.move_to_end(key)
            return found
    made = Code(source, part, cases) if native else InterpretedCode(source)
    with _codes_lock:
        # another thread may have been quicker; both results are equal
        found = _codes.setdefault(key, made)
        while len(_codes) > CODES_IN_MEMORY:
            _codes.popitem(last=False)
    return found


def forget_codes() -> None:
    """Drop all code that no kernel uses."""
    with _codes_lock:
        _codes.clear()


def _hold_locks() -> None:
    _making.acquire()
    _codes_lock.acquire()


def _release_locks() -> None:
    _codes_lock.release()
    _making.release()


# a child forked while another thread held a lock would wait for that thread, which it does not have
at_fork(before=_hold_locks, in_parent=_release_locks, in_child=_release_locks)


ENGINES = ("native", "interpreter")
"""Values of TIBURON_ENGINE."""

COMPILERS = ("tiered", "optimized")
"""Values of TIBURON_COMPILER."""


def quick_code_wanted() -> bool:
    """Return whether first calls may take quickly compiled code: not where calls are not counted.

    Raises:
        OptionError: If TIBURON_COMPILER is unknown.
    """
    setting = os.environ.get("TIBURON_COMPILER", "").strip().lower()
    if setting and setting not in COMPILERS:
        raise OptionError("TIBURON_COMPILER", COMPILERS, setting)
    return setting != "optimized" and object_layout() is not None


def native_code_wanted() -> bool:
    """Return whether kernels are compiled: requested or not forbidden, and possible.

    Raises:
        OptionError: If TIBURON_ENGINE is unknown.
        CompileError: If TIBURON_ENGINE requests native code and llvmlite cannot be imported.

    Warns:
        TiburonWarning: Once per process, if llvmlite cannot be imported.
    """
    setting = os.environ.get("TIBURON_ENGINE", "").strip().lower()
    if setting and setting not in ENGINES:
        raise OptionError("TIBURON_ENGINE", ENGINES, setting)
    if setting == "interpreter":
        return False
    problem = _problem_with_llvmlite()
    if problem is None:
        return True
    if setting == "native":
        raise CompileError(
            f"TIBURON_ENGINE: native code needs llvmlite, which cannot be imported ({problem}); "
            "run 'pip install llvmlite'"
        )
    _warn_once(problem)
    return False


@functools.cache
def _problem_with_llvmlite() -> str | None:
    try:
        # imports llvmlite unless it described this machine before
        host()
    # a library that exists but does not load raises OSError or RuntimeError
    except (ImportError, OSError, RuntimeError) as error:
        return str(error)
    return None


@functools.cache
def _warn_once(problem: str) -> None:
    warnings.warn(
        f"llvmlite cannot be imported ({problem}); kernels run in the NumPy interpreter, some "
        "hundred times slower and with other rounding. Run 'pip install llvmlite', or set "
        "TIBURON_ENGINE=interpreter if that is what you want",
        TiburonWarning,
        stacklevel=2,
    )


class InterpretedCode:
    """One program, evaluated by the interpreter.

    Attributes:
        signature: Its inputs and results.
        one_address: None: there is no machine code.
    """

    def __init__(self, source: Source) -> None:
        self._program = source.program()
        self.signature = Signature.of(self._program)
        self.one_address: int | None = None

    def run(
        self,
        arrays: Sequence[Array],
        batch: tuple[int, ...],
        results: Sequence[Array],
        threads: int | None,
    ) -> int:
        """Compute as `Code.run` does; `threads` is ignored."""
        answers = interpret(self._program, arrays)
        answers = (answers,) if self.signature.single else answers
        for result, answer in zip(results, answers, strict=True):
            result[...] = answer
        return 0 if all(np.isfinite(array).all() for array in (*arrays, *results)) else 1
