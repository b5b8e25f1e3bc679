"""Parameters from joint forces: changed robots are found again, in water and with loops."""

import numpy as np
import pytest

import tiburon as tb

ARM = tb.load("puma560")


def motion(model, samples, seed=0, size=1.0):
    """Return random states and accelerations; with loops those that keep them closed."""
    rng = np.random.default_rng(seed)
    v, vd = size * rng.standard_normal((2, samples, model.nv))
    start = np.broadcast_to(model.neutral(), (samples, model.nq))
    q = model.integrate(start, 0.5 * rng.standard_normal((samples, model.nv)))
    if model.loops:
        home = tb.assemble(model).q
        near = model.integrate(np.broadcast_to(home, q.shape), 0.1 * v)
        q = tb.project_configuration(model, near).q
        v = tb.project_velocity(model, q, v)
        vd = tb.project_acceleration(model, q, v, vd)
    return q, v, vd


def friction(model, values, v):
    """Return the joint forces of damping and Coulomb friction, values by name."""
    tau = np.zeros_like(v)
    for name, value in values.items():
        joint, word = name.split(".")
        place = model.slice(joint, of="v").start
        tau[:, place] += value * (v[:, place] if word == "damping" else np.sign(v[:, place]))
    return tau


def test_masses_centers_inertias_and_friction_of_an_arm_are_found():
    body = ARM.body_names[2]
    joint = ARM.joint_names[2]
    rigid = {
        f"{body}.mass": 1.3 * ARM.body(body).inertia.mass,
        f"{body}.center_of_mass.x": 0.03,
        f"{body}.inertia.zz": 1.1 * ARM.body(body).inertia.tensor[5],
        f"{joint}.armature": 0.4,
    }
    rubbing = {f"{joint}.damping": 1.7, f"{joint}.friction": 0.6}
    q, v, vd = motion(ARM, 200)
    still = tb.with_parameters(ARM, dict.fromkeys(rubbing, 0.0))
    given = {
        f"{j.name}.{w}": getattr(j.passive, w, 0.0)
        for j in ARM.joints
        if j.dof == 1
        for w in ("damping", "friction")
    }
    tau = tb.inverse_dynamics(tb.with_parameters(still, rigid), q, v, vd)
    tau += friction(ARM, {**given, **rubbing}, v)
    found = tb.identify_dynamics(ARM, q, v, vd, tau, [*rigid, *rubbing])
    assert found.converged
    assert not found.undetermined
    for name, value in (rigid | rubbing).items():
        np.testing.assert_allclose(found.parameters[name], value, rtol=1e-6, atol=1e-8)


def test_followers_rub_on_their_leader():
    """A joint that turns 1.5 times as far, backward: its damping counts by the ratio squared."""
    inertia = tb.Inertia.box(1.0, (0.1, 0.2, 0.3), com=(0.2, 0.0, 0.0))
    rubbing = tb.JointPassive(damping=0.3, friction=0.2)
    leader = tb.Revolute("leader", (0, 1, 0), passive=rubbing)
    pair = tb.Model(
        "pair",
        [
            tb.Body("a", joint=leader, inertia=inertia),
            tb.Body(
                "b",
                "a",
                joint=tb.Coupled("follower", tb.Revolute("turn", (0, 1, 0)), "leader", -1.5),
                inertia=inertia,
            ),
        ],
    )
    q, v, vd = motion(pair, 50, seed=1)
    tau = tb.inverse_dynamics(pair, q, v, vd) + 0.3 * v + 0.2 * np.sign(v)
    free = ["follower.damping", "follower.friction"]
    off = tb.identify_dynamics(pair, q, v, vd, tau - 0.1 * v, free, start={free[0]: 0.5})
    # negative damping would explain these forces best
    assert off.parameters[free[0]] == 0.0
    assert free[0] in off.at_bound
    found = tb.identify_dynamics(pair, q, v, vd, tau + 2.25 * 2.5 * v + 1.5 * np.sign(v), free)
    np.testing.assert_allclose(found.estimate, [2.5, 1.0], rtol=1e-7)


def test_a_vehicle_in_water_and_its_current():
    rov = tb.load("bluerov2_heavy")
    sea = tb.Water(current=(0.3, -0.1, 0.05))
    hull = rov.body_names[0]
    q, v, vd = motion(rov, 150, seed=2)
    true = {
        f"{hull}.added_mass.vx": 9.0,
        f"{hull}.quadratic_damping.vz": 60.0,
        f"{hull}.volume": 0.0139,
    }
    tau = tb.inverse_dynamics(tb.with_parameters(rov, true), q, v, vd, fluid=sea)
    found = tb.identify_dynamics(rov, q, v, vd, tau, list(true), fluid=sea)
    for name, value in true.items():
        np.testing.assert_allclose(found.parameters[name], value, rtol=1e-6)


def test_a_robot_with_loops_by_the_forces_of_its_actuators():
    robot = tb.load("planar_3rrr")
    q, v, vd = motion(robot, 60, seed=3)
    body = robot.body_names[-1]
    true = {
        f"{body}.mass": 1.4 * robot.body(body).inertia.mass,
        f"{robot.body_names[0]}.mass": 3.5,
    }
    tau = tb.inverse_dynamics(tb.with_parameters(robot, true), q, v, vd)
    found = tb.identify_dynamics(robot, q, v, vd, tau, list(true))
    for name, value in true.items():
        np.testing.assert_allclose(found.parameters[name], value, rtol=1e-6)
    with pytest.raises(tb.ModelError, match="is friction, expected none with loops"):
        tb.identify_dynamics(robot, q, v, vd, tau, [f"{robot.joint_names[0]}.damping"])


def test_what_the_motion_does_not_determine_is_named_and_stays():
    """The first link turns about a vertical axis: its mass has no effect, its height neither."""
    body = ARM.body_names[0]
    q, v, vd = motion(ARM, 80, seed=4)
    tau = tb.inverse_dynamics(ARM, q, v, vd)
    free = [f"{body}.center_of_mass.z", f"{ARM.body_names[3]}.mass"]
    joint = ARM.joints[0]
    assert joint.axis[2] ** 2 == 1.0
    found = tb.identify_dynamics(ARM, q, v, vd, tau, free, start={free[0]: 0.2})
    assert any(free[0] in line for line in found.undetermined)
    assert found.parameters[free[0]] == 0.2


def test_intervals_hold_the_truth_nearly_always():
    """95 % intervals of noisy forces, by runs and by parts of one: 40 fits, of which 33 or more."""
    body = ARM.body_names[3]
    name = f"{body}.mass"
    truth = ARM.body(body).inertia.mass
    held = {"run": 0, "part": 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arrays = [x.reshape(8, 25, -1) for x in motion(ARM, 200, seed=seed)]
        own = {
            f"{j.name}.{w}": 0.0 for j in ARM.joints if j.dof == 1 for w in ("damping", "friction")
        }
        still = tb.with_parameters(ARM, own)
        tau = tb.inverse_dynamics(still, *arrays) + 0.5 * rng.standard_normal((8, 25, ARM.nv))
        for given in ([*arrays, tau], [x.reshape(200, -1) for x in (*arrays, tau)]):
            found = tb.identify_dynamics(still, *given, [name])
            held[found.unit] += bool(found.lower[0] <= truth <= found.upper[0])
    # fewer than 16 of 20 at 95 %: 0.3 % of the time
    assert min(held.values()) >= 16


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"free": []}, tb.ShapeError, "free"),
        ({"free": ["nobody.mass"]}, tb.UnknownNameError, "nobody.mass"),
        ({"v": np.zeros((3, 6))}, tb.ShapeError, r"v: expected shape \(5, 6\)"),
        ({"tau": np.full((5, 6), np.nan)}, tb.NonFiniteError, "tau"),
        ({"weights": {"elbow": 1.0}}, tb.UnknownNameError, "elbow"),
        ({"start": {ARM.body_names[3] + ".mass": -1.0}}, tb.DomainError, "a start from 0"),
    ],
)
def test_wrong_arguments_are_refused(change, error, message):
    q, v, vd = motion(ARM, 5)
    given = {"q": q, "v": v, "vd": vd, "tau": v, "free": [ARM.body_names[3] + ".mass"], **change}
    with pytest.raises(error, match=message):
        tb.identify_dynamics(ARM, **given)


def test_weights_leave_out_what_was_not_measured():
    q, v, vd = motion(ARM, 60, seed=6)
    name = f"{ARM.body_names[3]}.mass"
    still = tb.with_parameters(
        ARM,
        {f"{j.name}.{w}": 0.0 for j in ARM.joints if j.dof == 1 for w in ("damping", "friction")},
    )
    tau = tb.inverse_dynamics(tb.with_parameters(still, {name: 9.0}), q, v, vd)
    tau[:, 0] = 1e3
    found = tb.identify_dynamics(still, q, v, vd, tau, [name], weights={still.v_names[0]: 0})
    np.testing.assert_allclose(found.parameters[name], 9.0, rtol=1e-7)


def test_errors_are_reported_as_forces_and_names_may_hold_points():
    """A cart with a pendulum: newtons and newton meters, as they are."""
    inertia = tb.Inertia(2.0, (0.0, 0.1, 0.2), (0.1, 0.1, 0.1))
    cart = tb.Body("left.cart", joint=tb.Prismatic("left.rail", (1, 0, 0)), inertia=inertia)
    arm = tb.Body("arm", "left.cart", joint=tb.Revolute("hip", (0, 1, 0)), inertia=inertia)
    model = tb.Model("cart", [cart, arm])
    q, v, vd = motion(model, 40)
    tau = tb.inverse_dynamics(tb.with_parameters(model, {"left.cart.mass": 3.0}), q, v, vd)
    found = tb.identify_dynamics(
        model, q, v, vd, tau, ["left.cart.mass", "left.rail.damping", "arm.center_of_mass.y"]
    )
    np.testing.assert_allclose(found.estimate, [3.0, 0.0, 0.1], rtol=1e-6, atol=1e-6)
    off = np.sqrt(((tb.inverse_dynamics(model, q, v, vd) - tau) ** 2).mean(axis=0))
    np.testing.assert_allclose(list(found.before.values()), off, rtol=1e-12, atol=1e-15)
    lines = [line for line in found.summary.splitlines() if "RMS error" in line]
    assert lines[0].startswith(f"left.rail: RMS error {off[0]:.3g} -> ")
    assert [line.split(" ", 6)[6] for line in lines] == ["N", "N m"]


def swinging_arm():
    """Return two links on a slide that time moves."""
    slide = tb.Driven("rail", tb.Prismatic("slide", (0.6, 0, 0.8)), tb.Harmonic(0.1, 0.4, 1.5, 0.3))
    inertia = tb.Inertia.box(1.2, (0.1, 0.2, 0.3), com=(0.2, 0.1, 0.05))
    place = tb.Pose(translation=(0.3, 0.1, 0.0))
    bodies = [
        tb.Body("cart", joint=slide, inertia=inertia),
        tb.Body("upper", "cart", joint=tb.Revolute("hip", (0, 1, 0)), inertia=inertia),
        tb.Body("lower", "upper", joint=tb.Revolute("knee", pose=place), inertia=inertia),
    ]
    return tb.Model("swinging", bodies, [tb.Frame("tip", "lower", place)])


@pytest.mark.parametrize("runs", [False, True])
def test_masses_of_a_robot_on_a_driven_base_are_found_at_the_times_of_the_samples(runs):
    arm = swinging_arm()
    true = {"lower.mass": 1.7, "upper.center_of_mass.x": 0.31}
    q, v, vd = motion(arm, 60, seed=4)
    times = np.linspace(0.0, 2.0, 60)
    tau = tb.inverse_dynamics(tb.with_parameters(arm, true), q, v, vd, time=times)
    data = [x.reshape(3, 20, *x.shape[1:]) if runs else x for x in (q, v, vd, tau, times)]
    found = tb.identify_dynamics(arm, *data[:4], list(true), time=data[4])
    assert found.converged
    np.testing.assert_allclose(found.estimate, list(true.values()), rtol=1e-7)
    with pytest.raises(tb.ShapeError, match=r"time: expected one value, or shape"):
        tb.identify_dynamics(arm, *data[:4], list(true), time=times[:5])
    with pytest.raises(tb.NonFiniteError, match="time"):
        tb.identify_dynamics(arm, *data[:4], list(true), time=np.nan)


def test_geometry_of_a_robot_on_a_driven_base_is_found_at_the_times_of_the_poses():
    arm = swinging_arm()
    true = {"knee.translation": np.array([0.31, 0.09, 0.02])}
    q, *_ = motion(arm, 30, seed=5)
    times = np.linspace(0.0, 2.0, 30)
    _, p = tb.forward_kinematics(tb.with_parameters(arm, true), q, "tip", time=times)
    found = tb.calibrate(arm, q, {"tip": p}, list(true), time=times)
    assert found.errors["tip.position"] < 1e-10
    # the depth along the axis of the knee shows in no other parameter
    np.testing.assert_allclose(found.estimate, true["knee.translation"], rtol=0, atol=1e-8)
