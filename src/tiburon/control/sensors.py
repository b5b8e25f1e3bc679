"""Sensors: records with rate, noise, bias and delay.

Readings are in SI units and, unless stated otherwise, in the axes of the frame a sensor is fixed
to. Without errors they are exact functions of the state and its acceleration.
"""

from typing import ClassVar

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES, ContactElement
from tiburon.algorithms.rnea import transmitted
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import ModelError, OptionError, UnknownNameError, shown
from tiburon.model import Model
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.simulation.sensing import Sensed, Sensor
from tiburon.simulation.system import System
from tiburon.spatial import Scalar, Scalars, matrix_to_quaternion, spatial_to_classical
from tiburon.spatial.vec3 import add, dot, matrix_vector, subtract, transpose

DEFAULT_RATE = 100.0
"""Samples per second by default [Hz]."""

PerChannel = float | tuple[float, ...]


@public
class _FrameSensor(Sensor):
    """A sensor fixed to a body or frame, with constant channels."""

    __slots__ = ()

    CHANNELS: ClassVar[dict[str, str]]
    """Unit of each channel, by name."""

    frame: str

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the channels."""
        return tuple(self.CHANNELS)

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return the unit of each channel."""
        return tuple(self.CHANNELS.values())

    def check(self, model: Model) -> None:
        """Raise an error if the model has no such frame."""
        Sensor.check(self, model)
        if self.frame not in model.frame_names:
            where = f"sensor {self.name!r} of {model.name!r}"
            raise UnknownNameError("frame", self.frame, model.frame_names, where=where)


@public
@record
class JointSensor(Sensor):
    """Encoders: positions and velocities of joints, as in q and v."""

    name: str
    joints: tuple[str, ...] = ()
    """Names of joints; all by default."""

    velocity: bool = True
    """Whether velocities are measured too."""

    rate: float = DEFAULT_RATE
    noise: PerChannel = 0.0
    bias: PerChannel = 0.0
    delay: float = 0.0
    seed: int = 0
    resolution: PerChannel = 0.0
    """Quantization, one value or one per channel; 0 for none."""

    def _places(self, model: Model) -> tuple[list[int], list[int]]:
        names = self.joints or tuple(joint.name for joint in model.joints if joint.nv)
        q, v = (model.indices(names, of=of).tolist() for of in ("q", "v"))
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

    def measure(self, now: Sensed) -> Scalars:
        """Return positions, then velocities."""
        q, v = self._places(now.model)
        return (*(now.q[k] for k in q), *(now.v[k] for k in v))


@public
@record
class InertialSensor(_FrameSensor):
    """An inertial measurement unit: angular velocity and proper acceleration of a frame.

    Proper acceleration is acceleration minus gravity: at rest 9.81 m/s^2 upward, in free fall zero.
    """

    CHANNELS: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("wx", "wy", "wz"), "rad/s"),
        **dict.fromkeys(("ax", "ay", "az"), "m/s^2"),
    }

    name: str
    frame: str
    """Body or frame it is fixed to; it measures at the frame's origin, in frame axes."""

    rate: float = DEFAULT_RATE
    noise: PerChannel = 0.0
    bias: PerChannel = 0.0
    delay: float = 0.0
    seed: int = 0

    def measure(self, now: Sensed) -> Scalars:
        """Return angular velocity, then acceleration of the origin minus gravity, frame axes."""
        moving = now.motion(self.frame)
        a = spatial_to_classical(moving.acc, moving.vel).linear
        R = now.kinematics.frame_pose(self.frame).R
        g = matrix_vector(transpose(R), now.kinematics.around.gravity)
        return (*moving.vel.angular, *subtract(a, g))


@public
@record
class DepthSensor(_FrameSensor):
    """A pressure sensor: depth of a frame's origin below the free surface, positive downward.

    Without free surface the depth is measured from height zero.
    """

    CHANNELS: ClassVar[dict[str, str]] = {"depth": "m"}

    name: str
    frame: str
    """Body or frame it is fixed to."""

    rate: float = 10.0
    noise: PerChannel = 0.0
    bias: PerChannel = 0.0
    delay: float = 0.0
    seed: int = 0

    def measure(self, now: Sensed) -> Scalars:
        """Return the height of the surface minus that of the frame."""
        fluid = now.system.world.fluid
        surface = 0.0 if fluid is None or fluid.surface is None else fluid.surface
        return (surface - now.kinematics.frame_pose(self.frame).p[2],)


@public
@record
class VelocityLog(_FrameSensor):
    """A Doppler log: velocity of a frame's origin over ground or through the water, frame axes."""

    CHANNELS: ClassVar[dict[str, str]] = dict.fromkeys(("vx", "vy", "vz"), "m/s")

    name: str
    frame: str
    """Body or frame it is fixed to."""

    relative_to: str = "ground"
    """Reference of the velocity: "ground" or "water"."""

    rate: float = 5.0
    noise: PerChannel = 0.0
    bias: PerChannel = 0.0
    delay: float = 0.0
    seed: int = 0

    def check(self, model: Model) -> None:
        """Raise an error if the model has no such frame, or the reference is unknown."""
        _FrameSensor.check(self, model)
        if self.relative_to not in ("ground", "water"):
            raise OptionError(
                f"sensor {self.name!r}: relative_to", ("ground", "water"), self.relative_to
            )

    def measure(self, now: Sensed) -> Scalars:
        """Return the velocity, relative to the water at the frame's origin if so chosen."""
        v = now.kinematics.frame_velocity(self.frame).linear
        water = now.kinematics.around.water
        if self.relative_to == "ground" or water is None:
            return v
        place = now.kinematics.frame_pose(self.frame)
        flow = water.field.at(now.time, place.p).velocity
        return subtract(v, matrix_vector(transpose(place.R), flow))


@public
@record
class ForceTorqueSensor(Sensor):
    """A force-torque sensor in the joint of a body: the wrench its parent transmits to the body.

    [n; f] about the origin of a frame of the body, in its axes, including the actuator force. For a
    tool at rest it is the weight of the tool, upward.
    """

    name: str
    body: str
    """Body whose joint has degrees of freedom."""

    frame: str = ""
    """Frame fixed to the body in which the wrench is expressed; the body frame by default."""

    rate: float = DEFAULT_RATE
    noise: PerChannel = 0.0
    bias: PerChannel = 0.0
    delay: float = 0.0
    seed: int = 0

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return three moments and three forces."""
        return ("nx", "ny", "nz", "fx", "fy", "fz")

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return N m and N."""
        return ("N m",) * 3 + ("N",) * 3

    def check(self, model: Model) -> None:
        """Raise an error if the joint is rigid, or the frame is fixed to another body."""
        Sensor.check(self, model)
        joint = model.body(self.body).joint
        plan = model.plan
        carrier = plan.frame(self.body).body
        if not joint.nv or carrier == WORLD_BODY:
            raise ModelError(
                f"sensor {self.name!r}: body must have a joint with degrees of freedom, got "
                f"{self.body!r} on a {joint.kind} joint; name the body that carries it, and the "
                "location as frame=",
                name=self.name,
            )
        if self.frame and plan.frame(self.frame).body != carrier:
            raise ModelError(
                f"sensor {self.name!r}: frame must be fixed to body {self.body!r}, got "
                f"{self.frame!r}",
                name=self.name,
            )

    def measure(self, now: Sensed) -> Scalars:
        """Return the wrench that the joint transmits."""
        here = now.kinematics.around
        forces = transmitted(here.plan, now.q, now.v, now.vd, here.gravity, now.external)
        frame = here.plan.frame(self.frame or self.body)
        return tuple(frame.transform.force(forces[frame.body]))


@public
@record
class ContactSensor(Sensor):
    """Tactile sensors: the force of named contacts, and whether they touch.

    Forces are the mean over the last step, on the first body of the contact: that of the robot
    where it touches the ground. Of a contact with several points the forces are added up.
    """

    name: str
    contacts: tuple[str, ...]
    """Names of contacts, as `tb.contacts` lists them: "foot", "finger/glass", or one point of
    several, "box/ground[2]"; "box/ground" stands for all of its points."""

    frame: str = ""
    """Frame in whose axes forces are expressed; world axes by default."""

    rate: float = DEFAULT_RATE
    noise: PerChannel = 0.0
    """Standard deviation of white noise; one number is that of the forces [N]."""

    bias: PerChannel = 0.0
    """Constant error; one number is that of the forces [N]."""

    delay: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        given: object = self.contacts
        named = (given,) if isinstance(given, str) else given
        if not (
            isinstance(named, (tuple, list)) and named and all(isinstance(x, str) for x in named)
        ):
            raise ModelError(
                f"sensor {self.name!r}: contacts must be names of contacts, got {shown(given)}; "
                "tb.contacts(...).names lists them"
            )
        object.__setattr__(self, "contacts", tuple(named))

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return "<contact>.fx", "fy", "fz" and "touching" of each contact."""
        parts = ("fx", "fy", "fz", "touching")
        return tuple(f"{contact}.{part}" for contact in self.contacts for part in parts)

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return N, and 1 for contact: 1 where it touches, 0 where it does not."""
        return ("N", "N", "N", "1") * len(self.contacts)

    def errors(self, kind: str, model: Model) -> NDArray[np.float64]:
        """Return noise or bias of each channel; one number is that of forces alone."""
        given = Sensor.errors(self, kind, model)
        return (
            np.array((given, given, given, 0.0) * len(self.contacts)) if not given.ndim else given
        )

    def check(self, model: Model) -> None:
        """Raise an error if the model has no such frame."""
        Sensor.check(self, model)
        if self.frame and self.frame not in model.frame_names:
            where = f"sensor {self.name!r} of {model.name!r}"
            raise UnknownNameError("frame", self.frame, model.frame_names, where=where)

    def check_system(self, system: System) -> None:
        """Raise an error if the run has no such contacts."""
        self._places(system)

    def _places(self, system: System) -> list[list[int]]:
        """Return the places of the points of each contact among the discrete states.

        Raises:
            ModelError: If the run has no contact.
            UnknownNameError: If it has no such contact.
        """
        where = f"sensor {self.name!r} of {system.model.name!r}"
        contact = system.find(ContactElement)
        if contact is None:
            raise ModelError(
                f"{where}: expected a run with contact, got none; simulate in a world with ground, "
                "or with pairs of contact",
                name=self.name,
            )
        places: dict[str, list[int]] = {}
        start = contact.z.start
        for candidate in contact.element.candidates:
            for point in candidate.point_names:
                places.setdefault(candidate.name, []).append(start)
                places.setdefault(point, [start])
                start += len(POINT_STATES)
        for name in self.contacts:
            if name not in places:
                raise UnknownNameError("contact", name, list(places), where=where)
        return [places[name] for name in self.contacts]

    def measure(self, now: Sensed) -> Scalars:
        """Return the force of each contact and whether it touches."""
        z = now.z
        R = now.kinematics.frame_pose(self.frame).R if self.frame else None
        found: list[Scalar] = []
        for points in self._places(now.system):
            forces = [(z[k], z[k + 1], z[k + 2]) for k in points]
            total = forces[0]
            size: Scalar = 0.0
            for force in forces[1:]:
                total = add(total, force)
            for force in forces:
                size = size + dot(force, force)
            axes = total if R is None else matrix_vector(transpose(R), total)
            found += [*axes, np.where(size > 0.0, 1.0, 0.0)]
        return found


@public
@record
class PoseSensor(_FrameSensor):
    """Pose of a frame in the world: position and quaternion (w, x, y, z)."""

    CHANNELS: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("x", "y", "z"), "m"),
        **dict.fromkeys(("qw", "qx", "qy", "qz"), ""),
    }

    name: str
    frame: str
    """Body or frame it is fixed to."""

    rate: float = 10.0
    noise: PerChannel = 0.0
    bias: PerChannel = 0.0
    delay: float = 0.0
    seed: int = 0

    def measure(self, now: Sensed) -> Scalars:
        """Return origin and orientation, world axes."""
        place = now.kinematics.frame_pose(self.frame)
        return (*place.p, *matrix_to_quaternion(place.R))
