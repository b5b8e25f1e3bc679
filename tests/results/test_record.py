"""`Record`: which rows and quantities a run records, and where to."""

import pytest

import tiburon as tb


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": 0}, "Record: every: expected a whole number of at least 1"),
        ({"every": 1.5}, "Record: every: expected a whole number"),
        ({"dt": 0.0}, "Record: dt: expected a finite number above 0"),
        ({"every": 2, "dt": 0.01}, r"expected every or dt alone, .* write tb\.Record"),
    ],
)
def test_wrong_intervals_are_refused(options, words):
    """The message names the field and what to write."""
    with pytest.raises(tb.DomainError, match=words):
        tb.Record(**options)


@pytest.mark.parametrize("given", ["energy", ["energy"], 10, {"every": 10}])
def test_anything_but_a_record_is_refused(given):
    """The message has the object to write."""
    with pytest.raises(
        tb.DomainError, match=r"record: expected a Record, .*write record=tb\.Record"
    ):
        tb.simulate(tb.load("pendulum"), 0.01, record=given)


def test_rows_of_a_sweep_stay_in_its_own_store(tmp_path):
    """A store of a single run would be overwritten by each batch."""
    options = {
        "design": {"rod.mass": [1.0, 2.0]},
        "workers": 0,
        "execution": tb.Execution(progress=False),
    }
    with pytest.raises(tb.TiburonError, match="rows of a sweep are in its own store"):
        tb.sweep(
            tb.load("pendulum"),
            0.01,
            store=tmp_path / "study.zarr",
            record=tb.Record(store=tmp_path / "run.zarr"),
            **options,
        )
    assert not (tmp_path / "run.zarr").exists()
