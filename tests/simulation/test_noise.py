"""Noise of sensors: normal, independent, and the same however it is drawn."""

import numpy as np

from tiburon.simulation.sensing import normal_noise


def test_noise_of_a_case_does_not_depend_on_the_batch():
    """Samples drawn one by one, many at once, and beside other cases: the same bits."""
    together = normal_noise(7, "imu", range(100, 164), (5, 3))
    assert together.shape == (64, 5, 3)
    for place in (0, 1, 17, 63):
        assert np.array_equal(normal_noise(7, "imu", [100 + place], (5, 3))[0], together[place])
    fewer = normal_noise(7, "imu", range(100, 164), (2, 3))
    assert np.array_equal(fewer, together[:, :2])
    lone = normal_noise(7, "imu", range(100, 164), (3,))
    assert np.array_equal(lone, together[:, 0])


def test_noise_differs_between_seeds_names_and_samples():
    """Correlations of 20 000 numbers stay within five standard errors of zero."""
    base = normal_noise(1, "a", range(20_000), (1,))[:, 0]
    others = [
        normal_noise(2, "a", range(20_000), (1,))[:, 0],
        normal_noise(1, "b", range(20_000), (1,))[:, 0],
        normal_noise(1, "a", range(1, 20_001), (1,))[:, 0],
        normal_noise(1, "a", range(20_000), (2,))[:, 1],
    ]
    error = 1.0 / np.sqrt(20_000)
    for other in others:
        assert abs(np.mean(base * other)) < 5.0 * error


def test_noise_is_normally_distributed():
    """Mean, deviation, and shares beyond one and two deviations, within five standard errors."""
    x = normal_noise(3, "x", range(50_000), (2,)).reshape(-1)
    n = len(x)
    assert abs(x.mean()) < 5.0 / np.sqrt(n)
    assert abs(x.var() - 1.0) < 5.0 * np.sqrt(2.0 / n)
    for limit, share in ((1.0, 0.317311), (2.0, 0.045500)):
        assert abs(np.mean(np.abs(x) > limit) - share) < 5.0 * np.sqrt(share / n)
