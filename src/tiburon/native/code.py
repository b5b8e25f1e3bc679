"""Compiled code of a program: found in memory, in the cache, or made; the batch part on demand."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tiburon.native import cache
from tiburon.native.engine import LoadedCode, compile_module, host
from tiburon.native.module_many import module_for_many
from tiburon.native.module_one import module_for_one
from tiburon.trace.program import Input, Program

CODES_IN_MEMORY = 256
"""How many programs' machine code is kept; what a kernel in use holds stays alive regardless."""


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


@dataclass(frozen=True)
class ProgramSource:
    """A program that was traced already, such as a user's function."""

    traced: Program

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.traced.name

    @property
    def key(self) -> str:
        """Structural key of the graph."""
        return f"graph {self.traced.key:016x}"

    def program(self) -> Program:
        """Return the program."""
        return self.traced


@dataclass(frozen=True, slots=True)
class Result:
    """Name and shape of one array a kernel gives."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel takes and gives; kept with the code, so that no tracing is needed.

    Attributes:
        inputs: Arguments first, then parameters.
        outputs: Results.
        single: Whether the only result is returned by itself.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Result, ...]
    single: bool

    @property
    def arguments(self) -> tuple[Input, ...]:
        """What callers pass."""
        return tuple(item for item in self.inputs if not item.parameter)

    @property
    def parameters(self) -> tuple[Input, ...]:
        """What is bound to the kernel."""
        return tuple(item for item in self.inputs if item.parameter)

    @classmethod
    def of(cls, program: Program) -> Signature:
        """Read the signature off a program."""
        results = tuple(Result(output.name, output.shape) for output in program.outputs)
        return cls(program.inputs, results, program.single)

    def to_header(self) -> dict[str, Any]:
        """Return the signature as JSON data."""
        return {
            "inputs": [[i.name, list(i.shape), i.parameter, i.described] for i in self.inputs],
            "outputs": [[o.name, list(o.shape)] for o in self.outputs],
            "single": self.single,
        }

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Signature:
        """Read the signature from JSON data."""
        inputs = tuple(Input(n, tuple(s), bool(p), d) for n, s, p, d in header["inputs"])
        outputs = tuple(Result(n, tuple(s)) for n, s in header["outputs"])
        return cls(inputs, outputs, bool(header["single"]))


_ONE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_MANY = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_longlong, ctypes.c_longlong)


class Code:
    """Machine code of one program.

    Attributes:
        signature: What it takes and gives.
        one: The function for one case: (input pointers, output pointers) -> status.
        one_address: Its address.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._many: Callable[..., int] | None = None
        self._loaded_many: LoadedCode | None = None
        code, header = self._obtain(
            "one", lambda p: module_for_one(p, vector_lanes=host().lanes, fused=host().fused)
        )
        self.signature = Signature.from_header(header)
        self._loaded_one = LoadedCode(code)
        self.one_address = self._loaded_one.address("one")
        self.one: Callable[..., int] = _ONE(self.one_address)

    def _obtain(self, part: str, write: Callable[[Program], str]) -> tuple[bytes, dict[str, Any]]:
        """Take one part from the disk cache, or compile it and put it there."""
        key = cache.entry_key(part, self._source.key)
        entry = cache.load_entry(key)
        if entry is not None:
            return entry[1], entry[0]
        program = self._source.program()
        code = compile_module(write(program))
        label = f"{self._source.name} ({part} case{'s' if part == 'many' else ''})"
        header = {"name": label, **Signature.of(program).to_header()}
        cache.store_entry(key, header, code)
        return code, header

    @property
    def many(self) -> Callable[..., int]:
        """The function for many cases, compiled when first needed."""
        if self._many is None:
            with self._lock:
                if self._many is None:
                    lanes, fused = host().lanes, host().fused
                    code, _ = self._obtain(
                        "many", lambda p: module_for_many(p, lanes=lanes, fused=fused)
                    )
                    self._loaded_many = LoadedCode(code)
                    self._many = _MANY(self._loaded_many.address("many"))
        return self._many

    def guess_seconds(self) -> float:
        """Guess the time of one case in a batch before it was ever measured [s]."""
        # about 6 bytes an instruction, two instructions a cycle at 3 GHz
        size = len(self._loaded_many.code) if self._loaded_many else len(self._loaded_one.code)
        return size / 6 / 2 / 3e9 / host().lanes


_codes: OrderedDict[str, Code] = OrderedDict()
_codes_lock = threading.Lock()


def code_for(source: Source) -> Code:
    """Return the code of a program, compiling it only if nobody has."""
    key = source.key
    with _codes_lock:
        found = _codes.get(key)
        if found is not None:
            _codes.move_to_end(key)
            return found
    made = Code(source)
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
