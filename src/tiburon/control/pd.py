"""Proportional and derivative control of joints, with or without an integral."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from tiburon.control.joint_tracking import (
    JointSelection,
    Numbers,
    Target,
    as_gains,
    as_target,
    commands_of,
    gains,
    select_joints,
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
from tiburon.model import Model
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.trace.declared import traced
from tiburon.trace.primitives.table_rows import Table

__all__ = ["PD", "PID"]

_PD = ("stiffness", "damping", "target")
"""Fields of PD that hold run-time parameters, in order."""


@traced
@record
class PD:
    """Springs and dampers between joints and where they should be.

    tau = stiffness (target - q) + damping (target velocity - v). Under a constant load a joint
    rests off its target by load / stiffness.

    Example:
        ``tb.simulate(arm, 5.0, control=PD(target=(0.3, -0.5), stiffness=80.0, damping=9.0))``
    """

    target: Target
    """Positions of the joints [m or rad]: one for all, one per position variable, by joint name,
    or a `JointPath`. Joints with quaternions take their position variables."""

    stiffness: Numbers
    """Force per error [N m/rad or N/m], one number or one per velocity variable."""

    damping: Numbers
    """Force per error of velocity [N m s/rad or N s/m], likewise."""

    joints: tuple[str, ...] = ()
    """Names of joints, in the order of target and gains; all but a floating base by default."""

    through: str = "joints"
    """How forces reach joints: directly ("joints"), or as the commands of ideal "actuators"."""

    def __post_init__(self) -> None:
        _set_up(self, ("stiffness", "damping"))

    def __call__(self, state: State) -> Any:
        """Return the commands in a state."""
        chosen = select_joints(state.model, self.joints)
        count = len(chosen.v)
        own = run_time_fields(self, state, _PD)
        wanted = tracking_error(state, chosen, own["target"], table_handles(self, state))
        force = gains(own["stiffness"], count, "stiffness") * wanted.error
        force = force + gains(own["damping"], count, "damping") * wanted.rate
        return commands_of(state, chosen, force, self.through)

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters: stiffness, damping, target."""
        return flat_parameters(self, _PD)

    def tables(self) -> tuple[Table, ...]:
        """Return its path, if it follows one."""
        return path_tables(self, ("target",))

    def structure(self) -> Hashable:
        """Return what the code depends on: joints, how many numbers, a path."""
        return (forms(self, _PD), self.joints, self.through)


@traced
@record
class PID:
    """PD with the integral of the error, which takes away what a constant load leaves.

    tau = stiffness e + damping de/dt + integral I, dI/dt = e. The integrals are states of the run,
    integrated with it. Where a limit holds the force, the integral of that joint waits unless the
    error takes it back.
    """

    target: Target
    """As that of `PD`."""

    stiffness: Numbers
    """Force per error [N m/rad or N/m]."""

    damping: Numbers
    """Force per error of velocity [N m s/rad or N s/m]."""

    integral: Numbers
    """Force per error and second [N m/(rad s) or N/(m s)]."""

    joints: tuple[str, ...] = ()
    """As those of `PD`."""

    limit: Numbers = float("inf")
    """Largest force in either direction [N m or N], one number or one per velocity variable."""

    through: str = "joints"
    """As that of `PD`."""

    name: str = "pid"
    """Leads the names of its states."""

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
        own = run_time_fields(self, state, self._fields)
        wanted = tracking_error(state, chosen, own["target"], table_handles(self, state))
        force = gains(own["stiffness"], count, "stiffness") * wanted.error
        force = force + gains(own["damping"], count, "damping") * wanted.rate
        force = force + gains(own["integral"], count, "integral") * state.own
        rates = wanted.error
        if "limit" in own:
            most = gains(own["limit"], count, "limit") + 0.0 * force
            # beyond the limit only errors that lead back count
            outward = (np.abs(force) > most) & (force * wanted.error > 0.0)
            rates = np.where(outward, 0.0, rates)
            force = np.minimum(np.maximum(force, -most), most)
        return commands_of(state, chosen, force, self.through), rates

    @property
    def _fields(self) -> tuple[str, ...]:
        """Fields that hold run-time parameters."""
        unlimited = bool(np.all(np.isinf(self.limit)))
        return (*_PD, "integral") if unlimited else (*_PD, "integral", "limit")

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters: stiffness, damping, target, integral, limit if any."""
        return flat_parameters(self, self._fields)

    def tables(self) -> tuple[Table, ...]:
        """Return its path, if it follows one."""
        return path_tables(self, ("target",))

    def structure(self) -> Hashable:
        """Return what the code depends on: joints, how many numbers, a path."""
        return (forms(self, self._fields), self._fields, self.joints, self.through, self.name)


def _set_up(controller: Any, names: tuple[str, ...]) -> None:
    """Bring fields into a form that compares by value; refuse gains that drive away."""
    kind = type(controller).__name__
    for name in names:
        value = as_gains(getattr(controller, name), f"{kind}: {name}", endless=name == "limit")
        object.__setattr__(controller, name, value)
    target = as_target(controller.target)
    object.__setattr__(controller, "target", target)
    object.__setattr__(controller, "joints", target_joints(target, controller.joints))
