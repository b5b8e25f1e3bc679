"""The page of the census: docs/census.json and the table of docs/census.md, written from rows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import replace_text
from tools.census.census import Row, reason_of, summary, verdict_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN = "<!-- rows: written by `make census`, not by hand -->"
END = "<!-- end of rows -->"
HEADINGS = (
    *("file", "DoF", "verdict", "step, us", "of MuJoCo's", "apart after 0.1 s, mm"),
    *("apart after 2 s, mm", "gain of energy", "moved at the start, mm"),
)
KEPT_NUMBERS = 4
"""Significant digits that are kept of measurements."""


def publish(rows: Sequence[Row], run: Mapping[str, Any], docs: Path = DOCS) -> None:
    """Write the data file and the page.

    Args:
        rows: Rows of files that MuJoCo runs.
        run: Machine, versions and command of the run, and versions of the wheels.
        docs: Folder of both.
    """
    files = [_rounded({**row, "file": place_of(row["file"])}) for row in rows]
    text = json.dumps({"run": dict(run), "files": files}, indent=1)
    replace_text(docs / "census.json", f"{text}\n")
    render(docs)


def render(docs: Path = DOCS) -> None:
    """Write the page from the data file."""
    replace_text(docs / "census.md", rendered(docs))


def rendered(docs: Path = DOCS) -> str:
    """Return the text of the page from the data file."""
    page = docs / "census.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for the rows; it needs the lines {BEGIN} and {END}")
    content = json.loads((docs / "census.json").read_text(encoding="utf-8"))
    return f"{before}{BEGIN}\n{section(content)}\n\n{END}{after}"


def section(content: Mapping[str, Any]) -> str:
    """Return summary, reasons, table and run of the data."""
    rows: list[Row] = content["files"]
    run = content["run"]
    parts = [f"**{summary(rows)}.**" if rows else "No census is published yet."]
    failed = [row for row in rows if verdict_of(row) != "behaves"]
    if failed:
        lines = [f"- `{row['file']}`: {verdict_of(row)}; {_reason(row)}" for row in failed]
        parts += ["Files that do not behave:", "\n".join(lines)]
    if rows:
        table = [_line(HEADINGS), "|---" * len(HEADINGS) + "|"]
        parts.append("\n".join([*table, *(_line(_cells(row)) for row in rows)]))
    if run:
        parts.append("; ".join(f"{key}: {value}" for key, value in run.items()) + ".")
    return "\n\n".join(parts)


def place_of(file: str) -> str:
    """Return the path of a file inside its wheel, after the name of the wheel."""
    return Path(*Path(file).parts[1:]).as_posix()


def _cells(row: Row) -> list[str]:
    known = [f"`{row['file']}`", str(row["nv"]), verdict_of(row)] if "nv" in row else []
    if not known:
        return [f"`{row['file']}`", "", verdict_of(row), *[""] * (len(HEADINGS) - 3)]
    times = [f"{row['us']:.3g}", f"{row['us'] / row['peer_us']:.2g}"] if "us" in row else ["", ""]
    apart = [_millimeters(row.get("apart_early")), _millimeters(row.get("apart"))]
    return [*known, *times, *apart, _gain(row), _millimeters(row.get("corrected"))]


def _millimeters(length: float | None) -> str:
    if length is None:
        return ""
    return "0" if length < 1e-9 else f"{1e3 * length:.2g}"


def _gain(row: Row) -> str:
    """Return the largest gain of energy, of the largest kinetic energy."""
    if "gain" not in row:
        return ""
    if row["gain"] <= 1e-12 * row["kinetic"]:
        return "0"
    return f"{row['gain']:.2g} J of {row['kinetic']:.2g} J"


def _reason(row: Row) -> str:
    """Return why a file does not behave, without line breaks and folders of this machine."""
    if verdict_of(row) == "wild":
        return f"{row['speed']:.3g} at the end, MuJoCo {row['peer_speed']:.3g}"
    words = " ".join(reason_of(row).split())
    return words.replace("census-files/", "")


def _rounded(value: Any) -> Any:
    """Return nested data with floats of few digits."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.{KEPT_NUMBERS}g}") if isinstance(value, float) else value


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
