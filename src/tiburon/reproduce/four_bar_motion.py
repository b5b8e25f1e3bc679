"""The four-bar linkage of Nahon 1991, section 7.1: its motion, and its balanced form.

Cycloidal input over a quarter turn: theta1 = 5 pi t - sin(20 pi t) / 4 for t from 0 to 0.1 s; the
branch with joint 3 above the frame.
"""

import numpy as np

from tiburon.arrays import Array
from tiburon.functions.loop_motion import loop_motion
from tiburon.model import Inertia, Model
from tiburon.reproduce.load_motion import cycloid
from tiburon.reproduce.nahon_problems import with_inertias

DURATION = 0.1
"""Time of the quarter turn [s]."""

LENGTHS = (1.0, 2.0 * float(np.sqrt(2.0)), 2.0)
"""Lengths of crank, coupler and rocker [m]."""

PIVOTS = 3.0
"""Distance of the pivots on the frame [m]."""


def four_bar_motion(model: Model, time: float) -> tuple[Array, Array, Array]:
    """Return configuration, velocity and acceleration of the linkage at a time.

    Args:
        model: The zoo's `balanced_four_bar`, with any inertias.
        time: Time [s], 0 to 0.1.
    """
    share = cycloid(time / DURATION)
    angle, rate, acceleration = (
        0.5 * np.pi * float(x) / DURATION**order for order, x in enumerate(share)
    )
    crank, coupler, rocker = LENGTHS
    first = crank * np.array([np.cos(angle), np.sin(angle)])
    across = np.array([PIVOTS, 0.0]) - first
    reach = float(np.hypot(*across))
    inner = (coupler**2 + reach**2 - rocker**2) / (2.0 * coupler * reach)
    turn = float(np.arctan2(across[1], across[0]) + np.arccos(inner))
    joint = first + coupler * np.array([np.cos(turn), np.sin(turn)])
    last = float(np.arctan2(-joint[1], PIVOTS - joint[0]))
    q = np.array([angle, turn - angle, last - turn])
    at = loop_motion(model, q, None, [rate], [acceleration], joints="joint_1")
    return q, at.v, at.vd


def exactly_balanced(model: Model) -> Model:
    """Return the linkage with centers of mass that satisfy (7.1) exactly.

    Table 7.1 is rounded: with its digits the center of mass moves by 4e-5 m. The coupler stays; the
    other two centers follow from it:

        m1 |c11| = m2 |c22| l1 / l2,   m3 |c32| = m2 |c21| l3 / l2
        psi11 = psi22,                 psi32 = psi21 + pi
    """
    crank, coupler, rocker = LENGTHS
    masses = [body.inertia.mass for body in model.bodies]
    x, y, _ = model.body("link_2").inertia.com
    # from joint 3, and from joint 2, to the center of the coupler
    far, near = complex(x - coupler, y), complex(x, y)
    one = masses[1] / masses[0] * crank / coupler * far
    # at joint 4, seen along the line to joint 3: turned by pi against the coupler's
    three = rocker + masses[1] / masses[2] * rocker / coupler * near
    inertias = {}
    for name, center in (("link_1", one), ("link_3", three)):
        own = model.body(name).inertia
        inertias[name] = Inertia(own.mass, (center.real, center.imag, 0.0), own.tensor)
    return with_inertias(model, inertias)
