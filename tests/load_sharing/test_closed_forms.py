"""Objectives and limits of load sharing on problems that paper solves, and with signs changed.

Each closed form is a function, so that the last tests can change a sign or a value in the package
and see it fail.
"""

import numpy as np
import pytest

import tests.load_sharing.test_limits as limit_tests
import tiburon as tb
from tiburon.functions import load_sharing as functions
from tiburon.load_sharing.limits import center_of_pressure, contact, step, torque
from tiburon.native.code import forget_codes

G = 9.81


# two winches lift one load: f1 + f2 = T


def winches(rotor=0.0, armature=False, **more):
    """Return two carriages on vertical rails, tied to each other, with motors of two kinds.

    Their rotors may also be armatures of the joints.
    """
    strong = tb.Motor(resistance=0.5, torque_constant=0.2, damping=0.01, friction=0.3)
    weak = tb.Motor(resistance=2.0, torque_constant=0.1, damping=0.002, friction=0.1)
    bodies, actuators = [], []
    for name, mass, motor, ratio in (("a", 3.0, strong, 4.0), ("b", 1.0, weak, -10.0)):
        own = ratio**2 * rotor if armature else 0.0
        joint = tb.Prismatic(f"{name}_rail", axis=(0.0, 0.0, 1.0), armature=own)
        inertia = tb.Inertia(mass=mass, com=(0.0, 0.0, 0.0), tensor=(0.01, 0.01, 0.01))
        bodies.append(tb.Body(name, joint=joint, inertia=inertia))
        actuators.append(
            tb.Actuator(f"{name}_motor", joint.name, ratio, motor=motor, rotor_inertia=rotor)
        )
    ties = [tb.JointCoupling("tie", "b_rail", "a_rail")]
    return tb.Model("winches", bodies, actuators=actuators, loops=ties, **more)


def raised(objective, speed=0.4, rate=1.5, rotor=0.0, armature=False, **options):
    """Return how winches share the load of a motion, and its total."""
    model = winches(rotor, armature)
    plan = tb.LoadSharing.of(model, objective=objective, **options)
    share = plan.share([0.2, 0.2], [speed] * 2, [rate] * 2)
    return share, 4.0 * (G + rate)


def check_torque_norm():
    """Equal forces, whatever each carriage weighs."""
    share, total = raised(tb.TorqueNorm())
    np.testing.assert_allclose(share.tau, [total / 2, total / 2], rtol=1e-9)


def check_motor_loss():
    """Least R (F / n k)^2: forces as w2 : w1, with inertia and friction of the motors on top."""
    weights = np.array([0.5 / (4.0 * 0.2) ** 2, 2.0 / (10.0 * 0.1) ** 2])
    for speed in (0.4, -0.7):
        rate, rotor = 1.5, 2e-3
        share, total = raised(tb.MotorLoss(), speed, rate, rotor)
        ratio = np.array([4.0, -10.0])
        own = ratio**2 * rotor * rate + ratio**2 * np.array([0.01, 0.002]) * speed
        own += np.abs(ratio) * np.array([0.3, 0.1]) * np.sign(speed)
        # w1 (F1 + o1) = w2 (F2 + o2)
        expected = (total + own.sum()) * weights[::-1] / weights.sum() - own
        # ties are broken by terms of 1e-8
        np.testing.assert_allclose(share.tau, expected, rtol=1e-6)
        kopf, total = raised(tb.MotorLoss(friction=False), speed, rate, rotor)
        load = total * weights[::-1] / weights.sum()
        np.testing.assert_allclose(kopf.tau, load, rtol=1e-6)
        # rotors that joints carry as armature: part of the joint force, and not of the load
        carried = ratio**2 * rotor * rate
        share, _ = raised(tb.MotorLoss(), speed, rate, rotor, armature=True)
        np.testing.assert_allclose(share.tau, expected + carried, rtol=1e-6)
        kopf, _ = raised(tb.MotorLoss(friction=False), speed, rate, rotor, armature=True)
        np.testing.assert_allclose(kopf.tau, load + carried, rtol=1e-6)


def check_torque_limits():
    """A limit below half of the load leaves the rest to the other winch."""
    bounds = {"a_rail": (-100.0, 15.0), "b_rail": (-100.0, 100.0)}
    share, total = raised(tb.TorqueNorm(), torque_limits=bounds)
    np.testing.assert_allclose(share.tau, [15.0, total - 15.0], rtol=1e-9)
    assert share.margins.torque[0] == pytest.approx(0.0, abs=1e-9)
    bounds = {"a_rail": (30.0, 100.0), "b_rail": (-100.0, 100.0)}
    share, total = raised(tb.TorqueNorm(), torque_limits=bounds)
    np.testing.assert_allclose(share.tau, [30.0, total - 30.0], rtol=1e-9)


def check_smoothness():
    """A change of the load is shared equally; internal forces stay where that is requested."""
    model = winches()
    first = tb.LoadSharing.of(model, objective=tb.MotorLoss(friction=False)).share([0.2, 0.2])
    for objective, expected in (
        (tb.TorqueSmoothness(), first.tau + 2.0 * 1.5),
        (tb.Smoothness(), first.tau + np.array([3.0, 1.0]) * 1.5),
    ):
        plan = tb.LoadSharing.of(model, objective=objective)
        share = plan.share([0.2, 0.2], None, [1.5, 1.5], before=first)
        np.testing.assert_allclose(share.tau, expected, rtol=1e-7)


def check_step_limits():
    """From least loss toward equal forces: no force changes by more than the step."""
    model = winches()
    loss, plan = (
        tb.LoadSharing.of(model, objective=objective, step_limits="torques")
        for objective in (tb.MotorLoss(friction=False), tb.TorqueNorm())
    )
    first = loss.share([0.2, 0.2])
    share = plan.share([0.2, 0.2], before=first, max_step=2.0)
    way = np.sign(np.array([2.0, 2.0]) * G - first.tau)
    np.testing.assert_allclose(share.tau, first.tau + 2.0 * way, rtol=1e-9)


# a plate on four corners

CORNERS = np.array([(0.3, 0.2), (0.3, -0.2), (-0.3, 0.2), (-0.3, -0.2)])


def plate(friction=0.5, com=(0.06, -0.05, 0.1)):
    """Return a plate of 5 kg and the contacts at its corners."""
    inertia = tb.Inertia.box(5.0, (0.6, 0.4, 0.2), com=com)
    model = tb.Model("plate", [tb.Body("plate", joint=tb.Free("base"), inertia=inertia)])
    sites = [
        tb.ContactSite(f"corner_{k}", "plate", friction, point=(x, y, 0.0))
        for k, (x, y) in enumerate(CORNERS)
    ]
    return model, sites


def check_equal_share():
    """Least sum of squares of normal forces: W / 4 (1 + x c_x / a^2 + y c_y / b^2)."""
    model, sites = plate()
    plan = tb.LoadSharing.of(model, sites=sites, driven=[], objective=tb.EqualShare())
    share = plan.share(model.neutral())
    x, y = CORNERS.T
    expected = 5.0 * G / 4 * (1.0 + x * 0.06 / 0.3**2 - y * 0.05 / 0.2**2)
    np.testing.assert_allclose(share.forces[:, 2], expected, rtol=1e-7)


def check_load_target():
    """Targets that balance the weight are met, also with forces that work against each other."""
    model, sites = plate()
    x, y = CORNERS.T
    normal = 5.0 * G / 4 * (1.0 + x * 0.06 / 0.3**2 - y * 0.05 / 0.2**2)
    normal = normal + 1.5 * np.array([1.0, -1.0, -1.0, 1.0])
    inward = -0.8 * np.sign(x)
    targets = {f"corner_{k}": (-inward[k], 0.0, normal[k]) for k in range(4)}
    plan = tb.LoadSharing.of(model, sites=sites, driven=[], objective=tb.LoadTarget(targets))
    share = plan.share(model.neutral())
    found = share.x.reshape(4, 3)
    np.testing.assert_allclose(found, list(targets.values()), atol=1e-6)
    assert np.abs(share.forces[:, 0]) == pytest.approx(0.8)


def check_friction():
    """Pushed to the side, corners slip at mu g; a pyramid inside ends at mu g cos(pi / k)."""
    model, sites = plate(friction=0.5, com=(0.0, 0.0, 0.0))
    rates = np.zeros((2, 6))
    for options, most in (
        ({}, 0.5 * G),
        ({"sides": 4}, 0.5 * G * np.cos(np.pi / 4)),
        ({"sides": 4, "inscribed": False}, 0.5 * G),
    ):
        rates[:, 3] = 0.999 * most, 1.001 * most
        plan = tb.LoadSharing.of(model, sites=sites, driven=[], **options)
        share = plan.share(np.tile(model.neutral(), (2, 1)), vd=rates)
        assert list(share.status) == ["optimal", "infeasible"]


def check_contacts_push():
    """A plate that is to fall faster than gravity would have to be pulled."""
    model, sites = plate()
    rates = np.zeros((2, 6))
    rates[:, 5] = -0.999 * G, -1.001 * G
    plan = tb.LoadSharing.of(model, sites=sites, driven=[])
    share = plan.share(np.tile(model.neutral(), (2, 1)), vd=rates)
    assert list(share.status) == ["optimal", "infeasible"]
    assert any("pushes" in name for name in share.explain(1).limits)


# two soft fingers


def check_soft_fingers():
    """A moment M about the line of two soft fingers needs a grip of M / (2 mu_t)."""
    hand = tb.load("kerr_roth_grasp")
    q = hand.neutral()
    floating = tb.World(gravity=(0.0, 0.0, 0.0))
    moment = {"object": (0.0, 0.8, 0.0, 0.0, 0.0, 0.0)}
    for torsion in (0.5, 0.25):
        grips = [
            tb.GripLimit(f"contact_{k}", (0.0, 0.0, 1.0), 0.25, torsion=torsion) for k in (1, 2)
        ]
        plan = tb.LoadSharing.of(hand, world=floating, grips=grips, torque_limits=False)
        share = plan.share(q, external_force=moment)
        found = share.x.reshape(2, 4)
        np.testing.assert_allclose(found[:, 2], 0.8 / (2 * torsion), rtol=1e-9)
        np.testing.assert_allclose(np.abs(found[:, 3]), 0.4, rtol=1e-9)
        assert "torsion" in share.summary


# units


def check_units():
    """Metres against millimetres: the same forces by default, others with W = 1 (B21)."""

    def held(unit, objective):
        """Return the wrenches of two feet of a leaning body, in SI units."""
        inertia = tb.Inertia(
            mass=4.0, com=(0.07 * unit, 0.02 * unit, 0.3 * unit), tensor=(0.1 * unit**2,) * 3
        )
        model = tb.Model("body", [tb.Body("body", joint=tb.Free("base"), inertia=inertia)])
        feet = [
            tb.ContactSite(
                f"foot_{k}",
                "body",
                0.8,
                point=(x * unit, 0.01 * unit, 0.0),
                half_size=(0.06 * unit, 0.04 * unit),
                torsion=0.05 * unit,
            )
            for k, x in enumerate((0.3, -0.2))
        ]
        world = tb.World(gravity=(0.0, 0.0, -G * unit))
        plan = tb.LoadSharing.of(model, world=world, sites=feet, driven=[], objective=objective)
        x = plan.share(model.neutral(), vd=[0.0, 0.0, 0.0, 2.0 * unit, 0.0, 0.0]).x.reshape(2, 6)
        return np.concatenate([x[:, :3] / unit, x[:, 3:] / unit**2], axis=1)

    np.testing.assert_allclose(held(1e3, None), held(1.0, None), rtol=0, atol=1e-8)
    one = tb.InternalForce(length=1.0)
    assert np.abs(held(1e3, one) - held(1.0, one)).max() > 0.1


def moment_weights(plan, q, **options):
    """Return the weights of moments of the groups that take part."""
    W = np.diag(plan.problem(q, **options).W)
    kinds = np.array([kind for group in plan.layout.groups for kind in group.kinds])
    return W[kinds == "moment"]


def check_lever_of_loops():
    """(6.20): the distance of the grippers that hold a load from its center of mass."""
    load = tb.Inertia(10.0, (0.1, 0.2, -0.3), (0.1, 0, 0, 0.1, 0, 0.1))
    tiny = tb.Inertia(1e-9, (0, 0, 0), (1e-9, 0, 0, 1e-9, 0, 1e-9))
    grips = np.array([[0.1, 0.3, 0.0], [0.9, -0.2, 0.4], [3.0, 0.0, 0.0]])
    bodies = [tb.Body("load", joint=tb.Free("load"), inertia=load)]
    loops = []
    for k, at in enumerate(map(tuple, grips)):
        hand = tb.Free(f"hand_{k}", pose=tb.Pose(translation=at))
        bodies.append(tb.Body(f"hand_{k}", joint=hand, inertia=tiny))
        hold = tb.Fixed(f"grip_{k}")
        end = tb.Pose(translation=at)
        loops.append(tb.LoopClosure(f"grip_{k}", f"hand_{k}", "load", hold, end))
    model = tb.Model("hands", bodies, loops=loops)
    plan = tb.LoadSharing.of(model, driven=[f"hand_{k}" for k in range(3)], torque_limits=False)
    arms = np.sum((grips - load.com) ** 2, axis=1)
    q = model.neutral()
    np.testing.assert_allclose(moment_weights(plan, q), 1.0 / arms.mean(), rtol=1e-12)
    two = moment_weights(plan, q, touching=[1, 1, 0])
    np.testing.assert_allclose(two[:6], 1.0 / arms[:2].mean(), rtol=1e-12)
    # one gripper has a lever, too
    one = moment_weights(plan, q, touching=[0, 1, 0])
    np.testing.assert_allclose(one[3:6], 1.0 / arms[1], rtol=1e-12)


def check_lever_of_machines():
    """Of a machine that stands on feet: their distance from the center of mass of all of it."""
    dog = tb.load("quadruped")
    rng = np.random.default_rng(6)
    q = np.array(dog.poses["stand"])
    q[7:] += 0.1 * rng.standard_normal(12)
    names = [body.name for body in dog.bodies if body.name.endswith("_shank")]
    sites = [tb.ContactSite(f"{name}_sole", name, 0.5, half_size=(0.1, 0.1)) for name in names]
    # a joint that nothing drives belongs to the machine
    driven = [name for name in dog.joint_names if name not in ("base", "front_left_knee")]
    plan = tb.LoadSharing.of(dog, sites=sites, driven=driven, torque_limits=False)
    center = np.asarray(tb.center_of_mass(dog, q))
    feet = np.array([tb.forward_kinematics(dog, q, name)[1] for name in names])
    square = np.mean(np.sum((feet - center) ** 2, axis=1))
    np.testing.assert_allclose(moment_weights(plan, q), 1.0 / square, rtol=1e-9)


def check_lever_of_a_held_object():
    """A machine that holds a load and stands: feet count from the machine, hands from the load."""
    box = tb.Inertia.box(4.0, (0.4, 0.2, 0.2), com=(0.05, 0.0, 0.02))
    arm = tb.Inertia.box(1.0, (0.1, 0.1, 0.5), com=(0.0, 0.1, 0.3))
    bodies = [
        tb.Body("base", joint=tb.Free("base"), inertia=box),
        tb.Body("arm", "base", joint=tb.Revolute("shoulder"), inertia=arm),
        tb.Body("load", joint=tb.Free("load"), inertia=tb.Inertia.box(0.5, (0.1,) * 3)),
    ]
    hand = tb.ContactSite("hand", "arm", 0.5, other="load", point=(0, 0, 0.5), torsion=0.1)
    foot = tb.ContactSite("foot", "base", 0.5, point=(0, 0.1, -0.2), half_size=(0.1, 0.1))
    model = tb.Model("waiter", bodies)
    plan = tb.LoadSharing.of(model, driven=["shoulder"], sites=[hand, foot])
    q = np.array(model.neutral())
    q[model.slice("load")][4:] = (0.0, 0.2, 0.6)
    machine = (4.0 * np.array([0.05, 0.0, 0.02]) + np.array([0.0, 0.1, 0.3])) / 5.0
    arms = np.array([[0, 0, 0.5], [0, 0.1, -0.2]]) - np.array([[0.0, 0.2, 0.6], machine])
    square = np.mean(np.sum(arms**2, axis=1))
    np.testing.assert_allclose(moment_weights(plan, q), 1.0 / square, rtol=1e-9)


CHECKS = {name: check for name, check in globals().items() if name.startswith("check_")}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Trace everything anew and compile nothing: formulas are tested here, not their code."""
    monkeypatch.setenv("TIBURON_CACHE_DIR", "off")
    monkeypatch.setenv("TIBURON_ENGINE", "interpreter")
    known = (functions._share, functions._matrices)
    kept = [dict(function.kernels) for function in known]
    for function in known:
        function.kernels.clear()
    forget_codes()
    yield
    forget_codes()
    for function, kernels in zip(known, kept, strict=True):
        function.kernels.clear()
        function.kernels.update(kernels)


@pytest.mark.parametrize("name", CHECKS)
def test_closed_form(name):
    """What the function of this name says."""
    CHECKS[name]()


# signs and values changed on purpose


def _squares(change):
    """Return a change of an objective: of each of its terms, by place."""

    def changed(original):
        def squares(self, problem, p, before):
            return [change(k, s) for k, s in enumerate(original(self, problem, p, before))]

        # only code of the package itself is keyed by name
        squares.__module__ = "tiburon"
        return squares

    return "squares", changed


def _rows(change):
    """Return a change of a limit: of each of its rows."""

    def changed(original):
        def rows(self, problem, p, now):
            return [change(row) for row in original(self, problem, p, now)]

        rows.__module__ = "tiburon"
        return rows

    return "rows", changed


def _pyramids(change):
    """Return a change of friction pyramids: of the places and the coefficient of each."""

    def changed(original):
        def pyramids(self, problem):
            found = [change(*one) for one in zip(*original(self, problem), strict=True)]
            return [places for places, _ in found], [mu for _, mu in found]

        pyramids.__module__ = "tiburon"
        return pyramids

    return "pyramids", changed


heavier = _squares(lambda k, s: s._replace(weight=(2.0 if k % 2 else 1.0) * s.weight))
opposite = _squares(lambda _, s: s._replace(offset=-s.offset))
rooted = _squares(lambda _, s: s._replace(weight=np.sqrt(s.weight)))
shifted = _squares(lambda k, s: s._replace(offset=s.offset + 1.0 + k * k))
loose = _rows(lambda row: row._replace(right=row.right - 1e3))
tight = _rows(lambda row: row._replace(right=row.right + 0.3))
reversed_rows = _rows(
    lambda row: row._replace(row={i: -x for i, x in row.row.items()}, right=-row.right)
)
wide = _pyramids(lambda places, mu: (places, 1e3 * mu))
narrow = _pyramids(lambda places, mu: (places, 0.9 * mu))
pulled = _pyramids(lambda places, mu: (places, -mu))

MUTATIONS = [
    (tb.TorqueNorm, heavier, check_torque_norm),
    (tb.TorqueNorm, opposite, check_torque_norm),
    (tb.MotorLoss, heavier, check_motor_loss),
    (tb.MotorLoss, opposite, check_motor_loss),
    (tb.MotorLoss, shifted, check_motor_loss),
    (tb.TorqueSmoothness, heavier, check_smoothness),
    (tb.TorqueSmoothness, opposite, check_smoothness),
    (tb.Smoothness, opposite, check_smoothness),
    (tb.EqualShare, heavier, check_equal_share),
    (tb.EqualShare, shifted, check_equal_share),
    (tb.LoadTarget, opposite, check_load_target),
    (tb.InternalForce, rooted, check_units),
    (torque.TorqueLimit, loose, check_torque_limits),
    (torque.TorqueLimit, tight, check_torque_limits),
    (torque.TorqueLimit, reversed_rows, check_torque_limits),
    (step.StepLimit, loose, check_step_limits),
    (step.StepLimit, tight, check_step_limits),
    (contact.FrictionPyramid, wide, check_friction),
    (contact.FrictionPyramid, narrow, check_friction),
    (contact.FrictionPyramid, pulled, check_friction),
    (contact.Unilateral, loose, check_contacts_push),
    (contact.Unilateral, reversed_rows, check_contacts_push),
    (contact.Torsion, loose, check_soft_fingers),
    (contact.Torsion, tight, check_soft_fingers),
    (contact.Torsion, reversed_rows, check_soft_fingers),
    (contact.NormalForceLimit, loose, None),
    (contact.NormalForceLimit, reversed_rows, None),
    (center_of_pressure.CenterOfPressure, loose, None),
    (center_of_pressure.CenterOfPressure, reversed_rows, None),
]


@pytest.mark.parametrize("place", range(len(MUTATIONS)))
def test_a_changed_sign_or_value_is_found(place, monkeypatch):
    """With a sign or a value of an objective or limit changed, its check fails."""
    kind, (attribute, change), check = MUTATIONS[place]
    if check is None:
        check = {
            contact.NormalForceLimit: (
                limit_tests.test_normal_forces_stay_between_given_ones_while_contacts_touch
            ),
            center_of_pressure.CenterOfPressure: (
                limit_tests.test_center_of_pressure_lies_below_the_center_of_mass_and_inside_the_sole
            ),
        }[kind]
    monkeypatch.setattr(kind, attribute, change(getattr(kind, attribute)))
    with pytest.raises(AssertionError):
        check()
