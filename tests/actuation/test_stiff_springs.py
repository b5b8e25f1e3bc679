"""Springs between points that are faster than a step: they act at the ends of steps."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.actuation.joint_laws import SPRING, ended_laws

EXACT = tb.Rosenbrock(rtol=1e-10, atol=1e-11)


def bob(stiffness, damping=0.0, limit=np.inf, **changes):
    """Return a point mass in a plane on a spring, and where it hangs at an angle in balance."""
    joints = (
        tb.Prismatic("x", (1, 0, 0)),
        tb.Prismatic("z", (0, 0, 1), limits=tb.JointLimits(lower=-limit)),
    )
    rod = tb.Spring(
        "rod", "world", "bob", stiffness=stiffness, damping=damping, rest_length=0.4, **changes
    )
    bodies = [
        tb.Body("slide", joint=joints[0]),
        tb.Body("bob", "slide", joint=joints[1], inertia=tb.Inertia.point(1.0)),
    ]
    length, angle = 0.4 + 9.81 * np.cos(0.7) / stiffness, 0.7
    return tb.Model("pendulum", bodies, springs=[rod]), [
        length * np.sin(angle),
        -length * np.cos(angle),
    ]


def run(model, dt, duration=1.0, **options):
    options = {"method": tb.RK4(dt=dt), "record": tb.Record(dt=0.1), **options}
    return tb.simulate(model, duration, **options)


@pytest.mark.parametrize(("stiffness", "damping"), [(1e6, 0.0), (1e6, 2e3), (1e7, 1e4)])
def test_pendulums_on_stiff_springs_are_of_second_order(stiffness, damping):
    """Rates of 1e3 to 1e4 per second: errors fall by four as the step is halved."""
    model, start = bob(stiffness, damping)
    assert [one.law for one in ended_laws(model, 1e-3)] == [SPRING]
    exact = run(model, 1e-3, q=start, method=EXACT)
    errors = [np.abs(run(model, dt, q=start).q - exact.q).max() for dt in (4e-3, 2e-3, 1e-3, 5e-4)]
    assert errors[2] < 5e-6
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (abs(orders - 2.0) < 0.1).all(), (errors, orders)


def test_the_governor_runs_at_the_default_step():
    """Springs of 13,000 per second on both arms, against an adaptive method."""
    governor = tb.load("flyball_governor")
    options = {"v": [6.28, 0, 0, 0], "record": tb.Record(dt=0.02)}
    exact = tb.simulate(governor, 0.2, method=tb.Rosenbrock(rtol=1e-9, atol=1e-10), **options)
    found = tb.simulate(governor, 0.2, **options)
    np.testing.assert_allclose(found.q, exact.q, rtol=0.0, atol=1e-5)
    np.testing.assert_allclose(found.v, exact.v, rtol=0.0, atol=1e-4)


def test_resolved_springs_and_ropes_stay_at_the_stages():
    """Below a rate times step of 0.5; ropes, which are slack or not within a step."""
    assert ended_laws(bob(1e4)[0], 1e-3) == ()
    assert ended_laws(bob(1e6, rope=True)[0], 1e-3) == ()
    model, start = bob(1e4)
    assert run(model, 1e-3, 0.1, q=start).z.shape[-1] == 0


def test_stiff_springs_act_beside_stops():
    """The bob swings onto a floor of a joint and stays there, the spring pulling on."""
    model, start = bob(1e6, 2e3, limit=0.38)
    found = run(model, 1e-3, 0.5, q=start, record=tb.Record(every=1))
    assert found.outcome.ok, found.outcome
    assert found.q[:, 1].min() == pytest.approx(-0.38, abs=1e-7)
    kinetic = 0.5 * (found.v**2).sum(axis=1)
    stretch = np.hypot(*found.q.T) - 0.4
    energy = kinetic + 9.81 * found.q[:, 1] + 0.5e6 * stretch**2
    assert np.diff(energy).max() < 1e-3 * kinetic.max()


def test_cases_outputs_and_resumed_runs():
    """Stiffness by name in a batch, tension and energy as recorded, and going on."""
    model, start = bob(1e6, 2e3)
    given = {"rod.stiffness": np.array([1e6, 4e6])}
    both = run(model, 1e-3, 0.2, q=start, parameters=given)
    for k, stiffness in enumerate(given["rod.stiffness"]):
        alone = run(bob(stiffness, 2e3)[0], 1e-3, 0.2, q=start)
        np.testing.assert_allclose(both.q[:, k], alone.q, rtol=0.0, atol=1e-9)
    whole = run(model, 1e-3, 0.2, q=start)
    parts = run(model, 1e-3, 0.1, q=start).resume(0.1)
    np.testing.assert_array_equal(parts.q[-1], whole.q[-1])
    exact = run(model, 1e-3, 0.2, q=start, method=EXACT)
    # the tension is the mean one of a step, half of one earlier, and grows by 30 N/s
    for word, atol in (("length", 1e-8), ("tension", 30.0 * 1e-3)):
        ours, theirs = (one.get(f"rod.{word}").values[1:] for one in (whole, exact))
        np.testing.assert_allclose(ours, theirs, atol=atol)
