"""Contact: shapes that may touch, their geometry, and the forces and impulses between them.

Arguments that functions of this room share, unless they say otherwise:

    model, plan     the robot, and its layout; world: its surroundings
    setting         the robot and its surroundings in one state
    q, v, vd, tau   configuration [m or rad], nq scalars; joint velocity, acceleration and force
                    [m/s or rad/s, m/s^2 or rad/s^2, N or N m], nv scalars each
    places          poses of all plan bodies
    candidates, p   the shapes that may touch, and their run-time parameters
    h               length of the step [s]
    field, reach    a height field, and the cells of it that are searched
"""
