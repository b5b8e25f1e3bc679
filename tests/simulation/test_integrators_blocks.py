"""Block predictor-correctors: the textbook's numbers, points inside blocks, memory, native code."""

import numpy as np
import pytest

from tests.simulation.integrator_runs import Plant, lagging, swinging, tumbling
from tests.simulation.samples import fitted_order
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.simulation.integrators.dopri5 import dopri5_step
from tiburon.simulation.integrators.methods import METHODS
from tiburon.trace import interpret
from tiburon.trace.program import trace
from tiburon.trace.regions import function, while_loop

BLOCKS = {"b1pc5": 1, "b2pc5": 2, "b4pc5": 4}


def derivative(plant, y):
    """Return dy/dt of a robot of hinges, y = [q, v]."""
    n = len(y) // 2
    return np.concatenate([y[n:], plant.rates(tuple(y[:n]), tuple(y[n:]))])


def test_b1pc5_is_the_pece_method_of_adams():
    """Predict, evaluate, correct, evaluate, as printed in textbooks, on a pendulum."""
    plant, h = swinging(), 0.02
    method = METHODS["b1pc5"]
    y = np.array([*plant.q, *plant.w])
    points = [y]
    for _ in range(4):
        q, w = dopri5_step(plant.manifold, plant.rates, (y[0],), (y[1],), h)
        y = np.array([*q, *w])
        points.append(y)
    f = [derivative(plant, point) for point in points]
    for _ in range(6):
        weights = np.array([1901, -2774, 2616, -1274, 251]) / 720
        predicted = y + h * (weights @ f[:-6:-1])
        rate = derivative(plant, predicted)
        weights = np.array([251, 646, -264, 106, -19]) / 720
        y = y + h * (weights @ [rate, *f[:-5:-1]])
        f.append(derivative(plant, y))
    q, w = plant.run(method, 10, 10 * h)
    np.testing.assert_allclose([*q, *w], y, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_step_costs_two_evaluations(name):
    """Six for each of the first four points, then one to predict and one to correct each."""
    plant = tumbling()
    plant.run(name, 4 + 8, 0.1)
    assert plant.evaluations == 1 + 4 * 6 + 2 * 8


@pytest.mark.parametrize("name", ["b2pc5", "b4pc5"])
def test_points_inside_blocks_have_the_order_too(name):
    """Every point of a run, whatever its place in a block, against fine steps."""
    plant = tumbling()
    exact = plant.run("dop853", 60, 0.3, every=1)
    worst = []
    for count in (60, 120):
        states = plant.run(name, count, 0.3, every=count // 60)
        pairs = zip(states, exact, strict=True)
        worst.append(max(plant.distance(one, other) for one, other in pairs))
    if name == "b4pc5":
        # with 120 steps every other point is compared: blocks of 4 hold two kinds of them
        states = plant.run(name, 120, 0.3, every=1)[1::2]
        fine = plant.run("dop853", 120, 0.3, every=1)[1::2]
        odd = max(plant.distance(a, b) for a, b in zip(states, fine, strict=True))
        assert odd < 4 * worst[1]
    assert fitted_order((60, 120), worst) > 4.75


@pytest.mark.parametrize("name", BLOCKS)
def test_resuming_with_the_integrator_memory_changes_no_bit(name):
    """A run cut anywhere, also inside a block, continues as if it had not been."""
    plant, h = tumbling(), 0.01
    method = METHODS[name]
    q, w = plant.q, plant.w
    memory = method.start(plant.manifold, plant.rates, q, w, h, 0.0)
    kept = []
    for step in range(14):
        kept.append((q, w, memory))
        q, w, memory = method.advance(plant.manifold, plant.rates, q, w, memory, h, step * h)
    for cut in (3, 7, 9):
        again = kept[cut]
        for step in range(cut, 14):
            again = method.advance(plant.manifold, plant.rates, *again, h, step * h)
        assert again == (q, w, memory)


def test_discontinuous_forces_restart_the_multistep_method():
    """A force that is switched in the middle: old memory would smear it over five points."""
    forces = [lambda q, v, x, t, f=f: ((f,), ()) for f in (0.0, 6.0)]
    plants = [Plant(swinging().model, (0.4,), (1.0,), force) for force in forces]
    middle = plants[0].run("dop853", 40, 0.5)
    expected = Plant(swinging().model, *middle, forces[1]).run("dop853", 40, 0.5)
    method, h = METHODS["b1pc5"], 0.5 / 80
    errors = {}
    for anew in (True, False):
        q, w = plants[0].q, plants[0].w
        memory = method.start(plants[0].manifold, plants[0].rates, q, w, h)
        for plant in plants:
            if anew:
                memory = method.start(plant.manifold, plant.rates, q, w, h)
            for _ in range(80):
                q, w, memory = method.advance(plant.manifold, plant.rates, q, w, memory, h)
        errors[anew] = plants[0].distance((q, w), expected)
    # order 5: (3.7 rad/s * 6 ms)^5 = 7e-9; smeared: a part of 6 N m / 0.64 kg m^2 for 6 ms
    assert errors[True] < 7e-9
    assert errors[False] > 1e-3


@pytest.fixture(scope="module", params=[("b1pc5", tumbling), ("b4pc5", lagging)])
def compiled(request):
    """Return a compiled run of any number of steps."""
    name, make = request.param
    plant, method, h = make(), METHODS[name], 0.01

    def run(q, w, count):
        rates = function(plant.rates)
        q, w = tuple(q.tolist()), tuple(w.tolist())
        memory = method.start(plant.manifold, rates, q, w, h, 0.0)

        def step(state):
            done, *state = state
            return (done + 1.0, *method.advance(plant.manifold, rates, *state, h, done * h))

        _, q, w, _ = while_loop(lambda s: s[0] < count, step, (0.0, q, w, memory), 1000).state
        return {"q": list(q), "w": list(w)}

    shapes = {"q": (len(plant.q),), "w": (len(plant.w),), "count": ()}
    program = trace(run, shapes)
    return name, plant, program, make_kernel(ProgramSource(program))


def test_floats_interpreter_and_native_code_agree(compiled):
    """One source, three ways to run it, also where a run ends inside a block."""
    name, plant, program, kernel = compiled
    for count in (2, 11):
        expected = plant.run(name, count, count * 0.01)
        given = {"q": np.array(plant.q), "w": np.array(plant.w), "count": np.array(float(count))}
        for q, w in (interpret(program, given), kernel(*given.values())):
            # rounding of accelerations of order 100, of which a step sees a hundredth
            np.testing.assert_allclose(q, expected[0], rtol=0, atol=1e-12)
            np.testing.assert_allclose(w, expected[1], rtol=0, atol=1e-11)


def test_a_case_of_a_batch_equals_the_single_run(compiled):
    """Cases that end at different places in their blocks."""
    _, plant, _, kernel = compiled
    rng = np.random.default_rng(12)
    w = rng.standard_normal((11, len(plant.w)))
    q = np.array([plant.model.integrate(plant.q, rng.standard_normal(plant.model.nv)) for _ in w])
    count = np.arange(4.0, 15.0)
    together = kernel(q, w, count)
    for case in range(len(w)):
        alone = kernel(q[case], w[case], count[case])
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, many[case])
