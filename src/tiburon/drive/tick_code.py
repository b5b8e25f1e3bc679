"""The tick loop as machine code: waits for the wall clock, steps the robot and writes rows.

The loop runs without Python, so that neither the page nor a slow client delays a tick. Python
communicates through shared memory (`tick_memory.py`), which the loop reads between two ticks.

In its LLVM source, `tick_loop.ll`, names in braces are indices and sizes, which `_llvm_source`
fills in; ``{loads}`` loads all entries of the argument table.
"""

import ctypes
import functools
from pathlib import Path

from tiburon.drive.tick_memory import (
    CATCH_UP,
    LATE_BINS,
    LATE_UNIT,
    LOG_SIZE,
    MARGIN_DOWN,
    MARGIN_UP,
    MAX_SLEEP,
    NEVER_SLEEP,
    PAUSED_SLEEP,
    Entry,
    Word,
)
from tiburon.native.engine import LoadedCode, load_module
from tiburon.operating_system import system_and_processor
from tiburon.simulation.step_plan import DONE

_PAUSE = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
_YIELD = ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")

RELAX = {"x86_64": _PAUSE, "amd64": _PAUSE, "aarch64": _YIELD, "arm64": _YIELD}
"""Spin-wait hints by processor architecture."""


def _llvm_source() -> str:
    """Return the LLVM module as text."""
    pointers = (
        "RUN JOB STATE BEGIN WORK FOUND CLOCKS NUMBERS COMMANDS POSTED POSTED_STATE STAGE RING "
        "BINS LOG"
    )
    numbers = (
        "STATE_SIZE WORK_SIZE NUMBERS_SIZE COMMANDS_SIZE RING_ROWS RING_STRIDE CLOCK_SIZE STEPS"
    )
    values: dict[str, object] = {word.name: int(word) for word in Word}
    values |= {
        "READ_CLOCK": int(Entry.READ_CLOCK),
        "CLOCK_ID": int(Entry.CLOCK_ID),
        "SLEEP": int(Entry.SLEEP),
        "DONE": DONE,
        "LATE_UNIT": LATE_UNIT,
        "LAST_BIN": LATE_BINS - 1,
        "LAST_LOG": LOG_SIZE - 1,
        "COUNTED": int(Word.END) - int(Word.TICKS),
        "BIN_COUNT": LATE_BINS,
        "CATCH_UP": CATCH_UP,
        "MAX_SLEEP": MAX_SLEEP,
        "PAUSED_SLEEP": PAUSED_SLEEP,
        "NEVER_SLEEP": NEVER_SLEEP,
        "MARGIN_UP": MARGIN_UP,
        "MARGIN_DOWN": MARGIN_DOWN,
    }
    declared, hint = RELAX.get(system_and_processor()[1].lower(), ("", ""))
    values |= {"DECLARE_RELAX": declared, "RELAX": hint}
    lines = []
    for name in (pointers + " " + numbers).split():
        kind = "ptr" if name in pointers.split() else "i64"
        lines.append(f"%{name}_at = getelementptr i64, ptr %table, i64 {int(Entry[name])}")
        lines.append(f"%{name} = load {kind}, ptr %{name}_at")
    values["loads"] = "\n  ".join(lines)
    text = Path(__file__).with_name("tick_loop.ll").read_text("utf-8")
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


class TickCode:
    """The compiled loop, and access to its memory."""

    def __init__(self, loaded: LoadedCode) -> None:
        self._loaded = loaded
        pointer = ctypes.c_void_p
        # CFUNCTYPE releases the GIL: `run` returns after a stop request
        self.run = ctypes.CFUNCTYPE(ctypes.c_int, pointer)(self._loaded.address("run"))
        self.peek = ctypes.PYFUNCTYPE(ctypes.c_longlong, pointer)(self._loaded.address("peek"))
        self.post = ctypes.PYFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_longlong)(
            self._loaded.address("post")
        )


@functools.cache
def tick_code() -> TickCode:
    """Return the loop, compiled or from the cache."""
    # not optimized: passes would replace the loops by library calls
    return TickCode(load_module("ticks", _llvm_source(), optimize=False))
