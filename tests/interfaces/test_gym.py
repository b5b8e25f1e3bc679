"""Environments of Gymnasium: its own checker, vectors against single ones, draws, refusals."""

import dataclasses

import numpy as np
import pytest

import tiburon as tb

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install 'tiburon[gym]'")

import gymnasium
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tiburon.interfaces import gym

QUICK = ("cart_pole", "panda_reach", "rov_station")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("quadruped_trot", "sea_floor_walk")]
ROBOTS, STEPS = 4, 25


def short(name):
    """Return a task whose episodes end within a few steps."""
    return dataclasses.replace(gym.task(name), max_steps=7, variants=4)


@pytest.mark.filterwarnings("ignore:.*Box observation space")
@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_the_checker_of_gymnasium_accepts_the_tasks(name):
    check_env(gym.Env(short(name)), skip_render_check=True)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_vectors_are_those_of_single_environments_in_bits(name, mode):
    task = short(name)
    single = SyncVectorEnv([lambda: gym.Env(task) for _ in range(ROBOTS)], autoreset_mode=mode)
    ours = gym.VectorEnv(task, ROBOTS, autoreset_mode=mode)
    assert single.single_observation_space == ours.single_observation_space
    assert single.action_space == ours.action_space
    first, seen = single.reset(seed=11)[0], ours.reset(seed=11)[0]
    assert first.tobytes() == seen.tobytes()
    assert not np.array_equal(first[0], first[1])
    generator = np.random.default_rng(2)
    ended = 0
    for _ in range(STEPS):
        action = generator.uniform(-1.5, 1.5, ours.action_space.shape)
        one, many = single.step(np.clip(action, -1.0, 1.0)), ours.step(action)
        for a, b in zip(one[:4], many[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        over = one[2] | one[3]
        ended += over.sum()
        if mode == AutoresetMode.SAME_STEP:
            for k in np.flatnonzero(over):
                np.testing.assert_array_equal(one[4]["final_obs"][k], many[4]["final_obs"][k])
        if mode == AutoresetMode.DISABLED and over.any():
            options = [{"reset_mask": over.copy()} for _ in range(2)]
            a, b = single.reset(options=options[0])[0], ours.reset(options=options[1])[0]
            np.testing.assert_array_equal(a, b)
    assert ended >= 3 * ROBOTS - 2


def test_seeds_of_robots_and_draws_of_parameters():
    task = short("cart_pole")
    env = gym.VectorEnv(task, 64)
    first = env.reset(seed=5)[0]
    np.testing.assert_array_equal(env.reset(seed=5)[0], first)
    np.testing.assert_array_equal(gym.Env(task).reset(seed=9)[0], first[4])
    again = env.reset()[0]
    assert not np.array_equal(again, first)
    rows = env._episodes.now.state.parameters["inertia"]
    assert len(np.unique(rows, axis=0)) == task.variants
    assert task._drawn["pole.mass"].min() >= 0.08
    assert task._drawn["pole.mass"].max() <= 0.12


def test_a_registered_environment_is_made_by_its_name():
    env = gymnasium.make("tiburon/CartPole-v0")
    assert env.reset(seed=1)[0].shape == (5,)
    many = gymnasium.make_vec("tiburon/CartPole-v0", num_envs=3)
    assert many.reset(seed=1)[0].shape == (3, 5)
    assert isinstance(many.unwrapped, gym.VectorEnv)


def test_a_robot_that_diverges_ends_its_episode_and_says_so():
    task = dataclasses.replace(
        gym.task("cart_pole"),
        start=lambda generator: {"v": generator.choice([0.0, 1e200], 2)},
        terminated=None,
        randomize={},
    )
    env = gym.VectorEnv(task, 16, autoreset_mode="SameStep")
    env.reset(seed=0)
    seen, _, ended, _, info = env.step(np.zeros((16, 1)))
    assert ended.any()
    assert not ended.all()
    assert info["diverged"][ended].all()
    assert np.isfinite(seen).all()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_robots_that_start_again_have_no_command_of_a_sampled_controller(mode):
    @tb.traced
    class Counting:
        discrete_state_names = ("count",)

        def __call__(self, state):
            return state.sensors["action"] + state.own_z[0], [state.own_z[0] + 1.0]

    task = gym.Task(
        name="counting",
        model=tb.load("pendulum"),
        method=tb.RK4(dt=5e-3),
        substeps=2,
        start=lambda generator: {"q": generator.uniform(-1.0, 1.0, 1)},
        low=(-2.0,),
        high=(2.0,),
        control=Counting(),
        observe=lambda model, q, u, z: [q, u, z],
        max_steps=3,
    )
    single = SyncVectorEnv([lambda: gym.Env(task) for _ in range(3)], autoreset_mode=mode)
    ours = gym.VectorEnv(task, 3, autoreset_mode=mode)
    np.testing.assert_array_equal(single.reset(seed=5)[0], ours.reset(seed=5)[0])
    for number in range(8):
        action = np.full((3, 1), 0.5 + 0.1 * number)
        for a, b in zip(single.step(action)[:4], ours.step(action)[:4], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gym.Env("cart_poel"), "cart_pole"),
        (lambda: gym.Env("cart_pole", render_mode="ansi"), "render_mode"),
        (lambda: gym.Env("cart_pole").step([0.0]), "reset"),
        (lambda: _begun().step(np.zeros((2, 3))), "action"),
        (lambda: _begun().step(np.full((2, 1), np.nan)), "finite numbers"),
        (lambda: _begun().reset(options={"mask": 1}), "options"),
        (lambda: _begun().reset(seed=[1, 2, 3]), "seed"),
        (lambda: _begun().reset(options={"reset_mask": np.zeros(2, bool)}), "reset_mask"),
        (lambda: dataclasses.replace(gym.task("cart_pole"), low=(2.0,)), "low and high"),
        (lambda: dataclasses.replace(gym.task("cart_pole"), variants=0), "variants"),
        (lambda: _with(start=lambda g: {"speed": 1.0}), "speed"),
        (lambda: _with(shapes={"goal": 2}, reward=lambda model, goal: goal[0]), "goal"),
        (lambda: _with(control=None), "low and high"),
        (lambda: _with(options={"sensors": []}), "sensors"),
        (lambda: _uneven().reset(seed=0), "the same names for every episode"),
    ],
)
def test_wrong_use_is_refused_with_the_name_of_what_is_wrong(call, message):
    with pytest.raises(tb.TiburonError, match=message):
        call()


def _begun():
    env = gym.VectorEnv("cart_pole", 2)
    env.reset(seed=0)
    return env


def _uneven():
    """Return robots of which only some draw a velocity."""

    def start(generator):
        q = generator.uniform(-0.05, 0.05, 2)
        return {"q": q, "v": q} if q[0] > 0.0 else {"q": q}

    return gym.VectorEnv(dataclasses.replace(gym.task("cart_pole"), start=start), 8)


def _with(**changes):
    gym.Env(dataclasses.replace(gym.task("cart_pole"), **changes)).reset(seed=0)


def test_the_live_scene_shows_robots():
    pytest.importorskip("viser", reason="needs viser: pip install 'tiburon[view]'")
    env = gym.VectorEnv("cart_pole", 3, render_mode="human")
    env.reset(seed=0)
    env.step(np.ones((3, 1)))
    scene = env._screen._scene
    assert scene.robots[0].cases == 3
    q = env._episodes.now.state.q
    np.testing.assert_allclose(scene.robots[0].poses[0, 4], q[0, 0], atol=1e-6)
    env.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Box observation space")
def test_pictures_are_arrays_that_show_the_motion():
    pytest.importorskip("viser", reason="needs viser: pip install 'tiburon[view]'")
    try:
        env = gym.Env("cart_pole", render_mode="rgb_array")
    except tb.DomainError as missing:
        pytest.skip(f"no browser: {missing}")
    try:
        env.reset(seed=0)
        first = env.render()
        assert first.dtype == np.uint8
        assert first.shape == (360, 480, 3)
        np.testing.assert_array_less(np.abs(first.astype(int) - env.render()).mean(), 0.5)
        for _ in range(30):
            env.step(np.ones(1))
        # the cart is followed: the pole falls, shadows and ground move
        assert np.abs(first.astype(int) - env.render()).mean() > 1.0
    finally:
        env.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Box observation space")
@pytest.mark.parametrize("mode", ["human", "rgb_array"])
def test_the_checker_of_gymnasium_accepts_how_tasks_are_drawn(mode):
    """Its own render check, of every mode that the metadata lists; then a vector of them."""
    pytest.importorskip("viser", reason="needs viser: pip install 'tiburon[view]'")
    try:
        env = gymnasium.make("tiburon/CartPole-v0", render_mode=mode)
        check_env(env.unwrapped)
        env.close()
        several = gymnasium.make_vec("tiburon/CartPole-v0", num_envs=3, render_mode=mode)
    except tb.DomainError as missing:
        pytest.skip(f"no browser: {missing}")
    try:
        assert several.render_mode == mode
        several.reset(seed=0)
        several.step(several.action_space.sample())
        drawn = several.render()
        if mode == "human":
            assert drawn is None
            assert several.unwrapped.url.startswith("http")
        else:
            (picture,) = drawn
            assert picture.shape == (360, 480, 3)
            assert picture.dtype == np.uint8
            assert np.ptp(picture) > 100
    finally:
        several.close()


def test_modes_of_drawing_that_are_none_are_refused():
    with pytest.raises(tb.OptionError, match="render_mode: expected None or 'human'"):
        gym.VectorEnv("cart_pole", 2, render_mode="ansi")


def test_autoreset_modes_that_are_none_and_complex_actions_are_refused():
    with pytest.raises(tb.OptionError, match="autoreset_mode: expected 'NextStep'"):
        gym.VectorEnv("cart_pole", 2, autoreset_mode="next")
    with pytest.raises(tb.ShapeError, match=r"action: expected real numbers, shape \(2, 1\)"):
        _begun().step(np.zeros((2, 1), dtype=complex))


def test_pictures_without_a_browser_are_refused_at_once(monkeypatch):
    monkeypatch.setenv("TIBURON_BROWSER", "no-such-browser")
    with pytest.raises(tb.DomainError, match="no-such-browser; install one, or set"):
        gym.Env("cart_pole", render_mode="rgb_array")
