"""Assembly from rough guesses, all branches, and loops that cannot close."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import piston, piston_position
from tiburon.functions.assembly import is_closed

RANDOM = np.random.default_rng(31)

CLOSED = 1e-12
"""The requested tolerance; rounding of meters and radians is a thousandth of it."""


@pytest.mark.parametrize("name", ["four_bar", "planar_3rrr", "bricard"])
def test_assembly_converges_from_rough_guesses(name):
    model = tb.load(name)
    home = np.array(model.poses.get("home", model.neutral()))
    guess = model.integrate(home, 0.6 * RANDOM.standard_normal((3, model.nv)))
    found = tb.assemble(model, guess)
    assert found.q.shape == (3, model.nq)
    assert np.abs(tb.constraint_residual(model, found.q)).max() <= CLOSED
    assert all(is_closed(model, q) for q in found.q)


def test_held_joints_are_not_moved_by_assembly():
    model = tb.load("four_bar")
    found = tb.assemble(model, hold={"input": 2.0})
    assert found.q[0] == 2.0
    # law of cosines: the pins of coupler and rocker meet
    x, y = 0.4 * np.cos(2.0) - 1.0, 0.4 * np.sin(2.0)
    gap2 = x * x + y * y
    bend = (gap2 + 0.9**2 - 1.1**2) / (2.0 * 0.9 * np.sqrt(gap2))
    assert abs(np.cos(found.q[2] - np.arctan2(y, x)) - bend) < 1e-12


def test_closed_guess_is_returned_unchanged():
    model = tb.load("four_bar")
    home = np.array(model.poses["home"])
    found = tb.assemble(model, home)
    np.testing.assert_array_equal(found.q, home)
    assert found.starts == 1


def test_poor_guess_needs_several_starts():
    """Folded flat against the frame, the four-bar has no slope to follow."""
    model = tb.load("four_bar")
    found = tb.assemble(model, np.array([1.0, np.pi, 0.0]), hold="input")
    assert found.residual <= CLOSED
    assert found.q[0] == 1.0


def test_impossible_assembly_reports_its_residual():
    """Held at 2.0 and 0.1 rad, the pins are 2.08 m apart, the coupler is 1.1 m long."""
    model = tb.load("four_bar")
    with pytest.raises(
        tb.LoopError, match=r"'four_bar': loops cannot be closed from 8 starts"
    ) as e:
        tb.assemble(model, hold={"input": 2.0, "output": 0.1}, starts=8)
    pins = np.array([1.0, 0.0]) + 0.9 * np.array([np.cos(0.1), np.sin(0.1)])
    pins -= 0.4 * np.array([np.cos(2.0), np.sin(2.0)])
    # two components of what is missing share its length
    missing = np.linalg.norm(pins) - 1.1
    assert missing / np.sqrt(2.0) - 1e-6 < e.value.residuals["closure"] < missing + 1e-6


def test_contradictory_constraints_are_named():
    """A frame lifted out of the plane of the mechanism: nothing can bring it back."""
    plane = tb.load("four_bar")
    (loop,) = plane.loops
    lifted = tb.LoopClosure(
        "closure", loop.first, loop.second, loop.joint, tb.Pose(translation=(0.9, 0.0, 0.02))
    )
    model = tb.Model("lifted", plane.bodies, loops=[lifted])
    with pytest.raises(
        tb.LoopError, match=r"'closure' cannot close, no joint moves its offset along z.*0.02"
    ):
        tb.assemble(model, starts=2)


def test_hinges_are_not_assembled_with_reversed_axes():
    """A coupler turned over lets all gaps vanish with its axis reversed; that is no closure."""
    plane = tb.load("four_bar")
    (loop,) = plane.loops
    over = tb.Pose(np.diag([1.0, -1.0, -1.0]), (0.9, 0.0, 0.0))
    turned = tb.LoopClosure("closure", loop.first, loop.second, loop.joint, over)
    model = tb.Model("turned over", plane.bodies, loops=[turned])
    home = np.array(plane.poses["home"])
    assert np.abs(tb.constraint_residual(model, home)).max() < 1e-12
    assert not is_closed(model, home)
    with pytest.raises(tb.LoopError, match="'closure': its joint fits only head to tail"):
        tb.assemble(model, home, starts=4)


def test_both_branches_of_a_four_bar_are_found():
    model = tb.load("four_bar")
    found = tb.assembly_branches(model, hold={"input": 1.0})
    assert found.q.shape == (2, 3)
    assert np.abs(tb.constraint_residual(model, found.q)).max() < 1e-11
    home = np.array(model.poses["home"])
    assert np.abs(found.q - home).max(axis=1).min() < 1e-9
    assert found.labels == ("/+", "/-")
    assert min(found.hits) > 1


def test_a_placed_platform_leaves_two_ways_for_each_leg():
    """Planar legs of three hinges: elbow up or down, 2^3 branches, each with its own signs."""
    model = tb.load("planar_3rrr")
    home = np.array(model.poses["home"])
    R, p = tb.forward_kinematics(model, home, "platform")
    found = tb.assembly_branches(model, home, place={"platform": tb.Pose(R, p)})
    assert len(found.q) == 8
    assert len({label.split("/")[0] for label in found.labels}) == 8
    # the elbow of the first leg is a sign of its own: its angle changes sign with it
    elbows = found.q[:, model.slice("theta_4").start]
    signs = np.array([label[0] == "+" for label in found.labels])
    assert len(set(np.sign(elbows[signs]))) == len(set(np.sign(elbows[~signs]))) == 1
    rotation, translation = tb.forward_kinematics(model, found.q, "platform")
    np.testing.assert_allclose(rotation, np.broadcast_to(R, rotation.shape), atol=1e-9)
    np.testing.assert_allclose(translation, np.broadcast_to(p, translation.shape), atol=1e-9)


def test_continuous_families_are_not_assembly_modes():
    with pytest.raises(tb.DomainError, match="1 DoF left; hold more, such as"):
        tb.assembly_branches(tb.load("four_bar"))


def test_the_piston_assembles_at_its_closed_form():
    model = piston()
    guess = piston_position(0.7) + np.array([0.0, 0.2, -0.3])
    found = tb.assemble(model, guess, hold={"crank": 0.7})
    np.testing.assert_allclose(found.q, piston_position(0.7), atol=1e-12)


@pytest.mark.slow
def test_a_platform_has_several_poses_for_the_same_strokes():
    """Forward kinematics of the Stewart platform: at most 40 poses (Raghavan 1993), in pairs."""
    model = tb.load("stewart")
    strokes = dict.fromkeys(model.actuated_joint_names, 0.0)
    found = tb.assembly_branches(model, hold=strokes, distinct="platform", tolerance=1e-10)
    assert 4 <= len(found.q) <= 40
    assert np.abs(tb.constraint_residual(model, found.q)).max() < 1e-10
    heights = tb.forward_kinematics(model, found.q, "platform")[1][:, 2]
    # feet lie in one plane: every pose has its mirror image below it
    np.testing.assert_allclose(np.sort(heights), -np.sort(heights)[::-1], atol=1e-6)


def test_invalid_arguments_are_refused():
    model = tb.load("four_bar")
    with pytest.raises(tb.UnknownNameError, match="did you mean 'input'"):
        tb.assemble(model, hold={"inputs": 1.0})
    with pytest.raises(tb.UnknownNameError, match="place: unknown body or frame 'roker'"):
        tb.assemble(model, place={"roker": tb.Pose()})
    with pytest.raises(tb.ModelError, match="assemble is for robots with loops"):
        tb.assemble(tb.load("puma560"))
    with pytest.raises(tb.OptionError, match="starts"):
        tb.assemble(model, starts=0)
