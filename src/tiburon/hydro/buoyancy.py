"""Force of the pressure of undisturbed water: buoyancy, and what accelerating water adds.

Symbols (McMillan, Orin and McGhee 1995, eqs. 23-27; McMillan 1994, sec. 6.4):
    m^f     mass of the displaced fluid
    b       center of buoyancy
    a_fg    acceleration of the fluid less that of free fall
"""

from tiburon.spatial import Force, Scalar, Vec3
from tiburon.spatial.vec3 import cross, scale

__all__ = ["total_buoyancy"]


def total_buoyancy(displaced: Scalar, moment: Vec3, a_fg: Vec3) -> Force:
    """Return m^f a_fg through the center of buoyancy (1995, eqs. 26 and 27).

    Args:
        displaced: m^f [kg].
        moment: m^f b, body axes [kg m]; unlike b itself it adds up over bodies.
        a_fg: Acceleration of the fluid less that of free fall, body axes [m/s^2].
    """
    return Force(cross(moment, a_fg), scale(a_fg, displaced))
