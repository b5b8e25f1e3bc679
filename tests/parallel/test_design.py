"""Designs: numbering of cases, growth, random streams, and what cannot be a design."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.parallel.design import Design, case_stream


def test_numbers_and_indices_are_inverse_after_any_growth():
    """Cases keep their numbers, new ones follow, and every point of the grid has one number."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        sizes = rng.integers(1, 4, size=3)
        design = Design.of({name: range(n) for name, n in zip("abc", sizes, strict=True)})
        design = design.ordered(rng.permutation(3)[:2].tolist())
        for _ in range(3):
            before = design.indices(np.arange(design.count))
            sizes = sizes + rng.integers(0, 3, size=3)
            larger = Design.of({name: range(n) for name, n in zip("abc", sizes, strict=True)})
            design = design.grown(larger)
            cases = np.arange(design.count)
            indices = design.indices(cases)
            assert design.count == np.prod(sizes)
            assert np.array_equal(design.indices(np.arange(len(before))), before)
            assert np.array_equal(design.cases(indices), cases)
            assert len(np.unique(indices, axis=0)) == design.count
        again = Design.decoded(design.encoded())
        assert np.array_equal(again.indices(cases), indices)


def test_points_have_values_by_name():
    """Grids, names that change together, lists and tables of pandas give the same points."""
    import pandas

    grid = Design.of({"a": [1.5, 2.5], ("b", "c"): np.array([[1.0, 2.0], [3.0, 4.0]])})
    assert grid.dimensions == ("a", "b_c")
    assert dict(grid.point(1)) == {"a": 1.5, "b": 3.0, "c": 4.0}
    assert grid.point(2).a == 2.5
    rows = [{"a": 1.5, "kind": "sand"}, {"a": 2.5, "kind": "mud"}]
    for given in (rows, pandas.DataFrame(rows)):
        listed = Design.of(given)
        assert listed.dimensions == ("case",)
        assert dict(listed.point(1)) == {"a": 2.5, "kind": "mud"}
        assert type(listed.point(1).a) is float
    with pytest.raises(AttributeError, match="it has a, kind"):
        listed.point(0).b  # noqa: B018


def test_streams_depend_on_seed_and_indices_alone():
    """A stream is Philox under a key of its own, the same whatever else the design holds."""
    draws = {
        (seed, indices): tuple(case_stream(seed, indices).integers(2**63, size=2))
        for seed in (0, 1)
        for indices in [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 1)]
    }
    assert len(set(draws.values())) == len(draws)
    # golden values: results on disk rely on them
    assert isinstance(case_stream(5, (2, 3)).bit_generator, np.random.Philox)
    raw = case_stream(5, (2, 3)).bit_generator.random_raw(2).tolist()
    assert raw == [11172979421794606518, 13668318200006783707]


def test_what_cannot_be_a_design_is_refused():
    """Messages name the value and say what to write."""
    bad = [
        ({}, "a name or more"),
        ({"a": []}, "a value or more"),
        ({"a": 3.0}, "expects a list of values"),
        ({"a": "text"}, "expects a list of values"),
        ({"a": [1.0, np.nan]}, "NaN or infinity"),
        ({"a": [print]}, "which no file can hold"),
        ({"time": [1.0]}, "cannot name a value"),
        ({"a/b": [1.0]}, "cannot name a value"),
        ({"a": [1.0], ("a", "b"): [[1.0, 2.0]]}, "given twice"),
        ({("a", "b"): [[1.0, 2.0, 3.0]]}, "rows of 2 values"),
        ([{"a": 1.0}, {"b": 1.0}], "point 1 has b"),
        (3.0, "values by name"),
    ]
    for given, text in bad:
        with pytest.raises(tb.ModelError, match=text):
            Design.of(given)


def test_only_growth_at_ends_is_accepted():
    """Changed, missing or renamed values are refused."""
    design = Design.of({"a": [1.0, 2.0], "b": range(3)})
    for other in (
        {"a": [1.0], "b": range(3)},
        {"a": [1.0, 2.5], "b": range(3)},
        {"a": [1.0, 2.0], "c": range(3)},
        {"a": [1.0, 2.0], "b": range(1, 4)},
        {"b": range(3), "a": [1.0, 2.0]},
    ):
        with pytest.raises(tb.ModelError, match="begin another sweep"):
            design.grown(Design.of(other))
