"""Station keeping and path following of a vehicle with thrusters.

Symbols:
    e       pose error from actual to target, body axes [rad, m]
    k       closed-loop frequency [rad/s]: three poles at -k without hydrodynamic forces
    M       inertia of the vehicle along each of its six axes, with added mass
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

from tiburon.actuation.piecewise import entries, joined
from tiburon.argument_checks import refuse_unusable, vector
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.control.allocation import ThrusterAllocation
from tiburon.control.cartesian_path import CartesianPath, PoseSample
from tiburon.control.run_time import RunTimeFields, forms, run_time_fields, table_handles
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.functions.dynamics import gravity_force, mass_matrix
from tiburon.model import Joint, Model, Water
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.spatial import (
    quaternion_conjugate,
    quaternion_log,
    quaternion_multiply,
    quaternion_to_matrix,
)
from tiburon.spatial.vec3 import matrix_vector, subtract, transpose
from tiburon.trace.declared import traced

AXES = ("rx", "ry", "rz", "x", "y", "z")


@public
@traced
@record
class StationKeeping(RunTimeFields):
    """PID control of a floating base by thrusters, with gravity compensation.

    The wrench M (3 k^2 e + 3 k de/dt + k^3 integral of e), plus weight minus buoyancy, is allocated
    to the thrusters. Integrals are states of the run; they stop while a thruster is saturated
    (anti-windup).

    Example:
        ``StationKeeping.of(rov, frequency=0.8, fluid=sea)``
    """

    target: tuple[float, ...] | CartesianPath
    """Quaternion (w, x, y, z) and position [m] of the free joint, or a path of the base in the
    world."""

    frequency: float
    """k [rad/s]; should be several times slower than the thrusters."""

    inertia: tuple[float, ...]
    """M, angular first [kg m^2, kg], with added mass."""

    allocation: ThrusterAllocation
    """Allocation to the thrusters."""

    joint: str
    """The free joint of the base."""

    compensates_gravity: bool = True
    """Whether weight minus buoyancy is compensated."""

    name: str = "station"
    """Prefix of the names of its states."""

    @classmethod
    @public
    def of(
        cls,
        model: Model,
        *,
        frequency: float,
        target: ArrayLike | CartesianPath | None = None,
        fluid: Water | None = None,
        q: ArrayLike | None = None,
        allocation: ThrusterAllocation | None = None,
        compensates_gravity: bool = True,
        name: str = "station",
    ) -> "StationKeeping":
        """Return a controller for a vehicle.

        Args:
            model: A robot with one floating base that carries thrusters.
            frequency: k [rad/s].
            target: Set point, seven position variables of the free joint, or a path; the pose in q
                by default.
            fluid: Water, for added mass.
            q: Configuration for the inertia [m or rad], shape (nq,); neutral by default.
            allocation: Allocation to thrusters; all thrusters of the base by default.
            compensates_gravity: Whether weight minus buoyancy is compensated.
            name: Prefix of the names of its states.
        """
        if fluid is not None:
            fluid.refuse_cases("station keeping")
        bases = [body for body in model.bodies if body.joint.kind == "free"]
        if len(bases) != 1:
            raise ModelError(
                f"model {model.name!r}: station keeping needs one floating base, got {len(bases)}"
            )
        joint = bases[0].joint
        check_starts_in_world(joint, "station keeping")
        refuse_unusable("target", target)
        position = model.neutral() if q is None else vector("q", q, model.nq)
        if target is None:
            target = position[model.slice(joint.name, of="q")]
        if not isinstance(target, CartesianPath):
            target = tuple(np.ravel(np.asarray(target, dtype=np.float64)).tolist())
            if len(target) != 7:
                raise ShapeError("target", "7 values (quaternion, position)", len(target))
        if not frequency > 0.0:
            raise DomainError("station keeping: frequency", "above 0 rad/s", f"{frequency!r}")
        H = mass_matrix(model, position, fluid=fluid)
        where = model.slice(joint.name, of="v")
        return cls(
            target,
            float(frequency),
            tuple(np.diag(H)[where].tolist()),
            allocation or ThrusterAllocation.of(model, bases[0].name),
            joint.name,
            compensates_gravity,
            name,
        )

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return six integrals [rad s, m s]."""
        return tuple(f"{self.name}.{axis}" for axis in AXES)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return zeros."""
        return (0.0,) * 6

    def __call__(self, state: State) -> tuple[Any, Any]:
        """Return the thruster commands, and the rates of the integrals."""
        model = state.model
        q = entries(state.q[..., model.slice(self.joint, of="q")])
        v = entries(state.v[..., model.slice(self.joint, of="v")])
        given = run_time_fields(self, state)
        sample = None
        if isinstance(self.target, CartesianPath):
            sample = self.target.at(state.time, table_handles(self, state))
        e, ed = pose_errors(given["target"], sample, q, v)
        own = entries(state.own)
        k = given["frequency"]
        wrench = [
            m * (3.0 * k * k * a + 3.0 * k * b + k * k * k * c)
            for m, a, b, c in zip(given["inertia"], e, ed, own, strict=True)
        ]
        if self.compensates_gravity:
            now = {"time": state.time} if state.system.time_matters else {}
            tau = gravity_force(model, state.q, world=state.system.world, **now)
            borne = entries(tau[..., model.slice(self.joint, of="v")])
            wrench = [a + b for a, b in zip(wrench, borne, strict=True)]
        found = self.allocation.allocate(joined(wrench, state.v), given["allocation"])
        saturated = sum(entries(found.saturated)) > 0.5
        rates = [np.where(saturated, 0.0, x) for x in e]
        names = [thruster.name for thruster in self.allocation.thrusters]
        commands = dict(zip(names, entries(found.command), strict=True))
        return commands, joined(rates, state.v)

    @property
    def run_time_names(self) -> tuple[str, ...]:
        """Names of the fields that hold run-time parameters."""
        return ("frequency", "inertia", "target", "allocation")

    def structure(self) -> Hashable:
        """Return joint, options and the forms of allocation and target."""
        form = forms(self, self.run_time_names)
        return (form, self.joint, self.compensates_gravity, self.name)


def check_starts_in_world(joint: Joint, what: str) -> None:
    """Refuse a free joint whose frame is not that of the world."""
    pose = joint.pose
    if not np.array_equal(pose.rotation, np.eye(3)) or any(pose.translation):
        raise ModelError(
            f"joint {joint.name!r}: {what} needs a free joint that starts in the world's own "
            "frame, got one with a pose",
            name=joint.name,
        )


def pose_errors(
    target: Any, sample: PoseSample | None, q: list[Any], v: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Compute e and de/dt, body axes, for a constant pose or the sample of a path."""
    R = transpose(quaternion_to_matrix(q[:4]))
    linear: list[Any] = [0.0] * 3
    angular: list[Any] = [0.0] * 3
    if sample is not None:
        aim, place = entries(sample.quaternion), entries(sample.position)
        linear = list(matrix_vector(R, tuple(entries(sample.velocity))))
        angular = list(matrix_vector(R, tuple(entries(sample.angular_velocity))))
    else:
        aim, place = list(target[:4]), list(target[4:])
    turn = quaternion_log(quaternion_multiply(quaternion_conjugate(q[:4]), aim))
    shift = matrix_vector(R, subtract(tuple(place), tuple(q[4:])))
    rates = [x - y for x, y in zip((*angular, *linear), v, strict=True)]
    return [*turn, *shift], rates
