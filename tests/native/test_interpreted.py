"""Without a compiler kernels still work, by way of the NumPy interpreter."""

import inspect
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tests.native.programs import PROGRAMS, cases, compiled, kernel, parameters_of
from tiburon.errors import CompileError, DomainError, NonFiniteError, OptionError, ShapeError
from tiburon.native import code
from tiburon.native.kernel import ProgramSource, make_kernel

# the same operations, rounded twice where native code rounds once, and other elementary functions
ROUNDING = 1e-12


@pytest.fixture
def interpreting(monkeypatch):
    """Ask for the interpreter."""
    monkeypatch.setenv("TIBURON_ENGINE", "interpreter")


def made(name):
    return make_kernel(ProgramSource(PROGRAMS[name]), parameters_of(name))


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


def assert_close(found, wanted):
    for a, b in zip(as_tuple(found), as_tuple(wanted), strict=True):
        assert np.shape(a) == np.shape(b)
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_interface_is_that_of_native_kernels(name, interpreting):
    """One case, batches, broadcasting, lists, keywords, out, nothing at all."""
    x, y = cases(12)
    slow, fast = made(name), kernel(name)
    assert inspect.ismethod(slow)
    assert_close(slow(x[0], y[0]), fast(x[0], y[0]))
    assert_close(slow(x, y), fast(x, y))
    assert_close(slow(x.reshape(3, 4, 5), y[0]), fast(x.reshape(3, 4, 5), y[0]))
    assert_close(slow(x[0].tolist(), y=y), fast(x[0].tolist(), y=y))
    assert_close(slow(x[:0], y[:0]), fast(x[:0], y[:0]))
    out = tuple(np.zeros_like(part) for part in as_tuple(fast(x, y)))
    given = out if isinstance(fast(x, y), tuple) else out[0]
    assert slow(x, y, out=given, threads=2) is given
    assert_close(given, fast(x, y))


def test_descriptions_of_kernels_are_the_same(interpreting):
    """Inputs, outputs, parameters; other parameters; pickling."""
    x, y = cases(3)
    slow, fast = made("pendulums").__self__, kernel("pendulums").__self__
    assert slow.inputs == fast.inputs
    assert slow.outputs == fast.outputs
    assert slow.parameters.keys() == fast.parameters.keys()
    assert repr(slow) == repr(fast)
    wanted = fast.with_parameters(gravity=1.6)(x, y)
    assert_close(slow.with_parameters(gravity=1.6)(x, y), wanted)
    assert_close(slow.evaluate(x, y, gravity=[1.6] * 3), wanted)
    assert_close(pickle.loads(pickle.dumps(slow.with_parameters(gravity=1.6)))(x, y), wanted)


def test_failures_are_the_same(interpreting):
    """Bad inputs, also unused ones; results that are not finite; flags; wrong shapes."""
    root = compiled(lambda x, unused: np.sqrt(x[:2]), {"x": (3,), "unused": ()})
    with pytest.raises(NonFiniteError, match="x: every value must be finite, got nan at index 2"):
        root([1.0, 2.0, np.nan], 1.0)
    with pytest.raises(NonFiniteError, match="unused: every value must be finite"):
        root([1.0, 2.0, 3.0], np.inf)
    with pytest.raises(DomainError, match=r"sqrt\(-2\) is nan; it depends on x"):
        root([1.0, -2.0, 3.0], 1.0)
    with pytest.raises(ShapeError, match=r"^x: expected 3, got 2$"):
        root([1.0, 2.0], 1.0)
    result, failed = root([[4.0, 9.0, 0.0], [1.0, -1.0, 0.0]], 1.0, errors="flag")
    assert failed.tolist() == [False, True]
    assert result[0].tolist() == [2.0, 3.0]
    assert np.isnan(result[1]).all()
    turn = compiled(lambda q: np.sin(q), {"q": ()})
    with pytest.raises(DomainError, match=r"angles are limited to 1e\+08 rad; it depends on q"):
        turn(3e8)


def test_large_finite_values_are_accepted(interpreting):
    """Here nothing is added up."""
    pick = compiled(lambda x: x[0] * 0.5, {"x": (3,)})
    assert pick([1.0, 1.7e308, 1.7e308]) == 0.5


def test_native_and_interpreted_kernels_coexist(monkeypatch):
    """The setting is read when a kernel is made, and a kernel keeps its engine."""
    x, y = cases(4)
    monkeypatch.setenv("TIBURON_ENGINE", "interpreter")
    slow = made("arithmetic")
    monkeypatch.setenv("TIBURON_ENGINE", "native")
    fast = made("arithmetic")
    assert inspect.ismethod(slow)
    assert inspect.isbuiltin(fast)
    assert_close(slow(x, y), fast(x, y))


def test_an_unknown_engine_is_refused(monkeypatch):
    """A misspelled setting must not be ignored."""
    monkeypatch.setenv("TIBURON_ENGINE", "fast")
    with pytest.raises(OptionError) as caught:
        made("arithmetic")
    assert str(caught.value) == "TIBURON_ENGINE: expected 'native' or 'interpreter', got 'fast'"


def test_requesting_native_code_without_llvmlite_raises(monkeypatch):
    """Whoever insists on speed is not given the interpreter."""
    monkeypatch.setattr(code, "_problem_with_llvmlite", lambda: "No module named 'llvmlite'")
    monkeypatch.setenv("TIBURON_ENGINE", "native")
    with pytest.raises(CompileError, match=r"No module named 'llvmlite'.*pip install llvmlite"):
        made("arithmetic")


BLOCK = """
import sys, warnings
sys.modules["llvmlite"] = None
warnings.simplefilter("always")
"""


def run_blocked(script, **settings):
    """Run a script in an interpreter that cannot import llvmlite."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TIBURON_")}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path), **settings}
    run = subprocess.run(
        [sys.executable, "-c", BLOCK + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run


USER = """
    import numpy as np
    import tiburon as tb
    from tiburon.native.kernel import ProgramSource, make_kernel
    from tiburon.trace import trace

    kernels = [
        make_kernel(ProgramSource(trace(lambda x, k=k: np.sin(x) * k, {"x": (2,)})))
        for k in (2.0, 3.0)
    ]
    x = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    for k, kernel in zip((2.0, 3.0), kernels):
        assert np.allclose(kernel(x), k * np.sin(x), rtol=1e-15)
        assert np.allclose(kernel(x[0]), k * np.sin(x[0]), rtol=1e-15)

    bob = tb.Inertia.point(2.0, com=(0.0, 0.0, -0.5))
    joint = tb.Revolute("pivot", axis=(0, 1, 0))
    model = tb.Model("pendulum", [tb.Body("rod", joint=joint, inertia=bob)])
    # a point mass on a rod: acceleration (torque - m g l sin q) / (m l^2)
    q, torque = np.array([0.3]), np.array([0.7])
    found = tb.forward_dynamics(model, q, np.array([0.2]), torque)
    assert np.allclose(found, (torque - 2.0 * 9.81 * 0.5 * np.sin(q)) / 0.5, rtol=1e-14)
    assert "llvmlite.binding" not in sys.modules
"""


def test_without_llvmlite_kernels_are_interpreted_with_one_warning():
    """Traced functions and the library, in a process that cannot import it."""
    run = run_blocked(USER)
    assert run.stderr.count("TiburonWarning") == 1
    assert "llvmlite cannot be imported" in run.stderr
    assert "pip install llvmlite" in run.stderr


def test_the_interpreter_on_request_gives_no_warning():
    """An explicit request raises no warning."""
    assert run_blocked(USER, TIBURON_ENGINE="interpreter").stderr == ""
