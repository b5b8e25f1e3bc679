"""Discrete states of elements: updated once per step, recorded, resumed, the same in batches."""

from typing import Any

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tiburon.errors import ModelError

MASS, GRAVITY = 2.0, 9.81
STIFFNESS, DAMPING = 2e4, 400.0  # both directions of the foot, overdamped for 2 kg


def _foot_model() -> tb.Model:
    """Return a point that moves along x and z, with the frame "foot"."""
    bodies = [
        tb.Body("slider", joint=tb.Prismatic("x", (1, 0, 0)), inertia=tb.Inertia.point(1e-3)),
        tb.Body(
            "mass", "slider", joint=tb.Prismatic("z", (0, 0, 1)), inertia=tb.Inertia.point(MASS)
        ),
    ]
    return tb.Model("point", bodies, [tb.Frame("foot", "mass")])


def _slope(angle: float) -> tb.World:
    """Return a plane z = 0 that slopes down along x."""
    return tb.World(gravity=(GRAVITY * np.sin(angle), 0.0, -GRAVITY * np.cos(angle)))


def _contact(now: Any) -> tuple[Any, Any, Any]:
    """Return normal force, friction along x, and the new anchor."""
    mu = now.p[0]
    p, v = now.frame_pose("foot").p, now.frame_velocity("foot").linear
    normal = np.maximum(-STIFFNESS * p[2] - DAMPING * v[2], 0.0) * np.where(p[2] < 0.0, 1.0, 0.0)
    # anchored spring and damper, no more than Coulomb's limit
    wanted = STIFFNESS * (p[0] - now.z[0]) + DAMPING * v[0]
    friction = np.clip(wanted, -mu * normal, mu * normal)
    # the anchor follows so that the spring alone carries the friction; in the air it is at the foot
    stretch = np.where(normal > 0.0, (friction - DAMPING * v[0]) / STIFFNESS, 0.0)
    return normal, friction, np.where(friction == wanted, now.z[0], p[0] - stretch)


def _anchored(mu: float) -> tb.ForceFunction:
    def act(now: Any) -> Any:
        normal, friction, _ = _contact(now)
        push = (0.0, 0.0, 0.0, -friction, 0.0, normal)
        return tb.Action(wrenches={"foot": push}, outputs={"friction": friction, "normal": normal})

    return tb.ForceFunction(
        "foot",
        act,
        discrete_states={"anchor": 0.0},
        update=lambda now: [_contact(now)[2]],
        outputs=("friction", "normal"),
        parameter_values=(mu,),
    )


def _counter(**more: Any) -> tb.ForceFunction:
    """Return an element that counts steps and does nothing else."""
    return tb.ForceFunction(
        "counter",
        lambda now: None,
        discrete_states={"steps": 0.0},
        update=lambda now: [now.z[0] + 1.0],
        **more,
    )


def test_an_anchored_foot_sticks_on_a_slope_without_creep() -> None:
    """tan(angle) < mu: after the start the foot stays where it is, to the last bits."""
    run = tb.simulate(
        _foot_model(), 10.0, world=_slope(0.3), elements=[_anchored(0.5)], q=[0.0, -1e-3]
    )
    assert run.outcome.status == "finished"
    rest = run.time >= 2.0
    assert np.ptp(run.q[rest, 0]) < 1e-14
    # the spring carries m g sin(angle)
    load = (MASS + 1e-3) * GRAVITY * np.sin(0.3)
    assert STIFFNESS * (run.q[-1, 0] - run.z[-1, 0]) == pytest.approx(load, rel=1e-9)
    assert run.get("friction").values[-1] == pytest.approx(load, rel=1e-9)


def test_an_anchored_foot_slides_with_kinetic_friction() -> None:
    """tan(angle) > mu: friction is mu N, so that vd = g (sin(angle) - mu N / (m g))."""
    angle, mu = 0.6, 0.3
    run = tb.simulate(_foot_model(), 1.5, world=_slope(angle), elements=[_anchored(mu)])
    sliding = run.time >= 0.5
    normal, friction = run.get("normal").values[sliding], run.get("friction").values[sliding]
    np.testing.assert_allclose(friction, mu * normal, rtol=1e-12)
    times, v = run.time[sliding], run.v[sliding, 0]
    mass = MASS + 1e-3
    expected = GRAVITY * np.sin(angle) - mu * MASS * GRAVITY * np.cos(angle) / mass
    assert (v[-1] - v[0]) / (times[-1] - times[0]) == pytest.approx(expected, rel=1e-6)
    assert (np.diff(run.z[sliding, 0]) > 0.0).all()


@pytest.mark.parametrize("method", ["rk4", "semi_implicit_euler", "rosenbrock"])
def test_states_are_updated_once_per_step(method: str) -> None:
    """A counter counts steps, whatever the number of stages."""
    run = tb.simulate(
        _foot_model(),
        0.05,
        elements=[_counter()],
        method=integrator(method, adaptive=False),
        record=tb.Record(every=1),
    )
    np.testing.assert_array_equal(run.z[:, 0], np.arange(51.0))
    assert run.header.column("z").labels == ("counter.steps",)
    np.testing.assert_array_equal(run.get("discrete_state").values, run.z)


def test_batches_threads_and_resumed_runs_have_the_same_bits() -> None:
    """One case, a batch, threads, and a run in two parts agree in states and anchors."""
    model, forces = _foot_model(), [_anchored(0.4)]
    starts = np.array([[0.0, 0.02], [0.1, -1e-3], [-0.3, 0.0]])
    speeds = np.array([[0.5, 0.0], [1.0, -0.1], [-0.7, 0.0]])
    what: dict[str, Any] = {"world": _slope(0.35), "elements": forces}
    whole = tb.simulate(model, 0.4, q=starts, v=speeds, **what)
    threaded = tb.simulate(
        model, 0.4, q=starts, v=speeds, execution=tb.Execution(threads=2), **what
    )
    first = tb.simulate(model, 0.123, q=starts, v=speeds, **what)
    parts = first.resume(0.277)
    for case in range(3):
        alone = tb.simulate(model, 0.4, q=starts[case], v=speeds[case], **what)
        for name in ("q", "v", "z"):
            np.testing.assert_array_equal(alone.array(name), whole.array(name)[:, case])
    for name in ("q", "v", "z"):
        np.testing.assert_array_equal(threaded.array(name), whole.array(name))
        np.testing.assert_array_equal(parts.array(name)[-1], whole.array(name)[-1])


def test_a_stored_run_has_discrete_states(tmp_path: Any) -> None:
    """A store records them, and a run that is loaded continues from them."""
    model, forces = _foot_model(), [_anchored(0.4)]
    start: dict[str, Any] = {"q": [0.1, -1e-3], "v": [1.0, 0.0], "world": _slope(0.2)}
    whole = tb.simulate(model, 0.3, elements=forces, **start)
    tb.simulate(model, 0.1, elements=forces, record=tb.Record(store=tmp_path / "run.zarr"), **start)
    loaded = tb.load_run(tmp_path / "run.zarr").resume(0.2, elements=forces)
    for name in ("q", "v", "z"):
        np.testing.assert_array_equal(loaded.array(name)[-1], whole.array(name)[-1])


def test_events_inside_a_step_do_not_update_twice() -> None:
    """The step with an event, cut in two by its action, updates once; watching changes nothing."""
    kick = tb.TimeEvent("kick", 0.0105, action=lambda state: {"v": state.v + 1.0})
    seen = tb.TimeEvent("seen", 0.0203)
    for events in ((kick,), (seen,), (kick, seen)):
        run = tb.simulate(
            _foot_model(), 0.03, elements=[_counter()], events=events, record=tb.Record(every=1)
        )
        np.testing.assert_array_equal(run.z[:, 0], np.arange(31.0))


@pytest.mark.parametrize("sampled", [False, True])
def test_controllers_and_discrete_states_share_the_held_values(sampled: bool) -> None:
    """Commands of a controller and counts of an element do not disturb each other."""

    def push(state: Any) -> Any:
        return np.array([1.0, 0.0]) + 0.0 * state.v

    control = tb.traced(push) if sampled else lambda state: push(state)
    what: dict[str, Any] = {"control": tb.Sampled(control, dt=0.005), "record": tb.Record(every=1)}
    counted = tb.simulate(_foot_model(), 0.03, elements=[_counter()], **what)
    plain = tb.simulate(_foot_model(), 0.03, **what)
    np.testing.assert_array_equal(counted.z[:, 0], np.arange(31.0))
    for name in ("q", "v", "u"):
        np.testing.assert_array_equal(counted.array(name), plain.array(name))


@pytest.mark.parametrize(
    ("method", "kind"), [("dopri5", "adaptive"), ("b2pc5", "multi-step"), ("dop853", "adaptive")]
)
def test_other_steps_are_refused(method: str, kind: str) -> None:
    """Steps that adapt or remember earlier ones do not update discrete states."""
    text = (
        f"discrete state 'counter.steps': expected a one-step method with equal steps, got {kind}"
    )
    with pytest.raises(ModelError, match=text):
        tb.simulate(_foot_model(), 0.1, elements=[_counter()], method=integrator(method))


def test_other_uses_are_refused() -> None:
    """Modes take no steps."""
    with pytest.raises(ModelError, match="element 'counter': expected a run of equal steps"):
        tb.modes(_foot_model(), world=tb.World(gravity=(0, 0, 0)), elements=[_counter()])
    with pytest.raises(ModelError, match=r"discrete_states: expected .* got no update"):
        tb.ForceFunction("odd", lambda now: None, discrete_states={"a": 0.0})
