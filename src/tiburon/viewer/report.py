"""Reports: tables and figures in a single self-contained HTML file."""

import io
import re
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from tiburon.viewer.plots import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CSS = """
:root { --ink: #1d2730; --soft: #5d6b78; --line: #dfe5ea; --paper: #ffffff; --ground: #f4f6f8;
  --good: #2e7d4f; --bad: #b3363f; --accent: #1f6f8b; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1020px; margin: 0 auto; padding: 32px 24px 48px; }
header { border-bottom: 3px solid var(--accent); padding-bottom: 14px; margin-bottom: 22px; }
h1 { font-size: 27px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
header p { margin: 4px 0 0; color: var(--soft); max-width: 78ch; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  padding: 18px 22px 20px; margin: 0 0 18px; }
h2 { font-size: 17px; margin: 0 0 10px; }
section > p { margin: 4px 0 10px; max-width: 85ch; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin-bottom: 18px; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px 16px; }
.card b { display: block; font-size: 21px; font-weight: 650; font-variant-numeric: tabular-nums;
  line-height: 1.25; overflow-wrap: anywhere; }
.card span { color: var(--soft); font-size: 13px; }
.good { color: var(--good); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-top: 1px solid var(--line);
  vertical-align: top; }
tr:first-child th, tr:first-child td { border-top: 0; }
thead th { color: var(--soft); font-weight: 600; font-size: 13px; }
tbody th { font-weight: 500; color: var(--soft); width: 15em; }
figure { margin: 8px 0 0; } figure svg { width: 100%; height: auto; display: block; }
footer { color: var(--soft); font-size: 13px; }
@media print { body { background: none; } section, .card { break-inside: avoid; } }
"""


class Verdict(NamedTuple):
    """A key figure, shown as a card at the top of the page."""

    value: str
    label: str
    mood: str = ""
    """"good", "bad", or "" for neutral."""


class Section(NamedTuple):
    """A part of a page."""

    title: str
    text: str = ""
    """A paragraph before the body."""

    body: str = ""
    """Markup, as returned by the functions of this module."""


def table_markup(rows: Sequence[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return a table; the first entry of each row is its name."""
    lines = ["<div class='scroll'><table>"]
    if head:
        lines.append(f"<thead><tr>{_cells(head, 'th')}</tr></thead>")
    lines.append("<tbody>")
    lines += [f"<tr>{_cells(row[:1], 'th')}{_cells(row[1:], 'td')}</tr>" for row in rows]
    return "\n".join([*lines, "</tbody></table></div>"])


def _cells(entries: Sequence[object], tag: str) -> str:
    return "".join(f"<{tag}>{escape(str(entry))}</{tag}>" for entry in entries)


def figure_markup(figure: "Figure", described: str) -> str:
    """Return a figure as inline SVG, with text as paths."""
    from matplotlib import rc_context

    content = io.StringIO()
    # text as paths: the layout does not depend on installed fonts
    with rc_context({**STYLE, "svg.fonttype": "path"}):
        none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(content, format="svg", metadata=none)
    text = content.getvalue()
    drawing = text[text.index("<svg") :]
    # identifiers must be unique in the page
    mark = f"f{zlib.crc32(described.encode()):08x}"
    drawing = re.sub(r'\bid="', f'id="{mark}-', drawing)
    drawing = re.sub(r'(url\(#|href="#)', rf"\g<1>{mark}-", drawing)
    drawing = drawing.replace(
        "<svg ", f'<svg role="img" aria-label="{escape(described, quote=True)}" ', 1
    )
    return f"<figure>{drawing}</figure>"


def report_html(
    title: str, about: str, verdicts: Sequence[Verdict], sections: Sequence[Section], foot: str = ""
) -> str:
    """Return a whole page."""
    cards = "".join(
        f"<div class='card'><b class='{v.mood}'>{escape(v.value)}</b>"
        f"<span>{escape(v.label)}</span></div>"
        for v in verdicts
    )
    parts = "\n".join(
        f"<section><h2>{escape(s.title)}</h2>"
        f"{f'<p>{escape(s.text)}</p>' if s.text else ''}{s.body}</section>"
        for s in sections
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>
<main>
<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>
<div class="cards">{cards}</div>
{parts}
<footer>{escape(foot)}</footer>
</main>
</body>
</html>
"""


def facts_markup(facts: Mapping[str, object]) -> str:
    """Return a table of names and values."""
    return table_markup(list(facts.items()))
