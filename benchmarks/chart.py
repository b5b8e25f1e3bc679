"""Charts of figures as SVG: bars of ratios against peers, with their bounds."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from tiburon.viewer.plots import PALETTE

__all__ = ["Bar", "bar_chart"]

OURS, MISSED = PALETTE[0], PALETTE[1]

LABEL, PLOT, RIGHT = 400, 340, 230
"""Widths of names, bars and values [px]."""

ROW, TOP, BOTTOM = 22, 30, 46
"""Heights of a row, of the axis and of the legend [px]."""


class Bar(NamedTuple):
    """A ratio against a peer."""

    label: str
    peer: str
    ratio: float
    must: float | None
    """Least ratio; None if there is no bound."""

    @property
    def met(self) -> bool:
        """Whether the bound is met, or there is none."""
        return self.must is None or self.ratio >= self.must


def bar_chart(rows: Sequence[Bar | str]) -> str:
    """Return a chart of ratios on a logarithmic axis: how many times faster than each peer.

    Args:
        rows: Bars from top to bottom; texts are headings of those below them.
    """
    bars = [row for row in rows if isinstance(row, Bar)]
    ratios = [x for bar in bars for x in (bar.ratio, bar.must) if x is not None]
    low = min(0.0, math.log10(min(ratios)) - 0.05)
    high = max(1.0, math.log10(max(ratios)) + 0.05)

    def x(ratio: float) -> float:
        return LABEL + PLOT * (math.log10(ratio) - low) / (high - low)

    width, height = LABEL + PLOT + RIGHT, TOP + ROW * len(rows) + BOTTOM
    bottom = TOP + ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'role="img" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for power in range(math.ceil(low), math.floor(high) + 1):
        at, strong = x(10.0**power), power == 0
        parts.append(
            f'<line x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{bottom}" '
            f'stroke="{"#555555" if strong else "#dddddd"}"/>'
        )
        parts.append(_text(at, TOP - 11, f"{10.0**power:g}x", "middle"))
    for place, bar in enumerate(rows):
        y = TOP + ROW * place
        if isinstance(bar, str):
            parts.append(_text(8, y + 16, bar, "start", bold=True))
            continue
        start, end = sorted((x(1.0), x(bar.ratio)))
        color = OURS if bar.met else MISSED
        parts.append(
            f'<rect x="{start:.1f}" y="{y + 4}" width="{max(1.0, end - start):.1f}" '
            f'height="{ROW - 8}" fill="{color}"/>'
        )
        if bar.must is not None:
            at = x(bar.must)
            parts.append(
                f'<line x1="{at:.1f}" y1="{y + 2}" x2="{at:.1f}" y2="{y + ROW - 2}" '
                'stroke="#000000" stroke-width="2"/>'
            )
        parts.append(_text(LABEL - 8, y + 15, _short(bar.label), "end"))
        beyond = max(end, x(bar.must) if bar.must is not None else end)
        parts.append(_text(beyond + 6, y + 15, f"{bar.ratio:.3g}x {bar.peer}", "start", "#555555"))
    legend = "time of the peer / ours, logarithmic; black line: bound"
    if not all(bar.met for bar in bars):
        parts.append(
            f'<rect x="{LABEL}" y="{bottom + 26}" width="12" height="10" fill="{MISSED}"/>'
        )
        parts.append(_text(LABEL + 18, bottom + 35, "bound missed", "start"))
    parts.append(_text(LABEL, bottom + 17, legend, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _short(text: str, most: int = 64) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(
    x: float, y: float, text: str, anchor: str, color: str = "#222222", *, bold: bool = False
) -> str:
    style = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"{style}>'
        f"{escape(text)}</text>"
    )
