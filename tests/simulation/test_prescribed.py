"""Joints that follow given paths in a run while the others react."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tiburon.simulation.integrators.methods import METHODS

ARM = ["joint_5", "joint_4", "joint_3", "joint_2"]
PLAIN = {"passive": False, "limits": False}


def arm_path(seed, length=1.0):
    """Return a moving path of the arm of the vehicle; it does not start at rest."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0.0, length, 8)
    points = np.cumsum(0.3 * rng.normal(size=(8, 4)), axis=0)
    return tb.JointPath.through(
        times, points, kind="quintic", joints=ARM, start_velocity=rng.normal(size=4)
    )


def by_joint(path):
    return {name: path.of(name) for name in path.joints}


@pytest.fixture(scope="module")
def vehicle():
    return tb.load("bluerov2_alpha")


def kicked(robot, seed=3):
    """Return a start whose base moves and is turned off the axes."""
    rng = np.random.default_rng(seed)
    v = np.zeros(robot.nv)
    v[:6] = 0.3 * rng.normal(size=6)
    return v


def test_vehicle_reacts_to_its_arm_as_inverse_dynamics_demands(vehicle):
    sea = tb.Water(current=(0.2, -0.1, 0.05))
    path = arm_path(0)
    run = tb.simulate(vehicle, 0.5, prescribed=by_joint(path), fluid=sea, dt=0.01, **PLAIN)
    at = path.at(run.time)
    places = vehicle.indices(ARM, of="q"), vehicle.indices(ARM, of="v")
    # positions and velocities come from the path itself, not from integrating it
    assert np.abs(run.q[:, places[0]] - at.position).max() < 1e-14
    assert np.abs(run.v[:, places[1]] - at.velocity).max() < 1e-13
    force = run.get("prescribed_force").values
    vd = run.get("joint_acceleration").values
    assert np.abs(vd[:, places[1]] - at.acceleration).max() < 1e-12
    needed = tb.inverse_dynamics(vehicle, run.q, run.v, vd, fluid=sea)
    assert np.abs(force).max() > 0.1
    assert np.abs(needed - force).max() < 1e-12 * np.abs(force).max() + 1e-12
    assert not force[:, :6].any()


def chain():
    """Return three links on skew axes."""
    shape = tb.Inertia(0.8, (0.1, 0.02, -0.2), (0.03, 0.001, -0.002, 0.04, 0.003, 0.02))
    axes = {"first": (0, 1, 0), "second": (0.8, 0, 0.6), "third": (0.28, 0.96, 0)}
    bodies, parent = [], "world"
    for name, axis in axes.items():
        joint = tb.Revolute(name, axis, pose=tb.Pose(translation=(0.0, 0.05, -0.4)))
        bodies.append(tb.Body(f"{name} link", parent, joint=joint, inertia=shape))
        parent = f"{name} link"
    return tb.Model("chain", bodies)


SWAY = tb.Harmonic(0.5, frequency=0.8, phase=0.3, mean=0.2)


def test_agrees_with_driven_joints():
    """A Driven joint has no variables of its own: other equations, the same motion."""
    robot = chain()
    first, middle, last = robot.bodies
    drive = replace(middle.joint, name="drive", pose=tb.Pose())
    driven = tb.Driven("second", drive, SWAY, pose=middle.joint.pose)
    other = tb.Model("driven", [first, replace(middle, joint=driven), last])
    x, xd, _ = SWAY.at(0.0)
    q, v = np.array([0.4, x, -0.7]), np.array([1.0, xd, -2.0])
    how = {"method": "dop853", "rtol": 1e-12, "atol": 1e-13, "dt": 0.01, **PLAIN}
    ours = tb.simulate(robot, 1.0, prescribed={"second": SWAY}, q=q, v=v, **how)
    theirs = tb.simulate(other, 1.0, q=q[[0, 2]], v=v[[0, 2]], **how)
    assert np.abs(ours.q[:, [0, 2]] - theirs.q).max() < 1e-9
    assert np.ptp(theirs.q, axis=0).min() > 0.1


@pytest.mark.parametrize("method", METHODS)
def test_every_integrator_follows_the_path(method):
    robot = chain()
    given = {"prescribed": {"second": SWAY}, **PLAIN}
    run = tb.simulate(robot, 0.2, method=method, dt=1e-3, **given)
    exact = tb.simulate(robot, 0.2, method="dop853", rtol=1e-12, atol=1e-13, **given)
    assert np.abs(run.q[:, 1] - [SWAY.at(t)[0] for t in run.time]).max() < 1e-14
    # order one, and the tolerance of adaptive methods
    bound = 2e-2 if "euler" in method else 1e-6
    assert np.abs(run.q[-1] - exact.q[-1]).max() < bound


def test_each_case_has_its_own_path_and_the_bits_it_has_alone(vehicle):
    paths = [arm_path(seed, length) for seed, length in ((1, 0.4), (2, 1.0), (3, 0.7))]
    v = kicked(vehicle)
    together = {name: [path.of(name) for path in paths] for name in ARM}
    how = {"fluid": tb.Water(), "dt": 0.01, **PLAIN}

    def start(path):
        found = v.copy()
        found[vehicle.indices(ARM, of="v")] = path.at(0.0).velocity
        return found

    batch = tb.simulate(
        vehicle, 0.5, prescribed=together, v=np.stack([start(p) for p in paths]), **how
    )
    for k, path in enumerate(paths):
        alone = tb.simulate(vehicle, 0.5, prescribed=by_joint(path), v=start(path), **how)
        assert np.array_equal(alone.q, batch.q[:, k])
        assert np.array_equal(
            alone.get("prescribed_force").values, batch.get("prescribed_force").values[:, k]
        )


def test_saved_runs_resume_with_the_same_bits(vehicle, tmp_path):
    paths = [arm_path(seed) for seed in (4, 5)]
    given = {name: [path.of(name) for path in paths] for name in ARM}
    how = {"prescribed": given, "fluid": tb.Water(), "dt": 0.01, **PLAIN}
    whole = tb.simulate(vehicle, 0.4, **how)
    tb.simulate(vehicle, 0.2, store=tmp_path / "run.zarr", **how)
    run = tb.load_run(tmp_path / "run.zarr").resume(0.2)
    assert np.array_equal(run.q[-1], whole.q[-1])


def test_loops_stay_closed_around_a_prescribed_crank():
    robot = tb.load("four_bar")
    q = robot.poses["home"]
    crank = next(j.name for j in robot.joints if j.nv)
    at = robot.indices([crank], of="q")[0]
    turn = tb.Polynomial((q[at], 0.0, 4.0, -2.0))
    run = tb.simulate(robot, 0.5, prescribed={crank: turn}, q=q, dt=1e-3, **PLAIN)
    assert np.abs(run.q[:, at] - [turn.at(t)[0] for t in run.time]).max() < 1e-14
    assert np.abs(tb.constraint_residual(robot, run.q)).max() < 1e-11
    assert np.ptp(run.q[:, at]) > 0.5
    # the crank's force does all the work
    force, rate = run.get("prescribed_force").values[:, at], run.v[:, at]
    work = np.trapezoid(force * rate, run.time)
    energy = run.get("total_energy").values
    # rule of trapezoids over rows 10 ms apart
    assert abs(work - (energy[-1] - energy[0])) < 1e-3 * abs(work)


def test_compliant_contact_takes_part():
    robot = tb.load("quadruped")
    joint = next(j.name for j in robot.joints if j.nv == 1)
    at = robot.indices([joint], of="q")[0]
    q = robot.poses["stand"]
    floor = tb.World(ground=tb.Ground(normal_stiffness=2e4, normal_damping=200.0))
    wave = tb.Polynomial((q[at],))
    run = tb.simulate(
        robot, 0.05, prescribed={joint: wave}, q=q, world=floor, contact="compliant", dt=2e-4
    )
    assert run.outcome.status == "finished"
    assert (run.q[:, at] == q[at]).all()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"elbw": tb.Harmonic(1.0, frequency=1.0)}, tb.UnknownNameError, "elbw"),
        ({"base": tb.Harmonic(1.0, frequency=1.0)}, tb.ModelError, "quaternion"),
        ({"joint_5": 3.0}, tb.ModelError, "JointPath.through"),
        ({"joint_5": []}, tb.DomainError, "no path"),
        ({"joint_5": (tb.Harmonic(1.0, frequency=1.0),) * 2}, tb.ShapeError, "1 position"),
        ([1.0], tb.ModelError, "paths by joint name"),
    ],
)
def test_bad_paths_are_refused_by_name(vehicle, given, error, words):
    with pytest.raises(error, match=words):
        tb.simulate(vehicle, 0.1, prescribed=given)


def test_start_off_the_path_is_refused(vehicle):
    q = vehicle.neutral().copy()
    q[vehicle.indices(["joint_4"], of="q")] = 0.3
    path = arm_path(0)
    with pytest.raises(tb.DomainError, match=r"joint_4.*start of its path"):
        tb.simulate(vehicle, 0.1, prescribed={"joint_4": path.of("joint_4")}, q=q, dt=0.01)


def test_numbers_of_paths_are_no_parameters_of_users(vehicle):
    """The list of paths decides which case follows which; another number would be overwritten."""
    path = arm_path(0).of("joint_4")
    with pytest.raises(tb.ModelError, match="follows from prescribed"):
        tb.simulate(
            vehicle,
            0.1,
            prescribed={"joint_4": path},
            parameters={"path of joint_4.case": 3.0},
            dt=0.01,
        )


def test_rigid_contact_and_kept_inertia_are_refused():
    robot = tb.load("quadruped")
    joint = next(j.name for j in robot.joints if j.nv == 1)
    given = {joint: tb.Harmonic(0.1, frequency=1.0)}
    floor = tb.World(ground=tb.Ground(static_friction=0.8))
    with pytest.raises(tb.ModelError, match="compliant"):
        tb.simulate(robot, 0.1, prescribed=given, world=floor, q=robot.poses["stand"])
    with pytest.raises(tb.ModelError, match="keep_inertia"):
        tb.simulate(robot, 0.1, prescribed=given, keep_inertia=2)
