"""Light and heavy loads of closed chains: methods against a solution in extended precision."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.dense import allowed
from tests.loops.random_stars import random_star
from tests.loops.test_methods import motion
from tiburon.algorithms.joint_space import expanded_parents, joint_space_terms
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import constraints, jacobian_pattern
from tiburon.trace.primitives.tree import FactorTree

EPSILON = np.finfo(np.float64).eps

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="long doubles of this machine are doubles"
)


def exact_accelerations(model, q, v, tau):
    """Solve motion and constraints together in extended precision, with total pivoting."""
    wide = np.longdouble
    q, v, gravity = ([wide(x) for x in values] for values in (q, v, (0.0, 0.0, -9.81)))
    plan, nv = model.plan, model.nv
    mass, C = joint_space_terms(plan, JointVector(q), JointVector(v), tuple(gravity), None)
    terms = constraints(model, plan, JointVector(q), JointVector(v))
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
    size = nv + len(live)
    K = np.zeros((size, size), wide)
    for (i, j), h in zip(FactorTree(expanded_parents(plan)).layout.elements(), mass, strict=True):
        K[i, j] = K[j, i] = h
    for n, k in enumerate(live, nv):
        for i, x in terms.jacobian[k].items():
            K[n, i] = K[i, n] = x
    right = np.array(
        [*(t - c for t, c in zip(tau, C, strict=True)), *(-terms.bias[k] for k in live)]
    )
    columns = np.arange(size)
    for k in range(size):
        i, j = np.unravel_index(np.argmax(np.abs(K[k:, k:])), (size - k, size - k))
        i, j = i + k, j + k
        K[[k, i]], right[[k, i]] = K[[i, k]], right[[i, k]]
        K[:, [k, j]], columns[[k, j]] = K[:, [j, k]], columns[[j, k]]
        factor = K[k + 1 :, k] / K[k, k]
        K[k + 1 :] -= np.outer(factor, K[k])
        right[k + 1 :] -= factor * right[k]
    x = np.zeros(size, wide)
    for k in range(size - 1, -1, -1):
        x[columns[k]] = (right[k] - K[k, k + 1 :] @ x[columns[k + 1 :]]) / K[k, k]
    return x[:nv]


def with_load(model, factor):
    """Return a robot whose load has another inertia."""

    def scaled(body):
        own = body.inertia
        if body.name != "load":
            return body
        return replace(
            body, inertia=tb.Inertia(own.mass * factor, own.com, [x * factor for x in own.tensor])
        )

    return tb.Model(model.name, [scaled(body) for body in model.bodies], loops=model.loops)


@pytest.mark.parametrize("grasp", ["rigid", "ball"])
@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_errors_follow_the_reported_ratio(grasp, factor):
    """Two ball grasps leave a load free to spin: its own inertia alone counts there."""
    rng = np.random.default_rng(3)
    model, q = random_star("free load", rng, arms=2, grasp=grasp)
    model = with_load(model, factor)
    v, tau = allowed(model, q, rng.standard_normal(model.nv)), rng.standard_normal(model.nv)
    exact = exact_accelerations(model, q, v, tau)
    size = float(np.abs(exact).max())
    errors = {}
    for method in ("star", "augmented", "handles"):
        found = motion(model, q, v, tau, method, gravity=(0.0, 0.0, -9.81))
        errors[method] = float(np.abs(np.array(found.vd) - exact).max()) / size
        # the condition is squared; constants of some tens belong to the size of the mechanism
        assert errors[method] < 100.0 * EPSILON / found.ratio**2
    assert errors["star"] < 1e-9


@interpreting()
def test_weak_reference_members_take_the_branch_of_singular_arms():
    """Batches mix loads that are light and others; each case has the bits it has alone."""
    rng = np.random.default_rng(5)
    model, q = random_star("free load", rng, arms=2, grasp="ball")
    model = with_load(model, 1e-9)
    v = np.stack([allowed(model, q, rng.standard_normal(model.nv)) for _ in range(3)])
    tau = rng.standard_normal((3, model.nv))
    many = tb.loop_dynamics(model, q, v, tau, method="star")
    assert many.singular_arms == ((), (), ())
    for k in range(3):
        one = tb.loop_dynamics(model, q, v[k], tau[k], method="star")
        np.testing.assert_array_equal(one.acceleration, many.acceleration[k])
