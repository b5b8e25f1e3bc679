"""Conversions of states against the codes whose conventions they use.

States are drawn in the other code's order, so that nothing of ours takes part in making them: our
dynamics from converted states must be the other code's, converted.
"""

import numpy as np
import pytest

import tiburon as tb
from tests.cross.mixtures import UNBOUNDED, for_mujoco, for_pinocchio
from tests.cross.record_conversions import COMMAND, load
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close

ARRAYS, PROVENANCE = load()
WORLD = tb.World(gravity=PROVENANCE["gravity"])


def compare_pinocchio(theirs):
    """Compare our answers with Pinocchio's in states that Pinocchio gave."""
    model = for_pinocchio()
    options = {"unbounded": UNBOUNDED}
    given = (theirs["q"], theirs["v"])
    rest = {"acceleration": theirs["acceleration"], "force": theirs["force"]}
    ours = tb.from_pinocchio(model, *given, **rest, **options)
    compare(model, ours, theirs, {})
    again = tb.to_pinocchio(
        model, ours.q, ours.v, acceleration=ours.acceleration, force=ours.force, **options
    )
    compare_round_trip(again, theirs)
    motion = tb.six_vector_from_pinocchio(theirs["motion"])
    assert_close(motion, tip_motion(model, ours), DIFFERENCE)
    assert_close(tb.six_vector_to_pinocchio(motion), theirs["motion"])


def compare_mujoco(theirs):
    """Compare our answers with MuJoCo's in states that MuJoCo gave."""
    model = for_mujoco()
    given = (theirs["q"], theirs["v"])
    rest = {"acceleration": theirs["acceleration"], "force": theirs["force"]}
    ours = tb.from_mujoco(model, *given, **rest)
    (tip,) = model.frames
    last = model.body(tip.body)
    turned, _ = tb.forward_kinematics(model, ours.q, last.name)
    wrench = tb.wrench_from_mujoco(theirs["wrench"], turned, last.inertia.com)
    compare(model, ours, theirs, {last.name: wrench})
    assert_close(tb.wrench_to_mujoco(wrench, turned, last.inertia.com), theirs["wrench"])
    again = tb.to_mujoco(model, ours.q, ours.v, acceleration=ours.acceleration, force=ours.force)
    compare_round_trip(again, theirs)
    motion = tb.motion_from_mujoco(theirs["motion"], theirs["rotation"])
    assert_close(motion, tip_motion(model, ours), DIFFERENCE)
    assert_close(tb.motion_to_mujoco(motion, theirs["rotation"]), theirs["motion"])


def compare(model, ours, theirs, external):
    """Compare frames, energy and dynamics in converted states."""
    rotation, translation = tb.forward_kinematics(model, ours.q, "tip")
    assert_close(rotation, theirs["rotation"])
    assert_close(translation, theirs["translation"])
    assert_close(tb.kinetic_energy(model, ours.q, ours.v), theirs["kinetic_energy"])
    vd = tb.forward_dynamics(
        model, ours.q, ours.v, ours.force, world=WORLD, external_force=external
    )
    condition = np.linalg.cond(tb.mass_matrix(model, ours.q))
    error = np.abs(vd - ours.acceleration).max(axis=-1)
    size = np.maximum(1.0, np.abs(vd).max(axis=-1))
    assert (error <= SOLVE * condition * size).all()


def compare_round_trip(again, theirs):
    """Compare numbers that went to our order and back."""
    for key in ("q", "v", "acceleration", "force"):
        assert_close(getattr(again, key), theirs[key])


def tip_motion(model, ours):
    """Return the velocity of the tip in its own axes, by differences of its place."""
    h = DIFFERENCE_STEP
    (r0, p0), (r1, p1) = (
        tb.forward_kinematics(model, model.integrate(ours.q, s * h * ours.v), "tip")
        for s in (-1.0, 1.0)
    )
    r, _ = tb.forward_kinematics(model, ours.q, "tip")
    spin = np.einsum("...ji,...jk->...ik", r, (r1 - r0) / (2.0 * h))
    omega = np.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=-1)
    linear = np.einsum("...ji,...j->...i", r, (p1 - p0) / (2.0 * h))
    return np.concatenate([omega, linear], axis=-1)


def test_recording_has_its_provenance():
    """Tools, versions and command are stored beside the numbers."""
    assert set(PROVENANCE["tools"]) == {"Pinocchio", "MuJoCo"}
    assert PROVENANCE["command"] == COMMAND


def test_recorded_states_of_pinocchio_give_its_results():
    """Position, velocity, force, acceleration and six-vectors as Pinocchio writes them."""
    compare_pinocchio(ARRAYS["pinocchio"])


def test_recorded_states_of_mujoco_give_its_results():
    """Position, velocity, force, acceleration and six-vectors as MuJoCo writes them."""
    compare_mujoco(ARRAYS["mujoco"])


@pytest.mark.slow
def test_states_of_pinocchio_give_its_results_now():
    """The same with the installed Pinocchio and other states."""
    pytest.importorskip("pinocchio", reason="live comparison needs Pinocchio (extra: bench)")
    pytest.importorskip("mujoco", reason="live comparison needs MuJoCo (extra: bench)")
    from tests.cross.mixture_peers import run_pinocchio

    compare_pinocchio(run_pinocchio(seed=1))


@pytest.mark.slow
def test_states_of_mujoco_give_its_results_now():
    """The same with the installed MuJoCo and other states."""
    pytest.importorskip("pinocchio", reason="live comparison needs Pinocchio (extra: bench)")
    pytest.importorskip("mujoco", reason="live comparison needs MuJoCo (extra: bench)")
    from tests.cross.mixture_peers import run_mujoco

    compare_mujoco(run_mujoco(seed=1))
