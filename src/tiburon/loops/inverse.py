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

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.joint_space import joint_space_terms
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting
from tiburon.errors import ModelError
from tiburon.loops.constraints import Constraints, Row, constraints, jacobian_pattern
from tiburon.loops.denoc import VIOLATION_FRACTION, denoc_forces, is_held, loop_forces
from tiburon.loops.legs import legs_of
from tiburon.loops.metric import (
    MIN_CUT,
    TreeMetric,
    max_abs,
    projection_error,
    rank_cut,
    scattered,
    solve_in_metric,
)
from tiburon.model import Model
from tiburon.record import named_line
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.value import require

UNACTUATED_FRACTION = 1e-7
"""Largest relative joint force that actuators and loops need not balance."""


class ActuatedForces(NamedTuple):
    """Actuator and constraint forces of a motion in one state."""

    tau: list[Scalar]
    """Joint force [N or N m], nv scalars; zero at joints without actuator."""

    multipliers: list[Scalar]
    """Force along each constraint [N or N m]."""

    def __repr__(self) -> str:
        return named_line(self)


class ForceDistribution:
    """Distribution of joint forces between actuators and loops in one configuration.

    Attributes:
        live: Indices of constraints whose row of J is not structurally zero.
        driven: Velocity variables of the actuators.
        loops: Factored J of the live constraints.
        reach: Factored P E.
        cut: Relative singular value below which rows of J and columns of P E are dependent.
        floor: Error of a projected unit vector: P E of a structure consists of nothing else.
    """

    def __init__(self, model: Model, terms: Constraints, actuators: Sequence[str]) -> None:
        """Factor J and P E for the constraints of a configuration and some actuated joints."""
        nv = model.nv
        self.live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
        self.driven = [int(i) for i in model.indices(actuators, of="v")]
        rows = [[terms.jacobian[k].get(i, 0.0) for i in range(nv)] for k in self.live]
        self.cut = rank_cut(model, terms.value)
        # one zero row if there are no constraints
        self.loops = factor_orthogonal(as_traced(rows or [[0.0] * nv]), cut=self.cut)
        self.floor = projection_error(self.loops, self.cut)
        # one zero column if there are no actuators
        columns = [self.project_unit(place) for place in self.driven] or [[0.0] * nv]
        matrix = as_traced([list(row) for row in zip(*columns, strict=True)])
        self.reach = factor_orthogonal(matrix, cut=self.cut, floor=self.floor)

    def project_unit(self, place: int) -> list[Scalar]:
        """Return P times the unit force along one velocity variable; P is symmetric."""
        return self.project([1.0 if i == place else 0.0 for i in range(self.loops.shape[1])])

    def project(self, force: Scalars) -> list[Scalar]:
        """Return P f, the part of a joint force that does work on permitted motions."""
        kept = self.loops.project_rows(as_traced(list(force)))
        return [f - x for f, x in zip(force, kept, strict=True)]

    def actuator_forces(self, needed: Scalars) -> list[Scalar]:
        """Return the actuator forces of least norm, (P E)^+ P Q."""
        found = list(self.reach.solve(as_traced(self.project(needed))))
        return found[: len(self.driven)]

    def joint_forces(self, forces: Scalars) -> list[Scalar]:
        """Return E u: actuator forces as joint forces."""
        found: list[Scalar] = [0.0] * self.loops.shape[1]
        for place, force in zip(self.driven, forces, strict=True):
            found[place] = force
        return found


def distribute_forces(
    model: Model,
    terms: Constraints,
    needed: Scalars,
    vd: Scalars,
    actuators: Sequence[str],
    distribution: ForceDistribution | None = None,
) -> ActuatedForces:
    """Distribute the joint forces of a motion between actuators and loops.

    Args:
        model: The robot.
        terms: Its constraints in this state.
        needed: Q, joint forces of the tree for this motion [N or N m], nv scalars.
        vd: Joint accelerations of the motion [m/s^2 or rad/s^2], nv scalars.
        actuators: Names of the actuated joints.
        distribution: The distribution in this configuration, if it is known.
    """
    among = distribution or ForceDistribution(model, terms, actuators)
    opening = [
        sum((x * vd[i] for i, x in terms.jacobian[k].items()), start=terms.bias[k])
        for k in among.live
    ]
    tau = among.joint_forces(among.actuator_forces(needed))
    rest = [f - t for f, t in zip(needed, tau, strict=True)]
    carried = list(among.loops.solve_transpose(as_traced(rest)))
    undone = among.project(rest)
    # off the manifold, redundant constraints are inconsistent by about the cut
    possible = max_abs(undone) <= np.maximum(UNACTUATED_FRACTION, among.cut) * (
        1.0 + max_abs(needed)
    )
    steady = max_abs(opening) <= np.maximum(VIOLATION_FRACTION, among.cut) * (
        1.0 + max_abs(vd) + max_abs(terms.bias)
    )
    message = "actuators that can drive this motion; "
    if actuators:
        message += f"{', '.join(actuators[:4])} cannot: name others"
    else:
        message += "the robot has none, and moves as forward_dynamics computes without joint forces"
    # forces of loops fail, too: reactions take them alone
    tau, carried = (
        [
            require(steady, require(possible, x, message), "v and vd that keep loops closed")
            for x in forces
        ]
        for forces in (tau, carried)
    )
    live = among.live
    return ActuatedForces(tau, list(scattered(carried[: len(live)], live, len(terms.value))))


def actuated_forces(
    around: Setting, q: Any, v: Any, vd: Any, actuators: Sequence[str]
) -> ActuatedForces:
    """Compute actuator and constraint forces of a motion (inverse dynamics with loops)."""
    terms = constraints(around.model, around.plan, q, v)
    needed = rnea(around.plan, q, v, vd, around.gravity, around.external)
    return distribute_forces(around.model, terms, needed, vd, actuators)


def denoc_actuated_forces(
    around: Setting,
    q: Any,
    v: Any,
    vd: Any,
    actuators: Sequence[str],
    shares: Sequence[float] | None,
) -> ActuatedForces:
    """Compute the same for a platform on legs, recursively (Khan 2002, eq. 3.40).

    Args:
        around: Surroundings in this state.
        q: Configuration with closed loops [m or rad], nq scalars.
        v: Joint velocity with J v = 0 [m/s or rad/s], nv scalars.
        vd: Joint acceleration that keeps loops closed [m/s^2 or rad/s^2], nv scalars.
        actuators: Names of the actuated joints.
        shares: Weight of each leg in the load of the platform; None for its condition.
    """
    model = around.model
    driven = {int(i) for i in model.indices(list(actuators), of="v")}
    structure = legs_of(model, driven=driven)
    if driven & set(structure.carrier):
        name = around.plan.bodies[structure.platform].joint.name
        raise ModelError(
            f"joint {name!r}: expected driven joints of legs, got the free joint of the platform; "
            "leave it out, or method",
            name=name,
        )
    terms = constraints(model, around.plan, q, v)
    tau, held = denoc_forces(around, q, v, vd, structure, shares)
    opening = [
        sum((x * vd[i] for i, x in row.items()), start=bias)
        for row, bias in zip(terms.jacobian, terms.bias, strict=True)
    ]
    # branches without motor must need no force
    left = [tau[i] for i in structure.independent if i not in driven]
    tau = [x if i in driven else 0.0 for i, x in enumerate(tau)]
    cut = rank_cut(model, terms.value)
    good = is_held(held) & (max_abs(left) <= UNACTUATED_FRACTION * (1.0 + max_abs(tau)))
    steady = max_abs(opening) <= np.maximum(VIOLATION_FRACTION, cut) * (
        1.0 + max_abs(vd) + max_abs(terms.bias)
    )
    message = (
        f"actuators that hold the platform and all legs; {', '.join(actuators[:4])} do not: name "
        "others, or leave method out"
    )
    tau = [
        require(steady, require(good, t, message), "v and vd that keep loops closed") for t in tau
    ]
    multipliers, _ = loop_forces(around, terms, q, v, vd, tau)
    return ActuatedForces(tau, list(multipliers))


# -- hybrid dynamics -------------------------------------------------------------------------------


def constrained_hybrid(around: Setting, q: Scalars, v: Scalars, tau: Scalars, vd: Scalars) -> Any:
    """Compute accelerations and joint forces of hybrid dynamics, by name."""
    known = dict(around.options).get("known_acceleration", ())
    terms = constraints(around.model, around.plan, q, v)
    wanted = {i: vd[i] for i in known}
    accelerations, forces, _ = hybrid_with_loops(around, q, v, tau, wanted, terms)
    return {"vd": as_traced(list(accelerations)), "tau": as_traced(list(forces))}


def hybrid_with_loops(
    around: Setting,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    wanted: Mapping[int, Scalar],
    terms: Constraints,
    min_cut: float = MIN_CUT,
) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Solve hybrid dynamics of a robot with loops.

    Args:
        around: The robot in its surroundings.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint forces [N or N m], nv scalars; not read where accelerations are known.
        wanted: Known accelerations by velocity variable [m/s^2 or rad/s^2].
        terms: Constraints of the loops in this state.
        min_cut: Relative length below which constraints are redundant.

    Returns:
        Accelerations and joint forces, nv scalars each, and constraint forces [N or N m].
    """
    model, plan, known = around.model, around.plan, list(wanted)
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
    rows: list[Row] = [terms.jacobian[k] for k in live]
    rhs: list[Scalar] = [-terms.bias[k] for k in live]
    rows += [{i: 1.0} for i in known]
    rhs += [wanted[i] for i in known]
    mass, C = joint_space_terms(plan, q, v, around.gravity, around.external)
    free = [(0.0 if i in known else tau[i]) - C[i] for i in range(plan.nv)]
    cut = rank_cut(model, terms.value, min_cut)
    accelerations, forces, _, _ = solve_in_metric(TreeMetric(plan, mass), rows, free, rhs, cut)
    left = [
        sum((x * accelerations[i] for i, x in row.items()), start=-want)
        for row, want in zip(rows, rhs, strict=True)
    ]
    # off the manifold, redundant constraints are inconsistent by about the cut
    agreed = max_abs(left) <= np.maximum(VIOLATION_FRACTION, cut) * (
        1.0 + max_abs(accelerations) + max_abs(rhs)
    )
    expected = "known accelerations that keep loops closed; name fewer joints, or others"
    accelerations = [require(agreed, x, expected) for x in accelerations]
    found = list(tau)
    for i, force in zip(known, forces[len(live) :], strict=True):
        found[i] = force
    of_loops: list[Scalar] = [0.0] * len(terms.jacobian)
    for k, force in zip(live, forces, strict=False):
        of_loops[k] = force
    return accelerations, found, of_loops


# -- tracking --------------------------------------------------------------------------------------


def nearest_accelerations(
    model: Model,
    terms: Constraints,
    distribution: ForceDistribution,
    desired: list[Scalar],
    places: list[int],
) -> list[Scalar]:
    """Compute the accelerations nearest to desired ones that keep loops closed.

    Args:
        model: The robot.
        terms: Its constraints in this state.
        distribution: Force distribution in this configuration.
        desired: Desired accelerations [m/s^2 or rad/s^2], one per place.
        places: Their velocity variables.
    """
    bias = [-terms.bias[k] for k in distribution.live] or [0.0]
    start = list(distribution.loops.solve(as_traced(bias)))
    # the rows of S P
    rows = [distribution.project_unit(k) for k in places]
    missing = [a - start[k] for a, k in zip(desired, places, strict=True)]
    factor = factor_orthogonal(as_traced(rows), cut=distribution.cut, floor=distribution.floor)
    step = list(factor.solve(as_traced(missing)))
    return [x + y for x, y in zip(start, step, strict=True)]


def _undriven(model: Model, actuators: tuple[str, ...]) -> tuple[str, ...]:
    """Return the joints outside loops without actuator, such as a floating base."""
    bound = {i for used in jacobian_pattern(model) for i in used}
    found = []
    for joint in model.joints:
        own = model.slice(joint.name, of="v")
        if joint.nv and joint.name not in actuators and not bound & set(range(own.start, own.stop)):
            found.append(joint.name)
    return tuple(found)


def tracking_joint_forces(around: Setting, q: Any, v: Any, desired: Any) -> list[Scalar]:
    """Compute actuator forces for the accelerations nearest to desired ones.

    Args:
        around: Surroundings in this state; options name the controlled joints and the actuators.
        q: Configuration with closed loops [m or rad], nq scalars.
        v: Joint velocity with J v = 0 [m/s or rad/s], nv scalars.
        desired: Desired acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    model, options = around.model, dict(around.options)
    joints, actuators = options["joints"], options["actuators"]
    terms = constraints(model, around.plan, q, v)
    # forces of joints outside the loops are not distributed among the actuators
    distribution = ForceDistribution(model, terms, (*actuators, *_undriven(model, actuators)))
    places = [int(k) for k in model.indices(joints, of="v")]
    targets = [desired[k] for k in places]
    vd = nearest_accelerations(model, terms, distribution, targets, places)
    needed = rnea(around.plan, q, v, vd, around.gravity, around.external)
    own = set(model.indices(actuators, of="v").tolist())
    found = distribution.joint_forces(distribution.actuator_forces(needed))
    return [force if k in own else 0.0 for k, force in enumerate(found)]
