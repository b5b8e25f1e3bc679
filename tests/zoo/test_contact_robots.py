"""Robots of the zoo that touch: each in its world, with one check of its physics."""

import math

import numpy as np
import pytest

import tiburon as tb

G = 9.81


def loaded(name):
    return tb.load(name), tb.load_world(name)


def test_block_slides_down_its_slope():
    """G (sin - mu cos), and the normal forces of its two edges (balance of moments)."""
    block, slope = loaded("block_slope")
    run = tb.simulate(block, 0.5, q=block.poses["rest"], world=slope)
    # constant accelerations are integrated exactly, to the tolerance of the impulses
    assert run.v[-1, 3] == pytest.approx(0.5 * 1.511540684, rel=1e-8)
    force = run.get("contact_force").values[-1, :, 2]
    ahead = run.get("contact_point").values[-1, :, 0] > run.q[-1, 4]
    assert force[ahead].sum() == pytest.approx(10.1402231, rel=1e-6)
    assert force[~ahead].sum() == pytest.approx(8.2965461, rel=1e-6)


def test_ball_rolls_down_its_slope():
    """5/7 g sin, while its contact sticks; first order in the step, from the first one."""
    ball, slope = loaded("ball_ramp")
    run = tb.simulate(ball, 0.5, q=ball.poses["rest"], world=slope, method=tb.RK4(dt=1e-4))
    velocity = run.get("body_velocity").values[-1, 0]
    assert velocity[3] == pytest.approx(0.5 * 2.396584004, rel=5e-4)
    assert velocity[1] * 0.05 == pytest.approx(velocity[3], rel=1e-5)
    assert run.contact_summary().slipping.max() == 0.0


def test_cradle_transmits_the_impulse():
    """Each of four collisions one after the other passes on (1 + e) / 2 of the speed."""
    cradle = tb.load("newtons_cradle")
    run = tb.simulate(
        cradle,
        0.35,
        q=cradle.poses["raised"],
        contact=tb.RigidContact(),
        method=tb.RK4(dt=1e-4),
        record=tb.Record(every=1),
    )
    before, after = np.abs(run.v[:, 0]).max(), np.abs(run.v[:, 4]).max()
    assert after / before == pytest.approx(0.975**4, rel=1e-4)
    # what the others keep: the rest of the momentum
    total = tb.momentum(cradle, run.q, run.v)[..., 3]
    struck = int(np.argmax(np.abs(run.v[:, 4]) > 1.0))
    assert total[struck + 1] == pytest.approx(total[struck - 8], rel=1e-2)


def test_rod_slides_with_the_force_of_painleve():
    """N = -m b / p at 45 degrees with friction 1.4, the contact end ahead."""
    rod, floor = loaded("painleve_rod")
    theta, half, mu = math.radians(45.0), 0.5, 1.4
    p = 1.0 + 3.0 * math.cos(theta) * (math.cos(theta) - mu * math.sin(theta))
    q = [0.0, half * math.sin(theta), theta]
    run = tb.simulate(
        rod,
        1e-4,
        q=q,
        v=[-1.0, 0.0, 0.0],
        world=floor,
        method=tb.RK4(dt=1e-5),
        record=tb.Record(every=1),
    )
    force = run.get("contact_force").values[1, 0]
    np.testing.assert_allclose(force, [mu * G / p, 0.0, G / p], rtol=1e-4)
    # sliding ahead, friction presses the rod against the floor: more than twice its weight
    assert force[2] > 2.0 * G


def test_wheel_walks_steadily():
    """Before and after each impact: the roots of the energy balance over one spoke."""
    wheel, slope = loaded("rimless_wheel")
    run = tb.simulate(
        wheel,
        6.0,
        q=[0.0, 0.5, 0.0],
        v=[1.1, 0.0, -2.2],
        world=slope,
        method=tb.RK4(dt=2e-4),
        record=tb.Record(every=1),
    )
    rate = -run.v[:, 2]
    impact = np.flatnonzero(np.diff(rate) < -0.2)
    assert len(impact) >= 10
    last = impact[-1]
    # the instant of the impact is known to a step
    assert rate[last] == pytest.approx(2.463799064, rel=1e-3)
    assert rate[last + 1] == pytest.approx(1.886495033, rel=1e-3)


def jellett(model, run, radius):
    """Angular momentum about the center of mass along the vector from there to the contact."""
    com = tb.center_of_mass(model, run.q)
    r = run.q[:, 4:7] - np.array([0.0, 0.0, radius]) - com
    return np.sum(tb.momentum(model, run.q, run.v)[:, :3] * r, axis=-1)


def spun(duration, dt):
    top, floor = loaded("tippe_top")
    v = [0.0, 0.0, 155.0, 0.0, 0.0, 0.0]
    return top, tb.simulate(
        top, duration, q=top.poses["leaning"], v=v, world=floor, method=tb.RK4(dt=dt)
    )


def test_top_conserves_jelletts_integral():
    """Friction acts at the contact, so that its moment along the radius vanishes."""
    errors = []
    for dt in (2e-4, 1e-4):
        top, run = spun(0.5, dt)
        assert run.contact_summary().slipping[0] > 0.9
        value = jellett(top, run, 0.02)
        errors.append(np.abs(value / value[0] - 1.0).max())
    assert errors[0] < 3e-4
    # of first order at least
    assert errors[1] < 0.6 * errors[0]


def test_top_turns_over():
    """Upside down after 15 s, its center of mass raised by 2 * 0.3 R."""
    top, run = spun(15.0, 2e-4)
    R, _ = tb.forward_kinematics(top, run.q, ["top"])
    assert R[0, 0, 2, 2] > 0.9
    assert R[-1, 0, 2, 2] < -0.99
    height = tb.center_of_mass(top, run.q)[:, 2]
    assert height[-1] - height[0] == pytest.approx(0.012, rel=0.05)
    energy = run.get("total_energy").values
    assert energy[-1] < energy[0]


def test_rattleback_turns_one_way_only():
    """Spun one way it continues; spun the other way it rattles, stops, and turns round."""
    stone, floor = loaded("rattleback")
    q = np.array(stone.poses["rest"])
    q[:4] = [math.cos(0.005), math.sin(0.005), 0.0, 0.0]
    start = tb.lift_out(stone, q, world=floor)
    ends = {}
    for spin in (5.0, -5.0):
        v = [0.0, 0.0, spin, 0.0, 0.0, 0.0]
        run = tb.simulate(stone, 8.0, q=start, v=v, world=floor, method=tb.RK4(dt=1e-4))
        ends[spin] = run.get("body_velocity").values[-1, 0, 2]
        energy = run.get("total_energy").values
        # rolling loses nothing, impacts of rattling lose something; nothing gains
        assert energy.max() < energy[0] * (1.0 + 1e-6)
    assert ends[5.0] == pytest.approx(5.0, rel=0.02)
    assert ends[-5.0] > 1.0


def stacked(count, duration):
    """The lowest boxes of the stack."""
    stack, floor = loaded("box_stack")
    few = tb.Model("few", stack.bodies[:count])
    pairs = [("box_1", "world"), *((f"box_{k}", f"box_{k + 1}") for k in range(1, count))]
    q = stack.poses["stack"][: 7 * count]
    return tb.simulate(few, duration, q=q, world=floor, contact=tb.DefaultContact(pairs=pairs))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 10])
def test_boxes_of_a_stack_carry_those_above(count):
    run = stacked(count, 0.1)
    force = run.get("contact_force")
    for k in range(count):
        under = "box_1/ground" if k == 0 else f"box_{k}/box_{k + 1}"
        points = [name for name in force.contact.values if name.startswith(f"{under}[")]
        total = force.sel(contact=points).values[-1, :, 2].sum()
        # forces act on the first body: on the lower box from above, on the lowest from the ground
        sign = 1.0 if k == 0 else -1.0
        assert sign * total == pytest.approx((count - k) * G, rel=1e-3)
    heights = run.q[-1, 6::7]
    np.testing.assert_allclose(heights, 0.1 * np.arange(count) + 0.05, atol=1e-8)


def test_boxes_of_a_stack_touch():
    """Four corners each, and no gap."""
    stack, floor = loaded("box_stack")
    pairs = [("box_1", "world"), ("box_4", "box_5")]
    here = tb.contacts(stack, stack.poses["stack"], world=floor, pairs=pairs)
    assert np.sum(np.abs(here.gap[:8]) < 1e-12) == 4
    assert np.sum(np.abs(here.gap[8:]) < 1e-12) >= 4
    assert here.gap.min() > -1e-12


def test_gripper_lifts_its_block_and_releases_it():
    gripper, floor = loaded("gripper_block")
    pairs = [("left_finger", "block"), ("right_finger", "block"), ("block", "world")]

    @tb.traced
    def grasp(state):
        grip = np.where(state.time < 1.2, 15.0, -5.0)
        height = 0.05 * np.clip((state.time - 0.3) / 0.5, 0.0, 1.0)
        lift = 1.2 * G + 800.0 * (height - state.q[0]) - 60.0 * state.v[0]
        return [lift, grip - 5.0 * state.v[1], grip - 5.0 * state.v[2], *[0.0] * 6]

    run = tb.simulate(
        gripper,
        1.6,
        q=gripper.poses["open"],
        world=floor,
        control=grasp,
        contact=tb.DefaultContact(pairs=pairs),
    )
    height = run.q[:, -1]
    held = (run.time > 0.35) & (run.time < 1.15)
    # the block moves with the palm: nothing creeps out of the fingers
    grasped = (height - run.q[:, 0])[held]
    np.testing.assert_allclose(grasped, grasped[0], atol=1e-8)
    assert height[held].max() > 0.075
    mode = run.get("contact_mode")
    fingers = [name for name in mode.contact.values if "finger" in name]
    assert not (mode.sel(contact=fingers).values[held] == 1).any()
    assert height[-1] == pytest.approx(0.03, abs=1e-6)


@pytest.mark.parametrize(
    "name",
    ["block_slope", "ball_ramp", "painleve_rod", "rimless_wheel", "tippe_top", "rattleback",
     "box_stack", "gripper_block"],
)  # fmt: skip
def test_files_hold_robot_and_world(name, tmp_path):
    """What is saved with its world is loaded with it."""
    model, world = loaded(name)
    assert world.ground is not None
    assert tb.save(model, tmp_path / "copy.toml", world=world) == ()
    assert tb.load(tmp_path / "copy.toml") == model
    assert tb.load_world(tmp_path / "copy.toml") == world
