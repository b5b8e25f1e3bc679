"""Driven robots touch the ground: ticks are steps of runs, states keep their forces, legs walk."""

import numpy as np
import pytest

import tiburon as tb
from tests.drive.vehicles import ahead, wait
from tiburon.drive.pilot import _phases

FLOOR = tb.World(ground=tb.Ground(static_friction=0.5, kinetic_friction=0.4, restitution=0.3))
START = [np.cos(0.2), np.sin(0.2), 0.0, 0.0, 0.0, 0.0, 0.3]
KICK = [0.5, -1.0, 2.0, 0.8, 0.1, -0.5]


def box():
    body = tb.Body(
        "box",
        joint=tb.Free("box"),
        inertia=tb.Inertia.box(1.0, (0.2, 0.2, 0.2)),
        shapes=(tb.Shape(tb.BoxShape((0.2, 0.2, 0.2))),),
    )
    return tb.Model("box", [body])


@pytest.fixture(scope="module")
def drive():
    with tb.Drive(box(), world=FLOOR, q=START, v=KICK) as made:
        made.ticker.paused = True
        yield made


def at_start(drive):
    drive.reset()
    wait(lambda: drive.ticker.latest().steps == 0)


def test_ticks_are_the_steps_of_a_run(drive):
    """A box that tumbles and comes to rest: the same motion and forces, however it is run."""
    at_start(drive)
    row = ahead(drive, 600)
    run = tb.simulate(box(), row.time, q=START, v=KICK, world=FLOOR, record=tb.Record(every=1))
    np.testing.assert_array_equal(row.state, np.concatenate([run.q[row.steps], run.v[row.steps]]))
    np.testing.assert_array_equal(row.held[drive.system.discrete], run.z[row.steps])
    assert run.contact_summary().touching.max() > 0.05
    read = drive.readings(row)
    assert set(read["contact_force"]) == set(read["contact_point"]) != set()
    here = tb.contacts(box(), row.state[:7], world=FLOOR)
    for name, point in read["contact_point"].items():
        np.testing.assert_allclose(point, here.point[here.names.index(name)])


def test_snapshots_keep_contact_forces(drive):
    at_start(drive)
    before = ahead(drive, 600)
    assert before.held[drive.system.discrete].any()
    stored = drive.snapshot("resting")
    later = ahead(drive, 100)
    drive.restore("resting")
    wait(lambda: drive.ticker.latest().steps == stored.steps)
    again = ahead(drive, 100)
    assert np.array_equal(again.state, later.state)
    assert np.array_equal(again.held, later.held)
    found = drive.forecast(0.1, 5)
    assert found.outcome == "finished"
    assert found.q[-1, 6] > 0.05


def test_recordings_include_contacts(drive):
    at_start(drive)
    drive.start_recording(every=2)
    ahead(drive, 400)
    run = drive.stop_recording()
    assert run.contact_summary().touching.max() > 0.05
    assert run.get("contact_force").dims == ("time", "contact", "axis")


def test_robots_that_cannot_be_driven_are_refused():
    with pytest.raises(tb.ModelError, match="contact: exact contact locates events"):
        tb.Drive(box(), world=FLOOR, q=START, contact=tb.ExactContact())
    with pytest.raises(tb.DomainError, match="lift_out"):
        tb.Drive(box(), world=FLOOR, q=[1, 0, 0, 0, 0, 0, 0.05])


def test_adjacent_feet_alternate_in_a_gait():
    four = {"a": [0.2, 0.1], "b": [0.2, -0.1], "c": [-0.2, 0.1], "d": [-0.2, -0.1]}
    assert _phases(four) == {"a": 0.0, "c": 0.5, "b": 0.5, "d": 0.0}
    six = {f"{s}{x}": [x, y] for s, y in (("l", 1.0), ("r", -1.0)) for x in (1, 0, -1)}
    assert _phases(six) == {"l1": 0.0, "l0": 0.5, "l-1": 0.0, "r1": 0.5, "r0": 0.0, "r-1": 0.5}


@pytest.mark.slow
def test_quadruped_stands_trots_turns_and_stands():
    """Sticks of a vehicle steer it; without them it stays where it is."""
    dog, floor = tb.load("quadruped"), tb.load_world("quadruped")
    with tb.Drive(dog, world=floor, q=dog.poses["stand"]) as drive:
        drive.ticker.paused = True
        stood = ahead(drive, 1000).state
        assert stood[6] > 0.28
        assert np.abs(stood[4:6]).max() < 0.01
        drive.command({"surge": 1.0})
        walked = ahead(drive, 3000).state
        assert walked[4] - stood[4] > 0.8
        drive.command({"surge": 0.0, "yaw": 1.0})
        turned = ahead(drive, 2000).state
        assert 2.0 * np.arctan2(turned[3], turned[0]) > 0.8
        drive.release()
        first = ahead(drive, 2500).state
        last = ahead(drive, 500).state
        np.testing.assert_allclose(last[4:7], first[4:7], atol=2e-3)
        # upright on its feet
        assert np.abs(last[1:3]).max() < 0.05
        assert last[6] > 0.28
        weight = sum(force[2] for force in drive.readings()["contact_force"].values())
        assert weight == pytest.approx(9.81 * dog.total_mass, rel=0.1)
