"""Random walkers and hands, on land and under water, against an interior point method.

Batches mix motions that are possible with others that are not, and sets of touching feet.
"""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tiburon.reproduce.nahon_problems import arms_on_object

clarabel = pytest.importorskip("clarabel")
sparse = pytest.importorskip("scipy.sparse")

FEASIBLE = ("optimal", "at limits")


def optimum(W, c, A1, b1, A2, b2, cones, mu):
    """Return status and forces that Clarabel finds, for exact cones and rows."""
    n, size, scale = len(c), np.abs(W).max(), max(np.abs(b1).max(), 1.0)
    rows, right = [A1, -A2], [b1 / scale, -b2 / scale]
    kinds = [clarabel.ZeroConeT(len(b1)), clarabel.NonnegativeConeT(len(b2))]
    for (i, j, k), m in zip(cones, mu, strict=True):
        cone = np.zeros((3, n))
        cone[0, k], cone[1, i], cone[2, j] = -m, -1.0, -1.0
        rows.append(cone)
        right.append(np.zeros(3))
        kinds.append(clarabel.SecondOrderConeT(3))
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    A = sparse.csc_matrix(np.vstack(rows))
    W = sparse.csc_matrix(np.triu(W) / size)
    solver = clarabel.DefaultSolver(W, c / size / scale, A, np.concatenate(right), kinds, options)
    found = solver.solve()
    return str(found.status), scale * np.array(found.x)


def unit(rng):
    axis = rng.standard_normal(3)
    return tuple(axis / np.linalg.norm(axis))


def random_joint(rng, name, pose):
    kind = rng.integers(0, 5)
    if kind == 0:
        return tb.Prismatic(name, unit(rng), pose=pose, armature=float(rng.uniform(0, 0.3)))
    if kind == 1:
        return tb.Screw(name, unit(rng), pitch=0.05, pose=pose)
    if kind == 2:
        return tb.Spherical(name, pose=pose)
    return tb.Revolute(name, unit(rng), pose=pose, armature=float(rng.uniform(0, 0.1)))


def random_fluid(rng):
    return tb.BodyFluid(
        volume=float(rng.uniform(1e-4, 1e-3)),
        center_of_buoyancy=tuple(0.02 * rng.standard_normal(3)),
        added_mass=np.diag(rng.uniform(0.01, 0.3, 6)),
        linear_damping=np.diag(rng.uniform(0.0, 1.0, 6)),
    )


def walker(rng, wet):
    """Return a robot with two to six legs of two to four joints each, and its leg joints."""
    fluid = random_fluid(rng) if wet else None
    trunk = tb.Inertia.box(float(rng.uniform(2, 20)), (0.6, 0.4, 0.2))
    bodies = [tb.Body("base", joint=tb.Free("base"), inertia=trunk, fluid=fluid)]
    feet, joints = [], []
    legs = int(rng.integers(2, 7))
    for leg in range(legs):
        turn = 2 * np.pi * leg / legs + 0.2 * rng.standard_normal()
        parent = "base"
        pose = tb.Pose(translation=(0.4 * np.cos(turn), 0.3 * np.sin(turn), 0.0))
        for k in range(int(rng.integers(2, 5))):
            name = f"l{leg}_{k}"
            com = tuple(0.05 * rng.standard_normal(3))
            size = tuple(rng.uniform(0.05, 0.4, 3))
            link = tb.Inertia.box(float(rng.uniform(0.1, 3)), size, com=com)
            joint = random_joint(rng, f"{name}_joint", pose)
            own = random_fluid(rng) if wet else None
            bodies.append(tb.Body(name, parent, joint=joint, inertia=link, fluid=own))
            joints.append(joint.name)
            parent = name
            pose = tb.Pose(translation=(*(0.05 * rng.standard_normal(2)), -0.2))
        place = (*(0.03 * rng.standard_normal(2)), -0.2)
        feet.append(tb.ContactPoint(f"foot{leg}", parent, place, radius=0.02 * (leg % 2)))
    return tb.Model("walker", bodies, contacts=feet), joints


def standing(model, rng, count):
    """Return states with a level base and legs near neutral, motions, and sets of feet."""
    q, v, vd, feet = [], [], [], []
    for _ in range(count):
        at = np.asarray(model.integrate(model.neutral(), 0.2 * rng.standard_normal(model.nv)))
        at[4:7] = (0.0, 0.0, 0.5)
        q.append(at)
        v.append(0.1 * rng.standard_normal(model.nv))
        vd.append(rng.choice([0.0, 0.1, 1.0, 3.0]) * rng.standard_normal(model.nv))
        feet.append((rng.random(len(model.contacts)) < 0.93).astype(float))
    return tuple(map(np.array, (q, v, vd, feet)))


def compared(plan, motion, touching=None):
    """Return the shared load; feasible cases are optimal, others infeasible for Clarabel, too."""
    share = plan.share(*motion, touching=touching)
    problem = plan.problem(*motion, touching=touching)
    for case, status in enumerate(share.status):
        parts = [np.asarray(getattr(problem, name))[case] for name in
                 ("W", "c", "A1", "b1", "A2", "b2")]  # fmt: skip
        W, c, A1, b1, A2, b2 = parts
        cones = plan._cones
        mu = np.asarray(problem.mu)[case] if cones else ()
        theirs, y = optimum(*parts, cones, mu)
        own = [None if touching is None else touching[case]]
        one = plan.share(*(part[case] for part in motion), touching=own[0])
        np.testing.assert_array_equal(one.x, share.x[case])
        assert one.status == status
        if status == "infeasible":
            assert theirs != "Solved", case
            continue
        assert status in FEASIBLE
        assert "Infeasible" not in theirs, case
        x, largest = share.x[case], max(np.abs(share.x[case]).max(), np.abs(b1).max(), 1.0)
        assert np.abs(A1 @ x - b1).max(initial=0.0) < 1e-9 * largest
        assert (A2 @ x - b2).min(initial=0.0) > -1e-9 * largest
        for (i, j, k), m in zip(cones, mu, strict=True):
            assert np.hypot(x[i], x[j]) - m * x[k] < 1e-9 * (1.0 + m) * largest
        if theirs == "Solved":
            ours, best = (0.5 * z @ W @ z + c @ z for z in (x, y))
            least = 1e-9 * np.abs(W).max() * np.abs(y).max() ** 2
            assert ours - best < 1e-8 * max(abs(best), least)
    return share


def check_walker(seed):
    """Compare one walker; return how many of its cases are feasible, and how many are not."""
    rng = np.random.default_rng(seed)
    wet = bool(rng.random() < 0.4)
    model, joints = walker(rng, wet)
    water = tb.Water(1025.0, current=(0.2, 0.1, 0.0)) if wet else None
    friction = float(rng.choice([0.0, 0.5, 0.8, 5.0, 10.0]))
    world = tb.World(ground=tb.Ground(static_friction=friction), fluid=water)
    driven = [name for name in joints if rng.random() < 0.97]
    limit = float(rng.choice([30.0, 100.0, 300.0, np.inf]))
    limits = {name: (-limit, limit) for name in driven if model.joint(name).kind != "spherical"}
    objectives = (None, tb.TorqueNorm(), tb.InternalForce() + 0.1 * tb.TorqueNorm(),
                  tb.EqualShare())  # fmt: skip
    plan = tb.LoadSharing.of(
        model,
        world=world,
        driven=driven,
        sides=(None, 4, 8, 13)[rng.integers(4)],
        objective=objectives[rng.integers(4)],
        torque_limits=limits if limit < np.inf else False,
    )
    *motion, touching = standing(model, rng, 8)
    share = compared(plan, motion, touching)
    for case in np.flatnonzero(share.is_feasible):
        q, v, vd = (part[case] for part in motion)
        here = tb.contacts(model, q, world=world)
        push = {}
        for k, foot in enumerate(model.contacts):
            _, origin = tb.forward_kinematics(model, q, foot.body)
            force = share.forces[case, k]
            wrench = np.concatenate([np.cross(here.point[k] - origin, force), force])
            push[foot.body] = push.get(foot.body, 0.0) + wrench
        found = tb.inverse_dynamics(model, q, v, vd, world=world, external_force=push,
                                    external_axes="world")  # fmt: skip
        largest = max(np.abs(found).max(), np.abs(share.forces[case]).max(), 1.0)
        np.testing.assert_allclose(share.tau[case], found, atol=1e-9 * largest)
    return share.is_feasible


def check_hand(seed):
    """Compare one hand or set of arms; forward dynamics of its loops returns the motion."""
    rng = np.random.default_rng(seed)
    wet = bool(rng.random() < 0.5)
    arms = arms_on_object(tuple(rng.integers(2, 5, size=rng.integers(2, 5)).tolist()), tb.Fixed)
    bodies = []
    for body in arms.bodies:
        joint = body.joint
        if joint.kind != "free":
            joint = random_joint(rng, joint.name, joint.pose)
        fluid = random_fluid(rng) if wet else None
        bodies.append(tb.Body(body.name, body.parent, joint=joint, inertia=body.inertia,
                              fluid=fluid))  # fmt: skip
    first = bodies[1]
    if first.joint.kind == "revolute":
        spinning = {"ratio": 30.0, "inertia": 1e-5, "mass": 0.1}
        bodies.insert(2, tb.rotor("rotor", first.parent, first.joint, **spinning))
    loops = []
    for loop in arms.loops:
        tie = (tb.Fixed, tb.Spherical, tb.Spherical, tb.Revolute)[rng.integers(4)](loop.name)
        joint = replace(tie, pose=loop.joint.pose)
        loops.append(tb.LoopClosure(loop.name, loop.first, loop.second, joint, loop.second_pose))
    model = tb.Model("hand", bodies, loops=loops)
    world = tb.World(fluid=tb.Water(1025.0, current=(0.2, 0.1, 0.0)) if wet else None)
    joints = [x.name for x in model.joints if x.nv and x.kind != "free"]
    grips = [
        tb.GripLimit(loop.name, unit(rng), float(rng.choice([0.3, 1.0, 3.0])))
        for loop in loops
        if loop.joint.kind == "spherical" and rng.random() < 0.8
    ]
    plan = tb.LoadSharing.of(
        model,
        world=world,
        driven=[name for name in joints if rng.random() < 0.95],
        objective=(None, tb.TorqueNorm(), tb.InternalForce() + 0.1 * tb.TorqueNorm())[
            rng.integers(3)
        ],
        grips=grips,
        sides=8 if grips and rng.random() < 0.5 else None,
        torque_limits=False,
    )
    states = []
    for _ in range(6):
        q = np.asarray(model.integrate(model.neutral(), 0.15 * rng.standard_normal(model.nv)))
        try:
            q = np.asarray(tb.assemble(model, q).q)
        except tb.TiburonError:
            continue
        v = np.asarray(tb.project_velocity(model, q, 0.3 * rng.standard_normal(model.nv)))
        tau = rng.choice([0.1, 1.0, 10.0]) * rng.standard_normal(model.nv)
        vd = np.asarray(tb.loop_dynamics(model, q, v, tau, world=world).acceleration)
        states.append((q, v, vd))
    motion = tuple(map(np.array, zip(*states, strict=True)))
    share = compared(plan, motion)
    for case in np.flatnonzero(share.is_feasible):
        q, v, vd = (part[case] for part in motion)
        found = tb.loop_dynamics(model, q, v, share.tau[case], world=world).acceleration
        np.testing.assert_allclose(found, vd, atol=1e-8 * (1.0 + np.abs(vd).max()))
    return share.is_feasible


@pytest.mark.parametrize(("check", "seeds"), [(check_walker, (3,)), (check_hand, (1,))])
def test_random_robots_share_their_load_optimally(check, seeds):
    """Also one case at a time, to the bit."""
    feasible = np.concatenate([check(seed) for seed in seeds])
    assert feasible.any()


@pytest.mark.slow
@pytest.mark.parametrize("check", [check_walker, check_hand])
def test_many_random_robots_share_their_load_optimally(check):
    """Forty robots each, feasible and not."""
    feasible = np.concatenate([check(seed) for seed in range(100, 140)])
    assert 0.2 < feasible.mean() < 0.95
