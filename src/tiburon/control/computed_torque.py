"""Model-based control: computed torque and gravity compensation.

tau = ID(q, v, a) with a = target acceleration + damping de/dt + stiffness e. With an exact model
and all joints controlled, each error follows d2e/dt2 + damping de/dt + stiffness e = 0 (Craig 2005,
"Introduction to robotics", sec. 10.4).

With loops, the nearest accelerations that keep the loops closed are used, and the actuated joints
produce the forces (`tiburon.loops.inverse`).
"""

from collections.abc import Hashable
from typing import Any

from tiburon.algorithms.surroundings import unbound, without_current
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.control.joint_tracking import (
    Gains,
    JointSelection,
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
from tiburon.control.run_time import RunTimeFields, forms, run_time_fields, table_handles
from tiburon.errors import ModelError
from tiburon.functions.closed_loops import tracking_forces
from tiburon.functions.dynamics import gravity_force, inverse_dynamics
from tiburon.model import Model, World
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.trace.declared import traced


@traced
@record
class ComputedTorque(RunTimeFields):
    """Computed-torque control: inverse dynamics of the acceleration that a tracking error requires.

    Joints that are not controlled are assumed not to accelerate: exact for a fixed base, close for
    an arm on a heavy vehicle. Passive joint forces (friction, springs) are not compensated.

    With loops, the accelerations nearest to the desired ones (least squares) that keep the loops
    closed are used. Forces act on the controlled joints if all are actuated, otherwise on all
    actuated joints.

    Example:
        ``ComputedTorque.critical(JointPath.through([0, 2], [(0, 0), (1, -0.5)]), frequency=10.0)``
    """

    target: Target
    """As for `PD`."""

    stiffness: Gains
    """Acceleration per position error [1/s^2], one value or one per velocity variable."""

    damping: Gains
    """Acceleration per velocity error [1/s], one value or one per velocity variable."""

    joints: tuple[str, ...] = ()
    """Names of joints, in the order of target and gains; all but a floating base by default."""

    through: str = "joints"
    """As for `PD`."""

    model: Model | None = None
    """Model of the robot in the controller; the robot itself by default."""

    world: World | None = None
    """Model of the surroundings in the controller; the true ones by default."""

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
        """Return a controller with critically damped errors.

        Args:
            target: As for `PD`.
            frequency: w in stiffness w^2 and damping 2 w [rad/s]; both poles are at -w.
            **options: Further fields.
        """
        w = positive("frequency", frequency, "rad/s")
        return cls(target, w * w, 2.0 * w, **options)

    def __call__(self, state: State) -> Any:
        """Return the commands in a state."""
        chosen = select_joints(state.model, self.joints)
        count = len(chosen.v)
        own = run_time_fields(self, state)
        e = tracking_error(state, chosen, own["target"], table_handles(self, state))
        a = e.acceleration + gains(own["damping"], count, "damping") * e.rate
        a = a + gains(own["stiffness"], count, "stiffness") * e.error
        whole = spread(a, chosen.v, state.v)
        model, around = self.model or state.model, self.world or state.system.world
        if model.loops:
            driven = _driven(model, chosen)
            tau = _tracking(self, state, state.v, whole, chosen, driven)
            return commands_of(state, driven, taken(tau, driven.v), self.through)
        with unbound(model=self.model is not None, world=self.world is not None):
            tau = inverse_dynamics(model, state.q, state.v, whole, world=around, **_now(state))
        return commands_of(state, chosen, taken(tau, chosen.v), self.through)

    @property
    def run_time_names(self) -> tuple[str, ...]:
        """Names of the fields that hold run-time parameters."""
        return ("stiffness", "damping", "target")

    def structure(self) -> Hashable:
        """Return joints, forms of gains and target, and the controller's model."""
        key = model_key(self.model)
        return (forms(self, self.run_time_names), self.joints, self.through, key, self.world)


@traced
@record
class GravityCompensation(RunTimeFields):
    """Gravity compensation: joint forces that balance weight minus buoyancy.

    With loops, the chosen joints balance it if all are actuated, otherwise all actuated joints.
    """

    joints: tuple[str, ...] = ()
    """Names of joints; all but a floating base by default."""

    fraction: float = 1.0
    """Fraction of the weight that is compensated."""

    through: str = "joints"
    """As for `PD`."""

    model: Model | None = None
    """Model of the robot in the controller; the robot itself by default."""

    world: World | None = None
    """Model of the surroundings in the controller; the true ones by default."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", tuple(self.joints))

    def __call__(self, state: State) -> Any:
        """Return the commands in a state."""
        chosen = select_joints(state.model, self.joints)
        model, around = self.model or state.model, self.world or state.system.world
        if model.loops:
            # at rest, actuated joints balance the weight through the loops
            rest, every = 0.0 * state.v, select_joints(model, ())
            chosen = _driven(model, chosen)
            tau = _tracking(self, state, rest, rest, every, chosen, at_rest=True)
        else:
            with unbound(model=self.model is not None, world=self.world is not None):
                tau = gravity_force(model, state.q, world=around, **_now(state))
        fraction = run_time_fields(self, state)["fraction"]
        return commands_of(state, chosen, fraction * taken(tau, chosen.v), self.through)

    @property
    def run_time_names(self) -> tuple[str, ...]:
        """Names of the fields that hold run-time parameters."""
        return ("fraction",)

    def structure(self) -> Hashable:
        """Return the joints, and the controller's model."""
        return (self.joints, self.through, model_key(self.model), self.world)


def _driven(model: Model, chosen: JointSelection) -> JointSelection:
    """Return the joints of a robot with loops on which forces act."""
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
    at_rest: bool = False,
) -> Any:
    """Compute joint forces of a robot with loops for desired accelerations of some joints.

    Raises:
        ModelError: If a loop is switched, since the forces are those for closed loops.
    """
    model, world = control.model or state.model, control.world or state.system.world
    names = {loop.name for loop in model.loops}
    switched = next((x for x in state.system.held_loops.switch_places if x in names), None)
    if switched is not None:
        kind = type(control).__name__
        raise ModelError(
            f"{kind}: expected loops that stay closed, got a LoopSwitch of loop {switched!r}; "
            f"pass {kind}(..., model=...) with a model whose loops stay closed, such as "
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
            world=without_current(world) if at_rest else world,
            **_now(state),
        )


def _now(state: State) -> dict[str, Any]:
    """Return the time as a keyword, if anything depends on it."""
    return {"time": state.time} if state.system.time_matters else {}
