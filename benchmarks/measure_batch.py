"""Forward dynamics of a batch on one thread, against Pinocchio's own batch on one thread."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Measurement
from benchmarks.machine import bounds_of_machine
from benchmarks.timing import measure

SIZE = 4096
THREE = ("panda", "quadruped", "chain_16")
BOUNDS: dict[int, dict[str, tuple[float, float | None]]] = {
    8: {"panda": (36.0, 42.0), "quadruped": (30.0, 34.0), "chain_16": (32.0, 36.0)},
    4: {"panda": (31.0, None), "quadruped": (27.0, None), "chain_16": (22.0, None)},
}
"""Required ratio and aim by robot, for each lane width: 8 (AVX-512) and 4 (AVX2)."""


def run(duration: float) -> Iterator[Figure]:
    """Measure a batch of states on one thread; times are per state.

    Args:
        duration: Time to spend on each side [s].
    """
    from benchmarks.parallel_peer import prepare_batch

    bounds, note = bounds_of_machine(BOUNDS)
    for name in THREE:
        must, aim = bounds[name] if bounds else (None, None)
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
