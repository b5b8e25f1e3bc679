"""Contacts of a run in short: how long each point touched and stuck, forces, depth and slip."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import ModelError
from tiburon.functions.contact import contacts_among

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

__all__ = ["ContactSummary", "summarize_contacts"]

Array = NDArray[np.float64]


class ContactSummary(NamedTuple):
    """Contacts of a run, one entry per contact point, over all cases and recorded times."""

    names: tuple[str, ...]
    """Name of each point."""

    touching: Array
    """Share of recorded times with a contact force."""

    sticking: Array
    """Share of recorded times with a contact force and no slip."""

    peak_force: Array
    """Largest magnitude of the mean force over a step [N]."""

    depth: Array
    """Deepest penetration [m]; 0 if there is none."""

    slip: Array
    """Longest path slipped while touching [m], from recorded times."""

    residual: float
    """Largest residual of the impulses, relative to the largest impulse of its step; 0 where
    contact forces follow from the state."""

    def __str__(self) -> str:
        width = max(len("contact"), *map(len, self.names))
        head = f"{'contact':{width}}  touching  sticking  peak force  depth      slip"
        lines = [
            f"{name:{width}}  {100 * t:6.1f} %  {100 * s:6.1f} %  {f:8.4g} N  {d:.1e} m  {p:.3g} m"
            for name, t, s, f, d, p in zip(
                self.names,
                self.touching,
                self.sticking,
                self.peak_force,
                self.depth,
                self.slip,
                strict=True,
            )
        ]
        return "\n".join([head, *lines, f"largest residual of impulses: {self.residual:.1e}"])


def summarize_contacts(run: "Trajectory") -> ContactSummary:
    """Return the contacts of a run in short.

    Raises:
        ModelError: If the run has no contact.
    """
    candidates = () if run.system is None else run.system.candidates
    if not candidates:
        raise ModelError(
            f"run of {run.model.name!r}: expected contacts, got none; simulate in a world with "
            "ground, or with contact_pairs"
        )
    names = tuple(name for candidate in candidates for name in candidate.point_names)
    column = run.header.column("z")
    assert column is not None
    assert column.labels is not None
    first = column.labels.index(f"{names[0]}.force_x")
    cases = run.z.reshape(len(run), -1, len(column.labels))
    values = cases[..., first : first + 4 * len(names)].reshape(*cases.shape[:2], -1, 4)
    force = np.linalg.norm(values[..., :3], axis=-1)
    touched = force > 0.0
    q, v = (array.reshape(len(run), -1, array.shape[-1]) for array in (run.q, run.v))
    alive: NDArray[np.bool_] = np.all(np.isfinite(q), axis=-1, keepdims=True)
    shown = alive[..., 0]
    depth, speed = np.zeros(force.shape), np.zeros(force.shape)
    found = contacts_among(run.model, candidates, q[shown], v[shown])
    assert found.velocity is not None
    depth[shown] = np.maximum(-found.gap, 0.0)
    normal = np.sum(found.velocity * found.normal, axis=-1, keepdims=True) * found.normal
    speed[shown] = np.linalg.norm(found.velocity - normal, axis=-1)
    speed[~touched] = 0.0
    path = np.sum(0.5 * (speed[1:] + speed[:-1]) * np.diff(run.time)[:, None, None], axis=0)
    count = max(int(alive.sum()), 1)
    return ContactSummary(
        names,
        np.sum(touched & alive, axis=(0, 1)) / count,
        np.sum(touched & (values[..., 3] > 0.5) & alive, axis=(0, 1)) / count,
        np.nanmax(np.where(alive, force, 0.0), axis=(0, 1)),
        depth.max(axis=(0, 1)),
        path.max(axis=0),
        _largest_residual(cases, column.labels),
    )


def _largest_residual(cases: Array, labels: tuple[str, ...]) -> float:
    """Return the largest residual of impulses; 0 for models of contact without any."""
    where = [place for place, label in enumerate(labels) if label == "contact.residual"]
    return float(np.nanmax(cases[..., where])) if where else 0.0
