"""Algorithms of rigid-body dynamics, one file each, written over the drivers of `traversal`.

Public functions are in `tiburon.functions`; each loads its algorithm on first use.

Arguments that functions of this room share, unless they say otherwise:

    model, plan     the robot, and its layout
    q, v, vd, tau   configuration [m or rad], nq scalars; joint velocity, acceleration and force
                    [m/s or rad/s, m/s^2 or rad/s^2, N or N m], nv scalars each
    gravity         gravitational acceleration, world axes [m/s^2]
    external        external wrench on each body, in its plan frame [N m, N]; none by default
    around          surroundings in this state
    lanes           whether like branches are visited side by side
"""
