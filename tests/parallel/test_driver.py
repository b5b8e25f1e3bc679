"""The driver: deadly cases among many, large stores, memory, blocks of jobs in parts."""

import signal
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.parallel.studies import ROBOT, content, start, study
from tiburon.parallel import sweep_driver, sweep_task
from tiburon.parallel.design import Design
from tiburon.parallel.driver_lock import drivers_of
from tiburon.parallel.identity import identity
from tiburon.parallel.receipt import Receipt
from tiburon.parallel.sweep_cases import Layout, SweepPlan
from tiburon.parallel.sweep_driver import drive
from tiburon.parallel.sweep_header import SweepHeader
from tiburon.parallel.sweep_progress import Tally
from tiburon.parallel.sweep_store import ATTEMPTS, SweepStore
from tiburon.parallel.workers import InlineWorkers, WorkerLostError


class Death(BaseException):
    """What a case does to a worker of `MortalWorkers`."""


class MortalWorkers(InlineWorkers):
    """Workers that leave what a killed process leaves: the note of their attempt, no answer."""

    def submit(self, task, done):
        try:
            super().submit(task, done)
        except Death:
            store = Path(task.store)
            sweep_task._note(store, store / ATTEMPTS / task.session / task.name)
            done(task, WorkerLostError("killed"))


def deadly_cases(*cases):
    """Return a setup that kills its worker for some cases."""

    def setup(point, stream):
        if point.case in cases:
            raise Death
        return {"v": stream.normal(0.0, 1.0, 1)}

    return setup


def fast(run):
    """Return the last speed."""
    return run.v[-1, 0]


def new_sweep(path, design, setup, reduce, block):
    """Create a store without computing anything but its layout."""
    plan = SweepPlan(ROBOT, 0.02, {"method": tb.RK4(dt=0.01)}, setup, reduce, 0, False)
    table = Design.of(design)
    header = SweepHeader.of(plan, table, Layout((), np.empty(0), {"fast": ()}), block, identity())
    return SweepStore.create(path, header), plan


@pytest.mark.parametrize(
    ("count", "block", "lost"),
    [
        (60, 20, (0, 19, 20, 21, 59)),
        pytest.param(10_000, 1000, (6543,), marks=pytest.mark.slow),
    ],
)
def test_deadly_cases_are_found_among_many(tmp_path, count, block, lost):
    """Each is lost alone; all others are computed, and the sweep ends."""
    store, plan = new_sweep(
        tmp_path / "many.zarr", {"draw": range(count)}, deadly_cases(*lost), fast, block
    )
    tally = drive(store, lambda: MortalWorkers(plan), identity())
    assert tally.blocks_done == count // block
    assert tally.outcomes == {"finished": count - len(lost), "lost": len(lost)}
    # three deaths of the block, one of each half on the way, three of the case itself
    assert tally.retries <= len(lost) * (3 + np.ceil(np.log2(block)) + 3)
    status = tb.load_sweep(store.path).data.status.values
    assert tuple(np.flatnonzero(status == "lost")) == lost
    values = tb.load_sweep(store.path).data.fast.values
    assert tuple(np.flatnonzero(np.isnan(values))) == lost
    assert not list(store.path.glob("status/attempts/*"))


def test_a_block_that_dies_without_deadly_cases_ends_the_sweep(tmp_path):
    """Where halves survive and the block does not, the error says what to change."""
    store, plan = new_sweep(tmp_path / "large.zarr", {"draw": range(8)}, start, fast, 8)

    class Small(MortalWorkers):
        def submit(self, task, done):
            if task.is_probe:
                super().submit(task, done)
                return
            folder = Path(task.store)
            notes = folder / ATTEMPTS / task.session / task.name
            if sweep_task._begun(notes) >= task.allowed:
                done(task, sweep_task.Deaths(task.allowed))
                return
            sweep_task._note(folder, notes)
            done(task, WorkerLostError("out of memory"))

    plan = plan._replace(setup=deadly_cases())
    with pytest.raises(tb.TiburonError, match=r"block 0 \(cases 0 to 7\).*smaller blocks"):
        drive(store, lambda: Small(plan), identity())


def receipts_without_work(store):
    """Write the files and receipts of all blocks as workers would, all alike."""
    versions = identity()
    small = store.path / "end_time/c/0"
    small.parent.mkdir(parents=True, exist_ok=True)
    small.write_bytes(b"x" * 100)
    for block in range(store.block_count):
        first, stop = store.block_range(block)
        files = {"end_time/c/0": (100, "0" * 32)}
        outcomes = {"finished": stop - first}
        receipt = Receipt(
            block, first, stop, files, outcomes, {}, 5.0, 0.0, "host:1", versions, 1, "session"
        )
        path = store.receipt_path(block)
        path.parent.mkdir(parents=True, exist_ok=True)
        # as `write_receipt` does, without waiting for the disk
        import tiburon.parallel.receipt as module

        text = module.json.dumps(receipt._asdict(), sort_keys=True)
        path.write_text(
            module.json.dumps({"receipt": text, "checksum": module._digest(text.encode())})
        )


def test_memory_of_the_driver_does_not_grow_with_cases(tmp_path):
    """A finished sweep of 2 and of 2000 million cases takes the same memory to look through."""
    peaks = []
    for cases in (2 * 10**6, 2 * 10**9):
        store, plan = new_sweep(
            tmp_path / f"{cases}.zarr", {"draw": range(cases)}, start, fast, cases // 200
        )
        receipts_without_work(store)
        found = []
        for _ in range(3):
            tracemalloc.start()
            tally = drive(store, lambda plan=plan: MortalWorkers(plan), identity())
            found.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert tally.cases_done == cases
        # threads that optimize code in the background allocate memory, too
        peaks.append(min(found))
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.slow
def test_a_finished_sweep_of_ten_thousand_blocks_is_resumed_in_two_seconds(tmp_path):
    """Receipts of all blocks are read and believed after a look at their files."""
    store, plan = new_sweep(tmp_path / "long.zarr", {"draw": range(10**7)}, start, fast, 1000)
    receipts_without_work(store)
    begin = time.process_time()
    loaded = SweepStore.open(store.path)
    tally = drive(loaded, lambda: MortalWorkers(plan), identity())
    assert tally.blocks_done == 10_000
    assert time.process_time() - begin < 2.0
    assert Tally.of(loaded)[1].all()


def test_parts_compute_their_blocks_and_end_where_results_are_read(tmp_path, monkeypatch):
    """Three jobs without a scheduler leave the store of one; a script ends at its results."""
    from tiburon.parallel.sweep import CommandLine, PartEnd, commanded

    whole = content(study(tmp_path / "whole.zarr").path)
    path = tmp_path / "parts.zarr"
    for k in (2, 0, 1):
        with commanded(CommandLine((k, 3), 0, None)) as studies:
            found = study(path)
            with pytest.raises(PartEnd) as ended:
                found.data  # noqa: B018
            assert ended.value.code == 0
        ((_, tally),) = studies
        assert (tally.blocks, tally.blocks_done) == (2, 2)
    assert content(path) == whole
    assert study(path).is_complete


def test_ctrl_c_at_the_end_of_a_sweep_leaves_no_lock(tmp_path, monkeypatch):
    """Signals while a driver cleans up wait until it has; the sweep can be resumed at once."""
    forget = sweep_driver.forget_session

    def pressed(*given):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        forget(*given)

    path = tmp_path / "pressed.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(sweep_driver, "forget_session", pressed)
        with pytest.raises(KeyboardInterrupt, match="are safe"):
            study(path)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not drivers_of(path)
    assert study(path).is_complete


def test_a_second_ctrl_c_ends_a_sweep_at_once(tmp_path):
    """The first lets the running block finish; the second stops it, and a third changes nothing."""
    path, pressed = tmp_path / "pressed.zarr", []

    def setup(point, stream):
        if point.case == 5 and path.exists() and not pressed:
            pressed.append(point.case)
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return start(point, stream)

    with pytest.raises(KeyboardInterrupt):
        study(path, setup=setup)
    assert tb.load_sweep(path).progress.blocks_done == 1
    assert study(path, setup=setup, mixed=True).is_complete


@pytest.mark.parametrize("trial", [0, 1])
def test_ctrl_c_while_a_sweep_tries_its_cases_is_that_of_a_sweep(tmp_path, trial):
    """The runs that determine layout and blocks are nobody's: there are no rows to look at."""
    starts = []

    def control(state):
        if state.time == 0.0:
            starts.append(state.time)
            if len(starts) == trial + 1:
                signal.raise_signal(signal.SIGINT)
        return {}

    with pytest.raises(KeyboardInterrupt, match=r"^sweep: interrupted") as stop:
        study(tmp_path / "tried.zarr", block=None, control=tb.Sampled(control, dt=0.01))
    assert len(starts) == trial + 1
    assert type(stop.value) is KeyboardInterrupt
