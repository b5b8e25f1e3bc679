"""Joints that follow given paths in a run while the others react."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tiburon.simulation.integrators.methods import METHODS

ARM = ["joint_5", "joint_4", "joint_3", "joint_2"]


def arm_path(seed, length=1.0):
    """Return a moving path of the arm of the vehicle; it does not start at rest."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0.0, length, 8)
    points = np.cumsum(0.3 * rng.normal(size=(8, 4)), axis=0)
    return tb.JointPath.through(
        times, points, kind="quintic", joints=ARM, start_velocity=rng.normal(size=4)
    )


def by_joint(path):
    return {name: path.of(name) for name in path.joints}


@pytest.fixture(scope="module")
def vehicle():
    return tb.load("bluerov2_alpha").without_passive().without_limits()


def kicked(robot, seed=3):
    """Return a start whose base moves and is turned off the axes."""
    rng = np.random.default_rng(seed)
    v = np.zeros(robot.nv)
    v[:6] = 0.3 * rng.normal(size=6)
    return v


def test_vehicle_reacts_to_its_arm_as_inverse_dynamics_demands(vehicle):
    sea = tb.Water(current=(0.2, -0.1, 0.05))
    path = arm_path(0)
    run = tb.simulate(vehicle, 0.5, prescribed=by_joint(path), fluid=sea, method=tb.RK4(dt=0.01))
    at = path.at(run.time)
    places = vehicle.indices(ARM, of="q"), vehicle.indices(ARM, of="v")
    # positions and velocities come from the path itself, not from integrating it
    assert np.abs(run.q[:, places[0]] - at.position).max() < 1e-14
    assert np.abs(run.v[:, places[1]] - at.velocity).max() < 1e-13
    force = run.get("prescribed_force").values
    vd = run.get("joint_acceleration").values
    assert np.abs(vd[:, places[1]] - at.acceleration).max() < 1e-12
    needed = tb.inverse_dynamics(vehicle, run.q, run.v, vd, fluid=sea)
    assert np.abs(force).max() > 0.1
    assert np.abs(needed - force).max() < 1e-12 * np.abs(force).max() + 1e-12
    assert not force[:, :6].any()


def chain():
    """Return three links on skew axes."""
    shape = tb.Inertia(0.8, (0.1, 0.02, -0.2), (0.03, 0.001, -0.002, 0.04, 0.003, 0.02))
    axes = {"first": (0, 1, 0), "second": (0.8, 0, 0.6), "third": (0.28, 0.96, 0)}
    bodies, parent = [], "world"
    for name, axis in axes.items():
        joint = tb.Revolute(name, axis, pose=tb.Pose(translation=(0.0, 0.05, -0.4)))
        bodies.append(tb.Body(f"{name} link", parent, joint=joint, inertia=shape))
        parent = f"{name} link"
    return tb.Model("chain", bodies)


SWAY = tb.Harmonic(0.5, frequency=0.8, phase=0.3, mean=0.2)


def test_agrees_with_driven_joints():
    """A Driven joint has no variables of its own: other equations, the same motion."""
    robot = chain()
    first, middle, last = robot.bodies
    drive = replace(middle.joint, name="drive", pose=tb.Pose())
    driven = tb.Driven("second", drive, SWAY, pose=middle.joint.pose)
    other = tb.Model("driven", [first, replace(middle, joint=driven), last])
    x, xd, _ = SWAY.at(0.0)
    q, v = np.array([0.4, x, -0.7]), np.array([1.0, xd, -2.0])
    how = {"method": tb.Dop853(rtol=1e-12, atol=1e-13, dt=0.01)}
    ours = tb.simulate(robot, 1.0, prescribed={"second": SWAY}, q=q, v=v, **how)
    theirs = tb.simulate(other, 1.0, q=q[[0, 2]], v=v[[0, 2]], **how)
    assert np.abs(ours.q[:, [0, 2]] - theirs.q).max() < 1e-9
    assert np.ptp(theirs.q, axis=0).min() > 0.1


@pytest.mark.parametrize("method", METHODS)
def test_every_integrator_follows_the_path(method):
    robot = chain()
    given = {"prescribed": {"second": SWAY}}
    run = tb.simulate(robot, 0.2, method=integrator(method, dt=1e-3), **given)
    exact = tb.simulate(robot, 0.2, method=tb.Dop853(rtol=1e-12, atol=1e-13), **given)
    assert np.abs(run.q[:, 1] - [SWAY.at(t)[0] for t in run.time]).max() < 1e-14
    # order one, and the tolerance of adaptive methods
    bound = 2e-2 if "euler" in method else 1e-6
    assert np.abs(run.q[-1] - exact.q[-1]).max() < bound


def test_each_case_has_its_own_path_and_the_bits_it_has_alone(vehicle):
    paths = [arm_path(seed, length) for seed, length in ((1, 0.4), (2, 1.0), (3, 0.7))]
    v = kicked(vehicle)
    together = {name: [path.of(name) for path in paths] for name in ARM}
    how = {"fluid": tb.Water(), "method": tb.RK4(dt=0.01)}

    def start(path):
        found = v.copy()
        found[vehicle.indices(ARM, of="v")] = path.at(0.0).velocity
        return found

    batch = tb.simulate(
        vehicle, 0.5, prescribed=together, v=np.stack([start(p) for p in paths]), **how
    )
    for k, path in enumerate(paths):
        alone = tb.simulate(vehicle, 0.5, prescribed=by_joint(path), v=start(path), **how)
        assert np.array_equal(alone.q, batch.q[:, k])
        assert np.array_equal(
            alone.get("prescribed_force").values, batch.get("prescribed_force").values[:, k]
        )


def test_saved_runs_resume_with_the_same_bits(vehicle, tmp_path):
    paths = [arm_path(seed) for seed in (4, 5)]
    given = {name: [path.of(name) for path in paths] for name in ARM}
    how = {"prescribed": given, "fluid": tb.Water(), "method": tb.RK4(dt=0.01)}
    whole = tb.simulate(vehicle, 0.4, **how)
    tb.simulate(vehicle, 0.2, record=tb.Record(store=tmp_path / "run.zarr"), **how)
    run = tb.load_run(tmp_path / "run.zarr").resume(0.2)
    assert np.array_equal(run.q[-1], whole.q[-1])


def test_loops_stay_closed_around_a_prescribed_crank():
    robot = tb.load("four_bar").without_passive().without_limits()
    q = robot.poses["home"]
    crank = next(j.name for j in robot.joints if j.nv)
    at = robot.indices([crank], of="q")[0]
    turn = tb.Polynomial((q[at], 0.0, 4.0, -2.0))
    run = tb.simulate(robot, 0.5, prescribed={crank: turn}, q=q, method=tb.RK4(dt=1e-3))
    assert np.abs(run.q[:, at] - [turn.at(t)[0] for t in run.time]).max() < 1e-14
    assert np.abs(tb.constraint_residual(robot, run.q)).max() < 1e-11
    assert np.ptp(run.q[:, at]) > 0.5
    # the crank's force does all the work
    force, rate = run.get("prescribed_force").values[:, at], run.v[:, at]
    work = np.trapezoid(force * rate, run.time)
    energy = run.get("total_energy").values
    # rule of trapezoids over rows 10 ms apart
    assert abs(work - (energy[-1] - energy[0])) < 1e-3 * abs(work)


def test_compliant_contact_takes_part():
    robot = tb.load("quadruped")
    joint = next(j.name for j in robot.joints if j.nv == 1)
    at = robot.indices([joint], of="q")[0]
    q = robot.poses["stand"]
    floor = tb.World(ground=tb.Ground(normal_stiffness=2e4, normal_damping=200.0))
    wave = tb.Polynomial((q[at],))
    run = tb.simulate(
        robot,
        0.05,
        prescribed={joint: wave},
        q=q,
        world=floor,
        contact=tb.CompliantContact(),
        method=tb.RK4(dt=2e-4),
    )
    assert run.outcome.status == "finished"
    assert (run.q[:, at] == q[at]).all()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"elbw": tb.Harmonic(1.0, frequency=1.0)}, tb.UnknownNameError, "elbw"),
        ({"base": tb.Harmonic(1.0, frequency=1.0)}, tb.ModelError, "quaternion"),
        ({"joint_5": 3.0}, tb.ModelError, "JointPath.through"),
        ({"joint_5": []}, tb.DomainError, "no path"),
        ({"joint_5": (tb.Harmonic(1.0, frequency=1.0),) * 2}, tb.ShapeError, "1 position"),
        ([1.0], tb.ModelError, "paths by joint name"),
    ],
)
def test_bad_paths_are_refused_by_name(vehicle, given, error, words):
    with pytest.raises(error, match=words):
        tb.simulate(vehicle, 0.1, prescribed=given)


def test_start_off_the_path_is_refused(vehicle):
    q = vehicle.neutral().copy()
    q[vehicle.indices(["joint_4"], of="q")] = 0.3
    path = arm_path(0)
    with pytest.raises(tb.DomainError, match=r"joint_4.*start of its path"):
        tb.simulate(
            vehicle, 0.1, prescribed={"joint_4": path.of("joint_4")}, q=q, method=tb.RK4(dt=0.01)
        )


def test_numbers_of_paths_are_no_parameters_of_users(vehicle):
    """The list of paths decides which case follows which; another number would be overwritten."""
    path = arm_path(0).of("joint_4")
    with pytest.raises(tb.ModelError, match="follows from prescribed"):
        tb.simulate(
            vehicle,
            0.1,
            prescribed={"joint_4": path},
            parameters={"path of joint_4.case": 3.0},
            method=tb.RK4(dt=0.01),
        )


# -- rigid contact ---------------------------------------------------------------------------------

NOD = tb.Harmonic(0.3, frequency=0.7, phase=0.2, mean=0.6)
REACH, RADIUS = 0.5, 0.05
FLOOR = tb.World(ground=tb.Ground())


def jack(*, driven=False):
    """Return a slide that an arm lifts: a ball at its end stands on the floor without friction."""
    hip = tb.Revolute("hip", (0, 1, 0))
    if driven:
        hip = tb.Driven("hip", tb.Revolute("drive", (0, 1, 0)), NOD)
    ball = tb.Shape(
        tb.SphereShape(RADIUS),
        tb.Pose(translation=(0, 0, -REACH)),
        material=tb.ContactMaterial(0.0, 0.0),
    )
    slide = tb.Inertia.box(3.0, (0.1, 0.1, 0.1))
    arm = tb.Inertia(0.5, (0, 0, -0.5 * REACH), (0.04, 0, 0, 0.04, 0, 0.002))
    bodies = [
        tb.Body("slide", joint=tb.Prismatic("lift", (0, 0, 1)), inertia=slide),
        tb.Body("arm", "slide", joint=hip, inertia=arm, shapes=(ball,)),
    ]
    return tb.Model("jack", bodies)


def lifted(time):
    """Return position, velocity and acceleration of the jack on the floor, (n, 2) each."""
    x, xd, xdd = np.transpose([NOD.at(t) for t in np.atleast_1d(time)])
    sine, cosine = np.sin(x), np.cos(x)
    height = RADIUS + REACH * cosine
    rate, change = -REACH * sine * xd, -REACH * (sine * xdd + cosine * xd**2)
    return tuple(np.stack(pair, -1) for pair in ((height, x), (rate, xd), (change, xdd)))


def test_a_prescribed_arm_lifts_what_stands_on_rigid_contact():
    """Closed form: one degree of freedom, which the path determines; torque with the push below."""
    robot, torque_error = jack(), []
    for dt in (1e-3, 5e-4):
        q, v, _ = lifted(0.0)
        run = tb.simulate(
            robot,
            1.5,
            prescribed={"hip": NOD},
            q=q[0],
            v=v[0],
            world=FLOOR,
            method=tb.RK4(dt=dt),
            record=tb.Record(dt=1e-3),
        )
        assert run.outcome.status == "finished"
        q, v, vd = lifted(run.time)
        assert np.abs(run.q[:, 1] - q[:, 1]).max() < 1e-14
        assert np.abs(run.q[:, 0] - q[:, 0]).max() < 3e-9
        assert np.abs(run.v - v).max() < 3e-6
        needed = tb.inverse_dynamics(robot, q, v, vd)
        push = needed[:, 0]
        assert push.min() > 20.0
        torque = needed[:, 1] - push * REACH * np.sin(q[:, 1])
        found = run.get("prescribed_force").values
        assert not found[:, 0].any()
        # forces of contacts are means over the step before
        torque_error.append(np.abs(found[2:, 1] - torque[2:]).max())
        forces = run.get("contact_force").values[2:, 0, 2]
        assert np.abs(np.abs(forces) - push[2:]).max() < 20.0 * dt
    assert torque_error[0] < 0.01 < 0.1 * np.abs(torque).max()
    assert torque_error[1] < 0.55 * torque_error[0]


def test_prescribed_joints_bounce_and_land_as_driven_ones():
    """A Driven joint has no variables of its own; the jack starts at rest and jumps."""
    (q, *_), how = (
        lifted(0.0),
        {"world": FLOOR, "method": tb.RK4(dt=1e-3), "record": tb.Record(dt=1e-3)},
    )
    ours = tb.simulate(jack(), 1.0, prescribed={"hip": NOD}, q=q[0] + [0.02, 0.0], **how)
    theirs = tb.simulate(jack(driven=True), 1.0, q=q[0, :1] + 0.02, **how)
    pushed = np.abs(theirs.get("contact_force").values[:, 0, 2]) > 0.0
    assert pushed.any()
    assert not pushed.all()
    np.testing.assert_allclose(ours.q[:, :1], theirs.q, atol=5e-9)
    np.testing.assert_allclose(ours.v[:, :1], theirs.v, atol=5e-6)


TURN = tb.Harmonic(0.4, frequency=0.8, phase=0.2, mean=1.2)


def stepper_leg(*, driven=False):
    """Return a slide on a four-bar, whose coupler carries a foot."""
    across = (0, 1, 0)

    def link(mass, length):
        return tb.Inertia(
            mass, (0, 0, -0.5 * length), (0.02 * mass, 0, 0, 0.02 * mass, 0, 0.002 * mass)
        )

    def below(length, x=0.0):
        return tb.Pose(translation=(x, 0, -length))

    crank = tb.Revolute("crank", across)
    if driven:
        crank = tb.Driven("crank", tb.Revolute("drive", across), TURN)
    elbow = tb.Revolute("elbow", across, pose=below(0.2))
    rock = tb.Revolute("rock", across, pose=below(-0.05, 0.45))
    foot = tb.Shape(tb.SphereShape(RADIUS), below(0.5, 0.1), material=tb.ContactMaterial(0.0, 0.0))
    lift = tb.Prismatic("lift", (0, 0, 1))
    bodies = [
        tb.Body("slide", joint=lift, inertia=tb.Inertia.sphere(3.0, 0.1)),
        tb.Body("crank", "slide", joint=crank, inertia=link(0.4, 0.2)),
        tb.Body("coupler", "crank", joint=elbow, inertia=link(0.6, 0.5), shapes=(foot,)),
        tb.Body("rocker", "slide", joint=rock, inertia=link(0.5, 0.3)),
    ]
    pin = tb.Revolute("pin", across, pose=below(0.45))
    loop = tb.LoopClosure("pin", "coupler", "rocker", pin, below(0.3))
    return tb.Model("stepper leg", bodies, loops=[loop])


def test_prescribed_cranks_of_loops_step_on_rigid_contact():
    """As with a Driven crank; the foot falls, lands and pushes."""
    robot, (x, xd, _) = stepper_leg(), TURN.at(0.0)
    held = {"crank": x, "lift": 1.0}
    q = np.array(tb.assemble(robot, [1.0, x, -2.6, 0.75], hold=held).q)
    rotation, position = tb.forward_kinematics(robot, q, "coupler")
    q[0] -= (position + rotation @ [0.1, 0.0, -0.5])[2] - RADIUS - 0.02
    v = np.array(tb.project_velocity(robot, q, [0.0, xd, 0.0, 0.0], hold=["crank", "lift"]))
    how = {"world": FLOOR, "method": tb.RK4(dt=1e-3), "record": tb.Record(dt=1e-3)}
    ours = tb.simulate(robot, 0.5, q=q, v=v, prescribed={"crank": TURN}, **how)
    others = [0, 2, 3]
    theirs = tb.simulate(stepper_leg(driven=True), 0.5, q=q[others], v=v[others], **how)
    pushed = np.abs(theirs.get("contact_force").values[:, 0, 2]) > 0.0
    assert 0.5 < pushed.mean() < 0.95
    np.testing.assert_allclose(ours.q[:, others], theirs.q, atol=1e-8)
    np.testing.assert_allclose(ours.v[:, others], theirs.v, atol=5e-6)
    assert np.abs(tb.constraint_residual(robot, ours.q)).max() < 1e-12


def test_cases_on_rigid_contact_have_their_own_paths_and_bits():
    paths = [NOD, tb.Harmonic(0.2, frequency=1.1, phase=-0.4, mean=0.5)]
    robot, how = jack(), {"world": FLOOR, "method": tb.RK4(dt=1e-3)}
    q = [[0.6, path.at(0.0)[0]] for path in paths]
    table = [
        tb.JointPath.through(
            np.linspace(0.0, 0.4, 9), np.array([[path.at(t)[0]] for t in np.linspace(0.0, 0.4, 9)]),
            kind="quintic", joints=["hip"],
        )
        for path in paths
    ]  # fmt: skip
    together = tb.simulate(robot, 0.3, prescribed={"hip": table}, q=q, **how)
    for k, path in enumerate(table):
        alone = tb.simulate(robot, 0.3, prescribed={"hip": path}, q=q[k], **how)
        assert np.array_equal(alone.q, together.q[:, k])
        for name in ("prescribed_force", "contact_force"):
            assert np.array_equal(
                alone.get(name).values, together.get(name).values[:, k], equal_nan=True
            )
        assert np.abs(alone.get("contact_force").values).max() > 10.0


@pytest.mark.parametrize(("rate", "slips"), [(3.0, False), (12.0, True)])
def test_momentum_changes_by_the_impulses_of_contacts(rate, slips):
    """A sled on a rail throws a mass backwards: 0.5, 1.5 and 1 kg, mu 0.3; stick and slip."""
    mu, whole, lifted_mass, thrown, g = 0.3, 3.0, 2.5, 1.0, 9.81
    ball = tb.Shape(tb.SphereShape(0.1), material=tb.ContactMaterial(mu, mu))
    bodies = [
        tb.Body(
            "rail", joint=tb.Prismatic("along", (1, 0, 0)), inertia=tb.Inertia.sphere(0.5, 0.1)
        ),
        tb.Body(
            "sled", "rail", joint=tb.Prismatic("up", (0, 0, 1)),
            inertia=tb.Inertia.sphere(1.5, 0.1), shapes=(ball,),
        ),
        tb.Body(
            "mass", "sled", joint=tb.Prismatic("throw", (-1, 0, 0)),
            inertia=tb.Inertia.sphere(thrown, 0.05),
        ),
    ]  # fmt: skip
    robot = tb.Model("sled", bodies)
    path = tb.Polynomial((0.0, 0.0, 0.5 * rate))
    rough, h = tb.World(ground=tb.Ground(static_friction=mu, kinetic_friction=mu)), 1e-3
    run = tb.simulate(
        robot,
        0.4,
        prescribed={"throw": path},
        q=[0.0, 0.1, 0.0],
        world=rough,
        method=tb.RK4(dt=h),
        record=tb.Record(dt=h),
    )
    force = run.get("contact_force").values[1:, 0]
    force = force * np.sign(force[-1, 2])
    change = np.diff(run.v @ [whole, 0.0, -thrown])
    np.testing.assert_allclose(change, h * force[:, 0], atol=1e-9)
    np.testing.assert_allclose(force[:, 2], lifted_mass * g, rtol=1e-6)
    # the reaction of the thrown mass, less friction, moves the sled
    push = (thrown * rate - mu * lifted_mass * g) / whole if slips else 0.0
    np.testing.assert_allclose(run.v[-1, 0], push * 0.4, atol=1e-6)
    needed = run.get("prescribed_force").values[2:, 2]
    np.testing.assert_allclose(needed, thrown * (rate - push), rtol=1e-6)


def test_a_quadruped_walks_on_prescribed_legs():
    """All twelve joints follow paths: the feet carry the weight; batch, resume and bits."""
    robot = tb.load("quadruped")
    q = np.array(robot.poses["stand"])
    joints = [joint.name for joint in robot.joints if joint.nv == 1]
    places = robot.indices(joints, of="q")
    floor = tb.World(ground=tb.Ground(static_friction=0.8))
    paths = [
        {
            name: tb.Polynomial((q[at], 0.0, size * (-1) ** k))
            for k, (name, at) in enumerate(zip(joints, places, strict=True))
        }
        for size in (0.0, 0.3)
    ]
    how = {"q": q, "world": floor, "method": tb.RK4(dt=1e-3)}
    robot = robot.without_passive().without_limits()
    still, moving = (tb.simulate(robot, 0.2, prescribed=path, **how) for path in paths)
    weight = 9.81 * sum(body.inertia.mass for body in robot.bodies)
    total = np.abs(still.get("contact_force").values[-1, :, 2]).sum()
    assert total == pytest.approx(weight, rel=1e-3)
    # what the legs take at rest is what inverse dynamics says of standing
    torque = still.get("prescribed_force").values[-1]
    assert not torque[:6].any()
    assert np.abs(torque).max() > 1.0
    assert (
        np.abs(moving.q[-1, places] - [path.at(0.2)[0] for path in paths[1].values()]).max() < 1e-13
    )
    resumed = tb.simulate(robot, 0.1, prescribed=paths[1], **how).resume(0.1)
    assert np.array_equal(resumed.q[-1], moving.q[-1])


@pytest.mark.parametrize("slides", [False, True])
def test_paths_that_press_on_the_floor_end_the_run(slides):
    """Nothing can give way, or only sideways: the outcome names the contact."""
    ball = tb.Shape(tb.SphereShape(0.1))
    bodies = []
    if slides:
        free = tb.Prismatic("aside", (1, 0, 0))
        bodies.append(tb.Body("cart", joint=free, inertia=tb.Inertia.sphere(1.0, 0.1)))
    down = tb.Prismatic("down", (0, 0, -1))
    ram = {"joint": down, "inertia": tb.Inertia.sphere(1.0, 0.1), "shapes": (ball,)}
    bodies.append(tb.Body("ram", "cart" if slides else "world", **ram))
    path = {"down": tb.Polynomial((-0.15, 0.5))}
    run = tb.simulate(
        tb.Model("press", bodies), 0.3, prescribed=path, world=FLOOR, method=tb.RK4(dt=1e-3)
    )
    assert run.outcome.status == "diverged"
    assert run.outcome.time == pytest.approx(0.1, abs=2e-3)
    assert "contact 'ram/ground'" in run.outcome.message
    assert "prescribed motion" in run.outcome.message


def test_exact_contact_and_kept_inertia_are_refused():
    robot = tb.load("quadruped")
    joint = next(j.name for j in robot.joints if j.nv == 1)
    given = {joint: tb.Harmonic(0.1, frequency=1.0)}
    floor = tb.World(ground=tb.Ground(static_friction=0.8))
    with pytest.raises(tb.ModelError, match="CompliantContact"):
        tb.simulate(
            robot,
            0.1,
            prescribed=given,
            world=floor,
            q=robot.poses["stand"],
            contact=tb.ExactContact(),
        )
    with pytest.raises(tb.DomainError, match="keep_inertia"):
        tb.simulate(robot, 0.1, prescribed=given, method=tb.RK4(keep_inertia=2))
