"""Hybrid dynamics whose unknowns are marked by NaN."""

import itertools

import numpy as np
import pytest

import tiburon as tb
from tests.contracts.test_loops import four_bar
from tests.robots import kicked, odd_arm
from tests.tolerances import SOLVE, assert_close

ARM = odd_arm(joints=4)


def split(model, tau, vd, known):
    """Return force and acceleration with NaN where they are unknown."""
    known = np.broadcast_to(known, tau.shape)
    return np.where(known, np.nan, tau), np.where(known, vd, np.nan)


def moving(shape=(), seed=0):
    q, v, tau = kicked(ARM, seed, shape)
    return q, v, tau, tb.forward_dynamics(ARM, q, v, tau)


def test_every_set_of_unknowns_is_solved_as_if_joints_were_named():
    """All 2^n sets, the same bits as by name, and the motion the numbers were taken from."""
    q, v, tau, vd = moving()
    for known in itertools.product((False, True), repeat=ARM.nv):
        known = np.array(known)
        names = [name for name, x in zip(ARM.v_names, known, strict=True) if x]
        rates, forces = tb.hybrid_dynamics(ARM, q, v, *split(ARM, tau, vd, known))
        named = tb.hybrid_dynamics(ARM, q, v, tau, vd, names)
        assert rates.tobytes() == named[0].tobytes()
        assert forces.tobytes() == named[1].tobytes()
        scale = max(1.0, np.abs(vd).max(), np.abs(tau).max())
        assert_close(rates, vd, SOLVE, scale)
        assert_close(forces, tau, SOLVE, scale)


def test_cases_of_a_batch_may_prescribe_different_accelerations():
    """Each case as it comes out alone; shapes broadcast, forces and out= go along."""
    q, v, tau, vd = moving((2, 3))
    known = np.random.default_rng(1).random((3, ARM.nv)) < 0.5
    assert len(np.unique(known, axis=0)) > 1
    given = split(ARM, tau, vd, known)
    tip = ARM.body_names[-1]
    push = {tip: np.random.default_rng(2).normal(size=(2, 1, 6))}
    rates, forces = tb.hybrid_dynamics(ARM, q, v, *given, external_force=push)
    out = (np.empty_like(vd), np.empty_like(vd))
    again = tb.hybrid_dynamics(ARM, q, v, *given, external_force=push, out=out)
    assert again[0] is out[0]
    assert again[1] is out[1]
    for i, k in np.ndindex(2, 3):
        alone = tb.hybrid_dynamics(
            ARM,
            q[i, k],
            v[i, k],
            given[0][i, k],
            given[1][i, k],
            external_force={tip: push[tip][i, 0]},
        )
        for many, one in zip((rates, forces), alone, strict=True):
            assert many[i, k].tobytes() == one.tobytes()
        assert out[0][i, k].tobytes() == alone[0].tobytes()


def test_a_failed_case_among_different_ones_is_flagged_or_named():
    """Its place in the batch is reported, not that among its like."""
    q, v, tau, vd = moving((4,))
    known = np.zeros((4, ARM.nv), dtype=bool)
    known[1::2, 0] = True
    given = split(ARM, tau, vd, known)
    good = tb.hybrid_dynamics(ARM, q, v, *given)
    q[3, 0] = np.nan
    (rates, forces), failed = tb.hybrid_dynamics(ARM, q, v, *given, errors="flag")
    assert failed.tolist() == [False, False, False, True]
    assert np.isnan(rates[3]).all()
    assert np.isnan(forces[3]).all()
    assert rates[:3].tobytes() == good[0][:3].tobytes()
    with pytest.raises(
        tb.NonFiniteError, match=r"^q: every value must be finite, got nan at index \(3, 0\)"
    ):
        tb.hybrid_dynamics(ARM, q, v, *given)


def test_named_joints_may_hold_nan_where_nothing_is_read():
    q, v, tau, vd = moving((3,))
    known = np.zeros(ARM.nv, dtype=bool)
    known[0] = True
    plain = tb.hybrid_dynamics(ARM, q, v, tau, vd, ARM.v_names[0])
    marked = tb.hybrid_dynamics(ARM, q, v, *split(ARM, tau, vd, known), ARM.v_names[0])
    for one, other in zip(plain, marked, strict=True):
        assert one.tobytes() == other.tobytes()
    # what is read must be a number
    with pytest.raises(tb.NonFiniteError, match=r"^vd: every value must be finite"):
        tb.hybrid_dynamics(ARM, q, v, tau, np.full_like(vd, np.nan), ARM.v_names[0])


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (0.5, "a number")])
def test_joint_needs_exactly_one_of_force_and_acceleration(value, word):
    """Ambiguous: nothing is guessed."""
    q, v, tau, vd = moving((3,))
    tau, vd = split(ARM, tau, vd, np.zeros(ARM.nv, dtype=bool))
    tau[2, 1] = vd[2, 1] = value
    with pytest.raises(tb.DomainError) as caught:
        tb.hybrid_dynamics(ARM, q, v, tau, vd)
    assert str(caught.value) == (
        f"hybrid_dynamics: tau and vd of {ARM.v_names[1]!r}: expected NaN in exactly one of them, "
        f"the unknown one, got {word} in both in case 2; write NaN for what is unknown, or name "
        "the joints whose accelerations are known: known_acceleration=[...]"
    )


def test_closed_loops_accept_placeholders():
    """The crank's acceleration is known, the rest follows from the loop."""
    model = four_bar()
    q = tb.assemble(model, [0.4, 1.9, 2.2]).q
    v, tau, vd = np.zeros(3), np.array([np.nan, 0.0, 0.0]), np.array([0.0, np.nan, np.nan])
    found = tb.hybrid_dynamics(model, q, v, tau, vd)
    named = tb.hybrid_dynamics(model, q, v, np.nan_to_num(tau), np.nan_to_num(vd), "a")
    for one, other in zip(found, named, strict=True):
        assert one.tobytes() == other.tobytes()


def test_empty_batches_and_traced_calls():
    nothing = np.empty((0, ARM.nv))
    rates, forces = tb.hybrid_dynamics(ARM, np.empty((0, ARM.nq)), nothing, nothing, nothing)
    assert rates.shape == forces.shape == (0, ARM.nv)

    def user(model, q, v, tau, vd):
        return tb.hybrid_dynamics(model, q, v, tau, vd)[0]

    with pytest.raises(tb.TraceError, match="a traced call cannot look for NaN; compile a"):
        tb.compile(user, ARM)
