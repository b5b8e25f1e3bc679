"""Load sharing in the loop: robots with contacts follow paths, and their forces stay continuous."""

import numpy as np
import pytest

import tiburon as tb

FLOOR = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7))
PLANNED_FRICTION = 0.6


@pytest.fixture(scope="module")
def dog():
    return tb.load("quadruped")


@pytest.fixture(scope="module")
def plan(dog):
    return tb.LoadSharing.of(dog, world=FLOOR, friction=PLANNED_FRICTION)


def simulated(dog, control, duration, **options):
    return tb.simulate(
        dog,
        duration,
        q=dog.poses["stand"],
        world=FLOOR,
        control=control,
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
        **options,
    )


def recorded(run, feet, part):
    """Return a discrete state of the controller for each foot, shape (rows, ..., feet)."""
    labels = list(run.header.column("z").labels)
    return np.stack([run.z[..., labels.index(f"share.{foot}.{part}")] for foot in feet], axis=-1)


class Walk:
    """What a run of the controller shows."""

    def __init__(self, run):
        feet = [point.name for point in run.model.contacts]
        self.run = run
        self.shared = np.stack([recorded(run, feet, x) for x in ("t1", "t2", "n")], axis=-1)
        self.touching = recorded(run, feet, "touching")
        self.measured = run.get("contact_force").values
        self.mode = run.get("contact_mode").values
        labels = list(run.header.column("z").labels)
        self.status = run.z[:, labels.index("share.status")]

    @property
    def steps(self):
        """Largest change of a shared force from sample to sample [N]."""
        return np.abs(np.diff(self.shared, axis=0)).max()

    def check(self, accuracy):
        """Feet push, stay in their cones, carry what was shared, and do not slip under load."""
        assert self.run.outcome.status == "finished"
        assert not self.status.any()
        normal = self.shared[..., 2]
        assert normal.min() > -1e-9
        tangential = np.linalg.norm(self.shared[..., :2], axis=-1)
        assert (PLANNED_FRICTION * normal - tangential).min() > -1e-7
        assert self.measured[..., 2].min() > -1e-9
        # forces of a step act between the sample before it and the next
        error = np.abs(self.measured[1:, :, 2] - normal[:-1])
        assert error.max() < accuracy
        assert np.percentile(error, 99.0) < 0.1 * accuracy
        loaded = (normal[:-1] > 5.0) & (error < 0.1 * accuracy)
        assert (self.mode[1:][loaded] == 2.0).all()
        assert loaded.mean() > 0.4


@pytest.fixture(scope="module")
def start(dog, plan):
    """Return a controller with a step bound, and the start of a trot under it."""
    control = tb.LoadSharingControl(plan, tb.GaitPath.trot(dog), max_step=2.5)
    return control, Walk(simulated(dog, control, 0.8))


def test_a_robot_stands_on_the_forces_that_are_shared(dog, plan, start):
    """Before the first step measured forces equal shared ones, and are those of the plan."""
    _, walk = start
    normal = walk.shared[:300, :, 2]
    np.testing.assert_allclose(walk.measured[1:301, :, 2], normal, atol=1e-5)
    weight = 9.81 * dog.total_mass
    np.testing.assert_allclose(walk.measured[1:301, :, 2].sum(axis=1), weight, rtol=1e-5)
    share = plan.share(dog.poses["stand"])
    np.testing.assert_allclose(walk.shared[0].ravel(), share.x, atol=1e-3)


def test_plain_calls_return_the_commands_of_the_loop(dog, plan, start):
    """The controller on floats: the same joint forces and the same next states."""
    control, walk = start
    run = walk.run
    system = tb.System(dog, FLOOR, (), control, held=True, steps=True)
    state = tb.State(system, 0.0, run.q[0], run.v[0], np.zeros(0))
    commands, after = control(state)
    np.testing.assert_allclose(list(commands.values()), run.u[0, 6:18], rtol=1e-9, atol=1e-9)
    shared = control.read(run)
    np.testing.assert_allclose(after[: shared.forces.shape[-1]], shared.forces[0], atol=1e-9)
    assert shared.tau.shape == (801, 12)
    np.testing.assert_array_equal(shared.tau[3], run.u[3, 6:18])
    with pytest.raises(tb.ModelError, match="this controller"):
        tb.LoadSharingControl(plan, dog.poses["stand"], name="other").read(run)


def test_a_trot_starts_within_its_step_bound(start):
    """Feet lift and land: forces change by no more than the bound, and are those measured."""
    _, walk = start
    walk.check(1.5)
    assert walk.steps == pytest.approx(2.5, abs=1e-6)
    # both diagonal pairs have been in the air
    assert (walk.touching.min(axis=0) == 0.0).all()
    assert np.abs(walk.run.q[:, 6] - walk.run.q[0, 6]).max() < 0.01


@pytest.mark.slow
def test_a_posture_is_held(dog, plan):
    """A configuration in place of a path: at rest to rounding, torques and forces of the plan."""
    control = tb.LoadSharingControl(plan, dog.poses["stand"])
    walk = Walk(simulated(dog, control, 0.5))
    walk.check(1e-4)
    assert np.abs(walk.run.v[-1]).max() < 1e-5


@pytest.mark.slow
def test_a_hexapod_walks_on_three_legs_at_a_time():
    """Another robot and another gait: statically stable, so that no acceleration is changed."""
    robot = tb.load("osu_hexapod")
    plan = tb.LoadSharing.of(robot, world=FLOOR, friction=PLANNED_FRICTION)
    first = ("left_front_foot", "right_middle_foot", "left_rear_foot")
    phases = {point.name: 0.0 if point.name in first else 0.5 for point in robot.contacts}
    path = tb.GaitPath.of(robot, phases, speed=0.3, period=1.2, duty=0.6, lift=0.12)
    control = tb.LoadSharingControl(plan, path)
    walk = Walk(simulated(robot, control, 3.0))
    # of 1177 N
    walk.check(12.0)
    assert walk.steps < 15.0
    assert np.abs(control.read(walk.run).missing).max() < 0.1
    assert np.ptp(walk.run.q[:, 6]) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("smoothing", "bound"),
    [(tb.SmoothingPenalty(10.0, 0.1), 5.0), (tb.StepBound(2.0), 2.0 + 1e-9)],
)
def test_quadruped_trots_ten_seconds_with_each_scheme(dog, plan, smoothing, bound):
    """No foot pulls, none slips under load, measured forces are shared ones, steps are bounded."""
    path = tb.GaitPath.trot(dog, duration=9.5)
    walk = Walk(simulated(dog, tb.LoadSharingControl(plan, path, smoothing=smoothing), 10.0))
    walk.check(1.5)
    assert walk.steps < bound
    run = walk.run
    goal = path.sample(path.parameters(), 10.0).poses["base"].position
    np.testing.assert_allclose(run.q[-1, 4:7], goal, atol=0.01)
    assert np.abs(run.v[-1]).max() < 0.05


@pytest.mark.slow
def test_foothold_adaptation_recovers_from_a_push(dog, plan):
    """A sideways push of 0.6 m/s: feet that answer to it catch the robot, fixed ones do not."""

    @tb.traced
    def late(state):
        return state.time - 1.137

    def act(state):
        v = np.array(state.v)
        v[4] += 0.6
        return {"v": v}

    lean = {}
    for feedback in (0.0, 1.0):
        control = tb.LoadSharingControl(plan, tb.GaitPath.trot(dog), step_feedback=feedback)
        push = tb.Event("push", late, action=act)
        run = simulated(dog, control, 3.0, events=[push])
        x, y = run.q[:, 1], run.q[:, 2]
        lean[feedback] = np.degrees(2.0 * np.arcsin(np.clip(np.hypot(x, y), 0.0, 1.0)).max())
        if feedback:
            # back on its path
            goal = control.path.sample(control.path.parameters(), 3.0).poses["base"].position
            np.testing.assert_allclose(run.q[-1, 4:7], goal, atol=0.03)
            assert not control.read(run).status.any()
    assert lean[1.0] < 15.0 < 60.0 < lean[0.0]


@pytest.mark.slow
def test_without_smoothing_forces_jump(dog, plan):
    """All load at once: steps of more than half the weight, which the penalty alone divides."""
    path = tb.GaitPath.trot(dog)
    control = tb.LoadSharingControl(plan, path, smoothing=None, transfers=False)
    walk = Walk(simulated(dog, control, 0.8))
    assert walk.steps > 60.0
    penalized = Walk(simulated(dog, tb.LoadSharingControl(plan, path, transfers=False), 0.8))
    assert penalized.steps < 0.5 * walk.steps


@pytest.mark.slow
def test_measured_contacts_carry_load_from_their_first_force_on(dog, plan):
    """Feet reach for the ground; those that have not found it carry nothing."""
    control = tb.LoadSharingControl(plan, tb.GaitPath.trot(dog), contact="measured")
    walk = Walk(simulated(dog, control, 1.5))
    assert not walk.status.any()
    first = np.argmax((walk.touching[500:] == 1.0) & (walk.measured[500:, :, 2] > 0.0), axis=0)
    assert first.max() < 200
    landed = (np.diff(walk.touching, axis=0) > 0.5) & (walk.run.time[1:, None] > 0.4)
    assert landed.any()
    assert (walk.measured[1:, :, 2][landed] > 0.0).all()


@pytest.mark.parametrize(
    "objective",
    [
        tb.EqualShare(),
        pytest.param(
            tb.StrainEnergy({"hind_left_foot": (1e-5, 1e-5, 4e-5)}), marks=pytest.mark.slow
        ),
    ],
    ids=lambda objective: type(objective).__name__,
)
def test_objectives_that_leave_forces_open_are_completed(dog, objective):
    """Also when the weight of changes has fallen to zero: the robot stands on shared forces."""
    plan = tb.LoadSharing.of(dog, world=FLOOR, friction=PLANNED_FRICTION, objective=objective)
    control = tb.LoadSharingControl(plan, dog.poses["stand"])
    run = simulated(dog, control, 0.02)
    shared = control.read(run)
    assert not shared.status.any()
    np.testing.assert_allclose(run.q[-1], dog.poses["stand"], atol=1e-6)
    expected = plan.share(dog.poses["stand"])
    np.testing.assert_allclose(shared.tau[0], expected.tau[6:], atol=2e-3)


@pytest.mark.slow
def test_cases_of_a_batch_have_bounds_of_their_own(dog, plan):
    """Bounds are run-time parameters: each case keeps its own, as a run of one case does."""
    control = tb.LoadSharingControl(plan, tb.GaitPath.trot(dog), max_step=5.0)
    bounds = [2.0, 2.5, 20.0]
    run = simulated(dog, control, 0.6, parameters={"control.max_step": bounds})
    feet = [point.name for point in dog.contacts]
    shared = np.stack([recorded(run, feet, x) for x in ("t1", "t2", "n")], axis=-1)
    steps = np.abs(np.diff(shared, axis=0)).max(axis=(0, 2, 3))
    np.testing.assert_allclose(steps[:2], bounds[:2], atol=1e-6)
    assert 2.6 < steps[2] < 4.0
    one = simulated(dog, tb.LoadSharingControl(plan, tb.GaitPath.trot(dog), max_step=2.5), 0.6)
    np.testing.assert_array_equal(one.q, run.q[:, 1])


def test_paths_of_gaits_are_continuous(dog):
    """Positions, velocities and accelerations of base and feet agree with differences."""
    path = tb.GaitPath.trot(dog, speed=(0.4, 0.1), duration=2.0)
    p, h = path.parameters(), 1e-5
    # off the instants at which feet lift and land, where the third derivative steps
    for time in np.linspace(0.2137, 2.1137, 77):
        before, here, after = (path.sample(p, t) for t in (time - h, time, time + h))
        moving = [(s.poses["base"].position, s.poses["base"].velocity, s.poses["base"].acceleration)
                  for s in (before, here, after)]  # fmt: skip
        parts = [moving]
        parts += [[(s.aims[k].position, s.aims[k].velocity, s.aims[k].acceleration)
                   for s in (before, here, after)] for k in here.aims]  # fmt: skip
        for part in parts:
            (x0, v0, _), (_, v, a), (x2, v2, _) = (np.array(one) for one in part)
            np.testing.assert_allclose((x2 - x0) / (2 * h), v, atol=1e-6)
            np.testing.assert_allclose((v2 - v0) / (2 * h), a, atol=1e-4)


def test_feet_of_a_gait_stand_still_and_share_the_cycle(dog):
    """Feet on the ground do not move; each is there for its duty; diagonal pairs take turns."""
    path = tb.GaitPath.trot(dog, duty=0.6, period=0.5)
    p = path.parameters()
    times = np.linspace(3.0, 4.0, 501)[:-1]
    touching = np.array([list(path.sample(p, t).touching.values()) for t in times])
    np.testing.assert_allclose(touching.mean(axis=0), 0.6, atol=5e-3)
    assert (touching.sum(axis=1) >= 2.0).all()
    for t, on_ground in zip(times, touching, strict=True):
        aims = path.sample(p, t).aims.values()
        for aim, held in zip(aims, on_ground, strict=True):
            if held:
                np.testing.assert_allclose(aim.velocity, 0.0, atol=1e-12)
                assert aim.position[2] == pytest.approx(dog.contacts[0].radius, abs=1e-12)


def waves(smooth, height=0.04):
    """Return a world with hills along both axes, steeper than 10 degrees."""
    x, y = 0.1 * np.arange(-12, 25), 0.1 * np.arange(-10, 11)
    heights = height * np.sin(5.0 * x)[:, None] + 0.5 * height * np.cos(6.0 * y)
    grid = tb.GroundGrid((0.1, 0.1), heights, (x[0], y[0]), smooth=smooth)
    return tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7, grid=grid))


@pytest.mark.parametrize("smooth", [False, True])
def test_a_dog_trots_over_hills(dog, smooth):
    """Feet land where the ground is; forces lie in the cones around its normals."""
    hills = waves(smooth)
    plan = tb.LoadSharing.of(dog, world=hills, friction=PLANNED_FRICTION)
    path = tb.GaitPath.trot(dog, world=hills, speed=0.4)
    control = tb.LoadSharingControl(plan, path)
    run = tb.simulate(
        dog,
        1.5,
        q=path.posture,
        world=hills,
        control=control,
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    shared = control.read(run)
    assert run.outcome.status == "finished"
    assert not shared.status.any()
    assert abs(run.q[-1, 4] - 0.4 * (1.5 - 0.3 - 0.4)) < 0.02
    assert 2.0 * np.linalg.norm(run.q[:, 1:3], axis=1).max() < np.radians(3.0)
    # forces of all points of a foot together are what was shared
    ground = run.get("contact_force").values
    count = ground.shape[1] // 4
    measured = np.linalg.norm(ground.reshape(len(ground), 4, count, 3), axis=-1).sum(axis=2)
    forces = np.linalg.norm(shared.forces.reshape(-1, 4, 3), axis=-1)
    assert np.percentile(np.abs(measured[1:] - forces[:-1]), 99.0) < 0.5
    # normals are those of the ground below each foot
    row = 400
    here = tb.contacts(dog, run.q[row], world=hills)
    lowest = [int(np.argmin(here.gap[3 * k : 3 * k + 3])) + 3 * k for k in range(4)]
    again = plan.share(run.q[row], run.v[row])
    assert np.abs(here.normal[lowest, :2]).max() > 0.1
    normal = -np.sum(again.forces * here.normal[lowest], axis=1)
    np.testing.assert_allclose(normal, again.x.reshape(4, 3)[:, 2], atol=1e-9)


@pytest.mark.slow
def test_bumps_that_friction_holds_are_crossed(dog):
    """Heights 10 cm apart vary by 4 cm: slopes up to 1.1, friction 1.2."""
    x, y = 0.1 * np.arange(-12, 40), 0.1 * np.arange(-10, 11)
    heights = 0.04 * np.random.default_rng(2).standard_normal((len(x), len(y)))
    grid = tb.GroundGrid((0.1, 0.1), heights, (x[0], y[0]))
    rough = tb.World(ground=tb.Ground(static_friction=1.4, kinetic_friction=1.3, grid=grid))
    plan = tb.LoadSharing.of(dog, world=rough, friction=1.2)
    path = tb.GaitPath.trot(dog, world=rough, speed=0.3)
    control = tb.LoadSharingControl(plan, path)
    run = tb.simulate(
        dog,
        3.0,
        world=rough,
        control=control,
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    assert not control.read(run).status.any()
    assert 2.0 * np.linalg.norm(run.q[:, 1:3], axis=1).max() < np.radians(9.0)
    assert run.q[-1, 4] > 0.6


def test_paths_over_hills_are_continuous(dog):
    """Rates of base and feet are those of their positions, and feet stand on the ground."""
    hills = waves(smooth=True)
    path = tb.GaitPath.trot(dog, world=hills, speed=0.4)
    p, h = path.parameters(), 1e-4
    for time in np.linspace(0.31, 2.0, 60):
        before, now, after = (path.sample(p, t) for t in (time - h, time, time + h))
        rate = (np.array(after.poses["base"].position) - before.poses["base"].position) / (2 * h)
        np.testing.assert_allclose(rate, now.poses["base"].velocity, atol=1e-4)
        for foot in path.points:
            here = [part.aims[foot.name] for part in (before, now, after)]
            rate = (np.array(here[2].position) - here[0].position) / (2 * h)
            np.testing.assert_allclose(rate, here[1].velocity, atol=2e-3)
            rate = (np.array(here[2].velocity) - here[0].velocity) / (2 * h)
            np.testing.assert_allclose(rate, here[1].acceleration, atol=0.5)
            if now.touching[foot.name] > 0.5:
                place = here[1].position
                low = path.rise(p, foot, place[0], place[1], 0.0)
                assert abs(place[2] - low) < 1e-7
    gaps = tb.contacts(dog, path.posture, world=hills).gap.reshape(4, 3).min(axis=1)
    assert (gaps >= 0.0).all()
    assert gaps.max() < 2e-8


def test_walks_over_hills_are_resumed_from_files(dog, tmp_path):
    """Ground of plan and path come back with the run: not a bit differs."""
    hills = waves(smooth=True)
    plan = tb.LoadSharing.of(dog, world=hills, friction=PLANNED_FRICTION)
    path = tb.GaitPath.trot(dog, world=hills)
    control = tb.LoadSharingControl(plan, path)
    options = {
        "q": path.posture,
        "world": hills,
        "control": control,
        "execution": tb.Execution(progress=False),
    }
    whole = tb.simulate(dog, 0.5, **options)
    tb.simulate(dog, 0.3, record=tb.Record(store=tmp_path / "walk.zarr"), **options)
    again = tb.load_run(tmp_path / "walk.zarr").resume(0.2)
    np.testing.assert_array_equal(again.q[-1], whole.q[-1])


def test_plans_and_paths_are_on_the_same_ground(dog, plan):
    """Footholds of hills on a level plan, or the other way round, would make the robot fall."""
    hills = waves(smooth=True)
    uphill = tb.LoadSharing.of(dog, world=hills)
    for one, path in (
        (plan, tb.GaitPath.trot(dog, world=hills)),
        (uphill, tb.GaitPath.trot(dog)),
        (uphill, tb.GaitPath.trot(dog, world=waves(smooth=True, height=0.02))),
    ):
        with pytest.raises(tb.ModelError, match="footholds on the ground of the plan"):
            tb.LoadSharingControl(one, path)
    tb.LoadSharingControl(uphill, tb.GaitPath.trot(dog, world=waves(smooth=True)))


def test_ground_beyond_the_legs_is_refused(dog):
    heights = np.zeros((30, 30))
    heights[:, 15:] = 0.5
    cliff = tb.World(ground=tb.Ground(grid=tb.GroundGrid((0.1, 0.1), heights, (-1.5, -1.5))))
    with pytest.raises(tb.DomainError, match="ground within the reach of the legs"):
        tb.GaitPath.trot(dog, world=cliff)


def test_wrong_plans_and_paths_are_refused(dog, plan):
    """Blending in motion, two step bounds, unknown names, gaits without overlap."""
    stand = dog.poses["stand"]
    with pytest.raises(tb.DomainError, match="stand still"):
        tb.LoadSharingControl(plan, stand, smoothing=tb.Blending())
    with pytest.raises(tb.DomainError, match="one step limit"):
        tb.LoadSharingControl(plan, stand, smoothing=tb.StepBound(3.0), max_step=3.0)
    with pytest.raises(tb.DomainError, match="max_step"):
        tb.LoadSharingControl(plan, stand, max_step=0.0)
    with pytest.raises(tb.ModelError, match=r"LoadSharing\.of"):
        tb.LoadSharingControl(dog, stand)
    with pytest.raises(tb.OptionError):
        tb.LoadSharingControl(plan, stand, contact="felt")
    with pytest.raises(tb.UnknownNameError, match="contact"):
        tb.LoadSharingControl(plan, tb.MotionPath(stand, contacts={"paw": (0.0, 1.0)}))
    path = tb.CartesianPath.through([0, 1], [(0, 0, 0), (1, 0, 0)])
    with pytest.raises(tb.UnknownNameError, match="free joint"):
        tb.LoadSharingControl(plan, tb.MotionPath(stand, bodies={"trunk": path}))
    with pytest.raises(tb.DomainError, match="land before others lift"):
        tb.GaitPath.trot(dog, duty=0.5)
    with pytest.raises(tb.UnknownNameError, match="paw"):
        tb.GaitPath.of(dog, {"paw": 0.0})
    other = tb.load("pendulum")
    with pytest.raises(tb.ModelError, match="made for"):
        tb.simulate(other, 0.01, control=tb.LoadSharingControl(plan, stand))


def held(robot, pose, duration, push, **options):
    """Return a run in which a floating robot returns to a pose after a push, and its controller."""
    control = tb.LoadSharingControl(
        tb.LoadSharing.of(robot, **options), pose, smoothing=None, base_frequency=8.0
    )
    world = options.get("world")
    given = {} if world is None else {"world": world}
    run = tb.simulate(
        robot, duration, q=pose, v=push, control=control, method=tb.RK4(dt=2e-3), **given
    )
    return run, control


def test_cables_hold_a_platform():
    """A push decays with two poles at -k, and tensions stay within their limits."""
    robot = tb.load("cable_robot")
    home = np.array(robot.poses["home"])
    run, control = held(robot, home, 0.6, np.array([0.0, 0.0, 0.3, 0.2, 0.0, 0.0]))
    expected = 0.2 * run.time * np.exp(-8.0 * run.time)
    # commands are held for a step
    np.testing.assert_allclose(run.q[:, 4], expected, atol=2e-4)
    shared = control.read(run)
    assert not shared.status.any()
    tensions = np.array([run.get(f"{cable.name}.tension").values for cable in robot.cables]).T
    # of the sample before, and within limits
    np.testing.assert_allclose(tensions[1:], shared.forces[1:], atol=1e-9)
    assert tensions[1:].min() >= 10.0 - 1e-9


def test_thrusters_hold_a_vehicle():
    """In water the pushed vehicle comes back; commands are those of the shared thrusts."""
    robot = tb.load("bluerov2_heavy")
    world = tb.World(fluid=tb.Water())
    pose = robot.neutral()
    push = np.array([0.0, 0.0, 0.2, 0.1, -0.1, 0.05])
    run, control = held(robot, pose, 2.0, push, world=world)
    assert np.abs(run.q[-1] - pose).max() < 0.02
    assert not control.read(run).status.any()


def stepper():
    """Return a box with a flat sole and a driven arm that is a quarter of its weight."""
    box = (0.24, 0.16, 0.2)
    trunk = tb.Body(
        "trunk",
        joint=tb.Free("base"),
        inertia=tb.Inertia.box(6.0, box),
        shapes=[tb.Shape(tb.BoxShape(box))],
    )
    swing = tb.Revolute("swing", axis=(0, 1, 0), pose=tb.Pose(translation=(0.0, 0.0, 0.1)))
    arm = tb.Body("arm", "trunk", joint=swing, inertia=tb.Inertia.box(2.0, (0.04, 0.04, 0.3),
                  com=(0.0, 0.0, 0.15)))  # fmt: skip
    drive = tb.Actuator("shoulder", "swing", force_limits=(-30.0, 30.0))
    return tb.Model("stepper", [trunk, arm], actuators=[drive])


def test_a_flat_foot_carries_a_swinging_arm():
    """The sole stays on the ground, the arm follows, and the ground gives what was shared."""
    robot = stepper()
    sole = tb.ContactSite(
        "sole", "trunk", 0.6, point=(0.0, 0.0, -0.1), half_size=(0.12, 0.08), torsion=0.05
    )
    plan = tb.LoadSharing.of(robot, world=FLOOR, sites=[sole])
    q = robot.neutral()
    q[robot.slice("base")][-1:] = 0.1
    goal = q.copy()
    goal[robot.slice("swing")] = 0.5
    path = tb.MotionPath(
        q, joints=tb.JointPath.through([0.0, 0.8], [[0.0], [0.5]], joints=["swing"])
    )
    control = tb.LoadSharingControl(plan, path)
    run = tb.simulate(
        robot,
        1.0,
        q=q,
        world=FLOOR,
        control=control,
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    assert run.status == "finished"
    shared = control.read(run)
    assert not shared.status.any()
    np.testing.assert_allclose(run.q[-1], goal, atol=2e-3)
    # the box did not move
    assert np.abs(run.q[:, :7] - q[:7]).max() < 1e-4
    measured = run.get("contact_force").values.sum(axis=1)
    # forces of the sole act on the ground; those of the ground on the box are opposite
    normal = shared.forces[:, list(plan.names).index("sole.n")]
    settled = run.time > 0.05
    np.testing.assert_allclose(measured[settled, 2], normal[settled], rtol=0.02)
    # moments of the sole are those of the arm's weight
    arm = shared.forces[:, list(plan.names).index("sole.m2")]
    assert np.abs(arm).max() > 0.5


def test_a_joint_transmits_no_more_than_its_limit(dog, plan):
    """Wrench of the accelerations that the robot really has, where the controller changes them."""
    joint, most = "front_left_knee", 45.0
    limit = tb.JointWrenchLimit(joint, force=(np.inf, np.inf, most))
    weak = tb.LoadSharing.of(dog, world=FLOOR, friction=PLANNED_FRICTION, limits=[limit])
    control = tb.LoadSharingControl(weak, tb.GaitPath.trot(dog))
    run = simulated(dog, control, 0.8)
    shared = control.read(run)
    assert not shared.status.any()
    # contacts do not allow all desired accelerations
    assert np.abs(shared.missing).max() > 1.0
    q, v, vd = run.q[:-1], run.v[:-1], np.diff(run.v, axis=0) / (run.time[1] - run.time[0])
    share = plan.share(q, v, vd, touching=shared.touching[:-1])._replace(x=shared.forces[:-1])
    wrench = plan.joint_wrenches(share).of(joint)
    body = next(body.name for body in dog.bodies if body.joint.name == joint)
    rotation, _ = tb.forward_kinematics(dog, q, body)
    along = np.einsum("ki,ki->k", rotation[:, :, 2], wrench[:, 3:])
    # accelerations are differences over steps, and commands are held: 45 uN at 0.5 ms, 97 at 1 ms
    assert np.abs(along).max() == pytest.approx(most, rel=3e-6)
    assert (np.abs(along) > 0.999 * most).mean() > 0.05


def with_motors(dog, **values):
    """Return the robot with a geared motor at each driven joint."""
    motor = tb.Motor(0.2, 0.1, damping=1e-5, friction=2e-3, brush_drop=0.5, **values)
    actuators = [tb.Actuator(x.name, x.joint, ratio=-9.0, motor=motor) for x in dog.actuators]
    parts = {name: getattr(dog, name) for name in ("bodies", "contacts", "poses")}
    return tb.Model("motors", actuators=actuators, **parts)


def test_motors_get_the_voltages_that_give_shared_torques(dog):
    """Joint forces of motors equal shared ones, voltages and currents stay within their limits."""
    robot = with_motors(dog, voltage_limit=20.0, current_limit=16.0)
    objective = tb.InternalForce() + 0.1 * tb.MotorLoss()
    plan = tb.LoadSharing.of(robot, world=FLOOR, friction=PLANNED_FRICTION, objective=objective)
    path = tb.GaitPath.trot(robot)
    control = tb.LoadSharingControl(plan, path, through="actuators")
    run = simulated(robot, control, 0.8)
    shared = control.read(run)
    assert not shared.status.any()
    torque, current, voltage = (
        np.stack([run.get(f"{x.name}.{what}").values for x in robot.actuators], axis=-1)
        for what in ("force", "current", "voltage")
    )
    free = np.abs(current[:-1]) < 16.0 - 1e-9
    np.testing.assert_allclose(torque[:-1][free], shared.tau[:-1][free], atol=1e-12)
    # limits take the sign of the speed, motors rub smoothly about rest: 9 * 2e-3 N m at most
    np.testing.assert_allclose(torque[:-1], shared.tau[:-1], atol=0.018)
    assert not free.all()
    assert np.abs(voltage).max() <= 20.0
    assert np.abs(current).max() <= 16.0 + 1e-12
    with pytest.raises(tb.ModelError, match="pass through='actuators' for voltages"):
        simulated(robot, tb.LoadSharingControl(plan, path), 0.01)
    with pytest.raises(tb.ModelError, match="its motor differs from that of the plan"):
        simulated(with_motors(dog), control, 0.01)


@tb.traced
class Standing:
    """A controller of the user's own: a plan in traced code, with its warm start as its states."""

    def __init__(self, plan, warm):
        self.plan, self.warm = plan, warm
        self.posture = np.array(plan.model.poses["stand"])

    def discrete_state_names(self, model):
        return tuple(f"memory_{k}" for k in range(self.plan.memory))

    def wanted(self, q, v, time):
        joints = 400.0 * (self.posture[7:] - q[7:]) - 40.0 * v[6:]
        return [*(-40.0 * v[:3]), 0.0, 0.0, 3.0 * np.sin(20.0 * time), *joints]

    def __call__(self, state):
        before = state.own_z if self.warm else None
        vd = self.wanted(state.q, state.v, state.time)
        share = self.plan.share(state.q, state.v, vd, before=before)
        commands = dict(zip(state.system.command_names[6:18], share.tau[6:], strict=True))
        return commands, share.warm_start


def test_a_plan_runs_in_controllers_of_the_user(dog, plan):
    """At 1 kHz in compiled code; its warm start is a value, which changes rounding only."""
    cold, warm = (
        simulated(dog, tb.Sampled(Standing(plan, warm=use), dt=0.001), 0.2) for use in (False, True)
    )
    assert cold.outcome.status == warm.outcome.status == "finished"
    np.testing.assert_allclose(warm.u, cold.u, atol=1e-7)
    labels = list(warm.header.column("z").labels)
    memory = warm.z[100, [labels.index(f"memory_{k}") for k in range(plan.memory)]]
    q, v = warm.q[100], warm.v[100]
    vd = Standing(plan, warm=True).wanted(q, v, warm.time[100])
    share = plan.share(q, v, vd, before=memory)
    np.testing.assert_allclose(share.warm_start, memory, atol=1e-7)
    with pytest.raises(tb.ShapeError, match="a warm_start"):
        plan.share(q, before=memory[1:])


def test_a_run_without_the_contacts_of_the_plan_is_refused():
    """Forces that nothing carries are no solution."""
    dog = tb.load("quadruped")
    control = tb.LoadSharingControl(tb.LoadSharing.of(dog, friction=0.6), dog.poses["stand"])
    with pytest.raises(tb.ModelError, match="'front_left_foot' of the plan does not act"):
        tb.simulate(dog, 0.01, control=control, execution=tb.Execution(progress=False))


@pytest.mark.parametrize("on", ["forces", "torques"])
def test_single_forces_change_by_no_more_than_their_own_bounds(dog, plan, on):
    """Bounds and weights of changes are by name in runs, and run-time parameters by name."""
    name = "front_left_foot.n" if on == "forces" else "front_left_pitch"
    scheme = tb.SmoothingPenalty({name: 20.0}, 0.1, on=on)
    path = tb.GaitPath.trot(dog)
    bound = 1.5 if on == "forces" else 0.25
    control = tb.LoadSharingControl(plan, path, {name: bound}, scheme)
    run = simulated(dog, control, 0.45)
    shared = control.read(run)
    values = shared.forces if on == "forces" else shared.tau
    driven = [dog.v_names[i] for i in plan.layout.driven]
    place = list(plan.names if on == "forces" else driven).index(name)
    steps = np.abs(np.diff(values, axis=0)).max(axis=0)
    assert shared.status.max() == 0.0
    assert steps[place] <= bound * (1 + 1e-6)
    assert np.delete(steps, place).max() > 1.2 * bound
    key = f"control.max_step.{name}"
    cases = simulated(dog, control, 0.1, parameters={key: [[bound], [0.5 * bound]]})
    alone = simulated(dog, tb.LoadSharingControl(plan, path, {name: 0.5 * bound}, scheme), 0.1)
    assert cases.v[:, 1] == pytest.approx(alone.v, abs=1e-9)


def test_contacts_of_a_path_have_several_intervals(dog, plan):
    """A foot that carries load twice has no force between, and runs know each begin and end."""
    foot = "front_left_foot"
    times = [(-1.0, 0.06), (0.12, 0.2), (0.26, 9.0)]
    path = tb.MotionPath(dog.poses["stand"], contacts={foot: times}, transfer=0.02)
    p = path.parameters()
    for time, inside, span in (
        (0.05, 1.0, (1.05, 0.01)),
        (0.1, 0.0, (1.1, -0.04)),
        (0.13, 1.0, (0.01, 0.07)),
        (0.22, 0.0, (0.1, -0.02)),
        (0.3, 1.0, (0.04, 8.7)),
    ):
        sample = path.sample(p, time)
        assert sample.touching[foot] == inside
        assert sample.spans[foot] == pytest.approx(span)
    one = tb.MotionPath(dog.poses["stand"], contacts={foot: (0.1, 0.2)})
    assert one.contacts == ((foot, (0.1, 0.2)),)
    control = tb.LoadSharingControl(plan, path)
    shared = control.read(run := simulated(dog, control, 0.3))
    time = run.time
    normal = shared.forces[:, plan.names.index(f"{foot}.n")]
    # the sample at which an interval ends is the first without load
    out = ((time > 0.0605) & (time < 0.1195)) | ((time > 0.2005) & (time < 0.2595))
    assert np.abs(normal[out]).max() < 1e-9
    assert normal[(time > 0.15) & (time < 0.17)].min() > 5.0
    for wrong in ([(0.1, 0.3), (0.2, 0.4)], [(0.3, 0.1)], [0.1, 0.2, 0.3], [(0.1, np.nan)]):
        with pytest.raises(tb.TiburonError, match="contacts"):
            tb.MotionPath(dog.poses["stand"], contacts={foot: wrong})


def planned_contacts(path, run, names):
    """Return 1 for each contact that the path plans, else 0, shape (rows, contacts)."""
    p = path.parameters()
    samples = [path.sample(p, time).touching for time in run.time]
    return np.array([[sample[name] for name in names] for sample in samples])


def check_bounded(shared, bound):
    """Where the status is 0, no force changed by more than the bound since the sample before."""
    change = np.abs(np.diff(shared.forces, axis=0)).max(axis=-1)[1:]
    assert change[shared.status[2:] == 0.0].max() <= bound * (1.0 + 1e-6)
    assert (change[shared.status[2:] == 0.0] > 0.99 * bound).any()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transfers": False},
        {"smoothing": None},
        pytest.param({"contact": "measured"}, marks=pytest.mark.slow),
        pytest.param({"smoothing": tb.StepBound(1.0), "max_step": None}, marks=pytest.mark.slow),
    ],
)
def test_feet_lift_when_step_bounds_have_unloaded_them(dog, plan, options):
    """A bound too small for the planned end of a contact delays the lift: none is exceeded."""
    path = tb.GaitPath.trot(dog, speed=0.3)
    control = tb.LoadSharingControl(plan, path, **{"max_step": 1.0, **options})
    run = simulated(dog, control, 1.1)
    shared = control.read(run)
    assert not shared.status.any()
    check_bounded(shared, 1.0)
    feet = plan.contact_names[:4]
    planned = planned_contacts(path, run, feet)
    late = (shared.touching[:, :4] > planned) & (run.time[:, None] > 0.01)
    assert late.any(axis=0).all()
    # all feet have been in the air, without force, and the dog walks on
    assert (shared.touching[:, :4].min(axis=0) == 0.0).all()
    force = shared.forces.reshape(len(run.time), -1)[:, :12].reshape(-1, 4, 3)
    assert not force[shared.touching[:, :4] == 0.0].any()
    tilt = 2.0 * np.degrees(np.arcsin(np.linalg.norm(run.q[:, 1:3], axis=1)))
    assert tilt.max() < 6.0
    assert np.ptp(run.q[:, 6]) < 0.03
    # feet that lift late land at their footholds in time, as far as these do not catch errors
    for k, point in enumerate(path.points):
        for row in np.flatnonzero(np.diff(shared.touching[:, k]) > 0.5) + 1:
            if run.time[row] > 0.1:
                rotation, place = tb.forward_kinematics(dog, run.q[row], point.body)
                sample = path.sample(path.parameters(), run.time[row - 30])
                center = rotation @ np.array(point.position) + place
                error = center - np.array(sample.aims[point.name].landing)
                assert abs(error[2]) < 1e-3
                assert np.abs(error[:2]).max() < 0.03


def test_feet_that_wait_stand_on_shared_forces_and_lift_from_where_they_stand(dog, plan):
    """While the path already swings a foot it stays at rest; its swing then starts at its place."""
    path = tb.GaitPath.trot(dog, speed=0.3)
    run = simulated(dog, tb.LoadSharingControl(plan, path, max_step=1.0), 0.8)
    feet = plan.contact_names[:4]
    touching, normal = (recorded(run, feet, part) for part in ("touching", "n"))
    waiting = touching > planned_contacts(path, run, feet)
    waiting[:10] = False
    error = np.abs(run.get("contact_force").values[1:, :, 2] - normal[:-1])[waiting[:-1]]
    assert normal[waiting].max() > 20.0
    assert error.max() < 0.1
    offsets = np.stack([recorded(run, feet, f"offset_{axis}") for axis in "xyz"], axis=-1)
    shifts = np.stack([recorded(run, feet, f"shift_{axis}") for axis in "xy"], axis=-1)
    count = 0
    for k, point in enumerate(path.points):
        for row in np.flatnonzero(waiting[:-1, k] & ~waiting[1:, k]):
            aim = path.sample(path.parameters(), run.time[row]).aims[point.name]
            assert aim.blend[0] > 0.01
            aim = aim.moved(offsets[row, k]).shifted([*shifts[row, k], 0.0])
            rotation, place = tb.forward_kinematics(dog, run.q[row], point.body)
            center = rotation @ np.array(point.position) + place
            np.testing.assert_allclose(aim.position, center, atol=1e-9)
            count += 1
    assert count >= 4


def test_bounds_of_tangential_forces_delay_lifts_too(dog, plan):
    """Normal forces fall no faster than friction lets the tangential ones fall."""
    foot, bound = "front_left_foot", 0.05
    path = tb.GaitPath.trot(dog, speed=0.3)
    control = tb.LoadSharingControl(plan, path, max_step={f"{foot}.t1": bound, f"{foot}.t2": bound})
    run = simulated(dog, control, 0.65)
    shared = control.read(run)
    assert not shared.status.any()
    steps = np.abs(np.diff(shared.forces[1:], axis=0)).max(axis=0)
    assert steps[:2].max() == pytest.approx(bound, rel=1e-5)
    assert steps[2] > 10.0 * bound
    lifted = run.time[1:][np.diff(shared.touching[:, 0]) < 0.0]
    planned = run.time[1:][np.diff(planned_contacts(path, run, [foot])[:, 0]) < 0.0]
    assert len(lifted) == len(planned) == 1
    assert 0.01 < lifted[0] - planned[0] < 0.1


def test_intervals_of_a_path_end_when_step_bounds_have_unloaded_them(dog, plan):
    """Of several intervals each ends late, or not at all before the next one begins."""
    foot = "front_left_foot"
    times = [(-1.0, 0.06), (0.12, 0.2), (0.26, 9.0)]
    path = tb.MotionPath(dog.poses["stand"], contacts={foot: times}, transfer=0.02)
    place = plan.contact_names.index(foot)
    ends = {}
    for bound in (3.0, 1.0, 0.2):
        control = tb.LoadSharingControl(plan, path, max_step=bound)
        run = simulated(dog, control, 0.3)
        shared = control.read(run)
        assert not shared.status.any()
        touching = shared.touching[:, place]
        change = np.abs(np.diff(shared.forces[1:], axis=0)).max()
        assert change <= bound * (1.0 + 1e-6)
        assert not shared.forces[touching == 0.0][:, 3 * place : 3 * place + 3].any()
        ends[bound] = run.time[1:][np.diff(touching) < 0.0]
    np.testing.assert_allclose(ends[3.0], [0.06, 0.2], atol=1.5e-3)
    assert ((ends[1.0] > np.array([0.062, 0.202])) & (ends[1.0] < [0.08, 0.22])).all()
    assert len(ends[0.2]) == 0
    # a bound by name is that of the whole contact, also of its normal force alone
    control = tb.LoadSharingControl(plan, path, max_step={f"{foot}.n": 1.0})
    shared = control.read(simulated(dog, control, 0.1))
    steps = np.abs(np.diff(shared.forces[1:], axis=0))
    assert not shared.status.any()
    assert steps[:, plan.names.index(f"{foot}.n")].max() <= 1.0 + 1e-6
    assert control.read(simulated(dog, control, 0.1)).touching[:, place].min() == 0.0


def test_cases_of_a_batch_lift_their_feet_by_bounds_of_their_own(dog, plan):
    """Cases with small and large bounds in one batch are those of single runs."""
    path = tb.MotionPath(
        dog.poses["stand"], contacts={"front_left_foot": (-1.0, 0.04)}, transfer=0.02
    )
    bounds = [0.5, 1.0, 30.0]
    control = tb.LoadSharingControl(plan, path, max_step=5.0)
    cases = simulated(dog, control, 0.08, parameters={"control.max_step": bounds})
    for k, bound in enumerate(bounds):
        own = tb.LoadSharingControl(plan, path, max_step=bound)
        one = simulated(dog, own, 0.08)
        np.testing.assert_array_equal(cases.z[:, k], one.z)
        if bound < 30.0:
            check_bounded(own.read(one), bound)


def test_what_is_gone_at_once_is_reported_where_steps_are_bounded():
    """A cable that fails, or whose interval ends, loses its least tension: the status says so."""
    robot = tb.load("cable_robot")
    home = robot.poses["home"]
    plan = tb.LoadSharing.of(robot)
    name = plan.contact_names[1]
    for path, options in (
        (home, {"failed": {name: 0.02}}),
        (tb.MotionPath(home, contacts={name: (-1.0, 0.02)}), {}),
    ):
        control = tb.LoadSharingControl(plan, path, max_step=2.0, **options)
        run = tb.simulate(
            robot,
            0.04,
            q=home,
            control=control,
            record=tb.Record(every=1),
            execution=tb.Execution(progress=False),
        )
        shared = control.read(run)
        np.testing.assert_allclose(run.time[shared.status != 0.0], [0.02], atol=1.5e-3)
        assert shared.status.max() == 7.0
        check_bounded(shared, 2.0)


def test_contacts_end_as_planned_after_a_sample_without_solution(dog, plan):
    """Forces that stay for want of a solution would keep a foot down for ever."""
    path = tb.MotionPath(dog.poses["stand"], contacts={"front_left_foot": (-1.0, 0.02)})
    # normal forces that may not fall to the bound leave no solution, once the foot waits
    kept = tb.LoadSharing.of(
        dog,
        world=FLOOR,
        friction=PLANNED_FRICTION,
        limits=[tb.NormalForceLimit({"front_left_foot": (5.0, np.inf)})],
    )
    control = tb.LoadSharingControl(kept, path, max_step=1.0, transfers=False)
    shared = control.read(simulated(dog, control, 0.08))
    assert {0.0, 1.0, 7.0} == set(shared.status)
    first = np.argmax(shared.status == 7.0)
    assert shared.status[first - 1] == 1.0
    assert shared.touching[first, 0] == 0.0
    assert not shared.forces[first:, :3].any()
    assert not shared.status[first + 1 :].any()
    check_bounded(shared, 1.0)


def test_failed_actuators_give_no_force_from_their_time_on(dog, plan):
    """A knee that fails while the dog stands has no torque; others carry on, within limits."""
    name = "hind_right_knee"
    place = [dog.v_names[i] for i in plan.layout.driven].index(name)
    control = tb.LoadSharingControl(plan, dog.poses["stand"], failed={name: 0.05})
    run = simulated(dog, control, 0.08)
    shared = control.read(run)
    before = run.time < 0.0495
    assert np.abs(shared.tau[before, place]).min() > 1.0
    assert np.abs(shared.tau[run.time > 0.0505, place]).max() < 1e-9
    assert shared.status.max() == 0.0
    always = tb.LoadSharingControl(plan, dog.poses["stand"], failed=[name])
    assert np.abs(always.read(simulated(dog, always, 0.02)).tau[:, place]).max() < 1e-9
    # when it fails is a run-time parameter, by name
    times = [[0.02], [9.0]]
    cases = simulated(dog, control, 0.04, parameters={f"control.failed.{name}": times})
    late = control.read(cases).tau[-1, :, place]
    assert abs(late[0]) < 1e-9
    assert abs(late[1]) > 1.0
    with pytest.raises(tb.UnknownNameError, match="hind_knee"):
        tb.LoadSharingControl(plan, dog.poses["stand"], failed=["hind_knee"])
    with pytest.raises(tb.DomainError, match="failed"):
        tb.LoadSharingControl(plan, dog.poses["stand"], failed={name: np.nan})


def test_failed_cables_carry_no_tension():
    """A cable that fails takes no part from its time on, and the platform is held by others."""
    robot = tb.load("cable_robot")
    home = robot.poses["home"]
    plan = tb.LoadSharing.of(robot)
    name = plan.contact_names[1]
    control = tb.LoadSharingControl(plan, home, failed={name: 0.02})
    run = tb.simulate(
        robot,
        0.04,
        q=home,
        control=control,
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    tension = control.read(run).forces[:, 1]
    assert tension[run.time < 0.0195].min() > 9.0
    assert np.abs(tension[run.time > 0.0205]).max() < 1e-9
