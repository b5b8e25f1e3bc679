"""The operator page, built from the modules of the replay page and its own."""

from pathlib import Path

import numpy as np

from tiburon.drive.session import Drive
from tiburon.viewer.motion import Track, sample_motion
from tiburon.viewer.packing import Packer
from tiburon.viewer.replay import PAGE, page_text, robot_json
from tiburon.viewer.scene import scene_of
from tiburon.viewer.surroundings import Bounds, bounds_of, surroundings, view_rotation

__all__ = ["drive_page"]

OWN = Path(__file__).parent / "page"

SHARED = ("decode", "solids", "sky", "floor", "arrows", "sea", "robot", "camera")
"""Modules of the replay page that draw robot, water and surroundings."""

MODULES = ("sticks", "gauges", "desk", "main")
"""Modules of this page, in order of import."""

FLOOR_DEPTH = 4.0
"""Depth of the sea bed below a vehicle over the size of the vehicle."""


def drive_page(drive: Drive) -> str:
    """Return the page of a robot in its initial state."""
    model, world = drive.model, drive.world
    q = drive.ticker.latest().state[: model.nq]
    packer, scene, times = Packer(), scene_of(model), np.zeros(1)
    limits = np.array([max(map(abs, t.thrust_limits)) for t in model.thrusters])
    thrust = np.where(np.isfinite(limits), limits, 0.0)[None] if len(limits) else None
    track = Track(model, None, q, None, thrust)
    motion = sample_motion(track, times, 1)
    bounds = bounds_of([scene], [motion], slice(None))
    if world.fluid is not None:
        bounds = Bounds(bounds.low - np.array([0.0, 0.0, FLOOR_DEPTH * scene.size]), bounds.high)
    around = surroundings(world, bounds, scene.size, times, packer)
    if around["water"] is not None:
        # particles drift with the live current; arrows would show the initial one
        around["water"]["current"] = None
    document = {
        "version": 1,
        "title": model.name,
        "about": model.about,
        "robots": [robot_json(scene, motion, track, packer)],
        "first": bounds_of([scene], [motion], slice(1)).json(),
        "surroundings": around,
        "axes": view_rotation(world).tolist(),
    }
    modules = [PAGE / f"{name}.js" for name in SHARED] + [OWN / f"{name}.js" for name in MODULES]
    styles = (PAGE / "style.css", OWN / "drive.css")
    return page_text(document, packer, OWN / "drive.html", styles, modules)
