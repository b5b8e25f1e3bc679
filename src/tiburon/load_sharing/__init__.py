"""Force distribution: unknowns and equations, limits, objectives, programs and their solution.

Arguments that functions of this room share, unless they say otherwise:

    model, plan     the robot, and its layout; setting: with its surroundings in one state
    q, v, vd        configuration [m or rad], nq scalars; joint velocity and acceleration
                    [m/s or rad/s, m/s^2 or rad/s^2], nv scalars each
    places          poses of all plan bodies
    candidates, p   shapes that may touch, and run-time parameters as `parameters` lists them
    sites, drives   contacts given by a point and a normal; thrusters and cables
    problem         unknowns and equations in one state; program: with limits and objective,
                    c^T x + x^T W x / 2 with A1 x = b1 and A2 x >= b2
"""
