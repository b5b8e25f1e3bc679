"""Edges that do not slip sideways, and discs that roll and tilt: against closed forms."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import dense_constraints
from tests.loops.mechanisms import link

RANDOM = np.random.default_rng(82)

# -- Chaplygin's sleigh ----------------------------------------------------------------------------

M, ABOUT_COM, AHEAD = 2.0, 0.3, 0.4
"""Mass [kg], moment of inertia about the center of mass [kg m^2], how far that is ahead [m]."""

SLEIGH = tb.Model(
    "sleigh",
    [
        tb.Body(
            "sleigh",
            joint=tb.Planar("ice"),
            inertia=tb.Inertia(M, (AHEAD, 0, 0), (0.2, 0, 0, 0.2, 0, ABOUT_COM)),
        )
    ],
    loops=[tb.Blade("runner", "world", "sleigh")],
)


def test_chaplygin_sleigh_follows_its_equations():
    """Forward speed u and turning rate w, from u' = a w^2, w' = -m a u w / (I + m a^2).

    u^2 + w^2 (I + m a^2) / m = V^2 stays; so u = V tanh(k t + c), w = V sqrt(m / (I + m a^2)) /
    cosh(k t + c), with k = V a m / (I + m a^2) (Chaplygin 1911; Neimark and Fufaev 1972).
    """
    about_edge = ABOUT_COM + M * AHEAD**2
    u, w, heading = 0.2, 1.5, 0.4
    q = np.array([0.1, -0.2, heading])
    v = np.array([u * np.cos(heading), u * np.sin(heading), w])
    run = tb.simulate(
        SLEIGH, 10.0, q=q, v=v, method=tb.RK4(dt=1e-3), record=tb.Record(quantities=["energy"])
    )
    V = np.sqrt(u**2 + w**2 * about_edge / M)
    phase = V * AHEAD * M / about_edge * run.time + np.arctanh(u / V)
    x, y, turn = run.v.T
    c, s = np.cos(run.q[:, 2]), np.sin(run.q[:, 2])
    # 10 000 steps of fourth order at 1 ms: rounding is what is left
    np.testing.assert_allclose(c * x + s * y, V * np.tanh(phase), atol=1e-11)
    np.testing.assert_allclose(turn, V * np.sqrt(M / about_edge) / np.cosh(phase), atol=1e-11)
    assert np.abs(c * y - s * x).max() < 1e-12
    energy = np.asarray(run.data["total_energy"])
    np.testing.assert_allclose(energy, energy[0], rtol=1e-11)


def test_number_of_constraints_of_a_blade():
    """In the plane its height binds nothing; the side force is what turns the sleigh's path."""
    found = tb.mobility(SLEIGH, [0.0, 0.0, 0.3])
    assert (found.equations, found.mobility) == (2, 2)
    assert found.redundant == ("runner: offset along z",)
    # at rest along x, turning at w with forward speed u: the edge pushes by m (u w + a w') less a
    # part that only turns; m y'' of the center of mass
    u, w = 0.7, 1.1
    told = tb.loop_dynamics(SLEIGH, [0, 0, 0], [u, 0, w], [0, 0, 0])
    wd = -M * AHEAD * u * w / (ABOUT_COM + M * AHEAD**2)
    np.testing.assert_allclose(told.acceleration, [AHEAD * w**2, u * w, wd], atol=1e-12)
    np.testing.assert_allclose(told.constraint_force[1], M * (u * w + AHEAD * wd), atol=1e-12)


def test_tilted_skate_is_constrained_vertically_and_sideways():
    """Jacobian and bias of a spatial edge on a moving table, against differences."""
    skate = link("skate", "world", tb.Free("float"))
    table = link("table", "world", tb.Universal("table", (1, 0, 0), (0, 1, 0)))
    loop = tb.Blade(
        "edge",
        "table",
        "skate",
        pose=tb.Pose.from_rpy((0.1, -0.2, 0.5), (0.0, 0.1, 0.2)),
        second_pose=tb.Pose.from_rpy((0.3, 0.2, -0.4), (0.1, 0.0, -0.3)),
    )
    model = tb.Model("skater", [skate, table], loops=[loop])
    _against_differences(model)


def _against_differences(model):
    """Rates of the values are J v, rates of J v without accelerations are the bias."""
    q, v = model.random_state(RANDOM)
    v = 0.5 * v
    h = 1e-5
    here = dense_constraints(model, q, v)
    ends = [dense_constraints(model, model.integrate(q, s * h * v), v) for s in (1.0, -1.0)]
    slope = (ends[0].value - ends[1].value) / (2.0 * h)
    # h^2 times third rates of some 100, and rounding over h
    np.testing.assert_allclose((here.J @ v)[0], slope[0], atol=1e-7)
    bias = (ends[0].J @ v - ends[1].J @ v) / (2.0 * h)
    np.testing.assert_allclose(here.bias, bias, atol=1e-6)
    assert np.all(here.value[1:] == 0.0)


def test_assembly_may_put_a_sleigh_where_it_could_not_glide():
    """What binds velocities alone leaves every place open, sideways of the edge too."""
    aside = tb.ConstraintFunction("line", lambda sleigh: sleigh.p[1] - 2.0, frames="sleigh")
    model = tb.Model("sleigh", SLEIGH.bodies, loops=[*SLEIGH.loops, aside])
    # Newton steps: were the edge heard, each would only go half the way
    found = tb.assemble(model, [0.3, 0.0, 0.0], starts=1, max_iterations=10)
    np.testing.assert_allclose(found.q, [0.3, 2.0, 0.0], atol=1e-9)


# -- a disc on its rim -----------------------------------------------------------------------------

RADIUS, MASS = 0.25, 1.3
AXIAL, ACROSS = MASS * RADIUS**2 / 2.0, MASS * RADIUS**2 / 4.0
"""C and A: moments of inertia of a thin disc about its axis, and about a diameter [kg m^2]."""

DISC = tb.Model(
    "disc",
    [
        tb.Body(
            "disc",
            joint=tb.Free("float"),
            inertia=tb.Inertia(MASS, (0, 0, 0), (ACROSS, 0, 0, AXIAL, 0, ACROSS)),
        )
    ],
    loops=[tb.RollingDisc("rim", "world", "disc", radius=RADIUS)],
)


def rolling(lean, spin, yaw):
    """A state that rolls along x, its axis y turned up by an angle about x.

    Args:
        lean: The angle [rad].
        spin: Angular velocity about the axis, all of it [rad/s].
        yaw: Rate of turning of the heading about the vertical [rad/s].

    Returns:
        q and v; angular velocity and velocity of the center in axes of the disc.
    """
    c, s = np.cos(lean), np.sin(lean)
    R = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    axis, up = R[:, 1], np.array([0.0, 0.0, 1.0])
    omega = spin * axis + yaw * (up - (up @ axis) * axis)
    # the contact is straight down the disc: -z of its own axes
    speed = np.cross(omega, RADIUS * R[:, 2])
    q = np.array([np.cos(lean / 2.0), np.sin(lean / 2.0), 0.0, 0.0, 0.3, -0.1, RADIUS * c])
    return q, np.concatenate([R.T @ omega, R.T @ speed])


@pytest.fixture(scope="module")
def run_of():
    """Runs of the disc, all by the same native code."""

    def run(q, v, duration):
        return tb.simulate(
            DISC,
            duration,
            q=q,
            v=v,
            method=tb.RK4(dt=1e-3),
            record=tb.Record(quantities=["constraint_residual", "energy"]),
        )

    return run


def axes_of(q):
    """The disc's axis in the world along a run."""
    w, x, y, z = q[:, :4].T
    return np.stack([2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)], axis=-1)


def test_a_disc_turns_steadily_where_gyroscopic_moment_and_weight_balance(run_of):
    """Tilt theta of the axis from the vertical, precession W, spin n about the axis, all constant.

    The center runs on a circle, X = -r n / W outward of the vertical axis; the contact pushes by
    F = -m W^2 X e + m g z. Moments about the center, W z x H = r d x F with H of a symmetric disc,
    leave (C + m r^2) W n sin(theta) - A W^2 sin(theta) cos(theta) + m g r cos(theta) = 0.
    """
    theta, W = np.deg2rad(70.0), 2.0
    n = np.cos(theta) * (ACROSS * W**2 * np.sin(theta) - MASS * 9.81 * RADIUS)
    n /= (AXIAL + MASS * RADIUS**2) * W * np.sin(theta)
    run = run_of(*rolling(np.pi / 2.0 - theta, n, W), 10.0)
    axis = axes_of(run.q)
    # theta stays, to what ten seconds of steps of fourth order leave
    np.testing.assert_allclose(axis[:, 2], np.cos(theta), atol=1e-9)
    turned = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))
    np.testing.assert_allclose(turned - turned[0], W * run.time, atol=1e-8)
    # the circle of the center, about the point at rest
    distance = RADIUS * abs(n) / W
    x, y = run.q[:, 4:6].T
    assert np.ptp(x) == pytest.approx(2.0 * distance, rel=1e-4)
    assert np.ptp(y) == pytest.approx(2.0 * distance, rel=1e-4)


def test_rolling_disc_wobbles_at_the_closed_form_frequency(run_of):
    """Small leans p about straight rolling at n: a pendulum that gyroscopic moments hold upright.

    Nothing turns the disc about the vertical, so that its yaw rate is -C n p / A; and so
    (A + m r^2) p'' = (m g r - (C + m r^2) C n^2 / A) p.
    """
    n, lean = 7.0, 1e-5
    run = run_of(*rolling(lean, n, -AXIAL * n * lean / ACROSS), 2.0)
    stiff = (AXIAL + MASS * RADIUS**2) * AXIAL * n**2 / ACROSS - MASS * 9.81 * RADIUS
    frequency = np.sqrt(stiff / (ACROSS + MASS * RADIUS**2))
    found = axes_of(run.q)[:, 2]
    # what is left out is of third order in the lean
    np.testing.assert_allclose(found, lean * np.cos(frequency * run.time), atol=1e-5 * lean)


def test_a_tumbling_disc_keeps_its_energy_and_its_contact(run_of):
    """Ten seconds of wobbling far from upright: height to 1e-10, slip to 1e-10, energy to 1e-8."""
    q, v = rolling(0.9, 9.0, 1.5)
    run = run_of(q, v, 10.0)
    assert np.ptp(axes_of(run.q)[:, 2]) > 0.1
    assert float(run.data["constraint_residual"].max()) < 1e-10
    slip = np.einsum("tij,tj->ti", tb.loop_jacobian(DISC, run.q), run.v)
    assert np.abs(slip).max() < 1e-10
    energy = np.asarray(run.data["total_energy"])
    np.testing.assert_allclose(energy, energy[0], rtol=1e-8)


def test_a_wheel_on_an_upright_axle_rolls_as_a_ball_of_its_radius_does():
    """Where the axle stays level, rows of disc and of rolling ball span the same."""
    wheel = link("wheel", "world", tb.Free("float"))
    disc = tb.RollingDisc("d", "world", "wheel", radius=RADIUS, axis=(0, 2, 0))
    ball = tb.LoopClosure("b", "world", "wheel", tb.RollingSphere("contact", radius=RADIUS))
    yaw, pitch = 0.7, -1.2
    half = np.array([np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)])
    other = np.array([np.cos(pitch / 2), 0, np.sin(pitch / 2), 0])
    w, z, a, b = half[0], half[3], other[0], other[2]
    q = np.array([w * a, -z * b, w * b, z * a, 0.4, 0.2, RADIUS])
    rows = [
        dense_constraints(tb.Model("m", [wheel], loops=[loop]), q, np.zeros(6))
        for loop in (disc, ball)
    ]
    np.testing.assert_allclose(rows[0].value, 0.0, atol=1e-15)
    assert np.linalg.matrix_rank(np.vstack([rows[0].J, rows[1].J]), tol=1e-12) == 3


def test_a_disc_on_a_moving_table_is_measured_against_it():
    """Jacobian and bias where plane and disc both move, against differences."""
    wheel = link("wheel", "world", tb.Free("float"))
    table = link("table", "world", tb.Universal("table", (1, 0, 0), (0, 1, 0)))
    loop = tb.RollingDisc(
        "rim",
        "table",
        "wheel",
        radius=RADIUS,
        axis=(0.0, 0.6, 0.8),
        pose=tb.Pose.from_rpy((0.1, -0.2, 0.5), (0.0, 0.1, 0.2)),
    )
    _against_differences(tb.Model("m", [wheel, table], loops=[loop]))


# -- what is refused -------------------------------------------------------------------------------


def test_disc_lying_flat_is_refused():
    """It touches everywhere: no point of contact, no answer."""
    flat = [np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0, 0.0, 0.0, 0.0]
    with pytest.raises(tb.DomainError, match="loop 'rim': its disc must roll on its rim"):
        tb.constraint_residual(DISC, flat)


def test_a_run_in_which_a_disc_falls_flat_ends_with_its_name(run_of):
    """Without spin it tips over in some tenths of a second."""
    run = run_of(*rolling(1.0, 0.0, 0.0), 2.0)
    assert str(run.outcome).startswith("diverged in the step from 0.2")
    assert "gap of loop 'rim' first" in str(run.outcome)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tb.RollingDisc("r", "world", "disc", radius=0.0), "radius must be positive"),
        (lambda: tb.RollingDisc("r", "world", "disc", axis=(0, 0, 0)), "axis"),
        (
            lambda: tb.Blade("r", "disc", "disc"),
            "must connect two different frames, got 'disc' twice",
        ),
        (lambda: tb.Blade("r", "world", "disc", pose=(0, 0, 1)), "pose must be a Pose"),
    ],
)
def test_invalid_contacts_are_refused(build, message):
    """The message names the loop."""
    with pytest.raises(tb.ModelError, match="loop 'r'") as caught:
        build()
    assert message in str(caught.value)
