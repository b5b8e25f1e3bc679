"""Joints and plans run on traced values and give what they give on floats."""

import numpy as np
import pytest

from tests.model.samples import ROUNDING, random_inertia
from tests.model.test_joints import JOINTS
from tiburon.algorithms.aba import accelerate_joint, eliminate_joint
from tiburon.model import Free, Revolute
from tiburon.spatial import ArticulatedInertia, Force, Motion
from tiburon.trace import count, interpret, trace

moving = [joint for joint in JOINTS if joint.nv > 0]
each_moving_joint = pytest.mark.parametrize("joint", moving, ids=lambda joint: joint.name)


def scalars(array):
    return [array[i] for i in range(array.shape[0])]


@each_moving_joint
def test_positions_are_the_same_traced(joint):
    rng = np.random.default_rng(1)
    q0, q1 = joint.random(rng), joint.random(rng)
    dv = tuple(rng.standard_normal(joint.nv).tolist())

    def positions(q0, q1, dv):
        a, b, d = scalars(q0), scalars(q1), scalars(dv)
        X = joint.transform(a)
        return np.stack(
            [
                *joint.integrate(a, d),
                *joint.difference(a, b),
                *joint.normalize(a),
                *X.translation,
                *(x for row in X.rotation for x in row),
                *joint.motion(a, d),
            ]
        )

    inputs = {"q0": (joint.nq,), "q1": (joint.nq,), "dv": (joint.nv,)}
    traced = interpret(trace(positions, inputs), [np.array(x) for x in (q0, q1, dv)])
    floats = positions(*(np.array(x) for x in (q0, q1, dv)))
    np.testing.assert_allclose(traced, floats, rtol=0, atol=ROUNDING)


def articulated_step(joint):
    def step(q, I, p, c, tau, a):
        position = scalars(q)
        inertia = ArticulatedInertia.from_array(scalars(I))
        pA, velocity_product = Force.from_array(scalars(p)), Motion.from_array(scalars(c))
        Ia, pa, carry = eliminate_joint(joint, position, inertia, pA, scalars(tau))
        pa = Ia.apply(velocity_product, start=pa)
        qdd, acceleration = accelerate_joint(joint, position, carry, Motion.from_array(scalars(a)))
        return np.stack([*Ia, *pa]), np.stack([*qdd, *acceleration])

    return step


SHAPES = {"q": (1,), "I": (21,), "p": (6,), "c": (6,), "tau": (1,), "a": (6,)}


@each_moving_joint
def test_articulated_step_is_the_same_traced(joint):
    rng = np.random.default_rng(2)
    inertia = (random_inertia(rng).rigid.articulated() + random_inertia(rng).rigid).array
    numbers = [
        np.array(joint.random(rng)),
        inertia,
        *rng.standard_normal((2, 6)),
        rng.standard_normal(joint.nv),
    ]
    numbers.append(rng.standard_normal(6))
    step = articulated_step(joint)
    traced = interpret(trace(step, {**SHAPES, "q": (joint.nq,), "tau": (joint.nv,)}), numbers)
    for a, b in zip(traced, step(*numbers), strict=True):
        # zeros known to the tracer are rounding errors of accelerations near 100 on floats
        np.testing.assert_allclose(a, b, rtol=0, atol=100 * ROUNDING)


def test_cost_of_an_articulated_hinge_excludes_known_zeros():
    """W 5, rank one 15, Ia c 25 (5 x 5), W u 5, u/d 1 and W a 5 multiplications, for any axis."""
    for axis in np.eye(3):
        counted = count(trace(articulated_step(Revolute("j", axis)), SHAPES))
        assert counted.multiplications <= 5 + 15 + 25 + 5 + 1 + 5
        assert counted.divisions == 1


def test_freed_floating_base_costs_one_symmetric_factorization():
    """LDL^T of a 6 x 6 matrix: 50 multiplications and 6 divisions; its solution: 15 + 6 + 15."""
    counted = count(trace(articulated_step(Free("f")), {**SHAPES, "q": (7,), "tau": (6,)}))
    assert counted.multiplications <= 50 + 36
    assert counted.divisions == 6
