"""Lagrange's equations of a tree of hinges, slides and screws, by complex steps.

Nothing here knows spatial vectors, body coordinates or recursions: positions of centers of mass and
rotation matrices in world axes, the kinetic and potential energy of a textbook, and

    tau = M vd + Mdot v - d(v^T M v / 2)/dq + dV/dq,

whose derivatives are taken by complex steps and therefore exact to rounding.
"""

import numpy as np

import tiburon as tb

STEP = 1e-40
"""An imaginary step: f(x + i h) = f(x) + i h f'(x) exactly, once h^2 is below rounding."""


def mass_and_potential(model, q, gravity):
    """Return the mass matrix and the potential energy for real or complex positions.

    Args:
        model: Bodies on revolute, prismatic and screw joints.
        q: Position [rad or m], shape (nq,).
        gravity: World axes [m/s^2], shape (3,).
    """
    q = np.asarray(q)
    places, bodies = {"world": (np.eye(3), np.zeros(3), [])}, {b.name: b for b in model.bodies}
    M, V = np.zeros((model.nv, model.nv), dtype=q.dtype), 0.0

    def place(name):
        """Return axes, origin and the joints on the way (index, axis, point, turn, slide)."""
        if name not in places:
            body = bodies[name]
            R, p, path = place(body.parent)
            joint = body.joint
            p = p + R @ np.array(joint.pose.translation)
            R = R @ np.array(joint.pose.rotation)
            index = model.slice(joint.name, of="v").start
            x = q[index] + joint.offset
            n = np.array(joint.axis)
            turn, slide = _turn_and_slide(joint)
            axis = R @ n
            path = [*path, (index, axis, p, turn, slide)]
            lead = getattr(joint, "lead", 0.0)
            places[name] = (R @ _rodrigues(n, turn * x), p + axis * (slide * x + lead), path)
        return places[name]

    for body in model.bodies:
        R, p, path = place(body.name)
        c = p + R @ np.array(body.inertia.com)
        tensor = R @ body.inertia.matrix @ R.T
        turning, moving = (np.zeros((3, model.nv), dtype=q.dtype) for _ in range(2))
        for index, axis, point, turn, slide in path:
            turning[:, index] = turn * axis
            moving[:, index] = turn * np.cross(axis, c - point) + slide * axis
        M = M + body.inertia.mass * moving.T @ moving + turning.T @ tensor @ turning
        V = V - body.inertia.mass * c @ np.asarray(gravity)
    return M, V


def lagrange(model, q, v, vd, gravity):
    """Return the joint forces of Lagrange's equations [N or N m], shape (nv,)."""
    M, _ = mass_and_potential(model, q, gravity)
    rates, slopes = [], []
    for k in range(model.nv):
        stepped = np.asarray(q, dtype=complex)
        stepped[k] += 1j * STEP
        dM, dV = mass_and_potential(model, stepped, gravity)
        rates.append(dM.imag / STEP)
        slopes.append(dV.imag / STEP)
    Mdot = sum(rate * speed for rate, speed in zip(rates, v, strict=True))
    kinetic = np.array([0.5 * v @ rate @ v for rate in rates])
    return M @ vd + Mdot @ v - kinetic + np.array(slopes)


def _turn_and_slide(joint):
    """Return turn and slide per unit of the joint variable."""
    if isinstance(joint, tb.Screw):
        return 1.0, joint.pitch
    return (1.0, 0.0) if isinstance(joint, tb.Revolute) else (0.0, 1.0)


def _rodrigues(n, angle):
    """Return the rotation by an angle, real or complex, about a real unit axis."""
    N = np.array([[0.0, -n[2], n[1]], [n[2], 0.0, -n[0]], [-n[1], n[0], 0.0]])
    return np.eye(3) + np.sin(angle) * N + (1.0 - np.cos(angle)) * N @ N
