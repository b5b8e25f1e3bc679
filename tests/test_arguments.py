"""Wrong arguments of public calls: which one is named, and what stays as it is."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

import tiburon as tb
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.errors import ArgumentError, shown


@public
def weigh(
    model: tb.Model,
    q: ArrayLike,
    names: Sequence[str] = (),
    shares: Mapping[str, float] | None = None,
    place: tuple[float, float, float] = (0.0, 0.0, 0.0),
    control: Callable[[], float] | None = None,
    *more: float,
    **options: bool,
) -> float:
    """Fail with any error Python has, on anything but what the annotations say."""
    total = model.nq + np.asarray(q, dtype=float).sum()
    for name in names:
        total += len(name.casefold())
    for share in (shares or {}).values():
        total += 1.0 * share
    total += place[2] * 1.0
    return total + (control() if control else 0.0) + sum(more)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, [0.0]), "weigh: model must be a Model, got 3"),
        (("M", "abc"), "weigh: q must be numbers, got 'abc'"),
        (("M", [[1.0], [1.0, 2.0]]), r"weigh: q must be numbers, got \[\[1.0\], \[1.0, 2.0\]\]"),
        (("M", [0.0], [1, 2]), r"weigh: names must be a sequence of text, got \[1, 2\]"),
        (("M", [0.0], 5), "weigh: names must be a sequence of text, got 5"),
        (("M", [0.0], (), [1]), "weigh: shares must be a dict of a number by text or None, got"),
        (("M", [0.0], (), {}, (1.0, 2.0)), "weigh: place must be 3 of a number, got"),
        (("M", [0.0], (), {}, (1.0, 2.0, 3.0), 4.0), "control must be a function or None, got 4.0"),
    ],
)
def test_the_argument_that_is_not_what_it_should_be_is_named(arguments, message):
    """Whatever Python raised inside, the message is about the argument, and keeps the cause."""
    given = [tb.load("four_bar") if x == "M" else x for x in arguments]
    with pytest.raises(ArgumentError, match=message) as caught:
        weigh(*given)
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value, TypeError)


def test_errors_of_the_users_own_code_pass_unchanged():
    """An error raised in a user's function is not blamed on another argument."""

    def control():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        weigh(tb.load("four_bar"), [0.0], (), None, [1, 2, 3], control, "not a number")


def test_failures_with_arguments_of_the_right_kind_name_them_and_the_cause():
    @public
    def divide(x: float) -> float:
        return 1.0 / x

    with pytest.raises(tb.DomainError, match=r"x=0\.0 \(ZeroDivisionError") as caught:
        divide(0.0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert divide(2.0) == 0.5
    with pytest.raises(TypeError, match="unexpected keyword"):
        divide(y=1.0)


def test_values_are_shown_on_one_short_line():
    """Messages stay short, whatever is given: arrays, robots, lists of water."""
    values = [np.arange(1000.0), [tb.Water()] * 500, "x" * 10_000, tb.load("panda"), {1: "y" * 500}]
    for value in values:
        text = shown(value)
        assert len(text) < 120
        assert "\n" not in text
    assert shown(np.zeros((30, 40))).startswith("a ndarray of shape (30, 40)")


def test_records_name_the_field_that_is_wrong():
    """A check inside a constructor that fails in Python's words is explained, too."""
    with pytest.raises(ArgumentError, match="Model: bodies must be a sequence of a Body, got 3"):
        tb.Model("robot", 3)
