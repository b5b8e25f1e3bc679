"""Hydrodynamics of a single link, independent of trees and joints.

Added mass, drag, buoyancy and damping as forces on a body whose motion is known, and the
coefficients of simple shapes. `algorithms` brings them to all bodies of a robot.
"""
