"""Checks of contact: they pass where contact is right, and fail where it is made wrong."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.checks import contact_check

CONTACT = ("contact geometry", "contact impulses", "contact momentum", "contact in batches",
           "weight at rest")  # fmt: skip


def findings(name, pose):
    model, world = tb.load(name), tb.load_world(name)
    start = np.array(model.poses[pose])
    found = contact_check.contact_checks(model, start, tb.World(world.gravity, world.ground), 3)
    return {finding.name: finding for _, check in found for finding in check()}


def test_contacts_of_a_ball_on_a_slope_pass():
    found = findings("ball_ramp", "rest")
    assert [found[name].verdict for name in CONTACT] == ["passed"] * 5
    # the ball rolls: its weight is carried, less what accelerates it
    assert found["weight at rest"].measured < 1e-6


@pytest.mark.parametrize(
    ("quantity", "broken"),
    [
        ("contact momentum", lambda force: 1.01 * force),
        ("weight at rest", lambda force: 1.05 * force),
    ],
)
def test_wrong_forces_fail(monkeypatch, quantity, broken):
    """Forces that are not those that acted: momentum and weight notice."""
    original = contact_check.values_of

    def values_of(run, name):
        found = original(run, name)
        return broken(found) if name == "contact_force" else found

    monkeypatch.setattr(contact_check, "values_of", values_of)
    assert findings("ball_ramp", "rest")[quantity].verdict == "failed"


def test_wrong_normals_fail(monkeypatch):
    original = contact_check.contacts_among

    def tilted(*given):
        found = original(*given)
        return found._replace(normal=found.normal @ np.array([[1, 0, 0], [0, 1, 0], [0.01, 0, 1]]))

    monkeypatch.setattr(contact_check, "contacts_among", tilted)
    assert findings("ball_ramp", "rest")["contact geometry"].verdict == "failed"


def test_robots_with_contact_points_are_checked_on_level_ground():
    model = tb.Model(
        "stool",
        [tb.Body("stool", joint=tb.Free("f"), inertia=tb.Inertia.box(2.0, (0.3, 0.3, 0.4)))],
        contacts=[
            tb.ContactPoint(f"leg_{k}", "stool", (0.15 * x, 0.15 * y, -0.2))
            for k, (x, y) in enumerate([(1, 1), (-1, 1), (0, -1)])
        ],
        poses={"stand": (1, 0, 0, 0, 0, 0, 0.2)},
    )
    found = {f.name: f.verdict for f in tb.check_model(model, pose="stand").findings}
    assert all(found[name] == "passed" for name in CONTACT)
    assert "contact geometry" not in {
        f.name for f in tb.check_model(tb.load("pendulum"), motion=False).findings
    }


@pytest.mark.slow
def test_momentum_of_hard_landings_is_judged_with_short_steps():
    """A dog lands on straight legs at their stops: its error at 1 ms is of first order."""
    found = {f.name: f for f in tb.check_model(tb.load("quadruped")).findings}
    judged = found["contact momentum"]
    assert judged.verdict == "passed"
    assert judged.text.endswith("steps of 0.125 ms")
