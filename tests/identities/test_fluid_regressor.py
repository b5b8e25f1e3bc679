"""Regressor of hydrodynamic parameters: inverse dynamics, unit parameters, least squares."""

import numpy as np
import pytest

import tiburon as tb

SEA = tb.Water(density=1010.0, current=(0.2, -0.1, 0.05))


def states(model, count, seed=0):
    rng = np.random.default_rng(seed)
    home = np.broadcast_to(model.neutral(), (count, model.nq))
    q = model.integrate(home, rng.standard_normal((count, model.nv)))
    return q, *rng.standard_normal((2, count, model.nv))


def full(rng):
    """Return hydrodynamic data with all entries, asymmetric dampings included."""
    root = rng.standard_normal((6, 6))
    center = tuple(0.1 * rng.standard_normal(3))
    return tb.BodyFluid(
        volume=0.02,
        center_of_buoyancy=center,
        added_mass=5.0 * np.eye(6) + 0.3 * root @ root.T,
        linear_damping=np.diag(rng.uniform(1.0, 4.0, 6)) + 0.1 * rng.standard_normal((6, 6)),
        quadratic_damping=np.diag(rng.uniform(1.0, 4.0, 6)) + 0.1 * rng.standard_normal((6, 6)),
    )


def wet_arm():
    """A floating base with two links, one of them welded to a further body."""
    rng = np.random.default_rng(5)
    box = tb.Inertia.box(3.0, (0.4, 0.3, 0.2))

    def turned(name, axis):
        return tb.Revolute(name, axis=axis, pose=tb.Pose(translation=(0.2, 0.1, -0.1)))

    bodies = [
        tb.Body("hull", joint=tb.Free("base"), inertia=box, fluid=full(rng)),
        tb.Body("link", "hull", joint=turned("a", (0, 1, 0)), inertia=box, fluid=full(rng)),
        tb.Body(
            "lamp",
            "link",
            joint=tb.Fixed("weld", pose=tb.Pose.from_rpy((0.3, 0.2, 0.1), (0.1, 0.2, 0.3))),
            inertia=box,
            fluid=full(rng),
        ),
        tb.Body("hand", "link", joint=turned("b", (1, 0, 0)), inertia=box),
    ]
    return tb.Model("wet arm", bodies)


def test_the_regressor_times_the_parameters_is_what_water_adds():
    model = wet_arm()
    q, v, vd = states(model, 6)
    wet = tb.inverse_dynamics(model, q, v, vd, fluid=SEA) - tb.inverse_dynamics(model, q, v, vd)
    Y = tb.fluid_regressor(model, q, v, vd, fluid=SEA)
    theta = tb.hydrodynamic_parameters(model)
    names = tb.hydrodynamic_parameter_names(model)
    assert Y.shape == (6, model.nv, 3 * 97) == (6, model.nv, len(names))
    assert len(set(names)) == len(names) == len(theta)
    np.testing.assert_allclose(Y @ theta, wet, rtol=0.0, atol=1e-12 * np.abs(wet).max())
    # one state has the row of the batch
    one = tb.fluid_regressor(model, q[2], v[2], vd[2], fluid=SEA)
    np.testing.assert_allclose(one, Y[2], rtol=1e-13, atol=1e-13 * np.abs(Y).max())
    with pytest.raises(tb.ShapeError, match="vd: expected 8"):
        tb.fluid_regressor(model, q, v, vd[:, 1:], fluid=SEA)


@pytest.mark.parametrize(
    "name", ["lamp.added_mass.wx_vy", "link.quadratic_damping.vz", "hull.linear_damping.wz_vx"]
)
def test_columns_are_the_effect_of_named_parameters(name):
    """Against `inverse_dynamics` with the parameter itself, which it is linear in."""
    model = wet_arm()
    q, v, vd = states(model, 3, seed=2)
    names = tb.hydrodynamic_parameter_names(model)
    column = tb.fluid_regressor(model, q, v, vd, fluid=SEA)[..., names.index(name)]
    value = tb.hydrodynamic_parameters(model)[names.index(name)]
    forces = [
        tb.inverse_dynamics(model, q, v, vd, fluid=SEA, parameters={name: x})
        for x in (value + 0.25, value - 0.25)
    ]
    difference = (forces[0] - forces[1]) / 0.5
    scale = np.abs(forces[0]).max()
    np.testing.assert_allclose(column, difference, rtol=0.0, atol=1e-12 * scale)
    assert np.abs(column).max() > 1e-3


def test_least_squares_find_the_parameters_of_a_vehicle():
    """Inertial and hydrodynamic parameters that measured forces determine are recovered."""
    model = tb.load("bluerov2_heavy")
    q, v, vd = states(model, 60, seed=4)
    tau = tb.inverse_dynamics(model, q, v, vd, fluid=SEA)
    known = tb.inverse_dynamics(model, q, v, vd)
    Y = tb.fluid_regressor(model, q, v, vd, fluid=SEA).reshape(-1, 97)
    found = np.linalg.lstsq(Y, (tau - known).ravel(), rcond=1e-10)[0]
    theta = tb.hydrodynamic_parameters(model)
    assert np.linalg.matrix_rank(Y, tol=1e-10 * np.linalg.norm(Y, 2)) == 97
    np.testing.assert_allclose(found, theta, rtol=0.0, atol=1e-9 * np.abs(theta).max())


def test_other_waters_and_robots_are_refused():
    model = wet_arm()
    state = (model.neutral(), np.zeros(model.nv), np.zeros(model.nv))
    for options, message in (
        ({}, "expected water, got none"),
        ({"fluid": tb.Water(surface=1.0)}, "no surface"),
        ({"fluid": SEA, "bodies": ["keel"]}, "keel"),
    ):
        with pytest.raises(tb.TiburonError, match=message):
            tb.fluid_regressor(model, *state, **options)
    with pytest.raises(tb.ModelError, match="for trees"):
        tb.fluid_regressor(tb.load("four_bar"), np.zeros(3), np.zeros(3), np.zeros(3), fluid=SEA)
