"""Robots from files against other codes: recorded for our own file, live for all that ship."""

import json

import numpy as np
import pytest

import tiburon as tb
from tests.cross.loaded import AGREEMENT, Compared, relative_error, table
from tests.cross.record_loaded import COMMAND, DATA, FILE, PROVENANCE, states, without_planar
from tests.robots import ROBOTS
from tests.tolerances import assert_close
from tiburon.formats.urdf_read import read_urdf
from tiburon.formats.urdf_write import write_urdf

RECORDED = dict(np.load(DATA))
FACTS = json.loads(PROVENANCE.read_text())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return the robot of the recording."""
    path = tmp_path_factory.mktemp("loaded") / "two_link.urdf"
    path.write_text(without_planar(FILE.read_text()))
    return read_urdf(path).without_loops()


def test_recording_has_its_provenance(model):
    """Tool, version and command are stored, and states and robot are still those."""
    assert (FACTS["tool"], FACTS["command"]) == ("Pinocchio", COMMAND)
    assert tuple(FACTS["bodies"]) == model.body_names
    for given, name in zip(states(model), ("q", "v", "vd"), strict=True):
        assert np.array_equal(given, RECORDED[name])


def test_loaded_robot_gives_the_recorded_results(model):
    """Mimic, floating and fixed joints, turned inertias: forces, mass matrix, all link frames."""
    q, v, vd = RECORDED["q"], RECORDED["v"], RECORDED["vd"]
    assert_close(tb.inverse_dynamics(model, q, v, vd), RECORDED["tau"])
    assert_close(tb.mass_matrix(model, q), RECORDED["mass_matrix"])
    rotations, origins = tb.forward_kinematics(model, q, model.body_names)
    assert_close(rotations, RECORDED["rotations"])
    assert_close(origins, RECORDED["origins"])


def test_the_table_counts_and_marks():
    """A robot that differs is set in bold, one that the other code refuses does not count."""
    rows = [
        Compared("a", True, True, 3, 1e-15),
        Compared("b", True, True, 4, 1e-3, "note"),
        Compared("c", True, False, note="why"),
        Compared("d", False, False),
    ]
    text, count = table(rows)
    assert "| a | 3 | yes | yes | 1e-15 |  |" in text
    assert "| b | 4 | yes | **no** | 1e-03 | note |" in text
    assert "| c |  | no |  |  | why |" in text
    assert "| d |  | neither |  |  |  |" in text
    assert count.startswith("1 of the 3 files")


def test_errors_are_relative_to_the_largest_number():
    """Small entries beside large ones are compared on the scale of the large."""
    assert relative_error([1e6, 1.0], [1e6, 0.0]) == pytest.approx(1e-6)
    assert relative_error([], []) == 0.0
    assert np.isnan(relative_error([np.nan], [1.0]))


@pytest.mark.slow
def test_every_robot_of_example_robot_data_agrees_with_pinocchio():
    """Inverse dynamics, mass matrix and frames of all that Pinocchio loads."""
    pytest.importorskip("pinocchio", reason="live comparison needs Pinocchio (extra: bench)")
    from tests.cross.loaded_pinocchio import compare_all, robot_files

    if not robot_files():
        pytest.skip("live comparison needs the package example-robot-data")
    wrong = [c for c in compare_all() if c.peer_loads and not c.error <= AGREEMENT]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_pinocchio_reads_what_we_write(tmp_path, name):
    """Any robot without planar, rolling or driven joints, through a URDF file of ours."""
    pytest.importorskip("pinocchio", reason="live comparison needs Pinocchio (extra: bench)")
    from tests.cross.loaded_pinocchio import disagreement

    model = ROBOTS[name]
    kinds = {joint.kind for joint in model.joints}
    if kinds & {"planar", "rolling sphere", "driven"}:
        pytest.skip("Pinocchio moves it in other variables, or URDF has no such joint")
    path = tmp_path / "written.urdf"
    path.write_text(write_urdf(model, path)[0])
    assert disagreement(path, read_urdf(path)) <= AGREEMENT
