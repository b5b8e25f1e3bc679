"""Arms on a load over tasks: chains beside each other, and points of a block beside each other.

McMillan 1994, chapter 3. A block predictor-corrector evaluates B new points twice. Tasks divide
this work in space and in time: of m chains (arms) each task has m/m~, of B points B/p~. A task
integrates its own chains and the reference member, and computes

    OCD     each of its chains with an open tip, at each of its points;
    RMA     the acceleration of the reference member, from what all chains sent (spatial barrier);
    CCD     its chains again, with that acceleration.

Predicted rates go to the tasks of the same chains at other points (temporal barrier), corrected
ones too (second barrier); one of these tasks shifts the history and posts an event. Every task
solves RMA by itself, or one for all tasks of a point, which costs one more synchronization.

A chain is one kernel whatever task it is in, and a task evaluates its points as the cases of a
batch, in the lanes of vectors: results have the same bits for every partition.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD, surroundings
from tiburon.argument_checks import at_least
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, OptionError
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
from tiburon.simulation.integrators.dopri5 import DOPRI5
from tiburon.simulation.integrators.manifold import Chart, Manifold, combine
from tiburon.simulation.integrators.method import explicit_stages
from tiburon.simulation.integrators.predictor_corrector import ORDER, integration_weights
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, trace
from tiburon.trace.structure import Structure, flatten, rebuild

__all__ = ["BLOCK_SIZES", "BlockRun", "BlockTasks", "TaskCounts"]

Array = NDArray[np.float64]

BLOCK_SIZES = (1, 2, 4)
"""Points of a block: B1PC5, B2PC5 and B4PC5."""

BARRIER_TIMEOUT = 60.0
"""Time after which a task that does not arrive is given up [s]."""


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
    ) -> BlockRun:
        """Take four steps of a one-step method, then some blocks.

        Args:
            q: Configuration at the start [m or rad], with closed loops.
            v: Joint velocity at the start [m/s or rad/s].
            tau: Joint force [N or N m], or a function of time [s] that returns it.
            dt: Step [s].
            blocks: Number of blocks.

        Returns:
            States at the start and after each step.

        Raises:
            DomainError: If an arm becomes singular.
        """
        force = tau if callable(tau) else (lambda _: tau)
        given = _Run(self, lambda time: np.asarray(force(time), dtype=float), float(dt), blocks)
        given.start(np.asarray(q, dtype=float), np.asarray(v, dtype=float))
        tasks = [_Task(given, i, k) for i in range(self.chains) for k in range(self.points)]
        if len(tasks) == 1:
            tasks[0].work()
        else:
            threads = [threading.Thread(target=task.work) for task in tasks]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if given.failure is not None:
            raise given.failure
        counts = {task.counts() for task in tasks}
        # one of the tasks of a point solves for all of them unless each does
        return BlockRun(*given.states(), max(counts))


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


class _Run:
    """What tasks share: history and new points of each group of chains, messages, barriers."""

    def __init__(
        self, tasks: BlockTasks, force: Callable[[float], Array], dt: float, blocks: int
    ) -> None:
        self.tasks, self.force, self.dt, self.blocks = tasks, force, dt, blocks
        m, p, block = tasks.chains, tasks.points, tasks.block
        self.history: list[list[_Point]] = [[] for _ in range(m)]
        self.passed: list[list[_Point]] = [[] for _ in range(m)]
        self.rates: list[dict[int, Array]] = [{} for _ in range(m)]
        self.new: list[dict[int, _Point]] = [{} for _ in range(m)]
        # messages and answers by evaluation, point and arm
        arms = len(tasks._shape.arms)
        self.messages: list[dict[int, list[Any]]] = [
            {place: [None] * arms for place in range(1, block + 1)} for _ in range(2)
        ]
        self.answers: list[dict[int, Array]] = [{}, {}]
        self.spatial = [threading.Barrier(m) for _ in range(p)]
        self.temporal = [threading.Barrier(p) for _ in range(m)]
        self.failure: BaseException | None = None

    def start(self, q: Array, v: Array) -> None:
        """Compute the first points with the method of Dormand and Prince."""
        manifold = self.tasks._kernels.manifold
        serial = _Task(self, 0, 0, everything=True)

        def acceleration(q: Any, w: Any, time: Any) -> tuple[float, ...]:
            state = np.array(q, dtype=float)[None], np.array(w, dtype=float)[None]
            return tuple(serial.accelerations(*state, [float(time)], 0, [1])[0].tolist())

        points = [_Point(q, v, np.array(acceleration(q, v, 0.0)))]
        for step in range(ORDER - 1):
            last, time = points[-1], step * self.dt
            origin, w = tuple(last.q.tolist()), tuple(last.v.tolist())
            chart = Chart(manifold, acceleration, origin)
            y, first = chart.start(w), chart.rates_at_start(w, tuple(last.a.tolist()))
            stages = explicit_stages(chart, DOPRI5, y, first, self.dt, time)
            q1, w1 = (np.array(x) for x in chart.state(combine(y, self.dt, DOPRI5.b, stages)))
            points.append(_Point(q1, w1, np.array(acceleration(q1, w1, time + self.dt))))
        for i in range(self.tasks.chains):
            self.history[i] = points[::-1]
            self.passed[i] = list(points)

    def states(self) -> tuple[Array, Array]:
        """Return the states of all chains together."""
        shape = self.tasks._shape
        q = np.array([point.q for point in self.passed[0]])
        v = np.array([point.v for point in self.passed[0]])
        for arms, passed in zip(self.tasks._arms, self.passed, strict=True):
            for k in arms:
                arm = shape.arms[k]
                own_q = [i for i in arm.q if i not in shape.q]
                own_v = [arm.v[i] for i in arm.own]
                q[:, own_q] = np.array([point.q for point in passed])[:, own_q]
                v[:, own_v] = np.array([point.v for point in passed])[:, own_v]
        return q, v


class _Task:
    """One task: some chains at some points of every block."""

    def __init__(self, run: _Run, chains: int, points: int, *, everything: bool = False) -> None:
        tasks = run.tasks
        self._run, self._kernels = run, tasks._kernels
        self._i, self._k = chains, points
        self._alone = everything
        self._arms = range(len(tasks._shape.arms)) if everything else tasks._arms[chains]
        self._places = list(tasks._places[points])
        self._syncs = self._solutions = 0

    def counts(self) -> TaskCounts:
        """Return what it did per block."""
        blocks = max(self._run.blocks, 1)
        return TaskCounts(self._syncs / blocks, self._solutions / blocks)

    def work(self) -> None:
        """Compute all blocks."""
        try:
            for block in range(self._run.blocks):
                self._block(block)
        except threading.BrokenBarrierError:
            return
        except BaseException as error:
            self._run.failure = error
            for barrier in (*self._run.spatial, *self._run.temporal):
                barrier.abort()

    def _wait(self, barrier: threading.Barrier) -> None:
        if barrier.parties > 1:
            self._syncs += 1
            barrier.wait(BARRIER_TIMEOUT)

    def _block(self, number: int) -> None:
        run, kernels, block = self._run, self._kernels, self._run.tasks.block
        history, rates, new = run.history[self._i], run.rates[self._i], run.new[self._i]
        temporal, newest, dt = run.temporal[self._i], history[0], run.dt
        begin = (ORDER - 1 + number * block) * dt
        times = [begin + place * dt for place in self._places]
        old = {-j: kernels.old_rates(newest.q, *point) for j, point in enumerate(history)}
        # predict, evaluate
        y, q, v = self._moved(newest, old, tuple(-j for j in range(ORDER)))
        a = self.accelerations(q, v, times, 0, self._places)
        for n, place in enumerate(self._places):
            rates[place] = kernels.new_rates(y[n], q[n], v[n], a[n])
        self._wait(temporal)
        # correct, evaluate
        nodes = tuple(block - j for j in range(ORDER))
        known = {**old, **rates}
        _, q, v = self._moved(newest, known, nodes)
        a = self.accelerations(q, v, times, 1, self._places)
        for n, place in enumerate(self._places):
            new[place] = _Point(q[n], v[n], a[n])
        self._wait(temporal)
        if self._k == 0:
            latest = [new[place] for place in range(1, block + 1)]
            run.passed[self._i] += latest
            run.history[self._i] = [*latest[::-1], *history][:ORDER]
        self._wait(temporal)

    def _moved(
        self, origin: _Point, rates: dict[int, Array], nodes: tuple[int, ...]
    ) -> tuple[Array, Array, Array]:
        """Return coordinates, positions and velocities of the task's points."""
        kernels, run = self._kernels, self._run
        rows = np.concatenate([rates[node] for node in nodes])
        weights = np.array([integration_weights(place, nodes) for place in self._places])
        found = kernels.move(origin.q, origin.v, np.array([run.dt]), weights, rows, threads=1)
        nq = len(origin.q)
        return (
            np.ascontiguousarray(found[:, : kernels.size]),
            np.ascontiguousarray(found[:, kernels.size : kernels.size + nq]),
            np.ascontiguousarray(found[:, kernels.size + nq :]),
        )

    def accelerations(
        self, q: Array, v: Array, times: Sequence[float], evaluation: int, places: Sequence[int]
    ) -> Array:
        """Return accelerations of own chains and the reference member, one row per point."""
        run, kernels, shape = self._run, self._kernels, self._run.tasks._shape
        tau = np.array([run.force(time) for time in times])
        board = run.messages[evaluation]
        loaded = {}
        for k in self._arms:
            found = kernels.open[k](q, v, tau, threads=1)
            loaded[k] = np.ascontiguousarray(found[:, kernels.sent[k] :])
            for n, place in enumerate(places):
                board[place][k] = found[n, : kernels.sent[k]]
        barrier = run.spatial[self._k]
        if not self._alone:
            self._wait(barrier)
        answers = run.answers[evaluation]
        if self._alone or run.tasks.redundant or self._i == 0:
            messages = np.array([np.concatenate(board[place]) for place in places])
            solved = kernels.reference(q, v, tau, messages, threads=1)
            self._solutions += len(places)
        if not (self._alone or run.tasks.redundant):
            if self._i == 0:
                answers.update(zip(places, solved, strict=True))
            self._wait(barrier)
            solved = np.array([answers[place] for place in places])
        if (solved[:, 0] > 0.0).any():
            time = times[int(np.argmax(solved[:, 0] > 0.0))]
            raise DomainError("q", "arms that are not singular", f"one at {time:g} s")
        a = np.zeros((len(places), run.tasks.model.nv))
        a[:, list(shape.v)] = solved[:, 1 : 1 + len(shape.v)]
        first = 1 + len(shape.v)
        for k, size in enumerate(kernels.answered):
            if k in loaded:
                answer = np.ascontiguousarray(solved[:, first : first + size])
                arm = shape.arms[k]
                own = [arm.v[i] for i in arm.own]
                a[:, own] = kernels.close[k](q, v, tau, loaded[k], answer, threads=1)
            first += size
        return a
