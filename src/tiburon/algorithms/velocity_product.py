"""Velocity product matrix B of one body: B vel = vel x* I vel and B + B^T = dI/dt.

Symbols (Echeandia and Wensing 2021, "Numerical methods to compute the Coriolis matrix and
Christoffel symbols for rigid-body systems", J. Computational and Nonlinear Dynamics 16(9)):
    I       inertia of the body, and of the water that it moves
    vel     its spatial velocity; in water, relative to the water
    n, f    momentum I vel

B is half of dI/dt and of the skew matrix of vel x* (I vel):

    B = 1/2 [(vel x*) I - I (vel x)] + 1/2 [ -n x  -f x ]
                                           [ -f x    0  ]

For a rigid body the products with linear velocity cancel and

    B = [ G     0 ]     G = (dIbar/dt - n x) / 2
        [ -f x  0 ]

so that B is three forces, one per component of angular velocity, and stays so in any frame. Added
mass differs along different axes, and nothing cancels.
"""

from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, RigidInertia, Transform
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, cross

__all__ = ["AnyProduct", "FullProduct", "RigidProduct"]

_UNITS = tuple(
    [Motion(axis, ZERO3) for axis in IDENTITY3] + [Motion(ZERO3, axis) for axis in IDENTITY3]
)


@record
class RigidProduct:
    """B of rigid bodies as three columns, the forces of unit angular velocities about x, y, z."""

    x: Force
    y: Force
    z: Force

    @classmethod
    def zero(cls) -> "RigidProduct":
        """Return B of nothing."""
        return cls(Force.zero(), Force.zero(), Force.zero())

    @classmethod
    def of_body(cls, inertia: RigidInertia, vel: Motion) -> "RigidProduct":
        """Return B of one rigid body."""
        momentum = inertia.apply(vel)
        rate = inertia.rate(vel).rows()
        columns = []
        for k, axis in enumerate(IDENTITY3):
            turned = cross(axis, momentum.moment)
            a, b, c = (0.5 * (rate[i][k] + turned[i]) for i in range(3))
            columns.append(Force((a, b, c), cross(axis, momentum.force)))
        return cls(*columns)

    def __add__(self, other: "RigidProduct") -> "RigidProduct":
        return RigidProduct(self.x + other.x, self.y + other.y, self.z + other.z)

    def apply(self, m: Motion) -> Force:
        """Return B m."""
        x, y, z = m.angular
        total: Force = self.x * x + self.y * y + self.z * z
        return total

    def apply_transpose(self, m: Motion) -> Force:
        """Return B^T m: a couple."""
        return Force((m.dot(self.x), m.dot(self.y), m.dot(self.z)), ZERO3)

    def to_parent(self, X: Transform) -> "RigidProduct":
        """Return X^T B X."""
        columns = [tuple(X.force_to_parent(column)) for column in (self.x, self.y, self.z)]
        rows = [X.direction_to_parent((x, y, z)) for x, y, z in zip(*columns, strict=True)]
        x, y, z = (Force.from_array([row[k] for row in rows]) for k in range(3))
        return RigidProduct(x, y, z)


@record
class FullProduct:
    """B of bodies with any symmetric inertia: its symmetric part, and what its skew part is of."""

    even: ArticulatedInertia
    """Half of dI/dt."""

    momentum: Force
    """n, f; carried like any force, and the skew part with it."""

    @classmethod
    def zero(cls) -> "FullProduct":
        """Return B of nothing."""
        return cls(ArticulatedInertia.zero(), Force.zero())

    @classmethod
    def of_body(cls, inertia: ArticulatedInertia, vel: Motion) -> "FullProduct":
        """Return B of one body."""
        # dI/dt = -(N + N^T) with N = I (vel x), column by column
        N = [tuple(inertia.apply(vel.cross(unit))) for unit in _UNITS]
        rows = [[-0.5 * (N[i][j] + N[j][i]) for j in range(6)] for i in range(6)]
        return cls(ArticulatedInertia.from_rows(rows), inertia.apply(vel))

    def __add__(self, other: "FullProduct") -> "FullProduct":
        return FullProduct(self.even + other.even, self.momentum + other.momentum)

    def _odd(self, m: Motion) -> Force:
        return m.cross_force(self.momentum) * 0.5

    def apply(self, m: Motion) -> Force:
        """Return B m."""
        return self.even.apply(m) + self._odd(m)

    def apply_transpose(self, m: Motion) -> Force:
        """Return B^T m."""
        return self.even.apply(m) - self._odd(m)

    def to_parent(self, X: Transform) -> "FullProduct":
        """Return X^T B X."""
        return FullProduct(X.inertia_to_parent(self.even), X.force_to_parent(self.momentum))


AnyProduct = RigidProduct | FullProduct
