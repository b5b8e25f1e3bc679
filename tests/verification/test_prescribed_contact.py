"""Contact with prescribed motion: belt, platform, press."""

import numpy as np
import pytest

import tiburon as tb

G = 9.81


def carrier(name, drive, path, size, below=0.5):
    """A box whose upper face is the origin's plane, moved as prescribed."""
    shape = tb.Shape(tb.BoxShape(size), tb.Pose(translation=(0, 0, -below * size[2])))
    return tb.Body(
        name, "world", joint=tb.Driven(name, drive, path), inertia=tb.Inertia.box(1.0, size),
        shapes=(shape,),
    )  # fmt: skip


def block(material, joint=None, shape=None):
    shape = shape or tb.BoxShape((0.2, 0.2, 0.2))
    return tb.Body(
        "block", "world", joint=joint or tb.Free("block"), inertia=tb.Inertia.box(1.0, (0.2,) * 3),
        shapes=(tb.Shape(shape, material=material),),
    )  # fmt: skip


def test_a_slider_on_a_belt_sticks_and_slips_with_the_period_of_the_closed_form():
    """M 1, k 100, mu 0.4 and 0.3, V 0.1: 2 A/V + (2/w)(pi - atan(A w/V)), A = (mus - muk) g/w^2."""
    k, mus, muk, V = 100.0, 0.4, 0.3, 0.1
    rail = tb.Body(
        "rail", "world", joint=tb.Prismatic("lift", axis=(0, 0, 1)),
        inertia=tb.Inertia(1e-9, (0, 0, 0), 1e-12 * np.eye(3)),
    )  # fmt: skip
    spring = tb.Prismatic("slide", axis=(1, 0, 0), passive=tb.JointPassive(stiffness=k))
    slider = tb.Body(
        "block", "rail", joint=spring, inertia=tb.Inertia.sphere(1.0, 0.1),
        shapes=(tb.Shape(tb.SphereShape(0.1), material=tb.ContactMaterial(mus, muk)),),
    )  # fmt: skip
    belt = carrier("belt", tb.Prismatic("run", (1, 0, 0)), tb.Polynomial((0.0, V)), (9, 1, 0.02))
    model = tb.Model("belt", [rail, slider, belt])
    w = np.sqrt(k)
    A = (mus - muk) * G / w**2
    period = 2 * A / V + 2 / w * (np.pi - np.arctan(A * w / V))
    assert period == pytest.approx(0.669357062342, abs=1e-12)
    errors = []
    for dt in (1e-3, 2.5e-4):
        run = tb.simulate(
            model, 7.5, q=[0.1, 0.0], world=tb.World(),
            contact=tb.DefaultContact(pairs=[("block", "belt")]),
            method=tb.RK4(dt=dt),
            record=tb.Record(dt=dt),
        )  # fmt: skip
        sticks = np.abs(run.v[:, 1] - V) < 1e-9
        (slips,) = np.nonzero(sticks[:-1] & ~sticks[1:])
        assert len(slips) > 9
        # one period is known to a step, ten of them to a tenth of it
        errors.append(abs((run.time[slips[-1]] - run.time[slips[0]]) / (len(slips) - 1) - period))
        assert errors[-1] < dt
    assert errors[1] < 0.5 * errors[0] + 1e-5


def test_a_platform_carries_a_block_and_loses_it_where_it_falls_faster():
    """Up and down by 0.05 m: contact while the platform accelerates by less than g downward."""
    for hertz, stays in ((2.0, True), (3.0, False)):
        path = tb.Harmonic(0.05, frequency=hertz)
        lift = carrier("platform", tb.Prismatic("up", (0, 0, 1)), path, (1, 1, 0.1))
        model = tb.Model("lift", [block(tb.ContactMaterial(0.5)), lift])
        run = tb.simulate(
            model, 1.0, q=[1, 0, 0, 0, 0, 0, 0.1], v=[0, 0, 0, 0, 0, 0.1 * np.pi * hertz],
            world=tb.World(),
            contact=tb.DefaultContact(pairs=[("block", "platform")]), record=tb.Record(dt=0.01),
        )  # fmt: skip
        height = run.q[:, 6] - 0.1 - 0.05 * np.sin(2 * np.pi * hertz * run.time)
        assert height.min() > -1e-9
        # forces of constant acceleration within a step: gaps of second order
        assert (height.max() < 1e-5) == stays
        assert ((0.05 * (2 * np.pi * hertz) ** 2) < G) == stays
        depth = run.contact_summary().depth
        assert depth.max() < 1e-9


def test_a_turntable_carries_a_block_until_friction_is_exceeded():
    """Centripetal acceleration w^2 r up to mu g: it stays on the table, else it slides off."""
    for speed, stays in ((3.0, True), (3.7, False)):
        table = carrier(
            "table", tb.Revolute("turn", (0, 0, 1)), tb.Polynomial((0.0, speed)), (3, 3, 0.1)
        )
        model = tb.Model("table", [block(tb.ContactMaterial(0.5)), table])
        r = 0.4
        run = tb.simulate(
            model, 0.6, q=[1, 0, 0, 0, r, 0, 0.1], v=[0, 0, speed, 0, r * speed, 0],
            world=tb.World(),
            contact=tb.DefaultContact(pairs=[("block", "table")]), method=tb.RK4(dt=1e-3),
        )  # fmt: skip
        assert (speed**2 * r < 0.5 * G) == stays
        radius = np.hypot(run.q[-1, 4], run.q[-1, 5])
        assert (abs(radius - r) < 1e-4) == stays
        angle = np.arctan2(run.q[-1, 5], run.q[-1, 4])
        assert not stays or abs(angle - speed * 0.6) < 1e-4


def test_contacts_depend_on_time():
    path = tb.Polynomial((0.0, -0.5))
    lift = carrier("platform", tb.Prismatic("up", (0, 0, 1)), path, (1, 1, 0.1))
    model = tb.Model("lift", [block(None, shape=tb.SphereShape(0.1)), lift])
    q, pairs = [1, 0, 0, 0, 0, 0, 0.1], [("block", "platform")]
    here = tb.contacts(model, np.tile(q, (2, 1)), np.zeros(6), pairs=pairs, time=[0.0, 0.2])
    np.testing.assert_allclose(here.gap[:, 0], [0.0, 0.1], atol=1e-12)
    np.testing.assert_allclose(here.velocity[:, 0], [[0, 0, -0.5]] * 2, atol=1e-12)
    lowered = tb.lift_out(model, [1, 0, 0, 0, 0, 0, -0.05], pairs=pairs, time=0.2)
    np.testing.assert_allclose(lowered[6], 0.0, atol=1e-12)


def test_a_press_against_the_ground_contradicts_itself():
    """A block between a press and the ground: the outcome names the contact and the cause."""
    press = carrier(
        "press", tb.Prismatic("down", (0, 0, 1)), tb.Polynomial((0.35, -0.2)), (0.2,) * 3, 0.0
    )
    model = tb.Model("press", [block(tb.ContactMaterial(0.5)), press])
    floor = tb.World(ground=tb.Ground(static_friction=0.5))
    run = tb.simulate(model, 1.0, q=[1, 0, 0, 0, 0, 0, 0.1], world=floor)
    assert run.status == "diverged"
    assert 0.2 < run.outcome.time < 0.3
    assert "contact 'block/" in run.outcome.message
    # impulses of a solver that presses harder and harder have a residual of 1e-4 of themselves
    assert "which goes on closing at 0." in run.outcome.message
    assert "prescribed motion" in run.outcome.message


def pressed(path, mu, **more):
    """Return a ball on the ground under a press, and the ground."""
    press = carrier("press", tb.Prismatic("down", (0, 0, 1)), path, (0.2,) * 3, -1.0)
    ball = block(tb.ContactMaterial(mu), shape=tb.SphereShape(0.1))
    return tb.Model("press", [ball, press]), tb.World(ground=tb.Ground(static_friction=mu))


@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_contradictions_of_prescribed_motion_name_joint_and_contacts(mu):
    """A press that accelerates into a ball on the ground, and one that hits it."""
    q, v, tau = [1, 0, 0, 0, 0, 0, 0.1], np.zeros(6), np.zeros(6)
    joint = r"prescribed motion of joint 'press' presses them together.*change the path"
    # at rest, 0.5 m/s^2 downward
    model, floor = pressed(tb.Polynomial((0.1, 0.0, -0.25)), mu)
    message = r"^contacts 'block/ground' 1, 'block/press' 1: .*forces.*" + joint
    with pytest.raises(tb.SecondOrderCollisionError, match=message) as caught:
        tb.contact_dynamics(model, q, v, tau, world=floor)
    assert caught.value.closing == pytest.approx(-0.5)
    assert caught.value.joints == ("press",)
    run = tb.simulate(model, 0.1, q=q, world=floor, contact=tb.ExactContact())
    assert run.status == "diverged"
    assert "joint 'press' presses them together" in run.outcome.message
    # away from the ball: nothing is pressed
    model, floor = pressed(tb.Polynomial((0.1, 0.0, 0.25)), mu)
    assert "breaking" in tb.contact_dynamics(model, q, v, tau, world=floor).modes
    # at 0.2 m/s into it
    model, floor = pressed(tb.Polynomial((0.1, -0.2)), mu)
    message = r"^contacts 'block/ground' 1, 'block/press' 1: .*impulses.*" + joint
    with pytest.raises(tb.SecondOrderCollisionError, match=message) as caught:
        tb.impact(model, [q, q], [v, v], world=floor)
    assert caught.value.closing == pytest.approx(-0.2)
    run = tb.simulate(model, 0.1, q=q, world=floor, contact=tb.ExactContact())
    assert run.status == "diverged"
    assert "joint 'press' presses them together" in run.outcome.message


def test_a_bat_hits_a_ball_at_the_speed_of_its_path():
    """Upward at 2 m/s at 0.5 s: e of the relative speed, friction to rolling; once it is late."""
    path = tb.Polynomial((-1.25, 3.0, -1.0))
    bat = carrier("bat", tb.Prismatic("up", (0, 0, 1)), path, (1, 1, 0.1))
    model = tb.Model("bat", [block(tb.ContactMaterial(1.0), shape=tb.SphereShape(0.1)), bat])
    height = -1.25 + 1.5 - 0.25 + 0.1
    q = np.tile([1.0, 0, 0, 0, 0.1, 0.2, height], (3, 1))
    v = np.array([[0, 0, 0, 1.0, 0, -1.0], [0, 0, 0, 1.0, 0, 3.0], [0, 0, 0, 0, 0, -1.0]])
    after = tb.impact(model, q, v, pairs=[("block", "bat")], restitution=0.5, time=0.5)
    # the block is a ball with the inertia of a box of 0.2 m: rolling takes 1 / (1 + m r^2 / I)
    inertia = 0.2**2 / 6
    share = inertia / (inertia + 0.1**2)
    np.testing.assert_allclose(after.v[0, 3:], [1 - share, 0.0, 3.5], atol=1e-12)
    np.testing.assert_allclose(after.v[0, 1], (1 - share) / 0.1, atol=1e-11)
    np.testing.assert_array_equal(after.v[1], v[1])
    np.testing.assert_allclose(after.v[2], [0, 0, 0, 0, 0, 3.5], atol=1e-12)
    # dissipated at the contact: half the relative kinetic energy (1 - e^2), and the slip
    lost = 0.5 * 3.0**2 * 0.75 + 0.5 * share
    np.testing.assert_allclose(after.energy_change, [-lost, 0.0, -0.5 * 9 * 0.75], atol=1e-12)


def test_a_platform_loses_a_ball_at_the_instant_of_the_closed_form():
    """Event-driven: 0.05 m at 3 Hz falls faster than the ball from asin(g / (A w^2)) / w on."""
    w = 2 * np.pi * 3.0
    path = tb.Harmonic(0.05, frequency=3.0)
    lift = carrier("platform", tb.Prismatic("up", (0, 0, 1)), path, (1, 1, 0.1))
    model = tb.Model("lift", [block(tb.ContactMaterial(0.5), shape=tb.SphereShape(0.1)), lift])
    run = tb.simulate(
        model, 0.3, q=[1, 0, 0, 0, 0, 0, 0.1], v=[0, 0, 0, 0, 0, 0.05 * w], world=tb.World(),
        contact=tb.ExactContact(pairs=[("block", "platform")]), record=tb.Record(dt=0.05),
    )  # fmt: skip
    events = {event.name.rpartition(".")[2]: event.time for event in run.events}
    assert events["lift_off"] == pytest.approx(np.arcsin(G / (0.05 * w**2)) / w, abs=1e-12)
    # free flight until the platform is back
    t0, t1 = events["lift_off"], events["impact"]
    height = 0.05 * np.sin(w * t0) + 0.05 * w * np.cos(w * t0) * (t1 - t0) - G / 2 * (t1 - t0) ** 2
    assert height == pytest.approx(0.05 * np.sin(w * t1), abs=1e-12)
