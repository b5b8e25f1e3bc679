"""Controllers for one case are refused on batches of as many cases as the robot has joints."""

import functools
import threading

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator

ROBOT = tb.load("double_pendulum")
Q = np.array([[0.3, 0.2], [1.3, 1.2]])
OPTIONS = {"execution": tb.Execution(progress=False)}
CALLS = []


def run(control, q=Q, **options):
    return tb.simulate(ROBOT, 0.05, q=q, control=tb.Sampled(control, dt=0.01), **OPTIONS, **options)


def one_by_one(control):
    return np.array([run(control, q).q[-1] for q in Q])


def an_array(state):
    return np.array([-5 * state.q[0], 0 * state.q[1]])


def names(state):
    first, second = ROBOT.joint_names
    return {first: -5 * state.q[0], second: -state.v[1]}


def single(state):
    u = np.zeros(2)
    u[0] = -5 * state.q[0] if np.ndim(state.q[0]) == 0 else 0.0
    return np.broadcast_to(u, state.q.shape)


class Held:
    """A controller with numbers of its own."""

    def __init__(self, gain):
        self.gain, self.calls = gain, 0

    def __call__(self, state):
        self.calls += 1
        return np.stack([-self.gain * state.q[0], 0 * state.q[1]])


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize(
    "control",
    [an_array, names, single, Held(5.0), Held(3.0).__call__, functools.partial(an_array)],
    ids=["array", "names", "single", "object", "method", "partial"],
)
def test_a_controller_for_one_case_is_refused_at_the_start(control, zero):
    """Also where all cases start at zero, where nothing shows yet."""
    with pytest.raises(tb.ModelError, match=r"control: expected commands of each of the 2 cases"):
        run(control, 0.0 * Q if zero else Q)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_refusal_holds_for_every_method(method):
    with pytest.raises(tb.ModelError, match=r"write state.q\[..., 0\]"):
        run(an_array, method=integrator(method))


def elementwise(state):
    return -np.array([5.0, 2.0]) * state.q - 0.1 * state.v


def stacked(state):
    return np.stack([-5 * state.q[..., 0], 0 * state.q[..., 1]], axis=-1)


def by_name(state):
    first, second = ROBOT.joint_names
    return {first: -5 * state.q[..., 0], second: -state.v[..., 1]}


@pytest.mark.parametrize("control", [elementwise, stacked, by_name])
def test_controllers_of_batches_run_as_cases_one_by_one(control):
    np.testing.assert_allclose(run(control).q[-1], one_by_one(control), rtol=0, atol=1e-12)


def for_batches(state):
    """Fails on one case."""
    return -5.0 * state.q[:, [0, 1]]


GOALS = np.array([[0.1, 0.2], [0.5, 0.7]])


def with_goals(state):
    """Has one goal per case."""
    return 5.0 * (GOALS - state.q)


def over_cases(state):
    """Loops over cases."""
    return np.array([-5.0 * q for q in state.q.reshape(-1, 2)]).reshape(state.q.shape)


@pytest.mark.parametrize("control", [for_batches, with_goals, over_cases])
def test_controllers_for_batches_alone_run(control):
    """As the same cases with one more do, whose number is no other."""
    assert run(control).outcome.status == "finished"


def test_cases_may_depend_on_each_other_in_a_batch_with_one_more_dimension():
    def meet(state):
        return -5.0 * (state.q - state.q.mean(axis=-2, keepdims=True))

    def transposed(state):
        return (-np.array([5.0, 1.0]) * np.swapaxes(state.q, -1, -2)).swapaxes(-1, -2)

    for control in (meet, transposed):
        assert run(control, Q[None]).outcome.status == "finished"


def counting(state):
    CALLS.append(state.time)
    return -5.0 * state.q


def outer(state):
    return counting(state)


def test_controllers_that_keep_state_are_not_called_more_often():
    """Lists of globals and closures, attributes, defaults, generators of random numbers."""
    times = []
    rng = np.random.default_rng(1)

    def closing(state):
        times.append(state.time)
        return -5.0 * state.q + rng.normal() + np.random.normal()  # noqa: NPY002

    def default(state, taken=[]):  # noqa: B006
        taken.append(state.time)
        return -5.0 * state.q

    held = Held(5.0)
    held.gain = np.array([5.0])

    class Counting:
        def __init__(self):
            self.calls = 0

        def __call__(self, state):
            self.calls += 1
            return -5.0 * state.q

    counted = Counting()
    CALLS.clear()
    np.random.seed(3)  # noqa: NPY002
    run(closing)
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.normal(size=len(times) + 1)  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    times.clear()
    run(closing)
    assert np.random.normal() == expected[-1]  # noqa: NPY002
    samples = len(times)
    assert times == sorted(set(times))
    run(outer)
    assert len(CALLS) == samples
    run(default)
    assert len(default.__defaults__[0]) == samples
    run(counted)
    assert counted.calls == samples


K = np.array([[5.0, 1.0], [0.5, 2.0]])


def left_product(state):
    return -K.dot(state.q)


def copied(state):
    q = np.array(state.q)
    return np.stack([-5 * q[0], 0 * q[1]])


def unpacked(state):
    first, second = state.q
    return np.stack([-5 * first, 0 * second])


@pytest.mark.parametrize("control", [left_product, copied, unpacked])
def test_functions_are_found_whatever_they_do_with_the_state(control):
    """Commands are compared, not the way to them."""
    with pytest.raises(tb.ModelError, match="got others for the first of them than for it alone"):
        run(control)


class Locked:
    """A controller that cannot be copied, and counts its calls."""

    def __init__(self, commands):
        self.commands, self.lock, self.calls = commands, threading.Lock(), 0

    def __call__(self, state):
        with self.lock:
            self.calls += 1
            return self.commands(state)


def sent(commands):
    """Return a controller whose commands a generator computes."""

    def steps():
        state = yield
        while True:
            state = yield commands(state)

    running = steps()
    next(running)
    return running.send


MIXED = {
    "index": an_array,
    "error": lambda state: np.stack([-5 * (state.q - 1.0)[0], 0 * state.q[1]]),
    "slice": lambda state: np.concatenate([-5 * state.q[:1], 0 * state.q[1:]]),
    "unpacked": unpacked,
    "matrix": lambda state: -K @ state.q,
}


@pytest.mark.parametrize("wrap", [Locked, sent])
@pytest.mark.parametrize("way", MIXED)
def test_controllers_that_keep_something_may_not_take_cases_for_joints(way, wrap):
    """They are found in their first call, the only one."""
    control = wrap(MIXED[way])
    with pytest.raises(tb.ModelError, match=r"control: expected commands of each of the 2 cases"):
        run(control)
    assert getattr(control, "calls", 1) == 1


@pytest.mark.parametrize("wrap", [Locked, sent])
@pytest.mark.parametrize(
    "control",
    [
        *(elementwise, stacked, by_name, for_batches, with_goals, over_cases),
        lambda state: np.stack([-5 * state.q.T[0], 0 * state.q.T[1]], axis=-1),
        lambda state: -state.q @ K.T,
        lambda state: np.array([-5.0 * state.q[case, :] for case in range(2)]),
        lambda state: np.where((state.q[:, 0] > 1.0)[:, None], -5.0, -1.0) * state.q,
    ],
)
def test_controllers_of_batches_that_keep_something_run(control, wrap):
    assert run(wrap(control)).outcome.status == "finished"


COUNT = 0


def rebinding(state):
    global COUNT
    COUNT += 1
    return -5.0 * state.q


def marked(state):
    marked.calls = getattr(marked, "calls", 0) + 1
    return -5.0 * state.q


TOTAL = np.zeros(1)


def adding(state):
    TOTAL[0] += 1.0
    return -5.0 * state.q


class Shared:
    """A class that counts for all of its objects, by a function of its own."""

    calls = 0

    def __init__(self):
        self.law = lambda state: self.count() or -5.0 * state.q

    def count(self):
        type(self).calls += 1

    def __call__(self, state):
        return self.law(state)


def test_nothing_that_a_controller_keeps_shows_the_check():
    """Global numbers, attributes of functions and classes, elements of arrays."""
    calls = []
    for control, count in (
        (rebinding, lambda: COUNT),
        (marked, lambda: marked.calls),
        (adding, lambda: TOTAL[0]),
        (Shared(), lambda: Shared.calls),
        (lambda state, noted=calls.append: noted(state.time) or -5.0 * state.q, lambda: len(calls)),
    ):
        samples = []
        run(lambda state, own=control, seen=samples: seen.append(state.time) or own(state))
        before = count()
        run(control)
        assert count() - before == len(samples)


def test_controllers_with_open_files_run():
    with open(__file__) as source:

        def control(state):
            assert not source.closed
            return -5.0 * state.q

        assert run(control).outcome.status == "finished"
