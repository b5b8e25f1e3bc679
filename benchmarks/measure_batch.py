"""Forward dynamics of a batch on one thread, against Pinocchio's own batch on one thread."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Measurement
from benchmarks.timing import measure

SIZE = 4096
BOUNDS = {"panda": (36.0, 42.0), "quadruped": (30.0, 34.0), "chain_16": (32.0, 36.0)}
"""Ratio that must be reached and ratio aimed at, by robot."""


def run(duration: float) -> Iterator[Figure]:
    """Measure a batch of states on one thread; times are per state.

    Args:
        duration: Time to spend on each side [s].
    """
    from benchmarks.parallel_peer import prepare_batch
    from tiburon.native.engine import host

    lanes = host().lanes
    note = ""
    if lanes < 8:
        note = (
            f"batches: this machine computes {lanes} states per instruction; the bounds were set "
            "with 8 and are shown unchanged"
        )
    for name, (must, aim) in BOUNDS.items():
        sides = prepare_batch(name, SIZE, threads=1)
        times = measure({"ours": sides.ours(1), "peer": sides.peer(1)}, duration=duration)
        yield (
            Figure(
                name,
                times["ours"].per(SIZE),
                "pin.abaInParallel",
                times["peer"].per(SIZE),
                must,
                aim,
                note=note,
            )
        )


MEASUREMENT = Measurement(
    "batch",
    f"Forward dynamics, batch of {SIZE} states, one thread, per state",
    run,
    place=4,
)
