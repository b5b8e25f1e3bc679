"""Coriolis matrix C for which dH/dt - 2 C is skew-symmetric.

Symbols (Echeandia and Wensing 2021, "Numerical methods to compute the Coriolis matrix and
Christoffel symbols for rigid-body systems", J. Computational and Nonlinear Dynamics 16(9)):
    X       motion transform from the parent's frame to the body's
    vel     spatial velocity of a body
    S, Sd   motion subspace of a joint and its rate, vel x S plus its apparent derivative
    n, f    momentum I vel
    B       velocity product matrix of a body: B vel = vel x* I vel and B + B^T = dI/dt
    IC, BC  I and B of a subtree
    C       Coriolis matrix

Every body adds J^T (I dJ/dt + B J) to C. In water I includes added mass, and velocities are
relative to the water. B is half of dI/dt plus half of the skew matrix of vel x* (I vel):

    B = 1/2 [(vel x*) I - I (vel x)] + 1/2 [ -n x  -f x ]
                                           [ -f x    0  ]

For a rigid body the products with linear velocity cancel and

    B = [ G     0 ]     G = (dIbar/dt - n x) / 2
        [ -f x  0 ]

so that B is three forces, one per component of angular velocity, in any frame. With added mass,
which differs between axes, nothing cancels.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiburon.algorithms.pair_products import (
    ABOVE,
    Vectors,
    before_products,
    components,
    has_few_pairs,
    joint_matrix,
)
from tiburon.algorithms.root_frame import Place
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import each, inward, outward, pairs
from tiburon.model import Plan, PlanBody
from tiburon.record import record
from tiburon.spatial import (
    ArticulatedInertia,
    Force,
    Motion,
    RigidInertia,
    Scalar,
    Scalars,
    Transform,
)
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, cross

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
        """Return zero."""
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
    """B of bodies with any symmetric inertia: symmetric part, and momentum for the skew part."""

    even: ArticulatedInertia
    """Half of dI/dt."""

    momentum: Force
    """n, f; transforms like a force, and the skew part with it."""

    @classmethod
    def zero(cls) -> "FullProduct":
        """Return zero."""
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


@record
class _Composite:
    """I and B of a subtree; they add."""

    I: RigidInertia | ArticulatedInertia
    B: AnyProduct

    @classmethod
    def of_body(cls, body: PlanBody, vel: Motion, wet: bool) -> "_Composite":
        """Return I and B of one body; with added mass in full form for all bodies."""
        if wet:
            inertia = body.effective_inertia.articulated()
            return cls(inertia, FullProduct.of_body(inertia, vel))
        return cls(body.inertia, RigidProduct.of_body(body.inertia, vel))

    def __add__(self, other: "_Composite") -> "_Composite":
        return _Composite(self.I + other.I, self.B + other.B)  # type: ignore[operator]


class _Moving(NamedTuple):
    """Results of the outward pass for a body."""

    X: Transform
    place: Place | None
    """None for the world."""

    vel: Motion
    Sd: tuple[Motion, ...]
    alone: _Composite


class _Column(NamedTuple):
    """Forces of one joint axis on their path to the root."""

    upper: Force
    """IC Sd + BC S: projected on an ancestor, it gives the ancestor's row."""

    inertial: Force
    """IC S: projected on the rate of an ancestor's axis."""

    turned: Force
    """BC^T S: projected on the ancestor's axis; both give the row of this axis."""


Rows = tuple[tuple[Scalar, ...], ...]
Columns = tuple[_Column, ...]

Entries = tuple[tuple[Scalar, ...], tuple[Scalar, ...]]
"""For one axis: its column in the rows of an ancestor, and its row in the ancestor's columns."""


def coriolis(plan: Plan, q: Scalars, v: Scalars) -> Rows:
    """Compute the Coriolis matrix.

    Echeandia and Wensing 2021, algorithm 1, for joints of any kind; O(pairs of a body and an
    ancestor). C v is the bias force without gravity, and C + C^T is the rate of the mass matrix.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.

    Returns:
        Rows of the Coriolis matrix [N s or N m s], nv times nv scalars.
    """
    if has_few_pairs(plan):
        return _by_pairs(plan, q, *_columns(plan, q, v))
    S, Sd, upper, inertial, turned = _vectors(plan, q, v)
    below = [(inertial, Sd), (turned, S)]
    entries = joint_matrix(plan, above=[(S, upper)], below=below, own_block=ABOVE)
    return tuple(tuple(entries[i : i + plan.nv]) for i in range(0, len(entries), plan.nv))


def _columns(plan: Plan, q: Scalars, v: Scalars) -> tuple[tuple[_Moving, ...], tuple[Columns, ...]]:
    """Compute the motion of each body, and the forces of each joint axis, in body frames."""
    wet = _is_wet(plan)

    def motion(body: PlanBody, parent: _Moving) -> _Moving:
        joint, position, rate = body.joint, q[body.q], v[body.v]
        X = body.transform(position)
        place = Place.first() if parent.place is None else parent.place.beyond(X)
        vel = X.motion(parent.vel) + joint.velocity(position, rate)
        S, change = joint.subspace(position), joint.subspace_rate(position, rate)
        Sd = tuple(vel.cross(s) + r for s, r in zip(S, change, strict=True))
        return _Moving(X, place, vel, Sd, _Composite.of_body(body, vel, wet))

    def compose(
        body: PlanBody, total: _Composite, moving: _Moving
    ) -> tuple[Columns, Callable[[], _Composite]]:
        I, B = total.I, total.B
        columns = tuple(
            _Column(I.apply(sd) + B.apply(s), I.apply(s), B.apply_transpose(s))
            for s, sd in zip(body.joint.subspace(q[body.q]), moving.Sd, strict=True)
        )
        X = moving.X
        return columns, lambda: _Composite(X.inertia_to_parent(I), B.to_parent(X))

    nothing = _Composite(RigidInertia.zero(), RigidProduct.zero())
    if wet:
        nothing = _Composite(ArticulatedInertia.zero(), FullProduct.zero())
    world = _Moving(Transform.identity(), None, Motion.zero(), (), nothing)
    moving = outward(plan, motion, world)
    return moving, inward(plan, compose, [visit.alone for visit in moving], moving)


def _is_wet(plan: Plan) -> bool:
    """Return whether bodies have added mass."""
    return any(body.added is not None for body in plan.bodies)


def _by_pairs(
    plan: Plan, q: Scalars, moving: Sequence[_Moving], columns: Sequence[Columns]
) -> Rows:
    """Propagate the forces of each axis to the root, projecting them on all ancestors."""

    def project(
        body: PlanBody, columns: Columns, moving: _Moving
    ) -> tuple[tuple[Entries, ...], Callable[[], Columns]]:
        S = body.joint.subspace(q[body.q])
        projected = tuple(
            (
                tuple(s.dot(f.upper) for s in S),
                tuple(
                    sd.dot(f.inertial) + s.dot(f.turned) for s, sd in zip(S, moving.Sd, strict=True)
                ),
            )
            for f in columns
        )
        return projected, lambda: tuple(
            _Column(*(moving.X.force_to_parent(f) for f in column)) for column in columns
        )

    C: list[list[Scalar]] = [[0.0] * plan.nv for _ in range(plan.nv)]
    for body, ancestor, projected in pairs(plan, project, columns, moving):
        for k, (column, row) in enumerate(projected, start=body.v.start):
            for j, (above, below) in enumerate(zip(column, row, strict=True), ancestor.v.start):
                # sums, since coupled joints share the variable of their leader
                C[j][k] = C[j][k] + above
                if body is not ancestor:
                    C[k][j] = C[k][j] + below
    return tuple(tuple(row) for row in C)


def _vectors(plan: Plan, q: Scalars, v: Scalars) -> tuple[Vectors, ...]:
    """Compute S, Sd and the three forces of all axes in the frame of their tree's first body."""
    wet = _is_wet(plan)

    @before_products(plan)
    def vectors(q: Scalars, v: Scalars) -> tuple[Vectors, ...]:
        position = JointVector(q)

        def carry(
            body: PlanBody, place: Place, Sd: tuple[Motion, ...], columns: Columns
        ) -> list[tuple[tuple[Scalar, ...], ...]]:
            return [
                (
                    tuple(place.motion(s)),
                    tuple(place.motion(sd)),
                    tuple(place.force(column.upper)),
                    tuple(place.force(column.inertial)),
                    # without added mass a couple, the same at every point
                    tuple(place.force(column.turned)) if wet else place.force(column.turned).moment,
                )
                for s, sd, column in zip(
                    body.joint.subspace(position[body.q]), Sd, columns, strict=True
                )
            ]

        moving, columns = _columns(plan, position, JointVector(v))
        places, rates = [visit.place for visit in moving], [visit.Sd for visit in moving]
        carried = each(plan, carry, range(len(plan.bodies)), places, rates, columns)
        rows = [row for body in carried for row in body]
        return tuple(
            components([row[k] for row in rows], size)
            for k, size in enumerate((6, 6, 6, 6, 6 if wet else 3))
        )

    found: tuple[Vectors, ...] = vectors(list(q), list(v))
    return found
