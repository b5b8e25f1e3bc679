"""Published counts of chains on a floating body, on land and under water, and what is counted."""

from functools import reduce
from operator import add

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import ALGEBRA, assert_close
from tiburon.algorithms.aba import aba
from tiburon.algorithms.hybrid import hybrid_aba
from tiburon.reproduce import stars
from tiburon.reproduce.operation_counts import COUNTED
from tiburon.reproduce.published import STARS, Polynomial

# as the sources print them: chains, links, multiplications, additions
PRINTED = {
    "thesis_composite_star_6": (3, 4440, 3944),
    "thesis_star_land_6": (3, 4485, 4136),
    # 1359 in print; the polynomial and its rows give 1361
    "thesis_star_land_1": (6, 1502, 1361),
    "thesis_star_water_6": (3, 7540, 6658),
    "thesis_star_water_1": (6, 2601, 2277),
    "thesis_vehicle": (6, 2394, 2093),
    "thesis_decoupled": (6, 1997, 1733),
    "paper_vehicle": (6, 2392, 2091),
}


@pytest.mark.parametrize("key", PRINTED)
def test_polynomials_give_the_printed_numbers(key):
    links, *cost = PRINTED[key]
    assert STARS[key].at(links) == tuple(cost)


@pytest.mark.parametrize("key", [key for key, found in STARS.items() if found.rows])
def test_rows_add_up_to_the_total(key):
    published = STARS[key]
    for place, total in enumerate((published.multiplications, published.additions)):
        assert reduce(add, [row[place] for row in published.rows.values()]) == total


def test_totals_of_the_vehicles_are_the_printed_polynomials():
    assert STARS["paper_vehicle"].multiplications == Polynomial(377, 130)
    assert STARS["paper_vehicle"].additions == Polynomial(333, 93)
    assert STARS["thesis_vehicle"].multiplications == Polynomial(377, 132)
    assert STARS["thesis_decoupled"].additions == Polynomial(333, -265)


@pytest.mark.parametrize("key", STARS)
def test_no_count_is_above_the_published_one(key):
    published = STARS[key]
    for links in range(published.smallest, 4):
        assert COUNTED[key](links).total <= published.at(links).total


def test_our_counts_are_polynomials_too():
    """Each further link costs the same; pinned, so that no count creeps up."""
    for n in range(3, 7):
        assert stars.vehicle_with_arm(n) == (361 * n + 149, 324 * n + 102)
        assert stars.decoupled_vehicle(n) == (361 * n - 274, 324 * n - 296)


def test_a_vehicle_seen_from_a_frame_moving_along_has_its_classical_acceleration():
    """The counted base returns vd + w x v, and its joints accelerate as those of a free one."""
    q, v, tau = _state(6)
    counted = stars.star_model(1, 3, stars.AT_JOINT).plan
    shipped = _by_angles(counted)
    g = (0.0, 0.0, -9.81)
    found, expected = (np.array(aba(plan, q, v, tau, g)) for plan in (counted, shipped))
    expected[3:6] += np.cross(v[:3], v[3:6])
    assert_close(found, expected, ALGEBRA)


def test_a_vehicle_moved_as_it_would_move_leaves_its_arm_alone():
    """McMillan 1994, 7.5.2: fed with the coupled acceleration it returns the coupled joints'."""
    q, v, tau = _state(7)
    coupled = stars.star_model(1, 3, stars.AT_JOINT).plan
    g = (0.0, 0.0, -9.81)

    def moved(u):
        """Accelerations of the arm where the vehicle has those of the first six."""
        return stars.arm_of_moved_vehicle(stars.StarState(coupled, q, v, u, g, ()))

    acceleration = aba(coupled, q, v, tau, g)
    given = [*acceleration[:6], *tau[6:]]
    assert_close(moved(given), acceleration[6:], ALGEBRA)
    # hybrid dynamics of the shipped joint agrees at any acceleration of the base
    prescribed = [*(0.5 + 0.1 * k for k in range(6)), *tau[6:]]
    rate = np.array(prescribed[:6])
    rate[3:] -= np.cross(v[:3], v[3:6])
    known = [True] * 6 + [False] * 3
    forces, rates = [0.0] * 6 + tau[6:], [*rate, 0.0, 0.0, 0.0]
    found, _ = hybrid_aba(_by_angles(coupled), q, v, forces, rates, known, g)
    assert_close(moved(prescribed), found[6:], ALGEBRA)


def _by_angles(plan):
    """The same plan on the floating base whose velocity is its own."""
    from dataclasses import replace

    first = replace(plan.bodies[0], joint=stars.FreeByAngles("vehicle"))
    return replace(plan, bodies=(first, *plan.bodies[1:]))


def _state(seed):
    """Angles, position, joints; velocities; forces of a vehicle with three links."""
    rng = np.random.default_rng(seed)
    q = [*rng.uniform(-1.0, 1.0, 6), 0.0, *rng.normal(size=3)]
    v, tau = rng.normal(size=(2, 9)).tolist()
    return [float(x) for x in q], v, tau


def test_water_acts_on_every_body_of_a_star():
    """No number is zero by chance, so that nothing is free that the sources pay for."""
    for body in stars.star_model(2, 2).bodies:
        assert np.all(np.array(body.fluid.added_mass) != 0.0)
        assert body.fluid.volume > 0.0
        assert isinstance(body.fluid.drag[0], tb.CylinderDrag)
