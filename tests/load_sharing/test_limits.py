"""Limits: flat feet, joint wrenches, torques at a speed, failed actuators, normal forces."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


def standing_block(com=(0.0, 0.0, 0.3)):
    """Return a free body of 3 kg."""
    inertia = tb.Inertia.box(3.0, (0.2, 0.3, 0.6), com=com)
    return tb.Model("block", [tb.Body("block", joint=tb.Free("base"), inertia=inertia)])


def sole(**more):
    return tb.ContactSite("sole", "block", 10.0, half_size=(0.12, 0.05), torsion=0.04, **more)


def test_center_of_pressure_lies_below_the_center_of_mass_and_inside_the_sole():
    """At rest m = r x W; beyond an edge there is no solution, and the edge is named."""
    for com, edge in (
        ((0.11, -0.03, 0.3), None),
        ((0.13, 0.0, 0.3), "front"),
        ((-0.13, 0.0, 0.3), "rear"),
        ((0.0, 0.06, 0.3), "left"),
        ((0.0, -0.06, 0.3), "right"),
    ):
        block = standing_block(com)
        plan = tb.LoadSharing.of(block, sites=[sole()], driven=[])
        share = plan.share(block.neutral())
        if edge is None:
            assert share.is_feasible
            np.testing.assert_allclose(share.forces, [[0.0, 0.0, 3.0 * 9.81]], atol=1e-9)
            # the second tangent is n x t1, to the right of the foot seen from above
            np.testing.assert_allclose(share.centers_of_pressure(), [(0.11, 0.03)], atol=1e-12)
        else:
            assert share.status == "infeasible"
            assert f"sole: center of pressure at its {edge} edge" in share.explain().limits


def test_flat_foot_equals_its_corner_contacts():
    """Forces at the four corners and one wrench of the sole: the same motions are possible."""
    block = standing_block()
    corners = [
        tb.ContactSite(f"corner_{k}", "block", 10.0, point=(x, y, 0.0))
        for k, (x, y) in enumerate([(0.12, 0.05), (0.12, -0.05), (-0.12, 0.05), (-0.12, -0.05)])
    ]
    foot = tb.ContactSite("sole", "block", 10.0, half_size=(0.12, 0.05), torsion=10.0)
    rng = np.random.default_rng(1)
    vd = rng.standard_normal((400, 6)) * (6.0, 6.0, 3.0, 4.0, 4.0, 5.0)
    q = np.tile(block.neutral(), (400, 1))
    found = [
        tb.LoadSharing.of(block, sites=sites, driven=[]).share(q, vd=vd)
        for sites in ([foot], corners)
    ]
    assert set(found[0].is_feasible) == {True, False}
    np.testing.assert_array_equal(found[0].is_feasible, found[1].is_feasible)
    total = found[1].forces.sum(axis=-2)
    np.testing.assert_allclose(found[0].forces[:, 0], total, atol=1e-8)


def test_torsion_of_a_sole_bounds_its_turning():
    """A block turns about the vertical up to alpha = mu_t m g / I."""
    block = standing_block()
    plan = tb.LoadSharing.of(block, sites=[sole()], driven=[])
    most = 0.04 * 3.0 * 9.81 / block.bodies[0].inertia.matrix[2, 2]
    vd = np.zeros((3, 6))
    vd[:, 2] = 0.999 * most, -0.999 * most, 1.001 * most
    share = plan.share(np.tile(block.neutral(), (3, 1)), vd=vd)
    assert list(share.is_feasible) == [True, True, False]
    assert "sole: torsion" in share.explain(2).sentence


def test_contact_points_may_be_given_case_by_case():
    """Feet roll: sites at the present contact points share as the shapes themselves do."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(2)
    q = np.tile(dog.poses["stand"], (4, 1))
    q[:, 7:] += 0.2 * rng.standard_normal((4, 12))
    vd = 0.3 * rng.standard_normal((4, dog.nv))
    by_shape = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q, vd=vd)
    feet = [tb.ContactSite(point.name, point.body, 0.6) for point in dog.contacts]
    plan = tb.LoadSharing.of(dog, sites=feet, torque_limits=False)
    here = tb.contacts(dog, q, world=FLOOR)
    moved = {}
    for k, point in enumerate(dog.contacts):
        R, p = tb.forward_kinematics(dog, q, point.body)
        local = np.einsum("nji,nj->ni", R, here.point[:, k] - p)
        moved[point.name] = np.concatenate([local, np.einsum("nji,j->ni", R, [0, 0, -1])], axis=-1)
    share = plan.share(q, vd=vd, sites=moved)
    assert share.is_feasible.all()
    np.testing.assert_allclose(share.forces, by_shape.forces, atol=1e-7)
    np.testing.assert_allclose(share.tau, by_shape.tau, atol=1e-8)
    # contact points of balls move as they roll: fixed ones give another answer
    still = {
        name: np.concatenate([0 * x[:, :3] + x[0, :3], x[:, 3:]], -1) for name, x in moved.items()
    }
    assert np.nanmax(np.abs(plan.share(q, vd=vd, sites=still).tau - share.tau)) > 0.01
    with pytest.raises(tb.UnknownNameError, match="paw"):
        plan.share(q, sites={"paw": (0, 0, 0)})
    with pytest.raises(tb.ShapeError, match="sites"):
        plan.share(q, sites={feet[0].name: (0, 0)})
    with pytest.raises(tb.NonFiniteError, match="sites"):
        plan.share(q, sites={feet[0].name: (0, 0, np.nan)})


def test_wrench_limits_about_the_axis_are_torque_limits():
    """The moment that a hinge transmits about its own axis is the force of its actuator."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    rng = np.random.default_rng(3)
    v, vd = 0.1 * rng.standard_normal((2, dog.nv))
    joint = "hind_right_knee"
    index = dog.slice(joint, of="v").start
    axis = int(np.argmax(np.abs(dog.joint(joint).axis)))
    assert not dog.joint(joint).armature
    free = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q, v, vd)
    bound = 0.6 * abs(float(free.tau[index]))
    moment = [np.inf] * 3
    moment[axis] = bound
    by_wrench = tb.LoadSharing.of(
        dog,
        world=FLOOR,
        torque_limits=False,
        limits=[tb.JointWrenchLimit(joint, moment=moment)],
    )
    by_torque = tb.LoadSharing.of(dog, world=FLOOR, torque_limits={joint: (-bound, bound)})
    one, other = (plan.share(q, v, vd) for plan in (by_wrench, by_torque))
    assert abs(one.tau[index]) == pytest.approx(bound, rel=1e-9)
    np.testing.assert_allclose(one.x, other.x, atol=1e-8)
    assert f"{joint} at its " in one.summary


def test_wrench_limits_hold_for_the_reactions_of_joints():
    """Reactions under the shared forces reach the limit of a force across a shin, and no more."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    rng = np.random.default_rng(4)
    v, vd = 0.1 * rng.standard_normal((2, dog.nv))
    joint = "front_left_knee"
    body = [b.name for b in dog.bodies].index(
        next(b.name for b in dog.bodies if b.joint.name == joint)
    )

    def wrench(share):
        here = tb.contacts(dog, q, world=FLOOR)
        outside = {}
        for k, point in enumerate(dog.contacts):
            _, origin = tb.forward_kinematics(dog, q, point.body)
            f = share.forces[k]
            outside[point.body] = np.concatenate([np.cross(here.point[k] - origin, f), f])
        found = tb.joint_reactions(dog, q, v, vd, external_force=outside, external_axes="world")
        return found.actuator[body] + found.bearing[body]

    plain = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q, v, vd)
    before = wrench(plain)
    worst = 3 + int(np.argmax(np.abs(before[3:])))
    force = [np.inf] * 3
    force[worst - 3] = 0.8 * abs(before[worst])
    plan = tb.LoadSharing.of(
        dog, world=FLOOR, torque_limits=False, limits=[tb.JointWrenchLimit(joint, force=force)]
    )
    share = plan.share(q, v, vd)
    assert share.is_feasible
    assert abs(wrench(share)[worst]) == pytest.approx(0.8 * abs(before[worst]), rel=1e-9)
    # a lifted leg bears no contact force, and its own limit is no concern of the others
    lifted = plan.share(q, v, vd, touching=[0, 1, 1, 1])
    np.testing.assert_allclose(lifted.x[:3], 0.0, atol=1e-9)


@pytest.mark.parametrize("name", ["two_pumas", "three_finger_hand"])
def test_wrench_limits_count_the_forces_of_loops(name):
    """Arms and fingers that close loops: limits about an axis are again those of the torque."""
    model = tb.load(name)
    q = tb.assemble(model, model.poses["home"]).q if "home" in model.poses else model.neutral()
    # at rest armature takes no part of the torque
    vd = np.zeros(model.nv)
    joint = model.actuators[1].joint
    index = model.slice(joint, of="v").start
    free = tb.LoadSharing.of(model, torque_limits=False).share(q, vd=vd)
    bound = 0.7 * abs(float(free.tau[index]))
    axis = np.asarray(model.joint(joint).axis)
    moment = np.where(np.abs(axis) > 0.5, bound, np.inf)
    shares = [
        tb.LoadSharing.of(model, **limits).share(q, vd=vd)
        for limits in (
            {"torque_limits": False, "limits": [tb.JointWrenchLimit(joint, moment=moment)]},
            {"torque_limits": {joint: (-bound, bound)}},
        )
    ]
    assert all(share.is_feasible for share in shares)
    np.testing.assert_allclose(shares[0].tau, shares[1].tau, atol=1e-7 * np.abs(free.tau).max())
    assert np.abs(shares[0].tau - free.tau).max() > 1e-3 * np.abs(free.tau).max()


def motorized_dog():
    """Return the quadruped with motors of 24 V at its joints, of different gears."""
    dog = tb.load("quadruped")
    actuators = [
        replace(
            actuator,
            ratio=9.0 if k % 2 else -9.0,
            motor=tb.Motor(0.3, 0.09, damping=1e-4, friction=0.01, voltage_limit=24.0),
            force_limits=(-30.0, 30.0),
        )
        for k, actuator in enumerate(dog.actuators)
    ]
    return tb.Model("dog", dog.bodies, contacts=dog.contacts, actuators=actuators, poses=dog.poses)


def test_torque_limits_depend_on_the_speed():
    """They are those of the actuators in each state, and shared torques keep them."""
    dog = motorized_dog()
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    rng = np.random.default_rng(5)
    v = rng.standard_normal((20, dog.nv)) * ([0.0] * 6 + [20.0] * 12)
    q = np.tile(dog.poses["stand"], (20, 1))
    share = plan.share(q, v)
    for actuator in dog.actuators:
        index = dog.slice(actuator.joint, of="v").start
        expected = np.stack(actuator.force_limits_at(v[:, index]), axis=-1)
        place = plan.limits.torques.index(index)
        np.testing.assert_allclose(share.torque_bounds[:, place], expected, rtol=1e-12)
    solved = share.is_feasible
    assert solved.any()
    limited = list(plan.limits.torques)
    low, high = np.moveaxis(share.torque_bounds[solved], -1, 0)
    assert (share.tau[solved][:, limited] >= low - 1e-8).all()
    assert (share.tau[solved][:, limited] <= high + 1e-8).all()
    # the speed matters: what is possible at rest is not at all of them
    assert plan.share(q[0]).is_feasible
    assert not solved.all()


def test_failed_actuators_are_run_time_data():
    """Their forces are zero, others take over; nothing is compiled anew."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    whole = plan.share(q)
    kernel = plan._kernel
    joint = dog.actuators[0].joint
    index = dog.slice(joint, of="v").start
    share = plan.share(q, failed=[joint])
    assert plan._kernel is kernel
    assert share.is_feasible
    assert abs(share.tau[index]) < 1e-9 < abs(whole.tau[index])
    marks = np.zeros((2, 12))
    marks[1, plan.layout.driven.index(index)] = 1.0
    both = plan.share(np.stack([q, q]), failed=marks)
    np.testing.assert_array_equal(both.tau, [whole.tau, share.tau])
    with pytest.raises(tb.UnknownNameError, match="tail"):
        plan.share(q, failed=["tail"])
    with pytest.raises(tb.ShapeError, match="failed"):
        plan.share(q, failed=[1.0, 0.0])
    with pytest.raises(tb.DomainError, match="failed"):
        plan.share(q, failed=np.full(12, 0.5))
    unlimited = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    with pytest.raises(tb.DomainError, match=r"torque_limits=\{name"):
        unlimited.share(q, failed=[joint])
    prepared = tb.LoadSharing.of(dog, world=FLOOR, torque_limits={joint: (-np.inf, np.inf)})
    np.testing.assert_allclose(prepared.share(q).x, unlimited.share(q).x, atol=1e-9)
    assert abs(prepared.share(q, failed=joint).tau[index]) < 1e-9


def test_normal_forces_stay_between_given_ones_while_contacts_touch():
    """A foot presses with a least force, another with a largest; none when it is lifted."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    names = [point.name for point in dog.contacts]
    free = tb.LoadSharing.of(dog, world=FLOOR).share(q)
    normal = free.forces[:, 2]
    limits = tb.NormalForceLimit(
        {names[0]: (normal[0] + 2.0, np.inf), names[1]: (-np.inf, normal[1] - 1.0)}
    )
    plan = tb.LoadSharing.of(dog, world=FLOOR, limits=[limits])
    share = plan.share(q)
    assert share.forces[0, 2] >= normal[0] + 2.0 - 1e-9
    assert share.forces[1, 2] <= normal[1] - 1.0 + 1e-9
    assert f"{names[0]}: least normal force" in plan.limit_names
    least = tb.NormalForceLimit({names[0]: (normal[0] + 2.0, np.inf)})
    lifted = tb.LoadSharing.of(dog, world=FLOOR, limits=[least]).share(q, touching=[0, 1, 1, 1])
    assert lifted.is_feasible
    np.testing.assert_allclose(lifted.forces[0], 0.0, atol=1e-9)


def test_a_speed_limit_alone_bounds_torques():
    """An actuator without limits of force gives none above its largest speed."""
    leg = tb.Model(
        "leg",
        [tb.Body("leg", joint=tb.Revolute("hip", axis=(1, 0, 0)),
                 inertia=tb.Inertia.box(2.0, (0.1, 0.1, 0.6), com=(0.0, 0.0, -0.3)))],
        contacts=[tb.ContactPoint("tip", "leg", (0.0, 0.0, -0.6))],
        actuators=[tb.Actuator("motor", "hip", speed_limit=2.0)],
    )  # fmt: skip
    plan = tb.LoadSharing.of(leg, world=FLOOR)
    share = plan.share([[0.1], [0.1]], [[3.0], [-3.0]])
    assert share.torque_bounds[0, 0, 1] == 0.0
    assert share.torque_bounds[1, 0, 0] == 0.0
    assert share.torque_bounds[0, 0, 0] < -1e20


def test_limits_of_thrusters_beside_feet():
    """A dog whose back is pushed down: thrust and feet share the weight, each within its limits."""
    dog = tb.load("quadruped")
    jet = tb.Thruster("jet", "trunk", direction=(0, 0, 1), curve=tb.LinearThrust(1.0),
                      command_limits=(-3.0, 20.0))  # fmt: skip
    robot = tb.Model(
        dog.name, bodies=dog.bodies, actuators=dog.actuators, contacts=dog.contacts, thrusters=[jet]
    )
    q = np.array(dog.poses["stand"])
    plan = tb.LoadSharing.of(robot, friction=0.6, torque_limits=False)
    vd = np.zeros((3, robot.nv))
    vd[:, 5] = 0.0, -9.5, -9.81 - 3.5 / robot.total_mass
    share = plan.share(np.tile(q, (3, 1)), vd=vd)
    place = plan.names.index("jet.thrust")
    # at rest it carries as much as a foot would, but no more than it can
    assert share.is_feasible[:2].all()
    assert share.x[0, place] == pytest.approx(20.0, abs=1e-8)
    assert "jet" in share.summary
    assert share.multipliers[0, plan.limit_names.index("jet: largest thrust")] > 0.0
    # below free fall it may push down with 3 N, and 3.5 N are asked for
    assert share.status[2] == "infeasible"
    assert any(name.startswith("jet") for name in share.explain(2).limits)


def test_joints_with_rotors_keep_their_torque_limits():
    """Rotors and jaws follow a driven joint; limits are those of the joint that leads."""
    body = tb.Body("base", joint=tb.Free("base"), inertia=tb.Inertia.box(8.0, (0.6, 0.4, 0.1)))
    bodies, feet, motors = [body], [], []
    for k, (x, y) in enumerate(((-0.3, 0.2), (0.3, 0.2), (0.3, -0.2), (-0.3, -0.2))):
        hip = tb.Revolute(f"hip{k}", (0.0, 1.0, 0.0), pose=tb.Pose(translation=(x, y, 0.0)))
        leg = tb.Inertia.box(0.3, (0.05, 0.05, 0.3), com=(0.0, 0.0, -0.15))
        bodies.append(tb.Body(f"leg{k}", "base", joint=hip, inertia=leg))
        bodies.append(tb.rotor(f"rotor{k}", "base", hip, ratio=30.0, inertia=1e-5, mass=0.1))
        feet.append(tb.ContactPoint(f"foot{k}", f"leg{k}", (0.05, 0.0, -0.3)))
        motors.append(tb.Actuator(f"motor{k}", f"hip{k}", force_limits=(-1.25, 1.25)))
    robot = tb.Model("rotors", bodies, contacts=feet, actuators=motors)
    floor = tb.World(ground=tb.Ground(static_friction=0.6))
    q = np.array([1.0, 0, 0, 0, 0, 0, 0.3, *np.zeros(robot.nq - 7)])
    plan = tb.LoadSharing.of(robot, world=floor, objective=tb.InternalForce())
    share = plan.share(q)
    assert share.status == "at limits"
    assert np.abs(share.tau[6:]).max() <= 1.25 + 1e-9
    free = tb.LoadSharing.of(robot, world=floor, torque_limits=False).share(q)
    assert np.abs(free.tau[6:]).max() > 1.3
    with pytest.raises(tb.ModelError, match="got one that follows 'hip0'"):
        tb.LoadSharing.of(robot, world=floor, driven=[robot.body("rotor0").joint.name])
