"""Load sharing: forces and torques that produce a motion, within limits, as little as possible."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import arms_on_object
from tiburon.spatial import axis_angle_to_quaternion, quaternion_multiply, quaternion_to_matrix

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


def kicked(model, pose, rng, scale=0.1):
    """Return a state near a pose that touches the ground with all feet, moving."""
    q = np.array(model.poses[pose])
    return q, scale * rng.standard_normal(model.nv), 3 * scale * rng.standard_normal(model.nv)


def contact_wrenches(model, q, share):
    """Return the contact forces as wrenches on bodies, world axes at the origins of bodies."""
    here = tb.contacts(model, q, world=FLOOR)
    found = {}
    for k, point in enumerate(model.contacts):
        _, origin = tb.forward_kinematics(model, q, point.body)
        force = share.forces[k]
        wrench = np.concatenate([np.cross(here.point[k] - origin, force), force])
        found[point.body] = found.get(point.body, 0.0) + wrench
    return found


def test_shared_load_produces_the_motion():
    """Forward dynamics under the torques and contact forces returns the accelerations."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(1)
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    for objective in (None, tb.TorqueNorm(), tb.InternalForce() + 0.1 * tb.TorqueNorm()):
        plan = tb.LoadSharing.of(dog, world=FLOOR, objective=objective, torque_limits=False)
        q, v, vd = kicked(dog, "stand", rng)
        share = plan.share(q, v, vd)
        assert share.is_feasible
        found = tb.forward_dynamics(
            dog,
            q,
            v,
            share.tau,
            external_force=contact_wrenches(dog, q, share),
            external_axes="world",
        )
        np.testing.assert_allclose(found, vd, atol=1e-8)
        force = share.forces
        assert np.all(np.hypot(force[:, 0], force[:, 1]) <= 0.6 * force[:, 2] + 1e-8)
        assert np.all(share.tau[:6] == 0.0)


def test_feet_on_the_corners_of_a_square_share_equally():
    """A symmetric stance: each foot carries a quarter of the weight."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    weight = 9.81 * sum(body.inertia.mass for body in dog.bodies)
    share = tb.share_load(dog, q, world=FLOOR)
    np.testing.assert_allclose(share.forces.sum(axis=0), [0, 0, weight], atol=1e-9)
    left, right = share.forces[0::2], share.forces[1::2]
    np.testing.assert_allclose(left[:, 2], right[:, 2], atol=1e-9)


def test_unknowns_less_equations_are_the_redundancy():
    """Unknowns n less equations m are r for walkers, hands and arms (Nahon 1991, eq. 4.14)."""
    for name, expected in (("quadruped", 6), ("two_pumas", 6), ("three_finger_hand", 3)):
        plan = tb.LoadSharing.of(tb.load(name), torque_limits=False)
        assert plan.redundancy == expected
        assert len(plan.names) - len(plan.equation_names) == expected


def test_fingers_hold_a_glass_with_least_force():
    """Three fingers: each presses with m g / (3 mu), at the friction limit (here 2.616 N)."""
    hand = tb.load("three_finger_hand")
    q = np.array(hand.poses["home"])
    names = [f"finger_{k}_contact" for k in (1, 2, 3)]
    grips = []
    for loop in hand.loops:
        # toward the axis of the glass, in axes of the loop's joint frame at the fingertip
        glass, center = tb.forward_kinematics(hand, q, "glass")
        tip, origin = tb.forward_kinematics(hand, q, loop.first)
        rotation = tip @ np.array(loop.joint.pose.rotation)
        point = origin + tip @ np.array(loop.joint.pose.translation)
        inward = glass.T @ (center - point)
        inward[2] = 0.0
        inward = rotation.T @ glass @ (inward / np.linalg.norm(inward))
        grips.append(tb.GripLimit(loop.name, tuple(inward), 0.5))
    plan = tb.LoadSharing.of(hand, grips=grips, torque_limits=False)
    assert [group.name for group in plan.layout.groups] == names
    share = plan.share(q)
    assert share.is_feasible
    mass = hand.body("glass").inertia.mass
    normal = share.x.reshape(3, 3)[:, 2]
    np.testing.assert_allclose(normal, mass * 9.81 / (3 * 0.5), rtol=1e-7)
    np.testing.assert_allclose(share.margins.friction, 0.0, atol=1e-7)
    assert "finger_1_contact at its friction limit" in share.summary


def test_objectives_order_what_they_minimize():
    """Each objective is smallest under itself; power does not depend on the sharing (6.43)."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(4)
    q, v, vd = kicked(dog, "stand", rng)
    # feet at rest: power of the contact forces is zero
    v = np.zeros_like(v)
    v[6:] = 0.0
    shares = {
        name: tb.LoadSharing.of(dog, world=FLOOR, objective=o, torque_limits=False).share(q, v, vd)
        for name, o in (("force", tb.InternalForce()), ("torque", tb.TorqueNorm()))
    }
    force = {name: np.sum(share.x**2) for name, share in shares.items()}
    torque = {name: np.sum(share.tau**2) for name, share in shares.items()}
    assert force["force"] < force["torque"]
    assert torque["torque"] < torque["force"]


def test_least_forces_have_no_internal_force():
    """Without limits, contact force differences have no component between contacts (B20)."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(5)
    q, v, vd = kicked(dog, "stand", rng, 0.02)
    share = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q, v, vd)
    assert share.iterations == 0
    points = tb.contacts(dog, q, world=FLOOR).point
    for i in range(4):
        for j in range(i):
            between = (share.forces[i] - share.forces[j]) @ (points[i] - points[j])
            assert abs(between) < 1e-10


def test_open_contacts_carry_no_force():
    """Three feet carry the load of four where the center of mass allows; two cannot hold a turn."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    kernel = plan._kernel
    for lifted in range(4):
        touching = [k != lifted for k in range(4)]
        share = plan.share(q, touching=touching)
        if share.is_feasible:
            np.testing.assert_allclose(share.forces[lifted], 0.0, atol=1e-12)
    assert plan._kernel is kernel
    with pytest.raises(tb.ShapeError, match="touching"):
        plan.share(q, touching=[1, 1])
    with pytest.raises(tb.DomainError, match="touching"):
        plan.share(q, touching=[1, 1, 0.5, 1])


def test_batches_equal_single_calls():
    """Each case has the bits of a call of its own, feasible or not."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(6)
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    q = np.array(dog.poses["stand"])
    vd = rng.standard_normal((13, dog.nv)) * 3.0
    touching = rng.integers(0, 2, (13, 4))
    share = plan.share(np.broadcast_to(q, (13, dog.nq)), 0 * vd, vd, touching=touching)
    assert set(share.status) == {"optimal", "at limits", "infeasible"}
    for k in range(13):
        one = plan.share(q, 0 * vd[k], vd[k], touching=touching[k])
        np.testing.assert_array_equal(one.tau, share.tau[k])
        assert one.status == share.status[k]


def test_pyramids_enclose_and_are_enclosed():
    """Optima over inscribed sides cost more than over the cone, over circumscribed sides less."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    vd = np.zeros(dog.nv)
    vd[3:5] = 4.6, 2.1
    costs = {}
    for name, options in (
        ("inner", {"sides": 8}),
        ("cone", {}),
        ("outer", {"sides": 8, "inscribed": False}),
    ):
        share = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, **options).share(q, vd=vd)
        assert share.is_feasible
        costs[name] = np.sum(share.x**2)
    assert costs["outer"] < costs["cone"] < costs["inner"]


def test_torque_limits_hold_and_are_named():
    """A lowered limit becomes active, and the sentence names it."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    free = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q)
    joint = "front_left_knee"
    index = dog.slice(joint, of="v").start
    bound = 0.7 * abs(free.tau[index])
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits={joint: (-bound, bound)})
    share = plan.share(q)
    assert abs(share.tau[index]) == pytest.approx(bound, rel=1e-9)
    assert joint in share.summary


def test_missing_data_are_refused():
    """Motors without resistance, unknown contacts, negative friction."""
    dog, hexapod = tb.load("quadruped"), tb.load("osu_hexapod")
    with pytest.raises(tb.ModelError, match="MotorLoss needs a Motor"):
        tb.LoadSharing.of(hexapod, objective=tb.MotorLoss())
    with pytest.raises(tb.UnknownNameError, match="paw"):
        tb.LoadSharing.of(dog, friction={"paw": 0.5})
    with pytest.raises(tb.DomainError, match="friction"):
        tb.LoadSharing.of(dog, friction=-0.5)
    with pytest.raises(tb.UnknownNameError, match="knee"):
        tb.LoadSharing.of(dog, driven=["knee"])
    with pytest.raises(tb.ModelError, match="objective"):
        tb.LoadSharing.of(dog, objective="least")


def test_infeasible_loads_are_explained():
    """A foot that would have to pull is named with its force; the certificate proves it."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    share = plan.share(q, touching=[1, 1, 0, 1])
    assert share.status == "infeasible"
    assert np.all(np.isnan(share.tau))
    found = share.explain()
    assert found.certificate.holds
    assert list(found.lifted) == ["front_right_foot: pushes"]
    pull = found.lifted["front_right_foot: pushes"]
    assert f"front_right_foot would have to pull with {pull:.3g} N" in share.summary
    # moments about the line through the other two feet balance
    points = tb.contacts(dog, q, world=FLOOR).point
    line = points[3] - points[0]
    mass = sum(body.inertia.mass for body in dog.bodies)
    center = tb.center_of_mass(dog, q)
    across = np.cross([0.0, 0.0, 1.0], line)
    weight = mass * 9.81 * (across @ (center - points[0])) / (across @ (points[1] - points[0]))
    assert pull == pytest.approx(-weight, rel=1e-6)
    with pytest.raises(tb.DomainError, match="case"):
        plan.share(q).explain()


def test_explanations_include_external_forces():
    """External forces of a case are those of its certificate: the push that no friction holds."""
    dog = tb.load("quadruped")
    q = dog.poses["stand"]
    plan = tb.LoadSharing.of(dog, friction=0.6, torque_limits=False)
    weight = 9.81 * sum(body.inertia.mass for body in dog.bodies)
    push = np.zeros((3, 6))
    push[1:, 3] = 0.5 * weight, 0.9 * weight
    share = plan.share(np.tile(q, (3, 1)), external_force={"trunk": push})
    assert list(share.is_feasible) == [True, True, False]
    found = share.explain(2)
    assert all("friction" in name for name in found.limits)
    assert found.certificate.holds
    # a free joint transmits nothing, if the push counts
    np.testing.assert_allclose(plan.joint_wrenches(share).of("base")[:2], 0.0, atol=1e-9)


def test_nearest_motion_in_water_includes_added_mass():
    """The change of acceleration is that of robot and added mass under the nearest thrusts."""
    robot = tb.load("bluerov2_heavy")
    world = tb.World(fluid=tb.Water())
    plan = tb.LoadSharing.of(robot, world=world)
    rng = np.random.default_rng(2)
    q = robot.integrate(robot.neutral(), 0.1 * rng.normal(size=6))
    v, vd = 0.1 * rng.normal(size=6), 8.0 * rng.normal(size=6)
    found = plan.share(q, v, vd).explain()
    moved = tb.forward_dynamics(robot, q, v, found.nearest, world=world)
    np.testing.assert_allclose(vd - moved, found.shortfall, atol=1e-9)
    relaxed = tb.LoadSharing.of(robot, world=world, relax=True).share(q, v, vd)
    thrust = tb.thruster_force_of_thrust(robot, q, relaxed.x)
    np.testing.assert_allclose(thrust, found.nearest, atol=1e-6)


def test_nearest_motion_can_be_produced():
    """A push beyond friction: the nearest acceleration is on the border of what is possible."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, sides=16, inscribed=False)
    vd = np.zeros(dog.nv)
    vd[3] = 9.0
    share = plan.share(q, vd=vd)
    assert share.status == "infeasible"
    short = share.explain().shortfall
    for part, status in ((1.001, "at limits"), (0.99, "infeasible")):
        nearer = vd.copy()
        nearer[:6] -= part * short
        assert plan.share(q, vd=nearer).status == status


def test_problems_are_returned_with_names():
    """The program that `problem` returns has the solution that `share` finds."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(8)
    q, v, vd = kicked(dog, "stand", rng)
    plan = tb.LoadSharing.of(dog, world=FLOOR, sides=6, objective=tb.TorqueNorm())
    share = plan.share(q, v, vd)
    problem = plan.problem(q, v, vd)
    np.testing.assert_allclose(problem.A1 @ share.x, problem.b1, atol=1e-9)
    assert np.all(problem.A2 @ share.x >= problem.b2 - 1e-9)
    assert problem.A1.shape == (len(plan.equation_names), len(plan.names))
    assert problem.A2.shape == (len(plan.limit_names), len(plan.names))
    gradient = problem.W @ share.x + problem.c
    balance = problem.A1.T @ share.equation_multipliers + problem.A2.T @ share.multipliers
    np.testing.assert_allclose(gradient, balance, atol=1e-8 * np.abs(gradient).max())


def test_steps_are_bounded_from_call_to_call():
    """A foot lands: forces or torques change by at most the bound, and reach the optimum."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    for what, bound in (("forces", 4.0), ("torques", 1.0)):
        plan = tb.LoadSharing.of(dog, world=FLOOR, step_limits=what, torque_limits=False)
        last = plan.share(q, touching=[0, 1, 1, 1])
        assert last.is_feasible
        changes = []
        for _ in range(60):
            share = plan.share(q, before=last, max_step=bound)
            assert share.is_feasible
            value = (lambda s: s.x) if what == "forces" else (lambda s: s.tau)
            changes.append(np.abs(value(share) - value(last)).max())
            last = share
        assert max(changes) <= bound * (1 + 1e-9)
        assert changes[0] > 0.5 * bound
        assert changes[-1] < 1e-6
        np.testing.assert_allclose(last.x, plan.share(q).x, atol=1e-6)
    with pytest.raises(tb.DomainError, match="max_step"):
        plan.share(q, max_step=1.0)


def test_steps_leave_no_force_on_contacts_that_have_ended():
    """A falling dog lifts its feet: they carry nothing, however slowly forces may fall."""
    dog = tb.load("quadruped")
    q, vd = dog.poses["stand"], np.zeros(18)
    plan = tb.LoadSharing.of(dog, friction=0.6, torque_limits=False, step_limits="forces")
    vd[5] = -9.6
    before = plan.share(q, vd=vd)
    assert before.forces[:, 2].min() > 0.5
    vd[5] = -9.81
    after = plan.share(q, vd=vd, touching=[0] * 4, before=before, max_step=0.1)
    assert after.is_feasible
    np.testing.assert_array_equal(np.abs(after.forces), 0.0)
    # nothing keeps the bound then, and the status says so
    assert after.status == "step exceeded"
    assert "lost more force than max_step" in after.summary


def test_lost_contacts_with_more_force_than_the_bound_are_reported():
    """The status says which cases exceed the bound by a lost contact; others keep it."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, step_limits="forces")
    q = np.array(dog.poses["stand"])
    before = plan.share(q)
    # other feet may change as much as they need
    bounds = {"front_left_foot": np.array([2.0, 60.0, np.inf, 2.0])}
    touching = np.ones((4, 4))
    touching[:3, 0] = 0.0
    share = plan.share(q, touching=touching, before=before, max_step=bounds)
    assert list(share.status[:3]) == ["step exceeded", "optimal", "optimal"]
    assert share.status[3] in ("optimal", "at limits")
    assert share.is_feasible.all()
    assert not share.x[:3, :3].any()
    assert np.abs(share.x[3, :3] - before.x[:3]).max() <= 2.0 * (1.0 + 1e-9)
    # without limits of steps, or without forces before, nothing is lost
    loose = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    assert loose.share(q, touching=[0, 1, 1, 1], before=loose.share(q)).status == "optimal"
    lifted = plan.share(q, touching=[0, 1, 1, 1])
    again = plan.share(q, touching=[0, 1, 1, 1], before=lifted, max_step=1.0)
    assert again.status == "optimal"

    def code(x, memory, bound):
        bounds = {"front_left_foot": bound[0]}
        touching = ["front_right_foot", "hind_left_foot", "hind_right_foot"]
        share = plan.share(x, touching=touching, before=memory, max_step=bounds)
        return share.status

    kernel = tb.compile(code, shapes={"x": dog.nq, "memory": plan.memory, "bound": 1})
    assert kernel(q, before.warm_start, np.array([2.0])) == 7.0
    assert kernel(q, before.warm_start, np.array([60.0])) != 7.0


def test_relaxed_motions_are_the_nearest_possible():
    """Two feet cannot hold a turn about their line: all else is produced, and the lack reported."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    plan = tb.LoadSharing.of(dog, world=FLOOR, relax=True, torque_limits=False)
    assert plan.share(q).is_feasible
    np.testing.assert_allclose(plan.share(q).shortfall, 0.0, atol=1e-9)
    share = plan.share(q, touching=[1, 0, 0, 1])
    assert share.status == "relaxed"
    assert "lacks" in share.summary
    strict = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    explained = strict.share(q, touching=[1, 0, 0, 1]).explain()
    mass = np.asarray(tb.mass_matrix(dog, q))[:6, :6]
    short = mass @ explained.shortfall
    np.testing.assert_allclose(share.shortfall, short, atol=1e-3 * np.abs(short).max())
    force = share.forces
    assert np.all(np.hypot(force[:, 0], force[:, 1]) <= 0.6 * force[:, 2] + 1e-6)


def scaled(model, length):
    """The same mechanism with lengths in another unit: meters times `length`."""
    bodies = []
    for body in model.bodies:
        pose, inertia = body.joint.pose, body.inertia
        moved = tb.Pose(pose.rotation, tuple(length * x for x in pose.translation))
        own = tb.Inertia(
            inertia.mass,
            tuple(length * x for x in inertia.com),
            tuple(length**2 * x for x in inertia.tensor),
        )
        joint = replace(body.joint, pose=moved)
        bodies.append(tb.Body(body.name, body.parent, joint=joint, inertia=own))
    loops = [
        tb.LoopClosure(
            loop.name,
            loop.first,
            loop.second,
            replace(
                loop.joint,
                pose=tb.Pose(
                    loop.joint.pose.rotation, tuple(length * x for x in loop.joint.pose.translation)
                ),
            ),
            tb.Pose(
                loop.second_pose.rotation, tuple(length * x for x in loop.second_pose.translation)
            ),
        )
        for loop in model.loops
    ]
    return tb.Model(model.name, bodies, loops=loops)


def test_shared_forces_do_not_depend_on_the_unit_of_length():
    """Arms on an object in meters and millimeters: one physical answer, by the lever (6.20)."""
    arms = arms_on_object((6, 6), tb.Fixed)
    motors = [name for name in arms.joint_names if name.startswith("a")]
    q = arms.neutral()
    found = []
    for unit, lever in ((1.0, None), (1000.0, None), (1.0, 1.0), (1000.0, 1.0)):
        world = tb.World(gravity=(0.0, 0.0, -9.81 * unit))
        plan = tb.LoadSharing.of(
            scaled(arms, unit),
            world=world,
            driven=motors,
            torque_limits=False,
            objective=tb.InternalForce(length=lever),
        )
        kinds = [kind for group in plan.layout.groups for kind in group.kinds]
        # forces in units of length, moments in its squares
        si = np.array([unit if kind == "force" else unit**2 for kind in kinds])
        found.append(plan.share(q).x / si)
    np.testing.assert_allclose(found[1], found[0], atol=1e-9 * np.abs(found[0]).max())
    # one unit of length as a lever is another lever in another unit
    assert np.abs(found[3] - found[2]).max() > 1e-3 * np.abs(found[2]).max()


def test_a_status_tells_active_limits():
    """Standing is optimal, leaning on friction at limits, and both are feasible."""
    dog = tb.load("quadruped")
    q, vd = np.tile(dog.poses["stand"], (3, 1)), np.zeros((3, dog.nv))
    vd[:, 3] = 0.0, 5.5, 9.0
    share = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q, vd=vd)
    assert list(share.status) == ["optimal", "at limits", "infeasible"]
    assert list(share.is_feasible) == [True, True, False]
    np.testing.assert_array_equal((share.multipliers > 0.0).any(axis=-1)[:2], [False, True])
    assert "friction limit" in share.summary


def test_a_share_keeps_its_own_motion():
    """What callers do to their arrays afterwards changes no explanation."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    q, vd, touching = np.array(dog.poses["stand"]), np.zeros(dog.nv), np.array([1.0, 0, 0, 1.0])
    share = plan.share(q, vd=vd, touching=touching)
    before = share.explain().sentence
    q[:], vd[:], touching[:] = np.nan, np.nan, 0.0
    assert share.explain().sentence == before


@pytest.mark.parametrize("case", [9, -4, (0, 0), (), "one", 1.5, True])
def test_cases_that_are_not_there_are_refused(case):
    """An index outside of the batch is named."""
    dog = tb.load("quadruped")
    share = tb.LoadSharing.of(dog, world=FLOOR).share(np.tile(dog.poses["stand"], (3, 1)))
    for method in (share.explain, share.lacking):
        with pytest.raises(tb.DomainError, match=r"case: expected an index .* of shape \(3,\)"):
            method(case)


def test_failed_thrusters_and_cables_give_no_force():
    """As if they took no part; joints and thrusters may fail together."""
    robot = tb.load("bluerov2_heavy")
    plan = tb.LoadSharing.of(robot, world=tb.World(fluid=tb.Water()))
    q, vd = robot.neutral(), np.array([0.0, 0.0, 0.1, 0.2, 0.0, 0.1])
    name = robot.thrusters[0].name
    share = plan.share(q, vd=vd, failed=[name])
    taking = np.ones(len(plan.contact_names))
    taking[plan.contact_names.index(name)] = 0.0
    np.testing.assert_array_equal(share.x, plan.share(q, vd=vd, touching=taking).x)
    assert share.is_feasible
    assert share.x[plan.contact_names.index(name)] == 0.0
    assert abs(plan.share(q, vd=vd).x[plan.contact_names.index(name)]) > 1e-3
    problem = plan.problem(q, vd=vd, failed=name)
    assert not problem.A1[:, plan.contact_names.index(name)].any()
    with pytest.raises(tb.UnknownNameError, match="actuator 'propeller'"):
        plan.share(q, failed=["propeller"])


def test_single_calls_take_what_plans_take():
    """`share_load` with failed actuators and forces from outside equals the plan's answer."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    push = {"trunk": np.array([0.0, 0.0, 0.0, 3.0, 0.0, -5.0])}
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    expected = plan.share(q, failed=["front_left_knee"], external_force=push)
    found = tb.share_load(dog, q, world=FLOOR, failed=["front_left_knee"], external_force=push)
    np.testing.assert_array_equal(found.tau, expected.tau)
    assert np.abs(found.tau - plan.share(q).tau).max() > 0.1
    with pytest.raises(TypeError, match="colour"):
        tb.share_load(dog, q, colour=1)


def test_quaternions_of_any_length_are_the_same_attitude():
    """As everywhere: q is normalized where it enters."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(4)
    q, v, vd = kicked(dog, "stand", rng)
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    longer = q.copy()
    longer[:4] *= 2.0
    np.testing.assert_allclose(plan.share(longer, v, vd).tau, plan.share(q, v, vd).tau, atol=1e-10)


def test_numbers_that_overflow_are_flagged_case_by_case():
    """A motion that is not finite spoils no other case."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    q, vd = np.tile(dog.poses["stand"], (4, 1)), np.zeros((4, dog.nv))
    vd[1, 3], vd[2, 5] = 1e160, 1e305
    with pytest.raises(tb.DomainError, match="finite"):
        plan.share(q, vd=vd)
    share = plan.share(q, vd=vd, errors="flag")
    assert list(share.status) == ["optimal", "not finite", "not finite", "optimal"]
    assert np.isnan(share.tau[1:3]).all()
    np.testing.assert_array_equal(share.tau[3], plan.share(q[3]).tau)
    assert "not finite" in share.summary
    with pytest.raises(tb.TiburonError, match="errors"):
        plan.share(q, errors="ignore")


def feet_of(robot, q):
    """Return the centers of the feet, world axes [m]."""
    found = []
    for point in robot.contacts:
        rotation, origin = tb.forward_kinematics(robot, q, point.body)
        found.append(np.asarray(origin) + rotation @ np.array(point.position))
    return np.concatenate(found)


def test_printed_remedies_make_infeasible_motions_possible():
    """Accelerations as printed, and the base shifted over feet that stay where they are."""
    robot, rng = tb.load("quadruped"), np.random.default_rng(7)
    plan = tb.LoadSharing.of(robot, friction=0.6)
    told = shifted = 0
    while told < 12:
        q = np.array(robot.poses["stand"])
        q[7:] += 0.03 * rng.standard_normal(12)
        v, vd = np.zeros(18), np.zeros(18)
        vd[:6] = rng.standard_normal(6) * (12.0, 12.0, 2.0, 1.5, 1.5, 1.5)
        touching = rng.permutation([1, 1, 1, rng.integers(2)])
        share = plan.share(q, v, vd, touching=touching)
        if share.status != "infeasible":
            continue
        told += 1
        found = share.explain()
        words = found.sentence.partition("change the acceleration of ")[2].partition(" (the ")[0]
        changed = vd.copy()
        for part in words.split(", "):
            name, _, amount = part.partition(" by ")
            changed[robot.v_names.index(name)] += float(amount)
        assert plan.share(q, v, changed, touching=touching).is_feasible, found.sentence
        if found.shift is None or np.linalg.norm(found.shift) > 0.06:
            continue
        shifted += 1
        feet, moved = feet_of(robot, q), q.copy()
        moved[4:7] += found.shift
        for _ in range(6):
            here, steps = feet_of(robot, moved), 1e-6 * np.eye(robot.nq)[7:]
            slopes = [(feet_of(robot, moved + step) - here) / 1e-6 for step in steps]
            moved[7:] += np.linalg.solve(np.transpose(slopes), feet - here)
        assert plan.share(moved, v, vd, touching=touching).is_feasible, found.sentence
    assert shifted >= 2


@pytest.mark.parametrize("smooth", [False, True])
def test_a_ball_stands_on_uneven_ground_in_one_point(smooth):
    """An inclined grid is level ground with inclined gravity; triangles count once."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(3)
    slope = np.array([0.2, -0.1])
    x, y = np.meshgrid(0.1 * np.arange(-12, 13), 0.1 * np.arange(-12, 13), indexing="ij")
    grid = tb.GroundGrid((0.1, 0.1), slope[0] * x + slope[1] * y, (-1.2, -1.2), smooth=smooth)
    hill = tb.World(ground=tb.Ground(static_friction=0.6, grid=grid))
    # turned about a level axis, so that z is the normal of the ground
    axis = np.array([slope[1], -slope[0], 0.0]) / np.linalg.norm(slope)
    turn = axis_angle_to_quaternion(axis, np.arctan(np.linalg.norm(slope)))
    R = np.array(quaternion_to_matrix(turn))
    level = tb.World(gravity=tuple(R.T @ (0.0, 0.0, -9.81)), ground=tb.Ground(static_friction=0.6))
    q, v, vd = kicked(dog, "stand", rng)
    turned = q.copy()
    turned[:4] = quaternion_multiply(turn, q[:4])
    turned[4:7] = R @ q[4:7]
    on_hill = tb.LoadSharing.of(dog, world=hill)
    assert on_hill.contact_names == tuple(point.name for point in dog.contacts)
    found = on_hill.share(turned, v, vd)
    expected = tb.LoadSharing.of(dog, world=level).share(q, v, vd)
    assert found.is_feasible
    np.testing.assert_allclose(found.tau, expected.tau, atol=1e-8)
    np.testing.assert_allclose(found.forces @ R, expected.forces, atol=1e-8)
    on_hill.check(turned, v)


def test_the_first_example():
    """Plan, share, margins, sentence and run in six lines, with the least loss of the motors."""
    floor = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7))

    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, friction=0.6, objective=tb.InternalForce() + 0.1 * tb.MotorLoss())
    path = tb.GaitPath.trot(dog)
    q, v, vd = np.array(dog.poses["stand"]), np.zeros(dog.nv), np.zeros(dog.nv)
    # on three feet at rest it would fall over; falling a little faster than it must, it does not
    vd[:6] -= 1.2 * plan.share(q, v, vd, touching=[1, 1, 0, 1]).explain().shortfall
    share = plan.share(q, v, vd, touching=[1, 1, 0, 1])
    assert share.is_feasible
    assert share.summary == "feasible; front_right_foot at its friction limit"
    assert share.forces[2].tolist() == [0.0, 0.0, 0.0]
    run = tb.simulate(
        dog, 5.0, world=floor, control=tb.LoadSharingControl(plan, path, max_step=20.0)
    )
    assert run.outcome.status == "finished"
    assert run.q[-1, 4] > 1.0

    # every limit has a margin, by name
    margins = share.margins
    assert tuple(margins) == plan.limit_names
    np.testing.assert_array_equal(list(margins.values()), margins.array)
    front = share.x[3 * plan.contact_names.index("front_left_foot") :][:3]
    cone = margins["front_left_foot: friction cone"]
    assert cone > 0.0
    assert cone == pytest.approx(0.6 * front[2] - np.hypot(*front[:2]), rel=1e-12)
    assert margins["front_left_foot: pushes"] == front[2]
    knee = share.tau[dog.v_names.index("front_left_knee")]
    assert margins["front_left_knee: largest force"] == pytest.approx(33.0 - knee, rel=1e-12)
    assert margins["front_left_knee: least force"] == pytest.approx(33.0 + knee, rel=1e-12)
    assert margins.friction[0] == cone
    assert margins.torque[2] == pytest.approx(33.0 - abs(knee), rel=1e-12)
    with pytest.raises(tb.UnknownNameError, match="did you mean 'front_left_foot: pushes'"):
        margins["front_left_foot: push"]

    # heat in the windings is what the objective makes small, and what runs report
    alone = tb.LoadSharing.of(dog, friction=0.6, objective=tb.InternalForce())
    other = alone.share(q, v, vd, touching=[1, 1, 0, 1])
    least, most = (tb.motor_power(dog, v, vd, x.tau).loss.sum() for x in (share, other))
    assert least < 0.999 * most


@pytest.mark.parametrize("options", [{}, {"sides": 5}, {"sides": 6, "inscribed": False}])
def test_margins_are_those_of_the_rows(options):
    """A2 x - b2 of the problem, and that of the exact cone beside its pyramid; traced too."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR, friction=0.5, **options)
    rng = np.random.default_rng(5)
    q = np.tile(dog.poses["stand"], (4, 1))
    v, vd = 0.5 * rng.standard_normal((2, 4, dog.nv))
    share, problem = plan.share(q, v, vd, touching=[1, 1, 1, 1]), plan.problem(q, v, vd)
    assert share.is_feasible.all()
    rows = np.einsum("kij,kj->ki", problem.A2, share.x) - problem.b2
    forces = share.x.reshape(4, 4, 3)
    cones = 0.5 * forces[..., 2] - np.linalg.norm(forces[..., :2], axis=-1)
    expected = rows if options else np.concatenate([rows, cones], axis=1)
    np.testing.assert_allclose(share.margins.array, expected, atol=1e-11)
    np.testing.assert_allclose(share.margins.friction, cones, atol=1e-11)

    def margins(q, v, vd):
        found = plan.share(q, v, vd).margins
        return {"array": found.array, "least": found[plan.limit_names[-1]]}

    shapes = {"q": (dog.nq,), "v": (dog.nv,), "vd": (dog.nv,)}
    array, last = tb.compile(margins, shapes=shapes, name="margins")(q[1], v[1], vd[1])
    np.testing.assert_allclose(array, expected[1], atol=1e-11)
    assert last == array[-1]
