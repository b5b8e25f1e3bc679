"""Numbers of the sources that follow from the files: evidence that the files say what they mean."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.running import OnFloats
from tests.tolerances import PRINTED
from tests.zoo.loops import Pinned, gap_rates, gaps, pose_of
from tiburon.functions.library import LIBRARY

FREEDOMS = {
    "four_bar": 1,
    "balanced_four_bar": 1,
    "five_bar": 2,
    "planar_3rrr": 3,
    "n_four_bar_2": 1,
    "andrews_squeezer": 1,
    "bricard": 1,
    "stewart": 6,
    "delta": 3,
    "planar_walker": 3,
    "two_finger_hand": 3,
    "three_finger_hand": 6,
    "two_pumas": 6,
    "four_pumas": 6,
    # each robot has two more than a load needs
    "mobile_manipulators": 12,
    "strandbeest": 7,
}
"""Degrees of freedom that remain with the loops closed, six of the base among them where free."""


def home(model):
    return np.array(model.poses["home"]) if "home" in model.poses else model.neutral()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "strandbeest" else [])
        for name in FREEDOMS
    ],
)
def test_mobility(name):
    """Freedoms of the tree less the rank of the loops' rates: what the sources count."""
    model = tb.load(name)
    values = np.linalg.svd(gap_rates(model, home(model)), compute_uv=False)
    # central differences lose 1e-10; lengths of a few centimeters to a few meters keep above 1e-4
    assert not np.any((values > 1e-8) & (values < 1e-4))
    assert model.nv - int(np.sum(values > 1e-6)) == FREEDOMS[name]


def test_four_bar_accelerates_as_published():
    """The standard case of the linkage: crank at 1 rad and 3 rad/s, no torque (eq. 9.17)."""
    model = tb.load("four_bar")
    q = home(model)
    at_rest = Pinned(model, q, np.zeros(3))
    rates = np.linalg.lstsq(at_rest.J[:, 1:], -3.0 * at_rest.J[:, 0], rcond=1e-12)[0]
    v = np.array([3.0, *rates])
    expected = [-19.79873557, 26.87156196, -0.77944604]
    # printed with eight decimals
    assert Pinned(model, q, v).acceleration(np.zeros(3)) == pytest.approx(expected, abs=6e-9)


def test_planar_3rrr_is_held_by_the_published_torques():
    """Inverse dynamics of Khan's motion at its start, where it is at rest."""
    model = tb.load("planar_3rrr")
    torques = Pinned(model, home(model), np.zeros(7)).holding(["theta_1", "theta_2", "theta_3"])
    expected = [-1.4186165879, -20.7072327410, 44.2761921876]
    # ten decimals, from a pose given with ten
    assert torques == pytest.approx(expected, abs=50 * PRINTED)


def test_planar_3rrr_falls_as_published():
    """Accelerations of the motors' joints when all torques vanish."""
    model = tb.load("planar_3rrr")
    vd = Pinned(model, home(model), np.zeros(7)).acceleration(np.zeros(7))
    expected = [-1.777660559184, 20.407554563218, -31.546287547439]
    assert vd[:3] == pytest.approx(expected, abs=50 * PRINTED)


def test_printed_pose_of_the_planar_3rrr_is_open_by_its_rounding():
    """The pose as printed misses by less than a millimeter, and not by less than 1e-5 m."""
    model = tb.load("planar_3rrr")
    miss = np.abs(gaps(model, np.array(model.poses["printed"]))).max()
    # two of its coordinates enter each loop with half of 1e-3
    assert 1e-5 < miss < 1.1e-3


def test_balanced_four_bar_keeps_its_center_of_mass():
    """Over a quarter turn it stays within 4e-5 m of (2.6672, 0.2880)."""
    from tools.zoo.closing import close

    model = tb.load("balanced_four_bar")
    guess = dict(zip(model.joint_names, home(model), strict=True))
    for angle in np.linspace(0.0, math.pi / 2.0, 7):
        guess["joint_1"] = float(angle)
        q = close(model, guess, hold=("joint_1",))
        guess = dict(zip(model.joint_names, q, strict=True))
        total = np.zeros(3)
        for body in model.bodies:
            R, p = pose_of(model, q, body.name)
            total += body.inertia.mass * (p + R @ body.inertia.com)
        x, y, z = total / model.total_mass
        assert y == pytest.approx(0.0, abs=1e-15)
        assert math.hypot(x - 2.6672, z - 0.2880) < 1e-4


def test_andrews_squeezer_has_the_mass_matrix_of_the_test_set():
    """The tree's mass matrix against the closed form of the IVP test set."""
    model = tb.load("andrews_squeezer")
    names = ["beta", "Theta", "gamma", "Phi", "delta", "Omega", "epsilon"]
    start = home(model)
    q = dict(zip(model.joint_names, start, strict=True))
    m = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
    I = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
    da, rr, ra, sa, sb = 0.0115, 0.007, 0.00092, 0.01874, 0.01043
    e_ea, zf_fa = 0.02 - 0.01421, 0.02 - 0.01421
    ta, t_b, u, ua, ub, zt = 0.02308, 0.00916, 0.04, 0.01228, 0.00449, 0.04
    M = np.zeros((7, 7))
    c2, s4, s6 = math.cos(q["Theta"]), math.sin(q["Phi"]), math.sin(q["Omega"])
    M[0, 0] = m[0] * ra**2 + m[1] * (rr**2 - 2 * da * rr * c2 + da**2) + I[0] + I[1]
    M[1, 0] = m[1] * (da**2 - da * rr * c2) + I[1]
    M[1, 1] = m[1] * da**2 + I[1]
    M[2, 2] = m[2] * (sa**2 + sb**2) + I[2]
    M[3, 3] = m[3] * e_ea**2 + I[3]
    M[4, 3] = m[3] * (e_ea**2 + zt * e_ea * s4) + I[3]
    M[4, 4] = m[3] * (zt**2 + 2 * zt * e_ea * s4 + e_ea**2) + m[4] * (ta**2 + t_b**2) + I[3] + I[4]
    M[5, 5] = m[5] * zf_fa**2 + I[5]
    M[6, 5] = m[5] * (zf_fa**2 - u * zf_fa * s6) + I[5]
    M[6, 6] = m[5] * (zf_fa**2 - 2 * u * zf_fa * s6 + u**2) + m[6] * (ua**2 + ub**2) + I[5] + I[6]
    M = M + np.tril(M, -1).T
    order = model.indices(names, of="v")
    ours = OnFloats(model.without_loops()).mass_matrix(start)[np.ix_(order, order)]
    # some ten products each
    assert ours == pytest.approx(M, rel=1e-13, abs=1e-20)


def test_delta_arms_stand_as_published():
    """Williams gives -20.5 degrees, measured down, for a platform 0.9 m below the motors."""
    model = tb.load("delta")
    offsets = [math.degrees(model.joint(f"arm_{k}_shoulder").offset) for k in (1, 2, 3)]
    # printed with one decimal
    assert offsets == pytest.approx([-20.5] * 3, abs=0.051)


def test_puma_carries_the_published_gravity_load():
    """Armstrong et al. 1986: g1 = -37.2 and g2 = -8.44 N m at the shoulder."""
    arm = tb.load("puma560")
    zero, v = np.zeros(6), np.zeros(6)
    # stretched forward the upper arm counts, G2 = g1 + g4; joint 2 turns downward
    load = OnFloats(arm).inverse_dynamics(zero, v, v)[1]
    assert load == pytest.approx(-37.2 + 0.25, abs=0.15)
    # forearm level: G3 = g2 sin(q2 + q3) + g4 cos(q2 + q3)
    q = np.array([0.0, 0.0, math.pi / 2.0, 0.0, 0.0, 0.0])
    load = OnFloats(arm).inverse_dynamics(q, v, v)[2]
    assert load == pytest.approx(-8.44, abs=0.15)


def test_remus_has_the_derived_mass_and_moments():
    """31.03 kg, 0.1120 and 4.028 kg m^2; it floats."""
    hull = tb.load("remus100").bodies[0]
    assert hull.inertia.mass == pytest.approx(31.03, abs=0.005)
    assert np.diag(hull.inertia.matrix) == pytest.approx([0.1120, 4.028, 4.028], abs=5e-4)
    assert hull.fluid.volume * 1026.0 == pytest.approx(hull.inertia.mass, rel=1e-12)


@pytest.mark.parametrize("name", ["tiburon_titan", "two_arm_rov"])
def test_vehicle_floats_level_in_sea_water(name):
    """With the arms at zero, weight and buoyancy are equal and on one line, buoyancy above."""
    model = tb.load(name)
    q = model.neutral()
    mass, volume, heavy, light = 0.0, 0.0, np.zeros(3), np.zeros(3)
    for body in model.bodies:
        R, p = pose_of(model, q, body.name)
        mass += body.inertia.mass
        volume += body.fluid.volume
        heavy += body.inertia.mass * (p + R @ body.inertia.com)
        light += body.fluid.volume * (p + R @ body.fluid.center_of_buoyancy)
    assert 1025.0 * volume == pytest.approx(mass, rel=1e-12)
    gap = light / volume - heavy / mass
    assert gap[:2] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert gap[2] > 0.2
    assert 3300.0 < mass < 3600.0


@pytest.mark.parametrize("name", ["tiburon_titan", "two_arm_rov"])
def test_vehicle_hangs_still_in_sea_water(name):
    """Dynamics in water agrees: with its joints locked at zero nothing accelerates."""
    model = tb.load(name)
    model = model.lock([joint for joint in model.moving_joint_names if joint != "base"])
    sea = tb.World(fluid=tb.Water(density=1025.0))
    rest = np.zeros(6)
    run = LIBRARY["forward_dynamics"].run
    acceleration = np.array(run(model, sea, (), model.neutral(), rest, rest), dtype=float)
    # weight and buoyancy of 33 kN cancel to rounding
    assert np.abs(acceleration).max() < 1e-13


def test_rexrov_added_mass_is_in_our_order_and_axes():
    """X_udot stays, and couplings between y and roll change no sign while x and pitch change it."""
    M = np.array(tb.load("rexrov").bodies[0].fluid.added_mass)
    assert M[3, 3] == 779.79
    assert M[5, 5] == 3659.9
    # y and roll: both y and x keep or flip as (y, z down): y flips, roll does not
    assert M[4, 0] == -409.44
    # x and pitch: pitch flips
    assert M[3, 1] == 165.54
    # z and yaw: both flip; the two printed values are averaged
    assert M[5, 2] == pytest.approx(10.7745, rel=1e-12)
    # read so, it acts where the buoyancy does: above the center of mass, in surge and in sway
    assert M[3, 1] / M[3, 3] == pytest.approx(0.2123, abs=1e-4)
    assert -M[4, 0] / M[4, 4] == pytest.approx(0.3351, abs=1e-4)


def test_flexible_arm_bends_at_the_frequency_of_the_beam():
    """First mode of the clamped blade: 3.5160 sqrt(E I / (rho A l^4)), Euler and Bernoulli."""
    arm = tb.load("flexible_arm").lock("motor")
    H = OnFloats(arm).mass_matrix(np.zeros(arm.nv))
    K = np.diag([joint.passive.stiffness for joint in arm.joints if joint.nv])
    first = math.sqrt(min(np.linalg.eigvals(np.linalg.solve(H, K)).real))
    EI, line = 70e9 * 0.05 * 0.005**3 / 12.0, 2700.0 * 0.05 * 0.005
    # cutting into ten errs by about (pi / 2 / 10)^2 / 3 = 0.8 %
    assert first == pytest.approx(3.5160 * math.sqrt(EI / line), rel=0.01)


def test_kerr_roth_grasp_has_the_published_equilibrium():
    """Contact forces enter the balance of the object by the matrix that is printed."""
    model = tb.load("kerr_roth_grasp")
    q = model.neutral()
    A = np.zeros((6, 8))
    Ro, po = pose_of(model, q, "object")
    for k, name in enumerate(["contact_1", "contact_2"]):
        R, p = pose_of(model, q, name)
        axes, arm = Ro.T @ R, Ro.T @ (p - po)
        A[:3, 4 * k : 4 * k + 3] = axes
        A[3:, 4 * k : 4 * k + 3] = np.cross(arm, axes.T).T
        A[3:, 4 * k + 3] = axes[:, 2]
    printed = [
        [0, 1, 0, 0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, -1, 0],
        [1, 0, 0, 0, 0, 1, 0, 0],
        [-1, 0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, -1],
        [0, 1, 0, 0, -1, 0, 0, 0],
    ]
    assert np.abs(A - printed).max() < 1e-15
    weight = Ro.T @ np.array([0.0, 0.0, -9.81]) * model.body("object").inertia.mass
    # the load of the source is (0, 1, 1) N
    assert weight == pytest.approx([0.0, 1.0, 1.0], abs=1e-14)


def test_remus_has_the_published_steering_response():
    """Small angles at 2 m/s: Y_r, Z_s, their moments and drag, in marine axes."""
    auv, rho, speed, angle = tb.load("remus100"), 1026.0, 2.0, 1e-3
    assert [fin.name for _, fin in tb.steerable_fins(auv)] == ["rudder", "stern planes"]
    v = np.array([0.0, 0.0, 0.0, speed, 0.0, 0.0])
    pressure = 0.5 * rho * speed**2
    for which, area, slope in ((0, 0.10 * 0.05, 0.5), (1, 2 * 0.10 * 0.05, 0.7)):
        deflections = np.zeros(2)
        deflections[which] = angle
        tau = tb.fin_force(auv, auv.neutral(), v, deflections, tb.Water(rho))
        K, M, N, X, Y, Z = tau * (1, -1, -1, 1, -1, -1)
        force = -pressure * area * slope * angle
        # a sine stands for the angle
        assert (Y, Z)[which] == pytest.approx(force, rel=angle**2)
        # the arm of 0.8 m is behind: yaw by x Y; pitch by -x Z, where the source has x Z
        assert (N, M)[which] == pytest.approx((-0.8, 0.8)[which] * force, rel=angle**2)
        assert abs(X - force * angle) < 2.0 * angle**2 * abs(force * angle)
        assert abs(K) + abs((Z, Y)[which]) < 1e-12 * abs(force)


def test_sliding_and_rolling_robots_have_the_published_degrees_of_freedom_and_limits():
    """Velocities that an edge and a rim leave free; numbers that the heads of the files print."""
    sleigh, disc = tb.load("chaplygin_sleigh"), tb.load("rolling_disc")
    assert [tb.mobility(model).mobility for model in (sleigh, disc)] == [2, 3]
    plate = sleigh.body("sleigh").inertia
    about_runner = plate.matrix[2, 2] + plate.mass * plate.com[0] ** 2
    assert about_runner == pytest.approx(0.27333, abs=5e-6)
    coin, (rim,) = disc.body("disc").inertia, disc.loops
    A, C, load = coin.matrix[0, 0], coin.matrix[1, 1], coin.mass * rim.radius
    # rolls on steadily where (C + m r^2) C n^2 / A outweighs m g r
    slowest = math.sqrt(A * load * 9.81 / (C * (C + load * rim.radius)))
    assert slowest == pytest.approx(3.6166, abs=5e-5)
