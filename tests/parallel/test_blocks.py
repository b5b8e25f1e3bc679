"""Tasks over chains and points: bits of every partition, counts, agreement with runs, refusals."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tiburon.errors import DomainError, OptionError
from tiburon.parallel.blocks import BlockTasks
from tiburon.reproduce.mcmillan_lift import four_pumas

DT = 1e-3


def moving_arms():
    """Return four arms that hold a load, their state in motion, and joint forces."""
    model = four_pumas()
    rng = np.random.default_rng(6)
    q = np.array(model.poses["home"])
    v = np.asarray(tb.project_velocity(model, q, 0.2 * rng.standard_normal(model.nv)))
    return model, q, v, 5.0 * rng.standard_normal(model.nv)


@pytest.fixture(scope="module")
def start():
    return moving_arms()


def partitions(block):
    """All m~ and p~ that divide four chains and a block."""
    return [(m, p) for m in (1, 2, 4) for p in (1, 2, 4) if block % p == 0]


@pytest.mark.parametrize("block", [1, 2, 4])
def test_bits_do_not_depend_on_the_partition_and_counts_follow_table_3(start, block):
    """Redundant or single solutions for the load; one synchronization more for single ones."""
    model, *state = start
    found = set()
    for m, p in partitions(block):
        for redundant in (True, False):
            tasks = BlockTasks(model, block, chains=m, points=p, redundant=redundant)
            run = tasks.run(*state, DT, 2)
            assert run.q.shape == (5 + 2 * block, model.nq)
            found.add(run.q.tobytes() + run.v.tobytes())
            more = 0 if redundant else 2 * (m > 1)
            assert run.counts.synchronizations == 2 * (m > 1) + 3 * (p > 1) + more
            assert run.counts.reference_solutions == 2 * block // p
    assert len(found) == 1


@pytest.mark.parametrize(("block", "name"), [(1, "b1pc5"), (4, "b4pc5")])
def test_states_are_those_of_a_run_without_projection(start, block, name):
    """A run of the same method moves every point back onto its loops, by no more than rounding."""
    model, q, v, tau = start
    blocks = 16 // block
    found = BlockTasks(model, block, chains=2, points=block).run(q, v, tau, DT, blocks)
    run = tb.simulate(
        model.without_passive().without_limits(),
        20 * DT,
        q=q,
        v=v,
        command=tau,
        method=integrator(name, dt=DT),
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    np.testing.assert_allclose(found.q, run.q, atol=1e-9)
    np.testing.assert_allclose(found.v, run.v, atol=1e-8)
    assert np.abs(found.q[-1] - found.q[0]).max() > 1e-3


def test_forces_may_depend_on_time(start):
    """They are evaluated at the time of each point."""
    model, q, v, tau = start
    seen = set()

    def force(time):
        seen.add(round(time / DT, 6))
        return tau * time

    run = BlockTasks(model, 2, points=2).run(q, v, force, DT, 2)
    assert {4.0 + k for k in range(1, 5)} <= seen
    assert not np.array_equal(run.v[-1], BlockTasks(model, 2).run(q, v, 0.0 * tau, DT, 2).v[-1])


def test_unbalanced_tasks_are_refused(start):
    """The number that does not divide, and what it must divide, are named."""
    model, *_ = start
    with pytest.raises(DomainError, match="a divisor of 4, the number of arms"):
        BlockTasks(model, 4, chains=3)
    with pytest.raises(DomainError, match="a divisor of 2, the number of points of a block"):
        BlockTasks(model, 2, points=4)
    with pytest.raises(OptionError, match="block"):
        BlockTasks(model, 3)
    with pytest.raises(tb.ModelError):
        BlockTasks(tb.load("panda"), 4)
    pair = BlockTasks(model, 4, chains=2)
    with pytest.raises(DomainError, match="2 threads, one per task"):
        pair.run(*start[1:], DT, 1, exchange=tb.ThreadExchange(3))
    with pytest.raises(OptionError, match="exchange"):
        pair.run(*start[1:], DT, 1, exchange="ranks")


def test_an_error_in_one_task_ends_all(start):
    """Others do not wait for it."""
    model, q, v, tau = start

    def force(time):
        if time > 5.5 * DT:
            raise RuntimeError("no more force")
        return tau

    with pytest.raises(RuntimeError, match="no more force"):
        BlockTasks(model, 4, chains=2, points=2).run(q, v, force, DT, 3)
