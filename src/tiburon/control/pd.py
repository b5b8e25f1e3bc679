"""PD and PID control of joints."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.control.joint_tracking import (
    Gains,
    JointSelection,
    Target,
    TrackingError,
    as_gains,
    as_target,
    commands_of,
    gains,
    select_joints,
    target_joints,
    tracking_error,
)
from tiburon.control.run_time import RunTimeFields, forms, run_time_fields, table_handles
from tiburon.model import Model
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.trace.declared import traced


@traced
@record
class PD(RunTimeFields):
    """PD control of joints: tau = stiffness (target - q) + damping (target velocity - v).

    Under a constant load the steady-state error is load / stiffness.

    Example:
        ``tb.simulate(arm, 5.0, control=PD(target=(0.3, -0.5), stiffness=80.0, damping=9.0))``
    """

    target: Target
    """Set point [m or rad]: one value for all joints, one per position variable, values by joint
    name, or a `JointPath`. Joints with quaternions have constant set points only."""

    stiffness: Gains
    """Proportional gain [N m/rad or N/m], one value or one per velocity variable."""

    damping: Gains
    """Derivative gain [N m s/rad or N s/m], one value or one per velocity variable."""

    joints: tuple[str, ...] = ()
    """Names of joints, in the order of target and gains; all but a floating base by default."""

    through: str = "joints"
    """Whether forces act on "joints" directly, or as commands of ideal "actuators"."""

    def __post_init__(self) -> None:
        _set_up(self, ("stiffness", "damping"))

    def __call__(self, state: State) -> Any:
        """Return the commands in a state."""
        chosen = select_joints(state.model, self.joints)
        own = run_time_fields(self, state)
        _, force = _proportional_derivative(self, state, chosen, own)
        return commands_of(state, chosen, force, self.through)

    @property
    def run_time_names(self) -> tuple[str, ...]:
        """Names of the fields that hold run-time parameters."""
        return ("stiffness", "damping", "target")

    def structure(self) -> Hashable:
        """Return the joints and the forms of gains and target."""
        return (forms(self, self.run_time_names), self.joints, self.through)


@public
@traced
@record
class PID(RunTimeFields):
    """PID control of joints: tau = stiffness e + damping de/dt + integral I, dI/dt = e.

    The integrals are states of the run. Anti-windup: while the force saturates at `limit`, the
    integral of the joint changes only towards smaller forces.
    """

    target: Target
    """As for `PD`."""

    stiffness: Gains
    """Proportional gain [N m/rad or N/m]."""

    damping: Gains
    """Derivative gain [N m s/rad or N s/m]."""

    integral: Gains
    """Integral gain [N m/(rad s) or N/(m s)]."""

    joints: tuple[str, ...] = ()
    """As for `PD`."""

    limit: Gains = float("inf")
    """Saturation of the force in either direction [N m or N], one value or one per velocity."""

    through: str = "joints"
    """As for `PD`."""

    name: str = "pid"
    """Prefix of the names of its states."""

    def __post_init__(self) -> None:
        _set_up(self, ("stiffness", "damping", "integral", "limit"))

    def _chosen(self, model: Model) -> JointSelection:
        return select_joints(model, self.joints)

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return one integral per velocity variable [rad s or m s]."""
        return tuple(f"{self.name}.{model.v_names[k]}" for k in self._chosen(model).v)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return zeros."""
        return (0.0,) * len(self._chosen(model).v)

    def __call__(self, state: State) -> tuple[Any, Any]:
        """Return the commands in a state, and the rates of the integrals."""
        chosen = self._chosen(state.model)
        count = len(chosen.v)
        own = run_time_fields(self, state)
        e, force = _proportional_derivative(self, state, chosen, own)
        force = force + gains(own["integral"], count, "integral") * state.own
        rates = e.error
        if "limit" in own:
            most = gains(own["limit"], count, "limit") + 0.0 * force
            # anti-windup: beyond the limit integrate only errors that reduce the force
            outward = (np.abs(force) > most) & (force * e.error > 0.0)
            rates = np.where(outward, 0.0, rates)
            force = np.minimum(np.maximum(force, -most), most)
        return commands_of(state, chosen, force, self.through), rates

    @property
    def run_time_names(self) -> tuple[str, ...]:
        """Names of the fields that hold run-time parameters; without an infinite limit."""
        unlimited = bool(np.all(np.isinf(self.limit)))
        return ("stiffness", "damping", "target", "integral", *(() if unlimited else ("limit",)))

    def structure(self) -> Hashable:
        """Return the joints and the forms of gains and target."""
        names = self.run_time_names
        return (forms(self, names), names, self.joints, self.through, self.name)


def _set_up(controller: Any, names: tuple[str, ...]) -> None:
    """Convert fields to forms that compare by value; refuse negative gains."""
    kind = type(controller).__name__
    for name in names:
        value = as_gains(getattr(controller, name), f"{kind}: {name}", endless=name == "limit")
        object.__setattr__(controller, name, value)
    target = as_target(controller.target)
    object.__setattr__(controller, "target", target)
    object.__setattr__(controller, "joints", target_joints(target, controller.joints))


def _proportional_derivative(
    control: PD | PID, state: State, chosen: JointSelection, own: Mapping[str, Any]
) -> tuple[TrackingError, Any]:
    """Return the tracking error and the force of its proportional and derivative terms."""
    count = len(chosen.v)
    e = tracking_error(state, chosen, own["target"], table_handles(control, state))
    force = gains(own["stiffness"], count, "stiffness") * e.error
    return e, force + gains(own["damping"], count, "damping") * e.rate
