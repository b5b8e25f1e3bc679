"""Kernels as Python objects: signatures, results, parameters, names, fast and checked path."""

import ctypes
import dataclasses
import inspect
import pickle
import pydoc
import sys

import numpy as np
import pytest

from tests.native.programs import (
    PROGRAMS,
    bits,
    cases,
    compiled,
    kernel,
    parameters_of,
    scale_kernel,
)
from tiburon.errors import DomainError, OptionError, ShapeError
from tiburon.native import kernel as kernel_module
from tiburon.native import layout as layout_module
from tiburon.native import trampoline
from tiburon.native.kernel import Kernel, ProgramSource, make_kernel
from tiburon.trace import Input, trace

# description of a kernel


def test_a_kernel_shows_its_signature():
    """`inspect.signature` and `help` name arguments and keywords."""
    scale = scale_kernel()
    assert str(inspect.signature(scale)) == "(A, b, c, *, out=None, errors='raise', threads=None)"
    chain = kernel("pendulums")
    assert str(inspect.signature(chain)) == (
        "(x, y, *, out=None, errors='raise', threads=None, **parameters)"
    )
    text = pydoc.plain(pydoc.render_doc(chain))
    assert "pendulums(x, y, *, out=None" in text
    assert "parameter masses: shape (4,)" in text
    assert "returns result0: shape (..., 4)" in text
    assert chain.__name__ == "pendulums"


def test_unreadable_signature_is_omitted():
    """Names that are no identifiers stay in the text."""
    double = compiled(lambda x: 2.0 * x, {"hand.force": (2,)})
    with pytest.raises(ValueError, match="no signature found"):
        inspect.signature(double)
    assert "hand.force: shape (..., 2)" in double.__doc__
    assert double([1.0, 2.0]).tolist() == [2.0, 4.0]
    assert double(**{"hand.force": [1.0, 2.0]}).tolist() == [2.0, 4.0]


def test_a_kernel_describes_itself():
    """Inputs, outputs, parameters, source and program are attributes of `__self__`."""
    about = kernel("pendulums").__self__
    assert [(item.name, item.shape) for item in about.inputs] == [("x", (5,)), ("y", (3,))]
    assert [(item.name, item.shape) for item in about.outputs] == [
        ("result0", (4,)),
        ("result1", ()),
    ]
    assert about.parameters["masses"].tolist() == parameters_of("pendulums")["masses"].tolist()
    assert about.program() is PROGRAMS["pendulums"]
    assert repr(about) == "<tiburon kernel pendulums(x[5], y[3])>"
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = about.colour


# results


def test_one_output_is_an_array_and_several_are_a_tuple():
    """As the function returned them; a dict gives its values, and names to look up."""
    inputs = {"a": (2,)}
    a = np.array([1.0, 2.0])
    assert isinstance(compiled(lambda a: a + 1.0, inputs)(a), np.ndarray)
    (only,) = compiled(lambda a: (a + 1.0,), inputs)(a)
    assert only.tolist() == [2.0, 3.0]
    named = compiled(lambda a: {"sum": a.sum(), "twice": 2.0 * a}, inputs)
    total, twice = named(a)
    assert (total, twice.tolist()) == (3.0, [2.0, 4.0])
    assert [item.name for item in named.__self__.outputs] == ["sum", "twice"]
    sums, doubles = named(np.ones((3, 4, 2)))
    assert (sums.shape, doubles.shape) == ((3, 4), (3, 4, 2))


def test_matrix_output_has_two_dimensions():
    """Results keep the shape the function gave them, in any number of dimensions."""
    outer = compiled(lambda a, b: a[:, None, None] * b[None, :, None], {"a": (2,), "b": (3,)})
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    wanted = np.multiply.outer(a, b)[..., None]
    assert np.array_equal(outer(a, b), wanted)
    assert np.array_equal(outer(np.stack([a] * 5), b), np.stack([wanted] * 5))


@pytest.mark.parametrize("checked", [False, True])
def test_scalar_output_is_a_float(checked):
    """On the fast and on the checked path, alone and among arrays, as NumPy's functions do."""
    total = compiled(lambda a: a.sum(), {"a": (2,)})
    several = compiled(lambda a: (a.sum(), 2.0 * a, a[0]), {"a": (2,)})
    a = [1.0, 2.0] if checked else np.array([1.0, 2.0])
    assert type(total(a)) is np.float64
    assert total(a) == 3.0
    results = several(a)
    assert [type(part) for part in results] == [np.float64, np.ndarray, np.float64]
    assert (results[0], results[1].tolist(), results[2]) == (3.0, [2.0, 4.0], 1.0)
    assert total([[1.0, 2.0]]).tolist() == [3.0]


def test_results_own_their_memory():
    """Every call makes new, writable arrays; the inputs are never handed back."""
    same = compiled(lambda a: a, {"a": (3,)})
    a = np.ones(3)
    first, second = same(a), same(a)
    first[:] = 7.0
    assert (a.tolist(), second.tolist()) == ([1.0] * 3, [1.0] * 3)
    assert first.flags.owndata
    assert first.flags.writeable


# parameters


@pytest.fixture(scope="module")
def mixed():
    """Give a kernel whose parameters stand between its arguments, in various shapes."""
    inputs = [
        Input("k", (), parameter=True),
        Input("x", (2,)),
        Input("M", (2, 2), parameter=True),
        Input("t", ()),
        Input("d", (2,), parameter=True),
    ]
    program = trace(lambda k, x, M, t, d: k * (M @ x) + t * d, inputs, name="mixed")
    return make_kernel(ProgramSource(program), {"d": [1, 2], "k": 3, "M": [[1, 2], [3, 4]]})


def test_parameters_may_have_any_position(mixed):
    """They are bound by name; arguments keep their order."""
    wanted = [3.0 * 50.0 + 0.5, 3.0 * 110.0 + 1.0]
    assert mixed(np.array([10.0, 20.0]), 0.5).tolist() == wanted
    assert mixed([10, 20], 0.5).tolist() == wanted
    assert mixed(np.array([[10.0, 20.0]] * 3), 0.5).tolist() == [wanted] * 3


def test_parameters_of_a_call_and_of_a_case(mixed):
    """A keyword replaces the bound value for one call, with one row per case if wanted."""
    x = np.array([10.0, 20.0])
    assert mixed(x, 0.5, k=1.0).tolist() == [50.5, 111.0]
    assert mixed(x, 0.5, k=[1.0, 0.0], d=[0.0, 0.0]).tolist() == [[50.0, 110.0], [0.0, 0.0]]
    M = np.arange(20.0).reshape(5, 2, 2)
    found = mixed(x, np.zeros(5), M=M)
    assert np.array_equal(found, 3.0 * (M @ x))
    assert mixed(x, 0.5).tolist() == [150.5, 331.0]


def test_other_parameters_make_another_kernel_with_the_same_code(mixed):
    """Nothing is compiled and the first kernel does not change."""
    other = mixed.__self__.with_parameters(k=1.0)
    x = np.array([10.0, 20.0])
    assert other(x, 0.5).tolist() == [50.5, 111.0]
    assert mixed(x, 0.5).tolist() == [150.5, 331.0]
    assert other.__self__._code is mixed.__self__._code


def test_bound_parameters_are_read_only_copies():
    """A kernel must not change when an array of its owner does."""
    program = trace(lambda x, m: x * m, [Input("x", (2,)), Input("m", (2,), parameter=True)])
    m = np.array([1.0, 2.0])
    product = make_kernel(ProgramSource(program), {"m": m})
    m[:] = 50.0
    assert product(np.ones(2)).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        product.__self__.parameters["m"][0] = 3.0


def test_wrong_parameters_are_named(mixed):
    """Missing, unknown, of the wrong shape."""
    source = mixed.__self__.source
    with pytest.raises(ShapeError) as missing:
        make_kernel(source, {"k": 1.0, "d": [1.0, 2.0]})
    assert str(missing.value) == "mixed: parameter M: expected (2, 2), got nothing"
    with pytest.raises(
        OptionError, match=r"^mixed: parameter: expected 'M' or 'd' or 'k', got 'm'$"
    ):
        mixed.__self__.with_parameters(m=1.0)
    with pytest.raises(ShapeError, match=r"^d: expected 2, got 3$"):
        mixed.__self__.with_parameters(d=[1.0, 2.0, 3.0])
    with pytest.raises(ShapeError) as batch:
        mixed.__self__.with_parameters(k=[1.0, 2.0])
    assert str(batch.value) == (
        "k: expected (), got (2,); pass values that differ from case to case when calling"
    )


# names


@pytest.mark.parametrize(
    "name", ["sum", "T", "trace", "shape", "inputs", "name", "parameters", "evaluate", "owner"]
)
def test_argument_names_that_collide_are_renamed(name):
    """Otherwise a pickled kernel would come back as a method of an array."""
    double = make_kernel(ProgramSource(trace(lambda x: 2.0 * x, {"x": (2,)}, name=name)))
    assert double.__name__ == f"{name}_"
    assert double.__self__.name == name
    assert str(inspect.signature(double)).startswith("(x, *,")
    again = pickle.loads(pickle.dumps(double))
    assert again([1.0, 2.0]).tolist() == [2.0, 4.0]
    with pytest.raises(ShapeError, match=f"^{name}: expected 1 arguments"):
        double(1.0, 2.0)


def test_a_pickled_kernel_keeps_parameters_and_bits():
    """The builtin, its `__self__` and the kernel object all travel."""
    x, y = cases(6)
    chain = kernel("pendulums").__self__.with_parameters(gravity=3.7)
    wanted = bits(chain(x, y))
    again = pickle.loads(pickle.dumps(chain))
    assert type(again) is type(chain)
    assert again.__self__.parameters["gravity"] == 3.7
    assert bits(again(x, y)) == wanted
    about = pickle.loads(pickle.dumps(chain.__self__))
    assert about.name == "pendulums"
    owner = pickle.loads(pickle.dumps(chain.__self__.owner))
    assert isinstance(owner, Kernel)
    assert bits(owner.builtin()(x, y)) == wanted


# fast and checked path


def test_plain_calls_stay_on_the_fast_path(monkeypatch):
    """Arrays of one case, by position, keyword and with `out`, never reach the checked path."""
    reached = []
    evaluate = Kernel.evaluate

    def spy(self, *arguments, **named):
        reached.append(len(arguments))
        return evaluate(self, *arguments, **named)

    monkeypatch.setattr(Kernel, "evaluate", spy)
    program = trace(lambda A, c: (A * c, c + 1.0), {"A": (2, 2), "c": ()}, name="watched")
    watched = make_kernel(ProgramSource(program))
    A = np.ones((2, 2))
    out = (np.empty((2, 2)), np.empty(()))
    for c in (2.0, np.float64(2.0), np.array(2.0)):
        watched(A, c)
        watched(A, c=c)
        watched(c=c, A=A)
        watched(A, c, out=None)
        assert watched(A, c, out=out) is out
        assert watched(out=out, c=c, A=A) is out
    assert reached == []
    plain = (
        np.zeros((2, 4))[:, ::2],
        np.ones((3, 2, 2)),
        A.astype(np.float32),
        A.tolist(),
        A.T[::-1],
    )
    for other in plain:
        watched(other, 2.0)
    watched(A, 2)
    watched(A, 2.0, out=list(out))
    watched(A, 2.0, threads=1)
    watched(A, out[1], out=out)
    # names of keywords that are not interned
    watched(**{"".join(["A"]): A, "".join("c"): 2.0} | {"".join(["ou", "t"]): out})
    assert len(reached) >= 9


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((1.0,), {"a": 2.0}, "one value for a"),
        ((1.0,), {}, "nothing for b"),
        ((), {"b": 2.0}, "nothing for a"),
        ((1.0, 2.0, 3.0), {}, "2 arguments"),
        ((1.0, 2.0), {"out": 3.0}, "out: expected an array of shape"),
        ((1.0, 2.0), {"c": 3.0}, "keyword: expected"),
        ((1.0,), {"c": 3.0, "b": 1.0}, "keyword: expected"),
        ((), {"a": np.ones(2), "b": np.ones(3)}, "leading shapes"),
    ],
)
def test_wrong_calls_with_keywords_reach_the_checked_path(arguments, named, message):
    """The fast path accepts only complete calls; the errors are those of the checked path."""
    add = compiled(lambda a, b: a + b, {"a": (), "b": ()})
    with pytest.raises((ShapeError, OptionError), match=message):
        add(*arguments, **named)


def test_keywords_and_out_give_the_bits_of_the_plain_call():
    """In any order, with results of any number of dimensions."""
    x, y = (row[0] for row in cases(1))
    for name in PROGRAMS:
        run = kernel(name)
        wanted = run(x, y)
        assert bits(run(x, y=y)) == bits(wanted)
        assert bits(run(y=y, x=x)) == bits(wanted)
        out = empty_like(wanted)
        assert run(y=y, out=out, x=x) is out
        assert bits(out) == bits(wanted)


def empty_like(results):
    """Give empty arrays like the results of a call."""
    if isinstance(results, tuple):
        return tuple(np.full(np.shape(part), np.nan) for part in results)
    return np.full(np.shape(results), np.nan)


def test_a_failed_call_with_out_raises_and_keeps_reference_counts():
    """The error is that of the checked path; no reference to `out` is lost or kept."""
    root = compiled(lambda a: np.sqrt(a), {"a": (2,)})
    out = np.zeros(2)
    before = sys.getrefcount(out)
    for _ in range(50):
        with pytest.raises(DomainError):
            root(np.array([1.0, -1.0]), out=out)
        root(a=np.ones(2), out=out)
    assert sys.getrefcount(out) == before


def test_unknown_object_layout_uses_the_checked_path(monkeypatch):
    """On another interpreter the checked path does it all, with the same bits."""
    for name in PROGRAMS:
        # made before, for they are kept: others want them as they are on this interpreter
        kernel(name)
    for module in (trampoline, kernel_module):
        monkeypatch.setattr(module, "object_layout", lambda: None)
    x, y = cases(9)
    for name, program in PROGRAMS.items():
        plain = make_kernel(ProgramSource(program), parameters_of(name))
        assert inspect.ismethod(plain)
        assert bits(plain(x, y)) == bits(kernel(name)(x, y))
        assert bits(plain(x[0], y[0])) == bits(kernel(name)(x[0], y[0]))
        assert [item.name for item in plain.__self__.inputs] == ["x", "y"]
        assert bits(pickle.loads(pickle.dumps(plain))(x, y)) == bits(kernel(name)(x, y))
    total = make_kernel(ProgramSource(trace(lambda a: a.sum(), {"a": (2,)})))
    assert type(total(np.ones(2))) is np.float64


def test_the_layout_of_this_interpreter_is_known():
    """CPython with a NumPy of today, on 64 bits."""
    assert layout_module.object_layout() is not None


@pytest.mark.parametrize(
    "field",
    [
        "type",
        "data",
        "nd",
        "dims",
        "descr",
        "flags",
        "number",
        "tuple_size",
        "tuple_items",
        "array_type",
        "float64",
    ],
)
def test_wrong_object_layout_is_detected(field):
    """Every field that native code reads is compared with what NumPy says."""
    good = layout_module.object_layout()
    assert layout_module._fields_agree(good)
    offset = {"nd": -4, "type": -8}.get(field, 8)
    assert not layout_module._fields_agree(
        dataclasses.replace(good, **{field: getattr(good, field) + offset})
    )


def test_swapped_functions_are_detected():
    """Calling PyArray_Return or the like in place of the right function gives something else."""
    good = layout_module.object_layout()
    assert layout_module._functions_agree(good)
    text = ctypes.PYFUNCTYPE(ctypes.py_object)(lambda: "neither array nor number")
    address = ctypes.cast(text, ctypes.c_void_p).value
    for field in ("array_new", "number_new"):
        assert not layout_module._functions_agree(dataclasses.replace(good, **{field: address}))
