"""Time several calls against each other on a machine that is never quite at rest."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

Call = Callable[[], object] | tuple[object, ...]
"""A callable without arguments, or a tuple of a callable and its arguments."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Duration of one call, over many samples."""

    minimum: float
    """The least disturbed sample [s]."""

    median: float
    """The typical sample [s]."""

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        """Sum up samples [s]."""
        return cls(min(samples), median(samples))

    def per(self, count: int) -> Timing:
        """Return the time of one of `count` equal pieces of work done by one call."""
        return Timing(self.minimum / count, self.median / count)


def _timer(call: Call) -> timeit.Timer:
    """Write the call out in the timed loop, as a user's loop would have it.

    A closure around it would add 50 ns to both sides, which favors the slower one.
    """
    if callable(call):
        return timeit.Timer("function()", globals={"function": call})
    function, *arguments = call
    names = [f"argument_{number}" for number in range(len(arguments))]
    scope = {"function": function, **dict(zip(names, arguments, strict=True))}
    return timeit.Timer(f"function({', '.join(names)})", globals=scope)


def _calls_per_sample(timer: timeit.Timer, sample_time: float) -> int:
    """Choose how often to call so that a sample lasts about `sample_time` [s]."""
    count = 1
    while True:
        elapsed = timer.timeit(count)
        if elapsed >= 0.5 * sample_time:
            return max(1, round(count * sample_time / elapsed))
        # the clock is too coarse for short samples to extrapolate from in one leap
        count *= 2


def measure(
    calls: Mapping[str, Call],
    *,
    duration: float = 1.0,
    sample_time: float = 2e-3,
) -> dict[str, Timing]:
    """Time calls in turns, so that a disturbance of the machine meets all of them.

    The loop around the call is part of the time: about 10 ns, which favors the slower side. The
    garbage collector waits during a sample.

    Args:
        calls: What to time, by name. Each returns when its work is done.
        duration: Time to spend on each call [s].
        sample_time: Length of one sample [s]; short against the scheduler's interruptions, long
            against the clock's resolution.

    Returns:
        The timing of one call, by name.
    """
    timers = {name: _timer(call) for name, call in calls.items()}
    # the first call may compile and fills the caches
    for timer in timers.values():
        timer.timeit(1)
    counts = {name: _calls_per_sample(timer, sample_time) for name, timer in timers.items()}
    samples: dict[str, list[float]] = {name: [] for name in timers}
    start = perf_counter()
    # at least five turns, however slow the calls are
    turns = 0
    while turns < 5 or perf_counter() - start < duration * len(timers):
        for name, timer in timers.items():
            samples[name].append(timer.timeit(counts[name]) / counts[name])
        turns += 1
    return {name: Timing.of(times) for name, times in samples.items()}
