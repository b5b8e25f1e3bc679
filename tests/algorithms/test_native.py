"""Machine code against the interpreter, on every robot of the fixed list."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import GENERAL
from tests.oracles import absolute
from tests.robots import ROBOTS, kicked
from tests.running import Interpreted
from tests.tolerances import SOLVE, assert_close

CASES = 11  # no multiple of any lane width

FUSED = 1e-13
"""Machine code fuses products into sums and shares reciprocals, so it rounds otherwise than the
interpreter, by a few units of 2e-16 per operation, in sums of a few hundred terms."""

WORLD = tb.World(gravity=(0.5, -1.0, -9.0))

over_robots = pytest.mark.parametrize("name", ROBOTS)


def test_list_of_robots_covers_all_joint_kinds():
    """At least twelve robots, of every joint kind."""
    assert len(ROBOTS) >= 12
    kinds = {joint.kind for model in ROBOTS.values() for joint in model.joints}
    assert kinds == {"revolute", "prismatic", "fixed", "free", *GENERAL}


@over_robots
def test_native_dynamics_equal_the_interpreter(name):
    """Forward and inverse dynamics, mass matrix: the same graph, two ways to run it."""
    model = ROBOTS[name]
    q, v, x = kicked(model, 31, (CASES,))
    other = Interpreted(model, WORLD.gravity)
    H = tb.mass_matrix(model, q)
    assert_close(H, other.mass_matrix(q), FUSED)
    tau = tb.inverse_dynamics(model, q, v, x, world=WORLD)
    bias = other.inverse_dynamics(q, v, 0.0 * x)
    # the terms that are added up are larger than their sum
    scale = np.abs(H) @ np.abs(x)[..., None] + np.abs(bias)[..., None] + 1.0
    assert_close(tau, other.inverse_dynamics(q, v, x), FUSED, float(scale.max()))
    vd = tb.forward_dynamics(model, q, v, x, world=WORLD)
    expected = other.forward_dynamics(q, v, x)
    error = np.abs(vd - expected).max(axis=-1)
    allowed = SOLVE * np.linalg.cond(H) * np.maximum(1.0, np.abs(expected).max(axis=-1))
    assert (error <= allowed).all()


@pytest.mark.parametrize("name", ["forest", "orrery", "rover", "welded"])
def test_native_energy_and_kinematics_equal_the_interpreter(name):
    """Energies, and places of all frames."""
    model = ROBOTS[name]
    q, v, _ = kicked(model, 32, (CASES,))
    other = Interpreted(model, WORLD.gravity)
    assert_close(tb.kinetic_energy(model, q, v), other.kinetic_energy(q, v), FUSED)
    scale = 10.0 * max(1.0, model.total_mass)
    potential = tb.potential_energy(model, q, world=WORLD)
    assert_close(potential, other.potential_energy(q), FUSED, scale)
    for ours, theirs in zip(
        tb.forward_kinematics(model, q), other.run("forward_kinematics", (q,)), strict=True
    ):
        assert_close(ours, theirs, FUSED)


@over_robots
def test_single_calls_equal_rows_of_a_batch_in_bits(name):
    """A state gives the same bits alone and anywhere in a batch."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 33, (CASES,))
    batch = tb.forward_dynamics(model, q, v, tau)
    rows = [tb.forward_dynamics(model, *row) for row in zip(q, v, tau, strict=True)]
    assert np.array_equal(batch, rows)
    shifted = tb.forward_dynamics(model, q[1:], v[1:], tau[1:])
    assert np.array_equal(batch[1:], shifted)


@pytest.mark.parametrize("name", ["balloon", "rover", "welded"])
def test_native_forward_dynamics_inverts_native_inverse_dynamics(name):
    """FD(ID(vd)) = vd in machine code."""
    model = ROBOTS[name]
    q, v, vd = kicked(model, 34)
    tau = tb.inverse_dynamics(model, q, v, vd)
    H = tb.mass_matrix(model, q)
    scale = max(1.0, np.abs(np.linalg.solve(H, tau)).max()) * np.linalg.cond(H)
    assert_close(tb.forward_dynamics(model, q, v, tau), vd, SOLVE, scale)


@pytest.mark.parametrize("axes", ["frame", "world"])
@pytest.mark.parametrize("name", ["gantry", "welded", "forest", "rover"])
def test_native_external_forces_equal_the_dense_oracle(name, axes):
    """Forces on a frame, native, against world coordinates."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 35)
    external = {"tip": np.random.default_rng(36).standard_normal(6)}
    options = {"world": WORLD, "external_force": external, "external_axes": axes}
    expected = absolute.aba(model, q, v, tau, WORLD.gravity, external, axes)
    scale = max(1.0, np.abs(expected).max()) * np.linalg.cond(absolute.crba(model, q))
    assert_close(tb.forward_dynamics(model, q, v, tau, **options), expected, SOLVE, scale)
    expected = absolute.rnea(model, q, v, tau, WORLD.gravity, external, axes)
    assert_close(tb.inverse_dynamics(model, q, v, tau, **options), expected)
