"""Programs too large for the stack run in narrower vectors, with the same bits, or are refused."""

import numpy as np
import pytest

from tests.native.lanes import run_lanes, run_one
from tiburon.errors import CompileError
from tiburon.native import code, llvm_module, module
from tiburon.native.engine import host
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.trace import Input, function, solve_spd, trace

SIZE = 24


@pytest.fixture
def solver(monkeypatch):
    """Trace the solution of a system, and forget all compiled code."""
    monkeypatch.setenv("TIBURON_CACHE_DIR", "off")
    code.forget_codes()
    yield trace(solve_spd, [Input("A", (SIZE, SIZE)), Input("b", (SIZE,))], name="solve")
    code.forget_codes()


def systems(count):
    rng = np.random.default_rng(12)
    factors = rng.standard_normal((count, SIZE, SIZE))
    return factors @ factors.transpose(0, 2, 1) + np.eye(SIZE), rng.standard_normal((count, SIZE))


def limit_stack(monkeypatch, limit):
    monkeypatch.setattr(module, "STACK_LIMIT", limit)


def test_arrays_are_counted_in_bytes():
    """Arrays of vectors, numbers, pointers and counters of functions that are active at once."""
    text = """
define internal void @short(ptr %in) {
    %a = alloca [3 x <8 x double>], align 64
}
define internal void @long(ptr %in) {
    %b = alloca [500 x double]
}
define i32 @one(ptr %inputs) {
    %c = alloca [2 x ptr], align 16
    %d = alloca i64
    call void @long(ptr %c)
    call void @short(ptr %c)
}
"""
    assert module.stack_bytes(text) == 500 * 8 + 2 * 8


def test_calls_share_the_array_of_their_arguments():
    """A function that calls others many times takes no more memory for their arguments."""

    def run(x, calls):
        @function
        def shifted(a):
            return [value + 1.0 for value in a]

        for _ in range(calls):
            x = shifted(list(x))
        return x

    once, often = (trace(lambda x, k=k: run(x, k), {"x": (300,)}, name="calls") for k in (1, 20))
    texts = [module_for_one(one, vector_lanes=4, fused=True) for one in (once, often)]
    first, more = map(module.stack_bytes, texts)
    # results stay where they are
    assert more - first < 20 * 300 * 8
    x = np.random.default_rng(3).standard_normal((2, 300))
    assert np.allclose(run_one(often, x), x + 20.0)


def test_arguments_that_all_calls_share_are_stored_once():
    """The table of fixed arguments is filled before the first call, not before each one."""

    def run(x, y):
        @function
        def product(a, values):
            return sum(a * value for value in values)

        return product(product(product(x[0], y), y), y)

    program = trace(run, [Input("x", (1,)), Input("y", (5,))], name="products")
    text = module_for_one(program, vector_lanes=1, fused=True)
    before, *after = text[text.index("define i32 @one") :].split("call void @callee0")
    assert before.count("ptr %fixed, i64") == 5
    assert [part.count("ptr %fixed, i64") for part in after] == [0, 0, 0]


def test_wider_vectors_need_more(solver):
    """In proportion, but for a few pointers."""
    narrow, wide = (
        module.stack_bytes(module_for_many(solver, lanes=n, fused=True)) for n in (2, 8)
    )
    assert 3.5 * narrow < wide < 4.1 * narrow
    assert narrow > 2 * 8 * SIZE * SIZE


@pytest.mark.skipif(host().lanes < 4, reason="this machine has no wider vectors")
def test_narrower_vectors_give_the_same_bits(solver, monkeypatch):
    """Where the widest do not fit, half of them do."""
    A, b = systems(11)
    expected = make_kernel(ProgramSource(solver))(A, b)
    needed = module.stack_bytes(module_for_many(solver, lanes=host().lanes, fused=host().fused))
    limit_stack(monkeypatch, needed - 1)
    written = []

    def write(program, *, lanes, fused, x86):
        written.append(lanes)
        return module_for_many(program, lanes=lanes, fused=fused, x86=x86)

    monkeypatch.setattr(module, "module_for_many", write)
    code.forget_codes()
    assert make_kernel(ProgramSource(solver))(A, b).tobytes() == expected.tobytes()
    assert written == [host().lanes, host().lanes // 2]


def test_batches_too_large_for_vectors_run_case_by_case(solver, monkeypatch):
    """Where not even two lanes fit, one does, with the same bits."""
    A, b = systems(5)
    expected = make_kernel(ProgramSource(solver))(A, b)
    one, two = (
        module.stack_bytes(module_for_many(solver, lanes=n, fused=host().fused)) for n in (1, 2)
    )
    assert one < two
    limit_stack(monkeypatch, two - 1)
    code.forget_codes()
    assert make_kernel(ProgramSource(solver))(A, b).tobytes() == expected.tobytes()


@pytest.mark.skipif(host().lanes < 4, reason="this machine has no wider vectors")
@pytest.mark.skipif(module.has_own_generator(), reason="long functions compile quickly anyway")
def test_modules_that_are_narrow_are_written_once(solver, monkeypatch):
    """Quick code has narrow vectors, of one case where two do not fit on the stack."""
    A, b = systems(5)
    needed = {
        n: module.stack_bytes(module_for_many(solver, lanes=n, fused=host().fused))
        for n in (2, host().lanes)
    }
    monkeypatch.setattr(code, "QUICK_LINES", dict.fromkeys(("one", "many"), (0, 100_000)))
    monkeypatch.setattr(code, "WIDE_LINES", 0)
    monkeypatch.setattr(code, "quick_code_wanted", lambda: True)
    written = []

    def write(program, *, lanes, fused, x86):
        written.append(lanes)
        return module_for_many(program, lanes=lanes, fused=fused, x86=x86)

    monkeypatch.setattr(module, "module_for_many", write)
    for limit, expected in ((needed[2] - 1, [2, 1]), (2 * needed[host().lanes], [2])):
        limit_stack(monkeypatch, limit)
        code.forget_codes()
        written.clear()
        make_kernel(ProgramSource(solver))(A, b)
        assert written == expected


def test_programs_beyond_the_stack_limit_are_refused(solver, monkeypatch):
    """An error that says what to do, not a crash of the process."""
    text = module_for_one(solver, vector_lanes=host().lanes, fused=host().fused)
    limit_stack(monkeypatch, module.stack_bytes(text) - 1)
    with pytest.raises(CompileError, match=r"solve: needs .* MB of working memory.*interpreter"):
        make_kernel(ProgramSource(solver))


def _long(x):
    """Long straight-line code with conditions, angles and calls of a long function."""

    def wind(y):
        for k in range(30):
            y = np.where(y > 0.2 * x[0], np.sin(y) * x[1] + k, y * y - x[2])
            y = np.minimum(y / (1.0 + x[1] * x[1]), 2.0)
        return y

    g = function(wind)
    first = wind(x[0] * x[1])
    return np.stack([g(first), g(wind(first + x[2])), first])


def test_long_code_in_segments_gives_the_same_bits(monkeypatch):
    """Truth values and constants are repeated in each segment, floats are passed."""
    program = trace(_long, {"x": (3,)})
    x = np.random.default_rng(8).standard_normal((20, 3))
    whole = run_one(program, x)
    text = module_for_one(program, vector_lanes=4, fused=True)
    monkeypatch.setattr(llvm_module, "LONGEST_FUNCTION", 40)
    monkeypatch.setattr(llvm_module, "SEGMENT_LENGTH", 17)
    divided = module_for_one(program, vector_lanes=4, fused=True)
    assert divided.count("\ndefine") >= text.count("\ndefine") + 6
    np.testing.assert_array_equal(run_one(program, x), whole)


def test_values_are_loaded_where_they_are_used():
    """Inputs that only code after a call reads are loaded after the call."""

    @function
    def product(a, b):
        return a * b

    def run(x):
        # a function that is called once would be part of the code around it
        called = product(product(x[0], x[1]), x[1])
        return [called + x[2], called * x[3]]

    program = trace(run, [Input("x", (4,))], name="late")
    text = module_for_one(program, vector_lanes=host().lanes, fused=host().fused)
    before, after = text[text.index("define i32 @one") :].rsplit("call void @callee0", 1)
    for place in (2, 3):
        load = f"= getelementptr double, ptr %t2, i64 {place}"
        assert load in after
        assert load not in before
    assert np.array_equal(run_one(program, np.array([[2.0, 3.0, 5.0, 7.0]])), [[23.0, 126.0]])


def test_functions_that_are_called_once_are_part_of_the_code_around_them(monkeypatch):
    """Nested ones, too; without a call, and with the bits of calls."""

    @function
    def inner(a, b):
        return [a * b + 1.0, np.sin(a) - b, b]

    @function
    def outer(a, b, c):
        x, y, z = inner(a * c, b)
        return [x / c, y * z + a, c, np.where(a > b, x, y)]

    def run(x):
        first = outer(x[0], x[1], x[2] * x[2] + 0.5)
        return [*first, first[0] * x[0]]

    program = trace(run, [Input("x", (3,))], name="opened")
    x = np.random.default_rng(6).standard_normal((17, 3))
    opened, flat = run_one(program, x), module_for_one(program, vector_lanes=4, fused=True)
    lanes = run_lanes(program, x, 4)
    monkeypatch.setattr(llvm_module, "LONGEST_OPENED", 0)
    called, text = run_one(program, x), module_for_one(program, vector_lanes=4, fused=True)
    assert "call void @callee" in text
    assert "call void @callee" not in flat
    assert opened.tobytes() == called.tobytes() == lanes.tobytes()
    assert run_lanes(program, x, 4).tobytes() == called.tobytes()
