"""Checks before a load is shared: infeasible motions, contacts and grasps.

`LoadSharing.share` is short and computes forces for any motion it is given. These checks report by
name why a robot cannot perform a motion: loops that would open, contacts that do not touch, degrees
of freedom that no actuator drives, grasps without force closure.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import DomainError, LoopError, ModelError
from tiburon.functions.closed_loops import constraint_residual
from tiburon.functions.contact import contacts_among
from tiburon.load_sharing.sites import SITE_VALUES
from tiburon.loops.constraints import constraint_names
from tiburon.trace.primitives.quadratic import OPTIMAL, solve_qp

if TYPE_CHECKING:
    from tiburon.functions.load_sharing import LoadSharing

OPEN_RESIDUAL = 1e-6
"""Residual of a closed loop [m or rad], and rate at which it opens relative to the motion."""

OPENING_ACCELERATION = 1e-4
"""Acceleration at which a loop opens, relative to that of the motion; differences find its bias."""

STEP = 1e-6
"""Of central differences along the velocity [s]."""

MAX_GAP = 1e-3
"""Gap up to which a contact touches [m]."""

RANK_TOLERANCE = 1e-9
"""Singular value relative to the largest that counts as zero."""

PYRAMID_SIDES = 16
"""Sides of the pyramids inside friction cones."""

FORCE_CLOSURE_MARGIN = 1e-7
"""Least part of the normal forces by which all limits must be kept for force closure."""


class ForceClosure(NamedTuple):
    """Whether contacts can hold a body against any wrench."""

    is_closed: bool
    """Whether some internal force presses all contacts, strictly within friction."""

    margin: float
    """Largest distance of an internal force from all limits, per sum of normal forces."""

    free: tuple[str, ...]
    """Velocity variables along which no force of the contacts acts."""

    internal: Array
    """That internal force over the unknowns, its normal forces adding up to 1 N; zeros if none."""


def loose_names(plan: "LoadSharing", A1: Array) -> tuple[str, ...]:
    """Return the velocity variables that take part in motions that no actuator drives.

    Args:
        plan: The plan.
        A1: Its equations in one state, shape (equations, unknowns).
    """
    if not A1.size:
        return plan.equation_names if A1.shape[0] else ()
    U, sizes, _ = np.linalg.svd(A1, full_matrices=True)
    largest = float(sizes.max(initial=0.0))
    rank = int(np.sum(sizes > RANK_TOLERANCE * largest)) if largest > 0.0 else 0
    parts = np.abs(U[:, rank:]).max(axis=1, initial=0.0)
    return tuple(name for name, part in zip(plan.equation_names, parts, strict=True) if part > 1e-6)


def check_motion(
    plan: "LoadSharing",
    q: Array,
    v: Array,
    vd: Array,
    touching: Array,
    max_gap: float,
    sites: Array,
    around: Mapping[str, Any],
) -> None:
    """Raise an error if the robot cannot perform a motion in one state.

    Args:
        plan: The plan.
        q: Configuration [m or rad], shape (nq,).
        v: Joint velocity [m/s or rad/s], shape (nv,).
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (nv,).
        touching: 1 for each contact, loop, thruster and cable that takes part.
        max_gap: Gap up to which a contact touches [m].
        sites: Run-time values of contact sites.
        around: What acts on the robot, and when: keywords of `Conditions`.

    Raises:
        LoopError: If loops are open, or the motion opens them.
        DomainError: If a contact that should carry load does not touch.
        ModelError: If no actuator drives some degree of freedom.
    """
    model, layout = plan.model, plan.layout
    if model.loops:
        _check_loops(plan, q, v, vd, touching, around)
    if plan.candidates:
        here = contacts_among(model, plan.contacts, q, time=around.get("time"))
        gaps = dict(zip(here.names, np.asarray(here.gap), strict=True))
        for group, on in zip(layout.groups[: layout.points], touching, strict=False):
            gap = gaps.get(group.name)
            if on and gap is not None and gap > max_gap:
                raise DomainError(
                    "touching",
                    f"contacts that touch within {1e3 * max_gap:g} mm",
                    f"{group.name!r} with a gap of {1e3 * gap:.3g} mm",
                    advice="lower it, or pass touching= with a 0 for it",
                )
    problem = plan.problem(q, v, vd, touching=touching, sites=_points(plan, sites), **around)
    loose = loose_names(plan, np.asarray(problem.A1))
    if loose:
        count = sum(len(g.kinds) for g, on in zip(layout.groups, touching, strict=True) if on)
        r = count - len(layout.undriven)
        raise ModelError(
            f"model {model.name!r}: no actuator drives {', '.join(loose)} (redundancy {r} with "
            f"{count} forces for {len(layout.undriven)} equations); let more contacts touch, drive "
            "more joints, or pass relax=True to produce the nearest motion",
            name=loose[0],
        )


def _points(plan: "LoadSharing", values: Array) -> dict[str, Array]:
    """Return points and normals of contact sites by name."""
    rows = np.reshape(values, (-1, SITE_VALUES))
    return {site.name: row[:6] for site, row in zip(plan.sites, rows, strict=True)}


def _check_loops(
    plan: "LoadSharing",
    q: Array,
    v: Array,
    vd: Array,
    touching: Array,
    around: Mapping[str, Any],
) -> None:
    """Raise an error if loops that take part are open, or open by the motion."""
    model, layout = plan.model, plan.layout
    first = layout.points
    names = [name.rpartition(".")[0] for name in constraint_names(model)]
    taking = {
        group.name for group, on in zip(layout.groups[first:], touching[first:], strict=True) if on
    }
    now: Any = {} if around.get("time") is None else {"time": around["time"]}
    residual = np.asarray(constraint_residual(model, q, **now))
    open_by: dict[str, float] = {}
    for name, x in zip(names, residual, strict=True):
        if name in taking:
            open_by[name] = max(open_by.get(name, 0.0), abs(float(x)))
    worst = max(open_by, key=open_by.__getitem__, default=None)
    if worst is not None and open_by[worst] > OPEN_RESIDUAL:
        raise LoopError(
            f"loop {worst!r}: expected a closed one, got one open by {open_by[worst]:.3g} m or "
            "rad; assemble(model, q) closes it",
            open_by,
        )

    def columns(at: Array) -> Array:
        # all velocity variables have an equation in this formulation: J^T over x
        found = plan.problem(at, touching=touching, formulation="superposition", **around).A1
        return np.asarray(found)[:, : layout.size]

    J = columns(q)
    rates = v @ J
    moved = [columns(model.integrate(q, side * STEP * v)) for side in (1.0, -1.0)]
    accelerations = vd @ J + v @ (moved[0] - moved[1]) / (2.0 * STEP)
    scale = float(np.abs(J).max(initial=0.0))
    speed, sizes = float(np.abs(v).max(initial=0.0)), float(np.abs(vd).max(initial=0.0))
    for group in layout.groups[first : first + len(model.loops)]:
        places = list(group.places)
        rate = float(np.abs(rates[places]).max(initial=0.0))
        if rate > OPEN_RESIDUAL * (scale * speed + OPEN_RESIDUAL):
            raise LoopError(
                f"loop {group.name!r}: expected a velocity that keeps it closed, got one that "
                f"opens it at {rate:.3g} m/s or rad/s; project_velocity(model, q, v) removes that",
                {group.name: rate},
            )
        opens = float(np.abs(accelerations[places]).max(initial=0.0))
        if opens > OPENING_ACCELERATION * (scale * (sizes + speed * speed) + OPENING_ACCELERATION):
            raise LoopError(
                f"loop {group.name!r}: expected an acceleration that keeps it closed, got one that "
                f"opens it at {opens:.3g} m/s^2 or rad/s^2; take it from loop_dynamics or from a "
                "path that closes the loops",
                {group.name: opens},
            )


def force_closure(
    plan: "LoadSharing", q: Array, touching: Array, sites: Array, around: Mapping[str, Any]
) -> ForceClosure:
    """Return whether contacts and grips hold what they touch against any wrench.

    Torque limits do not count: closure is a matter of contacts (Nahon 1991, section 4.4.1).

    Args:
        plan: The plan.
        q: Configuration [m or rad], shape (nq,).
        touching: 1 for each contact, loop, thruster and cable that takes part.
        sites: Run-time values of contact sites.
        around: What acts on the robot, and when: keywords of `Conditions`.
    """
    inner = plan.with_pyramids(PYRAMID_SIDES)
    problem: Any = inner.problem(q, touching=touching, sites=_points(plan, sites), **around)
    A1, A2 = np.asarray(problem.A1), np.asarray(problem.A2)
    n = A1.shape[1]
    normals = [
        group.normal
        for group, on in zip(plan.layout.groups, touching, strict=True)
        if on and group.normal is not None
    ]
    free = loose_names(plan, A1)
    held = [
        k
        for k, name in enumerate(inner.limit_names)
        if name.endswith(": pushes") or ": friction" in name or ": torsion" in name
        or ": center of pressure" in name
    ]  # fmt: skip
    idle = {group.name for group, on in zip(plan.layout.groups, touching, strict=True) if not on}
    held = [k for k in held if inner.limit_names[k].partition(": ")[0] not in idle]
    nothing = ForceClosure(False, 0.0, free, np.zeros(len(plan.names)))
    if not normals or not held:
        return nothing
    rows = A2[held]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    # the largest d with rows x >= d, A1 x = 0, normal forces that add up to 1
    sizes = np.linalg.norm(A1, axis=1)
    equations = A1[sizes > 0.0] / sizes[sizes > 0.0, None]
    total = np.zeros(n)
    total[normals] = 1.0
    off = [i for group, on in zip(plan.layout.groups, touching, strict=True) if not on
           for i in group.places]  # fmt: skip
    fixed = np.eye(n)[off]
    W = np.diag([1e-8] * n + [1.0])
    c = np.zeros(n + 1)
    # any d is below 1: its square about 1 pulls it up
    c[n] = -1.0
    found = solve_qp(
        W,
        c,
        np.hstack(
            [np.vstack([equations, fixed, total]), np.zeros((len(equations) + len(off) + 1, 1))]
        ),
        np.concatenate([np.zeros(len(equations) + len(off)), [1.0]]),
        np.hstack([rows, -np.ones((len(rows), 1))]),
        np.zeros(len(rows)),
    )
    if found.status != OPTIMAL:
        return nothing
    x = np.asarray(found.x)
    margin = float(x[n])
    internal = x[: len(plan.names)]
    return ForceClosure(margin > FORCE_CLOSURE_MARGIN and not free, margin, free, internal)
