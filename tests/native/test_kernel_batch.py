"""The fast path for contiguous batches: results of the checked path, and only what it supports."""

import numpy as np
import pytest

from tests.native.programs import PROGRAMS, bits, cases, compiled, kernel, scale_kernel
from tiburon.errors import DomainError, NonFiniteError, ShapeError
from tiburon.native.kernel import PlainBatch, ProgramSource, make_kernel
from tiburon.trace import Input, trace


@pytest.fixture
def taken(monkeypatch):
    """Return a list of bools: whether the fast path handled each call."""
    answers = []
    run = PlainBatch.run

    def spy(self, *given):
        answer = run(self, *given)
        answers.append(answer is not None)
        return answer

    monkeypatch.setattr(PlainBatch, "run", spy)
    return answers


def checked(made, monkeypatch, *arguments, **named):
    """Call a kernel with the fast path disabled."""
    with monkeypatch.context() as patch:
        patch.setattr(made.__self__.owner, "_plain", None)
        return made(*arguments, **named)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("count", [1, 5, 8, 33])
def test_both_paths_give_the_same_bits(name, count, taken, monkeypatch):
    """All arguments in rows, and one of them shared by all cases."""
    x, y = cases(count)
    for given in ((x, y), (x[0], y), (x, y[0])):
        assert bits(kernel(name)(*given)) == bits(checked(kernel(name), monkeypatch, *given))
        assert bits(kernel(name)(given[0], y=given[1])) == bits(kernel(name)(*given))
    assert taken == [True] * 9


def test_matrices_and_numbers_in_rows(taken, monkeypatch):
    """Every combination of one case for all and one case each."""
    generator = np.random.default_rng(2)
    shapes = [(3, 3), (3,), ()]
    for mask in range(1, 8):
        given = [
            generator.normal(size=((6, *shape) if mask >> k & 1 else shape) or ())
            for k, shape in enumerate(shapes)
        ]
        given = [np.asarray(value) for value in given]
        found = scale_kernel()(*given)
        assert bits(found) == bits(checked(scale_kernel(), monkeypatch, *given))
    assert taken == [True] * 7


def test_batches_of_several_dimensions_take_the_fast_path(taken, monkeypatch):
    """Leading dimensions are equal, or missing; others broadcast on the checked path."""
    generator = np.random.default_rng(4)
    A, b, c = (generator.normal(size=(2, 4, *shape)) for shape in [(3, 3), (3,), ()])
    given = [(A, b, c), (A[0, 0], b, c), (A, b[0, 0], np.asarray(0.5))]
    for arguments in given:
        found = scale_kernel()(*arguments)
        assert bits(found) == bits(checked(scale_kernel(), monkeypatch, *arguments))
        for place in np.ndindex(2, 4):
            one = scale_kernel()(*(x[place] if x.shape[:2] == (2, 4) else x for x in arguments))
            assert found[place].tobytes() == one.tobytes()
        out = np.empty_like(found)
        assert scale_kernel()(*arguments, out=out) is out
        assert bits(out) == bits(found)
    assert taken == [True] * 6
    scale_kernel()(A, b[:1], c)
    scale_kernel()(A, b[0], c)
    scale_kernel()(A[:0], b[:0], c[:0])
    assert taken[6:] == [False] * 3


def test_parameters_between_arguments(taken):
    """Bound parameters are read from their own places."""
    inputs = [
        Input("k", (), parameter=True),
        Input("x", (2,)),
        Input("d", (2,), parameter=True),
        Input("t", ()),
    ]
    program = trace(lambda k, x, d, t: (k * x + t * d, k * t), inputs)
    made = make_kernel(ProgramSource(program), {"k": 3.0, "d": [1.0, 10.0]})
    vectors, numbers = made(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 2.0]))
    assert vectors.tolist() == [[3.5, 11.0], [11.0, 32.0]]
    assert numbers.tolist() == [1.5, 6.0]
    assert taken == [True]


@pytest.mark.parametrize(
    "rows",
    [
        lambda b: b[::2],
        lambda b: np.asfortranarray(b),
        lambda b: b.astype(np.float32),
        lambda b: b.astype(">f8"),
        lambda b: b.tolist(),
        lambda b: b[:0],
        lambda b: b.view(np.recarray),
        lambda b: np.frombuffer(b"\0" + b.tobytes(), dtype=np.uint8)[1:].view(float).reshape(6, 3),
    ],
    ids=["strided", "fortran", "float32", "bytes", "list", "empty", "subclass", "unaligned"],
)
def test_unusual_arguments_take_the_checked_path(rows, taken, monkeypatch):
    """It is left alone, not misread."""
    A, b = np.eye(3) * 2.0, np.arange(18.0).reshape(6, 3)
    found = scale_kernel()(A, rows(b), np.array(1.5))
    assert taken == [False]
    # twice the identity times 1.5, plus the rows themselves: exact
    assert np.array_equal(found, 4.0 * np.asarray(rows(b), dtype=float))


def test_batches_of_one_broadcast_on_the_checked_path(taken):
    """One row among many rows repeats, in either order."""
    A, b = np.stack([np.eye(3)] * 4), np.ones((1, 3))
    assert scale_kernel()(A, b, np.array(1.0)).shape == (4, 3)
    assert scale_kernel()(A[:1], np.ones((4, 3)), np.array(1.0)).shape == (4, 3)
    assert taken == [False, False]
    with pytest.raises(ShapeError, match="leading shapes that fit together"):
        scale_kernel()(A, np.ones((3, 3)), np.array(1.0))
    with pytest.raises(ShapeError, match=r"^b: expected 3, got 4$"):
        scale_kernel()(A, np.ones((4, 4)), np.array(1.0))


def test_out(taken):
    """Plain arrays apart from everything else are written directly; others by the checked way."""
    pair = compiled(lambda a: (a + 1.0, a * 2.0), {"a": (2,)})
    a = np.arange(10.0).reshape(5, 2)
    wanted = [(a + 1.0).tolist(), (a * 2.0).tolist()]
    out = (np.empty((5, 2)), np.empty((5, 2)))
    assert pair(a, out=out) is out
    assert [part.tolist() for part in out] == wanted
    assert taken == [True]
    same = np.empty((5, 2))
    with pytest.raises(ShapeError, match=r"^out: expected arrays that do not overlap"):
        pair(a, out=(same, same))
    into = a.copy()
    other = np.empty((5, 2))
    pair(into, out=(into, other))
    assert [into.tolist(), other.tolist()] == wanted
    room = np.empty((5, 4))
    pair(a, out=[room[:, :2], room[:, 2:]])
    assert room.tolist() == np.hstack(wanted).tolist()
    assert taken == [True, False, False, False]
    with pytest.raises(ShapeError, match=r"^out\[0\]: expected an array of shape \(5, 2\), got"):
        pair(a, out=(np.empty((4, 2)), np.empty((5, 2))))
    with pytest.raises(ShapeError, match=r"^out: expected a tuple of 2 arrays"):
        pair(a, out=(np.empty((5, 2)),))
    locked = np.empty((5, 2))
    locked.flags.writeable = False
    with pytest.raises(ShapeError, match=r"^out\[0\]: expected an array that can be written"):
        pair(a, out=(locked, np.empty((5, 2))))


def test_failures_are_reported_by_the_checked_path(taken):
    """Which explains them, flags them, or finds that large numbers are none."""
    root = compiled(lambda a: np.sqrt(a[0]) * 2.0, {"a": (3,)})
    a = np.ones((9, 3))
    a[4, 2] = np.nan
    with pytest.raises(NonFiniteError, match=r"got nan at index \(4, 2\)"):
        root(a)
    a[4] = [-1.0, 0.0, 0.0]
    with pytest.raises(DomainError, match=r"none in case 4: sqrt\(-1\) is nan"):
        root(a)
    a[4] = [4.0, 1.7e308, 1.7e308]
    assert root(a).tolist() == [2.0] * 4 + [4.0] + [2.0] * 4
    assert taken == [False] * 3


def test_results_own_their_memory():
    """Every call makes new arrays, and the inputs stay as they were."""
    double = compiled(lambda a: 2.0 * a, {"a": (2,)})
    a = np.ones((4, 2))
    first = double(a)
    first[:] = 0.0
    assert double(a).tolist() == [[2.0, 2.0]] * 4
    assert a.tolist() == [[1.0, 1.0]] * 4
