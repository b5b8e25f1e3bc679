"""What is around the robots of a replay: floor, water and its currents, and how large it all is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.model import Water, World
from tiburon.viewer.replay_data import Packer
from tiburon.viewer.replay_motion import Film
from tiburon.viewer.scene import Scene, half_extents

__all__ = ["Bounds", "bounds_of", "surroundings", "view_rotation"]

Array = NDArray[np.float64]

SAMPLED_FRAMES = 120
"""Frames looked at to find how far a run reaches."""

CURRENT_TIMES = 60
"""Instants at which a current that changes is sampled."""

DENSE = 100.0
"""Density above which a fluid is drawn as water [kg/m^3]: air is not."""


class Bounds:
    """A box around what is shown, in axes of the page [m]."""

    def __init__(self, low: Array, high: Array) -> None:
        self.low = low
        self.high = high

    def json(self) -> dict[str, list[float]]:
        """Return it for the page."""
        return {"low": self.low.tolist(), "high": self.high.tolist()}


def view_rotation(world: World) -> Array:
    """Return the rotation from world axes to those of the page, where up is z, shape (3, 3)."""
    g = np.array(world.gravity)
    size = np.linalg.norm(g)
    if size == 0.0:
        return np.eye(3)
    up = -g / size
    across = np.array([up[1], -up[0], 0.0])
    sine, cosine = float(np.linalg.norm(across)), float(up[2])
    if sine < 1e-9:
        return np.eye(3) if cosine > 0.0 else np.diag([1.0, -1.0, -1.0])
    x, y, z = across / sine
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turned: Array = np.eye(3) + sine * K + (1.0 - cosine) * (K @ K)
    return turned


def bounds_of(scenes: Sequence[Scene], films: Sequence[Film], frames: slice) -> Bounds:
    """Return the box around all robots over some frames; NaN poses are left out."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for scene, film in zip(scenes, films, strict=True):
        poses = film.poses[frames]
        step = max(1, len(poses) // SAMPLED_FRAMES)
        poses = poses[::step]
        for number, body in enumerate(scene.bodies):
            pose = poses[:, :, number].reshape(-1, 7)
            pose = pose[np.isfinite(pose).all(axis=-1)]
            if not len(pose):
                continue
            R = _matrices(pose[:, :4])
            low, high = (
                np.fmin(low, pose[:, 4:].min(axis=0)),
                np.fmax(high, pose[:, 4:].max(axis=0)),
            )
            for part in body.parts:
                middle, reach = half_extents(part, R)
                low = np.fmin(low, (pose[:, 4:] + middle - reach).min(axis=0))
                high = np.fmax(high, (pose[:, 4:] + middle + reach).max(axis=0))
    if not np.isfinite(low).all():
        return Bounds(-np.ones(3), np.ones(3))
    return Bounds(low, high)


def surroundings(
    world: World, bounds: Bounds, size: float, times: Array, packer: Packer
) -> dict[str, Any]:
    """Return floor, water and current for the page.

    The floor is the world's ground; without one a robot on land stands on z = 0, or hangs above a
    floor as deep as it reaches, and the sea has a bed some lengths below.

    Args:
        world: Gravity, ground, fluid.
        bounds: Around the whole run.
        size: Rough extent of the robots [m].
        times: Of the frames [s].
        packer: Takes the tables.
    """
    view = view_rotation(world)
    upright = bool(view[2, 2] > 1.0 - 1e-9)
    fluid = world.fluid if world.fluid is not None and world.fluid.density > DENSE else None
    weightless = not any(world.gravity)
    found: dict[str, Any] = {"space": weightless and fluid is None and world.ground is None}
    found["axes"] = view.tolist()
    lowest = float(bounds.low[2])
    if world.ground is not None and upright:
        found["floor"] = world.ground.height
        if world.ground.grid is not None:
            grid = world.ground.grid
            found["grid"] = {
                "heights": packer.add(grid.array + world.ground.height),
                "origin": list(grid.origin),
                "spacing": list(grid.spacing),
            }
    elif fluid is not None:
        found["floor"] = lowest - 1.6 * size
    elif weightless:
        found["floor"] = None
    else:
        # a sole that dips in by a millimeter still stands on z = 0
        found["floor"] = 0.0 if lowest > -0.02 * size else lowest - 0.05 * size
    found["water"] = None if fluid is None else _water(fluid, view, bounds, size, times, packer)
    return found


def _water(
    fluid: Water, view: Array, bounds: Bounds, size: float, times: Array, packer: Packer
) -> dict[str, Any]:
    surface = fluid.surface if view[2, 2] > 1.0 - 1e-9 else None
    return {
        "surface": surface,
        "density": fluid.density,
        "current": _current(fluid, view, bounds, size, times, packer),
    }


def _current(
    fluid: Water, view: Array, bounds: Bounds, size: float, times: Array, packer: Packer
) -> dict[str, Any] | None:
    """Sample the velocity of the water around the run; None where it stands still."""
    motion = fluid.motion
    margin = 1.2 * size
    low, high = bounds.low - margin, bounds.high + margin
    if fluid.surface is not None and view[2, 2] > 1.0 - 1e-9:
        high[2] = min(high[2], fluid.surface - 0.05 * size)
        low[2] = min(low[2], high[2] - size)
    axes = [
        np.linspace(a, b, n) for a, b, n in zip(low.tolist(), high.tolist(), (5, 5, 3), strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    count = min(CURRENT_TIMES, len(times)) if fluid.depends_on_time else 1
    instants = np.linspace(times[0], times[-1], count)
    velocity = np.empty((count, len(points), 3))
    for i, time in enumerate(instants.tolist()):
        for j, point in enumerate((points @ view).tolist()):
            x, y, z = point
            velocity[i, j] = [float(part) for part in motion.velocity(time, (x, y, z))]
    fastest = float(np.linalg.norm(velocity, axis=-1).max())
    if fastest == 0.0 or not np.isfinite(fastest):
        return None
    return {
        "points": packer.add(points),
        "velocity": packer.add(velocity @ view.T),
        "times": packer.add(instants - times[0]),
        "fastest": fastest,
    }


def _matrices(quaternion: Array) -> Array:
    """Return rotation matrices of unit quaternions (w, x, y, z), shape (n, 3, 3)."""
    w, x, y, z = quaternion.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)
