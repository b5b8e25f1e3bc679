"""Overconstrained linkages whose lengths and axes are rounded: constraints that nearly agree."""

import re

import numpy as np
import pytest

import tiburon as tb
from tests.loops.overconstrained import BENNETTS, LINKAGES, bennett, moving
from tests.loops.test_overconstrained import SPACE, kinetic_energies

DIGITS = 6

PROMISE = "nearly redundant: these constraints disagree by "


def rounded(name, digits=DIGITS):
    """Return a linkage with rounded numbers, as closed as it can be, and its velocity."""
    model, q = LINKAGES[name](digits=digits)
    q = tb.project_configuration(model, q).q
    return model, q, moving(model, q)


def refusal(model, q, v):
    with pytest.raises(tb.LoopError, match=PROMISE) as caught:
        tb.simulate(model, 0.1, q=q, v=v, world=SPACE)
    return caught.value


def test_the_message_names_constraints_and_a_tolerance():
    model, q, v = rounded("bennett 1")
    error = refusal(model, q, v)
    assert re.fullmatch(
        r"model 'bennett': nearly redundant: these constraints disagree by 1.2e-07 m or rad: "
        r"last: offset along x by 1.2e-07, .* and 1 more; give lengths and axes with more digits, "
        r"or accept it with redundancy_tolerance=1e-06 \(mobility, simulate\) or tolerance=1e-06 "
        r"\(assemble\)",
        str(error),
    )
    assert error.gaps["last"] == pytest.approx(1.2e-7, rel=0.01)
    with pytest.raises(tb.LoopError, match=PROMISE):
        tb.assemble(model, q)


def check_accepted(name):
    model, q, v = rounded(name)
    if name == "sarrus":
        # its parallel axes are rounded alike, and stay parallel
        tolerance, allowed = 0.0, 1e-8
    else:
        error = str(refusal(model, q, v))
        assert float(re.search(r"disagree by (\S+) m", error)[1]) < 1e-5
        tolerance = float(re.search(r"redundancy_tolerance=(\S+) ", error)[1])
        if name == "plane-symmetric bricard":
            # at 19 rad/s it comes far, and to where its constraints disagree by more
            run = tb.simulate(model, 1.0, q=q, v=v, world=SPACE, redundancy_tolerance=tolerance)
            assert "take a redundancy_tolerance above 1e-06, a smaller dt" in run.outcome.message
            tolerance = 1e-4
        allowed = max(1e-8, tolerance)
        assert tolerance <= 1e-4
    found = tb.mobility(model, q, redundancy_tolerance=tolerance)
    assert found.mobility == found.regular_mobility == 1
    run = tb.simulate(model, 1.0, q=q, v=v, world=SPACE, redundancy_tolerance=tolerance)
    assert run.outcome.status == "finished", run.outcome
    assert np.abs(tb.constraint_residual(model, run.q)).max() <= allowed
    energies = kinetic_energies(model, run)
    # directions of constraints that disagree are known to the tolerance over singular values
    assert np.abs(energies / energies[0] - 1.0).max() < 10.0 * allowed
    if not name.startswith(("bennett", "myard")):
        # others are turned before they are rounded, and their inertia is not
        return
    exact, start = LINKAGES[name]()
    expected = tb.simulate(exact, 1.0, q=start, v=moving(exact, start), world=SPACE)
    # the same motion, up to what lengths and axes differ by
    assert np.abs(run.q[-1] - expected.q[-1]).max() < 1e-4


def test_a_rounded_linkage_moves_within_its_tolerance():
    check_accepted("bennett 1")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LINKAGES if name != "bennett 1"])
def test_rounded_linkages_move_within_their_tolerance(name):
    check_accepted(name)


@pytest.mark.slow
def test_a_linkage_with_four_digits():
    model, q, v = rounded("bennett 2", digits=4)
    assert "redundancy_tolerance=1e-05 " in str(refusal(model, q, v))
    run = tb.simulate(model, 0.2, q=q, v=v, world=SPACE, redundancy_tolerance=1e-5)
    assert run.outcome.status == "finished"
    energies = kinetic_energies(model, run)
    assert np.abs(energies / energies[0] - 1.0).max() < 1e-4


def test_open_loops_and_singular_poses_are_no_redundancy():
    """Those of a four-bar with a bar too short, and of one a little beside its singular pose."""
    model, q = bennett(*BENNETTS[0])
    with pytest.raises(tb.DomainError, match="loop 'last' open by"):
        tb.simulate(model, 0.1, q=q + np.array([0.0, 0.1, 0.0]))
    row = tb.load("n_four_bar_2")
    branch = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    for distance in (1e-3, 1e-5, 1e-7):
        q = (np.pi / 2 - distance) * branch
        assert tb.simulate(row, 0.01, q=q, v=0.7 * branch).outcome.ok


def test_wrong_tolerances_are_refused():
    model, q = bennett(*BENNETTS[0])
    text = r"redundancy_tolerance: expected a number from 0 to 0.01, got (-1|0.5|nan|'1e-6'|None)"
    for wrong in (-1.0, 0.5, float("nan"), "1e-6", None):
        with pytest.raises(tb.DomainError, match=text):
            tb.simulate(model, 0.1, q=q, redundancy_tolerance=wrong)
        with pytest.raises(tb.DomainError, match=text):
            tb.mobility(model, q, redundancy_tolerance=wrong)
    with pytest.raises(tb.ModelError, match="redundancy_tolerance is for robots with loops"):
        tb.simulate(tb.load("pendulum"), 0.1, redundancy_tolerance=1e-6)
