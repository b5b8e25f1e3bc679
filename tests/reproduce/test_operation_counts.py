"""Published operation counts: as printed, and ours never above them."""

import re
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import ALGEBRA, assert_close
from tiburon.algorithms.aba import aba
from tiburon.reproduce import chains, operation_counts
from tiburon.reproduce.kernels import KERNELS, STORAGE, matrix_products
from tiburon.reproduce.operation_counts import CountRow, CountTable, count_tables, crossovers
from tiburon.reproduce.published import ALGORITHMS, Cost, Polynomial, crossover
from tiburon.spatial import roll_pitch_yaw_to_quaternion

LARGEST = 6


@pytest.fixture(scope="module")
def tables():
    """All tables up to six joints; longer chains follow the same polynomials."""
    return count_tables(LARGEST)


def test_no_count_is_above_the_published_one(tables):
    """Multiplications and additions together, for every row of every table."""
    above = [
        f"{table.source}, {row.label}: above by {row.excess}"
        for table in tables
        for row in table.rows
        if row.excess > 0
    ]
    assert above == []


@pytest.mark.slow
def test_counts_of_the_page_are_those_that_the_command_prints():
    """docs/coverage.md: tables for six joints and for Free, six legs, and how many are above."""
    page = Path(__file__).parents[2].joinpath("docs", "coverage.md").read_text()
    cells = [cell for table in operation_counts.cell_tables() for cell in table.cells]
    # such as "712m + 550a", or with ", below by 414"
    pairs = {
        tuple(re.sub("[ma]", "", text.partition(",")[0]) for text in (cell.reference, cell.ours))
        for cell in cells
    }
    rows = re.findall(r"^\| .* \| (\d+ \+ \d+) \| (\d+ \+ \d+) \|", page, re.MULTILINE)
    assert len(rows) > 18
    assert set(rows) <= pairs
    legs = page.partition("Six legs of three joints")[2].partition("under water.")[0]
    counts = re.findall(r"\d+ \+ \d+", legs)
    assert len(counts) == 6
    assert set(zip(counts[::2], counts[1::2], strict=True)) <= pairs
    free = [cell.ours for cell in cells if "with Free" in cell.quantity]
    below = sum("above" not in ours for ours in free)
    assert f"Of its {len(free)} counts, {below} are at or below the published ones" in page


@pytest.mark.slow
def test_no_count_of_long_chains_is_above_the_published_one():
    """Up to twelve joints, as the command prints them."""
    test_no_count_is_above_the_published_one(count_tables())


def test_floating_bodies_are_counted_on_the_joint_of_models_too(tables):
    """Every table with a floating body; those above the published counts are known, and said."""
    floating = {t.title.partition(":")[0]: t for t in tables if t.rows[0].public is not None}
    assert {title for title in floating if "base" in title or "vehicle" in title} == set(floating)
    others = [t.title for t in tables if t.rows[0].public is None]
    assert not any("mobile" in title or "chain" in title or "arm" in title for title in others)
    above = {
        (t.source, t.title.partition(":")[0], row.label): row.public_excess
        for t in tables
        for row in t.rows
        if (row.public_excess or 0) > 0
    }
    given = {key: gap for key, gap in above.items() if "motion prescribed" in key[1]}
    # hybrid_dynamics carries spatial accelerations: 23 operations more for each joint
    assert list(given.values()) == [23 * n - 4 for n in range(2, LARGEST + 1)]
    thesis, paper = "McMillan 1994, Table", "McMillan, Orin and McGhee 1995, Table II"
    vehicle = "vehicle with an arm under water, frame at joint 1"
    mobile = "forward dynamics by articulated bodies, mobile base"
    chain = "forward dynamics by composite rigid bodies, base with one chain on land"
    assert {key: gap for key, gap in above.items() if key not in given} == {
        (paper, mobile, "1"): 4,
        (f"{thesis} 12", chain, "1"): 9,
        (f"{thesis} 19", vehicle, "1"): 31,
        (f"{thesis} 19", vehicle, "2"): 11,
        (paper, vehicle, "1"): 35,
        (paper, vehicle, "2"): 15,
    }


def test_tables_include_every_number_of_joints(tables):
    """From N = 2, or from 1 where the polynomials hold for one joint."""
    rows = {(t.source, t.title.partition(":")[0]): [r.label for r in t.rows] for t in tables}
    mobile = "forward dynamics by articulated bodies, mobile base"
    for (source, title), labels in rows.items():
        if source == "Featherstone 1987, Table 8-6" or title == mobile:
            assert labels == [str(n) for n in range(1, LARGEST + 1)]
        elif labels[0] == "2":
            assert labels == [str(n) for n in range(2, LARGEST + 1)]
    sources = {source for source, _ in rows}
    assert {f"Featherstone 1987, Table {k}" for k in ("4-1", "8-2", "8-3", "8-4", "8-5", "8-6")} < (
        sources
    )
    assert {f"McMillan 1994, Table {k}" for k in (21, 22, 23, 24, 26, 28, 30)} < sources


@pytest.mark.parametrize("key", [key for key, found in ALGORITHMS.items() if found.rows])
def test_published_rows_add_up_to_the_published_total(key):
    """The rows of the tables as printed sum to the totals as printed."""
    published = ALGORITHMS[key]
    for place, total in enumerate((published.multiplications, published.additions)):
        assert reduce(add, [row[place] for row in published.rows.values()]) == total


@pytest.mark.parametrize(
    ("key", "cost"),
    [
        ("featherstone_inverse", (712, 550)),
        ("featherstone_mass_matrix", (505, 410)),
        ("featherstone_forward", (1303, 1019)),
        ("featherstone_articulated", (1533, 1415)),
        ("thesis_inverse", (459, 400)),
        ("thesis_bias", (450, 381)),
        ("thesis_mass_matrix", (389, 370)),
        ("thesis_articulated", (1090, 989)),
        ("paper_articulated", (1085, 982)),
        ("paper_mobile", (1314, 1193)),
    ],
)
def test_polynomials_give_the_printed_numbers_for_six_joints(key, cost):
    """The sources print these beside the polynomials."""
    assert ALGORITHMS[key].at(6) == cost


def test_published_forward_dynamics_is_the_sum_of_its_parts():
    """Table 8-6: mass matrix, Newton-Euler with n additions fewer, and an LDL^T solution."""
    parts = [ALGORITHMS["featherstone_mass_matrix"], ALGORITHMS["featherstone_inverse"]]
    products = reduce(add, [part.multiplications for part in parts])
    sums = reduce(add, [part.additions for part in parts])
    forward = ALGORITHMS["featherstone_forward"]
    assert products + Polynomial("1/6", "3/2", "-2/3", 0) == forward.multiplications
    assert sums + Polynomial(-1, 0) + Polynomial("1/6", 1, "-7/6", 0) == forward.additions


def test_our_counts_are_polynomials_too():
    """Each further joint costs the same; pinned, so that no count creeps up."""
    for n in range(3, 9):
        assert chains.inverse_dynamics(n) == (94 * n - 108, 82 * n - 100)
        assert chains.articulated_body(n) == (210 * n - 299, 192 * n - 299)
        assert chains.mobile_articulated_body(n) == (210 * n - 13, 192 * n - 31)
    for n in range(4, 9):
        assert chains.bias_force(n) == (94 * n - 118, 81 * n - 109)
        assert chains.composite_rigid_body(n) == (10 * n * n - 26, 6 * n * n + 21 * n - 49)


def test_crossovers_of_the_published_polynomials():
    """Featherstone 1987, section 8.4, says about nine joints; the polynomials meet at these."""
    by_products, by_all = crossovers()
    assert round(by_products.published, 2) == 9.40
    assert round(by_all.published, 2) == 11.31
    # ours meet between the whole numbers where the cheaper way changes
    for found, measure in ((by_products, lambda c: c.multiplications), (by_all, Cost.total.fget)):
        below, above = int(found.ours), int(found.ours) + 1
        ways = chains.forward_by_composite_rigid_body, chains.articulated_body
        assert measure(ways[0](below)) <= measure(ways[1](below))
        assert measure(ways[0](above)) > measure(ways[1](above))


def test_crossover_of_known_lines():
    """2 n + 6 and n + 10 meet at n = 4."""
    assert crossover(Polynomial(2, 6), Polynomial(1, 10)) == pytest.approx(4.0)


def test_screw_of_a_rigid_body_reaches_sixteen_and_sixteen():
    """Featherstone's shortened 19m + 18a can be 16m + 16a."""
    (found,) = (kernel for kernel in KERNELS if kernel.published == (19, 18))
    assert found.cost() == (16, 16)


def test_recurrence_takes_the_published_number_of_products():
    """Table 4-1; the sum takes fewer than published once terms share products."""
    (published, ours), recurrence = matrix_products(10)
    assert (published, recurrence) == (90, (26, 26))
    assert ours < published


def test_inertias_are_stored_without_repetition():
    """Table 8-2 stores 27 and 13 numbers; the distinct ones are 21 and 10."""
    assert [(s.quantity, s.ours) for s in STORAGE][2:] == [
        ("articulated-body inertia", 21),
        ("rigid-body inertia", 10),
    ]


def test_polynomials_are_formatted_as_published():
    """Signs, powers and fractions."""
    assert str(Polynomial("1/6", 0, -1, 25)) == "(1/6) N^3 - N + 25"
    assert str(Polynomial(-10, 9, 0)) == "-10N^2 + 9N"
    assert str(Polynomial(0)) == "0"
    assert hash(Polynomial(1, 2)) == hash(Polynomial("1", "2"))


def test_verdicts_in_text(monkeypatch):
    """Multiplications and additions count alike; counts with Free are shown, not judged."""
    rows = (
        CountRow("1", Cost(5, 5), Cost(6, 4)),
        CountRow("2", Cost(5, 5), Cost(6, 5)),
        CountRow("3", Cost(5, 5), Cost(2, 2), Cost(6, 5)),
    )
    monkeypatch.setattr(
        operation_counts, "count_tables", lambda _: (CountTable("S", "T", "N", rows),)
    )
    table, _ = operation_counts.cell_tables()
    assert [(cell.quantity, cell.ours, cell.verdict) for cell in table.cells] == [
        ("N 1", "6m + 4a", "equal in sum"),
        ("N 2", "6m + 5a, above by 1", "DIFFERS"),
        ("N 3", "2m + 2a, below by 6", "fewer"),
        ("N 3, with Free", "6m + 5a, above by 1", "not judged (measured)"),
    ]


def test_base_by_angles_is_the_floating_base():
    """The counted base differs from the one that ships in how its attitude is given, only."""
    rng = np.random.default_rng(8)
    yaw, pitch, roll = angles = rng.uniform(-1.0, 1.0, 3)
    arm = 3
    counted = chains.chain_model(arm, chains.FreeByAngles("base"))
    shipped = chains.chain_model(arm, tb.Free("base"))
    position, joints = rng.normal(size=3).tolist(), rng.normal(size=arm).tolist()
    v, tau = rng.normal(size=(2, 6 + arm)).tolist()
    g = (0.0, 0.0, -9.81)
    by_angles = aba(counted.plan, [*angles, *position, 0.0, *joints], v, tau, g)
    quaternion = roll_pitch_yaw_to_quaternion(roll, pitch, yaw)
    by_quaternion = aba(shipped.plan, [*quaternion, *position, *joints], v, tau, g)
    assert_close(by_angles, by_quaternion, ALGEBRA)
