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


def modules_after(statement: str) -> set[str]:
    """Run a statement in a new interpreter and return the full names of all modules it loads."""
    script = f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(result.stdout.splitlines()[-1]))


def test_forward_dynamics_loads_only_what_a_call_from_the_cache_needs():
    """Writers of code, rare parts and slow standard modules wait until someone uses them."""
    loaded = modules_after("import tiburon, tiburon.native.kernel; tiburon.forward_dynamics")
    late = {
        "hashlib",
        "numpy.random",
        "llvmlite",
        "tiburon.model.conversions",
        "tiburon.model.denavit_hartenberg",
        "tiburon.model.joints.universal",
        "tiburon.native.module",
        "tiburon.native.llvm_module",
        "tiburon.native.tape",
        "tiburon.trace.derivative",
        "tiburon.trace.primitives.orthogonal",
    }
    assert not late & loaded


@pytest.mark.parametrize(
    "package",
    ["tiburon.model", "tiburon.model.joints", "tiburon.trace", "tiburon.trace.primitives"],
)
def test_names_loaded_on_use_are_never_hidden_by_modules(package):
    """A public name means the same whichever modules were imported before."""
    statement = (
        "import importlib, pkgutil, types\n"
        f"package = importlib.import_module({package!r})\n"
        "for module in pkgutil.iter_modules(package.__path__):\n"
        "    importlib.import_module(f'{package.__name__}.{module.name}')\n"
        "for name in package.__all__:\n"
        "    assert not isinstance(getattr(package, name), types.ModuleType), name"
    )
    assert package in modules_after(statement)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    """Packages that load names on use still tell what they do not have."""
    import tiburon.model

    with pytest.raises(AttributeError, match=r"module 'tiburon.model' has no attribute 'Nothing'"):
        _ = tiburon.model.Nothing
