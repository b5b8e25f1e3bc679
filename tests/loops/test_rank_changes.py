"""Runs that come to or leave a singular configuration say so in their outcome."""

import numpy as np
import pytest

import tiburon as tb

BRANCH = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
"""How two four-bars lean; at a quarter turn they lie on one line and could go several ways."""

CHANGED = (
    "finished at 0.2 s; between 0 s and 0.01 s the rank of its constraints changed from 2 to 4: a "
    "singular configuration, near which the motion may not be unique"
)


def test_leaving_a_singular_configuration_is_reported(tmp_path):
    model = tb.load("n_four_bar_2")
    q, v = 0.5 * np.pi * BRANCH, 0.7 * BRANCH
    run = tb.simulate(model, 0.2, q=q, v=v)
    assert run.outcome.status == "finished"
    assert run.outcome.message == CHANGED
    stored = tb.simulate(model, 0.2, q=q, v=v, record=tb.Record(store=tmp_path / "run.zarr"))
    assert stored.outcome.message == CHANGED
    assert tb.load_run(tmp_path / "run.zarr").outcome.message == CHANGED


def test_each_case_of_a_batch_has_its_own_rank():
    model = tb.load("n_four_bar_2")
    q = np.array([0.5, 0.3])[:, None] * np.pi * BRANCH
    run = tb.simulate(model, 0.2, q=q, v=0.7 * BRANCH)
    assert [outcome.message for outcome in run.outcomes] == [CHANGED, "finished at 0.2 s"]


@pytest.mark.parametrize("name", ["four_bar", "bricard"])
def test_other_runs_end_as_before(name):
    assert tb.simulate(tb.load(name), 0.2).outcome.message == "finished at 0.2 s"
