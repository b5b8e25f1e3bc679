"""A = B on random trees under water: what the algorithms owe each other and a dense oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hydro.wet import DENSITY, SEAS, WAYS, OnFloats, OnGraph, immersed, without_drag
from tests.oracles import absolute, submerged
from tests.strategies import GRAVITY, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close
from tiburon.algorithms.floating_base import floating_rnea, is_floating_base
from tiburon.algorithms.hybrid import hybrid_aba, hybrid_crba
from tiburon.algorithms.joint_space import forward_by_mass_matrix

NO_GRAVITY = (0.0, 0.0, 0.0)

on_floats_and_graph = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
in_every_water = pytest.mark.parametrize("sea", SEAS)
HYBRIDS = pytest.mark.parametrize("hybrid", [hybrid_aba, hybrid_crba], ids=lambda f: f.__name__)
any_water = st.sampled_from(sorted(SEAS))
# water on every body makes graphs ten times as large: few trees for each water
few = settings(max_examples=8)
some = settings(max_examples=20)


def largest(x):
    return max(1.0, float(np.abs(x).max(initial=0.0)))


def lists(*arrays):
    return [array.tolist() for array in arrays]


def force_scale(ours, q, v, vd):
    """Return the size of what cancels in joint forces: inertia, and forces at zero acceleration."""
    H, bias = ours.mass_matrix(q), ours.inverse_dynamics(q, v, 0.0 * vd)
    return largest(np.abs(H) @ np.abs(vd) + np.abs(bias))


def solve_scale(ours, q, v, tau):
    """Return how large accelerations may be, times what solving for them may lose."""
    H, bias = ours.mass_matrix(q), ours.inverse_dynamics(q, v, 0.0 * tau)
    sizes = [largest(np.linalg.solve(H, x)) for x in (tau, bias)]
    return max(sizes) * np.linalg.cond(H)


@in_every_water
@on_floats_and_graph
@few
@given(models(), seeds)
def test_inverse_dynamics_is_that_of_kirchhoff_and_newton(way, sea, model, seed):
    """Every joint kind, every shape of drag, in world axes body by body."""
    model, (water, flow) = immersed(model, seed), SEAS[sea]
    q, v, vd, _ = state(model, seed)
    expected = submerged.inverse_dynamics(model, q, v, vd, GRAVITY, DENSITY, flow)
    ours = way(model, GRAVITY, water)
    # what acts on distant bodies is summed at the root
    scale = 10.0 * force_scale(ours, q, v, vd)
    assert_close(ours.inverse_dynamics(q, v, vd), expected, ALGEBRA, scale)


@in_every_water
@on_floats_and_graph
@few
@given(models(), seeds)
def test_forward_and_inverse_dynamics_are_inverse(way, sea, model, seed):
    """FD(ID(vd)) = vd."""
    model = immersed(model, seed)
    q, v, vd, _ = state(model, seed)
    ours = way(model, GRAVITY, SEAS[sea].water)
    tau = ours.inverse_dynamics(q, v, vd)
    scale = solve_scale(ours, q, v, tau)
    assert_close(ours.forward_dynamics(q, v, tau), vd, SOLVE, max(scale, largest(vd)))


@some
@given(models(), seeds, any_water)
def test_methods_of_forward_dynamics_agree(model, seed, sea):
    """Articulated bodies, and the mass matrix with its factors."""
    model = immersed(model, seed)
    q, v, _, tau = state(model, seed)
    ours = OnFloats(model, GRAVITY, SEAS[sea].water)
    external = ours.external(q, v)
    other = forward_by_mass_matrix(ours.plan, *lists(q, v, tau), GRAVITY, external)
    scale = solve_scale(ours, q, v, tau)
    assert_close(other, ours.forward_dynamics(q, v, tau), SOLVE, scale)


@on_floats_and_graph
@some
@given(models(), seeds)
def test_mass_matrix_columns_are_forces_of_unit_accelerations(way, model, seed):
    """H e_k = ID(q, 0, e_k) at rest in still water without gravity, and it is symmetric."""
    model = immersed(model, seed)
    q, *_ = state(model, seed)
    ours = way(model, NO_GRAVITY, SEAS["still"].water)
    rest = np.zeros(model.nv)
    units = np.eye(model.nv)
    if way is OnGraph:
        # one graph for all columns
        columns = ours.inverse_dynamics(np.tile(q, (model.nv, 1)), 0.0 * units, units)
    else:
        columns = [ours.inverse_dynamics(q, rest, unit) for unit in units]
    H = ours.mass_matrix(q)
    assert_close(H, np.array(columns).T)
    assert np.array_equal(H, H.T)


@some
@given(models(), seeds, any_water)
def test_mass_matrix_is_that_of_any_water(model, seed, sea):
    """H e_k = ID(q, v, vd + e_k) - ID(q, v, vd): currents and speed change no inertia."""
    model = immersed(model, seed)
    q, v, vd, _ = state(model, seed)
    ours = OnFloats(model, GRAVITY, SEAS[sea].water)
    before = ours.inverse_dynamics(q, v, vd)
    columns = [ours.inverse_dynamics(q, v, vd + unit) - before for unit in np.eye(model.nv)]
    scale = force_scale(ours, q, v, vd) + largest(ours.mass_matrix(q))
    assert_close(ours.mass_matrix(q), np.array(columns).T, ALGEBRA, scale)


@HYBRIDS
@some
@given(models(), seeds, any_water)
def test_hybrid_dynamics_reduces_to_both_ends(hybrid, model, seed, sea):
    """All forces known: forward dynamics. All accelerations known: inverse dynamics."""
    model = immersed(model, seed)
    q, v, vd, tau = state(model, seed)
    ours = OnFloats(model, GRAVITY, SEAS[sea].water)
    nothing, external = np.full(model.nv, np.nan), ours.external(q, v)
    scale = solve_scale(ours, q, v, tau)
    given = *lists(q, v, tau, nothing), [False] * model.nv, GRAVITY, external
    rates, forces = hybrid(ours.plan, *given)
    assert_close(rates, ours.forward_dynamics(q, v, tau), SOLVE, scale)
    assert np.array_equal(forces, tau)
    given = *lists(q, v, nothing, vd), [True] * model.nv, GRAVITY, external
    rates, forces = hybrid(ours.plan, *given)
    assert np.array_equal(rates, vd)
    scale = force_scale(ours, q, v, vd)
    assert_close(forces, ours.inverse_dynamics(q, v, vd), ALGEBRA, scale)


@HYBRIDS
@some
@given(models(), seeds, any_water)
def test_hybrid_dynamics_satisfies_the_equation_of_motion(hybrid, model, seed, sea):
    """Any mixture: the answer's forces are those of its accelerations."""
    model = immersed(model, seed)
    q, v, vd, tau = state(model, seed)
    known = np.random.default_rng(seed).integers(0, 2, model.nv).astype(bool)
    ours = OnFloats(model, GRAVITY, SEAS[sea].water)
    given = *lists(q, v, tau, vd), known.tolist(), GRAVITY, ours.external(q, v)
    rates, forces = map(np.array, hybrid(ours.plan, *given))
    part = ours.mass_matrix(q)[np.ix_(~known, ~known)]
    condition = np.linalg.cond(part) if part.size else 1.0
    scale = force_scale(ours, q, v, rates) * condition
    assert_close(ours.inverse_dynamics(q, v, rates), forces, SOLVE, scale)


@some
@given(models(root=("free", "revolute")), seeds, any_water)
def test_floating_base_is_a_free_joint_without_force(model, seed, sea):
    """The base moves as forward dynamics says, under the joint forces found."""
    model = immersed(model, seed)
    q, v, vd, _ = state(model, seed)
    ours = OnFloats(model, GRAVITY, SEAS[sea].water)
    given = *lists(q, v, vd), GRAVITY, ours.external(q, v)
    rates, forces = map(np.array, floating_rnea(ours.plan, *given))
    base = np.zeros(model.nv, dtype=bool)
    for body in ours.plan.bodies:
        base[body.v] = is_floating_base(body)
    assert np.array_equal(rates[~base], vd[~base])
    assert np.array_equal(forces[base], np.zeros(base.sum()))
    scale = solve_scale(ours, q, v, forces)
    assert_close(ours.forward_dynamics(q, v, forces), rates, SOLVE, scale)


@some
@given(models(), seeds)
def test_energy_rate_is_the_power_of_joint_forces_and_drag_in_still_water(model, seed):
    """d(T + U)/dt = tau . v + power of drag, T with what the water carries, U with buoyancy."""
    model = immersed(model, seed)
    smooth = without_drag(model)
    q, v, _, tau = state(model, seed)
    water = SEAS["still"].water
    ours = OnFloats(model, GRAVITY, water)
    vd = ours.forward_dynamics(q, v, tau)
    rest = 0.0 * vd
    without = OnFloats(smooth, GRAVITY, water).inverse_dynamics(q, v, rest)
    resistance = without - ours.inverse_dynamics(q, v, rest)
    h = DIFFERENCE_STEP / largest(v) / np.sqrt(largest(vd))

    def energy(t):
        at, speed = model.integrate(q, t * v + 0.5 * t * t * vd), v + t * vd
        return ours.kinetic_energy(at, speed) + ours.potential_energy(at)

    rate = (energy(h) - energy(-h)) / (2.0 * h)
    terms = [
        np.abs(tau) @ np.abs(v),
        np.abs(resistance) @ np.abs(v),
        np.abs(v) @ np.abs(ours.mass_matrix(q)) @ np.abs(vd),
        ours.kinetic_energy(q, v) * largest(v),
        abs(ours.potential_energy(q)),
    ]
    # rounding of the energies themselves is divided by the step
    scale = max(1.0, *terms) / min(1.0, h / DIFFERENCE_STEP)
    assert abs(rate - (tau + resistance) @ v) <= DIFFERENCE * scale


@some
@given(models(root=("free",), kinds=("revolute", "prismatic", "screw", "fixed")), seeds)
def test_uniform_current_is_a_change_of_inertial_frame(model, seed):
    """Seen from water that moves steadily, a floating robot is in still water."""
    model = immersed(model, seed)
    q, v, _, tau = state(model, seed)
    stream = np.array(SEAS["stream"].water.current)
    moved, turning = v.copy(), np.zeros(model.nv)
    for body in model.bodies:
        if body.joint.kind == "free":
            part = model.slice(body.joint.name, of="v")
            along = absolute.frame_pose(model, q, body.name)[:3, :3].T @ stream
            moved[part][3:] -= along
            # the stream turns, seen from the body
            turning[part][3:] = -np.cross(v[part][:3], along)
    ours = OnFloats(model, GRAVITY, SEAS["stream"].water)
    still = OnFloats(model, GRAVITY, SEAS["still"].water)
    scale = solve_scale(ours, q, v, tau)
    found = still.forward_dynamics(q, moved, tau) + turning
    assert_close(found, ours.forward_dynamics(q, v, tau), SOLVE, scale)
