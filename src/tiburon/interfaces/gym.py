"""Environments of Gymnasium: one robot, and thousands in one native call.

`Env` and `VectorEnv` run a `Task`; five of them are here by name. They are also registered:
``gymnasium.make("tiburon/CartPole-v0")`` and ``gymnasium.make_vec(..., num_envs=4096)`` once this
module is imported.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.argument_checks import at_least
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError, OptionError
from tiburon.interfaces.extras import needed
from tiburon.interfaces.reference_tasks import TASKS, task
from tiburon.interfaces.task import Episodes, Task
from tiburon.model import World
from tiburon.viewer.pictures import ScenePictures, browser_path

needed("gymnasium", "gym", "tiburon.gym")

import gymnasium  # noqa: E402 - with a message of ours where it is missing
from gymnasium import vector  # noqa: E402
from gymnasium.utils import seeding  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

__all__ = ["TASKS", "Env", "Task", "VectorEnv", "register", "task"]

Array = NDArray[np.float64]
AutoresetMode = vector.AutoresetMode

MODES = ("human", "rgb_array")
"""Ways to render."""

PICTURE = (480, 360)
"""Width and height of pictures, in pixels."""

MOST_SHOWN = 16
"""Cases of a batch that are drawn."""


def _spaces(given: Task) -> tuple[Any, Any]:
    """Return the spaces of actions and observations of one robot."""
    box = gymnasium.spaces.Box
    low, high = given.bounds
    size = given.stepper.observation_size
    return box(low, high, dtype=np.float64), box(-np.inf, np.inf, (size,), dtype=np.float64)


def _found(given: Task | str) -> Task:
    return task(given) if isinstance(given, str) else given


class _Screen:
    """A live scene in the browser, opened by the first call of `render`."""

    def __init__(self, given: Task, cases: int, mode: str | None) -> None:
        if mode not in (None, *MODES):
            raise OptionError("render_mode", (None, *MODES), mode)
        if mode == "rgb_array":
            # refused before a run of hours, not at its first picture
            browser_path()
        self._task, self._cases, self._mode = given, cases, mode
        self._scene: Any = None
        self._pictures: Any = None
        self._last = -np.inf

    def show(self, episodes: Episodes) -> None:
        """Draw the present states."""
        from tiburon.viewer.live import LiveScene

        if episodes.now is None:
            raise ModelError("render: expected an environment that was reset, got none; call reset")
        if self._scene is None:
            options = self._task.options
            world = options.get("world") or World(fluid=options.get("fluid"))
            self._scene = LiveScene(self._task.model, world=world, cases=self._cases)
        state = episodes.now.state
        q = state.q[: self._cases]
        time = float(state.steps[0]) * self._task.method.dt
        if time < self._last:
            self._scene.clear_trails()
        self._last = time
        self._scene.place_at(self._task.model, q if self._cases > 1 else q[0], time=time)

    def rendered(self, episodes: Episodes) -> NDArray[np.uint8] | None:
        """Draw the present states as the mode says; a picture if it is that of pictures."""
        if self._mode == "human":
            self.show(episodes)
        return self.picture(episodes) if self._mode == "rgb_array" else None

    def picture(self, episodes: Episodes) -> NDArray[np.uint8]:
        """Return a picture of the present states."""
        self.show(episodes)
        if self._pictures is None:
            self._pictures = ScenePictures(self._scene, *PICTURE)
        found: NDArray[np.uint8] = self._pictures.take()
        return found

    @property
    def url(self) -> str | None:
        """Address of the scene; None before the first picture."""
        return None if self._scene is None else str(self._scene.url)

    def close(self) -> None:
        """Stop the browser without a window and the server."""
        if self._pictures is not None:
            self._pictures.close()
            self._pictures = None
        if self._scene is not None:
            self._scene.close()
            self._scene = None


class Env(gymnasium.Env):
    """One robot with a task: an environment of Gymnasium.

    Attributes:
        task: The task.
        observation_space, action_space: Boxes of float64.
    """

    metadata = {"render_modes": [*MODES], "render_fps": 50}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, task: Task | str, *, render_mode: str | None = None) -> None:
        """Make an environment.

        Args:
            task: The task, or the name of one of `TASKS`.
            render_mode: "human" for a live scene in the browser (extra ``tiburon[view]``),
                "rgb_array" for pictures of it by a browser without a window, or None.
        """
        self.task = _found(task)
        self._episodes = Episodes(self.task, 1)
        self.action_space, self.observation_space = _spaces(self.task)
        self.render_mode = render_mode
        interval = self.task.stepper.interval
        self.metadata = {**self.metadata, "render_fps": max(1, round(1.0 / interval))}
        self._screen = _Screen(self.task, 1, render_mode)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode; return its first observation and an empty mapping.

        Args:
            seed: Of the draws of this and all later episodes; they go on where they are if None.
            options: None, or empty: there are none.
        """
        super().reset(seed=seed)
        _refuse_options(options)
        seen = self._episodes.begin([self.np_random])
        if self.render_mode == "human":
            self.render()
        return seen[0].copy(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Take one control interval.

        Returns:
            Observation, reward, whether the episode has ended, whether it was truncated, and
            ``{"diverged": True}`` where a value was not finite.
        """
        episodes = self._episodes
        if episodes.now is None:
            raise ModelError("step: expected an episode that has begun, got none; call reset()")
        found = episodes.advance(np.asarray(action)[None])
        if self.render_mode == "human":
            self.render()
        info = {"diverged": True} if found.failed[0] else {}
        ended, cut = bool(episodes.terminated[0]), bool(episodes.truncated[0])
        return found.observation[0].copy(), float(found.reward[0]), ended, cut, info

    def render(self) -> NDArray[np.uint8] | None:
        """Show the robot in the live scene, or return a picture of it, as `render_mode` says."""
        return self._screen.rendered(self._episodes)

    @property
    def url(self) -> str | None:
        """Address of the live scene; None before the first picture."""
        return self._screen.url

    def close(self) -> None:
        """Close the scene."""
        self._screen.close()


class VectorEnv(vector.VectorEnv):
    """Many robots that learn a task: one native call per control interval.

    Each robot has its own seed, start, target and parameters. Results are those of
    ``gymnasium.vector.SyncVectorEnv`` of as many `Env`.

    Attributes:
        task: The task.
        num_envs: Number of robots.
        autoreset_mode: When robots whose episode has ended start again.
    """

    metadata = {"render_modes": [*MODES], "render_fps": 50}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        task: Task | str,
        num_envs: int = 1,
        *,
        autoreset_mode: Any = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
    ) -> None:
        """Make environments.

        Args:
            task: The task, or the name of one of `TASKS`.
            num_envs: How many robots.
            autoreset_mode: `AutoresetMode` of Gymnasium or its text: "NextStep", "SameStep" or
                "Disabled"; with the last, ``reset(options={"reset_mask": mask})`` starts robots
                again.
            copy: Whether observations are copies; else later steps overwrite them.
            render_mode: "human" for a live scene of the first robots, "rgb_array" for pictures of
                it, or None.
        """
        self.task = _found(task)
        self.num_envs = at_least("num_envs", num_envs, 1)
        modes = tuple(mode.value for mode in AutoresetMode)
        if autoreset_mode not in (*AutoresetMode, *modes):
            raise OptionError("autoreset_mode", modes, autoreset_mode)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.single_action_space, self.single_observation_space = _spaces(self.task)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        fps = max(1, round(1.0 / self.task.stepper.interval))
        self.metadata = {
            **self.metadata,
            "render_fps": fps,
            "autoreset_mode": self.autoreset_mode,
        }
        self.render_mode = render_mode
        self._copy = copy
        self._episodes = Episodes(self.task, self.num_envs)
        self._generators: list[np.random.Generator | None] = [None] * self.num_envs
        self._over = np.zeros(self.num_envs, dtype=bool)
        self._screen = _Screen(self.task, min(self.num_envs, MOST_SHOWN), render_mode)

    @property
    def np_random(self) -> tuple[Any, ...]:
        """Generators of all robots."""
        return tuple(self._generators)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Array, dict[str, Any]]:
        """Start episodes of all robots, or of those of a mask.

        Args:
            seed: One seed per robot; or a first one, the others follow it; or None to go on with
                the draws of each robot.
            options: ``{"reset_mask": mask}`` for the robots of a mask alone.
        """
        seeds = [None] * self.num_envs if seed is None else seed
        if isinstance(seeds, (int, np.integer)):
            seeds = [int(seeds) + k for k in range(self.num_envs)]
        if len(seeds) != self.num_envs:
            expected = f"{self.num_envs} seeds, or the first"
            raise DomainError("seed", expected, f"{len(seeds)}")
        which = self._masked(options)
        for k in which:
            if seeds[k] is not None or self._generators[k] is None:
                self._generators[k] = seeding.np_random(seeds[k])[0]
        episodes = self._episodes
        if len(which) == self.num_envs or episodes.now is None:
            if len(which) < self.num_envs:
                raise DomainError(
                    "reset_mask", "all robots at first", f"{len(which)} of {self.num_envs}"
                )
            episodes.begin(self._drawing(which))
        else:
            episodes.begin_some(which, self._drawing(which))
            episodes.truncated[which] = False
        self._over[which] = False
        assert episodes.now is not None
        if self.render_mode == "human":
            self.render()
        return self._seen(), {}

    def _masked(self, options: dict[str, Any] | None) -> NDArray[np.int64]:
        rest = dict(options or {})
        mask = rest.pop("reset_mask", None)
        _refuse_options(rest, ("reset_mask",))
        if mask is None:
            return np.arange(self.num_envs)
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            expected = f"one bool for each of {self.num_envs} robots, one of them True"
            raise DomainError("reset_mask", expected, f"shape {mask.shape} of type {mask.dtype}")
        return np.flatnonzero(mask)

    def _drawing(self, which: NDArray[np.int64]) -> list[np.random.Generator]:
        found = [self._generators[k] for k in which]
        return [generator for generator in found if generator is not None]

    def _seen(self) -> Array:
        assert self._episodes.now is not None
        seen = self._episodes.now.observation
        return seen.copy() if self._copy else seen

    def step(
        self, actions: Any
    ) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take one control interval of all robots.

        Returns:
            Observations, rewards, which episodes have ended, which were truncated, and further
            information: "diverged", and with "SameStep" the last observations "final_obs".
        """
        episodes, mode = self._episodes, self.autoreset_mode
        if episodes.now is None:
            raise ModelError("step: expected episodes that have begun, got none; call reset()")
        again = np.flatnonzero(self._over)
        if mode == AutoresetMode.DISABLED and len(again):
            raise ModelError(
                f"step: the episodes of {len(again)} robots are over, robot {again[0]} first; "
                "start them again with reset(options={'reset_mask': mask})"
            )
        if mode == AutoresetMode.NEXT_STEP:
            found = episodes.advance(actions, again, self._drawing(again))
        else:
            found = episodes.advance(actions)
        ended, cut = episodes.terminated, episodes.truncated.copy()
        reward = found.reward.copy()
        info: dict[str, Any] = {}
        over = ended | cut
        for k in np.flatnonzero(found.failed):
            info = self._add_info(info, {"diverged": True}, int(k))
        if mode == AutoresetMode.SAME_STEP and over.any():
            which = np.flatnonzero(over)
            for k in which:
                last = {"final_obs": found.observation[k].copy()}
                last["final_info"] = {"diverged": True} if found.failed[k] else {}
                info = self._add_info(info, last, int(k))
            episodes.begin_some(which, self._drawing(which))
            over = np.zeros_like(over)
        self._over = over
        if self.render_mode == "human":
            self.render()
        return self._seen(), reward, ended, cut, info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Show the first robots in the live scene, or return one picture of them in a tuple."""
        found = self._screen.rendered(self._episodes)
        return None if found is None else (found,)

    @property
    def url(self) -> str | None:
        """Address of the live scene; None before the first picture."""
        return self._screen.url

    def close_extras(self, **kwargs: Any) -> None:
        """Close the scene."""
        self._screen.close()


def _refuse_options(options: dict[str, Any] | None, known: tuple[str, ...] = ()) -> None:
    for name in options or {}:
        raise OptionError("options", known or ("none",), name)


def register() -> None:
    """Register the reference tasks with Gymnasium, as ``tiburon/CartPole-v0`` and so on."""
    for name in TASKS:
        words = "".join(word.capitalize() for word in name.split("_"))
        identity = f"tiburon/{words}-v0"
        if identity not in gymnasium.registry:
            gymnasium.register(
                id=identity,
                entry_point="tiburon.interfaces.gym:Env",
                vector_entry_point="tiburon.interfaces.gym:VectorEnv",
                kwargs={"task": name},
            )


register()
