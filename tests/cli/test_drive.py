"""`tiburon drive`: it explains itself, measures, refuses what it cannot do, and serves."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application
from tiburon.cli.drive import _beyond_limits


def test_help_shows_units_and_examples():
    result = CliRunner().invoke(application, ["drive", "--help"])
    assert result.exit_code == 0
    assert "tiburon drive tiburon_titan --water" in result.output
    assert "Rate of states [Hz]" in result.output


def test_a_token_is_waived_on_this_machine_only():
    words = ["drive", "cart_pole", "--headless", "--host", "0.0.0.0", "--no-token"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code != 0
    assert "leave out --no-token" in str(result.exception)


def test_measure_reports_how_ticks_kept_time():
    """A short measurement ends by itself with counts that fit its length."""
    result = CliRunner().invoke(application, ["drive", "cart_pole", "--measure", "0.5"])
    assert result.exit_code == 0, result.output
    ticks = int(result.output.split(" ticks,")[0].split()[-1])
    # half a second of milliseconds; a loaded machine may give some of them up
    assert 100 < ticks < 700
    assert "deadline misses:" in result.output


def test_port_in_use_is_reported_without_a_traceback():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        result = CliRunner().invoke(
            application, ["drive", "cart_pole", "--headless", "--port", port]
        )
    assert result.exit_code != 0
    assert "in use; take another" in str(result.exception)


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
def test_headless_serves_until_ctrl_c_and_then_reports(tmp_path):
    """A client hears a welcome and states; an interrupt ends the command with its report."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tiburon", "drive", "cart_pole", "--headless", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TIBURON_DRIVE_TOKEN": "from the environment"},
    )
    try:
        for line in process.stdout:
            if line.startswith("socket "):
                break
        _, address, _, token = line.strip().split(" ", 3)
        assert token == "from the environment"
        port = int(address.split(":")[1])
        with socket.create_connection(("127.0.0.1", port), timeout=60.0) as client:
            client.sendall(json.dumps({"type": "hello", "token": token}).encode() + b"\n")
            words = client.makefile("rb")
            assert json.loads(words.readline())["model"] == "cart_pole"
            assert json.loads(words.readline())["type"] == "state"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60.0)
    finally:
        process.kill()
    assert "ticks" in rest
    assert process.returncode == 0


def test_arms_whose_zero_is_beyond_a_stop_start_in_a_named_pose():
    """Otherwise the stop would throw them back at once."""
    assert _beyond_limits(tb.load("panda"))
    assert not _beyond_limits(tb.load("cart_pole"))


def test_waiting_options_are_used_and_reported():
    words = ["drive", "cart_pole", "--measure", "0.2", "--wait", "spin"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    assert "tick thread: spinning" in result.output
    assert CliRunner().invoke(application, [*words[:-1], "dream"]).exit_code == 2
