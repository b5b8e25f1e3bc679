"""Surroundings of robots in replays and in the live scene: bounds, floor, water and currents."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.model import WORLD, Water, World
from tiburon.viewer.motion import Motion
from tiburon.viewer.packing import Packer
from tiburon.viewer.scene import Scene, half_extents, quaternions

BOUNDS_FRAMES = 120
"""Frames sampled to find the bounds of a run."""

CURRENT_TIMES = 60
"""Times at which a time-dependent current is sampled."""

CURRENT_GRID = (5, 5, 3)
"""Grid points of a current along x, y and z."""

WATER_DENSITY = 100.0
"""Density above which a fluid is drawn as water, unlike air [kg/m^3]."""


class Bounds(NamedTuple):
    """An axis-aligned box around a scene, page axes [m]."""

    low: Array
    high: Array

    def json(self) -> dict[str, list[float]]:
        """Return the box for the page."""
        return {"low": self.low.tolist(), "high": self.high.tolist()}


def view_rotation(world: World) -> Array:
    """Return the rotation from world axes to page axes, where z is up, shape (3, 3)."""
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
    R: Array = np.eye(3) + sine * K + (1.0 - cosine) * (K @ K)
    return R


def is_upright(world: World) -> bool:
    """Return whether page axes are world axes up to a rotation about z."""
    return bool(view_rotation(world)[2, 2] > 1.0 - 1e-9)


def water_of(world: World) -> Water | None:
    """Return the fluid of a world if it is drawn as water."""
    fluid = world.fluid
    return fluid if fluid is not None and fluid.density > WATER_DENSITY else None


def is_weightless(world: World) -> bool:
    """Return whether a world is drawn as space: no gravity, ground or water."""
    return not any(world.gravity) and water_of(world) is None and world.ground is None


def floor_height(world: World, bounds: Bounds, size: float) -> float | None:
    """Return the height of the floor, page axes [m]; None in weightlessness.

    The floor is the world's ground; where gravity is tilted, the height is along its normal.
    Without ground, robots on land stand on z = 0 or hang above a floor just below their lowest
    point, and the sea bed is some robot sizes below them.

    Args:
        world: Gravity, ground, fluid.
        bounds: Bounds of the whole run.
        size: Approximate extent of the robots [m].
    """
    lowest = float(bounds.low[2])
    if world.ground is not None:
        return world.ground.height
    if water_of(world) is not None:
        return lowest - 1.6 * size
    if not any(world.gravity):
        return None
    # feet that penetrate by a millimeter still stand on z = 0
    return 0.0 if lowest > -0.02 * size else lowest - 0.05 * size


def ground_tilt(world: World) -> list[float] | None:
    """Return the orientation of the ground, page axes (w, x, y, z); None if it is level."""
    if world.ground is None or is_upright(world):
        return None
    tilt: list[float] = quaternions(view_rotation(world)).tolist()
    return tilt


def bounds_of(scenes: Sequence[Scene], motions: Sequence[Motion], frames: slice) -> Bounds:
    """Return the box around all robots over some frames; NaN poses are ignored."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for scene, motion in zip(scenes, motions, strict=True):
        for line in scene.lines:
            for name, point in ((line.first, line.first_point), (line.second, line.second_point)):
                if name == WORLD:
                    low, high = np.fmin(low, point), np.fmax(high, point)
        poses = motion.poses[frames]
        step = max(1, len(poses) // BOUNDS_FRAMES)
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


def current_grid(world: World, bounds: Bounds, size: float) -> Array:
    """Return the points at which a current is drawn, page axes [m], shape (75, 3)."""
    margin = 1.2 * size
    low, high = bounds.low - margin, bounds.high + margin
    water = water_of(world)
    if water is not None and water.surface is not None and is_upright(world):
        high[2] = min(high[2], water.surface - 0.05 * size)
        low[2] = min(low[2], high[2] - size)
    axes = [
        np.linspace(a, b, n)
        for a, b, n in zip(low.tolist(), high.tolist(), CURRENT_GRID, strict=True)
    ]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def current_velocities(water: Water, view: Array, points: Array, time: float) -> Array:
    """Return the velocity of the water at points, page axes [m/s], shape (n, 3).

    Args:
        water: The water.
        view: Rotation from world axes to page axes, shape (3, 3).
        points: Page axes [m], shape (n, 3).
        time: Time [s].
    """
    found = []
    for x, y, z in (points @ view).tolist():
        found.append([float(part) for part in water.motion.velocity(time, (x, y, z))])
    return np.array(found) @ view.T


def surroundings(
    world: World, bounds: Bounds, size: float, times: Array, packer: Packer
) -> dict[str, Any]:
    """Return floor, water and current for the page.

    Args:
        world: Gravity, ground, fluid.
        bounds: Bounds of the whole run.
        size: Approximate extent of the robots [m].
        times: Times of the frames [s].
        packer: Receives the arrays.
    """
    found: dict[str, Any] = {
        "space": is_weightless(world),
        "axes": view_rotation(world).tolist(),
        "floor": floor_height(world, bounds, size),
        "tilt": ground_tilt(world),
        "water": None,
    }
    grid = None if world.ground is None else world.ground.grid
    if grid is not None and world.ground is not None:
        found["grid"] = {
            "heights": packer.add(grid.array + world.ground.height),
            "origin": list(grid.origin),
            "spacing": list(grid.spacing),
        }
    water = water_of(world)
    if water is not None:
        found["water"] = {
            "surface": water.surface if is_upright(world) else None,
            "density": water.density,
            "current": _current(water, world, bounds, size, times, packer),
        }
    return found


def _current(
    water: Water, world: World, bounds: Bounds, size: float, times: Array, packer: Packer
) -> dict[str, Any] | None:
    """Sample the velocity of the water around the run; None for water at rest."""
    view, points = view_rotation(world), current_grid(world, bounds, size)
    count = min(CURRENT_TIMES, len(times)) if water.depends_on_time else 1
    sampled = np.linspace(times[0], times[-1], count)
    velocity = np.array([current_velocities(water, view, points, t) for t in sampled.tolist()])
    fastest = float(np.linalg.norm(velocity, axis=-1).max())
    if fastest == 0.0 or not np.isfinite(fastest):
        return None
    return {
        "points": packer.add(points),
        "velocity": packer.add(velocity),
        "times": packer.add(sampled - times[0]),
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
