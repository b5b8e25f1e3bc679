"""Visits recorded as steps, and the tape that runs them, give what inlined visits give."""

import dataclasses
import gc
import weakref

import numpy as np
import pytest

import tiburon as tb
from benchmarks.robots import irregular_tree
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.robots import ROBOTS
from tests.tolerances import ALGEBRA
from tiburon.algorithms import tape_calls as steps_module
from tiburon.algorithms import traversal
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.algorithms.tape_calls import taping
from tiburon.errors import TraceError
from tiburon.functions import kernel_source
from tiburon.functions.kernel_source import LibrarySource
from tiburon.native import tape
from tiburon.native.kernel import make_kernel
from tiburon.native.tape import build_tape
from tiburon.trace import interpret, trace
from tiburon.trace.regions import FunctionRegion

FUNCTIONS = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "kinetic_energy")


def program_of(model, name, monkeypatch, *, taped):
    monkeypatch.setattr(kernel_source, "INLINED_BODIES", 0 if taped else 10**9)
    return LibrarySource(model, (name,), DEFAULT_WORLD).program()


def state_of(model, program, seed=5):
    rng = np.random.default_rng(seed)
    source = LibrarySource(model, ("forward_dynamics",), DEFAULT_WORLD)
    numbers = {"q": model.random_state(rng)[0], **source.parameters()}
    return [
        np.asarray(numbers[item.name]) if item.name in numbers else rng.standard_normal(item.shape)
        for item in program.inputs
    ]


def relative(a, b):
    return np.max(np.abs(a - b), initial=0.0) / max(np.max(np.abs(b), initial=0.0), 1e-300)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("robot", ROBOTS)
def test_tape_equals_inlined_code(robot, name, monkeypatch):
    """On the interpreter, for every robot of the fixed list."""
    model = ROBOTS[robot]
    inlined = program_of(model, name, monkeypatch, taped=False)
    steps = program_of(model, name, monkeypatch, taped=True)
    state = state_of(model, inlined)
    # general classes turn by dense matrices where inlined code turns by axes
    assert relative(interpret(steps, state), interpret(inlined, state)) < ALGEBRA


def long_chain(size, seed=2):
    """Build a chain with odd axes, so that plan frames get offsets and placements are general."""
    rng = np.random.default_rng(seed)
    bodies, parent = [], "world"
    for number in range(size):
        axis = rng.standard_normal(3)
        pose = tb.Pose.from_rpy(rng.uniform(-1, 1, 3), rng.uniform(-0.2, 0.2, 3))
        kind = tb.Prismatic if number % 5 == 3 else tb.Revolute
        joint = kind(f"j{number}", axis=tuple(axis / np.linalg.norm(axis)), pose=pose)
        inertia = tb.Inertia.sphere(mass=1.0 + 0.1 * number, radius=0.1)
        bodies.append(tb.Body(f"b{number}", parent, joint=joint, inertia=inertia))
        # a tree: every seventh body starts a branch further down
        parent = f"b{number - 4}" if number % 7 == 6 else f"b{number}"
    return tb.Model("long", bodies)


@pytest.fixture(scope="module")
def chain():
    return long_chain(42)


def has_tape(program):
    """Tell whether a program is a tape, or calls a function that is one."""
    graph = program.graph
    called = [graph.payloads[n] for n in graph.live(program.roots) if graph.ops[n] == "call"]
    regions = [callee for callee in called if isinstance(callee, FunctionRegion)]
    return tape.is_tape(program) or any(
        tape.calls_few_functions(region.graph, region.roots) for region in regions
    )


@pytest.mark.parametrize("name", ["forward_dynamics", "inverse_dynamics", "mass_matrix"])
def test_tape_gives_what_the_interpreter_gives(chain, name):
    """Native rows of one case and of a batch, on a model beyond the limit of inlining."""
    source = LibrarySource(chain, (name,), DEFAULT_WORLD)
    program = source.program()
    assert has_tape(program)
    kernel = make_kernel(source, source.parameters())
    rng = np.random.default_rng(3)
    arguments = [rng.standard_normal((9, *item.shape)) for item in kernel.__self__.inputs]
    batch = kernel(*arguments)
    values = [np.asarray(x) for x in source.parameters().values()]
    cases = [*arguments, *(np.broadcast_to(x, (9, *x.shape)) for x in values)]
    for case, expected in enumerate(interpret(program, cases)):
        one = kernel(*[np.ascontiguousarray(x[case]) for x in arguments])
        assert np.array_equal(batch[case], one)
        # 42 bodies in a row: conditioning multiplies roundings
        assert relative(one, expected) < 1e5 * np.finfo(float).eps


def test_parameters_may_differ_from_case_to_case(chain):
    name = chain.bodies[3].name
    kernel = tb.compile(tb.forward_dynamics, chain, parameters=f"{name}.mass")
    rng = np.random.default_rng(4)
    q, v, tau = rng.standard_normal((3, 7, chain.nv))
    mass = chain.bodies[3].inertia.mass * rng.uniform(1.0, 1.1, 7)
    batch = kernel(q, v, tau, parameters={f"{name}.mass": mass})
    for case in range(7):
        one = {f"{name}.mass": mass[case]}
        assert np.array_equal(batch[case], kernel(q[case], v[case], tau[case], parameters=one))
    assert np.ptp(kernel(q[0], v[0], tau[0], parameters={f"{name}.mass": mass}), axis=0).max() > 0


def test_classes_do_not_grow_with_the_chain():
    """Twice the links, the same functions: the table grows, the code does not."""

    def classes(size):
        model = long_chain(size)
        program = LibrarySource(model, ("forward_dynamics",), DEFAULT_WORLD).program()
        graph = program.graph
        calls = [n for n in graph.live(program.roots) if graph.ops[n] == "call"]
        return len({graph.payloads[n].key for n in calls}), len(calls)

    few, many = classes(120), classes(240)
    assert many[1] > 1.9 * few[1]
    # rare patterns, such as a placement that needs no offset, may still turn up for the first time
    assert many[0] <= 1.25 * few[0]
    assert many[0] <= 40


def test_an_irregular_tree_has_few_classes():
    """Bodies that are alike in nothing share the general class of their joint."""
    model = irregular_tree(44)
    program = LibrarySource(model, ("forward_dynamics",), DEFAULT_WORLD).program()
    made = build_tape(program, "traced")
    assert len(made.classes) <= 40
    rng = np.random.default_rng(6)
    q, v, tau = 0.3 * rng.standard_normal((3, 5, model.nv))
    batch = tb.forward_dynamics(model, q, v, tau)
    for case in range(5):
        assert np.array_equal(batch[case], tb.forward_dynamics(model, q[case], v[case], tau[case]))
        back = tb.inverse_dynamics(model, q[case], v[case], batch[case])
        # 44 bodies in a row: conditioning multiplies roundings
        assert relative(back, tau[case]) < 1e6 * np.finfo(float).eps


def clockwork(size):
    """Build threads, balls and gears, no two of which have a number in common."""
    rng = np.random.default_rng(4)
    bodies, parent = [], "world"
    for n in range(size):
        pitch, lead, radius, ratio, offset = rng.uniform(0.1, 0.9, 5)
        gear = tb.Screw(f"thread{n}", offset=0.2 + 0.01 * n, pitch=lead, lead=pitch)
        joints = [
            tb.Screw(f"screw{n}", random_axis(rng), offset, pitch=pitch, lead=lead),
            tb.RollingSphere(f"ball{n}", radius),
            tb.Coupled(f"gear{n}", gear, leader=f"screw{n}", ratio=ratio, offset=offset),
        ]
        for joint in joints:
            placed = dataclasses.replace(joint, pose=random_pose(rng))
            name = f"on_{joint.name}"
            bodies.append(tb.Body(name, parent, joint=placed, inertia=random_inertia(rng)))
        parent = bodies[-3].name
    return tb.Model("clockwork", bodies)


@pytest.mark.parametrize("name", ["inverse_dynamics", "mass_matrix"])
def test_pitches_radii_and_ratios_are_run_time_parameters(name, monkeypatch):
    """Numbers of joints are operands like placements: other numbers, the same code."""
    classes = {}
    for size in (10, 14):
        program = program_of(clockwork(size), name, monkeypatch, taped=True)
        graph = program.graph
        calls = [n for n in graph.live(program.roots) if graph.ops[n] == "call"]
        classes[size] = {graph.payloads[n].key for n in calls}
    assert len(classes[14]) == len(classes[10])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_joint_parameters_as_operands_equal_inlined_constants(name, monkeypatch):
    """Pitch, lead, radius, ratio and offsets reach the steps of their own body."""
    model = clockwork(3)
    inlined = program_of(model, name, monkeypatch, taped=False)
    steps = program_of(model, name, monkeypatch, taped=True)
    state = state_of(model, inlined)
    assert relative(interpret(steps, state), interpret(inlined, state)) < ALGEBRA
    # nine bodies are rare patterns; here every one gets a special class
    monkeypatch.setattr(steps_module, "MIN_CLASS_SIZE", 1)
    special = program_of(model, name, monkeypatch, taped=True)
    assert relative(interpret(special, state), interpret(inlined, state)) < ALGEBRA


def test_memory_of_results_is_reused(chain):
    """The work space holds what is alive, not all that was ever computed."""
    program = LibrarySource(chain, ("forward_dynamics",), DEFAULT_WORLD).program()
    made = build_tape(program, "traced")
    stored = sum(len(made.classes[row[0]].results) for row in made.rows)
    assert made.slot_count < stored


def test_visit_that_reads_its_body_index_is_refused(chain, monkeypatch):
    """A step must not depend on which body it is: that would be right for one body only."""
    numbers = list(range(len(chain.plan.bodies)))

    def function(q):
        with taping(chain.plan):
            return traversal.outward(
                chain.plan, lambda body, parent: q[0] * numbers[body.index], 0.0
            )

    with pytest.raises(TraceError, match=r"body\.index"):
        trace(function, {"q": (chain.nq,)})


def test_an_integrator_runs_large_models_on_the_tape_too():
    """Dynamics inside a region is a tape of its own; native steps equal steps by hand."""
    model = long_chain(44)
    rng = np.random.default_rng(8)
    q, v = 0.2 * rng.standard_normal((2, model.nv))
    dt = 1e-3
    record = tb.integrate_rk4(model, q, v, dt=dt, steps=3)

    def rate(q, v):
        return v, tb.forward_dynamics(model, q, v, np.zeros(model.nv))

    for _ in range(3):
        # classical Runge-Kutta: all joints here have flat positions
        k1 = rate(q, v)
        k2 = rate(q + dt / 2 * k1[0], v + dt / 2 * k1[1])
        k3 = rate(q + dt / 2 * k2[0], v + dt / 2 * k2[1])
        k4 = rate(q + dt * k3[0], v + dt * k3[1])
        q, v = (
            x + dt / 6 * (a + 2 * b + 2 * c + d)
            for x, a, b, c, d in zip((q, v), k1, k2, k3, k4, strict=True)
        )
    assert relative(record.q[-1], q) < ALGEBRA
    assert relative(record.v[-1], v) < ALGEBRA


def test_two_calls_in_one_trace_keep_their_own_states(chain):
    """Visits of a second call have equal classes but read other vectors."""

    def both(model, q, v, tau):
        first = tb.forward_dynamics(model, q, v, tau)
        return first, tb.forward_dynamics(model, 2.0 * q, v, tau)

    kernel = tb.compile(both, chain)
    rng = np.random.default_rng(9)
    q, v, tau = 0.3 * rng.standard_normal((3, chain.nv))
    first, second = kernel(q, v, tau)
    assert relative(first, tb.forward_dynamics(chain, q, v, tau)) < ALGEBRA
    assert relative(second, tb.forward_dynamics(chain, 2.0 * q, v, tau)) < ALGEBRA


def test_a_recorder_keeps_the_visits_it_has_classes_of(chain):
    """A visit that were freed could lend its identity, and so its classes, to another one."""
    alive = []

    def function(q):
        with taping(chain.plan):

            def visit(body, parent):
                return parent + q[0]

            result = traversal.outward(chain.plan, visit, 0.0)
            held = weakref.ref(visit)
            del visit
            gc.collect()
            alive.append(held() is not None)
        return result

    trace(function, {"q": (chain.nq,)})
    assert alive == [True]
