"""Bodies at the surface of the water."""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import OnGraph
from tests.running import raw_kernel
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.algorithms.aba import aba
from tiburon.algorithms.bias import bias, gravity_forces
from tiburon.algorithms.crba import crba
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import surroundings
from tiburon.hydro.submersion import Hull, strip_share

RHO, G = 1000.0, 9.81
SEA = tb.Water(RHO, surface=0.0)


def afloat(geometry, share, *, drag=(), added=None, name="float"):
    """A free body of a simple shape whose mass is a share of what it can displace."""
    volume = tb.estimate_hydrodynamics((tb.Shape(geometry),), RHO).fluid.volume
    mass = share * RHO * volume
    size = volume ** (1.0 / 3.0)
    tensor = tuple(mass * size**2 * x for x in (0.2, 0.25, 0.3))
    fluid = tb.BodyFluid(volume, added_mass=added, drag=drag)
    body = tb.Body(
        name,
        joint=tb.Free(name),
        inertia=tb.Inertia(mass, (0, 0, 0), tensor),
        shapes=(tb.Shape(geometry),),
        fluid=fluid,
    )
    return tb.Model(name, [body])


def at_height(z, quaternion=(1.0, 0.0, 0.0, 0.0)):
    return np.array([*quaternion, 0.3, -0.2, z])


def turned(seed):
    quaternion = np.random.default_rng(seed).normal(size=4)
    return quaternion / np.linalg.norm(quaternion)


# -- shares of solids ------------------------------------------------------------------------------

HALVES = {"ellipsoid": (0.3, 0.5, 0.7), "box": (0.3, 0.5, 0.7), "cylinder": (0.4, 0.4, 0.7)}
HALVES["capsule"] = (0.3, 0.3, 0.7)


def cloud(kind, count=60):
    """Points spread evenly over a solid, by its half sizes."""
    side = (np.arange(count) + 0.5) / count * 2.0 - 1.0
    u = np.stack(np.meshgrid(side, side, side, indexing="ij"), -1).reshape(-1, 3)
    if kind == "ellipsoid":
        return u[(u**2).sum(1) <= 1.0]
    if kind == "capsule":
        x = u * HALVES[kind]
        beyond = np.maximum(np.abs(x[:, 2]) - 0.4, 0.0)
        return u[(x[:, :2] ** 2).sum(1) + beyond**2 <= 0.09]
    return u[(u[:, :2] ** 2).sum(1) <= 1.0] if kind == "cylinder" else u


@pytest.mark.parametrize("kind", HALVES)
def test_submerged_fraction_and_centroid_equal_sampled_points(kind):
    """Any attitude and depth, against counting the points of a fine grid."""
    rng = np.random.default_rng(3)
    u = cloud(kind)
    for _ in range(4):
        axes, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        up = rng.normal(size=3)
        up /= np.linalg.norm(up)
        center, depth = rng.uniform(-0.2, 0.2, 3), rng.uniform(-0.5, 0.5)
        columns = tuple(tuple(axes[:, k].tolist()) for k in range(3))
        hull = Hull(kind, tuple(center.tolist()), columns, HALVES[kind])
        found = hull.submerged(tuple(up.tolist()), float(depth))
        x = (u * HALVES[kind]) @ axes.T
        wet = (x + center) @ up <= depth
        # cells of 1/30 that the surface and the rim cut: some thousandths at most
        assert_close(found.share, wet.mean(), 8e-3)
        assert_close(found.offset, (x * wet[:, None]).sum(0) / len(x), 8e-3)


@pytest.mark.parametrize("kind", HALVES)
def test_fully_dry_and_fully_submerged_are_exact(kind):
    hull = Hull(kind, (0.0, 0.0, 0.0), tuple(map(tuple, np.eye(3).tolist())), HALVES[kind])
    up = (0.0, 0.6, 0.8)
    assert hull.submerged(up, -2.0) == (0.0, (0.0, 0.0, 0.0))
    share, offset = hull.submerged(up, 2.0)
    assert share == 1.0
    assert_close(offset, np.zeros(3), 1e-16)


def test_submerged_fraction_of_a_sphere_is_the_spherical_cap():
    """A cap of height c holds pi c^2 (3 r - c) / 3."""
    r = 0.4
    hull = Hull("ellipsoid", (0.0, 0.0, 0.0), tuple(map(tuple, np.eye(3).tolist())), (r, r, r))
    for depth in np.linspace(-r, r, 7):
        c = r + depth
        cap = np.pi * c**2 * (3 * r - c) / 3.0
        assert_close(hull.submerged((0.0, 0.0, 1.0), depth).share, cap / hull.volume)


def test_capsule_half_under_water_lying_and_standing():
    """Half disks and quarter balls below a lying one, half its length below a standing one."""
    r, half = 0.3, 0.7
    a = half - r
    hull = Hull("capsule", (0.0, 0.0, 0.0), tuple(map(tuple, np.eye(3).tolist())), (r, r, half))
    volume = np.pi * r**2 * 2 * a + 4 / 3 * np.pi * r**3
    assert hull.volume == pytest.approx(volume, rel=1e-14)
    share, offset = hull.submerged((1.0, 0.0, 0.0), 0.0)
    assert share == pytest.approx(0.5, abs=1e-12)
    # half a disk has its moment 2 r^3 / 3 below its middle, half a ball pi r^4 / 4
    moment = 2 * a * 2 * r**3 / 3 + np.pi * r**4 / 4
    assert_close(offset, [-moment / volume, 0.0, 0.0], 1e-15)
    share, offset = hull.submerged((0.0, 0.0, 1.0), 0.0)
    assert share == pytest.approx(0.5, abs=1e-12)
    moment = np.pi * r**2 * a**2 / 2 + 2 / 3 * np.pi * r**3 * a + np.pi * r**4 / 4
    assert_close(offset, [0.0, 0.0, -moment / volume], 1e-15)


def test_upright_solids_sink_in_proportion():
    """Box and cylinder on end: the share is the draft by the height."""
    for kind in ("box", "cylinder"):
        hull = Hull(kind, (0.0, 0.0, 0.0), tuple(map(tuple, np.eye(3).tolist())), HALVES[kind])
        for depth in (-0.6, -0.2, 0.0, 0.5):
            share = hull.submerged((0.0, 0.0, 1.0), depth).share
            assert_close(share, 0.5 + 0.5 * depth / 0.7, 1e-15)


def test_submerged_fraction_of_a_strip_is_that_of_a_disk():
    """Exact at the rims and in the middle, else within 0.013."""
    assert [strip_share(x) for x in (-2.0, -1.0, 0.0, 1.0, 3.0)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    tau = np.linspace(-1.0, 1.0, 401)
    disk = 0.5 + (np.arcsin(tau) + tau * np.sqrt(1.0 - tau**2)) / np.pi
    found = np.array([strip_share(x) for x in tau])
    assert np.abs(found - disk).max() < 0.013
    assert (np.diff(found) >= 0.0).all()


# -- floating --------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_sphere_floats_at_the_draft_that_displaces_its_mass(share):
    """(1 + t)^2 (2 - t) / 4 = share for the depth t of its middle by its radius."""
    r = 0.3
    t = np.roots([-1.0, 0.0, 3.0, 2.0 - 4.0 * share])
    t = float(t[(abs(t.imag) < 1e-9) & (abs(t.real) <= 1.0)][0].real)
    model = afloat(tb.SphereShape(r), share)
    force = tb.gravity_force(model, at_height(-t * r, turned(1)), fluid=SEA)
    assert_close(force, np.zeros(6), 1e-10, scale=share * RHO * 4 * r**3 * G)


def test_a_box_floats_at_its_draft_and_is_righted_by_its_waterplane():
    """Draft = share times height; moment of a small heel = rho g (I - V BG) angle."""
    a, b, c, share, heel = 1.0, 0.6, 0.4, 0.3, 1e-3
    model = afloat(tb.BoxShape((a, b, c)), share)
    draft = share * c
    z = 0.5 * c - draft
    weight = RHO * G * a * b * draft
    force = tb.gravity_force(model, at_height(z), fluid=SEA)
    assert_close(force[5], 0.0, 1e-14, scale=weight)
    tilted = at_height(z, (np.cos(0.5 * heel), np.sin(0.5 * heel), 0.0, 0.0))
    righting = tb.gravity_force(model, tilted, fluid=SEA)[0]
    waterplane, below = a * b**3 / 12.0, z + 0.5 * draft
    expected = RHO * G * (waterplane - a * b * draft * below) * heel
    # the waterplane grows with the square of the angle
    assert_close(righting, expected, 2 * heel**2, scale=expected)


def test_heave_conserves_energy():
    """Without drag and added mass, through the surface and out of it; order 4 of the steps."""
    model = afloat(tb.EllipsoidShape((0.2, 0.3, 0.4)), 0.4)
    q, v = at_height(0.6, turned(5)), np.array([0.5, -0.4, 0.3, 0.0, 0.1, 0.0])
    drifts = []
    for dt, steps in ((4e-3, 500), (2e-3, 1000)):
        run = tb.integrate_rk4(model, q, v, dt=dt, steps=steps, fluid=SEA)
        energy = tb.kinetic_energy(model, run.q, run.v, fluid=SEA) + tb.potential_energy(
            model, run.q, fluid=SEA
        )
        drifts.append(float(np.abs(energy - energy[0]).max() / np.ptp(run.q[:, 6]) / (RHO * G)))
        # it jumps in from the air and comes up again
        assert run.q[:, 6].min() < -0.1
    # kinks of the third derivative at the surface take one order
    assert drifts[1] < 1e-7
    assert drifts[1] < drifts[0] / 6.0


# -- all of dynamics -------------------------------------------------------------------------------


def wet_float(share=0.6):
    geometry = tb.CylinderShape(0.1, 0.8)
    estimate = tb.estimate_hydrodynamics((tb.Shape(geometry),), RHO).fluid
    return afloat(geometry, share, drag=estimate.drag, added=estimate.added_mass)


@pytest.mark.parametrize("current", [(0.4, -0.3, 0.0), tb.LinearShear((0.5, 0.2, 0.0), 20.0)])
def test_surface_has_no_effect_far_above_or_below_it(current):
    """The same accelerations as without a surface, and as on land."""
    model = wet_float()
    v, tau = np.random.default_rng(2).normal(size=(2, 6))
    sea = tb.Water(RHO, current, surface=0.0)
    deep, high = at_height(-2.0, turned(3)), at_height(2.0, turned(4))
    found = tb.forward_dynamics(model, deep, v, tau, fluid=sea)
    assert_close(found, tb.forward_dynamics(model, deep, v, tau, fluid=tb.Water(RHO, current)))
    found = tb.forward_dynamics(model, high, v, tau, fluid=sea)
    assert_close(found, tb.forward_dynamics(model, high, v, tau))


def test_accelerations_are_continuous_through_the_surface():
    """Steps of a tenth of a millimeter change the acceleration little, at any attitude."""
    model = wet_float()
    v, tau = np.random.default_rng(6).normal(size=(2, 6))
    heights = np.arange(-0.6, 0.6, 1e-4)
    q = np.array([at_height(z, turned(7)) for z in heights])
    vd = tb.forward_dynamics(model, q, np.tile(v, (len(q), 1)), tau, fluid=SEA)
    steps = np.abs(np.diff(vd, axis=0)).max()
    # the whole change happens over a height of about 0.5 m: 1e-4 m makes 1/5000 of it, on average
    assert steps < 50 / 5000 * np.ptp(vd, axis=0).max()


def test_strips_above_the_surface_have_no_drag():
    """An upright bar half under water meets half of the drag, and none in the air."""
    model = wet_float()
    v = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])

    def drag(z):
        sea = tb.Water(RHO, strips=64, surface=0.0)
        q, rest = at_height(z), np.zeros(6)
        moving = tb.inverse_dynamics(model, q, v, rest, fluid=sea)
        return (moving - tb.inverse_dynamics(model, q, rest, rest, fluid=sea))[3]

    whole = drag(-2.0)
    # 1/2 rho C 2 r L v^2
    assert_close(whole, RHO * 1.1 * 0.1 * 0.8, 1e-9, scale=whole)
    assert_close(drag(0.0), 0.5 * whole, 1.0 / 64, scale=whole)
    assert drag(2.0) == 0.0


def test_a_walker_half_in_water():
    """Ways to the acceleration agree, forces come back, and water bears a part of the weight."""
    model = tb.load("aquarobot")
    rng = np.random.default_rng(8)
    q, v = model.random_state(rng)
    q[:7] = at_height(0.0)
    state, tau = (q.tolist(), v.tolist()), rng.normal(size=model.nv).tolist()
    lifts, inertias = [], []
    for surface in (-10.0, -0.3, 10.0):
        sea = tb.World(fluid=tb.Water(1025.0, (0.3, 0.1, 0.0), surface=surface))
        here = Setting(model, (), (), *surroundings(model, sea)).at(*state)
        vd = aba(here.plan, *state, tau, here.gravity, here.external)
        H, C = crba(here.plan, state[0]), bias(here.plan, *state, here.gravity, here.external)
        found = np.linalg.solve(np.array(H, dtype=float), np.array(tau) - np.array(C, dtype=float))
        # the mass matrix of a walker with light feet is conditioned like 1e5
        assert_close(vd, found, 1e-10, scale=np.abs(found).max())
        back = rnea(here.plan, *state, vd, here.gravity, here.external)
        assert_close(back, tau, 1e-10, scale=np.abs(found).max())
        lifts.append(gravity_forces(here.plan, state[0], here.gravity, here.water)[5])
        inertias.append(float(np.trace(np.array(H, dtype=float)[3:6, 3:6])))
    assert lifts[0] > lifts[1] > lifts[2]
    assert inertias[0] < inertias[1] < inertias[2]
    assert_close(lifts[0], model.total_mass * G, 1e-12, scale=lifts[0])


def test_a_long_chain_through_the_surface():
    """Models of more than 40 bodies run on a tape; joint forces come back."""
    shape = tb.Shape(tb.CylinderShape(0.05, 0.3), tb.Pose(translation=(0.0, 0.0, 0.15)))
    fluid = tb.estimate_hydrodynamics((shape,), RHO).fluid
    bodies, parent = [], "world"
    for k in range(45):
        pose = tb.Pose(translation=(0.0, 0.0, 0.3 if k else 0.0))
        joint = tb.Revolute(f"joint_{k}", (1, 0, 0) if k % 2 else (0, 1, 0), pose=pose)
        inertia = tb.Inertia(1.0, (0, 0, 0.15), (0.01, 0.01, 0.002))
        body = tb.Body(
            f"link_{k}", parent, joint=joint, inertia=inertia, shapes=(shape,), fluid=fluid
        )
        bodies.append(body)
        parent = body.name
    model = tb.Model("chain", bodies)
    rng = np.random.default_rng(15)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    sea = tb.Water(RHO, (0.2, 0.0, 0.0), surface=0.3)
    vd = tb.forward_dynamics(model, q, v, tau, fluid=sea)
    back = tb.inverse_dynamics(model, q, v, vd, fluid=sea)
    # accelerations of a long chain are large against the forces they cancel from
    assert_close(back, tau, 1e-12, scale=45 * np.abs(vd).max())


def test_batches_and_heights_at_run_time():
    """A batch gives the bits of single calls; the height of the surface is a parameter."""
    model = wet_float()
    rng = np.random.default_rng(9)
    q, v = model.random_state(rng, (9,))
    tau = rng.normal(size=(9, 6))
    batch = tb.forward_dynamics(model, q, v, tau, fluid=SEA)
    for k in range(9):
        assert np.array_equal(batch[k], tb.forward_dynamics(model, q[k], v[k], tau[k], fluid=SEA))
    kernel = raw_kernel(tb.forward_dynamics, model, fluid=SEA)
    higher = tb.forward_dynamics(model, q, v, tau, fluid=tb.Water(RHO, surface=0.2))
    assert np.array_equal(kernel(q, v, tau, fluid=np.array([RHO, 0.2])), higher)


def test_inverse_inertias_include_the_submerged_part():
    """Inverse inertias take the mass matrix of the part under water, too."""
    model = wet_float()
    q = at_height(0.0, turned(14))
    H = tb.mass_matrix(model, q, fluid=SEA)
    whole = tb.mass_matrix(model, q, fluid=tb.Water(RHO))
    assert np.abs(H - whole).max() > 0.1 * np.abs(H).max()
    assert_close(tb.inverse_mass_matrix(model, q, fluid=SEA) @ H, np.eye(6), 1e-12)
    found = tb.operational_space_inertia(model, q, "float", fluid=SEA, axes="frame")
    assert_close(found, H, 1e-10, scale=np.abs(H).max())


@pytest.mark.usefixtures("interpreted")
def test_derivatives_at_the_surface():
    """Against differences of the dynamics itself."""
    model = wet_float()
    rng = np.random.default_rng(10)
    q, v, tau = at_height(0.02, turned(11)), rng.normal(size=6), rng.normal(size=6)
    found = tb.forward_dynamics_derivatives(model, q, v, tau, fluid=SEA)
    h = DIFFERENCE_STEP
    for k in range(6):
        step = np.zeros(6)
        step[k] = h
        high, low = (
            tb.forward_dynamics(model, model.integrate(q, s), v, tau, fluid=SEA)
            for s in (step, -step)
        )
        slope = (high - low) / (2 * h)
        # strips go under within their radius: higher derivatives are large
        assert_close(found.by_q[:, k], slope, 1e-5, scale=max(1.0, np.abs(found.by_q).max()))


def test_external_inertia_adds_to_the_submerged_inertia():
    """external_inertia adds to the added mass of the part under water, at any state."""
    model = wet_float()
    rng = np.random.default_rng(12)
    q, v, tau = at_height(0.0, turned(13)), rng.normal(size=6), rng.normal(size=6)
    A = np.diag([0.1, 0.2, 0.3, 4.0, 5.0, 6.0])
    vd = tb.forward_dynamics(model, q, v, tau, fluid=SEA, external_inertia={"float": A})
    classical = vd.copy()
    classical[3:] += np.cross(v[:3], v[3:])
    force = tb.inverse_dynamics(model, q, v, vd, fluid=SEA)
    assert_close(force, tau - A @ classical, 1e-10, scale=np.abs(tau).max() + np.abs(vd).max())


# -- what is refused -------------------------------------------------------------------------------


def test_a_body_without_shape_and_volume_cannot_float():
    body = tb.Body(
        "point",
        joint=tb.Free("point"),
        inertia=tb.Inertia(1.0, (0, 0, 0), (1, 1, 1)),
        fluid=tb.BodyFluid(added_mass=(0, 0, 0, 1, 1, 1)),
    )
    model = tb.Model("point", [body])
    with pytest.raises(tb.ModelError, match="expected simple shapes or a volume in water"):
        tb.gravity_force(model, model.neutral(), fluid=SEA)


def test_a_body_without_shape_floats_as_a_ball_of_its_volume():
    volume = 4.0 / 3.0 * np.pi * 0.2**3
    body = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia(0.5 * RHO * volume, (0, 0, 0), (1, 1, 1)),
        fluid=tb.BodyFluid(volume),
    )
    model = tb.Model("ball", [body])
    force = tb.gravity_force(model, at_height(0.0), fluid=SEA)
    assert_close(force, np.zeros(6), 1e-12, scale=RHO * volume * G)


def test_surface_must_be_a_number():
    with pytest.raises(tb.ModelError, match="surface"):
        tb.Water(surface="here")


def half_wet(seed):
    """Return the vehicle with its arm, as the surface cuts it, and a state."""
    rng = np.random.default_rng(seed)
    model = tb.load("tiburon_titan")
    q, v = model.random_state(rng)
    q[6] = rng.uniform(-0.2, 0.2)
    return model, q, v, rng


def test_fossen_form_at_a_surface_is_inverse_dynamics():
    """M vd + C v + D v + g = tau in a stream, with what is above the surface left out."""
    model, q, v, rng = half_wet(1)
    stream = tb.Water(RHO, (0.3, -0.2, 0.1), surface=0.0)
    vd = rng.normal(size=model.nv)
    afloat = OnGraph(model, (0.0, 0.0, -G), stream)
    form = tb.FossenForm(*afloat.run("fossen_form", (q, v)))
    tau = form.M @ (vd - form.drift) + (form.C + form.D) @ form.v + form.g
    expected = afloat.run("inverse_dynamics", (q, v, vd))
    assert_close(tau, expected, 1e-12, scale=np.abs(expected).max())
    deep = OnGraph(model, (0.0, 0.0, -G), tb.Water(RHO)).run("mass_matrix", (q,))
    assert np.trace(form.M) < 0.99 * np.trace(deep)


def test_rate_of_the_mass_matrix_with_shares_held_is_twice_coriolis_but_for_a_skew_part():
    """dH/dt = C + C^T where the shares that are wet do not change."""
    model, q, v, _ = half_wet(2)
    plan, _, water = surroundings(model, tb.World(fluid=SEA))
    held = Setting(model, (), (), plan, (0.0, 0.0, -G), water).at(q.tolist(), v.tolist()).plan
    C = OnGraph(model, (0.0, 0.0, -G), SEA).run("coriolis_matrix", (q, v))
    h = DIFFERENCE_STEP / np.abs(v).max()
    after, before = (
        np.array(crba(held, model.integrate(q, t * v).tolist()), dtype=float) for t in (h, -h)
    )
    scale = np.abs(after).max() * np.abs(v).max() ** 3
    assert_close((after - before) / (2.0 * h), C + C.T, DIFFERENCE, scale)
    land = OnGraph(model, (0.0, 0.0, -G), None).run("coriolis_matrix", (q, v))
    assert np.abs(C - land).max() > 0.1 * np.abs(land).max()
