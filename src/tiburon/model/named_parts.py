"""The parts of a robot by name, and their indices in q and v."""

from collections.abc import Iterable, Sequence

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import OptionError, UnknownNameError
from tiburon.model.actuator import Actuator
from tiburon.model.body import WORLD, Body, ContactPoint, Frame
from tiburon.model.closure import Closure
from tiburon.model.hydraulic_cylinder import HydraulicCylinder
from tiburon.model.joints import Joint
from tiburon.model.parts import JointPositions
from tiburon.model.spring import Spring
from tiburon.model.thruster import Thruster


class NamedParts:
    """Bodies, joints and frames of a robot, by name."""

    __slots__ = (
        "_poses",
        "_slices",
        "about",
        "actuators",
        "bodies",
        "contacts",
        "cylinders",
        "frames",
        "loops",
        "name",
        "nq",
        "nv",
        "springs",
        "thrusters",
    )

    name: str
    """Name of the robot."""

    bodies: tuple[Body, ...]
    """All bodies, parents first."""

    frames: tuple[Frame, ...]
    """Named frames beyond the bodies' own."""

    loops: tuple[Closure, ...]
    """Loop closures and joint couplings."""

    thrusters: tuple[Thruster, ...]
    """Propellers and jets."""

    contacts: tuple[ContactPoint, ...]
    """Points that may touch the ground."""

    actuators: tuple[Actuator, ...]
    """Actuators and the joints they drive."""

    springs: tuple[Spring, ...]
    """Springs and dampers between two points."""

    cylinders: tuple[HydraulicCylinder, ...]
    """Hydraulic cylinders."""

    about: str
    """Description of the robot and the sources of its values."""

    nq: int
    """Number of position variables."""

    nv: int
    """Number of velocity variables."""

    _poses: tuple[tuple[str, JointPositions], ...]

    _slices: dict[str, tuple[slice, slice]]

    @property
    def joints(self) -> tuple[Joint, ...]:
        """All joints, including fixed ones, in the order of their bodies."""
        return tuple(body.joint for body in self.bodies)

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, parents first."""
        return tuple(body.name for body in self.bodies)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in the order of their bodies."""
        return tuple(body.joint.name for body in self.bodies)

    @property
    def moving_joint_names(self) -> tuple[str, ...]:
        """Names of the moving joints, in the order of their bodies."""
        return tuple(joint.name for joint in self.joints if joint.nv > 0)

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of all frames: "world", the bodies' own, the extra ones."""
        return (WORLD, *self.body_names, *(frame.name for frame in self.frames))

    @property
    def q_names(self) -> tuple[str, ...]:
        """One name per position variable."""
        return tuple(name for joint in self.joints for name in joint.q_names())

    @property
    def v_names(self) -> tuple[str, ...]:
        """One name per velocity variable."""
        return tuple(name for joint in self.joints for name in joint.v_names())

    @property
    def total_mass(self) -> float:
        """Total mass of all bodies [kg]."""
        return sum(body.inertia.mass for body in self.bodies)

    @property
    def poses(self) -> dict[str, tuple[float, ...]]:
        """Named configurations, such as "home", each of shape (nq,) [m or rad]."""
        return {
            name: tuple(x for j in self.joints if j.nq for x in positions[j.name])
            for name, positions in self._poses
        }

    @public
    def slice(self, joint: str, *, of: str = "q") -> slice:
        """Return the slice of a joint in q or v.

        Args:
            joint: Name of the joint.
            of: "q" for positions, "v" for velocities, accelerations and forces.
        """
        if of not in ("q", "v"):
            raise OptionError("of", ("q", "v"), of)
        if joint not in self._slices:
            raise UnknownNameError(
                "joint",
                joint,
                self.joint_names,
                where=f"model {self.name!r}",
                listing="model.joint_names",
            )
        return self._slices[joint][0 if of == "q" else 1]

    @public
    def indices(self, joints: str | Iterable[str], *, of: str = "q") -> NDArray[np.intp]:
        """Return the indices of several joints in q or v, in the order of the names.

        Args:
            joints: Names of joints.
            of: "q" for positions, "v" for velocities, accelerations and forces.
        """
        names = (joints,) if isinstance(joints, str) else joints
        slices = [self.slice(name, of=of) for name in names]
        return np.array([i for s in slices for i in range(s.start, s.stop)], dtype=np.intp)

    @public
    def body(self, name: str) -> Body:
        """Return a body by name."""
        for body in self.bodies:
            if body.name == name:
                return body
        raise UnknownNameError(
            "body",
            name,
            self.body_names,
            where=f"model {self.name!r}",
            listing="model.body_names",
        )

    @public
    def joint(self, name: str) -> Joint:
        """Return a joint by name."""
        self.slice(name)
        return next(joint for joint in self.joints if joint.name == name)

    @public
    def describe_q(self) -> str:
        """Describe the position variables: their number and their joints."""
        return self._describe(self.nq, [joint.nq for joint in self._bases()])

    @public
    def describe_v(self) -> str:
        """Describe the velocity variables, such as "18 (6 base + 12 joints)"."""
        return self._describe(self.nv, [joint.nv for joint in self._bases()])

    def _bases(self) -> list[Joint]:
        return [b.joint for b in self.bodies if b.parent == WORLD and b.joint.kind == "free"]

    @staticmethod
    def _describe(total: int, bases: list[int]) -> str:
        parts = []
        if bases:
            parts.append(f"{sum(bases)} base" if len(bases) == 1 else f"{sum(bases)} bases")
        rest = total - sum(bases)
        if rest or not bases:
            parts.append(f"{rest} joint" if rest == 1 else f"{rest} joints")
        return f"{total} ({' + '.join(parts)})"


def joint_slices(bodies: Sequence[Body]) -> dict[str, tuple[slice, slice]]:
    """Return the slices of each joint in q and v; coupled joints have those of their leader."""
    slices: dict[str, tuple[slice, slice]] = {}
    iq = iv = 0
    for body in bodies:
        joint = body.joint
        slices[joint.name] = (slice(iq, iq + joint.nq), slice(iv, iv + joint.nv))
        iq += joint.nq
        iv += joint.nv
    for body in bodies:
        if body.joint.follows is not None:
            slices[body.joint.name] = slices[body.joint.follows]
    return slices
