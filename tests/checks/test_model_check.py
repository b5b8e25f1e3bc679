"""Checks of a robot: they pass where all is right, and see what is wrong."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tiburon.checks import model_check
from tiburon.checks.model_check import (
    Kicked,
    advise_step,
    energy_conservation,
    judged,
    kicked_states,
    power_balance,
    start_position,
)

LAND = tb.World()


@pytest.fixture(scope="module")
def arm():
    return tb.load("double_pendulum")


@pytest.fixture(scope="module")
def states(arm):
    return kicked_states(arm, arm.neutral(), 4, seed=3)


def test_random_states_are_within_limits():
    """Away from the start, moving, inside the range of every joint."""
    arm = tb.load("puma560")
    states = kicked_states(arm, arm.neutral(), 50, seed=1)
    assert np.abs(states.v).min() > 0.0
    assert np.abs(states.q - arm.neutral()).max() > 0.1
    for joint in arm.joints:
        if joint.limits is not None:
            q = states.q[:, arm.slice(joint.name, of="q")]
            assert (q >= joint.limits.lower).all()
            assert (q <= joint.limits.upper).all()


def test_states_of_robots_with_loops_keep_them_closed():
    """Positions and velocities both."""
    bar = tb.load("four_bar")
    states = kicked_states(bar, start_position(bar), 5, seed=1)
    # Newton steps end at rounding
    assert np.abs(tb.constraint_residual(bar, states.q)).max() < 1e-10
    rates = np.einsum("nci,ni->nc", tb.loop_jacobian(bar, states.q), states.v)
    assert np.abs(rates).max() < 1e-10
    assert np.abs(states.v).min() > 1e-3


def test_random_states_that_loops_cannot_follow_are_drawn_closer():
    """Fingers that hold a ball: far kicks leave their contacts open, near ones do not."""
    hand = tb.load("three_finger_hand")
    start = start_position(hand)
    states = kicked_states(hand, start, 4, seed=0)
    assert np.abs(tb.constraint_residual(hand, states.q)).max() < 1e-8
    # each has moved
    assert np.abs(hand.difference(np.tile(start, (4, 1)), states.q)).max(axis=1).min() > 1e-3


def test_non_finite_error_fails():
    assert judged("x", float("nan"), 1.0, "").verdict == "failed"
    assert judged("x", 1.0, 1.0, "").verdict == "passed"
    assert judged("x", 1.1, 1.0, "").verdict == "failed"


def test_agreement_check_detects_a_wrong_bias_force(arm, states, monkeypatch):
    """A bias force that is off by a thousandth is noticed, and only where it is used."""
    verdicts = [f.verdict for f in model_check.agreements(arm, LAND, states)]
    assert verdicts == ["passed"] * 4
    true = model_check.inverse_dynamics
    monkeypatch.setattr(model_check, "inverse_dynamics", lambda *a, **k: 1.001 * true(*a, **k))
    found = {f.name: f for f in model_check.agreements(arm, LAND, states)}
    assert found["forward and inverse dynamics"].verdict == "failed"
    assert found["forward and inverse dynamics"].measured == pytest.approx(1e-3, rel=1.0)
    assert found["mass matrix and bias force"].verdict == "passed"


def test_a_mass_matrix_that_is_not_positive_fails():
    """And one whose eigenvalues lie too far apart is to be looked at."""
    assert model_check._positive(np.diag([1.0, -1e-9])[None]).verdict == "failed"
    assert model_check._positive(np.diag([1.0, 1e-12])[None]).verdict == "warning"
    assert model_check._positive(np.diag([1.0, 1e-3])[None]).verdict == "passed"


def test_derivatives_that_are_off_fail(arm, states, monkeypatch):
    true = model_check.forward_dynamics_derivatives

    def wrong(*arguments, **options):
        found = true(*arguments, **options)
        return found._replace(by_v=found.by_v + 1e-3 * np.abs(found.by_v).max())

    assert model_check.derivative_agreement(arm, LAND, states).verdict == "passed"
    monkeypatch.setattr(model_check, "forward_dynamics_derivatives", wrong)
    assert model_check.derivative_agreement(arm, LAND, states).verdict == "failed"


def test_energy_that_drifts_with_the_order_of_the_method_passes(arm, states, monkeypatch):
    """A wild start drifts, less with finer steps; energy that is wrong stays wrong."""
    calm = energy_conservation(arm, LAND, states, "energy")
    assert (calm.verdict, calm.bound) == ("passed", model_check.MAX_DRIFT)
    wild = Kicked(states.q, 40.0 * states.v)
    found = energy_conservation(arm, LAND, wild, "energy")
    assert found.verdict == "passed"
    assert "with steps of 0.25 ms" in found.text
    true = model_check.potential_energy
    monkeypatch.setattr(model_check, "potential_energy", lambda *a, **k: 1.1 * true(*a, **k))
    assert energy_conservation(arm, LAND, states, "energy").verdict == "failed"


def test_runs_that_end_early_fail(arm, states):
    """A robot thrown at 1e200 rad/s diverges, which is reported."""
    thrown = Kicked(states.q, 1e200 * states.v)
    found = energy_conservation(arm, LAND, thrown, "energy")
    assert found.verdict == "failed"
    assert "diverged" in found.text


def test_loops_that_cannot_follow_are_reported(monkeypatch):
    """A run that ends at a singular pose is reported, and balanced as far as it came."""
    bar = tb.load("four_bar")
    states = kicked_states(bar, start_position(bar), 1, seed=0)
    true = model_check.ended_early

    def early(name, run):
        assert true(name, run) is None
        return model_check.Finding(name, "failed", "the run ended early: gap of loop")

    monkeypatch.setattr(model_check, "ended_early", early)
    told, balance, loops = power_balance(bar, LAND, states, 1e-3)
    assert (told.verdict, balance.verdict, loops.verdict) == ("warning", "passed", "passed")
    assert told.text == "the run ended early: gap of loop; its first half is balanced"


def test_step_advice_follows_the_stiffest_part():
    """A spring of known frequency w: stable up to 2.78 / w, advised 0.5 / w, rounded down."""
    link = tb.Body(
        "link",
        joint=tb.Prismatic("slide", axis=(1, 0, 0), passive=tb.JointPassive(stiffness=1e6)),
        inertia=tb.Inertia.point(1.0),
    )
    advice = advise_step(tb.Model("stiff", [link]), LAND, np.zeros(1))
    # w = sqrt(k / m) = 1000 rad/s
    assert advice.rate == pytest.approx(1000.0)
    assert advice.stable == pytest.approx(2.78e-3)
    assert advice.dt == 5e-4
    assert advice.cause == "oscillation of 'slide'"
    assert advice.finding().verdict == "passed"
    hard = replace(link.joint, passive=tb.JointPassive(stiffness=1e8))
    advice = advise_step(tb.Model("hard", [replace(link, joint=hard)]), LAND, np.zeros(1))
    assert advice.finding().verdict == "warning"
    assert "method=tb.Rosenbrock()" in advice.finding().text


def test_step_advice_considers_friction_and_stops():
    """Coulomb friction turns around over 0.01 rad/s; stops swing at 250 rad/s."""
    rod = tb.Inertia(1.0, (0, 0, 0), (0.5, 0.5, 0.5))
    rub = tb.Revolute("rub", passive=tb.JointPassive(friction=10.0))
    advice = advise_step(tb.Model("rubbing", [tb.Body("a", joint=rub, inertia=rod)]), LAND, [0.0])
    # f / (s m) = 10 / (0.01 * 0.5)
    assert advice.rate == pytest.approx(2000.0)
    assert advice.cause == "Coulomb friction of 'rub'"
    ends = tb.Revolute("ends", limits=tb.JointLimits(-1, 1))
    advice = advise_step(tb.Model("stopped", [tb.Body("a", joint=ends, inertia=rod)]), LAND, [0.0])
    assert (advice.rate, advice.dt) == (250.0, 2e-3)


def test_poses_that_open_loops_fail():
    """A named pose a tenth of a radian off is a failure with its name."""
    bar = tb.load("four_bar")
    off = np.array(bar.poses["home"]) + np.array([0.0, 0.1, 0.0])
    bent = tb.Model("bent", bar.bodies, bar.frames, loops=bar.loops, poses={"home": off})
    (found,) = model_check._poses(bent)
    assert (found.verdict, found.name) == ("failed", "loops in pose 'home'")
    (found,) = model_check._poses(bar)
    assert found.verdict == "passed"


def test_failed_computations_are_findings(arm, monkeypatch):
    """An error of ours inside a check fails that check, and the others continue."""

    def broken(*arguments, **options):
        raise tb.DomainError("mass", "above 0", "-1")

    monkeypatch.setattr(model_check, "agreements", broken)
    monkeypatch.setattr(model_check, "derivative_agreement", broken)
    found = tb.check_model(arm)
    failed = [f for f in found.findings if f.verdict == "failed"]
    assert [f.name for f in failed] == ["algorithms", "derivatives"]
    assert "mass: expected above 0, got -1" in failed[0].text
    assert not found.passed
    assert found.findings[-1].verdict == "passed"


def test_zero_derivatives_pass():
    """On a plane a ball rolls alike everywhere: all derivatives vanish but by force."""
    joint = tb.RollingSphere("roll", radius=0.1)
    ball = tb.Model("ball", [tb.Body("ball", joint=joint, inertia=tb.Inertia.sphere(1.0, 0.1))])
    states = kicked_states(ball, ball.neutral(), 1, seed=0)
    assert model_check.derivative_agreement(ball, LAND, states).verdict == "passed"


def test_robots_moved_by_time_are_checked_where_it_makes_sense():
    """Energy and power are skipped, with the reason; what is left passes."""
    rod = tb.Inertia.cylinder(1.0, 0.05, 1.0, com=(0, 0, -0.5))
    table = tb.Driven("table", tb.Prismatic("shake", axis=(1, 0, 0)), tb.Harmonic(0.1, 5.0))
    hinge = tb.Revolute("hinge", axis=(0, 1, 0))
    parts = [
        tb.Body("base", joint=table, inertia=rod),
        tb.Body("arm", "base", joint=hinge, inertia=rod),
    ]
    found = tb.check_model(tb.Model("shaken", parts))
    assert found.passed
    skipped = {f.name for f in found.findings if f.verdict == "skipped"}
    assert {"kinetic energy", "energy, on land", "power balance"} <= skipped


@pytest.mark.slow
@pytest.mark.parametrize("name", ["remus100", "four_bar", "panda", "cart_pole"])
def test_zoo_robots_pass(name):
    """A vehicle in water, a loop, an arm, a slide with a hinge."""
    found = tb.check_model(tb.load(name), fluid=tb.Water(1025.0))
    assert found.passed, [f for f in found.findings if f.verdict == "failed"]
