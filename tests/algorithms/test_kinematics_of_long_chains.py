"""Kinematics of robots too large to inline: visits recorded as steps, against dense matrices."""

import numpy as np
import pytest

import benchmarks.robots as measured
import tiburon as tb
from tests.oracles import absolute, frames
from tests.robots import ROBOTS, kicked
from tests.running import Interpreted
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tiburon.functions import kernel_source


@pytest.fixture(scope="module")
def chain():
    """Return a chain beyond what is inlined."""
    model = measured.chain(48)
    assert len(model.plan.bodies) > kernel_source.INLINED_BODIES
    return model


def test_motions_and_momentum_equal_dense_matrices(chain):
    """The same functions, natively on the tape."""
    q, v, vd = kicked(chain, 1)
    name = chain.frame_names[-1]
    J = frames.frame_jacobian(chain, q, name)
    scale = 10.0 * (1.0 + float(np.abs(v).sum())) ** 2
    assert_close(tb.frame_jacobian(chain, q, name), J)
    assert_close(tb.frame_velocity(chain, q, v, name), J @ v, ALGEBRA, scale)
    bias = tb.frame_jacobian_bias(chain, q, v, name)
    acceleration = tb.frame_acceleration(chain, q, v, vd, name)
    assert_close(acceleration, J @ vd + bias, ALGEBRA, scale)
    center = frames.center_of_mass(chain, q)
    assert_close(tb.center_of_mass(chain, q), center)
    matrix = frames.momentum_matrix(chain, q, center)
    weight = 10.0 * chain.total_mass * max(1.0, float(np.abs(center).max()))
    assert_close(tb.momentum_matrix(chain, q), matrix, ALGEBRA, weight)
    assert_close(tb.momentum(chain, q, v), matrix @ v, ALGEBRA, weight * scale)


def test_inverse_inertias_equal_dense_matrices(chain):
    """Forces passed inward, and responses carried outward, as steps."""
    q, *_ = kicked(chain, 2)
    pair = (chain.frame_names[-1], chain.frame_names[9])
    J = np.vstack([frames.frame_jacobian(chain, q, name) for name in pair])
    M = absolute.crba(chain, q)
    expected = J @ np.linalg.solve(M, J.T)
    scale = float(np.abs(expected).max() * np.linalg.cond(M))
    found = tb.operational_space_inverse_inertia(chain, q, pair)
    assert_close(found, expected, SOLVE, scale)
    assert_close(tb.cross_inverse_inertia(chain, q, *pair), expected[:6, 6:], SOLVE, scale)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("momentum_matrix", ()),
        ("operational_space_inverse_inertia", (("frames", ("tip", "a")),)),
        ("apparent_inverse_inertia", (("frame", "tip"), ("other", "d"))),
        ("frame_jacobian", (("frames", ("tip", "b")), ("at", "com"))),
    ],
)
def test_tape_equals_inlined_code(function, options, monkeypatch):
    """On a small forest, once inlined and once as steps."""
    model = ROBOTS["forest"]
    q, *_ = kicked(model, 3)
    inlined = Interpreted(model).run(function, (q,), options)
    monkeypatch.setattr(kernel_source, "INLINED_BODIES", 0)
    assert_close(Interpreted(model).run(function, (q,), options), inlined)


def test_inverse_kinematics_of_a_long_chain_on_steps():
    """Places at the start and the end are steps, the loop between them is inlined."""
    model = ROBOTS["odd_arm"]
    q, v, _ = kicked(model, 4)
    R, p = tb.forward_kinematics(model, model.integrate(q, 0.05 * v), "tip")
    options = (
        ("targets", (("tip", "world", True, True),)),
        ("limited", ()),
        ("max_iterations", 50),
    )
    arguments = (q, p, R, np.array(1e-9))
    expected, *_ = Interpreted(model).run("inverse_kinematics", arguments, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_source, "INLINED_BODIES", 0)
        found, *_ = Interpreted(model).run("inverse_kinematics", arguments, options)
    assert_close(found, expected)
