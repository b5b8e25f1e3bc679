"""Examples in docstrings: the names that are used most have one, and these run."""

import inspect
import itertools
import re
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tiburon.exports import EXPORTS

ROOT = Path(__file__).resolve().parents[2]

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "examples").glob("*.py")),
]

MOST = 60
"""How many names count as used most."""


def used_most():
    """The public names that pages and example scripts use most often."""
    names = (name for page in PAGES for name in re.findall(r"\btb\.(\w+)", page.read_text()))
    return [name for name, _ in Counter(n for n in names if n in EXPORTS).most_common(MOST)]


def example_of(name):
    """The code of the example in a docstring: its blocks, or else what stands in backticks."""
    lines = inspect.getdoc(getattr(tb, name)).splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith("Example")), None)
    if start is None:
        return ""
    part = list(itertools.takewhile(lambda x: x.startswith(" ") or not x, lines[start + 1 :]))
    blocks = [k for k, line in enumerate(part) if line.endswith("::")]
    if not blocks:
        return "\n".join(re.findall(r"``(.*?)``", "\n".join(part), re.DOTALL))
    inside = (line for line in part[blocks[0] + 1 :] if line.startswith("        ") or not line)
    return textwrap.dedent("\n".join(inside))


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """Robots, arrays, functions and files that examples use."""
    arm, rov, dog = tb.load("panda"), tb.load("bluerov2_heavy"), tb.load("quadruped")
    linkage = tb.load("four_bar")
    q, v = arm.random_state(1)
    folder = tmp_path_factory.mktemp("examples")
    tb.save(tb.load("double_pendulum"), folder / "arm.urdf")
    tb.simulate(tb.load("double_pendulum"), 0.1).save(folder / "swim.zarr")
    return {name: getattr(tb, name) for name in EXPORTS} | {
        "folder": folder,
        "tb": tb,
        "tiburon": tb,
        "np": np,
        "Path": Path,
        "arm": arm,
        "rov": rov,
        "dog": dog,
        "linkage": linkage,
        "robot": arm,
        "q": q,
        "v": v,
        "vd": 0.0 * v,
        "tau": 0.0 * v,
        "sea": tb.Water(1025.0),
        "floor": tb.World(ground=tb.Ground(static_friction=0.8)),
        "height": tb.traced(lambda state: state.q[0]),
    }


def test_names_used_most_have_an_example():
    for name in used_most():
        assert example_of(name), f"tb.{name}: add a section Example to its docstring"


@pytest.mark.parametrize("name", used_most())
def test_examples_of_names_used_most_run(name, things, monkeypatch):
    """Where an extra is missing, its name is the answer."""
    monkeypatch.chdir(things["folder"])
    try:
        exec(compile(example_of(name), f"<example of {name}>", "exec"), dict(things))
    except tb.MissingExtraError as missing:
        pytest.skip(str(missing))
