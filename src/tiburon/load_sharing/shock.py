"""Shocks: a force that strikes a held load, and what joint torques make of it.

A shock is a finite force f_0 on the moving pole at c_0 from its mass center, from one time on
(Nahon 1991, section 7.2). It changes the right sides of the equations alone (7.14):

    b1 - [f_0; c_0 x f_0]

The optimum jumps with them; smoothing by step limits or by the penalty acts on torques. The penalty
always has a solution and spreads the jump over all actuators.
"""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ShapeError
from tiburon.load_sharing.limit_matrix import cones_of
from tiburon.load_sharing.smoothing import ForcePrograms


class Shock(NamedTuple):
    """A force on a floating body from one time on."""

    place: int
    """First velocity variable of the body's free joint among the rows of the equations."""

    force: Array
    """f_0 in body axes at each time [N], shape (times, 3)."""

    lever: Array
    """c_0, body axes, from the origin of the body [m], shape (3,) or (times, 3)."""

    start: int
    """Time at which it strikes, as an index."""


def struck(b1: ArrayLike, shock: Shock) -> Array:
    """Return the right sides of the equations with a shock (7.14).

    Args:
        b1: Generalized forces that the motion needs, with the variables of free joints as
            [moment, force] in body axes, shape (times, equations).
        shock: The shock.

    Raises:
        ShapeError: If the shapes do not fit.
    """
    found = np.array(b1, dtype=np.float64)
    force = np.asarray(shock.force, dtype=np.float64)
    if found.ndim != 2 or force.shape != (len(found), 3):
        raise ShapeError("shock", f"forces of shape ({len(found)}, 3)", force.shape)
    after = slice(shock.start, None)
    moment = np.cross(np.broadcast_to(shock.lever, force.shape), force)
    first = shock.place
    found[after, first : first + 3] -= moment[after]
    found[after, first + 3 : first + 6] -= force[after]
    return found


def torque_programs(
    A1: Array, b1: Array, A2: Array, b2: Array, forces: int, driven: ArrayLike, undriven: ArrayLike
) -> ForcePrograms:
    """Return problems over contact forces whose torques are kept continuous, with W = 1.

    Args:
        A1: Equations of the superposition formulation (4.24): one row per velocity variable,
            columns of contact forces, then of driven joint forces; shape (times, nv, n).
        b1: Their right-hand sides, with or without a shock, shape (times, nv).
        A2: Limits over the same columns; exact friction cones that they carry are kept.
        b2: Their right-hand sides.
        forces: Number of contact forces.
        driven: Rows of driven variables.
        undriven: Rows of the others.
    """
    own, rest = np.asarray(driven, dtype=np.intp), np.asarray(undriven, dtype=np.intp)
    cones, mu = cones_of(A2)
    A2 = np.asarray(A2)
    # tau = tau' - J^T x
    T, t0 = -A1[:, own, :forces], b1[:, own]
    limits = A2[:, :, :forces] + np.einsum("kij,kjl->kil", A2[:, :, forces:], T)
    right = b2 - np.einsum("kij,kj->ki", A2[:, :, forces:], t0)
    times = len(b1)
    W = np.tile(np.eye(forces), (times, 1, 1))
    c = np.zeros((times, forces))
    parts = W, c, A1[:, rest, :forces], b1[:, rest], limits, right, T, t0
    return ForcePrograms(*parts, cones=cones, mu=mu)
