"""The command line: help, version, exit codes, and errors without tracebacks."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import tiburon
from tiburon.cli import bench
from tiburon.cli.application import application
from tiburon.cli.cache import format_size


def run_command(*words, directory=None, **environment):
    """Run the command in a process of its own, as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "tiburon", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env=os.environ | environment,
    )


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["simulate"],
        ["report"],
        ["demo"],
        ["models"],
        ["info"],
        ["check"],
        ["convert"],
        ["hydro"],
        ["drive"],
        ["sweep"],
        ["view"],
        ["cache"],
        *(["cache", word] for word in ["list", "clear", "path", "size"]),
        *(["export", *word] for word in ([], ["c"], ["fmu"])),
        ["reproduce"],
        ["reproduce", "operation-counts"],
    ],
)
def test_every_command_explains_itself(words):
    """--help and -h succeed and show how to call the command."""
    for flag in ("--help", "-h"):
        result = CliRunner().invoke(application, [*words, flag])
        assert result.exit_code == 0
        assert " ".join(["Usage: tiburon", *words]) in result.output


def test_help_lists_every_subcommand():
    """A reader of --help learns what there is."""
    output = CliRunner().invoke(application, ["--help"]).output
    for name in (
        "simulate",
        "report",
        "demo",
        "models",
        "info",
        "check",
        "convert",
        "hydro",
        "drive",
        "view",
        "bench",
        "cache",
        "export",
        "reproduce",
    ):
        assert name in output


@pytest.mark.parametrize(
    "words",
    [
        *("simulate", "report", "demo", "check", "models", "info", "convert", "hydro", "cache"),
        *("drive", "view"),
    ],
)
def test_help_shows_examples_line_by_line(words):
    """Each example stands on a line of its own, ready to be copied."""
    output = CliRunner().invoke(application, [words, "--help"]).output
    _, examples = output.split("  Examples:\n")
    lines = [line for line in examples.splitlines() if line.strip()]
    assert len(lines) >= 2
    assert all(line.startswith(f"    tiburon {words}") for line in lines)


def test_help_keeps_units_in_brackets():
    """Markup would swallow them."""
    assert "Step size [s]." in CliRunner().invoke(application, ["simulate", "-h"]).output


@pytest.mark.parametrize(
    ("line", "expected"),
    [("tiburon sim", ["simulate"]), ("tiburon simulate pum", ["puma560"])],
)
def test_shells_complete_commands_and_robots(line, expected):
    """Completions after TAB, by the protocol of the completion that is installed."""
    script = "import sys; sys.argv = ['tiburon']; from tiburon.cli import main; main()"
    asked = {"_TIBURON_COMPLETE": "complete_bash", "COMP_WORDS": line}
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | asked | {"COMP_CWORD": str(len(line.split()) - 1)},
    )
    assert result.stdout.split() == expected


PRESSED = """
import atexit, os, signal, sys
import tiburon.cli

def press():
    os.kill(os.getpid(), signal.SIGINT)

def run():
    # at the end of the process there is no handler that could be reached
    atexit.register(press)
    if sys.argv[1] == "raised":
        press()
    sys.exit(130)

tiburon.cli._run = run
tiburon.cli.main()
"""
"""The command, interrupted where no subcommand is reached, and again at its end."""


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("how", ["raised", "returned"])
def test_ctrl_c_anywhere_has_a_code_and_no_traceback(how):
    """Also while modules are imported, and while the process ends."""
    words = [sys.executable, "-c", PRESSED, how]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_version_is_that_of_the_package():
    """`tiburon --version` prints one line and succeeds."""
    result = run_command("--version")
    assert result.returncode == 0
    assert result.stdout == f"tiburon {tiburon.__version__}\n"


def test_unknown_command_fails_with_usage():
    """A typing error is exit code 2, as everywhere."""
    result = run_command("dmeo")
    assert result.returncode == 2
    assert "dmeo" in result.stderr


def test_our_errors_reach_the_user_without_a_traceback(monkeypatch, capsys):
    """The message says what to do; nothing else is printed, and the exit code is 1."""
    import tiburon.cli.application
    from tiburon.errors import OptionError

    def fail():
        raise OptionError("--step", ["a positive number"], -1)

    monkeypatch.setattr(tiburon.cli.application, "application", fail)
    with pytest.raises(SystemExit) as leaving:
        tiburon.cli.main()
    assert leaving.value.code == 1
    assert capsys.readouterr().err == "tiburon: --step: expected 'a positive number', got -1\n"


def test_bench_outside_a_checkout_states_where_to_run_it(monkeypatch, tmp_path):
    """Installed without its sources, the command names the way out."""
    monkeypatch.setattr(bench, "find_checkout", lambda start: None)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(application, ["bench"])
    assert result.exit_code == 1
    assert "make bench" in result.output


def test_checkout_is_found_from_any_directory_inside(tmp_path):
    """The nearest directory with both runner and sources is the checkout."""
    for file in ("benchmarks/__main__.py", "src/tiburon/__init__.py"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    inside = tmp_path / "docs" / "figures"
    inside.mkdir(parents=True)
    assert bench.find_checkout(inside) == tmp_path
    assert bench.find_checkout(tmp_path.parent) is None
    # a project that merely has benchmarks of its own is not ours
    (tmp_path / "src/tiburon/__init__.py").unlink()
    assert bench.find_checkout(inside) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (999_960, "1.0 MB"), (2_340_000_000, "2.3 GB")],
)
def test_sizes_are_formatted(size, text):
    """Sizes are shown with one decimal and the unit that fits."""
    assert format_size(size) == text
