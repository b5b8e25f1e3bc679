"""Controllers of robots with loops: computed torque, weight, and what they do in closed form."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.loops.random_mechanisms import random_mechanism
from tiburon.loops.constraints import constraint_count, constraints


def start_of(model):
    """Return where a run of a robot with loops starts."""
    return np.array(model.poses["home"]) if "home" in model.poses else model.neutral()


def test_the_crank_of_a_four_bar_follows_its_error_equation():
    """Critically damped from rest: e = e0 (1 + w t) exp(-w t), whatever the loop does."""
    model, w, away = tb.load("four_bar"), 10.0, 0.05
    q = start_of(model)
    control = tb.ComputedTorque.critical({"input": q[0] + away}, w)
    run = tb.simulate(model, 1.0, control=control)
    assert run.status == "finished"
    error = q[0] + away - run.q[:, 0]
    # the fourth order of rk4 at 1 ms, with loops settled after every step
    np.testing.assert_allclose(
        error, away * (1 + w * run.time) * np.exp(-w * run.time), rtol=0, atol=1e-8
    )


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    [
        "four_bar",
        pytest.param("planar_3rrr", marks=SLOW),
        pytest.param("stewart", marks=SLOW),
        pytest.param("delta", marks=SLOW),
    ],
)
def test_targets_of_all_joints_of_a_closed_robot_are_reached(name):
    """A position that the loops allow, 0.05 away; forces act at joints with motors alone."""
    model = tb.load(name)
    q = start_of(model)
    rng = np.random.default_rng(5)
    v = tb.project_velocity(model, q, rng.standard_normal(model.nv))
    aim = tb.project_configuration(model, model.integrate(q, 0.05 * v / np.abs(v).max())).q
    joints = [joint.name for joint in model.joints if joint.nv and joint.kind != "free"]
    places = model.indices(joints, of="q")
    run = tb.simulate(model, 2.0, control=tb.ComputedTorque.critical(tuple(aim[places]), 8.0))
    assert run.status == "finished", run.outcome.message
    # (1 + w t) exp(-w t) is 2e-6 after 2 s; curved loops make errors differ by some of themselves
    left = np.abs(model.difference(run.q[-1], aim)).max()
    assert left < 1e-5 * np.abs(model.difference(q, aim)).max() + 1e-9
    passive = [
        k
        for j in model.joint_names
        if j not in model.actuated_joint_names
        for k in range(*model.slice(j, of="v").indices(model.nv))
    ]
    assert not np.any(run.u[:, passive])


@SLOW
@pytest.mark.parametrize("kind", ["planar", "spatial", "redundant", "tied", "floating"])
def test_random_closed_mechanisms_reach_their_targets(kind):
    """Any joint kinds, several loops, a start that moves; a floating base goes its own way."""
    rng = np.random.default_rng(11)
    model, q = random_mechanism(kind, rng)
    v = tb.project_velocity(model, q, rng.standard_normal(model.nv))
    aim = tb.project_configuration(model, model.integrate(q, 0.03 * v / np.abs(v).max())).q
    joints = tuple(j.name for j in model.joints if j.nv and j.kind != "free")
    places = model.indices(joints, of="q")
    control = tb.ComputedTorque.critical(tuple(aim[places]), 12.0)
    world = tb.World(gravity=(0.0, 0.0, 0.0)) if kind == "floating" else tb.World()
    run = tb.simulate(model, 1.5, q=q, v=0.1 * v, control=control, world=world)
    assert run.status == "finished", run.outcome.message
    first = np.abs(model.difference(q, aim)[model.indices(joints, of="v")]).max()
    left = np.abs(model.difference(run.q[-1], aim)[model.indices(joints, of="v")]).max()
    if kind == "floating":
        # joints are controlled as if the base did not accelerate: they settle, not by one equation
        assert left < 0.5 * first
    else:
        # 3e-7 of the error is left of a linear equation
        assert left < 1e-4 * first


@SLOW
def test_the_acceleration_is_the_nearest_that_loops_allow():
    """Of the constrained least squares by a dense solution; forward dynamics gives it back."""
    model = tb.load("planar_3rrr")
    q = start_of(model)
    rng = np.random.default_rng(3)
    v = tb.project_velocity(model, q, rng.standard_normal(model.nv))
    target = q + 0.1 * rng.standard_normal(model.nq)
    control = tb.ComputedTorque(tuple(target), 30.0, 7.0)
    run = tb.simulate(model, 1e-3, q=q, v=v, control=control, record=tb.Record(dt=1e-3))
    found = tb.forward_dynamics(model, q, v, run.u[0, : model.nv])
    J = np.zeros((constraint_count(model), model.nv))
    for row, entries in zip(J, constraints(model, model.plan, q, v).jacobian, strict=True):
        row[list(entries)] = list(entries.values())
    # the part that loops dictate: accelerations of a robot without any force, normal to motions
    free = tb.forward_dynamics(model, q, v, np.zeros(model.nv))
    _, values, rows = np.linalg.svd(J)
    rank = int((values > 1e-10).sum())
    normal, tangent = rows[:rank], rows[rank:]
    desired = 30.0 * (target - q) - 7.0 * v
    expected = normal.T @ (normal @ free) + tangent.T @ (tangent @ desired)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_a_passive_joint_is_moved_by_the_motors():
    """The rocker of a four-bar follows its own equation, driven by the crank."""
    model, w, away = tb.load("four_bar"), 10.0, 0.02
    q = start_of(model)
    control = tb.ComputedTorque.critical({"output": q[2] + away}, w)
    run = tb.simulate(model, 1.0, control=control)
    error = q[2] + away - run.q[:, 2]
    np.testing.assert_allclose(
        error, away * (1 + w * run.time) * np.exp(-w * run.time), rtol=0, atol=1e-8
    )
    assert not np.any(run.u[:, 1:])


@pytest.mark.parametrize(
    "name", ["four_bar", *(pytest.param(name, marks=SLOW) for name in ("planar_3rrr", "stewart"))]
)
def test_gravity_is_compensated_by_the_motors(name):
    """Nothing moves, for half a second."""
    model = tb.load(name)
    q = start_of(model)
    run = tb.simulate(model, 0.5, control=tb.GravityCompensation())
    assert run.status == "finished"
    # rounding of a balance that may be unstable
    np.testing.assert_allclose(run.q, np.broadcast_to(q, run.q.shape), rtol=0, atol=1e-8)


@SLOW
def test_gravity_compensation_of_loops_leaves_the_floating_base_free():
    """The joints carry nothing through their loops: all falls as one body, without bending."""
    model, q = random_mechanism("floating", np.random.default_rng(4))
    run = tb.simulate(model, 0.3, q=q, control=tb.GravityCompensation())
    assert run.status == "finished", run.outcome.message


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
@SLOW
@pytest.mark.parametrize("name", ["four_bar", "planar_3rrr"])
def test_pd_of_all_joints_settles_a_closed_robot(name, method):
    """Springs and dampers at every joint, passive ones too: energy goes, the target is reached."""
    model = tb.load(name)
    q = start_of(model)
    v = tb.project_velocity(model, q, np.random.default_rng(2).standard_normal(model.nv))
    aim = tb.project_configuration(model, model.integrate(q, 0.05 * v / np.abs(v).max())).q
    control = tb.CombinedControl((tb.GravityCompensation(), tb.PD(tuple(aim), 40.0, 9.0)))
    run = tb.simulate(model, 4.0, control=control, method=integrator(method))
    assert run.status == "finished"
    np.testing.assert_allclose(run.q[-1], aim, rtol=0, atol=2e-3)


@pytest.mark.parametrize("kind", ["ComputedTorque", "GravityCompensation"])
def test_loops_that_a_switch_may_hold_open_are_refused(kind):
    """Forces would be those of closed loops; the tree with its loops open is served."""
    model = tb.load("four_bar")
    loop = model.loops[0].name
    q = start_of(model)

    def control(**more):
        if kind == "GravityCompensation":
            return tb.GravityCompensation(**more)
        return tb.ComputedTorque.critical({"input": q[0] + 0.05}, 10.0, **more)

    switch = tb.LoopSwitch("latch", loop, closed=False)
    with pytest.raises(tb.ModelError) as caught:
        tb.simulate(model, 0.01, elements=[switch], control=control())
    assert str(caught.value) == (
        f"{kind}: expected loops that stay closed, got a LoopSwitch of loop {loop!r}; pass "
        f"{kind}(..., model=...) with a model whose loops stay closed, such as "
        "model.without_loops()"
    )
    tree = model.without_loops()
    run = tb.simulate(model, 0.05, elements=[switch], control=control(model=tree))
    alone = tb.simulate(tree, 0.05, q=q, control=control())
    # one motion by two systems
    np.testing.assert_allclose(run.q, alone.q, rtol=0, atol=1e-12)
