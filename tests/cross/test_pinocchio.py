"""Our answers against Pinocchio's: recorded ones always, live ones on request."""

import numpy as np
import pytest

import tiburon as tb
from tests.cross.recording import GRAVITY, RECORDED, frame_of, load, numbers_of, states
from tests.tolerances import ALGEBRA, SOLVE, assert_close

ARRAYS, PROVENANCE = load()
WORLD = tb.World(gravity=GRAVITY)

over_robots = pytest.mark.parametrize("name", RECORDED)


def compare(model, q, v, x, wrench, theirs):
    """Compare all quantities of a batch of states with another code's."""
    frame = frame_of(model)
    H = theirs["mass_matrix"]
    assert_close(tb.mass_matrix(model, q), H)
    forces = tb.inverse_dynamics(model, q, v, x, world=WORLD)
    # inertia forces and gravity loads are added up; the largest of them sets the rounding
    scale = 10.0 * max(1.0, float(np.abs(H).max())) * max(1.0, float(np.abs(x).max()))
    assert_close(forces, theirs["inverse_dynamics"], ALGEBRA, scale)
    assert_close(tb.gravity_force(model, q, world=WORLD), theirs["gravity_force"], ALGEBRA, scale)
    product = np.einsum("...ij,...j->...i", tb.coriolis_matrix(model, q, v), v)
    speed = max(1.0, float(np.abs(v).max()))
    assert_close(product, theirs["coriolis_force"], ALGEBRA, scale * speed**2)
    inverse = theirs["inverse_mass_matrix"]
    loss = SOLVE * np.linalg.cond(H).max()
    assert_close(tb.inverse_mass_matrix(model, q), inverse, loss, np.abs(inverse).max())
    reactions = tb.joint_reactions(model, q, v, x, world=WORLD)
    whole = theirs["joint_wrenches"]
    size = max(scale, float(np.abs(whole).max()))
    assert_close(reactions.actuator + reactions.bearing, whole, ALGEBRA, size)
    external = {frame: wrench}
    for key, ours in [
        ("forward_dynamics", tb.forward_dynamics(model, q, v, x, world=WORLD)),
        (
            "forward_dynamics_external",
            tb.forward_dynamics(model, q, v, x, world=WORLD, external_force=external),
        ),
    ]:
        error = np.abs(ours - theirs[key]).max(axis=-1)
        size = np.maximum(1.0, np.abs(theirs[key]).max(axis=-1))
        assert (error <= SOLVE * np.linalg.cond(H) * size).all(), key
    assert_close(tb.kinetic_energy(model, q, v), theirs["kinetic_energy"])
    weight = 10.0 * max(1.0, model.total_mass)
    potential = tb.potential_energy(model, q, world=WORLD)
    assert_close(potential, theirs["potential_energy"], ALGEBRA, weight)
    rotation, translation = tb.forward_kinematics(model, q, frame)
    assert_close(rotation, theirs["rotation"])
    assert_close(translation, theirs["translation"])


def test_recording_has_its_provenance():
    """Tool, version and command are stored beside at least eight robots."""
    assert PROVENANCE["tool"] == "Pinocchio"
    assert PROVENANCE["version"]
    assert PROVENANCE["command"] == "python -m tests.cross.record_pinocchio"
    assert len(PROVENANCE["robots"]) >= 8
    assert set(ARRAYS) == set(PROVENANCE["robots"])


@over_robots
def test_results_equal_those_recorded(name):
    """Dynamics, energy and frames of a robot, native, in recorded states."""
    model, stored = RECORDED[name], ARRAYS[name]
    same = PROVENANCE["robots"][name] == [joint.kind for joint in model.joints]
    assert same, f"robot {name!r} is not the one recorded; run {PROVENANCE['command']}"
    # a robot built on another machine may differ in the last digit
    assert_close(numbers_of(model), stored["robot"])
    compare(model, stored["q"], stored["v"], stored["x"], stored["wrench"], stored)


@pytest.mark.slow
@over_robots
def test_results_equal_those_of_pinocchio_now(name):
    """The same with the installed Pinocchio, which also checks the recording."""
    pytest.importorskip("pinocchio", reason="live comparison needs Pinocchio (extra: bench)")
    from tests.cross.peer import Peer

    model = RECORDED[name]
    peer = Peer(model, GRAVITY)
    inputs = states(model)
    cases = [peer.compute(*case) for case in zip(*inputs, strict=True)]
    live = {key: np.array([case[key] for case in cases]) for key in cases[0]}
    compare(model, *inputs, live)
    for key in ("mass_matrix", "inverse_dynamics", "rotation"):
        assert_close(live[key], ARRAYS[name][key], scale=10.0 * max(1.0, np.abs(live[key]).max()))
