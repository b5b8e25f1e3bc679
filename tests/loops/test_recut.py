"""The same mechanism on other spanning trees: the same motion, and the fewest constraints."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import allowed, closed, dense_acceleration
from tests.loops.mechanisms import arms_on_object, piston
from tiburon.loops.cut_joints import joint_position, places_of
from tiburon.loops.recut import reversed_joint

RANDOM = np.random.default_rng(41)

CUTS = {
    "four_bar": ["elbow", "output", None],
    "planar_3rrr": [("theta_4", "theta_5"), ("theta_7", "corner_2")],
    "stewart": [None],
    "planar_walker": [None, ("joint_7", "joint_9")],
}


def kicked(model):
    """A closed position away from home, and a velocity that keeps it closed."""
    home = np.array(model.poses.get("home", model.neutral()))
    q = closed(model, model.integrate(home, 0.1 * RANDOM.standard_normal(model.nv)))
    return q, allowed(model, q, RANDOM.standard_normal(model.nv))


@pytest.mark.parametrize(("name", "cut"), [(n, c) for n, cuts in CUTS.items() for c in cuts])
def test_any_spanning_tree_gives_the_same_motion(name, cut):
    """Featherstone 1987, section 9.2; joints in both trees accelerate alike, by dense algebra."""
    model = tb.load(name)
    other = tb.recut(model, cut)
    if cut is not None:
        named = (cut,) if isinstance(cut, str) else cut
        assert set(named) <= {loop.name for loop in other.loops}
    q, v = kicked(model)
    q_other, v_other = tb.recut_state(model, other, q, v)
    places, places_other = places_of(model, q), places_of(other, q_other)
    for body in model.body_names:
        np.testing.assert_allclose(places_other[body].p, places[body].p, atol=1e-12)
    tau = {joint: RANDOM.standard_normal(1) for joint in model.actuated_joint_names}
    before, _ = dense_acceleration(model, q, v, model.actuated(tau))
    after, _ = dense_acceleration(other, q_other, v_other, other.actuated(tau))
    both = [j for j in model.moving_joint_names if j in other.joint_names]
    hinges = [j for j in both if model.joint(j).nv == 1]
    assert len(hinges) >= 2
    # rounding of accelerations of some 50 rad/s^2 through two dense solutions
    np.testing.assert_allclose(
        after[other.indices(hinges, of="v")], before[model.indices(hinges, of="v")], atol=1e-9
    )


def test_the_fewest_constraints_are_chosen():
    """A platform needs no coordinates of its own: it hangs on one leg, five balls are cut."""
    platform = tb.recut(tb.load("stewart"))
    assert len(platform.loops) == 5
    assert {loop.joint.kind for loop in platform.loops} == {"spherical"}
    assert platform.nv == 21
    # welded grips hold the object; one of two stays cut, as all other joints are driven
    arms = tb.recut(tb.load("two_pumas"))
    assert [loop.name for loop in arms.loops] == ["right_grip"]
    assert arms.nv == 12


def test_mobility_does_not_depend_on_the_tree():
    for model in (tb.load("four_bar"), tb.load("planar_walker")):
        q = np.array(model.poses.get("home", model.neutral()))
        other = tb.recut(model)
        q_other, _ = tb.recut_state(model, other, q)
        one, two = tb.mobility(model, q), tb.mobility(other, q_other)
        assert (one.mobility, one.counted_mobility) == (two.mobility, two.counted_mobility)
        assert one.condition == pytest.approx(two.condition, rel=1e-9)


def test_every_kind_of_joint_can_be_cut_and_turned_round():
    """Hand on hand: the second arm is walked from its tip to its base and keeps its state."""
    model = arms_on_object((3, 4), tb.Spherical)
    other = tb.recut(model, cut=("a1_0", "object"))
    assert [loop.name for loop in other.loops] == ["a1_0"]
    q = closed(model, model.integrate(model.neutral(), 0.1 * RANDOM.standard_normal(model.nv)))
    v = allowed(model, q, RANDOM.standard_normal(model.nv))
    q_other, v_other = tb.recut_state(model, other, q, v)
    back, v_back = tb.recut_state(other, model, q_other, v_other)
    np.testing.assert_allclose(back, q * np.sign(back @ q), atol=1e-9)
    np.testing.assert_allclose(v_back, v, atol=1e-9)


@pytest.mark.parametrize(
    "joint",
    [
        tb.Cylindrical("cylinder", (1, 0, 0)),
        tb.Universal("cylinder", (0, 0, 1), (0, 1, 0)),
        tb.Screw("cylinder", (1, 0, 0), pitch=0.1),
        tb.Planar("cylinder", (0, 0, 1)),
        tb.Prismatic("cylinder", (1, 0, 0), offset=0.2),
    ],
    ids=lambda joint: joint.kind,
)
def test_reversed_joints_give_the_same_poses(joint):
    """The base is cut: the loop's joint holds the piston, the rod hangs on it, turned round."""
    model = piston(joint)
    other = tb.recut(model, cut="crank")
    assert [loop.name for loop in other.loops] == ["crank"]
    for _ in range(3):
        q = other.random_state(RANDOM)[0]
        places = places_of(other, q)
        R, p = np.array(places["piston"].R), np.array(places["piston"].p)
        X = joint.transform(q[other.slice("cylinder")].tolist())
        np.testing.assert_allclose(R.T, X.rotation, atol=1e-12)
        np.testing.assert_allclose(p, X.translation, atol=1e-12)
        # seen from the rod, the piston lies where its hinge has it at the same number
        hinge = model.joint("small end")
        S = hinge.transform(q[other.slice("small end")].tolist())
        rod = np.array(places["rod"].R)
        np.testing.assert_allclose(R.T @ rod, S.rotation, atol=1e-12)
        np.testing.assert_allclose(rod.T @ (p - places["rod"].p), [0.8, 0.0, 0.0], atol=1e-12)


REVERSED = {
    "revolute": (tb.Revolute("j", (0.6, 0.0, 0.8), offset=0.4), [0]),
    "prismatic": (tb.Prismatic("j", (0.0, 0.6, 0.8), offset=0.1), [0]),
    "screw": (tb.Screw("j", (0.6, 0.0, -0.8), pitch=0.3, lead=0.2), [0]),
    "cylindrical": (tb.Cylindrical("j", (0.6, 0.8, 0.0)), [0, 1]),
    "universal": (tb.Universal("j", (0.6, 0.8, 0.0), (0.0, 0.6, 0.8)), [1, 0]),
    "fixed": (tb.Fixed("j"), []),
    "spherical": (tb.Spherical("j"), None),
    "planar": (tb.Planar("j", (0.48, 0.6, 0.64)), None),
    "free": (tb.Free("j"), None),
}


@pytest.mark.parametrize("kind", REVERSED)
def test_a_reversed_joint_undoes_the_joint(kind):
    """Its place is the inverse; one axis keeps its number, two axes swap theirs."""
    joint, order = REVERSED[kind]
    other = reversed_joint(joint)
    for _ in range(3):
        q = joint.random(RANDOM)
        back = joint.transform(q).inverse()
        R = np.array(back.rotation, dtype=np.float64).T
        found = joint_position(other, R, np.array(back.translation, dtype=np.float64))
        assert found.error < 1e-12
        if order is not None:
            np.testing.assert_allclose(
                other.transform([q[k] for k in order]).matrix(), back.matrix(), atol=1e-14
            )


def test_joints_that_roll_or_follow_have_no_reverse():
    assert reversed_joint(tb.RollingSphere("ball", radius=0.1)) is None
    assert reversed_joint(tb.Coupled("gear", tb.Revolute("inner"), "leader", 2.0)) is None


def test_named_poses_are_converted():
    model = tb.load("planar_3rrr")
    other = tb.recut(model, cut=("theta_4", "theta_5"))
    # "printed" has open loops
    assert set(other.poses) == {"home"}
    assert np.abs(tb.constraint_residual(other, other.poses["home"])).max() < 1e-12


def test_joints_that_need_their_variable_are_not_cut():
    model = tb.load("four_bar")
    with pytest.raises(
        tb.ModelError, match="'input': cannot be cut, an actuator or cylinder drives"
    ):
        tb.recut(model, cut="input")
    with pytest.raises(tb.ModelError, match="'rocker': would be disconnected with closure, output"):
        tb.recut(model, cut=("output", "closure"))
    with pytest.raises(tb.UnknownNameError, match="did you mean 'elbow'"):
        tb.recut(model, cut="elbo")


def test_states_with_open_loops_cannot_be_converted():
    model = tb.load("four_bar")
    other = tb.recut(model, cut="elbow")
    with pytest.raises(tb.ModelError, match=r"expected closed loops.*close the loops first"):
        tb.recut_state(model, other, np.array([1.0, 0.3, 0.2]))
