"""What water does to bodies, dense and in world axes, sharing nothing with the library.

Added mass by Kirchhoff's equations for the momentum of the water that a body moves (Lamb 1932,
art. 124), with velocities relative to the water; buoyancy and the push of accelerating water at
the center of buoyancy; drag point by point. The acceleration of the water is a complex step along
the path of a particle.
"""

from functools import cache
from itertools import pairwise

import numpy as np

import tiburon as tb
from tests.oracles import absolute
from tests.oracles.absolute import cross

leggauss = cache(np.polynomial.legendre.leggauss)

STEP = 1e-40
"""An imaginary step: exact once its square is below rounding."""


def acceleration_of(flow, time, place):
    """Return the acceleration of the water particle at a place [m/s^2]."""
    along = np.asarray(flow(time, place), dtype=float)
    ahead = flow(time + 1j * STEP, np.asarray(place) + 1j * STEP * along)
    return np.imag(ahead) / STEP


def water_forces(model, q, v, vd, gravity, density, flow, *, time=0.0, strips=4):
    """Return the force of the water on each body, about the world origin in world axes.

    Args:
        model: The robot; all of its bodies have water numbers.
        q: Position, shape (nq,).
        v: Velocity, shape (nv,).
        vd: Acceleration, shape (nv,).
        gravity: World axes [m/s^2].
        density: Of the water [kg/m^3].
        flow: Velocity of the water from time and place, also for complex ones.
        time: When [s].
        strips: Points along a cylinder.
    """
    links = absolute.links_of(model, q)
    speeds = absolute.velocities(links, v)
    products = absolute.velocity_products(links, v)
    rates = []
    for link, product in zip(links, products, strict=True):
        carrier = np.zeros(6) if link.parent < 0 else rates[link.parent]
        rates.append(carrier + product + link.S @ vd[link.v])
    found = []
    for body, link, speed, rate in zip(model.bodies, links, speeds, rates, strict=True):
        c = link.pose[:3, :3] @ body.fluid.center_of_buoyancy + link.pose[:3, 3]
        u = np.asarray(flow(time, c))
        a = acceleration_of(flow, time, c)
        push = _kirchhoff(body.fluid, link.pose, speed, rate, u, a)
        push = push + _damping(body.fluid, link.pose, speed, u)
        lift = density * body.fluid.volume * (a - gravity)
        push = push + np.concatenate([cross(c, lift), lift])
        for drag in body.fluid.drag:
            for point, f in _drag(drag, link.pose, speed, density, flow, time, strips):
                push = push + np.concatenate([cross(point, f), f])
        for fin in body.fluid.fins:
            point = link.pose[:3, :3] @ fin.position + link.pose[:3, 3]
            moving = speed[3:] + cross(speed[:3], point) - np.asarray(flow(time, point))
            f = link.pose[:3, :3] @ fin_force(fin, link.pose[:3, :3].T @ moving, density)
            push = push + np.concatenate([cross(point, f), f])
        found.append(push)
    return found


def inverse_dynamics(model, q, v, vd, gravity, *water, **options):
    """Return the joint forces on land less what water does to the joints."""
    links = absolute.links_of(model, q)
    tau = absolute.rnea(model, q, v, vd, gravity)
    forces = water_forces(model, q, v, vd, np.asarray(gravity), *water, **options)
    for number, force in enumerate(forces):
        at = number
        while at >= 0:
            tau[links[at].v] -= links[at].S.T @ force
            at = links[at].parent
    return tau


def _at_origin(pose, speed):
    """Return angular velocity, and velocity of the body's origin, world axes."""
    return speed[:3], speed[3:] + cross(speed[:3], pose[:3, 3])


def _to_world(pose, wrench):
    """Return a wrench at the body's origin, in its axes, about the world origin."""
    R, p = pose[:3, :3], pose[:3, 3]
    n, f = R @ wrench[:3], R @ wrench[3:]
    return np.concatenate([n + cross(p, f), f])


def _kirchhoff(fluid, pose, speed, rate, u, a):
    """Return minus the rate of the momentum of the water that a body moves."""
    R = pose[:3, :3]
    w, v = _at_origin(pose, speed)
    # a point of the body moves on: its acceleration is classical
    wd, vd = rate[:3], rate[3:] + cross(rate[:3], pose[:3, 3]) + cross(w, v)
    A = np.array(fluid.added_mass)
    spin, relative = R.T @ w, R.T @ (v - u)
    change = R.T @ (vd - a) - cross(spin, relative)
    momentum = A @ np.concatenate([spin, relative])
    rates = A @ np.concatenate([R.T @ wd, change])
    L, P = momentum[:3], momentum[3:]
    n = rates[:3] + cross(spin, L) + cross(relative, P)
    f = rates[3:] + cross(spin, P)
    return _to_world(pose, -np.concatenate([n, f]))


def _damping(fluid, pose, speed, u):
    w, v = _at_origin(pose, speed)
    x = np.concatenate([pose[:3, :3].T @ w, pose[:3, :3].T @ (v - u)])
    total = np.zeros(6)
    if fluid.linear_damping is not None:
        total -= np.array(fluid.linear_damping) @ x
    if fluid.quadratic_damping is not None:
        total -= np.array(fluid.quadratic_damping) @ (np.abs(x) * x)
    return _to_world(pose, total)


def _drag(drag, pose, speed, density, flow, time, strips):
    """List points and forces of one shape, world axes."""
    R, p = pose[:3, :3], pose[:3, 3]

    def relative(point):
        return speed[3:] + cross(speed[:3], point) - np.asarray(flow(time, point))

    if isinstance(drag, tb.CylinderDrag):
        start, axis = R @ drag.start + p, R @ drag.axis
        places, weights = leggauss(strips)
        for s, weight in zip(places, weights, strict=True):
            point = start + 0.5 * (1.0 + s) * drag.length * axis
            u = relative(point)
            across = u - axis * (axis @ u)
            area = 2.0 * drag.radius * drag.length * 0.5 * weight
            yield point, -0.5 * density * drag.side_coefficient * area * _squared(across)
        faces = ((start, -axis), (start + drag.length * axis, axis))
        for (point, outward), end in zip(faces, drag.end_coefficients, strict=True):
            ahead = max(outward @ relative(point), 0.0) * outward
            yield point, -0.5 * density * end * np.pi * drag.radius**2 * _squared(ahead)
    elif isinstance(drag, tb.SphereDrag):
        point = R @ drag.center + p
        area = np.pi * drag.radius**2
        yield point, -0.5 * density * drag.coefficient * area * _squared(relative(point))
    else:
        yield from _sections(drag, R, p, density, relative, (strips + 1) // 2)


def _sections(drag, R, p, density, relative, count):
    """The three middle sections: the linear fit to the flow, and what it leaves at few points."""
    axes = R @ np.array(drag.pose.rotation)
    middle = R @ drag.pose.translation + p
    box = isinstance(drag, tb.BoxDrag)
    half = np.array(drag.size) / 2.0 if box else np.array(drag.radii)
    for k in range(3):
        i, j = [n for n in range(3) if n != k]
        factor = -0.5 * density * drag.coefficients[k] * (4.0 if box else np.pi)
        factor *= half[i] * half[j]

        def place(a, b, i=i, j=j):
            return middle + a * half[i] * axes[:, i] + b * half[j] * axes[:, j]

        few = np.array(list(_square_points(count) if box else _disk_points(count)))
        basis = np.column_stack([np.ones(len(few)), few[:, :2]])
        u = np.array([axes[:, k] @ relative(place(a, b)) for a, b, _ in few])
        fit = np.linalg.lstsq(basis * np.sqrt(few[:, 2:]), u * np.sqrt(few[:, 2]), rcond=None)[0]
        for (a, b, weight), exact, line in zip(few, u, basis @ fit, strict=True):
            rest = abs(exact) * exact - abs(line) * line
            yield place(a, b), factor * weight * rest * axes[:, k]
        for a, b, weight in _cut_square(fit) if box else _cut_disk(fit):
            line = fit @ (1.0, a, b)
            yield place(a, b), factor * weight * abs(line) * line * axes[:, k]


def _square_points(count):
    places, weights = leggauss(count)
    for a, g in zip(places, weights, strict=True):
        for b, h in zip(places, weights, strict=True):
            yield a, b, 0.25 * g * h


def _disk_points(count):
    """Chebyshev points along a, Legendre points on the chords there."""
    places, weights = leggauss(count)
    for turn in np.arange(1, count + 1) * np.pi / (count + 1):
        for b, h in zip(places, weights, strict=True):
            weight = np.sin(turn) ** 2 / (count + 1) * h
            yield np.cos(turn), b * np.sin(turn), weight


def _pieces(low, high, cuts):
    """Gauss points of the pieces of an interval between cuts."""
    places, weights = leggauss(24)
    ends = np.array([low, *sorted(x for x in cuts if low < x < high), high])
    for x, y in pairwise(ends):
        yield from zip(0.5 * (x + y) + 0.5 * (y - x) * places, 0.5 * (y - x) * weights, strict=True)


def _cut_square(fit):
    """Points on the square, cut where c + p a + q b changes sign."""
    c, p, q = fit
    for a, g in _pieces(-1.0, 1.0, [-(c + q) / p, -(c - q) / p] if p else []):
        for b, h in _pieces(-1.0, 1.0, [-(c + p * a) / q] if q else []):
            yield a, b, 0.25 * g * h


def _cut_disk(fit):
    """Points on the line along the gradient, which stand for chords across it."""
    c, p, q = fit
    g = np.hypot(p, q)
    along = np.array([p, q]) / g if g else np.array([1.0, 0.0])
    cut = [np.arcsin(-c / g)] if abs(c) < g else []
    for turn, weight in _pieces(-0.5 * np.pi, 0.5 * np.pi, cut):
        yield *(np.sin(turn) * along), 2.0 / np.pi * weight * np.cos(turn) ** 2


def _squared(u):
    return np.linalg.norm(u) * u


def fin_force(fin, u, density):
    """Return lift and drag of a fin that moves through the water at u, body axes [N].

    By angles: the chord is turned about the span, the angle of attack is that from the chord to
    the motion, drag is against the motion and lift a quarter turn from it.
    """
    span, chord = np.array(fin.span), np.array(fin.chord)
    turn = fin.deflection or 0.0
    # Rodrigues: the chord is square to the span
    chord = np.cos(turn) * chord + np.sin(turn) * cross(span, chord)
    across = u - span * (span @ u)
    fast = np.linalg.norm(across)
    if fast == 0.0:
        return np.zeros(3)
    ahead = across / fast
    alpha = np.arctan2(span @ cross(chord, ahead), chord @ ahead)
    lift, drag = fin_coefficients(fin, alpha)
    return 0.5 * density * fin.area * fast**2 * (lift * cross(ahead, span) - drag * ahead)


def fin_coefficients(fin, alpha):
    """Return the lift and drag coefficient of a fin at an angle of attack [rad]."""
    foil, ratio = fin.foil, fin.aspect_ratio
    if isinstance(foil, tb.TableFoil):
        side = 1.0 if foil.angles[0] < 0.0 else np.sign(alpha)
        at = alpha * side if side else 0.0
        return (side or 1.0) * np.interp(at, foil.angles, foil.lift), np.interp(
            at, foil.angles, foil.drag
        )
    slope = foil.lift_slope
    if slope is None:
        slope = 2.0 * np.pi * ratio / (2.0 + np.hypot(2.0, ratio))
    plate = foil.plate_coefficient
    if plate is None:
        plate = min(1.11 + 0.018 * ratio, 2.01)
    low, high = np.sin(foil.stall) ** 2
    t = np.clip((np.sin(alpha) ** 2 - low) / (high - low), 0.0, 1.0)
    parted = t**2 * (3.0 - 2.0 * t)
    attached = 0.5 * slope * np.sin(2.0 * alpha)
    induced = attached**2 / (np.pi * foil.efficiency * ratio)
    lift = (1.0 - parted) * attached + parted * 0.5 * plate * np.sin(2.0 * alpha)
    drag = (1.0 - parted) * induced + parted * plate * np.sin(alpha) ** 2
    return lift, foil.drag_coefficient + drag
