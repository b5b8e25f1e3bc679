"""Joints: how sub-spaces bend with position, and velocities against rates of positions."""

import numpy as np

from tests.model.samples import ROUNDING
from tests.model.test_joints import each_joint, random_numbers
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, assert_close


def stepped(joint, q, direction):
    """Return the positions a small step before and behind q."""
    h = DIFFERENCE_STEP
    return [joint.integrate(q, [sign * h * x for x in direction]) for sign in (-1.0, 1.0)]


def slope(before, after):
    return (np.array(after, dtype=float) - np.array(before, dtype=float)) / (2.0 * DIFFERENCE_STEP)


@each_joint
def test_rate_of_the_subspace_is_its_slope_along_a_step(joint):
    q, v, _ = random_numbers(joint, 21)
    before, after = ([list(S) for S in joint.subspace(x)] for x in stepped(joint, q, v))
    assert_close([list(S) for S in joint.subspace_rate(q, v)], slope(before, after), DIFFERENCE)


@each_joint
def test_bias_derivative_equals_differences_in_each_degree_of_freedom(joint):
    q, v, _ = random_numbers(joint, 22)
    found = joint.bias_derivative(q, v)
    assert len(found) == joint.nv
    for column, unit in zip(found, np.eye(joint.nv), strict=True):
        before, after = (list(joint.bias(x, v)) for x in stepped(joint, q, unit))
        assert_close(list(column), slope(before, after), DIFFERENCE)


@each_joint
def test_position_rate_is_the_slope_of_integration(joint):
    q, v, _ = random_numbers(joint, 23)
    assert_close(joint.position_rate(q, v), slope(*stepped(joint, q, v)), DIFFERENCE)


@each_joint
def test_velocity_of_rate_undoes_position_rate_at_any_length_of_quaternions(joint):
    q, v, _ = random_numbers(joint, 24)
    if joint.kind in ("spherical", "free"):
        q = [*(1.3 * x for x in q[:4]), *q[4:]]
    back = joint.velocity_of_rate(q, joint.position_rate(q, v))
    np.testing.assert_allclose(back, v, rtol=0, atol=10 * ROUNDING)
