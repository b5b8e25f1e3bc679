"""Two threads against one, on a big batch; the peer's own gain tells what the machine allows."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Measurement
from benchmarks.timing import measure

SIZE = 16384
ROBOTS = ("panda", "quadruped", "chain_16")
MUST = 1.8


def run(duration: float) -> Iterator[Figure]:
    """Measure a batch on two threads and on one, both sides in one run; times are per state.

    Args:
        duration: Time to spend on each side [s].
    """
    from benchmarks.parallel_peer import prepare_batch

    for name in ROBOTS:
        sides = prepare_batch(name, SIZE, threads=2)
        # the peer's worker keeps a core busy for a while after its work; our call on one thread
        # stands between it and our call on two
        times = measure(
            {
                "ours 1": sides.ours(1),
                "ours 2": sides.ours(2),
                "peer 1": sides.peer(1),
                "peer 2": sides.peer(2),
            },
            duration=duration,
        )
        gain = times["peer 1"].minimum / times["peer 2"].minimum
        # where the machine does not give the peer two full cores, it cannot give them to us
        binding = gain >= MUST
        note = f"{name}, two threads: pin.abaInParallel gained {gain:.2f}x in the same run"
        if not binding:
            note += f", less than {MUST:g}x, so the bound does not apply"
        yield (
            Figure(
                name,
                times["ours 2"].per(SIZE),
                "own one thread",
                times["ours 1"].per(SIZE),
                MUST if binding else None,
                note=note,
            )
        )


MEASUREMENT = Measurement(
    "threads",
    f"Forward dynamics, batch of {SIZE} states, two threads, per state",
    run,
    place=5,
)
