"""Geometry from measured poses: perturbed robots are found again, and what poses do not tell."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.spatial.rotations import matrix_to_quaternion

RNG = 20


def poses_of(R, p):
    return np.concatenate([np.array([matrix_to_quaternion(turn) for turn in R]), p], axis=1)


def arm_data(free, count=40, noise=0.0, tool="flange"):
    """Return an arm, joint positions, poses of its tool with perturbed geometry, and that."""
    rng = np.random.default_rng(RNG)
    arm = tb.load("puma560")
    known = tb.parameters(arm)
    true = {name: np.array(known[name].value) + rng.uniform(-0.01, 0.01, 3) for name in free}
    q = rng.uniform(-2.0, 2.0, (count, arm.nq))
    R, p = tb.forward_kinematics(arm, q, tool, parameters=true)
    return arm, q, poses_of(R, p + noise * rng.standard_normal(p.shape)), true


def whole(arm, tool=()):
    names = [*arm.moving_joint_names, *tool]
    return [f"{name}.{word}" for name in names for word in ("translation", "rotation")]


@pytest.mark.parametrize(("tool", "hidden"), [((), 10), (("flange",), 12)])
def test_an_arm_is_found_up_to_what_poses_do_not_determine(tool, hidden):
    """Two numbers per hinge are hidden: a shift and a turn of its frame along its own axis.

    With base and tool 4 n + 6 numbers of n hinges are determined (Everett, Driels and Mooring
    1987). Those of the last hinge show where the tool is known.
    """
    free = whole(tb.load("puma560"), tool)
    arm, q, poses, true = arm_data(free)
    found = tb.calibrate(arm, q, {"flange": poses}, free)
    assert found.converged
    assert len(found.undetermined) == hidden
    assert found.before["flange.position"] > 1e-3
    assert found.errors["flange.position"] < 1e-10
    # all other poses are those of the true arm
    calibrated, robot = tb.with_parameters(arm, found.parameters), tb.with_parameters(arm, true)
    other, _ = arm.random_state(3, (20,))
    both = (tb.forward_kinematics(m, other, "flange") for m in (calibrated, robot))
    for x, y in zip(*both, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9)


def test_parameters_that_poses_determine_are_recovered():
    """Lengths and a zero of a joint, by name of a component; intervals hold them."""
    free = ["joint_3.translation", "joint_4.rotation"]
    arm, q, poses, true = arm_data(free)
    found = tb.calibrate(arm, q, {"flange": poses}, free)
    assert not found.undetermined
    for name, value in found.parameters.items():
        word, _, axis = name.rpartition(".")
        assert abs(value - true[word]["xyz".index(axis)]) < 1e-9
    arm, q, noisy, true = arm_data(free, noise=1e-4)
    names = [*(f"joint_3.translation.{axis}" for axis in "xyz"), "joint_4.rotation"]
    found = tb.calibrate(arm, q, {"flange": noisy[:, 4:]}, names)
    assert found.unit == "pose"
    expected = np.concatenate([true[name] for name in free])
    assert (np.abs(found.estimate - expected)[:3] < 1e-4).all()
    inside = (found.lower < expected) & (expected < found.upper)
    assert inside.sum() >= 5
    assert "40 poses, converged" in found.summary


def test_a_platform_is_found_from_its_leg_lengths_and_poses():
    """All joints that are not measured follow from closed loops; derivatives are exact."""
    rng = np.random.default_rng(RNG)
    robot = tb.load("stewart")
    known = tb.parameters(robot)
    legs = list(robot.actuated_joint_names)
    free = [f"leg_{k}_head.second.translation" for k in range(1, 7)]
    true = {name: np.array(known[name].value) + rng.uniform(-5e-3, 5e-3, 3) for name in free}
    q = np.tile(robot.neutral(), (12, 1))
    lengths = q[:, robot.indices(legs)] + rng.uniform(-0.05, 0.05, (12, 6))
    q[:, robot.indices(legs)] = lengths
    there = tb.loop_motion(tb.with_parameters(robot, true), q, lengths).q
    R, p = tb.forward_kinematics(robot, there, "platform")
    found = tb.calibrate(robot, q, {"platform": poses_of(R, p)}, free)
    assert found.converged
    assert not found.undetermined
    expected = np.concatenate([true[name] for name in free])
    np.testing.assert_allclose(found.estimate, expected, rtol=0, atol=1e-9)
    # a shift of all heads together with the platform's frame is not seen
    with_frame = tb.calibrate(
        robot, q, {"platform": poses_of(R, p)}, [*free, "platform.translation"], max_iterations=8
    )
    assert any("platform.translation" in line for line in with_frame.undetermined)


def test_bad_measurements_are_refused():
    arm, q, poses, _ = arm_data(["joint_3.translation"], count=5)
    with pytest.raises(tb.UnknownNameError, match=r"did you mean 'joint_3.translation'"):
        tb.calibrate(arm, q, {"flange": poses}, ["joint_3.translatoin"])
    with pytest.raises(tb.UnknownNameError, match=r"parameter of the geometry 'link_2.mass'"):
        tb.calibrate(arm, q, {"flange": poses}, ["link_2.mass"])
    with pytest.raises(tb.UnknownNameError, match="frame 'flnge'"):
        tb.calibrate(arm, q, {"flnge": poses}, ["joint_3.translation"])
    with pytest.raises(tb.ShapeError, match=r"measured\['flange'\]: expected shape \(5, 3\)"):
        tb.calibrate(arm, q, {"flange": poses[:4]}, ["joint_3.translation"])
    with pytest.raises(tb.NonFiniteError, match="flange"):
        tb.calibrate(arm, q, {"flange": np.nan * poses}, ["joint_3.translation"])
    double = np.concatenate([2.0 * poses[:, :4], poses[:, 4:]], axis=1)
    with pytest.raises(tb.DomainError, match=r"unit quaternions .*got length 2 in pose 0"):
        tb.calibrate(arm, q, {"flange": double}, ["joint_3.translation"])
    with pytest.raises(tb.DomainError, match="within a right angle of the predicted"):
        tb.calibrate(arm, q + np.pi, {"flange": poses}, ["joint_3.translation"])
    with pytest.raises(tb.ModelError, match="has no loops that would determine other joints"):
        tb.calibrate(arm, q, {"flange": poses}, ["joint_3.translation"], joints="joint_1")
    with pytest.raises(tb.UnknownNameError, match=r"weights.*did you mean 'flange.position'"):
        tb.calibrate(
            arm, q, {"flange": poses}, ["joint_3.translation"], weights={"flange.postion": 1.0}
        )
