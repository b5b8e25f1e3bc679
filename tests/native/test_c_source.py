"""Emitted C computes the same bits as the compiled kernel, for everything a graph can hold."""

import ctypes
import itertools
import math
import subprocess

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_tree
from tests.native.emitted import COMPILER
from tests.native.lanes import load
from tests.native.programs import PROGRAMS
from tests.robots import ROBOTS
from tiburon.errors import DomainError, OptionError, ShapeError
from tiburon.functions.kernel_source import LibrarySource
from tiburon.model import World
from tiburon.native.c_source import program_c_source
from tiburon.native.engine import host
from tiburon.native.llvm_module import module_for_one
from tiburon.trace.array import as_traced
from tiburon.trace.graph import BOOL_FUNCTIONS, FLOAT_FUNCTIONS, Graph
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.primitive import norm
from tiburon.trace.primitives.quadratic import solve_qp
from tiburon.trace.primitives.row_products import ZERO, Piece, RowProducts
from tiburon.trace.primitives.spd import solve_spd
from tiburon.trace.primitives.tree import solve_tree
from tiburon.trace.program import Input, Output, Program, trace
from tiburon.trace.regions import fixed_loop, function, while_loop
from tiburon.trace.value import require, where

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler `cc` on this machine")

WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
"""A reader's compiler should have nothing to say."""


class Compiled:
    """A function for one case behind the interface that kernels and emitted C share."""

    def __init__(self, program, address, owner):
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._call, self._owner, self._program = kind(address), owner, program

    def __call__(self, *inputs, outputs=None):
        given = [np.ascontiguousarray(value, dtype=np.float64) for value in inputs]
        found = outputs or [np.full(o.shape, 7.0) for o in self._program.outputs]
        tables = [
            (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])
            for arrays in (given, found)
        ]
        status = self._call(*[ctypes.addressof(table) for table in tables])
        return status, found


def compiled_by_llvm(program, *, fused=True):
    text = module_for_one(program, vector_lanes=host().lanes, fused=fused)
    code = load(text, quick=True)
    return Compiled(program, code.address("one"), code)


def compiled_by_cc(program, folder, *, options=("-O2",), **keywords):
    source, library = folder / "kernel.c", folder / f"kernel{len(list(folder.iterdir()))}.so"
    source.write_text(program_c_source(program, name="kernel", **keywords))
    command = [COMPILER, "-std=c99", *options, "-ffp-contract=off", *WARNINGS, "-shared", "-fPIC"]
    done = subprocess.run(
        [*command, "-o", str(library), str(source), "-lm"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(library))
    return Compiled(program, ctypes.cast(loaded.kernel, ctypes.c_void_p).value, loaded)


def same_bits(a, b):
    """Compare bit patterns; which NaN it is does not count, for compilers fold them differently."""
    return np.all((a.view(np.int64) == b.view(np.int64)) | (np.isnan(a) & np.isnan(b)))


def assert_same(program, folder, states, *, fused=True, options=("-O2",)):
    """Compare emitted C with the compiled kernel on given inputs; count the finite results."""
    kernel = compiled_by_llvm(program, fused=fused)
    emitted = compiled_by_cc(program, folder, fused=fused, options=options)
    (wanted, expected), (statuses, found) = (
        zip(*[run(*state) for state in states], strict=True) for run in (kernel, emitted)
    )
    # results of all states at once: one by one takes longer than to compute them
    for k, output in enumerate(program.outputs):
        a, b = (np.array([results[k] for results in runs]) for runs in (expected, found))
        assert same_bits(a, b), (output.name, first_difference(states, a, b))
    assert statuses == wanted
    return statuses.count(0)


def first_difference(states, a, b):
    """Return the first state whose results differ, with both of them."""
    return next(
        (state, x, y) for state, x, y in zip(states, a, b, strict=True) if not same_bits(x, y)
    )


def random_states(program, count, *, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return [[scale * rng.normal(size=i.shape) for i in program.inputs] for _ in range(count)]


# every operation


def program_of_all_operations():
    """Apply each operation of the graph to inputs, and to a product where that may be fused."""
    graph = Graph()
    a, b, c = (graph.input(0, k) for k in range(3))
    arities = dict.fromkeys(FLOAT_FUNCTIONS, 1)
    arities |= dict.fromkeys(("add", "sub", "mul", "div", "atan2", "pow", "hypot", "min", "max"), 2)
    found = {}
    for op, arity in arities.items():
        found[op] = graph.node(op, (a, b)[:arity])
    truths = {op: graph.node(op, (a, b)) for op in ("less", "less_equal", "equal")}
    low, high = truths["less"], graph.node("less", (b, c))
    truths |= {"and": graph.node("and", (low, high)), "or": graph.node("or", (low, high))}
    truths |= {"not": graph.node("not", (low,)), "truth": graph.node("truth", (), True, 2)}
    assert set(BOOL_FUNCTIONS) <= set(truths)
    for op, node in truths.items():
        found[op] = graph.node("where", (node, a, c))
    product = graph.node("mul", (a, b))
    found["fused_add"] = graph.node("add", (product, c))
    found["fused_sub"] = graph.node("sub", (product, c))
    found["fused_negative_add"] = graph.node("sub", (c, product))
    # three divisions by one thing share its reciprocal; one of them is the reciprocal
    found["reciprocal"] = graph.node("div", (b, c))
    found["shared"] = graph.node("div", (product, c))
    found["copy"] = graph.node("div", (graph.const(1.0), c))
    found["require"] = graph.require(low, c, "a must be below b")
    for value in (0.1, -2.5e-310, math.inf, -math.inf, math.nan, 1e300):
        found[f"const {value}"] = graph.const(value)
    outputs = tuple(Output(name, (), (node,)) for name, node in found.items())
    return Program("all operations", graph, (Input("x", (3,)),), outputs, single=False)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1e-310, 1e-8, 1e8, 1.1e8, 710.0, -745.0, 1e200]


@needs_compiler
@pytest.mark.parametrize("fused", [True, False])
def test_every_operation_gives_the_same_bits(tmp_path, fused):
    """Random numbers of all sizes, and all pairs of special ones."""
    program = program_of_all_operations()
    rng = np.random.default_rng(1)
    states = [[[x, y, 0.3]] for x, y in itertools.product([*SPECIAL, math.inf, math.nan], repeat=2)]
    for exponent in (0, 1, 3, -3, 8, -100, 100):
        states += [[rng.normal(size=3) * 10.0**exponent] for _ in range(200)]
    assert_same(program, tmp_path, states, fused=fused)


def test_every_operation_is_in_the_program_of_all_operations():
    """A new operation must be compared too."""
    from tiburon.native.body import _EMIT
    from tiburon.trace.lower import lower

    program = program_of_all_operations()
    present = {instruction.op for instruction in lower(program.graph, program.roots)}
    assert set(_EMIT) <= present
    assert {"sin", "cos", "const", "truth", "input", "copy"} <= present


# whole programs


def pendulum_like(q, v):
    """Mix trigonometry, divisions, roots and choices, as mechanics does."""
    length = np.sqrt(q @ q + 1.0)
    angle = np.arctan2(v[0], length)
    mixed = np.array([np.sin(q[0]), np.cos(q[1]) / length, np.tan(q[2] / 4.0) / length], like=q)
    return {
        "rate": mixed * angle + np.maximum(v, q) * np.exp(-length),
        "energy": where(angle > 0.0, mixed @ v, np.hypot(v[1], v[2])),
    }


@needs_compiler
@pytest.mark.parametrize("options", [("-O0",), ("-O2",), ("-O3", "-march=native")])
def test_program_gives_the_same_bits_at_every_optimization(tmp_path, options):
    """The promise is about the language, not about one level of the compiler."""
    program = trace(pendulum_like, {"q": (3,), "v": (3,)})
    states = random_states(program, 300, scale=2.0)
    assert assert_same(program, tmp_path, states, options=options) == 300


@function
def cubic(x, y):
    return x * x * x - y * np.sin(x), x / y


def with_regions(q):
    """Call a function twice, repeat it, and iterate until it converges."""
    a, b = cubic(q[0], q[1] + 3.0)
    c, d = cubic(a, b * b + 1.0)
    e, f = fixed_loop(
        5, lambda k, state: (np.cos(state[0] * q[2]) + 0.1 * k, state[0] - d), (c, q[1])
    )
    target = 2.0 + q[0] * q[0]
    # Heron's square root, with an elementary function and a call inside the loop
    root = while_loop(
        lambda x: np.abs(x * x - target) > 1e-12 * target * np.tanh(x + 20.0),
        lambda x: where(x > 100.0, cubic(x, 4.0 * x * x)[0], 0.5 * (x + target / x)),
        target,
        max_iterations=6,
    )
    return np.array([a, b, c, d, e, f, root.state, root.count, where(root.converged, 1.0, 0.0)])


@needs_compiler
def test_regions_give_the_same_bits(tmp_path):
    """Functions, fixed loops and conditional loops, converged and cut off."""
    program = trace(with_regions, {"q": (3,)})
    states = [*random_states(program, 200), *random_states(program, 50, scale=50.0, seed=2)]
    assert assert_same(program, tmp_path, states) > 200
    # the test would miss a case if all iterations ended the same way
    kernel = compiled_by_llvm(program)
    ends = {tuple(kernel(*state)[1][0][-2:]) for state in states}
    assert {converged for _, converged in ends} == {0.0, 1.0}
    assert len(ends) >= 3


@needs_compiler
def test_calls_in_lanes_give_the_same_bits(tmp_path):
    """C code makes them one after another."""
    program = PROGRAMS["side_by_side"]
    assert assert_same(program, tmp_path, random_states(program, 50)) == 50


@needs_compiler
@pytest.mark.parametrize("size", [3, 8, 14])
def test_positive_definite_solutions_give_the_same_bits(tmp_path, size):
    """Spelled out in the graph, unrolled in a function, and with loops."""

    def solve(x):
        return solve_spd(np.outer(x, x) + np.eye(size), x, inline=False)

    program = trace(solve, {"x": (size,)})
    assert assert_same(program, tmp_path, random_states(program, 20)) == 20


@needs_compiler
def test_quadratic_programs_give_the_same_bits(tmp_path):
    """Indices that are computed, and branches."""
    A = np.random.default_rng(2).standard_normal((9, 4))

    def solve(x):
        W = np.outer(x, x) + np.eye(4)
        found = solve_qp(W, 3.0 * x, A2=A, b2=-1.0 + 0.3 * A @ x, cones=[(0, 1, 2)], mu=[0.4])
        return [*found.x, *found.inequality_multipliers, *found.cone_multipliers, found.status]

    program = trace(solve, {"x": (4,)})
    assert assert_same(program, tmp_path, random_states(program, 20)) == 20


@needs_compiler
@pytest.mark.parametrize("size", [4, 18])
def test_tree_solutions_give_the_same_bits(tmp_path, size):
    """Branches, and tables of places where the loops remain."""
    parents = [-1, 0, 1, 0, *range(3, size - 1)]

    def solve(x):
        matrix = np.eye(size) * (2.0 + size)
        rows = as_traced(matrix)
        for i, parent in enumerate(parents):
            while parent >= 0:
                rows[i, parent] = x[i] * x[parent]
                parent = parents[parent]
        return solve_tree(parents, rows, x[:size], inline=False)

    program = trace(solve, {"x": (size,)})
    assert assert_same(program, tmp_path, random_states(program, 20, scale=0.5)) == 20


@needs_compiler
def test_loops_with_many_states_give_the_same_bits(tmp_path):
    """States that are chosen by a loop over them, a different number of times for each case."""

    def settle(x):
        state = while_loop(
            lambda s: s[0] < 3.0,
            lambda s: [1.5 * s[0] + 0.1, *(a * 0.5 + s[0] for a in s[1:])],
            [0.5 + x[0] * x[0], *(x[1] + 0.1 * k for k in range(80))],
            40,
        ).state
        return np.array(state)

    program = trace(settle, {"x": (2,)})
    assert assert_same(program, tmp_path, random_states(program, 20)) == 20


@needs_compiler
@pytest.mark.parametrize("size", [4, 12])
def test_products_of_rows_give_the_same_bits(tmp_path, size):
    """Spelled out in a function, and with loops over pieces."""
    pieces = [
        piece
        for row in range(size)
        for piece in (
            Piece(row, 0, row + 1, 0, row * size),
            *([Piece(row, row + 1, size, ZERO, row * size + row + 1)] if row + 1 < size else []),
        )
    ]
    products = RowProducts([(6, size), (6, size)], [[(0, 1)]], pieces)
    program = trace(lambda x: products.apply(list(x)), {"x": (12 * size,)})
    assert assert_same(program, tmp_path, random_states(program, 10)) == 10


@needs_compiler
def test_orthogonal_solutions_of_any_rank_give_the_same_bits(tmp_path):
    """Pivots, ranks and lengths of loops that depend on the numbers."""

    def solve(x, b):
        factor = factor_orthogonal(x, cut=1e-10)
        return np.concatenate([factor.solve(b), [factor.rank]])

    program = trace(solve, {"x": (5, 4), "b": (5,)})
    rng = np.random.default_rng(5)
    states = []
    for rank in (0, 1, 2, 3, 4):
        for _ in range(10):
            x = rng.normal(size=(5, rank)) @ rng.normal(size=(rank, 4))
            states.append([x, rng.normal(size=5)])
    assert assert_same(program, tmp_path, states) == 50
    kernel = compiled_by_llvm(program)
    assert {kernel(*state)[1][0][-1] for state in states} == {0.0, 1.0, 2.0, 3.0, 4.0}


@needs_compiler
def test_safe_norm_gives_the_same_bits(tmp_path):
    """From zero to numbers whose squares overflow."""
    program = trace(lambda x: norm(x), {"x": (4,)})
    states = [[np.zeros(4)]]
    for exponent in (-320, -200, 0, 200, 300):
        states += random_states(program, 10, scale=10.0**exponent, seed=exponent % 97)
    assert_same(program, tmp_path, states)


@needs_compiler
@pytest.mark.parametrize("name", ["forward_dynamics", "inverse_dynamics", "mass_matrix"])
@pytest.mark.parametrize("seed", [1, 2])
def test_dynamics_of_random_trees_give_the_same_bits(tmp_path, name, seed):
    """Real kernels, with the parameters they are bound to, on kicked states."""
    source = LibrarySource(random_tree(seed, count=6), (name,), World())
    program = source.program()
    parameters = source.parameters()
    rng = np.random.default_rng(seed)
    states = [
        [parameters.get(item.name, rng.normal(size=item.shape)) for item in program.inputs]
        for _ in range(50)
    ]
    # short quaternions are refused, by both
    assert assert_same(program, tmp_path, states) > 25
    text = program_c_source(program, name="kernel", parameters=parameters)
    assert "const double kernel_inertia[" in text


# the interface


@needs_compiler
def test_status_reports_non_finite_values(tmp_path):
    """NaN and infinity are reported, read or written, except in parameters."""
    inputs = [Input("q", (3,)), Input("mass", (2,), parameter=True)]

    def quotient(q, mass):
        return require(q[0] > -5.0, q[0] / q[1], "too far left") + 0.0 * q[2] + mass[0]

    emitted = compiled_by_cc(trace(quotient, inputs), tmp_path)
    assert emitted([1.0, 2.0, 0.0], [1.0, 1.0]) == (0, [1.5])
    # not computed with, and looked at all the same
    assert emitted([1.0, 2.0, math.inf], [1.0, 1.0])[0] == 1
    assert emitted([math.nan, 2.0, 0.0], [1.0, 1.0])[0] == 1
    assert emitted([1.0, 0.0, 0.0], [1.0, 1.0])[0] == 1
    assert emitted([-6.0, 2.0, 0.0], [1.0, 1.0])[0] == 1
    assert emitted([1.0, 2.0, 0.0], [1.0, math.nan])[0] == 0


@needs_compiler
def test_outputs_may_alias_inputs(tmp_path):
    """Everything is read before anything is written."""
    program = trace(lambda x: x[::-1] * 2.0, {"x": (5,)})
    row = np.arange(5.0)
    status, _ = compiled_by_cc(program, tmp_path)(row, outputs=[row])
    assert status == 0
    assert row.tolist() == [8.0, 6.0, 4.0, 2.0, 0.0]


@needs_compiler
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_arrays_of_any_shape_can_be_emitted(tmp_path, shape):
    """Single numbers, empty arrays and matrices; a program without inputs too."""
    program = trace(lambda x: (x + 1.0, 0.25), {"x": shape})
    status, (moved, constant) = compiled_by_cc(program, tmp_path)(np.ones(shape))
    assert status == 0
    assert np.array_equal(moved, np.full(shape, 2.0))
    assert constant == 0.25
    assert compiled_by_cc(trace(lambda: 0.5, {}), tmp_path)() == (0, [0.5])


@needs_compiler
def test_parameters_become_arrays_with_exactly_their_values(tmp_path):
    """The default of each parameter can be passed as that input, to the last bit."""
    inputs = [Input("q", (2,)), Input("body mass", (2, 3), parameter=True)]
    program = trace(lambda q, mass: mass @ np.ones(3) * q, inputs)
    values = np.random.default_rng(3).normal(size=(2, 3)) * 10.0 ** np.arange(-160, 161, 160)
    source = tmp_path / "arm.c"
    source.write_text(program_c_source(program, name="arm", parameters={"body mass": values}))
    library = tmp_path / "arm.so"
    command = [COMPILER, "-std=c99", "-O2", "-ffp-contract=off", *WARNINGS, "-shared", "-fPIC"]
    subprocess.run([*command, "-o", library, source, "-lm"], check=True)
    stored = (ctypes.c_double * 6).in_dll(ctypes.CDLL(str(library)), "arm_body_mass")
    assert same_bits(np.array(stored), values.reshape(-1))


@needs_compiler
def test_unsafe_compiler_options_are_refused(tmp_path):
    """Fast math would break the promise silently."""
    source = tmp_path / "k.c"
    source.write_text(program_c_source(trace(lambda x: x, {"x": ()}), name="k"))
    done = subprocess.run(
        [COMPILER, "-std=c99", "-ffast-math", "-c", "-o", tmp_path / "k.o", source],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "IEEE 754" in done.stderr


def test_header_states_how_to_use_the_file():
    """Inputs, shapes, parameters and the command to compile, in the comment at the top."""
    inputs = [Input("q", (7,)), Input("mass", (7, 1), parameter=True)]
    program = trace(lambda q, mass: {"acceleration": q, "energy": q @ q}, inputs, name="fall")
    text = program_c_source(program, name="arm", parameters={"mass": np.ones((7, 1))})
    head = text[: text.index("*/")]
    for expected in (
        "int arm(const double *const *inputs, double *const *outputs);",
        "inputs[0]   q             shape (7,)",
        "inputs[1]   mass          shape (7, 1)  parameter, here arm_mass",
        "outputs[0]  acceleration  shape (7,)",
        "outputs[1]  energy        shape ()",
        "cc -std=c99 -O2 -ffp-contract=off -c arm.c",
    ):
        assert expected in head
    assert text.splitlines()[1] == " * fall, written by Tiburon."


def test_hostile_names_cannot_end_the_comment():
    """A program or input may be called anything."""
    program = trace(lambda x: x, {"*/ #error /*": ()}, name="a */ int x; /* b")
    text = program_c_source(program, name="k")
    assert text.count("*/") == 2
    assert text.index("*/") < text.index("#include")


def test_elementary_functions_are_written_once():
    """A hundred exponentials are a hundred calls, not a hundred copies."""
    one = program_c_source(trace(lambda x: np.exp(x), {"x": (1,)}), name="k")
    many = program_c_source(trace(lambda x: np.exp(x), {"x": (100,)}), name="k")
    assert many.count("static double tb_exp(double a)") == 1
    assert len(many.splitlines()) - len(one.splitlines()) == 4 * 99


@pytest.mark.parametrize("name", ["", "2x", "a-b", "float", "tb_exp", "sqrt", "é", "a\n"])
def test_names_that_are_not_c_identifiers_are_refused(name):
    """What C would not take as a function is refused before a compiler sees it."""
    with pytest.raises(DomainError, match="name: expected the name of a C function"):
        program_c_source(trace(lambda x: x, {"x": ()}), name=name)


def test_wrong_parameters_are_refused():
    """Names and shapes of parameters are those of the program."""
    inputs = [Input("q", (2,)), Input("mass", (3,), parameter=True)]
    program = trace(lambda q, mass: q * mass[0], inputs)
    with pytest.raises(OptionError, match="parameters: expected 'mass', got 'q'"):
        program_c_source(program, name="k", parameters={"q": [1.0, 2.0]})
    with pytest.raises(ShapeError, match="mass: expected"):
        program_c_source(program, name="k", parameters={"mass": [1.0, 2.0]})


# the public function


def swing(model, q, v, target):
    """Drive the robot to a velocity, and say how it accelerates."""
    tau = 40.0 * (target - v)
    return {"force": tau, "acceleration": tb.forward_dynamics(model, q, v, tau)}


KERNELS = {
    "one": lambda model: tb.compile(tb.forward_dynamics, model),
    "several": lambda model: tb.compile([tb.mass_matrix, tb.potential_energy], model),
    "own": lambda model: tb.compile(swing, model, shapes={"target": model.nv}),
}
"""Kernels of a library function, of several, and of a user's function."""


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
@pytest.mark.parametrize("kind", KERNELS)
def test_exported_c_gives_the_bits_of_the_kernel(kind, tmp_path):
    """With the parameters that were bound to the kernel, for a kicked floating robot."""
    model = ROBOTS["forest"]
    kernel = KERNELS[kind](model)
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
    """A function that was not compiled yet gets the remedy."""
    with pytest.raises(tb.DomainError, match=r"kernel: expected a compiled kernel.*compile\(\)"):
        tb.c_source(thing)
