"""Hydraulic cylinders: two chambers of oil, a valve, a piston.

Symbols (Merritt 1967, "Hydraulic Control Systems", chapters 3 and 6):
    x, x'       extension of the piston and its speed [m, m/s]
    p1, p2      pressures that extend and retract it [Pa]
    A1, A2      areas they act on [m^2]
    V1, V2      volumes of the chambers with their lines [m^3]
    Q1, Q2      flows from the valve into the chambers [m^3/s]
    b           effective bulk modulus of the oil [Pa]

    p1' = b (Q1 - A1 x' - leak) / V1      p2' = b (Q2 + A2 x' + leak) / V2
    force = p1 A1 - p2 A2 - damping x'
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import (
    joint_force,
    joint_positions,
    joint_velocities,
    require_single_dof,
)
from tiburon.actuation.stop import stop_force
from tiburon.actuation.two_points import line_between
from tiburon.model import Model
from tiburon.model.hydraulic_cylinder import HydraulicCylinder
from tiburon.record import record
from tiburon.spatial import Scalar

__all__ = ["CylinderDrive", "orifice_flow"]

_Forces: TypeAlias = Mapping[str, Sequence[Scalar]] | None
_Apply: TypeAlias = Callable[[Scalar], tuple[_Forces, _Forces]]
"""From the push of a piston to forces at joints and on frames."""

LAMINAR_SHARE = 0.01
"""Share of the supply pressure below which flow through an orifice grows linearly."""

RELIEF_RANGE = 0.05
"""Share of the supply pressure over which relief and make-up valves open fully."""

STOP_SHARE = 5e-3
"""Share of the stroke by which the end of a cylinder gives under the full supply pressure."""

STOP_TIME = 2e-3
"""Damping of that end per stiffness [s]."""


def orifice_flow(gain: Scalar, difference: Scalar, laminar: Scalar) -> Scalar:
    """Return the flow through an orifice [m^3/s]: gain times the root of the pressure difference.

    The root is odd, and linear near zero, where real flow is laminar and a root would be steep.

    Args:
        gain: Flow per root of pressure [m^3/s/sqrt(Pa)].
        difference: Pressure before less that behind [Pa].
        laminar: Difference below which it is linear [Pa].
    """
    return gain * difference / np.sqrt(np.sqrt(difference * difference + laminar * laminar))


@record
class CylinderDrive(Element):
    """A `HydraulicCylinder` at work: the command is the opening of its valve, from -1 to 1.

    States: both pressures [Pa], and the opening where the valve lags. Chambers are filled to the
    pressure that holds the piston without load: half the supply, shared by the areas. A chamber
    above `relief_pressure` opens to the tank, one below the tank's pressure draws oil from it. At
    both ends of the stroke the piston meets a stop.

    Oil in small chambers behind large valves is stiff: where a valve is open and hardly any
    pressure is left to drop, pressures settle at the rate 10 b g / (V sqrt(supply)), some ten
    thousand per second: take small steps, or steps that adapt.
    """

    name: str
    """Unique among the elements of a run; that of its command too."""

    cylinder: HydraulicCylinder
    """Its data."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return pressures [Pa], and the opening of a valve that lags."""
        words = ("cap_pressure", "rod_pressure", *(("opening",) if self._lagging else ()))
        return tuple(f"{self.name}.{word}" for word in words)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return pressures that balance, the mean force of both being half the largest."""
        c = self.cylinder
        mean = 0.5 * (c.supply_pressure - c.tank_pressure)
        small = min(c.cap_area, c.rod_area)
        cap, rod = (c.tank_pressure + mean * small / area for area in (c.cap_area, c.rod_area))
        return (cap, rod, *((0.0,) if self._lagging else ()))

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name: the opening of the valve."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return extension [m], force [N], energy of the oil [J], flow from the pump [m^3/s]."""
        return tuple(f"{self.name}.{word}" for word in ("extension", "force", "energy", "flow"))

    def parameters(self) -> tuple[float, ...]:
        """Return all numbers but the ends: areas, lengths, pressures, valve, oil, friction."""
        c = self.cylinder
        assert c.relief_pressure is not None
        return (
            *(c.cap_area, c.rod_area, c.stroke, c.retracted_length),
            *(c.supply_pressure, c.tank_pressure, c.relief_pressure, c.valve_gain),
            *(c.bulk_modulus, c.dead_volume, c.leakage, c.damping),
            *((c.valve_time,) if self._lagging else ()),
        )

    def structure(self) -> Hashable:
        """Return what it acts on, and whether its valve lags."""
        c = self.cylinder
        return (c.first, c.first_point, c.second, c.second_point, c.joint, self._lagging)

    def check(self, model: Model) -> None:
        """Raise an error if its ends or its joint do not fit the robot."""
        c = self.cylinder
        if c.joint is not None:
            require_single_dof(model, c.joint, f"hydraulic cylinder {self.name!r}")
        else:
            for end in (c.first, c.second):
                model.plan.frame(str(end))

    def act(self, now: ElementContext) -> Action:
        """Return the force of the piston, and the rates of pressures and valve."""
        A1, A2, stroke, retracted, supply, tank, relief, gain, b, dead, leak, c = now.p[:12]
        p1, p2, *lagging = now.x
        wanted = np.minimum(np.maximum(now.u[0], -1.0), 1.0)
        opening = lagging[0] if self._lagging else wanted
        length, rate, apply = self._where(now)
        x = length - retracted
        inside = np.minimum(np.maximum(x, 0.0), stroke)
        V1, V2 = dead + A1 * inside, dead + A2 * (stroke - inside)
        # a spool joins one chamber to the pump and the other to the tank
        forth, back = np.maximum(opening, 0.0), np.maximum(-opening, 0.0)
        small = LAMINAR_SHARE * supply
        feed1 = orifice_flow(gain * forth, supply - p1, small)
        feed2 = orifice_flow(gain * back, supply - p2, small)
        drain1 = orifice_flow(gain * back, p1 - tank, small)
        drain2 = orifice_flow(gain * forth, p2 - tank, small)
        relieved = gain * np.sqrt(supply) / (RELIEF_RANGE * supply)
        Q1 = feed1 - drain1 + _spill(relieved, p1, relief, tank)
        Q2 = feed2 - drain2 + _spill(relieved, p2, relief, tank)
        past = leak * (p1 - p2)
        rates: list[Scalar] = [b * (Q1 - past - A1 * rate) / V1, b * (Q2 + past + A2 * rate) / V2]
        if self._lagging:
            rates.append((wanted - opening) / now.p[12])
        # an end gives a little under the full pressure of the pump
        largest = supply * np.maximum(A1, A2)
        stiffness = largest / (STOP_SHARE * stroke)
        law = (stiffness, stiffness * STOP_TIME, STOP_SHARE * stroke)
        ends = stop_force(-x, -rate, *law) - stop_force(x - stroke, rate, *law)
        force = p1 * A1 - p2 * A2 - c * rate + ends
        outputs = {
            f"{self.name}.extension": x,
            f"{self.name}.force": force,
            f"{self.name}.energy": _energy(p1, V1, b) + _energy(p2, V2, b),
            f"{self.name}.flow": feed1 + feed2,
        }
        joint_forces, wrenches = apply(force)
        return Action(joint_forces, wrenches, tuple(rates), outputs)

    def _where(self, now: ElementContext) -> tuple[Scalar, Scalar, _Apply]:
        """Return length and speed, and how a push acts on the robot."""
        c = self.cylinder
        if c.joint is not None:
            joint = now.model.joint(c.joint)
            (q,), (v,) = joint_positions(now, joint), joint_velocities(now, joint)
            return q, v, lambda force: (joint_force(joint, (force,)), None)
        assert c.first is not None
        assert c.second is not None
        line = line_between(now, c.first, c.first_point, c.second, c.second_point)
        return line.length, line.rate, lambda force: (None, line.pulled(-force))

    @property
    def _lagging(self) -> bool:
        return self.cylinder.valve_time > 0.0


def _spill(gain: Scalar, p: Scalar, relief: Scalar, tank: Scalar) -> Scalar:
    """Return the flow into a chamber through its relief and make-up valves [m^3/s]."""
    return gain * (np.maximum(tank - p, 0.0) - np.maximum(p - relief, 0.0))


def _energy(p: Scalar, V: Scalar, b: Scalar) -> Scalar:
    """Return the energy of compressed oil [J].

    From p = b ln(C / V) for an amount C of oil: V (b (exp(p / b) - 1) - p), near V p^2 / (2 b).
    """
    return V * (b * np.expm1(p / b) - p)
