"""Modes of robots with loops: closed forms, and trees that are the same robot."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.simulation.modes import along_loops, swing

G = 9.81
WEIGHTLESS = tb.World(gravity=(0.0, 0.0, 0.0))
Y = (0.0, 1.0, 0.0)


def at(*translation):
    return tb.Pose(translation=translation)


def parallelogram(cranks=2, length=0.6, span=0.9, crank_mass=0.8, mass=2.0):
    """A coupler hanging on parallel cranks: it swings without turning.

    From three cranks on, all but two repeat what the others ask for.
    """
    rod = tb.Inertia(crank_mass, (0.0, 0.0, -0.4 * length), (0.02, 0.02, 0.001))
    places = [k * span / (cranks - 1) for k in range(cranks)]
    bodies = [
        tb.Body(f"crank {k}", joint=tb.Revolute(f"pivot {k}", Y, pose=at(x, 0, 0)), inertia=rod)
        for k, x in enumerate(places)
    ]
    bodies.append(
        tb.Body(
            "coupler",
            "crank 0",
            joint=tb.Revolute("knee", Y, pose=at(0, 0, -length)),
            inertia=tb.Inertia(mass, (0.4 * span, 0.0, 0.05), (0.1, 0.2, 0.2)),
        )
    )
    loops = [
        tb.LoopClosure(
            f"pin {k}", "coupler", f"crank {k}", tb.Revolute(f"pin {k}", Y, pose=at(x, 0, 0)),
            at(0, 0, -length),
        )
        for k, x in enumerate(places)
        if k
    ]  # fmt: skip
    return tb.Model("parallelogram", bodies, loops=loops)


def swing_rate(cranks, length=0.6, crank_mass=0.8, mass=2.0):
    """The coupler counts as a point at the end of a crank: it does not turn."""
    moment = cranks * (0.02 + crank_mass * (0.4 * length) ** 2) + mass * length**2
    return np.sqrt((cranks * crank_mass * 0.4 + mass) * G * length / moment)


@pytest.mark.parametrize("cranks", [2, 3])
def test_a_parallelogram_swings_as_a_pendulum(cranks):
    """One freedom, also where constraints repeat each other; loops stay closed."""
    model = parallelogram(cranks)
    start = np.r_[np.full(cranks, 0.4), -0.4]
    found = tb.modes(model, start)
    assert_close(found.frequencies, [swing_rate(cranks)])
    assert len(found) == 1
    assert found.zeros == 0
    assert np.abs(found.q).max() < 1e-9
    assert np.abs(tb.constraint_residual(model, found.q)).max() < 1e-12
    assert_close(found[0].shape.real, found[0].shape.real[0] * np.r_[np.ones(cranks), -1.0])
    # the linear motion of all joints is that of linearize
    near = tb.linearize(model, found.q, np.zeros(cranks + 1), np.zeros(cranks + 1))
    assert_close(found.A, near.A, 1e-11, np.abs(near.A).max())


def test_modes_satisfy_the_loop_constraints():
    model = parallelogram()
    found = tb.modes(model)
    q = found.position(0, 0.7, np.linspace(0.0, 6.0, 13))
    assert np.abs(tb.constraint_residual(model, q)).max() < 1e-12
    # the cranks turn alike and the coupler stays level, far beyond small motions
    assert_close(q[:, 0], q[:, 1])
    assert_close(q[:, 0], -q[:, 2])
    assert abs(q[0, 0]) == pytest.approx(0.7, abs=0.1)
    _, frames, amplitude = swing(found, 0)
    assert amplitude > 0.1
    assert np.abs(tb.constraint_residual(model, frames)).max() < 1e-12
    # joints of most mechanisms leave straight lines at once
    model = tb.load("four_bar")
    found = tb.modes(model)
    straight = found.q + 0.3 * found[0].shape.real
    assert np.abs(tb.constraint_residual(model, straight)).max() > 1e-3
    q = found.position(0, 0.3, np.linspace(0.0, 6.0, 5))
    assert np.abs(tb.constraint_residual(model, q)).max() < 1e-12
    # there and back, not stuck where it started
    assert np.abs(q[0] - found.q).max() > 0.2
    # what cannot be closed is not shown
    with pytest.raises(tb.DomainError, match="amplitude: expected one that loops allow"):
        along_loops(elbow(2.5), np.zeros(2), np.array([0.1, 0.0]), 0.0)


def test_a_parallelogram_on_a_driven_carriage():
    """At a frozen time it hangs along gravity less acceleration, and swings by its length."""
    plain = parallelogram()
    amplitude, rate, when = 0.02, 2.0 * np.pi * 1.5, 0.4
    slide = tb.Driven("rail", tb.Prismatic("slide", (1, 0, 0)), tb.Harmonic(amplitude, 1.5, 0.3))
    car = tb.Body("car", joint=slide, inertia=tb.Inertia.point(1.0))
    carried = [replace(b, parent="car") if b.parent == "world" else b for b in plain.bodies]
    model = tb.Model("carried", [car, *carried], loops=plain.loops)
    found = tb.modes(model, time=when)
    a = -amplitude * rate**2 * np.sin(rate * when + 0.3)
    angle = np.arctan(a / G)
    assert abs(angle) > 0.05
    assert_close(found.q, angle * np.array([1.0, 1.0, -1.0]), 1e-9)
    assert_close(found.frequencies, [swing_rate(2) * (1.0 + (a / G) ** 2) ** 0.25], 1e-9)
    assert np.abs(tb.constraint_residual(model, found.position(0, 0.4), time=when)).max() < 1e-12


def elbow(span):
    """Two rods, their ends held at a distance."""
    rod = tb.Inertia(1.0, (0.5, 0.0, 0.0), (1e-3, 0.1, 0.1))
    bodies = [
        tb.Body("upper", joint=tb.Revolute("shoulder", Y), inertia=rod),
        tb.Body("lower", "upper", joint=tb.Revolute("elbow", Y, pose=at(1, 0, 0)), inertia=rod),
    ]
    pin = tb.Revolute("wrist", Y, pose=at(1, 0, 0))
    return tb.Model(
        "elbow", bodies, loops=[tb.LoopClosure("wrist", "lower", "world", pin, at(span, 0, 0))]
    )


def test_singular_poses_are_refused():
    """Flat, a parallelogram could go two ways; a stretched elbow can go none."""
    flat = np.array([-0.5, -0.5, 0.5]) * np.pi
    with pytest.raises(
        tb.DomainError, match=r"singular pose: 1 independent .* leave 2 degrees of freedom"
    ):
        tb.modes(parallelogram(), flat, solve=False, world=WEIGHTLESS)
    with pytest.raises(tb.DomainError, match="singular pose"):
        tb.modes(elbow(2.0), np.zeros(2), solve=False)
    # bent, it stands still, and that is that
    bent = tb.modes(elbow(1.2))
    assert len(bent) == 0
    assert bent.zeros == 0


def test_a_slider_crank_on_a_spring():
    """One freedom: w^2 = k x'^2 / M and 2 zeta w = c x'^2 / M with M = I + m x'^2 + rod."""
    r, length, k, c, angle = 0.3, 0.8, 900.0, 4.0, 0.9
    I_crank, m_rod, I_rod, m = 0.05, 0.7, 0.03, 1.4
    lean = -np.arcsin(r * np.sin(angle) / length)
    x = r * np.cos(angle) + length * np.cos(lean)
    spring = tb.JointPassive(stiffness=k, damping=c, rest=x)
    Z = (0.0, 0.0, 1.0)
    bodies = [
        tb.Body(
            "crank",
            joint=tb.Revolute("crank", Z),
            inertia=tb.Inertia(1.0, (0, 0, 0), (I_crank,) * 3),
        ),
        tb.Body(
            "rod",
            "crank",
            joint=tb.Revolute("big end", Z, pose=at(r, 0, 0)),
            inertia=tb.Inertia(m_rod, (0.5 * length, 0, 0), (0.001, I_rod, I_rod)),
        ),
        tb.Body(
            "piston",
            joint=tb.Prismatic("cylinder", (1, 0, 0), passive=spring),
            inertia=tb.Inertia.point(m),
        ),
    ]
    pin = tb.Revolute("small end", Z, pose=at(length, 0, 0))
    model = tb.Model("slider", bodies, loops=[tb.LoopClosure("small end", "rod", "piston", pin)])
    guess = np.array([angle + 0.1, lean - angle - 0.1, x + 0.05])
    found = tb.modes(model, guess, world=WEIGHTLESS)
    assert_close(found.q, [angle, lean - angle, x], 1e-9)
    turn = -r * np.cos(angle) / (length * np.cos(lean))
    slope = -r * np.sin(angle) - length * np.sin(lean) * turn
    center = np.array(
        [
            -r * np.sin(angle) - 0.5 * length * np.sin(lean) * turn,
            r * np.cos(angle) + 0.5 * length * np.cos(lean) * turn,
        ]
    )
    M = I_crank + m * slope**2 + I_rod * turn**2 + m_rod * center @ center
    (mode,) = found
    assert mode.natural_frequency == pytest.approx(np.sqrt(k / M) * abs(slope), rel=1e-9)
    assert mode.damping_ratio == pytest.approx(0.5 * c * abs(slope) / np.sqrt(k * M), rel=1e-9)
    shape = np.array([1.0, turn - 1.0, slope])
    assert_close(mode.shape.real, shape / shape[np.argmax(np.abs(shape))], 1e-9)


def double_pendulum(by_loop):
    """Two links in water; the second hangs on a hinge, or floats and a loop is the hinge."""
    water = tb.BodyFluid(
        volume=1e-3,
        center_of_buoyancy=(0, 0, -0.1),
        added_mass=(0.01, 0.02, 0.01, 0.3, 0.2, 0.1),
        linear_damping=(0.05, 0.08, 0.02, 1.0, 1.5, 0.7),
    )
    upper = tb.Body(
        "upper",
        joint=tb.Revolute("shoulder", Y),
        inertia=tb.Inertia(1.5, (0.05, 0, -0.4), (0.05, 0.06, 0.02)),
        fluid=water,
    )
    hinge = tb.Revolute("elbow", Y, pose=at(0.1, 0.0, -0.7))
    lower = tb.Body(
        "lower",
        "upper",
        joint=hinge,
        inertia=tb.Inertia(2.2, (0, 0, -0.3), (0.03, 0.04, 0.02)),
        fluid=water,
    )
    if not by_loop:
        return tb.Model("double pendulum", [upper, lower])
    floating = replace(lower, parent="world", joint=tb.Free("base"))
    loop = tb.LoopClosure("elbow", "upper", "lower", hinge)
    return tb.Model("closed pendulum", [upper, floating], loops=[loop])


def closed_state(q, v):
    """The state of the closed pendulum that is one of the tree."""
    tree = double_pendulum(False)
    R, p = tb.forward_kinematics(tree, q, "lower")
    half = 0.5 * (q[0] + q[1])
    position = np.r_[q[0], np.cos(half), 0.0, np.sin(half), 0.0, p]
    twist = tb.frame_jacobian(tree, q, "lower") @ v
    return position, np.r_[v[0], R.T @ twist[:3], R.T @ twist[3:]]


def test_a_hinge_written_as_a_loop_changes_no_mode():
    """Added mass, buoyancy and damping of water; a floating body with a quaternion."""
    tree, model, sea = double_pendulum(False), double_pendulum(True), tb.Water(1025.0)
    plain = tb.modes(tree, [0.3, 0.2], fluid=sea)
    start, _ = closed_state(np.array([0.3, 0.2]), np.zeros(2))
    found = tb.modes(model, start, fluid=sea)
    assert np.abs(tb.constraint_residual(model, found.q)).max() < 1e-12
    assert len(found) == len(plain) == 2
    # forces in balance up to rounding, and what equilibria make of it
    assert_close(found.q, closed_state(plain.q, np.zeros(2))[0], 1e-9)
    for a, b in zip(found, plain, strict=True):
        assert a.eigenvalue == pytest.approx(b.eigenvalue, rel=1e-9)
        assert b.damping_ratio > 0.01
        ratio = b.shape[0] / a.shape[0]
        rates = closed_state(plain.q, b.shape.real)[1] + 1j * closed_state(plain.q, b.shape.imag)[1]
        assert_close(np.abs(a.shape * ratio - rates), np.zeros(7), 1e-9)


def spun(by_loop):
    """A hub that turns freely about z with a hinged rod; or the rod floats and a loop hinges it."""
    hub = tb.Body(
        "hub", joint=tb.Revolute("hub"), inertia=tb.Inertia(2.0, (0, 0, 0), (0.5, 0.5, 0.8))
    )
    hinge = tb.Revolute("hinge", Y, pose=at(0.2, 0, 0))
    inertia = tb.Inertia(1.3, (0.0, 0.03, -0.6), (0.08, 0.09, 0.02))
    rod = tb.Body("rod", "hub", joint=hinge, inertia=inertia)
    if not by_loop:
        return tb.Model("spun", [hub, rod])
    floating = replace(rod, parent="world", joint=tb.Free("base"))
    return tb.Model("spun", [hub, floating], loops=[tb.LoopClosure("hinge", "hub", "rod", hinge)])


def test_a_rod_on_a_turning_hub():
    """Velocities that keep loops closed change with position: taken along exactly."""
    tree, model = spun(False), spun(True)
    plain = tb.modes(tree, [0.0, -0.8], v=[5.0, 0.0])
    assert abs(plain.q[1]) > 0.3
    _, p = tb.forward_kinematics(tree, plain.q, "rod")
    half = 0.5 * plain.q[1]
    q = np.r_[0.0, np.cos(half), 0.0, np.sin(half), 0.0, p]
    v = _turning_as_one(model, q, 5.0)
    found = tb.modes(model, q, v=v)
    assert_close(found.q, q, 1e-9)
    assert found.zeros == plain.zeros
    # equilibria are found to 1e-9 of the weight
    assert_close(found.frequencies, plain.frequencies, 1e-8)
    assert len(found.frequencies) == 1


def _turning_as_one(model, q, speed):
    """Velocity of a hub and of the rod that goes with it."""
    R, p = tb.forward_kinematics(model, q, "rod")
    omega = np.array([0.0, 0.0, speed])
    return np.r_[speed, R.T @ omega, R.T @ np.cross(omega, p)]


def test_velocities_that_are_not_stationary_are_refused():
    model = double_pendulum(True)
    position, rate = closed_state(np.array([0.5, -0.8]), np.array([1.3, -2.1]))
    with pytest.raises(tb.DomainError, match="stays closed only if joints accelerate"):
        tb.modes(model, position, v=rate, solve=False)
    with pytest.raises(tb.DomainError, match="opens loop 'elbow'"):
        tb.modes(model, position, v=np.r_[1.0, np.zeros(6)], solve=False)


def legs(turned):
    """A plate in a plane on three sprung legs, at rest in a turned pose; with M and K by hand."""
    m, moment, slider, barrel = 3.0, 0.2, 0.4, 0.07
    feet = np.array([[0.0, 0.0], [2.0, 0.1], [0.9, 1.8]])
    pins = np.array([[-0.3, -0.2], [0.35, -0.2], [0.0, 0.3]])
    stiffness, center = (300.0, 500.0, 400.0), np.array([0.9, 0.7])
    c, s = np.cos(turned), np.sin(turned)
    R = np.array([[c, -s], [s, c]])
    bodies = [
        tb.Body("plate", joint=tb.Planar("plate"), inertia=tb.Inertia(m, (0, 0, 0), (moment,) * 3))
    ]
    loops, M, K, q = [], np.diag([moment, m, m]), np.zeros((3, 3)), []
    for k in range(3):
        arm = R @ pins[k]
        reach = center + arm - feet[k]
        length = np.linalg.norm(reach)
        spring = tb.JointPassive(stiffness=stiffness[k], rest=length)
        bodies += [
            tb.Body(
                f"barrel {k}",
                joint=tb.Revolute(f"foot {k}", pose=at(*feet[k], 0)),
                inertia=tb.Inertia(1.0, (0, 0, 0), (barrel,) * 3),
            ),
            tb.Body(
                f"slider {k}",
                f"barrel {k}",
                joint=tb.Prismatic(f"leg {k}", (1, 0, 0), passive=spring),
                inertia=tb.Inertia.point(slider),
            ),
        ]
        pin = tb.Revolute(f"pin {k}", pose=at(*pins[k], 0))
        loops.append(tb.LoopClosure(f"pin {k}", "plate", f"slider {k}", pin))
        # velocity of the pin per turn and shift of the plate
        A = np.array([[-arm[1], 1.0, 0.0], [arm[0], 0.0, 1.0]])
        n = reach / length
        t = np.array([-n[1], n[0]])
        M = M + A.T @ (slider * np.eye(2) + barrel / length**2 * np.outer(t, t)) @ A
        K = K + stiffness[k] * A.T @ np.outer(n, n) @ A
        q += [np.arctan2(reach[1], reach[0]), length]
    model = tb.Model("plate on legs", bodies, loops=loops)
    return model, np.array([*center, turned, *q]), M, K


def test_a_platform_on_sprung_legs():
    """Three DoF of nine: w^2 of K = sum k n n^T and M = plate, sliders and barrels."""
    model, start, M, K = legs(0.4)
    assert np.abs(tb.constraint_residual(model, start)).max() < 1e-12
    found = tb.modes(model, start, world=WEIGHTLESS)
    assert_close(found.frequencies**2, np.sort(np.linalg.eigvals(np.linalg.solve(M, K)).real), 1e-9)
    assert len(found) == 3
    assert_close(found.q, start, 1e-9)


def stewart(quaternion, center):
    """A platform on six sprung legs, at rest in a given pose; with M and K by hand, world axes."""
    m, moments, slider, barrel = 4.0, np.array([0.3, 0.4, 0.5]), 0.3, 0.06
    R = np.array(tb.Pose.from_quaternion(quaternion).rotation)
    bodies = [tb.Body("platform", joint=tb.Free("base"), inertia=tb.Inertia(m, (0, 0, 0), moments))]
    loops, q = [], [*quaternion, *center]
    M, K = np.zeros((6, 6)), np.zeros((6, 6))
    M[:3, :3], M[3:, 3:] = R @ np.diag(moments) @ R.T, m * np.eye(3)
    for k in range(6):
        low, high = np.pi / 3 * (k + 0.4 * (-1) ** k), np.pi / 3 * (k - 0.3 * (-1) ** k)
        foot = 0.9 * np.array([np.cos(low), np.sin(low), 0.0])
        pin = 0.5 * np.array([np.cos(high), np.sin(high), -0.1])
        arm = R @ pin
        reach = center + arm - foot
        length = np.linalg.norm(reach)
        n = reach / length
        side = np.cross(Y, n) / np.linalg.norm(np.cross(Y, n))
        upright = tb.Pose(np.array([side, np.cross(n, side), n]).T, foot)
        stiffness = 200.0 + 50.0 * k
        spring = tb.JointPassive(stiffness=stiffness, rest=length)
        bodies += [
            tb.Body(
                f"barrel {k}",
                joint=tb.Universal(f"foot {k}", pose=upright),
                inertia=tb.Inertia(1.0, (0, 0, 0), (barrel, barrel, 0.0)),
            ),
            tb.Body(
                f"slider {k}",
                f"barrel {k}",
                joint=tb.Prismatic(f"leg {k}", (0, 0, 1), passive=spring),
                inertia=tb.Inertia.point(slider),
            ),
        ]
        ball = tb.Spherical(f"ball {k}", pose=at(*pin))
        loops.append(tb.LoopClosure(f"ball {k}", "platform", f"slider {k}", ball))
        # velocity of the ball per turn and shift of the platform
        A = np.hstack([np.cross(np.eye(3), arm).T, np.eye(3)])
        across = np.eye(3) - np.outer(n, n)
        M += A.T @ (slider * np.eye(3) + barrel / length**2 * across) @ A
        K += stiffness * A.T @ np.outer(n, n) @ A
        q += [0.0, 0.0, length]
    return tb.Model("platform", bodies, loops=loops), np.array(q), M, K


@pytest.mark.slow
def test_a_stewart_platform_on_springs():
    """Six degrees of freedom of 24, tilted: w^2 of K and M summed over the legs by hand."""
    turn = np.array([1.0, 0.05, -0.08, 0.1])
    model, start, M, K = stewart(turn / np.linalg.norm(turn), np.array([0.05, 0.1, 0.8]))
    assert np.abs(tb.constraint_residual(model, start)).max() < 1e-12
    found = tb.modes(model, start, world=WEIGHTLESS)
    assert_close(found.frequencies**2, np.sort(np.linalg.eigvals(np.linalg.solve(M, K)).real), 1e-9)
    assert len(found) == 6


def test_a_runner_that_leads_or_trails():
    """A sleigh at speed u, its mass a ahead of the blade: turning decays by m a u / (I + m a^2)."""
    a, m, moment, speed = 0.3, 2.0, 0.4, 1.7
    body = tb.Body(
        "sleigh", joint=tb.Planar("ground"), inertia=tb.Inertia(m, (a, 0, 0), (moment,) * 3)
    )
    model = tb.Model("sleigh", [body], loops=[tb.Blade("runner", "world", "sleigh")])
    along = np.array([speed, 0.0, 0.0])
    for sign, kind in ((1.0, "decay"), (-1.0, "growth")):
        found = tb.modes(model, v=sign * along, world=WEIGHTLESS)
        (mode,) = [mode for mode in found if mode.kind != "free"]
        assert mode.kind == kind
        expected = -sign * m * a * speed / (moment + m * a * a)
        assert mode.eigenvalue.real == pytest.approx(expected, rel=1e-9)
        # place and heading, and speed and turning: five numbers tell its state
        assert found.zeros == 4


def test_modes_need_closed_loops_without_switches():
    model = parallelogram()
    with pytest.raises(tb.DomainError, match="loop 'pin 1' open by"):
        tb.modes(model, [0.3, 0.0, 0.0], solve=False)
    # a guess is closed first
    assert_close(tb.modes(model, [0.3, 0.0, 0.0]).frequencies, [swing_rate(2)])
    with pytest.raises(tb.ModelError, match="LoopSwitch of loop 'pin 1'"):
        tb.modes(model, elements=[tb.LoopSwitch("latch", "pin 1")])
