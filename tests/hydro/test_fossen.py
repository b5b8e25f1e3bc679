"""The equation of motion as marine control writes it, and the Coriolis matrix with added mass."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiburon as tb
from tests.hydro.sources import fixture_b, state_b
from tests.hydro.wet import DENSITY, SEAS, OnFloats, OnGraph, immersed
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.strategies import GRAVITY, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.algorithms.coriolis import _by_pairs, _columns, coriolis

few = settings(max_examples=20)


def largest(x):
    return max(1.0, float(np.abs(x).max(initial=0.0)))


def coriolis_on_floats(ours, q, v):
    return np.array(coriolis(ours.plan, q.tolist(), v.tolist()), dtype=float)


@few
@given(models(), seeds)
def test_coriolis_matrix_times_velocity_is_inverse_dynamics_without_acceleration(model, seed):
    """C v = ID(q, v, 0) in still water without gravity and drag."""
    model = immersed(model, seed)
    bodies = [
        tb.Body(
            body.name,
            body.parent,
            joint=body.joint,
            inertia=body.inertia,
            fluid=tb.BodyFluid(added_mass=body.fluid.added_mass),
        )
        for body in model.bodies
    ]
    smooth = tb.Model("smooth", bodies, model.frames)
    q, v, *_ = state(smooth, seed)
    ours = OnFloats(smooth, (0.0, 0.0, 0.0), SEAS["still"].water)
    C = coriolis_on_floats(ours, q, v)
    scale = largest(np.abs(C) @ np.abs(v))
    assert_close(C @ v, ours.inverse_dynamics(q, v, 0.0 * v), ALGEBRA, scale)


@few
@given(models(), seeds)
def test_rate_of_mass_matrix_minus_twice_coriolis_is_skew(model, seed):
    """dH/dt = C + C^T with added mass, the rate by central differences along the motion."""
    model = immersed(model, seed)
    q, v, *_ = state(model, seed)
    ours = OnFloats(model, GRAVITY, SEAS["still"].water)
    C = coriolis_on_floats(ours, q, v)
    h = DIFFERENCE_STEP / largest(v)
    after, before = (ours.mass_matrix(model.integrate(q, t * v)) for t in (h, -h))
    scale = largest(after) * largest(v) ** 3
    assert_close(C + C.T, (after - before) / (2.0 * h), DIFFERENCE, scale)


def long_arm(count):
    """A chain so long that its visits are steps of a tape."""
    rng = np.random.default_rng(count)
    bodies = [tb.Body("b0", joint=tb.Free("j0"), inertia=random_inertia(rng))]
    for k in range(1, count):
        joint = tb.Revolute(f"j{k}", random_axis(rng).tolist(), pose=random_pose(rng))
        bodies.append(tb.Body(f"b{k}", f"b{k - 1}", joint=joint, inertia=random_inertia(rng)))
    return immersed(tb.Model("long", bodies), count)


@pytest.mark.parametrize("count", [9, 18])
def test_coriolis_matrix_of_long_robots_by_products(count):
    """Vectors in one frame, inlined and on the tape, give what pairs of bodies give."""
    model = long_arm(count)
    q, v = model.random_state(3)
    graph = OnGraph(model, (0.0, 0.0, -9.81), SEAS["still"].water)
    C = graph.run("coriolis_matrix", (q, v))
    H = graph.mass_matrix(q)
    ours = OnFloats(model, (0.0, 0.0, 0.0), SEAS["still"].water)
    state = q.tolist(), v.tolist()
    expected = np.array(_by_pairs(ours.plan, state[0], *_columns(ours.plan, *state)), dtype=float)
    assert_close(C, expected, ALGEBRA, largest(expected))
    assert_close(H, ours.mass_matrix(q))


ALIKE = ("still", "stream", "tide")


@settings(max_examples=6)
@given(
    models(root=("free",), kinds=("revolute", "prismatic", "fixed", "spherical"), most=4),
    seeds,
    st.sampled_from(ALIKE),
)
def test_terms_add_up_to_inverse_dynamics(model, seed, sea):
    """M (vd - drift) + C v + D v + g = tau, with the velocity relative to the water."""
    model = immersed(model, seed)
    q, v, vd, _ = state(model, seed)
    ours = OnGraph(model, GRAVITY, SEAS[sea].water)
    M, C, D, g, relative, drift = ours.run("fossen_form", (q, v))
    tau = ours.inverse_dynamics(q, v, vd)
    found = M @ (vd - drift) + C @ relative + D @ relative + g
    sizes = (np.abs(M) @ np.abs(vd - drift), np.abs(C) @ np.abs(relative))
    scale = largest(sum(sizes) + np.abs(D) @ np.abs(relative) + np.abs(g))
    assert_close(found, tau, ALGEBRA, scale)


def test_terms_of_a_vehicle_with_two_arms():
    """As machine code, one state and a batch, in the stream of a tide that turns."""
    model = fixture_b()
    q, v, *_ = state_b()
    water = SEAS["tide"].water
    vd = np.linspace(-1.0, 1.0, model.nv)
    times = np.array([0.0, 0.4, 1.1])
    form = tb.fossen_form(model, np.tile(q, (3, 1)), np.tile(v, (3, 1)), water, time=times)
    for k, time in enumerate(times):
        M, C, D, g, relative, drift = (part[k] for part in form)
        tau = tb.inverse_dynamics(model, q, v, vd, fluid=water, time=time)
        assert_close(M @ (vd - drift) + (C + D) @ relative + g, tau, ALGEBRA, 10 * largest(tau))
        one = tb.fossen_form(model, q, v, water, time=time)
        assert all(np.array_equal(a, b[k]) for a, b in zip(one, form, strict=True))
        # drag takes energy out of every motion relative to the water
        assert relative @ D @ relative > 0.0
    assert_close(form.M[0], tb.mass_matrix(model, q, fluid=water))
    assert_close(form.C[0], tb.coriolis_matrix(model, q, form.v[0], fluid=water))


def test_damping_matrix_of_a_craft_in_closed_form():
    """D = D_1 + D_2 diag|v| for lumped damping, in marine order d_1 + d_2 |u| (Fossen, 6.4)."""
    d1, d2 = np.arange(1.0, 7.0), np.arange(2.0, 8.0)
    fluid = tb.BodyFluid(0.03, (0, 0, 0.02), np.diag([1, 2, 3, 4, 5, 6.0]), (), d1, d2)
    inertia = tb.Inertia(30.0, (0, 0, 0), (1, 2, 2.5))
    model = tb.Model("auv", [tb.Body("hull", joint=tb.Free("f"), inertia=inertia, fluid=fluid)])
    v = np.array([0.1, -0.2, 0.3, 1.5, -0.4, 0.2])
    form = tb.fossen_form(model, model.neutral(), v, tb.Water(DENSITY))
    assert_close(form.D, np.diag(d1 + d2 * np.abs(v)))
    assert_close(form.M, np.diag([2, 4, 5.5, 34, 35, 36]))
    assert_close(form.v, v)
    marine = tb.matrix_to_fossen(form.D)
    assert_close(np.diag(marine), np.roll(d1 + d2 * np.abs(v), 3))
    # at rest only what is linear is left, and no zero divides
    rest = tb.fossen_form(model, model.neutral(), 0 * v, tb.Water(DENSITY))
    assert_close(rest.D, np.diag(d1))


def test_fossen_form_on_land_equals_inverse_dynamics():
    model = fixture_b()
    q, v, *_ = state_b()
    form = tb.fossen_form(model, q, v)
    assert not form.D.any()
    assert not form.drift.any()
    assert_close(form.C @ v + form.g, tb.bias_force(model, q, v))


def test_water_without_a_relative_velocity_is_refused():
    model = fixture_b()
    q, v, *_ = state_b()
    with pytest.raises(tb.ModelError, match="moves alike everywhere"):
        tb.fossen_form(model, q, v, SEAS["shear"].water)
    rod = tb.Body(
        "rod",
        joint=tb.Revolute("hinge"),
        inertia=tb.Inertia.point(1.0, (1, 0, 0)),
        fluid=tb.BodyFluid(1e-3, added_mass=np.eye(6)),
    )
    arm = tb.Model("arm", [rod])
    with pytest.raises(tb.ModelError, match="hinge"):
        tb.fossen_form(arm, [0.1], [0.2], SEAS["stream"].water)
    assert tb.fossen_form(arm, [0.1], [0.2], SEAS["still"].water).M.shape == (1, 1)
