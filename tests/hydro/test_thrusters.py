"""Thrusters: curves, places, and what they do to joints."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.hydro.thrust import command_for, thrust_of, thrust_range


def thruster(curve, **options):
    return tb.Thruster("t", "hull", curve=curve, **options)


@pytest.mark.parametrize(
    ("curve", "command", "expected"),
    [
        (tb.LinearThrust(3.0), -2.0, -6.0),
        (tb.LinearThrust(3.0, dead_band=(-0.5, 1.0)), 3.0, 6.0),
        (tb.LinearThrust(3.0, dead_band=(-0.5, 1.0)), -2.0, -4.5),
        (tb.LinearThrust(3.0, dead_band=(-0.5, 1.0)), 0.9, 0.0),
        (tb.QuadraticThrust(2.0), 3.0, 18.0),
        (tb.QuadraticThrust(2.0, backward=1.0), -3.0, -9.0),
        (tb.QuadraticThrust(2.0, dead_band=(-1.0, 1.0)), 3.0, 8.0),
        (tb.TableThrust((-1, 0, 2), (-4, 0, 10)), 1.0, 5.0),
        (tb.TableThrust((-1, 0, 2), (-4, 0, 10)), -0.5, -2.0),
        (tb.TableThrust((-1, 0, 2), (-4, 0, 10)), 99.0, 10.0),
        (tb.TableThrust((-1, 0, 2), (-4, 0, 10)), -99.0, -4.0),
    ],
)
def test_thrust_curves(curve, command, expected):
    assert_close(float(thrust_of(thruster(curve), command)), expected)


def test_limits_hold_command_and_thrust():
    limited = thruster(tb.LinearThrust(3.0), command_limits=(-1.0, 2.0), thrust_limits=(-2.0, 5.0))
    assert float(thrust_of(limited, 9.0)) == 5.0
    assert float(thrust_of(limited, -9.0)) == -2.0
    assert float(thrust_of(limited, 1.0)) == 3.0


def vehicle():
    bodies = [
        tb.Body("hull", joint=tb.Free("float"), inertia=tb.Inertia.box(30.0, (1.0, 0.5, 0.4))),
        tb.Body(
            "arm",
            "hull",
            joint=tb.Revolute("shoulder", (0, 1, 0), pose=tb.Pose(translation=(0.5, 0, 0))),
            inertia=tb.Inertia.point(1.0, (0.3, 0, 0)),
        ),
    ]
    frames = [tb.Frame("tail", "hull", tb.Pose.from_rpy((0, 0, 0.3), (-0.5, 0.1, 0)))]
    thrusters = [
        tb.Thruster(
            "main", "tail", (0, 0, 0.1), (1, 0, 0), tb.QuadraticThrust(0.5), torque_ratio=0.02
        ),
        tb.Thruster("tip", "arm", (0.3, 0, 0), (0, 0, 1)),
    ]
    return tb.Model("vehicle", bodies, frames, thrusters=thrusters)


def test_joint_forces_do_the_work_of_the_thrusters():
    """Power is thrust along the velocity of its place, and moment along the turning."""
    model = vehicle()
    q, v = model.random_state(3)
    u = np.array([4.0, -2.5])
    tau = tb.thruster_force(model, q, u)
    power = 0.0
    for t, thrust in zip(model.thrusters, (8.0, -2.5), strict=True):
        motion = tb.frame_velocity(model, q, v, t.body, axes="frame")
        w, speed = motion[:3], motion[3:] + np.cross(motion[:3], t.position)
        power += thrust * (speed @ t.direction + t.torque_ratio * (w @ t.direction))
    assert_close(tau @ v, power)
    assert_close(tb.thruster_force_of_thrust(model, q, (8.0, -2.5)), tau)


def test_batches_and_external_forces_agree():
    model = vehicle()
    q, v = model.random_state(3, (5,))
    u = np.random.default_rng(0).normal(size=(5, 2))
    tau = tb.thruster_force(model, q, u)
    for k in range(5):
        t = model.thrusters[1]
        lone = tb.thruster_force_of_thrust(model, q[k], (0.0, u[k, 1]))
        force = np.concatenate([np.cross(t.position, t.direction), t.direction]) * u[k, 1]
        vd = tb.forward_dynamics(model, q[k], v[k], lone)
        same = tb.forward_dynamics(model, q[k], v[k], np.zeros(7), external_force={"arm": force})
        assert_close(vd, same, 1e-11)
        assert np.array_equal(tb.thruster_force(model, q[k], u[k]), tau[k])


def test_wrong_numbers_of_commands_are_refused():
    model = vehicle()
    with pytest.raises(tb.ShapeError, match=r"2 \(one per thruster: main, tip\)"):
        tb.thruster_force(model, model.neutral(), (1.0, 2.0, 3.0))
    dry = tb.Model("dry", model.bodies)
    with pytest.raises(tb.ModelError, match="robot with thrusters"):
        tb.thruster_force(dry, dry.neutral(), ())


def test_robots_that_differ_in_their_thrusters_share_no_code():
    model = vehicle()
    q = model.neutral()
    stronger = [tb.Thruster("main", "tail"), tb.Thruster("tip", "arm")]
    other = tb.Model("vehicle", model.bodies, model.frames, thrusters=stronger)
    first = tb.thruster_force(model, q, (1.0, 1.0))
    assert not np.allclose(tb.thruster_force(other, q, (1.0, 1.0)), first)


@pytest.mark.parametrize(
    ("curve", "limits", "reach"),
    [
        (tb.LinearThrust(3.0), {}, (-np.inf, np.inf)),
        (tb.LinearThrust(-3.0), {"command_limits": (-1.0, 2.0)}, (-6.0, 3.0)),
        (tb.LinearThrust(2.0, dead_band=(-0.5, 1.0)), {"command_limits": (-2, 4)}, (-3.0, 6.0)),
        (tb.QuadraticThrust(2.0, backward=1.0), {"command_limits": (-3.0, 2.0)}, (-9.0, 8.0)),
        (tb.QuadraticThrust(2.0), {"thrust_limits": (-5.0, 7.0)}, (-5.0, 7.0)),
        (tb.QuadraticThrust(2.0, dead_band=(-1.0, 1.0)), {"command_limits": (0, 3)}, (0.0, 8.0)),
        (tb.TableThrust((-1, 0, 2), (-4, 0, 10)), {}, (-4.0, 10.0)),
        (tb.TableThrust((-1, 0, 2), (-4, 0, 10)), {"command_limits": (-0.5, 1)}, (-2.0, 5.0)),
        (tb.LinearThrust(0.0), {}, (0.0, 0.0)),
    ],
)
def test_commands_for_thrusts(curve, limits, reach):
    """The command found gives the thrust, over all of its range and not beyond."""
    chosen = thruster(curve, **limits)
    low, high = thrust_range(chosen)
    assert (low, high) == reach
    for thrust in np.linspace(max(low, -50.0), min(high, 50.0), 11):
        command = command_for(chosen, float(thrust))
        least, most = chosen.command_limits
        assert least <= command <= most
        # a root and a square, or a share of a line
        assert_close(float(thrust_of(chosen, command)), thrust, 1e-9)
    if np.isfinite(high):
        with pytest.raises(tb.DomainError, match="'t'"):
            command_for(chosen, high + 0.1)
    if low <= 0.0 <= high:
        assert float(thrust_of(chosen, command_for(chosen, 0.0))) == 0.0


def test_thrust_follows_its_command_with_a_lag():
    """1 - 1/e of the way in one time constant; steps of any length; at once without a constant."""
    lagging = [
        tb.Thruster("main", "tail", curve=tb.QuadraticThrust(2.0), time_constant=0.2),
        tb.Thruster("tip", "arm"),
    ]
    base = vehicle()
    model = tb.Model("vehicle", base.bodies, base.frames, thrusters=lagging)
    thrust, commands = np.array([3.0, -1.0]), np.array([2.0, 5.0])
    found = tb.thrust_after(model, thrust, commands, 0.2)
    assert_close(found, (8.0 - 5.0 / np.e, 5.0))
    halves = tb.thrust_after(model, tb.thrust_after(model, thrust, commands, 0.1), commands, 0.1)
    assert_close(halves, found)
    assert_close(tb.thrust_after(model, thrust, commands, 1e3), (8.0, 5.0))
    assert np.array_equal(tb.thrust_after(model, thrust, commands, 0.0)[:1], thrust[:1])
    times = np.linspace(0.0, 1.0, 6)
    many = tb.thrust_after(model, thrust, commands, times)
    single = [tb.thrust_after(model, thrust, commands, t) for t in times]
    assert np.array_equal(many, single)
    # the rate that it solves
    rate = (tb.thrust_after(model, found, commands, 1e-7) - found)[0] / 1e-7
    assert_close(rate, (8.0 - found[0]) / 0.2, 1e-6)
