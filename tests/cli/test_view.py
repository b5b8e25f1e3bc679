"""`tiburon view`: pages from robots, runs and modes; the live scene until Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application

RUNNER = CliRunner()


def view(*words: str):
    return RUNNER.invoke(application, ["view", *words])


def test_a_robot_becomes_a_page(tmp_path):
    """It is shown in the given pose; an unknown pose is refused by name."""
    page = tmp_path / "panda.html"
    done = view("panda", "--pose", "ready", "--html", str(page), "--show", "frames")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"wrote {page}\n"
    text = page.read_text()
    assert '"show":["frames"]' in text
    assert "<title>panda</title>" in text
    done = view("panda", "--pose", "redy", "--html", str(page))
    assert isinstance(done.exception, tb.UnknownNameError)
    assert "ready" in str(done.exception)


def test_a_mode_becomes_a_page(tmp_path):
    """Its title shows the frequency: a bit below sqrt(g / l) / 2 pi = 0.4985 Hz of a point mass."""
    page = tmp_path / "swing.html"
    done = view("pendulum", "--mode", "0", "--html", str(page))
    assert done.exit_code == 0, done.output
    assert "pendulum: mode 0, 0.4981 Hz" in page.read_text()


def test_a_saved_run_becomes_a_page(tmp_path):
    run = tb.simulate(tb.load("pendulum"), 0.2, q=[0.5], method=tb.RK4(dt=0.01))
    run.save(tmp_path / "run.zarr")
    page = tmp_path / "run.html"
    done = view(str(tmp_path / "run.zarr"), "--html", str(page), "--speed", "0.5")
    assert done.exit_code == 0, done.output
    assert '"speed":0.5' in page.read_text()


def test_missing_folders_are_reported_before_anything_is_loaded(tmp_path):
    done = view("panda", "--html", str(tmp_path / "none" / "page.html"))
    assert isinstance(done.exception, tb.RunFileError)
    assert "create it first" in str(done.exception)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C cannot be sent to one process there")
def test_the_live_scene_is_served_until_ctrl_c():
    """It prints where it is, answers there, and ends without a traceback."""
    pytest.importorskip("viser", reason="viser is not installed")
    words = [sys.executable, "-m", "tiburon", "view", "pendulum", "--no-browser", "--port", "18180"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            said = process.stdout.readline()
            assert said.startswith("open http://127.0.0.1:"), process.stderr.read()
            url = said.split()[1].rstrip(";")
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert b"<html" in answer.read()
            process.send_signal(signal.SIGINT)
            # again, while it closes
            time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
        assert "Traceback" not in process.stderr.read()
