"""What happens once in a process is measured in a process of its own."""

import numpy as np
import pytest

import tiburon as tb
from benchmarks.fresh_process import FreshProcessError, join_names, repeats, run_fresh
from benchmarks.robots import ROBOTS
from benchmarks.states import draw_states


def test_import_is_measured_before_anything_is_loaded():
    """The bare import holds less memory than the one with NumPy and the compiler."""
    bare, full = run_fresh("import", "package"), run_fresh("import", "dynamics")
    assert 0.0 < bare["seconds"] < full["seconds"]
    if bare["resident"] is not None:
        # NumPy alone takes more than 10 MB
        assert full["resident"] - bare["resident"] > 10e6


def test_first_calls_come_from_the_cache_without_tracing(tmp_path):
    """A second process finds the code, traces nothing and gives the same bits."""
    own_cache = {"TIBURON_CACHE_DIR": str(tmp_path)}
    compiled = run_fresh("first-calls", "panda", environment=own_cache)
    found = run_fresh("first-calls", "panda", "", "refused", environment=own_cache)
    assert found["one"] == compiled["one"]
    assert found["many"] == compiled["many"]
    # what is imported beforehand is not imported under the clock
    words = ("panda", join_names(found["modules"]))
    assert run_fresh("first-calls", *words, environment=own_cache)["modules"] == []
    # the child measured the given robot and state
    model = ROBOTS["panda"]()
    np.testing.assert_array_equal(
        found["one"], tb.forward_dynamics(model, *draw_states(model)), strict=True
    )


def test_tracing_raises_where_it_is_refused(tmp_path):
    """The proof that nothing was traced can fail: with an empty cache it does."""
    with pytest.raises(FreshProcessError, match="forward_dynamics was traced"):
        run_fresh(
            "first-calls",
            "panda",
            "",
            "refused",
            environment={"TIBURON_CACHE_DIR": str(tmp_path)},
        )


def test_at_least_three_processes_are_measured():
    """One sample is no measurement."""
    assert repeats(0.0) == 3
    assert repeats(1.0) == 10
