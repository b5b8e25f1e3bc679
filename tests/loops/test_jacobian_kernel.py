"""Jacobians of kernels of robots with loops: one sweep in a loop over directions."""

import numpy as np
import pytest

import tiburon as tb


@pytest.mark.slow
def test_the_jacobian_of_a_platform_holds_its_directional_derivatives():
    """Columns against the forward derivative of the same kernel, by all arguments at once."""
    robot = tb.load("stewart")
    kernel = tb.compile(tb.forward_dynamics, robot, closure=False).__self__
    rng = np.random.default_rng(2)
    q = np.asarray(robot.neutral())
    v, tau = rng.standard_normal((2, robot.nv))
    blocks = kernel.jacobian()(q, v, tau)
    directions = [rng.standard_normal(len(x)) for x in (q, v, tau)]
    expected = kernel.forward()(q, v, tau, *directions)
    found = sum(block @ x for block, x in zip(blocks, directions, strict=True))
    scale = np.abs(expected).max()
    assert scale > 1.0
    # sums over 73 directions of terms of some thousand
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-11 * scale)
