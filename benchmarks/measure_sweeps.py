"""Sweeps beside `simulate` of the same cases, their start, and a look at a finished one.

Results of both sides are compared to the bit before any time counts.
"""

import json
import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import Timing

CASES, SECONDS, WORKERS = 20_000, 1.0, 2
SHARE = 0.9
"""Least speed of a sweep beside `simulate`."""

BLOCKS, RESUME = 10_000, 2.0
"""Blocks of a finished sweep, and the longest that a look at all of them may take [s]."""


def run(duration: float) -> Iterator[Figure]:
    """Measure all rows.

    Args:
        duration: Time to spend on each side [s]; each side runs once at least.
    """
    yield from _quadruped(max(1, round(duration / 10.0)))
    yield from _finished()


def _quadruped(repeats: int) -> Iterator[Figure]:
    import tiburon as tb
    from tiburon.parallel.design import case_stream

    dog = tb.load("quadruped")
    home = dog.neutral()

    def start(point: Any, stream: Any) -> dict[str, Any]:
        return {"q": home, "v": 0.1 * stream.standard_normal(dog.nv)}

    def last(run: Any) -> dict[str, Any]:
        return {"height": run.q[-1, 6]}

    v = np.stack([start(None, case_stream(0, (k,)))["v"] for k in range(CASES)])
    tb.simulate(
        dog, SECONDS, q=home, v=v[:64], contact=None, execution=tb.Execution(threads=WORKERS)
    )
    ours, peer, starts = [], [], []
    for _ in range(repeats):
        begin = perf_counter()
        run = tb.simulate(
            dog, SECONDS, q=home, v=v, contact=None, execution=tb.Execution(threads=WORKERS)
        )
        peer.append(perf_counter() - begin)
        heights = run.q[-1, :, 6].copy()
        del run
        with TemporaryDirectory(prefix="tiburon-bench-") as folder:
            begin = perf_counter()
            study = tb.sweep(
                dog,
                SECONDS,
                design={"draw": range(CASES)},
                setup=start,
                reduce=last,
                store=Path(folder) / "study.zarr",
                workers=WORKERS,
                contact=None,
            )
            whole = perf_counter() - begin
            check_equal("quadruped", study.data.height.values, heights, 0.0)
            working = CASES / study.progress.rate
        ours.append(working)
        starts.append(whole - working)
    yield Figure(
        f"quadruped, {CASES} runs of {SECONDS:g} s, {WORKERS} workers",
        Timing.of(ours).per(CASES),
        "simulate, one batch",
        Timing.of(peer).per(CASES),
        must=SHARE,
        note="time of a run, from the first block to the last, files and receipts included",
    )
    yield Figure(
        "quadruped, start and end of the sweep",
        Timing.of(starts),
        note="first case, size of blocks, processes, imports; kernels are in the cache",
    )


def _finished() -> Iterator[Figure]:
    """Measure a look at the receipts of many finished blocks."""
    import tiburon as tb
    from tiburon.parallel.design import Design
    from tiburon.parallel.identity import identity
    from tiburon.parallel.receipt import Receipt
    from tiburon.parallel.sweep_cases import Layout, SweepPlan
    from tiburon.parallel.sweep_header import SweepHeader
    from tiburon.parallel.sweep_store import SweepStore

    arm = tb.load("double_pendulum")
    plan = SweepPlan(arm, 1.0, {}, None, None, 0, False)
    design = Design.of({"draw": range(BLOCKS * 100)})
    layout = Layout((), np.empty(0), {"value": ()})
    with TemporaryDirectory(prefix="tiburon-bench-") as folder:
        store = SweepStore.create(
            Path(folder) / "study.zarr", SweepHeader.of(plan, design, layout, 100, identity())
        )
        for block in range(BLOCKS):
            _write_block(store, block, Receipt)
        samples = []
        for _ in range(3):
            begin = perf_counter()
            study = tb.load_sweep(store.path)
            study.resume(workers=0)
            samples.append(perf_counter() - begin)
            assert study.is_complete
    yield Figure(
        f"resume of a finished sweep of {BLOCKS} blocks",
        Timing.of(samples),
        must=RESUME,
        note="all receipts are read, and the sizes of four files of each block compared",
    )


def _write_block(store: Any, block: int, kind: Any) -> None:
    """Write four small files and a receipt as a worker would, without waiting for the disk."""
    first, stop = store.block_range(block)
    files = {}
    for name in ("value", "draw", "end_time", "status"):
        file = store.path / name / "c" / str(block)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(64))
        files[f"{name}/c/{block}"] = (64, "0" * 32)
    receipt = kind(
        block, first, stop, files, {"finished": 100}, {}, 5.0, 0.0, "host:1", {}, 1, "session"
    )
    text = json.dumps(receipt._asdict(), sort_keys=True)
    path = store.receipt_path(block)
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = blake2b(text.encode(), digest_size=16).hexdigest()
    path.write_text(json.dumps({"receipt": text, "checksum": digest}))


MEASUREMENT = Measurement("sweeps", "Sweeps over designs", run, place=24)
