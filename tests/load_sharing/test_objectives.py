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
        for o in (tb.InternalForce(1.0) + objective, tb.InternalForce(1.0))
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
    sites = [tb.ContactSite(f"s{i}", "beam", 50.0, point=(x, 0, 0)) for i, x in enumerate(places)]
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
