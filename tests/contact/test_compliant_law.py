"""The law of one compliant contact point: cycles of displacement, cone, anchors."""

import numpy as np
import pytest

from tiburon.contact.candidates import Surface
from tiburon.contact.compliant import Touch, point_force, tangential

SURFACE = Surface(0.6, 0.4, 0.0, 1e4, 0.0, 4e3, 0.0, 0.0)
"""Static and kinetic friction 0.6 and 0.4; undamped springs."""


def pulled(path, depth=2e-3, surface=SURFACE):
    """Move a point along a path of tangential positions [m]; return forces and modes."""
    anchor, sticking = path[0], 1.0
    found = []
    for place in path:
        touch = Touch(depth, 0.0, (*(place - anchor), 0.0), (0.0,) * 3, (0.0, 0.0, -1.0), sticking,
                      surface)  # fmt: skip
        force = point_force(touch)
        anchor, sticking = place - np.array(force.displacement[:2]), float(force.sticking)
        found.append((*force.tangential[:2], sticking))
    return np.array(found)


def work_on_the_point(path, forces):
    """Sum force times displacement by the trapezoidal rule [J]."""
    middle = 0.5 * (forces[1:, :2] + forces[:-1, :2])
    return float(np.sum(middle * np.diff(path, axis=0)))


def test_closed_cycle_within_the_cone_dissipates_nothing():
    angle = np.linspace(0.0, 2.0 * np.pi, 401)
    # the cone of 20 N allows 3 mm of static friction
    path = 1.2e-3 * np.stack([1 - np.cos(angle), np.sin(angle)], axis=1)
    found = pulled(path)
    assert np.all(found[:, 2] == 1.0)
    # the trapezoidal rule is exact for linear springs
    assert work_on_the_point(path, found) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("size", [2e-3, 4e-3, 2e-2])
def test_closed_cycle_beyond_the_cone_dissipates_energy(size):
    angle = np.linspace(0.0, 2.0 * np.pi, 4001)
    generator = np.random.default_rng(1)
    wave = sum(generator.standard_normal(2) * np.sin(k * angle)[:, None] for k in (1, 2, 3))
    path = size * (wave - wave[0])
    found = pulled(path)
    slides = found[:, 2] == 0.0
    assert slides.any()
    # forces on the cone of kinetic friction while sliding, never beyond that of static friction
    sizes = np.hypot(found[:, 0], found[:, 1])
    np.testing.assert_allclose(sizes[slides], 0.4 * 20.0, rtol=1e-12)
    assert sizes.max() <= 0.6 * 20.0 * (1 + 1e-12)
    assert work_on_the_point(path, found) < -1e-4
    # and no part of the way gives back more than the spring can hold
    gained = np.cumsum(
        np.sum(0.5 * (found[1:, :2] + found[:-1, :2]) * np.diff(path, axis=0), axis=1)
    )
    stored = 12.0**2 / (2 * 4e3)
    assert np.max(gained - np.minimum.accumulate(gained)) <= stored * (1 + 1e-6)


def test_sliding_has_the_coulomb_force_and_sticks_on_reversal():
    path = np.stack([np.r_[np.linspace(0, 0.1, 500), np.linspace(0.1, 0.099, 20)[1:]],
                     np.zeros(519)], axis=1)  # fmt: skip
    found = pulled(path)
    np.testing.assert_allclose(found[200:500, 0], -8.0, rtol=1e-12)
    assert np.all(found[501:, 2] == 1.0)
    assert np.all(np.diff(found[501:, 0]) > 0.0)


def test_normal_forces_never_pull_and_nothing_acts_on_open_points():
    for depth, rate, expected in ((1e-3, 0.0, 10.0), (1e-3, -1.0, 0.0), (-1e-3, 1.0, 0.0)):
        surface = SURFACE._replace(normal_damping=50.0)
        touch = Touch(depth, rate, (1e-3, 0.0, 0.0), (0.1, 0, 0), (0, 0, -1.0), 1.0, surface)
        force = point_force(touch)
        assert force.normal == expected
        assert np.hypot(*force.tangential[:2]) <= 0.6 * expected
    lost = point_force(touch._replace(depth=np.nan))
    assert np.isnan(lost.normal)


def test_tangential_forces_are_perpendicular_to_the_normal():
    generator = np.random.default_rng(2)
    a, n = generator.standard_normal((2, 3))
    n /= np.linalg.norm(n)
    found = np.array(tangential(tuple(a), tuple(n)))
    np.testing.assert_allclose(found, a - n * (a @ n), atol=1e-15)
    assert tangential((1.0, 2.0, 3.0), (0.0, -1.0, 0.0)) == (1.0, 0.0, 3.0)
