"""Motion near a state: linear equations in continuous time, or for one step of an integrator.

Symbols:
    x       [dq, v]: a step of position away from the state, and the velocity
    A, B    change of dx/dt (or of x one step later) with x and with the joint forces

Steps of position do not commute where joints turn about several axes. Seen from a body that turns
at w, a step d changes by d x w even at constant velocity: that is the upper left block of A.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self, Unpack

import numpy as np

from tiburon.actuation.contact_models import (
    DEFAULT_CONTACT,
    CompliantContact,
    ContactModel,
    DefaultContact,
    checked_contact,
)
from tiburon.algorithms.derivatives.dynamics import acceleration_terms
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError
from tiburon.functions.derivatives import acceleration_derivatives
from tiburon.functions.keywords import DYNAMICS_CALL, DynamicsCall, takes_conditions
from tiburon.functions.library import LibraryFunction, closure_options
from tiburon.model import Joint, Model
from tiburon.record import named_line
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import values_and_tangents
from tiburon.trace.primitives.rk4_chain import BLOCKS, Rk4Chain
from tiburon.trace.primitives.tree import TreeLayout
from tiburon.trace.program import Input
from tiburon.trace.regions import function, trace_body
from tiburon.trace.value import Value


class Linearization(NamedTuple):
    """Motion near a state, to first order."""

    A: NDArray[np.float64]
    """Change with x = [dq, v], shape (..., 2 nv, 2 nv)."""

    B: NDArray[np.float64]
    """Change with the joint forces, shape (..., 2 nv, nv)."""

    def __repr__(self) -> str:
        return named_line(self)


class ContactLinearization(Linearization):
    """A step with rigid contact near a state, to first order; unpacks as `A, B`.

    Attributes:
        points: Names of the contact points.
        modes: Mode of each point, shape (..., points): "open", "sticking" or "sliding".
        margin: How far each point is from another mode, 0 to 1, shape (..., points): impulses
            relative to the largest, normal and slip velocities to the largest without impulses,
            friction to its limit. A and B hold for changes smaller than that.
        residual: Largest residual of the laws of contact in the step, relative to the largest
            impulse, shape (...): derivatives of points that slide may be off by a hundred times it.
    """

    points: tuple[str, ...]
    modes: NDArray[np.str_]
    margin: NDArray[np.float64]
    residual: NDArray[np.float64]

    def __new__(
        cls, A: Any, B: Any, modes: Any, margin: Any, residual: Any, points: tuple[str, ...]
    ) -> Self:
        """Take the matrices, numbers of modes, margins, residual and names."""
        found = super().__new__(cls, A, B)
        found.points, found.margin, found.residual = points, margin, residual
        plain = isinstance(modes, np.ndarray) and modes.dtype == np.float64
        found.modes = np.array(CONTACT_MODES)[modes.astype(int)] if plain else modes
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with all attributes."""
        return _restored, (*self, self.modes, self.margin, self.residual, self.points)

    @property
    def near_mode_change(self) -> tuple[str, ...]:
        """Names of points that are about to change their mode in some case: margin below 1e-3.

        On the other side of the change A and B are others.
        """
        least = np.asarray(self.margin).reshape(-1, len(self.points)).min(axis=0).tolist()
        return tuple(
            name for name, x in zip(self.points, least, strict=True) if x < MODE_CHANGE_MARGIN
        )


def _restored(A: Any, B: Any, modes: Any, *others: Any) -> ContactLinearization:
    found = ContactLinearization(A, B, modes, *others)
    found.modes = modes
    return found


CONTACT_MODES = ("open", "sticking", "sliding")
"""Modes of a contact point."""

MODE_CHANGE_MARGIN = 1e-3
"""Margin below which a contact is near another mode."""


def derivatives_at(
    around: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    *time: Scalar,
) -> list[list[Scalar]]:
    """Return the accelerations, and their derivatives by q, v and tau, row by row."""
    q = JointVector(q)
    here = around.at(q, JointVector(v), *time)
    found = acceleration_derivatives(here, q, JointVector(v), JointVector(tau))
    return [list(scalars(x)) for x in found]


def movable_joints(model: Model) -> list[tuple[Joint, slice, slice]]:
    """Return the joints that move, with the places of their variables.

    Raises:
        ModelError: If a joint's positions have more degrees of freedom than its
        velocities.
    """
    found = []
    for joint in model.joints:
        if not joint.nv:
            continue
        if len(joint.step(joint.neutral(), (0.0,) * joint.nv)) != joint.nv:
            raise ModelError(
                f"joint {joint.name!r}: linearize needs as many degrees of freedom in position as "
                f"in velocity, got the nonholonomic {joint.kind} joint; use "
                "forward_dynamics_derivatives",
                name=joint.name,
            )
        found.append((joint, model.slice(joint.name, of="q"), model.slice(joint.name, of="v")))
    return found


def _run_continuous(around: Setting, q: Scalars, rate: Scalars, tau: Scalars) -> Any:
    joints, n = movable_joints(around.model), around.model.nv
    _, by_q, by_v, by_tau = derivatives_at(around, q, rate, tau)
    turning: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    for joint, _, j in joints:
        for k, unit in enumerate(np.eye(joint.nv).tolist(), start=j.start):
            for row, x in enumerate(joint.bracket(unit, rate[j]), start=j.start):
                turning[row][k] = x
    upper = [[*row, *ones] for row, ones in zip(turning, np.eye(n).tolist(), strict=True)]
    lower = [[*by_q[i * n : (i + 1) * n], *by_v[i * n : (i + 1) * n]] for i in range(n)]
    A = [x for row in (*upper, *lower) for x in row]
    return {
        "A": as_traced(A).reshape(2 * n, 2 * n),
        "B": as_traced([*(0.0,) * (n * n), *by_tau]).reshape(2 * n, n),
    }


class _Move(NamedTuple):
    """A position variable block after a step, and its derivatives as steps of velocity."""

    q: Scalars
    by_start: list[Scalar]
    """By the position before, nv times nv scalars row by row."""

    by_step: list[Scalar]
    """By the step."""


def move_joint(joint: Joint, q: Scalars, step: Scalars) -> _Move:
    """Move one joint by a step, and differentiate.

    Velocities do not depend on the length of quaternions: derivatives of a step that normalizes
    them are the same.
    """
    units = np.eye(joint.nv).tolist()

    def call(given: list[Any]) -> tuple[Sequence[Any], list[list[Any]]]:
        start, along = given[: joint.nq], given[joint.nq :]
        moved = joint.move(start, along)
        by_start = [[*joint.position_rate(start, unit), *(0.0,) * joint.nv] for unit in units]
        by_step = [[*(0.0,) * joint.nq, *unit] for unit in units]
        return moved, by_start + by_step

    moved, tangents = values_and_tangents(call, [*q, *step])
    columns = [joint.velocity_of_rate(moved, tangent) for tangent in tangents]
    n = joint.nv
    by_start, by_step = (
        [columns[first + k][i] for i in range(n) for k in range(n)] for first in (0, n)
    )
    return _Move(tuple(moved), by_start, by_step)


def joint_move(manifold: Manifold, joint: Joint) -> Callable[..., _Move]:
    """Return `move_joint` of a joint, as a function of like joints."""
    return manifold.function(("move", manifold.first_like(joint.name)), partial(move_joint, joint))


def rotating_joints(model: Model, manifold: Manifold) -> list[tuple[Joint, slice, slice]]:
    """Return the movable joints whose variables do not simply add; see `movable_joints`."""
    known: dict[int, bool] = {}
    found = []
    for joint, i, j in movable_joints(model):
        first = manifold.first_like(joint.name)
        if first not in known:
            known[first] = _adds(joint)
        if not known[first]:
            found.append((joint, i, j))
    return found


def _adds(joint: Joint) -> bool:
    """Return whether the variables of a joint simply add: both derivatives of a step are 1."""
    if joint.nq != joint.nv:
        # such as quaternions
        return False
    _, _, move = trace_body(
        None, (joint.nq, joint.nv), lambda q, step: move_joint(joint, tuple(q), tuple(step))
    )
    one = np.eye(joint.nv).reshape(-1).tolist()
    # entries that depend on the state are traced values, not floats
    return all(
        not isinstance(x, Value) and x == y
        for part in (move.by_start, move.by_step)
        for x, y in zip(part, one, strict=True)
    )


def _along_bracket(
    joint: Joint, by_step: Scalars, f: Scalar, g: Scalar, a: Scalars, b: Scalars
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the derivatives of the position after a step f c + g [a, b] by a and by b.

    `by_step` is the derivative by the step, nv times nv scalars row by row; f is the weight of the
    rate b in the step besides the bracket, that of a is not included.
    """
    n, units = joint.nv, np.eye(joint.nv).tolist()
    # column k: change of the step with component k of a rate
    by_a = [[-g * x for x in joint.bracket(b, unit)] for unit in units]
    by_b = [[g * x for x in joint.bracket(a, unit)] for unit in units]
    for k in range(n):
        by_b[k][k] = by_b[k][k] + f
    products = []
    for columns in (by_a, by_b):
        rows = [by_step[i * n : (i + 1) * n] for i in range(n)]
        products.append([_dot(row, column) for row in rows for column in columns])
    return products[0], products[1]


def _dot(x: Sequence[Scalar], y: Sequence[Scalar]) -> Scalar:
    """Return the sum of products."""
    total: Scalar = 0.0
    for a, b in zip(x, y, strict=True):
        total = total + a * b
    return total


def _add(x: Sequence[Scalar], factor: Scalar, y: Sequence[Scalar]) -> Scalars:
    """Return x + factor y."""
    return tuple(a + factor * b for a, b in zip(x, y, strict=True))


def _scaled(factor: Scalar, x: Sequence[Scalar]) -> Scalars:
    """Return factor x."""
    return tuple(factor * a for a in x)


class _RotatingJoint:
    """A joint whose variables do not simply add, through the stages of one step."""

    def __init__(self, manifold: Manifold, joint: Joint, q: slice, v: slice) -> None:
        self.q, self.v, self.nv = q, v, joint.nv
        self._joint = joint
        self._move = joint_move(manifold, joint)
        self._along_bracket = manifold.function(
            ("along bracket", manifold.first_like(joint.name)), partial(_along_bracket, joint)
        )
        none: list[Scalar] = [0.0] * joint.nv**2
        self.blocks = {"D2": none, "D4": none}
        """Derivatives gathered so far, by their names in `BLOCKS`."""

    def move(self, stage: int, q: Scalars, step: Scalars, rate: int, factor: Scalar) -> Scalars:
        """Move to a stage by `factor` times the rate of another stage."""
        found: _Move = self._move(q, step)
        self.blocks[f"M{stage}"] = found.by_start
        self.blocks[f"C{stage}{rate}"] = [factor * x for x in found.by_step]
        return found.q

    # brackets as in `rk4_step`

    def move_again(self, q: Scalars, k1: Scalars, k2: Scalars, half: Scalar) -> Scalars:
        """Move to stage 3 by h k2 / 2 + [h k1, h k2] / 8."""
        g = half * half * 0.5
        step = _add(_scaled(half, k2), g, self._joint.bracket(k1, k2))
        found: _Move = self._move(q, step)
        self.blocks["M3"] = found.by_start
        by_first, by_second = self._along_bracket(tuple(found.by_step), half, g, k1, k2)
        self.blocks |= {"D3": by_first, "C32": by_second}
        return found.q

    def arrive(self, q: Scalars, k: Sequence[Scalars], h: Scalar) -> Scalars:
        """Move to the end by h (k1 + 2 k2 + 2 k3 + k4) / 6 + [h k1, h k4] / 12."""
        sixth = h / 6.0
        g = sixth * (0.5 * h)
        total = tuple(a + 2.0 * (b + c) + d for a, b, c, d in zip(*k, strict=True))
        step = _add(_scaled(sixth, total), g, self._joint.bracket(k[0], k[3]))
        found: _Move = self._move(q, step)
        by_first, by_last = self._along_bracket(tuple(found.by_step), sixth, g, k[0], k[3])
        by_step = found.by_step
        self.blocks["M5"] = found.by_start
        self.blocks["C51"] = [x + sixth * y for x, y in zip(by_first, by_step, strict=True)]
        self.blocks["C52"] = self.blocks["C53"] = [2.0 * sixth * x for x in by_step]
        self.blocks["C54"] = by_last
        return found.q


Derivatives = Callable[..., list[list[Scalar]]]
"""Takes position, velocity and time; returns accelerations and the arguments of `Rk4Chain`."""


def stage_derivatives(around: Setting, tau: Scalars) -> Derivatives:
    """Return a function of accelerations and their derivatives, traced once for all stages."""
    arrays = tuple(tuple(scalars(array)) for array in around.arrays)

    @function
    def derivatives(q: Scalars, v: Scalars, tau: Scalars, arrays: Any, *time: Scalar) -> Any:
        inside = around._replace(arrays=arrays, external=None)
        if around.model.loops:
            return derivatives_at(inside, q, v, tau, *time)
        position, rate, force = map(JointVector, (q, v, tau))
        found = acceleration_terms(inside.at(position, rate, *time), position, rate, force)
        n, related = len(v), TreeLayout(expanded_parents(around.plan)).related()
        own = [[part[i * n + j] for i in range(n) for j in related[i]] for part in found[2:]]
        return [found.vd, found.factor, *own]

    def at(q: Scalars, v: Scalars, *time: Scalar) -> list[list[Scalar]]:
        found: list[list[Scalar]] = derivatives(tuple(q), tuple(v), tau, arrays, *time)
        return found

    return at


def _run_step(around: Setting, q: Scalars, v: Scalars, tau: Scalars, dt: Scalars) -> Any:
    """Differentiate a step of `rk4_step` by the chain rule over its stages."""
    n, tau = around.model.nv, tuple(tau)
    found = rk4_changes(around, tuple(q), tuple(v), dt[0], stage_derivatives(around, tau))
    whole = as_traced(found.rows).reshape(2 * n, 3 * n)
    return {"A": whole[:, : 2 * n], "B": whole[:, 2 * n :]}


class Rk4Changes(NamedTuple):
    """A step of `rk4_step`, to first order."""

    q: Scalars
    """Position at its end, nq scalars."""

    v: Scalars
    """Velocity at its end, nv scalars."""

    rows: Sequence[Scalar]
    """Changes of position (as a step) and velocity with those at the start and with the joint
    force: 2 nv rows of 3 nv scalars."""


def rk4_changes(
    around: Setting,
    q: Scalars,
    v: Scalars,
    h: Scalar,
    derivatives: Derivatives,
    manifold: Manifold | None = None,
) -> Rk4Changes:
    """Differentiate a step of `rk4_step` by the chain rule over its stages.

    Args:
        around: What acts on the robot.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        h: Length of the step [s].
        derivatives: From `stage_derivatives`; called at each stage.
        manifold: The positions, with functions that have been traced.
    """
    n, model = around.model.nv, around.model
    manifold = manifold or Manifold(model)
    turning = rotating_joints(model, manifold)
    rotating = [_RotatingJoint(manifold, *one) for one in turning]
    adding = [one for one in movable_joints(model) if one not in turning]
    half = 0.5 * h
    given: list[Scalar] = [h]

    def accelerations(q: Scalars, v: Scalars, *time: Scalar) -> Scalars:
        found, *slopes = derivatives(q, v, *time)
        for part in slopes:
            given.extend(part)
        return tuple(found)

    def moved(step: Scalars, move: Callable[[_RotatingJoint], Scalars]) -> Scalars:
        found = list(q)
        for joint, i, j in adding:
            found[i] = joint.move(q[i], step[j])
        for one in rotating:
            found[one.q] = move(one)
        return tuple(found)

    start = around.now
    middle, end = (tuple(time + part for time in start) for part in (half, h))
    a1 = accelerations(q, v, *start)
    v2, step = _add(v, half, a1), _scaled(half, v)
    q2 = moved(step, lambda one: one.move(2, q[one.q], step[one.v], 1, half))
    a2 = accelerations(q2, v2, *middle)
    v3, step3 = _add(v, half, a2), _scaled(half, v2)
    q3 = moved(step3, lambda one: one.move_again(q[one.q], v[one.v], v2[one.v], half))
    a3 = accelerations(q3, v3, *middle)
    v4, step4 = _add(v, h, a3), _scaled(h, v3)
    q4 = moved(step4, lambda one: one.move(4, q[one.q], step4[one.v], 3, h))
    a4 = accelerations(q4, v4, *end)
    v5, step5 = (
        tuple(
            a + h / 6.0 * (b + 2.0 * (c + d) + e)
            for a, b, c, d, e in zip(start, *stages, strict=True)
        )
        for start, stages in ((v, (a1, a2, a3, a4)), ((0.0,) * n, (v, v2, v3, v4)))
    )
    q5 = moved(step5, lambda one: one.arrive(q[one.q], [x[one.v] for x in (v, v2, v3, v4)], h))
    given += [x for one in rotating for name in BLOCKS for x in one.blocks[name]]
    parents = None if model.loops else expanded_parents(around.plan)
    chain = Rk4Chain(n, [(one.v.start, one.nv) for one in rotating], parents)
    return Rk4Changes(manifold.normalize(q5), v5, chain.apply(given))


_CONTINUOUS: LibraryFunction[Linearization] = LibraryFunction(
    "linearize",
    ("q", "v", "tau"),
    _run_continuous,
    make=Linearization,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
_STEP: LibraryFunction[Linearization] = LibraryFunction(
    "linearize_step",
    ("q", "v", "tau", Input("dt", ())),
    _run_step,
    make=Linearization,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)


@public
@takes_conditions
def linearize(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    dt: ArrayLike | None = None,
    contact: ContactModel | None = DEFAULT_CONTACT,
    contact_state: ArrayLike | None = None,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> Linearization:
    """Linearize the motion of a robot about a state: dx/dt = A x + B dtau near it.

    x = [dq, v] has 2 nv numbers: dq is a step away from q, as `Model.integrate` takes it, so that
    quaternions need no special care. With a step dt, x of the next time is A x + B dtau for the
    step of `integrate_rk4` with joint forces held, differentiated exactly. One state or a batch;
    traced arrays inside a compiled function, one state at a time.

    With loops, x still has 2 nv numbers, of which those count that keep loops closed: J dq = 0 and
    J v + (dJ/dt) dq = 0 to first order, as two closed states near each other do. A keeps them so.
    In equilibrium its eigenvalues along directions that open loops are zero: gaps keep their rates.

    Springs, dampers and friction of compliant contacts act about anchors that stay where they are,
    in continuous time or through a step of `simulate` with `RK4`.

    With rigid contact, the step is that of `simulate` with `RK4`, in which no contact forces of a
    step before act. Contact points keep their modes, and those that are closed throughout the step
    stay closed. The result then names the points, returns their modes and how far they are
    from changing them.

    Args:
        model: The robot; its joints must have as many velocities as degrees of freedom of
            position.
        q: Configuration [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        dt: Length of a step [s], shape (...); None for continuous time.
        contact: `RigidContact`, `CompliantContact` or None for none; as in `simulate`, by the
            ground of the world, and by pairs of the robot by default.
        contact_state: Discrete states of the contact points as in `run.z` of a run, shape
            (..., 4 points); with compliant contact all discrete states of contacts. By default all
            points stick where they touch, compliant ones at the end of an unloaded spring.
        closure: Whether to refuse states with open loops, and velocities that open them; see
            `forward_dynamics`.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        A, shape (..., 2 nv, 2 nv), and B, shape (..., 2 nv, nv); with contact, a
        `ContactLinearization` with modes and margins, which unpacks the same way.

    Raises:
        ModelError: If a joint rolls: its positions have more degrees of freedom than its
            velocities; or if the world has ground that the robot can touch and the time is
            continuous with rigid contact.

    Example:
        ``A, B = tb.linearize(arm, q, v, tau, dt=0.01)``
    """
    world = world_with(conditions.get("world"), conditions.get("fluid")) or DEFAULT_WORLD
    chosen = checked_contact(contact)
    if isinstance(chosen, DefaultContact):
        chosen = chosen.chosen(model, world)
    touching = (contact, contact_state)
    check = closure_options(model, closure)
    if isinstance(chosen, CompliantContact):
        return _with_springs(model, (q, v, tau), dt, touching, conditions, check)
    if chosen is not None:
        from tiburon.functions.closed_loops import check_closed
        from tiburon.simulation.contact_linearization import contacts_of, linearize_contact

        contacts = contacts_of(model, world, contact)
        if contacts is not None:
            if dt is None:
                raise ModelError(
                    f"linearize of model {model.name!r}: rigid contact acts in steps, got "
                    "continuous time; pass dt=, or contact=None to leave contact out"
                )
            if check:
                check_closed(model, q, v, time=conditions.get("time"))
            return linearize_contact(model, contacts, (q, v, tau, dt, contact_state), conditions)
    if contact_state is not None:
        raise ModelError("contact_state: expected a world with contact, got none; leave it out")
    kind, step = (_CONTINUOUS, ()) if dt is None else (_STEP, (dt,))
    return kind.call(model, (q, v, tau, *step), conditions, check)


def _with_springs(
    model: Model,
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike],
    dt: ArrayLike | None,
    touching: tuple[ContactModel | None, ArrayLike | None],
    conditions: DynamicsCall,
    check: Options,
) -> Linearization:
    """Return the linear model of a robot on compliant contacts; see `linearize`."""
    from tiburon.functions.closed_loops import check_closed
    from tiburon.simulation.compliant_linearization import compliant_changes, compliant_step

    contact, state = touching
    if dt is not None:
        movable_joints(model)
        step = compliant_step(model, contact, arrays, dt, state, conditions)
        if step is None:
            return _STEP.call(model, (*arrays, dt), conditions, check)
        if check:
            check_closed(model, *arrays[:2], time=conditions.get("time"))
        return Linearization(*step)
    found = _CONTINUOUS.call(model, arrays, conditions, check)
    A = compliant_changes(model, contact, arrays, state, conditions)
    return found if A is None else found._replace(A=A)
