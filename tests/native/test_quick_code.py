"""Functions that are compiled quickly for their first cases and optimized for many."""

import re

import numpy as np
import pytest

import tiburon as tb
from tests.contact.test_friction_solver import Problem
from tests.native.programs import PROGRAMS, bits, cases, parameters_of
from tiburon.errors import OptionError
from tiburon.native import cache, code, engine, kernel, module, row_loop
from tiburon.native.engine import _with_looped, host
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.module import has_own_generator
from tiburon.operating_system import is_linux
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, trace

pytestmark = pytest.mark.skipif(has_own_generator(), reason="long functions compile quickly anyway")

PARTS = ("one", "many")


@pytest.fixture
def quick(monkeypatch, kernel_directory):
    """Compile every function quickly at first, and count only few cases."""
    monkeypatch.setattr(code, "QUICK_LINES", dict.fromkeys(PARTS, (0, 100_000)))
    monkeypatch.setattr(engine, "BRIEF_LINES", 0)
    for own in (code, kernel):
        monkeypatch.setattr(own, "QUICK_CASES", 5)
    monkeypatch.setattr(kernel, "CALLS_BETWEEN_CHECKS", 2)
    code.forget_codes()
    yield
    code.forget_codes()


def made(name):
    """Return a kernel and its code."""
    found = make_kernel(ProgramSource(PROGRAMS[name]), parameters_of(name))
    return found, found.__self__.owner._code


def is_quick(part):
    """Return whether a function has quick code alone."""
    return part._quick is not None and not part.is_optimized


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_quick_code_in_narrow_vectors_gives_the_same_bits(name, quick, monkeypatch):
    """Long functions for many cases take vectors of two at first."""
    monkeypatch.setattr(code, "QUICK_CASES", 50)
    x, y = cases(11)
    run, own = made(name)
    wide = bits(run(x, y))
    size = len(own.many._quick.code)
    monkeypatch.setattr(code, "WIDE_LINES", 0)
    code.forget_codes()
    cache.clear_cache()
    run, own = made(name)
    assert bits(run(x, y)) == wide
    assert is_quick(own.many)
    assert len(own.many._quick.code) != size or host().lanes == 2


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_quick_code_gives_the_bits_of_optimized_code(name, quick, monkeypatch):
    """Single cases and a batch of every kind of program, with lists and with arrays."""
    x, y = cases(2)

    def results(run):
        found = [bits(run(a, b)) for a, b in zip(x, y, strict=True)]
        return [*found, bits(run(list(x[0]), list(y[0]))), bits(run(x, y))]

    run, own = made(name)
    first = results(run)
    assert is_quick(own.one)
    assert is_quick(own.many)
    monkeypatch.setenv("TIBURON_COMPILER", "optimized")
    code.forget_codes()
    run, own = made(name)
    assert results(run) == first
    assert own.one._quick is own.many._quick is None


def test_quick_code_of_a_robot_gives_the_bits_of_optimized_code(quick, monkeypatch):
    """Derivatives of forward dynamics: primitives, loops and long straight-line code."""
    model = tb.load("panda")
    rng = np.random.default_rng(5)
    state = [rng.standard_normal(size) for size in (model.nq, model.nv, model.nv)]
    quickly = tb.compile(tb.forward_dynamics_derivatives, model)
    first = quickly(*state)
    assert is_quick(quickly.__self__.owner._code.one)
    monkeypatch.setenv("TIBURON_COMPILER", "optimized")
    code.forget_codes()
    second = tb.compile(tb.forward_dynamics_derivatives, model)(*state)
    assert [bits(x) for x in first] == [bits(x) for x in second]


@pytest.mark.skipif(not is_linux("x86_64"), reason="inline assembly of another kind")
def test_loops_of_quick_code_keep_values_in_registers(quick, monkeypatch):
    """A solver of contacts is compiled by itself; bits are those of optimized code."""
    monkeypatch.setattr(code, "QUICK_CASES", 50)
    problems = [Problem(seed, 5, 8) for seed in range(11)]
    for problem in problems[1:]:
        problem.supports = problems[0].supports
    given = np.array([problem.arguments for problem in problems])
    primitive, texts = problems[0].primitive, []

    def noted(assembly):
        texts.append(_with_looped(assembly))
        return texts[-1]

    monkeypatch.setattr(engine, "_with_looped", noted)
    width = primitive.argument_count
    program = trace(lambda x: as_traced(primitive.apply(list(x))), [Input("x", (width,))])

    def results():
        found = make_kernel(ProgramSource(program), {})
        return [bits(found(row)) for row in given], bits(found(given)), found

    *first, found = results()
    own = found.__self__.owner._code
    assert is_quick(own.one)
    assert is_quick(own.many)
    for text in texts:
        assert text.startswith('module asm "')
        assert len(re.findall(r"^declare dso_local ", text, flags=re.MULTILINE)) == 1
    # short programs keep all values in registers
    monkeypatch.setattr(engine, "BRIEF_LINES", 10**6)
    cache.clear_cache()
    code.forget_codes()
    *brief, found = results()
    assert is_quick(found.__self__.owner._code.one)
    assert brief == first
    monkeypatch.setenv("TIBURON_COMPILER", "optimized")
    code.forget_codes()
    assert list(results()[:2]) == first
    assert len(texts) == 2


def test_optimized_code_replaces_quick_code_that_is_called_often(quick):
    """It is compiled beside the calls, and every kernel of the code takes it later."""
    x, y = (part[0] for part in cases(1))
    run, own = made("elementary")
    other = run.__self__.owner.with_parameters()
    before = run.__self__[0]
    results = [bits(run(x, y)) for _ in range(4)]
    assert own.one._optimizer is None
    results.append(bits(run(x, y)))
    assert own.one._optimizer is not None
    own.one.wait_for_optimizer()
    assert own.one.is_optimized
    results += [bits(run(x, y)) for _ in range(2)]
    assert run.__self__[0] == own.one.address() != before
    results += [bits(other(x, y)) for _ in range(6)]
    assert other.__self__[0] == own.one.address()
    assert all(found == results[0] for found in results)


class Clock:
    """A clock on which every timed call takes the same time."""

    def __init__(self, taken):
        self.now, self.taken = 0.0, taken

    def perf_counter(self):
        self.now += self.taken
        return self.now


@pytest.fixture
def timed(quick, monkeypatch):
    """Count many cases, and let quick code run for ten seconds of a clock of our own."""
    for own in (code, kernel):
        monkeypatch.setattr(own, "QUICK_CASES", 10**6)
    monkeypatch.setattr(kernel, "CALLS_BEFORE_TIMING", 3)
    monkeypatch.setattr(code._Function, "_budget", lambda self: 10.0)

    def start(taken):
        clock = Clock(taken)
        for own in (code, row_loop):
            monkeypatch.setattr(own, "time", clock)

    return start


def test_slow_code_is_replaced_once_it_has_run_for_the_time_of_its_compilation(timed):
    """Calls of a second each: ten of them, not a million, and few more to look for the code."""
    x, y = (part[0] for part in cases(1))
    timed(1.0)
    run, own = made("elementary")
    first = bits(run(x, y))
    calls = 1
    while own.one._optimizer is None:
        assert bits(run(x, y)) == first
        calls += 1
        assert calls < 20
    assert calls >= 10
    own.one.wait_for_optimizer()
    for _ in range(3):
        assert bits(run(x, y)) == first
    assert run.__self__[0] == own.one.address()


def test_fast_code_stays_until_it_has_computed_many_cases(timed):
    x, y = (part[0] for part in cases(1))
    timed(1e-3)
    run, own = made("elementary")
    for _ in range(1000):
        run(x, y)
    assert own.one._optimizer is None
    # calls of the short path are not timed; they count by the time of those that were
    assert run.__self__.calls_left() > 8000


def test_slow_batches_are_replaced_by_their_time(timed):
    """The time of a batch counts, whatever its cases are."""
    x, y = cases(4)
    timed(3.0)
    run, own = made("elementary")
    first = bits(run(x, y))
    for _ in range(3):
        assert own.many._optimizer is None
        assert bits(run(x, y)) == first
    assert bits(run(x, y)) == first
    assert own.many._optimizer is not None
    own.many.wait_for_optimizer()
    assert own.many.is_optimized
    assert bits(run(x, y)) == first


def test_loops_of_slow_calls_take_optimized_code_while_they_run(timed):
    """Between two native calls of one run, without waiting for the compiler."""
    timed(4.0)
    own = made("arithmetic")[1]
    loop = row_loop.RowLoop(own)
    arrays = [np.ones(item.shape) for item in own.signature.inputs]
    arrays += [np.zeros(output.shape) for output in own.signature.outputs]
    lines = np.array([[row_loop.address_of(array) for array in arrays]])
    job = loop.job(row_loop.AddressTable(lines, np.zeros_like(lines)), 12, batch=False)
    first = job.fields[0]
    for k in range(3):
        assert own.one._optimizer is None
        assert loop.run_one(job, k, k + 1) == k + 1
    assert loop.run_one(job, 3, 4) == 4
    assert own.one._optimizer is not None
    own.one.wait_for_optimizer()
    results = [array.copy() for array in arrays]
    assert loop.run_one(job, 4, 6) == 6
    assert job.fields[0] == own.one.address() != first
    assert all(bits(a) == bits(b) for a, b in zip(results, arrays, strict=True))


def test_optimized_code_replaces_quick_code_of_batches(quick):
    """Small batches are counted by their cases; a large first one takes optimized code."""
    x, y = cases(4)
    run, own = made("elementary")
    first = bits(run(x, y))
    assert is_quick(own.many)
    assert bits(run(x, y)) == first
    own.many.wait_for_optimizer()
    assert own.many.is_optimized
    assert bits(run(x, y)) == first
    run, own = made("arithmetic")
    run(*cases(6))
    assert own.many.is_optimized
    assert own.many._quick is None


def test_loops_of_many_calls_take_optimized_code(quick):
    """Those of a run are counted before it starts, together with those of earlier runs."""
    one = made("arithmetic")[1].one
    first = one.address_for(3, wait=True)
    assert not one.is_optimized
    assert one.address_for(2, wait=True) == first
    assert one.address_for(1, wait=True) == one.address() != first


def test_the_cache_keeps_both_and_prefers_optimized_code(quick):
    """Another process finds quick code, until optimized code was stored."""
    own = made("arithmetic")[1].one
    code.forget_codes()
    other = made("arithmetic")[1].one
    assert is_quick(other)
    assert other._quick.code == own._quick.code
    # without the assembly that it was compiled from
    other.optimize_in_background()
    other.wait_for_optimizer()
    assert other.is_optimized
    code.forget_codes()
    last = made("arithmetic")[1].one
    assert last.is_optimized
    assert last._quick is None


def test_short_functions_are_optimized_at_once(kernel_directory):
    """Where that takes some milliseconds, nothing is counted."""
    code.forget_codes()
    run, own = made("arithmetic")
    assert own.one.is_optimized
    assert run.__self__.calls_left() > 1 << 61


def test_an_unknown_compiler_is_refused(monkeypatch):
    """The message lists those that there are."""
    monkeypatch.setenv("TIBURON_COMPILER", "fast")
    with pytest.raises(OptionError, match=r"tiered.*optimized.*fast"):
        code.quick_code_wanted()


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_wide_code_is_written_when_narrow_code_is_replaced(name, quick, monkeypatch):
    """Long functions for many cases are written in full vectors only when these are compiled."""
    monkeypatch.setattr(code, "WIDE_LINES", 0)
    written = []
    write = module.write_module

    def counted(program, part):
        written.append(part)
        return write(program, part)

    monkeypatch.setattr(module, "write_module", counted)
    x, y = cases(4)
    run = make_kernel(ProgramSource(PROGRAMS[name]), parameters_of(name), first="many")
    own = run.__self__.owner._code
    first = bits(run(x, y))
    assert is_quick(own.many)
    assert written == [] or host().lanes == 2
    assert bits(run(x, y)) == first
    own.many.wait_for_optimizer()
    assert own.many.is_optimized
    assert written == ["many"]
    assert bits(run(x, y)) == first


def test_a_first_batch_compiles_no_code_for_one_case(quick):
    """Single calls compile it, by the checked path at first, then by the fast one."""
    model = tb.load("panda")
    rng = np.random.default_rng(8)
    state = [rng.standard_normal((3, size)) for size in (model.nq, model.nv, model.nv)]
    many = tb.forward_dynamics(model, *state)
    function = tb.forward_dynamics.library_function
    found = function.kernel(model, None, ())
    own = found.__self__.owner._code
    assert own.many.is_loaded
    assert not own.one.is_loaded
    assert not found.__self__.has_kernel()
    one = [x[1] for x in state]
    assert bits(tb.forward_dynamics(model, *one)) == bits(many[1])
    assert own.one.is_loaded
    assert bits(tb.forward_dynamics(model, *one)) == bits(many[1])
    assert found.__self__.has_kernel()
    assert bits(tb.forward_dynamics(model, *one)) == bits(many[1])
    assert bits(tb.forward_dynamics(model, *state)) == bits(many)


@pytest.mark.parametrize("name", ["dopri5_adaptive", "reverse derivative"])
def test_batches_alone_compile_code_for_many_cases_alone(name, quick, monkeypatch):
    """Runs with adaptive steps and regressors do not compile code that no state of a batch uses."""
    stages = []
    obtain = code._Origin.obtain

    def counted(self, wanted, *args, **kwargs):
        stages.append((self._source.name, *(stage.split()[-1] for stage in wanted)))
        return obtain(self, wanted, *args, **kwargs)

    monkeypatch.setattr(code._Origin, "obtain", counted)
    if name == "reverse derivative":
        rov = tb.load("bluerov2_heavy")
        state = np.tile(rov.neutral(), (3, 1)), *np.zeros((2, 3, rov.nv))
        tb.fluid_regressor(rov, *state, fluid=tb.Water())
    else:
        arm = tb.load("double_pendulum")
        tb.simulate(
            arm,
            1e-3,
            q=np.ones((3, arm.nq)),
            method=tb.DormandPrince(),
            execution=tb.Execution(progress=False),
        )
    parts = {part for source, *parts in stages for part in parts if source.startswith(name)}
    assert parts == {"many"}, stages


def test_long_runs_compile_optimized_code_alone(quick, monkeypatch):
    """Quick code would be of no use: steps that are counted in advance take optimized code."""
    stages = []
    obtain = code._Origin.obtain

    def counted(self, wanted, *args, **kwargs):
        found = obtain(self, wanted, *args, **kwargs)
        if "step" in self._source.name:
            stages.append(found[0])
        return found

    monkeypatch.setattr(code._Origin, "obtain", counted)
    for steps, expected in ((3, ["quick one"]), (6, ["one"])):
        stages.clear()
        code.forget_codes()
        tb.simulate(
            tb.load("double_pendulum"),
            steps * 1e-3,
            method=tb.RK4(dt=1e-3),
            execution=tb.Execution(progress=False),
        )
        assert stages == expected
        cache.clear_cache()


def test_optimized_code_replaces_quick_code_of_a_stepper(quick):
    """Its first intervals take quick code for steps and for observations; bits stay."""
    model = tb.load("double_pendulum")
    stepper = tb.stepper(
        model, method=tb.RK4(dt=1e-3), observe=lambda model, q, v: tb.momentum(model, q, v)
    )
    first = stepper.start(cases=4, v=np.linspace(-1.0, 1.0, 4 * model.nv).reshape(4, -1))

    def interval():
        out = stepper.step(first)
        return bits((out.state.q, out.state.v, out.observation))

    expected = interval()
    steps, watcher = stepper._interval(4), stepper._watcher
    used = [
        (steps.step.kernel._code.many, steps._job),
        (watcher._kernel._code.many, watcher._tables[4][2]),
    ]
    before = [job.fields[0] for _, job in used]
    assert all(is_quick(many) for many, _ in used)
    assert interval() == expected
    for many, _ in used:
        many.wait_for_optimizer()
        assert many.is_optimized
    assert interval() == expected
    for (many, job), quick_address in zip(used, before, strict=True):
        assert job.fields[0] == many.address() != quick_address
