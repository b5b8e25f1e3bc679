"""Contact sensors: force and touch of named contacts, in Python and traced controllers."""

import numpy as np
import pytest

import tiburon as tb

G = 9.81
MASS = 2.0
FLOOR = tb.World(ground=tb.Ground(static_friction=0.6, kinetic_friction=0.4))


def box():
    joint = tb.Free("box")
    inertia = tb.Inertia(MASS, (0, 0, 0), np.eye(3) * 0.02)
    shapes = (tb.Shape(tb.BoxShape((0.2, 0.2, 0.2))),)
    body = tb.Body("box", "world", joint=joint, inertia=inertia, shapes=shapes)
    nose = tb.Frame("nose", "box", tb.Pose.from_rpy((0.0, 0.0, np.pi / 2)))
    return tb.Model("box", [body], [nose])


START = [1.0, 0, 0, 0, 0, 0, 0.1]


def test_forces_of_all_points_add_up_to_the_weight():
    """A box that slides: weight along the normal, friction against its motion, in any axes."""
    sensors = [
        tb.ContactSensor("sole", "box/ground", rate=100.0),
        tb.ContactSensor("turned", ("box/ground",), frame="nose", rate=100.0),
        tb.ContactSensor("corner", ("box/ground[0]", "box/ground[1]"), rate=100.0),
    ]
    v = [0, 0, 0, 0.5, 0, 0]
    run = tb.simulate(
        box(), 0.05, q=START, v=v, world=FLOOR, sensors=sensors, record=tb.Record(dt=0.01)
    )
    names = run.data["sensor"].channel.values.tolist()
    last = dict(zip(names, run.data["sensor"].values[-1], strict=True))
    np.testing.assert_allclose(
        [last[f"sole.box/ground.{k}"] for k in ("fx", "fy", "fz", "touching")],
        [-0.4 * MASS * G, 0.0, MASS * G, 1.0],
        atol=1e-6,
    )
    # the x axis of the frame points along y of the world
    np.testing.assert_allclose(
        [last[f"turned.box/ground.{k}"] for k in ("fx", "fy", "fz")],
        [0.0, 0.4 * MASS * G, MASS * G],
        atol=1e-6,
    )
    points = run.get("contact_force").values[-1]
    assert last["corner.box/ground[0].fz"] == pytest.approx(points[0, 2])
    assert last["corner.box/ground[1].fz"] == pytest.approx(points[1, 2])


@pytest.mark.parametrize("traced", [False, True])
def test_controllers_read_touch(traced):
    """Thrust that ends with the first touch, the same from Python and in the native loop."""

    def push(state):
        touching = state.sensors["sole"][3]
        return [0.0, 0.0, 0.0, 1.0 - touching, 0.0, 0.0]

    control = tb.traced(push) if traced else push
    sensor = tb.ContactSensor("sole", "box/ground", rate=1000.0)
    high = [*START[:6], 0.11]
    run = tb.simulate(
        box(), 0.1, q=high, world=FLOOR, sensors=[sensor], control=tb.Sampled(control, dt=1e-3),
        record=tb.Record(dt=1e-3),
    )  # fmt: skip
    pushed = run.u[:, 3]
    falling = run.time < np.sqrt(2 * 0.01 / G)
    touched = run.get("contact_mode").values.max(axis=-1) > 0
    assert pushed[falling].all()
    # one step after the reading, and never again
    assert not pushed[np.flatnonzero(touched)[0] + 2 :].any()
    assert touched[-1]


def test_noise_is_that_of_forces_and_touch_stays_zero_or_one():
    sensor = tb.ContactSensor("sole", "box/ground", rate=1000.0, noise=0.5, bias=1.0, seed=4)
    run = tb.simulate(box(), 0.4, q=START, world=FLOOR, sensors=[sensor], record=tb.Record(dt=1e-3))
    read = run.data["sensor"].values[10:]
    assert set(read[:, 3]) == {1.0}
    np.testing.assert_allclose(read[:, :3].std(axis=0), 0.5, rtol=0.2)
    np.testing.assert_allclose(read[:, :3].mean(axis=0), [1.0, 1.0, 1.0 + MASS * G], atol=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contacts": ("sole",)}, r"sensor 'a' of 'box'.*contact 'sole'"),
        ({"contacts": ("box/ground",), "frame": "tail"}, "frame 'tail'"),
        ({"contacts": ("box/ground",), "noise": (1.0,)}, "noise must be one number or 4"),
        ({"contacts": ()}, "contacts must be names"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    def sense():
        sensor = tb.ContactSensor("a", **options)
        tb.simulate(box(), 0.01, q=START, world=FLOOR, sensors=[sensor])

    with pytest.raises(tb.TiburonError, match=message):
        sense()


def test_contact_sensor_needs_a_run_with_contact():
    sensor = tb.ContactSensor("a", "box/ground")
    with pytest.raises(tb.ModelError, match="expected a run with contact, got none"):
        tb.simulate(box(), 0.01, q=START, sensors=[sensor])
