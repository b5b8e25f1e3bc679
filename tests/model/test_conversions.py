"""Converters of numbers: rates are rates, power is power, back is back; marine notation by hand."""

import numpy as np
import pytest

import tiburon as tb
from tests.cross.mixtures import UNBOUNDED, for_mujoco, for_pinocchio
from tests.model.samples import random_inertia, random_pose, random_tree, skew
from tests.robots import balloon, forest, kicked, odd_arm
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, assert_close


def craft(pose=None, arm=True):
    """Build a craft with a two-hinge arm, its floating joint placed anywhere."""
    rng = np.random.default_rng(6)
    hull = tb.Body(
        "hull", joint=tb.Free("float", pose=pose or tb.Pose()), inertia=random_inertia(rng)
    )
    model = tb.Model("craft", [hull], [tb.Frame("mount", "hull", random_pose(rng))])
    if arm:
        links = [tb.DHLink(a=0.3, alpha=0.4, inertia=random_inertia(rng)) for _ in range(2)]
        model = model.attach(tb.Model.from_dh("arm", links, convention="modified"), at="mount")
    return model


PLACED = tb.Pose.from_rpy((0.3, -0.4, 0.7), (0.5, -0.2, 0.1))

CASES = [
    pytest.param(for_pinocchio(), tb.to_pinocchio, tb.from_pinocchio, {}, id="pinocchio"),
    pytest.param(
        for_pinocchio(),
        tb.to_pinocchio,
        tb.from_pinocchio,
        {"unbounded": [UNBOUNDED]},
        id="pinocchio-unbounded",
    ),
    pytest.param(for_mujoco(), tb.to_mujoco, tb.from_mujoco, {}, id="mujoco"),
    pytest.param(craft(PLACED), tb.to_mujoco, tb.from_mujoco, {}, id="mujoco-placed"),
    *(
        pytest.param(
            craft(PLACED),
            tb.to_fossen,
            tb.from_fossen,
            {"world_axes": world, "body_axes": body},
            id=f"fossen-{world}-{body}",
        )
        for world in ("nwu", "enu", "ned")
        for body in ("flu", "frd")
    ),
]

over_cases = pytest.mark.parametrize(("model", "to", "back", "options"), CASES)


@over_cases
def test_back_undoes_to(model, to, back, options):
    """A batch that went there and back is the same state."""
    q, v, x = kicked(model, 1, (2, 3))
    theirs = to(model, q, v, acceleration=x, force=2.0 * x, **options)
    ours = back(
        model, theirs.q, theirs.v, acceleration=theirs.acceleration, force=theirs.force, **options
    )
    # quaternions may change sign and angles by whole turns: compare as steps from q
    turns = np.abs(np.sin(0.5 * model.difference(q, ours.q)))
    assert_close(turns, np.zeros_like(turns))
    for given, found in ((v, ours.v), (x, ours.acceleration), (2.0 * x, ours.force)):
        assert_close(found, given)


@over_cases
def test_power_does_not_depend_on_the_convention(model, to, back, options):
    """Velocities and forces pair to the same power."""
    q, v, tau = kicked(model, 2)
    theirs = to(model, q, v, force=tau, **options)
    assert_close(theirs.v @ theirs.force, v @ tau, scale=float(np.abs(v) @ np.abs(tau)))


@over_cases
def test_acceleration_is_the_rate_of_the_velocity(model, to, back, options):
    """Central differences of converted velocities along a motion of constant acceleration."""
    q, v, vd = kicked(model, 3)
    h = DIFFERENCE_STEP
    before, after = (
        to(model, model.integrate(q, s * h * v), v + s * h * vd, **options) for s in (-1.0, 1.0)
    )
    expected = to(model, q, v, acceleration=vd, **options).acceleration
    assert_close((after.v - before.v) / (2.0 * h), expected, DIFFERENCE)


@over_cases
def test_batches_are_converted_case_by_case(model, to, back, options):
    """A batch equals its cases, and a single position serves many velocities."""
    q, v, x = kicked(model, 4, (3,))
    whole = to(model, q, v, acceleration=x, **options)
    for case in range(3):
        one = to(model, q[case], v[case], acceleration=x[case], **options)
        np.testing.assert_array_equal(whole.v[case], one.v)
        np.testing.assert_array_equal(whole.q[case], one.q)
        np.testing.assert_array_equal(whole.acceleration[case], one.acceleration)
    shared = to(model, q[0], v, **options)
    assert shared.q.ndim == 1
    np.testing.assert_array_equal(shared.v[0], whole.v[0])
    assert shared.acceleration is None
    assert shared.force is None


def test_rate_of_position_of_a_free_body_is_its_velocity_in_mujoco():
    """The place in the world changes by the linear velocity in world axes."""
    model = craft(PLACED)
    q, v, _ = kicked(model, 5)
    h = DIFFERENCE_STEP
    before, after = (tb.to_mujoco(model, model.integrate(q, s * h * v)).q for s in (-1.0, 1.0))
    rate = (after[:3] - before[:3]) / (2.0 * h)
    assert_close(rate, tb.to_mujoco(model, q, v).v[:3], DIFFERENCE)


def test_order_of_joints_can_be_given():
    """Another order moves whole joints; the default goes down each branch."""
    model = random_tree(3, 6, kinds=("revolute",))
    q, v, _ = kicked(model)
    names = list(reversed(model.moving_joint_names))
    theirs = tb.to_pinocchio(model, q, v, joints=names)
    np.testing.assert_array_equal(theirs.q, q[::-1])
    np.testing.assert_array_equal(tb.from_pinocchio(model, theirs.q, joints=names).q, q)


def branching(order):
    """Build a base with three branches, in an order of joints; two of them carry one more."""
    inertia = tb.Inertia(1.0, (0.1, 0.0, 0.2), tensor=(0.1, 0.2, 0.25))
    at = tb.Pose(translation=(0.1, 0.0, 0.3))
    bodies = [tb.Body("base", joint=tb.Free("float"), inertia=inertia)]
    for name in order:
        kind = tb.Fixed if name == "m" else tb.Revolute
        joint = kind(name, pose=at)
        bodies.append(tb.Body(f"link {name}", "base", joint=joint, inertia=inertia))
    for name in order[:2]:
        joint = tb.Revolute(f"{name} tip", (0, 1, 0), pose=at)
        bodies.append(tb.Body(f"tip {name}", f"link {name}", joint=joint, inertia=inertia))
    return tb.Model("branching", bodies)


def test_an_order_of_branches_that_files_would_change_is_refused():
    """Pinocchio sorts the joints of a URDF file by name: unsorted branches have two orders."""
    for function in (tb.to_pinocchio, tb.from_pinocchio):
        model = branching("zma")
        with pytest.raises(tb.ModelError) as caught:
            function(model, model.neutral())
        assert str(caught.value) == (
            "model 'branching': the order of joints in Pinocchio is not known, expected branches "
            "in alphabetical order of their joints, got 'z' before 'a', which Pinocchio's reader "
            "of URDF files sorts; pass joints=pinocchio_model, or joints=[...] with the names in "
            "its order"
        )
    # sorted branches have one order, and so have branches of which one moves
    for order in ("amz", "mz"):
        model = branching(order)
        q, v, _ = kicked(model, 2)
        back = tb.from_pinocchio(model, *tb.to_pinocchio(model, q, v)[:2])
        np.testing.assert_array_equal(back.q, q)
        np.testing.assert_array_equal(back.v, v)
    # the other codes keep the order of a file, as we do
    model = branching("zma")
    assert tb.to_mujoco(model, model.neutral()).q.shape == (model.nq,)
    assert tb.to_fossen(model, model.neutral()).q.shape == (model.nq - 1,)


def test_names_of_a_pinocchio_model_give_order_base_and_unbounded_joints():
    """What is read of it stands for joints= and unbounded=; its floating base has its own name."""

    class Theirs:
        names = ("universe", "root_joint", "a", "m tip", "z", "z tip")
        nqs = (0, 7, 2, 1, 1, 1)
        nvs = (0, 6, 1, 1, 1, 1)

    model = branching("zma")
    q, v, x = kicked(model, 3)
    wanted = {"joints": ["float", "a", "m tip", "z", "z tip"], "unbounded": "a"}
    for ours, theirs in zip(
        tb.to_pinocchio(model, q, v, force=x, **wanted)[:2],
        tb.to_pinocchio(model, q, v, force=x, joints=Theirs())[:2],
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    Theirs.names = ("universe", "root_joint", "a", "m tip", "z", "other")
    with pytest.raises(tb.ModelError, match=r"missing \['z tip'\], unknown or fixed \['other'\]"):
        tb.to_pinocchio(model, q, joints=Theirs())


def fossen_rotation(phi, theta, psi):
    """Return the rotation from body to north-east-down axes, as in Fossen 2011, chapter 2."""
    c, s = np.cos, np.sin
    return np.array(
        [
            [
                c(psi) * c(theta),
                -s(psi) * c(phi) + c(psi) * s(theta) * s(phi),
                s(psi) * s(phi) + c(psi) * c(phi) * s(theta),
            ],
            [
                s(psi) * c(theta),
                c(psi) * c(phi) + s(phi) * s(theta) * s(psi),
                -c(psi) * s(phi) + s(theta) * s(psi) * c(phi),
            ],
            [-s(theta), c(theta) * s(phi), c(theta) * c(phi)],
        ]
    )


def fossen_rates(phi, theta):
    """Return the matrix from body rates to rates of the angles (Fossen 2011, chapter 2)."""
    c, s, t = np.cos, np.sin, np.tan
    return np.array(
        [
            [1.0, s(phi) * t(theta), c(phi) * t(theta)],
            [0.0, c(phi), -s(phi)],
            [0.0, s(phi) / c(theta), c(phi) / c(theta)],
        ]
    )


@pytest.mark.parametrize("world", ["nwu", "enu", "ned"])
@pytest.mark.parametrize("body", ["flu", "frd"])
def test_eta_changes_by_nu_as_fossen_prints_it(world, body):
    """Differences of eta along a motion equal J(eta) nu (Fossen 2011, chapter 2)."""
    model = craft(PLACED, arm=False)
    options = {"world_axes": world, "body_axes": body}
    # away from pitch +-pi/2, where the rates of the angles have no bound
    eta = np.array([0.3, -0.7, 0.4, 2.1, -0.6, -1.3])
    nu = np.array([0.8, -0.5, 0.3, 0.7, -0.9, 1.1])
    q, v, *_ = tb.from_fossen(model, eta, nu, **options)
    h = DIFFERENCE_STEP
    before, after = (
        tb.to_fossen(model, model.integrate(q, s * h * v), **options).q for s in (-1.0, 1.0)
    )
    rate = (after - before) / (2.0 * h)
    assert_close(rate[:3], fossen_rotation(*eta[3:]) @ nu[:3], DIFFERENCE)
    assert_close(rate[3:], fossen_rates(*eta[3:5]) @ nu[3:], DIFFERENCE)


@pytest.mark.parametrize(
    ("world", "north_east_down"),
    [
        ("nwu", lambda x: [x[0], -x[1], -x[2]]),
        ("enu", lambda x: [x[1], x[0], -x[2]]),
        ("ned", lambda x: [x[0], x[1], x[2]]),
    ],
)
def test_eta_is_the_pose_of_the_hull_in_the_world(world, north_east_down):
    """Origin and bow of the hull, found by its frame, whatever the pose of the floating joint."""
    model = craft(PLACED)
    q, _, _ = kicked(model, 9)
    rotation, origin = tb.forward_kinematics(model, q, "hull")
    eta = tb.to_fossen(model, q, world_axes=world).q[:6]
    assert_close(eta[:3], north_east_down(origin))
    R = fossen_rotation(*eta[3:])
    assert_close(R[:, 0], north_east_down(rotation[:, 0]))
    # starboard is opposite to our y, down opposite to our z
    assert_close(R[:, 1], north_east_down(-rotation[:, 1]))
    assert_close(R[:, 2], north_east_down(-rotation[:, 2]))


def test_directions_of_marine_notation():
    """Two meters up is minus two down; a turn to port is a negative yaw; bow up is positive."""
    model = craft(arm=False)
    up, turned, raised = 2.0, 0.4, 0.3
    q = model.neutral()
    q[6] = up
    assert_close(tb.to_fossen(model, q).q, [0.0, 0.0, -up, 0.0, 0.0, 0.0])
    # our z is up: a positive turn about it goes to the left, which is port
    q = model.integrate(model.neutral(), [0.0, 0.0, turned, 0.0, 0.0, 0.0])
    assert_close(tb.to_fossen(model, q).q, [0.0, 0.0, 0.0, 0.0, 0.0, -turned])
    # our y is to the left: a positive turn about it lowers the bow
    q = model.integrate(model.neutral(), [0.0, -raised, 0.0, 0.0, 0.0, 0.0])
    assert_close(tb.to_fossen(model, q).q, [0.0, 0.0, 0.0, 0.0, raised, 0.0])
    # x east: heading along our x is a heading east
    east = tb.to_fossen(model, model.neutral(), world_axes="enu").q
    assert_close(east, [0.0, 0.0, 0.0, 0.0, 0.0, np.pi / 2])


def test_upright_craft_has_no_roll():
    """At pitch pi/2 only roll and yaw together are defined; the orientation still comes back."""
    model = craft(arm=False)
    eta = np.array([0.0, 0.0, 0.0, 0.0, np.pi / 2, 0.6])
    q = tb.from_fossen(model, eta).q
    # the cosine of the pitch is lost in rounding, so angles are good to about its square root
    assert_close(tb.to_fossen(model, q).q, eta, 1e-7)


def test_rigid_body_matrix_is_the_one_of_marine_textbooks():
    """M = [[m 1, -m r x], [m r x, I]], r to the center of mass, z down (Fossen 2011, chapter 3)."""
    inertia = random_inertia(np.random.default_rng(7))
    free = tb.Model("body", [tb.Body("body", joint=tb.Free("f"), inertia=inertia)])
    ours = tb.mass_matrix(free, free.neutral())
    flip = np.diag([1.0, -1.0, -1.0])
    m, S = inertia.mass, skew(flip @ inertia.com)
    about_origin = flip @ inertia.matrix @ flip - m * S @ S
    expected = np.block([[m * np.eye(3), -m * S], [m * S, about_origin]])
    assert_close(tb.matrix_to_fossen(ours), expected)
    assert_close(tb.matrix_from_fossen(expected), ours)
    nu = np.arange(1.0, 7.0)
    v = tb.six_vector_from_fossen(nu)
    assert_close(v, [4.0, -5.0, -6.0, 1.0, -2.0, -3.0])
    assert_close(tb.six_vector_to_fossen(v), nu)
    assert_close(tb.six_vector_to_fossen(ours @ v), expected @ nu)
    assert_close(tb.six_vector_to_fossen(v, body_axes="frd"), [1.0, -2.0, -3.0, 4.0, -5.0, -6.0])


def test_wrench_at_the_center_of_mass_has_no_lever():
    """A force through the center of mass is a pure force in MuJoCo's rows, whatever the frame."""
    rng = np.random.default_rng(8)
    R = np.array(random_pose(rng).rotation)
    com, force = rng.standard_normal((2, 3))
    wrench = np.concatenate([np.cross(com, force), force])
    row = tb.wrench_to_mujoco(wrench, R, com)
    assert_close(row, np.concatenate([R @ force, np.zeros(3)]))
    assert_close(tb.wrench_from_mujoco(row, R, com), wrench)


def test_a_robot_without_degrees_of_freedom_has_no_values():
    """Batches keep their shape."""
    statue = odd_arm().lock(odd_arm().joint_names)
    assert tb.to_mujoco(statue, np.zeros((4, 0)), np.zeros((4, 0))).v.shape == (4, 0)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: tb.to_mujoco(balloon(), balloon().neutral()),
            "joint 'j_basket': a free joint must float in the world in MuJoCo, got the moving "
            "parent 'arm'; convert a model without it",
        ),
        (
            lambda: tb.to_mujoco(for_pinocchio(), for_pinocchio().neutral()),
            "joint 'j_nut': a screw joint has no counterpart in MuJoCo; convert a model without it",
        ),
        (
            lambda: tb.to_fossen(odd_arm(), np.zeros(6)),
            "model 'odd_arm': marine notation needs exactly one free joint, the craft's, got 0 "
            "(none); convert a part of the model",
        ),
        (
            lambda: tb.to_fossen(craft(), craft().neutral(), world_axes="neu"),
            "world_axes: expected 'nwu' or 'enu' or 'ned', got 'neu'",
        ),
        (
            lambda: tb.six_vector_to_fossen(np.zeros(6), body_axes="ned"),
            "body_axes: expected 'flu' or 'frd', got 'ned'",
        ),
        (
            lambda: tb.to_mujoco(forest(), forest().neutral(), acceleration=np.zeros(10)),
            "v: expected 10 (6 base + 4 joints), got nothing; the acceleration of joint 'j_c' "
            "depends on it",
        ),
        (
            lambda: tb.to_pinocchio(odd_arm(), np.zeros(6), joints=["joint_0", "universe"]),
            "model 'odd_arm': joints must name every moving joint once, got 2 names for 6 joints "
            "(missing ['joint_1', 'joint_2', 'joint_3', 'joint_4', 'joint_5'], unknown or fixed "
            "['universe']); model.moving_joint_names lists them",
        ),
        (
            lambda: tb.to_pinocchio(balloon(), balloon().neutral(), unbounded="j_flap"),
            "joint 'j_flap': only a revolute joint can be unbounded, got a prismatic joint; "
            "leave it out",
        ),
        (
            lambda: tb.from_pinocchio(odd_arm(), np.zeros(7)),
            "q: expected 6 (of 6 joints), got 7; batch dimensions lead",
        ),
        (
            lambda: tb.from_mujoco(craft(), np.zeros(9)),
            "q: expected a quaternion of joint 'float' with a length near 1, at least 0.5, got 0; "
            "check the order of the entries",
        ),
        (
            lambda: tb.matrix_to_fossen(np.zeros(6)),
            "matrix: expected 6 x 6, got shape (6,)",
        ),
        (
            lambda: tb.motion_to_mujoco(np.zeros(6), np.zeros((2, 3))),
            "rotation: expected 3 x 3 (rotation matrices), got shape (2, 3)",
        ),
    ],
)
def test_errors_state_the_remedy(act, message):
    """Every refusal names the element, what was expected and the way out."""
    with pytest.raises(tb.TiburonError) as caught:
        act()
    assert str(caught.value) == message
