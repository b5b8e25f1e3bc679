"""How long a robot's first call takes in a new process when the cache holds its kernel."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import Timing

ROBOTS = ("panda", "quadruped", "chain_16")
MUST = 10e-3


def run(duration: float) -> Iterator[Figure]:
    """Measure the first call in new processes with a filled cache.

    The clock runs from a model in hand to the result. Imports are done before and shown by
    themselves.

    Args:
        duration: Decides how many processes are started.
    """
    from benchmarks.fresh_process import join_names, repeats, run_fresh

    with TemporaryDirectory(prefix="tiburon-bench-") as directory:
        own_cache = {"TIBURON_CACHE_DIR": directory}
        for name in ROBOTS:
            compiled = run_fresh("first-calls", name, environment=own_cache)
            # this process proves that nothing is traced, and tells what the calls import
            found = run_fresh("first-calls", name, "", "refused", environment=own_cache)
            # code from the cache is the code that was compiled: not a bit may differ
            for which in ("one", "many"):
                check_equal(f"{name}, from the cache", found[which], compiled[which], 0.0)
            words = (name, join_names(found["modules"]))
            runs = [
                run_fresh("first-calls", *words, environment=own_cache)
                for _ in range(repeats(duration))
            ]
            one = Timing.of([run["one_seconds"] for run in runs])
            many = Timing.of([run["many_seconds"] for run in runs])
            imports = Timing.of([run["imports"] for run in runs])
            yield Figure(f"{name}, first call", one, must=MUST)
            yield Figure(f"{name}, first batch after it", many)
            yield Figure(f"{name}, imports before it", imports)


MEASUREMENT = Measurement(
    "cached-call",
    "First call in a new process, kernel from the cache: from a model in hand to the result",
    run,
    place=8,
)
