"""Public functions of robots, and the one way from a call to its kernel.

Arguments that internal functions share, unless they say otherwise: `model` is the robot,
`candidates` the shapes that may touch, `time` in s, and `rows` tables of run-time parameters, of
which those of the geometry count. Those of public functions are in `keywords`.
"""
