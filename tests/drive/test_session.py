"""A vehicle under way: by hand and kept in its place, edited, recorded, forecast, brought back."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.drive.vehicles import SEA, ahead, pause, rov, wait

PLACE = slice(4, 7)
"""Of the base among its seven numbers."""


@pytest.fixture(scope="module")
def shared():
    with rov(sensors=[tb.DepthSensor("depth", "hull", rate=100.0)]) as drive:
        yield drive


@pytest.fixture
def drive(shared):
    """The vehicle at its start, as it was loaded; nothing is left of the test before."""
    shared.ticker.paused = True
    shared.ticker.speed = 1.0
    if shared.recording is not None:
        shared.stop_recording()
    first = tb.load("bluerov2_heavy").bodies[0]
    shared.edit(
        {
            f"mass.{first.name}": first.inertia.mass,
            f"volume.{first.name}": first.fluid.volume,
            f"drag.{first.name}": 1.0,
            "current.x": 0.0,
            "density": SEA.density,
            "gravity": 9.81,
        }
    )
    shared.reset()
    shared.command(shared.panel_start)
    wait(lambda: shared.ticker.latest().steps == 0)
    return shared


def test_manual_stick_pushes_along_its_axis(drive):
    """Full surge for a second moves the vehicle ahead, with little drift sideways."""
    drive.command({"surge": 1.0})
    moved = ahead(drive, 1000).state[PLACE]
    assert moved[0] > 0.1
    assert abs(moved[1]) < 0.01 * moved[0]


def test_station_keeping_holds_in_a_current(drive):
    """After 20 s in 0.3 m/s: a kept vehicle is within centimeters, a released one meters away."""
    drive.edit({"current.x": 0.3})
    drive.command({"station": 1.0})
    kept = ahead(drive, 20_000).state[PLACE]
    assert np.abs(kept).max() < 0.05
    drive.command({"station": 0.0})
    assert ahead(drive, 20_000).state[4] - kept[0] > 1.0


def test_sticks_move_the_set_point(drive):
    """Keeping station, half a stick for 4 s at 0.5 m/s moves the place by 1 m, and it is kept."""
    drive.command({"station": 1.0, "surge": 0.5, "speed": 0.5})
    ahead(drive, 4000)
    drive.release()
    settled = ahead(drive, 15_000).state
    # integral action decays as three roots at the frequency do: centimeters are left
    assert settled[4] == pytest.approx(1.0, abs=0.05)
    assert np.abs(settled[5:7]).max() < 0.02


def test_turning_keeps_the_position(drive):
    """Yaw turns the kept heading: 0.3 rad/s for 2 s is 0.6 rad."""
    drive.command({"station": 1.0, "yaw": 1.0, "turn_rate": 0.3})
    ahead(drive, 2000)
    drive.release()
    q = ahead(drive, 12_000).state
    assert 2.0 * np.arctan2(q[3], q[0]) == pytest.approx(0.6, abs=0.03)
    assert np.abs(q[PLACE]).max() < 0.05


def test_sliders_of_single_thrusters_act_by_hand(drive):
    """A thruster commanded by its own name has its own thrust."""
    name = drive.model.thrusters[0].name
    drive.command({name: 5.0})
    ahead(drive, 500)
    readings = drive.readings()
    assert readings["commands"][name] == pytest.approx(5.0)
    assert readings["thrust"][name] != 0.0
    others = [value for key, value in readings["thrust"].items() if key != name]
    assert np.abs(others).max() == 0.0


def test_edited_robot_moves_as_a_model_with_these_parameters(drive):
    """Mass, volume, drag and current changed on the way: as a run of the changed model."""
    name = drive.model.bodies[0].name
    changes = {f"mass.{name}": 14.0, f"volume.{name}": 0.0125, f"drag.{name}": 1.7}
    drive.edit({**changes, "current.x": 0.4, "gravity": 5.0})
    live = ahead(drive, 300).state
    body = tb.load("bluerov2_heavy").bodies[0]
    scale = 14.0 / body.inertia.mass
    tensor = tuple(scale * x for x in body.inertia.tensor)
    scaled = {
        key: tuple(tuple(1.7 * x for x in row) for row in matrix)
        for key in ("linear_damping", "quadratic_damping")
        if (matrix := getattr(body.fluid, key)) is not None
    }
    fluid = replace(body.fluid, volume=0.0125, **scaled)
    body = replace(body, inertia=replace(body.inertia, mass=14.0, tensor=tensor), fluid=fluid)
    other = tb.Model("other", [body], thrusters=drive.model.thrusters)
    sea = replace(SEA, current=(0.4, 0.0, 0.0))
    world = tb.World(gravity=(0.0, 0.0, -5.0), fluid=sea)
    run = tb.simulate(other, 0.3, world=world, record=tb.Record(dt=0.3))
    # the current of 1e-12 m/s that stands for none, and rounding
    assert np.allclose(live[:13], np.concatenate([run.q[-1], run.v[-1]]), atol=1e-10)


def test_edits_are_saved_as_a_robot(drive, tmp_path):
    name = drive.model.bodies[0].name
    drive.edit({f"mass.{name}": 15.5})
    assert drive.save(tmp_path / "heavier.toml") == ()
    assert tb.load(tmp_path / "heavier.toml").bodies[0].inertia.mass == 15.5


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"mass.nobody": 1.0}, tb.UnknownNameError),
        ({"density": -1.0}, tb.DomainError),
        ({"density": "thick"}, tb.DomainError),
        ({"gravity": float("nan")}, tb.DomainError),
        ({"gravity": 10**400}, tb.DomainError),
        ({"gravity": np.complex128(9.81)}, tb.DomainError),
    ],
)
def test_invalid_edits_change_nothing(drive, changes, error):
    before = drive.ticker.posted()[1]
    with pytest.raises(error):
        drive.edit(changes)
    after = drive.ticker.posted()[1]
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_recording_can_be_resumed_as_a_run(drive, tmp_path):
    """Rows every 10 steps, commands of the pilot among them; what comes next comes again."""
    drive.command({"surge": 0.6})
    drive.start_recording(every=10)
    ahead(drive, 200)
    run = drive.stop_recording()
    assert np.allclose(run.time, np.arange(21) * 0.01)
    assert np.array_equal(run.q[-1], drive.ticker.latest().state[:7])
    thruster = drive.system.command_names.index(drive.model.thrusters[0].name)
    assert abs(run.u[-1, thruster]) > 0.0
    assert run.outcome.ok
    run.save(tmp_path / "run.zarr")
    assert len(tb.load_run(tmp_path / "run.zarr")) == 21
    live = ahead(drive, 100).state
    assert np.array_equal(run.resume(0.1).q[-1], live[:7])


def test_parameters_are_fixed_while_recording(drive):
    drive.start_recording()
    with pytest.raises(tb.ModelError, match="stop the recording first"):
        drive.edit({"density": 1000.0})


def test_snapshots_and_reset_bring_back_the_state(drive):
    drive.command({"surge": 1.0})
    there = ahead(drive, 150)
    drive.snapshot("there")
    later = ahead(drive, 50).state
    drive.restore("there")
    wait(lambda: drive.ticker.latest().steps == 150)
    assert np.array_equal(drive.ticker.latest().state, there.state)
    assert np.array_equal(ahead(drive, 50).state, later)
    drive.reset()
    wait(lambda: drive.ticker.latest().steps == 0)
    assert np.array_equal(drive.ticker.latest().state[:7], drive.model.neutral())
    with pytest.raises(tb.UnknownNameError, match="there"):
        drive.restore("ther")


def test_forecast_equals_the_later_motion(drive):
    """Half a second ahead in five parts: the live robot gets there, to the bit."""
    drive.command({"surge": 1.0, "yaw": 0.5})
    ahead(drive, 100)
    seen = drive.forecast(0.5, 5)
    assert np.allclose(seen.time, 0.1 + 0.1 * np.arange(6))
    assert np.array_equal(ahead(drive, 500).state[:7], seen.q[-1])
    assert seen.poses.shape == (6, 1, 7)
    with pytest.raises(tb.DomainError, match="horizon"):
        drive.forecast(1e6)


def test_readings_report_depth_speed_and_mode(drive):
    drive.command({"heave": -1.0})
    ahead(drive, 2000)
    wait(lambda: drive.sensing.latest["depth"][0] > 5.0)
    found = drive.readings()
    assert found["depth"] == pytest.approx(5.0 - found["q"][6])
    assert found["depth"] > 5.05
    assert found["speed"] == pytest.approx(np.linalg.norm(found["v"][3:6]))
    assert found["mode"]["vehicle"] == "manual"
    assert found["poses"][0] == pytest.approx(found["q"])
    # the sensor looks every 10 ms, and the vehicle moves on meanwhile
    assert found["sensors"]["depth"][0] == pytest.approx(found["depth"], abs=0.05)


def test_commands_are_checked(drive):
    with pytest.raises(tb.UnknownNameError, match="surge"):
        drive.command({"surg": 1.0})
    with pytest.raises(tb.DomainError):
        drive.command({"surge": float("inf")})
    for value in (10**400, np.complex128(0.5), "fast", True):
        with pytest.raises(tb.DomainError, match="expected a number"):
            drive.command({"surge": value})
    with pytest.raises(tb.DomainError, match="at least 0"):
        drive.command({"station_frequency": -1.0})
    drive.command({"surge": 7.0})
    assert ahead(drive, 1).held[drive.place("surge")] == 1.0


def test_joints_are_held_and_moved():
    """A cart pole: held it stays, and its stick moves the place that is kept."""
    from tiburon.drive.session import Drive

    with Drive(tb.load("cart_pole")) as drive:
        pause(drive)
        drive.reset()
        wait(lambda: drive.ticker.latest().steps == 0)
        assert drive.readings()["mode"] == {"arm": "position hold"}
        joint = drive.pilot.joints[0].joint
        drive.command({f"joint.{joint}": 1.0, "arm_rate": 0.2})
        ahead(drive, 1000)
        drive.command({f"joint.{joint}": 0.0})
        settled = ahead(drive, 3000).state
        # the pole swings on, and pulls at the cart while it is held
        assert settled[0] == pytest.approx(0.2, abs=0.03)
        drive.command({"arm_hold": 0.0, f"joint.{joint}": 1.0})
        assert ahead(drive, 300).state[2] > 0.1


def test_a_factor_on_drag_replaces_the_one_before():
    """Drag times 1.7, then times 2: twice the drag of the file, not 3.4 times."""
    from tiburon.drive.edits import edited, tunable_parameters

    model, world = tb.load("bluerov2_heavy"), tb.World(fluid=SEA)
    name = f"drag.{model.bodies[0].name}"
    once, world, factors = edited(model, world, {name: 1.7})
    twice, world, factors = edited(once, world, {name: 2.0}, factors)
    given = np.array(model.bodies[0].fluid.quadratic_damping)
    assert np.allclose(twice.bodies[0].fluid.quadratic_damping, 2.0 * given, rtol=1e-14)
    knobs = {knob.name: knob.value for knob in tunable_parameters(twice, world, factors)}
    assert knobs[name] == 2.0


UNCLOSED = """
import atexit, threading, time

def tell():
    # handlers run in reverse order: after those of what is imported next
    print([one.name for one in threading.enumerate() if one.name == "tiburon-ticks"])

atexit.register(tell)
import tiburon as tb
drive = tb.Drive(tb.load("pendulum")).start()
time.sleep(0.05)
print(drive.ticker.running)
"""


def test_ticks_stop_before_the_interpreter_is_torn_down():
    """A script that ends without closing its drive leaves no thread in machine code behind."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", UNCLOSED],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True", "[]"]), done.stderr
