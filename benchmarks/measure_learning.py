"""Environments for learning: Python's share of a batched step, and robots in contact.

The share is that of `VectorEnv.step` which is not machine code, on 4096 arms with ten steps per
control interval, observation, reward and end. Quadrupeds that trot under position control are
compared with MuJoCo's rollout at its fastest, at equal steps; `measure_contact` checks that both
carry the weight.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks.figure import Figure, Measurement
from benchmarks.timing import measure

SIZE, PEER_SIZE = 4096, 128
"""Robots of our batch and of MuJoCo's, whose time per step does not depend on their number."""

SHARE = 0.9
"""Least part of a step that is machine code."""

BATCH, BATCH_AIM = 6.0, 10.0


def run(duration: float) -> Iterator[Figure]:
    """Measure arms, then quadrupeds.

    Args:
        duration: Time to spend on each side [s].
    """
    yield _arms(duration)
    yield _quadrupeds(duration)


def _arms(duration: float) -> Figure:
    import dataclasses

    import numpy as np

    import tiburon as tb
    from tiburon.interfaces import gym

    # one thread, and no draws of parameters: these belong to starts
    known = gym.task("panda_reach")
    task = dataclasses.replace(
        known, options={"execution": tb.Execution(threads=1)}, randomize={}, max_steps=None
    )
    env = gym.VectorEnv(task, SIZE, copy=False)
    env.reset(seed=0)
    action = np.random.default_rng(0).uniform(-1.0, 1.0, env.action_space.shape)
    for _ in range(3):
        env.step(action)
    native = _native_calls(env)
    times = measure({"ours": lambda: env.step(action), "native": native}, duration=duration)
    return Figure(
        f"{SIZE} arms that reach, ten steps each, whole step of the environment",
        times["ours"].per(SIZE),
        "its native calls alone",
        times["native"].per(SIZE),
        SHARE,
    )


def _native_calls(env: Any) -> Any:
    """Return the native calls of a step by themselves, with the addresses of the last one."""
    stepper = env.task.stepper
    interval = stepper._interval(SIZE)
    loop, steps = interval.step.loop, interval.substeps
    watcher = stepper._watcher
    _, distances, job = watcher._tables[SIZE]
    seen = watcher._kernel.row_loop()

    def call() -> None:
        loop.run_many(interval._job, 0, steps, interval.distances, SIZE, 1)
        seen.run_many(job, 0, 1, distances, SIZE, 1)

    return call


def _quadrupeds(duration: float) -> Figure:
    import dataclasses

    import numpy as np

    import tiburon as tb
    from benchmarks.measure_contact import STEP, _sides
    from tiburon.interfaces import gym

    substeps = 20
    known = gym.task("quadruped_trot")
    options = {**known.options, "execution": tb.Execution(threads=1)}
    task = dataclasses.replace(
        known,
        model=known.model.without_passive().without_limits(),
        method=tb.SemiImplicitEuler(dt=STEP),
        substeps=substeps,
        options=options,
        randomize={},
        max_steps=None,
    )
    env = gym.VectorEnv(task, SIZE, copy=False)
    env.reset(seed=0)
    action = 0.1 * np.random.default_rng(0).uniform(-1.0, 1.0, env.action_space.shape)
    # robots that touch the ground in different ways
    for _ in range(10):
        env.step(action)
    _, peers, _ = _sides("trotting", (SIZE,), substeps)
    times = measure({"ours": lambda: env.step(action), **peers}, duration=duration)
    fastest = min(peers, key=lambda name: times[name].minimum)
    return Figure(
        f"{SIZE} quadrupeds that trot, one thread, step of {1e3 * STEP:g} ms",
        times["ours"].per(SIZE * substeps),
        f"mujoco.rollout, {fastest}",
        times[fastest].per(PEER_SIZE * substeps),
        BATCH,
        BATCH_AIM,
        note="observation, reward and starts of ended episodes are in our time",
    )


MEASUREMENT = Measurement(
    "learning",
    f"Environments for learning, {SIZE} robots",
    run,
    place=25,
)
