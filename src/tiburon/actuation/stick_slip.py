"""Stick-slip friction: the elastoplastic bristle model.

Symbols (Dupont, Hayward, Armstrong and Altpeter 2002, "Single state elastoplastic friction models";
the LuGre model of Canudas de Wit and others 1995 is the case without elastic range):
    z       deflection of the bristles [m or rad]
    s0, s1  stiffness and damping of the bristles
    g       kinetic friction at a speed; g / s0 is the steady deflection
    alpha   fraction of a motion that is slip: 0 in the elastic range, 1 at full deflection

In these models dz/dt grows with the joint speed, which makes the equations stiff for explicit
integrators. Here the deflection rate is limited, and the bristle force is reduced in the same
ratio, so that the element stays passive.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from tiburon.actuation.element import (
    Action,
    Element,
    ElementContext,
    joint_force,
    joint_velocities,
    per_degree_of_freedom,
)
from tiburon.actuation.joint_stops import apparent_joint_inertia
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError
from tiburon.model import Coupled, Model
from tiburon.model.value_checks import check_name, number
from tiburon.record import record

STICK_FREQUENCY = 300.0
"""Natural frequency of the moved inertia on the bristles of `StickSlip.of` [rad/s]."""

ELASTIC_FRACTION = 0.7
"""Fraction of the kinetic friction up to which the deflection is purely elastic."""


@public
@record
class StickSlip(Element):
    """Coulomb friction of one degree of freedom with stiction; its state is the bristle deflection.

    The friction is s0 z + s1 dz/dt, at most g, with damping never along the motion; the deflection
    follows ``dz/dt = v (1 - alpha |z| s0 / g)``, with ``|v|`` limited to bend / `slip_time`.
    Kinetic friction follows the Stribeck curve g = fc + (fs - fc) exp(-(v / vs)^2).

    Under a load below `static_friction` the joint comes to rest within `bend` and does not creep. A
    load that oscillates below 0.7 of `friction` deflects it elastically. With `relaxation` at least
    `slip_time`, a sliding joint stops within `bend` of where Coulomb's law stops it.

    The element is passive: it returns at most the stored energy s0 z^2 / 2. Runs with fixed steps
    longer than `slip_time` are refused.

    Example:
        ``tb.StickSlip("seal", "slide", friction=4.0, static_friction=5.0, bend=2e-5)``
    """

    name: str
    """Unique among the elements of a run."""

    joint: str
    """Name of the joint."""

    friction: float
    """fc, friction while slipping fast [N or N m]; positive."""

    static_friction: float | None = None
    """fs, break-away force [N or N m]; equal to `friction` if None."""

    bend: float = 1e-4
    """Deflection at the break-away force [m or rad]."""

    relaxation: float = 5e-3
    """Relaxation time of the bristles, s1 / s0 [s]."""

    slip_time: float = 2e-3
    """Shortest time in which friction builds up [s]."""

    stribeck_speed: float = 0.01
    """vs, Stribeck speed: friction falls from static to kinetic over it [m/s or rad/s]."""

    dof_index: int = 0
    """Index of the joint's degree of freedom, from 0."""

    def __post_init__(self) -> None:
        check_name(self.name, "stick-slip friction")
        element = f"stick-slip friction {self.name!r}"
        check_name(self.joint, f"{element}: joint")
        for quantity in ("friction", "bend", "relaxation", "slip_time", "stribeck_speed"):
            value = number(getattr(self, quantity), element, quantity, self.name, least=0.0)
            if value == 0.0 and quantity != "relaxation":
                raise ModelError(
                    f"{element}: {quantity} must be positive, got 0; leave the element out for a "
                    "joint without friction",
                    name=self.name,
                )
            object.__setattr__(self, quantity, value)
        static = self.friction if self.static_friction is None else self.static_friction
        static = number(static, element, "static_friction", self.name)
        if static < self.friction:
            raise ModelError(
                f"{element}: static_friction must be at least friction, got {static:g} below "
                f"{self.friction:g}; swap them",
                name=self.name,
            )
        object.__setattr__(self, "static_friction", static)

    @classmethod
    def of(cls, model: Model) -> "tuple[StickSlip, ...]":
        """Return the Coulomb friction of the joints of a robot with stiction, scaled by inertia.

        Smooth friction of the robot is left out by `Model.without_passive`.

        Example:
            ``tb.simulate(arm.without_passive("friction"), 0.1, elements=tb.StickSlip.of(arm))``
        """
        found = []
        inertias = apparent_joint_inertia(model)
        for joint in model.joints:
            if joint.passive is None or joint.dof == 0:
                continue
            inertia = inertias[model.slice(joint.name, of="v")]
            ratio = joint.ratio if isinstance(joint, Coupled) else 1.0
            for k, f in enumerate(per_degree_of_freedom(joint.passive.friction, joint)):
                if f == 0.0:
                    continue
                m = float(inertia[k]) / (ratio * ratio)
                name = f"{joint.name}.friction" + ("" if joint.dof == 1 else f"_{k}")
                time = 1.0 / STICK_FREQUENCY
                bend = f / (m * STICK_FREQUENCY * STICK_FREQUENCY)
                found.append(
                    cls(
                        name,
                        joint.name,
                        f,
                        bend=bend,
                        relaxation=time,
                        slip_time=time,
                        dof_index=k,
                    )
                )
        return tuple(found)

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the bristle deflection [m or rad]."""
        return (f"{self.name}.bend",)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the friction [N or N m] and the elastic energy of the bristles [J]."""
        return (f"{self.name}.force", f"{self.name}.energy")

    def parameters(self) -> tuple[float, ...]:
        """Return friction, static friction, bend, relaxation, slip time and Stribeck speed."""
        static = self.static_friction
        assert static is not None
        times = (self.relaxation, self.slip_time)
        return (self.friction, static, self.bend, *times, self.stribeck_speed)

    def structure(self) -> Hashable:
        """Return the joint and the degree of freedom."""
        return (self.joint, self.dof_index)

    def check(self, model: Model) -> None:
        """Raise an error if the joint has no such degree of freedom."""
        count = model.joint(self.joint).dof
        if not 0 <= self.dof_index < count:
            raise ModelError(
                f"stick-slip friction {self.name!r}: dof_index must be below {count} at joint "
                f"{self.joint!r}, got {self.dof_index}; count from 0",
                name=self.name,
            )

    def act(self, now: ElementContext) -> Action:
        """Compute the friction, and the rate of the deflection."""
        (z,) = now.x
        fc, fs, bend, relaxation, slip_time, vs = now.p
        joint = now.model.joint(self.joint)
        v = joint_velocities(now, joint)[self.dof_index]
        s0 = fs / bend
        g = fc + (fs - fc) * np.exp(-(v / vs) * (v / vs))
        full = g / s0
        size = np.abs(z)
        elastic = ELASTIC_FRACTION * fc / s0
        # smooth transition from elastic to slip; unloading is elastic
        share = np.minimum(np.maximum((size - elastic) / (full - elastic), 0.0), 1.0)
        share = share * share * (3.0 - 2.0 * share)
        bending = v * z > 0.0
        free = 1.0 - np.where(bending, share, 0.0) * size / full
        # limit the deflection rate
        fastest = bend / slip_time
        ratio = fastest / np.maximum(np.abs(v), fastest)
        rate = ratio * v * free
        spring = s0 * z * np.where(bending, 1.0, ratio)
        # damping along the motion would add energy
        damper = s0 * relaxation * ratio * v * np.maximum(free, 0.0)
        # friction is at most the kinetic friction at this speed
        most = np.where(bending | (z == 0.0), g, fs)
        force = np.minimum(
            np.maximum(-spring - np.minimum(np.maximum(damper, -fs), fs), -most), most
        )
        along = [0.0] * joint.dof
        along[self.dof_index] = force
        outputs = {f"{self.name}.force": force, f"{self.name}.energy": 0.5 * s0 * z * z}
        return Action(joint_force(joint, along), rates=(rate,), outputs=outputs)


def refuse_long_steps(
    elements: Sequence[Element], dt: float, given: Mapping[str, NDArray[np.float64]]
) -> None:
    """Raise DomainError if fixed steps dt [s] exceed the slip time of a stick-slip element.

    `given` holds parameter values by name, one or one per case, that replace those of the elements.
    """
    for element in elements:
        if not isinstance(element, StickSlip):
            continue
        times = given.get(f"{element.name}.slip_time", element.slip_time)
        shortest = float(np.min(times))
        if shortest < dt:
            raise DomainError(
                f"dt with stick-slip friction {element.name!r}",
                f"steps of at most its slip_time, {shortest:g} s",
                f"{dt:g} s",
                advice=f"write method=tb.RK4(dt={shortest:g}) or less, tb.DormandPrince(), or a "
                "StickSlip with a longer slip_time",
            )
