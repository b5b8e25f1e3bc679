"""How ticks are waited for, by a clock that the test makes: gaps, grids, margins, grants."""

import ctypes
import math
import os
import sys
import threading

import numpy as np
import pytest

import tiburon as tb
from tiburon.actuation.defaults import elements_of
from tiburon.drive import tick_python
from tiburon.drive.tick_memory import CATCH_UP, Entry, Word
from tiburon.drive.ticker import WAITS, RealTimeSettings, Ticker, read_machine, time_between
from tiburon.simulation.system import System

MS = 1_000_000
READ = 1_000
"""What one look at the clock takes [ns]."""


@pytest.fixture(scope="module")
def system():
    model = tb.load("cart_pole")
    return System(model, None, elements_of(model))


class WallClock:
    """A clock that continues by itself when it is read or slept on, and jumps on request.

    Stands for `clock_gettime` and `nanosleep` of the native loop, and for `time` of that in Python.
    """

    def __init__(self, ticker, end, over=lambda: 0, jumps=()):
        self.ticker, self.now, self.end, self.over = ticker, 0, end, over
        self.jumps = sorted(jumps)
        self.asleep = 0

    def monotonic_ns(self):
        self.now += READ
        if self.jumps and self.now >= self.jumps[0][0]:
            self.now += self.jumps.pop(0)[1]
        if self.now >= self.end:
            self.ticker.memory.words[Word.STOP] = 1
        return self.now

    def sleep(self, seconds):
        length = round(1e9 * seconds)
        self.asleep += length
        self.now += length + (self.over() if length else 0)

    def run(self, monkeypatch):
        """Let the loop of the ticker run by this clock until its end."""
        if not self.ticker.native:
            monkeypatch.setattr(tick_python, "time", self)
            tick_python.run_ticks(self.ticker.memory)
            return

        def read(_, spec):
            spec[0], spec[1] = divmod(self.monotonic_ns(), 10**9)
            return 0

        def sleep(spec, _):
            self.sleep(spec[0] + 1e-9 * spec[1])
            return 0

        pair = ctypes.POINTER(ctypes.c_longlong)
        calls = (
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, pair)(read),
            ctypes.CFUNCTYPE(ctypes.c_int, pair, ctypes.c_void_p)(sleep),
        )
        table = self.ticker._table[0].copy()
        for entry, call in zip((Entry.READ_CLOCK, Entry.SLEEP), calls, strict=True):
            table[entry] = ctypes.cast(call, ctypes.c_void_p).value
        self.ticker._code.run(table.ctypes.data)


@pytest.fixture(params=[True, False], ids=["native", "python"])
def make(request, system, monkeypatch):
    """Return what makes a ticker, runs it by a clock, and returns both."""

    def made(end, *, wait="auto", speed=1.0, **clock):
        ticker = Ticker(
            system,
            np.array([0.1, 0.7, -0.3, 1.1]),
            np.zeros(system.drive_size),
            wait=wait,
            native=request.param,
        )
        if request.param and not ticker.native:
            pytest.skip("no machine code here")
        ticker.speed = speed
        wall = WallClock(ticker, end, **clock)
        wall.run(monkeypatch)
        return ticker, wall

    return made


def lateness(ticker):
    return 1e-9 * ticker.rows(1)[0][:, 1]


def test_gap_of_five_ticks_counts_five_deadline_misses(make):
    """Ticks that are due come without pause, each late by one less; the grid stays where it was."""
    ticker, _ = make(60 * MS, wait="spin", jumps=[(int(20.5 * MS), 5 * MS)])
    report = ticker.report()
    late = lateness(ticker)
    # 20.5 to 25.5 ms are missing: ticks 21 to 24 begin over a millisecond late, 25 half of one
    assert report.deadline_misses == 4
    assert report.delays == 1
    assert late[20:26] == pytest.approx([0.0, 4.5e-3, 3.5e-3, 2.5e-3, 1.5e-3, 0.5e-3], abs=5e-5)
    assert late[26:].max() < 5e-5
    # the same time has passed for the robot as on the wall
    assert report.ticks == 60
    assert report.lost_time == 0.0
    assert [tick for tick, _ in report.last_misses] == [21, 22, 23, 24]


def test_two_gaps_count_separately(make):
    ticker, _ = make(60 * MS, jumps=[(int(20.5 * MS), 3 * MS), (int(40.5 * MS), 2 * MS)])
    assert ticker.report().delays == 2
    assert ticker.report().deadline_misses == 2 + 1


def test_abandoned_time_counts_as_skipped_ticks(make):
    """After a delay too long to catch up, the grid starts anew and every missed tick is counted."""
    delay = CATCH_UP + 50 * MS
    ticker, _ = make(300 * MS, wait="spin", jumps=[(int(20.5 * MS), delay)])
    report = ticker.report()
    assert report.deadline_misses == report.delays == 1
    assert report.lost_time == pytest.approx(0.1495, abs=1e-4)
    assert report.skipped == 149
    # all ticks that should have been in 300 ms are counted, as what they were
    assert report.ticks + report.skipped == pytest.approx(300, abs=1)
    assert report.on_time == pytest.approx(1.0 - 150 / 300, abs=2e-3)


def test_the_margin_covers_the_overrun_of_sleeps(make):
    """Sleeps end up to 80 us late: after a while ticks begin in time all the same."""
    rng = np.random.default_rng(5)
    ticker, wall = make(4000 * MS, over=lambda: int(rng.integers(20_000, 80_000)))
    # the margin is where 1 of 1000 is longer, in steps of 10 us
    assert 6e-5 < ticker.margin < 1.1e-4
    settled = lateness(ticker)[-1000:]
    assert (settled < 5e-6).mean() > 0.99
    # most of the time is slept all the same
    assert wall.asleep > 0.8 * wall.now


def test_sleeps_beyond_any_margin_do_not_raise_it(make):
    """A third is half a millisecond too long, no tick an overrun: awake earlier would not help."""
    rng = np.random.default_rng(6)
    ticker, _ = make(500 * MS, over=lambda: 20_000 if rng.random() < 0.7 else MS // 2)
    assert ticker.report().deadline_misses == 0
    assert ticker.margin == pytest.approx(5e-5, abs=1e-5)


def test_overruns_lower_the_margin(make):
    """Ticks are late because others have the processor: who waits awake waits longer for it."""
    rng = np.random.default_rng(6)
    ticker, _ = make(500 * MS, over=lambda: 60_000 if rng.random() < 0.5 else 3 * MS)
    assert ticker.report().deadline_misses > 100
    # between two overruns it rises by 10 us a tick
    assert ticker.margin < 4e-5


def test_margin_is_at_most_a_quarter_of_a_tick(make):
    """Ticks of 40 us leave 10 us at most, whatever was learned before."""
    ticker, _ = make(20 * MS, speed=25.0, over=lambda: 9_000)
    assert ticker.margin <= 1e-5


@pytest.mark.parametrize(("wait", "margin"), [("sleep", 0.0), ("spin", math.inf)])
def test_waiting_sleeps_or_spins_as_configured(make, wait, margin):
    ticker, wall = make(50 * MS, wait=wait, over=lambda: 30_000)
    assert ticker.margin == margin
    late = lateness(ticker)[1:]
    if wait == "sleep":
        assert late.min() >= 3e-5
        assert wall.asleep > 0.9 * wall.now
    else:
        assert late.max() < 5e-6
        assert wall.asleep == 0


def test_unknown_ways_to_wait_are_refused(system):
    with pytest.raises(tb.OptionError, match="wait"):
        Ticker(system, np.zeros(4), np.zeros(system.drive_size), wait="dream")
    assert WAITS[0] == "auto"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no processors to choose here")
class TestProcessors:
    """A processor for the ticks alone."""

    def test_unavailable_processor_is_refused(self):
        with pytest.raises(tb.DomainError, match="core: expected a processor of this process"):
            RealTimeSettings(core=10_000)

    def test_other_threads_leave_the_processor_and_return(self):
        ours = sorted(os.sched_getaffinity(0))
        if len(ours) < 2:
            pytest.skip("one processor only")
        realtime, seen = RealTimeSettings(core=ours[0]), []
        realtime.apply_to_process()
        try:
            assert os.sched_getaffinity(0) == set(ours[1:])
            thread = threading.Thread(
                target=lambda: (realtime.apply_to_thread(), seen.append(os.sched_getaffinity(0)))
            )
            thread.start()
            thread.join()
            assert seen == [{ours[0]}]
        finally:
            realtime.restore()
        assert os.sched_getaffinity(0) == set(ours)


def test_granted_settings_are_described(system):
    """Nothing is requested from the system by default; refusals are no errors."""
    ticker = Ticker(system, np.zeros(4), np.zeros(system.drive_size), wait="sleep", priority=True)
    assert ticker.summary() == "sleeping until each tick"
    ticker.realtime.priority = ticker.realtime.awake = True
    assert ticker.summary().endswith("real-time priority, no deep idle states")


@pytest.mark.skipif(sys.platform != "linux", reason="clocks of Linux")
def test_time_of_threads_and_machine():
    """A thread that only computes runs; clocks go forward."""
    thread = threading.get_native_id()
    first = read_machine(thread)
    sum(range(2_000_000))
    passed = time_between(first, read_machine(thread))
    assert passed.span > 0.0
    assert passed.running > 0.0
    assert passed.running <= passed.span + 0.02
    assert passed.waiting >= 0.0
    assert passed.steal >= 0.0
    assert time_between(first, read_machine(None)).running is None


@pytest.mark.parametrize(
    "given",
    [
        {"method": tb.RK4(dt=1e-9)},
        {"method": tb.RK4(dt=1e9)},
        {"steps": 0},
        {"steps": 2.5},
        {"limit": math.nan},
        {"limit": -1.0},
    ],
)
def test_ticks_that_no_clock_can_count_are_refused(system, given):
    """Native code divides by their distance: zero would end the whole process."""
    (name,) = given
    with pytest.raises(tb.DomainError, match=f"^{name.replace('method', 'dt')}: expected"):
        Ticker(system, np.zeros(4), np.zeros(system.drive_size), native=False, **given)
