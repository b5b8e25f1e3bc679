"""What notebooks show for robots, modes, mobility and outcomes."""

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


def test_models_modes_mobility_and_outcomes_have_tables():
    """Names, kinds and counts a reader looks for."""
    arm = tb.load("double_pendulum")
    assert "revolute" in arm._repr_html_()
    assert f"nq = {arm.nq}" in arm._repr_html_()
    assert "oscillation" in tb.modes(arm)._repr_html_()
    linkage = tb.load("four_bar")
    shown = tb.mobility(linkage, linkage.poses["home"])._repr_html_()
    assert (
        "<th style='text-align:left'>mobility here</th><td style='text-align:left'>1</td>" in shown
    )
    run = tb.simulate(arm, 0.05, q=np.zeros((3, 2)), dt=0.01)
    assert "Outcomes of 3 cases" in run.outcomes._repr_html_()
    assert "finished" in run.outcomes[1]._repr_html_()


@pytest.mark.parametrize("name", ["stewart", "tiburon_titan", "pendulum"])
def test_every_body_of_a_robot_is_listed(name):
    robot = tb.load(name)
    shown = robot._repr_html_()
    assert all(body.name in shown for body in robot.bodies[:MOST_ROWS])
