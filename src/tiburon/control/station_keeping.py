"""Station keeping: thrusters hold a vehicle in its place, or move it along a path.

Symbols:
    e       step from where the vehicle is to where it should be, body axes [rad, m]
    k       frequency of the answer [rad/s]; the closed loop has three roots at -k where water
            does nothing
    M       inertia of the vehicle along each of its six axes
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

from tiburon.argument_checks import refuse_unusable, vector
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.control.allocation import ThrusterAllocation
from tiburon.control.cartesian_path import CartesianPath, PoseSample
from tiburon.control.joint_tracking import entries, joined
from tiburon.control.run_time import (
    flat_parameters,
    forms,
    path_tables,
    run_time_fields,
    table_handles,
)
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.functions.dynamics import gravity_force, mass_matrix
from tiburon.model import Model, Water
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
from tiburon.trace.primitives.table_rows import Table

__all__ = ["StationKeeping"]

_NUMBERS = ("frequency", "inertia", "target", "allocation")
"""Fields that hold run-time parameters, in order."""

AXES = ("rx", "ry", "rz", "x", "y", "z")


@traced
@record
class StationKeeping:
    """Holds a floating base at a pose with its thrusters, against current, weight and the arm.

    The wrench M (3 k^2 e + 3 k de/dt + k^3 integral of e), with the weight less buoyancy of the
    robot, is shared out over the thrusters. Integrals are states of the run; they wait while
    thrusters are at their limits.

    Example:
        ``StationKeeping.of(rov, frequency=0.8, fluid=sea)``
    """

    target: tuple[float, ...] | CartesianPath
    """Quaternion (w, x, y, z) and position [m] as the free joint has them, or a path of the base in
    the world."""

    frequency: float
    """k [rad/s]; some times slower than thrusters lag."""

    inertia: tuple[float, ...]
    """M, angular first [kg m^2, kg], added mass included."""

    allocation: ThrusterAllocation
    """Who pushes."""

    joint: str
    """The free joint of the base."""

    compensates_gravity: bool = True
    """Whether weight less buoyancy is borne as well: integrals then have less to do."""

    name: str = "station"
    """Leads the names of its states."""

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
        """Return a keeper for a vehicle.

        Args:
            model: A robot with one floating base that carries thrusters.
            frequency: k [rad/s].
            target: Pose to hold, seven numbers of the free joint, or a path; where it is in q by
                default.
            fluid: Water whose added mass counts.
            q: Position at which inertia is taken [m or rad], shape (nq,); the neutral one by
                default.
            allocation: Who pushes; all thrusters of the base by default.
            compensates_gravity: Whether weight less buoyancy is borne as well.
            name: Leads the names of its states.
        """
        if fluid is not None:
            fluid.refuse_cases("station keeping")
        bases = [body for body in model.bodies if body.joint.kind == "free"]
        if len(bases) != 1:
            raise ModelError(
                f"model {model.name!r}: station keeping needs one floating base, got {len(bases)}"
            )
        joint = bases[0].joint
        pose = joint.pose
        if not (np.array_equal(pose.rotation, np.eye(3)) and not any(pose.translation)):
            raise ModelError(
                f"joint {joint.name!r}: station keeping needs a free joint that starts in the "
                "world's own frame, got one with a pose",
                name=joint.name,
            )
        refuse_unusable("target", target)
        position = model.neutral() if q is None else vector("q", q, model.nq)
        if target is None:
            target = position[model.slice(joint.name, of="q")]
        if not isinstance(target, CartesianPath):
            target = tuple(np.ravel(np.asarray(target, dtype=np.float64)).tolist())
            if len(target) != 7:
                raise ShapeError("target", "7 numbers (quaternion, position)", len(target))
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
        """Return the commands of the thrusters, and the rates of the integrals."""
        model = state.model
        q = entries(state.q[..., model.slice(self.joint, of="q")])
        v = entries(state.v[..., model.slice(self.joint, of="v")])
        given = run_time_fields(self, state, _NUMBERS)
        sample = None
        if isinstance(self.target, CartesianPath):
            sample = self.target.at(state.time, table_handles(self, state))
        e, ed = _errors(given["target"], sample, q, v)
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
        shares = self.allocation.allocate(joined(wrench, state.v), given["allocation"])
        waiting = sum(entries(shares.saturated)) > 0.5
        rates = [np.where(waiting, 0.0, x) for x in e]
        names = [thruster.name for thruster in self.allocation.thrusters]
        commands = dict(zip(names, entries(shares.command), strict=True))
        return commands, joined(rates, state.v)

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters: frequency, inertia, target unless that is a path."""
        return flat_parameters(self, _NUMBERS)

    def tables(self) -> tuple[Table, ...]:
        """Return its path, if it follows one."""
        return path_tables(self, ("target",))

    def structure(self) -> Hashable:
        """Return what the code depends on: who pushes, a path."""
        return (forms(self, _NUMBERS), self.joint, self.compensates_gravity, self.name)


def _errors(
    target: Any, sample: PoseSample | None, q: list[Any], v: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Return e and de/dt, body axes, of a constant pose or of the sample of a path."""
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
