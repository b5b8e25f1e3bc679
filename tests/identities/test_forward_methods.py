"""Five ways to forward dynamics agree; hybrid dynamics joins forward and inverse dynamics."""

import numpy as np
import pytest
from hypothesis import given, settings

import tiburon as tb
from tests.oracles import through_inverse_dynamics as through
from tests.robots import ROBOTS, kicked
from tests.running import OnFloats
from tests.strategies import GRAVITY, models, seeds, state
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tiburon.algorithms.floating_base import floating_rnea, is_floating_base
from tiburon.algorithms.hybrid import hybrid_aba, hybrid_crba
from tiburon.algorithms.joint_space import expanded_parents, forward_by_mass_matrix
from tiburon.algorithms.setting import forces_on_bodies

NO_GRAVITY = (0.0, 0.0, 0.0)
WORLD = tb.World(gravity=GRAVITY)
HYBRIDS = pytest.mark.parametrize("hybrid", [hybrid_aba, hybrid_crba], ids=lambda f: f.__name__)
few = settings(max_examples=50)


def largest(x):
    return max(1.0, float(np.abs(x).max(initial=0.0)))


def lists(*arrays):
    return [array.tolist() for array in arrays]


def solve_scale(H, *right):
    """Return how large a solution of H x = right may be, times what solving may lose."""
    sizes = [largest(np.linalg.solve(H, x)) for x in right]
    return max(sizes) * np.linalg.cond(H)


@few
@given(models(), seeds)
def test_five_forward_dynamics_methods_agree(model, seed):
    """Articulated bodies, composite bodies, and three methods through inverse dynamics."""
    q, v, _, tau = state(model, seed)
    ours, falling = OnFloats(model, GRAVITY), OnFloats(model, NO_GRAVITY)
    rest = np.zeros(model.nv)

    def bias(q, v):
        return ours.inverse_dynamics(q, v, rest)

    def product(q, u):
        return falling.inverse_dynamics(q, rest, u)

    expected = ours.forward_dynamics(q, v, tau)
    H = ours.mass_matrix(q)
    scale = solve_scale(H, tau, bias(q, v))
    composite = forward_by_mass_matrix(model.plan, *lists(q, v, tau), GRAVITY)
    assert_close(composite, expected, SOLVE, scale)
    for method in (through.accelerations_by_columns, through.accelerations_by_lower_triangle):
        assert_close(method(bias, product, q, v, tau), expected, SOLVE, scale)
    found, products = through.accelerations_without_matrix(bias, product, q, v, tau)
    assert products <= model.nv
    assert_close(found, expected, SOLVE, scale)


@pytest.mark.parametrize("name", ROBOTS)
def test_native_methods_agree_under_external_forces(name):
    """The two methods users can select, as machine code, with a force on the last body."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 41, (5,))
    wrench = {model.body_names[-1]: np.random.default_rng(42).standard_normal(6)}
    options = {"world": WORLD, "external_force": wrench}
    one = tb.forward_dynamics(model, q, v, tau, method="articulated", **options)
    other = tb.forward_dynamics(model, q, v, tau, method="composite", **options)
    H, bias = tb.mass_matrix(model, q), tb.bias_force(model, q, v, **options)
    for case in range(5):
        assert_close(other[case], one[case], SOLVE, solve_scale(H[case], tau[case], bias[case]))


@HYBRIDS
@few
@given(models(), seeds)
def test_hybrid_dynamics_reduces_to_both_ends(hybrid, model, seed):
    """All forces known: forward dynamics. All accelerations known: inverse dynamics."""
    q, v, vd, tau = state(model, seed)
    ours = OnFloats(model, GRAVITY)
    nothing = np.full(model.nv, np.nan)
    H, bias = ours.mass_matrix(q), ours.inverse_dynamics(q, v, 0.0 * vd)
    # what is not known is not read: NaN would spread
    plan = model.plan
    rates, forces = hybrid(plan, *lists(q, v, tau, nothing), [False] * model.nv, GRAVITY)
    assert_close(rates, ours.forward_dynamics(q, v, tau), SOLVE, solve_scale(H, tau, bias))
    assert np.array_equal(forces, tau)
    rates, forces = hybrid(plan, *lists(q, v, nothing, vd), [True] * model.nv, GRAVITY)
    assert np.array_equal(rates, vd)
    scale = largest(np.abs(H) @ np.abs(vd) + np.abs(bias))
    assert_close(forces, ours.inverse_dynamics(q, v, vd), ALGEBRA, scale)


@HYBRIDS
@few
@given(models(), seeds)
def test_hybrid_dynamics_satisfies_the_equation_of_motion(hybrid, model, seed):
    """Any mixture, also inside one joint: the answer's forces are those of its accelerations."""
    q, v, vd, tau = state(model, seed)
    rng = np.random.default_rng(seed)
    known = rng.integers(0, 2, model.nv).astype(bool)
    external = {"tip": rng.standard_normal(6), "body0": rng.standard_normal(6)}
    outside = forces_on_bodies(model.plan, q.tolist(), external, "frame")
    rates, forces = hybrid(model.plan, *lists(q, v, tau, vd), known.tolist(), GRAVITY, outside)
    assert np.array_equal(np.array(rates)[known], vd[known])
    assert np.array_equal(np.array(forces)[~known], tau[~known])
    ours = OnFloats(model, GRAVITY)
    H, bias = ours.mass_matrix(q), ours.inverse_dynamics(q, v, 0.0 * vd, external)
    # rounding of the accelerations found comes back as force, magnified by their conditioning
    part = H[np.ix_(~known, ~known)]
    condition = np.linalg.cond(part) if part.size else 1.0
    scale = largest(np.abs(H) @ np.abs(rates) + np.abs(bias)) * condition
    assert_close(ours.inverse_dynamics(q, v, np.array(rates), external), forces, SOLVE, scale)


@few
@given(models(root=("free", "revolute")), seeds)
def test_floating_base_inverse_dynamics_equals_a_free_joint_without_force(model, seed):
    """The base moves as forward dynamics says, under the joint forces found (trap T11: gravity)."""
    q, v, vd, _ = state(model, seed)
    external = {"tip": np.random.default_rng(seed).standard_normal(6)}
    outside = forces_on_bodies(model.plan, q.tolist(), external, "frame")
    rates, forces = floating_rnea(model.plan, *lists(q, v, vd), GRAVITY, outside)
    rates, forces = np.array(rates), np.array(forces)
    base = np.zeros(model.nv, dtype=bool)
    for body in model.plan.bodies:
        base[body.v] = is_floating_base(body)
    assert np.array_equal(rates[~base], vd[~base])
    assert np.array_equal(forces[base], np.zeros(base.sum()))
    ours = OnFloats(model, GRAVITY)
    H, bias = ours.mass_matrix(q), ours.inverse_dynamics(q, v, 0.0 * vd, external)
    scale = solve_scale(H, forces, bias)
    assert_close(ours.forward_dynamics(q, v, forces, external), rates, SOLVE, scale)
    same, again = hybrid_aba(
        model.plan, *lists(q, v, 0.0 * v, vd), (~base).tolist(), GRAVITY, outside
    )
    assert_close(same, rates, SOLVE, scale)
    assert_close(again, forces, SOLVE, scale * largest(H))


@given(models(), seeds)
def test_mass_matrix_is_zero_off_the_branches_of_the_degree_of_freedom_tree(model, seed):
    """Only a freedom and one it hangs on share an entry: what the factorization relies on."""
    q, *_ = state(model, seed)
    H = OnFloats(model).mass_matrix(q)
    parents = expanded_parents(model.plan)
    assert len(parents) == model.nv
    related = np.eye(model.nv, dtype=bool)
    for row, parent in enumerate(parents):
        assert parent < row
        if parent >= 0:
            related[row] |= related[parent]
    assert not H[~(related | related.T)].any()
