"""Laws of joints at the ends of steps: friction, damping, springs and stops that are too fast."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import FREE, slider, wheel
from tiburon.actuation.joint_laws import RESOLVED_RATE, JointLaws, end_weight, ended_laws

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


def every(**options):
    """Return options that record every step."""
    return {"record": tb.Record(every=1), **options}


def arm(rng, links=4, **laws):
    """Return a random arm with the same laws at all joints."""
    bodies = []
    for k in range(links):
        axis = rng.normal(size=3)
        pose = tb.Pose(translation=tuple(0.2 * rng.normal(size=3)))
        limits = laws.get("limits")
        joint = tb.Revolute(
            f"joint_{k}",
            axis=axis / np.linalg.norm(axis),
            pose=pose,
            passive=tb.JointPassive(**laws.get("passive", {})),
            limits=limits,
        )
        parent = (f"link_{k - 1}",) if k else ()
        inertia = tb.Inertia.box(1.0 / (1 + k), (0.1, 0.2, 0.15), com=(0.02, 0.1, -0.05))
        bodies.append(tb.Body(f"link_{k}", *parent, joint=joint, inertia=inertia))
    return tb.Model("arm", bodies)


def total_energy(run, stiffness=0.0, rest=0.0):
    """Return kinetic and potential energy with that of equal joint springs [J]."""
    own = run.get("kinetic_energy").values + run.get("potential_energy").values
    return own + 0.5 * stiffness * np.sum((run.q - rest) ** 2, axis=-1)


def test_the_weight_of_the_end_is_smooth_and_exact_for_damping():
    """1 - z / (1 + theta z) = exp(-z), at small and large z; 1/2 at 0 and 1 far away."""
    z = np.geomspace(1e-3, 50.0, 60)
    theta = end_weight(z)
    np.testing.assert_allclose(1.0 - z / (1.0 + theta * z), np.exp(-z), atol=1e-12)
    assert end_weight(np.array(0.0)) == 0.5
    assert end_weight(np.array(1e9)) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("damping", [60.0, 4e3, 4e7])
def test_a_strongly_damped_joint_decays_as_the_exact_solution(damping):
    """V = v0 exp(-d t / m) in every step, however stiff."""
    block = slider(passive=tb.JointPassive(damping=damping))
    m = float(tb.mass_matrix(block, block.neutral())[0, 0])
    dt = 1e-2 * m
    run = tb.simulate(block, 20 * dt, v=[1.3], world=FREE, **every(method=tb.RK4(dt=dt)))
    np.testing.assert_allclose(run.v[:, 0], 1.3 * np.exp(-damping * run.time / m), atol=1e-12)


def test_dry_friction_stops_a_joint_where_it_should():
    """v0 - f t / m until t = m v0 / f, at rest afterwards, within one step of the exact place."""
    v0, dt = 1.7, 1e-3
    m = float(tb.mass_matrix(slider(), [0.0])[0, 0])
    f = 12.0 * m
    block = slider(passive=tb.JointPassive(friction=f))
    run = tb.simulate(block, 1.0, v=[v0], world=FREE, **every(method=tb.RK4(dt=dt)))
    assert [one.law for one in ended_laws(block, dt)] == ["friction"]
    stop = m * v0 / f
    moving = run.time < stop - dt
    np.testing.assert_allclose(run.v[moving, 0], v0 - f * run.time[moving] / m, atol=1e-9)
    assert np.abs(run.v[run.time > stop + dt]).max() < 1e-12
    # the error of the last step: half of its length times the speed it begins with
    assert run.q[-1, 0] == pytest.approx(m * v0 * v0 / (2.0 * f), abs=0.5 * dt * dt * f / m)


@pytest.mark.parametrize(("share", "moves"), [(0.95, False), (1.05, True)])
def test_dry_friction_holds_loads_below_it_and_no_others(share, moves):
    """A load below the friction does not move the joint at all; one above accelerates it."""
    f = 20.0
    block = slider(passive=tb.JointPassive(friction=f))
    m = float(tb.mass_matrix(block, block.neutral())[0, 0])
    name = block.joint_names[-1]
    load = tb.JointForceSchedule("load", name, times=(0.0,), forces=(share * f,))
    run = tb.simulate(block, 0.5, world=FREE, elements=[load], **every())
    expected = (share - 1.0) * f / m * run.time if moves else np.zeros(len(run.time))
    np.testing.assert_allclose(run.v[:, 0], expected, atol=1e-9)


def test_an_arm_is_held_in_any_posture_by_its_friction():
    """Friction above the weight: after the start nothing moves, for as long as one looks."""
    robot = arm(np.random.default_rng(3), passive={"friction": 30.0})
    run = tb.simulate(
        robot, 1.0, q=[0.3, -0.4, 0.8, 0.2], method=tb.RK4(dt=5e-3), record=tb.Record(dt=0.5)
    )
    # impulses are exact to 1e-8 of the largest
    assert np.abs(run.q[-1] - run.q[1]).max() < 1e-9
    assert np.abs(run.v[-1]).max() < 1e-9


def test_a_stop_at_rest_carries_the_weight_exactly():
    """A block that hangs against its stop: position, velocity, and the force of the stop."""
    block = tb.Model(
        "block",
        [
            tb.Body(
                "block",
                joint=tb.Prismatic("lift", (0, 0, 1), limits=tb.JointLimits(lower=-0.2, upper=0.3)),
                inertia=tb.Inertia.box(2.0, (0.1, 0.1, 0.1)),
            )
        ],
    )
    run = tb.simulate(block, 2.0, q=[0.1], **every(method=tb.RK4(dt=5e-3)))
    assert [one.law for one in ended_laws(block, 5e-3)] == ["stop"]
    assert run.q.min() > -0.2 - 1e-9
    assert run.q[-1, 0] == pytest.approx(-0.2, abs=1e-9)
    assert np.abs(run.v[-1]).max() < 1e-9
    assert run.z[-1, 0] == pytest.approx(2.0 * 9.81, rel=1e-6)
    # the accelerations that sensors and recorded rows see are those with the stop
    assert np.abs(run.get("joint_acceleration").values[-1]).max() < 1e-6


def test_an_upper_stop_pushes_down():
    """The same the other way up: the force of the stop on the joint is negative."""
    limits = tb.JointLimits(lower=-0.2, upper=0.3)
    joint = tb.Prismatic("lift", (0, 0, 1), limits=limits)
    inertia = tb.Inertia.box(2.0, (0.1, 0.1, 0.1))
    block = tb.Model("block", [tb.Body("block", joint=joint, inertia=inertia)])
    up = tb.World(gravity=(0.0, 0.0, 9.81))
    run = tb.simulate(block, 2.0, q=[0.1], world=up, method=tb.RK4(dt=5e-3))
    assert run.q[-1, 0] == pytest.approx(0.3, abs=1e-9)
    assert np.abs(run.v[-1]).max() < 1e-9
    assert run.z[-1, 0] == pytest.approx(-2.0 * 9.81, rel=1e-6)


def lift(**limits):
    """Return a block on a vertical axis with limits."""
    joint = tb.Prismatic("lift", (0, 0, 1), limits=tb.JointLimits(**limits))
    inertia = tb.Inertia.box(2.0, (0.1, 0.1, 0.1))
    return tb.Model("block", [tb.Body("block", joint=joint, inertia=inertia)])


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("dt", [2e-3, 1e-3])
def test_a_block_bounces_at_its_stop_as_in_closed_form(restitution, dt):
    """Flights of 2 e^k v / g between impacts; energy grows in no step, and the block ends at rest.

    A bounce shorter than a step goes over into rest: it is lower than g dt^2 / 8. Without
    restitution the block is slowed over up to two steps, which end on the stop.
    """
    g, height, duration = 9.81, 0.5, 3.0
    run = tb.simulate(
        lift(lower=0.0, restitution=restitution),
        duration,
        q=[height],
        **every(method=tb.RK4(dt=dt)),
    )
    begun, speed = math.sqrt(2.0 * height / g), restitution * math.sqrt(2.0 * height * g)
    expected = np.where(run.time < begun, height - 0.5 * g * run.time**2, 0.0)
    while begun < duration and speed > 0.5 * g * dt:
        since = run.time - begun
        flight = 2.0 * speed / g
        flies = (since >= 0.0) & (since < flight)
        expected = np.where(flies, speed * since - 0.5 * g * since**2, expected)
        begun, speed = begun + flight, restitution * speed
    error = np.abs(run.q[:, 0] - expected)
    if restitution == 0.0:
        lands = np.abs(run.time - math.sqrt(2.0 * height / g)) < dt
        assert error[lands].max() < 0.25 * math.sqrt(2.0 * height * g) * dt
        error[lands] = 0.0
    assert error.max() < g * dt * dt / 8.0 + 1e-12
    energy = g * run.q[:, 0] + 0.5 * run.v[:, 0] ** 2
    assert np.diff(energy).max() < 1e-12
    if restitution <= 0.5:
        assert abs(run.q[-1, 0]) < 1e-12
        assert abs(run.v[-1, 0]) < 1e-12


def test_a_ball_that_has_bounced_comes_to_rest():
    """At a step whose last bounce would end within it: no speed is left, or energy with it."""
    ball = tb.Body(
        "ball",
        joint=tb.Free("float"),
        inertia=tb.Inertia.sphere(1.0, 0.1),
        shapes=[tb.Shape(tb.SphereShape(0.1), role="collision")],
    )
    world = tb.World(ground=tb.Ground(static_friction=0.5, restitution=0.5))
    run = tb.simulate(
        tb.Model("ball", [ball]),
        2.0,
        q=[1, 0, 0, 0, 0, 0, 0.6],
        world=world,
        **every(method=tb.RK4(dt=2e-3)),
    )
    energy = 9.81 * run.q[:, 6] + 0.5 * run.v[:, 5] ** 2
    assert np.diff(energy).max() < 1e-12
    assert np.abs(run.v[-1]).max() < 1e-9


@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_stops_of_an_arm_add_no_energy(restitution):
    """Several of which act at a time, and are hit at speeds of tens of radians per second."""
    limits = tb.JointLimits(lower=-0.6, upper=0.7, restitution=restitution)
    robot = arm(np.random.default_rng(11), limits=limits)
    run = tb.simulate(robot, 2.0, v=[3.0, -2.0, 4.0, 1.0], **every(method=tb.RK4(dt=5e-4)))
    assert run.outcome.ok, run.outcome
    energy = total_energy(run)
    peak = run.get("kinetic_energy").values.max()
    assert energy[-1] < energy[0] - 0.1 * peak
    assert np.diff(energy).max() < 1e-4 * peak
    assert run.q.min() > -0.6 - 1e-3
    assert run.q.max() < 0.7 + 1e-3


def test_equal_limits_hold_a_joint():
    """Both ends act in every step: there is no play, and the load is carried."""
    run = tb.simulate(lift(lower=0.1, upper=0.1), 0.5, q=[0.1], v=[0.3], **every())
    assert np.abs(run.q[1:, 0] - 0.1).max() < 1e-9
    assert np.abs(run.v[1:]).max() < 1e-9
    stop = run.header.column("z").labels.index("lift.stop_force")
    np.testing.assert_allclose(run.z[10:, stop], 2.0 * 9.81, rtol=1e-6)


def test_a_joint_between_close_limits_stays_between_them():
    """It crosses its range in a step, and is stopped at both ends."""
    run = tb.simulate(
        lift(lower=0.0, upper=1e-3), 0.5, q=[5e-4], v=[2.0], **every(method=tb.RK4(dt=2e-3))
    )
    assert run.q.min() > -1e-9
    assert run.q.max() < 1e-3 + 1e-9


@pytest.mark.parametrize("dt", [1e-3, 1e-4])
def test_weak_friction_is_as_dry_as_strong_one(dt):
    """A hundredth of what steps would resolve: rest under loads below it, and the closed stop."""
    block = slider()
    m = float(tb.mass_matrix(block, block.neutral())[0, 0])
    f = 0.05 * m
    block = slider(passive=tb.JointPassive(friction=f))
    name = block.joint_names[-1]
    load = tb.JointForceSchedule("load", name, times=(0.0,), forces=(0.6 * f,))
    held = tb.simulate(block, 0.2, world=FREE, elements=[load], method=tb.RK4(dt=dt))
    assert np.abs(held.q).max() < 1e-15
    run = tb.simulate(block, 0.6, v=[0.02], world=FREE, **every(method=tb.RK4(dt=dt)))
    # v0 / (f / m) = 0.4 s, after v0^2 / (2 f / m)
    assert run.q[-1, 0] == pytest.approx(0.02**2 / 0.1, abs=0.05 * dt * dt)
    assert np.abs(run.v[run.time > 0.4 + dt]).max() < 1e-12


def test_restitution_is_at_most_one():
    with pytest.raises(tb.ModelError, match=r"restitution must be at most 1, got 1\.2"):
        tb.JointLimits(restitution=1.2)
    with pytest.raises(tb.ModelError, match="restitution"):
        tb.JointLimits(restitution=-0.1)


def test_stops_of_both_sides_and_of_followers_hold():
    """A pendulum between two stops, followed by a joint with a narrower range."""
    swing = tb.Revolute("swing", (0, 1, 0), limits=tb.JointLimits(lower=-0.5, upper=0.9))
    slave = tb.Coupled(
        "slave",
        tb.Revolute("turn", (0, 1, 0)),
        leader="swing",
        ratio=-2.0,
        offset=0.1,
        pose=tb.Pose(translation=(0, 0, -0.3)),
        limits=tb.JointLimits(lower=-1.0, upper=1.2),
    )
    inertia = tb.Inertia.box(1.0, (0.05, 0.05, 0.3), com=(0, 0, -0.15))
    upper = tb.Body("upper", joint=swing, inertia=inertia)
    robot = tb.Model("two", [upper, tb.Body("lower", "upper", joint=slave, inertia=inertia)])
    for speed in (-6.0, 6.0):
        run = tb.simulate(robot, 2.0, q=[0.05], v=[speed], **every(method=tb.RK4(dt=4e-3)))
        follower = -2.0 * run.q[:, 0] + 0.1
        assert run.q.min() >= -0.5 - 1e-6
        assert run.q.max() <= 0.9 + 1e-6
        assert follower.min() >= -1.0 - 1e-6
        assert follower.max() <= 1.2 + 1e-6


@pytest.mark.parametrize(
    ("laws", "least"),
    [
        ({"damping": 0.3}, 1.9),
        ({"stiffness": 30.0}, 1.9),
        ({"damping": 0.1, "stiffness": 40.0}, 1.9),
        # friction changes its sign within steps
        ({"friction": 0.3}, 0.9),
    ],
)
def test_steps_with_laws_at_their_ends_are_of_second_order(laws, least, monkeypatch):
    """Errors beside fine steps of the same laws fall by four when steps are halved."""
    monkeypatch.setattr("tiburon.actuation.joint_laws.RESOLVED_RATE", 1e-9)
    robot = arm(np.random.default_rng(1), links=3, passive=laws)
    start = {"q": [0.4, -0.3, 0.2], "v": [2.5, -1.4, 1.3]}
    fine = tb.simulate(robot, 0.2, **start, method=tb.RK4(dt=3.125e-5)).q[-1]
    steps = (4e-3, 2e-3, 1e-3, 5e-4)
    errors = [
        np.abs(tb.simulate(robot, 0.2, **start, method=tb.RK4(dt=dt)).q[-1] - fine).max()
        for dt in steps
    ]
    assert math.log2(errors[0] / errors[-1]) / 3.0 > least, errors


def test_laws_at_the_ends_of_steps_agree_with_an_adaptive_method(monkeypatch):
    """Damping and springs, at the ends of fine steps and within the tolerance of dop853."""
    monkeypatch.setattr("tiburon.actuation.joint_laws.RESOLVED_RATE", 1e-9)
    robot = arm(np.random.default_rng(2), passive={"damping": 0.2, "stiffness": 50.0, "rest": 0.1})
    start = {"q": [0.4, -0.3, 0.2, 0.5], "v": [0.5, -0.4, 0.3, 1.0]}
    exact = tb.simulate(
        robot,
        0.3,
        **start,
        method=tb.Dop853(rtol=1e-11, atol=1e-12),
    ).q[-1]
    ours = tb.simulate(robot, 0.3, **start, method=tb.RK4(dt=1e-4)).q[-1]
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-5)


def test_laws_at_the_ends_of_steps_supply_no_energy():
    """Random arms with all laws, at 5 ms: the energy never exceeds that of the start."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        passive = {
            "damping": float(10 ** rng.uniform(-2, 1)),
            "friction": float(10 ** rng.uniform(-2, 0)),
        }
        limits = tb.JointLimits(lower=-1.0, upper=1.0)
        robot = arm(rng, passive=passive, limits=limits)
        assert ended_laws(robot, 5e-3)
        run = tb.simulate(
            robot,
            2.0,
            q=rng.uniform(-0.9, 0.9, 4),
            v=rng.normal(size=4),
            **every(method=tb.RK4(dt=5e-3)),
        )
        assert run.outcome.ok
        energy = total_energy(run)
        # an impact on a stop is of first order in the step
        assert energy.max() - energy[0] < 2e-3 * np.ptp(energy)
        assert np.abs(run.q).max() < 1.0 + 2e-3


def test_a_leg_on_the_ground_with_friction_and_stops_comes_to_rest():
    """Laws and contacts in one problem: a floating body with stiff hinges drops, and lies still."""
    size = (0.3, 0.2, 0.1)
    limits = tb.JointLimits(lower=-0.6, upper=0.6)
    bodies = [
        tb.Body(
            "trunk",
            joint=tb.Free("trunk"),
            inertia=tb.Inertia.box(3.0, size),
            shapes=(tb.Shape(tb.BoxShape(size)),),
        )
    ]
    for k, x in enumerate((-0.15, 0.15)):
        joint = tb.Revolute(
            f"hip_{k}",
            (0, 1, 0),
            pose=tb.Pose(translation=(x, 0, 0)),
            passive=tb.JointPassive(damping=2.0, friction=0.3),
            limits=limits,
        )
        bodies.append(
            tb.Body(
                f"leg_{k}",
                "trunk",
                joint=joint,
                inertia=tb.Inertia.box(0.2, (0.03, 0.03, 0.2), com=(0, 0, -0.1)),
                shapes=(tb.Shape(tb.SphereShape(0.03), pose=tb.Pose(translation=(0, 0, -0.2))),),
            )
        )
    robot = tb.Model("dog", bodies)
    q = [1, 0, 0, 0, 0, 0, 0.35, 0.1, -0.2]
    run = tb.simulate(robot, 2.0, q=q, world=FLOOR, **every(method=tb.RK4(dt=5e-3)))
    assert run.outcome.ok
    assert np.abs(run.v[-1]).max() < 1e-6
    force = run.get("contact_force").values[-1].sum(axis=0)
    np.testing.assert_allclose(force, [0, 0, 3.4 * 9.81], atol=1e-2)
    # what is recorded as velocity is the rate of what is recorded as position
    late = run.time > 1.0
    rates = np.gradient(run.q[:, 7:], run.time, axis=0)
    assert np.abs(run.v[late, 6:] - rates[late]).max() < 1e-3


def test_cases_of_a_batch_decide_as_they_would_alone():
    """Friction by name, resolved in one case and not in the others: the bits of single runs."""
    block = slider(passive=tb.JointPassive(friction=1e-4, damping=0.1))
    friction = np.array([1e-4, 5.0, 40.0])
    name = block.joint_names[-1]
    given = {f"{name}.friction": friction}
    batch = tb.simulate(block, 0.3, v=np.full((3, 1), 0.8), world=FREE, parameters=given, **every())
    for k, f in enumerate(friction):
        alone = tb.simulate(
            block, 0.3, v=[0.8], world=FREE, parameters={f"{name}.friction": f}, **every()
        )
        np.testing.assert_array_equal(batch.v[:, k], alone.v)
    smooth = tb.simulate(block, 0.3, v=[0.8], world=FREE, **every())
    np.testing.assert_allclose(batch.v[:, 0], smooth.v, rtol=0, atol=1e-15)


def test_resumed_runs_go_on_with_the_forces_of_their_laws():
    """Stopped in the middle and resumed: the bits of the whole run."""
    robot = arm(np.random.default_rng(5), passive={"friction": 3.0, "damping": 2.0})
    whole = tb.simulate(robot, 0.4, v=[1.0, -1.0, 0.5, 0.2], **every())
    part = tb.simulate(robot, 0.2, v=[1.0, -1.0, 0.5, 0.2], **every())
    np.testing.assert_array_equal(part.resume(0.2).q, whole.q)


@pytest.mark.parametrize("when", [0.05, 0.0504])
def test_events_leave_parts_of_steps_in_which_laws_act(when):
    """An action at the end of a step leaves nothing of it, and of the next one all."""

    def kick(state):
        return {"v": np.asarray(state.v) + 1.0}

    robot = arm(np.random.default_rng(5), passive={"friction": 3.0, "damping": 2.0})

    def kicked(when):
        return tb.simulate(
            robot, 0.1, v=[0.5] * 4, events=[tb.TimeEvent("kick", when, action=kick)]
        )

    run = kicked(when)
    assert run.outcome.ok, run.outcome
    np.testing.assert_allclose(run.q[-1], kicked(when + 1e-7).q[-1], rtol=0, atol=5e-6)


def test_a_joint_that_crosses_its_range_in_a_step_is_stopped():
    """The end that is closer at the start is not the one that is reached."""
    limits = tb.JointLimits(lower=-0.5, upper=0.5)
    block = tb.Model(
        "block",
        [
            tb.Body(
                "block",
                joint=tb.Prismatic("slide", limits=limits),
                inertia=tb.Inertia.box(1.0, (0.1, 0.1, 0.1)),
            )
        ],
    )
    run = tb.simulate(block, 0.5, q=[-0.05], v=[30.0], world=FREE, **every(method=tb.RK4(dt=2e-2)))
    assert run.q.max() < 0.5 + 1e-9
    np.testing.assert_allclose(run.q[2:], 0.5, rtol=0, atol=1e-9)


def test_steps_that_resolve_all_laws_are_those_of_the_method():
    """Weak damping acts at the stages: nothing is chosen, and no state is added."""
    mild = slider(passive=tb.JointPassive(damping=0.1))
    assert ended_laws(mild, 1e-3) == ()
    run = tb.simulate(mild, 0.01, v=[0.1], world=FREE)
    assert run.z.shape[-1] == 0
    rate = ended_laws(slider(passive=tb.JointPassive(damping=50.0)), 1.0)[0].rate
    stiff = slider(passive=tb.JointPassive(damping=50.0))
    assert ended_laws(stiff, 0.99 * RESOLVED_RATE / rate) == ()
    assert ended_laws(stiff, 1.01 * RESOLVED_RATE / rate)


def test_methods_that_cannot_end_steps_with_laws_refuse_steps_beyond_their_stability():
    """Multi-step methods: the joint, the rate and the longest step are named."""
    stiff = wheel(passive=tb.JointPassive(damping=500.0))
    with pytest.raises(tb.DomainError, match=r"joint 'hinge'.*steps of at most .* s"):
        tb.simulate(stiff, 0.1, world=FREE, method=tb.PredictorCorrector(points=2))


def test_masses_given_as_parameters_choose_the_laws_of_a_run():
    """Joints of an arm that is lighter by 1e4 are damped at the ends of steps: it runs as its own.

    In a batch, and alone.
    """
    rng = np.random.default_rng(4)
    heavy = arm(rng, passive={"damping": 0.05})
    values = {}
    for body in heavy.bodies:
        inertia = body.inertia
        values[f"{body.name}.mass"] = 1e-4 * inertia.mass
        values[f"{body.name}.inertia"] = 1e-4 * np.array(inertia.tensor)
    light = tb.with_parameters(heavy, values)
    assert not ended_laws(heavy, 1e-3)
    assert ended_laws(light, 1e-3)
    v = np.array([0.5, -0.3, 0.4, 0.2])
    own = tb.simulate(light, 0.2, v=v)
    alone = tb.simulate(heavy, 0.2, v=v, parameters=values)
    np.testing.assert_allclose(alone.q, own.q, atol=1e-10)
    cases = {
        name: np.stack([np.array(value), 2.0 * np.array(value)]) for name, value in values.items()
    }
    batch = tb.simulate(heavy, 0.2, v=v, parameters=cases)
    np.testing.assert_array_equal(batch.q[:, 0], alone.q)


def test_joints_that_move_no_inertia_are_refused_by_name():
    """At the start, with what to do; damping that acts at the ends of steps resists."""
    body = tb.Body("hand", joint=tb.Revolute("wrist"), inertia=tb.Inertia(0.0))
    rest = tb.Body("arm", joint=tb.Revolute("elbow"), inertia=tb.Inertia.box(1.0, (1, 1, 1)))
    robot = tb.Model("robot", [rest, body], movable=False)
    assert robot.immovable_joint_names == ("wrist",)
    for method in (tb.RK4(), tb.DormandPrince()):
        with pytest.raises(
            tb.ModelError, match=r"'wrist': moves no inertia.*model\.lock\('wrist'\)"
        ):
            tb.simulate(robot, 0.1, method=method)
    assert tb.simulate(robot.lock("wrist"), 0.1).outcome.status == "finished"


def elbow(lower, upper, **parts):
    """Return a robot whose only joint has limits."""
    joint = tb.Revolute("elbow", limits=tb.JointLimits(lower, upper))
    body = tb.Body("arm", joint=joint, inertia=tb.Inertia.box(1.0, (0.5, 0.1, 0.1)))
    return tb.Model("robot", [body], **parts)


@pytest.mark.parametrize("dt", [1e-3, 1e-2])
def test_named_configurations_beyond_limits_start_at_them(dt):
    """Stops do not throw the joint: it stays where it is. Both kinds of stops."""
    method = tb.RK4(dt=dt)
    with pytest.warns(tb.ModelWarning, match=r"'elbow' is 0.8 m or rad beyond its limit"):
        run = tb.simulate(elbow(0.8, 2.0), 0.5, world=FREE, method=method)
    assert (run.q == 0.8).all()
    robot = elbow(0.8, 2.0, poses={"far": [3.0]})
    with pytest.warns(tb.ModelWarning, match=r"'elbow' is 1 m or rad beyond its limit"):
        run = tb.simulate(robot, 0.5, q=[[3.0], [1.0]], world=FREE, method=method)
    assert (run.q == [[2.0], [1.0]]).all()


def test_other_starts_far_beyond_limits_are_refused():
    """By joint, limits and case; without limits they run, and a little beyond them, too."""
    robot = elbow(0.8, 2.0)
    with pytest.raises(tb.DomainError, match=r"'elbow'.* from 0.8 to 2, .*got 2.5 in case 1; .*"):
        tb.simulate(robot, 0.1, q=[[1.0], [2.5]])
    free = tb.simulate(robot.without_limits(), 0.1, q=[2.5], world=FREE)
    assert (free.q == 2.5).all()


@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_a_joint_that_starts_beyond_its_stop_returns_slowly(restitution):
    """It is not thrown back, with energy that nothing has done the work for."""
    robot = slider(limits=tb.JointLimits(lower=-0.5, upper=0.5, restitution=restitution))
    run = tb.simulate(robot, 0.5, q=[0.55], world=FREE, **every(method=tb.RK4(dt=1e-3)))
    assert run.q[0, 0] == 0.55
    assert run.v.min() >= -5.0 * 0.05
    assert run.q[-1, 0] < 0.51


def test_what_is_left_of_a_force_does_not_hold_a_joint_at_a_stop_far_away():
    """A share of the force of the last step that iterations left, where the joint has gone on."""
    robot = lift(lower=0.0, upper=3.0)
    laws = JointLaws.of(robot, ended_laws(robot, 1e-3))
    (law,) = laws.held(robot, laws.parameters(), (2e-168, 0.0, 0.0))
    ((_, far),) = law.bounds((0.12,), (3.0,), 1e-3)
    ((_, near),) = law.bounds((1e-5,), (0.1,), 1e-3)
    assert far.held == 0.0
    assert near.held > 0.0


@pytest.mark.parametrize("dt", [1e-3, 5e-3])
def test_positions_follow_from_recorded_velocities_where_joints_hit_stops(dt):
    """Displacements are the means of the velocities at both ends of each step, impacts included.

    A joint is slowed over up to two steps and is at rest on its stop then, not beyond it.
    """
    robot = arm(np.random.default_rng(4), limits=tb.JointLimits(lower=-0.7, upper=0.9))
    run = tb.simulate(robot, 2.0, v=[1.0, -2.0, 1.5, -1.0], **every(method=tb.RK4(dt=dt)))
    jumps = np.abs(np.diff(run.v, axis=0)).max(axis=1)
    # more than accelerations between stops do
    assert (jumps > 300.0 * dt).sum() > 3
    steps = np.diff(run.q, axis=0) / dt
    # h^2 v'' / 12 is left of the trapezoidal rule
    curved = np.abs(steps - 0.5 * (run.v[1:] + run.v[:-1])).max()
    assert curved < 2e3 * dt * dt
    # what other joints change within a step
    assert run.q.min() > -0.7 - 1e-2 * dt
    assert run.q.max() < 0.9 + 1e-2 * dt
    energy = total_energy(run)
    assert energy.max() - energy[0] < 2e-3 * np.ptp(energy)


def test_stops_act_at_the_ends_of_steps_of_any_length():
    """Their states follow those of contacts in `run.z`."""
    limits = tb.JointLimits(lower=-0.5, upper=0.5)
    robot = slider(limits=limits)
    assert [one.law for one in ended_laws(robot, 1e-5)] == ["stop"]
    body = tb.Body(
        "puck",
        joint=tb.Free("puck"),
        inertia=tb.Inertia.sphere(1.0, 0.1),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    both = tb.Model("both", [*robot.bodies, body])
    run = tb.simulate(both, 0.01, world=FLOOR, q=[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1])
    names = list(run.header.column("z").labels)
    assert names[0].startswith("puck/ground")
    assert names[-3].endswith("stop_force")
