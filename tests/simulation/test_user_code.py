"""What users write into the surroundings and the forces of a robot is known by what it computes."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiburon as tb
from tiburon.errors import ModelError

MASS = 2.0


def _body(name: str, joint: Any, inertia: Any, parent: str = "world", fluid: Any = None) -> tb.Body:
    return tb.Body(name, parent, joint=joint, inertia=inertia, fluid=fluid)


# water


def _drifting(current: Any) -> float:
    """Return the force on a held ball in a current: linear drag alone."""
    fluid = tb.BodyFluid(linear_damping=np.diag((0, 0, 0, 7.0, 7.0, 7.0)))
    body = _body("ball", tb.Prismatic("x", (1, 0, 0)), tb.Inertia.point(1.0), fluid=fluid)
    model = tb.Model("ball", [body])
    return float(
        tb.inverse_dynamics(model, [0.0], [0.0], [0.0], fluid=tb.Water(current=current))[0]
    )


def test_a_current_that_changes_later_is_seen() -> None:
    """F = -d u: an array that a function of the current reads may change from call to call."""
    speed = np.array([0.5])

    def flow(time: Any, position: Any) -> Any:
        return speed[0], 0.0, 0.0

    @dataclass(frozen=True)
    class Mine(tb.Current):
        table: Any

        def velocity(self, time: Any, position: Any) -> Any:
            return self.table[0], 0.0, 0.0

    for current in (flow, Mine(speed)):
        for u in (0.5, 1.5):
            speed[0] = u
            assert _drifting(current) == pytest.approx(-7.0 * u, rel=1e-12)


def test_water_that_replaces_methods_is_refused() -> None:
    """Water is data: what is derived from it may add to it."""

    class Warm(tb.Water):
        @property
        def warmth(self) -> float:
            return 20.0

    class Odd(tb.Water):
        def parameters(self) -> tuple[float, ...]:
            return (1.0,)

    tb.World(fluid=Warm())
    text = r"water: Odd overrides parameters of its base class.*; add to it, but override"
    with pytest.raises(ModelError, match=text):
        tb.World(fluid=Odd())


def test_parts_that_replace_fields_are_refused() -> None:
    """Thrusters are data, too."""

    class Weak(tb.Thruster):
        @property
        def direction(self) -> Any:  # type: ignore[override]
            return (1.0, 0.0, 0.0)

        @direction.setter
        def direction(self, value: Any) -> None: ...

    body = _body("hull", tb.Free("base"), tb.Inertia.point(1.0))
    with pytest.raises(ModelError, match=r"thruster 'port': Weak overrides direction"):
        tb.Model("m", [body], thrusters=[Weak("port", "hull")])


# what acts, and who decides


def _slide() -> tb.Model:
    body = _body("load", tb.Prismatic("x", (1, 0, 0)), tb.Inertia.point(MASS))
    return tb.Model("slide", [body])


def _pushed(**what: Any) -> float:
    """Return how far a constant force pushes a mass in a second: F / (2 m)."""
    run = tb.simulate(_slide(), 1.0, dt=1e-2, **what)
    return float(run.q[-1, 0])


PUSH = 1.0


class _Pusher(tb.Element):
    name = "pusher"

    def act(self, now: Any) -> Any:
        return tb.Action({"x": (PUSH,)})


class _Gentle(tb.PD):
    def __call__(self, state: Any) -> Any:
        return PUSH + 0.0 * state.v


@tb.traced
def _control(state: Any) -> Any:
    return PUSH + 0.0 * state.v


@pytest.mark.parametrize(
    "what",
    [
        lambda: {"forces": [_Pusher()]},
        lambda: {"forces": [tb.ForceFunction("push", lambda now: {"x": PUSH})]},
        lambda: {"control": _control},
        lambda: {"control": _Gentle(0.0, 0.0, 0.0)},
        lambda: {"control": tb.CombinedControl((_control,))},
    ],
)
def test_elements_and_controllers_that_read_a_global_have_code_of_their_own(
    what: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X = F t^2 / (2 m): each run follows the force of its time."""
    for force in (1.0, 3.0):
        monkeypatch.setattr(sys.modules[__name__], "PUSH", force)
        # exact in a polynomial of second degree, but for rounding
        assert _pushed(**what()) == pytest.approx(force / (2 * MASS), rel=1e-12)


def test_names_of_results_are_part_of_a_kernel() -> None:
    """Two functions of the same numbers under other names keep their names."""
    one = tb.compile(lambda x: {"sine": np.sin(x), "cosine": np.cos(x)}, shapes={"x": ()})
    two = tb.compile(lambda x: {"a": np.sin(x), "b": np.cos(x)}, shapes={"x": ()})
    names = [[result.name for result in kernel.__self__.outputs] for kernel in (one, two)]
    assert names == [["sine", "cosine"], ["a", "b"]]
