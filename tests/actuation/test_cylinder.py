"""Hydraulic cylinders."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import moment, power, slider, stepper
from tiburon.actuation.cylinder_drive import LAMINAR_FRACTION, orifice_flow
from tiburon.actuation.defaults import as_elements

RANDOM = np.random.default_rng()

RAM = {
    "cap_area": 1.2e-3,
    "rod_area": 0.8e-3,
    "stroke": 0.4,
    "supply_pressure": 16e6,
    "valve_gain": 3e-7,
}


def ram(joint="x", **data):
    """Return the element of a cylinder on a slider."""
    given = {**RAM, **data}
    (element,) = as_elements([tb.HydraulicCylinder("ram", joint=joint, **given)])
    return element


def volumes(c, x):
    """Return the volumes of both chambers."""
    return c.dead_volume + c.cap_area * x, c.dead_volume + c.rod_area * (c.stroke - x)


def test_closed_cylinder_acts_as_an_oil_spring():
    """With the valve shut a mass swings at sqrt(b (A1^2 / V1 + A2^2 / V2) / m)."""
    m, x0 = 80.0, 0.15
    element = ram()
    c = element.cylinder
    block = slider(m)
    _, run = stepper(block, [element])
    pressures = element.initial_state(block)
    V1, V2 = volumes(c, x0)
    w = math.sqrt(c.bulk_modulus * (c.cap_area**2 / V1 + c.rod_area**2 / V2) / m)
    # a swing so small that volumes stay: 1 mm/s at some 500 rad/s
    v0, steps = 1e-3, 400
    end = run([x0, v0, *pressures], dt=math.pi / w / steps, count=steps)
    # after half a period the speed has turned, but for a change of volume of 1e-6 / 0.15
    assert end[1] == pytest.approx(-v0, rel=1e-4)
    assert end[0] == pytest.approx(x0, abs=2e-4 * v0 / w)


def test_a_half_open_valve_moves_a_free_piston_at_the_speed_of_its_flow():
    """Without load both chambers share the pressure: x' follows from two orifices in a row.

    Q1 = g sqrt(ps - p1) = A1 x', Q2 = g sqrt(p2 - pt) = A2 x', p1 A1 = p2 A2.
    """
    element = ram()
    c = element.cylinder
    _, run = stepper(slider(5.0), [element])
    start = element.initial_state(None)
    end = run([0.05, 0.0, *start], {"ram": 0.5}, dt=2e-5, count=20000)
    g, A1, A2, ps = 0.5 * c.valve_gain, c.cap_area, c.rod_area, c.supply_pressure
    # p1 = ps - (A1 x'/g)^2, p2 = (A2 x'/g)^2
    speed = g * math.sqrt(ps * A1 / (A1**3 + A2**3))
    # the root is smoothed below 0.16 MPa, which changes it by (0.16 / 7)^2 / 4 at 7 MPa
    assert end[1] == pytest.approx(speed, rel=3e-4)
    assert end[2] * A1 == pytest.approx(end[3] * A2, rel=1e-6)


def test_stalled_cylinder_has_the_force_of_pump_pressure():
    """Held still with an open valve the force becomes supply A1, that of the rod side none."""
    element = ram()
    c = element.cylinder
    _, run = stepper(slider(1e9), [element])
    end = run([0.2, 0.0, *element.initial_state(None)], {"ram": 1.0}, dt=1e-4, count=20000)
    assert end[2] == pytest.approx(c.supply_pressure, rel=1e-3)
    # draining, pressure ends within the laminar range
    assert abs(end[3]) < LAMINAR_FRACTION * c.supply_pressure


def test_closed_cylinder_is_passive():
    """Power at the piston = -(rate of the oil's energy) - losses in leak and seals, exactly."""
    block = slider()
    for _ in range(30):
        element = ram(leakage=2e-12, damping=300.0)
        x, v = RANDOM.uniform(0.05, 0.35), RANDOM.normal()
        p = RANDOM.uniform(1e5, 15e6, 2)

        def energy(h, element=element, x=x, v=v, p=p):
            rates = element.act(moment(element, block, [x], [v], x=tuple(p), u=(0.0,))).rates
            moved = tuple(a + h * r for a, r in zip(p, rates, strict=True))
            now = moment(element, block, [x + h * v], [v], x=moved, u=(0.0,))
            return element.act(now).outputs["ram.energy"]

        h = 1e-6
        rate = (energy(h) - energy(-h)) / (2.0 * h)
        action = element.act(moment(element, block, [x], [v], x=tuple(p), u=(0.0,)))
        given = power(block, np.array([x]), np.array([v]), action)
        b = element.cylinder.bulk_modulus
        heads = b * np.expm1(p / b)
        lost = 300.0 * v * v + 2e-12 * (p[0] - p[1]) * (heads[0] - heads[1])
        # differences of an energy of some 1e4 J with h = 1e-6 s
        assert given == pytest.approx(-rate - lost, rel=1e-5, abs=1e-2)
        assert lost >= 0.0


def test_pressures_stay_between_tank_and_relief():
    """A heavy mass that runs into a shut cylinder opens its relief; the other side refills."""
    element = ram(relief_pressure=20e6)
    _, run = stepper(slider(4000.0), [element])
    state = np.array([0.3, -1.0, *element.initial_state(None)])
    seen = []
    for _ in range(60):
        state = run(state, dt=2e-5, count=100)
        seen.append(state[2:4])
    seen = np.array(seen)
    # relief valves are fully open within 5 % of the supply pressure
    assert seen.max() < 20e6 + 16e6
    assert seen.max() > 20e6
    assert seen.min() > -2e6


def test_cylinder_between_two_points_equals_one_on_a_prismatic_joint():
    """A cylinder from the world to a block is the same machine as one on the block's joint."""
    block = slider(80.0)
    ends = tb.HydraulicCylinder("ram", first="world", second="block", **RAM)
    starts, finals = ram().initial_state(block), []
    for element in (ram(), *as_elements([ends])):
        element.check(block)
        _, run = stepper(block, [element])
        finals.append(run([0.15, 0.2, *starts], {"ram": 0.3}, dt=1e-4, count=1000))
    assert np.allclose(finals[0], finals[1], rtol=1e-9, atol=0.0)


def test_the_end_of_the_stroke_is_a_stop():
    """Driven on at full pressure the piston stays within a percent of its stroke."""
    element = ram()
    _, run = stepper(slider(80.0), [element])
    end = run([0.35, 0.0, *element.initial_state(None)], {"ram": 1.0}, dt=2e-5, count=100000)
    assert 0.4 < end[0] < 0.404
    assert abs(end[1]) < 1e-6


def test_a_valve_follows_its_command_with_a_lag():
    """Its opening is one more state, 1 - 1/e after its time."""
    element = ram(valve_time=0.02)
    system, run = stepper(slider(80.0), [element])
    assert system.x_names == ("ram.cap_pressure", "ram.rod_pressure", "ram.opening")
    end = run([0.1, 0.0, *element.initial_state(None)], {"ram": 0.8}, dt=1e-4, count=200)
    assert end[4] == pytest.approx(0.8 * (1.0 - math.exp(-1.0)), rel=1e-8)


def test_flow_is_the_root_of_pressure_and_odd():
    """Gain times sqrt(dp) far from zero, smooth through it, and back with the sign."""
    assert orifice_flow(2.0, 9e6, 1e4) == pytest.approx(2.0 * 3e3, rel=1e-5)
    assert orifice_flow(2.0, -9e6, 1e4) == -orifice_flow(2.0, 9e6, 1e4)
    assert orifice_flow(2.0, 1.0, 1e4) == pytest.approx(2.0 / math.sqrt(1e4), rel=1e-6)


def test_wrong_cylinders_are_refused():
    """Messages name the cylinder and say what to do."""
    with pytest.raises(tb.ModelError, match="it acts between first and second or at a joint"):
        tb.HydraulicCylinder("ram", first="a", second="b", joint="x")
    with pytest.raises(tb.ModelError, match="cap_area must be positive, got 0; check its unit"):
        tb.HydraulicCylinder("ram", joint="x", cap_area=0.0)
    with pytest.raises(tb.ModelError, match="supply_pressure must be positive and above tank"):
        tb.HydraulicCylinder("ram", joint="x", supply_pressure=1e5, tank_pressure=2e5)
    with pytest.raises(tb.ModelError, match="relief_pressure must be finite and at least"):
        tb.HydraulicCylinder("ram", joint="x", relief_pressure=1e6)
    with pytest.raises(tb.UnknownNameError, match="unknown joint 'y'"):
        ram(joint="y").check(slider())
