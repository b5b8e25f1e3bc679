"""A robot in parts during one run: which parts this process computes, and what it exchanges.

The kernel of a step is the same in every process, for every number of processes: which parts it
computes is a run-time parameter, and messages of all other parts come from a function outside of
the kernel (`tiburon.trace.primitives.outside`). All processes integrate the whole state with the
same bits, so that they take the same decisions: length of steps, events, divergence.
"""

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD, surroundings
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.arrays import Array
from tiburon.errors import PartnerError
from tiburon.functions.assembly import resting_position
from tiburon.loops.denoc import forward_method, forward_states, leg_parts
from tiburon.loops.loop_method import LoopMethod
from tiburon.loops.parts import RESULTS, exchanges, ordered_sum
from tiburon.loops.stabilization import PROJECTION
from tiburon.loops.star import arm_numbers, layout
from tiburon.loops.star_dynamics import exchanged_motion, star_motion
from tiburon.parallel.branches import BRANCH_NUMBERS, branch_motion
from tiburon.parallel.cut import cut_motion, message_numbers
from tiburon.parallel.partition import Partition, contiguous
from tiburon.record import record
from tiburon.simulation.layout import PARTITION
from tiburon.trace.primitives.outside import pass_outside
from tiburon.trace.primitives.primitive import OutsideFunction
from tiburon.trace.regions import function, where_needed

COMMANDS = "commands"
"""Name of the exchange in which the first process sends the commands of a Python controller."""


class Phase(NamedTuple):
    """One exchange of a run."""

    name: str
    sizes: tuple[int, ...]
    """Numbers that each part sends."""


class Endpoint(Protocol):
    """One of the processes, or threads, that compute a robot in parts."""

    rank: int
    size: int

    @property
    def words(self) -> str:
        """What its partners are called: "rank", "thread"."""

    @property
    def compiling(self) -> AbstractContextManager[Any]:
        """Held while a kernel is made, which partners in the same process then find."""

    def gather(self, values: Array, counts: Sequence[int]) -> None:
        """Fill in the shares of all processes, in place; own ones are given.

        Raises:
            PartnerError: If a partner did not answer in time.
        """

    def agree(self, text: str) -> list[str]:
        """Return the texts of all processes."""


@record
class MessageCount:
    """Messages of one kind that a part sent in a run."""

    phase: str
    """What was sent: "handles", "results", "state", "commands"."""

    part: str
    """Name of the part that sent it; "control" for commands."""

    sender: int
    """Process that computes the part."""

    receivers: tuple[int, ...]
    """Processes that received it."""

    numbers: int
    """Numbers in each message."""

    times: int
    """How many there were."""


class Session:
    """Parts of a robot in one process during a run; what `System` calls for accelerations.

    Attributes:
        partition: The parts.
        endpoint: This process among its partners; None if it computes all parts by itself.
        lost: Why partners were given up; empty as long as all answer.
    """

    def __init__(
        self, partition: Partition, loops: LoopMethod = PROJECTION, endpoint: Endpoint | None = None
    ) -> None:
        """Prepare a run.

        Args:
            partition: The parts.
            loops: How loops are held.
            endpoint: This process; None to compute all parts here.
        """
        self.partition, self.endpoint, self.loops = partition, endpoint, loops
        self.lost = ""
        self.rank = 0 if endpoint is None else endpoint.rank
        self.solves_loops = bool(partition.model.loops) and not loops.has_springs
        self.layout = partition.layout(loops=self.solves_loops)
        self._commands = (0, 0)
        self._outside = None if endpoint is None else OutsideFunction(self._exchange)
        self._share_out()

    def _share_out(self) -> None:
        """Give each process its parts."""
        self.owners = self._owners(1 if self.endpoint is None else self.endpoint.size)
        self.phases = self._phases()
        self._counts = [0] * len(self.phases)
        mine = [float(owner == self.rank) for owner in self.owners]
        handle = 0.0 if self._outside is None else self._outside.handle
        self.numbers: tuple[float, ...] = (handle, *mine)

    computes = True
    """Whether parts compute accelerations, with exchanges in every evaluation."""

    holds_remote = False
    """Whether states of other parts are held constant during a step."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts that exchange messages."""
        return self.partition.names

    def _owners(self, size: int) -> tuple[int, ...]:
        return self.partition.owners(size)

    def _phases(self) -> tuple[Phase, ...]:
        parts = self.layout.parts
        return (
            Phase("handles", tuple(message_numbers(part) for part in parts)),
            Phase(RESULTS, tuple(len(part.v) for part in parts)),
        )

    @property
    def key(self) -> Hashable:
        """What code depends on."""
        return ("cut", self.partition.cuts, self.solves_loops, self.has_partners)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and calls controllers."""
        return self.rank == 0

    @property
    def has_partners(self) -> bool:
        """Whether other processes take the same steps."""
        return self.endpoint is not None

    @property
    def compiling(self) -> AbstractContextManager[Any]:
        """Held while the kernel of a step is made: it is the same for all partners."""
        return nullcontext() if self.endpoint is None else self.endpoint.compiling

    # -- inside of kernels ------------------------------------------------------------------------

    def accelerations(
        self, system: Any, here: Any, q: Any, v: Any, x: Any, force: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return joint accelerations and constraint forces; arguments as in `System`."""
        terms, forces = None, force
        pushes: Sequence[Any] = ()
        if self.partition.model.loops:
            terms = system.held_loops.constraints(here, q, v, x)
            forces, pushes = self.loops.joint_forces(terms, force)
            terms = self.loops.corrected(terms) if self.solves_loops else None
        exchange, min_cut = self._in_kernel(system), system.held_loops.min_cut

        def parts(*state: Any) -> tuple[Any, Any]:
            found = cut_motion(self.layout, system.model, here, state, terms, min_cut, exchange)
            return found[0], found[1]

        vd, multipliers = self._sealed(parts, q, v, forces)
        return vd, pushes or multipliers

    def _in_kernel(self, system: Any) -> "_InKernel | None":
        """Return the exchanges of a kernel; None where one process computes all parts."""
        return _InKernel(self, system.run_time(PARTITION)) if self.has_partners else None

    def _sealed(self, motion: Any, *state: Any) -> tuple[Any, Any]:
        """Return what a motion in parts computes.

        One process computes like parts in lanes, several call their own, and exchange: two kernels.
        What surrounds the motion has the same bits in both, since it is a sealed function.
        """
        found: tuple[Any, Any] = function(motion, seal=True)(*(list(x) for x in state))
        return found

    def prepare(self, system: Any) -> None:
        """Learn about the system of the run; nothing here."""

    def after_step(self, system: Any, q: Any, w: Any) -> tuple[Any, Any]:
        """Return the state after the exchange at the end of a step; there is none here."""
        return q, w

    # -- outside of kernels -----------------------------------------------------------------------

    def _exchange(self, number: int, values: Array) -> None:
        if self.lost:
            values[:] = np.nan
            return
        assert self.endpoint is not None
        try:
            self._counts[number] += 1
            self.endpoint.gather(values, self._shares(self.phases[number].sizes))
        except PartnerError as error:
            self.lost = str(error)
            values[:] = np.nan
        except BaseException as error:
            # nothing may leave a function that machine code calls
            self.lost = f"{type(error).__name__}: {error}"
            values[:] = np.nan

    def _shares(self, sizes: Sequence[int]) -> list[int]:
        """Return how many numbers each process sends."""
        assert self.endpoint is not None
        shares = [0] * self.endpoint.size
        for owner, size in zip(self.owners, sizes, strict=True):
            shares[owner] += size
        return shares

    def share_commands(self, row: Array) -> None:
        """Replace commands by those of the first process, in place."""
        if self.endpoint is None:
            return
        values = row.copy()
        counts = [0] * self.endpoint.size
        counts[0] = len(values)
        if not self.is_first:
            values[:] = 0.0
        try:
            if not self.lost:
                self.endpoint.gather(values, counts)
        except PartnerError as error:
            self.lost = str(error)
            return
        row[:] = values
        self._commands = (self._commands[0] + 1, len(values))

    def agree(self, text: str) -> None:
        """Check that all processes start the same run.

        Raises:
            PartnerError: If one of them does not.
        """
        if self.endpoint is None:
            return
        found = self.endpoint.agree(text)
        odd = [k for k, one in enumerate(found) if one != found[0]]
        if odd:
            raise PartnerError(
                f"{self.endpoint.words} {odd[0]}: starts another run than {self.endpoint.words} 0 "
                "(robot, cuts, start, options or version of the package differ); run the same "
                "script with the same package everywhere"
            )

    @property
    def messages(self) -> tuple[MessageCount, ...]:
        """What was sent, in the order of phases and parts."""
        if self.endpoint is None:
            return ()
        found = []
        everyone = range(self.endpoint.size)
        for phase, times in zip(self.phases, self._counts, strict=True):
            for part, owner, size in zip(self.names, self.owners, phase.sizes, strict=True):
                others = tuple(k for k in everyone if k != owner)
                found.append(MessageCount(phase.name, part, owner, others, size, times))
        times, size = self._commands
        if times:
            found.append(MessageCount(COMMANDS, "control", 0, tuple(everyone)[1:], size, times))
        return tuple(found)


class LegSession(Session):
    """Legs of a platform by `DeNOC`: four rounds in every evaluation (Khan 2002, section 3.4)."""

    @property
    def _structure(self) -> Any:
        return self.loops.legs(self.partition.model)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the legs."""
        return tuple(leg.name for leg in self._structure.legs)

    def _owners(self, size: int) -> tuple[int, ...]:
        return contiguous([1.0] * len(self.names), min(size, len(self.names)))

    def _phases(self) -> tuple[Phase, ...]:
        model, legs = self.partition.model, self._structure
        with taping(None):
            q, rest = resting_position(model).tolist(), [0.0] * model.nv
            around = Setting(model, (), (), *surroundings(model, DEFAULT_WORLD))
            here = around.at(JointVector(q), JointVector(rest))
            parts = leg_parts(here, legs)
            states = forward_states(here, legs, parts, q, rest, rest)
            found = exchanges(forward_method(legs, parts), *states)
        own = tuple(len(leg.variables) for leg in legs.legs)
        return (*(Phase(one.name, one.sent) for one in found), Phase(RESULTS, own))

    @property
    def key(self) -> Hashable:
        """What code depends on."""
        return ("legs", self.has_partners)

    def accelerations(
        self, system: Any, here: Any, q: Any, v: Any, x: Any, force: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return joint accelerations and constraint forces; arguments as in `System`."""
        # legs are functions of their own in every kernel: alone they need nothing else
        numbers = system.run_time(PARTITION)
        exchange = _InKernel(self, numbers) if self.has_partners else None
        return self.loops.motion_of_legs(system.held_loops, here, q, v, x, force, exchange)


class ArmSession(Session):
    """Arms of a star: one round in every evaluation (McMillan 1994, chapter 2).

    Each arm sends its inertia and force at the reference member, whose acceleration every process
    computes: the method that the undivided robot has. Loops that open and close change the arms;
    such robots are computed as cut anywhere.
    """

    cuts_instead = False
    """Whether the robot is computed as cut anywhere."""

    @property
    def _arms(self) -> Any:
        return layout(self.partition.model).arms

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts that send."""
        return super().names if self.cuts_instead else tuple(arm.name for arm in self._arms)

    def _owners(self, size: int) -> tuple[int, ...]:
        if self.cuts_instead:
            return super()._owners(size)
        return contiguous([float(len(arm.own)) for arm in self._arms], min(size, len(self._arms)))

    def _phases(self) -> tuple[Phase, ...]:
        if self.cuts_instead:
            return super()._phases()
        arms = self._arms
        results = tuple(len(arm.own) + len(arm.rows) for arm in arms)
        return Phase("open", tuple(map(arm_numbers, arms))), Phase(RESULTS, results)

    @property
    def key(self) -> Hashable:
        """What code depends on."""
        return super().key if self.cuts_instead else ("arms", self.has_partners)

    def prepare(self, system: Any) -> None:
        """Learn whether loops open and close."""
        if system.held_loops.switch_places:
            self.cuts_instead = True
            self._share_out()

    def accelerations(
        self, system: Any, here: Any, q: Any, v: Any, x: Any, force: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return joint accelerations and constraint forces; arguments as in `System`."""
        if self.cuts_instead:
            return super().accelerations(system, here, q, v, x, force)
        how: Any = {"min_cut": system.held_loops.min_cut, "baumgarte": self.loops}
        exchange = self._in_kernel(system)

        def arms(*state: Any) -> tuple[Any, Any]:
            def alone() -> tuple[Any, Any]:
                found = star_motion(here, *state, **how)
                return list(found.vd), list(found.multipliers)

            if exchange is None:
                return alone()
            *known, is_singular = exchanged_motion(here, state, exchange, **how)
            # what arms keep to themselves is needed: every process computes all of them
            found: tuple[Any, Any] = where_needed(is_singular > 0.5, alone, tuple(known))
            return found

        return self._sealed(arms, q, v, force)


class BranchSession(Session):
    """Legs on a trunk: one round in every evaluation, by the articulated-body recursion."""

    @property
    def _layout(self) -> Any:
        found = self.partition.branches
        assert found is not None
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts that send."""
        return tuple(branch.name for branch in self._layout.branches)

    def _owners(self, size: int) -> tuple[int, ...]:
        costs = [float(len(branch.bodies)) for branch in self._layout.branches]
        return contiguous(costs, min(size, len(costs)))

    def _phases(self) -> tuple[Phase, ...]:
        branches = self._layout.branches
        results = tuple(len(branch.v) for branch in branches)
        return Phase("carried", (BRANCH_NUMBERS,) * len(branches)), Phase(RESULTS, results)

    @property
    def key(self) -> Hashable:
        """What code depends on."""
        return ("branches", self.has_partners)

    def accelerations(
        self, system: Any, here: Any, q: Any, v: Any, x: Any, force: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return joint accelerations; arguments as in `System`."""
        exchange = self._in_kernel(system)

        def branches(*state: Any) -> tuple[Any, Any]:
            return branch_motion(self._layout, here, state, exchange), []

        return self._sealed(branches, q, v, force)


STATE = "state"
"""Name of the exchange of states at the end of a step."""


class StepSession(Session):
    """Parts that send their states once a step (Khan 2002, methods I and II).

    Within a step each process evaluates the whole robot by itself, or holds the states of other
    parts as they were at its start (`holds_remote`; ambiguity D1 of the source): first order.
    """

    computes = False

    def __init__(
        self, partition: Partition, loops: LoopMethod, endpoint: Any = None, held: bool = False
    ) -> None:
        """Prepare a run; `held` to hold the states of other parts during a step."""
        self.holds_remote = held
        super().__init__(partition, loops, endpoint)

    @property
    def key(self) -> Hashable:
        """What code depends on."""
        return ("step", self.partition.cuts, self.holds_remote, self.has_partners)

    def _phases(self) -> tuple[Phase, ...]:
        parts = self.partition.layout(loops=False).parts
        return (Phase(STATE, tuple(len(part.q) + len(part.v) for part in parts)),)

    def prepare(self, system: Any) -> None:
        """Learn how many independent velocities an embedded run has."""
        if self.loops.is_guided:
            parts, free = self.layout.parts, system.held_loops.coordinates.rows
            self.phases = (Phase(STATE, tuple(len(part.q) + free for part in parts)),)

    def after_step(self, system: Any, q: Any, w: Any) -> tuple[Any, Any]:
        """Return the states that all parts sent."""
        if self.holds_remote or not (self.has_partners or self.loops.is_guided):
            # they were exchanged when they were computed, or there is nobody to send them to
            return q, w
        parts, nv = self.layout.parts, system.model.nv
        if not self.loops.is_guided:
            sent = [[q[i] for i in part.q] + [w[i] for i in part.v] for part in parts]
            return self._received(system, q, w, sent)
        W = system.held_loops.coordinate_rows(w[nv:])
        sent = []
        for part in parts:
            share = [sum((row[i] * w[i] for i in part.v), start=0.0) for row in W]
            sent.append([q[i] for i in part.q] + share)
        found = _InKernel(self, system.run_time(PARTITION)).pass_on(STATE, sent)
        q, selected = list(q), [0.0] * nv
        for part, values in zip(parts, found, strict=True):
            for i, x in zip(part.q, values, strict=False):
                q[i] = x
        z = ordered_sum(
            [values[len(part.q) :] for part, values in zip(parts, found, strict=True)],
            [0.0] * len(W),
        )
        for rate, row in zip(z, W, strict=True):
            selected = [x + rate * y for x, y in zip(selected, row, strict=True)]
        v = system.held_loops.guided_state(tuple(q), (*selected, *w[nv:])).v
        return tuple(q), (*v, *w[nv:])

    def _received(self, system: Any, q: Any, w: Any, sent: Any) -> tuple[Any, Any]:
        found = _InKernel(self, system.run_time(PARTITION)).pass_on(STATE, sent)
        q, w = list(q), list(w)
        for part, values in zip(self.layout.parts, found, strict=True):
            left = iter(values)
            for i in part.q:
                q[i] = next(left)
            for i in part.v:
                w[i] = next(left)
        return tuple(q), tuple(w)

    def held_advance(
        self, system: Any, method: Any, manifold: Any, rates: Any, start: Any, h: Any, time: Any
    ) -> tuple[Any, Any]:
        """Return the state after a step of h [s] in which each part holds those of the others.

        Args:
            system: The robot.
            method: The integrator.
            manifold: Positions of the robot.
            rates: Returns the rates of a state at a time.
            start: Position, velocity and memory at the start of the step.
            h: Length of the step [s].
            time: Time at its start [s].
        """
        q, w, memory = start
        exchange = _InKernel(self, system.run_time(PARTITION))
        sent = []
        for k, part in enumerate(self.layout.parts):
            own_q, own_v = set(part.q), set(part.v)

            def moving(q_now: Any, w_now: Any, *when: Any, own: Any = (own_q, own_v)) -> Any:
                mixed_q = tuple(x if i in own[0] else q[i] for i, x in enumerate(q_now))
                mixed_w = tuple(x if i in own[1] else w[i] for i, x in enumerate(w_now))
                return rates(mixed_q, mixed_w, *when)

            def stepped(part: Any = part, moving: Any = moving) -> list[Any]:
                q1, w1, _ = method.advance(manifold, moving, q, w, memory, h, time)
                return [q1[i] for i in part.q] + [w1[i] for i in part.v]

            nothing = [0.0] * (len(part.q) + len(part.v))
            sent.append(where_needed(exchange.owns(k) > 0.5, stepped, nothing))
        return self._received(system, q, w, sent)


class _InKernel:
    """The exchanges of a session while a kernel is traced: `tiburon.loops.parts.Exchanged`."""

    def __init__(self, session: Session, numbers: Sequence[Any]) -> None:
        self._phases = session.phases
        self._handle, *self._owned = numbers

    def owns(self, part: int) -> Any:
        """Return 1 if this process computes a part."""
        return self._owned[part]

    def pass_on(self, phase: str, messages: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the messages of all parts."""
        number = next(k for k, known in enumerate(self._phases) if known.name == phase)
        sizes = tuple(len(message) for message in messages)
        assert sizes == self._phases[number].sizes, (phase, sizes, self._phases[number].sizes)
        flat = pass_outside(self._handle, number, [x for message in messages for x in message])
        left = iter(flat)
        return [[next(left) for _ in message] for message in messages]
