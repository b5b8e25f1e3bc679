"""Time several callables against each other on a machine that is never quite at rest."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Timing:
    """Duration of one call, over many samples."""

    minimum: float
    """The least disturbed sample [s]."""

    median: float
    """The typical sample [s]."""


def _calls_per_sample(call: Callable[[], object], sample_time: float) -> int:
    """Choose how often to call so that a sample lasts about `sample_time` [s]."""
    count = 1
    while True:
        elapsed = _sample(call, count)
        if elapsed >= 0.5 * sample_time:
            return max(1, round(count * sample_time / elapsed))
        # the clock is too coarse for short samples to extrapolate from in one leap
        count *= 2


def _sample(call: Callable[[], object], count: int) -> float:
    """Time `count` calls in a row [s]."""
    repeats = range(count)
    start = perf_counter()
    for _ in repeats:
        call()
    return perf_counter() - start


def measure(
    calls: Mapping[str, Callable[[], object]],
    *,
    duration: float = 1.0,
    sample_time: float = 2e-3,
) -> dict[str, Timing]:
    """Time callables in turns, so that a disturbance of the machine meets all of them.

    The loop around the call is part of the time: about 20 ns, which favors the slower side.

    Args:
        calls: What to time, by name. Each is called with no arguments and returns when its work is
            done.
        duration: Time to spend on each callable [s].
        sample_time: Length of one sample [s]; short against the scheduler's interruptions, long
            against the clock's resolution.

    Returns:
        The timing of one call, by name.
    """
    # the first call may compile and fills the caches
    for call in calls.values():
        call()
    counts = {name: _calls_per_sample(call, sample_time) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    start = perf_counter()
    # at least five turns, however slow the callables are
    turns = 0
    while turns < 5 or perf_counter() - start < duration * len(calls):
        for name, call in calls.items():
            samples[name].append(_sample(call, counts[name]) / counts[name])
        turns += 1
    return {name: Timing(min(times), median(times)) for name, times in samples.items()}
