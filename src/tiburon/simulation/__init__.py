"""Motion over time: systems, integrators, and the native loops that run them.

Arguments that functions of this room share, unless they say otherwise: `model` is the robot,
`system` the robot in its surroundings with its elements, `method` the name of the integrator, `h`
the length of a step [s], `time` in s, `q` the configuration [m or rad], nq scalars, `manifold` the
configurations of the robot, `cases` numbers of cases.
"""
