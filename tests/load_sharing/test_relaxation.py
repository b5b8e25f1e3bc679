"""Lexicographic relaxation: levels give way in their order, and what is lacking is reported."""

import numpy as np
import pytest

import tiburon as tb

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


def dog_and_pose():
    dog = tb.load("quadruped")
    return dog, np.array(dog.poses["stand"])


def test_feasible_loads_need_no_relaxation():
    """The answer of `share` with the same pyramids, and nothing lacks."""
    dog, q = dog_and_pose()
    plan = tb.LoadSharing.of(dog, world=FLOOR, sides=16)
    found = tb.share_relaxed(plan, q, levels=[["motion"]])
    assert found.status == found.summary == "optimal"
    assert found.shortfall == ({},)
    np.testing.assert_allclose(found.tau, plan.share(q).tau, atol=1e-6)


def test_levels_give_way_in_their_order():
    """A push beyond friction: the first level lacks, the second holds while it can."""
    dog, q = dog_and_pose()
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, sides=16)
    vd = np.zeros(dog.nv)
    vd[3], vd[5] = 9.0, 0.5
    assert plan.share(q, vd=vd).status == "infeasible"
    turns, way = ["base.wx", "base.wy", "base.wz"], ["base.vx", "base.vy", "base.vz"]
    found = tb.share_relaxed(plan, q, vd=vd, levels=[["base.vx"]])
    assert found.status == "relaxed"
    assert set(found.shortfall[0]) == {"base.vx"}
    problem = plan.problem(q, vd=vd)
    lacking = problem.b1 - problem.A1 @ found.x
    np.testing.assert_allclose(np.delete(lacking, 3), 0.0, atol=1e-6)
    assert found.shortfall[0]["base.vx"] == pytest.approx(lacking[3], rel=1e-6)
    # along x all feet are at their friction limit, mu N with sixteen sides inside the cone
    weight = dog.total_mass * (9.81 + 0.5)
    most = 0.6 * np.cos(np.pi / 16) * weight
    assert dog.total_mass * 9.0 - lacking[3] == pytest.approx(most, rel=0.02)
    # the way may be given up before the attitude, or the other way round
    one = tb.share_relaxed(plan, q, vd=vd, levels=[way, turns])
    other = tb.share_relaxed(plan, q, vd=vd, levels=[turns, way])
    assert one.shortfall[0]
    assert not one.shortfall[1]
    rest = [np.sum(np.square(list(level.values()))) for level in other.shortfall]
    ours = [np.sum(np.square(list(level.values()))) for level in one.shortfall]
    # the more important level of each is at least as good as in the other order
    assert rest[1] <= ours[0] * (1 + 1e-6)
    assert ours[1] <= rest[0] * (1 + 1e-6)
    assert "level 1: base.v" in one.summary


def test_limits_may_be_exceeded_by_the_least():
    """Knees too weak to stand: torque limits give way, motion and friction hold."""
    dog, q = dog_and_pose()
    knees = [name for name in dog.joint_names if name.endswith("knee")]
    free = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, sides=16)
    # joints carry the weight one way or another: no sharing keeps all knees within 1 N m
    plan = tb.LoadSharing.of(
        dog, world=FLOOR, torque_limits=dict.fromkeys(knees, (-1.0, 1.0)), sides=16
    )
    assert plan.share(q).status == "infeasible"
    found = tb.share_relaxed(plan, q, levels=[knees])
    assert found.status == "relaxed"
    places = [dog.slice(name, of="v").start for name in knees]
    over = np.maximum(np.abs(found.tau[places]) - 1.0, 0.0)
    reported = sorted(abs(x) for x in found.shortfall[0].values())
    np.testing.assert_allclose(reported, np.sort(over[over > 1e-6]), rtol=1e-5)
    # no other sharing exceeds less: that without limits does more
    plain = np.maximum(np.abs(free.share(q).tau[places]) - 1.0, 0.0)
    assert np.sum(over**2) < np.sum(plain**2)
    problem = free.problem(q)
    np.testing.assert_allclose(problem.A1 @ found.x, problem.b1, atol=1e-6)
    assert (problem.A2 @ found.x >= problem.b2 - 1e-6).all()


def test_what_is_in_no_level_holds_or_there_is_no_answer():
    """Without feet nothing holds a dog but giving up its motion."""
    dog, q = dog_and_pose()
    plan = tb.LoadSharing.of(dog, world=FLOOR)
    none = tb.share_relaxed(plan, q, levels=[["base.wx"]], touching=[0, 0, 0, 0])
    assert none.status == none.summary == "infeasible"
    assert np.isnan(none.tau).all()
    falls = tb.share_relaxed(plan, q, levels=[["motion"]], touching=[0, 0, 0, 0])
    assert falls.shortfall[0]["base.vz"] == pytest.approx(dog.total_mass * 9.81, rel=1e-6)
    with pytest.raises(tb.UnknownNameError, match="tail"):
        tb.share_relaxed(plan, q, levels=[["tail"]])
    with pytest.raises(tb.ModelError, match="levels: expected lists of names"):
        tb.share_relaxed(plan, q, levels=["motion"])
