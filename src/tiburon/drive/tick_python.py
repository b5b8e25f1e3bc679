"""The loop of ticks in Python: where there is no compiler, and to compare machine code with.

It does what `tick_code` does, in the same order; but it needs the interpreter's lock, and is late
whenever other threads keep it.
"""

import time
from collections.abc import Callable

from tiburon.drive.board import (
    AWAKE,
    CATCH_UP,
    LATE_BINS,
    LATE_UNIT,
    LOG_SIZE,
    MARGIN_DOWN,
    MARGIN_UP,
    Board,
    Word,
)
from tiburon.drive.tick_source import TickClock

__all__ = ["clear_counts", "run_ticks", "write_row"]

DONE = TickClock._fields.index("done")
IDLE = 1e-3
"""How long the loop sleeps at once while it is paused [s]."""

LONGEST = 20_000_000
"""Longest sleep at once [ns]."""


def run_ticks(board: Board, advance: Callable[[], bool]) -> None:
    """Step by the clock until told to stop.

    Args:
        board: The memory shared with whoever drives.
        advance: Takes the steps of one tick into `board.found`; False if a number is not finite.
    """
    words = board.words
    due = time.monotonic_ns()
    while True:
        if words[Word.CLEAR] != words[Word.CLEAR_SEEN]:
            clear_counts(board)
        if words[Word.STOP]:
            return
        if words[Word.PAUSED] or words[Word.STATUS]:
            if _take_posts(board):
                write_row(board, 0)
            if not words[Word.STATUS] and words[Word.STEPS_DONE] < words[Word.STEPS_WANTED]:
                _tick(board, advance, 0)
                words[Word.STEPS_DONE] += 1
            else:
                time.sleep(IDLE)
            # the clock starts anew: a pause is no delay
            due = time.monotonic_ns()
            continue
        now = time.monotonic_ns()
        if now < due:
            _wait(board, now, due - now)
            continue
        late = now - due
        _count(board, late)
        if late > CATCH_UP:
            words[Word.LOST] += late
            # ticks that never come because their time was given up are told, too
            words[Word.MISSED] += late // int(words[Word.PERIOD])
            due = now
        _take_posts(board)
        _tick(board, advance, late)
        length = time.monotonic_ns() - now
        words[Word.BUSY] += length
        words[Word.MOST_BUSY] = max(int(words[Word.MOST_BUSY]), length)
        due += int(words[Word.PERIOD])


def _wait(board: Board, now: int, left: int) -> None:
    """Wait a part of the time that is left [ns]: asleep until the margin, then awake."""
    words = board.words
    # ticks may have come closer since the margin was learned
    most = int(words[Word.MARGIN_MOST])
    free = left - min(int(words[Word.MARGIN]), most)
    if free <= 0:
        # others may have the interpreter meanwhile
        time.sleep(0.0)
        return
    part = min(free, LONGEST)
    time.sleep(1e-9 * part)
    over = time.monotonic_ns() - now - part
    # one that no margin would make good teaches nothing
    if over <= most:
        margin = int(words[Word.MARGIN])
        step = MARGIN_UP if over > margin else -MARGIN_DOWN
        words[Word.MARGIN] = min(max(margin + step, 0), most)


def clear_counts(board: Board) -> None:
    """Start counts anew."""
    board.words[Word.TICKS :] = 0
    board.bins[:] = 0
    board.words[Word.CLEAR_SEEN] = board.words[Word.CLEAR]


def write_row(board: Board, late: int) -> None:
    """Write where the robot is, with the commands and how late the tick began [ns]."""
    head = int(board.words[Word.HEAD])
    row = board.ring[head % len(board.ring)]
    n = len(board.found)
    row[0], row[1] = board.clock[DONE], late
    row[2 : 2 + n] = board.state[:n]
    row[2 + n :] = board.numbers[: board.held_size]
    board.words[Word.HEAD] = head + 1


def _take_posts(board: Board) -> bool:
    """Take what was posted, if it is whole; return whether the robot was put elsewhere."""
    words = board.words
    moved = False
    sequence = int(words[Word.STATE_SEQ])
    if sequence != words[Word.STATE_SEEN] and sequence % 2 == 0:
        stage = board.posted_state.copy()
        if sequence == words[Word.STATE_SEQ]:
            board.state[:] = stage
            board.clock[DONE] = stage[-1]
            words[Word.STATUS] = 0
            words[Word.STATE_SEEN] = sequence
            moved = True
    sequence = int(words[Word.POST_SEQ])
    if sequence != words[Word.POST_SEEN] and sequence % 2 == 0:
        stage = board.posted.copy()
        if sequence == words[Word.POST_SEQ]:
            board.numbers[:] = stage
            words[Word.POST_SEEN] = sequence
    return moved


def _tick(board: Board, advance: Callable[[], bool], late: int) -> None:
    if not advance():
        board.words[Word.STATUS] = 1
        return
    board.state[:-1] = board.found
    board.clock[DONE] += board.clock[-1]
    write_row(board, late)


def _count(board: Board, late: int) -> None:
    words = board.words
    board.bins[min(late // LATE_UNIT, LATE_BINS - 1)] += 1
    tick = int(words[Word.TICKS])
    words[Word.TICKS] = tick + 1
    words[Word.MOST_LATE] = max(int(words[Word.MOST_LATE]), late)
    before = int(words[Word.LATE_BEFORE])
    words[Word.LATE_BEFORE] = int(late > words[Word.LIMIT])
    if late > words[Word.LIMIT]:
        # one gap makes many ticks late: gaps begin after a tick in time
        words[Word.GAPS] += 1 - before
        # waiting awake is paid for in turns where others want the processor, too: less of it
        if words[Word.MARGIN] < AWAKE:
            words[Word.MARGIN] //= 2
        overruns = int(words[Word.OVERRUNS])
        board.log[overruns % LOG_SIZE] = tick, late
        words[Word.OVERRUNS] = overruns + 1
