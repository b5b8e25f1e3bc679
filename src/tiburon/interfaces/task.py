"""Tasks for learning: a robot with actions, observations, reward, end and start of episodes.

A task is data and traced functions; `Env` and `VectorEnv` run it. Its functions become one kernel
per control interval together with the steps of `stepper`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tiburon.argument_checks import at_least
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError, shown
from tiburon.model import Model
from tiburon.simulation.integrators.integrator import Integrator
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.stepper import Stepped, Stepper, StepperState, stepper

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Task:
    """What an environment is made of; all environments of one task share its kernels.

    `observe`, `reward` and `terminated` are functions of the model and of arrays by name, as
    `stepper` takes them; there, `u` is the action.

    Example:
        A pendulum that is to stand upright::

            def start(generator):
                return {"q": generator.uniform(-np.pi, np.pi, 1)}

            task = tb.gym.Task(
                name="pendulum",
                model=tb.load("pendulum"),
                method=tb.RK4(dt=5e-3),
                substeps=4,
                start=start,
                low=(-2.0,),
                high=(2.0,),
                reward=lambda model, q, u: np.cos(q[0]) - 0.01 * u[0] ** 2,
            )
            env = tb.gym.VectorEnv(task, 1024)
    """

    name: str
    """Name of the task."""

    model: Model
    """The robot."""

    substeps: int
    """Steps in a control interval."""

    start: Draw
    """Draws the start of an episode: a mapping with `q`, `v` and all names of `shapes`; what it
    leaves out of q and v is as in `simulate`."""

    low: Sequence[float]
    """Least action; actions are clipped."""

    high: Sequence[float]
    """Greatest action."""

    control: Any = None
    """A traced controller that finds the action in ``state.sensors["action"]``; by default the
    action is all commands of the robot."""

    observe: Callable[..., Any] | None = None
    """Returns the observation; q and v by default."""

    reward: Callable[..., Any] | None = None
    """Returns the reward of an interval; 0 by default."""

    terminated: Callable[..., Any] | None = None
    """Returns whether an episode has ended; never by default."""

    shapes: Mapping[str, int | Sequence[int]] = field(default_factory=dict)
    """Shapes of what `start` draws for these functions, such as a target."""

    max_steps: int | None = None
    """Control intervals after which an episode is truncated; None for no limit."""

    randomize: Mapping[str, tuple[Any, Any] | Draw] = field(default_factory=dict)
    """Run-time parameters that differ from episode to episode, by the names of
    `tiburon.parameters`: bounds of a uniform draw, or a function of a generator."""

    variants: int = 32
    """Sets of these parameters that are drawn once; each episode takes one of them at random,
    because converting names to the numbers of kernels takes milliseconds."""

    method: Integrator = field(default_factory=RK4)
    """Integrator with equal steps."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Further keywords of `simulate`: `world`, `fluid`, `contact`, ..."""

    def __post_init__(self) -> None:
        what = f"task {self.name!r}"
        if not isinstance(self.model, Model):
            raise ModelError(f"{what}: model must be a Model, got {shown(self.model)}")
        at_least(f"{what}: variants", self.variants, 1)
        if self.max_steps is not None:
            at_least(f"{what}: max_steps", self.max_steps, 1)
        low, high = (np.asarray(x, dtype=np.float64) for x in (self.low, self.high))
        if low.ndim != 1 or low.shape != high.shape or not low.size:
            raise ShapeError(f"{what}: low and high", "as many numbers each", f"{low} and {high}")
        if not (low < high).all() or not np.isfinite([low, high]).all():
            raise DomainError(f"{what}: low and high", "finite, low below high", f"{low}, {high}")

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Least and greatest action, shape (size,)."""
        low, high = (np.asarray(x, dtype=np.float64) for x in (self.low, self.high))
        return low, high

    @cached_property
    def first(self) -> dict[str, Any]:
        """Parameters of one set of the drawn ones."""
        return {name: values[0] for name, values in self._drawn.items()}

    @cached_property
    def _drawn(self) -> dict[str, Array]:
        # a part of the task, which does not depend on the seeds of episodes
        generator = np.random.default_rng(0)
        found = {}
        for name, how in self.randomize.items():
            rows = [
                how(generator) if callable(how) else generator.uniform(*how)
                for _ in range(self.variants)
            ]
            found[name] = np.asarray(rows, dtype=np.float64)
        return found

    @cached_property
    def stepper(self) -> Stepper:
        """The stepper of all environments of this task."""
        size = len(self.bounds[0])
        found = stepper(
            self.model,
            substeps=self.substeps,
            method=self.method,
            observe=self.observe,
            reward=self.reward,
            done=self.terminated,
            shapes=self.shapes,
            control=self.control,
            action=None if self.control is None else size,
            parameters=self.first or None,
            **self.options,
        )
        if found.size != size:
            expected = f"{found.size}, one per command"
            raise ShapeError(f"task {self.name!r}: low and high", expected, f"{size}")
        return found

    @cached_property
    def pool(self) -> StepperState | None:
        """Parameters of all drawn sets; None if nothing differs between episodes."""
        if not self.randomize:
            return None
        first = self.start(np.random.default_rng(0))
        # any start will do, as long as it is one
        q = None if "q" not in first else np.tile(first["q"], (self.variants, 1))
        return self.stepper.start(cases=self.variants, q=q, parameters=self._drawn)

    def draw(
        self, generators: Sequence[np.random.Generator]
    ) -> tuple[StepperState, dict[str, Any]]:
        """Return the starts of some episodes, one per generator, and what their functions take."""
        rows = [self.start(generator) for generator in generators]
        known = ("q", "v", *self.shapes)
        for name in rows[0]:
            if name not in known:
                raise OptionError(f"task {self.name!r}: names that start returns", known, name)
        for row in rows:
            if row.keys() != rows[0].keys():
                raise ShapeError(
                    f"task {self.name!r}: start",
                    f"the same names for every episode: {', '.join(rows[0]) or 'none'}",
                    ", ".join(row) or "nothing",
                )
        lacking = [name for name in self.shapes if name not in rows[0]]
        if lacking:
            given = ", ".join(rows[0]) or "nothing"
            raise ShapeError(f"task {self.name!r}: start", f"a value of {lacking[0]!r}", given)
        columns = {
            name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]
        }
        like = None
        if self.pool is not None:
            like = self.pool.rows([int(g.integers(self.variants)) for g in generators])
        state = self.stepper.start(
            cases=len(rows), q=columns.get("q"), v=columns.get("v"), parameters=like
        )
        return state, {name: columns[name] for name in self.shapes}


class Episodes:
    """Episodes of a task that run side by side.

    Attributes:
        task: The task.
        now: States, observations, rewards and ends of all cases.
        truncated: Cases that have reached the last interval.
    """

    def __init__(self, task: Task, count: int) -> None:
        self.task, self.count = task, count
        self._stepper = task.stepper
        # rows of all cases: NumPy broadcasts short rows at a quarter of the speed
        self._low, self._high = (np.tile(bound, (count, 1)) for bound in task.bounds)
        self._inputs: dict[str, Array] = {}
        self._spare: Stepped | None = None
        self._action = np.empty_like(self._low)
        self.now: Stepped | None = None
        self.truncated = np.zeros(count, dtype=bool)

    @property
    def terminated(self) -> Bools:
        """Cases that have ended: by the task, or because they diverged."""
        assert self.now is not None
        return self.now.done | self.now.failed

    def begin(self, generators: Sequence[np.random.Generator]) -> Array:
        """Start all cases; return observations."""
        state, inputs = self.task.draw(generators)
        self._inputs = {name: values.copy() for name, values in inputs.items()}
        nobody = np.zeros(self.count, dtype=bool)
        seen = self._stepper.observe(state, inputs=self._inputs)
        self.now = Stepped(state, seen, np.zeros(self.count), nobody, nobody.copy())
        self._spare = None
        self.truncated = nobody.copy()
        return seen

    def begin_some(
        self, which: NDArray[np.int64], generators: Sequence[np.random.Generator]
    ) -> None:
        """Start some cases at once, in the present results."""
        now = self.now
        assert now is not None
        state, inputs = self.task.draw(generators)
        for name, values in inputs.items():
            self._inputs[name][which] = values
        now.state.put(which, state)
        now.observation[which] = self._stepper.observe(state, inputs=inputs)
        now.done[which] = now.failed[which] = False

    def advance(
        self,
        action: Any,
        again: NDArray[np.int64] | None = None,
        generators: Sequence[np.random.Generator] = (),
    ) -> Stepped:
        """Take one control interval; some cases start again instead."""
        now = self.now
        assert now is not None
        given = np.asarray(action)
        if given.dtype.kind not in "fiub" or given.shape != self._action.shape:
            expected = f"real numbers, shape {self._action.shape}"
            raise ShapeError("action", expected, f"shape {given.shape} of type {given.dtype}")
        np.maximum(given, self._low, out=self._action)
        np.minimum(self._action, self._high, out=self._action)
        mask = fresh = None
        if again is not None and len(again):
            fresh, inputs = self.task.draw(generators)
            for name, values in inputs.items():
                self._inputs[name][again] = values
            mask = np.zeros(self.count, dtype=bool)
            mask[again] = True
        found = self._stepper.step(
            now.state, self._action, mask, fresh, inputs=self._inputs, out=self._spare
        )
        if found.failed.any() and not np.isfinite(self._action).all():
            case = int(np.argwhere(~np.isfinite(self._action))[0, 0])
            raise DomainError("action", "finite numbers", f"{self._action[case]} in case {case}")
        self.now, self._spare = found, now
        most = self.task.max_steps
        if most is not None:
            np.greater_equal(found.state.steps, most * self.task.substeps, out=self.truncated)
        return found
