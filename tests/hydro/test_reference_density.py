"""Coefficients belong to a stated density and scale with that of the fluid."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.errors import ModelError
from tiburon.reproduce import solids

DATA = Path(__file__).parent.parent / "data"

MODELS = ("tiburon_titan", "aquarobot", "remus100", "bluerov2_alpha")


def _kicked(model, seed=5):
    rng = np.random.default_rng(seed)
    q, _ = model.random_state(rng)
    return q, rng.normal(size=model.nv), rng.normal(size=model.nv)


@pytest.mark.parametrize("name", MODELS)
def test_fluid_without_density_acts_as_no_fluid(name):
    """The dry limit: added mass, drag, damping, lift and buoyancy all vanish with density."""
    model = tb.load(name)
    q, v, tau = _kicked(model)
    dry = tb.forward_dynamics(model, q, v, tau)
    none = tb.forward_dynamics(model, q, v, tau, fluid=tb.Water(0.0, current=(0.4, -0.2, 0.1)))
    # the same sums with zeros in them: rounding
    np.testing.assert_allclose(none, dry, rtol=0, atol=1e-11 * np.abs(dry).max())


@pytest.mark.parametrize("name", MODELS)
def test_dry_limit_is_reached_in_proportion_to_density(name):
    """Inverse dynamics is affine in density: 1e-6 of sea water acts by 1e-6 of its force."""
    model = tb.load(name)
    q, v, vd = _kicked(model)
    stream = (0.4, -0.2, 0.1)
    dry = tb.inverse_dynamics(model, q, v, vd)
    full = tb.inverse_dynamics(model, q, v, vd, fluid=tb.Water(1025.0, current=stream)) - dry
    thin = tb.inverse_dynamics(model, q, v, vd, fluid=tb.Water(1.025e-3, current=stream)) - dry
    # differences of forces of the size of `dry`, known to their rounding
    scale = np.abs(dry).max() + np.abs(full).max()
    np.testing.assert_allclose(thin, 1e-6 * full, rtol=0, atol=1e-14 * scale)
    assert np.abs(full).max() > 1e-3 * np.abs(dry).max()


def test_added_mass_holds_at_the_density_it_is_stated_for():
    """In fluid of the reference density the mass matrix holds the stated matrix."""
    stated = np.diag([0.4, 0.8, 0.9, 8.0, 20.0, 25.0])
    for density in (1000.0, 1025.0, 1026.0, 1028.0):
        fluid = tb.BodyFluid(added_mass=stated, reference_density=density)
        inertia = tb.Inertia(10.0, tensor=(1, 0, 0, 2, 0, 3))
        hull = tb.Body("hull", joint=tb.Free("base"), inertia=inertia, fluid=fluid)
        model = tb.Model("hull", (hull,))
        dry = tb.mass_matrix(model, model.neutral())
        for share in (1.0, 0.5, 2.0):
            wet = tb.mass_matrix(model, model.neutral(), fluid=tb.Water(share * density))
            # one product and one sum: two roundings
            np.testing.assert_allclose(wet, dry + share * stated, rtol=5e-16)


def test_bodies_of_one_link_may_state_different_densities():
    """Matrices on fixed joints are brought to one density: equal to stating them there."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(6, 6))
    A = root @ root.T
    whole = _two_bodies(
        tb.BodyFluid(0.01, added_mass=A, linear_damping=A, quadratic_damping=np.abs(A)),
        tb.BodyFluid(0.02, added_mass=2.0 * A, quadratic_damping=np.eye(6)),
    )
    f = 998.2 / 1025.0
    mixed = _two_bodies(
        tb.BodyFluid(0.01, added_mass=A, linear_damping=A, quadratic_damping=np.abs(A)),
        tb.BodyFluid(
            0.02,
            added_mass=2.0 * f * A,
            quadratic_damping=f * np.eye(6),
            reference_density=998.2,
        ),
    )
    q, v, tau = _kicked(whole)
    for water in (tb.Water(400.0), tb.Water(1025.0, current=lambda t, p: (0.1 * p[2], 0.2, 0.0))):
        expected = tb.forward_dynamics(whole, q, v, tau, fluid=water)
        found = tb.forward_dynamics(mixed, q, v, tau, fluid=water)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_coefficients_of_any_fluid_do_not_scale():
    """reference_density=None: beside scaled ones on the same link, and in any fluid."""
    A = np.diag([0.4, 0.8, 0.9, 8.0, 20.0, 25.0])
    model = _two_bodies(
        tb.BodyFluid(added_mass=A, reference_density=None),
        tb.BodyFluid(added_mass=A, reference_density=1000.0),
    )
    q = model.neutral()
    dry = tb.mass_matrix(model, q)
    free, half = (tb.mass_matrix(model, q, fluid=tb.Water(density)) for density in (0.0, 500.0))
    # the trace of the linear block is that of the stated matrices, whichever way they are turned
    for wet, factor in ((free, 1.0), (half, 1.5)):
        assert np.trace((wet - dry)[3:, 3:]) == pytest.approx(53.0 * factor, rel=1e-13)


@pytest.mark.parametrize("wrong", [0.0, -1025.0, np.nan, "sea", (1.0, 2.0)])
def test_invalid_reference_density_is_refused(wrong):
    with pytest.raises(ModelError, match="body fluid: reference_density must be"):
        tb.BodyFluid(added_mass=np.eye(6), reference_density=wrong)


def test_estimates_state_the_density_they_are_made_for():
    """An estimate for fresh water serves in the sea: as one made for the sea."""
    shapes = (tb.Shape(tb.CylinderShape(0.1, 0.8)),)
    fresh, salt = (tb.estimate_hydrodynamics(shapes, density).fluid for density in (1000.0, 1025.0))
    assert fresh.reference_density == 1000.0
    model = _two_bodies(fresh, replace(salt, reference_density=1025.0))
    other = _two_bodies(salt, salt)
    q, v, tau = _kicked(model)
    sea = tb.Water(1025.0)
    expected = tb.forward_dynamics(other, q, v, tau, fluid=sea)
    np.testing.assert_allclose(
        tb.forward_dynamics(model, q, v, tau, fluid=sea), expected, rtol=1e-12
    )
    with pytest.raises(ModelError, match="density must be positive, got 0"):
        tb.estimate_hydrodynamics(shapes, 0.0)


def test_added_mass_of_panels_states_the_density_it_was_computed_for():
    """Made for fresh water, given to a body of sea water: the ratio of densities is kept."""
    mesh = solids.box((1.0, 0.6, 0.3))
    fresh, sea = (tb.panel_added_mass(mesh, rho, panels=100) for rho in (1000.0, 1025.0))
    assert fresh.density == 1000.0
    body = tb.BodyFluid(mesh.volume, added_mass=fresh)
    assert body.reference_density == 1025.0
    assert_close(body.added_mass, sea.matrix)
    assert_close(tb.BodyFluid(added_mass=fresh, reference_density=1000.0).added_mass, fresh.matrix)
    with pytest.raises(tb.ModelError, match=r"computed for 1000 kg/m\^3.*give reference_density"):
        tb.BodyFluid(added_mass=fresh, reference_density=None)
    with pytest.raises(tb.ModelError, match="density must be positive, got 0"):
        tb.panel_added_mass(mesh, 0.0)


def test_files_that_name_no_density_hold_in_any_fluid():
    """SDF gives a matrix without a density: the same added mass in every water."""
    model = tb.load(DATA / "crane.sdf").without_loops()
    assert {b.fluid.reference_density for b in model.bodies if b.fluid is not None} == {None}
    q, _, _ = _kicked(model)
    heavy, light = (tb.mass_matrix(model, q, fluid=tb.Water(d)) for d in (1025.0, 500.0))
    np.testing.assert_array_equal(heavy, light)


@pytest.mark.parametrize("density", [1000.0, 1025.0, None])
def test_native_files_keep_the_reference_density(density, tmp_path):
    model = _two_bodies(
        tb.BodyFluid(added_mass=np.eye(6), reference_density=density),
        tb.BodyFluid(quadratic_damping=np.eye(6), reference_density=density),
    )
    path = tmp_path / "robot.toml"
    tb.save(model, path)
    assert [body.fluid for body in tb.load(path).bodies] == [body.fluid for body in model.bodies]


def _two_bodies(first, second):
    """A hull and a pod fixed beside it, turned."""
    inertia = tb.Inertia(10.0, (0.02, 0.01, -0.03), tensor=(1, 0, 0, 2, 0, 3))
    pose = tb.Pose.from_rpy((0.3, -0.2, 0.5), (0.4, 0.1, -0.2))
    return tb.Model(
        "hull and pod",
        (
            tb.Body("hull", joint=tb.Free("base"), inertia=inertia, fluid=first),
            tb.Body(
                "pod", "hull", joint=tb.Fixed("mount", pose=pose), inertia=inertia, fluid=second
            ),
        ),
    )
