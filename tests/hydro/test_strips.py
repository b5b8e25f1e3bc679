"""Drag of cylinders and balls against closed forms of the sources."""

import numpy as np
import pytest

from tests.tolerances import assert_close
from tiburon.hydro.forces import ball_drag, cylinder_drag, gauss_points
from tiburon.spatial.vec3 import add_cross

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def drag(w, v, *, rho, C, r, length, start=(0.0, 0.0, 0.0), axes=(X, Y, Z), **options):
    """Drag of a cylinder along the first of some axes, [n; f]."""
    end = 0.5 * rho * C * np.pi * r * r
    chosen = {"points": 4, "uniform": True, "split": False, "end_factors": (end, end)} | options
    a, b, c = axes
    force = cylinder_drag(
        w,
        lambda p: add_cross(v, w, p),
        axis=a,
        sides=(b, c),
        start=start,
        length=length,
        side_factor=rho * C * r,
        **chosen,
    )
    return np.array(tuple(force), dtype=float)


MCMILLAN_1995 = {"rho": 1000.0, "C": 1.1, "r": 0.05, "length": 0.4}
MCMILLAN_1994 = {"rho": 1000.0, "C": 1.2, "r": 0.05, "length": 0.8}

CASES = [
    # (cylinder, w, v, n, f): McMillan 1995 digest 3.5 T5, McMillan 1994 digest 6.2
    (MCMILLAN_1995, (0, 0, 0), (0, 0.7, 0), (0, 0, -2.156), (0, -10.78, 0)),
    (MCMILLAN_1995, (0, 0, 1.3), (0, 0, 0), (0, 0, -0.59488), (0, -1.98293333, 0)),
    (MCMILLAN_1995, (0, 0, 0), (-0.7, 0, 0), (0, 0, 0), (2.11664805, 0, 0)),
    (
        MCMILLAN_1995,
        (0.4, 0.5, 1.3),
        (0.2, 0.7, -0.3),
        (0, -2.18715501, -5.28784729),
        (-0.1727876, -22.4959335, 9.35628883),
    ),
    (MCMILLAN_1995, (0, 0, 1.3), (0, -0.195, 0), None, (0, -0.38761446, 0)),
    (MCMILLAN_1994, (0, 0, 0), (0, 0.5, 0), (0, 0, -4.8), (0, -12, 0)),
    (MCMILLAN_1994, (0, 0, 2), (0, 0, 0), (0, 0, -24.576), (0, -40.96, 0)),
    (MCMILLAN_1994, (0, 0, 0), (-1.5, 0, 0), (0, 0, 0), (10.60287521, 0, 0)),
    (
        MCMILLAN_1994,
        (0.1, 0.7, -1.3),
        (0.2, 0.4, -0.1),
        (0, -5.84672101, 4.24233211),
        (-0.18849556, 5.35922341, 10.23795622),
    ),
]


@pytest.mark.parametrize(("cylinder", "w", "v", "n", "f"), CASES)
def test_four_strips_give_the_published_forces(cylinder, w, v, n, f):
    found = drag(w, v, **cylinder)
    # the numbers are printed with nine digits
    assert_close(found[3:], f, 1e-8)
    if n is not None:
        assert_close(found[:3], n, 1e-8)


def test_split_strips_are_exact_where_the_flow_changes_sign():
    """There four strips are 2.1 % off (McMillan 1995 digest, 3.5 T5)."""
    w, v = (0.0, 0.0, 1.3), (0.0, -0.195, 0.0)
    found = drag(w, v, split=True, **MCMILLAN_1995)
    assert_close(found[4], -0.37954583, 1e-8)
    # exactly: -rho C r w |w| times the integral of |x - x0| (x - x0)
    x0, length = 0.195 / 1.3, 0.4
    expected = -1000 * 1.1 * 0.05 * 1.3**2 * ((length - x0) ** 3 - x0**3) / 3
    assert_close(found[4], expected, 1e-14)


def test_split_strips_converge_to_the_exact_integral():
    """The exact integrals of McMillan 1994 digest, 6.2, from many strips of either kind."""
    w, v = (0.1, 0.7, -1.3), (0.2, 0.4, -0.1)
    exact = (0.0, -5.84735618, 4.23925453, -0.18849556, 5.35924206, 10.24540165)
    for split in (False, True):
        # 60 strips leave what is printed; the integrand has no jump here
        assert_close(drag(w, v, points=60, split=split, **MCMILLAN_1994), exact, 1e-8)


def test_cylinder_may_have_any_pose():
    """Turned and moved with its flow, a cylinder feels the turned and moved force."""
    rng = np.random.default_rng(3)
    R, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    R *= np.linalg.det(R)
    p = rng.normal(size=3)
    w, v = rng.normal(size=3), rng.normal(size=3)
    here = drag(tuple(w), tuple(v), **MCMILLAN_1995)
    W = R @ w
    # the velocity of the origin, from that of the cylinder's first face
    V = R @ v - np.cross(W, p)
    axes = tuple(tuple(column) for column in R.T)
    there = drag(tuple(W), tuple(V), start=tuple(p), axes=axes, **MCMILLAN_1995)
    f = R @ here[3:]
    assert_close(there, np.concatenate([R @ here[:3] + np.cross(p, f), f]))


def test_leading_face_has_drag():
    ends = {"end_factors": (1.0, 10.0)}
    forward = drag((0, 0, 0), (2.0, 0, 0), **MCMILLAN_1995, **ends)
    backward = drag((0, 0, 0), (-2.0, 0, 0), **MCMILLAN_1995, **ends)
    assert_close(forward[3], -40.0)
    assert_close(backward[3], 4.0)


def test_strips_in_a_varying_fluid_are_those_of_a_uniform_one_where_it_does_not_vary():
    w, v = (0.4, 0.5, 1.3), (0.2, 0.7, -0.3)
    assert_close(
        drag(w, v, uniform=False, **MCMILLAN_1995), drag(w, v, uniform=True, **MCMILLAN_1995)
    )


def test_gauss_points_integrate_polynomials_of_twice_their_number_less_one():
    for count in (1, 2, 4, 7):
        for power in range(2 * count):
            found = sum(g * x**power for x, g in gauss_points(count))
            assert_close(found, 1.0 / (power + 1))


def test_drag_of_a_sphere_acts_at_its_center():
    force = ball_drag(lambda p: (3.0, 4.0, 0.0), center=(0.0, 0.0, 2.0), factor=0.1)
    assert_close(np.array(force.force), (-1.5, -2.0, 0.0))
    assert_close(np.array(force.moment), np.cross((0, 0, 2.0), (-1.5, -2.0, 0.0)))
