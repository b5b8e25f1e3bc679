"""Problems that cannot be: each error names the element, what was expected, and what to do."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import tiburon as tb

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


@cache
def dog():
    return tb.load("quadruped")


@cache
def plan(**options):
    return tb.LoadSharing.of(dog(), world=FLOOR, **options)


@cache
def hand():
    return tb.load("three_finger_hand")


def stand():
    return np.array(dog().poses["stand"])


def home():
    return np.array(hand().poses["home"])


def single(size, index, value=1.0):
    row = np.zeros(size)
    row[index] = value
    return row


MOTOR = tb.Motor(1.0, 0.1)


def one_joint(joint, count, **actuator):
    """Return a link on the ground with some equal actuators."""
    inertia = tb.Inertia.box(2.0, (0.1, 0.1, 0.5), com=(0.0, 0.0, 0.3))
    return tb.Model(
        "link",
        [tb.Body("link", joint=joint, inertia=inertia)],
        contacts=[tb.ContactPoint("tip", "link", (0.0, 0.1, 0.6))],
        actuators=[tb.Actuator(f"motor_{k}", joint.name, **actuator) for k in range(count)],
    )


def box_share():
    """Return the load of a free box on one pad."""
    body = tb.Body("box", joint=tb.Free("base"), inertia=tb.Inertia.box(1.0, (0.2, 0.2, 0.2)))
    pad = tb.ContactSite("pad_0", "box", 0.5, half_size=(0.1, 0.1))
    return tb.LoadSharing.of(tb.Model("box", [body]), sites=[pad], driven=[]).share(
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    )


def unmotored():
    """Return the dog with actuators alone."""
    robot = dog()
    actuators = [replace(a, motor=None) for a in robot.actuators]
    return tb.Model("bare", robot.bodies, contacts=robot.contacts, actuators=actuators)


def half_motor():
    """Return the dog with one motor without resistance."""
    robot = dog()
    motor = tb.Motor(0.5, 0.1, voltage_limit=24.0)
    actuators = [replace(a, motor=motor) for a in robot.actuators]
    actuators[4] = replace(actuators[4], motor=tb.Motor(0.0, 0.1, voltage_limit=24.0))
    return tb.Model("half", robot.bodies, contacts=robot.contacts, actuators=actuators)


def stepped(max_step):
    bounded = plan(step_limits="forces")
    return bounded.share(stand(), before=bounded.share(stand()), max_step=max_step)


BAD = {
    "negative friction": (lambda: plan(friction=-0.1), "friction of 'front_left_foot'"),
    "negative friction by name": (
        lambda: tb.LoadSharing.of(dog(), world=FLOOR, friction={"hind_left_foot": -1.0}),
        "hind_left_foot",
    ),
    "negative friction of a grip": (
        lambda: tb.GripLimit("finger_1_contact", (1.0, 0.0, 0.0), -0.5),
        "finger_1_contact.*friction must be a finite number of at least 0, got -0.5",
    ),
    "negative friction of a site": (
        lambda: tb.ContactSite("sole", "trunk", -0.5),
        "sole.*friction must be a finite number of at least 0, got -0.5",
    ),
    "degrees as friction": (
        lambda: plan(friction=60),
        r"friction of 'front_left_foot'.*at most 10, the tangent.*\(1.73 for 60 degrees\), got 60",
    ),
    "degrees as friction of the ground": (
        lambda: tb.LoadSharing.of(dog(), world=tb.World(ground=tb.Ground(static_friction=30.0))),
        r"friction of 'front_left_foot'.*\(0.577 for 30 degrees\), got 30",
    ),
    "degrees as friction of a grip": (
        lambda: tb.GripLimit("finger_1_contact", (1.0, 0.0, 0.0), 100.0),
        "finger_1_contact.*friction must be a coefficient of at most 10.*got 100",
    ),
    "degrees as friction of a site": (
        lambda: tb.ContactSite("sole", "trunk", 35.0),
        r"sole.*friction must be.*\(0.7 for 35 degrees\), got 35",
    ),
    "degrees as friction of a run": (
        lambda: tb.simulate(
            dog(),
            0.01,
            world=FLOOR,
            control=tb.LoadSharingControl(plan(friction=0.5), stand()),
            parameters={"control.plan.friction": [[40.0] * 4, [0.5] * 4]},
        ),
        "friction of 'front_left_foot'.*at most 10.*got 40",
    ),
    "indefinite weight": (
        lambda: tb.StrainEnergy({"foot": np.diag([1.0, -1.0, 1.0])}),
        "positive semidefinite weight, got an eigenvalue of -1",
    ),
    "negative weight": (lambda: -2.0 * tb.InternalForce(), "weight of an objective"),
    "non-finite configuration": (
        lambda: plan().share(np.where(np.arange(19) == 8, np.nan, stand())),
        "q: every value must be finite, got nan at index 8",
    ),
    "non-finite velocity": (
        lambda: plan().share(stand(), single(18, 3, np.inf)),
        "v: every value must be finite, got inf at index 3",
    ),
    "non-finite acceleration in a batch": (
        lambda: plan().share(np.stack([stand(), stand()]), vd=np.full((2, 18), np.nan)),
        r"vd: every value must be finite, got nan at index \(0, 0\)",
    ),
    "crossed torque limits": (
        lambda: tb.LoadSharing.of(
            dog(), world=FLOOR, torque_limits={"front_left_knee": (5.0, -5.0)}
        ),
        "torque limits of 'front_left_knee': expected the smallest first, got 5, -5; swap them",
    ),
    "torque limits of another kind": (
        lambda: tb.LoadSharing.of(dog(), world=FLOOR, torque_limits={"front_left_knee": 5.0}),
        "torque limits of 'front_left_knee': expected a smallest and a largest value, got 5.0",
    ),
    "one torque limit for all": (
        lambda: plan(torque_limits=5.0),
        "torque_limits: expected True, False or limits by joint name, got 5.0",
    ),
    "order of relaxation": (
        lambda: plan(relax=("motion",)),
        r"relax: expected True, False, 'direction' or lists of names, got \('motion',\)",
    ),
    "unknown level of relaxation": (
        lambda: plan(relax=(("friction",),)),
        "unknown equation or limit 'friction'",
    ),
    "level of relaxation twice": (
        lambda: plan(relax=(("motion",), ("motion",))),
        "relax: expected each name once, got 'motion' twice",
    ),
    "motion and its direction": (
        lambda: plan(relax=(("direction",), ("base.vx",))),
        "relax: expected 'direction' or names of equations, got both",
    ),
    "pyramids without friction": (
        lambda: tb.LoadSharing.of(tb.load("five_bar"), sides=8),
        "sides: expected contacts, sites or grips with friction, got none in the plan",
    ),
    "side of pyramids in words": (lambda: plan(sides=4, inscribed="no"), "inscribed: expected"),
    "a joint driven twice": (
        lambda: plan(driven=("front_left_knee", "front_left_knee")),
        "driven: expected each joint once, got 'front_left_knee' twice",
    ),
    "two actuators at a joint": (
        lambda: tb.LoadSharing.of(one_joint(tb.Revolute("swing"), 2, force_limits=(-1.0, 1.0))),
        "joint 'swing': expected one actuator with limits, got 2 actuators",
    ),
    "loss of two motors at a joint": (
        lambda: tb.LoadSharing.of(
            one_joint(tb.Revolute("swing"), 2, motor=MOTOR), objective=tb.MotorLoss()
        ),
        "actuator 'motor_1': MotorLoss needs one motor per joint.*got a second motor",
    ),
    "loss of a motor of three degrees of freedom": (
        lambda: tb.LoadSharing.of(
            one_joint(tb.Spherical("swing"), 1, motor=MOTOR), objective=tb.MotorLoss()
        ),
        "actuator 'motor_0': MotorLoss needs one motor per joint.*got 3 of them",
    ),
    "friction of loops without normal": (
        lambda: tb.LoadSharing.of(tb.load("two_finger_hand"), friction=0.3),
        "friction: expected contacts, sites or grips that it belongs to, got none in the plan",
    ),
    "friction of a thruster": (
        lambda: tb.LoadSharing.of(
            tb.load("bluerov2_heavy"),
            sites=[tb.ContactSite("pad", "hull", 0.4)],
            friction={"front_left": 0.3},
        ),
        "unknown contact 'front_left'",
    ),
    "torsion of a loop that turns freely": (
        lambda: tb.LoadSharing.of(
            hand(), grips=[tb.GripLimit("finger_1_contact", (1.0, 0.0, 0.0), 0.5, torsion=0.01)]
        ),
        "finger_1_contact.*torsion of 0.01 m needs a loop that holds the rotation about the normal",
    ),
    "grip across the moment of its loop": (
        lambda: tb.LoadSharing.of(
            tb.load("kerr_roth_grasp"), grips=[tb.GripLimit("contact_1", (1.0, 0.0, 0.0), 0.5)]
        ),
        "contact_1.*holds no rotation but that about the normal",
    ),
    "forces of another robot before": (
        lambda: plan().share(stand(), before=box_share()),
        "before: expected forces of the same contacts.*got those of pad_0",
    ),
    "steps from a case without solution": (
        lambda: plan(step_limits="forces").share(
            stand(), before=plan(step_limits="forces").share(stand(), touching=[0] * 4), max_step=9
        ),
        "before: expected forces to compare with, got cases without solution",
    ),
    "another ground in the call": (
        lambda: plan().share(stand(), world=tb.World()),
        "world: expected the ground of the plan",
    ),
    "crossed normal forces": (
        lambda: tb.NormalForceLimit({"foot": (9.0, 1.0)}),
        "normal force limits of 'foot': expected the smallest first, got 9, 1; swap them",
    ),
    "crossed limits of an actuator": (
        lambda: tb.Actuator("knee", "knee", force_limits=(3.0, -3.0)),
        "force_limits must be smallest and largest in this order",
    ),
    "crossed tensions": (
        lambda: tb.Cable("rope", "world", "box", tension_limits=(9.0, 1.0)),
        "rope.*tension_limits must be smallest and largest in this order",
    ),
    "negative wrench limit": (
        lambda: tb.JointWrenchLimit("knee", moment=-1.0),
        "moment of the wrench limit of joint 'knee': expected one value or three of at least 0",
    ),
    "wrench limit on nothing": (
        lambda: tb.LoadSharing.of(
            dog(), world=FLOOR, limits=[tb.JointWrenchLimit("front_left_knee")]
        ),
        "front_left_knee.*a finite moment or force, got none",
    ),
    "wrench limit of a joint that is not there": (
        lambda: tb.LoadSharing.of(dog(), world=FLOOR, limits=[tb.JointWrenchLimit("elbow", 1.0)]),
        "unknown joint 'elbow'",
    ),
    "objective without motors": (
        lambda: tb.LoadSharing.of(unmotored(), world=FLOOR, objective=tb.MotorLoss()),
        "actuator 'front_left_roll.*': MotorLoss needs a Motor, got none",
    ),
    "objective without resistance": (
        lambda: tb.LoadSharing.of(
            half_motor(), world=FLOOR, objective=tb.MotorLoss(), torque_limits=False
        ),
        "actuator 'front_right_pitch.*': MotorLoss needs a resistance, got none",
    ),
    "limits of a motor without resistance": (
        lambda: tb.LoadSharing.of(half_motor(), world=FLOOR),
        "actuator 'front_right_pitch.*': torque limits of its motor need a resistance",
    ),
    "no contacts": (
        lambda: tb.LoadSharing.of(dog(), world=tb.World()),
        "quadruped.*expected contacts, loops, thrusters or cables that share a load, got none",
    ),
    "empty pairs": (lambda: plan(pairs=()), "share a load, got none"),
    "unknown body": (lambda: plan(pairs=(("paw", "world"),)), "unknown body 'paw'"),
    "unknown body of a site": (
        lambda: plan(sites=(tb.ContactSite("sole", "paw", 0.5),)),
        "contact site 'sole': unknown body or frame 'paw'",
    ),
    "one name twice": (
        lambda: plan(sites=(tb.ContactSite("sole", "trunk", 0.5),) * 2),
        "must have different names, got 'sole' twice",
    ),
    "max_step of zero": (lambda: stepped(0.0), "max_step: expected a bound above 0"),
    "negative max_step": (lambda: stepped(-3.0), "max_step: expected a bound above 0"),
    "max_step without step limits": (
        lambda: plan().share(stand(), max_step=1.0),
        "max_step: expected a bound where the plan has step_limits",
    ),
    "contacts that do not touch": (
        lambda: tb.share_load(dog(), stand() + single(19, 6, 0.1), world=FLOOR),
        "contacts that touch within 1 mm, got 'front_left_foot' with a gap of 100 mm",
    ),
    "degrees of freedom that no actuator drives": (
        lambda: tb.share_load(dog(), stand(), world=FLOOR, touching=[1, 0, 0, 0]),
        r"no actuator drives base.wx, base.wy.*\(redundancy -3 with 3 forces for 6 equations\)",
    ),
    "no contact takes part": (
        lambda: tb.share_load(dog(), stand(), world=FLOOR, touching=[0, 0, 0, 0]),
        "no actuator drives base.wx, base.wy, base.wz, base.vx, base.vy, base.vz",
    ),
    "velocity that loops forbid": (
        lambda: tb.share_load(hand(), home(), single(15, 0)),
        "loop 'finger_1_contact': expected a velocity that keeps it closed, got one that opens it",
    ),
    "acceleration that loops forbid": (
        lambda: tb.share_load(hand(), home(), vd=single(15, 3)),
        "loop 'finger_2_contact': expected an acceleration that keeps it closed, got one that",
    ),
    "open loops": (
        lambda: tb.share_load(hand(), home() + single(16, 0, 0.1)),
        "loop 'finger_1_contact': expected a closed one, got one open by",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_problems_are_refused_with_names(case):
    """Each names what is wrong; none returns numbers."""
    make, words = BAD[case]
    with pytest.raises(tb.TiburonError, match=words):
        make()


def test_good_problems_pass_the_checks():
    """Standing at rest, a hand that moves with its glass, batches."""
    share = tb.share_load(dog(), np.stack([stand(), stand()]), world=FLOOR)
    assert share.is_feasible.all()
    robot, q = hand(), home()
    rng = np.random.default_rng(1)
    v = np.asarray(tb.project_velocity(robot, q, 0.3 * rng.standard_normal(robot.nv)))
    vd = np.asarray(
        tb.loop_dynamics(robot, q, v, 0.01 * rng.standard_normal(robot.nv)).acceleration
    )
    assert tb.share_load(robot, q, v, vd).is_feasible
    # a bias left out is an acceleration that opens loops
    with pytest.raises(tb.LoopError, match="acceleration that keeps it closed"):
        tb.share_load(robot, q, v, 0.0 * vd)


def test_relaxed_loads_may_leave_degrees_of_freedom_uncontrolled():
    """One foot cannot hold a dog: without check or with relax there is an answer that says so."""
    relaxed = tb.share_load(dog(), stand(), world=FLOOR, touching=[1, 0, 0, 0], relax=True)
    assert relaxed.status == "relaxed"
    loose = tb.share_load(dog(), stand(), world=FLOOR, touching=[1, 0, 0, 0], check=False)
    assert loose.status == "infeasible"
    assert "no force that takes part acts on the combination 0.639 base.wx + " in loose.summary
    # main thrusters 0.1 m below the center tilt as they push, whatever they do
    vehicle = tb.share_load(tb.load("two_arm_rov"), tb.load("two_arm_rov").neutral(), check=False)
    assert "acts on the combination - 1 base.wy + 0.1 base.vx; or" in vehicle.summary
    empty = tb.share_load(dog(), stand(), world=FLOOR, touching=[0, 0, 0, 0], check=False)
    assert "no force that takes part acts on base.wx, base.wy, base.wz" in empty.summary


def test_step_limits_that_are_too_small_are_named():
    """Forces cannot follow a new motion within a small step: the rows of steps say so."""
    bounded = plan(step_limits="forces", torque_limits=False)
    last = bounded.share(stand())
    share = bounded.share(stand(), vd=single(18, 5, 3.0), before=last, max_step=0.5)
    assert share.status == "infeasible"
    found = share.explain()
    assert found.certificate.holds
    assert any(name.endswith((".n: rises", ".n: falls")) for name in found.limits)


def box(width=0.2):
    """Return a free box."""
    inertia = tb.Inertia.box(1.0, (width, 0.1, 0.1))
    return tb.Model("box", [tb.Body("box", joint=tb.Free("box"), inertia=inertia)])


def pads(*rows):
    """Return soft contacts of the world on a box: point, and normal from the box outward."""
    return [
        tb.ContactSite(
            f"pad_{k}", "box", mu, point=point, normal=normal, torsion=torsion, along=(0, 0, 1)
        )
        for k, (point, normal, mu, torsion) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("rows", "closed"),
    [
        # two soft fingers opposite each other hold it; hard ones let it turn about their line
        ([((0.1, 0, 0), (1, 0, 0), 0.5, 0.01), ((-0.1, 0, 0), (-1, 0, 0), 0.5, 0.01)], True),
        ([((0.1, 0, 0), (1, 0, 0), 0.5, 0.0), ((-0.1, 0, 0), (-1, 0, 0), 0.5, 0.0)], False),
        # both on one side
        ([((0.1, 0.02, 0), (1, 0, 0), 0.5, 0.01), ((0.1, -0.02, 0), (1, 0, 0), 0.5, 0.01)], False),
        # the line between them leaves the friction cones: 0.06 / 0.2 above 0.2
        (
            [((0.1, 0.03, 0), (1, 0, 0), 0.2, 0.01), ((-0.1, -0.03, 0), (-1, 0, 0), 0.2, 0.01)],
            False,
        ),
        ([((0.1, 0.03, 0), (1, 0, 0), 0.4, 0.01), ((-0.1, -0.03, 0), (-1, 0, 0), 0.4, 0.01)], True),
    ],
)
def test_force_closure_is_that_of_the_theory_of_grasps(rows, closed):
    """Two soft contacts close exactly if the line between them lies inside both friction cones."""
    grasp = tb.LoadSharing.of(box(), sites=pads(*rows), driven=[], relax=True)
    q = box().neutral()
    found = grasp.force_closure(q)
    assert found.is_closed == closed
    assert (found.margin > 1e-7 and not found.free) == closed
    if closed:
        grasp.check(q, closure=True)
        assert found.internal[[2, 6]].sum() == pytest.approx(1.0)
    else:
        with pytest.raises(tb.TiburonError, match=r"force closure|no actuator drives"):
            grasp.check(q, closure=True)


def test_a_hand_holds_its_glass_with_force_closure():
    """Three fingers around the glass close; without friction they do not."""
    robot, q = hand(), home()
    for friction, closed in ((0.5, True), (0.0, False)):
        grips = []
        for loop in robot.loops:
            glass, center = tb.forward_kinematics(robot, q, "glass")
            tip, origin = tb.forward_kinematics(robot, q, loop.first)
            rotation = tip @ np.array(loop.joint.pose.rotation)
            inward = glass.T @ (center - origin - tip @ np.array(loop.joint.pose.translation))
            inward[2] = 0.0
            inward = rotation.T @ glass @ (inward / np.linalg.norm(inward))
            grips.append(tb.GripLimit(loop.name, tuple(inward), friction))
        held = tb.LoadSharing.of(robot, grips=grips, torque_limits=False)
        assert held.force_closure(q).is_closed == closed
        if not closed:
            with pytest.raises(tb.DomainError, match="contacts with force closure, got finger_1"):
                held.check(q, closure=True)


def test_loads_of_closed_mechanisms_are_explained():
    """A five-bar with weak motors: the sentence names them."""
    robot = tb.load("five_bar")
    weak = {actuator.joint: (-0.1, 0.1) for actuator in robot.actuators}
    share = tb.LoadSharing.of(robot, torque_limits=weak).share(robot.poses["home"])
    assert share.status == "infeasible"
    assert share.explain().certificate.holds
    assert "right_base: largest force" in share.summary


def test_a_base_is_shifted_over_its_feet():
    """A foot would have to pull: the way that helps is the least; a little less does not."""
    robot, q = dog(), stand()
    vd = np.array([0.4, -0.3, 0.2, 0.5, 0.3, -0.2, *np.zeros(12)])
    given = plan(torque_limits=False, friction=2.0)
    found = given.share(q, vd=vd, touching=[1, 1, 0, 1]).explain()
    # into the triangle of the three feet
    way = f"{103 * np.linalg.norm(found.shift):.2g} cm"
    assert f"or shift the base by {way} toward front_right_foot" in found.sentence
    assert found.shift[2] == pytest.approx(0.0, abs=1e-12)
    # the same contacts, all moved back: arms as if the base had moved, with all of its legs
    whole = 1.0 - 0.5 * given._leg_share("trunk", [1, 1, 0, 1])
    assert 0.7 < whole < 0.9
    here = tb.contacts(robot, q, world=FLOOR)
    feet = [tb.ContactSite(p.name, p.body, 2.0) for p in robot.contacts]
    moved = tb.LoadSharing.of(robot, sites=feet, torque_limits=False, sides=16, inscribed=False)
    # limits have a reserve of 0.1 % of the load, 1.5 % of the pull
    for part, status in ((1.0 * whole, "at limits"), (0.97 * whole, "infeasible")):
        sites = {}
        for k, point in enumerate(robot.contacts):
            R, p = (np.asarray(x) for x in tb.forward_kinematics(robot, q, point.body))
            local = R.T @ (here.point[k] - part * found.shift - p)
            sites[point.name] = [*local, *(R.T @ [0.0, 0.0, -1.0])]
        assert moved.share(q, vd=vd, touching=[1, 1, 0, 1], sites=sites).status == status


def test_shifts_across_a_row_of_feet_are_told_by_direction():
    """No foot lies to the side of three in a row: the base has to move across them."""
    beam = tb.Body("beam", joint=tb.Free("beam"), inertia=tb.Inertia.box(5.0, (1.0, 0.2, 0.2)))
    feet = [tb.ContactPoint(f"foot{k}", "beam", (0.4 * k - 0.4, 0.0, -0.1)) for k in range(3)]
    model = tb.Model("row", [beam], contacts=feet)
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    plan = tb.LoadSharing.of(model, world=world, driven=[])
    q = np.array([1.0, 0, 0, 0, 0, 0, 0.1])
    spinning = np.array([2.0, 0, 0, 0, 0, 0])
    sentence = plan.share(q, vd=spinning).explain().sentence
    assert "cm along (" in sentence
    assert "toward" not in sentence
    # along the row a foot tells the direction
    tipping = plan.share(q, vd=np.array([0.0, 200.0, 0, 0, 0, 0])).explain().sentence
    assert "toward foot" in tipping
