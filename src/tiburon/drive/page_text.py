"""The page for operators, put together from the modules of the replay page and its own."""

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
"""Modules of the replay page that draw: the robot, the water and all around."""

MODULES = ("sticks", "gauges", "desk", "main")
"""Modules of this page, each after those it imports."""

ROOM = 4.0
"""How far below a vehicle in the sea its floor lies, in lengths of the vehicle."""


def drive_page(drive: Drive) -> str:
    """Return the page of a robot as it stands at the start."""
    model, world = drive.model, drive.world
    q = drive.ticker.latest().state[: model.nq]
    packer, scene, times = Packer(), scene_of(model), np.zeros(1)
    limits = np.array([max(map(abs, t.thrust_limits)) for t in model.thrusters])
    thrust = np.where(np.isfinite(limits), limits, 0.0)[None] if len(limits) else None
    track = Track(model, None, q, None, thrust)
    motion = sample_motion(track, times, 1)
    bounds = bounds_of([scene], [motion], slice(None))
    if world.fluid is not None:
        bounds = Bounds(bounds.low - np.array([0.0, 0.0, ROOM * scene.size]), bounds.high)
    around = surroundings(world, bounds, scene.size, times, packer)
    if around["water"] is not None:
        # specks drift with the current as it is now; arrows would show that of the start
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
