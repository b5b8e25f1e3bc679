"""How a robot with loops can move at a pose: freedoms, repeated constraints, what drives it.

Counting (`topology`) knows no lengths; the rank of the loops' Jacobian does. Redundant constraints
are those that repeat others at the pose; a pose is singular where more freedoms appear than there
are beside it.

Symbols (Nahon 1991, chapters 2 and 3):
    J, M    Jacobian of the loops; mobility: freedoms that are left, nv less its rank (eq. 3.42)
    g_a, r  driven freedoms, and how many more they are than M (eq. 2.15)
    J_u     columns of the joints that nothing drives, in the Jacobian of all cycles (eq. 3.45)
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.jacobian import jacobian_columns
from tiburon.algorithms.kinematics import body_places
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.errors import DomainError, ShapeError, UnknownNameError
from tiburon.loops.assembly_joint import places_of
from tiburon.loops.constraints import constraint_names, constraints
from tiburon.loops.metric import checked_tolerance, rank_cut
from tiburon.loops.mobility_jacobian import RANK, condition, cycle_jacobian, rank_of
from tiburon.loops.mobility_words import constraint_words, mobility_words
from tiburon.loops.topology import topology
from tiburon.model import Model
from tiburon.record import record

__all__ = ["Mobility", "connectivity", "driven_joints", "mobility", "position_of"]

Array = NDArray[np.float64]

BESIDE = 0.03
"""How far a pose beside the given one is, along a permitted motion [m or rad]."""

CLOSING_STEPS = 12
"""Newton steps that close the loops beside the given pose."""

ROUNDING = 1e-12
"""Gap that counts as closed there [m or rad]."""

FAINT = 1e-6
"""Singular value, relative to the largest, that closing steps beside a singular pose leave out."""

STILL = 1e-7
"""Part of a joint in a permitted motion of length 1 that counts as none."""


@record(eq=False)
class Mobility:
    """How a robot can move at a pose."""

    cycles: int
    """Independent cycles of links and joints."""

    equations: int
    """Constraints that its loops bring."""

    redundant: tuple[str, ...]
    """Those that repeat earlier ones at this pose, in words."""

    mobility: int
    """Freedoms at this pose."""

    regular_mobility: int
    """Freedoms at a pose beside it: fewer where this one is singular."""

    counted_mobility: int
    """Freedoms by the Chebyshev-Gruebler count."""

    driven: tuple[str, ...]
    """Joints that something drives."""

    redundancy: int
    """r: driven freedoms more than the mobility; negative where they are too few."""

    loose: tuple[str, ...]
    """Joints that can move though all driven ones are locked."""

    loose_mobility: int
    """Freedoms that are left when all driven joints are locked."""

    condition: float
    """kappa(J_u): how well the driven joints hold the robot, 1 at best, infinite if they do not;
    lengths in units of `length`."""

    candidates: tuple[str, ...]
    """Joints whose motor could drive at least one freedom."""

    @property
    def is_singular(self) -> bool:
        """Whether there are more freedoms here than beside."""
        return self.mobility > self.regular_mobility

    @property
    def summary(self) -> str:
        """The same in a sentence or two."""
        return mobility_words(self)


@public
def mobility(
    model: Model,
    q: ArrayLike | None = None,
    *,
    driven: Iterable[str] | None = None,
    length: float = 1.0,
    redundancy_tolerance: float = 0.0,
) -> Mobility:
    """Find how a robot can move at a pose, and whether its actuators can drive it.

    The rank of the loops is that at a singular value of 1e-9 of the largest, or of ten times the
    constraint violation at the pose where that is more: what is known no better cannot tell
    constraints apart.

    Args:
        model: The robot, with loops or without.
        q: Position with closed loops [m or rad], shape (nq,); by default its pose "home" or
            "stand" or the neutral one, assembled where its loops are open.
        driven: Names of the joints that have motors; by default those of its actuators and
            cylinders.
        length: Unit of length for `condition` [m].
        redundancy_tolerance: Singular value, relative to the largest, below which constraints count
            as redundant, and loop-closure error [m or rad] up to which a pose counts as closed: for
            linkages whose lengths and axes are given to some digits only.

    Raises:
        DomainError: If the tolerance is not within 0 and 0.01.
        LoopError: If the robot cannot be assembled.

    Example:
        ``print(tb.mobility(tb.load("four_bar")).summary)``
    """
    tolerance = checked_tolerance(redundancy_tolerance)
    at = position_of(model, q, tolerance)
    shape = topology(model)
    names = driven_joints(model) if driven is None else tuple(driven)
    motors = model.indices(names, of="v") if names else np.zeros(0, dtype=np.intp)
    gaps, J = loop_rows(model, at)
    cut = _cut(model, gaps, tolerance)
    free = null_space(J, cut)
    freedoms = int(free.shape[1])
    locked = np.eye(model.nv)[np.unique(motors)]
    loose = null_space(np.vstack([J, locked]), cut)
    cycles = cycle_jacobian(model, shape, at, positive("length", length, "m"))
    undriven = [k for k, name in enumerate(cycles.names) if name not in names]
    return Mobility(
        cycles=shape.cycle_count,
        equations=J.shape[0],
        redundant=tuple(np.array(constraint_words(model))[_repeated(J, cut)].tolist()),
        mobility=freedoms,
        regular_mobility=_regular(model, at, free, freedoms, tolerance),
        counted_mobility=shape.counted_mobility,
        driven=names,
        redundancy=len(np.unique(motors)) - freedoms,
        loose=_moving(model, loose),
        loose_mobility=loose.shape[1],
        condition=float(condition(cycles.matrix[:, undriven], cut)),
        candidates=_moving(model, free),
    )


@public
def connectivity(model: Model, first: str, second: str, q: ArrayLike | None = None) -> int:
    """Count the freedoms of one body as another sees it, at a pose.

    Mobility less that of the robot with both fused (Nahon 1991, eqs. 2.10 and 3.44).

    Args:
        model: The robot.
        first: Name of a body or frame, or "world".
        second: Name of another.
        q: Position with closed loops [m or rad], shape (nq,); as in `mobility`.
    """
    for argument, name in (("first", first), ("second", second)):
        if name not in model.frame_names:
            raise UnknownNameError(
                "body or frame",
                name,
                model.frame_names,
                where=argument,
                listing="model.frame_names",
            )
    at = position_of(model, q)
    gaps, J = loop_rows(model, at)
    cut = _cut(model, gaps)
    both = np.vstack([J, _relative_rows(model, at, first, second)])
    return rank_of(both, cut) - rank_of(J, cut)


def driven_joints(model: Model) -> tuple[str, ...]:
    """Return the joints that actuators and cylinders of a robot drive."""
    found = {actuator.joint for actuator in model.actuators}
    found |= {cylinder.joint for cylinder in model.cylinders if cylinder.joint is not None}
    return tuple(name for name in model.joint_names if name in found)


def _cut(model: Model, gaps: Array, tolerance: float = 0.0) -> float:
    """Return the relative singular value below which constraints are redundant."""
    return float(rank_cut(model, gaps.tolist(), max(RANK, tolerance)))


def position_of(model: Model, q: ArrayLike | None, tolerance: float = 0.0) -> Array:
    """Return a position with closed loops: the given one, or one that the model knows.

    Args:
        model: The robot.
        q: The position, or None.
        tolerance: Loop-closure error that counts as closed where it is more than that of
            `assemble` [m or rad].
    """
    if q is not None:
        at = model.normalize(q)
        if at.ndim != 1:
            raise ShapeError("q", model.describe_q(), f"shape {at.shape}", advice="one pose each")
        return at
    known = next((model.poses[name] for name in ("home", "stand") if name in model.poses), None)
    at = model.neutral() if known is None else np.array(known)
    from tiburon.loops.assembly import CLOSED, assemble, is_closed

    if is_closed(model, at, max(CLOSED, tolerance)):
        return at
    return assemble(model, at, tolerance=max(ROUNDING, tolerance)).q


def loop_rows(model: Model, q: Array) -> tuple[Array, Array]:
    """Return gaps and Jacobian of all loops on plain numbers, shapes (n,) and (n, nv).

    Nothing is compiled: a robot is asked how it can move once or twice.

    Raises:
        DomainError: If a loop has no numbers at this position.
    """
    held = constraints(model, model.plan, [float(x) for x in q])
    J = np.zeros((len(held.value), model.nv))
    for k, row in enumerate(held.jacobian):
        for i, x in row.items():
            J[k, i] = x
    gaps = np.array(held.value, dtype=np.float64)
    broken = ~(np.isfinite(gaps) & np.isfinite(J).all(axis=1))
    if broken.any():
        loop = constraint_names(model)[int(np.argmax(broken))].rpartition(".")[0]
        raise DomainError(
            "q",
            "a position at which all loops have numbers",
            f"none of loop {loop!r}",
            advice="a function is outside its domain there, an edge stands on end or a disc lies "
            "flat: take another position",
        )
    return gaps, J


def null_space(J: Array, cut: float = RANK) -> Array:
    """Return permitted velocities of length 1 and normal to each other, shape (nv, freedoms)."""
    if not J.shape[0]:
        return np.eye(J.shape[1])
    _, sizes, rows = np.linalg.svd(J)
    rank = int(np.count_nonzero(sizes > cut * sizes[0])) if sizes.size and sizes[0] > 0.0 else 0
    return np.asarray(rows[rank:].T)


def _moving(model: Model, free: Array) -> tuple[str, ...]:
    """Return the joints that take part in some permitted motion."""
    sizes = np.linalg.norm(free, axis=1)
    return tuple(
        joint.name
        for joint in model.joints
        if joint.nv and bool(np.any(sizes[model.slice(joint.name, of="v")] > STILL))
    )


def _repeated(J: Array, cut: float) -> list[int]:
    """Return the rows that are combinations of earlier ones."""
    basis = np.zeros((0, J.shape[1]))
    scale = float(np.abs(J).max(initial=0.0))
    found = []
    for k, row in enumerate(J):
        # twice, as once leaves rounding errors of the size of the whole row
        left = row - basis.T @ (basis @ row)
        left = left - basis.T @ (basis @ left)
        size = float(np.linalg.norm(left))
        if size <= cut * scale:
            found.append(k)
        else:
            basis = np.vstack([basis, left / size])
    return found


def _regular(model: Model, q: Array, free: Array, freedoms: int, tolerance: float) -> int:
    """Return the freedoms beside a pose: singular ones have more than their neighbors."""
    if not model.loops or not freedoms:
        return freedoms
    step = free @ np.random.default_rng(2).standard_normal(freedoms)
    at = model.integrate(q, BESIDE * step / np.linalg.norm(step))
    for _ in range(CLOSING_STEPS):
        gaps, J = loop_rows(model, at)
        if float(np.abs(gaps).max(initial=0.0)) < ROUNDING:
            break
        at = model.integrate(at, -np.linalg.lstsq(J, gaps, rcond=FAINT)[0])
    return min(freedoms, int(null_space(J, _cut(model, gaps, tolerance)).shape[1]))


def _relative_rows(model: Model, q: Array, first: str, second: str) -> Array:
    """Return the motion of one body seen from another per joint velocity, shape (6, nv)."""
    plan, position = model.plan, [float(x) for x in q]
    places = body_places(plan, position)
    point = places_of(model, q)[second].p
    rows = np.zeros((6, model.nv))
    for name, sign in ((second, 1.0), (first, -1.0)):
        columns = jacobian_columns(plan, position, places, plan.frame(name).body, point)
        for variable, motion in columns.items():
            rows[:, variable] += sign * np.array([*motion.angular, *motion.linear])
    return rows
