"""Golden vectors of the underwater algorithms, from the digests of both sources."""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.sources import (
    DOWN,
    classical_to_rate,
    fixture_b,
    reference_1995,
    state_1995,
    state_b,
    water_1995,
    water_b,
)
from tests.tolerances import assert_close

# both digests print ten to twelve digits
PRINTED = 1e-10
TIME = 0.7


def expected(classical, joints, v):
    return np.concatenate([classical_to_rate(classical, v[:3], v[3:6]), joints])


def test_star_under_water_of_mcmillan_1994():
    """Fixture B of the digest, 6.3: two chains on a base, added mass with coupling, tip force."""
    q, v, tau, external = state_b()
    found = tb.forward_dynamics(
        fixture_b(),
        q,
        v,
        tau,
        world=DOWN,
        fluid=water_b(TIME),
        external_force=external,
        time=TIME,
    )
    a = (0.1828910479, 4.0496941268, 0.6674491203, 0.5713040640, 0.1100961564, 0.3956367586)
    joints = (21.2896896103, -34.1188111963, 0.6166691871, 1.2445562442)
    assert_close(found, expected(a, joints, v), PRINTED)


def test_star_on_land_of_mcmillan_1994():
    """The same robot with all of the water off."""
    q, v, tau, external = state_b()
    found = tb.forward_dynamics(fixture_b(), q, v, tau, world=DOWN, external_force=external)
    a = (0.8763012180, 3.7259242799, 0.4640915186, 2.3489753122, 0.8886623677, 9.4055280688)
    joints = (24.2759139879, -51.6635712732, 4.3712295103, 2.1122355765)
    assert_close(found, expected(a, joints, v), PRINTED)


VEHICLES = {
    0: (
        (
            *(-0.750759681888, 0.331484914075, 0.047197433512),
            *(0.123372164891, -0.087312214475, 0.018554940559),
        ),
        (),
    ),
    2: (
        (
            *(-0.366952650375, -0.056615898422, -0.044118256982),
            *(0.199404243243, -0.087605193234, 0.243517911128),
        ),
        (0.435123462314, 3.797021228104),
    ),
    3: (
        (
            *(-0.309701552817, -0.029983352743, -0.042795266998),
            *(0.16651259068, -0.078880877456, 0.233996288187),
        ),
        (-0.686851593706, 3.123825069977, 4.540689024572),
    ),
}


@pytest.mark.parametrize("links", VEHICLES)
def test_vehicle_with_arm_of_mcmillan_1995(links):
    """The reference case of the digest, 3.6, by every method, and back."""
    model, (q, v, tau) = reference_1995(links), state_1995(links)
    around = {"world": DOWN, "fluid": water_1995(TIME), "time": TIME}
    a, joints = VEHICLES[links]
    for method in ("articulated", "composite"):
        found = tb.forward_dynamics(model, q, v, tau, method=method, **around)
        assert_close(found, expected(a, joints, v), PRINTED)
    assert_close(tb.inverse_dynamics(model, q, v, found, **around), tau)


def test_a_batch_gives_the_bits_of_single_calls():
    model, (q, v, tau) = reference_1995(3), state_1995(3)
    times = np.linspace(0.0, 1.0, 11)
    rows = np.repeat(q[None], 11, axis=0)
    speeds = v * np.linspace(0.5, 1.5, 11)[:, None]
    around = {"world": DOWN, "fluid": water_1995(TIME)}
    batch = tb.forward_dynamics(model, rows, speeds, tau, time=times, **around)
    for k in range(11):
        single = tb.forward_dynamics(model, rows[k], speeds[k], tau, time=times[k], **around)
        assert np.array_equal(batch[k], single)
