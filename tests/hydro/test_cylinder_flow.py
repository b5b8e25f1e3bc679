"""Reynolds numbers and shedding frequencies of cylinders."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close

RHO, MU = 1000.0, 1e-3


def bar(radius=0.05, axis=(0, 0, 1), start=(0.0, 0.0, 0.0)):
    drag = (tb.SphereDrag(0.1), tb.CylinderDrag(radius, 0.4, start=start, axis=axis))
    body = tb.Body(
        "bar",
        joint=tb.Free("bar"),
        inertia=tb.Inertia(1.0, (0, 0, 0), (1, 1, 1)),
        fluid=tb.BodyFluid(drag=drag),
    )
    return tb.Model("bar", [body])


def flow(model, v, current=(0.0, 0.0, 0.0), viscosity=MU):
    water = tb.Water(RHO, current, viscosity=viscosity)
    (found,) = tb.cylinder_flows(model, model.neutral(), v, water)
    return found


def test_cylinder_across_a_current():
    """Re = U D / nu; vortices leave at 0.198 (1 - 19.7 / Re) U / D."""
    found = flow(bar(), np.zeros(6), current=(0.5, 0.0, 0.7))
    assert (found.body, found.index, found.regime) == ("bar", 1, "subcritical")
    # the part along the axis does not count
    assert_close(found.speed, 0.5)
    assert_close(found.reynolds, 0.5 * 0.1 / 1e-6)
    assert_close(found.shedding_frequency, 0.198 * (1 - 19.7 / 5e4) * 0.5 / 0.1)


def test_rotating_cylinder_uses_the_flow_at_its_middle():
    """Turning about x at 2 rad/s, the middle at z = 0.2 moves at 0.4 m/s."""
    found = flow(bar(), np.array([2.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    assert_close(found.speed, 0.4)


@pytest.mark.parametrize(
    ("speed", "regime"),
    [(1e-3, "laminar"), (1.0, "subcritical"), (5.0, "critical"), (50.0, "supercritical")],
)
def test_flow_regimes_of_a_cylinder(speed, regime):
    found = flow(bar(), np.array([0.0, 0.0, 0.0, speed, 0.0, 0.0]))
    assert found.regime == regime
    assert (found.shedding_frequency > 0.0) == (regime != "laminar")


def test_every_cylinder_of_a_robot_is_listed():
    """At any state, and also where the current depends on place."""
    model = tb.load("tiburon_titan")
    q, v = model.random_state(np.random.default_rng(4))
    for current in ((0.4, 0.0, 0.0), tb.LinearShear((0.5, 0.0, 0.0), 30.0)):
        found = tb.cylinder_flows(model, q, v, tb.Water(1025.0, current, viscosity=1.2e-3))
        assert [entry.body for entry in found] == [b.name for b in model.bodies if b.fluid.drag]


def test_missing_data_raise_an_error():
    with pytest.raises(tb.ModelError, match="need viscosity and density"):
        flow(bar(), np.zeros(6), viscosity=0.0)
    with pytest.raises(tb.ShapeError, match="one state"):
        tb.cylinder_flows(bar(), bar().neutral(), np.zeros((2, 6)), tb.Water(RHO, viscosity=MU))
