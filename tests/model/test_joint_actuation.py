"""Actuator force subspaces: what they can move, and what bearings carry."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import ROUNDING, random_inertia
from tests.robots import ROBOTS
from tiburon.spatial import Force

HINGE = tb.Revolute("hinge", (0, 1, 0))
CYLINDER = (0.0, 0.1, 0.0, 1.0, 0.0, 0.0)
"""Pushes along x, 0.1 m above the hinge."""


@pytest.mark.parametrize(
    ("joint", "actuators", "status"),
    [
        (HINGE, [CYLINDER], "fully actuated"),
        (HINGE, [CYLINDER, (0, 1, 0, 0, 0, 0)], "redundantly actuated"),
        (HINGE, [(1, 0, 0, 0, 0, 0)], "unactuated"),
        (HINGE, [], "unactuated"),
        (tb.Universal("cardan"), [CYLINDER], "underactuated"),
        (tb.Universal("cardan"), [CYLINDER, (1, 0, 0, 0, 0, 0)], "fully actuated"),
        (tb.Universal("cardan"), [CYLINDER, CYLINDER], "underactuated"),
        (tb.Free("float"), np.eye(6), "fully actuated"),
        (tb.Free("float"), np.vstack([np.eye(6), np.ones(6)]), "redundantly actuated"),
    ],
)
def test_joints_are_classified_by_the_rank_of_the_work_matrix(joint, actuators, status):
    """Featherstone 1987, section 7.4.2; independent of the units of the wrenches."""
    assert tb.joint_actuation(joint, actuators).status == status
    assert tb.joint_actuation(joint, 1e-7 * np.asarray(actuators)).status == status


def test_joint_force_has_the_power_of_the_actuators():
    """P = qd^T S^T F Qa (eq. 7.13), and back (eq. 7.14)."""
    rng = np.random.default_rng(1)
    joint = tb.Planar("slope", (0.6, 0.8, 0.0))
    q, qd = joint.random(rng), rng.standard_normal(3)
    F, Qa = rng.standard_normal((3, 6)), rng.standard_normal((4, 3))
    found = tb.joint_actuation(joint, F, q)
    power = [joint.motion(q, qd).dot(Force.from_array((F.T @ x).tolist())) for x in Qa]
    np.testing.assert_allclose(found.joint_force(Qa) @ qd, power, rtol=0, atol=ROUNDING)
    back = found.actuator_force(found.joint_force(Qa))
    np.testing.assert_allclose(back, Qa, rtol=0, atol=1e3 * ROUNDING)


def test_bearing_projector_keeps_forces_that_do_no_work():
    """S^T P = 0, P P = P, P F = 0 (eq. 7.15)."""
    rng = np.random.default_rng(2)
    joint = tb.Universal("cardan", (0, 0, 1), (1, 0, 0))
    found = tb.joint_actuation(joint, rng.standard_normal((2, 6)), joint.random(rng))
    P = found.bearing_projector()
    np.testing.assert_allclose(found.S.T @ P, 0.0, rtol=0, atol=100 * ROUNDING)
    np.testing.assert_allclose(P @ P, P, rtol=0, atol=100 * ROUNDING)
    np.testing.assert_allclose(P @ found.F, 0.0, rtol=0, atol=100 * ROUNDING)
    f = rng.standard_normal(6)
    total = found.F @ found.actuator_force(found.S.T @ f) + P @ f
    np.testing.assert_allclose(total, f, rtol=0, atol=100 * ROUNDING)


def test_cylinder_loads_the_bearing_where_a_couple_does_not():
    """1 N m about the hinge: the cylinder pushes with 10 N, which the bearing takes back."""
    f = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    load = tb.joint_actuation(HINGE, [CYLINDER]).bearing_projector() @ f
    np.testing.assert_allclose(load, (0, 0, 0, -10, 0, 0), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(tb.joint_actuation(HINGE).bearing_projector() @ f, 0, atol=ROUNDING)


def test_redundant_actuators_share_and_too_few_are_refused():
    over = tb.joint_actuation(HINGE, [(0, 1, 0, 0, 0, 0), (0, 2, 0, 0, 0, 0)])
    np.testing.assert_allclose(over.actuator_force([5.0]), (1.0, 2.0), rtol=0, atol=ROUNDING)
    with pytest.raises(tb.DomainError, match=r"fully actuated joint.*redundantly actuated"):
        over.bearing_projector()
    under = tb.joint_actuation(tb.Universal("cardan"), [CYLINDER])
    with pytest.raises(tb.DomainError, match=r"'cardan'.*all 2 degrees of freedom.*underactuated"):
        under.actuator_force([1.0, 2.0])
    with pytest.raises(tb.ShapeError, match="actuators"):
        tb.joint_actuation(HINGE, [[1, 2, 3]])


def test_report_names_every_joint_with_degrees_of_freedom():
    """Floating bases have no actuator unless one is named."""
    model = ROBOTS["orrery"]
    report = tb.actuation_report(model, {"j_nut": [], "j_fork": [CYLINDER]})
    expected = {joint.name: "fully actuated" for joint in model.joints}
    expected |= {"j_float": "unactuated", "j_nut": "unactuated", "j_fork": "underactuated"}
    assert {name: found.status for name, found in report.items()} == expected
    assert tb.actuation_report(model, {"j_float": np.eye(6)})["j_float"].status == "fully actuated"
    with pytest.raises(tb.UnknownNameError, match="j_nutt"):
        tb.actuation_report(model, {"j_nutt": []})


def pushed_arm():
    """Return an arm on a hinge with a ball joint at its elbow, and a kicked state with vd."""
    rng = np.random.default_rng(5)
    bodies = [
        tb.Body("arm", joint=HINGE, inertia=random_inertia(rng)),
        tb.Body("hand", "arm", joint=tb.Spherical("ball"), inertia=random_inertia(rng)),
    ]
    model = tb.Model("pushed", bodies)
    q, v = model.random_state(rng)
    return model, q, v, rng.standard_normal(model.nv)


def test_bearings_carry_the_rest_of_forces_of_offset_actuators():
    """Featherstone 1987, eqs. 7.14 and 7.15, at every joint of a moving robot."""
    model, q, v, vd = pushed_arm()
    rng = np.random.default_rng(6)
    lines = {"ball": rng.standard_normal((3, 6)), "hinge": [CYLINDER]}
    plain = tb.joint_reactions(model, q, v, vd)
    found = tb.joint_reactions(model, q, v, vd, actuators=lines)
    whole = plain.actuator + plain.bearing
    np.testing.assert_array_equal(found.tau, plain.tau)
    for place, name in enumerate(["hinge", "ball"]):
        power = tb.joint_actuation(model.joint(name), lines[name], q[model.slice(name)])
        bearing = power.bearing_projector() @ whole[place]
        # the work matrix of random lines is conditioned like 10
        scale = 1e3 * ROUNDING * np.abs(whole).max() * np.linalg.cond(power.work)
        np.testing.assert_allclose(found.bearing[place], bearing, rtol=0, atol=scale)
        np.testing.assert_allclose(
            found.actuator[place] + found.bearing[place], whole[place], rtol=0, atol=scale
        )
    assert np.abs(found.bearing - plain.bearing).max() > 0.1


def test_redundant_actuators_share_forces_by_least_squares():
    """A redundant hinge: the wrench of `JointActuation.actuator_force`, also in a batch."""
    model, q, v, vd = pushed_arm()
    lines = np.array([CYLINDER, (0.3, 1, 0, 0, 0, 2)])
    power = tb.joint_actuation(model.joint("hinge"), lines)
    found = tb.joint_reactions(model, np.stack([q, q]), v, vd, actuators={"hinge": lines})
    expected = power.F @ power.actuator_force(found.tau[0, :1])
    scale = 1e3 * ROUNDING * np.abs(expected).max()
    np.testing.assert_allclose(found.actuator[:, 0], [expected, expected], rtol=0, atol=scale)


@pytest.mark.parametrize(
    ("actuators", "message"),
    [
        ({"hing": [CYLINDER]}, "did you mean 'hinge'"),
        ({"hinge": CYLINDER}, r"actuators\['hinge'\]: expected \(..., actuators, 6\)"),
        (
            {"ball": [CYLINDER]},
            "expected at least one for each of 3 degrees of freedom",
        ),
        ({"hinge": [(1, 0, 0, 0, 0, 0)]}, "actuators that act on every degree of freedom"),
    ],
)
def test_actuators_that_cannot_hold_a_joint_are_refused(actuators, message):
    """Too few, of the wrong shape, or without work: named, with what to do."""
    model, q, v, vd = pushed_arm()
    with pytest.raises(tb.TiburonError, match=message):
        tb.joint_reactions(model, q, v, vd, actuators=actuators)
