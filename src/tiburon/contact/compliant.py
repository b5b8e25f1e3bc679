"""Compliant contact: forces of one contact point by its depth, its slip and an anchor.

Symbols:
    d, d'   depth of penetration [m], and its rate [m/s]
    s       tangential displacement of the first body from its anchor on the second [m]
    u       tangential velocity of the first body relative to the second [m/s]
    k, b    normal stiffness [N/m] and damping [N s/m]; with index t the tangential ones
    c       dissipation of Hunt and Crossley [s/m]

The normal force is k d (1 + c d') + b d', and never pulls. At the surface a body that approaches
touches: its damper acts from there on, also where a run starts. Friction hangs on a spring and a
damper between the first body and an anchor, which is set where the contact closes. It sticks as
long as |k_t s + b_t u| is at most mu_s times the normal force. Beyond, it slides with mu_k times
the normal force, and drags its anchor along: once per step the spring is shortened in the ratio in
which spring and damper exceed that force. It sticks again as soon as both are within the cone of
kinetic friction.

Springs take up energy only by displacement, and anchors only shorten them: in a closed cycle the
contact returns no more energy than it has absorbed.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.contact.candidates import Surface
from tiburon.errors import DomainError, ShapeError
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import dot, scale, subtract

SURFACE_GAP = 1e-12
"""Gap up to which bodies that approach touch [m]: rounding of positions of some meters."""


HELD_OPEN = -1.0
"""What `Touch.sticking` is of a point that stays open up to the instant at which it closes."""


class Touch(NamedTuple):
    """One contact point in one state, as contact laws take it; floats or traced values."""

    depth: Scalar
    """Depth of penetration [m]; positive where the shapes overlap."""

    rate: Scalar
    """Time derivative of the depth [m/s]; positive while the bodies approach."""

    displacement: Vec3
    """Tangential displacement of the first body from its anchor, world axes [m]; 0 where the
    contact was open at the start of the step."""

    slip: Vec3
    """Tangential velocity of the first body relative to the second, world axes [m/s]."""

    normal: Vec3
    """Unit normal from the first to the second body, world axes."""

    sticking: Scalar
    """1 if the point stuck at the end of the last step, else 0."""

    surface: Surface
    """Material of both surfaces together."""


ContactLaw = Callable[[Touch], Any]
"""Returns the normal force [N], or the normal force and the tangential force on the first body,
world axes [N]; evaluated for all depths, and used where the depth is positive, or zero while the
bodies approach."""


class PointForce(NamedTuple):
    """Forces of one contact point."""

    normal: Scalar
    """Normal force [N]; 0 where the contact is open, never negative."""

    tangential: Vec3
    """Tangential force on the first body, world axes [N]."""

    displacement: Vec3
    """Tangential displacement from the anchor after projection [m]."""

    sticking: Scalar
    """Whether the point touches and sticks."""


def spring_damper(touch: Touch) -> Scalar:
    """Return the normal force k d (1 + c d') + b d' of a material [N]; where negative it pulls."""
    k, b, c = (
        touch.surface.normal_stiffness,
        touch.surface.normal_damping,
        touch.surface.dissipation,
    )
    elastic = k * touch.depth
    return elastic + (c * elastic + b) * touch.rate


def point_force(touch: Touch, law: ContactLaw | None = None) -> PointForce:
    """Return the forces of one contact point.

    Args:
        touch: Its state; `HELD_OPEN` for `sticking` where it stays open, whatever its depth is.
        law: A law instead of `spring_damper`; one that returns a tangential force replaces
            friction, and its anchor stays where the contact closed.

    Raises:
        ShapeError: If the law returns something else.
    """
    held_open = touch.sticking < -0.5
    if law is None:
        given = spring_damper(touch)
    else:
        given = law(touch._replace(sticking=np.maximum(touch.sticking, 0.0)))
    # a depth that is not a number must not pass for an open contact
    opened = (touch.depth <= -SURFACE_GAP) | ((touch.depth <= 0.0) & (touch.rate <= 0.0))
    opened = opened | held_open
    surface = touch.surface
    if isinstance(given, (tuple, list)) or np.ndim(given):
        normal, tangent = _both(given)
        normal = np.where(opened | (normal < 0.0), 0.0, normal)
        x, y, z = (np.where(opened, 0.0, x) for x in tangent)
        most = surface.static_friction * normal
        sticks = ~opened & (dot((x, y, z), (x, y, z)) <= most * most)
        return PointForce(normal, (x, y, z), touch.displacement, sticks)
    normal = np.where(opened | (given < 0.0), 0.0, given)
    kinetic = surface.kinetic_friction * normal
    most = np.where(touch.sticking > 0.5, surface.static_friction * normal, kinetic)
    stiffness, damping = surface.planar_stiffness, surface.planar_damping
    s, u = touch.displacement, touch.slip
    pull = (
        stiffness * s[0] + damping * u[0],
        stiffness * s[1] + damping * u[1],
        stiffness * s[2] + damping * u[2],
    )
    square = dot(pull, pull)
    slides = square > most * most
    left = np.where(slides, kinetic / np.sqrt(np.where(slides, square, 1.0)), 1.0)
    # open contacts have no damping either, which matters to derivatives
    tangent = scale(pull, np.where(opened, 0.0, -left))
    # the spring of a point that slides yields in the ratio of its force
    # without friction nothing sticks
    slips = slides | (surface.static_friction <= 0.0)
    return PointForce(normal, tangent, scale(s, left), ~(opened | slips))


def gives_friction(law: ContactLaw) -> bool:
    """Return whether a law gives a tangential force, by calling it for a point at rest."""
    surface = Surface(*(0.0,) * len(Surface._fields))
    zero = (0.0, 0.0, 0.0)
    given = law(Touch(1e-3, 0.0, zero, zero, (0.0, 0.0, -1.0), 1.0, surface))
    return isinstance(given, (tuple, list)) or bool(np.ndim(given))


def _both(given: Any) -> tuple[Scalar, Vec3]:
    """Return the normal and the tangential force that a law gives."""
    parts = tuple(given)
    if len(parts) != 2 or len(parts[1]) != 3:
        raise ShapeError(
            "contact law",
            "a normal force, or a normal force and a tangential force of 3 components",
            f"{len(parts)} values",
        )
    x, y, z = parts[1]
    return parts[0], (x, y, z)


def tangential(a: Vec3, normal: Vec3) -> Vec3:
    """Return the part of a vector across a unit normal."""
    fixed = [isinstance(x, (int, float)) for x in normal]
    if all(fixed):
        for k in range(3):
            if abs(normal[k]) == 1.0:
                x, y, z = (0.0 if i == k else a[i] for i in range(3))
                return (x, y, z)
    return subtract(a, scale(normal, dot(a, normal)))


@public
def hunt_crossley_dissipation(restitution: float, speed: float) -> float:
    """Return the dissipation c [s/m] with which a collision has a coefficient of restitution.

    With the force k d (1 + c d') a body that hits at speed v leaves with e v, and
    ln((1 + c v)/(1 - c e v)) = c v (1 + e), whatever its mass and the stiffness are (Hunt and
    Crossley 1975).

    Args:
        restitution: e, above 0 and at most 1.
        speed: v, at which the bodies approach [m/s].

    Raises:
        DomainError: If the restitution is not in that range, or the speed not positive.

    Example:
        ``tb.Ground(normal_stiffness=1e5, dissipation=tb.hunt_crossley_dissipation(0.8, 1.0))``
    """
    speed = positive("speed", speed, "m/s")
    e = positive("restitution", restitution)
    if not 0.0 < e <= 1.0:
        raise DomainError("restitution", "a number above 0 and at most 1", f"{e:g}")
    if e == 1.0:
        return 0.0

    def excess(x: float) -> float:
        if x < 0.1:
            # without cancellation of the terms of first order
            return math.fsum((e**n - (-1.0) ** n) * x**n / n for n in range(2, 30))
        return math.log1p(x) - math.log1p(-e * x) - x * (1.0 + e)

    # negative for small x = c v, infinite at 1 / e
    low, high = 0.0, 1.0 / e
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if e * middle < 1.0 and excess(middle) < 0.0:
            low = middle
        else:
            high = middle
    return low / speed
