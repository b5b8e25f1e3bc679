"""Importing is cheap: the compiler, plots and the command line load when they are used."""

import json

import pytest

from tests.fresh_process import run_python

REPORT = """
import json, pathlib, sys
reports = []
for statement in sys.argv[1:]:
    exec(statement)
    reports.append(sorted(sys.modules))
status = pathlib.Path("/proc/self/status")
# not what getrusage reports: that includes the process that started this one
peak = status.read_text().partition("VmHWM:")[2].split()[0] if status.exists() else "0"
print(json.dumps([reports, 1024 * int(peak)]))
"""


def loaded_by(*statements):
    """Run statements in a new interpreter; return the modules after each, and the peak memory."""
    reports, peak = json.loads(run_python(REPORT, *statements).splitlines()[-1])
    return [set(modules) for modules in reports], peak


def test_import_loads_nothing_heavy():
    """Neither the package nor the names that need no compiler load a heavy package."""
    statements = (
        "import tiburon; tiburon.__version__",
        "tiburon.TiburonError",
        "import tiburon.cli",
    )
    reports, peak = loaded_by(*statements)
    heavy = {"numpy", "llvmlite", "matplotlib", "typer", "rich", "scipy", "xarray"}
    for statement, modules in zip(statements, reports, strict=True):
        assert not heavy & modules, statement
    assert len([name for name in reports[-1] if name.startswith("tiburon")]) <= 8
    assert peak < 120e6


def test_help_of_the_command_line_loads_no_engine():
    """`tiburon --help` answers without NumPy, LLVM or plots."""
    statement = (
        "from typer.testing import CliRunner\n"
        "from tiburon.cli.application import application\n"
        "assert CliRunner().invoke(application, ['--help']).exit_code == 0"
    )
    (modules,), _ = loaded_by(statement)
    assert not {"numpy", "llvmlite", "matplotlib"} & modules


def test_forward_dynamics_loads_only_what_a_call_from_the_cache_needs():
    """Writers of code, rare parts and slow standard modules wait until someone uses them."""
    (modules,), _ = loaded_by("import tiburon, tiburon.native.kernel; tiburon.forward_dynamics")
    late = {
        "hashlib",
        "html",
        "numpy.random",
        "llvmlite",
        "tiburon.algorithms.traversal",
        "tiburon.model.closure_kinds",
        "tiburon.model.conversions",
        "tiburon.model.denavit_hartenberg",
        "tiburon.model.joints.multi_axis",
        "tiburon.native.module",
        "tiburon.native.llvm_module",
        "tiburon.native.tape",
        "tiburon.trace.derivative",
        "tiburon.trace.primitives.orthogonal",
    }
    assert not late & modules


@pytest.mark.parametrize("frozen", [False, True])
def test_modules_are_visited_by_full_collections_alone(frozen):
    """What a name loads joins the oldest generation; what a program has frozen stays frozen."""
    statement = f"""
import gc, tiburon
gc.set_threshold(100_000)
if {frozen}:
    gc.freeze()
tiburon.Model
assert gc.isenabled() and (gc.get_freeze_count() > 0) is {frozen}
young = len(gc.get_objects(0)) + len(gc.get_objects(1))
assert (young > 10_000) is {frozen}, young
gc.disable()
tiburon.simulate
assert not gc.isenabled() and len(gc.get_objects(0)) > 1000
"""
    loaded_by(statement)


def test_names_loaded_on_use_are_never_hidden_by_modules():
    """A public name means the same whichever modules were imported before."""
    run_python(
        "import importlib, pkgutil, types\n"
        "for name in ('model', 'model.joints', 'trace'):\n"
        "    package = importlib.import_module(f'tiburon.{name}')\n"
        "    for module in pkgutil.iter_modules(package.__path__):\n"
        "        importlib.import_module(f'{package.__name__}.{module.name}')\n"
        "    for public in package.__all__:\n"
        "        assert not isinstance(getattr(package, public), types.ModuleType), public"
    )


def test_a_name_that_does_not_exist_is_an_attribute_error():
    """Packages that load names on use still tell what they do not have."""
    import tiburon.model

    with pytest.raises(AttributeError, match=r"module 'tiburon.model' has no attribute 'Nothing'"):
        _ = tiburon.model.Nothing
