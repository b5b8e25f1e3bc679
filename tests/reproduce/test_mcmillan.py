"""`tiburon reproduce mcmillan`: counts, accelerations and the lift; parts are what they claim."""

import re
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application
from tiburon.reproduce import arms_on_load, mcmillan
from tiburon.reproduce.cells import PRINT_CHECK, CellTable, claim, count_cells, operations
from tiburon.reproduce.chebyshev import chebyshev_nodes, chebyshev_series, series_value
from tiburon.reproduce.mcmillan_arms import random_arms, table_1
from tiburon.reproduce.mcmillan_figures import singular_errors
from tiburon.reproduce.published import (
    DUAL_ARM,
    MASS_MATRIX_AND_JACOBIAN,
    lilly_orin_arms_on_load,
)
from tiburon.reproduce.published import (
    arms_on_load as published_arms,
)


def differing(tables):
    return [
        (table.name, cell.quantity, cell.reference, cell.corrected, cell.ours)
        for table in tables
        for cell in table.cells
        if cell.good is False
    ]


def test_quick_tables_agree():
    tables = mcmillan.mcmillan_tables(("kernels", "dual-arm"))
    assert differing(tables) == []
    assert sum(count_cells(tables).judged.values()) >= 15


def test_counts_of_tasks_are_those_of_table_3():
    """All nine rows, and one set of bits per size of a block."""
    (table,) = mcmillan.mcmillan_tables(("table-3",))
    assert [cell.good for cell in table.cells] == [True] * 10


def test_null_spaces_decide_existence_and_uniqueness():
    """Ranks by directions that arms do not feel; also where no pair of them overlaps."""
    cells = mcmillan._null_spaces()
    assert [cell.quantity for cell in cells if not cell.good] == []
    assert sum(bool(cell.corrected) for cell in cells) == 2


@pytest.mark.slow
def test_all_tables_agree():
    tables = mcmillan.mcmillan_tables()
    assert differing(tables) == []


@pytest.mark.slow
def test_page_has_all_figures():
    page = mcmillan.mcmillan_page(mcmillan.mcmillan_tables(("kernels",)))
    assert page.count("<figure>") == 4


def test_rows_of_table_2_add_up_and_give_the_printed_numbers():
    for arms in (1, 2, 4):
        published = published_arms(arms)
        for place, total in enumerate((published.multiplications, published.additions)):
            assert reduce(add, [row[place] for row in published.rows.values()]) == total
    assert published_arms(4).at(6) == (7187, 6242)
    assert lilly_orin_arms_on_load(4).at(6).multiplications == 15188


def test_L767_additions_are_those_of_the_polynomial():
    """12589 is printed beside 546mN - 208m + 101, which gives 12373."""
    assert lilly_orin_arms_on_load(4).at(6).additions == 12373 != 12589


def test_L737_as_many_vectors_are_summed_as_there_are_arms_and_the_load():
    """27 m - 9 additions sum m symmetric matrices and m + 1 vectors; "seven" would be six arms."""
    counts = {m: arms_on_load.load_alone(m).additions for m in (2, 3, 4, 7)}
    assert counts[3] - counts[2] == counts[4] - counts[3] == (counts[7] - counts[4]) / 3 == 27


def test_counts_do_not_creep_up():
    """Pinned; ours are cubic in N as the published ones are."""
    assert arms_on_load.closed_chain(4, 6) == (6493, 5289)
    assert arms_on_load.mass_matrix_and_jacobian(6) == (486, 375)
    assert arms_on_load.dual_arm_first() == (488, 416)
    assert arms_on_load.dual_arm_second() == (365, 284)
    totals = np.array([arms_on_load.one_arm(n).total for n in range(6, 12)])
    assert np.all(np.diff(totals, 4) == 0)
    for n in (6, 9):
        assert arms_on_load.closed_chain(4, n).total <= published_arms(4).at(n).total
        assert (
            arms_on_load.mass_matrix_and_jacobian(n).total
            <= MASS_MATRIX_AND_JACOBIAN["improved"].at(n).total
        )
    assert arms_on_load.dual_arm_second().total <= DUAL_ARM["II"][2].total


def test_counts_of_the_page_are_those_that_the_command_prints():
    """docs/closed_chains.md states what `reproduce mcmillan` prints, in its table and below."""
    page = Path(__file__).parents[2].joinpath("docs", "closed_chains.md").read_text()
    kernels, star = mcmillan.mcmillan_tables(("kernels", "star"))
    arms = [
        operations("", published_arms(4).at(n), arms_on_load.closed_chain(4, n)) for n in (6, 12)
    ]
    # such as "7187m + 6242a", or with ", below by 1647"
    pairs = {
        tuple(re.sub("[ma]", "", text.partition(",")[0]) for text in (cell.reference, cell.ours))
        for cell in (*kernels.cells, *arms)
    }
    rows = re.findall(r"^\| .* \| (\d+ \+ \d+) \| (\d+ \+ \d+) \|$", page, re.MULTILINE)
    assert len(rows) == 5
    assert set(rows) <= pairs
    counts = [cell.ours for cell in star.cells if "as loop_dynamics" in cell.quantity]
    assert len(counts) == 2
    for count in counts:
        assert re.sub("[ma]", "", count) in page


def test_sums_of_printed_rows_are_checks_of_the_print():
    """What follows from print alone is no evidence for this package."""
    for name in ("crossover", "kernels"):
        (table,) = mcmillan.mcmillan_tables((name,))
        printed = [
            c for c in table.cells if "rows add up" in c.quantity or "polynomial" in c.quantity
        ]
        assert printed
        assert all(c.kind == PRINT_CHECK or c.good is None for c in printed)


def test_counted_steps_compute_the_accelerations():
    """Two arms with general parameters in a moving state, against the sparse system."""
    system = random_arms([6, 6])
    assert np.abs(tb.constraint_residual(system.model, system.q)).max() < 1e-14
    found = table_1(system)
    answer = tb.loop_dynamics(system.model, system.q, system.v, system.tau)
    vd = answer.acceleration
    np.testing.assert_allclose(np.concatenate(found.vd), vd[6:], atol=1e-11 * np.abs(vd).max())
    a = vd[:6] + np.concatenate([np.zeros(3), np.cross(system.v[:3], system.v[3:6])])
    np.testing.assert_allclose(found.a, a, atol=1e-11 * np.abs(vd).max())
    # 27 values per arm: a symmetric matrix and a vector
    assert all(np.allclose(np.array(m.inertia), np.array(m.inertia).T) for m in found.messages)


def test_jacobian_of_the_counted_steps_is_that_of_the_library():
    system = random_arms([7, 7], seed=5)
    columns = arms_on_load.jacobian_columns(system.arms[0], system.q[7:14].tolist(), system.tips[0])
    # the load has the world's axes
    held = system.tips[0].point_to_parent((0.0, 0.0, 0.0))
    J = tb.frame_jacobian(system.model.without_loops(), system.q, "arm_0_link_6", at=held)
    np.testing.assert_allclose(np.array(columns).T, J[:, 6:13], atol=1e-14)


def test_inverting_the_inertia_of_an_arm_squares_its_distance_from_a_singular_pose():
    """Chapter 2 near a stretched elbow: errors as the inverse square; method II has none."""
    distances = np.logspace(-5.0, -2.0, 16)
    first, second = singular_errors(distances)
    slope = np.polyfit(np.log(distances), np.log(first), 1)[0]
    # rounding scatters by a decade around the line
    assert slope == pytest.approx(-2.0, abs=0.4)
    assert second.max() < 1e-12


def test_series_is_the_function_between_its_nodes():
    nodes = chebyshev_nodes(40, 2.0)
    series = chebyshev_series(np.stack([np.sin(3.0 * nodes), np.exp(-nodes)], axis=-1))
    for t in (0.0, 0.77, 2.0):
        np.testing.assert_allclose(
            series_value(series, 2.0, t), [np.sin(3.0 * t), np.exp(-t)], atol=1e-14
        )


def test_command_exits_with_its_verdict(monkeypatch):
    runner = CliRunner()
    found = runner.invoke(application, ["reproduce", "mcmillan", "dual-arm"])
    assert found.exit_code == 0
    assert "McMillan 1994, section 4.4.1" in found.output
    bad = CellTable("x", "y", (claim("z", "a", "b", False),))
    monkeypatch.setitem(mcmillan.TABLES, "dual-arm", lambda: bad)
    assert runner.invoke(application, ["reproduce", "mcmillan", "dual-arm"]).exit_code == 1
