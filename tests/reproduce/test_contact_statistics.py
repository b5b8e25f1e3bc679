"""Statistics of the searches for contact forces, beside the published ones."""

import numpy as np
import pytest
from typer.testing import CliRunner

from tiburon.cli.application import application
from tiburon.contact.brute_force import solve_brute_force
from tiburon.reproduce import contact_statistics
from tiburon.reproduce.cells import CellTable, claim
from tiburon.reproduce.contact_statistics import (
    BODY_SIZES,
    SIZES,
    body_problem,
    random_problem,
    statistics_tables,
)


@pytest.fixture(scope="module")
def tables():
    return statistics_tables(60)


def test_pruned_search_tries_the_published_number_of_patterns(tables):
    """1.5^n of 2^n, 58 of 1024 for ten contacts."""
    rows = {_contacts(cell): cell for cell in tables[0].cells}
    assert tuple(rows) == SIZES
    assert rows[10].reference == "57.7 of 1024"
    assert all(cell.good for cell in rows.values())
    # not by wide errors alone: a full search would be far away
    assert all(float(cell.ours.split()[0]) < 0.6 * 2**n for n, cell in rows.items())


def _contacts(cell):
    return int(cell.quantity.partition(" contacts")[0])


def test_heuristic_choices_are_right_as_often_as_published(tables):
    """98 to 99 % on random problems, 95 to 100 % on single bodies."""
    for table, sizes in ((tables[1], SIZES), (tables[2], BODY_SIZES)):
        assert tuple(map(_contacts, table.cells)) == sizes
        assert all(cell.good and float(cell.ours.split()[0]) > 94.0 for cell in table.cells)


def test_problems_are_those_described():
    """Definite matrices; brute force agrees with what the statistics were made from."""
    rng = np.random.default_rng(1)
    for problem in (random_problem, body_problem):
        C, d = problem(rng, 5)
        assert np.linalg.eigvalsh(C)[0] > 0.0
        assert solve_brute_force(C, d).residual < 1e-9


def test_the_command_prints_both_and_fails_where_they_differ(monkeypatch):
    """Published beside ours, and an exit code."""
    monkeypatch.setattr(contact_statistics, "SIZES", (4,))
    monkeypatch.setattr(contact_statistics, "BODY_SIZES", (3,))
    found = CliRunner().invoke(application, ["reproduce", "contact-statistics", "--problems", "40"])
    assert found.exit_code == 0
    assert "5.1 of 16" in found.output
    assert "98 to 99 %" in found.output
    assert "of 1 derived from print; 0 differ" in found.output
    bad = CellTable("nobody", "made up", (claim("4 contacts", "5.1 of 16", "16.00", False),))
    monkeypatch.setattr(contact_statistics, "statistics_tables", lambda _: (bad,))
    found = CliRunner().invoke(application, ["reproduce", "contact-statistics"])
    assert found.exit_code == 1
    assert "DIFFERS" in found.output
