"""Overconstrained linkages: redundant constraints stay redundant off the constraint manifold.

Stages of an integrator, and states that are known to some digits, lie off the manifold; there a
redundant constraint is independent by as much as they are off, in a direction that means nothing.
"""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.overconstrained import BENNETTS, LINKAGES, bennett, moving
from tests.loops.test_methods import motion
from tiburon.loops.elimination import loop_pattern

SPACE = tb.World(gravity=(0.0, 0.0, 0.0))

OFFSETS = 10.0 ** np.arange(-12.0, -3.5)
"""Distances from the manifold [rad]."""


def beside(model, q, seed=3):
    """Return closed and open positions: q, and q moved off by each of `OFFSETS`."""
    along = np.random.default_rng(seed).standard_normal(model.nv)
    along /= np.abs(along).max()
    return np.vstack([q, q + OFFSETS[:, None] * along])


def assert_continuous(values, factor=100.0):
    """Values off the manifold differ from those on it by their distance times some factor.

    The factor stands for curvature over lengths of links, and for accelerations of some rad/s^2;
    a constraint too many changes them by a tenth and more at any distance.
    """
    values = np.asarray(values)
    scale = 1.0 + np.abs(values[0]).max()
    off = np.abs(values[1:] - values[0]).reshape(len(OFFSETS), -1).max(axis=1)
    assert np.all(off <= factor * scale * (OFFSETS + 1e-12)), off


@pytest.mark.parametrize("name", LINKAGES)
def test_accelerations_are_continuous_off_the_manifold(name):
    model, q = LINKAGES[name]()
    near, v = beside(model, q), moving(model, q)
    tau = np.linspace(-1.0, 1.0, model.nv)
    reference = None
    for method in ("augmented", "handles", "proximal"):
        found = [motion(model, at, v, tau, method) for at in near]
        accelerations = np.array([one.vd for one in found])
        if method == "proximal":
            # as good as one pass of its own, and decides no rank
            scale = 1.0 + np.abs(reference[0]).max()
            off = np.abs(accelerations - reference).max(axis=1)
            assert np.all(off <= scale * (1e-7 + 100.0 * np.append(0.0, OFFSETS))), off
            continue
        assert_continuous(accelerations)
        assert_continuous([one.multipliers for one in found])
        assert all(one.rank == model.nv - 1 for one in found)
        reference = accelerations


def test_a_bennett_linkage_beside_its_manifold():
    """The acceleration of the first joint was 0.128 rad/s^2 with a redundant constraint kept."""
    model, q = bennett(*BENNETTS[0])
    near = q + 1e-8 * np.array([0.0, 1.0, 0.0])
    found = tb.forward_dynamics(model, near, moving(model, q), np.zeros(3), world=SPACE)
    assert abs(found[0] + 0.01884) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bennett 2", "sarrus"])
def test_all_that_decides_a_rank_is_continuous_off_the_manifold(name):
    model, q = LINKAGES[name]()
    near, v = beside(model, q), moving(model, q)
    zero = np.zeros(model.nv)
    vd = tb.forward_dynamics(model, near, v, zero, world=SPACE)
    first = model.joints[0].name
    forces = tb.loop_inverse_dynamics(model, near, v, vd, actuators=first)
    assert_continuous(forces.tau)
    assert_continuous(forces.constraint_force)
    wanted = np.zeros_like(vd)
    wanted[:, 0] = 0.3
    hybrid = tb.hybrid_dynamics(model, near, v, zero, wanted, known_acceleration=[first])
    for part in hybrid:
        assert_continuous(part)
    changes = tb.forward_dynamics_derivatives(model, near, v, zero, world=SPACE)
    # derivatives along the loops; across them constraints may take any sense
    assert_continuous(changes.by_tau)
    assert_continuous(changes.by_v)
    felt = tb.apparent_inertia(model, near, "link 2")
    assert np.all(felt.rank == 1)
    assert_continuous(felt.inverse)
    assert_continuous(felt.inertia)


@pytest.mark.parametrize("name", LINKAGES)
def test_mobility_is_the_same_beside_the_manifold(name):
    model, q = LINKAGES[name]()
    for at in beside(model, q):
        found = tb.mobility(model, at)
        assert found.mobility == 1
        assert found.regular_mobility == 1
        assert len(found.redundant) == found.equations - (model.nv - 1)
        assert tb.connectivity(model, model.bodies[0].name, model.bodies[1].name, at) == 1


def kinetic_energies(model, run):
    return np.asarray(tb.kinetic_energy(model.without_loops(), run.q, run.v))


def drift(model, q, v, method, dt, duration=1.0):
    """Return the largest relative change of the kinetic energy of a run without forces."""
    run = tb.simulate(model, duration, q=q, v=v, world=SPACE, method=method, dt=dt, adaptive=False)
    assert run.outcome.status == "finished", run.outcome
    energies = kinetic_energies(model, run)
    return np.abs(energies / energies[0] - 1.0).max()


@pytest.mark.parametrize("name", ["bennett 1"])
def test_runs_keep_energy(name):
    """Without forces: rounding at 1 ms, and some h^5 of motions of 1 rad/s at 10 ms."""
    model, q = LINKAGES[name]()
    v = moving(model, q)
    assert drift(model, q, v, "rk4", 1e-3) < 1e-13
    assert drift(model, q, v, "rk4", 1e-2) < 1e-11


@pytest.mark.slow
def test_fast_motion_with_long_steps():
    """Joints at 19 rad/s take 0.2 rad per step: stages are off by some 1e-3 rad."""
    model, q = LINKAGES["plane-symmetric bricard"]()
    v = moving(model, q)
    assert np.abs(v).max() > 18.0
    assert drift(model, q, v, "rk4", 1e-2) < 2e-3


def many_bennetts(count):
    """Bennett linkages side by side, too many for a factorization with pivoting."""
    bodies, loops, positions = [], [], []
    for k in range(count):
        model, q = bennett(*BENNETTS[k % 4])
        names = {body.name: f"{body.name} of {k}" for body in model.bodies}
        for body in model.bodies:
            joint = tb.Revolute(f"{body.joint.name} of {k}", pose=body.joint.pose)
            parent = names.get(body.parent, "world")
            bodies.append(tb.Body(names[body.name], parent, joint=joint, inertia=body.inertia))
        (loop,) = model.loops
        joint = tb.Revolute(f"last of {k}", pose=loop.joint.pose)
        loops.append(
            tb.LoopClosure(f"last of {k}", names[loop.first], "world", joint, loop.second_pose)
        )
        positions.append(q)
    return tb.Model("many bennetts", bodies, loops=loops), np.concatenate(positions)


def test_large_mechanisms_leave_redundant_constraints_out_off_the_manifold():
    count = 20
    model, q = many_bennetts(count)
    assert loop_pattern(model).is_large
    v = np.concatenate([moving(*bennett(*BENNETTS[k % 4])) for k in range(count)])
    zero, still = np.zeros(model.nv), (0.0, 0.0, 0.0)
    near = beside(model, q)
    found = [motion(model, at, v, zero, "augmented", still) for at in near]
    assert all(one.rank == 2 * count for one in found)
    assert_continuous([one.vd for one in found])
    assert_continuous([one.multipliers for one in found])
    expected = motion(model, q, v, zero, "handles", still)
    np.testing.assert_allclose(found[0].vd, expected.vd, atol=1e-9)
    np.testing.assert_allclose(found[0].multipliers, expected.multipliers, atol=1e-9)


@pytest.mark.parametrize("name", ["four_bar", "planar_3rrr", "bricard"])
def test_angles_out_of_range_are_blamed_on_the_position(name):
    """Not on the mass matrix or the actuators, whose conditions no NaN meets."""
    model = tb.load(name)
    q = np.array(model.poses.get("home", model.neutral()))
    q[0] = 3e8
    zero = np.zeros(model.nv)
    for call in (tb.forward_dynamics, tb.inverse_dynamics, tb.loop_dynamics):
        with pytest.raises(tb.DomainError, match=r"angles are limited to 1e\+08 rad.*depends on q"):
            call(model, q, zero, zero)
