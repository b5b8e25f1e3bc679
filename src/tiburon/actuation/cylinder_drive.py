"""Hydraulic cylinders: two oil chambers, a valve and a piston.

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

from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias

import numpy as np

from tiburon.actuation.element import (
    Action,
    Element,
    ElementContext,
    joint_force,
    joint_positions,
    joint_velocities,
    require_single_dof,
)
from tiburon.actuation.joint_stops import stop_force
from tiburon.actuation.point_spring import line_between
from tiburon.model import Model
from tiburon.model.attachments import HydraulicCylinder
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars

_Forces: TypeAlias = Mapping[str, Scalars] | None
_Apply: TypeAlias = Callable[[Scalar], tuple[_Forces, _Forces]]
"""Maps the piston force to joint forces and wrenches on frames."""

LAMINAR_FRACTION = 0.01
"""Fraction of the supply pressure below which orifice flow is laminar (linear)."""

RELIEF_RANGE = 0.05
"""Fraction of the supply pressure over which relief and make-up valves open fully."""

STOP_FRACTION = 5e-3
"""Penetration of an end stop at full supply pressure, as a fraction of the stroke."""

STOP_TIME = 2e-3
"""Damping of the end stops per stiffness [s]."""


def orifice_flow(gain: Scalar, difference: Scalar, laminar: Scalar) -> Scalar:
    """Compute the orifice flow [m^3/s]: gain sign(dp) sqrt(|dp|), linear (laminar) near zero.

    Args:
        gain: Flow per root of pressure [m^3/s/sqrt(Pa)].
        difference: Pressure drop dp [Pa].
        laminar: Pressure drop below which the flow is linear [Pa].
    """
    return gain * difference / np.sqrt(np.sqrt(difference * difference + laminar * laminar))


@record
class CylinderDrive(Element):
    """Force element of a `HydraulicCylinder`: the command is the valve opening, from -1 to 1.

    States: both pressures [Pa], and the opening where the valve has a time constant. Initial
    pressures balance the piston at half the supply pressure. A chamber above `relief_pressure`
    opens to the tank, one below tank pressure draws oil from it. The piston has end stops.

    The equations are stiff: at an open valve with a small pressure drop, pressures settle at the
    rate 10 b g / (V sqrt(supply)), some 1e4 per second. Use small or adaptive steps.
    """

    name: str
    """Unique among the elements of a run; also the name of its command."""

    cylinder: HydraulicCylinder
    """Data of the cylinder."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return both pressures [Pa], and the opening of a valve with a time constant."""
        words = ("cap_pressure", "rod_pressure", *(("opening",) if self._lagging else ()))
        return tuple(f"{self.name}.{word}" for word in words)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return pressures in balance at half the supply pressure."""
        c = self.cylinder
        mean = 0.5 * (c.supply_pressure - c.tank_pressure)
        small = min(c.cap_area, c.rod_area)
        cap, rod = (c.tank_pressure + mean * small / area for area in (c.cap_area, c.rod_area))
        return (cap, rod, *((0.0,) if self._lagging else ()))

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name: the valve opening."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return extension [m], force [N], energy of the oil [J] and pump flow [m^3/s]."""
        return tuple(f"{self.name}.{word}" for word in ("extension", "force", "energy", "flow"))

    def parameters(self) -> tuple[float, ...]:
        """Return areas, lengths, pressures, valve gain, oil data, damping, valve time constant."""
        c = self.cylinder
        assert c.relief_pressure is not None
        return (
            *(c.cap_area, c.rod_area, c.stroke, c.retracted_length),
            *(c.supply_pressure, c.tank_pressure, c.relief_pressure, c.valve_gain),
            *(c.bulk_modulus, c.dead_volume, c.leakage, c.damping),
            *((c.valve_time,) if self._lagging else ()),
        )

    def structure(self) -> Hashable:
        """Return what it acts on, and whether its valve has a time constant."""
        c = self.cylinder
        return (c.first, c.first_point, c.second, c.second_point, c.joint, self._lagging)

    def check(self, model: Model) -> None:
        """Raise an error if its frames or its joint do not exist."""
        c = self.cylinder
        if c.joint is not None:
            require_single_dof(model, c.joint, f"hydraulic cylinder {self.name!r}")
        else:
            for end in (c.first, c.second):
                model.plan.frame(str(end))

    def act(self, now: ElementContext) -> Action:
        """Compute the piston force, and the rates of pressures and valve."""
        A1, A2, stroke, retracted, supply, tank, relief, gain, b, dead, leak, c = now.p[:12]
        p1, p2, *lagging = now.x
        commanded = np.minimum(np.maximum(now.u[0], -1.0), 1.0)
        opening = lagging[0] if self._lagging else commanded
        length, rate, apply = self._kinematics(now)
        x = length - retracted
        inside = np.minimum(np.maximum(x, 0.0), stroke)
        V1, V2 = dead + A1 * inside, dead + A2 * (stroke - inside)
        # the spool connects one chamber to the pump and the other to the tank
        forth, back = np.maximum(opening, 0.0), np.maximum(-opening, 0.0)
        small = LAMINAR_FRACTION * supply
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
            rates.append((commanded - opening) / now.p[12])
        # end stops, scaled by the largest pressure force
        largest = supply * np.maximum(A1, A2)
        stiffness = largest / (STOP_FRACTION * stroke)
        law = (stiffness, stiffness * STOP_TIME, STOP_FRACTION * stroke)
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

    def _kinematics(self, now: ElementContext) -> tuple[Scalar, Scalar, _Apply]:
        """Return length, rate, and the map from piston force to forces on the robot."""
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
    """Compute the energy of compressed oil [J]: V (b (exp(p / b) - 1) - p), near V p^2 / (2 b)."""
    return V * (b * np.expm1(p / b) - p)
