"""Wheels turn far: results at 1e7 rad are those at the angle less all whole turns."""

import mpmath
import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_axis, random_inertia, random_pose
from tiburon.algorithms.like_branches import like_branches
from tiburon.functions import kernel_source
from tiburon.trace import trace

TOLERANCE = 1e-13
"""Rounding of reduced angles, 4e-16 rad, in products of a few rotations; sums with an angle of
1e7 rad would lose 1e-9."""


def chain(links, gears=False):
    """Return a chain of hinges and screws in turned frames, one with a follower."""
    rng = np.random.default_rng(links)
    bodies = []
    for k in range(links):
        kind = tb.Screw if k == 1 else tb.Revolute
        more = {"offset": 0.4, "pitch": 0.0, "lead": 0.1} if k == 1 else {"offset": 0.3 * (k % 2)}
        axis = np.eye(3)[k % 3] if k % 4 else random_axis(rng)
        joint = kind(f"j{k}", axis, pose=random_pose(rng), **more)
        parent = f"b{k - 1}" if k else "world"
        bodies.append(tb.Body(f"b{k}", parent, joint=joint, inertia=random_inertia(rng)))
    if gears:
        turn = tb.Revolute("turn", random_axis(rng), offset=0.8)
        # products of angles in eighths and 3 are exact
        gear = tb.Coupled("gear", turn, "j0", -3.0, offset=0.7, pose=random_pose(rng))
        bodies.append(tb.Body("wheel", "b1", joint=gear, inertia=random_inertia(rng)))
    return tb.Model("chain", bodies)


def legs():
    """Return four legs on a table, some at right angles, alike but for numbers."""
    rng = np.random.default_rng(4)
    bodies = []
    for leg in range(4):
        turn = tb.Pose.from_rpy((0.0, 0.0, 0.35 * leg * (leg % 2) + 0.5 * np.pi * leg))
        place = tb.Pose(turn.rotation, rng.uniform(-0.3, 0.3, 3))
        parent = "world"
        for k, axis in enumerate(((0, 0, 1), (0, 1, 0), (0, 1, 0))):
            joint = tb.Revolute(f"j{leg}{k}", axis, pose=place, offset=0.2 * leg + 0.1)
            inertia = random_inertia(rng)
            bodies.append(tb.Body(f"b{leg}{k}", parent, joint=joint, inertia=inertia))
            parent, place = f"b{leg}{k}", tb.Pose(translation=rng.uniform(-0.3, 0.3, 3))
    return tb.Model("legs", bodies)


def kinds():
    """Return a chain of the other joints that turn, in turned frames."""
    rng = np.random.default_rng(8)
    across = np.cross(axis := random_axis(rng), random_axis(rng))
    far_offset = tb.Revolute("far_offset", random_axis(rng), offset=1e7, pose=random_pose(rng))
    carried = tb.Revolute("carried", random_axis(rng), offset=0.3, pose=random_pose(rng))
    crank = tb.Revolute("crank", random_axis(rng), offset=0.6)
    speed = tb.Polynomial((0.1, 3.0))
    joints = (
        tb.Cylindrical("cylindrical", random_axis(rng), pose=random_pose(rng)),
        tb.Universal("universal", axis, across / np.linalg.norm(across), pose=random_pose(rng)),
        tb.Planar("planar", random_axis(rng), pose=random_pose(rng)),
        tb.Driven("driven", crank, speed, carried=carried, pose=random_pose(rng)),
        far_offset,
    )
    parents = ("world", *(joint.name for joint in joints))
    return tb.Model(
        "kinds",
        [
            tb.Body(joint.name, parent, joint=joint, inertia=random_inertia(rng))
            for joint, parent in zip(joints, parents, strict=False)
        ],
    )


MODELS = {
    "inlined": chain(4),
    "geared": chain(3, gears=True),
    "tape": chain(48),
    "lanes": legs(),
    "kinds": kinds(),
}
SLIDES = ("cylindrical.slide", "planar.x", "planar.y")


def less_turns(angle):
    """Return an angle less all whole turns."""
    return angle - 2 * mpmath.pi * mpmath.nint(angle / (2 * mpmath.pi))


def far(model, seed):
    """Return angles up to 1e7 rad in eighths, and the same less all whole turns."""
    q = np.random.default_rng(seed).integers(-8e7, 8e7, model.nq) / 8.0
    q[[name in SLIDES for name in model.q_names]] = 0.25
    with mpmath.workdps(40):
        return q, np.array([float(less_turns(mpmath.mpf(x))) for x in q])


def test_models_take_the_paths_that_they_are_named_after():
    assert len(MODELS["tape"].plan.bodies) > kernel_source.INLINED_BODIES
    found = []
    trace(lambda x: found.append(like_branches(MODELS["lanes"].plan)) or x, {"x": ()})
    assert found[0]
    assert MODELS["geared"].plan.has_couplings


@pytest.mark.parametrize("name", MODELS)
def test_angles_of_placements_cost_no_digits_at_large_angles(name):
    model = MODELS[name]
    q, near = far(model, 3)
    v, vd = np.random.default_rng(4).standard_normal((2, model.nv)) / (1 + model.nv // 10)
    for function in (tb.inverse_dynamics, tb.forward_dynamics):
        expected, found = (function(model, x, v, vd) for x in (near, q))
        scale = np.abs(expected).max()
        if function is tb.forward_dynamics:
            scale *= np.linalg.cond(tb.mass_matrix(model, near))
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * scale)
    frame = model.body_names[-1]
    for ours, theirs in zip(
        *(tb.forward_kinematics(model, x, frame) for x in (q, near)), strict=True
    ):
        np.testing.assert_allclose(
            ours, theirs, rtol=0, atol=TOLERANCE * max(1, np.abs(theirs).max())
        )


def test_a_turned_pendulum_at_large_angles_has_its_weight():
    """The closed form m g l sin(q + angle), with all digits of the sum."""
    c, s = np.cos(0.7), np.sin(0.7)
    hinge = tb.Revolute("hinge", (0, 1, 0), pose=tb.Pose([[c, 0, s], [0, 1, 0], [-s, 0, c]]))
    bob = tb.Inertia.point(1.0, (0, 0, -1.0))
    model = tb.Model("pendulum", [tb.Body("bob", joint=hinge, inertia=bob)])
    for q in (1e3 + 0.123, 1e5 + 0.123, 1e7 + 0.123, -9e7 + 0.123):
        with mpmath.workdps(40):
            exact = 9.81 * mpmath.sin(mpmath.mpf(q) + mpmath.atan2(s, c))
        # 2 ulp of the sine, and products
        np.testing.assert_allclose(tb.gravity_force(model, [q]), float(exact), rtol=1e-15)


RATIOS = (2.0, 2.5, -3.0, 100.0, 1 / 3, 17.123)


def train(ratio, screw=False, links=0):
    """Return a pendulum that follows a flywheel, with more links for the code of large robots."""
    spin = tb.Inertia(1.0, (0, 0, 0), (1, 0, 0, 1, 0, 1))
    turn = tb.Revolute("turn", (0, 1, 0), offset=0.2)
    if screw:
        turn = tb.Screw("turn", (0, 1, 0), offset=0.2, pitch=0.01, lead=0.3)
    follower = tb.Coupled("follower", turn, "flywheel", ratio, offset=1e7, pose=PLACED)
    bodies = [
        tb.Body("wheel", joint=tb.Revolute("flywheel", (0, 0, 1)), inertia=spin),
        tb.Body("bob", joint=follower, inertia=tb.Inertia.point(2.0, (0, 0, -1.5))),
    ]
    for k in range(links):
        bodies.append(tb.Body(f"b{k}", joint=tb.Revolute(f"j{k}"), inertia=spin))
    return tb.Model("train", bodies)


PLACED = tb.Pose.from_rpy((0.0, 0.4, 0.0))


@pytest.mark.parametrize("links", [0, 48], ids=["inlined", "tape"])
@pytest.mark.parametrize("screw", [False, True], ids=["revolute", "screw"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_followers_turn_by_the_exact_product_of_ratio_and_position(ratio, screw, links):
    """Weight m g l r sin(r q + offsets) of a geared pendulum and its derivative, to rounding."""
    model = train(ratio, screw, links)
    lead = 1e7 / max(1.0, abs(ratio)) + 0.123
    q = np.zeros((3, model.nq))
    q[:, 0] = lead, -lead, 1.0
    still = np.zeros_like(q)
    weight = tb.gravity_force(model, q)[:, 0]
    slope = tb.inverse_dynamics_derivatives(model, q, still, still).by_q[:, 0, 0]
    c, s = PLACED.rotation[0][0], PLACED.rotation[0][2]
    for case, position in enumerate(q[:, 0]):
        with mpmath.workdps(40):
            angle = mpmath.mpf(ratio) * mpmath.mpf(position) + mpmath.mpf(1e7) + mpmath.mpf(0.2)
            angle += mpmath.atan2(s, c)
            size = 2.0 * 9.81 * 1.5 * mpmath.mpf(ratio)
            exact = size * mpmath.sin(angle), size * ratio * mpmath.cos(angle)
        # rounding of the fine part of the angle: of the ratio, not of the angle
        for found, right, scale in zip(
            (weight[case], slope[case]), exact, (size, size * ratio), strict=True
        ):
            atol = 1e-15 * (2 + abs(ratio)) * abs(float(scale))
            np.testing.assert_allclose(found, float(right), rtol=0, atol=atol)


def test_screws_far_away_advance_by_all_turns():
    """Whole turns that offsets leave out of the angle are not left out of the displacement."""
    model = train(2.5, screw=True)
    _, position = tb.forward_kinematics(model, [3.0], "bob")
    np.testing.assert_allclose(position[1], 0.01 * (7.5 + 1e7 + 0.2) + 0.3, rtol=1e-15)
