"""Measured runs: files, checks that name file, column and row, smoothing, comparison."""

import os
import tracemalloc
import zipfile

import numpy as np
import pytest

import tiburon as tb
from tiburon.identification import measured

N = 101
TIME = 0.02 * np.arange(N)


def arrays(**changes):
    """Return the arrays of a plain run of a vehicle that rolls."""
    roll = 0.2 * np.sin(TIME)
    found = {
        "time": TIME,
        "quaternion": np.stack([np.cos(roll / 2), np.sin(roll / 2), 0 * roll, 0 * roll], axis=-1),
        "angular_velocity": np.stack([0.2 * np.cos(TIME), 0 * TIME, 0 * TIME], axis=-1),
        "position": np.stack([0.1 * TIME, 0 * TIME, 0 * TIME], axis=-1),
        "position_valid": np.ones(N, dtype=bool),
        "joint_position": np.stack([np.sin(TIME), np.cos(TIME)], axis=-1),
        "joint_names": np.array(["elbow", "wrist"]),
    }
    found |= changes
    return {name: value for name, value in found.items() if value is not None}


def saved(tmp_path, **changes):
    file = tmp_path / "run_1.npz"
    np.savez(file, **arrays(**changes))
    return file


def test_archives_and_csv_files_give_the_same_run(tmp_path):
    run = tb.load_measured(saved(tmp_path))
    assert run.name == "run_1"
    assert np.allclose(run.attitude[:, 0], 0.2 * np.sin(TIME), atol=1e-12)
    given = arrays()
    header = "time,qw,qx,qy,qz,wx,wy,wz,x,y,z,position_valid,elbow,wrist"
    table = np.column_stack([given[k] for k in list(given)[:-1]])
    file = tmp_path / "run_1.csv"
    np.savetxt(file, table, delimiter=",", header=header, comments="", fmt="%.17g")
    other = tb.load_measured(file)
    for name in ("time", "quaternion", "angular_velocity", "position", "position_valid"):
        assert np.array_equal(getattr(run, name), getattr(other, name))
    assert set(other.joints) == {"elbow", "wrist"}
    assert np.array_equal(run.joints["wrist"], other.joints["wrist"])


def nan_at(values, row):
    found = np.array(values, dtype=float)
    found[row] = np.nan
    return found


BACKWARD = np.where(np.arange(N) == 40, TIME[38], TIME)
GAP = np.where(np.arange(N) > 60, TIME + 1.0, TIME)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time": None}, r"'time' is missing"),
        ({"time": BACKWARD}, r"row 41.*rising times"),
        ({"time": GAP}, r"row 62.*gap of 1\.02 s"),
        ({"time": nan_at(TIME, 7)}, r"'time', row 8"),
        ({"quaternion": nan_at(arrays()["quaternion"], 5)}, r"'quaternion', row 6"),
        (
            {"quaternion": 2.0 * arrays()["quaternion"]},
            r"'quaternion', row 1: expected length 1.*scalar first",
        ),
        ({"quaternion": arrays()["quaternion"][:, :3]}, r"quaternion must have shape"),
        (
            {"angular_velocity": 300.0 * arrays()["angular_velocity"]},
            r"'angular_velocity', row \d+.*deg/s",
        ),
        ({"joint_position": 57.3 * arrays()["joint_position"]}, r"'elbow'.*degrees"),
        ({"joint_names": None}, r"joint_names"),
        ({"joint_position": None}, r"without joint_position"),
        ({"joint_position": np.array(1.0)}, r"joint_position must have shape"),
        ({"joint_position": np.zeros((N, 2)), "joint_names": ["a", "a"]}, r"a name twice"),
        ({"angular_velocty": np.zeros((N, 3))}, r"did you mean 'angular_velocity'"),
        ({"time": TIME + 1j}, r"time must hold real numbers"),
        ({"position": nan_at(arrays()["position"], 3)}, r"'position', row 4"),
    ],
)
def test_bad_data_name_file_column_and_row(tmp_path, changes, words):
    with pytest.raises(tb.RunFileError, match=words) as caught:
        tb.load_measured(saved(tmp_path, **changes))
    assert "run_1.npz" in str(caught.value)


def test_csv_files_with_missing_or_broken_columns_are_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("time,qw,qx,qy\n0,1,0,0\n1,1,0,0\n")
    with pytest.raises(tb.RunFileError, match="'qz' is missing"):
        tb.load_measured(file)
    file.write_text("time,elbow\n0,1\n1,one\n")
    with pytest.raises(tb.RunFileError, match=r"'elbow', row 2.*drop the row"):
        tb.load_measured(file)
    file.write_text("time,elbow\n0,1\n1\n")
    with pytest.raises(tb.RunFileError, match=r"row 2 has 1 value.*complete"):
        tb.load_measured(file)
    with pytest.raises(tb.RunFileError, match="no such file"):
        tb.load_measured(tmp_path / "none.npz")


def test_files_that_are_no_archives_are_refused(tmp_path):
    torn, single = tmp_path / "torn.npz", tmp_path / "single.npy"
    torn.write_bytes(b"PK\x03\x04 cut off")
    np.save(single, TIME)
    for file in (torn, single):
        with pytest.raises(tb.RunFileError, match="expected a NumPy archive"):
            tb.load_measured(file)


def test_archives_are_expanded_within_bounds(tmp_path, monkeypatch):
    """An array that unpacks to much more than its file is refused, an unknown one ignored."""
    monkeypatch.setattr(measured, "ARCHIVE_BYTES", 2**16)
    large, file = np.zeros(2**18), tmp_path / "large.npz"
    np.savez_compressed(file, **arrays(force=large))
    tracemalloc.start()
    try:
        tb.load_measured(file)
        np.savez_compressed(file, **arrays(time=large))
        tracemalloc.reset_peak()
        with pytest.raises(tb.RunFileError, match=r"time claims 2097\d\d\d bytes.*fewer samples"):
            tb.load_measured(file)
        # a quarter of the array
        assert tracemalloc.get_traced_memory()[1] - tracemalloc.get_traced_memory()[0] < 2**19
    finally:
        tracemalloc.stop()
    # what is not compressed takes no more memory than its file
    long = {
        name: np.resize(values, (2**14, *values.shape[1:])) for name, values in arrays().items()
    }
    np.savez(file, **long | {"time": 0.02 * np.arange(2**14), "joint_names": ["a", "b"]})
    assert len(tb.load_measured(file).time) == 2**14


def test_damaged_archives_are_refused(tmp_path):
    """Whatever byte is damaged: the run is the same, or the error is that of a file."""
    file = tmp_path / "run_1.npz"
    np.savez_compressed(file, **arrays())
    content, right = file.read_bytes(), tb.load_measured(file)
    refused = 0
    for place in np.random.default_rng(3).integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[place : place + 4] = bytes(value ^ 0x5A for value in damaged[place : place + 4])
        file.write_bytes(damaged)
        try:
            assert np.array_equal(tb.load_measured(file).time, right.time)
        except tb.RunFileError:
            refused += 1
    assert refused > 75


def test_an_array_that_is_there_twice_is_refused(tmp_path):
    """NumPy would take the last one."""
    file = saved(tmp_path)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("time.npy", archive.read("time.npy"))
    with pytest.raises(tb.RunFileError, match="time is there twice"):
        tb.load_measured(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_pipes_are_refused_without_waiting(tmp_path, kind):
    """A pipe without a writer would block for ever."""
    os.mkfifo(tmp_path / f"x.{kind}")
    with pytest.raises(tb.RunFileError, match="regular file"):
        tb.load_measured(tmp_path / f"x.{kind}")


def test_long_csv_files_and_headers_are_refused(tmp_path, monkeypatch):
    """Sizes of CSV files are bounded before they are parsed."""
    file = tmp_path / "x.csv"
    file.write_text(",".join(f"joint_{k}" for k in range(measured.MAX_COLUMNS + 1)) + "\n")
    with pytest.raises(tb.RunFileError, match=r"at most 10000 columns, got 10001"):
        tb.load_measured(file)
    monkeypatch.setattr(measured, "CSV_BYTES", 100)
    with pytest.raises(tb.RunFileError, match=r"NumPy archive"):
        tb.load_measured(file)


def test_invalid_positions_may_be_nan_and_are_never_compared(tmp_path):
    valid = np.arange(N) % 3 > 0
    position = nan_at(arrays()["position"], ~valid)
    run = tb.load_measured(saved(tmp_path, position=position, position_valid=valid))
    robot = tb.Model("ball", [tb.Body("ball", joint=tb.Free("base"), inertia=ball())])
    still = tb.simulate(robot, 2.0, world=tb.World(gravity=(0.0, 0.0, 0.0)))
    run = tb.MeasuredRun(
        run.name,
        run.time,
        position=np.where(valid[:, None], run.position, 99.0),
        position_valid=valid,
    )
    off = run.compare(still)
    assert np.isnan(off["x"][~valid]).all()
    # the first sample is not valid: displacements count from the second
    assert np.allclose(off["x"][valid], 0.1 * (TIME[1] - TIME[valid]))
    assert np.abs(off["y"][valid]).max() == 0.0


def ball():
    return tb.Inertia(1.0, (0.0, 0.0, 0.0), (0.1, 0.0, 0.0, 0.1, 0.0, 0.1))


def test_smoothing_halves_its_period_and_passes_slow_motion():
    time = 0.01 * np.arange(3001)
    for period, gain in ((1.0, 0.5), (4.0, 1.0), (0.4, 0.0)):
        wave = np.sin(2.0 * np.pi * time / period)
        path = tb.MeasuredRun("wave", time, joints={"elbow": wave}).joint_path(smoothing=1.0)
        inner = (time > 5.0) & (time < 25.0)
        found = path.at(time[inner])
        size = 2.0 * np.mean(found.position[:, 0] * wave[inner])
        # knots ten to a period: B-splines follow it to 1 %
        assert abs(size - gain) < 0.02
        if gain == 1.0:
            rate = np.cos(2.0 * np.pi * time / period) * 2.0 * np.pi / period
            assert np.abs(found.velocity[:, 0] - rate[inner]).max() < 0.01
            bend = -wave * (2.0 * np.pi / period) ** 2
            assert np.abs(found.acceleration[:, 0] - bend[inner]).max() < 0.05


def test_comparison_with_a_prediction_of_itself_is_zero():
    robot = tb.Model("ball", [tb.Body("ball", joint=tb.Free("base"), inertia=ball())])
    v = np.array([0.3, -0.2, 0.5, 0.1, 0.0, 0.2])
    run = tb.simulate(
        robot, 2.0, v=v, world=tb.World(gravity=(0.0, 0.0, 0.0)), method=tb.RK4(dt=0.01)
    )
    record = tb.MeasuredRun("itself", run.time, run.q[:, :4], run.v[:, :3], run.q[:, 4:7])
    off = record.compare(run)
    assert set(off) == {"roll", "pitch", "yaw", "wx", "wy", "wz", "x", "y", "z"}
    assert max(np.abs(x).max() for x in off.values()) < 1e-12
    shorter = tb.simulate(
        robot, 1.0, v=v, world=tb.World(gravity=(0.0, 0.0, 0.0)), method=tb.RK4(dt=0.01)
    )
    with pytest.raises(tb.DomainError, match="2 s or more"):
        record.compare(shorter)


def test_the_start_takes_the_velocity_from_valid_positions():
    robot = tb.Model("ball", [tb.Body("ball", joint=tb.Free("base"), inertia=ball())])
    q = np.array(robot.neutral())
    q[:4] = np.array([0.6, 0.0, 0.0, 0.8])
    v = np.array([0.0, 0.0, 0.0, 0.3, -0.1, 0.2])
    run = tb.simulate(
        robot, 2.0, q=q, v=v, world=tb.World(gravity=(0.0, 0.0, 0.0)), method=tb.RK4(dt=0.01)
    )
    valid = np.arange(len(run.time)) % 4 > 1
    position = np.where(valid[:, None], run.q[:, 4:7], 77.0)
    record = tb.MeasuredRun("fly", run.time, run.q[:, :4], run.v[:, :3], position, valid)
    at_start, moving = record.start(robot)
    assert np.allclose(at_start[:4], q[:4])
    assert np.allclose(moving, v, atol=1e-12)
    # one valid position determines no velocity
    alone = np.arange(len(run.time)) == 5
    record = tb.MeasuredRun("fly", run.time, run.q[:, :4], run.v[:, :3], position, alone)
    assert np.array_equal(record.start(robot)[1][3:], np.zeros(3))


def test_the_start_of_an_accelerating_vehicle_has_the_rates_of_its_first_sample():
    robot = tb.Model("ball", [tb.Body("ball", joint=tb.Free("base"), inertia=ball())])
    time = 0.02 * np.arange(50)
    noise = 1e-3 * np.random.default_rng(0).normal(size=(50, 3))
    rates = np.array([0.1, -0.2, 0.3]) + np.outer(time, [2.0, -1.0, 0.5]) + noise
    found = tb.MeasuredRun("turn", time, angular_velocity=rates).start(robot)[1][:3]
    # the mean over 0.2 s would be off by 0.2 rad/s; the end of a line has twice the noise of a mean
    assert np.abs(found - [0.1, -0.2, 0.3]).max() < 2e-3
    # a single sample within 0.2 s is taken as it is
    alone = tb.MeasuredRun("turn", 20.0 * time, angular_velocity=rates).start(robot)[1][:3]
    assert np.array_equal(alone, rates[0])


def test_resampling_keeps_the_start_and_unit_quaternions(tmp_path):
    run = tb.load_measured(saved(tmp_path)).resample(0.03)
    assert np.allclose(np.diff(run.time), 0.03)
    assert np.abs(np.linalg.norm(run.quaternion, axis=1) - 1.0).max() < 1e-15
    assert np.allclose(run.attitude[:, 0], 0.2 * np.sin(run.time), atol=1e-4)


def test_joints_are_renamed_with_offsets(tmp_path):
    run = tb.load_measured(saved(tmp_path))
    other = run.with_joints({"shoulder": ("elbow", -0.5)})
    assert np.array_equal(other.joints["shoulder"], run.joints["elbow"] - 0.5)
    assert "wrist" not in other.joints
    with pytest.raises(tb.UnknownNameError, match="elbw"):
        run.with_joints({"shoulder": "elbw"})
    with pytest.raises(tb.UnknownNameError, match="knee"):
        run.joint_path(["knee"])


def test_plots_show_measured_and_predicted(tmp_path):
    run = tb.load_measured(saved(tmp_path))
    figure = run.plot(path=tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 10_000
    assert len(figure.axes) == 3
