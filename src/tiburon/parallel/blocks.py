"""Arms on a load over tasks: chains beside each other, and points of a block beside each other.

McMillan 1994, chapter 3. A block predictor-corrector evaluates B new points twice. Tasks divide
this work in space and in time: of m chains (arms) each task has m/m~, of B points B/p~. A task
integrates its own chains and the reference member, and computes

    OCD     each of its chains with an open tip, at each of its points;
    RMA     the acceleration of the reference member, from what all chains sent (spatial barrier);
    CCD     its chains again, with that acceleration.

Predicted rates go to the tasks of the same chains at other points (temporal barrier), corrected
points too (second barrier); then the first of these tasks posts an event: the block is finished.
Every task solves RMA by itself, or one for all tasks of a point, which costs one more
synchronization.

Tasks share nothing but messages, so that they run in threads or on MPI ranks alike. A chain is one
kernel whatever task it is in, and a task evaluates its points as the cases of a batch, in the lanes
of vectors: results have the same bits for every partition, wherever its tasks run.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD, surroundings
from tiburon.argument_checks import at_least
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, OptionError, PartnerError
from tiburon.loops.star import layout
from tiburon.loops.star_dynamics import (
    closed_arm,
    gather,
    open_arm,
    star_center,
    star_parts,
    star_states,
)
from tiburon.model import Model, World
from tiburon.model.model import per_model
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.parallel.exchange import ThreadExchange, in_threads, thread_group
from tiburon.parallel.mpi_ranks import MPIExchange
from tiburon.parallel.session import Endpoint
from tiburon.simulation.integrators.dopri5 import DOPRI5
from tiburon.simulation.integrators.manifold import Chart, Manifold, combine
from tiburon.simulation.integrators.method import explicit_stages
from tiburon.simulation.integrators.predictor_corrector import ORDER, integration_weights
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, trace
from tiburon.trace.structure import Structure, flatten, rebuild

BLOCK_SIZES = (1, 2, 4)
"""Points of a block: B1PC5, B2PC5 and B4PC5."""


class TaskCounts(NamedTuple):
    """What one task did in one block."""

    synchronizations: float
    reference_solutions: float
    """Solutions for the acceleration of the reference member."""


class BlockRun(NamedTuple):
    """States at the ends of all steps."""

    q: Array
    v: Array
    counts: TaskCounts
    """Of each task, which all have the same."""


class _Point(NamedTuple):
    """A point that was passed, as far as a task knows it."""

    q: Array
    v: Array
    a: Array


class BlockTasks:
    """The tasks of a star of arms in a block predictor-corrector.

    Attributes:
        model: The robot.
        block: New points in a block, B.
        chains: Tasks in space, m~.
        points: Tasks in time, p~.
        redundant: Whether every task solves for the reference member.
    """

    def __init__(
        self,
        model: Model,
        block: int,
        *,
        chains: int = 1,
        points: int = 1,
        redundant: bool = True,
        world: World | None = None,
    ) -> None:
        """Divide the work.

        Args:
            model: A star: arms that hold one load.
            block: New points in a block: 1, 2 or 4.
            chains: Tasks in space; divides the number of arms, so that tasks are balanced.
            points: Tasks in time; divides the number of points.
            redundant: Whether every task solves for the reference member, or one of each point.
            world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.

        Raises:
            OptionError: If there is no such block.
            DomainError: If tasks would have different shares.
            ModelError: If the robot is no star.
        """
        if block not in BLOCK_SIZES:
            raise OptionError("block", tuple(map(str, BLOCK_SIZES)), block)
        self._shape = layout(model)
        arms = len(self._shape.arms)
        for name, given, whole, what in (
            ("chains", chains, arms, "arms"),
            ("points", points, block, "points of a block"),
        ):
            at_least(name, given, 1)
            if whole % given:
                raise DomainError(name, f"a divisor of {whole}, the number of {what}", given)
        self.model, self.block, self.chains, self.points = model, block, chains, points
        self.redundant = redundant
        self._arms = [range(k, k + arms // chains) for k in range(0, arms, arms // chains)]
        size = block // points
        self._places = [range(k, k + size) for k in range(1, block + 1, size)]
        self._kernels = _kernels(model, DEFAULT_WORLD if world is None else world)

    def run(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: Callable[[float], ArrayLike] | ArrayLike,
        dt: float,
        blocks: int,
        *,
        exchange: ThreadExchange | MPIExchange | None = None,
    ) -> BlockRun:
        """Take four steps of a one-step method, then some blocks.

        Args:
            q: Configuration at the start [m or rad], with closed loops.
            v: Joint velocity at the start [m/s or rad/s].
            tau: Joint force [N or N m], or a function of time [s] that returns it.
            dt: Step [s].
            blocks: Number of blocks.
            exchange: Where tasks run, one in each: threads of this process, or MPI ranks, where all
                ranks call this method alike; threads by default. A rank whose task failed leaves
                the others waiting up to their patience.

        Returns:
            States at the start and after each step; the same in all ranks.

        Raises:
            DomainError: If an arm becomes singular, or there are more or fewer ranks than tasks.
            PartnerError: If a task does not answer, or was called differently.
        """
        force = tau if callable(tau) else (lambda _: tau)
        given = _Given(
            self,
            lambda time: np.asarray(force(time), dtype=float),
            np.asarray(q, dtype=float),
            np.asarray(v, dtype=float),
            float(dt),
            blocks,
        )
        count = self.chains * self.points
        places = [(i, k) for i in range(self.chains) for k in range(self.points)]
        if isinstance(exchange, MPIExchange):
            if exchange.comm.Get_size() != count:
                ranks = exchange.comm.Get_size()
                raise DomainError("exchange", f"{count} ranks, one per task", f"{ranks} ranks")
            i, k = places[exchange.comm.Get_rank()]
            everyone = exchange.endpoint()
            # before groups are formed, which differ between partitions
            given.agree(everyone)
            return _Task(given, (i, k), exchange.endpoint(k), exchange.endpoint(i)).run()
        if exchange is None:
            exchange = ThreadExchange()
        elif not isinstance(exchange, ThreadExchange):
            raise OptionError("exchange", ("None", "ThreadExchange()", "MPIExchange()"), exchange)
        if exchange.threads not in (None, count):
            raise DomainError("exchange", f"{count} threads, one per task", exchange.threads)
        space = [thread_group(self.chains, exchange.patience) for _ in range(self.points)]
        time = [thread_group(self.points, exchange.patience) for _ in range(self.chains)]
        tasks = [_Task(given, (i, k), space[k][i], time[i][k]) for i, k in places]

        def abort(_: int) -> None:
            # nobody waits for a task that failed
            for group in (*space, *time):
                group[0].abort()

        return in_threads(count, lambda number: tasks[number].run(), abort)


class _Kernels:
    """Machine code of the steps of a task; the same for all tasks."""

    def __init__(self, model: Model, world: World) -> None:
        self.shape = layout(model)
        self.manifold = Manifold(model)
        self.chart = Chart(self.manifold, lambda *_: (), (0.0,) * model.nq)
        self._around = Setting(model, (), (), *surroundings(model, world))
        # structure and size of messages and of what arms keep
        self._forms: dict[tuple[str, int], tuple[Structure, int]] = {}
        nq, nv, arms = model.nq, model.nv, range(len(self.shape.arms))
        self.size = sum(self.manifold.step_counts) + nv
        """Coordinates of a state: steps of positions, then velocities."""
        state = {"q": nq, "v": nv, "tau": nv}
        self.open = [self._kernel(f"open_{k}", state, self._opened(k)) for k in arms]
        self.sent = [self._sizes("message", k) for k in arms]
        messages = {**state, "messages": sum(self.sent)}
        self.reference = self._kernel("reference", messages, self._solved)
        self.answered = [len(arm.at) for arm in self.shape.arms]
        self.close = [
            self._kernel(
                f"close_{k}",
                {**state, "loaded": self._sizes("loaded", k), "answer": self.answered[k]},
                self._closed(k),
            )
            for k in arms
        ]
        past = {"origin": nq, "q": nq, "v": nv, "a": nv}
        self.old_rates = self._kernel("old_rates", past, self._old_rates)
        moved = {"origin": nq, "v": nv, "h": 1, "weights": ORDER, "rates": ORDER * self.size}
        self.move = self._kernel("move", moved, self._moved)
        new = {"y": self.size, "q": nq, "v": nv, "a": nv}
        self.new_rates = self._kernel("new_rates", new, self._new_rates)

    def _kernel(self, name: str, sizes: dict[str, int], call: Callable[..., Any]) -> Any:
        def traced(**given: Any) -> Any:
            return as_traced(list(call(*[tuple(x) for x in given.values()])))

        inputs = [Input(key, (size,)) for key, size in sizes.items()]
        program = trace(lambda *x: traced(**dict(zip(sizes, x, strict=True))), inputs, name=name)
        return make_kernel(ProgramSource(program), {})

    def _sizes(self, what: str, arm: int) -> int:
        return self._forms[what, arm][1]

    def _flat(self, what: str, arm: int, value: Any) -> list[Any]:
        leaves, structure = flatten(value)
        self._forms[what, arm] = structure, len(leaves)
        return leaves

    def _again(self, what: str, arm: int, leaves: Sequence[Any]) -> Any:
        return rebuild(self._forms[what, arm][0], iter(leaves))

    def _opened(self, arm: int) -> Callable[..., Any]:
        def call(q: Any, v: Any, tau: Any) -> list[Any]:
            around = self._around.at(q, v)
            own = star_states(self.shape, q, v, tau)[arm]
            message, loaded = open_arm(star_parts(around, self.shape)[arm], own, None)
            return [*self._flat("message", arm, message), *self._flat("loaded", arm, loaded)]

        return call

    def _solved(self, q: Any, v: Any, tau: Any, messages: Any) -> list[Any]:
        around, left = self._around.at(q, v), iter(messages)
        sent = [
            self._again("message", k, [next(left) for _ in range(size)])
            for k, size in enumerate(self.sent)
        ]
        center = star_center(around, self.shape, q, v, tau)
        answers, found = gather(self.shape, star_parts(around, self.shape), center, sent)
        flat = [x for answer in answers for x in answer]
        return [found.is_singular, *found.vd, *flat]

    def _closed(self, arm: int) -> Callable[..., Any]:
        def call(q: Any, v: Any, tau: Any, loaded: Any, answer: Any) -> list[Any]:
            part = star_parts(self._around.at(q, v), self.shape)[arm]
            return list(closed_arm(part, self._again("loaded", arm, loaded), list(answer))[0])

        return call

    def _old_rates(self, origin: Any, q: Any, v: Any, a: Any) -> list[Any]:
        theta = self.manifold.displacement(origin, q)
        turned = self.manifold.coordinate_rate(theta, self.manifold.rate(q, v))
        return [*(x for step in turned for x in step), *a]

    def _moved(self, origin: Any, v: Any, h: Any, weights: Any, rates: Any) -> list[Any]:
        chart = Chart(self.manifold, lambda *_: (), origin)
        rows = [rates[k * self.size : (k + 1) * self.size] for k in range(ORDER)]
        y = combine(chart.start(v), h[0], weights, rows)
        q, w = chart.state(y)
        return [*y, *q, *w]

    def _new_rates(self, y: Any, q: Any, v: Any, a: Any) -> list[Any]:
        return list(self.chart.rates_of(self.chart.steps(y), q, v, a))


@per_model
def _kernels(model: Model, world: World) -> _Kernels:
    """Return the kernels of a robot; partitions share them."""
    return _Kernels(model, world)


class _Given:
    """What all tasks are given."""

    def __init__(
        self,
        tasks: BlockTasks,
        force: Callable[[float], Array],
        q: Array,
        v: Array,
        dt: float,
        blocks: int,
    ) -> None:
        self.tasks, self.force, self.q, self.v = tasks, force, q, v
        self.dt, self.blocks = dt, blocks

    def agree(self, everyone: Endpoint) -> None:
        """Check that all ranks were called alike.

        Raises:
            PartnerError: If one was not.
        """
        tasks = self.tasks
        settings = (tasks.block, tasks.chains, tasks.points, tasks.redundant, self.dt, self.blocks)
        digest = hashlib.blake2b(repr(settings).encode(), digest_size=16)
        for array in (self.q, self.v, self.force(0.0)):
            digest.update(np.ascontiguousarray(array).tobytes())
        found = everyone.agree(digest.hexdigest())
        odd = [k for k, one in enumerate(found) if one != found[0]]
        if odd:
            raise PartnerError(
                f"rank {odd[0]}: has other tasks than rank 0 (block, division, start, forces, step "
                "or number of blocks differ); call all ranks alike"
            )


class _Task:
    """One task: some chains at some points of every block, and the messages of others."""

    def __init__(
        self, given: _Given, place: tuple[int, int], space: Endpoint, time: Endpoint
    ) -> None:
        tasks = given.tasks
        self._given, self._kernels, self._shape = given, tasks._kernels, tasks._shape
        self._i, self._k = place
        self._space, self._time = space, time
        self._arms = list(tasks._arms[self._i])
        self._places = list(tasks._places[self._k])
        self._syncs = self._solutions = 0

    def run(self) -> BlockRun:
        """Compute all blocks; return states of all chains."""
        passed = self._start()
        history = passed[::-1]
        self._syncs = self._solutions = 0
        for number in range(self._given.blocks):
            new = self._block(number, history)
            passed += new
            history = [*new[::-1], *history][:ORDER]
        return self._together(passed)

    def _start(self) -> list[_Point]:
        """Compute the first points, of all chains, with the method of Dormand and Prince."""
        given, manifold = self._given, self._kernels.manifold

        def acceleration(q: Any, w: Any, time: Any) -> tuple[float, ...]:
            state = np.array(q, dtype=float)[None], np.array(w, dtype=float)[None]
            return tuple(self._accelerations(*state, [float(time)], alone=True)[0].tolist())

        points = [_Point(given.q, given.v, np.array(acceleration(given.q, given.v, 0.0)))]
        for step in range(ORDER - 1):
            last, time = points[-1], step * given.dt
            origin, w = tuple(last.q.tolist()), tuple(last.v.tolist())
            chart = Chart(manifold, acceleration, origin)
            y, first = chart.start(w), chart.rates_at_start(w, tuple(last.a.tolist()))
            stages = explicit_stages(chart, DOPRI5, y, first, given.dt, time)
            q1, w1 = (np.array(x) for x in chart.state(combine(y, given.dt, DOPRI5.b, stages)))
            points.append(_Point(q1, w1, np.array(acceleration(q1, w1, time + given.dt))))
        return points

    def _gathered(self, group: Endpoint, own: Array, counts: Sequence[int]) -> Array:
        """Return the shares of all tasks of a group, one after another; a synchronization."""
        if group.size == 1:
            return own
        self._syncs += 1
        values = np.zeros(sum(counts))
        start = sum(counts[: group.rank])
        values[start : start + counts[group.rank]] = own
        group.gather(values, counts)
        return values

    def _rows(self, group: Endpoint, own: Array) -> Array:
        """Return the rows of all tasks of a group, which have equally many."""
        flat = self._gathered(group, own.ravel(), [own.size] * group.size)
        return flat.reshape(-1, own.shape[1])

    def _block(self, number: int, history: Sequence[_Point]) -> list[_Point]:
        given, kernels, block = self._given, self._kernels, self._given.tasks.block
        newest, dt = history[0], given.dt
        nq, nv = len(newest.q), len(newest.v)
        begin = (ORDER - 1 + number * block) * dt
        times = [begin + place * dt for place in self._places]
        old = {-j: kernels.old_rates(newest.q, *point) for j, point in enumerate(history)}
        # predict, evaluate
        y, q, v = self._moved(newest, old, tuple(-j for j in range(ORDER)))
        a = self._accelerations(q, v, times)
        own = np.array([kernels.new_rates(*point) for point in zip(y, q, v, a, strict=True)])
        rates = dict(enumerate(self._rows(self._time, own), start=1))
        # correct, evaluate
        nodes = tuple(block - j for j in range(ORDER))
        _, q, v = self._moved(newest, {**old, **rates}, nodes)
        a = self._accelerations(q, v, times)
        found = self._rows(self._time, np.hstack([q, v, a]))
        # the event that ends the block
        first = [1] + [0] * (self._time.size - 1)
        numbers = self._gathered(self._time, np.full(first[self._time.rank], float(number)), first)
        assert self._time.size == 1 or numbers[0] == number, "tasks are in different blocks"
        return [_Point(*np.split(row, [nq, nq + nv])) for row in found]

    def _together(self, passed: Sequence[_Point]) -> BlockRun:
        """Return states of all chains, and the counts of the task that did most."""
        given = self._given
        q = np.array([point.q for point in passed])
        v = np.array([point.v for point in passed])
        blocks = max(given.blocks, 1)
        own_counts = [self._syncs / blocks, self._solutions / blocks]
        columns = [self._columns(arms) for arms in given.tasks._arms]
        sizes = [len(passed) * (len(qs) + len(vs)) + 2 for qs, vs in columns]
        qs, vs = columns[self._i]
        own = np.concatenate([q[:, qs].ravel(), v[:, vs].ravel(), own_counts])
        left = self._gathered(self._space, own, sizes)
        counts = []
        for qs, vs in columns:
            first, second = len(passed) * len(qs), len(passed) * (len(qs) + len(vs))
            q[:, qs] = left[:first].reshape(len(passed), -1)
            v[:, vs] = left[first:second].reshape(len(passed), -1)
            counts.append(TaskCounts(*left[second : second + 2].tolist()))
            left = left[second + 2 :]
        # one of the tasks of a point solves for all of them unless each does
        return BlockRun(q, v, max(counts))

    def _columns(self, arms: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the variables of some arms without those of the reference member."""
        shape, qs, vs = self._shape, [], []
        for k in arms:
            arm = shape.arms[k]
            qs += [i for i in arm.q if i not in shape.q]
            vs += [arm.v[i] for i in arm.own]
        return qs, vs

    def _moved(
        self, origin: _Point, rates: dict[int, Array], nodes: tuple[int, ...]
    ) -> tuple[Array, Array, Array]:
        """Return coordinates, positions and velocities of the task's points."""
        kernels = self._kernels
        rows = np.concatenate([rates[node] for node in nodes])
        weights = np.array([integration_weights(place, nodes) for place in self._places])
        h = np.array([self._given.dt])
        found = kernels.move(origin.q, origin.v, h, weights, rows, threads=1)
        nq = len(origin.q)
        return (
            np.ascontiguousarray(found[:, : kernels.size]),
            np.ascontiguousarray(found[:, kernels.size : kernels.size + nq]),
            np.ascontiguousarray(found[:, kernels.size + nq :]),
        )

    def _accelerations(
        self, q: Array, v: Array, times: Sequence[float], *, alone: bool = False
    ) -> Array:
        """Return accelerations of own chains and the reference member, one row per point.

        Args:
            q: Positions, one row per point.
            v: Velocities.
            times: Times of the points [s].
            alone: Whether to compute all chains, without messages.
        """
        kernels, shape, tasks = self._kernels, self._shape, self._given.tasks
        tau = np.array([self._given.force(time) for time in times])
        arms = range(len(shape.arms)) if alone else self._arms
        opened = {k: kernels.open[k](q, v, tau, threads=1) for k in arms}
        sent = np.hstack([opened[k][:, : kernels.sent[k]] for k in arms])
        if alone:
            messages = sent
        else:
            sizes = [sum(kernels.sent[k] for k in group) * len(times) for group in tasks._arms]
            left = self._gathered(self._space, sent.ravel(), sizes)
            ends = np.cumsum(sizes)[:-1]
            messages = np.hstack([x.reshape(len(times), -1) for x in np.split(left, ends)])
        single = not (alone or tasks.redundant)
        if not single or self._i == 0:
            solved = kernels.reference(q, v, tau, np.ascontiguousarray(messages), threads=1)
            self._solutions += len(times)
        if single:
            own = solved if self._i == 0 else np.zeros((0, 1))
            width = 1 + len(shape.v) + sum(kernels.answered)
            sizes = [len(times) * width] + [0] * (self._space.size - 1)
            solved = self._gathered(self._space, own.ravel(), sizes).reshape(len(times), -1)
        if (solved[:, 0] > 0.0).any():
            time = times[int(np.argmax(solved[:, 0] > 0.0))]
            raise DomainError("q", "arms that are not singular", f"one at {time:g} s")
        a = np.zeros((len(times), tasks.model.nv))
        a[:, list(shape.v)] = solved[:, 1 : 1 + len(shape.v)]
        first = 1 + len(shape.v)
        for k, size in enumerate(kernels.answered):
            if k in opened:
                answer = np.ascontiguousarray(solved[:, first : first + size])
                loaded = np.ascontiguousarray(opened[k][:, kernels.sent[k] :])
                arm = shape.arms[k]
                own = [arm.v[i] for i in arm.own]
                a[:, own] = kernels.close[k](q, v, tau, loaded, answer, threads=1)
            first += size
        return a
