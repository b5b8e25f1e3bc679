"""Trim: attitude, thrusts and joint forces with which a robot keeps its motion.

Symbols:
    r       joint forces at zero joint acceleration, ID(q, v, 0)
    A       joint forces of unit forces of thrusters and joints, one column each
    f       those forces
    e       r - A f, the unbalanced joint forces
    P       projection onto the joint forces that no f can change

In every configuration the forces follow by least squares, with the least norm. The free positions
then move until the forces balance: Newton's method on P e = 0 with step halving (Nocedal and
Wright 2006, "Numerical optimization", sec. 11.2).
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, Unpack

import numpy as np

from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.argument_checks import at_least, choice, positive, refuse_unusable, vector
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, ModelError, UnknownNameError
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.hybrid_dynamics import known_rows
from tiburon.functions.keywords import CONDITIONS, Conditions, takes_conditions, unexpected_keyword
from tiburon.functions.library import refuse_loops
from tiburon.functions.water import thruster_force_of_thrust
from tiburon.hydro.thrust import command_for, thrust_range
from tiburon.model import Body, Model, Pose
from tiburon.record import named_line

BASE_MOTIONS = ("roll", "pitch", "yaw", "height")
"""Motions of a floating base: rotation about its own x, about the horizontal line across its
heading and about world z; translation along world z."""

DIFFERENCE_STEP = 1e-6
"""Step of central differences [rad or m]: relative truncation 1e-12, rounding 1e-10."""

MAX_STEP = 0.5
"""Longest step of one iteration [rad or m]: linearization fails beyond it."""

MAX_HALVINGS = 30
"""Halvings after which a step no longer changes the position."""


# -- allocation ------------------------------------------------------------------------------------


RANK_TOLERANCE = 1e-10
"""Singular values below this fraction of the largest are rounding: no force acts there."""


class Allocation(NamedTuple):
    """Allocated forces, and the unbalanced rest."""

    forces: Array
    """One per column, within its limits."""

    missing: Array
    """Required effect minus that of the forces."""

    held: NDArray[np.bool_]
    """Which forces are saturated."""

    beyond: Array
    """Projection onto the effects that unsaturated forces cannot change, a square matrix."""


def allocate(
    A: Array, needed: Array, low: Sequence[float] | Array, high: Sequence[float] | Array
) -> Allocation:
    """Find the smallest forces whose effect is nearest to the required one.

    Of all forces with the least error, those with the least sum of squares. Forces beyond a limit
    are saturated and the others are recomputed, until none exceeds one (the redistributed
    pseudo-inverse of control allocation). The sum of squares is minimal where no force is
    saturated; otherwise it need not be.

    Args:
        A: Effect of a unit of each force, one column per force.
        needed: Required effect of all forces.
        low: Smallest forces.
        high: Largest forces.
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    forces, held = np.zeros(A.shape[1]), np.zeros(A.shape[1], dtype=bool)
    while True:
        rest = needed - A[:, held] @ forces[held]
        forces[~held] = np.linalg.pinv(A[:, ~held], rcond=RANK_TOLERANCE) @ rest
        passed = ~held & ((forces < low) | (forces > high))
        if not passed.any():
            break
        forces = np.clip(forces, low, high)
        held |= passed
    reach = A[:, ~held]
    beyond = np.eye(len(needed)) - reach @ np.linalg.pinv(reach, rcond=RANK_TOLERANCE)
    return Allocation(forces, needed - A @ forces, held, beyond)


# -- trim ------------------------------------------------------------------------------------------


class TrimOutcome(IntEnum):
    """How a search ended."""

    BALANCED = 0
    STALLED = 1
    SATURATED = 2
    CUT_OFF = 3

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")

    @property
    def sentence(self) -> str:
        """What the outcome means."""
        return _SENTENCES[self]


_SENTENCES = {
    TrimOutcome.BALANCED: "nothing accelerates within the tolerance",
    TrimOutcome.STALLED: "no small change of the free positions balances the robot: free more "
    "positions, power more joints or thrusters, or start nearer",
    TrimOutcome.SATURATED: "thrusters or joints stand at their limits and what is missing cannot "
    "be found elsewhere",
    TrimOutcome.CUT_OFF: "the iterations ran out while the robot was still approaching balance; "
    "allow more",
}


class Trim(NamedTuple):
    """A steady motion, and the forces that balance it."""

    q: Array
    """Position [m or rad], shape (nq,)."""

    v: Array
    """Joint velocity [m/s or rad/s], shape (nv,): as given."""

    tau: Array
    """All that thrusters and joints do, as joint force [N or N m], shape (nv,): what
    `forward_dynamics` takes."""

    thrust: Array
    """Of each thruster of the model [N]; zero for those not used."""

    commands: Array
    """That give these thrusts, as `thruster_force` takes them; zero for thrusters not used."""

    joint_force: Array
    """Of the joints alone [N or N m], shape (nv,)."""

    residual: Array
    """Joint force that is missing [N or N m], shape (nv,)."""

    outcome: TrimOutcome
    """How the search ended."""

    limited: tuple[str, ...]
    """Names of thrusters and velocity variables whose forces are saturated."""

    iterations: int
    """How often free positions were moved."""

    def __repr__(self) -> str:
        return named_line(self)


@public
@takes_conditions
def trim(
    model: Model,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    *,
    free: str | Sequence[str] | None = None,
    thrusters: Sequence[str] | None = None,
    powered: Sequence[str] | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 50,
    errors: str = "raise",
    **conditions: Unpack[Conditions],
) -> Trim:
    """Find attitude, thrusts and joint forces with which a robot keeps its motion.

    At rest in a current, or under way at a constant velocity. Where forces can hold the robot as it
    is given, it stays so, held by the smallest forces; where they cannot, the free positions move
    to the nearest balance. It may be unstable: see `linearize`.

    Args:
        model: The robot.
        q: Position to start from [m or rad], shape (nq,); the neutral one by default.
        v: Joint velocity to keep [m/s or rad/s], shape (nv,); at rest by default.
        free: What may move: "roll", "pitch", "yaw" and "height" of a floating robot, names of
            joints, or of single velocity variables. Roll and pitch by default, nothing without a
            floating base.
        thrusters: Names of those that may push; all by default.
        powered: Names of joints, or single velocity variables, with forces; by default all but the
            floating base and what is free.
        tolerance: Largest force missing, relative to the weight of the robot and at least 1 N.
        max_iterations: How often free positions are moved at most.
        errors: "raise" to raise `DomainError` where no balance is found, "flag" to return the
            nearest approach with its outcome.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`.

    Returns:
        Position, thrusts, commands, joint forces, and how the search ended.

    Raises:
        DomainError: If no balance is found, unless `errors` is "flag".

    Example:
        ``held = tb.trim(rov, fluid=tb.Water(current=(0.5, 0, 0)))``
    """
    choice("errors", errors, ("raise", "flag"))
    if not CONDITIONS.issuperset(conditions):
        raise unexpected_keyword("trim", CONDITIONS, conditions)
    refuse_loops(model, "trim", "loop_inverse_dynamics for what holds a position")
    world_with(conditions.get("world"), conditions.get("fluid"), one_case="trim")
    search = _Search(model, v, free, thrusters, powered, conditions)
    refuse_unusable("q", q)
    position = np.array(model.neutral() if q is None else q, dtype=np.float64)
    weight = float(np.linalg.norm((conditions.get("world") or DEFAULT_WORLD).gravity))
    weight *= sum(body.inertia.mass for body in model.bodies)
    missing = positive("tolerance", tolerance) * max(1.0, weight)
    found = search.run(position, missing, at_least("max_iterations", max_iterations, 1))
    if errors == "raise" and found.outcome is not TrimOutcome.BALANCED:
        worst = int(np.argmax(np.abs(found.residual)))
        limits = f" with {', '.join(found.limited)} at the limit" if found.limited else ""
        raise DomainError(
            f"trim of model {model.name!r}",
            "conditions in which the robot can keep its motion",
            f"{found.residual[worst]:.3g} N or N m missing at {model.v_names[worst]!r}{limits} "
            f"after {found.iterations} iterations",
            advice=_on_land(model, conditions) or found.outcome.sentence,
        )
    return found


def _on_land(model: Model, conditions: Conditions) -> str:
    """Return what to do about a floating robot that nothing carries; nothing where water does."""
    world = conditions.get("world") or DEFAULT_WORLD
    if conditions.get("fluid") is not None or world.fluid is not None:
        return ""
    if not any(_floats(body) for body in model.bodies):
        return ""
    if any(body.fluid is not None for body in model.bodies):
        return "no water was given, and on land nothing bears its weight: pass fluid=Water(...)"
    return (
        "on land nothing bears the weight of a floating base: pass external_force=, or give its "
        "bodies hydrodynamic coefficients (add_hydrodynamics) and pass fluid=Water(...)"
    )


class _Search:
    """One trim problem: its free variables and the conditions."""

    def __init__(
        self,
        model: Model,
        v: ArrayLike | None,
        free: str | Sequence[str] | None,
        thrusters: Sequence[str] | None,
        powered: Sequence[str] | None,
        conditions: Conditions,
    ) -> None:
        self.model, self.conditions = model, conditions
        refuse_unusable("v", v)
        self.v = np.zeros(model.nv) if v is None else vector("v", v, model.nv).copy()
        bases = [body for body in model.bodies if _floats(body)]
        names: Sequence[str] = (free,) if isinstance(free, str) else tuple(free or ())
        if free is None and len(bases) == 1:
            names = ("roll", "pitch")
        own = [name for name in names if name in BASE_MOTIONS]
        if own and len(bases) != 1:
            raise ModelError(
                f"model {model.name!r}: {own[0]} needs exactly one floating base, got "
                f"{len(bases)}; name joints or velocity variables in free="
            )
        rows = known_rows(model, [name for name in names if name not in BASE_MOTIONS])
        self.moves: list[Callable[[Array], Array]] = []
        for name in own:
            self.moves.append(_base_move(model, bases[0], name))
        self.moves += [_unit(model, row) for row in rows]
        held = set(rows)
        for body in bases:
            held.update(known_rows(model, body.joint.name))
        others = [row for row in range(model.nv) if row not in held]
        self.rows = others if powered is None else list(known_rows(model, powered))
        self.pushing = _chosen(model, thrusters)
        ranges = [thrust_range(model.thrusters[k]) for k in self.pushing]
        strength = _strengths(model)
        ranges += [(-strength[row], strength[row]) for row in self.rows]
        self.low, self.high = (np.array([r[k] for r in ranges], dtype=float) for k in (0, 1))

    def columns(self, q: Array) -> Array:
        """Return A."""
        unit = np.eye(self.model.nv)[:, self.rows]
        if not self.pushing:
            return unit
        count = len(self.model.thrusters)
        each = np.eye(count)[self.pushing]
        push = thruster_force_of_thrust(self.model, np.tile(q, (len(each), 1)), each)
        return np.hstack([push.T, unit])

    def needed(self, q: Array) -> Array:
        """Return r."""
        return inverse_dynamics(self.model, q, self.v, np.zeros(self.model.nv), **self.conditions)

    def at(self, q: Array) -> Allocation:
        """Return the best forces in a position."""
        return allocate(self.columns(q), self.needed(q), self.low, self.high)

    def slopes(self, q: Array, forces: Array) -> Array:
        """Return the derivative of the unbalanced forces by each free position, forces held."""
        h = DIFFERENCE_STEP
        found = []
        for move in self.moves:
            ends = [self.model.integrate(q, sign * h * move(q)) for sign in (1.0, -1.0)]
            ahead, behind = (self.needed(x) - self.columns(x) @ forces for x in ends)
            found.append((ahead - behind) / (2.0 * h))
        return np.array(found).T

    def run(self, q: Array, allowed: float, most: int) -> Trim:
        """Move free positions until nothing is missing."""
        here = self.at(q)
        outcome, count = TrimOutcome.CUT_OFF, 0
        while True:
            if np.abs(here.missing).max(initial=0.0) <= allowed:
                outcome = TrimOutcome.BALANCED
                break
            if count == most:
                break
            found = self._better(q, here) if self.moves else None
            if found is None:
                outcome = TrimOutcome.SATURATED if here.held.any() else TrimOutcome.STALLED
                break
            q, here = found
            count += 1
        return self._result(q, here, outcome, count)

    def _better(self, q: Array, here: Allocation) -> tuple[Array, Allocation] | None:
        """Return a position where less is missing; None if a step of Newton's leads to none."""
        slopes = here.beyond @ self.slopes(q, here.forces)
        step = -np.linalg.lstsq(slopes, here.beyond @ here.missing, rcond=1e-9)[0]
        length = float(np.linalg.norm(step))
        step *= min(1.0, MAX_STEP / length) if length > 0.0 else 1.0
        size = float(np.linalg.norm(here.missing))
        for _ in range(MAX_HALVINGS):
            there = q
            # one turn after the other, so that a heading that is not free stays
            for move, share in zip(self.moves, step, strict=True):
                there = self.model.integrate(there, share * move(there))
            after = self.at(there)
            if np.linalg.norm(after.missing) < (1.0 - 1e-9) * size:
                return there, after
            step = 0.5 * step
        return None

    def _result(self, q: Array, here: Allocation, outcome: TrimOutcome, count: int) -> Trim:
        model, used = self.model, len(self.pushing)
        thrust, commands = np.zeros(len(model.thrusters)), np.zeros(len(model.thrusters))
        thrust[self.pushing] = here.forces[:used]
        for k in self.pushing:
            commands[k] = command_for(model.thrusters[k], float(thrust[k]))
        joint_force = np.zeros(model.nv)
        joint_force[self.rows] = here.forces[used:]
        names = [model.thrusters[k].name for k in self.pushing]
        names += [model.v_names[row] for row in self.rows]
        limited = tuple(name for name, held in zip(names, here.held, strict=True) if held)
        tau = self.columns(q) @ here.forces
        return Trim(
            *(q, self.v, tau, thrust, commands, joint_force, here.missing), outcome, limited, count
        )


def _floats(body: Body) -> bool:
    return body.parent == "world" and body.joint.kind == "free"


def _unit(model: Model, row: int) -> Callable[[Array], Array]:
    """Return the step of a velocity variable."""
    step = np.eye(model.nv)[row]
    return lambda q: step


def _base_move(model: Model, body: Body, name: str) -> Callable[[Array], Array]:
    """Return the step, from any position, that moves a floating base in one of its ways."""
    place, rate = model.slice(body.joint.name, of="q"), model.slice(body.joint.name, of="v")
    mount = np.array(body.joint.pose.rotation)

    def step(q: Array) -> Array:
        R = mount @ np.array(Pose.from_quaternion(q[place][:4]).rotation)
        if name == "roll":
            axis = np.array([1.0, 0.0, 0.0])
        elif name in ("yaw", "height"):
            axis = R.T @ (0.0, 0.0, 1.0)
        else:
            # level, across the heading
            heading = np.arctan2(R[1, 0], R[0, 0])
            axis = R.T @ (-np.sin(heading), np.cos(heading), 0.0)
        found = np.zeros(model.nv)
        first = rate.start + (3 if name == "height" else 0)
        found[first : first + 3] = axis
        return found

    return step


def _chosen(model: Model, thrusters: Sequence[str] | None) -> list[int]:
    """Return the indices of thrusters that may push."""
    known = {thruster.name: k for k, thruster in enumerate(model.thrusters)}
    if thrusters is None:
        return list(known.values())
    for name in thrusters:
        if name not in known:
            raise UnknownNameError("thruster", name, known, where=f"model {model.name!r}")
    return [known[name] for name in thrusters]


def _strengths(model: Model) -> Array:
    """Return the largest force of each velocity variable [N or N m]."""
    found = np.full(model.nv, np.inf)
    for joint in model.joints:
        if joint.limits is not None and joint.nv:
            found[model.slice(joint.name, of="v")] = joint.limits.force
    return found
