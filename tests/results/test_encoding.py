"""Robots, worlds and elements as text: restored to the last bit, or refused."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings

import tiburon as tb
from tests.formats.rich_models import rich_models
from tests.robots import ROBOTS
from tiburon.model.composition import changed
from tiburon.results.encoding import NotDataError, decode, encode, from_text, is_data, to_text


def same(model, other):
    """Return whether two robots are equal, also to compiled code and in their bits."""
    return (
        model == other
        and hash(model) == hash(other)
        and repr(model.bodies) == repr(other.bodies)
        and model.structure_key() == other.structure_key()
        and np.array_equal(model.parameters(), other.parameters())
    )


@given(rich_models())
@settings(max_examples=30)
def test_models_with_all_data_round_trip_in_bits(model):
    """Every kind of part that a model can hold survives, negative zeros and infinities too."""
    assert same(from_text(to_text(model)), model)


@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_test_models_round_trip_in_bits(name):
    """Joints of all kinds, with axes whose length is 1 only to rounding."""
    model = ROBOTS[name]
    if not is_data(model):
        pytest.skip("holds joints of the user's own")
    assert same(from_text(to_text(model)), model)


@pytest.mark.parametrize("name", ["tiburon_titan", "aquarobot", "stewart", "puma560"])
def test_zoo_robots_round_trip_in_bits(name):
    """Water, thrusters, loops, feet and named poses."""
    model = tb.load(name)
    found = from_text(to_text(model))
    assert same(found, model)
    assert found.about == model.about
    assert {k: tuple(v) for k, v in found.poses.items()} == {
        k: tuple(v) for k, v in model.poses.items()
    }


def test_surroundings_and_elements_are_recovered():
    """Currents of all kinds, ground with heights, schedules."""
    waves = tb.Waves((tb.Wave(height=1.0, period=8.0), tb.Wave(height=0.3, period=5.0, phase=0.1)))
    current = tb.CurrentSum((tb.LinearShear((0.3, 0.1, 0.0), 20.0), waves))
    grid = tb.GroundGrid((0.5, 0.25), ((0.0, 0.1), (0.2, 1.0 / 3.0)))
    world = tb.World((0.1, 0.0, -9.7), tb.Ground(grid=grid), tb.Water(1025.0, current))
    assert from_text(to_text(world)) == world
    push = tb.WrenchSchedule("push", "tip", (0.0, 0.1), ((0, 0, 0, 1 / 3, 0, 0),) * 2)
    assert from_text(to_text((push, 2))) == (push, 2)
    rov = tb.load("tiburon_titan")
    elements = tb.elements_of(rov)
    assert from_text(to_text(elements)) == elements


def test_plain_values_keep_their_type():
    """Tuples stay tuples, lists lists; numbers of any size, arrays of any kind of number."""
    value = {
        "tuple": (1, (2.5, None)),
        "list": [True, "ü\ud800", []],
        "big": 2**200,
        "odd": (math.inf, -0.0, 5e-324),
        "empty": (),
    }
    found = from_text(to_text(value))
    assert repr(found) == repr(value)
    assert math.isnan(from_text(to_text(math.nan)))
    for array in (np.eye(3) / 3, np.arange(5, dtype=np.int32), np.zeros((0, 2)), np.array(True)):
        found = from_text(to_text(array))
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert np.array_equal(found, array)
    assert from_text(to_text(np.float64(0.1))) == 0.1


def test_user_code_is_refused():
    """Functions, objects of users and arrays of objects cannot be written."""
    water = tb.Water(current=lambda time, position: (0.0, 0.0, 0.0))
    for value in (len, object(), water, np.array([None]), {1: 2}, tb.Model):
        assert not is_data(value)
        with pytest.raises(NotDataError):
            to_text(value)


def test_fields_of_later_versions_take_their_defaults():
    """A file of an earlier version lacks a field: it has the value that was meant then."""
    data = encode(tb.Water(1000.0))
    del data["fields"]["surface"]
    assert from_text(json.dumps(data)) == tb.Water(1000.0)


TABLE = tb.TableCurrent((0.0, 1.0), ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)))

CHANGES = {
    "falling times": (TABLE, lambda r: r["times"].reverse(), r"TableCurrent: .*increasing"),
    "a speed too few": (TABLE, lambda r: r["speeds"].pop(), r"TableCurrent: .*speeds"),
    "a text for numbers": (TABLE, lambda r: r.update(times="x"), r"TableCurrent: .*times"),
    "a long axis": (tb.Revolute("j"), lambda r: r.update(axis=[0, 0, 2.0]), r"Revolute: .*axis"),
    "a rotation to repair": (
        tb.Pose.from_rpy((0.1, 0.2, 0.3)),
        lambda r: r["rotation"][0].__setitem__(0, r["rotation"][0][0] + 1e-7),
        r"Pose: rotation must be",
    ),
    "a reflection": (
        tb.Pose.from_rpy((0.1, 0.2, 0.3)),
        lambda r: r["rotation"].reverse(),
        r"Pose: .*determinant",
    ),
    "a negative mass": (tb.Inertia(1.0), lambda r: r.update(mass=-1.0), r"Inertia: .*mass"),
    "no joint": (
        tb.Body("b", joint=tb.Fixed("j")),
        lambda r: r.update(joint=None),
        r"Body: .*joint must be a joint",
    ),
    "a record without checks": (
        tb.JointSensor("encoder", rate=100.0),
        lambda r: r.update(joints=[1, 2]),
        r"JointSensor: .*joints",
    ),
    "a part that does not follow": (
        tb.Waves((tb.Wave(height=1.0, period=8.0),)),
        lambda r: r["components"][0].reverse(),
        r"Waves: components must be",
    ),
    "a part of another record": (
        tb.Water(current=TABLE),
        lambda r: r["current"]["fields"]["times"].reverse(),
        r"^current: TableCurrent: .*increasing",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_records_pass_their_constructors(name):
    """Values that a constructor refuses are refused in files, with the place and the class."""
    value, change, message = CHANGES[name]
    data = encode(value)
    assert decode(data) == value
    data = json.loads(json.dumps(data))
    change(data["fields"])
    with pytest.raises(NotDataError, match=message):
        decode(data)


def test_stored_bits_survive_constructors():
    """An axis of length 1 only to rounding, and an impossible inertia, are those of the robot."""
    axis = (0.6 * (1.0 + 1e-10), 0.8, 0.0)
    joint = changed(tb.Revolute("j"), axis=axis)
    assert from_text(to_text(joint)).axis == axis
    thin = tb.Inertia(1.0, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1.0, 0.0, 5.0))
    body = changed(tb.Body("b", joint=tb.Revolute("j")), inertia=thin)
    with pytest.raises(tb.ModelError, match="inertia"):
        tb.Body("b", joint=tb.Revolute("j"), inertia=thin)
    assert from_text(to_text(body)) == body


@pytest.mark.parametrize(
    "place",
    ["tiburon.drive.pilot:Pilot", "tiburon.errors:ModelError", "tiburon.model.body:Path"],
)
def test_only_values_are_restored(place):
    """Files call no constructors that do more than check their values."""
    with pytest.raises(NotDataError, match="no such class"):
        decode({"record": place, "fields": {}})
