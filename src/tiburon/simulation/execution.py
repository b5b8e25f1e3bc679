"""`Execution`: where a computation runs, for how long, and what it shows meanwhile."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tiburon.argument_checks import at_least, is_number
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.errors import DomainError, ModelError, OptionError, shown
from tiburon.record import field, record
from tiburon.simulation.progress import Progress


@public
@record(eq=False)
class Execution:
    """Where a computation runs, for how long, and what it shows; none of it changes a bit.

    For `simulate(execution=)`; steppers, sweeps, drives and identification take those fields that
    have a meaning for them.

    Example:
        A batch on two cores that ends after a minute::

            starts = [arm.neutral()] * 100
            run = tb.simulate(arm, 0.1, q=starts, execution=tb.Execution(threads=2, budget=60.0))
    """

    threads: int | None = field(default=None, kw_only=True)
    """Maximum number of native threads; those of all cores by default, of a worker its share."""

    partition: Any = field(default=None, kw_only=True)
    """The robot in parts, from `partition` of this package: one case, the motion of the undivided
    robot to round-off, and for given cuts the same bits on any number of processes."""

    exchange: Any = field(default=None, kw_only=True)
    """Where the parts are computed: `ThreadExchange()`, `MPIExchange()`; sequentially in this
    process by default."""

    budget: float | None = field(default=None, kw_only=True)
    """Wall-clock time after which the run stops, or after which a sweep begins no more blocks
    [s]."""

    progress: bool | Progress | None = field(default=None, kw_only=True)
    """True for a progress bar after the first second, False for none, or a function of simulated
    time and duration [s]; by default a bar in interactive terminals."""

    case_numbers: ArrayLike | None = field(default=None, kw_only=True)
    """Number of each case, which determines its sensor noise; 0, 1, 2, ... by default. A part of a
    batch thus has the same noise as in the whole."""

    def __post_init__(self) -> None:
        if self.threads is not None:
            object.__setattr__(self, "threads", at_least("Execution: threads", self.threads, 1))
        if self.budget is not None:
            budget = self.budget
            if not is_number(budget) or not 0.0 <= float(budget) < float("inf"):
                raise DomainError("Execution: budget", "a number of at least 0 [s]", shown(budget))
            object.__setattr__(self, "budget", float(budget))
        shows = self.progress
        if not (shows is None or isinstance(shows, bool) or callable(shows)):
            raise OptionError("Execution: progress", (True, False, "a function"), shows)
        if self.partition is None:
            if self.exchange is not None:
                raise OptionError(
                    "Execution: exchange", ("None without partition=",), shown(self.exchange)
                )
        elif self.case_numbers is not None:
            raise ModelError("Execution: a robot in parts is one case; leave case_numbers out")
        elif self.exchange is not None and self.budget is not None:
            raise ModelError(
                "Execution: processes of an exchange would stop at different times; leave budget "
                "out"
            )


def checked_execution(given: Any, honored: Sequence[str] = (), where: str = "") -> Execution:
    """Return how a computation is carried out; the default for None.

    Args:
        given: What the caller passed.
        honored: Fields that have a meaning; all if there are none.
        where: What is computed, for the message.

    Raises:
        DomainError: If it is no `Execution`.
        ModelError: If it sets a field without a meaning.
    """
    if given is None:
        return Execution()
    if not isinstance(given, Execution):
        raise DomainError(
            "execution",
            "an Execution",
            shown(given),
            advice=f"write execution=tb.Execution({(honored or ('threads',))[0]}=...)",
        )
    for item in fields(given) if honored else ():
        if item.name not in honored and getattr(given, item.name) is not None:
            listed = " and ".join(honored)
            raise ModelError(f"execution: {where} takes {listed}; leave {item.name} out")
    return given
