"""Objectives of structures, sums of objectives, and what breaks ties."""

import numpy as np
import pytest

import tiburon as tb

GRIP = tb.World(ground=tb.Ground(static_friction=5.0))
"""Ground with so much friction that no cone is active."""


def table(bent):
    """Return a table on four legs with hips and knees about y, and a configuration.

    Nothing in the legs feels a sideways force; straight legs do not feel a vertical one either.
    """
    bodies = [tb.Body("top", joint=tb.Free("top"), inertia=tb.Inertia.box(8.0, (0.5, 0.3, 0.1)))]
    contacts, actuators = [], []
    for k, (x, y) in enumerate([(0.2, 0.12), (0.2, -0.13), (-0.22, 0.12), (-0.2, -0.12)]):
        link = tb.Inertia.cylinder(0.4, 0.02, 0.2, com=(0, 0, -0.1))
        hip = tb.Revolute(f"hip_{k}", (0, 1, 0), pose=tb.Pose(translation=(x, y, 0.0)))
        knee = tb.Revolute(f"knee_{k}", (0, 1, 0), pose=tb.Pose(translation=(0, 0, -0.2)))
        bodies += [
            tb.Body(f"thigh_{k}", "top", joint=hip, inertia=link),
            tb.Body(f"shin_{k}", f"thigh_{k}", joint=knee, inertia=link),
        ]
        contacts.append(tb.ContactPoint(f"foot_{k}", f"shin_{k}", (0.0, 0.0, -0.2)))
        actuators += [tb.Actuator(f"hip_{k}", f"hip_{k}"), tb.Actuator(f"knee_{k}", f"knee_{k}")]
    model = tb.Model("table", bodies, contacts=contacts, actuators=actuators)
    q = model.neutral()
    q[7::2], q[8::2] = -bent, 2.0 * bent
    q[6] = 0.4 * np.cos(bent)
    return model, q


def pure(model, objective, at):
    """Return W and c of an objective alone: its difference in a sum."""
    one, other = (
        tb.LoadSharing.of(model, world=GRIP, torque_limits=False, objective=o).problem(*at)
        for o in (tb.InternalForce(length=1.0) + objective, tb.InternalForce(length=1.0))
    )
    return one.W - other.W, one.c - other.c


def lexicographic(A, b, levels):
    """Minimize one objective after the other over the solutions of equations, exactly."""
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    _, sizes, rows = np.linalg.svd(A)
    N = rows[int(np.sum(sizes > 1e-10 * sizes[0])) :].T
    left = [N.shape[1]]
    for W, c in levels:
        H, g = N.T @ W @ N, N.T @ (W @ x + c)
        values, axes = np.linalg.eigh(H) if N.shape[1] else (np.zeros(0), np.zeros((0, 0)))
        kept = values > 1e-9 * np.trace(W)
        x = x - N @ axes[:, kept] @ ((axes[:, kept].T @ g) / values[kept])
        N = N @ axes[:, ~kept]
        left.append(N.shape[1])
    return x, left


@pytest.mark.parametrize(
    ("bent", "objective", "left"),
    [
        (0.5, tb.TorqueNorm(), [6, 2, 2, 0]),
        (0.0, tb.TorqueNorm(), [6, 3, 3, 0]),
        (0.5, tb.EqualShare(), [6, 5, 2, 0]),
        (0.5, tb.LoadTarget({"foot_1": (3.0, 4.0, 20.0)}), [6, 3, 1, 0]),
    ],
)
def test_ties_are_broken_by_torques_then_by_forces(bent, objective, left):
    """B14: singular objectives have one answer, that of the levels in turn."""
    model, q = table(bent)
    rng = np.random.default_rng(1)
    vd = 0.1 * rng.standard_normal(model.nv)
    at = (q, np.zeros(model.nv), vd)
    plan = tb.LoadSharing.of(model, world=GRIP, torque_limits=False, objective=objective)
    share, problem = plan.share(*at), plan.problem(*at)
    assert share.is_feasible
    assert share.iterations == 0
    own = [pure(model, o, at) for o in (objective, tb.TorqueNorm())]
    n = len(plan.names)
    x, dimensions = lexicographic(problem.A1, problem.b1, [*own, (np.eye(n), np.zeros(n))])
    assert dimensions == left
    # weights of 1e-7 and 1e-12: rounding disturbs the last level by 1e-16 / 1e-12, some times that
    np.testing.assert_allclose(share.x, x, atol=1e-3 * np.abs(x).max())
    for W, c in own[:1]:
        cost = [y @ W @ y / 2 + c @ y for y in (share.x, x)]
        assert cost[0] <= cost[1] + 1e-7 * abs(cost[1])


def test_joint_wrenches_are_least_under_their_norm():
    """W and c are those of the squares of all wrenches (6.31); other objectives cost more."""
    model, q = table(0.6)
    rng = np.random.default_rng(2)
    v, vd = 0.2 * rng.standard_normal((2, model.nv))
    length = 0.3

    def cost(share, plan):
        wrenches = plan.joint_wrenches(share)
        inner = [k for k, name in enumerate(wrenches.joints) if name != "top"]
        n, f = wrenches.wrenches[inner, :3], wrenches.wrenches[inner, 3:]
        return 0.5 * (np.sum(n * n) / length**2 + np.sum(f * f))

    objective = tb.JointWrenchNorm(length=length)
    plans = [
        tb.LoadSharing.of(model, world=GRIP, torque_limits=False, objective=o)
        for o in (objective, tb.InternalForce(), tb.TorqueNorm())
    ]
    shares = [plan.share(q, v, vd) for plan in plans]
    costs = [cost(share, plan) for share, plan in zip(shares, plans, strict=True)]
    assert costs[0] < costs[1] * (1 - 1e-6)
    assert costs[0] < costs[2] * (1 - 1e-6)
    W, c = pure(model, objective, (q, v, vd))
    one, other = shares[0].x, shares[1].x
    difference = 0.5 * (other @ W @ other - one @ W @ one) + c @ (other - one)
    assert difference == pytest.approx(costs[1] - costs[0], rel=1e-9)


def test_beam_on_three_springs_loads_them_by_elasticity():
    """Least strain energy: forces of a rigid beam on springs follow from its sinking and tilt."""
    beam = tb.Model(
        "beam",
        [
            tb.Body(
                "beam",
                joint=tb.Free("beam"),
                inertia=tb.Inertia.box(5.0, (2, 0.1, 0.1), (0.3, 0, 0)),
            )
        ],
    )
    places, k = np.array([-1.0, 0.2, 1.0]), np.array([2e4, 5e4, 1e4])
    sites = [tb.ContactSite(f"s{i}", "beam", 10.0, point=(x, 0, 0)) for i, x in enumerate(places)]
    soft = {f"s{i}": (1e-9, 1e-9, 1 / stiffness) for i, stiffness in enumerate(k)}
    plan = tb.LoadSharing.of(beam, sites=sites, driven=[], objective=tb.StrainEnergy(soft))
    share = plan.share(beam.neutral())
    # k_i (a + b x_i) with the sum and the moment of the weight at x = 0.3
    K = np.array([[k.sum(), k @ places], [k @ places, k @ places**2]])
    a, b = np.linalg.solve(K, 5.0 * 9.81 * np.array([1.0, 0.3]))
    np.testing.assert_allclose(share.forces[:, 2], k * (a + b * places), rtol=1e-9)
    # a matrix of compliances in turned axes is the same energy
    turned = {}
    rng = np.random.default_rng(3)
    for name, C in soft.items():
        Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        turned[name] = Q.T @ np.diag(C) @ Q
    one = tb.LoadSharing.of(beam, sites=sites, driven=[], objective=tb.StrainEnergy(turned))
    found, problem = one.share(beam.neutral()), one.problem(beam.neutral())
    C = np.zeros((9, 9))
    for i in range(3):
        C[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = turned[f"s{i}"]
    # optimal: the gradient C x has no part along internal forces
    _, sizes, rows = np.linalg.svd(problem.A1)
    N = rows[int(np.sum(sizes > 1e-9)) :].T
    assert found.iterations == 0
    gradient = C @ found.x
    np.testing.assert_allclose(N.T @ gradient, 0.0, atol=1e-6 * np.abs(gradient).max())


def test_bending_energy_is_the_integral_of_the_moment():
    """W and c are those of an integral over many points of each link (6.33)."""
    model, q = table(0.6)
    rng = np.random.default_rng(4)
    v, vd = 0.2 * rng.standard_normal((2, model.nv))
    links = {f"knee_{k}": ((0.0, 0.0, -0.2), 20.0 + k) for k in range(4)}
    objective = tb.BendingEnergy(links)
    W, c = pure(model, objective, (q, v, vd))
    plan = tb.LoadSharing.of(model, world=GRIP, torque_limits=False)
    share = plan.share(q, v, vd)
    found = plan.joint_wrenches(share)

    def energy(x):
        wrenches = found.constant + np.einsum("jkc,k->jc", found.rows, x)
        total = 0.0
        for name, (_, stiffness) in links.items():
            joint = found.joints.index(name)
            R, _ = tb.forward_kinematics(model, q, "shin_" + name[-1])
            n, f = R.T @ wrenches[joint, :3], R.T @ wrenches[joint, 3:]
            s = (np.arange(2000) + 0.5) / 2000 * 0.2
            along = np.stack([0 * s, 0 * s, -s], axis=-1)
            moment = n - np.cross(along, f)
            total += 0.2 * np.mean(np.sum(moment[:, :2] ** 2, axis=1)) / (2.0 * stiffness)
        return total

    other = share.x + rng.standard_normal(12)
    difference = 0.5 * (other @ W @ other - share.x @ W @ share.x) + c @ (other - share.x)
    # midpoint rule of 2000 points: 1e-7
    assert difference == pytest.approx(energy(other) - energy(share.x), rel=1e-5)


def test_sums_are_positive_semidefinite():
    """Every objective and every sum of them has a curvature of at least zero."""
    model, q = table(0.4)
    parts = [
        tb.TorqueNorm(),
        tb.JointWrenchNorm(("knee_0", "hip_3")),
        tb.StrainEnergy({"foot_0": np.array([[2, 1, 0], [1, 2, 0], [0, 0, 0.0]]) * 1e-5}),
        tb.BendingEnergy({"knee_2": ((0, 0, -0.2), 30.0)}),
        tb.EqualShare(),
        tb.LoadTarget({"foot_1": (0, 0, 10.0)}),
    ]
    at = (q, np.zeros(model.nv), np.zeros(model.nv))
    total = 0.0
    for weight, part in enumerate(parts, start=1):
        W, _ = pure(model, part, at)
        values = np.linalg.eigvalsh(0.5 * (W + W.T))
        assert values.min() >= -1e-12 * max(1.0, values.max())
        total = total + weight * W
    whole = parts[0]
    for weight, part in enumerate(parts[1:], start=2):
        whole = whole + weight * part
    np.testing.assert_allclose(pure(model, whole, at)[0], total, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tb.StrainEnergy({"foot": (1e-5, -1e-5, 1e-5)}), "eigenvalue of -1e-05"),
        (lambda: tb.StrainEnergy({"foot": [[1, 2, 0], [2, 1, 0], [0, 0, 1]]}), "semidefinite"),
        (lambda: tb.StrainEnergy({"foot": [[1, 2], [0, 1]]}), "symmetric"),
        (lambda: tb.StrainEnergy({}), "map names"),
        (lambda: tb.BendingEnergy({"knee": ((0, 0, 0), 1.0)}), "away from the joint"),
        (lambda: tb.BendingEnergy({"knee": ((0, 0, 1), -1.0)}), "knee"),
        (lambda: tb.BendingEnergy(3), "map joints"),
        (lambda: tb.JointWrenchNorm(3), "names"),
        (lambda: tb.JointWrenchNorm(length=0.0), "length"),
        (lambda: -1.0 * tb.TorqueNorm(), "weight"),
        (lambda: 0.0 * tb.TorqueNorm(), "weight"),
        (lambda: np.nan * tb.TorqueNorm(), "weight"),
        (lambda: tb.TorqueNorm() + 3, "objective"),
    ],
)
def test_invalid_weights_are_refused(make, words):
    """Indefinite, negative and missing weights are named."""
    with pytest.raises(tb.TiburonError, match=words):
        make()


def test_names_of_objectives_are_checked_against_the_robot():
    """Unknown contacts, joints, and other numbers of components, when the plan is made."""
    model, _ = table(0.4)
    for objective, words in (
        (tb.StrainEnergy({"paw": (1.0, 1.0, 1.0)}), "paw"),
        (tb.StrainEnergy({"foot_0": (1.0, 1.0)}), "3 components"),
        (tb.JointWrenchNorm(("elbow",)), "elbow"),
        (tb.BendingEnergy({"elbow": ((0, 0, 1), 1.0)}), "elbow"),
        (tb.LoadTarget({"paw": (0, 0, 1)}), "paw"),
        (tb.MotorLoss(), "hip_0"),
    ):
        with pytest.raises(tb.TiburonError, match=words):
            tb.LoadSharing.of(model, world=GRIP, objective=tb.InternalForce() + objective)


def stool(friction=0.0):
    """Return a stool on four feet, where they are, and a configuration."""
    box = tb.Inertia.box(10.0, (1.0, 1.0, 0.1), com=(0.1, 0.05, 0.0))
    feet = [(0.5, 0.4, -0.3), (0.45, -0.5, -0.3), (-0.5, 0.3, -0.3), (-0.4, -0.45, -0.3)]
    points = [tb.ContactPoint(f"foot_{k}", "seat", p) for k, p in enumerate(feet)]
    model = tb.Model(
        "stool", [tb.Body("seat", joint=tb.Free("seat"), inertia=box)], contacts=points
    )
    return model, np.array(feet), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3]


@pytest.mark.parametrize(("squares", "largest"), [(0.0, 1.0), (1.0, 5.0), (1.0, 0.3)])
def test_the_largest_normal_force_is_least(squares, largest):
    """(6.3) in a quadratic program, against a search over the one force that is free."""
    model, feet, q = stool()
    objective = largest * tb.LargestNormalForce()
    objective = objective + squares * tb.InternalForce() if squares else objective
    plan = tb.LoadSharing.of(model, world=GRIP, friction=0.0, driven=[], objective=objective)
    share = plan.share(q)
    # weight and moments about two axes leave one of four forces free
    A = np.stack([np.ones(4), feet[:, 1], feet[:, 0]])
    f0 = np.linalg.lstsq(A, 98.1 * np.array([1.0, 0.05, 0.1]), rcond=None)[0]
    tried = f0[:, None] + np.linspace(-60.0, 60.0, 600001) * np.linalg.svd(A)[2][-1][:, None]
    cost = squares * np.sum(tried**2, axis=0) + largest * tried.max(axis=0) ** 2
    cost[tried.min(axis=0) < 0.0] = np.inf
    # steps of 2e-4 N
    np.testing.assert_allclose(share.x[2::3], tried[:, cost.argmin()], atol=2e-4)
    problem = plan.problem(q)
    assert problem.names[-1] == "largest normal force"
    assert problem.solve().x[-1] == pytest.approx(share.x[2::3].max(), rel=1e-9)
    assert problem.redundancy == plan.redundancy == 6
    assert len(share.x) == len(plan.names) == 12
    lifted = plan.share(q, touching=["foot_0", "foot_1", "foot_2"])
    assert lifted.x[2::3][:3].sum() == pytest.approx(98.1)


def test_the_largest_normal_force_is_that_of_a_linear_program():
    """A walking machine in motion: the least largest force of (6.3), in every formulation."""
    from tiburon.load_sharing.linear_program import LargestNormal

    model, q = table(0.5)
    rng = np.random.default_rng(8)
    v, vd = 0.2 * rng.standard_normal((2, model.nv))
    plan = tb.LoadSharing.of(
        model, world=GRIP, friction=0.5, sides=8, objective=tb.LargestNormalForce()
    )
    share = plan.share(q, v, vd)
    linear = plan.problem(q, v, vd).solve_linear(LargestNormal())
    assert share.x[2::3].max() == pytest.approx(linear.value, rel=1e-6)
    # what defines the unknown is no limit of the robot
    both = tb.InternalForce() + 5.0 * tb.LargestNormalForce()
    plain = tb.LoadSharing.of(model, world=GRIP, objective=both)
    share = plain.share(q, v, vd)
    for formulation in ("superposition", "complete"):
        x = np.asarray(plain.problem(q, v, vd, formulation=formulation).solve().x)
        np.testing.assert_allclose(x[:12], share.x, atol=1e-8)
        assert x[-1] == pytest.approx(share.x[2::3].max(), rel=1e-9)
    assert plain.share(q).status == "optimal"
    assert plain.share(q).summary == "feasible"
    loops = tb.load("four_bar")
    with pytest.raises(tb.ModelError, match="LargestNormalForce: expected contacts"):
        tb.LoadSharing.of(loops, objective=tb.LargestNormalForce())


# -- objectives of the user ------------------------------------------------------------------------

SHARE = 0.5


class Uneven(tb.Objective):
    """One foot carries a share of what another does."""

    def __init__(self, weight):
        self.weight = weight

    def parameters(self, model):
        return (self.weight,)

    def squares(self, problem, p, before):
        one, other = (group.normal for group in problem.layout.groups[:2])
        knee = problem.torque(problem.layout.driven[1])
        return [tb.Square(p[0], {one: 1.0, other: -SHARE}), tb.Square(2.0, *knee)]


@pytest.mark.parametrize("relax", [False, True])
def test_open_contacts_have_no_force_under_objectives_of_the_user(relax):
    """A term that couples two feet holds for the one that touches: the other has no force."""
    model = tb.load("quadruped")
    q = np.array(model.poses["stand"])
    for objective in (Uneven(10.0), tb.InternalForce() + Uneven(10.0)):
        plan = tb.LoadSharing.of(
            model, world=GRIP, torque_limits=False, objective=objective, relax=relax
        )
        before = plan.share(q)
        assert abs(before.x[2]) > 1.0
        for name in range(2):
            touching = np.ones(4)
            touching[name] = 0.0
            own = slice(3 * name, 3 * name + 3)
            share = plan.share(q, touching=touching, before=before)
            assert share.is_feasible
            assert not share.x[own].any()
            problem = plan.problem(q, touching=touching)
            assert not np.asarray(problem.solve().x)[own].any()
            np.testing.assert_allclose(problem.A1 @ share.x, problem.b1, atol=1e-9)


def uneven_oracle(model, at, weight, share=0.5):
    """Return the optimum of the same squares by matrices and equations alone."""
    plan = tb.LoadSharing.of(model, world=GRIP, torque_limits=False)
    problem = plan.problem(*at)
    whole = plan.problem(*at, formulation="superposition")
    index = plan.layout.driven[1]
    knee, needed = -whole.A1[index, :12], whole.b1[index]
    row = np.zeros(12)
    row[2], row[5] = 1.0, -share
    W = np.eye(12) + weight * np.outer(row, row) + 2.0 * np.outer(knee, knee)
    n, m = problem.A1.shape[1], len(problem.b1)
    KKT = np.block([[W, problem.A1.T], [problem.A1, np.zeros((m, m))]])
    return np.linalg.solve(KKT, np.r_[-2.0 * needed * knee, problem.b1])[:n]


def test_objectives_of_the_user_are_shared_in_calls_batches_and_formulations():
    """Squares of a class from outside of the package have the optimum of their matrices."""
    model, q = table(0.5)
    rng = np.random.default_rng(9)
    v, vd = 0.2 * rng.standard_normal((2, model.nv))
    plan = tb.LoadSharing.of(
        model, world=GRIP, torque_limits=False, objective=tb.InternalForce() + Uneven(10.0)
    )
    expected = uneven_oracle(model, (q, v, vd), 10.0)
    np.testing.assert_allclose(plan.share(q, v, vd).x, expected, atol=1e-8)
    cases = plan.share(np.stack([q, q]), v, np.stack([vd, 0.0 * vd]))
    np.testing.assert_allclose(cases.x[0], expected, atol=1e-8)
    rest = uneven_oracle(model, (q, v, 0.0 * vd), 10.0)
    np.testing.assert_allclose(cases.x[1], rest, atol=1e-8)
    for formulation in ("superposition", "complete"):
        x = np.asarray(plan.problem(q, v, vd, formulation=formulation).solve().x)
        np.testing.assert_allclose(x[:12], expected, atol=1e-7)
    traced = tb.compile(lambda q: plan.share(q).x, shapes={"q": model.nq})
    np.testing.assert_allclose(traced(q), plan.share(q).x, atol=1e-9)


def test_other_values_of_the_users_objectives_compile_nothing():
    """Parameters are run-time values: one key, and the optimum of each."""
    model, q = table(0.5)
    plans = [
        tb.LoadSharing.of(
            model, world=GRIP, torque_limits=False, objective=tb.InternalForce() + Uneven(weight)
        )
        for weight in (1.0, 30.0)
    ]
    assert plans[0].options == plans[1].options
    for plan, weight in zip(plans, (1.0, 30.0), strict=True):
        expected = uneven_oracle(model, (q, np.zeros(model.nv), np.zeros(model.nv)), weight)
        np.testing.assert_allclose(plan.share(q).x, expected, atol=1e-8)


def test_changed_objectives_of_the_user_are_not_confused(monkeypatch):
    """A class of the same name, a global or an attribute that changed: other code, or an error."""
    model, q = table(0.5)
    still = (q, np.zeros(model.nv), np.zeros(model.nv))

    def planned(objective):
        chosen = tb.InternalForce() + objective
        return tb.LoadSharing.of(model, world=GRIP, torque_limits=False, objective=chosen)

    plan = planned(Uneven(10.0))
    first = plan.share(q).x
    same = type("Uneven", (Uneven,), {"squares": lambda self, problem, p, before: []})
    assert planned(same(10.0)).options != plan.options
    np.testing.assert_allclose(
        planned(same(10.0)).share(q).x,
        tb.LoadSharing.of(model, world=GRIP, torque_limits=False).share(q).x,
        atol=1e-9,
    )
    monkeypatch.setitem(globals(), "SHARE", 0.9)
    with pytest.raises(tb.ModelError, match="objective Uneven: your code computes something else"):
        plan.share(q)
    other = planned(Uneven(10.0)).share(q).x
    np.testing.assert_allclose(other, uneven_oracle(model, still, 10.0, 0.9), atol=1e-8)
    assert np.abs(other - first).max() > 0.1
    monkeypatch.setitem(globals(), "SHARE", 0.5)
    np.testing.assert_array_equal(plan.share(q).x, first)
    plan.objective.parts[1][1].weight = 11.0
    for call in (plan.share, plan.problem):
        with pytest.raises(tb.ModelError, match="parameters differ from those when the plan"):
            call(q)


def test_controllers_share_by_objectives_of_the_user():
    """A run of a standing machine ends with the forces of `share`."""
    model, q = table(0.5)
    objective = tb.InternalForce() + Uneven(10.0)
    plan = tb.LoadSharing.of(model, world=GRIP, torque_limits=False, objective=objective)
    control = tb.LoadSharingControl(plan, q)
    run = tb.simulate(model, 0.02, q=q, world=GRIP, control=control)
    np.testing.assert_allclose(control.read(run).forces[-1], plan.share(q).x, atol=1e-3)
    assert (
        np.abs(uneven_oracle(model, (q, *np.zeros((2, model.nv))), 0.0)[2] - plan.share(q).x[2])
        > 1.0
    )


@pytest.mark.parametrize(
    ("squares", "words"),
    [
        (lambda self, problem, p, before: 3.0, "squares: expected a list of Square"),
        (lambda self, problem, p, before: [(1.0, {0: 1.0}, 0.0)], "expected a list of Square"),
        (lambda self, problem, p, before: [tb.Square(1.0, {12: 1.0})], "from 0 to 11, got"),
        (lambda self, problem, p, before: [tb.Square(1.0, {"foot": 1.0})], "rows by place"),
    ],
)
def test_wrong_squares_of_the_user_are_refused(squares, words):
    """When the plan is made, by the name of the class."""
    model, _ = table(0.5)
    wrong = type("Wrong", (tb.Objective,), {"squares": squares})
    with pytest.raises(tb.ModelError, match=f"Wrong.*{words}"):
        tb.LoadSharing.of(model, world=GRIP, objective=tb.InternalForce() + wrong())
    lost = type("Lost", (tb.Objective,), {"parameters": lambda self, model: (np.nan,)})
    with pytest.raises(tb.ModelError, match="Lost: parameters must be"):
        tb.LoadSharing.of(model, world=GRIP, objective=lost())
