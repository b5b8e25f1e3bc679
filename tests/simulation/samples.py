"""Motions with known answers, and the fit of an order."""

import mpmath
import numpy as np

import tiburon as tb

GRAVITY = 9.81
WEIGHTLESS = tb.World(gravity=(0.0, 0.0, 0.0))


def pendulum_closed_form(rate, time, length=0.7):
    """Return angle and rate of a pendulum that passes its lowest point at a given rate at t = 0.

    sin(angle / 2) = k sn(w t, k) with w^2 = g / length and k = rate / (2 w) < 1.
    """
    w = mpmath.sqrt(GRAVITY / length)
    k = rate / (2 * w)
    sn, cn = (mpmath.ellipfun(kind, w * time, k=k) for kind in ("sn", "cn"))
    return float(2 * mpmath.asin(k * sn)), float(2 * k * w * cn)


def symmetric_top(transverse=0.03, axial=0.012, mass=1.1):
    """Return a free body with two equal moments of inertia, its center of mass at the origin."""
    moments = (transverse, transverse, axial)
    body = tb.Body("top", joint=tb.Free("float"), inertia=tb.Inertia(mass, (0, 0, 0), moments))
    return tb.Model("symmetric_top", [body])


def quaternion_product(p, q):
    a, b = p[0], np.asarray(p[1:])
    w, x = q[0], np.asarray(q[1:])
    return np.array([a * w - b @ x, *(a * x + w * b + np.cross(b, x))])


def quaternion_of(phi):
    """Return the quaternion of a rotation vector that is not zero."""
    angle = np.linalg.norm(phi)
    return np.array([np.cos(angle / 2), *(np.sin(angle / 2) * np.asarray(phi) / angle)])


def rotate(quaternion, a):
    conjugate = quaternion * [1, -1, -1, -1]
    return quaternion_product(quaternion_product(quaternion, [0.0, *a]), conjugate)[1:]


def symmetric_top_closed_form(q, v, time, transverse=0.03, axial=0.012):
    """Return position and velocity of the weightless symmetric top.

    The body turns about its fixed angular momentum L at the rate |L| / transverse, and about its
    own axis at the rate w3 (1 - axial / transverse); its center moves straight on.
    """
    start, place, omega, speed = q[:4], q[4:], v[:3], v[3:]
    momentum = rotate(start, np.array([transverse, transverse, axial]) * omega)
    spin = omega[2] * (1.0 - axial / transverse) * time
    turned = quaternion_product(quaternion_of(momentum * time / transverse), start)
    turned = quaternion_product(turned, quaternion_of([0.0, 0.0, spin]))
    c, s = np.cos(spin), np.sin(spin)
    # seen from the body, angular velocity turns the other way about its axis
    omega_now = [c * omega[0] + s * omega[1], c * omega[1] - s * omega[0], omega[2]]
    speed_world = rotate(start, speed)
    speed_now = rotate(turned * [1, -1, -1, -1], speed_world)
    return np.array([*turned, *(place + time * speed_world)]), np.array([*omega_now, *speed_now])


def world_momentum(model, q, v):
    """Return momentum about the world origin, [n; f] in world axes; the first joint is the base."""
    in_base = (tb.mass_matrix(model, q) @ v[..., None])[..., :6, 0]
    found = []
    for quaternion, place, h in zip(q[:, :4], q[:, 4:7], in_base, strict=True):
        moment, linear = rotate(quaternion, h[:3]), rotate(quaternion, h[3:])
        found.append([*(moment + np.cross(place, linear)), *linear])
    return np.array(found)


def fitted_order(steps, errors):
    """Return the slope of log(error) over log(dt), by least squares."""
    return -np.polyfit(np.log(steps), np.log(errors), 1)[0]
