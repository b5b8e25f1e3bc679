"""Kernels outside of Python: addresses, strides, parameters; derivatives as kernels."""

import ctypes

import numpy as np
import pytest

import tiburon as tb
from tiburon.native.kernel import kernel_of
from tiburon.trace import jacobian
from tiburon.trace.interpret import interpret

ARM = tb.load("panda")
GENERATOR = np.random.default_rng(4)


def arguments(model, cases=()):
    step = GENERATOR.standard_normal((*cases, model.nv))
    q = model.integrate(np.broadcast_to(model.neutral(), (*cases, model.nq)), step)
    return q, *(GENERATOR.standard_normal((*cases, model.nv)) for _ in range(2))


def addresses(arrays):
    return (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])


def test_addresses_compute_what_the_kernel_does_with_strides_of_the_caller():
    kernel = tb.compile(tb.forward_dynamics, ARM)
    native = kernel_of(kernel).native()
    q, v, tau = arguments(ARM, (9,))
    expected = kernel(q, v, tau[0])
    # rows of a wider array, one joint force for all cases, and room between results
    wide = np.zeros((9, 40))
    wide[:, : ARM.nq], wide[:, 20 : 20 + ARM.nv] = q, v
    room = np.full((9, 13), np.nan)
    given = {"q": wide, "v": wide[:, 20:], "tau": tau[0]}
    inputs = (ctypes.c_void_p * len(native.inputs))()
    strides = (ctypes.c_longlong * len(native.inputs))()
    for place, item in enumerate(native.inputs):
        if item.parameter:
            inputs[place] = native.parameters[item.name]
        else:
            inputs[place] = given[item.name].ctypes.data
            strides[place] = 0 if item.name == "tau" else 40
    many = ctypes.CFUNCTYPE(
        ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_longlong, ctypes.c_longlong
    )(native.many)
    steps = (ctypes.c_longlong * 1)(13)
    assert many(inputs, strides, addresses([room]), steps, 2, 9) == 0
    assert room[2:, : ARM.nv].tobytes() == expected[2:].tobytes()
    assert np.isnan(room[:2]).all()
    assert np.isnan(room[:, ARM.nv :]).all()
    one = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(native.one)
    alone = np.empty(ARM.nv)
    for place, item in enumerate(native.inputs):
        if not item.parameter and item.name != "tau":
            inputs[place] = np.ascontiguousarray(given[item.name][3]).ctypes.data
    rows = [q[3].copy(), v[3].copy()]
    inputs[0], inputs[1] = (row.ctypes.data for row in rows)
    assert one(inputs, addresses([alone])) == 0
    assert alone.tobytes() == expected[3].tobytes()
    rows[0][2] = np.nan
    assert one(inputs, addresses([alone])) != 0


@pytest.mark.parametrize(
    "name",
    ["panda", "bluerov2_heavy", "four_bar", pytest.param("quadruped", marks=pytest.mark.slow)],
)
def test_derivatives_of_kernels_agree_with_each_other(name):
    """Directions, weights and the Jacobian, whichever algorithm computes it, describe one map."""
    model = tb.load(name)
    kernel = kernel_of(tb.compile(tb.forward_dynamics, model))
    q, v, tau = arguments(model)
    if model.loops:
        q, v = tb.assemble(model).q, np.zeros(model.nv)
    value, *blocks = kernel.jacobian(values=True)(q, v, tau)
    np.testing.assert_allclose(value, kernel.builtin()(q, v, tau), rtol=1e-11, atol=1e-11)
    directions = [GENERATOR.standard_normal(x.shape) for x in (q, v, tau)]
    along = kernel.forward()(q, v, tau, *directions)
    expected = sum(block @ x for block, x in zip(blocks, directions, strict=True))
    np.testing.assert_allclose(along, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    weight = GENERATOR.standard_normal(model.nv)
    for found, block in zip(kernel.reverse()(q, v, tau, weight), blocks, strict=True):
        scale = np.abs(weight @ block).max() + 1e-300
        np.testing.assert_allclose(found, weight @ block, rtol=1e-9, atol=1e-9 * scale)


def test_the_jacobian_of_an_arm_has_an_algorithm_of_its_own():
    kernel = kernel_of(tb.compile(tb.forward_dynamics, ARM))
    q, v, tau = arguments(ARM)
    generic = jacobian(kernel.program())
    given = {"q": q, "v": v, "tau": tau, **kernel.parameters}
    found = kernel.jacobian()
    for a, b in zip(found(q, v, tau), interpret(generic, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b).max())
    own, other = kernel_of(found).program(), generic
    assert len(own.graph.live(own.roots)) < 0.5 * len(other.graph.live(other.roots))


def test_what_is_no_kernel_is_refused():
    with pytest.raises(tb.ModelError, match=r"one that tiburon\.compile made"):
        kernel_of(np.sin)
