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


def test_changes_of_a_user_current_are_detected() -> None:
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


def test_water_that_overrides_methods_is_refused() -> None:
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


def test_parts_that_override_fields_are_refused() -> None:
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
    run = tb.simulate(_slide(), 1.0, method=tb.RK4(dt=1e-2), **what)
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
        lambda: {"elements": [_Pusher()]},
        lambda: {"elements": [tb.ForceFunction("push", lambda now: {"x": PUSH})]},
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


class _Settings:
    """Holds a value that user code reads."""

    force = 1.0


SETTINGS = _Settings()


def _half(value: float) -> float:
    return value * PUSH


def _readers() -> list[tuple[Any, Any]]:
    """Return user functions with what changes the force that they read."""
    closed = np.array([1.0])
    nested = {"forces": [1.0]}
    defaults = [1.0]

    def from_closure(now: Any) -> Any:
        return {"x": float(closed[0])}

    def from_attribute(now: Any) -> Any:
        return {"x": SETTINGS.force}

    def from_nested(now: Any) -> Any:
        return {"x": nested["forces"][0]}

    def from_default(now: Any, values: Any = defaults) -> Any:
        return {"x": values[0]}

    def from_other_function(now: Any) -> Any:
        return {"x": _half(1.0)}

    def set_global(force: float) -> None:
        globals()["PUSH"] = force

    def set_attribute(force: float) -> None:
        SETTINGS.force = force

    return [
        (from_closure, lambda force: closed.__setitem__(0, force)),
        (from_attribute, set_attribute),
        (from_nested, lambda force: nested["forces"].__setitem__(0, force)),
        (from_default, lambda force: defaults.__setitem__(0, force)),
        (from_other_function, set_global),
    ]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("form", ["element", "function"])
def test_a_function_is_traced_again_when_its_data_change(
    place: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same robot, element and function in each run: X = F t^2 / (2 m) of the force of now."""
    monkeypatch.setattr(sys.modules[__name__], "PUSH", 1.0)
    monkeypatch.setattr(SETTINGS, "force", 1.0)
    function, change = _readers()[place]
    model, element = _slide(), tb.ForceFunction("push", function)
    for force in (1.0, 3.0, 3.0, 1.0, 2.0):
        change(force)
        acting = element if form == "element" else tb.ForceFunction("push", function)
        run = tb.simulate(model, 1.0, method=tb.RK4(dt=1e-2), elements=[acting])
        assert run.q[-1, 0] == pytest.approx(force / (2 * MASS), rel=1e-12)


def test_a_controller_is_traced_again_when_its_data_change() -> None:
    """Traced control, at every stage or sampled, follows an array that it closes over."""
    force = np.array([1.0])

    @tb.traced
    def control(state: Any) -> Any:
        return force + 0.0 * state.v

    model = _slide()
    for control_dt in (None, 0.05):
        for value in (1.0, 3.0, 1.0):
            force[0] = value
            sampled = control if control_dt is None else tb.Sampled(control, dt=control_dt)
            run = tb.simulate(model, 1.0, method=tb.RK4(dt=1e-2), control=sampled)
            assert run.q[-1, 0] == pytest.approx(value / (2 * MASS), rel=1e-12)
            assert run.u[-1, 0] == value


def test_elements_of_a_class_are_followed_when_their_attributes_change() -> None:
    """An instance with other attributes acts otherwise; the frames it uses may change, too."""

    class Spring(tb.Element):
        name = "spring"
        frame, stiffness = "load", 10.0

        def act(self, now: Any) -> Any:
            pull = -self.stiffness * (now.frame_pose(self.frame).p[0] - 1.0)
            return tb.Action({"x": (pull,)})

    body = _body("load", tb.Prismatic("x", (1, 0, 0)), tb.Inertia.point(MASS))
    marks = [tb.Frame("load_mark", "load", tb.Pose(translation=(0.5, 0.0, 0.0)))]
    model, spring = tb.Model("slide", [body], marks), Spring()
    ends = {}
    for frame, stiffness in (("load", 10.0), ("load_mark", 10.0), ("load", 20.0), ("load", 10.0)):
        spring.frame, spring.stiffness = frame, stiffness
        run = tb.simulate(model, 0.5, method=tb.RK4(dt=1e-2), elements=[spring])
        # a linear oscillator from rest: x = x0 (1 - cos(w t))
        rest = 1.0 if frame == "load" else 0.5
        w = np.sqrt(stiffness / MASS)
        assert run.q[-1, 0] == pytest.approx(rest * (1.0 - np.cos(0.5 * w)), rel=1e-7)
        ends.setdefault((frame, stiffness), []).append(run.q[-1, 0])
    assert len(set(ends["load", 10.0])) == 1


def test_names_of_results_are_part_of_a_kernel() -> None:
    """Two functions of the same numbers under other names keep their names."""
    one = tb.compile(lambda x: {"sine": np.sin(x), "cosine": np.cos(x)}, shapes={"x": ()})
    two = tb.compile(lambda x: {"a": np.sin(x), "b": np.cos(x)}, shapes={"x": ()})
    names = [[result.name for result in kernel.__self__.outputs] for kernel in (one, two)]
    assert names == [["sine", "cosine"], ["a", "b"]]
