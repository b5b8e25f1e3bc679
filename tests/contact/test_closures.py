"""Contacts as joints of closed loops: degrees of freedom, equal accelerations, changes in a run."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tiburon.contact.candidates import Part, candidates_of
from tiburon.contact.closures import ContactClosure, contact_closure_of
from tiburon.model.contact_kinds import CONTACT_KINDS, contact_kind

INERTIA = tb.Inertia(1.5, (0.02, -0.01, 0.03), np.diag([0.05, 0.06, 0.07]))


def free_body(shape=None):
    shapes = () if shape is None else (tb.Shape(shape, role="collision"),)
    return tb.Model(
        "body", [tb.Body("body", joint=tb.Free("body"), inertia=INERTIA, shapes=shapes)]
    )


def closures_of_kind(kind, pose, length):
    """Closures that bind the body as a kind does: z is its normal or axis, x a line's direction."""

    def point_on_plane(kind, name, end):
        plane = Part("world", "plane", pose, ())
        return ContactClosure(name, Part("body", "sphere", end, (0.0,)), plane, kind)

    if kind.constrained == ("fz",):
        return (point_on_plane(kind, "touch", tb.Pose()),)
    if kind.constrained == ("fz", "ny") and not kind.frictional:
        ends = (tb.Pose(translation=(s * 0.5 * length, 0.0, 0.0)) for s in (-1.0, 1.0))
        point = replace(kind, name="point", constrained=("fz",))
        return tuple(point_on_plane(point, f"touch {k}", end) for k, end in enumerate(ends))
    z = {"axis": (0.0, 0.0, 1.0)}
    # a line that sticks rolls over: it turns about itself
    make, more = {
        "line": (tb.Revolute, {"axis": (1.0, 0.0, 0.0)}),
        "plane": (tb.Planar, {}),
        "planar": (tb.Planar, {}),
        "revolute": (tb.Revolute, z),
        "prismatic": (tb.Prismatic, z),
        "helical": (tb.Screw, {"pitch": kind.pitch, **z}),
        "cylindrical": (tb.Cylindrical, z),
        "spherical": (tb.Spherical, {}),
    }.get(kind.name if kind.dof else "", (tb.Fixed, {}))
    joint = make("touch joint", pose=pose, **more)
    return (tb.LoopClosure("touch", "world", "body", joint, tb.Pose()),)


@pytest.mark.parametrize("friction", [False, True])
@pytest.mark.parametrize("name", CONTACT_KINDS)
def test_closures_leave_the_degrees_of_freedom_of_their_kind(name, friction):
    """Nahon's catalogue, N = 5 to 0, as the mobility of a body that one contact holds."""
    kind = contact_kind(name, friction=friction, pitch=0.1 if name == "helical" else 0.0)
    turn = tb.Pose.from_rpy((0.3, -0.2, 0.5), (0.1, 0.2, 0.3))
    loops = closures_of_kind(kind, turn, length=0.4)
    model = free_body().with_loops(*loops)
    q = np.concatenate([_quaternion(np.array(turn.rotation)), turn.translation])
    assert np.abs(tb.constraint_residual(model, q)).max() < 1e-12
    assert tb.mobility(model, q).mobility == kind.dof


def _quaternion(R):
    w = 0.5 * math.sqrt(1.0 + np.trace(R))
    x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    return np.array([w, x / (4 * w), y / (4 * w), z / (4 * w)])


def touching(shape, rng):
    """A turned body on the ground, and its contact."""
    model = free_body(shape)
    turn = rng.normal(size=4)
    q = np.array([*(turn / np.linalg.norm(turn)), 0.3, -0.2, 1.0])
    floor = tb.World(ground=tb.Ground())
    gaps = tb.contacts(model, q, world=floor).gap
    q[6] -= gaps.min()
    (candidate,) = candidates_of(model, floor)
    return model, q, candidate, int(gaps.argmin())


SHAPES = {
    "sphere": tb.SphereShape(0.2),
    "ellipsoid": tb.EllipsoidShape((0.2, 0.3, 0.15)),
    "capsule": tb.CapsuleShape(0.1, 0.4),
    "box": tb.BoxShape((0.3, 0.2, 0.4)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("friction", [False, True])
def test_contact_has_the_accelerations_of_its_closure(shape, friction):
    """Pressed on the ground, turning and sliding, or rolling: one closure, two derivations."""
    rng = np.random.default_rng(4)
    model, q, candidate, point = touching(SHAPES[shape], rng)
    kind = contact_kind("point", friction=friction)
    closed = model.with_loops(contact_closure_of(candidate, kind, "touch", point))
    assert abs(tb.constraint_residual(closed, q)[0]) < 1e-12
    # velocities that keep the contact, by the loop room
    v = np.array(tb.project_velocity(closed, q, 2.0 * rng.normal(size=6)))
    # pressed down, in axes of the body
    R = np.array(tb.forward_kinematics(model, q, frames="body")[0])
    tau = np.array([0.1, -0.2, 0.3, *(R.T @ [1.0, -2.0, -60.0])])
    expected = np.array(tb.forward_dynamics(closed, q, v, tau))
    mu = 50.0 if friction else 0.0
    floor = tb.World(ground=tb.Ground(static_friction=mu))
    now = tb.contact_dynamics(model, q, v, tau, world=floor)
    assert now.modes[point] == ("sticking" if friction else "remaining")
    np.testing.assert_allclose(now.vd, expected, atol=1e-9 * np.abs(expected).max())


def test_bodies_in_contact_with_each_other_move_as_their_closure():
    """Two ellipsoids that roll on each other, both curved and both moving."""
    rng = np.random.default_rng(9)
    shapes = (tb.EllipsoidShape((0.2, 0.3, 0.15)), tb.SphereShape(0.25))
    bodies = [
        tb.Body(name, joint=tb.Free(name), inertia=INERTIA, shapes=(tb.Shape(shape),))
        for name, shape in zip("ab", shapes, strict=True)
    ]
    pair = tb.Model("pair", bodies)
    q = np.zeros(14)
    q[:4] = rng.normal(size=4)
    q[:4] /= np.linalg.norm(q[:4])
    q[7], q[11:] = 1.0, (0.5, 0.4, 0.3)
    # closer along the line of centers until they touch
    for _ in range(60):
        here = tb.contacts(pair, q)
        q[11:] -= here.gap[0] * here.normal[0]
    assert abs(here.gap[0]) < 1e-12
    (candidate,) = candidates_of(pair, tb.World())
    closed = pair.with_loops(contact_closure_of(candidate, contact_kind("point", friction=True)))
    v = np.array(tb.project_velocity(closed, q, rng.normal(size=12)))
    n = here.normal[0]
    R = np.array(tb.forward_kinematics(pair, q, frames="a")[0])
    push = np.concatenate([np.zeros(3), 50.0 * R.T @ n, np.zeros(3), -50.0 * n])
    expected = np.array(tb.forward_dynamics(closed, q, v, push, world=tb.World(gravity=(0, 0, 0))))
    rough = [
        tb.Body(
            body.name,
            joint=body.joint,
            inertia=INERTIA,
            shapes=(tb.Shape(body.shapes[0].geometry, material=tb.ContactMaterial(30.0)),),
        )
        for body in bodies
    ]
    now = tb.contact_dynamics(
        tb.Model("rough", rough), q, v, push, world=tb.World(gravity=(0, 0, 0))
    )
    assert now.modes[0] == "sticking"
    np.testing.assert_allclose(now.vd, expected, atol=1e-8 * np.abs(expected).max())


def slider():
    """A point mass on a free body that can touch down, stick and slide on the ground."""
    inertia = tb.Inertia(2.0, (0, 0, 0), 0.1 * np.eye(3))
    body = tb.Body("body", joint=tb.Free("body"), inertia=inertia)
    model = tb.Model("slider", [body], contacts=[tb.ContactPoint("foot", "body")])
    floor = tb.World(ground=tb.Ground())
    slide = tb.contact_closure(model, "foot", world=floor, name="slide")
    stick = tb.contact_closure(model, "foot", world=floor, friction=True, name="stick")
    return model, slide, stick


def test_topology_changes_in_one_run():
    """Fall, touch-down (6 to 5), friction binds (5 to 3), breakaway frees (3 to 5), lift-off."""
    tree, slide, stick = slider()
    assert tb.mobility(tree.with_loops(slide), [1, 0, 0, 0, 0, 0, 0]).mobility == 5
    assert tb.mobility(tree.with_loops(stick), [1, 0, 0, 0, 0, 0, 0]).mobility == 3
    model, held, mu = tree.with_loops(slide, stick), tree.with_loops(stick), 0.4
    pull = 3.0

    @tb.traced
    def height(state):
        return state.q[6]

    @tb.traced
    def distance(state):
        return state.q[4] - 0.75

    @tb.traced
    def cone(state):
        # forces as if the foot stuck: normal, then along the ground
        tau = [0.0, 0.0, 0.0, pull * state.time, 0.0, 0.0]
        force = tb.loop_dynamics(held, state.q, state.v, tau).constraint_force
        return np.sqrt(force[1] ** 2 + force[2] ** 2) - mu * np.abs(force[0])

    def breakaway(state):
        # forces of a foot that slides already mean nothing
        return tb.release(state, "stick")

    events = [
        tb.Event("touch down", height, direction=-1, action=lambda s: tb.latch(s, "slide")),
        tb.Event("bind", distance, direction=1, action=lambda s: tb.latch(s, "stick")),
        tb.Event("break away", cone, direction=1, action=breakaway),
        tb.TimeEvent("lift off", 3.0, action=lambda s: tb.release(s, "slide")),
    ]

    @tb.traced
    def ramp(state):
        return [0.0, 0.0, 0.0, pull * state.time, 0.0, 0.0]

    v = np.array([0.0, 0, 0, 1.0, 0, 0])
    run = tb.simulate(
        model,
        3.5,
        q=[1, 0, 0, 0, 0, 0, 0.5],
        v=v,
        method=tb.RK4(dt=0.01),
        control=ramp,
        elements=[
            tb.LoopSwitch("a", "slide", closed=False),
            tb.LoopSwitch("b", "stick", closed=False),
        ],
        events=events,
    )
    assert run.outcome.status == "finished"
    times = {event.name: event.time for event in run.events}
    assert list(times) == ["touch down", "bind", "break away", "lift off"]
    assert times["touch down"] == pytest.approx(math.sqrt(2 * 0.5 / 9.81), abs=1e-9)
    # x = t + pull t^3 / (6 m) reaches 0.75
    t = times["bind"]
    assert t + pull * t**3 / 12 == pytest.approx(0.75, abs=1e-9)
    # pull t = mu m g
    t = times["break away"]
    assert t == pytest.approx(mu * 2.0 * 9.81 / pull, abs=1e-9)
    stuck = (run.time > times["bind"]) & (run.time < t)
    assert np.abs(run.v[stuck, 3:]).max() < 1e-12
    # slides without friction: pull (t^2 - t_0^2) / (2 m)
    sliding = (run.time > t) & (run.time <= 3.0)
    np.testing.assert_allclose(
        run.v[sliding, 3], pull * (run.time[sliding] ** 2 - t**2) / 4, atol=1e-9
    )
    down = (run.time >= times["touch down"]) & (run.time <= 3.0)
    assert np.abs(run.q[down, 6]).max() < 1e-11
    assert run.q[-1, 6] == pytest.approx(-0.5 * 9.81 * 0.25, abs=1e-9)


def test_soft_grasp_lifts_and_releases():
    """Two soft fingers on a block that stands on rigid ground: grasp, lift, release, landing."""
    palm = tb.Body(
        "palm",
        joint=tb.Prismatic("lift", (0, 0, 1), pose=tb.Pose(translation=(0, 0, 0.05))),
        inertia=tb.Inertia(1.0, (0, 0, 0), 0.01 * np.eye(3)),
        shapes=tuple(
            tb.Shape(tb.SphereShape(0.02), pose=tb.Pose(translation=(x, 0, 0)), name=name)
            for name, x in (("left", -0.07), ("right", 0.07))
        ),
    )
    block = tb.Body(
        "block",
        joint=tb.Free("block"),
        inertia=tb.Inertia.box(0.5, (0.1, 0.1, 0.1)),
        shapes=(tb.Shape(tb.BoxShape((0.1, 0.1, 0.1))),),
    )
    tree = tb.Model("gripper", [palm, block])
    grip = [
        tb.contact_closure(tree, f"palm.{name}/block", kind="soft finger", name=name)
        for name in ("left", "right")
    ]
    model = tree.with_loops(*grip)
    rest = [0.0, 1, 0, 0, 0, 0, 0, 0.05]
    # eight equations, two of them redundant: the block moves with the palm alone
    assert tb.mobility(model, rest).mobility == 1
    floor = tb.World(ground=tb.Ground(static_friction=0.5))

    def both(action):
        def act(state):
            for name in ("left", "right"):
                action(state, name)
            return state

        return act

    run = tb.simulate(
        model,
        1.0,
        q=rest,
        method=tb.RK4(dt=0.005),
        world=floor,
        contact=tb.RigidContact(pairs=[("block", "world")]),
        command=[1.5 * (9.81 + 2.0), *[0.0] * 6],
        elements=[
            tb.LoopSwitch("l", "left"),
            tb.LoopSwitch("r", "right"),
        ],
        events=[tb.TimeEvent("release", 0.4, action=both(tb.release))],
    )
    assert run.outcome.status == "finished"
    lifted = run.time <= 0.4
    # 2 m/s^2 up together
    np.testing.assert_allclose(run.q[lifted, 7] - 0.05, run.time[lifted] ** 2, atol=1e-6)
    # thrown up at 0.8 m/s from 0.21 m, and on the ground again after 0.2797 s
    t = run.time[run.time > 0.4] - 0.4
    flying = t < 0.279
    np.testing.assert_allclose(
        run.q[run.time > 0.4][flying, 7],
        0.21 + 0.8 * t[flying] - 0.5 * 9.81 * t[flying] ** 2,
        atol=1e-6,
    )
    assert run.q[-1, 7] == pytest.approx(0.05, abs=1e-8)
    assert np.abs(run.v[-1, 1:]).max() < 1e-8


def test_contacts_that_cannot_separate_become_joints():
    """A ball in a channel: opposed walls hold it, the floor below does not."""
    ball = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia.sphere(1.0, 0.1),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    walls = [
        tb.Body(
            name,
            joint=tb.Fixed(name, pose=tb.Pose.from_rpy((angle, 0.0, 0.0), (0.0, y, 0.0))),
            shapes=(tb.Shape(tb.PlaneShape()),),
        )
        for name, angle, y in (("left", math.pi / 2, 0.1), ("right", -math.pi / 2, -0.1))
    ]
    model = tb.Model("channel", [ball, *walls])
    floor, q = tb.World(ground=tb.Ground()), [1, 0, 0, 0, 0.3, 0, 0.1]
    found = tb.contact_dependence(model, q, world=floor)
    assert found.names == ("ball/ground", "ball/left", "ball/right")
    assert found.rank == 2
    assert found.unbreakable == (("ball/left", "ball/right"),)
    (one,) = found.sets
    assert one == (("ball/left", "ball/right"), one.weights, "unbreakable", None)
    np.testing.assert_allclose(one.weights, [1.0, 1.0])
    # held by joints, pushed against one wall and lifted: accelerations are those with contacts
    joints = [tb.contact_closure(model, name) for name in found.unbreakable[0]]
    closed, push = model.with_loops(*joints), [0.1, 0.2, 0.3, 1.0, 7.0, 30.0]
    expected = tb.forward_dynamics(closed, q, np.zeros(6), push)
    now = tb.contact_dynamics(model, q, np.zeros(6), push, world=floor)
    np.testing.assert_allclose(now.vd, expected, atol=1e-10)
    np.testing.assert_allclose(now.vd[3:], [1.0, 0.0, 30.0 - 9.81], atol=1e-10)
    assert now.modes.tolist() == ["breaking", "remaining", "inactive"]


def test_closures_of_contacts_refuse_unsupported_contacts():
    """Names, kinds, and ground that is no simple shape."""
    tree, _, stick = slider()
    floor = tb.World(ground=tb.Ground())
    with pytest.raises(tb.UnknownNameError, match="foot"):
        tb.contact_closure(tree, "feet", world=floor)
    with pytest.raises(tb.OptionError, match="soft finger"):
        tb.contact_closure(tree, "foot", world=floor, kind="plane")
    with pytest.raises(tb.ModelError, match="got none"):
        tb.contact_closure(tree, "foot")
    assert stick.constraint_labels == ("gap", "slip along x", "slip along y")
    assert stick.renamed("a/").ends[0][0] == "a/body"
    heights = tb.World(ground=tb.Ground(grid=tb.GroundGrid((1.0, 1.0), ((0.0,) * 4,) * 4)))
    with pytest.raises(tb.ModelError, match="height field"):
        tb.contact_closure(tree, "foot[0]", world=heights)
