"""C files of several kernels, libraries by Zig, functions of CasADi."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import tiburon as tb

ARM = tb.load("panda")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def kernels():
    return tb.compile(tb.forward_dynamics, ARM), tb.compile(tb.inverse_dynamics, ARM)


def states(cases):
    return np.random.default_rng(0).standard_normal((3, cases, ARM.nv))


def check_library(path):
    """Both kernels of a library compute what ours do, for one case and with strides."""
    library = ctypes.CDLL(str(path))
    for name, kernel in zip(("arm_forward", "arm_inverse"), kernels(), strict=True):
        arrays = states(7)
        expected = kernel(*arrays)
        bound = [
            (ctypes.c_double * values.size).in_dll(library, f"{name}_{key}")
            for key, values in kernel.__self__.parameters.items()
        ]
        rows = [array.ctypes.data for array in arrays] + [ctypes.addressof(x) for x in bound]
        given = (ctypes.c_void_p * len(rows))(*rows)
        steps = (ctypes.c_longlong * len(rows))(*[ARM.nv] * 3, *[0] * len(bound))
        out = np.full((7, 11), np.nan)
        made, strides = (ctypes.c_void_p * 1)(out.ctypes.data), (ctypes.c_longlong * 1)(11)
        many = getattr(library, f"{name}_many")
        many.argtypes = [*[ctypes.c_void_p] * 4, ctypes.c_longlong, ctypes.c_longlong]
        assert many(given, steps, made, strides, 1, 7) == 0
        assert out[1:, : ARM.nv].tobytes() == expected[1:].tobytes()
        assert np.isnan(out[0]).all()
        assert getattr(library, name)(given, made) == 0
        assert out[0, : ARM.nv].tobytes() == expected[0].tobytes()
        arrays[0, 3, 2] = np.inf
        assert many(given, steps, made, strides, 0, 7) != 0


@needs_compiler
def test_one_file_of_several_kernels_compiles_as_c_and_its_header_as_c_plus_plus(tmp_path):
    files = tb.c_source(list(kernels()), name=["arm_forward", "arm_inverse"], header=True)
    assert files.names == ("arm_forward", "arm_inverse")
    (tmp_path / "arm.c").write_text(files.source)
    (tmp_path / "arm.h").write_text(files.header)
    flags = ["-std=c99", "-O1", "-march=native", "-ffp-contract=off", "-Wall", "-Werror"]
    library = tmp_path / "arm.so"
    subprocess.run(
        ["cc", *flags, "-include", "arm.h", "-shared", "-fPIC", "-o", library, "arm.c", "-lm"],
        cwd=tmp_path,
        check=True,
    )
    check_library(library)
    if shutil.which("c++"):
        call = '#include "arm.h"\nint main() { return sizeof(&arm_forward_many) == 0; }\n'
        (tmp_path / "main.cpp").write_text(call)
        command = ["c++", "-fsyntax-only", "-Wall", "-Werror", "main.cpp"]
        subprocess.run(command, cwd=tmp_path, check=True)


def test_wrong_names_are_refused():
    with pytest.raises(tb.DomainError, match="2 names that differ"):
        tb.c_source(list(kernels()), name=["arm"])
    with pytest.raises(tb.DomainError, match="2 names that differ"):
        tb.c_source(list(kernels()), name=["arm", "arm"])
    with pytest.raises(tb.DomainError, match="a kernel or more"):
        tb.c_source([])
    with pytest.raises(tb.OptionError, match="linux-x86_64"):
        tb.build_library(kernels()[0], "somewhere", targets="amiga")


@pytest.mark.slow
def test_a_library_by_zig_has_the_bits_of_kernels(tmp_path):
    pytest.importorskip("ziglang", reason="needs ziglang: pip install 'tiburon[c]'")
    built = tb.build_library(list(kernels()), tmp_path, name=["arm_forward", "arm_inverse"])
    (library,) = built.values()
    assert (tmp_path / "arm_forward.h").exists()
    check_library(library)


def energy_and_force(model, q, v, gain):
    force = tb.inverse_dynamics(model, q, v, 0.0 * v)
    return {"energy": tb.kinetic_energy(model, q, v), "force": gain * force}


@pytest.mark.slow
def test_functions_of_casadi_have_the_bits_of_kernels_and_their_jacobian():
    casadi = pytest.importorskip("casadi", reason="needs casadi: pip install 'tiburon[casadi]'")
    pytest.importorskip("ziglang", reason="needs ziglang: pip install 'tiburon[casadi]'")
    for function, options, sizes in (
        (tb.forward_dynamics, {}, {"q": ARM.nq, "v": ARM.nv, "tau": ARM.nv}),
        (energy_and_force, {"shapes": {"gain": ()}}, {"q": ARM.nq, "v": ARM.nv, "gain": 1}),
    ):
        f = tb.to_casadi(function, ARM, **options)
        kernel = tb.compile(function, ARM, **options)
        assert f.name_in() == list(sizes)
        generator = np.random.default_rng(5)
        given = [generator.standard_normal(size) for size in sizes.values()]
        plain = [x[0] if size == 1 else x for x, size in zip(given, sizes.values(), strict=True)]
        found, expected = f.call(given), kernel(*plain)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for a, b in zip(found, expected, strict=True):
            assert np.asarray(a).ravel().tobytes() == np.ravel(b).tobytes()
        symbols = [casadi.MX.sym(name, size) for name, size in sizes.items()]
        blocks = [casadi.jacobian(y, x) for y in f.call(symbols) for x in symbols]
        slopes = casadi.Function("slopes", symbols, blocks).call(given)
        for a, b in zip(slopes, kernel.__self__.jacobian()(*plain), strict=True):
            np.testing.assert_allclose(np.asarray(a).reshape(np.shape(b)), b, rtol=1e-12)


@pytest.mark.parametrize("name", ["panda", "quadruped", "bluerov2_heavy"])
def test_expressions_of_casadi_agree_with_kernels(name):
    casadi = pytest.importorskip("casadi", reason="needs casadi: pip install 'tiburon[casadi]'")
    model = tb.load(name)
    options = {"fluid": tb.Water()} if name == "bluerov2_heavy" else {}
    f = tb.to_casadi(tb.forward_dynamics, model, symbolic=True, **options)
    kernel = tb.compile(tb.forward_dynamics, model, **options)
    step, v, tau = np.random.default_rng(1).standard_normal((3, model.nv))
    q = model.integrate(model.neutral(), step)
    expected = kernel(q, v, tau)
    found = np.asarray(f(q, v, tau)).ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    t = casadi.SX.sym("tau", model.nv)
    slope = casadi.Function("slope", [t], [casadi.jacobian(f(q, v, t), t)])(tau)
    by_tau = kernel.__self__.jacobian()(q, v, tau)[2]
    np.testing.assert_allclose(slope, by_tau, rtol=1e-10, atol=1e-12 * np.abs(by_tau).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cart_pole", "bluerov2_heavy"])
def test_hessians_of_casadi_are_those_of_expressions(name):
    """Compiled second derivatives against those that CasADi derives of the expressions."""
    casadi = pytest.importorskip("casadi", reason="needs casadi: pip install 'tiburon[casadi]'")
    pytest.importorskip("ziglang", reason="needs ziglang: pip install 'tiburon[casadi]'")
    model = tb.load(name)
    options = {"fluid": tb.Water(current=(0.1, 0.2, 0.0))} if name == "bluerov2_heavy" else {}
    step, v, tau = np.random.default_rng(7).standard_normal((3, model.nv))
    given = [model.integrate(model.neutral(), step), v, tau]
    weights = np.random.default_rng(8).standard_normal(model.nv)
    found = []
    for choice, kind in (({"second": True}, casadi.MX), ({"symbolic": True}, casadi.SX)):
        f = tb.to_casadi(tb.forward_dynamics, model, **choice, **options)
        x = kind.sym("x", sum(map(len, given)))
        parts = casadi.vertsplit(x, [0, *np.cumsum([len(part) for part in given]).tolist()])
        total = casadi.dot(weights, f(*parts))
        hessian, gradient = casadi.hessian(total, x)
        both = casadi.Function("both", [x], [hessian, gradient])
        found.append([np.asarray(y) for y in both.call([np.concatenate(given)])])
    for ours, theirs in zip(*found, strict=True):
        scale = np.abs(theirs).max()
        assert scale > 0.1
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12 * scale)


def test_matrices_are_refused_by_casadi():
    pytest.importorskip("casadi", reason="needs casadi: pip install 'tiburon[casadi]'")
    pytest.importorskip("ziglang", reason="needs ziglang: pip install 'tiburon[casadi]'")
    with pytest.raises(tb.ShapeError, match="mass_matrix: result: expected a vector"):
        tb.to_casadi(tb.mass_matrix, ARM)
