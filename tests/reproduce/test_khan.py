"""`tiburon reproduce khan`: every judged cell agrees, and its parts are what they claim to be."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tests.tolerances import ALGEBRA, assert_close
from tiburon.cli.application import application
from tiburon.reproduce import khan, khan_equations
from tiburon.reproduce.cells import CellTable, claim, count_cells, measured, number
from tiburon.reproduce.khan import stability_limit
from tiburon.reproduce.khan_complements import (
    Embedded,
    boolean_rows,
    consistent,
    independent_by_total_pivoting,
    projector_basis,
)
from tiburon.reproduce.khan_mechanism import (
    ACTUATED,
    driven_angles,
    from_absolute,
    home,
    mechanism,
    motion,
    penalty_acceleration,
    series_at,
    terms,
    to_absolute,
    torques,
    zoo_motion,
)
from tiburon.reproduce.matlab_steps import matlab_run
from tiburon.simulation.integrators.dop853 import DOP853
from tiburon.simulation.integrators.dopri5 import DOPRI5

QUICK = ("data", "equations", "torques", "inertia", "drop")
"""Tables that take a fraction of a second each."""

NUMBERS = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""In texts of cells and pages."""


def differing(tables):
    return [
        (table.name, cell.quantity, cell.reference, cell.corrected, cell.ours)
        for table in tables
        for cell in table.cells
        if cell.good is False
    ]


def moving(time=1.3):
    """Return the prescribed motion at one time."""
    return motion([0.0, time])


def test_quick_tables_agree():
    """Data, equations, torques at nine times to 1e-9, inertia, free fall."""
    tables = khan.khan_tables(QUICK)
    assert differing(tables) == []
    counts = count_cells(tables)
    assert sum(counts.judged.values()) > 40
    assert counts.unjudged >= 3


@pytest.mark.slow
def test_all_tables_agree():
    """Every table, with the runs of chapter 4."""
    tables = khan.khan_tables()
    assert differing(tables) == []


@pytest.mark.slow
def test_numbers_of_the_page_are_those_that_the_command_prints():
    """docs/closed_chains.md, table 5.1: each number is one of the cell, to its digits."""
    (table,) = khan.khan_tables(("table-5.1",))
    page = Path(__file__).parents[2].joinpath("docs", "closed_chains.md").read_text()
    lines = page.partition("### Table 5.1")[2].partition("###")[0].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")][2:]
    titles = ("modularity", "distribution", "preparation", "accuracy", "accuracy", "stiffness")
    methods = ("penalty", "Gaussian complement", "DeNOC", "projection")
    found = 0
    for title, row in zip((*titles, "efficiency"), rows, strict=True):
        for method, text in zip(methods, row[1:], strict=True):
            cells = [c for c in table.cells if c.quantity.startswith(f"{method}: {title}")]
            printed = [float(x) for x in NUMBERS.findall(cells[0].ours)] if cells else []
            # of both complements the first
            for stated in NUMBERS.findall(text.partition(" / ")[0]):
                digits = len(stated.partition("e")[0].replace(".", ""))
                rounded = [float(f"{x:.{digits - 1}e}") for x in printed]
                assert float(stated) in rounded, (title, method)
                found += 1
    assert found > 30


@pytest.mark.slow
def test_page_has_all_figures():
    """One page, self-contained: figures of the source that are lost, redrawn, and all cells."""
    page = khan.khan_page(khan.khan_tables(("torques",)))
    assert page.count("<figure>") == 9
    assert "http" not in page.replace("http://www.w3.org", "")


def test_cut_and_uncut_models_move_alike():
    """Nine coordinates and six constraints, or seven angles and two closures: one mechanism."""
    robot, at = tb.load("planar_3rrr"), moving()
    q, v, _ = (x[-1] for x in zoo_motion(at))
    assert np.abs(tb.constraint_residual(robot, q)).max() < 1e-14
    tau = np.zeros(robot.nv)
    tau[robot.v_names.index("theta_2")] = 7.0
    by_zoo = tb.forward_dynamics(robot, q, v, tau)
    model, force = mechanism(), np.zeros(9)
    force[model.v_names.index("theta_1_2")] = 7.0
    by_cut = to_absolute(
        tb.forward_dynamics(model, from_absolute(at.q[-1]), from_absolute(at.v[-1]), force)
    )
    for k in (1, 2, 3):
        index = robot.v_names.index(f"theta_{k}")
        assert by_zoo[index] == pytest.approx(by_cut[2 * (k - 1)], abs=1e-11)


def test_motion_satisfies_loops_and_drivers():
    """Velocities and accelerations are the rates of positions and velocities."""
    h = 1e-4
    before, at, after = (moving(1.3 + step) for step in (-h, 0.0, h))
    assert_close(at.q[-1][list(ACTUATED)], driven_angles(1.3)[0])
    # second-order differences: h^2 / 6 times third derivatives of order 10
    np.testing.assert_allclose((after.q[-1] - before.q[-1]) / (2 * h), at.v[-1], atol=1e-7)
    np.testing.assert_allclose((after.v[-1] - before.v[-1]) / (2 * h), at.vd[-1], atol=1e-6)


def test_series_of_torques_is_exact_between_its_nodes():
    """Rounding is all that is left: the motion amplifies errors by 3e4."""
    time = np.array([0.137, 0.9, 1.713, 2.431, 2.99])
    assert np.abs(series_at(time) - torques(motion(time))).max() < 2e-12


def test_kernel_in_coordinates_of_the_source_is_chapter_2():
    rng = np.random.default_rng(5)
    q, v = rng.standard_normal(9), rng.standard_normal(9)
    at, (H, b), (c, A) = terms(q, v), khan_equations.equations(q, v), khan_equations.closures(q)
    assert_close(at.H, H, ALGEBRA)
    assert_close(at.C, b, ALGEBRA)
    assert_close(at.A, A, ALGEBRA)
    assert_close(at.c, c, ALGEBRA)
    # dA/dt v by differences
    h = 1e-5
    rate = [khan_equations.closures(q + s * h * v)[1] for s in (-1.0, 1.0)]
    np.testing.assert_allclose(at.bias, (rate[1] - rate[0]) @ v / (2 * h), atol=1e-8)


def test_embedded_equations_give_the_motion_of_multipliers():
    """Right for any constant rows W: accelerations are those of `loop_dynamics`."""
    at = moving()
    q, v = at.q[-1], at.v[-1]
    tau = np.zeros(9)
    tau[[mechanism().v_names.index(f"theta_1_{k}") for k in (1, 2, 3)]] = series_at(1.3)
    exact = to_absolute(
        tb.loop_dynamics(mechanism(), from_absolute(q), from_absolute(v), tau).acceleration
    )
    for W in (boolean_rows(), np.random.default_rng(1).standard_normal((3, 9))):
        rate = Embedded(consistent(W), 10.0).rate(1.3, np.concatenate([q, W @ v]))
        np.testing.assert_allclose(rate[:9], v, atol=1e-12)
        np.testing.assert_allclose(rate[9:], W @ exact, atol=1e-10)


def test_penalty_kernel_is_the_formula():
    """(2.7): H qdd = u - C - A^T (k c + d A qd)."""
    rng = np.random.default_rng(7)
    q, v, tau = home() + 1e-3 * rng.standard_normal(9), rng.standard_normal(9), np.arange(3.0)
    at, k = terms(q, v), 1e4
    u = np.zeros(9)
    u[list(ACTUATED)] = tau
    force = u - at.C - at.A.T @ (k * at.c + 2.0 * np.sqrt(k) * (at.A @ v))
    found = to_absolute(penalty_acceleration(from_absolute(q), from_absolute(v), tau, k))
    np.testing.assert_allclose(found, np.linalg.solve(at.H, force), rtol=1e-10)


def test_parts_of_the_penalty_formulation_are_the_whole():
    """(2.8)-(2.10): each part needs its own inertia and block of A, whose other rows are zero."""
    rng = np.random.default_rng(17)
    q, v, tau = home() + 1e-3 * rng.standard_normal(9), rng.standard_normal(9), np.arange(3.0)
    at, k = terms(q, v), 1e5
    u = np.zeros(9)
    u[list(ACTUATED)] = tau
    multipliers = k * at.c + 2.0 * np.sqrt(k) * (at.A @ v)
    whole = to_absolute(penalty_acceleration(from_absolute(q), from_absolute(v), tau, k))
    for leg, own in enumerate((slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 9))):
        A = at.A[:, own]
        force = u[own] - at.C[own] - A.T @ multipliers
        alone = np.linalg.solve(at.H[own, own], force)
        np.testing.assert_allclose(alone, whole[own], rtol=1e-9)
        if leg < 3:
            # a dyad needs the multipliers of its own closure only
            rows = [row for row in range(6) if row // 2 != leg]
            assert not A[rows].any()


def test_complements_annihilate_the_constraints():
    at = terms(moving().q[-1], np.zeros(9))
    for S in (projector_basis(at.A), consistent(boolean_rows())(at).S):
        assert np.abs(at.A @ S).max() < 1e-14
    assert independent_by_total_pivoting(at.A) == ACTUATED


def test_stability_limits_are_those_of_the_textbook():
    """Order 5: 3.3; the interval of order 8 is longer, which is why its runs survive."""
    assert stability_limit(DOPRI5) == pytest.approx(3.30, abs=0.02)
    assert stability_limit(DOP853) > 4.05


def test_matlab_steps_meet_their_tolerance_and_end_in_time():
    """A damped oscillator against its closed form; the longest step is respected."""

    def rate(time, x):
        return np.array([x[1], -x[0] - 0.2 * x[1]])

    w = np.sqrt(0.99)
    for rtol in (1e-3, 1e-6):
        run = matlab_run(rate, [1.0, 0.0], 10.0, rtol=rtol)
        assert run.outcome == "finished"
        assert run.time[-1] == 10.0
        exact = np.exp(-0.1 * run.time) * (np.cos(w * run.time) + 0.1 / w * np.sin(w * run.time))
        assert np.abs(run.x[:, 0] - exact).max() < 20.0 * rtol
        assert run.evaluations == 1 + 6 * (run.steps + run.rejected)
    capped = matlab_run(rate, [1.0, 0.0], 3.0, rtol=1e-3, longest=0.01)
    assert np.diff(capped.time).max() <= 0.011
    assert matlab_run(rate, [1.0, 0.0], 10.0, rtol=1e-6, most=100).outcome == "too many evaluations"


def test_command_prints_corrections_and_exits_with_its_verdict(monkeypatch):
    """Published, corrected and ours in columns; reasons below; 1 where a value differs."""
    runner = CliRunner()
    found = runner.invoke(application, ["reproduce", "khan", "data"])
    assert found.exit_code == 0
    assert "lost in the scan" in found.output
    assert "corrected: the printed pose is rounded" in found.output
    bad = CellTable("x", "y", (number("z", 1.0, 1.0, 0.1, corrected=2.0, reason="why"),))
    monkeypatch.setitem(khan.TABLES, "data", lambda: bad)
    found = runner.invoke(application, ["reproduce", "khan", "data"])
    assert found.exit_code == 1
    assert "DIFFERS (corrected)" in found.output
    assert "corrected: why" in found.output
    assert runner.invoke(application, ["reproduce", "khan", "nonsense"]).exit_code != 0


def test_corrected_cells_are_judged_by_the_correction():
    assert number("x", 1.0, 2.0, 0.1, corrected=2.0).good
    assert claim("x", "a", "b", True, corrected="b").verdict == "agrees (corrected)"
    assert measured("x", "High", "3").verdict == "not judged (measured)"
