"""Torsional and rolling friction of rigid contact against closed forms and balances.

A ball of mass m, radius r and inertia I = k m r^2 on level ground presses it with m g:

    spin about the vertical     I dw/dt = -mu_t m g             stops at t = I w / (mu_t m g)
    rolling                     (1 + k) m r^2 dw/dt = -mu_r m g
                                decelerates by a = mu_r g / (r (1 + k)), stops after v^2 / (2 a)
"""

import numpy as np
import pytest

import tiburon as tb

G, R, M, K = 9.81, 0.1, 1.3, 0.4
QUIET = {"execution": tb.Execution(progress=False)}
ROUND = 1e-10
"""Velocities to the tolerance of the solver, which is 1e-8 of an impulse of 1e-2 N s."""


def ball(name="ball", mass=M, radius=R, material=None):
    """Return a free ball of uniform density."""
    inertia = tb.Inertia(mass, (0, 0, 0), K * mass * radius**2 * np.eye(3))
    shape = tb.Shape(tb.SphereShape(radius), role="collision", material=material)
    return tb.Body(name, joint=tb.Free(name), inertia=inertia, shapes=(shape,))


BALL = tb.Model("ball", [ball()])
REST = [1.0, 0, 0, 0, 0, 0, R]


def floor(spin=0.0, roll=0.0, **rest):
    """Return level ground with sliding friction."""
    rest = {"static_friction": 0.6, **rest}
    return tb.World(ground=tb.Ground(torsional_friction=spin, rolling_friction=roll, **rest))


def moved(model, duration, dt, world, q, v, **rest):
    """Return a run of which every step is recorded."""
    return tb.simulate(
        model,
        duration,
        q=q,
        v=v,
        world=world,
        method=tb.RK4(dt=dt),
        record=tb.Record(every=1),
        **QUIET,
        **rest,
    )


@pytest.mark.parametrize("dt", [4e-3, 1e-3])
def test_a_spinning_ball_stops_when_the_moment_has_taken_its_spin(dt):
    mu, w = 0.008, 15.0
    stop = K * R**2 * w / (mu * G)
    run = moved(BALL, 1.2, dt, floor(spin=mu), REST, [0, 0, w, 0, 0, 0])
    spin = run.v[:, 2]
    # the moment is constant: exact at every step but the one in which it stops
    expected = np.maximum(w * (1.0 - run.time / stop), 0.0)
    np.testing.assert_allclose(spin, expected, atol=1e-7 * w)
    assert abs(spin[-1]) < ROUND
    # what it turns by misses no more than the remainder of that step
    turned = 2.0 * np.unwrap(np.arctan2(run.q[:, 3], run.q[:, 0]))
    assert abs(turned[-1] - 0.5 * w * stop) < mu * G / (K * R**2) * dt**2
    # no creep
    late = run.time > stop + 2 * dt
    assert np.ptp(run.q[late, 3]) < 1e-14


def test_a_rolling_ball_stops_after_the_closed_distance():
    """Its distance is exact but for the step in which it stops, and it stays where it is."""
    mu, v = 0.006, 0.8
    a = mu * G / (R * (1.0 + K))
    for dt in (4e-3, 2e-3, 1e-3):
        run = moved(BALL, 3.0, dt, floor(roll=mu), REST, [0, v / R, 0, v, 0, 0])
        assert abs(run.q[-1, 4] - v**2 / (2.0 * a)) < 0.125 * a * dt**2
        late = run.time > v / a + 2 * dt
        assert late.sum() > 100
        assert np.ptp(run.q[late, 4]) < 1e-14
        assert np.abs(run.v[-1]).max() < ROUND


def test_a_ball_sticks_in_torsion_and_rolling_below_their_bounds():
    """On a slope with tan < mu_r / r it rests for seconds; just above it rolls off."""
    mu = 0.02
    for share, rests in ((0.95, True), (1.05, False)):
        slope = np.arctan(share * mu / R)
        gravity = (G * np.sin(slope), 0.0, -G * np.cos(slope))
        world = tb.World(gravity=gravity, ground=floor(spin=0.01, roll=mu).ground)
        run = moved(BALL, 2.0, 2e-3, world, REST, np.zeros(6))
        if rests:
            assert np.abs(run.q[-1] - run.q[0]).max() < 1e-11
            continue
        a = G * (np.sin(slope) - mu / R * np.cos(slope)) / (1.0 + K)
        assert run.q[-1, 4] == pytest.approx(0.5 * a * 4.0, rel=1e-5)


def test_recorded_forces_and_moments_close_the_momentum():
    """Of a ball that slides, spins, rolls and hits another one, step by step."""
    skin = tb.ContactMaterial(0.3, torsional_friction=0.01, rolling_friction=0.004)
    model = tb.Model("two", [ball("a", material=skin), ball("b", 0.7, 0.08, skin)])
    q = [*REST, 1, 0, 0, 0, 0.25, 0.03, 0.08]
    v = [2.0, 9.0, 12.0, 0.9, -0.1, 0, 0, 0, -7.0, 0, 0, 0]
    dt = 1e-3
    run = moved(model, 0.6, dt, floor(spin=0.01, roll=0.004), q, v)
    force, moment = (run.get(f"contact_{x}").values for x in ("force", "moment"))
    names = list(run.get("contact_force").contact.values)
    between = names.index("a/b")
    assert np.abs(force[:, between]).max() > 1.0
    assert np.abs(moment[:, between]).max() > 1e-4
    normal = run.get("contact_normal").values
    inertias = {"a": K * M * R**2, "b": K * 0.7 * 0.08**2}
    hit = np.abs(force[:, between]).max(axis=1) > 0.0
    for place, (name, inertia) in enumerate(inertias.items()):
        W = np.asarray(tb.frame_velocity(model, run.q, run.v, frames=[name]))[:, 0, :3]
        torque = np.zeros_like(W)
        for k, contact in enumerate(names):
            first, second = contact.split("/")
            if name in (first, second):
                sign = 1.0 if name == first else -1.0
                radius = (R, 0.08)[place]
                arm = sign * radius * normal[:, k]
                torque += sign * moment[:, k] + np.cross(arm, sign * force[:, k])
        error = np.abs(np.diff(inertia * W, axis=0) - dt * torque[1:]).max(axis=1)
        scale = dt * np.abs(torque).max()
        # arms are those of the end of a step, directions the mean of both ends
        calm = ~(hit[1:] | hit[:-1])
        assert np.median(error[calm]) < 1e-9 * scale
        assert error.max() < 2e-2 * scale
    # bounds of both moments by the normal force, of the whole run
    ground = names.index("a/ground")
    load = np.abs(force[:, ground, 2])
    assert np.all(np.abs(moment[:, ground, 2]) <= 0.01 * load * (1 + 1e-6) + 1e-12)
    across = np.hypot(*moment[:, ground, :2].T)
    # the mean over a step has the directions of both its ends
    assert np.all(across <= 0.004 * load * (1 + 1e-4) + 1e-12)
    energy = run.get("total_energy").values
    assert np.diff(energy).max() < 1e-9 * energy[0]


def test_momentum_of_two_spinning_balls_is_conserved():
    """Without gravity, one on the other, pressed by their approach: the spins of both share."""
    skin = tb.ContactMaterial(0.5, torsional_friction=0.01)
    model = tb.Model("two", [ball("a", material=skin), ball("b", 0.7, 0.08, skin)])
    world = tb.World(gravity=(0, 0, 0))
    q = [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0.1801]
    v = [0, 0, 5.0, 0, 0, 0, 0, 0, -3.0, 0, 0, -1.0]
    run = moved(model, 0.01, 1e-3, world, q, v, contact=tb.RigidContact(pairs=[("a", "b")]))
    spins = run.v[:, [2, 8]] * [K * M * R**2, K * 0.7 * 0.08**2]
    assert abs(spins[-1, 0] - spins[0, 0]) > 1e-5
    np.testing.assert_allclose(spins.sum(axis=1), spins[0].sum(), rtol=1e-12)
    # the impulse of the collision bounds the moment: mu m' v, m' the reduced mass
    assert spins[0, 0] - spins[-1, 0] == pytest.approx(0.01 * M * 0.7 / (M + 0.7), rel=1e-7)


def test_recorded_accelerations_have_the_moments():
    """Of a ball that spins and rolls straight ahead."""
    spin, roll = 0.008, 0.005
    v = [0, 8.0, 0, 0.8, 0, 0]
    run = moved(BALL, 0.1, 1e-3, floor(roll=roll), REST, v)
    expected = -roll * G / (R**2 * (1.0 + K))
    assert run.get("joint_acceleration").values[1:, 1] == pytest.approx(expected, rel=1e-6)
    run = moved(BALL, 0.1, 1e-3, floor(spin=spin), REST, [0, 0, 9.0, 0, 0, 0])
    found = run.get("joint_acceleration").values[1:, 2]
    assert found == pytest.approx(-spin * G / (K * R**2), rel=1e-6)
    assert np.abs(run.get("joint_reaction").values[1:]).max() < 1e-9


def test_a_box_without_coefficients_is_that_of_sliding_friction_in_bits():
    box = tb.BoxShape((0.4, 0.3, 0.2))
    inertia = tb.Inertia.box(2.0, box.size)
    shapes = (tb.Shape(box, role="collision"),)
    model = tb.Model("box", [tb.Body("box", joint=tb.Free("box"), inertia=inertia, shapes=shapes)])
    q, v = [1, 0, 0, 0, 0, 0, 0.1], [0, 0, 5.0, 0.5, 0.2, 0]
    plain = tb.World(ground=tb.Ground(static_friction=0.2))
    runs = [moved(model, 0.5, 1e-3, world, q, v) for world in (plain, floor(static_friction=0.2))]
    np.testing.assert_array_equal(*(run.q for run in runs))
    np.testing.assert_array_equal(*(run.z for run in runs))


def test_rows_with_coefficients_of_zero_leave_the_motion_as_it_is():
    """Of three feet, whose loads are unique; with coefficients they stop earlier."""
    inertia = tb.Inertia.box(2.0, (0.4, 0.3, 0.2))
    places = ((0.2, 0.0), (-0.1, 0.15), (-0.1, -0.15))
    feet = [tb.ContactPoint(f"f{k}", "stool", (*xy, -0.1)) for k, xy in enumerate(places)]
    model = tb.Model(
        "stool", [tb.Body("stool", joint=tb.Free("stool"), inertia=inertia)], contacts=feet
    )
    q, v = [1, 0, 0, 0, 0, 0, 0.1], [0, 0, 5.0, 0.5, 0.2, 0]
    plain = moved(model, 0.5, 1e-3, floor(static_friction=0.2), q, v)
    none = {"ground.torsional_friction": 0.0, "ground.rolling_friction": 0.0}
    world = floor(1e-3, 1e-3, static_friction=0.2)
    zero = moved(model, 0.5, 1e-3, world, q, v, parameters=none)
    np.testing.assert_allclose(zero.q, plain.q, atol=1e-8)
    more = moved(model, 0.5, 1e-3, floor(0.02, static_friction=0.2), q, v)
    stops = [run.time[np.argmax(np.abs(run.v[:, 2]) < 1e-6)] for run in (plain, more)]
    assert 0.3 < stops[1] / stops[0] < 0.9


def test_cases_of_a_batch_are_their_single_runs_in_bits():
    world = floor(0.01, 0.004)
    spins = [0.0, 0.005, 0.02]
    v = np.array([[1.0, 8.0, 10.0, 0.8, 0, 0], [0, 0, 9.0, 0, 0, 0], [0, 8.0, 1.0, 0.8, 0, 0]])
    q = np.tile(REST, (3, 1))
    name = "ground.torsional_friction"
    many = moved(BALL, 0.4, 2e-3, world, q, v, parameters={name: spins})
    for k, mu in enumerate(spins):
        one = moved(BALL, 0.4, 2e-3, world, q[k], v[k], parameters={name: mu})
        np.testing.assert_array_equal(many.q[:, k], one.q)
        np.testing.assert_array_equal(many.z[:, k], one.z)


def test_a_resumed_run_is_the_whole_one_in_bits():
    world, v = floor(0.01, 0.004), [1.0, 8.0, 10.0, 0.8, 0, 0]
    whole = moved(BALL, 0.2, 1e-3, world, REST, v)
    resumed = moved(BALL, 0.1, 1e-3, world, REST, v).resume(0.1)
    np.testing.assert_array_equal(resumed.q[-1], whole.q[-1])
    np.testing.assert_array_equal(resumed.z[-1], whole.z[-1])


def test_boxes_that_tumble_with_friction_against_turning_gain_no_energy():
    box = tb.BoxShape((0.4, 0.3, 0.2))
    inertia = tb.Inertia.box(2.0, box.size)
    shapes = (tb.Shape(box, role="collision"),)
    model = tb.Model("box", [tb.Body("box", joint=tb.Free("box"), inertia=inertia, shapes=shapes)])
    rng = np.random.default_rng(4)
    q = np.zeros((6, 7))
    q[:, :4] = rng.normal(size=(6, 4))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    q[:, 6] = 0.4
    v = rng.normal(size=(6, 6)) * [5, 5, 5, 1, 1, 1]
    run = moved(model, 1.0, 2e-3, floor(0.02, 0.01, static_friction=0.3), q, v)
    energy = run.get("total_energy").values
    assert np.diff(energy, axis=0).max() < 1e-5 * energy[0].max()
    assert (energy[-1] < 0.6 * energy[0]).all()


@pytest.mark.parametrize(
    ("contact", "what"),
    [
        (tb.CompliantContact(), "CompliantContact"),
        (tb.ExactContact(), "ExactContact"),
        (tb.RigidContact(law="convex"), "convex"),
    ],
)
def test_models_of_contact_without_it_refuse_it_by_name(contact, what):
    world = floor(0.01, normal_stiffness=1e4, planar_stiffness=1e4)
    with pytest.raises(tb.ModelError, match=f"'ball/ground'.*{what}.*torsional_friction"):
        tb.simulate(BALL, 0.01, q=REST, world=world, contact=contact)


def test_coefficients_are_parameters_by_name_and_in_files(tmp_path):
    """[m], of the ground, of patches, of surfaces and of contacts."""
    skin = tb.ContactMaterial(0.5, torsional_friction=0.02, rolling_friction=0.01)
    patch = tb.GroundPatch("mat", (0.0, 0.0), (1.0, 1.0), skin)
    model, around = tb.Model("ball", [ball(material=skin)]), floor(0.03, 0.004, patches=(patch,))
    known = tb.parameters(model, world=around)
    for name, value in (
        ("ground.torsional_friction", 0.03),
        ("ground.rolling_friction", 0.004),
        ("contact.ball/ground.torsional_friction", 0.02),
        ("contact.ball/ground.rolling_friction", 0.004),
    ):
        assert (known[name].unit, known[name].value) == ("m", value)
    path = tmp_path / "ball.toml"
    tb.save(model, path, world=around)
    assert tb.load(path) == model
    assert tb.load_world(path) == around


def test_functions_of_one_state_say_that_they_leave_it_out():
    world, v = floor(roll=0.01), [0, 0, 0, 0, 0, -1.0]
    with pytest.warns(tb.ModelWarning, match="impact: torsional and rolling.*'ball/ground'"):
        tb.impact(BALL, REST, v, world=world)
    with pytest.warns(tb.ModelWarning, match="contact_dynamics: torsional and rolling"):
        tb.contact_dynamics(BALL, REST, np.zeros(6), np.zeros(6), world=world)
