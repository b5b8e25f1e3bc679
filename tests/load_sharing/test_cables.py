"""Cable robots: tensions between limits, the polytope of wrenches, and runs on a path."""

import itertools

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing.cables import closed_form_tensions, wrench_polytope


def poses(robot, rng, count, spread=(1.7, 1.3, 1.1)):
    """Return configurations all over the frame, turned."""
    q = np.tile(robot.poses["home"], (count, 1))
    q[:, 4:] += rng.uniform(-1.0, 1.0, (count, 3)) * spread
    step = np.zeros((count, 6))
    step[:, :3] = 0.25 * rng.standard_normal((count, 3))
    return robot.integrate(q, step)


def test_structure_matrix_is_minus_the_rate_of_lengths():
    """A tension does the work -t dl: by differences of the lengths that runs record."""
    robot = tb.load("cable_robot")
    rng = np.random.default_rng(1)
    (q,) = poses(robot, rng, 1)

    def lengths(at):
        R, p = (np.asarray(x) for x in tb.forward_kinematics(robot, at, "platform"))
        return [np.linalg.norm(p + R @ c.second_point - c.first_point) for c in robot.cables]

    step = 1e-6
    rates = [
        (np.array(lengths(robot.integrate(q, step * e))) - lengths(robot.integrate(q, -step * e)))
        / (2 * step)
        for e in np.eye(6)
    ]
    np.testing.assert_allclose(tb.structure_matrix(robot, q), -np.array(rates), atol=1e-8)
    # the same columns as those of load sharing, which has no driven joints here
    problem = tb.LoadSharing.of(robot).problem(q)
    np.testing.assert_allclose(problem.A1, tb.structure_matrix(robot, q), atol=1e-12)


def test_tensions_exist_exactly_within_the_polytope_of_wrenches():
    """Hyperplane shifting and the quadratic program agree all over the frame; so do margins."""
    robot = tb.load("cable_robot")
    rng = np.random.default_rng(2)
    q = poses(robot, rng, 60)
    vd = 3.0 * rng.standard_normal((60, 6))
    share = tb.LoadSharing.of(robot).share(q, vd=vd)
    found = [tb.cable_tensions(robot, q[k], vd=vd[k]) for k in range(60)]
    feasible = np.array([one.is_feasible for one in found])
    assert 15 < feasible.sum() < 55
    np.testing.assert_array_equal(share.is_feasible, feasible)
    x = share.x[feasible]
    assert (x >= 10.0 - 1e-9).all()
    assert (x <= 600.0 + 1e-9).all()
    # closed-form tensions that keep the limits give the wrench, too, but are no smaller
    for k in np.flatnonzero(feasible):
        one = found[k]
        np.testing.assert_allclose(one.structure @ one.tensions, one.needed, atol=1e-9)
        if one.is_within:
            assert share.x[k] @ share.x[k] <= one.tensions @ one.tensions * (1 + 1e-12)
    # somewhere the closed form leaves the limits though there are tensions within
    assert any(one.is_feasible and not one.is_within for one in found)


def test_tensions_nearest_to_the_mean_ones_are_the_closed_form():
    """With targets of the mean tension and no active limit the program has Pott's solution."""
    robot = tb.load("cable_robot")
    q = np.array(robot.poses["home"])
    names = [cable.name for cable in robot.cables]
    mean = dict.fromkeys(names, (305.0,))
    plan = tb.LoadSharing.of(robot, objective=tb.LoadTarget(mean))
    share = plan.share(q)
    assert share.iterations == 0
    np.testing.assert_allclose(share.x, tb.cable_tensions(robot, q).tensions, rtol=1e-6)


def test_polytopes_of_small_robots_are_those_of_all_corners():
    """In a plane: the convex hull of the images of all corners of the box of tensions."""
    rng = np.random.default_rng(3)
    for count in (3, 4, 5):
        A = rng.standard_normal((2, count))
        low, high = rng.uniform(0.0, 1.0, count), rng.uniform(2.0, 5.0, count)
        polytope = wrench_polytope(A, low, high)
        assert len(polytope.offsets) == 2 * count
        corners = np.array([A @ t for t in itertools.product(*zip(low, high, strict=True))])
        # every corner is inside, and every facet touches two of them
        distance = polytope.offsets - corners @ polytope.normals.T
        assert distance.min() > -1e-12
        assert (np.sum(distance < 1e-9, axis=0) >= 2).all()
        inside = np.array([A @ rng.uniform(low, high) for _ in range(50)])
        assert (polytope.margin(inside) >= -1e-12).all()
        far = corners.mean(axis=0) + 1e3 * rng.standard_normal(2)
        assert polytope.margin(far) < 0.0
    A = rng.standard_normal((2, 4))
    t = closed_form_tensions(A, np.array([0.3, -0.2]), np.zeros(4), np.full(4, 2.0))
    np.testing.assert_allclose(A @ t, [0.3, -0.2], atol=1e-12)


def test_a_stayed_boom_presses_on_its_hinge():
    """A boom of 2 kg and 1 m, stayed at 45 degrees: T = W / (2 sin 45), hinge (T cos 45, W / 2)."""
    inertia = tb.Inertia.cylinder(2.0, 0.02, 1.0, com=(0.5, 0.0, 0.0), axis=0)
    boom = tb.Body("boom", joint=tb.Revolute("hinge", (0.0, 1.0, 0.0)), inertia=inertia)
    stay = tb.Cable("stay", "world", "boom", (0.0, 0.0, 1.0), (1.0, 0.0, 0.0))
    thruster = tb.Thruster("fan", "boom", (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    weight = 2.0 * 9.81
    for model, force, hinge in (
        (tb.Model("stayed", [boom], cables=[stay]), weight / (2 * np.sqrt(0.5)), weight / 2),
        (tb.Model("blown", [boom], thrusters=[thruster]), weight / 2, 0.0),
    ):
        plan = tb.LoadSharing.of(model)
        share = plan.share(model.neutral())
        np.testing.assert_allclose(share.x, [force], rtol=1e-9)
        found = plan.joint_wrenches(share).of("hinge")
        np.testing.assert_allclose(found, [0, 0, 0, hinge, 0, weight / 2], atol=1e-9)


def test_cut_cable_is_ignored_and_missing_data_are_named():
    """Cables that take no part have no least tension; too few of them cannot hold the platform."""
    robot = tb.load("cable_robot")
    q = np.array(robot.poses["home"])
    q[4:] += -0.5, 0.3, 0.4
    plan = tb.LoadSharing.of(robot)
    assert plan.redundancy == 2
    assert "cable_3: least tension" in plan.limit_names
    touching = np.ones(8)
    touching[3] = 0.0
    share = plan.share(q, touching=touching)
    assert share.is_feasible
    assert abs(share.x[3]) < 1e-9
    np.testing.assert_allclose(share.x[[0, 1, 2, 4, 5, 6, 7]] >= 10.0 - 1e-9, True)
    touching[0] = 0.0
    lost = plan.share(q, touching=touching)
    assert lost.status == "infeasible"
    assert "infeasible" in lost.summary


def test_a_platform_follows_its_path_between_its_tension_limits():
    """Inverse dynamics tracks a smooth path as the integrator does, in one compiled loop."""
    robot = tb.load("cable_robot")
    turn = (np.cos(0.1), 0.0, 0.0, np.sin(0.1))
    path = tb.CartesianPath.through(
        (0.0, 0.6, 1.2),
        [(0, 0, 1.2), (0.5, 0.3, 1.5), (0, 0, 1.2)],
        [(1, 0, 0, 0), turn, (1, 0, 0, 0)],
    )
    control = tb.CableControl.of(robot, target=path, frequency=12.0)
    run = tb.simulate(robot, 1.2, q=robot.poses["home"], control=control, method=tb.RK4(dt=2e-3))
    assert run.status == "finished"
    wanted = np.array([path.at(t).position for t in run.time])
    # feedback on states at the start of stages, fourth order
    assert np.abs(run.q[:, 4:] - wanted).max() < 1e-9
    tensions = np.array([run.get(f"{cable.name}.tension").values for cable in robot.cables])
    assert tensions.min() >= 10.0 - 1e-9
    assert tensions.max() < 600.0
    # winches do the work that the platform gains and loses
    power = sum(run.get(f"{cable.name}.power").values for cable in robot.cables)
    energy = np.asarray(run.get("total_energy").values)
    work = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1]) * np.diff(run.time))])
    # trapezoids between rows 10 ms apart, of some 60 J
    np.testing.assert_allclose(energy - energy[0], work, atol=0.03)


def test_platforms_held_at_a_pose_return_to_it():
    """A push of 0.2 m/s decays with two poles at -k."""
    robot = tb.load("cable_robot")
    home = np.array(robot.poses["home"])
    control = tb.CableControl.of(robot, target=home, frequency=10.0)
    v = np.array([0.0, 0.0, 0.3, 0.2, 0.0, 0.0])
    run = tb.simulate(robot, 0.6, q=home, v=v, control=control, method=tb.RK4(dt=2e-3))
    # x = v t exp(-k t)
    np.testing.assert_allclose(run.q[:, 4], 0.2 * run.time * np.exp(-10.0 * run.time), atol=2e-5)
    # the linear velocity is in axes that turn: nothing pushes it aside
    assert np.abs(run.q[:, 5:] - home[5:]).max() < 1e-6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tb.Cable("c", "world", "p", tension_limits=(-1.0, 5.0)), "only pulls"),
        (lambda: tb.Cable("c", "world", "p", tension_limits=(9.0, 5.0)), "swap them"),
        (lambda: tb.Cable("c", "p", "p"), "two bodies"),
        (lambda: tb.cable_tensions(tb.load("pendulum"), [0.0]), "cables"),
        (lambda: tb.structure_matrix(tb.load("pendulum"), [0.0]), "cables"),
        (lambda: tb.structure_matrix(tb.load("cable_robot"), [0.0]), "q"),
        (lambda: tb.CableControl.of(tb.load("pendulum"), target=[0.0]), "cables"),
        (lambda: tb.CableControl.of(tb.load("cable_robot"), target=[0.0]), "7 values"),
        (
            lambda: tb.CableControl.of(tb.load("cable_robot"), target=np.eye(7)[0], frequency=0.0),
            "frequency",
        ),
    ],
)
def test_bad_cables_are_refused(make, words):
    """Pushing cables, crossed limits, robots without cables."""
    with pytest.raises(tb.TiburonError, match=words):
        make()


def test_platforms_are_controlled_whatever_was_asked_of_the_model_before():
    """What other functions keep in the model does not belong to the key of a controller."""
    robot = tb.load("cable_robot")
    home = np.array(robot.poses["home"])
    with pytest.raises(tb.DomainError, match="motors that hold"):
        tb.feathering(robot, home)
    twice = np.r_[1.4 * home[:4], home[4:]]
    control = tb.CableControl.of(robot, target=twice)
    run = tb.simulate(robot, 0.02, q=home, control=control, method=tb.RK4(dt=2e-3))
    np.testing.assert_allclose(run.q[-1], home, atol=1e-9)
    for bad in (np.nan * home, np.r_[0.0 * home[:4], home[4:]]):
        with pytest.raises(tb.DomainError, match="target: expected a finite pose"):
            tb.CableControl.of(robot, target=bad)


def test_controllers_of_plans_with_other_limits_do_not_share_code():
    """Limits and gravity of the plan are part of the key."""
    robot = tb.load("cable_robot")
    home = np.array(robot.poses["home"])
    found = []
    for gravity in (9.81, 5.0):
        world = tb.World(gravity=(0.0, 0.0, -gravity))
        control = tb.CableControl.of(robot, target=home, world=world)
        run = tb.simulate(robot, 0.02, q=home, control=control, method=tb.RK4(dt=2e-3), world=world)
        np.testing.assert_allclose(run.q[-1], home, atol=1e-9)
        found.append(np.asarray(run.u[-1]))
    assert np.abs(found[0] - found[1]).max() > 1.0
