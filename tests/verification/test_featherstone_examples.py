"""Worked examples of Featherstone 1987, as whole robots through the public functions."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.tolerances import ALGEBRA, SOLVE, assert_close

FREE_FALL = tb.World(gravity=(0.0, 0.0, 0.0))


def two_bodies(joint, second, first=None):
    """Build a floating body with a second one on it."""
    return tb.Model(
        "two_bodies",
        [
            tb.Body("first", joint=tb.Free("float"), inertia=first or tb.Inertia.sphere(3.0, 0.5)),
            tb.Body("second", "first", joint=joint, inertia=second),
        ],
    )


def handle_inertia(model, q):
    """Return the articulated-body inertia of the first body, its axes, about its origin.

    Two ways that must agree: the mass matrix with the other degrees of freedom eliminated, and the
    operational inertia of the body's frame.
    """
    M = tb.mass_matrix(model, q)
    felt = M[:6, :6] - M[:6, 6:] @ np.linalg.solve(M[6:, 6:], M[6:, :6])
    other = tb.operational_space_inertia(model, q, "first", axes="frame")
    assert_close(other, felt, SOLVE * np.linalg.cond(M))
    return felt


def at_origin(*rest):
    """Return a position: the first body at the world's origin, the joint as given."""
    return np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, *rest])


def test_sphere_with_a_cylinder_on_its_shaft_has_no_single_mass():
    """Fig. 3-2: along the shaft only the sphere is felt, mass block diag(5, 3, 5)."""
    cylinder = tb.Inertia(2.0, (0.0, 0.0, 0.0), (0.04, 0.02, 0.04))
    model = two_bodies(tb.Cylindrical("shaft", (0.0, 1.0, 0.0)), cylinder)
    felt = handle_inertia(model, at_origin(0.6, 0.0))
    assert_close(felt[3:, 3:], np.diag([5.0, 3.0, 5.0]))
    # about the shaft, too, the cylinder is not felt
    sphere = tb.Inertia.sphere(3.0, 0.5).matrix
    assert_close(felt[:3, :3], sphere + np.diag([0.04, 0.0, 0.04]))


def test_sphere_with_a_nut_on_its_thread_couples_rotation_and_translation():
    """Fig. 3-2 with a screw: I_yy 0.51, M_yy 4.0, coupling -0.1 for the numbers of the example."""
    m1, m2, J, rho, moment = 3.0, 2.0, 0.02, 0.1, 0.5
    sphere = tb.Inertia(m1, (0.0, 0.0, 0.0), (moment,) * 3)
    nut = tb.Inertia(m2, (0.0, 0.0, 0.0), (0.03, J, 0.03))
    model = two_bodies(tb.Screw("thread", (0.0, 1.0, 0.0), pitch=rho), nut, sphere)
    felt = handle_inertia(model, at_origin(0.0))
    d = m2 * rho**2 + J
    expected = (moment + J * m2 * rho**2 / d, -m2 * rho * J / d, m1 + m2 * J / d)
    assert_close((felt[1, 1], felt[1, 4], felt[4, 4]), expected)
    assert_close(expected, (0.51, -0.1, 4.0))


def test_a_body_on_a_free_joint_adds_no_articulated_inertia():
    """Section 7.4.3: through a joint of six degrees of freedom, I^A = I exactly."""
    rng = np.random.default_rng(6)
    first, second = random_inertia(rng), random_inertia(rng)
    pair = two_bodies(tb.Free("loose", pose=random_pose(rng)), second, first)
    alone = tb.Model("alone", [tb.Body("first", joint=tb.Free("float"), inertia=first)])
    (q, v), tau = pair.random_state(rng), rng.normal(size=12)
    # no force in the joint between them
    tau[6:] = 0.0
    together = tb.forward_dynamics(pair, q, v, tau)[:6]
    assert_close(together, tb.forward_dynamics(alone, q[:7], v[:6], tau[:6]), SOLVE * 100)
    felt = handle_inertia(pair, at_origin(*q[7:]))
    assert_close(felt, tb.mass_matrix(alone, at_origin()), SOLVE * 100)


def test_steady_turning_needs_force_but_no_spatial_acceleration():
    """Section 2.7: 2 kg at 0.5 m, turning at 3 rad/s, are held by 9 N; a = 0, f = v x I v."""
    mass, radius, rate = 2.0, 0.5, 3.0
    arm = tb.Body(
        "arm", joint=tb.Revolute("axle"), inertia=tb.Inertia.point(mass, (radius, 0.0, 0.0))
    )
    weight = tb.Frame("mass", "arm", tb.Pose(translation=(radius, 0.0, 0.0)))
    model = tb.Model("carousel", [arm], [weight])
    q, v, rest = np.array([0.4]), np.array([rate]), np.zeros(1)
    spatial = tb.frame_acceleration(model, q, v, rest, "arm", at="world", kind="spatial")
    assert_close(spatial, np.zeros(6))
    classical = tb.frame_acceleration(model, q, v, rest, "mass", axes="frame")
    assert_close(classical, [0.0, 0.0, 0.0, -(rate**2) * radius, 0.0, 0.0])
    assert mass * rate**2 * radius == 9.0
    # what the axle transmits is that force, and no moment about itself
    carried = tb.joint_reactions(model, q, v, rest, world=FREE_FALL)
    assert_close(carried.bearing, [[0.0, 0.0, 0.0, -9.0, 0.0, 0.0]])
    assert_close(tb.inverse_dynamics(model, q, v, rest, world=FREE_FALL), rest)


# predecessor of each link of the tree of Fig. 7-1, whose links are numbered from 1; 0 is the base
LAMBDA = (0, 1, 2, 1, 4, 4)


def figure_7_1():
    """Build the tree with links 1 to 6 on hinges about any axes."""
    rng = np.random.default_rng(71)
    bodies = []
    for i, parent in enumerate(LAMBDA, start=1):
        joint = tb.Revolute(f"joint_{i}", tuple(random_axis(rng)), pose=random_pose(rng))
        name = "world" if parent == 0 else f"link_{parent}"
        bodies.append(tb.Body(f"link_{i}", name, joint=joint, inertia=random_inertia(rng)))
    return tb.Model("figure_7_1", bodies)


def test_tree_of_figure_7_1_couples_links_of_one_branch_only():
    """H_ij is zero unless one of i, j supports the other (eq. 7.9): H_25 = H_35 = 0."""
    model = figure_7_1()
    q, _ = model.random_state(np.random.default_rng(1))
    H = tb.mass_matrix(model, q)
    # nu_i, the links supported by i, as printed: nu_1 all, nu_2 = {2, 3}, nu_4 = {4, 5, 6}
    supported = {1: {1, 2, 3, 4, 5, 6}, 2: {2, 3}, 3: {3}, 4: {4, 5, 6}, 5: {5}, 6: {6}}
    for i in range(1, 7):
        for j in range(1, 7):
            coupled = j in supported[i] or i in supported[j]
            assert (H[i - 1, j - 1] != 0.0) == coupled
    assert {j for j in range(1, 7) if H[4, j - 1] != 0.0} == {1, 4, 5}


@pytest.mark.parametrize("kind", [tb.Revolute, tb.Prismatic, tb.Screw, tb.Spherical, tb.Universal])
def test_articulated_inertia_lies_between_its_bounds(kind):
    """B17: I_1 <= I^A_1 <= I_1 + I_2 in the sense of eigenvalues, the second in place."""
    rng = np.random.default_rng(17)
    for _ in range(4):
        settings = {"pose": random_pose(rng)}
        if kind is tb.Screw:
            settings["pitch"] = 0.3
        if kind in (tb.Revolute, tb.Prismatic, tb.Screw):
            settings["axis"] = tuple(random_axis(rng))
        first, second = random_inertia(rng), random_inertia(rng)
        joint = kind("joint", **settings)
        model = two_bodies(joint, second, first)
        q, _ = model.random_state(rng)
        q[:7] = at_origin()
        felt = handle_inertia(model, q)
        alone = tb.Model("alone", [tb.Body("first", joint=tb.Free("float"), inertia=first)])
        least = tb.mass_matrix(alone, q[:7])
        # the joint welded where it is: the composite body
        most = tb.mass_matrix(model, q)[:6, :6]
        size = np.linalg.norm(most)
        assert np.linalg.eigvalsh(felt - least).min() > -ALGEBRA * size
        assert np.linalg.eigvalsh(most - felt).min() > -ALGEBRA * size
        # strict in some direction both ways: a joint neither frees nor holds everything
        assert np.linalg.eigvalsh(felt - least).max() > 1e-3 * size
        assert np.linalg.eigvalsh(most - felt).max() > 1e-6 * size
