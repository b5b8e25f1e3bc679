"""Beams as rigid pieces with springs: frequencies and deflections of the continuous beam."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import FREE, moment, stepper
from tiburon.actuation.defaults import elements_of
from tiburon.algorithms.crba import crba

E, RHO, LENGTH = 70e9, 2700.0, 1.0
SECTION = tb.BeamSection.rectangle(0.05, 0.005)


def beam(n, deformations=("bend_y",), section=SECTION, **options):
    """Return an aluminium blade, clamped at its root."""
    return tb.flexible_link(
        "blade",
        section,
        length=LENGTH,
        segments=n,
        youngs_modulus=E,
        density=RHO,
        deformations=deformations,
        **options,
    )


def frequencies(model):
    """Return the frequencies of small motions about the straight beam [rad/s], rising."""
    M = np.array(crba(model.plan, model.neutral().tolist()), dtype=float)
    K = np.diag([k for j in model.joints if j.nv for k in j.passive.stiffness])
    return np.sqrt(np.sort(np.linalg.eigvals(np.linalg.solve(M, K)).real))


def test_first_bending_frequency_converges_to_that_of_the_beam():
    """3.5160 sqrt(E I / (rho A l^4)) for a clamped beam; the error falls with 1 / n^2."""
    exact = 1.8751040687**2 * math.sqrt(E * SECTION.second_moment_y / (RHO * SECTION.area))
    counts = (4, 8, 16, 32)
    errors = [frequencies(beam(n))[0] / exact - 1.0 for n in counts]
    order = -np.polyfit(np.log(counts), np.log(np.abs(errors)), 1)[0]
    # second order, up to what the turning of a section adds: some 1e-5 for a blade of 5 mm
    assert order == pytest.approx(2.0, abs=0.1)
    assert abs(errors[-1]) < 1e-3


def test_higher_bending_frequencies_follow():
    """Second and third frequency of the clamped beam: 22.0345 and 61.6972."""
    unit = math.sqrt(E * SECTION.second_moment_y / (RHO * SECTION.area))
    found = frequencies(beam(40)) / unit
    assert found[:3] == pytest.approx([3.51602, 22.0345, 61.6972], rel=5e-3)


def test_twisting_frequency_is_that_of_a_shaft():
    """A round rod, clamped: pi / (2 l) sqrt(G / rho), and odd multiples."""
    rod = tb.BeamSection.tube(0.02, 0.01)
    found = frequencies(beam(40, ("twist",), rod, shear_modulus=26e9))
    exact = 0.5 * math.pi / LENGTH * math.sqrt(26e9 / RHO)
    assert found[:2] == pytest.approx([exact, 3.0 * exact], rel=2e-3)


def test_deflection_under_a_load_at_the_tip():
    """F l^3 / (3 E I) (1 - 1 / (4 n^2)): springs sit in the middle of their cells."""
    for n in (1, 3, 10):
        model = beam(n)
        J = tb.frame_jacobian(model, model.neutral(), "blade_tip", axes="world")[5]
        K = np.array([j.passive.stiffness[0] for j in model.joints if j.nv])
        exact = LENGTH**3 / (3.0 * E * SECTION.second_moment_y) * (1.0 - 1.0 / (4.0 * n * n))
        # the compliance felt at the tip: J K^-1 J'
        compliance = J @ (J / K)
        assert compliance == pytest.approx(exact, rel=1e-12)


def test_all_compliances_as_ball_joints_give_the_same_frequencies():
    """Bending about both axes and twisting do not mix in a straight beam."""
    n = 6
    apart = [frequencies(beam(n, (way,))) for way in ("twist", "bend_y", "bend_z")]
    together = frequencies(beam(n, ("twist", "bend_y", "bend_z")))
    assert together == pytest.approx(np.sort(np.concatenate(apart)), rel=1e-9)
    assert frequencies(beam(n, ("bend_y", "bend_z"))) == pytest.approx(
        np.sort(np.concatenate(apart[1:])), rel=1e-9
    )


def test_mass_and_center_of_mass_equal_those_of_the_beam():
    """Pieces add up: mass, center of mass, and the frame at the tip."""
    model = beam(7, ("twist", "bend_y", "bend_z"))
    assert model.total_mass == pytest.approx(RHO * SECTION.area * LENGTH, rel=1e-12)
    q = model.neutral()
    # the half cell at the root is part of the world
    middle = 0.5 * (LENGTH + 0.5 * LENGTH / 7)
    assert tb.center_of_mass(model, q) == pytest.approx([middle, 0.0, 0.0], abs=1e-12)
    _, tip = tb.forward_kinematics(model, q, "blade_tip")
    assert tip == pytest.approx([LENGTH, 0.0, 0.0], abs=1e-12)


def test_flexible_link_equals_the_flexible_arm_of_the_zoo():
    """The blade of the zoo was cut the same way: equal springs and pieces."""
    arm = tb.load("flexible_arm")
    stiff = [j.passive.stiffness for j in arm.joints if j.passive is not None]
    # the zoo's blade stands on edge: it bends about z
    blade = beam(10, ("bend_z",), tb.BeamSection.rectangle(0.005, 0.05), damping_time=6e-4)
    ours = [j.passive.stiffness[0] for j in blade.joints if j.nv]
    assert ours == pytest.approx(stiff, rel=1e-9)
    pieces = [b.inertia for b in arm.bodies if b.name.startswith("piece")]
    for piece, body in zip(pieces, blade.bodies, strict=True):
        assert np.allclose(piece.matrix, body.inertia.matrix, rtol=1e-9, atol=1e-15)


def test_bent_beam_conserves_energy():
    """Large deflections in all directions, without gravity: springs give back what they took."""
    model = beam(3, ("twist", "bend_y", "bend_z"))
    rng = np.random.default_rng(5)
    q = model.integrate(model.neutral(), 0.5 * rng.standard_normal(model.nv))
    (passive,) = elements_of(model)
    _, run = stepper(model, [passive], FREE)

    def energy(state):
        q, v = state[: model.nq], state[model.nq :]
        stored = passive.act(moment(passive, model, q, v)).outputs["passive.energy"]
        return stored + tb.kinetic_energy(model, q, v)

    start = np.concatenate([q, np.zeros(model.nv)])
    # twisting is the fastest motion, near 1e4 rad/s: order 4 at (0.05)^4 over 0.01 s
    end = run(start, dt=2e-6, count=5000)
    assert np.abs(end[model.nq :]).max() > 1.0
    assert energy(end) == pytest.approx(energy(start), rel=1e-6)


def test_wrong_links_are_refused():
    """Messages name the link and say what to do."""
    with pytest.raises(
        tb.ModelError, match="segments must be a whole number from 1 to 1000, got 0"
    ):
        beam(0)
    with pytest.raises(
        tb.OptionError, match="deformations: expected 'twist' or 'bend_y' or 'bend_z'"
    ):
        beam(3, ("bend",))
    with pytest.raises(tb.ModelError, match="area must be positive"):
        tb.BeamSection(0.0, 1.0, 1.0, 1.0)
    with pytest.raises(tb.ModelError, match="'blade': density must be positive, got 0"):
        tb.flexible_link("blade", SECTION, length=1.0, segments=2, youngs_modulus=E, density=0.0)
