"""Tables that notebooks show for objects of this package."""

from collections.abc import Iterable, Sequence

MOST_ROWS = 40
"""Most rows of a table; a line below it counts the others."""


def notebook_table(
    title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = (), note: str = ""
) -> str:
    """Return a table as markup; all text is escaped.

    Args:
        title: What the object is.
        rows: Cells; the first one of each row is its name.
        head: Names of the columns; none by default.
        note: A sentence below the table.
    """
    from html import escape

    listed = [[str(cell) for cell in row] for row in rows]
    left = len(listed) - MOST_ROWS
    align = " style='text-align:left'"
    parts = [f"<div><b>{escape(title)}</b><table>"]
    if head:
        parts.append(f"<tr>{''.join(f'<th{align}>{escape(x)}</th>' for x in head)}</tr>")
    for name, *cells in listed[:MOST_ROWS]:
        texts = "".join(f"<td{align}>{escape(cell)}</td>" for cell in cells)
        parts.append(f"<tr><th{align}>{escape(name)}</th>{texts}</tr>")
    parts.append("</table>")
    notes = [f"and {left} more"] if left > 0 else []
    notes += [note] if note else []
    if notes:
        parts.append(f"<small>{escape('; '.join(notes))}</small>")
    return "".join([*parts, "</div>"])
