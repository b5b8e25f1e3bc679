"""Pages of a reproduced source: all its cells with verdicts, and figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tiburon.reproduce.cells import BASES, HEAD, LOST, CellTable, cell_rows, count_cells
from tiburon.viewer.plots import styled
from tiburon.viewer.report import Section, Verdict, figure_markup, report_html, table_markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 9.0
"""Width of figures [inch]."""


class PageFigure(NamedTuple):
    """A figure of a page."""

    title: str
    text: str
    """What it shows, and which figure of the source it stands for."""

    figure: "Figure"


@styled
def panels(rows: int, height: float = 2.4) -> tuple["Figure", Sequence["Axes"]]:
    """Return a figure of panels below each other, and their axes; height in inch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    return figure, list(axes)


def cell_page(
    title: str,
    about: str,
    tables: Sequence[CellTable],
    figures: Sequence[PageFigure] = (),
    first: Sequence[Section] = (),
) -> str:
    """Return a page: verdicts on top, the first sections, what references are, figures, cells."""
    counts = count_cells(tables)
    cells = [cell for table in tables for cell in table.cells]
    lost = sum(cell.good is None and cell.reason == LOST for cell in cells)
    verdicts = (
        Verdict(f"{len(cells)} cells", f"in {len(tables)} tables"),
        *(
            Verdict(
                f"{counts.good[basis]} of {counts.judged[basis]}",
                f"agree, reference: {basis}",
                "good" if counts.good[basis] == counts.judged[basis] else "bad",
            )
            for basis in BASES
            if counts.judged[basis]
        ),
        *(Verdict(str(count), f"of these {word}") for word, count in counts.words.items()),
        Verdict(str(counts.differing), "differ", "bad" if counts.differing else "good"),
        Verdict(str(lost), "lost in the scan"),
        Verdict(str(counts.unjudged - lost), "not judged: measured, or dependent on lost data"),
    )
    meanings = [(basis, BASES[basis]) for basis in BASES if counts.judged[basis]]
    sections = [
        *first,
        Section("References", "Where references come from.", table_markup(meanings)),
        *(
            Section(each.title, each.text, figure_markup(each.figure, each.title))
            for each in figures
        ),
    ]
    for table in tables:
        body = table_markup(cell_rows(table.cells), HEAD)
        reasons = list(dict.fromkeys(cell.reason for cell in table.cells if cell.corrected))
        if reasons:
            body += table_markup([("corrected", reason) for reason in reasons])
        sections.append(Section(f"{table.name}: {table.title}", " ".join(table.remarks), body))
    return report_html(title, about, verdicts, sections)
