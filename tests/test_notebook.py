"""What notebooks show for robots, modes, mobility and outcomes."""

import html
import math
import re

import numpy as np
import pytest

import tiburon as tb
from tiburon.notebook import MOST_ROWS, notebook_table


def test_text_is_escaped_and_long_tables_end():
    shown = notebook_table("<b>", [(f"<{k}>", "&") for k in range(MOST_ROWS + 3)], note="a < b")
    assert "&lt;b&gt;" in shown
    assert "<0>" not in shown
    assert shown.count("<tr>") == MOST_ROWS
    assert "and 3 more; a &lt; b" in shown


def cells_of(shown):
    """The rows of a table, as texts of their cells."""
    return [
        [html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", shown)
    ]


def test_a_robot_is_a_table_of_its_bodies():
    """Names, parents, joints, degrees of freedom and masses; sizes and totals below."""
    shown = tb.load("bluerov2_alpha")._repr_html_()
    rows = cells_of(shown)
    assert rows[0] == ["body", "parent", "joint", "DoF", "mass [kg]"]
    robot = tb.load("bluerov2_alpha")
    vehicle, weight = robot.bodies[:2]
    assert rows[1] == ["vehicle", "world", "base (free)", "6", f"{vehicle.inertia.mass:.4g}"]
    assert rows[2][1:4] == [weight.parent, f"{weight.joint.name} (fixed)", "0"]
    assert f"nq = {robot.nq}, nv = {robot.nv}" in shown
    assert f"{sum(body.inertia.mass for body in robot.bodies):.6g} kg" in shown
    assert f"{len(robot.thrusters)} thrusters" in shown


def test_modes_show_frequencies_in_hertz():
    """A pendulum with a small ball at 1 m swings at sqrt(g / l) / 2 pi, but for its own inertia."""
    rows = cells_of(tb.modes(tb.load("pendulum"))._repr_html_())
    frequency = math.sqrt(9.81) / (2.0 * math.pi)
    assert rows[0][2] == "frequency [Hz]"
    assert rows[1][1] == "oscillation"
    assert float(rows[1][2]) == pytest.approx(frequency, rel=1e-3)


def test_mobility_shows_its_counts():
    """A four-bar: five equations, three redundant, one degree of freedom, one motor."""
    linkage = tb.load("four_bar")
    found = tb.mobility(linkage, linkage.poses["home"])
    rows = dict(row[:2] for row in cells_of(found._repr_html_()))
    assert rows["mobility here"] == "1"
    assert rows["constraints, redundant"] == "5, 3"
    assert rows["driven joints"] == "input"
    assert rows["actuation redundancy"] == "0"


def test_outcomes_count_cases_by_status():
    """How many ended how, with the first of each kind and its time."""
    arm = tb.load("double_pendulum")
    far = tb.traced(lambda state: state.q[0] - 0.5)
    stop = tb.Event("far", far, direction=1, terminal=True)
    speeds = np.array([[0.0, 0.0], [20.0, 0.0], [25.0, 0.0]])
    run = tb.simulate(arm, 0.1, q=np.zeros((3, 2)), v=speeds, method=tb.RK4(dt=0.01), events=[stop])
    shown = run.outcomes._repr_html_()
    assert "Outcomes of 3 cases" in shown
    rows = cells_of(shown)[1:]
    assert [row[:3] for row in rows] == [["event", "2", "1"], ["finished", "1", "0"]]
    assert float(rows[0][3]) == pytest.approx(run.outcomes[1].time, rel=1e-5)
    alone = dict(row[:2] for row in cells_of(run.outcomes[2]._repr_html_()))
    assert alone["status"] == "event"
    assert alone["event"] == "far"
    assert float(alone["time [s]"]) == pytest.approx(run.outcomes[2].time, rel=1e-5)


@pytest.mark.parametrize("name", ["stewart", "tiburon_titan", "pendulum"])
def test_every_body_of_a_robot_is_listed(name):
    robot = tb.load(name)
    shown = robot._repr_html_()
    assert all(body.name in shown for body in robot.bodies[:MOST_ROWS])
