"""Trees under water against Lagrange's equations of the robot and the water around it."""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import DENSITY, STREAM, SWING, OnFloats, OnGraph, immersed, without_drag
from tests.oracles.lagrange_in_water import joint_forces
from tests.tolerances import DIFFERENCE, SOLVE, assert_close
from tests.verification.test_lagrange import KINDS, PARENTS, tree

GRAVITY = (1.3, -2.1, -9.4)
RATE = 2.0 * np.pi / 3.0


def tide(time):
    """Velocity and acceleration of the tide of `wet`, also for complex times."""
    angle = RATE * time + 0.7
    return STREAM + SWING * np.sin(angle), RATE * SWING * np.cos(angle)


WATERS = {
    "still": (tb.Water(DENSITY), lambda time: (np.zeros(3), np.zeros(3))),
    "stream": (tb.Water(DENSITY, tuple(STREAM)), lambda time: (STREAM, np.zeros(3))),
    "tide": (tb.Water(DENSITY, tb.Tide(tuple(SWING), 3.0, 0.7, tuple(STREAM))), tide),
}


MIXED = without_drag(immersed(tree(12, KINDS, PARENTS), 1))
SCREWS = without_drag(immersed(tree(5, [tb.Screw] * 5, range(-1, 4)), 2))


@pytest.mark.parametrize("way", [OnFloats, OnGraph], ids=lambda way: way.__name__)
@pytest.mark.parametrize("water", WATERS)
@pytest.mark.parametrize("model", [MIXED, SCREWS], ids=["tree of twelve", "chain of screws"])
def test_dynamics_equals_lagranges_equations(model, water, way):
    """Also where the water accelerates: then the energy depends on time."""
    rng = np.random.default_rng(3)
    fluid, flow = WATERS[water]
    ours = way(model, GRAVITY, fluid)
    q, v, vd = rng.uniform(-1.5, 1.5, (3, model.nv))
    tau = joint_forces(model, q, v, vd, GRAVITY, DENSITY, flow, time=0.0)
    H = ours.mass_matrix(q)
    scale = max(1.0, np.abs(tau).max(), (np.abs(H) @ np.abs(vd)).max())
    assert_close(ours.inverse_dynamics(q, v, vd), tau, DIFFERENCE, scale)
    # accelerations come back as exactly as forces do
    again = ours.forward_dynamics(q, v, ours.inverse_dynamics(q, v, vd))
    assert_close(again, vd, SOLVE * np.linalg.cond(H), np.abs(np.linalg.solve(H, tau)).max() + 1.0)
