"""Runs on disk: what goes in comes out, and what is wrong is reported."""

import errno
import json
import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray

import tiburon as tb
from tests.results import trajectory_samples as samples
from tests.robots import cart_pendulum, double_pendulum
from tiburon.results import checkpoint as checkpoint_module
from tiburon.results import store as store_module
from tiburon.results.outcome import EventRecord
from tiburon.results.store import PROGRESS, VERSION
from tiburon.simulation import recorder as recorder_module
from tiburon.simulation.recorder import Recorder


@pytest.fixture
def small_chunks(monkeypatch):
    """Let chunks hold 8 rows, as if rows were large."""
    monkeypatch.setattr(store_module, "MAX_CHUNK_ROWS", 8)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("portion", [1, 8, 30])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_streamed_rows_round_trip_in_bits(tmp_path, small_chunks, batch, portion, known):
    """Whatever the portions are, the store has the rows, with chunks of its own size."""
    path = tmp_path / "run.zarr"
    run, time, columns = samples.recorded(
        double_pendulum(), batch=batch, store=path, portion=portion, known=known
    )
    for found in (run, tb.load_run(path)):
        assert np.array_equal(found.time, time)
        for key in ("q", "v", "u", "power"):
            assert np.array_equal(found.array(key), columns[key]), key
    assert run.store.chunk_rows == 8


@pytest.mark.parametrize("name", ["run.zarr", "run.zip"])
def test_saved_runs_round_trip(tmp_path, small_chunks, name):
    """Robot, world, setup, outcomes, events and checkpoint are those of the run that was saved."""
    model = cart_pendulum()
    world = tb.World(fluid=tb.Water(current=tb.LinearShear((0.3, 0.1, 0.0), 20.0)))
    setup = {"method": "rk4", "dt": 0.1 + 0.2, "record": ("momentum",), "table": np.eye(2) / 3.0}
    time, columns = samples.rows(model, 21, (2,))
    table = np.outer([1.0, 2.0], model.plan.parameters)
    header = samples.header(model, (2,), setup, world=world, case_parameters={"inertia": table})
    recorder = Recorder(header, rows=21)
    recorder.append(time, columns, samples.checkpoint)
    events = [EventRecord("touch", 1.0 / 3.0, 1, np.arange(2.0), np.ones(2), np.zeros(0))]
    state = samples.checkpoint(20, note=[1, 2.5, "text", None], seed=2**70)
    run = recorder.finish(samples.outcomes(model, 2, bad=(1,)), events, state)
    run.save(tmp_path / name)
    found = tb.load_run(tmp_path / name)
    assert found.model == model
    assert found.world == world
    assert found.header.setup["dt"] == 0.1 + 0.2
    assert found.header.setup["record"] == ("momentum",)
    assert np.array_equal(found.header.setup["table"], np.eye(2) / 3.0)
    assert np.array_equal(found.header.case_parameters["inertia"], table)
    assert found.header.missing == ()
    assert [o.message for o in found.outcomes] == [o.message for o in run.outcomes]
    assert found.outcomes[1].body == "bob"
    assert found.events[0].time == 1.0 / 3.0
    assert np.array_equal(found.events[0].q, np.arange(2.0))
    assert found.checkpoint.step == 20
    assert found.checkpoint.notes == {"note": [1, 2.5, "text", None], "seed": 2**70}
    assert np.array_equal(found.checkpoint.arrays["state"], state.arrays["state"])
    assert found.checkpoint.arrays["held"].dtype == np.int64
    assert np.array_equal(found.q, columns["q"])
    assert found.data.identical(run.data)
    # a saved run can be saved again, from disk
    found.save(tmp_path / "again.zarr")
    assert np.array_equal(tb.load_run(tmp_path / "again.zarr").v, columns["v"])


def test_other_readers_open_a_store_as_it_is(tmp_path):
    """Plain xarray finds names, units and values, without a warning."""
    model = cart_pendulum()
    _, time, columns = samples.recorded(model, store=tmp_path / "run.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = xarray.open_zarr(tmp_path / "run.zarr", chunks=None)
    assert data["joint_position"].dims == ("time", "position")
    assert np.array_equal(data["joint_position"].values, columns["q"])
    assert np.array_equal(data["time"].values, time)
    assert [str(name) for name in data["velocity"].values] == list(model.v_names)
    assert [str(unit) for unit in data["joint_velocity_unit"].values] == ["m/s", "rad/s"]
    assert data["power"].attrs["units"] == "W"


def test_missing_user_code_is_named(tmp_path):
    """A controller is code: the file states that it must be passed again."""
    run, _, _ = samples.recorded(
        double_pendulum(), setup={"control": lambda state: 0.0, "dt": 1e-3}
    )
    run.save(tmp_path / "run.zarr")
    found = tb.load_run(tmp_path / "run.zarr")
    assert found.header.missing == ("control",)
    with pytest.raises(tb.RunFileError, match=r"control: code.*resume\(control=\.\.\.\)"):
        found.resume(1.0)


def test_world_with_user_code_must_be_passed(tmp_path):
    """A current given as a function is not in the file; `load_run` takes the world."""
    world = tb.World(fluid=tb.Water(current=lambda time, position: (0.1, 0.0, 0.0)))
    run, _, _ = samples.recorded(double_pendulum(), world=world)
    run.save(tmp_path / "run.zarr")
    found = tb.load_run(tmp_path / "run.zarr")
    assert np.array_equal(found.q, run.q)
    with pytest.raises(tb.RunFileError, match="its world holds code"):
        found.get("potential_energy")
    assert tb.load_run(tmp_path / "run.zarr", world=world).world is world


def test_existing_files_are_not_overwritten_by_default(tmp_path):
    """Runs are overwritten only on request; other files never."""
    path = tmp_path / "run.zarr"
    run, _, _ = samples.recorded(double_pendulum(), count=5)
    other, _, _ = samples.recorded(double_pendulum(), count=9)
    run.save(path)
    with pytest.raises(tb.RunFileError, match="exists already; choose another name"):
        other.save(path)
    with pytest.raises(tb.RunFileError, match=r"exists already.*resume"):
        samples.recorded(double_pendulum(), store=path)
    assert len(tb.load_run(path)) == 5
    other.save(path, overwrite=True)
    assert len(tb.load_run(path)) == 9
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "text").write_text("years of work")
    with pytest.raises(tb.RunFileError, match="not a run, so it is kept"):
        run.save(precious, overwrite=True)
    assert (precious / "text").read_text() == "years of work"
    with pytest.raises(tb.RunFileError, match="holds this run already"):
        tb.load_run(path).save(path, overwrite=True)
    # nothing is left of what was made on the way
    assert {p.name for p in tmp_path.iterdir()} == {"run.zarr", "thesis"}


def test_interrupted_run_is_read_up_to_its_checkpoint(tmp_path, small_chunks):
    """What was appended but not committed does not count; what was, does, with its checkpoint."""
    model = double_pendulum()
    time, columns = samples.rows(model, 40)
    recorder = Recorder(samples.header(model), rows=40, store=tmp_path / "run.zarr")
    for k in range(0, 30, 5):
        part = slice(k, k + 5)
        rows = {key: array[part] for key, array in columns.items()}
        recorder.append(time[part], rows, lambda at=k + 5: samples.checkpoint(at))
    running = tb.load_run(tmp_path / "run.zarr")
    assert running.status == "running"
    assert f"process {os.getpid()} on " in running.outcome.message
    # it is never finished
    del recorder
    found = tb.load_run(tmp_path / "run.zarr")
    assert found.status == "killed"
    assert len(found) == found.checkpoint.step == 25
    assert np.array_equal(found.q, columns["q"][:25])
    assert "killed" in repr(found)
    assert len(found.data["time"]) == 25


def test_rows_become_visible_with_their_checkpoint(tmp_path, small_chunks):
    """Where a run is ahead of its rows, they count only once a later checkpoint comes."""
    model = double_pendulum()
    time, columns = samples.rows(model, 40)
    recorder = Recorder(samples.header(model), rows=40, store=tmp_path / "run.zarr")

    def append(start, stop, state):
        part = slice(start, stop)
        recorder.append(time[part], {k: a[part] for k, a in columns.items()}, state)

    append(0, 20, None)
    assert len(tb.load_run(tmp_path / "run.zarr")) == 0
    append(20, 21, lambda: samples.checkpoint(21))
    found = tb.load_run(tmp_path / "run.zarr")
    assert len(found) == found.checkpoint.step == 21
    assert np.array_equal(found.v, columns["v"][:21])


def test_other_readers_see_nan_in_unwritten_rows(tmp_path, small_chunks, monkeypatch):
    """A chunk that is not full holds NaN, also where its buffer held rows of the one before."""
    monkeypatch.setattr(recorder_module, "FLUSH_SECONDS", 0.0)
    model = double_pendulum()
    time, columns = samples.rows(model, 40)
    recorder = Recorder(samples.header(model), rows=40, store=tmp_path / "run.zarr")
    for part in (slice(0, 8), slice(8, 11)):
        rows = {key: array[part] for key, array in columns.items()}
        recorder.append(time[part], rows, samples.checkpoint)
    data = xarray.open_zarr(tmp_path / "run.zarr", chunks=None)
    assert np.array_equal(data["joint_position"][:11], columns["q"][:11])
    assert np.isnan(data["joint_position"][11:]).all()
    assert np.isnan(data["time"][11:]).all()


def test_slow_runs_are_written_before_a_chunk_is_full(tmp_path, monkeypatch):
    """Rows go to disk after a time, though few; the chunk is then written again with more."""
    monkeypatch.setattr(recorder_module, "FLUSH_SECONDS", 0.0)
    run, _, columns = samples.recorded(double_pendulum(), store=tmp_path / "a.zarr", portion=3)
    assert run.store.chunk_rows == 51
    assert np.array_equal(tb.load_run(tmp_path / "a.zarr").q, columns["q"])


# -- what goes wrong -------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path, small_chunks):
    """Return the path of a good run of several chunks."""
    samples.recorded(double_pendulum(), store=tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


def _edit(path: Path, **attributes):
    """Change attributes of a store."""
    data = json.loads((path / "zarr.json").read_text())
    data["attributes"].update(attributes)
    (path / "zarr.json").write_text(json.dumps(data))


def test_files_of_a_later_version_are_refused(stored):
    """The message states both versions and what to do."""
    _edit(stored, version=VERSION + 1, written_by="tiburon 9.9")
    with pytest.raises(tb.RunFileError, match=rf"version {VERSION + 1}.*up to {VERSION}.*9\.9"):
        tb.load_run(stored)


@pytest.mark.parametrize("version", [0, "1", None, 1.0, True])
def test_invalid_versions_are_refused(stored, version):
    """A version is a whole number."""
    _edit(stored, version=version)
    with pytest.raises(tb.RunFileError, match="version must be a whole number"):
        tb.load_run(stored)


def test_other_stores_are_distinguished(tmp_path, stored):
    """A Zarr store of someone else, an empty directory, a text, nothing at all."""
    other = xarray.Dataset({"a": ("x", [1.0])})
    other.to_zarr(tmp_path / "other.zarr", zarr_format=3, consolidated=False)
    with pytest.raises(tb.RunFileError, match=r"not a run.*xarray\.open_zarr"):
        tb.load_run(tmp_path / "other.zarr")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello")
    for name in ("empty", "text"):
        with pytest.raises(tb.RunFileError, match="not a saved run, or incomplete"):
            tb.load_run(tmp_path / name)
    with pytest.raises(tb.RunFileError, match="does not exist"):
        tb.load_run(tmp_path / "nothing.zarr")


def test_changed_header_is_detected(stored):
    """What is said of the robot carries a checksum: a flipped digit is not believed."""
    data = json.loads((stored / "zarr.json").read_text())
    text = data["attributes"]["run"]
    _edit(stored, run=text.replace("0.7", "0.8", 1))
    with pytest.raises(tb.RunFileError, match="checksum"):
        tb.load_run(stored)
    _edit(stored, run=None)
    with pytest.raises(tb.RunFileError, match="checksum"):
        tb.load_run(stored)


@pytest.mark.parametrize("size", [0, 1, 100, 1000])
def test_truncated_files_are_detected(stored, size):
    """Descriptions, checkpoints and rows that are cut short give clear errors, never numbers."""
    for name in ("zarr.json", PROGRESS, "joint_position/zarr.json", "joint_position/c/2/0"):
        copy = stored.with_name("copy.zarr")
        shutil.copytree(stored, copy)
        content = (copy / name).read_bytes()
        assert len(content) > 1
        (copy / name).write_bytes(content[: min(size, len(content) - 1)])
        with pytest.raises(tb.RunFileError):
            _ = tb.load_run(copy).q
        shutil.rmtree(copy)


def test_flipped_bits_are_detected(stored):
    """Every chunk carries a sum: a flipped bit anywhere in one is an error."""
    file = stored / "joint_velocity/c/1/0"
    good = bytearray(file.read_bytes())
    for place in range(0, len(good), 7):
        bad = good.copy()
        bad[place] ^= 4
        file.write_bytes(bad)
        run = tb.load_run(stored)
        with pytest.raises(tb.RunFileError, match="rows 0 to 51 of joint_velocity are damaged"):
            _ = run.v
    # the rest can still be read
    assert run.q.shape == (51, 2)


SWAPS = {
    "another run": ("other/joint_position/c/0/0", "joint_position/c/0/0"),
    "another array": ("run.zarr/joint_velocity/c/0/0", "joint_position/c/0/0"),
    "another place": ("run.zarr/joint_position/c/1/0", "joint_position/c/0/0"),
    "another run, with its checksums": ("other/joint_position", "joint_position"),
}


@pytest.mark.parametrize("name", SWAPS)
def test_chunks_are_bound_to_run_array_and_place(tmp_path, stored, name):
    """A whole chunk of elsewhere is refused, though its own checksum is right."""
    samples.recorded(double_pendulum(), store=tmp_path / "other", seed=4)
    source, target = SWAPS[name]
    if (tmp_path / source).is_dir():
        shutil.rmtree(stored / target)
        shutil.copytree(tmp_path / source, stored / target)
    else:
        shutil.copy(tmp_path / source, stored / target)
    with pytest.raises(tb.RunFileError, match=r"joint_position/c/./0 is damaged, or a chunk of an"):
        tb.load_run(stored).q.sum()


def test_checkpoints_are_bound_to_their_run(tmp_path, stored):
    """A run never continues from the state of another one."""
    samples.recorded(double_pendulum(), store=tmp_path / "other", seed=4)
    shutil.copy(tmp_path / "other" / PROGRESS, stored / PROGRESS)
    with pytest.raises(tb.RunFileError, match=r"checkpoint is damaged.*of another run"):
        tb.load_run(stored)


def test_runs_of_the_first_version_are_read(tmp_path, stored):
    """They have no identity, and their chunks no checksums beside them."""
    right = np.array(tb.load_run(stored).q)
    _edit(stored, version=1)
    _edit(stored, identity="")
    with pytest.raises(tb.RunFileError, match="checkpoint is damaged"):
        tb.load_run(stored)
    data = dict(np.load(stored / PROGRESS))
    notes = json.loads(str(data[checkpoint_module.NOTES]))
    del notes["run"]
    np.savez(stored / PROGRESS, **data | {checkpoint_module.NOTES: np.array(json.dumps(notes))})
    for file in stored.rglob(store_module.CHECKSUMS):
        file.unlink()
    assert np.array_equal(tb.load_run(stored).q, right)
    _edit(stored, version=2)
    with pytest.raises(tb.RunFileError, match="identity must be a text"):
        tb.load_run(stored)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_chunk_that_is_replaced_counts_before_and_after(tmp_path, small_chunks, batch):
    """A process that is killed between checksum and chunk leaves a readable store."""
    robot, path = double_pendulum(), tmp_path / "run.zarr"
    start = np.full((*batch, 2), 0.4)
    tb.simulate(robot, 0.1, q=start, record=tb.Record(store=path), method=tb.RK4(dt=0.01))
    right = np.array(tb.load_run(path).q)
    # rows 9 to 11 of 16
    chunk = path / "joint_position" / "c" / "1" / "/".join("0" for _ in start.shape)
    before = chunk.read_bytes()
    tb.load_run(path).resume(0.03)
    assert chunk.read_bytes() != before
    longer = np.array(tb.load_run(path).q)
    assert len(longer) > len(right)
    # the earlier chunk is back: the next checksum was written, the chunk was not
    chunk.write_bytes(before)
    assert np.array_equal(tb.load_run(path).q[: len(right)], right)


def test_missing_files_are_detected(stored):
    """A chunk that is gone would read as unknown numbers: it is an error instead."""
    (stored / "command/c/3/0").unlink()
    with pytest.raises(tb.RunFileError, match="file command/c/3/0 is missing"):
        tb.load_run(stored)


def test_damaged_archives_are_refused(tmp_path, stored):
    """A zip file that is cut, or holds something else."""
    tb.load_run(stored).save(tmp_path / "run.zip")
    content = (tmp_path / "run.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(content[: len(content) // 2])
    with pytest.raises(tb.RunFileError):
        tb.load_run(tmp_path / "cut.zip")
    run = tb.load_run(tmp_path / "run.zip")
    with pytest.raises(tb.RunFileError, match="a zip file cannot be resumed"):
        Recorder.continued(run, run.header, 10, 20, samples.checkpoint())


def test_untrusted_files_run_no_code(stored):
    """Only records of this package are restored: no class, function or module of others."""
    from tiburon.results.encoding import NotDataError, from_text

    others = ("os:system", "builtins:eval", "urllib.parse:ParseResult")
    for place in (*others, "tiburon.errors:ModelError", "tiburon.no:such"):
        with pytest.raises(NotDataError, match="no such class"):
            from_text(json.dumps({"record": place, "fields": {}}))
    for text in ("[" * 100_000, '{"array": "x", "dtype": "O", "shape": [1]}', '{"odd": 1}', "{"):
        with pytest.raises(NotDataError):
            from_text(text)


class FullDisk:
    """Lets a number of files be written, then none."""

    def __init__(self, monkeypatch, files):
        import zarr.storage._local as local

        self.left = files
        put = local._put

        def counted(path, value, exclusive=False):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return put(path, value, exclusive)

        monkeypatch.setattr(local, "_put", counted)


def test_a_full_disk_keeps_the_written_rows(tmp_path, small_chunks, monkeypatch):
    """The error states what is safe; the store opens, and can be resumed once there is space."""
    model = double_pendulum()
    path = tmp_path / "run.zarr"
    time, columns = samples.rows(model, 40)
    recorder = Recorder(samples.header(model), rows=40, store=path)

    def append(to, start, stop):
        part = slice(start, stop)
        rows = {key: array[part] for key, array in columns.items()}
        to.append(time[part], rows, lambda: samples.checkpoint(stop))

    append(recorder, 0, 8)
    with monkeypatch.context() as patch:
        # in the middle of the second chunk
        FullDisk(patch, 3)
        with pytest.raises(
            tb.RunFileError, match=r"No space left on device.*8 rows up to 0\.08 s are safe.*resume"
        ):
            append(recorder, 8, 16)
    found = tb.load_run(path)
    assert len(found) == found.checkpoint.step == 8
    assert np.array_equal(found.q, columns["q"][:8])
    again = Recorder.continued(found, found.header, 8, 40, found.checkpoint)
    for start in range(8, 40, 8):
        append(again, start, start + 8)
    again.finish(samples.outcomes(model), [], samples.checkpoint(40))
    assert np.array_equal(tb.load_run(path).q, columns["q"])


@pytest.mark.parametrize("when", ["writing", "replacing"])
def test_a_full_disk_at_the_checkpoint_keeps_the_one_before(
    tmp_path, small_chunks, monkeypatch, when
):
    """The checkpoint is replaced in one stroke: a half written one never takes its place."""
    model = double_pendulum()
    path = tmp_path / "run.zarr"
    time, columns = samples.rows(model, 16)
    recorder = Recorder(samples.header(model), rows=16, store=path)
    first, second = ({k: a[s] for k, a in columns.items()} for s in (slice(8), slice(8, 16)))
    recorder.append(time[:8], first, lambda: samples.checkpoint(8))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync" if when == "writing" else "replace", full)
        with pytest.raises(tb.RunFileError, match="No space left"):
            recorder.append(time[8:], second, lambda: samples.checkpoint(16))
    assert len(tb.load_run(path)) == 8
    assert not list(path.rglob("*.partial"))


def test_disk_full_on_saving_leaves_no_partial_file(tmp_path, monkeypatch):
    """A run that cannot be saved leaves the earlier one in its place, and no rubbish."""
    path = tmp_path / "run.zarr"
    run, _, _ = samples.recorded(double_pendulum(), count=5)
    run.save(path)
    longer, _, _ = samples.recorded(double_pendulum(), count=9)
    with monkeypatch.context() as patch:
        FullDisk(patch, 12)
        with pytest.raises(tb.RunFileError, match="No space left"):
            longer.save(path, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]
    assert len(tb.load_run(path)) == 5


def test_large_batches_are_cut_into_several_files(tmp_path, monkeypatch):
    """No file grows with the number of cases beyond a bound."""
    monkeypatch.setattr(store_module, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(store_module, "FILE_BYTES", 1000)
    run, _, columns = samples.recorded(
        double_pendulum(), count=7, batch=(100,), store=tmp_path / "run.zarr"
    )
    assert run.store.chunk_rows == 1
    files = list((tmp_path / "run.zarr/joint_position/c/0").iterdir())
    assert len(files) == 2
    assert np.array_equal(tb.load_run(tmp_path / "run.zarr").q, columns["q"])


def test_another_robot_is_refused_where_one_is_given(tmp_path):
    """The run would continue with other numbers, and tell energies that are not its own."""
    robot = tb.load("pendulum")
    tb.simulate(robot, 0.02, q=[0.5], method=tb.RK4(dt=0.01)).save(tmp_path / "run.zarr")
    assert len(tb.load_run(tmp_path / "run.zarr", model=robot).time) == 3
    (bob,) = robot.bodies
    heavier = tb.Model("pendulum", [replace(bob, inertia=replace(bob.inertia, mass=9.0))])
    for other in (heavier, tb.load("double_pendulum")):
        with pytest.raises(tb.RunFileError, match="pass the robot that was simulated"):
            tb.load_run(tmp_path / "run.zarr", model=other)
