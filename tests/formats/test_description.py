"""The plain data about a robot: complete, and what JSON can hold."""

import json

import numpy as np
import pytest

import tiburon as tb
from tiburon import zoo
from tiburon.formats.description import topology
from tiburon.zoo.index import GENERATED


@pytest.mark.parametrize("name", [name for name in zoo.names() if name not in GENERATED])
def test_description_round_trips_through_json(name):
    """No infinity, no NaN, no object: strict JSON gives the same data back."""
    described = tb.describe(tb.load(name))
    assert json.loads(json.dumps(described, allow_nan=False)) == described


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pendulum", "body"),
        ("puma560", "chain"),
        ("rexrov", "floating body"),
        ("space_arm", "floating chain"),
        ("quadruped", "floating tree"),
        ("four_bar", "tree, 1 loop"),
        ("bricard", "chain, 1 loop"),
        ("strandbeest", "floating tree, 36 loops"),
    ],
)
def test_topology_in_text(name, words):
    """Chain or tree, floating or not, and how many loops."""
    assert topology(tb.load(name)) == words


def test_description_lists_the_indices_of_joints_in_q_and_v():
    """Indices, names, limits, leaders."""
    model = tb.load("tiburon_titan")
    joints = {joint["name"]: joint for joint in tb.describe(model)["joints"]}
    assert joints["base"]["q"] == [0, 1, 2, 3, 4, 5, 6]
    assert joints["base"]["v"] == [0, 1, 2, 3, 4, 5]
    assert joints["azimuth"]["q"] == [7]
    assert joints["azimuth"]["limits"]["upper"] == pytest.approx(2.0 * np.pi / 3.0)
    assert joints["azimuth"]["limits"]["velocity"] is None
    assert joints["other_jaw"]["leader"] == "jaw"


def test_extent_includes_rotated_shapes():
    """A bar of two meters, turned by 45 degrees, fills a box of length and girth over root two."""
    bar = tb.Body(
        "bar",
        joint=tb.Fixed("mount", pose=tb.Pose.from_axis_angle((0, 1, 0), np.pi / 4.0, (1.0, 0, 0))),
        inertia=tb.Inertia.box(1.0, (2.0, 0.2, 0.2)),
        shapes=(tb.Shape(tb.BoxShape((2.0, 0.2, 0.2))),),
    )
    free = tb.Body("tip", "bar", joint=tb.Revolute("hinge"), inertia=tb.Inertia.sphere(1.0, 0.1))
    extent = tb.describe(tb.Model("bar", [bar, free]))["extent"]
    reach = (1.0 + 0.1) / np.sqrt(2.0)
    assert extent["lower"] == pytest.approx([1.0 - reach, -0.1, -reach])
    assert extent["upper"] == pytest.approx([1.0 + reach, 0.1, reach])


def test_description_includes_the_model_warnings():
    """What `model_warnings` finds stands in the description."""
    bob = tb.Body("bob", joint=tb.Free("base"), inertia=tb.Inertia(1.0, (0, 0, -1), (1, 1, 1)))
    model = tb.Model("bob", [bob])
    assert tb.describe(model)["warnings"] == [str(doubt) for doubt in tb.model_warnings(model)]
    assert len(tb.model_warnings(model)) == 1
