"""Validation on measured runs: its parts, and a pool of simulated runs."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tiburon.identification.measured import MeasuredRun
from tiburon.reproduce import pool
from tiburon.reproduce.pool_page import pool_page, pool_replay
from tiburon.spatial.rotations import quaternion_to_roll_pitch_yaw


def test_quaternions_of_angles_and_back():
    rng = np.random.default_rng(0)
    angles = rng.uniform(-1.2, 1.2, size=(50, 3))
    quaternions = pool.quaternion_of(angles)
    assert np.abs(np.linalg.norm(quaternions, axis=1) - 1.0).max() < 1e-15
    assert np.abs(quaternion_to_roll_pitch_yaw(quaternions) - angles).max() < 1e-14


def test_the_frequency_of_ringing_beside_slow_motion():
    time = pool.DT * np.arange(1000)
    slow = 0.2 * np.sin(0.3 * time) + 0.05 * time
    ring = 0.01 * np.exp(-0.1 * time) * np.sin(2.0 * np.pi * 0.35 * time + 0.4)
    assert pool.pitch_frequency(time, slow + ring) == pytest.approx(0.35, rel=0.03)


def test_errors_of_angles_and_averaged_rates():
    time = pool.DT * np.arange(200)
    angles = np.column_stack([0.1 * np.sin(time), 0.2 * np.cos(time), 0.0 * time])
    run = MeasuredRun("run_1-0", time, pool.quaternion_of(angles))
    (exact,) = pool.errors_of([run], [angles])
    assert exact.max() < 1e-25
    # an offset has no rate; a drift of 0.01 rad/s has
    (shifted,) = pool.errors_of([run], [angles + 0.01])
    assert np.allclose(shifted, [1e-4, 1e-4, 0.0, 0.0], atol=1e-20)
    (drifting,) = pool.errors_of([run], [angles + 0.01 * time[:, None]])
    assert np.allclose(drifting[2:], 1e-4)


def test_full_added_mass_is_none_along_slender_links():
    robot = pool.full_added_mass(tb.load("bluerov2_alpha"))
    upper = np.array(robot.body("upper_arm").fluid.added_mass)
    # the link lies along x: nothing along and about it, pi r^2 of water per length across
    length = 0.106 + 4.0 / 3.0 * 0.02
    assert upper[3, 3] == pytest.approx(0.0, abs=1e-15)
    assert upper[0, 0] == pytest.approx(0.0, abs=1e-15)
    assert upper[4, 4] == pytest.approx(1000.0 * np.pi * 0.02**2 * length)
    center = upper[4, 2] / upper[4, 4]
    assert center == pytest.approx(0.0735)


def test_drag_as_coded_takes_that_of_translation_for_rotation():
    # three rotations take the coefficients along x, y and z of the source
    fluid = tb.load("bluerov2_alpha").body("vehicle").fluid
    linear = np.diag(fluid.linear_damping)
    assert [pool.AS_CODED[f"vehicle.linear_damping.w{a}"] for a in "xyz"] == linear[3:].tolist()
    assert [pool.AS_CODED[f"vehicle.linear_damping.v{a}"] for a in "xyz"] == linear[:3].tolist()
    quadratic = np.diag(fluid.quadratic_damping)
    found = [pool.AS_CODED[f"vehicle.quadratic_damping.w{a}"] for a in "xyz"]
    assert found == quadratic[3:].tolist()


def rising(slope, level):
    time = pool.DT * np.arange(300)
    height = 0.3 + 0.05 * time + 0.01 * np.sin(time)
    pitch = 0.1 * np.sin(0.5 * time)
    angles = np.column_stack([0.0 * time, pitch + slope * (height - level), 0.0 * time])
    valid = np.arange(len(time)) % 3 > 0
    position = np.column_stack([0 * time, 0 * time, np.where(valid, height, 99.0)])
    run = MeasuredRun("run_1-0", time, pool.quaternion_of(angles), None, position, valid)
    return run, pitch, height


def test_pitch_that_follows_height_is_removed_and_added():
    slope = -0.02
    for level in (None, 0.7):
        run, pitch, height = rising(slope, 0.3 if level is None else level)
        lift = pool.Lift(slope, level)
        # heights between valid samples are interpolated; the first one is that of the second
        assert np.abs(lift.removed(run).attitude[:, 1] - pitch).max() < 5e-5
        flat = np.column_stack([0 * pitch, pitch, 0 * pitch, 0 * pitch, 0 * pitch, height - 0.1])
        (found,) = lift.added([run], [flat])
        assert np.abs(found[:, 1] - run.attitude[:, 1]).max() < 5e-5
        assert np.array_equal(flat[:, 1], pitch)


def test_predictions_with_height_start_as_measured(tmp_path):
    """A change of pitch at the start is no error, and does not make the vehicle ring."""
    simulated(tmp_path, {}, 1, 1)
    (run,) = pool.load_pool(tmp_path)
    height = np.full(len(run.time), 0.8)
    run = replace(run, position=np.column_stack([0 * height, 0 * height, height]))
    robot, lift = tb.load("bluerov2_alpha"), pool.Lift(-0.1, 0.5)
    parameters = {"vehicle.volume": robot.body("vehicle").fluid.volume}
    (still,) = pool.predicted(robot, [run], parameters, trim=None)
    tilted = run.attitude + np.array([0.0, -0.03, 0.0])
    other = replace(run, quaternion=pool.quaternion_of(tilted))
    (found,) = pool.lifted(robot, [other], parameters, lift, trim=None)
    assert np.abs(found[0, :3] - tilted[0]).max() < 1e-12
    # the same motion, but for the change
    assert np.abs(found[:, 5] - still[:, 5]).max() < 1e-9
    rise = still[:, 5] - still[0, 5]
    assert np.abs(found[:, 1] - still[:, 1] + 0.03 + 0.1 * rise).max() < 1e-9


def test_ringing_must_agree_with_both_measured_frequencies():
    assert pool.Ringing("run_006-2", 0.349, 0.352).met
    assert not pool.Ringing("run_006-2", 0.349, 0.31).met  # 16 % below 0.37
    assert not pool.Ringing("run_006-2", 0.30, 0.352).met


def test_runs_of_the_fit_are_not_judged(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        simulated(tmp_path / folder, {}, 1, 1)
    with pytest.raises(tb.RunFileError, match="is also judged"):
        pool.validate_pool(tmp_path / "a", fit=tmp_path / "b")


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(tb.RunFileError, match="none; name their folder"):
        pool.load_pool(tmp_path)


def simulated(folder, parameters, count, seed, first=0, resting=False):
    """Write runs of a vehicle with other parameters, as the measured ones are written.

    Vehicles start level while the arm moves, out of equilibrium; or at rest in equilibrium, and the
    arm begins to move after the time over which runs are trimmed, as the measured ones do.
    """
    robot = tb.load("bluerov2_alpha")
    rng = np.random.default_rng(seed)
    time = pool.DT * np.arange(401)
    names = list(pool.JOINTS)
    for k in range(count):
        rates, phases = rng.uniform(0.3, 0.9, size=4), rng.uniform(0.0, 6.0, size=4)
        moved = np.maximum(time - pool.TRIM, 0.0) ** 2 / 4.0 if resting else time
        joints = 1.2 + 0.8 * np.sin(rates * moved[:, None] + phases)
        level = np.tile([1.0, 0.0, 0.0, 0.0], (len(time), 1))
        record = MeasuredRun("arm", time, level, joints=dict(zip(names, joints.T, strict=True)))
        path = record.joint_path()
        q, v = np.array(robot.neutral()), np.zeros(robot.nv)
        if resting:
            (angles,) = pool.quasi_static(robot, [record], parameters, trim=None)
            q[:4] = pool.quaternion_of(angles)[0]
        q[robot.indices(names, of="q")] = path.at(0.0).position
        v[robot.indices(names, of="v")] = path.at(0.0).velocity
        run = tb.simulate(
            robot.without_passive().without_limits(),
            8.0,
            q=q,
            v=v,
            prescribed={name: path.of(name) for name in names},
            world=pool.surroundings(),
            parameters=parameters,
            method=tb.RK4(dt=pool.DT),
            record=tb.Record(dt=pool.DT),
        )
        offsets = [x[1] if isinstance(x, tuple) else 0.0 for x in pool.JOINTS.values()]
        columns = [x[0] if isinstance(x, tuple) else x for x in pool.JOINTS.values()]
        np.savez(
            folder / f"run_{first + k // 2:03d}-{k % 2}.npz",
            time=time,
            quaternion=run.q[:, :4] + 1e-4 * rng.normal(size=(len(time), 4)),
            angular_velocity=run.v[:, :3],
            joint_position=joints - np.array(offsets),
            joint_names=np.array(columns),
        )


@pytest.mark.slow
def test_a_simulated_pool_is_predicted_by_identified_parameters(tmp_path):
    """Cross-validated fits predict runs of a vehicle of other parameters than published."""
    truth = {"vehicle.center_of_buoyancy.z": 0.026, "vehicle.linear_damping.wx": 0.3}
    simulated(tmp_path, truth, 6, 1, resting=True)
    table = pool.validate_pool(tmp_path)
    rows = {row.name: row for row in table.rows}
    assert rows["published, scalar added mass"].roll > 0.05
    assert rows["identified"].roll < 0.02
    assert rows["identified"].pitch < 0.02
    assert table.met
    # without positions nothing follows height, and displacements are not judged
    assert table.height == 0.0
    assert table.others == ()
    causes = {cause.name: cause for cause in table.causes}
    assert causes["jaw"].pitch > np.radians(0.1)
    assert "clock of the arm" in causes
    page = pool_page(table)
    assert "identified, trimmed" in page
    assert "Causes of the remaining error" in page
    assert "run_000-0" in pool_replay(table, "run_000-0")


@pytest.mark.slow
def test_a_fit_of_one_folder_is_judged_on_another(tmp_path):
    """Runs of unknown trajectories are predicted by a fit that never saw them."""
    truth = {"vehicle.center_of_buoyancy.z": 0.026, "vehicle.linear_damping.wx": 0.3}
    for name, count, seed, first in (("here", 4, 1, 0), ("kept", 2, 9, 50)):
        (tmp_path / name).mkdir()
        simulated(tmp_path / name, truth, count, seed, first)
    table = pool.validate_pool(tmp_path / "kept", fit=tmp_path / "here")
    assert [run.name for run in table.runs] == ["run_050-0", "run_050-1"]
    assert table.fits["identified"].runs[0] == "run_000-0"
    rows = {row.name: row for row in table.rows}
    assert rows["identified"].roll < 0.02
    assert rows["identified"].met
    assert "all 4 runs of here" in table.judged_on
