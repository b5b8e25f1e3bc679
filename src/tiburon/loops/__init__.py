"""Closed loops: their constraints, and the dynamics of robots with them.

Arguments that functions of this room share, unless they say otherwise:

    model, plan     the robot, and its layout
    around          the robot and its surroundings in one state
    q, v, vd, tau   configuration [m or rad], nq scalars; joint velocity, acceleration and force
                    [m/s or rad/s, m/s^2 or rad/s^2, N or N m], nv scalars each
    terms           constraints of all loops in this state
    jacobian, rhs   J, one row per constraint, and the right-hand side of J vd = rhs
    free            tau - C, joint forces without constraints [N or N m], nv scalars
    cut, min_cut    relative singular value below which a constraint is redundant, and its least
                    value, see `metric.rank_cut`
    switches        which loops are closed; all by default
    structure       a platform on legs; parts: its legs in given surroundings
    arm, shape      an arm of a star, and the layout of the star
"""
