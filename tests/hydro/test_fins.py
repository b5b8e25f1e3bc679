"""Fins: closed forms of their coefficients, symmetries, power, and all of dynamics with them."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import OnGraph
from tests.oracles.submerged import fin_coefficients, fin_force
from tests.tolerances import DIFFERENCE

RHO = 1000.0
TABLE = tb.TableFoil(
    np.radians((-180.0, -90.0, -12.0, 0.0, 15.0, 90.0, 180.0)),
    (0.1, -0.1, -0.7, 0.2, 1.1, 0.1, 0.1),
    (0.02, 1.3, 0.1, 0.01, 0.15, 1.2, 0.02),
)
"""A foil with camber: no two of its four quarters are alike."""

HALF = tb.TableFoil((0.0, 0.3, 0.5 * math.pi, math.pi), (0.0, 1.0, 0.1, 0.0), (0.01, 0.1, 1.2, 0.1))


def vehicle(*fins, **fluid):
    """Return a free body with fins, as heavy as the water it displaces."""
    inertia = tb.Inertia.box(30.0, (1.0, 0.5, 0.4))
    wet = tb.BodyFluid(volume=0.03, fins=fins, **fluid)
    body = tb.Body("hull", joint=tb.Free("float"), inertia=inertia, fluid=wet)
    return tb.Model("vehicle", [body])


def wrench(model, v, water=None, q=None):
    """Return what water does to a free body beside its buoyancy, [n; f] in body axes."""
    q = model.neutral() if q is None else q
    state = q, np.asarray(v, dtype=float), np.zeros(6)
    on_land, wet = (
        OnGraph(model, (0.0, 0.0, 0.0), around).run("inverse_dynamics", state)
        for around in (None, water or tb.Water(RHO))
    )
    return on_land - wet


def force_at(fin, alpha, speed=1.0):
    """Return drag and lift of a fin at the origin that meets water at an angle of attack [N]."""
    # motion ahead and down: water comes from below
    u = speed * np.array([math.cos(alpha), 0.0, -math.sin(alpha)])
    f = wrench(vehicle(fin), [0, 0, 0, *u])[3:]
    up = np.array([math.sin(alpha), 0.0, math.cos(alpha)])
    return -f @ u / speed, f @ up


def test_attached_foil_lifts_by_the_slope_of_helmbold():
    """Below stall, CL = a sin cos and CD = c_0 + CL^2 / (pi e AR), in numbers."""
    fin = tb.Fin(0.5, 4.0, foil=tb.ThinFoil(drag_coefficient=0.02, efficiency=0.8))
    alpha = math.radians(5.0)
    drag, lift = force_at(fin, alpha, 2.0)
    slope = 2.0 * math.pi * 4.0 / (2.0 + math.sqrt(20.0))
    CL = slope * 0.5 * math.sin(2.0 * alpha)
    pressure = 0.5 * RHO * 2.0**2 * 0.5
    assert lift == pytest.approx(pressure * CL, rel=1e-13)
    CD = 0.02 + CL**2 / (math.pi * 0.8 * 4.0)
    assert drag == pytest.approx(pressure * CD, rel=1e-13)


def test_slopes_of_long_and_short_wings_are_the_classical_ones():
    """2 pi without end effects; pi AR / 2 for a short wing (Jones 1946)."""
    foil = tb.ThinFoil()
    # the corrections are 2 / AR and AR / 4 of the whole
    assert foil.slope(1e6) == pytest.approx(2.0 * math.pi, rel=1e-5)
    assert foil.slope(1e-6) == pytest.approx(0.5 * math.pi * 1e-6, rel=1e-6)


def test_plate_across_the_flow_has_drag_alone():
    """Beyond stall the force is normal to the plate: b sin(alpha), all of it drag at 90 degrees."""
    fin = tb.Fin(0.2, 5.0, foil=tb.ThinFoil(drag_coefficient=0.0))
    b = 1.11 + 0.018 * 5.0
    drag, lift = force_at(fin, math.radians(90.0))
    assert drag == pytest.approx(0.5 * RHO * 0.2 * b, rel=1e-13)
    assert abs(lift) < 1e-13 * drag
    for degrees in (35.0, 60.0, 120.0, 145.0, -50.0):
        alpha = math.radians(degrees)
        drag, lift = force_at(fin, alpha)
        along = drag * math.cos(alpha) - lift * math.sin(alpha)
        # friction is left out: nothing acts along the chord
        assert abs(along) < 1e-13 * math.hypot(drag, lift)
        assert math.hypot(drag, lift) == pytest.approx(
            0.5 * RHO * 0.2 * b * abs(math.sin(alpha)), rel=1e-13
        )


@pytest.mark.parametrize("foil", [tb.ThinFoil(), TABLE, HALF], ids=["thin", "table", "half"])
def test_coefficients_are_those_of_an_independent_formula_at_all_angles(foil):
    """Around the whole circle, in steps that meet no row of a table."""
    fin = tb.Fin(0.3, 3.0, foil=foil)
    for alpha in np.radians(np.arange(-179.5, 180.0, 7.3)):
        drag, lift = force_at(fin, alpha)
        CL, CD = fin_coefficients(fin, alpha)
        # angles and sums of many straight pieces round
        assert drag == pytest.approx(0.5 * RHO * 0.3 * CD, rel=1e-12)
        assert lift == pytest.approx(0.5 * RHO * 0.3 * CL, rel=1e-12, abs=1e-12 * RHO)


@pytest.mark.parametrize("foil", [tb.ThinFoil(), HALF], ids=["thin", "half"])
def test_symmetric_foils_mirror_their_force(foil):
    """Water from above lifts downward by as much as water from below lifts upward."""
    fin = tb.Fin(0.3, 3.0, foil=foil)
    for alpha in (0.1, 0.4, 1.3, 2.0, 3.0):
        (drag, lift), (same, opposite) = force_at(fin, alpha), force_at(fin, -alpha)
        assert (same, opposite) == pytest.approx((drag, -lift), rel=1e-12)


def test_stall_is_smooth():
    """Neither coefficients nor their slopes jump where flow begins to part, or has parted."""
    fin = tb.Fin(1.0, 3.0, foil=tb.ThinFoil(stall=(0.3, 0.5)))
    step = 1e-5
    for edge in (0.3, 0.5):
        low, here, high = (np.array(force_at(fin, edge + k * step)) for k in (-1, 0, 1))
        below, above = (here - low) / step, (high - here) / step
        # the second derivative is at most some hundred coefficients per squared angle
        assert np.abs(above - below).max() < 1e3 * step * RHO
    top = max(force_at(fin, alpha)[1] for alpha in np.linspace(0.2, 0.6, 40))
    assert force_at(fin, 0.6)[1] < 0.8 * top


def test_deflection_turns_the_fin_about_its_span():
    """A fin turned by an angle does what the same fin, built turned, does."""
    rng = np.random.default_rng(0)
    span = rng.normal(size=3)
    chord = np.cross(span, rng.normal(size=3))
    span, chord = span / np.linalg.norm(span), chord / np.linalg.norm(chord)
    angle, v = 0.7, rng.normal(size=6)
    turned = math.cos(angle) * chord + math.sin(angle) * np.cross(span, chord)
    place = rng.normal(size=3)
    for foil in (tb.ThinFoil(), TABLE):
        steered = wrench(vehicle(tb.Fin(0.1, 3.0, place, span, chord, foil, angle)), v)
        built = wrench(vehicle(tb.Fin(0.1, 3.0, place, span, turned, foil)), v)
        assert np.allclose(steered, built, rtol=0, atol=1e-12 * np.abs(built).max())
        assert not np.allclose(
            steered, wrench(vehicle(tb.Fin(0.1, 3.0, place, span, chord, foil)), v)
        )


def test_positive_deflection_of_a_stern_plane_raises_the_nose():
    """Span to the left, chord ahead: the leading edge goes down, the stern with it."""
    fin = tb.Fin(0.02, 3.0, (-0.7, 0.0, 0.0), deflection=0.1)
    n, f = np.split(wrench(vehicle(fin), [0, 0, 0, 2.0, 0, 0]), 2)
    assert f[2] < 0.0
    # about y, which points left, a nose that rises turns backward
    assert n[1] < 0.0


@pytest.mark.parametrize("foil", [tb.ThinFoil(), TABLE], ids=["thin", "table"])
def test_force_on_a_turned_fin_in_a_stream_is_that_of_the_formula(foil):
    """Any place, span and chord; the body turns, and the stream counts."""
    rng = np.random.default_rng(5)
    span = rng.normal(size=3)
    chord = np.cross(span, rng.normal(size=3))
    fin = tb.Fin(0.1, 3.0, rng.normal(size=3), span, chord, foil, 0.3)
    model = vehicle(fin)
    q, v = model.random_state(rng)
    stream = rng.normal(size=3)
    w, x, y, z = q[:4]
    R = np.array(tb.Pose.from_quaternion((w, x, y, z)).rotation)
    u = v[3:] + np.cross(v[:3], fin.position) - R.T @ stream
    f = fin_force(fin, u, RHO)
    ours = wrench(model, v, tb.Water(RHO, tuple(stream)), q)
    expected = np.concatenate([np.cross(fin.position, f), f])
    assert np.allclose(ours, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_fins_dissipate_power():
    """Lift does no work: power is that of drag, whatever the angle."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        foil = TABLE if rng.random() < 0.5 else tb.ThinFoil(drag_coefficient=0.0)
        span = rng.normal(size=3)
        chord = np.cross(span, rng.normal(size=3))
        fin = tb.Fin(0.1, 3.0, rng.normal(size=3), span, chord, foil, rng.normal())
        v = rng.normal(size=6)
        power = wrench(vehicle(fin), v) @ v
        u = v[3:] + np.cross(v[:3], fin.position)
        assert power == pytest.approx(fin_force(fin, u, RHO) @ u, rel=1e-11)
        assert power < 0.0


def test_derivatives_exist_at_rest_and_are_those_of_differences_in_motion():
    """At zero relative velocity slopes are zero, not undefined; in motion they are exact."""
    thin = tb.Fin(0.1, 3.0, (-0.5, 0.2, 0.1), deflection=0.2)
    table = tb.Fin(0.1, 3.0, (0.3, -0.2, 0.1), (0, 0, 1), (1, 0, 0), TABLE)
    model = vehicle(thin, table)
    water = tb.Water(RHO, (0.3, -0.2, 0.1))
    around = OnGraph(model, (0.0, 0.0, -9.81), water)
    still, zero = tb.Water(RHO), np.zeros(6)
    at_rest = OnGraph(model, (0.0, 0.0, -9.81), still)
    _, by_q, by_v, _ = at_rest.run("forward_dynamics_derivatives", (model.neutral(), zero, zero))
    assert np.isfinite(by_q).all()
    # a velocity of 1e-100 m/s keeps them finite
    assert np.abs(by_v).max() < 1e-90
    q, v = model.random_state(np.random.default_rng(2))
    _, by_q, by_v, _ = around.run("forward_dynamics_derivatives", (q, v, zero))
    h = 1e-6
    for k in range(6):
        d = np.zeros(6)
        d[k] = h
        ends = [around.run("forward_dynamics", (q, v + s * d, zero)) for s in (1, -1)]
        assert np.allclose(
            by_v[:, k], (ends[0] - ends[1]) / (2 * h), atol=DIFFERENCE * 10, rtol=1e-6
        )
        ends = [
            around.run("forward_dynamics", (model.integrate(q, s * d), v, zero)) for s in (1, -1)
        ]
        assert np.allclose(
            by_q[:, k], (ends[0] - ends[1]) / (2 * h), atol=DIFFERENCE * 10, rtol=1e-6
        )


def test_fin_forces_scale_with_the_submerged_fraction():
    """Half of a ball in water leaves half of the force of its fin."""
    ball = tb.Shape(tb.SphereShape(0.3))
    volume = 4.0 / 3.0 * math.pi * 0.3**3
    fluid = tb.BodyFluid(volume=volume, fins=(tb.Fin(0.02, 3.0, deflection=0.1),))
    body = tb.Body(
        "ball",
        joint=tb.Free("float"),
        inertia=tb.Inertia.sphere(50.0, 0.3),
        shapes=(ball,),
        fluid=fluid,
    )
    model = tb.Model("ball", [body])
    v, q = np.array([0.0, 0, 0, 2.0, 0, 0]), model.neutral()
    deep = wrench(model, v)
    for height, share in ((0.0, 0.5), (-0.3, 1.0), (0.3, 0.0)):
        q[6] = height
        assert np.allclose(
            wrench(model, v, tb.Water(RHO, surface=0.0), q), share * deep, atol=1e-12
        )


def test_fin_on_a_joint_is_steered_by_the_joint():
    """A fin on a body of its own, its joint turned, does to the hull what a deflection does."""
    angle, water = 0.15, tb.Water(RHO, (0.1, 0.2, -0.1))
    place = (-0.7, 0.1, 0.0)
    hull = replace(vehicle().bodies[0], fluid=tb.BodyFluid(volume=0.03))
    rudder = tb.Body(
        "rudder",
        parent="hull",
        joint=tb.Revolute("hinge", axis=(0, 1, 0), pose=tb.Pose(translation=place), armature=1.0),
        fluid=tb.BodyFluid(fins=(tb.Fin(0.02, 3.0),)),
    )
    hinged = tb.Model("hinged", [hull, rudder])
    fixed = vehicle(tb.Fin(0.02, 3.0, place, deflection=angle))
    rng = np.random.default_rng(3)
    q, v = fixed.random_state(rng)
    gravity = (0.0, 0.0, -9.81)
    zero = np.zeros(7)
    moving = np.array([*v, 0.0])
    ours = OnGraph(hinged, gravity, water).run(
        "inverse_dynamics", (np.array([*q, angle]), moving, zero)
    )
    expected = OnGraph(fixed, gravity, water).run("inverse_dynamics", (q, v, zero[:6]))
    assert np.allclose(ours[:6], expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    # the force acts on the hinge line: nothing turns the joint
    assert abs(ours[6]) < 1e-12 * np.abs(expected).max()


def test_commanded_fins_equal_those_of_a_robot_built_with_the_angles():
    """Joint forces of commanded angles give the motion of a robot built with those angles."""
    fins = [
        tb.Fin(0.02, 3.0, (-0.7, 0.1, 0.0), deflection=0.05),
        tb.Fin(0.03, 2.0, (-0.7, 0.0, 0.1), (0, 0, 1), deflection=0.0),
        tb.Fin(0.01, 2.0, (0.5, 0.0, 0.1)),
    ]
    model, water = vehicle(*fins), tb.Water(RHO, (0.2, 0.0, 0.1))
    angles = np.array([[0.2, -0.1], [0.05, 0.0], [-0.3, 0.4]])
    rng = np.random.default_rng(4)
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(3)), strict=True))
    tau = tb.fin_force(model, q, v, angles, water)
    ours = tb.forward_dynamics(model, q, v, tau, fluid=water)
    for k, (first, second) in enumerate(angles):
        turned = vehicle(
            replace(fins[0], deflection=first), replace(fins[1], deflection=second), fins[2]
        )
        expected = tb.forward_dynamics(turned, q[k], v[k], np.zeros(6), fluid=water)
        assert np.allclose(ours[k], expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    # the angles that the model has add nothing, to the bit
    assert not tau[1].any()
    assert [fin.area for _, fin in tb.steerable_fins(model)] == [0.02, 0.03]


def test_angles_of_fins_are_parameters_also_where_they_are_zero():
    """A batch gives each case its own angles; nothing is compiled for that."""
    model, water = vehicle(tb.Fin(0.02, 3.0, (-0.7, 0.1, 0.0), deflection=0.0)), tb.Water(RHO)
    name = f"{model.bodies[0].name}.fins.0.deflection"
    q, v = np.tile(model.neutral(), (3, 1)), np.tile([0.0, 0, 0, 2.0, 0, 0], (3, 1))
    angles = {name: np.array([-0.1, 0.0, 0.1])}
    vd = tb.forward_dynamics(model, q, v, 0.0 * v, fluid=water, parameters=angles)
    assert np.allclose(vd[0, [1, 5]], -vd[2, [1, 5]])
    assert vd[0, 1] > 0.0
    assert np.allclose(vd[1, [1, 5]], 0.0)


def test_fossen_form_includes_lift_in_its_damping():
    """Lift is of second order in velocity as drag is: D v is all of it."""
    model = vehicle(
        tb.Fin(0.05, 3.0, (-0.7, 0.1, 0.0), deflection=0.1), tb.Fin(0.02, 3.0, foil=TABLE)
    )
    water = tb.Water(RHO, (0.3, 0.1, 0.0))
    rng = np.random.default_rng(6)
    q, v = model.random_state(rng)
    vd = rng.normal(size=6)
    form = tb.fossen_form(model, q, v, water)
    tau = form.M @ (vd - form.drift) + (form.C + form.D) @ form.v + form.g
    expected = tb.inverse_dynamics(model, q, v, vd, fluid=water)
    assert np.allclose(tau, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tb.Fin(-1.0, 2.0), "area must be at least 0"),
        (lambda: tb.Fin(1.0, 0.0), "aspect_ratio must be positive"),
        (
            lambda: tb.Fin(1.0, 2.0, span=(1, 1, 0), name="rudder"),
            "fin 'rudder': chord must be normal",
        ),
        (lambda: tb.Fin(1.0, 2.0, foil="naca"), "foil must be ThinFoil"),
        (lambda: tb.ThinFoil(stall=(15.0, 30.0)), "angles are in radians"),
        (lambda: tb.ThinFoil(efficiency=0.0), "efficiency must be positive"),
        (lambda: tb.TableFoil((0, 1, 2), (0, 1, 0), (0, 0, 0)), "from -pi to pi, or from 0 to pi"),
        (lambda: tb.TableFoil((0, 1, math.pi), (0.1, 1, 0), (0, 0, 0)), "lift must be zero"),
        (lambda: tb.TableFoil((0, 1, math.pi), (0, 1, 0), (0, -1, 0)), "must not be negative"),
        (lambda: tb.TableFoil((0, math.pi), (0, 0), (0, 0)), "at least three"),
        (lambda: tb.TableFoil((1, 0, math.pi), (0, 0, 0), (0, 0, 0)), "sort the rows"),
        (
            lambda: tb.TableFoil((-math.pi, 0, math.pi), (0, 0, 1), (0, 0, 0)),
            "rows of -pi and pi must agree",
        ),
        (lambda: tb.BodyFluid(fins=(1.0,)), "fins must be a tuple of Fin"),
    ],
)
def test_wrong_fins_are_refused(make, words):
    """Messages say what was expected."""
    with pytest.raises(tb.ModelError, match=words):
        make()


def test_fin_force_needs_water_and_fins_that_turn():
    """Without either there is nothing to compute."""
    model = vehicle(tb.Fin(0.02, 3.0, deflection=0.0))
    q, v = model.neutral(), np.zeros(6)
    with pytest.raises(tb.ModelError, match="fins lift in water"):
        tb.fin_force(model, q, v, [0.0])
    with pytest.raises(tb.ModelError, match="expected fins that can be turned"):
        tb.fin_force(vehicle(tb.Fin(0.02, 3.0)), q, v, [0.0], tb.Water())
