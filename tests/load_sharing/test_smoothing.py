"""Continuity in time: the four-legged walker whose foot lands (Nahon 1991, section 6.2.8)."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing.smoothing import (
    Blending,
    ForcePrograms,
    SmoothingPenalty,
    StepBound,
    blended,
    least_step,
    ramp,
    smallest_step,
    smoothed_forces,
)

DT = 0.01
LANDING = 50
"""Index of the time at which foot 1 touches."""

FRICTION = 0.5


def feet(x):
    """Return the feet relative to the center of mass (6.65)."""
    return [(1.5 - x, -0.5, -0.7), (1.5 - x, 0.5, -1.0), (-x, -0.5, -0.6), (-x, 0.5, -0.7)]


def problem(x, weight, standing):
    """Return A1, b1, A2, b2 of the walker at rest: forces only, pyramids of four sides."""
    A1, A2 = np.zeros((6, 12)), np.zeros((20, 12))
    for i, (a, b, c) in enumerate(feet(x)):
        at = slice(3 * i, 3 * i + 3)
        if i in standing:
            A1[:3, at] = np.eye(3)
            A1[3:, at] = [[0, -c, b], [c, 0, -a], [-b, a, 0]]
        A2[5 * i : 5 * i + 5, at] = [
            (0, 0, 1),
            *((s * u, s * w, FRICTION) for u, w in ((1, 0), (0, 1)) for s in (1, -1)),
        ]
    return A1, np.array([0, 0, weight, 0, 0, 0.0]), A2, np.zeros(20)


def walk(speed=0.3, weight=1000.0, count=101, start=0.45):
    """Return the walker whose mass center moves ahead; foot 1 touches at 0.5 s.

    Weight and motion are ours: the figures that showed them are lost.
    """
    found = []
    for k in range(count):
        standing = (1, 2, 3) if k < LANDING else (0, 1, 2, 3)
        found.append(problem(start + speed * k * DT, weight, standing))
    A1, b1, A2, b2 = (np.array(part) for part in zip(*found, strict=True))
    W = np.tile(np.eye(12), (count, 1, 1))
    return ForcePrograms(W, np.zeros((count, 12)), A1, b1, A2, b2)


def norms(x):
    return np.linalg.norm(np.reshape(x, (-1, 4, 3)), axis=-1)


def static(x, standing):
    A1, b1, A2, b2 = (part[None] for part in problem(x, 1.0, standing))
    programs = ForcePrograms(np.eye(12)[None], np.zeros((1, 12)), A1, b1, A2, b2)
    return smoothed_forces(programs, dt=DT)


def test_static_optima_are_those_of_the_source():
    """Unit weight, at rest: forces to the printed digits, friction rows active where they are."""
    three = static(0.6, (1, 2, 3))
    expected = [
        (0.01923, -0.01282, 0.39744),
        (0.01923, 0.02564, 0.49359),
        (-0.03846, -0.01282, 0.10897),
    ]
    np.testing.assert_allclose(three.x.reshape(4, 3)[1:], expected, atol=6e-6)
    assert three.active[0] == 0
    np.testing.assert_allclose(
        norms(static(0.6, range(4)).x)[0], (0.20113, 0.20273, 0.29789, 0.29896), atol=6e-6
    )
    steep = static(0.7, (1, 2, 3))
    np.testing.assert_allclose(norms(steep.x)[0, 1:], (0.46438, 0.49720, 0.04803), atol=6e-6)
    np.testing.assert_allclose(steep.x[0, 9:], (-0.01961, -0.01961, 0.03922), atol=6e-6)
    assert steep.active[0] == 2
    np.testing.assert_allclose(
        norms(static(0.5, range(4)).x)[0], (0.16859, 0.17204, 0.32991, 0.33165), atol=6e-6
    )


def test_least_forces_of_the_walker_have_no_internal_force():
    """Differences of forces have no component along the lines between feet (B20)."""
    for x in (0.5, 0.6, 0.7):
        force, place = static(x, range(4)).x.reshape(4, 3), np.array(feet(x))
        for i in range(4):
            for j in range(i):
                assert abs((force[i] - force[j]) @ (place[i] - place[j])) < 1e-15


def test_landing_jumps_without_smoothing_and_not_with_it():
    """The jump of 201 N becomes 20 N by step limits, and 19 N by the penalty."""
    programs = walk()
    plain = smoothed_forces(programs, dt=DT, changes=[LANDING])
    assert plain.steps.max() == plain.steps[LANDING] == pytest.approx(201.10, abs=5e-3)
    limited = smoothed_forces(programs, StepBound(20.0), dt=DT, changes=[LANDING])
    assert limited.steps.max() == pytest.approx(20.0, abs=1e-9)
    np.testing.assert_allclose(norms(limited.x)[55], (121.17, 289.64, 373.65, 217.69), atol=6e-3)
    soft = smoothed_forces(programs, SmoothingPenalty(10.0, 0.5), dt=DT, changes=[LANDING])
    assert soft.steps.max() == soft.steps[LANDING] == pytest.approx(19.17, abs=5e-3)
    np.testing.assert_allclose(norms(soft.x)[55], (96.30, 313.63, 400.30, 191.47), atol=6e-3)
    # all of them carry the weight, and end at the same optimum
    for found in (plain, limited, soft):
        force = np.einsum("kij,kj->ki", programs.A1, found.x)
        np.testing.assert_allclose(force, programs.b1, atol=1e-9)
        np.testing.assert_allclose(found.x[-1], plain.x[-1], atol=0.1)


def test_b16_several_step_limits_are_active_at_once():
    """Four limits are active in the same step: the printed remark "only one" is not general."""
    limited = smoothed_forces(walk(), StepBound(20.0), dt=DT, changes=[LANDING])
    assert limited.active.max() == 4


def test_smallest_feasible_step_is_found_and_reported():
    """From the start: 2 N feasible, 1 N not, threshold 1.8208 N; from the landing on 0.9284 N."""
    programs = walk()
    options = {"dt": DT, "changes": [LANDING]}
    assert smoothed_forces(programs, StepBound(2.0), **options).failed is None
    failed = smoothed_forces(programs, StepBound(1.0), **options)
    assert failed.failed == 1
    assert np.isnan(failed.x[1:]).all()
    # what the first step needs is less than what the whole walk needs
    assert 1.0 < failed.least < smallest_step(programs, **options)
    assert smallest_step(programs, **options) == pytest.approx(1.8208, abs=5e-5)
    assert smallest_step(programs, **options, start=LANDING) == pytest.approx(0.9284, abs=5e-5)


def test_least_step_is_the_smallest_change_that_limits_allow():
    """A load on two supports moves: closed form of the least largest change."""
    # x1 + x2 = 10 after x = (4, 4): each must rise by 1
    A1, b1, A2, b2 = np.ones((1, 2)), np.array([10.0]), np.eye(2), np.zeros(2)
    offset = -np.array([4.0, 4.0])
    assert least_step(A1, b1, A2, b2, np.eye(2), offset) == pytest.approx(1.0, rel=1e-8)
    # a limit x2 <= 4.5 leaves the rest to x1
    A2, b2 = np.vstack([A2, [[0.0, -1.0]]]), np.array([0.0, 0.0, -4.5])
    assert least_step(A1, b1, A2, b2, np.eye(2), offset) == pytest.approx(1.5, rel=1e-8)
    assert least_step(A1, b1, -A2, -b2 + 1.0, np.eye(2), offset) is None


def test_b4_blended_steps_have_the_length_of_rate_times_step():
    """The step of time stands in (4.45c): twice the time step, twice the change."""
    x, goal = [0.0, 0.0, 0.0], [30.0, 0.0, 40.0]
    for dt in (0.01, 0.02):
        found = np.array(blended(x, goal, 100.0, dt))
        np.testing.assert_allclose(found, dt * 100.0 * np.array([0.6, 0.0, 0.8]), rtol=1e-14)
    np.testing.assert_array_equal(blended(x, goal, 1e9, 0.01), goal)


def test_blending_carries_the_load_at_every_step_and_needs_a_machine_at_rest():
    """Every blended vector satisfies the new equations; a moving machine is refused."""
    still = walk(speed=0.0, start=0.6)
    found = smoothed_forces(still, Blending(1000.0), dt=DT, changes=[LANDING])
    force = np.einsum("kij,kj->ki", still.A1, found.x)
    np.testing.assert_allclose(force[LANDING:], still.b1[LANDING:], atol=1e-9)
    moved = np.linalg.norm(np.diff(found.x, axis=0), axis=1)
    assert moved.max() == pytest.approx(10.0, rel=1e-12)
    plain = smoothed_forces(still, dt=DT, changes=[LANDING])
    np.testing.assert_allclose(found.x[-1], plain.x[-1], rtol=1e-9, atol=1e-9)
    with pytest.raises(tb.DomainError, match="stands still"):
        smoothed_forces(walk(), Blending(1000.0), dt=DT, changes=[LANDING])


def test_penalty_on_torques_smooths_torques():
    """Rows of torques: their jump is smaller than that of the penalty on forces."""
    programs = walk()
    rng = np.random.default_rng(3)
    rows = np.tile(0.3 * rng.standard_normal((12, 12)), (len(programs.c), 1, 1))
    torques = programs._replace(rows=rows, offset=np.ones((len(programs.c), 12)))
    plain = smoothed_forces(torques, dt=DT, changes=[LANDING])
    soft = smoothed_forces(torques, SmoothingPenalty(50.0, on="torques"), dt=DT, changes=[LANDING])
    assert soft.steps[LANDING] < 0.2 * plain.steps[LANDING]
    np.testing.assert_allclose(soft.kept, np.einsum("kij,kj->ki", rows, soft.x) + 1.0, atol=1e-9)


def test_weights_fall_linearly_to_zero():
    """Zero before the first change, then from the weight to zero."""
    since = np.array([-1.0, 0.0, 0.25, 0.5, 0.7])
    np.testing.assert_allclose(ramp(10.0, since, 0.5), [0.0, 10.0, 5.0, 0.0, 0.0])


def test_bad_schemes_are_refused():
    """Bounds must be positive, quantities known, shapes fit."""
    for bad in (
        lambda: StepBound(0.0),
        lambda: Blending(-1.0),
        lambda: SmoothingPenalty(duration=0.0),
        lambda: smoothed_forces(walk(), dt=0.0),
    ):
        with pytest.raises(tb.DomainError):
            bad()
    with pytest.raises(tb.OptionError):
        StepBound(1.0, on="feet")
    programs = walk()
    with pytest.raises(tb.ShapeError, match="b2"):
        smoothed_forces(programs._replace(b2=programs.b2[:-1]), dt=DT)
