"""Control by a model of the robot: computed torque, and the weight borne.

tau = ID(q, v, a) with a = target acceleration + damping de/dt + stiffness e: where the model is the
robot and every joint is controlled, errors follow d2e/dt2 + damping de/dt + stiffness e = 0, each
by itself (Craig 2005, "Introduction to robotics", sec. 10.4).

Loops do not allow all joints independent accelerations: of those that keep the loops closed, the
nearest are taken, and the joints with motors make the forces (`tiburon.loops.inverse`).
"""

from collections.abc import Hashable
from typing import Any

from tiburon.algorithms.surroundings import unbound, without_current
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.control.joint_tracking import (
    JointSelection,
    Numbers,
    Target,
    as_gains,
    as_target,
    commands_of,
    gains,
    model_key,
    select_joints,
    spread,
    taken,
    target_joints,
    tracking_error,
)
from tiburon.control.run_time import (
    flat_parameters,
    forms,
    path_tables,
    run_time_fields,
    table_handles,
)
from tiburon.errors import ModelError
from tiburon.functions.closed_loops import tracking_forces
from tiburon.functions.dynamics import gravity_force, inverse_dynamics
from tiburon.model import Model, World
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.trace.declared import traced
from tiburon.trace.primitives.table_rows import Table

__all__ = ["ComputedTorque", "GravityCompensation"]

_NUMBERS = ("stiffness", "damping", "target")
"""Fields of computed torque that hold run-time parameters, in order."""


@traced
@record
class ComputedTorque:
    """Forces that give joints the acceleration an error asks for, found by inverse dynamics.

    Joints that are not controlled are taken not to accelerate: right for a fixed base, close for an
    arm on a heavy vehicle. What joints do by themselves (friction, springs) is not in it.

    Of a robot with loops, the accelerations are those nearest to what the errors ask for (sum of
    squares) that keep the loops closed. The forces act at the controlled joints that have motors;
    at all joints with motors if a controlled joint has none.

    Example:
        ``ComputedTorque.critical(JointPath.through(times, points), frequency=10.0)``
    """

    target: Target
    """As that of `PD`."""

    stiffness: Numbers
    """Acceleration per error [1/s^2], one number or one per velocity variable."""

    damping: Numbers
    """Acceleration per error of velocity [1/s], likewise."""

    joints: tuple[str, ...] = ()
    """Names of joints, in the order of target and gains; all but a floating base by default."""

    through: str = "joints"
    """As that of `PD`."""

    model: Model | None = None
    """What the controller takes for the robot; the robot itself by default."""

    world: World | None = None
    """What it takes for the surroundings; the true ones by default."""

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            value = as_gains(getattr(self, name), f"ComputedTorque: {name}")
            object.__setattr__(self, name, value)
        target = as_target(self.target)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "joints", target_joints(target, self.joints))

    @classmethod
    @public
    def critical(cls, target: Any, frequency: float, **options: Any) -> "ComputedTorque":
        """Return one whose errors die out fastest without overshoot.

        Args:
            target: As that of `PD`.
            frequency: Both roots of the error, w in stiffness w^2 and damping 2 w [rad/s].
            **options: Further fields.
        """
        w = positive("frequency", frequency, "rad/s")
        return cls(target, w * w, 2.0 * w, **options)

    def __call__(self, state: State) -> Any:
        """Return the commands in a state."""
        chosen = select_joints(state.model, self.joints)
        count = len(chosen.v)
        own = run_time_fields(self, state, _NUMBERS)
        wanted = tracking_error(state, chosen, own["target"], table_handles(self, state))
        a = wanted.acceleration + gains(own["damping"], count, "damping") * wanted.rate
        a = a + gains(own["stiffness"], count, "stiffness") * wanted.error
        whole = spread(a, chosen.v, state.v)
        model, around = self.model or state.model, self.world or state.system.world
        if model.loops:
            driven = _driven(model, chosen)
            tau = _tracking(self, state, state.v, whole, chosen, driven)
            return commands_of(state, driven, taken(tau, driven.v), self.through)
        with unbound(model=self.model is not None, world=self.world is not None):
            tau = inverse_dynamics(model, state.q, state.v, whole, world=around, **_now(state))
        return commands_of(state, chosen, taken(tau, chosen.v), self.through)

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters: stiffness, damping, target."""
        return flat_parameters(self, _NUMBERS)

    def tables(self) -> tuple[Table, ...]:
        """Return its path, if it follows one."""
        return path_tables(self, ("target",))

    def structure(self) -> Hashable:
        """Return what the code depends on: joints, paths, and its own idea of the robot."""
        return (
            forms(self, _NUMBERS),
            self.joints,
            self.through,
            model_key(self.model),
            self.world,
        )


@traced
@record
class GravityCompensation:
    """Forces that bear the weight of the robot, less buoyancy in water: its joints then float.

    Of a robot with loops, the chosen joints that have motors bear it; all joints with motors if a
    chosen joint has none.
    """

    joints: tuple[str, ...] = ()
    """Names of joints; all but a floating base by default."""

    fraction: float = 1.0
    """Part of the weight that is borne."""

    through: str = "joints"
    """As that of `PD`."""

    model: Model | None = None
    """What the controller takes for the robot; the robot itself by default."""

    world: World | None = None
    """What it takes for the surroundings; the true ones by default."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", tuple(self.joints))

    def __call__(self, state: State) -> Any:
        """Return the commands in a state."""
        chosen = select_joints(state.model, self.joints)
        model, around = self.model or state.model, self.world or state.system.world
        if model.loops:
            # at rest, motors bear through the loops what the other joints cannot
            rest, every = 0.0 * state.v, select_joints(model, ())
            chosen = _driven(model, chosen)
            tau = _tracking(self, state, rest, rest, every, chosen, still=True)
        else:
            with unbound(model=self.model is not None, world=self.world is not None):
                tau = gravity_force(model, state.q, world=around, **_now(state))
        fraction = run_time_fields(self, state, ("fraction",))["fraction"]
        return commands_of(state, chosen, fraction * taken(tau, chosen.v), self.through)

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameter: the share."""
        return flat_parameters(self, ("fraction",))

    def structure(self) -> Hashable:
        """Return what the code depends on: joints, and its own idea of the robot."""
        return (self.joints, self.through, model_key(self.model), self.world)


def _driven(model: Model, chosen: JointSelection) -> JointSelection:
    """Return the joints of a robot with loops at which forces act."""
    motors = model.actuated_joint_names
    if set(chosen.names) <= set(motors):
        return chosen
    return select_joints(model, motors)


def _tracking(
    control: ComputedTorque | GravityCompensation,
    state: State,
    v: Any,
    a: Any,
    controlled: JointSelection,
    driven: JointSelection,
    *,
    still: bool = False,
) -> Any:
    """Return joint forces of a robot with loops for desired accelerations of some joints.

    Raises:
        ModelError: If a loop is switched: the forces would be those of a robot whose loops are all
            closed, also while this one is open.
    """
    model, world = control.model or state.model, control.world or state.system.world
    names = {loop.name for loop in model.loops}
    switched = next((x for x in state.system.switch_places if x in names), None)
    if switched is not None:
        who = type(control).__name__
        raise ModelError(
            f"{who}: expected loops that stay closed, got a LoopSwitch of loop {switched!r}; "
            f"pass {who}(..., model=...), the robot whose loops hold all the time, such as "
            "model.without_loops()",
            name=switched,
        )
    with unbound(model=control.model is not None, world=control.world is not None):
        return tracking_forces(
            model,
            state.q,
            v,
            a,
            joints=controlled.names,
            actuators=driven.names,
            world=without_current(world) if still else world,
            **_now(state),
        )


def _now(state: State) -> dict[str, Any]:
    """Return the time for functions that need it."""
    return {"time": state.time} if state.system.time_matters else {}
