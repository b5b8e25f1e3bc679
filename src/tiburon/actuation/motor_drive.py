"""Direct-current motors with gears.

Symbols (Nahon 1991, eqs. 6.44 to 6.47):
    u       voltage at the terminals [V]
    i, R, L current, resistance and inductance of the winding [A, ohm, H]
    K, B    torque per current, voltage per speed [N m/A, V s/rad]
    w, n    speed of the rotor, gear ratio (rotor motion per joint motion)
    c, f    viscous and Coulomb friction at the rotor [N m s/rad, N m]

    u = R i + L di/dt + B w + brushes      w = n v      force = n (K i - c w - f sign w)

The inertia of the rotor belongs to the joint's `armature`, or to a `rotor` body.
"""

import math
from collections.abc import Hashable

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import joint_force, joint_velocities, require_single_dof
from tiburon.actuation.passive import FRICTION_SPEED, friction_force
from tiburon.errors import ModelError
from tiburon.model import Actuator, Model, Motor
from tiburon.model.actuator import clipped, steady_current, supply_limits
from tiburon.record import record
from tiburon.spatial import Scalar

BRUSH_RESISTANCE = 4.0
"""Resistance of the brushes below their full voltage drop, relative to that of the winding.

This regularizes the sign change of the constant drop at zero current.
"""


@record
class MotorDrive(Element):
    """An `Actuator` with a `Motor`: the command is the voltage [V].

    The driver limits the voltage to `voltage_limit`, and to the steady voltage of `current_limit`
    at the present speed; back-EMF beyond the voltage limit can still drive a larger current. The
    current follows with the time constant L / R; without inductance it is algebraic and there is
    no state. Joint forces saturate at `force_limits`.
    """

    name: str
    """Unique among the elements of a run; also the name of its command."""

    actuator: Actuator
    """Data of the actuator, with a motor."""

    friction_speed: float = FRICTION_SPEED
    """Joint speed over which the rotor's Coulomb friction changes sign [rad/s or m/s]."""

    def __post_init__(self) -> None:
        motor = self.actuator.motor
        if motor is None:
            raise ModelError(
                f"actuator {self.name!r}: it has no motor; give it motor=Motor(...), or use "
                "ForceDrive",
                name=self.name,
            )
        if motor.resistance == 0.0:
            raise ModelError(
                f"actuator {self.name!r}: resistance of the motor must be positive, got 0; its "
                "current would be unlimited",
                name=self.name,
            )

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the current [A] if the winding has inductance."""
        return (f"{self.name}.current",) if self._motor.inductance > 0.0 else ()

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name: the voltage [V]."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return current [A], limited voltage [V], joint force [N m or N], power and loss [W].

        Power is electric; loss is the heat in winding, brushes and bearings.
        """
        words = ("current", "voltage", "force", "power", "loss")
        # the current is recorded as a state where it is one
        return tuple(f"{self.name}.{w}" for w in words if w != "current" or not self._lagging)

    def parameters(self) -> tuple[float, ...]:
        """Return R, K, B, c, f, n and the friction speed, then the optional values that are set."""
        m = self._motor
        fixed = (m.resistance, m.torque_constant, m.back_emf, m.damping, m.friction)
        given = (x for x, there in self._optional() if there)
        return (*fixed, self.actuator.ratio, self.friction_speed, *given)

    def structure(self) -> Hashable:
        """Return its joint, and which optional values are set."""
        return (self.actuator.joint, tuple(there for _, there in self._optional()))

    def check(self, model: Model) -> None:
        """Raise an error unless the joint has one degree of freedom."""
        require_single_dof(model, self.actuator.joint, f"actuator {self.name!r}")

    def act(self, now: ElementContext) -> Action:
        """Compute the joint force and the rate of the current."""
        R, K, B, c, f, n, s = now.p[:7]
        given = iter(now.p[7:])
        L, drop, most, limit, low, high = (
            next(given) if there else None for _, there in self._optional()
        )
        joint = now.model.joint(self.actuator.joint)
        (v,) = joint_velocities(now, joint)
        w = n * v
        emf = B * w
        u: Scalar = now.u[0]
        reach = None if limit is None else R * limit + (0.0 if drop is None else drop)
        u = clipped(u, *supply_limits(emf, reach, most))
        rates: tuple[Scalar, ...] = ()
        brushes: Scalar = 0.0
        if L is None:
            if drop is not None:
                brushes = clipped(u - emf, -drop, drop)
            # steady state of the winding
            i = steady_current(u, emf, R, drop)
        else:
            (i,) = now.x
            if drop is not None:
                brushes = clipped(BRUSH_RESISTANCE * R * i, -drop, drop)
            rates = ((u - R * i - emf - brushes) / L,)
        rubbing = c * w - friction_force(f, np.abs(n) * s, w)
        force = clipped(n * (K * i - rubbing), low, high)
        outputs = {
            f"{self.name}.voltage": u,
            f"{self.name}.force": force,
            f"{self.name}.power": u * i,
            f"{self.name}.loss": R * i * i + brushes * i + rubbing * w,
        }
        if L is None:
            outputs[f"{self.name}.current"] = i
        return Action(joint_force(joint, (force,)), rates=rates, outputs=outputs)

    @property
    def _motor(self) -> Motor:
        assert self.actuator.motor is not None
        return self.actuator.motor

    @property
    def _lagging(self) -> bool:
        return self._motor.inductance > 0.0

    def _optional(self) -> tuple[tuple[float, bool], ...]:
        """Return inductance, brush drop and limits, each with whether it is set."""
        m = self._motor
        limits = (m.voltage_limit, m.current_limit, *self.actuator.force_limits)
        return (
            *((x, x > 0.0) for x in (m.inductance, m.brush_drop)),
            *((x, math.isfinite(x)) for x in limits),
        )
