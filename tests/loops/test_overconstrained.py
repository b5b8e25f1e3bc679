"""Overconstrained linkages: redundant constraints stay redundant off the constraint manifold.

Every integrator conserves energy to its order. Rounded lengths and axes make constraints nearly
redundant.
"""

import re

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.loops.overconstrained import BENNETTS, LINKAGES, bennett, moving
from tests.loops.test_methods import motion
from tiburon.loops.augmented import loop_pattern
from tiburon.simulation.integrators.methods import METHODS

SPACE = tb.World(gravity=(0.0, 0.0, 0.0))

NAMES = [
    pytest.param(
        name, marks=pytest.mark.slow if re.match(r"random .* 4|bennett [3-9]", name) else ()
    )
    for name in LINKAGES
]
"""Linkages, each family at least once in quick tests."""

OFFSETS = 10.0 ** np.arange(-12.0, -3.5, 1.5)
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


@pytest.mark.parametrize("name", NAMES)
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
    off = {"closure": False}
    vd = tb.forward_dynamics(model, near, v, zero, world=SPACE, **off)
    first = model.joints[0].name
    forces = tb.loop_inverse_dynamics(model, near, v, vd, actuators=first, **off)
    assert_continuous(forces.tau)
    assert_continuous(forces.constraint_force)
    wanted = np.zeros_like(vd)
    wanted[:, 0] = 0.3
    hybrid = tb.hybrid_dynamics(model, near, v, zero, wanted, known_acceleration=[first], **off)
    for part in hybrid:
        assert_continuous(part)
    changes = tb.forward_dynamics_derivatives(model, near, v, zero, world=SPACE, **off)
    # derivatives along the loops; across them constraints may take any sense
    assert_continuous(changes.by_tau)
    assert_continuous(changes.by_v)
    felt = tb.apparent_inertia(model, near, "link 2", **off)
    assert np.all(felt.rank == 1)
    assert_continuous(felt.inverse)
    assert_continuous(felt.inertia)


@pytest.mark.parametrize("name", NAMES)
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
    run = tb.simulate(
        model,
        duration,
        q=q,
        v=v,
        world=SPACE,
        method=integrator(method, dt=dt, adaptive=False),
    )
    assert run.outcome.status == "finished", run.outcome
    energies = kinetic_energies(model, run)
    return np.abs(energies / energies[0] - 1.0).max()


@pytest.mark.parametrize("name", ["bennett 1"])
def test_runs_conserve_energy(name):
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
    count = 17
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
def test_angles_out_of_range_are_reported_as_positions(name):
    """Not on the mass matrix or the actuators, whose conditions no NaN meets."""
    model = tb.load(name)
    q = np.array(model.poses.get("home", model.neutral()))
    q[0] = 3e8
    zero = np.zeros(model.nv)
    for call in (tb.forward_dynamics, tb.inverse_dynamics, tb.loop_dynamics):
        with pytest.raises(tb.DomainError, match=r"angles are limited to 1e\+08 rad.*depends on q"):
            call(model, q, zero, zero)


# -- every integrator ------------------------------------------------------------------------------


ROUNDING = 1e-11
"""Relative energy that a thousand steps may lose by rounding."""


@pytest.mark.slow
@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("name", LINKAGES)
def test_energy_error_has_the_order_of_the_method(name, method):
    model, q = LINKAGES[name]()
    v = moving(model, q)
    fine = drift(model, q, v, method, 1e-3)
    if np.abs(v).max() > 10.0:
        # 0.2 rad per step of 10 ms: too long for blocks of steps, which then diverge and say so
        assert METHODS[method].order < 3 or fine < 1e-4
        return
    coarse = drift(model, q, v, method, 1e-2)
    # lengths of some meters and rates of some rad/s: 1 at order 1, where 10 ms are long
    assert coarse < (0.3 if METHODS[method].order == 1 else 1e-4)
    # a tenth of the step; half an order for what is not yet asymptotic
    assert fine <= 10.0 ** (0.5 - METHODS[method].order) * coarse + ROUNDING


# -- nearly redundant constraints ------------------------------------------------------------------


DIGITS = 6

PROMISE = "nearly redundant: these constraints disagree by "


def rounded(name, digits=DIGITS):
    """Return a linkage with rounded numbers, as closed as it can be, and its velocity."""
    model, q = LINKAGES[name](digits=digits)
    q = tb.project_configuration(model, q).q
    return model, q, moving(model, q)


def refusal(model, q, v):
    with pytest.raises(tb.LoopError, match=PROMISE) as caught:
        tb.simulate(model, 0.1, q=q, v=v, world=SPACE)
    return caught.value


def test_the_message_names_constraints_and_a_tolerance():
    model, q, v = rounded("bennett 1")
    error = refusal(model, q, v)
    assert re.fullmatch(
        r"model 'bennett': nearly redundant: these constraints disagree by 1.2e-07 m or rad: "
        r"last: offset along x by 1.2e-07, .* and 1 more; give lengths and axes with more digits, "
        r"or accept it with redundancy_tolerance=1e-06 \(mobility, simulate\) or tolerance=1e-06 "
        r"\(assemble\)",
        str(error),
    )
    assert error.residuals["last"] == pytest.approx(1.2e-7, rel=0.01)
    with pytest.raises(tb.LoopError, match=PROMISE):
        tb.assemble(model, q)


def check_accepted(name):
    model, q, v = rounded(name)
    if name == "sarrus":
        # its parallel axes are rounded alike, and stay parallel
        tolerance, allowed = 0.0, 1e-8
    else:
        error = str(refusal(model, q, v))
        assert float(re.search(r"disagree by (\S+) m", error)[1]) < 1e-5
        tolerance = float(re.search(r"redundancy_tolerance=(\S+) ", error)[1])
        if name == "plane-symmetric bricard":
            # at 19 rad/s it comes far, and to where its constraints disagree by more
            run = tb.simulate(
                model,
                1.0,
                q=q,
                v=v,
                world=SPACE,
                loops=tb.Projection(redundancy_tolerance=tolerance),
            )
            assert "take a redundancy_tolerance above 1e-06, a smaller dt" in run.outcome.message
            tolerance = 1e-4
        allowed = max(1e-8, tolerance)
        assert tolerance <= 1e-4
    found = tb.mobility(model, q, redundancy_tolerance=tolerance)
    assert found.mobility == found.regular_mobility == 1
    run = tb.simulate(
        model, 1.0, q=q, v=v, world=SPACE, loops=tb.Projection(redundancy_tolerance=tolerance)
    )
    assert run.outcome.status == "finished", run.outcome
    assert np.abs(tb.constraint_residual(model, run.q)).max() <= allowed
    energies = kinetic_energies(model, run)
    # directions of constraints that disagree are known to the tolerance over singular values
    assert np.abs(energies / energies[0] - 1.0).max() < 10.0 * allowed
    if not name.startswith(("bennett", "myard")):
        # others are turned before they are rounded, and their inertia is not
        return
    exact, start = LINKAGES[name]()
    expected = tb.simulate(exact, 1.0, q=start, v=moving(exact, start), world=SPACE)
    # the same motion, up to what lengths and axes differ by
    assert np.abs(run.q[-1] - expected.q[-1]).max() < 1e-4


def test_a_rounded_linkage_moves_within_its_tolerance():
    check_accepted("bennett 1")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LINKAGES if name != "bennett 1"])
def test_rounded_linkages_move_within_their_tolerance(name):
    check_accepted(name)


@pytest.mark.slow
def test_a_linkage_with_four_digits():
    model, q, v = rounded("bennett 2", digits=4)
    assert "redundancy_tolerance=1e-05 " in str(refusal(model, q, v))
    run = tb.simulate(
        model, 0.2, q=q, v=v, world=SPACE, loops=tb.Projection(redundancy_tolerance=1e-5)
    )
    assert run.outcome.status == "finished"
    energies = kinetic_energies(model, run)
    assert np.abs(energies / energies[0] - 1.0).max() < 1e-4


def test_open_loops_and_singular_poses_are_not_redundancy():
    """Those of a four-bar with a bar too short, and of one a little beside its singular pose."""
    model, q = bennett(*BENNETTS[0])
    with pytest.raises(tb.DomainError, match="loop 'last' open by"):
        tb.simulate(model, 0.1, q=q + np.array([0.0, 0.1, 0.0]))
    row = tb.load("n_four_bar_2")
    branch = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    for distance in (1e-3, 1e-5, 1e-7):
        q = (np.pi / 2 - distance) * branch
        assert tb.simulate(row, 0.01, q=q, v=0.7 * branch).outcome.ok


def test_wrong_tolerances_are_refused():
    model, q = bennett(*BENNETTS[0])
    text = r"redundancy_tolerance: expected a value from 0 to 0.01, got (-1|0.5|nan|'1e-6'|None)"
    for wrong in (-1.0, 0.5, float("nan"), "1e-6", None):
        with pytest.raises(tb.DomainError, match=text):
            tb.simulate(model, 0.1, q=q, loops=tb.Projection(redundancy_tolerance=wrong))
        with pytest.raises(tb.DomainError, match=text):
            tb.mobility(model, q, redundancy_tolerance=wrong)
    with pytest.raises(tb.ModelError, match=r"loops=Projection.* is for robots with loops"):
        tb.simulate(tb.load("pendulum"), 0.1, loops=tb.Projection(redundancy_tolerance=1e-6))
