"""Importing is cheap: the compiler, plots and the command line load when they are used."""

import json
import subprocess
import sys

import pytest

HEAVY = ("llvmlite", "matplotlib", "typer", "rich", "scipy", "xarray")

REPORT = """
import json, pathlib, resource, sys, time
start = time.process_time()
{statement}
seconds = time.process_time() - start
status = pathlib.Path("/proc/self/status")
if status.exists():
    # what getrusage reports includes the process that started this one
    kilobytes = status.read_text().partition("VmHWM:")[2].split()[0]
    peak = 1024 * int(kilobytes)
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{
    "modules": sorted({{name.partition(".")[0] for name in sys.modules}}),
    "seconds": seconds,
    "peak_bytes": peak,
}}))
"""


def run_in_fresh_interpreter(statement: str) -> dict:
    """Run a statement in a new interpreter and report loaded modules, CPU seconds and memory."""
    result = subprocess.run(
        [sys.executable, "-c", REPORT.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "statement",
    [
        "import tiburon",
        "import tiburon, tiburon.cli",
        "import tiburon; tiburon.__version__",
        "import tiburon; tiburon.TiburonError",
    ],
)
def test_import_loads_nothing_heavy(statement):
    """Neither the package nor the names that need no compiler load a heavy package."""
    loaded = run_in_fresh_interpreter(statement)["modules"]
    assert not set(HEAVY) & set(loaded)


def test_help_of_the_command_line_loads_no_engine():
    """`tiburon --help` answers without NumPy, LLVM or plots."""
    statement = (
        "from typer.testing import CliRunner\n"
        "from tiburon.cli.application import application\n"
        "assert CliRunner().invoke(application, ['--help']).exit_code == 0"
    )
    loaded = run_in_fresh_interpreter(statement)["modules"]
    assert not {"numpy", "llvmlite", "matplotlib"} & set(loaded)


def test_import_takes_little_time_and_memory():
    """`import tiburon` stays below 0.18 s of CPU time and 120 MB resident."""
    # the least of three: other processes only ever add time
    reports = [run_in_fresh_interpreter("import tiburon") for _ in range(3)]
    assert min(report["seconds"] for report in reports) < 0.18
    assert max(report["peak_bytes"] for report in reports) < 120e6
