"""Friction, springs and force limits of the robot itself are in the equations of load sharing."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import arms_on_object
from tiburon.actuation.passive import FRICTION_SPEED, rest_position, spring_force

FREE = tb.World(gravity=(0.0, 0.0, 0.0))
FLOOR = tb.World(ground=tb.Ground(static_friction=0.8))
ROUNDING = 1e-9
"""Of forces and accelerations relative to the largest: a few hundred operations."""


def rubbing(robot, seed, **parts):
    """Return a robot whose joints all have damping, friction and springs."""
    rng = np.random.default_rng(seed)
    bodies = []
    for body in robot.bodies:
        d, f, k, rest = rng.uniform(0.2, 2.0, (4, max(body.joint.dof, 1)))
        passive = tb.JointPassive(tuple(d), tuple(f), tuple(k), tuple(0.1 * rest))
        bodies.append(replace(body, joint=replace(body.joint, passive=passive)))
    return tb.Model(robot.name, bodies, robot.frames, loops=robot.loops, **parts)


@pytest.fixture(scope="module")
def arms():
    """Arms on a load with friction and springs in all joints, and between bodies."""
    plain = arms_on_object((6, 6), tb.Fixed)
    names = [body.name for body in plain.bodies]
    springs = [
        tb.Spring("coil", "world", names[0], 60.0, 3.0, 0.2, first_point=(0.4, 0.1, 0.3)),
        tb.Spring("rope", names[2], names[-1], 40.0, 2.0, 0.01, rope=True),
    ]
    return rubbing(plain, 6, springs=springs)


def planned(model, **options):
    driven = [name for name in model.joint_names if name.startswith("a")]
    return tb.LoadSharing.of(model, driven=driven, **options)


def moving(model, seed):
    """Return a state and an acceleration that keep loops closed."""
    rng = np.random.default_rng(seed)
    q = np.asarray(model.neutral())
    v = np.asarray(tb.project_velocity(model, q, 0.4 * rng.standard_normal(model.nv)))
    vd = tb.loop_dynamics(model, q, v, rng.standard_normal(model.nv)).acceleration
    return q, v, np.asarray(vd)


def test_runs_have_the_accelerations_of_the_plan(arms):
    """Under shared efforts a run with friction and springs of all kinds begins as planned."""
    q, v, vd = moving(arms, 3)
    share = planned(arms).share(q, v, vd)
    assert share.is_feasible
    # at the stages of the method: forces at the ends of steps are not known in the first row
    run = tb.simulate(
        arms.without_limits(), 1e-3, q=q, v=v, command=share.tau, method=tb.DormandPrince()
    )
    found = run.get("joint_acceleration").values[0]
    np.testing.assert_allclose(found, vd, atol=1e-7 * np.abs(vd).max())
    bare = planned(arms, passive=False).problem(q, v, vd, formulation="superposition")
    whole = planned(arms).problem(q, v, vd, formulation="superposition")
    assert np.abs(bare.b1 - whole.b1).min() > 0.01


def test_formulations_with_friction_and_springs_have_one_optimum(arms):
    """Compact, superposition and complete formulation; wrenches of joints include springs."""
    state, plan = moving(arms, 4), planned(arms)
    share = plan.share(*state)
    for formulation in ("compact", "superposition", "complete"):
        problem = plan.problem(*state, formulation=formulation)
        solution = np.asarray(problem.solve().x)
        np.testing.assert_allclose(solution[: len(share.x)], share.x, atol=1e-8)
        efforts = [k for k, name in enumerate(problem.names) if name.endswith(": effort")]
        if efforts:
            tau = share.tau[list(plan.layout.driven)]
            np.testing.assert_allclose(solution[efforts], tau, atol=1e-7)
    # the joint of the load has no drive: it transmits its friction and spring alone
    joint = next(joint for joint in arms.joints if joint.nv == 6)
    R, _ = tb.forward_kinematics(arms, state[0], arms.bodies[0].name)
    at, speed = (state[k][arms.slice(joint.name, of=of)] for k, of in enumerate("qv"))
    expected = spring_force(
        joint, rest_position(joint, joint.passive.rest), at, joint.passive.stiffness
    )
    expected -= np.array(joint.passive.damping) * speed
    expected -= np.array(joint.passive.friction) * np.tanh(speed / FRICTION_SPEED)
    wrench = plan.joint_wrenches(share).of(joint.name).reshape(2, 3) @ R
    np.testing.assert_allclose(wrench.ravel(), expected, atol=ROUNDING * np.abs(share.x).max())


def slide(passive, **more):
    """Return a load on a slide that two drives push."""
    box = tb.Inertia(2.0, (0, 0, 0), (0.1, 0, 0, 0.1, 0, 0.1))
    joint = tb.Prismatic("slide", (1, 0, 0), passive=passive)
    bodies = [tb.Body("load", joint=joint, inertia=box)]
    bodies += [tb.Body(s, joint=tb.Prismatic(s, (1, 0, 0), **more), inertia=box) for s in "ab"]
    loops = [tb.LoopClosure(f"g{s}", s, "load", tb.Fixed(f"g{s}")) for s in "ab"]
    return tb.Model("slide", bodies, loops=loops)


def test_friction_is_that_of_runs_and_zero_at_rest():
    """-d v - f tanh(v / s): the smooth law of adaptive methods, in all directions and speeds."""
    model = slide(tb.JointPassive(damping=10.0, friction=3.0))
    plan = tb.LoadSharing.of(model, driven=["a", "b"], world=FREE)
    speeds = np.array([0.0, 1.0, -1.0, 0.005, -0.02])
    share = plan.share(np.zeros((5, 3)), speeds[:, None] * np.ones(3))
    expected = 10.0 * speeds + 3.0 * np.tanh(speeds / FRICTION_SPEED)
    np.testing.assert_allclose(share.tau.sum(axis=-1), expected, atol=1e-12)
    run = tb.simulate(
        model,
        0.2,
        q=np.zeros((5, 3)),
        v=speeds[:, None] * np.ones(3),
        command=share.tau,
        world=FREE,
        method=tb.DormandPrince(rtol=1e-10, atol=1e-12),
    )
    np.testing.assert_allclose(run.v[-1], speeds[:, None] * np.ones(3), atol=1e-9)


def test_values_of_friction_and_springs_are_run_time_parameters():
    """Robots that differ in them share code; those that lack them have other code."""
    plans = [
        tb.LoadSharing.of(slide(tb.JointPassive(damping=d)), driven=["a", "b"], world=FREE)
        for d in (2.0, 5.0, 0.0)
    ]
    assert plans[0].options == plans[1].options != plans[2].options
    assert plans[0].parameters() != plans[1].parameters()
    for plan, expected in zip(plans, (2.0, 5.0, 0.0), strict=True):
        share = plan.share(np.zeros(3), np.ones(3))
        assert share.tau.sum() == pytest.approx(expected, abs=1e-12)


def test_springs_of_joints_that_nothing_drives_are_in_their_equations():
    """A leg on a flexure stands where spring and weight balance, and is infeasible elsewhere."""
    body = tb.Inertia(2.0, (0, 0, 0), (0.1, 0, 0, 0.1, 0, 0.1))
    soft = tb.Prismatic("flexure", (0, 0, 1), passive=tb.JointPassive(stiffness=500.0))
    leg = tb.Body("leg", "base", joint=soft, inertia=tb.Inertia(1e-3, (0, 0, 0), (1e-4,) * 3))
    rail = tb.Prismatic("rail", (0, 0, 1))
    foot = tb.ContactPoint("foot", "leg", (0.0, 0.0, -0.3))
    model = tb.Model("hopper", [tb.Body("base", joint=rail, inertia=body), leg], contacts=[foot])
    plan = tb.LoadSharing.of(model, driven=[], world=FLOOR)
    short = 2.0 * 9.81 / 500.0
    stands = plan.share([0.3 - short, short])
    assert stands.is_feasible
    assert stands.forces[0, 2] == pytest.approx(2.001 * 9.81, rel=1e-9)
    # pressed in by 1 mm more it accelerates upward by k dx / m
    up = plan.share([0.3 - short - 1e-3, short + 1e-3], vd=[0.5 / 2.0, -0.5 / 2.0])
    assert up.is_feasible
    assert up.forces[0, 2] == pytest.approx(2.001 * 9.81 + 0.5, rel=1e-9)
    assert not plan.share([0.3 - short - 1e-3, short + 1e-3]).is_feasible


def test_force_limits_of_joints_are_limits_of_the_plan():
    """`JointLimits.force` holds with and without an actuator, whichever is less."""
    limits = tb.JointLimits(force=4.0)
    model = slide(tb.JointPassive(damping=10.0), limits=limits)
    plan = tb.LoadSharing.of(model, driven=["a", "b"], world=FREE)
    assert plan.share(np.zeros(3), 0.79 * np.ones(3)).is_feasible
    assert not plan.share(np.zeros(3), 0.81 * np.ones(3)).is_feasible
    for own, bounds in (((-2.0, 9.0), (-2.0, 4.0)), ((-9.0, 1.0), (-4.0, 1.0))):
        motors = [tb.Actuator(f"m{s}", s, force_limits=own) for s in "ab"]
        driven = tb.Model(model.name, model.bodies, loops=model.loops, actuators=motors)
        plan = tb.LoadSharing.of(driven, world=FREE)
        np.testing.assert_allclose(plan.share(np.zeros(3)).torque_bounds, [bounds, bounds])
    free = tb.LoadSharing.of(model, driven=["a", "b"], world=FREE, torque_limits=False)
    assert not free.limits.torques
    none = slide(None, limits=tb.JointLimits(force=0.0))
    with pytest.raises(tb.ModelError, match="joint 'a': has a force limit of 0 and is driven"):
        tb.LoadSharing.of(none, driven=["a", "b"])


def test_cylinders_at_joints_that_nothing_drives_are_refused():
    """Their forces are states of a run: a plan without them would be wrong in silence."""
    model = slide(None)
    data = {"cap_area": 1e-3, "rod_area": 7e-4, "stroke": 0.3}
    data |= {"supply_pressure": 16e6, "valve_gain": 3e-7}
    ends = {"first": "world", "second": "load", "retracted_length": 0.5}
    for where in (ends, {"joint": "slide"}):
        lift = tb.HydraulicCylinder("lift", **where, **data)
        pushed = tb.Model("press", model.bodies, loops=model.loops, cylinders=[lift])
        with pytest.raises(tb.ModelError, match=r"cylinder 'lift': moves '(load|slide)'"):
            tb.LoadSharing.of(pushed, driven=["a", "b"])
        assert tb.LoadSharing.of(pushed, driven=["a", "b", "slide"]).redundancy == 2


def legged(**passive):
    """Return a beam on two legs with sliding feet, in a plane, and its stance."""
    own = tb.JointPassive(**passive)
    box = tb.Inertia.box(4.0, (0.6, 0.2, 0.1))
    light = tb.Inertia.box(0.3, (0.05, 0.05, 0.2))
    bodies = [tb.Body("beam", joint=tb.Free("beam"), inertia=box)]
    contacts, driven = [], []
    for k, (x, y) in enumerate(((0.25, 0.1), (0.25, -0.1), (-0.3, 0.0))):
        at = tb.Pose(translation=(x, y, 0.0))
        hips = [tb.Revolute(f"roll_{k}", (1, 0, 0), pose=at, passive=own)]
        hips += [tb.Revolute(f"pitch_{k}", (0, 1, 0), passive=own)]
        hips += [tb.Prismatic(f"shank_{k}", (0, 0, 1), passive=own)]
        parent = "beam"
        for joint in hips:
            bodies.append(tb.Body(joint.name, parent, joint=joint, inertia=light))
            parent = joint.name
            driven.append(joint.name)
        contacts.append(tb.ContactPoint(f"foot_{k}", parent, (0, 0, -0.3), radius=0.02))
    model = tb.Model("beam", bodies, contacts=contacts)
    q = np.array(model.neutral())
    q[6] = 0.32
    return model, q, driven


def lowered(model, q, driven):
    """Return a controller that lowers and raises a beam."""
    plan = tb.LoadSharing.of(model, world=FLOOR, driven=driven)
    t = np.linspace(0.0, 0.6, 7)
    height = q[6] - 0.04 * np.sin(2.0 * np.pi * t / 0.6) ** 2
    way = tb.CartesianPath.through(t, np.stack([0.0 * t, 0.0 * t, height], axis=-1))
    return tb.LoadSharingControl(plan, tb.MotionPath(tuple(q), bodies={"beam": way}))


def differences(model, q, control, **options):
    """Return measured less shared normal forces of a run [N]."""
    run = tb.simulate(
        model, 0.3, q=q, world=FLOOR, control=control, record=tb.Record(every=1), **options
    )
    shared = control.read(run)
    assert shared.status.max() == 0.0
    forces = shared.forces.reshape(*shared.forces.shape[:-1], 3, 3)
    return np.abs(run.get("contact_force").values[2:, ..., 2] - forces[1:-1, ..., 2])


@pytest.mark.parametrize("passive", ["smooth", "none", "stick_slip"])
def test_controlled_robots_with_friction_have_the_forces_of_their_plan(passive):
    """Measured contact forces are the shared ones, whether friction and springs act in the run."""
    model, q, driven = legged(damping=4.0, friction=3.0, stiffness=30.0, rest=0.05)
    control, options = lowered(model, q, driven), {}
    if passive == "none":
        model = model.without_passive()
    if passive == "stick_slip":
        options["elements"] = tb.StickSlip.of(model)
        model = model.without_passive("friction")
    off = differences(model, q, control, **options)
    # forces of some 20 N; smooth friction stands for stiction, which differs where the motion turns
    assert (off.max() < 0.02) if passive == "none" else (off.mean() < 0.5)


def test_controllers_know_the_friction_of_each_case_and_not_that_of_other_robots():
    """As with masses: values of the case for the plan's robot, those of the plan for another."""
    # damping that steps resolve: at the ends of steps it is that of their mean velocities
    model, q, driven = legged(damping=0.2)
    control = lowered(model, q, driven)
    cases = {"shank_0.damping": [0.0, 1.0]}
    # commands are held within a step, in which damping changes: 1 mN at 0.2, half at half the step
    assert differences(model, q, control, parameters=cases).max() < 0.01
    # whatever was compiled before: code for the plan's robot must not be that of the other
    assert differences(legged(damping=9.0)[0], q, control).max() > 0.5
