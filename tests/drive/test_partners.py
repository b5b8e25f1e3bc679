"""Ticks of one robot on several processes; threads stand for them here, ranks in test_ranks."""

import threading
import time

import numpy as np
import pytest

import tiburon as tb
from tests.drive.test_ticker import until
from tests.parallel.test_partition import closed_state, short_chain
from tiburon.parallel.exchange import _Meeting, _Thread

PUSHES = {"joint_0": 1.5, "joint_3": 0.2}
"""At joints of both processes [N m]."""


class Seat:
    """An exchange of one of several threads."""

    def __init__(self, meeting, rank):
        self._meeting, self._rank = meeting, rank

    def endpoint(self):
        return _Thread(self._meeting, self._rank)


def drives(count=2, patience=20.0, **options):
    """Return a drive of the same robot for each of several threads."""
    robot, parts = short_chain()
    meeting = _Meeting(count, patience)
    found = [None] * count

    def make(rank):
        found[rank] = tb.Drive(
            robot,
            q=np.full(robot.nq, 0.4),
            execution=tb.Execution(partition=parts, exchange=Seat(meeting, rank)),
            **options,
        )

    each(make, range(count))
    return found


def each(call, given):
    """Call a function in threads of its own, and wait for them."""
    threads = [threading.Thread(target=call, args=(one,)) for one in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)


@pytest.fixture(scope="module")
def pair():
    made = drives()
    for one in made:
        one.ticker.paused = True
        one.start()
    yield made
    each(lambda one: one.close(), made)
    assert not any(one.ticker.running for one in made)


def test_single_ticks_are_those_of_a_drive_in_one_process(pair):
    """Commands of the first process alone act; all processes have the bits of one."""
    first, second = pair
    robot, parts = short_chain()
    first.command(PUSHES)
    second.command(dict.fromkeys(PUSHES, -9.0))
    first.ticker.step(50)
    until(lambda: all(one.ticker.latest().steps == 50 for one in pair))
    alone = tb.Drive(
        robot, q=np.full(robot.nq, 0.4), execution=tb.Execution(partition=parts), native=False
    )
    alone.ticker.paused = True
    with alone:
        alone.command(PUSHES)
        alone.ticker.step(50)
        until(lambda: alone.ticker.latest().steps == 50)
    states = [one.ticker.latest().state for one in (first, second, alone)]
    assert np.array_equal(states[0], states[2])
    assert np.array_equal(states[1], states[2])
    whole = tb.Drive(robot, q=np.full(robot.nq, 0.4))
    whole.ticker.paused = True
    with whole:
        whole.command(PUSHES)
        whole.ticker.step(50)
        until(lambda: whole.ticker.latest().steps == 50)
    # the undivided robot, up to rounding of 50 steps
    assert np.abs(states[0] - whole.ticker.latest().state).max() < 1e-11
    first.reset()
    until(lambda: all(one.ticker.latest().steps == 0 for one in pair))
    assert np.array_equal(first.ticker.latest().state, second.ticker.latest().state)


def test_ticks_keep_the_rate_and_overruns_are_counted_per_process(pair):
    first, second = pair
    before, begin = second.overruns[1].ticks, time.monotonic()
    first.ticker.paused = False
    time.sleep(0.3)
    first.ticker.paused = True
    until(lambda: second.ticker.paused)
    until(lambda: first.ticker.latest().steps == second.ticker.latest().steps)

    def told():
        return [(one.ticks, one.deadline_misses, one.skipped) for one in first.overruns]

    def counted():
        reports = [one.report() for one in pair]
        return [(one.ticks, one.deadline_misses, one.skipped) for one in reports]

    # also while paused, processes tell each other
    until(lambda: told() == counted())
    assert [one.rank for one in first.overruns] == [0, 1]
    # no more ticks than the clock allows at 1 kHz, also where the pause took long to arrive
    most = before + 10 + 1000.0 * (time.monotonic() - begin)
    assert all(before < ticks < most for ticks, _, _ in told())


@pytest.mark.parametrize("cuts", ["legs", ["theta_7"]])
def test_robots_with_loops_in_parts_tick_as_the_undivided_one(cuts):
    robot = tb.load("planar_3rrr")
    parts = tb.partition(robot, cuts) if cuts == "legs" else tb.partition(robot, cuts=cuts)
    q, v, _ = closed_state(robot)
    states = []
    for execution in (tb.Execution(partition=parts), tb.Execution()):
        one = tb.Drive(robot, q=q, v=v, execution=execution, native=False)
        one.ticker.paused = True
        with one:
            start = one.ticker.latest().state
            one.ticker.step(50)
            until(lambda drive=one: drive.ticker.latest().steps == 50)
            states.append(one.ticker.latest().state)
    assert np.abs(states[0] - start).max() > 1e-3
    assert np.abs(states[0] - states[1]).max() < 1e-11


def test_what_one_process_cannot_do_is_refused(pair):
    with pytest.raises(tb.ModelError, match="forecast"):
        pair[0].forecast(0.01)
    robot, parts = short_chain()
    with pytest.raises(tb.OptionError, match="exchange of ticks"):
        tb.Drive(robot, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)))
    with pytest.raises(tb.OptionError, match="native"):
        tb.Drive(
            robot,
            execution=tb.Execution(partition=parts, exchange=Seat(_Meeting(1, 1.0), 0)),
            native=True,
        )
    with pytest.raises(tb.OptionError, match="exchange"):
        tb.Drive(robot, execution=tb.Execution(exchange=Seat(_Meeting(1, 1.0), 0)))


def test_a_silent_process_ends_the_ticks_and_is_named():
    first, second = drives(patience=0.3)
    with first:
        until(lambda: first.lost, 10.0)
        assert "thread 1 did not answer" in first.lost
        assert first.ticker.diverged
    assert not second.ticker.running
