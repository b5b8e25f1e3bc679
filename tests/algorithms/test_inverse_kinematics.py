"""Inverse kinematics: targets of every kind, limits, starts, convergence, outcomes."""

import itertools

import numpy as np
import pytest

import tiburon as tb
from tests.algorithms.on_floats import on_floats
from tests.oracles import absolute
from tests.robots import ROBOTS
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.spatial import linear_invariant_rates, linear_invariants

REACHED, STALLED, CUT_OFF = tb.InverseKinematicsOutcome
TOLERANCE = 1e-9
"""The default: what `reached` promises."""

PANDA = ROBOTS["panda"]
HAND = PANDA.frame_names[-1]


def reachable(model, seed, *frames, shape=()):
    """Return a start, and the poses of frames at a position nearby: (q, [(R, p), ...])."""
    rng = np.random.default_rng(seed)
    goal, _ = model.random_state(rng, shape)
    start = model.integrate(goal, 0.4 * rng.standard_normal((*shape, model.nv)))
    return start, [tb.forward_kinematics(model, goal, name) for name in frames]


def pose_in(model, q, name, base="world"):
    """Return the homogeneous matrix of a frame in another, by an independent way."""
    there, here = (absolute.frame_pose(model, q, each) for each in (base, name))
    return np.linalg.inv(there) @ here


@pytest.mark.parametrize("kind", ["both", "position", "orientation"])
@pytest.mark.parametrize("name", ["panda", "odd_arm", "balloon", "screw_chain"])
def test_frames_reach_their_targets(name, kind):
    """The pose found equals the one wanted, in the parts that count."""
    model = ROBOTS[name]
    frame = model.frame_names[-1]
    start, [(R, p)] = reachable(model, 1, frame)
    target = tb.FrameTarget(
        frame,
        position=None if kind == "orientation" else p,
        orientation=None if kind == "position" else R,
    )
    found = tb.inverse_kinematics(model, start, target, starts=5)
    assert found.reached
    assert found.outcome == REACHED
    assert found.error <= TOLERANCE
    pose = pose_in(model, found.q, frame)
    if kind != "orientation":
        assert_close(pose[:3, 3], p, 2.0 * TOLERANCE)
    if kind != "position":
        assert_close(pose[:3, :3], R, 2.0 * TOLERANCE)


def test_several_frames_at_once():
    """All feet of a floating robot."""
    model = ROBOTS["quadruped"]
    bodies = model.plan.bodies
    feet = [body.name for body in bodies if not body.children]
    start, poses = reachable(model, 2, *feet)
    targets = [tb.FrameTarget(foot, position=p) for foot, (_, p) in zip(feet, poses, strict=True)]
    found = tb.inverse_kinematics(model, start, targets)
    assert found.reached
    for foot, (_, p) in zip(feet, poses, strict=True):
        assert_close(pose_in(model, found.q, foot)[:3, 3], p, 2.0 * TOLERANCE)
    # quaternions come back with length 1
    assert_close(np.linalg.norm(found.q[:4]), 1.0)


def test_targets_relative_to_a_frame_that_moves():
    """A hand keeps its pose in another moving link; what carries both stays where it is."""
    model = ROBOTS["forest"]
    rng = np.random.default_rng(3)
    goal, _ = model.random_state(rng)
    wanted = pose_in(model, goal, "e", "d")
    start = model.integrate(goal, 0.3 * rng.standard_normal(model.nv))
    target = tb.FrameTarget(
        "e", position=wanted[:3, 3], orientation=wanted[:3, :3], relative_to="d"
    )
    found = tb.inverse_kinematics(model, start, target, starts=4)
    assert found.reached
    assert_close(pose_in(model, found.q, "e", "d"), wanted, 2.0 * TOLERANCE)
    once = tb.inverse_kinematics(model, start, target)
    floating = model.slice("j_c")
    assert_close(once.q[floating], start[floating])


def test_convergence_is_quadratic():
    """Each error is at most a constant times the square of the one before, down to rounding."""
    start, [(R, p)] = reachable(PANDA, 4, HAND)
    target = tb.FrameTarget(HAND, position=p, orientation=R)
    errors = [
        float(tb.inverse_kinematics(PANDA, start, target, max_iterations=n, tolerance=1e-14).error)
        for n in range(3, 10)
    ]
    near = [e for e in errors if 1e-14 < e < 0.1]
    assert len(near) >= 3
    orders = [np.log(b) / np.log(a) for a, b in itertools.pairwise(near)]
    # the last error may be cut short by rounding: at most 1e-14
    assert all(b <= 20.0 * a * a + 1e-14 for a, b in itertools.pairwise(near)), near
    assert max(orders) > 1.7, near


def test_linear_invariants_of_a_hand_change_by_H_times_its_jacobian():
    """G = H J of Nahon 1991, eqs. 3.19 and 3.20, against central differences in every joint."""
    q = np.array([0.1, 0.4, -0.2, -1.6, 0.3, 2.0, 0.5])

    def invariants(position):
        R, _ = tb.forward_kinematics(PANDA, position, HAND)
        vector, scalar = linear_invariants(R.tolist())
        return np.array([*vector, scalar])

    R, _ = tb.forward_kinematics(PANDA, q, HAND)
    G = np.array(linear_invariant_rates(R.tolist())) @ tb.frame_jacobian(PANDA, q, HAND)[:3]
    h = DIFFERENCE_STEP
    for k, unit in enumerate(np.eye(7)):
        rate = (invariants(q + h * unit) - invariants(q - h * unit)) / (2.0 * h)
        assert_close(G[:, k], rate, DIFFERENCE)


def test_rigidly_connected_frames_are_reported_as_outcome():
    """A frame fixed on the other: met if it is there already, else as far off as it is."""
    model = ROBOTS["odd_arm"]
    q = np.full(6, 0.3)
    wanted = pose_in(model, q, "tip", "link_5")
    met = tb.FrameTarget("tip", position=wanted[:3, 3], relative_to="link_5")
    assert tb.inverse_kinematics(model, q, met).reached
    off = tb.FrameTarget("tip", position=wanted[:3, 3] + [0.0, 0.0, 0.2], relative_to="link_5")
    found = tb.inverse_kinematics(model, q, off, starts=2)
    assert found.outcome == STALLED
    assert_close(found.error, 0.2)


def test_a_target_half_a_turn_away_is_reached():
    """The linear invariants vanish at half a turn; the search must not stand still there."""
    q = np.array([0.1, 0.4, -0.2, -1.6, 0.3, 2.0, 0.5])
    R, p = tb.forward_kinematics(PANDA, q, HAND)
    flipped = R @ np.diag([-1.0, -1.0, 1.0])
    found = tb.inverse_kinematics(
        PANDA, q, tb.FrameTarget(HAND, position=p, orientation=flipped), starts=3
    )
    assert found.reached
    assert_close(pose_in(PANDA, found.q, HAND)[:3, :3], flipped, 2.0 * TOLERANCE)
    spin = tb.inverse_kinematics(PANDA, q, tb.FrameTarget(HAND, orientation=flipped))
    assert spin.reached


def test_solutions_stay_within_limits():
    """Of a batch with tight limits, every reached position respects them, to the bit."""
    rng = np.random.default_rng(5)
    low, high = np.full(7, -1.0), np.full(7, 1.2)
    goal = rng.uniform(low, high, (64, 7))
    R, p = tb.forward_kinematics(PANDA, goal, HAND)
    limits = {name: (low[k], high[k]) for k, name in enumerate(PANDA.joint_names[:7])}
    target = tb.FrameTarget(HAND, position=p, orientation=R)
    found = tb.inverse_kinematics(PANDA, np.full(7, 0.1), target, limits=limits, starts=20)
    assert np.all(found.q >= low)
    assert np.all(found.q <= high)
    # the goals were drawn within the limits, so that all can be reached
    assert found.reached.all()
    free = tb.inverse_kinematics(PANDA, np.full(7, 0.1), target, starts=20)
    # the limits matter here
    assert np.any((free.q < low) | (free.q > high))


def test_a_solution_on_a_limit_is_found():
    """The limit holds a joint exactly where the target needs it."""
    model = ROBOTS["double_pendulum"]
    goal = np.array([0.5, 0.8])
    tip = model.frame_names[-1]
    R, _ = tb.forward_kinematics(model, goal, tip)
    target = tb.FrameTarget(tip, orientation=R)
    found = tb.inverse_kinematics(model, [0.0, 0.0], target, limits={"elbow": (-1.0, 0.3)})
    assert found.reached
    assert found.q[1] <= 0.3
    assert_close(found.q.sum(), goal.sum(), 2.0 * TOLERANCE)
    # a joint at its limit is left out of the steps, so that they stay Newton's for the others
    assert found.iterations <= 10


def test_unreachable_targets_are_outcomes_with_the_nearest_position():
    """A target beyond the circle of a bob: it points there, and reports the remaining error."""
    rod = ROBOTS["pendulum"].bodies[0]
    length = 0.7
    tip = tb.Frame("tip", "rod", tb.Pose(translation=(0.0, 0.0, -length)))
    model = tb.Model("pendulum", [rod], [tip])
    found = tb.inverse_kinematics(model, [0.2], tb.FrameTarget("tip", position=(1.0, 0.0, 0.0)))
    assert found.outcome == STALLED
    assert not found.reached
    # nearest point of the circle: (length, 0, 0); a fading gain of 1e-5 leaves an angle of 1e-2
    assert_close(found.position_error, 1.0 - length, 1e-3)
    assert found.orientation_error == 0.0
    assert "out of reach" in STALLED.sentence
    limited = tb.inverse_kinematics(
        model,
        [0.2],
        tb.FrameTarget("tip", position=(0.0, 0.0, -length)),
        limits={"pivot": (0.1, 1)},
    )
    assert limited.outcome == STALLED
    assert_close(limited.q, [0.1])
    assert_close(limited.error, 2.0 * length * np.sin(0.05))


def test_running_out_of_iterations_is_another_outcome():
    """Cut off is not stalled."""
    start, [(R, p)] = reachable(PANDA, 6, HAND)
    target = tb.FrameTarget(HAND, position=p, orientation=R)
    found = tb.inverse_kinematics(PANDA, start, target, max_iterations=2)
    assert found.outcome == CUT_OFF
    assert found.iterations == 2
    assert found.error > TOLERANCE
    assert "allow more" in CUT_OFF.sentence
    assert "within the tolerance" in REACHED.sentence


def test_additional_starts_never_worsen_the_result():
    """Random starts serve the cases that failed; the others keep their bits."""
    rng = np.random.default_rng(7)
    goal = rng.uniform(-2.0, 2.0, (40, 7))
    R, p = tb.forward_kinematics(PANDA, goal, HAND)
    start = rng.uniform(-1.0, 1.0, (40, 7))
    target = tb.FrameTarget(HAND, position=p, orientation=R)
    one = tb.inverse_kinematics(PANDA, start, target)
    many = tb.inverse_kinematics(PANDA, start, target, starts=12)
    assert not one.reached.all()
    assert many.reached.all()
    assert np.array_equal(many.q[one.reached], one.q[one.reached])
    again = tb.inverse_kinematics(PANDA, start, target, starts=12)
    assert np.array_equal(many.q, again.q)


def test_batches_are_loops_over_cases_to_the_bit():
    """Broadcasting one start over many targets, in two batch dimensions."""
    start, [(R, p)] = reachable(PANDA, 8, HAND, shape=(2, 5))
    target = tb.FrameTarget(HAND, position=p, orientation=R)
    found = tb.inverse_kinematics(PANDA, start[0, 0], target, starts=3)
    assert found.q.shape == (2, 5, 7)
    assert found.outcome.shape == found.error.shape == found.iterations.shape == (2, 5)
    one = tb.inverse_kinematics(
        PANDA, start[0, 0], tb.FrameTarget(HAND, position=p[1, 3], orientation=R[1, 3]), starts=3
    )
    assert np.array_equal(one.q, found.q[1, 3])
    assert one.iterations == found.iterations[1, 3]


def test_floats_and_native_code_find_the_same_position():
    """The loop stepped through in Python ends where the compiled one does."""
    start, [(R, p)] = reachable(PANDA, 9, HAND)
    options = (
        ("targets", ((HAND, "world", True, True),)),
        ("limited", ()),
        ("max_iterations", 100),
    )
    slow = on_floats("inverse_kinematics", PANDA, start, p, R, 1e-12, options=options)
    target = tb.FrameTarget(HAND, position=p, orientation=R)
    fast = tb.inverse_kinematics(PANDA, start, target, tolerance=1e-12)
    assert slow["outcome"] == REACHED
    # rounding along ten well-conditioned steps
    assert_close(fast.q, slow["q"], 1e-9)


def test_inside_a_traced_function():
    """A user's kernel may search; several starts may not."""
    start, [(_, p)] = reachable(PANDA, 10, HAND)

    def place(robot, q, point):
        return tb.inverse_kinematics(robot, q, tb.FrameTarget(HAND, position=point)).q

    kernel = tb.compile(place, PANDA, shapes={"point": 3})
    expected = tb.inverse_kinematics(PANDA, start, tb.FrameTarget(HAND, position=p)).q
    assert_close(kernel(start, p), expected)

    def several(robot, q, point):
        target = tb.FrameTarget(HAND, position=point)
        return tb.inverse_kinematics(robot, q, target, starts=2).q

    with pytest.raises(tb.OptionError, match="inside a traced function"):
        tb.compile(several, PANDA, shapes={"point": 3})


def test_rounded_rotations_are_repaired_and_others_refused():
    """Seven typed digits pass; a reflection or a shear does not."""
    start, [(R, p)] = reachable(PANDA, 11, HAND)
    rounded = np.round(R, 7)
    found = tb.inverse_kinematics(
        PANDA, start, tb.FrameTarget(HAND, position=p, orientation=rounded), starts=4
    )
    assert found.reached
    for wrong in (R * [1.0, 1.0, -1.0], R + 0.01):
        with pytest.raises(tb.DomainError, match=f"frame {HAND!r}: expected rotation matrices"):
            tb.inverse_kinematics(PANDA, start, tb.FrameTarget(HAND, orientation=wrong))
    with pytest.raises(tb.ShapeError, match="pass rotation matrices"):
        tb.inverse_kinematics(PANDA, start, tb.FrameTarget(HAND, orientation=[1, 0, 0, 0]))


def test_invalid_targets_are_refused():
    """Each message names what is wrong."""
    q = np.zeros(7)
    target = tb.FrameTarget(HAND, position=(0.3, 0.0, 0.4))
    with pytest.raises(tb.ModelError, match="expected a position, an orientation or both"):
        tb.FrameTarget(HAND)
    with pytest.raises(tb.UnknownNameError, match="unknown frame 'hnd'"):
        tb.inverse_kinematics(PANDA, q, tb.FrameTarget("hnd", position=(0, 0, 0)))
    with pytest.raises(tb.UnknownNameError, match="unknown joint 'nobody'"):
        tb.inverse_kinematics(PANDA, q, target, limits={"nobody": (0, 1)})
    with pytest.raises(tb.DomainError, match="lowest before highest"):
        tb.inverse_kinematics(PANDA, q, target, limits={PANDA.joint_names[0]: (1.0, 0.0)})
    with pytest.raises(tb.OptionError, match="starts"):
        tb.inverse_kinematics(PANDA, q, target, starts=0)
    with pytest.raises(tb.ShapeError, match="at least one FrameTarget"):
        tb.inverse_kinematics(PANDA, q, [])
    top = ROBOTS["top"]
    target = tb.FrameTarget("top", position=(0, 0, 0))
    with pytest.raises(tb.ModelError, match="got a free joint with 7 and 6; leave it out"):
        tb.inverse_kinematics(top, top.neutral(), target, limits={"float": (0, 1)})
    with pytest.raises(tb.NonFiniteError, match=r"position\[0\]"):
        tb.inverse_kinematics(top, top.neutral(), tb.FrameTarget("top", position=(0, 0, np.nan)))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"tolerance": -1e-6}, "tolerance: expected an error of at least 0"),
        ({"max_iterations": 0}, "max_iterations: expected .an integer of at least 1., got 0"),
        ({"starts": 2.5}, "starts: expected .an integer of at least 1., got 2.5"),
        ({"targets": [HAND]}, "targets: expected one FrameTarget or several, got 'link_7'"),
    ],
)
def test_invalid_options_are_refused(choice, message):
    """They would come back as searches that failed, or as errors of Python."""
    given = {"targets": tb.FrameTarget(HAND, position=(0.3, 0.0, 0.3))} | choice
    with pytest.raises(tb.TiburonError, match=message):
        tb.inverse_kinematics(PANDA, np.full(7, 0.1), **given)
