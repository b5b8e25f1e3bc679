"""Forces of the joints that have motors, spread over the whole robot."""

import numpy as np
import pytest

import tiburon as tb
from benchmarks.robots import quadruped
from tests.robots import balloon, kicked
from tests.tolerances import SOLVE, assert_close


def test_motor_forces_are_placed_at_their_joints():
    """Twelve motor torques become eighteen joint forces whose first six are zero."""
    dog = quadruped()
    tau = np.random.default_rng(0).standard_normal((3, 12))
    full = dog.actuated(tau)
    assert full.shape == (3, 18)
    assert (full[:, :6] == 0.0).all()
    np.testing.assert_array_equal(full[:, 6:], tau)
    np.testing.assert_array_equal(full[:, dog.indices(dog.actuated_joint_names, of="v")], tau)


def test_names_select_the_motors_and_their_order():
    """Forces follow the names given, also where a joint has several degrees of freedom."""
    model = balloon()
    rng = np.random.default_rng(1)
    tau = rng.standard_normal(7)
    full = model.actuated(tau, ["j_basket", "j_arm"])
    np.testing.assert_array_equal(full, [tau[6], *tau[:6], 0.0])
    np.testing.assert_array_equal(full, model.actuated({"j_arm": tau[6], "j_basket": tau[:6]}))
    np.testing.assert_array_equal(model.actuated(2.0 * tau[:1], "j_flap")[7], 2.0 * tau[0])
    np.testing.assert_array_equal(model.actuated({}), np.zeros(8))


def test_forces_by_name_broadcast():
    """One number for all cases beside one per case."""
    full = balloon().actuated({"j_flap": np.array([[1.0], [2.0]]), "j_arm": 3.0})
    np.testing.assert_array_equal(full[:, [0, 7]], [[3.0, 1.0], [3.0, 2.0]])


def test_power_of_motors_is_the_power_of_the_spread_forces():
    """The map is the transpose of the one that picks the motors' velocities."""
    dog = quadruped()
    _, v, tau = kicked(dog)
    motors = dog.indices(dog.actuated_joint_names, of="v")
    assert dog.actuated(tau[motors]) @ v == pytest.approx(tau[motors] @ v[motors], rel=1e-14)


def test_a_controller_inside_a_compiled_function_may_spread_its_forces():
    """Traced forces are placed as numbers are, in an array or by name."""
    model = balloon()
    q, v, _ = kicked(model)

    def controlled(model, q, v):
        return (
            tb.forward_dynamics(model, q, v, model.actuated(-3.0 * v[[0, 7]])),
            tb.forward_dynamics(model, q, v, model.actuated({"j_arm": -3.0 * v[0]})),
        )

    both = tb.compile(controlled, model)(q, v)
    # known zeros are folded away, so that rounding differs from that of the general kernel
    tolerance = SOLVE * np.linalg.cond(tb.mass_matrix(model, q))
    tau = np.zeros(8)
    tau[0] = -3.0 * v[0]
    assert_close(both[1], tb.forward_dynamics(model, q, v, tau), tolerance)
    tau[7] = -3.0 * v[7]
    assert_close(both[0], tb.forward_dynamics(model, q, v, tau), tolerance)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: balloon().actuated(np.zeros(3)),
            "tau: expected 2 (of 'j_arm', 'j_flap'), got 3; batch dimensions lead",
        ),
        (
            lambda: quadruped().actuated(np.zeros(18)),
            "tau: expected 12 (of {} and 8 more joints), got 18; batch dimensions lead",
        ),
        (
            lambda: balloon().actuated({"j_basket": 1.0}),
            "tau['j_basket']: expected 6 (of the free joint 'j_basket'), got shape (); "
            "batch dimensions lead",
        ),
        (
            lambda: balloon().actuated(np.zeros(2), ["j_arm", "j_arm"]),
            "model 'balloon': joint 'j_arm' is named 2 times among the actuated joints; name each "
            "joint once",
        ),
        (
            lambda: balloon().actuated({"j_arn": 1.0}),
            "model 'balloon': unknown joint 'j_arn'; did you mean 'j_arm'? "
            "(model.joint_names lists all)",
        ),
    ],
)
def test_errors_state_the_remedy(act, message):
    """Every refusal names the joints, what was expected and the way out."""
    with pytest.raises(tb.TiburonError) as caught:
        act()
    first = ", ".join(map(repr, quadruped().actuated_joint_names[:4]))
    assert str(caught.value) == message.format(first)
