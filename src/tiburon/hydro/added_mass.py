"""Force of the water that a body carries along, in moving and accelerating fluid.

Symbols (McMillan 1994, sec. 6.2; McMillan, Orin and McGhee 1995, sec. III-A):
    I^A     added mass: any symmetric 6x6 matrix about the body origin
    w       angular velocity of the body
    v^r     velocity of the body origin relative to the fluid
    a_fg    acceleration of the fluid less that of free fall
    a'      classical acceleration of the body less that of free fall

The force is -I^A a' + beta^A. Its first part belongs to the inertia, where no lag can make it
unstable; the second is computed here. Both sources print the cross products of beta^A once with the
absolute velocity; only the relative one conserves energy in a stream.
"""

from tiburon.spatial import ArticulatedInertia, Force, Motion, Vec3
from tiburon.spatial.vec3 import ZERO3, add_cross, cross

__all__ = ["added_mass_bias"]


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
