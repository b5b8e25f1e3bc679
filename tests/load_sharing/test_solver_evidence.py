"""What load sharing relies on in its solver: duality, starts, threads, changes of active rows."""

import numpy as np
import pytest

import tiburon as tb
from tests.trace.test_quadratic import compiled, problems
from tiburon.trace.primitives.quadratic import OPTIMAL, solve_qp

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


@pytest.fixture(scope="module")
def dog():
    """Return a quadruped."""
    return tb.load("quadruped")


def swaying(dog, count, strength=4.5):
    """Return states of a standing quadruped whose trunk is accelerated around a circle."""
    turn = 2.0 * np.pi * np.arange(count) / count
    q = np.tile(np.array(dog.poses["stand"]), (count, 1))
    vd = np.zeros((count, dog.nv))
    vd[:, 3:5] = strength * np.c_[np.cos(turn), np.sin(turn)]
    return q, np.zeros((count, dog.nv)), vd


def test_primal_and_dual_values_are_equal():
    """Strong duality (5.38): no gap at the optimum, and multipliers of any other kind give less."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        W, c, A1, b1, A2, b2 = (a[0] for a in problems(rng, 1, 7, 2, 14, "plain"))
        found = solve_qp(W, c, A1, b1, A2, b2)
        x, y1, y2 = found.x, found.equation_multipliers, found.inequality_multipliers
        primal = c @ x + 0.5 * x @ W @ x

        def dual(y1, y2, W=W, c=c, A1=A1, b1=b1, A2=A2, b2=b2):
            slope = A1.T @ y1 + A2.T @ y2 - c
            return b1 @ y1 + b2 @ y2 - 0.5 * slope @ np.linalg.solve(W, slope)

        assert dual(y1, y2) == pytest.approx(primal, rel=1e-9, abs=1e-9)
        other = np.abs(y2 + rng.standard_normal(len(y2)))
        assert dual(y1 + rng.standard_normal(2), other) < primal
        # without equations, as printed
        found = solve_qp(W, c, None, None, A2, b2)
        lam, x = found.inequality_multipliers, found.x
        inverse = np.linalg.inv(W)
        printed = (b2 + A2 @ inverse @ c) @ lam - 0.5 * lam @ A2 @ inverse @ A2.T @ lam
        primal = c @ x + 0.5 * x @ W @ x
        assert printed - 0.5 * c @ inverse @ c == pytest.approx(primal, rel=1e-9, abs=1e-9)


def test_threads_and_batches_change_no_bit():
    """One case, a batch on one thread and on two: the same bits."""
    problem = problems(np.random.default_rng(8), 67, 6, 2, 20, "plain")
    kernel = compiled(6, 2, 20)
    one, two = (kernel(*problem, threads=threads) for threads in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    for k in (0, 33, 66):
        for a, b in zip(kernel(*(array[k] for array in problem)), one, strict=True):
            np.testing.assert_array_equal(a, b[k])


@pytest.mark.parametrize("sides", [None, 6, 64])
def test_warm_start_does_not_change_the_shared_load(dog, sides):
    """Limits of the state before are tried first, and end at the same forces to 1e-10."""
    plan = tb.LoadSharing.of(dog, world=FLOOR, sides=sides)
    q, v, vd = swaying(dog, 24)
    last, cold_steps, warm_steps = None, 0.0, 0.0
    for k in range(24):
        cold = plan.share(q[k], v[k], vd[k])
        assert cold.is_feasible
        if last is not None:
            warm = plan.share(q[k], v[k], vd[k], before=last)
            scale = np.abs(cold.x).max()
            np.testing.assert_allclose(warm.x, cold.x, rtol=0, atol=1e-10 * scale)
            cold_steps, warm_steps = cold_steps + cold.iterations, warm_steps + warm.iterations
        last = cold
    assert warm_steps <= cold_steps


@pytest.mark.parametrize("sides", [None, 4, 6, 16, 64])
def test_warm_starts_save_iterations_on_random_motions(dog, sides):
    """Warm starts take no more iterations than cold ones over many random motions.

    Every iteration adds one constraint, and none takes fewer than there are active ones; a warm
    start saves those that leave again. Of a single state it may need more, where other limits are
    active than before: the claim is on the sum.
    """
    plan = tb.LoadSharing.of(dog, world=FLOOR, sides=sides)
    cold_steps = warm_steps = least = 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        q, v, vd = swaying(dog, int(rng.integers(20, 80)), rng.uniform(2.0, 5.0))
        turn = np.linspace(0.0, 2.0 * np.pi, len(q))[:, None] + rng.uniform(0.0, 6.0)
        vd[:, :3] = 0.5 * rng.standard_normal(3) * np.cos(turn)
        feasible = plan.share(q, v, vd).is_feasible
        now = 1 + np.flatnonzero(feasible[1:] & feasible[:-1])
        before = plan.share(q[now - 1], v[now], vd[now - 1])
        cold = plan.share(q[now], v[now], vd[now])
        warm = plan.share(q[now], v[now], vd[now], before=before)
        scale = np.abs(cold.x).max()
        np.testing.assert_allclose(warm.x, cold.x, rtol=0, atol=1e-9 * scale)
        cold_steps, warm_steps = (
            cold_steps + cold.iterations.sum(),
            warm_steps + warm.iterations.sum(),
        )
        least += np.count_nonzero(cold.multipliers > 0.0)
    assert least > 200
    assert least <= warm_steps <= cold_steps


def test_changes_of_the_active_set_are_flagged(dog):
    """Where the optimum just reaches a limit, slopes differ to both sides; the limit is named."""
    q = np.array(dog.poses["stand"])
    free = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q)
    joint = "front_left_knee"
    index = dog.slice(joint, of="v").start
    bound = abs(free.tau[index])
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits={joint: (-bound, bound)})
    vd = np.zeros((3, dog.nv))
    vd[:, 5] = (-1e-3, 0.0, 1e-3)
    share = plan.share(np.tile(q, (3, 1)), 0.0 * vd, vd)
    side = "least force" if free.tau[index] < 0.0 else "largest force"
    wanted = plan.limit_names.index(f"{joint}: {side}")
    assert share.at_change.shape == (3, len(plan.limit_names))
    assert list(share.at_change[:, wanted]) == [False, True, False]
    assert share.at_change.sum() == 1
    # beyond it, the torque stays and others give way
    slopes = np.diff(share.tau[:, index]) / 1e-3
    assert abs(slopes[0]) > 0.1 > 1e-6 > abs(slopes[1])
    assert f"about to reach or leave its limit: {joint}" in share.summary.splitlines()[1]
    assert "about to" not in share.summary.splitlines()[2]


def test_lifted_feet_are_not_about_to_change(dog):
    """Forces of a foot in the air are zero, and so are its margins: that is no limit reached."""
    q = np.array(dog.poses["stand"])
    share = tb.LoadSharing.of(dog, world=FLOOR).share(q, touching=[0, 1, 1, 1])
    assert share.is_feasible
    assert np.sum(np.abs(share.margins.array) == 0.0) >= 2
    assert not share.at_change.any()


class ActiveSet:
    """The method of the source in plain NumPy, with counts of what it does.

    Args:
        is_normalized: Whether violations are divided by the length of their rows (5.40b).
        starts_at_equations: Whether equations are active from the start; else they enter as any
            other row, and never leave.
    """

    def __init__(self, *, is_normalized=True, starts_at_equations=True):
        self.is_normalized, self.starts = is_normalized, starts_at_equations
        self.added = self.dropped = 0

    def solve(self, W, c, A1, b1, A2, b2):
        """Return the optimum."""
        A, b = np.vstack([A1, A2]), np.concatenate([b1, b2])
        equations = len(b1)
        inverse = np.linalg.inv(W)
        active = list(range(equations)) if self.starts else []
        x = -inverse @ c
        if active:
            x = x + inverse @ A1.T @ np.linalg.solve(A1 @ inverse @ A1.T, b1 - A1 @ x)
        y = np.zeros(len(active))
        lengths = np.linalg.norm(A, axis=1) if self.is_normalized else np.ones(len(b))
        for _ in range(500):
            s = A @ x - b
            worst = s / lengths
            worst[:equations] = -np.abs(worst[:equations])
            worst[active] = 0.0
            entering = int(np.argmin(worst))
            if worst[entering] > -1e-9:
                return x
            # an equation enters from the side that it is violated on
            sign = -np.sign(s[entering]) if entering < equations else 1.0
            a, right, total = sign * A[entering], sign * b[entering], 0.0
            while True:
                N = A[active].T
                inner = N.T @ inverse @ N
                r = np.linalg.solve(inner, N.T @ inverse @ a) if active else np.zeros(0)
                z = inverse @ (a - N @ r)
                full = (right - a @ x) / (z @ a) if z @ a > 1e-12 * (a @ inverse @ a) else np.inf
                ratios = [
                    (y[k] / r[k], k)
                    for k, row in enumerate(active)
                    if row >= equations and r[k] > 1e-12
                ]
                part, leaving = min(ratios, default=(np.inf, -1))
                step = min(full, part)
                x, y, total = x + step * z, y - step * r, total + step
                if full <= part:
                    active, y = [*active, entering], np.append(y, sign * total)
                    self.added += 1
                    break
                self.dropped += 1
                del active[leaving]
                y = np.delete(y, leaving)
        raise AssertionError("the method did not end")


def leg_problems():
    """Return programs of walking machines of four and six legs in motion."""
    from benchmarks.measure_load_sharing import _legs

    for count in (4, 6):
        case = _legs(count)
        for k in range(0, 200, 5):
            state = [array[k] for array in case.states.values()]
            yield [np.array(part, dtype=np.float64) for part in case.build(*state)]


def test_claims_about_the_method_hold_for_forces():
    """Nahon 1991, section 5.4.2 (L2264-L2299), on walking machines.

    Dividing violations by the lengths of rows does not cost steps; constraints that are added are
    rarely dropped; starting at the optimum of the equations saves their steps. All ways end at the
    same optimum, which is that of `solve_qp`.
    """
    ways = {
        "normalized": ActiveSet(),
        "raw": ActiveSet(is_normalized=False),
        "equations enter": ActiveSet(starts_at_equations=False),
    }
    ours, count = 0.0, 0
    for program in leg_problems():
        found = solve_qp(*program)
        assert found.status == OPTIMAL
        ours, count = ours + found.iterations, count + 1
        for way in ways.values():
            x = way.solve(*program)
            np.testing.assert_allclose(x, found.x, rtol=0, atol=1e-6 * np.abs(x).max())
    normalized, raw, entering = ways.values()
    assert normalized.added + normalized.dropped <= raw.added + raw.dropped
    assert normalized.dropped <= 0.25 * normalized.added
    assert entering.added >= normalized.added + 6 * count
    # rounding decides about feet without load: some steps more
    assert ours <= 1.3 * (normalized.added + normalized.dropped)


def test_drops_are_common_on_random_problems():
    """Constraints that are dropped are rare only where forces are shared (B1)."""
    rng = np.random.default_rng(2)
    way = ActiveSet()
    for _ in range(40):
        way.solve(*(a[0] for a in problems(rng, 1, 6, 2, 18, "plain")))
    assert way.dropped > 0.05 * way.added
