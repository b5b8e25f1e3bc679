"""Momentum with the water that bodies set in motion."""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import SEAS, immersed
from tests.model.samples import random_tree
from tests.robots import kicked
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close

WEIGHTLESS = (0.0, 0.0, 0.0)


def swimmer(seed, resisted=True):
    """Build a floating base with two arms, all in water; without drag, lift or volume if wanted."""
    rng = np.random.default_rng(seed)

    def fluid():
        G = rng.normal(size=(6, 6))
        scale = np.diag([0.2] * 3 + [1.0] * 3)
        damping = scale @ G.T @ G @ scale if resisted else np.zeros((6, 6))
        return tb.BodyFluid(
            volume=2e-3 if resisted else 0.0,
            center_of_buoyancy=(0.1, -0.05, 0.02),
            added_mass=scale @ G @ G.T @ scale,
            linear_damping=damping,
        )

    def inertia():
        return tb.Inertia(1.5, com=rng.uniform(-0.2, 0.2, 3), tensor=(0.03, 0.04, 0.05))

    place = tb.Pose(translation=(0.3, 0.1, -0.2))
    return tb.Model(
        "swimmer",
        [
            tb.Body("hull", joint=tb.Free("float"), inertia=inertia(), fluid=fluid()),
            tb.Body(
                "left",
                "hull",
                joint=tb.Revolute("l", (0.0, 0.6, 0.8), pose=place),
                inertia=inertia(),
                fluid=fluid(),
            ),
            tb.Body(
                "right",
                "hull",
                joint=tb.Spherical("r", pose=place),
                inertia=inertia(),
                fluid=fluid(),
            ),
        ],
    )


def rate(model, q, v, tau, water, gravity):
    """Return the rate of the momentum about the origin by central differences, and its scale.

    The scale is the size of the shares that cancel: those of the bodies, whose velocities change.
    """
    world = tb.World(gravity=gravity, fluid=water)
    vd = tb.forward_dynamics(model, q, v, tau, world=world)
    h = DIFFERENCE_STEP

    def at(s):
        # second order in the step: positions along v, velocities along vd
        moved = model.integrate(q, s * v + 0.5 * s * s * vd)
        return tb.momentum(model, moved, v + s * vd, at="world", world=world)

    shares = np.abs(tb.momentum_matrix(model, q, at="world", world=world))
    scale = (shares @ (np.abs(vd) + np.abs(v).max() * np.abs(v))).max()
    return (at(h) - at(-h)) / (2.0 * h), scale


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", range(3))
def test_momentum_of_a_floating_robot_in_still_water_is_conserved(seed):
    """Without gravity, buoyancy and drag nothing acts on robot and water together.

    Motors push link against link: they change no momentum (Kirchhoff's equations, Lamb 1932,
    art. 124, for each body).
    """
    model = swimmer(seed, resisted=False)
    q, v, tau = kicked(model, seed)
    tau[:6] = 0.0
    water = tb.Water(1000.0)
    found, scale = rate(model, q, v, tau, water, WEIGHTLESS)
    assert_close(found, np.zeros(6), DIFFERENCE, scale)
    # on land the same motion would not keep it: the water's share is what makes the sum
    moved = model.integrate(q, DIFFERENCE_STEP * v)
    dry = tb.momentum(model, moved, v, at="world") - tb.momentum(model, q, v, at="world")
    assert np.abs(dry).max() / DIFFERENCE_STEP > 1e-3


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", range(3))
def test_momentum_changes_by_the_force_on_the_base(seed):
    """A wrench on a floating base is all that changes it: d/dt h = wrench about the origin."""
    model = swimmer(seed, resisted=False)
    q, v, tau = kicked(model, seed + 10)
    R, p = tb.forward_kinematics(model, q, "hull")
    f, n = R @ tau[3:6], R @ tau[:3]
    wrench = np.concatenate([n + np.cross(p, f), f])
    found, scale = rate(model, q, v, tau, tb.Water(1000.0), WEIGHTLESS)
    assert_close(found, wrench, DIFFERENCE, scale)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("at", ["com", "world"])
@pytest.mark.parametrize("sea", SEAS)
def test_momentum_is_matrix_times_velocity_plus_momentum_at_rest(sea, at):
    """h(v) = A v + h(0); in still water h(0) is zero. The rows of the base are those of H."""
    model, water = swimmer(4), SEAS[sea].water
    q, v, _ = kicked(model, 5)
    A = tb.momentum_matrix(model, q, at=at, fluid=water, time=0.3)
    rest = tb.momentum(model, q, np.zeros(model.nv), at=at, fluid=water, time=0.3)
    full = tb.momentum(model, q, v, at=at, fluid=water, time=0.3)
    size = np.abs(A).max() * np.abs(v).max() * (1.0 + np.abs(q).max())
    assert_close(full, A @ v + rest, ALGEBRA, size)
    # waves move the water 30 m below them very little
    assert (np.abs(rest).max() > 1e-4) == (sea != "still")
    R, p = tb.forward_kinematics(model, q, "hull")
    H = tb.mass_matrix(model, q, fluid=water, time=0.3)
    point = tb.center_of_mass(model, q) if at == "com" else np.zeros(3)
    n, f = R @ H[:3], R @ H[3:6]
    expected = np.concatenate([n + np.cross(p - point, f.T).T, f])
    assert_close(A, expected, ALGEBRA, np.abs(expected).max() * (1.0 + np.abs(p).max()))


def test_traced_momentum_uses_the_water_of_its_kernel():
    """A function of one's own, compiled in water, gives what the library gives there."""
    model, water = swimmer(6), tb.Water(1000.0, current=(0.4, 0.0, -0.2))
    q, v, _ = kicked(model, 1)
    own = tb.compile(lambda m, q, v: tb.momentum(m, q, v), model, fluid=water)
    expected = tb.momentum(model, q, v, fluid=water)
    assert_close(own(q, v), expected, ALGEBRA, np.abs(expected).max() * (1.0 + np.abs(q).max()))
    assert np.abs(expected - tb.momentum(model, q, v)).max() > 0.1


def test_water_never_enters_the_center_of_mass():
    """Inside a kernel in water the center of mass and its Jacobian are those on land."""
    model, water = immersed(random_tree(3, 3), 3), tb.Water(1000.0)
    q, _, _ = kicked(model, 2)
    for function in (tb.center_of_mass, tb.center_of_mass_jacobian):
        own = tb.compile(lambda m, q, f=function: f(m, q), model, fluid=water)
        assert_close(own(q), function(model, q))
