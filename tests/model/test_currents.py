"""How water moves: accelerations follow from velocities."""

import numpy as np
import pytest

from tests.tolerances import DIFFERENCE, assert_close
from tiburon.errors import ModelError
from tiburon.model.currents import (
    CurrentSum,
    FunctionCurrent,
    LinearShear,
    PowerShear,
    TableCurrent,
    Tide,
    UniformCurrent,
    Wave,
    Waves,
    depends_on_place,
    depends_on_time,
    flow_at,
)
from tiburon.model.water import Water

SHEAR = LinearShear((1.0, 0.2, 0.1), 30.0)
TIDE = Tide((0.3, 0.1, 0.0), 12.0, 0.3, mean=(0.1, 0.0, 0.0))
WAVES = Waves((Wave(1.0, 8.0, 0.3, 0.2), Wave(0.3, 4.0, 1.0)))
CURRENTS = {
    # current, whether it depends on place, and on time
    "uniform": (UniformCurrent((0.3, 0.0, 0.1)), False, False),
    "linear": (SHEAR, True, False),
    "power": (PowerShear((1.0, 0.0, 0.3), 30.0, surface=1.0), True, False),
    "tide": (TIDE, False, True),
    "waves": (WAVES, True, True),
    "table": (TableCurrent((0, 1, 5), ((0, 0, 0), (1, 0.2, 0), (0.4, 0, 0))), False, True),
    "sum": (CurrentSum((TIDE, SHEAR)), True, True),
    "function": (
        FunctionCurrent(lambda t, p: (np.sin(t) * p[1], p[0] * p[2], 0.1 * p[2])),
        True,
        True,
    ),
}


@pytest.mark.parametrize("name", CURRENTS)
def test_acceleration_is_the_rate_of_velocity_on_the_path_of_a_particle(name):
    current, _, _ = CURRENTS[name]
    time, place, step = 1.7, np.array([1.0, 2.0, -3.0]), 1e-5
    flow = flow_at(current, current.parameters(), time, tuple(place))
    v = np.array(flow.velocity)
    assert_close(v, np.array(current.velocity(time, tuple(place)), dtype=float))

    def along(s):
        # second order in the step: the particle's path is straight to first order
        return np.array(current.velocity(time + s, tuple(place + s * v)), dtype=float)

    assert_close(flow.acceleration, (along(step) - along(-step)) / (2 * step), DIFFERENCE)


@pytest.mark.parametrize("name", CURRENTS)
def test_dependence_of_a_current_on_time_and_place_is_found_in_its_graph(name):
    current, place, time = CURRENTS[name]
    assert (depends_on_place(current), depends_on_time(current)) == (place, time)


def test_parameters_of_a_current_do_not_change_its_structure():
    slow, fast = Tide((0.3, 0.1, 0.0), 12.0), Tide((0.7, 0.2, 0.0), 9.0)
    assert slow.structure() == fast.structure()
    assert slow.structure() != Tide((0.3, 0.1, 0.5), 12.0).structure()
    there = flow_at(slow, fast.parameters(), 2.0, (0.0, 0.0, 0.0))
    assert there == flow_at(fast, fast.parameters(), 2.0, (0.0, 0.0, 0.0))


def test_waves_on_deep_water():
    """Airy 1845: at the surface the water moves on circles of half the wave's height."""
    height, period = 2.0, 9.0
    waves = Waves((Wave(height, period),))
    omega = 2 * np.pi / period
    crest = flow_at(waves, waves.parameters(), 0.0, (0.0, 0.0, 0.0))
    assert_close(crest.velocity, (0.5 * height * omega, 0.0, 0.0))
    quarter = flow_at(waves, waves.parameters(), period / 4, (0.0, 0.0, 0.0))
    assert_close(quarter.velocity, (0.0, 0.0, -0.5 * height * omega))
    # one length down it moves by exp(-2 pi) of that, with the length g T^2 / 2 pi
    length = 9.81 * period**2 / (2 * np.pi)
    deep = flow_at(waves, waves.parameters(), 0.0, (0.0, 0.0, -length))
    assert_close(deep.velocity[0], 0.5 * height * omega * np.exp(-2 * np.pi))


def test_functions_get_the_position_as_an_array():
    """Written with vectors or with components, a current is the same."""
    by_vector = FunctionCurrent(lambda t, p: 0.1 * p + np.sin(t))
    by_component = FunctionCurrent(lambda t, p: [0.1 * x + np.sin(t) for x in p])
    place = (1.0, -2.0, 3.0)
    expected = flow_at(by_component, (), 0.7, place)
    assert_close(expected.velocity, 0.1 * np.array(place) + np.sin(0.7))
    assert flow_at(by_vector, (), 0.7, place) == expected


def test_currents_add_to_velocities_and_functions():
    mixed = CurrentSum([(0.3, 0.0, 0.1), lambda t, p: 0.1 * p, TIDE])
    flow = flow_at(mixed, mixed.parameters(), 2.0, (1.0, 2.0, 3.0))
    tide = flow_at(TIDE, TIDE.parameters(), 2.0, (0.0, 0.0, 0.0)).velocity
    assert_close(flow.velocity, np.array(tide) + np.array([0.4, 0.2, 0.4]))
    assert CurrentSum(TIDE) == CurrentSum((TIDE,))


def test_shear_stops_at_its_depth():
    for z, share in ((0.0, 1.0), (-15.0, 0.5), (-30.0, 0.0), (-99.0, 0.0), (3.0, 1.0)):
        assert_close(np.array(SHEAR.velocity(0.0, (0, 0, z))), share * np.array([1.0, 0.2, 0.1]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LinearShear((1, 0, 0), 0.0), "depth must be positive"),
        (lambda: Tide((1, 0), 12.0), "amplitude"),
        (lambda: Wave(1.0, -2.0), "period must be positive"),
        (lambda: TableCurrent((0.0, 0.0), ((0, 0, 0), (1, 0, 0))), "increasing"),
        (lambda: Water(density=-1.0), "density"),
        (lambda: Water(current="fast"), "current"),
        (lambda: TableCurrent((0.0, np.inf), ((0, 0, 0), (1, 0, 0))), "times must be finite"),
        (lambda: TableCurrent("ab", ((0, 0, 0), (1, 0, 0))), "times must be"),
        (lambda: Waves(3), "each train must be a Wave"),
        (lambda: CurrentSum(("fast",)), "current must be 3 numbers"),
        (lambda: Water(strips=0), "strips"),
        (lambda: Water(strips=True), "strips"),
        (lambda: Water(split_strips="no"), "split_strips must be True or False"),
        (lambda: Water(current=lambda t, p: (1.0, 2.0)).structure(), "three components"),
    ],
)
def test_invalid_values_raise_an_error(make, words):
    with pytest.raises(ModelError, match=words):
        make()


def test_numpy_scalars_are_accepted():
    water = Water(strips=np.int64(6), split_strips=np.bool_(True))
    assert (type(water.strips), water.strips, water.split_strips) == (int, 6, True)


def test_a_tide_starts_at_its_phase():
    """Mean + amplitude sin(2 pi t / period + phase)."""
    for time in (0.0, 1.0, 3.7):
        swing = np.sin(2 * np.pi * time / 12.0 + 0.3)
        expected = np.array([0.1, 0.0, 0.0]) + np.array([0.3, 0.1, 0.0]) * swing
        assert_close(np.array(TIDE.velocity(time, (0, 0, 0)), dtype=float), expected)


def test_a_power_shear_is_a_power_of_the_height_above_the_floor():
    shear = PowerShear((1.0, 0.0, 0.3), 30.0, surface=1.0)
    for z in (1.0, -5.0, -20.0):
        share = ((z + 29.0) / 30.0) ** (1.0 / 7.0)
        found = np.array(shear.velocity(0.0, (0.0, 0.0, z)), dtype=float)
        assert_close(found, share * np.array([1.0, 0.0, 0.3]))


def test_a_table_is_read_along_straight_lines_and_held_beyond():
    times, speeds = (0.0, 1.0, 5.0), ((0.0, 0.0, 0.0), (1.0, 0.2, 0.0), (0.4, 0.0, 0.3))
    table = TableCurrent(times, speeds)
    for time in (-2.0, 0.0, 0.25, 1.0, 3.0, 5.0, 9.0):
        expected = [np.interp(time, times, column) for column in np.array(speeds).T]
        assert_close(np.array(table.velocity(time, (0, 0, 0)), dtype=float), expected)


def test_wave_travels_along_its_direction():
    """Along the crest nothing changes; one length ahead all is as here; it comes a period later."""
    height, period, direction = 1.0, 6.0, 0.7
    waves = Waves((Wave(height, period, direction),))
    length = 9.81 * period**2 / (2 * np.pi)
    along = np.array([np.cos(direction), np.sin(direction), 0.0])
    crest = np.array([-np.sin(direction), np.cos(direction), 0.0])

    def at(time, place):
        return np.array(waves.velocity(time, tuple(place)), dtype=float)

    here = np.array([0.4, -0.3, -1.0])
    assert_close(at(1.0, here + 3.0 * crest), at(1.0, here))
    assert_close(at(1.0, here + length * along), at(1.0, here))
    # the same phase arrives a quarter of a length ahead a quarter of a period later
    assert_close(at(1.0 + period / 4, here + length / 4 * along), at(1.0, here))
