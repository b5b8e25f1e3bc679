"""Methods that compute a closed chain in parts: what each part computes alone, sends and receives.

A method cuts a mechanism into parts (arms, legs, links) and a center (the load, the platform). It
is a list of rounds. In a round every part computes a message from its state (`Round.local`),
the center solves for one answer per part (`Round.solve`), and the next round begins with these
answers. After the last round every part recovers its own result (`PartMethod.recover`).

`run` executes the rounds inside one kernel. Other executions, one process per part for instance,
call the same functions; two rules make all of them agree in every bit:

- Sums over parts run in the order of the parts (`ordered_sum`), never in that of arrival.
- A part is a function of its own (`part_function`). Traced into one graph, two parts would share
  subexpressions and fused multiply-adds, and their last bits would depend on who is traced with
  whom.

Messages are nested tuples, lists and named tuples of scalars; `message_size` counts them.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from tiburon.algorithms.tape_calls import flat, unflat
from tiburon.loops.like_parts import LikeParts, like_parts
from tiburon.trace.regions import function, where_needed
from tiburon.trace.regions.lanes import lanes
from tiburon.trace.structure import flatten, rebuild
from tiburon.trace.value import Value


class Exchanged(Protocol):
    """How the messages of parts that other processes compute arrive in a kernel.

    The kernel is the same in all processes: which parts it computes is a run-time parameter.
    """

    def owns(self, part: int) -> Any:
        """Return 1 if this process computes a part, else 0; a traced value."""

    def pass_on(self, phase: str, messages: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the messages of all parts, of which this process knows those that it computes."""


class _Form:
    """How scalars belong together; the same object for the same form."""

    known: ClassVar[dict[Any, "_Form"]] = {}

    def __init__(self, form: Any) -> None:
        self.form = form


class Kept(NamedTuple):
    """Something that a part keeps between rounds, taken apart.

    Like parts have the same form: taken apart where a part computes it, only numbers that all of
    them share are constants.
    """

    form: _Form
    leaves: list[Any]

    @classmethod
    def of(cls, value: Any) -> "Kept":
        """Take a value apart."""
        leaves: list[Any] = []
        form = flat(value, leaves)
        return cls(_Form.known.setdefault(form, _Form(form)), leaves)

    @property
    def value(self) -> Any:
        """The value, put together again."""
        return unflat(self.form.form, iter(self.leaves))


class Round(NamedTuple):
    """One exchange: all parts compute and send, the center solves and answers."""

    name: str

    local: Callable[[Any, Any, Any], tuple[Any, Any]]
    """``local(part, state, answer)`` returns a message and the new state of the part. The
    answer is that of the round before, None in the first."""

    solve: Callable[[Any, Sequence[Any]], tuple[Sequence[Any], Any]]
    """``solve(center, messages)`` returns one answer per part and the new state of the center.
    Messages come in the order of the parts."""


class PartMethod(NamedTuple):
    """A method as rounds over parts."""

    name: str

    parts: tuple[Any, ...]
    """One object per part, with everything about it that is fixed; see `Round.local`."""

    rounds: tuple[Round, ...]

    recover: Callable[[Any, Any, Any], Any]
    """``recover(part, state, answer)`` returns the result of a part after the last round."""

    combine: Callable[[Any, Any, Any], tuple[Any, Any]] | None = None
    """``combine(a, b, joint)`` returns what two neighboring parts would send together, and what is
    needed to part them again, where messages can be combined pairwise; `solve` then does so."""


class Outcome(NamedTuple):
    """Result of all rounds."""

    results: tuple[Any, ...]
    """What each part recovered."""

    center: Any
    """State of the center after the last round."""

    states: tuple[Any, ...]
    """State of each part after the last round."""


def part_function(
    call: Callable[..., Any], *fixed: Any, name: str = "", inline: bool = False
) -> Callable[..., Any]:
    """Return a function of one part, traced as a function of its own.

    Args:
        call: Called as ``call(*fixed, *arguments)``.
        fixed: What is fixed when it is traced, such as the part.
        name: Name of the compiled function; that of `call` by default.
        inline: Whether its operations are copied into the kernel instead of called, with the same
            bits; for small methods, where calls would cost more than they compute.
    """

    def alone(*arguments: Any) -> Any:
        return call(*fixed, *arguments)

    alone.__name__ = name or getattr(call, "__name__", "part")
    return function(alone, inline=inline)


def run(
    method: PartMethod,
    center: Any,
    states: Sequence[Any],
    *,
    inline: bool = False,
    exchange: Exchanged | None = None,
) -> Outcome:
    """Execute all rounds of a method in one kernel.

    Args:
        method: The method.
        center: Initial state of the center.
        states: Initial state of each part.
        inline: See `part_function`; the same bits either way.
        exchange: How messages of parts that other processes compute arrive; all parts are computed
            here by default. Every process solves for the answers of the center, from the same
            messages in the same order. What parts know in the end is theirs alone.
    """
    known = list(states)
    answers: Sequence[Any] = [None] * len(method.parts)
    groups = like_parts(method.parts, [flatten(state)[1] for state in states])
    for step in method.rounds:
        name = f"{method.name}_{step.name}"
        found = _in_groups(groups, step.local, name, exchange, known, answers, inline=inline)
        messages = [message for message, _ in found]
        known = [state for _, state in found]
        messages = _passed_on(exchange, step.name, messages)
        solve = part_function(step.solve, name=name, inline=inline)
        answers, center = solve(center, messages)
    name = f"{method.name}_recover"
    results = _in_groups(groups, method.recover, name, exchange, known, answers, inline=inline)
    results = _passed_on(exchange, RESULTS, results)
    return Outcome(tuple(results), center, tuple(known))


def _in_groups(
    groups: Sequence[LikeParts],
    call: Callable[..., Any],
    name: str,
    exchange: Exchanged | None,
    states: Sequence[Any],
    answers: Sequence[Any],
    *,
    inline: bool,
) -> list[Any]:
    """Call a function of each part; like parts that this kernel computes in lanes."""
    found: dict[int, Any] = {}
    for group in groups:
        shared = part_function(group.of(call), name=f"{name}_{group.places[0]}", inline=inline)
        sets = [
            (own, states[k], answers[k]) for k, own in zip(group.places, group.numbers, strict=True)
        ]
        if exchange is None and len(sets) > 1:
            results = lanes(shared, sets)
        else:
            results = [
                _computed(exchange, k, shared, *given)
                for k, given in zip(group.places, sets, strict=True)
            ]
        found.update(zip(group.places, results, strict=True))
    return [found[k] for k in range(len(states))]


RESULTS = "results"
"""Name of the exchange in which all processes learn what every part recovered."""


def _computed(
    exchange: Exchanged | None, part: int, call: Callable[..., Any], *arguments: Any
) -> Any:
    """Call a function of a part, only if this process computes it; zeros otherwise."""
    if exchange is None:
        return call(*arguments)
    # this call is never executed: it gives the structure of the result
    leaves, structure = flatten(call(*arguments))
    traced = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Value)]

    def computed() -> list[Any]:
        found = flatten(call(*arguments))[0]
        return [found[k] for k in traced]

    found = where_needed(exchange.owns(part) > 0.5, computed, [0.0] * len(traced))
    for k, value in zip(traced, found, strict=True):
        leaves[k] = value
    return rebuild(structure, iter(leaves))


def _passed_on(exchange: Exchanged | None, phase: str, messages: list[Any]) -> list[Any]:
    """Return what all parts sent."""
    if exchange is None:
        return messages
    taken = [flatten(message) for message in messages]
    found = exchange.pass_on(phase, [leaves for leaves, _ in taken])
    return [
        rebuild(structure, iter(leaves))
        for leaves, (_, structure) in zip(found, taken, strict=True)
    ]


def ordered_sum(terms: Sequence[Sequence[Any]], start: Sequence[Any]) -> list[Any]:
    """Add vectors of equal length to `start`, one after the other, in the order given."""
    total = list(start)
    for term in terms:
        total = [a + b for a, b in zip(total, term, strict=True)]
    return total


def message_size(message: Any) -> int:
    """Return the number of scalars in a message."""
    return len(flatten(message)[0])


class Exchange(NamedTuple):
    """Scalars that are exchanged in one round, for each part."""

    name: str
    sent: tuple[int, ...]
    received: tuple[int, ...]


def exchanges(method: PartMethod, center: Any, states: Sequence[Any]) -> tuple[Exchange, ...]:
    """Execute the rounds of a method on floats, and count what is exchanged."""
    known, found = list(states), []
    answers: Sequence[Any] = [None] * len(method.parts)
    for step in method.rounds:
        messages = []
        for k, part in enumerate(method.parts):
            message, known[k] = step.local(part, known[k], answers[k])
            messages.append(message)
        answers, center = step.solve(center, messages)
        sizes = (tuple(message_size(x) for x in sides) for sides in (messages, answers))
        found.append(Exchange(step.name, *sizes))
    return tuple(found)
