"""Models loaded from MJCF against MuJoCo, live: ours, and all in packages that are installed."""

from pathlib import Path

import pytest

import tiburon as tb

pytest.importorskip("mujoco", reason="MJCF is compared with MuJoCo")

from tests.cross.loaded_mujoco import (
    PACKAGES,
    LoadedPeer,
    compare_all,
    compare_file,
    package_folder,
)

DIVER = Path(__file__).parents[1] / "data" / "mjcf" / "diver.xml"


def test_our_model_agrees_with_mujoco():
    """Frames, inline meshes, several joints per body, ties and armature at once."""
    row = compare_file(DIVER, DIVER.parent)
    assert row.agrees, row.error
    # the gripper's second finger follows the first; the closed loops are cut open
    assert (row.freedoms, row.note) == (
        16,
        "1 joints tied to others; 2 loops, cut open for the comparison",
    )


@pytest.mark.filterwarnings("ignore:[^@]*the control law of 1 servos")
def test_states_convert_without_coupled_joints():
    """`to_mujoco` and `from_mujoco` know the order of a loaded model."""
    peer = LoadedPeer(DIVER)
    follower = next(body for body in peer.model.bodies if body.joint.kind == "coupled")
    model = peer.tree.without(follower.name)
    q, v = model.random_state(3)
    theirs = tb.to_mujoco(model, q, v)
    # MuJoCo's quaternion follows the position of a free body
    assert theirs.q[3:7] == pytest.approx(q[:4])
    ours = tb.from_mujoco(model, theirs.q, theirs.v)
    assert ours.q == pytest.approx(q)
    assert ours.v == pytest.approx(v)


@pytest.mark.slow
def test_all_models_of_installed_packages_agree():
    """Everything MuJoCo loads agrees, but for armature of tendons and of free bodies."""
    if all(package_folder(name) is None for name in PACKAGES):
        pytest.skip("no package with MJCF models is installed")
    rows = compare_all()
    assert rows
    wrong = [row for row in rows if row.peer_loads and not row.agrees]
    assert all("armature of" in row.note for row in wrong), wrong
