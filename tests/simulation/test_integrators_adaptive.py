"""Steps that adapt: tolerances, interpolation, cuts, failures; each case for itself in a batch."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import pendulum
from tests.simulation.integrator_runs import (
    Plant,
    lagging,
    swinging,
    symmetric_tumbling,
    tumbling,
)
from tests.simulation.samples import fitted_order, symmetric_top_closed_form
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.simulation.integrators.adaptive import (
    LARGEST_TURN,
    STEP_TOO_SMALL,
    Tolerances,
    advance_adaptive,
    restart_adaptive,
    start_adaptive,
    state_at,
)
from tiburon.simulation.integrators.manifold import Chart, Manifold
from tiburon.simulation.integrators.method import interpolate
from tiburon.simulation.integrators.methods import METHODS
from tiburon.trace import interpret
from tiburon.trace.program import trace
from tiburon.trace.regions import function

EXPLICIT = ("dopri5", "dop853")
UNLIMITED = 1e9


class Run:
    """An adaptive run on floats."""

    def __init__(self, plant, name, tolerance, first=0.0):
        self.plant, self.pair = plant, METHODS[name].pair
        self.tolerances = Tolerances(tolerance, tolerance)
        self.around = self.pair, plant.manifold, plant.rates
        self.state = start_adaptive(*self.around, plant.q, plant.w, 0.0, self.tolerances, first)

    def to(self, target, stop=None, limit=UNLIMITED):
        end = target if stop is None else stop
        self.state = advance_adaptive(*self.around, self.state, target, end, limit, self.tolerances)
        return self

    def at(self, time):
        return state_at(self.plant.manifold, self.state, time)


@pytest.mark.parametrize("name", EXPLICIT)
def test_errors_follow_the_tolerance(name):
    """A tumbling top against its closed form: smaller tolerance, smaller error, more steps."""
    plant = symmetric_tumbling()
    expected = symmetric_top_closed_form(np.array(plant.q), np.array(plant.w), 1.0)
    errors, steps = [], []
    for tolerance in (1e-5, 1e-7, 1e-9):
        run = Run(plant, name, tolerance).to(1.0)
        assert run.state.status == 0.0
        assert run.state.time == 1.0
        errors.append(plant.distance(run.at(1.0), expected))
        steps.append(run.state.steps)
        # errors of all steps add up, and velocities are of size 10
        assert errors[-1] < 30 * tolerance
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    # steps grow with tolerance^(-1/5), resp. (-1/8): a factor 6.3, resp. 3.2, for 1e-4
    power = 1 / METHODS[name].order
    assert steps[2] / steps[0] == pytest.approx(1e4**power, rel=0.3)


def test_stiff_lag_takes_few_implicit_steps():
    """An inner state with a time constant of 0.1 ms: stability, not accuracy, limits dopri5."""

    def force(q, v, x, time):
        return (x[0] - 0.1 * v[0],), ((np.sin(time) - x[0]) / 1e-4,)

    plant = Plant(pendulum(), (0.4,), (0.0, 0.0), force)
    implicit = Run(plant, "rosenbrock", 1e-4).to(0.3)
    explicit = Run(plant, "dopri5", 1e-4).to(0.3)
    assert plant.distance(implicit.at(0.3), explicit.at(0.3)) < 1e-3
    # explicit steps are at most 3.3 time constants long
    assert explicit.state.steps + explicit.state.refused > 0.3 / 3.5e-4
    assert implicit.state.steps < 100


@pytest.mark.parametrize(("name", "order"), [("dopri5", 4), ("dop853", 7), ("rosenbrock", 3)])
def test_interpolation_has_its_order_on_rotations(name, order):
    """Inside one step of a tumbling top the error falls with one power more than the order."""
    plant = symmetric_tumbling()
    pair = METHODS[name].pair
    chart = Chart(plant.manifold, plant.rates, plant.q)
    rate = plant.rates(plant.q, plant.w)
    # a step by itself is better than its interpolation where its order is higher
    lengths = np.array([0.2, 0.15, 0.1]) if name == "dop853" else np.array([0.08, 0.04, 0.02])
    for part in (0.3, 0.62):
        errors = []
        for h in lengths:
            found = pair.attempt(chart, plant.w, rate, h, 0.0)
            change = interpolate(pair.dense(chart, plant.w, found.pieces, h, 0.0), part)
            y = np.add(chart.start(plant.w), change)
            exact = symmetric_top_closed_form(np.array(plant.q), np.array(plant.w), part * h)
            errors.append(plant.distance(chart.state(tuple(y.tolist())), exact))
        assert fitted_order(1.0 / lengths, errors) > order + 1 - 0.35, errors


@pytest.mark.parametrize("name", [*EXPLICIT, "rosenbrock"])
def test_ends_of_steps_are_interpolated_to_the_bit(name):
    """What is recorded at the end of a step is the state itself."""
    run = Run(tumbling(), name, 1e-4).to(0.1, stop=1.0)
    state = run.state
    assert 0.1 <= state.time < 1.0
    assert run.at(state.time) == (state.q, state.w)
    begin = run.at(state.begin)
    np.testing.assert_allclose(begin[1], state.w_begin, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", EXPLICIT)
def test_recording_and_chunks_change_no_bit(name):
    """Targets on the way, and calls of a few attempts each, take the same steps."""
    whole = Run(lagging(), name, 1e-6).to(0.6, stop=0.6).state
    often = Run(lagging(), name, 1e-6)
    for target in np.linspace(0.0, 0.6, 13):
        often.to(target, stop=0.6)
    assert often.state == whole
    short = Run(lagging(), name, 1e-6)
    limit = 0
    while short.state.time < 0.6:
        limit += 2
        short.to(0.6, stop=0.6, limit=float(limit))
        assert short.state.steps + short.state.refused <= limit
    assert short.state == whole
    assert limit > 4


@pytest.mark.parametrize("name", EXPLICIT)
def test_a_refused_step_leaves_the_state_as_it_was(name):
    """Stopped just after a step that was too long: the good step before it is still there."""
    run = Run(lagging(), name, 1e-6).to(0.2, stop=1.0)
    before = run.state
    run.state = before._replace(h=0.5)
    run.to(1.0, limit=before.steps + before.refused + 1.0)
    assert run.state.refused == before.refused + 1.0
    assert run.state.h < 0.5
    assert run.state._replace(h=before.h, refused=before.refused) == before
    middle = 0.5 * (before.begin + before.time)
    assert run.at(middle) == state_at(run.plant.manifold, before, middle)


def test_steps_below_the_resolution_of_time_are_reported():
    """At 1e12 s the clock ticks in tenths of a millisecond: shorter steps never arrive."""
    plant = swinging()
    run = Run(plant, "dopri5", 1e-6)
    state = run.state._replace(time=1e12, begin=1e12, h=1e-6)
    tolerances = Tolerances(1e-6, 1e-6)
    found = advance_adaptive(*run.around, state, 1e12 + 1.0, 1e12 + 1.0, 50.0, tolerances)
    assert found.status == STEP_TOO_SMALL
    assert found.steps + found.refused < 50.0


def test_interpolated_states_are_accurate():
    """Interpolated states of a run against a run that stops there."""
    plant = lagging()
    run = Run(plant, "dop853", 1e-9)
    for time in (0.11, 0.12, 0.13, 0.4):
        run.to(time, stop=1.0)
        expected = plant.run("dop853", 40, time)
        assert plant.distance(run.at(time), expected) < 1e-6


def test_steps_end_at_required_times_and_keep_their_length():
    """A stop just after a step: its crumb does not make later steps small."""
    plant = lagging()
    run = Run(plant, "dopri5", 1e-6).to(0.3, stop=1.0)
    usual = run.state.h
    stop = run.state.time + 1e-3 * usual
    run.to(stop, stop=stop)
    assert run.state.time == stop
    assert run.state.length == pytest.approx(1e-3 * usual, rel=1e-6)
    assert run.state.h >= usual


def test_run_continues_after_a_discontinuity_of_forces():
    """A switched force, restarted where it switches: as two runs one after the other."""
    plants = [
        Plant(pendulum(), (0.4,), (1.0,), lambda q, v, x, t, f=f: ((f,), ())) for f in (0.0, 4.0)
    ]
    run = Run(plants[0], "dopri5", 1e-8).to(0.5)
    state = restart_adaptive(plants[1].rates, run.state, *run.at(0.5), 0.5)
    assert state.rate != run.state.rate
    run.state, run.around = state, (run.pair, run.plant.manifold, plants[1].rates)
    run.to(1.0)
    first = plants[0].run("dop853", 40, 0.5)
    expected = Plant(pendulum(), *first, plants[1]._force).run("dop853", 40, 0.5)
    assert run.plant.distance(run.at(1.0), expected) < 1e-6


def test_fast_rotation_limits_the_step_to_the_chart():
    """About a principal axis all is constant, yet no step turns beyond what coordinates cover."""
    body = tb.Inertia(1.0, (0, 0, 0), (0.02, 0.02, 0.03))
    model = tb.Model("wheel", [tb.Body("w", joint=tb.Spherical("s"), inertia=body)])
    plant = Plant(model, (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 500.0))
    run = Run(plant, "dop853", 1e-3).to(1.0)
    assert run.state.status == 0.0
    # steps are a little shorter than the limit, for safety
    assert run.state.steps == pytest.approx(500.0 / LARGEST_TURN, rel=0.35)
    assert run.state.refused < 0.1 * run.state.steps
    turned = 500.0 / 2
    expected = (np.cos(turned), 0.0, 0.0, np.sin(turned))
    sign = np.sign(run.state.q[0] * expected[0])
    np.testing.assert_allclose(sign * np.array(run.state.q), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", EXPLICIT)
def test_motion_that_ends_in_a_singularity_is_reported(name):
    """Growth by x' = x^2 has a pole at t = 1: the case stops just before, with finite numbers."""

    def force(q, v, x, time):
        return (0.0,), (x[0] * x[0],)

    run = Run(Plant(pendulum(), (0.4,), (1.0, 1.0), force), name, 1e-6).to(2.0)
    assert run.state.status == STEP_TOO_SMALL
    assert 0.99 < run.state.time < 1.001
    assert np.isfinite([*run.state.q, *run.state.w]).all()
    assert run.state.refused > 0


@pytest.fixture(scope="module", params=[("dopri5", tumbling), ("dop853", lagging)])
def compiled(request):
    """Return a compiled run to 0.4 s with a state on the way, and its program."""
    name, make = request.param
    plant, pair = make(), METHODS[name].pair
    manifold = Manifold(plant.model)

    def run(q, w, tolerance, limit):
        around = pair, manifold, function(plant.rates)
        tolerances = Tolerances(tolerance, tolerance)
        start = tuple(q.tolist()), tuple(w.tolist())
        state = start_adaptive(*around, *start, 0.0, tolerances)
        advance = function(
            lambda state, target: advance_adaptive(*around, state, target, 0.4, limit, tolerances)
        )
        state = advance(state, 0.15)
        middle = state_at(manifold, state, 0.15)
        state = advance(state, 0.4)
        counts = [state.steps, state.refused, state.status, state.time]
        return {"middle": [*middle[0], *middle[1]], "end": [*state.q, *state.w], "counts": counts}

    shapes = {"q": (len(plant.q),), "w": (len(plant.w),), "tolerance": (), "limit": ()}
    program = trace(run, shapes)
    return name, plant, program, make_kernel(ProgramSource(program))


def test_floats_interpreter_and_native_code_agree(compiled):
    """One source, three ways to run it: the same steps, states up to rounding."""
    name, plant, program, kernel = compiled
    run = Run(plant, name, 1e-5).to(0.15, stop=0.4)
    middle = np.concatenate(run.at(0.15))
    run.to(0.4)
    state = run.state
    given = {"q": plant.q, "w": plant.w, "tolerance": 1e-5, "limit": UNLIMITED}
    arrays = {key: np.array(value) for key, value in given.items()}
    for found in (interpret(program, arrays), kernel(*arrays.values())):
        # rounding of accelerations of order 100 over 0.4 s
        np.testing.assert_allclose(found[0], middle, rtol=0, atol=1e-11)
        np.testing.assert_allclose(found[1], [*state.q, *state.w], rtol=0, atol=1e-11)
        np.testing.assert_array_equal(
            found[2], [state.steps, state.refused, state.status, state.time]
        )


def test_a_case_of_a_batch_equals_the_single_run(compiled):
    """Cases of very different pace and tolerance side by side, and a case that ran out."""
    _, plant, _, kernel = compiled
    rng = np.random.default_rng(11)
    count = 13
    w = rng.standard_normal((count, len(plant.w))) * np.logspace(-1, 1, count)[:, None]
    q = np.array([plant.model.integrate(plant.q, rng.standard_normal(plant.model.nv)) for _ in w])
    tolerance = np.logspace(-3, -8, count)
    limit = np.full(count, 1000.0)
    limit[11] = 3.0
    together = kernel(q, w, tolerance, limit)
    assert len(np.unique(together[2][:, 0])) > 4
    assert together[2][11, 0] + together[2][11, 1] == 3.0
    assert together[2][11, 3] < 0.4
    for case in range(count):
        alone = kernel(q[case], w[case], tolerance[case], limit[case])
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, many[case])
