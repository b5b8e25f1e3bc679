"""Sweeps in this process: bits of `simulate`, growth, reduction, structure, errors, results."""

import inspect
import json
import shutil
import sys
from dataclasses import replace
from functools import partial
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
import xarray

import tiburon as tb
from tests.fresh_process import run_python
from tests.parallel.studies import (
    DESIGN,
    DURATION,
    OPTIONS,
    ROBOT,
    changing,
    content,
    drift,
    speed,
    start,
    study,
    whole,
    wrong,
)
from tiburon.parallel.sweep_cases import RESERVED_KEYWORDS, RUN_KEYWORDS
from tiburon.parallel.sweep_header import Reference
from tiburon.results.store import signed_header


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return the study with all rows."""
    return study(tmp_path_factory.mktemp("sweep") / "kept.zarr")


def test_a_sweep_has_the_bits_of_one_batch(kept):
    """Blocks of 4 cases hold what `simulate` of all 21 cases at once returns."""
    run = whole()
    for name, rows in (("joint_position", run.q), ("joint_velocity", run.v)):
        found = kept.data[name].values
        assert found.shape == (3, 7, len(run), 1)
        assert np.array_equal(found.reshape(21, len(run), 1), np.moveaxis(rows, 1, 0))
    assert np.array_equal(kept.data.time.values, run.time)
    assert (kept.data.status.values == "finished").all()
    assert np.array_equal(kept.data.end_time.values, np.full((3, 7), DURATION))
    assert kept.is_complete


def test_block_size_changes_no_bit(kept, tmp_path):
    """Blocks of one case, and one block of all, give the same values."""
    for size in (1, 21):
        other = study(tmp_path / f"{size}.zarr", block=size)
        assert other.data.identical(kept.data)


def test_results_are_selected_lazily(kept):
    """Any selection of xarray returns the values of the whole array."""
    array = kept.data.joint_velocity
    values = array.values
    assert np.array_equal(kept.data.joint_velocity[1, ::-2, -1, 0].values, values[1, ::-2, -1, 0])
    assert np.array_equal(
        kept.data.joint_velocity.isel(draw=[5, 0, 5], payload=[2, 1]).values,
        values[[2, 1]][:, [5, 0, 5]],
    )
    picked = kept.data.joint_velocity.sel(payload=1.1, draw=3, time=0.05).values
    assert np.array_equal(picked, values[2, 3, 1])
    mean = kept.data.joint_velocity.mean("draw")
    assert np.array_equal(mean.values, xarray.DataArray(values).mean("dim_1").values)


def test_xarray_reads_the_store_itself(kept):
    """`xarray.open_zarr` finds cases with their values of the design, and codes of their status."""
    raw = xarray.open_zarr(kept.path)
    run = whole()
    assert np.array_equal(raw.joint_position.values, np.moveaxis(run.q, 1, 0))
    assert np.array_equal(raw.payload.values, np.repeat(DESIGN["payload"], 7))
    assert np.array_equal(raw.draw.values, np.tile(np.arange(7), 3))
    meanings = raw.status.attrs["flag_meanings"].split()
    assert {meanings[code] for code in raw.status.values} == {"finished"}


def test_reduced_values_replace_rows(tmp_path):
    """A reduction keeps its numbers, with the dimensions of the design first."""
    run = whole()
    data = study(tmp_path / "reduced.zarr", reduce=drift).data
    assert set(data.data_vars) == {"angle", "ends", "end_time", "status"}
    assert np.array_equal(data.angle.values.ravel(), run.q[-1, :, 0])
    assert np.array_equal(data.ends.values[..., 0].ravel(), run.v[0, :, 0])
    assert np.array_equal(data.ends.values[:, 0, 1], DESIGN["payload"])


def test_axes_grow_without_changing_old_cases(tmp_path, kept):
    """More values at the ends of axes add cases; blocks that are full are not computed again."""
    path = tmp_path / "grown.zarr"
    study(path)
    before = content(path)
    times = {name: (path / name).stat().st_mtime_ns for name in before}
    larger = {"payload": np.array([0.0, 0.4, 1.1, 1.7]), "draw": range(9)}
    grown = study(path, design=larger)
    assert grown.is_complete
    assert grown.data.joint_position.shape == (4, 9, 3, 1)
    old = grown.data.isel(payload=slice(0, 3), draw=slice(0, 7))
    for name in ("joint_position", "joint_velocity"):
        assert np.array_equal(old[name].values, kept.data[name].values)
        fresh = study(tmp_path / "fresh.zarr", design=larger).data[name].values
        assert np.array_equal(grown.data[name].values, fresh)
    # 21 cases in blocks of 4: the last one has a single case, and is computed again
    full = [name for name in before if "/c/5" not in name]
    assert {name: (path / name).stat().st_mtime_ns for name in full} == {
        name: times[name] for name in full
    }


def test_called_again_a_sweep_computes_nothing(tmp_path):
    """A finished sweep is loaded, and other arguments are refused by name."""
    path = tmp_path / "again.zarr"
    study(path)
    files = {file: file.stat().st_mtime_ns for file in path.rglob("*.json")}
    study(path)
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*.json")} == files
    for changes, name in (
        ({"method": tb.RK4(dt=0.02)}, "method"),
        ({"seed": 6}, "seed"),
        ({"setup": wrong}, "setup"),
        ({"reduce": drift}, "reduce"),
        ({"method": tb.SemiImplicitEuler()}, "method"),
    ):
        with pytest.raises(tb.RunFileError, match=rf"another sweep, which differs in {name}"):
            study(path, **changes)
    with pytest.raises(tb.RunFileError, match="blocks of 4 cases"):
        study(path, block=5)
    with pytest.raises(tb.ModelError, match="begin another sweep"):
        study(path, design={**DESIGN, "payload": [0.0, 0.5]})


def test_rows_count_if_and_only_if_their_receipt_is_there(tmp_path, kept):
    """Without its receipt a block is unfinished, and resume computes it alone."""
    path = tmp_path / "receipts.zarr"
    study(path)
    (path / "status/receipts/0/2.json").unlink()
    loaded = tb.load_sweep(path)
    missing = np.arange(8, 12)
    values = loaded.data.joint_position.values.reshape(21, -1)
    assert np.isnan(values[missing]).all()
    assert np.isfinite(np.delete(values, missing, axis=0)).all()
    assert (loaded.data.status.values.ravel()[missing] == "unfinished").all()
    times = {file: file.stat().st_mtime_ns for file in path.rglob("receipts/0/*.json")}
    loaded.resume(workers=0, setup=start)
    assert loaded.data.identical(kept.data)
    assert (
        times.items()
        <= {file: file.stat().st_mtime_ns for file in path.rglob("receipts/0/*.json")}.items()
    )


def test_damaged_chunks_and_receipts_are_found_by_checksum(tmp_path, kept):
    """A damaged block alone is computed again; damage to a chunk is found with verify."""
    path = tmp_path / "damaged.zarr"
    study(path)
    reference = content(path)
    chunk = path / "joint_velocity/c/1/0/0"
    damaged = bytearray(chunk.read_bytes())
    damaged[-9] ^= 1
    chunk.write_bytes(damaged)
    receipt = path / "status/receipts/0/3.json"
    receipt.write_text(receipt.read_text().replace("finished", "finisher"))
    (path / "end_time/c/4").unlink()
    others = {k: (path / f"status/receipts/0/{k}.json").stat().st_mtime_ns for k in (0, 2, 5)}
    loaded = tb.load_sweep(path)
    with pytest.raises(tb.RunFileError, match=r"resume\(verify=True\)"):
        loaded.data.joint_velocity.load()
    assert loaded.progress.damaged == 2
    loaded.resume(workers=0, setup=start)
    assert content(path)["joint_velocity/c/1/0/0"] == bytes(damaged)
    loaded.resume(workers=0, setup=start, verify=True)
    assert content(path) == reference
    assert loaded.data.identical(kept.data)
    assert others == {
        k: (path / f"status/receipts/0/{k}.json").stat().st_mtime_ns for k in (0, 2, 5)
    }


def test_errors_name_their_case(tmp_path):
    """An error of setup ends the sweep with the case and its values; or the case is recorded."""
    path = tmp_path / "wrong.zarr"
    with pytest.raises(
        tb.CaseError, match=r"case 11 \(payload=0.4, draw=4\): setup raised ValueError: no such sea"
    ):
        study(path, setup=wrong)
    assert tb.load_sweep(path).progress.blocks_done == 2
    recorded = study(tmp_path / "recorded.zarr", setup=wrong, errors="record")
    status = recorded.data.status.values
    assert status[1, 4] == "failed"
    assert (np.delete(status.ravel(), 11) == "finished").all()
    assert recorded.progress.messages == {11: "failed: ValueError: no such sea"}
    assert np.isnan(recorded.data.joint_position.values[1, 4]).all()
    others = np.delete(recorded.data.joint_position.values.reshape(21, -1), 11, axis=0)
    assert np.array_equal(others, np.delete(np.moveaxis(whole().q, 1, 0).reshape(21, -1), 11, 0))


def test_structure_may_change_along_an_axis(tmp_path):
    """Robots of several structures in one design are grouped, their axis slowest."""
    design = {"draw": range(4), "robot": ["single", "double"]}
    found = tb.sweep(
        ROBOT,
        DURATION,
        design=design,
        setup=changing,
        reduce=speed,
        store=tmp_path / "structures.zarr",
        workers=0,
        block=4,
        **OPTIONS,
    )
    assert found.design.order == (1, 0)
    assert list(found.data.robot.values) == ["single", "double"]
    for case in range(found.design.count):
        point = found.point(case)
        run = found.simulate(case)
        assert run.model.nv == {"single": 1, "double": 2}[point.robot]
        value = found.data.speed.sel(draw=point.draw, robot=point.robot).values
        assert value == np.abs(run.v).max()
    with pytest.raises(tb.ModelError, match=r"records other columns .* pass reduce="):
        tb.sweep(
            ROBOT,
            DURATION,
            design=design,
            setup=changing,
            store=tmp_path / "rows.zarr",
            workers=0,
            **OPTIONS,
        )


def test_noise_of_sensors_belongs_to_the_case(tmp_path):
    """Sensor readings of a case are those it has in the whole batch, in any block."""
    sensors = [tb.JointSensor("encoder", rate=20.0, noise=0.1)]
    design = {"draw": range(9)}

    def kick(point, stream):
        return {"v": stream.normal(0.0, 1.0, 1)}

    found = tb.sweep(
        ROBOT,
        DURATION,
        design=design,
        setup=kick,
        sensors=sensors,
        store=tmp_path / "noise.zarr",
        workers=0,
        block=4,
        **OPTIONS,
    )
    from tiburon.parallel.design import case_stream

    v = np.stack([case_stream(0, (k,)).normal(0.0, 1.0, 1) for k in range(9)])
    run = tb.simulate(ROBOT, DURATION, v=v, sensors=sensors, **OPTIONS)
    name = next(column.name for column in run.header.columns if "sens" in column.key)
    assert np.array_equal(found.data[name].values, np.moveaxis(run.array(name), 1, 0))
    assert len(np.unique(run.array(name)[1])) == run.array(name)[1].size


def test_cases_that_end_early_keep_their_outcome(tmp_path):
    """Diverging cases and those ended by an event have their status, time and NaN after it."""
    event = tb.Event("over", lambda state: state.v[0] - 2.0, terminal=True)
    found = study(tmp_path / "ended.zarr", events=[event])
    run = tb.load_sweep(found.path)
    status = found.data.status.values
    assert set(status.ravel()) == {"finished", "event"}
    ended = status == "event"
    assert (found.data.end_time.values[ended] < DURATION).all()
    assert np.isnan(found.data.joint_position.values[ended][:, -1]).all()
    assert run.progress.outcomes["event"] == ended.sum()


def test_one_case_runs_again_with_the_same_bits(kept):
    """`Study.simulate` returns the whole trajectory of one case."""
    run = kept.simulate(12)
    assert np.array_equal(run.q, kept.data.joint_position.values.reshape(21, -1, 1)[12])


def test_functions_of_a_loaded_sweep_come_from_the_caller_or_the_script(tmp_path, monkeypatch):
    """A function of an imported module is passed again; one of the script is found unchanged."""
    path = tmp_path / "loaded.zarr"
    study(path, execution=tb.Execution(budget=1e-9))
    loaded = tb.load_sweep(path)
    assert loaded.progress.blocks_done == 0
    for mixed in (False, True):
        with pytest.raises(tb.RunFileError, match=r"setup is code.*resume\(setup=\.\.\.\)"):
            loaded.resume(workers=0, mixed=mixed)
    with pytest.raises(tb.RunFileError, match=r"setup \('start'\) is not the function"):
        loaded.resume(workers=0, setup=wrong)
    assert loaded.resume(workers=0, setup=start).is_complete
    # a function of the script
    script = sys.modules["__main__"]
    own, changed = (FunctionType(f.__code__, f.__globals__, "begin") for f in (start, wrong))
    for function in (own, changed):
        function.__module__, function.__qualname__ = "__main__", "begin"
    path = tmp_path / "script.zarr"
    study(path, setup=own, execution=tb.Execution(budget=1e-9))
    for other in (changed, start, SimpleNamespace(begin=own)):
        monkeypatch.setattr(script, "begin", other, raising=False)
        with pytest.raises(tb.RunFileError, match="the running script defines no such function"):
            tb.load_sweep(path).resume(workers=0, mixed=True)
    monkeypatch.setattr(script, "begin", own, raising=False)
    assert tb.load_sweep(path).resume(workers=0).is_complete


def _changed_header(path, change):
    """Change the header of a sweep on disk, with its checksum."""
    file = path / "zarr.json"
    data = json.loads(file.read_text())
    header = json.loads(data["attributes"]["sweep"])
    change(header)
    data["attributes"].update(signed_header("sweep", json.dumps(header)))
    file.write_text(json.dumps(data))


def test_every_keyword_of_simulate_is_permitted_or_reserved():
    """A new keyword of `simulate` does not pass from a store to it unseen."""
    names = inspect.signature(inspect.unwrap(tb.simulate)).parameters
    assert sorted(names) == sorted((*RUN_KEYWORDS, *RESERVED_KEYWORDS))


HOSTILE = {
    "store": lambda h: h["options"]["dict"].update(store="elsewhere"),
    "progress": lambda h: h["options"]["dict"].update(execution=True),
    "code for an unknown keyword": lambda h: h["code"].update(store=h["code"]["setup"]),
    "an empty digest": lambda h: h["code"]["setup"].__setitem__(2, ""),
    "a digest that is none": lambda h: h["code"]["setup"].__setitem__(2, "z" * 32),
    "a digest of another type": lambda h: h["code"]["setup"].__setitem__(2, None),
    "dt twice": lambda h: h["code"].update(dt=h["code"]["setup"]),
    "a column elsewhere": lambda h: h["columns"][0]["fields"].update(name="../../x"),
    "a reduced value elsewhere": lambda h: h["reduced"].update({"../x": []}),
    "an axis elsewhere": lambda h: h["design"]["axes"][0]["values"].update(
        {"../x": h["design"]["axes"][0]["values"]["payload"]}
    ),
    "no duration": lambda h: h.update(duration=float("nan")),
    "a seed below zero": lambda h: h.update(seed=-1),
}


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """Return the path of a sweep of which nothing is computed."""
    path = tmp_path_factory.mktemp("sweep") / "unfinished.zarr"
    study(path, execution=tb.Execution(budget=1e-9))
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_headers_of_strangers_decide_neither_paths_nor_functions(unfinished, tmp_path, name):
    """Keywords, names and references that `sweep` never writes are refused on loading."""
    path = tmp_path / "x.zarr"
    shutil.copytree(unfinished, path)
    _changed_header(path, HOSTILE[name])
    with pytest.raises(tb.RunFileError, match="its header cannot be understood"):
        tb.load_sweep(path)


@pytest.mark.parametrize(
    "place", [("os", "remove"), ("shutil", "rmtree"), ("tests.parallel.studies", "start")]
)
def test_a_file_never_names_the_function_that_runs(unfinished, tmp_path, place):
    """A reference to a function of a loaded module, with its true digest, is not followed."""
    path = tmp_path / "x.zarr"
    shutil.copytree(unfinished, path)
    function = getattr(sys.modules[place[0]], place[1])
    _changed_header(path, lambda h: h["code"].update(setup=list(Reference.of(function))))
    for mixed in (False, True):
        with pytest.raises(tb.RunFileError, match="setup is code"):
            tb.load_sweep(path).resume(workers=0, mixed=mixed)


def test_other_versions_are_refused(tmp_path, monkeypatch):
    """A sweep goes on with the versions it was begun with, unless mixing is asked for."""
    from tiburon.parallel import sweep as module
    from tiburon.parallel import sweep_task

    path = tmp_path / "versions.zarr"
    study(path, execution=tb.Execution(budget=1e-9))
    other = {**module.identity(), "tiburon": "0.0.1", "fused": False}
    for place in (module, sweep_task):
        monkeypatch.setattr(place, "identity", lambda: other)
    with pytest.raises(
        tb.RunFileError, match=r"tiburon 0.0.1 instead of .*, fused multiply-add absent instead of"
    ):
        study(path)
    assert study(path, mixed=True).is_complete


def test_bad_arguments_are_refused(tmp_path):
    """Messages name the argument and what to write."""
    path = tmp_path / "bad.zarr"
    bad = [
        ({"dtt": 0.1}, tb.OptionError, "dtt"),
        ({"execution": tb.Execution(case_numbers=[1])}, tb.ModelError, "leave case_numbers out"),
        ({"workers": -1}, tb.DomainError, "workers"),
        ({"errors": "ignore"}, tb.OptionError, "errors"),
        ({"setup": lambda point: {}}, tb.ModelError, "setup"),
        ({"setup": lambda point, stream: {"duration": 3.0}}, tb.CaseError, "duration"),
        ({"setup": lambda point, stream: 3.0}, tb.CaseError, "keywords of simulate"),
        ({"setup": lambda point, stream: {"q": [[0.0]]}}, tb.CaseError, "values of one case"),
        ({"reduce": lambda run: "text"}, tb.CaseError, "numbers by name"),
        ({"reduce": lambda run: {"payload": 1.0}}, tb.ModelError, "also the name of a result"),
        ({"setup": None}, tb.CaseError, "payload"),
        ({"client": 3}, tb.ModelError, "client"),
        ({"seed": -1}, tb.DomainError, "seed"),
        ({"mixed": "yes"}, tb.OptionError, "mixed"),
        ({"design": {"payload": np.array(1.0)}}, tb.ModelError, "list of values"),
        ({"design": {("payload", "draw"): [0.0, 1.0]}}, tb.ModelError, "rows of 2"),
        ({"design": {("payload", "draw"): 3.0}}, tb.ModelError, "rows of 2"),
    ]
    for changes, error, text in bad:
        with pytest.raises(error, match=text):
            study(path, **changes)
        assert not path.exists()


def test_names_of_parameters_need_no_setup(tmp_path):
    """Without setup the design names parameters of `simulate`."""
    masses = np.array([1.0, 2.0])
    found = tb.sweep(
        ROBOT,
        DURATION,
        q=[0.5],
        design={"rod.mass": masses},
        store=tmp_path / "masses.zarr",
        workers=0,
        **OPTIONS,
    )
    run = tb.simulate(ROBOT, DURATION, q=[0.5], parameters={"rod.mass": masses}, **OPTIONS)
    assert np.array_equal(found.data.joint_position.values, np.moveaxis(run.q, 1, 0))


class Kick:
    """A start that an object holds."""

    def __init__(self, speed):
        self.speed = speed

    def __call__(self, point, stream):
        return {"v": [self.speed]}


def kicked(speed):
    """Return a start that holds its speed."""

    def begin(point, stream):
        return {"v": [speed]}

    return begin


def pushed(point, stream, speed=0.0):
    """Start at a speed."""
    return {"v": [speed]}


@pytest.mark.parametrize(
    "make",
    [Kick, kicked, lambda speed: partial(pushed, speed=speed), lambda speed: Kick(speed).__call__],
    ids=["object", "closure", "partial", "method"],
)
def test_functions_that_hold_other_values_are_another_sweep(tmp_path, make):
    """The code is the same, its results are not: none is returned for the other."""
    path = tmp_path / "held.zarr"
    first = study(path, setup=make(1.0))
    again = study(path, setup=make(1.0))
    assert np.array_equal(first.data.joint_position.values, again.data.joint_position.values)
    with pytest.raises(tb.RunFileError, match="differs in setup"):
        study(path, setup=make(2.0))


def test_controllers_with_other_gains_are_another_sweep(tmp_path):
    """Not only setup and reduce decide results."""

    def held(gain):
        return lambda state: -gain * state.q

    path = tmp_path / "control.zarr"
    study(path, control=held(1.0))
    study(path, control=held(1.0))
    with pytest.raises(tb.RunFileError, match="differs in control"):
        study(path, control=held(2.0))


def test_another_robot_is_another_sweep(tmp_path):
    """A store that holds its robot does not take another, under whatever name."""
    path = tmp_path / "robot.zarr"
    study(path)
    heavy = replace(ROBOT.bodies[0], inertia=tb.Inertia(9.0, (0.0, 0.0, -0.3)))
    other = tb.Model(ROBOT.name, [heavy])
    options = {**OPTIONS, "design": DESIGN, "setup": start, "workers": 0}
    with pytest.raises(tb.RunFileError, match="another model"):
        tb.sweep(other, DURATION, store=path, **options)
    with pytest.raises(tb.RunFileError, match="another model"):
        tb.load_sweep(path, model=other)
    with pytest.raises(tb.RunFileError, match="another model"):
        tb.load_sweep(path).resume(model=other, workers=0)
    assert tb.load_sweep(path, model=ROBOT).is_complete


def test_recorded_errors_may_be_those_of_the_first_cases(tmp_path):
    """Shapes of results come from the first case that runs; without any, the error says so."""

    def late(point, stream):
        if point.draw < 2:
            raise ValueError("no such sea")
        return start(point, stream)

    found = study(tmp_path / "late.zarr", setup=late, errors="record")
    wanted = np.where(np.arange(7) < 2, "failed", "finished")
    assert (found.data.status.values == wanted).all()
    with pytest.raises(tb.ModelError, match=r"among the first 2.*no such sea"):
        study(
            tmp_path / "never.zarr",
            setup=late,
            errors="record",
            design={"payload": [0.0], "draw": range(2)},
        )


def test_cases_have_whole_numbers(kept):
    """A fraction names no case."""
    with pytest.raises(tb.OptionError, match="case"):
        kept.point(0.5)


READING = """
import os, sys
import tiburon as tb, xarray
from tests.parallel.studies import start, study

folder, finished = sys.argv[1], None
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.utime", "os.truncate", "os.chmod",
           "os.link", "os.symlink", "shutil.rmtree"}


def guard(event, given):
    writes = event in CHANGES or (event == "open" and given[2] and given[2] & WRITING)
    if writes and any(str(x).startswith(folder) for x in given):
        raise PermissionError(f"{event} {given}")
    if event.startswith("fcntl."):
        raise PermissionError(f"locks, {event}")


sys.addaudithook(guard)
try:
    open(f"{folder}/probe", "w")
except PermissionError:
    pass
else:
    raise SystemExit("the guard is asleep")
path = f"{folder}/study.zarr"
loaded = tb.load_sweep(path)
assert loaded.is_complete and "6 of 6" in str(loaded.progress)
values = loaded.data.load()
assert values.identical(study(path).data.load())
assert values.identical(loaded.resume(setup=start, workers=0, verify=True).data.load())
assert len(loaded.simulate(3).time)
assert len(xarray.open_zarr(path).load().case) == 21
run = tb.load_run(f"{folder}/run.zarr")
assert run.outcome.status == "finished" and run.data.load().time.size == len(run.time) == len(run.q)
print("read")
"""


def test_finished_sweeps_and_runs_are_read_without_writing(tmp_path):
    """Every change and lock of a file of the store raises: as on a read-only disk, also for root.

    Called again, a sweep and `resume` find that there is nothing to compute.
    """
    study(tmp_path / "study.zarr")
    tb.simulate(ROBOT, 0.1, method=tb.RK4(dt=0.01), record=tb.Record(store=tmp_path / "run.zarr"))
    assert run_python(READING, tmp_path).split() == ["read"]
