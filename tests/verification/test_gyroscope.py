"""A heavy symmetric gyroscope: steady precession, in Euler angles and on a ball joint."""

import numpy as np
import pytest

import tiburon as tb
from tests.running import WAYS
from tests.tolerances import SOLVE, assert_close

MASS, LENGTH, G = 0.8, 0.15, 9.81
ACROSS, ALONG = 0.009, 0.006  # moments about the pivot across, and along the axis [kg m^2]
TILT, SPIN = 0.7, 90.0  # angle of the axis from the vertical [rad], rate about the axis [rad/s]

on_floats_and_graph = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def rotor():
    """Return the spinning body; its axis is z, the pivot its origin."""
    about_com = ACROSS - MASS * LENGTH**2 / 4
    return tb.Inertia(MASS, (0.0, 0.0, LENGTH / 2), (about_com, about_com, ALONG))


def precession():
    """Return both rates of steady precession, slow and fast [rad/s].

    With w3 the whole rate about the axis, the moment of the weight equals the rate of turning of
    the angular momentum: m g l = I3 w3 W - I1 W^2 cos(tilt), l to the center of mass.
    """
    a, b = ACROSS * np.cos(TILT), ALONG * SPIN
    weight = MASS * G * LENGTH / 2
    root = np.sqrt(b * b - 4.0 * a * weight)
    return (b - root) / (2.0 * a), (b + root) / (2.0 * a)


@on_floats_and_graph
@pytest.mark.parametrize("W", precession(), ids=["slow", "fast"])
def test_gimbals_precess_steadily(way, W):
    """Precession, tilt and spin as three hinges: no acceleration, no motor force."""
    hinges = [("precession", (0, 0, 1)), ("tilt", (1, 0, 0)), ("spin", (0, 0, 1))]
    bodies, parent = [], "world"
    for name, axis in hinges:
        inertia = rotor() if name == "spin" else tb.Inertia()
        bodies.append(
            tb.Body(name, parent, joint=tb.Revolute(f"{name}_hinge", axis), inertia=inertia)
        )
        parent = name
    model = tb.Model("gyroscope", bodies)
    q = np.array([0.3, TILT, -1.1])
    v = np.array([W, 0.0, SPIN - W * np.cos(TILT)])
    ours = way(model, (0.0, 0.0, -G))
    # terms of the size of m g l cancel; the mass matrix of gimbals has the tilt in its condition
    M = ours.mass_matrix(q)
    scale = ALONG * SPIN * W
    assert_close(ours.inverse_dynamics(q, v, np.zeros(3)), np.zeros(3), scale=max(1.0, scale))
    acceleration = ours.forward_dynamics(q, v, np.zeros(3))
    allowed = SOLVE * np.linalg.cond(M)
    assert_close(acceleration, np.zeros(3), allowed, scale=scale / np.linalg.eigvalsh(M)[0])


@on_floats_and_graph
@pytest.mark.parametrize("W", precession(), ids=["slow", "fast"])
def test_ball_joint_precesses_steadily(way, W):
    """On a ball joint the angular velocity turns about the vertical: wd = W z x w."""
    model = tb.Model("gyroscope", [tb.Body("top", joint=tb.Spherical("ball"), inertia=rotor())])
    # body to world axes: tilt about x, then turn about the vertical
    quaternion = np.array([np.cos(TILT / 2), np.sin(TILT / 2), 0.0, 0.0])
    z = np.array([0.0, np.sin(TILT), np.cos(TILT)])  # the vertical in body axes
    w = W * z + np.array([0.0, 0.0, SPIN - W * np.cos(TILT)])
    ours = way(model, (0.0, 0.0, -G))
    acceleration = ours.forward_dynamics(quaternion, w, np.zeros(3))
    assert_close(acceleration, W * np.cross(z, w))


def test_a_wrong_rate_tilts_the_axis():
    """Precession slower than steady lets the axis fall: the test above can fail."""
    model = tb.Model("gyroscope", [tb.Body("top", joint=tb.Spherical("ball"), inertia=rotor())])
    quaternion = np.array([np.cos(TILT / 2), np.sin(TILT / 2), 0.0, 0.0])
    z = np.array([0.0, np.sin(TILT), np.cos(TILT)])
    W = 0.5 * precession()[0]
    w = W * z + np.array([0.0, 0.0, SPIN - W * np.cos(TILT)])
    acceleration = tb.forward_dynamics(model, quaternion, w, np.zeros(3))
    assert np.abs(acceleration - W * np.cross(z, w)).max() > 10.0
