"""What a moving body and all beyond it amount to, where derivatives are taken: sums of three parts.

Symbols as in `tiburon.algorithms.derivatives.inverse_dynamics`: I inertia, B twice the velocity
product matrix, F force, all in the frame of the first body of a tree.
"""

from tiburon.algorithms.root_frame import Place
from tiburon.record import record
from tiburon.spatial import Force, Motion, RigidInertia, Sym3, Vec3
from tiburon.spatial.vec3 import add, add_cross, cross, subtract, symmetric_vector

__all__ = [
    "Composite",
    "Turning",
    "VelocityProduct",
    "leaning",
    "leaning_transpose",
    "no_turning",
    "turned",
]

Turning = tuple[Force, Force, Force]
"""Change of a force on a body per unit turn about x, y, z, apart from being carried along."""


def no_turning() -> Turning:
    """Return the change of a force that is fixed in its body: none."""
    return (Force.zero(), Force.zero(), Force.zero())


@record
class VelocityProduct:
    """B = [ K - n x, 0; -2 f x, 0 ]: K = d Ibar/dt, and n, f the momentum; they add."""

    K: Sym3
    momentum: Force

    def __add__(self, other: "VelocityProduct") -> "VelocityProduct":
        a, b = self.K, other.K
        K = (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5])
        return VelocityProduct(K, self.momentum + other.momentum)

    def apply(self, m: Motion) -> Force:
        """Return B m = vel x* I m + m x* I vel - I (vel x m)."""
        w = m.angular
        turned = subtract(symmetric_vector(self.K, w), cross(self.momentum.moment, w))
        once = cross(w, self.momentum.force)
        return Force(turned, add(once, once))

    def apply_transpose(self, m: Motion) -> Vec3:
        """Return B^T m: a couple."""
        n, f = self.momentum.moment, self.momentum.force
        turned = add_cross(symmetric_vector(self.K, m.angular), n, m.angular)
        once = cross(f, m.linear)
        return add(turned, add(once, once))


@record
class Composite:
    """What a body and all beyond it amount to; they add."""

    I: RigidInertia
    B: VelocityProduct
    F: Force
    turning: Turning

    @classmethod
    def zero(cls) -> "Composite":
        """Return nothing at all."""
        still = VelocityProduct((0.0,) * 6, Force.zero())
        return cls(RigidInertia.zero(), still, Force.zero(), no_turning())

    def __add__(self, other: "Composite") -> "Composite":
        (a, b, c), (x, y, z) = self.turning, other.turning
        turning = (a + x, b + y, c + z)
        return Composite(self.I + other.I, self.B + other.B, self.F + other.F, turning)


def turned(place: Place, turns: Turning) -> Turning:
    """Return `Turning` of a body, given in its own axes, in the common frame."""
    found = []
    for row in place.R:
        # a unit turn about a common axis, in body axes
        x, y, z = (column * weight for column, weight in zip(turns, row, strict=True))
        found.append(place.force(x + y + z))
    return (found[0], found[1], found[2])


def leaning(turning: Turning, s: Motion) -> Force:
    """Return the change of force that goes with the turn of a motion."""
    x, y, z = (column * weight for column, weight in zip(turning, s.angular, strict=True))
    total: Force = x + y + z
    return total


def leaning_transpose(turning: Turning, s: Motion) -> Vec3:
    """Return the transpose of the same map, applied to a motion."""
    x, y, z = turning
    return (s.dot(x), s.dot(y), s.dot(z))
