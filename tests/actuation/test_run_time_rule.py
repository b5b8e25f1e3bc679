"""One rule for all elements: where and which is compiled in, how much is a run-time number."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.actuation.actuator_drive import ForceDrive, MotorDrive
from tiburon.actuation.cylinder_drive import CylinderDrive
from tiburon.actuation.point_spring import PointSpring
from tiburon.actuation.thruster_drive import ThrusterDrive


def thruster(curve, **numbers):
    return ThrusterDrive("t", tb.Thruster("t", "hull", curve=curve, **numbers))


def actuator(kind, **numbers):
    return kind("a", tb.Actuator("a", "x", **numbers))


def cylinder(area, **numbers):
    ends = {"first": "world", "second": "hull", "stroke": 0.5, "retracted_length": 0.4}
    data = tb.HydraulicCylinder(
        "c", cap_area=area, rod_area=0.5 * area, valve_gain=1e-7, **ends, **numbers
    )
    return CylinderDrive("c", data)


def spring(**numbers):
    return PointSpring("s", tb.Spring("s", "world", "hull", **numbers))


def stops(*numbers):
    return tb.JointStops("stops", (tb.JointStop("x", 0, *numbers),))


PAIRS = {
    "linear thruster": (
        thruster(tb.LinearThrust(2.0), command_limits=(-1, 1), time_constant=0.1),
        thruster(tb.LinearThrust(3.0), command_limits=(-2, 2), time_constant=0.2),
    ),
    "quadratic thruster": (
        thruster(tb.QuadraticThrust(2.0, 1.5, dead_band=(-0.1, 0.1)), thrust_limits=(-5, 9)),
        thruster(tb.QuadraticThrust(3.0, 1.0, dead_band=(-0.2, 0.1)), thrust_limits=(-4, 8)),
    ),
    "thruster by table": (
        thruster(tb.TableThrust((-1, 0, 1), (-4, 0, 6))),
        thruster(tb.TableThrust((-2, 0, 1), (-5, 0, 7))),
    ),
    "ideal actuator": (
        actuator(ForceDrive, force_limits=(-3, 3), speed_limit=2.0),
        actuator(ForceDrive, force_limits=(-2, 4), speed_limit=1.0),
    ),
    "motor": tuple(
        actuator(MotorDrive, motor=tb.Motor(resistance=r, torque_constant=k), ratio=10.0 * k)
        for r, k in ((1.0, 0.05), (2.0, 0.08))
    ),
    "motor by force": tuple(
        actuator(
            ForceDrive,
            motor=tb.Motor(r, k, friction=0.1 * r, brush_drop=k, current_limit=4.0 * r),
            ratio=10.0 * k,
            command="force",
        )
        for r, k in ((1.0, 0.05), (2.0, 0.08))
    ),
    "cylinder": (cylinder(2e-3, valve_time=0.01), cylinder(3e-3, valve_time=0.02)),
    "spring": (spring(stiffness=10.0), spring(stiffness=20.0, damping=3.0, rest_length=0.1)),
    "stops": (stops(-1.0, 1.0, 1e3, 10.0), stops(-2.0, 0.5, 2e3, 5.0)),
    "friction": (
        tb.StickSlip("f", "x", friction=1.0),
        tb.StickSlip("f", "x", friction=2.0, bend=1e-3),
    ),
    "short table": (
        tb.JointForceSchedule("s", "x", (0.0, 1.0), (1.0, 2.0)),
        tb.JointForceSchedule("s", "x", (0.5, 1.5), (3.0, 2.0)),
    ),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_changed_parameters_share_code(kind):
    """Structures are equal, run-time numbers are as many and others."""
    first, second = PAIRS[kind]
    assert repr(first.structure()) == repr(second.structure())
    assert len(first.parameters()) == len(second.parameters())
    assert first.parameters() != second.parameters()


def test_absent_limits_have_their_own_code():
    """What would cost nothing is left out of the code."""
    curve = tb.LinearThrust(2.0)
    forms = [
        thruster(curve),
        thruster(curve, command_limits=(-1, 1)),
        thruster(curve, thrust_limits=(-1, 1)),
        thruster(tb.LinearThrust(2.0, dead_band=(-0.1, 0.1))),
        thruster(curve, time_constant=0.1),
        thruster(tb.QuadraticThrust(2.0)),
        thruster(tb.QuadraticThrust(2.0, 1.0)),
        thruster(tb.TableThrust((-1, 0, 1), (-4, 0, 6))),
    ]
    assert len({repr(form.structure()) for form in forms}) == len(forms)


def test_cases_have_thrusters_of_their_own():
    """Curves of a batch, as runs alone with such a thruster give them."""
    body = tb.Body(
        "hull",
        joint=tb.Prismatic("x", axis=(1, 0, 0)),
        inertia=tb.Inertia.point(2.0),
    )

    def boat(factor):
        jet = tb.Thruster(
            "jet", "hull", curve=tb.QuadraticThrust(factor, 0.5 * factor), time_constant=0.2
        )
        return tb.Model("boat", [body], thrusters=[jet])

    factors = (2.0, 3.0, 5.0)
    command = {"jet": 0.7}
    curves = {
        "jet.curve.forward": np.array(factors),
        "jet.curve.backward": 0.5 * np.array(factors),
    }
    many = tb.simulate(
        boat(factors[0]), 0.5, command=command, method=tb.RK4(dt=5e-3), parameters=curves
    )
    for k, factor in enumerate(factors):
        alone = tb.simulate(boat(factor), 0.5, command=command, method=tb.RK4(dt=5e-3))
        assert np.array_equal(many.v[:, k], alone.v)
    # thrust f (1 - exp(-t / T)), integrated; rk4 leaves (dt / T)^4 / 120 of it, 3e-9
    f, T, t = 5.0 * 0.49, 0.2, 0.5
    assert_close(many.v[-1, 2], [f / 2.0 * (t - T * (1.0 - np.exp(-t / T)))], 1e-7)
