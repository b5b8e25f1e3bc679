"""How long `import tiburon` takes, and how much memory the process then holds."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Measurement
from benchmarks.timing import Timing

SECONDS_MUST, BYTES_MUST = 0.18, 120e6
EXTENTS = {
    "package": "import tiburon",
    "dynamics": "import tiburon and all that forward dynamics from the cache loads",
}
NOTE = (
    "import: public names load on first use, so the import alone is light; the bounds are held "
    "against the second line as well, with NumPy and LLVM; memory is that of the whole process"
)


def run(duration: float) -> Iterator[Figure]:
    """Measure in new processes; the interpreter's own start is not part of the time.

    Args:
        duration: Decides how many processes are started.
    """
    from benchmarks.fresh_process import repeats, run_fresh

    answers: dict[str, list[dict[str, float]]] = {extent: [] for extent in EXTENTS}
    # the first of each kind may read from the disk what later ones find in memory
    for turn in range(1 + repeats(duration)):
        for extent, collected in answers.items():
            answer = run_fresh("import", extent)
            if turn:
                collected.append(answer)
    for extent, what in EXTENTS.items():
        seconds = Timing.of([answer["seconds"] for answer in answers[extent]])
        yield Figure(what, seconds, must=SECONDS_MUST, note=NOTE)
        sizes = [answer["resident"] for answer in answers[extent] if answer["resident"]]
        if sizes:
            memory = Timing.of(sizes)
            yield Figure(f"{what}, memory", memory, must=BYTES_MUST, unit="B")


MEASUREMENT = Measurement("import", "Import: time and resident memory", run, place=9)
