"""Plots, replay pages and live scenes of given data; nothing here simulates."""

from typing import TYPE_CHECKING

from tiburon.lazy import load_on_use

if TYPE_CHECKING:
    from tiburon.viewer.live import LiveScene as LiveScene
    from tiburon.viewer.live_replay import LiveReplay as LiveReplay
    from tiburon.viewer.motion import Track as Track
    from tiburon.viewer.replay import replay_html as replay_html
    from tiburon.viewer.replay import save_html as save_html
    from tiburon.viewer.scene import scene_of as scene_of
else:
    __getattr__ = load_on_use(
        globals(),
        {
            "tiburon.viewer.live": ("LiveScene",),
            "tiburon.viewer.live_replay": ("LiveReplay",),
            "tiburon.viewer.replay": ("replay_html", "save_html"),
            "tiburon.viewer.motion": ("Track",),
            "tiburon.viewer.scene": ("scene_of",),
        },
    )
