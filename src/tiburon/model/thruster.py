"""Thrusters: position, direction and thrust curve."""

import math
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.value_checks import Vec3, check_name, finite_array, number, unit_vector, vec3
from tiburon.record import field, record


@record
class LinearThrust:
    """Thrust proportional to the command."""

    gain: float = 1.0
    """Thrust per unit of command [N]; 1 if the command is the thrust itself."""

    dead_band: tuple[float, float] = (0.0, 0.0)
    """Dead band: commands within give no thrust; others count from the nearer edge."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", number(self.gain, "linear thrust", "gain"))
        object.__setattr__(self, "dead_band", _dead_band(self.dead_band, "linear thrust"))


@record
class QuadraticThrust:
    """Thrust c u|u| of a propeller at speed u; c may differ between directions."""

    forward: float
    """c for commands u > 0 [N per squared unit of command]."""

    backward: float | None = None
    """c for commands u < 0; that of `forward` if None."""

    dead_band: tuple[float, float] = (0.0, 0.0)
    """Dead band: commands within give no thrust; others count from the nearer edge."""

    def __post_init__(self) -> None:
        element = "quadratic thrust"
        object.__setattr__(self, "forward", number(self.forward, element, "forward"))
        if self.backward is not None:
            object.__setattr__(self, "backward", number(self.backward, element, "backward"))
        object.__setattr__(self, "dead_band", _dead_band(self.dead_band, element))


@record
class TableThrust:
    """Thrust from a table, interpolated linearly, constant beyond its ends."""

    commands: tuple[float, ...]
    """Commands, increasing."""

    forces: tuple[float, ...]
    """Thrust at each command [N]."""

    def __post_init__(self) -> None:
        element = "table thrust"
        for quantity in ("commands", "forces"):
            given = getattr(self, quantity)
            count = np.size(given)
            value = finite_array(given, (count,), element, quantity).tolist()
            object.__setattr__(self, quantity, tuple(value))
        if len(self.commands) != len(self.forces) or len(self.commands) < 2:
            raise ModelError(
                f"{element}: commands and forces must have equal length, at least two, got "
                f"{len(self.commands)} and {len(self.forces)}; complete the rows"
            )
        if not all(a < b for a, b in pairwise(self.commands)):
            raise ModelError(
                f"{element}: commands must increase, got {list(self.commands)}; sort the rows"
            )


ThrustCurve: TypeAlias = LinearThrust | QuadraticThrust | TableThrust


@record
class Thruster:
    """A propeller or jet on a body; immutable, compares by value.

    Example:
        ``Thruster("port", "hull", (-0.5, 0.2, 0), (1, 0, 0), QuadraticThrust(0.02))``
    """

    name: str
    """Unique among the thrusters of a model."""

    body: str
    """Name of the body or frame it is fixed to."""

    position: Vec3 = (0.0, 0.0, 0.0)
    """Point of force, in axes of that body or frame [m]."""

    direction: Vec3 = (1.0, 0.0, 0.0)
    """Unit vector of the force on the body at positive thrust, same axes."""

    curve: ThrustCurve = field(default_factory=LinearThrust)
    """Thrust for a command."""

    time_constant: float = 0.0
    """Time constant of the first-order lag [s]; 0 for none."""

    torque_ratio: float = 0.0
    """Reaction torque about `direction` per thrust [m]; signed."""

    command_limits: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest command."""

    thrust_limits: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest thrust [N]."""

    def __post_init__(self) -> None:
        check_name(self.name, "thruster")
        element = f"thruster {self.name!r}"
        check_name(self.body, f"{element}: body")
        object.__setattr__(self, "position", vec3(self.position, element, "position", self.name))
        direction = unit_vector(self.direction, element, "direction", self.name)
        object.__setattr__(self, "direction", direction)
        given: object = self.curve
        if not isinstance(given, ThrustCurve):
            raise ModelError(
                f"{element}: curve must be LinearThrust(...), QuadraticThrust(...) or "
                f"TableThrust(...), got {shown(given)}",
                name=self.name,
            )
        time = number(self.time_constant, element, "time_constant", self.name, least=0.0)
        object.__setattr__(self, "time_constant", time)
        ratio = number(self.torque_ratio, element, "torque_ratio", self.name)
        object.__setattr__(self, "torque_ratio", ratio)
        for quantity in ("command_limits", "thrust_limits"):
            pair = limit_pair(getattr(self, quantity), element, quantity, self.name)
            object.__setattr__(self, quantity, pair)


def limit_pair(
    value: object, element: str, quantity: str, name: str | None = None
) -> tuple[float, float]:
    """Convert to a lower and an upper limit, either of which may be infinite."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ModelError(
            f"{element}: {quantity} must be two numbers, smallest and largest, got {shown(value)}",
            name=name,
        )
    low, high = (number(x, element, quantity, name, infinite=True) for x in value)
    if not low <= high:
        raise ModelError(
            f"{element}: {quantity} must be smallest and largest in this order, got {low:g} and "
            f"{high:g}; swap them",
            name=name,
        )
    return low, high


def _dead_band(value: object, element: str) -> tuple[float, float]:
    low, high = limit_pair(value, element, "dead_band")
    if not low <= 0.0 <= high:
        raise ModelError(
            f"{element}: dead_band must contain zero, got {low:g} to {high:g}; give its lower "
            "edge "
            "first"
        )
    return low, high
