"""Kernels that take many steps of equal length without returning to Python.

One kernel serves any number of steps and any recording rate: how many steps to take before each
recorded state is an argument. The dynamics is a function inside it, called at every stage.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tiburon.algorithms.conditions import Setting
from tiburon.algorithms.forward import method_of_runs
from tiburon.algorithms.surroundings import structure_around, surroundings
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.functions.kernel_source import parameter_values, trace_with_parameters
from tiburon.functions.library import GRAVITY, INERTIA, TIME, depends_on_time
from tiburon.loops.methods import constrained_motion
from tiburon.loops.projection import OPEN, close_position, close_velocity
from tiburon.model import Model, World
from tiburon.record import record
from tiburon.simulation.integrators.manifold import Manifold, Scalars
from tiburon.simulation.integrators.rk4 import rk4_step
from tiburon.simulation.step_source import LEFT_OPEN
from tiburon.spatial import Scalar
from tiburon.trace.declared import Identical, structure_text
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import function, while_loop
from tiburon.trace.value import require

__all__ = ["FixedStepSource", "fixed_step_kernel", "take_steps"]

Step = Callable[..., tuple[Scalars, Scalars]]

METHODS: dict[str, Step] = {"rk4": rk4_step}
"""Steps by name of the method: called as ``step(manifold, acceleration, q, v, dt, time)``."""

MOST_STEPS = 2**53
"""Steps are counted in floats, exactly up to here."""


def take_steps(
    model: Model,
    step: Step,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    dt: Scalar,
    counts: Sequence[Scalar],
    start: tuple[Scalar, Scalar] | None = None,
) -> tuple[list[Scalars], list[Scalars]]:
    """Take steps and keep some of the states on the way; on floats or traced values.

    Args:
        model: The robot.
        step: The method.
        q: Position at the start [m or rad], nq scalars.
        v: Joint velocity at the start [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        dt: Length of a step [s].
        counts: How many steps to take before each state that is kept.
        start: Time at the start of the run [s], and steps taken since then; None where nothing
            depends on time. Times come from the number of steps: sums of dt would drift, and depend
            on how a run is cut into calls.

    Returns:
        Positions and velocities, one entry for each count.
    """
    manifold = Manifold(model)
    around = Setting(model, (), (), *surroundings(model, None))
    solve = method_of_runs(model, around.plan)

    @function
    def acceleration(q: Scalars, v: Scalars, *time: Scalar) -> Scalars:
        # visits recorded as steps take what belongs to their body from joint vectors only
        position, rate = JointVector(q), JointVector(v)
        here = around.at(position, rate, *time)
        force = JointVector(tau)
        if model.loops:
            return constrained_motion(here, position, rate, force).vd
        return solve(here.plan, position, rate, force, here.gravity, here.external)

    @function
    def settled(q: Scalars, v: Scalars, *time: Scalar) -> tuple[Scalars, Scalars]:
        plan = around.at(JointVector(q), JointVector(v), *time).plan
        closed = close_position(model, plan, q, least_steps=1)
        v = close_velocity(model, plan, closed.q, v)
        return tuple(require(closed.gap <= OPEN, x, LEFT_OPEN) for x in closed.q), v

    @function
    def advance(q: Scalars, v: Scalars, count: Scalar, *start: Scalar) -> tuple[Scalars, Scalars]:
        def next_state(state: Any) -> Any:
            done, q, v = state
            now = () if not start else (start[0] + (start[1] + done) * dt,)
            state = step(manifold, acceleration, q, v, dt, *now)
            if model.loops:
                state = settled(*state, *(time + dt for time in now))
            return (done + 1.0, *state)

        begin = (0.0, q, v)
        _, q, v = while_loop(lambda s: s[0] < count, next_state, begin, MOST_STEPS).state
        return q, v

    positions, velocities = [], []
    state = tuple(q), tuple(v)
    for count in counts:
        state = advance(*state, count, *(start or ()))
        positions.append(state[0])
        velocities.append(state[1])
        if start is not None:
            start = (start[0], start[1] + count)
    return positions, velocities


@record(slots=False)
class FixedStepSource:
    """Where a kernel of equal steps comes from.

    The kernel is called as ``kernel(q, v, tau, dt, counts)`` and gives positions, shape (slots,
    nq), and velocities, shape (slots, nv): the state after counts[0] steps, after counts[1] more,
    and so on. Where time moves joints or water, it also takes the number of steps done before, and
    the parameter `time` is the time at the start of the run.
    """

    model: Model
    world: World
    method: str
    slots: int
    """How many states one call gives."""

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.method}_steps"

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is."""
        around = structure_around(self.model, self.world)
        text = structure_text(("fixed step 1", self.method, self.slots, around))
        digest = hashlib.blake2b(text.encode(), digest_size=16)
        digest.update(self.model.structure_key())
        return digest.hexdigest()

    def retrace(self) -> None:
        """Trace user code as it is now."""
        self.model.check_unchanged()
        self.world.traced_key()

    def parameters(self) -> dict[str, Any]:
        """Return the numbers of model and world that the kernel is bound to."""
        return parameter_values(self.model, self.world, (INERTIA, GRAVITY))

    def inputs(self) -> list[Input]:
        """Return what callers pass."""
        model = self.model
        return [
            Input("q", (model.nq,), described=model.describe_q()),
            Input("v", (model.nv,), described=model.describe_v()),
            Input("tau", (model.nv,), described=model.describe_v()),
            Input("dt", ()),
            Input("counts", (self.slots,)),
            *([Input("done", ())] if depends_on_time(model, self.world) else []),
        ]

    def program(self) -> Program:
        """Trace the steps."""

        def run(given: Any) -> Any:
            q, v, tau = (scalars(given[name]) for name in ("q", "v", "tau"))
            step = METHODS[self.method]
            counts = scalars(given["counts"])
            start = (given[TIME], given["done"]) if TIME in given else None
            found = take_steps(self.model, step, q, v, tau, given["dt"], counts, start)
            return {"q": found[0], "v": found[1]}

        return trace_with_parameters(
            run, self.inputs(), self.model, self.world, self.parameters(), self.name
        )


def fixed_step_kernel(model: Model, world: World, method: str, slots: int) -> Callable[..., Any]:
    """Return the kernel of a method, compiling it if nobody has."""
    model.check_unchanged()
    told = world.traced_key()
    return _known_kernel(model, Identical(world) if told else world, told, method, slots)


@lru_cache(maxsize=64)
def _known_kernel(model: Model, key: Any, told: Any, method: str, slots: int) -> Callable[..., Any]:
    from tiburon.native.kernel import make_kernel

    world = key.thing if isinstance(key, Identical) else key
    source = FixedStepSource(model, world, method, slots)
    return make_kernel(source, source.parameters())
