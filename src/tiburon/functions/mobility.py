"""Mobility of a robot with loops at a configuration, redundant constraints, and motor sets.

The count of `topology` ignores dimensions; the rank of the constraint Jacobian does not. A
configuration is singular where the mobility exceeds that of nearby configurations.

Rounded lengths and axes of an overconstrained linkage leave constraints that are redundant except
for the rounding. They then disagree by a residual that no joint can reduce, or the linkage closes
in one configuration only and is rigid there.

The rates of all joints around a cycle sum to zero: J_c' qd' = 0 (Nahon 1991, eqs. 3.32 to 3.34).
Locking the actuated joints leaves the columns of the others, J_u. Its nullity is the number of
degrees of freedom that the motors cannot hold, its condition number kappa(J_u) measures how well
they hold the rest (eqs. 3.45 to 3.52). `motor_sets` ranks choices of actuated joints by kappa(J_u);
more motors make it smaller (section 3.5).

Symbols (Nahon 1991, chapters 2 and 3):
    J, M    constraint Jacobian; mobility: nv minus its rank (eq. 3.42)
    e       constraint residual
    g_a, r  actuated degrees of freedom, and their excess over M (eq. 2.15)
    J_u     columns of the passive joints in the Jacobian of all cycles (eq. 3.45)
"""

import functools
import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import body_places, jacobian_columns
from tiburon.argument_checks import at_least, positive
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, LoopError, ModelError, ShapeError, UnknownNameError
from tiburon.functions.closed_loops import constraint_residual, loop_jacobian
from tiburon.functions.compilation import compile
from tiburon.functions.dynamics import mass_matrix
from tiburon.functions.parameters import geometry_of, without_closures
from tiburon.loops.constraints import Row, constraint_names, constraints, jacobian_pattern
from tiburon.loops.cut_joints import about, joint_screws, places_of
from tiburon.loops.metric import (
    CUT_PER_RESIDUAL,
    MAX_CUT,
    MIN_CUT,
    OVERCONSTRAINED_CUT,
    checked_tolerance,
    max_cut,
    rank_cut,
)
from tiburon.loops.projection import CLOSURE_TOLERANCE, MAX_RESIDUAL
from tiburon.loops.topology import Topology, topology
from tiburon.model import JointCoupling, LoopClosure, Model, TracedClosure
from tiburon.model.body import WORLD
from tiburon.model.joint_constraints import Advance, Measure, Offset, Tilt, Turn
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.notebook import notebook_table
from tiburon.record import record
from tiburon.spatial import Vec3
from tiburon.trace.primitives import singular
from tiburon.trace.program import Input, trace

if TYPE_CHECKING:
    from collections.abc import Mapping

REDUCIBLE_SHARE = 0.01
"""Part of a residual that joints could still reduce where Newton steps have converged."""

REDUNDANCY_PROBE_DISTANCE = 0.1
"""Step along motions that constraints barely resist [m or rad]."""

RETURNED_SHARE = 0.3
"""Part of that distance within which a configuration closed again is the old one: rigid there."""

MOST_STEPS = 30
"""Newton steps that close loops."""

LEAST_ADVISED_TOLERANCE = 1e-6
"""Smallest tolerance that is advised: along a motion constraints come to disagree by more."""

MOST_LISTED = 4
"""Constraints that a message names."""


def is_disagreement(J: Array, residuals: Array) -> bool:
    """Return whether constraint values are a residual that no joint can reduce.

    Args:
        J: constraint Jacobian, shape (constraints, nv).
        residuals: Constraint values where Newton steps ended [m or rad], shape (constraints,).
    """
    size = float(np.linalg.norm(residuals))
    if not CLOSURE_TOLERANCE < size <= OVERCONSTRAINED_CUT:
        return False
    columns, sizes, _ = np.linalg.svd(J, full_matrices=False)
    cut = min(OVERCONSTRAINED_CUT, max(MAX_CUT, 10.0 * size))
    kept = columns[:, sizes > cut * sizes[0]]
    # rounding of what joints can reduce
    return float(np.linalg.norm(kept.T @ residuals)) <= REDUCIBLE_SHARE * size + CLOSURE_TOLERANCE


def closed_nearby(model: Model, q: Array) -> tuple[Array, Array, Array]:
    """Close loops as far as they can be, by Newton steps without nearly redundant constraints.

    Args:
        model: The robot; it has loops.
        q: Configuration [m or rad], shape (nq,).

    Returns:
        The configuration, constraint values and Jacobian there.
    """
    residuals, J = loop_rows(model, q)
    for _ in range(MOST_STEPS):
        cut = min(OVERCONSTRAINED_CUT, max(MAX_CUT, 10.0 * float(np.abs(residuals).max())))
        change = np.linalg.lstsq(J, -residuals, rcond=cut)[0]
        q = model.integrate(q, change)
        residuals, J = loop_rows(model, q)
        if np.abs(change).max() <= CLOSURE_TOLERANCE:
            break
    return q, residuals, J


def check_disagreement(model: Model, q: Array, tolerance: float) -> None:
    """Refuse a configuration whose loops are as closed as they can be, and not closed.

    Args:
        model: The robot; it has loops.
        q: Configuration where Newton steps ended [m or rad], shape (nq,).
        tolerance: Loop-closure error that is accepted [m or rad].

    Raises:
        LoopError: If constraints disagree by more.
    """
    residuals, J = loop_rows(model, q)
    if np.abs(residuals).max(initial=0.0) > max(MAX_RESIDUAL, tolerance) and is_disagreement(
        J, residuals
    ):
        raise nearly_redundant(model, residuals)


def check_weak_constraints(model: Model, q: Array, tolerance: float) -> None:
    """Refuse a closed configuration that is rigid only by constraints that are nearly redundant.

    Args:
        model: The robot; it has loops.
        q: Configuration with closed loops [m or rad], shape (nq,).
        tolerance: Relative singular value below which constraints are redundant.

    Raises:
        LoopError: If constraints that barely resist a motion disagree by little along it.
    """
    # a matter of lengths and axes: one configuration of a model is enough
    checked = model.derived.setdefault(check_weak_constraints, set())
    if tolerance in checked:
        return
    _, J = loop_rows(model, q)
    _, sizes, rows = np.linalg.svd(J, full_matrices=False)
    relative = sizes / max(float(sizes.max(initial=0.0)), math.ulp(0.0))
    weak = (relative > max(MIN_CUT, tolerance)) & (relative <= MAX_CUT)
    for direction, size in zip(rows[weak], relative[weak].tolist(), strict=True):
        step = REDUNDANCY_PROBE_DISTANCE * direction / np.abs(direction).max()
        at, residuals, J = closed_nearby(model, model.integrate(q, step))
        moved = float(np.abs(model.difference(q, at)).max())
        open_by = float(np.abs(residuals).max())
        if (
            moved > (1.0 - RETURNED_SHARE) * REDUNDANCY_PROBE_DISTANCE
            and open_by > CLOSURE_TOLERANCE
            and is_disagreement(J, residuals)
        ):
            raise nearly_redundant(model, residuals, size)
    checked.add(tolerance)


def nearly_redundant(model: Model, residuals: Array, weakest: float = 0.0) -> LoopError:
    """Return the error about constraints that disagree.

    Args:
        model: The robot; it has loops.
        residuals: Constraint residual [m or rad], shape (constraints,).
        weakest: Relative singular value of a constraint that keeps it rigid.
    """
    sizes = np.abs(residuals)
    largest = float(sizes.max())
    words = constraint_words(model)
    order = [k for k in np.argsort(-sizes, kind="stable").tolist() if sizes[k] > 0.01 * largest]
    listed = ", ".join(f"{words[k]} by {sizes[k]:.2g}" for k in order[:MOST_LISTED])
    more = f" and {len(order) - MOST_LISTED} more" if len(order) > MOST_LISTED else ""
    accepted = 10.0 ** math.ceil(
        math.log10(max(LEAST_ADVISED_TOLERANCE, 5.0 * max(largest, weakest)))
    )
    by_loop: dict[str, float] = {loop.name: 0.0 for loop in model.loops}
    for word, size in zip(words, sizes.tolist(), strict=True):
        name = word.split(": ")[0]
        by_loop[name] = max(by_loop[name], size)
    return LoopError(
        f"model {model.name!r}: nearly redundant: these constraints disagree by {largest:.2g} m or "
        f"rad: {listed}{more}; give lengths and axes with more digits, or accept it with "
        f"redundancy_tolerance={accepted:g} (mobility, simulate) or tolerance={accepted:g} "
        "(assemble)",
        by_loop,
    )


# -- singular configurations -----------------------------------------------------------------------


NEAR_SINGULAR_TOLERANCE = 1e-5
"""Singular value, relative to the largest, below which constraints are redundant."""


def smallest_singular_value(
    model: Model,
    q: ArrayLike,
    *,
    time: ArrayLike | None = None,
    parameters: "Mapping[str, Array] | None" = None,
) -> Array:
    """Return the smallest over the largest singular value of the constraints.

    Near zero, the robot is near a singular configuration. The values are those of J L^-T with
    H = L L^T: velocities are measured by their kinetic energy. Constraints that are redundant in
    all given configurations are left out.

    Args:
        model: The robot; it has loops.
        q: Positions [m or rad], shape (n, nq).
        time: When [s], shape (n,), where `Driven` joints move by themselves.
        parameters: Tables of parameters of each position where they differ, shape (n, parameters).
    """
    J = loop_jacobian(model, q, time=time, parameters=geometry_of(parameters))
    tree, rows = without_closures(model, parameters)
    H = mass_matrix(tree, q, time=time, parameters=rows)
    G = np.linalg.solve(np.linalg.cholesky(H), np.swapaxes(J, -1, -2))
    s = np.linalg.svd(G, compute_uv=False)
    rank = int(np.sum(s > NEAR_SINGULAR_TOLERANCE * s[..., :1], axis=-1).max(initial=1))
    found: Array = s[..., rank - 1] / s[..., 0]
    return found


RANK_TOLERANCE = 1e-9
"""Singular value, relative to the largest, below which rows of a Jacobian count as dependent.

Positions closed to 1e-12 with arms of meters leave errors of some 1e-12; `rank_cut` raises it where
loops are open by more.
"""


class CycleJacobian(NamedTuple):
    """J_c' and whose columns it has."""

    matrix: Array
    """Six rows per cycle, angular part first, world axes, then one per tie between joints and one
    per residual of a function; shape (rows, columns)."""

    names: tuple[str, ...]
    """The joint each column belongs to; the loop where a joint closes one."""


def cycle_jacobian(model: Model, shape: Topology, q: Array, length: float = 1.0) -> CycleJacobian:
    """Build the Jacobian of all cycles.

    Args:
        model: The robot.
        shape: Its topology.
        q: Position with closed loops [m or rad], shape (nq,).
        length: Unit of length of the rows [m], on which kappa depends.
    """
    at = joint_screws(model, q)
    names = [""] * at.size
    for line in shape.joints:
        for variable in at.of[line.name].variables:
            # a follower has its leader's variables, which come first
            names[variable] = names[variable] or line.name
    point = np.array(at.places[_reference(shape)].p, dtype=np.float64)
    ties = _tie_rows(model, q)
    matrix = np.zeros((6 * len(shape.cycles) + len(ties), at.size))
    for number, cycle in enumerate(shape.cycles):
        rows = slice(6 * number, 6 * number + 6)
        for name, sense in cycle:
            columns, variables = at.of[name]
            moved = about(columns, point)
            moved[3:] /= length
            for k, variable in enumerate(variables):
                matrix[rows, variable] += sense * moved[:, k]
    for number, row in enumerate(ties, start=6 * len(shape.cycles)):
        for variable, slope in row.items():
            matrix[number, variable] = slope
    # joints that bind nothing inside a cycle have no part in it
    idle = {line.name for line in shape.joints if line.is_placeholder}
    kept = [k for k, name in enumerate(names) if name not in idle]
    return CycleJacobian(matrix[:, kept], tuple(names[k] for k in kept))


def _tie_rows(model: Model, q: Array) -> list[Row]:
    """Return the constraints that no loop joint has: joint couplings and residual functions."""
    joined = {loop.name for loop in model.loops if isinstance(loop, LoopClosure)}
    rows = constraints(model, model.plan, [float(x) for x in q]).jacobian
    names = (name.rpartition(".")[0] for name in constraint_names(model))
    return [row for row, name in zip(rows, names, strict=True) if name not in joined]


def _reference(shape: Topology) -> str:
    """Return the body at whose origin rates are expressed: the moving pole, if there is one."""
    return next((pole for pole in reversed(shape.poles) if pole != WORLD), WORLD)


def rank_of(matrix: Array, cut: float = RANK_TOLERANCE) -> int:
    """Return the number of independent rows or columns.

    Args:
        matrix: Shape (rows, columns).
        cut: Singular value, relative to the largest, below which they are dependent.
    """
    if not matrix.size:
        return 0
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return int(np.count_nonzero(sizes > cut * sizes[0])) if sizes[0] > 0.0 else 0


def condition(matrix: Array, cut: float = RANK_TOLERANCE) -> Array:
    """Return largest over smallest singular value of matrices, infinite where columns depend.

    Args:
        matrix: Shape (..., rows, columns).
        cut: As in `rank_of`.

    Returns:
        Shape (...); 1 where there are no columns.
    """
    rows, columns = matrix.shape[-2:]
    if columns == 0:
        return np.ones(matrix.shape[:-2])
    if rows < columns:
        return np.full(matrix.shape[:-2], np.inf)
    sizes = np.linalg.svd(matrix, compute_uv=False)
    lost = sizes[..., -1] <= cut * sizes[..., 0]
    return np.where(lost, np.inf, sizes[..., 0] / np.where(lost, 1.0, sizes[..., -1]))


# -- descriptions in words -------------------------------------------------------------------------


MOST_NAMES = 8
"""Joints that a sentence lists."""


def constraint_words(model: Model) -> tuple[str, ...]:
    """Return what each constraint forbids, such as "closure: offset along x".

    Axes are those of the frame in which the loop's joint stands.

    Returns:
        One phrase per constraint, in the order of `constraint_residual`.
    """
    found = []
    for loop in model.loops:
        if isinstance(loop, JointCoupling):
            found.append(f"{loop.name}: tie of {loop.joint}")
        elif isinstance(loop, TracedClosure):
            found += [f"{loop.name}: {word}" for word in loop.constraint_labels]
        else:
            found += [
                f"{loop.name}: {_forbidden(measure)}" for measure in loop.joint.loop_constraints()
            ]
    return tuple(found)


def _forbidden(measure: Measure) -> str:
    if isinstance(measure, Offset):
        return f"offset along {_axis(measure.axis)}"
    if isinstance(measure, Turn):
        return f"turn about {_axis(measure.axis)}"
    if isinstance(measure, Tilt):
        return f"lean along {_axis(measure.along)}"
    if isinstance(measure, Advance):
        return f"advance along {_axis(measure.axis)}"
    return type(measure).__name__.lower()


def _axis(axis: Vec3) -> str:
    """Return a coordinate axis by its letter, any other by its numbers."""
    for letter, x in zip("xyz", axis, strict=True):
        if abs(x) == 1.0:
            return letter
    return "(" + ", ".join(f"{x:.3g}" for x in axis) + ")"


def mobility_words(found: "Mobility") -> str:
    """Return what a robot can do in one or two sentences."""
    counted = "1 loop equation" if found.equations == 1 else f"{found.equations} loop equations"
    words = f"{counted}, {len(found.redundant)} redundant, mobility {found.mobility}"
    if found.is_singular:
        words += f" (singular pose: {found.regular_mobility} beside it)"
    if found.counted_mobility != found.mobility:
        words += f" (by counting {found.counted_mobility})"
    return f"{words}: {_drive_words(found)}"


def _drive_words(found: "Mobility") -> str:
    if found.mobility == 0:
        return "nothing is left to move"
    if not found.driven:
        if found.mobility == 1:
            return f"any one of {_listed(found.candidates)} can drive it"
        return f"{found.mobility} motors can drive it, at {_listed(found.candidates)}"
    names = _listed(found.driven)
    if found.loose_mobility:
        count = (
            "1 degree of freedom is"
            if found.loose_mobility == 1
            else f"{found.loose_mobility} degrees of freedom are"
        )
        return f"{names} cannot drive it alone, {count} left to {_listed(found.loose)}"
    verb = "can drive it" if len(found.driven) > 1 else "can drive it alone"
    if found.redundancy:
        verb += f", {found.redundancy} more than needed"
    return f"{names} {verb}"


def _listed(names: tuple[str, ...]) -> str:
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


# -- mobility --------------------------------------------------------------------------------------


PROBE_DISTANCE = 0.03
"""How far a pose beside the given one is, along a permitted motion [m or rad]."""

CLOSING_STEPS = 12
"""Newton steps that close the loops beside the given pose."""

CLOSED_RESIDUAL = 1e-12
"""Gap that counts as closed there [m or rad]."""

LEAST_SINGULAR_VALUE = 1e-6
"""Relative singular value that Newton steps near a singular configuration ignore."""

ZERO_MOTION = 1e-7
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
    """Degrees of freedom in this configuration."""

    regular_mobility: int
    """Degrees of freedom in a nearby configuration: fewer where this one is singular."""

    counted_mobility: int
    """Degrees of freedom by the Chebyshev-Gruebler count."""

    driven: tuple[str, ...]
    """Joints that something drives."""

    redundancy: int
    """r: actuated degrees of freedom minus the mobility; negative if there are too few."""

    loose: tuple[str, ...]
    """Joints that can move though all driven ones are locked."""

    loose_mobility: int
    """Degrees of freedom that remain when all driven joints are locked."""

    condition: float
    """kappa(J_u): how well the driven joints hold the robot, 1 at best, infinite if they do not;
    lengths in units of `length`."""

    candidates: tuple[str, ...]
    """Joints whose motor could drive at least one degree of freedom."""

    @property
    def is_singular(self) -> bool:
        """Whether the mobility here exceeds that of nearby configurations."""
        return self.mobility > self.regular_mobility

    @property
    def summary(self) -> str:
        """The same in a sentence or two."""
        return mobility_words(self)

    def _repr_html_(self) -> str:
        """Return a table of the counts, for notebooks."""
        rows = [
            ("mobility here", self.mobility),
            ("mobility nearby", self.regular_mobility),
            ("by the Chebyshev-Gruebler count", self.counted_mobility),
            ("independent cycles", self.cycles),
            ("constraints, redundant", f"{self.equations}, {len(self.redundant)}"),
            ("driven joints", ", ".join(self.driven) or "none"),
            ("actuation redundancy", self.redundancy),
            ("free with motors locked", ", ".join(self.loose) or "nothing"),
            ("condition", f"{self.condition:.4g}"),
        ]
        return notebook_table("Mobility", rows, note=self.summary)


@public
def mobility(
    model: Model,
    q: ArrayLike | None = None,
    *,
    driven: Iterable[str] | None = None,
    length: float = 1.0,
    redundancy_tolerance: float = 0.0,
) -> Mobility:
    """Compute the mobility of a robot in a configuration, and whether its actuators can drive it.

    The rank of the loops is that at a singular value of 1e-9 of the largest, or of ten times the
    constraint violation in that configuration where that is more.

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
    residuals, J = loop_rows(model, at)
    cut = _cut(model, residuals, tolerance)
    free = null_space(J, cut)
    count = int(free.shape[1])
    locked = np.eye(model.nv)[np.unique(motors)]
    loose = null_space(np.vstack([J, locked]), cut)
    cycles = cycle_jacobian(model, shape, at, positive("length", length, "m"))
    undriven = [k for k, name in enumerate(cycles.names) if name not in names]
    return Mobility(
        cycles=shape.cycle_count,
        equations=J.shape[0],
        redundant=tuple(np.array(constraint_words(model))[_repeated(J, cut)].tolist()),
        mobility=count,
        regular_mobility=_regular(model, at, free, count, tolerance),
        counted_mobility=shape.counted_mobility,
        driven=names,
        redundancy=len(np.unique(motors)) - count,
        loose=_moving(model, loose),
        loose_mobility=loose.shape[1],
        condition=float(condition(cycles.matrix[:, undriven], cut)),
        candidates=_moving(model, free),
    )


@record(eq=False)
class MobilityMap:
    """Mobility and conditioning of a robot with loops in many configurations."""

    mobility: NDArray[np.int64]
    """Degrees of freedom, shape (...)."""

    loose_mobility: NDArray[np.int64]
    """Degrees of freedom that remain when all driven joints are locked, shape (...)."""

    condition: Array
    """Condition number of the columns of undriven joints in the constraint Jacobian, infinite where
    driven joints do not hold the robot (singularities of the second kind), shape (...)."""

    smallest: Array
    """Smallest over largest singular value of the constraints that are independent in general: zero
    where the mobility is greater than elsewhere, shape (...)."""

    residual: Array
    """Largest loop-closure error [m or rad], shape (...): of poses that are not closed, the other
    numbers mean nothing."""

    driven: tuple[str, ...]
    """Joints that something drives."""


@public
def mobility_map(
    model: Model,
    q: ArrayLike,
    *,
    driven: Iterable[str] | None = None,
    redundancy_tolerance: float = 0.0,
    threads: int | None = None,
) -> MobilityMap:
    """Compute mobility and conditioning of a robot with loops in many configurations.

    For maps of singularities over a workspace: a hundred thousand poses take about a second. Ranks
    are those of `mobility`. Joints that close loops have no columns in the constraint Jacobian, so
    that `condition` differs from that of `mobility` by a factor; both are infinite in the same
    configurations.

    Args:
        model: The robot; it has loops.
        q: Configurations with closed loops [m or rad], shape (..., nq).
        driven: Names of the joints that have motors; by default those of its actuators and
            cylinders.
        redundancy_tolerance: As `mobility` takes it.
        threads: Most threads to use; one per core by default.

    Returns:
        Arrays with the leading dimensions of q.

    Raises:
        ModelError: If the robot has no loops.

    Example:
        ``tb.mobility_map(robot, q).condition``
    """
    if not model.loops:
        raise ModelError(
            f"mobility_map: model must have loops, got {model.name!r}, a tree, whose mobility is "
            "nv everywhere; take frame_jacobian for the conditioning of a frame",
            name=model.name,
        )
    tolerance = checked_tolerance(redundancy_tolerance)
    at = model.normalize(q)
    lead = at.shape[:-1]
    flat = at.reshape(-1, model.nq)
    names = driven_joints(model) if driven is None else tuple(driven)
    motors = np.unique(model.indices(names, of="v")) if names else np.zeros(0, dtype=np.intp)
    passive = np.setdiff1d(np.arange(model.nv), motors)
    most = None if threads is None else at_least("threads", threads, 1)
    gaps, slopes = compile(constraint_residual, model), compile(loop_jacobian, model)
    pattern = np.array(jacobian_pattern(model), dtype=bool)
    # as `rank_cut` has it for one configuration
    low = max(RANK_TOLERANCE, tolerance)
    high = max(low, max_cut(model))

    def part(rows: Array) -> tuple[Array, ...]:
        worst = np.abs(gaps(rows, threads=most)).max(axis=-1, initial=0.0)
        cut = np.maximum(low, np.minimum(high, CUT_PER_RESIDUAL * worst))
        live = slopes(rows, threads=most)[:, pattern]
        held = np.ascontiguousarray(live[..., passive])
        return worst, cut, singular_values(live, most), singular_values(held, most)

    # in blocks: Jacobians of all configurations would take more memory than the map
    pieces = np.array_split(flat, max(1, len(flat) // MAP_BLOCK))
    found = [part(piece) for piece in pieces]
    worst, cut, sizes, held = (np.concatenate(x) for x in zip(*found, strict=True))
    rank = np.count_nonzero(sizes > cut[:, None] * sizes[:, :1], axis=1)
    held_rank = np.count_nonzero(held > cut[:, None] * held[:, :1], axis=1)
    loose = len(passive) - held_rank
    last = held[:, len(passive) - 1] if held.shape[1] >= len(passive) > 0 else np.ones(len(flat))
    first = held[:, 0] if held.shape[1] else np.ones(len(flat))
    ratio = first / np.where(loose > 0, 1.0, last)
    regular = int(rank.max(initial=1))
    smallest = sizes[:, regular - 1] / sizes[:, 0]
    return MobilityMap(
        mobility=(model.nv - rank).reshape(lead),
        loose_mobility=loose.reshape(lead),
        condition=np.where(loose > 0, np.inf, ratio).reshape(lead),
        smallest=smallest.reshape(lead),
        residual=worst.reshape(lead),
        driven=names,
    )


MAP_BLOCK = 4096
"""Configurations of a map that are computed at once."""

SQUARED_RATIO = 1e-4
"""Ratio of singular values down to which squares of matrices give them: to eps / ratio^2."""


def singular_values(matrices: Array, threads: int | None = None) -> Array:
    """Return the singular values of many small matrices, largest first.

    Square roots of eigenvalues of the smaller Gram matrix, of many matrices side by side, are five
    times faster than LAPACK's; matrices that are so near to singular that squares lose digits get a
    singular value decomposition.

    Args:
        matrices: Shape (n, rows, columns).
        threads: Most threads to use; as many as are worthwhile by default.

    Returns:
        Shape (n, least of rows and columns).
    """
    rows, columns = matrices.shape[-2:]
    if not rows or not columns:
        return np.zeros((len(matrices), 0))
    values, failed = _singular_values_kernel(rows, columns)(
        matrices, errors="flag", threads=threads
    )
    found: Array = np.sort(values, axis=1)[:, ::-1]
    near = failed | (found[:, -1] <= SQUARED_RATIO * found[:, 0])
    if near.any():
        found[near] = np.linalg.svd(matrices[near], compute_uv=False)
    return found


@functools.cache
def _singular_values_kernel(rows: int, columns: int) -> Any:
    program = trace(singular.singular_values, [Input("matrix", (rows, columns))])
    return make_kernel(ProgramSource(program), part="many")


@public
def connectivity(
    model: Model, first: str, second: str, q: ArrayLike | None = None, *, driven: Iterable[str] = ()
) -> int:
    """Count the degrees of freedom of one body relative to another in a configuration.

    Mobility minus that of the robot with both fused (Nahon 1991, eqs. 2.10 and 3.44). With driven
    joints locked, those that remain: C_a (eq. 2.14, whose first term is M_a and which subtracts d).

    Args:
        model: The robot.
        first: Name of a body or frame, or "world".
        second: Name of another.
        q: Position with closed loops [m or rad], shape (nq,); as in `mobility`.
        driven: Names of joints that are locked by their motors; none by default.
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
    residuals, J = loop_rows(model, at)
    cut = _cut(model, residuals)
    names = (driven,) if isinstance(driven, str) else tuple(driven)
    if names:
        J = np.vstack([J, np.eye(model.nv)[np.unique(model.indices(names, of="v"))]])
    both = np.vstack([J, _relative_rows(model, at, first, second)])
    return rank_of(both, cut) - rank_of(J, cut)


def driven_joints(model: Model) -> tuple[str, ...]:
    """Return the joints that actuators and cylinders of a robot drive."""
    found = {actuator.joint for actuator in model.actuators}
    found |= {cylinder.joint for cylinder in model.cylinders if cylinder.joint is not None}
    return tuple(name for name in model.joint_names if name in found)


def _cut(model: Model, residuals: Array, tolerance: float = 0.0) -> float:
    """Return the relative singular value below which constraints are redundant."""
    return float(rank_cut(model, residuals.tolist(), max(RANK_TOLERANCE, tolerance)))


def known_pose(model: Model) -> Array:
    """Return the pose "home" or "stand" of a robot that has one, else the neutral configuration."""
    known = next((model.poses[name] for name in ("home", "stand") if name in model.poses), None)
    return model.neutral() if known is None else np.array(known)


def position_of(model: Model, q: ArrayLike | None, tolerance: float = 0.0) -> Array:
    """Return a position with closed loops: the given one, or one that the model contains.

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
    at = known_pose(model)
    from tiburon.functions.assembly import GIVEN_CLOSED, assemble, is_closed

    if is_closed(model, at, max(GIVEN_CLOSED, tolerance)):
        return at
    return assemble(model, at, tolerance=max(CLOSED_RESIDUAL, tolerance)).q


def loop_rows(model: Model, q: Array) -> tuple[Array, Array]:
    """Return residual and Jacobian of all loops on floats, shapes (n,) and (n, nv).

    Nothing is compiled: mobility is computed once or twice per robot.

    Raises:
        DomainError: If a residual is not finite in this configuration.
    """
    held = constraints(model, model.plan, [float(x) for x in q])
    J = held.dense_jacobian(model.nv)
    residuals = np.array(held.value, dtype=np.float64)
    broken = ~(np.isfinite(residuals) & np.isfinite(J).all(axis=1))
    if broken.any():
        loop = constraint_names(model)[int(np.argmax(broken))].rpartition(".")[0]
        raise DomainError(
            "q",
            "a configuration with finite residuals of all loops",
            f"a non-finite one of loop {loop!r}",
            advice="a function is outside its domain there, an edge stands on end or a disc lies "
            "flat: take another configuration",
        )
    return residuals, J


def null_space(J: Array, cut: float = RANK_TOLERANCE) -> Array:
    """Return permitted velocities of length 1 and normal to each other, shape (nv, mobility)."""
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
        if joint.nv and bool(np.any(sizes[model.slice(joint.name, of="v")] > ZERO_MOTION))
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


def _regular(model: Model, q: Array, free: Array, count: int, tolerance: float) -> int:
    """Return the mobility near a configuration; singular configurations exceed it."""
    if not model.loops or not count:
        return count
    step = free @ np.random.default_rng(2).standard_normal(count)
    at = model.integrate(q, PROBE_DISTANCE * step / np.linalg.norm(step))
    for _ in range(CLOSING_STEPS):
        residuals, J = loop_rows(model, at)
        if float(np.abs(residuals).max(initial=0.0)) < CLOSED_RESIDUAL:
            break
        at = model.integrate(at, -np.linalg.lstsq(J, residuals, rcond=LEAST_SINGULAR_VALUE)[0])
    return min(count, int(null_space(J, _cut(model, residuals, tolerance)).shape[1]))


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


# -- motor sets ------------------------------------------------------------------------------------


MOST_SETS = 20_000
"""Choices that are all looked at; beyond, motors are given up one by one."""

DECOMPOSED_AT_ONCE = 2_000
"""Matrices decomposed together, which bounds the memory."""


@record
class MotorSet:
    """Some joints as the only ones driven."""

    joints: tuple[str, ...]
    """Their names."""

    condition: float
    """kappa(J_u) with all others passive: 1 at best, infinite if a degree of freedom is loose."""


@public
def motor_sets(
    model: Model,
    q: ArrayLike | None = None,
    *,
    driven: Iterable[str] | None = None,
    size: int | None = None,
    length: float = 1.0,
) -> tuple[MotorSet, ...]:
    """Rank the sets of motors that could drive a robot at a pose, the best first.

    All choices are compared while there are at most 20 000 of them; beyond that, motors are given
    up one by one, each time the one that is missed least, and only the last set is returned.

    Args:
        model: The robot.
        q: Position with closed loops [m or rad], shape (nq,); as in `mobility`.
        driven: Names of joints with one degree of freedom to choose from; by default those that
            actuators and cylinders drive.
        size: How many to choose; by default the mobility.
        length: Unit of length [m]: kappa depends on it.

    Raises:
        ModelError: If even all of them leave a degree of freedom undriven; the message names the
            joints that still move.
        DomainError: If `size` is more than there are.

    Example:
        ``best = tb.motor_sets(tb.load("planar_walker"))[0].joints``
    """
    at = position_of(model, q)
    names = driven_joints(model) if driven is None else tuple(driven)
    for name in names:
        if model.joint(name).nv != 1:
            raise ModelError(
                f"joint {name!r}: motor sets consist of joints with 1 DoF, got a "
                f"{model.joint(name).kind} joint with {model.joint(name).nv}; leave it out",
                name=name,
            )
    found = mobility(model, at, driven=names)
    if found.loose_mobility:
        raise ModelError(
            f"model {model.name!r}: the driven joints ({', '.join(names) or 'none'}) cannot drive "
            f"its {found.mobility} degrees of freedom, {found.loose_mobility} are left to "
            f"{', '.join(found.loose)}; drive one of these too",
            name=found.loose[0],
        )
    count = found.mobility if size is None else size
    if not 0 < count <= len(names):
        raise DomainError("size", f"1 to {len(names)} motors", f"{count}")
    cycles = cycle_jacobian(model, topology(model), at, positive("length", length, "m"))
    own = {name: cycles.names.index(name) for name in names}
    passive = [k for k, name in enumerate(cycles.names) if name not in own]
    if math.comb(len(names), count) > MOST_SETS:
        return (_given_up(cycles.matrix, passive, own, count),)
    choices = list(combinations(names, count))
    rated = _rated(cycles.matrix, passive, own, choices)
    order = np.argsort(rated, kind="stable")
    return tuple(MotorSet(choices[k], float(rated[k])) for k in order)


def _rated(
    matrix: NDArray[np.float64],
    passive: Sequence[int],
    own: dict[str, int],
    choices: Sequence[tuple[str, ...]],
) -> NDArray[np.float64]:
    """Return kappa(J_u) of each choice."""
    rated = []
    for start in range(0, len(choices), DECOMPOSED_AT_ONCE):
        left = [
            [*passive, *(k for name, k in own.items() if name not in chosen)]
            for chosen in map(set, choices[start : start + DECOMPOSED_AT_ONCE])
        ]
        # columns of each choice side by side, choices in front
        picked = np.moveaxis(matrix[:, np.array(left, dtype=np.intp)], 0, 1)
        rated.append(condition(picked))
    return np.concatenate(rated)


def _given_up(
    matrix: NDArray[np.float64], passive: list[int], own: dict[str, int], count: int
) -> MotorSet:
    """Return the set that is left when motors are given up one by one."""
    chosen = tuple(own)
    rate = float(condition(matrix[:, passive]))
    while len(chosen) > count:
        choices = [tuple(x for x in chosen if x != name) for name in chosen]
        rated = _rated(matrix, passive, own, choices)
        best = int(np.argmin(rated))
        chosen, rate = choices[best], float(rated[best])
    return MotorSet(chosen, rate)


# -- description for `tiburon info` ----------------------------------------------------------------


def describe_mobility(model: Model) -> dict[str, Any]:
    """Return class, paths and mobility of a robot, as dictionaries, lists, numbers and strings.

    Args:
        model: The robot; it is looked at in its pose "home" or "stand" or the neutral one, and
            assembled where loops are open there.

    Returns:
        "chain" (its class), "cycles", "poles" and "paths" where it has two poles, "summary", and,
        where it can be assembled, the values of `Mobility`; an infinite condition is None.
    """
    shape = topology(model)
    described: dict[str, Any] = {"chain": shape.kind, "cycles": shape.cycle_count}
    if len(shape.poles) == 2:
        described["poles"] = list(shape.poles)
        described["paths"] = [list(path) for path in shape.paths]
    try:
        found = mobility(model)
    except LoopError as error:
        return {**described, "summary": f"it cannot be assembled: {error}"}
    except DomainError as error:
        # an edge on end, a disc that lies flat: other poses have a mobility
        return {**described, "summary": f"how it moves is not known in this pose: {error}"}
    return {
        **described,
        "summary": found.summary,
        "equations": found.equations,
        "redundant": list(found.redundant),
        "mobility": found.mobility,
        "regular_mobility": found.regular_mobility,
        "counted_mobility": found.counted_mobility,
        "driven": list(found.driven),
        "redundancy": found.redundancy,
        "loose": list(found.loose),
        # JSON has no infinity
        "condition": found.condition if math.isfinite(found.condition) else None,
    }
