"""Hydrodynamic forces on one link: added mass, buoyancy and lumped damping.

Symbols (McMillan 1994, secs. 6.2 and 6.4; McMillan, Orin and McGhee 1995, sec. III-A, eqs. 23-27):
    I^A     added mass: any symmetric 6x6 matrix about the body origin
    w       angular velocity of the body
    v^r     velocity of the body origin relative to the fluid
    m^f     mass of the displaced fluid
    b       center of buoyancy
    a_fg    acceleration of the fluid less that of free fall
    a'      classical acceleration of the body less that of free fall

The added-mass force is -I^A a' + beta^A. Its first part belongs to the inertia, where no lag can
make it unstable; the second is computed here. Both sources print the cross products of beta^A once
with the absolute velocity; only the relative one conserves energy in a stream.

Damping has the form of marine vehicle models (Fossen 2011, sec. 6.4): a linear part D x, and a
quadratic part D |x| x in which every velocity component is multiplied by its own magnitude.
"""

from collections.abc import Sequence

import numpy as np

from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Vec3
from tiburon.spatial.vec3 import ZERO3, add_cross, cross, scale

__all__ = ["added_mass_bias", "damping_force", "total_buoyancy"]


def added_mass_bias(I_A: ArticulatedInertia, w: Vec3, v_r: Vec3, a_fg: Vec3) -> Force:
    """Return beta^A: what added mass does beyond -I^A a' (1995, eq. 16; 1994, eqs. 6.21, 7.44).

    Args:
        I_A: Added mass about the body origin, body axes [kg m^2, kg m, kg].
        w: Angular velocity, body axes [rad/s].
        v_r: Velocity of the body origin relative to the fluid, body axes [m/s].
        a_fg: Acceleration of the fluid less that of free fall, body axes [m/s^2].
    """
    carried = I_A.apply(Motion(ZERO3, add_cross(a_fg, w, v_r)))
    h = I_A.apply(Motion(w, v_r))
    turning = Force(add_cross(cross(w, h.moment), v_r, h.force), cross(w, h.force))
    return carried - turning


def total_buoyancy(displaced: Scalar, moment: Vec3, a_fg: Vec3) -> Force:
    """Return m^f a_fg through the center of buoyancy (1995, eqs. 26 and 27).

    Args:
        displaced: m^f [kg].
        moment: m^f b, body axes [kg m]; unlike b itself it adds up over bodies.
        a_fg: Acceleration of the fluid less that of free fall, body axes [m/s^2].
    """
    return Force(cross(moment, a_fg), scale(a_fg, displaced))


Rows = Sequence[Sequence[Scalar]]


def damping_force(relative: Motion, linear: Rows | None, quadratic: Rows | None) -> Force:
    """Return -(D_1 + D_2 |x|) x for the relative velocity x of a body.

    Args:
        relative: Velocity of the body relative to the fluid, at the origin of the frame in which
            the matrices are given, its axes [rad/s, m/s].
        linear: D_1, six rows of six, angular first; None for none.
        quadratic: D_2 likewise.
    """
    x = tuple(relative)
    total: list[Scalar] = [0.0] * 6
    for matrix, felt in ((linear, x), (quadratic, tuple(np.abs(s) * s for s in x))):
        for i, row in enumerate(matrix or ()):
            for entry, s in zip(row, felt, strict=True):
                total[i] = total[i] - entry * s
    return Force.from_array(total)
