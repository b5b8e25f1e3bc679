"""Surroundings in the live scene: light, floor, water, currents, and the background."""

from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.model import World
from tiburon.viewer.live_robot import lathe
from tiburon.viewer.scene import Mesh
from tiburon.viewer.surroundings import (
    Bounds,
    current_grid,
    current_velocities,
    floor_height,
    is_upright,
    is_weightless,
    view_rotation,
    water_of,
)

__all__ = ["LiveSurroundings"]

Array = NDArray[np.float64]
Shade = tuple[int, int, int]

LAND: tuple[Shade, Shade, Shade] = ((143, 176, 207), (217, 227, 234), (185, 195, 203))
SHALLOW: tuple[Shade, Shade, Shade] = ((128, 210, 222), (44, 128, 156), (14, 60, 86))
DEEP: tuple[Shade, Shade, Shade] = ((18, 66, 92), (8, 38, 60), (3, 16, 28))
SPACE: tuple[Shade, Shade, Shade] = ((11, 16, 32), (18, 26, 46), (7, 10, 20))
"""Background colors: above, at the horizon, below."""

FADING_DEPTH = 40.0
"""Depth over which the color of water changes from SHALLOW to DEEP by a factor e [m]."""

TINT_STEPS = 10
"""Color steps between SHALLOW and DEEP: backgrounds are images, sent as a whole."""


class LiveSurroundings:
    """Floor, water and light, drawn once; the background depends on the camera of each browser.

    Attributes:
        floor: Height of the floor [m]; None in weightlessness.
        water: The water, if any; air is not drawn.
    """

    def __init__(self, api: Any, root: str, world: World, bounds: Bounds, size: float) -> None:
        self._api = api
        self._root = root
        self._size = size
        self._view = view_rotation(world)
        self._upright = is_upright(world)
        self._space = is_weightless(world)
        self.water = water_of(world)
        self.floor = floor_height(world, bounds, size)
        self._bounds = bounds
        self._backgrounds: dict[int, str] = {}
        self._wet: list[Any] = []
        self._arrows: Any = None
        self._add_light()
        self._build_floor(world)
        if self.water is not None:
            self._build_water(world)

    @property
    def surface(self) -> float | None:
        """Height of the water's surface [m]; None without one."""
        return self.water.surface if self.water is not None and self._upright else None

    def _add_light(self) -> None:
        self._api.configure_default_lights(True, cast_shadow=True)
        self._api.configure_environment_map("studio", environment_intensity=0.16)
        self._api.add_light_hemisphere(
            "/ambient light",
            sky_color=(205, 234, 242) if self.water is not None else (244, 248, 255),
            ground_color=(61, 100, 112) if self.water is not None else (154, 150, 142),
            intensity=0.35 if self.water is not None else 0.2,
        )

    def _build_floor(self, world: World) -> None:
        if self.floor is None:
            return
        wet = self.water is not None
        grid = world.ground.grid if world.ground is not None and self._upright else None
        if grid is not None and world.ground is not None:
            heights = grid.array + world.ground.height
            self._add(
                "floor", _uneven(heights, grid.origin, grid.spacing), (204, 210, 216), side="double"
            )
            return
        cell = _round_length(self._size / 1.5)
        self._api.add_grid(
            f"{self._root}/floor",
            infinite_grid=True,
            cell_size=cell,
            section_size=5.0 * cell,
            cell_color=(118, 128, 112) if wet else (172, 180, 188),
            section_color=(108, 118, 104) if wet else (140, 150, 160),
            fade_distance=16.0 * self._size,
            fade_strength=1.2,
            shadow_opacity=0.35,
            plane_color=(124, 134, 116) if wet else (204, 210, 216),
            plane_opacity=1.0,
            # slightly lower, so that feet on the floor do not flicker
            position=(0.0, 0.0, self.floor - 0.002 * self._size),
        )

    def _build_water(self, world: World) -> None:
        if self.surface is not None:
            reach = 20.0 * self._size
            disk = lathe(np.array([[0.0, 0.0], [0.3 * reach, 0.0], [reach, 0.0]]))
            node = self._add(
                "surface",
                disk,
                (70, 168, 190),
                opacity=0.42,
                side="double",
                cast_shadow=False,
                receive_shadow=False,
                position=(0.0, 0.0, self.surface),
            )
            self._wet.append(node)
        self._points = current_grid(world, self._bounds, self._size)
        self._fastest = 0.0
        self._flow_time = float("nan")
        self.update(0.0)

    def update(self, time: float) -> None:
        """Draw the current at a time [s]."""
        water = self.water
        if water is None or (self._flow_time == self._flow_time and not water.depends_on_time):
            return
        # currents change over seconds: arrows are not updated in every frame
        if abs(time - self._flow_time) < 0.1:
            return
        self._flow_time = time
        vectors = current_velocities(water, self._view, self._points, time)
        sizes = np.linalg.norm(vectors, axis=-1)
        self._fastest = max(self._fastest, float(sizes[np.isfinite(sizes)].max(initial=0.0)))
        seen = np.isfinite(sizes) & (sizes > 0.03 * self._fastest)
        if not seen.any():
            return
        start = self._points[seen]
        end = start + vectors[seen] * (0.36 * self._size / self._fastest)
        points = np.stack([start, end], axis=1).astype(np.float32)
        if self._arrows is None:
            self._arrows = self._api.add_arrows(
                f"{self._root}/current",
                points,
                (130, 200, 214),
                shaft_radius=0.0035 * self._size,
                head_radius=0.012 * self._size,
                head_length=0.05 * self._size,
            )
            self._wet.append(self._arrows)
        else:
            self._arrows.points = points

    def show_water(self, on: bool) -> None:
        """Switch surface and arrows of the current on or off."""
        for node in self._wet:
            node.visible = on

    # -- background --------------------------------------------------------------------------------

    def set_background(self, client: Any, client_id: int, height: float) -> None:
        """Set background and fog of one browser according to the height of its camera.

        Args:
            client: Its scene.
            client_id: Identifier of the browser.
            height: Height of its camera, page axes [m].
        """
        name, colors = self._background(height)
        if self._backgrounds.get(client_id) == name:
            return
        self._backgrounds[client_id] = name
        client.set_background_image(_gradient(colors), format="png")
        near, far = (3.5, 22.0) if name.startswith("sea") else (8.0, 45.0)
        client.configure_fog(
            near * self._size, far * self._size, color=colors[1], enabled=name != "space"
        )

    def remove_client(self, client_id: int) -> None:
        """Remove a disconnected browser."""
        self._backgrounds.pop(client_id, None)

    def _background(self, height: float) -> tuple[str, tuple[Shade, Shade, Shade]]:
        if self._space:
            return "space", SPACE
        top = self.surface
        if self.water is None or (top is not None and height > top):
            return "land", LAND
        # without a surface the depth is unknown: drawn as shallow
        depth = 0.0 if top is None else top - height
        step = round(TINT_STEPS * (1.0 - float(np.exp(-depth / FADING_DEPTH))))
        share = step / TINT_STEPS
        first, second, third = (_mixed(a, b, share) for a, b in zip(SHALLOW, DEEP, strict=True))
        return f"sea {step}", (first, second, third)

    def _add(self, name: str, mesh: Mesh, color: Shade, **options: Any) -> Any:
        return self._api.add_mesh_simple(
            f"{self._root}/{name}", mesh.vertices, mesh.triangles, color=color, **options
        )


def _round_length(length: float) -> float:
    """Return 1, 2 or 5 times a power of ten near a length [m]."""
    power: float = 10.0 ** np.floor(np.log10(length))
    return power * min((1.0, 2.0, 5.0, 10.0), key=lambda step: abs(step - length / power))


def _uneven(heights: Array, origin: tuple[float, ...], spacing: tuple[float, ...]) -> Mesh:
    rows, columns = heights.shape
    x = origin[0] + spacing[0] * np.arange(rows)
    y = origin[1] + spacing[1] * np.arange(columns)
    places = np.stack([*np.meshgrid(x, y, indexing="ij"), heights], axis=-1).reshape(-1, 3)
    k = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    corners = np.concatenate(
        [
            np.stack([k, k + columns, k + 1], axis=-1),
            np.stack([k + 1, k + columns, k + columns + 1], axis=-1),
        ]
    )
    return Mesh(places.astype(np.float32), corners.astype(np.int32))


def _mixed(a: Shade, b: Shade, share: float) -> Shade:
    x, y, z = (round((1.0 - share) * p + share * q) for p, q in zip(a, b, strict=True))
    return (x, y, z)


def _gradient(colors: tuple[Shade, Shade, Shade]) -> NDArray[np.uint8]:
    """Return an image with a vertical gradient of colors, shape (256, 8, 3)."""
    rows = np.linspace(0.0, 2.0, 256)
    channels = [np.interp(rows, [0.0, 1.0, 2.0], [c[k] for c in colors]) for k in range(3)]
    picture = np.stack(channels, axis=-1).round().astype(np.uint8)
    return np.repeat(picture[:, None], 8, axis=1)
