"""What is released is tried as `pyproject.toml` and the workflows say."""

import re
import sys
from pathlib import Path

import pytest

from tools.check_install import (
    DEVELOPMENT,
    ROOT,
    interpreters,
    least_python,
    pinned_to_oldest,
    project,
    trials,
    user_extras,
)
from tools.check_release import problems
from tools.smoke_test import FEATURES

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_requirement_has_a_lower_bound_that_can_be_installed():
    """A bound that is not there cannot be checked, so each has one, those of extras too."""
    lines = project()["dependencies"] + [x for extra in user_extras().values() for x in extra]
    pinned = pinned_to_oldest(lines)
    assert all("==" in line for line in pinned)
    names = {line.partition("==")[0] for line in pinned}
    assert {"numpy", "llvmlite", "typer", "mujoco", "viser"} <= names


def test_the_lower_bound_becomes_the_version():
    """Other bounds give way, markers stay."""
    assert pinned_to_oldest(["a>=1.2", "b-c>=3,<4; os_name == 'nt'"]) == [
        "a==1.2",
        "b-c==3; os_name == 'nt'",
    ]
    with pytest.raises(ValueError, match="expected 'package>=version', got 'a'"):
        pinned_to_oldest(["a"])


def test_interpreters_come_from_the_path(monkeypatch, tmp_path):
    """Those on PATH that are new enough, by version; nothing is found where there is none."""
    version = sys.version_info[:2]
    program = tmp_path / f"python3.{version[1]}"
    program.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interpreters() in ({version: str(program)}, {})
    assert version >= least_python()
    program.unlink()
    assert interpreters() == {}


def test_every_extra_of_users_is_tried_alone_and_documented():
    """What an extra is for is in the smoke test, and in the table of the installation page."""
    assert set(FEATURES) == set(user_extras())
    assert set(DEVELOPMENT) < set(project()["optional-dependencies"])
    page = (ROOT / "docs" / "install.md").read_text()
    assert {name for name in project()["optional-dependencies"] if f"`{name}`" not in page} == set()
    known = {(3, 11): "python3.11", (3, 12): "python3.12"}
    labels = [trial[0] for trial in trials("extras", known, ["jax"])]
    assert labels == ["Python 3.11, jax", "Python 3.12, jax"]
    assert len(list(trials("extras", known, []))) == 2 * len(FEATURES)
    (first, _) = trials("oldest", known, [])
    assert "numpy==2.0" in first[2]
    with pytest.raises(ValueError, match=r"expected extras of .*, got nothing"):
        list(trials("extras", known, ["nothing"]))


def test_workflows_run_on_every_python_that_is_promised():
    """The matrix is that of the classifiers, from the oldest that is allowed."""
    promised = [
        line.rpartition(" ")[2]
        for line in project()["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", line)
    ]
    assert promised[0] == ".".join(map(str, least_python()))
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    for listed in re.findall(r"python: \[(.*)\]", text):
        assert re.findall(r"[\d.]+", listed) == promised
    assert text.count("python: [") == 2


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_pinned_actions_and_no_secret(path):
    """Actions have a version; only the job that publishes may ask for a token, and has no other."""
    text = path.read_text()
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+)*", name)] == []
    assert not re.search(r"secrets\.|password|api.token", text)
    head, _, publish = text.partition("  publish:")
    assert "permissions:\n  contents: read" in head
    assert "id-token" not in head
    assert publish.count("id-token: write") == (path.stem == "release")
    for script in re.findall(r"python (tools/\S+)", text):
        assert (ROOT / script).is_file()


def test_a_tag_is_released_only_with_its_version_and_changes(tmp_path):
    """Version, citation and changelog must agree."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text("## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n\n- A.\n")
    assert list(problems("v1.2.3", tmp_path)) == []
    assert len(list(problems("v1.2.4", tmp_path))) == 3
    assert "expected a tag" in next(problems("1.2.3", tmp_path))
    changes.write_text("## [Unreleased]\n\n- B.\n\n## [1.2.3] - 2026-01-31\n")
    assert "under 'Unreleased'" in next(problems("v1.2.3", tmp_path))
    assert Path(ROOT / "CITATION.cff").is_file()
