"""Collisions of second order: contacts that no force and no impulse can keep from penetrating.

Contacts touch, do not approach, and accelerate into each other because surfaces curve, while the
forces that would separate some press others together (Featherstone 1987, section 9.8.2, Fig. 9-8).
C f + d >= 0 then has no solution. A certificate proves it (Farkas): y >= 0 with C y = 0 and
d y < 0. Forces in proportion y would do work on every motion that the contacts allow, though they
cancel each other. The same holds for bodies that prescribed motion presses together.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import SecondOrderCollisionError
from tiburon.model.contact_kinds import nonnegative_least_squares

Array = NDArray[np.float64]

CERTIFICATE_TOLERANCE = 1e-9
"""Distance from a certificate at which it counts as one, relative to its length."""

RANK_CUT = 1e-11
"""Eigenvalue, relative to the largest of a matrix with unit diagonal, that counts as zero."""


class Certificate(NamedTuple):
    """Proof that contacts have no forces."""

    weights: Array
    """y, one weight per contact, the largest 1; contacts with weights are those that collide."""

    closing: float
    """d y: weighted sum of accelerations that no force can change [m/s^2]; negative."""


def find_certificate(C: Array, d: Array) -> Certificate | None:
    """Return a certificate that a problem has no solution; None if there is none.

    Args:
        C: Inverse inertia at the contacts [1/kg], positive semidefinite, shape (n, n).
        d: Relative normal accelerations without contact forces [m/s^2], shape (n,).
    """
    diagonal = np.diag(C)
    largest = float(diagonal.max(initial=0.0))
    scale = 1.0 / np.sqrt(np.where(diagonal > 1e-14 * largest, diagonal, 1.0))
    size = float(np.abs(scale * d).max(initial=0.0))
    if size == 0.0:
        return None
    values, vectors = np.linalg.eigh(C * np.outer(scale, scale))
    values = np.where(values > RANK_CUT * max(1.0, float(values[-1])), values, 0.0)
    root = np.sqrt(values)[:, None] * vectors.T
    # least distance from (0, 1) to the cone of (root y, -d y): zero if there is a certificate
    E = np.vstack([root, -(scale * d / size)[None, :]])
    target = np.zeros(len(E))
    target[-1] = 1.0
    y = nonnegative_least_squares(E, target)
    if float(np.linalg.norm(E @ y - target)) > CERTIFICATE_TOLERANCE * float(np.linalg.norm(y)):
        return None
    weights = scale * y
    weights = weights / weights.max()
    return Certificate(weights, float(d @ weights))


def refuse(C: Array, d: Array, names: Sequence[str] = ()) -> SecondOrderCollisionError:
    """Return the error of a problem without solution.

    Args:
        C: Inverse inertia at the contacts [1/kg].
        d: Relative normal accelerations without contact forces [m/s^2].
        names: Names of the contacts; numbers by default.
    """
    known = tuple(names) or tuple(f"{k}" for k in range(len(d)))
    return contradiction(C, d, known) or SecondOrderCollisionError({}, 0.0)


def contradiction(
    C: Array,
    d: Array,
    names: Sequence[str],
    joints_of: Callable[[Sequence[str]], Sequence[str]] | None = None,
    *,
    impulses: bool = False,
) -> SecondOrderCollisionError | None:
    """Return the error of normals that contradict each other, friction or not; None if none do.

    Normal forces that cancel each other change no velocity, tangential ones included, so that
    friction cannot help: with C y = 0, y^T (d + C f + G f_t) = y^T d for all f and f_t.

    Args:
        C: Inverse inertia at the contacts [1/kg].
        d: Relative normal accelerations without contact forces [m/s^2], or velocities [m/s].
        names: Names of the contacts.
        joints_of: Returns the joints whose prescribed motion moves given contacts.
        impulses: Whether d are velocities.
    """
    found = find_certificate(C, d)
    if found is None:
        return None
    weights = dict(zip(names, found.weights.tolist(), strict=True))
    pressed = {name: weight for name, weight in weights.items() if weight > 1e-9}
    joints = () if joints_of is None else joints_of(tuple(pressed))
    return SecondOrderCollisionError(pressed, found.closing, joints, impulses=impulses)
