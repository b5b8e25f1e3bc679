"""Lagrange's equations of a tree of hinges, slides and screws in water that moves alike everywhere.

The kinetic energy of a textbook gains that of the water, 1/2 x^T A x for each body, with x its
angular velocity and its velocity relative to the water in body axes; the potential gains what
buoyancy does, in gravity less the acceleration of the water. Kirchhoff's equations are nowhere
written down: they follow from

    tau = d/dt dT/dv - dT/dq + dV/dq,

all derivatives of which are complex steps, exact to rounding, the second ones by central
differences of those.
"""

import numpy as np

from tests.oracles.lagrange import STEP, _rodrigues, _turn_and_slide

SECOND = 1e-5
"""Step of the central differences that second derivatives take."""


def energies(model, q, v, gravity, density, flow, time):
    """Return kinetic and potential energy for real or complex arguments [J].

    Args:
        model: Bodies with water numbers on revolute, prismatic and screw joints.
        q: Position [rad or m], shape (nq,).
        v: Velocity, shape (nv,).
        gravity: World axes [m/s^2], shape (3,).
        density: Of the water [kg/m^3].
        flow: Velocity and acceleration of the water from time.
        time: When [s].
    """
    u, a = flow(time)
    places = {"world": (np.eye(3), np.zeros(3), np.zeros(3), np.zeros(3))}
    T = V = 0.0
    for body in model.bodies:
        R, p, w, s = places[body.parent]
        joint = body.joint
        arm = R @ np.array(joint.pose.translation)
        p, s = p + arm, s + np.cross(w, arm)
        R = R @ np.array(joint.pose.rotation)
        index = model.slice(joint.name, of="v").start
        x, rate = q[index] + joint.offset, v[index]
        turn, slide = _turn_and_slide(joint)
        axis = R @ np.array(joint.axis)
        step = axis * (slide * x + getattr(joint, "lead", 0.0))
        # the slide is carried by the turn before it, about the same axis
        p, s = p + step, s + np.cross(w, step) + axis * slide * rate
        w = w + turn * axis * rate
        R = R @ _rodrigues(np.array(joint.axis), turn * x)
        places[body.name] = (R, p, w, s)
        arm = R @ np.array(body.inertia.com)
        c, moving = p + arm, s + np.cross(w, arm)
        spin = R.T @ w
        T = T + 0.5 * body.inertia.mass * moving @ moving + 0.5 * spin @ body.inertia.matrix @ spin
        V = V - body.inertia.mass * c @ np.asarray(gravity)
        relative = np.concatenate([spin, R.T @ (s - u)])
        T = T + 0.5 * relative @ np.array(body.fluid.added_mass) @ relative
        b = p + R @ np.array(body.fluid.center_of_buoyancy)
        V = V - density * body.fluid.volume * b @ (a - np.asarray(gravity))
    return T, V


def joint_forces(model, q, v, vd, *around, time):
    """Return the joint forces of Lagrange's equations [N or N m], shape (nv,)."""
    n = model.nv

    def slope(which, q, v, t):
        """Return dT/dv or d(T - V)/dq."""
        found = []
        for k in range(n):
            position, speed = np.array(q, dtype=complex), np.array(v, dtype=complex)
            (speed if which == "v" else position)[k] += 1j * STEP
            T, V = energies(model, position, speed, *around, t)
            found.append(np.imag(T if which == "v" else T - V) / STEP)
        return np.array(found)

    h = SECOND
    ahead = slope("v", q + h * v, v + h * vd, time + h)
    behind = slope("v", q - h * v, v - h * vd, time - h)
    return (ahead - behind) / (2.0 * h) - slope("q", q, v, time)
