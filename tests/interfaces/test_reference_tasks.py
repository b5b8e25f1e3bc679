"""Reference tasks: motion, observation, reward and end against `simulate` and formulas."""

import dataclasses

import numpy as np
import pytest

import tiburon as tb

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install 'tiburon[gym]'")

from tiburon.interfaces import gym


def begun(name, seed=3, **changes):
    task = dataclasses.replace(gym.task(name), randomize={}, **changes)
    env = gym.Env(task)
    observation, _ = env.reset(seed=seed)
    return env, task, observation


def state_of(env):
    state = env._episodes.now.state
    return state.q[0].copy(), state.v[0].copy()


def check_motion(env, task, action, steps, **options):
    """Step with one action; compare with a run under the same command; return what came last."""
    q, v = state_of(env)
    for _ in range(steps):
        last = env.step(action)
    run = tb.simulate(
        task.model,
        steps * task.substeps * task.method.dt,
        method=task.method,
        q=q,
        v=v,
        execution=tb.Execution(progress=False),
        **task.options,
        **options,
    )
    found_q, found_v = state_of(env)
    np.testing.assert_allclose(found_q, run.q[-1], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found_v, run.v[-1], rtol=1e-11, atol=1e-12)
    assert np.abs(found_v - v).max() > 1e-3
    return found_q, found_v, last


def test_a_cart_is_pushed_by_ten_newtons_and_ends_at_twelve_degrees():
    env, task, first = begun("cart_pole")
    q, v = state_of(env)
    np.testing.assert_allclose(first, [q[0], v[0], np.sin(q[1]), np.cos(q[1]), v[1]])
    assert np.abs([*q, *v]).max() <= 0.05
    q, v, (seen, reward, ended, cut, _) = check_motion(
        env, task, np.array([0.3]), 5, command={"motor": 3.0}
    )
    np.testing.assert_allclose(seen, [q[0], v[0], np.sin(q[1]), np.cos(q[1]), v[1]])
    assert reward == pytest.approx(np.cos(q[1]) - 0.05 * q[0] ** 2 - 0.01 * 0.09, rel=1e-12)
    assert not ended
    assert not cut
    while not ended:
        before = np.rad2deg(abs(state_of(env)[0][1]))
        *_, ended, cut, _ = env.step(np.array([1.0]))
        assert not cut
    assert before <= 12.0 < np.rad2deg(abs(state_of(env)[0][1]))


def test_a_hand_is_judged_by_its_distance():
    env, task, _ = begun("panda_reach")
    target = env._episodes._inputs["target"][0]
    scale = np.array([22.0, 22.0, 22.0, 22.0, 3.0, 3.0, 3.0, 10.0])
    action = np.linspace(-0.5, 0.5, 8)

    @tb.traced
    def drive(state):
        weight = tb.inverse_dynamics(state.model, state.q, 0.0 * state.v, 0.0 * state.v)
        return weight + scale * action - 0.5 * state.v

    q, v, (seen, reward, ended, cut, _) = check_motion(env, task, action, 3, control=drive)
    off = target - tb.forward_kinematics(task.model, q, ["hand"])[1][0]
    assert np.linalg.norm(off) > 0.01
    np.testing.assert_allclose(seen, np.concatenate([q, v, off]), rtol=1e-12, atol=1e-13)
    expected = -np.sqrt(off @ off + 1e-8) - 1e-3 * action @ action
    assert reward == pytest.approx(expected, rel=1e-12)
    assert not ended
    assert not cut


def test_a_vehicle_is_held_within_three_meters():
    env, task, _ = begun("rov_station")
    action = np.array([0.2, 0.1, -0.1, 0.3, 0.1, 0.2, -0.2, 0.0])
    names = [thruster.name for thruster in task.model.thrusters]
    command = dict(zip(names, 30.0 * action, strict=True))
    q, v, (seen, reward, ended, _, _) = check_motion(env, task, action, 4, command=command)
    np.testing.assert_array_equal(seen, [*q, *v])
    expected = np.exp(-q[4:] @ q[4:]) - 0.5 * (1.0 - q[0] ** 2) - 0.05 * v[:3] @ v[:3]
    assert reward == pytest.approx(expected - 0.01 * action @ action, rel=1e-12)
    assert not ended
    for distance, expected in ((2.9, False), (3.1, True)):
        away = np.array([1.0, 0.0, 0.0, 0.0, 0.0, distance, 0.0])
        env, *_ = begun("rov_station", start=lambda _, q=away: {"q": q, "v": np.zeros(6)})
        assert env.step(np.zeros(8))[2] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quadruped_trot", "sea_floor_walk"])
def test_a_walker_is_judged_by_its_speed_and_ends_when_it_falls(name):
    env, task, first = begun(name)
    model = task.model
    target = float(env._episodes._inputs["target"][0])
    assert first[-1] == target
    action = np.full(len(model.actuators), 0.1)
    seen, reward, ended, _, _ = env.step(action)
    q, v = state_of(env)
    R, _ = (x[0] for x in tb.forward_kinematics(model, q, [model.bodies[0].name]))
    forward, sideward, _ = R @ v[3:6]
    level = q[6] - model.poses["stand"][6]
    off = (forward - target) ** 2 + sideward**2
    expected = np.exp(-off / 0.1) + 0.2 * R[2, 2] - level**2 - 0.01 * action @ action
    assert reward == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(seen[:3], R[2], atol=1e-12)
    np.testing.assert_allclose(seen[3:9], v[:6])
    assert not ended
    if name == "sea_floor_walk":
        # springs of its feet refuse other attitudes with this step
        return
    fallen = np.array(model.poses["stand"])
    # turned by 80 degrees about the forward axis, clear of the ground
    fallen[:4] = np.cos(np.deg2rad(40.0)), np.sin(np.deg2rad(40.0)), 0.0, 0.0
    fallen[6] += 1.0
    start = {"q": fallen, "v": np.zeros(model.nv), "target": 0.0}
    env, *_ = begun(name, start=lambda _: start)
    assert env.step(0.0 * action)[2]
