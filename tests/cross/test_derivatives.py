"""Derivatives of dynamics against Pinocchio, live: fixed and floating bases."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import ROBOTS, kicked
from tests.tolerances import ALGEBRA, SOLVE, assert_close

pytestmark = pytest.mark.slow

pin = pytest.importorskip("pinocchio", reason="the peer is installed by `make bench`")
peer = pytest.importorskip("benchmarks.pinocchio_peer")
build_pinocchio, q_to_pinocchio, v_to_pinocchio = (
    peer.build_pinocchio,
    peer.q_to_pinocchio,
    peer.v_to_pinocchio,
)

NAMES = ["panda", "quadruped", "odd_arm"]


def ours_from(model, matrix):
    """Reorder rows and columns of a matrix of the peer's."""
    return v_to_pinocchio(model, v_to_pinocchio(model, np.array(matrix)).T).T


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_inverse_dynamics_are_those_of_pinocchio(name):
    """`pin.computeRNEADerivatives`, whose steps of a free joint are in body axes as ours."""
    model = ROBOTS[name]
    q, v, vd = kicked(model, 61)
    peer = build_pinocchio(model)
    data = peer.createData()
    given = (q_to_pinocchio(model, q), *(v_to_pinocchio(model, x) for x in (v, vd)))
    pin.computeRNEADerivatives(peer, data, *given)
    found = tb.inverse_dynamics_derivatives(model, q, v, vd)
    for ours, theirs in ((found.by_q, data.dtau_dq), (found.by_v, data.dtau_dv)):
        expected = ours_from(model, theirs)
        assert_close(ours, expected, ALGEBRA, 10 * np.abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_forward_dynamics_are_those_of_pinocchio(name):
    """`pin.computeABADerivatives`."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 62)
    peer = build_pinocchio(model)
    data = peer.createData()
    given = (q_to_pinocchio(model, q), *(v_to_pinocchio(model, x) for x in (v, tau)))
    pin.computeABADerivatives(peer, data, *given)
    found = tb.forward_dynamics_derivatives(model, q, v, tau)
    tolerance = SOLVE * np.linalg.cond(tb.mass_matrix(model, q))
    for ours, theirs in ((found.by_q, data.ddq_dq), (found.by_v, data.ddq_dv)):
        expected = ours_from(model, theirs)
        assert_close(ours, expected, tolerance, np.abs(expected).max())
