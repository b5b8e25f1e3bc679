"""Modes with springs, damping, stops, thrusters, motors and controllers, against closed forms."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close

G = 9.81
WEIGHTLESS = tb.World(gravity=(0.0, 0.0, 0.0))


def chain(count, mass, stiffness, damping=0.0, **joint):
    """Masses in a row on a rail, each on a spring to the one before."""
    passive = tb.JointPassive(stiffness=stiffness, damping=damping, **joint)
    bodies = [
        tb.Body(
            f"mass {k}",
            f"mass {k - 1}" if k else "world",
            joint=tb.Prismatic(f"spring {k}", axis=(1, 0, 0), passive=passive),
            inertia=tb.Inertia.point(mass),
        )
        for k in range(count)
    ]
    return tb.Model("chain", bodies)


def test_masses_on_springs():
    """One end fixed, one free: w_j = 2 sqrt(k/m) sin((2 j - 1) pi / (2 (2 n + 1)))."""
    n, m, k = 6, 0.7, 50.0
    found = tb.modes(chain(n, m, k))
    j = np.arange(1, n + 1)
    assert_close(
        found.frequencies, 2.0 * np.sqrt(k / m) * np.sin((2 * j - 1) * np.pi / (4 * n + 2))
    )
    # absolute displacements are sines; ours are relative
    first = np.cumsum(found[0].shape.real)
    sines = np.sin(j * np.pi / (2 * n + 1))
    assert_close(first / first[-1], sines / sines[-1])


@pytest.mark.parametrize("ratio", [0.05, 0.7, 2.5])
def test_a_damped_oscillator(ratio):
    """M x'' + c x' + k x = 0, below and above critical damping."""
    m, k = 1.3, 80.0
    w = np.sqrt(k / m)
    found = tb.modes(chain(1, m, k, 2.0 * ratio * m * w))
    if ratio < 1.0:
        (mode,) = found
        assert mode.natural_frequency == pytest.approx(w, rel=1e-12)
        assert mode.damping_ratio == pytest.approx(ratio, rel=1e-12)
    else:
        root = np.sqrt(ratio**2 - 1.0)
        expected = sorted([-w * (ratio - root), -w * (ratio + root)])
        assert_close(sorted(mode.eigenvalue.real for mode in found), expected)
        assert [mode.kind for mode in found] == ["decay", "decay"]


def test_a_weight_hangs_lower_by_m_g_over_k():
    """The equilibrium under load is found; the frequency does not depend on it."""
    m, k = 2.0, 300.0
    hung = tb.Body(
        "weight",
        joint=tb.Prismatic("spring", axis=(0, 0, 1), passive=tb.JointPassive(stiffness=k)),
        inertia=tb.Inertia.point(m),
    )
    model = tb.Model("hung", [hung])
    found = tb.modes(model)
    assert_close(found.q, [-m * G / k])
    assert_close(found.frequencies, [np.sqrt(k / m)])
    held = tb.modes(model, tau=[m * G])
    assert_close(held.q, [0.0])
    loose = tb.modes(model.without_passive(), tau=[m * G])
    assert len(loose.free) == 1
    assert loose.frequencies.size == 0


def test_coulomb_friction_is_ignored_in_modes():
    """It would lock every small motion: a smooth one has a slope of f over a small speed."""
    plain, rubbing = chain(2, 1.0, 10.0), chain(2, 1.0, 10.0, friction=5.0)
    assert_close(tb.modes(rubbing).frequencies, tb.modes(plain).frequencies)


def cantilever(count, length, stiffness, density):
    """Rigid segments on springs; a hinge stands for the bending half a part to each side."""
    part = length / count
    bodies = []
    for k in range(count):
        # the hinge at the wall has one side only
        spring = stiffness / part * (2.0 if k == 0 else 1.0)
        offset = (0.0, 0.0, 0.0) if k == 0 else (part, 0.0, 0.0)
        mass = density * part
        bodies.append(
            tb.Body(
                f"segment {k}",
                f"segment {k - 1}" if k else "world",
                joint=tb.Revolute(
                    f"bend {k}",
                    axis=(0, 1, 0),
                    pose=tb.Pose(translation=offset),
                    passive=tb.JointPassive(stiffness=spring),
                ),
                inertia=tb.Inertia(
                    mass, (0.5 * part, 0, 0), (1e-9, mass * part**2 / 12, mass * part**2 / 12)
                ),
            )
        )
    return tb.Model("cantilever", bodies)


def test_a_beam_of_rigid_segments_bends_like_a_beam():
    """w_1 = 1.8751^2 sqrt(EI / (rho A L^4)), w_2 = 4.6941^2 ...; error by the square of a part."""
    L, EI, rho = 1.6, 12.0, 0.9
    errors = []
    for count in (8, 16):
        found = tb.modes(cantilever(count, L, EI, rho), world=WEIGHTLESS).frequencies
        exact = np.array([1.8751041, 4.6940911]) ** 2 * np.sqrt(EI / (rho * L**4))
        errors.append(found[:2] / exact - 1.0)
    assert np.abs(errors[1][0]) < 2e-3
    assert np.abs(errors[1][1]) < 1.5e-2
    assert 3.0 < errors[0][0] / errors[1][0] < 5.0


def test_a_controller_closes_the_loop():
    """Unit masses under a traced law k, d have w^2 = k and damping d / (2 w)."""

    @tb.traced
    def law(state):
        return -40.0 * state.q - 6.0 * state.v

    free = chain(1, 1.0, 0.0)
    (mode,) = tb.modes(free, [0.3], control=law)
    assert mode.natural_frequency == pytest.approx(np.sqrt(40.0), rel=1e-12)
    assert mode.damping_ratio == pytest.approx(6.0 / (2.0 * np.sqrt(40.0)), rel=1e-12)
    with pytest.raises(tb.ModelError, match="marked with traced"):
        tb.modes(free, control=lambda state: -state.q)


def vehicle(lag):
    hull = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=tb.Inertia(40.0, (0, 0, -0.05), (1.5, 2.0, 2.5)),
        fluid=tb.BodyFluid(40.0 / 1025.0, linear_damping=(3.0, 4.0, 5.0, 20.0, 30.0, 40.0)),
    )
    screw = tb.Thruster("screw", "hull", (0, 0, 0), (1, 0, 0), time_constant=lag)
    return tb.Model("vehicle", [hull], thrusters=(screw,))


def test_thrusters_held_push_and_lag():
    """Under way at f / D ahead: the lag is one more decay, the hull rights itself as before."""
    sea = tb.Water(1025.0)
    model = vehicle(0.4)
    found = tb.modes(model, v=[0, 0, 0, 0.5, 0, 0], commands={"screw": 10.0}, fluid=sea)
    # thrust 10 N at drag 20 N s/m keeps 0.5 m/s
    assert_close(found.x, [10.0])
    assert np.abs(found.residual).max() < 1e-9
    rates = [mode.eigenvalue for mode in found]
    assert min(abs(rate + 1.0 / 0.4) for rate in rates) < 1e-9
    still = tb.modes(model, fluid=sea)
    assert len(still.free) == 4
    assert len(still.oscillations) == 2
    assert {round(abs(mode.time_constant), 6) for mode in still} >= {0.4}
    lagging = next(m for m in still if abs(m.eigenvalue + 1.0 / 0.4) < 1e-9)
    assert np.abs(lagging.states).max() > 0.0


def test_a_robot_rests_on_its_stop():
    """Stops belong to the equilibrium: a rod that would fall leans on one, and swings stiffly."""
    rod = tb.Body(
        "rod",
        joint=tb.Revolute("hinge", axis=(0, 1, 0), limits=tb.JointLimits(-0.5, 0.5)),
        inertia=tb.Inertia(1.0, (0.0, 0, 0.3), (0.01, 0.01, 0.01)),
    )
    model = tb.Model("rod", [rod])
    found = tb.modes(model, [0.52])
    assert 0.5 < found.q[0] < 0.55
    assert found.is_stable
    assert not tb.modes(model.without_limits(), [0.1]).is_stable


def test_modes_of_all_zoo_robots_are_computed():
    """A vehicle with thrusters in water: finds an equilibrium, residual at rounding."""
    model, sea = tb.load("bluerov2_heavy"), tb.Water(1025.0)
    held = tb.trim(model, fluid=sea)
    found = tb.modes(
        model,
        held.q,
        tau=held.joint_force,
        commands={t.name: u for t, u in zip(model.thrusters, held.commands, strict=True)},
        fluid=sea,
    )
    assert np.abs(found.residual).max() < 1e-8
    assert len(found.x) == sum(t.time_constant > 0.0 for t in model.thrusters)
    assert len(found.free) >= 3
