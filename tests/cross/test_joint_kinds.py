"""Every kind of joint, and derivatives, against Pinocchio: recorded always, live on request."""

import numpy as np
import pytest

import tiburon as tb
from tests.cross.joint_kinds import (
    ALL,
    COMMAND,
    DIFFERENTIATED,
    GRAVITY,
    ROBOTS_BY_KIND,
    load,
    theirs,
)
from tests.cross.recording import numbers_of
from tests.tolerances import ALGEBRA, SOLVE, assert_close

ARRAYS, PROVENANCE = load()
WORLD = tb.World(gravity=GRAVITY)


def rates(model, q):
    """Return the matrix that turns our velocities into Pinocchio's, in one position."""
    columns = [theirs(model, q, unit)[1] for unit in np.eye(model.nv)]
    return np.array(columns).T


def compare(model, q, v, x, stored, case):
    """Compare dynamics, energy and the last body in one state with another code's."""
    T = rates(model, q)
    H = T.T @ stored["mass_matrix"][case] @ T
    assert_close(tb.mass_matrix(model, q), H)
    tau = tb.inverse_dynamics(model, q, v, x, world=WORLD)
    # inertia forces and gravity loads are added up; the largest of them sets the rounding
    scale = 10.0 * max(1.0, float(np.abs(H).max())) * max(1.0, float(np.abs(x).max()))
    expected = T.T @ stored["inverse_dynamics"][case]
    assert_close(tau, expected, ALGEBRA, scale * max(1.0, float(np.abs(v).max())) ** 2)
    weight = tb.gravity_force(model, q, world=WORLD)
    assert_close(weight, T.T @ stored["gravity_force"][case], ALGEBRA, scale)
    # forces in their convention do the same work: tau . v is the same power
    vd = tb.forward_dynamics(model, q, v, x, world=WORLD)
    found = theirs(model, q, v, vd)[2]
    expected = stored["forward_dynamics"][case]
    size = max(1.0, float(np.abs(expected).max()))
    assert_close(found, expected, SOLVE * np.linalg.cond(H), size)
    assert_close(tb.kinetic_energy(model, q, v), stored["kinetic_energy"][case])
    R, p = tb.forward_kinematics(model, q, model.body_names[-1])
    assert_close(R, stored["rotation"][case])
    assert_close(p, stored["translation"][case])


def compare_derivatives(model, q, v, x, stored, case):
    """Compare derivatives by steps of position, and by velocity, in one state."""
    T = rates(model, q)
    inverse = tb.inverse_dynamics_derivatives(model, q, v, x, world=WORLD)
    for ours, key in ((inverse.by_q, "tau_by_q"), (inverse.by_v, "tau_by_v")):
        expected = T.T @ stored[key][case] @ T
        assert_close(ours, expected, ALGEBRA, 10 * np.abs(expected).max())
    forward = tb.forward_dynamics_derivatives(model, q, v, x, world=WORLD)
    tolerance = SOLVE * np.linalg.cond(tb.mass_matrix(model, q))
    for ours, key in ((forward.by_q, "vd_by_q"), (forward.by_v, "vd_by_v")):
        expected = np.linalg.solve(T, stored[key][case] @ T)
        assert_close(ours, expected, tolerance, np.abs(expected).max())


def test_recording_has_its_provenance():
    """Tool, version and command are stored, and every kind of joint that Pinocchio can make."""
    assert PROVENANCE["tool"] == "Pinocchio"
    assert PROVENANCE["version"]
    assert PROVENANCE["command"] == COMMAND
    assert set(ARRAYS) == set(PROVENANCE["robots"]) == set(ALL)
    kinds = {kind for robot in PROVENANCE["robots"].values() for kind in robot}
    assert kinds >= {"spherical", "planar", "universal", "cylindrical", "screw"}
    for name, model in ALL.items():
        same = PROVENANCE["robots"][name] == [joint.kind for joint in model.joints]
        assert same, f"robot {name!r} is not the one recorded; run {COMMAND}"
        assert_close(numbers_of(model), ARRAYS[name]["robot"])


@pytest.mark.parametrize("kind", ROBOTS_BY_KIND)
def test_robots_with_a_joint_of_each_kind_equal_those_recorded(kind):
    """Mass matrix, forces, accelerations, energy and places, native, in recorded states."""
    stored = ARRAYS[kind]
    for case, given in enumerate(zip(*(stored[key] for key in ("q", "v", "x")), strict=True)):
        compare(ROBOTS_BY_KIND[kind], *given, stored, case)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives_equal_those_recorded(name):
    """`pin.computeRNEADerivatives` and `pin.computeABADerivatives`, fixed and floating bases."""
    stored = ARRAYS[name]
    for case, given in enumerate(zip(*(stored[key] for key in ("q", "v", "x")), strict=True)):
        compare_derivatives(DIFFERENTIATED[name], *given, stored, case)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_pinocchio_still_gives_what_was_recorded(name):
    """The same with the installed Pinocchio, which checks the recording."""
    pytest.importorskip("pinocchio", reason="live comparison needs Pinocchio (extra: bench)")
    from tests.cross.record_joint_kinds import answers

    for key, live in answers(name).items():
        assert_close(live, ARRAYS[name][key], SOLVE, 10 * max(1.0, float(np.abs(live).max())))
