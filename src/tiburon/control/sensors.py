"""Sensors a robot may carry; each is a record with its rate, noise, bias and delay.

All read in SI units. Axes are those of the frame a sensor is fixed to, unless said otherwise.
Readings without errors are exact functions of the state and the acceleration that belongs to it.
"""

from collections.abc import Sequence

from tiburon.algorithms.rnea import transmitted
from tiburon.errors import ModelError, OptionError, UnknownNameError
from tiburon.model import Model
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.simulation.sensing import Sensed, Sensor
from tiburon.spatial import Scalar, matrix_to_quaternion, spatial_to_classical
from tiburon.spatial.vec3 import matrix_vector, subtract, transpose

__all__ = [
    "DepthSensor",
    "ForceTorqueSensor",
    "InertialSensor",
    "JointSensor",
    "PoseSensor",
    "VelocityLog",
]

DEFAULT_RATE = 100.0
"""Samples per second by default [Hz]."""

Numbers = float | tuple[float, ...]


@record
class JointSensor(Sensor):
    """Encoders: positions and velocities of joints, as q and v have them."""

    name: str
    joints: tuple[str, ...] = ()
    """Names of joints; all by default."""

    velocity: bool = True
    """Whether velocities are told as well."""

    rate: float = DEFAULT_RATE
    noise: Numbers = 0.0
    bias: Numbers = 0.0
    delay: float = 0.0
    seed: int = 0
    resolution: Numbers = 0.0
    """Smallest difference it tells, one number or one per channel; 0 for none."""

    def _places(self, model: Model) -> tuple[list[int], list[int]]:
        names = self.joints or tuple(joint.name for joint in model.joints if joint.nv)
        q = [k for name in names for k in _range(model.slice(name, of="q"))]
        v = [k for name in names for k in _range(model.slice(name, of="v"))]
        return q, v if self.velocity else []

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return "q.<name>" for each position and "v.<name>" for each velocity variable."""
        q, v = self._places(model)
        return (
            *(f"q.{model.q_names[k]}" for k in q),
            *(f"v.{model.v_names[k]}" for k in v),
        )

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return the units of positions and velocities."""
        q, v = self._places(model)
        return ("m or rad",) * len(q) + ("m/s or rad/s",) * len(v)

    def measure(self, now: Sensed) -> Sequence[Scalar]:
        """Return positions, then velocities."""
        q, v = self._places(now.model)
        return (*(now.q[k] for k in q), *(now.v[k] for k in v))


@record
class InertialSensor(Sensor):
    """An inertial measurement unit: angular velocity and proper acceleration of a frame.

    Proper acceleration is what a weight on a spring feels: acceleration less gravity. At rest it
    points up with 9.81 m/s^2, in free fall it is zero.
    """

    name: str
    frame: str
    """Body or frame it is fixed to; it reads at the frame's origin, in the frame's axes."""

    rate: float = DEFAULT_RATE
    noise: Numbers = 0.0
    bias: Numbers = 0.0
    delay: float = 0.0
    seed: int = 0

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return three angular velocities and three proper accelerations."""
        return ("wx", "wy", "wz", "ax", "ay", "az")

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return rad/s and m/s^2."""
        return ("rad/s",) * 3 + ("m/s^2",) * 3

    def check(self, model: Model) -> None:
        """Raise if the model has no such frame."""
        Sensor.check(self, model)
        _check_frame(self.name, model, self.frame)

    def measure(self, now: Sensed) -> Sequence[Scalar]:
        """Return angular velocity, then acceleration of the origin less gravity, frame axes."""
        moving = now.motion(self.frame)
        a = spatial_to_classical(moving.acc, moving.vel).linear
        R = now.kinematics.frame_pose(self.frame).R
        g = matrix_vector(transpose(R), now.kinematics.around.gravity)
        return (*moving.vel.angular, *subtract(a, g))


@record
class DepthSensor(Sensor):
    """A pressure sensor: depth of a frame's origin under the surface, positive downward.

    The surface is that of the water, or height zero where the water has none.
    """

    name: str
    frame: str
    """Body or frame it is fixed to."""

    rate: float = 10.0
    noise: Numbers = 0.0
    bias: Numbers = 0.0
    delay: float = 0.0
    seed: int = 0

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return one channel."""
        return ("depth",)

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return meters."""
        return ("m",)

    def check(self, model: Model) -> None:
        """Raise if the model has no such frame."""
        Sensor.check(self, model)
        _check_frame(self.name, model, self.frame)

    def measure(self, now: Sensed) -> Sequence[Scalar]:
        """Return the height of the surface less that of the frame."""
        fluid = now.system.world.fluid
        surface = 0.0 if fluid is None or fluid.surface is None else fluid.surface
        return (surface - now.kinematics.frame_pose(self.frame).p[2],)


@record
class VelocityLog(Sensor):
    """A Doppler log: velocity of a frame's origin over ground or through the water, frame axes."""

    name: str
    frame: str
    """Body or frame it is fixed to."""

    relative_to: str = "ground"
    """What the velocity is told against: "ground" or "water"."""

    rate: float = 5.0
    noise: Numbers = 0.0
    bias: Numbers = 0.0
    delay: float = 0.0
    seed: int = 0

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return three velocities."""
        return ("vx", "vy", "vz")

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return m/s."""
        return ("m/s",) * 3

    def check(self, model: Model) -> None:
        """Raise if the model has no such frame, or there is no such choice."""
        Sensor.check(self, model)
        _check_frame(self.name, model, self.frame)
        if self.relative_to not in ("ground", "water"):
            raise OptionError(
                f"sensor {self.name!r}: relative_to", ("ground", "water"), self.relative_to
            )

    def measure(self, now: Sensed) -> Sequence[Scalar]:
        """Return the velocity, less that of the water at the frame's origin where asked for."""
        v = now.kinematics.frame_velocity(self.frame).linear
        water = now.kinematics.around.water
        if self.relative_to == "ground" or water is None:
            return v
        place = now.kinematics.frame_pose(self.frame)
        flow = water.field.at(now.time, place.p).velocity
        return subtract(v, matrix_vector(transpose(place.R), flow))


@record
class ForceTorqueSensor(Sensor):
    """A sensor in the joint that holds a body: the wrench its parent transmits to the body.

    [n; f] about the origin of a frame of the body, in its axes: all that the joint carries, the
    force of its motor included. A tool at rest reads its weight, upward.
    """

    name: str
    body: str
    """Body held by a joint that moves."""

    frame: str = ""
    """Frame fixed to the body in which the wrench is told; the body's own by default."""

    rate: float = DEFAULT_RATE
    noise: Numbers = 0.0
    bias: Numbers = 0.0
    delay: float = 0.0
    seed: int = 0

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return three moments and three forces."""
        return ("nx", "ny", "nz", "fx", "fy", "fz")

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return N m and N."""
        return ("N m",) * 3 + ("N",) * 3

    def check(self, model: Model) -> None:
        """Raise if no moving joint holds the body, or the frame is fixed to another."""
        Sensor.check(self, model)
        held = model.body(self.body).joint
        plan = model.plan
        carrier = plan.frame(self.body).body
        if not held.nv or carrier == WORLD_BODY:
            raise ModelError(
                f"sensor {self.name!r}: body must be held by a joint that moves, got "
                f"{self.body!r} on a {held.kind} joint; name the body that carries it, and the "
                "place as frame=",
                name=self.name,
            )
        if self.frame:
            _check_frame(self.name, model, self.frame)
            if plan.frame(self.frame).body != carrier:
                raise ModelError(
                    f"sensor {self.name!r}: frame must be fixed to body {self.body!r}, got "
                    f"{self.frame!r}",
                    name=self.name,
                )

    def measure(self, now: Sensed) -> Sequence[Scalar]:
        """Return the wrench that the joint transmits."""
        here = now.kinematics.around
        forces = transmitted(here.plan, now.q, now.v, now.vd, here.gravity, now.external)
        frame = here.plan.frame(self.frame or self.body)
        return tuple(frame.transform.force(forces[frame.body]))


@record
class PoseSensor(Sensor):
    """Place of a frame in the world: position and quaternion (w, x, y, z)."""

    name: str
    frame: str
    """Body or frame it is fixed to."""

    rate: float = 10.0
    noise: Numbers = 0.0
    bias: Numbers = 0.0
    delay: float = 0.0
    seed: int = 0

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return three coordinates and four numbers of the quaternion."""
        return ("x", "y", "z", "qw", "qx", "qy", "qz")

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return meters, and nothing for the quaternion."""
        return ("m",) * 3 + ("",) * 4

    def check(self, model: Model) -> None:
        """Raise if the model has no such frame."""
        Sensor.check(self, model)
        _check_frame(self.name, model, self.frame)

    def measure(self, now: Sensed) -> Sequence[Scalar]:
        """Return origin and orientation, world axes."""
        place = now.kinematics.frame_pose(self.frame)
        return (*place.p, *matrix_to_quaternion(place.R))


def _range(where: slice) -> range:
    return range(where.start, where.stop)


def _check_frame(sensor: str, model: Model, frame: str) -> None:
    if frame not in model.frame_names:
        raise UnknownNameError(
            "frame", frame, model.frame_names, where=f"sensor {sensor!r} of {model.name!r}"
        )
