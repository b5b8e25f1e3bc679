"""The balance of power: errors that steps take away pass, errors that stay are seen."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tiburon.checks import model_check
from tiburon.checks.model_check import (
    BOUND_TOLERANCE,
    Kicked,
    _Account,
    _verdict,
    kicked_states,
    power_balance,
)

LAND = tb.World()


@pytest.fixture(scope="module")
def damped():
    """Two links with damping and Coulomb friction in one joint, and stops in the other."""
    arm = tb.load("double_pendulum")
    first, second = (body.joint for body in arm.bodies)
    first = replace(first, limits=tb.JointLimits(-0.3, 0.3))
    second = replace(second, passive=tb.JointPassive(damping=0.3, friction=0.2))
    bodies = [
        replace(body, joint=joint) for body, joint in zip(arm.bodies, (first, second), strict=True)
    ]
    return tb.Model("damped", bodies)


@pytest.fixture(scope="module")
def states(damped):
    return kicked_states(damped, damped.neutral(), 4, seed=3)


def found_by_name(model, world, states):
    return {finding.name: finding for finding in power_balance(model, world, states, 1e-3)}


def test_all_that_acts_is_accounted_for(damped, states):
    """Stops, damping and friction that turns round within a step: the sum is of second order."""
    found = found_by_name(damped, LAND, states)
    assert found["power balance"].verdict == "passed"
    assert found["power balance"].bound <= BOUND_TOLERANCE
    assert found["losses"].verdict == "passed"
    assert "'passive'" in found["losses"].text


@pytest.mark.parametrize("share", [1.0, 1e-3])
def test_work_with_the_wrong_sign_fails(damped, states, share, monkeypatch):
    """A part of what friction does, counted the wrong way round, is seen down to a thousandth."""
    true = model_check.energy_flow

    def wrong(run):
        flow = true(run)
        loss = np.asarray(run.get("passive.loss").values)
        work = np.concatenate([[0.0], np.cumsum(0.5 * (loss[1:] + loss[:-1]) * np.diff(run.time))])
        return flow._replace(driven=flow.driven + 2.0 * share * work)

    monkeypatch.setattr(model_check, "energy_flow", wrong)
    found = found_by_name(damped, LAND, states)
    assert found["power balance"].verdict == "failed"


def test_forces_that_are_left_out_fail(damped, states, monkeypatch):
    """Work that is missing from the balance."""
    true = model_check.energy_flow
    monkeypatch.setattr(
        model_check, "energy_flow", lambda run: true(run)._replace(driven=np.zeros(len(run)))
    )
    assert found_by_name(damped, LAND, states)["power balance"].verdict == "failed"


def test_shorter_steps_that_end_early_are_reported(damped, states, monkeypatch):
    """One row that is left of a run balances, whatever acts."""
    true = model_check.run_of

    def thrown(model, states, h, world, **options):
        faster = states if h >= 1e-3 else Kicked(states.q, 1e200 * states.v)
        return true(model, faster, h, world, **options)

    monkeypatch.setattr(model_check, "run_of", thrown)
    found = found_by_name(damped, LAND, states)["power balance"]
    assert found.verdict == "failed"
    assert "steps of 0.5 ms ended early: diverged" in found.text


def test_damping_that_drives_fails(damped, states):
    """It is in balance, since it does what it says; but friction must not give energy."""
    bodies = list(damped.bodies)
    passive = tb.JointPassive(damping=0.3, friction=0.2)
    object.__setattr__(passive, "damping", -0.3)
    joint = replace(bodies[1].joint)
    object.__setattr__(joint, "passive", passive)
    bodies[1] = replace(bodies[1], joint=joint)
    found = found_by_name(tb.Model("driven", bodies), LAND, states)
    assert found["power balance"].verdict == "passed"
    assert found["losses"].verdict == "failed"
    assert "most by 'passive'" in found["losses"].text


@pytest.mark.parametrize(("sign", "verdict"), [(1.0, "passed"), (-1.0, "failed")])
def test_drag_that_creates_energy_fails(sign, verdict):
    """Water at rest takes; a coefficient with the wrong sign gives."""
    water = tb.BodyFluid(volume=1e-3, linear_damping=(0.1, 0.1, 0.1, 2.0, 2.0, 2.0))
    object.__setattr__(
        water, "linear_damping", tuple(tuple(sign * x for x in row) for row in water.linear_damping)
    )
    body = tb.Body(
        "hull",
        joint=tb.Prismatic("x", axis=(1, 0, 0)),
        inertia=tb.Inertia.point(2.0),
        fluid=water,
    )
    model = tb.Model("sled", [body])
    states = kicked_states(model, model.neutral(), 1, seed=2)
    found = found_by_name(model, tb.World(fluid=tb.Water()), states)
    assert found["power balance"].verdict == "passed"
    assert found["losses"].verdict == verdict


def account(values, floor=0.0):
    return _Account(np.asarray(values), floor)


@pytest.mark.parametrize(
    ("order", "verdict"), [(4.0, "passed"), (2.0, "passed"), (1.0, "passed"), (0.5, "failed")]
)
def test_errors_must_fall_with_the_step(order, verdict):
    """First order is the least that kinks leave of the rule; less is none of its errors."""
    coarse = 1e-5 * np.sin(np.linspace(0.0, 3.0, 101))
    fine = np.zeros(201)
    fine[::2] = coarse / 2.0**order
    assert _verdict("x", account(coarse), account(fine), "").verdict == verdict


def test_error_that_does_not_converge_fails_unless_it_is_rounding():
    """A constant part below what steps leave is not known: then finer steps must tell."""
    time = np.linspace(0.0, 1.0, 101)
    stays, falls = 1e-6 * time, 0.1 * time**2
    fine = np.zeros(201)
    fine[::2] = stays
    assert _verdict("x", account(stays), account(fine), "").verdict == "failed"
    assert _verdict("x", account(stays), account(fine, floor=1e-5), "").verdict == "passed"
    fine[::2] = stays + 0.25 * falls
    found = _verdict("x", account(stays + falls), account(fine), "")
    assert found.verdict == "warning"
    assert found.measured == pytest.approx(1e-6)
    # many halvings later
    coarse, fine[::2] = stays + falls / 4**9, stays + falls / 4**10
    assert _verdict("x", account(coarse), account(fine), "").verdict == "failed"


def test_a_balance_that_is_not_judged_says_why(damped, states):
    """Steps that resolve what is fastest would be too many: no word of failure."""
    findings = power_balance(damped, LAND, states, 1.25e-5, "a stiff spring")
    found = next(one for one in findings if one.name == "power balance")
    assert found.verdict == "warning"
    assert "not judged: steps of 0.00625 ms would be too many" in found.text
    assert found.text.endswith("the fastest response is that of a stiff spring")


def test_a_step_that_joint_laws_demand_says_what_longer_ones_do():
    rub = tb.JointPassive(damping=1.0, friction=1.0)
    box = tb.Inertia.box(0.2, (0.1, 0.1, 0.1))
    body = tb.Body("finger", joint=tb.Revolute("j", (0, 0, 1), passive=rub), inertia=box)
    advice = model_check.advise_step(tb.Model("finger", [body]), LAND, np.zeros(1))
    assert advice.ended == ("j",)
    assert "of 1 joints at the ends of steps, and are stable on these" in advice.finding().text
    assert not model_check.advise_step(tb.load("pendulum"), LAND, np.zeros(1)).ended
