"""Traps of McMillan 1994, each tested by its number in the checked digest, section 4.2 and 4.3."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_inertia, random_pose
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tiburon.spatial.rotations import matrix_to_quaternion

G = np.array([1.5, -2.5, -9.0])
WORLD = tb.World(gravity=tuple(G))


def test_no_1_accelerations_of_frames_are_classical():
    """A bead on a turning rod: -w^2 r along the rod and twice w times its speed across it.

    Spatial acceleration, in which both terms differ, must not be mixed in (eq. 7.2).
    """
    w, r, speed, angle = 1.7, 0.6, 0.9, 0.4
    model = tb.Model(
        "bead",
        [
            tb.Body("rod", joint=tb.Revolute("turn"), inertia=tb.Inertia.sphere(1.0, 0.3)),
            tb.Body(
                "bead",
                "rod",
                joint=tb.Prismatic("slide", (1, 0, 0)),
                inertia=tb.Inertia.point(0.2),
            ),
        ],
    )
    q, v, vd = [angle, r], [w, speed], [0.0, 0.0]
    found = tb.frame_acceleration(model, q, v, vd, "bead", axes="frame")
    assert_close(found, [0, 0, 0, -(w**2) * r, 2 * w * speed, 0])
    # the joint forces are those of the true acceleration: m (rdd - w^2 r), and m r (2 w rd) about z
    tau = tb.inverse_dynamics(model, q, v, vd, world=tb.World(gravity=(0, 0, 0)))
    assert_close(tau, [0.2 * r * 2 * w * speed, -0.2 * w**2 * r])


def test_no_2_accelerations_of_a_base_are_rates_of_its_body_components():
    """Vdot = a - omega x v (eq. 6.16): a thrown body keeps its velocity but for gravity."""
    ball = tb.Body("ball", joint=tb.Free("float"), inertia=tb.Inertia(2.0, tensor=(0.1, 0.2, 0.25)))
    model = tb.Model("thrown", [ball])
    q, v = model.random_state(61)
    vd = tb.forward_dynamics(model, q, v, np.zeros(6), world=WORLD)
    R = tb.forward_kinematics(model, q, "ball")[0]
    assert_close(vd[3:], R.T @ G - np.cross(v[:3], v[3:]), scale=np.abs(vd).max())
    # integrated as rates of components they give the parabola in world axes: order 4 is exact there
    run = tb.integrate_rk4(model, q, v, dt=1e-3, steps=100, world=WORLD)
    time, start = 0.1, R @ v[3:]
    expected = q[4:] + start * time + 0.5 * G * time**2
    # 1e-3 s at spins up to 3 rad/s: (3e-3)^4 / 100 of a way of 0.5 m
    np.testing.assert_allclose(run.q[-1, 4:], expected, rtol=0, atol=1e-11)


def test_no_3_bias_is_what_joints_supply_and_forces_on_links_act_on_them():
    """H vd + C = tau with a plus; a force given at the tip is by the ground on the link."""
    model = tb.Model(
        "pendulum",
        [
            tb.Body(
                "rod",
                joint=tb.Revolute("pivot", axis=(0, 1, 0)),
                inertia=tb.Inertia.point(1.3, com=(0.7, 0, 0)),
            )
        ],
        [tb.Frame("tip", "rod", tb.Pose(translation=(0.7, 0, 0)))],
    )
    level = [0.0]
    # the rod points along x: gravity turns it about +y, the joint must hold against that
    C = tb.bias_force(model, level, [0.0])
    assert pytest.approx(-1.3 * 9.81 * 0.7, rel=1e-14) == C
    assert tb.forward_dynamics(model, level, [0.0], C) == pytest.approx(0.0, abs=1e-13)
    held_up = {"tip": (0, 0, 0, 0, 0, 1.3 * 9.81)}
    free = tb.inverse_dynamics(
        model, level, [0.0], [0.0], external_force=held_up, external_axes="world"
    )
    # 10 N m of moments cancel to rounding
    assert free == pytest.approx(0.0, abs=1e-14)


def swimmer(frame):
    """Return a floating trunk with two limbs whose body frame lies at a pose on the same trunk."""
    rng = np.random.default_rng(62)
    back = frame.inverse()
    inertia = tb.Inertia(3.0, tensor=(0.2, 0.3, 0.4))
    bodies = [tb.Body("trunk", joint=tb.Free("float"), inertia=inertia.moved(back))]
    for side in ("left", "right"):
        joint = tb.Revolute(side, (0, 0.6, 0.8), pose=back @ random_pose(rng))
        bodies.append(tb.Body(f"{side}_limb", "trunk", joint=joint, inertia=random_inertia(rng)))
    return tb.Model("swimmer", bodies, [tb.Frame("center", "trunk", back)])


def test_no_4_any_frame_of_the_base_gives_the_same_motion():
    """Table 13 takes h = 0 and a diagonal inertia; a moved and turned frame must not matter."""
    rng = np.random.default_rng(63)
    frame = random_pose(rng)
    plain, moved = swimmer(tb.Pose()), swimmer(frame)
    q, v = plain.random_state(rng)
    # the same state expressed in the other frame
    R, p = tb.forward_kinematics(plain, q, "trunk")
    place = tb.Pose(R, p) @ frame
    turn = matrix_to_quaternion(np.array(place.rotation))
    q_moved = np.array([*turn, *place.translation, *q[7:]])
    E, r = np.array(frame.rotation).T, np.array(frame.translation)
    v_moved = np.array([*(E @ v[:3]), *(E @ (v[3:6] + np.cross(v[:3], r))), *v[6:]])
    twist = tb.frame_velocity(plain, q, v, "center")
    assert_close(tb.frame_velocity(moved, q_moved, v_moved, "center"), twist)
    tau = np.array([*np.zeros(6), *rng.standard_normal(2)])
    vd = tb.forward_dynamics(plain, q, v, tau, world=WORLD)
    vd_moved = tb.forward_dynamics(moved, q_moved, v_moved, tau, world=WORLD)
    scale = np.abs(vd).max() * np.linalg.cond(tb.mass_matrix(moved, q_moved))
    assert_close(vd_moved[6:], vd[6:], SOLVE, scale)
    expected = tb.frame_acceleration(plain, q, v, vd, "center")
    found = tb.frame_acceleration(moved, q_moved, v_moved, vd_moved, "center")
    assert_close(found, expected, SOLVE, scale)


def test_table_1_gravity_has_a_positive_sign():
    """A = a' + a_g (printed with a minus): a floating robot at rest falls, it does not rise.

    Its center of mass accelerates by gravity whatever its joints do.
    """
    model = swimmer(tb.Pose())
    rng = np.random.default_rng(64)
    q, _ = model.random_state(rng)
    still = np.zeros(model.nv)
    tau = np.array([*np.zeros(6), *rng.standard_normal(2)])
    vd = tb.forward_dynamics(model, q, still, tau, world=WORLD)
    falling = tb.center_of_mass_jacobian(model, q) @ vd
    scale = np.abs(vd).max() * np.linalg.cond(tb.mass_matrix(model, q))
    assert_close(falling, G, SOLVE, scale)
    given, _ = tb.floating_base_inverse_dynamics(model, q, still, vd, world=WORLD)
    assert_close(given[:6], vd[:6], ALGEBRA, scale)


# -- chapters 2 and 4: arms on a load --------------------------------------------------------------


def moving_arms():
    """Return two arms with general parameters that hold a load, in a moving state."""
    from tiburon.reproduce.mcmillan_arms import random_arms

    return random_arms([6, 6], seed=6)


def test_2_14_centripetal_acceleration_has_no_angular_part():
    """Zeta = [0; w x (w x p)]: tips and load have one angular acceleration."""
    system = moving_arms()
    tree, q, v = system.model.without_loops(), system.q, system.v
    vd = tb.forward_dynamics(system.model, q, v, system.tau)
    load, tip = (tb.frame_acceleration(tree, q, v, vd, name) for name in ("load", "arm_0_link_5"))
    R, p = tb.forward_kinematics(tree, q, ["load", "arm_0_link_5"])
    w, arm = R[0] @ v[:3], p[1] - p[0]
    zeta = np.cross(w, np.cross(w, arm))
    assert_close(tip[:3], load[:3], SOLVE, scale=np.abs(vd).max())
    moved = load[3:] + np.cross(load[:3], arm) + zeta
    assert_close(tip[3:], moved, SOLVE, scale=np.abs(vd).max())
    # without its zero block the vector would change the angular acceleration
    assert np.abs(zeta).max() > 0.1


def test_2_24_acceleration_at_zero_joint_acceleration_is_that_of_the_rate_of_J():
    """a_N = Jdot qd - a_g; J qd, as printed, is a velocity."""
    from tiburon.reproduce.arms_on_load import tip_acceleration

    system = moving_arms()
    tree, q, v = system.model.without_loops(), system.q, system.v
    g = np.array([0.0, 0.0, -9.81])
    own = tuple((system.bases[0].T @ g).tolist())
    found = tip_acceleration(
        system.arms[0], q[7:13].tolist(), v[6:12].tolist(), own, system.tips[0]
    )
    # the load's point of the tip, in axes of the load, which are those of the world
    held = system.tips[0].point_to_parent((0.0, 0.0, 0.0))
    rate = tb.frame_jacobian_bias(tree, q, v, "arm_0_link_5", at=held)
    J = tb.frame_jacobian(tree, q, "arm_0_link_5", at=held)
    gravity = np.concatenate([np.zeros(3), g])
    assert_close(found, rate - gravity, ALGEBRA, scale=10.0)
    assert np.abs(J @ v - rate).max() > 0.1


def held_along(*directions):
    """Return a load in arms of two slides and a ball joint: arm k cannot move along direction k.

    All hold the load at its mass center, so that a force along direction k is felt by no joint of
    arm k. Every arm has five degrees of freedom.
    """
    mass = tb.Inertia.sphere(0.5, 0.1)
    bodies = [tb.Body("load", joint=tb.Free("load"), inertia=tb.Inertia(3.0, tensor=(1, 2, 2.5)))]
    loops = []
    for k, n in enumerate(directions):
        across = np.linalg.svd(np.reshape(n, (1, 3)))[2][1:]
        names = [f"arm_{k}_{part}" for part in ("first", "second", "hand")]
        joints = [
            tb.Prismatic(names[0], tuple(across[0])),
            tb.Prismatic(names[1], tuple(across[1])),
            tb.Spherical(names[2]),
        ]
        for parent, name, joint in zip(["world", *names], names, joints, strict=False):
            bodies.append(tb.Body(name, parent, joint=joint, inertia=mass))
        loops.append(tb.LoopClosure(f"grip_{k}", "load", names[2], tb.Fixed(f"grip_{k}")))
    return tb.Model("held", bodies, loops=loops)


def solved(model, seed=3):
    rng = np.random.default_rng(seed)
    q = model.neutral()
    v = tb.project_velocity(model, q, rng.standard_normal(model.nv))
    tau = rng.standard_normal(model.nv)
    return [
        tb.loop_dynamics(model, q, v, tau, method=method, world=WORLD)
        for method in ("star", "augmented")
    ]


@pytest.mark.parametrize(
    ("directions", "lost"),
    [
        # independent: unique forces
        (((1, 0, 0), (0, 1, 0), (0, 0, 1)), 0),
        # pairwise different, and yet they sum to zero with suitable lengths
        (((1, 0, 0), (-0.5, 0.75**0.5, 0), (-0.5, -(0.75**0.5), 0)), 1),
    ],
)
def test_L1269_forces_are_unique_unless_null_directions_sum_to_zero(directions, lost):
    """Not only an overlap of some pair: three dependent directions are enough."""
    model = held_along(*directions)
    star, reference = solved(model)
    assert len(star.singular_arms) == 3
    assert int(star.rank) == 18 - lost
    size = max(1.0, np.abs(reference.acceleration).max())
    np.testing.assert_allclose(star.acceleration, reference.acceleration, atol=1e-9 * size)
    # the shortest forces of all that do it
    np.testing.assert_allclose(
        star.constraint_force, reference.constraint_force, atol=1e-8 * size * 10.0
    )


def test_no_11_factors_of_two_arms_vanish_where_their_null_spaces_meet():
    """Method II of the dual arm with Cholesky: its last pivot is rounding; the star has none."""
    model = held_along((0, 0, 1), (0, 0, 1))
    star, reference = solved(model)
    assert int(star.rank) == 11
    np.testing.assert_allclose(star.acceleration, reference.acceleration, atol=1e-9)
    assert np.all(np.isfinite(star.constraint_force))
    # (4.16) for the translations of these arms: Lambda^-1 = diag(a, a, 0), load of 3 kg
    inverse, S = np.diag([1.0, 1.0, 0.0]), np.eye(3) / 3.0
    bracket = inverse + S - S @ np.linalg.inv(inverse + S) @ S
    assert abs(np.linalg.eigvalsh(bracket)[0]) < 1e-15
