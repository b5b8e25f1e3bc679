"""Linear invariants of a rotation: polynomial in its matrix, smooth everywhere.

For a turn by phi about the unit axis e they are vect Q = e sin phi and q0 = cos phi (Nahon 1991,
sec. 3.2). Their rates are linear in the angular velocity,

    d/dt [vect Q; q0] = H omega,    H = [ (tr(Q) 1 - Q) / 2 ]
                                        [    -vect(Q)^T     ]

which corrects the printed eq. 3.20b (it lacks the factor 1/2 and the minus sign). With
f = [vect Q; q0 - 1], the error of Q from no turn at all, both the least-squares solution of
H omega = f and the gradient H^T f are vect Q: no factorization of H is needed.
"""

from typing import Any

from tiburon.spatial.rotations import matrix_to_quaternion, select
from tiburon.spatial.vec3 import Mat3, Scalar, Vec3

__all__ = ["linear_invariant_rates", "linear_invariants", "turn_error"]


def linear_invariants(Q: Mat3) -> tuple[Vec3, Scalar]:
    """Return vect Q = e sin phi and q0 = cos phi of a rotation matrix.

    Args:
        Q: Rows of the rotation matrix.
    """
    (a, b, c), (d, e, f), (g, h, i) = Q
    return (0.5 * (h - f), 0.5 * (c - g), 0.5 * (d - b)), 0.5 * (a + e + i - 1.0)


def linear_invariant_rates(Q: Mat3) -> tuple[Vec3, Vec3, Vec3, Vec3]:
    """Return the rows of H: the rates of the four invariants per angular velocity.

    Args:
        Q: Rows of the rotation matrix, which turns with omega in the axes it maps to.
    """
    (a, b, c), (d, e, f), (g, h, i) = Q
    (x, y, z), _ = linear_invariants(Q)
    return (
        (0.5 * (e + i), -0.5 * b, -0.5 * c),
        (-0.5 * d, 0.5 * (a + i), -0.5 * f),
        (-0.5 * g, -0.5 * h, 0.5 * (a + e)),
        (-x, -y, -z),
    )


def turn_error(Q: Any) -> tuple[Vec3, Scalar]:
    """Return the turn that undoes most of a rotation, and how far the rotation is from none.

    The turn is vect Q, the Newton step of the linear invariants. It fades towards half a turn,
    where it tells no axis; beyond a quarter turn the Euler parameters 2 e sin(phi/2) take its
    place.

    Args:
        Q: Rows of the rotation matrix.

    Returns:
        The turn, along e [rad for small angles], and |f|^2 = (2 sin(phi/2))^2.
    """
    (x, y, z), q0 = linear_invariants(Q)
    square = x * x + y * y + z * z + (1.0 - q0) * (1.0 - q0)
    _, a, b, c = matrix_to_quaternion(Q)
    far = q0 < 0.0
    turn = (select(far, 2.0 * a, x), select(far, 2.0 * b, y), select(far, 2.0 * c, z))
    return turn, square
