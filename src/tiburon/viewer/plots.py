"""Figures of quantities over time: one panel per quantity and unit, batches as bands.

Quantities are xarray arrays with the dimension "time", batch dimensions whose names begin with
"case", and dimensions with named coordinates. Long curves are decimated; batches are summarized by
median and percentiles.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import OptionError, RunFileError, UnknownNameError
from tiburon.written_file import replacing

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

PALETTE = (
    "#1f6f8b",
    "#d1495b",
    "#e0a030",
    "#4a9b6e",
    "#7a5ca8",
    "#c0703a",
    "#58a6c7",
    "#a3456e",
    "#7f8c3f",
    "#4d5d6c",
)
"""Colors that are distinguishable on white, also with color vision deficiency."""

MAX_CASE_LINES = 12
"""Most cases drawn as single thin lines; more are drawn as a band."""

BAND_PERCENTILES = (5.0, 95.0)
"""Percentiles of the cases that bound a band."""

MAX_POINTS = 1600
"""Most points of a line; longer curves are decimated to minima and maxima of intervals."""

PANEL_HEIGHT = 2.25
WIDTH = 9.0
"""Size of figures [inch]."""

LEGEND_ROWS = 12
"""Entries in one column of a legend."""

SUPERSCRIPTS = {
    ord("^"): None,
    **{ord(digit): power for digit, power in zip("23", "²³", strict=True)},
}
"""Translation of powers in units to superscripts."""

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.prop_cycle": f"cycler('color', {list(PALETTE)})",
    "axes.titlesize": 10.5,
    "axes.titleweight": "normal",
    "axes.titlelocation": "left",
    "axes.titlecolor": "#222222",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#888888",
    "axes.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # reproducible output
    "svg.hashsalt": "tiburon",
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Let a function draw its figure in the style of all figures of this package."""

    @wraps(draw)
    def drawn(*arguments: P.args, **options: P.kwargs) -> T:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draw(*arguments, **options)

    return drawn


class Curve(NamedTuple):
    """A scalar over time."""

    label: str
    """Its name; "" where the title of the panel suffices."""

    values: Array
    """Shape (n, cases)."""


class Panel(NamedTuple):
    """Curves that share an axis."""

    title: str
    unit: str
    curves: list[Curve]


def panels_of(array: "xarray.DataArray", labels: str | Iterable[str] | None = None) -> list[Panel]:
    """Return the panels of a quantity, one per unit.

    Args:
        array: The quantity.
        labels: Parts of names of coordinates: only curves whose name contains one are shown.

    Raises:
        UnknownNameError: If no curve matches.
    """
    wanted = None if labels is None else [labels] if isinstance(labels, str) else list(labels)
    title = str(array.attrs.get("long_name", array.name))
    panels: dict[str, Panel] = {}
    for label, unit, values in _curves(array):
        if wanted is not None and label and not any(word in label for word in wanted):
            continue
        panels.setdefault(unit, Panel(title, unit, [])).curves.append(Curve(label, values))
    if not panels:
        known = [label for label, _, _ in _curves(array)]
        raise UnknownNameError("coordinate", " or ".join(wanted or []), known, where=title)
    return list(panels.values())


def _curves(array: "xarray.DataArray") -> Iterator[tuple[str, str, Array]]:
    """Yield name, unit and values, shape (n, cases), of each scalar of a quantity."""
    cases = [str(name) for name in array.dims if str(name).startswith("case")]
    named = [str(name) for name in array.dims if name != "time" and name not in cases]
    ordered = array.transpose("time", *cases, *named)
    values = np.asarray(ordered.values, dtype=np.float64)
    shape = tuple(ordered.sizes[name] for name in named)
    values = values.reshape(values.shape[0], -1, *shape)
    common = str(array.attrs.get("units", ""))
    units = array.coords.get(f"{array.name}_unit")
    for place in np.ndindex(*shape):
        words = [str(array.coords[name].values[k]) for name, k in zip(named, place, strict=True)]
        unit = common if units is None else str(units.values[place[-1]])
        yield ".".join(words), unit, values[(slice(None), slice(None), *place)]


@styled
def plot_dataset(
    arrays: Mapping[str, "xarray.DataArray"],
    *,
    labels: str | Iterable[str] | None = None,
    title: str = "",
    marks: Mapping[str, Iterable[float]] | None = None,
) -> "Figure":
    """Plot quantities over time, one panel below the other.

    Curves that are zero throughout are named in the title of their panel and not drawn, unless
    `labels` selects them; nor are panels of such curves alone, while others are left.

    Args:
        arrays: Quantities by name, with the same times.
        labels: Parts of names of coordinates to show; all by default.
        title: Heading of the figure.
        marks: Times to mark by a vertical line [s], by name.
    """
    from matplotlib.figure import Figure

    if not arrays:
        raise OptionError("names", ["at least one quantity"], ())
    chosen = None if labels is None else [labels] if isinstance(labels, str) else list(labels)
    panels: list[tuple[Panel, Array]] = []
    unmatched: list[UnknownNameError] = []
    for array in arrays.values():
        try:
            found = panels_of(array, chosen)
        except UnknownNameError as error:
            # other quantities may have such coordinates
            unmatched.append(error)
            continue
        panels += [(panel, np.asarray(array["time"].values)) for panel in found]
    if not panels:
        raise unmatched[0]
    every, hidden = panels, ""
    if chosen is None:
        panels = _without_zeros(every)
        kept = {(panel.title.partition(" (zero:")[0], panel.unit) for panel, _ in panels}
        gone = [f"{p.title} [{p.unit}]" for p, _ in every if (p.title, p.unit) not in kept]
        hidden = f" (zero: {_listed(gone)})" if gone else ""
    figure = Figure(
        figsize=(WIDTH, PANEL_HEIGHT * len(panels) + 0.5), layout="constrained", dpi=100
    )
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for place, (panel, time) in zip(axes, panels, strict=True):
        _draw(place, panel, time)
        _mark(place, marks or {}, named=place is axes[0])
    axes[-1].set_xlabel("time [s]")
    cases = panels[0][0].curves[0].values.shape[1]
    heading = title if cases == 1 else f"{title}: {cases} cases, {_spread(cases)}"
    if title:
        heading += hidden
        figure.suptitle(heading, x=0.01, ha="left", fontsize=12, fontweight="bold")
    # notebooks show it also where pyplot was never used
    figure._repr_png_ = partial(_as_png, figure)  # type: ignore[attr-defined]
    return figure


def _as_png(figure: "Figure") -> bytes:
    """Return a figure as a picture, for notebooks."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def _without_zeros(panels: list[tuple[Panel, Array]]) -> list[tuple[Panel, Array]]:
    """Return panels without curves that are zero throughout; all, if nothing else is left."""
    left = []
    for panel, time in panels:
        zero = [curve.label for curve in panel.curves if is_zero(curve.values)]
        shown = [curve for curve in panel.curves if not is_zero(curve.values)]
        if shown:
            title = f"{panel.title} (zero: {_listed(zero)})" if zero else panel.title
            left.append((panel._replace(title=title, curves=shown), time))
    return left or panels


def is_zero(values: Array) -> bool:
    """Return whether a curve is zero throughout; rows of ended cases (NaN) do not count."""
    there = np.isfinite(values)
    return bool(there.any() and not values[there].any())


def _listed(names: Sequence[str], most: int = 4) -> str:
    """Return the first names of a list, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _spread(cases: int) -> str:
    """Return a description of how a batch is drawn."""
    if cases <= MAX_CASE_LINES:
        return "median and single cases (thin)"
    low, high = BAND_PERCENTILES
    return f"median and band from {low:.0f}th to {high:.0f}th percentile"


def _draw(axes: Any, panel: Panel, time: Array) -> None:
    colors = _colors(len(panel.curves))
    # many overlapping bands would hide the lines
    shade = 0.22 if len(panel.curves) <= 3 else 0.1
    for curve, color in zip(panel.curves, colors, strict=True):
        _draw_curve(axes, time, curve, color, shade)
    unit = f" [{panel.unit.translate(SUPERSCRIPTS)}]" if panel.unit not in ("", "1") else ""
    axes.set_title(f"{panel.title}{unit}")
    axes.margins(x=0.0, y=0.08)
    axes.ticklabel_format(axis="y", useOffset=False, scilimits=(-4, 5))
    if len(panel.curves) > 1 or panel.curves[0].label:
        axes.legend(
            loc="center left",
            bbox_to_anchor=(1.005, 0.5),
            handlelength=1.2,
            labelspacing=0.25,
            ncols=-(-len(panel.curves) // LEGEND_ROWS),
        )


def _draw_curve(axes: Any, time: Array, curve: Curve, color: Any, shade: float) -> None:
    cases = curve.values.shape[1]
    if cases == 1:
        axes.plot(
            *decimated(time, curve.values[:, 0]), color=color, label=curve.label, linewidth=1.4
        )
        return
    # rows of ended cases are NaN and ignored
    there = np.isfinite(curve.values).any(axis=1)
    if cases <= MAX_CASE_LINES:
        for case in range(cases):
            line = decimated(time, curve.values[:, case])
            axes.plot(*line, color=color, alpha=0.3, linewidth=0.7)
    elif there.any():
        stride = max(1, len(time) // MAX_POINTS)
        shown = np.flatnonzero(there)[::stride]
        low, high = np.nanpercentile(curve.values[shown], BAND_PERCENTILES, axis=1)
        axes.fill_between(time[shown], low, high, color=color, alpha=shade, linewidth=0)
    middle = np.full(len(time), np.nan)
    if there.any():
        middle[there] = np.nanmedian(curve.values[there], axis=1)
    axes.plot(*decimated(time, middle), color=color, label=curve.label, linewidth=1.6)


def decimated(time: Array, values: Array) -> tuple[Array, Array]:
    """Decimate a curve to the minimum and maximum of each interval.

    Args:
        time: Times, shape (n,).
        values: Values, NaN where missing, shape (n,).
    """
    count = len(time)
    if count <= MAX_POINTS:
        return time, values
    edges = np.linspace(0, count, MAX_POINTS // 2 + 1).astype(int)
    kept = {0, count - 1}
    for start, stop in pairwise(edges):
        part = values[start:stop]
        if np.isfinite(part).any():
            kept.update((start + int(np.nanargmin(part)), start + int(np.nanargmax(part))))
        # keep gaps
        if not np.isfinite(part).all():
            kept.add(start + int(np.argmin(np.isfinite(part))))
    places = np.array(sorted(kept))
    return time[places], values[places]


def _mark(axes: Any, marks: Mapping[str, Iterable[float]], *, named: bool) -> None:
    """Draw vertical lines, labeled in the first panel."""
    for name, times in marks.items():
        for k, time in enumerate(times):
            axes.axvline(time, color="#777777", linewidth=0.8, linestyle=(0, (4, 3)))
            if named and k == 0:
                axes.annotate(
                    name,
                    (time, 1.0),
                    xycoords=("data", "axes fraction"),
                    xytext=(3, -2),
                    textcoords="offset points",
                    va="top",
                    fontsize=8,
                    color="#555555",
                )


def _colors(count: int) -> Sequence[Any]:
    """Return distinct colors, or a color map for many curves."""
    if count <= len(PALETTE):
        return PALETTE[:count]
    from matplotlib import colormaps

    return [colormaps["turbo"](0.05 + 0.9 * k / (count - 1)) for k in range(count)]


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure to a file; its suffix selects the format, ".png" by default.

    Args:
        figure: The figure.
        path: File to write; an existing one is replaced once the new one is complete.

    Raises:
        OptionError: If the format is unknown.
        RunFileError: If the file cannot be written.
    """
    file = path if path.suffix else path.with_suffix(".png")
    known = figure.canvas.get_supported_filetypes()
    format_name = file.suffix.removeprefix(".").lower()
    if format_name not in known:
        raise OptionError("path: ending", [f".{name}" for name in known], file.suffix)
    with replacing(file, RunFileError) as stream:
        figure.savefig(stream, dpi=150, format=format_name)
