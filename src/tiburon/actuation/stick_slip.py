"""Friction that holds: bristles that bend while a joint sticks, and slip when it breaks away.

Symbols (Dupont, Hayward, Armstrong and Altpeter 2002, "Single state elastoplastic friction models";
the law of Canudas de Wit and others 1995, known as LuGre, is the case of no elastic range):
    z       bend of the bristles [m or rad]
    s0      their stiffness, s1 their damping
    g       friction while slipping at a speed; g / s0 is the bend at which that slip is steady
    alpha   how much of a motion is slip: 0 while the bend is elastic, 1 when it is full

Bristles of these laws bend as fast as a joint moves, in no time when it is fast, which explicit
steps cannot follow. Here they bend at a limited speed; whatever they give back meanwhile is reduced
in the same ratio, so that they still give no more than they hold.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import joint_force, joint_velocities
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError
from tiburon.model import Model
from tiburon.model.value_checks import check_name, number
from tiburon.record import record

__all__ = ["StickSlip"]

ELASTIC_SHARE = 0.7
"""Share of the kinetic friction up to which bristles bend without any slip."""


@record
class StickSlip(Element):
    """Coulomb friction of one freedom of a joint, with true rest; a state: the bend of bristles.

    The friction is s0 z + s1 dz/dt (the latter never with the motion, both together at most g), and
    the bend moves by dz/dt = v (1 - alpha |z| s0 / g), with v held within bend / `slip_time`.

    Under a load below `static_friction` the joint comes to rest within `bend` of where it was and
    stays, without creep. A load that swings below 0.7 of `friction` moves it elastically and back,
    forever. Beyond, it slips against `friction`, or more at speeds near zero, as the curve of
    Stribeck has it: g = fc + (fs - fc) exp(-(v / vs)^2).

    A joint that slips from the first instant on is slowed down by `friction` at once, with
    `relaxation` at least `slip_time`: it stops within `bend` of where Coulomb's law stops it, which
    is the way it springs back at rest. Runs with equal steps longer than `slip_time` are refused.

    The element never gives out more energy than it has stored: s0 z^2 / 2.

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
    """fs, largest load that is held [N or N m]; that of `friction` if None."""

    bend: float = 1e-4
    """How far it gives under the largest load that is held [m or rad]."""

    relaxation: float = 5e-3
    """Time in which bent bristles straighten, s1 / s0 [s]."""

    slip_time: float = 2e-3
    """Least time in which friction builds up, however fast the motion turns [s]."""

    stribeck_speed: float = 0.01
    """vs, speed over which the friction falls from static to kinetic [m/s or rad/s]."""

    freedom: int = 0
    """Which freedom of the joint, from 0."""

    def __post_init__(self) -> None:
        check_name(self.name, "stick-slip friction")
        element = f"stick-slip friction {self.name!r}"
        check_name(self.joint, f"{element}: joint")
        for quantity in ("friction", "bend", "relaxation", "slip_time", "stribeck_speed"):
            value = number(getattr(self, quantity), element, quantity, self.name, least=0.0)
            if value == 0.0 and quantity != "relaxation":
                raise ModelError(
                    f"{element}: {quantity} must be positive, got 0; leave the element out where "
                    "nothing rubs",
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

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the bend of the bristles [m or rad]."""
        return (f"{self.name}.bend",)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the friction [N or N m], and the energy of the bent bristles [J]."""
        return (f"{self.name}.force", f"{self.name}.energy")

    def parameters(self) -> tuple[float, ...]:
        """Return friction, static friction, bend, relaxation, slip time and Stribeck speed."""
        static = self.static_friction
        assert static is not None
        times = (self.relaxation, self.slip_time)
        return (self.friction, static, self.bend, *times, self.stribeck_speed)

    def structure(self) -> Hashable:
        """Return which freedom rubs."""
        return (self.joint, self.freedom)

    def check(self, model: Model) -> None:
        """Raise an error if the joint has no such freedom."""
        count = model.joint(self.joint).dof
        if not 0 <= self.freedom < count:
            raise ModelError(
                f"stick-slip friction {self.name!r}: freedom must be below {count} at joint "
                f"{self.joint!r}, got {self.freedom}; count from 0",
                name=self.name,
            )

    def act(self, now: ElementContext) -> Action:
        """Return the friction, and how the bend changes."""
        (z,) = now.x
        fc, fs, bend, relaxation, slip_time, vs = now.p
        joint = now.model.joint(self.joint)
        v = joint_velocities(now, joint)[self.freedom]
        s0 = fs / bend
        g = fc + (fs - fc) * np.exp(-(v / vs) * (v / vs))
        full = g / s0
        size = np.abs(z)
        elastic = ELASTIC_SHARE * fc / s0
        # from all elastic to all slip, smoothly; motion that unbends the bristles never slips
        share = np.minimum(np.maximum((size - elastic) / (full - elastic), 0.0), 1.0)
        share = share * share * (3.0 - 2.0 * share)
        bending = v * z > 0.0
        free = 1.0 - np.where(bending, share, 0.0) * size / full
        # bristles follow the joint up to a speed
        fastest = bend / slip_time
        ratio = fastest / np.maximum(np.abs(v), fastest)
        rate = ratio * v * free
        spring = s0 * z * np.where(bending, 1.0, ratio)
        # damping that helped the motion would make energy
        damper = s0 * relaxation * ratio * v * np.maximum(free, 0.0)
        # friction against the motion is at most that of slip at this speed, also while it builds up
        most = np.where(bending | (z == 0.0), g, fs)
        force = np.minimum(
            np.maximum(-spring - np.minimum(np.maximum(damper, -fs), fs), -most), most
        )
        along = [0.0] * joint.dof
        along[self.freedom] = force
        outputs = {f"{self.name}.force": force, f"{self.name}.energy": 0.5 * s0 * z * z}
        return Action(joint_force(joint, along), rates=(rate,), outputs=outputs)


def refuse_long_steps(
    elements: Sequence[Element], dt: float, given: Mapping[str, NDArray[np.float64]]
) -> None:
    """Refuse equal steps in which stick-slip friction would build up at once.

    Args:
        elements: What acts in a run.
        dt: Length of a step [s].
        given: Values by name that replace those of the elements, one or one per case.

    Raises:
        DomainError: If a step is longer than the slip time of an element.
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
                advice=f"pass dt={shortest:g} or less, a method that adapts its steps "
                "(method='dopri5'), or a StickSlip with a longer slip_time",
            )
