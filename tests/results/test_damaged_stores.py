"""Damaged and forged runs on disk: an error that names the run, or the right numbers."""

import contextlib
import json
import os
import random
import shutil
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.fresh_process import run_python
from tests.results.store_damage import damages
from tests.robots import double_pendulum
from tiburon.results import store as store_module

resource = pytest.importorskip("resource", reason="memory is measured as POSIX does")

ROOT = Path(__file__).parents[2]

SECONDS = 10.0
"""Most processor time to read a store; milliseconds are usual [s]."""

MEGABYTES = 700.0
"""Most memory that reading takes beyond that of the process: a whole device would take more."""


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """Do not wait for the disk: nothing here depends on what a power failure would leave."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def _stored(path, cases):
    """Make a run of several chunks that can be resumed, and return its path."""
    q = np.broadcast_to([0.5, 0.2], (*cases, 2))
    keywords = {
        "method": tb.RK4(dt=1e-3),
        "record": tb.Record(every=1),
        "events": [tb.TimeEvent("tick", 0.005)],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "MAX_CHUNK_ROWS", 4)
        tb.simulate(
            double_pendulum(), 0.01, q=q, **{**keywords, "record": tb.Record(every=1, store=path)}
        )
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return the path of a run of one robot."""
    return _stored(tmp_path_factory.mktemp("good") / "run.zarr", ())


@pytest.fixture(scope="module", params=["one", "batch"])
def any_good(request, good, tmp_path_factory):
    """Return the path of a run, of one robot and of a batch."""
    if request.param == "one":
        return good
    return _stored(tmp_path_factory.mktemp("batch") / "run.zarr", (3,))


def _use(path):
    """Do with a run what users do; return its positions."""
    run = tb.load_run(path)
    repr(run)
    assert isinstance(run.status, (str, np.ndarray))
    assert run.outcome is None or isinstance(run.outcome.message, str)
    for event in run.events:
        repr(event)
    for key in ("time", "q", "v", "u"):
        run.array(key)
    run.data.load()
    if len(run):
        run.part(0.0, 0.005)
    return run.q


def _problem(path):
    """Use a run; return the error, or None and its positions."""
    try:
        return None, _use(path)
    except tb.RunFileError as error:
        return error, None


def _check(good, name, damage, folder):
    """Damage a copy of a store, and use it."""
    copy = folder / "copy.zarr"
    shutil.copytree(good, copy)
    try:
        damage(copy)
        began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        error, q = _problem(copy)
        if error is None:
            # damage that does not matter, or rows that a forger left out
            whole = tb.load_run(good).q
            assert np.array_equal(q, whole[: len(q)]), name
            with contextlib.suppress(tb.TiburonError):
                tb.load_run(copy).resume(0.002, execution=tb.Execution(progress=False))
        else:
            assert error.file.startswith(str(copy)), name
            assert len(str(error)) < 2000, name
            assert "; " in error.problem, name
        assert time.process_time() - began < SECONDS, name
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert grown < MEGABYTES, f"{name}: {grown} MB"
    finally:
        shutil.rmtree(copy)


SAMPLE = 6
"""Damages of each store in the usual tests: a different one of every kind, the same every time."""


def test_damaged_files_give_run_file_errors(any_good, tmp_path):
    """A sample of all damages; foreign exceptions, wrong numbers, hangs and floods fail."""
    made = damages(any_good)
    rng = random.Random(1)
    for name in rng.sample(sorted(made), SAMPLE):
        _check(any_good, name, made[name], tmp_path)


@pytest.mark.slow
def test_all_damaged_files_give_run_file_errors(any_good, tmp_path):
    """All damages: every file, every byte damage, every value of every header.

    Of the batch one in five: its files differ only in their shapes.
    """
    made = sorted(damages(any_good).items())
    for name, damage in made[:: 5 if "batch" in any_good.parent.name else 1]:
        _check(any_good, name, damage, tmp_path)


READ = """
import resource, sys, tiburon as tb
# ten times what reading takes; a device or a bomb would take more
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
for path in sys.argv[1:]:
    try:
        tb.load_run(path).q
    except tb.RunFileError as error:
        print(error.problem)
"""


def _read_elsewhere(*paths):
    """Read runs in a process of its own, bounded in time and memory, and return its errors."""
    return run_python(READ, *paths).splitlines()


def test_pipes_and_devices_are_not_read(good, tmp_path):
    """A file of a stranger's run that is a pipe, or leads to a device, is refused at once."""
    files = ["zarr.json", "checkpoint/progress.npz", "joint_position/c/1/0"]
    paths = []
    for file in files:
        for place in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
            paths.append(tmp_path / f"{len(paths)}.zarr")
            shutil.copytree(good, paths[-1])
            (paths[-1] / file).unlink()
            place(paths[-1] / file)
    problems = _read_elsewhere(*paths)
    assert len(problems) == 2 * len(files)
    for problem, file in zip(problems, np.repeat(files, 2), strict=True):
        assert "expected a regular file" in problem or f"file {file} is missing" in problem


@pytest.mark.parametrize("name", ["checkpoint/progress.npz", "checkpoint", "joint_position/c"])
def test_runs_do_not_resume_through_symbolic_links(good, tmp_path, name):
    """Links in a stranger's run would have `resume` write into files elsewhere; reading is safe."""
    path, other = tmp_path / "run.zarr", tmp_path / "other.zarr"
    shutil.copytree(good, path)
    shutil.copytree(good, other)
    shutil.move(path / name, tmp_path / "removed")
    (path / name).symlink_to(other / name)
    before = {file: file.read_bytes() for file in other.rglob("*") if file.is_file()}
    run = tb.load_run(path)
    with pytest.raises(tb.RunFileError, match=f"{name} is a link, through which other files"):
        run.resume(0.05)
    assert {file: file.read_bytes() for file in other.rglob("*") if file.is_file()} == before
    # a link to the whole run is the user's own
    (tmp_path / "link.zarr").symlink_to(other)
    rows = len(tb.load_run(other))
    assert len(tb.load_run(tmp_path / "link.zarr").resume(0.05)) > rows


def test_decompression_of_archives_is_bounded(good, tmp_path):
    """A zip file of 0.1 MB that would unpack to 100 MB is refused before anything is unpacked."""
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in good.rglob("*"):
            if file.is_file() and file.name != "progress.npz":
                archive.write(file, file.relative_to(good).as_posix())
        with archive.open("checkpoint/progress.npz", "w") as member:
            for _ in range(100):
                member.write(bytes(10**6))
    assert path.stat().st_size < 2e5
    (problem,) = _read_elsewhere(path)
    assert "unpacks to 100" in problem
    assert "unpack it yourself if you trust it" in problem


def test_archives_packed_by_others_are_read(good, tmp_path):
    """A zip file made with any program, whose members are packed, holds the same numbers."""
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in good.rglob("*"):
            if file.is_file():
                archive.write(file, file.relative_to(good).as_posix())
    run, whole = tb.load_run(path), tb.load_run(good)
    assert np.array_equal(run.q, whole.q)
    assert run.data.identical(whole.data)
    assert run.status == "finished" if not run.batch else (run.status == "finished").all()


def test_forged_chunk_sizes_are_refused(good, tmp_path):
    """Chunks of 745 GiB, of one array or of all, are an error and no attempt."""
    copies = {}
    for name, path, message in (
        ("zarr.json", ("attributes", "chunk_rows"), "chunk_rows"),
        ("time/zarr.json", ("chunk_grid", "configuration", "chunk_shape", 0), "chunks of 4 rows"),
    ):
        copy = tmp_path / name.replace("/", "-")
        shutil.copytree(good, copy)
        data = json.loads((copy / name).read_text())
        inside = data
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = 10**11
        (copy / name).write_text(json.dumps(data))
        copies[copy] = message
    for message, problem in zip(copies.values(), _read_elsewhere(*copies), strict=True):
        assert message in problem


def test_forged_sizes_inside_chunks_are_refused(good, tmp_path):
    """A packed chunk that claims to unpack to 2 GB is refused before it is unpacked."""
    copy = tmp_path / "run.zarr"
    shutil.copytree(good, copy)
    file = copy / "time/c/1"
    content = bytearray(file.read_bytes())
    content[4:8] = (2**31 - 1).to_bytes(4, "little")
    file.write_bytes(content)
    with pytest.raises(tb.RunFileError, match=r"rows 0 to 11 of time are damaged .time/c/1 is"):
        _ = tb.load_run(copy).time


def test_all_keywords_of_a_run_are_checked_when_it_is_read():
    """What a run was started with has a kind in the reader, so that damage to it is refused."""
    from tiburon.results.encoding import SETUP_TYPES
    from tiburon.simulation.run import RunSetup

    elsewhere = {"model", "world", "elements", "control"}
    assert set(SETUP_TYPES) == set(RunSetup._fields) - elsewhere


def _thruster(header):
    return header["elements"][0]["fields"]["thruster"]["fields"]


def _current(header):
    return header["world"]["fields"]["fluid"]["fields"]["current"]["fields"]


HOSTILE = {
    "world.fluid.current: TableCurrent": lambda h: _current(h)["speeds"].pop(),
    "current: TableCurrent: .*increasing": lambda h: _current(h)["times"].reverse(),
    "elements.0..thruster: Thruster: .*position": lambda h: _thruster(h)["position"].pop(),
    "elements.0..thruster: Thruster: .*curve": lambda h: _thruster(h).update(curve=None),
    r"setup\['sensors'\].0.: DepthSensor": lambda h: h["setup"]["dict"]["sensors"][0][
        "fields"
    ].update(rate="often"),
}


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """Return the path of a run with water, thrusters and a sensor."""
    path = tmp_path_factory.mktemp("rich") / "run.zarr"
    current = tb.TableCurrent((0.0, 1.0), ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)))
    robot = tb.load("bluerov2_heavy")
    sensor = tb.DepthSensor("depth", frame=robot.body_names[0], rate=100.0)
    water = tb.Water(current=current)
    tb.simulate(robot, 0.02, fluid=water, sensors=[sensor], record=tb.Record(store=path))
    return path


def _with_header(path, change):
    """Change the header of a run, with a checksum that fits."""
    whole = json.loads((path / "zarr.json").read_text())
    header = json.loads(whole["attributes"]["run"])
    change(header)
    whole["attributes"] |= store_module.signed_header("run", json.dumps(header))
    (path / "zarr.json").write_text(json.dumps(whole))


@pytest.mark.parametrize("message", HOSTILE)
def test_changed_records_of_headers_are_refused_when_they_are_read(rich, message, tmp_path):
    """Values that no constructor accepts give an error that names file and element."""
    path = tmp_path / "run.zarr"
    shutil.copytree(rich, path)
    _with_header(path, HOSTILE[message])
    with pytest.raises(tb.RunFileError, match=message) as found:
        tb.load_run(path)
    assert found.value.file == str(path)


def test_headers_that_describe_no_run_are_refused_when_it_is_resumed(rich, tmp_path):
    """An element that fits the format but not the robot is an error of the file, not of a call."""
    path = tmp_path / "run.zarr"
    shutil.copytree(rich, path)
    _with_header(path, lambda h: _thruster(h).update(body="x"))
    with pytest.raises(tb.RunFileError, match=r"describes a run that cannot go on .*'x'"):
        tb.load_run(path).resume(0.01)


def test_shapes_without_sizes_are_refused_when_a_run_is_resumed(tmp_path):
    """Code that relies on the records of the package fails for a reason of the file."""
    joint = tb.Free("float")
    shape = tb.Shape(tb.SphereShape(0.1))
    ball = tb.Model(
        "ball", [tb.Body("b", joint=joint, inertia=tb.Inertia.sphere(1.0, 0.1), shapes=(shape,))]
    )
    path = tmp_path / "run.zarr"
    world = tb.World(ground=tb.Ground())
    q = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1)
    tb.simulate(ball, 0.01, q=q, world=world, record=tb.Record(store=path))
    _with_header(
        path,
        lambda h: h["elements"][0]["fields"]["candidates"][0]["fields"]["first"]["fields"][
            "size"
        ].clear(),
    )
    run = tb.load_run(path)
    with pytest.raises(tb.RunFileError, match="describes a run that cannot go on"):
        run.resume(0.01)
