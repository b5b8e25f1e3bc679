"""A constant placement as a few elementary moves, as cheap as the joint behind it allows.

A joint about (or along) coordinate axis k of the child turns (or slides) by a variable amount, so
its own turn (or slide) in the placement is free: it is added to the joint's offset. What is left of
a placement H = (R, p) is written

    H = T(p') . R_i(a) . R_j(b) . Q . T(d e_k) . R_k(c),

translations T, turns R about coordinate axes, and Q a permutation of axes with signs, which costs
nothing. With modified Denavit-Hartenberg frames this is one x-screw and the joint's own z-screw
(McMillan 1994, eqs. A.1-A.7).
"""

import math

from tiburon.model.numbers import SNAP, Matrix3, Vec3, snap
from tiburon.record import record
from tiburon.spatial import AxisRotation, Factor, Rotation, Transform, Translation
from tiburon.spatial.vec3 import IDENTITY3, matrix_product, transpose

NEGLIGIBLE = 1e-14
"""Components of a translation below this fraction of its length are rounding, and zero."""


@record
class Cost:
    """Multiplications and additions that a move adds to forward dynamics."""

    turn: int
    """For each turn about a coordinate axis."""

    step: int
    """For each component of a translation."""


BETWEEN_BODIES = Cost(turn=89, step=36)
"""Articulated inertia (53, 24), velocity, acceleration and force (12, 4 each) pass the joint."""

FREE_JOINT = Cost(turn=36, step=12)
"""A free joint passes no inertia on."""

ON_WORLD = Cost(turn=6, step=0)
"""Only gravity passes a joint on the world."""


@record
class Placement:
    """A placement taken apart."""

    transform: Transform
    """The constant moves, from the parent's frame to the joint frame."""

    offset: float
    """The move about or along the joint axis left to the joint [rad or m]."""

    turns: int
    """How many turns are not by right angles."""

    steps: int
    """How many components of translations are not zero."""

    def cost(self, cost: Cost) -> int:
        """Return the operations the constant moves add."""
        return self.turns * cost.turn + self.steps * cost.step


def place_whole(R: Matrix3, p: Vec3) -> Placement:
    """Take apart a placement whose joint can absorb nothing; R from child to parent axes."""
    factors: list[Factor] = _translation(p)
    turns = 0
    if R != IDENTITY3:
        factors.append(Rotation(transpose(R)))
        # a full rotation matrix costs a vector as much as two turns, and its inertia more
        turns = 0 if _is_permutation(R) else 2
    return Placement(Transform(tuple(factors)), 0.0, turns, _count(p))


def place_turning(R: Matrix3, p: Vec3, k: int) -> Placement:
    """Take apart the placement of a joint that turns about coordinate axis k of the child."""
    rotations, turns, angle = _aim(R, k)
    # sliding the origin along the joint axis may leave a shorter list of components
    before, along = min(
        _splits(p, _column(R, k)), key=lambda split: _count(split[0]) + (split[1] != 0.0)
    )
    after = _translation(_on_axis(k, along))
    factors = (*_translation(before), *rotations, *after)
    return Placement(Transform(factors), angle, turns, _count(before) + len(after))


def place_sliding(R: Matrix3, p: Vec3, k: int) -> Placement:
    """Take apart the placement of a joint that slides along coordinate axis k of the child."""
    rotations, turns, angle = _aim(R, k)
    if angle != 0.0:
        last = AxisRotation(k, *snap((math.cos(angle), math.sin(angle))))
        rotations = [*rotations, last]
        turns += not _is_right_angle(last)
    before, along = min(_splits(p, _column(R, k)), key=lambda split: _count(split[0]))
    factors = (*_translation(before), *rotations)
    return Placement(Transform(factors), along, turns, _count(before))


def _aim(R: Matrix3, k: int) -> tuple[list[Factor], int, float]:
    """Write R as moves that aim the parent's axes at the child's axis k, and a turn about it.

    Returns:
        The moves, how many of them are not by right angles, and the angle of the last turn [rad].
    """
    if _is_permutation(R):
        return _permutation(R), 0, 0.0
    n = _column(R, k)
    l, m = (k + 1) % 3, (k + 2) % 3
    zeros = [i for i in range(3) if n[i] == 0.0]
    aim: list[AxisRotation] = []
    Q: Matrix3 = IDENTITY3
    if len(zeros) == 2:
        Q = _axes_with(k, n)
    elif zeros == [k]:
        # n = R_k e_l: aim axis l, then call it k
        aim = [_turn(k, n[l], n[m])]
        Q = _axes_with(k, _on_axis(l, 1.0))
    elif zeros == [l]:
        aim = [_turn(l, n[k], -n[m])]
    elif zeros == [m]:
        aim = [_turn(m, n[k], n[l])]
    else:
        # azimuth and tilt, as in n = R_z R_x e_z
        aim = [_turn(k, -n[m], n[l]), _turn(l, n[k], math.hypot(n[l], n[m]))]
    done = Q
    for turn in reversed(aim):
        done = matrix_product(_matrix(turn), done)
    # what is left of R turns about axis k
    rest = matrix_product(transpose(done), R)
    angle = math.atan2(rest[m][l], rest[l][l])
    return [*aim, *_permutation(Q)], len(aim), angle if abs(angle) > SNAP else 0.0


def _turn(axis: int, cosine: float, sine: float) -> AxisRotation:
    """Return the turn of a direction in a coordinate plane, at length 1."""
    length = math.hypot(cosine, sine)
    c, s = snap((cosine / length, sine / length))
    return AxisRotation(axis, c, s)


def _matrix(turn: AxisRotation) -> Matrix3:
    """Return the rotation matrix from child to parent axes."""
    x, y, z = IDENTITY3
    return transpose(
        (turn.direction_to_parent(x), turn.direction_to_parent(y), turn.direction_to_parent(z))
    )


def _axes_with(k: int, n: Vec3) -> Matrix3:
    """Return a proper permutation of axes with signs whose column k is the coordinate axis n."""
    m = next(i for i in range(3) if n[i] != 0.0)
    rows = [[0.0] * 3 for _ in range(3)]
    rows[m][k] = n[m]
    rows[(m + 1) % 3][(k + 1) % 3] = 1.0
    # both signs together keep the determinant at +1
    rows[(m + 2) % 3][(k + 2) % 3] = n[m]
    (a, b, c), (d, e, f), (g, h, i) = rows
    return ((a, b, c), (d, e, f), (g, h, i))


def _splits(p: Vec3, n: Vec3) -> list[tuple[Vec3, float]]:
    """Return ways to write p = rest + d n: d = 0, and each d that clears a component of p."""
    splits = [(_clean(p, _size(p)), 0.0)]
    for i in range(3):
        # dividing by a small component would make a long detour
        if p[i] != 0.0 and abs(n[i]) > 0.1:
            d = p[i] / n[i]
            x, y, z = (0.0 if j == i else p[j] - d * n[j] for j in range(3))
            splits.append((_clean((x, y, z), _size(p) + abs(d)), d))
    return splits


def _clean(p: Vec3, size: float) -> Vec3:
    """Replace rounding errors of numbers of a given size by zero."""
    x, y, z = (0.0 if abs(a) <= NEGLIGIBLE * size else a for a in p)
    return (x, y, z)


def _size(p: Vec3) -> float:
    return max(map(abs, p))


def _count(p: Vec3) -> int:
    return sum(x != 0.0 for x in p)


def _column(R: Matrix3, k: int) -> Vec3:
    return (R[0][k], R[1][k], R[2][k])


def _on_axis(k: int, length: float) -> Vec3:
    x, y, z = (length if i == k else 0.0 for i in range(3))
    return (x, y, z)


def _translation(p: Vec3) -> list[Factor]:
    return [Translation(p)] if any(p) else []


def _permutation(Q: Matrix3) -> list[Factor]:
    return [] if Q == IDENTITY3 else [Rotation(transpose(Q))]


def _is_permutation(R: Matrix3) -> bool:
    """Return whether all entries are 0, 1 or -1."""
    return all(x in (0.0, 1.0, -1.0) for row in R for x in row)


def _is_right_angle(turn: AxisRotation) -> bool:
    return 0.0 in (turn.cosine, turn.sine)
