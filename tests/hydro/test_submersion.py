"""Parts of solids under a surface, exactly; buoyancy as the gradient of an energy."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.hydro.submersion import LEVEL_SLOPE, SOLIDS

RHO, G = 1000.0, 9.81
SEA = tb.Water(RHO, surface=0.2)


# -- closed forms ----------------------------------------------------------------------------------


def spread_heights(rng, tiny):
    """Heights of three axes of any size and sign, some of them next to nothing."""
    sizes = 10.0 ** rng.uniform(-13.0 if tiny else -1.0, 0.0, 3)
    return rng.choice([-1.0, 1.0], 3) * sizes * rng.uniform(0.5, 1.0, 3)


def exact_box(h, w):
    """The textbook sum over corners, which divides by all heights, in rational arithmetic."""
    h, p = Fraction(h), [Fraction(abs(x)) for x in w]
    volume, moments = Fraction(0), [Fraction(0)] * 3
    for corner in product((-1, 1), repeat=3):
        depth = h - sum(a * b for a, b in zip(corner, p, strict=True))
        if depth > 0:
            sign = corner[0] * corner[1] * corner[2] * -1
            volume += sign * depth**3 / 6
            for k in range(3):
                moments[k] += sign * (depth**4 / (24 * p[k]) + corner[k] * depth**3 / 6)
    whole = 8 * p[0] * p[1] * p[2]
    means = [float(m / whole) * np.sign(x) for m, x in zip(moments, w, strict=True)]
    return [float(volume / whole), *means]


@pytest.mark.parametrize("tiny", [False, True])
def test_boxes_are_exact_at_any_attitude(tiny):
    rng = np.random.default_rng(1)
    for number in range(300):
        w = spread_heights(rng, tiny)
        middle, *others = sorted(np.abs(w))[::-1]
        h = rng.uniform(-1.1, 1.1) * np.abs(w).sum()
        if number % 3 == 0:
            # where the last corners go under
            h = rng.choice([-1.0, 1.0]) * (middle + rng.uniform(-1.0, 1.0) * sum(others))
        share, means = SOLIDS["box"](h, w, (1.0, 1.0, 1.0))
        # a few dozen operations
        assert_close([share, *means], exact_box(h, w), 1e-15)


PLACES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def pieces(low, high, cuts):
    """Points and weights between cuts, where integrands have roots: their squares are smooth."""
    y = 0.5 + 0.5 * PLACES
    ends = [low, *sorted(x for x in cuts if low < x < high), high]
    for x, end in pairwise(ends):
        yield x + (end - x) * y * y * (3.0 - 2.0 * y), (end - x) * WEIGHTS * 3.0 * y * (1.0 - y)


def below(d, radius):
    """Area of a disk below a chord at the distance d, and its moment across the chord."""
    t = np.clip(d / radius, -1.0, 1.0)
    s = np.sqrt(1.0 - t * t)
    return radius**2 * (np.pi / 2.0 + np.arcsin(t) + t * s), -2.0 / 3.0 * radius**3 * s**3


def by_disks(h, up, r, half, ends):
    """Share and means of a cylinder, with half balls at its ends or without, disk by disk."""
    s, c, a = np.hypot(up[0], up[1]), up[2], half - r if ends else half
    total = np.zeros(3)

    def add(z, radius, weight, axis):
        area, moment = below((h - axis * c * z) / s, radius)
        total[:] += [weight @ area, axis * (weight @ (area * z)), weight @ moment]

    cuts = [(h - s * r) / c, (h + s * r) / c] if c else []
    for z, weight in pieces(-a, a, cuts):
        add(z, np.full_like(z, r), weight, 1.0)
    whole = 2.0 * np.pi * r * r * a
    if ends:
        whole += 4.0 / 3.0 * np.pi * r**3
        for axis in (1.0, -1.0):
            t, lean = (h - axis * c * a) / r, np.arctan2(s, axis * c)
            # rims of disks at the angle phi touch the surface where sin(phi +- lean) = t
            turns = [np.arcsin(t), np.pi - np.arcsin(t)] if abs(t) < 1.0 else []
            cuts = [
                x + y + z for x in turns for y in (lean, -lean) for z in (-2 * np.pi, 0, 2 * np.pi)
            ]
            for phi, weight in pieces(0.0, np.pi / 2.0, cuts):
                add(a + r * np.sin(phi), r * np.cos(phi), weight * r * np.cos(phi), axis)
    V, M, L = total / whole
    return [V, L * up[0] / (s * r), L * up[1] / (s * r), M / half]


@pytest.mark.parametrize("kind", ["cylinder", "capsule"])
@pytest.mark.parametrize("least", [0.0, -7.0])
def test_round_solids_are_sums_of_disks_at_any_attitude(kind, least):
    rng = np.random.default_rng(2)
    for _ in range(100):
        up = rng.normal(size=3) * 10.0 ** rng.uniform(least, 0.0, 3)
        up /= np.linalg.norm(up)
        r = rng.uniform(0.1, 0.5)
        half = r + rng.uniform(0.01, 0.7)
        reach = r + (half - r) * abs(up[2])
        if kind == "cylinder":
            reach = r * np.hypot(up[0], up[1]) + half * abs(up[2])
        h = rng.uniform(-1.05, 1.05) * reach
        share, means = SOLIDS[kind](h, up * (r, r, half), (r, r, half))
        expected = by_disks(h, up, r, half, kind == "capsule")
        # a closed form loses up to five digits where the axis is nearly level; the sums about two
        assert_close([share, *means], expected, 2e-11)


def test_submersion_of_cylinders_is_continuous_when_level():
    """On both sides of the slope where quadrature takes over, and down to a level axis."""
    for tau in np.linspace(-0.999, 0.999, 9):
        found = [
            np.array([share, *means])
            for slope in (LEVEL_SLOPE * (1 - 1e-14), LEVEL_SLOPE * (1 + 1e-14))
            for share, means in [SOLIDS["cylinder"](tau, (1.0, 0.0, slope), (1.0, 1.0, 1.0))]
        ]
        # the closed form divides roundings by the square of the slope
        assert_close(found[0], found[1], 2e-11)
        flat = [
            SOLIDS["cylinder"](tau, (1.0, 0.0, slope), (1.0, 1.0, 1.0))
            for slope in (0.0, 1e-300, 1e-120, 1e-40, 1e-16)
        ]
        disk = 0.5 + (np.arcsin(tau) + tau * np.sqrt(1.0 - tau**2)) / np.pi
        moment = -2.0 / (3.0 * np.pi) * (1.0 - tau**2) ** 1.5
        for share, means in flat:
            assert_close([share, *means], [disk, moment, 0.0, 0.0], 1e-14)


# -- buoyancy --------------------------------------------------------------------------------------

SHAPES = {
    "ball": tb.SphereShape(0.3),
    "ellipsoid": tb.EllipsoidShape((0.2, 0.3, 0.4)),
    "box": tb.BoxShape((0.4, 0.5, 0.6)),
    "cylinder": tb.CylinderShape(0.2, 0.7),
    "capsule": tb.CapsuleShape(0.2, 0.4),
}

ATTITUDES = {
    "any": None,
    "upright": (1.0, 0.0, 0.0, 0.0),
    "lying": (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0),
    "nearly upright": (1.0, 1e-7, -2e-7, 0.3),
    "nearly lying": (1.0, 1.0 + 1e-6, 1e-6, 0.0),
}


def solid_shape(geometry, rng=None):
    pose = (
        tb.Pose()
        if rng is None
        else tb.Pose.from_rpy(rng.normal(size=3), rng.uniform(-0.1, 0.1, 3))
    )
    return tb.Shape(geometry, pose)


def floater(shapes, *, center=(0, 0, 0), volume=None, share=0.5):
    """A free body on which water acts by buoyancy alone."""
    volume = volume or tb.estimate_hydrodynamics(shapes, RHO).fluid.volume
    mass = share * RHO * volume
    body = tb.Body(
        "float",
        joint=tb.Free("float"),
        inertia=tb.Inertia(
            mass, (0.01, -0.02, 0.03), tuple(0.1 * mass * x for x in (0.2, 0.25, 0.3))
        ),
        shapes=shapes,
        fluid=tb.BodyFluid(volume, center),
    )
    return tb.Model("float", [body])


def slopes_of(model, q, sea=SEA):
    """Central differences of the potential energy along the velocities."""
    found, h = [], DIFFERENCE_STEP
    for k in range(model.nv):
        ends = [model.integrate(q, sign * h * np.eye(model.nv)[k]) for sign in (1.0, -1.0)]
        high, low = (float(tb.potential_energy(model, end, fluid=sea)) for end in ends)
        found.append((high - low) / (2 * h))
    return np.array(found)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("attitude", ATTITUDES)
def test_buoyancy_is_the_gradient_of_the_energy(name, attitude):
    model = floater((solid_shape(SHAPES[name]),))
    rng = np.random.default_rng(4)
    for z in (0.05, 0.15, 0.25, 0.35):
        turn = np.array(ATTITUDES[attitude] or rng.normal(size=4))
        q = np.array([*(turn / np.linalg.norm(turn)), 0.3, -0.2, z])
        force = tb.gravity_force(model, q, fluid=SEA)
        # the second derivative of the force jumps where a face goes under
        assert_close(force, slopes_of(model, q), 10 * DIFFERENCE, scale=RHO * G * 0.1)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", ["box", "cylinder", "capsule"])
@pytest.mark.parametrize("attitude", ATTITUDES)
def test_stiffness_is_the_derivative_of_buoyancy(name, attitude):
    """Hydrostatic stiffness by differentiating the graph, also where closed forms change."""
    model = floater((solid_shape(SHAPES[name]),))
    turn = np.array(ATTITUDES[attitude] or (0.3, -0.7, 0.4, 0.5))
    q = np.array([*(turn / np.linalg.norm(turn)), 0.3, -0.2, 0.23])
    found = tb.inverse_dynamics_derivatives(model, q, np.zeros(6), np.zeros(6), fluid=SEA).by_q
    h = DIFFERENCE_STEP
    for k in range(6):
        high, low = (
            tb.gravity_force(model, model.integrate(q, x * np.eye(6)[k]), fluid=SEA)
            for x in (h, -h)
        )
        # waterlines of round solids bend where they leave a face: a step of 1e-5 sees its root
        allowed = 3e-2 * np.sqrt(h) if name != "box" else 1e2 * DIFFERENCE
        assert_close(found[:, k], (high - low) / (2 * h), allowed, scale=RHO * G * 0.1)


def test_buoyancy_off_the_middle_of_the_shapes_is_a_gradient():
    """Several shapes, a center of buoyancy and a volume of their own; half in, and deep down."""
    rng = np.random.default_rng(5)
    shapes = tuple(solid_shape(geometry, rng) for geometry in SHAPES.values())
    model = floater(shapes, center=(0.05, -0.03, 0.08), volume=0.2)
    for z in (0.0, 0.2, 0.4):
        turn = rng.normal(size=4)
        q = np.array([*(turn / np.linalg.norm(turn)), 0.3, -0.2, z])
        force = tb.gravity_force(model, q, fluid=SEA)
        assert_close(force, slopes_of(model, q), 10 * DIFFERENCE, scale=RHO * G * 0.2)
    q[6] = -3.0
    deep = tb.gravity_force(model, q, fluid=tb.Water(RHO))
    assert_close(tb.gravity_force(model, q, fluid=SEA), deep)


def test_buoyancy_of_a_tree_through_the_surface_is_a_gradient():
    """Bodies on joints and on fixed ones, each with shapes of its own."""
    rng = np.random.default_rng(6)
    root = floater((solid_shape(SHAPES["box"], rng),), center=(0.02, 0.01, -0.03)).bodies[0]
    bodies = [root]
    for number, (name, joint) in enumerate(
        {
            "capsule": tb.Revolute("hinge", (0, 1, 0), pose=tb.Pose(translation=(0.3, 0, 0))),
            "cylinder": tb.Fixed("weld", pose=tb.Pose.from_rpy((0.3, 0.5, -0.2), (0.2, 0.1, 0))),
            "ellipsoid": tb.Spherical("socket", pose=tb.Pose(translation=(0.1, 0.4, 0.1))),
        }.items()
    ):
        shapes = (solid_shape(SHAPES[name], rng),)
        fluid = tb.BodyFluid(
            tb.estimate_hydrodynamics(shapes, RHO).fluid.volume, rng.uniform(-0.1, 0.1, 3)
        )
        body = tb.Body(
            name,
            parent=bodies[number].name,
            joint=joint,
            inertia=tb.Inertia(20.0, (0.1, 0, 0), (0.4, 0.5, 0.6)),
            shapes=shapes,
            fluid=fluid,
        )
        bodies.append(body)
    model = tb.Model("tree", bodies)
    for seed in range(3):
        q, _ = model.random_state(np.random.default_rng(seed))
        q[6] = 0.2
        force = tb.gravity_force(model, q, fluid=SEA)
        assert_close(force, slopes_of(model, q), 10 * DIFFERENCE, scale=RHO * G * 0.2)


@pytest.mark.parametrize("name", ["box", "cylinder", "capsule"])
def test_energy_error_of_a_floating_body_has_the_order_of_the_method(name):
    """Rolling and heaving at the waterline, off the middle of its shape."""
    model = floater((solid_shape(SHAPES[name]),), center=(0.02, 0.0, 0.01))
    q = np.array([np.cos(0.4), np.sin(0.4), 0.0, 0.0, 0.0, 0.0, 0.22])
    v = np.array([0.7, 0.5, -0.3, 0.1, 0.0, 0.2])
    drifts = []
    for dt in (8e-3, 4e-3, 2e-3):
        run = tb.integrate_rk4(model, q, v, dt=dt, steps=round(1.6 / dt), fluid=SEA)
        energy = tb.kinetic_energy(model, run.q, run.v) + tb.potential_energy(
            model, run.q, fluid=SEA
        )
        moved = np.ptp(tb.kinetic_energy(model, run.q, run.v))
        drifts.append(float(np.abs(energy - energy[0]).max() / moved))
    # order 4, of which corners that go under may take one
    assert drifts[0] < 1e-4
    assert drifts[1] < drifts[0] / 6.0
    assert drifts[2] < drifts[1] / 6.0


def test_gravity_must_be_normal_to_the_surface():
    for gravity in ((0.5, 0.0, -9.8), (0.0, 0.0, 9.81)):
        with pytest.raises(tb.ModelError, match=r"gravity must point along -z .* got .* m/s\^2"):
            tb.World(gravity=gravity, fluid=SEA)
    tb.World(gravity=(0.0, 0.0, 0.0), fluid=SEA)
    tb.World(gravity=(0.5, 0.0, -9.8), fluid=tb.Water(RHO))
