"""Kernels written as C from Python give the same bits as the kernels themselves."""

import ctypes
import subprocess

import numpy as np
import pytest

import tiburon as tb
from tests.native.emitted import COMPILER
from tests.robots import ROBOTS

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler `cc` on this machine")


def swing(model, q, v, target):
    """Drive the robot to a velocity, and say how it accelerates."""
    tau = 40.0 * (target - v)
    return {"force": tau, "acceleration": tb.forward_dynamics(model, q, v, tau)}


def kernels(model):
    """List kernels of a library function, of several, and of a user's function."""
    return {
        "one": tb.compile(tb.forward_dynamics, model),
        "several": tb.compile([tb.mass_matrix, tb.potential_energy], model),
        "own": tb.compile(swing, model, shapes={"target": model.nv}),
    }


def run_c(text, name, kernel, arguments, folder):
    """Compile a file as its comment says, and run it with its own parameters."""
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text)
    command = [COMPILER, "-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", library, source, "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    inputs = [array.ctypes.data for array in arguments]
    for parameter, value in kernel.__self__.parameters.items():
        stored = (ctypes.c_double * max(value.size, 1)).in_dll(loaded, f"{name}_{parameter}")
        inputs.append(ctypes.addressof(stored))
    results = [np.empty(output.shape) for output in kernel.__self__.outputs]
    outputs = [result.ctypes.data for result in results]
    tables = [(ctypes.c_void_p * len(part))(*part) for part in (inputs, outputs)]
    assert getattr(loaded, name)(*tables) == 0
    return results


@needs_compiler
@pytest.mark.parametrize("kind", ["one", "several", "own"])
def test_exported_c_gives_the_bits_of_the_kernel(kind, tmp_path):
    """With the parameters that were bound to the kernel, for a kicked floating robot."""
    model = ROBOTS["quadruped"]
    kernel = kernels(model)[kind]
    rng = np.random.default_rng(8)
    numbers = {"q": model.random_state(rng)[0]}
    arguments = [
        numbers.get(item.name, rng.standard_normal(item.shape)) for item in kernel.__self__.inputs
    ]
    found = run_c(tb.c_source(kernel, name="exported"), "exported", kernel, arguments, tmp_path)
    expected = kernel(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for ours, theirs in zip(expected, found, strict=True):
        assert np.asarray(ours).tobytes() == theirs.tobytes()


def test_the_function_is_called_like_the_kernel():
    """Unless another name is given."""
    model = next(iter(ROBOTS.values()))
    text = tb.c_source(tb.compile(tb.potential_energy, model))
    assert "int potential_energy(const double *const *inputs" in text
    assert "const double potential_energy_gravity[" in text


@pytest.mark.parametrize("thing", [len, swing, 3, np.zeros(2).sum])
def test_only_kernels_can_be_exported(thing):
    """A function that was not compiled yet is told what to do."""
    with pytest.raises(tb.DomainError, match=r"kernel: expected a compiled kernel.*compile\(\)"):
        tb.c_source(thing)
