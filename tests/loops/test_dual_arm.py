"""Two arms by their inverse inertias: methods I and II against the whole system (4.3)."""

import numpy as np
import pytest

from tiburon.loops.dual_arm import method_one, method_two


def draw(rng, kind):
    """Return inverse inertias, open accelerations, the load's inertia and forces on it."""
    shared = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    factors = [rng.standard_normal((6, 7)) for _ in range(2)]
    if kind in ("one", "both"):
        for k in range(2 if kind == "both" else 1):
            factors[k] = np.linalg.qr(rng.standard_normal((6, 6)))[0][:, :5] @ factors[k][:5]
    if kind.startswith("meet"):
        left = 6 - int(kind[-1])
        factors = [shared[:, :left] @ factor[:left] for factor in factors]
    inverses = [factor @ factor.T for factor in factors]
    x = [A @ rng.standard_normal(6) for A in inverses]
    return inverses, x, rng.uniform(0.5, 2.0, 6), rng.standard_normal(6)


def whole(inverses, x, load, c):
    """Solve (4.3) by least squares; return forces and the load's acceleration."""
    K = np.zeros((18, 18))
    for k, A in enumerate(inverses):
        own = slice(6 * k, 6 * k + 6)
        K[own, own], K[own, 12:], K[12:, own] = A, np.eye(6), np.eye(6)
    K[12:, 12:] = -np.diag(load)
    right = np.concatenate([*x, c])
    return K, right, np.linalg.lstsq(K, right, rcond=1e-10)[0]


@pytest.mark.parametrize("kind", ["regular", "one", "both", "meet 1", "meet 2"])
def test_method_ii_serves_every_pose(kind):
    """Trap 11: where null spaces meet, the bracket for f_2 is singular: its rank is decided."""
    rng = np.random.default_rng(len(kind))
    inverses, x, load, c = draw(rng, kind)
    K, right, expected = whole(inverses, x, load, c)
    given = [A.tolist() for A in inverses], [b.tolist() for b in x]
    a, forces = method_two(*given, (1.0 / load).tolist(), c.tolist())
    found = np.array([*forces[0], *forces[1], *a], float)
    size = np.abs(expected).max()
    np.testing.assert_allclose(found[12:], expected[12:], atol=1e-9 * size)
    np.testing.assert_allclose(K @ found, right, atol=1e-9 * size)
    zeros = int(kind[-1]) if kind.startswith("meet") else 0
    assert np.sum(found[6:12] == 0.0) == zeros
    assert np.all(found[:6] != 0.0)
    if not zeros:
        np.testing.assert_allclose(found, expected, atol=1e-9 * size)


def test_method_i_is_method_ii_of_regular_arms():
    inverses, x, load, c = draw(np.random.default_rng(1), "regular")
    given = [A.tolist() for A in inverses], [b.tolist() for b in x]
    first, f = method_one(*given, load.tolist(), c.tolist())
    second, g = method_two(*given, (1.0 / load).tolist(), c.tolist())
    np.testing.assert_allclose(first, second, rtol=1e-9)
    np.testing.assert_allclose(np.array(f), np.array(g), rtol=1e-8)
