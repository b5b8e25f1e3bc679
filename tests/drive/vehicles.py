"""Small robots to drive in tests: few bodies, so that few and short programs are compiled."""

import time

import tiburon as tb
from tiburon.drive.session import Drive
from tiburon.drive.tick_memory import Word

SEA = tb.Water(density=1025.0, surface=5.0)


def rov(**options):
    """A vehicle of one body with eight thrusters, paused."""
    made = Drive(tb.load("bluerov2_heavy"), fluid=SEA, **options)
    made.ticker.paused = True
    return made


def pause(drive):
    """Pause, and wait for the tick that may be under way: a single one comes after it."""
    words = drive.ticker.memory.words
    drive.ticker.paused = True
    drive.ticker.step()
    wait(lambda: words[Word.STEPS_DONE] == words[Word.STEPS_WANTED])


def ahead(drive, ticks):
    """Take ticks as fast as they go, and wait for them."""
    start = drive.ticker.latest().steps
    drive.ticker.step(ticks)
    wait(lambda: drive.ticker.latest().steps >= start + ticks)
    return drive.ticker.latest()


def posted(drive, name):
    """Return a command as it was posted last."""
    return drive.ticker.posted()[0][drive.place(name)]


def wait(condition, seconds=60.0):
    """Wait for a loaded machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.002)
