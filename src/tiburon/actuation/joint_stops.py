"""Ends of joints: one-sided springs with dampers where `JointLimits` has the joint stop."""

import math
from collections.abc import Hashable
from functools import lru_cache

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import (
    joint_force,
    joint_positions,
    joint_velocities,
    per_degree_of_freedom,
    spread_forces,
)
from tiburon.actuation.joint_spring import turn_of
from tiburon.actuation.stop import stop_force
from tiburon.algorithms.crba import crba
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import ModelError
from tiburon.model import Coupled, Joint, Model
from tiburon.record import record
from tiburon.spatial import Scalar

__all__ = ["JointStop", "JointStops", "felt_inertia"]

STOP_FREQUENCY = 250.0
"""How fast what a joint moves would swing on its stop, by default [rad/s].

A stop met at 1 rad/s is then entered by 4 mrad; steps of a millisecond follow the rebound.
"""

STOP_DAMPING_RATIO = 0.5
"""Damping of that swing as a fraction of critical: a stop gives back little of the energy."""

STOP_RAMP = 1e-3
"""Depth at which the damper of a stop is fully there [rad or m]."""

SMALLEST_DEPTH = 1e-150
"""Keeps the direction of no turn finite; squared it is the smallest normal number and more."""


@record
class JointStop:
    """How one freedom of a joint is stopped."""

    joint: str
    """Name of the joint."""

    freedom: int
    """Which of its freedoms, from 0; -1 for the angle of a turn about all axes."""

    lower: float
    """Smallest position [rad or m]; minus infinity for none."""

    upper: float
    """Largest position [rad or m]; infinity for none."""

    stiffness: float
    """Force per depth [N m/rad or N/m]."""

    damping: float
    """Force per speed into the stop [N m s/rad or N s/m]."""

    ramp: float = STOP_RAMP
    """Depth at which the damper is fully there [rad or m]."""

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


@record
class JointStops(Element):
    """All stops of a robot in one element; positions and numbers are run-time parameters."""

    name: str
    """Unique among the elements of a run."""

    stops: tuple[JointStop, ...]
    """One for each freedom that is limited."""

    @classmethod
    @public
    def of(
        cls,
        model: Model,
        *,
        frequency: float = STOP_FREQUENCY,
        damping_ratio: float = STOP_DAMPING_RATIO,
        ramp: float = STOP_RAMP,
    ) -> "JointStops | None":
        """Return the stops of a robot, as stiff as suits its inertia; None if nothing stops it.

        A stop has the stiffness m w^2 and the damping 2 z m w, where m is what the joint feels of
        the robot in its neutral position with all other joints free: the swing on the stop is then
        near the frequency w, whatever the joint moves.

        Args:
            model: The robot.
            frequency: w [rad/s]; explicit steps should stay below 0.3 / w.
            damping_ratio: z, as a fraction of critical damping.
            ramp: Depth at which the damper is fully there [rad or m].
        """
        for quantity, value in (("frequency", frequency), ("damping_ratio", damping_ratio)):
            positive(quantity, value)
        inertia: NDArray[np.float64] | None = None
        stops = []
        for joint in model.joints:
            limits = joint.limits
            if limits is None or joint.dof == 0:
                continue
            for freedom, low, high in _limited(joint):
                if math.isinf(low) and math.isinf(high):
                    continue
                if inertia is None:
                    inertia = felt_inertia(model)
                m = _felt_by(model, joint, freedom, inertia)
                k, b = m * frequency * frequency, 2.0 * damping_ratio * m * frequency
                stops.append(JointStop(joint.name, freedom, low, high, k, b, ramp))
        return cls("limits", tuple(stops)) if stops else None

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the energy stored in the springs of the stops."""
        return (f"{self.name}.energy",)

    def parameters(self) -> tuple[float, ...]:
        """Return of each stop its stiffness, damping, ramp and finite positions."""
        return tuple(x for stop in self.stops for x in (*_law(stop), *_ends(stop)))

    def structure(self) -> Hashable:
        """Return which freedoms are stopped on which side."""
        return tuple(
            (s.joint, s.freedom, math.isfinite(s.lower), math.isfinite(s.upper)) for s in self.stops
        )

    def check(self, model: Model) -> None:
        """Raise an error if a joint or a freedom does not exist."""
        for stop in self.stops:
            count = model.joint(stop.joint).dof
            if not -1 <= stop.freedom < count:
                raise ModelError(
                    f"stop of joint {stop.joint!r}: freedom must be below {count}, got "
                    f"{stop.freedom}; count from 0",
                    name=stop.joint,
                )

    def act(self, now: ElementContext) -> Action:
        """Return the forces at the joints: zero inside their ranges."""
        given = iter(now.p)
        forces = []
        energy: Scalar = 0.0
        for stop in self.stops:
            joint = now.model.joint(stop.joint)
            k, b, r = (next(given) for _ in range(3))
            position, direction = _measured(now, joint, stop.freedom)
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


def _limited(joint: Joint) -> list[tuple[int, float, float]]:
    """Return freedom, lower and upper limit of all that is limited."""
    assert joint.limits is not None
    low, high = (per_degree_of_freedom(x, joint) for x in (joint.limits.lower, joint.limits.upper))
    if joint.follows is None and joint.nq != joint.nv:
        # the angle of the whole turn, which cannot be negative
        return [(-1, -math.inf, min(high))]
    return [(k, a, b) for k, (a, b) in enumerate(zip(low, high, strict=True))]


def _law(stop: JointStop) -> tuple[float, ...]:
    return (stop.stiffness, stop.damping, stop.ramp)


def _ends(stop: JointStop) -> tuple[float, ...]:
    return tuple(x for x in (stop.lower, stop.upper) if math.isfinite(x))


def _measured(now: ElementContext, joint: Joint, freedom: int) -> tuple[Scalar, list[Scalar]]:
    """Return the position that is limited, and how it changes with the velocity of each freedom."""
    q = joint_positions(now, joint)
    direction: list[Scalar] = [0.0] * joint.dof
    if freedom >= 0:
        direction[freedom] = 1.0
        return q[freedom], direction
    x, y, z = turn_of(joint, q)
    angle = np.sqrt(x * x + y * y + z * z + SMALLEST_DEPTH)
    # an angle grows by the part of the angular velocity along its axis
    direction[:3] = [x / angle, y / angle, z / angle]
    return angle, direction


@lru_cache(maxsize=64)
def felt_inertia(model: Model) -> NDArray[np.float64]:
    """Return what each freedom feels of a robot in its neutral position, all other joints free.

    The inverse of the diagonal of the inverse mass matrix [kg or kg m^2], shape (nv,): the least
    that the freedom feels however the others are held.
    """
    if model.nv == 0:
        return np.zeros(0)
    M = np.array(crba(model.plan, tuple(model.neutral().tolist())), dtype=np.float64)
    try:
        felt: NDArray[np.float64] = 1.0 / np.diag(np.linalg.inv(M))
    except np.linalg.LinAlgError:
        felt = np.diag(M).copy()
    # joints that nothing resists, in models that allow them, take what all others feel least
    good = felt[np.isfinite(felt) & (felt > 0.0)]
    least = float(good.min()) if good.size else 1.0
    return np.where(np.isfinite(felt) & (felt > 0.0), felt, least)


def _felt_by(model: Model, joint: Joint, freedom: int, inertia: NDArray[np.float64]) -> float:
    own = inertia[model.slice(joint.name, of="v")]
    if isinstance(joint, Coupled):
        # what the leader feels, seen through the ratio
        return float(own[0]) / max(joint.ratio * joint.ratio, SMALLEST_DEPTH)
    return float(own[:3].min()) if freedom < 0 else float(own[freedom])
