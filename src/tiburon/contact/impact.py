"""Collisions: impulses that stop an approach, and the least motion out of a penetration.

Two phases (Featherstone 1987, eqs. 9.75-9.83): compression ends when no contact approaches, and
decompression returns Poisson's share of each normal impulse; contacts that separate are left out
first. Friction acts in both phases, on the exact cone of the total impulse.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.setting import Setting
from tiburon.contact.candidates import Candidate, surfaces_of
from tiburon.contact.rigid import compliance_of, solve_impulses
from tiburon.contact.rows import along, contact_rows, in_world
from tiburon.model import Plan
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced

__all__ = ["collide", "lifting"]

TOLERANCE = 1e-13
"""Residual of the impulses at which solvers end, relative to the largest impulse."""

REMOTE = 1e9
"""Normal velocity that keeps a contact point out of a problem [m/s]."""


def collide(
    setting: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
    touching: float,
) -> dict[str, Any]:
    """Return what a collision does, by name; see `tiburon.functions.contact.Impact`.

    Args:
        setting: The robot.
        q: Position [m or rad], nq scalars.
        v: Joint velocity before [m/s or rad/s], nv scalars.
        candidates: The shapes that may touch.
        p: Their run-time parameters.
        touching: Gap up to which they touch [m].
    """
    points = contact_rows(setting.plan, q, candidates, p)
    compliance = compliance_of(setting.plan, q, points)
    surfaces = surfaces_of(candidates, p, [point.geometry for point in points])
    before = [along(row, v) for point in points for row in point.rows]
    closed = [point.geometry.gap <= touching for point in points]
    b = list(before)
    for k, one in enumerate(closed):
        b[3 * k + 2] = np.where(one, before[3 * k + 2], REMOTE)
    mu = [surface.kinetic_friction for surface in surfaces]
    none = [0.0] * len(points)
    start = [0.0] * len(before)
    compressed = solve_impulses(compliance, b, mu, none, start, tolerance=TOLERANCE)
    least = [
        (1.0 + surface.restitution) * compressed.p[3 * k + 2] for k, surface in enumerate(surfaces)
    ]
    found = solve_impulses(compliance, b, mu, least, compressed.p, tolerance=TOLERANCE)
    change = compliance.response(found.y)
    after = [a + b for a, b in zip(v, change, strict=True)]
    # sum of impulse and mean velocity at the contacts: work done on the robot
    work: Scalar = 0.0
    for k, point in enumerate(points):
        for axis in range(3):
            mean = 0.5 * (before[3 * k + axis] + along(point.rows[axis], after))
            work = work + found.p[3 * k + axis] * mean
    normal = [along(point.rows[2], after) for point in points]
    speeds = [np.abs(before[3 * k + 2]) for k in range(len(points))]
    stays = [
        np.where(one & (u <= 1e-9 * (1.0 + speed)), 1.0, 0.0)
        for one, u, speed in zip(closed, normal, speeds, strict=True)
    ]
    impulses = [
        in_world(point, [-x for x in found.p[3 * k : 3 * k + 3]]) for k, point in enumerate(points)
    ]
    return {
        "v": as_traced(after),
        "impulses": as_traced([x for one in impulses for x in one]).reshape(-1, 3),
        "energy_change": work,
        "touching": as_traced(stays),
        "residual": found.residual,
    }


def lifting(
    plan: Plan, q: Sequence[Scalar], candidates: Sequence[Candidate], p: Sequence[Scalar]
) -> Sequence[Scalar]:
    """Return the least motion in the mass metric that opens all gaps to first order, nv scalars."""
    points = contact_rows(plan, q, candidates, p)
    compliance = compliance_of(plan, q, points)
    b = [x for point in points for x in (0.0, 0.0, point.geometry.gap)]
    none = [0.0] * len(points)
    found = solve_impulses(compliance, b, none, none, [0.0] * len(b))
    return compliance.response(found.y)
