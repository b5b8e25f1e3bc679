"""Forces from outside that go with acceleration join the inertia."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close


def arm():
    bodies = [
        tb.Body("base", joint=tb.Free("float"), inertia=tb.Inertia.box(5.0, (0.4, 0.3, 0.2))),
        tb.Body(
            "arm",
            "base",
            joint=tb.Revolute("hinge", (0, 1, 0), pose=tb.Pose(translation=(0.2, 0, 0))),
            inertia=tb.Inertia.box(1.0, (0.5, 0.1, 0.1), com=(0.25, 0, 0)),
        ),
    ]
    frames = [tb.Frame("hand", "arm", tb.Pose.from_rpy((0.3, -0.2, 0.5), (0.5, 0.02, 0)))]
    return tb.Model("arm", bodies, frames)


def matrix(seed=0):
    A = np.random.default_rng(seed).normal(size=(6, 6))
    return A @ A.T


def test_external_inertia_force_is_minus_matrix_times_acceleration():
    """The same motion as with that force given outright."""
    model, A = arm(), matrix()
    rng = np.random.default_rng(1)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    wrench = rng.normal(size=6)
    vd = tb.forward_dynamics(
        model, q, v, tau, external_inertia={"hand": A}, external_force={"base": wrench}
    )
    a = tb.frame_acceleration(model, q, v, vd, "hand", axes="frame")
    outright = {"base": wrench, "hand": -A @ a}
    assert_close(tb.forward_dynamics(model, q, v, tau, external_force=outright), vd, SOLVE)
    back = tb.inverse_dynamics(
        model, q, v, vd, external_inertia={"hand": A}, external_force={"base": wrench}
    )
    assert_close(back, tau, SOLVE)


@pytest.mark.parametrize("method", ["articulated", "composite"])
def test_inertia_of_a_point_mass_is_a_point_mass_without_weight(method):
    model, m = arm(), 3.0
    rng = np.random.default_rng(2)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    A = np.diag([0, 0, 0, m, m, m])
    found = tb.forward_dynamics(model, q, v, tau, external_inertia={"hand": A}, method=method)
    hand = model.frames[0]
    extra = tb.Body(
        "load", "arm", joint=tb.Fixed("grip", pose=hand.pose), inertia=tb.Inertia.point(m)
    )
    loaded = tb.Model("loaded", [*model.bodies, extra])
    # the weight of the load, taken away again
    lift = {"load": (0, 0, 0, 0, 0, m * 9.81)}
    expected = tb.forward_dynamics(
        loaded, q, v, tau, external_force=lift, external_axes="world", method=method
    )
    assert_close(found, expected, SOLVE)


def test_users_forces_in_one_kernel():
    """A law of a user's own: a damper and the water it drags along, traced with the dynamics."""
    model = arm()

    def law(model, q, v, tau):
        motion = tb.frame_velocity(model, q, v, "hand", axes="frame")
        return tb.forward_dynamics(
            model,
            q,
            v,
            tau,
            external_force={"hand": -2.0 * np.abs(motion) * motion},
            external_inertia={"hand": 0.5 * np.eye(6)},
        )

    q, v = model.random_state(3)
    tau = np.ones(model.nv)
    motion = tb.frame_velocity(model, q, v, "hand", axes="frame")
    expected = tb.forward_dynamics(
        model,
        q,
        v,
        tau,
        external_force={"hand": -2.0 * np.abs(motion) * motion},
        external_inertia={"hand": 0.5 * np.eye(6)},
    )
    assert_close(tb.compile(law, model)(q, v, tau), expected)


def test_bad_matrices_are_refused():
    model = arm()
    q, v = model.random_state(0)
    with pytest.raises(tb.ShapeError, match="external_inertia"):
        tb.forward_dynamics(model, q, v, np.zeros(7), external_inertia={"hand": np.eye(5)})
    with pytest.raises(tb.UnknownNameError, match="hand"):
        tb.forward_dynamics(model, q, v, np.zeros(7), external_inertia={"hnd": np.eye(6)})


def differences(function, count):
    h = DIFFERENCE_STEP
    return np.array([(function(h * e) - function(-h * e)) / (2 * h) for e in np.eye(count)]).T


@pytest.mark.usefixtures("interpreted")
def test_derivatives_include_external_inertias():
    """Those of forward and inverse dynamics are central differences; linearize follows."""
    model, A = arm(), matrix(4)
    rng = np.random.default_rng(5)
    q, v = model.random_state(rng)
    tau = 10.0 * rng.normal(size=model.nv)
    around = {
        "external_inertia": {"hand": A},
        "external_force": {"hand": rng.normal(size=6)},
        "external_axes": "world",
    }

    def forward(q, v, tau):
        return tb.forward_dynamics(model, q, v, tau, **around)

    n = model.nv
    found = tb.forward_dynamics_derivatives(model, q, v, tau, **around)
    vd = forward(q, v, tau)
    assert_close(found.vd, vd, SOLVE, np.linalg.cond(found.by_tau) * np.abs(vd).max())
    by_q = differences(lambda e: forward(model.integrate(q, e), v, tau), n)
    by_v = differences(lambda e: forward(q, v + e, tau), n)
    assert_close(found.by_q, by_q, DIFFERENCE)
    assert_close(found.by_v, by_v, DIFFERENCE)
    assert_close(found.by_tau, differences(lambda e: forward(q, v, tau + e), n), DIFFERENCE)

    def inverse(q, v, vd):
        return tb.inverse_dynamics(model, q, v, vd, **around)

    found = tb.inverse_dynamics_derivatives(model, q, v, vd, **around)
    assert_close(found.tau, tau, SOLVE, np.linalg.cond(found.by_vd) * np.abs(tau).max())
    by_place = differences(lambda e: inverse(model.integrate(q, e), v, vd), n)
    assert_close(found.by_q, by_place, DIFFERENCE)
    assert_close(found.by_v, differences(lambda e: inverse(q, v + e, vd), n), DIFFERENCE)
    assert_close(found.by_vd, differences(lambda e: inverse(q, v, vd + e), n), DIFFERENCE)
    linear = tb.linearize(model, q, v, tau, **around)
    assert_close(linear.A[n:], np.hstack([by_q, by_v]), DIFFERENCE)


@pytest.mark.usefixtures("interpreted")
def test_payload_is_linearized_as_an_external_inertia():
    """Without gravity, a point mass in the hand; in continuous time and for one step."""
    model, m = arm(), 3.0
    rng = np.random.default_rng(7)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    grip = tb.Fixed("grip", pose=model.frames[0].pose)
    extra = tb.Body("load", "arm", joint=grip, inertia=tb.Inertia.point(m))
    loaded = tb.Model("loaded", [*model.bodies, extra])
    falling = tb.World(gravity=(0.0, 0.0, 0.0))
    A = {"hand": np.diag([0, 0, 0, m, m, m])}
    for step in ({}, {"dt": 0.02}):
        found = tb.linearize(model, q, v, tau, world=falling, external_inertia=A, **step)
        expected = tb.linearize(loaded, q, v, tau, world=falling, **step)
        condition = np.linalg.cond(tb.mass_matrix(loaded, q))
        for ours, other in zip(found, expected, strict=True):
            assert_close(ours, other, SOLVE, condition * np.abs(other).max())
