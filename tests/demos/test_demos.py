"""Demonstrations with contact: gaits are what they say, and robots stay on their feet."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application
from tiburon.control.gait import HARMONICS, Gait, _fourier, gait_control, gait_waves, leg_joints
from tiburon.demos.demo import DEMOS, attitude, find
from tiburon.demos.walk import TROT as PHASES

TROT = Gait(
    PHASES,
    period=0.4,
    duty=0.6,
    stride=(0.2, 0.05),
    lift=0.07,
    turn=0.1,
)


def test_feet_on_the_ground_move_back_with_the_body_and_lift_between():
    """Constant speed of minus stride per cycle in stance; no jump of place or speed anywhere."""
    place = np.array([0.3, -0.2, -0.28])
    phase = np.linspace(0.0, 1.0, 10_001)
    way = TROT.offsets(phase, place)
    speed = np.gradient(way, phase, axis=0)
    stance = (phase > 0.01) & (phase < 0.59)
    expected = [-(0.2 + 0.1 * 0.2), -(0.05 + 0.1 * 0.3), 0.0]
    np.testing.assert_allclose(speed[stance], np.tile(expected, (stance.sum(), 1)), atol=1e-9)
    assert np.abs(np.diff(speed[1:-1], axis=0)).max() < 0.02
    np.testing.assert_allclose(way[0], way[-1], atol=1e-12)
    assert way[:, 2].max() == pytest.approx(0.07, rel=1e-6)
    assert not way[phase < 0.6, 2].any()


def test_joint_angles_place_feet_on_the_gait():
    dog = tb.load("quadruped")
    stand = dog.poses["stand"]
    angles = TROT.angles(dog, stand)
    q = np.tile(stand, (len(angles), 1))
    q[:, [dog.slice(joint).start for joint in leg_joints(dog)]] = angles
    floor = tb.World(ground=tb.Ground())
    at_rest = tb.contacts(dog, stand, world=floor)
    moved = tb.contacts(dog, q, world=floor)
    cycle = np.arange(len(angles)) / len(angles)
    for k, name in enumerate(at_rest.names):
        offset = TROT.offsets(cycle + TROT.phases[name], at_rest.point[k])
        np.testing.assert_allclose(moved.gap[:, k], offset[:, 2], atol=1e-8)
        np.testing.assert_allclose(
            (moved.point - at_rest.point)[:, k, :2], offset[:, :2], atol=1e-8
        )


def test_series_and_their_slopes_are_those_of_the_samples():
    """A few harmonics of a smooth function, at phases between the samples."""

    def wave(x):
        return np.stack([0.3 + np.cos(x) - 0.2 * np.sin(3 * x), np.sin(2 * x)], axis=-1)

    table = _fourier(wave(2 * np.pi * np.arange(96) / 96))
    assert table.shape == (2, 2 * HARMONICS + 1)
    for x in (0.1, 2.0, -7.3):
        waves, slopes = gait_waves(x)
        np.testing.assert_allclose(table @ waves, wave(x), atol=1e-12)
        slope = (wave(x + 1e-5) - wave(x - 1e-5)) / 2e-5
        np.testing.assert_allclose(table @ np.array(slopes), slope, atol=1e-8)


def test_strides_beyond_the_reach_are_refused():
    from dataclasses import replace

    dog = tb.load("quadruped")
    with pytest.raises(tb.DomainError, match="gait: expected foot paths within the reach"):
        replace(TROT, stride=(1.5, 0.0)).angles(dog, dog.poses["stand"])


@pytest.mark.parametrize("push", [0.0, 0.6])
def test_quadruped_trots_on_level_ground_and_recovers_from_a_push(push):
    """Within some centimeters of stride per cycle times cycles, upright, heading kept."""
    dog = tb.load("quadruped")
    gait = Gait(TROT.phases, 0.4, 0.6, (0.2, 0.0), 0.08)
    control = gait_control(
        dog, dog.poses["stand"], gait, 250.0, 2.5, leveling=1.0, torque_limit=33.0
    )
    v = np.zeros(dog.nv)
    v[4] = push
    floor = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7))
    run = tb.simulate(dog, 3.0, q=dog.poses["stand"], v=v, world=floor, control=control)
    assert run.q[-1, 4] == pytest.approx((3.0 - 0.3 - 0.4) * 0.5, rel=0.25)
    roll, pitch, yaw = (np.degrees(np.abs(angle)) for angle in attitude(run.q))
    assert max(roll[-50:].max(), pitch[-50:].max()) < 5.0
    assert yaw.max() < 20.0
    assert np.abs(run.u).max() <= 33.0


def test_hand_lifts_the_glass_and_sets_it_down():
    found = find("hand")(None)
    assert found.run.status == "finished"
    height = found.run.q[:, -1]
    assert height.max() > 0.095
    # it stands again where it stood
    np.testing.assert_allclose(found.run.q[-1, -7:], [1, 0, 0, 0, 0, 0, 0], atol=1e-4)
    held = (found.run.time > 2.0) & (found.run.time < 3.0)
    mode = found.run.get("contact_mode").values[held]
    names = found.run.get("contact_mode").contact.values.tolist()
    fingers = [k for k, name in enumerate(names) if name.startswith("finger")]
    assert (mode[:, fingers] == 2).all()
    assert "contacts.png" in found.figures
    assert any("slips by" in fact for fact in found.facts)


def test_a_vehicle_holds_after_it_has_lost_a_thruster():
    """It drifts by centimeters, returns to its station, and says what it can no longer do."""
    found = find("thruster")(None)
    run = found.run
    assert run.status == "finished"
    way = np.linalg.norm(run.q[:, 4:7] - run.q[0, 4:7], axis=-1)
    late = run.time > 8.0
    assert 2e-3 < way[late].max() < 0.05
    assert way[-50:].max() < 1e-3
    assert np.degrees(np.abs(attitude(run.q)[2][-50:])).max() < 0.1
    assert np.abs(run.get("front_left.thrust").values[run.time > 8.1]).max() == 0.0
    assert any("yaw at most" in fact for fact in found.facts)
    assert found.replay["captions"][-1][1].startswith("without front_left")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"),
    [("quadruped", 3.5), ("hexapod", 2.0), ("aquarobot", 0.9), ("strandbeest", 2.5)],
)
def test_walkers_walk_and_do_not_fall(name, least, tmp_path):
    found = find(name)(None)
    run = found.run
    assert run.status == "finished"
    assert run.q[-1, 4] - run.q[0, 4] > least
    roll, pitch, _ = (np.degrees(np.abs(angle).max()) for angle in attitude(run.q))
    assert max(roll, pitch) < 12.0
    assert set(found.figures) == {"walk.png", "contacts.png"}


@pytest.mark.slow
def test_feet_that_land_smoothly_take_their_load_over_many_samples():
    """The figure has both ways; the smooth one changes forces by a thirtieth of the sudden one."""
    found = find("landing")(1.0)
    assert found.run.status == "finished"
    assert set(found.figures) == {"landing.png", "contacts.png"}
    sudden, smooth = (float(word) for word in _numbers(found.facts[0]))
    assert sudden > 50.0
    assert smooth < 0.1 * sudden


@pytest.mark.slow
def test_a_glass_does_not_slip_with_a_fifth_less_friction_than_planned():
    """Force and motion in one controller: held by a reserve of friction, lost without."""
    from tiburon.demos.pour import DROP_TIME, pour, slip_of

    run = pour(record=tb.Record(every=1))
    assert run.status == "finished"
    assert slip_of(run) < 1e-6
    # lifted and tilted with the wrist, where the path wanted it
    np.testing.assert_allclose(run.q[-1, :2], [0.2, np.pi / 2.0], atol=1e-3)
    np.testing.assert_allclose(run.q[-1, -3:], [0.0, 0.0, 0.2], atol=1e-3)
    labels = list(run.header.column("z").labels)
    assert not run.z[:, labels.index("share.status")].any()
    bare = pour(reserve=0.0, duration=DROP_TIME, record=tb.Record(every=1))
    assert slip_of(bare) > 1e-3


@pytest.mark.slow
def test_arms_that_turn_a_bar_lose_least_or_squeeze_least():
    """Each objective is smallest under itself; the bar turns by the angle of its path."""
    found = find("bar")(None)
    assert found.run.status == "finished"
    turned = 2.0 * np.degrees(np.arccos(abs(found.run.q[-1, 0])))
    assert turned == pytest.approx(30.0, abs=0.1)
    heat, force = (float(word) for word in _numbers(found.facts[1]))
    more_heat, less_force = (float(word) for word in _numbers(found.facts[2]))
    assert heat < 0.9 * more_heat
    assert less_force < force


def test_a_four_bar_shakes_with_one_motor_and_not_with_three():
    """Supports in the runs, moment and power of the motion (Nahon 1991, section 7.1)."""
    from tiburon.demos.four_bar import MOTORS, swing

    one, three = (swing(motors, 0.05) for motors in MOTORS.values())
    for found in (one, three):
        assert found.run.status == "finished"
        assert found.off < 1e-4
    assert np.linalg.norm(one.forces, axis=-1).max() > 2.0
    assert np.linalg.norm(three.forces, axis=-1).max() < 3e-4
    assert one.moment.max() > 3.0
    np.testing.assert_allclose(one.moment, three.moment, atol=1e-9)
    np.testing.assert_allclose(one.power, three.power, atol=1e-9)


def _numbers(fact):
    """Return the first number of a sentence that is followed by N or J, and the last one."""
    import re

    found = re.findall(r"([0-9.]+) (?:N|J)", fact)
    return found[0], found[-1]


def invoke(*words):
    return CliRunner().invoke(application, ["demo", *map(str, words)])


def test_demos_are_listed_and_found_by_name():
    listed = invoke("--list").output
    assert all(name in listed for name in DEMOS)
    wrong = invoke("quadrupe")
    assert "did you mean 'quadruped'" in str(wrong.exception)
    refused = invoke("hand", "--current", "0.1")
    assert "--current" in str(refused.exception)


def test_a_demo_prints_its_facts_and_writes_its_files(tmp_path):
    result = invoke("hand", "--duration", "0.5", "--output", tmp_path / "hand")
    assert result.exit_code == 0, result.output
    assert "peak force" in result.output
    for name in ("contacts.png", "replay.html"):
        assert (tmp_path / "hand" / name).stat().st_size > 10_000
