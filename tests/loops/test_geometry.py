"""Geometry by name in closed chains: constraints, dynamics, starts and runs of robots with it."""

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.random_mechanisms import random_mechanism

SLOW = pytest.mark.slow
ROBOTS = [
    "four_bar",
    "rolling_disc",
    "stewart",
    *(pytest.param(name, marks=SLOW) for name in ("delta", "planar_3rrr", "two_pumas")),
]


def geometry(model):
    return [name for name in tb.parameters(model) if name.endswith((".translation", ".rotation"))]


def values_of(model, names, rng, size=0.02, lead=()):
    known = tb.parameters(model)
    return {n: np.array(known[n].value) + rng.uniform(-size, size, (*lead, 3)) for n in names}


def state(model, rng):
    q = model.normalize(np.array(model.poses.get("home", model.neutral())))
    return q, *rng.standard_normal((2, model.nv))


def close(found, expected, rounding):
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=rounding * max(1.0, np.abs(y).max()))


@pytest.mark.parametrize("name", ROBOTS)
@interpreting()
def test_constraints_and_dynamics_are_those_of_a_robot_built_with_the_geometry(name):
    """Also of planar robots that other geometry makes spatial: nothing is left out as zero."""
    rng = np.random.default_rng(0)
    model = tb.load(name)
    names = geometry(model)
    assert any(word.split(".")[-2] == "second" for word in names)
    own = {n: np.array(tb.parameters(model)[n].value) for n in names}
    others = values_of(model, names, rng)
    functions = [tb.constraint_residual, tb.loop_jacobian, tb.forward_dynamics]
    given = state(model, rng)
    # the same equations in any state, also with open loops
    kernel = tb.compile(functions, model, closure=False, parameters=names)
    plain = tb.compile(functions, model, closure=False)
    close(kernel(*given, parameters=own), plain(*given), 1e-13)
    built = tb.compile(functions, tb.with_parameters(model, others), closure=False)
    close(kernel(*given, parameters=others), built(*given), 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["spatial", "tied", "floating"])
def test_random_mechanisms_of_other_geometry(kind, seed):
    """Closed for the new geometry, with velocities that keep them so."""
    rng = np.random.default_rng(seed)
    model, q = random_mechanism(kind, rng)
    others = values_of(model, geometry(model), rng)
    built = tb.with_parameters(model, others)
    q = tb.project_configuration(model, q, parameters=others).q
    assert np.abs(tb.constraint_residual(built, q)).max() < 1e-11
    v, tau = rng.standard_normal((2, model.nv))
    v = tb.project_velocity(model, q, v, parameters=others)
    found = tb.loop_dynamics(model, q, v, tau, parameters=others)
    expected = tb.loop_dynamics(built, q, v, tau)
    close([found.acceleration], [expected.acceleration], 1e-12)
    assert found.rank == expected.rank


@pytest.mark.parametrize("method", ["handles", "proximal", "star"])
@interpreting()
def test_all_methods_take_geometry(method):
    rng = np.random.default_rng(1)
    model = tb.load("planar_3rrr" if method == "star" else "four_bar")
    known = tb.parameters(model)
    # other lengths of links, which stay within the plane: the loops can be closed
    others = {
        n: np.array(known[n].value) * rng.uniform(0.95, 1.05)
        for n in geometry(model)
        if n.endswith("translation")
    }
    q, v, tau = state(model, rng)
    q = tb.project_configuration(model, q, parameters=others).q
    given = q, tb.project_velocity(model, q, v, parameters=others), tau
    found = tb.loop_dynamics(model, *given, method=method, parameters=others)
    expected = tb.loop_dynamics(tb.with_parameters(model, others), *given, method=method)
    # iterations of "proximal" end at a residual of 1e-12 of the size of accelerations
    rounding = 1e-9 if method == "proximal" else 1e-11
    close([found.acceleration], [expected.acceleration], rounding)


def test_platforms_of_other_geometry_are_closed_and_simulated_case_by_case():
    """Each case starts on its own loops, stays on them, and is the robot built with its values."""
    rng = np.random.default_rng(2)
    model = tb.load("four_bar")
    names = [n for n in geometry(model) if n.endswith("translation")]
    cases = 2
    # longer and shorter links, which stay within the plane
    known = tb.parameters(model)
    values = {n: np.array(known[n].value) * rng.uniform(0.9, 1.1, (cases, 1)) for n in names}
    guess = np.tile(state(model, rng)[0], (cases, 1))
    q = tb.project_configuration(model, guess, parameters=values).q
    assert np.abs(tb.constraint_residual(model, q, parameters=values)).max() < 1e-12
    run = tb.simulate(model, 0.1, q=q, parameters=values, method=tb.RK4(dt=0.005))
    assert run.get("constraint_residual").values.max() < 1e-11
    for k in range(cases):
        built = tb.with_parameters(model, {name: x[k] for name, x in values.items()})
        alone = tb.simulate(built, 0.1, q=q[k], method=tb.RK4(dt=0.005))
        close([run.q[:, k]], [alone.q], 1e-12)
        for quantity in ("constraint_singular_value", "joint_reaction"):
            close([run.get(quantity).values[:, k]], [alone.get(quantity).values], 1e-9)
    with pytest.raises(tb.DomainError, match="expected a position with closed loops"):
        tb.simulate(model, 0.1, q=guess, parameters=values, method=tb.RK4(dt=0.005))
