"""Inverse and hybrid dynamics with loops, and the forces that track desired accelerations.

Inverse dynamics
    The tree needs joint forces Q for a motion. The loops carry J^T lambda, the actuators the rest.
    Only work along motions that the loops permit counts; with P the projector on those,

        P E u = P Q,        J^T lambda = Q - E u        (Featherstone 1987, eq. 9.17)

    where E maps the forces u of the actuated joints to all joints. u and lambda are those of least
    norm (redundant actuation: Nahon 1991, section 3.5).

Hybrid dynamics
    A known acceleration is one more constraint, on one velocity variable; the force along it is the
    unknown joint force (Featherstone 1987, sections 7.5 and 9.3). Where loops already determine a
    given acceleration, the two must agree, and the forces are those of least norm.

Tracking
    Loops as a rule do not permit independent accelerations of several joints. Of all accelerations
    that keep the loops closed, those nearest to the desired ones are taken, and of these the one of
    least norm:

        vd = argmin |S vd - a|^2   subject to   J vd + bias = 0

    With a = k e + d de/dt and e = q_target - q, the Lyapunov function k |e|^2 + |de/dt|^2 of the
    controlled joints never grows, because the residual is orthogonal to every permitted motion.
    Inverse dynamics of that motion follow; joint forces without an actuator are dropped, as for
    trees.

Symbols: Q joint forces of the tree, J constraint Jacobian (with a row per known acceleration in
hybrid dynamics), E selection of actuated joints, S selection of controlled joints, P projector on
permitted motions.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.joint_space import joint_space_terms
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting
from tiburon.arrays import NDArray
from tiburon.loops.constraints import Constraints, Row, constraints, jacobian_pattern
from tiburon.loops.metric import TreeMetric, largest, rank_cut, solve_in_metric
from tiburon.model import Model
from tiburon.record import named_line
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.value import require

__all__ = [
    "ActuatedForces",
    "ForceDistribution",
    "actuated_forces",
    "constrained_hybrid",
    "forces",
    "nearest_accelerations",
    "tracking_joint_forces",
]

Array = NDArray[np.float64]


UNDRIVEN_SHARE = 1e-7
"""Joint force, relative to all of them, that actuators and loops may leave unmade."""

OPENING_SHARE = 1e-6
"""Rate, relative to the accelerations, at which a motion may open loops."""


class ActuatedForces(NamedTuple):
    """What makes a motion in one state."""

    tau: list[Scalar]
    """Joint force [N or N m], nv scalars; zero where no actuator is."""

    multipliers: list[Scalar]
    """Force along each constraint [N or N m]."""

    def __repr__(self) -> str:
        return named_line(self)


class ForceDistribution:
    """How actuators and loops of a robot share joint forces in one position.

    Attributes:
        live: Constraints that can bind anything, by number.
        driven: Velocity variables of the actuators.
        loops: J of the live constraints, factored.
        reach: P E, factored.
        cut: Relative length below which rows of J and columns of P E are dependent.
    """

    def __init__(self, model: Model, held: Constraints, actuators: Sequence[str]) -> None:
        """Factor.

        Args:
            model: The robot.
            held: Its constraints in this position.
            actuators: Names of the joints that are driven.
        """
        nv = model.nv
        self.live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
        self.driven = [int(i) for i in model.indices(actuators, of="v")]
        rows = [[held.jacobian[k].get(i, 0.0) for i in range(nv)] for k in self.live]
        self.cut = rank_cut(model, held.value)
        # a row of zeros stands for loops that bind nothing
        self.loops = factor_orthogonal(as_traced(rows or [[0.0] * nv]), cut=self.cut)
        columns = [
            self.allowed([1.0 if i == place else 0.0 for i in range(nv)]) for place in self.driven
        ]
        # off the manifold P is off by as much
        matrix = as_traced([list(row) for row in zip(*columns, strict=True)])
        self.reach = factor_orthogonal(matrix, cut=self.cut)

    def allowed(self, force: Sequence[Scalar]) -> list[Scalar]:
        """Return the part of a joint force that works on motions the loops allow."""
        kept = self.loops.project_rows(as_traced(list(force)))
        return [f - x for f, x in zip(force, kept, strict=True)]

    def shares(self, needed: Sequence[Scalar]) -> list[Scalar]:
        """Return the shortest forces of the actuators that do what loops leave to do."""
        return list(self.reach.solve(as_traced(self.allowed(needed))))

    def spread(self, forces: Sequence[Scalar]) -> list[Scalar]:
        """Return forces of the actuators as joint forces."""
        found: list[Scalar] = [0.0] * self.loops.shape[1]
        for place, force in zip(self.driven, forces, strict=True):
            found[place] = force
        return found


def forces(
    model: Model,
    held: Constraints,
    needed: Sequence[Scalar],
    vd: Sequence[Scalar],
    actuators: Sequence[str],
    sharing: ForceDistribution | None = None,
) -> ActuatedForces:
    """Share the joint forces that a motion needs between actuators and loops.

    Args:
        model: The robot.
        held: Its constraints in this state.
        needed: Joint forces of the tree for this motion [N or N m], nv scalars.
        vd: Joint accelerations of the motion [m/s^2 or rad/s^2], nv scalars.
        actuators: Names of the joints that are driven.
        sharing: Of this position and these actuators, where it is known.
    """
    among = sharing or ForceDistribution(model, held, actuators)
    opening = [
        sum((x * vd[i] for i, x in held.jacobian[k].items()), start=held.bias[k])
        for k in among.live
    ]
    tau = among.spread(among.shares(needed))
    rest = [f - t for f, t in zip(needed, tau, strict=True)]
    carried = list(among.loops.solve_transpose(as_traced(rest)))
    undone = among.allowed(rest)
    # off the manifold redundant constraints disagree, and P is off, by as much as the cut
    possible = largest(undone) <= np.maximum(UNDRIVEN_SHARE, among.cut) * (1.0 + largest(needed))
    steady = largest(opening) <= np.maximum(OPENING_SHARE, among.cut) * (
        1.0 + largest(vd) + largest(held.bias)
    )
    message = (
        f"actuators that can drive this motion; {', '.join(actuators[:4])} cannot: name others"
    )
    tau = [
        require(steady, require(possible, t, message), "v and vd that keep loops closed")
        for t in tau
    ]
    multipliers: list[Scalar] = [0.0] * len(held.value)
    for k, force in zip(among.live, carried[: len(among.live)], strict=True):
        multipliers[k] = force
    return ActuatedForces(tau, multipliers)


def actuated_forces(
    around: Setting, q: Any, v: Any, vd: Any, actuators: Sequence[str]
) -> ActuatedForces:
    """Return what actuators and loops do for a motion under conditions."""
    held = constraints(around.model, around.plan, q, v)
    needed = rnea(around.plan, q, v, vd, around.gravity, around.external)
    return forces(around.model, held, needed, vd, actuators)


# -- hybrid dynamics -------------------------------------------------------------------------------


def constrained_hybrid(
    around: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    vd: Sequence[Scalar],
) -> Any:
    """Return accelerations and joint forces of hybrid dynamics, by name."""
    model, plan = around.model, around.plan
    known = dict(around.options).get("known_acceleration", ())
    held = constraints(model, plan, q, v)
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
    rows: list[Row] = [held.jacobian[k] for k in live]
    wanted: list[Scalar] = [-held.bias[k] for k in live]
    rows += [{i: 1.0} for i in known]
    wanted += [vd[i] for i in known]
    mass, C = joint_space_terms(plan, q, v, around.gravity, around.external)
    free = [(0.0 if i in known else tau[i]) - C[i] for i in range(plan.nv)]
    cut = rank_cut(model, held.value)
    accelerations, forces, _, _ = solve_in_metric(TreeMetric(plan, mass), rows, free, wanted, cut)
    left = [
        sum((x * accelerations[i] for i, x in row.items()), start=-want)
        for row, want in zip(rows, wanted, strict=True)
    ]
    # off the manifold, redundant constraints disagree by as much
    agreed = largest(left) <= np.maximum(OPENING_SHARE, cut) * (
        1.0 + largest(accelerations) + largest(wanted)
    )
    expected = "known accelerations that keep loops closed; name fewer joints, or others"
    accelerations = [require(agreed, x, expected) for x in accelerations]
    found = list(tau)
    for i, force in zip(known, forces[len(live) :], strict=True):
        found[i] = force
    return {"vd": as_traced(accelerations), "tau": as_traced(found)}


# -- tracking --------------------------------------------------------------------------------------


def nearest_accelerations(
    model: Model,
    held: Constraints,
    sharing: ForceDistribution,
    desired: list[Scalar],
    places: list[int],
) -> list[Scalar]:
    """Return the accelerations nearest to desired ones that keep loops closed.

    Args:
        model: The robot.
        held: Its constraints in this state.
        sharing: Of this position.
        desired: Desired accelerations [m/s^2 or rad/s^2], one per place.
        places: The velocity variables they belong to.
    """
    nv = model.nv
    bias = [-held.bias[k] for k in sharing.live] or [0.0]
    start = list(sharing.loops.solve(as_traced(bias)))
    # P is symmetric: the rows of S P are what is allowed of unit vectors
    rows = [sharing.allowed([1.0 if i == k else 0.0 for i in range(nv)]) for k in places]
    missing = [a - start[k] for a, k in zip(desired, places, strict=True)]
    step = list(factor_orthogonal(as_traced(rows), cut=sharing.cut).solve(as_traced(missing)))
    return [x + y for x, y in zip(start, step, strict=True)]


def _undriven(model: Model, actuators: tuple[str, ...]) -> tuple[str, ...]:
    """Return the joints that no loop binds and no actuator drives, such as a floating base."""
    bound = {i for used in jacobian_pattern(model) for i in used}
    found = []
    for joint in model.joints:
        own = model.slice(joint.name, of="v")
        if joint.nv and joint.name not in actuators and not bound & set(range(own.start, own.stop)):
            found.append(joint.name)
    return tuple(found)


def tracking_joint_forces(around: Setting, q: Any, v: Any, desired: Any) -> list[Scalar]:
    """Compute forces of actuators that bring a robot nearest to desired accelerations.

    Args:
        around: What acts in this state; options name the controlled joints and the actuators.
        q: Position with closed loops [m or rad], nq scalars.
        v: Joint velocity that keeps them closed [m/s or rad/s], nv scalars.
        desired: Desired acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    model, options = around.model, dict(around.options)
    joints, actuators = options["joints"], options["actuators"]
    held = constraints(model, around.plan, q, v)
    # what joints outside of all loops would need is not shared out among the actuators
    sharing = ForceDistribution(model, held, (*actuators, *_undriven(model, actuators)))
    places = [int(k) for k in model.indices(joints, of="v")]
    wanted = [desired[k] for k in places]
    vd = nearest_accelerations(model, held, sharing, wanted, places)
    needed = rnea(around.plan, q, v, vd, around.gravity, around.external)
    own = set(model.indices(actuators, of="v").tolist())
    found = sharing.spread(sharing.shares(needed))
    return [force if k in own else 0.0 for k, force in enumerate(found)]
