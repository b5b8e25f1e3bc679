"""The world around a robot."""

import pytest

from tiburon.errors import ModelError
from tiburon.model import World


def test_gravity_points_down_by_default_and_may_be_any_vector():
    assert World().gravity == (0.0, 0.0, -9.81)
    assert World(gravity=[1, 2, 3]).gravity == (1.0, 2.0, 3.0)
    assert World() == World(gravity=(0, 0, -9.81))


@pytest.mark.parametrize("gravity", [(0, 0), 9.81, (0, 0, float("nan")), "down"])
def test_bad_gravity_is_refused(gravity):
    with pytest.raises(ModelError, match="world: gravity must be"):
        World(gravity=gravity)
