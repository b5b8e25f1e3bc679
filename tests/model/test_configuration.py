"""Positions of whole models: batches, round trips, refusals."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import ROUNDING, arm, random_tree
from tiburon.errors import DomainError, NonFiniteError, ShapeError


def test_neutral_has_unit_quaternions_and_zeros():
    assert arm().neutral().tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]


def test_random_state_is_seeded_and_has_batch_dimensions_first():
    model = arm()
    q, v = model.random_state(7, (3, 2))
    assert q.shape == (3, 2, model.nq)
    assert v.shape == (3, 2, model.nv)
    again, _ = model.random_state(np.random.default_rng(7), (3, 2))
    np.testing.assert_array_equal(q, again)
    np.testing.assert_allclose(np.linalg.norm(q[..., :4], axis=-1), 1.0, rtol=0, atol=ROUNDING)
    single, velocity = model.random_state(7)
    assert single.shape == (model.nq,)
    assert velocity.shape == (model.nv,)


def test_a_batch_of_axial_joints_has_the_random_numbers_of_its_joints():
    """Drawn in one call: state by state, joint by joint, as `Joint.random` draws them."""
    slide, hinge, screw = tb.Prismatic("x"), tb.Revolute("y"), tb.Screw("z", pitch=0.1)
    bodies, parent = [], "world"
    for joint in (slide, hinge, screw):
        mass = tb.Inertia.box(1.0, (0.1, 0.1, 0.1))
        bodies.append(tb.Body(f"body {joint.name}", parent, joint=joint, inertia=mass))
        parent = bodies[-1].name
    q, _ = tb.Model("axial", bodies).random_state(3, (5,))
    rng = np.random.default_rng(3)
    expected = [[x for joint in (slide, hinge, screw) for x in joint.random(rng)] for _ in range(5)]
    np.testing.assert_array_equal(q, expected)


def test_random_orientations_cover_the_sphere():
    """The mean of a uniform unit quaternion is 0 and its covariance 1/4, within 1/sqrt(count)."""
    q, _ = arm().random_state(1, (4000,))
    quaternions = q[:, :4]
    assert np.abs(quaternions.mean(axis=0)).max() < 4 * 0.5 / np.sqrt(4000)
    covariance = quaternions.T @ quaternions / 4000
    assert np.abs(covariance - np.eye(4) / 4).max() < 4 * 0.3 / np.sqrt(4000)


@pytest.mark.parametrize("seed", range(4))
def test_integrate_and_difference_are_inverse_on_random_trees(seed):
    model = random_tree(seed)
    (q0, q1), v = model.random_state(seed, (2,))
    step = 0.3 * v[0]  # less than half a turn
    np.testing.assert_allclose(
        model.difference(q0, model.integrate(q0, step)), step, rtol=0, atol=10 * ROUNDING
    )
    reached = model.integrate(q0, model.difference(q0, q1))
    np.testing.assert_allclose(
        model.difference(reached, q1), np.zeros(model.nv), rtol=0, atol=10 * ROUNDING
    )


def test_displacement_of_a_rolling_ball_includes_its_position():
    """Equal orientations at different places: no step of velocity, but a shift of the center."""
    ball = tb.Body("ball", joint=tb.RollingSphere("roll", 0.1), inertia=tb.Inertia.sphere(1.0, 0.1))
    model = tb.Model("marble", [ball])
    q0, _ = model.random_state(3)
    q1 = q0 + np.array([0.2, -0.5, 0, 0, 0, 0])
    np.testing.assert_allclose(model.difference(q0, q1), np.zeros(3), rtol=0, atol=ROUNDING)
    expected = [0, 0, 0, 0.2, -0.5]
    np.testing.assert_allclose(model.displacement(q0, q1), expected, rtol=0, atol=ROUNDING)


def test_batch_equals_a_loop_over_single_states():
    model = random_tree(5)
    q, v = model.random_state(5, (4,))
    q1, _ = model.random_state(6, (4,))
    for batch, single in [
        (model.integrate(q, v), [model.integrate(a, b) for a, b in zip(q, v, strict=True)]),
        (model.difference(q, q1), [model.difference(a, b) for a, b in zip(q, q1, strict=True)]),
        (model.normalize(2 * q), [model.normalize(2 * a) for a in q]),
    ]:
        np.testing.assert_allclose(batch, single, rtol=0, atol=ROUNDING)


def test_batches_broadcast():
    model = arm()
    q, v = model.random_state(1, (5,))
    assert model.integrate(q[0], v).shape == (5, model.nq)
    assert model.integrate(q, np.zeros(model.nv)).shape == (5, model.nq)
    assert model.integrate(np.zeros((0, model.nq)), v[0]).shape == (0, model.nq)


def test_tiny_and_zero_steps_are_exact_to_rounding():
    model = arm()
    q, v = model.random_state(2)
    np.testing.assert_array_equal(model.integrate(q, np.zeros(model.nv)), q)
    for size in (1e-12, 1e-8, 1e-4, 1e-2):
        back = model.difference(q, model.integrate(q, size * v))
        np.testing.assert_allclose(back, size * v, rtol=0, atol=1e-15 * 10)


def test_normalize_restores_unit_quaternions_only():
    model = arm()
    q, _ = model.random_state(3)
    stretched = q.copy()
    stretched[:4] *= 1.7
    np.testing.assert_allclose(model.normalize(stretched), q, rtol=0, atol=ROUNDING)


def test_wrong_sizes_and_values_are_refused_with_a_message():
    model = arm()
    with pytest.raises(ShapeError, match=r"q: expected 10 \(7 base \+ 3 joints\), got 9; batch"):
        model.integrate(np.zeros(9), np.zeros(9))
    with pytest.raises(ShapeError, match=r"dv: expected 9 \(6 base \+ 3 joints\), got shape"):
        model.integrate(model.neutral(), np.zeros((2, 10)))
    with pytest.raises(ShapeError, match=r"q1: expected .* got 'abc'; pass plain numbers"):
        model.difference(model.neutral(), "abc")
    bad = model.neutral()
    bad[5] = np.nan
    with pytest.raises(NonFiniteError, match="q: every value must be finite, got nan at index 5"):
        model.normalize(bad)
    with pytest.raises(NonFiniteError, match=r"got nan at index \(1, 5\)"):
        model.normalize(np.stack([model.neutral(), bad]))


@pytest.mark.parametrize("kind", ["free", "spherical", "rolling sphere"])
@pytest.mark.parametrize("cases", [(), (3,)])
def test_zero_quaternion_is_refused(kind, cases):
    """It would otherwise spread as NaN, after a warning that names no joint."""
    model = random_tree(4, 2, (kind,))
    q, _ = model.random_state(5, cases)
    bad = q.copy()
    where = [place for place, name in enumerate(model.q_names) if name.startswith("joint1.q")]
    assert len(where) == 4
    bad[..., where] = 0.0
    for step in (
        lambda: model.normalize(bad),
        lambda: model.difference(q, bad),
        lambda: model.difference(bad, q),
    ):
        with pytest.raises(DomainError, match="joint 'joint1': expected a quaternion"):
            step()


@pytest.mark.parametrize("seed", range(3))
def test_integrate_and_difference_are_traced(seed):
    """Compiled functions that call them return what direct calls do, one case or a batch."""
    model = random_tree(seed)
    (q0, q1), v = model.random_state(seed, (2,))
    step = 0.3 * v[0]

    def away(model, q, step):
        return model.difference(q0, model.integrate(q, step))

    kernel = tb.compile(away, model, shapes={"step": model.nv})
    expected = away(model, q1, step)
    np.testing.assert_allclose(kernel(q1, step), expected, rtol=0, atol=100 * ROUNDING)
    batch, _ = model.random_state(seed, (5,))
    many = kernel(batch, np.broadcast_to(step, (5, model.nv)))
    np.testing.assert_allclose(many, away(model, batch, step), rtol=0, atol=100 * ROUNDING)
