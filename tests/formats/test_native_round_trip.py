"""What is written in the native format reads back to the last bit."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings

import tiburon as tb
from tests.formats.rich_models import rich_models
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.strategies import few_examples, models
from tiburon import zoo
from tiburon.formats.limits import Budget
from tiburon.formats.native_read import model_from_native
from tiburon.formats.native_write import native_text


def read(text):
    return model_from_native(text.encode(), Budget("robot.toml"))


@few_examples
@given(rich_models())
def test_writing_and_reading_gives_the_same_model(model):
    text = native_text(model)
    again = read(text)
    assert again == model
    # repr distinguishes 0.0 from -0.0, and float64 from float
    assert repr(again._parts) == repr(model._parts)
    assert native_text(again) == text
    assert hash(again) == hash(model)
    assert again.structure_key() == model.structure_key()


@few_examples
@given(models())
def test_trees_round_trip(model):
    assert read(native_text(model)) == model


def test_values_after_many_transformations_round_trip():
    """Products of rotations drift by some rounding: reading must not repair them."""
    rng = np.random.default_rng(5)
    robot = tb.Model("base", [tb.Body("b", joint=tb.Free("f"), inertia=random_inertia(rng))])
    link = tb.Body(
        "link",
        joint=tb.Revolute("hinge", random_axis(rng), pose=random_pose(rng)),
        inertia=random_inertia(rng),
    )
    tool = tb.Frame("tool", "link", random_pose(rng))
    arm = tb.Model("arm", [link], [tool], about='one\n"line"\n\\two\t\x00')
    at = "b"
    for number in range(40):
        robot = robot.attach(arm, at=at, pose=random_pose(rng), prefix=f"{number}_")
        at = f"{number}_tool"
        robot = robot.lock(f"{number}_hinge", robot.random_state(rng)[0])
        robot = tb.Model(robot.name, [*robot.bodies], [f for f in robot.frames if f.name == at])
    assert read(native_text(robot)) == robot


@given(rich_models())
@settings(max_examples=20)
def test_pickled_models_are_the_same(model):
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert again.poses == model.poses


def test_save_and_load_through_files(tmp_path):
    rng = np.random.default_rng(2)
    mesh = tmp_path / "parts" / "hull.stl"
    mesh.parent.mkdir()
    mesh.write_bytes(b"solid")
    body = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=random_inertia(rng),
        shapes=(tb.Shape(tb.MeshShape(str(mesh))),),
    )
    model = tb.Model("boat", [body])
    path = tmp_path / "boat.toml"
    assert tb.save(model, path) == ()
    assert 'path = "parts/hull.stl"' in path.read_text()
    assert tb.load(path) == model
    assert tb.load(str(path)) == model


@pytest.mark.parametrize("name", zoo.names())
def test_zoo_robots_round_trip(name):
    model = tb.load(name)
    assert read(native_text(model)) == model
