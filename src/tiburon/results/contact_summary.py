"""Contacts of a run in short: how long each point touched and stuck, forces, depth and slip."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.functions.contact import TOUCHING, contacts_among
from tiburon.results.quantities import contact_names, contact_states, without_contact

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

__all__ = ["ContactSummary", "summarize_contacts"]

Array = NDArray[np.float64]

MOST_NAMED = 12
"""Contact points up to which those that never touch are listed too."""


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
    """Largest magnitude of the mean force over a step [N], of steps that end at recorded times."""

    depth: Array
    """Deepest penetration [m]; 0 if there is none."""

    slip: Array
    """Longest path slipped while touching [m], from recorded times."""

    residual: float
    """Largest residual of the impulses, relative to the largest impulse of its step; 0 where
    contact forces follow from the state."""

    iterations: int
    """Most iterations that the impulses of a recorded step took; 0 like the residual."""

    def __str__(self) -> str:
        heads = ("contact", "touching", "sticking", "slipping", "peak force", "depth", "slip path")
        rows = [
            (name, *(f"{100 * share:.1f} %" for share in shares), f"{f:.4g} N", f"{d:.1e} m", path)
            for name, *shares, f, d, path in zip(
                self.names,
                self.touching,
                self.sticking,
                self.slipping,
                self.peak_force,
                self.depth,
                [f"{path:.3g} m" for path in self.slip],
                strict=True,
            )
            if shares[0] > 0.0 or d > 0.0 or len(self.names) <= MOST_NAMED
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
        return "\n".join([*lines, last])


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
    found = contacts_among(run.model, candidates, q[shown], v[shown], time=times)
    assert found.velocity is not None
    gap = np.full(force.shape, np.inf)
    gap[shown] = found.gap
    depth[shown] = np.maximum(-found.gap, 0.0)
    normal = np.sum(found.velocity * found.normal, axis=-1, keepdims=True) * found.normal
    speed[shown] = np.linalg.norm(found.velocity - normal, axis=-1)
    slides = touched.copy()
    # no step has been taken at the first time: points that touch there have no force yet
    slides[0] |= alive[0] & (gap[0] <= TOUCHING)
    speed[~slides] = 0.0
    path = np.sum(0.5 * (speed[1:] + speed[:-1]) * np.diff(run.time)[:, None, None], axis=0)
    count = max(int(alive.sum()), 1)
    sticks = values[..., 3] > 0.5
    touching, sticking, slipping = (
        np.sum(mode & alive, axis=(0, 1)) / count
        for mode in (touched, touched & sticks, touched & ~sticks)
    )
    return ContactSummary(
        contact_names(candidates),
        touching,
        sticking,
        slipping,
        np.nanmax(np.where(alive, force, 0.0), axis=(0, 1)),
        depth.max(axis=(0, 1)),
        path.max(axis=0),
        _largest(cases, column.labels, "contact.residual"),
        int(_largest(cases, column.labels, "contact.iterations")),
    )


def _largest(cases: Array, labels: tuple[str, ...], name: str) -> float:
    """Return the largest value of a discrete state; 0 for models of contact without it."""
    where = [place for place, label in enumerate(labels) if label == name]
    return float(np.nanmax(cases[..., where])) if where else 0.0
