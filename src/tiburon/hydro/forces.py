"""Hydrodynamic forces on one link: added mass, buoyancy, damping, pressure drag, fins.

Symbols (McMillan 1994, secs. 6.2 and 6.4; McMillan, Orin and McGhee 1995, sec. III-A, eqs. 17-27):
    I^A     added mass: any symmetric 6x6 matrix about the body origin
    w       angular velocity of the body
    v^r     velocity of the body origin relative to the fluid
    m^f     mass of the displaced fluid
    b       center of buoyancy
    a_fg    acceleration of the fluid less that of free fall
    a'      classical acceleration of the body less that of free fall
    u       velocity of a point relative to the fluid; u_n its component normal to the surface
    g, x    weights and nodes of Gauss quadrature on [0, 1]

The added-mass force is -I^A a' + beta^A. Its first part belongs to the inertia, where no lag can
make it unstable; the second is computed here. Both sources print the cross products of beta^A once
with the absolute velocity; only the relative one conserves energy in a stream.

Damping has the form of marine vehicle models (Fossen 2011, sec. 6.4): a linear part D x, and a
quadratic part D |x| x in which every velocity component is multiplied by its own magnitude.

Pressure drag of cylinders (by strips), spheres, flat sections, boxes and ellipsoids: every element
of area is subject to -1/2 rho C |u_n| u_n dA. Skin friction, lift and vortex shedding are
neglected.

Flat sections:
    u       velocity along the normal of a section, relative to the fluid
    a, b    coordinates in the section divided by its half sizes; the section is the square |a|,
            |b| <= 1 or the disk a^2 + b^2 <= 1
    c, p, q  u = c + p a + q b: in a uniform flow u is linear over the section
    mean    over the area of the section

In a uniform flow the mean and first moments of |u| u have closed forms, also where u changes sign.
In other flows the closed form of the linear fit to u is corrected by Gauss quadrature of the
remainder, so that the result converges with the number of points and is exact for linear flow.

Fins:
    u       velocity of the fin's reference point relative to the water; u_c, u_n its components
            along the chord, toward the leading edge, and along the normal, chord x span
    s, c    sine and cosine of the angle of attack: positive where water comes from below the normal
    CL, CD  coefficients of lift and drag, by the area A

The force is 1/2 rho A |u| (CL u x span - CD u), with u in the plane across the span: lift is
perpendicular to the flow and does no work, and drag dissipates power at any angle. It is of second
order in the velocity, so that its derivative at rest is zero.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from tiburon.model.body_fluid import Fin, TableFoil, ThinFoil
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3, add, add_cross, cross, dot, scale

MIN_SPEED_SQUARE = 1e-200
"""Negligible square of a speed; keeps the derivative of a norm finite at rest."""


def speed(*components: Scalar) -> Scalar:
    """Return the norm of a velocity; its derivative at rest is zero.

    Squares of speeds neither overflow nor underflow, so the sum needs no scaling; the added
    constant is rounded away for speeds above 1e-92 m/s.
    """
    total: Scalar = MIN_SPEED_SQUARE
    for component in components:
        total = total + component * component
    return np.sqrt(total)


@cache
def gauss_points(count: int) -> tuple[tuple[float, float], ...]:
    """Return nodes on [0, 1] and weights of Gauss-Legendre quadrature, exact to degree 2n - 1."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return tuple(
        (0.5 + 0.5 * float(x), 0.5 * float(g)) for x, g in zip(places, weights, strict=True)
    )


def cylinder_drag(
    w: Vec3,
    u: Callable[[Vec3], Vec3],
    *,
    axis: Vec3,
    sides: tuple[Vec3, Vec3],
    start: Vec3,
    length: Scalar,
    side_factor: Scalar,
    end_factors: tuple[Scalar, Scalar],
    points: int,
    uniform: bool,
    split: bool,
    wet: Callable[[Scalar], Scalar] | None = None,
) -> Force:
    """Return the drag of a cylinder, about the body origin in body axes.

    Drag of strips depends on the flow normal to the axis, that of the upstream face on the flow
    along the axis at its center (1995, eqs. 20-22, for an axis anywhere in the body).

    Args:
        w: Angular velocity, body axes [rad/s].
        u: Velocity relative to the fluid of a point of the body, body axes [m/s].
        axis: Unit vector along the cylinder.
        sides: Two unit vectors that form a right-handed set with the axis as the first.
        start: Center of the first face [m].
        length: Distance to the other face [m].
        side_factor: rho C r of the side [kg/m^2].
        end_factors: 1/2 rho C pi r^2 of the first and of the other face [kg/m].
        points: Number of strips.
        uniform: Whether the flow is uniform along the cylinder.
        split: Whether to split the cylinder where the cross flow is slowest, with twice the strips:
            then exact where the flow changes sign. In non-uniform flow, the point of division
            follows from the flow at the two ends.
        wet: Submerged fraction of a strip by its distance from the first face [m]; None if fully
            submerged.
    """
    b, c = sides
    u_0 = u(start)
    # in uniform flow the cross flow is linear along the axis
    u_b, u_c, w_b, w_c = dot(b, u_0), dot(c, u_0), dot(b, w), dot(c, w)
    u_1 = u_0 if uniform else u(add(start, scale(axis, length)))
    spans: Sequence[tuple[Scalar, Scalar]] = ((0.0, length),)
    # in visits shared by bodies of a large model, the length is a traced value
    if split and not (isinstance(length, float) and length <= 0.0):
        # split at s = -(u . u') / |u'|^2; without a slope at any point
        rate_b, rate_c = w_c, -w_b
        if not uniform:
            rate_b = (dot(b, u_1) - u_b) * (1.0 / length)
            rate_c = (dot(c, u_1) - u_c) * (1.0 / length)
        slope = rate_b * rate_b + rate_c * rate_c
        cut = -(u_b * rate_b + u_c * rate_c) / np.where(slope > 0.0, slope, 1.0)
        cut = np.minimum(np.maximum(cut, 0.0), length)
        spans = ((0.0, cut), (cut, length - cut))
    total: list[Scalar] = [0.0, 0.0, 0.0, 0.0]
    for begin, span in spans:
        for place, weight in gauss_points(points):
            s = begin + place * span
            if uniform:
                n_b, n_c = u_b + s * w_c, u_c - s * w_b
            else:
                here = u(add(start, scale(axis, s)))
                n_b, n_c = dot(b, here), dot(c, here)
            drag = (weight * span) * speed(n_b, n_c)
            if wet is not None:
                drag = drag * wet(s)
            f_b, f_c = drag * n_b, drag * n_c
            for k, part in enumerate((f_b, f_c, s * f_b, s * f_c)):
                total[k] = total[k] + part
    F_b, F_c, N_b, N_c = (side_factor * x for x in total)
    first, other = end_factors
    if wet is not None:
        first, other = first * wet(0.0), other * wet(length)
    u_a = dot(axis, u_0)
    # drag of the upstream face, with its local flow
    if uniform:
        end = first if first is other else np.where(u_a > 0.0, other, first)
        F_a = end * np.abs(u_a) * u_a
    else:
        back, ahead = np.minimum(u_a, 0.0), np.maximum(dot(axis, u_1), 0.0)
        F_a = other * ahead * ahead - first * back * back
    force = add(scale(axis, -F_a), add(scale(b, -F_b), scale(c, -F_c)))
    # s axis x (F_b b + F_c c) = s F_b c - s F_c b
    moment = add(scale(c, -N_b), scale(b, N_c))
    return Force(add_cross(moment, start, force), force)


def ball_drag(u: Callable[[Vec3], Vec3], *, center: Vec3, factor: Scalar) -> Force:
    """Return the drag of a sphere, along the flow at its center.

    Args:
        u: Velocity relative to the fluid of a point of the body, body axes [m/s].
        center: Center of the sphere, body axes [m].
        factor: 1/2 rho C pi r^2 [kg/m].
    """
    here = u(center)
    f = scale(here, -factor * speed(*here))
    return Force(cross(center, f), f)


ARCCOS_MARGIN = 1e-12
"""Distance from 1 at which the argument of an arc cosine is clamped, because its slope is unbounded
there. Its factor vanishes with the power 7/2 of the distance."""

MIN_SLOPE = 1e-100
"""Slopes below this count as zero [m/s]."""

Moments = tuple[Scalar, Scalar, Scalar]
"""Mean of |u| u, of a |u| u and of b |u| u."""


def face_drag(
    w: Vec3,
    u: Callable[[Vec3], Vec3],
    *,
    disk: bool,
    axes: tuple[Vec3, Vec3, Vec3],
    center: Vec3,
    halves: tuple[float, float],
    factor: Scalar,
    points: int,
    uniform: bool,
) -> Force:
    """Return the drag of a rectangle or an ellipse in the flow along its normal.

    Args:
        w: Angular velocity, body axes [rad/s].
        u: Velocity relative to the fluid of a point of the body, body axes [m/s].
        disk: Whether it is an ellipse; a rectangle otherwise.
        axes: Right-handed unit vectors: the normal, and the two axes of the section.
        center: Center of the section, body axes [m].
        halves: Half sizes along its two axes [m].
        factor: 1/2 rho C A of the whole section [kg/m].
        points: Number of quadrature points along each axis in non-uniform flow.
        uniform: Whether the flow is uniform over the section.
    """
    normal, along_a, along_b = axes
    half_a, half_b = halves
    moments = _disk if disk else _square
    # n . (w x e_a) = -w . e_b and n . (w x e_b) = w . e_a
    p, q = -half_a * dot(along_b, w), half_b * dot(along_a, w)
    if uniform:
        mean, mean_a, mean_b = moments(dot(normal, u(center)), p, q)
    else:
        samples = []
        for a, b, weight in face_points(points, disk):
            place = add(center, add(scale(along_a, a * half_a), scale(along_b, b * half_b)))
            samples.append((a, b, weight, dot(normal, u(place))))
        mean, mean_a, mean_b = _varying(moments, p, q, samples)
    force = scale(normal, -factor * mean)
    # e_a x n = -e_b and e_b x n = e_a
    couple = add(
        scale(along_b, factor * half_a * mean_a), scale(along_a, -factor * half_b * mean_b)
    )
    return Force(add_cross(couple, center, force), force)


@cache
def face_points(count: int, disk: bool) -> tuple[tuple[float, float, float], ...]:
    """Return nodes (a, b) and weights, of sum 1, of count x count points.

    They integrate polynomials of degree 2 count - 1 exactly: products of Gauss-Legendre points on
    the square; on the disk Gauss-Chebyshev points of the second kind along a, with Gauss-Legendre
    points on their chords.
    """

    def rows() -> Iterator[tuple[float, float, float]]:
        if not disk:
            for x, g in gauss_points(count):
                yield 2.0 * x - 1.0, g, 1.0
            return
        for k in range(1, count + 1):
            turn = k * math.pi / (count + 1)
            yield math.cos(turn), 2.0 / (count + 1) * math.sin(turn) ** 2, math.sin(turn)

    return tuple(
        (a, (2.0 * y - 1.0) * chord, weight * g)
        for a, weight, chord in rows()
        for y, g in gauss_points(count)
    )


def _varying(
    moments: Callable[[Scalar, Scalar, Scalar], Moments],
    p: Scalar,
    q: Scalar,
    samples: list[tuple[float, float, float, Scalar]],
) -> Moments:
    """Return the moments of a flow sampled at points (a, b, weight, u)."""
    # subtract the rotation of the body; a, b and 1 are orthogonal over the points
    own = [value - a * p - b * q for a, b, _, value in samples]
    c: Scalar = 0.0
    for (_, _, weight, _), x in zip(samples, own, strict=True):
        c = c + weight * x
    if len(samples) == 1:
        return moments(c, p, q)
    squares = [sum(weight * place[k] ** 2 for *place, weight, _ in samples) for k in range(2)]
    for (a, b, weight, _), x in zip(samples, own, strict=True):
        p = p + (weight * a / squares[0]) * x
        q = q + (weight * b / squares[1]) * x
    mean, mean_a, mean_b = moments(c, p, q)
    for a, b, weight, value in samples:
        fit = c + a * p + b * q
        rest = weight * (np.abs(value) * value - np.abs(fit) * fit)
        mean, mean_a, mean_b = mean + rest, mean_a + a * rest, mean_b + b * rest
    return mean, mean_a, mean_b


def _square(c: Scalar, p: Scalar, q: Scalar) -> Moments:
    """Return the moments over the square.

    For c, p, q >= 0 and p >= q, u is negative near the corner (-1, -1), where it is -d; at the
    corner (-1, 1) it is -e, or positive with e = 0. The integral of u^2 over the negative part is
    (d^4 - e^4) / (12 p q), those of (1 + a) u^2 and (1 + b) u^2 are similar. Differences are
    written as products with m = (d - e) / q, which is at most 2, so that a small q causes no
    cancellation.
    """
    turn_c, turn_p, turn_q = (np.where(x < 0.0, -1.0, 1.0) for x in (c, p, q))
    c, p, q = turn_c * c, turn_p * p, turn_q * q
    ordered = p >= q
    p, q = np.where(ordered, p, q), np.where(ordered, q, p)
    d = np.maximum(p + q - c, 0.0)
    e = np.maximum(d - 2.0 * q, 0.0)
    level = q <= MIN_SLOPE
    m = np.where(level, 2.0, np.minimum(d / np.where(level, 1.0, q), 2.0))
    by_p = 1.0 / np.maximum(p, MIN_SLOPE)
    dd, de, ee = d * d, d * e, e * e
    m = m * by_p
    negative = (0.5 / 12.0) * m * ((dd + ee) * (d + e))
    beyond_p = (0.5 / 60.0) * m * by_p * (dd * (dd + de + ee) + ee * (de + ee))
    beyond_q = (0.5 / 60.0) * m * m * p * (dd * (d + 2.0 * e) + ee * (3.0 * d + 4.0 * e))
    mean = c * c + (p * p + q * q) * (1.0 / 3.0) - negative
    mean_p = (2.0 / 3.0) * c * p + (negative - beyond_p)
    mean_q = (2.0 / 3.0) * c * q + (negative - beyond_q)
    mean_a, mean_b = np.where(ordered, mean_p, mean_q), np.where(ordered, mean_q, mean_p)
    return turn_c * mean, turn_p * mean_a, turn_q * mean_b


def _disk(c: Scalar, p: Scalar, q: Scalar) -> Moments:
    """Return the moments over the disk.

    Along its gradient, u = c + g x with chords of length 2 sqrt(1 - x^2); with c >= 0 it is
    negative beyond x = -t, t = c / g.
    """
    turn = np.where(c < 0.0, -1.0, 1.0)
    c = turn * c
    g = speed(p, q)
    t = np.minimum(c / g, 1.0 - ARCCOS_MARGIN)
    square = t * t
    s, arc = np.sqrt(1.0 - square), np.arccos(t)
    negative = (square + 0.25) * arc - s * t * (13.0 / 12.0 + square * (1.0 / 6.0))
    slope = s * (4.0 / 15.0 + square * (0.3 - square * (1.0 / 15.0))) - 0.5 * t * arc
    mean = c * c + g * g * (0.25 - (2.0 / math.pi) * negative)
    # the moment along the gradient, divided by g
    along = 0.5 * c + (2.0 / math.pi) * g * slope
    return turn * mean, along * p, along * q


MIN_SPEED = 1e-100
"""Negligible speed [m/s]; keeps the derivative of an angle finite at rest."""

Axis = Callable[[Vec3], Vec3]


@record(slots=False)
class PlacedFin:
    """A fin in a plan frame."""

    place: Vec3
    """Point of application of the force [m]."""

    chord: Vec3
    normal: Vec3

    stall: tuple[float, float]
    """Squared sines of the stall angles."""

    angles: tuple[float, ...]
    """Angles of attack of a table [rad]; empty for a `ThinFoil`."""

    coefficients: tuple[Scalar, ...]
    """Half the area times a, b, c_0, a^2 / (pi e AR); of a table, times all lift and then all drag
    coefficients."""

    deflection: Scalar | None = None
    """Deflection about the span [rad]; None for a fixed fin."""

    def force(self, density: Scalar, relative: Callable[[Vec3], Vec3]) -> Force:
        """Return lift and drag, about the origin of the plan frame.

        Args:
            density: Density of the water [kg/m^3].
            relative: Velocity of a point of the link relative to the water there [m/s].
        """
        here = relative(self.place)
        u_c, u_n = dot(self.chord, here), dot(self.normal, here)
        local_c, local_n = u_c, u_n
        if self.deflection is not None:
            # a positive deflection about the span moves the leading edge against the normal
            sin, cos = np.sin(self.deflection), np.cos(self.deflection)
            local_c, local_n = cos * u_c - sin * u_n, cos * u_n + sin * u_c
        U = speed(u_c, u_n)
        if self.angles:
            lift, drag = self._from_table(local_c, local_n)
        else:
            lift, drag = self._thin(local_c / U, -local_n / U)
        L, D = density * U * lift, density * U * drag
        F_c, F_n = -D * u_c - L * u_n, L * u_c - D * u_n
        force = add(scale(self.chord, F_c), scale(self.normal, F_n))
        return Force(cross(self.place, force), force)

    def _thin(self, c: Scalar, s: Scalar) -> tuple[Scalar, Scalar]:
        """Return half the area times CL and CD of a `ThinFoil`."""
        a, b, c_0, induced = self.coefficients
        first, last = self.stall
        square = s * s
        t = np.minimum(np.maximum((square - first) / (last - first), 0.0), 1.0)
        # weight of the flat plate, smooth where stall begins and ends
        stalled = t * t * (3.0 - 2.0 * t)
        lift = s * c * (a + stalled * (b - a))
        drag = c_0 + square * (induced * c * c + stalled * (b - induced * c * c))
        return lift, drag

    def _from_table(self, u_c: Scalar, u_n: Scalar) -> tuple[Scalar, Scalar]:
        """Return half the area times CL and CD of a `TableFoil`."""
        angles = self.angles
        count = len(angles)
        lifts, drags = self.coefficients[:count], self.coefficients[count:]
        alpha = np.arctan2(-u_n, u_c + MIN_SPEED)
        lift, drag = lifts[0], drags[0]
        for k in range(count - 1):
            begin, end = angles[k], angles[k + 1]
            share = (alpha - begin) * (1.0 / (end - begin))
            share = np.minimum(np.maximum(share, 0.0), 1.0)
            lift = lift + (lifts[k + 1] - lifts[k]) * share
            drag = drag + (drags[k + 1] - drags[k]) * share
        return lift, drag


def placed_fin(fin: Fin, turned: Axis, moved: Axis) -> PlacedFin:
    """Map a fin into a plan frame.

    Args:
        fin: Fin in body axes.
        turned: Maps a direction from body axes to the plan frame.
        moved: Maps a point likewise.
    """
    half = 0.5 * fin.area
    foil = fin.foil
    stall, angles = (0.0, 1.0), ()
    if isinstance(foil, TableFoil):
        angles, lifts, drags = zip(*foil.rows(), strict=True)
        coefficients = tuple(half * x for x in (*lifts, *drags))
    else:
        assert isinstance(foil, ThinFoil)
        a, b = foil.slope(fin.aspect_ratio), foil.plate(fin.aspect_ratio)
        induced = a * a / (math.pi * foil.efficiency * fin.aspect_ratio)
        coefficients = tuple(half * x for x in (a, b, foil.drag_coefficient, induced))
        first, last = (math.sin(angle) ** 2 for angle in foil.stall)
        stall = (first, last)
    normal = turned(cross(fin.chord, fin.span))
    chord = turned(fin.chord)
    place = moved(fin.position)
    return PlacedFin(place, chord, normal, stall, angles, coefficients, fin.deflection)


def added_mass_bias(I_A: ArticulatedInertia, w: Vec3, v_r: Vec3, a_fg: Vec3) -> Force:
    """Return beta^A, the added-mass force beyond -I^A a' (1995, eq. 16; 1994, eqs. 6.21, 7.44).

    Args:
        I_A: Added mass about the body origin, body axes [kg m^2, kg m, kg].
        w: Angular velocity, body axes [rad/s].
        v_r: Velocity of the body origin relative to the fluid, body axes [m/s].
        a_fg: Acceleration of the fluid less that of free fall, body axes [m/s^2].
    """
    carried = I_A.apply(Motion(ZERO3, add_cross(a_fg, w, v_r)))
    h = I_A.apply(Motion(w, v_r))
    turning = Force(add_cross(cross(w, h.moment), v_r, h.force), cross(w, h.force))
    return carried - turning


def total_buoyancy(displaced: Scalar, moment: Vec3, a_fg: Vec3) -> Force:
    """Return m^f a_fg through the center of buoyancy (1995, eqs. 26 and 27).

    Args:
        displaced: m^f [kg].
        moment: m^f b, body axes [kg m]; unlike b itself it is additive over bodies.
        a_fg: Acceleration of the fluid less that of free fall, body axes [m/s^2].
    """
    return Force(cross(moment, a_fg), scale(a_fg, displaced))


Rows = Sequence[Scalars]


def damping_force(relative: Motion, linear: Rows | None, quadratic: Rows | None) -> Force:
    """Return -(D_1 + D_2 |x|) x for the relative velocity x of a body.

    Args:
        relative: Velocity of the body relative to the fluid, at the origin of the frame in which
            the matrices are given, its axes [rad/s, m/s].
        linear: D_1, shape (6, 6), angular first; None for none.
        quadratic: D_2 likewise.
    """
    x = tuple(relative)
    total: list[Scalar] = [0.0] * 6
    for matrix, factors in ((linear, x), (quadratic, tuple(np.abs(s) * s for s in x))):
        for i, row in enumerate(matrix or ()):
            for entry, s in zip(row, factors, strict=True):
                total[i] = total[i] - entry * s
    return Force.from_array(total)
