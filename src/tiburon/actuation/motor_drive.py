"""Direct-current motors behind gears.

Symbols (Nahon 1991, eqs. 6.44 to 6.47):
    u       voltage at the terminals [V]
    i, R, L current, resistance and inductance of the winding [A, ohm, H]
    K, B    torque per current, voltage per speed [N m/A, V s/rad]
    w, n    speed of the rotor, turns of the rotor per motion of the joint
    c, f    viscous and Coulomb friction at the rotor [N m s/rad, N m]

    u = R i + L di/dt + B w + brushes      w = n v      force = n (K i - c w - f sign w)

The rotor's inertia is not here: it belongs to the joint's `armature`, or to a `rotor` body.
"""

import math
from collections.abc import Hashable

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.force_drive import within
from tiburon.actuation.joint_access import joint_force, joint_velocities, require_single_dof
from tiburon.actuation.passive import FRICTION_SPEED, friction_force
from tiburon.errors import ModelError
from tiburon.model import Actuator, Model, Motor
from tiburon.record import record
from tiburon.spatial import Scalar

__all__ = ["MotorDrive"]

BRUSH_RESISTANCE = 4.0
"""Resistance of brushes below their full drop, in resistances of the winding.

Brushes lose a constant voltage against the current. Around zero current that is a jump; here the
drop grows over the first quarter of the current that it would drive through the winding.
"""


@record
class MotorDrive(Element):
    """An `Actuator` with a `Motor`: the command is the voltage [V].

    The driver before the motor holds the voltage within `voltage_limit`, and, knowing the speed,
    gives no more than would drive `current_limit` through the winding at rest of the current. So
    the current never grows beyond its limit, and a step of voltage meets it as that of any winding
    does, with the time constant L / R. Back-EMF beyond the reach of the voltage still can drive
    more. A motor without inductance has no state: its current follows at once. Forces at the joint
    are held within `force_limits`; its speed is limited by back-EMF and `voltage_limit`.
    """

    name: str
    """Unique among the elements of a run; that of its command too."""

    actuator: Actuator
    """Its data, with a motor."""

    friction_speed: float = FRICTION_SPEED
    """Joint speed over which the rotor's Coulomb friction turns around [rad/s or m/s]."""

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
                "current would have no limit",
                name=self.name,
            )

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the current [A] if the winding has inductance."""
        return (f"{self.name}.current",) if self._motor.inductance > 0.0 else ()

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name: the voltage [V]."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return current [A], voltage after limits [V], joint force [N m or N], electric power [W].

        Power is what the driver gives, with heat in winding, brushes and bearings as its loss [W].
        """
        words = ("current", "voltage", "force", "power", "loss")
        # a state of that name is recorded anyway
        return tuple(f"{self.name}.{w}" for w in words if w != "current" or not self._lagging)

    def parameters(self) -> tuple[float, ...]:
        """Return R, K, B, c, f, n and the speed over which friction turns, then what is there.

        The latter are inductance, brush drop, limits of voltage, current and force.
        """
        m = self._motor
        B = m.torque_constant if m.back_emf_constant is None else m.back_emf_constant
        fixed = (m.resistance, m.torque_constant, B, m.damping, m.friction, self.actuator.ratio)
        return (*fixed, self.friction_speed, *(x for x, there in self._optional() if there))

    def structure(self) -> Hashable:
        """Return what it drives, and which of its numbers matter."""
        return (self.actuator.joint, tuple(there for _, there in self._optional()))

    def check(self, model: Model) -> None:
        """Raise an error unless the joint has one freedom."""
        require_single_dof(model, self.actuator.joint, f"actuator {self.name!r}")

    def act(self, now: ElementContext) -> Action:
        """Return the force at the joint, and the rate of the current."""
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
        lost: Scalar = 0.0 if drop is None else drop
        if limit is not None:
            reach = R * limit + lost
            u = within(u, emf - reach, emf + reach)
        if most is not None:
            u = within(u, -most, most)
        rates: tuple[Scalar, ...] = ()
        brushes: Scalar = 0.0
        if L is None:
            if drop is not None:
                brushes = within(u - emf, -drop, drop)
            # the winding takes what brushes leave
            i = (u - emf - brushes) / R
        else:
            (i,) = now.x
            if drop is not None:
                brushes = within(BRUSH_RESISTANCE * R * i, -drop, drop)
            rates = ((u - R * i - emf - brushes) / L,)
        rubbing = c * w - friction_force(f, np.abs(n) * s, w)
        force = within(n * (K * i - rubbing), low, high)
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
        """Return the numbers that may say nothing, each with whether it says anything."""
        m = self._motor
        limits = (m.voltage_limit, m.current_limit, *self.actuator.force_limits)
        return (
            *((x, x > 0.0) for x in (m.inductance, m.brush_drop)),
            *((x, math.isfinite(x)) for x in limits),
        )
