"""The loop of ticks as machine code: it waits for the clock, steps the robot and writes rows.

While it runs no part of Python does anything for it, so that neither the page nor a slow client can
make a tick late. What Python wants lies in shared memory (`board.py`), and is taken between two
ticks.
"""

import ctypes
import functools
import platform

from tiburon.drive.board import (
    AWAKE,
    CATCH_UP,
    LATE_BINS,
    LATE_UNIT,
    LOG_SIZE,
    MARGIN_DOWN,
    MARGIN_UP,
    Entry,
    Word,
)
from tiburon.drive.tick_assembly import COUNT, ROW, SHARED, TAKE
from tiburon.native.engine import LoadedCode, load_module

__all__ = ["TickCode", "tick_code"]

_PAUSE = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
_YIELD = ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")

RELAX = {"x86_64": _PAUSE, "amd64": _PAUSE, "aarch64": _YIELD, "arm64": _YIELD}
"""By processor, the instruction that tells it that a loop only waits; others do without."""

SLICE = 1_000_000
"""How long the loop sleeps at once while it is paused [ns]."""

_WAIT = """
{DECLARE_RELAX}

; moves the margin to where 1 of 1000 sleeps is longer by more; one that no margin would make good
; teaches nothing
define internal void @learn(ptr %table, i64 %target) {
entry:
  %words = load ptr, ptr %table
  %woke = call i64 @clock(ptr %table)
  %over = sub i64 %woke, %target
  %most_at = getelementptr i64, ptr %words, i64 {MARGIN_MOST}
  %most = load atomic i64, ptr %most_at monotonic, align 8
  %beyond = icmp sgt i64 %over, %most
  br i1 %beyond, label %done, label %adapt
adapt:
  %margin_at = getelementptr i64, ptr %words, i64 {MARGIN}
  %margin = load atomic i64, ptr %margin_at monotonic, align 8
  %short = icmp sgt i64 %over, %margin
  %step = select i1 %short, i64 {MARGIN_UP}, i64 -{MARGIN_DOWN}
  %sum = add i64 %margin, %step
  %negative = icmp slt i64 %sum, 0
  %least = select i1 %negative, i64 0, i64 %sum
  %large = icmp sgt i64 %least, %most
  %new = select i1 %large, i64 %most, i64 %least
  store atomic i64 %new, ptr %margin_at monotonic, align 8
  br label %done
done:
  ret void
}

; waits a part of the time that is left: asleep until the margin, then awake
define internal void @wait(ptr %table, i64 %time, i64 %left) {
entry:
  %words = load ptr, ptr %table
  %margin_at = getelementptr i64, ptr %words, i64 {MARGIN}
  %learned = load atomic i64, ptr %margin_at monotonic, align 8
  ; ticks may have come closer since it was learned
  %most_at = getelementptr i64, ptr %words, i64 {MARGIN_MOST}
  %most = load atomic i64, ptr %most_at monotonic, align 8
  %over = icmp sgt i64 %learned, %most
  %margin = select i1 %over, i64 %most, i64 %learned
  %free = sub i64 %left, %margin
  %asleep = icmp sgt i64 %free, 0
  br i1 %asleep, label %sleep, label %spin
spin:
  {RELAX}
  ret void
sleep:
  ; a long wait is cut: a pause or an end is then seen soon
  %long = icmp sgt i64 %free, {LONGEST}
  %part = select i1 %long, i64 {LONGEST}, i64 %free
  call void @rest(ptr %table, i64 %part)
  %target = add i64 %time, %part
  call void @learn(ptr %table, i64 %target)
  ret void
}
"""

_LOOP = """
define i32 @run(ptr %table) {
entry:
  %words = load ptr, ptr %table
  %stop_at = getelementptr i64, ptr %words, i64 {STOP}
  %paused_at = getelementptr i64, ptr %words, i64 {PAUSED}
  %status_at = getelementptr i64, ptr %words, i64 {STATUS}
  %wanted_at = getelementptr i64, ptr %words, i64 {STEPS_WANTED}
  %stepped_at = getelementptr i64, ptr %words, i64 {STEPS_DONE}
  %period_at = getelementptr i64, ptr %words, i64 {PERIOD}
  %lost_at = getelementptr i64, ptr %words, i64 {LOST}
  %missed_at = getelementptr i64, ptr %words, i64 {MISSED}
  %begin = call i64 @clock(ptr %table)
  br label %again
again:
  %due = phi i64 [ %begin, %entry ], [ %due, %wait ], [ %next, %worked ],
    [ %fresh, %idle ], [ %stepped_time, %single ]
  call void @clear(ptr %table)
  %stop = load atomic i64, ptr %stop_at acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %look
end:
  ret i32 0
look:
  %pause = load atomic i64, ptr %paused_at acquire, align 8
  %status = load i64, ptr %status_at
  %either = or i64 %pause, %status
  %resting = icmp ne i64 %either, 0
  br i1 %resting, label %still, label %timed
timed:
  %time = call i64 @clock(ptr %table)
  %left = sub i64 %due, %time
  %early = icmp sgt i64 %left, 0
  br i1 %early, label %wait, label %go
wait:
  call void @wait(ptr %table, i64 %time, i64 %left)
  br label %again
go:
  %late = sub i64 %time, %due
  call void @count(ptr %table, i64 %late)
  %behind = icmp sgt i64 %late, {CATCH_UP}
  %lost_now = select i1 %behind, i64 %late, i64 0
  %lost = load i64, ptr %lost_at
  %lost_sum = add i64 %lost, %lost_now
  store i64 %lost_sum, ptr %lost_at
  ; ticks that never come because their time was given up are told, too
  %pace = load atomic i64, ptr %period_at monotonic, align 8
  %missed_now = sdiv i64 %lost_now, %pace
  %missed = load i64, ptr %missed_at
  %missed_sum = add i64 %missed, %missed_now
  store i64 %missed_sum, ptr %missed_at
  %base = select i1 %behind, i64 %time, i64 %due
  %ignored = call i1 @take_posts(ptr %table)
  call void @tick(ptr %table, i64 %late)
  br label %worked
worked:
  %after = call i64 @clock(ptr %table)
  %length = sub i64 %after, %time
  call void @work(ptr %words, i64 %length)
  %period = load atomic i64, ptr %period_at monotonic, align 8
  %next = add i64 %base, %period
  br label %again
still:
  %moved = call i1 @take_posts(ptr %table)
  br i1 %moved, label %show, label %steps
show:
  call void @row(ptr %table, i64 0)
  br label %steps
steps:
  %status_now = load i64, ptr %status_at
  %sound = icmp eq i64 %status_now, 0
  %wanted = load atomic i64, ptr %wanted_at acquire, align 8
  %taken = load i64, ptr %stepped_at
  %more = icmp slt i64 %taken, %wanted
  %step = and i1 %sound, %more
  br i1 %step, label %single, label %idle
single:
  call void @tick(ptr %table, i64 0)
  %one = add i64 %taken, 1
  store atomic i64 %one, ptr %stepped_at release, align 8
  %stepped_time = call i64 @clock(ptr %table)
  br label %again
idle:
  call void @rest(ptr %table, i64 {SLICE})
  ; the clock starts anew: a pause is no delay
  %fresh = call i64 @clock(ptr %table)
  br label %again
}
"""

LONGEST = 20_000_000
"""Longest sleep at once [ns]: slow motion has long ticks."""


def _assembly() -> str:
    """Return the module."""
    pointers = (
        "KERNEL INPUTS OUTPUTS STATE FOUND CLOCK NUMBERS POSTED POSTED_STATE STAGE RING BINS LOG"
    )
    numbers = "STATE_SIZE NUMBERS_SIZE HELD_SIZE RING_ROWS RING_STRIDE DONE_PLACE STEPS"
    values: dict[str, object] = {word.name: int(word) for word in Word}
    values |= {
        "READ_CLOCK": int(Entry.READ_CLOCK),
        "CLOCK_ID": int(Entry.CLOCK_ID),
        "SLEEP": int(Entry.SLEEP),
        "LATE_UNIT": LATE_UNIT,
        "LAST_BIN": LATE_BINS - 1,
        "LAST_LOG": LOG_SIZE - 1,
        "COUNTED": int(Word.END) - int(Word.TICKS),
        "BIN_COUNT": LATE_BINS,
        "CATCH_UP": CATCH_UP,
        "LONGEST": LONGEST,
        "SLICE": SLICE,
        "AWAKE": AWAKE,
        "MARGIN_UP": MARGIN_UP,
        "MARGIN_DOWN": MARGIN_DOWN,
    }
    declared, said = RELAX.get(platform.machine().lower(), ("", ""))
    values |= {"DECLARE_RELAX": declared, "RELAX": said}
    parts = []
    for text in (SHARED, ROW, TAKE, COUNT, _WAIT, _LOOP):
        # each function loads what it uses of the table
        lines = []
        for name in (pointers + " " + numbers).split():
            kind = "ptr" if name in pointers.split() else "i64"
            lines.append(f"%{name}_at = getelementptr i64, ptr %table, i64 {int(Entry[name])}")
            lines.append(f"%{name} = load {kind}, ptr %{name}_at")
        text = text.replace("{loads}", "\n  ".join(lines))
        for name, value in values.items():
            text = text.replace("{" + name + "}", str(value))
        parts.append(text)
    return "\n".join(parts)


class TickCode:
    """The compiled loop and the two ways in and out of its memory."""

    def __init__(self, loaded: LoadedCode) -> None:
        self._loaded = loaded
        pointer = ctypes.c_void_p
        # calls by ctypes let other threads of Python run meanwhile: `run` returns when told to stop
        self.run = ctypes.CFUNCTYPE(ctypes.c_int, pointer)(self._loaded.address("run"))
        self.peek = ctypes.PYFUNCTYPE(ctypes.c_longlong, pointer)(self._loaded.address("peek"))
        self.post = ctypes.PYFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_longlong)(
            self._loaded.address("post")
        )


@functools.cache
def tick_code() -> TickCode:
    """Return the loop, compiled or found compiled."""
    # without passes: they would make calls of a library out of the loops
    return TickCode(load_module("ticks", _assembly(), optimize=False))
