"""Golden vectors of McMillan 1994: fixture A of the checked digest of that thesis.

A fixed-base chain of three revolute joints in modified Denavit-Hartenberg frames. The values were
computed by two independent algorithms that agree to all printed digits.
"""

import numpy as np
import pytest

import tiburon as tb
from tests.running import WAYS
from tests.tolerances import PRINTED, assert_close

on_floats_and_graph = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)

Q = np.array([0.3, -0.5, 0.8])
V = np.array([1.0, -0.7, 0.4])
TAU = np.array([2.0, -1.0, 0.5])
H = [
    [1.0745174089, 0.0359084000, 0.0616452910],
    [0.0359084000, 0.3727353655, 0.0443464777],
    [0.0616452910, 0.0443464777, 0.0205],
]
# gravity as the source gives it, joint forces at zero acceleration, joint accelerations
CASES = [
    (
        (0.0, 0.0, 9.81),
        [-0.3890650331, -7.3149359687, -0.8286659197],
        [-0.4621775526, 12.2674605396, 39.6652841093],
    ),
    (
        (9.81, 0.0, 0.0),
        [2.4078992042, -3.6620393882, 0.1718818355],
        [-0.8274246214, 6.7615247471, 3.8670824217],
    ),
]


def gravity_from_source(a_g):
    """Convert the source's gravity to ours: the one place where its z-down world is met.

    The source's z axis points down and its a_g is the acceleration of free fall in those axes. The
    chain is given in the same axes, so the world keeps them and gravity points along +z.
    """
    return tuple(a_g)


def placement(a, alpha, d):
    """Return the joint frame of modified Denavit-Hartenberg parameters, before the joint turns."""
    c, s = np.cos(alpha), np.sin(alpha)
    return tb.Pose(((1, 0, 0), (0, c, -s), (0, s, c)), (a, -s * d, c * d))


def chain():
    """Build fixture A."""
    links = [
        ((0.0, 0.0, 0.0), 2.0, (0.15, 0.01, -0.02), (0.02, 0.03, 0.04)),
        ((0.3, np.pi / 2, 0.1), 1.5, (0.2, 0.0, 0.03), (0.01, 0.05, 0.05)),
        ((0.4, -np.pi / 4, 0.0), 1.0, (0.1, -0.05, 0.0), (0.004, 0.006, 0.008)),
    ]
    bodies, parent = [], "world"
    for number, (dh, mass, com, moments) in enumerate(links):
        joint = tb.Revolute(f"joint_{number}", pose=placement(*dh))
        inertia = tb.Inertia(mass, com, moments)
        bodies.append(tb.Body(f"link_{number}", parent, joint=joint, inertia=inertia))
        parent = bodies[-1].name
    return tb.Model("fixture_a", bodies)


@on_floats_and_graph
def test_mass_matrix_of_fixture_a(way):
    """H as printed."""
    assert_close(way(chain()).mass_matrix(Q), H, PRINTED, scale=1.0)


@on_floats_and_graph
@pytest.mark.parametrize(("a_g", "bias", "acceleration"), CASES)
def test_forces_and_accelerations_of_fixture_a(way, a_g, bias, acceleration):
    """Joint forces at zero acceleration, and accelerations under the given forces, as printed."""
    ours = way(chain(), gravity_from_source(a_g))
    assert_close(ours.inverse_dynamics(Q, V, np.zeros(3)), bias, PRINTED, scale=1.0)
    assert_close(ours.forward_dynamics(Q, V, TAU), acceleration, PRINTED, scale=1.0)
