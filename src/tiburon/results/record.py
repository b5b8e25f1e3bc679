"""`Record`: which rows a run records, and where to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiburon.argument_checks import at_least, positive
from tiburon.arguments import public
from tiburon.errors import DomainError, shown
from tiburon.record import field, record


@public
@record
class Record:
    """Which rows a run records, and where to; for `simulate(record=)`.

    Example:
        Every tenth step with its energies, to disk::

            saved = tb.Record(every=10, quantities=["energy"], store="run.zarr")
            run = tb.simulate(arm, 5.0, record=saved)
    """

    every: int | None = field(default=None, kw_only=True)
    """Steps between two rows."""

    dt: float | None = field(default=None, kw_only=True)
    """Time between two rows [s], an integer multiple of the step; 0.01 without `every`."""

    quantities: Sequence[str] = field(default=(), kw_only=True)
    """Names of quantities to add to `Trajectory.data`, besides states and commands."""

    store: str | Path | None = field(default=None, kw_only=True)
    """Path of a Zarr directory to which rows are written during the run, for runs larger than
    memory; None to keep them in memory."""

    def __post_init__(self) -> None:
        if self.every is not None:
            if self.dt is not None:
                raise DomainError(
                    "Record",
                    "every or dt alone",
                    f"every={self.every!r} and dt={self.dt!r}",
                    advice="write tb.Record(every=10) or tb.Record(dt=0.01)",
                )
            object.__setattr__(self, "every", at_least("Record: every", self.every, 1))
        if self.dt is not None:
            object.__setattr__(self, "dt", positive("Record: dt", self.dt, "s"))
        names = (self.quantities,) if isinstance(self.quantities, str) else self.quantities
        object.__setattr__(self, "quantities", tuple(names))


def checked_record(given: Any) -> Record:
    """Return what a run records; the default for None.

    Raises:
        DomainError: If it is no `Record`.
    """
    if given is None:
        return Record()
    if isinstance(given, Record):
        return given
    write = "tb.Record(every=10)"
    if isinstance(given, Path) or (isinstance(given, str) and Path(given).suffix):
        write = f"tb.Record(store={str(given)!r})"
    elif isinstance(given, str):
        write = f"tb.Record(quantities=[{given!r}])"
    elif isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
        write = f"tb.Record(quantities={list(given)!r})"
    raise DomainError("record", "a Record", shown(given), advice=f"write record={write}")
