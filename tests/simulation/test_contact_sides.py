"""Contact of bodies that are the first of some pairs and the second of others.

Which body of a pair comes first follows from the order of bodies, and must not matter.
"""

import numpy as np
import pytest

import tiburon as tb

GROUND = tb.World(ground=tb.Ground())


def scene(order: str) -> tb.Model:
    """Return a box on a table and a ball that leans on it, on the ground, in any order."""
    tilted = tb.Pose.from_quaternion((np.cos(0.4), 0.0, -np.sin(0.4), 0.0), (0.75, 0.0, 0.2))
    parts = {
        "t": tb.Body(
            "table",
            "world",
            joint=tb.Fixed("stand", pose=tb.Pose(translation=(0.0, 0.0, 0.1))),
            shapes=[tb.Shape(tb.BoxShape((0.3, 1.0, 0.2)))],
        ),
        "w": tb.Body(
            "wall",
            "world",
            joint=tb.Fixed("hold", pose=tilted),
            shapes=[tb.Shape(tb.BoxShape((0.1, 1.0, 1.0)))],
        ),
        "b": tb.Body(
            "box",
            "world",
            joint=tb.Free("fall"),
            inertia=tb.Inertia.box(2.0, (0.2, 0.2, 0.2)),
            shapes=[tb.Shape(tb.BoxShape((0.2, 0.2, 0.2)))],
        ),
        "s": tb.Body(
            "slab",
            "world",
            joint=tb.Free("slide"),
            inertia=tb.Inertia.box(3.0, (0.3, 0.3, 0.1)),
            shapes=[tb.Shape(tb.BoxShape((0.3, 0.3, 0.1)))],
        ),
    }
    return tb.Model("scene", [parts[letter] for letter in order])


def start(model: tb.Model) -> np.ndarray:
    q = np.array(model.neutral())
    q[model.slice("fall")] = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.302]
    q[model.slice("slide")] = [1.0, 0.0, 0.0, 0.0, 0.32, 0.0, 0.053]
    return q


def reached(order: str) -> np.ndarray:
    model = scene(order)
    v = np.zeros(model.nv)
    v[model.slice("slide", of="v")] = [0.0, 0.0, 0.0, 1.0, 0.1, 0.0]
    run = tb.simulate(
        model,
        0.3,
        q=start(model),
        v=v,
        world=GROUND,
        method=tb.RK4(dt=1e-3),
        record=tb.Record(every=10),
    )
    assert str(run.outcome) == "finished at 0.3 s"
    return np.concatenate([run.q[:, model.slice("fall")], run.q[:, model.slice("slide")]], axis=1)


@pytest.fixture(scope="module")
def movable_first() -> np.ndarray:
    """Places of both boxes, of a scene in which moving bodies are the first of all pairs."""
    return reached("bstw")


def test_a_box_rests_on_a_table_that_stands_on_the_ground(movable_first):
    assert movable_first[-1, 6] == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize("order", ["tbsw", "twbs"])
def test_the_order_of_bodies_does_not_matter(movable_first, order):
    """The first body of a pair sees the other from the other side, no more."""
    np.testing.assert_allclose(reached(order), movable_first, atol=1e-7)
