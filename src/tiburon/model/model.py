"""A robot: bodies, joints and frames by name."""

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.errors import ModelError, OptionError, UnknownNameError
from tiburon.model import configuration, tree
from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.joints import Joint
from tiburon.model.mobility import check_movable, needs_check
from tiburon.model.numbers import check_name
from tiburon.model.plan import Plan

Array = NDArray[np.float64]


class Model:
    """A robot: a tree of bodies held by joints, with named frames; immutable, compares by value.

    Bodies may be given in any order; the model keeps parents before children and otherwise the
    order given. Positions q, velocities v and joint forces follow the order of `joint_names`.
    Gravity and water are not part of a robot: see `World`.

    Example:
        A pendulum of one meter::

            Model("pendulum", bodies=[
                Body("rod", joint=Revolute("pivot", axis=(0, 1, 0)),
                     inertia=Inertia.point(1.0, com=(0, 0, -1))),
            ])
    """

    __slots__ = ("_hash", "_plan", "_slices", "bodies", "frames", "name", "nq", "nv")

    name: str
    """Name of the robot."""

    bodies: tuple[Body, ...]
    """All bodies, parents first."""

    frames: tuple[Frame, ...]
    """Named frames beyond the bodies' own."""

    nq: int
    """Number of position variables."""

    nv: int
    """Number of velocity variables."""

    _slices: dict[str, tuple[slice, slice]]
    _hash: int
    _plan: Plan | None

    def __init__(self, name: str, bodies: Iterable[Body], frames: Iterable[Frame] = ()) -> None:
        """Check and order the parts.

        Args:
            name: Name of the robot.
            bodies: In any order.
            frames: Named places on the bodies.

        Raises:
            ModelError: If the parts do not make a robot that can move; the message names the part.
        """
        check_name(name, "model")
        listed, placed = tuple(bodies), tuple(frames)
        for part, kind in [*((b, Body) for b in listed), *((f, Frame) for f in placed)]:
            if not isinstance(part, kind):
                raise ModelError(f"model {name!r}: expected a {kind.__name__}, got {part!r}")
        tree.check_unique(
            name,
            "body or frame",
            [WORLD, *(body.name for body in listed), *(frame.name for frame in placed)],
        )
        tree.check_unique(name, "joint", [body.joint.name for body in listed])
        ordered = tree.parents_first(listed)
        tree.check_frames(placed, [body.name for body in ordered])
        tree.check_mass(ordered)
        nq, nv = (sum(getattr(b.joint, n) for b in ordered) for n in ("nq", "nv"))
        self._set(name=name, bodies=ordered, frames=placed, nq=nq, nv=nv)
        self._set(_slices=_joint_slices(ordered), _hash=hash((name, ordered, placed)), _plan=None)
        if needs_check(ordered):
            check_movable(self.plan)

    def _set(self, **values: Any) -> None:
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def __setattr__(self, key: str, value: object) -> NoReturn:
        raise AttributeError(f"a Model cannot be changed (setting {key!r}); build a new one")

    def __delattr__(self, key: str) -> NoReturn:
        raise AttributeError(f"a Model cannot be changed (deleting {key!r}); build a new one")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return self is other or (self.name, self.bodies, self.frames) == (
            other.name,
            other.bodies,
            other.frames,
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, (self.name, self.bodies, self.frames)

    def __repr__(self) -> str:
        return (
            f"<Model {self.name!r}: {len(self.bodies)} bodies, nq={self.nq}, nv={self.nv}, "
            f"{self.total_mass:.6g} kg>"
        )

    # -- sizes and names ---------------------------------------------------------------------------

    @property
    def joints(self) -> tuple[Joint, ...]:
        """All joints, fixed ones too, in the order of the bodies they hold."""
        return tuple(body.joint for body in self.bodies)

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, parents first."""
        return tuple(body.name for body in self.bodies)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in the order of the bodies they hold."""
        return tuple(body.joint.name for body in self.bodies)

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
        """Mass of all bodies [kg]."""
        return sum(body.inertia.mass for body in self.bodies)

    def slice(self, joint: str, *, of: str = "q") -> slice:
        """Return where a joint's numbers stand.

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

    def body(self, name: str) -> Body:
        """Return the body of a name."""
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

    def joint(self, name: str) -> Joint:
        """Return the joint of a name."""
        self.slice(name)
        return next(joint for joint in self.joints if joint.name == name)

    def describe_q(self) -> str:
        """Say how many position variables there are and where they belong."""
        return self._describe(self.nq, [joint.nq for joint in self._bases()])

    def describe_v(self) -> str:
        """Say how many velocity variables there are, such as "18 (6 base + 12 joints)"."""
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

    # -- states ------------------------------------------------------------------------------------

    def neutral(self) -> Array:
        """Return the position at which every joint is unmoved, shape (nq,)."""
        return configuration.neutral(self.joints)

    def random_state(
        self, rng: np.random.Generator | int | None = None, shape: tuple[int, ...] = ()
    ) -> tuple[Array, Array]:
        """Return random positions and velocities.

        Args:
            rng: NumPy generator, or a seed for a new one.
            shape: Leading (batch) dimensions.

        Returns:
            q, shape (..., nq), covering all orientations; v, shape (..., nv), standard normal.
        """
        return configuration.random_state(self.joints, np.random.default_rng(rng), shape)

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        """Return positions after a step of constant joint velocity.

        Args:
            q: Position, shape (..., nq).
            dv: Velocity times duration, shape (..., nv).

        Returns:
            Position, shape (..., nq); free bodies follow the screw of their body velocity.
        """
        return configuration.over_joints(
            self.joints,
            lambda joint, x, dx: joint.integrate(x, dx),
            (self._q("q", q), "q"),
            (configuration.as_batch(dv, self.nv, "dv", self.describe_v()), "v"),
        )

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Return the step dv with integrate(q0, dv) = q1, shape (..., nv).

        Free bodies turn by at most pi; revolute angles are subtracted as they are.
        """
        return configuration.over_joints(
            self.joints,
            lambda joint, a, b: joint.difference(a, b),
            (self._q("q0", q0), "q"),
            (self._q("q1", q1), "q"),
        )

    def normalize(self, q: ArrayLike) -> Array:
        """Return the same position with quaternions of length 1, shape (..., nq)."""
        return configuration.over_joints(
            self.joints,
            lambda joint, x: joint.normalize(x),
            (self._q("q", q), "q"),
        )

    def _q(self, argument: str, value: ArrayLike) -> Array:
        return configuration.as_batch(value, self.nq, argument, self.describe_q())

    # -- what compiled code depends on -------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """The private layout algorithms run over, with this model's own numbers."""
        plan = self._plan
        if plan is None:
            plan = Plan.build(self)
            self._set(_plan=plan)
        return plan

    def parameters(self) -> Array:
        """Return the inertial numbers compiled code takes at run time, shape (number of names,).

        These belong to the private layout, after bodies on fixed joints are joined to their parents
        and frames are re-chosen; zeros are structure and left out. Order and meaning:
        `parameter_names`.
        """
        return np.array(self.plan.parameters, dtype=np.float64)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """One name per number of `parameters`, such as "upper.mass" or "upper.inertia_xx"."""
        return self.plan.parameter_names

    def structure_key(self) -> bytes:
        """Return a digest of all that compiled code depends on but `parameters`.

        Equal keys mean equal code: topology, joint kinds and axes, placements, names, and which
        inertial numbers are zero.
        """
        return self.plan.structure_key


def _joint_slices(bodies: Iterable[Body]) -> dict[str, tuple[slice, slice]]:
    """Return where each joint's numbers stand in q and v."""
    slices: dict[str, tuple[slice, slice]] = {}
    iq = iv = 0
    for body in bodies:
        joint = body.joint
        slices[joint.name] = (slice(iq, iq + joint.nq), slice(iv, iv + joint.nv))
        iq += joint.nq
        iv += joint.nv
    return slices
