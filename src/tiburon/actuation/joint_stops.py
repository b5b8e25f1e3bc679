"""Joint stops: one-sided spring-dampers at the position limits of `JointLimits`.

They act in adaptive steps and in those of methods that cannot end steps with `JointLaws`, which
have rigid stops, and at limits of ball joints in all runs.
"""

import math
from collections.abc import Collection, Hashable
from typing import ClassVar

import numpy as np

from tiburon.actuation.element import (
    Action,
    Element,
    ElementContext,
    joint_force,
    joint_positions,
    joint_velocities,
    per_degree_of_freedom,
    rotation_vector,
    spread_forces,
)
from tiburon.algorithms.crba import crba
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import ModelError
from tiburon.model import Coupled, Joint, Model
from tiburon.record import record
from tiburon.spatial import Scalar

STOP_FREQUENCY = 250.0
"""Default natural frequency of the moved inertia on its stop [rad/s].

An impact at 1 rad/s penetrates 4 mrad; steps of 1 ms resolve the rebound.
"""

STOP_DAMPING_RATIO = 0.5
"""Default damping ratio (fraction of critical damping)."""

STOP_RAMP = 1e-3
"""Default penetration depth at which a stop has its full damping [rad or m]."""

MIN_DIVISOR = 1e-150
"""Added to the squared rotation angle, so that its direction is finite at zero rotation."""


def stop_force(
    depth: Scalar, rate: Scalar, stiffness: Scalar, damping: Scalar, ramp: Scalar
) -> Scalar:
    """Compute the force of a stop [N or N m]: max(0, k d + b min(d / r, 1) d') for d > 0.

    The damping ramps up over the depth r, so that the force is continuous; below r it is the law of
    Hunt and Crossley 1975, "Coefficient of restitution interpreted as damping in vibroimpact", with
    the coefficient b / r. The stop dissipates energy; it never adds any.

    Args:
        depth: Penetration depth d [m or rad].
        rate: Speed into the stop, d' [m/s or rad/s].
        stiffness: k [N/m or N m/rad].
        damping: b [N s/m or N m s/rad].
        ramp: r [m or rad].
    """
    d = np.maximum(depth, 0.0)
    return np.maximum(stiffness * d + damping * np.minimum(d / ramp, 1.0) * rate, 0.0)


@record
class JointStop:
    """Stop of one degree of freedom of a joint."""

    joint: str
    """Name of the joint."""

    dof_index: int
    """Index of the degree of freedom, from 0; -1 for the total rotation angle of a ball joint."""

    lower: float
    """Smallest position [rad or m]; minus infinity for none."""

    upper: float
    """Largest position [rad or m]; infinity for none."""

    stiffness: float
    """Force per penetration depth [N m/rad or N/m]."""

    damping: float
    """Force per speed into the stop [N m s/rad or N s/m]."""

    ramp: float = STOP_RAMP
    """Depth at which the damping is complete [rad or m]."""

    def __post_init__(self) -> None:
        element = f"stop of joint {self.joint!r}"
        for quantity, least in (("stiffness", 0.0), ("damping", -math.ulp(0.0)), ("ramp", 0.0)):
            value = getattr(self, quantity)
            if not least < value < math.inf:
                raise ModelError(
                    f"{element}: {quantity} must be positive and finite, got {value:g}; leave the "
                    "limit out for a joint without a stop",
                    name=self.joint,
                )


@public
@record
class JointStops(Element):
    """All stops of a robot in one element; their values are run-time parameters."""

    name: str
    """Unique among the elements of a run."""

    stops: tuple[JointStop, ...]
    """One per limited degree of freedom."""

    stops_joints: ClassVar[bool] = True

    @classmethod
    @public
    def of(
        cls,
        model: Model,
        *,
        frequency: float = STOP_FREQUENCY,
        damping_ratio: float = STOP_DAMPING_RATIO,
        ramp: float = STOP_RAMP,
        at_ends: Collection[str] = (),
    ) -> "JointStops | None":
        """Return the stops of a robot, scaled by its inertia; None if no joint is limited.

        A stop has the stiffness m w^2 and the damping 2 z m w, with m the apparent inertia of the
        joint in the neutral configuration (`apparent_joint_inertia`). Damping is at most that of
        the coefficient of restitution of the limits, where they have one.

        Args:
            model: The robot.
            frequency: w [rad/s]; explicit steps should stay below 0.3 / w.
            damping_ratio: z, as a fraction of critical damping, at most.
            ramp: Depth at which the damping is complete [rad or m].
            at_ends: Joints whose stops act at the ends of steps (`JointLaws`) and are left out.
        """
        for quantity, value in (("frequency", frequency), ("damping_ratio", damping_ratio)):
            positive(quantity, value)
        inertia: NDArray[np.float64] | None = None
        stops = []
        for joint in model.joints:
            limits = joint.limits
            if limits is None or joint.dof == 0 or joint.name in at_ends:
                continue
            for dof_index, low, high in _limited(joint):
                if math.isinf(low) and math.isinf(high):
                    continue
                if inertia is None:
                    inertia = apparent_joint_inertia(model)
                m = _stopped_inertia(model, joint, dof_index, inertia)
                share = _ratio_of(max(per_degree_of_freedom(limits.restitution, joint)))
                damped = min(damping_ratio, share)
                k, b = m * frequency * frequency, 2.0 * damped * m * frequency
                stops.append(JointStop(joint.name, dof_index, low, high, k, b, ramp))
        return cls("limits", tuple(stops)) if stops else None

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the elastic energy of the stops [J]."""
        return (f"{self.name}.energy",)

    def parameters(self) -> tuple[float, ...]:
        """Return stiffness, damping, ramp and finite limits of each stop."""
        return tuple(x for stop in self.stops for x in (*_law(stop), *_ends(stop)))

    def structure(self) -> Hashable:
        """Return which degrees of freedom have a stop on which side."""
        return tuple(
            (s.joint, s.dof_index, math.isfinite(s.lower), math.isfinite(s.upper))
            for s in self.stops
        )

    def check(self, model: Model) -> None:
        """Raise an error if a joint or degree of freedom does not exist."""
        for stop in self.stops:
            count = model.joint(stop.joint).dof
            if not -1 <= stop.dof_index < count:
                raise ModelError(
                    f"stop of joint {stop.joint!r}: dof_index must be below {count}, got "
                    f"{stop.dof_index}; count from 0",
                    name=stop.joint,
                )

    def act(self, now: ElementContext) -> Action:
        """Compute the joint forces, which are zero within the limits."""
        given = iter(now.p)
        forces = []
        energy: Scalar = 0.0
        for stop in self.stops:
            joint = now.model.joint(stop.joint)
            k, b, r = (next(given) for _ in range(3))
            position, direction = _measured(now, joint, stop.dof_index)
            v = joint_velocities(now, joint)
            rate: Scalar = 0.0
            for a, x in zip(direction, v, strict=True):
                rate = rate + a * x
            push: Scalar = 0.0
            for end, sign in ((stop.lower, -1.0), (stop.upper, 1.0)):
                if math.isfinite(end):
                    depth = sign * (position - next(given))
                    push = push - sign * stop_force(depth, sign * rate, k, b, r)
                    inside = np.maximum(depth, 0.0)
                    energy = energy + 0.5 * k * inside * inside
            forces.append(joint_force(joint, [a * push for a in direction]))
        total = spread_forces(now.model, forces)
        return Action(total, outputs={f"{self.name}.energy": energy})


def _ratio_of(restitution: float) -> float:
    """Return the damping ratio of an oscillator that leaves with a share of its speed."""
    if not restitution:
        return math.inf
    return -math.log(restitution) / math.hypot(math.pi, math.log(restitution))


def _limited(joint: Joint) -> list[tuple[int, float, float]]:
    """Return index, lower and upper limit of each limited degree of freedom."""
    assert joint.limits is not None
    low, high = (per_degree_of_freedom(x, joint) for x in (joint.limits.lower, joint.limits.upper))
    if joint.follows is None and joint.nq != joint.nv:
        # the total rotation angle is not negative
        return [(-1, -math.inf, min(high))]
    return [(k, a, b) for k, (a, b) in enumerate(zip(low, high, strict=True))]


def _law(stop: JointStop) -> tuple[float, ...]:
    return (stop.stiffness, stop.damping, stop.ramp)


def _ends(stop: JointStop) -> tuple[float, ...]:
    return tuple(x for x in (stop.lower, stop.upper) if math.isfinite(x))


def _measured(now: ElementContext, joint: Joint, dof_index: int) -> tuple[Scalar, list[Scalar]]:
    """Return the limited position, and its gradient with respect to the joint velocity."""
    q = joint_positions(now, joint)
    direction: list[Scalar] = [0.0] * joint.dof
    if dof_index >= 0:
        direction[dof_index] = 1.0
        return q[dof_index], direction
    x, y, z = rotation_vector(joint, q)
    angle = np.sqrt(x * x + y * y + z * z + MIN_DIVISOR)
    # the rate of the angle is the angular velocity along the rotation axis
    direction[:3] = [x / angle, y / angle, z / angle]
    return angle, direction


def apparent_joint_inertia(model: Model) -> NDArray[np.float64]:
    """Compute 1 / (M^-1)_ii in the neutral configuration [kg or kg m^2], shape (nv,).

    This is the apparent inertia of each degree of freedom with all other joints free.
    """
    if model.nv == 0:
        return np.zeros(0)
    M = np.array(crba(model.plan, tuple(model.neutral().tolist())), dtype=np.float64)
    try:
        inertia: NDArray[np.float64] = 1.0 / np.diag(np.linalg.inv(M))
    except np.linalg.LinAlgError:
        inertia = np.diag(M).copy()
    # degrees of freedom without inertia get the smallest inertia of the others
    good = inertia[np.isfinite(inertia) & (inertia > 0.0)]
    least = float(good.min()) if good.size else 1.0
    return np.where(np.isfinite(inertia) & (inertia > 0.0), inertia, least)


def _stopped_inertia(
    model: Model, joint: Joint, dof_index: int, inertia: NDArray[np.float64]
) -> float:
    own = inertia[model.slice(joint.name, of="v")]
    if isinstance(joint, Coupled):
        # the inertia of the leader, reflected through the ratio
        return float(own[0]) / max(joint.ratio * joint.ratio, MIN_DIVISOR)
    return float(own[:3].min()) if dof_index < 0 else float(own[dof_index])
