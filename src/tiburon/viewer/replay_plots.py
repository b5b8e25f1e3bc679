"""Curves for the strip below a replay."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.errors import ShapeError
from tiburon.model import Model
from tiburon.viewer.replay_data import Packer

__all__ = ["Plots", "default_plots", "plots_json"]

Array = NDArray[np.float64]

Plots = Mapping[str, "Mapping[str, ArrayLike] | ArrayLike"]
"""Curves by title, such as "depth [m]": shape (n,), or (n, k), or one of shape (n,) by label."""

MOST_CURVES = 16
"""In one plot: more cannot be told apart."""


def default_plots(model: Model, q: Array, v: Array | None) -> Plots:
    """Return what is worth seeing of any robot: its joints, its place, its speed.

    Args:
        model: The robot.
        q: Positions of one case, shape (n, nq).
        v: Velocities of that case, shape (n, nv).
    """
    found: dict[str, dict[str, Array]] = {}

    def put(title: str, label: str, values: Array) -> None:
        found.setdefault(title, {})[label] = values

    for joint in model.joints:
        if joint.follows is not None or not joint.nq:
            continue
        at, rate = model.slice(joint.name), model.slice(joint.name, of="v")
        if joint.kind == "free":
            for axis, column in zip("xyz", range(at.start + 4, at.start + 7), strict=True):
                put("position [m]", f"{joint.name} {axis}", q[:, column])
            if v is not None:
                put("speed [m/s]", joint.name, np.linalg.norm(v[:, rate][:, 3:], axis=-1))
        elif joint.nq == 1:
            turns = joint.kind not in ("prismatic", "screw")
            title = "joint angle [rad]" if turns else "joint travel [m]"
            put(title, joint.name, q[:, at.start])
            if v is not None:
                title = "joint speed [rad/s]" if turns else "joint speed [m/s]"
                put(title, joint.name, v[:, rate.start])
    return {title: dict(list(curves.items())[:MOST_CURVES]) for title, curves in found.items()}


def plots_json(plots: Plots, rows: Array, times: Array, packer: Packer) -> list[dict[str, Any]]:
    """Return the curves at the times of the frames, for the page.

    Args:
        plots: At the times of the rows.
        rows: Times of the rows [s], shape (n,).
        times: Times of the frames [s].
        packer: Takes the tables.
    """
    written = []
    for title, given in plots.items():
        labels, curves = _curves(title, given, len(rows))
        sampled = [np.interp(times, rows, curve) for curve in curves]
        if sampled:
            table = packer.add(np.stack(sampled, axis=-1))
            written.append({"title": str(title), "labels": labels, "data": table})
    return written


def _curves(
    title: str, given: "Mapping[str, ArrayLike] | ArrayLike", rows: int
) -> tuple[list[str], Sequence[Array]]:
    if isinstance(given, Mapping):
        labels = [str(label) for label in given]
        curves = [np.asarray(curve, dtype=np.float64) for curve in given.values()]
    else:
        table = np.asarray(given, dtype=np.float64)
        table = table[:, None] if table.ndim == 1 else table
        labels = [""] if table.shape[-1] == 1 else [str(k) for k in range(table.shape[-1])]
        curves = list(np.moveaxis(table, -1, 0))
    for label, curve in zip(labels, curves, strict=True):
        if curve.shape != (rows,):
            raise ShapeError(
                f"plots[{title!r}] {label}".rstrip(),
                f"{rows} values, as time has",
                curve.shape,
                advice="give one curve per label",
            )
    return labels[:MOST_CURVES], curves[:MOST_CURVES]
