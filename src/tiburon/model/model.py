"""The robot model: bodies, joints, frames and attachments, by name."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, OptionError, shown
from tiburon.model import composition
from tiburon.model.actuator import Actuator
from tiburon.model.attachments import Cable, HydraulicCylinder, Spring, Thruster
from tiburon.model.body import Body, ContactPair, ContactPoint, Frame, check_fluid
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.closure import Closure, structure_of
from tiburon.model.configuration import StateSpace, spread
from tiburon.model.joints import Joint
from tiburon.model.parts import Parts, checked, joint_positions, joint_slices
from tiburon.model.plan import (
    INERTIAL_PARAMETERS,
    Plan,
    RunTime,
    armature_words,
    immovable_joints,
    needs_check,
    nothing_resists,
)
from tiburon.model.pose import Pose
from tiburon.model.user_code import UserParts
from tiburon.model.value_checks import check_name
from tiburon.native.cache_file import blake2b
from tiburon.notebook import notebook_table
from tiburon.trace.declared import structure_text

if TYPE_CHECKING:
    from tiburon.model.denavit_hartenberg import DHLink

Function = TypeVar("Function", bound=Callable[..., Any])


def per_model(function: Function) -> Function:
    """Decorate a function of a model and hashable arguments: each model keeps its results.

    Models are immutable, so that results never change; they are freed together with their model.
    """

    @wraps(function)
    def call(model: "Model", *arguments: Any) -> Any:
        known, key = model.derived, (function, *arguments)
        found = known.get(key, known)
        if found is known:
            found = known[key] = function(model, *arguments)
        return found

    return cast(Function, call)


class Model(StateSpace):
    """A robot: a tree of bodies and joints, with named frames; immutable, compares by value.

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

    __slots__ = ("_hash", "_plan", "derived", "immovable_joint_names", "user_parts")

    _hash: int
    _plan: Plan | None
    derived: dict[Any, Any]
    """Results of functions decorated with `per_model`; private."""

    user_parts: UserParts
    """Parts with user code; private."""

    immovable_joint_names: tuple[str, ...]
    """Joints without inertia.

    Empty unless the model was built with ``movable=False``. Forward dynamics of such a model is
    undefined; kinematics, inverse dynamics and the mass matrix are available.
    """

    @public
    def __init__(
        self,
        name: str,
        bodies: Iterable[Body],
        frames: Iterable[Frame] = (),
        *,
        loops: Iterable[Closure] = (),
        thrusters: Iterable[Thruster] = (),
        contacts: Iterable[ContactPoint] = (),
        actuators: Iterable[Actuator] = (),
        springs: Iterable[Spring] = (),
        cylinders: Iterable[HydraulicCylinder] = (),
        cables: Iterable[Cable] = (),
        contact_pairs: Iterable[ContactPair] = (),
        poses: Mapping[str, ArrayLike | Mapping[str, ArrayLike]] | None = None,
        about: str = "",
        movable: bool = True,
    ) -> None:
        """Check and order the parts.

        Args:
            name: Name of the robot.
            bodies: In any order.
            frames: Named frames on the bodies.
            loops: Loop closures and joint couplings.
            thrusters: Propellers and jets.
            contacts: Points that may touch the ground.
            actuators: Actuators and the joints they drive.
            springs: Springs and dampers between two points.
            cylinders: Hydraulic cylinders, between two points or at joints.
            cables: Cables with winches, between two points.
            contact_pairs: Bodies that touch, or do not: links of one tree that touch each other,
                pairs that are left out, friction of a pair. Runs of a robot with pairs that touch
                have contact, also without ground.
            poses: Named configurations such as "home": nq values, or values by joint name; joints
                left out are neutral.
            about: Description of the robot and the sources of its values.
            movable: Whether every joint must have inertia. False accepts robots as files have
                them, with massless fingers; `immovable_joint_names` then lists their joints.

        Raises:
            ModelError: If the parts are inconsistent; the message names the part.
        """
        check_name(name, "model")
        if not isinstance(about, str):
            raise ModelError(f"model {name!r}: about must be a string, got {shown(about)}")
        kinds = (bodies, frames, loops, thrusters, contacts, actuators, springs, cylinders)
        listed = [tuple(x) for x in (*kinds, cables, contact_pairs)]
        parts = checked(name, Parts(*listed), movable=movable)  # type: ignore[arg-type]
        ordered = parts.bodies
        nq, nv = (sum(getattr(b.joint, n) for b in ordered) for n in ("nq", "nv"))
        given = joint_positions(name, [body.joint for body in ordered], poses or {})
        parts = parts._replace(poses=given)
        positions = tuple((name, tuple(x.items())) for name, x in given)
        user_parts = UserParts(ordered, parts.loops)
        digest = user_parts.hash_with((name, about, positions), parts[:-1])
        self._set(name=name, nq=nq, nv=nv, about=about, _poses=given, user_parts=user_parts)
        self._set(**{key: getattr(parts, key) for key in Parts._fields if key != "poses"})
        self._set(_slices=joint_slices(ordered), _hash=digest, _plan=None, run_time=RunTime())
        self._set(derived={})
        immovable = immovable_joints(self.plan) if needs_check(ordered) else ()
        if immovable and movable:
            raise nothing_resists(self.plan, immovable[0])
        self._set(immovable_joint_names=immovable)

    @classmethod
    def _of(cls, name: str, parts: Parts, about: str, movable: bool = True) -> "Model":
        """Build a model from its parts."""
        kinds = parts._asdict()
        poses = dict(kinds.pop("poses"))
        return cls(name, poses=poses, about=about, movable=movable, **kinds)

    @classmethod
    @public
    def from_dh(
        cls,
        name: str,
        links: Iterable["DHLink"],
        *,
        convention: str,
        base: Pose | None = None,
        tool: Pose | None = None,
    ) -> "Model":
        """Build a serial arm from a Denavit-Hartenberg table.

        Frame "frame_i" is the frame of row i, counted from 1, and "frame_0" the base. Modified
        frames are the body frames; a classic frame is at the far end of its link, while the body
        frame stays on the joint axis, rotated back by alpha.

        Args:
            name: Name of the robot.
            links: Rows from the base to the tip.
            convention: "classic": Rz(theta_i) Tz(d_i) Tx(a_i) Rx(alpha_i); "modified" (Craig):
                Rx(alpha_{i-1}) Tx(a_{i-1}) Rz(theta_i) Tz(d_i), where row i holds alpha_{i-1} and
                a_{i-1}, as such tables are printed.
            base: Frame 0 in the world; the same frame by default.
            tool: Adds a frame "tool" with this pose in the last row's frame.

        Example:
            ``Model.from_dh("planar", [DHLink(a=0.5, inertia=rod)] * 2, convention="classic")``
        """
        from tiburon.model.denavit_hartenberg import chain_parts

        bodies, frames = chain_parts(name, links, convention, base or Pose(), tool)
        return cls(name, bodies, frames)

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
        if self is other:
            return True
        # user code first: equal fields do not make it equal
        mine = (self.user_parts.key, self.name, self.about, self._parts)
        return mine == (other.user_parts.key, other.name, other.about, other._parts)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.name, self._parts, self.about, not self.immovable_joint_names)
        return Model._arrived, (*parts, self.run_time)

    def __repr__(self) -> str:
        loops = f", {len(self.loops)} loops" if self.loops else ""
        return (
            f"<Model {self.name!r}: {len(self.bodies)} bodies, nq={self.nq}, nv={self.nv}, "
            f"{self.total_mass:.6g} kg{loops}>"
        )

    def _repr_html_(self) -> str:
        """Return a table of bodies and joints, for notebooks."""
        rows = (
            (
                body.name,
                body.parent,
                f"{body.joint.name} ({body.joint.kind})",
                body.joint.dof,
                f"{body.inertia.mass:.4g}",
            )
            for body in self.bodies
        )
        parts = [f"nq = {self.nq}, nv = {self.nv}", f"{self.total_mass:.6g} kg"]
        for name in ("loops", "thrusters", "actuators"):
            count = len(getattr(self, name))
            parts += [f"{count} {name}"] if count else []
        head = ("body", "parent", "joint", "DoF", "mass [kg]")
        about = self.about.strip().rstrip(".")
        title = f"{self.name}: {about}" if about else self.name
        return notebook_table(title, rows, head, ", ".join(parts))

    # -- actuated joints --------------------------------------------------------------------

    @property
    def actuated_joint_names(self) -> tuple[str, ...]:
        """Names of the actuated joints.

        Those with actuators; without actuators, all moving joints except free ones.
        """
        if self.actuators:
            driven = {actuator.joint for actuator in self.actuators}
            return tuple(name for name in self.joint_names if name in driven)
        return tuple(joint.name for joint in self.joints if joint.nv > 0 and joint.kind != "free")

    @public
    def actuated(
        self, tau: ArrayLike | Mapping[str, ArrayLike], joints: str | Iterable[str] | None = None
    ) -> Array:
        """Return joint forces of the whole robot from those of its actuated joints.

        Inside a function passed to `tiburon.compile` the forces may be traced.

        Args:
            tau: Forces of the actuated joints, concatenated [N or N m], shape (..., sum of
                their nv); or forces by joint name, each of shape (..., nv of the joint), or a
                scalar for a joint with one degree of freedom.
            joints: Names of the actuated joints in the order of `tau`; by default
                `actuated_joint_names`.

        Returns:
            Joint force, shape (..., nv), zero at all other joints. The inverse is
            ``tau[..., robot.indices(names, of="v")]``.

        Example:
            ``forward_dynamics(dog, q, v, dog.actuated(motor_torques))``
        """
        if joints is None:
            joints = self.actuated_joint_names
        return spread(self, tau, (joints,) if isinstance(joints, str) else joints)

    # -- composition ------------------------------------------------------------------------

    @public
    def attach(
        self,
        other: "Model",
        *,
        at: str,
        pose: Pose | None = None,
        prefix: str = "",
        joint: Joint | None = None,
        name: str | None = None,
    ) -> "Model":
        """Return this robot with another one attached.

        The other robot's world becomes a frame of this one. Entries of this robot come first in q
        and v, then those of the other, each in their own order.

        Args:
            other: The robot to attach.
            at: Name of the body or frame of this robot to attach it to, or "world".
            pose: The other robot's world frame in that frame; the same frame by default.
            prefix: Added to every name of the other robot, so that one arm can be attached twice.
            joint: Replaces the joint of the other robot's root body; `Fixed` welds a floating
                robot. Its pose is relative to `pose`, its name gets no prefix.
            name: Name of the result; by default that of this robot.

        Raises:
            ModelError: If both use a name, or there is no such body or frame.

        Example:
            ``rov.attach(arm, at="mount", pose=Pose(translation=(0, 0, 0.1)), prefix="left_")``
        """
        mount = composition.find_mount(self._parts, at, f"model {self.name!r}")
        return self._with(self._parts, other, mount, pose, prefix, joint, name)

    @public
    def replace(
        self,
        body: str,
        other: "Model",
        *,
        pose: Pose | None = None,
        prefix: str = "",
        joint: Joint | None = None,
        name: str | None = None,
    ) -> "Model":
        """Return this robot with another one in place of a body and everything it carries.

        The other robot's world is placed at the joint frame of the removed body, so that an end
        effector modeled from its flange fits.

        Args:
            body: Name of the body to remove.
            other: Its replacement.
            pose: The other robot's world frame in that joint frame; the same frame by default.
            prefix: Added to every name of the other robot.
            joint: Replaces the joint of the other robot's root body.
            name: Name of the result; by default that of this robot.

        Example:
            ``arm.replace("gripper", camera)``
        """
        removed = self.body(body)
        mount = composition.Mount(removed.parent, removed.joint.pose)
        rest = composition.without(self._parts, body)
        return self._with(rest, other, mount, pose, prefix, joint, name)

    @public
    def without(self, body: str, *, name: str | None = None) -> "Model":
        """Return this robot without a body and everything it carries."""
        removed = self.body(body).name
        return self._changed(composition.without(self._parts, removed), name)

    @public
    def with_loops(self, *loops: Closure, name: str | None = None) -> "Model":
        """Return this robot with additional loops.

        Named poses are kept: `assemble` finds one in which the new loops are closed.

        Args:
            loops: Loop closures and joint couplings.
            name: Name of the result; by default that of this robot.

        Example:
            ``tree.with_loops(LoopClosure("pin", "coupler", "rocker", Revolute("pin", axis)))``
        """
        return self._extended(name, loops=loops)

    @public
    def with_actuators(self, *actuators: Actuator, name: str | None = None) -> "Model":
        """Return this robot with additional actuators.

        Args:
            actuators: Actuators and the joints they drive. Once a robot has actuators, its other
                joints are passive.
            name: Name of the result; by default that of this robot.
        """
        return self._extended(name, actuators=actuators)

    @public
    def with_frames(self, *frames: Frame, name: str | None = None) -> "Model":
        """Return this robot with additional frames; everything else is kept.

        Args:
            frames: Frames on bodies of this robot.
            name: Name of the result; by default that of this robot.

        Example:
            ``arm.with_frames(Frame("camera", "wrist", Pose(translation=(0.0, 0.0, 0.1))))``
        """
        return self._extended(name, frames=frames)

    @public
    def with_thrusters(self, *thrusters: Thruster, name: str | None = None) -> "Model":
        """Return this robot with additional thrusters; everything else is kept.

        Args:
            thrusters: Thrusters on bodies of this robot.
            name: Name of the result; by default that of this robot.

        Example:
            ``hull.with_thrusters(Thruster("stern", "hull", position=(-0.5, 0.0, 0.0)))``
        """
        return self._extended(name, thrusters=thrusters)

    @public
    def with_bodies(self, *bodies: Body, name: str | None = None) -> "Model":
        """Return this robot with additional bodies; everything else is kept.

        Named poses keep their joints and have new joints neutral. To attach a whole robot, see
        `attach`.

        Args:
            bodies: Bodies on those of this robot, on each other or on the world.
            name: Name of the result; by default that of this robot.

        Example:
            ``rov.with_bodies(Body("lead", "hull", joint=Fixed("lead"), inertia=Inertia(0.5)))``
        """
        return self._extended(name, bodies=bodies)

    @public
    def with_poses(
        self, poses: Mapping[str, ArrayLike | Mapping[str, ArrayLike]], *, name: str | None = None
    ) -> "Model":
        """Return this robot with added or replaced named configurations.

        Args:
            poses: By name, nq values, or values by joint name, as in `Model`.
            name: Name of the result; by default that of this robot.

        Example:
            ``robot.with_poses({"home": assemble(robot).q})``
        """
        given = dict(joint_positions(self.name, self.joints, poses))
        merged = {**dict(self._poses), **given}
        return self._changed(self._parts._replace(poses=tuple(merged.items())), name)

    @public
    def without_loops(self, *, name: str | None = None) -> "Model":
        """Return the tree of this robot, without its loops."""
        return self._changed(self._parts._replace(loops=()), name)

    @public
    def without_servos(self, *, name: str | None = None) -> "Model":
        """Return this robot with actuators that are commanded by force instead of set points.

        For controllers of joint forces, which the feedback of servos would act against.
        """
        driven = tuple(composition.changed(actuator, servo=None) for actuator in self.actuators)
        return self._changed(self._parts._replace(actuators=driven), name)

    @public
    def without_passive(self, *quantities: str, name: str | None = None) -> "Model":
        """Return this robot without friction, damping and springs of its joints.

        Args:
            quantities: Which: "damping", "friction" (Coulomb's), "stiffness" of joints, "springs"
                between frames, "gravity_compensation" of bodies; all by default.
            name: Name of the result; by default that of this robot.

        Raises:
            OptionError: If there is no such quantity.

        Example:
            ``tb.simulate(arm.without_passive(), 0.1)``
        """
        for word in quantities:
            if word not in composition.PASSIVES:
                raise OptionError("without_passive", composition.PASSIVES, word)
        return self._changed(
            composition.without_passive(self._parts, quantities or composition.PASSIVES), name
        )

    @public
    def without_limits(self, *, name: str | None = None) -> "Model":
        """Return this robot without position limits of its joints, hence without stops in runs.

        Limits of velocity and force stay.

        Example:
            ``tb.simulate(arm.without_limits(), 0.1)``
        """
        return self._changed(composition.without_limits(self._parts), name)

    @public
    def lock(
        self,
        joints: str | Iterable[str] | Mapping[str, ArrayLike],
        q: ArrayLike | None = None,
        *,
        name: str | None = None,
    ) -> "Model":
        """Return this robot with some joints locked: a model with fewer degrees of freedom.

        Locked joints become fixed joints of the same names, so bodies and frames keep theirs.
        ``q[..., robot.indices(reduced.moving_joint_names)]`` are the remaining entries.

        Args:
            joints: Names of joints, or positions [m or rad] by name.
            q: Configuration, shape (nq,), that gives the positions of joints given by name alone;
                neutral by default.
            name: Name of the reduced model; by default that of this robot.

        Example:
            ``arm.lock({"elbow": 0.3})``, ``rov.lock(["left", "right"], q)``
        """
        state = self.neutral() if q is None else self._q("q", q)
        positions = composition.locked_positions(
            joints, self.joint, lambda joint: state[..., self.slice(joint)]
        )
        return self._changed(composition.locked(self._parts, positions), name)

    @public
    def with_armatures(self, armatures: Mapping[str, float], *, name: str | None = None) -> "Model":
        """Return this robot with other armatures of some joints [kg m^2 or kg], by joint name.

        Example:
            ``hand.with_armatures({"thumb": 1e-5})``
        """
        given = {self.joint(joint).name: value for joint, value in armatures.items()}

        def armed(body: Body) -> Body:
            value = given.get(body.joint.name)
            if value is None:
                return body
            joint = composition.changed(body.joint, armature=value)
            joint.check_data()
            return composition.changed(body, joint=joint)

        bodies = tuple(map(armed, self.bodies))
        return self._changed(self._parts._replace(bodies=bodies), name)

    @public
    def with_fluids(
        self, fluids: Mapping[str, BodyFluid | None], *, name: str | None = None
    ) -> "Model":
        """Return this robot with other hydrodynamic coefficients of some bodies.

        Args:
            fluids: By body name; None for a body without hydrodynamic forces.
            name: Name of the result; by default that of this robot.
        """
        given = {self.body(body).name: fluid for body, fluid in fluids.items()}
        for body, fluid in given.items():
            check_fluid(body, fluid)
        bodies = tuple(
            composition.changed(body, fluid=given[body.name]) if body.name in given else body
            for body in self.bodies
        )
        return self._changed(self._parts._replace(bodies=bodies), name)

    def _with(
        self,
        rest: Parts,
        other: "Model",
        mount: composition.Mount,
        pose: Pose | None,
        prefix: str,
        joint: Joint | None,
        name: str | None,
    ) -> "Model":
        """Return some of this robot's parts with another robot attached to them."""
        if not isinstance(other, Model):
            raise ModelError(f"model {self.name!r}: can carry only a Model, got {shown(other)}")
        if pose is not None:
            mount = composition.Mount(mount.body, mount.pose @ pose)
        added = composition.prefixed(other._parts, prefix) if prefix else other._parts
        added = composition.mounted(added, mount, joint, other.name)
        whole = composition.joined(rest, added, self.name, other.name)
        movable = not (self.immovable_joint_names or other.immovable_joint_names)
        return Model._of(name or self.name, whole, self.about, movable)

    def _extended(self, name: str | None, **added: tuple[Any, ...]) -> "Model":
        """Return this robot with further parts of some kinds."""
        parts = {kind: (*getattr(self, kind), *more) for kind, more in added.items()}
        return self._changed(self._parts._replace(**parts), name)

    def _changed(self, parts: Parts, name: str | None) -> "Model":
        """Return a model of other parts, with the same tolerance for joints without inertia."""
        return Model._of(name or self.name, parts, self.about, not self.immovable_joint_names)

    @property
    def _parts(self) -> Parts:
        return Parts._make([*(getattr(self, kind) for kind in Parts._fields[:-1]), self._poses])

    # -- structure and parameters of compiled code ------------------------------------------

    @property
    def plan(self) -> Plan:
        """The private layout algorithms run over, with this model's own parameters."""
        plan = self._plan
        if plan is None:
            plan = Plan.build(self)
            self._set(_plan=plan)
        return plan

    @property
    def is_declared(self) -> bool:
        """Whether it is defined by data alone, without user code in joints or closures."""
        return not self.user_parts.parts

    def check_unchanged(self) -> None:
        """Raise if user code in joints or closures has changed since the model was built."""
        if self.user_parts.parts:
            self.user_parts.check_unchanged(self.name)

    @public
    def parameters(self) -> Array:
        """Return inertial parameters of all bodies and armatures of all joints, shape (names,).

        Per body those of `inertial_parameters`, in its own frame: mass [kg], first moment [kg m],
        rotational inertia about its origin [kg m^2]. Then the armatures [kg m^2 or kg], one per
        degree of freedom. Zeros are listed, too. Order: `parameter_names`.
        """
        numbers = [x for body in self.bodies for x in body.inertia.rigid]
        numbers += [x for joint in self.joints if joint.dof for x in joint.armatures]
        return np.array(numbers, dtype=np.float64)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """One name per entry of `parameters`, and per column of `inertia_derivatives`.

        Those of bodies, such as "upper.mass" or "upper.inertia_xx", are the columns of `regressor`.
        Armatures are named by their joint: "elbow.armature", or "ball.armature_2" for the second of
        several degrees of freedom.
        """
        names = [f"{body}.{word}" for body in self.body_names for word in INERTIAL_PARAMETERS]
        for joint in self.joints:
            if joint.dof:
                names += [f"{joint.name}.{word}" for word in armature_words(joint.armatures)]
        return tuple(names)

    @public
    def structure_key(self) -> bytes:
        """Return a digest of everything that compiled code depends on except inertial values.

        Equal keys mean equal code: topology, joint kinds and axes, placements, names, which
        inertial parameters are zero, and with loops which joints are actuated and the pose "home".
        """
        self.check_unchanged()
        if not self.loops:
            return self.plan.structure_key
        # with loops, the actuated joints decide the distribution of forces, and configurations
        # around the pose "home" the order of elimination and the choice of independent joints
        joints = {joint.name: joint for joint in self.joints}
        loops = tuple(structure_of(loop, joints) for loop in self.loops)
        home = tuple(float(x) for x in self.poses.get("home", ()))
        closing = structure_text((loops, self.actuated_joint_names, home))
        return blake2b(closing.encode(), key=self.plan.structure_key).digest()
