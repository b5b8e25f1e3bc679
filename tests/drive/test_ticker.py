"""Ticks by the clock: the same motion as a run, on machine code and in Python; honest counts."""

import threading
import time

import numpy as np
import pytest

import tiburon as tb
from tiburon.actuation.defaults import elements_of
from tiburon.drive import ticker as ticker_module
from tiburon.drive.tick_memory import LATE_BINS, LOG_SIZE, Word
from tiburon.drive.ticker import MachineTime, StealMonitor, Ticker, tick_report
from tiburon.simulation.simulate import prepare
from tiburon.simulation.system import System

START = np.array([0.1, 0.7, -0.3, 1.1])
PUSH = 2.5


@pytest.fixture(scope="module")
def system():
    model = tb.load("cart_pole")
    return System(model, None, elements_of(model))


def until(condition, seconds=20.0):
    """Wait for a loaded machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.002)


def held(system, push=0.0):
    row = np.zeros(system.drive_size)
    row[system.commands.place("motor")] = push
    return row


@pytest.fixture(params=[True, False], ids=["native", "python"])
def ticker(request, system):
    made = Ticker(system, START, held(system), native=request.param)
    if request.param and not made.native:
        pytest.skip("no machine code here")
    made.paused = True
    made.start()
    yield made
    made.stop()


def test_single_steps_are_those_of_a_run(ticker, system):
    """A hundred single ticks with a push end where `simulate` ends, to the bit."""
    ticker.post(held(system, PUSH))
    ticker.step(100)
    until(lambda: ticker.latest().steps == 100)
    run = tb.simulate(
        system.model,
        0.1,
        q=START[:2],
        v=START[2:],
        command={"motor": PUSH},
        record=tb.Record(dt=0.1),
    )
    assert np.array_equal(ticker.latest().state, np.concatenate([run.q[-1], run.v[-1]]))
    assert ticker.latest().time == run.time[-1]


def test_rows_are_in_order_and_whole(ticker, system):
    """Every tick leaves one row: steps count up by one, with the commands of its time."""
    ticker.post(held(system, PUSH))
    ticker.step(50)
    until(lambda: ticker.latest().steps == 50)
    rows, head, missed = ticker.rows(0)
    assert missed == 0
    assert head == len(rows) == 51
    assert np.array_equal(rows[:, 0], np.arange(51.0))
    place = 2 + 4 + system.commands.place("motor")
    assert rows[0, place] == 0.0
    assert (rows[1:, place] == PUSH).all()


def test_a_posted_state_is_taken_at_once_also_while_paused(ticker):
    """The robot stands elsewhere, at the count of steps that was given with the state."""
    other = np.array([1.0, -0.5, 0.25, 0.0])
    ticker.post_state(other, 1234)
    until(lambda: ticker.latest().steps == 1234)
    assert np.array_equal(ticker.latest().state, other)


def test_speed_sets_the_pace(ticker):
    """Slow motion takes its time: a tenth of the speed makes about a tenth of the ticks."""
    ticker.speed = 0.1
    begin = time.monotonic()
    ticker.paused = False
    until(lambda: ticker.latest().steps >= 30)
    ticker.paused = True
    # thirty ticks of 10 ms cannot come sooner, however loaded the machine is
    assert time.monotonic() - begin > 0.25


def test_diverged_state_stops_the_robot_in_its_last_finite_state(ticker, system):
    """A push beyond all numbers ends in a flag; a new state heals it."""
    ticker.step(5)
    until(lambda: ticker.latest().steps == 5)
    good = ticker.latest().state
    ticker.post_state(np.array([0.0, 0.0, 1e200, 1e200]), 7)
    until(lambda: ticker.latest().steps == 7)
    ticker.step(20)
    until(lambda: ticker.diverged)
    assert np.isfinite(ticker.latest().state).all()
    ticker.post_state(good, 5)
    until(lambda: not ticker.diverged)
    assert np.array_equal(ticker.latest().state, good)


def test_non_finite_values_are_refused_before_the_loop_sees_them(ticker, system):
    with pytest.raises(tb.NonFiniteError):
        ticker.post(held(system, np.nan))
    with pytest.raises(tb.ShapeError):
        ticker.post_state(np.zeros(3), 0)
    with pytest.raises(tb.DomainError, match="speed"):
        ticker.speed = 0.0


def test_adaptive_methods_are_refused(system):
    with pytest.raises(tb.DomainError, match="method with ticks"):
        Ticker(system, START, held(system), method=tb.DormandPrince())


def test_wall_clock_time_is_kept(ticker):
    """Half a second of wall-clock time is half a second of simulated time, less reported losses."""
    ticker.paused = False
    # the thread sees the switch within its sleep of a millisecond
    until(lambda: ticker.latest().steps > 0)
    # this thread may have to wait between any two lines
    before = time.monotonic()
    first = ticker.latest().time
    begin = time.monotonic()
    time.sleep(0.5)
    least = time.monotonic() - begin
    reached = ticker.latest().time - first
    most = time.monotonic() - before
    report = ticker.report()
    # a tick may wait for the processor: the largest lateness bounds the difference
    slack = 0.02 + 2.0 * report.max_lateness
    assert least - slack < reached + report.lost_time < most + slack


def test_counters_are_reset(ticker):
    ticker.paused = False
    until(lambda: ticker.report().ticks > 20)
    ticker.paused = True
    time.sleep(0.05)
    before = ticker.report().ticks
    ticker.clear_report()
    until(lambda: ticker.report().ticks < before)


def test_overruns_under_load_are_counted_with_their_size(system):
    """Ticks of 20 us while threads burn the processor: the report shows it, and adds up."""
    ticker = Ticker(system, START, held(system), limit=2e-5)
    ticker.speed = 50.0
    burning = threading.Event()

    def burn():
        while not burning.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=burn) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        ticker.start()
        until(lambda: ticker.report().deadline_misses > 3)
    finally:
        burning.set()
        for thread in threads:
            thread.join()
        ticker.stop()
    report = ticker.report()
    assert report.ticks == ticker.memory.bins.sum()
    assert 0.0 <= report.on_time < 1.0
    assert report.deadline_misses <= report.ticks
    assert len(report.last_misses) == min(report.deadline_misses, LOG_SIZE)
    assert all(late > report.limit for _, late in report.last_misses)
    assert report.max_lateness >= max(late for _, late in report.last_misses)
    assert "deadline misses:" in str(report)
    assert f"{report.ticks} ticks" in str(report)


def test_percentiles_of_known_counts():
    """990 ticks in the first bin and 10 in the fifth: medians, tails and the histogram follow."""
    bins = np.zeros(LATE_BINS, dtype=np.int64)
    bins[0], bins[4] = 990, 10
    log = np.zeros((LOG_SIZE, 2), dtype=np.int64)
    words = np.zeros(int(Word.END), dtype=np.int64)
    words[Word.TICKS], words[Word.MAX_LATENESS], words[Word.LIMIT] = 1000, 49_000, 1_000_000
    words[Word.BUSY], words[Word.MAX_BUSY] = 1_000_000, 5_000
    report = tick_report(words, bins, log, MachineTime(2.0, 0.5, 0.003, 0.04))
    assert report.lateness[50.0] == pytest.approx(1e-5)
    assert report.lateness[99.0] == pytest.approx(1e-5)
    assert report.lateness[99.9] == pytest.approx(4.9e-5)
    assert report.execution_time == pytest.approx(1e-6)
    assert report.on_time == 1.0
    assert {round(1e6 * high): n for high, n in report.histogram if n} == {10: 990, 50: 10}
    lines = str(report).splitlines()
    assert lines[4] == "hypervisor steal time: 40 ms of all processors, 0 late or skipped ticks"
    assert "25.0 % of the wall-clock time" in lines[5]
    assert "waited 3.0 ms" in lines[5]
    assert lines[6].split() == ["late", "up", "to", "10", "us", "990", "99.0000", "%"]


def test_skipped_ticks_count_as_deadline_misses():
    words = np.zeros(int(Word.END), dtype=np.int64)
    words[Word.TICKS], words[Word.MISSES], words[Word.SKIPPED] = 900, 50, 100
    bins, log = np.zeros(LATE_BINS, dtype=np.int64), np.zeros((LOG_SIZE, 2), dtype=np.int64)
    report = tick_report(words, bins, log, MachineTime(1.0, None, None, None))
    assert report.on_time == pytest.approx(0.85)
    assert "skipped ticks: 100" in str(report)
    assert "steal time" not in str(report)
    assert "scheduler" not in str(report)


def test_ticks_during_steal_time_are_not_counted():
    """Steal time that accounts for 30 of 50 misses leaves 20 of 970 ticks late."""
    words = np.zeros(int(Word.END), dtype=np.int64)
    words[Word.TICKS], words[Word.MISSES] = 1000, 50
    bins, log = np.zeros(LATE_BINS, dtype=np.int64), np.zeros((LOG_SIZE, 2), dtype=np.int64)
    report = tick_report(words, bins, log, MachineTime(1.0, None, None, 0.03), 30)
    assert report.on_time == pytest.approx(1.0 - 20 / 970)
    assert "not counting 30 during hypervisor steal time" in str(report)
    assert "hypervisor steal time: 30 ms of all processors, 30 late or skipped" in str(report)


def test_steal_time_accounts_for_no_more_ticks_than_were_due(system, monkeypatch):
    """10 ms of steal time explain 10 ticks of 1 ms, of its interval or an adjacent one."""
    ticker = Ticker(system, START, held(system))
    steal = {"cpu": 0.0, "cpu0": 0.0, "cpu1": 0.0}
    monkeypatch.setattr(ticker_module, "steal_times", lambda: dict(steal))
    monitor, words = StealMonitor(ticker.memory), ticker.memory.words
    words[Word.MISSES] = 4
    monitor.sample()
    assert monitor.ticks == 0
    # accounted after the misses, by the processor with the most
    steal |= {"cpu": 0.02, "cpu0": 0.01, "cpu1": 0.01}
    monitor.sample()
    assert monitor.ticks == 4
    words[Word.MISSES] = 5
    words[Word.SKIPPED] = 20
    monitor.sample()
    assert monitor.ticks == 10
    # too long ago
    words[Word.MISSES] = 7
    monitor.sample()
    monitor.sample()
    assert monitor.ticks == 10
    monitor.clear()
    assert monitor.ticks == 0


@pytest.mark.parametrize("soft", [False, True])
def test_ticks_without_machine_code_take_the_same_steps(soft, monkeypatch):
    """Also where steps pass contact forces on; a failed tick leaves the state as it was."""
    model, options, start = tb.load("cart_pole"), {}, START
    if soft:
        joint = tb.Prismatic("z", axis=(0, 0, 1))
        shape = tb.Shape(tb.SphereShape(0.1))
        ball = tb.Body("ball", joint=joint, inertia=tb.Inertia.point(0.7), shapes=(shape,))
        model, start = tb.Model("ball", [ball]), np.array([0.0999, -0.5])
        options = {"world": tb.World(ground=tb.Ground(normal_stiffness=1e4, normal_damping=10.0))}
    found = []
    for engine in ("native", "interpreter"):
        if engine == "interpreter":
            monkeypatch.setenv("TIBURON_ENGINE", engine)
        whole = prepare(model, 0.1, **options).system
        # one that no other test has compiled
        whole = System(model, whole.world, whole.elements, steps=True)
        rest = np.concatenate([np.zeros(whole.discrete.start), whole.z0])
        made = Ticker(whole, start, rest, steps=3)
        steps = made.memory.steps
        if engine == "interpreter":
            assert not made.native
        assert steps.advance(3)
        assert steps.advance(2)
        found.append(steps.state.copy())
        assert found[-1][-1] == 5.0
        steps.state[-3:-1] = np.inf
        before = steps.state.copy()
        assert not steps.advance(1)
        assert np.array_equal(steps.state, before)
        # forces at a stop are passed on, too
        assert whole.z_names[0].startswith("ball" if soft else "slide.stop_force")
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
