"""`tiburon reproduce nahon`: every judged cell agrees, and a wrong one fails."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application
from tiburon.load_sharing.kkt import optimality
from tiburon.reproduce import nahon
from tiburon.reproduce.cells import (
    DERIVED,
    INDEPENDENT,
    PRINT_CHECK,
    PRINTED,
    SURROGATE,
    Cell,
    CellTable,
    claim,
    count_cells,
    lost,
    number,
    timing,
)
from tiburon.reproduce.dual_active_set import dual_active_set
from tiburon.reproduce.nahon import EXAMPLES, nahon_tables
from tiburon.reproduce.nahon_problems import (
    ball_motion,
    ball_plan,
    feet_of_walker,
    grasped_ball,
    kerr_roth,
    walker_plan,
    walker_pose,
)
from tiburon.reproduce.nahon_tasks import pumas_motion, two_pumas
from tiburon.trace import solve_qp

QUICK = ("E1", "E3", "E5", "E7", "E13", "E14", "S1")
"""Examples that take a fraction of a second each."""


def differing(tables):
    return [
        (table.name, cell.quantity, cell.reference, cell.ours)
        for table in tables
        for cell in table.cells
        if cell.good is False
    ]


def test_quick_examples_agree():
    """Counts, loads, continuity, landing and balancing, all cells of each."""
    tables = nahon_tables(QUICK)
    names = (table.name.partition(",")[0] for table in tables)
    assert list(dict.fromkeys(names)) == list(QUICK)
    assert differing(tables) == []
    assert sum(count_cells(tables).judged.values()) > 60


@pytest.mark.slow
def test_all_examples_agree():
    """Every example, each table of the source that survives; lost data are listed."""
    tables = nahon_tables()
    assert {table.name.partition(",")[0] for table in tables} == set(EXAMPLES)
    names = " ".join(table.name for table in tables)
    for table in ("5.1", "6.1", "6.2", "6.3", "6.4", "6.5", "6.6", "6.7", "7.1"):
        assert f"table {table}" in names
    assert differing(tables) == []
    counts = count_cells(tables)
    assert sum(counts.judged.values()) > 150
    assert counts.judged[PRINTED] > 60
    assert counts.unjudged > 20
    kinds = {cell.kind for table in tables for cell in table.cells}
    assert kinds == {PRINTED, DERIVED, SURROGATE, INDEPENDENT, PRINT_CHECK, ""}


def test_cells_judge_by_half_of_the_last_digit():
    """Agreement, difference, infinite values, shapes; times and lost data are not judged."""
    assert number("x", 1.23, 1.2349, 5e-3).good
    assert not number("x", 1.23, 1.2351, 5e-3).good
    assert number("x", (np.inf, 1), (np.inf, 1), 0.1).good
    assert not number("x", np.inf, 1e9, 0.1).good
    assert not number("x", (1, 2), (1, 2, 3), 0.1).good
    assert number("x", 2, 3, 0, DERIVED).verdict == "DIFFERS"
    assert claim("x", "yes", "yes", True).verdict == "agrees"
    assert timing("x", 2.0, 3.0).good is None
    assert lost("x", "ours").verdict == "lost in the scan"


def test_the_command_prints_both_and_fails_where_they_differ(monkeypatch):
    """Published beside ours with a verdict, and an exit code."""
    found = CliRunner().invoke(application, ["reproduce", "nahon", "e5", "E1"])
    assert found.exit_code == 0, found.output
    assert "Nahon 1991, E5: planar walker under a moving load of 1000 N" in found.output
    assert "339285.714" in found.output
    row = next(line for line in found.output.splitlines() if "339285.714" in line)
    assert row.split()[-5:] == ["derived", "from", "print", "339285.714", "agrees"]
    assert "0 differ" in found.output
    assert "curves of Fig. 2.13 are lost" in found.output
    short = CliRunner().invoke(application, ["reproduce", "nahon", "E1", "--summary"])
    assert "agree: 3 of 3 printed; 0 differ, 0 not judged" in short.output
    assert "mobility" not in short.output
    bad = CellTable("E9", "made up", (Cell("force", "1", "2", PRINTED, False),))
    monkeypatch.setattr(nahon, "nahon_tables", lambda _: (bad,))
    for words in ([], ["--summary"]):
        found = CliRunner().invoke(application, ["reproduce", "nahon", *words])
        assert found.exit_code == 1
        assert "DIFFERS" in found.output
        assert "1 differ" in found.output


def test_unknown_examples_are_refused():
    with pytest.raises(tb.UnknownNameError, match="E17"):
        nahon_tables(["E17"])


# -- the problems that the tables are made of ------------------------------------------------------


def test_printed_start_of_the_grasp():
    """E9: the solution of least norm, [-0.5 0 -0.5 0 0 -0.5 0.5 0]."""
    grasp = kerr_roth()
    x = np.linalg.pinv(grasp.A1) @ grasp.b1
    np.testing.assert_allclose(x, [-0.5, 0, -0.5, 0, 0, -0.5, 0.5, 0], atol=1e-14)


def test_walker_balances_its_weight():
    """E13: forces and moments about the center of mass; pyramids around the cone."""
    plan = walker_plan()
    x = plan.share(walker_pose(0.63)).x.reshape(4, 3)
    np.testing.assert_allclose(x.sum(axis=0), [0, 0, 1000.0], atol=1e-9)
    moments = np.cross(feet_of_walker(0.63), x).sum(axis=0)
    np.testing.assert_allclose(moments, 0.0, atol=1e-9)
    assert plan.problem(walker_pose(0.63)).A2.shape == (20, 12)


def test_ball_is_carried_and_turned():
    """E10: forces of the fingers make weight and angular acceleration of the ball."""
    plan = ball_plan(4)
    state = (x[-1] for x in ball_motion(4, np.linspace(0.0, 0.06, 4)))
    share = plan.share(*state)
    b1 = np.array([*plan.problem(*share.motion[:3]).b1])
    turning = -np.pi / 6 * (4 * np.pi) ** 2 * np.sin(4 * np.pi * 0.06)
    # moments and forces in axes of the ball, which turns about the vertical
    expected = [0, 0, 0.4 * 0.91 * 0.0255**2 * turning, 0, 0, 0.91 * 9.81]
    np.testing.assert_allclose(b1, expected, atol=1e-9)
    limits = grasped_ball(4, 0.06)
    x = np.asarray(solve_qp(np.eye(12), np.zeros(12), *limits).x)
    np.testing.assert_allclose(x, share.x, atol=1e-9)
    assert limits.A2.shape == (40, 12)
    assert grasped_ball(2, 0.0).A1.shape == (5, 6)
    assert grasped_ball(2, 0.0).A2.shape == (20, 6)


def test_emulated_method_agrees_with_ours():
    """The plain dual active set method against the native one, all choices but the listing's."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        n, m, rows = 6, 2, 14
        G = rng.standard_normal((n, n))
        W, c = G @ G.T + 0.1 * np.eye(n), 3.0 * rng.standard_normal(n)
        A1, A2, x = (rng.standard_normal((k, n)) for k in (m, rows, 1))
        b1, b2 = A1 @ x[0], A2 @ x[0] - rng.exponential(0.3, rows)
        ours = solve_qp(W, c, A1, b1, A2, b2)
        for options in ({}, {"normalized": False}, {"equality_start": False}):
            found = dual_active_set(W, c, A1, b1, A2, b2, **options)
            np.testing.assert_allclose(found.x, ours.x, atol=1e-7)
        conditions = optimality(
            W, c, A1, b1, A2, b2, ours.x, ours.equation_multipliers, ours.inequality_multipliers
        )
        assert conditions.residual < 1e-9
        wrong = optimality(
            W,
            c,
            A1,
            b1,
            A2,
            b2,
            ours.x,
            ours.equation_multipliers,
            0.0 * ours.inequality_multipliers,
        )
        assert wrong.residual > 1e-3 or not np.any(ours.inequality_multipliers)


def test_arms_move_in_the_plane_of_the_bar():
    """E11, E16: wrists stay in the plane and in their ranges; two motors of each are at rest."""
    model = two_pumas()
    q, v, vd = pumas_motion(model, np.linspace(0.0, 2.0, 9))
    for side in ("left", "right"):
        for joint in (1, 4, 6):
            own = model.slice(f"{side}_joint_{joint}", of="v")
            # exactly: friction would act on rounding
            assert not v[:, own].any()
            assert np.abs(vd[:, own]).max() < 1e-8
        moving = model.slice(f"{side}_joint_5", of="v")
        assert np.abs(v[:, moving]).max() > 0.3
    for joint in model.joints[1:]:
        own = q[:, model.slice(joint.name)]
        assert joint.limits.lower < own.min()
        assert own.max() < joint.limits.upper
    _, center = tb.forward_kinematics(model, q[4], "left_hand")
    assert abs(center[1]) < 1e-9


def test_arms_turn_the_bar_with_closed_loops():
    """E11: a quarter turn at rest at both ends; velocities are those of the positions."""
    model = two_pumas()
    times = np.linspace(0.0, 2.0, 21)
    q, v, vd = pumas_motion(model, times)
    for k in (0, 7, 20):
        np.testing.assert_allclose(tb.constraint_residual(model, q[k]), 0.0, atol=1e-11)
    assert np.abs(v[0]).max() == 0.0
    assert np.abs(vd[-1]).max() < 1e-9
    R0, _ = tb.forward_kinematics(model, q[0], "bar")
    R1, _ = tb.forward_kinematics(model, q[-1], "bar")
    assert np.trace(R0.T @ R1) == pytest.approx(1.0, abs=1e-12)
    h = 1e-5
    near = pumas_motion(model, np.array([0.7 - h, 0.7, 0.7 + h]))
    arms = slice(7, None)
    np.testing.assert_allclose((near[0][2] - near[0][0])[arms] / (2 * h), near[1][1][6:], atol=1e-6)
    np.testing.assert_allclose((near[1][2] - near[1][0]) / (2 * h), near[2][1], atol=1e-5)
