"""Rounds over parts: order of sums, answers per part, functions of their own."""

import numpy as np

from tiburon.loops.parts import PartMethod, Round, message_size, ordered_sum, part_function, run
from tiburon.trace.count import count
from tiburon.trace.program import Input, trace


def _average(weights):
    """Two rounds: the weighted mean of all states, then each part's distance from it, squared."""

    def send(weight, state, answer):
        assert answer is None
        return [weight * state, weight], state

    def mean(center, messages):
        total, whole = ordered_sum(messages, [0.0, 0.0])
        found = total / whole
        return [[found] for _ in messages], (center, found)

    def send_distance(weight, state, answer):
        (found,) = answer
        away = state - found
        return [weight * away * away], away

    def spread(center, messages):
        (total,) = ordered_sum(messages, [0.0])
        return [[total, float(k)] for k in range(len(messages))], (*center, total)

    def recover(weight, state, answer):
        total, place = answer
        return state / total + place

    rounds = (Round("mean", send, mean), Round("spread", send_distance, spread))
    return PartMethod("average", tuple(weights), rounds, recover)


WEIGHTS, STATES = (0.3, 1.7, 0.9), (0.1, -2.3, 4.7)


def test_rounds_pass_answers_and_states_on():
    found = run(_average(WEIGHTS), 5.0, STATES)
    mean = np.dot(WEIGHTS, STATES) / np.sum(WEIGHTS)
    away = np.array(STATES) - mean
    total = np.dot(WEIGHTS, away**2)
    np.testing.assert_allclose(found.results, away / total + np.arange(3), rtol=1e-14)
    np.testing.assert_allclose(found.center, (5.0, mean, total), rtol=1e-14)
    np.testing.assert_allclose(found.states, away, rtol=1e-13)


def test_parts_are_functions_of_their_own():
    """Each local, solve and recover is one call in the graph, and computes what floats give."""

    def program(x):
        found = run(_average(WEIGHTS), 5.0, list(x))
        return np.stack(list(found.results))

    traced = trace(program, [Input("x", (3,))])
    calls = sum(op == "call" for op in traced.graph.ops)
    # two rounds of three parts and a center, then three parts recover
    assert calls == 2 * 4 + 3
    assert count(traced).multiplications > 0


def test_sums_run_in_the_order_of_parts():
    terms = [[1e16], [1.0], [-1e16], [1.0]]
    assert ordered_sum(terms, [0.0]) == [1.0]
    assert ordered_sum([terms[k] for k in (0, 2, 1, 3)], [0.0]) == [2.0]


def test_messages_are_counted_by_scalars():
    assert message_size(([1.0, 2.0], (3.0, [4.0]))) == 4


def test_part_functions_compute_on_floats():
    def scaled(part, x):
        return part * x

    assert part_function(scaled, 3.0)(2.0) == 6.0
