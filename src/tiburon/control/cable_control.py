"""Control of a platform on cables: it follows a path, and tensions stay between their limits.

Symbols:
    e       pose error from actual to target, body axes [rad, m]
    k       closed-loop frequency [rad/s]: two poles at -k
    a       acceleration of the platform, that of the path + 2 k de/dt + k^2 e
    w, v    angular and linear velocity of the platform, body axes
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

from tiburon.actuation.piecewise import entries, joined
from tiburon.argument_checks import positive, refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.control.cartesian_path import CartesianPath
from tiburon.control.joint_tracking import model_key
from tiburon.control.run_time import RunTimeFields, forms, run_time_fields, table_handles
from tiburon.control.station_keeping import check_starts_in_world, pose_errors
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.functions.load_sharing import LoadSharing
from tiburon.load_sharing.objectives.objective import Objective
from tiburon.model import Model, World
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.spatial import quaternion_to_matrix
from tiburon.spatial.vec3 import cross, matrix_vector, transpose
from tiburon.trace.declared import traced


@traced
@record
class CableControl(RunTimeFields):
    """Inverse dynamics of a platform on cables; `LoadSharing` finds the tensions.

    Where no tensions within the limits produce the motion, those of the nearest motion are taken.

    Example:
        ``simulate(robot, 5.0, control=CableControl.of(robot, target=path, frequency=10.0))``
    """

    plan: LoadSharing
    """How tensions are shared."""

    target: tuple[float, ...] | CartesianPath
    """Quaternion (w, x, y, z) and position [m] of the free joint, or a path of the platform in the
    world."""

    frequency: float
    """k [rad/s]."""

    joint: str
    """The free joint of the platform."""

    @classmethod
    @public
    def of(
        cls,
        model: Model,
        *,
        target: ArrayLike | CartesianPath,
        frequency: float = 10.0,
        objective: Objective | None = None,
        world: World | None = None,
    ) -> "CableControl":
        """Return a controller for a platform on cables.

        Args:
            model: A robot with cables and one free joint.
            target: Set point, seven position variables of the free joint, or a path.
            frequency: k [rad/s].
            objective: What tensions minimize; the sum of their squares by default.
            world: Surroundings.

        Raises:
            ModelError: If the robot has no cables, or not one free joint that starts in the world's
                own frame.
        """
        if not model.cables:
            raise ModelError(f"model {model.name!r}: cable control needs cables, got none")
        bases = [body.joint for body in model.bodies if body.joint.kind == "free"]
        if len(bases) != 1 or len(model.bodies) != 1:
            raise ModelError(
                f"model {model.name!r}: cable control needs one body on a free joint, got "
                f"{len(model.bodies)} bodies and {len(bases)} free joints"
            )
        joint = bases[0]
        check_starts_in_world(joint, "cable control")
        refuse_unusable("target", target)
        if not isinstance(target, CartesianPath):
            target = tuple(np.ravel(np.asarray(target, dtype=np.float64)).tolist())
            if len(target) != 7:
                raise ShapeError("target", "7 values (quaternion, position)", len(target))
            length = float(np.linalg.norm(target[:4]))
            if not np.isfinite(target).all() or not abs(length - 1.0) < 0.5:
                raise DomainError(
                    "target",
                    "a finite pose whose quaternion has a length near 1",
                    f"{list(target)}",
                    advice="a pose is (w, x, y, z) and the position of the platform",
                )
            target = (*(x / length for x in target[:4]), *target[4:])
        plan = LoadSharing.of(model, objective=objective, world=world, relax=True)
        return cls(plan, target, positive("frequency", frequency, "rad/s"), joint.name)

    def __call__(self, state: State) -> Any:
        """Return the tension of each cable."""
        model = state.model
        q = entries(state.q[..., model.slice(self.joint, of="q")])
        v = entries(state.v[..., model.slice(self.joint, of="v")])
        given = run_time_fields(self, state)
        sample = None
        ahead: list[Any] = [0.0] * 6
        if isinstance(self.target, CartesianPath):
            sample = self.target.at(state.time, table_handles(self, state))
            R = transpose(quaternion_to_matrix(q[:4]))
            turning, along = sample.angular_acceleration, sample.acceleration
            ahead = [
                *matrix_vector(R, tuple(entries(turning))),
                *matrix_vector(R, tuple(entries(along))),
            ]
        e, ed = pose_errors(given["target"], sample, q, v)
        k = given["frequency"]
        a = [x + k * k * y + 2.0 * k * z for x, y, z in zip(ahead, e, ed, strict=True)]
        # velocities are in axes of the body, which turn
        carried = cross((v[0], v[1], v[2]), (v[3], v[4], v[5]))
        vd = [*a[:3], *(x - y for x, y in zip(a[3:], carried, strict=True))]
        share = self.plan.share(state.q, state.v, joined(vd, state.v))
        first = len(self.plan.names) - len(model.cables)
        return {
            cable.name: share.x[..., first + number] for number, cable in enumerate(model.cables)
        }

    @property
    def run_time_names(self) -> tuple[str, ...]:
        """Names of the fields that hold run-time parameters."""
        return ("frequency", "target")

    def structure(self) -> Hashable:
        """Return the plan, the joint and the form of the target."""
        plan = self.plan
        own = (plan.structure(), plan.parameters(), plan.world, model_key(plan.model))
        return (forms(self, self.run_time_names), self.joint, own)

    @public
    def structure_in(self, model: Model, world: World) -> Hashable:
        """Return the structure, and whether robot and world are those of the plan."""
        return (self.structure(), self.plan.model == model, self.plan.world == world)
