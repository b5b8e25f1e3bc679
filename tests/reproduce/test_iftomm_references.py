"""References of the IFToMM mechanisms, found again apart from the package: by SciPy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

from tests.tolerances import assert_close
from tiburon.reproduce import iftomm_references as references

GRAVITY = 9.81


@pytest.mark.parametrize("windows", [1, 2, 40])
def test_turning_four_bars_are_the_pendulum_of_elliptic_functions(windows):
    """Angle and speed by SciPy's functions, and the speed as the rate of the angle."""
    k = GRAVITY * ((windows + 1) / 2 + windows) / ((windows + 1) / 3 + windows)
    fastest = np.sqrt(1 + 4 * k)
    m = 4 * k / fastest**2
    for time in (0.0, 0.3, 4.7, 10.0):
        angle, rate = references.rotating_four_bars(windows, time)
        _, _, dn, amplitude = ellipj(fastest * time / 2 - ellipk(m), m)
        # arguments up to 35 of a function whose slope is one
        assert_close(angle, 2 * amplitude + np.pi, 1e-13, scale=angle + 1)
        assert_close(rate, fastest * dn, 1e-12)
        # one energy all the time
        assert_close(rate**2 / 2 + k * np.cos(angle), 0.5 + k)
    assert_close(references.rotating_four_bars(windows, 0.0), (0.0, 1.0))


def test_andrews_angles_close_the_loops_of_the_source():
    """Ends of the links meet in E: constraints of the test set, its own lengths and points."""
    a = references.ANDREWS_ANGLES
    beta, theta, gamma = a["beta"], a["Theta"], a["gamma"]
    phi, delta, omega, epsilon = a["Phi"], a["delta"], a["Omega"], a["epsilon"]
    E = np.array(
        [
            0.007 * np.cos(beta) - 0.028 * np.cos(beta + theta),
            0.007 * np.sin(beta) - 0.028 * np.sin(beta + theta),
        ]
    )
    ways = (
        (-0.03635 + 0.035 * np.sin(gamma), 0.03273 - 0.035 * np.cos(gamma)),
        (
            -0.06934 + 0.02 * np.sin(phi + delta) + 0.04 * np.cos(delta),
            -0.00227 - 0.02 * np.cos(phi + delta) + 0.04 * np.sin(delta),
        ),
        (
            -0.06934 + 0.02 * np.cos(omega + epsilon) + 0.04 * np.sin(epsilon),
            -0.00227 + 0.02 * np.sin(omega + epsilon) - 0.04 * np.cos(epsilon),
        ),
    )
    for way in ways:
        # printed with sixteen digits, solved to 1e-14
        assert np.abs(E - way).max() < 1e-13


# -- Bricard: a point on the curve of closed positions ---------------------------------------------

HINGES = np.array([(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)], float)
RODS = np.array([(1, 0, 0), (0, -1, 0), (0, 0, 1), (-1, 0, 0), (0, 1, 0)], float)


def _turn(axis, angle):
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def _bricard(odd, even):
    """Return inertia in the two angles, potential energy, and where the last rod ends."""
    R, p = np.eye(3), np.zeros(3)
    axes, points, inertia, potential = [], [], 0.0, 0.0
    for k, (axis, rod) in enumerate(zip(HINGES, RODS, strict=True)):
        axes.append(R @ axis)
        points.append(p)
        R = R @ _turn(axis, (odd, even)[k % 2])
        center = p + R @ rod / 2
        J = np.zeros((6, 2), complex)
        for j, (hinge, point) in enumerate(zip(axes, points, strict=True)):
            J[:3, j % 2] += hinge
            J[3:, j % 2] += np.cross(hinge, center - point)
        # a box of 1 m by 0.1 m by 0.1 m and 1 kg
        own = np.eye(3) * (1.01 / 12) - np.outer(rod, rod) * (0.99 / 12)
        inertia = inertia + J[:3].T @ (R @ own @ R.T) @ J[:3] + J[3:].T @ J[3:]
        potential = potential + GRAVITY * center[1]
        p = p + R @ rod
    return inertia, potential, p


def _along(odd, even):
    """Return the direction in which (1 + sin odd)(1 + sin even) stays."""
    first, second = np.cos(odd) * (1 + np.sin(even)), np.cos(even) * (1 + np.sin(odd))
    length = np.sqrt(first**2 + second**2)
    return np.array([second / length, -first / length])


def _bricard_rates(_, state):
    odd, even, speed = state
    along = _along(odd, even)
    # one complex step gives values and slopes along the curve
    h = 1e-30
    there = np.array([odd, even]) + 1j * h * along
    inertia, potential, _ = _bricard(*there)
    mass = _along(*there) @ inertia @ _along(*there)
    push = -potential.imag / h - 0.5 * mass.imag / h * speed**2
    return [*(along * speed), push / mass.real]


def test_the_curve_of_bricard_closes_its_loop():
    """Chen, You and Tarnai 2005 for right angles, with angles from the start."""
    for odd in (0.3, 1.2, 2.9):
        even = np.arcsin(1 / (1 + np.sin(odd)) - 1)
        assert np.abs(_bricard(odd, even)[2] - (0, 0, 1)).max() < 1e-14


@pytest.mark.slow
def test_bricard_in_one_coordinate():
    times = list(references.BRICARD)
    run = solve_ivp(
        _bricard_rates, (0, 10), [0, 0, 0], method="DOP853", rtol=1e-11, atol=1e-11, t_eval=times
    )
    for found, angles in zip(run.y.T, references.BRICARD.values(), strict=True):
        # ten printed decimals, and a thousand times the tolerance for 10 s of motion
        assert np.abs(found[:2] - angles).max() < 5e-10


# -- governor: two coordinates, and the spin from the angular momentum -----------------------------


def _governor_rates(_, state):
    arm, height, arm_rate, height_rate, _, _ = state
    axial, across = 0.3 * 2e-4 / 12, 0.3 * (1 + 1e-4) / 12
    hinge = 5 + 0.3 / 4 + across

    def spin_inertia(angle):
        c, s = np.cos(angle), np.sin(angle)
        balls, rods = 5 * (0.05 + c) ** 2, 0.3 * (0.05 + c / 2) ** 2
        return 5e-6 + 0.005 + 2 * (balls + rods + axial * s**2 + across * c**2)

    c, s = np.cos(arm), np.sin(arm)
    slope = spin_inertia(arm + 1e-30j).imag / 1e-30
    spin = spin_inertia(np.pi / 6) * 2 * np.pi / spin_inertia(arm)
    x, z = c / 2, 1 - s / 2 - height
    length = np.hypot(x, z)
    by_arm, by_height = -(x * s + z * c) / 2 / length, -z / length
    growth = by_arm * arm_rate + by_height * height_rate
    pull = 2 * (8e5 * (length - 0.5) + 4e4 * growth)
    weight = -2 * GRAVITY * (5 + 0.15) * c
    return [
        arm_rate,
        height_rate,
        (slope * spin**2 / 2 - weight - pull * by_arm) / (2 * hinge),
        -GRAVITY - pull * by_height / 3,
        spin,
        2 * 4e4 * growth**2,
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_governor_in_two_coordinates():
    """SciPy's Radau scales the steps of its Jacobian up where nothing changes, and says so."""
    start = [np.pi / 6, 0.5, 0, 0, 0, 0]
    run = solve_ivp(_governor_rates, (0, 10), start, method="Radau", rtol=1e-8, atol=1e-10)
    arm, height, _, _, spin, lost = run.y[:, -1]
    expected = references.GOVERNOR
    # tolerances of 1e-8 a step; phase errors of the swing stay below ten of them
    assert abs(height - 0.5 - expected.height) < 1e-7
    assert abs(arm - np.pi / 6 - expected.hinge) < 1e-7
    assert abs(spin - expected.spin) < 1e-6
    assert abs(lost - expected.lost) < 1e-8
