"""Objects of a run that do not go together, in one table: which, why, and what to write instead."""

from collections.abc import Callable
from typing import NamedTuple

from tiburon.errors import DomainError
from tiburon.simulation.integrators.integrator import Integrator
from tiburon.simulation.integrators.methods import METHODS


class Pairing(NamedTuple):
    """A part of a run with which some integrators cannot run."""

    fits: Callable[[Integrator], bool]
    """Whether an integrator can."""

    expected: str
    """What the part needs of an integrator, in words."""

    write: str
    """An object that works."""


def _is_explicit(method: Integrator) -> bool:
    return not METHODS[method.scheme].is_implicit


def _is_one_step(method: Integrator) -> bool:
    return not (METHODS[method.scheme].has_memory or METHODS[method.scheme].keeps_inertia)


def _keeps_nothing(method: Integrator) -> bool:
    return not METHODS[method.scheme].keeps_inertia


PAIRINGS = {
    "rigid contact": Pairing(
        lambda method: not method.is_adaptive and _is_one_step(method),
        "equal steps of a one-step method",
        "tb.RK4(dt=1e-3)",
    ),
    "exact contact": Pairing(
        lambda method: method.is_adaptive and _is_explicit(method),
        "adaptive steps of an explicit method",
        "tb.Dop853(rtol=1e-12, atol=1e-13)",
    ),
    "loops": Pairing(
        lambda method: _is_explicit(method) and _keeps_nothing(method),
        "an explicit method that renews the mass matrix",
        "tb.RK4(dt=1e-3)",
    ),
    "prescribed joints": Pairing(
        _keeps_nothing,
        "one that renews the mass matrix at every stage",
        "tb.RK4(dt=1e-3)",
    ),
    "prescribed joints and loops": Pairing(
        lambda method: _is_explicit(method) and _keeps_nothing(method),
        "an explicit method that renews the mass matrix",
        "tb.RK4(dt=1e-3)",
    ),
    "a partition": Pairing(
        # messages are those of one evaluation of the dynamics itself
        lambda method: (
            _is_explicit(method) and _keeps_nothing(method) and METHODS[method.scheme].points == 1
        ),
        "an explicit method, one stage after the other",
        "tb.RK4(dt=1e-3)",
    ),
    "a stepper": Pairing(
        lambda method: not method.is_adaptive,
        "equal steps",
        "tb.RK4(dt=1e-3)",
    ),
    "ticks": Pairing(
        lambda method: not (METHODS[method.scheme].adaptive or METHODS[method.scheme].has_memory),
        "equal steps of a one-step method",
        "tb.RK4(dt=1e-3)",
    ),
    "identification": Pairing(
        lambda method: not method.is_adaptive and _is_one_step(method) and _is_explicit(method),
        "equal steps of an explicit one-step method",
        "tb.RK4(dt=0.02)",
    ),
}
"""Parts of runs that not every integrator goes with."""


def refuse_method(method: Integrator, part: str) -> None:
    """Refuse an integrator that a part of a run does not go with.

    Args:
        method: The integrator.
        part: Key of `PAIRINGS`.

    Raises:
        DomainError: If they do not go together; the message has the object to write.
    """
    fits, expected, write = PAIRINGS[part]
    if not fits(method):
        advice = f"write method={write}"
        raise DomainError(f"method with {part}", expected, repr(method), advice=advice)
