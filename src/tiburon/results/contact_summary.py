"""Contacts of a run in short: how long each point touched and stuck, forces, depth and slip."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import PEAK_FORCE
from tiburon.actuation.exact_contact import PEAK_IMPULSE
from tiburon.arrays import Array, NDArray
from tiburon.functions.contact import TOUCHING_GAP, contacts_among
from tiburon.functions.parameters import geometry_of
from tiburon.results.quantities import (
    contact_names,
    contact_states,
    parameter_tables,
    without_contact,
)

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

MOST_NAMED = 12
"""Contact points up to which those that never touch are listed too."""


class DeepestContact(NamedTuple):
    """The deepest penetration of a run with rigid contact."""

    name: str
    """Name of the contact point."""

    depth: float
    """Penetration at the end of a step, recorded or not [m]."""

    time: float
    """When [s]."""

    case: int
    """Case of a batch, counted in C order; 0 for one robot."""


class ContactSummary(NamedTuple):
    """Contacts of a run, one entry per contact point, over all cases and recorded times."""

    names: tuple[str, ...]
    """Name of each point."""

    touching: Array
    """Share of recorded times with a contact force."""

    sticking: Array
    """Share of recorded times with a contact force and no slip."""

    slipping: Array
    """Share of recorded times with a contact force and slip."""

    peak_force: Array
    """Largest magnitude of the force in any step, recorded or not [N]: of rigid contact the mean
    over the step, of compliant contact the force at its end, of event-driven runs the force at
    recorded times and events."""

    peak_impulse: Array
    """Largest impulse of a collision [N s] in event-driven runs; zero in others, where collisions
    are forces over one step."""

    depth: Array
    """Deepest penetration at recorded times [m]; 0 if there is none."""

    slip: Array
    """Longest path slipped while touching [m], from recorded times."""

    residual: float
    """Largest residual of the impulses in any step, relative to the largest impulse of that step; 0
    where contact forces follow from the state."""

    iterations: int
    """Most iterations that the impulses of a recorded step took; 0 like the residual."""

    deepest: DeepestContact | None = None
    """Deepest penetration of all steps and cases; None where nothing penetrated, and in runs whose
    contact is not rigid."""

    def __str__(self) -> str:
        heads = ["contact", "touching", "sticking", "slipping", "peak force", "depth", "slip path"]
        columns: list[Sequence[str]] = [
            self.names,
            *([f"{100 * x:.1f} %" for x in shares] for shares in self[1:4]),
            [f"{x:.4g} N" for x in self.peak_force],
            [f"{x:.1e} m" for x in self.depth],
            [f"{x:.3g} m" for x in self.slip],
        ]
        if self.peak_impulse.any():
            heads.insert(5, "peak impulse")
            columns.insert(5, [f"{x:.4g} N s" for x in self.peak_impulse])
        acted = (self.peak_force > 0.0) | (self.peak_impulse > 0.0) | (self.depth > 0.0)
        rows = [
            row
            for row, shown in zip(zip(*columns, strict=True), acted, strict=True)
            if shown or len(self.names) <= MOST_NAMED
        ]
        apart = len(self.names) - len(rows)
        widths = [max(len(row[k]) for row in (heads, *rows)) for k in range(len(heads))]
        lines = [
            "  ".join(
                text.ljust(width) if k == 0 else text.rjust(width)
                for k, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (heads, *rows)
        ]
        if apart:
            lines.append(f"and {apart} that never touched")
        last = f"largest residual of impulses: {self.residual:.1e}"
        if self.iterations:
            last += f", after at most {self.iterations} iterations"
        lines.append(last)
        if self.deepest is not None:
            name, depth, time, _ = self.deepest
            lines.append(f"deepest penetration of all steps: {depth:.1e} m, {name}, {time:.6g} s")
        return "\n".join(lines)


def summarize_contacts(run: "Trajectory") -> ContactSummary:
    """Return the contacts of a run in short.

    Raises:
        ModelError: If the run has no contact.
    """
    candidates = () if run.system is None else run.system.candidates
    if not candidates:
        raise without_contact(f"run of {run.model.name!r}: contact_summary")
    assert run.system is not None
    column = run.header.column("z")
    assert column is not None
    assert column.labels is not None
    cases = run.z.reshape(len(run), -1, len(column.labels))
    values = contact_states(run.system, cases)
    force = np.linalg.norm(values[..., :3], axis=-1)
    touched = force > 0.0
    q, v = (array.reshape(len(run), -1, array.shape[-1]) for array in (run.q, run.v))
    alive: NDArray[np.bool_] = np.all(np.isfinite(q), axis=-1, keepdims=True)
    shown = alive[..., 0]
    depth, speed = np.zeros(force.shape), np.zeros(force.shape)
    times = np.broadcast_to(run.time[:, None], shown.shape)[shown]
    tables = {
        name: table if table.ndim == 1 else table.reshape(-1, table.shape[-1])
        for name, table in parameter_tables(run).items()
    }
    geometry = geometry_of(tables, np.broadcast_to(np.arange(shown.shape[1]), shown.shape)[shown])
    model = run.model if geometry is None else run.system.model
    found = contacts_among(model, candidates, q[shown], v[shown], time=times, geometry=geometry)
    assert found.velocity is not None
    gap = np.full(force.shape, np.inf)
    gap[shown] = found.gap
    depth[shown] = np.maximum(-found.gap, 0.0)
    normal = np.sum(found.velocity * found.normal, axis=-1, keepdims=True) * found.normal
    speed[shown] = np.linalg.norm(found.velocity - normal, axis=-1)
    slides = touched.copy()
    # no step has been taken at the first time: points that touch there have no force yet
    slides[0] |= alive[0] & (gap[0] <= TOUCHING_GAP)
    speed[~slides] = 0.0
    path = np.sum(0.5 * (speed[1:] + speed[:-1]) * np.diff(run.time)[:, None, None], axis=0)
    count = max(int(alive.sum()), 1)
    # peaks of all steps, and of the last row, which an event-driven run may reach after them
    peaks = {
        name: _peaks(cases, column.labels, name, force.shape[-1])
        for name in (PEAK_FORCE, PEAK_IMPULSE)
    }
    largest = np.nanmax(np.where(alive, force, 0.0), axis=(0, 1))
    sticks = values[..., 3] > 0.5
    touching, sticking, slipping = (
        np.sum(mode & alive, axis=(0, 1)) / count
        for mode in (touched, touched & sticks, touched & ~sticks)
    )
    names = contact_names(candidates)
    return ContactSummary(
        names,
        touching,
        sticking,
        slipping,
        np.maximum(np.sqrt(peaks[PEAK_FORCE]), largest),
        np.sqrt(peaks[PEAK_IMPULSE]),
        depth.max(axis=(0, 1)),
        path.max(axis=0),
        _largest(cases, column.labels, "contact.largest_residual"),
        int(_largest(cases, column.labels, "contact.iterations")),
        _deepest(run.time, cases, column.labels, names, depth),
    )


def _peaks(cases: Array, labels: tuple[str, ...], name: str, points: int) -> Array:
    """Return the largest value of a state of all contact points; 0 where there is none."""
    where = [place for place, label in enumerate(labels) if label.endswith(f".{name}")]
    return np.nanmax(cases[..., where], axis=(0, 1)) if where else np.zeros(points)


def _deepest(
    time: Array, cases: Array, labels: tuple[str, ...], names: tuple[str, ...], depth: Array
) -> DeepestContact | None:
    """Return the deepest penetration, of steps or, after the last of them, of recorded times.

    Args:
        time: Recorded times [s].
        cases: Discrete states, shape (rows, cases, states).
        labels: Their names.
        names: Names of all contact points.
        depth: Penetration at recorded times [m], shape (rows, cases, points).
    """
    kept = ("contact.largest_depth", "contact.deepest_at", "contact.deepest_time")
    if kept[0] not in labels:
        return None
    row, case, point = np.unravel_index(int(np.argmax(depth)), depth.shape)
    recorded = DeepestContact(
        names[int(point)], float(depth[row, case, point]), float(time[row]), int(case)
    )
    noted = cases[..., labels.index(kept[0])]
    row, case = np.unravel_index(int(np.nanargmax(noted)), noted.shape)
    most, place, when = (float(cases[row, case, labels.index(name)]) for name in kept)
    step = DeepestContact(names[int(place)], most, when, int(case))
    found = max(recorded, step, key=lambda one: one.depth)
    return found if found.depth > 0.0 else None


def _largest(cases: Array, labels: tuple[str, ...], name: str) -> float:
    """Return the largest value of a discrete state; 0 for models of contact without it."""
    where = [place for place, label in enumerate(labels) if label == name]
    return float(np.nanmax(cases[..., where])) if where else 0.0
