"""Our kinematics against Pinocchio's: recorded always, live on request."""

import numpy as np
import pytest

import tiburon as tb
from tests.cross.kinematics_recording import load
from tests.cross.recording import RECORDED, frame_of, states
from tests.tolerances import ALGEBRA, assert_close

ARRAYS, PROVENANCE = load()

over_robots = pytest.mark.parametrize("name", ARRAYS)


def compare(model, q, v, x, theirs):
    """Compare all quantities of a batch of states with another code's."""
    frame = frame_of(model)
    assert_close(tb.frame_jacobian(model, q, frame), theirs["jacobian"])
    # sums of up to twenty terms of products of rates and lengths, each up to about ten
    scale = 10.0 * (1.0 + float(np.abs(v).sum(axis=-1).max())) ** 2
    assert_close(tb.frame_velocity(model, q, v, frame), theirs["velocity"], ALGEBRA, scale)
    classical = tb.frame_acceleration(model, q, v, x, frame)
    assert_close(classical, theirs["classical"], ALGEBRA, scale)
    spatial = tb.frame_acceleration(model, q, v, x, frame, axes="frame", kind="spatial")
    assert_close(spatial, theirs["spatial"], ALGEBRA, scale)
    assert_close(tb.center_of_mass(model, q), theirs["center"])
    weight = max(1.0, model.total_mass)
    assert_close(tb.momentum_matrix(model, q), theirs["momentum_matrix"], ALGEBRA, 10.0 * weight)
    assert_close(tb.momentum(model, q, v), theirs["momentum"], ALGEBRA, scale * weight)


def test_recording_has_its_provenance():
    """Tool, version and command are stored, and every robot that is compared is in it."""
    assert PROVENANCE["tool"] == "Pinocchio"
    assert PROVENANCE["version"]
    assert PROVENANCE["command"] == "python -m tests.cross.record_kinematics"
    assert len(ARRAYS) >= 8


@over_robots
def test_our_kinematics_equal_those_recorded(name):
    """Jacobians, velocities, accelerations, momentum and center of mass, native."""
    stored = ARRAYS[name]
    compare(RECORDED[name], stored["q"], stored["v"], stored["x"], stored)


@pytest.mark.slow
@over_robots
def test_our_kinematics_equal_pinocchios_now(name):
    """The same with the installed Pinocchio."""
    pytest.importorskip("pinocchio", reason="live comparison needs Pinocchio (extra: bench)")
    from tests.cross.kinematics_peer import KinematicsPeer

    model = RECORDED[name]
    q, v, x, _ = states(model)
    peer = KinematicsPeer(model)
    cases = [peer.compute_kinematics(*case) for case in zip(q, v, x, strict=True)]
    compare(model, q, v, x, {key: np.array([case[key] for case in cases]) for key in cases[0]})
