"""The census: its verdicts, what it measures, and the page that is written from its rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.census.census import largest_gain, one, rows_every, selected, summary, verdict_of
from tools.census.page import place_of, publish, rendered

DOCS = Path(__file__).resolve().parents[2] / "docs"

PENDULUM = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="pivot" axis="0 1 0" stiffness="0.3" springref="20"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03"/>
    </body>
  </worldbody>
</mujoco>
"""


def row(**values: Any) -> dict[str, Any]:
    """Return a row of a file that behaves, with other values."""
    behaves = {
        "file": "census-files/wheel/robot.xml",
        "nv": 3,
        "us": 2.0,
        "peer_us": 4.0,
        "outcome": "finished at 2 s",
        "speed": 1.0,
        "peer_speed": 0.5,
        "apart": 0.01234,
        "apart_early": 0.0,
        "corrected": 0.0,
        "gain": 0.125,
        "kinetic": 5.0,
    }
    return behaves | values


def test_the_page_is_written_from_the_data():
    """The rows of docs/census.md are those of docs/census.json."""
    assert (DOCS / "census.md").read_text() == rendered(DOCS)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "behaves"),
        ({"speed": 6.0}, "behaves"),
        ({"speed": 6.1}, "wild"),
        ({"outcome": "diverged at 0.1 s: joint 'hip'"}, "diverged"),
    ],
)
def test_verdicts(changes, verdict):
    assert verdict_of(row(**changes)) == verdict


def test_files_that_do_not_run_are_refused():
    assert verdict_of({"file": "a/b.xml", "load": "ModelFileError: b.xml"}) == "refused"


def test_summary_counts_all_files():
    rows = [row(), row(us=20.0, speed=7.0), {"file": "a/b.xml", "error": "no end in 60 s"}]
    assert summary(rows).startswith("1 of 3 behave; refused 1, diverged 0, wild 1;")
    assert "median 2.75, worst 5" in summary(rows)


def test_published_rows_have_no_folders_of_the_machine(tmp_path):
    (tmp_path / "census.md").write_text((DOCS / "census.md").read_text())
    failed = {"file": "census-files/wheel/a.xml", "error": "no end in 60 s"}
    publish([row(), failed], {"processor": "one"}, tmp_path)
    page = (tmp_path / "census.md").read_text()
    assert "| `wheel/robot.xml` | 3 | behaves | 2 | 0.5 | 0 | 12 | 0.12 J of 5 J | 0 |" in page
    assert "- `wheel/a.xml`: refused; no end in 60 s" in page
    assert "processor: one." in page
    files = json.loads((tmp_path / "census.json").read_text())["files"]
    assert [file["file"] for file in files] == ["wheel/robot.xml", "wheel/a.xml"]
    assert page == rendered(tmp_path)


def test_rows_include_the_early_comparison():
    for dt in (1e-4, 1e-3, 2e-3, 2.5e-3, 5e-3, 1e-2, 2e-2):
        steps = round(2.0 / dt)
        every = rows_every(steps, dt)
        assert round(0.1 / dt) % every == 0
        assert steps // every >= 50


def test_largest_gain_is_a_rise_above_the_least_value_before():
    assert largest_gain([3.0, 1.0, 2.5, 0.0, 1.0]) == 1.5
    assert largest_gain([3.0, 2.0, 1.0]) == 0.0


def test_a_pendulum_on_a_spring_is_where_mujoco_has_it(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM)
    found = one(str(path))
    assert verdict_of(found) == "behaves"
    assert 0.0 < found["apart_early"] < 2e-3
    assert found["apart_early"] < found["apart"] < 0.1
    assert found["corrected"] == 0.0
    # without the energy of the spring it would be a tenth of the kinetic energy
    assert found["gain"] < 1e-6 * found["kinetic"]


def test_the_same_files_are_selected_every_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "census-files" / "wheel"
    folder.mkdir(parents=True)
    for k in range(5):
        (folder / f"robot_{k}.xml").write_text(PENDULUM)
    (folder / "part.xml").write_text("<mujoco><asset/></mujoco>")
    first, again = list(selected(3)), list(selected(3))
    assert first == again
    assert len({file.name for file in first} - {"part.xml"}) == 3
    assert place_of(str(first[0])).startswith("wheel/robot_")
