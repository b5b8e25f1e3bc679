"""Snapshots change with everything that user code reads, and refuse what they cannot follow."""

import math
import random
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiburon as tb
from tiburon.trace.dependencies import snapshot

GAIN = 3.0
TABLE = np.arange(3.0)


class _Settings:
    scale = 1.0

    def __init__(self) -> None:
        self.values = [1.0, 2.0]

    def scaled(self) -> float:
        return self.scale * GAIN


SETTINGS = _Settings()


def _outer(x: Any) -> Any:
    return TABLE[0] * x


def _force(now: Any, own: Any = [1.0]) -> Any:  # noqa: B006
    def gained(y: Any) -> Any:
        return y * GAIN

    place = now.frame_pose("tip")
    push = np.maximum(_outer(gained(place.p[0])), 0.0) * SETTINGS.scaled() + math.sin(own[0])
    return tb.Action({"x": (push + np.cross(TABLE, TABLE)[0],)})


CHANGES: dict[str, Any] = {
    "rebound array": lambda patch: patch.setitem(globals(), "TABLE", np.arange(3.0) + 1.0),
    "array in place": lambda patch: TABLE.__setitem__(1, TABLE[1] + 1.0),
    "negative zero": lambda patch: patch.setitem(globals(), "TABLE", np.array([-0.0, 1.0, 2.0])),
    "global": lambda patch: patch.setitem(globals(), "GAIN", 4.0),
    "attribute": lambda patch: patch.setattr(SETTINGS, "values", [1.0, 3.0]),
    "new attribute": lambda patch: patch.setattr(SETTINGS, "more", 1.0, raising=False),
    "class attribute": lambda patch: patch.setattr(_Settings, "scale", 2.0),
    "method": lambda patch: patch.setattr(_Settings, "scaled", lambda self: 1.0),
    "called function": lambda patch: patch.setitem(globals(), "_outer", lambda x: x),
    "default": lambda patch: patch.setattr(_force, "__defaults__", ([2.0],)),
    "code": lambda patch: patch.setattr(_force, "__code__", (lambda now, own: None).__code__),
    "numpy": lambda patch: patch.setattr(np, "maximum", np.minimum),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_snapshot_changes_with_what_a_function_reads(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closures, globals, defaults, attributes, classes and called functions all count."""
    for wrapped in (_force, tb.ForceFunction("push", _force)):
        before = snapshot(wrapped)
        assert before is not None
        assert snapshot(wrapped) == before
        with monkeypatch.context() as patch:
            CHANGES[change](patch)
            assert snapshot(wrapped) != before


_ITERATOR = iter([1.0, 2.0])
_RANDOM, _GENERATOR = random.Random(1), np.random.default_rng(1)


def _importing(now: Any) -> Any:
    from os import environ

    return environ


@pytest.mark.parametrize(
    "function",
    [
        lambda now: next(_ITERATOR),
        lambda now: _RANDOM.random(),
        lambda now: _GENERATOR.normal(),
        lambda now: np.random.rand(),  # noqa: NPY002
        lambda now: random.random(),
        lambda now: time.time(),
        lambda now: getattr(SETTINGS, "values"),  # noqa: B009
        lambda now: globals()["GAIN"],
        lambda now: open("gain.txt"),  # noqa: SIM115
        lambda now: np.load("gain.npy"),
        lambda now: tb.load("panda"),
        _importing,
    ],
)
def test_untraceable_functions_have_no_snapshot(function: Any) -> None:
    """Hidden state, files and dynamic lookup: such code is traced again at every use."""
    assert snapshot(function) is None


@dataclass(frozen=True)
class _Weighed:
    weight: float
    rows: tuple[float, ...] = (1.0, 2.0)

    def total(self) -> float:
        return GAIN * self.weight * self.rows[0]


def test_dataclasses_have_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of fields, methods and what they read count; how instances are made does not."""
    one = _Weighed(3.0)
    before = snapshot(one)
    assert before is not None
    assert snapshot(one) == before
    assert snapshot(_Weighed(4.0)) != before
    assert snapshot(_Weighed(3.0, (1.0, 3.0))) != before
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "GAIN", 4.0)
        assert snapshot(one) != before
    monkeypatch.setattr(_Weighed, "total", lambda self: 1.0)
    assert snapshot(one) != before
