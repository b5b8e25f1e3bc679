"""Closures at the edge of sense: pieces that samples miss, no numbers, nothing bound."""

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.mechanisms import link

RANDOM = np.random.default_rng(84)

OUT = tb.Pose.from_rpy((0.3, -0.5, 0.9), (0.4, 0.1, -0.2))
ON_END = tb.Pose(rotation=((0, 0, 1), (0, 1, 0), (-1, 0, 0)))


def _two_hands(*loops, trunk=None):
    """Two hands on one trunk, which floats."""
    bodies = [
        link("trunk", "world", trunk or tb.Free("float")),
        link("left", "trunk", tb.Revolute("left", (0, 1, 0), pose=OUT)),
        link("right", "trunk", tb.Revolute("right", (0, 0, 1), pose=OUT)),
    ]
    return tb.Model("two hands", bodies, loops=loops)


@pytest.mark.parametrize("smooth", [True, False])
def test_piecewise_constraint_functions_depend_on_all_joints(smooth):
    """High up the height counts too, though no random position is there: central differences."""

    def apart(left, right):
        between = left.p[0] - right.p[0]
        return between if smooth else between + np.maximum(left.p[2] - 40.0, 0.0)

    closure = tb.ConstraintFunction("c", apart, frames=("left", "right"))
    model = _two_hands(closure)
    q = model.random_state(RANDOM)[0]
    q[6] = 50.0
    step = 1e-6
    slopes = [
        (
            tb.constraint_residual(model, model.integrate(q, step * way))
            - tb.constraint_residual(model, model.integrate(q, -step * way))
        )
        / (2.0 * step)
        for way in np.eye(model.nv)
    ]
    found = tb.loop_jacobian(model, q)
    # differences of numbers of size 10 to 50 over steps of 1e-6
    np.testing.assert_allclose(found, np.array(slopes).T, atol=1e-7)
    assert (np.abs(found[0, 3:6]).max() > 0.1) is not smooth


def test_contacts_that_never_touch_at_one_point_are_refused():
    """An edge that no joint can lay down, instead of a constraint that is silently none."""
    body = link("sleigh", "world", tb.Planar("ice"))
    blade = tb.Blade("runner", "world", "sleigh", second_pose=ON_END)
    model = tb.Model("on end", [body], loops=[blade])
    with pytest.raises(
        tb.ModelError, match=r"loop 'runner': expected a blade with a contact point"
    ):
        tb.forward_dynamics(model, np.zeros(3), np.zeros(3), np.zeros(3))


def test_non_finite_configurations_are_neither_closed_nor_mobile():
    """An edge on end, and a root of what is negative."""
    bodies = [
        link("sledge", "world", tb.Planar("ice")),
        link("edge", "sledge", tb.Revolute("tilt", (0, 1, 0))),
    ]
    model = tb.Model("tilting", bodies, loops=[tb.Blade("runner", "world", "edge")])
    assert tb.mobility(model, [0.1, 0.2, 0.3, 0.4]).mobility == 3
    with pytest.raises(tb.DomainError, match="a non-finite one of loop 'runner'"):
        tb.mobility(model, [0.1, 0.2, 0.3, np.pi / 2.0])
    root = tb.ConstraintFunction("root", lambda tilt: np.sqrt(tilt.q[0]) - 0.5, joints="tilt")
    rooted = model.with_loops(root)
    assert tb.mobility(rooted, [0.1, 0.2, 0.3, 0.25]).mobility == 2
    with pytest.raises(tb.DomainError, match="root"):
        tb.mobility(rooted, [0.1, 0.2, 0.3, -0.25])


@interpreting()
def test_loops_without_constraints_leave_the_tree_unchanged():
    """A loop closed by a free joint, as cutting elsewhere may make: forces and mobility."""
    tree = _two_hands(trunk=tb.Revolute("waist", (0, 0, 1)))
    closed = tree.with_loops(tb.LoopClosure("air", "left", "right", tb.Free("anyhow")))
    q, v = tree.random_state(RANDOM)
    vd = RANDOM.standard_normal(tree.nv)
    assert tb.mobility(closed, q).mobility == tree.nv
    own, plain = (tb.inverse_dynamics(model, q, v, vd) for model in (closed, tree))
    # sums of some hundred products of numbers of size one to a hundred
    np.testing.assert_allclose(own, plain, atol=1e-10)
    own, plain = (tb.inverse_dynamics_derivatives(model, q, v, vd) for model in (closed, tree))
    for one, other in zip(own, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_tendons_report_their_leaders():
    """Leaders that would be left out without a word are refused; names must be names."""
    with pytest.raises(tb.ModelError, match=r"leaders b would have no effect.*coefficients="):
        tb.TendonCoupling("t", "a", (1.0,), leaders="b", leader_arms=(1.0,))
    with pytest.raises(tb.ModelError, match=r"leaders b would have no effect.*leader_arms"):
        tb.TendonCoupling(
            "t", "a", (1.0,), leaders="b", leader_arms=(0.0,), coefficients=(0.0, 1.0)
        )
    with pytest.raises(tb.ModelError, match="joints must be names, got None"):
        tb.TendonCoupling("t", None, (1.0,))


def test_functions_take_one_pose_and_any_whole_count():
    """And refuse what are no names or units with the loop's name."""
    pair = tb.ConstraintFunction(
        "c", lambda a: a.p[:2], frames="a", count=np.int64(2), poses=OUT, units=("m", "")
    )
    assert (pair.count, pair.poses, pair.units) == (2, (OUT,), ("m", ""))
    with pytest.raises(tb.ModelError, match="loop 'c': frames must be names, got 5"):
        tb.ConstraintFunction("c", lambda a: a.p[0], frames=5)
    with pytest.raises(tb.ModelError, match="loop 'c': units must be one for each of 1"):
        tb.ConstraintFunction("c", lambda a: a.p[0], frames="a", units=5)


def test_constraint_functions_that_change_are_refused():
    """A number outside that changed since: the first trace would be taken for the second."""
    outside = {"place": 0.1}

    def at(left):
        return left.q[0] - outside["place"]

    def model():
        return _two_hands(tb.ConstraintFunction("c", at, joints="left"))

    first = model()
    assert model() == first
    outside["place"] = 0.7
    # the model that was built from the first trace, and its very closure, cannot go on
    with pytest.raises(tb.ModelError, match="loop 'c': your code computes something else"):
        first.structure_key()
    with pytest.raises(tb.ModelError, match="loop 'c': its function computes other residuals"):
        _two_hands(*first.loops)
    # a new closure has code of its own
    assert model() != first
    key = model().structure_key()
    outside["place"] = 0.1
    assert key != first.structure_key()


def test_singular_starts_are_reported_where_functions_end_beside_them():
    """By the way that is there, or taken; not by a position that only the search looked at."""

    def fork(left, right):
        return (left.q[0] - right.q[0]) * (np.sqrt(left.q[0] + 0.005) - np.sqrt(0.005))

    model = _two_hands(
        tb.ConstraintFunction("fork", fork, joints=("left", "right")),
        trunk=tb.Revolute("waist", (0, 0, 1)),
    )
    with pytest.raises(tb.DomainError, match=r"^v: expected a velocity, .* singular configuration"):
        tb.simulate(model, 0.01, q=np.zeros(3))
