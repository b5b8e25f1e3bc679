"""Steps of the contact points that come near are those of all points."""

import functools

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.contact import active
from tiburon.contact.active import ActivePoints, chooses
from tiburon.contact.candidates import candidates_of, numbers_of, surfaces_of
from tiburon.contact.rigid import ActingForces, BoundRow, PointState, compliance_of, rigid_step
from tiburon.errors import DomainError
from tiburon.loops.metric import MIN_CUT

FLOOR = tb.World(ground=tb.Ground())
SHAPES = (
    tb.SphereShape(0.1),
    tb.BoxShape((0.2, 0.15, 0.1)),
    tb.CapsuleShape(0.06, 0.2),
    tb.CylinderShape(0.08, 0.2),
    tb.EllipsoidShape((0.1, 0.12, 0.08)),
)


def heap(seed: int, *, coupled: bool = False) -> tb.Model:
    """Return arms of two or three links each, of all kinds of shapes."""
    rng, bodies = np.random.default_rng(seed), []
    for k in range(7):
        inertia = tb.Inertia.box(0.5 + rng.random(), (0.2, 0.15, 0.12))
        shapes = (tb.Shape(SHAPES[(k + seed) % 5]),)
        if k in (0, 3, 5):
            joint, parent = tb.Free(f"f{k}"), "world"
        else:
            pose = tb.Pose(translation=(0.25, 0.0, 0.0))
            joint, parent = tb.Revolute(f"r{k}", axis=(0, 1, 0), pose=pose), f"b{k - 1}"
            if coupled and k == 2:
                joint = tb.Coupled("c2", tb.Revolute("r2", (0, 1, 0)), "r1", -0.7, pose=pose)
        body = tb.Body(f"b{k}", parent, joint=joint, inertia=inertia, shapes=shapes)
        bodies.append(body)
    return tb.Model(f"heap{seed}{coupled}", bodies)


@functools.cache
def fallen(seed: int, *, coupled: bool = False) -> tuple[tb.Model, np.ndarray, np.ndarray]:
    """Return arms that have fallen onto the ground and each other, at four times of their run."""
    model = heap(seed, coupled=coupled)
    q = model.neutral()
    for place, name in enumerate(model.q_names):
        if name.endswith(".z"):
            q[place] = {"f0": 0.2, "f3": 0.5, "f5": 0.8}[name.split(".")[0]]
    v = np.random.default_rng(seed).normal(size=model.nv)
    run = tb.simulate(
        model, 0.8, q=q, v=v, world=FLOOR, method=tb.RK4(dt=2e-3), record=tb.Record(every=100)
    )
    return model, run.q[1:], run.v[1:]


def stepped(model, q, v, *, chosen, held=(), bounds=None, acting=None, h=2e-3, world=FLOOR):
    """Return velocity, states of all points and impulses of joint rows of a step, on floats."""
    candidates = candidates_of(model, world)
    element, own = RigidContactElement("contact", candidates), numbers_of(candidates)
    rng = np.random.default_rng(8)
    v_free = list(np.array(v) + rng.normal(size=len(v)) * h)
    ahead = list(model.integrate(np.array(q), np.array(v) * h))
    free = list(model.integrate(np.array(q), np.array(v_free) * h)) if chosen else None
    plan = model.plan
    gaps, points = element.approach((plan, plan), q, ahead, (v, v), h, own, free)
    # points that are apart have no forces
    pushes = [k % 3 if gap < 1e-4 else 0.0 for k, gap in enumerate(gaps)]
    states = [PointState((0.1 * f, 0.0, -f), k % 2 * 1.0) for k, f in enumerate(pushes)]
    for k in element.turning_points:
        states[k] = states[k]._replace(moment=(0.001 * pushes[k], 0.0, 0.002 * pushes[k]))
    surfaces = []
    if not chosen:
        surfaces = surfaces_of(candidates, own, [point.geometry for point in points])
    compliance = compliance_of(plan, ahead, points, (), MIN_CUT, held, bounds)
    found = rigid_step(
        gaps,
        points,
        compliance,
        surfaces,
        states,
        *(v, v_free, v),
        h,
        1e-10,
        bounds=bounds or (),
        acting=acting,
    )
    assert isinstance(points, ActivePoints) == chosen
    return found, points


@pytest.mark.parametrize("place", [2, 3])
@pytest.mark.parametrize("acts", [0.0, 1.0])
@pytest.mark.parametrize(("seed", "coupled"), [(0, False), (1, True), (2, False), (3, True)])
def test_points_that_come_near_make_the_step_of_all(seed, coupled, acts, place):
    model, positions, velocities = fallen(seed, coupled=coupled)
    assert chooses(model.plan, candidates_of(model, FLOOR))
    q, v = list(positions[place]), list(velocities[place])
    bounds = [
        BoundRow({7: 1.0}, 0.0, friction=0.01),
        BoundRow({6: 1.0}, 0.0, gap=0.0, speed=v[6]),
    ]
    joint_impulses = acts * 1e-3 * np.random.default_rng(5).normal(size=(2, model.nv))
    acting = ActingForces(acts, *map(tuple, joint_impulses))
    options = {"held": (0,), "bounds": bounds, "acting": acting}
    whole, _ = stepped(model, q, v, chosen=False, **options)
    some, points = stepped(model, q, v, chosen=True, **options)
    assert 0 < points.count < len(points.gaps)
    forces = [np.array([one.mean for one in found.states]) for found in (whole, some)]
    assert forces[0].any()
    assert_close(some.v, whole.v, 1e-7)
    assert_close(some.shifted, whole.shifted, 1e-7)
    assert_close(some.joint_impulses, whole.joint_impulses, 1e-7)
    assert_close(some.mean_impulses, whole.mean_impulses, 1e-7)
    assert_close(some.bounds, whole.bounds, 1e-7)
    assert [x.sticking for x in some.states] == [x.sticking for x in whole.states]
    # forces of many points of one body are not unique: their sum is
    assert_close(forces[1].sum(axis=0), forces[0].sum(axis=0), 1e-6)
    assert some.residual <= 1e-10


TURNING = {"torsional_friction": 0.02}
ROLLING = {"rolling_friction": 0.01}


@pytest.mark.parametrize("friction", [TURNING, ROLLING, {**TURNING, **ROLLING}])
@pytest.mark.parametrize("acts", [0.0, 1.0])
def test_friction_against_turning_in_slots_is_that_of_all_points(friction, acts):
    world = tb.World(ground=tb.Ground(static_friction=0.4, **friction))
    for seed, place in ((0, 1), (1, 2), (2, 1)):
        model, positions, velocities = fallen(seed, coupled=seed == 1)
        q, v = list(positions[place]), list(velocities[place])
        bounds = [BoundRow({7: 1.0}, 0.0, friction=0.01)]
        joint_impulses = acts * 1e-3 * np.random.default_rng(5).normal(size=(2, model.nv))
        acting = ActingForces(acts, *map(tuple, joint_impulses))
        options = {"bounds": bounds, "acting": acting, "world": world}
        whole, _ = stepped(model, q, v, chosen=False, **options)
        some, points = stepped(model, q, v, chosen=True, **options)
        assert 0 < points.count < len(points.gaps)
        assert some.residual <= 1e-10
        moments = [np.array([one.mean_moment for one in found.states]) for found in (whole, some)]
        assert moments[0].any()
        assert_close(some.v, whole.v, 1e-7)
        # moments of impulses of a landing are solved to a hundred times the tolerance
        assert_close(some.shifted, whole.shifted, 1e-6)
        assert_close(some.joint_impulses, whole.joint_impulses, 1e-7)
        assert_close(some.mean_impulses, whole.mean_impulses, 1e-7)
        forces = [np.array([one.mean for one in found.states]) for found in (whole, some)]
        assert_close(forces[1].sum(axis=0), forces[0].sum(axis=0), 1e-6)
        assert_close(moments[1].sum(axis=0), moments[0].sum(axis=0), 1e-6)


def test_points_of_few_bodies_and_of_loose_ones_are_not_chosen():
    quadruped = tb.load("quadruped")
    assert not chooses(quadruped.plan, candidates_of(quadruped, FLOOR))
    pads = tb.load("aquarobot")
    assert not chooses(pads.plan, candidates_of(pads, FLOOR))
    box = tb.Shape(tb.BoxShape((0.1, 0.1, 0.1)))
    lander = tb.Body("b", joint=tb.Free("f"), inertia=tb.Inertia.box(1.0, (1, 1, 1)), shapes=(box,))
    single = tb.Model("box", [lander])
    assert not chooses(single.plan, candidates_of(single, FLOOR))
    bodies = [
        tb.Body(
            f"b{k}", joint=tb.Free(f"f{k}"), inertia=tb.Inertia.box(1.0, (1, 1, 1)), shapes=(box,)
        )
        for k in range(10)
    ]
    boxes = tb.Model("boxes", bodies)
    pairs = [(f"b{k}", f"b{k + 1}") for k in range(9)]
    assert not chooses(boxes.plan, candidates_of(boxes, FLOOR, pairs))
    # of few bodies without legs some points touch, unless the step is differentiated
    arm = tb.Model(
        "arm",
        [
            tb.Body(
                f"link{k}",
                f"link{k - 1}" if k else "world",
                joint=tb.Revolute(f"r{k}", axis=(0, 1, 0)),
                inertia=tb.Inertia.box(1.0, (1, 1, 1)),
                shapes=(box,),
            )
            for k in range(3)
        ],
    )
    assert chooses(arm.plan, candidates_of(arm, FLOOR))
    assert not chooses(arm.plan, candidates_of(arm, FLOOR), few=False)
    # all pairs of them are too many for code of each
    assert chooses(boxes.plan, candidates_of(boxes, FLOOR))


def test_robots_too_large_for_friction_against_turning_say_so():
    """Ten loose boxes, of all pairs; of few pairs all points are part of every step."""
    inertia = tb.Inertia.box(1.0, (0.1, 0.1, 0.1))
    shape = tb.Shape(tb.BoxShape((0.1, 0.1, 0.1)))
    names = [f"b{k}" for k in range(10)]
    bodies = [tb.Body(x, joint=tb.Free(x), inertia=inertia, shapes=(shape,)) for x in names]
    boxes = tb.Model("boxes", bodies)
    world = tb.World(ground=tb.Ground(**TURNING, **ROLLING))
    with pytest.warns(tb.ModelWarning, match="rolling friction were left out.*'b0/ground' first"):
        element = tb.RigidContact().element(boxes, world)
    assert not element.turning_points
    # surfaces by name do not bring it back
    surface = world.ground.material
    assert not any(any(one.over(surface).turning) for one in element.candidates)
    element = tb.RigidContact(pairs=[("b0", "world")]).element(boxes, world)
    assert len(element.turning_points) == 8


def test_a_step_with_more_points_than_slots_is_refused(monkeypatch):
    model, q, v = fallen(1, coupled=True)
    monkeypatch.setattr(active, "MOST_ACTIVE", 1)
    with pytest.raises(DomainError, match="at most 1 contact points that touch"):
        stepped(model, list(q[2]), list(v[2]), chosen=True)


def test_batches_have_the_bits_of_single_runs_and_of_any_order_of_cases():
    runs = [fallen(3, coupled=True), fallen(3, coupled=True)]
    model = runs[0][0]
    q, v = (np.concatenate([one[k] for one in runs] * 2) for k in (1, 2))
    q[:, [place for place, name in enumerate(model.q_names) if name.endswith(".z")]] += 1e-4
    v[:, :6] += np.random.default_rng(2).normal(size=(len(v), 6)) * 0.1
    options = {"world": FLOOR, "method": tb.RK4(dt=2e-3), "record": tb.Record(every=10)}
    run = tb.simulate(model, 0.2, q=q, v=v, **options)
    assert (run.z[..., : 4 * 50] != 0.0).any()
    for case in (0, 5, 11):
        alone = tb.simulate(model, 0.2, q=q[case], v=v[case], **options)
        np.testing.assert_array_equal(alone.q, run.q[:, case])
        np.testing.assert_array_equal(alone.z, run.z[:, case])
