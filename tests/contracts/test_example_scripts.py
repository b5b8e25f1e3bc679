"""The scripts in examples/ run, and what they print is right."""

import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"

# per script: what its output says, and the largest number that may stand there
CLAIMS = {
    # (rate times step)^4 with joint rates up to 15 rad/s and a step of 1 ms
    "swinging_arm.py": (r"largest energy error: (\S+)", 0.015**4),
    # interpolation between records 4 ms apart: (w h)^3 / 50 with w = 4.4 rad/s
    "pendulum_batch.py": (r"largest difference: (\S+) s", 1e-6),
    # an error of noise alone: four deviations are met once in ten thousand logs
    "fit_to_log.py": (r"largest error in deviations: (\S+)", 4.0),
    # the step bound of its controller
    "trot.py": (r"largest change of a foot force in 1 ms: (\S+) N", 4.0 + 1e-3),
    # attitude errors of a trot on two feet at a time, as on level ground
    "hills.py": (r"lean at most (\S+) deg", 3.0),
    # friction of up to 7 N m against feedback of 40 rad/s on 1 to 5 kg m^2: some 1e-3 rad at 0.5 m
    "lift.py": (r"load ends (\S+) m from its target", 3e-3),
    # collocation of order 4 with steps of 75 ms, grown e^(3.8 t) while the pole is upright
    "swing_up.py": (r"the pole ends (\S+) rad from upright", 5e-3),
    # the midpoint rule, order 2 with steps of 0.5 s
    "dock.py": (r"the vehicle ends (\S+) m from the dock", 0.02),
    # the transient after 30 s, with a time constant below 1 s
    "sweep_payload.py": (r"largest difference from the closed form: (\S+) m/s", 1e-12),
    # rounding of accelerations of about 10 rad/s^2 over 0.3 s, amplified by loops; arms as parts
    # may have the bits of the undivided robot
    "four_arms_mpi.py": (r"difference from the undivided robot: (\S+) m or rad", 1e-11),
    # rounding of inverse, then forward dynamics
    "own_function.py": (r"limits reached: False; error (\S+) rad", 1e-11),
}


NEEDED = {"swing_up.py": ("casadi", "ziglang"), "dock.py": ("casadi", "ziglang")}
"""Packages of extras that scripts need."""

CLIENTS = {"drive_client.py"}
"""Scripts that need a server; tests/drive/test_servers.py runs them against one."""


def test_every_script_has_a_claim():
    """A new example is added here too."""
    assert {path.name for path in FOLDER.glob("*.py")} == set(CLAIMS) | CLIENTS


@pytest.mark.parametrize("name", CLAIMS)
def test_script_runs_and_keeps_its_claim(name, capsys, monkeypatch):
    """Run as a user would, without arguments, and compare the printed value with its bound."""
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package, reason=f"needs {package}: pip install 'tiburon[casadi]'")
    # scripts write files named by their arguments; those of pytest must not reach them
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    pattern, limit = CLAIMS[name]
    (found,) = re.findall(pattern, capsys.readouterr().out)
    assert 0.0 <= float(found) < limit
