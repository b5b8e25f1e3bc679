"""Control of motion and of contact forces: load sharing at every sample, inside the loop of a run.

Motion feedback gives desired accelerations: of floating bodies from pose errors, of joints from
position errors, of feet in the air from theirs. Contacts follow, and forces that produce the motion
are shared by a `LoadSharing` plan, continuous in time. Forces and motion live in orthogonal
subspaces: neither controller disturbs the other (Nahon 1991, chapter 8).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES, ContactElement
from tiburon.actuation.element import AppliedForces, Element, summed_wrenches
from tiburon.actuation.joint_laws import JointLaws
from tiburon.actuation.passive import (
    FRICTION_SPEED,
    PassiveJoints,
    friction_force,
    passive_forces,
)
from tiburon.actuation.piecewise import entries, joined
from tiburon.actuation.point_spring import PointSpring
from tiburon.actuation.stick_slip import StickSlip
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import surroundings, unbound
from tiburon.argument_checks import choice, is_number, positive, vector
from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.contact.candidates import FIELDS
from tiburon.contact.geometry.pairs import pair
from tiburon.control.allocation import command_of_thrust
from tiburon.control.joint_tracking import (
    FORCE_TARGETS,
    JointSelection,
    commands_of,
    model_key,
    refuse_servos,
    select_joints,
)
from tiburon.control.motion_path import GaitPath, MotionPath, MotionSample
from tiburon.control.run_time import RunTimeFields, run_time_fields, table_handles
from tiburon.errors import DomainError, ModelError, ShapeError, shown
from tiburon.functions.load_sharing import LoadSharing
from tiburon.functions.load_tracking import AIM_SIZE, TrackedLoad, tracked_load
from tiburon.load_sharing.contact_load import ContactLoad, load_weight
from tiburon.load_sharing.limits.step import STEP_EXCEEDED, exceeds
from tiburon.load_sharing.named import count_of, places_of
from tiburon.load_sharing.objectives.objective import Sum
from tiburon.load_sharing.objectives.smoothness import FadingSmoothness, TorqueSmoothness
from tiburon.load_sharing.problem import Group
from tiburon.load_sharing.relaxation import RELAXED
from tiburon.load_sharing.smoothing import (
    UNBOUNDED,
    Blending,
    SmoothingPenalty,
    StepBound,
    component_form,
    component_numbers,
    component_values,
    per_component,
    ramp,
)
from tiburon.model import WORLD, Actuator, Model, World
from tiburon.model.actuator import voltage_of_torque
from tiburon.model.body import ContactPoint
from tiburon.record import field, record
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.state import State
from tiburon.spatial import (
    Scalar,
    Scalars,
    matrix_to_quaternion,
    quaternion_conjugate,
    quaternion_log,
    quaternion_multiply,
    quaternion_to_matrix,
)
from tiburon.spatial.vec3 import cross, matrix_vector, subtract, transpose
from tiburon.trace.array import TracedArray, as_traced
from tiburon.trace.declared import traced

CONTACTS = ("planned", "measured")
"""Where the set of touching contacts comes from."""

LEAST_CAP = 1e-3
"""Bound of normal forces relative to the full load, where contacts begin or end."""

FOOTHOLD_FREEZE_SHARE = 0.6
"""Share of a swing up to which its foothold may move."""

MAX_STEP_SHIFT = 0.15
"""Largest shift of a foothold [m]."""

LEAST_SWING = 0.1
"""Remaining share of a swing below which the aim of a foot that lifts late jumps to its path."""

MOMENT = 1e-9
"""Time that counts as none [s]."""

STEP_LIMIT_MARGIN = 1e-6
"""Part of a step limit that bounds of normal forces leave free."""

PAST_TIME = -1e9
"""Time of a change of contacts before any [s]."""


class SharedRun(NamedTuple):
    """What a controller shared at the recorded rows of a run."""

    forces: Array
    """Unknown forces in the order of `LoadSharing.names` [N, N m], shape (n, ..., unknowns)."""

    tau: Array
    """Driven joint forces [N or N m], shape (n, ..., driven)."""

    touching: Array
    """1 for each contact and loop that carried load, else 0, shape (n, ..., contacts). Contacts may
    last beyond their planned end, see `LoadSharingControl.max_step`."""

    missing: Array
    """Changes of the desired accelerations of what nothing drives, where contacts did not allow
    them [m/s^2 or rad/s^2], shape (n, ..., undriven)."""

    status: Array
    """0 where forces are optimal, and no change is larger than `max_step`; 7 where they are optimal
    but something lost more force than that at once, as a failed actuator does; where there is no
    solution 1, or another code of `tiburon.trace.primitives.quadratic`, shape (n, ...)."""


@public
@traced
@record(slots=False)
class LoadSharingControl(RunTimeFields):
    """Control of a robot with contacts: it follows a path and shares its load at every sample.

    Its discrete states are the shared forces, joint forces and contacts of its last sample, and
    the status of the solver. Where no solution exists, contact forces of the last sample are kept,
    joint forces follow from them within their limits, and the status reports it.

    Example:
        ``LoadSharingControl(LoadSharing.of(dog, friction=0.5), GaitPath.trot(dog), max_step=20.0)``
    """

    plan: LoadSharing
    """How the load is shared: contacts, limits and objective."""

    path: Any
    """The motion: a `GaitPath`, a `MotionPath`, or a configuration to hold [m or rad]."""

    max_step: Any = None
    """Largest change of each force from sample to sample [N]; or of each driven joint force
    [N or N m] where `smoothing` is on torques. One number, one per force or joint force, or by name
    of contacts, forces or joints; others are not bounded then. Contacts whose force cannot fall to
    zero by their planned end within bounds of forces end later."""

    smoothing: SmoothingPenalty | StepBound | None = field(default_factory=SmoothingPenalty)
    """How forces stay continuous when contacts change; None for not at all."""

    transfers: bool = True
    """Whether contacts take up their load gradually, and give it up before they end."""

    friction_reserve: float = 0.1
    """Share of the friction of the plan that is not used: as much less friction does no harm."""

    full_load: float | None = None
    """Normal force up to which the load of a contact grows, and from which it falls [N]; the weight
    of the robot by default."""

    base_frequency: float = 12.0
    """Of pose errors of floating bodies, critically damped [rad/s]."""

    joint_frequency: float = 20.0
    """Of position errors of joints, critically damped [rad/s]."""

    foot_frequency: float = 60.0
    """Of position errors of feet in the air, critically damped [rad/s]."""

    slip_damping: float = 20.0
    """Rate at which contacts that move are brought to rest [1/s]."""

    step_feedback: float = 1.0
    """Share of errors of the base that footholds of a gait move with; 0 for those of the path."""

    contact: str = "planned"
    """Which contacts carry load: those "planned", or those of them that have been "measured" to
    touch, from their first force on."""

    through: str = "joints"
    """How forces act: on "joints" directly, or as commands of their "actuators": forces, or the
    voltages of motors that give them at the present speed."""

    name: str = "share"
    """Prefix of the names of its states."""

    failed: Any = ()
    """Names of driven joints, thrusters and cables that give no force, or times by name from which
    on they do not [s]."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.plan, LoadSharing):
            raise ModelError(
                f"plan: expected a LoadSharing, got {shown(self.plan)}; write LoadSharing.of(robot)"
            )
        if not isinstance(self.path, (MotionPath, GaitPath)):
            size = self.plan.model.nq
            try:
                held = vector("path", self.path, size)
            except ShapeError as error:
                raise ModelError(
                    f"path: expected a GaitPath, a MotionPath or {size} numbers of a configuration "
                    f"to hold, got {shown(self.path)}"
                ) from error
            if not np.isfinite(held).all():
                raise DomainError("path", "a finite configuration", shown(self.path))
            put(self, "path", MotionPath(tuple(held.tolist())))
        self.path.check(self.plan.model, self.plan.contact_names)
        ground = self.plan.world.ground
        uneven = None if ground is None or ground.grid is None else ground
        if isinstance(self.path, GaitPath) and self.path.ground != uneven:
            known = "level ground" if self.path.ground is None else "uneven ground"
            raise ModelError(
                f"path: expected footholds on the ground of the plan, got {known}, which is "
                "another; pass the same world= to LoadSharing.of and to GaitPath"
            )
        scheme = self.smoothing
        if isinstance(scheme, Blending):
            raise DomainError(
                "smoothing",
                "a scheme for robots that move",
                "Blending, which is for machines that stand still",
                advice="take SmoothingPenalty(), or StepBound(...)",
            )
        if isinstance(scheme, StepBound):
            if self.max_step is not None:
                raise DomainError(
                    "max_step", "one step limit", "max_step beside smoothing=StepBound(...)"
                )
            put(self, "max_step", scheme.max_step)
        elif isinstance(scheme, SmoothingPenalty):
            self._components("weight", scheme.weight, 0.0)
        elif scheme is not None:
            raise ModelError(
                f"smoothing: expected SmoothingPenalty, StepBound or None, got {shown(scheme)}"
            )
        for body in self.plan.model.bodies:
            if body.joint.kind == "free" and body.parent != WORLD:
                raise ModelError(
                    f"joint {body.joint.name!r}: LoadSharingControl moves bodies that float in the "
                    f"world, got one that floats on {body.parent!r}",
                    name=body.joint.name,
                )
        reserve = self.friction_reserve
        if not is_number(reserve) or not 0.0 <= float(reserve) < 1.0:
            raise DomainError("friction_reserve", "a value from 0 to below 1", shown(reserve))
        put(self, "friction_reserve", float(reserve))
        if self.max_step is not None:
            put(self, "max_step", component_values("max_step", self.max_step))
            self._components("max_step", self.max_step, UNBOUNDED)
        weight = self.full_load
        if weight is None:
            gravity = self.plan.world.gravity
            weight = self.plan.model.total_mass * float(np.linalg.norm(gravity)) or UNBOUNDED
        put(self, "full_load", positive("full_load", weight, "N"))
        for frequency in ("base_frequency", "joint_frequency", "foot_frequency"):
            put(self, frequency, positive(frequency, getattr(self, frequency), "rad/s"))
        for gain in ("slip_damping", "step_feedback"):
            value = getattr(self, gain)
            if not is_number(value) or not 0.0 <= float(value) < np.inf:
                raise DomainError(gain, "a finite value of at least 0", shown(value))
            put(self, gain, float(value))
        choice("contact", self.contact, CONTACTS)
        choice("through", self.through, FORCE_TARGETS)
        put(self, "failed", self._failures(self.failed))
        if not self.plan.layout.undriven:
            raise ModelError("plan: expected a floating body or object, got only driven joints")

    def _failures(self, given: Any) -> tuple[tuple[str, tuple[float]], ...]:
        """Return times of failures by name, or raise if the plan does not allow them."""
        if isinstance(given, str):
            given = (given,)
        rows = given.items() if isinstance(given, Mapping) else given
        try:
            pairs = [(row, PAST_TIME) if isinstance(row, str) else tuple(row) for row in rows]
            times = {str(name): float(np.ravel(time)[0]) for name, time in pairs}
        except (TypeError, ValueError, IndexError):
            times = {"": np.nan}
        if np.isnan(list(times.values())).any():
            raise DomainError("failed", "names of actuators, or times by name [s]", shown(given))
        # names that the plan knows, with limits that can be zero
        self.plan.failures(tuple(times))
        return tuple((name, (time,)) for name, time in times.items())

    # states

    @property
    def _on(self) -> str:
        """What is kept continuous."""
        return "forces" if self.smoothing is None else self.smoothing.on

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of shared forces, joint forces, contacts and status."""
        plan, own = self.plan, self.name
        driven = (plan.model.v_names[i] for i in plan.layout.driven)
        return (
            *(f"{own}.{x}" for x in plan.names),
            *(f"{own}.{x}.force" for x in driven),
            *(f"{own}.{x}.touching" for x in plan.contact_names),
            *(f"{own}.{x.name}.offset_{axis}" for x in self._aimed for axis in "xyz"),
            *(f"{own}.{x.name}.shift_{axis}" for x in self._aimed for axis in "xy"),
            *(f"{own}.{x}.missing" for x in plan.equation_names),
            f"{own}.changed_at",
            f"{own}.status",
            f"{own}.time",
        )

    def initial_position(self, model: Model) -> tuple[float, ...]:
        """Return the posture of the path, in which runs start that are given no configuration."""
        self._check_model(model)
        return tuple(self.path.posture)

    def initial_discrete_state(self, model: Model) -> tuple[float, ...]:
        """Return no force and no contact: the first sample compares with nothing."""
        layout = self.plan.layout
        count = layout.size + len(layout.driven) + len(layout.groups) + 5 * len(self._aimed)
        count += len(layout.undriven)
        return (*((0.0,) * count), PAST_TIME, 0.0, PAST_TIME)

    def read(self, run: Trajectory) -> SharedRun:
        """Return what the controller shared in a run of it.

        Args:
            run: A run with this controller, or with an equal one.

        Raises:
            ModelError: If the run has another controller.
        """
        column = run.header.column("z")
        labels = () if column is None or column.labels is None else column.labels
        names = self.discrete_state_names(run.model)
        if not set(names) <= set(labels):
            raise ModelError(
                f"run: expected a run with this controller ({self.name!r}), got another; pass the "
                "run that it controlled"
            )
        z = run.z[..., [labels.index(name) for name in names]]
        layout = self.plan.layout
        ends = np.cumsum([layout.size, len(layout.driven), len(layout.groups)]).tolist()
        after = ends[-1] + 5 * len(self._aimed)
        return SharedRun(
            z[..., : ends[0]],
            z[..., ends[0] : ends[1]],
            z[..., ends[1] : ends[2]],
            z[..., after : after + len(layout.undriven)],
            z[..., -2],
        )

    # commands

    def __call__(self, state: State) -> tuple[Any, Any]:
        """Return the commands in a state, and the next discrete states."""
        plan, layout = self.plan, self.plan.layout
        model = state.model
        self._check_model(model)
        self._check_motors(model)
        self._check_contacts(state)
        own = run_time_fields(self, state)
        memory = self.initial_discrete_state(model) if state.own_z is None else state.own_z
        z = list(memory) if not isinstance(memory, TracedArray) else entries(memory)
        sizes = (
            layout.size,
            len(layout.driven),
            len(layout.groups),
            3 * len(self._aimed),
            2 * len(self._aimed),
            len(layout.undriven),
        )
        at = [sum(sizes[:k]) for k in range(7)]
        x, tau, touched, offsets, shifts, drift = (z[at[k] : at[k + 1]] for k in range(6))
        changed_at, outcome, last = z[at[6] :]
        started = np.where(last > 0.5 * PAST_TIME, 1.0, 0.0)
        dt = started * (state.time - last)
        sample, shifts = self._sampled(state, own, dt, offsets, shifts)
        steps = self._step_bounds(own, started)
        ended = [sample.touching.get(name, 1.0) < 0.5 for name in plan.contact_names]
        waiting = self._waiting(ended, touched, x, steps, outcome)
        planned = [
            np.maximum(sample.touching.get(name, 1.0), waits)
            for name, waits in zip(plan.contact_names, waiting, strict=True)
        ]
        touching = self._touching(state, planned, touched, started)
        failed, touching = self._failed(own, state.time, touching)
        change: Scalar = 0.0
        for _, (begin,) in own.get("failed", ()):
            change = np.maximum(change, np.where((state.time >= begin) & (last < begin), 1.0, 0.0))
        for a, b in zip(touching, touched, strict=True):
            change = np.maximum(change, np.abs(a - b))
        changed_at = np.where((change > 0.5) & (started > 0.5), state.time, changed_at)
        fade: Scalar = 0.0
        if isinstance(self.smoothing, SmoothingPenalty):
            fade = started * ramp(1.0, state.time - changed_at, own["smoothing"][-1])
        # contacts that were lifted carry nothing
        before = list(x)
        for k, group in enumerate(layout.groups):
            for place in group.places:
                before[place] = touching[k] * x[place]
        found = self._shared(
            state, own, sample, planned, waiting, touching, before, tau, drift, fade, steps, dt,
            failed,
        )  # fmt: skip
        good = (found.status < 0.5) | (found.status > RELAXED)
        forces = entries(found.x)
        missing = [np.where(good, d, 0.0) for d in forces[layout.size :]]
        left = self._offsets(sample, entries(found.centers), planned, waiting, offsets)
        shared, fallback = entries(found.tau), entries(found.fallback)
        driven = [np.where(good, shared[i], fallback[i]) for i in layout.driven]
        forces = [np.where(good, new, old) for new, old in zip(forces, before, strict=False)]
        exceeded: Scalar = 0.0
        if self.max_step is not None:
            # also what a failed actuator, or a contact after a sample without solution, lost
            pairs = zip(driven, tau) if self._on == "torques" else zip(forces, x)  # noqa: B905
            exceeded = exceeds([new - old for new, old in pairs], steps)
        after = (
            *forces,
            *driven,
            *touching,
            *left,
            *shifts,
            *missing,
            changed_at,
            np.where(good, STEP_EXCEEDED * exceeded, found.status),
            state.time + 0.0,
        )
        commands = self._commands(state, driven, forces)
        return commands, as_traced(list(after)) if isinstance(state.v, TracedArray) else after

    def _commands(self, state: State, driven: Scalars, forces: Scalars) -> dict[str, Any]:
        """Return joint forces, commands of thrusters and tensions of cables by name."""
        found: dict[str, Any] = {}
        motors = self._motors if self.through == "actuators" else {}
        plain: list[str] = []
        forces_of: list[Scalar] = []
        velocities = entries(state.v)
        at = 0
        for name in self._chosen.names:
            count = self.plan.model.joint(name).dof
            if name in motors:
                place = self.plan.model.slice(name, of="v").start
                found[motors[name].name] = _voltage(motors[name], driven[at], velocities[place])
            else:
                plain.append(name)
                forces_of += driven[at : at + count]
            at += count
        if plain:
            chosen = select_joints(self.plan.model, tuple(plain))
            found |= commands_of(state, chosen, joined(forces_of, state.v), self.through)
        model, names = self.plan.model, self.plan.names
        first = len(names) - len(model.thrusters) - len(model.cables)
        for thruster, thrust in zip(model.thrusters, forces[first:], strict=False):
            found[thruster.name] = command_of_thrust(thruster, thrust)
        first += len(model.thrusters)
        found |= {
            cable.name: tension
            for cable, tension in zip(model.cables, forces[first:], strict=False)
        }
        return found

    @cached_property
    def _motors(self) -> dict[str, Actuator]:
        """Actuators that take voltages, by the name of their joint."""
        return {x.joint: x for x in self.plan.model.actuators if x.takes_voltage}

    def _check_model(self, model: Model) -> None:
        """Refuse a robot with other joints than that of the plan."""
        own = self.plan.model
        if model.v_names != own.v_names:
            raise ModelError(
                f"model {model.name!r}: LoadSharingControl was made for {own.name!r}, whose "
                "joints differ; make the plan for this robot"
            )

    def _check_contacts(self, state: State) -> None:
        """Refuse a run without the contacts of the plan: nothing would carry its forces."""
        if not self.plan.candidates or state.owner is not self:
            return
        contact = state.system.find(ContactElement)
        known = set() if contact is None else {x.name for x in contact.element.candidates}
        missing = [x.name for x in self.plan.candidates if x.name not in known]
        if missing:
            raise ModelError(
                f"LoadSharingControl: contact {missing[0]!r} of the plan does not act in the run, "
                f"which has {len(known) or 'no'} contacts; simulate in the world of the plan, with "
                "the same pairs of contact",
                name=missing[0],
            )

    def _check_motors(self, model: Model) -> None:
        """Refuse motors that would get no voltage, others than those of the plan, and servos."""
        refuse_servos(model, tuple(self._chosen.names))
        for actuator in model.actuators:
            if not actuator.takes_voltage or actuator.joint not in self._chosen.names:
                continue
            if self.through == "joints":
                raise ModelError(
                    f"actuator {actuator.name!r}: LoadSharingControl commands joint forces, got a "
                    "motor, which brakes its joint while its voltage is zero; pass "
                    "through='actuators' for voltages",
                    name=actuator.name,
                )
            if self._motors.get(actuator.joint) != actuator:
                raise ModelError(
                    f"actuator {actuator.name!r}: its motor differs from that of the plan; make "
                    "the plan for this robot",
                    name=actuator.name,
                )

    def _sampled(
        self, state: State, own: dict[str, Any], dt: Scalar, offsets: Scalars, shifts: Scalars
    ) -> tuple[MotionSample, list[Scalar]]:
        """Return the motion at a time, and shifts of footholds.

        Accelerations are those of the middle of the sample: commands are held for a sample, and
        accelerations of its start would lag by half of it. Feet swing from where they were when
        they lifted to footholds that catch errors of the base.
        """
        path, handles = self.path, table_handles(self, state)
        now: MotionSample = path.sample(own["path"], state.time, handles)
        middle = path.sample(own["path"], state.time + 0.5 * dt, handles)
        poses = {
            name: pose._replace(
                acceleration=middle.poses[name].acceleration,
                angular_acceleration=middle.poses[name].angular_acceleration,
            )
            for name, pose in now.poses.items()
        }
        joints = {
            name: part._replace(acceleration=middle.joints[name].acceleration)
            for name, part in now.joints.items()
        }
        aims = {}
        found: list[Scalar] = []
        caught = self._caught(state, own, now) if self._aimed else []
        for k, foot in enumerate(self._aimed):
            # footholds are chosen until shortly before the landing
            open_end = now.aims[foot.name].blend[0] < FOOTHOLD_FREEZE_SHARE
            shift = [
                np.where(open_end, new, old)
                for new, old in zip(caught, shifts[2 * k : 2 * k + 2], strict=True)
            ]
            found += shift
            x, y, z = now.aims[foot.name].landing
            rise = path.rise(own["path"], foot, x + shift[0], y + shift[1], z, handles)
            own_offset, whole = offsets[3 * k : 3 * k + 3], [*shift, rise]
            aim, ahead = (
                part.aims[foot.name].moved(own_offset).shifted(whole) for part in (now, middle)
            )
            aims[foot.name] = aim._replace(acceleration=ahead.acceleration)
        return now._replace(poses=poses, joints=joints, aims=aims), found

    def _caught(self, state: State, own: dict[str, Any], sample: MotionSample) -> list[Scalar]:
        """Return how far footholds move with errors of the base [m].

        By the error of position and that of velocity times sqrt(h / g), the way of an inverted
        pendulum that comes to rest above its foot.
        """
        model = self.plan.model
        (name,) = sample.poses
        pose = sample.poses[name]
        q = _in_world(model.joint(name), entries(state.q)[model.slice(name)])
        v = entries(state.v)[model.slice(name, of="v")]
        velocity = matrix_vector(quaternion_to_matrix(tuple(q[:4])), tuple(v[3:]))
        height = entries(pose.position)[2] - sample.aims[self._aimed[0].name].position[2]
        gravity = float(np.linalg.norm(self.plan.world.gravity)) or 9.81
        pace = np.sqrt(np.maximum(height, 0.0) / gravity)
        found = []
        for k in range(2):
            error = q[4 + k] - entries(pose.position)[k]
            rate = velocity[k] - entries(pose.velocity)[k]
            shift = own["step_feedback"] * (error + pace * rate)
            found.append(np.minimum(np.maximum(shift, -MAX_STEP_SHIFT), MAX_STEP_SHIFT))
        return found

    def _offsets(
        self,
        sample: MotionSample,
        centers: Scalars,
        touching: Scalars,
        waiting: Scalars,
        offsets: Scalars,
    ) -> list[Scalar]:
        """Return how far feet are from their footholds when they lift [m]: held in the air.

        Also of feet that lift late, from where their aim already is on its way.
        """
        found: list[Scalar] = []
        names = self.plan.contact_names
        for k, foot in enumerate(self._aimed):
            aim = sample.aims[foot.name]
            contact = names.index(foot.name)
            remaining = 1.0 - aim.blend[0]
            for i in range(3):
                old = offsets[3 * k + i]
                # the aim on the ground already contains the old offset, and no shift
                standing = centers[3 * k + i] - (aim.position[i] - remaining * old)
                # the aim on its way contains what has not faded out yet
                error = centers[3 * k + i] - aim.position[i]
                late = old + error / np.maximum(remaining, LEAST_SWING)
                offset = np.where(waiting[contact] > 0.5, late, standing)
                found.append(np.where(touching[contact] > 0.5, offset, old))
        return found

    def _step_bounds(self, own: dict[str, Any], started: Scalar) -> list[Scalar]:
        """Return the largest change of each force or driven joint force; none without bounds."""
        if self.max_step is None:
            return []
        bounds = self._components("max_step", own["max_step"], UNBOUNDED)
        return [np.where(started > 0.5, x, UNBOUNDED) for x in bounds]

    def _waiting(
        self,
        ended: Sequence[Any],
        touched: Scalars,
        x: Scalars,
        steps: Scalars,
        outcome: Scalar,
    ) -> list[Scalar]:
        """Return 1 for each contact that lasts beyond its planned end, else 0.

        Until its force is within the step bounds: a contact that ends loses its force at once.
        After a sample without solution contacts end as planned, as do loops, thrusters and cables;
        the status then reports forces that were larger.

        Args:
            ended: Whether the path has no load for each contact and loop.
            touched: Which of them carried load at the last sample.
            x: Forces of the last sample.
            steps: Bounds of changes.
            outcome: Status of the last sample.
        """
        groups = self.plan.layout.groups
        if self.max_step is None or self._on != "forces":
            return [0.0] * len(groups)
        solved = (outcome < 0.5) | (outcome > STEP_EXCEEDED - 0.5)
        found: list[Scalar] = []
        for group, end, on in zip(groups, ended, touched, strict=True):
            if group.normal is None:
                found.append(0.0)
                continue
            share = _releasable(group, x, steps)
            found.append(np.where(end & (on > 0.5) & solved & (share < 1.0), 1.0, 0.0))
        return found

    def _touching(
        self, state: State, planned: Scalars, touched: Scalars, started: Scalar
    ) -> list[Scalar]:
        """Return 1 for each contact and loop that carries load, else 0.

        A measured contact carries load from its first force on, until its planned end.
        """
        found = list(planned)
        if self.contact == "planned":
            return found
        places = self._measured_places(state)
        z = entries(state.z)
        for k, own in enumerate(places):
            square: Scalar = 0.0
            for force in (force for place in own for force in z[place : place + 3]):
                square = square + force * force
            # nothing has been measured at the start
            felt = (square > 0.0) | (touched[k] > 0.5) | (started < 0.5)
            found[k] = np.where(felt, found[k], 0.0)
        return found

    def _failed(
        self, own: dict[str, Any], time: Scalar, touching: Scalars
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return 1 for each driven joint without force, and contacts and drives that take part."""
        marks: list[Scalar] = [0.0] * len(self.plan.layout.driven)
        taking = list(touching)
        for name, (begin,) in own.get("failed", ()):
            gone = np.where(time >= begin, 1.0, 0.0)
            joints, drives = self.plan.failures((name,))
            for k in joints:
                marks[k] = gone
            for k in drives:
                taking[k] = (1.0 - gone) * taking[k]
        return marks, taking

    def _measured_places(self, state: State) -> list[list[int]]:
        """Return the places of the forces of each contact among the discrete states.

        A ball on uneven ground is one contact of the plan and several of the run.
        """
        system = state.system
        if system.find(ContactElement) is None or state.z is None:
            raise ModelError(
                "LoadSharingControl: contact='measured' needs a run with contact, got none; "
                "simulate in a world with ground, or take contact='planned'"
            )
        names = system.z_names
        points = self.plan.contact_names[: self.plan.layout.points]
        first = f".{POINT_STATES[0]}"
        found = [
            [k for k, x in enumerate(names) if x in (name + first, *_parts_of(name, first))]
            for name in points
        ]
        for name, places in zip(points, found, strict=True):
            if not places:
                raise ModelError(
                    f"LoadSharingControl: contact='measured' needs contact {name!r} in the run, "
                    "which has others; simulate with the same pairs of contact"
                )
        return found

    def _shared(
        self,
        state: State,
        own: dict[str, Any],
        sample: MotionSample,
        planned: Scalars,
        waiting: Scalars,
        touching: Scalars,
        before: Scalars,
        tau: Scalars,
        drift: Scalars,
        fade: Scalar,
        steps: Scalars,
        dt: Scalar,
        failed: Scalars,
    ) -> TrackedLoad:
        """Share the load of the desired accelerations."""
        plan = self.plan
        friction, torsion, limits, weights, surfaces, passive = plan.split_parameters(own["plan"])
        if not isinstance(plan.objective, Sum):
            weights = [1.0, *weights]
        rho, smoothing = self._smoothing_weights(own, fade)
        weights = [*weights, *smoothing, 1.0]
        bounds = list(steps)
        if bounds and self._on == "torques":
            # the force of a failed actuator is gone at once
            gone = zip(bounds, failed, strict=True)
            bounds = [np.where(mark > 0.5, UNBOUNDED, x) for x, mark in gone]
        loads, caps = self._transfer(sample, waiting, touching, before, own["full_load"], steps, dt)
        weights += [load_weight(load) for load in loads]
        aims: list[Scalar] = []
        for foot in self._aimed:
            aim = sample.aims[foot.name]
            aims += [*aim.position, *aim.velocity, *aim.acceleration, aim.blend[0]]
        k = own["foot_frequency"]
        row = _row(state.v)
        given = (
            state.q,
            state.v,
            row(self._wanted(state, own, sample)),
            row(touching),
            row(before),
            row(tau),
            row(bounds),
            np.zeros(len(self._plan.limit_names)),
            row(failed),
            np.array([x for site in plan.sites for x in site.values]),
            *map(row, (friction, torsion, limits, weights, surfaces, ())),
            row(planned),
            row(aims or [0.0] * AIM_SIZE),
            row([k * k, 2.0 * k, own["slip_damping"], 1.0 - own["friction_reserve"], rho]),
            row(caps),
            row(drift),
        )
        around: Any = {"world": state.system.world, **_now(state)}
        with unbound(model=plan.model != state.model, world=False):
            acting = self._passive_forces(state, passive)
            around["external_force"] = {
                frame: row(wrench) for frame, wrench in summed_wrenches(acting.wrenches).items()
            }
            given = (*given, row(acting.force))
            found = tracked_load.call(plan.model, given, around, self._options)
        values = found.values() if isinstance(found, dict) else found
        return TrackedLoad(*values)

    def _passive_forces(self, state: State, values: Scalars) -> AppliedForces:
        """Return the forces of friction and springs that act in the run.

        Of a plan for the robot of the run their values are those of the case; otherwise those of
        the plan. Stiction (`StickSlip.of`) counts as smooth friction.

        Args:
            state: The state.
            values: Run-time parameters of the plan's passive elements.
        """
        plan, given = self.plan, iter(values)
        own = [(x, [next(given) for _ in x.parameters()]) for x in plan.passive_elements]
        running: list[tuple[Element, Scalars]] = []
        if plan.passive:
            p = state.system.run_time(ELEMENTS)
            running = [(one.element, p[one.p]) for one in state.system.placed]
        sticks = any(isinstance(x, StickSlip) for x, _ in running)
        slips = sticks or any(isinstance(x, JointLaws) and x.is_passive for x, _ in running)
        springs = {spring.name for spring in state.model.springs}
        acting: list[tuple[Element, Scalars]] = [
            (x, p) for x, p in running
            if isinstance(x, PassiveJoints) or (isinstance(x, PointSpring) and x.name in springs)
        ]  # fmt: skip
        acting += [(x.at_stages, p) for x, p in running if isinstance(x, JointLaws)]
        if sticks or plan.model != state.model:
            names = {x.name for x, _ in acting}
            acting = [
                (x, p) for x, p in own
                if x.name in names or (slips and isinstance(x, PassiveJoints))
            ]  # fmt: skip
        around = surroundings(plan.model, state.system.world)
        here = Setting(plan.model, (), (), *around)
        return passive_forces(here, entries(state.q), entries(state.v), acting)

    def _transfer(
        self,
        sample: MotionSample,
        waiting: Scalars,
        touching: Scalars,
        before: Scalars,
        full: Scalar,
        steps: Scalars,
        dt: Scalar,
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return the load of each contact, 0 to 1, and its largest normal force [N].

        The bound grows to the full load after a contact was made; before its end it falls to zero
        from what the contact carries, as fast as step bounds allow. Contacts that wait for their
        end give up their load in any case.
        """
        loads: list[Scalar] = []
        caps: list[Scalar] = []
        bounded = self.max_step is not None and self._on == "forces"
        places = zip(self.plan.layout.groups, touching, waiting, strict=True)
        for group, touches, waits in places:
            span = sample.spans.get(group.name)
            if span is None or group.normal is None:
                loads.append(1.0)
                caps.append(UNBOUNDED)
                continue
            since, left = (np.maximum(x, 0.0) for x in span)
            load: Scalar = 1.0
            cap: Scalar = UNBOUNDED
            last = before[group.normal]
            if self.transfers:
                load = np.minimum(1.0, np.minimum(since, left) / sample.transfer)
                growing = full * since / sample.transfer
                growing = np.where(since < sample.transfer, growing, UNBOUNDED)
                kept = np.maximum(1.0 - dt / np.maximum(left, dt + MOMENT), 0.0)
                falling = np.where(left < sample.transfer, last * kept, UNBOUNDED)
                cap = np.maximum(np.minimum(growing, falling), LEAST_CAP * full)
            if bounded:
                # no faster than all forces of the contact may change
                share = (1.0 - STEP_LIMIT_MARGIN) * _releasable(group, before, steps)
                slowest = last * (1.0 - share)
                load = np.where(waits > 0.5, 0.0, load)
                cap = np.where(waits > 0.5, slowest, np.maximum(cap, slowest))
            loads.append(load)
            # contacts that do not touch carry nothing anyway
            caps.append(np.where(touches > 0.5, cap, UNBOUNDED))
        return loads, caps

    def _wanted(self, state: State, own: dict[str, Any], sample: MotionSample) -> list[Scalar]:
        """Return the desired acceleration of every velocity variable, with feedback."""
        model = self.plan.model
        q, v = entries(state.q), entries(state.v)
        posture = self.path.posture_of(own["path"])
        found: list[Scalar] = [0.0] * model.nv
        for joint in model.joints:
            if not joint.nv:
                continue
            at_q, at_v = model.slice(joint.name), model.slice(joint.name, of="v")
            here, rate = q[at_q], v[at_v]
            if joint.kind == "free":
                k = own["base_frequency"]
                here, goal = (_in_world(joint, x) for x in (here, posture[at_q]))
                wanted = _pose_feedback(here, rate, sample.poses.get(joint.name), goal, k)
            else:
                k = own["joint_frequency"]
                given = sample.joints.get(joint.name)
                goal = posture[at_q] if given is None else given.position
                e = joint.difference(here, goal)
                wanted = [k * k * a - 2.0 * k * b for a, b in zip(e, rate, strict=True)]
                if given is not None:
                    wanted = [
                        w + a + 2.0 * k * b
                        for w, a, b in zip(wanted, given.acceleration, given.velocity, strict=True)
                    ]
            found[at_v] = wanted
        return found

    # what is compiled

    @property
    def _smooths(self) -> bool:
        return isinstance(self.smoothing, SmoothingPenalty)

    @cached_property
    def _plan(self) -> LoadSharing:
        """The plan with smoothing, loads of contacts and step limits."""
        objective: Any = self.plan.objective
        if self._smooths:
            kind = FadingSmoothness if self._on == "forces" else TorqueSmoothness
            objective = objective + kind(dict.fromkeys(self._weighted, 1.0))
        objective = objective + ContactLoad(len(self.plan.layout.groups))
        limits = self.plan.limits.with_steps(None if self.max_step is None else self._on)
        limits = limits._replace(relax=())
        return replace(self.plan, objective=objective, limits=limits, passive=False)

    @cached_property
    def _weighted(self) -> tuple[str, ...]:
        """Names of what is smoothed with weights of its own; none for one weight for all."""
        scheme = self.smoothing
        if not isinstance(scheme, SmoothingPenalty) or not isinstance(scheme.weight, tuple):
            return ()
        plan = self.plan
        driven = tuple(plan.model.v_names[i] for i in plan.layout.driven)
        return plan.names if self._on == "forces" else driven

    def _smoothing_weights(self, own: dict[str, Any], fade: Scalar) -> tuple[Scalar, list[Scalar]]:
        """Return the largest weight of a change from sample to sample, and those of the objective.

        Args:
            own: Run-time fields.
            fade: Remaining share of the weights, 0 to 1.
        """
        if not isinstance(self.smoothing, SmoothingPenalty):
            return 0.0, []
        given = own["smoothing"][:-1]
        largest = given[0]
        for weight in given[1:]:
            largest = np.maximum(largest, weight)
        if not self._weighted:
            return fade * largest, [fade * largest]
        each = self._components("weight", self.smoothing.weight, 0.0, given)
        return fade * largest, [fade, *each]

    def _components(
        self, argument: str, values: Any, default: float, p: Scalars | None = None
    ) -> list[Scalar]:
        """Return a value per force or driven joint force, whichever is kept continuous."""
        plan = self.plan
        places = places_of(self._on, plan.model, plan.layout)
        numbers = component_numbers(values) if p is None else p
        size = count_of(self._on, plan.layout)
        return per_component(argument, component_form(values), numbers, places, size, default)

    @cached_property
    def _options(self) -> Any:
        return (*self._plan.options, ("feet", self._feet))

    @cached_property
    def _feet(self) -> tuple[ContactPoint | None, ...]:
        """The ball of each contact point that has an aim in the air."""
        known = {point.name: point for point in self.path.feet}
        names = self.plan.contact_names[: self.plan.layout.points]
        return tuple(known.get(name) for name in names)

    @cached_property
    def _aimed(self) -> tuple[ContactPoint, ...]:
        """Contact points with aims in the air, in the order of contacts."""
        return tuple(foot for foot in self._feet if foot is not None)

    @cached_property
    def _chosen(self) -> JointSelection:
        driven = set(self.plan.layout.driven)
        model = self.plan.model
        names = tuple(
            joint.name
            for joint in model.joints
            if joint.nv and model.slice(joint.name, of="v").start in driven
        )
        return select_joints(model, names)

    @property
    def run_time_names(self) -> tuple[str, ...]:
        """Names of the fields that hold run-time parameters."""
        more = ["max_step"] if self.max_step is not None else []
        more += ["smoothing"] if self._smooths else []
        more += ["failed"] if self.failed else []
        frequencies = ("base_frequency", "joint_frequency", "foot_frequency")
        others = ("slip_damping", "step_feedback", "friction_reserve", "full_load", "path", "plan")
        return (*frequencies, *others, *more)

    def structure(self) -> Hashable:
        """Return the plan, the forms of path and smoothing, and options."""
        return (
            self.path.structure(),
            self._options,
            type(self.smoothing).__name__,
            self._on,
            component_form(getattr(self.smoothing, "weight", None)),
            None if self.max_step is None else (True, component_form(self.max_step)),
            self.transfers,
            self.contact,
            self.through,
            self.name,
            tuple(name for name, _ in self.failed),
            self.plan.passive,
            # where sites are is compiled in
            tuple(site.values for site in self.plan.sites),
            model_key(self.plan.model),
        )

    def structure_in(self, model: Model, world: World) -> Hashable:
        """Return the structure, and whether the run is of the robot that the plan was made for."""
        return (self.structure(), self.plan.model == model)


def _releasable(group: Group, x: Scalars, steps: Scalars) -> Scalar:
    """Return the share, up to 1, by which all forces of a contact may shrink in one step."""
    share: Scalar = 1.0
    for place in group.places:
        step = steps[place]
        share = np.minimum(share, step / np.maximum(np.abs(x[place]), step))
    return share


def _voltage(actuator: Actuator, force: Scalar, v: Scalar) -> Scalar:
    """Return the voltage of a motor that gives a joint force at a joint velocity [V]."""
    motor, n = actuator.motor, actuator.ratio
    assert motor is not None
    w = n * v
    rubbing = motor.damping * w - friction_force(motor.friction, abs(n) * FRICTION_SPEED, w)
    R, K, B = motor.resistance, motor.torque_constant, motor.back_emf
    return voltage_of_torque(force / n, w, rubbing, R, K, B, motor.brush_drop)


def _parts_of(contact: str, end: str) -> list[str]:
    """Return the names of the contact points of a ball on uneven ground."""
    return [f"{contact}[{k}]{end}" for k in range(pair("sphere", FIELDS[0]).points)]


def _row(like: Any) -> Any:
    """Return a function that makes an array of scalars, traced if the state is."""
    if isinstance(like, TracedArray):
        return lambda values: as_traced(list(values))
    return lambda values: joined(list(values), like) if len(values) else np.zeros(0)


def _in_world(joint: Any, q: Scalars) -> list[Scalar]:
    """Return quaternion and position in the world of a free joint that starts there in a pose."""
    pose = joint.pose
    R = tuple(tuple(float(x) for x in row) for row in np.asarray(pose.rotation))
    turn = matrix_to_quaternion(R)
    place = matrix_vector(R, tuple(q[4:]))  # type: ignore[arg-type]
    return [
        *quaternion_multiply(turn, tuple(q[:4])),
        *(x + float(t) for x, t in zip(place, pose.translation, strict=True)),
    ]


def _pose_feedback(
    q: Scalars, v: Scalars, sample: Any, posture: Scalars, k: Scalar
) -> list[Scalar]:
    """Return the desired acceleration of a floating body, body axes [rad/s^2, m/s^2]."""
    R = transpose(quaternion_to_matrix(q[:4]))
    zero: list[Scalar] = [0.0, 0.0, 0.0]
    w, velocity, wd, a = zero, zero, zero, zero
    aim, place = list(posture[:4]), list(posture[4:])
    if sample is not None:
        aim, place = entries(sample.quaternion), entries(sample.position)
        w, velocity, wd, a = (
            list(matrix_vector(R, tuple(entries(x))))
            for x in (
                sample.angular_velocity,
                sample.velocity,
                sample.angular_acceleration,
                sample.acceleration,
            )
        )
    turn = quaternion_log(quaternion_multiply(quaternion_conjugate(q[:4]), aim))
    shift = matrix_vector(R, subtract(tuple(place), tuple(q[4:])))
    # components in axes that turn with the body
    turning = cross(tuple(v[:3]), tuple(v[3:]))
    feed = [*wd, *(x - y for x, y in zip(a, turning, strict=True))]
    rates = [x - y for x, y in zip((*w, *velocity), v, strict=True)]
    return [
        f + 2.0 * k * r + k * k * e for f, r, e in zip(feed, rates, (*turn, *shift), strict=True)
    ]


def _now(state: State) -> dict[str, Any]:
    """Return the time as a keyword, if anything depends on it."""
    return {"time": state.time} if state.system.time_matters else {}
