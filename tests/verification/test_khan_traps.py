"""Corrections of Khan 2002, each tested by its number: what would go wrong with what is printed."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import ALGEBRA, assert_close
from tiburon.reproduce.khan_complements import (
    Embedded,
    boolean_rows,
    consistent,
    mixed,
    rk4_run,
    smooth_orthonormal,
)
from tiburon.reproduce.khan_equations import (
    dyad_bias,
    dyad_inertia,
    leg_projectors,
    platform_wrench,
)
from tiburon.reproduce.khan_mechanism import (
    ABSOLUTE,
    ACTUATED,
    driven_angles,
    from_absolute,
    home,
    mechanism,
    motion,
    series_at,
    terms,
    to_absolute,
)


def kicked(seed=4):
    rng = np.random.default_rng(seed)
    return home() + 0.4 * rng.standard_normal(9), rng.standard_normal(9)


def moving(time=1.3):
    at = motion([0.0, time])
    return at.q[-1], at.v[-1]


def test_C1_the_distal_link_has_its_own_mass():
    """(2.1): I_2 + m_2 c_2^2; m_1 there is wrong by 0.09 of 0.48 kg m^2."""
    q, v = kicked()
    found = terms(q, v).H[:2, :2]
    assert_close(found, dyad_inertia(q[:2]), ALGEBRA)
    assert abs(found - dyad_inertia(q[:2], printed=True)).max() == pytest.approx(0.09)


def test_C2_weight_pulls_down():
    """(2.1): gravity along -y stands with a plus on the left side."""
    q, v = kicked()
    found = terms(q, v).C[:2]
    assert_close(found, dyad_bias(q[:2], v[:2]), ALGEBRA)
    assert abs(found - dyad_bias(q[:2], v[:2], printed=True)).max() > 10.0


def test_C3_moment_first_and_gravity_included():
    """(2.2): w^P goes with t^P = [phid, xd, yd]; a platform let go of falls."""
    q, v = kicked()
    at = terms(q, v)
    right = platform_wrench(0.3, (1.0, 2.0))
    printed = platform_wrench(0.3, (1.0, 2.0), printed=True)
    u = np.array([0.3, 1.0, 2.0])
    force = u - at.C[6:]
    assert_close(force, right, ALGEBRA)
    falling = np.linalg.solve(at.H[6:, 6:], force)
    assert falling[2] == pytest.approx(2.0 / 8.0 - 9.81)
    assert abs(np.linalg.solve(at.H[6:, 6:], printed) - falling).max() > 9.0


def test_C4_rows_of_A_are_the_constrained_directions():
    """After (2.6): a velocity along a row of A opens loops, one that A annihilates does not."""
    q, v = moving()
    A = terms(q, v).A
    assert np.abs(A @ v).max() < 1e-13
    for row in A:
        assert np.linalg.norm(A @ row) > 0.1
        # what projection leaves of it is no more than what it shares with feasible directions
        kept = tb.project_velocity(mechanism(), from_absolute(q), from_absolute(row))
        assert np.abs(A @ to_absolute(kept)).max() < 1e-12


def test_C5_blocks_of_S_have_a_row_for_each_coordinate():
    """(2.24)-(2.26): S^i is n_i x (n - m); partial sums over parts give the whole."""
    q, v = moving()
    at = terms(q, v)
    S, R = consistent(boolean_rows())(at)
    gamma = -R @ at.bias
    u = np.zeros(9)
    u[list(ACTUATED)] = series_at(1.3)
    whole = np.linalg.solve(S.T @ at.H @ S, S.T @ (u - at.C - at.H @ gamma))
    inverse = np.linalg.inv(S.T @ at.H @ S)
    parts = [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 9)]
    summed = np.zeros(3)
    for own in parts:
        block = S[own]
        assert block.shape == (own.stop - own.start, 3)
        # mu of a part has as many entries as the part has coordinates
        mu = at.H[own, own] @ gamma[own] + at.C[own] - u[own]
        summed += -inverse @ block.T @ mu
    assert_close(summed, whole, ALGEBRA, scale=np.abs(whole).max() * 100.0)


def test_C6_gamma_of_the_pseudo_inverse_needs_a_transported_basis():
    """(2.22): with any other S, nud is not the rate of nu, and the motion leaves its path."""
    q, v = moving()
    tau = np.zeros(9)
    tau[[mechanism().v_names.index(f"theta_1_{k}") for k in (1, 2, 3)]] = series_at(1.3)
    exact = tb.loop_dynamics(mechanism(), from_absolute(q), from_absolute(v), tau).acceleration
    W = boolean_rows()
    x = np.concatenate([q, W @ v])
    right = Embedded(consistent(W), 10.0).rate(1.3, x)[9:]
    printed = Embedded(mixed(W), 10.0).rate(1.3, x)[9:]
    wanted = to_absolute(exact)[list(ACTUATED)]
    np.testing.assert_allclose(right, wanted, atol=1e-10)
    assert np.abs(printed - wanted).max() > 0.05
    start = np.concatenate([home(), np.zeros(3)])
    for rule, off in ((consistent(W), False), (smooth_orthonormal, True)):
        run = rk4_run(Embedded(rule, 10.0), start, 0.01, 200)
        error = np.abs(run.x[:, list(ACTUATED)] - driven_angles(run.time)[0]).max()
        assert (error > 0.05) if off else (error < 1e-4)


def test_C11_the_printed_rate_of_the_projector_is_half_of_it():
    """(3.21): -Phi pd p^T / (p.p) is right only on vectors along p, where (3.22) uses it."""
    rng = np.random.default_rng(9)
    p, pd = rng.standard_normal((2, 3))
    projector = lambda x: np.eye(3) - np.outer(x, x) / (x @ x)  # noqa: E731
    h = 1e-6
    true = (projector(p + h * pd) - projector(p - h * pd)) / (2.0 * h)
    printed = -projector(p) @ np.outer(pd, p) / (p @ p)
    np.testing.assert_allclose(printed + printed.T, true, atol=1e-9)
    assert np.abs(printed - true).max() > 0.1
    np.testing.assert_allclose(printed @ (2.5 * p), true @ (2.5 * p), atol=1e-8)


def test_C12_velocity_terms_need_rates_of_the_factors():
    """(3.33): C = N^T M Nd of a planar leg; without the dot it is the inertia itself."""
    leg = tb.load("planar_3rrr").without_loops()
    rng = np.random.default_rng(12)
    q, v = rng.standard_normal((2, leg.nv))
    still = tb.World(gravity=(0.0, 0.0, 0.0))
    turning, inertial = np.zeros(leg.nv), np.zeros(leg.nv)
    for body in leg.bodies:
        J = tb.frame_jacobian(leg, q, body.name, at=body.inertia.com)
        rate = tb.frame_jacobian_bias(leg, q, v, body.name, at=body.inertia.com)
        R = tb.forward_kinematics(leg, q, body.name)[0]
        M = np.zeros((6, 6))
        M[:3, :3] = R @ body.inertia.matrix @ R.T
        M[3:, 3:] = body.inertia.mass * np.eye(3)
        turning += J.T @ M @ rate
        inertial += J.T @ M @ J @ v
    expected = tb.bias_force(leg, q, v, world=still)
    np.testing.assert_allclose(turning, expected, atol=1e-12)
    assert np.abs(inertial - expected).max() > 0.5


def test_C14_every_leg_counts_once():
    """Lines printed twice, such as that of L_33^III, would count its leg's inertia twice."""
    q, v = moving(1.5)
    at = terms(q, v)
    S = consistent(boolean_rows())(at).S
    legs = [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 9)]
    shares = [S[own].T @ at.H[own, own] @ S[own] for own in legs]
    whole = sum(shares)
    # the inertia at 1.5 s that two formulations agree on
    np.testing.assert_allclose(
        np.diag(whole), [1.8920238905, 0.9237338437, 1.6980071410], atol=1e-9
    )
    assert np.abs(whole + shares[2] - whole).max() > 0.1


def test_C18_twist_rates_need_more_than_the_equation_of_twists():
    """The summary cites equations of twists for accelerations: they lack velocity terms."""
    at = motion([0.0, 1.3])
    q, v, vd = (x[-1] for x in (at.q, at.v, at.vd))
    legs = leg_projectors(q)
    K = sum(Phi for Phi, _ in legs)

    def by_twists(rates):
        right = sum(
            Phi @ first * rates[place] for (Phi, first), place in zip(legs, ACTUATED, strict=True)
        )
        return np.linalg.solve(K, right)

    np.testing.assert_allclose(by_twists(v), v[6:], atol=1e-12)
    # rates of the legs are below 1 rad/s, their squares a fifth of the accelerations
    assert np.abs(by_twists(vd) - vd[6:]).max() > 0.15 * np.abs(vd[6:]).max()


def test_C17_inputs_are_selected_and_relative_torques_act_on_both_links():
    """E(q) u is u: the actuated angles are coordinates; a torque between links is (-tau, tau)."""
    names = mechanism().v_names
    relative = np.zeros(9)
    relative[names.index("theta_2_1")] = 1.0
    force = np.linalg.inv(ABSOLUTE).T @ relative
    np.testing.assert_allclose(force[:2], [-1.0, 1.0])
    relative[:] = 0.0
    relative[names.index("theta_1_1")] = 1.0
    force = np.linalg.inv(ABSOLUTE).T @ relative
    np.testing.assert_allclose(force[:2], [1.0, 0.0], atol=1e-15)
    # and so it moves the mechanism
    q, v = moving()
    at = terms(q, v)
    found = [
        tb.loop_dynamics(mechanism(), from_absolute(q), from_absolute(v), tau).acceleration
        for tau in (np.zeros(9), relative)
    ]
    S = consistent(boolean_rows())(at).S
    change = to_absolute(found[1] - found[0])[list(ACTUATED)]
    np.testing.assert_allclose(S.T @ at.H @ S @ change, [1.0, 0.0, 0.0], atol=1e-10)
