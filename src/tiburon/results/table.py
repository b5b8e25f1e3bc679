"""Runs as tables: a column for each recorded number."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tiburon.errors import RunFileError
from tiburon.results.run_header import Column
from tiburon.written_file import replacing

if TYPE_CHECKING:
    import pandas

    from tiburon.results.trajectory import Trajectory

__all__ = ["table_of", "write_csv"]


def table_of(run: "Trajectory") -> "pandas.DataFrame":
    """Return a table whose index is the time [s], or time and case."""
    import pandas

    time = run.time
    cases = int(np.prod(run.batch))
    columns = {}
    for column in run.header.columns:
        flat = run.array(column.key).reshape(len(time) * cases, -1)
        for k, name in enumerate(_names(column)):
            columns[name] = flat[:, k]
    index: pandas.Index
    if run.batch:
        ranges = [range(size) for size in run.batch]
        names = ["time", *run.header.case_dimensions]
        index = pandas.MultiIndex.from_product([time, *ranges], names=names)
    else:
        index = pandas.Index(time, name="time")
    table = pandas.DataFrame(columns, index=index)
    table.attrs["units"] = dict(zip(columns, _units(run), strict=True))
    return table


def write_csv(run: "Trajectory", path: Path) -> None:
    """Write a table as text: names, units, then a line for each time and case.

    Numbers have all of their digits: reading them gives the same bits.
    """
    table = table_of(run)
    head = [*map(str, table.index.names), *table.columns]
    units = ["s", *[""] * len(run.batch), *_units(run)]
    with replacing(path, RunFileError) as stream:
        file = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        file.write(",".join(_quoted(name) for name in head) + "\n")
        file.write(",".join(_quoted(f"[{unit}]" if unit else "") for unit in units) + "\n")
        table.to_csv(file, header=False, na_rep="nan", lineterminator="\n")
        file.detach()


def _names(column: Column) -> list[str]:
    if column.labels is None:
        return [column.name]
    return [f"{column.name}.{label}" for label in column.labels]


def _units(run: "Trajectory") -> list[str]:
    found: list[str] = []
    for column in run.header.columns:
        count = len(_names(column))
        found += [column.units] * count if isinstance(column.units, str) else column.units
    return found


def _quoted(text: str) -> str:
    """Return a text as a field of a line: names may hold commas."""
    return text if not set(text) & set(',"\n') else '"' + text.replace('"', '""') + '"'
