"""Reference motions for the IFToMM multibody benchmark library.

The library (Gonzalez, Dopico, Lugris and Cuadrado 2006, "A benchmarking system for MBS simulation
software", Multibody System Dynamics 16(2)) publishes its reference motions as curves. Digits
therefore come from other sources:

- Andrews' mechanism: the reference solution of the test set for IVP solvers, problem "Andrews'
  squeezing mechanism" (also Hairer and Wanner 1996, section VII.7), same data.
- N-four-bar: its motion without change of branch is that of one rotating pendulum, given by
  elliptic functions to all digits.
- Bricard's mechanism and the governor: equations of motion in minimal coordinates, written and
  solved independently of this package, by SciPy; see `tests/reproduce/test_iftomm_references.py`.
"""

import math
from typing import NamedTuple

ANDREWS_END = 0.03
"""Time of the reference solution [s]."""

ANDREWS_ANGLES = {
    "beta": 15.81077119629904,
    "Theta": -15.75637105984298,
    "gamma": 0.04082224013073101,
    "Phi": -0.5347301163226948,
    "delta": 0.5244099658805304,
    "Omega": 0.5347301163226948,
    "epsilon": 1.048080741042263,
}
"""Joint angles at 0.03 s [rad], IVP test set (solver PSIDE, tolerances of 1e-14)."""

ANDREWS_SPEEDS = {
    "beta": 1139.920302151208,
    "Theta": -1424.379294994111,
    "gamma": 11.03291221937134,
    "Phi": 19.29337464421385,
    "delta": 0.5735699284790808,
    "Omega": -19.29337464421385,
    "epsilon": 0.3231791658026955,
}
"""Joint velocities at 0.03 s [rad/s], same source."""

BRICARD = {6.0: (1.0519559624, -0.4833874948), 10.0: (2.690489e-4, -2.689765e-4)}
"""Angles of odd and even hinges [rad] by time [s]; SciPy's DOP853 with tolerances of 1e-12 on the
curve of closed configurations."""


class GovernorState(NamedTuple):
    """State of the flyball governor, symmetric in its two sides."""

    height: float
    """Height of the slider above its initial position [m]."""

    hinge: float
    """Angle of the arms from their initial position [rad]."""

    spin: float
    """Angle of the shaft [rad]."""

    spin_rate: float
    """Speed of the shaft [rad/s]."""

    lost: float
    """Energy dissipated by the dampers [J]."""


GOVERNOR = GovernorState(0.1196229171, -0.1335250738, 55.9354099091, 5.5482036227, 3.12186070e-3)
"""At 10 s; SciPy's Radau with tolerances of 1e-10 in two coordinates."""

OPENSIM_WALL_TIMES = {"four-bar-2": 0.455, "andrews": 0.384, "bricard": 0.258}
"""Wall-clock times of OpenSim 3.2 on a Core i5-4570 at 3.2 GHz [s]
(Tagliapietra, Vivian, Reggiani and Ceseracciu, "MBS Benchmarks in OpenSim")."""


def rotating_four_bars(windows: int, time: float, gravity: float = 9.81) -> tuple[float, float]:
    """Return the angle and rate of the uprights of N four-bars.

    Rods of 1 m and 1 kg; all N + 1 uprights rotate equally and N couplers only translate: one
    pendulum with moment of inertia I = (N + 1) / 3 + N and weight moment (N + 1) / 2 + N times
    gravity, which starts upright at 1 rad/s and rotates. With k = weight moment / I, its speed
    at the bottom W = sqrt(1 + 4 k) and m = 4 k / W^2, the angle past the bottom is
    2 am(W t / 2 - K, m) (Jacobi's amplitude; Abramowitz and Stegun 1964, sections 16.1 and 17.3).

    Args:
        windows: Number of four-bars N.
        time: Time since the start [s].
        gravity: Magnitude of gravity [m/s^2].

    Returns:
        Angle from upright [rad] and its rate [rad/s].
    """
    k = gravity * ((windows + 1) / 2 + windows) / ((windows + 1) / 3 + windows)
    fastest = math.sqrt(1.0 + 4.0 * k)
    m = 4.0 * k / fastest**2
    past_bottom = 2.0 * _amplitude(fastest * time / 2 - _quarter_period(m), m)
    rate = fastest * math.sqrt(1.0 - m * math.sin(past_bottom / 2) ** 2)
    return past_bottom + math.pi, rate


def _means(m: float) -> list[tuple[float, float]]:
    """Return the iterates (a, c) of the arithmetic-geometric mean of 1 and sqrt(1 - m)."""
    found = [(1.0, math.sqrt(m))]
    a, b = 1.0, math.sqrt(1.0 - m)
    while abs(found[-1][1]) > 1e-16:
        a, b, c = (a + b) / 2, math.sqrt(a * b), (a - b) / 2
        found.append((a, c))
    return found


def _quarter_period(m: float) -> float:
    """Return the complete elliptic integral of the first kind K (A&S 17.6.3)."""
    return math.pi / (2.0 * _means(m)[-1][0])


def _amplitude(u: float, m: float) -> float:
    """Return Jacobi's amplitude am(u, m) (A&S 16.4)."""
    means = _means(m)
    angle = 2.0 ** (len(means) - 1) * means[-1][0] * u
    for a, c in reversed(means[1:]):
        angle = (angle + math.asin(c / a * math.sin(angle))) / 2
    return angle
