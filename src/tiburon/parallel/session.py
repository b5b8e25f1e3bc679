"""A robot in parts during one run: which parts this process computes, and what it exchanges.

The kernel of a step is the same in every process, for every number of processes: which parts it
computes is a run-time parameter, and messages of all other parts come from a function outside of
the kernel (`tiburon.trace.primitives.outside`). All processes integrate the whole state with the
same bits, so that they take the same decisions: length of steps, events, divergence.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import PartnerError
from tiburon.loops.parts import RESULTS
from tiburon.loops.stabilization import Baumgarte, Penalty
from tiburon.parallel.cut import cut_motion, message_numbers
from tiburon.parallel.partition import Partition
from tiburon.record import record
from tiburon.trace.primitives.outside import pass_outside
from tiburon.trace.primitives.primitive import OutsideFunction

__all__ = ["Endpoint", "MessageCount", "Phase", "Session"]

Array = NDArray[np.float64]

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
        self, partition: Partition, loop_method: Any = None, endpoint: Endpoint | None = None
    ) -> None:
        """Prepare a run.

        Args:
            partition: The parts.
            loop_method: How loops are held.
            endpoint: This process; None to compute all parts here.
        """
        self.partition, self.endpoint, self.loop_method = partition, endpoint, loop_method
        self.lost = ""
        size = 1 if endpoint is None else endpoint.size
        self.rank = 0 if endpoint is None else endpoint.rank
        self.owners = partition.owners(size)
        self.solves_loops = bool(partition.model.loops) and not isinstance(loop_method, Penalty)
        self.layout = partition.layout(loops=self.solves_loops)
        self.phases = self._phases()
        self._counts = [0] * len(self.phases)
        self._commands = (0, 0)
        self._outside = None if endpoint is None else OutsideFunction(self._exchange)
        mine = [float(owner == self.rank) for owner in self.owners]
        handle = 0.0 if self._outside is None else self._outside.handle
        self.numbers: tuple[float, ...] = (handle, *mine)

    def _phases(self) -> tuple[Phase, ...]:
        parts = self.layout.parts
        return (
            Phase("handles", tuple(message_numbers(part) for part in parts)),
            Phase(RESULTS, tuple(len(part.v) for part in parts)),
        )

    @property
    def key(self) -> Hashable:
        """What code depends on."""
        return ("cut", self.partition.cuts, self.solves_loops)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and calls controllers."""
        return self.rank == 0

    # -- inside of kernels ------------------------------------------------------------------------

    def accelerations(
        self, system: Any, here: Any, q: Any, v: Any, x: Any, force: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return joint accelerations and constraint forces; arguments as in `System`."""
        exchange = _InKernel(self, system.partition_numbers())
        terms, forces = None, force
        pushes: Sequence[Any] = ()
        if self.partition.model.loops:
            terms = system._constraints(here, q, v, x)
            if isinstance(self.loop_method, Penalty):
                pushes = self.loop_method.forces(terms)
                held = list(force)
                for row, push in zip(terms.jacobian, pushes, strict=True):
                    for i, entry in row.items():
                        held[i] = held[i] + entry * push
                forces, terms = held, None
            elif isinstance(self.loop_method, Baumgarte):
                terms = self.loop_method.corrected(terms)
        vd, multipliers, _ = cut_motion(
            self.layout,
            system.model,
            here,
            (q, v, forces),
            terms,
            system._min_cut,
            exchange,
        )
        return vd, pushes or multipliers

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
            for part, owner, size in zip(
                self.partition.names, self.owners, phase.sizes, strict=True
            ):
                others = tuple(k for k in everyone if k != owner)
                found.append(MessageCount(phase.name, part, owner, others, size, times))
        times, size = self._commands
        if times:
            found.append(MessageCount(COMMANDS, "control", 0, tuple(everyone)[1:], size, times))
        return tuple(found)


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
