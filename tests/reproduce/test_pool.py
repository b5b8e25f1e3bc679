"""Validation on measured runs: its parts, and a pool of simulated runs."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.identification.measured import MeasuredRun, roll_pitch_yaw
from tiburon.reproduce import pool
from tiburon.reproduce.pool_page import pool_page, pool_replay


def test_quaternions_of_angles_and_back():
    rng = np.random.default_rng(0)
    angles = rng.uniform(-1.2, 1.2, size=(50, 3))
    quaternions = pool.quaternion_of(angles)
    assert np.abs(np.linalg.norm(quaternions, axis=1) - 1.0).max() < 1e-15
    assert np.abs(roll_pitch_yaw(quaternions) - angles).max() < 1e-14


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


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(tb.RunFileError, match="none; name their folder"):
        pool.load_pool(tmp_path)


def simulated(folder, parameters, count, seed):
    """Write runs of a vehicle with other parameters, as the measured ones are written."""
    robot = tb.load("bluerov2_alpha")
    rng = np.random.default_rng(seed)
    time = pool.DT * np.arange(401)
    names = list(pool.JOINTS)
    for k in range(count):
        rates, phases = rng.uniform(0.3, 0.9, size=4), rng.uniform(0.0, 6.0, size=4)
        joints = 1.2 + 0.8 * np.sin(rates * time[:, None] + phases)
        record = MeasuredRun("arm", time, joints=dict(zip(names, joints.T, strict=True)))
        path = record.joint_path()
        q, v = np.array(robot.neutral()), np.zeros(robot.nv)
        q[robot.indices(names, of="q")] = path.at(0.0).position
        v[robot.indices(names, of="v")] = path.at(0.0).velocity
        run = tb.simulate(
            robot,
            8.0,
            q=q,
            v=v,
            prescribed={name: path.of(name) for name in names},
            world=pool.surroundings(),
            parameters=parameters,
            dt=pool.DT,
            record_dt=pool.DT,
            passive=False,
            limits=False,
        )
        offsets = [x[1] if isinstance(x, tuple) else 0.0 for x in pool.JOINTS.values()]
        columns = [x[0] if isinstance(x, tuple) else x for x in pool.JOINTS.values()]
        np.savez(
            folder / f"run_{k // 2:03d}-{k % 2}.npz",
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
    simulated(tmp_path, truth, 6, 1)
    table = pool.validate_pool(tmp_path)
    rows = {row.name: row for row in table.rows}
    assert rows["published, scalar added mass"].roll > 0.05
    assert rows["identified"].roll < 0.02
    assert rows["identified"].pitch < 0.02
    assert table.met
    page = pool_page(table)
    assert "identified, trimmed" in page
    assert "run_000-0" in pool_replay(table, "run_000-0")
